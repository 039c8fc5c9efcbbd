/*
 * A stream of operations on a small mirror under a bound, held to a plain
 * model. One byte chooses, the next ones are its arguments; keys are those of
 * a tree of 64 blocks, where block i follows block i / 2. Nothing may crash,
 * every answer is the model's (or less, where something was refused), and the
 * mirror stays sound.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"
#include "tests/fuzz/bytes.h"

#define NODES 64
#define SLOTS 10
#define WORDS 64
#define PATH  8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct qsbr qsbr;
static struct qsbr_reader *reader;
static struct mirror *mirror;
static uint32_t slots[SLOTS];
static uint8_t tiers[SLOTS][NODES];
static bool shut[SLOTS];

static uint64_t
key_of(uint32_t node)
{
    return node == 9 ? 0 : rng_mix(node);
}

/* Node 0 stands for no block; 1 is the only first one. */
static uint32_t
holes_of(uint32_t s)
{
    uint32_t holes = 0;

    for (uint32_t i = 2; i < NODES; i++) {
        holes += tiers[s][i] != 0 && tiers[s][i / 2] == 0;
    }
    return holes;
}

static void
query(uint32_t node)
{
    uint32_t path[PATH];
    uint64_t keys[PATH];
    uint32_t count = 0;
    struct mirror_match match;
    struct worker_set all;

    for (uint32_t at = node; at > 0; at /= 2) {
        path[count++] = at;
    }
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = key_of(path[count - 1 - i]);
    }
    memset(&all, 0xFF, sizeof(all));
    mirror_match(mirror, &all, keys, count, &match);
    for (uint32_t s = 0; s < SLOTS; s++) {
        uint32_t depth = 0;
        if (slots[s] == WORKER_NONE) {
            continue;
        }
        while (depth < count && tiers[s][path[count - 1 - depth]] != 0) {
            depth++;
        }
        uint32_t got =
            worker_set_has(&match.slots, slots[s]) ? match.depth[slots[s]] : 0;
        CHECK(shut[s] ? got <= depth : got == depth);
    }
}

static void
score(uint32_t node, uint32_t s)
{
    struct mirror_weights weights = {.permille = {1000, 100, 10, 1}};
    uint64_t key = key_of(node);
    enum tier worst;

    if (slots[s] == WORKER_NONE || shut[s] || tiers[s][node] == 0) {
        return;
    }
    enum tier tier = (enum tier)__builtin_ctz(tiers[s][node]);
    CHECK(mirror_score(mirror, slots[s], &key, 1, &weights, &worst) ==
          weights.permille[tier]);
    CHECK(worst == tier);
}

/* A record: ops of a node and what to do with it. */
static void
record(struct input *in, uint32_t s)
{
    uint64_t words[WORDS];
    struct event_words out = {.words = words, .max = WORDS};
    uint32_t ops = take(in) % 24;

    if (slots[s] == WORKER_NONE || shut[s]) {
        return;
    }
    for (uint32_t i = 0; i < ops; i++) {
        uint8_t what = take(in);
        uint32_t node = 1 + take(in) % (NODES - 1);
        enum tier tier = (enum tier)(what / 2 % TIERS);
        uint64_t *key = event_words_add(
            &out, what % 2 == 0 ? EVENT_STORE : EVENT_REMOVE, tier, 1);
        CHECK(key != NULL);
        *key = key_of(node);
        uint8_t bit = (uint8_t)(1U << tier);
        tiers[s][node] = (uint8_t)(what % 2 == 0 ? tiers[s][node] | bit
                                                 : tiers[s][node] & ~bit);
    }
    int rc = mirror_apply(mirror, slots[s], words, out.count,
                          ops % 8 == 0 ? EVENT_HOLES_UNKNOWN : holes_of(s));
    CHECK(rc == 0 || rc == MIRROR_E_FULL);
    shut[s] = rc != 0;
}

static void
open_or_close(uint32_t s)
{
    if (slots[s] != WORKER_NONE) {
        mirror_close(mirror, slots[s]);
        slots[s] = WORKER_NONE;
        memset(tiers[s], 0, sizeof(tiers[s]));
        shut[s] = false;
    } else if (mirror_open(mirror, &slots[s]) != 0) {
        slots[s] = WORKER_NONE;
    }
}

static void
step(struct input *in)
{
    uint8_t op = take(in);
    uint32_t s = op / 8 % SLOTS;

    switch (op % 8) {
    case 0:
        open_or_close(s);
        break;
    case 1:
        (void)mirror_work(mirror, take(in));
        break;
    case 2:
        if (op / 8 % 2 == 0) {
            qsbr_online(&qsbr, reader);
        } else {
            qsbr_offline(reader);
        }
        break;
    case 3:
        query(1 + take(in) % (NODES - 1));
        break;
    case 4:
        score(1 + take(in) % (NODES - 1), s);
        break;
    default:
        record(in, s);
    }
}

static void
check(size_t bytes_max)
{
    struct mirror_stats stats;
    const char *reason;

    CHECK(mirror_check(mirror, &reason));
    mirror_stats(mirror, &stats);
    CHECK(stats.bytes <= bytes_max);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.data = data, .left = size};
    struct mirror_limits limits = {
        .bytes_max = 40000 + (size_t)WORKERS_MAX * 96 + take(&in) * 512UL};

    memset(tiers, 0, sizeof(tiers));
    memset(shut, 0, sizeof(shut));
    qsbr_init(&qsbr);
    reader = qsbr_register(&qsbr);
    CHECK(mirror_new(&mirror, &limits, &qsbr) == 0);
    for (uint32_t s = 0; s < SLOTS; s++) {
        slots[s] = WORKER_NONE;
        open_or_close(s);
    }
    for (uint32_t i = 0; in.left > 0; i++) {
        step(&in);
        if (i % 32 == 0) {
            check(limits.bytes_max);
        }
    }
    for (uint32_t node = 1; node < NODES; node++) {
        query(node);
    }
    check(limits.bytes_max);
    qsbr_offline(reader);
    mirror_free(mirror);
    qsbr_fini(&qsbr);
    return 0;
}
