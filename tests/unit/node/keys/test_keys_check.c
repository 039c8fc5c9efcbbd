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

static void
salt_of(const char *secret_hex, const char *tenant, const char *given,
        char out[KEYS_CACHE_SALT_ROOM])
{
    uint8_t secret[KEYS_SECRET_BYTES];
    struct keys_isolation isolation;

    cr_assert(keys_read_secret(slice_of(secret_hex), secret));
    cr_assert_eq(keys_isolate(secret, slice_of(tenant), &isolation), 0);
    keys_cache_salt(&isolation, slice_of(given), out);
}

#define SECRET_A \
    "00000000000000000000000000000000000000000000000000000000000000aa"
#define SECRET_B \
    "00000000000000000000000000000000000000000000000000000000000000ab"

Test(node_keys_check, cache_salts_are_the_same_everywhere_and_nobody_elses)
{
    char salt[KEYS_CACHE_SALT_ROOM];
    char other[KEYS_CACHE_SALT_ROOM];

    salt_of(SECRET_A, "shop", "", salt);
    cr_assert_str_eq(salt, "606b50780472a27aee15331d32f72e51");
    salt_of(SECRET_B, "shop", "", other);
    cr_assert_str_neq(salt, other, "of another secret");
    salt_of(SECRET_A, "lab", "", other);
    cr_assert_str_neq(salt, other, "of another tenant");
    salt_of(SECRET_A, "shop", "mine", other);
    cr_assert_str_neq(salt, other, "of a client's own");
    salt_of(SECRET_A, "lab", "mine", salt);
    cr_assert_str_neq(salt, other, "of the same salt at another tenant");
}

Test(node_keys_check, a_secret_is_64_small_hex_digits)
{
    uint8_t secret[KEYS_SECRET_BYTES];

    cr_assert(!keys_read_secret(SLICE(""), secret));
    cr_assert(!keys_read_secret(SLICE(SECRET_A "0"), secret));
    cr_assert(!keys_read_secret(SLICE("x" SECRET_A), secret));
}
