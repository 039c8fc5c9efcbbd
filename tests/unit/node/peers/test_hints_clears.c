/* Nodes that tell each other what was cleared of their caches of answers. */
#include "node/peers/hints_clears.h"
#include "tests/unit/node/peers/gossip_rig.h"

static struct hints_clears clears[NODES];

static void
setup(void)
{
    rig_start();
    memset(clears, 0, sizeof(clears));
    link_all(2); /* the third one comes later */
}

TestSuite(node_hints_clears, .init = setup, .fini = teardown);

static uint32_t
clear(uint32_t at, bool tenants, uint64_t tenant, bool models, uint64_t model)
{
    const struct answers_which which = {tenants, models, tenant, model};

    return hints_tell_clear(&nodes[at], &clears[at], &which, now_us);
}

/* What is heard next: of a tenant, of a model, or of all. */
static void
hears(uint32_t at, uint64_t peer, uint64_t tenant, uint64_t model)
{
    struct hints_clears_heard heard;

    cr_assert(hints_hear_clear(&nodes[at], &clears[at], &heard));
    cr_expect_eq(heard.peer, peer);
    cr_expect_eq(heard.which.tenants, tenant != 0);
    cr_expect_eq(heard.which.models, model != 0);
    cr_expect_eq(heard.which.tenant, tenant);
    cr_expect_eq(heard.which.model, model);
}

static void
hears_no_more(uint32_t at)
{
    struct hints_clears_heard heard;

    cr_expect_not(hints_hear_clear(&nodes[at], &clears[at], &heard));
}

Test(node_hints_clears, a_peer_does_what_was_done_here_once_and_in_order)
{
    hears_no_more(1);
    cr_expect_eq(clear(0, true, UINT64_MAX, false, 0), 1);
    clear(0, false, 0, true, 8);
    clear(0, true, 5, true, 6);
    clear(0, false, 0, false, 0);
    pass(200);
    hears(1, 1, UINT64_MAX, 0);
    hears(1, 1, 0, 8);
    hears(1, 1, 5, 6);
    hears(1, 1, 0, 0);
    hears_no_more(1);
    pass(5000);
    hears_no_more(1);
    hears_no_more(0);
    clear(1, true, 3, false, 0);
    pass(200);
    hears(0, 2, 3, 0);
    hears_no_more(0);
    hears_no_more(1);
}

Test(node_hints_clears, who_missed_too_many_clears_everything)
{
    for (uint32_t i = 1; i <= HINTS_CLEARS_MAX; i++) {
        clear(0, true, i, false, 0);
    }
    pass(200);
    for (uint32_t i = 1; i <= HINTS_CLEARS_MAX; i++) {
        hears(1, 1, i, 0);
    }
    for (uint32_t i = 0; i <= HINTS_CLEARS_MAX; i++) {
        clear(0, true, 100 + i, false, 0);
    }
    pass(200);
    hears(1, 1, 0, 0);
    hears_no_more(1);
}

Test(node_hints_clears, a_node_that_comes_later_hears_what_was_cleared_before)
{
    clear(0, true, 4, false, 0);
    pass(200);
    link_up(0, 2);
    link_up(2, 0);
    pass(2000);
    hears(2, 1, 4, 0);
    hears_no_more(2);
}

Test(node_hints_clears, peers_that_are_linked_anew_count_on_wherever_they_are)
{
    link_up(0, 2);
    link_up(2, 0);
    clear(1, true, 4, false, 0);
    clear(2, true, 5, false, 0);
    pass(2000);
    hears(0, 2, 4, 0);
    hears(0, 3, 5, 0);
    hears_no_more(0);
    gossip_peer_down(nodes[0].gossip, 2, now_us);
    gossip_peer_down(nodes[0].gossip, 3, now_us);
    link_up(0, 2); /* in the place of the other one */
    link_up(0, 1);
    pass(5000);
    hears_no_more(0);
    clear(1, true, 6, false, 0);
    pass(200);
    hears(0, 2, 6, 0);
    hears_no_more(0);
}

Test(node_hints_clears, a_peer_of_another_process_counts_anew)
{
    struct gossip_config config = gossip_config_default();

    clear(0, true, 4, false, 0);
    clear(0, true, 5, false, 0);
    pass(200);
    hears(1, 1, 4, 0);
    hears(1, 1, 5, 0);
    gossip_peer_down(nodes[1].gossip, 1, now_us);
    gossip_free(nodes[0].gossip);
    nodes[0].gossip = NULL;
    clears[0] = (struct hints_clears){.told = 0};
    cr_assert_eq(gossip_new(&nodes[0].gossip, &config, 4, now_us, 1), 0);
    cr_assert_eq(gossip_peer_up(nodes[1].gossip, 4, now_us), 0);
    link_up(0, 1);
    clear(0, true, 6, false, 0);
    for (uint32_t i = 0; i < 200; i++) { /* from its new id */
        struct gossip_out out;
        role_is_control();
        now_us += MS;
        gossip_tick(nodes[0].gossip, now_us);
        while (gossip_next_out(nodes[0].gossip, &out)) {
            if (out.kind == GOSSIP_SEND && out.peer == 2) {
                cr_assert_eq(
                    gossip_recv(nodes[1].gossip, 4, out.bytes, out.len, now_us),
                    0);
            }
        }
    }
    hears(1, 4, 6, 0);
    hears_no_more(1);
}

Test(node_hints_clears, a_node_alone_tells_nobody)
{
    struct hints alone = {.gossip = NULL};
    struct hints_clears own = {.told = 0};
    struct hints_clears_heard heard;
    const struct answers_which all = {.tenants = false};

    cr_expect_eq(hints_tell_clear(&alone, &own, &all, now_us), 0);
    cr_expect_not(hints_hear_clear(&alone, &own, &heard));
}
