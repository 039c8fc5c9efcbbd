/* The client of a request: where it sends it, when it gives up. */
#include "chaos/sim/sim_streams_internal.h"
#include "chaos/sim/sim_tenants_internal.h"

#define CALM_BORN_US   UINT64_C(3000000)
#define CALM_FULL_US   UINT64_C(4000000)
#define CALM_BROKEN_US UINT64_C(12000000)

const char sim_client_waited[] = "it waited too long";

bool
sim_client_is_patient(const struct sim_flight *f)
{
    return f->patience_us == CLIENT_MS * SIM_MS;
}

static void
fail_unexcused(struct sim_world *w, const struct sim_flight *f, const char *why)
{
    const uint64_t rough = UINT64_C(1) << SIM_PAUSE | UINT64_C(1) << SIM_CRASH |
                           UINT64_C(1) << SIM_LEAVE | UINT64_C(1) << SIM_CLOCK |
                           UINT64_C(1) << SIM_RESTART |
                           UINT64_C(1) << SIM_SEVER | UINT64_C(1) << SIM_SICK |
                           UINT64_C(1) << SIM_DAY | SIM_FAULTS_OF_DISKS;
    const struct sim_node *n = &w->nodes[f->node];
    bool gone = !n->up || (f->life != 0 && f->life != n->life);
    uint64_t now_us = w->time.now_us;
    uint64_t full_us = w->requests->full_us;
    bool broken = !w->quiet ? (w->faults & rough) != 0
                            : now_us - w->disturbed_us < CALM_BROKEN_US;
    bool full = full_us != 0 && now_us - full_us < CALM_FULL_US;
    bool young = now_us - n->born_us < CALM_BORN_US || f->tries > 1;

    if (f->probe || f->flood) {
        sim_fail(w, why, f->node, UINT32_MAX);
    } else if (why == sim_client_waited) {
        return; /* workers have few places; the exam judges who starves */
    } else if (!gone && !broken && !full && !young &&
               sim_client_is_patient(f)) {
        sim_fail(w, why, f->node, UINT32_MAX);
    }
}

void
sim_client_end(struct sim_world *w, struct sim_flight *f, const char *why)
{
    if (!f->wanted) {
        sim_fail(w, "a request ended twice", f->node, UINT32_MAX);
        return;
    }
    f->wanted = false;
    w->requests->answered += why == NULL;
    w->requests->failed += why != NULL;
    sim_saw(w, SIM_SAW_ANSWERED, why == NULL);
    sim_saw(w, SIM_SAW_FAILED, why != NULL);
    sim_trace(w, why == NULL ? "answered" : why, f->node, f->number);
    if (why != NULL) {
        fail_unexcused(w, f, why);
    }
    CHECK(w->requests->answered + w->requests->failed <= w->requests->sent);
}

static void
set_off(struct sim_world *w, struct sim_flight *f)
{
    const struct load_target *target = load_targets_pick(
        &w->requests->targets, f->number, f->tried, f->tries, w->time.now_us);

    CHECK(f->wanted && !f->open && f->tries < SIM_TRIES_MAX);
    f->target = target->key;
    f->node = (uint32_t)(target - w->requests->targets.target);
    f->tried[f->tries++] = target->key;
    f->headed = false;
    f->life = 0;
    sim_flight_plan_client(w, f, STEP_ARRIVE,
                           w->time.now_us + sim_flight_way_us(w));
    sim_flight_plan_client(w, f, STEP_BORED, w->time.now_us + f->patience_us);
}

/* No node took the request: tries another address, if there is one. */
void
sim_client_send_again(struct sim_world *w, struct sim_flight *f,
                      const char *why)
{
    CHECK(f->wanted && !f->headed);
    load_targets_failed(&w->requests->targets, f->target, w->time.now_us);
    if (f->probe || w->requests->targets.count == 1 ||
        f->tries == SIM_TRIES_MAX) {
        sim_client_end(w, f, why);
        return;
    }
    sim_saw(w, SIM_SAW_RESENT, 1);
    set_off(w, f);
}

struct sim_flight *
sim_flight_new(struct sim_world *w)
{
    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        struct sim_flight *f = &w->requests->flights[i];
        if (!f->wanted && !f->open) {
            uint64_t stamp = f->stamp + 1;
            *f = (struct sim_flight){.wanted = true, .stamp = stamp};
            f->number = ++w->requests->sent;
            CHECK(f->number != 0 && f->stamp == stamp);
            return f;
        }
    }
    return NULL;
}

void
sim_client_ask(struct sim_world *w)
{
    struct rng *rng = sim_flight_random(w);
    struct sim_flight *f = sim_flight_new(w);

    if (f != NULL) {
        bool leaves = sim_below(rng, 16) == 0; /* early */
        f->patience_us = leaves ? 1 + sim_below(rng, 30 * SIM_MS)
                                : CLIENT_MS * (uint32_t)SIM_MS;
        sim_prompt_draw(rng, f->number | UINT64_C(1) << 24, &f->prompt);
        if (w->tenants != NULL) {
            f->tenant = 1 + sim_below(&w->tenants->rng, SIM_TENANTS - 1);
            f->tokens = 1 + sim_below(&w->tenants->rng, SIM_TOKENS_MAX);
        }
        sim_stream_draw(w, f);
        set_off(w, f);
    }
}

void
sim_request_probe(struct sim_world *w, uint32_t node)
{
    struct sim_flight *f = sim_flight_new(w);

    CHECK(f != NULL);
    f->probe = true;
    f->patience_us = CLIENT_MS * (uint32_t)SIM_MS;
    sim_prompt_draw(sim_flight_random(w), f->number | UINT64_C(1) << 24,
                    &f->prompt);
    f->node = node;
    f->tries = 1;
    f->tenant = w->tenants != NULL;
    f->tokens = 1;
    sim_flight_plan_client(w, f, STEP_ARRIVE,
                           w->time.now_us + sim_flight_way_us(w));
    sim_flight_plan_client(w, f, STEP_BORED,
                           w->time.now_us + CLIENT_MS * SIM_MS);
}
