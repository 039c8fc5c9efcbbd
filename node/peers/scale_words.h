/*
 * What nodes tell each other for the lease (scale_lease.h): a word, and the
 * digest of their list of workers, among the gauges that gossip carries; and of
 * each worker that was asked for, whether it takes requests of theirs. Nodes of
 * earlier versions keep such rows as those of a worker that they do not have.
 * All that a node told is gone when it is.
 *
 * Role: core. Owns: nothing. Thread: control. Limits: SCALE_VOTERS_MAX. Errors:
 * false; a row without room is told by the next call.
 */
#ifndef NODE_SCALE_WORDS_H
#define NODE_SCALE_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "mesh/mesh.h"
#include "node/scale/scale_lease.h"

/* All that is heard of the others, and this node's place. */
struct scale_words {
    struct scale_voter voter[SCALE_VOTERS_MAX];
    uint32_t count;
    uint64_t digest; /* of this node's list */
    bool all_know;   /* all members have that list, but for those that left */
    bool first;      /* this node comes first of the living, by rendezvous */
    char actor[MEMBER_NAME_MAX]; /* who does */
};

/* Tells peers this node's word and the digest of its list. */
void scale_words_tell(struct cluster *cluster, const struct scale_word *word,
                      uint64_t now_us);

/* What they told. */
void scale_words_hear(struct cluster *cluster, struct scale_words *words);

/* Tells peers whether that worker takes requests of this node. False: there is
 * no room. */
bool scale_words_tell_reach(struct cluster *cluster, const char *worker,
                            bool reaches, uint64_t now_us) MUST_CHECK;

/* Whether some peer told so. */
bool scale_words_hear_reach(struct cluster *cluster, const char *worker);

#endif
