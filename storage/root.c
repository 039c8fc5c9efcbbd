/*
 * The root record as bytes, and back: the format and its versions.
 */
#include "storage/root.h"

#include <stdlib.h>

#include "index/base/mutant.h"
#include "index/index.h"
#include "storage/bytes_internal.h"

#define ROW_BYTES 24U

void
storage_root_encode(const struct storage_root *root, struct buf *out)
{
    size_t from = out->len;

    CHECK(root->rows_count <= STORAGE_ROWS_MAX);
    CHECK(root->rows_count == 0 || root->rows != NULL);
    put_u64(out, STORAGE_MAGIC);
    put_u32(out, root->major);
    put_u32(out, root->minor);
    put_u64(out, root->generation);
    put_u64(out, root->number);
    put_u64(out, root->taken_ms);
    put_u64(out, root->blocks);
    put_u64(out, root->ledger_blocks);
    put_u32(out, root->streams);
    put_u32(out, root->rows_count);
    put_text(out, slice_of(root->cluster));
    put_text(out, slice_of(root->node));
    for (uint32_t i = 0; i < root->rows_count; i++) {
        put_u64(out, root->rows[i].key);
        put_u64(out, root->rows[i].size);
        put_u64(out, root->rows[i].digest);
    }
    if (!out->failed) {
        put_u64(out, key_digest((struct slice){.ptr = out->ptr + from,
                                               .len = out->len - from}));
    }
}

static void
get_name(struct bytes_in *in, char name[STORAGE_TEXT_MAX])
{
    struct slice text = get_text(in);

    if (text.len >= STORAGE_TEXT_MAX) {
        in->failed = true;
        return;
    }
    if (text.len > 0) {
        memcpy(name, text.ptr, text.len);
    }
    name[text.len] = '\0';
}

static enum storage_outcome
get_rows(struct storage_root *root, struct bytes_in *in, uint32_t count)
{
    if (in->failed || count > STORAGE_ROWS_MAX ||
        (uint64_t)count * ROW_BYTES > in->left) {
        return STORAGE_E_CORRUPT;
    }
    root->rows = calloc((size_t)count + 1, sizeof(*root->rows));
    if (root->rows == NULL) {
        return STORAGE_E_MEMORY;
    }
    root->rows_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct storage_row *row = &root->rows[i];
        *row = (struct storage_row){.key = get_u64(in)};
        row->size = get_u64(in);
        row->digest = get_u64(in);
        if (i > 0 && row->key <= row[-1].key) {
            return STORAGE_E_CORRUPT;
        }
    }
    return STORAGE_OK;
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
    root->generation = get_u64(in);
    root->number = get_u64(in);
    root->taken_ms = get_u64(in);
    root->blocks = get_u64(in);
    root->ledger_blocks = get_u64(in);
    root->streams = get_u32(in);
    uint32_t rows = get_u32(in);
    get_name(in, root->cluster);
    get_name(in, root->node);
    return get_rows(root, in, rows);
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
