/* Joining, finding each other, leaving, dying, bounds. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "member_net.h"

static struct net net;

static void
begin(void)
{
    net_init(&net, 1);
}

static void
end(void)
{
    net_fini(&net);
}

TestSuite(mesh_member, .init = begin, .fini = end);

Test(mesh_member, alone_is_a_mesh_of_one)
{
    net_start(&net, 0, NULL, NET_HOSTS);
    net_run(&net, 60 * NET_S);
    cr_assert_eq(member_count_alive(net.host[0].table), 1);
    cr_assert_eq(member_deadline(net.host[0].table), UINT64_MAX);
    cr_assert_eq(net.messages, 0);
    cr_assert_eq(member_health(net.host[0].table), 0);
}

Test(mesh_member, one_hint_is_enough_to_know_everyone)
{
    net_mesh(&net, 5, 0);
    cr_assert_leq(net_converge(&net, NET_S), 100 * NET_MS);
    cr_assert_eq(net_count(&net, 4, MEMBER_JOINED, NULL), 4);
}

Test(mesh_member, lists_itself_and_others_in_order_of_names)
{
    struct member_info info;

    net_start(&net, 0, "m", NET_HOSTS);
    net_start(&net, 1, "z", 0);
    net_start(&net, 2, "a", 0);
    net_run(&net, NET_S);
    cr_assert(member_get(net.host[0].table, 0, &info));
    cr_assert_str_eq(info.update.name, "a");
    cr_assert_neq(info.heard_us, 0);
    cr_assert(member_get(net.host[0].table, 1, &info));
    cr_assert_str_eq(info.update.name, "m");
    cr_assert(info.self);
    cr_assert(member_get(net.host[0].table, 2, &info));
    cr_assert_not(member_get(net.host[0].table, 3, &info));
}

Test(mesh_member, a_hint_is_asked_until_someone_is_there)
{
    net_start(&net, 0, NULL, 1);
    net_run(&net, 60 * NET_S);
    cr_assert_eq(member_count_alive(net.host[0].table), 1);
    uint64_t asked = net.messages;
    cr_assert(asked >= 12 && asked <= 20, "%lu", (unsigned long)asked);

    net_start(&net, 1, NULL, NET_HOSTS);
    cr_assert_leq(net_converge(&net, 10 * NET_S), 6 * NET_S);
    net_run(&net, 10 * NET_S);
    uint32_t syncs = net.kinds[MEMBER_SYNC];
    net_run(&net, 10 * NET_S);
    cr_assert_leq(net.kinds[MEMBER_SYNC] - syncs, 2, "the hint is spent");
}

Test(mesh_member, a_hint_that_leads_to_ourselves_is_dropped)
{
    struct member_self self = {
        .id = {{7, 7}}, .name = "me", .address = "10.0.0.60:7946"};
    struct member_table *table;

    /* The address it calls its own is not the one it was reached at. */
    cr_assert_eq(member_new(&table, &net.config, &self, net.now_us, 1), 0);
    net.host[9].table = table;
    member_hint(table, net.host[9].address, net.now_us);
    struct member_out out;
    cr_assert(member_next_out(table, &out));
    cr_assert_eq(out.message->kind, MEMBER_SYNC);
    struct member_message message = *out.message;
    net_deliver(&net, 9, &message);
    cr_assert_eq(member_deadline(table), UINT64_MAX);
    cr_assert_eq(member_count_alive(table), 1);
}

/* An older version passes news on without the island. */
Test(mesh_member, an_island_that_is_told_late_is_known_from_then_on)
{
    struct member_info info;
    struct member_message message = {
        .kind = MEMBER_PING,
        .number = 1,
        .from = {.id = {{77, 7}}, .name = "far", .address = "10.9.0.1:7946"},
    };

    net_mesh(&net, 2, 5 * NET_S);
    net_deliver(&net, 0, &message);
    cr_assert(net_sees(&net, 0, "far", &info));
    cr_assert_str_eq(info.update.island, "");
    cr_assert_eq(net_count(&net, 0, MEMBER_PLACED, NULL), 0);
    (void)snprintf(message.from.island, MEMBER_ISLAND_MAX, "eu/fra");
    net_deliver(&net, 0, &message);
    cr_assert(net_sees(&net, 0, "far", &info));
    cr_assert_str_eq(info.update.island, "eu/fra");
    cr_assert_eq(net_count(&net, 0, MEMBER_PLACED, "far"), 1);
    message.from.island[0] = '\0';
    net_deliver(&net, 0, &message);
    cr_assert(net_sees(&net, 0, "far", &info));
    cr_assert_str_eq(info.update.island, "eu/fra");
}

Test(mesh_member, a_death_is_known_everywhere_within_two_seconds)
{
    net_mesh(&net, 5, 5 * NET_S);
    struct member_id id = net.host[3].id;
    net_crash(&net, 3);
    cr_assert_leq(net_excluded(&net, id, 5 * NET_S), 2 * NET_S);
    net_run(&net, 2 * NET_S);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, "node-3"), 4);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 4);
}

Test(mesh_member, a_broken_link_is_probed_at_once)
{
    net_mesh(&net, 3, 5 * NET_S);
    struct member_id id = net.host[2].id;
    net_crash(&net, 2);
    net_links(&net, 2, false);
    cr_assert_leq(net_excluded(&net, id, 5 * NET_S), 1200 * NET_MS);
}

Test(mesh_member, a_broken_link_of_a_living_member_is_no_suspicion)
{
    net_mesh(&net, 3, 5 * NET_S);
    net_links(&net, 2, false);
    net_run(&net, 5 * NET_S);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_SUSPECTED, NULL), 0);
}

Test(mesh_member, two_members_notice_each_others_death)
{
    net_mesh(&net, 2, 5 * NET_S);
    struct member_id id = net.host[1].id;
    net_crash(&net, 1);
    cr_assert_leq(net_excluded(&net, id, 5 * NET_S), 3 * NET_S);
}

Test(mesh_member, a_goodbye_is_not_a_death)
{
    net_mesh(&net, 4, 5 * NET_S);
    struct member_id id = net.host[1].id;
    net_leave(&net, 1);
    cr_assert_leq(net_excluded(&net, id, NET_S), 100 * NET_MS);
    net_run(&net, 30 * NET_S);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DEPARTED, "node-1"), 3);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 0);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_SUSPECTED, NULL), 0);
    cr_assert_eq(net_state(&net, 0, "node-1"), MEMBER_LEFT);
}

Test(mesh_member, who_left_is_silent)
{
    struct member_out out;

    net_mesh(&net, 2, NET_S);
    member_leave(net.host[1].table, net.now_us);
    while (member_next_out(net.host[1].table, &out)) {
        cr_assert_eq(out.kind, MEMBER_OUT_SEND);
        cr_assert_eq(out.message->from.state, MEMBER_LEFT);
    }
    cr_assert_eq(member_deadline(net.host[1].table), UINT64_MAX);
}

Test(mesh_member, a_goodbye_that_one_missed_reaches_it_through_others)
{
    net_mesh(&net, 4, 5 * NET_S);
    struct member_id id = net.host[1].id;
    net.severed[1][3] = true;
    net_leave(&net, 1);
    cr_assert_leq(net_excluded(&net, id, 3 * NET_S), NET_S);
    cr_assert_eq(net_state(&net, 3, "node-1"), MEMBER_LEFT);
}

Test(mesh_member, the_dead_are_kept_and_forgotten_in_time)
{
    net.config.forget_ms = 60000;
    net_mesh(&net, 3, 5 * NET_S);
    net_crash(&net, 2);
    net_run(&net, 50 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_DEAD);
    cr_assert_eq(net_state(&net, 1, "node-2"), MEMBER_DEAD);
    /* A newcomer learns of it, and does not keep it longer. */
    net_start(&net, 5, NULL, 0);
    net_run(&net, NET_S);
    cr_assert_eq(net_state(&net, 5, "node-2"), MEMBER_DEAD);
    net_run(&net, 15 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-2"), -1);
    cr_assert_eq(net_state(&net, 1, "node-2"), -1);
    cr_assert_eq(net_state(&net, 5, "node-2"), -1);
    net_run(&net, 60 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-2"), -1);
}

Test(mesh_member, a_partition_longer_than_memory_heals)
{
    net.config.forget_ms = 30000;
    net_mesh(&net, 4, 5 * NET_S);
    net_split(&net, 0x3, 0xC);
    net_run(&net, 300 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-2"), -1);
    cr_assert_eq(member_count_alive(net.host[0].table), 2);
    net_heal(&net);
    cr_assert_leq(net_converge(&net, 20 * NET_S), 7 * NET_S);
}

Test(mesh_member, everyone_gone_and_back_meets_again)
{
    net_mesh(&net, 3, 5 * NET_S);
    for (uint32_t i = 0; i < 3; i++) {
        net_crash(&net, i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        net_start(&net, i, NULL, (i + 1) % 3);
        net_run(&net, NET_S);
    }
    cr_assert_leq(net_converge(&net, 10 * NET_S), 2 * NET_S);
}

Test(mesh_member, one_more_than_sixty_four_is_an_answer)
{
    net_mesh(&net, MEMBERS_MAX, 10 * NET_S);
    cr_assert_eq(member_count_alive(net.host[0].table), MEMBERS_MAX);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_FULL, NULL), 0);

    net_start(&net, 64, NULL, 0);
    net_run(&net, 3 * NET_S);
    cr_assert_gt(net_count(&net, 0, MEMBER_FULL, "node-64"), 0);
    cr_assert_eq(member_count_alive(net.host[0].table), MEMBERS_MAX);
    cr_assert_eq(net_state(&net, 0, "node-64"), -1);

    /* A dead one gives way. */
    net_crash(&net, 7);
    net_run(&net, 15 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-64"), MEMBER_ALIVE);
    cr_assert_eq(net_state(&net, 0, "node-7"), -1);
}

/* Bytes that one of so many idle members sends in a second. */
static uint64_t
idle_bytes(uint32_t members)
{
    net_fini(&net);
    net_init(&net, 1);
    net_mesh(&net, members, 10 * NET_S);
    uint64_t bytes = net.bytes;
    net_run(&net, 60 * NET_S);
    return (net.bytes - bytes) / 60 / members;
}

Test(mesh_member, idle_members_say_little)
{
    uint64_t three = idle_bytes(3);
    uint64_t many = idle_bytes(32);

    cr_assert_lt(three, 2500, "%lu bytes a second", (unsigned long)three);
    cr_assert_lt(many, 2500, "%lu bytes a second", (unsigned long)many);
}

Test(mesh_member, news_are_told_a_bounded_number_of_times)
{
    net_mesh(&net, 5, 60 * NET_S);
    uint32_t pings = net.kinds[MEMBER_PING];
    uint64_t bytes = net.bytes;
    net_run(&net, 10 * NET_S);
    /* A ping and its answer with nothing else to say. */
    uint64_t each = (net.bytes - bytes) / (net.kinds[MEMBER_PING] - pings);
    cr_assert_lt(each, 2 * 160, "%lu bytes", (unsigned long)each);
}

Test(mesh_member, many_pieces_of_news_all_get_their_turn)
{
    struct member_message m = {.kind = MEMBER_NEWS, .updates_count = 40};
    struct member_info info;

    net_mesh(&net, 3, 5 * NET_S);
    cr_assert(net_sees(&net, 2, "node-2", &info));
    m.from = info.update;
    for (uint32_t i = 0; i < m.updates_count; i++) {
        struct member_update *u = &m.updates[i];
        u->id = (struct member_id){{100 + i, 1}};
        (void)snprintf(u->name, sizeof u->name, "rumour-%u", i);
        (void)snprintf(u->address, sizeof u->address, "10.0.1.%u:7946", i);
    }
    net_deliver(&net, 0, &m);
    /* Nobody is there: what goes round in the end are forty deaths. */
    net_run(&net, 10 * NET_S);
    for (uint32_t i = 0; i < m.updates_count; i++) {
        cr_assert_eq(net_state(&net, 1, m.updates[i].name), MEMBER_DEAD, "%u",
                     i);
    }
    cr_assert_eq(member_count_alive(net.host[1].table), 3);
}

Test(mesh_member, same_seed_same_run)
{
    uint64_t messages[2];

    for (int i = 0; i < 2; i++) {
        net_fini(&net);
        net_init(&net, 99);
        net.loss_permille = 100;
        net.jitter_us = 50 * NET_MS;
        net_mesh(&net, 5, 60 * NET_S);
        messages[i] = net.bytes;
    }
    cr_assert_eq(messages[0], messages[1]);
}
