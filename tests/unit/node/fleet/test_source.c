/* What becomes of the workers that a source lists, and lists no more. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/fleet/source.h"

#define MISSED 2

static struct source source;
static struct config_worker before[4];
static uint32_t before_count;

static void
begin(void)
{
    cr_assert_eq(source_init(&source, MISSED), 0);
    before_count = 0;
}

static void
end(void)
{
    source_fini(&source);
}

TestSuite(node_source, .init = begin, .fini = end);

static const struct config_worker like = {.from = "dns:engines:8000",
                                          .ranks = 1};

/* A list of workers, from "a" on. */
static void
list(const char *ids, const char *pool, bool whole)
{
    struct config_worker now[4];
    uint32_t count = 0;

    for (; *ids != '\0'; ids++) {
        now[count] = like;
        (void)snprintf(now[count].url.host, sizeof now[count].url.host,
                       "10.0.0.%c", *ids);
        now[count].url.port = 8000;
        (void)snprintf(now[count].id, sizeof now[count].id, "%c", *ids);
        (void)snprintf(now[count].pool, sizeof now[count].pool, "%s", pool);
        count++;
    }
    source_listed(&source, before, before_count, now, count, whole);
    memcpy(before, now, sizeof now);
    before_count = count;
}

static enum source_step
step(const char *id, struct source_there there)
{
    return source_step(&source, id, &there);
}

#define NOT_THERE ((struct source_there){.present = false})
#define OURS(...)           \
    ((struct source_there){ \
        .present = true, .ours = true, .same = true, __VA_ARGS__})

Test(node_source, a_listed_worker_is_put_until_it_is_there)
{
    list("1", "", true);
    cr_assert_eq(step("1", NOT_THERE), SOURCE_PUT);
    list("1", "", true);
    cr_assert_eq(step("1", NOT_THERE), SOURCE_PUT);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
}

Test(node_source, a_worker_of_others_is_left_to_them)
{
    struct source_there theirs = {.present = true, .draining = true};

    list("1", "", true);
    cr_assert_eq(step("1", theirs), SOURCE_KEEP);
    for (int i = 0; i < 5; i++) {
        list("", "", true);
        cr_assert_eq(step("1", theirs), SOURCE_KEEP);
    }
}

Test(node_source, one_that_lists_leave_out_is_drained_then_removed)
{
    list("12", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
    list("2", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP, "one list may be wrong");
    list("2", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_DRAIN);
    cr_assert_eq(step("1", OURS(.draining = true)), SOURCE_KEEP);
    cr_assert_eq(step("1", OURS(.draining = true, .drained = true)),
                 SOURCE_REMOVE);
    cr_assert_eq(step("2", OURS()), SOURCE_KEEP);
}

Test(node_source, a_list_that_was_cut_leaves_nobody_out)
{
    list("1", "", true);
    for (int i = 0; i < 5; i++) {
        list("2", "", false);
        cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
    }
}

Test(node_source, one_that_comes_back_takes_requests_again)
{
    list("1", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
    list("", "", true);
    list("", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_DRAIN);
    list("1", "", true);
    cr_assert_eq(step("1", OURS(.draining = true, .left = true)),
                 SOURCE_UNDRAIN);
    list("", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP, "it is missed anew");
}

/* Whoever began it may have heard sooner, or is gone. */
Test(node_source, what_another_node_drained_drains_no_more_if_it_stays_listed)
{
    const struct source_there left = OURS(.draining = true, .left = true);

    list("1", "", true);
    cr_assert_eq(step("1", left), SOURCE_KEEP);
    cr_assert_eq(step("1", OURS(.draining = true)), SOURCE_KEEP, "a bad look");
    for (uint32_t i = 1; i < SOURCE_PATIENCE; i++) {
        cr_assert_eq(step("1", left), SOURCE_KEEP);
    }
    cr_assert_eq(step("1", left), SOURCE_UNDRAIN);
    cr_assert_eq(step("1", OURS(.draining = true)), SOURCE_KEEP);
}

Test(node_source, nobody_else_is_waited_for_where_there_is_nobody)
{
    list("1", "", true);
    cr_assert_eq(step("1", OURS(.draining = true, .left = true, .alone = true)),
                 SOURCE_UNDRAIN);
}

Test(node_source, draining_that_another_node_ended_is_not_begun_again)
{
    list("1", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
    list("", "", true);
    list("", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_DRAIN);
    for (int i = 0; i < 5; i++) {
        list("", "", true);
        cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
    }
    list("1", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
    list("", "", true);
    list("", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_DRAIN);
}

Test(node_source, draining_by_an_operator_stays)
{
    list("1", "", true);
    cr_assert_eq(step("1", OURS(.draining = true)), SOURCE_KEEP);
    list("", "", true);
    list("", "", true);
    cr_assert_eq(step("1", OURS(.draining = true)), SOURCE_KEEP);
    list("1", "", true);
    cr_assert_eq(step("1", OURS(.draining = true)), SOURCE_KEEP);
}

Test(node_source, draining_by_an_operator_outlasts_another_form)
{
    struct source_there other = OURS(.draining = true);

    other.same = false;
    list("1", "", true);
    cr_assert_eq(step("1", other), SOURCE_RENEW);
    list("", "", true);
    list("", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_DRAIN, "it does not drain any more");
    list("1", "p", true);
    other.left = true;
    cr_assert_eq(step("1", other), SOURCE_REPLACE, "that was not an operator");
}

Test(node_source, what_the_list_says_anew_counts_once)
{
    struct source_there other = OURS();

    other.same = false;
    list("1", "", true);
    cr_assert_eq(step("1", other), SOURCE_REPLACE);
    list("1", "", true);
    cr_assert_eq(step("1", other), SOURCE_KEEP, "another node may differ");
    list("1", "p", true);
    cr_assert_eq(step("1", other), SOURCE_REPLACE);
}

Test(node_source, who_never_listed_a_worker_does_not_judge_it)
{
    for (int i = 0; i < 5; i++) {
        list("2", "", true);
        cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
    }
    cr_assert_eq(step("1", OURS(.unwell = true)), SOURCE_DRAIN);
    cr_assert_eq(step("1", OURS(.alone = true)), SOURCE_DRAIN);
}

Test(node_source, a_worker_that_another_node_puts_back_is_that_nodes)
{
    list("1", "", true);
    list("", "", true);
    list("", "", true);
    cr_assert_eq(step("1", OURS(.draining = true, .drained = true)),
                 SOURCE_REMOVE);
    list("", "", true);
    cr_assert_eq(step("1", OURS()), SOURCE_KEEP);
}

static bool
keep_none(const void *context, const char *id)
{
    (void)context;
    return id[0] == '9';
}

Test(node_source, marks_of_workers_that_are_gone_make_room)
{
    for (int i = 0; i < 2 * WORKERS_MAX; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "%d", i);
        cr_assert_eq(step(id, OURS()), SOURCE_KEEP);
        list("1", "", true);
        source_sweep(&source, keep_none, NULL);
    }
    cr_assert_leq(source.marks_count, WORKERS_MAX);
    cr_assert_eq(step("1", NOT_THERE), SOURCE_PUT);
}

Test(node_source, more_workers_than_there_is_room_for_are_left_alone)
{
    for (int i = 0; i < 2 * WORKERS_MAX; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "%d", i);
        cr_assert_eq(step(id, OURS()), SOURCE_KEEP);
    }
    cr_assert_eq(source.marks_count, WORKERS_MAX);
}

Test(node_source, a_worker_has_the_templates_ports_at_its_own_address)
{
    struct config_worker from = like;
    struct config_worker worker;

    (void)snprintf(from.events.host, sizeof from.events.host, "*");
    from.events.port = 5557;
    from.ranks = 4;
    cr_assert(source_worker(&from, "fd00::1", 8000, &worker));
    cr_assert_str_eq(worker.id, "[fd00::1]:8000");
    cr_assert_str_eq(worker.url.host, "fd00::1");
    cr_assert_str_eq(worker.events.host, "fd00::1");
    cr_assert_eq(worker.events.port, 5557);
    cr_assert_str_eq(worker.replay.host, "");
    cr_assert_eq(worker.ranks, 4);
    cr_assert_str_eq(worker.from, like.from);
}
