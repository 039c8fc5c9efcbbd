/*
 * Ownership: which members read a stream of KV events from its worker, and
 * which of them pushes what it read to the others.
 *
 * Rendezvous hashing (Thaler and Ravishankar 1998): each member's weight for
 * a stream is a hash of its name and the stream; the first `replicas` by
 * weight read it, the very first pushes. All who see the same members choose
 * alike, without a word; a member's death moves only what it owned, and the
 * next in rank reads already. Names, not boot ids: a restart moves nothing.
 *
 * Who is counted: alive and suspect members (a suspect that recovers moves
 * nothing), without those that say they cannot reach the worker.
 *
 * Handing over. Members learn of changes at different moments, so both who
 * push and who read overlap: pushed twice is harmless, not at all is a gap.
 * - Who comes to be first pushes at once.
 * - Who was first goes on pushing until it has seen the new first's delta of
 *   the stream, or until hand_over_ms passed without one and the first is well.
 * - Who falls out of the readers goes on reading, silent, by the same rule.
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

/* A member that counts, for one stream. */
struct owner_member {
    uint64_t name; /* owner_name() */
    bool suspect;
    bool unable; /* says that it cannot reach the worker */
};

/* What a name is in the hash. */
uint64_t owner_name(const char *name);

/* A member's weight for a stream; the highest is first. */
uint64_t owner_weight(uint64_t name, const struct event_stream *stream);

/*
 * Writes the members' positions in order of rank, the first `wanted` of them,
 * and returns how many there are: fewer when fewer are able. Those who cannot
 * reach the worker count only when nobody can.
 */
uint32_t owner_rank(const struct event_stream *stream,
                    const struct owner_member *members, uint32_t count,
                    uint32_t *ranked, uint32_t wanted);

/* What a member does for one stream, the less before the more. */
enum owner_role {
    OWNER_NONE,   /* lives from deltas */
    OWNER_READS,  /* reads, is silent, and would push what is missed */
    OWNER_PUSHES, /* reads, and sends to all */
};

/* All zero: nothing yet. */
struct owner {
    enum owner_role role;
    bool handing_over;     /* does more than its rank asks for */
    uint64_t hand_over_us; /* then: until when, at the latest */
};

/* How a stream stands with us. */
struct owner_view {
    uint32_t rank;     /* ours: 0 first; OWNER_NO_RANK: not among the readers */
    bool first_unwell; /* the first is suspect, or lags behind us */
};

/* The role from now on. hand_over_ms: see above. */
enum owner_role owner_update(struct owner *owner, const struct owner_view *view,
                             uint32_t hand_over_ms, uint64_t now_us);

/* A delta of the stream came from the one that is first now: what we did in
 * its place is over. */
enum owner_role owner_heard_first(struct owner *owner,
                                  const struct owner_view *view);

/* When owner_update() has something to do; UINT64_MAX: never. */
uint64_t owner_deadline(const struct owner *owner);

/* "none", "reads", "pushes". Static text. */
const char *owner_role_name(enum owner_role role);

#endif
