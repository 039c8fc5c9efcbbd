/* What elections compared, kept for a while. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "node/control/columns.h"

static struct columns columns;
static struct fleet_view view;
static struct fleet_worker worker[WORKERS_MAX];

static void
put_worker(uint32_t slot, uint32_t generation, const char *id)
{
    worker[slot] =
        (struct fleet_worker){.slot = slot, .generation = generation};
    (void)strncpy(worker[slot].id, id, sizeof(worker[slot].id) - 1);
    view.worker[slot] = &worker[slot];
}

static void
add(uint64_t number, uint32_t count)
{
    struct fact_columns *fact =
        calloc(1, sizeof(*fact) + count * sizeof(fact->column[0]));

    cr_assert_not_null(fact);
    fact->kind = FACT_COLUMNS;
    fact->count = count;
    fact->number = number;
    for (uint32_t i = 0; i < count; i++) {
        fact->column[i] =
            (struct fact_column){.slot = i, .generation = 1, .cost = 100 + i};
    }
    columns_add(&columns, fact, &view);
    free(fact);
}

Test(node_columns, have_the_names_that_workers_had_then)
{
    const struct columns_of *of;

    columns_init(&columns, 4096);
    put_worker(0, 1, "first");
    put_worker(1, 1, "the second one");
    add(7, 3); /* nobody is in slot 2 */
    put_worker(0, 2, "another one in its slot");
    view.worker[1] = NULL;
    of = columns_find(&columns, 7);
    cr_assert_not_null(of);
    cr_assert_eq(of->count, 3);
    cr_expect_str_eq(columns_worker(of, 0), "first");
    cr_expect_str_eq(columns_worker(of, 1), "the second one");
    cr_expect_str_eq(columns_worker(of, 2), "");
    cr_expect_eq(of->column[2].cost, 102);
    add(8, 1);
    cr_expect_str_eq(columns_worker(columns_find(&columns, 8), 0), "",
                     "its worker was gone");
    cr_expect_null(columns_find(&columns, 9));
    cr_expect_null(columns_find(&columns, 0), "no election has this number");
    columns_fini(&columns);
}

Test(node_columns, the_oldest_give_way)
{
    columns_init(&columns, 4096);
    for (uint64_t number = 1; number <= 1000; number++) {
        add(number, 1 + (uint32_t)(number % 4));
        cr_assert_leq(columns.bytes, 4096);
        cr_assert_not_null(columns_find(&columns, number));
    }
    cr_expect_gt(columns.bytes, 3000, "and no more do than must");
    cr_expect_null(columns_find(&columns, 900));
    cr_expect_not_null(columns_find(&columns, 998));
    add(1001, WORKERS_MAX);
    cr_expect_null(columns_find(&columns, 1001), "it is larger than all");
    cr_expect_eq(columns.dropped, 1);
    columns_fini(&columns);
}

Test(node_columns, of_no_bytes_nothing_is_kept)
{
    columns_init(&columns, 0);
    add(1, 1);
    cr_expect_null(columns_find(&columns, 1));
    columns_fini(&columns);
}
