/*
 * The part of a snapshot beside blocks: streams, workers and members, as
 * records with a length and fields. A later minor version may add fields.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: below. Errors: named
 * outcomes.
 */
#ifndef STORAGE_RECORD_H
#define STORAGE_RECORD_H

#include "index/index.h"
#include "storage/load.h"

#define STORAGE_NONE       UINT32_MAX
#define STORAGE_OPAQUE_MAX 8192U /* bytes of one opaque field */

/* One stream: whose blocks these are, and up to which position they are
 * complete. */
struct storage_stream {
    struct event_stream name;
    uint32_t slot;   /* of the mirror, or STORAGE_NONE */
    uint32_t ledger; /* stream of the ledger, or STORAGE_NONE: not read here */
    uint32_t epoch_no;
    uint64_t epoch_id;
    uint64_t epoch_name;   /* as applied to the mirror (gossip_out.name) */
    uint64_t pos;          /* of the last record that the mirror has */
    uint32_t holes;        /* or EVENT_HOLES_UNKNOWN */
    uint32_t block_tokens; /* the shape of its blocks (index/shape.h) */
    bool complete;
    bool partial;         /* the epoch began after its process's first batch */
    struct slice reading; /* the intake's own opaque data: where to continue
                             reading; empty without a ledger */
    bool named;           /* the names (index/names.h) are known as of pos */
    uint64_t names_print; /* the fingerprint of the batch that pos ends */
    uint64_t names_count;
    uint64_t names_digest;
    /* Filled in by the cut, compared when restored. */
    uint64_t blocks;
    uint64_t digest; /* mirror_slot_digest() */
    uint64_t ledger_blocks;
};

/* A worker of the roster. */
struct storage_worker {
    struct slice id;
    uint64_t version;
    bool removed;
    bool draining;
    struct slice spec;
    uint32_t age_ms; /* removed: since then; of older files: 0 */
};

/* A member of the mesh as the node knew it last. */
struct storage_member {
    struct slice name;
    struct slice address;
};

/* Appends a record; what its slices name is copied. out->failed: there was no
 * room. */
void storage_put_stream(struct buf *out, const struct storage_stream *stream);

/* As above. */
void storage_put_worker(struct buf *out, const struct storage_worker *worker);

/* As above. */
void storage_put_member(struct buf *out, const struct storage_member *member);

/*
 * The records of a part, one after another; slices are borrowed from the part.
 *   struct storage_records in = storage_records(bytes);
 *   while (storage_get_worker(&in, &worker)) ...
 *   in.failed: they were malformed
 */
struct storage_records {
    const char *at;
    size_t left;
    bool failed;
};

/* Begins to read a part, which must outlive everything read from it. */
struct storage_records storage_records(struct slice bytes);

/* The next record. False: there is none, or in->failed. */
bool storage_get_stream(struct storage_records *in,
                        struct storage_stream *stream);

/* As above. */
bool storage_get_worker(struct storage_records *in,
                        struct storage_worker *worker);

/* As above. */
bool storage_get_member(struct storage_records *in,
                        struct storage_member *member);

#endif
