/*
 * The door of node/ for the executables above it (chaos/). It offers an HTTP
 * server and client on a libuv loop, strict HTTP/1.1 heads and chunked bodies,
 * the scanner of request bodies, JSON in and out, lookups of names, and the
 * log; the way of a request to its worker (expectations, lookup, election), for
 * programs that replay it; and the way of an event to the mirror, and from
 * there to a snapshot and back, for programs that simulate it.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "node/base/file.h"              /* IWYU pragma: export */
#include "node/base/flags.h"             /* IWYU pragma: export */
#include "node/base/log.h"               /* IWYU pragma: export */
#include "node/base/sock.h"              /* IWYU pragma: export */
#include "node/control/control_limits.h" /* IWYU pragma: export */
#include "node/control/control_queue.h"  /* IWYU pragma: export */
#include "node/control/fact_sink.h"      /* IWYU pragma: export */
#include "node/control/kube_scale.h"     /* IWYU pragma: export */
#include "node/events/decoder.h"         /* IWYU pragma: export */
#include "node/fleet/fleet.h"            /* IWYU pragma: export */
#include "node/http/http_chunk.h"        /* IWYU pragma: export */
#include "node/http/http_head.h"         /* IWYU pragma: export */
#include "node/http/httpc.h"             /* IWYU pragma: export */
#include "node/http/httpd.h"             /* IWYU pragma: export */
#include "node/ingest/ingest_reach.h"    /* IWYU pragma: export */
#include "node/ingest/ingest_stream.h"   /* IWYU pragma: export */
#include "node/ingest/snapshot_state.h"  /* IWYU pragma: export */
#include "node/local/local_load.h"       /* IWYU pragma: export */
#include "node/local/local_tokens.h"     /* IWYU pragma: export */
#include "node/peers/hints.h"            /* IWYU pragma: export */
#include "node/peers/hints_speed.h"      /* IWYU pragma: export */
#include "node/peers/hub.h"              /* IWYU pragma: export */
#include "node/peers/resolve.h"          /* IWYU pragma: export */
#include "node/peers/scale_seat.h"       /* IWYU pragma: export */
#include "node/route/dispatch.h"         /* IWYU pragma: export */
#include "node/route/resume.h"           /* IWYU pragma: export */
#include "node/route/route.h"            /* IWYU pragma: export */
#include "node/scale/scale.h"            /* IWYU pragma: export */
#include "node/scale/scale_pods.h"       /* IWYU pragma: export */
#include "node/scan/scan.h"              /* IWYU pragma: export */
#include "node/text/json_out.h"          /* IWYU pragma: export */
#include "node/text/json_pull.h"         /* IWYU pragma: export */
#include "node/text/json_text.h"         /* IWYU pragma: export */
#include "node/text/sse_read.h"          /* IWYU pragma: export */
#include "node/text/url.h"               /* IWYU pragma: export */
#include "node/view/decided.h"           /* IWYU pragma: export */
#include "node/view/expectations.h"      /* IWYU pragma: export */
#include "node/view/island.h"            /* IWYU pragma: export */
#include "node/view/pool_tune.h"         /* IWYU pragma: export */
#include "node/view/speed_told.h"        /* IWYU pragma: export */

#endif
