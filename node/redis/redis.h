/*
 * A connection to a Redis (or Valkey) on a libuv loop, over TLS if wanted.
 *
 * Commands go out one behind the other, and replies come in that order. What has
 * no reply within timeout_ms has none: then the connection is of no use, since
 * replies would be taken for those of others, and is closed; every command that
 * waits is told so. Another one is opened after REDIS_AGAIN_MIN_MS, later each
 * time, and is open once the Redis has answered: it has let this node in, and has
 * done the greeting, a command of the owner's. Until then commands are refused at
 * once. So a Redis that does not answer costs those that wait then a timeout_ms,
 * and nobody else anything.
 *
 * Of a name's addresses one is tried at a time, the next one with the next
 * attempt. The process must ignore SIGPIPE.
 *
 * Role: shell. Owns: its connection and buffers. Thread: the loop's. Limits:
 * REDIS_WAITING_MAX commands, unsent_max bytes of them, bytes_max of a reply.
 * Errors: false; an outcome that each command is told.
 */
#ifndef NODE_REDIS_H
#define NODE_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/base/sock_tls.h"
#include "node/redis/redis_place.h"
#include "node/redis/resp.h"

#define REDIS_WAITING_MAX  1024U
#define REDIS_AGAIN_MIN_MS 50U
#define REDIS_AGAIN_MAX_MS 5000U
#define REDIS_OPEN_MIN_MS  1000U /* for a connection, at least */

struct redis;

struct redis_config {
    const struct redis_place *place;   /* borrowed for its life */
    const struct redis_secret *secret; /* the same */
    uint32_t timeout_ms;
    size_t bytes_max;  /* of what a reply has */
    size_t unsent_max; /* of commands that were not taken yet */
    /* A command that must not fail: before all others, copied. */
    const struct slice *greeting;
    unsigned greeting_count;
    /* It is open, or is not any more or could not be: once, however often it is
     * tried. why is static text, "" of one that is open. May be NULL. */
    void (*changed)(void *context, bool open, const char *why);
    void *context;
};

/* A command that waits. The owner's, until its replies came. */
struct redis_call {
    /* A reply, borrowed; NULL: none comes, and none of its others. Never from
     * within redis_send(); may send. */
    void (*done)(struct redis_call *call, const struct resp *reply);
    uint32_t waits; /* replies that are to come */
};

/* Makes one that is not connected. 0 and *out, or -ENOMEM. */
int redis_new(struct redis **out, uv_loop_t *loop,
              const struct redis_config *config) MUST_CHECK;

/* For rediss: what its server must show, until the next call. Before
 * redis_open(). */
void redis_use_tls(struct redis *redis, const struct sock_tls_context *tls);

/* Connects, and keeps doing so. Repeating it is harmless. */
void redis_open(struct redis *redis);

/* Closes it; calls that wait hear nothing. Its memory goes when the loop has run
 * on. NULL is fine. */
void redis_free(struct redis *redis);

/* Whether commands may be sent. */
bool redis_is_open(const struct redis *redis);

/* Sends a command, of which all is copied. call: told its reply, or NULL. False:
 * it was not sent: away, or too many, or too much. */
bool redis_send(struct redis *redis, const struct slice *words, unsigned count,
                struct redis_call *call) MUST_CHECK;

/* The call's replies are of no interest any more. */
void redis_forget(struct redis *redis, struct redis_call *call);

#endif
