/*
 * Sets of holders. An entry's word names up to three; more are in a holder set,
 * a bitmap whose address never changes.
 */
#include "index/mirror_internal.h"

#define NOBODY UINT32_MAX

static uint32_t *
link_of(const struct mirror *mirror, uint32_t number)
{
    uint32_t place;
    uint32_t segment = mirror_holder_set_segment(number, &place);

    CHECK(segment < mirror->segments);
    return &mirror->segment_link[segment][place];
}

static void
chain_add(struct mirror *mirror, struct mirror_chain *chain, uint32_t number)
{
    CHECK_SLOW(number < mirror->holder_sets_made);
    *link_of(mirror, number) = NOBODY;
    if (chain->count == 0) {
        chain->first = number;
    } else {
        *link_of(mirror, chain->last) = number;
    }
    chain->last = number;
    chain->count++;
}

void
mirror_holder_sets_join(struct mirror *mirror, struct mirror_chain *to,
                        struct mirror_chain *from)
{
    CHECK(to != from);
    if (from->count == 0) {
        return;
    }
    if (to->count == 0) {
        *to = *from;
    } else {
        *link_of(mirror, to->last) = from->first;
        to->last = from->last;
        to->count += from->count;
    }
    *from = (struct mirror_chain){.count = 0};
}

bool
mirror_holder_sets_sound(const struct mirror *mirror)
{
    uint64_t idle = (uint64_t)mirror->holder_sets_free.count +
                    mirror->grace.holder_sets.count +
                    mirror->grace.leaving.count;

    return idle + mirror->holder_sets_used == mirror->holder_sets_made;
}

static uint32_t
segment_holder_sets(uint32_t segment)
{
    CHECK(segment < MIRROR_SEGMENTS);
    return (uint32_t)MIRROR_HOLDER_SETS << segment / 8;
}

/* Bytes of a segment: holder sets on whole cache lines, then their links. */
static size_t
segment_bytes(uint32_t segment)
{
    return segment_holder_sets(segment) *
           (sizeof(struct mirror_holder_set) + sizeof(uint32_t));
}

static bool
segment_add(struct mirror *mirror)
{
    uint32_t segment = mirror->segments;

    if (segment == MIRROR_SEGMENTS) {
        mirror->fault = MIRROR_E_FULL;
        return false;
    }
    struct mirror_holder_set *holder_sets =
        mirror_alloc(mirror, segment_bytes(segment));
    if (holder_sets == NULL) {
        return false;
    }
    mirror->segment_link[segment] =
        (uint32_t *)(void *)(holder_sets + segment_holder_sets(segment));
    atomic_store_explicit(&mirror->segment[segment], holder_sets,
                          memory_order_release);
    mirror->segments++;
    return true;
}

/* Takes the number of a holder set that nobody reads. NOBODY: no room. */
static uint32_t
holder_set_new(struct mirror *mirror)
{
    struct mirror_chain *chain = &mirror->holder_sets_free;
    uint32_t number = mirror->holder_sets_made;
    uint32_t place;

    if (chain->count > 0) {
        number = chain->first;
        chain->first = *link_of(mirror, number);
        chain->count--;
    } else {
        if (mirror_holder_set_segment(number, &place) == mirror->segments &&
            !segment_add(mirror)) {
            return NOBODY;
        }
        mirror->holder_sets_made++;
    }
    mirror->holder_sets_used++;
    CHECK(mirror_holder_sets_sound(mirror));
    return number;
}

/* Gives up a holder set that no entry refers to any more. */
static void
holder_set_retire(struct mirror *mirror, uint32_t number)
{
    CHECK(mirror->holder_sets_used > 0);
    CHECK(number < mirror->holder_sets_made);
    mirror->holder_sets_used--;
    chain_add(mirror, &mirror->grace.holder_sets, number);
    CHECK(mirror_holder_sets_sound(mirror));
}

size_t
mirror_holder_sets_bytes(const struct mirror *mirror)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < mirror->segments; i++) {
        bytes += page_heap_size(segment_bytes(i));
    }
    return bytes;
}

void
mirror_holder_sets_free(struct mirror *mirror)
{
    CHECK(mirror->segments <= MIRROR_SEGMENTS);
    for (uint32_t i = 0; i < mirror->segments; i++) {
        mirror_release(
            mirror,
            atomic_load_explicit(&mirror->segment[i], memory_order_relaxed),
            segment_bytes(i));
    }
}

/* Writes a set of holders into a holder set; readers see it word by word. */
static void
holder_set_store(struct mirror *mirror, uint32_t number,
                 const struct worker_set *set)
{
    struct mirror_holder_set *holder_set = mirror_holder_set_at(mirror, number);

    CHECK(worker_set_count(set) > WORD_INLINE);
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        atomic_store_explicit(&holder_set->word[i], set->word[i],
                              memory_order_release);
    }
}

/* Sets or clears one bit of a holder set that readers see. */
static void
holder_set_flip(struct mirror *mirror, uint32_t number, uint32_t slot)
{
    _Atomic uint64_t *word =
        &mirror_holder_set_at(mirror, number)->word[slot / 64];
    uint64_t bits = atomic_load_explicit(word, memory_order_relaxed);

    CHECK(number < mirror->holder_sets_made);
    atomic_store_explicit(word, bits ^ UINT64_C(1) << slot % 64,
                          memory_order_release);
}

static uint32_t
word_make(const struct worker_set *set)
{
    uint32_t word = 0;

    CHECK(worker_set_count(set) >= 1 && worker_set_count(set) <= WORD_INLINE);
    WORKER_SET_EACH (slot, set) {
        word += 1 + (slot << (WORD_SLOTS + (word & WORD_COUNT) * SLOT_BITS));
    }
    return word;
}

bool
mirror_holder_add(struct mirror *mirror, struct mirror_entry entry,
                  uint32_t word, uint32_t slot)
{
    uint32_t count = word & WORD_COUNT;
    struct worker_set set;

    CHECK(count > 0 || word_is_set(word));
    CHECK_SLOW(!mirror_word_has(mirror, word, slot));
    if (count == 0) {
        holder_set_flip(mirror, word_holder_set(word), slot);
        return true;
    }
    if (count < WORD_INLINE) {
        word_store(entry,
                   word + 1 + (slot << (WORD_SLOTS + count * SLOT_BITS)));
        return true;
    }
    uint32_t number = holder_set_new(mirror);
    if (number == NOBODY) {
        return false;
    }
    mirror_holders(mirror, word, &set);
    worker_set_add(&set, slot);
    holder_set_store(mirror, number, &set);
    word_store(entry, WORD_HOLDER_SET | number << WORD_SHIFT);
    return true;
}

static void
holder_set_drop(struct mirror *mirror, struct mirror_entry entry, uint32_t word,
                uint32_t slot)
{
    struct worker_set set;

    CHECK_SLOW(mirror_word_has(mirror, word, slot));
    mirror_holders(mirror, word, &set);
    worker_set_remove(&set, slot);
    if (worker_set_count(&set) > HOLDER_SET_LEAVE) {
        holder_set_flip(mirror, word_holder_set(word), slot);
        return;
    }
    word_store(entry, word_make(&set));
    holder_set_retire(mirror, word_holder_set(word));
}

void
mirror_holder_drop(struct mirror *mirror, uint32_t shard,
                   struct mirror_entry entry, uint32_t slot)
{
    uint32_t word = word_load(entry.line, entry.at);
    uint32_t count = word & WORD_COUNT;
    uint32_t at = 0;

    CHECK(count > 0 || word_is_set(word));
    if (count == 0) {
        holder_set_drop(mirror, entry, word, slot);
        return;
    }
    while (at < count && word_slot(word, at) != slot) {
        at++;
    }
    CHECK(at < count);
    if (count == 1) {
        mirror_bury(mirror, MIRROR_HOLDERS, shard, entry);
        return;
    }
    /* The last one takes its place. */
    uint32_t last = count - 1;
    uint32_t moved = word_slot(word, last);
    word &= ~(SLOT_MASK << (WORD_SLOTS + last * SLOT_BITS));
    word &= ~(at == last ? 0 : SLOT_MASK << (WORD_SLOTS + at * SLOT_BITS));
    word |= at == last ? 0 : moved << (WORD_SLOTS + at * SLOT_BITS);
    word_store(entry, word - 1);
}
