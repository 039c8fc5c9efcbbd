/* A request at its engine, which answers, is full, breaks off or is silent. */
#include "chaos/sim/sim_flight_internal.h"
#include "chaos/sim/sim_streams_internal.h"

#define OURS       (UINT64_C(1) << 63) /* users of the engine */
#define STAMP_BITS 40U

static bool
is_sick(struct sim_world *w)
{
    return !w->quiet &&
           sim_chance(&w->chaos[SIM_SICK], w->requests->sick_permille) &&
           sim_may_break(w, SIM_SICK);
}

/* Puts an engine's messages in transit, in order. */
static void
say(struct sim_world *w, struct sim_flight *f, enum sim_step step)
{
    uint64_t at_us = w->time.now_us + sim_flight_way_us(w);

    f->came_us = at_us > f->came_us ? at_us : f->came_us + 1;
    sim_flight_plan(w, f, step, f->came_us);
    CHECK(f->came_us > w->time.now_us);
}

void
sim_flight_submit(struct sim_world *w, struct sim_flight *f)
{
    uint32_t tokens[SIM_PROMPT_TOKENS + SIM_STREAM_WORDS];
    uint32_t output[SIM_STREAM_WORDS];
    struct engine_request request = {
        .prompt = tokens,
        .prompt_len = f->prompt.len,
        .output_len = f->prompt.output_len,
        .user = OURS | (f->stamp & ((UINT64_C(1) << STAMP_BITS) - 1)) << 16 |
                sim_flight_slot(w, f),
    };

    CHECK(f->open && !f->running);
    if (w->nodes[f->node].severed[f->engine]) {
        return; /* there is no answer: it will expire */
    }
    if (f->dispatch.state == DISPATCH_CONNECTING) { /* healed meanwhile */
        sim_visit_connected(w, f);
    }
    uint32_t how = is_sick(w) ? sim_below(&w->chaos[SIM_SICK], 4) : 4;
    if (how == 0) {
        say(w, f, STEP_SEVERED);
        return;
    }
    if (how == 1) {
        say(w, f, STEP_STATUS);
        return;
    }
    f->mute = how == 2;
    f->breaks = how == 3;
    sim_prompt_tokens(&f->prompt, tokens);
    f->process = w->engines[f->engine].processes_count;
    if (f->streams) {
        sim_stream_request(w, f, &request, tokens, output);
    }
    f->running = sim_engine_submit(w, f->engine, &request, &f->ticket);
    if (!f->running) {
        w->requests->full_us = w->time.now_us;
        sim_saw(w, SIM_SAW_FULL, 1);
        say(w, f, STEP_STATUS);
    }
}

/* Of a stream, and as long as its connection lasts. */
static void
say_word(struct sim_world *w, struct sim_flight *f, uint32_t index)
{
    uint32_t last = w->streams->stream[sim_flight_slot(w, f)].breaks;

    if (f->mute || (f->breaks && index > last)) {
        return;
    }
    say(w, f, index == 0 ? STEP_HEAD : STEP_TOKEN);
    if (f->breaks && index == last) {
        say(w, f, STEP_SEVERED);
    }
}

void
sim_request_out(struct sim_world *w, uint32_t engine,
                const struct engine_out *out)
{
    if ((out->user & OURS) == 0) {
        return;
    }
    struct sim_flight *f = &w->requests->flights[out->user & 0xffff];
    uint64_t stamp = (out->user & ~OURS) >> 16;
    if (!f->running || f->engine != engine ||
        (f->stamp & ((UINT64_C(1) << STAMP_BITS) - 1)) != stamp) {
        sim_fail(w, "an engine answers what nobody asked", f->node, engine);
        return;
    }
    if (f->streams && out->kind != ENGINE_OUT_END) {
        say_word(w, f, out->index);
    } else if (out->kind == ENGINE_OUT_FIRST && !f->mute) {
        say(w, f, STEP_HEAD);
        if (f->breaks) {
            say(w, f, STEP_SEVERED);
        }
    } else if (out->kind == ENGINE_OUT_END) {
        f->running = false;
        f->usage = out->usage;
        if (!f->mute && !f->breaks) {
            say(w, f, STEP_END);
        }
    }
}

void
sim_request_engine_gone(struct sim_world *w, uint32_t engine)
{
    if (w->requests == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        struct sim_flight *f = &w->requests->flights[i];
        if (f->open && f->running && f->engine == engine) {
            f->running = false;
            f->came_us = w->time.now_us + 2 * SIM_MS;
            sim_flight_plan(w, f, STEP_SEVERED, f->came_us);
        }
    }
}
