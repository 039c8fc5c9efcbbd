/*
 * What the lanes and the control thread share. Each member is either set before
 * the lanes start and never again, or of a type that both sides may use at once
 * (counters, gauges, rings, latches, the published view).
 *
 * Role: shell. Owns: what shared_init() makes. Thread: as each member says.
 */
#ifndef NODE_SHARED_H
#define NODE_SHARED_H

#include <stdbool.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/latch.h"
#include "index/base/publish.h"
#include "index/base/qsbr.h"
#include "index/base/ring.h"
#include "index/index.h"
#include "node/answers/answers.h"
#include "node/base/confine.h"
#include "node/base/quota.h"
#include "node/base/sock_tls.h"
#include "node/config/config.h"
#include "node/content/content.h"
#include "node/elect/elect.h"
#include "node/http/http_tokens.h"
#include "node/keys/keys.h"
#include "node/keys/keys_jwks.h"
#include "node/limits/limits_table.h"
#include "node/local/local_samples.h"
#include "node/local/local_table.h"
#include "node/local/local_turns.h"
#include "node/redis/redis_place.h"
#include "node/route/route.h"
#include "node/view/decided.h"
#include "node/view/expectations.h"
#include "node/view/fleet_view.h"
#include "node/view/metrics.h"
#include "node/view/mirror_view.h"

/* So many more than limits.queue_max may wait on a lane, until control has said
 * who gives way. */
#define SHARED_WAITS_SPARE 256U

/* TLS of one kind of connections, which keep what they began with. */
struct node_tls {
    struct qsbr_node retired; /* first */
    uint64_t version;         /* from 1, grows by one */
    struct sock_tls_context *context;
};

/* Of one tenant's requests; the lane writes. */
struct tenant_counts {
    struct counter requests;
    struct counter refused;       /* of these: its models do not allow them */
    struct counter prompt_tokens; /* as engines reported, or as was seen */
    struct counter cached_tokens;
    struct counter completion_tokens;
};

/* One per lane. */
struct lane_shared {
    struct metrics_lane metrics; /* the lane writes */
    struct ring facts;           /* the lane produces, control consumes */
    struct qsbr_reader *reader;  /* the lane's */
    struct gauge connections;
    struct gauge streams;    /* exchanges open now */
    struct gauge redis_open; /* 1: its connection to Redis is */
    struct ring
        waits; /* struct wait_told: control produces, the lane consumes */
    uv_async_t *wakes; /* the lane's, for them; set before it starts */
    struct tenant_counts tenant[KEYS_TENANTS_MAX];
};

/* What lanes take over while they run; each has a copy. */
struct node_live {
    struct qsbr_node retired;
    uint64_t version; /* from 1 */
    struct config_limits limits;
    struct config_timeouts timeouts;
    struct config_policy policy;
    struct config_affinity affinity;
    struct config_retries retries;
    struct config_aliases aliases;
    struct config_cors cors;
    struct config_messages messages;
    struct config_answer_cache answer_cache; /* all but bytes_max */
    bool placement_headers;
    struct http_tokens operators; /* of admin.token_file; none: count is 0 */
    bool usage_ask;
    uint32_t log_requests; /* as config_log */
};

/* The Redis of answer_cache. */
struct node_redis {
    struct redis_place place;
    struct redis_secret secret;
};

struct node_shared {
    const struct config *config; /* as the node was started */
    const char *commit;          /* of the source, or ""; NULL: the same */
    struct confined confined;    /* which bounds the kernel keeps it to */
    struct publish live;         /* const struct node_live *, by control */
    struct publish tls; /* const struct node_tls *, by control; NULL: none */
    struct publish admin_tls;   /* the same, of the ports of admin */
    struct publish workers_tls; /* the same, to workers with https; never NULL
                                   once control has begun */
    struct publish keys; /* const struct keys *, by control; NULL: none are
                            needed, and none will be */
    struct publish jwks; /* const struct keys_jwks *, by control; NULL: none are
                            known */
    struct publish content;  /* const struct content *, by control; NULL: there
                               is no content.file */
    struct answers *answers; /* that are kept; NULL: there is none */
    const struct node_redis *redis; /* that they are shared by; or NULL */
    struct publish limits;     /* const struct limits_view *, by control; NULL:
                              nobody's requests are limited */
    struct elect_config elect; /* control's; lanes have theirs */
    struct session_rule session; /* likewise */
    struct config_slo slo;       /* likewise */
    struct config_island island; /* likewise */
    struct config_scale scale;   /* likewise */
    struct qsbr qsbr;
    struct radix *belief;  /* control writes, lanes match */
    struct mirror *mirror; /* the same */
    struct expectations
        *expectations;    /* the same: sent, and not heard of yet */
    struct publish local; /* const struct local_table *, by control; or NULL */
    struct token_cache *token_cache;     /* of conversations; lanes */
    struct local_turns *local_turns;     /* for lanes and their threads */
    struct local_samples *local_samples; /* lanes, the intake and control */
    struct expectations
        *text_expectations;       /* the same of text: sent, not answered */
    struct publish mirror_view;   /* const struct mirror_view *, by control */
    struct fleet_board *board;    /* control publishes, lanes read and count */
    struct counter held_bytes;    /* in lanes' buffers */
    struct quota quota;           /* who of the clients holds how much */
    struct decided *decided;      /* what was sent where, in order: as belief */
    struct quota_bucket engines;  /* what is held of engines' answers */
    struct gauge connections_max; /* by the limit, and by descriptors */
    int fd_max; /* those from here on are not for clients and their requests */
    struct gauge inflight; /* requests forwarded now */
    /* Those of them that were sent to a named rank, by its slot of the mirror.
     * A slot's earlier owner may leave some behind; they end like others. */
    struct gauge rank_inflight[WORKERS_MAX];
    /* The same for peers, as they last told (hints.h). */
    struct gauge rank_peers[WORKERS_MAX];
    struct text_board text;   /* bytes of a token, as control has learned */
    struct gauge connections; /* client connections of all lanes */
    struct gauge leaving;     /* 1 from SIGTERM on: says so to everybody */
    struct gauge draining;    /* 1 some time later: takes nothing new */
    struct gauge sever;       /* 1 from a second one on: end what runs */
    struct gauge lanes_running;
    struct gauge mesh_ready; /* enum cluster_ready, by control */
    struct gauge replaying;  /* 1 from the start until engines have told again
                                what they hold: /ready waits for it */

    struct latch asleep;       /* control sleeps until woken */
    uv_async_t *wake;          /* of the control loop */
    struct lane_shared *lanes; /* lanes_count of them */
    uint32_t lanes_count;
};

/*
 * Makes everything but the board, which control makes when it begins; zero
 * before. config is borrowed. 0, or -errno: then the process must end, because
 * nothing was undone.
 */
int shared_init(struct node_shared *node, const struct config *config)
    MUST_CHECK;

/* Publishes what lanes take over of a configuration; wake them afterwards. 0, or
 * -ENOMEM and nothing has changed. */
int shared_publish(struct node_shared *node, const struct config *config)
    MUST_CHECK;

/* The same with these operators' tokens. */
int shared_publish_operators(struct node_shared *node,
                             const struct http_tokens *operators) MUST_CHECK;

/* How requests are placed, by the configuration. */
struct elect_config shared_elect(const struct config_policy *policy);

/* The same of requests for that model: usual, or *own, by policy.models. */
const struct elect_config *shared_elect_for(const struct elect_config *usual,
                                            const struct config_choices *models,
                                            struct slice model,
                                            struct elect_config *own);

/* Of an object that nobody can reach any more. NULL is fine. */
void shared_free_tls(struct node_tls *tls);

/* After control_fini(). */
void shared_fini(struct node_shared *node);

/* What routing looks at, as of now; the caller is online in the qsbr. elect is
 * the caller's own. */
static inline struct route_world
shared_world(const struct node_shared *node, const struct elect_config *elect)
{
    const struct config_mirror *mirror = &node->config->mirror;

    return (struct route_world){
        .elect = elect,
        .view = fleet_view_get(node->board),
        .board = node->board,
        .belief = node->belief,
        .expected = node->text_expectations,
        .rank_inflight = node->rank_inflight,
        .rank_peers = node->rank_peers,
        .text = &node->text,
        .tokens = {.mirror = node->mirror,
                   .expected = expectations_index(node->expectations),
                   .view = mirror_view_get(&node->mirror_view),
                   .decided = node->decided,
                   .weights = {.permille =
                                   {
                                       [TIER_DEVICE] = 1000,
                                       [TIER_HOST] = mirror->host_permille,
                                       [TIER_DISK] = mirror->disk_permille,
                                       [TIER_EXTERNAL] =
                                           mirror->external_permille,
                                   }}},
    };
}

#endif
