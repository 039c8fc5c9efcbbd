/*
 * msgpack, by msgpack-c: the one place that includes it.
 *
 * What is small, comes seldom and grows over time travels and is kept as
 * msgpack maps under short text keys, one map after another: a head, then one
 * for each row. So any msgpack tool reads it, a later version adds a key, and
 * an earlier one skips it. Batches of block keys and event records are not
 * packed; they stand in maps as `bin`, or outside of them (gossip's codec).
 *
 * Writing goes to a struct buf and fails as that does: everything may be
 * written and `failed` tested once.
 *
 * Reading takes bytes from anybody. Each map is scanned before the library
 * sees it: it must be whole, nest PACK_DEPTH_MAX deep at most, and have
 * PACK_ELEMENTS_MAX elements at most, counted over keys and values of all
 * levels. The library then builds its objects in memory inside struct unpack,
 * which is as large as those bounds need; nothing is allocated. Texts and bytes
 * are not copied: what is read lends from the bytes given. How long a text may
 * be, how great a number, and how many maps there may be is the caller's to
 * bound. A field that is missing is 0 or empty; one of another type or over its
 * bound makes the reading fail, and it stays failed.
 *
 * Role: core. Owns: nothing. Thread: any, one a struct. Errors: `failed`.
 * Source: github.com/msgpack/msgpack/blob/master/spec.md
 */
#ifndef INDEX_BASE_PACK_H
#define INDEX_BASE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define PACK_DEPTH_MAX    4U  /* the map itself is the first */
#define PACK_ELEMENTS_MAX 64U /* of one map */
#define PACK_PAIRS_MAX    15U /* that a struct pack_map takes */

/* Values, each in its shortest form. */
void pack_nil(struct buf *out);
void pack_bool(struct buf *out, bool value);
void pack_uint(struct buf *out, uint64_t number);
void pack_int(struct buf *out, int64_t number);

/* Always as 64 bits. */
void pack_real(struct buf *out, double number);

/* A str; should be UTF-8. Below 2^32 bytes, as with pack_bytes(). */
void pack_text(struct buf *out, struct slice text);

/* A bin. */
void pack_bytes(struct buf *out, struct slice bytes);

/* The heads; count elements, or count pairs, must follow. */
void pack_array(struct buf *out, uint32_t count);
void pack_map(struct buf *out, uint32_t count);

/* A map that counts its pairs itself. Nothing else is written to out between
 * opening and closing. */
struct pack_map {
    struct buf *out;
    size_t at; /* of the head in out */
    uint32_t pairs;
};

/* Begins a map at the end of out, which pack_close() ends. */
struct pack_map pack_open(struct buf *out);

/* One pair each, PACK_PAIRS_MAX in all; key: NUL-terminated and short, as it
 * travels each time. */
void pack_put_uint(struct pack_map *map, const char *key, uint64_t number);
void pack_put_flag(struct pack_map *map, const char *key, bool flag);
void pack_put_text(struct pack_map *map, const char *key, struct slice text);
void pack_put_bytes(struct pack_map *map, const char *key, struct slice bytes);

/* The head of a bin: len bytes must be added to out before anything else. */
void pack_put_bytes_head(struct pack_map *map, const char *key, size_t len);

/* Ends the map: writes how many pairs it has. */
void pack_close(struct pack_map *map);

/* What the library builds of a map: 24 bytes an element, and what it takes to
 * align each map and list. */
#define PACK_MEMORY (PACK_ELEMENTS_MAX * 32U)

/* A run of maps that is read. Not to be moved after the first. */
struct unpack {
    struct slice left; /* after the map that is open */
    bool failed;       /* what was read is not to be used */
    size_t pairs;      /* of the map that is open */
    const void *map;   /* the library's, in memory */
    _Alignas(8) unsigned char memory[PACK_MEMORY];
};

/* bytes are borrowed until the last use of unpack; `memory` is left as it is.
 */
void unpack_init(struct unpack *unpack, struct slice bytes);

/* Opens the next map. False when there is none: at the end, or failed because
 * something else stands there, or more than the bounds above allow. */
bool unpack_next(struct unpack *unpack) MUST_CHECK;

/* Fields of the map that is open; of two with the same key, the first. */
bool unpack_has(const struct unpack *unpack, const char *key);
uint64_t unpack_uint(struct unpack *unpack, const char *key, uint64_t max);
bool unpack_flag(struct unpack *unpack, const char *key);
/* max: bytes. It lends from the bytes given to unpack_init(). */
struct slice unpack_text(struct unpack *unpack, const char *key, size_t max);
struct slice unpack_bytes(struct unpack *unpack, const char *key, size_t max);

/* A text of printable ASCII without spaces, copied to out with a NUL after it;
 * size: of out. Fails when it does not fit. */
void unpack_word(struct unpack *unpack, const char *key, char *out,
                 size_t size);

#endif
