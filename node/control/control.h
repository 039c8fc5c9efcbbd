/*
 * The control thread: one loop that owns every write to data that lanes read
 * (belief, the view of the workers), the probes and the admin port.
 *
 * Role: shell. Owns: its loop and everything below it. Thread: control; any
 * thread may use the wake handle. Limits: facts per turn, so that probes and
 * the admin port get their turns. Errors: below zero -errno.
 */
#ifndef NODE_CONTROL_H
#define NODE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/role.h"
#include "node/control/admin_access.h"
#include "node/control/admin_alias.h"
#include "node/control/admin_live.h"
#include "node/control/columns.h"
#include "node/control/control_announced.h"
#include "node/control/control_clearing.h"
#include "node/control/control_islands.h"
#include "node/control/control_jwt.h"
#include "node/control/control_likeness.h"
#include "node/control/control_limits.h"
#include "node/control/control_models.h"
#include "node/control/control_queue.h"
#include "node/control/control_scale.h"
#include "node/control/control_slo.h"
#include "node/control/control_text.h"
#include "node/control/control_traces.h"
#include "node/control/decisions.h"
#include "node/control/fact_sink.h"
#include "node/control/history.h"
#include "node/control/renderers.h"
#include "node/control/snapshot.h"
#include "node/fleet/fleet.h"
#include "node/fleet/probe.h"
#include "node/fleet/roster_apply.h"
#include "node/http/httpd.h"
#include "node/ingest/ingest.h"
#include "node/peers/hints.h"
#include "node/peers/peers.h"
#include "node/route/route.h"
#include "node/route/shared.h"
#include "node/tokens/token_ask.h"
#include "node/view/facts.h"
#include "node/view/mix.h"
#include "node/view/speed_told.h"

struct control {
    uv_loop_t loop;
    struct node_shared *node;
    struct fleet *fleet;
    struct probe *probe;
    struct peers *peers;
    struct ingest *ingest;
    struct roster_apply *workers;    /* control_roster.h */
    struct control_sources *sources; /* control_sources.h */
    struct httpd *admin;             /* admin_open(); NULL: not yet */
    struct httpd *metrics;           /* the same; NULL: no admin.metrics */
    struct admin_access access;      /* to the admin port */
    struct snapshot *snapshot;       /* borrowed; NULL: none are taken */
    struct decisions decisions;
    struct columns columns; /* of their elections */
    struct history history;
    struct admin_live live;
    struct route_scratch explain;     /* for /admin/explain */
    struct elect_config explain_rule; /* of the model that is explained */
    struct admin_alias alias;         /* the same */
    struct content_scratch *content;  /* the same; NULL without content.file */
    struct token_ask *token_ask;      /* the same; NULL: tokens.wait is 0 */
    struct renderers renderers;       /* what workers answered to it */
    struct rng rng;
    uv_async_t wake;     /* lanes have facts */
    uv_timer_t facts;    /* while awake: looks at the rings again and again */
    uv_timer_t work;     /* belief's background work, reclamation */
    uv_timer_t telling;  /* our own load must be told to peers */
    uint64_t telling_us; /* when that timer fires */
    uv_timer_t tokens;   /* looks whether admin.token_file has changed */
    uv_timer_t waiting;  /* one that waits for a worker must be looked at */
    uv_check_t look;     /* peers' load must be put on the board */
    struct hints hints;
    struct control_clearing clearing; /* of the cache of answers */
    struct fact_sink sink;            /* of lanes' facts */
    struct speed_shared speed; /* of workers, as this node and peers saw them */
    uint64_t speed_told_us;
    struct control_slo slo; /* how answers kept it */
    struct control_islands islands;
    struct control_scale scale;
    struct text_models text; /* of prompts that engines have counted */
    struct mix *mix;         /* how long requests were */
    struct unproven unproven;
    uint64_t started_us;
    uint64_t started_wall_s; /* since 1970 */
    uint64_t facts_taken;
    bool stirred; /* something happened since the last background work */
    bool resting; /* the next is due later than usual */
    bool awake;
    bool lends; /* it was said that a worker's key serves everybody */
    /* The mesh has no place for this node: it must end. Set this before the
     * loop runs. */
    void (*refused)(void *owner);
    /* Lanes have something to take over (shared_publish()). */
    void (*reloaded)(void *owner);
    void *owner;
    struct control_reload *reload; /* borrowed */
    struct control_models models;
    struct control_queue queue;
    struct control_announced announced;
    struct control_jwt jwt;
    struct control_likeness likeness;
    struct control_traces traces;
    struct control_limits limits;
};

/*
 * Makes the control side: its loop, the workers of the configuration, and what
 * the snapshot of the previous process says of them (NULL: none; the snapshot
 * outlives control). 0: lanes may run. -errno: one line in the log says why.
 */
int control_init(struct control *control, struct node_shared *node,
                 struct snapshot *snapshot, uint64_t seed) MUST_CHECK;

/* Stops probes and the admin port; the loop then runs out of work. */
void control_stop(struct control *control) ON_CONTROL;

/* After the loop ended and the lanes are gone. */
void control_fini(struct control *control);

/* Why /ready says no, static text; NULL when it says yes: a worker is eligible, the node has caught up with
 * its peers or has stopped waiting, and it does not drain. */
const char *control_unready(const struct control *control);

/* Takes all facts that lanes have sent so far, so that the answer is up to
 * date. */
void control_take_facts(struct control *control) ON_CONTROL;

/* Certificates were read: what asks workers from here uses them. */
void control_use_tls(struct control *control) ON_CONTROL;

/* How many requests a worker may have at one time, by that configuration. */
void control_limit_workers(struct control *control, const struct config *config)
    ON_CONTROL;

/* Tells lanes what was learned of workers' speeds and ways, now and then:
 * control_speed.c. */
void control_speed_tell(struct control *control, uint64_t now_us) ON_CONTROL;

/* The cluster, to look at, to change its roster, and to load into. */
struct cluster *control_cluster(const struct control *control);

/* Now, as the cores below count it. */
uint64_t control_now_us(void);

#endif
