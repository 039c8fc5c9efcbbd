/*
 * Whatever a peer sends, records that come out are sound, resets precede what
 * they are for, and the core's invariants hold; and what one node takes in, it
 * passes on, and the next one takes it: both end in the same epoch at the same
 * position. The input is frames, each after its length in two bytes. A length
 * of 0xffff lets time pass; after 0xfffe the next frame is followed by zeros
 * until it is as long as can be.
 */
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip.h"
#include "gossip_pair.h"

#define STEP_US   100000U
#define AGREE_MAX 300U /* steps until both are where the other one is */
#define LONG      (128U * 1024)
#define READ      99U /* process that the first one reads */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct node {
    struct gossip *g;
    uint64_t id;
    uint64_t name;
};

static struct node nodes[2];
static uint64_t now_us;
static uint64_t seen;

static void
begin_reading(uint64_t ask)
{
    gossip_local_begin(nodes[0].g, gossip_pair_stream, READ, true, ask, now_us);
    gossip_local_live(nodes[0].g, gossip_pair_stream, true, now_us);
}

/* A frame to the node that is not the fuzzer. */
static void
carry(const struct node *from, const struct gossip_out *out)
{
    const struct node *to = from == &nodes[0] ? &nodes[1] : &nodes[0];

    CHECK(out->len > 1);
    if (out->peer != GOSSIP_PAIR_PEER) {
        CHECK(out->peer == to->id);
        int rc = gossip_recv(to->g, from->id, out->bytes, out->len, now_us);
        CHECK(rc == 0);
    }
}

static void
take(struct node *node, const struct gossip_out *out)
{
    uint64_t words[] = {event_op(EVENT_STORE, TIER_DEVICE, 1), 5};

    switch (out->kind) {
    case GOSSIP_SEND:
        carry(node, out);
        break;
    case GOSSIP_RESET:
        CHECK(out->reason != NULL && out->epoch.no != 0);
        node->name = out->name;
        break;
    case GOSSIP_APPLY:
        CHECK(out->record->epoch == node->name);
        CHECK(event_check(out->record->words, out->record->words_count));
        gossip_digest(node->g, out->stream, 1, 1);
        break;
    case GOSSIP_EXPORT:
        gossip_exported(node->g, out->token, words, 2,
                        out->cursor > 3 ? GOSSIP_CURSOR_END : out->cursor + 1,
                        now_us);
        break;
    case GOSSIP_BELIEF:
        CHECK(out->belief.count > 0 && out->peer == GOSSIP_PAIR_PEER);
        for (uint32_t i = 0; i < out->belief.count; i++) {
            seen ^= out->belief.keys[i];
        }
        break;
    case GOSSIP_REREAD:
        begin_reading(out->ask);
        break;
    case GOSSIP_STATE:
        break;
    }
}

static bool
pull_one(struct node *node)
{
    struct gossip_out out;
    bool any = false;

    while (gossip_next_out(node->g, &out)) {
        take(node, &out);
        any = true;
    }
    return any;
}

static void
pull(void)
{
    const char *reason = "";

    while (pull_one(&nodes[0]) || pull_one(&nodes[1])) {
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (!gossip_check(nodes[i].g, &reason)) {
            base_check_failed(reason, __FILE__, __LINE__, __func__);
        }
    }
}

static void
step(void)
{
    now_us += STEP_US;
    for (uint32_t i = 0; i < 2; i++) {
        gossip_tick(nodes[i].g, now_us);
        pull();
    }
}

static void
begin(void)
{
    now_us = GOSSIP_PAIR_START;
    nodes[0] = (struct node){.id = GOSSIP_PAIR_SELF};
    nodes[1] = (struct node){.id = GOSSIP_PAIR_NEXT};
    for (uint32_t i = 0; i < 2; i++) {
        nodes[i].g = gossip_pair_new(nodes[i].id, now_us);
    }
    CHECK(gossip_peer_up(nodes[0].g, GOSSIP_PAIR_NEXT, now_us) == 0);
    gossip_role(nodes[0].g, gossip_pair_stream, 0, 0, now_us);
    begin_reading(0);
    pull();
}

/* A frame on its own, so that a byte too many is seen. */
static void
say(const uint8_t *data, size_t len, size_t padded)
{
    uint8_t *frame = calloc(1, padded + 1);

    CHECK(frame != NULL && len <= padded);
    memcpy(frame, data, len);
    (void)!gossip_recv(nodes[0].g, GOSSIP_PAIR_PEER, frame, padded, now_us);
    free(frame);
    pull();
}

static void
hear(const uint8_t *data, size_t size)
{
    bool padded = false;

    while (size >= 2) {
        size_t len = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (len == 0xffff) {
            step();
        } else if (len == 0xfffe) {
            padded = true;
        } else {
            len = len < size ? len : size;
            say(data, len, padded ? LONG : len);
            padded = false;
            data += len;
            size -= len;
        }
    }
}

/* Without the fuzzer the two agree before long. */
static void
agree(void)
{
    struct gossip_status a = {0};
    struct gossip_status b = {0};

    gossip_peer_down(nodes[0].g, GOSSIP_PAIR_PEER, now_us);
    for (uint32_t i = 0; i < AGREE_MAX; i++) {
        step();
        CHECK(gossip_status(nodes[0].g, 0, &a) &&
              gossip_status(nodes[1].g, 0, &b));
        if (a.epoch.no == b.epoch.no && a.epoch.id == b.epoch.id &&
            a.pos == b.pos && a.complete == b.complete && !a.torn && !b.torn) {
            return;
        }
    }
    CHECK(a.epoch.no == b.epoch.no && a.epoch.id == b.epoch.id);
    CHECK(a.pos == b.pos);
    CHECK(a.complete == b.complete && !a.torn && !b.torn);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    begin();
    hear(data, size);
    agree();
    for (uint32_t i = 0; i < 2; i++) {
        gossip_free(nodes[i].g);
    }
    return 0;
}
