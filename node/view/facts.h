/*
 * Facts: messages from lanes to the control thread, as records in a ring. They
 * say which prefix was sent to which worker, how an attempt went, and how a
 * request ended. A lost fact costs a cache miss or a line in /admin/decisions,
 * never a request.
 *
 * Role: core. Owns: nothing. Thread: written by a lane, read by control.
 */
#ifndef NODE_FACTS_H
#define NODE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/worker_set.h"

#define FACT_ID_MAX    64U
#define FACT_MODEL_MAX 64U

enum fact_kind {
    FACT_LEARN,
    /* struct fact_learn, too: blocks of tokens, those held left out, and where
     * windows are kept the name of the prompt's end (expectations.h). */
    FACT_EXPECT,
    /* The same, with what decided_told() makes of all its tokens. */
    FACT_DECIDED,
    /* The same, beside a FACT_LEARN of the same request: belief's blocks of its
     * session (route/session.h). */
    FACT_SESSION,
    FACT_SETTLED,
    FACT_OUTCOME,
    FACT_DECISION,
    FACT_PREFILLED, /* the same of a split request's other half: what its
                       prefill worker did */
    FACT_WAIT,
    FACT_WAIT_END,
    FACT_REQUEST,
    FACT_COLUMNS,
};

/* Whether what a struct fact_learn names is belief's. */
static inline bool
fact_is_belief(uint32_t kind)
{
    return kind == FACT_LEARN || kind == FACT_SESSION;
}

#define FACT_KEYS_MAX 65536U /* of one prompt; a ring takes twice that */

/* A worker was sent this prefix, or so much of it: belief learns it once the
 * answer has begun. FACT_LEARN of no blocks: it was sent a request, which peers
 * want to know. */
struct fact_learn {
    uint32_t kind;
    uint32_t slot;       /* of the fleet; FACT_EXPECT: of the mirror */
    uint32_t generation; /* of the worker */
    uint32_t priority;   /* 0..255 */
    uint32_t count;      /* FACT_KEYS_MAX at most */
    uint32_t owner;      /* FACT_EXPECT: the worker's slot of the fleet */
    uint32_t from; /* FACT_EXPECT: blocks of the prompt before the first */
    uint32_t held; /* FACT_LEARN: blocks of it that need not be expected,
                            from the first on */
    uint64_t root;
    uint64_t ticket; /* of the attempt; 0: it has no blocks to learn */
    uint64_t keys[]; /* count of them */
};

/* How an attempt with a ticket went: an answer of success has begun, so the
 * worker holds the prompt; or the attempt has come to nothing. */
struct fact_settled {
    uint32_t kind;
    bool learned;
    bool broke_off; /* of what was learned: no whole answer will prove more */
    uint64_t ticket;
};

enum fact_result {
    FACT_ANSWERED, /* any answer but 502, 503, 504 or 500 */
    FACT_CONNECT,
    FACT_TIMEOUT,
    FACT_CLOSED,
    FACT_STATUS, /* 5xx */
};

/* How one attempt went: the input of the circuit breaker. */
struct fact_outcome {
    uint32_t kind;
    uint32_t slot;
    uint32_t generation;
    uint32_t result; /* enum fact_result */
};

/* A request waits for a worker that has room; its lane is told by a struct
 * wait_told in lane_shared.waits. */
struct fact_wait {
    uint32_t kind;
    uint32_t tenant;      /* its slot of keys.h */
    uint64_t id;          /* WAIT_LANE() of it is the lane's number */
    uint64_t deadline_us; /* on the lanes' clock */
    int64_t priority;     /* as the request says; 0: it does not */
    uint64_t tokens;
    uint64_t held_tokens; /* of these, at its homes */
    struct worker_set able;
    struct worker_set homes;
};

#define WAIT_LANE(id) ((uint32_t)((id) >> 56))

/* It waits no longer, or has taken its place. */
struct fact_wait_end {
    uint32_t kind;
    uint64_t id;
};

enum wait_event {
    WAIT_PLACE, /* it has a place at `slot` */
    WAIT_AGAIN, /* there are other workers now: it is elected anew */
    WAIT_LATE,  /* its time is over */
    WAIT_FULL,  /* it had to give way */
};

/* From control to a lane: what becomes of one that waits, once for each. */
struct wait_told {
    uint64_t id;
    uint64_t until_us;      /* WAIT_PLACE: later it is like WAIT_AGAIN */
    uint32_t event;         /* enum wait_event */
    uint32_t slot;          /* WAIT_PLACE */
    uint32_t retry_after_s; /* WAIT_LATE, WAIT_FULL */
};

/* What one worker was compared by in an election; elect.h has the words. */
struct fact_column {
    uint32_t slot;
    uint32_t generation;
    uint32_t overlap;
    uint32_t load;
    uint32_t queued; /* of candidates, as all that follow but the texts */
    uint32_t unread;
    uint32_t aside;
    uint32_t cost;
    uint32_t slowness;
    uint16_t kv_usage;
    bool candidate;
    uint32_t unread_weight; /* thousandths of a token each, in the cost */
    uint32_t queued_weight;
    uint64_t load_weight;
    const char *filter;  /* static text, or NULL */
    const char *verdict; /* static text */
};

/* An election that was decided, where somebody keeps that
 * (limits.decision_columns_bytes). */
struct fact_columns {
    uint32_t kind;
    uint32_t count;
    uint64_t number; /* of no other election of this node */
    struct fact_column column[];
};

/* One request, when it ended: for /admin/decisions. */
struct fact_decision {
    uint32_t kind;
    uint32_t slot; /* of the last attempt; WORKER_NONE: none */
    uint32_t generation;
    uint32_t mode;      /* enum elect_mode */
    const char *reason; /* of the last election: static text, or NULL */
    uint32_t candidates;
    uint32_t late;    /* of these, who would have missed the SLO */
    uint32_t load;    /* of the worker, before this request */
    uint32_t cost;    /* likewise; elect.h */
    uint32_t overlap; /* blocks */
    uint32_t total;   /* blocks */
    uint32_t
        front_tokens; /* to be computed before its answer: those that waited
                              there, and its own */
    uint32_t attempts;
    uint32_t status;        /* as sent to the client; 0: cancelled before */
    uint32_t prompt_tokens; /* as the engine reported; 0 when it did not */
    uint32_t cached_tokens;
    uint32_t completion_tokens; /* as the engine reported; 0: it did not */
    uint32_t text_bytes;    /* of the prompt, where its text alone makes tokens;
                            else 0 */
    uint32_t text_kind;     /* enum text_kind of it */
    uint32_t budget_tokens; /* prompt and longest answer, as was known when it
                               came; 0: not known */
    uint32_t predicted_tokens; /* that would be cached; with exact */
    uint32_t held_tokens;      /* of these, by events alone; with exact */
    uint32_t possible_tokens;  /* that might have been cached: the most that a
                                  candidate held, or what was; with judges */
    uint32_t block_tokens;     /* the worker's; with exact */
    uint32_t rank;             /* of the worker; with exact */
    uint32_t tenant;           /* its slot of keys.h */
    uint32_t resumed;          /* times that its answer went on elsewhere */
    bool exact;        /* overlap and total count tokens, by its mirror */
    bool whole;        /* ... and the whole prompt was tokenised */
    bool cached_known; /* the engine reported cached_tokens */
    bool judges; /* ... and so whether the prediction came true: they are not
                    those of a later choice of the same prompt */
    bool stream;
    bool cleared; /* by this request the worker's cache is empty now */
    bool imbalanced;
    bool split;       /* another worker had to compute its prompt */
    bool severed;     /* broke off after the first byte */
    bool cancelled;   /* the client went away */
    uint64_t ticket;  /* of the attempt that was answered; 0: none had one */
    uint64_t columns; /* number of the last one's; 0: they are not kept */
    uint64_t wall_ms; /* since 1970, when the request was whole */
    uint64_t route_us;
    uint64_t waited_us;      /* of these, for a worker that has room */
    uint64_t first_byte_us;  /* 0: none */
    uint64_t first_token_us; /* 0: none, or not a stream */
    uint64_t duration_us;
    uint64_t bytes;            /* of its body and what came of its answer */
    char prefill[FACT_ID_MAX]; /* the worker that did; "": none */
    char id[FACT_ID_MAX];
    char model[FACT_MODEL_MAX]; /* shortened to fit */
};

#define FACT_PATH_MAX   128U
#define FACT_METHOD_MAX 8U
#define FACT_FAILED_MAX 8U

/* Who sent a request, and what it asked for. */
struct fact_origin {
    uint8_t client_size; /* 4 or 16; 0: not known */
    bool traced;         /* it came with a traceparent */
    uint8_t client[16];  /* IP address */
    uint8_t trace[16];
    uint8_t span[8];   /* of what went on to workers */
    const char *code;  /* of our own error: static, or NULL */
    const char *cache; /* hit, miss or bypass; NULL: there is none; static */
    const char *cache_why;        /* of bypass: static, or NULL */
    const char *not_resumed;      /* why nobody went on with a stream that was
                                severed: static, or NULL */
    char method[FACT_METHOD_MAX]; /* "": not known; shortened to fit */
    char path[FACT_PATH_MAX];     /* likewise; without its query */
};

/* An attempt that came to nothing. */
struct fact_failed {
    const char *why; /* static text */
    uint32_t status; /* of the worker's answer; 0: there was none */
    char worker[FACT_ID_MAX];
};

#define FACT_STEPS_MAX 24U

enum fact_step_kind {
    FACT_STEP_TOKENS, /* its tokens were made here, or asked of an engine */
    FACT_STEP_ELECT,
    FACT_STEP_QUEUE,   /* it waited for a worker with room */
    FACT_STEP_ATTEMPT, /* a worker had it */
};

/* What was done with a request for some time. */
struct fact_step {
    uint32_t kind;     /* enum fact_step_kind */
    uint32_t attempt;  /* FACT_STEP_ATTEMPT: attempts that had failed before */
    uint64_t begun_us; /* since the request was whole */
    uint64_t ended_us;
};

/* For traces.otlp: its steps, one after another, the first FACT_STEPS_MAX. */
struct fact_trace {
    bool sampled;
    uint8_t parent[8]; /* the client's span; all 0: the trace begins here */
    uint64_t begun_ns; /* since 1970: the request was whole */
    uint32_t steps_count;
    struct fact_step step[FACT_STEPS_MAX];
};

/* One request, when it ended, for the request log and traces: beside its
 * FACT_DECISION, or alone where it was refused before. */
struct fact_request {
    uint32_t kind;
    bool logged; /* it has a line in the log */
    uint32_t failed_count;
    const char *end; /* static text */
    struct fact_origin origin;
    struct fact_decision decision; /* kind 0: it has slot and status alone */
    struct fact_failed failed[FACT_FAILED_MAX];
    struct fact_trace trace;
};

#endif
