#include <criterion/criterion.h>
#include <errno.h>

#include "chaos/load/load_chat_internal.h"
#include "chaos/load/load_sse.h"
#include "chaos/load/load_stats.h"
#include "failing_alloc.h"

static bool
count(void)
{
    struct load_stats stats;
    int r = load_stats_init(&stats, 10);

    cr_assert(r == 0 || r == -ENOMEM);
    if (r == 0) {
        load_stats_fini(&stats);
    }
    return r == 0;
}

static bool
talk(void)
{
    struct load_chat chat;

    load_chat_init(&chat, 10000);
    load_chat_begin(&chat, "m", 1);
    for (int i = 0; i < 20; i++) {
        load_chat_open(&chat, "user");
        buf_add_text(&chat.json, "hello, how are you and where is everyone?");
        load_chat_close(&chat);
    }
    bool whole = load_chat_body(&chat).len != 0;
    load_chat_fini(&chat);
    return whole;
}

static bool
hear(void)
{
    static const char answer[] =
        "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
        "data: [DONE]\n\n";
    struct load_sse sse;

    load_sse_init(&sse, 1000);
    int r = load_sse_feed(&sse, (struct slice){answer, 10});
    if (r == 0) {
        r = load_sse_feed(&sse, slice_of(answer + 10));
    }
    cr_assert_eq(r == 0, sse.fault == NULL);
    load_sse_fini(&sse);
    return r == 0;
}

static void
fail_each(bool (*path)(void), uint64_t allocations)
{
    uint64_t n = 0;
    uint64_t failures = 0;

    for (; failing_alloc_after(n); n++) {
        failures += !path();
    }
    failing_alloc_stop();
    cr_assert_eq(n, allocations + 1, "%d", (int)n);
    cr_assert_eq(failures, allocations);
    cr_assert(path());
}

Test(chaos_load_memory, each_path_survives_each_allocation_failing)
{
    fail_each(count, 2);
    fail_each(talk, 4);
    fail_each(hear, 3);
}
