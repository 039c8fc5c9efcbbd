#include "mirror_writer_rig.h"

TestSuite(node_mirror_writer_trust, .init = setup, .fini = teardown);

Test(node_mirror_writer_trust,
     by_an_order_to_clear_nothing_is_trusted_until_told)
{
    add(5, 2);
    for (uint32_t rank = 0; rank < 2; rank++) {
        begin(5, rank, 7);
        store(5, rank, 7, 4, 10);
    }
    const uint32_t slots[] = {mirror_writer_slot(writer, 5, 1, 0),
                              mirror_writer_slot(writer, 5, 1, 1)};
    mirror_writer_cleared(writer, 5, 2); /* another generation */
    cr_assert_eq(view()->trust_permille[slots[0]], 1000);
    mirror_writer_cleared(writer, 5, 1);
    cr_assert_eq(view()->trust_permille[slots[0]], 0);
    cr_assert_eq(view()->trust_permille[slots[1]], 0);
    store(5, 0, 7, 4, 11); /* the rest of what was there */
    cr_assert_eq(view()->trust_permille[slots[0]], 0);
    store(5, 0, 7, 5, 12);
    cr_assert_eq(view()->trust_permille[slots[0]], 1000);
    cr_assert_eq(view()->trust_permille[slots[1]], 0);
    begin(5, 1, 8);
    store(5, 1, 8, 1, 13);
    cr_assert_eq(view()->trust_permille[mirror_writer_slot(writer, 5, 1, 1)],
                 1000);
}

Test(node_mirror_writer_trust, bad_records_are_dropped_and_cost_trust)
{
    union parcel parcel = stores(100, 2, 0xb);

    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    parcel.head.block_tokens = 32;
    cr_assert_eq(deliver(7, 0, &parcel), 0);
    parcel = stores(100, 3, 0xb);
    parcel.head.words[0] = event_op(EVENT_STORE, TIER_DEVICE, 2);
    cr_assert_eq(deliver(7, 0, &parcel), 0);
    cr_assert_eq(stats().dropped_bad, 2);
    cr_assert_eq(status(0).blocks, 1);
    cr_assert_eq(status(0).trust_permille, 500);
}

Test(node_mirror_writer_trust, trust_follows_the_state)
{
    static const struct {
        enum kv_stream_state state;
        uint32_t trust;
    } walk[] = {
        {KV_STREAM_READING, 1000}, /* begins an epoch */
        {KV_STREAM_PARTIAL, 500},  {KV_STREAM_READING, 500}, /* a gap */
        {KV_STREAM_LIVE, 1000},    {KV_STREAM_STALE, 500},
        {KV_STREAM_LIVE, 1000},    {KV_STREAM_CONNECTING, 500},
        {KV_STREAM_LIVE, 1000},
    };

    add(7, 1);
    mirror_writer_reset(writer, 7, 1, 0, 100);
    store(7, 0, 100, 1, 0xa);
    uint32_t slot = status(0).slot;
    cr_assert_eq(view()->trust_permille[slot], 500);
    for (size_t i = 0; i < sizeof walk / sizeof *walk; i++) {
        mirror_writer_state(writer, 7, 1, 0, walk[i].state);
        cr_assert_eq(view()->trust_permille[slot], walk[i].trust, "%zu", i);
        cr_assert_eq(status(0).trust_permille, walk[i].trust);
        cr_assert_eq(status(0).slot, slot);
    }
}

/* An answer that was so much off. */
static bool
answer(uint32_t predicted, uint32_t cached)
{
    const struct accuracy_answer a = {.prompt_tokens = 1000,
                                      .predicted_tokens = predicted,
                                      .cached_tokens = cached,
                                      .block_tokens = 16};

    return mirror_writer_answer(writer, 7, 1, 0, &a, 5 * S);
}

Test(node_mirror_writer_trust,
     wrong_predictions_cost_trust_and_ask_for_a_reread)
{
    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    (void)view();
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_not(answer(640, 0));
    }
    cr_assert(answer(640, 0));
    uint32_t slot = status(0).slot;
    cr_assert_eq(view()->trust_permille[slot], 200);
    mirror_writer_state(writer, 7, 1, 0, KV_STREAM_STALE);
    cr_assert_eq(view()->trust_permille[slot], 200, "the lower one");
    begin(7, 0, 101);
    store(7, 0, 101, 1, 0xa);
    slot = status(0).slot;
    cr_assert_eq(view()->trust_permille[slot], 200, "not proved yet");
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_not(answer(640, 640));
    }
    cr_assert_eq(view()->trust_permille[slot], 1000);
}

Test(node_mirror_writer_trust, lanes_are_told_that_a_last_block_is_recomputed)
{
    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    cr_assert(worker_set_empty(&view()->recomputing));
    for (uint32_t i = 0; i < ACCURACY_RUN; i++) {
        cr_assert_not(answer(640, 624));
    }
    cr_assert_not(status(0).recomputes, "not published yet");
    cr_assert(worker_set_has(&view()->recomputing, status(0).slot));
    cr_assert(status(0).recomputes);
    begin(7, 0, 101); /* most likely the same engine again */
    store(7, 0, 101, 1, 0xa);
    cr_assert(worker_set_has(&view()->recomputing, status(0).slot));
    for (uint32_t i = 0; i < ACCURACY_RUN; i++) {
        cr_assert_not(answer(624, 640));
    }
    cr_assert(worker_set_empty(&view()->recomputing));
}

Test(node_mirror_writer_trust, answers_while_events_are_missing_say_nothing)
{
    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    (void)view();
    mirror_writer_state(writer, 7, 1, 0, KV_STREAM_STALE);
    for (uint32_t i = 0; i < 9; i++) {
        cr_assert_not(answer(640, 0));
    }
    cr_assert_eq(status(0).accuracy.answers, 0);
}

Test(node_mirror_writer_trust, a_partial_stream_explains_what_it_did_not_claim)
{
    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    mirror_writer_state(writer, 7, 1, 0, KV_STREAM_PARTIAL);
    (void)view();
    for (uint32_t i = 0; i < 9; i++) {
        cr_assert_not(answer(0, 640));
    }
    cr_assert_eq(stats().explained, 9);
    cr_assert_eq(status(0).accuracy.more, 9);
    cr_assert_eq(status(0).accuracy.answers, 0);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_not(answer(640, 0));
    }
    cr_assert(answer(640, 0), "what it did claim has to be there");
}

Test(node_mirror_writer_trust,
     answers_say_how_much_of_a_partial_stream_is_known)
{
    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    mirror_writer_state(writer, 7, 1, 0, KV_STREAM_PARTIAL);
    uint32_t slot = status(0).slot;
    cr_assert_eq(view()->trust_permille[slot], 500, "nothing is proved");
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert_not(answer(640, i == 0 ? 720 : 640 + i));
    }
    cr_assert_eq(view()->trust_permille[slot], 500 + 499 * 6 / 8);
    for (uint32_t i = 0; i < 64; i++) {
        cr_assert_not(answer(640, 640));
    }
    cr_assert_eq(view()->trust_permille[slot], 999, "never full");
    for (uint32_t i = 0; i < 64; i++) {
        cr_assert_not(answer(640, 720));
    }
    cr_assert_eq(view()->trust_permille[slot], 500);
    mirror_writer_state(writer, 7, 1, 0, KV_STREAM_LIVE);
    cr_assert_eq(view()->trust_permille[slot], 1000);
    mirror_writer_reset(writer, 7, 1, 0, 101);
    mirror_writer_state(writer, 7, 1, 0, KV_STREAM_PARTIAL);
    cr_assert_eq(status(0).trust_permille, 500, "begun anew");
}
