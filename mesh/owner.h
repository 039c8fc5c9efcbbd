/*
 * Ownership: which members read a stream of KV events from its worker, and
 * which of them pushes its records to the others.
 *
 * Rendezvous hashing (Thaler and Ravishankar 1998): each member's weight for a
 * stream is a hash of its name and the stream. The first `replicas` members by
 * weight read it, and the very first one pushes. Members of the worker's island
 * come before all others, so that its events cross to another island as pushes
 * alone (island_path.h). All nodes that see the same members choose alike,
 * without a message. A member's death moves only what it owned, and the next in
 * rank reads it already. The hash is of names, not boot ids, so a restart moves
 * nothing.
 *
 * Alive and suspect members count (a suspect that recovers moves nothing),
 * except those that say that they cannot reach the worker.
 *
 * Handing over. Members learn of changes at different moments, so old and new
 * owners overlap: a record that is pushed twice is harmless, one that is never
 * pushed is a gap.
 * - A member that becomes first pushes at once.
 * - A member that was first goes on pushing until it has seen the new first's
 *   delta of the stream, or until hand_over_ms passed without one and the first
 *   is well.
 * - A member that is no longer a reader goes on reading, without pushing, by
 *   the same rule.
 * - The second pushes too while the first is suspect, or lags behind what the
 *   second has read itself.
 *
 * Role: core. Owns: nothing. Thread: one owner per state. Limits: none.
 */
#ifndef MESH_OWNER_H
#define MESH_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "index/index.h"

#define OWNER_NO_RANK UINT32_MAX

/* A member that counts for one stream. */
struct owner_member {
    uint64_t name; /* owner_name() */
    uint32_t near; /* parts of its island that are the worker's, too */
    bool unable;   /* it says that it cannot reach the worker */
};

/* The name as a number for the hash. */
uint64_t owner_name(const char *name);

/* A member's weight for a stream; the highest is first. */
uint64_t owner_weight(uint64_t name, const struct event_stream *stream);

/*
 * Writes the members' positions in order of rank, the first `wanted` of them,
 * and returns how many there are: fewer when fewer are able. Members that
 * cannot reach the worker count only when no member can.
 */
uint32_t owner_rank(const struct event_stream *stream,
                    const struct owner_member *members, uint32_t count,
                    uint32_t *ranked, uint32_t wanted);

/* What a member does for one stream, in rising order. */
enum owner_role {
    OWNER_NONE,   /* applies others' deltas */
    OWNER_READS,  /* reads, is silent, and would push what is missing */
    OWNER_PUSHES, /* reads, and pushes to all */
};

/* All zero: a valid initial state. */
struct owner {
    enum owner_role role;
    bool handing_over;     /* does more than its rank requires */
    uint64_t hand_over_us; /* then: when the hand-over ends at the latest */
};

/* How this node stands to a stream. */
struct owner_view {
    uint32_t rank;     /* our rank: 0 is first; OWNER_NO_RANK: no reader */
    bool first_unwell; /* the first is suspect, or lags behind this node */
};

/* Returns the role from now on. hand_over_ms: see above. */
enum owner_role owner_update(struct owner *owner, const struct owner_view *view,
                             uint32_t hand_over_ms, uint64_t now_us);

/* A delta of the stream came from the present first: what this node did in its
 * place ends. */
enum owner_role owner_heard_first(struct owner *owner,
                                  const struct owner_view *view);

/* When owner_update() is due; UINT64_MAX: never. */
uint64_t owner_deadline(const struct owner *owner);

#endif
