#include "mirror_writer_rig.h"

TestSuite(node_mirror_writer, .init = setup, .fini = teardown);

static bool
in_view(uint32_t worker)
{
    return worker_set_has(&view()->workers, worker);
}

Test(node_mirror_writer, the_first_view_is_there_and_empty)
{
    const struct mirror_view *v = mirror_view_get(&published);

    cr_assert_not_null(v);
    cr_assert_eq(v->version, 1);
    cr_assert_eq(v->groups_count, 0);
    cr_assert_eq(view(), v, "nothing changed, nothing published");
}

Test(node_mirror_writer, a_stream_is_in_view_once_its_block_size_is_known)
{
    add(7, 1);
    begin(7, 0, 100);
    cr_assert_not(in_view(7));
    store(7, 0, 100, 1, 0xa);
    const struct mirror_view *v = view();
    uint32_t slot = status(0).slot;
    cr_assert(worker_set_has(&v->workers, 7));
    cr_assert_eq(v->version, 2);
    cr_assert_eq(v->groups_count, 1);
    cr_assert_eq(v->groups[0].grain, 16);
    cr_assert(worker_set_has(&v->groups[0].slots, slot));
    cr_assert_eq(v->owner[slot], 7);
    cr_assert_eq(v->rank[slot], 0);
    cr_assert_eq(v->trust_permille[slot], 1000);
    cr_assert_eq(v->generation[7], 1);
    cr_assert_eq(v->ranks[7], 1);
    cr_assert_eq(fake_mirror_tiers(mirror, slot, 0xa), 1);
    store(7, 0, 100, 2, 0xb);
    cr_assert_eq(view(), v, "further records change no view");
    cr_assert_eq(status(0).blocks, 2);
    cr_assert_eq(status(0).seq, 2);
}

Test(node_mirror_writer, a_new_epoch_takes_a_new_slot_and_forgets)
{
    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    (void)view();
    uint32_t old = status(0).slot;
    begin(7, 0, 101);
    cr_assert_neq(status(0).slot, old);
    cr_assert_eq(status(0).blocks, 0);
    cr_assert(in_view(7), "its blocks are as large as before, most likely");
    store(7, 0, 101, 1, 0xb);
    cr_assert(in_view(7));
    cr_assert_eq(stats().epochs, 2);
}

Test(node_mirror_writer, an_empty_slot_serves_the_next_epoch)
{
    add(7, 1);
    begin(7, 0, 100);
    uint32_t slot = status(0).slot;
    begin(7, 0, 101);
    cr_assert_eq(status(0).slot, slot);
    cr_assert_eq(status(0).epoch, 101);
}

Test(node_mirror_writer, records_of_another_epoch_are_dropped_and_counted)
{
    add(7, 1);
    store(7, 0, 99, 1, 0xa);
    begin(7, 0, 100);
    store(7, 0, 99, 5, 0xa);
    store(7, 0, 101, 1, 0xa);
    cr_assert_eq(stats().dropped_epoch, 3);
    cr_assert_eq(status(0).blocks, 0);
}

Test(node_mirror_writer, older_records_are_dropped_and_parts_of_one_are_not)
{
    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 5, 0xa);
    store(7, 0, 100, 5, 0xb);
    store(7, 0, 100, 4, 0xc);
    cr_assert_eq(stats().dropped_old, 1);
    cr_assert_eq(status(0).blocks, 2);
}

Test(node_mirror_writer, strangers_are_ignored)
{
    struct accuracy_answer answer = {.prompt_tokens = 1};
    union parcel parcel = stores(1, 1, 0xa);

    add(7, 2);
    mirror_writer_reset(writer, 7, 2, 0, 5);
    mirror_writer_reset(writer, 7, 1, 2, 5);
    mirror_writer_reset(writer, 8, 1, 0, 5);
    mirror_writer_reset(writer, WORKERS_MAX, 1, 0, 5);
    mirror_writer_state(writer, 7, 2, 0, KV_STREAM_LIVE);
    cr_assert_eq(mirror_writer_record(writer, 7, 2, 0, &parcel.head), 0);
    cr_assert_not(mirror_writer_answer(writer, 7, 2, 0, &answer, 1));
    cr_assert_eq(stats().dropped_unknown, 1);
    cr_assert_eq(stats().epochs, 0);
    cr_assert_eq(status(0).state, KV_STREAM_CONNECTING);
}

Test(node_mirror_writer, clear_empties_the_slot_and_what_follows_is_kept)
{
    const uint64_t words[] = {event_op(EVENT_STORE, TIER_DEVICE, 1), 0xb,
                              event_op(EVENT_CLEAR, TIER_DEVICE, 0),
                              event_op(EVENT_STORE, TIER_HOST, 1), 0xc};
    union parcel parcel = record_of(100, 2, 5, words);

    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    uint32_t old = status(0).slot;
    cr_assert_eq(deliver(7, 0, &parcel), 0);
    uint32_t slot = status(0).slot;
    cr_assert_neq(slot, old);
    cr_assert_eq(fake_mirror_tiers(mirror, slot, 0xa), 0);
    cr_assert_eq(fake_mirror_tiers(mirror, slot, 0xb), 0);
    cr_assert_eq(fake_mirror_tiers(mirror, slot, 0xc), 2);
    cr_assert_eq(status(0).epoch, 100);
    cr_assert_eq(stats().clears, 1);
    cr_assert(in_view(7));
    parcel.head.seq = 3;
    parcel.head.words_count = 3; /* a CLEAR at the end */
    cr_assert_eq(deliver(7, 0, &parcel), 0);
    cr_assert_eq(status(0).blocks, 0);
    cr_assert(in_view(7), "an empty cache is known too");
}

Test(node_mirror_writer, without_a_free_slot_a_stream_waits_for_one)
{
    mirror->slots_max = 1;
    add(3, 1);
    add(7, 1);
    begin(3, 0, 50);
    begin(7, 0, 100);
    cr_assert_eq(status(1).slot, WORKER_NONE);
    cr_assert_eq(stats().no_slot, 1);
    cr_assert_eq(stats().without_slot, 1);
    mirror_writer_worker_remove(writer, 3);
    (void)view(); /* sweeps */
    (void)view();
    cr_assert_eq(status(0).slot, 0);
    store(7, 0, 100, 1, 0xa);
    cr_assert(in_view(7), "nothing was lost meanwhile");
    cr_assert_not(status(0).lost);
}

Test(node_mirror_writer, what_was_lost_for_want_of_a_slot_is_read_again)
{
    struct mirror_writer_id id;

    mirror->slots_max = 1;
    add(3, 1);
    add(7, 1);
    begin(3, 0, 50);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    cr_assert(status(1).lost);
    cr_assert_not(mirror_writer_next_reread(writer, &id, S),
                  "there is no slot yet");
    mirror_writer_worker_remove(writer, 3);
    (void)view();
    (void)view();
    store(7, 0, 100, 2, 0xb);
    cr_assert_eq(status(0).blocks, 0, "it takes no half of a story");
    cr_assert_not(in_view(7));
    cr_assert_eq(stats().dropped_lost, 2);
    cr_assert(mirror_writer_next_reread(writer, &id, 2 * S));
    cr_assert(id.worker == 7 && id.generation == 1 && id.rank == 0);
    cr_assert_not(mirror_writer_next_reread(writer, &id, 2 * S));
    begin(7, 0, 101);
    cr_assert_eq(status(0).slot, 0, "the empty slot is enough");
    store(7, 0, 101, 1, 0xa);
    cr_assert(in_view(7));
    cr_assert_not(status(0).lost);
    cr_assert_not(mirror_writer_next_reread(writer, &id, 100 * S));
}

Test(node_mirror_writer,
     a_full_mirror_makes_a_stream_stale_until_it_is_read_again)
{
    struct mirror_writer_id id;

    add(7, 1);
    begin(7, 0, 100);
    store(7, 0, 100, 1, 0xa);
    cr_assert_not(mirror_writer_next_reread(writer, &id, S));
    mirror->apply_outcome = MIRROR_E_FULL;
    store(7, 0, 100, 2, 0xb);
    mirror->apply_outcome = 0;
    cr_assert_eq(stats().full, 1);
    cr_assert(status(0).lost);
    cr_assert_eq(view()->trust_permille[status(0).slot], 500);
    store(7, 0, 100, 3, 0xc);
    cr_assert_eq(status(0).blocks, 2, "what there is goes on");
    cr_assert_not(mirror_writer_next_reread(writer, &id, 11 * S - 1));
    cr_assert(mirror_writer_next_reread(writer, &id, 11 * S));
    cr_assert_not(mirror_writer_next_reread(writer, &id, 11 * S));
    begin(7, 0, 101);
    store(7, 0, 101, 1, 0xa);
    cr_assert_eq(view()->trust_permille[status(0).slot], 1000);
}

Test(node_mirror_writer, rereads_that_do_not_help_become_rare)
{
    static const uint64_t due[] = {10, 20, 40, 80};
    struct mirror_writer_id id;
    uint64_t at = S;

    add(7, 1);
    cr_assert_not(mirror_writer_next_reread(writer, &id, at));
    mirror_writer_reset(writer, 7, 1, 0, 1);
    mirror->apply_outcome = MIRROR_E_FULL;
    store(7, 0, 1, 1, 0xa);
    at += 10 * S;
    cr_assert(mirror_writer_next_reread(writer, &id, at));
    for (size_t i = 0; i < 4; i++) {
        cr_assert_not(
            mirror_writer_next_reread(writer, &id, at + due[i] * S - 1));
        at += due[i] * S;
        cr_assert(mirror_writer_next_reread(writer, &id, at), "%zu", i);
    }
}

Test(node_mirror_writer, out_of_memory_is_told_and_heals_alike)
{
    union parcel parcel = stores(100, 1, 0xa);

    add(7, 1);
    begin(7, 0, 100);
    mirror->apply_outcome = -ENOMEM;
    cr_assert_eq(deliver(7, 0, &parcel), -ENOMEM);
    cr_assert(status(0).lost);
    cr_assert_eq(stats().no_memory, 1);
    mirror->apply_outcome = 0;
    begin(7, 0, 101);
    cr_assert_not(status(0).lost);
}

Test(node_mirror_writer, a_cleared_cache_lost_nothing)
{
    const uint64_t words[] = {event_op(EVENT_CLEAR, TIER_DEVICE, 0)};
    union parcel parcel = record_of(100, 2, 1, words);

    add(7, 1);
    begin(7, 0, 100);
    mirror->apply_outcome = MIRROR_E_FULL;
    store(7, 0, 100, 1, 0xa);
    mirror->apply_outcome = 0;
    cr_assert_eq(deliver(7, 0, &parcel), 0);
    cr_assert_not(status(0).lost);
    cr_assert_eq(status(0).trust_permille, 1000);
}

Test(node_mirror_writer, one_rank_is_enough_to_be_in_view)
{
    add(7, 3);
    begin(7, 1, 100);
    store(7, 1, 100, 1, 0xa);
    const struct mirror_view *v = view();
    cr_assert(worker_set_has(&v->workers, 7));
    cr_assert_eq(v->ranks[7], 3);
    cr_assert_eq(v->rank[status(1).slot], 1);
    cr_assert_eq(stats().streams, 3);
    cr_assert_eq(stats().in_view, 1);
}

static void
store_of_size(uint32_t worker, uint32_t block_tokens)
{
    union parcel parcel = stores(worker, 1, 0xa);

    parcel.head.block_tokens = block_tokens;
    cr_assert_eq(deliver(worker, 0, &parcel), 0);
}

static void
show_five_sizes(bool smallest_first)
{
    for (uint32_t worker = 0; worker < 6; worker++) {
        add(worker, 1);
        begin(worker, 0, worker);
    }
    for (uint32_t i = 0; i < 5; i++) {
        uint32_t worker = smallest_first ? i : 4 - i;
        store_of_size(worker, 16 * (worker + 1));
        (void)view();
    }
}

Test(node_mirror_writer, the_largest_of_five_block_sizes_is_left_out)
{
    show_five_sizes(true);
    cr_assert_eq(view()->groups_count, 4);
    cr_assert_not(in_view(4));
    cr_assert(status(4).left_out && !status(4).in_view);
    cr_assert_eq(stats().left_out, 1);
    cr_assert_eq(stats().in_view, 4);
    store_of_size(5, 32); /* a size that has its group */
    cr_assert(in_view(5));
    mirror_writer_worker_remove(writer, 2);
    cr_assert(in_view(4));
    cr_assert_eq(stats().left_out, 0);
}

Test(node_mirror_writer, it_is_the_same_one_in_whatever_order_they_come)
{
    show_five_sizes(false);
    cr_assert_not(in_view(4));
    cr_assert_eq(stats().left_out, 1);
    for (uint32_t worker = 0; worker < 4; worker++) {
        cr_assert(in_view(worker), "%u", worker);
    }
}

Test(node_mirror_writer,
     a_contested_stream_is_out_of_the_view_until_it_is_no_more)
{
    add(7, 1);
    begin(7, 0, 1);
    store(7, 0, 1, 1, 0xa);
    cr_assert(in_view(7));
    mirror_writer_contested(writer, 7, 1, 0, true);
    cr_assert_not(in_view(7));
    cr_assert(status(0).contested && !status(0).in_view);
    cr_assert_eq(stats().contested, 1);
    begin(7, 0, 2);
    store(7, 0, 2, 1, 0xa);
    cr_assert_not(in_view(7), "whatever it says");
    mirror_writer_contested(writer, 7, 1, 0, false);
    cr_assert(in_view(7));
    cr_assert(!status(0).contested && status(0).in_view);
    mirror_writer_contested(writer, 7, 2, 0, true);
    mirror_writer_contested(writer, 8, 1, 0, true);
    cr_assert(in_view(7), "nobody is there");
}

Test(node_mirror_writer, records_without_a_number_are_taken_at_any_time)
{
    add(7, 1);
    begin(7, 0, 1);
    store(7, 0, 1, 9, 0xa);
    store(7, 0, 1, 0, 0xb);
    cr_assert_eq(status(0).blocks, 2);
    cr_assert_eq(status(0).seq, 9);
    store(7, 0, 1, 8, 0xc);
    cr_assert_eq(status(0).blocks, 2, "older than the last one");
}

Test(node_mirror_writer, a_record_without_blocks_may_tell_of_holes)
{
    add(7, 1);
    begin(7, 0, 1);
    union parcel page = stores(1, 0, 0xa);
    page.head.holes = EVENT_HOLES_UNKNOWN;
    cr_assert_eq(deliver(7, 0, &page), 0);
    cr_assert_eq(mirror->slot[status(0).slot].holes, EVENT_HOLES_UNKNOWN);
    union parcel last = record_of(1, 4, 0, NULL);
    last.head.holes = 2;
    cr_assert_eq(deliver(7, 0, &last), 0);
    cr_assert_eq(mirror->slot[status(0).slot].holes, 2);
    cr_assert_eq(status(0).holes, 2);
}

Test(node_mirror_writer, a_stream_may_begin_anew_in_the_middle)
{
    add(7, 1);
    begin(7, 0, 1);
    store(7, 0, 1, 9, 0xa);
    mirror_writer_reset(writer, 7, 1, 0, 2);
    cr_assert_eq(status(0).blocks, 0);
    store(7, 0, 2, 3, 0xb);
    cr_assert_eq(status(0).blocks, 1);
    cr_assert_eq(status(0).seq, 3);
}

Test(node_mirror_writer, what_lost_something_is_not_whole)
{
    add(7, 1);
    begin(7, 0, 1);
    store(7, 0, 1, 1, 0xa);
    cr_assert_eq(mirror_writer_whole_slot(writer, 7, 1, 0), status(0).slot);
    mirror->apply_outcome = MIRROR_E_FULL;
    store(7, 0, 1, 2, 0xb);
    mirror->apply_outcome = 0;
    cr_assert_eq(mirror_writer_whole_slot(writer, 7, 1, 0), WORKER_NONE);
    cr_assert_eq(mirror_writer_slot(writer, 7, 1, 0), status(0).slot);
    mirror_writer_reset(writer, 7, 1, 0, 2);
    cr_assert_eq(mirror_writer_whole_slot(writer, 7, 1, 0), status(0).slot);
}

Test(node_mirror_writer, another_epoch_may_have_blocks_of_another_size)
{
    add(7, 1);
    begin(7, 0, 1);
    store(7, 0, 1, 1, 0xa);
    begin(7, 0, 2);
    union parcel parcel = stores(2, 1, 0xb);
    parcel.head.block_tokens = 32;
    cr_assert_eq(deliver(7, 0, &parcel), 0);
    cr_assert_eq(status(0).block_tokens, 32);
    cr_assert_eq(view()->groups[0].grain, 32);
}

Test(node_mirror_writer, ranks_of_a_worker_have_blocks_of_one_size)
{
    add(7, 2);
    begin(7, 0, 1);
    begin(7, 1, 1);
    store(7, 0, 1, 1, 0xa);
    cr_assert_eq(status(1).block_tokens, 16);
    cr_assert_eq(worker_set_count(&view()->groups[0].slots), 2);
}

Test(node_mirror_writer, streams_are_listed_by_worker_and_rank)
{
    struct mirror_writer_status s;

    add(9, 2);
    add(2, 1);
    add(200, 1);
    add(5, 2);
    mirror_writer_worker_remove(writer, 9);
    add(9, 1);
    static const uint32_t expected[][2] = {
        {2, 0}, {5, 0}, {5, 1}, {9, 0}, {200, 0}};
    for (uint32_t i = 0; i < 5; i++) {
        s = status(i);
        cr_assert_eq(s.worker, expected[i][0]);
        cr_assert_eq(s.rank, expected[i][1]);
    }
    cr_assert_not(mirror_writer_status(writer, 5, &s));
}

Test(node_mirror_writer, a_worker_that_went_leaves_the_view_and_its_slots)
{
    add(7, 2);
    begin(7, 0, 100);
    begin(7, 1, 100);
    store(7, 0, 100, 1, 0xa);
    store(7, 1, 100, 1, 0xa);
    uint64_t version = view()->version;
    mirror_writer_worker_remove(writer, 7);
    mirror_writer_worker_remove(writer, 7);
    cr_assert_eq(view()->version, version + 1);
    cr_assert_not(in_view(7));
    cr_assert_eq(view()->groups_count, 0);
    cr_assert_eq(mirror_writer_worker_add(writer, 7, 2, 1), 0);
    store(7, 0, 100, 2, 0xa);
    cr_assert_eq(stats().dropped_unknown, 1, "of the generation before");
}

Test(node_mirror_writer, a_slot_leaves_the_view_before_it_can_be_anothers)
{
    add(3, 1);
    add(7, 1);
    begin(3, 0, 1);
    begin(7, 0, 1);
    store(3, 0, 1, 1, 0xa);
    (void)view();
    uint32_t old = status(0).slot;
    mirror_writer_worker_remove(writer, 3);
    cr_assert_eq(mirror->slot[old].state, FAKE_OPEN);
    cr_assert_eq(view()->groups_count, 0);
    cr_assert_eq(mirror->slot[old].state, FAKE_FREE);
}

static void
shaped(uint64_t seq, uint32_t shape)
{
    union parcel parcel = stores(5, seq, seq);

    parcel.head.block_tokens = shape;
    cr_assert_eq(deliver(2, 0, &parcel), 0);
}

Test(node_mirror_writer, sliding_windows_are_in_the_view_and_may_show_late)
{
    add(2, 1);
    begin(2, 0, 5);
    shaped(1, 16);
    cr_assert(worker_set_empty(&view()->windowed));
    shaped(2, shape_of(16, 8, 3));
    uint32_t slot = status(0).slot;
    cr_assert(worker_set_has(&view()->windowed, slot));
    cr_assert_eq(view()->shape[slot], shape_of(16, 8, 3));
    cr_assert_eq(view()->groups[0].grain, 16);
    cr_assert_eq(status(0).block_tokens, 16);
    cr_assert_not(status(0).lost);
}

Test(node_mirror_writer, a_cache_without_a_known_rule_is_not_in_view)
{
    add(2, 1);
    begin(2, 0, 5);
    shaped(1, 16);
    cr_assert(status(0).in_view && !status(0).unruled);
    shaped(2, shape_of(16, SHAPE_UNRULED, 0));
    cr_assert_eq(view()->groups_count, 0);
    cr_assert(status(0).unruled && !status(0).in_view);
    cr_assert_not(status(0).lost);
}

Test(node_mirror_writer, a_shape_without_a_block_size_says_nothing)
{
    add(2, 1);
    begin(2, 0, 5);
    shaped(1, shape_of(0, 4, 1));
    cr_assert_eq(view()->groups_count, 0);
    cr_assert_eq(status(0).block_tokens, 0);
    shaped(2, 16);
    cr_assert_eq(status(0).shape, 16);
}
