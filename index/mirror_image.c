/*
 * The mirror's shards as words, and back: for snapshots.
 *
 * A block is its key, a head whose low four bits say who holds it, and what
 * the head announces:
 *   1 to 6   so many slots, of ten bits each, from bit 4 up; in the device
 *   7        a bitmap, of as many words as bits 32 and up say; in the device
 *   8        so many holders, a word each: slot, tiers from bit 16 up
 */

#include "index/mirror_internal.h"

#define IMAGE_TAG          UINT64_C(15)
#define IMAGE_INLINE       6U
#define IMAGE_BITMAP       7U
#define IMAGE_LIST         8U
#define IMAGE_SLOTS_SHIFT  4
#define IMAGE_COUNT_SHIFT  32
#define IMAGE_TIERS_SHIFT  16
#define IMAGE_BITMAP_WORDS 64 /* more are refused */

void
mirror_watch(struct mirror *mirror, struct watch *watch)
{
    CHECK(watch == NULL || watch->parts_max == MIRROR_SHARDS);
    mirror->watch = watch;
}

uint32_t
mirror_parts(void)
{
    return MIRROR_SHARDS;
}

/* ---- to words ---- */

static struct worker_set
open_slots(const struct mirror *mirror)
{
    struct worker_set set = {.word = {0}};

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (mirror->slot[slot].state == SLOT_OPEN) {
            worker_set_add(&set, slot);
        }
    }
    return set;
}

static void
put_list(const struct mirror *mirror, uint64_t key,
         const struct worker_set *set, struct words *out)
{
    uint32_t count = worker_set_count(set);

    CHECK(!worker_set_empty(set));
    words_push(out, IMAGE_LIST | (uint64_t)count << IMAGE_COUNT_SHIFT);
    WORKER_SET_EACH (slot, set) {
        words_push(out, slot | mirror_tiers_of(mirror, slot, key)
                                   << IMAGE_TIERS_SHIFT);
    }
}

static void
put_set(const struct worker_set *set, struct words *out)
{
    uint32_t count = worker_set_count(set);
    uint64_t head = count;
    uint32_t i = 0;

    CHECK(count > 0);
    if (count > IMAGE_INLINE) {
        words_push(out,
                   IMAGE_BITMAP | (uint64_t)WORKER_WORDS << IMAGE_COUNT_SHIFT);
        for (i = 0; i < WORKER_WORDS; i++) {
            words_push(out, set->word[i]);
        }
        return;
    }
    WORKER_SET_EACH (slot, set) {
        head |= (uint64_t)slot << (IMAGE_SLOTS_SHIFT + i++ * SLOT_BITS);
    }
    words_push(out, head);
}

static bool
any_tiered(const struct mirror *mirror, uint64_t key,
           const struct worker_set *set)
{
    WORKER_SET_EACH (slot, set) {
        if (mirror_tiers_of(mirror, slot, key) != TIERS_DEVICE) {
            return true;
        }
    }
    return false;
}

/* Slots whose blocks are saved. */
struct saved {
    struct worker_set open;
    struct worker_set plain; /* of these, those whose blocks are all in the
                                device */
};

static struct saved
saved_slots(const struct mirror *mirror)
{
    struct saved saved = {.open = open_slots(mirror), .plain = {.word = {0}}};

    WORKER_SET_EACH (slot, &saved.open) {
        if (mirror->slot[slot].tiered == 0) {
            worker_set_add(&saved.plain, slot);
        }
    }
    return saved;
}

/* Whether the image has the slots of an entry's word as they are, as for nearly
 * all entries. */
static bool
is_image(const struct saved *saved, uint32_t word)
{
    uint32_t count = word & WORD_COUNT;
    bool plain = count > 0;

    CHECK_SLOW(word_live(word));
    for (uint32_t i = 0; plain && i < count; i++) {
        plain = worker_set_has(&saved->plain, word_slot(word, i));
    }
    return plain;
}

static void
put_block(const struct mirror *mirror, uint64_t key, uint32_t word,
          const struct saved *saved, struct words *out)
{
    struct worker_set set;

    CHECK_SLOW(word_live(word));
    if (is_image(saved, word)) {
        uint64_t *to = words_add(out, 2);
        if (to != NULL) {
            to[0] = key;
            to[1] = (word & WORD_COUNT) | (uint64_t)(word >> WORD_SLOTS)
                                              << IMAGE_SLOTS_SHIFT;
        }
        return;
    }
    mirror_holders(mirror, word, &set);
    set = worker_set_and(&set, &saved->open);
    if (worker_set_empty(&set)) {
        return;
    }
    words_push(out, key);
    if (any_tiered(mirror, key, &set)) {
        put_list(mirror, key, &set, out);
    } else {
        put_set(&set, out);
    }
}

static void
put_line(const struct mirror *mirror, const struct mirror_line *line,
         const struct saved *saved, struct words *out)
{
    for (uint32_t i = 0; i < MIRROR_LINE_ENTRIES; i++) {
        uint32_t word = word_load(line, i);
        if (word_live(word)) {
            put_block(mirror, key_load(line, i), word, saved, out);
        }
    }
}

bool
mirror_image(const struct mirror *mirror, uint32_t part, uint32_t lines,
             struct mirror_reading *at, struct words *out)
{
    CHECK(part < MIRROR_SHARDS && lines > 0);
    CHECK(at != NULL && out != NULL);
    const char *handle = mirror_handle_get(mirror, MIRROR_HOLDERS, part);
    uint32_t tables = mirror->fill[MIRROR_HOLDERS][part].tables;
    struct saved saved = saved_slots(mirror);

    if (at->tables != tables) {
        words_clear(out);
        *at = (struct mirror_reading){.tables = tables};
    }
    if (handle == NULL) {
        return false;
    }
    if (at->line == 0) {
        words_reserve(out, (size_t)mirror->fill[MIRROR_HOLDERS][part].live * 2);
    }
    /* An entry stays where it is as long as its table does. */
    const struct mirror_line *first = mirror_handle_lines(handle);
    uint32_t count = mirror_lines(mirror, part, handle);
    uint32_t end = count - at->line > lines ? at->line + lines : count;
    for (; at->line < end; at->line++) {
        put_line(mirror, first + at->line, &saved, out);
    }
    return at->line < count;
}

/* ---- and back ---- */

struct loading {
    struct mirror *mirror;
    const struct worker_set *slots;
    int rc;
};

static void
load_holder(struct loading *loading, uint64_t key, uint32_t slot,
            uint64_t tiers)
{
    struct mirror *mirror = loading->mirror;

    CHECK(slot < WORKERS_MAX && tiers != 0);
    if (!worker_set_has(loading->slots, slot)) {
        return;
    }
    for (enum tier tier = TIER_DEVICE; tier < TIERS; tier++) {
        if ((tiers >> tier & 1) != 0 &&
            !mirror_store(mirror, slot, key, tier)) {
            loading->rc = mirror->fault;
        }
    }
}

/* Words after the head, or SIZE_MAX: malformed. */
static size_t
head_words(uint64_t head)
{
    uint64_t tag = head & IMAGE_TAG;
    size_t count = (size_t)(head >> IMAGE_COUNT_SHIFT);

    if (tag >= 1 && tag <= IMAGE_INLINE) {
        return 0;
    }
    if (tag == IMAGE_BITMAP) {
        return count <= IMAGE_BITMAP_WORDS ? count : SIZE_MAX;
    }
    return tag == IMAGE_LIST && count <= 1U << SLOT_BITS ? count : SIZE_MAX;
}

static bool
load_inline(struct loading *loading, uint64_t key, uint64_t head)
{
    for (uint32_t i = 0; i < (head & IMAGE_TAG); i++) {
        uint64_t slot = head >> (IMAGE_SLOTS_SHIFT + i * SLOT_BITS) & SLOT_MASK;
        if (slot >= WORKERS_MAX) {
            return false;
        }
        load_holder(loading, key, (uint32_t)slot, TIERS_DEVICE);
    }
    return true;
}

static bool
load_bitmap(struct loading *loading, uint64_t key, const uint64_t *bitmap,
            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (uint64_t bits = bitmap[i]; bits != 0; bits &= bits - 1) {
            size_t slot = i * 64 + (size_t)__builtin_ctzll(bits);
            if (slot >= WORKERS_MAX) {
                return false;
            }
            load_holder(loading, key, (uint32_t)slot, TIERS_DEVICE);
        }
    }
    return true;
}

static bool
load_list(struct loading *loading, uint64_t key, const uint64_t *list,
          size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t slot = list[i] & UINT16_MAX;
        uint64_t tiers = list[i] >> IMAGE_TIERS_SHIFT;
        if (slot >= WORKERS_MAX || tiers == 0 || tiers > TIERS_MASK) {
            return false;
        }
        load_holder(loading, key, (uint32_t)slot, tiers);
    }
    return true;
}

static bool
load_block(struct loading *loading, uint64_t key, const uint64_t *head,
           size_t count)
{
    switch (*head & IMAGE_TAG) {
    case IMAGE_BITMAP:
        return load_bitmap(loading, key, head + 1, count);
    case IMAGE_LIST:
        return load_list(loading, key, head + 1, count);
    default:
        return load_inline(loading, key, *head);
    }
}

/* How many blocks there are before the end, or before one that is malformed. */
static uint64_t
count_blocks(const uint64_t *words, size_t count)
{
    uint64_t blocks = 0;

    for (size_t at = 0; count - at >= 2; blocks++) {
        size_t more = head_words(words[at + 1]);
        if (more > count - at - 2) {
            break;
        }
        at += 2 + more;
    }
    return blocks;
}

int
mirror_load(struct mirror *mirror, const uint64_t *words, size_t count,
            const struct watch_slots *slots)
{
    struct loading loading = {.mirror = mirror, .slots = &slots->kept};

    CHECK(slots != NULL && (count == 0 || words != NULL));
    if (count > 0) {
        mirror_reserve(mirror, mirror_shard(mirror_hash(words[0])),
                       count_blocks(words, count));
    }
    for (size_t at = 0; at < count;) {
        size_t more = count - at < 2 ? SIZE_MAX : head_words(words[at + 1]);
        if (more == SIZE_MAX || more > count - at - 2 ||
            !load_block(&loading, words[at], &words[at + 1], more)) {
            return MIRROR_E_BAD;
        }
        at += 2 + more;
    }
    return loading.rc;
}

/* Applies a record of the journal, unless its slot began anew after it. */
static int
load_apply(struct mirror *mirror, uint64_t op, const uint64_t *words)
{
    uint32_t count = watch_arg(op);

    if (!event_check(words, count)) {
        return MIRROR_E_BAD;
    }
    for (uint32_t at = 0; at < count; at += 1 + event_op_count(words[at])) {
        if (event_op_kind(words[at]) == EVENT_CLEAR) {
            return MIRROR_E_BAD;
        }
    }
    return mirror_apply(mirror, watch_slot(op), words, count,
                        EVENT_HOLES_UNKNOWN);
}

int
mirror_load_journal(struct mirror *mirror, const uint64_t *words, size_t count,
                    const struct watch_slots *slots)
{
    size_t after[WORKERS_MAX];
    int rc = 0;

    CHECK(slots != NULL && (count == 0 || words != NULL));
    if (!watch_journal_check(words, count, after)) {
        return MIRROR_E_BAD;
    }
    for (size_t at = 0; at < count && rc != MIRROR_E_BAD;) {
        uint32_t slot = watch_slot(words[at]);
        if (watch_kind(words[at]) == WATCH_APPLY && at >= after[slot] &&
            worker_set_has(&slots->live, slot)) {
            int fault = load_apply(mirror, words[at], &words[at + 1]);
            rc = fault != 0 ? fault : rc;
        }
        at += watch_op_words(words + at, count - at);
    }
    return rc;
}
