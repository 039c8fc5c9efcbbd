#include <criterion/criterion.h>
#include <stdio.h>

#include "node/keys/keys.h"

static struct keys *keys;

static void
setup(void)
{
    cr_assert_eq(keys_new(&keys, NULL), 0);
}

static void
teardown(void)
{
    keys_free(keys);
}

TestSuite(node_keys, .init = setup, .fini = teardown);

static uint32_t
tenant(const char *name)
{
    uint32_t slot;

    cr_assert_eq(keys_add_tenant(keys, slice_of(name), &slot), 0);
    return slot;
}

/* What a file keeps of the key with this id. */
static int
add(uint32_t slot, uint64_t id)
{
    char line[128];

    (void)snprintf(line, sizeof line, "%012llx:sha256:%032d:%064d",
                   (unsigned long long)id, 1, 2);
    return keys_add(keys, slot, slice_of(line));
}

static bool
allows(uint32_t slot, const char *model)
{
    return keys_allows(keys, slot, slice_of(model));
}

Test(node_keys, a_key_is_found_by_its_id_in_whatever_order_they_came)
{
    uint32_t slot[] = {tenant("a"), tenant("b"), tenant("c")};

    for (uint64_t i = 0; i < 300; i++) {
        cr_assert_eq(add(slot[i % 3], (i * 7919) % 65537 + 1), 0);
    }
    for (uint64_t i = 0; i < 300; i++) {
        const struct keys_entry *entry =
            keys_find(keys, (i * 7919) % 65537 + 1);
        cr_assert_not_null(entry);
        cr_assert_eq(entry->tenant, slot[i % 3]);
        cr_assert_eq(entry->salt[15], 0x01);
        cr_assert_eq(entry->hash[31], 0x02);
    }
    cr_assert_null(keys_find(keys, 0));
    cr_assert_null(keys_find(keys, UINT64_MAX));
    cr_assert_eq(keys_count(keys), 300);
    cr_assert_eq(keys_tenants_count(keys), 3);
}

Test(node_keys, an_id_belongs_to_one_key)
{
    uint32_t a = tenant("a");
    uint32_t b = tenant("b");

    cr_assert_eq(add(a, 5), 0);
    cr_assert_eq(add(a, 5), KEYS_E_TWICE);
    cr_assert_eq(add(b, 5), KEYS_E_TWICE);
    cr_assert_eq(keys_find(keys, 5)->tenant, a);
}

Test(node_keys, keys_have_a_bound)
{
    uint32_t a = tenant("a");

    for (uint64_t i = 0; i < KEYS_MAX; i++) {
        cr_assert_eq(add(a, i), 0);
    }
    cr_assert_eq(add(a, KEYS_MAX), KEYS_E_FULL);
    cr_assert_eq(keys_count(keys), KEYS_MAX);
}

Test(node_keys, a_line_that_is_not_of_a_file_is_refused)
{
    static const char *const lines[] = {
        "",
        "0123456789ab",
        "0123456789ab:sha256:",
        "0123456789AB:sha256:00000000000000000000000000000001:"
        "0000000000000000000000000000000000000000000000000000000000000002",
        "0123456789ab:sha512:00000000000000000000000000000001:"
        "0000000000000000000000000000000000000000000000000000000000000002",
        "0123456789ab:sha256:0000000000000000000000000000001:"
        "00000000000000000000000000000000000000000000000000000000000000020",
        "0123456789ab:sha256:00000000000000000000000000000001:"
        "00000000000000000000000000000000000000000000000000000000000000020",
        "0123456789ab:sha256:00000000000000000000000000000001:"
        "000000000000000000000000000000000000000000000000000000000000000g",
    };
    uint32_t a = tenant("a");

    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        cr_assert_eq(keys_add(keys, a, slice_of(lines[i])), KEYS_E_BAD, "%s",
                     lines[i]);
    }
    cr_assert_eq(keys_count(keys), 0);
}

Test(node_keys, a_tenant_keeps_its_slot_in_later_files)
{
    uint32_t a = tenant("a");
    uint32_t b = tenant("b");
    struct keys *before = keys;

    cr_assert_eq(a, 1);
    cr_assert_eq(add(b, 5), 0);
    cr_assert_eq(keys_new(&keys, before), 0);
    keys_free(before);
    cr_assert_eq(tenant("c"), 3);
    cr_assert_eq(tenant("b"), b);
    cr_assert(!keys_has_tenant(keys, a));
    cr_assert(!allows(a, "m"));
    cr_assert_str_eq(keys_tenant_name(keys, a), "a");
    cr_assert_null(keys_find(keys, 5));
    cr_assert_eq(keys_tenants_count(keys), 2);
}

Test(node_keys, tenants_have_a_bound_that_counts_those_before)
{
    char name[16];
    uint32_t slot;

    for (uint32_t i = 1; i < KEYS_TENANTS_MAX; i++) {
        (void)snprintf(name, sizeof name, "t%u", i);
        cr_assert_eq(tenant(name), i);
    }
    cr_assert_eq(keys_add_tenant(keys, SLICE("one"), &slot), KEYS_E_FULL);
    struct keys *before = keys;
    cr_assert_eq(keys_new(&keys, before), 0);
    keys_free(before);
    cr_assert_eq(keys_add_tenant(keys, SLICE("one"), &slot), KEYS_E_FULL);
    cr_assert_eq(tenant("t9"), 9);
    cr_assert_eq(keys_add_tenant(keys, SLICE("t9"), &slot), KEYS_E_TWICE);
}

Test(node_keys, the_default_tenant_may_have_keys_too)
{
    cr_assert_str_eq(keys_tenant_name(keys, 0), "default");
    cr_assert(!keys_has_tenant(keys, 0));
    cr_assert_eq(tenant("default"), 0);
    cr_assert(allows(0, "m"));
}

Test(node_keys, a_tenant_with_models_may_use_these_alone)
{
    uint32_t all = tenant("all");
    uint32_t some = tenant("some");
    uint32_t none = tenant("none");

    keys_limit_models(keys, some);
    keys_limit_models(keys, none);
    cr_assert_eq(keys_add_model(keys, some, SLICE("qwen3-8b")), 0);
    cr_assert_eq(keys_add_model(keys, some, SLICE("bge-*")), 0);
    cr_assert(allows(all, "qwen3-8b") && allows(all, ""));
    cr_assert(allows(some, "qwen3-8b"));
    cr_assert(allows(some, "bge-") && allows(some, "bge-m3"));
    cr_assert(!allows(some, "qwen3-8") && !allows(some, "qwen3-8b-x"));
    cr_assert(!allows(some, "bge") && !allows(some, "Bge-m3"));
    cr_assert(!allows(some, "") && !allows(none, "") && !allows(none, "m"));
    cr_assert_eq(keys_add_model(keys, none, SLICE("*")), 0);
    cr_assert(allows(none, "m") && !allows(none, ""));
}

Test(node_keys, a_model_that_cannot_be_meant_is_refused)
{
    char longest[KEYS_MODEL_MAX + 1];
    uint32_t a = tenant("a");

    memset(longest, 'm', sizeof longest);
    keys_limit_models(keys, a);
    cr_assert_eq(keys_add_model(keys, a, SLICE("")), KEYS_E_BAD);
    cr_assert_eq(keys_add_model(keys, a, SLICE("a*b")), KEYS_E_BAD);
    cr_assert_eq(keys_add_model(keys, a, SLICE("**")), KEYS_E_BAD);
    cr_assert_eq(
        keys_add_model(keys, a, (struct slice){longest, KEYS_MODEL_MAX}),
        KEYS_E_BAD);
    cr_assert_eq(
        keys_add_model(keys, a, (struct slice){longest, KEYS_MODEL_MAX - 1}),
        0);
    for (uint32_t i = 1; i < KEYS_MODELS_MAX; i++) {
        cr_assert_eq(keys_add_model(keys, a, SLICE("m")), 0);
    }
    cr_assert_eq(keys_add_model(keys, a, SLICE("m")), KEYS_E_FULL);
}
