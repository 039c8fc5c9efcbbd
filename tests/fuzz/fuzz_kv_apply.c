/*
 * Whatever a batch says, applied twice over: the ledger stays sound, what
 * comes out are whole words, no more of them than promised and as many as are
 * counted, and a stream that is closed leaves nothing behind.
 */
#include "index/base/check.h"
#include "node/events/kv_apply_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BYTES_MAX 4096

static struct kv_reader *reader;
static struct ledger *ledger;
static uint32_t stream;
static struct kv_counters counters;

static void
start(void)
{
    static const struct ledger_limits limits = {.bytes_max = (size_t)8 << 20};

    if (reader == NULL) {
        CHECK(kv_reader_new(&reader, &KV_LIMITS_DEFAULT) == 0);
        CHECK(ledger_new(&ledger, &limits) == 0);
    }
    CHECK(ledger_open(ledger, &stream) == 0);
}

static void
stop(void)
{
    const char *reason;
    struct ledger_stats stats;

    CHECK(ledger_check(ledger, &reason));
    ledger_close(ledger, stream);
    while (ledger_work(ledger, 1000)) {
    }
    ledger_stats(ledger, &stats);
    CHECK(stats.blocks == 0 && stats.names == 0);
}

/* Blocks that are news, by the words. */
static void
count_words(const struct event_words *out, uint64_t *stored, uint64_t *removed)
{
    for (uint32_t at = 0; at < out->count;) {
        uint64_t op = out->words[at];
        uint32_t count = event_op_count(op);
        *stored += event_op_kind(op) == EVENT_STORE ? count : 0;
        *removed += event_op_kind(op) == EVENT_REMOVE ? count : 0;
        at += 1 + count;
    }
}

static void
apply_batch(struct kv_apply *apply, struct slice payload)
{
    static uint64_t words[KV_APPLY_WORDS(BYTES_MAX)];
    struct event_words out = {.words = words,
                              .max = (uint32_t)KV_APPLY_WORDS(payload.len)};
    uint64_t stored = counter_read(&counters.blocks_stored);
    uint64_t removed = counter_read(&counters.blocks_removed);
    int rc = kv_reader_begin(reader, payload);

    CHECK(rc == 0 || rc == KV_E_PAYLOAD);
    do {
        rc = kv_apply(apply, reader, ledger, stream, &counters, &out);
        CHECK(!out.failed && event_check(words, out.count));
        if (rc == KV_APPLY_E_CLEARED) {
            stop();
            start();
            *apply = (struct kv_apply){.rank = apply->rank};
        }
    } while (rc == KV_APPLY_E_CLEARED);
    CHECK(rc == 0 || rc == KV_APPLY_E_DAMAGED || rc == KV_APPLY_E_GONE);
    count_words(&out, &stored, &removed);
    CHECK(counter_read(&counters.blocks_stored) == stored);
    CHECK(counter_read(&counters.blocks_removed) == removed);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct kv_apply apply = {0};
    struct slice payload = {(const char *)data, size};

    if (size > BYTES_MAX) {
        return 0;
    }
    start();
    apply_batch(&apply, payload);
    apply_batch(&apply, payload);
    stop();
    return 0;
}
