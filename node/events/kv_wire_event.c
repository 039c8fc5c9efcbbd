/* Which field of an event is which, and what may be in it. */
#include "node/events/kv_wire_event_internal.h"

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
    case 19:
        return IS(key, "lookahead_token_ids") ? KV_FIELD_AHEAD : KV_FIELD_NONE;
    case 21:
        return IS(key, "remaining_copy_counts") ? KV_FIELD_REMAINING
                                                : KV_FIELD_NONE;
    case 28:
        return IS(key, "kv_cache_spec_sliding_window") ? KV_FIELD_WINDOW
                                                       : KV_FIELD_NONE;
    default:
        return KV_FIELD_NONE;
    }
}

/* A value that a field cannot have, which ends at `next` if it is a scalar. */
static const uint8_t *
refuse(struct kv_decode *d, const uint8_t *start, const uint8_t *next,
       const struct token *token, uint32_t bit)
{
    d->bad |= bit;
    return token->kind >= TOKEN_ARRAY ? kv_pass(d, start, KV_LEVEL_FIELD)
                                      : next;
}

static inline const uint8_t *
read_text(struct kv_decode *d, const uint8_t *start, uint32_t bit,
          struct slice *out)
{
    struct token token;
    const uint8_t *at = token_read(start, d->end, &token);

    *out = (struct slice){0};
    if (at == NULL || token.kind == TOKEN_NIL) {
        return at;
    }
    if (token.kind != TOKEN_STR) {
        return refuse(d, start, at, &token, bit);
    }
    *out = token.bytes;
    d->good |= bit;
    return at;
}

static const uint8_t *
read_type(struct kv_decode *d, const uint8_t *start, uint32_t bit)
{
    struct slice tag;
    const uint8_t *at = read_text(d, start, bit, &tag);

    d->tag = IS(tag, "BlockStored")        ? KV_TAG_STORED
             : IS(tag, "BlockRemoved")     ? KV_TAG_REMOVED
             : IS(tag, "AllBlocksCleared") ? KV_TAG_CLEARED
                                           : KV_TAG_UNKNOWN;
    return at;
}

static inline const uint8_t *
read_u32(struct kv_decode *d, const uint8_t *start, uint32_t bit, uint32_t *out)
{
    struct token token;
    const uint8_t *at = token_read(start, d->end, &token);

    *out = 0;
    if (at == NULL || token.kind == TOKEN_NIL) {
        return at;
    }
    if (token.kind != TOKEN_UINT || token.value > UINT32_MAX) {
        return refuse(d, start, at, &token, bit);
    }
    *out = (uint32_t)token.value;
    d->good |= bit;
    return at;
}

static const uint8_t *
read_lora_id(struct kv_decode *d, const uint8_t *start, uint32_t bit)
{
    struct token token;
    const uint8_t *at = token_read(start, d->end, &token);

    d->event->lora_id = 0;
    if (at == NULL || token.kind == TOKEN_NIL) {
        return at;
    }
    if (token.kind != TOKEN_NINT &&
        (token.kind != TOKEN_UINT || token.value > INT64_MAX)) {
        return refuse(d, start, at, &token, bit);
    }
    d->event->lora_id = (int64_t)token.value;
    d->good |= bit;
    return at;
}

static const uint8_t *
read_parent(struct kv_decode *d, const uint8_t *start, uint32_t bit)
{
    struct token token;
    const uint8_t *at = kv_read_hash(start, d->end, &d->event->parent);

    if (LIKELY(at != NULL)) {
        d->good |= bit;
        return at;
    }
    at = token_read(start, d->end, &token);
    d->event->parent = 0;
    return at == NULL || token.kind == TOKEN_NIL
               ? at
               : refuse(d, start, at, &token, bit);
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

/* In line where events are many: with a field that is known it is no switch. */
static inline __attribute__((always_inline)) const uint8_t *
read_any(struct kv_decode *d, const uint8_t *at, enum kv_field field)
{
    struct kv_event *event = d->event;
    uint32_t bit = KV_FIELD_BIT(field);

    d->good &= ~bit; /* of a key that comes twice the last counts, as nil too */
    d->bad &= ~bit;
    switch (field) {
    case KV_FIELD_TYPE:
        return read_type(d, at, bit);
    case KV_FIELD_HASHES:
        return kv_read_hashes(d, at);
    case KV_FIELD_PARENT:
        return read_parent(d, at, bit);
    case KV_FIELD_TOKENS:
        return kv_read_tokens(d, at);
    case KV_FIELD_BLOCK_SIZE:
        return read_u32(d, at, bit, &event->block_tokens);
    case KV_FIELD_LORA_ID:
        return read_lora_id(d, at, bit);
    case KV_FIELD_MEDIUM:
        return read_text(d, at, bit, &event->medium);
    case KV_FIELD_LORA_NAME:
        return read_text(d, at, bit, &event->lora_name);
    case KV_FIELD_EXTRAS:
    case KV_FIELD_MM_KEYS:
        return read_extras(d, at, field);
    case KV_FIELD_GROUP:
        return read_u32(d, at, bit, &event->group);
    case KV_FIELD_SPEC_KIND:
        return read_text(d, at, bit, &event->spec_kind);
    case KV_FIELD_WINDOW:
        return read_u32(d, at, bit, &event->window);
    case KV_FIELD_SALT:
        return read_text(d, at, bit, &event->salt);
    case KV_FIELD_LOCALITY:
        return read_text(d, at, bit, &event->locality);
    case KV_FIELD_REMAINING:
        return kv_read_remaining(d, at);
    case KV_FIELD_AHEAD:
        return kv_read_ahead(d, at);
    case KV_FIELD_NONE:
        break;
    }
    return kv_pass(d, at, KV_LEVEL_FIELD);
}

static const uint8_t *
read_field(struct kv_decode *d, const uint8_t *at, enum kv_field field)
{
    return read_any(d, at, field);
}

#define KEY_BYTES 24

/* The fields' keys as they are on the wire, as far as they follow each other
 * in vLLM's and SGLang's maps. */
static const char wire_keys[][KEY_BYTES] = {
    [KV_FIELD_TYPE] = "\xa4type",
    [KV_FIELD_HASHES] = "\xac"
                        "block_hashes",
    [KV_FIELD_PARENT] = "\xb1parent_block_hash",
    [KV_FIELD_TOKENS] = "\xa9token_ids",
    [KV_FIELD_BLOCK_SIZE] = "\xaa"
                            "block_size",
    [KV_FIELD_LORA_ID] = "\xa7lora_id",
    [KV_FIELD_MEDIUM] = "\xa6medium",
    [KV_FIELD_LORA_NAME] = "\xa9lora_name",
    [KV_FIELD_EXTRAS] = "\xaa"
                        "extra_keys",
    [KV_FIELD_GROUP] = "\xa9group_idx",
    [KV_FIELD_SPEC_KIND] = "\xb2kv_cache_spec_kind",
};

/* Whether the KEY_BYTES bytes there begin with this key of len bytes, its head
 * included: without a branch on its length. */
static inline bool
begins_with(const uint8_t *at, const char *key, size_t len)
{
    static const uint8_t ones[2 * KEY_BYTES] = {
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255,
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255};
    uint64_t a[KEY_BYTES / 8];
    uint64_t b[KEY_BYTES / 8];
    uint64_t mask[KEY_BYTES / 8];

    memcpy(a, at, sizeof a);
    memcpy(b, key, sizeof b);
    memcpy(mask, ones + KEY_BYTES - len, sizeof mask);
    return (((a[0] ^ b[0]) & mask[0]) | ((a[1] ^ b[1]) & mask[1]) |
            ((a[2] ^ b[2]) & mask[2])) == 0;
}

/*
 * The key of a map: which field its value is; NONE for a key that is no
 * string. *field comes as the one that is likely.
 */
static inline const uint8_t *
read_key(struct kv_decode *d, const uint8_t *start, enum kv_field *field)
{
    struct token token;

    if (LIKELY(d->end - start >= KEY_BYTES && *field <= KV_FIELD_SPEC_KIND)) {
        const char *key = wire_keys[*field];
        size_t len = 1 + ((uint8_t)key[0] & 0x1fU);
        if (LIKELY(begins_with(start, key, len))) {
            return start + len;
        }
    }
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
    enum kv_field field = KV_FIELD_TYPE;

    for (uint64_t i = 0; i < items && at != NULL; i += 2) {
        at = read_key(d, at, &field);
        at = at != NULL ? read_any(d, at, field) : NULL;
        field = (enum kv_field)((unsigned)field + 1);
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
    enum kv_field field = KV_FIELD_NONE;

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

/* Reads the elements at the end of arrays, which are identified by type. */
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
        field = has_kind ? KV_FIELD_WINDOW : KV_FIELD_GROUP;
        field = (known & KV_FIELD_BIT(field)) == 0 ? field : KV_FIELD_NONE;
    } else if (token.kind == TOKEN_STR &&
               (IS(token.bytes, "LOCAL") || IS(token.bytes, "REMOTE"))) {
        field = KV_FIELD_LOCALITY;
    } else if (token.kind == TOKEN_STR && !has_kind) {
        field = KV_FIELD_SPEC_KIND;
    }
    return read_field(d, at, field);
}

/* Reads the slots of a stored event after its tag. */
static const uint8_t *
read_stored(struct kv_decode *d, const uint8_t *at, uint64_t items)
{
    if (LIKELY(items > 4)) {
        at = read_any(d, at, KV_FIELD_HASHES);
        at = at != NULL ? read_any(d, at, KV_FIELD_PARENT) : NULL;
        at = at != NULL ? read_any(d, at, KV_FIELD_TOKENS) : NULL;
        at = at != NULL ? read_any(d, at, KV_FIELD_BLOCK_SIZE) : NULL;
    }
    for (uint64_t slot = items > 4 ? 5 : 1; slot < items && at != NULL;
         slot++) {
        if (slot == 5) {
            at = read_field(d, at, KV_FIELD_LORA_ID);
        } else if (slot == 6) {
            at = read_field(d, at, KV_FIELD_MEDIUM);
        } else if (slot == 7) {
            at = read_slot_7(d, at);
        } else if (slot == 8) {
            at = read_field(d, at, KV_FIELD_EXTRAS);
        } else if (slot >= TAIL_FIRST && slot <= TAIL_LAST) {
            at = read_tail(d, at);
        } else { /* not known yet, or too few for what is required */
            at = kv_pass(d, at, KV_LEVEL_FIELD);
        }
    }
    return at;
}

/* What is no string behind the group is a publisher's own. */
static const uint8_t *
read_removed_slot(struct kv_decode *d, const uint8_t *at, uint64_t slot)
{
    static const uint8_t fields[] = {
        [1] = KV_FIELD_HASHES,
        [2] = KV_FIELD_MEDIUM,
        [3] = KV_FIELD_GROUP,
        [4] = KV_FIELD_LOCALITY,
    };
    enum kv_field field =
        slot < sizeof fields ? (enum kv_field)fields[slot] : KV_FIELD_NONE;
    struct token token;

    if (field == KV_FIELD_LOCALITY) {
        if (token_read(at, d->end, &token) == NULL) {
            return NULL;
        }
        field = token.kind == TOKEN_STR ? field : KV_FIELD_NONE;
    }
    return read_field(d, at, field);
}

static const uint8_t *
read_array(struct kv_decode *d, const uint8_t *at, uint64_t items)
{
    if (items == 0) {
        return at;
    }
    at = read_field(d, at, KV_FIELD_TYPE);
    bool has_tag = (d->good & KV_FIELD_BIT(KV_FIELD_TYPE)) != 0;
    bool is_stored = has_tag && d->tag == KV_TAG_STORED;
    bool is_removed = has_tag && d->tag == KV_TAG_REMOVED;
    if (is_stored && at != NULL) {
        return read_stored(d, at, items);
    }
    for (uint64_t slot = 1; slot < items && at != NULL; slot++) {
        at = is_removed ? read_removed_slot(d, at, slot)
                        : kv_pass(d, at, KV_LEVEL_FIELD);
    }
    return at;
}

static enum kv_fault
finish_stored(struct kv_decode *d)
{
    struct kv_event *event = d->event;
    bool told = event->ahead == 0 || d->ahead_count == event->hashes_count;
    bool repeated;

    event->ahead = told ? event->ahead : 0;
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
    if (!told) {
        return KV_FAULT_UNALIGNED;
    }
    if (d->pairs && !kv_pairs_ahead(d)) {
        return KV_FAULT_MEMORY;
    }
    for (uint32_t i = 0; event->has_parent && i < event->hashes_count; i++) {
        if (event->hashes[i] == event->parent) {
            return KV_FAULT_REPEATED;
        }
    }
    repeated = false;
    if (event->hashes_count > 1 &&
        !kv_find_repeated(&d->arrays->seen, event->hashes, event->hashes_count,
                          &repeated)) {
        return KV_FAULT_MEMORY;
    }
    return repeated ? KV_FAULT_REPEATED : KV_FAULT_NONE;
}

/* Keeps only what a removal can say, and ignores the rest. */
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
    bool typed = (d->good & KV_FIELD_BIT(KV_FIELD_TYPE)) != 0;

    if (typed && d->tag == KV_TAG_REMOVED) {
        d->event->kind = KV_REMOVED; /* also of one that is dropped */
    }
    if (d->no_memory && !d->deep) {
        return KV_FAULT_MEMORY;
    }
    if (d->deep || !typed) {
        return KV_FAULT_MALFORMED;
    }
    d->event->has_parent = (d->good & KV_FIELD_BIT(KV_FIELD_PARENT)) != 0;
    d->event->has_lora_id = (d->good & KV_FIELD_BIT(KV_FIELD_LORA_ID)) != 0;
    d->event->has_group = (d->good & KV_FIELD_BIT(KV_FIELD_GROUP)) != 0;
    switch (d->tag) {
    case KV_TAG_STORED:
        return finish_stored(d);
    case KV_TAG_REMOVED:
        return finish_removed(d);
    case KV_TAG_CLEARED:
        *d->event = (struct kv_event){.kind = KV_CLEARED};
        return KV_FAULT_NONE;
    case KV_TAG_UNKNOWN:
        break;
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
