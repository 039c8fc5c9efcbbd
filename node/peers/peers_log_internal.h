/*
 * Lines about other nodes. Each kind of line is rate-limited by itself.
 *
 * Role: shell. Owns: nothing. Thread: any. Errors: none.
 */
#ifndef NODE_PEERS_LOG_INTERNAL_H
#define NODE_PEERS_LOG_INTERNAL_H

#include <stdint.h>

#include "mesh/mesh.h"

/* Something happened to a member. */
void peers_log_member(enum member_event event,
                      const struct member_update *about);

/* A name's lookups end otherwise than before. */
void peers_log_news(const struct discover_out *news);

/* A connection was closed, or not made, from this side. */
void peers_log_refused(enum mesh_refusal reason, const char *from,
                       const char *what, uint64_t count);

#endif
