/*
 * The nodes that gossip's fuzz target and the maker of its seeds agree about, so
 * that a seed is a conversation that the target understands. The third one
 * takes what the first one passes on.
 */
#ifndef TESTS_FUZZ_GOSSIP_PAIR_H
#define TESTS_FUZZ_GOSSIP_PAIR_H

#include <stdlib.h>

#include "gossip/gossip.h"

#define GOSSIP_PAIR_SELF  1
#define GOSSIP_PAIR_PEER  2
#define GOSSIP_PAIR_NEXT  3
#define GOSSIP_PAIR_START UINT64_C(1000000)

static const struct event_stream gossip_pair_stream = {.worker = 7};

/* One of them, small, with the stream and a link to the first, or from the
 * first to the second. */
static inline struct gossip *
gossip_pair_new(uint64_t self, uint64_t now_us)
{
    struct gossip_config config = gossip_config_default();
    struct gossip *g = NULL;

    config.log_records = 16;
    config.log_bytes = 256 * 1024;
    config.frame_bytes = 128 * 1024;
    config.sends_max = 64;
    config.workers_max = 4;
    uint64_t other =
        self == GOSSIP_PAIR_SELF ? GOSSIP_PAIR_PEER : GOSSIP_PAIR_SELF;
    if (gossip_new(&g, &config, self, now_us, self) != 0 ||
        gossip_stream_add(g, gossip_pair_stream, now_us) != 0 ||
        gossip_peer_up(g, other, now_us) != 0) {
        abort();
    }
    return g;
}

#endif
