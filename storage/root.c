/*
 * The root record as bytes, and back: the format and its versions.
 */
#include "storage/root.h"

#include <stdlib.h>

#include "index/base/mutant.h"
#include "index/base/pack.h"
#include "index/index.h"
#include "storage/bytes_internal.h"

#define ROW_BYTES 24U

static void
put_map(const struct storage_root *root, struct buf *out)
{
    struct pack_map map = pack_open(out);

    pack_put_uint(&map, "generation", root->generation);
    pack_put_uint(&map, "number", root->number);
    pack_put_uint(&map, "taken_ms", root->taken_ms);
    pack_put_uint(&map, "blocks", root->blocks);
    pack_put_uint(&map, "ledger_blocks", root->ledger_blocks);
    pack_put_uint(&map, "streams", root->streams);
    pack_put_text(&map, "cluster", slice_of(root->cluster));
    pack_put_text(&map, "node", slice_of(root->node));
    pack_put_bytes_head(&map, "rows", (size_t)root->rows_count * ROW_BYTES);
    for (uint32_t i = 0; i < root->rows_count; i++) {
        put_u64(out, root->rows[i].key);
        put_u64(out, root->rows[i].size);
        put_u64(out, root->rows[i].digest);
    }
    pack_close(&map);
}

void
storage_root_encode(const struct storage_root *root, struct buf *out)
{
    size_t from = out->len;

    CHECK(root->rows_count <= STORAGE_ROWS_MAX);
    CHECK(root->rows_count == 0 || root->rows != NULL);
    put_u64(out, STORAGE_MAGIC);
    put_u32(out, root->major);
    put_u32(out, root->minor);
    put_map(root, out);
    if (!out->failed) {
        put_u64(out, key_digest((struct slice){.ptr = out->ptr + from,
                                               .len = out->len - from}));
    }
}

static void
get_name(struct unpack *in, const char *key, char name[STORAGE_TEXT_MAX])
{
    struct slice text = unpack_text(in, key, STORAGE_TEXT_MAX - 1);

    memcpy(name, text.ptr, text.len);
    name[text.len] = '\0';
}

static enum storage_outcome
get_rows(struct storage_root *root, struct slice bytes)
{
    struct bytes_in in = {.at = bytes.ptr, .left = bytes.len};
    uint32_t count = (uint32_t)(bytes.len / ROW_BYTES);

    root->rows = calloc((size_t)count + 1, sizeof(*root->rows));
    if (root->rows == NULL) {
        return STORAGE_E_MEMORY;
    }
    root->rows_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct storage_row *row = &root->rows[i];
        *row = (struct storage_row){.key = get_u64(&in)};
        row->size = get_u64(&in);
        row->digest = get_u64(&in);
        if (i > 0 && row->key <= row[-1].key) {
            return STORAGE_E_CORRUPT;
        }
    }
    return STORAGE_OK;
}

static enum storage_outcome
get_map(struct storage_root *root, struct slice bytes)
{
    struct unpack in;

    unpack_init(&in, bytes);
    if (!unpack_next(&in)) {
        return STORAGE_E_CORRUPT;
    }
    root->generation = unpack_uint(&in, "generation", UINT64_MAX);
    root->number = unpack_uint(&in, "number", UINT64_MAX);
    root->taken_ms = unpack_uint(&in, "taken_ms", UINT64_MAX);
    root->blocks = unpack_uint(&in, "blocks", UINT64_MAX);
    root->ledger_blocks = unpack_uint(&in, "ledger_blocks", UINT64_MAX);
    root->streams = (uint32_t)unpack_uint(&in, "streams", UINT32_MAX);
    get_name(&in, "cluster", root->cluster);
    get_name(&in, "node", root->node);
    struct slice rows =
        unpack_bytes(&in, "rows", (size_t)STORAGE_ROWS_MAX * ROW_BYTES);
    return in.failed || rows.len % ROW_BYTES != 0 ? STORAGE_E_CORRUPT
                                                  : get_rows(root, rows);
}

static enum storage_outcome
decode(struct storage_root *root, struct bytes_in *in)
{
    CHECK(root->rows == NULL);
    if (get_u64(in) != STORAGE_MAGIC) {
        return STORAGE_E_CORRUPT;
    }
    root->major = get_u32(in);
    root->minor = get_u32(in);
    if (!in->failed && root->major != STORAGE_MAJOR) {
        return STORAGE_E_VERSION;
    }
    return in->failed
               ? STORAGE_E_CORRUPT
               : get_map(root, (struct slice){.ptr = in->at, .len = in->left});
}

enum storage_outcome
storage_root_decode(struct storage_root *root, struct slice bytes)
{
    *root = (struct storage_root){0};
    if (bytes.len < sizeof(uint64_t)) {
        return STORAGE_E_CORRUPT;
    }
    size_t size = bytes.len - sizeof(uint64_t);
    struct bytes_in end = {.at = bytes.ptr + size, .left = sizeof(uint64_t)};
    struct slice all = {.ptr = bytes.ptr, .len = size};
    if (get_u64(&end) != key_digest(all) && !MUTANT(UNVERIFIED)) {
        return STORAGE_E_CORRUPT;
    }
    struct bytes_in in = {.at = bytes.ptr, .left = size};
    enum storage_outcome rc = decode(root, &in);
    if (rc != STORAGE_OK) {
        storage_root_fini(root);
    }
    return rc;
}

void
storage_root_fini(struct storage_root *root)
{
    free(root->rows);
    root->rows = NULL;
    root->rows_count = 0;
}

const struct storage_row *
storage_root_find(const struct storage_root *root, enum storage_kind kind,
                  uint32_t number)
{
    uint64_t least = storage_key(kind, number, 0);
    uint32_t low = 0;
    uint32_t high = root->rows_count;

    CHECK(kind > 0 && kind < STORAGE_KINDS);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (root->rows[middle].key < least) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == root->rows_count ||
        root->rows[low].key > (least | STORAGE_VERSION_MAX)) {
        return NULL;
    }
    return &root->rows[low];
}
