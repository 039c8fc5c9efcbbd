#include <criterion/criterion.h>

#include "index/base/qsbr.h"

static int freed;

static void
count_free(struct qsbr_node *node)
{
    (void)node;
    freed++;
}

Test(base_qsbr, nothing_is_freed_under_an_online_reader)
{
    static struct qsbr q;
    struct qsbr_node a;
    struct qsbr_node b;

    qsbr_init(&q);
    struct qsbr_reader *r = qsbr_register(&q);
    qsbr_online(&q, r);
    qsbr_retire(&q, &a, count_free);
    cr_assert_eq(qsbr_reclaim(&q), 0);
    qsbr_online(&q, r); /* a quiescent point: a is no longer reachable */
    qsbr_retire(&q, &b, count_free);
    cr_assert_eq(qsbr_reclaim(&q), 1);
    cr_assert_eq(qsbr_pending(&q), 1);
    qsbr_offline(r);
    cr_assert_eq(qsbr_reclaim(&q), 1);
    cr_assert_eq(freed, 2);
    qsbr_fini(&q);
}

Test(base_qsbr, readers_are_bounded)
{
    static struct qsbr q;

    qsbr_init(&q);
    for (int i = 0; i < QSBR_READERS_MAX; i++) {
        cr_assert_not_null(qsbr_register(&q));
    }
    cr_assert_null(qsbr_register(&q));
}
