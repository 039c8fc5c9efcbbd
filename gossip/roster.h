/*
 * The roster: which workers there are, the same on all nodes, whoever was told
 * of them.
 *
 * One entry per worker: an opaque spec (what the operator wrote: addresses,
 * labels), whether it drains, whether it was removed. An entry has a version,
 * a Lamport counter: who changes it takes one more than the highest version it
 * ever saw of it. The higher version wins; of equal ones the greater digest of
 * the whole entry, so all nodes choose alike whatever came first. Merging is
 * idempotent and order-free.
 *
 * What configuration files say has versions below ROSTER_OPERATION: whatever an
 * operator says, on any node, is newer, a removal too. Of two configurations
 * that differ about a worker the one that was loaded last holds: its age
 * travels with an entry, and a node whose own configuration is younger by
 * contradict_ms contradicts what it hears, with the next version. So a new
 * configuration spreads with the first node that is restarted with it. Clocks
 * need not agree; ages seem smaller where frames are late, never greater, so
 * that contradictions end (at ROSTER_BIDS in any case).
 *
 * A removed worker's entry stays, without
 * its spec, for tombstone_ms, so that a node that was away does not bring it
 * back; the oldest give way when entries_max is reached.
 *
 * A change is pushed to all peers at once. Every summary_ms +- jitter_ms, and
 * at peer_up(), a node sends one peer the digest of all entries; where they
 * differ, both send each other everything, in frames of frame_bytes. Who hears
 * what is older than its own says so at once.
 *
 * What a later version has to add about a worker belongs into the spec: digests
 * are of the whole entry, and must be alike on nodes one version apart.
 *
 * Grammar: as gossip.h. After each call the outputs are pulled until there are
 * none; what one points at is good until the next call.
 *
 * Role: core. Owns: the entries. Thread: one owner.
 * Limits: struct roster_config. Errors: named outcomes, -ENOMEM.
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

struct roster;

struct roster_config {
    uint32_t entries_max; /* the removed ones included */
    uint32_t peers_max;   /* 64 or less */
    uint32_t
        frame_bytes; /* no frame is longer; ROSTER_SPEC_MAX + 256 or more */
    uint32_t summary_ms;
    uint32_t jitter_ms;
    uint32_t tombstone_ms;
    uint32_t contradict_ms; /* a configuration is younger by more than that */
};

/* What a node uses unless its configuration says otherwise. */
struct roster_config roster_config_default(void);

enum {
    ROSTER_E_BAD = 1,  /* the frame is malformed: what stood before the fault
                          was taken */
    ROSTER_E_STRANGER, /* from no peer that is up: nothing was taken */
    ROSTER_E_FULL,     /* entries_max, all of them of workers that are there, or
                          peers_max */
    ROSTER_E_SIZE,     /* an id or a spec over its limit */
};

/* What is known of a worker. Texts are good until the next call. */
struct roster_entry {
    const char *id;
    uint64_t version;
    bool removed;
    bool draining;
    struct slice spec; /* empty when removed */
    uint32_t age_ms;   /* since the removal, or since the configuration that
                          says so was loaded; of operations 0 */
    uint64_t from;     /* peer that told us; 0: said here, or loaded */
};

enum roster_out_kind {
    ROSTER_SEND,    /* bytes to peer; may be lost */
    ROSTER_CHANGED, /* entry: not as it was told last. Own changes too */
};

struct roster_out {
    enum roster_out_kind kind;
    uint64_t peer;             /* SEND */
    const uint8_t *bytes;      /* SEND */
    size_t len;                /* SEND */
    struct roster_entry entry; /* CHANGED */
};

/* Makes an empty roster. now_us: any clock that does not go back. seed: of the
 * jitter. *out is owned by the caller. 0 or -ENOMEM. */
int roster_new(struct roster **out, const struct roster_config *config,
               uint64_t now_us, uint64_t seed) MUST_CHECK;

/* NULL is fine. */
void roster_free(struct roster *roster);

/* From a configuration that is loaded now; kept, so that an older one is
 * contradicted. 0, also where an operation holds, or an outcome above,
 * or -ENOMEM. */
int roster_configure(struct roster *roster, const char *id, struct slice spec,
                     uint64_t now_us) MUST_CHECK;

/* What a snapshot had, merged as if a peer had said so. 0, ROSTER_E_BAD,
 * ROSTER_E_SIZE, ROSTER_E_FULL or -ENOMEM. */
int roster_load(struct roster *roster, const struct roster_entry *entry,
                uint64_t now_us) MUST_CHECK;

/* Operations of an operator. put: adds the worker, or gives it another spec,
 * and ends its draining. Those that change nothing are no change, nor is
 * draining or removing what is not there. 0, or an outcome above, or -ENOMEM.
 */
int roster_put(struct roster *roster, const char *id, struct slice spec,
               uint64_t now_us) MUST_CHECK;
int roster_drain(struct roster *roster, const char *id, bool draining,
                 uint64_t now_us) MUST_CHECK;
int roster_remove(struct roster *roster, const char *id, uint64_t now_us)
    MUST_CHECK;

/* peer is not 0. 0, or ROSTER_E_FULL. */
int roster_peer_up(struct roster *roster, uint64_t peer, uint64_t now_us)
    MUST_CHECK;

/* The link to a peer went; one that is not up is ignored. */
void roster_peer_down(struct roster *roster, uint64_t peer);

/* 0, ROSTER_E_BAD or ROSTER_E_STRANGER; an entry there is no room or memory
 * for is counted, and comes again with the next summaries. */
int roster_recv(struct roster *roster, uint64_t peer, const uint8_t *bytes,
                size_t len, uint64_t now_us) MUST_CHECK;

/* Lets time pass up to now_us: tombstones fade, summaries go out. */
void roster_tick(struct roster *roster, uint64_t now_us);

/* When roster_tick() has something to do; UINT64_MAX: never. */
uint64_t roster_deadline(const struct roster *roster);

/* The next output; false when there is none. What it points at is good until
 * the next call. */
bool roster_next_out(struct roster *roster, struct roster_out *out) MUST_CHECK;

/* In order of ids, the removed ones included; false at the end. */
bool roster_get(const struct roster *roster, uint32_t at,
                struct roster_entry *entry) MUST_CHECK;

/* The entry of that id, the removed ones included; false: none. */
bool roster_find(const struct roster *roster, const char *id,
                 struct roster_entry *entry) MUST_CHECK;

/* Count and digest of all entries but tombstones near their end, the same on
 * nodes that know the same. */
uint64_t roster_digest(const struct roster *roster);

struct roster_stats {
    uint64_t frames_in, frames_out, bytes_in, bytes_out;
    uint64_t frames_bad, frames_stranger;
    uint64_t frames_unknown; /* of a kind of a later version: skipped */
    uint64_t merged;         /* entries that were newer */
    uint64_t stale;          /* ... that were not */
    uint64_t full;           /* ... there was no room for */
    uint64_t contradicted;   /* ... of older configurations */
    uint64_t no_memory;      /* ... or no memory */
    uint64_t summaries_equal, summaries_differ;
    uint32_t entries, removed;
};

/* The counters since roster_new(), and how many entries there are. */
void roster_stats(const struct roster *roster, struct roster_stats *stats);

/* Verifies each invariant. False: *reason says which one is broken, static
 * text. */
bool roster_check(const struct roster *roster, const char **reason);

#endif
