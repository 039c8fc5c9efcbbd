/*
 * What the files of token_ask share.
 *
 *   token_ask.c        questions from their start to their end
 *   token_ask_skill.c  what each worker can, and how that is learnt
 *   token_ask_text.c   path, headers and body of a request
 *   token_ask_conn.c   sends a request, over a connection that is kept
 *   token_ask_ids.c    ids out of an answer
 *
 * A question ends once: answered, given up or forgotten; then its memory goes.
 * The HTTP client (httpc.h) owns what is under way.
 *
 * Role: shell, private to token_ask. Thread: the loop's.
 */
#ifndef NODE_TOKEN_ASK_INTERNAL_H
#define NODE_TOKEN_ASK_INTERNAL_H

#include <uv.h>

#include "index/base/buf.h"
#include "node/base/deadline.h"
#include "node/http/httpc.h"
#include "node/text/url.h"
#include "node/tokens/token_ask.h"
#include "node/tokens/token_ask_ids_internal.h"

#define ASK_PLACES_MAX 8U /* connections kept for one worker, at most */
#define ASK_PATH_MAX   (URL_PATH_MAX + 32)

/* What an engine is asked with; the best first. */
enum ask_way {
    ASK_RENDER,
    ASK_TOKENIZE,
    ASK_NOTHING,
};

/* What is known about a worker, for one API. */
struct ask_skill {
    enum ask_way way;
    bool proven;       /* that way has answered well */
    uint32_t refusals; /* in a row, that may mean it is no way at all */
    uint64_t until_ms; /* unless ASK_RENDER: then the best is tried again */
};

struct ask_slot {
    uint32_t generation; /* of the worker all this is about */
    struct ask_skill skill[SCAN_APIS];
    uint32_t failures;                       /* in a row */
    uint64_t rest_until_ms;                  /* not asked before */
    struct httpc_conn *idle[ASK_PLACES_MAX]; /* connections that wait */
    uint32_t taken; /* bit per place: a question has it */
};

struct token_ask {
    uv_loop_t *loop;
    uv_timer_t timer;
    struct token_ask_limits limits;
    const struct sock_tls_context *tls;
    bool closing;
    struct token_question *first;
    struct deadline_list soon; /* fail from the loop, not from the call */
    struct token_ask_stats stats;
    struct token_ids ids;     /* of the answer being given */
    struct token_media media; /* the same */
    struct ask_slot slots[WORKERS_MAX];
};

/* The parts of the body that a tokenizer needs. */
struct ask_parts {
    struct scan_text model;
    struct scan_text prompt; /* raw */
    struct scan_text tools;
    struct scan_text options[SCAN_OPTIONS];
};

struct token_question {
    struct deadline deadline; /* in soon, or in no list */
    struct token_ask *ask;
    struct token_question *next;
    struct token_question *prev;
    void *context;
    void (*done)(void *context, const struct token_answer *answer);

    uint32_t slot;
    uint32_t generation;
    struct sockaddr_storage address;
    struct url url;   /* the worker's */
    struct buf lines; /* Content-Type and, with a key, Authorization */
    uint64_t end_ms;  /* loop time */
    enum scan_api api;
    bool media;              /* the prompt has images or the like */
    bool strict;             /* what /tokenize tells would be another one's */
    enum ask_way way;        /* that it is asked with now */
    enum token_outcome soon; /* its outcome, when in that list */

    struct ask_parts parts;
    struct buf body; /* the client's */

    struct httpc *call; /* NULL: none is under way */
    unsigned place;     /* of its connection; ASK_PLACES_MAX: it has none */
    bool over;
};

/* token_ask.c */

/* An answer came, whole; body is borrowed for the call. May end q. */
void ask_answered(struct token_question *q, unsigned status, struct slice body);

enum ask_fault {
    ASK_FAULT_BROKEN, /* not connected, severed, or not HTTP */
    ASK_FAULT_LATE,
    ASK_FAULT_LARGE,
};

/* No answer came. Ends q. */
void ask_failed(struct token_question *q, enum ask_fault fault);

/* token_ask_skill.c */

/* Prepares to ask a worker of that generation: forgets what is known of an
 * earlier worker in the slot, and closes its idle connections. */
void ask_slot_renew(struct token_ask *ask, uint32_t slot, uint32_t generation);

/* The best way to ask that worker now; ASK_NOTHING: leave it alone. A worker of
 * an unknown generation is asked in the best way. */
enum ask_way ask_way_now(const struct token_ask *ask, uint32_t slot,
                         uint32_t generation, enum scan_api api);

/* What to try when the question's way is none: /tokenize knows whole chats and
 * texts alone, and no pictures. */
enum ask_way ask_way_after(const struct token_question *q);

/* The question was answered well: its way works. */
void ask_learn_good(const struct token_question *q);

/* The question was refused; missing: as if the engine had no such path. True
 * when its way is given up for now, and the question may try the next one. */
bool ask_learn_refused(const struct token_question *q, bool missing);

/* No answer came, or a useless one: after four in a row the worker is left
 * alone for retry_ms. */
void ask_learn_failed(const struct token_question *q);

/* token_ask_text.c */

/* Appends the header lines of requests to that worker, without Host;
 * out->failed when memory is out. */
void ask_text_lines(struct buf *out, const struct fleet_worker *worker);

/* The target of a request of q->way; returns out. */
const char *ask_text_path(const struct token_question *q,
                          char out[ASK_PATH_MAX]);

/* The body of a request of q->way: in q, or in room, which is empty before and
 * room->failed when memory is out. */
struct slice ask_text_body(const struct token_question *q, struct buf *room);

/* token_ask_conn.c */

/* Sends the request of q->way on a kept connection or a new one; ask_answered()
 * or ask_failed() follows from the loop. 0, or -errno and nothing follows. */
int ask_conn_send(struct token_question *q) MUST_CHECK;

/* Gives up q's request, if it has one; no callback follows. */
void ask_conn_drop(struct token_question *q);

/* Closes the connections that wait for the worker's next question. */
void ask_conn_close_idle(struct ask_slot *slot);

#endif
