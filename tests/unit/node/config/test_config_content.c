#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/config/config_content.h"
#include "tests/unit/node/config/config_rig.h"

TestSuite(node_config_content, .init = setup, .fini = teardown);

#define RULE "  - {name: r, longer: 9}\n"

/* The faults of a file; "" and nothing left. */
static const char *
faults(const char *yaml)
{
    struct content *content;

    errors.count = errors.printed = 0;
    buf_clear(&errors.text);
    int outcome = config_content_read(slice_of(yaml), "f", &content, &errors);
    cr_assert_eq(outcome == 0, content != NULL);
    cr_assert_eq(outcome == 0, errors.count == 0);
    content_free(content);
    return told();
}

Test(node_config_content, all_keys_are_read)
{
    cr_assert_str_eq(
        faults("auto:\n"
               " model: m\n"
               " look: last\n"
               " rules:\n"
               "  - name: a\n"
               "    words: [b, c d]\n"
               "    regex: ['\\d+']\n"
               "    has: [code, iban]\n"
               "    languages: [de, unknown]\n"
               "    tenants: [gold, silver]\n"
               "    longer: 10\n"
               "    shorter: 20\n"
               "    model: n\n"
               "    set: {reasoning_effort: low, thinking: '{\"type\":1}'}\n"
               "    semantic_threshold: 0.97\n"
               "  - {name: b, longer: 1, semantic_threshold: off}\n"),
        "");
}

Test(node_config_content, members_become_json)
{
    static const char yaml[] =
        "auto:\n model: m\n rules:\n  - name: a\n    longer: 1\n"
        "    set: {reasoning_effort: 'a \"b\"', thinking: '[[[[[[[1]]]]]]]', "
        "tool_choice: none}\n";
    struct scan scan = {.spans = NULL};
    struct content_asked asked = {.body = SLICE("{}"), .scan = &scan};
    struct content_verdict verdict;
    struct content *content;

    cr_assert_eq(config_content_read(SLICE(yaml), "f", &content, &errors), 0);
    struct content_scratch *scratch = content_scratch_new();
    struct scan_span spans[1] = {{.kind = SCAN_TEXT, .len = 2}};
    scan.spans = spans;
    scan.spans_count = 1;
    cr_assert(content_judge(content, scratch, SLICE("auto"), &asked, &verdict));
    cr_assert_str_eq(verdict.set, "\"reasoning_effort\":\"a \\\"b\\\"\","
                                  "\"thinking\":[[[[[[[1]]]]]]],"
                                  "\"tool_choice\":\"none\",");
    content_scratch_free(scratch);
    content_free(content);
}

#define HEAD "auto:\n model: m\n rules:\n"

static const struct {
    const char *yaml, *told;
} wrong[] = {
    {"", "f: has no name\n"},
    {"[a]\n", "f:1:1: the file: expected a mapping of names for clients, not a "
              "list\n"},
    {"auto: m\n", "f:1:7: a name: expected a mapping of model, look and rules, "
                  "not \"m\"\n"},
    {"auto: {model: m}\n",
     "f:1:1: a name: expected model and rules behind it, not \"auto\"\n"},
    {"auto: {model: m, rules: []}\n",
     "f:1:25: rules: expected a list of one or more, not a list\n"},
    {"auto: {model: m, other: 1, rules: []}\n",
     "f:1:18: a name's keys: expected model, look or rules, not \"other\"\n"},
    {"auto:\n model: m\n look: middle\n rules:\n" RULE,
     "f:3:8: look: expected first or last, not \"middle\"\n"},
    {"a b:\n model: m\n rules:\n" RULE,
     "f:1:1: a name for clients: expected a name of up to 127 bytes without "
     "blanks and \"\\#, not \"a b\"\n"},
    {"auto:\n model: m\n rules:\n" RULE "auto:\n model: m\n rules:\n" RULE,
     "f:5:1: \"auto\" appears twice\n"},
    {HEAD "  - {name: r, longer: x}\n",
     "f:4:23: longer: expected a number of bytes from 1 to 4000000000, not "
     "\"x\"\n"},
    {HEAD "  - {name: r, longer: ''}\n",
     "f:4:23: longer: expected a number of bytes from 1 to 4000000000, not "
     "\"\"\n"},
    {HEAD "  - {name: r, longer: 1, semantic_threshold: ''}\n",
     "f:4:46: semantic_threshold: expected 0.5 to 1, or off, not \"\"\n"},
    {HEAD "  - {longer: 1}\n", "f:4:5: a rule without name\n"},
    {HEAD "  - {name: r}\n", "f:4:5: the rule r has no condition: it would fit "
                             "all requests\n"},
    {HEAD RULE RULE, "f:5:5: the rule r appears twice\n"},
    {HEAD "  - {name: r, has: [cats]}\n",
     "f:4:21: has: expected code, tools, media, email, phone, card, iban or "
     "jailbreak, not \"cats\"\n"},
    {HEAD "  - {name: r, languages: [tlh]}\n",
     "f:4:27: languages: expected unknown, ar, de, el, en, es, fr, he, hi, it, "
     "ja, ko, pl, pt, ro, ru, th, tr, vi or zh, not \"tlh\"\n"},
    {HEAD "  - {name: r, regex: ['a(']}\n",
     "f:4:23: missing closing parenthesis at byte 2\n"},
    {HEAD "  - {name: r, words: x}\n",
     "f:4:22: words: expected a list of one or more, not \"x\"\n"},
    {HEAD "  - {name: r, longer: 1, set: {temperature: 1}}\n",
     "f:4:32: set: expected a member that changes how a request is rendered, "
     "such as chat_template_kwargs, reasoning_effort or thinking, not "
     "\"temperature\"\n"},
    /* At 7, as above, it is within any limits.json_depth_max. */
    {HEAD "  - {name: r, longer: 1, set: {thinking: '[[[[[[[[1]]]]]]]]'}}\n",
     "f:4:42: set: expected JSON nested at most 7 deep, not "
     "\"[[[[[[[[1]]]]]]]]\"\n"},
    {HEAD "  - {name: r, longer: 1, weight: 2}\n",
     "f:4:26: a rule: expected name, model, has, languages, tenants, longer, "
     "shorter, words, regex, like, set or semantic_threshold, not "
     "\"weight\"\n"},
    {HEAD "  - {name: r, like: [a, '']}\n",
     "f:4:25: like: expected text, not \"\"\n"},
    {HEAD "  - {name: r, longer: 1, semantic_threshold: 0.4}\n",
     "f:4:46: semantic_threshold: expected 0.5 to 1, or off, not \"0.4\"\n"},
    {HEAD "  - {name: r, longer: 1, semantic_threshold: nan}\n",
     "f:4:46: semantic_threshold: expected 0.5 to 1, or off, not \"nan\"\n"},
    {HEAD "  - {name: r, longer: 1, semantic_threshold: 0.9x}\n",
     "f:4:46: semantic_threshold: expected 0.5 to 1, or off, not "
     "\"0.9x\"\n"},
    {HEAD "  - {name: r, longer: 1, longer: 2}\n",
     "f:4:26: key \"longer\" appears twice, first in line 4\n"},
};

Test(node_config_content, what_is_wrong_is_told_with_its_place)
{
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        cr_assert_str_eq(faults(wrong[i].yaml), wrong[i].told, "%s: %s",
                         wrong[i].yaml, told());
    }
}

Test(node_config_content, a_name_is_no_alias_and_a_file_is_there)
{
    char path[] = "/tmp/kvasir-content-XXXXXX";
    static const char yaml[] = HEAD RULE;
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, yaml, sizeof yaml - 1), (ssize_t)sizeof yaml - 1);
    (void)close(fd);
    (void)snprintf(config.content.file, sizeof config.content.file, "%s", path);
    config_content_check(&config, &errors);
    cr_assert_eq(errors.count, 0, "%s", told());
    (void)snprintf(config.aliases.alias[0].name,
                   sizeof config.aliases.alias[0].name, "auto");
    config.aliases.count = 1;
    config_content_check(&config, &errors);
    cr_assert_str_eq(told(), "content.file: auto is an alias, too: a name is "
                             "one or the other\n");
    (void)unlink(path);
    config_content_check(&config, &errors);
    cr_assert_not_null(strstr(told(), "cannot be read: no such file"), "%s",
                       told());
}
