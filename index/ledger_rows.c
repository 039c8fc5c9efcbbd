/*
 * Rows of (entry, stream, value) in one word each: 1024 open-addressing tables
 * with linear probing, so that growing moves a 1024th of them.
 */
#include "index/ledger_internal.h"

#define SIZE_MIN 8

static uint64_t
row_key(uint32_t ref, uint32_t stream)
{
    CHECK_SLOW(ref != REF_NONE && ref <= REF_MASK &&
               stream < LEDGER_STREAMS_MAX);
    return (uint64_t)ref << STREAM_BITS | stream;
}

static uint32_t
home(uint64_t hash, uint32_t size)
{
    CHECK_SLOW(size > 0);
    return (uint32_t)((hash & UINT32_MAX) * size >> 32);
}

static const struct row_shard *
shard_of(const struct rows *rows, uint64_t hash)
{
    return &rows->shard[hash >> (64 - ROW_SHARD_BITS)];
}

/* The place of the row, or the free place where it would be. */
static uint32_t
find(const struct row_shard *shard, uint64_t key, uint64_t hash)
{
    uint32_t at = home(hash, shard->size);

    CHECK_SLOW(shard->count < shard->size);
    while (shard->row[at] != 0 && shard->row[at] >> ROW_VALUE_BITS != key) {
        at = at + 1 == shard->size ? 0 : at + 1;
    }
    return at;
}

uint32_t
ledger_rows_get(const struct rows *rows, uint32_t ref, uint32_t stream)
{
    uint64_t key = row_key(ref, stream);
    uint64_t hash = rng_mix(key);
    const struct row_shard *shard = shard_of(rows, hash);

    if (shard->count == 0) {
        return 0;
    }
    return (uint32_t)(shard->row[find(shard, key, hash)] & ROW_VALUE_MAX);
}

/* Moves the shard's rows to a table of this size. */
static bool
resize(struct ledger *l, struct row_shard *shard, uint32_t size)
{
    struct row_shard next = {
        .size = size, .count = shard->count, .claimed = shard->claimed};

    CHECK(size > shard->count + shard->claimed);
    next.row = ledger_take(l, (size_t)size * sizeof(uint64_t));
    if (next.row == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < shard->size; i++) {
        uint64_t key = shard->row[i] >> ROW_VALUE_BITS;
        if (key != 0) {
            next.row[find(&next, key, rng_mix(key))] = shard->row[i];
        }
    }
    ledger_give(l, shard->row, (size_t)shard->size * sizeof(uint64_t));
    *shard = next;
    return true;
}

/* Keeps at least a fifth of the places free. */
bool
ledger_rows_claim(struct ledger *l, struct rows *rows, uint32_t ref,
                  uint32_t stream)
{
    uint64_t hash = rng_mix(row_key(ref, stream));
    struct row_shard *shard = &rows->shard[hash >> (64 - ROW_SHARD_BITS)];
    uint64_t need = (uint64_t)shard->count + shard->claimed + 1;

    if (need * 5 > (uint64_t)shard->size * 4) {
        uint32_t size = shard->size + shard->size / 2;
        if (!resize(l, shard, size < SIZE_MIN ? SIZE_MIN : size)) {
            return false;
        }
    }
    shard->claimed++;
    rows->claimed++;
    return true;
}

void
ledger_rows_unclaim(struct rows *rows)
{
    for (uint32_t i = 0; i < ROW_SHARDS && rows->claimed != 0; i++) {
        rows->claimed -= rows->shard[i].claimed;
        rows->shard[i].claimed = 0;
    }
    CHECK(rows->claimed == 0);
}

/* Closes the gap that a removed row leaves. */
static void
close_up(struct row_shard *shard, uint32_t hole)
{
    uint32_t size = shard->size;
    uint32_t at = hole;

    CHECK(shard->row[hole] != 0);
    for (;;) {
        at = at + 1 == size ? 0 : at + 1;
        uint64_t row = shard->row[at];
        if (row == 0) {
            break;
        }
        uint32_t from = home(rng_mix(row >> ROW_VALUE_BITS), size);
        uint32_t to_here = at >= from ? at - from : at + size - from;
        uint32_t to_hole = at >= hole ? at - hole : at + size - hole;
        if (to_here >= to_hole) {
            shard->row[hole] = row;
            hole = at;
        }
    }
    shard->row[hole] = 0;
}

void
ledger_rows_put(struct rows *rows, uint32_t ref, uint32_t stream,
                uint32_t value)
{
    uint64_t key = row_key(ref, stream);
    uint64_t hash = rng_mix(key);
    struct row_shard *shard = &rows->shard[hash >> (64 - ROW_SHARD_BITS)];

    CHECK(value <= ROW_VALUE_MAX);
    if (shard->size == 0) {
        CHECK(value == 0);
        return;
    }
    uint32_t at = find(shard, key, hash);
    if (value == 0) {
        if (shard->row[at] != 0) {
            shard->count--;
            close_up(shard, at);
        }
        return;
    }
    if (shard->row[at] == 0) {
        CHECK(shard->claimed > 0);
        shard->claimed--;
        rows->claimed--;
        shard->count++;
    }
    shard->row[at] = key << ROW_VALUE_BITS | value;
}

void
ledger_rows_tidy(struct ledger *l, struct rows *rows)
{
    struct row_shard *shard = &rows->shard[rows->tidied++ % ROW_SHARDS];

    if (shard->size > SIZE_MIN && shard->count < shard->size / 4) {
        uint32_t size = shard->size / 2;
        (void)resize(l, shard, size < SIZE_MIN ? SIZE_MIN : size);
    }
}

void
ledger_rows_fini(struct ledger *l, struct rows *rows)
{
    for (uint32_t i = 0; i < ROW_SHARDS; i++) {
        ledger_give(l, rows->shard[i].row,
                    (size_t)rows->shard[i].size * sizeof(uint64_t));
    }
}

bool
ledger_rows_check(const struct rows *rows)
{
    if (rows->claimed != 0) {
        return false;
    }
    for (uint32_t i = 0; i < ROW_SHARDS; i++) {
        const struct row_shard *shard = &rows->shard[i];
        uint32_t count = 0;
        for (uint32_t at = 0; at < shard->size; at++) {
            uint64_t key = shard->row[at] >> ROW_VALUE_BITS;
            count += shard->row[at] != 0;
            if (shard->row[at] != 0 &&
                (find(shard, key, rng_mix(key)) != at ||
                 rng_mix(key) >> (64 - ROW_SHARD_BITS) != i)) {
                return false;
            }
        }
        if (count != shard->count || shard->claimed != 0) {
            return false;
        }
    }
    return true;
}
