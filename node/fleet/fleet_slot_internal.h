/*
 * The inside of a fleet: a slot for each worker, and what the files of the
 * fleet do for each other. Private to fleet*.c and their tests.
 *
 * Role: core. Owns: what struct fleet owns. Thread: control. Slots named here
 * are below WORKERS_MAX and present unless said otherwise.
 */
#ifndef NODE_FLEET_SLOT_INTERNAL_H
#define NODE_FLEET_SLOT_INTERNAL_H

#include <netinet/in.h>

#include "index/base/rng.h"
#include "node/fleet/fleet.h"

/* How often what waits for others (drains, sweeps, memory) is looked at. */
#define FLEET_POLL_US UINT64_C(100000)

enum slot_state {
    SLOT_FREE,
    SLOT_PRESENT,
    SLOT_LEAVING, /* removed; not yet to be reused */
};

enum models_state {
    MODELS_UNASKED,
    MODELS_KNOWN,
    MODELS_UNKNOWN, /* asked, and no list came: it may serve any */
};

/* What lanes hold on to: alive counts it until no reader can. */
struct fleet_record {
    struct qsbr_node retire;
    uint32_t *alive;
    struct fleet_record *next_outdated;
    struct fleet_worker worker;
};

struct probe_state {
    uint64_t due_us;
    bool flying;
    bool alternative; /* ask the second path */
};

/* The shortest of a worker's round trips lately: of the present window, and of
 * the one before. */
struct fleet_rounds {
    uint32_t least_us; /* 0: none */
    uint32_t before_us;
    uint32_t count;
};

/* What each tick looks at comes first, in a few cache lines. */
struct fleet_slot {
    enum slot_state state;
    uint32_t generation;
    struct breaker breaker;
    struct probe_state probe[FLEET_PROBES];
    uint64_t resolve_due_us; /* UINT64_MAX: its host is an address */
    bool resolving;
    bool healthy;
    bool silent; /* the last health probe timed out, and nothing worse */
    bool draining;
    bool drained;
    bool swept;
    bool record_outdated; /* the record differs from `now` */
    enum models_state models_state;
    uint32_t records_alive; /* records of any generation not yet freed */
    uint32_t events;        /* a bit per fleet_event not yet pulled */
    uint64_t drain_version; /* of the first view without it */

    struct fleet_record *record; /* current; NULL unless present */
    struct fleet_worker now;     /* what the record should say */
    struct config_worker config;

    uint32_t good_row; /* health probes in a row */
    uint32_t bad_row;
    unsigned bad_status; /* the last check's, where a status was why */
    uint64_t probes_failed;
    const char *reason;        /* static text */
    uint64_t sent_before[2];   /* totals at the last two fleet_outlier_note() */
    uint64_t failed_before[2]; /* the same of failures; the older one first */
    uint64_t since_us;
    uint64_t health_sent_us;
    uint32_t health_sent;       /* how many */
    struct fleet_rounds rounds; /* of good health probes */
    size_t addresses_count;     /* of the last lookup */
    size_t unanswered;          /* health probes in a row without an answer */

    struct engine_models models;
    struct engine_metrics metrics;
    uint64_t metrics_at_us;
    uint64_t capacity_tokens; /* last told by the engine; 0: never */
    uint32_t metrics_bad_row;
    uint32_t inflight_before; /* ours and peers', when the scrape was sent */
    uint32_t foreign_seen;    /* by the last scrape */
};

struct fleet_models_table {
    struct qsbr_node retire;
    struct fleet_models models;
    char *bytes; /* of the names */
    struct fleet_model list[];
};

struct fleet_published {
    struct qsbr_node retire;
    struct fleet *fleet;
    struct fleet_view view;
};

struct fleet {
    struct fleet_config config;
    struct qsbr *qsbr;
    struct rng rng;
    uint64_t now_us; /* of the last call */
    struct fleet_board board;

    struct fleet_published *published;
    struct fleet_models_table *table;
    struct fleet_record *outdated; /* replaced, to be retired after publish */
    uint64_t freed_version;        /* views up to it are gone */
    uint64_t note_due_us;          /* of fleet_outlier_note() */
    bool stirred;                  /* by a report, since the last tick */
    bool view_changed;
    bool view_told; /* FLEET_OUT_VIEW was pulled since */
    bool table_changed;

    struct worker_set present;
    struct worker_set leaving;
    struct worker_set with_events;
    struct worker_set want_probe[FLEET_PROBES];
    struct worker_set want_resolve;
    struct fleet_slot slot[WORKERS_MAX];
};

/* The slot of a present worker, or NULL when it is gone. */
static inline struct fleet_slot *
fleet_slot_of(struct fleet *fleet, uint32_t slot, uint32_t generation)
{
    CHECK(slot < WORKERS_MAX);
    struct fleet_slot *s = &fleet->slot[slot];

    return s->state == SLOT_PRESENT && s->generation == generation ? s : NULL;
}

/* An event of the slot waits to be pulled; again before that is harmless. Any
 * slot that is not free. */
static inline void
fleet_note(struct fleet *fleet, uint32_t slot, enum fleet_event event)
{
    CHECK(slot < WORKERS_MAX && event < FLEET_EVENTS);
    CHECK(fleet->slot[slot].state != SLOT_FREE);
    fleet->slot[slot].events |= 1U << event;
    worker_set_add(&fleet->with_events, slot);
}

/* The published view is out of date: FLEET_OUT_VIEW follows. */
static inline void
fleet_view_changes(struct fleet *fleet)
{
    fleet->view_changed = true;
    fleet->view_told = false;
}

/* Bytes of an IPv4 or IPv6 address. */
static inline socklen_t
fleet_address_len(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

/* Whether it is ready for requests, its breaker aside. */
static inline bool
fleet_slot_able(const struct fleet_slot *s)
{
    return s->state == SLOT_PRESENT && s->healthy && !s->draining &&
           s->now.address_len > 0 && s->models_state != MODELS_UNASKED;
}

/* Whether only a health probe that timed out keeps it from being ready: the
 * probe may have been lost. It was well before, for it was asked for its
 * models. */
static inline bool
fleet_slot_doubted(const struct fleet_slot *s)
{
    return s->state == SLOT_PRESENT && !s->healthy && s->silent &&
           !s->draining && s->now.address_len > 0 &&
           s->models_state != MODELS_UNASKED &&
           s->breaker.state == BREAKER_CLOSED;
}

/*
 * How many failures in a row open the worker's breaker now; BREAKER_NEVER: it
 * stays closed, because as many are open as may be, or because the worker
 * fails no more than the best one does. What one client or one prompt causes
 * it causes on every worker that gets it.
 */
uint32_t fleet_outlier_enough(const struct fleet *fleet, uint32_t slot);

/* Lets the window move on over which failures are compared. */
void fleet_outlier_note(struct fleet *fleet);

/* Makes all probes of a new worker due. */
void fleet_probes_start(struct fleet *fleet, uint32_t slot);

/* Adds the slot to want_probe and want_resolve if they are due. */
void fleet_probes_due(struct fleet *fleet, uint32_t slot);

/* The next time (us) that fleet_probes_due() has something to do; UINT64_MAX:
 * none is known. */
uint64_t fleet_probes_deadline(const struct fleet *fleet, uint32_t slot);

/* Brings the next health probe forward, to a tenth of an interval after the
 * last one at the earliest. */
void fleet_probe_soon(struct fleet *fleet, uint32_t slot);

/* A wanted probe is handed out: it is in flight now. */
void fleet_probe_sent(struct fleet *fleet, uint32_t slot,
                      enum fleet_probe probe);

/* An answer showed the engine's kind; ENGINE_OTHER tells nothing. */
void fleet_recognise(struct fleet *fleet, uint32_t slot, enum engine_kind kind);

/* The answer of a FLEET_PROBE_METRICS. */
void fleet_metrics_take(struct fleet *fleet, uint32_t slot,
                        const struct fleet_probed *result);

/* Requests that this node and its peers have open there. */
uint32_t fleet_metrics_ours(const struct fleet *fleet, uint32_t slot);

/* Whether nothing ran or waited there at the last scrape, and no request of
 * ours or our peers' runs there now. */
bool fleet_metrics_is_idle(const struct fleet *fleet, uint32_t slot);

/* A scrape was taken, or its numbers were forgotten: see fleet_limit(). */
void fleet_limit_learn(struct fleet *fleet, uint32_t slot);

/* The numbers are too old to be believed: all are unknown again. */
void fleet_metrics_forget(struct fleet *fleet, uint32_t slot);

/* Whether the status of an answer means success. */
static inline bool
fleet_is_2xx(unsigned status)
{
    return status >= 200 && status < 300;
}

/* Frees a table that was never published or is no longer. NULL is fine. */
void fleet_table_free(struct fleet_models_table *table);

#endif
