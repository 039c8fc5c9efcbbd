#include "tests/fuzz/kv_oracle.h"

#include <msgpack.h>

#include "index/index.h"

/* ---- the walk ---- */

/* Bytes of a head by its lead byte, and what follows: bytes or items. */
struct head {
    size_t size;
    uint64_t bytes;
    uint64_t items;
    bool is_array;
    bool is_map;
};

static uint64_t
big_endian(const uint8_t *at, size_t n)
{
    uint64_t number = 0;

    while (n-- > 0) {
        number = number * 256 + *at++;
    }
    return number;
}

/* Heads whose length is in so many bytes behind the lead. */
static size_t
length_bytes(uint8_t lead)
{
    switch (lead) {
    case 0xc4:
    case 0xc7:
    case 0xd9:
        return 1;
    case 0xc5:
    case 0xc8:
    case 0xda:
    case 0xdc:
    case 0xde:
        return 2;
    case 0xc6:
    case 0xc9:
    case 0xdb:
    case 0xdd:
    case 0xdf:
        return 4;
    default:
        return 0;
    }
}

static uint64_t
fixed_bytes(uint8_t lead)
{
    static const uint8_t scalars[] = {4, 8, 1, 2, 4, 8, 1, 2,
                                      4, 8, 2, 3, 5, 9, 17};

    return lead >= 0xca && lead <= 0xd8 ? scalars[lead - 0xca] : 0;
}

static bool
read_head(const uint8_t *at, const uint8_t *end, struct head *head)
{
    size_t left = (size_t)(end - at);

    if (left == 0 || *at == 0xc1) {
        return false;
    }
    uint8_t lead = *at;
    size_t n = length_bytes(lead);
    if (n >= left) {
        return false;
    }
    uint64_t length = big_endian(at + 1, n);
    bool fix_map = lead >= 0x80 && lead < 0x90;
    bool fix_array = lead >= 0x90 && lead < 0xa0;
    bool fix_str = lead >= 0xa0 && lead < 0xc0;
    bool is_ext = lead >= 0xc7 && lead <= 0xc9;
    *head = (struct head){
        .size = 1 + n,
        .is_array = fix_array || lead == 0xdc || lead == 0xdd,
        .is_map = fix_map || lead == 0xde || lead == 0xdf,
        .bytes = fixed_bytes(lead),
    };
    if (fix_map || fix_array) {
        length = lead & 15;
    } else if (fix_str) {
        length = lead & 31;
    }
    if (head->is_array || head->is_map) {
        head->items = head->is_map ? 2 * length : length;
    } else {
        head->bytes += length + (is_ext ? 1 : 0);
    }
    return head->bytes <= left - head->size;
}

/* Behind the value at `at`, or NULL; *deepest: the level of the innermost
 * container, where that of the value is `level`. */
static const uint8_t *
walk(const uint8_t *at, const uint8_t *end, unsigned level, unsigned *deepest)
{
    struct head head;

    if (!read_head(at, end, &head)) {
        return NULL;
    }
    at += head.size + head.bytes;
    if ((head.is_array || head.is_map) && level > *deepest) {
        *deepest = level;
    }
    for (uint64_t i = 0; i < head.items && at != NULL; i++) {
        at = walk(at, end, level + 1, deepest);
    }
    return at;
}

static const uint8_t *
behind(const uint8_t *at, const uint8_t *end)
{
    unsigned deepest = 0;

    return walk(at, end, 1, &deepest);
}

/* The tree of a value that was walked. False: too deep for msgpack-c. */
static bool
parse(const uint8_t *at, const uint8_t *next, msgpack_unpacked *tree)
{
    size_t used = 0;
    size_t len = (size_t)(next - at);

    msgpack_unpacked_init(tree);
    if (msgpack_unpack_next(tree, (const char *)at, len, &used) !=
        MSGPACK_UNPACK_SUCCESS) {
        return false;
    }
    CHECK(used == len);
    return true;
}

/* ---- the batch ---- */

static struct slice
text(const msgpack_object *o)
{
    return (struct slice){o->via.str.ptr, o->via.str.size};
}

static bool
is_text(const msgpack_object *o, const char *want)
{
    return o->type == MSGPACK_OBJECT_STR &&
           slice_equal(text(o), slice_of(want));
}

static int64_t
rank_of(const uint8_t *at, const uint8_t *next)
{
    msgpack_unpacked tree;
    int64_t rank = -1;

    if (parse(at, next, &tree) &&
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
        const uint8_t *value = behind(at, oracle->end);
        struct head head;
        if (value == NULL || !read_head(value, oracle->end, &head)) {
            /* A key whose value never begins. */
            if (value != NULL && parse(at, value, &key)) {
                events = is_text(&key.data, "events") ? value : events;
            }
            if (value != NULL) {
                msgpack_unpacked_destroy(&key);
            }
            return events;
        }
        const uint8_t *next = behind(value, oracle->end);
        if (parse(at, value, &key)) {
            if (is_text(&key.data, "events")) {
                events = value;
            } else if (next != NULL &&
                       (is_text(&key.data, "data_parallel_rank") ||
                        is_text(&key.data, "attn_dp_rank"))) {
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
    struct head head;

    *oracle = (struct kv_oracle){
        .limits = *limits, .end = at + payload.len, .broken = true, .rank = -1};
    if (payload.len > limits->payload_bytes_max ||
        !read_head(at, oracle->end, &head)) {
        return;
    }
    oracle->is_map = head.is_map;
    at += head.size;
    if (head.is_map && head.items <= (size_t)(oracle->end - at)) {
        at = begin_map(oracle, at, head.items);
    } else if (head.is_array && head.items >= 2 &&
               head.items <= (size_t)(oracle->end - at)) {
        oracle->tail = head.items - 2;
        at = behind(at, oracle->end);
    } else {
        at = NULL;
    }
    if (at == NULL || !read_head(at, oracle->end, &head) || !head.is_array) {
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
        const uint8_t *next = behind(at, oracle->end);
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
    const msgpack_object *salt;
    const msgpack_object *locality;
    const msgpack_object *remaining;
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
        {"cache_salt", &f->salt},
        {"locality", &f->locality},
        {"remaining_copy_counts", &f->remaining},
    };

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (is_text(key, names[i].name)) {
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
        if (is_text(&pair->key, "cache_salt") ||
            is_text(&pair->key, "lora_name")) {
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
    } else if (is_text(o, "LOCAL") || is_text(o, "REMOTE")) {
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
    bool is_stored = is_text(&a->ptr[0], "BlockStored");
    bool is_removed = is_text(&a->ptr[0], "BlockRemoved");

    f->type = not_nil(&a->ptr[0]);
    for (uint32_t i = 1; i < a->size; i++) {
        const msgpack_object *o = &a->ptr[i];
        if (is_removed && i < 5) {
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
    *hash = big_endian(bytes + n - used, used);
    return n > 0;
}

static bool
is_array(const msgpack_object *o, uint32_t max)
{
    return o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size <= max;
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

    if (o == NULL || !is_array(o, max)) {
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
    if (is_array(o, 2) && o->via.array.size == 2 &&
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
    if (o == NULL || !is_array(o, max)) {
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
    if (o == NULL || !is_array(o, max) || o->via.array.size != hashes) {
        return false;
    }
    for (uint32_t i = 0; i < hashes; i++) {
        if (!is_uint(&o->via.array.ptr[i], UINT64_MAX)) {
            return false;
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
           (f->extras == NULL || is_array(f->extras, UINT32_MAX)) &&
           (f->mm_keys == NULL || is_array(f->mm_keys, UINT32_MAX)) &&
           good_text(f->medium) && good_text(f->lora_name) &&
           good_text(f->kind) && good_text(f->salt) && good_text(f->locality);
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
    if (is_text(f->type, "BlockStored")) {
        return judge_stored(f, limits);
    }
    if (is_text(f->type, "BlockRemoved")) {
        bool good = good_hashes(f->hashes, limits->hashes_max) &&
                    good_text(f->medium) && good_text(f->kind) &&
                    good_text(f->locality) &&
                    (f->group == NULL || is_uint(f->group, UINT32_MAX));
        return good ? KV_FAULT_NONE : KV_FAULT_MALFORMED;
    }
    return is_text(f->type, "AllBlocksCleared") ? KV_FAULT_NONE
                                                : KV_FAULT_UNKNOWN_TYPE;
}

/* ---- what the reader said of it ---- */

static bool
same_text(struct slice said, const msgpack_object *o)
{
    return slice_equal(said, o != NULL ? text(o) : (struct slice){0});
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
    bool same =
        parse(at, at + event->extras.len, &tree) && same_packed(&tree.data, o);
    msgpack_unpacked_destroy(&tree);
    return same;
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
           event->block_tokens == f->block_size->via.u64 &&
           event->has_parent == has_parent && event->parent == parent &&
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
           rest.lora_name.len == 0 && rest.extras.len == 0 &&
           rest.block_tokens == 0 && !rest.has_lora_id && !rest.tokens_opaque;
}

static bool
same_event(const struct kv_event *event, const struct fields *f,
           const struct kv_limits *limits)
{
    if (is_text(f->type, "BlockStored")) {
        return same_stored(event, f);
    }
    if (is_text(f->type, "BlockRemoved")) {
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
    if (!parse(oracle->at, next, &tree)) {
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
    const uint8_t *next = walk(oracle->at, oracle->end, 3, &deepest);
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

/* ---- extras ---- */

static void
add(uint64_t *media, uint64_t kind, const void *bytes, size_t n,
    uint64_t offset)
{
    uint64_t words[4] = {*media, kind, 0, offset};

    words[2] = key_digest((struct slice){bytes, n});
    *media = key_digest((struct slice){(const char *)words, sizeof words});
    *media += *media == 0;
}

static bool
is_placed(const msgpack_object *o)
{
    if (!is_array(o, 2) || o->via.array.size != 2) {
        return false;
    }
    const msgpack_object *pair = o->via.array.ptr;
    return pair[0].type == MSGPACK_OBJECT_STR &&
           (pair[1].type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
            pair[1].type == MSGPACK_OBJECT_NEGATIVE_INTEGER);
}

/* The string under a key of a map, the last that is one. */
static struct slice
under(const msgpack_object *map, const char *key)
{
    struct slice found = {0};

    for (uint32_t i = 0; i < map->via.map.size; i++) {
        const msgpack_object_kv *pair = &map->via.map.ptr[i];
        if (is_text(&pair->key, key) && pair->val.type == MSGPACK_OBJECT_STR) {
            found = text(&pair->val);
        }
    }
    return found;
}

/* Whether an element is no medium: nothing, an adapter, or *salt. */
static bool
is_no_medium(const msgpack_object *o, struct slice *salt, bool *has_salt)
{
    if (o->type == MSGPACK_OBJECT_MAP) {
        struct slice type = under(o, "type");
        if (slice_equal(type, SLICE("cache_salt"))) {
            *salt = under(o, "salt");
            *has_salt = true;
            return true;
        }
        return slice_equal(type, SLICE("lora"));
    }
    return o->type == MSGPACK_OBJECT_NIL ||
           o->type == MSGPACK_OBJECT_POSITIVE_INTEGER ||
           o->type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
}

static void
add_medium(uint64_t *media, const msgpack_object *o, const uint8_t *at,
           const uint8_t *next)
{
    if (is_placed(o)) {
        const msgpack_object *pair = o->via.array.ptr;
        add(media, 0, pair[0].via.str.ptr, pair[0].via.str.size,
            pair[1].via.u64);
    } else if (o->type == MSGPACK_OBJECT_STR) {
        add(media, 1, o->via.str.ptr, o->via.str.size, 0);
    } else if (o->type == MSGPACK_OBJECT_BIN) {
        add(media, 2, o->via.bin.ptr, o->via.bin.size, 0);
    } else {
        add(media, 3, at, (size_t)(next - at), 0);
    }
}

/* The last string of a list that is not the adapter: count when there is
 * none. The adapter is the first that is called like it. */
static uint32_t
last_text(const msgpack_object_array *list, uint32_t adapter)
{
    for (uint32_t i = list->size; i-- > 0;) {
        if (list->ptr[i].type == MSGPACK_OBJECT_STR && i != adapter) {
            return i;
        }
    }
    return list->size;
}

static uint32_t
find_adapter(const msgpack_object_array *list, struct slice lora_name)
{
    uint32_t i = 0;

    while (i < list->size &&
           (lora_name.len == 0 || list->ptr[i].type != MSGPACK_OBJECT_STR ||
            !slice_equal(text(&list->ptr[i]), lora_name))) {
        i++;
    }
    return i;
}

static uint64_t
media_of(const msgpack_object_array *list, const uint8_t *at,
         const uint8_t *end, bool first, struct slice lora_name,
         struct slice *salt)
{
    uint32_t adapter = find_adapter(list, lora_name);
    uint32_t last = first ? last_text(list, adapter) : list->size;
    bool has_salt = false;
    uint64_t media = 0;
    uint64_t held = list->size; /* a string that may yet be the salt */

    if (last < list->size) {
        *salt = text(&list->ptr[last]);
    }
    struct slice typed = {0};
    const uint8_t *texts[2] = {NULL, NULL};
    for (uint32_t i = 0; i < list->size; i++) {
        const msgpack_object *o = &list->ptr[i];
        const uint8_t *next = behind(at, end);
        bool is_string = o->type == MSGPACK_OBJECT_STR && i != adapter;
        if (is_string && first) {
            /* It is told when the next one comes. */
            if (held < list->size) {
                add_medium(&media, &list->ptr[held], texts[0], texts[1]);
            }
            held = i;
            texts[0] = at;
            texts[1] = next;
        } else if (i != adapter && !is_no_medium(o, &typed, &has_salt)) {
            add_medium(&media, o, at, next);
        }
        at = next;
    }
    if (has_salt) {
        *salt = typed;
    }
    return media;
}

bool
kv_oracle_extras(struct slice extras, size_t block, bool first,
                 struct slice lora_name, uint64_t *media, struct slice *salt)
{
    const uint8_t *at = (const uint8_t *)extras.ptr;
    const uint8_t *end = at + extras.len;
    struct head head;
    msgpack_unpacked tree;

    *media = 0;
    *salt = (struct slice){0};
    if (!read_head(at, end, &head) || block >= head.items) {
        return false;
    }
    at += head.size;
    for (size_t i = 0; i < block; i++) {
        at = behind(at, end);
    }
    if (!parse(at, behind(at, end), &tree)) {
        return false;
    }
    bool is_list = tree.data.type == MSGPACK_OBJECT_ARRAY;
    bool good = is_list || tree.data.type == MSGPACK_OBJECT_NIL;
    if (is_list && read_head(at, end, &head)) {
        *media = media_of(&tree.data.via.array, at + head.size, end, first,
                          lora_name, salt);
    }
    msgpack_unpacked_destroy(&tree);
    return good;
}
