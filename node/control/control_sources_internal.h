/*
 * The inside of control_sources.h.
 *
 * Role: shell. Owns: see there. Thread: control.
 */
#ifndef NODE_CONTROL_SOURCES_INTERNAL_H
#define NODE_CONTROL_SOURCES_INTERNAL_H

#include <uv.h>

#include "node/control/control.h"
#include "node/control/control_sources.h"
#include "node/control/kube_slices.h"
#include "node/fleet/source.h"
#include "node/http/httpc.h"
#include "node/peers/resolve.h"

#define SOURCE_WHY_MAX 256

/* How a look ended. */
enum source_outcome {
    SOURCE_NOT_YET,
    SOURCE_GOOD,
    SOURCE_ABSENT,  /* DNS: no such name or no addresses */
    SOURCE_TIMEOUT, /* DNS */
    SOURCE_FAILED,  /* DNS: servers fail; a file: it cannot be read or used */
    SOURCE_OUTCOMES,
};

struct source_address {
    char host[DISCOVER_ADDRESS_MAX]; /* numeric, IPv6 without brackets */
    uint16_t port;
};

/* One round of lookups. */
struct source_round {
    uint64_t ticket; /* of the lookup that runs; 0: none */
    bool cut;        /* something was left out for want of room */
    bool half;       /* there may be IPv4 addresses that nobody told */
    uint32_t targets_count;
    uint32_t target_at; /* the one that is looked up */
    uint32_t found_count;
    struct discover_target targets[DISCOVER_TARGETS_MAX];
    struct source_address found[WORKERS_MAX];
};

struct source_watch {
    uv_fs_event_t event;
    struct control_source *source; /* NULL: it is gone */
};

/* Of EndpointSlices. A change that the watch tells makes the next look a list;
 * while it tells none, a look has nothing to ask. */
struct source_kube {
    struct config_kube names;
    struct httpc *call;             /* a list; NULL: none is asked for */
    struct httpc *watch;            /* NULL: none runs */
    struct buf line;                /* of the watch, as far as it came */
    bool stale;                     /* something changed since the last list */
    char version[KUBE_VERSION_MAX]; /* where a watch begins; "": list first */
};

struct control_source {
    struct control *control;
    struct config_worker like; /* as the configuration has it */
    enum config_from kind;
    struct discover_join join; /* of a DNS name */
    const char *path;          /* of a file: into like.from */
    struct source core;
    struct config_worker *list; /* the last good one, owned */
    uint32_t list_count;
    struct source_round round;
    struct source_watch *watch; /* owned until it closes; NULL: none */
    struct source_kube *kube;   /* owned; NULL: it is of another kind */
    uint64_t due_us;            /* next look */
    uint64_t good_us;           /* of the last good one; 0: none */
    uint64_t looks[SOURCE_OUTCOMES];
    enum source_outcome outcome; /* of the last look */
    uint32_t refused;            /* workers that there is no place for */
    char why[SOURCE_WHY_MAX];    /* it was not good, or "" */
};

struct control_sources {
    struct control *control;
    struct resolve *resolve; /* NULL: not yet needed */
    uv_timer_t timer;
    uint64_t tickets;
    uint32_t interval_ms;
    uint32_t count;
    struct control_source *source[CONFIG_SOURCES_MAX];
};

/* "good", "absent", ... Static text. */
const char *source_outcome_name(enum source_outcome outcome);

/* An address of a round. */
void source_found(struct source_round *round, const struct discover_ip *ip,
                  uint16_t port);

/* A look has ended: with the round's addresses, one at least; with nothing new;
 * or badly, and why. */
void source_end_round(struct control_source *source) ON_CONTROL;
void source_end_unchanged(struct control_source *source) ON_CONTROL;
void source_end_badly(struct control_source *source,
                      enum source_outcome outcome, const char *why) ON_CONTROL;

/* The next look is due after that time, or sooner; UINT64_MAX: when it was. No
 * look must be running. */
void source_soon(struct control_source *source, uint64_t after_us) ON_CONTROL;

/* control_sources_kube.c. 0 or -ENOMEM; any source is fine for the others. */
int source_kube_open(struct control_source *source) ON_CONTROL MUST_CHECK;
void source_kube_close(struct control_source *source) ON_CONTROL;
bool source_kube_is_looking(const struct control_source *source);

/* The next look is a list: what the configuration says of its workers may be
 * other. */
void source_kube_renew(struct control_source *source);

/* Looks: at once where its watch runs and has told nothing. */
void source_kube_look(struct control_source *source) ON_CONTROL;

/* Has the roster follow what the source listed last. fresh: that is new, and
 * `before` what it listed before (borrowed); whole: nothing was left out. */
void source_follow(struct control_source *source) ON_CONTROL;

/* Removes every worker of the source. */
void source_remove_all(struct control_source *source) ON_CONTROL;

#endif
