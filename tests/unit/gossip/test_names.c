/* Engines' names for blocks, as nodes that do not read keep them. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "gossip/codec_internal.h"
#include "index/base/rng.h"
#include "lab.h"

static struct lab lab;
static struct gossip_config config;

static void
read_one(uint32_t at, uint64_t seq, uint32_t key, bool named)
{
    lab_read_named(&lab, at, seq, key, named);
}

static void
begin(void)
{
    lab_begin(&lab, &config, 3);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        read_one(0, i, i, true);
    }
    lab_run(&lab, 500);
}

static void
setup(void)
{
    config = gossip_config_default();
    begin();
}

static void
begin_with_short_logs(void)
{
    lab_end(&lab);
    config.log_records = 4;
    begin();
    lab_run(&lab, 2000);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_names, .init = setup, .fini = teardown);

Test(gossip_names, every_node_has_those_of_the_reader)
{
    struct gossip_names names;

    for (uint32_t at = 0; at < 3; at++) {
        cr_assert(gossip_names(lab.nodes[at].g, lab_stream, &names));
        cr_assert_eq(names.seq, 19);
        cr_assert_eq(names.fingerprint, rng_mix(19 + 7), "the whole of it");
        cr_assert_eq(names.table->count, 20);
        cr_assert_eq(names_find(names.table, 1005)->key, rng_mix(6));
        cr_assert_eq(names.table->reader[0], LAB_READER);
    }
}

Test(gossip_names, a_partial_reading_goes_on_from_them_in_the_epoch)
{
    struct gossip *g = lab.nodes[1].g;
    struct gossip_out out;
    uint32_t resumes = 0;

    lab_stop(&lab, 0);
    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    while (gossip_next_out(g, &out)) {
        resumes += out.kind == GOSSIP_REREAD && out.resume;
    }
    cr_assert_eq(resumes, 1);
    gossip_local_resume(g, lab_stream, 77, true, 19, lab.now_us);
    gossip_local_live(g, lab_stream, true, lab.now_us);
    read_one(1, 20, 20, true);
    lab_run(&lab, 3000);
    cr_assert(gossip_reads(g, lab_stream));
    cr_assert(lab_status(&lab, 1).complete);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_status(&lab, 1).count, lab_status(&lab, 2).count);
    cr_assert_eq(lab_stats(&lab, 1).epochs_minted, 0);
}

Test(gossip_names, a_whole_reading_tells_those_that_a_snapshot_lacked)
{
    struct gossip_names names;

    for (uint32_t at = 0; at < 3; at++) {
        lab_stop(&lab, at);
    }
    lab_start(&lab, 1);
    lab.nodes[1].name = 77;
    gossip_load(lab.nodes[1].g, lab_stream,
                (struct gossip_epoch){.no = 1, .id = 77}, true,
                gossip_pos_after(19), true);
    lab_begin_reading(&lab, 1, 77, true);
    for (uint32_t i = 0; i < 21; i++) {
        read_one(1, i, i, true);
    }
    cr_assert(gossip_names(lab.nodes[1].g, lab_stream, &names));
    cr_assert_eq(names.seq, 20);
    cr_assert_eq(names.table->count, 21);
}

/* Node 2 began empty and in the middle; node 1, which does not read, knows all
 * up to batch 19. */
static void
meet_who_knows_more(void)
{
    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 1, 2);
    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    lab_start(&lab, 2);
    lab_begin_reading(&lab, 2, 999, false);
    for (uint32_t i = 15; i < 25; i++) {
        read_one(2, i, i, true);
    }
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 999);
    lab_link(&lab, 1, 2);
    lab_run(&lab, 100);
}

Test(gossip_names, a_partial_reading_joins_the_epoch_whose_names_a_peer_has)
{
    meet_who_knows_more();
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    lab_run(&lab, config.judge_ms + 100);
    cr_assert_eq(lab_stats(&lab, 2).resumes, 1);
    gossip_local_resume(lab.nodes[2].g, lab_stream, 77, true, 19, lab.now_us);
    for (uint32_t i = 20; i < 25; i++) {
        read_one(2, i, i, true);
    }
    lab_run(&lab, 2 * config.judge_ms);
    for (uint32_t at = 1; at < 3; at++) {
        cr_assert_eq(lab_status(&lab, at).epoch.id, 77);
        cr_assert_eq(lab_status(&lab, at).pos >> 8, 24);
        cr_assert(lab_status(&lab, at).complete);
    }
}

Test(gossip_names, nobody_goes_back_to_the_epoch_that_a_takeover_ended)
{
    meet_who_knows_more();
    lab_begin_reading(&lab, 2, 999, false); /* no replay goes back that far */
    lab_run(&lab, 2 * config.judge_ms);
    lab_begin_reading(&lab, 2, 999, false); /* as it was asked to */
    for (uint32_t i = 15; i < 25; i++) {
        read_one(2, i, i, true);
    }
    lab_run(&lab, 4 * config.judge_ms);
    for (uint32_t at = 1; at < 3; at++) {
        cr_assert_eq(lab_status(&lab, at).epoch.id, 999);
        cr_assert_eq(lab_status(&lab, at).pos >> 8, 24);
    }
    cr_assert_eq(lab_stats(&lab, 2).epochs_minted, 2);
}

/* Node 2 loses the peer before it has anything of the epoch that it joined. */
Test(gossip_names, an_epoch_that_was_left_without_names_is_joined_again)
{
    begin_with_short_logs();
    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 1, 2);
    lab_stop(&lab, 0);
    lab_stop(&lab, 2);
    lab_start(&lab, 2);
    for (uint32_t time = 0; time < 3; time++) {
        lab_begin_reading(&lab, 2, 999, false);
        for (uint32_t i = 15; i < 25; i++) {
            read_one(2, i, i, true);
        }
        cr_assert_neq(lab_status(&lab, 2).epoch.id, 77);
        lab.nodes[1].refuses = time < 2;
        lab_link(&lab, 1, 2);
        lab_run(&lab, 800);
        cr_assert_eq(lab_status(&lab, 2).epoch.id, 77, "%u", time);
        lab_unlink(&lab, 1, 2);
        lab_run(&lab, 2 * config.judge_ms);
    }
    cr_assert_eq(lab_status(&lab, 2).epoch.id, 77);
    cr_assert_eq(lab_status(&lab, 2).pos >> 8, 19);
    cr_assert_geq(lab_stats(&lab, 2).resumes, 1);
}

/* ---- a state that is built from them ---- */

Test(gossip_names, a_lost_state_is_built_from_them)
{
    begin_with_short_logs();
    lab_unlink(&lab, 0, 1);
    lab_unlink(&lab, 0, 2);
    uint32_t resets = lab.nodes[0].resets;
    memset(lab.nodes[0].held, 0, sizeof lab.nodes[0].held);
    gossip_local_lost(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab.nodes[0].rereads, 0);
    cr_assert_eq(lab.nodes[0].resets, resets + 1);
    cr_assert_eq(lab_held(&lab, 0), 20);
    cr_assert(lab_status(&lab, 0).complete);
    cr_assert(lab_status(&lab, 0).reads);
    cr_assert_eq(lab_status(&lab, 0).pos, gossip_pos_after(19));
    read_one(0, 20, 20, true);
    cr_assert_eq(lab_held(&lab, 0), 21);
}

Test(gossip_names, what_the_log_has_since_then_is_applied_behind_them)
{
    lab_unlink(&lab, 1, 2);
    for (uint32_t i = 20; i < 23; i++) {
        read_one(0, i, i, i != 20); /* they stay as of 19 */
    }
    gossip_local_lost(lab.nodes[0].g, lab_stream, lab.now_us);
    lab_pull(&lab);
    cr_assert_eq(lab_held(&lab, 0), 23);
    cr_assert_eq(lab_status(&lab, 0).pos, gossip_pos_after(22));
    cr_assert(lab_status(&lab, 0).complete);
}

Test(gossip_names, what_rots_on_the_reader_is_built_from_them)
{
    lab.nodes[0].held[5] = false;
    read_one(0, 20, 20, true);
    lab_run(&lab, 2000);
    for (uint32_t at = 0; at < 3; at++) {
        cr_assert_eq(lab_held(&lab, at), 21);
        cr_assert_eq(lab.nodes[at].rereads, 0);
    }
    cr_assert_gt(lab_stats(&lab, 0).digest_mismatches, 0);
}

/* Batch 20 of node 0 stores one block in the device, and on the host, too. */
static void
read_in_two_tiers(void)
{
    uint64_t room[sizeof(struct event_record) / 8 + 16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;
    struct names_said said = {.last = 0};
    struct names_block block = {.name = 5000, .key = rng_mix(21)};

    words_init(&said.words, 16);
    names_say_enter(&said, &block);
    names_say_copies(&said, block.name,
                     NAMES_PLAIN | 1U << names_copies_shift(TIER_HOST));
    record->seq = 20;
    record->words_count = 4;
    record->words[0] = event_op(EVENT_STORE, TIER_DEVICE, 1);
    record->words[1] = block.key;
    record->words[2] = event_op(EVENT_STORE, TIER_HOST, 1);
    record->words[3] = block.key;
    record->names_count = EVENT_NAMED | (uint32_t)said.words.count;
    memcpy(record->words + 4, said.words.word,
           said.words.count * sizeof(uint64_t));
    words_fini(&said.words);
    gossip_local_record(lab.nodes[0].g, lab_stream, record, rng_mix(27), true,
                        lab.now_us);
    lab_pull(&lab);
}

Test(gossip_names, blocks_are_where_they_were)
{
    uint32_t stored[TIERS] = {0};
    struct gossip_out out;

    read_in_two_tiers();
    gossip_local_lost(lab.nodes[0].g, lab_stream, lab.now_us);
    while (gossip_next_out(lab.nodes[0].g, &out)) {
        for (uint32_t i = 0;
             out.kind == GOSSIP_APPLY && i < out.record->words_count;
             i += 1 + event_op_count(out.record->words[i])) {
            uint64_t op = out.record->words[i];
            cr_assert_eq(event_op_kind(op), EVENT_STORE);
            stored[event_op_tier(op)] += event_op_count(op);
        }
    }
    cr_assert_eq(stored[TIER_DEVICE], 21);
    cr_assert_eq(stored[TIER_HOST], 1);
    cr_assert_eq(stored[TIER_DISK] + stored[TIER_EXTERNAL], 0);
}

/* Node 1 knows all since a CLEAR, node 2 all until before it. */
Test(gossip_names, what_is_complete_is_not_left_for_older_ones)
{
    lab_stop(&lab, 1);
    lab_start(&lab, 1);
    lab_begin_reading(&lab, 1, 50, false);
    for (uint32_t i = 15; i < 20; i++) {
        read_one(1, i, i, true);
    }
    lab_read(&lab, 1, 20, EVENT_CLEAR, 0);
    for (uint32_t i = 21; i < 25; i++) {
        read_one(1, i, i, true);
    }
    cr_assert(lab_status(&lab, 1).complete);
    lab_stop(&lab, 0);
    lab_link(&lab, 1, 2);
    for (uint32_t ms = 0; ms < 2 * config.judge_ms; ms++) {
        lab_run(&lab, 1);
        if (lab.nodes[1].prove) {
            gossip_local_proved(lab.nodes[1].g, lab_stream, lab.nodes[1].ask,
                                lab.now_us);
        }
    }
    for (uint32_t at = 1; at < 3; at++) {
        cr_assert_eq(lab_status(&lab, at).epoch.id, 50);
        cr_assert_eq(lab_held(&lab, at), 4);
    }
}

/* Readers that begin meanwhile may go on where it is. */
Test(gossip_names, who_has_them_waits_for_readers)
{
    lab_stop(&lab, 0);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 60, true);
    lab_begin_reading(&lab, 2, 61, true);
    gossip_local_end(lab.nodes[2].g, lab_stream, lab.now_us);
    lab_link(&lab, 1, 2);
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77);
    lab_run(&lab, 2 * config.judge_ms);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 61);
}

/* Node 1's log is too short to tell. */
Test(gossip_names, another_process_shows_at_their_batch)
{
    lab_stop(&lab, 0);
    begin_with_short_logs();
    lab_stop(&lab, 0);
    lab_unlink(&lab, 1, 2);
    lab_begin_reading(&lab, 1, 999, false);
    for (uint32_t i = 12; i < 20; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, 100 + i);
    }
    lab_run(&lab, config.judge_ms + 100);
    cr_assert_eq(lab_stats(&lab, 1).takeovers, 1);
}

Test(gossip_names, it_is_tried_once_for_a_position)
{
    struct gossip *g = lab.nodes[1].g;
    struct gossip_out out;
    uint32_t resumes = 0;

    for (uint32_t i = 0; i < 3; i++) {
        gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
        while (gossip_next_out(g, &out)) {
            resumes += out.kind == GOSSIP_REREAD && out.resume;
        }
    }
    cr_assert_eq(resumes, 1);
}

Test(gossip_names, who_reads_again_tries_again)
{
    struct gossip *g = lab.nodes[1].g;

    for (uint64_t i = 1; i <= 2; i++) {
        gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
        cr_assert_eq(lab_stats(&lab, 1).resumes, i);
        gossip_local_end(g, lab_stream, lab.now_us);
    }
}

/* They stay as of the batch before: the engine's replay may reach back to it. */
Test(gossip_names, a_record_without_them_leaves_them_old)
{
    struct gossip_names names;

    for (uint32_t i = 20; i < 23; i++) {
        read_one(0, i, i, i != 20);
    }
    lab_run(&lab, 500);
    for (uint32_t at = 0; at < 3; at += 2) {
        cr_assert(gossip_names(lab.nodes[at].g, lab_stream, &names));
        cr_assert_eq(names.seq, 19);
        cr_assert_eq(names.table->count, 20);
        cr_assert_eq(lab_stats(&lab, at).names_lost, 1);
    }
    cr_assert(gossip_is_level(lab.nodes[2].g), "nobody has them");
}

Test(gossip_names, a_reading_that_goes_on_from_old_ones_brings_them_up_to_date)
{
    struct gossip *g = lab.nodes[1].g;
    struct gossip_names names;

    for (uint32_t i = 20; i < 23; i++) {
        read_one(0, i, i, i != 20);
    }
    lab_run(&lab, 500);
    lab_stop(&lab, 0);
    gossip_local_begin(g, lab_stream, 999, false, 0, lab.now_us);
    gossip_local_resume(g, lab_stream, 77, true, 19, lab.now_us);
    for (uint32_t i = 20; i < 24; i++) {
        read_one(1, i, i, true);
    }
    lab_run(&lab, 500);
    for (uint32_t at = 1; at < 3; at++) { /* node 2 has asked for them */
        cr_assert(gossip_names(lab.nodes[at].g, lab_stream, &names));
        cr_assert_eq(names.seq, 23);
        cr_assert_eq(names.fingerprint, rng_mix(23 + 7));
        cr_assert_eq(names.table->count, 24);
    }
}

/* A peer's state comes without names, here from one that lacks them. */
Test(gossip_names, they_outlive_the_state_that_a_peer_replaces)
{
    struct gossip_names names;

    begin_with_short_logs();
    lab_stop(&lab, 2);
    lab_run(&lab, 10);
    lab_start(&lab, 2);
    gossip_load(lab.nodes[2].g, lab_stream,
                (struct gossip_epoch){.no = 1, .id = 77}, true,
                gossip_pos_after(19), true);
    for (uint32_t i = 0; i < 20; i++) {
        lab.nodes[2].held[i] = true;
    }
    lab_link(&lab, 1, 2);
    lab_unlink(&lab, 0, 1);
    cr_assert_not(gossip_names(lab.nodes[2].g, lab_stream, &names));
    uint64_t before = lab_stats(&lab, 1).transfers_done;
    gossip_local_doubted(lab.nodes[1].g, lab_stream, lab.now_us);
    cr_assert(gossip_names(lab.nodes[1].g, lab_stream, &names));
    lab_run(&lab, 500);
    cr_assert_eq(lab_stats(&lab, 1).transfers_done, before + 1);
    cr_assert_eq(lab_status(&lab, 1).pos, gossip_pos_after(19));
    cr_assert(gossip_names(lab.nodes[1].g, lab_stream, &names));
    cr_assert_eq(names.seq, 19);
    cr_assert_eq(names.table->count, 20);
    cr_assert(gossip_names(lab.nodes[2].g, lab_stream, &names));
}

/* Names that are behind the state are those of before until others are there. */
Test(gossip_names, old_ones_stay_until_a_peer_has_told_all_of_its_own)
{
    struct gossip_names names;
    bool old = false;

    begin_with_short_logs();
    lab_unlink(&lab, 0, 2);
    lab_unlink(&lab, 1, 2);
    for (uint32_t i = 20; i < 40; i++) {
        read_one(0, i, i, true);
    }
    lab_run(&lab, 100);
    lab_link(&lab, 1, 2);
    for (uint32_t ms = 0; ms < 1000; ms++) {
        lab_run(&lab, 1);
        bool known = gossip_names(lab.nodes[2].g, lab_stream, &names);
        old |= known && names.seq == 19;
        cr_assert(!known || names.seq >= 19);
    }
    cr_assert(old);
    cr_assert_eq(names.seq, 39);
}

/* Node 1 has the state as of 22, and the names of 19; node 2 has no names. */
static void
only_old_ones_are_left(void)
{
    struct gossip_names names;

    begin_with_short_logs();
    lab_unlink(&lab, 1, 2);
    for (uint32_t i = 20; i < 23; i++) {
        read_one(0, i, i, i != 20); /* they stay as of 19 */
    }
    lab_run(&lab, 100);
    lab_stop(&lab, 2);
    lab_stop(&lab, 0);
    cr_assert(gossip_names(lab.nodes[1].g, lab_stream, &names));
    cr_assert_eq(names.seq, 19);
    lab_start(&lab, 2);
    lab_link(&lab, 1, 2);
    lab_begin_reading(&lab, 2, 999, false);
}

Test(gossip_names, where_there_are_old_ones_only_those_are_handed_on)
{
    struct gossip_names names;

    only_old_ones_are_left();
    lab_run(&lab, config.judge_ms - 100);
    cr_assert_eq(lab_status(&lab, 2).pos, gossip_pos_after(22));
    cr_assert(gossip_names(lab.nodes[2].g, lab_stream, &names));
    cr_assert_eq(names.seq, 19);
    cr_assert_eq(names.fingerprint, rng_mix(19 + 7));
    cr_assert_eq(names.table->count, 20);
    cr_assert_eq(lab_stats(&lab, 2).resumes, 1);
    gossip_local_resume(lab.nodes[2].g, lab_stream, 77, true, 19, lab.now_us);
    gossip_local_live(lab.nodes[2].g, lab_stream, true, lab.now_us);
    for (uint32_t i = 20; i < 25; i++) {
        read_one(2, i, i, true);
    }
    lab_run(&lab, 2 * config.judge_ms);
    for (uint32_t at = 1; at < 3; at++) {
        cr_assert_eq(lab_status(&lab, at).epoch.id, 77);
        cr_assert(lab_status(&lab, at).complete);
        cr_assert(gossip_names(lab.nodes[at].g, lab_stream, &names));
        cr_assert_eq(names.seq, 24);
        cr_assert_eq(names.table->count, 25);
    }
}

Test(gossip_names, old_ones_are_asked_for_once)
{
    only_old_ones_are_left();
    lab_run(&lab, config.judge_ms / 2);
    cr_assert_eq(lab_stats(&lab, 2).names_asked, 1);
    uint64_t theirs = lab_stats(&lab, 1).names_asked;
    lab_unlink(&lab, 1, 2);
    lab_link(&lab, 1, 2); /* both say what they have */
    lab_run(&lab, config.judge_ms / 4);
    cr_assert_eq(lab_stats(&lab, 2).names_asked, 1);
    cr_assert_eq(lab_stats(&lab, 1).names_asked, theirs);
}

/* A DELTA with the batch after `prev`: it stores nothing, one name leaves, and
 * behind that there are so many bytes of a later version. */
static size_t
put_leave(uint8_t *bytes, size_t size, uint64_t prev, uint32_t more)
{
    static uint8_t later[CODEC_BODY_MAX];
    const uint64_t words[] = {names_op(NAMES_LEAVE, false, 0, 1), 1005};
    struct event_record head = {.block_tokens = 16};
    struct codec_names names = {.words = words, .count = 2};
    uint8_t room[1024];
    struct codec_out field = {.bytes = room, .max = sizeof room};
    static uint8_t kept[CODEC_BODY_MAX + 256];
    struct codec_out body = {.bytes = kept, .max = sizeof kept};
    struct codec_out out = {.bytes = bytes, .max = size};

    codec_put_names(&field, &names, NULL, 0, true, rng_mix(prev + 8));
    codec_put_body(&body, &head, NULL, 0, rng_mix(prev + 8), 0);
    codec_put_field(&body, CODEC_FIELD_NAMES, field.bytes, field.len);
    codec_put_field(&body, 0xee, later, more);
    codec_put_u8(&out, 3); /* DELTA */
    codec_put_u8(&out, 0);
    codec_put_u8(&out, 0);
    codec_put_u64(&out, lab_stream.worker);
    codec_put_varint(&out, lab_stream.rank);
    codec_put_varint(&out, 1);
    codec_put_u64(&out, 77);
    codec_put_u8(&out, 1);
    codec_put_varint(&out, gossip_pos_after(prev));
    codec_put_varint(&out, body.len);
    codec_put_varint(&out, gossip_pos_after(prev + 1) - gossip_pos_after(prev));
    codec_put_bytes(&out, body.bytes, body.len);
    codec_put_u8(&out, 0);
    cr_assert_not(out.failed || body.failed || field.failed);
    return out.len;
}

/* They are those of before, which records do not reach. */
Test(gossip_names, a_record_that_comes_meanwhile_spoils_no_old_ones)
{
    static uint8_t bytes[4096];
    struct gossip_names names;
    size_t len = put_leave(bytes, sizeof bytes, 22, 0);

    only_old_ones_are_left();
    for (uint32_t ms = 0; lab_stats(&lab, 2).names_asked == 0; ms++) {
        cr_assert_lt(ms, config.judge_ms);
        lab_carry(&lab);
        lab.now_us += LAB_MS;
        gossip_tick(lab.nodes[1].g, lab.now_us);
        gossip_tick(lab.nodes[2].g, lab.now_us);
        lab_pull(&lab); /* the question is on its way */
    }
    cr_assert_eq(
        gossip_recv(lab.nodes[2].g, lab.nodes[1].id, bytes, len, lab.now_us),
        0);
    lab_run(&lab, 1);
    cr_assert_eq(lab_status(&lab, 2).pos, gossip_pos_after(23));
    cr_assert(gossip_names(lab.nodes[2].g, lab_stream, &names));
    cr_assert_eq(names.seq, 19);
    cr_assert_eq(names.table->count, 20);
    cr_assert_eq(lab_stats(&lab, 2).names_asked, 1);
}

/* What is behind them is cut off, so that the record can be passed on. */
Test(gossip_names, a_record_that_is_too_long_keeps_them)
{
    static uint8_t bytes[256 * 1024];
    const uint32_t more[] = {1000, CODEC_BODY_MAX};

    for (uint32_t i = 0; i < 2; i++) {
        struct gossip_names names;
        size_t len = put_leave(bytes, sizeof bytes, 19, more[i]);

        lab_end(&lab);
        setup();
        cr_assert_eq(gossip_recv(lab.nodes[2].g, lab.nodes[0].id, bytes, len,
                                 lab.now_us),
                     0);
        lab_pull(&lab);
        cr_assert_eq(lab_status(&lab, 2).pos, gossip_pos_after(20));
        cr_assert(gossip_names(lab.nodes[2].g, lab_stream, &names),
                  "%u bytes more", more[i]);
        cr_assert_eq(lab_stats(&lab, 2).names_lost, 0);
        cr_assert_eq(names.seq, 20);
        cr_assert_eq(names.table->count, 19);
        cr_assert_null(names_find(names.table, 1005));
    }
}

Test(gossip_names, who_got_the_state_from_a_peer_is_not_level_without_them)
{
    struct gossip_names names;
    bool lagged = false;

    lab_stop(&lab, 2);
    lab_run(&lab, 10);
    lab_start(&lab, 2);
    gossip_load(lab.nodes[2].g, lab_stream,
                (struct gossip_epoch){.no = 1, .id = 77}, true,
                gossip_pos_after(19), true);
    lab_link(&lab, 0, 2);
    for (uint32_t ms = 0; ms < 2000 && !lagged; ms++) {
        lab_run(&lab, 1);
        lagged = !gossip_is_level(lab.nodes[2].g);
    }
    cr_assert(lagged);
    lab_run(&lab, 2000);
    cr_assert(gossip_is_level(lab.nodes[2].g));
    cr_assert(gossip_names(lab.nodes[2].g, lab_stream, &names));
    cr_assert_eq(names.table->count, 20);
}

Test(gossip_names, a_leaving_node_pushes_what_waits)
{
    read_one(0, 20, 20, true);
    gossip_flush(lab.nodes[0].g, lab.now_us);
    lab_pull(&lab);
    lab_carry(&lab);
    cr_assert_eq(lab_status(&lab, 1).pos, gossip_pos_after(20));
}

/* Who reads first may have lost the engine; it is given lag_ms to tell, and a
 * node that leaves does not wait for that. */
Test(gossip_names, a_leaving_node_pushes_what_who_reads_first_did_not)
{
    gossip_role(lab.nodes[1].g, lab_stream, 1, lab.nodes[0].id, lab.now_us);
    lab_begin_reading(&lab, 1, 77, true);
    for (uint32_t i = 0; i <= 20; i++) {
        read_one(1, i, i, true);
    }
    lab_run(&lab, config.push_ms + 1);
    cr_assert_eq(lab_status(&lab, 2).pos, gossip_pos_after(19));
    gossip_flush(lab.nodes[1].g, lab.now_us);
    lab_pull(&lab);
    lab_carry(&lab);
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert_eq(lab_status(&lab, i).pos, gossip_pos_after(20));
    }
}

#define GONE 4000U /* names that one record says are gone */

/* A record of batch 20, which holds nothing and says that names are gone. */
static void
say_gone(uint32_t first, bool last)
{
    struct event_record *record =
        calloc(1, sizeof *record + (GONE + 1) * sizeof(uint64_t));

    cr_assert_not_null(record);
    record->seq = 20;
    record->names_count = EVENT_NAMED | (GONE + 1);
    record->words[0] = names_op(NAMES_LEAVE, false, 0, GONE);
    for (uint32_t i = 0; i < GONE; i++) {
        record->words[1 + i] = rng_mix(first + i);
    }
    gossip_local_record(lab.nodes[0].g, lab_stream, record, 5, last,
                        lab.now_us);
    free(record);
    lab_carry(&lab);
}

Test(gossip_names, what_waits_for_the_end_of_its_batch_counts_for_the_bound)
{
    size_t before = lab_stats(&lab, 1).names_bytes;

    for (uint32_t i = 0; i < 10; i++) {
        say_gone(i * GONE, false);
        lab_run(&lab, 5);
    }
    cr_assert_geq(lab_stats(&lab, 1).names_bytes, before + 8 * 9 * GONE);
    say_gone(10 * GONE, true);
    lab_run(&lab, 5);
    cr_assert_leq(lab_stats(&lab, 1).names_bytes, before + (32 << 10));
    cr_assert_eq(lab_stats(&lab, 1).names_lost, 0);
}

Test(gossip_names, no_batch_that_does_not_end_takes_more_than_there_is)
{
    lab_end(&lab);
    config.names_bytes_max = 256 << 10;
    begin();
    for (uint32_t i = 0; i < 10; i++) {
        say_gone(i * GONE, false);
        lab_run(&lab, 5);
    }
    cr_assert_leq(lab_stats(&lab, 1).names_bytes, config.names_bytes_max);
    cr_assert_eq(lab_stats(&lab, 1).names_lost, 1);
}

/* Delivers the frames of that type alone that wait. */
static void
deliver(uint8_t type, uint32_t to)
{
    lab_pull(&lab);
    for (uint32_t i = 0; i < lab.frames_count; i++) {
        const struct lab_frame *frame = &lab.frames[i];
        if (frame->bytes[0] == type && frame->to == lab.nodes[to].id) {
            cr_assert_eq(gossip_recv(lab.nodes[to].g, frame->from, frame->bytes,
                                     frame->len, lab.now_us),
                         0);
        }
    }
    lab_pull(&lab);
}

/* A page may be of a batch that is on its way to who asked. */
Test(gossip_names, of_a_later_batch_count_once_it_is_there)
{
    begin_with_short_logs();
    lab_stop(&lab, 2);
    lab_start(&lab, 2);
    lab_link(&lab, 0, 2);
    lab_carry(&lab);
    read_one(0, 20, 20, true);
    gossip_tick(lab.nodes[2].g, lab.now_us);
    deliver(13, 0);
    deliver(14, 2);
    cr_assert_eq(lab_stats(&lab, 2).names_pages_in, 1);
    cr_assert_eq(lab_status(&lab, 2).pos, gossip_pos_after(19));
    cr_assert_not(lab_status(&lab, 2).names_known);
    lab_carry(&lab);
    lab_run(&lab, 500);
    cr_assert(lab_status(&lab, 2).names_known);
    cr_assert_eq(lab_status(&lab, 2).names_pos, gossip_pos_after(20));
    cr_assert_eq(lab_status(&lab, 2).names_digest,
                 lab_status(&lab, 0).names_digest);
}
