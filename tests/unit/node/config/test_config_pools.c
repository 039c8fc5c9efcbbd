/* Where engines are made: what is read, printed and refused. */
#include <stdio.h>
#include <string.h>

#include "node/config/config_scale.h"
#include "tests/unit/node/config/config_rig.h"

#define POOL "fra,command=/bin/fra,island=eu/fra,price=2.5,min=1,max=8"

TestSuite(node_config_pools, .init = setup, .fini = teardown);

/* What scale.pools is printed as, or the faults. */
static const char *
printed(const char *text)
{
    char yaml[9000];

    (void)snprintf(yaml, sizeof yaml, "scale:\n  pools: %s\n", text);
    return printed_of("scale.pools", yaml);
}

Test(node_config_pools, a_pool_has_an_island_a_price_and_who_makes_it)
{
    const struct config_scale_pool *pool;

    cr_assert_str_eq(
        printed("fra,max=8,price=2.5,min=1,command=/bin/fra,island=eu/fra\n"
                "    iad,hook=http://h:1/e,token_file=/t"),
        POOL " iad,hook=http://h:1/e,token_file=/t");
    cr_assert_eq(config_scale_count(&config.scale), 2);
    pool = config_scale_find(&config.scale, "fra");
    cr_assert_eq(pool, config_scale_at(&config.scale, 0));
    cr_expect_str_eq(pool->island, "eu/fra");
    cr_expect_eq(pool->price_milli, 2500);
    cr_expect_eq(pool->min, 1);
    cr_expect_eq(pool->max, 8);
    cr_expect_str_eq(config_scale_pool_by(pool), "command");
    cr_expect_str_eq(config_scale_by(&config.scale), "scale.pools");
    cr_expect_eq(config.scale.pools.pool[1].max, CONFIG_WORKERS_MAX);
    cr_expect_null(config_scale_find(&config.scale, ""));
    cr_expect_null(config_scale_find(&config.scale, "us"));
}

/* Several do not fit into a line. */
Test(node_config_pools, a_printed_configuration_is_cut_between_them)
{
    struct config again;
    struct buf out;

    (void)printed(POOL " iad,command=/bin/iad,island=us/iad,price=1.25,max=9 "
                       "pdx,command=/bin/pdx sea,command=/bin/sea,max=9");
    cr_assert_eq(config.scale.pools.count, 4, "%s", told());
    buf_init(&out, (size_t)64 << 10);
    config_print(&config, &out);
    struct slice left = buf_slice(&out);
    while (left.len != 0) {
        struct slice line = slice_take(&left, '\n');
        cr_expect_leq(line.len, 79, "%.*s", (int)line.len, line.ptr);
    }
    config_init(&again);
    config_apply_yaml(&again, "f", buf_slice(&out), &errors);
    cr_expect_eq(errors.count, 0, "%s", told());
    cr_assert_eq(again.scale.pools.count, 4);
    for (uint32_t i = 0; i < 4; i++) {
        cr_expect_str_eq(again.scale.pools.pool[i].command,
                         config.scale.pools.pool[i].command);
    }
    config_fini(&again);
    buf_fini(&out);
}

Test(node_config_pools, one_that_is_given_up_is_said_to_be)
{
    cr_expect_str_eq(printed("fra,command=/a,max=0 iad,command=/b,max=1024"),
                     "fra,command=/a,max=0 iad,command=/b");
}

Test(node_config_pools, without_any_the_keys_of_scale_are_one)
{
    cr_assert_str_eq(printed("none"), "none");
    cr_assert_eq(config_scale_count(&config.scale), 1);
    cr_assert_eq(config_scale_find(&config.scale, ""), &config.scale.own);
}

Test(node_config_pools, a_worker_has_all_that_follows)
{
    const char *text = "k8s,kubernetes=ml/vllm,price=1,"
                       "worker=http://v-{}:8000,events=tcp://v-{}:1,"
                       "replay=tcp://v-{}:2";

    cr_assert_str_eq(printed(text), text);
    cr_assert_not_null(
        strstr(config.scale.pools.pool[0].worker, "replay=tcp://v-{}:2"));
}

Test(node_config_pools, what_is_no_pool_is_refused)
{
    static const char *const bad[][2] = {
        {"fra=8", "NAME,KEY=VALUE,..."},
        {"fra,max", "keys are hook, token_file"},
        {"fra,cost=8", "keys are hook, token_file"},
        {"fra,max=1025", "a number up to 1024 as max"},
        {"fra,price=x", "as price of a pool"},
        {"fra,island=/eu", "as island of a pool"},
        {"fra,max=1,max=2", "each key of a pool once"},
        {POOL " " POOL, "each pool once"},
        {"fra,max=1", "pool fra needs one of hook, command and kubernetes"},
        {"fra,command=/a,hook=http://h:1", "pool fra needs one of"},
        {"fra,command=/a,min=3,max=2", "pool fra has a min over its max"},
        {"fra,kubernetes=v", "kubernetes of a pool needs its worker"},
        {"fra,command=/a,token_file=/t", "has a token_file and no hook"},
        {"fra,command=/a,worker=http://v-{}:8", "a worker and no kubernetes"},
        {"a,kubernetes=m/v,worker=http://v-{}:8 "
         "b,kubernetes=m/v,worker=http://v-{}:9",
         "pools a and b have one StatefulSet"},
        {"a123456789a123456789a123456789a1,command=/a", "NAME,KEY=VALUE"},
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_not_null(strstr(printed(bad[i][0]), bad[i][1]), "%s: %s",
                           bad[i][0], told());
        teardown();
        setup();
    }
}

Test(node_config_pools, pools_have_a_bound)
{
    char text[2048] = "";
    size_t len = 0;

    for (unsigned i = 0; i <= SCALE_POOLS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "p%u,command=/a ", i);
    }
    cr_assert_not_null(strstr(printed(text), "at most 16 pools"));
}

Test(node_config_pools, either_pools_or_the_keys_of_scale)
{
    const char *yaml = "scale:\n  pools: a,command=/a\n  command: /b\n";

    config_apply_yaml(&config, "f", slice_of(yaml), &errors);
    config_check(&config, &errors);
    cr_assert_not_null(strstr(told(), "expected either pools, or one of"));
}
