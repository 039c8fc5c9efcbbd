#include <criterion/criterion.h>

#include "gossip/codec_internal.h"
#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
setup(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 3);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    gossip_role(lab.nodes[1].g, lab_stream, 1, lab.nodes[0].id, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_deltas, .init = setup, .fini = teardown);

/* DELTAs sent so far. */
static uint64_t
deltas(void)
{
    return lab.types[3];
}

Test(gossip_deltas, a_record_reaches_all_within_the_push_time)
{
    lab_read(&lab, 0, 0, EVENT_STORE, 5);
    lab_run(&lab, config.push_ms);
    cr_assert(lab.nodes[1].held[5]);
    cr_assert(lab.nodes[2].held[5]);
    cr_assert(lab.nodes[2].complete && !lab.nodes[2].stale);
}

Test(gossip_deltas, records_of_one_moment_share_a_frame)
{
    lab_run(&lab, 1);
    uint64_t before = deltas();
    for (uint32_t i = 0; i < 50; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, config.push_ms);
    cr_assert_eq(deltas(), before + 2); /* one to each peer */
    cr_assert_eq(lab_held(&lab, 2), 50);
}

Test(gossip_deltas, a_doubled_delta_changes_nothing)
{
    lab_read(&lab, 0, 0, EVENT_STORE, 5);
    lab_run(&lab, config.push_ms - 1);
    lab.now_us += LAB_MS;
    gossip_tick(lab.nodes[0].g, lab.now_us);
    lab_pull(&lab);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t f = 0; f < lab.frames_count; f++) {
            const struct lab_frame *frame = &lab.frames[f];
            if (frame->to == lab.nodes[2].id) {
                cr_assert_eq(gossip_recv(lab.nodes[2].g, frame->from,
                                         frame->bytes, frame->len, lab.now_us),
                             0);
            }
        }
        struct gossip_out out;
        uint32_t applied = 0;
        while (gossip_next_out(lab.nodes[2].g, &out)) {
            applied += out.kind == GOSSIP_APPLY;
        }
        cr_assert_eq(applied, i == 0 ? 1 : 0);
    }
    cr_assert_geq(lab_stats(&lab, 2).dropped_old, 1);
}

Test(gossip_deltas, a_gap_is_filled_from_the_log_before_what_follows)
{
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    lab_run(&lab, 5);
    lab.severed[2] = true;
    lab_read(&lab, 0, 1, EVENT_STORE, 2);
    lab_run(&lab, 5);
    lab.severed[2] = false;
    lab_read(&lab, 0, 2, EVENT_REMOVE, 2);
    lab_run(&lab, config.push_ms);
    cr_assert_eq(lab_stats(&lab, 2).pulls, 1);
    cr_assert_eq(lab_stats(&lab, 2).transfers, 0);
    cr_assert_eq(lab.nodes[2].seq >> 8, 2);
    cr_assert(lab_same(&lab, 0, 2));
    cr_assert_not(lab.nodes[2].held[2]);
}

Test(gossip_deltas, a_lost_tail_is_found_by_anti_entropy)
{
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    lab_run(&lab, 5);
    lab.severed[2] = true;
    lab_read(&lab, 0, 1, EVENT_STORE, 2);
    lab_run(&lab, 5);
    lab.severed[2] = false;
    lab_run(&lab, 1000);
    cr_assert(lab.nodes[2].held[2]);
}

Test(gossip_deltas, the_second_reader_is_silent_while_the_primary_pushes)
{
    lab_begin_reading(&lab, 1, 77, true);
    lab_run(&lab, 10);
    uint64_t before = lab_stats(&lab, 1).records_pushed;
    for (uint32_t i = 0; i < 100; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
        lab_read(&lab, 1, i, EVENT_STORE, i);
        lab_run(&lab, 3);
    }
    cr_assert_eq(lab_stats(&lab, 1).records_pushed, before);
    cr_assert_eq(lab_held(&lab, 2), 100);
}

Test(gossip_deltas,
     the_second_reader_pushes_at_once_when_the_primary_is_suspect)
{
    lab_begin_reading(&lab, 1, 77, true);
    lab_run(&lab, 10);
    lab.severed[0] = true;
    gossip_peer_suspect(lab.nodes[1].g, lab.nodes[0].id, true, lab.now_us);
    lab_read(&lab, 1, 0, EVENT_STORE, 9);
    lab_run(&lab, config.push_ms);
    cr_assert(lab.nodes[2].held[9]);
}

Test(gossip_deltas, the_second_reader_pushes_what_the_primary_is_late_with)
{
    lab_begin_reading(&lab, 1, 77, true);
    lab_run(&lab, 10);
    lab_read(&lab, 1, 0, EVENT_STORE, 9);
    lab_run(&lab, config.lag_ms - 20);
    cr_assert_eq(lab_stats(&lab, 1).records_pushed, 0);
    lab_run(&lab, 20 + config.push_ms + 1);
    cr_assert_eq(lab_stats(&lab, 1).records_pushed, 1);
    cr_assert(lab.nodes[2].held[9]);
}

Test(gossip_deltas, the_old_primary_pushes_until_it_has_heard_the_new_one)
{
    lab_begin_reading(&lab, 1, 77, true);
    lab_run(&lab, 10);
    gossip_role(lab.nodes[0].g, lab_stream, 1, lab.nodes[1].id, lab.now_us);
    cr_assert(lab_status(&lab, 0).pushes);
    gossip_role(lab.nodes[1].g, lab_stream, 0, 0, lab.now_us);
    cr_assert(lab_status(&lab, 1).pushes);
    lab_read(&lab, 1, 0, EVENT_STORE, 9);
    lab_run(&lab, config.push_ms);
    cr_assert_not(lab_status(&lab, 0).pushes);
}

Test(gossip_deltas, a_batch_of_many_parts_arrives_whole)
{
    config.log_bytes = 128 * 1024;
    lab_end(&lab);
    lab_begin(&lab, &config, 2);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < LAB_KEYS; i += 64) {
        lab_read_many(&lab, 0, i, i, 64);
    }
    /* 30,000 words: eight parts. */
    lab_read_many(&lab, 0, 5000, 0, 30000);
    lab_run(&lab, 300);
    cr_assert_eq(lab_held(&lab, 1), LAB_KEYS);
    cr_assert_eq(lab_status(&lab, 1).pos, lab_status(&lab, 0).pos);
}

Test(gossip_deltas, a_slow_peer_costs_frames_and_is_counted)
{
    config.sends_max = 4;
    lab_end(&lab);
    lab_begin(&lab, &config, 3);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    for (uint32_t i = 0; i < 2000; i += 50) { /* nobody pulls */
        lab.now_us += 50 * LAB_MS;
        gossip_tick(lab.nodes[0].g, lab.now_us);
    }
    cr_assert_gt(lab_stats(&lab, 0).sends_dropped, 0);
    lab_run(&lab, 2000);
    cr_assert(lab.nodes[2].held[1]);
}

Test(gossip_deltas, a_clear_is_a_record_like_others)
{
    lab_read(&lab, 0, 0, EVENT_STORE, 1);
    lab_read(&lab, 0, 1, EVENT_CLEAR, 0);
    lab_read(&lab, 0, 2, EVENT_STORE, 2);
    lab_run(&lab, 5);
    cr_assert_eq(lab_held(&lab, 2), 1);
    cr_assert(lab.nodes[2].held[2]);
    cr_assert_eq(lab.nodes[2].resets, 1); /* the epoch's own */
}

/* A DELTA of the stream's one process with a record of no words and so many
 * bytes of a later version. */
static size_t
put_long(uint8_t *bytes, size_t size, uint32_t more)
{
    struct codec_out out = {.bytes = bytes, .max = size};

    codec_put_u8(&out, 3); /* DELTA */
    codec_put_u8(&out, 0);
    codec_put_u8(&out, 0);
    codec_put_u64(&out, lab_stream.worker);
    codec_put_varint(&out, lab_stream.rank);
    codec_put_varint(&out, 1);
    codec_put_u64(&out, 77);
    codec_put_u8(&out, 1);
    codec_put_varint(&out, 0);
    codec_put_varint(&out, 6 + more);
    codec_put_varint(&out, gossip_pos_after(0));
    codec_put_u8(&out, 0);
    codec_put_u32(&out, 1);
    codec_put_u8(&out, 0);
    for (uint32_t i = 0; i < more; i++) {
        codec_put_u8(&out, 0xee);
    }
    codec_put_u8(&out, 0);
    cr_assert_not(out.failed);
    return out.len;
}

/* Of any length: up to a whole frame that was legal from its sender. */
Test(gossip_deltas, what_is_taken_from_a_peer_is_passed_on)
{
    static uint8_t bytes[256 * 1024];
    const uint32_t more[] = {0, 1000, 97000, 99000, 262000, 262040, 262060};

    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        size_t len = put_long(bytes, sizeof bytes, more[i]);
        lab_end(&lab);
        setup();
        cr_assert_eq(gossip_recv(lab.nodes[0].g, lab.nodes[1].id, bytes, len,
                                 lab.now_us),
                     0);
        lab_read(&lab, 0, 1, EVENT_STORE, 5);
        lab_run(&lab, 50);
        for (uint32_t node = 1; node < 3; node++) {
            cr_assert_eq(lab_status(&lab, node).pos, gossip_pos_after(1),
                         "%u bytes more, node %u", more[i], node);
        }
        cr_assert(lab.nodes[2].held[5]);
    }
}

/* Another stream, whose outputs nobody wants. */
static void
fill_log(struct gossip *g, uint64_t worker)
{
    const struct event_stream other = {.worker = worker};
    uint64_t room[sizeof(struct event_record) / 8 + 64] = {0};
    struct event_record *record = (struct event_record *)(void *)room;
    struct gossip_out out;

    cr_assert_eq(gossip_stream_add(g, other, lab.now_us), 0);
    gossip_local_begin(g, other, 78, true, 0, lab.now_us);
    record->words_count = 50;
    record->words[0] = event_op(EVENT_REMOVE, TIER_DEVICE, 49);
    for (record->seq = 0; record->seq < 200; record->seq++) {
        gossip_local_record(g, other, record, record->seq, true, lab.now_us);
        while (gossip_next_out(g, &out)) {
        }
    }
}

Test(gossip_deltas, a_stream_is_pushed_however_full_the_logs_of_others_are)
{
    lab_end(&lab);
    config.logs_bytes_max = 256 << 10;
    lab_begin(&lab, &config, 3);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    for (uint64_t i = 1; i <= 64; i++) {
        fill_log(lab.nodes[0].g, lab_stream.worker + i);
    }
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 10; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, config.push_ms);
    cr_assert_eq(lab_held(&lab, 1), 10);
    cr_assert_eq(lab_held(&lab, 2), 10);
    cr_assert_eq(lab_stats(&lab, 1).transfers, 0);
}
