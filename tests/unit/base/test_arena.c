#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "index/base/arena.h"

static struct arena arena;

static void
close_arena(void)
{
    arena_fini(&arena);
}

TestSuite(base_arena, .fini = close_arena);

Test(base_arena, gives_aligned_pieces_that_do_not_touch)
{
    char *pieces[200];

    arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < 200; i++) {
        pieces[i] = arena_take(&arena, i * 7);
        cr_assert_not_null(pieces[i]);
        cr_assert_eq((uintptr_t)pieces[i] % ARENA_ALIGN, 0);
        memset(pieces[i], (int)i, i * 7);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t at = 0; at < i * 7; at++) {
            cr_assert_eq((unsigned char)pieces[i][at], i);
        }
    }
}

Test(base_arena, is_full_at_its_bound_and_keeps_what_it_gave)
{
    char *first = NULL;
    size_t count = 0;

    arena_init(&arena, 100000);
    first = arena_take(&arena, 16);
    memcpy(first, "kept", 5);
    while (arena_take(&arena, 1000) != NULL) {
        count++;
    }
    cr_assert_geq(count, 90);
    cr_assert_leq(count, 100);
    cr_assert_leq(arena.used_bytes, 100000);
    cr_assert_str_eq(first, "kept");
    cr_assert_null(arena_take(&arena, SIZE_MAX));
    cr_assert_null(arena_take(&arena, SIZE_MAX - 3));
}

Test(base_arena, gives_a_large_piece_a_chunk_of_its_own)
{
    arena_init(&arena, 1 << 22);
    cr_assert_not_null(arena_take(&arena, 10));
    cr_assert_not_null(arena_take(&arena, 3 << 20));
    cr_assert_lt(arena.used_bytes, (3 << 20) + 10000);
    cr_assert_not_null(arena_take(&arena, 0));
}
