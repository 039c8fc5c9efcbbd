/*
 * The inside of the roster, for its own files:
 *
 *   roster.c        the door: operations, peers, time, outputs
 *   roster_rows.c   the entries: order, merge, room, digest, invariants
 *   roster_own.c    what this node's configuration says
 *   roster_frame.c  entries and summaries as bytes
 *
 * There is no queue of frames. Each row has a bit for each peer that it is owed
 * to, and frames are made when they are pulled. So a row that changed twice is
 * sent once, and nothing can overflow.
 *
 * Age of tombstones. All nodes count from the removal, not from when they heard
 * of it: the age travels with the entry. In the last quarter of its life a
 * tombstone is faded: it still beats older entries and is then sent to the peer
 * that sent one, but it is in no digest and no exchange. So it does not travel
 * back and forth for ever between nodes that forget it a moment apart.
 *
 * Role: core. Thread: the roster's.
 */
#ifndef GOSSIP_ROSTER_INTERNAL_H
#define GOSSIP_ROSTER_INTERNAL_H

#include "gossip/codec_internal.h"
#include "gossip/roster.h"
#include "index/base/rng.h"

#define ROSTER_PEERS_MAX   64U /* each has a bit in roster_row.owed */
#define ROSTER_ENTRY_BYTES (ROSTER_SPEC_MAX + 128U) /* per entry, at most */

struct roster_row {
    char id[ROSTER_ID_MAX];
    uint64_t version;
    uint64_t digest;     /* of the whole entry but its age */
    uint64_t expires_us; /* removed: when it is forgotten */
    uint64_t owed;       /* bits of the peers that it must be sent to */
    uint64_t from;       /* the peer that sent it; 0: said here */
    int64_t since_us;    /* configured: when that configuration was loaded */
    char *spec;          /* owned; NULL when spec_len is 0 */
    size_t spec_len;
    bool removed;
    bool draining;
    bool faded; /* removed, and no longer in the roster's digest */
    bool told;  /* ROSTER_CHANGED has reported it */
    /* What this node's configuration says of the worker; NULL: nothing. */
    char *own;
    size_t own_len;
    int64_t own_us; /* when it was loaded */
    uint32_t bids;  /* contradictions left */
};

struct roster_peer {
    uint64_t id; /* 0: the slot is free */
    bool owed;   /* some row may be owed to this peer */
    bool ask;    /* ask the peer for its own entries */
    bool summary;
};

struct roster {
    struct roster_config config;
    struct rng rng;
    uint64_t now_us;
    struct roster_row **rows; /* sorted by id; room for entries_max */
    uint32_t count;
    uint32_t untold;
    uint64_t digest; /* XOR over the rows that are not faded */
    uint32_t digest_rows;
    uint64_t rows_due_us; /* no tombstone fades or expires before */
    uint64_t summary_us;
    struct roster_peer peers[ROSTER_PEERS_MAX];
    uint64_t up; /* bits of the peers that are up */
    uint8_t *frame;
    struct roster_stats stats;
};

enum {
    ROSTER_IS_SAME = 16, /* extends the outcomes of the door */
    ROSTER_IS_OLDER,
};

/* Sets the time, which never goes back. */
void roster_at_time(struct roster *roster, uint64_t now_us);

/* A configuration says this, not an operator. */
static inline bool
roster_is_configured(uint64_t version)
{
    return version < ROSTER_OPERATION;
}

/* Milliseconds since then, limited to what an age can hold. */
uint32_t roster_age_ms(const struct roster *roster, int64_t since_us);

/* Takes an entry that is said on this node, and owes it to all peers that are
 * up. Outcomes as of roster_rows_merge(). */
int roster_say(struct roster *roster, const struct roster_entry *entry)
    MUST_CHECK;

/* Call it when a row has changed: if this node's configuration is younger than
 * the one that the row comes from, contradicts the row. */
void roster_contradict(struct roster *roster, struct roster_row *row);

/* Whether the entry is within its bounds and plausible: 0, ROSTER_E_SIZE or
 * ROSTER_E_BAD. */
int roster_entry_check(const struct roster_entry *entry) MUST_CHECK;

/* The row of that id, or NULL. */
struct roster_row *roster_row_find(const struct roster *roster, const char *id);

/* The row as an entry, which borrows the row's texts. */
struct roster_entry roster_row_entry(const struct roster *roster,
                                     const struct roster_row *row);

/*
 * Takes a checked entry if it is newer: 0, ROSTER_IS_SAME, ROSTER_IS_OLDER,
 * ROSTER_E_BAD (its version is out of reach), ROSTER_E_FULL or -ENOMEM. The entry's texts may be the row's own.
 */
int roster_rows_merge(struct roster *roster, const struct roster_entry *entry,
                      uint64_t from) MUST_CHECK;

/* Forgets the tombstones that are due, and computes the next time. */
void roster_rows_tick(struct roster *roster);

/* Appends the entry without its age: digests are made of this. */
void roster_put_said(struct codec_out *out, const struct roster_entry *entry);

/* Makes the next frame for the peer in slot `at`: its length; 0: there is
 * none. */
size_t roster_frame_next(struct roster *roster, uint32_t at);

/* Takes a frame from the peer in slot `at`: 0 or ROSTER_E_BAD. */
int roster_frame_take(struct roster *roster, uint32_t at, struct slice bytes)
    MUST_CHECK;

#endif
