/*
 * Large bodies, which are read in pieces, so that the lane's other requests wait
 * for one piece and not for all: a turn of the loop scans the body, each one
 * after it makes keys of a piece, and what has come for others meanwhile is
 * served between two. One body at a time; the others of the lane wait, as they
 * would if it were read at once.
 *
 * A client whose body is read so is busy and has no exchange yet: who closes it
 * takes it off the line, and nothing else knows of it. Its socket is not read
 * meanwhile, so an end that came behind the request shows when it is served.
 *
 * Role: shell, private to node/edge. Thread: the client's lane. Limits: a client
 * is in the line at most once; memory for one body's spans and keys, got when the
 * lane begins.
 */
#ifndef NODE_EDGE_READING_INTERNAL_H
#define NODE_EDGE_READING_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "index/base/role.h"
#include "node/base/list.h"
#include "node/route/route.h"

struct client;
struct exchange;
struct lane;

/* Of a lane: clients whose bodies are read, one after the other. */
struct edge_reading {
    uv_idle_t piece; /* while there are any: the next one of the first body */
    struct list_link line;
    struct route_ahead ahead;
    bool begun;            /* with the first one's */
    uint64_t live_version; /* by which it was scanned */
};

/* Makes the lane's memory for it: 0, or -errno. */
int reading_lane_init(struct lane *lane) MUST_CHECK;
/* No client is left; the loop runs on for a while. */
void reading_lane_close(struct lane *lane) ON_LANE;
/* Frees what reading_lane_init() made. */
void reading_lane_fini(struct lane *lane);
/* Whether the request that the lane's head is of, and that is whole, is so large
 * that it is read in pieces: request_serve() follows then, unless the client is
 * closed before. */
bool reading_begin(struct client *client) ON_LANE MUST_CHECK;
/* The client is closed: its body is read no further. */
void reading_drop(struct client *client) ON_LANE;
/* Reads x's body into the scratch, or takes it from where it was read in pieces:
 * as route_read(). */
int reading_take(struct exchange *x) ON_LANE MUST_CHECK;

#endif
