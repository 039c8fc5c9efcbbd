/*
 * GET /admin/live: what changes, as server-sent events, for the page of the
 * admin port. `status` has /admin/status every two seconds; `history` has the
 * spans of history.h: all of them first, then those that can have changed.
 *
 * Role: shell. Owns: its timer, which runs while somebody watches.
 * Thread: control. Limits: ADMIN_WATCHERS_MAX, 503 above. One who does not read
 * misses events, and gets the next whole one. Errors: HTTP statuses.
 */
#ifndef NODE_ADMIN_LIVE_H
#define NODE_ADMIN_LIVE_H

#include <stdint.h>
#include <uv.h>

#include "index/base/role.h"
#include "node/http/httpd.h"

#define ADMIN_WATCHERS_MAX 16U

struct control;

struct admin_live {
    uv_timer_t timer;
    struct httpd_request *watcher[ADMIN_WATCHERS_MAX];
    uint32_t count;
};

/* On the loop of control. */
void admin_live_init(struct control *control) ON_CONTROL;

/* No more watchers: the port is closed. Its timer ends with the loop. */
void admin_live_close(struct admin_live *live) ON_CONTROL;

/* All watchers have to come again, and to show a token that is good now. */
void admin_live_end(struct control *control) ON_CONTROL;

/* Begins the answer, which ends when the client goes or the port closes. */
void admin_live_watch(struct control *control, struct httpd_request *request)
    ON_CONTROL;

/* A client has gone, who may have been watching. */
void admin_live_gone(struct control *control,
                     const struct httpd_request *request) ON_CONTROL;

#endif
