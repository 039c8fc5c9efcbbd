/* Cache events as the batches that engines publish. */
#include "chaos/engine/engine_events.h"

#include "index/base/pack.h"

/* Positions in vLLM's arrays. */
enum {
    SLOT_MEDIUM = 6,
    SLOT_LORA_NAME,
    SLOT_EXTRA_KEYS,
    SLOT_GROUP,
    SLOT_KIND,
    SLOT_WINDOW,
};

void
engine_batch_init(struct engine_batch *batch,
                  const struct engine_events_format *format)
{
    CHECK(format->encoding != ENGINE_EVENTS_ARRAY ||
          (format->slots >= ENGINE_EVENTS_SLOTS_MIN &&
           format->slots <= ENGINE_EVENTS_SLOTS_MAX));
    *batch = (struct engine_batch){.format = *format};
    buf_init(&batch->events, ENGINE_BATCH_BYTES_MAX);
    buf_init(&batch->keys, ENGINE_BATCH_BYTES_MAX);
    buf_init(&batch->tokens, ENGINE_BATCH_BYTES_MAX);
    buf_init(&batch->ahead, ENGINE_BATCH_BYTES_MAX);
}

void
engine_batch_fini(struct engine_batch *batch)
{
    buf_fini(&batch->events);
    buf_fini(&batch->keys);
    buf_fini(&batch->tokens);
    buf_fini(&batch->ahead);
}

bool
engine_batch_is_empty(const struct engine_batch *batch)
{
    return batch->count == 0 && !batch->open;
}

bool
engine_batch_takes(const struct engine_batch *batch,
                   const struct engine_event *event)
{
    return engine_batch_is_empty(batch) || event->step == batch->first.step;
}

static bool
is_sglang(const struct engine_batch *batch)
{
    switch (batch->format.encoding) {
    case ENGINE_EVENTS_SGLANG_MAP:
    case ENGINE_EVENTS_SGLANG_ARRAY:
        return true;
    case ENGINE_EVENTS_MAP:
    case ENGINE_EVENTS_ARRAY:
    case ENGINE_EVENTS_TRTLLM:
    case ENGINE_EVENTS_ENCODINGS:
        break;
    }
    return false;
}

static bool
is_trtllm(const struct engine_batch *batch)
{
    return batch->format.encoding == ENGINE_EVENTS_TRTLLM;
}

static bool
is_map(const struct engine_batch *batch)
{
    return batch->format.encoding == ENGINE_EVENTS_MAP ||
           batch->format.encoding == ENGINE_EVENTS_SGLANG_MAP ||
           is_trtllm(batch);
}

static uint32_t
run_len(const struct engine_batch *batch)
{
    return (uint32_t)(batch->keys.len / sizeof(uint64_t));
}

static uint64_t
run_key(const struct engine_batch *batch, uint32_t i)
{
    uint64_t key;

    CHECK(i < run_len(batch));
    memcpy(&key, batch->keys.ptr + i * sizeof(key), sizeof(key));
    return key;
}

static void
put_hash(struct engine_batch *batch, uint64_t key)
{
    unsigned char bytes[ENGINE_EVENTS_HASH_BYTES];

    if (is_sglang(batch)) {
        pack_int(&batch->events, (int64_t)key);
        return;
    }
    if (!batch->format.hash_bytes || is_trtllm(batch)) {
        pack_uint(&batch->events, key);
        return;
    }
    for (uint32_t i = 0; i < sizeof(bytes); i++) {
        uint64_t word = i / 8 == 3 ? key : rng_mix(key + i / 8);
        bytes[i] = (unsigned char)(word >> 8 * (7 - i % 8));
    }
    pack_bytes(&batch->events,
               (struct slice){(const char *)bytes, sizeof(bytes)});
}

/* A text, or nil for the empty one. */
static void
put_text(struct engine_batch *batch, struct slice text)
{
    if (text.len > 0) {
        pack_text(&batch->events, text);
    } else {
        pack_nil(&batch->events);
    }
}

/* The name of the next member; arrays do without. */
static void
put_name(struct engine_batch *batch, struct slice name)
{
    if (is_map(batch)) {
        pack_text(&batch->events, name);
    }
}

/* The head of an event with so many members, its tag included. */
static void
put_event(struct engine_batch *batch, struct slice tag, uint32_t members)
{
    if (is_map(batch)) {
        pack_map(&batch->events, members);
        pack_text(&batch->events, SLICE("type"));
    } else {
        pack_array(&batch->events, members);
    }
    pack_text(&batch->events, tag);
    batch->count++;
}

static void
put_hashes(struct engine_batch *batch)
{
    uint32_t count = run_len(batch);

    put_name(batch, SLICE("block_hashes"));
    pack_array(&batch->events, count);
    for (uint32_t i = 0; i < count; i++) {
        put_hash(batch, run_key(batch, i));
    }
}

static void
put_medium(struct engine_batch *batch)
{
    put_name(batch, SLICE("medium"));
    pack_text(&batch->events, SLICE("GPU"));
}

static void
put_group(struct engine_batch *batch)
{
    put_name(batch, SLICE("group_idx"));
    pack_uint(&batch->events, batch->first.group);
}

static bool
is_of_window(const struct engine_batch *batch)
{
    return batch->first.group < batch->format.windows;
}

/* What the hash of a block covers beside its tokens: the adapter in every
 * block, the salt in the first of the chain. */
static void
put_extra_keys(struct engine_batch *batch)
{
    const struct engine_events_owner *owner = &batch->owner;
    uint32_t count = run_len(batch);

    put_name(batch, SLICE("extra_keys"));
    pack_array(&batch->events, count);
    for (uint32_t i = 0; i < count; i++) {
        bool salted = owner->salt.len > 0 && batch->first.depth + i == 0 &&
                      !batch->first.passed_over;
        uint32_t keys = (owner->lora_name.len > 0) + (uint32_t)salted;
        if (keys == 0) {
            pack_nil(&batch->events);
            continue;
        }
        pack_array(&batch->events, keys);
        if (owner->lora_name.len > 0) {
            pack_text(&batch->events, owner->lora_name);
        }
        if (salted) {
            pack_text(&batch->events, owner->salt);
        }
    }
}

/* The members that every kind of engine has. */
static void
put_stored_common(struct engine_batch *batch)
{
    uint32_t count = (uint32_t)(batch->tokens.len / sizeof(uint32_t));
    struct buf *out = &batch->events;

    put_hashes(batch);
    put_name(batch, SLICE("parent_block_hash"));
    if (batch->first.depth == 0) {
        pack_nil(out);
    } else {
        put_hash(batch, batch->first.parent);
    }
    put_name(batch, SLICE("token_ids"));
    pack_array(out, count);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t id;
        memcpy(&id, batch->tokens.ptr + i * sizeof(id), sizeof(id));
        pack_uint(out, id);
    }
    put_name(batch, SLICE("block_size"));
    pack_uint(out, batch->format.block_tokens);
    put_name(batch, SLICE("lora_id"));
    if (batch->owner.lora_name.len == 0 || is_sglang(batch) ||
        is_trtllm(batch)) {
        pack_nil(out);
    } else {
        pack_uint(out, batch->owner.lora_id);
    }
}

/* The group, its kind and its window, as far as there are slots. */
static void
put_kind(struct engine_batch *batch, uint32_t slots)
{
    bool window = is_of_window(batch);

    if (slots > SLOT_GROUP) {
        put_group(batch);
    }
    if (slots > SLOT_KIND) {
        put_name(batch, SLICE("kv_cache_spec_kind"));
        pack_text(&batch->events,
                  window ? SLICE("sliding_window") : SLICE("full_attention"));
    }
    if (window && slots > SLOT_WINDOW) {
        put_name(batch, SLICE("kv_cache_spec_sliding_window"));
        pack_uint(&batch->events, batch->format.window_tokens);
    }
}

/* Of each block the tokens behind it that its hash covers. */
static void
put_ahead(struct engine_batch *batch)
{
    uint32_t count = run_len(batch);
    uint32_t ahead = batch->format.ahead;

    put_name(batch, SLICE("lookahead_token_ids"));
    pack_array(&batch->events, count);
    for (uint32_t i = 0; i < count * ahead; i++) {
        uint32_t id;
        if (i % ahead == 0) {
            pack_array(&batch->events, ahead);
        }
        memcpy(&id, batch->ahead.ptr + i * sizeof(id), sizeof(id));
        pack_uint(&batch->events, id);
    }
}

/* Maps have all members that are not nil; arrays end at `slots`, and without
 * their last, if they are nil. */
static void
put_stored_vllm(struct engine_batch *batch)
{
    bool extras = run_len(batch) > 0 || !is_map(batch);
    uint32_t slots = is_map(batch) ? SLOT_WINDOW + 1 : batch->format.slots;
    uint32_t most = is_of_window(batch) ? SLOT_WINDOW + 1 : SLOT_KIND + 1;

    slots = slots < most ? slots : most;
    bool ahead = is_map(batch) && batch->format.ahead != 0;
    put_event(batch, SLICE("BlockStored"),
              slots - (uint32_t)!extras + (uint32_t)ahead);
    put_stored_common(batch);
    if (slots > SLOT_MEDIUM) {
        put_medium(batch);
    }
    if (slots > SLOT_LORA_NAME) {
        put_name(batch, SLICE("lora_name"));
        put_text(batch, batch->owner.lora_name);
    }
    if (slots > SLOT_EXTRA_KEYS && extras) {
        put_extra_keys(batch);
    }
    put_kind(batch, slots);
    if (ahead) {
        put_ahead(batch);
    }
}

/* Its adapter and its salt are in the hash alone. */
static void
put_stored_trtllm(struct engine_batch *batch)
{
    put_event(batch, SLICE("BlockStored"), SLOT_LORA_NAME + 1);
    put_stored_common(batch);
    put_medium(batch);
    put_name(batch, SLICE("lora_name"));
    pack_nil(&batch->events);
}

/* In maps the salt is a member; in arrays it is a map of its own. */
static void
put_stored_sglang(struct engine_batch *batch)
{
    const struct engine_events_owner *owner = &batch->owner;
    bool salted = owner->salt.len > 0;
    bool named = owner->lora_name.len > 0 && is_map(batch);

    put_event(batch, SLICE("BlockStored"),
              SLOT_MEDIUM + 1 + (uint32_t)salted + (uint32_t)named);
    put_stored_common(batch);
    put_medium(batch);
    if (salted) {
        if (!is_map(batch)) {
            pack_map(&batch->events, 1);
        }
        pack_text(&batch->events, SLICE("cache_salt"));
        pack_text(&batch->events, owner->salt);
    }
    if (named) {
        put_name(batch, SLICE("lora_name"));
        pack_text(&batch->events, owner->lora_name);
    }
}

static void
put_removed(struct engine_batch *batch)
{
    bool vllm = !is_sglang(batch) && !is_trtllm(batch);
    bool array = batch->format.encoding == ENGINE_EVENTS_ARRAY;
    bool medium = !array || batch->format.slots > SLOT_MEDIUM;
    bool group = vllm && (!array || batch->format.slots > SLOT_GROUP);

    put_event(batch, SLICE("BlockRemoved"),
              2 + (uint32_t)medium + (uint32_t)group);
    put_hashes(batch);
    if (medium) {
        put_medium(batch);
    }
    if (group) {
        put_group(batch);
    }
}

/* Encodes the event that could still grow. */
static void
close_run(struct engine_batch *batch)
{
    if (!batch->open) {
        return;
    }
    batch->open = false;
    batch->events.failed |=
        batch->keys.failed || batch->tokens.failed || batch->ahead.failed;
    switch (batch->first.kind) {
    case ENGINE_EVENT_STORED:
        if (is_sglang(batch)) {
            put_stored_sglang(batch);
        } else if (is_trtllm(batch)) {
            put_stored_trtllm(batch);
        } else {
            put_stored_vllm(batch);
        }
        break;
    case ENGINE_EVENT_REMOVED:
        put_removed(batch);
        break;
    case ENGINE_EVENT_CLEARED:
        put_event(batch, SLICE("AllBlocksCleared"), 1);
        break;
    }
    buf_clear(&batch->keys);
    buf_clear(&batch->tokens);
    buf_clear(&batch->ahead);
}

/* Whether the event only makes the open one longer. */
static bool
continues(const struct engine_batch *batch, const struct engine_event *event)
{
    if (!batch->open || event->kind != batch->first.kind) {
        return false;
    }
    switch (event->kind) {
    case ENGINE_EVENT_STORED:
        return event->user == batch->first.user &&
               event->root == batch->first.root &&
               event->group == batch->first.group &&
               event->depth == batch->first.depth + batch->span &&
               event->parent == batch->last_key;
    case ENGINE_EVENT_REMOVED:
        return is_sglang(batch);
    case ENGINE_EVENT_CLEARED:
        return false;
    }
    return false;
}

void
engine_batch_add(struct engine_batch *batch, const struct engine_event *event,
                 const struct engine_events_owner *owner)
{
    CHECK(engine_batch_takes(batch, event));
    CHECK(event->kind != ENGINE_EVENT_STORED ||
          event->tokens_len == batch->format.block_tokens);
    if (!continues(batch, event)) {
        close_run(batch);
        batch->open = true;
        batch->first = *event;
        batch->first.tokens = NULL;
        batch->span = 0;
        if (event->kind == ENGINE_EVENT_STORED) {
            batch->owner = *owner;
        }
    }
    batch->span++;
    batch->last_key = event->key;
    if (event->kind != ENGINE_EVENT_CLEARED && !event->passed_over) {
        buf_add(&batch->keys, &event->key, sizeof(event->key));
    }
    if (event->kind == ENGINE_EVENT_STORED && !event->passed_over) {
        buf_add(&batch->ahead, event->tokens + event->tokens_len,
                batch->format.ahead * sizeof(*event->tokens));
    }
    if (event->kind == ENGINE_EVENT_STORED) {
        buf_add(&batch->tokens, event->tokens,
                event->tokens_len * sizeof(*event->tokens));
    }
}

void
engine_batch_seal(struct engine_batch *batch, double ts, struct buf *out)
{
    close_run(batch);
    bool ranked = batch->format.encoding != ENGINE_EVENTS_ARRAY ||
                  batch->format.slots > ENGINE_EVENTS_SLOTS_MIN;
    pack_array(out, ranked ? 3 : 2);
    pack_real(out, ts);
    pack_array(out, batch->count);
    buf_add_slice(out, buf_slice(&batch->events));
    if (ranked) {
        pack_uint(out, batch->format.rank);
    }
    out->failed |= batch->events.failed;
    engine_batch_clear(batch);
}

void
engine_batch_clear(struct engine_batch *batch)
{
    batch->open = false;
    batch->count = 0;
    buf_clear(&batch->events);
    buf_clear(&batch->keys);
    buf_clear(&batch->tokens);
    buf_clear(&batch->ahead);
}
