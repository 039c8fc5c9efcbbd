/* SLOs of single models: what is read, printed and refused. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/node/config/config_rig.h"

#define FORM "NAME=TTFT/ITL such as qwen3-8b=500ms/50ms"

TestSuite(node_config_slos, .init = setup, .fini = teardown);

/* What slo.models is printed as, or the faults. */
static const char *
printed(const char *text)
{
    char yaml[9000];

    (void)snprintf(yaml, sizeof yaml, "slo:\n  models: %s\n", text);
    return printed_of("slo.models", yaml);
}

Test(node_config_slos, models_have_both_times)
{
    cr_assert_str_eq(printed("Qwen/Qwen3-8B=500ms/50ms  bge=2000ms/0s b=0/1m"),
                     "Qwen/Qwen3-8B=500ms/50ms bge=2s/0 b=0/1m");
    cr_assert_eq(config.slo.models.count, 3);
    cr_assert_str_eq(config.slo.models.model[0].name, "Qwen/Qwen3-8B");
    cr_assert_eq(config.slo.models.model[0].ttft_ms, 500);
    cr_assert_eq(config.slo.models.model[2].itl_ms, 60000);
    cr_assert_str_eq(printed("none"), "none");
}

Test(node_config_slos, what_is_no_slo_is_refused)
{
    static const char *const bad[] = {"m",        "m=1s",     "=1s/1s",
                                      "m=1s/",    "m=1s/2",   "m=1s/1s/1s",
                                      "m=11m/1s", "m=-1s/1s", "a,b=1s/1s"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_not_null(strstr(printed(bad[i]), FORM), "%s", bad[i]);
        teardown();
        setup();
    }
    cr_assert_not_null(strstr(printed("m=1s/1s m=2s/2s"), "each model once"));
}

Test(node_config_slos, models_have_a_bound)
{
    char text[1024] = "";
    size_t len = 0;

    for (unsigned i = 0; i <= CONFIG_MODELS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "m%u=1s/1s ", i);
    }
    cr_assert_not_null(strstr(printed(text), "at most 32 models"));
}
