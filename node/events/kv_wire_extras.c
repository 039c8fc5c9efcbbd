/* What sets blocks apart beside their tokens: extra_keys of vLLM, mm_keys of
 * TensorRT-LLM. */
#include "index/index.h"
#include "node/events/kv_media.h"
#include "node/events/kv_wire_event_internal.h"

/* What an item of a block's list is digested as: the same item has the same
 * digest however its msgpack was written. */
enum item_kind {
    ITEM_PLACED, /* an identifier and where it begins */
    ITEM_TEXT,
    ITEM_BYTES,
    ITEM_OTHER, /* as it stands on the wire */
};

static uint64_t
add_digest(uint64_t media, enum item_kind kind, uint64_t bytes, int64_t offset)
{
    uint64_t words[] = {media, (uint64_t)kind, bytes, (uint64_t)offset};
    uint64_t digest =
        key_digest((struct slice){(const char *)words, sizeof words});

    return digest != 0 ? digest : 1;
}

static uint64_t
add_item(uint64_t media, enum item_kind kind, struct slice bytes,
         int64_t offset)
{
    return add_digest(media, kind, key_digest(bytes), offset);
}

uint64_t
kv_media_place(uint64_t media, uint64_t identifier, int64_t offset)
{
    return add_digest(media, ITEM_PLACED, identifier, offset);
}

uint64_t
kv_media_add(uint64_t media, struct slice identifier, int64_t offset)
{
    return add_item(media, ITEM_PLACED, identifier, offset);
}

/* One block's list on the way. */
struct block {
    const uint8_t *end;
    struct slice lora_name; /* until it was seen */
    bool first;
    bool has_text; /* the last string, in a first block: the salt, unless
                      another one follows */
    struct slice text;
    bool has_salt; /* told by a typed map */
    struct slice salt;
    uint64_t media;
};

static const uint8_t *
pass(const struct block *block, const uint8_t *at)
{
    bool deep;

    return token_skip(at, block->end, 1, TOKEN_DEPTH_MAX, &deep);
}

static void
add_text(struct block *block, struct slice text)
{
    if (block->lora_name.len > 0 && slice_equal(text, block->lora_name)) {
        block->lora_name = (struct slice){0};
        return;
    }
    if (!block->first) {
        block->media = add_item(block->media, ITEM_TEXT, text, 0);
        return;
    }
    if (block->has_text) {
        block->media = add_item(block->media, ITEM_TEXT, block->text, 0);
    }
    block->has_text = true;
    block->text = text;
}

/* [identifier, offset]; false: it is another array. */
static bool
add_placed(struct block *block, const uint8_t *at, uint64_t items)
{
    struct token name;
    struct token offset;

    if (items != 2) {
        return false;
    }
    at = token_read(at, block->end, &name);
    if (at == NULL || name.kind != TOKEN_STR ||
        token_read(at, block->end, &offset) == NULL ||
        (offset.kind != TOKEN_UINT && offset.kind != TOKEN_NINT)) {
        return false;
    }
    block->media =
        kv_media_add(block->media, name.bytes, (int64_t)offset.value);
    return true;
}

/* A map that names its own kind: *type is the kind, and *value the value under
 * the kind's key. */
static const uint8_t *
read_typed(const struct block *block, const uint8_t *at, uint64_t items,
           struct slice *type, struct slice *salt)
{
    for (uint64_t i = 0; i < items && at != NULL; i += 2) {
        struct token key = {.kind = TOKEN_NIL};
        struct token value;
        (void)token_read(at, block->end, &key);
        at = pass(block, at);
        if (at == NULL || token_read(at, block->end, &value) == NULL) {
            return NULL;
        }
        at = pass(block, at);
        if (key.kind != TOKEN_STR || value.kind != TOKEN_STR) {
            continue;
        }
        if (slice_equal(key.bytes, SLICE("type"))) {
            *type = value.bytes;
        } else if (slice_equal(key.bytes, SLICE("salt"))) {
            *salt = value.bytes;
        }
    }
    return at;
}

static const uint8_t *
add_map(struct block *block, const uint8_t *start, const uint8_t *at,
        uint64_t items)
{
    struct slice type = {0};
    struct slice salt = {0};
    const uint8_t *next = read_typed(block, at, items, &type, &salt);

    if (next == NULL) {
        return NULL;
    }
    if (slice_equal(type, SLICE("cache_salt"))) {
        block->has_salt = true;
        block->salt = salt;
    } else if (!slice_equal(type, SLICE("lora"))) {
        block->media = add_item(
            block->media, ITEM_OTHER,
            (struct slice){(const char *)start, (size_t)(next - start)}, 0);
    }
    return next;
}

static const uint8_t *
add_element(struct block *block, const uint8_t *start)
{
    struct token token;
    const uint8_t *at = token_read(start, block->end, &token);

    if (at == NULL) {
        return NULL;
    }
    const uint8_t *next = pass(block, start);
    if (next == NULL) {
        return NULL;
    }
    switch (token.kind) {
    case TOKEN_NIL:
    case TOKEN_UINT: /* the adapter of a very old engine: the event says it */
    case TOKEN_NINT:
        return next;
    case TOKEN_STR:
        add_text(block, token.bytes);
        return next;
    case TOKEN_BIN:
        block->media = add_item(block->media, ITEM_BYTES, token.bytes, 0);
        return next;
    case TOKEN_MAP:
        return add_map(block, start, at, token.value);
    case TOKEN_ARRAY:
        if (add_placed(block, at, token.value)) {
            return next;
        }
        break;
    case TOKEN_BOOL:
    case TOKEN_FLOAT:
    case TOKEN_EXT:
        break;
    }
    block->media = add_item(
        block->media, ITEM_OTHER,
        (struct slice){(const char *)start, (size_t)(next - start)}, 0);
    return next;
}

/* The first element, behind the head of the list of blocks; NULL: it is none.
 */
static const uint8_t *
first_of(const uint8_t *start, const uint8_t *end)
{
    struct token token;
    const uint8_t *at = token_read(start, end, &token);

    return at != NULL && token.kind == TOKEN_ARRAY ? at : NULL;
}

bool
kv_extras_next(struct slice extras, size_t *at, bool first_block,
               struct slice lora_name, uint64_t *media, struct slice *salt)
{
    const uint8_t *start = (const uint8_t *)extras.ptr;
    struct token token;

    if (extras.len == 0) {
        return false;
    }
    struct block block = {
        .end = start + extras.len,
        .lora_name = lora_name,
        .first = first_block,
    };
    CHECK(*at <= extras.len);
    const uint8_t *next = *at == 0 ? first_of(start, block.end) : start + *at;
    if (next == NULL) {
        return false;
    }
    next = token_read(next, block.end, &token);
    if (next == NULL ||
        (token.kind != TOKEN_NIL && token.kind != TOKEN_ARRAY)) {
        return false;
    }
    uint64_t items = token.kind == TOKEN_ARRAY ? token.value : 0;
    for (uint64_t i = 0; i < items && next != NULL; i++) {
        next = add_element(&block, next);
    }
    if (next == NULL) {
        return false;
    }
    *at = (size_t)(next - start);
    *media = block.media;
    *salt = block.has_salt ? block.salt : block.text;
    return true;
}

/* Room is taken when the first block that something sets apart is met. */
static bool
note_apart(struct kv_arrays *arrays, uint32_t index, uint32_t count,
           uint64_t extra, struct kv_apart *apart)
{
    if (apart->extras == NULL) {
        if (!kv_array_reserve(&arrays->extras, count, sizeof(uint64_t))) {
            return false;
        }
        memset(arrays->extras.ptr, 0, count * sizeof(uint64_t));
        apart->extras = arrays->extras.ptr;
    }
    ((uint64_t *)arrays->extras.ptr)[index] = extra;
    return true;
}

int
kv_apart_read(struct kv_arrays *arrays, const struct kv_event *event,
              struct kv_apart *apart, enum kv_fault *fault)
{
    size_t at = 0;
    uint32_t count = event->hashes_count;
    uint32_t ahead = event->ahead <= SHAPE_AHEAD_MAX ? event->ahead : 0;

    *apart = (struct kv_apart){.extras = NULL};
    for (uint32_t i = 0; (event->extras.len > 0 || ahead > 0) && i < count;
         i++) {
        uint64_t extra = 0;
        struct slice told = {0};
        if (event->extras.len > 0 &&
            !kv_extras_next(event->extras, &at, i == 0 && !event->has_parent,
                            event->lora_name, &extra, &told)) {
            *fault = KV_FAULT_MALFORMED;
            return KV_E_SKIPPED;
        }
        if (i == 0) {
            apart->salt = told;
        }
        apart->media |= extra != 0;
        if (ahead > 0) {
            extra = key_ahead(extra, event->ahead_tokens + (size_t)i * ahead,
                              ahead);
        }
        if (extra != 0 && !note_apart(arrays, i, count, extra, apart)) {
            *fault = KV_FAULT_MEMORY;
            return KV_E_SKIPPED;
        }
    }
    *fault = KV_FAULT_NONE;
    return 0;
}
