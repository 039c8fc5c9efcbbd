#include <criterion/criterion.h>

#include "node/text/typo.h"

static const char *
nearest(const char *word)
{
    static const char *const known[] = {"listen", "limits", "lanes",
                                        "log",    "health", "connections_max"};
    struct typo typo = {.best = NULL};

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        typo_offer(&typo, slice_of(word), known[i]);
    }
    return typo.best;
}

Test(node_typo, one_slip_is_seen_through)
{
    cr_assert_str_eq(nearest("lisen"), "listen");
    cr_assert_str_eq(nearest("lsiten"), "listen");
    cr_assert_str_eq(nearest("limitz"), "limits");
    cr_assert_str_eq(nearest("helth"), "health");
    cr_assert_str_eq(nearest("lgo"), "log");
    cr_assert_str_eq(nearest("conections-max"), "connections_max");
}

Test(node_typo, what_resembles_nothing_stays_alone)
{
    cr_assert_null(nearest("workers"));
    cr_assert_null(nearest("xxxxts")); /* a swap excuses no other letter */
    cr_assert_null(nearest("x"));
    cr_assert_null(nearest(""));
    cr_assert_null(
        nearest("a word that is much longer than any key will ever be"));
}
