/* A lane with three workers, one request of it, and a clock that the test
 * moves. */
#ifndef TESTS_UNIT_NODE_DISPATCH_RIG_H
#define TESTS_UNIT_NODE_DISPATCH_RIG_H

#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/role.h"
#include "node/route/dispatch.h"
#include "node/view/breaker.h"

#define WORKERS 3U
#define MS      UINT64_C(1000)

static const struct config_breaker breaker_config = {
    .failures = 2, .successes = 1, .open_ms = 100, .open_max_ms = 800};

/* A lane with three workers, and as much of control as their breakers take. */
struct rig {
    uint64_t now_us;
    uint64_t wall_us;
    struct fleet_worker worker[WORKERS];
    struct breaker breaker[WORKERS];
    struct fleet_models models;
    struct fleet_view view;
    struct fleet_board *board;
    struct gauge rank_inflight[WORKERS_MAX];
    struct mirror_view mirrors;
    struct qsbr qsbr;
    struct radix *belief;
    struct elect_config elect;
    struct route_world world;
    struct route_scratch scratch;
    struct rng rng;
    struct metrics_lane metrics;
    struct ring facts;
    struct dispatch_lane lane;
    struct dispatch d;
};

static struct rig rig;

/* The fleet's part: who may be sent requests follows from the breakers. */
static inline void
publish(void)
{
    struct fleet_view *view = &rig.view;

    worker_set_clear(&view->eligible);
    worker_set_clear(&view->trial);
    worker_set_clear(&view->watched);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        const struct breaker *b = &rig.breaker[slot];
        if (b->state == BREAKER_CLOSED) {
            worker_set_add(&view->eligible, slot);
        } else if (b->state == BREAKER_HALF_OPEN) {
            worker_set_add(&view->trial, slot);
        }
        if (breaker_watches(b)) {
            worker_set_add(&view->watched, slot);
        }
    }
}

static inline void
open_fleet(void)
{
    rig.view.models = &rig.models;
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        rig.worker[slot] = (struct fleet_worker){.slot = slot, .generation = 7};
        rig.worker[slot].id[0] = (char)('a' + slot);
        rig.view.worker[slot] = &rig.worker[slot];
        worker_set_add(&rig.view.present, slot);
        worker_set_add(&rig.view.any_model, slot);
    }
    publish();
    rig.board = aligned_alloc(64, (sizeof(*rig.board) + 63) / 64 * 64);
    cr_assert_not_null(rig.board);
    memset(rig.board, 0, sizeof(*rig.board));
}

static inline void
open_rig(void)
{
    static struct config config;
    struct radix_limits belief = {
        .bytes_max = (size_t)16 << 20, .namespaces_max = 8, .depth_max = 64};

    memset(&rig, 0, sizeof(rig));
    rig.now_us = 1000 * MS;
    config.limits.json_depth_max = 16;
    config.limits.spans_max = 64;
    config.belief.block_bytes = 16;
    config.belief.depth_max = 64;
    cr_assert_eq(route_scratch_init(&rig.scratch, &config), 0);
    cr_assert_eq(ring_init(&rig.facts, 1 << 16), 0);
    qsbr_init(&rig.qsbr);
    cr_assert_eq(radix_new(&rig.belief, &belief, &rig.qsbr), 0);
    open_fleet();
    rng_init(&rig.rng, 1);
    rig.elect = ELECT_CONFIG_DEFAULT;
    rig.world = (struct route_world){.elect = &rig.elect,
                                     .view = &rig.view,
                                     .board = rig.board,
                                     .belief = rig.belief,
                                     .rank_inflight = rig.rank_inflight,
                                     .tokens = {.view = &rig.mirrors}};
    rig.lane = (struct dispatch_lane){.board = rig.board,
                                      .rank_inflight = rig.rank_inflight,
                                      .scratch = &rig.scratch,
                                      .rng = &rig.rng,
                                      .metrics = &rig.metrics,
                                      .facts = &rig.facts,
                                      .attempts_max = WORKERS,
                                      .retries = {.after_send = 1}};
    for (unsigned status = 500; status <= 504; status++) {
        rig.lane.retries.statuses.bits[1] |= UINT64_C(1) << (status - 464);
    }
}

static inline void
close_rig(void)
{
    const char *reason;

    if (rig.d.lane != NULL) {
        cr_assert(dispatch_check(&rig.d, &reason), "%s", reason);
    }
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        const struct fleet_lease *half = &rig.d.split.choice.prefill.lease;
        bool open = rig.d.choice.lease.taken && rig.d.choice.lease.slot == slot;
        bool prefills = half->taken && half->slot == slot;
        cr_assert_eq(gauge_read(&rig.board->inflight[slot]), open + prefills);
    }
    route_scratch_fini(&rig.scratch);
    ring_fini(&rig.facts);
    free(rig.board);
    radix_free(rig.belief);
    qsbr_fini(&rig.qsbr);
}

/* A request that has been read; asked: for its tokens. */
static inline void
start(bool asked)
{
    static const char body[] =
        "{\"stream\":true,\"prompt\":\"four blocks of sixteen bytes each, "
        "which the worker learns of\"}";

    role_is_lane();
    dispatch_init(&rig.d, &rig.lane, rig.now_us);
    cr_assert_eq(route_read(&rig.scratch, slice_of(body), SCAN_API_GUESSED), 0);
    rig.d.routed = true;
    rig.d.stream = true;
    dispatch_start(&rig.d, asked);
}

/* Does as it says until it waits, or wants what only a test can do. */
static inline enum dispatch_action
pull(void)
{
    enum dispatch_action action;

    role_is_lane();
    while ((action = dispatch_next(&rig.d)) == DISPATCH_ELECT) {
        dispatch_elect(&rig.d, &rig.world, rig.wall_us);
        rig.now_us += 1;
        dispatch_elected(&rig.d, rig.now_us);
    }
    return action;
}

static inline enum dispatch_action
fail(enum dispatch_fault fault)
{
    struct dispatch_failure failure = {.fault = fault, .status = 503};

    role_is_lane();
    dispatch_failed(&rig.d, &failure);
    return pull();
}

/* Whether this answer is left for another worker's. */
static inline bool
drops_after(unsigned status, uint32_t seconds)
{
    role_is_lane();
    struct dispatch_failure failure = {.fault = DISPATCH_STATUS,
                                       .status = status,
                                       .has_retry_after = seconds != 0,
                                       .retry_after_s = seconds};
    bool dropped = dispatch_drops(&rig.d, &failure);

    if (dropped) {
        dispatch_failed(&rig.d, &failure);
    }
    return dropped;
}

/* The elected worker gets the whole request. */
static inline void
deliver(void)
{
    role_is_lane();
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    dispatch_connected(&rig.d);
    dispatch_sent(&rig.d);
}

/* Sent to some worker, and answered. */
static inline void
answer(unsigned status)
{
    role_is_lane();
    cr_assert_eq(pull(), DISPATCH_CONNECT);
    dispatch_connected(&rig.d);
    rig.now_us += 5 * MS;
    dispatch_answered(&rig.d, status, rig.now_us);
}

static inline void
end(enum dispatch_end how)
{
    struct dispatch_report report = {.end = how,
                                     .status = 502,
                                     .usage = {.prompt_tokens = 9},
                                     .now_us = rig.now_us,
                                     .wall_ms = 1000000};

    role_is_lane();
    dispatch_end(&rig.d, &report);
}

/* Takes all facts as control does; the last of a kind. */
static inline const void *
facts(enum fact_kind wanted, uint32_t *count)
{
    static _Alignas(8) unsigned char last[4096];
    const void *record;
    size_t size;

    *count = 0;
    while ((record = ring_peek(&rig.facts, &size)) != NULL) {
        const struct fact_outcome *outcome = record;
        if (*(const uint32_t *)record == wanted) {
            cr_assert(size <= sizeof(last));
            memcpy(last, record, size);
            ++*count;
        }
        if (*(const uint32_t *)record == FACT_OUTCOME) {
            (void)breaker_report(&rig.breaker[outcome->slot], &breaker_config,
                                 breaker_config.failures,
                                 outcome->result == FACT_ANSWERED, rig.now_us);
        }
        ring_consume(&rig.facts);
    }
    publish();
    return last;
}

#endif
