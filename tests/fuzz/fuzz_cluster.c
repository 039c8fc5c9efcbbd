/* Whatever bodies come from whom, a node's invariants hold, what it sends it
 * could read itself, and it goes on. The input is a run of [length u16, body];
 * some lengths stand for something else that happens (below). A member's
 * message comes by a link of the process that it says it is from, all else
 * from a peer that is up. */
#include <stdio.h>
#include <string.h>

#include "mesh/mesh.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    TICK = 0xFFFF,    /* time passes until something is due */
    LINK_UP = 0xFFFE, /* to whoever sent a member's message last */
    LINK_DOWN = 0xFFFD,
    UNABLE = 0xFFFC, /* we reach a worker, or not */
    READ = 0xFFFB,   /* a batch, of the worker's rank 0 */
};

#define PEER    UINT64_C(2)
#define WORKERS 3U

static struct member_message message;
static uint8_t bytes[MEMBER_CODEC_MAX + 1];

struct node {
    struct cluster *cluster;
    uint64_t now_us;
    uint64_t last; /* session of the last member's message */
    char last_address[MEMBER_ADDRESS_MAX];
    uint64_t names[WORKERS];
    bool unable;
    uint64_t seq;
};

static struct event_stream
stream_of(uint32_t worker)
{
    return (struct event_stream){.worker = rng_mix(worker + 77)};
}

static void
take_gossip(struct node *node, const struct gossip_out *out)
{
    struct gossip *gossip = cluster_gossip(node->cluster);

    switch (out->kind) {
    case GOSSIP_APPLY:
        CHECK(event_check(out->record->words, out->record->words_count));
        gossip_digest(gossip, out->stream, out->record->words_count,
                      out->record->seq);
        break;
    case GOSSIP_EXPORT:
        gossip_exported(gossip, out->token, NULL, 0, 0, node->now_us);
        break;
    case GOSSIP_SEND:
        CHECK(false);
        break;
    case GOSSIP_RESET:
    case GOSSIP_STATE:
    case GOSSIP_REREAD:
    case GOSSIP_BELIEF:
        break;
    }
}

static void
take(struct node *node, const struct cluster_out *out)
{
    struct discover_answer answer = {.outcome = DISCOVER_ABSENT};

    switch (out->kind) {
    case CLUSTER_SEND:
        CHECK(out->address[0] != '\0' && out->tail.len < MESH_BODY_MAX);
        CHECK(out->head >= 1 && out->head <= 4);
        break;
    case CLUSTER_GOSSIP:
        take_gossip(node, &out->gossip);
        break;
    case CLUSTER_RESOLVE:
        answer.ticket = out->discover.ticket;
        cluster_answered(node->cluster, &answer, node->now_us);
        break;
    case CLUSTER_DOUBT:
    case CLUSTER_DROP:
        CHECK(out->address[0] != '\0');
        break;
    case CLUSTER_MEMBER:
    case CLUSTER_NEWS:
    case CLUSTER_READ:
    case CLUSTER_WORKER:
    case CLUSTER_READY:
        break;
    }
}

static void
pull(struct node *node)
{
    struct cluster_out out;
    const char *reason = "";

    while (cluster_next_out(node->cluster, &out)) {
        take(node, &out);
    }
    if (!cluster_check(node->cluster, &reason)) {
        base_check_failed(reason, __FILE__, __LINE__, __func__);
    }
}

static void
receive(struct node *node, const uint8_t *data, size_t len)
{
    uint64_t session = PEER;
    struct slice body = {.ptr = (const char *)data, .len = len};

    if (len > 0 && data[0] == 1 &&
        member_codec_read(data + 1, len - 1, &message) == 0) {
        session = message.from.id.word[0];
        node->last = session;
        memcpy(node->last_address, message.from.address,
               sizeof node->last_address);
    }
    int rc = cluster_recv(node->cluster, session, body, node->now_us);
    CHECK(rc >= 0 && rc <= CLUSTER_E_UNKNOWN);
    pull(node);
}

/* A peer that is a member, and up. */
static void
meet(struct node *node)
{
    static const struct member_self self = {.id = {{PEER, 1}},
                                            .name = "peer",
                                            .address = "10.0.0.2:7946",
                                            .island = "eu/fra"};

    message = (struct member_message){
        .kind = MEMBER_PING,
        .number = 1,
        .up_ms = 5,
        .from = {.id = self.id, .state = MEMBER_ALIVE},
    };
    memcpy(message.from.name, self.name, sizeof message.from.name);
    memcpy(message.from.address, self.address, sizeof message.from.address);
    memcpy(message.from.island, self.island, sizeof message.from.island);
    bytes[0] = 1;
    size_t size = member_codec_write(&message, bytes + 1);
    receive(node, bytes, size + 1);
    cluster_link_up(node->cluster, self.address, PEER, node->now_us);
    pull(node);
}

static void
start(struct node *node)
{
    static const struct member_self self = {.id = {{1, 1}},
                                            .name = "node-0",
                                            .address = "10.0.0.0:7946",
                                            .island = "us/east"};
    const struct island_path island = island_path_of(SLICE("eu"));
    struct cluster_config config = cluster_config_default();
    struct discover_join join;

    config.gossip.log_records = 64;
    config.gossip.sends_max = 256;
    config.gossip.streams_max = 16;
    CHECK(cluster_new(&node->cluster, &config, &self, node->now_us, 1) == 0);
    CHECK(discover_parse(SLICE("dns:mesh.example:7946"), &join) == NULL);
    CHECK(cluster_join(node->cluster, &join, node->now_us) == 0);
    for (uint32_t i = 0; i < WORKERS; i++) {
        CHECK(cluster_worker_add(node->cluster, stream_of(i).worker, 1, &island,
                                 node->now_us) == 0);
    }
    pull(node);
    meet(node);
}

static void
read_batch(struct node *node)
{
    struct gossip *gossip = cluster_gossip(node->cluster);
    uint64_t room[16] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    if (node->seq == 0) {
        gossip_local_begin(gossip, stream_of(0), 7, true, 0, node->now_us);
        pull(node);
    }
    record->seq = node->seq++;
    record->words_count = 2;
    record->words[0] = event_op(EVENT_STORE, TIER_DEVICE, 1);
    record->words[1] = rng_mix(record->seq);
    gossip_local_record(gossip, stream_of(0), record, record->seq, true,
                        node->now_us);
    pull(node);
}

/* False: it is a body's length. */
static bool
happens(struct node *node, size_t what)
{
    uint64_t due_us = cluster_deadline(node->cluster);

    switch (what) {
    case TICK:
        if (due_us == UINT64_MAX || due_us <= node->now_us) {
            due_us = node->now_us + 1000;
        }
        node->now_us = due_us;
        cluster_tick(node->cluster, node->now_us);
        break;
    case LINK_UP:
        cluster_link_up(node->cluster, node->last_address, node->last,
                        node->now_us);
        break;
    case LINK_DOWN:
        cluster_link_down(node->cluster, node->last_address, node->now_us);
        break;
    case UNABLE:
        node->unable = !node->unable;
        cluster_unable(node->cluster, stream_of(1).worker, node->unable,
                       node->now_us);
        break;
    case READ:
        read_batch(node);
        break;
    default:
        return false;
    }
    pull(node);
    return true;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct node node = {.now_us = 1000};

    start(&node);
    while (size >= 2) {
        size_t len = (size_t)(data[0] | data[1] << 8);
        data += 2;
        size -= 2;
        if (happens(&node, len)) {
            continue;
        }
        len = len < size ? len : size;
        receive(&node, data, len);
        data += len;
        size -= len;
    }
    cluster_free(node.cluster);
    return 0;
}
