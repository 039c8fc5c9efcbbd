#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/keys/keys_check.h"

static struct keys *keys;
static struct keys_checker *checker;
static uint32_t owner;
static char key[KEYS_KEY_ROOM];
static char line[KEYS_LINE_ROOM];

static void
setup(void)
{
    uint8_t random[KEYS_RANDOM_BYTES] = {0x0a, 0xbc};

    for (uint8_t i = 0; i < KEYS_SECRET_BYTES; i++) {
        random[KEYS_ID_BYTES + KEYS_SALT_BYTES + i] = i;
    }
    cr_assert_eq(keys_new(&keys, NULL), 0);
    cr_assert_eq(keys_checker_new(&checker), 0);
    cr_assert_eq(keys_make(checker, random, key, line), 0);
    cr_assert_eq(keys_add_tenant(keys, SLICE("a"), &owner), 0);
    cr_assert_eq(keys_add(keys, owner, slice_of(line)), 0);
}

static void
teardown(void)
{
    keys_checker_free(checker);
    keys_free(keys);
}

TestSuite(node_keys_check, .init = setup, .fini = teardown);

static int
check(const char *text)
{
    uint32_t tenant = 77;
    int outcome = keys_check(checker, keys, slice_of(text), &tenant);

    cr_assert_eq(tenant, outcome == 0 ? owner : 77);
    return outcome;
}

/* The hash is Python's hashlib.sha256(bytes(16) + bytes(range(32))). */
Test(node_keys_check, a_file_keeps_the_salted_hash_of_the_secret_alone)
{
    cr_assert_str_eq(key, "kvk-0abc00000000-000102030405060708090a0b0c0d0e0f"
                          "101112131415161718191a1b1c1d1e1f");
    cr_assert_str_eq(
        line,
        "0abc00000000:sha256:"
        "00000000000000000000000000000000:"
        "7ea1657bbcda00da725e17e85479b4ded84197a5789c0e8c0809c1b1cf47d790");
}

Test(node_keys_check, a_key_that_was_made_is_its_tenants)
{
    cr_assert_eq(check(key), 0);
    cr_assert_eq(check(key), 0, "and again");
}

Test(node_keys_check, a_key_with_one_wrong_character_is_nobodys)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < len; i++) {
        char right = key[i];
        key[i] = right == '0' ? '1' : '0';
        cr_assert_eq(check(key), KEYS_E_UNKNOWN, "byte %zu", i);
        key[i] = right;
    }
    cr_assert_eq(check(key), 0);
}

Test(node_keys_check, what_is_no_key_is_nobodys)
{
    char text[KEYS_KEY_ROOM + 8];

    cr_assert_eq(check(""), KEYS_E_UNKNOWN);
    cr_assert_eq(check("kvk-"), KEYS_E_UNKNOWN);
    cr_assert_eq(check("sk-proj-1234567890"), KEYS_E_UNKNOWN);
    cr_assert_eq(check(line), KEYS_E_UNKNOWN);
    (void)snprintf(text, sizeof text, "%s0", key);
    cr_assert_eq(check(text), KEYS_E_UNKNOWN);
    (void)snprintf(text, sizeof text, "%.*s", (int)strlen(key) - 1, key);
    cr_assert_eq(check(text), KEYS_E_UNKNOWN);
}

Test(node_keys_check, the_salt_is_part_of_the_hash)
{
    uint8_t random[KEYS_RANDOM_BYTES] = {1};
    char salted[KEYS_LINE_ROOM];
    char unused[KEYS_KEY_ROOM];

    random[KEYS_ID_BYTES] = 1;
    for (uint8_t i = 0; i < KEYS_SECRET_BYTES; i++) {
        random[KEYS_ID_BYTES + KEYS_SALT_BYTES + i] = i;
    }
    cr_assert_eq(keys_make(checker, random, unused, salted), 0);
    cr_assert_str_neq(strrchr(salted, ':'), strrchr(line, ':'));
}
