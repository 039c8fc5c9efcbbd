/*
 * Fills an empty ledger from a copy (watch.h). Entries keep their numbers and
 * come in any order, so names, kids and holes are linked at the end. Until then
 * entry.link is LINK_UP and the entry before it.
 */
#include "index/ledger_internal.h"

#define AHEAD 32 /* entries whose lines of names are fetched together */

static bool
segments_reserve(struct ledger *l, uint32_t ref)
{
    struct pool *pool = &l->entries;

    CHECK(ref != REF_NONE && ref <= REF_MASK);
    while (ref >> pool->shift >= pool->segments) {
        if (!ledger_pool_grow(l, pool)) {
            return false;
        }
    }
    pool->fresh = pool->fresh > ref ? pool->fresh : ref + 1;
    return true;
}

void
ledger_load_begin(struct ledger *ledger, const struct watch_slots *slots)
{
    CHECK(ledger->entries.fresh == 1 && ledger->cursor == 0);
    ledger->loading = *slots;
    for (uint32_t i = 0; i < LEDGER_STREAMS_MAX; i++) {
        if (worker_set_has(&slots->live, i)) {
            CHECK(ledger->stream[i].state == STREAM_FREE);
            ledger->stream[i] = (struct stream){.state = STREAM_OPEN};
        }
    }
}

/* ---- one change ---- */

static int
hold(struct ledger *l, uint32_t ref, uint32_t stream)
{
    struct entry *entry = entry_at(l, ref);

    CHECK(stream < LEDGER_STREAMS_MAX && entry->link != 0);
    if (holders_has(l, entry->holders, stream)) {
        return 0;
    }
    if (holders_tight(entry->holders) && !ledger_pool_claim(l, &l->sets)) {
        return l->refusal;
    }
    entry->holders = ledger_holders_add(l, entry->holders, stream);
    l->sets.claimed = 0;
    return 0;
}

static void
unhold(struct ledger *l, uint32_t ref, uint32_t stream)
{
    struct entry *entry = entry_at(l, ref);

    CHECK(stream < LEDGER_STREAMS_MAX);
    if (holders_has(l, entry->holders, stream)) {
        ledger_copies_set(l, ref, stream, COPIES_PLAIN);
        entry->holders = ledger_holders_remove(l, entry->holders, stream);
    }
}

static void
unhold_all(struct ledger *l, uint32_t ref)
{
    struct worker_set set = ledger_holders_set(l, entry_at(l, ref)->holders);

    WORKER_SET_EACH (stream, &set) {
        unhold(l, ref, stream);
    }
}

static bool
copies_valid(uint64_t copies)
{
    return copies != 0 && copies <= NAMES_COPIES_MAX;
}

static int
set_copies(struct ledger *l, uint32_t ref, uint32_t stream, uint64_t copies)
{
    CHECK(stream < LEDGER_STREAMS_MAX);
    if (!copies_valid(copies)) {
        return LEDGER_E_BAD;
    }
    if (!holders_has(l, entry_at(l, ref)->holders, stream)) {
        return 0;
    }
    if (!ledger_copies_claim(l, ref, stream)) {
        return l->refusal;
    }
    ledger_copies_set(l, ref, stream, (uint32_t)copies);
    return 0;
}

/* ---- parts ---- */

/* The words that are not read yet; count is SIZE_MAX when they ended too
 * early. */
struct in {
    const uint64_t *word;
    size_t count;
    bool bad;
};

static uint64_t
next(struct in *in)
{
    if (in->count == 0) {
        in->bad = true;
        return 0;
    }
    in->count--;
    return *in->word++;
}

static int
hold_kept(struct ledger *l, uint32_t ref, uint64_t stream)
{
    if (stream >= LEDGER_STREAMS_MAX) {
        return LEDGER_E_BAD;
    }
    return worker_set_has(&l->loading.kept, (uint32_t)stream)
               ? hold(l, ref, (uint32_t)stream)
               : 0;
}

static int
load_set(struct ledger *l, uint32_t ref, struct in *in)
{
    uint64_t count = next(in);
    int rc = count <= in->count ? 0 : LEDGER_E_BAD;

    for (uint64_t i = 0; i < count && rc == 0; i++) {
        for (uint64_t bits = next(in); bits != 0 && rc == 0; bits &= bits - 1) {
            rc = hold_kept(l, ref, i * 64 + (uint64_t)__builtin_ctzll(bits));
        }
    }
    return rc;
}

static int
load_copies(struct ledger *l, uint32_t ref, struct in *in)
{
    uint64_t count = next(in);
    int rc = count <= in->count ? 0 : LEDGER_E_BAD;

    for (uint64_t i = 0; i < count && rc == 0; i++) {
        uint64_t word = next(in);
        uint64_t stream = word & UINT16_MAX;
        rc = stream < LEDGER_STREAMS_MAX
                 ? set_copies(l, ref, (uint32_t)stream,
                              word >> IMAGE_COPIES_SHIFT)
                 : LEDGER_E_BAD;
    }
    return rc;
}

static int
load_entry(struct ledger *l, uint32_t ref, uint64_t head, struct in *in)
{
    struct entry *entry = entry_at(l, ref);
    uint32_t inline_word = (uint32_t)head;
    int rc = 0;

    CHECK((head & IMAGE_ALIVE) != 0);
    if (entry->link != 0) {
        return LEDGER_E_BAD;
    }
    *entry = (struct entry){
        .link = LINK_UP | (uint32_t)(head >> IMAGE_PARENT_SHIFT & REF_MASK)};
    entry->name = next(in);
    entry->key = next(in);
    for (uint32_t i = 0; i < (inline_word & 3) && rc == 0; i++) {
        rc = hold_kept(l, ref, holders_inline(inline_word, i));
    }
    if (rc == 0 && (head & IMAGE_SET) != 0) {
        rc = load_set(l, ref, in);
    }
    if (rc == 0 && (head & IMAGE_COPIES) != 0) {
        rc = load_copies(l, ref, in);
    }
    return rc;
}

int
ledger_load(struct ledger *ledger, const uint64_t *words, size_t count)
{
    struct in in = {.word = words, .count = count};
    uint64_t ref = next(&in);
    int rc = 0;

    CHECK(words != NULL || count == 0);
    while (in.count > 0 && rc == 0) {
        uint64_t head = next(&in);
        if ((head & IMAGE_ALIVE) == 0) {
            ref += head;
            rc = head > REF_MASK ? LEDGER_E_BAD : 0;
        } else if (ref == REF_NONE || ref > REF_MASK) {
            rc = LEDGER_E_BAD;
        } else {
            rc = segments_reserve(ledger, (uint32_t)ref)
                     ? load_entry(ledger, (uint32_t)ref, head, &in)
                     : ledger->refusal;
            ref++;
        }
    }
    return rc == 0 && in.bad ? LEDGER_E_BAD : rc;
}

/* ---- the journal ---- */

static int
replay_block(struct ledger *l, uint32_t ref, const uint64_t *word)
{
    CHECK(watch_kind(word[0]) == WATCH_BLOCK);
    if (ref == REF_NONE || ref > REF_MASK || word[3] > REF_MASK) {
        return LEDGER_E_BAD;
    }
    if (!segments_reserve(l, ref)) {
        return l->refusal;
    }
    unhold_all(l, ref);
    *entry_at(l, ref) = (struct entry){
        .name = word[1], .key = word[2], .link = LINK_UP | (uint32_t)word[3]};
    return 0;
}

static int
replay(struct ledger *l, const uint64_t *word, bool counts)
{
    uint32_t ref = watch_arg(word[0]);
    uint32_t stream = watch_slot(word[0]);

    if (watch_kind(word[0]) == WATCH_BLOCK) {
        return replay_block(l, ref, word);
    }
    if (ref == REF_NONE || ref >= l->entries.fresh ||
        entry_at(l, ref)->link == 0) {
        return 0;
    }
    switch (watch_kind(word[0])) {
    case WATCH_FREE:
        unhold_all(l, ref);
        *entry_at(l, ref) = (struct entry){0};
        return 0;
    case WATCH_ENTER:
        return counts ? hold(l, ref, stream) : 0;
    case WATCH_LEAVE:
        unhold(l, ref, stream);
        return 0;
    case WATCH_COPIES:
        return counts ? set_copies(
                            l, ref, stream,
                            word[0] >> WATCH_COPIES_SHIFT & NAMES_COPIES_MAX)
                      : 0;
    case WATCH_OPEN:
    case WATCH_CLOSE:
    case WATCH_APPLY:
    case WATCH_BLOCK:
    default:
        return 0;
    }
}

int
ledger_load_journal(struct ledger *ledger, const uint64_t *words, size_t count)
{
    size_t after[WORKERS_MAX];
    int rc = 0;

    CHECK(words != NULL || count == 0);
    if (!watch_journal_check(words, count, after)) {
        return LEDGER_E_BAD;
    }
    for (size_t at = 0; at < count && rc == 0;) {
        uint32_t stream = watch_slot(words[at]);
        rc = replay(ledger, words + at,
                    at >= after[stream] &&
                        worker_set_has(&ledger->loading.live, stream));
        at += watch_op_words(words + at, count - at);
    }
    return rc;
}

/* ---- the end ---- */

/* Adds an entry to its parent's kids. If the parent counts its kids, counts the
 * entry's holders; entries that come later are counted when they come. */
static int
hang(struct ledger *l, uint32_t ref)
{
    struct entry *entry = entry_at(l, ref);
    uint32_t parent = entry->link & REF_MASK;
    uint32_t odd = entry->link & LINK_ODD;

    CHECK((entry->link & LINK_UP) != 0);
    if (parent != REF_NONE && !ledger_kids_claim(l, parent, 0)) {
        return l->refusal;
    }
    ledger_kids_add(l, parent, ref);
    entry->link |= odd;
    ledger_rows_unclaim(&l->kids);
    if ((entry->link & LINK_COUNTED) == 0) {
        return 0;
    }
    struct worker_set set = ledger_holders_set(l, entry->holders);
    WORKER_SET_EACH (stream, &set) {
        uint32_t held = ledger_rows_get(&l->kids, parent, stream);
        if (held == ROW_VALUE_MAX) {
            return LEDGER_E_FULL;
        }
        if (!ledger_rows_claim(l, &l->kids, parent, stream)) {
            return l->refusal;
        }
        ledger_rows_put(&l->kids, parent, stream, held + 1);
        ledger_rows_unclaim(&l->kids);
    }
    return 0;
}

/* Counts holes, now that all kids have all their holders. */
static void
count_holders(struct ledger *l, uint32_t ref, uint32_t parent)
{
    const struct entry *entry = entry_at(l, ref);
    uint32_t above = parent == REF_NONE ? 0 : entry_at(l, parent)->holders;
    bool same =
        parent == REF_NONE || (above == entry->holders && (above & 3) != 0);
    struct worker_set set;

    CHECK_SLOW(ref != parent);
    if ((entry->holders & 3) == 1 && same) {
        l->stream[holders_inline(entry->holders, 0)].blocks++;
        return;
    }
    set = ledger_holders_set(l, entry->holders);
    WORKER_SET_EACH (stream, &set) {
        l->stream[stream].blocks++;
        l->stream[stream].holes += !same && !holders_has(l, above, stream);
    }
}

/* Makes the list of free numbers, the least first, and counts what is held. */
static int
count_all(struct ledger *l)
{
    struct pool *pool = &l->entries;

    CHECK(pool->fresh >= 1 && pool->free == REF_NONE);
    pool->used = pool->fresh - 1;
    for (uint32_t ref = pool->fresh - 1; ref > REF_NONE; ref--) {
        const struct entry *entry = entry_at(l, ref);
        uint32_t parent = entry->link & REF_MASK;
        if (entry->link == 0) {
            ledger_pool_give(pool, ref);
            continue;
        }
        if (parent >= pool->fresh || parent == ref ||
            (parent != REF_NONE && entry_at(l, parent)->link == 0)) {
            return LEDGER_E_BAD;
        }
        /* Perhaps only streams that are dead by now needed it. */
        l->litter = l->litter || entry->holders == 0;
        count_holders(l, ref, parent);
    }
    return 0;
}

/* Links names and kids. */
static int
link_all(struct ledger *l)
{
    uint32_t fresh = l->entries.fresh;
    int rc = ledger_names_reserve(l);

    for (uint32_t from = 1; from < fresh && rc == 0; from += AHEAD) {
        uint32_t end = fresh - from < AHEAD ? fresh : from + AHEAD;
        for (uint32_t ref = from; ref < end; ref++) {
            ledger_names_fetch(l, entry_at(l, ref)->name);
        }
        for (uint32_t ref = from; ref < end && rc == 0; ref++) {
            if (entry_at(l, ref)->link == 0) {
                continue;
            }
            rc = hang(l, ref);
            if (rc == 0 && !ledger_names_insert(l, ref)) {
                rc = l->refusal;
            }
        }
    }
    return rc;
}

int
ledger_load_end(struct ledger *ledger)
{
    CHECK(ledger->cursor == 0);
    int rc = count_all(ledger);
    if (rc == 0) {
        rc = link_all(ledger);
    }
    if (rc == 0) {
        ledger_rows_unclaim(&ledger->copies);
    }
    return rc;
}
