#include <criterion/criterion.h>
#include <stdio.h>

#include "index/base/rng.h"
#include "mesh/mesh.h"

#define MEMBERS 8U
#define STREAMS 4000U
#define S       UINT64_C(1000000)

static struct owner_member members[MEMBERS];

static void
begin(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "node-%u", i);
        members[i] = (struct owner_member){.name = owner_name(name)};
    }
}

TestSuite(mesh_owner, .init = begin);

static struct event_stream
stream(uint32_t i)
{
    return (struct event_stream){.worker = rng_mix(i / 2), .rank = i % 2};
}

Test(mesh_owner, order_of_members_does_not_matter)
{
    uint32_t a[3];
    uint32_t b[3];
    struct owner_member turned[MEMBERS];

    for (uint32_t i = 0; i < MEMBERS; i++) {
        turned[i] = members[MEMBERS - 1 - i];
    }
    for (uint32_t i = 0; i < 100; i++) {
        struct event_stream s = stream(i);
        cr_assert_eq(owner_rank(&s, members, MEMBERS, a, 3), 3);
        cr_assert_eq(owner_rank(&s, turned, MEMBERS, b, 3), 3);
        for (uint32_t k = 0; k < 3; k++) {
            cr_assert_eq(members[a[k]].name, turned[b[k]].name);
            cr_assert_eq(k > 0 && owner_weight(members[a[k]].name, &s) >
                                      owner_weight(members[a[k - 1]].name, &s),
                         false);
        }
    }
}

Test(mesh_owner, who_is_nearer_comes_first)
{
    uint32_t ranked[MEMBERS];
    uint32_t first = 0;

    members[3].near = 1;
    members[5].near = 2;
    members[6].near = 2;
    for (uint32_t i = 0; i < 100; i++) {
        struct event_stream s = stream(i);
        cr_assert_eq(owner_rank(&s, members, MEMBERS, ranked, MEMBERS),
                     MEMBERS);
        cr_assert_eq(ranked[0] + ranked[1], 5 + 6);
        cr_assert_eq(ranked[2], 3);
        first += ranked[0] == 5;
    }
    cr_assert(first > 20 && first < 80, "%u", first);
    members[6].unable = true;
    struct event_stream s = stream(0);
    cr_assert_eq(owner_rank(&s, members, MEMBERS, ranked, 2), 2);
    cr_assert(ranked[0] == 5 && ranked[1] == 3);
}

Test(mesh_owner, each_member_owns_about_the_same)
{
    uint32_t owned[MEMBERS] = {0};
    uint32_t ranked[2];

    for (uint32_t i = 0; i < STREAMS; i++) {
        struct event_stream s = stream(i);
        (void)owner_rank(&s, members, MEMBERS, ranked, 2);
        owned[ranked[0]]++;
        owned[ranked[1]]++;
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        cr_assert(owned[i] > 900 && owned[i] < 1100, "%u", owned[i]);
    }
}

Test(mesh_owner, a_death_moves_only_what_it_owned)
{
    for (uint32_t i = 0; i < STREAMS; i++) {
        struct event_stream s = stream(i);
        uint32_t with[2];
        uint32_t without[2];
        (void)owner_rank(&s, members, MEMBERS, with, 2);
        (void)owner_rank(&s, members, MEMBERS - 1, without, 2);
        if (with[0] != MEMBERS - 1) {
            cr_assert_eq(with[0], without[0]);
        } else {
            cr_assert_eq(with[1], without[0], "the second reads already");
        }
        if (with[0] != MEMBERS - 1 && with[1] != MEMBERS - 1) {
            cr_assert_eq(with[1], without[1]);
        }
    }
}

Test(mesh_owner, fewer_members_than_wanted_all_read)
{
    uint32_t ranked[4];
    struct event_stream s = stream(1);

    cr_assert_eq(owner_rank(&s, members, 2, ranked, 4), 2);
    cr_assert_eq(owner_rank(&s, members, 0, ranked, 4), 0);
    cr_assert_eq(owner_rank(&s, members, 2, ranked, 0), 0);
}

Test(mesh_owner, who_cannot_reach_the_worker_does_not_own_it)
{
    uint32_t ranked[3];
    struct event_stream s = stream(1);

    members[0].unable = true;
    cr_assert_eq(owner_rank(&s, members, 3, ranked, 3), 2);
    cr_assert(ranked[0] != 0 && ranked[1] != 0);
    members[1].unable = members[2].unable = true;
    cr_assert_eq(owner_rank(&s, members, 3, ranked, 3), 3, "nobody can");
}

static const struct owner_view first = {.rank = 0};
static const struct owner_view second = {.rank = 1};
static const struct owner_view beside_unwell = {.rank = 1,
                                                .first_unwell = true};
static const struct owner_view out = {.rank = OWNER_NO_RANK};

Test(mesh_owner, the_new_first_pushes_at_once)
{
    struct owner owner = {0};

    cr_assert_eq(owner_update(&owner, &second, 5000, 0), OWNER_READS);
    cr_assert_eq(owner_update(&owner, &first, 5000, 1), OWNER_PUSHES);
    cr_assert_eq(owner_deadline(&owner), UINT64_MAX);
}

Test(mesh_owner, the_old_first_pushes_until_it_heard_the_new_one)
{
    struct owner owner = {0};

    (void)owner_update(&owner, &first, 5000, 0);
    cr_assert_eq(owner_update(&owner, &second, 5000, S), OWNER_PUSHES);
    cr_assert_eq(owner_update(&owner, &second, 5000, 2 * S), OWNER_PUSHES);
    cr_assert_eq(owner_heard_first(&owner, &second), OWNER_READS);
    cr_assert_eq(owner_deadline(&owner), UINT64_MAX);
}

Test(mesh_owner, handing_over_ends_in_time_when_the_stream_is_silent)
{
    struct owner owner = {0};

    (void)owner_update(&owner, &first, 5000, 0);
    (void)owner_update(&owner, &out, 5000, S);
    cr_assert_eq(owner_deadline(&owner), 6 * S);
    cr_assert_eq(owner_update(&owner, &out, 5000, 6 * S - 1), OWNER_PUSHES);
    cr_assert_eq(owner_update(&owner, &out, 5000, 6 * S), OWNER_NONE);
}

Test(mesh_owner, a_reader_reads_on_until_it_is_replaced)
{
    struct owner owner = {0};

    (void)owner_update(&owner, &second, 5000, 0);
    cr_assert_eq(owner_update(&owner, &out, 5000, S), OWNER_READS);
    cr_assert_eq(owner_heard_first(&owner, &out), OWNER_NONE);
}

Test(mesh_owner, the_second_pushes_while_the_first_is_unwell)
{
    struct owner owner = {0};

    (void)owner_update(&owner, &second, 5000, 0);
    cr_assert_eq(owner_update(&owner, &beside_unwell, 5000, 1), OWNER_PUSHES);
    cr_assert_eq(owner_update(&owner, &second, 5000, S), OWNER_PUSHES);
    cr_assert_eq(owner_heard_first(&owner, &second), OWNER_READS);
}

Test(mesh_owner, nothing_is_handed_to_one_that_is_unwell)
{
    struct owner owner = {0};
    struct owner_view unwell = {.rank = 2, .first_unwell = true};

    (void)owner_update(&owner, &first, 5000, 0);
    for (uint64_t s = 1; s < 60; s++) {
        cr_assert_eq(owner_update(&owner, &unwell, 5000, s * S), OWNER_PUSHES);
    }
}
