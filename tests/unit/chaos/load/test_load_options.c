#include <criterion/criterion.h>
#include <string.h>

#include "chaos/load/load_options_internal.h"
#include "tests/unit/chaos/argv_of.h"

static struct load_options options;
static char fault[256];

static int
parse(const char *words)
{
    return load_options_parse(&options, argv_of(words), fault, sizeof(fault));
}

Test(chaos_load_options, defaults_are_those_of_the_manual)
{
    cr_assert_eq(parse(""), 0);
    cr_assert_str_eq(options.url.host, "127.0.0.1");
    cr_assert_eq(options.url.port, 8080);
    cr_assert_eq(options.users, 16);
    cr_assert_eq(options.timeout_ms, 60000);
    cr_assert_not(options.json);
    cr_assert_eq(load_options_script(&options).think_us, 1000000);
}

Test(chaos_load_options, flags_are_taken_over)
{
    cr_assert_eq(parse("--url http://[::1]:90/base --json --seed=5 --groups 0"),
                 0);
    cr_assert_str_eq(options.url.host, "::1");
    cr_assert_str_eq(options.url.path, "/base");
    cr_assert_eq(options.url.port, 90);
    cr_assert(options.json);
    cr_assert_eq(load_options_script(&options).seed, 5);
    cr_assert_eq(load_options_script(&options).groups, 0);
}

Test(chaos_load_options, a_dns_server_has_an_address_of_either_family)
{
    cr_assert_eq(parse("--resolver [::1]:5353"), 0);
    cr_assert_str_eq(options.resolver.host, "::1");
    cr_assert_eq(parse("--resolver 127.0.0.1:5353"), 0);
    cr_assert_str_eq(options.resolver.host, "127.0.0.1");
    cr_assert_eq(options.resolver.port, 5353);
    cr_assert_eq(parse("--resolver localhost:5353"), FLAGS_E_BAD);
}

Test(chaos_load_options, what_is_wrong_is_named)
{
    static const char *const bad[] = {
        "--url localhost:80",
        "--url https://x",
        "--url",
        "--users 0",
        "--users 1.5",
        "--turns 1001",
        "--json=no",
        "--model \"",
        "--nope",
        "more",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(parse(bad[i]), FLAGS_E_BAD, "%s", bad[i]);
        cr_assert_null(strchr(fault, '\n'));
        char word[32] = {0};
        memcpy(word, bad[i], strcspn(bad[i], " ="));
        cr_assert_not_null(strstr(fault, word), "%s: %s", bad[i], fault);
    }
}

Test(chaos_load_options, requests_are_bounded_as_a_whole)
{
    cr_assert_eq(parse("--conversations 1000000 --turns 10"), 0);
    cr_assert_eq(parse("--conversations 1000000 --turns 11"), FLAGS_E_BAD);
    cr_assert_not_null(strstr(fault, "11000000"));
}

Test(chaos_load_options, the_manual_has_flags_results_and_exit_codes)
{
    struct buf out;

    buf_init(&out, 65536);
    load_options_help(&out);
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    cr_assert_not_null(strstr(out.ptr, "--think-ms MS"));
    cr_assert_not_null(strstr(out.ptr, "(http://127.0.0.1:8080)"));
    cr_assert_not_null(strstr(out.ptr, "no_done"));
    cr_assert_not_null(strstr(out.ptr, "Exit codes"));
    buf_fini(&out);
}
