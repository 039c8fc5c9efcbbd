/* Engines: the model, what it publishes, and the true contents of its cache in
 * our own keys, computed independently of the code under test. */
#include <stdlib.h>

#include "chaos/sim/sim_request_internal.h"

#define FAMILIES 6U
#define REQUESTS 12U

/* Truth */

static uint32_t
slot_of(const struct sim_engine *e, uint64_t name)
{
    uint32_t at = (uint32_t)rng_mix(name) & (SIM_TRUTH_SLOTS - 1);

    CHECK(e->count < SIM_TRUTH_SLOTS);
    while (e->truth[at].copies != 0 && e->truth[at].name != name) {
        at = (at + 1) & (SIM_TRUTH_SLOTS - 1);
    }
    return at;
}

/* Moves up the entries after a freed one that would no longer be found. */
static void
close_gap(struct sim_engine *e, uint32_t at)
{
    uint32_t mask = SIM_TRUTH_SLOTS - 1;

    CHECK(e->truth[at].copies == 0);
    for (uint32_t next = (at + 1) & mask; e->truth[next].copies != 0;
         next = (next + 1) & mask) {
        uint32_t home = (uint32_t)rng_mix(e->truth[next].name) & mask;
        if (((next - home) & mask) >= ((next - at) & mask)) {
            e->truth[at] = e->truth[next];
            e->truth[next].copies = 0;
            at = next;
        }
    }
}

static void
forget_all(struct sim_engine *e)
{
    memset(e->truth, 0, sizeof e->truth);
    e->count = 0;
    e->xor_keys = 0;
}

static void
note_stored(struct sim_engine *e, const struct engine_event *event)
{
    uint32_t at = slot_of(e, event->key);
    uint64_t parent = key_token_root(SLICE(""), SLICE(""));

    if (e->truth[at].copies++ != 0) {
        return;
    }
    if (event->depth > 0) {
        uint32_t before = slot_of(e, event->parent);
        CHECK(e->truth[before].copies != 0 && before != at);
        parent = e->truth[before].key;
    }
    e->truth[at].name = event->key;
    e->truth[at].key =
        key_next(parent, event->tokens, event->tokens_len * sizeof(uint32_t));
    e->count++;
    e->xor_keys ^= rng_mix(e->truth[at].key);
    CHECK(e->count < SIM_TRUTH_SLOTS);
}

static void
note_removed(struct sim_engine *e, uint64_t name)
{
    uint32_t at = slot_of(e, name);

    CHECK(e->count > 0);
    CHECK(e->truth[at].copies != 0);
    if (--e->truth[at].copies == 0) {
        e->count--;
        e->xor_keys ^= rng_mix(e->truth[at].key);
        close_gap(e, at);
    }
}

static void
note(struct sim_engine *e, const struct engine_event *event)
{
    switch (event->kind) {
    case ENGINE_EVENT_STORED:
        note_stored(e, event);
        break;
    case ENGINE_EVENT_REMOVED:
        note_removed(e, event->key);
        break;
    case ENGINE_EVENT_CLEARED:
        forget_all(e);
        break;
    }
}

bool
sim_engine_holds(const struct sim_engine *engine, uint64_t key)
{
    for (uint32_t i = 0; i < SIM_TRUTH_SLOTS; i++) {
        if (engine->truth[i].copies != 0 && engine->truth[i].key == key) {
            return true;
        }
    }
    return false;
}

/* Publishing */

static struct sim_batch *
next_batch(struct sim_process *p)
{
    if (p->count == p->size) {
        p->size = p->size * 2 + 64;
        p->batches = realloc(p->batches, p->size * sizeof *p->batches);
        CHECK(p->batches != NULL);
    }
    CHECK(p->count < p->size);
    return &p->batches[p->count++];
}

void
sim_engine_flush(struct sim_world *w, uint32_t engine)
{
    struct sim_engine *e = &w->engines[engine];
    struct sim_process *p = sim_living(e);

    if (engine_batch_is_empty(&e->batch)) {
        return;
    }
    struct sim_batch *batch = next_batch(p);
    double now_s = (double)w->time.now_us / 1e6 + e->clock_s;
    buf_clear(&w->payload);
    engine_batch_seal(&e->batch, now_s, &w->payload);
    CHECK(!w->payload.failed);
    *batch = (struct sim_batch){.count = e->count, .xor_keys = e->xor_keys};
    if (p->count > 1 && sim_has(w, SIM_HOLE) && !w->quiet &&
        sim_chance(&w->chaos[SIM_HOLE], w->hole_permille) &&
        sim_may_break(w, SIM_HOLE)) {
        p->gapped = true;
        p->lost = true;
        return;
    }
    batch->len = w->payload.len;
    batch->bytes = malloc(batch->len);
    CHECK(batch->bytes != NULL);
    memcpy(batch->bytes, w->payload.ptr, batch->len);
    if (p->count == 1) {
        p->id = key_digest(buf_slice(&w->payload));
    }
    sim_intake_publish(w, engine, p->count - 1);
    sim_known_changed(w, engine);
}

static void
add_event(struct sim_world *w, uint32_t engine,
          const struct engine_event *event)
{
    static const struct engine_events_owner nobody;
    struct sim_engine *e = &w->engines[engine];

    if (!engine_batch_takes(&e->batch, event)) {
        sim_engine_flush(w, engine);
    }
    engine_batch_add(&e->batch, event, &nobody);
    note(e, event);
}

static void
take_all(struct sim_world *w, uint32_t engine)
{
    struct sim_engine *e = &w->engines[engine];
    struct engine_event event;
    struct engine_out out;

    while (engine_next_event(&e->engine, &event)) {
        add_event(w, engine, &event);
    }
    while (engine_next_out(&e->engine, &out)) {
        sim_request_out(w, engine, &out);
    }
    sim_engine_flush(w, engine);
    CHECK(engine_batch_is_empty(&e->batch));
}

static void
arm(struct sim_world *w, uint32_t engine)
{
    struct sim_engine *e = &w->engines[engine];
    uint64_t due = engine_deadline(&e->engine);

    if (due < e->armed_us) {
        e->armed_us = due > w->time.now_us ? due : w->time.now_us;
        sim_add(w, e->armed_us, SIM_EV_ENGINE, engine, 0);
    }
}

void
sim_engine_due(struct sim_world *w, uint32_t engine)
{
    struct sim_engine *e = &w->engines[engine];

    if (e->armed_us > w->time.now_us) {
        return;
    }
    e->armed_us = SIM_NEVER;
    do {
        engine_tick(&e->engine, w->time.now_us);
        take_all(w, engine);
    } while (engine_deadline(&e->engine) <= w->time.now_us);
    arm(w, engine);
    CHECK(e->armed_us > w->time.now_us);
}

/* Requests */

void
sim_prompt_draw(struct rng *rng, uint64_t number, struct sim_prompt *prompt)
{
    uint32_t blocks = 1 + sim_below(rng, SIM_PROMPT_BLOCKS);

    prompt->family = sim_below(rng, FAMILIES);
    prompt->own = sim_below(rng, UINT64_C(2) * SIM_PROMPT_BLOCKS);
    prompt->number = number;
    prompt->len = blocks * SIM_BLOCK_TOKENS + sim_below(rng, 4);
    prompt->output_len = 1 + sim_below(rng, 6);
    CHECK(prompt->len <= SIM_PROMPT_TOKENS && prompt->output_len > 0);
}

void
sim_prompt_tokens(const struct sim_prompt *prompt, uint32_t *tokens)
{
    for (uint32_t i = 0; i < prompt->len; i++) {
        uint64_t salt = i / SIM_BLOCK_TOKENS < prompt->own ? 0 : prompt->number;
        tokens[i] = (uint32_t)rng_mix(prompt->family * 1000 + i + (salt << 32));
    }
}

bool
sim_engine_submit(struct sim_world *w, uint32_t engine,
                  const struct engine_request *request, uint64_t *ticket)
{
    int rc = engine_submit(&w->engines[engine].engine, request, w->time.now_us,
                           ticket);

    CHECK(rc == 0 || rc == ENGINE_E_FULL);
    if (rc == 0) {
        arm(w, engine);
    }
    return rc == 0;
}

void
sim_engine_request(struct sim_world *w, uint32_t engine)
{
    struct sim_engine *e = &w->engines[engine];
    uint32_t tokens[SIM_PROMPT_TOKENS];
    struct sim_prompt prompt;
    uint64_t ticket;

    sim_prompt_draw(&w->rng, ++e->drawn, &prompt);
    if (w->time.now_us < e->idle_until_us) {
        return;
    }
    struct engine_request request = {
        .prompt = tokens,
        .prompt_len = prompt.len,
        .output_len = prompt.output_len,
        .user = prompt.number,
    };
    sim_prompt_tokens(&prompt, tokens);
    (void)sim_engine_submit(w, engine, &request, &ticket);
}

/* Processes */

static void
begin_process(struct sim_world *w, uint32_t engine)
{
    struct sim_engine *e = &w->engines[engine];
    struct engine_config config = {
        .blocks_max = w->engine_blocks,
        .block_tokens = SIM_BLOCK_TOKENS,
        .running_max = 4,
        .batch_tokens_max = 256,
        .requests_max = REQUESTS,
        .request_tokens_max = SIM_PROMPT_TOKENS + 8,
        .prefill_tokens_per_s = 20000,
        .step_us = 4000,
        .step_per_seq_us = 300,
        .step_jitter_permille = 100,
        .events = true,
    };
    uint64_t seed = rng_next(&w->draw);

    e->processes =
        realloc(e->processes, (e->processes_count + 1) * sizeof *e->processes);
    CHECK(e->processes != NULL);
    e->processes[e->processes_count++] = (struct sim_process){.count = 0};
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        w->nodes[i].streams[engine].known = 0;
    }
    forget_all(e);
    CHECK(engine_init(&e->engine, &config, w->time.now_us,
                      w->same_names ? 1 : seed) == 0);
    e->armed_us = SIM_NEVER;
    engine_batch_clear(&e->batch);
    if (e->batch.format.encoding == ENGINE_EVENTS_SGLANG_MAP ||
        e->batch.format.encoding == ENGINE_EVENTS_SGLANG_ARRAY) {
        add_event(w, engine,
                  &(struct engine_event){.kind = ENGINE_EVENT_CLEARED});
        sim_engine_flush(w, engine);
    }
}

void
sim_engine_start(struct sim_world *w, uint32_t engine)
{
    struct sim_engine *e = &w->engines[engine];
    struct engine_events_format format = {
        .encoding = (enum engine_events_encoding)sim_below(&w->rng, 4),
        .slots = 9 + sim_below(&w->rng, 4),
        .block_tokens = SIM_BLOCK_TOKENS,
        .hash_bytes = sim_below(&w->rng, 3) == 0,
    };

    (void)snprintf(e->id, sizeof e->id, "w%u", engine);
    e->stream.worker = key_digest(slice_of(e->id));
    e->clock_s = 1.7e9 + sim_below(&w->rng, 1000);
    engine_batch_init(&e->batch, &format);
    begin_process(w, engine);
    sim_add(w, w->time.now_us + sim_below(&w->rng, 200) * SIM_MS,
            SIM_EV_REQUEST, engine, 0);
}

void
sim_engine_restart(struct sim_world *w, uint32_t engine, bool idle)
{
    struct sim_engine *e = &w->engines[engine];

    for (uint32_t node = 0; node < w->nodes_count; node++) {
        /* Some connections die unnoticed. */
        bool half_open = sim_below(&w->chaos[SIM_RESTART], 6) == 0;
        sim_intake_break(w, node, engine,
                         half_open ? 3000 * SIM_MS : 2 * SIM_MS);
    }
    sim_request_engine_gone(w, engine);
    engine_fini(&e->engine);
    if (sim_below(&w->chaos[SIM_RESTART], 3) == 0) {
        e->clock_s -= sim_below(&w->chaos[SIM_RESTART], 3600);
    }
    e->idle_until_us = w->time.now_us + (idle ? 8000 : 100) * SIM_MS;
    if (idle) {
        sim_saw(w, SIM_SAW_RESTART_IDLE, 1);
    }
    begin_process(w, engine);
}

void
sim_engine_clear(struct sim_world *w, uint32_t engine)
{
    if (engine_reset_cache(&w->engines[engine].engine) == 0) {
        take_all(w, engine);
    }
}

void
sim_engine_end(struct sim_engine *engine)
{
    engine_fini(&engine->engine);
    engine_batch_fini(&engine->batch);
    for (uint32_t i = 0; i < engine->processes_count; i++) {
        struct sim_process *p = &engine->processes[i];
        for (uint32_t seq = 0; seq < p->count; seq++) {
            free(p->batches[seq].bytes);
        }
        free(p->batches);
    }
    free(engine->processes);
}

uint32_t
sim_engine_low(const struct sim_engine *engine, uint32_t process)
{
    uint32_t count = engine->processes[process].count;

    CHECK(process < engine->processes_count);
    return count > engine->replay_max ? count - engine->replay_max : 0;
}

uint32_t
sim_engine_process(const struct sim_engine *engine, uint64_t id)
{
    for (uint32_t i = engine->processes_count; i-- > 0;) {
        if (engine->processes[i].id == id) {
            return i;
        }
    }
    return UINT32_MAX;
}
