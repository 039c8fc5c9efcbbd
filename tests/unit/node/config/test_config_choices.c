/* A rule for each of some models: in files and flags, and what is refused. */
#include <stdio.h>
#include <string.h>

#include "node/config/config_schema.h"
#include "node/elect/elect.h"
#include "tests/unit/node/config/config_rig.h"

TestSuite(node_config_choices, .init = setup, .fini = teardown);

/* The value that a file gives policy.models, as it is printed; or the faults. */
static const char *
printed(const char *yaml)
{
    static char text[4096];
    const struct config_key *key =
        config_schema_find(&config_schema_node, SLICE("policy.models"));
    struct buf out;

    errors.count = errors.printed = 0;
    buf_clear(&errors.text);
    config_apply_yaml(&config, "f", slice_of(yaml), &errors);
    if (errors.count != 0) {
        return told();
    }
    buf_init(&out, sizeof text);
    config_value_print(key, &config, &out);
    (void)snprintf(text, sizeof text, "%.*s", (int)out.len, out.ptr);
    buf_fini(&out);
    return text;
}

/* The rule of that model; -1: the usual one. */
static int
rule_of(const char *model)
{
    const struct config_choice *found =
        config_choices_find(&config.policy.models, slice_of(model));

    return found != NULL ? (int)found->choice : -1;
}

Test(node_config_choices, a_text_and_a_list_say_the_same)
{
    static const char text[] = "bge-*=least_load rerank=round_robin";

    cr_assert_str_eq(printed("policy: {models: 'bge-*=least_load "
                             "rerank=round_robin'}\n"),
                     text);
    cr_assert_str_eq(printed("policy:\n  models:\n  - bge-*=least_load\n"
                             "  - rerank=round_robin\n"),
                     text);
    cr_assert_str_eq(printed("policy: {models: []}\n"), "none");
}

Test(node_config_choices, the_first_that_fits_counts)
{
    (void)printed("policy: {models: 'a=random ab*=least_load a*=round_robin "
                  "*=dynamo'}\n");
    cr_assert_eq(rule_of("a"), ELECT_RANDOM);
    cr_assert_eq(rule_of("ab"), ELECT_LEAST_LOAD);
    cr_assert_eq(rule_of("abc"), ELECT_LEAST_LOAD);
    cr_assert_eq(rule_of("ac"), ELECT_ROUND_ROBIN);
    cr_assert_eq(rule_of(""), ELECT_DYNAMO);
    (void)printed("policy: {models: 'ab*=least_load'}\n");
    cr_assert_eq(rule_of("a"), -1);
    cr_assert_eq(rule_of("xab"), -1);
}

Test(node_config_choices, what_is_no_rule_of_a_model_is_named)
{
    static const struct {
        const char *text;
        const char *why;
    } bad[] = {
        {"x", "expected NAME=CHOICE"},
        {"x=", "expected NAME=CHOICE"},
        {"=random", "expected NAME"},
        {"x=best", "expected NAME=CHOICE"},
        {"a*b=random", "expected NAME"},
        {"''", "expected NAME=CHOICE"},
        {"x=random x=random", "each model once"},
    };
    char yaml[256];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(yaml, sizeof yaml, "policy: {models: %s}\n",
                       bad[i].text);
        cr_assert(strstr(printed(yaml), bad[i].why) != NULL, "%s: %s",
                  bad[i].text, printed(yaml));
    }
    char many[1024] = "policy: {models: '";
    for (int i = 0; i <= CONFIG_CHOICES_MAX; i++) {
        size_t len = strlen(many);
        (void)snprintf(many + len, sizeof many - len, "m%d=random ", i);
    }
    (void)strcat(many, "'}\n");
    cr_assert(strstr(printed(many), "at most 16 models") != NULL);
}
