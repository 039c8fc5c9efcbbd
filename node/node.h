/*
 * The door of node/ for the executables that stand above it (chaos/).
 *
 * An HTTP server and client on a libuv loop, strict HTTP/1.1 heads and chunked
 * bodies, the scanner of request bodies, JSON in and out, lookups of names,
 * and the log; and the way of a request to its worker, for those who replay
 * it: what is expected, the look-up and the election; and the way of an event
 * to the mirror, and from there to a snapshot and back, for those who simulate
 * it.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "node/attempt.h"        /* IWYU pragma: export */
#include "node/expected.h"       /* IWYU pragma: export */
#include "node/fleet.h"          /* IWYU pragma: export */
#include "node/follow_gossip.h"  /* IWYU pragma: export */
#include "node/follow_reach.h"   /* IWYU pragma: export */
#include "node/http_chunk.h"     /* IWYU pragma: export */
#include "node/http_head.h"      /* IWYU pragma: export */
#include "node/httpc.h"          /* IWYU pragma: export */
#include "node/httpd.h"          /* IWYU pragma: export */
#include "node/json_out.h"       /* IWYU pragma: export */
#include "node/json_pull.h"      /* IWYU pragma: export */
#include "node/json_text.h"      /* IWYU pragma: export */
#include "node/log.h"            /* IWYU pragma: export */
#include "node/reading.h"        /* IWYU pragma: export */
#include "node/resolve.h"        /* IWYU pragma: export */
#include "node/route.h"          /* IWYU pragma: export */
#include "node/scan.h"           /* IWYU pragma: export */
#include "node/share.h"          /* IWYU pragma: export */
#include "node/snapshot_state.h" /* IWYU pragma: export */
#include "node/url.h"            /* IWYU pragma: export */

#endif
