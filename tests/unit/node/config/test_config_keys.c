#include <criterion/criterion.h>

#include "node/config/config_keys.h"
#include "tests/unit/node/config/config_rig.h"

TestSuite(node_config_keys, .init = setup, .fini = teardown);

#define KEY_A                                               \
    "00000000000a:sha256:00000000000000000000000000000001:" \
    "0000000000000000000000000000000000000000000000000000000000000002"
#define KEY_B                                               \
    "00000000000b:sha256:00000000000000000000000000000001:" \
    "0000000000000000000000000000000000000000000000000000000000000002"

/* The faults of a file; "" and no keys left. */
static const char *
faults(const char *yaml)
{
    struct keys *keys;

    errors.count = errors.printed = 0;
    buf_clear(&errors.text);
    int outcome =
        config_keys_read(slice_of(yaml), "f", false, NULL, &keys, &errors);
    cr_assert_eq(outcome == 0, keys != NULL);
    cr_assert_eq(outcome == 0, errors.count == 0);
    keys_free(keys);
    return told();
}

Test(node_config_keys, tenants_have_keys_and_models)
{
    static const char yaml[] = "tenants:\n"
                               "  a:\n"
                               "    keys: [\"" KEY_A "\"]\n"
                               "  b:\n"
                               "    models: [m1, 'm2-*']\n"
                               "    keys:\n"
                               "      - " KEY_B "\n"
                               "  c:\n";
    struct keys *keys;

    cr_assert_eq(
        config_keys_read(SLICE(yaml), "f", false, NULL, &keys, &errors), 0);
    cr_assert_eq(keys_tenants_count(keys), 3);
    cr_assert_eq(keys_count(keys), 2);
    uint32_t a = keys_find(keys, 0xa)->tenant;
    uint32_t b = keys_find(keys, 0xb)->tenant;
    cr_assert_str_eq(keys_tenant_name(keys, a), "a");
    cr_assert_str_eq(keys_tenant_name(keys, b), "b");
    cr_assert(keys_allows(keys, a, SLICE("m3")));
    cr_assert(keys_allows(keys, b, SLICE("m2-x")));
    cr_assert(!keys_allows(keys, b, SLICE("m3")));
    keys_free(keys);
}

Test(node_config_keys, tenants_have_weights_and_priorities)
{
    static const char yaml[] =
        "tenants:\n  a: {weight: 3, priority: -2, keys: [\"" KEY_A "\"]}\n"
        "  b: {keys: [\"" KEY_B "\"]}\n";
    struct keys *keys;

    cr_assert_eq(
        config_keys_read(SLICE(yaml), "f", false, NULL, &keys, &errors), 0);
    uint32_t a = keys_find(keys, 0xa)->tenant;
    uint32_t b = keys_find(keys, 0xb)->tenant;
    cr_assert_eq(keys_weight(keys, a), 3);
    cr_assert_eq(keys_priority(keys, a), -2);
    cr_assert_eq(keys_weight(keys, b), 1);
    cr_assert_eq(keys_priority(keys, b), 0);
    keys_free(keys);
    cr_assert_str_eq(faults("tenants:\n  a:\n    weight: 0\n"),
                     "f:3:13: weight: expected a number from 1 to 1000, not "
                     "\"0\"\n");
    cr_assert_str_eq(faults("tenants:\n  a:\n    priority: high\n"),
                     "f:3:15: priority: expected a number from -4 to 3, not "
                     "\"high\"\n");
}

Test(node_config_keys, tenants_have_limits)
{
    static const char yaml[] =
        "tenants:\n  a:\n    keys: [\"" KEY_A "\"]\n    limits:\n"
        "      requests: 600/min\n      concurrent: 16\n      tokens: none\n"
        "      models: {'bge-*': {tokens: 5/s}}\n";
    static const struct keys_limit wanted[] = {
        {1, LIMITS_REQUESTS, {600, 60000}, ""},
        {1, LIMITS_CONCURRENT, {16, 0}, ""},
        {1, LIMITS_TOKENS, {0, 0}, ""},
        {1, LIMITS_TOKENS, {20, 4000}, "bge-*"},
    };
    struct keys *keys;

    cr_assert_eq(
        config_keys_read(SLICE(yaml), "f", false, NULL, &keys, &errors), 0);
    for (uint32_t i = 0; i < 4; i++) {
        const struct keys_limit *limit = keys_limit(keys, i);
        cr_assert_eq(limit->tenant, wanted[i].tenant);
        cr_assert_eq(limit->of, wanted[i].of);
        cr_assert_eq(limit->rate.amount, wanted[i].rate.amount);
        cr_assert_eq(limit->rate.window_ms, wanted[i].rate.window_ms);
        cr_assert_str_eq(limit->model, wanted[i].model);
    }
    cr_assert_null(keys_limit(keys, 4));
    keys_free(keys);
}

Test(node_config_keys, wrong_limits_are_named_with_their_line)
{
    cr_assert_str_eq(
        faults("tenants:\n  a:\n    limits: {requests: 600}\n"),
        "f:3:24: requests: expected a whole number and /s, /min or /h, such "
        "as 600/min, or none, not \"600\"\n");
    cr_assert_str_eq(faults("tenants:\n  a:\n    limits: {concurrent: 0}\n"),
                     "f:3:26: concurrent: expected a number from 1 to "
                     "1000000000, not \"0\"\n");
    cr_assert_str_eq(faults("tenants:\n  a:\n    limits: {request: 6/s}\n"),
                     "f:3:14: unknown key \"request\": limits are of "
                     "requests, tokens, concurrent and models\n");
    cr_assert_str_eq(
        faults("tenants:\n  a:\n    limits: {models: {m: {models: {}}}}\n"),
        "f:3:27: unknown key \"models\": limits are of requests, tokens, "
        "concurrent\n");
    cr_assert_str_eq(
        faults("tenants:\n  a:\n    limits: {models: {'a*b': {tokens: 1/s}}}"
               "\n"),
        "f:3:23: expected a model's name of up to 127 bytes, with a * at its "
        "end for all that begin so, not \"a*b\"\n");
    cr_assert_str_eq(
        faults("tenants:\n  a:\n    limits: 600/min\n"),
        "f:3:13: limits: expected a mapping such as {requests: 600/min, "
        "tokens: 200000/min, concurrent: 16}, not text\n");
}

Test(node_config_keys, an_empty_list_of_models_allows_none)
{
    static const char yaml[] =
        "tenants: {a: {models: [], keys: [\"" KEY_A "\"]}}\n";
    struct keys *keys;

    cr_assert_eq(
        config_keys_read(SLICE(yaml), "f", false, NULL, &keys, &errors), 0);
    cr_assert(!keys_allows(keys, 1, SLICE("m")));
    keys_free(keys);
}

Test(node_config_keys, a_fault_is_told_with_its_place)
{
    cr_assert_str_eq(faults(""), "f: has no key: `kvasir key` makes one\n");
    cr_assert_str_eq(faults("tenants:\n  a:\n"),
                     "f: has no key: `kvasir key` makes one\n");
    cr_assert_str_eq(faults("[1]"), "f:1:1: expected tenants:, not a list\n");
    cr_assert_str_eq(faults("tenant: {}"),
                     "f:1:1: unknown key \"tenant\": expected tenants or "
                     "isolation_secret\n");
    cr_assert_str_eq(faults("tenants: [a]"),
                     "f:1:10: tenants: expected a mapping of tenants' names, "
                     "not a list\n");
    cr_assert_str_eq(faults("tenants:\n  a: x\n"),
                     "f:2:6: a tenant: expected a mapping of keys and models, "
                     "not text\n");
    cr_assert_str_eq(faults("tenants:\n  a b: {}\n"),
                     "f:2:3: expected a tenant's name of letters, digits and "
                     "._:@-[], not \"a b\"\n");
    cr_assert_str_eq(faults("tenants:\n  a: {}\n  a: {}\n"),
                     "f:3:3: this tenant appears twice\n");
    cr_assert_str_eq(
        faults("tenants: {a: {limit: 1}}"),
        "f:1:15: unknown key \"limit\": a tenant has keys, models, limits, "
        "weight, priority, isolation, namespace and residency\n");
    cr_assert_str_eq(faults("tenants:\n  a:\n    keys: k\n"),
                     "f:3:11: keys: expected a list, not text\n");
    cr_assert_str_eq(faults("tenants:\n  a:\n    keys: [[k]]\n"),
                     "f:3:12: keys: expected text, not a list\n");
    cr_assert_str_eq(faults("tenants:\n  a:\n    models: ['a*b']\n"),
                     "f:3:14: expected a model's name of up to 127 bytes, "
                     "with a * at its end for all that begin so, not "
                     "\"a*b\"\n");
    cr_assert_str_eq(
        faults("tenants: {a: {keys: [\"" KEY_A "\", \"" KEY_A "\"]}}"),
        "f:1:143: this key's id appears twice\n");
    cr_assert_str_eq(faults("tenants: {a: {keys: [x], keys: []}}"),
                     "f:1:22: expected the second line of `kvasir key`, "
                     "ID:sha256:SALT:HASH\n"
                     "f:1:26: key \"keys\" appears twice, first in line 1\n");
}

Test(node_config_keys, a_wrong_key_is_not_shown)
{
    const char *text = faults("tenants: {a: {keys: [kvk-secret]}}");

    cr_assert_null(strstr(text, "secret"));
    cr_assert_not_null(strstr(text, "f:1:22: "));
}

Test(node_config_keys, more_tenants_than_there_is_room_for_are_a_fault)
{
    struct buf yaml;

    buf_init(&yaml, CONFIG_FILE_BYTES_MAX);
    buf_add_text(&yaml, "tenants:\n");
    for (unsigned i = 0; i < KEYS_TENANTS_MAX; i++) {
        buf_printf(&yaml, "  t%u:\n", i);
    }
    buf_add(&yaml, "", 1);
    cr_assert_str_eq(faults(yaml.ptr), "f:257:3: at most 256 of these\n");
    buf_fini(&yaml);
}

Test(node_config_keys, a_file_that_is_missing_or_faulty_is_a_fault_of_keys_file)
{
    memcpy(config.keys.file, "/nonexistent/keys", 18);
    config_keys_check(&config, &errors);
    cr_assert_str_eq(told(), "/nonexistent/keys: cannot be read: no such file "
                             "or directory\n");
    errors.text.len = 0;
    memcpy(config.keys.file, "/dev/zero", 10); /* it would never end */
    config_keys_check(&config, &errors);
    cr_assert_str_eq(told(), "/dev/zero: is no regular file\n");
    config.keys.file[0] = '\0';
    errors.count = 0;
    config_keys_check(&config, &errors);
    cr_assert_eq(errors.count, 0);
}

#define SECRET           \
    "isolation_secret: " \
    "00000000000000000000000000000000000000000000000000000000000000aa\n"

Test(node_config_keys, tenants_are_isolated_by_the_files_secret)
{
    static const char yaml[] =
        "tenants:\n  a: {isolation: strict, keys: [\"" KEY_A "\"]}\n"
        "  b: {isolation: shared, keys: [\"" KEY_B "\"]}\n" SECRET;
    struct keys *keys;

    cr_assert_eq(
        config_keys_read(SLICE(yaml), "f", false, NULL, &keys, &errors), 0);
    uint32_t a = keys_find_tenant(keys, SLICE("a"));
    uint32_t b = keys_find_tenant(keys, SLICE("b"));
    cr_assert(keys_isolates(keys) && a != 0 && b != 0 && a != b);
    cr_assert(keys_isolation(keys, a)->strict);
    cr_assert_eq(strlen(keys_isolation(keys, a)->salt), 32);
    cr_assert(!keys_isolation(keys, b)->strict);
    cr_assert_eq(keys_find_tenant(keys, SLICE("c")), 0);
    keys_free(keys);
}

Test(node_config_keys, a_tenants_requests_may_have_islands)
{
    static const char yaml[] =
        "tenants:\n  a: {residency: [eu, us/east], keys: [\"" KEY_A "\"]}\n"
        "  b: {keys: [\"" KEY_B "\"]}\n";
    struct keys *keys;

    cr_assert_eq(
        config_keys_read(SLICE(yaml), "f", false, NULL, &keys, &errors), 0);
    uint32_t a = keys_find_tenant(keys, SLICE("a"));
    uint32_t b = keys_find_tenant(keys, SLICE("b"));
    cr_assert_str_eq(keys_residency(keys, a)->islands, "eu us/east");
    cr_assert_str_eq(keys_residency(keys, b)->islands, "");
    cr_assert_str_eq(keys_residency(keys, 0)->islands, "");
    keys_free(keys);
    cr_assert_str_eq(faults("tenants: {a: {residency: []}}"),
                     "f:1:26: residency: expected a list of one or more "
                     "islands, not a list\n");
    cr_assert(strstr(faults("tenants: {a: {residency: [/eu]}}"),
                     "expected an island such as eu") != NULL);
    cr_assert(strstr(faults("tenants: {a: {residency: eu}}"),
                     "residency: expected a list") != NULL);
}

Test(node_config_keys, tenants_of_one_namespace_share_a_salt)
{
    static const char text[] =
        "tenants:\n"
        "  a: {isolation: strict, namespace: x, keys: [\"" KEY_A "\"]}\n"
        "  b: {isolation: strict, namespace: x, keys: [\"" KEY_B "\"]}\n"
        "  c: {isolation: strict}\n"
        "  x: {isolation: strict}\n" SECRET;
    const char *salt[4];
    struct keys *keys;

    cr_assert_eq(
        config_keys_read(SLICE(text), "f", false, NULL, &keys, &errors), 0);
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t tenant = keys_find_tenant(keys, (struct slice){&"abcx"[i], 1});
        salt[i] = keys_isolation(keys, tenant)->salt;
    }
    cr_assert_str_eq(salt[0], salt[1]);
    cr_assert_str_neq(salt[0], salt[2]);
    cr_assert_str_eq(salt[0], salt[3], "its own name is the usual one");
    keys_free(keys);
    cr_assert(strstr(faults("tenants:\n  a: {namespace: x, keys: [\"" KEY_A
                            "\"]}\n" SECRET),
                     "wants isolation: strict") != NULL);
    cr_assert(strstr(faults("tenants:\n  a: {isolation: strict, namespace: "
                            "[x], keys: [\"" KEY_A "\"]}\n" SECRET),
                     "namespace: expected a name") != NULL);
}

Test(node_config_keys, isolation_is_strict_or_shared_and_wants_a_secret)
{
    cr_assert(strstr(faults("tenants:\n  a: {isolation: strict, keys: [\"" KEY_A
                            "\"]}\n"),
                     "isolation_secret") != NULL);
    cr_assert(strstr(faults("tenants:\n  a: {isolation: full, keys: [\"" KEY_A
                            "\"]}\n" SECRET),
                     "strict or shared") != NULL);
    cr_assert(strstr(faults("isolation_secret: secret\ntenants:\n  a: {keys: "
                            "[\"" KEY_A "\"]}\n"),
                     "64 small hex digits") != NULL);
}
