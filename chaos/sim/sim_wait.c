/* Requests that wait at a node for a worker with room: as waiting.c has them. */
#include "chaos/sim/sim_router_internal.h"
#include "chaos/sim/sim_tenants_internal.h"

#define STAMP_BITS        40U
#define LATE_US           UINT64_C(200000) /* a lane's time-out is after control's */
#define TELL_US           1000U
#define DEEP              6U /* of each tenant that floods, always wait */
#define DEEP_LATER        3U
#define SHARES            ((int64_t)2 * (QUEUE_QUANTUM + 2 * SIM_TOKENS_MAX))
#define FLOOD_EVERY_US    UINT64_C(5000)
#define FLOOD_PATIENCE_US UINT32_C(15000000)

static uint64_t
id_of(const struct sim_world *w, const struct sim_flight *f)
{
    return (f->stamp & ((UINT64_C(1) << STAMP_BITS) - 1)) << 16 |
           sim_flight_slot(w, f);
}

void
sim_wait_begin(struct sim_world *w, struct sim_flight *f)
{
    struct sim_node *n = &w->nodes[f->node];
    const struct route_scratch *scratch = &n->router->scratch;
    uint64_t now_us = sim_now(w, f->node);

    role_is_lane();
    struct fact_wait *fact = ring_reserve(&n->router->facts, sizeof *fact);
    CHECK(f->wait.id == 0 && fact != NULL);
    f->stamp++;
    if (f->wait.deadline_us == 0) {
        f->wait.deadline_us =
            now_us + (f->flood ? FLOOD_PATIENCE_US : w->tenants->wait_us);
    }
    f->wait.id = id_of(w, f);
    f->wait.since_us = w->time.now_us;
    f->wait.told = false;
    *fact = (struct fact_wait){
        .kind = FACT_WAIT,
        .tenant = f->tenant,
        .id = f->wait.id,
        .deadline_us = f->wait.deadline_us,
        .tokens = f->tokens,
        .held_tokens = scratch->wait.held_tokens,
        .able = scratch->wait.able,
        .homes = scratch->wait.homes,
    };
    ring_commit(&n->router->facts);
    n->router->dispatch.told = true;
    sim_router_told(w, f->node);
    sim_saw(w, SIM_SAW_QUEUED, 1);
    uint64_t left_us =
        f->wait.deadline_us > now_us ? f->wait.deadline_us - now_us : 0;
    f->due_us = now_us + left_us + LATE_US;
    sim_flight_plan(w, f, STEP_DUE, w->time.now_us + left_us + LATE_US);
}

void
sim_wait_end(struct sim_world *w, struct sim_flight *f)
{
    struct sim_router *r = w->nodes[f->node].router;

    if (f->wait.id == 0) {
        return;
    }
    struct fact_wait_end *fact = ring_reserve(&r->facts, sizeof *fact);
    CHECK(fact != NULL);
    *fact = (struct fact_wait_end){.kind = FACT_WAIT_END, .id = f->wait.id};
    ring_commit(&r->facts);
    r->dispatch.told = true;
    f->wait.id = 0;
    f->wait.placed = false;
}

/* What control tells */

static void
note_placed(struct sim_world *w, const struct sim_flight *f)
{
    struct sim_tenants *t = w->tenants;

    sim_saw(w, SIM_SAW_PLACED, 1);
    if (sim_now(w, f->node) > f->wait.deadline_us) {
        sim_fail(w, "a place is given after the deadline", f->node, UINT32_MAX);
    }
    if (t->flooded == f->node) {
        t->served[f->tenant] += f->tokens;
    }
}

static void
take_told(struct sim_world *w, uint32_t node, const struct wait_told *what)
{
    struct sim_flight *f = &w->requests->flights[what->id & 0xffff];

    CHECK((what->id & 0xffff) < SIM_FLIGHTS_MAX);
    if (!f->open || f->node != node || f->wait.id != what->id) {
        return; /* it has left */
    }
    if (f->wait.told) {
        sim_fail(w, "who waits is told twice", node, UINT32_MAX);
        return;
    }
    f->wait.told = true;
    f->wait.what = *what;
    if (what->event == WAIT_PLACE) {
        note_placed(w, f);
    }
    sim_flight_plan(w, f, STEP_TOLD,
                    w->time.now_us + rng_below(&w->tenants->rng, TELL_US));
}

void
sim_wait_pull(struct sim_world *w, uint32_t node)
{
    struct ring *ring = &w->nodes[node].router->desk->lane.waits;
    const struct wait_told *record;
    size_t size;

    while ((record = ring_peek(ring, &size)) != NULL) {
        struct wait_told what = *record;
        ring_consume(ring);
        take_told(w, node, &what);
    }
}

void
sim_wait_told(struct sim_world *w, struct sim_flight *f)
{
    const struct wait_told *what = &f->wait.what;
    uint64_t now_us = sim_now(w, f->node);
    bool late = what->event == WAIT_PLACE && now_us >= what->until_us;

    CHECK(f->wait.told && f->dispatch.state == DISPATCH_QUEUED);
    role_is_lane();
    switch (late ? WAIT_AGAIN : (enum wait_event)what->event) {
    case WAIT_PLACE:
        f->wait.placed = true;
        f->wait.place = what->slot;
        dispatch_placed(&f->dispatch, now_us);
        break;
    case WAIT_AGAIN:
        sim_wait_end(w, f);
        dispatch_placed(&f->dispatch, now_us);
        break;
    case WAIT_LATE:
        sim_saw(w, SIM_SAW_LATE, 1);
        dispatch_unplaced(&f->dispatch, DISPATCH_QUEUE_LATE,
                          what->retry_after_s, now_us);
        break;
    case WAIT_FULL:
        sim_saw(w, SIM_SAW_GAVE_WAY, 1);
        dispatch_unplaced(&f->dispatch, DISPATCH_QUEUE_FULL,
                          what->retry_after_s, now_us);
        break;
    }
}

void
sim_wait_due(struct sim_world *w, struct sim_flight *f)
{
    const struct sim_desk *desk = w->nodes[f->node].router->desk;

    role_is_lane();
    if (desk->disturbed_us < f->wait.since_us) {
        sim_fail(w, "a request waits past its deadline", f->node, UINT32_MAX);
    }
    dispatch_unplaced(&f->dispatch, DISPATCH_QUEUE_LATE, 1,
                      sim_now(w, f->node));
}

uint32_t
sim_wait_count(const struct sim_world *w, uint32_t node)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        const struct sim_flight *f = &w->requests->flights[i];
        count += f->open && f->node == node && f->wait.id != 0 && !f->wait.told;
    }
    return count;
}

/* The flood */

static uint32_t
waiting(const struct sim_world *w, uint32_t tenant)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        const struct sim_flight *f = &w->requests->flights[i];
        bool waits = !f->open || (f->wait.id != 0 && !f->wait.told);
        count += f->wanted && f->node == w->tenants->flooded &&
                 f->tenant == tenant && waits;
    }
    return count;
}

static void
flood_one(struct sim_world *w, uint32_t tenant)
{
    struct sim_flight *f = sim_flight_new(w);

    if (f != NULL) {
        f->patience_us = FLOOD_PATIENCE_US;
        sim_prompt_draw(&w->tenants->rng, f->number | UINT64_C(1) << 24,
                        &f->prompt);
        f->node = w->tenants->flooded;
        f->tries = 1;
        f->flood = true;
        f->tenant = tenant;
        f->tokens = 1 + sim_below(&w->tenants->rng, SIM_TOKENS_MAX);
        sim_flight_plan_client(w, f, STEP_ARRIVE,
                               w->time.now_us + sim_flight_way_us(w));
        sim_flight_plan_client(w, f, STEP_BORED,
                               w->time.now_us + f->patience_us);
    }
}

void
sim_wait_flood_more(struct sim_world *w, uint64_t until_us)
{
    for (uint32_t tenant = 1; tenant < SIM_TENANTS; tenant++) {
        for (uint32_t n = waiting(w, tenant);
             n < (tenant == 3 ? DEEP_LATER : DEEP); n++) {
            flood_one(w, tenant);
        }
    }
    if (w->time.now_us + FLOOD_EVERY_US < until_us) {
        sim_add(w, w->time.now_us + FLOOD_EVERY_US, SIM_EV_TENANT,
                SIM_TENANT_FLOODS, until_us);
    }
}

void
sim_wait_flood(struct sim_world *w, uint32_t node, uint64_t until_us)
{
    w->tenants->flooded = node;
    memset(w->tenants->served, 0, sizeof w->tenants->served);
    sim_wait_flood_more(w, until_us);
}

/* Deficit round robin: two tenants that always wait are apart by no more than a
 * turn and their largest requests, by weight. A later class has its part of
 * what the one before it gets. */
void
sim_wait_judge(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;
    int64_t one = (int64_t)t->served[1];
    int64_t three = (int64_t)t->served[2] / 3;
    int64_t later = (int64_t)t->served[3] * QUEUE_SHARE;
    int64_t before = (int64_t)(t->served[1] + t->served[2]);

    if (one - three > SHARES || three - one > SHARES) {
        sim_fail(w, "tenants do not get tokens by their weights", t->flooded,
                 UINT32_MAX);
    }
    if (later + INT64_C(2) * QUEUE_SHARE * SIM_TOKENS_MAX < before) {
        sim_fail(w, "a later class starves", t->flooded, UINT32_MAX);
    }
    sim_trace(w, "served", t->flooded, t->served[1] + t->served[2]);
    t->flooded = UINT32_MAX;
}
