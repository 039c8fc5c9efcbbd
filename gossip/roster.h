/*
 * The roster: which workers there are, the same on all nodes, whichever node
 * was told of them.
 *
 * There is one entry per worker: an opaque spec (what the operator wrote:
 * addresses, labels), whether the worker drains, and whether it was removed. An
 * entry has a version, which is a Lamport counter: whoever changes the entry
 * takes more than the highest version that it ever saw of it: one more for a
 * renewal, ROSTER_WORD more for an operator's word. The higher
 * version wins (one that is ROSTER_LEAP higher is no version: nobody could take
 * more than the last one); of equal versions the greater digest of the whole entry wins,
 * so all nodes choose alike, in whatever order the entries arrive. Merging is
 * idempotent and independent of order.
 *
 * Versions of configured entries are below ROSTER_OPERATION, so what an
 * operator says on any node is newer, removals included. If two configurations
 * differ about a worker, the one that was loaded last wins. For that, an entry
 * carries its age, and a node whose own configuration is younger than a
 * received entry by contradict_ms contradicts it, with the next version. So a
 * new configuration spreads with the first node that is restarted with it.
 * Clocks need not agree. Late frames make an age seem smaller, never greater,
 * so contradictions end (after ROSTER_BIDS in any case).
 *
 * The entry of a removed worker stays, without its spec, for tombstone_ms, so
 * that a node that was away does not bring the worker back. When entries_max is
 * reached, the oldest such entries give way.
 *
 * A change is pushed to all peers at once. Every summary_ms +- jitter_ms, and
 * at peer_up(), a node sends one peer the digest of all entries. If the digests
 * differ, both nodes send each other everything, in frames of frame_bytes. A
 * node that receives an older entry than its own sends its own back at once.
 *
 * What a later version has to add about a worker belongs in the spec: digests
 * cover the whole entry, and must be equal on nodes one version apart.
 *
 * Grammar: as in gossip.h. After each call the caller pulls outputs until there
 * are none; what an output points at is valid until the next call.
 *
 * Role: core. Owns: the entries. Thread: one owner. Limits: struct
 * roster_config. Errors: named outcomes, -ENOMEM.
 */
#ifndef GOSSIP_ROSTER_H
#define GOSSIP_ROSTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define ROSTER_ID_MAX    64U   /* of a worker's id, with its NUL */
#define ROSTER_SPEC_MAX  4096U /* bytes */
#define ROSTER_BIDS      8U    /* contradictions of one configured worker */
#define ROSTER_OPERATION (UINT64_C(1) << 32) /* operators' versions exceed it */
#define ROSTER_WORD      UINT64_C(1024) /* an operation outranks as many renewals */
#define ROSTER_LEAP      (UINT64_C(1) << 48) /* a version may rise by that */

struct roster;

struct roster_config {
    uint32_t entries_max; /* removed workers included */
    uint32_t peers_max;   /* at most 64 */
    uint32_t frame_bytes; /* longest frame; ROSTER_SPEC_MAX + 256 or more */
    uint32_t summary_ms;
    uint32_t jitter_ms;
    uint32_t tombstone_ms;
    uint32_t contradict_ms; /* by how much a configuration must be younger */
};

/* What a node uses unless its configuration says otherwise. */
struct roster_config roster_config_default(void);

enum {
    ROSTER_E_BAD = 1,  /* the frame is malformed: what stood before the fault
                          was applied; or only a version is out of reach: all
                          other entries were */
    ROSTER_E_STRANGER, /* the sender is no peer that is up: nothing was
                          applied */
    ROSTER_E_FULL,     /* entries_max is reached by workers that are not
                          removed, or peers_max is */
    ROSTER_E_SIZE,     /* an id or a spec exceeds its limit */
};

/* What is known of a worker. Texts are valid until the next call. */
struct roster_entry {
    const char *id;
    uint64_t version;
    bool removed;
    bool draining;
    struct slice spec; /* empty when removed */
    uint32_t age_ms;   /* of a removal, or since the configuration that has the
                          entry was loaded; 0 for operations */
    uint64_t from;     /* the peer that sent it; 0: said here, or loaded */
};

enum roster_out_kind {
    ROSTER_SEND,    /* send bytes to peer; may be lost */
    ROSTER_CHANGED, /* entry differs from what was last reported; local changes
                       are reported, too */
};

struct roster_out {
    enum roster_out_kind kind;
    uint64_t peer;             /* SEND */
    const uint8_t *bytes;      /* SEND */
    size_t len;                /* SEND */
    struct roster_entry entry; /* CHANGED */
};

/* Makes an empty roster. now_us: of any clock that does not go back. seed: of
 * the jitter. The caller owns *out. 0 or -ENOMEM. */
int roster_new(struct roster **out, const struct roster_config *config,
               uint64_t now_us, uint64_t seed) MUST_CHECK;

/* roster may be NULL. */
void roster_free(struct roster *roster);

/* An entry of a configuration that is loaded now. The roster keeps it, in order
 * to contradict an older configuration. 0, even where an operation outranks it,
 * or an outcome above, or -ENOMEM. */
int roster_configure(struct roster *roster, const char *id, struct slice spec,
                     uint64_t now_us) MUST_CHECK;

/* An entry of a snapshot, merged as if a peer had sent it. 0, ROSTER_E_BAD,
 * ROSTER_E_SIZE, ROSTER_E_FULL or -ENOMEM. */
int roster_load(struct roster *roster, const struct roster_entry *entry,
                uint64_t now_us) MUST_CHECK;

/* An operator's operations. put: adds the worker or changes its spec, and ends
 * its draining. An operation that changes nothing is no change; nor is draining
 * or removing an unknown worker. 0, or an outcome above, or -ENOMEM. */
int roster_put(struct roster *roster, const char *id, struct slice spec,
               uint64_t now_us) MUST_CHECK;
int roster_drain(struct roster *roster, const char *id, bool draining,
                 uint64_t now_us) MUST_CHECK;
int roster_remove(struct roster *roster, const char *id, uint64_t now_us)
    MUST_CHECK;

/* The worker tells of itself anew: as put, but draining goes on, and what an
 * operator says meanwhile on another node wins (ROSTER_WORD). */
int roster_renew(struct roster *roster, const char *id, struct slice spec,
                 uint64_t now_us) MUST_CHECK;

/* The link to a peer came up; peer is not 0. 0 or ROSTER_E_FULL. */
int roster_peer_up(struct roster *roster, uint64_t peer, uint64_t now_us)
    MUST_CHECK;

/* The link to a peer went down; a peer that is not up is ignored. */
void roster_peer_down(struct roster *roster, uint64_t peer);

/* The body of a frame from a peer. 0, ROSTER_E_BAD or ROSTER_E_STRANGER. An
 * entry without room or memory is counted, and comes again after the next
 * summaries. */
int roster_recv(struct roster *roster, uint64_t peer, const uint8_t *bytes,
                size_t len, uint64_t now_us) MUST_CHECK;

/* Lets time pass up to now_us: tombstones expire, summaries are sent. */
void roster_tick(struct roster *roster, uint64_t now_us);

/* When roster_tick() is due; UINT64_MAX: never. */
uint64_t roster_deadline(const struct roster *roster);

/* The next output; false when there is none. What *out points at is valid until
 * the next call. */
bool roster_next_out(struct roster *roster, struct roster_out *out) MUST_CHECK;

/* The at-th entry in order of ids, removed workers included; false at the
 * end. */
bool roster_get(const struct roster *roster, uint32_t at,
                struct roster_entry *entry) MUST_CHECK;

/* The entry of that id, even of a removed worker; false: there is none. */
bool roster_find(const struct roster *roster, const char *id,
                 struct roster_entry *entry) MUST_CHECK;

/* Count and digest of all entries except tombstones near their end; equal on
 * nodes that know the same. */
uint64_t roster_digest(const struct roster *roster);

struct roster_stats {
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t frames_bad, frames_stranger;
    uint64_t frames_unknown; /* of a kind that only a later version knows:
                                skipped */
    uint64_t merged;         /* entries that were newer */
    uint64_t stale;          /* entries that were not newer */
    uint64_t full;           /* entries without room */
    uint64_t contradicted;   /* entries of older configurations */
    uint64_t no_memory;      /* entries without memory */
    uint64_t summaries_equal, summaries_differ;
    uint32_t entries, removed;
};

/* The counters since roster_new(), and how many entries there are. */
void roster_stats(const struct roster *roster, struct roster_stats *stats);

/* Verifies each invariant. False: *reason says which one is broken, static
 * text. */
bool roster_check(const struct roster *roster, const char **reason);

#endif
