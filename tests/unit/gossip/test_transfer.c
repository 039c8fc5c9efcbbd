#include <criterion/criterion.h>

#include "gossip/codec_internal.h"
#include "gossip/gossip_internal.h"
#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
setup(void)
{
    config = gossip_config_default();
    config.log_records = 20;
    lab_begin(&lab, &config, 2);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    lab_unlink(&lab, 0, 1);
    for (uint32_t i = 0; i < 500; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_transfer, .init = setup, .fini = teardown);

Test(gossip_transfer, a_state_beyond_the_log_comes_whole)
{
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 1).pulls_lost, 1);
    cr_assert_eq(lab_stats(&lab, 1).transfers_done, 1);
    cr_assert_eq(lab_held(&lab, 1), 500);
    cr_assert(lab.nodes[1].complete && !lab.nodes[1].stale);
    cr_assert_eq(lab_status(&lab, 1).pos, lab_status(&lab, 0).pos);
}

/* Goes through the pages by hand; what happens between them is up to do_(). */
static void
transfer(void (*between)(uint32_t page))
{
    lab.nodes[0].halts = true;
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    for (uint32_t page = 0; lab.nodes[0].token != 0; page++) {
        cr_assert(page == 0 || lab.nodes[1].stale);
        between(page);
        uint64_t token = lab.nodes[0].token;
        lab_export(&lab, 0);
        lab_carry(&lab);
        if (lab.nodes[0].token == token) {
            break;
        }
    }
    lab_run(&lab, 50);
}

static void
change(uint32_t page)
{
    /* Before and after what was read, both ways. */
    lab_read(&lab, 0, 500 + 4 * page, EVENT_REMOVE, page);
    lab_read(&lab, 0, 501 + 4 * page, EVENT_STORE, 600 + page);
    lab_read(&lab, 0, 502 + 4 * page, EVENT_REMOVE, 499 - page);
    lab_read(&lab, 0, 503 + 4 * page, EVENT_STORE, 5);
}

Test(gossip_transfer, what_changes_meanwhile_ends_exactly_right)
{
    config.log_records = 100;
    transfer(change);
    cr_assert(lab_same(&lab, 0, 1));
    cr_assert(lab.nodes[1].complete && !lab.nodes[1].stale);
    cr_assert_eq(lab_status(&lab, 1).count, lab_status(&lab, 0).count);
    cr_assert_eq(lab_status(&lab, 1).xor_keys, lab_status(&lab, 0).xor_keys);
}

static void
clear(uint32_t page)
{
    lab_read(&lab, 0, 500 + page, page == 3 ? EVENT_CLEAR : EVENT_STORE,
             700 + page);
}

Test(gossip_transfer, a_clear_meanwhile_clears)
{
    transfer(clear);
    cr_assert(lab_same(&lab, 0, 1));
    cr_assert(lab.nodes[1].complete);
}

static void
flood(uint32_t page)
{
    for (uint32_t i = 0; i < 30 && page < 3; i++) {
        lab_read(&lab, 0, 500 + page * 30 + i, EVENT_STORE, 800 + i);
    }
}

Test(gossip_transfer, a_log_that_rolls_past_it_begins_it_again)
{
    lab.severed[1] = false;
    transfer(flood);
    lab.nodes[0].halts = false;
    lab_run(&lab, 3000);
    cr_assert(lab_same(&lab, 0, 1));
    cr_assert_not(lab.nodes[1].stale);
}

static void
restart(uint32_t page)
{
    if (page == 2) {
        lab_begin_reading(&lab, 0, 88, true);
        lab_read(&lab, 0, 0, EVENT_STORE, 1000);
        lab_run(&lab, 5);
    }
}

Test(gossip_transfer, an_engine_that_restarts_meanwhile_ends_it)
{
    transfer(restart);
    lab.nodes[0].halts = false;
    lab_run(&lab, 1000);
    cr_assert_eq(lab_held(&lab, 1), 1);
    cr_assert(lab.nodes[1].held[1000]);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 88);
}

/* One page of the state has come, and more are wanted. */
static void
begin_state(void)
{
    lab.nodes[0].halts = true;
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    lab_export(&lab, 0);
    lab_carry(&lab);
    cr_assert(lab.nodes[1].stale);
}

Test(gossip_transfer, a_server_that_dies_leaves_nothing_half)
{
    begin_state();
    cr_assert_gt(lab_held(&lab, 1), 0);
    lab_unlink(&lab, 0, 1);
    lab_carry(&lab);
    cr_assert_eq(lab_held(&lab, 1), 0);
    lab.nodes[0].halts = false;
    lab_link(&lab, 0, 1);
    lab_run(&lab, 2000);
    cr_assert(lab_same(&lab, 0, 1));
}

Test(gossip_transfer, a_lost_page_is_asked_for_again)
{
    lab.nodes[0].halts = true;
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    lab_export(&lab, 0);
    lab_pull(&lab);
    lab_lose(&lab);
    lab.nodes[0].halts = false;
    lab_run(&lab, config.question_ms + 5);
    cr_assert(lab_same(&lab, 0, 1));
    cr_assert_eq(lab_stats(&lab, 1).transfers, 1);
}

Test(gossip_transfer, a_refusal_is_waited_out)
{
    lab.nodes[0].refuses = true;
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 1).transfers_failed, 1);
    cr_assert_eq(lab_held(&lab, 1), 0);
    lab.nodes[0].refuses = false;
    lab_run(&lab, 2000);
    cr_assert(lab_same(&lab, 0, 1));
}

Test(gossip_transfer, who_went_while_a_page_was_made_holds_no_place)
{
    lab_end(&lab);
    config.exports_max = 1;
    lab_begin(&lab, &config, 3);
    lab_begin_reading(&lab, 0, 77, true);
    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    for (uint32_t i = 0; i < 40; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab.nodes[0].halts = true;
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    cr_assert_neq(lab.nodes[0].token, 0);
    lab_unlink(&lab, 0, 1);
    lab.nodes[0].halts = false;
    lab_link(&lab, 0, 2);
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 0).pages_refused, 0);
    cr_assert(lab_same(&lab, 0, 2));
}

/* What a reader read since an older state, and no log has, would be gone. */
Test(gossip_transfer, a_reader_takes_no_state_from_before_its_log)
{
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    lab_unlink(&lab, 0, 1);
    for (uint32_t i = 500; i < 600; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_link(&lab, 0, 1);
    gossip_local_doubted(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 0).transfers, 1);
    cr_assert_eq(lab_status(&lab, 0).pos, gossip_pos_after(599));
    lab_run(&lab, 500);
    cr_assert_eq(lab_held(&lab, 0), 600);
}

Test(gossip_transfer, lost_is_judged_by_what_was_asked)
{
    lab_link(&lab, 0, 1);
    lab_pull(&lab);
    /* Carried by hand until the LOST is on its way. */
    while (lab.types[5] == 0) {
        struct lab_frame frame = lab.frames[0];
        lab.frames_count--;
        memmove(lab.frames, lab.frames + 1,
                lab.frames_count * sizeof *lab.frames);
        struct lab_node *to = &lab.nodes[frame.to == lab.nodes[1].id];
        cr_assert_eq(
            gossip_recv(to->g, frame.from, frame.bytes, frame.len, lab.now_us),
            0);
        free(frame.bytes);
        lab_pull(&lab);
    }
    /* Meanwhile it is another epoch. */
    lab_begin_reading(&lab, 1, 99, true);
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 1).transfers, 0);
}

Test(gossip_transfer, the_holes_of_the_state_come_along)
{
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    record->seq = 500;
    record->holes = 7;
    gossip_local_record(lab.nodes[0].g, lab_stream, record, 1, true,
                        lab.now_us);
    lab_pull(&lab);
    lab_link(&lab, 0, 1);
    lab_carry(&lab);
    cr_assert_eq(lab.nodes[1].holes, 7);
}

Test(gossip_transfer, a_torn_state_is_given_to_nobody)
{
    lab_end(&lab);
    lab.nodes[0] = (struct lab_node){0};
    lab_begin(&lab, &config, 3);
    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 500; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    begin_state();
    lab_link(&lab, 1, 2);
    lab_carry(&lab);
    lab_run(&lab, 100);
    cr_assert_eq(lab_held(&lab, 2), 0);
    cr_assert_eq(lab_stats(&lab, 1).pages_out, 0);
    lab.nodes[0].halts = false;
    lab_run(&lab, 5000);
    cr_assert(lab_same(&lab, 0, 2));
}

/* The page on its way becomes one of 2^14 positions before. */
static void
make_older(void)
{
    struct codec_ask ask;
    bool found = false;

    lab_pull(&lab);
    for (uint32_t i = 0; i < lab.frames_count; i++) {
        const struct lab_frame *frame = &lab.frames[i];
        struct codec_in in = {.at = frame->bytes + 2,
                              .end = frame->bytes + frame->len};
        if (frame->bytes[0] != GOSSIP_FRAME_PAGE) {
            continue;
        }
        cr_assert(codec_get_ask(&in, &ask));
        (void)codec_get_u8(&in);
        (void)codec_get_u64(&in);
        frame->bytes[in.at + 2 - frame->bytes] -= 1; /* of the varint */
        found = true;
    }
    cr_assert(found);
}

Test(gossip_transfer, a_page_of_an_older_state_ends_it)
{
    begin_state();
    lab_export(&lab, 0);
    make_older();
    lab_carry(&lab);
    cr_assert_eq(lab_stats(&lab, 1).transfers_failed, 1);
    lab.nodes[0].halts = false;
    lab_run(&lab, 5000);
    cr_assert(lab_same(&lab, 0, 1));
}

Test(gossip_transfer, an_old_answer_is_not_one_to_a_new_question)
{
    uint8_t lost[64];
    size_t len = 0;

    lab_link(&lab, 0, 1);
    lab_pull(&lab);
    for (uint32_t i = 0; i < 200 && lab.types[5] == 0; i++) {
        struct lab_frame frame = lab.frames[0];
        memmove(lab.frames, lab.frames + 1,
                --lab.frames_count * sizeof *lab.frames);
        struct lab_node *to = &lab.nodes[frame.to == lab.nodes[1].id];
        (void)!gossip_recv(to->g, frame.from, frame.bytes, frame.len,
                           lab.now_us);
        free(frame.bytes);
        lab_pull(&lab);
    }
    for (uint32_t i = 0; i < lab.frames_count; i++) {
        if (lab.frames[i].bytes[0] == 5) {
            len = lab.frames[i].len;
            memcpy(lost, lab.frames[i].bytes, len);
        }
    }
    cr_assert_gt(len, 0);
    lab_carry(&lab);
    cr_assert(lab_same(&lab, 0, 1));
    lab.severed[1] = true;
    lab_read(&lab, 0, 500, EVENT_STORE, 500);
    lab_run(&lab, 5);
    lab.severed[1] = false;
    lab_read(&lab, 0, 501, EVENT_STORE, 501);
    lab.now_us += 3 * LAB_MS;
    gossip_tick(lab.nodes[0].g, lab.now_us);
    lab_pull(&lab);
    for (uint32_t i = 0; i < lab.frames_count; i++) {
        const struct lab_frame *frame = &lab.frames[i];
        (void)!gossip_recv(lab.nodes[1].g, frame->from, frame->bytes,
                           frame->len, lab.now_us);
    }
    lab_lose(&lab);
    lab_pull(&lab); /* the question is on its way */
    uint64_t transfers = lab_stats(&lab, 1).transfers;
    cr_assert_eq(
        gossip_recv(lab.nodes[1].g, lab.nodes[0].id, lost, len, lab.now_us), 0);
    cr_assert_eq(lab_stats(&lab, 1).transfers, transfers);
    lab_carry(&lab);
    cr_assert(lab_same(&lab, 0, 1));
}
