/*
 * A stream of operations on a small radix tree under a tight bound. One byte
 * chooses, the next ones are its arguments; keys are chained from symbols of
 * two bits, or raw for keys that are no chain. Nothing may crash, what was
 * just learned is found, and the tree stays sound.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "index/base/rng.h"
#include "index/index.h"
#include "tests/fuzz/bytes.h"

#define DEPTH   40
#define WORKERS 5

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct qsbr qsbr;
static struct qsbr_reader *reader;
static uint64_t blocks_max[WORKERS];

/* A prompt: its root, and for each four blocks a byte of symbols. */
static size_t
take_prompt(struct input *in, uint64_t *root, uint64_t *keys)
{
    uint8_t head = take(in);
    size_t count = head % (DEPTH + 1);
    uint64_t key = *root = head / (DEPTH + 1) % 3;
    uint8_t symbols = 0;

    for (size_t i = 0; i < count; i++) {
        symbols = (uint8_t)(i % 4 == 0 ? take(in) : symbols >> 2);
        key = rng_mix(key ^ (symbols & 3U));
        keys[i] = key;
    }
    return count;
}

static void
insert(struct radix *radix, struct input *in, uint64_t now)
{
    uint64_t keys[DEPTH];
    uint64_t root;
    struct radix_match match;
    uint8_t who = take(in);
    uint32_t worker = who % WORKERS;
    size_t count = take_prompt(in, &root, keys);
    int rc = radix_insert(radix, root, keys, count, worker,
                          (uint8_t)(who / WORKERS % 4), now);

    CHECK(rc == 0 || rc == RADIX_E_FULL || rc == RADIX_E_GONE);
    radix_match(radix, root, keys, count, &match);
    if (rc == 0 && count <= blocks_max[worker] && count > 0) {
        CHECK(worker_set_has(&match.workers, worker));
        CHECK(match.depth[worker] == count);
    }
    CHECK(match.best <= count);
}

/* Keys from an alphabet of four: the same key under different prefixes, which
 * only a broken caller or a collision would bring. */
static void
insert_raw(struct radix *radix, struct input *in, uint64_t now)
{
    uint64_t keys[DEPTH];
    uint8_t who = take(in);
    size_t count = take(in) % DEPTH;
    struct radix_match match;

    for (size_t i = 0; i < count; i++) {
        keys[i] = take(in) % 4;
    }
    (void)!radix_insert(radix, who / WORKERS % 3, keys, count, who % WORKERS, 0,
                        now);
    radix_match(radix, 0, keys, count, &match);
    CHECK(match.best <= count);
}

static void
step(struct radix *radix, struct input *in, uint64_t now)
{
    uint8_t op = take(in);
    uint8_t who = 0;
    uint8_t max = 0;

    switch (op % 16) {
    case 0:
        radix_worker_remove(radix, take(in) % WORKERS);
        break;
    case 1:
        who = take(in);
        max = take(in);
        if (radix_worker_add(radix, who % WORKERS, max,
                             (enum radix_eviction)(who / WORKERS % 6)) == 0) {
            blocks_max[who % WORKERS] = max;
        }
        break;
    case 2:
        (void)radix_work(radix, take(in) % 32, now);
        break;
    case 3:
        if (op / 16 % 2 == 0) {
            qsbr_online(&qsbr, reader);
        } else {
            qsbr_offline(reader);
        }
        break;
    case 4:
    case 5:
        insert_raw(radix, in, now);
        break;
    default:
        insert(radix, in, now);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {.data = data, .left = size};
    struct radix *radix;
    struct radix_stats stats;
    const char *reason;
    struct radix_limits limits = {
        .bytes_max =
            80000 + (size_t)WORKERS_MAX * 256 + (size_t)take(&in) * 256,
        .namespaces_max = 2,
        .depth_max = DEPTH};

    qsbr_init(&qsbr);
    reader = qsbr_register(&qsbr);
    CHECK(radix_new(&radix, &limits, &qsbr) == 0);
    for (uint32_t worker = 0; worker < WORKERS; worker++) {
        blocks_max[worker] = 30 + worker * 20;
        CHECK(radix_worker_add(radix, worker, blocks_max[worker],
                               (enum radix_eviction)worker) == 0);
    }
    for (uint64_t now = 1; in.left > 0; now++) {
        step(radix, &in, now);
        if (now % 16 == 0) {
            CHECK(radix_check(radix, &reason));
        }
    }
    CHECK(radix_check(radix, &reason));
    radix_stats(radix, &stats);
    CHECK(stats.bytes <= limits.bytes_max);
    qsbr_offline(reader);
    radix_free(radix);
    qsbr_fini(&qsbr);
    return 0;
}
