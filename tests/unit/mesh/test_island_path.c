#include <criterion/criterion.h>

#include "mesh/mesh.h"

static struct island_path
of(const char *label)
{
    return island_path_of(slice_of(label));
}

static uint32_t
shared(const char *a, const char *b)
{
    struct island_path x = of(a);
    struct island_path y = of(b);

    cr_assert_eq(island_path_shared(&x, &y), island_path_shared(&y, &x));
    return island_path_shared(&x, &y);
}

static uint64_t
apart(const char *here, const char *there)
{
    struct island_path x = of(here);
    struct island_path y = of(there);

    return island_path_apart(&x, &y);
}

Test(mesh_island_path, shared_parts_are_whole_ones)
{
    cr_assert_eq(shared("eu/fra", "eu/fra"), 2);
    cr_assert_eq(shared("eu/fra", "eu/par"), 1);
    cr_assert_eq(shared("eu", "eu/par"), 1);
    cr_assert_eq(shared("eu", "europe"), 0);
    cr_assert_eq(shared("eu/fra", "us/fra"), 0);
    cr_assert_eq(shared("", "eu"), 0);
    cr_assert_eq(shared("", ""), 0);
    cr_assert_eq(shared("a/b/c", "a/b/c"), 3);
    cr_assert_eq(shared("a/b/c/d", "a/b/c/e"), 2, "the rest is one part");
}

Test(mesh_island_path, what_is_apart_has_the_number_of_its_widest_part)
{
    cr_assert_eq(apart("eu/fra", "eu/fra"), 0);
    cr_assert_eq(apart("eu/fra/a", "eu/fra/a"), 0);
    cr_assert_neq(apart("eu/fra", "us"), 0);
    cr_assert_eq(apart("eu/fra", "us/east"), apart("eu/fra", "us/west"));
    cr_assert_eq(apart("eu/fra", "us/east"), apart("eu/par", "us"));
    cr_assert_neq(apart("us/east", "eu/fra"), apart("us/east", "asia/tyo"));
    cr_assert_neq(apart("us/east", "us/west"), 0);
    cr_assert_neq(apart("us/east", "us/west"), apart("eu", "us/west"));
}

Test(mesh_island_path, who_tells_less_is_together_with_who_tells_more)
{
    cr_assert_eq(apart("eu", "eu/fra"), 0);
    cr_assert_eq(apart("eu/fra", "eu"), 0);
    cr_assert_eq(apart("", "eu"), 0);
    cr_assert_eq(apart("eu", ""), 0);
    cr_assert_eq(apart("", ""), 0);
}
