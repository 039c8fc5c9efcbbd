#include <criterion/criterion.h>
#include <stdio.h>

#include "node/limits/limits_table.h"

static struct limits_table *table;
static struct limits_view *view;

static void
setup(void)
{
    cr_assert_eq(limits_table_new(&table, 1), 0);
}

static void
teardown(void)
{
    limits_view_free(view);
    limits_table_free(table);
}

TestSuite(limits_table, .init = setup, .fini = teardown);

static void
want(const struct limits_want *wants, uint32_t count)
{
    limits_view_free(view);
    cr_assert_eq(limits_table_plan(table, wants, count, &view), 0);
    limits_table_take(table, wants, count, 1);
}

#define MINUTE(n)                         \
    {                                     \
        .amount = (n), .window_ms = 60000 \
    }

Test(limits_table, a_request_passes_its_tenants_gates_and_its_models)
{
    const struct limits_want wants[] = {
        {1, "shop", LIMITS_REQUESTS, MINUTE(5), "bge-*"},
        {1, "shop", LIMITS_TOKENS, MINUTE(9), "bge-large"},
        {1, "shop", LIMITS_REQUESTS, MINUTE(6), ""},
        {2, "lab", LIMITS_CONCURRENT, {.amount = 3}, ""},
    };
    struct limits_gates gates;

    want(wants, 4);
    cr_assert(limits_view_any(view));
    cr_assert(limits_view_find(view, 1, SLICE("qwen"), &gates));
    cr_assert_eq(gates.at[LIMITS_TENANT][LIMITS_REQUESTS],
                 limits_table_gate(table, 2));
    cr_assert_null(gates.at[LIMITS_TENANT_MODEL][LIMITS_REQUESTS]);
    /* The first that fits. */
    cr_assert(limits_view_find(view, 1, SLICE("bge-large"), &gates));
    cr_assert_eq(gates.at[LIMITS_TENANT_MODEL][LIMITS_REQUESTS],
                 limits_table_gate(table, 0));
    cr_assert_null(gates.at[LIMITS_TENANT_MODEL][LIMITS_TOKENS]);
    cr_assert(limits_view_find(view, 2, SLICE(""), &gates));
    cr_assert_eq(gates.at[LIMITS_TENANT][LIMITS_CONCURRENT],
                 limits_table_gate(table, 3));
    cr_assert_not(limits_view_find(view, 0, SLICE("bge-large"), &gates));
}

Test(limits_table, a_model_has_a_gate_for_everybody_beside_a_tenants)
{
    const struct limits_want wants[] = {
        {1, "shop", LIMITS_TOKENS, MINUTE(9), "bge-large"},
        {LIMITS_EVERYBODY, "", LIMITS_TOKENS, MINUTE(5), "bge-large"},
        {LIMITS_EVERYBODY, "", LIMITS_TOKENS, MINUTE(6), "bge-*"},
        {LIMITS_EVERYBODY, "", LIMITS_REQUESTS, MINUTE(7), "bge-*"},
    };
    struct limits_gates gates;

    want(wants, 4);
    cr_assert(limits_view_find(view, 1, SLICE("bge-large"), &gates));
    cr_assert_eq(gates.at[LIMITS_TENANT_MODEL][LIMITS_TOKENS],
                 limits_table_gate(table, 0));
    cr_assert_eq(gates.at[LIMITS_MODEL][LIMITS_TOKENS],
                 limits_table_gate(table, 1), "the first that fits");
    cr_assert_null(gates.at[LIMITS_MODEL][LIMITS_REQUESTS]);
    for (uint32_t tenant = 0; tenant < LIMITS_TENANTS_MAX; tenant++) {
        cr_assert(limits_view_find(view, tenant, SLICE("bge-m3"), &gates));
        cr_assert_eq(gates.at[LIMITS_MODEL][LIMITS_TOKENS],
                     limits_table_gate(table, 2));
        cr_assert_eq(gates.at[LIMITS_MODEL][LIMITS_REQUESTS],
                     limits_table_gate(table, 3));
        cr_assert_null(gates.at[LIMITS_TENANT_MODEL][LIMITS_TOKENS]);
    }
    cr_assert_not(limits_view_find(view, 1, SLICE("qwen"), &gates));
}

Test(limits_table, what_was_spent_stays_when_a_limit_changes)
{
    struct limits_want one = {1, "shop", LIMITS_REQUESTS, MINUTE(5), ""};
    const struct limits_peers alone = {.settled = true};

    want(&one, 1);
    struct limits_gate *gate = limits_table_gate(table, 0);
    struct limits_meter *meter = limits_table_meter(table, 0);
    limits_meter_tick(meter, gate, &alone, 1000);
    for (unsigned i = 0; i < 3; i++) {
        cr_assert(limits_gate_take(gate, 1));
        limits_gate_settle(gate, 1, 1);
    }
    one.rate.amount = 4;
    want(&one, 1);
    limits_meter_tick(meter, gate, &alone, 2000);
    cr_assert_eq(limits_table_count(table), 1);
    cr_assert_eq(limits_meter_used(meter), 3);
    cr_assert(limits_gate_take(gate, 1));
    cr_assert_not(limits_gate_take(gate, 1));
}

Test(limits_table, a_rule_that_went_tells_nothing_and_begins_at_nothing_again)
{
    struct limits_want one = {1, "shop", LIMITS_REQUESTS, MINUTE(5), ""};
    const struct limits_peers alone = {.settled = true};

    want(&one, 1);
    uint64_t identity = limits_table_rule(table, 0)->identity;
    struct limits_gate *gate = limits_table_gate(table, 0);
    struct limits_meter *meter = limits_table_meter(table, 0);
    limits_meter_tick(meter, gate, &alone, 1000);
    cr_assert(limits_gate_take(gate, 1));
    limits_gate_settle(gate, 1, 1);
    limits_meter_tick(meter, gate, &alone, 2000);
    cr_assert_eq(limits_table_tell(table, 0).spent, 1);

    want(NULL, 0);
    struct limits_told told = limits_table_tell(table, 0);
    cr_assert(told.spent == 0 && told.open == 0 && told.window == 0);
    cr_assert_not(limits_view_any(view));
    want(&one, 1);
    cr_assert_eq(limits_table_count(table), 1);
    cr_assert_eq(limits_table_rule(table, 0)->identity, identity);
    cr_assert_eq(limits_table_tell(table, 0).spent, 0, "peers know of none");
    cr_assert_eq(limits_meter_used(meter), 1, "this node does not forget");
}

Test(limits_table, nodes_name_a_rule_alike_and_no_two_rules)
{
    struct limits_want wants[] = {
        {1, "shop", LIMITS_REQUESTS, MINUTE(5), "m"},
        {1, "shop", LIMITS_TOKENS, MINUTE(5), "m"},
        {1, "shop", LIMITS_REQUESTS, MINUTE(5), ""},
        {2, "sho", LIMITS_REQUESTS, MINUTE(5), "pm"},
    };
    struct limits_table *other;
    struct limits_view *others;

    want(wants, 4);
    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t k = 0; k < i; k++) {
            cr_assert_neq(limits_table_rule(table, i)->identity,
                          limits_table_rule(table, k)->identity);
        }
    }
    wants[3].tenant = 9; /* tenants have other numbers on another node */
    wants[3].rate.amount = 1;
    cr_assert_eq(limits_table_new(&other, 2), 0);
    cr_assert_eq(limits_table_plan(other, wants + 3, 1, &others), 0);
    limits_table_take(other, wants + 3, 1, 1);
    cr_assert_eq(limits_table_rule(other, 0)->identity,
                 limits_table_rule(table, 3)->identity);
    limits_view_free(others);
    limits_table_free(other);
}

Test(limits_table, a_gate_that_was_found_tells_its_rule)
{
    const struct limits_want wants[] = {
        {3, "shop", LIMITS_REQUESTS, MINUTE(5), ""},
        {3, "shop", LIMITS_REQUESTS, MINUTE(2), "m*"},
        {4, "lab", LIMITS_REQUESTS, MINUTE(7), ""},
    };
    struct limits_gates gates;

    want(wants, 3);
    cr_assert(limits_view_find(view, 3, SLICE("m1"), &gates));
    cr_assert_eq(
        limits_table_of(table, gates.at[LIMITS_TENANT][LIMITS_REQUESTS]), 0);
    cr_assert_eq(
        limits_table_of(table, gates.at[LIMITS_TENANT_MODEL][LIMITS_REQUESTS]),
        1);
    cr_assert(limits_view_find(view, 4, SLICE("m1"), &gates));
    cr_assert_eq(
        limits_table_of(table, gates.at[LIMITS_TENANT][LIMITS_REQUESTS]), 2);
}

Test(limits_table, too_many_rules_are_refused_and_change_nothing)
{
    static struct limits_want wants[LIMITS_RULES_MAX];
    static char name[LIMITS_RULES_MAX][8];
    struct limits_view *more = NULL;

    for (uint32_t i = 0; i < LIMITS_RULES_MAX; i++) {
        (void)snprintf(name[i], sizeof name[i], "m%u", i);
        wants[i] = (struct limits_want){i % 256, "t", LIMITS_REQUESTS,
                                        MINUTE(1), name[i]};
    }
    want(wants, LIMITS_RULES_MAX);
    wants[0].model = "another";
    cr_assert_eq(limits_table_plan(table, wants, LIMITS_RULES_MAX, &more),
                 LIMITS_E_FULL);
    cr_assert_null(more);
    cr_assert_eq(limits_table_count(table), LIMITS_RULES_MAX);
}

Test(limits_table, who_waits_for_a_limit_that_goes_has_it)
{
    const struct limits_want wants[] = {
        {1, "shop", LIMITS_REQUESTS, MINUTE(5), ""},
    };
    const struct limits_peers peers = {.count = 1, .settled = true};

    want(wants, 1);
    struct limits_gate *gate = limits_table_gate(table, 0);
    limits_meter_tick(limits_table_meter(table, 0), gate, &peers, 2);
    cr_assert_eq(limits_gate_ask(gate, 1, false), LIMITS_TAKEN);
    cr_assert_eq(limits_gate_ask(gate, 2, true), LIMITS_WAITS);
    want(NULL, 0);
    cr_assert_eq(limits_gate_ask(gate, 2, true), LIMITS_TAKEN);
    want(wants, 1);
    limits_meter_tick(limits_table_meter(table, 0), gate, &peers, 3);
    cr_assert_eq(limits_gate_ask(gate, 3, true), LIMITS_OVER);
}
