/*
 * Lanes that take and leave leases while control adds, drains, removes and
 * publishes as fast as it can: what a lane reads in a view is whole, the slot
 * of a held lease is never given to another worker, at most one trial runs at
 * a half-open worker, and in the end nothing is in flight.
 *
 *   stress_fleet [ROUNDS]
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/base/role.h"
#include "node/elect/elect.h"
#include "node/fleet/fleet.h"

#define LANES   3
#define WORKERS 10
#define SEATS   4

struct lane {
    pthread_t thread;
    struct qsbr_reader *reader;
    struct rng rng;
    uint64_t rounds;
    uint64_t sent;
};

static struct qsbr qsbr;
static struct fleet *fleet;
static struct fleet_board *board;
static struct counter done; /* lanes */
static struct gauge trying[WORKERS_MAX];

#define REQUIRE(condition)                                                \
    do {                                                                  \
        if (!(condition)) {                                               \
            printf("stress_fleet: %s (line %d)\n", #condition, __LINE__); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static void
read_all(const struct fleet_view *view)
{
    WORKER_SET_EACH (slot, &view->present) {
        REQUIRE(view->worker[slot]->slot == slot);
        REQUIRE(view->worker[slot]->id[0] == 'w');
        REQUIRE(view->identity[slot] == view->worker[slot]->identity);
    }
    struct worker_set m = fleet_view_find_model(view, SLICE("m"));
    struct worker_set outside = worker_set_minus(&m, &view->present);
    REQUIRE(worker_set_empty(&outside));
}

static uint32_t
elect(struct lane *lane, const struct fleet_view *view)
{
    static const struct elect_config config = {.policy = ELECT_KVASIR,
                                               .balance_abs = 64,
                                               .balance_rel_permille = 1500};
    uint32_t load[WORKERS_MAX] = {0};
    struct elect_state state = {.last = WORKER_NONE};
    struct elect_choice choice;
    struct elect_input input = {
        .candidates = fleet_view_candidates(view, board),
        .load = load,
    };

    fleet_board_loads(board, &input.candidates, load, NULL);
    elect_pick(&config, &state, &input, &lane->rng, &choice);
    return choice.worker;
}

static void
take(struct lane *lane, struct fleet_lease *lease)
{
    role_is_lane();
    const struct fleet_view *view = fleet_view_get(board);
    uint32_t slot = elect(lane, view);

    read_all(view);
    if (slot == WORKER_NONE || !fleet_lease_take(lease, board, view, slot)) {
        return;
    }
    lane->sent++;
    if (lease->trial) {
        REQUIRE(gauge_claim(&trying[slot]));
    }
}

static void
leave(struct fleet_lease *lease)
{
    role_is_lane();
    const struct fleet_worker *worker =
        fleet_view_get(board)->worker[lease->slot];

    REQUIRE(worker == NULL || worker->generation == lease->generation);
    if (lease->trial) {
        gauge_set(&trying[lease->slot], 0);
    }
    fleet_lease_leave(lease, board);
}

static void *
lane_main(void *argument)
{
    struct lane *lane = argument;
    struct fleet_lease lease[SEATS] = {{0}};

    for (uint64_t i = 0; i < lane->rounds; i++) {
        struct fleet_lease *s = &lease[rng_below(&lane->rng, SEATS)];
        qsbr_online(&qsbr, lane->reader);
        if (s->taken) {
            leave(s);
        } else {
            take(lane, s);
        }
        qsbr_offline(lane->reader);
    }
    qsbr_online(&qsbr, lane->reader);
    for (unsigned i = 0; i < SEATS; i++) {
        if (lease[i].taken) {
            leave(&lease[i]);
        }
    }
    qsbr_offline(lane->reader);
    counter_add(&done, 1);
    return NULL;
}

static void
do_outputs(uint64_t now_us)
{
    struct fleet_out out;

    while (fleet_next_out(fleet, &out)) {
        if (out.kind == FLEET_OUT_VIEW) {
            REQUIRE(fleet_publish(fleet) == 0);
        } else if (out.kind == FLEET_OUT_PROBE) {
            struct fleet_probed result = {
                .slot = out.worker->slot,
                .generation = out.worker->generation,
                .probe = out.probe,
                .status = 200,
                .failure = "",
                .body = SLICE("{\"data\":[{\"id\":\"m\"}]}"),
            };
            fleet_probed(fleet, &result, now_us);
        }
    }
}

static void
shake(struct rng *rng, uint64_t now_us)
{
    struct config_worker worker = {.url = {.host = "127.0.0.1"}};
    struct worker_set unswept = fleet_unswept(fleet);

    worker.url.port = (uint16_t)(1 + rng_below(rng, WORKERS));
    (void)snprintf(worker.id, sizeof worker.id, "w%u", worker.url.port);
    uint32_t slot = fleet_find(fleet, slice_of(worker.id));
    if (slot == WORKER_NONE) {
        /* A lane that does not get to run holds the slots of those gone. */
        int added = fleet_add(fleet, &worker, now_us, NULL);
        REQUIRE(added == 0 || added == FLEET_E_FULL);
    } else if (rng_below(rng, 4) == 0) {
        fleet_remove(fleet, slot, now_us);
    } else if (rng_below(rng, 4) == 0) {
        fleet_drain(fleet, slot, now_us);
    } else {
        uint32_t generation = fleet_view_get(board)->worker[slot]->generation;
        fleet_report(fleet, slot, generation,
                     (enum fleet_result)rng_below(rng, 2), now_us);
    }
    WORKER_SET_EACH (gone, &unswept) {
        fleet_swept(fleet, gone);
    }
}

int
main(int argc, char **argv)
{
    uint64_t rounds = argc > 1 ? strtoull(argv[1], NULL, 10) : 60000;
    static const struct fleet_config config = {
        .health = {.path = "/health",
                   .interval_ms = 2000,
                   .failures = 1,
                   .successes = 1,
                   .metrics_interval_ms = 1000,
                   .models_interval_ms = 1000},
        .breaker = {.failures = 2,
                    .successes = 2,
                    .open_ms = 50,
                    .open_max_ms = 100},
        .resolve_interval_ms = 1000,
    };
    static struct lane lane[LANES];
    struct rng rng;
    uint64_t now_us = 1;
    uint64_t sent = 0;

    qsbr_init(&qsbr);
    rng_init(&rng, 1);
    REQUIRE(fleet_new(&fleet, &config, &qsbr) == 0);
    board = fleet_board(fleet);
    for (unsigned i = 0; i < LANES; i++) {
        lane[i].reader = qsbr_register(&qsbr);
        lane[i].rounds = rounds;
        rng_init(&lane[i].rng, 100 + i);
        REQUIRE(pthread_create(&lane[i].thread, NULL, lane_main, &lane[i]) ==
                0);
    }
    while (counter_read(&done) < LANES) {
        now_us += 20000;
        fleet_tick(fleet, now_us);
        shake(&rng, now_us);
        do_outputs(now_us);
    }
    for (unsigned i = 0; i < LANES; i++) {
        REQUIRE(pthread_join(lane[i].thread, NULL) == 0);
        sent += lane[i].sent;
    }
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        REQUIRE(gauge_read(&board->inflight[i]) == 0);
        REQUIRE(gauge_read(&board->trial[i]) == 0);
    }
    REQUIRE(sent > 0);
    printf("stress_fleet: %llu sent, %llu views\n", (unsigned long long)sent,
           (unsigned long long)fleet_view_get(board)->version);
    fleet_free(fleet);
    qsbr_fini(&qsbr);
    return 0;
}
