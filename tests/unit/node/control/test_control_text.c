#include <criterion/criterion.h>
#include <string.h>

#include "index/base/role.h"
#include "node/control/control_text.h"

#define MINUTE_US UINT64_C(60000000)

static struct text_models models;
static struct hints hints; /* of a node alone */
static struct fleet_models none;
static struct fleet_view view;
static struct fleet_worker workers[3];
static struct mix *mix;
static uint64_t now_us;

/* Two engines that take 32,768 tokens and one that takes 131,072, of any model. */
static void
setup(void)
{
    static const uint32_t lengths[] = {32768, 32768, 131072};

    role_is_control();
    mix = mix_new(0);
    cr_assert_not_null(mix);
    memset(&view, 0, sizeof(view));
    view.models = &none;
    view.tells_len = true;
    for (uint32_t slot = 0; slot < 3; slot++) {
        workers[slot].ranks = 1;
        view.worker[slot] = &workers[slot];
        view.max_len[slot] = lengths[slot];
        worker_set_add(&view.present, slot);
        worker_set_add(&view.any_model, slot);
    }
    (void)text_models_row(&models, SLICE("m"));
    now_us = 1000 * MINUTE_US;
}

static void
teardown(void)
{
    mix_free(mix);
}

TestSuite(node_control_text, .init = setup, .fini = teardown);

static void
take(uint32_t budget, uint32_t count)
{
    struct fact_decision fact = {.kind = FACT_DECISION,
                                 .status = 200,
                                 .model = "m",
                                 .prompt_tokens = budget,
                                 .budget_tokens = budget};

    for (uint32_t i = 0; i < count; i++) {
        mix_take(mix, &fact, "a");
    }
}

static uint32_t
tune(bool on)
{
    role_is_control();
    control_text_tune(&models, on, mix, &hints, &view, now_us);
    return models.model[0].pool_threshold;
}

/* As much work of 1,000 tokens as of 4,000 and of 16,000, in all 200 requests and
 * more: two of the three are the short engines'. */
static void
take_three(void)
{
    take(1024, 160);
    take(4096, 40);
    take(16384, 10);
}

Test(node_control_text, it_is_found_with_the_first_200_requests)
{
    take(1024, 199);
    cr_expect_eq(tune(true), 0);
    take(1024, 1);
    now_us += 1; /* at the next look */
    cr_expect_eq(tune(true), 32768, "all that fits");
}

Test(node_control_text, work_is_divided_as_the_engines_are)
{
    take_three();
    cr_expect(tune(true) >= 4096 && tune(true) < 16384);
    workers[2].ranks = 4; /* now it is four sixths of them */
    now_us += CONTROL_POOLS_US;
    cr_expect(tune(true) >= 1024 && tune(true) < 4096);
}

Test(node_control_text, it_is_judged_again_after_ten_minutes)
{
    take_three();
    uint32_t first = tune(true);
    take(32768, 1000); /* everything else is little beside these */
    now_us += CONTROL_POOLS_US - 1;
    cr_expect_eq(tune(true), first);
    now_us += 1;
    cr_expect_eq(tune(true), 32768);
}

Test(node_control_text, it_ends_with_the_pools_and_with_the_key)
{
    take_three();
    cr_expect_neq(tune(true), 0);
    cr_expect_eq(tune(false), 0);
    cr_expect_neq(tune(true), 0, "and comes back at once");
    view.max_len[2] = 32768;
    cr_expect_eq(tune(true), 0, "all have one length");
    view.max_len[2] = 0;
    cr_expect_neq(tune(true), 0, "who tells no length is long");
    worker_set_remove(&view.present, 0);
    worker_set_remove(&view.present, 1);
    worker_set_remove(&view.any_model, 0);
    worker_set_remove(&view.any_model, 1);
    cr_expect_eq(tune(true), 0, "the short ones are gone");
}

Test(node_control_text, metrics_tell_what_was_found)
{
    struct buf out;

    buf_init(&out, 1 << 16);
    control_text_put_metrics(&models, &out);
    buf_add(&out, "", 1);
    cr_expect_null(strstr(out.ptr, "kvasir_pool_threshold_tokens{"));
    buf_fini(&out);
    take_three();
    (void)tune(true);
    models.model[0].pool_threshold = 4096;
    buf_init(&out, 1 << 16);
    control_text_put_metrics(&models, &out);
    buf_add(&out, "", 1);
    cr_expect_not_null(
        strstr(out.ptr, "kvasir_pool_threshold_tokens{model=\"m\"} 4096\n"));
    buf_fini(&out);
}
