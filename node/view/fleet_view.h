/*
 * What lanes see of the workers: a snapshot that never changes, and a board of
 * live numbers.
 *
 * The control thread owns the workers' state (fleet.h). Whenever something that
 * matters for routing changes it builds a new struct fleet_view and publishes
 * it on the board; what it replaces is freed through qsbr once no lane can hold
 * it. The numbers that change with each request (in flight, ...) live beside,
 * in arrays that last as long as the program, one place per slot.
 *
 * A lane's way through it, for one request:
 *
 *   view = fleet_view_get(board);
 *   able = fleet_view_find_model(view, model);
 *   may  = fleet_view_candidates(view, board);
 *   fleet_board_loads(board, &may, load, kv_usage);
 *   fleet_board_queued(board, &may, queued);
 *   elect_pick(...) among (may AND able)
 *   if (!fleet_lease_take(&lease, board, view, slot)) { drop slot, elect again }
 *   fleet_lease_queue(&lease, board, tokens);
 *   ... connect and send ...
 *   fleet_lease_answered(&lease, board);   the head came, or the attempt failed
 *   fleet_lease_began(&lease, board);      the first of the answer's body came
 *   ... and hand (slot, generation, outcome) to control: fleet_outcome() ...
 *   fleet_lease_leave(&lease, board);      nothing of it is in flight any more
 *
 * Role: core. Owns: nothing. Thread: views by any thread that is online in the
 * qsbr; the board's arrays by any. Limits: WORKERS_MAX slots. Errors: none.
 */
#ifndef NODE_FLEET_VIEW_H
#define NODE_FLEET_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "index/base/check.h"
#include "index/base/counter.h"
#include "index/base/publish.h"
#include "index/base/role.h"
#include "index/base/slice.h"
#include "index/base/worker_set.h"
#include "node/config/config.h"
#include "node/view/moment.h"
#include "node/view/speed.h"

#define FLEET_ID_BYTES   CONFIG_LABEL_MAX /* with the closing NUL */
#define FLEET_QUEUED_MAX (1U << 22)       /* tokens of one prompt */

enum engine_kind {
    ENGINE_OTHER, /* not recognised, or not yet */
    ENGINE_VLLM,
    ENGINE_SGLANG,
    ENGINE_TRTLLM,
    ENGINE_LLAMACPP, /* llama.cpp's server */
    ENGINE_TGI,
};

/* "vllm", "sglang", "trtllm", "llamacpp", "tgi", "other". Static text. */
const char *engine_kind_name(enum engine_kind kind);

/* Whether engines of a kind keep prompts apart by the cache_salt in a body, or
 * may do so: the kind of one is not known at first. */
static inline bool
engine_kind_salts(enum engine_kind kind)
{
    return kind != ENGINE_LLAMACPP && kind != ENGINE_TGI;
}

/* Whether streams of engines of a kind end with their usage unasked: llama.cpp's
 * timings, which its clients read, move into the event that one asks for. */
static inline bool
engine_kind_tells_usage(enum engine_kind kind)
{
    return kind == ENGINE_LLAMACPP;
}

/* Whether engines of a kind tell the usage with each event of a stream, where
 * stream_options.continuous_usage_stats asks for it. */
static inline bool
engine_kind_counts(enum engine_kind kind)
{
    return kind == ENGINE_VLLM || kind == ENGINE_SGLANG;
}

/* Whether engines of a kind split requests (node/route/split.h). */
static inline bool
engine_kind_splits(enum engine_kind kind)
{
    return kind == ENGINE_VLLM || kind == ENGINE_SGLANG;
}

/* One worker as it was when a view was built. Immutable; successive views share
 * it as long as nothing in it changes. */
struct fleet_worker {
    uint32_t slot;
    uint32_t generation; /* how many workers this slot has had, from 1 */
    uint64_t identity;   /* key_digest() of id: the same on every node */
    enum engine_kind kind;
    socklen_t address_len; /* 0 while its name is not resolved */
    struct sockaddr_storage address;
    char id[FLEET_ID_BYTES];
    char url[URL_TEXT_MAX];          /* http://host:port/path, or https */
    bool tls;                        /* https */
    char host[URL_HOST_MAX];         /* whom its certificate must name */
    char host_header[URL_TEXT_MAX];  /* value of Host: host:port */
    char base_path[URL_PATH_MAX];    /* goes before a target: "" or "/base" */
    char api_key[CONFIG_SECRET_MAX]; /* Authorization: Bearer; or "" */
    struct url events;               /* engine's PUB endpoint; host "": none */
    struct url replay;               /* its replay endpoint; host "": none */
    struct url sse;                  /* sidecar's cache events; host "": none */
    char topic[CONFIG_LABEL_MAX];    /* of its events, exactly; "": any */
    uint32_t ranks;                  /* data-parallel ranks, 1 or more */
    uint32_t blocks_max;             /* configured cache size; 0: not given */
    char island[CONFIG_LABEL_MAX];   /* labels: empty when not given */
    char pool[CONFIG_LABEL_MAX];
    enum config_role role;
    uint32_t bootstrap_port; /* of an SGLang with role prefill */
};

/* What engines tell of a model beside its name. */
enum model_fact {
    MODEL_OWNED_BY,
    MODEL_ROOT,
    MODEL_PARENT,
    MODEL_MAX_MODEL_LEN,
    MODEL_FACTS, /* how many there are */
};

/* "owned_by", ...: the key. Static text. */
const char *model_fact_name(enum model_fact fact);

struct fleet_model {
    struct slice name;
    /* As one of the workers tells it: JSON, or empty. */
    struct slice fact[MODEL_FACTS];
    uint64_t created;          /* likewise; seconds since 1970, or 0 */
    struct worker_set workers; /* that list it */
    bool adapter;              /* a LoRA adapter: all of them say so */
    /* Its own name begins there: at 0, behind PARENT:, or at the end where all of
     * them take it for the base model. */
    uint32_t own_at;
};

/* Every model that some worker lists, sorted by slice_compare(), no name
 * twice. LoRA adapters are models like others. */
struct fleet_models {
    size_t count;
    const struct fleet_model *model;
};

struct fleet_view {
    uint64_t version; /* from 1, grows by one */
    struct worker_set present;

    /* Why a present worker is not eligible (for explain and status). */
    struct worker_set healthy;
    struct worker_set draining;
    struct worker_set open; /* its circuit breaker is open */

    /* Healthy, resolved, not draining, breaker closed. */
    struct worker_set eligible;
    /* The same with a half-open breaker: one request at a time may try it. */
    struct worker_set trial;
    /* Suspect: unhealthy only because a health probe timed out. Requests fall
     * back to them when no other worker is left. Failures open their breakers,
     * and an open breaker ends the suspicion. */
    struct worker_set suspect;
    /* Ready but for a breaker that is not closed. Requests fall back to them as
     * to the suspect: the least bad is better than nothing. */
    struct worker_set ejected;
    /* With a role, and of a kind that can split a request: those that compute
     * prompts for others, and those that go on with them. */
    struct worker_set prefill;
    struct worker_set decode;
    /* Of both, those that do nothing but their part (SGLang). */
    struct worker_set bound;
    /* Workers with failures on record: control wants to hear of successes
     * there too. Of others only failures need to be handed to it. */
    struct worker_set watched;
    /* Workers whose model list is unknown: they may serve any model. */
    struct worker_set any_model;

    const struct fleet_models *models;
    const struct fleet_worker *worker[WORKERS_MAX]; /* NULL unless present */
    uint64_t identity[WORKERS_MAX]; /* the workers', for elect.h */
    /* Tokens of prompt and answer that each takes, as its engine tells: the
     * greatest max_model_len of its models; 0: it tells none. */
    uint32_t max_len[WORKERS_MAX];
    bool tells_len;    /* some worker does */
    uint32_t same_len; /* that all present ones take; 0: they differ */
};

/* Totals of one slot's present worker. */
struct fleet_counters {
    _Alignas(64) struct counter requests; /* attempts that were sent */
    struct counter failures;              /* connect, timeout, closed, 5xx */
    struct counter retries; /* attempts given to another worker instead */
    struct counter streams_severed; /* upstream lost after the first byte */
};

/* Which workers have a limit. */
enum fleet_limited {
    FLEET_UNLIMITED,
    FLEET_LEARNED, /* some, as their engines' queues show */
    FLEET_SET,     /* all, the configured one */
};

/* Which requests take the workers of this node's turn first (turns.h). */
enum fleet_turn {
    FLEET_NO_TURN,
    FLEET_TURN_HELD, /* those of whose prompt some worker holds enough */
    FLEET_TURN_ALL,
};

#define FLEET_TURN_BITS 16U /* workers of one gauge */

/* Paths that an engine may not know, and which it can be spared. */
enum fleet_lack {
    FLEET_LACKS_MESSAGES,
    FLEET_LACKS_RESPONSES,
    FLEET_LACKS_COUNT, /* /v1/messages/count_tokens */
    FLEET_LACKS,
};

/*
 * The live numbers, by slot. Loads are dense arrays: each election reads all of
 * them, which costs one cache line per 16 workers instead of one per worker.
 */
struct fleet_board {
    struct publish view; /* const struct fleet_view *, never NULL */
    /* Requests this node has open there: fleet_lease_take() and _leave(). */
    _Alignas(64) struct gauge inflight[WORKERS_MAX];
    /* Requests that this node's peers have open there, as they last told
     * (hints.h). */
    _Alignas(64) struct gauge peers[WORKERS_MAX];
    /* Requests that neither this node nor its peers have open there, as the
     * engine's own metrics report. */
    _Alignas(64) struct gauge foreign[WORKERS_MAX];
    /* Prompt tokens, less those held there, of this node's requests whose
     * answer has not begun: fleet_lease_queue(). */
    _Alignas(64) struct gauge queued_tokens[WORKERS_MAX];
    /* The same for peers, as they last told (hints.h). */
    _Alignas(64) struct gauge peers_queued_tokens[WORKERS_MAX];
    /* Share of the KV cache in use, 0..1000; 0 when unknown. */
    _Alignas(64) struct gauge kv_usage_permille[WORKERS_MAX];
    /* Requests waiting in the engine's queue; 0 when unknown. */
    _Alignas(64) struct gauge waiting[WORKERS_MAX];
    /* Requests running in the engine; 0 when unknown. */
    _Alignas(64) struct gauge running[WORKERS_MAX];
    /* Peers whose breaker of the worker is not closed, as they last told
     * (hints.h). */
    _Alignas(64) struct gauge peers_open[WORKERS_MAX];
    /* 1 while a trial request of a half-open worker is undecided. */
    _Alignas(64) struct gauge trial[WORKERS_MAX];
    /* When bytes of an answer last came from there: fleet_board_heard(). */
    _Alignas(64) struct gauge heard[WORKERS_MAX];
    /* When it showed that it does not know a path: fleet_board_lack(). */
    _Alignas(64) struct gauge lacks[FLEET_LACKS][WORKERS_MAX];
    /* Time for the same work, in thousandths of the usual worker's (speed.h);
     * 0: not known. */
    _Alignas(64) struct gauge slowness_permille[WORKERS_MAX];
    struct gauge uneven; /* 1: some slowness is neither 0 nor 1,000 */
    /* What the way to each costs: a time, by the measured part of it, and that
     * in tokens of its model (island.h). All 0 unless `linked`. */
    _Alignas(64) struct gauge link_us[WORKERS_MAX];
    _Alignas(64) struct gauge away_us[WORKERS_MAX];
    _Alignas(64) struct gauge paid_us[WORKERS_MAX];
    _Alignas(64) struct gauge link_tokens[WORKERS_MAX];
    /* 1: it is of another island than this node, whatever that costs. */
    _Alignas(64) struct gauge crosses[WORKERS_MAX];
    struct gauge linked; /* 1: some worker is of another island */
    /* What each can do within the SLO (speed.h), and 1: there is one. */
    _Alignas(64) struct gauge slo_tokens[WORKERS_MAX];
    _Alignas(64) struct gauge slo_requests[WORKERS_MAX];
    struct gauge slo;
    /* Requests that each may have at one time; 0: any number. */
    _Alignas(64) struct gauge limit[WORKERS_MAX];
    /* Places there that waiting requests were given, and have not taken. */
    _Alignas(64) struct gauge reserved[WORKERS_MAX];
    /* Waiting requests that could go there. */
    _Alignas(64) struct gauge wanted[WORKERS_MAX];
    struct gauge limited; /* enum fleet_limited */
    /* Requests that peers have probably sent out to all workers since they told
     * `peers`. */
    _Alignas(64) struct gauge unseen;
    /* This node's workers of the moment, as bits; and enum fleet_turn. */
    _Alignas(64) struct gauge turn_bits[WORKERS_MAX / FLEET_TURN_BITS];
    struct gauge turn;
    /* Written by lanes, too: not beside what each election reads. */
    _Alignas(64) struct moment moment;
    struct fleet_counters counters[WORKERS_MAX];
};

/* A request's place at a worker, from its election to the last byte of the
 * answer. All zero: no lease. The owner gives it back with
 * fleet_lease_leave(). */
struct fleet_lease {
    uint32_t slot;
    uint32_t generation;
    uint32_t queued_tokens; /* on the board */
    uint32_t front_tokens;  /* these, and those that waited before them */
    bool taken;
    bool trial; /* holds the worker's one trial */
};

/* The current view; good until the caller's next quiescent point. */
static inline const struct fleet_view *
fleet_view_get(const struct fleet_board *board)
{
    return publish_get(&board->view);
}

/*
 * The workers that serve a model: all that list it, and all whose list is
 * unknown. An empty name means that the request named none: all present
 * workers.
 */
struct worker_set fleet_view_find_model(const struct fleet_view *view,
                                        struct slice name);

/* What workers tell of a model; NULL: none lists it. */
const struct fleet_model *fleet_view_model(const struct fleet_view *view,
                                           struct slice name);

/* The LoRA adapter that a request by this name gets, as engines' events call it:
 * blocks of it are a namespace of their own. A part of name; empty: none. */
struct slice fleet_view_adapter(const struct fleet_view *view,
                                struct slice name);

#define FLEET_HEARD_US UINT64_C(100000)

/* A time as `heard` has it: how many tenths of a second it counts. */
static inline uint32_t
fleet_heard_at(uint64_t now_us)
{
    return (uint32_t)(now_us / FLEET_HEARD_US) & INT32_MAX;
}

/* Bytes of an answer came from that worker just now, on the fleet's clock. It
 * is written ten times a second at most, so that lanes do not take the line
 * from each other for every piece. */
static inline void
fleet_board_heard(struct fleet_board *board, uint32_t slot, uint64_t now_us)
{
    uint32_t now = fleet_heard_at(now_us);

    if (gauge_read(&board->heard[slot]) != now) {
        gauge_set(&board->heard[slot], (int32_t)now);
    }
}

/* Workers that serve a model in common are of one kin, and so are those of whom
 * each does with the next. kin: by slot, of WORKERS_MAX; the kin of a present
 * worker is that of its least slot, and the others are empty. Adapters do not
 * count: their workers list what they adapt. Workers whose list is unknown are
 * one kin. */
void fleet_view_kin(const struct fleet_view *view, struct worker_set *kin);

#define FLEET_LACK_S UINT64_C(600) /* then its engine may be a newer one */

/* That worker does not know the path, as it showed just now, on the fleet's
 * clock. */
static inline void
fleet_board_lack(struct fleet_board *board, enum fleet_lack what, uint32_t slot,
                 uint64_t now_us)
{
    gauge_set(&board->lacks[what][slot],
              (int32_t)(now_us / 1000000 % INT32_MAX + 1));
}

/* Whether it did so lately. */
static inline bool
fleet_board_lacks(const struct fleet_board *board, enum fleet_lack what,
                  uint32_t slot, uint64_t now_us)
{
    uint32_t at = gauge_read(&board->lacks[what][slot]);

    return at != 0 && now_us / 1000000 % INT32_MAX + 1 - at < FLEET_LACK_S;
}

/* Those that may be sent a request now: eligible, and half-open ones without
 * an undecided trial. */
struct worker_set fleet_view_candidates(const struct fleet_view *view,
                                        const struct fleet_board *board);

/*
 * The load (requests in flight on all nodes, as far as known) and the KV usage
 * of each worker of the set, into arrays of WORKERS_MAX by slot; other elements
 * may be filled in, with those workers' own. kv_usage may be NULL.
 */
void fleet_board_loads(const struct fleet_board *board,
                       const struct worker_set *set, uint32_t *load,
                       uint16_t *kv_usage);

/* Prompt tokens that wait at each worker of the set, of all nodes as far as is
 * known, likewise. */
void fleet_board_queued(const struct fleet_board *board,
                        const struct worker_set *set, uint32_t *queued);

/* Thousandths of this node's attempts at each worker of the set that did not
 * fail, likewise; 1,000 where there were none. */
void fleet_board_success(const struct fleet_board *board,
                         const struct worker_set *set, uint16_t *success);

/* Tells lanes what was learned of the workers' speeds. Each is compared with its
 * kin: a large model's workers are not slow for taking longer than a small
 * one's. slo: of WORKERS_MAX by slot. */
void fleet_board_speed(struct fleet_board *board, const struct fleet_view *view,
                       const struct speed *speed, const struct speed_slo *slo)
    ON_CONTROL;

/* What each worker of the set can do within the SLO, for elect.h, into arrays as
 * fleet_board_loads() fills them in; false: there is none, and nothing was
 * written. One that came since fleet_board_speed() can do nothing yet. */
bool fleet_board_slo(const struct fleet_board *board,
                     const struct worker_set *set, uint32_t *tokens,
                     uint32_t *requests);

/* This node's workers of the moment (turns.h). */
void fleet_board_turn_set(struct fleet_board *board,
                          const struct worker_set *mine);

/* The same for an election; FLEET_NO_TURN: nothing was written. */
enum fleet_turn fleet_board_turn(const struct fleet_board *board,
                                 struct worker_set *mine);

/* How slow each worker of the set is, for elect.h, into an array as
 * fleet_board_loads() fills it in; false: all alike, and nothing was written. */
bool fleet_board_slowness(const struct fleet_board *board,
                          const struct worker_set *set, uint32_t *slowness);

/* Places that are free at a worker; UINT32_MAX: it has no limit. */
uint32_t fleet_board_room(const struct fleet_board *board, uint32_t slot);

/*
 * Those of the set that have no room for a request that comes now: load as of
 * fleet_board_loads(). *shut: those among them that must get none, because the
 * limit is a configured one or others wait for a place there.
 */
struct worker_set fleet_board_full(const struct fleet_board *board,
                                   const struct worker_set *set,
                                   const uint32_t *load,
                                   struct worker_set *shut);

/*
 * Takes a lease at a worker of the view; *lease holds none before. False: the
 * worker is half-open and another request has its trial. Nothing was counted
 * then; elect again without it.
 */
bool fleet_lease_take(struct fleet_lease *lease, struct fleet_board *board,
                      const struct fleet_view *view, uint32_t slot)
    ON_LANE MUST_CHECK;

/* The same where no worker is left: beside another request's trial, too. */
void fleet_lease_insist(struct fleet_lease *lease, struct fleet_board *board,
                        const struct fleet_view *view, uint32_t slot) ON_LANE;

/* The request of a taken lease has this many prompt tokens for the worker to
 * read; once. FLEET_QUEUED_MAX at most are counted. */
void fleet_lease_queue(struct fleet_lease *lease, struct fleet_board *board,
                       uint64_t tokens) ON_LANE;

/* It is known whether the worker answers: a head came, the attempt failed, or
 * it was given up. The next trial may start. Calling it again is harmless. */
void fleet_lease_answered(struct fleet_lease *lease, struct fleet_board *board)
    ON_LANE;

/* The answer's body has begun, so its prompt no longer waits. A head does not
 * show that: engines send the head of a stream before they read the prompt.
 * Calling it again is harmless. */
void fleet_lease_began(struct fleet_lease *lease, struct fleet_board *board)
    ON_LANE;

/* Returns the lease: nothing of the request is in flight there any more.
 * Without a lease it does nothing. */
void fleet_lease_leave(struct fleet_lease *lease, struct fleet_board *board)
    ON_LANE;

#endif
