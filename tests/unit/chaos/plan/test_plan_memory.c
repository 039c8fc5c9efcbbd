#include <criterion/criterion.h>
#include <errno.h>

#include "chaos/plan/plan_play.h"
#include "tests/unit/failing_alloc.h"

/* A mix, and two engines that play it for a while: 0 or what failed. */
static int
run(void)
{
    struct plan_samples samples;
    struct plan_mix mix;
    struct plan_engine engine;

    plan_mix_init(&mix);
    plan_samples_init(&samples);
    int error = plan_mix_add(&mix, 100, 10, 1);
    if (error == 0) {
        plan_mix_finish(&mix);
        cr_assert(plan_engine_find("a100-flat", &engine));
        const struct plan_play play = {
            .engine = &engine,
            .part = plan_mix_part(&mix, 0, 1000),
            .rate = 10,
            .duration_s = 2,
            .engines = 2,
            .slots = 4,
            .seed = 1,
        };
        error = plan_play(&play, &samples);
        cr_expect(error != 0 || samples.ttft_count > 5);
    }
    plan_samples_fini(&samples);
    plan_mix_fini(&mix);
    return error;
}

Test(chaos_plan_memory, short_memory_ends_a_play_with_a_word)
{
    uint64_t n = 0;
    uint64_t failures = 0;

    for (; failing_alloc_after(n); n++) {
        failures += run() == -ENOMEM;
    }
    failing_alloc_stop();
    cr_expect_gt(n, 20);
    cr_expect_eq(failures, n - 1);
    cr_expect_eq(run(), 0);
}
