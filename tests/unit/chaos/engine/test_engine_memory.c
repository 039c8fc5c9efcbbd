#include <criterion/criterion.h>
#include <errno.h>

#include "chaos/engine/engine_events.h"
#include "chaos/engine/engine_events_log_internal.h"
#include "chaos/engine/engine_model.h"
#include "chaos/engine/engine_prompt_internal.h"
#include "failing_alloc.h"

static const struct engine_config config = {
    .blocks_max = 64,
    .block_tokens = 16,
    .running_max = 8,
    .batch_tokens_max = 512,
    .requests_max = 4,
    .request_tokens_max = 1024,
    .prefill_tokens_per_s = 100000,
    .step_us = 1000,
    .events = true,
};

/* An engine and two requests to their end; false: memory was out. */
static bool
live(void)
{
    static uint32_t ids[100];
    struct engine engine;
    struct engine_out out;
    const char *reason;
    uint64_t ticket;
    uint32_t ends = 0;
    uint32_t submitted = 0;
    int r = engine_init(&engine, &config, 0, 1);

    if (r != 0) {
        cr_assert_eq(r, -ENOMEM);
        return false;
    }
    struct engine_request request = {
        .prompt = ids, .prompt_len = 100, .output_len = 5};
    for (int i = 0; i < 2; i++) {
        r = engine_submit(&engine, &request, 0, &ticket);
        cr_assert(r == 0 || r == -ENOMEM);
        submitted += r == 0;
        cr_assert(engine_check(&engine, &reason), "%s", reason);
    }
    while (engine_deadline(&engine) != UINT64_MAX) {
        engine_tick(&engine, engine_deadline(&engine));
        while (engine_next_out(&engine, &out)) {
            ends += out.kind == ENGINE_OUT_END;
        }
    }
    cr_assert_eq(ends, submitted);
    engine_fini(&engine);
    return submitted == 2;
}

Test(chaos_engine_memory, the_model_survives_each_allocation_failing)
{
    uint64_t n = 0;
    uint64_t failures = 0;

    for (; failing_alloc_after(n); n++) {
        failures += !live();
    }
    failing_alloc_stop();
    cr_assert_gt(n, 8);
    cr_assert_eq(failures, n - 1);
    cr_assert(live());
}

/* Five batches through batch and log; how many of them were lost. Each has its
 * number all the same. */
static uint32_t
publish(void)
{
    static const struct engine_events_format format = {.block_tokens = 16};
    struct engine_events_log event_log;
    struct engine_batch batch;
    struct slice found;
    struct buf payload;
    uint32_t lost = 0;

    engine_batch_init(&batch, &format);
    buf_init(&payload, 1000);
    int r = engine_events_log_init(&event_log, 3, 1000);
    cr_assert(r == 0 || r == -ENOMEM);
    for (uint64_t i = 0; r == 0 && i < 5; i++) {
        engine_batch_add(
            &batch,
            &(struct engine_event){.kind = ENGINE_EVENT_REMOVED, .key = i},
            NULL);
        buf_clear(&payload);
        engine_batch_seal(&batch, 0, &payload);
        if (payload.failed) {
            buf_clear(&payload);
        }
        cr_assert_eq(engine_events_log_push(&event_log, buf_slice(&payload)),
                     i);
        lost += !engine_events_log_find(&event_log, i, &found);
    }
    engine_batch_fini(&batch);
    buf_fini(&payload);
    engine_events_log_fini(&event_log);
    return r == 0 ? lost : 5;
}

Test(chaos_engine_memory, what_memory_is_missing_for_is_a_numbered_hole)
{
    uint64_t n = 0;
    uint64_t failures = 0;

    for (; failing_alloc_after(n); n++) {
        failures += publish() > 0;
    }
    failing_alloc_stop();
    cr_assert_gt(n, 8);
    cr_assert_eq(failures, n - 1);
    cr_assert_eq(publish(), 0);
}

static bool
render(void)
{
    static struct engine_prompt prompt;

    engine_prompt_init(&prompt, 1000);
    cr_assert_eq(engine_prompt_scan(&prompt,
                                    SLICE("{\"messages\":[{\"role\":\"user\","
                                          "\"content\":\"a\\nb\"}]}"),
                                    SCAN_API_CHAT),
                 0);
    int r = engine_prompt_render(&prompt, true);
    cr_assert(r == 0 || r == ENGINE_PROMPT_E_MEMORY);
    engine_prompt_fini(&prompt);
    return r == 0;
}

Test(chaos_engine_memory, a_prompt_survives_each_allocation_failing)
{
    uint64_t n = 0;
    uint64_t failures = 0;

    for (; failing_alloc_after(n); n++) {
        failures += !render();
    }
    failing_alloc_stop();
    cr_assert_eq(n, 3);
    cr_assert_eq(failures, 2);
    cr_assert(render());
}
