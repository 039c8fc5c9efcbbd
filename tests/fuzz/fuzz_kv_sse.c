/* Whatever a source of cache events says, records are sound, ranks and tiers
 * exist, an epoch begins with a BEGIN and its records count up. A zero byte
 * breaks the connection, and the next one begins. */
#include <string.h>

#include "node/events/kv_sse_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RANKS     3
#define BYTES_MAX 400

struct rank {
    uint64_t epoch; /* 0: none yet */
    uint64_t seq;
    uint32_t block_tokens;
    enum kv_stream_state state;
};

static struct rank ranks[RANKS];

static void
take_record(const struct kv_sse_out *out)
{
    const struct event_record *record = out->record;
    struct rank *rank = &ranks[out->rank];

    CHECK(record->stream.worker == 77 && record->stream.rank == out->rank);
    CHECK(record->epoch == rank->epoch && record->seq > rank->seq);
    CHECK(event_check(record->words, record->words_count));
    CHECK(record->words_count > 0 && record->words_count <= KV_SSE_WORDS_MAX);
    CHECK(rank->block_tokens == 0 ||
          record->block_tokens == rank->block_tokens);
    CHECK(rank->state == KV_STREAM_LIVE || rank->state == KV_STREAM_PARTIAL);
    rank->seq = record->seq;
    rank->block_tokens = record->block_tokens;
}

/* True: the connection is to be closed. */
static bool
pull(struct kv_sse *sse)
{
    struct kv_sse_out out;
    bool hangup = false;

    while (kv_sse_next_out(sse, &out)) {
        if (out.kind == KV_SSE_HANGUP) {
            hangup = true;
            continue;
        }
        CHECK(out.rank < RANKS);
        if (out.kind == KV_SSE_BEGIN) {
            CHECK(out.process != 0 && out.reason != NULL);
            ranks[out.rank] = (struct rank){.epoch = out.process};
        } else if (out.kind == KV_SSE_STATE) {
            ranks[out.rank].state = out.state;
        } else {
            take_record(&out);
        }
    }
    return hangup;
}

/* One connection. */
static void
play(struct kv_sse *sse, struct sse_read *read, struct slice bytes)
{
    struct sse_event event;

    sse_read_restart(read);
    if (bytes.len > 0) {
        kv_sse_connected(sse);
        CHECK(!pull(sse));
        sse_read_give(read, bytes);
        while (sse_read_next(read, &event)) {
            kv_sse_event(sse, &event);
            if (pull(sse)) {
                break;
            }
        }
    }
    kv_sse_disconnected(sse);
    CHECK(!pull(sse));
    CHECK(kv_sse_last_id(sse).len <= SSE_READ_ID_MAX);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        CHECK(ranks[rank].epoch == ranks[0].epoch);
        CHECK(ranks[rank].epoch == 0 ||
              ranks[rank].state == KV_STREAM_CONNECTING);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {.ptr = (const char *)data, .len = size};
    struct sse_read read;
    struct kv_sse sse;

    memset(ranks, 0, sizeof ranks);
    sse_read_init(&read, BYTES_MAX);
    kv_sse_init(&sse, 77, RANKS, size);
    while (bytes.len > 0) {
        const char *end = memchr(bytes.ptr, 0, bytes.len);
        size_t len = end != NULL ? (size_t)(end - bytes.ptr) : bytes.len;
        play(&sse, &read, (struct slice){bytes.ptr, len});
        bytes.ptr += len + (end != NULL);
        bytes.len -= len + (end != NULL);
    }
    CHECK(sse.stats.applied + sse.stats.other <= sse.stats.events);
    sse_read_fini(&read);
    return 0;
}
