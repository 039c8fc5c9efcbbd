/*
 * The inside of the roster, for its own files:
 *
 *   roster.c        the door: operations, peers, time, outputs
 *   roster_rows.c   the entries: order, merge, room, digest, invariants
 *   roster_own.c    what this node's configuration says
 *   roster_frame.c  entries and summaries as bytes
 *
 * There is no queue of frames. Each row has a bit per peer that is to be sent
 * it, and frames are made when they are pulled: what changed twice meanwhile is
 * sent once, and nothing can overflow.
 *
 * Age of tombstones. All nodes count from the removal, not from when they heard
 * of it: the age travels with the entry. The last quarter of its life a
 * tombstone is faded: it still beats what is older, and is then sent to whoever
 * said that, but is in no digest and no exchange. So it does not go to and fro
 * for ever between nodes that forget it a moment apart.
 *
 * Role: core. Thread: the roster's.
 */
#ifndef GOSSIP_ROSTER_INTERNAL_H
#define GOSSIP_ROSTER_INTERNAL_H

#include "gossip/codec_internal.h"
#include "gossip/roster.h"
#include "index/base/rng.h"

#define ROSTER_PEERS_MAX   64U /* a bit of roster_row.owed each */
#define ROSTER_ENTRY_BYTES (ROSTER_SPEC_MAX + 128U) /* of one, at most */

struct roster_row {
    char id[ROSTER_ID_MAX];
    uint64_t version;
    uint64_t digest;     /* of all but the age */
    uint64_t expires_us; /* removed: when it is forgotten */
    uint64_t owed;       /* places of the peers it is to be sent to */
    uint64_t from;       /* who told us; 0: said here */
    int64_t since_us;    /* configured: when that configuration was loaded */
    char *spec;          /* owned; NULL when spec_len is 0 */
    size_t spec_len;
    bool removed;
    bool draining;
    bool faded; /* removed, and not in the roster's digest any more */
    bool told;  /* by ROSTER_CHANGED */
    /* What this node's configuration says; NULL: nothing. */
    char *own;
    size_t own_len;
    int64_t own_us; /* when it was loaded */
    uint32_t bids;  /* contradictions that are left */
};

struct roster_peer {
    uint64_t id; /* 0: the place is free */
    bool owed;   /* a row may be owed to it */
    bool ask;    /* ... and it is to send its own */
    bool summary;
};

struct roster {
    struct roster_config config;
    struct rng rng;
    uint64_t now_us;
    struct roster_row **rows; /* by id, entries_max of them */
    uint32_t count;
    uint32_t untold;
    uint64_t digest; /* of the rows that are not faded, XOR */
    uint32_t digest_rows;
    uint64_t rows_due_us; /* a tombstone fades or ends: not before */
    uint64_t summary_us;
    struct roster_peer peers[ROSTER_PEERS_MAX];
    uint64_t up; /* places of peers that are up */
    uint8_t *frame;
    struct roster_stats stats;
};

enum {
    ROSTER_IS_SAME = 16, /* beside 0, the outcomes of the door and -ENOMEM */
    ROSTER_IS_OLDER,
};

/* Time never goes back. */
void roster_at_time(struct roster *roster, uint64_t now_us);

/* It is what some configuration says, not an operator. */
static inline bool
roster_is_configured(uint64_t version)
{
    return version < ROSTER_OPERATION;
}

/* Milliseconds since then, as many as an age holds. */
uint32_t roster_age_ms(const struct roster *roster, int64_t since_us);

/* Takes an entry that is said here and owes it to all who are up. As
 * roster_rows_merge(). */
int roster_say(struct roster *roster, const struct roster_entry *entry)
    MUST_CHECK;

/* The row has changed: says what this node's configuration does where the row
 * is of an older one. */
void roster_contradict(struct roster *roster, struct roster_row *row);

/* Whether the entry is within bounds and says nothing absurd: 0,
 * ROSTER_E_SIZE or ROSTER_E_BAD. */
int roster_entry_check(const struct roster_entry *entry) MUST_CHECK;

/* The row of that id, or NULL. */
struct roster_row *roster_row_find(const struct roster *roster, const char *id);

/* What the row says; it lends its texts. */
struct roster_entry roster_row_entry(const struct roster *roster,
                                     const struct roster_row *row);

/*
 * Takes a checked entry if it is newer: 0, ROSTER_IS_SAME, ROSTER_IS_OLDER,
 * ROSTER_E_FULL or -ENOMEM. The entry's texts may be the row's own.
 */
int roster_rows_merge(struct roster *roster, const struct roster_entry *entry,
                      uint64_t from) MUST_CHECK;

/* Forgets what is due, and finds when that is the next time. */
void roster_rows_tick(struct roster *roster);

/* The entry without its age: what digests are of. */
void roster_put_said(struct codec_out *out, const struct roster_entry *entry);

/* The next frame for the peer at that place: how long it is; 0: none. */
size_t roster_frame_next(struct roster *roster, uint32_t at);

/* A frame from the peer at that place: 0 or ROSTER_E_BAD. */
int roster_frame_take(struct roster *roster, uint32_t at, struct slice bytes)
    MUST_CHECK;

#endif
