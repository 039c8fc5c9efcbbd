/* Memory of a tokenizer, members of its JSON, and the text of a fault. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define BLOCK_BYTES ((size_t)64 << 10)

struct tok_block {
    struct tok_block *next;
    size_t used;
    size_t size;
    _Alignas(64) char bytes[];
};

static void *
block_take(struct tok_memory *memory, size_t bytes)
{
    size_t size = bytes > BLOCK_BYTES / 4 ? bytes : BLOCK_BYTES;
    size_t whole = (sizeof(struct tok_block) + size + 63) & ~(size_t)63;
    struct tok_block *block = aligned_alloc(64, whole);

    if (block == NULL) {
        return NULL;
    }
    memset(block, 0, whole);
    block->size = size;
    block->used = bytes;
    memory->bytes += whole;
    if (size == bytes && memory->blocks != NULL) { /* keep the open one first */
        block->next = memory->blocks->next;
        memory->blocks->next = block;
    } else {
        block->next = memory->blocks;
        memory->blocks = block;
    }
    return block->bytes;
}

void *
tok_alloc(struct tok_load *load, size_t bytes)
{
    struct tok_memory *memory = &load->t->memory;
    struct tok_block *open = memory->blocks;
    void *taken = NULL;

    bytes = (bytes + 15) & ~(size_t)15;
    if (open != NULL && bytes <= open->size - open->used) {
        taken = open->bytes + open->used;
        open->used += bytes;
        return taken;
    }
    taken = block_take(memory, bytes);
    if (taken == NULL) {
        (void)tok_fail(load, "out of memory");
    }
    return taken;
}

void *
tok_alloc_many(struct tok_load *load, size_t count, size_t size)
{
    if (count > SIZE_MAX / 4 / size) {
        (void)tok_fail(load, "out of memory");
        return NULL;
    }
    return tok_alloc(load, count * size);
}

void
tok_memory_free(struct tok_memory *memory)
{
    while (memory->blocks != NULL) {
        struct tok_block *block = memory->blocks;
        memory->blocks = block->next;
        free(block);
    }
}

struct slice
tok_copy(struct tok_load *load, struct slice bytes)
{
    char *copy = tok_alloc(load, bytes.len + 1);

    if (copy == NULL) {
        return (struct slice){.ptr = NULL};
    }
    if (bytes.len > 0) {
        memcpy(copy, bytes.ptr, bytes.len);
    }
    return (struct slice){.ptr = copy, .len = bytes.len};
}

bool
tok_fail(struct tok_load *load, const char *format, ...)
{
    va_list args;

    if (!load->failed) {
        va_start(args, format);
        (void)vsnprintf(load->why, TOKENIZER_WHY_MAX, format, args);
        va_end(args);
        load->failed = true;
    }
    return false;
}

const char *
tok_show(struct slice value, char out[TOK_SHOWN + 4])
{
    size_t len = value.len < TOK_SHOWN ? value.len : TOK_SHOWN;

    for (size_t i = 0; i < len; i++) {
        out[i] =
            value.ptr[i] >= ' ' && value.ptr[i] <= '~' ? value.ptr[i] : '?';
    }
    (void)snprintf(out + len, 4, "%s", len < value.len ? "..." : "");
    return out;
}

bool
json_walk_open(struct json_walk *walk, struct slice value)
{
    json_pull_init(&walk->pull, value);
    enum pull_token token = json_pull_next(&walk->pull);
    walk->object = token == PULL_OBJECT;
    return walk->object || token == PULL_ARRAY;
}

/* The value that the token just read begins, as it is written. */
static struct slice
value_of(struct json_pull *pull, enum pull_token token)
{
    size_t start = pull->at - 1;

    switch (token) {
    case PULL_OBJECT:
    case PULL_ARRAY:
        if (!json_pull_skip(pull)) {
            return SLICE("null");
        }
        return (struct slice){.ptr = pull->bytes.ptr + start,
                              .len = pull->at - start};
    case PULL_STRING:
        return (struct slice){.ptr = pull->text.ptr - 1,
                              .len = pull->text.len + 2};
    case PULL_NUMBER:
        return pull->text;
    case PULL_TRUE:
        return SLICE("true");
    case PULL_FALSE:
        return SLICE("false");
    case PULL_NULL:
    case PULL_KEY:
    case PULL_OBJECT_END:
    case PULL_ARRAY_END:
    case PULL_END:
    case PULL_BAD:
        break;
    }
    return SLICE("null");
}

bool
json_walk_next(struct json_walk *walk, struct slice *key, bool *escaped,
               struct slice *value)
{
    enum pull_token token = json_pull_next(&walk->pull);

    if (token <= PULL_END || token == PULL_OBJECT_END ||
        token == PULL_ARRAY_END) {
        return false;
    }
    if (walk->object) {
        if (key != NULL) {
            *key = walk->pull.text;
        }
        if (escaped != NULL) {
            *escaped = walk->pull.escaped;
        }
        token = json_pull_next(&walk->pull);
    }
    *value = value_of(&walk->pull, token);
    return true;
}

bool
json_member(struct slice object, const char *name, struct slice *value)
{
    struct json_walk walk;
    struct slice key = {.ptr = NULL};
    struct slice found;
    bool there = false;

    if (!json_walk_open(&walk, object) || !walk.object) {
        return false;
    }
    while (json_walk_next(&walk, &key, NULL, &found)) {
        if (slice_equal(key, slice_of(name))) {
            *value = found;
            there = true;
        }
    }
    return there;
}

static char *
put(char *to, const char *from, size_t len)
{
    if (len != 0) {
        memcpy(to, from, len);
    }
    return to + len;
}

bool
tok_model_parts(struct tok_load *load, struct slice model,
                struct tok_model_parts *parts)
{
    struct json_walk walk;
    struct slice key = {.ptr = NULL};
    struct slice value;
    size_t bytes = 2;

    *parts = (struct tok_model_parts){.rest = SLICE("{}")};
    if (!json_walk_open(&walk, model) || !walk.object) {
        return true;
    }
    while (json_walk_next(&walk, &key, NULL, &value)) {
        if (slice_equal(key, SLICE("vocab"))) {
            parts->vocab = value;
        } else if (slice_equal(key, SLICE("merges"))) {
            parts->merges = value;
        } else {
            bytes += key.len + value.len + 4;
        }
    }
    char *rest = tok_alloc(load, bytes);
    if (rest == NULL || !json_walk_open(&walk, model)) {
        return false;
    }
    char *end = put(rest, "{", 1);
    while (json_walk_next(&walk, &key, NULL, &value)) {
        if (slice_equal(key, SLICE("vocab")) ||
            slice_equal(key, SLICE("merges"))) {
            continue;
        }
        end = put(end, ",", end == rest + 1 ? 0 : 1);
        end = put(end, "\"", 1);
        end = put(end, key.ptr, key.len);
        end = put(end, "\":", 2);
        end = put(end, value.ptr, value.len);
    }
    end = put(end, "}", 1);
    CHECK((size_t)(end - rest) <= bytes);
    parts->rest = (struct slice){.ptr = rest, .len = (size_t)(end - rest)};
    return true;
}

bool
json_is_null(struct slice value)
{
    return slice_equal(value, SLICE("null"));
}

static int
hex4(const char *digits)
{
    int value = 0;

    for (int i = 0; i < 4; i++) {
        int c = (unsigned char)digits[i];
        int digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
        value = value * 16 + digit;
    }
    return value;
}

/* The character of \uXXXX at raw[*at], moved past it; -1: half of a pair. */
static long
escape_u(struct slice raw, size_t *at)
{
    int high = hex4(raw.ptr + *at + 2);

    *at += 6;
    if (high < 0xd800 || high > 0xdfff) {
        return high;
    }
    if (high > 0xdbff || raw.len - *at < 6 || raw.ptr[*at] != '\\' ||
        raw.ptr[*at + 1] != 'u') {
        return -1;
    }
    int low = hex4(raw.ptr + *at + 2);
    if (low < 0xdc00 || low > 0xdfff) {
        return -1;
    }
    *at += 6;
    return 0x10000 + ((long)(high - 0xd800) << 10) + (low - 0xdc00);
}

size_t
json_unescape(struct slice raw, char *out)
{
    static const char from[] = "\"\\/bfnrt";
    static const char to[] = "\"\\/\b\f\n\r\t";
    size_t len = 0;
    size_t at = 0;

    while (at < raw.len) {
        if (raw.ptr[at] != '\\') {
            out[len++] = raw.ptr[at++];
            continue;
        }
        if (raw.ptr[at + 1] == 'u') {
            long c = escape_u(raw, &at);
            if (c < 0) {
                return SIZE_MAX;
            }
            len += utf8_write((uint32_t)c, out + len);
            continue;
        }
        const char *found = strchr(from, raw.ptr[at + 1]);
        out[len++] = found != NULL ? to[found - from] : raw.ptr[at + 1];
        at += 2;
    }
    return len;
}

bool
tok_text(struct tok_load *load, struct slice value, struct slice *text)
{
    char shown[TOK_SHOWN + 4];

    if (value.len < 2 || value.ptr[0] != '"') {
        return tok_fail(load, "%s is no string", tok_show(value, shown));
    }
    char *copy = tok_alloc(load, value.len);
    if (copy == NULL) {
        return false;
    }
    size_t len = json_unescape(
        (struct slice){.ptr = value.ptr + 1, .len = value.len - 2}, copy);
    if (len == SIZE_MAX) {
        return tok_fail(load, "half of a surrogate pair in %s",
                        tok_show(value, shown));
    }
    *text = (struct slice){.ptr = copy, .len = len};
    return true;
}

bool
tok_uint(struct slice value, uint64_t max, uint64_t *number)
{
    uint64_t sum = 0;

    if (value.len == 0 || value.len > 19) {
        return false;
    }
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9') {
            return false;
        }
        sum = sum * 10 + (uint64_t)(value.ptr[i] - '0');
    }
    *number = sum;
    return sum <= max;
}

bool
tok_member_bool(struct tok_load *load, struct slice object, const char *name,
                bool otherwise)
{
    struct slice value;
    char shown[TOK_SHOWN + 4];

    if (!json_member(object, name, &value) || json_is_null(value)) {
        return otherwise;
    }
    if (slice_equal(value, SLICE("true"))) {
        return true;
    }
    if (!slice_equal(value, SLICE("false"))) {
        (void)tok_fail(load, "%s: %s is neither true nor false", name,
                       tok_show(value, shown));
    }
    return false;
}

uint64_t
tok_member_uint(struct tok_load *load, struct slice object, const char *name,
                uint64_t otherwise)
{
    struct slice value;
    uint64_t number = 0;
    char shown[TOK_SHOWN + 4];

    if (!json_member(object, name, &value) || json_is_null(value)) {
        return otherwise;
    }
    if (!tok_uint(value, UINT32_MAX - 1, &number)) {
        (void)tok_fail(load, "%s: %s is no number of ours", name,
                       tok_show(value, shown));
    }
    return number;
}

bool
tok_member_text(struct tok_load *load, struct slice object, const char *name,
                struct slice *text)
{
    struct slice value;

    *text = (struct slice){.ptr = NULL};
    if (!json_member(object, name, &value) || json_is_null(value)) {
        return false;
    }
    return tok_text(load, value, text);
}
