#include <criterion/criterion.h>

#include "index/base/rng.h"
#include "index/base/worker_set.h"

Test(base_worker_set, agrees_with_an_array_of_flags)
{
    struct worker_set set;
    bool flag[WORKERS_MAX] = {false};
    struct rng rng;

    rng_init(&rng, 3);
    worker_set_clear(&set);
    for (int i = 0; i < 2000; i++) {
        uint32_t slot = (uint32_t)rng_below(&rng, WORKERS_MAX);
        flag[slot] = !flag[slot];
        if (flag[slot]) {
            worker_set_add(&set, slot);
        } else {
            worker_set_remove(&set, slot);
        }
    }
    uint32_t count = 0;
    uint32_t expected = worker_set_next(&set, 0);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        cr_assert_eq(worker_set_has(&set, slot), flag[slot]);
        if (flag[slot]) {
            count++;
            cr_assert_eq(expected, slot);
            expected = worker_set_next(&set, slot + 1);
        }
    }
    cr_assert_eq(expected, WORKER_NONE);
    cr_assert_eq(worker_set_count(&set), count);
}
