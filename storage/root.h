/*
 * The root record of a snapshot: what the snapshot is of, and its parts, each
 * with size and digest. A part counts only if a root names it. So a snapshot
 * exists as a whole from the commit that writes its root.
 *
 *   u64 magic, u32 major, u32 minor, little endian and the same in every
 *   version; then a msgpack map (index/base/pack.h); then a u64 digest of
 *   everything before it. The keys of the map are the names below; rows is a
 *   bin of u64 key, u64 size, u64 digest each, little endian.
 *
 * A later minor version may add keys, which are skipped. Another major version
 * is refused by its number; version 1 had no msgpack.
 *
 * Role: core. Owns: rows. Thread: one owner. Limits: STORAGE_ROWS_MAX,
 * STORAGE_TEXT_MAX. Errors: named outcomes.
 */
#ifndef STORAGE_ROOT_H
#define STORAGE_ROOT_H

#include "index/base/buf.h"
#include "storage/io.h"

#define STORAGE_MAGIC    UINT64_C(0x3130504E5356414B) /* "KAVSNP01" */
#define STORAGE_MAJOR    2U
#define STORAGE_MINOR    2U /* 1: with names; 2: with what was learned */
#define STORAGE_ROWS_MAX (UINT32_C(1) << 20)
#define STORAGE_TEXT_MAX 256U /* of a cluster's or a node's name, its NUL too */
#define STORAGE_ROOT_KEY UINT64_C(0)

enum storage_kind {
    STORAGE_MIRROR = 1,
    STORAGE_MIRROR_JOURNAL,
    STORAGE_LEDGER,
    STORAGE_LEDGER_JOURNAL,
    STORAGE_BELIEF,
    STORAGE_STREAMS,
    STORAGE_ROSTER,
    STORAGE_MEMBERS,
    STORAGE_BELIEF_WORKERS,
    STORAGE_NAMES,
    STORAGE_NAMES_JOURNAL,
    STORAGE_LEARNED,
    STORAGE_KINDS,
};

/* A part in a file: its kind, its number, and in which snapshot of the file it
 * was written. The root has key 0. */
#define STORAGE_NUMBER_BITS  32
#define STORAGE_VERSION_BITS 24
#define STORAGE_VERSION_MAX  ((UINT32_C(1) << STORAGE_VERSION_BITS) - 1)

/* The key of a part; number is below STORAGE_ROWS_MAX. */
static inline uint64_t
storage_key(enum storage_kind kind, uint32_t number, uint32_t version)
{
    CHECK(kind > 0 && kind < STORAGE_KINDS && version <= STORAGE_VERSION_MAX);
    return (uint64_t)kind << (STORAGE_NUMBER_BITS + STORAGE_VERSION_BITS) |
           (uint64_t)number << STORAGE_VERSION_BITS | version;
}

/* The kind in a key; of a key from disk it may be none. */
static inline uint32_t
storage_key_kind(uint64_t key)
{
    return (uint32_t)(key >> (STORAGE_NUMBER_BITS + STORAGE_VERSION_BITS));
}

/* The number in a key. */
static inline uint32_t
storage_key_number(uint64_t key)
{
    return (uint32_t)(key >> STORAGE_VERSION_BITS);
}

struct storage_row {
    uint64_t key;
    uint64_t size; /* bytes */
    uint64_t digest;
};

struct storage_root {
    uint32_t major;
    uint32_t minor;
    uint64_t generation; /* of the file: one more with each process life */
    uint64_t number;     /* of the snapshot in it */
    uint64_t taken_ms;   /* Unix time */
    uint64_t blocks;     /* (stream, block) pairs held */
    uint64_t ledger_blocks;
    uint32_t streams;
    char cluster[STORAGE_TEXT_MAX];
    char node[STORAGE_TEXT_MAX];
    struct storage_row *rows; /* rising by key */
    uint32_t rows_count;
};

/* Appends the record; out->failed when there is no room. */
void storage_root_encode(const struct storage_root *root, struct buf *out);

/*
 * Reads a record. 0: the caller frees the rows with storage_root_fini().
 * Otherwise STORAGE_E_CORRUPT; _VERSION (major and minor are set); _MEMORY.
 */
enum storage_outcome storage_root_decode(struct storage_root *root,
                                         struct slice bytes) MUST_CHECK;

/* Frees the rows. A root of zeros is fine. */
void storage_root_fini(struct storage_root *root);

/* The row of a part, or NULL. Numbers count from 0 without gaps, except for the
 * mirror and the ledger. */
const struct storage_row *storage_root_find(const struct storage_root *root,
                                            enum storage_kind kind,
                                            uint32_t number);

#endif
