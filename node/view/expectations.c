/* An index of expected and of proved blocks (a tier each), and a queue for each
 * kind that says when they are given up. */
#include "node/view/expectations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/counter.h"
#include "index/base/mutant.h"
#include "index/base/ring.h"

#define QUEUE_BYTES_MIN ((size_t)4096)
#define WORDS_MAX       4096U /* handed to the index at a time */
#define EXPECTED        TIER_DEVICE
#define PROVED          TIER_HOST

/* Blocks added at one time: the queue's record. */
struct entry {
    uint64_t due_us;
    uint32_t slot;
    uint32_t life; /* of the slot */
    uint32_t count;
    uint32_t unused;
    uint64_t keys[];
};

struct expectations {
    struct mirror *index;
    struct ring queue;  /* by age; used by one thread */
    struct ring proved; /* the same */
    uint64_t ttl_us;
    uint64_t proved_us;
    struct worker_set open;
    uint32_t life[WORKERS_MAX]; /* owners that the slot has had */
    uint64_t blocks;            /* (slot, block) pairs of all open slots */
    struct gauge any;           /* 1: blocks is not 0 */
    struct expectations_stats stats;
    struct mirror_match match;
    uint64_t words[WORDS_MAX + 1];
};

/* A quarter and an eighth for the queues, as powers of two; the rest for the
 * index. */
static size_t
queue_bytes(size_t bytes_max, size_t part)
{
    size_t size = QUEUE_BYTES_MIN;

    while (size * 2 <= bytes_max / part) {
        size *= 2;
    }
    return size;
}

int
expectations_new(struct expectations **out,
                 const struct expectations_limits *limits, struct qsbr *qsbr)
{
    size_t queue = queue_bytes(limits->bytes_max, 4);
    size_t proved = queue_bytes(limits->bytes_max, 8);
    struct mirror_limits index = {.bytes_max =
                                      limits->bytes_max - queue - proved};

    CHECK(qsbr != NULL);
    *out = NULL;
    if (limits->bytes_max <= queue + proved) {
        return -EINVAL;
    }
    struct expectations *e = calloc(1, sizeof(*e));
    if (e == NULL) {
        return -ENOMEM;
    }
    e->ttl_us = limits->ttl_ms * UINT64_C(1000);
    e->proved_us = limits->proved_ms * UINT64_C(1000);
    int error = ring_init(&e->queue, queue);
    if (error == 0) {
        error = ring_init(&e->proved, proved);
    }
    if (error == 0) {
        error = mirror_new(&e->index, &index, qsbr);
    }
    if (error < 0) {
        ring_fini(&e->queue);
        ring_fini(&e->proved);
        free(e);
        return error;
    }
    *out = e;
    return 0;
}

void
expectations_free(struct expectations *expectations)
{
    if (expectations != NULL) {
        mirror_free(expectations->index);
        ring_fini(&expectations->queue);
        ring_fini(&expectations->proved);
        free(expectations);
    }
}

int
expectations_open(struct expectations *expectations, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    int outcome = mirror_open_at(expectations->index, slot);

    if (outcome == 0) {
        CHECK(!worker_set_has(&expectations->open, slot));
        worker_set_add(&expectations->open, slot);
        expectations->life[slot]++;
    }
    return outcome;
}

bool
expectations_admit(struct expectations *expectations, uint32_t slot)
{
    return expectations_is_open(expectations, slot) ||
           expectations_open(expectations, slot) == 0;
}

static void
count_blocks(struct expectations *e, uint64_t before, uint64_t after)
{
    CHECK(e->blocks >= before);
    e->blocks += after - before;
    gauge_set(&e->any, e->blocks != 0);
}

void
expectations_close(struct expectations *expectations, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX && worker_set_has(&expectations->open, slot));
    count_blocks(expectations, mirror_slot_blocks(expectations->index, slot),
                 0);
    worker_set_remove(&expectations->open, slot);
    mirror_close(expectations->index, slot);
}

void
expectations_gone(struct expectations *expectations, uint32_t slot)
{
    if (expectations_is_open(expectations, slot)) {
        expectations_close(expectations, slot);
    }
}

/* One op over any number of keys. The index has holes wherever the mirror has
 * blocks, so it is always walked. */
static int
apply(struct expectations *e, uint32_t slot, enum event_kind kind,
      enum tier tier, const uint64_t *keys, uint32_t count)
{
    uint64_t before = mirror_slot_blocks(e->index, slot);
    int outcome = 0;

    CHECK(slot < WORKERS_MAX && worker_set_has(&e->open, slot));
    for (uint32_t at = 0; at < count && outcome == 0;) {
        uint32_t n = count - at < WORDS_MAX ? count - at : WORDS_MAX;
        e->words[0] = event_op(kind, tier, n);
        memcpy(e->words + 1, keys + at, n * sizeof(*keys));
        outcome =
            mirror_apply(e->index, slot, e->words, n + 1, EVENT_HOLES_UNKNOWN);
        at += n;
    }
    count_blocks(e, before, mirror_slot_blocks(e->index, slot));
    return outcome;
}

/* False: no entry would ever give them up. */
static bool
enqueue(struct expectations *e, struct ring *queue, uint64_t due_us,
        uint32_t slot, const uint64_t *keys, uint32_t count)
{
    struct entry *entry =
        ring_reserve(queue, sizeof(*entry) + count * sizeof(*keys));

    CHECK(slot < WORKERS_MAX && count != 0 && worker_set_has(&e->open, slot));
    if (entry == NULL) {
        return false;
    }
    *entry = (struct entry){
        .due_us = due_us,
        .slot = slot,
        .life = e->life[slot],
        .count = count,
    };
    memcpy(entry->keys, keys, count * sizeof(*keys));
    ring_commit(queue);
    return true;
}

void
expectations_add(struct expectations *expectations, uint32_t slot,
                 const uint64_t *keys, uint32_t count, uint64_t now_us)
{
    struct expectations *e = expectations;

    if (enqueue(e, &e->queue, now_us + e->ttl_us, slot, keys, count) &&
        apply(e, slot, EVENT_STORE, EXPECTED, keys, count) == 0) {
        e->stats.added += count;
    } else {
        e->stats.refused += count; /* some of it may be in */
    }
}

void
expectations_prove(struct expectations *expectations, uint32_t slot,
                   const uint64_t *keys, uint32_t count, uint64_t now_us)
{
    struct expectations *e = expectations;

    if (enqueue(e, &e->proved, now_us + e->proved_us, slot, keys, count) &&
        apply(e, slot, EVENT_STORE, PROVED, keys, count) == 0) {
        e->stats.proved += count;
    } else {
        e->stats.refused += count;
    }
}

bool
expectations_is_open(const struct expectations *expectations, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    return worker_set_has(&expectations->open, slot);
}

/* How many from the first on an index has of a slot. */
static uint32_t
depth_in(struct expectations *e, const struct mirror *index, uint32_t slot,
         const uint64_t *keys, uint32_t count)
{
    struct worker_set asked;

    CHECK(slot < WORKERS_MAX);
    if (mirror_slot_blocks(index, slot) == 0) {
        return 0;
    }
    worker_set_clear(&asked);
    worker_set_add(&asked, slot);
    mirror_match(index, &asked, keys, count, &e->match);
    CHECK(e->match.best <= count);
    return e->match.best;
}

uint32_t
expectations_depth(struct expectations *expectations,
                   const struct mirror *mirror, uint32_t slot,
                   const uint64_t *keys, uint32_t count)
{
    uint32_t held =
        mirror != NULL ? depth_in(expectations, mirror, slot, keys, count) : 0;

    return held + depth_in(expectations, expectations->index, slot, keys + held,
                           count - held);
}

void
expectations_add_missing(struct expectations *expectations,
                         const struct mirror *mirror, uint32_t slot,
                         const uint64_t *keys, uint32_t count, uint64_t now_us)
{
    uint32_t held = depth_in(expectations, mirror, slot, keys, count);

    if (held < count) {
        expectations_add(expectations, slot, keys + held, count - held, now_us);
    }
}

/* These blocks are not expected, or not proved, any more; returns how many are
 * neither now and were one. */
static uint64_t
end(struct expectations *e, uint32_t slot, enum tier tier, const uint64_t *keys,
    uint32_t count)
{
    uint64_t before = mirror_slot_blocks(e->index, slot);

    (void)apply(e, slot, EVENT_REMOVE, tier, keys, count);
    CHECK(mirror_slot_blocks(e->index, slot) <= before);
    return before - mirror_slot_blocks(e->index, slot);
}

void
expectations_take_back(struct expectations *expectations, uint32_t slot,
                       const uint64_t *keys, uint32_t count)
{
    CHECK(slot < WORKERS_MAX && worker_set_has(&expectations->open, slot));
    expectations->stats.taken_back +=
        end(expectations, slot, EXPECTED, keys, count);
}

void
expectations_disprove(struct expectations *expectations, uint32_t slot,
                      const uint64_t *keys, uint32_t count)
{
    CHECK(slot < WORKERS_MAX && worker_set_has(&expectations->open, slot));
    expectations->stats.disproved += count; /* some were expected alone */
    (void)end(expectations, slot, PROVED, keys, count);
}

void
expectations_learned(struct expectations *expectations, uint32_t slot,
                     const uint64_t *keys, uint32_t count)
{
    CHECK(slot < WORKERS_MAX && worker_set_has(&expectations->open, slot));
    if (mirror_slot_blocks(expectations->index, slot) != 0) {
        expectations->stats.confirmed +=
            end(expectations, slot, EXPECTED, keys, count);
    }
}

void
expectations_confirm(struct expectations *expectations, uint32_t slot,
                     const uint64_t *words, uint32_t count)
{
    CHECK(slot < WORKERS_MAX);
    if (!worker_set_has(&expectations->open, slot) ||
        mirror_slot_blocks(expectations->index, slot) == 0) {
        return;
    }
    size_t unused;
    bool proofs = ring_peek(&expectations->proved, &unused) != NULL;
    for (uint32_t at = 0; at < count;) {
        uint32_t keys = event_op_count(words[at]);
        if (event_op_kind(words[at]) == EVENT_STORE) {
            expectations->stats.confirmed +=
                end(expectations, slot, EXPECTED, words + at + 1, keys);
        }
        if (proofs) {
            (void)end(expectations, slot, PROVED, words + at + 1, keys);
        }
        at += 1 + keys;
    }
}

/* Returns how many blocks were due. */
static uint32_t
give_up(struct expectations *e, struct ring *queue, enum tier tier,
        uint32_t budget, uint64_t now_us)
{
    uint32_t done = 0;
    size_t size;
    const struct entry *entry;

    while (done < budget && (entry = ring_peek(queue, &size)) != NULL &&
           entry->due_us <= now_us) {
        CHECK(entry->slot < WORKERS_MAX && entry->count > 0);
        if (worker_set_has(&e->open, entry->slot) &&
            e->life[entry->slot] == entry->life &&
            mirror_slot_blocks(e->index, entry->slot) > 0 &&
            !MUTANT(EXPECT_STAYS)) {
            e->stats.given_up +=
                end(e, entry->slot, tier, entry->keys, entry->count);
        }
        done += entry->count;
        ring_consume(queue);
    }
    return done;
}

bool
expectations_work(struct expectations *expectations, uint32_t budget,
                  uint64_t now_us)
{
    struct expectations *e = expectations;
    uint32_t done = give_up(e, &e->queue, EXPECTED, budget, now_us);

    done += give_up(e, &e->proved, PROVED, budget, now_us);
    return mirror_work(e->index, budget) || done >= budget;
}

bool
expectations_any(const struct expectations *expectations)
{
    return gauge_read(&expectations->any) != 0;
}

const struct mirror *
expectations_index(const struct expectations *expectations)
{
    return expectations->index;
}

void
expectations_stats(const struct expectations *expectations,
                   struct expectations_stats *stats)
{
    struct mirror_stats index;

    mirror_stats(expectations->index, &index);
    *stats = expectations->stats;
    stats->bytes = index.bytes + expectations->queue.size_bytes +
                   expectations->proved.size_bytes;
    stats->blocks = index.holder_blocks;
}
