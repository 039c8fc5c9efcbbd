/* A JSON document as a tree: built from the pull reader, over an arena. */
#include "node/text/json_tree.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/ascii.h"
#include "index/base/utf8.h"
#include "node/text/json_pull.h"

#define SORT_FROM 9 /* members from which an object is searched by halves */

/* Items or members of the open containers, of all of them one after another. */
struct stack {
    struct json_member *at;
    size_t len;
    size_t size;
};

struct reader {
    struct json_pull pull;
    struct arena *arena;
    struct stack stack;
    struct json_tree_fault fault;
};

/* A container that is being read. */
struct open {
    size_t base; /* of its first member on the stack */
    bool object;
};

static bool
fail(struct reader *reader, const char *why)
{
    if (reader->fault.why == NULL) {
        reader->fault = (struct json_tree_fault){why, reader->pull.at};
    }
    return false;
}

static void *
take(struct reader *reader, size_t n)
{
    void *room = arena_take(reader->arena, n);

    if (room == NULL) {
        (void)fail(reader, "document too large");
    }
    return room;
}

static bool
push(struct reader *reader, const struct json_member *member)
{
    struct stack *stack = &reader->stack;

    if (stack->len == stack->size) {
        size_t size = stack->size == 0 ? 64 : stack->size * 2;
        struct json_member *grown = NULL;
        if (size > reader->arena->max_bytes / sizeof *grown) {
            return fail(reader, "document too large");
        }
        grown = realloc(stack->at, size * sizeof *grown);
        if (grown == NULL) {
            return fail(reader, "out of memory");
        }
        stack->at = grown;
        stack->size = size;
    }
    stack->at[stack->len++] = *member;
    return true;
}

static uint32_t
hex4(const char *at)
{
    uint32_t value = 0;

    for (int i = 0; i < 4; i++) {
        int digit = ascii_hex(at[i]);
        CHECK(digit >= 0); /* the pull reader has seen it */
        value = value * 16 + (uint32_t)digit;
    }
    return value;
}

/* The code point of the \u escape at *at, which it moves; 0xD800: it was half
 * of a pair alone. */
static uint32_t
unicode_escape(struct slice text, size_t *at)
{
    uint32_t c = hex4(text.ptr + *at + 2);

    *at += 6;
    if (c < 0xD800 || c > 0xDFFF) {
        return c;
    }
    if (c < 0xDC00 && *at + 6 <= text.len && text.ptr[*at] == '\\' &&
        text.ptr[*at + 1] == 'u') {
        uint32_t low = hex4(text.ptr + *at + 2);
        if (low >= 0xDC00 && low <= 0xDFFF) {
            *at += 6;
            return 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
        }
    }
    return 0xD800;
}

/* The string or key just read. */
static bool
read_text(struct reader *reader, struct json_value *value)
{
    struct slice raw = reader->pull.text;
    char *out = NULL;
    size_t len = 0;

    if (raw.len > JSON_TREE_LEN_MAX) {
        return fail(reader, "string too long");
    }
    if (!reader->pull.escaped) {
        *value = json_tree_text(raw);
        return true;
    }
    out = take(reader, raw.len);
    if (out == NULL) {
        return false;
    }
    for (size_t i = 0; i < raw.len;) {
        if (raw.ptr[i] != '\\') {
            out[len++] = raw.ptr[i++];
        } else if (raw.ptr[i + 1] == 'u') {
            uint32_t c = unicode_escape(raw, &i);
            if (c == 0xD800) {
                return fail(reader, "half of a surrogate pair");
            }
            len += utf8_write(c, out + len);
        } else {
            static const char from[] = "\"\\/bfnrt";
            static const char to[] = "\"\\/\b\f\n\r\t";
            out[len++] = to[strchr(from, raw.ptr[i + 1]) - from];
            i += 2;
        }
    }
    *value = json_tree_text((struct slice){out, len});
    return true;
}

static bool
read_number(struct reader *reader, struct json_value *value)
{
    struct slice raw = reader->pull.text;
    char small[64];
    char *text = small;

    if (raw.len > JSON_TREE_DIGITS_MAX) {
        return fail(reader, "number too long");
    }
    if (raw.len >= sizeof small) {
        text = take(reader, raw.len + 1);
        if (text == NULL) {
            return false;
        }
    }
    memcpy(text, raw.ptr, raw.len);
    text[raw.len] = '\0';
    if (text[strcspn(text, ".eE")] != '\0') {
        *value = (struct json_value){.kind = JSON_REAL,
                                     .as.real = strtod(text, NULL)};
        return true;
    }
    errno = 0;
    *value = (struct json_value){.kind = JSON_INT,
                                 .as.integer = strtoll(text, NULL, 10)};
    if (errno == ERANGE) {
        *value = json_tree_text(raw);
        value->kind = JSON_BIG;
    }
    return true;
}

/* Whether a key comes before another; of equal ones the earlier. */
static int
key_order(const struct json_member *members, uint32_t a, uint32_t b)
{
    int order = slice_compare(json_tree_slice(&members[a].key),
                              json_tree_slice(&members[b].key));
    return order != 0 ? order : (a > b) - (a < b);
}

/* Merge sort: bounded for every input, unlike qsort(). */
static void
sort_keys(const struct json_member *members, uint32_t *order, uint32_t *spare,
          uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (uint64_t width = 1; width < n; width *= 2) {
        for (uint64_t from = 0; from < n; from += 2 * width) {
            uint64_t mid = from + width < n ? from + width : n;
            uint64_t end = mid + width < n ? mid + width : n;
            uint64_t a = from;
            uint64_t b = mid;
            for (uint64_t to = from; to < end; to++) {
                bool left = b == end || (a < mid && key_order(members, order[a],
                                                              order[b]) < 0);
                spare[to] = left ? order[a++] : order[b++];
            }
        }
        memcpy(order, spare, n * sizeof *order);
    }
}

/* Drops doubles from n members whose sorted order is given: the last value at
 * the first place. Returns how many are left. */
static uint32_t
drop_doubles(struct json_member *members, const uint32_t *order, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n;) {
        uint32_t last = i;
        struct slice key = json_tree_slice(&members[order[i]].key);
        while (
            last + 1 < n &&
            slice_equal(key, json_tree_slice(&members[order[last + 1]].key))) {
            last++;
            members[order[last]].key.kind = JSON_KINDS; /* to be dropped */
        }
        members[order[i]].value = members[order[last]].value;
        i = last + 1;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (members[i].key.kind != JSON_KINDS) {
            members[kept++] = members[i];
        }
    }
    return kept;
}

/* The same for few members, where every pair is looked at. */
static uint32_t
drop_doubles_few(struct json_member *members, uint32_t n)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++) {
        struct slice key = json_tree_slice(&members[i].key);
        uint32_t at = 0;
        while (at < kept &&
               !slice_equal(key, json_tree_slice(&members[at].key))) {
            at++;
        }
        if (at == kept) {
            members[kept++] = members[i];
        } else {
            members[at].value = members[i].value;
        }
    }
    return kept;
}

static bool
close_object(struct reader *reader, struct json_member *from, uint32_t n,
             struct json_value *value)
{
    bool sorted = n >= SORT_FROM;
    size_t bytes = (size_t)n * sizeof *from;
    struct json_member *members = NULL;
    uint32_t *order = NULL;

    members =
        take(reader, bytes + (sorted ? 2 * (size_t)n * sizeof *order : 0));
    if (members == NULL) {
        return false;
    }
    if (n > 0) {
        memcpy(members, from, bytes);
    }
    if (sorted) {
        order = (uint32_t *)(void *)(members + n);
        sort_keys(members, order, order + n, n);
        uint32_t kept = drop_doubles(members, order, n);
        order = (uint32_t *)(void *)(members + kept);
        sort_keys(members, order, order + kept, kept);
        n = kept;
    } else {
        n = drop_doubles_few(members, n);
    }
    *value = (struct json_value){.kind = JSON_OBJECT,
                                 .mark = sorted ? JSON_MARK_SORTED : 0,
                                 .len = n,
                                 .as.members = members};
    return true;
}

/* Takes a container's members off the stack and makes *value of them. */
static bool
close_container(struct reader *reader, const struct open *open,
                struct json_value *value)
{
    struct json_member *from = reader->stack.at + open->base;
    size_t n = reader->stack.len - open->base;
    struct json_value *items = NULL;

    if (n > UINT32_MAX / 4) {
        return fail(reader, "document too large");
    }
    reader->stack.len = open->base;
    if (open->object) {
        return close_object(reader, from, (uint32_t)n, value);
    }
    items = take(reader, n * sizeof *items);
    if (items == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        items[i] = from[i].value;
    }
    *value = (struct json_value){
        .kind = JSON_ARRAY, .len = (uint32_t)n, .as.items = items};
    return true;
}

static bool
read_scalar(struct reader *reader, enum pull_token token,
            struct json_value *value)
{
    *value = (struct json_value){.kind = JSON_NULL};
    if (token == PULL_STRING || token == PULL_KEY) {
        return read_text(reader, value);
    }
    if (token == PULL_NUMBER) {
        return read_number(reader, value);
    }
    if (token == PULL_TRUE || token == PULL_FALSE) {
        value->kind = JSON_BOOL;
        value->as.integer = token == PULL_TRUE;
    }
    return token > PULL_END;
}

static bool
read_tree(struct reader *reader, struct json_value *value)
{
    struct open open[JSON_PULL_DEPTH_MAX];
    size_t depth = 0;
    struct json_member next = {.key.kind = JSON_NULL};
    enum pull_token token = PULL_BAD;

    while ((token = json_pull_next(&reader->pull)) > PULL_END) {
        if (token == PULL_OBJECT || token == PULL_ARRAY) {
            /* The key waits on the stack for its value. */
            if (!push(reader, &next)) {
                return false;
            }
            CHECK(depth < JSON_PULL_DEPTH_MAX);
            open[depth++] =
                (struct open){reader->stack.len, token == PULL_OBJECT};
            continue;
        }
        if (token == PULL_KEY) {
            if (!read_scalar(reader, token, &next.key)) {
                return false;
            }
            continue;
        }
        if (token == PULL_OBJECT_END || token == PULL_ARRAY_END) {
            depth--;
            if (!close_container(reader, &open[depth], &next.value)) {
                return false;
            }
            next.key = reader->stack.at[--reader->stack.len].key;
        } else if (!read_scalar(reader, token, &next.value)) {
            return false;
        }
        if (depth > 0 && !push(reader, &next)) {
            return false;
        }
    }
    *value = next.value;
    return token == PULL_END || fail(reader, reader->pull.fault);
}

bool
json_tree_read(struct slice document, struct arena *arena,
               struct json_value *value, struct json_tree_fault *fault)
{
    struct reader reader = {.arena = arena};
    bool fine = false;

    json_pull_init(&reader.pull, document);
    fine = read_tree(&reader, value);
    CHECK(fine == (reader.fault.why == NULL));
    free(reader.stack.at);
    *fault = reader.fault;
    return fine;
}

const struct json_value *
json_tree_get(const struct json_value *object, struct slice key)
{
    const struct json_member *members = object->as.members;
    const uint32_t *order = NULL;
    uint32_t low = 0;
    uint32_t high = object->len;

    CHECK(object->kind == JSON_OBJECT);
    if ((object->mark & JSON_MARK_SORTED) == 0) {
        for (uint32_t i = 0; i < object->len; i++) {
            if (members[i].key.kind == JSON_STRING &&
                slice_equal(key, json_tree_slice(&members[i].key))) {
                return &members[i].value;
            }
        }
        return NULL;
    }
    order = (const uint32_t *)(const void *)(members + object->len);
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int side =
            slice_compare(key, json_tree_slice(&members[order[mid]].key));
        if (side == 0) {
            return &members[order[mid]].value;
        }
        if (side < 0) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    return NULL;
}

/* The shortest digits that read back as real, which is finite and above 0;
 * returns the exponent of the first. */
static int
shortest(double real, char digits[20])
{
    char text[40];
    int from = real < 2.3e-308 ? 1 : 15; /* every 15 digits read back, but for
                                            denormal numbers */
    int exponent = 0;
    size_t len = 1;

    for (int n = from; n <= 17; n++) {
        (void)snprintf(text, sizeof text, "%.*e", n - 1, real);
        if (strtod(text, NULL) == real) {
            break;
        }
    }
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    digits[0] = text[0];
    for (const char *at = text + 2; text[1] == '.' && *at != 'e'; at++) {
        digits[len++] = *at;
    }
    while (len > 1 && digits[len - 1] == '0') {
        len--;
    }
    digits[len] = '\0';
    return exponent;
}

size_t
json_tree_real(double real, char out[JSON_TREE_REAL_MAX])
{
    char digits[20] = "0";
    const char *sign = signbit(real) != 0 ? "-" : "";
    int exponent = 0;
    int len = 1;
    int n = 0;

    if (!isfinite(real)) {
        return (size_t)snprintf(out, JSON_TREE_REAL_MAX, "%s",
                                isnan(real) ? "nan"
                                : real > 0  ? "inf"
                                            : "-inf");
    }
    if (real != 0) {
        exponent = shortest(fabs(real), digits);
        len = (int)strlen(digits);
    }
    if (exponent < -4 || exponent >= 16) {
        n = snprintf(out, JSON_TREE_REAL_MAX, "%s%c%s%se%c%02d", sign,
                     digits[0], len > 1 ? "." : "", digits + 1,
                     exponent < 0 ? '-' : '+', abs(exponent));
    } else if (exponent < 0) {
        n = snprintf(out, JSON_TREE_REAL_MAX, "%s0.%.*s%s", sign, -exponent - 1,
                     "000", digits);
    } else if (len > exponent + 1) {
        n = snprintf(out, JSON_TREE_REAL_MAX, "%s%.*s.%s", sign, exponent + 1,
                     digits, digits + exponent + 1);
    } else {
        n = snprintf(out, JSON_TREE_REAL_MAX, "%s%s%.*s.0", sign, digits,
                     exponent + 1 - len, "0000000000000000");
    }
    CHECK(n > 0 && n < JSON_TREE_REAL_MAX);
    return (size_t)n;
}
