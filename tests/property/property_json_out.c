/*
 * Random documents of random bytes through the JSON writer and back through
 * jansson: what is read is what was written, with each byte that is not UTF-8
 * replaced by U+FFFD. The admin renderer takes every one that is an object.
 *
 *   property_json_out DOCUMENTS [FIRST_SEED]
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/text/json_out.h"
#include "node/text/json_show.h"

#define TEXT_MAX 48

static uint64_t seed;

#define REQUIRE(condition)                                                     \
    do {                                                                       \
        if (!(condition)) {                                                    \
            printf("property_json_out: %s (line %d), seed %llu\n", #condition, \
                   __LINE__, (unsigned long long)seed);                        \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

/* The document as it is written, and as it must be read. */
struct both {
    struct rng *rng;
    struct json_out out;
    json_t *open[JSON_OUT_DEPTH_MAX]; /* containers, borrowed */
    uint32_t depth;
    json_t *root;
    uint32_t left; /* values still to be written */
    uint32_t keys; /* given so far: each name is new */
};

/* Bytes of the character at text by its code point, 0: none. Restates the
 * definition instead of the table that json_text.c follows. */
static size_t
char_by_code_point(const unsigned char *text, size_t len)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = text[0] < 0x80              ? 1
                  : (text[0] & 0xE0U) == 0xC0 ? 2
                  : (text[0] & 0xF0U) == 0xE0 ? 3
                  : (text[0] & 0xF8U) == 0xF0 ? 4
                                              : 0;
    uint32_t code = size > 1 ? text[0] & (0x7FU >> size) : text[0];

    if (size == 0 || size > len) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xC0U) != 0x80) {
            return 0;
        }
        code = code << 6 | (text[i] & 0x3FU);
    }
    bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code >= least[size] && code <= 0x10FFFF && !surrogate ? size : 0;
}

static size_t
repaired(const unsigned char *text, size_t len, char *out)
{
    size_t used = 0;

    for (size_t i = 0; i < len;) {
        size_t size = char_by_code_point(text + i, len - i);
        const void *from =
            size != 0 ? (const void *)(text + i) : "\xEF\xBF\xBD";
        memcpy(out + used, from, size != 0 ? size : 3);
        used += size != 0 ? size : 3;
        i += size != 0 ? size : 1;
    }
    return used;
}

/* Half the bytes are such as UTF-8 and escapes are made of. */
static size_t
random_text(struct rng *rng, unsigned char *text)
{
    static const unsigned char likely[] = {
        0xC0, 0xC2, 0xDF, 0xE0, 0xA0, 0x9F, 0xED, 0xEF, 0xBF, 0xBD,
        0xF0, 0x90, 0x8F, 0xF4, 0xF5, 0x80, '"',  '\\', '\n', 0x7F};
    size_t len = rng_below(rng, TEXT_MAX);

    for (size_t i = 0; i < len; i++) {
        text[i] = rng_below(rng, 2) == 0 ? likely[rng_below(rng, sizeof likely)]
                                         : (unsigned char)rng_below(rng, 256);
    }
    return len;
}

/* Hangs value where the writer stands: takes the reference. */
static void
attach(struct both *b, const char *key, json_t *value)
{
    REQUIRE(value != NULL);
    if (b->depth == 0) {
        b->root = value;
    } else if (key != NULL) {
        REQUIRE(json_object_set_new(b->open[b->depth - 1], key, value) == 0);
    } else {
        REQUIRE(json_array_append_new(b->open[b->depth - 1], value) == 0);
    }
}

static json_t *
write_text(struct both *b)
{
    unsigned char text[TEXT_MAX];
    char good[3 * TEXT_MAX];
    size_t len = random_text(b->rng, text);

    json_out_slice(&b->out, (struct slice){(const char *)text, len});
    return json_stringn(good, repaired(text, len, good));
}

static json_t *
write_scalar(struct both *b)
{
    uint64_t n = rng_next(b->rng) >> rng_below(b->rng, 64) >> 1;

    switch (rng_below(b->rng, 5)) {
    case 0:
        json_out_uint(&b->out, n);
        return json_integer((json_int_t)n);
    case 1:
        json_out_milli(&b->out, n >> 11);
        return json_real((double)(n >> 11) / 1000);
    case 2:
        json_out_bool(&b->out, n % 2 == 0);
        return json_boolean(n % 2 == 0);
    case 3:
        json_out_null(&b->out);
        return json_null();
    default:
        return write_text(b);
    }
}

static void
write_container(struct both *b, const char *key, bool object)
{
    json_t *value = object ? json_object() : json_array();

    if (object) {
        json_out_object_begin(&b->out);
    } else {
        json_out_array_begin(&b->out);
    }
    attach(b, key, value);
    b->open[b->depth++] = value;
}

static void
end_container(struct both *b)
{
    b->depth--;
    if (json_is_object(b->open[b->depth])) {
        json_out_object_end(&b->out);
    } else {
        json_out_array_end(&b->out);
    }
}

static void
write_value(struct both *b)
{
    bool in_object = b->depth != 0 && json_is_object(b->open[b->depth - 1]);
    char key[32];

    if (in_object) {
        (void)snprintf(key, sizeof key, "%s%u\t\"",
                       rng_below(b->rng, 2) == 0 ? "bytes" : "\xC3\xA4",
                       b->keys++);
        json_out_key(&b->out, key);
    }
    bool deeper = b->depth < JSON_OUT_DEPTH_MAX && rng_below(b->rng, 3) == 0;
    if (b->depth == 0 || deeper) {
        write_container(b, in_object ? key : NULL, rng_below(b->rng, 2) == 0);
    } else {
        attach(b, in_object ? key : NULL, write_scalar(b));
    }
}

static void
write_document(struct both *b)
{
    write_value(b);
    while (b->depth != 0) {
        if (b->left == 0 || rng_below(b->rng, 8) == 0) {
            end_container(b);
        } else {
            b->left--;
            write_value(b);
        }
    }
}

static void
check_document(struct rng *rng, struct buf *buf, struct buf *shown)
{
    struct both b = {.rng = rng, .left = (uint32_t)rng_below(rng, 60)};
    json_error_t error;

    buf_clear(buf);
    buf_clear(shown);
    json_out_init(&b.out, buf);
    write_document(&b);
    REQUIRE(!buf->failed);
    json_t *read = json_loadb(buf->ptr, buf->len,
                              JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
    REQUIRE(read != NULL);
    REQUIRE(json_equal(read, b.root));
    int rc = json_show(buf_slice(buf), shown);
    REQUIRE(!shown->failed && (rc == 0) == json_is_object(b.root));
    json_decref(read);
    json_decref(b.root);
}

int
main(int argc, char **argv)
{
    uint64_t documents = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct buf buf;
    struct buf shown;
    struct rng rng;

    buf_init(&buf, 1 << 20);
    buf_init(&shown, 16 << 20);
    for (seed = first; seed < first + documents; seed++) {
        rng_init(&rng, seed);
        check_document(&rng, &buf, &shown);
    }
    buf_fini(&buf);
    buf_fini(&shown);
    printf("property_json_out: %llu documents\n",
           (unsigned long long)documents);
    return 0;
}
