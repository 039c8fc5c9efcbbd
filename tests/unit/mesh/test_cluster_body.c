#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "index/base/pack.h"
#include "mesh/mesh.h"

#define MS   UINT64_C(1000)
#define PEER UINT64_C(2)

static const struct island_path nowhere;
static const char peer_address[] = "10.0.0.2:7946";
static struct cluster *cluster;
static struct cluster_config config;
static uint64_t now_us = 1000 * MS;
static struct member_message message;
static uint8_t bytes[MEMBER_CODEC_MAX + 1];

/* What was pulled since it was looked at last. */
static uint32_t sent[8]; /* by the body's first byte */
static uint32_t kinds[CLUSTER_READY + 1];
static char dropped[MEMBER_ADDRESS_MAX];
static char doubted[MEMBER_ADDRESS_MAX];
static uint32_t reads_begun;

static void
pull(void)
{
    struct cluster_out out;
    const char *reason = "";

    while (cluster_next_out(cluster, &out)) {
        kinds[out.kind]++;
        if (out.kind == CLUSTER_SEND) {
            cr_assert_lt(out.head, 8);
            sent[out.head]++;
        } else if (out.kind == CLUSTER_DROP) {
            (void)snprintf(dropped, sizeof dropped, "%s", out.address);
        } else if (out.kind == CLUSTER_DOUBT) {
            (void)snprintf(doubted, sizeof doubted, "%s", out.address);
        } else if (out.kind == CLUSTER_READ) {
            reads_begun += out.on;
        }
    }
    cr_assert(cluster_check(cluster, &reason), "%s", reason);
}

static void
forget(void)
{
    memset(sent, 0, sizeof sent);
    memset(kinds, 0, sizeof kinds);
}

static int
receive(uint64_t session, const void *body, size_t len)
{
    struct slice slice = {.ptr = body, .len = len};
    int rc = cluster_recv(cluster, session, slice, now_us);

    pull();
    return rc;
}

/* A word of a process with this session, by a link of another one. */
static int
say(enum member_state state, uint64_t session, const char *name,
    const char *address, uint64_t link)
{
    message = (struct member_message){
        .kind = state == MEMBER_LEFT ? MEMBER_NEWS : MEMBER_PING,
        .number = 1,
        .up_ms = 5,
        .from = {.id = {{session, 1}}, .state = (uint8_t)state},
    };
    (void)snprintf(message.from.name, sizeof message.from.name, "%s", name);
    (void)snprintf(message.from.address, sizeof message.from.address, "%s",
                   address);
    bytes[0] = 1;
    size_t size = member_codec_write(&message, bytes + 1);
    return receive(link, bytes, size + 1);
}

static int
ping(uint64_t session, const char *name, const char *address, uint64_t link)
{
    return say(MEMBER_ALIVE, session, name, address, link);
}

static void
link_up(const char *address, uint64_t session)
{
    cluster_link_up(cluster, address, session, now_us);
    pull();
}

static uint32_t
peers_up(void)
{
    struct cluster_stats stats;

    cluster_stats(cluster, &stats);
    return stats.peers_up;
}

static void
setup(void)
{
    static const struct member_self self = {
        .id = {{1, 1}}, .name = "node-1", .address = "10.0.0.1:7946"};

    config = cluster_config_default();
    cr_assert_eq(cluster_new(&cluster, &config, &self, now_us, 1), 0);
    pull();
    forget();
}

static void
meet(void)
{
    cr_assert_eq(ping(PEER, "node-2", peer_address, PEER), 0);
    link_up(peer_address, PEER);
    cr_assert_eq(peers_up(), 1);
}

static void
teardown(void)
{
    cluster_free(cluster);
}

TestSuite(cluster_body, .init = setup, .fini = teardown);

Test(cluster_body, is_bad_when_empty_unknown_when_newer)
{
    struct cluster_stats stats;

    meet();
    cr_assert_eq(receive(PEER, "", 0), CLUSTER_E_BAD);
    cr_assert_eq(receive(PEER, "\x09zzz", 4), CLUSTER_E_UNKNOWN);
    cr_assert_eq(receive(PEER, "\x02", 1), CLUSTER_E_BAD);
    cr_assert_eq(receive(PEER, "\x01\xff", 2), CLUSTER_E_BAD);
    cluster_stats(cluster, &stats);
    cr_assert_eq(stats.frames_bad, 3);
    cr_assert_eq(stats.frames_unknown, 1);
}

Test(cluster_body, of_gossip_is_taken_from_peers_only)
{
    cr_assert_eq(receive(77, "\x02\x01\x00", 3), CLUSTER_E_STRANGER);
    cr_assert_eq(receive(77, "\x03\x01\x00", 3), CLUSTER_E_STRANGER);
    cr_assert_eq(receive(77, "\x04", 1), CLUSTER_E_STRANGER);
    /* A member without a link is no peer. */
    cr_assert_eq(ping(PEER, "node-2", peer_address, PEER), 0);
    cr_assert_eq(receive(PEER, "\x02\x01\x00", 3), CLUSTER_E_STRANGER);
}

Test(cluster_body, a_message_is_of_its_links_process)
{
    cr_assert_eq(ping(5, "node-5", "10.0.0.5:7946", PEER), CLUSTER_E_BAD);
    cr_assert_eq(member_count_alive(cluster_members(cluster)), 1);
    cr_assert_eq(ping(5, "node-5", "10.0.0.5:7946", 5), 0);
    cr_assert_eq(member_count_alive(cluster_members(cluster)), 2);
}

Test(cluster_body, a_link_without_a_member_is_no_peer)
{
    link_up(peer_address, PEER);
    cr_assert_eq(peers_up(), 0);
    cr_assert_eq(ping(PEER, "node-2", peer_address, PEER), 0);
    cr_assert_eq(peers_up(), 1);
}

Test(cluster_body, a_link_that_comes_up_again_is_new_to_gossip)
{
    meet();
    forget();
    link_up(peer_address, PEER);
    cr_assert_gt(sent[2], 0); /* the vectors */
    cluster_link_down(cluster, peer_address, now_us);
    pull();
    cr_assert_eq(peers_up(), 0);
}

Test(cluster_body, another_process_on_a_link_is_another_peer)
{
    meet();
    link_up(peer_address, 3);
    cr_assert_eq(peers_up(), 0);
    cr_assert_null(cluster_peer_name(cluster, 3));
    cr_assert_str_eq(cluster_peer_name(cluster, PEER), "node-2");
}

/* What member 3 says of a process that has the first half of node-2's id. */
static void
say_of_twin(enum member_state state)
{
    struct member_update *twin = &message.updates[0];

    message = (struct member_message){
        .kind = MEMBER_NEWS,
        .from = {.id = {{3, 1}}, .name = "node-3", .address = "10.0.0.3:7946"},
        .updates_count = 1,
    };
    *twin = (struct member_update){.id = {{PEER, 9}},
                                   .by = {{3, 1}},
                                   .state = (uint8_t)state,
                                   .name = "a",
                                   .address = "10.0.0.9:7946"};
    bytes[0] = 1;
    size_t size = member_codec_write(&message, bytes + 1);
    cr_assert_eq(receive(3, bytes, size + 1), 0);
}

Test(cluster_body, a_process_has_no_twin_by_hearsay)
{
    meet();
    say_of_twin(MEMBER_DEAD);
    cr_assert_eq(peers_up(), 1);
    say_of_twin(MEMBER_ALIVE);
    cr_assert_str_eq(cluster_peer_name(cluster, PEER), "node-2");
}

Test(cluster_body, a_process_that_is_there_beats_its_twin)
{
    say_of_twin(MEMBER_ALIVE);
    cr_assert_str_eq(cluster_peer_name(cluster, PEER), "a");
    meet();
    cr_assert_str_eq(cluster_peer_name(cluster, PEER), "node-2");
    say_of_twin(MEMBER_DEAD);
    cr_assert_eq(peers_up(), 1);
}

Test(cluster_body, links_to_who_left_make_room)
{
    char address[MEMBER_ADDRESS_MAX];
    char name[MEMBER_NAME_MAX];

    for (uint64_t i = 0; i < 200; i++) {
        (void)snprintf(address, sizeof address, "10.0.1.%lu:7946", i);
        (void)snprintf(name, sizeof name, "n%lu", i);
        cr_assert_eq(ping(100 + i, name, address, 100 + i), 0);
        link_up(address, 100 + i);
        cr_assert_eq(peers_up(), 1, "%lu", i);
        now_us += 10 * MS;
        cr_assert_eq(say(MEMBER_LEFT, 100 + i, name, address, 100 + i), 0);
        cr_assert_eq(peers_up(), 0);
        cr_assert_str_eq(dropped, address);
    }
}

/* The body of claims: version, and bytes of workers, where so many are
 * announced. */
static size_t
claims(uint8_t version, uint8_t count, const uint64_t *workers, uint32_t len)
{
    struct buf body = buf_over(bytes, sizeof bytes);

    buf_add(&body, "\4", 1);
    struct pack_map map = pack_open(&body);
    pack_put_uint(&map, "v", version);
    pack_put_bytes_head(&map, "w", (size_t)count * 8);
    for (uint32_t i = 0; i < 8 * len; i++) {
        const char byte = (char)(workers[i / 8] >> 8 * (i % 8));
        buf_add(&body, &byte, 1);
    }
    pack_close(&map);
    return body.len;
}

Test(cluster_body, claims_out_of_order_or_cut_off_are_bad)
{
    const uint64_t falling[] = {9, 7};
    const uint64_t rising[] = {7, 9};

    meet();
    cr_assert_eq(receive(PEER, bytes, claims(1, 2, falling, 2)), CLUSTER_E_BAD);
    cr_assert_eq(receive(PEER, bytes, claims(1, 3, rising, 2)), CLUSTER_E_BAD);
    cr_assert_eq(receive(PEER, bytes, claims(1, 2, rising, 2) - 1),
                 CLUSTER_E_BAD);
    cr_assert_eq(receive(PEER, bytes, 1), CLUSTER_E_BAD);
    cr_assert_eq(receive(PEER, bytes, claims(1, 2, rising, 2)), 0);
    /* What a later version adds is skipped. */
    size_t len = claims(2, 2, rising, 2);
    bytes[1]++; /* pairs of the map */
    memcpy(bytes + len, "\xa1x\xc0", 3);
    cr_assert_eq(receive(PEER, bytes, len + 3), 0);
}

static const char *
first_reader(uint64_t worker)
{
    const char *names[2];

    cr_assert_geq(cluster_readers(cluster, worker, names, 1), 1);
    return names[0];
}

/* The first worker that the peer is first for. */
static uint64_t
worker_of_peer(void)
{
    uint64_t worker = 1;

    while (strcmp(first_reader(worker), "node-2") != 0) {
        worker++;
    }
    return worker;
}

Test(cluster_body, of_claims_the_newest_holds)
{
    meet();
    uint64_t worker = worker_of_peer();
    cr_assert_eq(receive(PEER, bytes, claims(2, 1, &worker, 1)), 0);
    cr_assert_str_eq(first_reader(worker), "node-1");
    cr_assert_eq(receive(PEER, bytes, claims(1, 0, NULL, 0)), 0);
    cr_assert_str_eq(first_reader(worker), "node-1");
    cr_assert_eq(receive(PEER, bytes, claims(3, 0, NULL, 0)), 0);
    cr_assert_str_eq(first_reader(worker), "node-2");
}

Test(cluster_body, own_claims_go_to_peers_now_at_link_up_and_again)
{
    meet();
    cr_assert_eq(cluster_worker_add(cluster, 9, 1, &nowhere, now_us), 0);
    pull();
    forget();
    cluster_unable(cluster, 9, true, now_us);
    pull();
    cr_assert_eq(sent[4], 1);
    cluster_unable(cluster, 9, true, now_us);
    pull();
    cr_assert_eq(sent[4], 1);
    link_up(peer_address, PEER);
    cr_assert_eq(sent[4], 2);
    now_us += 3000 * MS;
    cluster_tick(cluster, now_us);
    pull();
    cr_assert_eq(sent[4], 3);
}

Test(cluster_body, who_is_suspected_is_doubted)
{
    meet();
    for (uint32_t i = 0; i < 100 && doubted[0] == '\0'; i++) {
        now_us += 50 * MS;
        cluster_tick(cluster, now_us);
        pull();
    }
    cr_assert_str_eq(doubted, peer_address);
    cr_assert_eq(kinds[CLUSTER_DROP], 0); /* it is pinged on */
}

static bool
pushes(void)
{
    struct gossip_status status;

    cr_assert(gossip_status(cluster_gossip(cluster), 0, &status));
    return status.pushes;
}

Test(cluster_body, while_the_first_is_suspect_the_second_pushes)
{
    meet();
    uint64_t worker = worker_of_peer();
    struct event_stream stream = {.worker = worker};
    cr_assert_eq(cluster_worker_add(cluster, worker, 1, &nowhere, now_us), 0);
    pull();
    gossip_local_begin(cluster_gossip(cluster), stream, 7, true, 0, now_us);
    pull();
    cr_assert(!pushes());
    for (uint32_t i = 0; i < 100 && doubted[0] == '\0'; i++) {
        now_us += 50 * MS;
        cluster_tick(cluster, now_us);
        pull();
    }
    cr_assert(pushes());
    cr_assert_eq(peers_up(), 1);
}

Test(cluster_body, a_worker_added_again_is_no_news)
{
    cr_assert_eq(cluster_worker_add(cluster, 9, 1, &nowhere, now_us), 0);
    cr_assert_eq(cluster_worker_add(cluster, 9, 1, &nowhere, now_us), 0);
    pull();
    cr_assert_eq(reads_begun, 1);
    cr_assert_eq(cluster_worker_add(cluster, 9, 3, &nowhere, now_us), 0);
    pull();
    cr_assert_eq(reads_begun, 1);
    struct gossip_stats stats;
    gossip_stats(cluster_gossip(cluster), &stats);
    cr_assert_eq(stats.streams, 3);
    cluster_worker_remove(cluster, 9, now_us);
    cluster_worker_remove(cluster, 9, now_us);
    pull();
    gossip_stats(cluster_gossip(cluster), &stats);
    cr_assert_eq(stats.streams, 0);
}

/* A rank that comes later is read by nobody, either. */
Test(cluster_body, nobody_reads_the_new_ranks_of_a_worker_out_of_reach)
{
    const struct event_stream second = {.worker = 9, .rank = 1};
    struct gossip_status status;

    cr_assert_eq(cluster_worker_add(cluster, 9, 1, &nowhere, now_us), 0);
    cluster_unable(cluster, 9, true, now_us);
    pull();
    cr_assert_eq(cluster_worker_add(cluster, 9, 2, &nowhere, now_us), 0);
    gossip_load(cluster_gossip(cluster), second,
                (struct gossip_epoch){.no = 1, .id = 5}, true,
                gossip_pos_after(0), true);
    pull();
    now_us += config.gossip.stale_ms * MS;
    cluster_tick(cluster, now_us);
    pull();
    cr_assert(gossip_status_of(cluster_gossip(cluster), second, &status));
    cr_assert(status.stale);
}

Test(cluster_body, workers_past_the_bound_are_refused_whole)
{
    struct gossip_stats stats;

    cr_assert_eq(cluster_worker_add(cluster, 9, config.gossip.streams_max - 1,
                                    &nowhere, now_us),
                 0);
    cr_assert_eq(cluster_worker_add(cluster, 8, 2, &nowhere, now_us),
                 GOSSIP_E_FULL);
    pull();
    gossip_stats(cluster_gossip(cluster), &stats);
    cr_assert_eq(stats.streams, config.gossip.streams_max - 1);
    cr_assert_eq(reads_begun, 1);
}

Test(cluster_body, hints_go_round_and_never_all_at_once)
{
    char address[MEMBER_ADDRESS_MAX];

    for (uint32_t i = 0; i < 200; i++) {
        (void)snprintf(address, sizeof address, "10.0.1.%u:7946", i);
        cluster_hint(cluster, address, now_us);
    }
    cluster_hint(cluster, address, now_us);
    pull();
    cr_assert_leq(sent[1], 16);
    uint32_t turns = 1;
    for (; sent[1] < 200 && turns < 40; turns++) {
        uint32_t before = sent[1];
        now_us += 250 * MS;
        cluster_tick(cluster, now_us);
        pull();
        cr_assert_leq(sent[1] - before, 16 + 64); /* those that are repeated */
    }
    cr_assert_leq(turns, 14);
}
