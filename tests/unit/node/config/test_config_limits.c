/* Limits of single models: what is read, printed and refused. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/node/config/config_rig.h"

#define FORM "NAME=KIND:LIMIT, and more of them after commas"

TestSuite(node_config_limits, .init = setup, .fini = teardown);

/* What limits.models is printed as, or the faults. */
static const char *
printed(const char *text)
{
    char yaml[9000];

    (void)snprintf(yaml, sizeof yaml, "limits:\n  models: '%s'\n", text);
    return printed_of("limits.models", yaml);
}

Test(node_config_limits, models_have_any_of_three_kinds)
{
    const struct config_model_limit *model = config.model_limits.model;

    cr_assert_str_eq(
        printed("bge-*=tokens:1000000/min,requests:5/s  Qwen/Q:8=concurrent:4"),
        "bge-*=requests:5/s,tokens:1000000/min Qwen/Q:8=concurrent:4");
    cr_assert_eq(config.model_limits.count, 2);
    cr_assert_str_eq(model[0].name, "bge-*");
    cr_assert_eq(model[0].rate[LIMITS_TOKENS].amount, 1000000);
    cr_assert_eq(model[0].rate[LIMITS_TOKENS].window_ms, 60000);
    cr_assert_eq(model[0].rate[LIMITS_CONCURRENT].amount, 0);
    cr_assert_eq(model[1].rate[LIMITS_CONCURRENT].amount, 4);
    cr_assert_eq(model[1].rate[LIMITS_CONCURRENT].window_ms, 0);
    cr_assert_str_eq(printed("none"), "none");
}

Test(node_config_limits, what_is_no_limit_is_refused)
{
    static const char *const bad[] = {
        "m",
        "m=",
        "m=5/s",
        "=requests:5/s",
        "m=requests:5",
        "m=requests:none",
        "m=requests:0/s",
        "m=concurrent:5/s",
        "m=concurrent:0",
        "m=concurrent:1000000001",
        "m=tokens:5/s,tokens:6/s",
        "m=concurrent:5,concurrent:6",
        "m=bytes:5/s",
        "a,b=requests:1/s",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_not_null(strstr(printed(bad[i]), FORM), "%s", bad[i]);
        teardown();
        setup();
    }
    cr_assert_not_null(
        strstr(printed("m=requests:1/s m=tokens:1/s"), "each model once"));
}

Test(node_config_limits, models_have_a_bound)
{
    char text[2048] = "";
    size_t len = 0;

    for (unsigned i = 0; i <= CONFIG_MODELS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "m%u=requests:1/s ", i);
    }
    cr_assert_not_null(strstr(printed(text), "at most 32 models"));
}
