/*
 * KV events from bytes to the mirror: batches of 64 BlockStored of 16 tokens a
 * block are decoded, applied to the ledger and to the mirror by one thread,
 * drained, while another thread asks mirror_match(). First the caches fill,
 * then for each block that comes the oldest conversation's last one goes, one
 * BlockRemoved a hash as vLLM says it. With 1 and with 32 blocks an event,
 * arrays and maps, names of each stream its own or the same in all 64.
 * Beside it msgpack-c decodes the same bytes to objects, and does no more.
 *
 *   meson test --benchmark -C BUILD --verbose bench/events
 *   bench_events [PAIRS [SHAPE]]
 */
#include <msgpack.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "index/base/pack.h"
#include "index/base/rng.h"
#include "tests/bench/hearer.h"

#define STREAMS      HEARER_STREAMS
#define LANES        64 /* sequences of a stream that run at once */
#define TOKENS       HEARER_TOKENS
#define CONVERSATION 128 /* blocks */
#define TIMED        16  /* batches between two looks at the clock */
#define SECOND_NS    1e9

struct shape {
    const char *name;
    bool maps;
    uint32_t blocks;  /* of an event */
    uint32_t holders; /* streams that are told the same */
};

/* Each lane of a teller has had so many blocks stored, and evicted. */
struct teller {
    uint64_t stored;
    uint64_t evicted;
};

struct sums {
    double ours_ns;
    double decode_ns;
    double dom_ns;
    uint64_t stored;
    uint64_t removed;
    uint64_t bytes;
};

static struct hearer hearer;
static struct teller teller[STREAMS];
static struct buf payload[TIMED];

static double
cpu_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * SECOND_NS + (double)t.tv_nsec;
}

/* ---- what the engines say ---- */

static uint64_t
name_of(uint32_t who, uint32_t lane, uint64_t block)
{
    return rng_mix((uint64_t)(who * LANES + lane) << 40 | block);
}

static void
pack_tokens(struct buf *out, uint64_t name)
{
    uint32_t tokens[TOKENS];

    hearer_tokens(name, tokens);
    for (uint32_t i = 0; i < TOKENS; i++) {
        pack_uint(out, tokens[i]);
    }
}

static void
pack_key(struct buf *out, bool maps, const char *key)
{
    if (maps) {
        pack_text(out, slice_of(key));
    }
}

static void
pack_stored(struct buf *out, const struct shape *shape, uint32_t who,
            uint32_t lane, uint64_t from)
{
    if (shape->maps) {
        pack_map(out, 9);
    } else {
        pack_array(out, 7);
    }
    pack_key(out, shape->maps, "type");
    pack_text(out, SLICE("BlockStored"));
    pack_key(out, shape->maps, "block_hashes");
    pack_array(out, shape->blocks);
    for (uint32_t i = 0; i < shape->blocks; i++) {
        pack_uint(out, name_of(who, lane, from + i));
    }
    pack_key(out, shape->maps, "parent_block_hash");
    if (from % CONVERSATION == 0) {
        pack_nil(out);
    } else {
        pack_uint(out, name_of(who, lane, from - 1));
    }
    pack_key(out, shape->maps, "token_ids");
    pack_array(out, shape->blocks * TOKENS);
    for (uint32_t i = 0; i < shape->blocks; i++) {
        pack_tokens(out, name_of(who, lane, from + i));
    }
    pack_key(out, shape->maps, "block_size");
    pack_uint(out, TOKENS);
    pack_key(out, shape->maps, "lora_id");
    pack_nil(out);
    pack_key(out, shape->maps, "medium");
    pack_text(out, SLICE("GPU"));
    if (shape->maps) {
        pack_text(out, SLICE("group_idx"));
        pack_uint(out, 0);
        pack_text(out, SLICE("kv_cache_spec_kind"));
        pack_text(out, SLICE("full_attention"));
    }
}

static void
pack_removed(struct buf *out, const struct shape *shape, uint64_t name)
{
    if (shape->maps) {
        pack_map(out, 4);
    } else {
        pack_array(out, 3);
    }
    pack_key(out, shape->maps, "type");
    pack_text(out, SLICE("BlockRemoved"));
    pack_key(out, shape->maps, "block_hashes");
    pack_array(out, 1);
    pack_uint(out, name);
    pack_key(out, shape->maps, "medium");
    pack_text(out, SLICE("GPU"));
    if (shape->maps) {
        pack_text(out, SLICE("group_idx"));
        pack_uint(out, 0);
    }
}

/* The oldest conversation's blocks, the last one first. */
static uint64_t
evicted_block(uint64_t nth)
{
    return nth / CONVERSATION * CONVERSATION + CONVERSATION - 1 -
           nth % CONVERSATION;
}

static void
pack_batch(struct buf *out, const struct shape *shape, uint32_t who,
           bool evicting)
{
    struct teller *t = &teller[who];

    buf_clear(out);
    pack_array(out, 3);
    pack_real(out, 1e9);
    pack_array(out, LANES * (1 + (evicting ? shape->blocks : 0)));
    for (uint32_t lane = 0; lane < LANES; lane++) {
        pack_stored(out, shape, who, lane, t->stored);
    }
    for (uint32_t lane = 0; evicting && lane < LANES; lane++) {
        for (uint32_t i = 0; i < shape->blocks; i++) {
            uint64_t block = evicted_block(t->evicted + i);
            pack_removed(out, shape, name_of(who, lane, block));
        }
    }
    pack_uint(out, 0);
    t->stored += shape->blocks;
    t->evicted += evicting ? shape->blocks : 0;
    CHECK(!out->failed);
}

/* ---- who hears it ---- */

static void
hear_all(const struct shape *shape, uint32_t first)
{
    for (uint32_t i = 0; i < TIMED; i++) {
        for (uint32_t k = 0; k < shape->holders; k++) {
            hearer_take(&hearer, (first + i * shape->holders + k) % STREAMS,
                        buf_slice(&payload[i]));
        }
    }
    hearer_work(&hearer);
}

static void
decode_all(void)
{
    struct kv_event event;
    enum kv_fault fault;

    for (uint32_t i = 0; i < TIMED; i++) {
        CHECK(kv_reader_begin(hearer.reader, buf_slice(&payload[i])) == 0);
        while (kv_reader_next(hearer.reader, &event, &fault, NULL) == 0) {
        }
    }
}

static void
decode_objects(void)
{
    msgpack_unpacked result;

    msgpack_unpacked_init(&result);
    for (uint32_t i = 0; i < TIMED; i++) {
        size_t at = 0;
        CHECK(msgpack_unpack_next(&result, payload[i].ptr, payload[i].len,
                                  &at) == MSGPACK_UNPACK_SUCCESS);
    }
    msgpack_unpacked_destroy(&result);
}

/* A turn of TIMED batches, each from the next teller. */
static void
turn(const struct shape *shape, uint32_t first, bool evicting,
     struct sums *sums)
{
    uint64_t blocks = (uint64_t)TIMED * LANES * shape->blocks * shape->holders;

    for (uint32_t i = 0; i < TIMED; i++) {
        uint32_t who = shape->holders > 1 ? 0 : (first + i) % STREAMS;
        pack_batch(&payload[i], shape, who, evicting);
        sums->bytes += payload[i].len * shape->holders;
    }
    double start = cpu_ns();
    decode_objects();
    sums->dom_ns += (cpu_ns() - start) * shape->holders;
    start = cpu_ns();
    decode_all();
    sums->decode_ns += (cpu_ns() - start) * shape->holders;
    start = cpu_ns();
    hear_all(shape, first);
    sums->ours_ns += cpu_ns() - start;
    sums->stored += blocks;
    sums->removed += evicting ? blocks : 0;
}

/* ---- the reader beside ---- */

static atomic_bool stopping;
static uint64_t asked[CONVERSATION];
static uint64_t answers;

static void
make_question(void)
{
    uint64_t key = key_token_root(SLICE(""), SLICE(""));

    for (uint32_t block = 0; block < CONVERSATION; block++) {
        uint32_t tokens[TOKENS];
        hearer_tokens(name_of(0, 0, block), tokens);
        key = key_next(key, tokens, sizeof(tokens));
        asked[block] = key;
    }
}

static void *
ask(void *registered)
{
    struct worker_set all;
    struct mirror_match match;

    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        all.word[i] = UINT64_MAX;
    }
    while (!atomic_load_explicit(&stopping, memory_order_relaxed)) {
        qsbr_online(&hearer.qsbr, registered);
        for (uint32_t i = 0; i < 16; i++) {
            mirror_match(hearer.mirror, &all, asked, CONVERSATION, &match);
            answers += match.best > 0;
        }
        qsbr_offline(registered);
    }
    return NULL;
}

/* ---- the table ---- */

static void
open_all(void)
{
    hearer_open(&hearer);
    for (uint32_t i = 0; i < STREAMS; i++) {
        teller[i] = (struct teller){0};
    }
    for (uint32_t i = 0; i < TIMED; i++) {
        buf_init(&payload[i], (size_t)64 << 20);
    }
}

static void
close_all(void)
{
    for (uint32_t i = 0; i < TIMED; i++) {
        buf_fini(&payload[i]);
    }
    hearer_close(&hearer);
}

static void
print_rates(const char *phase, const struct sums *sums)
{
    double blocks = (double)(sums->stored + sums->removed);

    printf("  %-8s %7.2f %8.1f %8.1f %8.1f %7.2f %7.1f\n", phase,
           blocks * 1e3 / sums->ours_ns, sums->ours_ns / blocks,
           sums->decode_ns / blocks, sums->dom_ns / blocks,
           sums->dom_ns / sums->ours_ns, (double)sums->bytes / blocks);
}

static void
print_memory(void)
{
    struct ledger_stats ls;
    struct mirror_stats ms;

    ledger_stats(hearer.ledger, &ls);
    mirror_stats(hearer.mirror, &ms);
    double pairs = (double)ls.blocks;
    CHECK(ms.holder_blocks == ls.blocks);
    printf("  %.1f M pairs, bytes each: ledger %.1f + mirror %.1f = %.1f\n",
           pairs / 1e6, (double)ls.bytes / pairs, (double)ms.bytes / pairs,
           (double)(ls.bytes + ms.bytes) / pairs);
}

static void
measure(const struct shape *shape, uint64_t pairs)
{
    struct sums filling = {0};
    struct sums churning = {0};
    uint32_t at = 0;
    pthread_t thread;

    open_all();
    make_question();
    atomic_store(&stopping, false);
    answers = 0;
    struct qsbr_reader *registered = qsbr_register(&hearer.qsbr);
    CHECK(pthread_create(&thread, NULL, ask, registered) == 0);
    printf("%s\n", shape->name);
    while (filling.stored < pairs || teller[0].stored % CONVERSATION != 0) {
        turn(shape, at, false, &filling);
        at = (at + TIMED * shape->holders) % STREAMS;
    }
    print_memory();
    print_rates("filling", &filling);
    while (churning.stored < pairs) {
        turn(shape, at, true, &churning);
        at = (at + TIMED * shape->holders) % STREAMS;
    }
    print_rates("churning", &churning);
    atomic_store(&stopping, true);
    CHECK(pthread_join(thread, NULL) == 0);
    printf("  the reader had %llu answers\n", (unsigned long long)answers);
    close_all();
}

int
main(int argc, char **argv)
{
    static const struct shape shapes[] = {
        {"arrays, 1 block an event", false, 1, 1},
        {"maps, 1 block an event", true, 1, 1},
        {"arrays, 32 blocks an event", false, 32, 1},
        {"maps, 32 blocks an event", true, 32, 1},
        {"arrays, 32 blocks, shared by 64", false, 32, 64},
        {"arrays, 1 block, shared by 64", false, 1, 64},
    };
    uint64_t pairs = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
    size_t only = argc > 2 ? strtoull(argv[2], NULL, 10) : SIZE_MAX;

    printf("  %-8s %7s %8s %8s %8s %7s %7s\n", "", "M/s", "ns/block", "decode",
           "msgpack", "ratio", "bytes");
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        if (only == SIZE_MAX || only == i) {
            measure(&shapes[i], pairs);
            (void)fflush(stdout);
        }
    }
    return 0;
}
