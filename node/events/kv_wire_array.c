/* The arrays of an event: blocks' hashes, token ids, remaining counts. */
#include <stdlib.h>

#include "index/index.h"
#include "node/events/kv_wire_event_internal.h"

#define PAIR_WIDTH 2
#define FEW        8 /* hashes that are compared each with each */
#define PROBES     8 /* for each hash, on average, until it is sorted out */

bool
kv_array_grow(struct kv_array *array, size_t size)
{
    size_t twice = 2 * array->size;
    size_t need = size > twice ? size : twice;
    void *fresh = malloc(need);

    if (fresh == NULL) {
        return false;
    }
    free(array->ptr);
    *array = (struct kv_array){.ptr = fresh, .size = need};
    return true;
}

bool
kv_fold(const struct token *token, uint64_t *hash)
{
    size_t n = token->bytes.len;

    if (token->kind == TOKEN_UINT || token->kind == TOKEN_NINT) {
        *hash = token->value;
        return true;
    }
    if ((token->kind != TOKEN_BIN && token->kind != TOKEN_STR) || n == 0) {
        return false;
    }
    *hash = 0;
    for (size_t i = n > 8 ? n - 8 : 0; i < n; i++) {
        *hash = *hash << 8 | (uint8_t)token->bytes.ptr[i];
    }
    return true;
}

/* What a run of cells was made of. */
enum {
    CELL_NUMBER = 1,
    CELL_PAIR = 2,
    CELL_TEXT = 4,
};

static bool
is_token_id(const struct token *token)
{
    return token->kind == TOKEN_UINT && token->value <= UINT32_MAX;
}

/* One cell of any kind; 0: it is none. */
static unsigned
read_cell(struct kv_decode *d, const uint8_t **cursor, uint32_t *out)
{
    const uint8_t *end = d->end;
    struct token token;
    struct token second;
    unsigned kind = 0;
    const uint8_t *at = token_read(*cursor, end, &token);

    *out = 0;
    if (at != NULL && token.kind == TOKEN_STR) {
        kind = CELL_TEXT;
    } else if (at != NULL && is_token_id(&token)) {
        kind = CELL_NUMBER;
        *out = (uint32_t)token.value;
    } else if (at != NULL && token.kind == TOKEN_ARRAY &&
               token.value == PAIR_WIDTH) {
        at = token_read(at, end, &token);
        at = at != NULL ? token_read(at, end, &second) : NULL;
        if (at != NULL && is_token_id(&token) && is_token_id(&second)) {
            kind = CELL_PAIR;
            *out = (uint32_t)token.value;
            d->last_second = (uint32_t)second.value;
        }
    }
    *cursor = at;
    return kind;
}

/* count cells; false: not all are cells, or pairs and numbers are mixed. */
static bool
read_cells(struct kv_decode *d, const uint8_t **cursor, uint32_t *out,
           uint32_t count)
{
    unsigned kinds = 0;

    for (uint32_t i = 0; i < count;) {
        uint32_t n = kv_read_ids(cursor, d->end, out + i, count - i);
        kinds |= n > 0 ? CELL_NUMBER : 0;
        i += n;
        if (i < count) {
            unsigned kind = read_cell(d, cursor, out + i);
            if (kind == 0) {
                return false;
            }
            kinds |= kind;
            i++;
        }
    }
    d->event->tokens_opaque = (kinds & CELL_TEXT) != 0;
    d->pairs = (kinds & CELL_PAIR) != 0;
    return (kinds & (CELL_NUMBER | CELL_PAIR)) != (CELL_NUMBER | CELL_PAIR);
}

/* The head of any value; of an array with 16 items and more in line, as token
 * ids nearly always are. */
static inline const uint8_t *
read_head(const uint8_t *at, const uint8_t *end, struct token *token)
{
    if (end - at >= 3 && at[0] == 0xdc) {
        return token_read_items(at + 3, end, TOKEN_ARRAY, token_be16(at + 1),
                                token);
    }
    return token_read(at, end, token);
}

/*
 * The head of an array at *cursor that is to be read into memory: true and
 * *count. False: not there, or not to be read; then *cursor is behind the
 * value, or NULL, and the field is marked.
 */
static inline bool
open_array(struct kv_decode *d, const uint8_t **cursor, enum kv_field field,
           struct kv_array *array, size_t bytes, uint32_t count_max,
           uint32_t *count)
{
    const uint8_t *start = *cursor;
    struct token token;

    *cursor = read_head(start, d->end, &token);
    if (*cursor == NULL || token.kind == TOKEN_NIL) {
        return false;
    }
    if (token.kind == TOKEN_ARRAY && token.value <= count_max) {
        *count = (uint32_t)token.value;
        if (kv_array_reserve(array, *count, bytes)) {
            return true;
        }
        d->no_memory = true;
    }
    d->bad |= KV_FIELD_BIT(field);
    *cursor = kv_pass(d, start, KV_LEVEL_FIELD);
    return false;
}

const uint8_t *
kv_read_tokens(struct kv_decode *d, const uint8_t *start)
{
    const uint8_t *at = start;
    uint32_t count;

    d->event->tokens_count = 0;
    d->event->tokens_opaque = false;
    d->pairs = false;
    if (!open_array(d, &at, KV_FIELD_TOKENS, &d->arrays->tokens,
                    sizeof(uint32_t), d->limits->tokens_max, &count)) {
        return at;
    }
    if (!read_cells(d, &at, d->arrays->tokens.ptr, count)) {
        d->bad |= KV_FIELD_BIT(KV_FIELD_TOKENS);
        return kv_pass(d, start, KV_LEVEL_FIELD);
    }
    d->good |= KV_FIELD_BIT(KV_FIELD_TOKENS);
    d->event->tokens = d->arrays->tokens.ptr;
    d->event->tokens_count = count;
    return at;
}

bool
kv_pairs_ahead(struct kv_decode *d)
{
    struct kv_event *event = d->event;
    uint32_t count = event->hashes_count;

    if (count == 0 || event->tokens_count == 0 || event->ahead != 0) {
        return true;
    }
    if (!kv_array_reserve(&d->arrays->ahead, count, sizeof(uint32_t))) {
        return false;
    }
    uint32_t *ahead = d->arrays->ahead.ptr;
    for (uint32_t i = 1; i < count; i++) {
        ahead[i - 1] = event->tokens[(size_t)i * event->block_tokens];
    }
    ahead[count - 1] = d->last_second;
    event->ahead = 1;
    event->ahead_tokens = ahead;
    event->pairs = true;
    return true;
}

/* `width` ids in an array of their own; NULL: they are not. */
static const uint8_t *
read_width(const uint8_t *at, const uint8_t *end, uint32_t width, uint32_t *out)
{
    struct token token;

    at = token_read(at, end, &token);
    if (at == NULL || token.kind != TOKEN_ARRAY || token.value != width) {
        return NULL;
    }
    for (uint32_t i = 0; i < width; i++) {
        at = token_read(at, end, &token);
        if (at == NULL || !is_token_id(&token)) {
            return NULL;
        }
        out[i] = (uint32_t)token.value;
    }
    return at;
}

const uint8_t *
kv_read_ahead(struct kv_decode *d, const uint8_t *start)
{
    const uint8_t *at = start;
    struct token first = {.kind = TOKEN_NIL};
    uint32_t count;

    d->event->ahead = 0;
    if (!open_array(d, &at, KV_FIELD_AHEAD, &d->arrays->ahead,
                    SHAPE_AHEAD_MAX * sizeof(uint32_t), d->limits->hashes_max,
                    &count)) {
        return at;
    }
    if (count > 0 && token_read(at, d->end, &first) == NULL) {
        return NULL;
    }
    uint32_t width =
        first.kind == TOKEN_ARRAY && first.value <= d->limits->tokens_max
            ? (uint32_t)first.value
            : 0;
    uint32_t *out = d->arrays->ahead.ptr;
    d->event->ahead = width;
    d->event->ahead_tokens = out;
    d->ahead_count = count;
    if (width > SHAPE_AHEAD_MAX) {
        return kv_pass(d, start, KV_LEVEL_FIELD);
    }
    for (uint32_t i = 0; i < count && at != NULL; i++) {
        at = read_width(at, d->end, width, out + (size_t)i * width);
    }
    if (at == NULL) {
        d->bad |= KV_FIELD_BIT(KV_FIELD_AHEAD);
        return kv_pass(d, start, KV_LEVEL_FIELD);
    }
    return at;
}

const uint8_t *
kv_read_hashes(struct kv_decode *d, const uint8_t *start)
{
    const uint8_t *at = start;
    uint32_t count;

    d->event->hashes_count = 0;
    if (!open_array(d, &at, KV_FIELD_HASHES, &d->arrays->hashes,
                    sizeof(uint64_t), d->limits->hashes_max, &count)) {
        return at;
    }
    uint64_t *out = d->arrays->hashes.ptr;
    d->arrays->lead = count > 0 && at < d->end ? *at : d->arrays->lead;
    for (uint32_t i = 0; i < count; i++) {
        at = kv_read_hash(at, d->end, &out[i]);
        if (at == NULL) {
            d->bad |= KV_FIELD_BIT(KV_FIELD_HASHES);
            return kv_pass(d, start, KV_LEVEL_FIELD);
        }
    }
    d->good |= KV_FIELD_BIT(KV_FIELD_HASHES);
    d->event->hashes = out;
    d->event->hashes_count = count;
    return at;
}

/* Counts that cannot be read are as good as none: they only refine. */
const uint8_t *
kv_read_remaining(struct kv_decode *d, const uint8_t *start)
{
    const uint8_t *at = start;
    uint32_t count;

    d->event->remaining = NULL;
    if (!open_array(d, &at, KV_FIELD_REMAINING, &d->arrays->remaining,
                    sizeof(uint32_t), d->limits->hashes_max, &count)) {
        return at;
    }
    uint32_t *out = d->arrays->remaining.ptr;
    for (uint32_t i = 0; i < count; i++) {
        struct token token;
        at = token_read(at, d->end, &token);
        if (at == NULL || token.kind != TOKEN_UINT) {
            return kv_pass(d, start, KV_LEVEL_FIELD);
        }
        out[i] = token.value < UINT32_MAX ? (uint32_t)token.value : UINT32_MAX;
    }
    d->event->remaining = out;
    d->remaining_count = count;
    return at;
}

static bool
is_repeated_few(const uint64_t *hashes, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (hashes[i] == hashes[j]) {
                return true;
            }
        }
    }
    return false;
}

static int
compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static bool
is_repeated_sorted(uint64_t *copy, const uint64_t *hashes, uint32_t count)
{
    memcpy(copy, hashes, count * sizeof(*copy));
    qsort(copy, count, sizeof(*copy), compare);
    for (uint32_t i = 1; i < count; i++) {
        if (copy[i] == copy[i - 1]) {
            return true;
        }
    }
    return false;
}

/* table: size slots, a power of two, at least twice count; a slot is an index
 * plus one. False: too many collisions to tell. */
static bool
is_told_by_table(uint32_t *table, uint32_t size, const uint64_t *hashes,
                 uint32_t count, bool *repeated)
{
    uint64_t probes = (uint64_t)PROBES * count;

    memset(table, 0, size * sizeof(*table));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t mixed = hashes[i] * UINT64_C(0x9e3779b97f4a7c15);
        uint32_t slot = (uint32_t)(mixed >> 32) & (size - 1);
        while (table[slot] != 0 && hashes[table[slot] - 1] != hashes[i]) {
            slot = (slot + 1) & (size - 1);
            if (probes-- == 0) {
                return false;
            }
        }
        if (table[slot] != 0) {
            *repeated = true;
            return true;
        }
        table[slot] = i + 1;
    }
    *repeated = false;
    return true;
}

bool
kv_find_repeated(struct kv_array *seen, const uint64_t *hashes, uint32_t count,
                 bool *repeated)
{
    if (count <= FEW) {
        *repeated = is_repeated_few(hashes, count);
        return true;
    }
    uint32_t size = UINT32_C(1) << (33 - __builtin_clz(count - 1));
    if (!kv_array_reserve(seen, size, sizeof(uint32_t))) {
        return false;
    }
    if (!is_told_by_table(seen->ptr, size, hashes, count, repeated)) {
        /* The same memory: the table has two slots and more for a hash. */
        *repeated = is_repeated_sorted(seen->ptr, hashes, count);
    }
    return true;
}
