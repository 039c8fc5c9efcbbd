/*
 * What an exchange keeps for each of the things that may become of a request
 * on its way: usage that is asked for, a salt, another form, two halves,
 * waiting, limits. Each is written by the file that the essay of
 * edge_internal.h names for it. What is large and not for most requests is got
 * when it is needed, by exchange_part(): "a part".
 *
 * Role: shell, private to node/edge. Thread: the exchange's lane.
 */
#ifndef NODE_EDGE_PARTS_INTERNAL_H
#define NODE_EDGE_PARTS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/slice.h"
#include "node/answers/answers.h"
#include "node/base/deadline.h"
#include "node/content/content.h"
#include "node/dialect/dialect.h"
#include "node/http/http_chunk.h"
#include "node/http/http_head.h"
#include "node/http/httpc.h"
#include "node/keys/keys_check.h"
#include "node/limits/limits_table.h"
#include "node/redis/redis.h"
#include "node/route/alias.h"
#include "node/route/resume.h"
#include "node/route/split.h"
#include "node/scan/scan.h"
#include "node/text/usage.h"
#include "node/text/usage_strip.h"

#define EDGE_HINTS_MAX 64U /* x-kvasir-tier and x-data-parallel-rank */

struct exchange;
struct upstream;
struct upstream_pool;

/* A field that counts before the body's priority (vLLM 0.33). */
#define PARTS_PRIORITY SLICE("x-vllm-priority")

/* Whose request it is. */
struct admission {
    bool keyed; /* the node wants keys: those of the client are ours alone */
    uint32_t tenant; /* 0: nobody's in particular */
    int32_t priority;
    bool raised; /* what the body said was before it, and gave way */
    struct keys_isolation isolation;
    struct keys_residency residency;
};

/* A stream's usage, asked of the engine on the client's behalf. */
struct edge_ask {
    bool possible;      /* the client has not asked, and the engine may be */
    bool each_possible; /* the same of the usage of each event, which streams
                           want that may be resumed */
    bool asks;          /* the attempt's body asks */
    bool asks_each;
    bool refused; /* an engine did not take it; this request asks no more */
    bool repeats; /* ... and that engine gets it again */
    struct scan_usage lack;
};

/* The salt of an isolated tenant, in place of what the body says. */
struct edge_salt {
    bool possible; /* such bodies have one */
    bool sent;     /* the attempt's body has it */
    uint32_t at;
    uint32_t cut;
    uint32_t len;
    char text[KEYS_CACHE_SALT_ROOM + 20]; /* a value, or a member */
};

#define EDGE_EDITS_MAX (3U + RESUME_EDITS_MAX)

_Static_assert(EDGE_EDITS_MAX > SPLIT_EDITS_MAX, "and a salt");

/* What the attempt's worker gets instead of the body as it came. */
struct edge_edits {
    uint32_t count;
    uint32_t length_len; /* 0: it is as the head says */
    char length[32];     /* of the body then, to the head's end */
    struct body_edit edit[EDGE_EDITS_MAX]; /* by rising place */
};

/* A stream that may go on at another worker. */
struct edge_resuming {
    bool possible;         /* such a request's may */
    bool exact;            /* its text is the same everywhere */
    bool usage;            /* the client wants to be told of the usage */
    bool framed;           /* the answer passes in whole events */
    const char *why;       /* nobody went on, or may; static text */
    uint32_t asks;         /* edits that ask for the rest of it, ... */
    struct body_edit *ask; /* ... RESUME_EDITS_MAX at most: a part, or NULL */
    struct resume *resume; /* with `framed`: a part */
};

/* A request that an engine may get as a chat, because it knows no other path:
 * translating.c. */
struct edge_dialect {
    bool possible; /* such a request's path has a counterpart */
    enum dialect api;
    const char *line; /* the path of the chat, to the end of its line; static */
    bool on;          /* the attempt's engine gets a chat */
    bool shown;       /* ... as it has just shown that it needs one */
    bool streams;     /* its answer is a stream: `saying` */
    bool marks;       /* where it passes as it is, it is marked for caches */
    const char *why;  /* there is no chat for it; static text */
    char *body;       /* the chat's, made once, or NULL */
    size_t size;
    struct slice chat; /* in body; empty: it was not made */
    bool salted;       /* it has the tenant's salt, if that has one */
    bool each;         /* it asks for the usage of each event of its stream */
    struct edge_saying *saying; /* a part, with `streams` */
};

/* What makes a chat's stream one of the client's API, and what of that has yet
 * to go to the client. */
struct edge_saying {
    struct dialect_stream stream;
    struct buf said;
};

/* A request that this node may answer by counting its tokens: counting.c. */
struct edge_counting {
    bool asks;  /* ... and was not asked to yet */
    bool waits; /* a thread counts */
    bool done;  /* the answer is ours */
};

/* A client that waits for the first of its stream. */
struct edge_alive {
    struct deadline deadline; /* until the next comment */
    bool stream;              /* the answer is one */
    bool told; /* the head was ours: whatever comes, it goes out as events */
};

/* A worker's answer that does not pass as it comes. */
struct edge_whole {
    bool gathers;    /* it is held, and nothing of it has been sent */
    bool over;       /* it is larger than may be held */
    unsigned status; /* of its head */
    bool says_when;  /* the same: its client may come again ... */
    uint32_t retry_after_s;
    char *ptr; /* of its body so far, decoded; or NULL */
    size_t size;
    size_t len;
};

/* Whether a request may be split. */
enum edge_apt {
    EDGE_APT_UNREAD,
    EDGE_APT,
    EDGE_UNAPT,
};

/* A request of which two workers do a half each: this is the prefill half. A
 * part of one that is apt. */
struct edge_split {
    struct split_form form;
    struct upstream *up;        /* NULL: it does not run */
    struct upstream_pool *pool; /* its worker's; NULL: there is no half */
    struct edge_edits edits;
    char hints[EDGE_HINTS_MAX];
    uint32_t hints_len;
    unsigned status; /* of its answer; 0 until then */
    enum http_body body_kind;
    uint64_t body_left;
    struct http_chunk chunk;
    char *params; /* for the other half, with a comma behind; or NULL */
    size_t params_len;
    size_t params_size;
    uint32_t room_len;              /* of `room`; 0: none */
    char room[SPLIT_ROOM_TEXT_MAX]; /* likewise, for both halves */
    struct usage_watch watch;       /* of its answer */
    char object[USAGE_OBJECT_MAX];  /* its room */
};

/* What an answer's watch and strip keep of an object, or of an event, that did not
 * come in one piece. */
struct edge_rooms {
    char object[USAGE_OBJECT_MAX];
    char held[USAGE_STRIP_ROOM];
};

/* Where one that waits for room is found by its id. */
struct waiting_place {
    struct exchange *x; /* NULL: free */
    uint32_t next_free;
};

struct edge_wait {
    uint64_t id;          /* of facts.h; 0: control knows of none */
    uint64_t patience_us; /* from its begin; UINT64_MAX: the client said none */
    uint64_t deadline_us; /* of the first wait; 0: there was none */
    bool placed;          /* it has a place at a worker, for its election */
    uint32_t place;
};

/* What x took of its tenant's limits and its model's. */
struct edge_limit {
    bool holds;   /* it has passed the gates, and is to be settled */
    bool counted; /* the prompt's tokens are counted, and no estimate */
    bool begun;   /* a good answer has, and the prompt is spent */
    bool refused; /* `needs` of `short_of` are more than `short_at` has ... */
    bool waits;   /* ... or has at hand */
    bool through; /* its request is spent already */
    uint8_t short_of;    /* enum limits_of */
    uint8_t short_whose; /* enum limits_whose */
    struct limits_gate *short_at;
    uint64_t needs;
    uint64_t since_us; /* it waits, or waited at first; 0: it did not */
    struct limits_gates gates;
    uint64_t prompt; /* tokens of it */
    uint64_t taken;  /* tokens that are open: of it and of its answer */
    uint64_t spent;  /* tokens settled so far */
    uint64_t events; /* of its stream, that have passed */
    bool in_line;    /* of the stream: something since the last line's end */
    bool in_event;   /* ... since the last empty line */
};

enum caching_verdict {
    CACHING_NONE, /* the node has no cache of answers */
    CACHING_HIT,
    CACHING_MISS,
    CACHING_BYPASS,
};

#define EDGE_EMBEDDERS_KEPT 8U

/* What vectors are asked for. */
enum edge_embeds {
    EDGE_EMBEDS_ANSWERS, /* answers to questions alike */
    EDGE_EMBEDS_CONTENT, /* what a request is about */
    EDGE_EMBEDS,
};

/* A lane's calls to engines that tell vectors, for one of these. */
struct edge_embedders {
    struct httpc_conn *kept[EDGE_EMBEDDERS_KEPT]; /* places of httpc.h */
    uint32_t taken;                               /* bits of these */
    uint32_t open;                                /* calls */
    uint32_t failed;                              /* in a row */
    uint64_t again_at_us;                         /* nobody is asked before */
};

/* A call for a vector. */
struct edge_vector_call {
    struct httpc *call; /* NULL: none is open */
    unsigned place;     /* of edge_embedders */
};

/* A request that may get the answer to a question like its own. */
struct edge_resembling {
    bool may;          /* it has not asked for its question's vector yet */
    uint32_t permille; /* the cosine wanted */
    uint32_t at;       /* of its question, in the body */
    uint32_t len;
    struct key_wide kin; /* as in answers_question; likewise ... */
    uint64_t guard;
    struct edge_vector_call call;
    struct text_vector *vector; /* with a flight; or NULL */
};

/* A request that may be answered from the cache, or whose answer may be kept
 * there. */
struct edge_caching {
    enum caching_verdict verdict;
    bool asks;       /* it has not asked the cache yet */
    bool anew;       /* what is kept is not for it */
    bool follows;    /* it waits for the first of its kind */
    bool marked;     /* `cleared` is known: its answer may be shared */
    bool hears;      /* of the marks that it asked Redis for */
    bool records;    /* with `flight`: its answer is taken down as it passes */
    uint32_t age_s;  /* of a hit */
    uint32_t alike;  /* of a hit: answers_kept.alike */
    const char *why; /* of CACHING_BYPASS; static text */
    struct answers_key key;
    struct answers_flight *flight; /* it is the first of its kind; or NULL */
    struct redis_call call;        /* while it asks Redis */
    uint64_t cleared;              /* redis_facts.cleared */
    struct edge_resembling resembling;
    char *ptr; /* what was taken down; or NULL */
    size_t size;
    size_t len;
};

/* A request whose name stands for models. */
struct edge_naming {
    uint32_t count;             /* of names->models; 0: it stands for itself */
    uint32_t next;              /* of these; the one before is asked for now */
    struct alias_place place;   /* of the name in the body that came */
    uint64_t session;           /* as exchange.session, of the name */
    uint32_t semantic_permille; /* as in content_rule */
    struct edge_vector_call call; /* by which it waits for its vector */
    enum content_like like;       /* what came of that */
    struct text_vector *vector;   /* until the model is chosen; or NULL */
    char *body;                   /* the one with the model's name, or NULL */
    size_t body_size;
    struct edge_names *names; /* a part, with `count` */
};

struct edge_names {
    char asked[CONFIG_MODEL_NAME_MAX]; /* the name */
    char members[CONTENT_SET_MAX];     /* that the body gets beside a model */
    char models[CONFIG_ALIAS_TARGETS_MAX][CONFIG_MODEL_NAME_MAX];
};

#endif
