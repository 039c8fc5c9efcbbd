/* Decisions by age, those that are not all confirmed by slot, and the index of
 * what is shared. */
#include "chaos/replay/replay_expect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX   4096U /* handed to the index at a time */
#define WORK_BUDGET 100000U

/*
 * What a decision is expected to bring. Behind the keys lies a filter: a bit for
 * each key, set by its own bits, in so many words (a power of two) that most
 * others are not set.
 */
struct decision {
    struct decision *next;      /* by age */
    struct decision *next_open; /* of this slot, by age */
    uint64_t due_us;
    uint32_t slot;
    uint32_t depth; /* of its first block */
    uint32_t count;
    uint32_t front; /* the first blocks, which were confirmed in their order */
    uint32_t filter_words;
    bool indexed; /* the others are in the index, or were */
    uint64_t keys[];
};

struct replay_expect {
    struct mirror *index;
    uint64_t ttl_us;
    uint32_t slots;
    size_t bytes_max;
    size_t bytes; /* of decisions */
    struct decision *oldest;
    struct decision *newest;
    struct decision *open[WORKERS_MAX]; /* not all confirmed */
    struct mirror_match match;
    uint32_t words_count;
    uint64_t words[WORDS_MAX + 1]; /* an op */
};

int
replay_expect_new(struct replay_expect **out, size_t bytes_max, uint32_t ttl_ms,
                  uint32_t slots, struct qsbr *qsbr)
{
    struct mirror_limits limits = {.bytes_max = bytes_max};
    struct replay_expect *e = calloc(1, sizeof(*e));

    CHECK(slots > 0 && slots <= WORKERS_MAX);
    *out = NULL;
    if (e == NULL) {
        return -ENOMEM;
    }
    e->ttl_us = ttl_ms * UINT64_C(1000);
    e->slots = slots;
    e->bytes_max = bytes_max;
    int outcome = mirror_new(&e->index, &limits, qsbr);
    for (uint32_t i = 0; i < slots && outcome == 0; i++) {
        outcome = mirror_open_at(e->index, i);
        CHECK(outcome == 0);
    }
    if (outcome != 0) {
        free(e);
        return -ENOMEM;
    }
    *out = e;
    return 0;
}

void
replay_expect_free(struct replay_expect *expect)
{
    if (expect == NULL) {
        return;
    }
    for (struct decision *d = expect->oldest; d != NULL;) {
        struct decision *next = d->next;
        free(d);
        d = next;
    }
    mirror_free(expect->index);
    free(expect);
}

/* ---- the index ---- */

/* Puts the gathered keys into the index, or takes them out. False: no room. */
static bool ON_CONTROL
apply(struct replay_expect *e, uint32_t slot, enum event_kind kind)
{
    uint32_t count = e->words_count;

    CHECK(slot < e->slots && count <= WORDS_MAX);
    e->words_count = 0;
    if (count == 0) {
        return true;
    }
    e->words[0] = event_op(kind, TIER_DEVICE, count);
    return mirror_apply(e->index, slot, e->words, count + 1,
                        EVENT_HOLES_UNKNOWN) == 0;
}

static bool ON_CONTROL
gather(struct replay_expect *e, uint32_t slot, enum event_kind kind,
       const uint64_t *keys, uint32_t count)
{
    bool whole = true;

    CHECK(e->words_count <= WORDS_MAX);
    for (uint32_t at = 0; at < count;) {
        uint32_t room = WORDS_MAX - e->words_count;
        uint32_t n = count - at < room ? count - at : room;
        memcpy(e->words + 1 + e->words_count, keys + at, n * sizeof(*keys));
        e->words_count += n;
        at += n;
        if (e->words_count == WORDS_MAX) {
            whole = apply(e, slot, kind) && whole;
        }
    }
    return whole;
}

static bool ON_CONTROL
put_into_index(struct replay_expect *e, struct decision *d)
{
    CHECK(!d->indexed && e->words_count == 0);
    d->indexed = true;
    bool whole = gather(e, d->slot, EVENT_STORE, d->keys + d->front,
                        d->count - d->front);
    return apply(e, d->slot, EVENT_STORE) && whole;
}

/* ---- decisions ---- */

/* Whether a prompt's part has blocks that are, or may be, expected for this one.
 * Of two prompts that share a block all before it are the same. */
static bool
shares(const struct decision *d, const struct replay_part *part)
{
    uint32_t first = d->depth + d->front;
    uint32_t at = first > part->depth ? first : part->depth;

    CHECK_SLOW(d->front <= d->count);
    return at < d->depth + d->count && at < part->depth + part->count &&
           d->keys[at - d->depth] == part->keys[at - part->depth];
}

/* Those that share blocks with this part are in the index from now on. True:
 * there are some. last: of the slot's. */
static bool ON_CONTROL
settle(struct replay_expect *e, uint32_t slot, const struct replay_part *part,
       struct decision ***last)
{
    struct decision **at = &e->open[slot];
    bool any = false;

    CHECK(slot < e->slots);
    for (; *at != NULL; at = &(*at)->next_open) {
        if (shares(*at, part)) {
            any = true;
            if (!(*at)->indexed) {
                (void)put_into_index(e, *at);
            }
        }
    }
    *last = at;
    return any;
}

static uint64_t *
filter_of(struct decision *d)
{
    return d->keys + d->count;
}

static uint64_t
filter_bit(const struct decision *d, uint64_t key, uint32_t *word)
{
    *word = (uint32_t)(key >> 6) & (d->filter_words - 1);
    return UINT64_C(1) << (key & 63);
}

static size_t
bytes_of(uint32_t count, uint32_t filter_words)
{
    return sizeof(struct decision) +
           ((size_t)count + filter_words) * sizeof(uint64_t);
}

static struct decision *
decision_new(struct replay_expect *e, const struct replay_part *part)
{
    uint32_t words = 1;

    CHECK(part->count > 0);
    while (words < part->count / 4) { /* 16 bits a key, or more */
        words *= 2;
    }
    size_t bytes = bytes_of(part->count, words);
    struct decision *d =
        bytes <= e->bytes_max - e->bytes ? malloc(bytes) : NULL;
    if (d == NULL) {
        return NULL;
    }
    e->bytes += bytes;
    *d = (struct decision){
        .depth = part->depth, .count = part->count, .filter_words = words};
    memcpy(d->keys, part->keys, part->count * sizeof(*part->keys));
    memset(filter_of(d), 0, words * sizeof(uint64_t));
    for (uint32_t i = 0; i < part->count; i++) {
        uint32_t word;
        uint64_t bit = filter_bit(d, part->keys[i], &word);
        filter_of(d)[word] |= bit;
    }
    return d;
}

bool
replay_expect_add(struct replay_expect *expect, uint32_t slot,
                  struct replay_part part, uint64_t now_us)
{
    struct replay_expect *e = expect;
    struct decision **last;
    bool shared = settle(e, slot, &part, &last);
    struct decision *d = decision_new(e, &part);

    CHECK(e->newest == NULL || e->newest->due_us <= now_us + e->ttl_us);
    if (d == NULL) {
        return false;
    }
    d->slot = slot;
    d->due_us = now_us + e->ttl_us;
    *last = d;
    if (e->newest != NULL) {
        e->newest->next = d;
    } else {
        e->oldest = d;
    }
    e->newest = d;
    return !shared || put_into_index(e, d);
}

/* ---- events ---- */

static bool
is_next(const struct decision *d, uint64_t key)
{
    return d->front < d->count && d->keys[d->front] == key;
}

/* Whether it is one of those that were not confirmed yet, but not the next. */
static bool
is_later(struct decision *d, uint64_t key)
{
    uint32_t word;
    uint64_t bit = filter_bit(d, key, &word);

    CHECK_SLOW(!d->indexed);
    if ((filter_of(d)[word] & bit) == 0) {
        return false;
    }
    for (uint32_t i = d->front; i < d->count; i++) {
        if (d->keys[i] == key) {
            return true;
        }
    }
    return false;
}

/* The decision outside of the index whose next block this is; NULL: there is
 * none, so it may be in the index. */
static struct decision *ON_CONTROL
find(struct replay_expect *e, uint32_t slot, uint64_t key)
{
    for (struct decision *d = e->open[slot]; d != NULL; d = d->next_open) {
        if (is_next(d, key)) {
            if (!d->indexed) {
                return d;
            }
            d->front++; /* and others may have it, too */
        } else if (!d->indexed && is_later(d, key)) {
            (void)apply(e, slot, EVENT_REMOVE);
            (void)put_into_index(e, d);
        }
    }
    return NULL;
}

static void ON_CONTROL
confirm(struct replay_expect *e, uint32_t slot, const uint64_t *keys,
        uint32_t count)
{
    struct decision *d = NULL;

    CHECK(e->words_count == 0);
    for (uint32_t i = 0; i < count; i++) {
        if (d == NULL || !is_next(d, keys[i])) {
            d = find(e, slot, keys[i]);
        }
        if (d != NULL) {
            d->front++;
        } else if (mirror_slot_blocks(e->index, slot) > 0) {
            (void)gather(e, slot, EVENT_REMOVE, &keys[i], 1);
        }
    }
    (void)apply(e, slot, EVENT_REMOVE);
}

static void
close_confirmed(struct replay_expect *e, uint32_t slot)
{
    struct decision **at = &e->open[slot];

    while (*at != NULL) {
        struct decision *d = *at;
        if (d->front == d->count) {
            *at = d->next_open;
            d->next_open = NULL;
        } else {
            at = &d->next_open;
        }
    }
}

void
replay_expect_confirm(struct replay_expect *expect, uint32_t slot,
                      const uint64_t *words, uint32_t count)
{
    CHECK(slot < expect->slots);
    for (uint32_t at = 0; at < count;) {
        uint32_t keys = event_op_count(words[at]);
        CHECK(keys < count - at);
        if (event_op_kind(words[at]) == EVENT_STORE &&
            (expect->open[slot] != NULL ||
             mirror_slot_blocks(expect->index, slot) > 0)) {
            confirm(expect, slot, words + at + 1, keys);
        }
        at += 1 + keys;
    }
    close_confirmed(expect, slot);
}

/* ---- who looks ---- */

void
replay_expect_settle(struct replay_expect *expect, struct replay_part part)
{
    struct decision **unused;

    CHECK(part.count == 0 || part.keys != NULL);
    for (uint32_t slot = 0; slot < expect->slots; slot++) {
        (void)settle(expect, slot, &part, &unused);
    }
}

/* How many from the first on an index has of a slot. */
static uint32_t
depth_in(struct replay_expect *e, const struct mirror *index, uint32_t slot,
         const struct replay_part *part)
{
    struct worker_set asked;

    CHECK(slot < WORKERS_MAX);
    worker_set_clear(&asked);
    worker_set_add(&asked, slot);
    mirror_match(index, &asked, part->keys, part->count, &e->match);
    return e->match.best;
}

uint32_t
replay_expect_depth(struct replay_expect *expect, const struct mirror *mirror,
                    uint32_t slot, struct replay_part part, uint32_t *held)
{
    struct decision **unused;

    *held = mirror != NULL ? depth_in(expect, mirror, slot, &part) : 0;
    CHECK(*held <= part.count);
    part = replay_part_from(part, *held);
    (void)settle(expect, slot, &part, &unused);
    return *held + depth_in(expect, expect->index, slot, &part);
}

/* ---- time ---- */

/* The oldest: what it has is expected no more, whoever else waits for it. */
static void ON_CONTROL
give_up(struct replay_expect *e)
{
    struct decision *d = e->oldest;
    struct replay_part all = {
        .keys = d->keys, .depth = d->depth, .count = d->count};
    struct decision **unused;

    e->oldest = d->next;
    if (e->oldest == NULL) {
        e->newest = NULL;
    }
    d->front = d->count;
    close_confirmed(e, d->slot);
    (void)settle(e, d->slot, &all, &unused);
    if (mirror_slot_blocks(e->index, d->slot) > 0) {
        (void)gather(e, d->slot, EVENT_REMOVE, d->keys, d->count);
        (void)apply(e, d->slot, EVENT_REMOVE);
    }
    e->bytes -= bytes_of(d->count, d->filter_words);
    free(d);
}

void
replay_expect_work(struct replay_expect *expect, uint64_t now_us)
{
    while (expect->oldest != NULL && expect->oldest->due_us <= now_us) {
        give_up(expect);
    }
    CHECK(expect->oldest != NULL || expect->bytes == 0);
    (void)mirror_work(expect->index, WORK_BUDGET);
}

const struct mirror *
replay_expect_index(const struct replay_expect *expect)
{
    return expect->index;
}

bool
replay_expect_check(const struct replay_expect *expect, const char **reason)
{
    size_t bytes = 0;

    for (const struct decision *d = expect->oldest; d != NULL; d = d->next) {
        bytes += bytes_of(d->count, d->filter_words);
        if (d->front > d->count) {
            *reason = "more was confirmed than was expected";
            return false;
        }
    }
    if (bytes != expect->bytes) {
        *reason = "decisions have another size";
        return false;
    }
    return mirror_check(expect->index, reason);
}
