/* Whatever a peer sends, records that come out are sound, resets precede what
 * they are for, and the core's invariants hold. The input is frames, each
 * after its length in two bytes; a length of 0xffff lets time pass. */
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip.h"
#include "gossip_pair.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t name;
static uint64_t seen;

static void
take(struct gossip *g, const struct gossip_out *out, uint64_t now_us)
{
    uint64_t words[] = {event_op(EVENT_STORE, TIER_DEVICE, 1), 5};

    switch (out->kind) {
    case GOSSIP_SEND:
        CHECK(out->peer == GOSSIP_PAIR_PEER && out->len > 1);
        break;
    case GOSSIP_RESET:
        CHECK(out->reason != NULL && out->epoch.no != 0);
        name = out->name;
        break;
    case GOSSIP_APPLY:
        CHECK(out->record->epoch == name);
        CHECK(event_check(out->record->words, out->record->words_count));
        gossip_digest(g, out->stream, out->record->words_count, name);
        break;
    case GOSSIP_EXPORT:
        gossip_exported(g, out->token, words, 2,
                        out->cursor > 3 ? GOSSIP_CURSOR_END : out->cursor + 1,
                        now_us);
        break;
    case GOSSIP_BELIEF:
        CHECK(out->belief.count > 0 && out->peer == GOSSIP_PAIR_PEER);
        for (uint32_t i = 0; i < out->belief.count; i++) {
            seen ^= out->belief.keys[i];
        }
        break;
    case GOSSIP_STATE:
    case GOSSIP_REREAD:
        break;
    }
}

static void
pull(struct gossip *g, uint64_t now_us)
{
    const char *reason = "";
    struct gossip_out out;

    while (gossip_next_out(g, &out)) {
        take(g, &out, now_us);
    }
    if (!gossip_check(g, &reason)) {
        base_check_failed(reason, __FILE__, __LINE__, __func__);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t now_us = GOSSIP_PAIR_START;
    struct gossip *g = gossip_pair_new(GOSSIP_PAIR_SELF, now_us);

    pull(g, now_us);
    while (size >= 2) {
        size_t len = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (len == 0xffff) {
            now_us += 100000;
            gossip_tick(g, now_us);
        } else {
            len = len < size ? len : size;
            /* On its own, so that a byte too many is seen. */
            uint8_t *frame = malloc(len + 1);
            memcpy(frame, data, len);
            (void)!gossip_recv(g, GOSSIP_PAIR_PEER, frame, len, now_us);
            pull(g, now_us);
            free(frame);
            data += len;
            size -= len;
        }
        pull(g, now_us);
    }
    gossip_free(g);
    return 0;
}
