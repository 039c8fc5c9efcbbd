/* Prefixes that wait for their answers. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "node/control/unproven.h"

#define KEYS 16U

static bool
add(struct unproven *u, enum fact_kind kind, uint64_t ticket, uint32_t known)
{
    struct fact_learn *fact = malloc(sizeof(*fact) + KEYS * sizeof(uint64_t));
    bool kept;

    cr_assert_not_null(fact);
    *fact = (struct fact_learn){
        .kind = kind, .count = KEYS, .root = 7, .ticket = ticket};
    for (uint32_t i = 0; i < KEYS; i++) {
        fact->keys[i] = ticket + i;
    }
    kept = unproven_add(u, fact, known);
    free(fact);
    return kept;
}

Test(node_unproven, gives_back_both_facts_of_an_attempt_and_no_other)
{
    static struct unproven u;
    uint32_t kinds = 0;

    unproven_init(&u, 1 << 16);
    /* The second ticket shares the bucket of the first. */
    cr_assert(add(&u, FACT_LEARN, 5, 0));
    cr_assert(add(&u, FACT_LEARN, 5 + UNPROVEN_BUCKETS, 0));
    cr_assert(add(&u, FACT_EXPECT, 5, 3));
    for (uint32_t i = 0; i < 2; i++) {
        struct unproven_prefix *prefix = unproven_take(&u, 5);
        cr_assert_not_null(prefix);
        cr_assert_eq(prefix->fact.keys[KEYS - 1], 5 + KEYS - 1);
        cr_assert_eq(prefix->known, prefix->fact.kind == FACT_EXPECT ? 3 : 0);
        kinds |= 1U << prefix->fact.kind;
        unproven_free(prefix);
    }
    cr_assert_eq(kinds, 1U << FACT_LEARN | 1U << FACT_EXPECT);
    cr_assert_null(unproven_take(&u, 5));
    unproven_fini(&u);
    cr_assert_eq(u.bytes, 0);
}

Test(node_unproven, the_oldest_give_way_to_new_ones)
{
    static struct unproven u;

    unproven_init(&u, 4 * (sizeof(struct unproven_prefix) + KEYS * 8));
    for (uint64_t ticket = 1; ticket <= 6; ticket++) {
        cr_assert(add(&u, FACT_LEARN, ticket, 0));
    }
    cr_assert_eq(u.dropped, 2);
    cr_assert_null(unproven_take(&u, 2));
    struct unproven_prefix *prefix = unproven_take(&u, 3);
    cr_assert_not_null(prefix);
    unproven_free(prefix);
    unproven_fini(&u);
}

Test(node_unproven, what_is_larger_than_all_room_is_not_kept)
{
    static struct unproven u;

    unproven_init(&u, 64);
    cr_assert_not(add(&u, FACT_LEARN, 1, 0));
    cr_assert_eq(u.dropped, 1);
    cr_assert_null(unproven_take(&u, 1));
    unproven_fini(&u);
}
