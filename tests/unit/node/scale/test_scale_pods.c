#include <criterion/criterion.h>
#include <string.h>

#include "node/scale/scale_pods.h"

#define MOST 8U

static struct scale_job jobs[MOST];
static uint32_t count;
static const struct scale_facts facts = {
    .acts = true, .kept = true, .there = true, .drains = true};

static struct scale_job *
add(const char *key, enum scale_state state, uint32_t number)
{
    struct scale_job *job = &jobs[count++];

    *job = (struct scale_job){.record = {.state = state, .number = number}};
    (void)strncpy(job->key, key, sizeof(job->key) - 1);
    if (state != SCALE_ASKED) {
        job->record.worker[0] = 'w';
    }
    return job;
}

static enum scale_pod_do
next(const struct scale_job *job)
{
    return scale_pods_next(jobs, count, job, &facts, true);
}

Test(node_scale_pods, of_two_with_one_number_one_has_the_pod)
{
    struct scale_job *late = add("6-1", SCALE_ASKED, 2);
    struct scale_job *early = add("5-1", SCALE_ASKED, 2);

    cr_expect_eq(scale_pods_of(jobs, count, "", 2), early);
    cr_expect_eq(next(early), SCALE_POD_KEEP);
    cr_expect_eq(next(late), SCALE_POD_FORGET);
    late->record.worker[0] = 'w'; /* it has an engine */
    cr_expect_eq(next(early), SCALE_POD_FORGET);
    cr_expect_eq(next(late), SCALE_POD_KEEP);
    early->record.worker[0] = 'w';
    cr_expect_eq(next(late), SCALE_POD_FORGET);
    early->record.state = SCALE_ENDS; /* an old one that came back */
    late->record = (struct scale_record){.state = SCALE_ASKED, .number = 2};
    cr_expect_eq(next(early), SCALE_POD_FORGET);
    cr_expect_eq(next(late), SCALE_POD_KEEP);
    cr_expect_null(scale_pods_of(jobs, count, "", 3));
}

Test(node_scale_pods, nothing_is_forgotten_that_others_may_know_better)
{
    struct scale_facts other = facts;

    add("5-1", SCALE_WORKS, 0);
    struct scale_job *twin = add("6-1", SCALE_WORKS, 0);
    other.kept = false;
    cr_expect_eq(scale_pods_next(jobs, count, twin, &other, true),
                 SCALE_POD_KEEP);
    other = facts;
    other.acts = false;
    cr_expect_eq(scale_pods_next(jobs, count, twin, &other, true),
                 SCALE_POD_KEEP);
    cr_expect_eq(next(twin), SCALE_POD_FORGET);
}

Test(node_scale_pods, one_that_ends_under_a_pod_that_came_works_again)
{
    struct scale_job *ends = add("5-1", SCALE_ENDS, 1);
    struct scale_job *above = add("5-2", SCALE_ASKED, 2);

    add("5-3", SCALE_WORKS, 0);
    cr_expect(scale_pods_waits(jobs, count, ends));
    cr_expect_eq(next(ends), SCALE_POD_KEEP, "the other may never come");
    above->record.worker[0] = 'w';
    above->record.state = SCALE_COMES;
    cr_expect_eq(next(ends), SCALE_POD_BACK);
    cr_expect_eq(scale_pods_next(jobs, count, ends, &facts, false),
                 SCALE_POD_KEEP, "it is ill");
    ends->calling = true;
    cr_expect_eq(next(ends), SCALE_POD_KEEP);
    ends->calling = false;
    above->record.state = SCALE_DRAINS;
    cr_expect_eq(next(ends), SCALE_POD_KEEP, "both go");
    above->record.state = SCALE_WORKS;
    ends->record.worker[0] = '\0';
    cr_expect_eq(next(ends), SCALE_POD_FORGET, "a new one takes it in");
    ends->record.worker[0] = 'w';
    above->record.number = 0;
    above->record.state = SCALE_WORKS;
    cr_expect_eq(next(ends), SCALE_POD_KEEP);
    cr_expect_not(scale_pods_waits(jobs, count, ends));
}

Test(node_scale_pods, one_that_an_operator_drains_stays_until_it_is_the_last)
{
    struct scale_job *drained = add("5-1", SCALE_WORKS, 0);
    struct scale_job *above = add("5-2", SCALE_WORKS, 1);
    struct scale_facts used = facts;

    cr_expect_eq(next(drained), SCALE_POD_STAY);
    cr_expect_eq(next(above), SCALE_POD_KEEP);
    used.drains = false;
    cr_expect_eq(scale_pods_next(jobs, count, drained, &used, true),
                 SCALE_POD_KEEP);
    above->record.state = SCALE_DRAINS;
    cr_expect_eq(next(drained), SCALE_POD_KEEP);
}

Test(node_scale_pods, a_number_below_a_pod_that_came_needs_a_job)
{
    cr_expect_null(scale_pods_gap(jobs, count, ""));
    add("5-1", SCALE_WORKS, 0);
    struct scale_job *last = add("5-2", SCALE_ASKED, 2);

    cr_expect_null(scale_pods_gap(jobs, count, ""));
    last->record.state = SCALE_WORKS;
    last->record.worker[0] = 'w';
    cr_expect_eq(scale_pods_gap(jobs, count, ""), last);
    struct scale_job *twin = add("6-1", SCALE_WORKS, 0);
    cr_expect_eq(scale_pods_gap(jobs, count, ""), last);
    last->record.state = SCALE_ENDS; /* those below go after it */
    cr_expect_eq(scale_pods_gap(jobs, count, ""), last);
    cr_expect(scale_pods_waits(jobs, count, last));
    twin->record = (struct scale_record){.state = SCALE_ENDS, .number = 1};
    cr_expect_null(scale_pods_gap(jobs, count, ""));
    cr_expect_not(scale_pods_waits(jobs, count, last));
    twin->record.number = 0;
    last->record.worker[0] = '\0'; /* it may never have been there */
    cr_expect_null(scale_pods_gap(jobs, count, ""));
    cr_expect_not(scale_pods_waits(jobs, count, last));
}

Test(node_scale_pods, each_pool_counts_its_own)
{
    struct scale_job *ends = add("5-1", SCALE_ENDS, 0);
    struct scale_job *other = add("5-2", SCALE_WORKS, 1);

    cr_expect(scale_pods_waits(jobs, count, ends));
    other->record.pool[0] = 'p';
    cr_expect_not(scale_pods_waits(jobs, count, ends));
    cr_expect_eq(next(ends), SCALE_POD_KEEP);
    cr_expect_null(scale_pods_gap(jobs, count, ""));
    cr_expect_eq(scale_pods_gap(jobs, count, "p"), other);
    other->record.number = 0;
    cr_expect_eq(next(ends), SCALE_POD_KEEP);
    cr_expect_eq(scale_pods_of(jobs, count, "p", 0), other);
}
