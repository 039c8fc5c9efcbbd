/*
 * The ledger's entries as words, for snapshots; ledger_load.c reads them.
 *
 * A part is as many entries as lie in a segment. Its first word is the number
 * of its first entry, then in order of numbers:
 *   a head   IMAGE_ALIVE, the entry before it in bits 32 to 60, and below
 *            those up to three holders as in entry.holders, else IMAGE_SET
 *   a name, a key
 *   if IMAGE_SET     a count, so many words of a bitmap
 *   if IMAGE_COPIES  a count, so many words: stream, copies from bit 16 up
 * Without IMAGE_ALIVE the head is how many numbers are free from here on.
 */
#include "index/ledger_internal.h"

void
ledger_watch(struct ledger *ledger, struct watch *watch)
{
    CHECK(watch == NULL || watch->parts_max == LEDGER_PARTS_MAX);
    ledger->watch = watch;
}

uint32_t
ledger_parts(const struct ledger *ledger)
{
    const struct pool *pool = &ledger->entries;

    CHECK(pool->fresh >= 1);
    return pool->fresh == 1 ? 0 : ((pool->fresh - 1) >> pool->shift) + 1;
}

static uint32_t
segment_of(const struct ledger *l, uint32_t ref)
{
    CHECK_SLOW(ref < l->entries.fresh);
    return ref >> l->entries.shift;
}

void
ledger_told_block(struct ledger *l, uint32_t ref, uint32_t parent)
{
    uint64_t *to = watch_add(l->watch, 4);

    CHECK(ref != REF_NONE && ref != parent);
    watch_mark(l->watch, segment_of(l, ref));
    if (to != NULL) {
        to[0] = watch_op(WATCH_BLOCK, 0, ref);
        to[1] = entry_at(l, ref)->name;
        to[2] = entry_at(l, ref)->key;
        to[3] = parent;
    }
}

void
ledger_say(struct ledger *ledger, uint32_t stream, struct names_said *said)
{
    CHECK(said == NULL || ledger->stream[stream].state == STREAM_OPEN);
    ledger->said = said;
    ledger->said_stream = stream;
}

static void
say(const struct ledger *l, enum watch_kind kind, uint32_t ref, uint32_t copies)
{
    const struct entry *entry = entry_at(l, ref);

    if (kind == WATCH_ENTER) {
        uint32_t parent = ledger_parent(l, entry);
        struct names_block block = {
            .name = entry->name,
            .key = entry->key,
            .parent = parent == REF_NONE ? 0 : entry_at(l, parent)->key,
            .has_parent = parent != REF_NONE};
        names_say_enter(l->said, &block);
    } else if (kind == WATCH_COPIES) {
        names_say_copies(l->said, entry->name, copies);
    } else if (kind == WATCH_LEAVE) {
        names_say_leave(l->said, entry->name);
    }
}

void
ledger_told(struct ledger *l, enum watch_kind kind, uint32_t ref,
            uint32_t stream, uint32_t copies)
{
    CHECK(stream < LEDGER_STREAMS_MAX && copies <= NAMES_COPIES_MAX);
    if (l->said != NULL && stream == l->said_stream && kind != WATCH_FREE) {
        say(l, kind, ref, copies);
    }
    watch_mark(l->watch, segment_of(l, ref));
    watch_tell(l->watch, watch_op(kind, stream, ref) |
                             (uint64_t)copies << WATCH_COPIES_SHIFT);
}

/* ---- images ---- */

static struct worker_set
open_streams(const struct ledger *l)
{
    struct worker_set set = {.word = {0}};

    for (uint32_t i = 0; i < LEDGER_STREAMS_MAX; i++) {
        if (l->stream[i].state == STREAM_OPEN) {
            worker_set_add(&set, i);
        }
    }
    return set;
}

static void
put_copies(const struct ledger *l, uint32_t ref, const struct worker_set *set,
           struct words *out)
{
    CHECK(!worker_set_empty(set));
    words_push(out, worker_set_count(set));
    WORKER_SET_EACH (stream, set) {
        words_push(out, stream | (uint64_t)ledger_copies(l, ref, stream)
                                     << IMAGE_COPIES_SHIFT);
    }
}

static bool
any_copies(const struct ledger *l, uint32_t ref, const struct worker_set *set)
{
    bool odd = (entry_at(l, ref)->link & LINK_ODD) != 0;

    WORKER_SET_EACH (stream, set) {
        if (odd && ledger_copies(l, ref, stream) != COPIES_PLAIN) {
            return true;
        }
    }
    return false;
}

static uint64_t
inline_holders(const struct worker_set *set)
{
    uint64_t word = worker_set_count(set);
    uint32_t shift = 2;

    CHECK(word <= HOLDERS_INLINE);
    WORKER_SET_EACH (stream, set) {
        word |= (uint64_t)stream << shift;
        shift += STREAM_BITS;
    }
    return word;
}

static void
put_entry(const struct ledger *l, uint32_t ref, const struct worker_set *open,
          struct words *out)
{
    const struct entry *entry = entry_at(l, ref);
    struct worker_set set = ledger_holders_set(l, entry->holders);
    uint64_t head = IMAGE_ALIVE | (uint64_t)ledger_parent(l, entry)
                                      << IMAGE_PARENT_SHIFT;

    CHECK(entry->link != 0);
    set = worker_set_and(&set, open);
    bool odd = any_copies(l, ref, &set);
    bool few = worker_set_count(&set) <= HOLDERS_INLINE;
    head |= few ? inline_holders(&set) : IMAGE_SET;
    words_push(out, head | (odd ? IMAGE_COPIES : 0));
    words_push(out, entry->name);
    words_push(out, entry->key);
    if (!few) {
        words_push(out, WORKER_WORDS);
        for (uint32_t i = 0; i < WORKER_WORDS; i++) {
            words_push(out, set.word[i]);
        }
    }
    if (odd) {
        put_copies(l, ref, &set, out);
    }
}

void
ledger_image(const struct ledger *ledger, uint32_t part, struct words *out)
{
    const struct pool *pool = &ledger->entries;
    struct worker_set open = open_streams(ledger);
    uint32_t ref = part << pool->shift;
    uint32_t end = ref + (1U << pool->shift);
    uint32_t gap = 0;

    CHECK(part < ledger_parts(ledger));
    words_push(out, ref);
    for (end = end < pool->fresh ? end : pool->fresh; ref < end; ref++) {
        if (ref == REF_NONE || entry_at(ledger, ref)->link == 0) {
            gap++;
            continue;
        }
        if (gap > 0) {
            words_push(out, gap);
            gap = 0;
        }
        put_entry(ledger, ref, &open, out);
    }
}
