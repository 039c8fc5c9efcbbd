#include <criterion/criterion.h>
#include <string.h>

#include "node/scale/scale_job.h"

#define SECOND UINT64_C(1000000)

static struct scale_job job;
static struct scale_facts facts;
static const struct scale_times times = {.provision_ms = 60000,
                                         .drain_ms = 30000};
static uint64_t now_us = 100 * SECOND;

/* In that state since now, on a node that acts and that all hear. */
static void
in(enum scale_state state)
{
    struct scale_record record = {.state = state, .model = "m"};

    if (state != SCALE_ASKED) {
        memcpy(record.worker, "h:1", 4);
    }
    scale_job_heard(&job, &record, now_us);
    facts = (struct scale_facts){.acts = true,
                                 .kept = true,
                                 .all_know = true,
                                 .reaches = true,
                                 .there = state != SCALE_ASKED,
                                 .drains = state >= SCALE_DRAINS};
}

static enum scale_do
after(uint64_t us)
{
    now_us += us;
    return scale_job_next(&job, &facts, &times, now_us);
}

static void
call(bool well)
{
    scale_job_called(&job);
    scale_job_answered(&job, well, now_us);
}

Test(node_scale_job, a_call_waits_until_others_know_of_it)
{
    in(SCALE_ASKED);
    facts.kept = false;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    facts.kept = true;
    facts.acts = false;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    facts.acts = true;
    cr_expect_eq(after(SECOND), SCALE_DO_PROVISION);
    scale_job_called(&job);
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
}

Test(node_scale_job, a_call_that_failed_comes_again_later_and_later)
{
    uint64_t waits[8];

    in(SCALE_ENDS);
    for (uint32_t i = 0; i < 8; i++) {
        call(false);
        waits[i] = 0;
        while (after(SECOND / 10) == SCALE_DO_NOTHING) {
            waits[i]++;
        }
    }
    cr_expect_eq(waits[0] + 1, 10);
    cr_expect_eq(waits[1] + 1, 20);
    cr_expect_eq(waits[2] + 1, 40);
    cr_expect_eq(waits[7] + 1, 600);
    call(true); /* but it has to come again */
    cr_expect_eq(after(SECOND), SCALE_DO_TERMINATE);
}

Test(node_scale_job, what_does_not_come_in_time_is_given_back)
{
    in(SCALE_ASKED);
    cr_expect_neq(after(59 * SECOND), SCALE_DO_END);
    cr_expect_eq(after(SECOND), SCALE_DO_END);
    in(SCALE_COMES);
    cr_expect_eq(after(59 * SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(SECOND),
                 SCALE_DO_DRAIN); /* it may be in use somewhere */
    in(SCALE_COMES);
    facts.ready = true;
    cr_expect_eq(after(SECOND), SCALE_DO_WORK);
    in(SCALE_WORKS);
    cr_expect_eq(after(3600 * SECOND), SCALE_DO_NOTHING);
}

Test(node_scale_job, an_engine_that_is_lost_is_given_back)
{
    in(SCALE_WORKS);
    facts.idle = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(59 * SECOND), SCALE_DO_NOTHING);
    facts.reaches = false; /* nor does any other engine, for this node */
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    facts.reaches = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(59 * SECOND), SCALE_DO_NOTHING);
    facts.idle = false; /* another node has a request there */
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    facts.idle = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(59 * SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(SECOND), SCALE_DO_END);
    in(SCALE_WORKS);
    facts.ready = facts.idle = true;
    cr_expect_eq(after(3600 * SECOND), SCALE_DO_NOTHING);
}

Test(node_scale_job, an_engine_that_an_operator_drains_is_given_back)
{
    in(SCALE_WORKS);
    facts.drains = true;
    cr_expect_eq(after(3600 * SECOND), SCALE_DO_NOTHING); /* it has requests */
    facts.idle = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(59 * SECOND), SCALE_DO_NOTHING);
    facts.drains = false; /* taken back in time */
    facts.ready = facts.reaches = true;
    cr_expect_eq(after(3600 * SECOND), SCALE_DO_NOTHING);
    facts.ready = facts.reaches = false; /* it is the only one */
    facts.drains = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(60 * SECOND), SCALE_DO_END);
    in(SCALE_ENDS);
    facts.drains = facts.idle = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(SCALE_IDLE_US), SCALE_DO_TERMINATE);
}

Test(node_scale_job, what_another_node_reaches_is_not_lost)
{
    in(SCALE_COMES);
    facts.reached = true;
    cr_expect_eq(after(SECOND), SCALE_DO_WORK);
    in(SCALE_WORKS);
    facts.idle = facts.reached = true;
    cr_expect_eq(after(3600 * SECOND), SCALE_DO_NOTHING);
    facts.reached = false;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(59 * SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(SECOND), SCALE_DO_END);
}

Test(node_scale_job, one_that_was_lost_and_is_used_again_drains_before_it_ends)
{
    in(SCALE_WORKS);
    facts.idle = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(60 * SECOND), SCALE_DO_END);
    in(SCALE_ENDS);
    facts.drains = false;
    cr_expect_eq(after(SECOND), SCALE_DO_DRAIN);
    facts.drains = true; /* a request came before all knew that */
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    facts.idle = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(SCALE_IDLE_US), SCALE_DO_TERMINATE);
    in(SCALE_WORKS);
    in(SCALE_ENDS);
    cr_expect_eq(after(29 * SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(SECOND), SCALE_DO_TERMINATE); /* drain_ms is over */
}

Test(node_scale_job, what_was_chosen_drains_until_it_is_idle_for_all)
{
    in(SCALE_WORKS);
    job.goes = true;
    cr_expect_eq(after(SECOND), SCALE_DO_DRAIN);
    in(SCALE_DRAINS);
    cr_expect_not(job.goes);
    cr_expect_eq(after(5 * SECOND), SCALE_DO_NOTHING);
    facts.idle = true;
    facts.all_know = false; /* somebody may still send requests there */
    cr_expect_eq(after(5 * SECOND), SCALE_DO_NOTHING);
    facts.all_know = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    facts.idle = false; /* one that was on its way */
    cr_expect_eq(after(2 * SECOND), SCALE_DO_NOTHING);
    facts.idle = true;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    cr_expect_eq(after(SCALE_IDLE_US - 1), SCALE_DO_NOTHING);
    cr_expect_eq(after(1), SCALE_DO_END);
}

Test(node_scale_job, draining_is_bounded_but_never_ends_unseen)
{
    in(SCALE_DRAINS);
    facts.all_know = false;
    cr_expect_eq(after(3600 * SECOND), SCALE_DO_NOTHING);
    facts.all_know = true;
    cr_expect_eq(after(SECOND), SCALE_DO_END);
    in(SCALE_ENDS);
    facts.all_know = false;
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING);
    facts.drains = false;
    cr_expect_eq(after(SECOND), SCALE_DO_DRAIN);
    facts = (struct scale_facts){.acts = true, .kept = true};
    cr_expect_eq(after(SECOND), SCALE_DO_NOTHING); /* not there for some */
    facts.all_know = true;
    cr_expect_eq(after(SECOND), SCALE_DO_TERMINATE);
}

Test(node_scale_job, operators_may_take_it_out_or_keep_it)
{
    in(SCALE_WORKS);
    facts.there = false;
    cr_expect_eq(after(SECOND), SCALE_DO_END);
    in(SCALE_COMES);
    facts.there = false;
    cr_expect_eq(after(SECOND), SCALE_DO_END);
    in(SCALE_DRAINS);
    facts.drains = false;
    cr_expect_eq(after(SECOND), SCALE_DO_WORK);
}

Test(node_scale_job, what_an_earlier_epoch_said_is_not_taken)
{
    struct scale_record record = {.state = SCALE_ENDS, .epoch = 8};

    scale_job_heard(&job, &record, now_us);
    record = (struct scale_record){.state = SCALE_WORKS, .epoch = 5};
    scale_job_heard(&job, &record, now_us);
    cr_expect_eq(job.record.state, SCALE_ENDS);
    cr_expect(job.undone);
    record = (struct scale_record){.state = SCALE_DRAINS, .epoch = 9};
    scale_job_heard(&job, &record, now_us);
    cr_expect_eq(job.record.state, SCALE_DRAINS);
    cr_expect_not(job.undone);
}

Test(node_scale_job, where_an_engine_is_is_not_forgotten)
{
    struct scale_record there = {
        .state = SCALE_WORKS, .worker = "h:1", .epoch = 5};
    struct scale_record unknown = {.state = SCALE_ENDS, .epoch = 8};

    scale_job_heard(&job, &there, now_us);
    scale_job_heard(&job, &unknown, now_us);
    cr_expect_eq(job.record.state, SCALE_ENDS);
    cr_expect_str_eq(job.record.worker, "h:1");
    cr_expect(job.undone);
    memset(&job, 0, sizeof job);
    scale_job_heard(&job, &unknown, now_us);
    scale_job_heard(&job, &there, now_us);
    cr_expect_eq(job.record.state, SCALE_ENDS);
    cr_expect_eq(job.record.epoch, 8);
    cr_expect_str_eq(job.record.worker, "h:1");
    cr_expect(job.undone);
}

Test(node_scale_job, where_it_was_asked_for_is_not_forgotten)
{
    struct scale_record asked = {.state = SCALE_ASKED, .pool = "fra"};
    struct scale_record plain = {.state = SCALE_WORKS, .epoch = 8};

    scale_job_heard(&job, &asked, now_us);
    scale_job_heard(&job, &plain, now_us); /* by a node that has no pools */
    cr_expect_eq(job.record.state, SCALE_WORKS);
    cr_expect_str_eq(job.record.pool, "fra");
    cr_expect(job.undone);
    memset(&job, 0, sizeof job);
    scale_job_heard(&job, &plain, now_us);
    scale_job_heard(&job, &asked, now_us);
    cr_expect_eq(job.record.epoch, 8);
    cr_expect_str_eq(job.record.pool, "fra");
    cr_expect(job.undone);
}

Test(node_scale_job, records_are_read_as_they_were_written)
{
    struct scale_record record = {.state = SCALE_DRAINS,
                                  .model = "org/model=7b",
                                  .worker = "[::1]:8000",
                                  .epoch = 4000000000U,
                                  .number = 255};
    struct scale_record longest = record;
    struct scale_record back;
    char bytes[SCALE_RECORD_MAX];
    struct buf out = buf_over(bytes, sizeof bytes);

    scale_record_put(&record, &out);
    cr_assert_not(out.failed);
    cr_assert(scale_record_get(buf_slice(&out), &back));
    cr_expect_eq(back.state, SCALE_DRAINS);
    cr_expect_str_eq(back.model, record.model);
    cr_expect_str_eq(back.worker, record.worker);
    cr_expect_eq(back.epoch, record.epoch);
    cr_expect_eq(back.number, record.number);
    longest.number = UINT32_MAX;
    memset(longest.model, 'm', SCALE_MODEL_MAX - 1);
    memset(longest.worker, 'w', SCALE_WORKER_MAX - 1);
    memset(longest.pool, 'p', SCALE_POOL_MAX - 1);
    out = buf_over(bytes, sizeof bytes);
    scale_record_put(&longest, &out);
    cr_assert(scale_record_get(buf_slice(&out), &back) && !out.failed);
    cr_expect_str_eq(back.model, longest.model);
    cr_expect_str_eq(back.pool, longest.pool);
    cr_expect_not(
        scale_record_get(SLICE("state=asked\nepoch=4294967296\n"), &back));
    cr_expect_not(scale_record_get(SLICE("state=asked\nepoch=-1\n"), &back));
    cr_expect(scale_record_get(SLICE("later=1\nstate=asked\n"), &back));
    cr_expect_not(scale_record_get(SLICE("model=m\n"), &back));
    cr_expect_not(scale_record_get(SLICE("state=flies\n"), &back));
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "worker=", 7);
    cr_expect_not(scale_record_get(
        (struct slice){.ptr = bytes, .len = sizeof bytes}, &back));
    memcpy(record.model, "a\nb", 4);
    out = buf_over(bytes, sizeof bytes);
    scale_record_put(&record, &out);
    cr_expect(out.failed);
    cr_expect_str_eq(scale_job_key("scale/12-1"), "12-1");
    cr_expect_null(scale_job_key("scale:8000"));
    cr_expect_null(
        scale_job_key("scale/0123456789012345678901234567890123456789"));
}
