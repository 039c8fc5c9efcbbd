/* Tenants: a node's desk, and the exam. */
#include "chaos/sim/sim_tenants_internal.h"

#include <stdlib.h>

#include "chaos/sim/sim_router_internal.h"

#define LOOK_US     UINT64_C(10000)
#define WAITS_BYTES ((size_t)16 << 10)
#define FLOOD_US    UINT64_C(3000000)
#define EXAM_WAIT_US \
    (SIM_WINDOW_MS * SIM_MS + SIM_TOUCH_US) /* until all are one side */
#define LOSS_US UINT64_C(4500000)           /* from a death to the end */
#define POLL_US (50 * SIM_MS)

/* A node's desk */

static void ON_CONTROL
open_desk(struct sim_world *w, uint32_t node, struct sim_desk *desk)
{
    struct sim_tenants *t = w->tenants;
    struct sim_router *r = w->nodes[node].router;

    desk->armed_us = SIM_NEVER;
    desk->shared.config = &t->config;
    desk->shared.board = r->board;
    desk->shared.lanes = &desk->lane;
    desk->shared.lanes_count = 1;
    publish_set(&desk->shared.keys, t->keys);
    gauge_set(&desk->shared.mesh_ready, CLUSTER_CATCHING_UP);
    qsbr_init(&desk->shared.qsbr);
    CHECK(ring_init(&desk->lane.waits, WAITS_BYTES) == 0);
    CHECK(control_queue_init(&desk->queue, &desk->shared, &desk->speed) == 0);
    CHECK(control_limits_init(&desk->limits, &desk->shared,
                              rng_next(&t->rng)) == 0);
    CHECK(control_limits_start(&desk->limits, sim_now(w, node)) == 0);
}

void
sim_desk_start(struct sim_world *w, uint32_t node)
{
    struct sim_tenants *t = w->tenants;
    size_t size = (sizeof(struct sim_desk) + 63) / 64 * 64;

    if (t == NULL) {
        return;
    }
    role_is_control();
    struct sim_desk *desk = aligned_alloc(64, size);
    CHECK(desk != NULL);
    memset(desk, 0, size);
    w->nodes[node].router->desk = desk;
    open_desk(w, node, desk);
    if (t->places != 0) {
        fleet_limit(w->nodes[node].router->fleet, t->places, false);
    }
    sim_desk_disturbed(w, node);
    sim_add(w, w->time.now_us, SIM_EV_DESK, node, w->nodes[node].life);
}

void
sim_desk_end(struct sim_world *w, uint32_t node)
{
    struct sim_desk *desk = w->nodes[node].router->desk;

    if (desk == NULL) {
        return;
    }
    sim_limits_node_gone(w, node);
    control_limits_fini(&desk->limits);
    control_queue_fini(&desk->queue);
    ring_fini(&desk->lane.waits);
    qsbr_fini(&desk->shared.qsbr);
    free(desk);
    w->nodes[node].router->desk = NULL;
}

static void
arm(struct sim_world *w, uint32_t node, uint64_t again_us)
{
    struct sim_desk *desk = w->nodes[node].router->desk;
    uint64_t now = sim_now(w, node);
    uint64_t due = w->tenants->limit != 0 && again_us > now + LOOK_US
                       ? now + LOOK_US
                       : again_us;
    uint64_t at = w->time.now_us + (due > now ? due - now : 0) + 1;

    if (due != SIM_NEVER && at < desk->armed_us) {
        desk->armed_us = at;
        sim_add(w, at, SIM_EV_DESK, node, w->nodes[node].life);
    }
}

void
sim_desk_look(struct sim_world *w, uint32_t node, bool told)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_desk *desk = n->router->desk;
    uint64_t now_us = sim_now(w, node);

    if (desk == NULL) {
        return;
    }
    role_is_control();
    gauge_set(&desk->shared.mesh_ready, (int32_t)n->ready);
    control_limits_look(&desk->limits, &n->router->hints, told, now_us);
    uint64_t again_us = w->tenants->places != 0
                            ? control_queue_look(&desk->queue, now_us)
                            : SIM_NEVER;
    sim_wait_pull(w, node);
    arm(w, node, again_us);
}

void
sim_desk_disturbed(struct sim_world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];

    if (n->up && n->router != NULL && n->router->desk != NULL) {
        n->router->desk->disturbed_us = w->time.now_us;
        sim_limits_alone(w, node);
    }
}

void
sim_desk_take(struct sim_world *w, uint32_t node, const void *record)
{
    struct sim_desk *desk = w->nodes[node].router->desk;

    if (desk != NULL && w->tenants->places != 0) {
        control_queue_take(&desk->queue, record, sim_now(w, node));
    }
}

static void
look(struct sim_world *w, const struct virtual_event *event)
{
    struct sim_node *n = &w->nodes[event->who];

    if (!n->up || event->what != n->life) {
        return;
    }
    if (!sim_runs(w, event->who)) {
        sim_add(w, n->paused_us + 1, SIM_EV_DESK, event->who, event->what);
        return;
    }
    n->router->desk->armed_us = SIM_NEVER;
    sim_desk_look(w, event->who, false);
}

/* What must hold */

const char *
sim_desk_check(struct sim_world *w, uint32_t node)
{
    struct sim_router *r = w->nodes[node].router;
    const struct sim_desk *desk = r->desk;
    const char *reason = NULL;
    size_t size;

    if (desk == NULL || w->tenants->places == 0) {
        return NULL;
    }
    if (!queue_check(desk->queue.queue, &reason)) {
        return reason;
    }
    if (ring_peek(&r->facts, &size) == NULL &&
        queue_waiting(desk->queue.queue) != sim_wait_count(w, node)) {
        return "who waits is not who waits in the queue";
    }
    for (uint32_t i = 0; i < w->engines_count; i++) {
        struct sim_request_sums sums = sim_request_sums(w, node, i);
        if (sums.open > w->tenants->places + sums.elsewhere) {
            return "a node has more requests at a worker than it has places";
        }
    }
    return NULL;
}

const char *
sim_desk_quiet(const struct sim_world *w, uint32_t node)
{
    const struct sim_router *r = w->nodes[node].router;

    if (r == NULL || r->desk == NULL || w->tenants->places == 0) {
        return NULL;
    }
    if (queue_waiting(r->desk->queue.queue) != 0) {
        return "a request still waits";
    }
    for (uint32_t i = 0; i < w->engines_count; i++) {
        if (gauge_read(&r->board->reserved[i]) != 0 ||
            gauge_read(&r->board->wanted[i]) != 0) {
            return "a place is still kept for somebody";
        }
    }
    return NULL;
}

/* The world */

static void
draw(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;
    static const char *const names[] = {"none", "one", "three", "later"};
    uint32_t slot;

    config_init(&t->config);
    t->config.mesh.join.count = 1; /* it is no node alone */
    t->config.limits.queue_max = 32;
    CHECK(keys_new(&t->keys, NULL) == 0);
    for (uint32_t i = 1; i < SIM_TENANTS; i++) {
        CHECK(keys_add_tenant(t->keys, slice_of(names[i]), &slot) == 0);
        CHECK(slot == i);
    }
    keys_set_weight(t->keys, 2, 3);
    keys_set_priority(t->keys, 3, 2);
    t->flooded = UINT32_MAX;
    if (sim_has(w, SIM_QUEUE)) {
        t->places = 1 + sim_below(&t->rng, 3);
        t->wait_us = (300 + sim_below(&t->rng, 1500)) * SIM_MS;
    }
    if (sim_has(w, SIM_LIMIT)) {
        sim_limits_draw(w);
    }
}

void
sim_tenants_begin(struct sim_world *w)
{
    if (w->requests == NULL ||
        (!sim_has(w, SIM_LIMIT) && !sim_has(w, SIM_QUEUE))) {
        return;
    }
    w->tenants = calloc(1, sizeof *w->tenants);
    CHECK(w->tenants != NULL);
    rng_init(&w->tenants->rng, rng_mix(w->options.seed ^ 0x74656e));
    draw(w);
}

void
sim_tenants_end(struct sim_world *w)
{
    if (w->tenants != NULL) {
        keys_free(w->tenants->keys);
        free(w->tenants);
        w->tenants = NULL;
    }
}

void
sim_tenants_event(struct sim_world *w, const struct virtual_event *event)
{
    if (event->kind == SIM_EV_DESK) {
        look(w, event);
    } else if (event->who == SIM_TENANT_ASKS) {
        sim_limits_ask(w);
    } else if (event->who == SIM_TENANT_FLOODS) {
        sim_wait_flood_more(w, event->what);
    } else {
        sim_limits_settle(w, event->who);
    }
}

/* The exam */

/* Until all agree again and nothing is open, or it is a failure. */
static void
calm_down(struct sim_world *w)
{
    uint64_t until_us = w->time.now_us + SIM_QUIET_MS * SIM_MS;
    const char *why;

    do {
        sim_run_until(w, w->time.now_us + POLL_US);
        why = w->failed ? NULL : sim_check_agreed(w);
    } while (why != NULL && w->time.now_us < until_us);
    if (why != NULL) {
        sim_fail(w, why, 0, UINT32_MAX);
    }
}

static void
examine_limits(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;
    uint32_t lost = sim_below(&t->rng, w->nodes_count);

    t->end_us = SIM_NEVER;
    sim_add(w, w->time.now_us, SIM_EV_TENANT, SIM_TENANT_ASKS, 0);
    sim_run_until(w, w->time.now_us + EXAM_WAIT_US);
    if (w->failed) {
        return;
    }
    t->moves_us = SIM_NEVER;
    if (w->nodes_count > 1) { /* else nobody would be left to ask */
        sim_node_kill(w, lost);
    }
    sim_run_until(w, w->time.now_us + LOSS_US);
    sim_limits_judge_least(w);
    t->end_us = w->time.now_us;
    if (!w->failed && !w->nodes[lost].up) {
        sim_node_start(w, lost);
    }
}

void
sim_tenants_exam(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;

    if (t == NULL || w->failed) {
        return;
    }
    if (t->places != 0) {
        sim_wait_flood(w, sim_below(&t->rng, w->nodes_count),
                       w->time.now_us + FLOOD_US);
        sim_run_until(w, w->time.now_us + FLOOD_US);
        sim_wait_judge(w);
    }
    if (t->limit != 0 && !w->failed) {
        examine_limits(w);
    }
    if (!w->failed) {
        calm_down(w);
    }
}
