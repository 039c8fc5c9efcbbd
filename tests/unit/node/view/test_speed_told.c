/* What nodes tell each other of workers' speeds. */
#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "node/view/speed_told.h"

static struct speed speed;

static bool
is_empty(const struct speed_row *row)
{
    return row->first == 0 && row->second == 0;
}

/* What one node has, as another one that knows nothing hears it. */
static struct speed_worker
heard(const struct speed_worker *worker)
{
    struct speed_worker all = {.generation = worker->generation};

    for (uint32_t row = 0; row < SPEED_TOLD_ROWS; row++) {
        struct speed_row told = speed_told(worker, row);
        speed_join(&all, row, &told);
    }
    return all;
}

static int
apart(int left, int right)
{
    return left < right ? right - left : left - right;
}

Test(node_speed_told, of_few_samples_nothing_is_told)
{
    for (uint32_t i = 0; i < SPEED_FLOOR - 1; i++) {
        speed_add(&speed, 0, 1, 4000, 400000);
        speed_add_step(&speed, 0, 1, 3, 20000);
    }
    for (uint32_t row = 0; row < SPEED_TOLD_ROWS; row++) {
        struct speed_row told = speed_told(&speed.worker[0], row);
        cr_expect(is_empty(&told), "row %u", row);
    }
    speed_add(&speed, 0, 1, 4000, 400000);
    struct speed_row told = speed_told(&speed.worker[0], 0);
    cr_expect_not(is_empty(&told));
    told = speed_told(&speed.worker[0], 1);
    cr_expect(is_empty(&told), "answers have their own");
}

Test(node_speed_told, every_class_arrives_as_it_was)
{
    struct rng rng;

    rng_init(&rng, 5);
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t tokens = (uint32_t)rng_below(&rng, UINT64_C(32) << i % 12);
        uint32_t requests = 1 + (uint32_t)rng_below(&rng, 2U << i % 11);
        speed_add(&speed, 0, 7, tokens, 1 + rng_below(&rng, UINT64_C(1) << 40));
        speed_add_step(&speed, 0, 7, requests, 1 + rng_below(&rng, 90000));
    }
    struct speed_worker all = heard(&speed.worker[0]);
    for (uint32_t i = 0; i < SPEED_CLASSES + SPEED_STEPS; i++) {
        const struct speed_mean *own = &speed.worker[0].of[i];
        cr_assert_eq(own->count, SPEED_COUNT_MAX, "class %u", i);
        cr_expect_eq(all.of[i].count, own->count, "class %u", i);
        cr_expect_leq(apart(all.of[i].time, own->time), 4, "class %u", i);
        cr_expect_leq(apart(all.of[i].number, own->number), 32, "class %u", i);
    }
}

Test(node_speed_told, counts_are_rounded_down)
{
    for (uint32_t i = 1; i <= SPEED_COUNT_MAX + 10; i++) {
        speed_add(&speed, 0, 1, 4000, 400000);
        uint32_t most = i < SPEED_COUNT_MAX ? i : SPEED_COUNT_MAX;
        uint32_t count = heard(&speed.worker[0]).of[3].count;
        if (i < SPEED_FLOOR) {
            cr_expect_eq(count, 0);
        } else {
            cr_expect(count <= most && count * 2 > most, "%u of %u", count, i);
        }
    }
}

Test(node_speed_told, samples_of_two_weigh_as_many_as_they_are)
{
    struct speed_worker all;

    for (uint32_t i = 0; i < 8; i++) {
        speed_add(&speed, 0, 1, 4096, 4096 * 64);
    }
    for (uint32_t i = 0; i < 24; i++) {
        speed_add(&speed, 1, 1, 4096, UINT64_C(4096) * 1024);
    }
    struct speed_row told = speed_told(&speed.worker[1], 0); /* as 16 */
    all = speed.worker[0];
    speed_join(&all, 0, &told);
    const struct speed_mean *of = &all.of[3];
    cr_expect_eq(of->count, 24);
    /* 1,000 times 64 and 1,024: 2^6 and 2^10 above 1 us; of 24, 16 are slow. */
    int expected = speed.worker[0].of[3].time + 4 * 256 * 16 / 24;
    cr_expect_leq(apart(of->time, expected), 6, "%d %d", of->time, expected);
}

/* From a peer, anything may come. */
Test(node_speed_told, any_bits_are_bounded)
{
    static struct speed_worker all;
    static struct speed far;
    static uint32_t slowness[WORKERS_MAX];
    struct worker_set set;
    struct rng rng;

    rng_init(&rng, 9);
    worker_set_clear(&set);
    for (uint32_t i = 0; i < 2; i++) {
        worker_set_add(&set, i);
    }
    for (uint32_t round = 0; round < 200; round++) {
        all = (struct speed_worker){.generation = 1};
        for (uint32_t peer = 0; peer < 64; peer++) {
            for (uint32_t row = 0; row < SPEED_TOLD_ROWS; row++) {
                struct speed_row told = {.first = rng_next(&rng),
                                         .second = rng_next(&rng)};
                if (round == 0) {
                    told = (struct speed_row){UINT64_MAX, UINT64_MAX};
                }
                speed_join(&all, row, &told);
            }
        }
        for (uint32_t i = 0; i < SPEED_CLASSES + SPEED_STEPS; i++) {
            cr_assert_leq(all.of[i].count, 64 * SPEED_COUNT_MAX);
            cr_assert_geq(all.of[i].time, 0);
        }
        far.worker[round % 2] = all;
        (void)speed_slowness(&far, &set, slowness);
        cr_assert(slowness[0] >= SPEED_LEAST && slowness[0] <= SPEED_MOST);
        (void)speed_rate(&far, round % 2);
    }
}
