#include <criterion/criterion.h>

#include "node/config/config_diff.h"

static struct config now;
static struct config wanted;
static struct config_diff diff;

static void
load(struct config *config, const char *yaml)
{
    struct config_errors errors;

    config_init(config);
    config_errors_init(&errors);
    config_apply_yaml(config, "test", slice_of(yaml), &errors);
    cr_assert_eq(errors.count, 0);
    config_errors_fini(&errors);
}

static void
compare(const char *before, const char *after)
{
    load(&now, before);
    load(&wanted, after);
    config_diff(&now, &wanted, &diff);
}

static void
clean(void)
{
    config_fini(&now);
    config_fini(&wanted);
}

static size_t
row(const char *name)
{
    const struct config_key *key =
        config_schema_find(&config_schema_node, slice_of(name));

    cr_assert_not_null(key, "%s", name);
    return (size_t)(key - config_schema_node.keys);
}

TestSuite(node_config_diff, .fini = clean);

Test(node_config_diff, the_same_text_differs_in_nothing)
{
    const char *text = "listen: 127.0.0.1:1\nmesh: {join: 'a:1 b:2'}\n"
                       "workers: ['http://w:1,api_key=k']\n";

    compare(text, text);
    cr_assert_eq(diff.live_count + diff.restart_count + diff.workers_count, 0);
}

Test(node_config_diff, keys_are_taken_over_or_need_a_restart)
{
    compare("{}", "timeouts: {head: 3s}\nlog: {level: debug}\nlanes: 7\n");
    cr_assert_eq(diff.live_count, 2);
    cr_assert_eq(diff.restart_count, 1);
    cr_assert(diff.changed[row("timeouts.head")]);
    cr_assert(diff.changed[row("log.level")]);
    cr_assert(diff.changed[row("lanes")]);
    config_diff_take(&diff, &wanted, &now);
    cr_assert_eq(now.timeouts.head_ms, 3000);
    cr_assert_eq(now.log.level, LOG_LEVEL_DEBUG);
    cr_assert_eq(now.lanes, 0);
    config_diff(&now, &wanted, &diff);
    cr_assert_eq(diff.live_count, 0);
    cr_assert_eq(diff.restart_count, 1, "what needs a restart still does");
}

Test(node_config_diff, what_guards_the_request_path_is_taken_over)
{
    compare("placement_headers: on\n",
            "retries: {statuses: none, after_send: 0}\n"
            "breaker: {max_ejection_percent: 20}\n");
    cr_assert_eq(diff.live_count, 4);
    cr_assert_eq(diff.restart_count, 0);
    config_diff_take(&diff, &wanted, &now);
    cr_assert_eq(now.placement_headers, 0);
    cr_assert_not(config_statuses_has(&now.retries.statuses, 500));
    cr_assert_eq(now.retries.after_send, 0);
    cr_assert_eq(now.breaker.max_ejection_percent, 20);
}

/* A value of a key that may be absent. */
static struct slice
some_value(enum config_type type)
{
    return type == CONFIG_WEB       ? SLICE("http://x")
           : type == CONFIG_ORIGINS ? SLICE("https://x")
           : type == CONFIG_FILE    ? SLICE("/x")
                                    : SLICE("x");
}

Test(node_config_diff, a_key_that_is_absent_now_is_taken_over)
{
    uint32_t absent = 0;

    for (size_t i = 0; i < config_schema_node.count; i++) {
        const struct config_key *key = &config_schema_node.keys[i];
        if (key->fallback[0] != '\0' || !config_key_is_live(key)) {
            continue;
        }
        load(&now, "{}");
        load(&wanted, "{}");
        cr_assert(config_value_set(key, some_value(key->type), &now), "%s",
                  key->name);
        config_diff(&now, &wanted, &diff);
        cr_assert_eq(diff.live_count, 1, "%s", key->name);
        config_diff_take(&diff, &wanted, &now);
        config_diff(&now, &wanted, &diff);
        cr_assert_eq(diff.live_count, 0, "%s", key->name);
        clean();
        absent++;
    }
    cr_assert_gt(absent, 3);
}

Test(node_config_diff, a_name_of_a_live_key_is_that_of_a_key)
{
    uint32_t live = 0;

    load(&now, "{}");
    load(&wanted, "{}");
    for (size_t i = 0; i < config_schema_node.count; i++) {
        live += config_key_is_live(&config_schema_node.keys[i]);
    }
    cr_assert_eq(live, 96);
    cr_assert_not(config_key_is_live(&config_schema_node.keys[row("listen")]));
}

Test(node_config_diff, a_request_that_is_read_twice_has_the_same_limits)
{
    compare("{}", "limits: {json_depth_max: 64, spans_max: 4096}\n");
    cr_assert_eq(diff.live_count, 0);
    cr_assert_gt(diff.restart_count, 0);
}

Test(node_config_diff, workers_are_the_same_by_their_ids)
{
    compare("workers: ['http://a:1,id=a', 'http://b:1,id=b', "
            "'http://c:1,id=c,api_key=1']",
            "workers: ['http://d:1,id=d', 'http://c:1,id=c,api_key=2', "
            "'http://a:1,id=a']");
    cr_assert_eq(diff.workers_count, 3);
    cr_assert_eq(diff.worker[0], CONFIG_WORKER_ADDED);
    cr_assert_eq(diff.worker[1], CONFIG_WORKER_CHANGED, "a key is compared");
    cr_assert_eq(diff.worker[2], CONFIG_WORKER_SAME);
    cr_assert(!diff.gone[0] && diff.gone[1] && !diff.gone[2]);
}
