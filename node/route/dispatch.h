/*
 * One request on its way to a worker and back: which worker is tried, what a
 * failure means, when the request is given up, and what control is told of it.
 * Every decision to retry is made here, by the lanes and by the simulator
 * alike: they say what happened, and do what dispatch_next() answers.
 *
 *   state        what the request does            left by
 *   ASKING       waits for its tokens             _tokens(), _expired()
 *   ELECTING     is to be given to a worker       _elect(), then _elected()
 *   YIELDING     lets peers decide before it      _expired()
 *   QUEUED       waits for a worker with room     _placed(), _unplaced()
 *   RENAMING     is to become one for the next    _renamed()
 *                model, all workers of this one
 *                having failed
 *   PREFILLING   waits for its prefill half    _prefilled(), _prefill_failed()
 *   CONNECTING   waits for a connection           _connected(), _failed(),
 *                                                 _expired()
 *   WAITING      waits for an answer              _answered(), _failed(),
 *                                                 _expired()
 *   STREAMING    passes the answer on             _broke_off(), _resumes()
 *   LOST         is refused or severed            dispatch_end() only
 *   ENDED        nothing of it is in flight
 *
 * A split request (split.h) has a second half that runs beside: from
 * DISPATCH_PREFILL to dispatch_prefilled() or dispatch_prefill_failed(), or until
 * the caller elects again or ends the request, and then drops it. Where the
 * prompt is passed on by parameters, the request waits for that half first.
 *
 * dispatch_end() ends it in every state. After each input the caller pulls
 * actions until there is none:
 *
 *   while ((action = dispatch_next(&d)) != DISPATCH_WAIT) { ... }
 *
 * Role: core. Owns: the lease at the worker that is tried. Thread: one lane.
 * Limits: DISPATCH_ATTEMPTS_MAX workers. Errors: none; a fact that finds no
 * room in the ring is lost and counted.
 */
#ifndef NODE_DISPATCH_H
#define NODE_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/ring.h"
#include "index/base/rng.h"
#include "index/base/role.h"
#include "index/base/worker_set.h"
#include "node/route/route.h"
#include "node/route/split.h"
#include "node/text/usage.h"
#include "node/view/facts.h"
#include "node/view/fleet_view.h"
#include "node/view/metrics.h"

#define DISPATCH_ATTEMPTS_MAX CONFIG_ATTEMPTS_MAX

enum dispatch_state {
    DISPATCH_ASKING,
    DISPATCH_ELECTING,
    DISPATCH_YIELDING,
    DISPATCH_QUEUED,
    DISPATCH_RENAMING,
    DISPATCH_PREFILLING,
    DISPATCH_CONNECTING,
    DISPATCH_WAITING,
    DISPATCH_STREAMING,
    DISPATCH_LOST,
    DISPATCH_ENDED,
};

/* What the caller must do. */
enum dispatch_action {
    DISPATCH_WAIT,    /* nothing, until something happens */
    DISPATCH_ASK,     /* call dispatch_tokens() when the tokens arrive, or
                         dispatch_expired() after tokens.wait */
    DISPATCH_ELECT,   /* call dispatch_elect() and dispatch_elected() */
    DISPATCH_YIELD,   /* call dispatch_expired() after yield_us */
    DISPATCH_QUEUE,   /* no worker has room: see scratch->wait. Call
                         dispatch_placed() or dispatch_unplaced() later */
    DISPATCH_RENAME,  /* have the request ask for the next of its models, then
                         call dispatch_renamed() */
    DISPATCH_PREFILL, /* the same with split.choice.prefill.lease.slot,
                         split.fresh, and the prefill half */
    DISPATCH_CONNECT, /* connect to choice.lease.slot and send the request; by
                         a new connection if `fresh` */
    DISPATCH_REFUSE,  /* answer with an error: see `refusal` */
    DISPATCH_SEVER,   /* the client has part of an answer: end its connection */
};

/* Why no worker takes the request. */
enum dispatch_refusal {
    DISPATCH_ALL_FAILED, /* see attempt[] */
    DISPATCH_ALL_BUSY,   /* the same: `busy` is what the client is told */
    DISPATCH_NO_MODEL,
    DISPATCH_NO_WORKER,
    DISPATCH_TOO_LONG,   /* see too_long */
    DISPATCH_RESIDENCY,  /* none is where the tenant's requests may be */
    DISPATCH_QUEUE_FULL, /* `busy` says when to come again, as with the next */
    DISPATCH_QUEUE_LATE,
};

/* Why an attempt ended without an answer. */
enum dispatch_fault {
    DISPATCH_UNREACHABLE,
    DISPATCH_EXHAUSTED, /* this node's fault, not the worker's */
    DISPATCH_CONNECT_TIMEOUT,
    DISPATCH_FIRST_BYTE_TIMEOUT,
    DISPATCH_CLOSED, /* before a byte of an answer */
    DISPATCH_BAD,    /* not HTTP/1.1 */
    DISPATCH_STATUS, /* an answer that dispatch_drops() */
};

struct dispatch_failure {
    enum dispatch_fault fault;
    unsigned status;      /* with DISPATCH_STATUS */
    bool has_retry_after; /* the same: the answer said when to come again */
    uint32_t retry_after_s;
    bool kept;   /* on a connection that had served a request before, and
                    no byte of this answer came */
    bool unread; /* the same, and the worker's host took no byte of the
                    request: the connection had ended before it came */
};

/* How a request ended. */
enum dispatch_end {
    DISPATCH_DONE,      /* the worker's answer is whole */
    DISPATCH_REFUSED,   /* an answer of our own went out instead */
    DISPATCH_CANCELLED, /* the client went away */
    DISPATCH_SEVERED,   /* the answer broke off after its head */
};

struct dispatch_report {
    enum dispatch_end end;
    unsigned status;         /* with DISPATCH_REFUSED: of our answer */
    enum metrics_reason why; /* the same: for what it was */
    struct usage usage;      /* with DISPATCH_DONE: as the engine reported */
    uint64_t now_us;
    uint64_t wall_ms;             /* since 1970, now */
    struct fact_request *request; /* told, too, with its decision filled in;
                                     NULL: it is not */
};

/* What the requests of one lane share; it outlives each of them. */
struct dispatch_lane {
    struct fleet_board *board;
    struct gauge *rank_inflight; /* WORKERS_MAX, by slot of the mirror */
    struct route_scratch *scratch;
    struct rng *rng;
    struct metrics_lane *metrics;
    struct ring *facts; /* for control */
    uint32_t attempts_max;
    struct config_retries retries;
    uint64_t tickets; /* the last one given; no other lane gives the same */
    bool told; /* facts were added; the caller wakes control and clears it */
    uint32_t late_in_row; /* waits for tokens that were in vain */
    uint32_t unwaited;    /* requests since that were not let wait */
};

struct dispatch_attempt {
    char worker[FLEET_ID_BYTES];
    enum dispatch_fault fault;
    unsigned status; /* with DISPATCH_STATUS */
};

enum dispatch_half {
    DISPATCH_HALF_NONE, /* it has no prefill half, or none any more */
    DISPATCH_HALF_CONNECTING,
    DISPATCH_HALF_WAITING,
    DISPATCH_HALF_DONE,
};

/* A split request's prefill half. */
struct dispatch_split {
    struct split_choice choice;
    enum dispatch_half half;
    bool failed; /* a half has: no split unless there is no other way */
    bool fresh;  /* as that of struct dispatch */
    bool sent;   /* likewise */
    bool both;   /* DISPATCH_CONNECT follows on DISPATCH_PREFILL */
    bool watched;
    bool prefilled; /* `worker` has computed the prompt */
    uint64_t ticket;
    uint64_t answered;
    uint64_t begun_us;  /* the last one was; 0: there was none */
    struct usage usage; /* with `prefilled`: what its worker reported */
    char worker[FLEET_ID_BYTES];
};

struct dispatch {
    struct dispatch_lane *lane;

    /* The request: the caller sets these before dispatch_start(). */
    bool routed;          /* by its prompt: belief may learn from it */
    bool stream;          /* it asks for an answer in pieces */
    bool clears;          /* route_clears_cache() */
    bool several;         /* it asks for several choices (n), or has several
                        prompts: engines report the cached tokens of the last,
                        which may hit the blocks that the first one computed */
    uint32_t tenant;      /* its slot of keys.h */
    uint32_t models_left; /* further ones that it may ask for */
    uint32_t total;       /* of what overlap counts: blocks, or tokens */
    uint64_t bytes;       /* of its body and its answer, so far */
    char id[FACT_ID_MAX];
    char model[FACT_MODEL_MAX]; /* shortened to fit */

    enum dispatch_state state;
    enum dispatch_action due;
    enum dispatch_refusal refusal; /* with DISPATCH_REFUSE */
    bool fresh; /* a kept connection was dead: this worker gets a new one */

    /* The attempt that runs, or the last one. */
    struct route_choice choice;
    int elected; /* outcome of route_elect() */
    bool elected_once;
    uint32_t yield_us; /* with DISPATCH_YIELD: view/moment.h */
    bool watched;      /* control wants to hear of a success at this worker */
    bool seeks;        /* it asks for what some worker has, nobody knows which:
                          a 404 says that it is not this one */
    bool total_whole;  /* the tokens are all of the prompt's */
    uint32_t text_bytes; /* as of the scratch */
    enum text_kind text_kind;
    uint32_t budget;   /* of tokens; 0: not known */
    bool began;        /* a byte of the answer's body came */
    uint64_t ticket;   /* control waits to hear how it went; 0: it does not */
    uint64_t answered; /* the ticket of the attempt that was; 0: none had one */
    uint64_t columns;  /* number of its election's FACT_COLUMNS; 0: none */
    char worker[FLEET_ID_BYTES];
    struct dispatch_split split; /* the caller sets split.choice.asked before
                                    each dispatch_elect(): _NEVER or _MAY */

    struct worker_set tried;
    uint32_t attempts_count;  /* that failed */
    uint32_t attempts_before; /* of these, with an earlier model, or in vain for
                                 what another worker may have */
    uint32_t resumed; /* of these, whose answer had begun: the client has a part
                         of it, and gets nothing else instead */
    bool renamed;     /* it asks for another model than at first */
    bool spent;       /* what a worker got of it is not held any more (the
                         caller sets this): nobody else can be asked */
    enum dispatch_refusal first_refusal; /* with `renamed`: why */
    bool sent;      /* this attempt's worker got the whole request */
    uint32_t sends; /* workers that got it whole, and did not refuse it */
    struct dispatch_busy {
        unsigned status; /* 429 or 503; 0: no worker refused it for now */
        uint32_t retry_after_s;
    } busy; /* the least waiting time of the refusals */
    struct dispatch_length {
        struct pools_need need;
        uint32_t longest; /* that a worker of its model takes */
    } too_long;
    struct dispatch_attempt attempt[DISPATCH_ATTEMPTS_MAX];

    unsigned status;         /* of the answer; 0 until then */
    uint64_t begun_us;       /* the request was whole, or as much of a form had
                                come as it takes to go (node/edge/form.c) */
    uint64_t routed_us;      /* the first election was done */
    uint64_t queued_us;      /* it waits for room since then; 0: it does not */
    uint64_t waited_us;      /* ... and did so before */
    uint64_t first_byte_us;  /* of the answer; 0 until then */
    uint64_t first_token_us; /* of a streamed answer's body; 0 until then */
};

/* Tells control of a request for its log. */
void dispatch_tell_request(struct dispatch_lane *lane,
                           const struct fact_request *request) ON_LANE;

/* A request that goes now. lane is borrowed. */
void dispatch_init(struct dispatch *d, struct dispatch_lane *lane,
                   uint64_t now_us) ON_LANE;

/* The lane's scratch holds the request. asked: its tokens were asked for, and
 * too little of them is known to proceed; the core decides whether the request
 * waits for them. */
void dispatch_start(struct dispatch *d, bool asked) ON_LANE;

/* What to do now; each action is answered once. */
enum dispatch_action dispatch_next(struct dispatch *d) ON_LANE;

/* The tokens came, or will not come. */
void dispatch_tokens(struct dispatch *d) ON_LANE;

/* Elects a worker of the world and takes a lease there; choice.lease.taken:
 * there is one. The lane's scratch holds the request, and the caller is online
 * in the qsbr. wall_us: since 1970, if moment_counts(). */
void dispatch_elect(struct dispatch *d, const struct route_world *world,
                    uint64_t wall_us) ON_LANE;

/* The caller is offline in the qsbr again: tells control what the worker will
 * hold if it answers. The scratch still holds the request. */
void dispatch_elected(struct dispatch *d, uint64_t now_us) ON_LANE;

/* It has waited, and is to be elected: it has a place, or there are other
 * workers now. */
void dispatch_placed(struct dispatch *d, uint64_t now_us) ON_LANE;

/* It waits no longer and has no place, full or late; it may come again after
 * that many seconds. */
void dispatch_unplaced(struct dispatch *d, enum dispatch_refusal why,
                       uint32_t retry_after_s, uint64_t now_us) ON_LANE;

/* The lane's scratch holds the request as one for the next model. */
void dispatch_renamed(struct dispatch *d) ON_LANE;

/* The prefill half is being sent. */
void dispatch_prefill_connected(struct dispatch *d) ON_LANE;

/* Its worker has it whole; as dispatch_sent(). */
static inline void
dispatch_prefill_sent(struct dispatch *d)
{
    d->split.sent = true;
}

/* The prefill half's answer is whole. usable: it has what the decode worker is
 * to get, if that is the way; else that one does all of it. */
void dispatch_prefilled(struct dispatch *d, bool usable,
                        const struct usage *usage, uint64_t now_us) ON_LANE;

/* The prefill half failed; its connection is gone, and so is the other half's,
 * if dispatch_needs_prefill(). */
void dispatch_prefill_failed(struct dispatch *d,
                             const struct dispatch_failure *failure) ON_LANE;

/* Whether the other half, which runs, comes to nothing without this one. */
bool dispatch_needs_prefill(const struct dispatch *d,
                            const struct dispatch_failure *failure);

/* Whether an answer of this status shows that the worker did not take what the
 * prefill half came to: dispatch_unsplit() follows. */
bool dispatch_untaken(const struct dispatch *d,
                      const struct dispatch_failure *failure);

/* It is sent once more to the same worker, which does all of it. */
void dispatch_unsplit(struct dispatch *d) ON_LANE;

/* The request is being sent. */
void dispatch_connected(struct dispatch *d) ON_LANE;

/* The worker has the whole request now: it may be at work on it. Repeating it
 * is harmless. */
static inline void
dispatch_sent(struct dispatch *d)
{
    d->sends += !d->sent;
    d->sent = true;
}

/*
 * Whether an answer of this status is not for the client: another worker is
 * asked, or the client is told of all attempts. So it is with retries.statuses,
 * and with a 429 or 503 that has a Retry-After, which refuses the request for
 * now. The last worker's own answer is passed on, unless it is a gateway's
 * (502, 503, 504) or another worker wants the client back sooner. A 404 is the
 * client's, unless the request seeks: then all workers are asked in turn, up to
 * DISPATCH_ATTEMPTS_MAX of them. True: dispatch_failed() follows.
 */
bool dispatch_drops(const struct dispatch *d,
                    const struct dispatch_failure *failure) ON_LANE;

/* The attempt failed before its answer's head; its connection is gone. */
void dispatch_failed(struct dispatch *d, const struct dispatch_failure *failure)
    ON_LANE;

/* The worker refused what the caller had added to the request; it is sent once
 * more without that. */
void dispatch_unasked(struct dispatch *d) ON_LANE;

/* The time for what the state waits for has passed; the connection is gone. */
void dispatch_expired(struct dispatch *d) ON_LANE;

/* The head of the worker's answer has arrived; it is not one that
 * dispatch_drops(). After a 2xx control learns where the prompt
 * is; after every other end of the attempt what was expected is taken back. */
void dispatch_answered(struct dispatch *d, unsigned status, uint64_t now_us)
    ON_LANE;

/* The answer says that its worker stores what has this key (stored.h): control
 * learns it. */
void dispatch_stores(struct dispatch *d, uint64_t key) ON_LANE;

/* The first bytes of the answer's body have arrived. Repeating it is
 * harmless. */
void dispatch_began(struct dispatch *d, uint64_t now_us) ON_LANE;

/* The answer ended too early. */
void dispatch_broke_off(struct dispatch *d) ON_LANE;

/* Whether its rest may be asked of another worker. */
bool dispatch_may_resume(const struct dispatch *d) ON_LANE;

/* The same, and so it is: another worker is elected. If none answers, the
 * answer is severed. */
void dispatch_resumes(struct dispatch *d) ON_LANE;

/* The request has ended, in whatever state: control is told, and the lease
 * returned. */
void dispatch_end(struct dispatch *d, const struct dispatch_report *report)
    ON_LANE;

/* A decode worker reports what was passed to it as cached: in the usage of its
 * answer that becomes what the prefill worker had. */
static inline void
dispatch_correct_usage(const struct dispatch *d, struct usage *usage)
{
    if (d->split.choice.flow != SPLIT_NONE && d->split.prefilled) {
        usage->cached_tokens = d->split.usage.cached_tokens;
        usage->cached_known = d->split.usage.cached_known;
    }
}

/* False and *reason: it is not as it should be. */
bool dispatch_check(const struct dispatch *d, const char **reason);

#endif
