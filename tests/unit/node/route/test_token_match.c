/* Predictions in tokens: what the mirror says, what is on its way, what is
 * never cached, and what it is worth. */
#include <criterion/criterion.h>

#include "index/base/role.h"
#include "node/route/token_match_internal.h"
#include "node/view/expectations.h"

#define BLOCK 4U

struct rig {
    struct qsbr qsbr;
    struct qsbr_reader *reader;
    struct mirror *mirror;
    struct expectations *expectations;
    struct decided *decided;
    struct mirror_view view;
    struct token_match match;
    struct token_match_world world;
};

static struct rig rig;

static void
open_rig(void)
{
    struct mirror_limits mirror = {.bytes_max = (size_t)64 << 20};
    struct expectations_limits expected = {
        .bytes_max = (size_t)16 << 20,
        .ttl_ms = 10,
    };

    memset(&rig, 0, sizeof(rig));
    qsbr_init(&rig.qsbr);
    rig.reader = qsbr_register(&rig.qsbr);
    cr_assert_eq(mirror_new(&rig.mirror, &mirror, &rig.qsbr), 0);
    cr_assert_eq(expectations_new(&rig.expectations, &expected, &rig.qsbr), 0);
    cr_assert_eq(decided_new(&rig.decided, (size_t)1 << 20, 1024, &rig.qsbr),
                 0);
    cr_assert_eq(token_match_init(&rig.match, 1024), 0);
    rig.view.groups_count = 1;
    rig.view.groups[0].grain = BLOCK;
    rig.world = (struct token_match_world){
        .mirror = rig.mirror,
        .expected = expectations_index(rig.expectations),
        .view = &rig.view,
        .decided = rig.decided,
        .weights = {.permille = {1000, 800, 500, 300}},
    };
}

static void
close_rig(void)
{
    token_match_fini(&rig.match);
    expectations_free(rig.expectations);
    decided_free(rig.decided);
    mirror_free(rig.mirror);
    qsbr_fini(&rig.qsbr);
}

TestSuite(token_match, .init = open_rig, .fini = close_rig);

/* A slot of the mirror for a rank of a worker. */
static uint32_t
add_rank(uint32_t worker, uint16_t rank)
{
    role_is_control();
    uint32_t slot;

    cr_assert_eq(mirror_open(rig.mirror, &slot), 0);
    cr_assert_eq(expectations_open(rig.expectations, slot), 0);
    worker_set_add(&rig.view.groups[0].slots, slot);
    worker_set_add(&rig.view.workers, worker);
    rig.view.owner[slot] = (uint16_t)worker;
    rig.view.rank[slot] = rank;
    rig.view.trust_permille[slot] = 1000;
    return slot;
}

/* The prompt 0, 1, 2, ... */
static void
ask_for(uint32_t tokens)
{
    uint32_t ids[1024];

    for (uint32_t i = 0; i < tokens; i++) {
        ids[i] = i;
    }
    token_match_forget(&rig.match);
    token_match_take(&rig.match, &rig.view, 7,
                     &(struct token_text){.tokens = ids, .count = tokens});
}

static void
hold(uint32_t slot, enum tier tier, uint32_t from, uint32_t count)
{
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    uint64_t words[1025] = {event_op(EVENT_STORE, tier, count)};

    memcpy(words + 1, blocks->keys + from, count * sizeof(*words));
    cr_assert_eq(mirror_apply(rig.mirror, slot, words, count + 1, 0), 0);
}

static const struct token_match_rank *
match(uint32_t worker)
{
    struct worker_set asked = rig.view.workers;

    qsbr_online(&rig.qsbr, rig.reader);
    token_match_find(&rig.match, &rig.world, &asked);
    qsbr_offline(rig.reader);
    cr_assert(worker_set_has(&rig.match.workers, worker));
    return &rig.match.best[worker];
}

Test(token_match, what_the_mirror_holds_is_predicted_in_tokens)
{
    uint32_t slot = add_rank(3, 0);

    ask_for(40);
    hold(slot, TIER_DEVICE, 0, 5);
    cr_assert_eq(match(3)->tokens, 20);
    cr_assert_eq(match(3)->worth, 20);
}

Test(token_match, the_last_token_is_never_cached)
{
    uint32_t slot = add_rank(3, 0);

    ask_for(40);
    hold(slot, TIER_DEVICE, 0, 10);
    cr_assert_eq(match(3)->tokens, 36, "39 tokens make 9 full blocks");
    ask_for(41);
    cr_assert_eq(match(3)->tokens, 40);
}

Test(token_match, of_a_prompt_that_is_computed_whole_nothing_is_predicted)
{
    uint32_t slot = add_rank(3, 0);

    rig.match.cold = true;
    ask_for(40);
    hold(slot, TIER_DEVICE, 0, 5);
    cr_assert_eq(match(3)->tokens, 0);
    cr_assert_eq(match(3)->worth, 0);
    cr_assert_eq(match(3)->held, 5, "which is held all the same");
}

Test(token_match, a_worker_without_blocks_is_there_with_none)
{
    (void)add_rank(3, 0);
    ask_for(40);
    cr_assert_eq(match(3)->tokens, 0);
}

Test(token_match, what_is_on_its_way_goes_on_where_the_mirror_ends)
{
    role_is_control();
    uint32_t slot = add_rank(3, 0);

    ask_for(40);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    hold(slot, TIER_DEVICE, 0, 2);
    expectations_add(rig.expectations, slot, blocks->keys + 2, 4, 100);
    cr_assert_eq(match(3)->tokens, 24);
    cr_assert_eq(match(3)->worth, 24);
    cr_assert_eq(match(3)->held, 2);
    cr_assert_not(expectations_work(rig.expectations, 100, 10099));
    cr_assert_eq(match(3)->tokens, 24);
    (void)expectations_work(rig.expectations, 100, 10100);
    cr_assert_eq(match(3)->tokens, 8, "too old");
}

Test(token_match, slots_of_several_depths_each_go_on_from_their_own)
{
    role_is_control();
    uint32_t first = add_rank(3, 0);
    uint32_t second = add_rank(4, 0);
    uint32_t third = add_rank(5, 0);

    ask_for(40);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    hold(first, TIER_DEVICE, 0, 2);
    hold(third, TIER_DEVICE, 0, 2);
    expectations_add(rig.expectations, first, blocks->keys + 2, 1, 100);
    expectations_add(rig.expectations, second, blocks->keys, 5, 100);
    expectations_add(rig.expectations, third, blocks->keys + 2, 7, 100);
    cr_assert_eq(match(3)->tokens, 12);
    cr_assert_eq(match(4)->tokens, 20);
    cr_assert_eq(match(5)->tokens, 36);
}

Test(token_match, the_best_rank_speaks_for_its_worker)
{
    uint32_t first = add_rank(3, 0);
    uint32_t second = add_rank(3, 1);

    ask_for(40);
    hold(first, TIER_DEVICE, 0, 2);
    hold(second, TIER_DEVICE, 0, 7);
    cr_assert_eq(match(3)->tokens, 28);
    cr_assert_eq(match(3)->rank, 1);
    cr_assert_eq(match(3)->slot, second);
}

Test(token_match, blocks_outside_the_device_are_worth_less)
{
    uint32_t slot = add_rank(3, 0);

    ask_for(80);
    hold(slot, TIER_DEVICE, 0, 5);
    hold(slot, TIER_HOST, 5, 5);
    cr_assert_eq(match(3)->tokens, 40);
    cr_assert_eq(match(3)->worth, 20 + 16);
    cr_assert_eq(match(3)->tier, TIER_HOST);
}

Test(token_match, a_mirror_that_is_not_trusted_is_worth_less)
{
    uint32_t slot = add_rank(3, 0);

    rig.view.trust_permille[slot] = 500;
    ask_for(40);
    hold(slot, TIER_DEVICE, 0, 5);
    cr_assert_eq(match(3)->tokens, 20);
    cr_assert_eq(match(3)->worth, 10);
    rig.view.trust_permille[slot] = 1; /* of little trust, but not cleared */
    cr_assert_eq(match(3)->tokens, 20);
    cr_assert_eq(match(3)->worth, 0);
    rig.view.trust_permille[slot] = 0;
    cr_assert_eq(match(3)->tokens, 0);
}

Test(token_match, a_prompt_that_was_split_before_is_taken_as_it_is)
{
    uint32_t slot = add_rank(3, 0);

    ask_for(40);
    hold(slot, TIER_DEVICE, 0, 5);
    struct token_prompt prompt = rig.match.prompt;
    ask_for(3);
    cr_assert_eq(match(3)->tokens, 0);
    ask_for(40); /* its keys lie where they lay */
    token_match_forget(&rig.match);
    rig.match.prompt.tokens = 0;
    token_match_set(&rig.match, 9, &prompt);
    cr_assert_eq(match(3)->tokens, 20);
    cr_assert_eq(rig.match.root, 9);
}

Test(token_match, workers_that_were_not_asked_for_are_left_out)
{
    (void)add_rank(3, 0);
    (void)add_rank(4, 0);
    struct worker_set asked;

    ask_for(40);
    worker_set_clear(&asked);
    worker_set_add(&asked, 4);
    qsbr_online(&rig.qsbr, rig.reader);
    token_match_find(&rig.match, &rig.world, &asked);
    qsbr_offline(rig.reader);
    cr_assert_not(worker_set_has(&rig.match.workers, 3));
    cr_assert(worker_set_has(&rig.match.workers, 4));
}

Test(token_match, ids_of_a_request_are_cut_like_tokens)
{
    static const char body[] = "{\"prompt\":[0,1, 2,3,4,5,6,7]}";
    struct scan_span spans[8];
    struct scan scan = {.spans = spans};
    struct scan_limits limits = {.depth_max = 8, .spans_max = 8};
    uint64_t keys[2];

    ask_for(8);
    (void)add_rank(3, 0);
    memcpy(keys, token_match_blocks(&rig.match, BLOCK)->keys, sizeof(keys));
    cr_assert_eq(scan_body(body, sizeof(body) - 1, &limits, &scan), 0);
    token_match_forget(&rig.match);
    token_match_read_ids(&rig.match, &rig.view, 7, body, &scan);
    cr_assert_eq(rig.match.prompt.tokens, 8);
    cr_assert_arr_eq(token_match_blocks(&rig.match, BLOCK)->keys, keys,
                     sizeof(keys));
}

/* What lies behind may well be cached: that is no wrong prediction. */
Test(token_match, a_prompt_deeper_than_is_looked_up_is_not_whole)
{
    uint32_t ids[16 * TOKEN_MATCH_IDS_PER] = {0};
    struct token_match small;

    cr_assert_eq(token_match_init(&small, 16), 0);
    token_match_take(
        &small, &rig.view, 7,
        &(struct token_text){.tokens = ids, .count = 16 * BLOCK + BLOCK - 1});
    cr_assert(small.prompt.whole && small.prompt.groups[0].count == 16);
    token_match_take(&small, &rig.view, 7,
                     &(struct token_text){.tokens = ids, .count = 17 * BLOCK});
    cr_assert(!small.prompt.whole && small.prompt.groups[0].count == 16);
    rig.view.groups[0].grain = 2 * TOKEN_MATCH_IDS_PER;
    token_match_take(
        &small, &rig.view, 7,
        &(struct token_text){.tokens = ids, .count = 16 * TOKEN_MATCH_IDS_PER});
    cr_assert(!small.prompt.whole && small.prompt.groups[0].count == 8);
    token_match_fini(&small);
}

/* ---- tokens ahead ---- */

Test(token_match, a_block_is_named_once_the_tokens_behind_it_are_known)
{
    uint32_t grain = shape_grain_of(BLOCK, 1);
    uint32_t ids[2 * BLOCK + 1];
    uint64_t key = 7;

    rig.view.groups[0].grain = grain;
    ask_for(2 * BLOCK);
    cr_assert_eq(token_match_blocks(&rig.match, grain)->count, 1);
    cr_assert_null(token_match_blocks(&rig.match, BLOCK));
    ask_for(2 * BLOCK + 1);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, grain);
    cr_assert_eq(blocks->count, 2);
    for (uint32_t i = 0; i < 2 * BLOCK + 1; i++) {
        ids[i] = i;
    }
    for (uint32_t i = 0; i < 2; i++) {
        key = key_next_apart(key, key_ahead(0, &ids[(i + 1) * BLOCK], 1),
                             &ids[i * BLOCK], BLOCK * sizeof(*ids));
        cr_assert_eq(blocks->keys[i], key);
    }
}

Test(token_match, what_is_named_later_is_not_cached)
{
    uint32_t slot = add_rank(3, 0);
    uint64_t words[4] = {event_op(EVENT_STORE, TIER_DEVICE, 3)};
    uint32_t grain = shape_grain_of(BLOCK, 3);

    rig.view.groups[0].grain = grain;
    ask_for(3 * BLOCK + 3);
    memcpy(words + 1, token_match_blocks(&rig.match, grain)->keys,
           3 * sizeof(*words));
    cr_assert_eq(mirror_apply(rig.mirror, slot, words, 4, 0), 0);
    cr_assert_eq(match(3)->tokens, 3 * BLOCK);
    ask_for(3 * BLOCK + 2);
    cr_assert_eq(match(3)->tokens, 2 * BLOCK);
    cr_assert_eq(shape_usable(grain, 2), 0);
    cr_assert_eq(shape_usable(grain, BLOCK + 2), 0);
    cr_assert_eq(shape_usable(grain, BLOCK + 3), BLOCK);
    cr_assert_eq(shape_usable(BLOCK, BLOCK), 0);
    cr_assert_eq(shape_usable(BLOCK, BLOCK + 1), BLOCK);
    grain = shape_grain_of(BLOCK, SHAPE_PAIRS);
    cr_assert_eq(shape_ahead(grain), 1);
    cr_assert_eq(shape_usable(grain, BLOCK + 1), 0, "a token sooner");
    cr_assert_eq(shape_usable(grain, BLOCK + 2), BLOCK);
}

/* ---- sliding windows ---- */

#define WINDOW 2U /* blocks */

static uint32_t
add_windowed(uint32_t worker)
{
    uint32_t slot = add_rank(worker, 0);

    worker_set_add(&rig.view.windowed, slot);
    rig.view.shape[slot] = shape_of(BLOCK, WINDOW, 1);
    return slot;
}

static void
hold_window(uint32_t slot, uint32_t from, uint32_t count)
{
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);

    for (uint32_t i = from; i < from + count; i++) {
        uint64_t words[] = {event_op(EVENT_STORE, TIER_DEVICE, 1),
                            key_in_window(blocks->keys[i], 0)};
        cr_assert_eq(mirror_apply(rig.mirror, slot, words, 2, 0), 0);
    }
}

Test(token_match, a_hit_reaches_as_far_as_the_windows_serve)
{
    uint32_t slot = add_windowed(3);
    uint32_t plain = add_rank(4, 0);

    ask_for(41);
    hold(slot, TIER_DEVICE, 0, 8);
    hold(plain, TIER_DEVICE, 0, 8);
    hold_window(slot, 3, 2);
    cr_assert_eq(match(3)->tokens, 5 * BLOCK);
    cr_assert_eq(match(3)->worth, 5 * BLOCK);
    cr_assert_eq(match(3)->held, 5);
    cr_assert_eq(token_match_stored(&rig.match, match(3)), 8,
                 "what is on its way comes after these");
    cr_assert_eq(match(4)->tokens, 8 * BLOCK, "other slots are as they were");
}

Test(token_match, the_last_token_is_left_out_before_windows_are_asked)
{
    uint32_t slot = add_windowed(3);

    ask_for(8 * BLOCK);
    hold(slot, TIER_DEVICE, 0, 8);
    hold_window(slot, 6, 2);
    cr_assert_eq(match(3)->tokens, 0, "a hit of 7 needs blocks 5 and 6");
    hold_window(slot, 5, 1);
    cr_assert_eq(match(3)->tokens, 7 * BLOCK);
}

/* A prompt of 8 blocks on its way to a slot that holds 3 of them. */
static uint32_t
send_windowed(bool with_end)
{
    role_is_control();
    uint32_t slot = add_windowed(3);

    ask_for(8 * BLOCK + 1);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    hold(slot, TIER_DEVICE, 0, 3);
    hold_window(slot, 1, 2);
    uint64_t end = token_match_end(&rig.match, match(3));
    cr_assert_eq(end, key_in_window(blocks->keys[7], 0));
    expectations_add(rig.expectations, slot, blocks->keys + 3, 5, 0);
    if (with_end) {
        expectations_add(rig.expectations, slot, &end, 1, 0);
    }
    return slot;
}

Test(token_match, of_a_windowed_slot_a_prompt_on_its_way_counts_to_its_end)
{
    (void)send_windowed(true);
    cr_assert_eq(match(3)->tokens, 8 * BLOCK);
    cr_assert_eq(match(3)->held, 3);
    ask_for(12 * BLOCK);
    cr_assert_eq(match(3)->tokens, 8 * BLOCK, "it goes on with that one");
    ask_for(6 * BLOCK + 1);
    cr_assert_eq(match(3)->tokens, 3 * BLOCK, "it ends within that one");
}

Test(token_match, of_a_windowed_slot_blocks_on_their_way_count_for_no_other)
{
    (void)send_windowed(false);
    cr_assert_eq(match(3)->tokens, 3 * BLOCK);
}

Test(token_match, of_a_windowed_slot_an_end_counts_until_events_tell)
{
    uint32_t slot = send_windowed(true);

    hold(slot, TIER_DEVICE, 3, 5);
    cr_assert_eq(match(3)->tokens, 3 * BLOCK, "they told of no windows");
    hold_window(slot, 6, 2);
    cr_assert_eq(match(3)->tokens, 8 * BLOCK);
    cr_assert_eq(token_match_end(&rig.match, match(3)), 0);
}

Test(token_match, a_last_block_that_is_computed_again_is_left_out)
{
    uint32_t slot = add_rank(3, 0);

    ask_for(10 * BLOCK + 1);
    hold(slot, TIER_DEVICE, 0, 10);
    worker_set_add(&rig.view.recomputing, slot);
    cr_assert_eq(match(3)->tokens, 9 * BLOCK);
    cr_assert_eq(match(3)->worth, 9 * BLOCK);
    ask_for(10 * BLOCK); /* whose own last block never counts */
    cr_assert_eq(match(3)->tokens, 8 * BLOCK);
    ask_for(BLOCK + 1);
    cr_assert_eq(match(3)->tokens, 0);
    ask_for(BLOCK);
    cr_assert_eq(match(3)->tokens, 0);
    cr_assert_eq(match(3)->worth, 0);
    rig.view.trust_permille[slot] = 500;
    ask_for(10 * BLOCK + 1);
    cr_assert_eq(match(3)->tokens, 9 * BLOCK);
    cr_assert_eq(match(3)->worth, 4 * BLOCK);
}

Test(token_match, an_end_is_told_only_of_whole_prompts_and_windowed_slots)
{
    (void)add_rank(4, 0);
    (void)add_windowed(3);
    ask_for(8 * BLOCK);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    cr_assert_eq(token_match_end(&rig.match, match(3)),
                 key_in_window(blocks->keys[6], 0), "its last is computed");
    cr_assert_eq(token_match_end(&rig.match, match(4)), 0);
    rig.match.prompt.whole = false;
    cr_assert_eq(token_match_end(&rig.match, match(3)), 0);
    ask_for(1);
    cr_assert_eq(token_match_end(&rig.match, match(3)), 0);
}

/* 75 blocks, of which two keys are kept: of 128 and of 256 tokens. */
Test(token_match, behind_a_queue_what_newer_prompts_push_out_is_not_promised)
{
    role_is_control();
    uint32_t slot = add_rank(3, 0);
    const uint64_t other[2] = {99, 0};
    const uint64_t away[2] = {event_op(EVENT_STORE, TIER_HOST, 1), 98};
    uint64_t kept[75];

    ask_for(300);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    cr_assert_eq(decided_keys(blocks->keys, 75, BLOCK, kept), 2);
    cr_assert_eq(decided_open(rig.decided, slot, 64, BLOCK, RADIX_LRU), 0);
    hold(slot, TIER_DEVICE, 0, 75);
    kept[1] = 0;
    decided_add(rig.decided, slot, kept, 2, 10);
    worker_set_add(&rig.match.waiting, 3);
    cr_assert_eq(match(3)->worth, 296, "there is room for all of it");
    decided_add(rig.decided, slot, other, 2, 20);
    cr_assert_eq(match(3)->worth, 128, "its end has been pushed out");
    cr_assert_eq(match(3)->worth, 128);
    cr_assert_eq(match(3)->held, 75, "it is held now all the same");
    worker_set_clear(&rig.match.waiting);
    cr_assert_eq(match(3)->worth, 296, "nothing comes before it");
    worker_set_add(&rig.match.waiting, 3);
    cr_assert_eq(mirror_apply(rig.mirror, slot, away, 2, 0), 0);
    cr_assert_eq(match(3)->worth, 296, "what is pushed out goes elsewhere");
}

Test(token_match, behind_a_queue_the_order_promises_nothing_that_is_gone)
{
    role_is_control();
    uint32_t slot = add_rank(3, 0);
    uint64_t kept[75];

    ask_for(300);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    uint32_t count = decided_keys(blocks->keys, 75, BLOCK, kept);
    cr_assert_eq(decided_open(rig.decided, slot, 64, BLOCK, RADIX_LRU), 0);
    hold(slot, TIER_DEVICE, 0, 5);
    kept[count] = 0;
    decided_add(rig.decided, slot, kept, count + 1, 10);
    cr_assert_eq(match(3)->worth, 20, "nothing comes before it");
    worker_set_add(&rig.match.waiting, 3);
    cr_assert(decided_counts(rig.decided, slot));
    cr_assert_eq(match(3)->worth, 20, "the order has 256, and it is no cache");
}

Test(token_match, what_was_sent_last_is_promised_behind_a_queue)
{
    role_is_control();
    uint32_t slot = add_rank(3, 0);
    uint64_t kept[75];

    ask_for(300);
    const struct token_blocks *blocks = token_match_blocks(&rig.match, BLOCK);
    uint32_t count = decided_keys(blocks->keys, 75, BLOCK, kept);
    cr_assert_eq(decided_open(rig.decided, slot, 64, BLOCK, RADIX_LRU), 0);
    hold(slot, TIER_DEVICE, 0, 75);
    kept[count] = 0;
    decided_add(rig.decided, slot, kept, count + 1, 10);
    worker_set_add(&rig.match.waiting, 3);
    cr_assert(decided_counts(rig.decided, slot));
    cr_assert_eq(match(3)->worth, 296);
}
