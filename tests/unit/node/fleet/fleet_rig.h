/*
 * A fleet on a virtual clock, with a scripted engine behind each worker, for
 * tests. Worker i listens on port 8000 + i.
 */
#ifndef TESTS_UNIT_NODE_FLEET_RIG_H
#define TESTS_UNIT_NODE_FLEET_RIG_H

#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>

#include "node/fleet/fleet.h"
#include "tests/unit/node/fleet/fleet_settings.h"

#define RIG_ENGINES   8
#define RIG_ADDRESSES 3
#define RIG_MS        UINT64_C(1000)
#define RIG_S         UINT64_C(1000000)

struct rig_engine {
    unsigned health;     /* status of health.path; 0: nobody answers */
    unsigned models;     /* status of /v1/models */
    unsigned metrics;    /* status of /metrics */
    unsigned prometheus; /* status of /prometheus/metrics */
    unsigned slots;      /* status of /slots; 0: 404 */
    const char *models_body;
    const char *metrics_body;
    bool hangs;             /* probes are taken and not answered */
    bool silent;            /* they time out */
    unsigned silent_checks; /* so many health checks do */
    uint32_t check_us;      /* a health check takes so long */
};

struct rig_note {
    enum fleet_event event;
    uint32_t slot;
    uint64_t at_us;
    const char *reason;
    uint64_t number;
};

struct rig {
    struct qsbr qsbr;
    struct fleet_board *board; /* the fleet's */
    struct fleet_config config;
    struct fleet *fleet;
    uint64_t now_us;
    struct rig_engine engine[RIG_ENGINES];
    uint32_t probes[RIG_ENGINES][FLEET_PROBES];
    uint32_t fresh[RIG_ENGINES]; /* checks on a connection of their own */
    uint64_t health_at_us[RIG_ENGINES]; /* of the last health probe */
    char last_target[FLEET_TARGET_MAX];
    uint32_t address[RIG_ADDRESSES]; /* of any name, host order, up to a 0 */
    uint32_t dead;                   /* address that nobody answers at */
    uint32_t lookups;
    struct rig_note note[256];
    size_t notes;
    uint32_t views;
};

static struct rig rig;

static inline void
rig_start(void)
{
    qsbr_init(&rig.qsbr);
    rig.config = fleet_settings();
    rig.now_us = 1000 * RIG_S;
    for (unsigned i = 0; i < RIG_ENGINES; i++) {
        rig.engine[i] = (struct rig_engine){
            .health = 200,
            .models = 200,
            .metrics = 404,
            .prometheus = 404,
            .models_body = "{\"data\":[{\"id\":\"m\",\"owned_by\":\"vllm\"}]}",
            .metrics_body = "",
        };
    }
    cr_assert_eq(fleet_new(&rig.fleet, &rig.config, &rig.qsbr), 0);
    rig.board = fleet_board(rig.fleet);
}

static inline void
rig_stop(void)
{
    fleet_free(rig.fleet);
    qsbr_fini(&rig.qsbr);
}

static inline struct rig_engine *
rig_engine_at(uint16_t port)
{
    cr_assert(port >= 8000 && port < 8000 + RIG_ENGINES);
    return &rig.engine[port - 8000];
}

static inline bool
rig_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text);
    size_t m = strlen(end);

    return n >= m && strcmp(text + n - m, end) == 0;
}

static inline void
rig_answer(const struct fleet_out *out)
{
    struct rig_engine *engine = rig_engine_at(out->url->port);
    struct fleet_probed result = {
        .slot = out->worker->slot,
        .generation = out->worker->generation,
        .probe = out->probe,
        .failure = "",
        .body = {NULL, 0},
    };

    rig.probes[out->url->port - 8000][out->probe]++;
    rig.fresh[out->url->port - 8000] +=
        out->fresh && out->probe == FLEET_PROBE_HEALTH;
    if (out->probe == FLEET_PROBE_HEALTH) {
        rig.health_at_us[out->url->port - 8000] = rig.now_us;
    }
    memcpy(rig.last_target, out->target, sizeof rig.last_target);
    if (engine->hangs) {
        return;
    }
    const struct sockaddr_in *in = (const void *)&out->worker->address;
    bool dead = rig.dead != 0 && in->sin_addr.s_addr == htonl(rig.dead);
    if (out->probe == FLEET_PROBE_HEALTH && engine->silent_checks != 0) {
        engine->silent_checks--;
        result.failure = "timeout";
    } else if (engine->silent) {
        result.failure = "timeout";
    } else if (engine->health == 0 || dead) {
        result.failure = "connect";
    } else if (rig_ends_with(out->target, "/v1/models")) {
        result.status = engine->models;
        result.body = slice_of(engine->models_body);
    } else if (rig_ends_with(out->target, "/prometheus/metrics")) {
        result.status = engine->prometheus;
        result.body = slice_of(engine->metrics_body);
    } else if (rig_ends_with(out->target, "/slots")) {
        result.status = engine->slots != 0 ? engine->slots : 404;
        result.body = slice_of(engine->metrics_body);
    } else if (rig_ends_with(out->target, "/metrics")) {
        result.status = engine->metrics;
        result.body = slice_of(engine->metrics_body);
    } else {
        result.status = engine->health;
    }
    if (out->probe == FLEET_PROBE_HEALTH) {
        rig.now_us += engine->check_us;
    }
    fleet_probed(rig.fleet, &result, rig.now_us);
}

static inline void
rig_resolve(const struct fleet_out *out)
{
    struct sockaddr_storage addresses[RIG_ADDRESSES] = {{0}};
    size_t count = 0;

    for (; count < RIG_ADDRESSES && rig.address[count] != 0; count++) {
        struct sockaddr_in *in =
            (struct sockaddr_in *)(void *)&addresses[count];
        in->sin_family = AF_INET;
        in->sin_addr.s_addr = htonl(rig.address[count]);
        in->sin_port = htons(out->url->port);
    }
    rig.lookups++;
    fleet_resolved(rig.fleet, out->worker->slot, out->worker->generation,
                   addresses, count, rig.now_us);
}

static inline void
rig_note(const struct fleet_out *out)
{
    cr_assert_lt(rig.notes, sizeof rig.note / sizeof *rig.note);
    rig.note[rig.notes++] = (struct rig_note){
        .event = out->event,
        .slot = out->worker->slot,
        .at_us = rig.now_us,
        .reason = out->reason,
        .number = out->number,
    };
}

static inline void
rig_pump(void)
{
    struct fleet_out out;
    const char *reason;

    while (fleet_next_out(rig.fleet, &out)) {
        switch (out.kind) {
        case FLEET_OUT_PROBE:
            rig_answer(&out);
            break;
        case FLEET_OUT_RESOLVE:
            rig_resolve(&out);
            break;
        case FLEET_OUT_VIEW:
            rig.views++;
            cr_assert_eq(fleet_publish(rig.fleet), 0);
            break;
        case FLEET_OUT_EVENT:
            rig_note(&out);
            break;
        }
    }
    cr_assert(fleet_check(rig.fleet, &reason), "%s", reason);
}

/* Lets us pass, ticking whenever the fleet asks for it. */
static inline void
rig_pass(uint64_t us)
{
    uint64_t end = rig.now_us + us;

    for (;;) {
        uint64_t deadline = fleet_deadline(rig.fleet);
        if (deadline > end) {
            break;
        }
        rig.now_us = deadline > rig.now_us ? deadline : rig.now_us;
        fleet_tick(rig.fleet, rig.now_us);
        rig_pump();
    }
    rig.now_us = end;
    fleet_tick(rig.fleet, rig.now_us);
    rig_pump();
}

static inline struct config_worker
rig_config(unsigned engine)
{
    struct config_worker worker = {.url = {.host = "127.0.0.1"}};

    worker.url.port = (uint16_t)(8000 + engine);
    return worker;
}

/* Adds engine i and pumps; its slot. */
static inline uint32_t
rig_add(unsigned engine)
{
    struct config_worker worker = rig_config(engine);
    uint32_t slot = WORKER_NONE;

    cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, &slot), 0);
    rig_pump();
    return slot;
}

static inline const struct fleet_view *
rig_view(void)
{
    return fleet_view_get(rig.board);
}

static inline bool
rig_eligible(uint32_t slot)
{
    return worker_set_has(&rig_view()->eligible, slot);
}

/* How often an event was noted. */
static inline unsigned
rig_count(enum fleet_event event)
{
    unsigned count = 0;

    for (size_t i = 0; i < rig.notes; i++) {
        count += rig.note[i].event == event;
    }
    return count;
}

static inline const struct rig_note *
rig_last(enum fleet_event event)
{
    for (size_t i = rig.notes; i-- > 0;) {
        if (rig.note[i].event == event) {
            return &rig.note[i];
        }
    }
    cr_assert(false, "never noted: %s", fleet_event_name(event));
    return NULL;
}

static inline void
rig_report(uint32_t slot, enum fleet_result result)
{
    fleet_report(rig.fleet, slot, rig_view()->worker[slot]->generation, result,
                 rig.now_us);
    rig_pump();
}

#endif
