/* Each allocation of a feed's life fails once; whatever it was, the next turn
 * of work tells lanes what is so. */
#include <criterion/criterion.h>
#include <errno.h>

#include "fake_mirror.h"
#include "node/follow/feed_internal.h"
#include "tests/unit/failing_alloc.h"

#if defined(__clang__)
/* A test is the control thread. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

static struct publish published;

static void
sound(const struct feed *feed)
{
    const char *reason;

    cr_assert(feed_check(feed, &reason), "%s", reason);
}

/* -ENOMEM, or 0 and the worker has its stream. */
static int
join(struct feed *feed, uint32_t worker)
{
    int outcome = feed_worker_add(feed, worker, 1, 1);

    sound(feed);
    if (outcome != 0) {
        cr_assert_eq(outcome, -ENOMEM);
        return outcome;
    }
    const struct event_record record = {.epoch = 1, .block_tokens = 16};
    feed_reset(feed, worker, 1, 0, 1);
    cr_assert_eq(feed_record(feed, worker, 1, 0, &record), 0);
    return 0;
}

static void
live(struct feed *feed)
{
    bool a = join(feed, 3) == 0;
    bool b = join(feed, 7) == 0;
    uint32_t turns = 0;

    cr_assert(a || b, "only one allocation fails");
    while (feed_work(feed, 100)) {
        cr_assert_eq(turns++, 0);
        sound(feed);
    }
    const struct mirror_view *view = mirror_view_get(&published);
    cr_assert_eq(worker_set_has(&view->workers, 3), a);
    cr_assert_eq(worker_set_has(&view->workers, 7), b);
    cr_assert_eq(view->version, 2);
    sound(feed);
}

Test(node_feed_memory, each_allocation_may_fail)
{
    const struct feed_limits limits = {.stale_permille = 500};
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        struct mirror *mirror = fake_mirror();
        struct feed *feed;
        struct qsbr qsbr;
        qsbr_init(&qsbr);
        mirror->view = &published;
        int outcome = feed_new(&feed, &limits, mirror, &qsbr, &published);
        if (outcome == 0) {
            live(feed);
            feed_free(feed);
        } else {
            cr_assert_eq(outcome, -ENOMEM);
        }
        qsbr_fini(&qsbr);
    }
    failing_alloc_stop();
    cr_assert_geq(n, 7, "%lu", (unsigned long)n);
}
