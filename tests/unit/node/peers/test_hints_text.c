/* Three nodes that tell each other what they learned by model. */
#include <criterion/criterion.h>
#include <string.h>

#include "index/base/role.h"
#include "node/peers/hints_text.h"

#define NODES 3U
#define MS    UINT64_C(1000)

static struct hints nodes[NODES]; /* with gossip alone */
static struct text_model rows[NODES];
static uint64_t now_us;

/* All frames go to their peers, whose id is one above their place. */
static void
carry(uint32_t at)
{
    role_is_control();
    struct gossip_out out;

    while (gossip_next_out(nodes[at].gossip, &out)) {
        if (out.kind == GOSSIP_SEND) {
            cr_assert_eq(gossip_recv(nodes[out.peer - 1].gossip, at + 1,
                                     out.bytes, out.len, now_us),
                         0);
        }
    }
}

static void
pass(uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i++) {
        now_us += MS;
        for (uint32_t at = 0; at < NODES; at++) {
            gossip_tick(nodes[at].gossip, now_us);
        }
        for (uint32_t at = 0; at < NODES * 2; at++) {
            carry(at % NODES);
        }
    }
}

static void
setup(void)
{
    struct gossip_config config = gossip_config_default();

    memset(nodes, 0, sizeof(nodes));
    memset(rows, 0, sizeof(rows));
    now_us = 1000 * MS;
    for (uint32_t at = 0; at < NODES; at++) {
        cr_assert_eq(gossip_new(&nodes[at].gossip, &config, at + 1, now_us, at),
                     0);
        rows[at].digest = 7;
    }
    for (uint32_t at = 0; at < NODES; at++) {
        for (uint32_t peer = 0; peer < NODES; peer++) {
            cr_assert(peer == at ||
                      gossip_peer_up(nodes[at].gossip, peer + 1, now_us) == 0);
        }
    }
    pass(200);
}

static void
teardown(void)
{
    for (uint32_t at = 0; at < NODES; at++) {
        gossip_free(nodes[at].gossip);
    }
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
