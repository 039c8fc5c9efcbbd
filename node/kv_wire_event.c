#include "node/kv_wire_event.h"

#define TAIL_FIRST 9  /* slots of an array that are told apart by type, */
#define TAIL_LAST  12 /* and the last that is of interest */

#define REQUIRED_STORED                                              \
    (KV_FIELD_BIT(KV_FIELD_HASHES) | KV_FIELD_BIT(KV_FIELD_TOKENS) | \
     KV_FIELD_BIT(KV_FIELD_BLOCK_SIZE))
#define FIELDS_REMOVED                                                 \
    (KV_FIELD_BIT(KV_FIELD_HASHES) | KV_FIELD_BIT(KV_FIELD_MEDIUM) |   \
     KV_FIELD_BIT(KV_FIELD_GROUP) | KV_FIELD_BIT(KV_FIELD_SPEC_KIND) | \
     KV_FIELD_BIT(KV_FIELD_LOCALITY))

static bool
is(struct slice text, const char *literal, size_t len)
{
    return text.len == len && memcmp(text.ptr, literal, len) == 0;
}

#define IS(text, literal) is(text, literal, sizeof(literal) - 1)

static enum kv_field
field_of(struct slice key)
{
    switch (key.len) {
    case 4:
        return IS(key, "type") ? KV_FIELD_TYPE : KV_FIELD_NONE;
    case 6:
        return IS(key, "medium") ? KV_FIELD_MEDIUM : KV_FIELD_NONE;
    case 7:
        return IS(key, "lora_id")   ? KV_FIELD_LORA_ID
               : IS(key, "mm_keys") ? KV_FIELD_MM_KEYS
                                    : KV_FIELD_NONE;
    case 8:
        return IS(key, "locality") ? KV_FIELD_LOCALITY : KV_FIELD_NONE;
    case 9:
        return IS(key, "token_ids")   ? KV_FIELD_TOKENS
               : IS(key, "lora_name") ? KV_FIELD_LORA_NAME
               : IS(key, "group_idx") ? KV_FIELD_GROUP
                                      : KV_FIELD_NONE;
    case 10:
        return IS(key, "block_size")   ? KV_FIELD_BLOCK_SIZE
               : IS(key, "extra_keys") ? KV_FIELD_EXTRAS
               : IS(key, "cache_salt") ? KV_FIELD_SALT
                                       : KV_FIELD_NONE;
    case 12:
        return IS(key, "block_hashes") ? KV_FIELD_HASHES : KV_FIELD_NONE;
    case 17:
        return IS(key, "parent_block_hash") ? KV_FIELD_PARENT : KV_FIELD_NONE;
    case 18:
        return IS(key, "kv_cache_spec_kind") ? KV_FIELD_SPEC_KIND
                                             : KV_FIELD_NONE;
    case 21:
        return IS(key, "remaining_copy_counts") ? KV_FIELD_REMAINING
                                                : KV_FIELD_NONE;
    default:
        return KV_FIELD_NONE;
    }
}

static struct slice *
text_of(struct kv_decode *d, enum kv_field field)
{
    switch ((unsigned)field) {
    case KV_FIELD_MEDIUM:
        return &d->event->medium;
    case KV_FIELD_LORA_NAME:
        return &d->event->lora_name;
    case KV_FIELD_SALT:
        return &d->event->salt;
    case KV_FIELD_LOCALITY:
        return &d->event->locality;
    case KV_FIELD_SPEC_KIND:
        return &d->event->spec_kind;
    case KV_FIELD_TYPE:
        return &d->type;
    default:
        return NULL;
    }
}

static bool
set_number(struct kv_event *event, enum kv_field field,
           const struct token *token)
{
    bool is_u32 = token->kind == TOKEN_UINT && token->value <= UINT32_MAX;

    if (field == KV_FIELD_BLOCK_SIZE && is_u32) {
        event->block_tokens = (uint32_t)token->value;
        return true;
    }
    if (field == KV_FIELD_GROUP && is_u32) {
        event->group = (uint32_t)token->value;
        event->has_group = true;
        return true;
    }
    if (field == KV_FIELD_LORA_ID &&
        (token->kind == TOKEN_NINT ||
         (token->kind == TOKEN_UINT && token->value <= INT64_MAX))) {
        event->lora_id = (int64_t)token->value;
        event->has_lora_id = true;
        return true;
    }
    if (field == KV_FIELD_PARENT && kv_fold(token, &event->parent)) {
        event->has_parent = true;
        return true;
    }
    return false;
}

/* Of a key that comes twice the last counts, nil included. */
static void
clear_scalar(struct kv_decode *d, enum kv_field field)
{
    struct slice *text = text_of(d, field);

    if (text != NULL) {
        *text = (struct slice){0};
    } else if (field == KV_FIELD_GROUP) {
        d->event->has_group = false;
        d->event->group = 0;
    } else if (field == KV_FIELD_LORA_ID) {
        d->event->has_lora_id = false;
        d->event->lora_id = 0;
    } else if (field == KV_FIELD_PARENT) {
        d->event->has_parent = false;
        d->event->parent = 0;
    } else if (field == KV_FIELD_BLOCK_SIZE) {
        d->event->block_tokens = 0;
    }
}

static const uint8_t *
read_scalar(struct kv_decode *d, const uint8_t *start, enum kv_field field)
{
    struct token token;
    const uint8_t *at = token_read(start, d->end, &token);

    clear_scalar(d, field);
    if (at == NULL || token.kind == TOKEN_NIL) {
        return at;
    }
    struct slice *text = text_of(d, field);
    if (text != NULL && token.kind == TOKEN_STR) {
        *text = token.bytes;
    } else if (text != NULL || !set_number(d->event, field, &token)) {
        d->bad |= KV_FIELD_BIT(field);
        return token.kind >= TOKEN_ARRAY ? kv_pass(d, start, KV_LEVEL_FIELD)
                                         : at;
    }
    d->good |= KV_FIELD_BIT(field);
    return at;
}

/* extra_keys or mm_keys: an array, kept as it is. */
static const uint8_t *
read_extras(struct kv_decode *d, const uint8_t *start, enum kv_field field)
{
    struct slice *out =
        field == KV_FIELD_EXTRAS ? &d->event->extras : &d->mm_keys;
    struct token token;

    *out = (struct slice){0};
    if (token_read(start, d->end, &token) == NULL) {
        return NULL;
    }
    const uint8_t *at = kv_pass(d, start, KV_LEVEL_FIELD);
    if (at != NULL && token.kind == TOKEN_ARRAY) {
        *out = (struct slice){(const char *)start, (size_t)(at - start)};
    } else if (token.kind != TOKEN_NIL) {
        d->bad |= KV_FIELD_BIT(field);
    }
    return at;
}

static const uint8_t *
read_field(struct kv_decode *d, const uint8_t *at, enum kv_field field)
{
    d->good &= ~KV_FIELD_BIT(field);
    d->bad &= ~KV_FIELD_BIT(field);
    switch (field) {
    case KV_FIELD_HASHES:
        return kv_read_hashes(d, at);
    case KV_FIELD_TOKENS:
        return kv_read_tokens(d, at);
    case KV_FIELD_REMAINING:
        return kv_read_remaining(d, at);
    case KV_FIELD_EXTRAS:
    case KV_FIELD_MM_KEYS:
        return read_extras(d, at, field);
    case KV_FIELD_NONE:
        return kv_pass(d, at, KV_LEVEL_FIELD);
    case KV_FIELD_TYPE:
    case KV_FIELD_PARENT:
    case KV_FIELD_BLOCK_SIZE:
    case KV_FIELD_LORA_ID:
    case KV_FIELD_MEDIUM:
    case KV_FIELD_LORA_NAME:
    case KV_FIELD_GROUP:
    case KV_FIELD_SPEC_KIND:
    case KV_FIELD_SALT:
    case KV_FIELD_LOCALITY:
        break;
    }
    return read_scalar(d, at, field);
}

/* The key of a map: which field its value is; NONE for a key that is no
 * string. */
static const uint8_t *
read_key(struct kv_decode *d, const uint8_t *start, enum kv_field *field)
{
    struct token token;
    const uint8_t *at = token_read(start, d->end, &token);

    *field = KV_FIELD_NONE;
    if (at != NULL && token.kind == TOKEN_STR) {
        *field = field_of(token.bytes);
    } else if (at != NULL && token.kind >= TOKEN_ARRAY) {
        at = kv_pass(d, start, KV_LEVEL_FIELD);
    }
    return at;
}

static const uint8_t *
read_map(struct kv_decode *d, const uint8_t *at, uint64_t items)
{
    enum kv_field field;

    for (uint64_t i = 0; i < items && at != NULL; i += 2) {
        at = read_key(d, at, &field);
        at = at != NULL ? read_field(d, at, field) : NULL;
    }
    return at;
}

/* SGLang's metadata in slot 7; items lie one level deeper than fields. */
static const uint8_t *
read_metadata(struct kv_decode *d, const uint8_t *start)
{
    struct token token;
    const uint8_t *at = token_read(start, d->end, &token);
    const uint8_t *next = kv_pass(d, start, KV_LEVEL_FIELD);
    enum kv_field field;

    for (uint64_t i = 0; i < token.value && next != NULL; i += 2) {
        at = read_key(d, at, &field);
        if (field == KV_FIELD_SALT || field == KV_FIELD_LORA_NAME) {
            at = read_field(d, at, field);
        } else {
            at = kv_pass(d, at, KV_LEVEL_FIELD + 1);
        }
    }
    return next;
}

static const uint8_t *
read_slot_7(struct kv_decode *d, const uint8_t *at)
{
    struct token token;

    if (token_read(at, d->end, &token) == NULL) {
        return NULL;
    }
    if (token.kind == TOKEN_STR) {
        return read_field(d, at, KV_FIELD_LORA_NAME);
    }
    return token.kind == TOKEN_MAP ? read_metadata(d, at)
                                   : kv_pass(d, at, KV_LEVEL_FIELD);
}

/* What stands at the end of arrays, told apart by type. */
static const uint8_t *
read_tail(struct kv_decode *d, const uint8_t *at)
{
    struct token token;
    enum kv_field field = KV_FIELD_NONE;
    uint32_t known = d->good | d->bad;
    bool has_kind = (known & KV_FIELD_BIT(KV_FIELD_SPEC_KIND)) != 0;

    if (token_read(at, d->end, &token) == NULL) {
        return NULL;
    }
    if (token.kind == TOKEN_UINT || token.kind == TOKEN_NINT) {
        bool is_group =
            !has_kind && (known & KV_FIELD_BIT(KV_FIELD_GROUP)) == 0;
        field = is_group ? KV_FIELD_GROUP : KV_FIELD_NONE;
    } else if (token.kind == TOKEN_STR &&
               (IS(token.bytes, "LOCAL") || IS(token.bytes, "REMOTE"))) {
        field = KV_FIELD_LOCALITY;
    } else if (token.kind == TOKEN_STR && !has_kind) {
        field = KV_FIELD_SPEC_KIND;
    }
    return read_field(d, at, field);
}

static const uint8_t *
read_stored_slot(struct kv_decode *d, const uint8_t *at, uint64_t slot)
{
    static const uint8_t fields[TAIL_FIRST] = {
        [1] = KV_FIELD_HASHES,
        [2] = KV_FIELD_PARENT,
        [3] = KV_FIELD_TOKENS,
        [4] = KV_FIELD_BLOCK_SIZE,
        [5] = KV_FIELD_LORA_ID,
        [6] = KV_FIELD_MEDIUM,
        [7] = KV_FIELD_NONE /* see below */,
        [8] = KV_FIELD_EXTRAS,
    };

    if (slot == 7) {
        return read_slot_7(d, at);
    }
    if (slot < TAIL_FIRST) {
        return read_field(d, at, (enum kv_field)fields[slot]);
    }
    return slot <= TAIL_LAST ? read_tail(d, at)
                             : kv_pass(d, at, KV_LEVEL_FIELD);
}

static const uint8_t *
read_removed_slot(struct kv_decode *d, const uint8_t *at, uint64_t slot)
{
    static const uint8_t fields[] = {
        [1] = KV_FIELD_HASHES,
        [2] = KV_FIELD_MEDIUM,
        [3] = KV_FIELD_GROUP,
        [4] = KV_FIELD_LOCALITY,
    };

    return read_field(
        d, at,
        slot < sizeof fields ? (enum kv_field)fields[slot] : KV_FIELD_NONE);
}

static const uint8_t *
read_array(struct kv_decode *d, const uint8_t *at, uint64_t items)
{
    if (items == 0) {
        return at;
    }
    at = read_field(d, at, KV_FIELD_TYPE);
    bool is_stored = IS(d->type, "BlockStored");
    bool is_removed = IS(d->type, "BlockRemoved");
    for (uint64_t slot = 1; slot < items && at != NULL; slot++) {
        at = is_stored    ? read_stored_slot(d, at, slot)
             : is_removed ? read_removed_slot(d, at, slot)
                          : kv_pass(d, at, KV_LEVEL_FIELD);
    }
    return at;
}

static enum kv_fault
finish_stored(struct kv_decode *d)
{
    struct kv_event *event = d->event;
    bool repeated;

    event->kind = KV_STORED;
    event->remaining = NULL;
    if (event->extras.len == 0) {
        event->extras = d->mm_keys;
    }
    d->bad &= ~KV_FIELD_BIT(KV_FIELD_REMAINING);
    if (d->bad != 0 || (d->good & REQUIRED_STORED) != REQUIRED_STORED) {
        return KV_FAULT_MALFORMED;
    }
    if (event->tokens_count != 0 &&
        (uint64_t)event->hashes_count * event->block_tokens !=
            event->tokens_count) {
        return KV_FAULT_UNALIGNED;
    }
    for (uint32_t i = 0; event->has_parent && i < event->hashes_count; i++) {
        if (event->hashes[i] == event->parent) {
            return KV_FAULT_REPEATED;
        }
    }
    if (!kv_find_repeated(&d->arrays->seen, event->hashes, event->hashes_count,
                          &repeated)) {
        return KV_FAULT_MEMORY;
    }
    return repeated ? KV_FAULT_REPEATED : KV_FAULT_NONE;
}

/* Only what a removal can say, whatever else it said. */
static enum kv_fault
finish_removed(struct kv_decode *d)
{
    struct kv_event *event = d->event;
    bool aligned = d->remaining_count == event->hashes_count;

    *event = (struct kv_event){
        .kind = KV_REMOVED,
        .hashes = event->hashes,
        .hashes_count = event->hashes_count,
        .medium = event->medium,
        .locality = event->locality,
        .spec_kind = event->spec_kind,
        .has_group = event->has_group,
        .group = event->group,
        .remaining = aligned ? event->remaining : NULL,
    };
    return (d->good & KV_FIELD_BIT(KV_FIELD_HASHES)) != 0 &&
                   (d->bad & FIELDS_REMOVED) == 0
               ? KV_FAULT_NONE
               : KV_FAULT_MALFORMED;
}

static enum kv_fault
finish(struct kv_decode *d)
{
    if (d->deep) {
        return KV_FAULT_MALFORMED;
    }
    if (d->no_memory) {
        return KV_FAULT_MEMORY;
    }
    if ((d->good & KV_FIELD_BIT(KV_FIELD_TYPE)) == 0) {
        return KV_FAULT_MALFORMED;
    }
    if (IS(d->type, "BlockStored")) {
        return finish_stored(d);
    }
    if (IS(d->type, "BlockRemoved")) {
        return finish_removed(d);
    }
    if (IS(d->type, "AllBlocksCleared")) {
        *d->event = (struct kv_event){.kind = KV_CLEARED};
        return KV_FAULT_NONE;
    }
    return KV_FAULT_UNKNOWN_TYPE;
}

const uint8_t *
kv_event_read(struct kv_arrays *arrays, const struct kv_limits *limits,
              const uint8_t *at, const uint8_t *end, struct kv_event *event,
              enum kv_fault *fault)
{
    struct kv_decode d = {
        .arrays = arrays,
        .limits = limits,
        .end = end,
        .event = event,
    };
    struct token token;
    const uint8_t *next = token_read(at, end, &token);

    *event = (struct kv_event){0};
    if (next != NULL && token.kind == TOKEN_MAP) {
        next = read_map(&d, next, token.value);
    } else if (next != NULL && token.kind == TOKEN_ARRAY) {
        next = read_array(&d, next, token.value);
    }
    *fault = next != NULL ? finish(&d) : KV_FAULT_MALFORMED;
    return next;
}
