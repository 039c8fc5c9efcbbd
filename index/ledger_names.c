/*
 * Entries by name: 1024 open-addressing tables of lines, so that growing moves a
 * 1024th of them. What a line keeps of a name says where it belongs in a table
 * of any size, so moving reads and writes the lines alone, in their order.
 */
#include "index/ledger_internal.h"

#define LINE_BYTES sizeof(struct name_line)
#define FULL_32    28 /* of a table's slots, in 32nds: used before it grows */
#define SPARSE     4  /* a table is too large when a 4th of it would do */

/* Tables of up to so many lines grow in steps that differ: keys come to all
 * alike, and so they do not all grow at the same time later on. */
#define SMALL 64U

static uint64_t
slots_of(const struct name_shard *shard)
{
    return (uint64_t)shard->lines * NAME_SLOTS;
}

/* Whether a table of so many lines is not too full for so many names. */
static bool
has_room(uint64_t lines, uint64_t used)
{
    return used * 32 <= lines * NAME_SLOTS * FULL_32;
}

/* The slots of a line with this number (REF_NONE: the free ones), as bits. As
 * in name_hits(), all are compared. */
static inline uint32_t
slots_with(const struct name_line *line, uint32_t ref)
{
    uint32_t hits = 0;
    uint32_t i = 0;

#ifdef __SSE2__
    for (; i < 8; i += 4) {
        __m128i four =
            _mm_and_si128(_mm_load_si128((const void *)&line->slot[i]),
                          _mm_set1_epi32((int32_t)REF_MASK));
        __m128i same = _mm_cmpeq_epi32(four, _mm_set1_epi32((int32_t)ref));
        hits |= (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(same)) << i;
    }
#endif
    for (; i < NAME_SLOTS; i++) {
        hits |= (uint32_t)((line->slot[i] & REF_MASK) == ref) << i;
    }
    return hits;
}

static uint32_t
line_after(const struct name_shard *shard, uint32_t at)
{
    CHECK_SLOW(at < shard->lines);
    return at + 1 < shard->lines ? at + 1 : 0;
}

/* The bits of its name's hash that a slot keeps. */
static uint32_t
part_of(const struct name_line *line, uint32_t slot)
{
    return line->slot[slot] >> REF_BITS << NAME_TAG_BITS | line->tag[slot];
}

/* Puts a number into the first free slot from its line on. There is one. */
static void
place(struct name_shard *shard, uint32_t ref, uint32_t part)
{
    uint32_t at = name_home(part, shard->lines);

    CHECK_SLOW(ref != REF_NONE && ref <= REF_MASK);
    for (;;) {
        struct name_line *line = &shard->line[at];
        uint32_t room = slots_with(line, REF_NONE);
        if (room != 0) {
            uint32_t i = (uint32_t)__builtin_ctz(room);
            line->slot[i] = ref | part >> NAME_TAG_BITS << REF_BITS;
            line->tag[i] = (uint16_t)part;
            return;
        }
        line->past++;
        at = line_after(shard, at);
    }
}

static void
give(struct ledger *l, const struct name_shard *shard)
{
    ledger_give(l, shard->line, (size_t)shard->lines * LINE_BYTES);
}

/* Moves the shard's names to a table of so many lines. */
static bool
resize(struct ledger *l, struct name_shard *shard, uint32_t lines)
{
    struct name_shard next = {.lines = lines, .used = shard->used};

    CHECK(slots_of(&next) > shard->used);
    next.line = ledger_take(l, (size_t)lines * LINE_BYTES);
    if (next.line == NULL) {
        return false;
    }
    for (uint32_t at = 0; at < shard->lines; at++) {
        const struct name_line *line = &shard->line[at];
        for (uint32_t i = 0; i < NAME_SLOTS; i++) {
            uint32_t ref = line->slot[i] & REF_MASK;
            if (ref != REF_NONE) {
                place(&next, ref, part_of(line, i));
            }
        }
    }
    give(l, shard);
    *shard = next;
    return true;
}

/* Whether one more name may be entered. A table that cannot grow is filled
 * further before it refuses. */
static bool
make_room(struct ledger *l, struct name_shard *shard)
{
    uint32_t number = (uint32_t)(shard - l->names.shard);
    uint32_t lines = shard->lines;

    CHECK(number < NAME_SHARDS && shard->used <= slots_of(shard));
    if (has_room(lines, (uint64_t)shard->used + 1)) {
        return true;
    }
    lines += 1 + lines / 4;
    lines += lines < SMALL ? lines * number / NAME_SHARDS / 2 : 0;
    return resize(l, shard, lines) ||
           shard->used + 1 < slots_of(shard) - slots_of(shard) / 16;
}

bool
ledger_names_insert(struct ledger *l, uint32_t ref)
{
    uint64_t hash = rng_mix(entry_at(l, ref)->name);
    struct name_shard *shard = &l->names.shard[name_shard(hash)];

    CHECK(ref != REF_NONE);
    if (!make_room(l, shard)) {
        return false;
    }
    place(shard, ref, name_part(hash));
    shard->used++;
    return true;
}

/* The slots of a line whose names came by the line `on` lines before it, as
 * bits. All are compared, as in name_hits(). */
static uint32_t
slots_past(const struct name_shard *shard, uint32_t at, uint32_t on)
{
    const struct name_line *line = &shard->line[at];
    uint32_t hits = 0;

    CHECK_SLOW(on > 0 && on < shard->lines);
    for (uint32_t i = 0; i < NAME_SLOTS; i++) {
        uint32_t home = name_home(part_of(line, i), shard->lines);
        uint32_t from = at >= home ? at - home : at + shard->lines - home;
        hits |= (uint32_t)(from >= on) << i;
    }
    return hits & ~slots_with(line, REF_NONE);
}

/*
 * Fills a slot that became free by a name that lies further on since there was
 * no room. Otherwise those that come and go drive each other ever further from
 * their lines: in a table that is 80 % full, a new name would have 12 lines to
 * look at; so it has 2.1, and 1.7 if the slot of the one that moves were filled
 * as well, and so on.
 */
static void
close_up(struct name_shard *shard, uint32_t at, uint32_t slot)
{
    struct name_line *hole = &shard->line[at];
    uint32_t on = 0;
    uint32_t hits = 0;

    CHECK_SLOW((hole->slot[slot] & REF_MASK) == REF_NONE);
    if (hole->past == 0) {
        return;
    }
    for (; hits == 0; hits = slots_past(shard, at, on)) {
        CHECK(shard->line[at].past > 0);
        shard->line[at].past--;
        at = line_after(shard, at);
        on++;
    }
    struct name_line *line = &shard->line[at];
    uint32_t i = (uint32_t)__builtin_ctz(hits);
    hole->slot[slot] = line->slot[i];
    hole->tag[slot] = line->tag[i];
    line->slot[i] = REF_NONE;
}

void
ledger_names_remove(struct ledger *l, uint32_t ref)
{
    uint64_t hash = rng_mix(entry_at(l, ref)->name);
    struct name_shard *shard = &l->names.shard[name_shard(hash)];

    CHECK(shard->used > 0);
    for (uint32_t at = name_home(name_part(hash), shard->lines);;) {
        struct name_line *line = &shard->line[at];
        uint32_t hits = slots_with(line, ref);
        if (hits != 0) {
            line->slot[__builtin_ctz(hits)] = REF_NONE;
            shard->used--;
            close_up(shard, at, (uint32_t)__builtin_ctz(hits));
            return;
        }
        CHECK(line->past > 0);
        line->past--;
        at = line_after(shard, at);
    }
}

void
ledger_names_tidy(struct ledger *l)
{
    struct name_shard *shard = &l->names.shard[l->names.tidied++ % NAME_SHARDS];

    if (shard->lines > 1 &&
        has_room(shard->lines / SPARSE, (uint64_t)shard->used + 1)) {
        (void)resize(l, shard, shard->lines / 2);
    }
}

void
ledger_names_fini(struct ledger *l)
{
    for (uint32_t i = 0; i < NAME_SHARDS; i++) {
        give(l, &l->names.shard[i]);
    }
}

uint32_t
ledger_held(const struct ledger *l, uint32_t stream, uint64_t name)
{
    struct name_walk walk = name_walk(&l->names, name);
    uint32_t ref;

    CHECK(stream < LEDGER_STREAMS_MAX);
    while ((ref = name_next(&walk)) != REF_NONE) {
        const struct entry *entry = entry_at(l, ref);
        if (entry->name == name && holders_has(l, entry->holders, stream)) {
            return ref;
        }
    }
    return REF_NONE;
}

/* ---- many at a time ---- */

/* The line where a name belongs, NULL when its table is empty. */
static const struct name_line *
home_line(const struct name_table *names, uint64_t name)
{
    uint64_t hash = rng_mix(name);
    const struct name_shard *shard = &names->shard[name_shard(hash)];

    return shard->lines == 0
               ? NULL
               : &shard->line[name_home(name_part(hash), shard->lines)];
}

/* First the lines, then the entries that they name, and the next lines where
 * some names lie further on. */
static void
prefetch_group(const struct ledger *l, const uint64_t *names, uint32_t count)
{
    CHECK(count <= NAMES_GROUP);
    /* Otherwise gcc drops the calls of a function without an effect. */
    __asm__ volatile("" ::: "memory");
    for (uint32_t i = 0; i < count; i++) {
        __builtin_prefetch(home_line(&l->names, names[i]), 1);
    }
    for (uint32_t i = 0; i < count; i++) {
        struct name_walk walk = name_walk(&l->names, names[i]);
        if (walk.lines > 0 && walk.line[walk.at].past > 0) {
            __builtin_prefetch(&walk.line[walk.at] + 1, 1);
        }
        walk.further = 0;
        uint32_t ref = name_next(&walk);
        if (ref != REF_NONE) { /* it may begin in one cache line and end in
                                  the next */
            const struct entry *entry = entry_at(l, ref);
            __builtin_prefetch(entry, 1);
            __builtin_prefetch((const char *)(entry + 1) - 1, 1);
        }
    }
}

void
ledger_prefetch(const struct ledger *ledger, const uint64_t *hashes,
                uint32_t count)
{
    for (uint32_t i = 0; i < count; i += NAMES_GROUP) {
        uint32_t left = count - i;
        prefetch_group(ledger, hashes + i,
                       left < NAMES_GROUP ? left : NAMES_GROUP);
    }
}

int
ledger_names_reserve(struct ledger *l)
{
    uint32_t lines = l->entries.used / NAME_SHARDS / NAME_SLOTS * 32 / FULL_32;

    for (uint32_t i = 0; i < NAME_SHARDS && lines > 0; i++) {
        CHECK(l->names.shard[i].used == 0);
        if (!resize(l, &l->names.shard[i], lines)) {
            return l->refusal;
        }
    }
    return 0;
}

void
ledger_names_fetch(const struct ledger *l, uint64_t name)
{
    __asm__ volatile("" ::: "memory"); /* as above */
    __builtin_prefetch(home_line(&l->names, name), 1);
}
