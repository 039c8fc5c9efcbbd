#include <criterion/criterion.h>
#include <string.h>

#include "chaos/plan/plan_read.h"

static struct plan_mix mix;
static struct plan_seen seen;
static char fault[256];

static int
read_mix(const char *text, const char *model, const char *tenant)
{
    const struct plan_wanted wanted = {model, tenant};

    plan_mix_fini(&mix);
    plan_mix_init(&mix);
    return plan_read_mix((struct slice){.ptr = text, .len = strlen(text)},
                         &wanted, &mix, &seen, fault, sizeof(fault));
}

static void
teardown(void)
{
    plan_mix_fini(&mix);
}

TestSuite(chaos_plan_read_mix, .fini = teardown);

/* Members in any order, as tools that sort them write. */
#define NODE_A                                                                \
    "{\"rows\":[{\"hours\":[5,3600,7200],\"lengths\":[[100,10,2],[900,0,6]]," \
    "\"longest\":1200,\"model\":\"m\",\"tenant\":\"t\",\"requests\":10,"      \
    "\"counted_share\":0.8,\"cached_share\":0.5}],\"new\":{\"a\":[1]},"       \
    "\"hour\":500,\"span_s\":100}\n"
#define NODE_B                                                              \
    "{\"hour\":499,\"span_s\":10,\"rows\":["                                \
    "{\"model\":\"m\",\"tenant\":\"u\",\"requests\":1,\"counted_share\":1," \
    "\"cached_share\":0,\"longest\":50,\"hours\":[1,3600],"                 \
    "\"lengths\":[[40.4,10,1]]},"                                           \
    "{\"model\":null,\"tenant\":null,\"requests\":2,\"counted_share\":0,"   \
    "\"cached_share\":0,\"longest\":0,\"hours\":[],\"lengths\":[]}]}"

Test(chaos_plan_read_mix, a_node_tells_rates_and_lengths)
{
    cr_assert_eq(read_mix(NODE_A, NULL, NULL), 0);
    cr_expect_eq(seen.nodes, 1);
    cr_expect_float_eq(seen.mean_rate, 0.1, 1e-9);
    cr_expect_float_eq(seen.busiest_rate, 2, 1e-9); /* 7,200 in an hour */
    cr_expect_float_eq(seen.cached, 0.5, 1e-9);
    cr_expect_eq(seen.longest, 1200);
    plan_mix_finish(&mix);
    cr_assert_eq(mix.count, 2);
    cr_expect_eq(mix.points[0].prompt, 100);
    cr_expect_float_eq(mix.points[0].weight, 0.25, 1e-9);
    cr_expect_eq(mix.points[1].output, 1); /* an embedding takes a step, too */
}

Test(chaos_plan_read_mix, nodes_are_added_by_their_rates_and_hours)
{
    cr_assert_eq(read_mix(NODE_A NODE_B, NULL, NULL), 0);
    cr_expect_eq(seen.nodes, 2);
    cr_expect_eq(seen.rows, 3);
    cr_expect_float_eq(seen.mean_rate, 0.1 + 0.1 + 0.2, 1e-9);
    /* B's hour 498 is A's second but one. */
    cr_expect_float_eq(seen.busiest_rate, 3, 1e-9);
    plan_mix_finish(&mix);
    cr_assert_eq(mix.count, 3);
    /* 1 in 10 s of B; 8 in 100 s of A, of which four in five have a length. */
    cr_expect_eq(mix.points[0].prompt, 40);
    cr_expect_float_eq(mix.points[0].weight, 0.5, 1e-9);
}

Test(chaos_plan_read_mix, one_model_or_tenant_is_chosen)
{
    cr_assert_eq(read_mix(NODE_A NODE_B, "m", "u"), 0);
    cr_expect_eq(seen.rows, 1);
    cr_expect_eq(mix.count, 1);
    cr_expect_float_eq(seen.mean_rate, 0.1, 1e-9);
    cr_expect_eq(read_mix(NODE_A NODE_B, "n", NULL), PLAN_READ_E_BAD);
    cr_expect_not_null(strstr(fault, "no requests of that model"));
}

Test(chaos_plan_read_mix, a_mean_of_less_than_an_hour_is_the_busiest)
{
    cr_assert_eq(read_mix("{\"hour\":9,\"span_s\":10,\"rows\":[{\"model\":\"\","
                          "\"tenant\":\"t\",\"requests\":50,\"hours\":[50],"
                          "\"lengths\":[[1,1,50]]}]}",
                          NULL, NULL),
                 0);
    cr_expect_float_eq(seen.busiest_rate, 5, 1e-9);
}

Test(chaos_plan_read_mix, what_is_none_is_refused_with_a_line)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "nothing",
        NODE_A "x",
        "{\"hour\":1,\"span_s\":0,\"rows\":[]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":{}}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[1]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"hours\":1}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"hours\":[\"a\"]}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"model\":7}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"requests\":-7}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"lengths\":[[1,2]]}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"lengths\":[[1,2,3,4]]}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"lengths\":[[1e9,2,3]]}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"lengths\":[1]}]}",
        "{\"hour\":1,\"span_s\":1,\"rows\":[{\"lengths\":[]}]",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        fault[0] = '\0';
        cr_expect_eq(read_mix(bad[i], NULL, NULL), PLAN_READ_E_BAD, "%s",
                     bad[i]);
        cr_expect_neq(fault[0], '\0', "%s", bad[i]);
    }
}

Test(chaos_plan_read_mix, any_cut_or_changed_byte_is_read_or_refused)
{
    static char text[] = NODE_A NODE_B;
    size_t len = sizeof(text) - 1;

    for (size_t at = 0; at < len; at++) {
        char was = text[at];
        text[at] = '9';
        (void)read_mix(text, NULL, NULL);
        text[at] = '\0';
        (void)read_mix(text, NULL, NULL);
        text[at] = was;
    }
    cr_expect_eq(read_mix(text, NULL, NULL), 0);
}
