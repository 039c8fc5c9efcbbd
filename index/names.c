/* A table of names: 256 parts of places that are probed in order. */
#include "index/names.h"

#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"

#define SIZE_MIN 8U

static uint64_t
order_of(uint64_t name)
{
    return rng_mix(name); /* one to one */
}

static struct names_part *
part_of(struct names *names, uint64_t name)
{
    return &names->part[order_of(name) >> 56];
}

/* Where the search for a name begins. */
static uint32_t
home_of(const struct names_part *part, uint64_t name)
{
    uint64_t bits = order_of(name) >> 24 & UINT32_MAX;

    CHECK_SLOW(part->size > 0);
    return (uint32_t)(bits * part->size >> 32);
}

static uint32_t
after(const struct names_part *part, uint32_t at)
{
    return at + 1 < part->size ? at + 1 : 0;
}

/* The place of a name, or the free one where it belongs. The part has a free
 * place. */
static struct names_block *
place_of(const struct names_part *part, uint64_t name)
{
    uint32_t at = home_of(part, name);

    CHECK_SLOW(part->count < part->size);
    while (part->block[at].used && part->block[at].name != name) {
        at = after(part, at);
    }
    return &part->block[at];
}

uint64_t
names_block_digest(const struct names_block *block)
{
    uint64_t mixed = rng_mix(block->name ^ rng_mix(block->key));

    if (block->has_parent) {
        mixed = rng_mix(mixed ^ block->parent);
    }
    return rng_mix(mixed ^ block->copies);
}

static bool
is_held(const struct names_block *block)
{
    return block->copies != 0 && !block->bare;
}

/* Counts a block in, or out again. */
static void
count_in(struct names *names, const struct names_block *block)
{
    names->count += is_held(block);
    names->left += !is_held(block);
    names->digest ^= is_held(block) ? names_block_digest(block) : 0;
}

static void
count_out(struct names *names, const struct names_block *block)
{
    CHECK(is_held(block) ? names->count > 0 : names->left > 0);
    names->count -= is_held(block);
    names->left -= !is_held(block);
    names->digest ^= is_held(block) ? names_block_digest(block) : 0;
}

/* Moves the part to this many places, more than it has names. */
static bool
resize(struct names_part *part, struct names_room *room, uint32_t size)
{
    size_t bytes = size * sizeof *part->block;
    size_t before = part->size * sizeof *part->block;
    struct names_part moved = {.size = size, .count = part->count};

    CHECK(size > part->count && room->bytes >= before);
    if (bytes > before && bytes - before > room->bytes_max - room->bytes) {
        return false;
    }
    moved.block = calloc(size, sizeof *moved.block);
    if (moved.block == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < part->size; i++) {
        if (part->block[i].used) {
            *place_of(&moved, part->block[i].name) = part->block[i];
        }
    }
    free(part->block);
    room->bytes = room->bytes - before + bytes;
    *part = moved;
    return true;
}

/* At most four of five places are taken. */
static bool
make_room(struct names_part *part, struct names_room *room)
{
    if ((uint64_t)(part->count + 1) * 5 <= (uint64_t)part->size * 4) {
        return true;
    }
    uint64_t size = (uint64_t)part->size + part->size / 4 + SIZE_MIN;
    return size <= UINT32_MAX && resize(part, room, (uint32_t)size);
}

static bool
is_missing(const struct names *names, const struct names_part *part)
{
    return part - names->part >= NAMES_PARTS - (ptrdiff_t)names->missing;
}

static int
put(struct names *names, struct names_room *room,
    const struct names_block *block)
{
    struct names_part *part = part_of(names, block->name);

    if (is_missing(names, part)) {
        return 0;
    }
    if (!make_room(part, room)) {
        return NAMES_E_FULL;
    }
    struct names_block *at = place_of(part, block->name);
    if (at->used) {
        count_out(names, at);
    } else {
        part->count++;
    }
    *at = *block;
    at->used = true;
    count_in(names, at);
    return 0;
}

/* Frees a place; those behind it that were pushed on move up. */
static void
free_place(struct names_part *part, uint32_t at)
{
    uint32_t hole = at;

    CHECK(part->count > 0 && part->block[at].used);
    for (uint32_t i = after(part, at); part->block[i].used;
         i = after(part, i)) {
        uint32_t home = home_of(part, part->block[i].name);
        uint32_t to_i = (i + part->size - home) % part->size;
        uint32_t to_hole = (hole + part->size - home) % part->size;
        if (to_hole < to_i) {
            part->block[hole] = part->block[i];
            hole = i;
        }
    }
    part->block[hole] = (struct names_block){.used = false};
    part->count--;
}

const struct names_block *
names_find(const struct names *names, uint64_t name)
{
    const struct names_part *part = &names->part[order_of(name) >> 56];

    if (part->count == 0) {
        return NULL;
    }
    const struct names_block *at = place_of(part, name);
    return at->used && is_held(at) ? at : NULL;
}

static void
shrink(struct names_part *part, struct names_room *room)
{
    if (part->size > 4 * SIZE_MIN && part->count < part->size / 4) {
        (void)resize(part, room, part->size / 2);
    }
}

/* ---- words ---- */

static int
leave(struct names *names, struct names_room *room, uint64_t name)
{
    struct names_part *part = part_of(names, name);
    struct names_block gone = {.name = name};

    if (names->keeps) {
        return put(names, room, &gone);
    }
    if (part->count == 0) {
        return 0;
    }
    struct names_block *at = place_of(part, name);
    if (at->used) {
        count_out(names, at);
        free_place(part, (uint32_t)(at - part->block));
        shrink(part, room);
    }
    return 0;
}

static int
enter(struct names *names, struct names_room *room, uint64_t op,
      const uint64_t *words)
{
    bool has_parent = names_op_has_parent(op);
    uint64_t parent = has_parent ? *words++ : 0;
    int rc = 0;

    for (uint32_t i = 0; i < names_op_count(op) && rc == 0; i++) {
        struct names_block block = {.name = words[0],
                                    .key = words[1],
                                    .parent = parent,
                                    .has_parent = has_parent,
                                    .copies = NAMES_PLAIN};
        rc = put(names, room, &block);
        parent = words[1];
        has_parent = true;
        words += 2;
    }
    return rc;
}

/* Of a name that is not known, copies say something only if a page may tell the
 * rest. */
static int
set_copies(struct names *names, struct names_room *room, uint64_t name,
           uint32_t copies)
{
    struct names_part *part = part_of(names, name);
    struct names_block *at = part->count == 0 ? NULL : place_of(part, name);
    struct names_block bare = {.name = name, .copies = copies, .bare = true};

    if (at == NULL || !at->used) {
        return names->keeps ? put(names, room, &bare) : 0;
    }
    if (at->copies != 0) {
        count_out(names, at);
        at->copies = copies;
        count_in(names, at);
    }
    return 0;
}

static int
apply_op(struct names *names, struct names_room *room, uint64_t op,
         const uint64_t *words)
{
    int rc = 0;

    switch (names_op_kind(op)) {
    case NAMES_ENTER:
        return enter(names, room, op, words);
    case NAMES_COPIES:
        for (uint32_t i = 0; i < names_op_count(op) && rc == 0; i++) {
            rc = set_copies(names, room, words[i], names_op_copies(op));
        }
        return rc;
    case NAMES_LEAVE:
        for (uint32_t i = 0; i < names_op_count(op) && rc == 0; i++) {
            rc = leave(names, room, words[i]);
        }
        return rc;
    case NAMES_READER:
        names->reader_known = true;
        names->reader_count = names_op_count(op);
        memcpy(names->reader, words, names_op_count(op) * sizeof *words);
        return 0;
    case NAMES_KINDS:
        break;
    }
    return NAMES_E_BAD;
}

int
names_apply(struct names *names, struct names_room *room, const uint64_t *words,
            size_t count)
{
    int rc = 0;

    CHECK(words != NULL || count == 0);
    for (size_t at = 0; at < count && rc == 0;) {
        size_t len = names_op_words(words[at]);
        if (len == 0 || len > count - at) {
            return NAMES_E_BAD;
        }
        rc = apply_op(names, room, words[at], words + at + 1);
        at += len;
    }
    return rc;
}

void
names_clear(struct names *names, struct names_room *room)
{
    for (uint32_t i = 0; i < NAMES_PARTS; i++) {
        size_t bytes = names->part[i].size * sizeof(struct names_block);
        CHECK(room->bytes >= bytes);
        room->bytes -= bytes;
        free(names->part[i].block);
    }
    *names = (struct names){.count = 0};
}

size_t
names_bytes(const struct names *names)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < NAMES_PARTS; i++) {
        bytes += names->part[i].size * sizeof(struct names_block);
    }
    return bytes;
}

/* ---- pages ---- */

void
names_keep_left(struct names *names)
{
    names->keeps = true;
}

int
names_fill(struct names *names, struct names_room *room,
           const struct names_block *block)
{
    const struct names_part *part = part_of(names, block->name);

    CHECK(block->copies != 0);
    struct names_block filled = *block;

    if (part->count > 0 && place_of(part, block->name)->used) {
        const struct names_block *known = place_of(part, block->name);
        if (!known->bare) {
            return 0;
        }
        filled.copies = known->copies;
    }
    return put(names, room, &filled);
}

void
names_settle(struct names *names)
{
    for (uint32_t i = 0; i < NAMES_PARTS && names->left > 0; i++) {
        struct names_part *part = &names->part[i];
        for (uint32_t at = 0; at < part->size;) {
            if (part->block[at].used && !is_held(&part->block[at])) {
                count_out(names, &part->block[at]);
                free_place(part, at); /* another one may be there now */
            } else {
                at++;
            }
        }
    }
    CHECK(names->left == 0);
    names->keeps = false;
}

static int
by_order(const void *a, const void *b)
{
    uint64_t x = order_of(((const struct names_block *)a)->name);
    uint64_t y = order_of(((const struct names_block *)b)->name);

    return x < y ? -1 : x > y;
}

/* What is held of a part from `cursor` on, in order; the caller frees it. NULL:
 * no memory. */
static struct names_block *
sorted(const struct names_part *part, uint64_t cursor, uint32_t *count)
{
    struct names_block *found =
        malloc((part->count + (size_t)1) * sizeof *found);

    *count = 0;
    for (uint32_t i = 0; i < part->size && found != NULL; i++) {
        const struct names_block *block = &part->block[i];
        if (block->used && is_held(block) && order_of(block->name) >= cursor) {
            found[(*count)++] = *block;
        }
    }
    if (found != NULL) {
        qsort(found, *count, sizeof *found, by_order);
    }
    return found;
}

uint32_t
names_page(const struct names *names, uint64_t cursor, struct names_block *into,
           uint32_t max, uint64_t *next)
{
    uint32_t used = 0;

    CHECK(max > 0);
    for (uint32_t i = (uint32_t)(cursor >> 56); i < NAMES_PARTS; i++) {
        uint32_t count = 0;
        *next = i == cursor >> 56 ? cursor : (uint64_t)i << 56;
        if (used > 0 && used + names->part[i].count > max) {
            return used; /* this part begins the next page */
        }
        struct names_block *found = sorted(&names->part[i], cursor, &count);
        if (found == NULL) {
            return used;
        }
        uint32_t taken = count < max - used ? count : max - used;
        memcpy(into + used, found, taken * sizeof *into);
        used += taken;
        *next = taken < count ? order_of(found[taken].name) : NAMES_END;
        free(found);
        if (taken < count) {
            return used;
        }
    }
    *next = NAMES_END;
    return used;
}

/* ---- a twin ---- */

void
names_twin_init(struct names_twin *twin)
{
    *twin = (struct names_twin){.table = {.missing = NAMES_PARTS},
                                .room = {.bytes_max = SIZE_MAX}};
}

/* Returns its bytes. */
static size_t
copy_part(struct names_twin *twin, const struct names *table, uint32_t at)
{
    const struct names_part *from = &table->part[at];
    struct names_part *into = &twin->table.part[at];
    size_t bytes = from->size * sizeof *from->block;

    CHECK(into->block == NULL && into->count == 0);
    if (bytes > 0 && (into->block = malloc(bytes)) == NULL) {
        twin->failed = true;
        return 0;
    }
    twin->room.bytes += bytes;
    into->size = from->size;
    into->count = from->count;
    for (uint32_t i = 0; i < from->size; i++) {
        into->block[i] = from->block[i];
        if (from->block[i].used) {
            count_in(&twin->table, &from->block[i]);
        }
    }
    return bytes;
}

bool
names_twin_copy(struct names_twin *twin, const struct names *table,
                size_t bytes)
{
    size_t copied = 0;

    CHECK(!table->keeps && table->left == 0 && table->missing == 0);
    while (twin->table.missing > 0 && !twin->failed &&
           (copied == 0 || copied < bytes)) {
        copied += copy_part(twin, table, NAMES_PARTS - twin->table.missing);
        twin->table.missing--;
    }
    if (twin->table.missing > 0 && !twin->failed) {
        return false;
    }
    twin->table.reader_known = table->reader_known;
    twin->table.reader_count = table->reader_count;
    memcpy(twin->table.reader, table->reader, sizeof table->reader);
    CHECK(twin->failed || (twin->table.count == table->count &&
                           twin->table.digest == table->digest));
    return true;
}

void
names_twin_apply(struct names_twin *twin, const uint64_t *words, size_t count)
{
    if (names_apply(&twin->table, &twin->room, words, count) != 0) {
        twin->failed = true;
    }
}

uint32_t
names_take_part(struct names *names, struct names_room *room, uint32_t part,
                struct names_block *into)
{
    struct names_part *from = &names->part[part];
    size_t bytes = from->size * sizeof *from->block;
    uint32_t count = 0;

    CHECK(part < NAMES_PARTS && room->bytes >= bytes);
    for (uint32_t i = 0; i < from->size; i++) {
        if (from->block[i].used && is_held(&from->block[i])) {
            into[count++] = from->block[i];
        }
    }
    CHECK(names->count >= count);
    names->count -= count;
    room->bytes -= bytes;
    free(from->block);
    *from = (struct names_part){.size = 0};
    return count;
}

bool
names_check(const struct names *names, const char **reason)
{
    uint64_t counts[2] = {0, 0};
    uint64_t digest = 0;

    for (uint32_t i = 0; i < NAMES_PARTS; i++) {
        const struct names_part *part = &names->part[i];
        uint32_t taken = 0;
        for (uint32_t at = 0; at < part->size; at++) {
            const struct names_block *block = &part->block[at];
            if (!block->used) {
                continue;
            }
            taken++;
            counts[is_held(block)]++;
            digest ^= is_held(block) ? names_block_digest(block) : 0;
            if (place_of(part, block->name) != block ||
                order_of(block->name) >> 56 != i) {
                *reason = "a name is not where it is looked for";
                return false;
            }
        }
        if (taken != part->count) {
            *reason = "the names of a part are not counted right";
            return false;
        }
    }
    if (counts[1] != names->count || counts[0] != names->left ||
        digest != names->digest || (names->left > 0 && !names->keeps)) {
        *reason = "the names are not counted right";
        return false;
    }
    return true;
}
