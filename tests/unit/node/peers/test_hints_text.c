/* Three nodes that tell each other what they learned by model. */
#include "node/peers/hints_text.h"
#include "tests/unit/node/peers/gossip_rig.h"

static struct text_model rows[NODES];

static void
setup(void)
{
    rig_start();
    memset(rows, 0, sizeof(rows));
    for (uint32_t at = 0; at < NODES; at++) {
        rows[at].digest = 7;
    }
    link_all(NODES);
}

TestSuite(node_hints_text, .init = setup, .fini = teardown);

static uint32_t
text_milli(uint32_t at)
{
    hints_share_text(&nodes[at], &rows[at], now_us);
    return text_ratio_milli(&rows[at].all, TEXT_CJK);
}

Test(node_hints_text,
     what_text_a_token_is_of_is_known_to_peers_and_goes_no_further)
{
    text_ratio_add(&rows[0].own, TEXT_CJK, 30000, 10000);
    cr_expect_eq(text_milli(0), 3000);
    cr_expect_eq(text_milli(1), TEXT_RATIO_START_MILLI);
    pass(200);
    for (uint32_t i = 0; i < 5; i++) { /* however often */
        cr_expect_eq(text_milli(1), 3000);
        cr_expect_eq(text_milli(0), 3000);
        pass(200);
    }
    cr_expect_eq(rows[1].own.of[TEXT_CJK].left, 0);
    cr_expect_float_eq(rows[0].all.of[TEXT_CJK].left, 0.05, 1e-9);
    text_ratio_add(&rows[1].own, TEXT_CJK, 20000, 10000);
    (void)text_milli(1);
    pass(200);
    cr_expect_eq(text_milli(0), 2500);
    cr_expect_eq(text_milli(1), 2500);
    rows[1].digest = 8; /* another model's */
    rows[1].own.of[TEXT_CJK].left = 0;
    cr_expect_eq(text_milli(1), TEXT_RATIO_START_MILLI);
}

static uint32_t
threshold_at(uint32_t at)
{
    hints_share_pool(&nodes[at], &rows[at], now_us);
    return rows[at].pool_threshold;
}

/* Tells, and lets all hear it. */
static void
share(void)
{
    for (uint32_t at = 0; at < NODES; at++) {
        (void)threshold_at(at);
    }
    pass(200);
}

static void
expect_everywhere(uint32_t threshold, const char *why)
{
    for (uint32_t round = 0; round < 3; round++) { /* however often */
        share();
        for (uint32_t at = 0; at < NODES; at++) {
            cr_expect_eq(threshold_at(at), threshold, "%s: %u at %u", why,
                         rows[at].pool_threshold, at);
        }
    }
}

Test(node_hints_text, nodes_have_one_threshold_by_all_that_was_found)
{
    expect_everywhere(0, "nobody has found one");
    rows[0].pool = (struct pool_told){.threshold = 4096, .weight = 300};
    expect_everywhere(4096, "one has");
    rows[1].pool = (struct pool_told){.threshold = 16384, .weight = 900};
    expect_everywhere(16384, "who has more requests");
    rows[2].pool = (struct pool_told){.threshold = 8192, .weight = 700};
    expect_everywhere(8192, "the median");
    rows[1].pool = (struct pool_told){.threshold = 0};
    rows[2].pool = (struct pool_told){.threshold = 0};
    expect_everywhere(4096, "two took theirs back");
    rows[0].pool = (struct pool_told){.threshold = 0};
    expect_everywhere(0, "all did");
}

Test(node_hints_text, a_models_threshold_is_no_other_models)
{
    rows[0].pool = (struct pool_told){.threshold = 4096, .weight = 300};
    rows[1].digest = 8;
    share();
    cr_expect_eq(threshold_at(1), 0);
    cr_expect_eq(threshold_at(2), 4096);
}
