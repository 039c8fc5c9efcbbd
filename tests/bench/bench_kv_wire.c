/*
 * Nanoseconds for one KV event, decoded from batches of 64 that do not repeat,
 * beside msgpack-c, which only builds its object tree, in the same run: the
 * best of many batches, the two taking turns.
 *
 * How token ids mix decides what a decoder of msgpack costs, so there are
 * three mixes: all of one width, as English text (one id in ten below 128, one
 * in ten above 65535), and every width as likely as any.
 */
#include <msgpack.h>
#include <stdio.h>
#include <time.h>

#include "index/base/rng.h"
#include "node/events/kv_wire_internal.h"
#include "tests/unit/node/events/kv_batch.h"

#define BATCHES 256
#define EVENTS  64
#define ROUNDS  40

enum mix {
    MIX_ONE,
    MIX_TEXT,
    MIX_WILD,
};

static struct kv_batch batches[BATCHES];
static struct rng rng;

static uint64_t
token(enum mix mix)
{
    static const uint64_t bounds[] = {0, 128, 256, 65536, 152000};
    uint64_t dice = rng_below(&rng, 100);
    unsigned width = mix == MIX_ONE    ? 2
                     : mix == MIX_WILD ? (unsigned)(dice % 4)
                     : dice < 10       ? 0
                     : dice < 12       ? 1
                     : dice < 90       ? 2
                                       : 3;

    return bounds[width] + rng_below(&rng, bounds[width + 1] - bounds[width]);
}

static void
put_tokens(struct kv_batch *b, enum mix mix, unsigned count)
{
    put_array(b, count);
    for (unsigned i = 0; i < count; i++) {
        put_uint(b, token(mix));
    }
}

static void
put_hashes(struct kv_batch *b, unsigned count)
{
    put_array(b, count);
    for (unsigned i = 0; i < count; i++) {
        put_uint(b, rng_next(&rng));
    }
}

/* As vLLM has it today. */
static void
put_map_event(struct kv_batch *b, enum mix mix, unsigned blocks)
{
    put_map(b, 11);
    put_pair(b, "type", "BlockStored");
    put_text(b, "block_hashes");
    put_hashes(b, blocks);
    put_text(b, "parent_block_hash");
    put_uint(b, rng_next(&rng));
    put_text(b, "token_ids");
    put_tokens(b, mix, blocks * 16);
    put_text(b, "block_size");
    put_uint(b, 16);
    put_pair(b, "lora_id", NULL);
    put_pair(b, "medium", "GPU");
    put_pair(b, "lora_name", NULL);
    put_text(b, "extra_keys");
    put_array(b, blocks);
    for (unsigned i = 0; i < blocks; i++) {
        put_nil(b);
    }
    put_text(b, "group_idx");
    put_uint(b, 0);
    put_pair(b, "kv_cache_spec_kind", "full_attention");
}

/* As SGLang and vLLM had it. */
static void
put_array_event(struct kv_batch *b, enum mix mix, unsigned blocks)
{
    put_array(b, 7);
    put_text(b, "BlockStored");
    put_hashes(b, blocks);
    put_uint(b, rng_next(&rng));
    put_tokens(b, mix, blocks * 16);
    put_uint(b, 16);
    put_nil(b);
    put_text(b, "GPU");
}

static void
put_removed_event(struct kv_batch *b)
{
    put_map(b, 4);
    put_pair(b, "type", "BlockRemoved");
    put_text(b, "block_hashes");
    put_hashes(b, 1);
    put_pair(b, "medium", "GPU");
    put_text(b, "group_idx");
    put_uint(b, 0);
}

static double
now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static double
ours(struct kv_reader *reader, unsigned events)
{
    double start = now_ns();
    struct kv_event event;
    enum kv_fault fault;
    unsigned read = 0;

    for (int i = 0; i < BATCHES; i++) {
        int rc = kv_reader_begin(reader, kv_batch_slice(&batches[i]));
        while (rc == 0) {
            rc = kv_reader_next(reader, &event, &fault, NULL);
            read += rc == 0;
        }
        CHECK(rc == KV_E_END);
    }
    CHECK(read == BATCHES * events);
    return (now_ns() - start) / read;
}

static double
theirs(unsigned events)
{
    double start = now_ns();

    for (int i = 0; i < BATCHES; i++) {
        msgpack_unpacked tree;
        size_t used = 0;
        struct slice payload = kv_batch_slice(&batches[i]);
        msgpack_unpacked_init(&tree);
        CHECK(msgpack_unpack_next(&tree, payload.ptr, payload.len, &used) ==
              MSGPACK_UNPACK_SUCCESS);
        msgpack_unpacked_destroy(&tree);
    }
    return (now_ns() - start) / (BATCHES * events);
}

static void
bench(struct kv_reader *reader, const char *what, unsigned events)
{
    double us = 1e18;
    double them = 1e18;
    size_t bytes = 0;

    for (int i = 0; i < BATCHES; i++) {
        bytes += batches[i].len;
    }
    for (int i = 0; i < ROUNDS; i++) {
        double a = ours(reader, events);
        double b = theirs(events);
        us = a < us ? a : us;
        them = b < them ? b : them;
    }
    double size = (double)bytes / (BATCHES * events);
    printf("%-34s %5.0f B  ours %7.1f ns %5.2f GB/s   msgpack-c %8.1f ns "
           "%5.1fx\n",
           what, size, us, size / us, them, them / us);
}

static void
bench_stored(struct kv_reader *reader, bool as_map, enum mix mix,
             unsigned blocks)
{
    static const char *const names[] = {"one width", "text", "wild"};
    unsigned events = blocks == 1 ? EVENTS : 8;
    char what[64];

    for (int i = 0; i < BATCHES; i++) {
        put_envelope(&batches[i], events);
        for (unsigned j = 0; j < events; j++) {
            (as_map ? put_map_event : put_array_event)(&batches[i], mix,
                                                       blocks);
        }
    }
    (void)snprintf(what, sizeof what, "stored, %s, %u block%s, %s",
                   as_map ? "map" : "array", blocks, blocks > 1 ? "s" : "",
                   names[mix]);
    bench(reader, what, events);
}

int
main(void)
{
    struct kv_reader *reader;

    CHECK(kv_reader_new(&reader, &KV_LIMITS_DEFAULT) == 0);
    rng_init(&rng, 1);
    for (int as_map = 0; as_map < 2; as_map++) {
        for (unsigned mix = MIX_ONE; mix <= MIX_WILD; mix++) {
            bench_stored(reader, as_map, (enum mix)mix, 1);
        }
        bench_stored(reader, as_map, MIX_TEXT, 64);
    }
    for (int i = 0; i < BATCHES; i++) {
        put_envelope(&batches[i], EVENTS);
        for (unsigned j = 0; j < EVENTS; j++) {
            put_removed_event(&batches[i]);
        }
    }
    bench(reader, "removed, map, 1 block", EVENTS);
    kv_reader_free(reader);
    return 0;
}
