#include "tests/fuzz/kv_oracle.h"

#include "index/index.h"

#include "tests/fuzz/kv_walk.h"

/* ---- the batch ---- */

static int64_t
rank_of(const uint8_t *at, const uint8_t *next)
{
    msgpack_unpacked tree;
    int64_t rank = -1;

    if (kv_walk_parse(at, next, &tree) &&
        tree.data.type == MSGPACK_OBJECT_POSITIVE_INTEGER &&
        tree.data.via.u64 <= INT64_MAX) {
        rank = tree.data.via.i64;
    }
    msgpack_unpacked_destroy(&tree);
    return rank;
}

static const uint8_t *
begin_map(struct kv_oracle *oracle, const uint8_t *at, uint64_t items)
{
    const uint8_t *events = NULL;

    for (uint64_t i = 0; i < items; i += 2) {
        msgpack_unpacked key;
        const uint8_t *value = kv_walk_behind(at, oracle->end);
        struct kv_walk_head head;
        if (value == NULL || !kv_walk_head(value, oracle->end, &head)) {
            /* A key whose value never begins. */
            if (value != NULL && kv_walk_parse(at, value, &key)) {
                events = kv_walk_is_text(&key.data, "events") ? value : events;
            }
            if (value != NULL) {
                msgpack_unpacked_destroy(&key);
            }
            return events;
        }
        const uint8_t *next = kv_walk_behind(value, oracle->end);
        if (kv_walk_parse(at, value, &key)) {
            if (kv_walk_is_text(&key.data, "events")) {
                events = value;
            } else if (next != NULL &&
                       (kv_walk_is_text(&key.data, "data_parallel_rank") ||
                        kv_walk_is_text(&key.data, "attn_dp_rank"))) {
                oracle->rank = rank_of(value, next);
            }
        }
        msgpack_unpacked_destroy(&key);
        if (next == NULL) {
            return events;
        }
        at = next;
    }
    oracle->tail_ok = at == oracle->end;
    return events;
}

void
kv_oracle_begin(struct kv_oracle *oracle, struct slice payload,
                const struct kv_limits *limits)
{
    const uint8_t *at = (const uint8_t *)payload.ptr;
    struct kv_walk_head head;

    *oracle = (struct kv_oracle){
        .limits = *limits, .end = at + payload.len, .broken = true, .rank = -1};
    if (payload.len > limits->payload_bytes_max ||
        !kv_walk_head(at, oracle->end, &head)) {
        return;
    }
    oracle->is_map = head.is_map;
    at += head.size;
    if (head.is_map && head.items <= (size_t)(oracle->end - at)) {
        at = begin_map(oracle, at, head.items);
    } else if (head.is_array && head.items >= 2 &&
               head.items <= (size_t)(oracle->end - at)) {
        oracle->tail = head.items - 2;
        at = kv_walk_behind(at, oracle->end);
    } else {
        at = NULL;
    }
    if (at == NULL || !kv_walk_head(at, oracle->end, &head) || !head.is_array) {
        return;
    }
    oracle->at = at + head.size;
    oracle->left = head.items;
    oracle->broken = head.items > (size_t)(oracle->end - oracle->at);
}

/* Behind the last event: whether the batch ends as it should. */
static bool
ends_well(struct kv_oracle *oracle)
{
    const uint8_t *at = oracle->at;

    if (oracle->is_map) {
        return oracle->tail_ok;
    }
    for (uint64_t i = 0; i < oracle->tail; i++) {
        const uint8_t *next = kv_walk_behind(at, oracle->end);
        if (next == NULL) {
            return false;
        }
        if (i == 0) {
            oracle->rank = rank_of(at, next);
        }
        at = next;
    }
    return at == oracle->end;
}

/* ---- one event ---- */

/* The fields' values; NULL: absent or nil. */
struct fields {
    const msgpack_object *type;
    const msgpack_object *hashes;
    const msgpack_object *parent;
    const msgpack_object *tokens;
    const msgpack_object *block_size;
    const msgpack_object *lora_id;
    const msgpack_object *medium;
    const msgpack_object *lora_name;
    const msgpack_object *extras;
    const msgpack_object *mm_keys;
    const msgpack_object *group;
    const msgpack_object *kind;
    const msgpack_object *window;
    const msgpack_object *salt;
    const msgpack_object *locality;
    const msgpack_object *remaining;
    const msgpack_object *ahead;
};

static const msgpack_object *
not_nil(const msgpack_object *o)
{
    return o->type == MSGPACK_OBJECT_NIL ? NULL : o;
}

static void
set_by_key(struct fields *f, const msgpack_object *key,
           const msgpack_object *value)
{
    const struct {
        const char *name;
        const msgpack_object **to;
    } names[] = {
        {"type", &f->type},
        {"block_hashes", &f->hashes},
        {"parent_block_hash", &f->parent},
        {"token_ids", &f->tokens},
        {"block_size", &f->block_size},
        {"lora_id", &f->lora_id},
        {"medium", &f->medium},
        {"lora_name", &f->lora_name},
        {"extra_keys", &f->extras},
        {"mm_keys", &f->mm_keys},
        {"group_idx", &f->group},
        {"kv_cache_spec_kind", &f->kind},
        {"kv_cache_spec_sliding_window", &f->window},
        {"cache_salt", &f->salt},
        {"locality", &f->locality},
        {"remaining_copy_counts", &f->remaining},
        {"lookahead_token_ids", &f->ahead},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (kv_walk_is_text(key, names[i].name)) {
            *names[i].to = not_nil(value);
        }
    }
}

static void
set_slot_7(struct fields *f, const msgpack_object *o)
{
    if (o->type == MSGPACK_OBJECT_STR) {
        f->lora_name = o;
    }
    for (uint32_t i = 0; o->type == MSGPACK_OBJECT_MAP && i < o->via.map.size;
         i++) {
        const msgpack_object_kv *pair = &o->via.map.ptr[i];
        if (kv_walk_is_text(&pair->key, "cache_salt") ||
            kv_walk_is_text(&pair->key, "lora_name")) {
            set_by_key(f, &pair->key, &pair->val);
        }
    }
}

static void
set_tail(struct fields *f, const msgpack_object *o)
{
    bool is_int = o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
                  o->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;

    if (is_int && f->kind == NULL && f->group == NULL) {
        f->group = o;
    } else if (is_int && f->kind != NULL && f->window == NULL) {
        f->window = o;
    } else if (kv_walk_is_text(o, "LOCAL") || kv_walk_is_text(o, "REMOTE")) {
        f->locality = o;
    } else if (o->type == MSGPACK_OBJECT_STR && f->kind == NULL) {
        f->kind = o;
    }
}

static void
set_by_slot(struct fields *f, const msgpack_object_array *a)
{
    const msgpack_object **stored[] = {&f->type,   &f->hashes,     &f->parent,
                                       &f->tokens, &f->block_size, &f->lora_id,
                                       &f->medium, NULL,           &f->extras};
    const msgpack_object **removed[] = {&f->type, &f->hashes, &f->medium,
                                        &f->group, &f->locality};
    bool is_stored = kv_walk_is_text(&a->ptr[0], "BlockStored");
    bool is_removed = kv_walk_is_text(&a->ptr[0], "BlockRemoved");

    f->type = not_nil(&a->ptr[0]);
    for (uint32_t i = 1; i < a->size; i++) {
        const msgpack_object *o = &a->ptr[i];
        if (is_removed &&
            (i < 4 || (i == 4 && o->type == MSGPACK_OBJECT_STR))) {
            *removed[i] = not_nil(o);
        } else if (is_stored && i == 7) {
            set_slot_7(f, o);
        } else if (is_stored && i < 9) {
            *stored[i] = not_nil(o);
        } else if (is_stored && i <= 12) {
            set_tail(f, o);
        }
    }
}

static bool
is_uint(const msgpack_object *o, uint64_t max)
{
    return o->type == MSGPACK_OBJECT_POSITIVE_INTEGER && o->via.u64 <= max;
}

static bool
fold(const msgpack_object *o, uint64_t *hash)
{
    const uint8_t *bytes;
    size_t n;

    if (o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
        o->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) {
        *hash = o->via.u64;
        return true;
    }
    if (o->type == MSGPACK_OBJECT_BIN) {
        bytes = (const uint8_t *)o->via.bin.ptr;
        n = o->via.bin.size;
    } else if (o->type == MSGPACK_OBJECT_STR) {
        bytes = (const uint8_t *)o->via.str.ptr;
        n = o->via.str.size;
    } else {
        return false;
    }
    size_t used = n < 8 ? n : 8;
    *hash = kv_walk_number(bytes + n - used, used);
    return n > 0;
}

static bool
good_text(const msgpack_object *o)
{
    return o == NULL || o->type == MSGPACK_OBJECT_STR;
}

static bool
good_hashes(const msgpack_object *o, uint32_t max)
{
    uint64_t hash;

    if (o == NULL || !kv_walk_is_array(o, max)) {
        return false;
    }
    for (uint32_t i = 0; i < o->via.array.size; i++) {
        if (!fold(&o->via.array.ptr[i], &hash)) {
            return false;
        }
    }
    return true;
}

/* The number of a cell; -1: a string, -2: none. */
static int64_t
cell(const msgpack_object *o)
{
    if (is_uint(o, UINT32_MAX)) {
        return o->via.i64;
    }
    if (kv_walk_is_array(o, 2) && o->via.array.size == 2 &&
        is_uint(&o->via.array.ptr[0], UINT32_MAX) &&
        is_uint(&o->via.array.ptr[1], UINT32_MAX)) {
        return o->via.array.ptr[0].via.i64;
    }
    return o->type == MSGPACK_OBJECT_STR ? -1 : -2;
}

static bool
good_tokens(const msgpack_object *o, uint32_t max, bool *opaque)
{
    bool pairs = false;
    bool numbers = false;

    *opaque = false;
    if (o == NULL || !kv_walk_is_array(o, max)) {
        return false;
    }
    for (uint32_t i = 0; i < o->via.array.size; i++) {
        const msgpack_object *one = &o->via.array.ptr[i];
        if (cell(one) == -2) {
            return false;
        }
        *opaque = *opaque || cell(one) == -1;
        pairs = pairs || one->type == MSGPACK_OBJECT_ARRAY;
        numbers = numbers || one->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
    }
    return !(pairs && numbers);
}

static bool
good_remaining(const msgpack_object *o, uint32_t max, uint32_t hashes)
{
    if (o == NULL || !kv_walk_is_array(o, max) || o->via.array.size != hashes) {
        return false;
    }
    for (uint32_t i = 0; i < hashes; i++) {
        if (!is_uint(&o->via.array.ptr[i], UINT64_MAX)) {
            return false;
        }
    }
    return true;
}

/* How many tokens each block has behind it, by its first list. */
static uint32_t
width_of(const msgpack_object *o)
{
    const msgpack_object *first =
        o != NULL && o->via.array.size > 0 ? &o->via.array.ptr[0] : NULL;

    return first != NULL && first->type == MSGPACK_OBJECT_ARRAY
               ? first->via.array.size
               : 0;
}

/* Lists of as many ids each; those of too many are not looked at. */
static bool
good_ahead(const msgpack_object *o, const struct kv_limits *limits)
{
    if (o == NULL) {
        return true;
    }
    if (!kv_walk_is_array(o, limits->hashes_max)) {
        return false;
    }
    uint32_t width = width_of(o);
    if (width > SHAPE_AHEAD_MAX && width <= limits->tokens_max) {
        return true;
    }
    for (uint32_t i = 0; i < o->via.array.size; i++) {
        const msgpack_object *one = &o->via.array.ptr[i];
        if (!kv_walk_is_array(one, width) || one->via.array.size != width ||
            width > SHAPE_AHEAD_MAX) {
            return false;
        }
        for (uint32_t t = 0; t < width; t++) {
            if (!is_uint(&one->via.array.ptr[t], UINT32_MAX)) {
                return false;
            }
        }
    }
    return true;
}

static bool
good_stored(const struct fields *f, const struct kv_limits *limits)
{
    uint64_t hash;
    bool opaque;

    return good_hashes(f->hashes, limits->hashes_max) &&
           good_tokens(f->tokens, limits->tokens_max, &opaque) &&
           f->block_size != NULL && is_uint(f->block_size, UINT32_MAX) &&
           (f->parent == NULL || fold(f->parent, &hash)) &&
           (f->lora_id == NULL || is_uint(f->lora_id, INT64_MAX) ||
            f->lora_id->type == MSGPACK_OBJECT_NEGATIVE_INTEGER) &&
           (f->group == NULL || is_uint(f->group, UINT32_MAX)) &&
           (f->window == NULL || is_uint(f->window, UINT32_MAX)) &&
           (f->extras == NULL || kv_walk_is_array(f->extras, UINT32_MAX)) &&
           (f->mm_keys == NULL || kv_walk_is_array(f->mm_keys, UINT32_MAX)) &&
           good_ahead(f->ahead, limits) && good_text(f->medium) &&
           good_text(f->lora_name) && good_text(f->kind) &&
           good_text(f->salt) && good_text(f->locality);
}

static bool
has_twice(const struct fields *f)
{
    const msgpack_object_array *a = &f->hashes->via.array;
    uint64_t x;
    uint64_t y;

    for (uint32_t i = 0; i < a->size; i++) {
        CHECK(fold(&a->ptr[i], &x));
        if (f->parent != NULL && fold(f->parent, &y) && x == y) {
            return true;
        }
        for (uint32_t j = 0; j < i; j++) {
            CHECK(fold(&a->ptr[j], &y));
            if (x == y) {
                return true;
            }
        }
    }
    return false;
}

static enum kv_fault
judge_stored(const struct fields *f, const struct kv_limits *limits)
{
    if (!good_stored(f, limits)) {
        return KV_FAULT_MALFORMED;
    }
    uint64_t tokens = f->tokens->via.array.size;
    uint64_t blocks = f->hashes->via.array.size;
    if (tokens != 0 && blocks * f->block_size->via.u64 != tokens) {
        return KV_FAULT_UNALIGNED;
    }
    if (width_of(f->ahead) != 0 && f->ahead->via.array.size != blocks) {
        return KV_FAULT_UNALIGNED;
    }
    return has_twice(f) ? KV_FAULT_REPEATED : KV_FAULT_NONE;
}

static enum kv_fault
judge(const msgpack_object *o, const struct kv_limits *limits, struct fields *f)
{
    *f = (struct fields){0};
    if (o->type == MSGPACK_OBJECT_MAP) {
        for (uint32_t i = 0; i < o->via.map.size; i++) {
            set_by_key(f, &o->via.map.ptr[i].key, &o->via.map.ptr[i].val);
        }
    } else if (o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size > 0) {
        set_by_slot(f, &o->via.array);
    }
    if (f->type == NULL || f->type->type != MSGPACK_OBJECT_STR) {
        return KV_FAULT_MALFORMED;
    }
    if (kv_walk_is_text(f->type, "BlockStored")) {
        return judge_stored(f, limits);
    }
    if (kv_walk_is_text(f->type, "BlockRemoved")) {
        bool good = good_hashes(f->hashes, limits->hashes_max) &&
                    good_text(f->medium) && good_text(f->kind) &&
                    good_text(f->locality) &&
                    (f->group == NULL || is_uint(f->group, UINT32_MAX));
        return good ? KV_FAULT_NONE : KV_FAULT_MALFORMED;
    }
    return kv_walk_is_text(f->type, "AllBlocksCleared") ? KV_FAULT_NONE
                                                        : KV_FAULT_UNKNOWN_TYPE;
}

/* ---- what the reader said of it ---- */

static bool
same_text(struct slice said, const msgpack_object *o)
{
    return slice_equal(said, o != NULL ? kv_walk_text(o) : (struct slice){0});
}

static bool
same_hashes(const struct kv_event *event, const msgpack_object *o)
{
    uint64_t hash;

    if (event->hashes_count != o->via.array.size) {
        return false;
    }
    for (uint32_t i = 0; i < event->hashes_count; i++) {
        if (!fold(&o->via.array.ptr[i], &hash) || hash != event->hashes[i]) {
            return false;
        }
    }
    return true;
}

static bool
same_tokens(const struct kv_event *event, const struct fields *f)
{
    bool opaque;

    if (!good_tokens(f->tokens, UINT32_MAX, &opaque) ||
        opaque != event->tokens_opaque ||
        event->tokens_count != f->tokens->via.array.size) {
        return false;
    }
    for (uint32_t i = 0; i < event->tokens_count; i++) {
        int64_t number = cell(&f->tokens->via.array.ptr[i]);
        if (number >= 0 && number != (int64_t)event->tokens[i]) {
            return false;
        }
    }
    return true;
}

/* msgpack_object_equal() finds a NaN unlike itself. */
static bool
same_packed(const msgpack_object *a, const msgpack_object *b)
{
    msgpack_sbuffer bytes[2];
    msgpack_packer packer;

    for (int i = 0; i < 2; i++) {
        msgpack_sbuffer_init(&bytes[i]);
        msgpack_packer_init(&packer, &bytes[i], msgpack_sbuffer_write);
        CHECK(msgpack_pack_object(&packer, i == 0 ? *a : *b) == 0);
    }
    bool same = bytes[0].size == bytes[1].size &&
                (bytes[0].size == 0 ||
                 memcmp(bytes[0].data, bytes[1].data, bytes[0].size) == 0);
    msgpack_sbuffer_destroy(&bytes[0]);
    msgpack_sbuffer_destroy(&bytes[1]);
    return same;
}

static bool
same_extras(const struct kv_event *event, const struct fields *f)
{
    const msgpack_object *o = f->extras != NULL ? f->extras : f->mm_keys;
    msgpack_unpacked tree;

    if (o == NULL || event->extras.len == 0) {
        return o == NULL && event->extras.len == 0;
    }
    const uint8_t *at = (const uint8_t *)event->extras.ptr;
    bool same = kv_walk_parse(at, at + event->extras.len, &tree) &&
                same_packed(&tree.data, o);
    msgpack_unpacked_destroy(&tree);
    return same;
}

/* Pairs tell of the token behind each block, where nothing else does. */
static bool
same_ahead(const struct kv_event *event, const struct fields *f)
{
    const msgpack_object_array *tokens = &f->tokens->via.array;
    uint32_t blocks = f->hashes->via.array.size;
    uint32_t width = width_of(f->ahead);
    bool told = width != 0 && f->ahead->via.array.size == blocks;
    bool aligned =
        blocks * f->block_size->via.u64 == tokens->size && tokens->size > 0;

    if (width != 0 && !told) {
        return event->ahead == 0;
    }
    if (told && width > SHAPE_AHEAD_MAX) {
        return event->ahead == width;
    }
    for (uint32_t i = 0; told && i < blocks * width; i++) {
        const msgpack_object *list = &f->ahead->via.array.ptr[i / width];
        if (list->via.array.ptr[i % width].via.u64 != event->ahead_tokens[i]) {
            return false;
        }
    }
    if (told || !aligned) {
        return event->ahead == width;
    }
    uint32_t size = (uint32_t)f->block_size->via.u64;
    const msgpack_object *last = NULL; /* the last pair of the event */
    for (uint32_t i = 0; i < tokens->size; i++) {
        last = tokens->ptr[i].type == MSGPACK_OBJECT_ARRAY ? &tokens->ptr[i]
                                                           : last;
    }
    if (last == NULL) {
        return event->ahead == 0;
    }
    for (uint32_t i = 1; i < blocks; i++) {
        if (event->ahead_tokens[i - 1] != event->tokens[i * size]) {
            return false;
        }
    }
    return event->ahead == 1 &&
           event->ahead_tokens[blocks - 1] == last->via.array.ptr[1].via.u64;
}

static bool
same_common(const struct kv_event *event, const struct fields *f)
{
    return same_hashes(event, f->hashes) &&
           same_text(event->medium, f->medium) &&
           same_text(event->locality, f->locality) &&
           same_text(event->spec_kind, f->kind) &&
           event->has_group == (f->group != NULL) &&
           event->group == (f->group != NULL ? f->group->via.u64 : 0);
}

static bool
same_stored(const struct kv_event *event, const struct fields *f)
{
    uint64_t parent = 0;
    bool has_parent = f->parent != NULL && fold(f->parent, &parent);
    int64_t lora_id = f->lora_id != NULL ? f->lora_id->via.i64 : 0;

    return event->kind == KV_STORED && same_common(event, f) &&
           same_tokens(event, f) && same_extras(event, f) &&
           same_ahead(event, f) &&
           event->block_tokens == f->block_size->via.u64 &&
           event->has_parent == has_parent && event->parent == parent &&
           event->window == (f->window != NULL ? f->window->via.u64 : 0) &&
           event->has_lora_id == (f->lora_id != NULL) &&
           event->lora_id == lora_id &&
           same_text(event->lora_name, f->lora_name) &&
           same_text(event->salt, f->salt) && event->remaining == NULL;
}

static bool
same_removed(const struct kv_event *event, const struct fields *f,
             const struct kv_limits *limits)
{
    bool counted = good_remaining(f->remaining, limits->hashes_max,
                                  f->hashes->via.array.size);
    struct kv_event rest = *event;

    if (event->kind != KV_REMOVED || !same_common(event, f) ||
        (event->remaining != NULL) != counted) {
        return false;
    }
    for (uint32_t i = 0; counted && i < event->hashes_count; i++) {
        uint64_t copies = f->remaining->via.array.ptr[i].via.u64;
        if (event->remaining[i] !=
            (copies < UINT32_MAX ? copies : UINT32_MAX)) {
            return false;
        }
    }
    return rest.tokens_count == 0 && !rest.has_parent && rest.salt.len == 0 &&
           rest.lora_name.len == 0 && rest.extras.len == 0 && rest.ahead == 0 &&
           rest.block_tokens == 0 && !rest.has_lora_id && !rest.tokens_opaque;
}

static bool
same_event(const struct kv_event *event, const struct fields *f,
           const struct kv_limits *limits)
{
    if (kv_walk_is_text(f->type, "BlockStored")) {
        return same_stored(event, f);
    }
    if (kv_walk_is_text(f->type, "BlockRemoved")) {
        return same_removed(event, f, limits);
    }
    return event->kind == KV_CLEARED && event->hashes_count == 0;
}

static bool
agrees_with(struct kv_oracle *oracle, const uint8_t *next, int outcome,
            const struct kv_event *event, enum kv_fault fault, const char **why)
{
    msgpack_unpacked tree;
    struct fields fields;

    *why = "an event that msgpack-c cannot read";
    if (!kv_walk_parse(oracle->at, next, &tree)) {
        msgpack_unpacked_destroy(&tree);
        return false;
    }
    enum kv_fault right = judge(&tree.data, &oracle->limits, &fields);
    bool told = right == KV_FAULT_NONE || right == KV_FAULT_UNALIGNED ||
                right == KV_FAULT_REPEATED;
    bool agrees = fault == right &&
                  outcome == (right == KV_FAULT_NONE ? 0 : KV_E_SKIPPED);
    *why = agrees ? "what the event says" : kv_fault_name(right);
    agrees = agrees && (!told || same_event(event, &fields, &oracle->limits));
    msgpack_unpacked_destroy(&tree);
    return agrees;
}

bool
kv_oracle_agrees(struct kv_oracle *oracle, int outcome,
                 const struct kv_event *event, enum kv_fault fault,
                 const char **why)
{
    unsigned deepest = 0;

    *why = "the end of the batch";
    if (oracle->broken) {
        return outcome == KV_E_PAYLOAD && fault == KV_FAULT_MALFORMED;
    }
    if (oracle->left == 0) {
        oracle->broken = !ends_well(oracle);
        return outcome == (oracle->broken ? KV_E_PAYLOAD : KV_E_END);
    }
    const uint8_t *next = kv_walk(oracle->at, oracle->end, 3, &deepest);
    *why = "an event that breaks off";
    if (next == NULL) {
        oracle->broken = true;
        return outcome == KV_E_PAYLOAD && fault == KV_FAULT_MALFORMED;
    }
    *why = "the depth of an event";
    bool agrees = deepest > oracle->limits.depth_max
                      ? outcome == KV_E_SKIPPED && fault == KV_FAULT_MALFORMED
                      : agrees_with(oracle, next, outcome, event, fault, why);
    oracle->at = next;
    oracle->left--;
    return agrees;
}
