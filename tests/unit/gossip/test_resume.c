/* A reading that goes on where a snapshot had it. */
#include <criterion/criterion.h>

#include "lab.h"

static struct lab lab;
static struct gossip_config config;

/* Node 1 read blocks 0 to 19 in epoch 77, then came back with the state of all
 * of them, its ledger being at 15. */
static void
setup(void)
{
    config = gossip_config_default();
    lab_begin(&lab, &config, 2);
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 20; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 500);
    cr_assert_eq(lab_held(&lab, 1), 20);
}

static void
teardown(void)
{
    lab_end(&lab);
}

TestSuite(gossip_resume, .init = setup, .fini = teardown);

static void
resume(uint64_t process, bool whole, uint64_t seq)
{
    gossip_local_resume(lab.nodes[1].g, lab_stream, process, whole, seq,
                        lab.now_us);
    lab_pull(&lab);
}

Test(gossip_resume, what_is_read_once_more_is_dropped_and_nothing_is_minted)
{
    uint64_t dropped = lab_stats(&lab, 1).dropped_old;

    resume(77, true, 15);
    cr_assert(gossip_reads(lab.nodes[1].g, lab_stream));
    cr_assert_eq(lab_status(&lab, 1).process, 77);
    for (uint32_t i = 16; i < 25; i++) {
        lab_read(&lab, 1, i, EVENT_STORE, i);
    }
    lab_pull(&lab);
    cr_assert_eq(lab_stats(&lab, 1).dropped_old - dropped, 4);
    cr_assert_eq(lab_held(&lab, 1), 25);
    cr_assert_eq(lab_status(&lab, 1).epoch.no, 1);
    cr_assert_eq(lab_stats(&lab, 1).epochs_minted, 0);
    cr_assert(lab.nodes[1].complete);
    cr_assert_eq(lab.nodes[1].rereads, 0);
}

Test(gossip_resume, a_record_that_leaves_something_out_is_not_taken)
{
    gossip_peer_down(lab.nodes[1].g, lab.nodes[0].id, lab.now_us);
    resume(77, true, 30); /* further than the replica, which cannot be */
    lab_read(&lab, 1, 31, EVENT_STORE, 31);
    lab_pull(&lab);
    cr_assert_eq(lab_held(&lab, 1), 20);
    cr_assert_eq(lab_stats(&lab, 1).gaps, 1);
}

Test(gossip_resume, in_another_epoch_by_now_it_is_read_again)
{
    resume(76, true, 15);
    cr_assert_not(gossip_reads(lab.nodes[1].g, lab_stream));
    lab_run(&lab, 50);
    cr_assert_eq(lab.nodes[1].rereads, 1);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 77, "and mints nothing");
}

Test(gossip_resume, a_gap_before_it_is_told_once_only)
{
    resume(77, false, 19);
    gossip_local_gap(lab.nodes[1].g, lab_stream, lab.now_us);
    lab_read(&lab, 1, 22, EVENT_STORE, 22);
    lab_pull(&lab);
    cr_assert_eq(lab_held(&lab, 1), 21);
    cr_assert_not(lab.nodes[1].complete);
}

Test(gossip_resume, another_process_is_minted_as_ever)
{
    resume(77, true, 15);
    lab_begin_reading(&lab, 1, 99, true);
    lab_read(&lab, 1, 0, EVENT_STORE, 5);
    lab_pull(&lab);
    cr_assert_eq(lab_status(&lab, 1).epoch.id, 99);
    cr_assert_eq(lab_status(&lab, 1).epoch.no, 2);
    cr_assert_eq(lab_held(&lab, 1), 1);
}
