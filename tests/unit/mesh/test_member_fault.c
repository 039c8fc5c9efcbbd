/* Suspicion, refutation, local health, partitions, pauses. */
#include <criterion/criterion.h>
#include <string.h>

#include "member_net.h"

static struct net net;

static void
begin(void)
{
    net_init(&net, 2);
}

static void
end(void)
{
    net_fini(&net);
}

TestSuite(mesh_member_fault, .init = begin, .fini = end);

/* A message from one host to another, of the least that it must have. */
static struct member_message
from(uint32_t host, enum member_kind kind)
{
    struct member_message m = {.kind = kind};
    struct member_info info;

    cr_assert(net_sees(&net, host, net.host[host].name, &info));
    m.from = info.update;
    return m;
}

static void
say(uint32_t by, uint32_t to, uint32_t about, enum member_state state)
{
    struct member_message m = from(by, MEMBER_NEWS);
    struct member_info info;

    cr_assert(net_sees(&net, to, net.host[about].name, &info));
    m.updates[0] = info.update;
    m.updates[0].state = (uint8_t)state;
    m.updates[0].by = net.host[by].id;
    m.updates_count = 1;
    net_deliver(&net, to, &m);
}

static uint32_t
incarnation(uint32_t host)
{
    struct member_info info;

    cr_assert(net_sees(&net, host, net.host[host].name, &info));
    return info.update.incarnation;
}

Test(mesh_member_fault, helpers_reach_whom_we_cannot)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_split(&net, 0x1, 0x2);
    net_run(&net, 60 * NET_S);
    cr_assert_gt(net.kinds[MEMBER_PING_REQ], 20);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_SUSPECTED, NULL), 0);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 0);
}

Test(mesh_member_fault, without_helpers_the_same_link_is_a_suspicion)
{
    net.config.helpers = 0;
    net_mesh(&net, 4, 5 * NET_S);
    net_split(&net, 0x1, 0x2);
    net_run(&net, 10 * NET_S);
    cr_assert_gt(net_count(&net, NET_HOSTS, MEMBER_SUSPECTED, NULL), 0);
}

Test(mesh_member_fault, a_suspect_is_told_and_refutes)
{
    net_mesh(&net, 3, 5 * NET_S);
    uint32_t was = incarnation(2);
    say(1, 0, 2, MEMBER_SUSPECT);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_SUSPECT);
    net_run(&net, 50 * NET_MS);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_ALIVE);
    cr_assert_eq(incarnation(2), was + 1);
    cr_assert_eq(net.host[2].events[MEMBER_REFUTED], 1);
    cr_assert_eq(net.host[0].events[MEMBER_CLEARED], 1);
    net_run(&net, 10 * NET_S);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 0);
}

Test(mesh_member_fault, a_suspect_is_counted_in)
{
    net_mesh(&net, 3, 5 * NET_S);
    say(1, 0, 2, MEMBER_SUSPECT);
    cr_assert_eq(member_count_alive(net.host[0].table), 3);
}

Test(mesh_member_fault, nobody_is_dead_on_hearsay)
{
    net_mesh(&net, 5, 5 * NET_S);
    for (uint32_t by = 1; by < 4; by++) {
        say(by, 0, 4, MEMBER_DEAD);
    }
    cr_assert_eq(net_state(&net, 0, "node-4"), MEMBER_SUSPECT);
    net_run(&net, 50 * NET_MS);
    cr_assert_eq(net_state(&net, 0, "node-4"), MEMBER_ALIVE);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 0);
}

Test(mesh_member_fault, hearsay_of_a_death_is_believed_when_our_pings_fail)
{
    net_mesh(&net, 5, 5 * NET_S);
    net_sever(&net, 0x10, 0xF, true);
    say(1, 0, 4, MEMBER_DEAD);
    net_run(&net, 240 * NET_MS);
    cr_assert_eq(net_state(&net, 0, "node-4"), MEMBER_SUSPECT);
    net_run(&net, 20 * NET_MS);
    cr_assert_eq(net_state(&net, 0, "node-4"), MEMBER_DEAD);
}

/* Whatever they say: a peer may well name one member again and again. */
Test(mesh_member_fault, the_events_of_any_one_message_have_room)
{
    net_mesh(&net, 3, 5 * NET_S);
    struct member_message m = from(1, MEMBER_NEWS);
    struct member_info info;

    cr_assert(net_sees(&net, 0, net.host[2].name, &info));
    for (uint32_t i = 0; i < MEMBERS_MAX; i++) {
        m.updates[i] = info.update;
        m.updates[i].incarnation = info.update.incarnation + 1 + i;
        m.updates[i].state = MEMBER_SUSPECT;
        m.updates[i].by = net.host[0].id; /* as if the receiver had said so */
    }
    m.updates_count = MEMBERS_MAX;
    net_deliver(&net, 0, &m);
    cr_assert_geq(net_count(&net, 0, MEMBER_SUSPECTED, net.host[2].name),
                  MEMBERS_MAX);
    net_run(&net, 20 * NET_S);
    cr_assert(net_sees(&net, 0, net.host[2].name, &info));
    cr_assert_eq(info.update.state, MEMBER_ALIVE);
}

/* It could not refute that: there is no incarnation above it. */
Test(mesh_member_fault, an_incarnation_out_of_reach_says_nothing)
{
    struct member_message m;
    struct member_info info;

    net_mesh(&net, 3, 5 * NET_S);
    m = from(1, MEMBER_NEWS);
    m.updates_count = 1;
    for (unsigned state = MEMBER_SUSPECT; state <= MEMBER_LEFT; state++) {
        cr_assert(net_sees(&net, 0, "node-2", &info));
        m.updates[0] = info.update;
        m.updates[0].incarnation = UINT32_MAX;
        m.updates[0].by = net.host[1].id;
        m.updates[0].state = (uint8_t)state;
        net_deliver(&net, 0, &m);
        net_deliver(&net, 2, &m);
        net_run(&net, 5 * NET_S);
        cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_ALIVE, "%u", state);
        cr_assert_eq(net_state(&net, 1, "node-2"), MEMBER_ALIVE, "%u", state);
    }
    m.updates[0].incarnation = incarnation(2) + 1000;
    net_deliver(&net, 0, &m);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_LEFT, "that may be");
    net_run(&net, 5 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_ALIVE);
}

Test(mesh_member_fault, an_old_incarnation_says_nothing)
{
    net_mesh(&net, 3, 5 * NET_S);
    say(1, 0, 2, MEMBER_SUSPECT);
    net_run(&net, NET_S);
    struct member_message m = from(1, MEMBER_NEWS);
    struct member_info info;
    cr_assert(net_sees(&net, 0, "node-2", &info));
    cr_assert_eq(info.update.incarnation, 1);
    m.updates[0] = info.update;
    m.updates[0].incarnation = 0;
    m.updates[0].state = MEMBER_LEFT;
    m.updates_count = 1;
    net_deliver(&net, 0, &m);
    cr_assert_eq(net_state(&net, 0, "node-2"), MEMBER_ALIVE);
}

/* How long host 0 suspects a silent host 3 when so many others do as well. */
static uint64_t
suspicion_ms(uint32_t confirmations)
{
    struct member_info info;

    net_fini(&net);
    net_init(&net, 3);
    net_start(&net, 0, NULL, NET_HOSTS);
    /* The others take ages to have an opinion of their own. */
    net.config.probe_ms = 60000;
    net.config.probe_timeout_ms = 50000;
    for (uint32_t i = 1; i < 4; i++) {
        net_start(&net, i, NULL, 0);
    }
    net_run(&net, 5 * NET_S);
    net_crash(&net, 3);
    for (uint32_t by = 1; by <= 1 + confirmations; by++) {
        say(by, 0, 3, MEMBER_SUSPECT);
    }
    uint64_t begin_us = net.now_us;
    while (net_sees(&net, 0, "node-3", &info) &&
           info.update.state == MEMBER_SUSPECT) {
        cr_assert_lt(net.now_us - begin_us, 10 * NET_S);
        net_run(&net, NET_MS);
    }
    cr_assert_eq(info.update.state, MEMBER_DEAD);
    return (net.now_us - begin_us) / NET_MS;
}

Test(mesh_member_fault, each_confirmation_shortens_a_suspicion)
{
    /* The first accuser and our own failed pings are one confirmation; two of
     * them are all that four members have. */
    uint64_t one = suspicion_ms(0);
    uint64_t two = suspicion_ms(1);

    cr_assert(one > 800 && one < 950, "%lu", (unsigned long)one);
    cr_assert(two >= 500 && two < 510, "%lu", (unsigned long)two);
}

Test(mesh_member_fault, three_members_have_a_second_opinion)
{
    /* Only host 0 is severed from host 2, in a way that no helper mends. */
    net.config.helpers = 0;
    net_mesh(&net, 3, 5 * NET_S);
    net_split(&net, 0x1, 0x4);
    net_run(&net, 120 * NET_S);
    cr_assert_gt(net.host[0].events[MEMBER_SUSPECTED], 10);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 0);
}

Test(mesh_member_fault, missed_answers_worsen_health_and_answers_mend_it)
{
    net_mesh(&net, 4, 5 * NET_S);
    cr_assert_eq(member_health(net.host[0].table), 0);
    net_split(&net, 0x1, 0xE);
    net_run(&net, 3 * NET_S);
    cr_assert_gt(member_health(net.host[0].table), 1);
    cr_assert_leq(member_health(net.host[0].table), MEMBER_HEALTH_MAX);
    net_heal(&net);
    net_run(&net, 30 * NET_S);
    cr_assert_eq(member_health(net.host[0].table), 0);
}

Test(mesh_member_fault, a_nack_says_that_it_is_not_our_fault)
{
    net_mesh(&net, 5, 5 * NET_S);
    net_crash(&net, 4);
    for (uint32_t ms = 0; ms < 5000; ms++) {
        net_run(&net, NET_MS);
        for (uint32_t i = 0; i < 4; i++) {
            cr_assert_eq(member_health(net.host[i].table), 0, "%u", i);
        }
    }
    cr_assert_gt(net.kinds[MEMBER_NACK], 0);
    cr_assert_eq(net_state(&net, 0, "node-4"), MEMBER_DEAD);
}

Test(mesh_member_fault, bad_health_lengthens_our_own_timeouts)
{
    /* Nobody is suspected by one whose own loop is always late. */
    net_mesh(&net, 3, 5 * NET_S);
    for (int i = 0; i < 40; i++) {
        net_pause(&net, 0, 700 * NET_MS);
        net_run(&net, 750 * NET_MS);
    }
    cr_assert_gt(member_health(net.host[0].table), 0);
    cr_assert_eq(net.host[0].events[MEMBER_SUSPECTED], 0);
    cr_assert_eq(net.host[0].events[MEMBER_DIED], 0);
}

Test(mesh_member_fault, both_sides_of_a_partition_heal)
{
    net_mesh(&net, 6, 5 * NET_S);
    net_split(&net, 0x7, 0x38);
    net_run(&net, 60 * NET_S);
    for (uint32_t i = 0; i < 6; i++) {
        cr_assert_eq(member_count_alive(net.host[i].table), 3);
    }
    net_heal(&net);
    uint64_t us = net_converge(&net, 20 * NET_S);
    cr_assert_leq(us, 3 * NET_S, "%lu us", (unsigned long)us);
    uint32_t died = net_count(&net, NET_HOSTS, MEMBER_DIED, NULL);
    cr_assert_eq(died, 18, "each side thinks the other dead, once: %u", died);
}

Test(mesh_member_fault, a_deaf_member_is_excluded_until_it_hears)
{
    /* It still speaks, and accuses everyone. */
    net_mesh(&net, 4, 5 * NET_S);
    net_sever(&net, 0xE, 0x1, true);
    struct member_id id = net.host[0].id;
    net_run(&net, 10 * NET_S);
    for (uint32_t i = 1; i < 4; i++) {
        cr_assert_eq(net_state(&net, i, "node-0"), MEMBER_DEAD);
        cr_assert_eq(member_count_alive(net.host[i].table), 3);
    }
    cr_assert(member_id_equal(id, net.host[0].id));
    cr_assert_gt(net.kinds[MEMBER_REJOIN], 0);
    net_heal(&net);
    cr_assert_leq(net_converge(&net, 20 * NET_S), 3 * NET_S);
}

Test(mesh_member_fault, who_is_thought_dead_and_still_sends_rejoins)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_split(&net, 0x1, 0xE);
    net_run(&net, 90 * NET_S);
    cr_assert_eq(net_state(&net, 1, "node-0"), MEMBER_DEAD);
    uint32_t was = incarnation(0);
    net_heal(&net);
    cr_assert_leq(net_converge(&net, 10 * NET_S), 2 * NET_S);
    cr_assert_gt(incarnation(0), was);
}

Test(mesh_member_fault, the_dead_are_told_so_with_every_look)
{
    struct member_table *table;
    struct member_out out;
    uint32_t looks = 0;

    net_mesh(&net, 3, 5 * NET_S);
    net_crash(&net, 2);
    net_run(&net, 60 * NET_S);
    table = net.host[0].table;
    for (uint32_t i = 0; i < 20; i++) {
        member_tick(table, member_deadline(table));
        while (member_next_out(table, &out)) {
            if (strcmp(out.address, net.host[2].address) == 0) {
                looks++;
                cr_assert_eq(out.message->kind, MEMBER_PING);
                cr_assert_geq(out.message->updates_count, 1);
                cr_assert_str_eq(out.message->updates[0].name, "node-2");
                cr_assert_eq(out.message->updates[0].state, MEMBER_DEAD);
            }
        }
    }
    cr_assert_gt(looks, 1);
}

Test(mesh_member_fault, a_zombie_comes_back_clean)
{
    net_mesh(&net, 5, 5 * NET_S);
    net_pause(&net, 2, 180 * NET_S);
    net_run(&net, 179 * NET_S);
    for (uint32_t i = 0; i < 5; i++) {
        cr_assert(i == 2 || net_state(&net, i, "node-2") == MEMBER_DEAD);
    }
    uint64_t log = net.log_count;
    net_run(&net, NET_S);
    cr_assert_leq(net_converge(&net, 5 * NET_S), NET_S);
    net_run(&net, 10 * NET_S);
    cr_assert_eq(member_stats(net.host[2].table)->woken, 1);
    /* It accused nobody, and nobody else was thought to be gone. */
    for (uint64_t i = log; i < net.log_count; i++) {
        cr_assert_neq(net.log[i].event, MEMBER_DIED);
        cr_assert_neq(net.log[i].event, MEMBER_SUSPECTED);
    }
}

Test(mesh_member_fault, a_zombie_finds_the_world_changed)
{
    net_mesh(&net, 5, 5 * NET_S);
    net_pause(&net, 2, 120 * NET_S);
    net_crash(&net, 3);
    net_run(&net, 60 * NET_S);
    net_start(&net, 3, "other", 0);
    net_start(&net, 6, NULL, 0);
    net_run(&net, 60 * NET_S);
    cr_assert_leq(net_converge(&net, 10 * NET_S), 3 * NET_S);
    cr_assert_eq(net_state(&net, 2, "node-6"), MEMBER_ALIVE);
    cr_assert_eq(net_state(&net, 0, "node-3"), MEMBER_DEAD);
}

Test(mesh_member_fault, a_zombie_does_not_tell_what_it_knew)
{
    net.config.forget_ms = 30000;
    net_mesh(&net, 5, 5 * NET_S);
    net_pause(&net, 2, 120 * NET_S);
    net_crash(&net, 3);
    net_run(&net, 110 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-3"), -1);
    uint32_t joined = net_count(&net, NET_HOSTS, MEMBER_JOINED, "node-3");
    net_run(&net, 60 * NET_S);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_JOINED, "node-3"), joined);
    cr_assert_leq(net_converge(&net, 0), 0);
}

Test(mesh_member_fault, bad_health_gives_others_more_time)
{
    net_mesh(&net, 2, 5 * NET_S);
    net_crash(&net, 1);
    for (int i = 0; i < 6; i++) {
        net.now_us =
            member_deadline(net.host[0].table) + MEMBER_GAP_MS * NET_MS;
        member_tick(net.host[0].table, net.now_us);
    }
    cr_assert_eq(member_health(net.host[0].table), 6);
    net_run(&net, 3 * NET_S);
    cr_assert_eq(net_state(&net, 0, "node-1"), MEMBER_ALIVE);
    net_run(&net, 2 * NET_S);
    cr_assert_neq(net_state(&net, 0, "node-1"), MEMBER_ALIVE);
}

Test(mesh_member_fault, a_short_pause_accuses_nobody)
{
    net_mesh(&net, 4, 5 * NET_S);
    net_pause(&net, 1, 1500 * NET_MS);
    net_run(&net, 10 * NET_S);
    cr_assert_eq(net.host[1].events[MEMBER_SUSPECTED], 0);
    cr_assert_eq(net.host[1].events[MEMBER_DIED], 0);
    cr_assert_leq(net_converge(&net, NET_S), 0);
}

Test(mesh_member_fault, waking_raises_the_incarnation)
{
    net_mesh(&net, 2, 5 * NET_S);
    uint32_t was = incarnation(1);
    uint64_t late_us =
        member_deadline(net.host[1].table) + MEMBER_GAP_MS * NET_MS;
    member_tick(net.host[1].table, late_us - 1);
    cr_assert_eq(incarnation(1), was, "it was only late");
    late_us = member_deadline(net.host[1].table) + MEMBER_GAP_MS * NET_MS;
    member_tick(net.host[1].table, late_us);
    cr_assert_eq(incarnation(1), was + 1);
    cr_assert_eq(member_stats(net.host[1].table)->woken, 1);
}

Test(mesh_member_fault, lost_and_doubled_messages_kill_nobody)
{
    net.loss_permille = 100;
    net.double_permille = 100;
    net.jitter_us = 50 * NET_MS;
    net_mesh(&net, 5, 120 * NET_S);
    cr_assert_eq(net_count(&net, NET_HOSTS, MEMBER_DIED, NULL), 0);
    cr_assert_leq(net_converge(&net, NET_S), NET_S);
}

struct round {
    uint32_t number;
    uint32_t pings;
    uint32_t asked; /* helpers */
};

static struct round *
round_of(struct round *rounds, uint32_t number)
{
    uint32_t i = 0;

    while (rounds[i].number != 0 && rounds[i].number != number) {
        i++;
    }
    cr_assert_lt(i, 63);
    rounds[i].number = number;
    return &rounds[i];
}

Test(mesh_member_fault, who_is_silent_gets_five_pings_and_one_of_each_helper)
{
    struct round rounds[64] = {{.number = 0}};
    struct member_out out = {.kind = MEMBER_OUT_SEND};
    struct member_table *table;
    uint32_t pings = 0;

    net_mesh(&net, 3, 5 * NET_S);
    table = net.host[0].table; /* what it sends is lost from now on */
    while (member_stats(table)->suspicions == 0) {
        member_tick(table, member_deadline(table));
        while (member_next_out(table, &out)) {
            if (out.kind != MEMBER_OUT_SEND) {
                continue;
            }
            struct round *r = round_of(rounds, out.message->number);
            r->pings += out.message->kind == MEMBER_PING;
            r->asked += out.message->kind == MEMBER_PING_REQ;
            pings = r->pings > pings ? r->pings : pings;
            cr_assert_leq(r->asked, 1); /* there is one helper */
        }
    }
    cr_assert_eq(pings, 5);
}

/* Host 1 asks host 0 to ping host 2. */
static struct member_message
request(uint32_t number)
{
    struct member_message m = from(1, MEMBER_PING_REQ);

    m.number = number;
    m.target = net.host[2].id;
    memcpy(m.target_address, net.host[2].address, sizeof m.target_address);
    return m;
}

Test(mesh_member_fault, so_many_pings_for_others_are_open_at_once)
{
    struct member_message m;

    net_mesh(&net, 3, 5 * NET_S);
    uint32_t pings = net.kinds[MEMBER_PING];
    for (uint32_t i = 1; i <= 65; i++) {
        cr_assert_eq(member_stats(net.host[0].table)->relays_dropped, 0);
        m = request(i);
        net_deliver(&net, 0, &m);
    }
    cr_assert_eq(member_stats(net.host[0].table)->relays_dropped, 1);
    cr_assert_eq(net.kinds[MEMBER_PING] - pings, 64);
}

Test(mesh_member_fault, the_answer_of_a_helper_begins_with_whom_it_is_about)
{
    struct member_out out;
    struct member_message m;
    uint32_t nacks = 0;

    net_mesh(&net, 3, 5 * NET_S);
    m = request(7);
    net_deliver(&net, 0, &m);
    net_crash(&net, 2);
    for (uint32_t i = 0; i < 20 && nacks == 0; i++) {
        member_tick(net.host[0].table, member_deadline(net.host[0].table));
        while (member_next_out(net.host[0].table, &out)) {
            if (out.kind != MEMBER_OUT_SEND ||
                out.message->kind != MEMBER_NACK) {
                continue;
            }
            nacks++;
            cr_assert_eq(out.message->number, 7);
            cr_assert_geq(out.message->updates_count, 1);
            cr_assert_str_eq(out.message->updates[0].name, "node-2");
        }
    }
    cr_assert_eq(nacks, 1);
}

Test(mesh_member_fault, nobody_waits_longer_than_one_and_a_half_rounds)
{
    uint64_t longest_us = 0;
    struct member_info info;

    net.config.probes = 1;
    net_mesh(&net, 8, 20 * NET_S);
    /* Seven turns, each of them up to a tenth longer. */
    uint64_t round_us = 7 * net.config.probe_ms * NET_MS * 11 / 10;
    for (uint32_t i = 0; i < 12000; i++) {
        net_run(&net, 10 * NET_MS);
        for (uint32_t host = 1; host < 8; host++) {
            cr_assert(net_sees(&net, 0, net.host[host].name, &info));
            uint64_t us = net.now_us - info.heard_us;
            longest_us = us > longest_us ? us : longest_us;
        }
    }
    cr_assert_leq(longest_us, round_us * 3 / 2);
}
