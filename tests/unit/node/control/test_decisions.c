#include <criterion/criterion.h>

#include "node/control/decisions.h"

Test(node_decisions, keeps_the_newest_and_gives_them_newest_first)
{
    struct decisions d;
    const struct decisions_worker *worker;

    cr_assert_eq(decisions_init(&d, 3), 0);
    for (uint32_t i = 0; i < 5; i++) {
        struct fact_decision fact = {.status = i};
        decisions_add(&d, &fact, i == 4 ? "last" : "w", i == 4 ? "eu/a" : "");
    }
    cr_assert_eq(d.count, 3);
    cr_assert_eq(decisions_get(&d, 0, &worker)->status, 4);
    cr_assert_str_eq(worker->id, "last");
    cr_assert_str_eq(worker->island, "eu/a");
    cr_assert_eq(decisions_get(&d, 2, &worker)->status, 2);
    cr_assert_str_eq(worker->island, "");
    decisions_fini(&d);
}

Test(node_decisions, of_none_keeps_none)
{
    struct decisions d;
    struct fact_decision fact = {.status = 1};

    cr_assert_eq(decisions_init(&d, 0), 0);
    decisions_add(&d, &fact, "w", "");
    cr_assert_eq(d.count, 0);
    decisions_fini(&d);
}
