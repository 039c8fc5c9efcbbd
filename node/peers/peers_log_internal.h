/*
 * Lines about other nodes. Each kind of line is rate-limited by itself.
 *
 * Role: shell. Owns: nothing. Thread: any. Errors: none.
 */
#ifndef NODE_PEERS_LOG_INTERNAL_H
#define NODE_PEERS_LOG_INTERNAL_H

#include <stdint.h>

#include "mesh/mesh.h"

/* Writes what happened to a member, with a hint where an operator should act.
 * */
void peers_log_member(enum member_event event,
                      const struct member_update *about);

/* Writes that the lookups of a name end with another outcome than before; a
 * warning unless it was found. */
void peers_log_news(const struct discover_out *news);

/* Writes that this side closed or refused a connection of `from`; what: the
 * details; count: how often that was so. Texts are borrowed for the call. */
void peers_log_refused(enum mesh_refusal reason, const char *from,
                       const char *what, uint64_t count);

/* Writes what became of this node's certificate: mesh_link_sink's arguments. */
void peers_log_certificate(enum mesh_certificate what, int64_t expiry_s,
                           const char *why);

#endif
