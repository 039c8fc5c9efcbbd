/* A stream that goes on where another life had it. */
#include "kv_stream_rig.h"

static struct kv_stream_image image;

static void
with_image(void)
{
    rig_start(true);
    rig_settle(40);
    cr_assert(kv_stream_image(rig.stream, &image));
    rig_stop();
    rig_start(true);
    cr_assert(kv_stream_resume(rig.stream, &image));
    cr_assert_eq(kv_stream_next_seq(rig.stream), 41);
    rig_connect();
}

TestSuite(node_kv_stream_resume, .init = with_image, .fini = rig_stop);

/* What was applied since, and nothing was begun anew. */
static void
went_on(uint64_t first, uint64_t last)
{
    cr_assert_eq(rig.resets, 0);
    rig_has('a', first, last);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_resume, the_same_process_is_read_from_there_on)
{
    cr_assert_eq(rig.state, KV_STREAM_STALE, "nothing is proved yet");
    rig_wait_ask();
    cr_assert_eq(rig.asked, 40);
    rig_answer('a', 20, 45); /* its replay begins at 20 */
    went_on(41, 45);
    rig_live('a', 46); /* leads the connection to the process */
    rig_answer('a', 20, 46);
    went_on(41, 46);
    rig_live_run('a', 47, 50);
    went_on(41, 50);
}

Test(node_kv_stream_resume, one_that_said_nothing_since_is_live)
{
    rig_answer('a', 20, 40);
    cr_assert_eq(rig.resets, 0);
    cr_assert_eq(rig.applied_count, 0);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_resume, another_process_is_begun_anew)
{
    rig_answer('b', 0, 60);
    rig_answer('b', 0, 60);
    cr_assert_eq(rig.resets, 1);
    cr_assert_str_eq(rig.reason, "restarted");
    cr_assert(rig.whole);
    rig_has('b', 0, 60);
}

Test(node_kv_stream_resume, one_that_is_shorter_is_begun_anew)
{
    rig_answer_empty(); /* nothing from 40 on */
    rig_answer('b', 0, 3);
    cr_assert_eq(rig.resets, 1);
    rig_has('b', 0, 3);
}

Test(node_kv_stream_resume, batches_that_are_gone_begin_a_partial_epoch)
{
    rig_answer('a', 60, 70);
    cr_assert_eq(rig.resets, 1);
    cr_assert_str_eq(rig.reason, "history is gone");
    cr_assert_not(rig.whole);
    rig_has('a', 60, 70);
    cr_assert_eq(rig.state, KV_STREAM_PARTIAL);
}

Test(node_kv_stream_resume, its_own_image_is_the_one_it_had)
{
    struct kv_stream_image again;

    cr_assert(kv_stream_image(rig.stream, &again));
    cr_assert_eq(memcmp(&again, &image, sizeof image), 0);
    cr_assert_eq(image.fingerprints_count, KV_STREAM_FINGERPRINTS);
}

Test(node_kv_stream_resume, what_makes_no_sense_is_refused)
{
    struct kv_stream_image bad[5];

    rig_stop();
    rig_start(true);
    for (size_t i = 0; i < 5; i++) {
        bad[i] = image;
    }
    bad[0].next_seq = UINT64_MAX;
    bad[1].next_seq = bad[1].first_seq;
    bad[2].fingerprints_count = 0;
    bad[3].fingerprints_count = KV_STREAM_FINGERPRINTS + 1;
    bad[4].first_seq = bad[4].next_seq - 2; /* more fingerprints than batches */
    for (size_t i = 0; i < 5; i++) {
        cr_assert_not(kv_stream_resume(rig.stream, &bad[i]), "%zu", i);
    }
    cr_assert_eq(kv_stream_next_seq(rig.stream), 0);
    rig_connect();
    rig_answer('a', 0, 3);
    rig_has('a', 0, 3);
}

Test(node_kv_stream_resume, without_a_replay_nothing_could_prove_it)
{
    rig_stop();
    rig_start(false);
    cr_assert_not(kv_stream_resume(rig.stream, &image));
    rig_connect();
    rig_live_run('a', 0, 3);
    cr_assert_not(kv_stream_image(rig.stream, &image));
}

Test(node_kv_stream_resume, what_is_dead_blank_or_to_be_read_again_has_no_image)
{
    rig_stop();
    rig_start(true);
    cr_assert_not(kv_stream_image(rig.stream, &image), "blank");
    rig_settle(5);
    cr_assert(kv_stream_image(rig.stream, &image));
    kv_stream_reread(rig.stream, "damaged", 0, rig.now_us);
    cr_assert_not(kv_stream_image(rig.stream, &image), "to be read again");
    rig_pull();
    cr_assert_not(kv_stream_image(rig.stream, &image), "dead");
}
