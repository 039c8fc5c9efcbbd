/* Learns how slow workers are. */
#include "node/view/speed.h"

#include <stdlib.h>
#include <string.h>

#include "index/base/check.h"

#define ONE        256 /* of a logarithm: a factor of two */
#define STEPS      16  /* samples that a mean follows */
#define FIRST_BITS 7U  /* tokens of the first class */

/* log2 in 1/256; between powers of two a parabola, good to 1 %. value > 0. */
static int32_t
log2_of(uint64_t value)
{
    CHECK(value > 0);
    int32_t whole = 63 - __builtin_clzll(value);
    uint64_t top = whole >= 8 ? value >> (whole - 8) : value << (8 - whole);
    int32_t part = (int32_t)(top - ONE);

    return whole * ONE + part + part * (ONE - part) * 22 / (64 * ONE);
}

/* 1,000 times two to the power of log / 256; between -8 and 8. */
static uint32_t
permille_of(int32_t log)
{
    CHECK(log >= -8 * ONE && log <= 8 * ONE);
    int32_t up = log + 8 * ONE;
    int32_t part = up % ONE;
    int32_t mantissa = ONE + part - part * (ONE - part) * 22 / (64 * ONE);

    return (uint32_t)(((uint64_t)mantissa << (up / ONE)) * 1000 / ONE >> 8);
}

static int32_t
within(int32_t value, int32_t least, int32_t most)
{
    CHECK(least <= most);
    return value < least ? least : value > most ? most : value;
}

static uint32_t
class_of(uint32_t tokens)
{
    uint32_t bits = tokens == 0 ? 0 : 32 - (uint32_t)__builtin_clz(tokens);
    uint32_t class = bits > FIRST_BITS ? (bits - FIRST_BITS + 1) / 2 : 0;

    return class < SPEED_CLASSES ? class : SPEED_CLASSES - 1;
}

void
speed_add(struct speed *speed, uint32_t slot, uint32_t generation,
          uint32_t tokens, uint64_t us)
{
    CHECK(slot < WORKERS_MAX);
    struct speed_worker *worker = &speed->worker[slot];
    struct speed_class *of = &worker->of[class_of(tokens)];
    uint64_t usable = us < UINT64_MAX / 1000 ? us * 1000 : UINT64_MAX;
    uint64_t each = usable / (tokens > 0 ? tokens : 1);
    int32_t time = within(log2_of(each > 0 ? each : 1), 0, 64 * ONE);

    if (worker->generation != generation) {
        *worker = (struct speed_worker){.generation = generation};
    }
    if (of->count < SPEED_COUNT_MAX) {
        of->count++;
    }
    int32_t by = of->count < STEPS ? of->count : STEPS;
    int32_t off = time - of->time;
    if (by > 1) {
        off = within(off, -ONE, ONE);
    }
    of->time = (int16_t)(of->time + (off + (off < 0 ? -by : by) / 2) / by);
}

void
speed_take(struct speed *speed, const struct fact_decision *fact)
{
    if (fact->stream && !fact->split && fact->attempts == 1 &&
        fact->status == 200 && fact->first_token_us > fact->route_us) {
        speed_add(speed, fact->slot, fact->generation, fact->front_tokens,
                  fact->first_token_us - fact->route_us);
    }
}

void
speed_pass(struct speed *speed, uint64_t now_us)
{
    const uint64_t half_us = SPEED_HALF_MS * UINT64_C(1000);

    if (now_us < speed->faded_us + half_us) {
        return;
    }
    speed->faded_us = now_us;
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        for (uint32_t i = 0; i < SPEED_CLASSES; i++) {
            speed->worker[slot].of[i].count /= 2;
        }
    }
}

static int
compare(const void *left, const void *right)
{
    int32_t a;
    int32_t b;

    memcpy(&a, left, sizeof(a));
    memcpy(&b, right, sizeof(b));
    return (a > b) - (a < b);
}

/* Of the workers that count in the class; false: fewer than two do. */
static bool
median(const struct speed *speed, const struct worker_set *set, uint32_t class,
       int32_t *out)
{
    int32_t times[WORKERS_MAX];
    uint32_t count = 0;

    CHECK(class < SPEED_CLASSES);
    WORKER_SET_EACH (slot, set) {
        const struct speed_class *of = &speed->worker[slot].of[class];
        if (of->count >= SPEED_FLOOR) {
            times[count++] = of->time;
        }
    }
    if (count < 2) {
        return false;
    }
    qsort(times, count, sizeof(*times), compare);
    *out = (times[(count - 1) / 2] + times[count / 2]) / 2;
    return true;
}

static uint32_t
slowness(int32_t sum, int32_t samples)
{
    uint32_t permille = permille_of(
        within(sum / (samples + (int32_t)SPEED_PRIOR), -4 * ONE, 4 * ONE));

    CHECK(samples >= 0);
    if (permille < SPEED_SAME && permille * SPEED_SAME > 1000 * 1000) {
        return 1000;
    }
    return permille < SPEED_LEAST  ? SPEED_LEAST
           : permille > SPEED_MOST ? SPEED_MOST
                                   : permille;
}

bool
speed_slowness(const struct speed *speed, const struct worker_set *set,
               uint32_t *permille)
{
    int32_t usual[SPEED_CLASSES];
    bool known[SPEED_CLASSES];
    bool uneven = false;

    for (uint32_t i = 0; i < SPEED_CLASSES; i++) {
        known[i] = median(speed, set, i, &usual[i]);
    }
    WORKER_SET_EACH (slot, set) {
        int32_t sum = 0;
        int32_t samples = 0;
        for (uint32_t i = 0; i < SPEED_CLASSES; i++) {
            const struct speed_class *of = &speed->worker[slot].of[i];
            if (known[i] && of->count >= SPEED_FLOOR) {
                sum += (of->time - usual[i]) * of->count;
                samples += of->count;
            }
        }
        permille[slot] = slowness(sum, samples);
        uneven = uneven || permille[slot] != 1000;
    }
    return uneven;
}

uint32_t
speed_rate(const struct speed *speed, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    for (uint32_t i = SPEED_CLASSES; i-- > 0;) {
        const struct speed_class *of = &speed->worker[slot].of[i];
        if (of->count >= SPEED_FLOOR) {
            /* 2^30 / 2^time nearly tokens per second, at 10^9 ns. */
            int32_t log = log2_of(1000000000) - of->time;
            uint64_t whole =
                log < 0 ? 0 : (uint64_t)1 << within(log / ONE, 0, 30);
            return (uint32_t)(whole * permille_of(log % ONE) / 1000);
        }
    }
    return 0;
}
