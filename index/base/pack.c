/* msgpack by msgpack-c, and the bounds that are checked before it reads. */
#include "index/base/pack.h"

#include <msgpack.h>

_Static_assert(sizeof(msgpack_object) <= 24, "PACK_MEMORY counts on it");
_Static_assert(sizeof(msgpack_object_kv) == 2 * sizeof(msgpack_object),
               "a pair is two elements");
_Static_assert(_Alignof(msgpack_object) <= 8, "so is struct unpack's memory");

/* Writing */

static int
write_bytes(void *out, const char *bytes, size_t len)
{
    buf_add(out, bytes, len);
    return 0; /* out->failed says it */
}

static msgpack_packer
packer_of(struct buf *out)
{
    return (msgpack_packer){.data = out, .callback = write_bytes};
}

void
pack_nil(struct buf *out)
{
    msgpack_packer packer = packer_of(out);

    (void)msgpack_pack_nil(&packer);
}

void
pack_bool(struct buf *out, bool value)
{
    msgpack_packer packer = packer_of(out);

    (void)(value ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer));
}

void
pack_uint(struct buf *out, uint64_t number)
{
    msgpack_packer packer = packer_of(out);

    (void)msgpack_pack_uint64(&packer, number);
}

void
pack_int(struct buf *out, int64_t number)
{
    msgpack_packer packer = packer_of(out);

    (void)msgpack_pack_int64(&packer, number);
}

void
pack_real(struct buf *out, double number)
{
    msgpack_packer packer = packer_of(out);

    (void)msgpack_pack_double(&packer, number);
}

void
pack_text(struct buf *out, struct slice text)
{
    msgpack_packer packer = packer_of(out);

    CHECK(text.len <= UINT32_MAX);
    (void)msgpack_pack_str(&packer, text.len);
    buf_add_slice(out, text);
}

void
pack_bytes(struct buf *out, struct slice bytes)
{
    msgpack_packer packer = packer_of(out);

    CHECK(bytes.len <= UINT32_MAX);
    (void)msgpack_pack_bin(&packer, bytes.len);
    buf_add_slice(out, bytes);
}

void
pack_array(struct buf *out, uint32_t count)
{
    msgpack_packer packer = packer_of(out);

    (void)msgpack_pack_array(&packer, count);
}

void
pack_map(struct buf *out, uint32_t count)
{
    msgpack_packer packer = packer_of(out);

    (void)msgpack_pack_map(&packer, count);
}

struct pack_map
pack_open(struct buf *out)
{
    struct pack_map map = {.out = out, .at = out->len};

    pack_map(out, 0); /* one byte, as for all up to PACK_PAIRS_MAX */
    return map;
}

static struct buf *
put_key(struct pack_map *map, const char *key)
{
    CHECK(map->pairs < PACK_PAIRS_MAX);
    map->pairs++;
    pack_text(map->out, slice_of(key));
    return map->out;
}

void
pack_put_uint(struct pack_map *map, const char *key, uint64_t number)
{
    pack_uint(put_key(map, key), number);
}

void
pack_put_flag(struct pack_map *map, const char *key, bool flag)
{
    pack_bool(put_key(map, key), flag);
}

void
pack_put_text(struct pack_map *map, const char *key, struct slice text)
{
    pack_text(put_key(map, key), text);
}

void
pack_put_bytes(struct pack_map *map, const char *key, struct slice bytes)
{
    pack_bytes(put_key(map, key), bytes);
}

void
pack_put_bytes_head(struct pack_map *map, const char *key, size_t len)
{
    msgpack_packer packer = packer_of(put_key(map, key));

    CHECK(len <= UINT32_MAX);
    (void)msgpack_pack_bin(&packer, len);
}

void
pack_close(struct pack_map *map)
{
    if (!map->out->failed) {
        CHECK(map->at < map->out->len);
        struct buf head = buf_over(map->out->ptr + map->at, 1);
        pack_map(&head, map->pairs);
        CHECK(!head.failed && head.len == 1);
    }
    map->out = NULL;
}

/* What may be read */

struct scan {
    const unsigned char *at;
    size_t left;
    uint32_t elements; /* that were announced */
};

/* A number of that many bytes, big end first; false when they are not there. */
static bool
scan_number(struct scan *scan, size_t size, uint64_t *number)
{
    *number = 0;
    if (scan->left < size) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        *number = *number << 8 | scan->at[i];
    }
    scan->at += size;
    scan->left -= size;
    return true;
}

enum {
    SCAN_BYTES,    /* a length of `size` bytes, then so many and `more` */
    SCAN_ELEMENTS, /* a count of `size` bytes, then so many times `more` */
    SCAN_NEVER,
};

/* The types whose first byte is 0xc0 to 0xdf. */
static const struct {
    uint8_t kind;
    uint8_t size;
    uint8_t more;
} scan_types[32] = {
    [0x00] = {SCAN_BYTES, 0, 0}, /* nil */
    [0x01] = {SCAN_NEVER, 0, 0},    [0x02] = {SCAN_BYTES, 0, 0},
    [0x03] = {SCAN_BYTES, 0, 0},                                 /* bool */
    [0x04] = {SCAN_BYTES, 1, 0},    [0x05] = {SCAN_BYTES, 2, 0}, /* bin */
    [0x06] = {SCAN_BYTES, 4, 0},    [0x07] = {SCAN_BYTES, 1, 1}, /* ext */
    [0x08] = {SCAN_BYTES, 2, 1},    [0x09] = {SCAN_BYTES, 4, 1},
    [0x0a] = {SCAN_BYTES, 0, 4},    [0x0b] = {SCAN_BYTES, 0, 8}, /* float */
    [0x0c] = {SCAN_BYTES, 0, 1},    [0x0d] = {SCAN_BYTES, 0, 2}, /* uint */
    [0x0e] = {SCAN_BYTES, 0, 4},    [0x0f] = {SCAN_BYTES, 0, 8},
    [0x10] = {SCAN_BYTES, 0, 1},    [0x11] = {SCAN_BYTES, 0, 2}, /* int */
    [0x12] = {SCAN_BYTES, 0, 4},    [0x13] = {SCAN_BYTES, 0, 8},
    [0x14] = {SCAN_BYTES, 0, 2},    [0x15] = {SCAN_BYTES, 0, 3}, /* fixext */
    [0x16] = {SCAN_BYTES, 0, 5},    [0x17] = {SCAN_BYTES, 0, 9},
    [0x18] = {SCAN_BYTES, 0, 17},   [0x19] = {SCAN_BYTES, 1, 0}, /* str */
    [0x1a] = {SCAN_BYTES, 2, 0},    [0x1b] = {SCAN_BYTES, 4, 0},
    [0x1c] = {SCAN_ELEMENTS, 2, 1}, [0x1d] = {SCAN_ELEMENTS, 4, 1},
    [0x1e] = {SCAN_ELEMENTS, 2, 2}, [0x1f] = {SCAN_ELEMENTS, 4, 2},
};

/* One value without its elements: how many those are. False: not whole, or
 * nothing that msgpack knows. */
static bool
scan_value(struct scan *scan, uint64_t *elements)
{
    uint64_t type;
    uint64_t bytes = 0;

    *elements = 0;
    if (!scan_number(scan, 1, &type)) {
        return false;
    }
    if (type < 0x80 || type >= 0xe0) { /* a small number */
    } else if (type < 0x90) {
        *elements = 2 * (type & 15);
    } else if (type < 0xa0) {
        *elements = type & 15;
    } else if (type < 0xc0) {
        bytes = type & 31;
    } else {
        uint64_t count;
        if (scan_types[type & 31].kind == SCAN_NEVER ||
            !scan_number(scan, scan_types[type & 31].size, &count)) {
            return false;
        }
        if (scan_types[type & 31].kind == SCAN_ELEMENTS) {
            *elements = count * scan_types[type & 31].more;
        } else {
            bytes = count + scan_types[type & 31].more;
        }
    }
    if (bytes > scan->left) {
        return false;
    }
    scan->at += bytes;
    scan->left -= bytes;
    return true;
}

/* How long the map at the front is; 0: there is none within the bounds. */
static size_t
scan_map(struct slice bytes)
{
    struct scan scan = {.at = (const unsigned char *)bytes.ptr,
                        .left = bytes.len};
    uint64_t open[PACK_DEPTH_MAX + 1] = {1};
    uint32_t depth = 0;
    uint64_t elements = 0;

    for (;;) {
        while (open[depth] == 0) {
            if (depth-- == 0) {
                return bytes.len - scan.left;
            }
        }
        open[depth]--;
        uint64_t inner;
        if (!scan_value(&scan, &inner) ||
            (elements += inner) > PACK_ELEMENTS_MAX) {
            return 0;
        }
        if (inner > 0) {
            if (depth == PACK_DEPTH_MAX) {
                return 0;
            }
            open[++depth] = inner;
        }
    }
}

/* Reading */

void
unpack_init(struct unpack *unpack, struct slice bytes)
{
    unpack->left = bytes;
    unpack->failed = false;
    unpack->pairs = 0;
    unpack->map = NULL;
}

/* The map of these bytes, whole and within the bounds, in unpack's memory. */
static bool
build(struct unpack *unpack, struct slice bytes)
{
    msgpack_zone zone = {
        .chunk_list = {.free = sizeof unpack->memory,
                       .ptr = (char *)unpack->memory},
        .chunk_size = sizeof unpack->memory,
    };
    msgpack_object object;
    size_t at = 0;
    msgpack_unpack_return rc =
        msgpack_unpack(bytes.ptr, bytes.len, &at, &zone, &object);

    if (zone.chunk_list.head != NULL) { /* it counts otherwise than the scan */
        msgpack_zone_destroy(&zone);
        return false;
    }
    if (rc != MSGPACK_UNPACK_SUCCESS || object.type != MSGPACK_OBJECT_MAP) {
        return false;
    }
    unpack->pairs = object.via.map.size;
    unpack->map = object.via.map.ptr;
    return true;
}

bool
unpack_next(struct unpack *unpack)
{
    unpack->pairs = 0;
    unpack->map = NULL;
    if (unpack->failed || unpack->left.len == 0) {
        return false;
    }
    size_t size = scan_map(unpack->left);
    unpack->failed =
        size == 0 ||
        !build(unpack, (struct slice){.ptr = unpack->left.ptr, .len = size});
    if (unpack->failed) {
        return false;
    }
    unpack->left.ptr += size;
    unpack->left.len -= size;
    return true;
}

static const msgpack_object *
find(const struct unpack *unpack, const char *key)
{
    const msgpack_object_kv *pairs = unpack->map;
    size_t len = strlen(key);

    for (size_t i = 0; i < unpack->pairs; i++) {
        const msgpack_object *name = &pairs[i].key;
        if (name->type == MSGPACK_OBJECT_STR && name->via.str.size == len &&
            (len == 0 || memcmp(name->via.str.ptr, key, len) == 0)) {
            return &pairs[i].val;
        }
    }
    return NULL;
}

bool
unpack_has(const struct unpack *unpack, const char *key)
{
    return find(unpack, key) != NULL;
}

uint64_t
unpack_uint(struct unpack *unpack, const char *key, uint64_t max)
{
    const msgpack_object *value = find(unpack, key);

    if (value == NULL) {
        return 0;
    }
    if (value->type != MSGPACK_OBJECT_POSITIVE_INTEGER ||
        value->via.u64 > max) {
        unpack->failed = true;
        return 0;
    }
    return value->via.u64;
}

bool
unpack_flag(struct unpack *unpack, const char *key)
{
    const msgpack_object *value = find(unpack, key);

    if (value != NULL && value->type != MSGPACK_OBJECT_BOOLEAN) {
        unpack->failed = true;
        return false;
    }
    return value != NULL && value->via.boolean;
}

static struct slice
lend(struct unpack *unpack, const char *ptr, size_t len, size_t max)
{
    if (len > max) {
        unpack->failed = true;
        return SLICE("");
    }
    return (struct slice){.ptr = ptr, .len = len};
}

struct slice
unpack_text(struct unpack *unpack, const char *key, size_t max)
{
    const msgpack_object *value = find(unpack, key);

    if (value == NULL) {
        return SLICE("");
    }
    if (value->type != MSGPACK_OBJECT_STR) {
        unpack->failed = true;
        return SLICE("");
    }
    return lend(unpack, value->via.str.ptr, value->via.str.size, max);
}

struct slice
unpack_bytes(struct unpack *unpack, const char *key, size_t max)
{
    const msgpack_object *value = find(unpack, key);

    if (value == NULL) {
        return SLICE("");
    }
    if (value->type != MSGPACK_OBJECT_BIN) {
        unpack->failed = true;
        return SLICE("");
    }
    return lend(unpack, value->via.bin.ptr, value->via.bin.size, max);
}

void
unpack_word(struct unpack *unpack, const char *key, char *out, size_t size)
{
    CHECK(size > 0);
    struct slice text = unpack_text(unpack, key, size - 1);

    for (size_t i = 0; i < text.len; i++) {
        unpack->failed |= text.ptr[i] <= ' ' || text.ptr[i] > '~';
        out[i] = text.ptr[i];
    }
    out[text.len] = '\0';
}
