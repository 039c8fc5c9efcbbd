/* Where a session is: belief's own tree, and what two nodes make of it. */
#include <criterion/criterion.h>

#include "node/route/session.h"

#define SLOTS 4U

struct rig {
    struct qsbr qsbr;
    struct radix *belief;
    struct session_place place;
    struct radix_match match;
    struct radix_match prompt;
    struct worker_set able;
    uint64_t identity[WORKERS_MAX];
    uint32_t load[WORKERS_MAX];
    uint64_t now_us;
    struct elect_state state;
    struct rng rng;
};

static struct rig rig;

static void
open_belief(size_t bytes_max, uint64_t blocks_max)
{
    struct radix_limits limits = {
        .bytes_max = bytes_max, .namespaces_max = 8, .depth_max = 16};

    qsbr_init(&rig.qsbr);
    cr_assert_eq(radix_new(&rig.belief, &limits, &rig.qsbr), 0);
    worker_set_clear(&rig.able);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        cr_assert_eq(radix_worker_add(rig.belief, slot, blocks_max, RADIX_LRU),
                     0);
        worker_set_add(&rig.able, slot);
        rig.identity[slot] = 1000 + slot;
        rig.load[slot] = 0;
    }
    rng_init(&rig.rng, 1);
}

static void
open_rig(void)
{
    open_belief((size_t)4 << 20, 100000);
}

static void
close_rig(void)
{
    radix_free(rig.belief);
    qsbr_fini(&rig.qsbr);
}

TestSuite(session, .init = open_rig, .fini = close_rig);

static int
learn(uint64_t key, uint32_t blocks, uint32_t worker)
{
    session_begin(&rig.place, SESSION_HARD, key);
    return radix_insert(rig.belief, SESSION_ROOT, rig.place.keys, blocks,
                        worker, 0, ++rig.now_us);
}

/* One election; the worker is told to belief if `answers`. */
static struct session_choice
go(enum session_mode mode, uint64_t key, uint32_t *worker, bool answers)
{
    struct elect_config usual = ELECT_CONFIG_DEFAULT;
    struct elect_input input = {.candidates = rig.able,
                                .load = rig.load,
                                .unit_tokens = 32,
                                .identity = rig.identity};
    struct elect_choice choice;
    struct worker_set full;

    worker_set_clear(&full);
    session_begin(&rig.place, mode, key);
    radix_match(rig.belief, SESSION_ROOT, rig.place.keys, SESSION_MOVES_MAX,
                &rig.match);
    session_find(&rig.place, &rig.match, &rig.able, rig.identity);
    session_credit(&rig.place, &rig.prompt, &input);
    session_apply(&rig.place, &full, &input);
    struct elect_config config = session_rule_of(&rig.place, &usual);
    elect_pick(&config, &rig.state, &input, &rig.rng, &choice);
    struct session_choice session = session_settle(&rig.place, &input, &choice);
    *worker = choice.worker;
    if (answers && session.blocks != 0) {
        cr_assert_eq(
            radix_insert(rig.belief, SESSION_ROOT, rig.place.keys,
                         session.blocks, choice.worker, 0, ++rig.now_us),
            0);
    }
    return session;
}

Test(session, a_new_one_has_one_first_choice_and_then_stays)
{
    uint32_t first;
    uint32_t again;
    uint32_t used = 0;

    for (uint64_t key = 1; key < 40; key++) {
        cr_assert_eq(go(SESSION_HARD, key, &first, false).outcome, SESSION_NEW);
        cr_assert_eq(go(SESSION_SOFT, key, &again, true).outcome, SESSION_NEW);
        cr_assert_eq(first, again, "all nodes choose the same");
        cr_assert_eq(go(SESSION_HARD, key, &again, true).outcome, SESSION_KEPT);
        cr_assert_eq(again, first);
        used |= 1U << first;
    }
    cr_assert_eq(used, 15, "sessions go to all workers");
}

Test(session, it_moves_when_its_worker_is_gone_and_not_back)
{
    uint32_t first;
    uint32_t second;
    uint32_t again;

    (void)go(SESSION_HARD, 7, &first, true);
    worker_set_remove(&rig.able, first);
    struct session_choice moved = go(SESSION_HARD, 7, &second, true);
    cr_assert_eq(moved.outcome, SESSION_MOVED);
    cr_assert_eq(moved.blocks, 2);
    cr_assert_neq(second, first);
    worker_set_add(&rig.able, first);
    cr_assert_eq(go(SESSION_HARD, 7, &again, true).outcome, SESSION_KEPT);
    cr_assert_eq(again, second);
}

Test(session, a_move_that_came_to_nothing_is_none)
{
    uint32_t first;
    uint32_t second;
    uint32_t again;

    (void)go(SESSION_HARD, 7, &first, true);
    worker_set_remove(&rig.able, first);
    (void)go(SESSION_HARD, 7, &second, false);
    worker_set_add(&rig.able, first);
    cr_assert_eq(go(SESSION_HARD, 7, &again, true).outcome, SESSION_KEPT);
    cr_assert_eq(again, first);
}

Test(session, two_that_were_chosen_at_once_become_one)
{
    uint32_t worker;
    uint32_t again;

    cr_assert_eq(learn(7, 1, 0), 0);
    cr_assert_eq(learn(7, 1, 3), 0);
    struct session_choice kept = go(SESSION_HARD, 7, &worker, true);
    cr_assert_eq(kept.outcome, SESSION_KEPT);
    cr_assert_eq(kept.blocks, 2, "and that ends the tie");
    kept = go(SESSION_HARD, 7, &again, true);
    cr_assert_eq(again, worker);
    cr_assert_eq(kept.blocks, 2);
    worker_set_remove(&rig.able, worker);
    cr_assert_eq(go(SESSION_HARD, 7, &again, true).blocks, 3);
}

Test(session, hard_is_the_only_candidate_however_loaded)
{
    uint32_t first;
    uint32_t again;

    (void)go(SESSION_HARD, 7, &first, true);
    rig.load[first] = 5000;
    (void)go(SESSION_HARD, 7, &again, true);
    cr_assert_eq(again, first);
    cr_assert(session_spares(&rig.place), "others may be tried after it");
}

Test(session, soft_yields_to_load_and_keeps_its_worker)
{
    uint32_t first;
    uint32_t again;

    (void)go(SESSION_SOFT, 7, &first, true);
    rig.load[first] = 5000;
    struct session_choice away = go(SESSION_SOFT, 7, &again, true);
    cr_assert_neq(again, first);
    cr_assert(away.outcome == SESSION_YIELDED && away.blocks == 0);
    rig.load[first] = 0;
    cr_assert_eq(go(SESSION_SOFT, 7, &again, true).outcome, SESSION_KEPT);
    cr_assert_eq(again, first);
    cr_assert_eq(rig.place.held, 0, "what is shown is no credit");
}

Test(session, it_moves_only_so_often_and_stays_somewhere_then)
{
    uint32_t worker = 0;
    uint32_t again;

    for (uint32_t i = 0; i < 3 * SESSION_MOVES_MAX; i++) {
        struct session_choice choice = go(SESSION_HARD, 7, &worker, true);
        cr_assert(choice.blocks >= 1 && choice.blocks <= SESSION_MOVES_MAX);
        worker_set_remove(&rig.able, worker);
        (void)go(SESSION_HARD, 7, &worker, true);
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            worker_set_add(&rig.able, slot);
        }
    }
    (void)go(SESSION_HARD, 7, &worker, true);
    cr_assert_eq(go(SESSION_HARD, 7, &again, true).outcome, SESSION_KEPT);
    cr_assert_eq(again, worker);
}

Test(session_bound, a_hundred_thousand_stay_within_beliefs_bounds,
     .fini = close_rig)
{
    struct radix_stats stats;
    uint32_t worker;
    uint32_t again;
    uint32_t refused = 0;
    const char *reason;

    open_belief((size_t)2 << 20, 5000);
    for (uint64_t i = 1; i <= 100000; i++) {
        refused += learn(rng_mix(i), 1, (uint32_t)(i % SLOTS)) != 0;
        while (radix_work(rig.belief, 16, rig.now_us)) {
        }
    }
    radix_stats(rig.belief, &stats);
    cr_assert_leq(stats.bytes, (size_t)2 << 20);
    cr_assert_leq(stats.holder_blocks, SLOTS * 5000);
    cr_assert_gt(stats.holder_blocks, SLOTS * 3000);
    cr_assert_lt(refused, 1000);
    cr_assert(radix_check(rig.belief, &reason), "%s", reason);
    cr_assert_eq(go(SESSION_HARD, rng_mix(100000), &worker, true).outcome,
                 SESSION_KEPT, "the last ones are known");
    cr_assert_eq(go(SESSION_HARD, rng_mix(1), &worker, true).outcome,
                 SESSION_NEW, "the first ones gave way");
    cr_assert_eq(go(SESSION_HARD, rng_mix(1), &again, true).outcome,
                 SESSION_KEPT);
    cr_assert_eq(again, worker);
}

Test(session, the_first_name_of_the_first_source_counts)
{
    struct config_affinity text = {.mode = SESSION_HARD,
                                   .headers = "x-chat x-session-id",
                                   .fields = "session_id user"};
    static struct session_rule rule;
    static struct scan_span spans[8];
    struct scan scan = {.spans = spans};
    struct scan_limits limits = {.depth_max = 8, .spans_max = 8};
    const char *body = "{\"user\":\"u\",\"session_id\":\"\",\"prompt\":\"x\"}";
    struct session_asked asked = {.body = body, .scan = &scan};

    session_rule_init(&rule, &text);
    session_rule_scan(&rule, &limits);
    cr_assert_eq(rule.headers_count, 2);
    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    uint64_t key = session_key(&rule, &asked);
    cr_assert_neq(key, 0);
    asked.tenant = 5;
    cr_assert_neq(session_key(&rule, &asked), key, "of another tenant");
    asked.tenant = 0;
    asked.model = SLICE("m");
    cr_assert_neq(session_key(&rule, &asked), key, "of another model");
    asked.model.len = 0;
    body = "{\"session_id\":\"u\",\"user\":\"v\"}";
    asked.body = body;
    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    cr_assert_eq(session_key(&rule, &asked), key, "one name, in any field");
    asked.scan = NULL;
    cr_assert_eq(session_key(&rule, &asked), 0);
    text.mode = SESSION_OFF;
    session_rule_init(&rule, &text);
    session_rule_scan(&rule, &limits);
    cr_assert_eq(limits.kept_count, 0, "nothing is read for nobody");
}
