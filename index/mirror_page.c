/*
 * What a slot holds, page by page.
 *
 * A page goes through ranges of hashes, which are the keys in another order: one
 * to one, and the same whatever table they lie in. The entries of a range lie
 * from the line of its first hash on, up to the first line after that of its
 * last one where a search ends. So a table may be replaced between two pages,
 * and a key is on the page that its hash belongs to.
 *
 * Ranges do not come in the order of hashes: who enters the keys of these pages
 * has tables that grow meanwhile, and keys in order would all gather in the
 * first part of each, one behind the other. So the hashes of each shard are cut
 * into 1 << bits strips of few blocks. One strip of all shards comes after
 * another: the first, that from the middle on, those from the quarters on. This
 * order is that of places, and a cursor is a place, a multiple of GRAIN, plus
 * the step of the bits, as which that of the first page stays.
 */
#include "index/mirror_internal.h"

#define SPAN_LINES  64U    /* of one range, approximately */
#define PAGE_LINES  32768U /* for one page, approximately */
#define STRIP_HELD  128U   /* blocks of the slot in one strip, at the most */
#define BITS_STEP   5U
#define STEPS_MAX   2U
#define KEY_WORDS   (UINT64_C(2) * TIERS)
#define GRAIN       UINT64_C(4) /* so few hashes fit into any page */
#define SHARD_SHIFT 56

_Static_assert(GRAIN *KEY_WORDS <= MIRROR_PAGE_MIN, "a page gets on");
_Static_assert(STEPS_MAX < GRAIN - 1, "no cursor is that of the end");

/* Places of one strip of one shard. */
struct range {
    uint64_t from;
    uint64_t to; /* the last one */
    uint32_t bits;
};

/* The hash at a place: in that, the number of the strip with its bits in reverse
 * order comes before that of the shard. */
static uint64_t
hash_at(uint64_t place, uint32_t bits)
{
    uint64_t strip = UINT64_C(1) << (SHARD_SHIFT - bits);
    uint64_t hash =
        (place / strip % MIRROR_SHARDS) << SHARD_SHIFT | place % strip;

    CHECK_SLOW(bits <= STEPS_MAX * BITS_STEP);
    for (uint32_t i = 0; i < bits; i++) {
        hash += (place >> (63 - i) & 1) * (strip << i);
    }
    return hash;
}

static void
put_block(const struct mirror *mirror, uint32_t slot, uint64_t key,
          struct event_words *out)
{
    uint64_t tiers = mirror_tiers_of(mirror, slot, key);

    CHECK(tiers != 0);
    for (enum tier tier = TIER_DEVICE; tier < TIERS; tier++) {
        if ((tiers >> tier & 1) != 0) {
            uint64_t *at = event_words_add(out, EVENT_STORE, tier, 1);
            if (at != NULL) {
                *at = key;
            }
        }
    }
}

/* Appends a range, and returns how many lines it looked at. out->failed: the
 * range does not fit. */
static uint32_t
put_range(const struct mirror *mirror, uint32_t slot, struct range range,
          struct event_words *out)
{
    uint64_t from = hash_at(range.from, range.bits);
    uint64_t to = hash_at(range.to, range.bits);
    uint32_t shard = mirror_shard(from);
    const char *handle = mirror_handle_get(mirror, MIRROR_HOLDERS, shard);
    uint32_t lines = handle == NULL ? 0 : mirror_lines(mirror, shard, handle);
    uint32_t first = mirror_home(from, lines);
    uint32_t least = mirror_home(to, lines) - first;

    CHECK(from <= to && to - from == range.to - range.from);
    CHECK(mirror_shard(from) == mirror_shard(to));
    for (uint32_t n = 0; n < lines && !out->failed; n++) {
        uint32_t at = first + n < lines ? first + n : first + n - lines;
        const struct mirror_line *line = &mirror_handle_lines(handle)[at];
        for (uint32_t i = 0; i < MIRROR_LINE_ENTRIES; i++) {
            uint64_t key = key_load(line, i);
            uint32_t word = word_load(line, i);
            uint64_t hash = mirror_hash(key);
            if (hash >= from && hash <= to && word_live(word) &&
                mirror_word_has(mirror, word, slot)) {
                put_block(mirror, slot, key, out);
            }
        }
        if (n >= least && line_past(line) == 0) {
            return n + 1;
        }
    }
    return lines + 1;
}

/* The step of a cursor; at the beginning, as many strips as the slot wants. */
static uint32_t
step_of(const struct mirror *mirror, uint32_t slot, uint64_t cursor)
{
    uint64_t held = mirror->slot[slot].held / MIRROR_SHARDS;
    uint32_t step = (uint32_t)(cursor % GRAIN);

    CHECK_SLOW(slot < WORKERS_MAX);
    if (cursor != 0) {
        return step < STEPS_MAX ? step : STEPS_MAX;
    }
    while (step < STEPS_MAX && held >> (step * BITS_STEP) > STRIP_HELD) {
        step++;
    }
    return step;
}

/* The range from here on whose hashes lie in SPAN_LINES lines of one strip. */
static struct range
range_at(const struct mirror *mirror, uint64_t from, uint32_t bits)
{
    uint32_t shard = mirror_shard(hash_at(from, bits));
    const char *handle = mirror_handle_get(mirror, MIRROR_HOLDERS, shard);
    uint32_t lines = handle == NULL ? 0 : mirror_lines(mirror, shard, handle);
    uint64_t end = from | ((UINT64_C(1) << (SHARD_SHIFT - bits)) - 1);
    uint64_t span = lines <= SPAN_LINES ? UINT64_C(1) << SHARD_SHIFT
                                        : (UINT64_C(1) << SHARD_SHIFT) / lines /
                                              GRAIN * GRAIN * SPAN_LINES;

    CHECK(from % GRAIN == 0);
    return (struct range){.from = from,
                          .to = end - from < span ? end : from + span - 1,
                          .bits = bits};
}

/* Takes back the words since `was`; the last head before it was `head`. */
static void
undo(struct event_words *out, const struct event_words *was, uint64_t head)
{
    CHECK(out->failed && was->count <= out->max);
    *out = *was;
    if (out->count > 0) {
        out->words[out->last] = head;
    }
}

uint64_t
mirror_page(const struct mirror *mirror, uint32_t slot, uint64_t cursor,
            struct event_words *out)
{
    CHECK(slot < WORKERS_MAX);
    uint32_t step = step_of(mirror, slot, cursor);
    uint32_t bits = step * BITS_STEP;
    struct range range = range_at(mirror, cursor / GRAIN * GRAIN, bits);
    uint32_t looked = 0;

    CHECK(mirror->slot[slot].state == SLOT_OPEN);
    CHECK(out->count == 0 && !out->failed && out->max >= MIRROR_PAGE_MIN);
    while (looked < PAGE_LINES) {
        const struct event_words was = *out;
        uint64_t head = out->count > 0 ? out->words[out->last] : 0;
        looked += put_range(mirror, slot, range, out);
        if (out->failed) {
            undo(out, &was, head);
            if (out->count > 0) {
                break;
            }
            uint64_t grains = (range.to - range.from) / GRAIN + 1;
            CHECK(grains > 1);
            range.to = range.from + grains / 2 * GRAIN - 1;
            continue;
        }
        if (range.to == UINT64_MAX) {
            return MIRROR_PAGE_END;
        }
        range = range_at(mirror, range.to + 1, bits);
    }
    return range.from + step;
}
