/*
 * The control thread's table of workers: which workers there are, whether they
 * are well, what they serve, and the views of that for lanes (fleet_view.h).
 *
 * It is pure and runs on the caller's clock. The shell (probe.c) calls
 * fleet_tick() at fleet_deadline(), pulls the work with fleet_next_out(), does
 * it, and reports with fleet_probed() and fleet_resolved(). The owner adds and
 * removes workers and passes what lanes saw to fleet_report(). Any call may
 * cause outputs: pull until there are none.
 *
 * Health. Each worker gets three kinds of probe, one at a time and health
 * first: GET health.path (2xx is good; if the engine does not know the path, or
 * is SGLang, whose /health takes a second and a token, /v1/models stands in for
 * it), GET /v1/models, GET /metrics (or /slots of llama.cpp's server). A refused
 * connection or an answer that is not good makes a worker unhealthy at once.
 * Silence is no such proof, for a busy engine answers late: it takes
 * health.failures checks in a row without an answer in time, each sent at the
 * end of the one before; and while bytes of answers come from there
 * (fleet_board_heard()), silence counts for nothing. health.successes good
 * checks make it healthy again. Intervals are shortened at random by up to a
 * tenth, so that probes
 * of many workers and nodes do not coincide. A connect failure or a
 * status of 500 or more seen by a lane brings the next health probe forward, so
 * that an engine whose core died behind a living server is left at once. A probe that timed out may have been
 * lost. So when no worker is healthy, lanes fall back to workers that are down
 * only because of timeouts (fleet_view.h: suspect), rather than refuse
 * requests. A name may have several addresses of which only some answer
 * (localhost is ::1 and 127.0.0.1). All are tried before a worker that is not
 * healthy is declared down, and an address that answers is kept. A new worker
 * becomes eligible after its first good health probe, and after it was asked
 * for its models once: a list that never came means "may serve any", and a
 * router must not say that of a worker that it has not heard yet.
 *
 * Slots. A worker keeps its slot for life. After its removal the slot is reused
 * only when (a) the owner has called fleet_swept(): the index has forgotten it,
 * (b) no request of ours is in flight there, and (c) no reader can hold a
 * record of it. Other threads name a worker by (slot, generation), and a wrong
 * generation is ignored.
 *
 * Role: core. Owns: workers, views and the board; replaced views and records
 * are retired through the caller's qsbr. Thread: control. Limits: WORKERS_MAX
 * workers; ENGINE_MODELS_MAX models each. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_FLEET_H
#define NODE_FLEET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/role.h"
#include "index/base/slice.h"
#include "node/config/config.h"
#include "node/fleet/engine_metrics.h"
#include "node/fleet/engine_models.h"
#include "node/view/breaker.h"
#include "node/view/fleet_view.h"

#define FLEET_TARGET_MAX    (2 * URL_PATH_MAX)
#define FLEET_ADDRESSES_MAX 16 /* of one name; further ones are not tried */

struct fleet;

struct fleet_config {
    struct config_health health;
    struct config_breaker breaker;
    uint32_t resolve_interval_ms; /* between two looks at a worker's name */
    uint32_t max_inflight;        /* of each worker; 0: learned */
    bool learns;                  /* ... unless this is false: any number */
    struct ranges deny;           /* addresses that no worker may have */
    uint64_t seed;                /* of the jitter */
};

enum {
    FLEET_E_FULL = 1,      /* no slot is free */
    FLEET_E_DUPLICATE_ID,  /* a worker of that id is present */
    FLEET_E_DUPLICATE_URL, /* one of that URL is present */
    FLEET_E_DENIED,        /* config_access_denies() says why */
};

/* What a lane saw of one attempt, known when the answer's head arrived or
 * failed to. */
enum fleet_result {
    FLEET_ANSWERED,       /* any status below 500 */
    FLEET_CONNECT_FAILED, /* refused, unreachable, connect timeout */
    FLEET_TIMED_OUT,      /* no head in time */
    FLEET_SEVERED,        /* closed before the head */
    FLEET_ANSWERED_5XX,   /* a status of 500 or more */
};

enum fleet_probe {
    FLEET_PROBE_HEALTH,
    FLEET_PROBE_MODELS,
    FLEET_PROBE_METRICS,
    FLEET_PROBES, /* how many there are */
};

/* What happened to a worker, for the log and for owners of slots. */
enum fleet_event {
    FLEET_ADDED,             /* admit the slot to the index */
    FLEET_UP,                /* healthy */
    FLEET_DOWN,              /* unhealthy: see reason; number: the status, 0
                                without one; target: of the check */
    FLEET_RECOGNISED,        /* its kind became known or changed */
    FLEET_MODELS_CHANGED,    /* its model list became known or changed */
    FLEET_CAPACITY_CHANGED,  /* number: tokens that its KV cache holds */
    FLEET_ADDRESS_CHANGED,   /* its name has another address now */
    FLEET_CIRCUIT_OPEN,      /* number: milliseconds */
    FLEET_CIRCUIT_HALF_OPEN, /* trial requests may go there */
    FLEET_CIRCUIT_CLOSED,
    FLEET_DRAINING,
    FLEET_DRAINED,   /* none of our requests runs there any more */
    FLEET_UNDRAINED, /* it takes requests again */
    FLEET_REMOVED,   /* drop the slot from the index, then fleet_swept() */
    FLEET_EVENTS,    /* how many there are */
};

enum fleet_out_kind {
    FLEET_OUT_PROBE,   /* GET target there; answer with fleet_probed() */
    FLEET_OUT_RESOLVE, /* look up url.host; answer with fleet_resolved() */
    FLEET_OUT_VIEW,    /* call fleet_publish() */
    FLEET_OUT_EVENT,
};

struct fleet_out {
    enum fleet_out_kind kind;
    const struct fleet_worker *worker; /* good until the next call; not VIEW */
    const struct url *url;             /* the same; PROBE and RESOLVE */
    enum fleet_probe probe;            /* PROBE */
    uint32_t timeout_ms;               /* PROBE */
    bool fresh; /* PROBE: on a connection of its own, not one that waits */
    enum fleet_event event;        /* EVENT */
    const char *reason;            /* EVENT: static text, or "" */
    uint64_t number;               /* EVENT: see there */
    char target[FLEET_TARGET_MAX]; /* PROBE */
};

/* How a probe ended. */
struct fleet_probed {
    uint32_t slot;
    uint32_t generation;
    enum fleet_probe probe;
    unsigned status;     /* of the answer; 0: there was none */
    const char *failure; /* static text when there was none: "timeout", ... */
    struct slice body;   /* borrowed for the call */
};

/* The ranges that no worker's address may be in. Borrowed from the fleet. */
const struct ranges *fleet_deny(const struct fleet *fleet);

/* 0 and *out with an empty view published on its board, or -ENOMEM. The qsbr
 * outlives the fleet. */
int fleet_new(struct fleet **out, const struct fleet_config *config,
              struct qsbr *qsbr) MUST_CHECK;

/* Other rules from the next probe and the next report on. */
void fleet_configure(struct fleet *fleet, const struct config_health *health,
                     const struct config_breaker *breaker);

/* How many requests a worker may have at one time, from now on: max_inflight of
 * struct fleet_config, and learns. */
void fleet_limit(struct fleet *fleet, uint32_t max_inflight, bool learns);

/* Frees all of it. No reader may be online. NULL is fine. */
void fleet_free(struct fleet *fleet);

/* What lanes are given: the fleet's, good until fleet_free(). */
struct fleet_board *fleet_board(struct fleet *fleet);

/*
 * Takes a worker in; its probes are due now. An empty id becomes host:port.
 * 0 and *slot (may be NULL), or an FLEET_E_ outcome.
 */
int fleet_add(struct fleet *fleet, const struct config_worker *worker,
              uint64_t now_us, uint32_t *slot) MUST_CHECK;

/* Removes a present worker at once; requests that run there may finish. Its
 * slot waits for fleet_swept(). */
void fleet_remove(struct fleet *fleet, uint32_t slot, uint64_t now_us);

/* Sends no new requests to a present worker. When none runs there any more it
 * is FLEET_DRAINED. Repeating it is harmless. */
void fleet_drain(struct fleet *fleet, uint32_t slot, uint64_t now_us);

/* Says anew what named a present worker (`from` and `left` of its
 * configuration). */
void fleet_named(struct fleet *fleet, uint32_t slot,
                 const struct config_worker *named);

/* Ends the draining of a present worker: it takes requests again. Harmless for
 * a worker that does not drain. */
void fleet_undrain(struct fleet *fleet, uint32_t slot, uint64_t now_us);

/* The slot of the present worker of that id, or WORKER_NONE. */
uint32_t fleet_find(const struct fleet *fleet, struct slice id);

/* Slots whose removal waits for fleet_swept(). */
struct worker_set fleet_unswept(const struct fleet *fleet);

/* Present workers that were added a moment ago: neither ready for requests nor
 * found wanting by a first check. */
struct worker_set fleet_unchecked(const struct fleet *fleet);

/* The index has forgotten the removed worker of that slot, which is one of
 * fleet_unswept(). */
void fleet_swept(struct fleet *fleet, uint32_t slot);

/* What a lane saw; ignored when the worker is gone. */
void fleet_report(struct fleet *fleet, uint32_t slot, uint32_t generation,
                  enum fleet_result result, uint64_t now_us);

/* How a probe that was asked for ended; ignored when the worker is gone. */
void fleet_probed(struct fleet *fleet, const struct fleet_probed *result,
                  uint64_t now_us);

/*
 * The addresses of a worker's name, in the resolver's order, port included;
 * none: the name has none now. The worker's address stays while it answers and
 * is among them; otherwise the next one is tried. Ignored when the worker is
 * gone.
 */
void fleet_resolved(struct fleet *fleet, uint32_t slot, uint32_t generation,
                    const struct sockaddr_storage *found, size_t count,
                    uint64_t now_us);

/* The shortest round trip to each present worker lately, in us, as its health
 * probes show, into an array of WORKERS_MAX by slot; 0: none is known. The
 * engine's own time is in it. */
void fleet_rounds(const struct fleet *fleet, uint32_t *round_us);

/* Whether a report has left work for fleet_tick() or fleet_next_out(), or made
 * fleet_deadline() earlier, since the last fleet_tick(). */
bool fleet_is_stirred(const struct fleet *fleet);

/* Lets time pass up to now_us, which never goes back. */
void fleet_tick(struct fleet *fleet, uint64_t now_us);

/* When (us) fleet_tick() has something to do; UINT64_MAX: never, as things
 * are. */
uint64_t fleet_deadline(const struct fleet *fleet);

/* The next thing to do in *out; false when there is none. What *out points at
 * is good until the next call into the fleet. */
bool fleet_next_out(struct fleet *fleet, struct fleet_out *out) MUST_CHECK;

/* Builds the view of now and publishes it. 0, or -ENOMEM: the one before
 * stays, and FLEET_OUT_VIEW comes again after a while. */
int fleet_publish(struct fleet *fleet) MUST_CHECK;

/* One present worker, for the admin API and metrics. */
struct fleet_status {
    const struct fleet_worker *worker;  /* good until the next call */
    const struct config_worker *config; /* as it was added; the same */
    const char *state;                  /* see fleet_status() */
    const char *reason;                 /* of the last failed probe, or "" */
    uint64_t since_us;                  /* of the last change of health */
    bool healthy;
    bool draining;
    bool drained;
    bool models_known;
    const struct engine_models *models; /* good until the next call */
    struct engine_metrics metrics;      /* of the last good scrape */
    uint64_t metrics_at_us;             /* of it; 0: none */
    uint64_t probes_failed;             /* health probes, ever */
};

/*
 * False when no worker is present in the slot. state is one of "new" (not
 * checked or not asked for its models yet), "unresolved", "unhealthy",
 * "drained", "draining", "circuit_open", "circuit_half_open", "healthy".
 */
bool fleet_status(const struct fleet *fleet, uint32_t slot,
                  struct fleet_status *status) MUST_CHECK;

/* "worker_up", ...: the names of log lines. Static text. */
const char *fleet_event_name(enum fleet_event event);

/* Verifies each invariant; false and *reason (static text) when one is
 * broken. */
bool fleet_check(const struct fleet *fleet, const char **reason);

#endif
