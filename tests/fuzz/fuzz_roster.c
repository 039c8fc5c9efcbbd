/* Whatever a peer sends, what comes out is within bounds and the core's
 * invariants hold. The input is frames, each after its length in two bytes; a
 * length of 0xffff lets time pass, 0xfffe is a word of an operator. */
#include <stdlib.h>
#include <string.h>

#include "gossip/gossip.h"

#define PEER 7U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t seen;

static void
pull(struct roster *r)
{
    const char *reason = "";
    struct roster_out out;

    while (roster_next_out(r, &out)) {
        if (out.kind == ROSTER_SEND) {
            CHECK(out.peer == PEER && out.len > 1 && out.len <= 8192);
            seen ^= out.bytes[out.len - 1];
            continue;
        }
        CHECK(strlen(out.entry.id) - 1 < ROSTER_ID_MAX - 1);
        CHECK(out.entry.spec.len <= ROSTER_SPEC_MAX);
        CHECK(out.entry.version != 0);
        for (size_t i = 0; i < out.entry.spec.len; i++) {
            seen ^= (uint64_t)out.entry.spec.ptr[i];
        }
    }
    if (!roster_check(r, &reason)) {
        base_check_failed(reason, __FILE__, __LINE__, __func__);
    }
}

static void
word(struct roster *r, uint64_t now_us)
{
    (void)!roster_configure(r, "c", SLICE("file"), now_us);
    pull(r);
    (void)!roster_put(r, "w", SLICE("spec"), now_us);
    pull(r);
    (void)!roster_drain(r, "w", true, now_us);
    pull(r);
    (void)!roster_remove(r, "a", now_us);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct roster_config config = roster_config_default();
    uint64_t now_us = 1000000;
    struct roster *r = NULL;

    config.entries_max = 4;
    config.frame_bytes = 8192;
    config.tombstone_ms = 5000;
    if (roster_new(&r, &config, now_us, 1) != 0 ||
        roster_peer_up(r, PEER, now_us) != 0) {
        abort();
    }
    while (size >= 2) {
        size_t len = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (len == 0xffff) {
            now_us += 700000;
            roster_tick(r, now_us);
        } else if (len == 0xfffe) {
            word(r, now_us);
        } else {
            len = len < size ? len : size;
            /* On its own, so that a byte too many is seen. */
            uint8_t *frame = malloc(len + 1);
            memcpy(frame, data, len);
            (void)!roster_recv(r, PEER, frame, len, now_us);
            pull(r);
            free(frame);
            data += len;
            size -= len;
        }
        pull(r);
    }
    roster_free(r);
    return 0;
}
