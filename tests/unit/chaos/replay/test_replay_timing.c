#include <criterion/criterion.h>

#include "chaos/engine/engine_options_internal.h"
#include "chaos/replay/replay_timing.h"

/* What is simulated beside real stand-in engines has to take as long. */
Test(chaos_replay_timing, a_stand_in_takes_what_the_program_takes)
{
    static char program[] = "kvasir-engine";
    static char flag[] = "--max-running=256";
    char *argv[] = {program, flag, NULL};
    struct engine_options *options = calloc(1, sizeof(*options));
    const struct replay_timing *timing = replay_timing_find("stand-in");
    char fault[256];

    cr_assert_not_null(options);
    cr_assert_not_null(timing);
    cr_assert_eq(engine_options_parse(options, argv, fault, sizeof(fault)), 0);
    struct engine_config real = engine_options_config(options);
    struct engine_config played = replay_timing_engine(
        timing, real.blocks_max * real.block_tokens, real.block_tokens);
    cr_expect_eq(played.blocks_max, real.blocks_max);
    cr_expect_eq(played.step_us, real.step_us);
    cr_expect_eq(played.step_per_seq_us, real.step_per_seq_us);
    cr_expect_eq(played.prefill_tokens_per_s, real.prefill_tokens_per_s);
    cr_expect_eq(played.batch_tokens_max, real.batch_tokens_max);
    cr_expect_eq(played.running_max, real.running_max);
    cr_expect_eq(played.step_per_context_ps, real.step_per_context_ps);
    cr_expect_eq(played.prefill_per_pair_ps, real.prefill_per_pair_ps);
    free(options);
}
