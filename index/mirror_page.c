/*
 * What a slot holds, page by page.
 *
 * A cursor is a place among all hashes, which are the keys in another order:
 * one to one, and the same whatever table they lie in. A page goes through
 * ranges of hashes; the entries of a range lie from the line of its first hash
 * on, up to the first line after that of its last one where a search ends. So
 * a table may be replaced between two pages, and a key is on the page that its
 * hash belongs to.
 */
#include "index/mirror_internal.h"

#define SPAN_LINES  64U    /* of one range, approximately */
#define PAGE_LINES  32768U /* for one page, approximately */
#define KEY_WORDS   (2U * TIERS)
#define NARROW      4U /* so few hashes fit into any page */
#define SHARD_SHIFT 56

_Static_assert(NARROW *KEY_WORDS <= MIRROR_PAGE_MIN, "a page gets on");

struct range {
    uint64_t from;
    uint64_t to; /* the last one */
};

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
    uint32_t shard = mirror_shard(range.from);
    const char *handle = mirror_handle_get(mirror, MIRROR_HOLDERS, shard);
    uint32_t lines = handle == NULL ? 0 : mirror_lines(mirror, shard, handle);
    uint32_t first = mirror_home(range.from, lines);
    uint32_t least = mirror_home(range.to, lines) - first;

    CHECK(range.from <= range.to);
    CHECK(mirror_shard(range.from) == mirror_shard(range.to));
    for (uint32_t n = 0; n < lines && !out->failed; n++) {
        uint32_t at = first + n < lines ? first + n : first + n - lines;
        const struct mirror_line *line = &mirror_handle_lines(handle)[at];
        for (uint32_t i = 0; i < MIRROR_LINE_ENTRIES; i++) {
            uint64_t key = key_load(line, i);
            uint32_t word = word_load(line, i);
            uint64_t hash = mirror_hash(key);
            if (hash >= range.from && hash <= range.to && word_live(word) &&
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

/* The range of hashes from here on that lie in SPAN_LINES lines of one shard.
 * No range begins with the last of all hashes, because as a cursor that hash
 * stands for the end. */
static struct range
range_at(const struct mirror *mirror, uint64_t from)
{
    uint32_t shard = mirror_shard(from);
    const char *handle = mirror_handle_get(mirror, MIRROR_HOLDERS, shard);
    uint32_t lines = handle == NULL ? 0 : mirror_lines(mirror, shard, handle);
    uint64_t end = from | ((UINT64_C(1) << SHARD_SHIFT) - 1);
    uint64_t span = lines <= SPAN_LINES
                        ? UINT64_C(1) << SHARD_SHIFT
                        : (UINT64_C(1) << SHARD_SHIFT) / lines * SPAN_LINES;
    uint64_t to = end - from < span ? end : from + span - 1;

    return (struct range){.from = from,
                          .to = to == UINT64_MAX - 1 ? UINT64_MAX : to};
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
    struct range range = range_at(mirror, cursor);
    uint32_t looked = 0;

    CHECK(slot < WORKERS_MAX && mirror->slot[slot].state == SLOT_OPEN);
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
            CHECK(range.to - range.from >= NARROW);
            range.to = range.from + (range.to - range.from) / 2 - 1;
            continue;
        }
        if (range.to == UINT64_MAX) {
            return MIRROR_PAGE_END;
        }
        range = range_at(mirror, range.to + 1);
    }
    return range.from;
}
