#include <criterion/criterion.h>
#include <string.h>

#include "chaos/load/load_script_internal.h"

static const struct load_script script = {
    .seed = 7,
    .groups = 5,
    .system_bytes = 2000,
    .user_bytes = 300,
    .think_us = 1000000,
};

static struct buf texts[2];

static void
setup(void)
{
    buf_init(&texts[0], 1 << 20);
    buf_init(&texts[1], 1 << 20);
}

static void
teardown(void)
{
    buf_fini(&texts[0]);
    buf_fini(&texts[1]);
}

TestSuite(chaos_load_script, .init = setup, .fini = teardown);

static bool
equal(void)
{
    return slice_equal(buf_slice(&texts[0]), buf_slice(&texts[1]));
}

Test(chaos_load_script, the_same_place_says_the_same)
{
    load_script_user(&script, 3, 4, &texts[0]);
    load_script_system(&script, 1, &texts[1]); /* in between */
    buf_clear(&texts[1]);
    load_script_user(&script, 3, 4, &texts[1]);
    cr_assert(equal());
    cr_assert_eq(load_script_group(&script, 9), load_script_group(&script, 9));
    cr_assert_eq(load_script_think(&script, 2, 1),
                 load_script_think(&script, 2, 1));
}

Test(chaos_load_script, other_places_and_seeds_say_other_things)
{
    struct load_script other = script;

    other.seed++;
    load_script_user(&script, 3, 4, &texts[0]);
    load_script_user(&script, 3, 5, &texts[1]);
    cr_assert_not(equal());
    buf_clear(&texts[1]);
    load_script_user(&script, 4, 3, &texts[1]);
    cr_assert_not(equal());
    buf_clear(&texts[1]);
    load_script_user(&other, 3, 4, &texts[1]);
    cr_assert_not(equal());
}

Test(chaos_load_script, texts_are_plain_sentences_that_json_need_not_escape)
{
    load_script_system(&script, 0, &texts[0]);
    for (uint32_t turn = 0; turn < 50; turn++) {
        load_script_user(&script, 0, turn, &texts[0]);
    }
    cr_assert_not(texts[0].failed);
    for (size_t i = 0; i < texts[0].len; i++) {
        char c = texts[0].ptr[i];
        cr_assert(c >= ' ' && c < 0x7f && c != '"' && c != '\\');
    }
    buf_add(&texts[0], "", 1);
    /* No letter of a template was left standing. */
    for (const char *slot = "NAVPTD"; *slot != '\0'; slot++) {
        char alone[] = {' ', *slot, ' ', '\0'};
        cr_assert_null(strstr(texts[0].ptr, alone), "%s", texts[0].ptr);
    }
}

Test(chaos_load_script, a_system_prompt_says_who_it_is_and_has_its_size)
{
    static const char start[] = "You are the assistant of the ";

    load_script_system(&script, 0, &texts[0]);
    cr_assert_eq(memcmp(texts[0].ptr, start, strlen(start)), 0);
    cr_assert_geq(texts[0].len, script.system_bytes);
    cr_assert_leq(texts[0].len, script.system_bytes + 120);
    cr_assert_eq(texts[0].ptr[texts[0].len - 1], '.');
}

Test(chaos_load_script, turns_vary_around_their_mean)
{
    size_t shortest = SIZE_MAX;
    size_t longest = 0;
    size_t sum = 0;

    for (uint32_t turn = 0; turn < 1000; turn++) {
        buf_clear(&texts[0]);
        load_script_user(&script, 1, turn, &texts[0]);
        sum += texts[0].len;
        shortest = texts[0].len < shortest ? texts[0].len : shortest;
        longest = texts[0].len > longest ? texts[0].len : longest;
    }
    cr_assert_geq(shortest, 150);
    cr_assert_lt(shortest, 170);
    cr_assert_gt(longest, 440);
    cr_assert_leq(longest, 450 + 120);
    cr_assert(sum / 1000 > 300 && sum / 1000 < 340, "%zu", sum / 1000);
}

Test(chaos_load_script, every_group_is_drawn)
{
    uint32_t drawn[5] = {0};

    for (uint32_t c = 0; c < 1000; c++) {
        drawn[load_script_group(&script, c)]++;
    }
    for (uint32_t g = 0; g < 5; g++) {
        cr_assert(drawn[g] > 150 && drawn[g] < 250, "%u", drawn[g]);
    }
}

Test(chaos_load_script, pauses_have_their_mean_and_an_end)
{
    uint64_t end_us = LOAD_SCRIPT_THINK_MAX * script.think_us;
    uint64_t longest_us = 0;
    uint64_t sum = 0;

    for (uint32_t c = 0; c < 200000; c++) {
        uint64_t pause_us = load_script_think(&script, c, 0);
        longest_us = pause_us > longest_us ? pause_us : longest_us;
        sum += pause_us;
    }
    cr_assert(sum / 200000 > 990000 && sum / 200000 < 1010000);
    cr_assert_eq(longest_us, end_us);
}

Test(chaos_load_script, a_full_buffer_ends_the_text)
{
    buf_fini(&texts[0]);
    buf_init(&texts[0], 100);
    load_script_system(&script, 0, &texts[0]);
    cr_assert(texts[0].failed);
}
