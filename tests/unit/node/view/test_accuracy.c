#include <criterion/criterion.h>

#include "node/view/accuracy.h"

#define S UINT64_C(1000000)

static const struct accuracy_config config = {.answers_min = 8,
                                              .wrong_permille = 250,
                                              .reread_ms = 10000,
                                              .discount_permille = 300};
static struct accuracy accuracy;

static bool
note(uint32_t predicted, uint32_t cached, uint64_t at_us)
{
    const struct accuracy_answer answer = {.prompt_tokens = 1000,
                                           .predicted_tokens = predicted,
                                           .cached_tokens = cached,
                                           .block_tokens = 16};

    return accuracy_note(&accuracy, &config, &answer, at_us);
}

static uint32_t
trust(void)
{
    return accuracy_trust(&accuracy, &config);
}

/* So many answers; how often a re-read was asked for. */
static uint32_t
notes(uint32_t count, bool wrong, uint64_t at_us)
{
    uint32_t asked = 0;

    for (uint32_t i = 0; i < count; i++) {
        asked += note(640, wrong ? 0 : 640, at_us);
    }
    return asked;
}

Test(node_accuracy, a_block_apart_is_the_same_cache)
{
    (void)note(640, 640, 0);
    (void)note(640, 624, 0);
    (void)note(624, 640, 0);
    cr_assert_eq(accuracy.exact, 3);
    cr_assert_eq(accuracy.wrong_bits, 0);
}

Test(node_accuracy, more_than_a_block_apart_is_wrong_either_way)
{
    (void)note(640, 623, 0);
    (void)note(16, 640, 0);
    cr_assert_eq(accuracy.wrong_bits, 3);
    cr_assert_eq(accuracy.answers, 2);
    cr_assert_eq(accuracy.over, 1);
    cr_assert_eq(accuracy.over_tokens, 17);
    cr_assert_eq(accuracy.under, 1);
    cr_assert_eq(accuracy.under_tokens, 624);
    (void)note(0, UINT32_MAX, 0);
    cr_assert_eq(accuracy.under, 2);
}

Test(node_accuracy, what_cannot_be_compared_is_not_counted)
{
    struct accuracy_answer answer = {.prompt_tokens = 1000,
                                     .predicted_tokens = 640};

    cr_assert_not(accuracy_note(&accuracy, &config, &answer, 0));
    answer.block_tokens = 16;
    answer.prompt_tokens = 15;
    cr_assert_not(accuracy_note(&accuracy, &config, &answer, 0));
    cr_assert_eq(accuracy.answers, 0);
    cr_assert_eq(accuracy.window_count, 0);
}

Test(node_accuracy, nothing_is_judged_before_there_are_enough_answers)
{
    cr_assert_eq(notes(7, true, S), 0);
    cr_assert_eq(trust(), 1000);
    cr_assert(note(640, 0, S));
    cr_assert_eq(trust(), 300);
}

Test(node_accuracy, single_surprises_do_not_move_it)
{
    for (uint32_t i = 0; i < 200; i++) {
        cr_assert_not(note(640, i % 5 == 4 ? 0 : 640, S));
        cr_assert_eq(trust(), 1000);
    }
}

Test(node_accuracy, a_quarter_of_the_window_is_persistent)
{
    (void)notes(48, false, S);
    cr_assert_eq(notes(15, true, S), 0);
    cr_assert_eq(trust(), 1000);
    cr_assert(note(640, 0, S)); /* 16 of 64 */
    cr_assert_eq(trust(), 300);
    cr_assert_eq(accuracy.window_count, ACCURACY_WINDOW);
}

Test(node_accuracy, only_the_window_counts)
{
    (void)notes(64, false, S);
    (void)notes(15, true, S);
    (void)notes(49, false, S);
    cr_assert_eq(notes(2, false, S), 0); /* wrong ones leave */
    cr_assert_eq(__builtin_popcountll(accuracy.wrong_bits), 13);
}

Test(node_accuracy, a_reread_is_asked_for_once)
{
    cr_assert_eq(notes(100, true, S), 1);
    cr_assert_eq(accuracy.rereads, 1);
    cr_assert_eq(accuracy.reread_at_us, S);
}

Test(node_accuracy, a_reread_starts_the_window_and_keeps_the_discount)
{
    (void)notes(20, true, S);
    accuracy_reread(&accuracy);
    cr_assert_eq(accuracy.window_count, 0);
    cr_assert_eq(trust(), 300);
    (void)notes(7, false, 2 * S);
    cr_assert_eq(trust(), 300);
}

Test(node_accuracy, a_good_window_after_a_reread_is_trusted)
{
    (void)notes(20, true, S);
    accuracy_reread(&accuracy);
    cr_assert_eq(notes(8, false, 2 * S), 0);
    cr_assert_eq(trust(), 1000);
    cr_assert_eq(accuracy.rereads, 0);
}

Test(node_accuracy, a_window_that_becomes_good_by_itself_is_trusted)
{
    (void)notes(20, true, S);
    cr_assert_eq(notes(64, false, 2 * S), 0);
    cr_assert_eq(trust(), 1000);
}

Test(node_accuracy, the_wait_doubles_while_rereading_does_not_help)
{
    static const uint64_t due[] = {0, 10, 30, 70, 150};

    for (size_t i = 0; i < sizeof due / sizeof *due; i++) {
        if (i > 0) {
            cr_assert_eq(notes(20, true, S + due[i] * S - 1), 0);
        }
        cr_assert_eq(notes(20, true, S + due[i] * S), 1);
        cr_assert_eq(accuracy.rereads, i + 1);
        accuracy_reread(&accuracy);
    }
}

Test(node_accuracy, the_wait_is_bounded)
{
    accuracy.rereads = UINT32_MAX;
    accuracy.reread_at_us = S;
    uint64_t longest = 10 * S << ACCURACY_DOUBLINGS;
    cr_assert_eq(notes(20, true, S + longest - 1), 0);
    cr_assert_eq(notes(20, true, S + longest), 1);
}

Test(node_accuracy, after_recovery_the_wait_is_the_least_again)
{
    (void)notes(20, true, S);
    accuracy_reread(&accuracy);
    cr_assert_eq(notes(20, true, 11 * S), 1);
    accuracy_reread(&accuracy);
    (void)notes(8, false, 12 * S);
    accuracy_reread(&accuracy);
    cr_assert_eq(notes(20, true, 21 * S - 1), 0);
    cr_assert_eq(notes(20, true, 21 * S), 1);
}

Test(node_accuracy, extreme_settings_are_sane)
{
    struct accuracy_config odd = {.answers_min = 1000,
                                  .discount_permille = 300};
    const struct accuracy_answer good = {.prompt_tokens = 100,
                                         .block_tokens = 16};

    for (uint32_t i = 0; i < 100; i++) {
        cr_assert_not(accuracy_note(&accuracy, &odd, &good, i));
    }
    cr_assert_eq(accuracy_trust(&accuracy, &odd), 1000);
    const struct accuracy_answer bad = {
        .prompt_tokens = 100, .predicted_tokens = 96, .block_tokens = 16};
    cr_assert(accuracy_note(&accuracy, &odd, &bad, 0));
    cr_assert_eq(accuracy_trust(&accuracy, &odd), 300);
}

/* So many answers, all predicted and found alike. */
static void
notes_of(uint32_t count, uint32_t predicted, uint32_t cached)
{
    for (uint32_t i = 0; i < count; i++) {
        (void)note(predicted, cached, 0);
    }
}

Test(node_accuracy, a_row_of_one_block_less_tells_that_the_last_is_recomputed)
{
    notes_of(ACCURACY_RUN - 1, 640, 624);
    cr_assert(!accuracy.recomputes);
    (void)note(640, 624, 0);
    cr_assert(accuracy.recomputes);
    cr_assert_eq(accuracy.wrong_bits, 0);
    notes_of(1000, 624, 624); /* as predicted from then on */
    cr_assert(accuracy.recomputes);
    notes_of(1000, 0, 0);     /* prompts of which nothing is found */
    notes_of(1000, 640, 624); /* and those predicted before */
    cr_assert(accuracy.recomputes);
}

Test(node_accuracy, an_answer_as_predicted_ends_the_row)
{
    notes_of(ACCURACY_RUN - 1, 640, 624);
    (void)note(640, 640, 0);
    notes_of(ACCURACY_RUN - 1, 640, 624);
    cr_assert(!accuracy.recomputes);
    (void)note(640, 100, 0); /* evicted meanwhile: says nothing of it */
    (void)note(640, 624, 0);
    cr_assert(accuracy.recomputes);
}

Test(node_accuracy, a_row_of_one_block_more_takes_that_back)
{
    notes_of(ACCURACY_RUN, 640, 624);
    notes_of(ACCURACY_RUN - 1, 624, 640);
    cr_assert(accuracy.recomputes);
    accuracy_reread(&accuracy);
    cr_assert(accuracy.recomputes);
    (void)note(0, 16, 0);
    cr_assert(!accuracy.recomputes);
    notes_of(1000, 640, 640);
    cr_assert(!accuracy.recomputes);
}
