/*
 * What the files of token_ask share.
 *
 *   token_ask.c        questions from their start to their end
 *   token_ask_skill.c  what each worker can, and how that is learnt
 *   token_ask_text.c   the bytes of a request
 *   token_ask_conn.c   connections: kept, written to, read from
 *   token_ask_ids.c    ids out of an answer
 *
 * A question ends once: answered, given up or forgotten. Its memory stays for
 * as long as libuv may read the request in it (`holds`). A connection ends in
 * ask_conn_close(), its memory with its handle.
 *
 * Role: shell, private to token_ask. Thread: the loop's.
 */
#ifndef NODE_TOKEN_ASK_INTERNAL_H
#define NODE_TOKEN_ASK_INTERNAL_H

#include <uv.h>

#include "index/base/buf.h"
#include "node/base/deadline.h"
#include "node/http/http_chunk.h"
#include "node/http/http_head.h"
#include "node/tokens/token_ask.h"
#include "node/tokens/token_ask_ids_internal.h"

#define ASK_READ_BYTES     65536
#define ASK_HEAD_BYTES_MAX 16384

/* What an engine is asked with; the best first. */
enum ask_way {
    ASK_RENDER,
    ASK_TOKENIZE,
    ASK_NOTHING,
};

/* What is known of a worker, for one kind of prompts. */
struct ask_skill {
    enum ask_way way;
    bool proven;       /* that way has answered well */
    uint32_t refusals; /* in a row, that may mean it is no way at all */
    uint64_t until_ms; /* unless ASK_RENDER: then the best is tried again */
};

struct ask_slot {
    uint32_t generation;       /* of the worker all this is about */
    struct ask_skill skill[2]; /* texts, chats */
    uint32_t failures;         /* in a row */
    uint64_t rest_until_ms;    /* not asked before */
    struct ask_conn *idle;     /* connections kept, the last used first */
    uint32_t idle_count;
};

struct token_ask {
    uv_loop_t *loop;
    uv_timer_t timer;
    struct token_ask_limits limits;
    bool closing;
    unsigned holds; /* handles that libuv still has */
    struct token_question *first;
    struct deadline_list timeouts;
    struct deadline_list soon; /* fail from the loop, not from the call */
    struct token_ask_stats stats;
    struct token_ids ids; /* of the answer being given */
    struct ask_slot slots[WORKERS_MAX];
    char raw[ASK_READ_BYTES];
};

/* The parts of the body that a tokeniser is told of. */
struct ask_parts {
    struct scan_text model;
    struct scan_text prompt; /* raw */
    struct scan_text tools;
    struct scan_text options[SCAN_OPTIONS];
};

struct token_question {
    struct deadline deadline; /* in timeouts, or in soon */
    struct token_ask *ask;
    struct token_question *next;
    struct token_question *prev;
    void *context;
    void (*done)(void *context, const struct token_answer *answer);

    uint32_t slot;
    uint32_t generation;
    struct sockaddr_storage address;
    struct buf lines; /* Host and, with a key, Authorization */
    char base_path[URL_PATH_MAX];
    bool chat;
    bool media;              /* the prompt has images or the like */
    enum ask_way way;        /* that it is asked with now */
    enum token_outcome soon; /* what it ends with, when in that list */

    struct ask_parts parts;
    struct buf body; /* the client's */
    struct buf out;  /* the request of this way */

    struct ask_conn *conn; /* NULL while it has none */
    bool retried;          /* a kept connection was dead: never one again */
    bool over;
    unsigned holds;
};

struct ask_conn {
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    struct token_ask *ask;
    struct ask_conn *next_idle;
    uint32_t slot;
    uint32_t generation;
    struct sockaddr_storage address;
    struct token_question *question; /* NULL: idle */
    struct token_question *writing;  /* whose request libuv reads */
    bool closing;
    bool reused; /* answered something before */
    bool heard;  /* bytes of this answer came */
    bool has_head;
    unsigned interim; /* 1xx answers so far */
    struct buf in;    /* up to the end of the head */
    struct buf body;  /* of the answer, decoded */
    struct http_chunk chunk;
    uint64_t left; /* of a body with a length; bytes */
    struct http_head head;
};

/* token_ask.c */

/* The whole answer is in conn, which is the question's no more. */
void ask_answered(struct token_question *q, unsigned status, struct slice body);

enum ask_fault {
    ASK_FAULT_BROKEN, /* not connected, cut, or not HTTP */
    ASK_FAULT_LARGE,
};

/* No answer came; its connection is gone. */
void ask_failed(struct token_question *q, enum ask_fault fault);

/* One of the `holds` is gone; may free it. */
void ask_question_drop(struct token_question *q);
void ask_drop(struct token_ask *ask);

/* token_ask_skill.c */

/* Forgets what the slot's earlier workers could. */
void ask_slot_renew(struct token_ask *ask, uint32_t slot, uint32_t generation);

/* How the question may be asked now. */
enum ask_way ask_way_now(const struct token_ask *ask, uint32_t slot,
                         uint32_t generation, bool chat);

void ask_learn_good(const struct token_question *q);

/* It was refused; missing: as if there were no such path. True when that way
 * is not to be gone any more, and this question may try the next. */
bool ask_learn_refused(const struct token_question *q, bool missing);

void ask_learn_failed(const struct token_question *q);

/* token_ask_text.c */

void ask_text_lines(struct buf *out, const struct fleet_worker *worker);

/* Writes the request of q->way; q->out.failed when out of memory. */
void ask_text_write(struct token_question *q);

/* token_ask_conn.c */

/* Sends q->out on a kept connection or a new one. 0; or -errno, and q has no
 * connection. */
int ask_conn_send(struct token_question *q) MUST_CHECK;

/* Closes it; its question, if any, hears nothing. */
void ask_conn_close(struct ask_conn *conn);

/* Closes those kept for the worker. */
void ask_conn_close_idle(struct ask_slot *slot);

#endif
