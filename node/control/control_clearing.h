/*
 * How the cache of answers is cleared: here, in the Redis that nodes share answers
 * by, and by peers. In Redis first: a node that still has an answer from there when
 * it hears of the clearing drops it then, and gets none afterwards.
 *
 * Role: shell. Owns: a connection. Thread: control. Limits: one clearing at a time
 * in Redis. Errors: what the operator is answered.
 */
#ifndef NODE_CONTROL_CLEARING_H
#define NODE_CONTROL_CLEARING_H

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/answers/answers.h"
#include "node/http/httpd.h"
#include "node/peers/hints_clears.h"
#include "node/redis/redis.h"

struct control;

/* Zero at first. */
struct control_clearing {
    struct hints_clears told;
    struct redis *redis;           /* NULL: there is none */
    struct redis_call call;        /* waits: one is under way */
    struct httpd_request *request; /* its; NULL: the client left */
    struct answers_which which;    /* the same */
    bool failed;                   /* the same */
};

/* Connects to Redis, if the node has one. 0 or -ENOMEM. */
int control_clearing_start(struct control *control) MUST_CHECK ON_CONTROL;

/* No callback comes any more; the loop runs on until it is closed. */
void control_clearing_stop(struct control_clearing *clearing);

/* POST /admin/answer_cache/clear: all, or what is of the tenant or the model, or
 * both, that the body names; here and, a moment later, on all nodes. */
void control_clearing_ask(struct control *control,
                          struct httpd_request *request) ON_CONTROL;

/* The client of that request left. */
void control_clearing_gone(struct control *control,
                           const struct httpd_request *request) ON_CONTROL;

/* There is a cache: clears what peers were told to clear. */
void control_clearing_hear(struct control *control) ON_CONTROL;

#endif
