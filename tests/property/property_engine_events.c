/*
 * What the stand-in engine writes is what the node reads: random changes of a
 * cache go through a batch in every encoding, and the reader of KV events has
 * to say the same, block by block, in the same order.
 *
 * property_engine_events SEEDS FIRST_SEED
 */
#include <stdio.h>
#include <stdlib.h>

#include "chaos/engine/engine_events.h"
#include "index/shape.h"
#include "node/events/kv_wire_internal.h"

#define CHANGES_MAX 400
#define BLOCK_MAX   20
#define RUN_MAX     20
#define BATCHES     20

#define MUST(condition)                                                \
    do {                                                               \
        if (!(condition)) {                                            \
            printf("seed %llu encoding %d slots %u change %u: %s\n",   \
                   (unsigned long long)seed_now, (int)format.encoding, \
                   format.slots, heard, #condition);                   \
            exit(1);                                                   \
        }                                                              \
    } while (0)

static const struct engine_events_owner owners[] = {
    {.lora_id = 0},
    {.lora_name = {"adapter", 7}, .lora_id = 1},
    {.salt = {"salt", 4}},
    {.lora_name = {"another/adapter-with-a-name-of-some-length", 42},
     .salt = {"s", 1},
     .lora_id = 70000},
};

struct change {
    struct engine_event event;
    const struct engine_events_owner *owner;
    uint32_t tokens[BLOCK_MAX + SHAPE_AHEAD_MAX];
};

static uint64_t seed_now;
static uint32_t heard;
static struct engine_events_format format;
static struct change changes[CHANGES_MAX];
static uint32_t changes_count;

static bool
is_vllm(void)
{
    return format.encoding == ENGINE_EVENTS_MAP ||
           format.encoding == ENGINE_EVENTS_ARRAY;
}

/* Whether the encoding has what came with this slot. */
static bool
has_slot(uint32_t slot)
{
    switch (format.encoding) {
    case ENGINE_EVENTS_ARRAY:
        return format.slots > slot;
    case ENGINE_EVENTS_MAP:
        return true;
    case ENGINE_EVENTS_SGLANG_ARRAY:
        return slot <= 6;
    case ENGINE_EVENTS_SGLANG_MAP:
        return slot <= 7;
    case ENGINE_EVENTS_TRTLLM:
        return slot <= 6;
    case ENGINE_EVENTS_ENCODINGS:
        break;
    }
    return false;
}

/* Of many lengths on the wire, long enough to be different. */
static uint64_t
draw_key(struct rng *rng)
{
    return rng_next(rng) >> rng_below(rng, 32);
}

static struct change *
add(const struct engine_event *event, const struct engine_events_owner *owner)
{
    struct change *c = &changes[changes_count++];

    c->event = *event;
    c->owner = owner;
    c->event.tokens = c->tokens;
    return c;
}

/* A chain's next blocks, of one request. */
static void
store_some(struct rng *rng, struct engine_batch *batch)
{
    uint32_t count = 1 + (uint32_t)rng_below(rng, RUN_MAX);
    const struct engine_events_owner *owner = &owners[rng_below(rng, 4)];
    struct engine_event event = {
        .kind = ENGINE_EVENT_STORED,
        .user = rng_below(rng, 3),
        .root = (uint64_t)(owner - owners),
        .depth = (uint32_t)rng_below(rng, 2) * (uint32_t)rng_below(rng, 9),
        .tokens_len = format.block_tokens,
        .key = draw_key(rng),
    };

    for (uint32_t i = 0; i < count && changes_count < CHANGES_MAX; i++) {
        event.parent = event.depth > 0 ? event.key : 0;
        event.key = draw_key(rng);
        struct change *c = add(&event, owner);
        for (uint32_t t = 0; t < format.block_tokens + format.ahead; t++) {
            c->tokens[t] =
                (uint32_t)(rng_next(rng) >> (32 + rng_below(rng, 32)));
        }
        engine_batch_add(batch, &c->event, owner);
        event.depth++;
    }
}

static void
change_some(struct rng *rng, struct engine_batch *batch)
{
    uint64_t what = rng_below(rng, 20);

    if (what < 10) {
        store_some(rng, batch);
        return;
    }
    struct engine_event event = {
        .kind = what == 10 ? ENGINE_EVENT_CLEARED : ENGINE_EVENT_REMOVED,
        .key = draw_key(rng),
    };
    struct change *c = add(&event, NULL);
    engine_batch_add(batch, &c->event, NULL);
}

static void
hear_owner(struct kv_reader *reader, const struct kv_event *event,
           const struct engine_events_owner *owner, bool first_block)
{
    struct slice salt = event->salt;
    struct kv_apart apart;
    enum kv_fault fault = KV_FAULT_NONE;

    if (is_vllm() && event->extras.len > 0) {
        MUST(kv_reader_apart(reader, event, &apart, &fault) == 0);
        MUST(!apart.media);
        salt = apart.salt;
    }
    if (has_slot(7)) {
        MUST(slice_equal(event->lora_name, owner->lora_name));
    }
    if (format.encoding == ENGINE_EVENTS_TRTLLM) {
        MUST(salt.len == 0 && !event->has_lora_id);
    } else if (!is_vllm()) {
        MUST(slice_equal(salt, owner->salt));
    } else if (has_slot(8)) {
        MUST(slice_equal(salt, first_block ? owner->salt : SLICE("")));
        MUST(event->has_lora_id == (owner->lora_name.len > 0));
        MUST(!event->has_lora_id || event->lora_id == owner->lora_id);
    }
}

static void
hear_stored(struct kv_reader *reader, const struct kv_event *event)
{
    const struct change *first = &changes[heard];
    uint32_t size = format.block_tokens;

    MUST(event->block_tokens == size);
    MUST(event->tokens_count == size * event->hashes_count);
    MUST(event->has_parent == (first->event.depth > 0));
    MUST(event->ahead ==
         (format.encoding == ENGINE_EVENTS_MAP ? format.ahead : 0));
    hear_owner(reader, event, first->owner, first->event.depth == 0);
    for (uint32_t i = 0; i < event->hashes_count; i++, heard++) {
        const struct change *c = &changes[heard];
        MUST(heard < changes_count);
        MUST(c->event.kind == ENGINE_EVENT_STORED && c->owner == first->owner);
        MUST(event->hashes[i] == c->event.key);
        MUST(c->event.depth == first->event.depth + i);
        MUST(c->event.depth == 0 ||
             c->event.parent == (i > 0 ? event->hashes[i - 1] : event->parent));
        MUST(memcmp(event->tokens + (size_t)i * size, c->tokens,
                    size * sizeof(*c->tokens)) == 0);
        MUST(event->ahead == 0 ||
             memcmp(event->ahead_tokens + (size_t)i * event->ahead,
                    c->tokens + size, event->ahead * sizeof(*c->tokens)) == 0);
    }
    if (has_slot(10)) {
        MUST(slice_equal(event->spec_kind, SLICE("full_attention")));
    }
}

static void
hear(struct kv_reader *reader, const struct kv_event *event)
{
    MUST(heard < changes_count);
    if (event->kind != KV_CLEARED) {
        MUST(
            slice_equal(event->medium, has_slot(6) ? SLICE("GPU") : SLICE("")));
        MUST(event->has_group == (is_vllm() && has_slot(9)));
    }
    switch (event->kind) {
    case KV_STORED:
        hear_stored(reader, event);
        break;
    case KV_REMOVED:
        MUST(event->hashes_count == 1 || !is_vllm());
        for (uint32_t i = 0; i < event->hashes_count; i++, heard++) {
            MUST(changes[heard].event.kind == ENGINE_EVENT_REMOVED);
            MUST(changes[heard].event.key == event->hashes[i]);
        }
        break;
    case KV_CLEARED:
        MUST(changes[heard++].event.kind == ENGINE_EVENT_CLEARED);
        break;
    }
}

static void
read_batch(struct kv_reader *reader, struct slice payload)
{
    bool ranked = format.encoding != ENGINE_EVENTS_ARRAY || format.slots > 6;
    enum kv_fault fault = KV_FAULT_NONE;
    struct kv_event event;
    int r;

    MUST(kv_reader_begin(reader, payload) == 0);
    while ((r = kv_reader_next(reader, &event, &fault, NULL)) == 0) {
        hear(reader, &event);
    }
    MUST(r == KV_E_END);
    MUST(heard == changes_count);
    MUST(kv_reader_rank(reader) == (ranked ? (int64_t)format.rank : -1));
}

static void
run(struct kv_reader *reader, struct rng *rng)
{
    struct engine_batch batch;
    struct buf payload;

    engine_batch_init(&batch, &format);
    buf_init(&payload, 1 << 20);
    for (int b = 0; b < BATCHES; b++) {
        uint64_t left = 1 + rng_below(rng, 30);
        changes_count = 0;
        heard = 0;
        while (left-- > 0 && changes_count < CHANGES_MAX) {
            change_some(rng, &batch);
        }
        buf_clear(&payload);
        engine_batch_seal(&batch, 1.5, &payload);
        MUST(!payload.failed);
        read_batch(reader, buf_slice(&payload));
    }
    engine_batch_fini(&batch);
    buf_fini(&payload);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 10;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct kv_reader *reader;

    if (kv_reader_new(&reader, &KV_LIMITS_DEFAULT) != 0) {
        return 1;
    }
    for (seed_now = first; seed_now < first + seeds; seed_now++) {
        struct rng rng;
        rng_init(&rng, seed_now);
        format = (struct engine_events_format){
            .encoding = (enum engine_events_encoding)rng_below(
                &rng, ENGINE_EVENTS_ENCODINGS),
            .slots = 6 + (uint32_t)rng_below(&rng, 7),
            .block_tokens = 1 + (uint32_t)rng_below(&rng, BLOCK_MAX),
            .rank = (uint32_t)rng_below(&rng, 300),
            .hash_bytes = rng_below(&rng, 2) == 1,
            .ahead = (uint32_t)rng_below(&rng, SHAPE_AHEAD_MAX + 1),
        };
        run(reader, &rng);
    }
    kv_reader_free(reader);
    printf("%llu seeds\n", (unsigned long long)seeds);
    return 0;
}
