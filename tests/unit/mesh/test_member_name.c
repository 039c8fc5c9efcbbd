/* Names: restarts, duplicates, and who may keep one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "member_net.h"

static struct net net;

static void
begin(void)
{
    net_init(&net, 3);
}

static void
end(void)
{
    net_fini(&net);
}

TestSuite(mesh_member_name, .init = begin, .fini = end);

static bool
is_at(uint32_t host, const char *name, uint32_t where)
{
    struct member_info info;

    return net_sees(&net, host, name, &info) &&
           info.update.state == MEMBER_ALIVE &&
           member_id_equal(info.update.id, net.host[where].id);
}

Test(mesh_member_name, a_restart_replaces_itself_at_once)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_crash(&net, 2);
    net_start(&net, 2, NULL, 0);
    cr_assert_leq(net_converge(&net, 5 * NET_S), 500 * NET_MS);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_REPLACED, "node-2"), 3);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 0);
    net_run(&net, 30 * NET_S);
    cr_assert_eq(net_converge(&net, 0), 0);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DUPLICATE, NULL), 0);
}

Test(mesh_member_name, a_restart_elsewhere_takes_its_name_along)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_crash(&net, 2);
    net_start(&net, 9, "node-2", 0);
    uint64_t us = net_converge(&net, 5 * NET_S);
    cr_assert_leq(us, 1500 * NET_MS, "%lu", (unsigned long)us);
    cr_assert(is_at(0, "node-2", 9));
    net_run(&net, 30 * NET_S);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DUPLICATE, NULL), 0);
}

Test(mesh_member_name, a_restart_after_its_death_joins_under_its_name)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_crash(&net, 2);
    net_run(&net, 30 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_DEAD);
    net_start(&net, 9, "node-2", 0);
    cr_assert_leq(net_converge(&net, 5 * NET_S), 200 * NET_MS);
    cr_assert_eq(net_count(&net, 0, MEMBER_JOINED, "node-2"), 2);
}

Test(mesh_member_name, restarting_again_and_again_ends_with_the_last)
{
    net_mesh(&net, 3, 5 * NET_S);
    for (int i = 0; i < 20; i++) {
        net_crash(&net, 2);
        net_start(&net, 2, NULL, (uint32_t)i % 2);
        net_run(&net, 300 * NET_MS);
    }
    cr_assert_leq(net_converge(&net, 5 * NET_S), 3 * NET_S);
    cr_assert(is_at(0, "node-2", 2));
}

Test(mesh_member_name, the_newcomer_of_two_living_ones_is_refused)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_start(&net, 9, "node-2", 0);
    net_run(&net, 5 * NET_S);
    cr_assert_eq(net.host[9].events[MEMBER_DUPLICATE], 1);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DUPLICATE, NULL), 1);
    cr_assert_gt(net.kinds[MEMBER_REFUSE], 0);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(is_at(i, "node-2", 2), "%u", i);
        cr_assert_eq(net.host[i].events[MEMBER_REPLACED], 0);
    }
    cr_assert_eq(member_deadline(net.host[9].table), UINT64_MAX);
}

Test(mesh_member_name, a_newcomer_is_refused_over_a_bad_network_too)
{
    net.jitter_us = 50 * NET_MS;
    net_mesh(&net, 4, 10 * NET_S);
    net.loss_permille = 100;
    net_start(&net, 9, "node-2", 0);
    net_run(&net, 10 * NET_S);
    cr_assert_eq(net.host[9].events[MEMBER_DUPLICATE], 1);
    cr_assert_eq(net.host[2].events[MEMBER_DUPLICATE], 0);
    net_crash(&net, 9);
    cr_assert_leq(net_excluded(&net, net.host[9].id, 10 * NET_S), 5 * NET_S);
    cr_assert_leq(net_converge(&net, NET_S), NET_S);
}

Test(mesh_member_name, who_joins_through_its_namesake_is_refused)
{
    net_start(&net, 0, "a", NET_HOSTS);
    net_run(&net, 5 * NET_S);
    net_start(&net, 1, "a", 0);
    net_run(&net, 5 * NET_S);
    cr_assert_eq(net.host[1].events[MEMBER_DUPLICATE], 1);
    cr_assert_eq(net.host[0].events[MEMBER_DUPLICATE], 0);
    cr_assert_eq(net.host[0].events[MEMBER_REFUSED], 1);
}

Test(mesh_member_name, namesakes_of_two_sides_keep_the_elder)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_split(&net, 0x3, 0x20C);
    net_run(&net, 20 * NET_S);
    net_start(&net, 9, "node-1", 2);
    net_run(&net, 20 * NET_S);
    cr_assert(is_at(0, "node-1", 1));
    cr_assert(is_at(3, "node-1", 9));
    net_heal(&net);
    net_run(&net, 10 * NET_S);
    cr_assert_eq(net.host[9].events[MEMBER_DUPLICATE], 1);
    cr_assert_eq(net.host[1].events[MEMBER_DUPLICATE], 0);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(is_at(i, "node-1", 1), "%u", i);
    }
}

Test(mesh_member_name, a_sleeper_does_not_claim_what_was_given_away)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_pause(&net, 2, 120 * NET_S);
    net_run(&net, 60 * NET_S);
    net_start(&net, 9, "node-2", 0);
    net_run(&net, 80 * NET_S);
    cr_assert_eq(net.host[2].events[MEMBER_DUPLICATE], 1);
    cr_assert_eq(net.host[9].events[MEMBER_DUPLICATE], 0);
    cr_assert(is_at(0, "node-2", 9));
}

Test(mesh_member_name, another_name_at_a_dead_ones_address_buries_it)
{
    net_mesh(&net, 4, 5 * NET_S);
    struct member_id id = net.host[2].id;
    net_crash(&net, 2);
    net_start(&net, 2, "other", 0);
    cr_assert_leq(net_excluded(&net, id, 5 * NET_S), 1500 * NET_MS);
    cr_assert_leq(net_converge(&net, 5 * NET_S), NET_S);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_DEAD);
}

/* As where an address is given to another pod. */
Test(mesh_member_name, who_lives_at_a_dead_ones_address_is_the_one_there)
{
    struct member_out out;
    struct member_message news = {.kind = MEMBER_NEWS, .updates_count = 1};
    struct member_info info;
    uint32_t pings = 0;

    net_mesh(&net, 4, 5 * NET_S);
    net_crash(&net, 2);
    net_start(&net, 2, "other", 0);
    net_run(&net, 5 * NET_S);
    struct member_table *table = net.host[0].table;
    uint32_t syncs = net.kinds[MEMBER_SYNC];
    net_hint(&net, 0, 2);
    cr_assert_eq(net.kinds[MEMBER_SYNC], syncs, "it is known");
    cr_assert(net_sees(&net, 1, "node-1", &info));
    news.from = info.update;
    cr_assert(net_sees(&net, 0, "other", &info));
    news.updates[0] = info.update;
    news.updates[0].state = MEMBER_SUSPECT;
    news.updates[0].by = net.host[1].id;
    member_recv(table, &news, net.now_us);
    while (member_next_out(table, &out)) {
        if (out.kind == MEMBER_OUT_SEND && out.message->kind == MEMBER_PING &&
            strcmp(out.address, net.host[2].address) == 0) {
            pings++;
            cr_assert_str_eq(out.message->updates[0].name, "other");
        }
    }
    cr_assert_gt(pings, 0);
}

Test(mesh_member_name, late_words_of_a_predecessor_change_nothing)
{
    struct member_message m = {.kind = MEMBER_PING, .number = 5};
    struct member_info info;

    net_mesh(&net, 3, 5 * NET_S);
    cr_assert(net_sees(&net, 2, "node-2", &info));
    m.from = info.update;
    net_crash(&net, 2);
    net_start(&net, 9, "node-2", 0);
    net_run(&net, 5 * NET_S);
    net_deliver(&net, 0, &m);
    net_run(&net, 5 * NET_S);
    cr_assert(is_at(0, "node-2", 9));
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DUPLICATE, NULL), 0);
    /* Nor does what others say of it. */
    m.kind = MEMBER_NEWS;
    cr_assert(net_sees(&net, 1, "node-1", &info));
    m.updates[0] = m.from;
    m.updates_count = 1;
    m.from = info.update;
    net_crash(&net, 9);
    net_run(&net, 5 * NET_S);
    net_deliver(&net, 0, &m);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_DEAD);
}

Test(mesh_member_name, a_duplicate_does_not_profit_from_a_cut)
{
    /* It joins through the one member that does not reach its namesake. */
    net_mesh(&net, 4, 5 * NET_S);
    net_split(&net, 0x1, 0x4);
    net_start(&net, 9, "node-2", 0);
    net_run(&net, 20 * NET_S);
    cr_assert_eq(net.host[9].events[MEMBER_DUPLICATE], 1);
    cr_assert_eq(net.host[2].events[MEMBER_DUPLICATE], 0);
    cr_assert_eq(net.host[0].events[MEMBER_REPLACED], 0);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(is_at(i, "node-2", 2), "%u", i);
    }
}

/* Lets a process that nobody knows say where it is, and under which name. */
static struct member_update
stranger(const char *name, const char *address)
{
    struct member_update u = {.id = {{7, 7}}, .incarnation = 1};

    (void)snprintf(u.name, sizeof u.name, "%s", name);
    (void)snprintf(u.address, sizeof u.address, "%s", address);
    return u;
}

/* The number of the last ping to that address among a table's outputs. */
static uint32_t
pinged(struct member_table *table, const char *address)
{
    struct member_out out;
    uint32_t number = 0;

    while (member_next_out(table, &out)) {
        if (out.kind == MEMBER_OUT_SEND && out.message->kind == MEMBER_PING &&
            strcmp(out.address, address) == 0) {
            number = out.message->number;
        }
    }
    return number;
}

Test(mesh_member_name, one_process_does_not_get_two_names)
{
    struct member_config config = member_config_default();
    struct member_self self = {
        .id = {{1, 1}}, .name = "me", .address = "10.0.0.1:1"};
    struct member_message news = {.kind = MEMBER_NEWS,
                                  .from = {.id = {{2, 2}},
                                           .incarnation = 1,
                                           .name = "b",
                                           .address = "10.0.0.2:1"},
                                  .updates_count = 1};
    struct member_table *table = NULL;
    const char *reason = "";
    uint64_t now_us = NET_S;

    cr_assert_eq(member_new(&table, &config, &self, now_us, 3), 0);
    news.updates[0] = stranger("b", "10.0.0.9:1"); /* taken: it is asked */
    member_recv(table, &news, now_us);
    struct member_message ack = {.kind = MEMBER_ACK,
                                 .number = pinged(table, "10.0.0.9:1"),
                                 .up_ms = 99999,
                                 .from = stranger("z", "10.0.0.8:1"),
                                 .target = {{7, 7}}};
    cr_assert_neq(ack.number, 0);
    news.updates[0] = stranger("z", "10.0.0.8:1"); /* free: it is a member */
    member_recv(table, &news, now_us);
    member_recv(table, &ack, now_us);
    for (uint32_t i = 0; i < 40; i++) { /* "b" says nothing */
        now_us += 50 * NET_MS;
        member_tick(table, now_us);
        (void)pinged(table, "");
    }
    cr_assert(member_check(table, &reason), "%s", reason);
    member_free(table);
}
