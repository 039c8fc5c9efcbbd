#include <criterion/criterion.h>

#include "node/base/deadline.h"

Test(node_deadline, expire_in_the_order_they_were_set)
{
    struct deadline_list list;
    struct deadline a = {0};
    struct deadline b = {0};

    deadline_list_init(&list, 100);
    deadline_set(&a, &list, 1000);
    deadline_set(&b, &list, 1050);
    cr_assert_eq(deadline_list_next_us(&list), 1100);
    cr_assert_null(deadline_next_due(&list, 1099));
    cr_assert_eq(deadline_next_due(&list, 1100), &a);
    cr_assert_null(deadline_next_due(&list, 1100));
    cr_assert_eq(deadline_next_due(&list, 5000), &b);
    cr_assert_null(deadline_next_due(&list, 5000));
    cr_assert_eq(deadline_list_next_us(&list), UINT64_MAX);
}

Test(node_deadline, setting_again_starts_afresh)
{
    struct deadline_list list;
    struct deadline a = {0};
    struct deadline b = {0};

    deadline_list_init(&list, 100);
    deadline_set(&a, &list, 0);
    deadline_set(&b, &list, 10);
    deadline_set(&a, &list, 20);
    cr_assert_eq(deadline_next_due(&list, 115), &b);
    cr_assert_null(deadline_next_due(&list, 115));
    deadline_set(&a, &list, 30);
    cr_assert_null(deadline_next_due(&list, 125));
    cr_assert_eq(deadline_next_due(&list, 130), &a);
}

Test(node_deadline, moving_between_lists_leaves_the_first)
{
    struct deadline_list slow;
    struct deadline_list quick;
    struct deadline a = {0};
    struct deadline b = {0};
    struct deadline c = {0};

    deadline_list_init(&slow, 1000);
    deadline_list_init(&quick, 10);
    deadline_set(&a, &slow, 0);
    deadline_set(&b, &slow, 0);
    deadline_set(&c, &slow, 0);
    deadline_set(&b, &quick, 5);
    deadline_clear(&a);
    deadline_clear(&a);
    cr_assert_eq(deadline_next_due(&quick, 15), &b);
    cr_assert_eq(deadline_next_due(&slow, 1000), &c);
    deadline_clear(&a);
    deadline_clear(&c);
    cr_assert_null(slow.first);
    cr_assert_null(slow.last);
}

Test(node_deadline, a_timeout_of_zero_never_comes)
{
    struct deadline_list never;
    struct deadline a = {0};

    deadline_list_init(&never, 0);
    deadline_set(&a, &never, 7);
    cr_assert_null(deadline_next_due(&never, UINT64_MAX));
    cr_assert_eq(deadline_list_next_us(&never), UINT64_MAX);
}

Test(node_deadline,
     another_timeout_shortens_those_that_run_and_keeps_their_order)
{
    struct deadline_list list;
    struct deadline d[3] = {{.due_us = 0}};

    deadline_list_init(&list, 1000);
    for (uint64_t i = 0; i < 3; i++) {
        deadline_set(&d[i], &list, i * 100);
    }
    deadline_list_retime(&list, 850, 200);
    cr_assert_eq(d[0].due_us, 1000);
    cr_assert_eq(d[1].due_us, 1050);
    cr_assert_eq(d[2].due_us, 1050);
    deadline_set(&d[0], &list, 300);
    cr_assert_eq(deadline_next_due(&list, 1049), NULL);
    cr_assert_eq(deadline_next_due(&list, 1050), &d[1]);
    deadline_list_retime(&list, 5000, 400);
    cr_assert_eq(deadline_next_due(&list, 1050), &d[2]);
    cr_assert_eq(d[0].due_us, 1150);
    deadline_clear(&d[0]);
}
