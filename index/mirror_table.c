/*
 * Tables: finding, entering, burying, and copying to another size.
 */
#include <errno.h>

#include "index/mirror_internal.h"

#define LINE_BYTES sizeof(struct mirror_line)

/* Shares of a table's entries, in 32nds: the most that are used before the
 * table is replaced, the share from which on mirror_work() replaces it, the
 * most that are live in a new table, and the least in one that stays. */
#define FULL_32   28
#define AHEAD_32  27
#define FRESH_32  24
#define SPARSE_32 12

/* A table of up to so many entries grows by half while memory is plentiful:
 * growing step by step would copy each entry six times. */
#define SMALL 128U

_Static_assert(LINE_BYTES == 64, "the bits that a handle uses");
_Static_assert(sizeof(struct mirror_table) <= LINE_BYTES, "one line");

void *
mirror_alloc(struct mirror *mirror, size_t bytes)
{
    size_t size = page_heap_size(bytes);

    CHECK(bytes > 0 && mirror->stats.bytes <= mirror->bytes_max);
    if (size > mirror->bytes_max - mirror->stats.bytes) {
        (void)qsbr_reclaim(mirror->qsbr);
    }
    if (size > mirror->bytes_max - mirror->stats.bytes) {
        mirror->fault = MIRROR_E_FULL;
        return NULL;
    }
    void *memory = page_heap_take(&mirror->heap, bytes);
    if (memory == NULL) {
        mirror->fault = -ENOMEM;
        return NULL;
    }
    mirror->stats.bytes += size;
    return memory;
}

void
mirror_release(struct mirror *mirror, void *memory, size_t bytes)
{
    size_t size = page_heap_size(bytes);

    CHECK(mirror->stats.bytes >= size);
    CHECK(memory != NULL);
    mirror->stats.bytes -= size;
    page_heap_give(&mirror->heap, memory, bytes);
}

static struct mirror_table *
table_of(const char *handle)
{
    CHECK_SLOW(handle != NULL);
    return (struct mirror_table *)(void *)(mirror_handle_lines(handle) - 1);
}

static uint64_t
entries_of(const struct mirror *mirror, uint32_t shard, const char *handle)
{
    return handle == NULL ? 0
                          : (uint64_t)mirror_lines(mirror, shard, handle) *
                                MIRROR_LINE_ENTRIES;
}

static const char *
table_new(struct mirror *mirror, uint32_t shard, uint32_t size)
{
    size_t bytes = page_heap_size(
        ((size_t)mirror_size_lines(mirror, shard, size) + 1) * LINE_BYTES);
    struct mirror_table *table = mirror_alloc(mirror, bytes);

    CHECK(shard < MIRROR_SHARDS && size < MIRROR_SIZES);
    if (table == NULL) {
        return NULL;
    }
    table->mirror = mirror;
    table->bytes = bytes;
    return (const char *)table + LINE_BYTES + size;
}

static void
table_free(struct qsbr_node *node)
{
    struct mirror_table *table =
        (struct mirror_table *)(void *)((char *)node -
                                        offsetof(struct mirror_table, node));
    struct mirror *mirror = table->mirror;

    CHECK(mirror->stats.bytes_retired >= table->bytes);
    mirror->stats.bytes_retired -= table->bytes;
    mirror_release(mirror, table, table->bytes);
}

/* Its size may be wrong from now on. */
static void
changed(struct mirror *mirror, enum mirror_kind kind, uint32_t shard)
{
    uint32_t table = (uint32_t)kind * MIRROR_SHARDS + shard;

    CHECK(kind < MIRROR_KINDS && shard < MIRROR_SHARDS);
    mirror->untidy[table / 64] |= UINT64_C(1) << table % 64;
}

static void
table_publish(struct mirror *mirror, enum mirror_kind kind, uint32_t shard,
              const char *handle)
{
    const char *old = mirror_handle_get(mirror, kind, shard);

    CHECK(kind < MIRROR_KINDS && shard < MIRROR_SHARDS);
    CHECK(old != handle);
    mirror->fill[kind][shard].tables++;
    changed(mirror, kind, shard);
    atomic_store_explicit(&mirror->table[kind][shard], handle,
                          memory_order_release);
    if (old != NULL) {
        struct mirror_table *table = table_of(old);
        mirror->stats.bytes_retired += table->bytes;
        qsbr_retire(mirror->qsbr, &table->node, table_free);
    }
    if (mirror->sweep.table == (uint32_t)kind * MIRROR_SHARDS + shard) {
        mirror->sweep.line = 0;
    }
}

/* The entries of a line that were never used, as bits. Written out, as in
 * line_hits(). */
static inline uint32_t
line_room(const struct mirror_line *line)
{
    return (uint32_t)(word_load(line, 0) == WORD_EMPTY) |
           (uint32_t)(word_load(line, 1) == WORD_EMPTY) << 1 |
           (uint32_t)(word_load(line, 2) == WORD_EMPTY) << 2 |
           (uint32_t)(word_load(line, 3) == WORD_EMPTY) << 3 |
           (uint32_t)(word_load(line, 4) == WORD_EMPTY) << 4;
}

#define ONE_LESS UINT32_MAX

/* One more entry that came by this line lies further on (more: 1), or one less
 * (ONE_LESS). Release: see line_past(). */
static inline void
line_pass(struct mirror_line *line, uint32_t more)
{
    uint32_t past = atomic_load_explicit(&line->past, memory_order_relaxed);

    CHECK_SLOW(more == 1 || past > 0);
    atomic_store_explicit(&line->past, past + more, memory_order_release);
}

/* The content of an entry. */
struct pair {
    uint64_t key;
    uint32_t word;
};

/* Enters a pair into a table that readers cannot see yet and that has no
 * tombs. */
static void
copy_entry(struct mirror_line *lines, uint32_t count, uint64_t hash,
           struct pair from)
{
    uint32_t at = mirror_home(hash, count);
    uint32_t room = line_room(&lines[at]);

    CHECK_SLOW(word_live(from.word));
    CHECK_SLOW(at < count);
    while (room == 0) {
        line_pass(&lines[at], 1);
        at = at + 1 < count ? at + 1 : 0;
        room = line_room(&lines[at]);
    }
    uint32_t i = (uint32_t)__builtin_ctz(room);
    atomic_store_explicit(&lines[at].key[i], from.key, memory_order_relaxed);
    atomic_store_explicit(&lines[at].word[i], from.word, memory_order_relaxed);
}

static uint64_t
hash_of(enum mirror_kind kind, uint64_t key, uint32_t word)
{
    return kind == MIRROR_HOLDERS ? mirror_hash(key)
                                  : mirror_hash_tiers(key, word_tiered(word));
}

static void
copy(const struct mirror *mirror, enum mirror_kind kind, uint32_t shard,
     const char *from, const char *to)
{
    const struct mirror_line *lines = mirror_handle_lines(from);
    uint32_t count = mirror_lines(mirror, shard, from);
    uint32_t lines_to = mirror_lines(mirror, shard, to);

    CHECK(lines_to > 0);
    for (uint32_t at = 0; at < count; at++) {
        for (uint32_t i = 0; i < MIRROR_LINE_ENTRIES; i++) {
            uint64_t key = key_load(&lines[at], i);
            uint32_t word = word_load(&lines[at], i);
            if (word_live(word)) {
                copy_entry(mirror_handle_lines(to), lines_to,
                           hash_of(kind, key, word),
                           (struct pair){.key = key, .word = word});
            }
        }
    }
}

/* The number of the size for so many live entries; MIRROR_SIZES: none is large
 * enough. */
static uint32_t
size_for(const struct mirror *mirror, uint32_t shard, uint64_t live)
{
    uint32_t size = 0;

    CHECK(shard < MIRROR_SHARDS);
    while (size < MIRROR_SIZES &&
           (uint64_t)mirror_size_lines(mirror, shard, size) *
                   MIRROR_LINE_ENTRIES * FRESH_32 / 32 <
               live) {
        size++;
    }
    return size;
}

/* Replaces a table by one for so many live entries. False: no room. */
static bool
rebuild(struct mirror *mirror, enum mirror_kind kind, uint32_t shard,
        uint64_t live)
{
    struct mirror_fill *fill = &mirror->fill[kind][shard];
    const char *old = mirror_handle_get(mirror, kind, shard);
    uint32_t size = size_for(mirror, shard, live);

    CHECK(live >= fill->live);
    if (size == MIRROR_SIZES) {
        mirror->fault = MIRROR_E_FULL;
        return false;
    }
    const char *handle = table_new(mirror, shard, size);
    if (handle == NULL) {
        return false;
    }
    if (old != NULL) {
        copy(mirror, kind, shard, old, handle);
        mirror->stats.grown += mirror_handle_size(old) < size;
    }
    fill->used = fill->live;
    table_publish(mirror, kind, shard, handle);
    return true;
}

void
mirror_reserve(struct mirror *mirror, uint32_t shard, uint64_t live)
{
    const char *handle = mirror_handle_get(mirror, MIRROR_HOLDERS, shard);
    uint64_t entries = handle == NULL ? 0 : entries_of(mirror, shard, handle);
    uint64_t had = mirror->fill[MIRROR_HOLDERS][shard].live;

    CHECK(shard < MIRROR_SHARDS);
    live += had;
    if (live > entries * FULL_32 / 32) {
        /* As full as a table gets by itself; a new one has more room. */
        live = live * FRESH_32 / FULL_32 + 1;
        (void)rebuild(mirror, MIRROR_HOLDERS, shard, live > had ? live : had);
    }
}

struct mirror_entry
mirror_find(const struct mirror *mirror, enum mirror_kind kind, uint64_t hash,
            const struct mirror_wanted *wanted, uint32_t *word)
{
    const char *handle = mirror_handle_get(mirror, kind, mirror_shard(hash));

    CHECK_SLOW(kind < MIRROR_KINDS);
    *word = WORD_EMPTY;
    return handle == NULL
               ? (struct mirror_entry){.line = NULL}
               : mirror_find_from(mirror, handle, hash, wanted, word);
}

/*
 * Whether an entry can take the key: one never used, or a tomb, its own at
 * once, another key's once no reader can be reading that. A tomb has the number
 * of its grace period modulo 2^28. That of one whose grace period has not
 * passed is one or two more than that of the last one that has (mirror.c),
 * so a young tomb is never taken for an old one; of old ones, those with two
 * numbers in 2^28 are taken for young, and stay tombs for now.
 */
static inline uint32_t
entry_usable(const struct mirror_line *line, uint32_t at, uint64_t key,
             uint32_t done)
{
    uint32_t word = word_load(line, at);
    uint32_t tomb = (word & WORD_KIND) == WORD_TOMB;
    uint32_t ahead = (word >> WORD_SHIFT) - done - 1;
    uint32_t old = (ahead & MIRROR_GRACE_MASK) >= MIRROR_GRACES;
    uint32_t same = key_load(line, at) == key;

    return (uint32_t)(word == WORD_EMPTY) | (tomb & (old | same));
}

/* Those of a line, as bits. */
static inline uint32_t
line_usable(const struct mirror_line *line, uint64_t key, uint32_t done)
{
    return entry_usable(line, 0, key, done) |
           entry_usable(line, 1, key, done) << 1 |
           entry_usable(line, 2, key, done) << 2 |
           entry_usable(line, 3, key, done) << 3 |
           entry_usable(line, 4, key, done) << 4;
}

/* The first entry that can take the key. There always is one. */
static struct mirror_entry
find_place(const struct mirror *mirror, enum mirror_kind kind, uint64_t hash,
           uint64_t key)
{
    uint32_t shard = mirror_shard(hash);
    const char *handle = mirror_handle_get(mirror, kind, shard);
    struct mirror_line *line = mirror_handle_lines(handle);
    uint32_t lines = mirror_lines(mirror, shard, handle);
    const struct mirror_fill *fill = &mirror->fill[kind][shard];
    bool tombs = fill->used > fill->live;
    uint32_t at = mirror_home(hash, lines);

    CHECK_SLOW(at < lines);
    for (;;) {
        uint32_t places =
            tombs ? line_usable(&line[at], key, (uint32_t)mirror->grace.done)
                  : line_room(&line[at]);
        if (places != 0) {
            return (struct mirror_entry){.line = &line[at],
                                         .at = (uint32_t)__builtin_ctz(places)};
        }
        at = at + 1 < lines ? at + 1 : 0;
    }
}

/* Counts an entry (more: 1), or counts it no more (ONE_LESS), in each line from
 * that of its hash up to its own. */
static void
pass(const struct mirror *mirror, enum mirror_kind kind, uint64_t hash,
     struct mirror_entry entry, uint32_t more)
{
    uint32_t shard = mirror_shard(hash);
    const char *handle = mirror_handle_get(mirror, kind, shard);
    struct mirror_line *line = mirror_handle_lines(handle);
    uint32_t lines = mirror_lines(mirror, shard, handle);
    uint32_t at = mirror_home(hash, lines);

    CHECK_SLOW(entry.line >= line && entry.line < line + lines);
    while (&line[at] != entry.line) {
        line_pass(&line[at], more);
        at = at + 1 < lines ? at + 1 : 0;
    }
}

/* Whether one more entry may be used. A table that cannot grow is filled
 * further before it refuses. */
static bool
make_room(struct mirror *mirror, enum mirror_kind kind, uint32_t shard)
{
    struct mirror_fill *fill = &mirror->fill[kind][shard];
    uint64_t entries =
        entries_of(mirror, shard, mirror_handle_get(mirror, kind, shard));

    CHECK(fill->live <= fill->used && fill->used <= entries);
    if (fill->used + 1 <= entries * FULL_32 / 32) {
        return true;
    }
    uint64_t live = (uint64_t)fill->live + 1;
    if (entries <= SMALL && mirror->stats.bytes < mirror->bytes_max / 2) {
        live += live / 2;
    }
    if (rebuild(mirror, kind, shard, live)) {
        return true;
    }
    return fill->used + 1 < entries - entries / 16;
}

bool
mirror_enter(struct mirror *mirror, enum mirror_kind kind, uint64_t hash,
             uint64_t key, uint32_t word)
{
    uint32_t shard = mirror_shard(hash);
    struct mirror_fill *fill = &mirror->fill[kind][shard];
    const char *handle = mirror_handle_get(mirror, kind, shard);
    struct mirror_entry entry = {.line = NULL};

    CHECK(word_live(word));
    if (handle != NULL) {
        entry = find_place(mirror, kind, hash, key);
    }
    if (entry.line == NULL || word_load(entry.line, entry.at) == WORD_EMPTY) {
        if (!make_room(mirror, kind, shard)) {
            return false;
        }
        if (mirror_handle_get(mirror, kind, shard) != handle) {
            entry = find_place(mirror, kind, hash, key);
        }
        fill->used += word_load(entry.line, entry.at) == WORD_EMPTY;
    }
    fill->live++;
    changed(mirror, kind, shard);
    pass(mirror, kind, hash, entry, 1);
    /* Release: a reader that sees the key sees the tomb or a later word. */
    atomic_store_explicit(&entry.line->key[entry.at], key,
                          memory_order_release);
    word_store(entry, word);
    return true;
}

void
mirror_bury(struct mirror *mirror, enum mirror_kind kind, uint32_t shard,
            struct mirror_entry entry)
{
    uint64_t key = key_load(entry.line, entry.at);
    uint32_t word = word_load(entry.line, entry.at);

    CHECK(mirror->fill[kind][shard].live > 0);
    CHECK_SLOW(word_live(word));
    word_store(entry, WORD_TOMB | (uint32_t)mirror->grace.next << WORD_SHIFT);
    pass(mirror, kind, hash_of(kind, key, word), entry, ONE_LESS);
    mirror->fill[kind][shard].live--;
    changed(mirror, kind, shard);
    mirror->grace.tombs = true;
}

uint32_t
mirror_resize(struct mirror *mirror, enum mirror_kind kind, uint32_t shard)
{
    struct mirror_fill *fill = &mirror->fill[kind][shard];
    const char *handle = mirror_handle_get(mirror, kind, shard);

    CHECK(fill->live <= fill->used);
    if (handle == NULL) {
        return 0;
    }
    uint64_t entries = entries_of(mirror, shard, handle);
    /* With few lines, a table may be sparse and the next smaller size be too
     * full. */
    bool sparse =
        fill->live == 0 || (fill->live < entries * SPARSE_32 / 32 &&
                            size_for(mirror, shard, (uint64_t)fill->live + 1) <
                                mirror_handle_size(handle));

    if (fill->used <= entries * AHEAD_32 / 32 && !sparse) {
        return 0;
    }
    if (fill->live == 0) {
        fill->used = 0;
        table_publish(mirror, kind, shard, NULL);
        return 1;
    }
    if (!rebuild(mirror, kind, shard, (uint64_t)fill->live + 1)) {
        changed(mirror, kind, shard); /* tried again later */
        return 0;
    }
    return fill->live + 1;
}

void
mirror_tables_free(struct mirror *mirror)
{
    for (uint32_t i = 0; i < MIRROR_KINDS * MIRROR_SHARDS; i++) {
        const char *handle = mirror_handle_get(
            mirror, (enum mirror_kind)(i / MIRROR_SHARDS), i % MIRROR_SHARDS);
        if (handle != NULL) {
            struct mirror_table *table = table_of(handle);
            mirror_release(mirror, table, table->bytes);
        }
    }
}
