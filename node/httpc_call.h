/*
 * What the files of the client share: one call, from its start to its end.
 *
 *   httpc.c          start, cancel, the end of a call
 *   httpc_connect.c  name -> addresses -> connection, in order, within the time
 *   httpc_answer.c   bytes of the answer -> head, body
 *
 * A call ends once, in httpc_finish(); then its handles are closed and the last
 * one to go frees it. Every callback therefore looks at `over` first.
 *
 * Role: shell, private to the client. Thread: the loop's.
 */
#ifndef NODE_HTTPC_CALL_H
#define NODE_HTTPC_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/buf.h"
#include "node/http_chunk.h"
#include "node/http_head.h"
#include "node/httpc.h"

#define HTTPC_READ_BYTES     16384
#define HTTPC_HEAD_BYTES_MAX 65536
#define HTTPC_ADDRESSES_MAX  16

struct httpc {
    uv_loop_t *loop;
    uint16_t port;
    size_t answer_bytes_max;
    enum http_method method; /* HTTP_HEAD or anything else */
    void *context;
    void (*done)(void *context, const struct httpc_answer *answer);
    void (*piece)(void *context, struct slice piece);

    bool over;      /* finished or cancelled: no callback follows */
    unsigned holds; /* handles and requests that libuv still has */

    struct sockaddr_storage addresses[HTTPC_ADDRESSES_MAX];
    unsigned addresses_count;
    unsigned addresses_tried;
    int error; /* of the last attempt */
    bool resolving;
    bool has_tcp;    /* tcp is initialised and not yet closing */
    bool connecting; /* ... and not connected */
    uint64_t end_ms; /* loop time; UINT64_MAX: never */
    uint32_t connect_ms;
    uv_getaddrinfo_t resolve;
    uv_connect_t connect;
    uv_write_t write;
    uv_tcp_t tcp;
    uv_timer_t timer;

    struct buf out; /* the whole request */
    struct buf in;  /* up to the end of the head; then it stays put */
    struct buf body;
    bool has_head;
    unsigned interim; /* 1xx answers so far */
    struct http_head head;
    struct http_chunk chunk;
    uint64_t left; /* of a body with a length; bytes */
    char raw[HTTPC_READ_BYTES];
};

/* httpc.c */

/* Ends the call: `done` is called, unless it was cancelled. */
void httpc_finish(struct httpc *call, enum httpc_outcome outcome);

/* One of the `holds` is gone; may free the call. */
void httpc_drop(struct httpc *call);

/* httpc_connect.c */

/* Resolves host and goes on from there. 0, or -errno. */
int httpc_connect_start(struct httpc *call, const char *host) MUST_CHECK;

/* Goes to that address without resolving anything. */
void httpc_connect_to(struct httpc *call, const struct sockaddr *address);

/* Closes the connection, or gives up resolving. */
void httpc_connect_stop(struct httpc *call);

/* httpc_answer.c */

/* Sends the request and reads the answer; the connection is there. */
void httpc_answer_start(struct httpc *call);

#endif
