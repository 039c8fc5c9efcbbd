/*
 * The public keys of clients' tokens: of a file, read when the node starts and
 * when its configuration is read again; or of one https URL, asked at the start,
 * each jwt.refresh, and sooner when a token comes by an unknown key. The last
 * good set stays while no better one is there. Published to lanes.
 *
 * Role: shell. Owns: the call that asks. Thread: control. Limits: those of
 * node/keys/keys_jwks.h; CONTROL_JWT_*. Errors: lines in the log, a counter.
 */
#ifndef NODE_CONTROL_JWT_H
#define NODE_CONTROL_JWT_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/http/httpc.h"
#include "node/keys/keys_jwks.h"
#include "node/route/shared.h"

#define CONTROL_JWT_TIMEOUT_MS 5000U
#define CONTROL_JWT_AGAIN_US   UINT64_C(5000000) /* between two calls, at least */

struct control_jwt {
    struct node_shared *node;
    uv_loop_t *loop;
    bool asks;          /* a URL; false: a file, or no tokens */
    struct httpc *call; /* NULL: none is open */
    uint64_t asked_us;  /* when the last one began; 0: none did */
    uint64_t due_us;    /* of the next one */
    uint64_t unknown;   /* tokens by unknown keys, as of then */
    uint64_t failures;  /* of calls */
    uint64_t version;   /* of the last set that was published */
};

/* Reads the file, or prepares to ask. 0; or -EINVAL, and the log says why.
 * node and loop outlive it. */
int control_jwt_start(struct control_jwt *jwt, struct node_shared *node,
                      uv_loop_t *loop) ON_CONTROL MUST_CHECK;

/* Reads a file anew, and changes nothing. 0 and *fresh, which is NULL where
 * there is no file and otherwise for control_jwt_publish() or keys_jwks_free();
 * or CONFIG_E_INVALID, and the errors say why. */
int control_jwt_read(const struct node_shared *node, struct keys_jwks **fresh,
                     struct config_errors *errors) ON_CONTROL MUST_CHECK;

/* Lanes go by this set from their next request on. Takes ownership; NULL is
 * fine. */
void control_jwt_publish(struct control_jwt *jwt, struct keys_jwks *fresh)
    ON_CONTROL;

/* The next look asks the URL, whatever is due. */
void control_jwt_again(struct control_jwt *jwt) ON_CONTROL;

/* Asks the URL when that is due. */
void control_jwt_look(struct control_jwt *jwt, uint64_t now_us) ON_CONTROL;

/* Asks no more. */
void control_jwt_stop(struct control_jwt *jwt) ON_CONTROL;

/* For /metrics. */
void control_jwt_put_metrics(const struct control_jwt *jwt, struct buf *out)
    ON_CONTROL;

#endif
