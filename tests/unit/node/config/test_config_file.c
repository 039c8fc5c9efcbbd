#include <criterion/criterion.h>

#include "node/config/config.h"

/* Bad files, and every line that is told of each. */
struct bad_file {
    const char *yaml;
    const char *errors;
};

static const struct bad_file bad_files[] = {
    /* Names. */
    {"lisen: 0.0.0.0:80\n",
     "f:1:1: unknown key \"lisen\", did you mean listen?\n"},
    {"limitz:\n  body_bytes_max: 1MiB\n",
     "f:1:1: unknown key \"limitz\", did you mean limits?\n"},
    {"worker: []\n", "f:1:1: unknown key \"worker\", did you mean workers?\n"},
    {"limits:\n  bdy_bytes_max: 1MiB\n",
     "f:2:3: unknown key \"bdy_bytes_max\" in limits, did you mean "
     "limits.body_bytes_max?\n"},
    {"body_bytes_max: 1MiB\n",
     "f:1:1: unknown key \"body_bytes_max\", did you mean "
     "limits.body_bytes_max?\n"},
    {"zebra: 1\n", "f:1:1: unknown key \"zebra\"\n"},
    {"limits.body_bytes_max: 1MiB\n",
     "f:1:1: unknown key \"limits.body_bytes_max\"\n"},
    {"<<: {lanes: 1}\n", "f:1:1: unknown key \"<<\"\n"},
    {"\"a\\nb\\e\": 1\n", "f:1:1: unknown key \"a\\nb\\u001b\"\n"},
    {"? [a, b]\n: 1\n", "f:1:3: expected a key, not a list\n"},
    {"~: 1\n", "f:1:1: expected a key, not nothing\n"},
    {"\xEF\xBB\xBF"
     "lanes: 1\nlisen: 1\n", /* behind a byte order mark */
     "f:2:1: unknown key \"lisen\", did you mean listen?\n"},

    /* Models. */
    {"models: tiny\n",
     "f:1:9: models: expected NAME=PATH[,template=FILE][,content="
     "auto|string|parts], without blanks and #\"\\,, not \"tiny\"\n"},
    {"models:\n- name: a\n- path: /x\n- {name: b, path: /y, colour: red}\n"
     "- {name: c, path: [1]}\n- {name: d, name: d, path: /z}\n- [1]\n",
     "f:2:3: a model without path\nf:3:3: a model without name\n"
     "f:4:23: expected name, path, template or content, not \"colour\"\n"
     "f:5:19: path: expected text, not a list\n"
     "f:6:13: key \"name\" appears twice, first in line 6\n"
     "f:7:3: models: expected a model, not a list\n"},
    {"models: [a=/x, a=/y, 'b=/z,content=none']\n",
     "f:1:16: models: expected each model once, not \"a=/y\"\n"
     "f:1:22: models: expected NAME=PATH[,template=FILE][,content="
     "auto|string|parts], without blanks and #\"\\,, not "
     "\"b=/z,content=none\"\n"},

    /* Repetition. */
    {"lanes: 1\nname: a\nlanes: 2\n",
     "f:3:1: key \"lanes\" appears twice, first in line 1\n"},
    {"log:\n  level: info\nlog:\n  level: info\n",
     "f:3:1: key \"log\" appears twice, first in line 1\n"},
    {"log: {level: info, level: debug}\n",
     "f:1:20: key \"level\" appears twice, first in line 1\n"},
    {"workers: []\nworkers: []\n",
     "f:2:1: key \"workers\" appears twice, first in line 1\n"},
    {"workers:\n- url: http://a\n  pool: x\n  pool: y\n",
     "f:4:3: key \"pool\" appears twice, first in line 3\n"},

    /* Kinds. */
    {"lanes: [1]\n",
     "f:1:8: lanes: expected a number from 0 to 64, not a list\n"},
    {"lanes: {a: 1}\n",
     "f:1:8: lanes: expected a number from 0 to 64, not a mapping\n"},
    {"lanes:\nname: a\n",
     "f:1:7: lanes: expected a number from 0 to 64, not nothing\n"},
    {"lanes: ~\n",
     "f:1:8: lanes: expected a number from 0 to 64, not nothing\n"},
    {"limits: 5\n",
     "f:1:9: limits: expected a mapping of its keys, not text\n"},
    {"log: [level]\n",
     "f:1:6: log: expected a mapping of its keys, not a list\n"},
    {"workers: http://a\n",
     "f:1:10: workers: expected a list of workers, not text\n"},
    {"workers:\n- [http://a]\n",
     "f:2:3: workers: expected a worker (its keys, or URL[,KEY=VALUE]...), not "
     "a list\n"},
    {"- a\n", "f:1:1: expected a mapping of keys, not a list\n"},
    {"text\n", "f:1:1: expected a mapping of keys, not text\n"},

    /* Values. */
    {"lanes: 65\n",
     "f:1:8: lanes: expected a number from 0 to 64, not \"65\"\n"},
    {"lanes: 99999999999999999999999\n",
     "f:1:8: lanes: expected a number from 0 to 64, not "
     "\"99999999999999999999999\"\n"},
    {"lanes: -1\n",
     "f:1:8: lanes: expected a number from 0 to 64, not \"-1\"\n"},
    {"lanes: 010\n",
     "f:1:8: lanes: expected a number from 0 to 64, not \"010\"\n"},
    {"lanes: 4.0\n",
     "f:1:8: lanes: expected a number from 0 to 64, not \"4.0\"\n"},
    {"limits: {head_bytes_max: 64 KiB}\n",
     "f:1:26: limits.head_bytes_max: expected a size from 1KiB to 1MiB such as "
     "32KiB, not \"64 KiB\"\n"},
    {"limits: {head_bytes_max: 64kb}\n",
     "f:1:26: limits.head_bytes_max: expected a size from 1KiB to 1MiB such as "
     "32KiB, not \"64kb\"\n"},
    {"limits: {head_bytes_max: 18014398509481985KiB}\n",
     "f:1:26: limits.head_bytes_max: expected a size from 1KiB to 1MiB such as "
     "32KiB, not \"18014398509481985KiB\"\n"},
    {"timeouts: {head: 10}\n",
     "f:1:18: timeouts.head: expected a duration from 10ms to 1h such as 10s, "
     "not \"10\"\n"},
    {"timeouts: {head: 0}\n",
     "f:1:18: timeouts.head: expected a duration from 10ms to 1h such as 10s, "
     "not \"0\"\n"},
    {"policy:\n  cache_threshold: 1.001\n",
     "f:2:20: policy.cache_threshold: expected a decimal of at most three "
     "places from 0 to 1 such as 0.05, not \"1.001\"\n"},
    {"policy:\n  cache_threshold: 0.1234\n",
     "f:2:20: policy.cache_threshold: expected a decimal of at most three "
     "places from 0 to 1 such as 0.05, not \"0.1234\"\n"},
    {"policy:\n  cache_threshold: .5\n",
     "f:2:20: policy.cache_threshold: expected a decimal of at most three "
     "places from 0 to 1 such as 0.05, not \".5\"\n"},
    {"policy: {name: least-load}\n",
     "f:1:16: policy.name: expected kvasir, round_robin, least_load, random, "
     "power_of_two, rendezvous, prefix_hash, consistent_hashing, cache_aware, "
     "composite or dynamo, not \"least-load\" (did you mean least_load?)\n"},
    {"log: {level: loud}\n",
     "f:1:14: log.level: expected error, warning, info or debug, not "
     "\"loud\"\n"},
    {"listen: localhost:80\n",
     "f:1:9: listen: expected an IP address and port such as 0.0.0.0:8080 or "
     "[::]:8080, not \"localhost:80\"\n"},
    {"health: {path: health}\n",
     "f:1:16: health.path: expected a path such as /health, not \"health\"\n"},
    {"name: \"\"\n", "f:1:7: name: expected at most 63 letters, digits and "
                     "._:@-[], not \"\"\n"},
    {"name: ${HOSTNAME}\n",
     "f:1:7: name: expected at most 63 letters, digits and ._:@-[], not "
     "\"${HOSTNAME}\"\n"},

    /* Workers. */
    {"workers:\n- pool: x\n",
     "f:2:3: a worker needs a url, http://HOST:PORT\n"},
    {"workers:\n- {url: gpu, pool: x}\n",
     "f:2:9: url: expected http://HOST:PORT or https://HOST:PORT, not "
     "\"gpu\"\n"},
    {"workers:\n- {pols: x}\n",
     "f:2:4: unknown key \"pols\", did you mean pool?\n"
     "f:2:3: a worker needs a url, http://HOST:PORT\n"},
    {"workers:\n-\n", "f:2:2: workers: expected a worker (its keys, or "
                      "URL[,KEY=VALUE]...), not nothing\n"},

    /* YAML itself. */
    {"log:\n\tlevel: info\n", "f:2:1: a tab, indent with spaces\n"},
    {"a: &x 1\n", "f:1:4: anchors are not supported\n"
                  "f:1:1: unknown key \"a\"\n"},
    {"name: *x\nlanes: 65\n",
     "f:1:7: aliases are not supported\n"
     "f:2:8: lanes: expected a number from 0 to 64, not \"65\"\n"},
    {"lanes: !!int 4\n", "f:1:8: tags are not supported\n"},
    {"lanes: 1\n---\nlanes: 2\n", "f:2:1: a second document, expected one\n"},
    {"log: {level: [[[[[[[[x]]]]]]]]}\n",
     "f:1:20: nested deeper than any key; reading stops\n"
     "f:1:14: log.level: expected error, warning, info or debug, not a list\n"},
    {"name: \xFF\n",
     "f:1:1: not a text file: invalid leading UTF-8 octet at byte 6\n"},
    {"name: 'open\n",
     "f:2:1: not YAML: while scanning a quoted scalar, found unexpected end of "
     "stream\n"},

    /* All at once, and what stands before a fault that stops the reading. */
    {"lanes: x\nname: a b\nbogus: 1\nworkers: [{url: h}]\nlog: {level\n",
     "f:6:1: not YAML: while parsing a flow mapping, did not find expected ',' "
     "or '}'\n"
     "f:1:8: lanes: expected a number from 0 to 64, not \"x\"\n"
     "f:2:7: name: expected at most 63 letters, digits and ._:@-[], not "
     "\"a b\"\n"
     "f:3:1: unknown key \"bogus\"\n"
     "f:4:17: url: expected http://HOST:PORT or https://HOST:PORT, not \"h\"\n"
     "f:6:1: log.level: expected error, warning, info or debug, not "
     "nothing\n"},
    {"lanes: 65\nworkers:\n- url: http://a\n- pool: x\n  'url\n",
     "f:6:1: not YAML: while scanning a quoted scalar, found unexpected end of "
     "stream\n"
     "f:1:8: lanes: expected a number from 0 to 64, not \"65\"\n"},
};

static char told[65536];

static uint32_t
errors_of(struct slice yaml)
{
    struct config config;
    struct config_errors errors;

    config_init(&config);
    config_errors_init(&errors);
    config_apply_yaml(&config, "f", yaml, &errors);
    cr_assert(errors.text.len < sizeof told);
    if (errors.text.len != 0) {
        memcpy(told, errors.text.ptr, errors.text.len);
    }
    told[errors.text.len] = '\0';
    uint32_t count = errors.count;
    config_errors_fini(&errors);
    config_fini(&config);
    return count;
}

Test(node_config_file, every_fault_is_told_with_its_place)
{
    for (size_t i = 0; i < sizeof bad_files / sizeof bad_files[0]; i++) {
        (void)errors_of(slice_of(bad_files[i].yaml));
        cr_expect_str_eq(told, bad_files[i].errors, "%s", told);
    }
}

Test(node_config_file, columns_count_characters)
{
    (void)errors_of(SLICE("log: {\"\xC3\xA4\xC3\xB6\": 1, level: x}\n"));
    cr_assert_str_eq(told,
                     "f:1:7: unknown key \"\xC3\xA4\xC3\xB6\" in log\n"
                     "f:1:23: log.level: expected error, warning, info or "
                     "debug, not \"x\"\n");
}

Test(node_config_file, size_and_number_of_errors_are_bounded)
{
    struct buf yaml;

    buf_init(&yaml, 2 * CONFIG_FILE_BYTES_MAX);
    for (int i = 0; i < 5000; i++) {
        buf_printf(&yaml, "key%d: 1\n", i);
    }
    cr_assert_eq(errors_of(buf_slice(&yaml)), 5000);
    unsigned lines = 0;
    for (const char *c = told; *c != '\0'; c++) {
        lines += *c == '\n' ? 1 : 0;
    }
    cr_assert_eq(lines, CONFIG_ERRORS_MAX);
    while (yaml.len <= CONFIG_FILE_BYTES_MAX) {
        buf_add_text(&yaml, "# a long comment of nothing\n");
    }
    cr_assert_eq(errors_of(buf_slice(&yaml)), 1);
    cr_assert_str_eq(told, "f: over 1048576 bytes\n");
    buf_fini(&yaml);
}

Test(node_config_file, more_nodes_than_the_bound_are_refused)
{
    struct buf yaml;

    buf_init(&yaml, CONFIG_FILE_BYTES_MAX);
    buf_add_text(&yaml, "workers: [");
    for (int i = 0; i < 30000; i++) {
        buf_add_text(&yaml, "~,");
    }
    buf_add_text(&yaml, "]\n");
    cr_assert_gt(errors_of(buf_slice(&yaml)), 1);
    cr_assert_not_null(
        strstr(told, ": more than any configuration holds; reading stops\n"));
    buf_fini(&yaml);
}
