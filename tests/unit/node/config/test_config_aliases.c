/* Other names of models: in files and flags, and what is refused. */
#include <stdio.h>
#include <string.h>

#include "node/config/config_diff.h"
#include "tests/unit/node/config/config_rig.h"

#define FORM                                                          \
    "NAME=MODEL[*WEIGHT][+MODEL[*WEIGHT]]...[,fallback=MODEL[+MODEL]" \
    "...], weights from 1 to 1000000, without blanks and #\"\\,+*="

TestSuite(node_config_aliases, .init = setup, .fini = teardown);

/* The value that a file gives the key, as it is printed. */
static const char *
printed(const char *yaml)
{
    return printed_of("aliases", yaml);
}

Test(node_config_aliases, a_text_and_mappings_say_the_same)
{
    cr_assert_str_eq(printed("aliases: gpt=llama chat=a*95+b*5,fallback=c+d\n"),
                     "gpt=llama chat=a*95+b*5,fallback=c+d");
    cr_assert_str_eq(
        printed("aliases:\n- {name: gpt, to: llama}\n"
                "- {name: chat, to: {a: 95, b: 5}, fallback: [c, d]}\n"
                "- e=a\n- {name: f, to: [a, b], fallback: c}\n"),
        "gpt=llama chat=a*95+b*5,fallback=c+d e=a f=a+b,fallback=c");
    cr_assert_eq(config.aliases.alias[1].target[1].weight, 5);
    cr_assert_eq(config.aliases.alias[1].target[3].weight, 0);
    cr_assert_str_eq(printed("aliases: none\n"), "none");
}

Test(node_config_aliases, a_model_may_have_fall_backs_under_its_own_name)
{
    cr_assert_str_eq(
        printed("aliases: ['a=a,fallback=b', 'b=b,fallback=a', gpt=a]\n"),
        "a=a,fallback=b b=b,fallback=a gpt=a");
}

struct bad {
    const char *yaml;
    const char *errors;
};

static const struct bad bad_ones[] = {
    {"aliases: gpt\n", "f:1:10: aliases: expected " FORM ", not \"gpt\"\n"},
    {"aliases: ['a=b*0']\n",
     "f:1:11: aliases: expected " FORM ", not \"a=b*0\"\n"},
    {"aliases: ['a=b*1000001']\n",
     "f:1:11: aliases: expected " FORM ", not \"a=b*1000001\"\n"},
    {"aliases: ['a=b+']\n",
     "f:1:11: aliases: expected " FORM ", not \"a=b+\"\n"},
    {"aliases: ['a=b,fallback=']\n",
     "f:1:11: aliases: expected " FORM ", not \"a=b,fallback=\"\n"},
    {"aliases: ['a=b,fallback=c*2']\n",
     "f:1:11: aliases: expected " FORM ", not \"a=b,fallback=c*2\"\n"},
    {"aliases: ['a=b,to=c']\n",
     "f:1:11: aliases: expected " FORM ", not \"a=b,to=c\"\n"},
    {"aliases: ['a=b+b']\n", "f:1:11: aliases: expected each model once in an "
                             "alias, not \"a=b+b\"\n"},
    {"aliases: [a=b, a=c]\n",
     "f:1:16: aliases: expected each alias once, not \"a=c\"\n"},
    {"aliases: ['a=1+2+3+4+5+6+7+8+9']\n",
     "f:1:11: aliases: expected at most 8 models in an alias, not "
     "\"a=1+2+3+4+5+6+7+8+9\"\n"},
    {"aliases:\n- {to: b}\n- {name: c}\n- {name: d, to: e, weight: 1}\n"
     "- {name: [f], to: g}\n- {name: h, to: [[i]]}\n- [j]\n"
     "- {name: k, to: ~}\n- {name: l, to: {m: {n: 1}}}\n",
     "f:2:3: an alias without name\nf:3:3: an alias without to\n"
     "f:4:20: expected name, to or fallback, not \"weight\"\n"
     "f:5:10: name: expected text, not a list\n"
     "f:6:18: to: expected a model, not a list\n"
     "f:7:3: aliases: expected an alias, not a list\n"
     "f:8:17: to: expected models, not nothing\n"
     "f:9:21: to: expected a weight, not a mapping\n"},
    {"aliases: [a=b, b=c]\n",
     "aliases: \"a\" leads to \"b\", which is an alias itself: expected a "
     "model that engines serve\n"},
    {"aliases: [a=b, 'c=d,fallback=a', b=a]\n",
     "aliases: \"a\" leads to \"b\", which is an alias itself: expected a "
     "model that engines serve\n"
     "aliases: \"c\" leads to \"a\", which is an alias itself: expected a "
     "model that engines serve\n"
     "aliases: \"b\" leads to \"a\", which is an alias itself: expected a "
     "model that engines serve\n"},
};

Test(node_config_aliases, what_leads_nowhere_is_refused)
{
    for (size_t i = 0; i < sizeof bad_ones / sizeof *bad_ones; i++) {
        cr_expect_str_eq(printed(bad_ones[i].yaml), bad_ones[i].errors);
        teardown();
        setup();
    }
}

Test(node_config_aliases, there_may_be_thirty_two)
{
    char yaml[1024] = "aliases: ";
    size_t len = strlen(yaml);

    for (int i = 0; i < 33; i++) {
        len += (size_t)snprintf(yaml + len, sizeof yaml - len, "a%d=m ", i);
    }
    const char *errors_told = printed(yaml);
    cr_assert_not_null(strstr(errors_told, "expected at most 32 aliases"), "%s",
                       errors_told);
}

Test(node_config_aliases, a_running_node_takes_others_over)
{
    const struct config_key *key =
        config_schema_find(&config_schema_node, SLICE("aliases"));

    cr_assert(config_key_is_live(key));
}
