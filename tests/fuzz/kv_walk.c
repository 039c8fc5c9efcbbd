/* Walks a msgpack value by its lengths, to its end or to a fault. */
#include "tests/fuzz/kv_walk.h"

#include "index/base/check.h"

uint64_t
kv_walk_number(const uint8_t *at, size_t n)
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

bool
kv_walk_head(const uint8_t *at, const uint8_t *end, struct kv_walk_head *head)
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
    uint64_t length = kv_walk_number(at + 1, n);
    bool fix_map = lead >= 0x80 && lead < 0x90;
    bool fix_array = lead >= 0x90 && lead < 0xa0;
    bool fix_str = lead >= 0xa0 && lead < 0xc0;
    bool is_ext = lead >= 0xc7 && lead <= 0xc9;
    *head = (struct kv_walk_head){
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
const uint8_t *
kv_walk(const uint8_t *at, const uint8_t *end, unsigned level,
        unsigned *deepest)
{
    struct kv_walk_head head;

    if (!kv_walk_head(at, end, &head)) {
        return NULL;
    }
    at += head.size + head.bytes;
    if ((head.is_array || head.is_map) && level > *deepest) {
        *deepest = level;
    }
    for (uint64_t i = 0; i < head.items && at != NULL; i++) {
        at = kv_walk(at, end, level + 1, deepest);
    }
    return at;
}

const uint8_t *
kv_walk_behind(const uint8_t *at, const uint8_t *end)
{
    unsigned deepest = 0;

    return kv_walk(at, end, 1, &deepest);
}

/* The tree of a value that was walked. False: too deep for msgpack-c. */
bool
kv_walk_parse(const uint8_t *at, const uint8_t *next, msgpack_unpacked *tree)
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

struct slice
kv_walk_text(const msgpack_object *o)
{
    return (struct slice){o->via.str.ptr, o->via.str.size};
}

bool
kv_walk_is_text(const msgpack_object *o, const char *want)
{
    return o->type == MSGPACK_OBJECT_STR &&
           slice_equal(kv_walk_text(o), slice_of(want));
}

bool
kv_walk_is_array(const msgpack_object *o, uint32_t max)
{
    return o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size <= max;
}
