/* Each allocation of a mirror writer's life fails once; whatever it was, the next turn
 * of work tells lanes what is so. */
#include <criterion/criterion.h>
#include <errno.h>

#include "fake_mirror.h"
#include "node/ingest/mirror_writer.h"
#include "tests/unit/failing_alloc.h"

#if defined(__clang__)
/* A test is the control thread. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

static struct publish published;

static void
sound(const struct mirror_writer *writer)
{
    const char *reason;

    cr_assert(mirror_writer_check(writer, &reason), "%s", reason);
}

/* -ENOMEM, or 0 and the worker has its stream. */
static int
join(struct mirror_writer *writer, uint32_t worker)
{
    int outcome = mirror_writer_worker_add(writer, worker, 1, 1);

    sound(writer);
    if (outcome != 0) {
        cr_assert_eq(outcome, -ENOMEM);
        return outcome;
    }
    const struct event_record record = {.epoch = 1, .block_tokens = 16};
    mirror_writer_reset(writer, worker, 1, 0, 1);
    cr_assert_eq(mirror_writer_record(writer, worker, 1, 0, &record), 0);
    return 0;
}

static void
live(struct mirror_writer *writer)
{
    bool a = join(writer, 3) == 0;
    bool b = join(writer, 7) == 0;
    uint32_t turns = 0;

    cr_assert(a || b, "only one allocation fails");
    while (mirror_writer_work(writer, 100)) {
        cr_assert_eq(turns++, 0);
        sound(writer);
    }
    const struct mirror_view *view = mirror_view_get(&published);
    cr_assert_eq(worker_set_has(&view->workers, 3), a);
    cr_assert_eq(worker_set_has(&view->workers, 7), b);
    cr_assert_eq(view->version, 2);
    sound(writer);
}

Test(node_mirror_writer_memory, each_allocation_may_fail)
{
    const struct mirror_writer_limits limits = {.stale_permille = 500};
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        struct mirror *mirror = fake_mirror();
        struct mirror_writer *writer;
        struct qsbr qsbr;
        qsbr_init(&qsbr);
        mirror->view = &published;
        int outcome =
            mirror_writer_new(&writer, &limits, mirror, &qsbr, &published);
        if (outcome == 0) {
            live(writer);
            mirror_writer_free(writer);
        } else {
            cr_assert_eq(outcome, -ENOMEM);
        }
        qsbr_fini(&qsbr);
    }
    failing_alloc_stop();
    cr_assert_geq(n, 7, "%lu", (unsigned long)n);
}
