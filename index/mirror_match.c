/*
 * The readers' search. Wait-free: each round settles or halves every open
 * question, a table's probe ends with the table, and what is tried again is
 * tried a fixed number of times.
 *
 * What a depth says. Of a slot without holes every block up to one it holds is
 * held, so whether it holds block i - 1 tells whether its depth is i or more,
 * and intervals of depths can be split anywhere. A slot that may have holes is
 * walked from the first block on. Before a slot gets a hole the writer says so
 * (`walked`, `opened`), so a search that saw a block change knows it when it
 * looks at `opened` afterwards, and walks those slots instead.
 *
 * A walk takes time too: a block it has passed may go and blocks ahead of it
 * come. Removals from a slot that may have holes are counted when they begin
 * and when they end (`torn`). A walk between which they did not move saw at
 * most part of one removal, and its depth lies between those before and after
 * that; else it is done again, and after the last time the least found counts.
 */
#include "index/mirror_internal.h"

/*
 * Keys looked up together, so that their misses overlap: of lone slots, or of a
 * round of intervals; of a walk's beginning, which most often is its end, where
 * each next stretch is twice as long; of the rest of a walk; and of one interval
 * in a round, where more of them would make fewer rounds but more misses (4, 6,
 * 12 and 24 were measured, all slower).
 */
#define PROBES 64
#define FIRST  4
#define AHEAD  32
#define FAN    8

/* An interval of so few slots is searched for each of them: telling apart all
 * whom a block has costs more than a look at one bit for each. */
#define FEW 2

#define WALKS_MORE 2 /* see walk_slots() */

_Static_assert(AHEAD <= PROBES && FAN + 1 <= PROBES, "one batch");

/* Slots whose depth is one of [low, high]; they hold block low - 1. */
struct interval {
    uint32_t low;
    uint32_t high;
    struct worker_set slots;
};

/* The same of one slot. */
struct lone {
    uint32_t low;
    uint32_t high;
    uint32_t slot;
};

struct search {
    const struct mirror *mirror;
    const uint64_t *keys;
    struct mirror_match *match;
    uint32_t lone_count;
    struct lone lone[WORKERS_MAX];
    uint32_t count; /* of intervals; their slots are disjoint */
    struct interval interval[WORKERS_MAX];
};

/* Places of keys, and the slots that hold them. */
struct probes {
    uint32_t count;
    uint32_t at[PROBES];
    uint64_t hash[PROBES];
    const char *handle[PROBES];
    const struct mirror_line *line[PROBES]; /* NULL: there is no table */
    struct worker_set holders[PROBES];
};

static void
probe_fetch(const struct mirror *mirror, const uint64_t *keys,
            struct probes *probes)
{
    CHECK_SLOW(probes->count <= PROBES);
    for (uint32_t i = 0; i < probes->count; i++) {
        uint64_t hash = mirror_hash(keys[probes->at[i]]);
        const char *handle =
            mirror_handle_get(mirror, MIRROR_HOLDERS, mirror_shard(hash));
        probes->hash[i] = hash;
        probes->handle[i] = handle;
        probes->line[i] = NULL;
        if (LIKELY(handle != NULL)) {
            probes->line[i] = mirror_line_at(mirror, handle, hash);
            __builtin_prefetch(probes->line[i]);
        }
    }
}

/* Reads the words that lie in the lines that were fetched. Where a search goes
 * on, fetches the next line, and notes the probe as late. How many are. */
static uint32_t
probe_lines(const uint64_t *keys, const struct probes *probes, uint32_t *word,
            uint32_t *late)
{
    uint32_t count = 0;

    CHECK_SLOW(probes->count <= PROBES);
    for (uint32_t i = 0; i < probes->count; i++) {
        struct mirror_wanted wanted = {.key = keys[probes->at[i]]};
        const struct mirror_line *line = probes->line[i];
        word[i] = WORD_EMPTY;
        if (UNLIKELY(line == NULL)) {
            continue;
        }
        uint32_t hits = line_hits(line, wanted.key);
        if (hits != 0) {
            word[i] =
                mirror_word_of(line, (uint32_t)__builtin_ctz(hits), &wanted);
        }
        if (word[i] == WORD_EMPTY && (hits != 0 || line_past(line) != 0)) {
            __builtin_prefetch(line + 1);
            late[count++] = i;
        }
    }
    return count;
}

/* The words of the probes' keys. */
static void
probe_words(const struct mirror *mirror, const uint64_t *keys,
            const struct probes *probes, uint32_t *word)
{
    uint32_t late[PROBES];
    uint32_t count = probe_lines(keys, probes, word, late);

    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = late[n];
        word[i] = mirror_find_holders(mirror, probes->handle[i],
                                      probes->hash[i], keys[probes->at[i]]);
    }
    for (uint32_t i = 0; i < probes->count; i++) {
        if (word_is_set(word[i])) {
            __builtin_prefetch(
                mirror_holder_set_at(mirror, word_holder_set(word[i])));
        }
    }
}

static void
probe_read(const struct mirror *mirror, const uint64_t *keys,
           struct probes *probes)
{
    uint32_t word[PROBES];

    probe_words(mirror, keys, probes, word);
    for (uint32_t i = 0; i < probes->count; i++) {
        mirror_holders(mirror, word[i], &probes->holders[i]);
    }
}

/* Notes that these slots hold depth blocks, and no more. */
static void
emit(struct mirror_match *match, const struct worker_set *slots, uint32_t depth)
{
    bool any = false;

    if (depth == 0) {
        return;
    }
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        for (uint64_t left = slots->word[i]; left != 0; left &= left - 1) {
            match->depth[i * 64 + (uint32_t)__builtin_ctzll(left)] = depth;
        }
        match->slots.word[i] |= slots->word[i];
        any = any || slots->word[i] != 0;
    }
    match->best = any && depth > match->best ? depth : match->best;
}

/* ---- slots with holes: block by block ---- */

static void
walk_points(struct probes *probes, size_t from, size_t count, uint32_t most)
{
    CHECK_SLOW(from <= count && most <= AHEAD);
    probes->count = count - from < most ? (uint32_t)(count - from) : most;
    for (uint32_t i = 0; i < probes->count; i++) {
        probes->at[i] = (uint32_t)from + i;
    }
}

static void
walk(const struct mirror *mirror, const uint64_t *keys, size_t count,
     struct worker_set slots, struct mirror_match *match)
{
    struct probes probes[2];
    uint32_t turn = 0;
    uint32_t most = FIRST;

    walk_points(&probes[0], 0, count, most);
    probe_fetch(mirror, keys, &probes[0]);
    for (size_t from = 0; from < count;) {
        struct probes *now = &probes[turn];
        turn ^= 1;
        most = most < AHEAD ? 2 * most : AHEAD;
        from += now->count;
        walk_points(&probes[turn], from, count, most);
        probe_fetch(mirror, keys, &probes[turn]);
        probe_read(mirror, keys, now);
        for (uint32_t i = 0; i < now->count; i++) {
            struct worker_set out = worker_set_minus(&slots, &now->holders[i]);
            emit(match, &out, now->at[i]);
            slots = worker_set_and(&slots, &now->holders[i]);
        }
        if (worker_set_empty(&slots)) {
            return;
        }
    }
    emit(match, &slots, (uint32_t)count);
}

static uint32_t
best_of(const struct mirror_match *match)
{
    uint32_t best = 0;

    WORKER_SET_EACH (slot, &match->slots) {
        best = match->depth[slot] > best ? match->depth[slot] : best;
    }
    return best;
}

static void
load_torn(const struct mirror *mirror, const struct worker_set *slots,
          uint64_t *torn)
{
    WORKER_SET_EACH (slot, slots) {
        torn[slot] =
            atomic_load_explicit(&mirror->torn[slot], memory_order_acquire);
    }
}

/* The slots from which blocks were removed since. The walk may have seen one
 * place before the removal and another one after it. */
static struct worker_set
torn_since(const struct mirror *mirror, const struct worker_set *slots,
           const uint64_t *torn)
{
    struct worker_set out = {.word = {0}};

    WORKER_SET_EACH (slot, slots) {
        if (atomic_load_explicit(&mirror->torn[slot], memory_order_relaxed) !=
            torn[slot]) {
            worker_set_add(&out, slot);
        }
    }
    return out;
}

/* Sets each slot's depth to what the last walk found. least: keeps the depth
 * that the walk before found, if that is less. */
static void
revise(struct mirror_match *match, const struct mirror_match *again,
       const struct worker_set *slots, bool least)
{
    CHECK_SLOW(match != again);
    WORKER_SET_EACH (slot, slots) {
        uint32_t before =
            worker_set_has(&match->slots, slot) ? match->depth[slot] : 0;
        uint32_t depth =
            worker_set_has(&again->slots, slot) ? again->depth[slot] : 0;
        match->depth[slot] = least && before < depth ? before : depth;
        if (match->depth[slot] > 0) {
            worker_set_add(&match->slots, slot);
        } else {
            worker_set_remove(&match->slots, slot);
        }
    }
    match->best = best_of(match);
}

/* Walks the slots, and again, at most twice, those from which blocks were
 * removed meanwhile. */
static void
walk_slots(const struct mirror *mirror, const uint64_t *keys, size_t count,
           struct worker_set slots, struct mirror_match *match)
{
    uint64_t torn[WORKERS_MAX];
    struct mirror_match again;

    CHECK_SLOW(!worker_set_empty(&slots));
    load_torn(mirror, &slots, torn);
    walk(mirror, keys, count, slots, match);
    slots = torn_since(mirror, &slots, torn);
    for (uint32_t i = 0; i < WALKS_MORE && !worker_set_empty(&slots); i++) {
        worker_set_clear(&again.slots);
        again.best = 0;
        load_torn(mirror, &slots, torn);
        walk(mirror, keys, count, slots, &again);
        struct worker_set still = torn_since(mirror, &slots, torn);
        struct worker_set clean = worker_set_minus(&slots, &still);
        revise(match, &again, &clean, false);
        revise(match, &again, &still, true);
        slots = still;
    }
}

/* ---- slots without holes: by intervals ---- */

static void
settle(struct search *search, uint32_t low, uint32_t high,
       const struct worker_set *slots)
{
    CHECK_SLOW(low <= high);
    if (worker_set_empty(slots)) {
        return;
    }
    if (low == high) {
        emit(search->match, slots, low);
        return;
    }
    CHECK_SLOW(search->count < WORKERS_MAX);
    search->interval[search->count++] =
        (struct interval){.low = low, .high = high, .slots = *slots};
}

/* Adds evenly spaced points in (low, high], and returns how many. */
static uint32_t
ask(struct probes *probes, const struct interval *interval, uint32_t points)
{
    uint32_t length = interval->high - interval->low;

    CHECK_SLOW(points >= 1 && interval->low < interval->high);
    points = points < length ? points : length;
    uint32_t points_left = points;
    /* In 2^-32ths: 1 or more each, so no two are the same. */
    uint64_t step = (((uint64_t)length + 1) << 32) / (points + 1);
    for (uint64_t at = step; points_left > 0; at += step, points_left--) {
        probes->at[probes->count++] = interval->low + (uint32_t)(at >> 32) - 1;
    }
    return points;
}

/* Applies the answers to one interval: slots that miss a point stop before
 * it. */
static void
split(struct search *search, const struct interval *interval,
      const struct probes *probes, uint32_t from, uint32_t points)
{
    struct worker_set slots = interval->slots;
    uint32_t low = interval->low;

    CHECK_SLOW(from + points <= probes->count);
    for (uint32_t i = from; i < from + points; i++) {
        struct worker_set out = worker_set_minus(&slots, &probes->holders[i]);
        settle(search, low, probes->at[i], &out);
        slots = worker_set_and(&slots, &probes->holders[i]);
        low = probes->at[i] + 1;
    }
    settle(search, low, interval->high, &slots);
}

/* Takes those of few slots out of these intervals, and returns how many are
 * left. */
static uint32_t
set_few_apart(struct search *search, struct interval *now, uint32_t count)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (worker_set_count(&now[i].slots) > FEW) {
            now[left++] = now[i];
            continue;
        }
        WORKER_SET_EACH (slot, &now[i].slots) {
            CHECK_SLOW(search->lone_count < WORKERS_MAX);
            search->lone[search->lone_count++] = (struct lone){
                .low = now[i].low, .high = now[i].high, .slot = slot};
        }
    }
    return left;
}

/* Does one round: splits each of the last few intervals at some points. Of
 * many, those of few slots wait for halve_lone(). */
static void
round_of(struct search *search)
{
    struct interval now[PROBES];
    uint32_t points[PROBES];
    struct probes probes;
    uint32_t count = search->count < PROBES ? search->count : PROBES;
    uint32_t share = PROBES / count < FAN ? PROBES / count : FAN;
    uint32_t from = 0;

    search->count -= count;
    probes.count = 0;
    for (uint32_t i = 0; i < count; i++) {
        now[i] = search->interval[search->count + i];
    }
    if (share == 1) {
        count = set_few_apart(search, now, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        points[i] = ask(&probes, &now[i], share);
    }
    probe_fetch(search->mirror, search->keys, &probes);
    probe_read(search->mirror, search->keys, &probes);
    for (uint32_t i = 0; i < count; i++) {
        split(search, &now[i], &probes, from, points[i]);
        from += points[i];
    }
    CHECK_SLOW(from == probes.count);
}

/* Halves the last few intervals of one slot until each is a depth: of one slot
 * it is enough to know whether it is among a block's holders. */
static void
halve_lone(struct search *search)
{
    uint32_t count = search->lone_count < PROBES ? search->lone_count : PROBES;
    struct lone *lone = &search->lone[search->lone_count - count];
    struct probes probes;
    uint32_t word[PROBES];

    search->lone_count -= count;
    while (count > 0) {
        uint32_t left = 0;
        probes.count = count;
        for (uint32_t i = 0; i < count; i++) {
            probes.at[i] = lone[i].low + (lone[i].high - lone[i].low) / 2;
        }
        probe_fetch(search->mirror, search->keys, &probes);
        probe_words(search->mirror, search->keys, &probes, word);
        for (uint32_t i = 0; i < count; i++) {
            struct lone now = lone[i];
            bool holds = mirror_word_has(search->mirror, word[i], now.slot);
            now.low = holds ? probes.at[i] + 1 : now.low;
            now.high = holds ? now.high : probes.at[i];
            if (now.low < now.high) {
                lone[left++] = now;
            } else if (now.low > 0) {
                worker_set_add(&search->match->slots, now.slot);
                search->match->depth[now.slot] = now.low;
                search->match->best = now.low > search->match->best
                                          ? now.low
                                          : search->match->best;
            }
        }
        count = left;
    }
}

/* The first and the last block decide most questions. */
static void
first_round(struct search *search, uint32_t count,
            const struct worker_set *slots)
{
    struct interval all = {.low = 0, .high = count, .slots = *slots};
    struct interval inner = {.low = 1, .high = count - 1};
    struct probes probes;

    CHECK_SLOW(count > 0);
    probes.count = 1;
    probes.at[0] = 0;
    if (count > 2) {
        (void)ask(&probes, &inner, FAN - 1);
    }
    if (count > 1) {
        probes.at[probes.count++] = count - 1;
    }
    probe_fetch(search->mirror, search->keys, &probes);
    probe_read(search->mirror, search->keys, &probes);
    split(search, &all, &probes, 0, probes.count);
}

static struct worker_set
load_set(const _Atomic uint64_t *words)
{
    struct worker_set set;

    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        set.word[i] = atomic_load_explicit(&words[i], memory_order_acquire);
    }
    return set;
}

/* The slots that got holes since. */
static struct worker_set
opened_since(const struct mirror *mirror, uint64_t opened,
             struct worker_set slots)
{
    struct worker_set out = {.word = {0}};

    if (atomic_load_explicit(&mirror->opened, memory_order_acquire) == opened) {
        return out;
    }
    WORKER_SET_EACH (slot, &slots) {
        if (atomic_load_explicit(&mirror->opened_at[slot],
                                 memory_order_relaxed) > opened) {
            worker_set_add(&out, slot);
        }
    }
    return out;
}

void
mirror_match(const struct mirror *mirror, const struct worker_set *asked,
             const uint64_t *keys, size_t count, struct mirror_match *match)
{
    uint64_t opened =
        atomic_load_explicit(&mirror->opened, memory_order_acquire);
    struct worker_set walked = load_set(mirror->walked);
    struct worker_set slots = load_set(mirror->alive);
    struct search search;

    CHECK_SLOW(count == 0 || keys != NULL);
    CHECK_SLOW(count <= UINT32_MAX);
    search.mirror = mirror;
    search.keys = keys;
    search.match = match;
    search.count = 0;
    search.lone_count = 0;
    worker_set_clear(&match->slots);
    match->best = 0;
    slots = worker_set_and(&slots, asked);
    walked = worker_set_and(&slots, &walked);
    slots = worker_set_minus(&slots, &walked);
    if (count > 0 && !worker_set_empty(&slots)) {
        first_round(&search, (uint32_t)count, &slots);
        while (search.count > 0) {
            round_of(&search);
        }
        while (search.lone_count > 0) {
            halve_lone(&search);
        }
        struct worker_set late = opened_since(mirror, opened, slots);
        if (!worker_set_empty(&late)) {
            match->slots = worker_set_minus(&match->slots, &late);
            match->best = best_of(match);
            for (uint32_t i = 0; i < WORKER_WORDS; i++) {
                walked.word[i] |= late.word[i];
            }
        }
    }
    if (count > 0 && !worker_set_empty(&walked)) {
        walk_slots(mirror, keys, count, walked, match);
    }
    CHECK_SLOW(match->best <= count);
    CHECK_SLOW((match->best == 0) == worker_set_empty(&match->slots));
}
