#include <criterion/criterion.h>

#include "node/base/list.h"

struct thing {
    int number;
    struct list_link link;
};

static struct list_link list;
static struct thing things[3];

static void
setup(void)
{
    list_init(&list);
    for (int i = 0; i < 3; i++) {
        things[i].number = i;
        list_init(&things[i].link);
        list_append(&list, &things[i].link);
    }
}

TestSuite(node_list, .init = setup);

static int
first(void)
{
    return LIST_OWNER(list.next, struct thing, link)->number;
}

Test(node_list, members_keep_the_order_in_which_they_came)
{
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(first(), i);
        list_remove(&things[i].link);
    }
    cr_assert(list_is_empty(&list));
}

Test(node_list, a_member_leaves_from_anywhere)
{
    list_remove(&things[1].link);
    cr_assert_eq(list.prev, &things[2].link);
    cr_assert_eq(things[0].link.next, &things[2].link);
    list_append(&list, &things[1].link);
    cr_assert_eq(list.prev, &things[1].link);
}

Test(node_list, removing_what_is_on_no_list_changes_nothing)
{
    list_remove(&things[0].link);
    list_remove(&things[0].link);
    cr_assert_eq(first(), 1);
    cr_assert_eq(list.next->prev, &list);
}
