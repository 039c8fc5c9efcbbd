#include "index/key.h"

#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

/* Pinned once, so that nodes of different builds agree about keys, and a
 * snapshot stays readable. */
Test(index_key, roots_and_chains_are_pinned)
{
    static const unsigned char text[] = "0123456789abcdefghijklmnopqrstuv";
    uint64_t keys[4];
    uint64_t root = key_root(SLICE("llama-3.1-8b"), SLICE(""), SLICE(""));

    cr_assert_eq(root, UINT64_C(0xFBE3C760121EA2F2), "%#lx", root);
    cr_assert_eq(key_chain(root, text, 4, 8, keys), keys[3]);
    cr_assert_eq(keys[0], UINT64_C(0xBD4599D1E3732EF0), "%#lx", keys[0]);
    cr_assert_eq(keys[3], UINT64_C(0x0FD980FF90E41E14), "%#lx", keys[3]);
    cr_assert_eq(key_digest(SLICE("media")), UINT64_C(0xF99DADB90D9EBE0C),
                 "%#lx", key_digest(SLICE("media")));
}

Test(index_key, chain_is_next_repeated)
{
    static const char text[] = "the quick brown fox jumps over it";
    uint64_t keys[4];
    uint64_t key = 42;

    (void)key_chain(42, text, 4, 8, keys);
    for (int i = 0; i < 4; i++) {
        key = key_next(key, text + i * 8, 8);
        cr_assert_eq(keys[i], key);
    }
    cr_assert_eq(key_chain(42, text, 0, 8, keys), 42);
}

Test(index_key, namespaces_never_run_together)
{
    uint64_t root[] = {
        key_root(SLICE("a"), SLICE(""), SLICE("")),
        key_root(SLICE(""), SLICE("a"), SLICE("")),
        key_root(SLICE(""), SLICE(""), SLICE("a")),
        key_root(SLICE("ab"), SLICE("c"), SLICE("")),
        key_root(SLICE("a"), SLICE("bc"), SLICE("")),
        key_root(SLICE("a"), SLICE("b"), SLICE("c")),
        key_root(SLICE(""), SLICE(""), SLICE("")),
    };
    size_t count = sizeof(root) / sizeof(root[0]);

    for (size_t i = 0; i < count; i++) {
        for (size_t k = i + 1; k < count; k++) {
            cr_assert_neq(root[i], root[k], "%zu %zu", i, k);
            cr_assert_neq(key_next(root[i], "block", 5),
                          key_next(root[k], "block", 5));
        }
    }
}

Test(index_key, a_key_names_all_before_it)
{
    char text[64];
    uint64_t before[8];
    uint64_t after[8];

    memset(text, 'x', sizeof(text));
    (void)key_chain(7, text, 8, 8, before);
    text[17] = 'y'; /* in block 2 */
    (void)key_chain(7, text, 8, 8, after);
    for (int i = 0; i < 8; i++) {
        cr_assert_eq(before[i] == after[i], i < 2, "block %d", i);
    }
}

/* Of xxHash's own vectors. */
Test(index_key, a_wide_digest_is_that_of_xxh3)
{
    struct key_wide digest = key_wide_digest(SLICE(""), 0);

    cr_assert_eq(digest.high, UINT64_C(0x99aa06d3014798d8));
    cr_assert_eq(digest.low, UINT64_C(0x6001c324468d497f));
    cr_assert_neq(key_wide_digest(SLICE(""), 1).low, digest.low);
    cr_assert_neq(key_wide_digest(SLICE("a"), 0).high, digest.high);
}
