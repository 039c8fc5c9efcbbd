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

static uint32_t
step_of(uint32_t requests)
{
    uint32_t class = requests == 0 ? 0 : 31 - (uint32_t)__builtin_clz(requests);

    return SPEED_CLASSES + (class < SPEED_STEPS ? class : SPEED_STEPS - 1);
}

static uint64_t
ns_of(uint64_t us)
{
    return us < UINT64_MAX / 1000 ? us * 1000 : UINT64_MAX;
}

static struct speed_worker *
worker_of(struct speed *speed, uint32_t slot, uint32_t generation)
{
    CHECK(slot < WORKERS_MAX);
    struct speed_worker *worker = &speed->worker[slot];

    if (worker->generation != generation) {
        *worker = (struct speed_worker){.generation = generation};
    }
    return worker;
}

/* The mean after one more sample, which is the by-th or counts as that. */
static int16_t
follow(int16_t mean, int32_t sample, int32_t by)
{
    int32_t off = sample - mean;

    CHECK(by > 0);
    if (by > 1) {
        off = within(off, -ONE, ONE);
    }
    return (int16_t)(mean + (off + (off < 0 ? -by : by) / 2) / by);
}

static void
learn(struct speed_mean *of, uint32_t number, uint64_t ns)
{
    if (of->count < SPEED_COUNT_MAX) {
        of->count++;
    }
    int32_t by = of->count < STEPS ? of->count : STEPS;
    of->time = follow(of->time, log2_of(ns > 0 ? ns : 1), by);
    of->number = follow(of->number, log2_of(number > 0 ? number : 1), by);
}

void
speed_add(struct speed *speed, uint32_t slot, uint32_t generation,
          uint32_t tokens, uint64_t us)
{
    learn(&worker_of(speed, slot, generation)->of[class_of(tokens)], tokens,
          ns_of(us) / (tokens > 0 ? tokens : 1));
}

void
speed_add_step(struct speed *speed, uint32_t slot, uint32_t generation,
               uint32_t requests, uint64_t us)
{
    learn(&worker_of(speed, slot, generation)->of[step_of(requests)], requests,
          ns_of(us));
}

void
speed_take(struct speed *speed, const struct fact_decision *fact,
           uint32_t away_us)
{
    if (fact->stream && !fact->split && fact->attempts == 1 &&
        fact->status == 200 && fact->first_token_us > fact->route_us) {
        uint64_t took_us = fact->first_token_us - fact->route_us;
        speed_add(speed, fact->slot, fact->generation, fact->front_tokens,
                  took_us > away_us ? took_us - away_us : 1);
        if (fact->completion_tokens > 1 && fact->resumed == 0 &&
            fact->duration_us > fact->first_token_us) {
            speed_add_step(
                speed, fact->slot, fact->generation,
                fact->load < UINT32_MAX ? fact->load + 1 : fact->load,
                (fact->duration_us - fact->first_token_us) /
                    (fact->completion_tokens - 1));
        }
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
        for (uint32_t i = 0; i < SPEED_CLASSES + SPEED_STEPS; i++) {
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

static int32_t
middle_of(int32_t *values, uint32_t count)
{
    CHECK(count > 0);
    qsort(values, count, sizeof(*values), compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* Of the workers that count in the class; false: fewer than that do. */
static bool
median(const struct speed *speed, const struct worker_set *set, uint32_t class,
       uint32_t fewest, struct speed_mean *out)
{
    int32_t times[WORKERS_MAX];
    int32_t numbers[WORKERS_MAX];
    uint32_t count = 0;

    CHECK(class < SPEED_CLASSES + SPEED_STEPS && fewest > 0);
    WORKER_SET_EACH (slot, set) {
        const struct speed_mean *of = &speed->worker[slot].of[class];
        if (of->count >= SPEED_FLOOR) {
            numbers[count] = of->number;
            times[count++] = of->time;
        }
    }
    if (count < fewest) {
        return false;
    }
    *out = (struct speed_mean){
        .time = (int16_t)middle_of(times, count),
        .number = (int16_t)middle_of(numbers, count),
    };
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
    struct speed_mean usual[SPEED_CLASSES];
    bool known[SPEED_CLASSES];
    bool uneven = false;

    for (uint32_t i = 0; i < SPEED_CLASSES; i++) {
        known[i] = median(speed, set, i, 2, &usual[i]);
    }
    WORKER_SET_EACH (slot, set) {
        int32_t sum = 0;
        int32_t samples = 0;
        for (uint32_t i = 0; i < SPEED_CLASSES; i++) {
            const struct speed_mean *of = &speed->worker[slot].of[i];
            if (known[i] && of->count >= SPEED_FLOOR) {
                sum += (of->time - usual[i].time) * of->count;
                samples += of->count;
            }
        }
        permille[slot] = slowness(sum, samples);
        uneven = uneven || permille[slot] != 1000;
    }
    return uneven;
}

/* Two to the power of log / 256, at most SPEED_ANY. */
static uint32_t
power_of(int32_t log)
{
    int32_t bits = within(log, -8 * ONE, 30 * ONE) + 8 * ONE;
    uint64_t whole = (uint64_t)permille_of(bits % ONE) << (bits / ONE);

    return (uint32_t)(whole / 1000 >> 8);
}

/* The time of the sums of a class: of whole prompts, or of one step. */
static int32_t
time_of(const struct speed_mean *mean, bool steps)
{
    return steps ? mean->time : mean->time + mean->number;
}

/* The largest number up to which a worker of the set takes at most us: of tokens
 * before an answer, or of requests in flight for a step. */
static uint32_t
reach(const struct speed *speed, const struct worker_set *set, bool steps,
      uint64_t us)
{
    const uint32_t first = steps ? SPEED_CLASSES : 0;
    const uint32_t count = steps ? SPEED_STEPS : SPEED_CLASSES;
    int32_t most = log2_of(ns_of(us) | 1);
    struct speed_mean in = {0};  /* the last that is in time */
    struct speed_mean out = {0}; /* the first after it */

    for (uint32_t i = first; i < first + count; i++) {
        struct speed_mean mean;
        if (!median(speed, set, i, 1, &mean)) {
            continue;
        }
        mean.count = 1;
        if (time_of(&mean, steps) <= most) {
            in = mean;
            out.count = 0;
        } else if (out.count == 0) {
            out = mean;
        }
    }
    if (out.count == 0 && (in.count == 0 || steps)) {
        return SPEED_ANY;
    }
    if (in.count == 0 || out.count == 0) {
        const struct speed_mean *near = in.count != 0 ? &in : &out;
        return power_of(near->number + most - time_of(near, steps));
    }
    int32_t above = most - time_of(&in, steps);
    int32_t rise = time_of(&out, steps) - time_of(&in, steps);
    CHECK(rise > above);
    return power_of(in.number + (out.number - in.number) * above / rise);
}

/* A usual worker's. */
static void
usual_in_time(const struct speed *speed, const struct worker_set *set,
              const struct speed_slo *slo, uint32_t *tokens, uint32_t *requests)
{
    *tokens =
        slo->ttft_us != 0 ? reach(speed, set, false, slo->ttft_us) : SPEED_ANY;
    *requests =
        slo->itl_us != 0 ? reach(speed, set, true, slo->itl_us) : SPEED_ANY;
}

void
speed_in_time(const struct speed *speed, const struct worker_set *set,
              const struct speed_slo *slo, const uint32_t *slowness,
              uint32_t *tokens, uint32_t *requests)
{
    const struct speed_slo *of = NULL; /* those that usual and most are of */
    uint32_t usual = SPEED_ANY;
    uint32_t most = SPEED_ANY;

    WORKER_SET_EACH (slot, set) {
        const struct speed_slo *own = &slo[slot];
        if (of == NULL || of->ttft_us != own->ttft_us ||
            of->itl_us != own->itl_us) {
            usual_in_time(speed, set, own, &usual, &most);
            of = own;
        }
        struct worker_set alone = {{0}};
        uint64_t reached = (uint64_t)usual * 1000 / slowness[slot];
        worker_set_add(&alone, slot);
        tokens[slot] = usual == SPEED_ANY || reached > SPEED_ANY
                           ? SPEED_ANY
                           : (uint32_t)reached;
        requests[slot] = own->itl_us != 0
                             ? reach(speed, &alone, true, own->itl_us)
                             : SPEED_ANY;
        if (requests[slot] == SPEED_ANY) {
            requests[slot] = most;
        }
    }
}

uint32_t
speed_rate(const struct speed *speed, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    for (uint32_t i = SPEED_CLASSES; i-- > 0;) {
        const struct speed_mean *of = &speed->worker[slot].of[i];
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
