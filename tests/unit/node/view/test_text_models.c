#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/view/text_models.h"

static struct text_models models;
static struct text_board board;
static struct buf bytes;

static void
take(const char *model, enum text_kind kind, uint32_t len, uint32_t tokens)
{
    struct fact_decision fact = {.kind = FACT_DECISION,
                                 .text_kind = kind,
                                 .text_bytes = len,
                                 .prompt_tokens = tokens};

    (void)snprintf(fact.model, sizeof(fact.model), "%.63s", model);
    text_models_take(&models, &fact);
}

/* As a pass without peers does. */
static uint32_t
milli(const char *model, enum text_kind kind)
{
    models.any.all = models.any.own;
    for (uint32_t i = 0; i < models.count; i++) {
        models.model[i].all = models.model[i].own;
    }
    text_models_publish(&models, &board);
    return text_board_milli(&board, slice_of(model), kind);
}

Test(node_text_models, each_model_has_its_own_and_others_the_mean_of_all)
{
    cr_expect_eq(milli("a", TEXT_CJK), TEXT_RATIO_START_MILLI);
    take("a", TEXT_CJK, 30000, 10000);
    cr_expect_eq(milli("a", TEXT_CJK), 3000);
    take("b", TEXT_CJK, 20000, 10000);
    cr_expect_eq(milli("a", TEXT_CJK), 3000);
    cr_expect_eq(milli("b", TEXT_CJK), 2000);
    uint32_t mean = milli("c", TEXT_CJK);
    cr_expect(mean < 2500 && mean > 1500, "%u", mean); /* less a distance */
    cr_expect_eq(milli("", TEXT_CJK), mean);
    cr_expect_eq(milli("a", TEXT_CODE), TEXT_RATIO_START_MILLI);
}

Test(node_text_models, a_kind_that_a_model_never_had_is_taken_from_the_others)
{
    take("a", TEXT_CJK, 30000, 10000);
    take("b", TEXT_CODE, 35000, 10000);
    cr_expect_eq(milli("a", TEXT_CODE), 3500);
}

Test(node_text_models, beyond_the_bound_there_is_the_mean_alone)
{
    char name[FACT_MODEL_MAX];

    for (uint32_t i = 0; i < TEXT_MODELS_MAX + 5; i++) {
        (void)snprintf(name, sizeof(name), "m%u", i);
        take(name, TEXT_PROSE, 40000, 10000 - 100 * (i % 2));
    }
    cr_expect_eq(models.count, TEXT_MODELS_MAX);
    cr_expect_eq(milli(name, TEXT_PROSE), milli("", TEXT_PROSE));
    cr_expect_eq(milli("m0", TEXT_PROSE), 4000);
}

Test(node_text_models, names_that_engines_refuse_take_no_room)
{
    char name[FACT_MODEL_MAX];

    for (uint32_t i = 0; i < TEXT_MODELS_MAX; i++) {
        (void)snprintf(name, sizeof(name), "guess-%u", i);
        take(name, TEXT_PROSE, 0, 0);
    }
    cr_expect_eq(models.count, 0);
    take("m", TEXT_PROSE, 30000, 10000);
    cr_expect_eq(milli("m", TEXT_PROSE), 3000);
}

Test(node_text_models, a_long_name_is_the_same_however_it_comes)
{
    char name[200];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    take(name, TEXT_PROSE, 30000, 10000); /* cut off */
    cr_expect_eq(milli(name, TEXT_PROSE), 3000);
    cr_expect_not_null(text_models_row(&models, slice_of(name)));
    cr_expect_eq(models.count, 1);
}

/* Another node's part is of its own samples, so that it may come at any time. */
Test(node_text_models, samples_of_two_nodes_count_as_those_of_one)
{
    struct text_ratio mine = {.of = {{.sum = 0}}};
    struct text_ratio other = {.of = {{.sum = 0}}};

    for (uint32_t i = 0; i < 200; i++) {
        text_ratio_add(&mine, TEXT_PROSE, 40000, 10000);
        text_ratio_add(&other, TEXT_PROSE, 30000, 10000);
    }
    struct text_told told = text_ratio_told(&other, TEXT_PROSE);
    struct text_ratio both = mine;
    text_ratio_join(&both, TEXT_PROSE, &told);
    cr_expect_eq(text_ratio_milli(&both, TEXT_PROSE), 3500);
    struct text_ratio fresh = {.of = {{.sum = 0}}};
    text_ratio_join(&fresh, TEXT_PROSE, &told);
    cr_expect_eq(text_ratio_milli(&fresh, TEXT_PROSE), 3000);
    told = text_ratio_told(&fresh, TEXT_CODE);
    cr_expect_eq(told.weight, 0);
}

Test(node_text_models, what_a_node_tells_is_bounded)
{
    struct text_told mad = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    struct text_ratio ratio = {.of = {{.sum = 0}}};

    text_ratio_join(&ratio, TEXT_PROSE, &mad);
    cr_expect_leq(ratio.of[TEXT_PROSE].left, 1);
    cr_expect_geq(text_ratio_milli(&ratio, TEXT_PROSE), TEXT_RATIO_LEAST_MILLI);
    mad = (struct text_told){1000000, 0, 0};
    text_ratio_join(&ratio, TEXT_CODE, &mad);
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_CODE), TEXT_RATIO_LEAST_MILLI);
}

Test(node_text_models, it_comes_back_as_it_was)
{
    static struct text_models again;

    take("a", TEXT_CJK, 30000, 10000);
    take("a", TEXT_CJK, 20000, 10000);
    take("b", TEXT_CODE, 35000, 10000);
    buf_init(&bytes, 1 << 20);
    text_models_save(&models, &bytes);
    cr_assert(text_models_load(&again, buf_slice(&bytes)));
    cr_expect_eq(again.count, 2);
    for (unsigned kind = 0; kind < TEXT_KINDS; kind++) {
        for (uint32_t i = 0; i < 2; i++) {
            cr_expect_eq(text_ratio_milli(&again.model[i].own, kind),
                         text_ratio_milli(&models.model[i].own, kind));
        }
        cr_expect_eq(text_ratio_milli(&again.any.own, kind),
                     text_ratio_milli(&models.any.own, kind));
    }
    /* A model that no worker lists any more is not kept for ever. */
    (void)text_models_row(&again, SLICE("b"));
    buf_clear(&bytes);
    text_models_save(&again, &bytes);
    static struct text_models third;
    cr_assert(text_models_load(&third, buf_slice(&bytes)));
    cr_expect_eq(third.count, 1);
    cr_expect_str_eq(third.model[0].name, "b");
    buf_fini(&bytes);
}

Test(node_text_models, other_bytes_leave_it_within_its_bounds)
{
    static struct text_models again;
    struct rng rng;

    rng_init(&rng, 3);
    take("a", TEXT_CJK, 30000, 10000);
    take("b", TEXT_CODE, 35000, 10000);
    buf_init(&bytes, 1 << 20);
    text_models_save(&models, &bytes);
    for (uint32_t i = 0; i < 4000; i++) {
        size_t at = rng_below(&rng, bytes.len);
        struct slice part = buf_slice(&bytes);
        char was = bytes.ptr[at];
        bytes.ptr[at] = (char)(uint8_t)rng_next(&rng);
        part.len = i % 4 == 0 ? at : part.len;
        memset(&again, 0, sizeof(again));
        bool whole = text_models_load(&again, part);
        cr_assert(whole || part.len > 0);
        cr_assert_leq(again.count, TEXT_MODELS_MAX);
        for (unsigned kind = 0; kind < TEXT_KINDS; kind++) {
            uint32_t got = text_ratio_milli(&again.any.own, kind);
            cr_assert(got >= TEXT_RATIO_LEAST_MILLI &&
                      got <= TEXT_RATIO_MOST_MILLI);
        }
        bytes.ptr[at] = was;
    }
    buf_fini(&bytes);
}

Test(node_text_models, lanes_read_a_models_threshold)
{
    text_models_row(&models, SLICE("a"))->pool_threshold = 4096;
    (void)text_models_row(&models, SLICE("b"));
    text_models_publish(&models, &board);
    cr_expect_eq(text_board_pool(&board, SLICE("a")), 4096);
    cr_expect_eq(text_board_pool(&board, SLICE("b")), 0);
    cr_expect_eq(text_board_pool(&board, SLICE("c")), 0);
    cr_expect_eq(text_board_pool(&board, SLICE("")), 0);
    models.model[0].pool_threshold = 0;
    text_models_publish(&models, &board);
    cr_expect_eq(text_board_pool(&board, SLICE("a")), 0);
}
