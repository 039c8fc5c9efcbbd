/*
 * gRPC's own health checking (grpc.health.v1.Health/Check): a message with the
 * name of a service, and one that says whether it is served.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef NODE_GRPC_HEALTH_H
#define NODE_GRPC_HEALTH_H

#include <stdbool.h>

#include "index/base/buf.h"
#include "index/base/slice.h"

/* Which service a question is about; empty: the whole server, or it is none. */
struct slice grpc_health_service(struct slice message);

/* Appends the answer, framed. */
void grpc_health_put(struct buf *out, bool serves);

#endif
