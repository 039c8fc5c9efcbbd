/*
 * Writes the corpus of fuzz_gossip_frames: what a reader tells a node that comes
 * late (vectors, deltas, answers, pages), in one file, and each frame in a file
 * of its own.
 *
 *   gossip_seeds DIRECTORY
 */
#include <stdio.h>

#include "gossip_pair.h"
#include "index/base/rng.h"

static uint64_t now_us = GOSSIP_PAIR_START;
static struct gossip *nodes[2];
static const char *directory;
static FILE *all;
static uint32_t frames;

static void
write_frame(FILE *file, const uint8_t *bytes, size_t len)
{
    uint8_t head[2] = {(uint8_t)(len & 0xff), (uint8_t)(len >> 8)};

    fwrite(head, 1, 2, file);
    fwrite(bytes, 1, len, file);
}

static void
keep(const uint8_t *bytes, size_t len)
{
    char path[512];

    snprintf(path, sizeof path, "%s/frame_%03u", directory, frames++);
    FILE *file = frames <= 40 ? fopen(path, "wb") : NULL;
    if (file != NULL) {
        write_frame(file, bytes, len);
        fclose(file);
    }
    write_frame(all, bytes, len);
}

static bool
pull(uint32_t at)
{
    struct gossip_out out;
    bool any = false;

    while (gossip_next_out(nodes[at], &out)) {
        uint64_t words[] = {event_op(EVENT_STORE, TIER_HOST, 1), out.cursor};
        any = true;
        if (out.kind == GOSSIP_SEND) {
            if (at == 1 && nodes[0] != NULL) {
                keep(out.bytes, out.len);
            }
            if (nodes[1 - at] != NULL) {
                (void)!gossip_recv(nodes[1 - at], at + 1, out.bytes, out.len,
                                   now_us);
            }
        } else if (out.kind == GOSSIP_EXPORT) {
            gossip_exported(nodes[at], out.token, words, 2,
                            out.cursor > 3 ? GOSSIP_CURSOR_END : out.cursor + 1,
                            now_us);
        } else if (out.kind == GOSSIP_APPLY) {
            gossip_digest(nodes[at], out.stream, out.record->seq, 1);
        }
    }
    return any;
}

static void
run(uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i++, now_us += 1000) {
        while (pull(0) || pull(1)) {
        }
        gossip_tick(nodes[0], now_us);
        gossip_tick(nodes[1], now_us);
    }
}

static void
read_batches(uint64_t from, uint64_t to)
{
    uint64_t room[32] = {0};
    struct event_record *record = (struct event_record *)(void *)room;

    for (uint64_t seq = from; seq < to; seq++) {
        record->seq = seq;
        record->holes = seq % 5 == 0 ? 3 : 0;
        record->block_tokens = 16;
        record->words_count = seq % 7 == 6 ? 1 : 4;
        record->words[0] = seq % 7 == 6 ? event_op(EVENT_CLEAR, TIER_DEVICE, 0)
                                        : event_op(EVENT_STORE, TIER_DEVICE, 3);
        for (uint32_t i = 1; i < 4; i++) {
            record->words[i] = rng_mix(seq * 3 + i);
        }
        gossip_local_record(nodes[1], gossip_pair_stream, record, rng_mix(seq),
                            true, now_us);
        while (pull(1)) {
        }
    }
}

/* A record of the process that the target reads, with all the bytes of a later
 * version that a frame takes. */
static void
write_long_record(void)
{
    static const uint8_t frame[] = {
        3,    0,    0,                      /* DELTA */
        7,    0,    0,    0, 0, 0, 0, 0, 0, /* stream */
        1,    99,   0,    0, 0, 0, 0, 0, 0, /* epoch */
        1,    0,                            /* whole, after 0 */
        0xe0, 0xff, 0x07,                   /* 131,040 bytes */
        0xff, 1,                            /* the first batch */
        0,    1,    0,    0, 0, 0,          /* no words */
    };
    char path[512];

    snprintf(path, sizeof path, "%s/long_record", directory);
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        fwrite("\xfe\xff", 1, 2, file);
        write_frame(file, frame, sizeof frame);
        fwrite("\xff\xff\xff\xff", 1, 4, file);
        fclose(file);
    }
}

int
main(int argc, char **argv)
{
    char path[512];
    struct gossip_gauge gauge = {.inflight = 2, .queued_tokens = 900};

    if (argc != 2) {
        (void)fprintf(stderr, "usage: gossip_seeds DIRECTORY\n");
        return 2;
    }
    directory = argv[1];
    snprintf(path, sizeof path, "%s/conversation", directory);
    all = fopen(path, "wb");
    nodes[1] = gossip_pair_new(2, now_us);
    gossip_role(nodes[1], gossip_pair_stream, 0, 0, now_us);
    gossip_local_begin(nodes[1], gossip_pair_stream, 99, true, 0, now_us);
    gossip_peer_down(nodes[1], 1, now_us);
    read_batches(0, 60);
    nodes[0] = gossip_pair_new(1, now_us);
    if (all == NULL || gossip_peer_up(nodes[1], 1, now_us) != 0) {
        return 1;
    }
    run(20);
    read_batches(60, 70);
    (void)gossip_gauge_set(nodes[1], 5, &gauge, now_us);
    uint64_t keys[] = {21, 22, 23};
    gossip_belief_add(
        nodes[1],
        &(struct gossip_belief){
            .worker = 5, .root = 20, .parent = 20, .count = 3, .keys = keys},
        now_us);
    gossip_belief_add(nodes[1],
                      &(struct gossip_belief){.worker = 5,
                                              .rank = 1,
                                              .count = 2,
                                              .keys = keys + 1,
                                              .expected = true},
                      now_us);
    run(700);
    gossip_local_begin(nodes[1], gossip_pair_stream, 100, true, 0, now_us);
    read_batches(0, 3);
    run(300);
    write_long_record();
    fclose(all);
    gossip_free(nodes[0]);
    gossip_free(nodes[1]);
    return 0;
}
