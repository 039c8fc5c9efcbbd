/* Two nodes that tell each other, frames carried by hand. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/rng.h"
#include "index/base/role.h"
#include "node/peers/hints.h"

#define NODES  2
#define MS     UINT64_C(1000)
#define ROOT   UINT64_C(77)
#define TTL_MS 1000U

struct node {
    struct qsbr qsbr;
    struct fleet_models models;
    struct fleet_worker worker[2];
    struct fleet_view view;
    struct fleet_board *board;
    struct radix *belief;
    struct mirror *mirror;
    struct expectations *expectations;
    struct decided *decided;
    struct expectations *text;
    struct mirror_view mirrors;
    struct publish mirror_publish;
    struct gauge rank_inflight[WORKERS_MAX];
    struct gauge rank_peers[WORKERS_MAX];
    struct gossip *gossip;
    struct hints hints;
    uint32_t sends;
};

static struct node nodes[NODES];
static uint64_t now_us;
static uint64_t keys[100];

/* Worker i of both nodes, in another slot at each of them. */
static uint32_t
slot_at(uint32_t at, uint32_t worker)
{
    return at == 0 ? worker : 10 - worker;
}

static void
add_worker(uint32_t at, uint32_t worker)
{
    struct node *n = &nodes[at];
    uint32_t slot = slot_at(at, worker);

    n->worker[worker] = (struct fleet_worker){.slot = slot,
                                              .generation = 3,
                                              .ranks = worker == 1 ? 2 : 1,
                                              .identity = 500 + worker};
    n->view.worker[slot] = &n->worker[worker];
    n->view.identity[slot] = n->worker[worker].identity;
    worker_set_add(&n->view.present, slot);
    cr_assert_eq(radix_worker_add(n->belief, slot, 1000, RADIX_LRU), 0);
}

static void
remove_worker(uint32_t at, uint32_t worker)
{
    uint32_t slot = slot_at(at, worker);

    worker_set_remove(&nodes[at].view.present, slot);
    nodes[at].view.worker[slot] = NULL;
    nodes[at].view.version++;
}

static void
open_index(struct node *n)
{
    struct radix_limits belief = {
        .bytes_max = (size_t)16 << 20, .namespaces_max = 8, .depth_max = 1024};
    struct mirror_limits mirror = {.bytes_max = (size_t)16 << 20};
    struct expectations_limits expected = {.bytes_max = (size_t)16 << 20,
                                           .ttl_ms = TTL_MS};

    qsbr_init(&n->qsbr);
    cr_assert_eq(radix_new(&n->belief, &belief, &n->qsbr), 0);
    cr_assert_eq(mirror_new(&n->mirror, &mirror, &n->qsbr), 0);
    cr_assert_eq(expectations_new(&n->expectations, &expected, &n->qsbr), 0);
    cr_assert_eq(decided_new(&n->decided, (size_t)1 << 20, 64, &n->qsbr), 0);
    cr_assert_eq(expectations_new(&n->text, &expected, &n->qsbr), 0);
    n->board = aligned_alloc(64, (sizeof(*n->board) + 63) / 64 * 64);
    cr_assert_not_null(n->board);
    memset(n->board, 0, sizeof(*n->board));
}

static void
open_node(uint32_t at)
{
    struct node *n = &nodes[at];
    struct gossip_config config = gossip_config_default();

    open_index(n);
    n->view.version = 1;
    n->view.models = &n->models;
    add_worker(at, 0);
    add_worker(at, 1);
    publish_set(&n->board->view, &n->view);
    publish_set(&n->mirror_publish, &n->mirrors);
    cr_assert_eq(gossip_new(&n->gossip, &config, at + 1, now_us, at), 0);
    struct hints_world world = {
        .board = n->board,
        .belief = n->belief,
        .mirror = n->mirror,
        .mirror_view = &n->mirror_publish,
        .expectations = n->expectations,
        .decided = n->decided,
        .text = n->text,
        .rank_inflight = n->rank_inflight,
        .rank_peers = n->rank_peers,
    };
    hints_init(&n->hints, &world);
    hints_join(&n->hints, n->gossip, config.gauge_ms, now_us);
}

static void
carry(uint32_t at)
{
    role_is_control();
    struct node *n = &nodes[at];
    struct gossip_out out;

    while (gossip_next_out(n->gossip, &out)) {
        if (out.kind == GOSSIP_BELIEF) {
            hints_belief_out(&n->hints, &out, now_us);
        } else if (out.kind == GOSSIP_SEND) {
            n->sends++;
            cr_assert_eq(gossip_recv(nodes[1 - at].gossip, at + 1, out.bytes,
                                     out.len, now_us),
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
            (void)hints_tick(&nodes[at].hints, now_us);
            gossip_tick(nodes[at].gossip, now_us);
            carry(at);
            carry(1 - at);
        }
    }
}

static void
setup(void)
{
    memset(nodes, 0, sizeof(nodes));
    now_us = 1000 * MS;
    for (uint32_t i = 0; i < 100; i++) {
        keys[i] = rng_mix(i);
    }
    for (uint32_t at = 0; at < NODES; at++) {
        open_node(at);
    }
    for (uint32_t at = 0; at < NODES; at++) {
        cr_assert_eq(gossip_peer_up(nodes[at].gossip, 2 - at, now_us), 0);
    }
    pass(200);
}

static void
teardown(void)
{
    for (uint32_t at = 0; at < NODES; at++) {
        struct node *n = &nodes[at];
        gossip_free(n->gossip);
        radix_free(n->belief);
        mirror_free(n->mirror);
        expectations_free(n->expectations);
        decided_free(n->decided);
        expectations_free(n->text);
        free(n->board);
    }
}

TestSuite(node_hints, .init = setup, .fini = teardown);

static uint32_t
peers_of(uint32_t at, uint32_t worker)
{
    return gauge_read(&nodes[at].board->peers[slot_at(at, worker)]);
}

static void
decide(uint32_t at, uint32_t worker, uint32_t count)
{
    struct fact_learn *fact = malloc(sizeof(*fact) + sizeof(keys));

    cr_assert_not_null(fact);
    *fact = (struct fact_learn){.kind = FACT_LEARN,
                                .slot = slot_at(at, worker),
                                .generation = 3,
                                .count = count,
                                .root = ROOT};
    memcpy(fact->keys, keys, sizeof(keys));
    hints_sent(&nodes[at].hints, fact, now_us);
    if (count != 0) {
        hints_learn(&nodes[at].hints, fact, now_us);
    }
    free(fact);
}

static uint32_t
believed(uint32_t at, uint32_t worker)
{
    struct radix_match match;
    uint32_t slot = slot_at(at, worker);

    radix_match(nodes[at].belief, ROOT, keys, 100, &match);
    return worker_set_has(&match.workers, slot) ? match.depth[slot] : 0;
}

Test(node_hints, load_at_one_node_is_peers_load_at_the_other)
{
    gauge_set(&nodes[0].board->inflight[slot_at(0, 1)], 9);
    gauge_set(&nodes[0].board->queued_tokens[slot_at(0, 1)], 4000);
    gauge_set(&nodes[1].board->inflight[slot_at(1, 1)], 5);
    pass(60);
    cr_assert_eq(peers_of(1, 1), 9);
    cr_assert_eq(peers_of(0, 1), 5);
    cr_assert_eq(peers_of(1, 0), 0);
    struct hints_load load = hints_load(&nodes[1].hints, slot_at(1, 1));
    cr_assert_eq(load.own.inflight, 5);
    cr_assert_eq(load.peers.inflight, 9);
    cr_assert_eq(load.peers.queued_tokens, 4000);
    struct gauge *queued = nodes[1].board->peers_queued_tokens;
    cr_assert_eq(gauge_read(&queued[slot_at(1, 1)]), 4000);
    gauge_set(&nodes[0].board->inflight[slot_at(0, 1)], 0);
    pass(60);
    cr_assert_eq(peers_of(1, 1), 0);
}

Test(node_hints, an_open_circuit_is_told_and_so_is_its_end)
{
    struct gauge *open = nodes[1].board->peers_open;
    uint32_t slot = slot_at(0, 1);

    worker_set_add(&nodes[0].view.open, slot);
    pass(60);
    cr_assert_eq(gauge_read(&open[slot_at(1, 1)]), 1);
    cr_assert_eq(gauge_read(&open[slot_at(1, 0)]), 0);
    worker_set_remove(&nodes[0].view.open, slot);
    worker_set_add(&nodes[0].view.ejected, slot); /* half open */
    pass(60);
    cr_assert_eq(gauge_read(&open[slot_at(1, 1)]), 1);
    worker_set_remove(&nodes[0].view.ejected, slot);
    pass(60);
    cr_assert_eq(gauge_read(&open[slot_at(1, 1)]), 0);
}

Test(node_hints, tokens_that_an_engine_has_otherwise_are_told)
{
    hints_tell_distrust(&nodes[0].hints, 77, 2, now_us);
    pass(300 * MS);
    cr_expect(hints_hears_distrust(&nodes[1].hints, 77, 2));
    cr_expect_not(hints_hears_distrust(&nodes[1].hints, 77, 3));
    cr_expect_not(hints_hears_distrust(&nodes[1].hints, 78, 2));
    cr_expect_not(hints_hears_distrust(&nodes[0].hints, 77, 2));
}

Test(node_hints, load_is_told_again_only_when_it_changes)
{
    uint32_t before = nodes[0].sends;

    pass(1000); /* one full frame, and anti-entropy */
    cr_assert_leq(nodes[0].sends - before, 6);
}

Test(node_hints, load_of_a_peer_that_went_is_gone)
{
    gauge_set(&nodes[0].board->inflight[slot_at(0, 1)], 9);
    pass(60);
    cr_assert_eq(peers_of(1, 1), 9);
    gossip_peer_down(nodes[1].gossip, 1, now_us);
    (void)hints_tick(&nodes[1].hints, now_us);
    cr_assert_eq(peers_of(1, 1), 0);
}

Test(node_hints, a_slot_without_its_worker_has_no_load)
{
    gauge_set(&nodes[0].board->inflight[slot_at(0, 1)], 9);
    pass(60);
    remove_worker(1, 1);
    pass(1);
    cr_assert_eq(peers_of(1, 1), 0);
}

/* Worker 1's ranks have events; the mirrors' slots 0 and 1 are theirs, the
 * other way round at node 1. */
static void
open_ranks(void)
{
    role_is_control();
    for (uint32_t at = 0; at < NODES; at++) {
        struct mirror_view *view = &nodes[at].mirrors;
        uint32_t worker = slot_at(at, 1);
        view->groups_count = 1;
        worker_set_add(&view->workers, worker);
        view->generation[worker] = 3;
        for (uint16_t rank = 0; rank < 2; rank++) {
            uint32_t slot;
            cr_assert_eq(mirror_open(nodes[at].mirror, &slot), 0);
            cr_assert_eq(expectations_open(nodes[at].expectations, slot), 0);
            worker_set_add(&view->groups[0].slots, slot);
            view->owner[slot] = (uint16_t)worker;
            view->rank[slot] = at == 0 ? rank : 1 - rank;
        }
    }
}

/* Node 0 sends a prompt of ten blocks to worker 1, which holds three of them. */
static struct fact_learn *
send_text(void)
{
    role_is_control();
    struct fact_learn *fact = malloc(sizeof(*fact) + sizeof(keys));

    cr_assert_not_null(fact);
    *fact = (struct fact_learn){.kind = FACT_LEARN,
                                .slot = slot_at(0, 1),
                                .generation = 3,
                                .count = 10,
                                .root = ROOT};
    memcpy(fact->keys, keys, sizeof(keys));
    hints_expect_text(&nodes[0].hints, fact, 3, now_us);
    pass(20);
    return fact;
}

/* Blocks of text that node 1 expects of worker 1. */
static uint32_t
text_at_1(void)
{
    role_is_control();
    return expectations_depth(nodes[1].text, NULL, slot_at(1, 1), keys + 3, 7);
}

Test(node_hints, text_that_was_sent_is_expected_at_peers_until_it_is_believed)
{
    struct fact_learn *fact = send_text();

    cr_assert_eq(text_at_1(), 7);
    cr_assert_eq(believed(1, 1), 0);
    hints_learn(&nodes[0].hints, fact, now_us);
    pass(20);
    cr_assert_eq(believed(1, 1), 10);
    cr_assert_eq(text_at_1(), 0);
    free(fact);
}

Test(node_hints, text_of_an_attempt_that_failed_is_taken_back_at_peers)
{
    role_is_control();
    struct fact_learn *fact = send_text();

    hints_take_back_text(&nodes[0].hints, fact, 3, now_us);
    pass(20);
    cr_assert_eq(text_at_1(), 0);
    cr_assert_eq(believed(1, 1), 0);
    free(fact);
}

Test(node_hints, ranks_have_a_load_of_their_own)
{
    open_ranks();
    gauge_set(&nodes[0].rank_inflight[0], 6);
    gauge_set(&nodes[0].rank_inflight[1], 2);
    pass(120);
    cr_assert_eq(gauge_read(&nodes[1].rank_peers[1]), 6);
    cr_assert_eq(gauge_read(&nodes[1].rank_peers[0]), 2);
    cr_assert_eq(gauge_read(&nodes[0].rank_peers[0]), 0);
}

Test(node_hints, a_decision_is_load_at_once)
{
    decide(0, 1, 0);
    decide(0, 1, 0);
    pass(6);
    cr_assert_eq(peers_of(1, 1), 2);
    hints_ended(&nodes[0].hints, slot_at(0, 1), 3, now_us);
    pass(6);
    cr_assert_eq(peers_of(1, 1), 1);
}

/* Until node 0 has just told its numbers. */
static void
pass_to_gauges(void)
{
    uint64_t rounds = nodes[0].hints.stats.rounds;

    for (uint32_t i = 0; nodes[0].hints.stats.rounds == rounds; i++) {
        cr_assert_lt(i, 100);
        pass(1);
    }
}

/* Node 0 sends a prompt of so many tokens to worker 1. */
static void
send_prompt(int32_t tokens)
{
    gauge_add(&nodes[0].board->inflight[slot_at(0, 1)], 1);
    gauge_add(&nodes[0].board->queued_tokens[slot_at(0, 1)], tokens);
    decide(0, 1, 0);
}

static uint32_t
peers_queued(void)
{
    return gauge_read(&nodes[1].board->peers_queued_tokens[slot_at(1, 1)]);
}

Test(node_hints, a_long_prompt_is_told_before_gauges_are_due)
{
    pass_to_gauges();
    send_prompt(4000);
    pass(6);
    cr_assert_eq(nodes[0].hints.stats.soon, 1);
    cr_assert_eq(peers_queued(), 4000);
    cr_assert_eq(peers_of(1, 1), 1, "the decision counts once");
    pass_to_gauges();
    pass(10);
    cr_assert_eq(peers_queued(), 4000);
    cr_assert_eq(peers_of(1, 1), 1);
    cr_assert_eq(nodes[0].hints.stats.soon, 1);
}

Test(node_hints, short_prompts_wait_until_they_are_many)
{
    pass_to_gauges();
    send_prompt((int32_t)HINTS_SOON_TOKENS - 1);
    pass(10);
    cr_assert_eq(peers_queued(), 0);
    send_prompt(1);
    pass(6);
    cr_assert_eq(peers_queued(), HINTS_SOON_TOKENS);
}

Test(node_hints, long_prompts_are_told_together_if_they_are_many)
{
    pass_to_gauges();
    for (uint32_t i = 0; i < 40; i++) {
        send_prompt(4000);
        pass(1);
    }
    pass(6);
    cr_assert_leq(nodes[0].hints.stats.soon, 40000 / HINTS_SOON_US + 1);
    cr_assert_geq(nodes[0].hints.stats.soon, 6);
    cr_assert_eq(peers_queued(), 160000);
}

Test(node_hints, the_rate_of_peers_says_what_is_unseen)
{
    for (uint32_t i = 0; i < 3000; i++) {
        counter_add(&nodes[0].board->counters[slot_at(0, i % 2)].requests, 1);
        pass(1);
    }
    /* A thousand per second, eight milliseconds of them. */
    cr_assert_eq(gauge_read(&nodes[1].board->unseen), 8);
    cr_assert_eq(gauge_read(&nodes[0].board->unseen), 0);
    pass(10000);
    cr_assert_eq(gauge_read(&nodes[1].board->unseen), 0);
}

Test(node_hints, a_decision_is_believed_by_the_peer)
{
    decide(0, 1, 100);
    pass(6);
    cr_assert_eq(believed(1, 1), 100);
    cr_assert_eq(believed(1, 0), 0);
    cr_assert_eq(nodes[0].hints.stats.told, 1);
    cr_assert_eq(nodes[1].hints.stats.learned, 1);
}

Test(node_hints, what_came_from_a_peer_goes_no_further)
{
    decide(0, 1, 100);
    pass(100);
    cr_assert_eq(nodes[1].hints.stats.told, 0);
    cr_assert_eq(nodes[0].hints.stats.learned, 0);
    cr_assert_eq(believed(0, 1), 0); /* its own, which control believes */
}

Test(node_hints, decisions_for_unknown_workers_are_counted)
{
    remove_worker(1, 1);
    decide(0, 1, 100);
    pass(6);
    cr_assert_eq(nodes[1].hints.stats.unknown, 1);
    cr_assert_eq(nodes[1].hints.stats.learned, 0);
}

Test(node_hints, decisions_for_a_worker_that_went_are_not_told)
{
    remove_worker(0, 1);
    decide(0, 1, 100);
    pass(6);
    cr_assert_eq(nodes[0].hints.stats.told, 0);
}

Test(node_hints, a_node_alone_tells_nobody)
{
    gauge_set(&nodes[0].board->inflight[slot_at(0, 1)], 9);
    pass(60);
    hints_join(&nodes[1].hints, NULL, 50, now_us);
    cr_assert_eq(peers_of(1, 1), 0);
    cr_assert_eq(hints_deadline(&nodes[1].hints), UINT64_MAX);
    decide(1, 1, 10);
    (void)hints_tick(&nodes[1].hints, now_us);
    cr_assert_eq(nodes[1].hints.stats.told, 0);
    cr_assert_eq(hints_load(&nodes[1].hints, slot_at(1, 1)).peers.inflight, 0);
}

/* Expectations: node 0 sends to rank 0 of worker 1, whose slot is 1 at node
 * 1. */

static void
dispatch(uint32_t at, uint32_t from, uint32_t count)
{
    role_is_control();
    struct fact_learn *fact = malloc(sizeof(*fact) + sizeof(keys));

    cr_assert_not_null(fact);
    *fact = (struct fact_learn){.kind = FACT_EXPECT,
                                .slot = at == 0 ? 0 : 1,
                                .generation = 3,
                                .owner = slot_at(at, 1),
                                .count = count};
    memcpy(fact->keys, keys + from, count * sizeof(*keys));
    hints_expect(&nodes[at].hints, fact, now_us);
    expectations_add_missing(nodes[at].expectations, nodes[at].mirror,
                             fact->slot, fact->keys, count, now_us);
    free(fact);
}

/* A dispatch of the first `count` blocks came to nothing; `known` of them were
 * expected before it. */
static void
take_back(uint32_t at, uint32_t count, uint32_t known)
{
    role_is_control();
    struct fact_learn *fact = malloc(sizeof(*fact) + sizeof(keys));

    cr_assert_not_null(fact);
    *fact = (struct fact_learn){.kind = FACT_EXPECT,
                                .slot = at == 0 ? 0 : 1,
                                .generation = 3,
                                .owner = slot_at(at, 1),
                                .count = count};
    memcpy(fact->keys, keys, count * sizeof(*keys));
    hints_take_back(&nodes[at].hints, fact, known, now_us);
    expectations_take_back(nodes[at].expectations, fact->slot,
                           fact->keys + known, count - known);
    free(fact);
}

/* What the worker says comes to node 1. */
static void
hear(enum event_kind kind, uint32_t from, uint32_t count)
{
    role_is_control();
    uint64_t words[101] = {event_op(kind, TIER_DEVICE, count)};

    memcpy(words + 1, keys + from, count * sizeof(*keys));
    expectations_confirm(nodes[1].expectations, 1, words, count + 1);
    cr_assert_eq(
        mirror_apply(nodes[1].mirror, 1, words, count + 1, EVENT_HOLES_UNKNOWN),
        0);
}

static uint64_t
expected_blocks(uint32_t at)
{
    struct expectations_stats stats;

    expectations_stats(nodes[at].expectations, &stats);
    return stats.blocks;
}

static uint32_t
depth(uint32_t slot)
{
    role_is_control();
    return expectations_depth(nodes[1].expectations, nodes[1].mirror, slot,
                              keys, 100);
}

Test(node_hints, what_one_node_sent_the_other_expects)
{
    open_ranks();
    dispatch(0, 0, 60);
    pass(6);
    cr_assert_eq(depth(1), 60);
    cr_assert_eq(depth(0), 0); /* another rank's */
    cr_assert_eq(nodes[0].hints.stats.expected_told, 1);
    cr_assert_eq(nodes[1].hints.stats.expected_heard, 1);
}

Test(node_hints, only_what_is_new_is_told)
{
    open_ranks();
    dispatch(0, 0, 60);
    dispatch(0, 0, 60);
    dispatch(0, 0, 80);
    pass(6);
    cr_assert_eq(depth(1), 80);
    cr_assert_eq(nodes[0].hints.stats.expected_told, 2);
    cr_assert_eq(nodes[1].hints.turns.apart, 2);
    dispatch(1, 0, 80); /* which it knows from its peer */
    cr_assert_eq(nodes[1].hints.stats.expected_told, 0);
    dispatch(1, 0, 100);
    cr_assert_eq(nodes[1].hints.stats.expected_told, 1);
    dispatch(0, 0, 100); /* before it hears of that */
    pass(6);
    cr_assert_eq(nodes[1].hints.turns.apart, 0);
}

Test(node_hints, peers_hear_in_which_order_prompts_were_sent)
{
    role_is_control();
    uint64_t room[sizeof(struct fact_learn) / 8 + 10];
    struct fact_learn *fact = (void *)room;

    open_ranks();
    cr_assert_eq(decided_open(nodes[1].decided, 1, 9, 128, RADIX_LRU), 0);
    *fact = (struct fact_learn){.kind = FACT_DECIDED,
                                .slot = 0,
                                .generation = 3,
                                .owner = slot_at(0, 1),
                                .count = 10};
    memcpy(fact->keys, keys, 10 * sizeof(*keys));
    hints_decided(&nodes[0].hints, fact, now_us);
    pass(6);
    cr_assert_eq(nodes[1].hints.stats.decided_heard, 1);
    cr_assert(decided_counts(nodes[1].decided, 1));
    cr_assert_eq(decided_heat(nodes[1].decided, keys[9]), 1000);
    cr_assert_eq(depth(1), 0); /* it says nothing of what is on its way */
}

Test(node_hints, what_a_peer_sent_goes_no_further)
{
    open_ranks();
    dispatch(0, 0, 60);
    pass(100);
    cr_assert_eq(nodes[1].hints.stats.expected_told, 0);
    cr_assert_eq(nodes[0].hints.stats.expected_heard, 0);
}

Test(node_hints, an_answered_request_is_still_one_request)
{
    decide(0, 1, 100);
    pass(6);
    cr_assert_eq(peers_of(1, 1), 1);
}

Test(node_hints, what_came_to_nothing_is_taken_back_everywhere)
{
    role_is_control();
    open_ranks();
    dispatch(0, 0, 60);
    pass(6);
    cr_assert_eq(depth(1), 60);
    take_back(0, 60, 20); /* 20 of them another request sent before */
    pass(6);
    cr_assert_eq(depth(1), 20);
    cr_assert_eq(nodes[1].hints.stats.taken_back, 1);
    cr_assert_eq(nodes[1].hints.stats.unknown, 0);
    dispatch(0, 0, 60);
    pass(6);
    cr_assert_eq(depth(1), 60);
}

Test(node_hints, an_event_ends_what_a_peer_sent)
{
    open_ranks();
    dispatch(0, 0, 60);
    pass(6);
    hear(EVENT_STORE, 0, 60);
    cr_assert_eq(expected_blocks(1), 0);
    cr_assert_eq(depth(1), 60);
    hear(EVENT_REMOVE, 0, 60);
    cr_assert_eq(depth(1), 0);
}

Test(node_hints, an_event_that_comes_first_leaves_nothing_to_expect)
{
    open_ranks();
    hear(EVENT_STORE, 0, 60);
    dispatch(0, 0, 60);
    pass(6);
    cr_assert_eq(nodes[1].hints.stats.expected_heard, 1);
    cr_assert_eq(expected_blocks(1), 0);
    hear(EVENT_REMOVE, 0, 60);
    cr_assert_eq(depth(1), 0);
}

Test(node_hints, what_no_event_tells_of_is_given_up)
{
    role_is_control();
    open_ranks();
    hear(EVENT_STORE, 0, 60);
    hear(EVENT_REMOVE, 0, 60); /* and evicted, before it is heard of */
    dispatch(0, 0, 60);
    pass(6);
    cr_assert_eq(expected_blocks(1), 60);
    pass(TTL_MS);
    while (expectations_work(nodes[1].expectations, 1000, now_us)) {
    }
    cr_assert_eq(expected_blocks(1), 0);
}

Test(node_hints, the_end_of_a_prompt_is_found_where_the_mirror_ends)
{
    open_ranks();
    dispatch(0, 40, 20); /* of which node 0 knew 40 to be held */
    pass(6);
    cr_assert_eq(depth(1), 0); /* not so node 1, yet */
    hear(EVENT_STORE, 0, 40);
    cr_assert_eq(depth(1), 60);
}

Test(node_hints, what_is_sent_to_no_known_rank_is_not_expected)
{
    open_ranks();
    nodes[1].mirrors.groups_count = 0; /* its events are not followed */
    dispatch(0, 0, 60);
    pass(6);
    cr_assert_eq(nodes[1].hints.stats.unknown, 1);
    cr_assert_eq(expected_blocks(1), 0);
    remove_worker(1, 1);
    dispatch(0, 0, 80);
    pass(6);
    cr_assert_eq(nodes[1].hints.stats.unknown, 2);
}

Test(node_hints, what_is_sent_to_a_rank_that_went_is_not_told)
{
    open_ranks();
    nodes[0].mirrors.owner[0] = 9;
    dispatch(0, 0, 60);
    nodes[0].mirrors.owner[0] = (uint16_t)slot_at(0, 1);
    nodes[0].mirrors.generation[slot_at(0, 1)] = 4;
    dispatch(0, 0, 60);
    pass(6);
    cr_assert_eq(nodes[0].hints.stats.expected_told, 0);
}

Test(node_hints, a_node_alone_expects_and_tells_nobody)
{
    open_ranks();
    hints_join(&nodes[1].hints, NULL, 50, now_us);
    dispatch(1, 0, 60);
    cr_assert_eq(nodes[1].hints.stats.expected_told, 0);
    cr_assert_eq(depth(1), 60);
}
