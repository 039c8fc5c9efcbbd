/*
 * A fleet under random workers, engines, lanes, lookups and time. After each
 * step fleet_check() holds and what was pulled is lawful; when the world calms
 * down every worker is where it should be, and when all are gone nothing is
 * left. Run under AddressSanitizer it also says that no reader is ever left
 * with freed memory.
 *
 *   property_fleet SEEDS [FIRST]
 */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/base/role.h"
#include "node/fleet/fleet.h"

#define STEPS   400
#define PORTS   12 /* engines there may be */
#define READERS 3
#define SEATS   16
#define PENDING 1024
#define S       UINT64_C(1000000)

/* A probe or lookup that was pulled and not yet answered. */
struct pending {
    bool lookup;
    enum fleet_probe probe;
    uint32_t slot;
    uint32_t generation;
    uint16_t port;
};

struct reader {
    struct qsbr_reader *qsbr;
    const struct fleet_view *view; /* NULL: offline */
};

struct world {
    struct rng rng;
    struct qsbr qsbr;
    struct fleet *fleet;
    struct fleet_board *board;
    uint64_t now_us;
    bool good[PORTS]; /* the engine answers as it should */
    struct reader reader[READERS];
    struct fleet_lease lease[SEATS];
    struct pending pending[PENDING];
    size_t pending_count;
    uint32_t generation[WORKERS_MAX]; /* last seen in a slot */
};

static struct world world;
static uint64_t seed;
static unsigned step;

#define REQUIRE(condition)                                                \
    do {                                                                  \
        if (!(condition)) {                                               \
            printf("property_fleet: %s (line %d), seed %llu, step %u\n",  \
                   #condition, __LINE__, (unsigned long long)seed, step); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

static uint32_t
below(uint32_t bound)
{
    return (uint32_t)rng_below(&world.rng, bound);
}

/* A random slot of the set, or WORKER_NONE. */
static uint32_t
any_of(const struct worker_set *set)
{
    uint32_t count = worker_set_count(set);
    uint32_t slot = worker_set_next(set, 0);

    for (uint32_t k = count > 0 ? below(count) : 0; k > 0; k--) {
        slot = worker_set_next(set, slot + 1);
    }
    return slot;
}

static void
take_pending(const struct fleet_out *out, bool lookup)
{
    struct pending next = {
        .lookup = lookup,
        .probe = out->probe,
        .slot = out->worker->slot,
        .generation = out->worker->generation,
        .port = out->url->port,
    };

    for (size_t i = 0; i < world.pending_count; i++) {
        const struct pending *p = &world.pending[i];
        REQUIRE(p->slot != next.slot || p->generation != next.generation ||
                p->lookup != lookup || (!lookup && p->probe != next.probe));
    }
    REQUIRE(lookup || out->worker->address_len > 0);
    REQUIRE(world.pending_count < PENDING);
    world.pending[world.pending_count++] = next;
}

static void
take_event(const struct fleet_out *out)
{
    uint32_t slot = out->worker->slot;

    if (out->event == FLEET_ADDED) {
        REQUIRE(out->worker->generation == world.generation[slot] + 1);
        world.generation[slot] = out->worker->generation;
        for (unsigned i = 0; i < SEATS; i++) {
            REQUIRE(!world.lease[i].taken || world.lease[i].slot != slot);
        }
    }
    REQUIRE(out->worker->generation == world.generation[slot]);
}

static void
pump(void)
{
    struct fleet_out out;
    const char *reason;
    unsigned outputs = 0;

    while (fleet_next_out(world.fleet, &out)) {
        REQUIRE(++outputs < 4096);
        switch (out.kind) {
        case FLEET_OUT_VIEW:
            REQUIRE(fleet_publish(world.fleet) == 0);
            break;
        case FLEET_OUT_EVENT:
            take_event(&out);
            break;
        case FLEET_OUT_PROBE:
        case FLEET_OUT_RESOLVE:
            take_pending(&out, out.kind == FLEET_OUT_RESOLVE);
            break;
        }
    }
    if (!fleet_check(world.fleet, &reason)) {
        printf("property_fleet: %s, seed %llu, step %u\n", reason,
               (unsigned long long)seed, step);
        exit(1);
    }
}

static void
answer(size_t i)
{
    struct pending p = world.pending[i];
    bool good = world.good[p.port];
    struct sockaddr_storage addresses[2] = {{.ss_family = AF_INET},
                                            {.ss_family = AF_INET}};
    struct fleet_probed result = {
        .slot = p.slot,
        .generation = p.generation,
        .probe = p.probe,
        .status = good ? 200 : (unsigned[]){0, 404, 503, 401}[below(4)],
        .failure = "connect",
    };

    world.pending[i] = world.pending[--world.pending_count];
    ((struct sockaddr_in *)(void *)&addresses[0])->sin_addr.s_addr = 1;
    ((struct sockaddr_in *)(void *)&addresses[1])->sin_addr.s_addr = 2;
    if (p.lookup) {
        fleet_resolved(world.fleet, p.slot, p.generation, addresses,
                       good ? 1 + below(2) : below(3), world.now_us);
        return;
    }
    if (p.probe == FLEET_PROBE_MODELS) {
        static const char *const lists[] = {
            "{\"data\":[{\"id\":\"a\"}]}",
            "{\"data\":[{\"id\":\"a\"},{\"id\":\"b\"}]}", "{\"data\":[]}",
            "not json"};
        result.body = slice_of(lists[below(4)]);
    } else if (p.probe == FLEET_PROBE_METRICS) {
        static const char *const texts[] = {
            "vllm:num_requests_running 3\n", "sglang:num_queue_reqs 2\n",
            "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"9\"} 1",
            ""};
        result.body = slice_of(texts[below(4)]);
    }
    fleet_probed(world.fleet, &result, world.now_us);
}

static void
add_worker(void)
{
    struct config_worker worker = {.url = {.port = (uint16_t)below(PORTS)}};

    (void)snprintf(worker.url.host, sizeof worker.url.host, "%s",
                   below(2) == 0 ? "127.0.0.1" : "engine.local");
    (void)snprintf(worker.id, sizeof worker.id, "w%u", worker.url.port);
    int outcome = fleet_add(world.fleet, &worker, world.now_us, NULL);
    bool there = fleet_find(world.fleet, slice_of(worker.id)) != WORKER_NONE;
    REQUIRE(outcome == 0 || outcome == FLEET_E_DUPLICATE_ID);
    REQUIRE(there);
}

static void
turn_reader(struct reader *reader)
{
    if (reader->view == NULL) {
        qsbr_online(&world.qsbr, reader->qsbr);
        reader->view = fleet_view_get(world.board);
        return;
    }
    WORKER_SET_EACH (slot, &reader->view->present) {
        /* Reads what ASan would know to be gone. */
        REQUIRE(reader->view->worker[slot]->slot == slot);
        REQUIRE(reader->view->worker[slot]->id[0] == 'w');
    }
    struct worker_set a = fleet_view_find_model(reader->view, SLICE("a"));
    struct worker_set outside = worker_set_minus(&a, &reader->view->present);
    REQUIRE(worker_set_empty(&outside));
    reader->view = NULL;
    qsbr_offline(reader->qsbr);
}

static void
turn_seat(struct fleet_lease *lease)
{
    role_is_lane();
    const struct fleet_view *view = fleet_view_get(world.board);
    struct worker_set may = fleet_view_candidates(view, world.board);
    uint32_t slot = any_of(&may);

    if (lease->taken) {
        uint32_t was = lease->slot;
        if (below(2) == 0) {
            fleet_lease_answered(lease, world.board);
            fleet_report(world.fleet, was, lease->generation,
                         (enum fleet_result)below(5), world.now_us);
        }
        fleet_lease_leave(lease, world.board);
    } else if (slot != WORKER_NONE) {
        REQUIRE(fleet_lease_take(lease, world.board, view, slot));
        REQUIRE(world.generation[slot] == lease->generation);
    }
}

static void
sweep_one(void)
{
    struct worker_set unswept = fleet_unswept(world.fleet);
    uint32_t slot = any_of(&unswept);

    if (slot != WORKER_NONE) {
        fleet_swept(world.fleet, slot);
    }
}

static void
pass(uint64_t us)
{
    world.now_us += us;
    fleet_tick(world.fleet, world.now_us);
}

static void
random_step(void)
{
    const struct fleet_view *view = fleet_view_get(world.board);
    uint32_t slot = any_of(&view->present);

    switch (below(12)) {
    case 0:
        add_worker();
        break;
    case 1:
        if (slot != WORKER_NONE && below(3) == 0) {
            fleet_remove(world.fleet, slot, world.now_us);
        }
        break;
    case 2:
        if (slot != WORKER_NONE && below(3) == 0) {
            fleet_drain(world.fleet, slot, world.now_us);
        } else if (slot != WORKER_NONE && below(3) == 0) {
            fleet_undrain(world.fleet, slot, world.now_us);
        }
        break;
    case 3:
        sweep_one();
        break;
    case 4:
        world.good[below(PORTS)] = below(2) == 0;
        break;
    case 5:
        turn_reader(&world.reader[below(READERS)]);
        break;
    case 6:
    case 7:
        turn_seat(&world.lease[below(SEATS)]);
        break;
    case 8:
        pass(below(3 * S));
        break;
    default:
        if (world.pending_count > 0) {
            answer(below((uint32_t)world.pending_count));
        }
        break;
    }
}

/* Everything answers well for a while: all who may serve do. */
static void
calm_down(void)
{
    role_is_lane();
    for (unsigned p = 0; p < PORTS; p++) {
        world.good[p] = true;
    }
    for (unsigned i = 0; i < SEATS; i++) {
        fleet_lease_leave(&world.lease[i], world.board);
    }
    for (unsigned i = 0; i < READERS; i++) {
        if (world.reader[i].view != NULL) {
            turn_reader(&world.reader[i]);
        }
    }
    for (unsigned i = 0; i < 600; i++) {
        while (world.pending_count > 0) {
            answer(world.pending_count - 1);
            pump();
        }
        const struct fleet_view *view = fleet_view_get(world.board);
        WORKER_SET_EACH (slot, &view->trial) {
            fleet_report(world.fleet, slot, view->worker[slot]->generation,
                         FLEET_ANSWERED, world.now_us);
        }
        sweep_one();
        pass(S / 4);
        pump();
    }
    const struct fleet_view *view = fleet_view_get(world.board);
    struct worker_set open = worker_set_minus(&view->present, &view->draining);
    struct worker_set lost = worker_set_minus(&open, &view->eligible);
    REQUIRE(worker_set_empty(&lost));
}

/* All are removed: every slot is free again, and nothing waits. */
static void
clear_away(void)
{
    const struct fleet_view *view = fleet_view_get(world.board);
    struct worker_set all = view->present;

    WORKER_SET_EACH (slot, &all) {
        fleet_remove(world.fleet, slot, world.now_us);
        pump();
    }
    for (unsigned i = 0; i < 2 * PORTS; i++) {
        sweep_one();
        pass(S);
        pump();
    }
    REQUIRE(fleet_deadline(world.fleet) == UINT64_MAX);
    REQUIRE(qsbr_pending(&world.qsbr) == 0);
    struct worker_set unswept = fleet_unswept(world.fleet);
    REQUIRE(worker_set_empty(&unswept));
}

static void
run(void)
{
    struct fleet_config config = {
        .health = {.path = "/health",
                   .interval_ms = 2000,
                   .timeout_ms = 1000,
                   .failures = 1 + (uint32_t)(seed % 3),
                   .successes = 1 + (uint32_t)(seed % 2),
                   .metrics_interval_ms = 1000,
                   .models_interval_ms = 3000},
        .breaker = {.failures = 3,
                    .successes = 2,
                    .open_ms = 1000,
                    .open_max_ms = 4000,
                    .max_ejection_percent = 50},
        .resolve_interval_ms = 5000,
        .seed = seed,
    };

    memset(&world, 0, sizeof world);
    rng_init(&world.rng, seed);
    qsbr_init(&world.qsbr);
    world.now_us = S;
    REQUIRE(fleet_new(&world.fleet, &config, &world.qsbr) == 0);
    world.board = fleet_board(world.fleet);
    for (unsigned i = 0; i < READERS; i++) {
        world.reader[i].qsbr = qsbr_register(&world.qsbr);
    }
    for (step = 0; step < STEPS; step++) {
        random_step();
        pump();
    }
    calm_down();
    clear_away();
    fleet_free(world.fleet);
    qsbr_fini(&world.qsbr);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (seed = first; seed < first + seeds; seed++) {
        run();
    }
    printf("property_fleet: %llu seeds\n", (unsigned long long)seeds);
    return 0;
}
