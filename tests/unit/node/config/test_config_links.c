/* Links between islands: what is read, printed and refused. */
#include <stdio.h>
#include <string.h>

#include "tests/unit/node/config/config_rig.h"

#define FORM "ISLAND~ISLAND=TIME[@PRICE] such as eu~us=80ms"

TestSuite(node_config_links, .init = setup, .fini = teardown);

/* What island.links is printed as, or the faults. */
static const char *
printed(const char *text)
{
    char yaml[9000];

    (void)snprintf(yaml, sizeof yaml, "island:\n  links: %s\n", text);
    return printed_of("island.links", yaml);
}

Test(node_config_links, a_link_has_two_ends_and_a_time)
{
    cr_assert_str_eq(printed("aws/eu~aws/us=80ms  eu~eu=1000ms a~b=0"),
                     "aws/eu~aws/us=80ms eu~eu=1s a~b=0");
    cr_assert_eq(config.island.links.count, 3);
    cr_assert_str_eq(config.island.links.link[0].from, "aws/eu");
    cr_assert_str_eq(config.island.links.link[0].to, "aws/us");
    cr_assert_eq(config.island.links.link[1].ms, 1000);
    cr_assert_str_eq(printed("none"), "none");
}

Test(node_config_links, a_link_may_have_a_price)
{
    cr_assert_not_null(strstr(printed("eu~us=@0.02"), "scale.price"));
    teardown();
    setup();
    config_apply_yaml(&config, "f", SLICE("scale:\n  price: 2.5\n"), &errors);
    cr_assert_str_eq(printed("eu~us=80ms@0.02 eu~ap=@0.09 a~b=0@0 a~c=@0"),
                     "eu~us=80ms@0.02 eu~ap=@0.09 a~b=0 a~c=@0");
    cr_assert_eq(config.island.links.link[0].ms, 80);
    cr_assert_eq(config.island.links.link[0].price_milli, 20);
    cr_assert(config.island.links.link[1].measured);
    cr_assert_not(config.island.links.link[2].measured);
}

Test(node_config_links, what_is_no_link_is_refused)
{
    static const char *const bad[] = {
        "eu",          "eu=8ms",  "eu~us",     "~us=8ms",
        "eu~=8ms",     "eu~us=8", "eu/~u=1s",  "/eu~us=1s",
        "a//b~us=1s",  "a~b=11m", "a~b~c=8ms", "eu~us=",
        "eu~us=8ms@",  "eu~us=@", "eu~us=@x",  "eu~us=8ms@1001",
        "eu~us=8ms@-1"};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_not_null(strstr(printed(bad[i]), FORM), "%s", bad[i]);
        teardown();
        setup();
    }
    cr_assert_not_null(strstr(printed("a~b=1s b~a=2s"), "each link once"));
}

Test(node_config_links, links_have_a_bound)
{
    char text[2048] = "";
    size_t len = 0;

    for (unsigned i = 0; i <= CONFIG_LINKS_MAX; i++) {
        len += (size_t)snprintf(text + len, sizeof text - len, "a%u~b=1s ", i);
    }
    cr_assert_not_null(strstr(printed(text), "at most 64 links"));
}

Test(node_config_links, an_island_is_labels_between_slashes)
{
    static const char *const bad[] = {"/eu", "eu/", "a//b", "a~b", "a b"};
    const struct config_key *key =
        config_schema_find(&config_schema_worker, SLICE("island"));
    struct config_worker worker;

    cr_assert(config_value_set(key, SLICE("aws/eu-west-1/a"), &worker));
    cr_assert_str_eq(worker.island, "aws/eu-west-1/a");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert_not(config_value_set(key, slice_of(bad[i]), &worker), "%s",
                      bad[i]);
    }
    cr_assert_str_eq(worker.island, "aws/eu-west-1/a");
}
