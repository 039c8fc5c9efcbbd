/*
 * A small HTTP/1.1 server on one libuv loop: the admin port, the stand-in
 * engine. Not the serving port, whose request path is edge.h.
 *
 * A request is handed over whole (head and body); the handler answers now, or
 * later, at once or in pieces. Keep-alive, pipelining (one request at a time),
 * Expect: 100-continue and back-pressure are the server's.
 *
 * Role: shell. Owns: listener, connections, their buffers.
 * Thread: the loop's. Limits: struct httpd_limits; a connection over
 * connections_max is answered 503 and closed.
 * Errors: below zero -errno.
 */
#ifndef NODE_HTTPD_H
#define NODE_HTTPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/http_head.h"

struct httpd;
struct httpd_request;

struct httpd_limits {
    uint32_t connections_max;
    size_t head_bytes_max;
    size_t body_bytes_max;     /* 413 above */
    size_t unsent_bytes_max;   /* of one answer; httpd_send() refuses above */
    uint32_t idle_timeout_ms;  /* keep-alive, and each stage of reading */
    uint32_t write_timeout_ms; /* a client that takes nothing */
};

struct httpd_handler {
    void *context;
    /* One whole request. `request` stays valid until httpd_end() or until
     * `gone` was called for it. Must lead to an answer some day. */
    void (*request)(void *context, struct httpd_request *request);
    /* The client went away before the answer ended; `request` is freed after
     * this returns. NULL: not interested. */
    void (*gone)(void *context, struct httpd_request *request);
    /* Everything sent so far was taken by the kernel. NULL: not interested. */
    void (*drained)(void *context, struct httpd_request *request);
};

/* Listens on address (port 0: a free one). 0, or -errno and *out is NULL. */
int httpd_new(struct httpd **out, uv_loop_t *loop,
              const struct sockaddr *address, const struct httpd_limits *limits,
              const struct httpd_handler *handler) MUST_CHECK;

/* The port that it listens on. */
uint16_t httpd_port(const struct httpd *httpd);

/* Stops accepting; open requests go on. */
void httpd_stop(struct httpd *httpd);

/* Closes everything (calling `gone` for open requests), and frees *httpd
 * from the loop once its handles are closed. NULL is fine. */
void httpd_free(struct httpd *httpd);

/* The request's head and body; valid as long as the request. */
const struct http_head *httpd_head(const struct httpd_request *request);
struct slice httpd_body(const struct httpd_request *request);

/* A place for the handler's own pointer; NULL at first. */
void **httpd_user(struct httpd_request *request);

/* One whole answer; the bytes are copied, the request is done. extra: further
 * header lines, each ending in CRLF, or empty. */
void httpd_answer(struct httpd_request *request, unsigned status,
                  const char *content_type, struct slice extra,
                  struct slice body);

/* An OpenAI-shaped JSON error: {"error":{"message","type","code"}}. */
void httpd_error(struct httpd_request *request, unsigned status,
                 const char *code, const char *message);

/* An answer in pieces: head now (chunked), then httpd_send(), then
 * httpd_end(). */
void httpd_begin(struct httpd_request *request, unsigned status,
                 const char *content_type, struct slice extra);

/* Copies a piece out. 0, or -ENOBUFS when unsent_bytes_max is reached (wait
 * for `drained`; the piece was not taken). */
int httpd_send(struct httpd_request *request, struct slice piece) MUST_CHECK;

/* The answer is complete; `request` is no longer valid. */
void httpd_end(struct httpd_request *request);

/* Cuts the connection in the middle of the answer (faults, tests). */
void httpd_abort(struct httpd_request *request);

#endif
