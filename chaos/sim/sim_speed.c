/* Speeds and turns in a simulated mesh. */
#include <stdlib.h>

#include "chaos/sim/sim_router_internal.h"
#include "chaos/sim/sim_speed_internal.h"
#include "node/node.h"

#define TELL_US    UINT64_C(300000)
#define SAMPLES    6U /* of an engine, at most, in a turn */
#define TOKENS_MAX 20000U
#define TOKEN_NS   UINT64_C(100000)  /* of a prompt, by the fastest engine */
#define STEP_NS    UINT64_C(8000000) /* of an answer */
#define OPEN_MAX   40U
/* Roundings in a sum of peers' means. Worlds with more nodes have no speeds. */
#define ROUNDED_MAX 7

struct sim_speed {
    struct rng rng;
    uint64_t told_us[SIM_NODES_MAX];
    struct speed_shared *of[SIM_NODES_MAX]; /* NULL: the node does not run */
};

void
sim_speed_begin(struct sim_world *w)
{
    if (w->requests == NULL || !sim_has(w, SIM_SPEED)) {
        return;
    }
    w->speeds = calloc(1, sizeof *w->speeds);
    CHECK(w->speeds != NULL);
    rng_init(&w->speeds->rng, rng_mix(w->options.seed ^ 0x7370656564));
}

void
sim_speed_end(struct sim_world *w)
{
    free(w->speeds);
    w->speeds = NULL;
}

void
sim_speed_node_start(struct sim_world *w, uint32_t node)
{
    struct sim_speed *s = w->speeds;

    if (s == NULL) {
        return;
    }
    CHECK(s->of[node] == NULL);
    s->of[node] = calloc(1, sizeof *s->of[node]);
    CHECK(s->of[node] != NULL);
    s->told_us[node] = 0;
}

void
sim_speed_node_gone(struct sim_world *w, uint32_t node)
{
    if (w->speeds != NULL) {
        free(w->speeds->of[node]);
        w->speeds->of[node] = NULL;
    }
}

uint32_t
sim_speed_ticket(const struct sim_world *w, uint32_t node)
{
    return w->speeds == NULL ? 0 : (uint32_t)rng_mix(node + 1) | 1;
}

/* Engine e takes e + 1 times as long as the first, and a third more or less. */
static void
sample(struct sim_speed *s, struct speed *own, uint32_t engine,
       uint32_t generation)
{
    uint32_t count = (uint32_t)rng_below(&s->rng, SAMPLES + 1);
    uint64_t slow = engine + 1;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t tokens = 1 + (uint32_t)rng_below(&s->rng, TOKENS_MAX);
        uint32_t open = 1 + (uint32_t)rng_below(&s->rng, OPEN_MAX);
        uint64_t percent = 67 + rng_below(&s->rng, 67);
        speed_add(own, engine, generation, tokens,
                  tokens * TOKEN_NS * slow * percent / 100 / 1000);
        speed_add_step(own, engine, generation, open,
                       STEP_NS * slow * percent / 100 / 1000);
    }
}

bool
sim_speed_turn(struct sim_world *w, uint32_t node)
{
    struct sim_speed *s = w->speeds;
    struct sim_router *r = w->nodes[node].router;
    uint64_t now_us = sim_now(w, node);

    if (s == NULL || now_us < s->told_us[node] + TELL_US) {
        return false;
    }
    const struct fleet_view *view = fleet_view_get(r->board);
    if (view == NULL) {
        return false;
    }
    s->told_us[node] = now_us;
    struct speed_shared *speed = s->of[node];
    if (w->time.now_us < w->traffic_end_us) {
        speed_pass(&speed->own, now_us);
        WORKER_SET_EACH (slot, &view->present) {
            sample(s, &speed->own, slot, view->worker[slot]->generation);
        }
    }
    hints_share_speed(&r->hints, speed, view, now_us);
    hints_turn(&r->hints, now_us / 1000);
    return true;
}

/* What all nodes' samples of an engine say together, as this one should count
 * them. */
static void
together(struct sim_world *w, uint32_t node, uint32_t engine,
         struct speed_worker *all)
{
    *all = w->speeds->of[node]->own.worker[engine];
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        for (uint32_t row = 0; i != node && row < SPEED_TOLD_ROWS; row++) {
            struct speed_row told =
                speed_told(&w->speeds->of[i]->own.worker[engine], row);
            speed_join(all, row, &told);
        }
    }
}

static bool
is_near(int32_t a, int32_t b)
{
    return a - b <= ROUNDED_MAX && b - a <= ROUNDED_MAX;
}

/* Means are rounded down once for each peer, in the order of their places. */
static bool
counts_all(struct sim_world *w, uint32_t node, uint32_t engine)
{
    const struct speed_worker *has = &w->speeds->of[node]->all.worker[engine];
    const struct speed_worker *own = &w->speeds->of[node]->own.worker[engine];
    struct speed_worker should;
    uint64_t heard = 0;

    together(w, node, engine, &should);
    for (uint32_t i = 0; i < SPEED_CLASSES + SPEED_STEPS; i++) {
        if (has->of[i].count != should.of[i].count ||
            !is_near(has->of[i].time, should.of[i].time) ||
            !is_near(has->of[i].number, should.of[i].number)) {
            return false;
        }
        heard += has->of[i].count > own->of[i].count;
    }
    sim_saw(w, SIM_SAW_SPEEDS, heard);
    return true;
}

/* Of so many nodes each has another place. */
static bool
in_one_order(struct sim_world *w)
{
    uint32_t seen = 0;

    for (uint32_t i = 0; i < w->nodes_count; i++) {
        const struct turns_place *place =
            &w->nodes[i].router->hints.turns.made.place;
        if (w->nodes_count > 1 &&
            (place->nodes != w->nodes_count || place->number >= place->nodes)) {
            return false;
        }
        seen |= 1U << place->number;
    }
    return w->nodes_count == 1 || seen == (1U << w->nodes_count) - 1;
}

const char *
sim_speed_quiet(struct sim_world *w)
{
    if (w->speeds == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        const struct fleet_view *view =
            fleet_view_get(w->nodes[i].router->board);
        WORKER_SET_EACH (slot, &view->present) {
            if (!counts_all(w, i, slot)) {
                return "a node does not count what peers say of speeds";
            }
        }
    }
    return in_one_order(w) ? NULL : "nodes take turns in different orders";
}
