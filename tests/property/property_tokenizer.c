/*
 * The hand-made scanners against PCRE2: on random texts, and on every character
 * of Unicode in several neighbourhoods, each finds the same words, one by one
 * and ahead of the cache. And long words: the heap merges as the list of short
 * words does, and parting them at gaps changes nothing.
 *
 *   property_tokenizer TEXTS SEED
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/text/json_text.h"
#include "node/tokenizer/tokenizer_internal.h"
#include "node/tokenizer/tokenizer_words_internal.h"

static const char *const names[] = {"gpt2", "cl100k_base", "qwen",
                                    "o200k_base"};

struct property {
    struct tokenizer *tokenizer;
    struct tok_matcher *matcher;
    struct tok_regex *regexes[4];
    struct tok_regex *deepseek[TOK_DEEPSEEK_PARTS];
    struct tokenizer
        *marking; /* a word's last character has an id of its own */
    struct tokenizer_scratch *scratch; /* of marking */
};

static void
fail(const char *name, struct slice text, size_t at, size_t by_hand)
{
    (void)printf("%s: at %zu by hand %zu, in:", name, at, by_hand);
    for (size_t i = 0; i < text.len; i++) {
        (void)printf(" %02x", (unsigned)(uint8_t)text.ptr[i]);
    }
    (void)printf("\n");
    exit(1);
}

/* The words that are found ahead, many at once, are the scanner's. */
static void
compare_ahead(const struct property *p, struct slice text, tok_scan *scan,
              const char *name)
{
    struct tokenizer_scratch *s = p->scratch;
    struct tokenizer_ids single = {.max = 10000};

    s->fault = TOKENIZER_OK;
    s->ids = &single;
    for (size_t at = 0; at < text.len;) {
        size_t end = scan(p->tokenizer->classes, text, at);
        bpe_word(s, (struct slice){.ptr = text.ptr + at, .len = end - at});
        at = end;
    }
    const struct words_kernel *kernel = NULL;
    for (unsigned i = 0; (kernel = words_kernel_nth(i)) != NULL; i++) {
        /* The last time as many ids as may be. */
        for (size_t max = 10000; kernel->usable() && max != 0;
             max = max == 10000 && single.count > 0 ? single.count : 0) {
            struct tokenizer_ids ahead = {.max = max};
            s->ids = &ahead;
            kernel->run(s, text, scan);
            if (s->fault != TOKENIZER_OK || ahead.count != single.count ||
                (single.count > 0 &&
                 memcmp(ahead.ptr, single.ptr,
                        single.count * sizeof single.ptr[0]) != 0)) {
                (void)printf("%s, ", kernel->name);
                fail(name, text, ahead.count, single.count);
            }
            tokenizer_ids_fini(&ahead);
        }
    }
    tokenizer_ids_fini(&single);
}

/* Cuts text[from, to) by DeepSeek's patterns from that part on, one after the
 * other, and compares each word that is left with the scanner's. */
static void
compare_deepseek(const struct property *p, struct slice text, size_t from,
                 size_t to, unsigned part)
{
    struct tok_find find =
        tok_find_in((struct slice){.ptr = text.ptr + from, .len = to - from});

    if (from == to) {
        return;
    }
    if (part == TOK_DEEPSEEK_PARTS) {
        size_t end = scan_deepseek(p->tokenizer->classes, text, from);
        if (end != to) {
            fail("deepseek", text, from, end);
        }
        return;
    }
    while (tok_find_next(&find, p->deepseek[part], p->matcher) == 1) {
        size_t start = (size_t)(find.text.ptr - text.ptr) + find.start;
        compare_deepseek(p, text, from, start, part + 1);
        from = start + (find.end - find.start);
        compare_deepseek(p, text, start, from, part + 1);
    }
    compare_deepseek(p, text, from, to, part + 1);
}

/* Both find the same words, and PCRE2 leaves nothing out. */
static void
compare(const struct property *p, struct slice text)
{
    for (size_t i = 0; i < 4; i++) {
        struct tok_find find = tok_find_in(text);
        tok_scan *scan = tok_regex_scan(p->regexes[i]);
        for (size_t at = 0; at < text.len;) {
            size_t end = scan(p->tokenizer->classes, text, at);
            if (tok_find_next(&find, p->regexes[i], p->matcher) != 1 ||
                find.start != at || find.end != end) {
                fail(names[i], text, at, end);
            }
            at = end;
        }
        compare_ahead(p, text, scan, names[i]);
    }
    compare_deepseek(p, text, 0, text.len, 0);
    compare_ahead(p, text, scan_deepseek, "deepseek");
}

/* Chinese and signs that the kernels find as bits. */
static const uint32_t wide[] = {0x4e00, 0x4e2d, 0x9000, 0x9f7f, 0x9f80,
                                0x2014, 0x201c, 0x2026, 0x3002, 0x300c,
                                0xff01, 0xff0c, 0xff1a};
#define WIDE (sizeof wide / sizeof wide[0])

/* A character of any class, near the borders of classes more often. */
static uint32_t
any_character(struct rng *rng)
{
    static const char few[] = "   \n\r\t'''sStTdDmMrReEvVlLaAzZ019._/-";
    static const uint32_t some[] = {
        0x17f,   0x1c5,  0xaa,   0x2b0,  0x301,   0x4e2d, 0xa0,
        0x2003,  0x180e, 0x85,   0x661,  0x2167,  0xb2,   0x212a,
        0x1f600, 0x200d, 0x3000, 0xe33,  0x31350, 0x3042, 0x30fb,
        0x309b,  0x3040, 0x9fa5, 0x9fa6, 0xff0c,  0xad};
    uint32_t c = 0;

    switch (rng_below(rng, 8)) {
    case 0:
        return some[rng_below(rng, sizeof some / sizeof some[0])];
    case 1:
        do {
            c = (uint32_t)rng_below(rng, 0x110000);
        } while (c >= 0xd800 && c < 0xe000);
        return c;
    case 2:
        return (uint32_t)rng_below(rng, 0x600);
    case 3:
        return wide[rng_below(rng, WIDE)];
    default:
        return (uint32_t)(uint8_t)few[rng_below(rng, sizeof few - 1)];
    }
}

/* What is passed many at once is what would be passed one by one. */
static void
passed_are_alike(const struct property *p, struct slice text)
{
    const struct tok_classes *classes = p->tokenizer->classes;
    size_t plain = 0;

    for (size_t at = 0; at < text.len; at++) {
        if (plain <= at) {
            for (plain = at; plain < text.len;) {
                if ((uint8_t)text.ptr[plain] >= 0x80) {
                    break;
                }
                plain++;
            }
        }
        if (ascii_until(text, at) != plain) {
            fail("ascii", text, at, ascii_until(text, at));
        }
    }
    for (size_t at = 0; at < text.len;) {
        for (size_t end = tok_inert_until(text, at); at < end;
             at += utf8_len((uint8_t)text.ptr[at])) {
            if ((tok_class_at(classes, text.ptr + at) & TOK_NFC) != 0) {
                fail("inert", text, at, end);
            }
        }
        at += at < text.len ? utf8_len((uint8_t)text.ptr[at]) : 0;
    }
}

/* Short texts of anything; and long ones, whose words are found a block at a
 * time, with something else now and then. */
static void
random_text(const struct property *p, struct rng *rng)
{
    static const char plain[] = "abzAZ09   .,(-_/\n\n\t's";
    char text[4096];
    size_t len = 0;
    bool is_long = rng_below(rng, 8) == 0;
    size_t count = 1 + rng_below(rng, is_long ? 500 : 40);
    uint64_t others = is_long ? 1 + rng_below(rng, 60) : 1;

    for (size_t i = 0; i < count; i++) {
        uint32_t c =
            rng_below(rng, others) == 0
                ? any_character(rng)
                : (uint32_t)(uint8_t)plain[rng_below(rng, sizeof plain - 1)];
        len += utf8_write(c, text + len);
        if (is_long && rng_below(rng, 20) == 0) {
            memcpy(text + len, rng_below(rng, 2) == 0 ? "'re" : "'LL", 3);
            len += 3;
        }
    }
    compare(p, (struct slice){.ptr = text, .len = len});
    passed_are_alike(p, (struct slice){.ptr = text, .len = len});
}

/* Each character in Chinese, which is looked at five characters at a time. */
static void
in_chinese(const struct property *p, const char *one, size_t n)
{
    char text[64];
    size_t len = 0;

    for (size_t at = 0; at < 14; at++) {
        bool other = at == 1 || at == 7 || at == 12;
        size_t bytes = other ? n : 3;
        memcpy(text + len, other ? one : "\xe4\xb8\xad", bytes);
        len += bytes;
    }
    compare(p, (struct slice){.ptr = text, .len = len});
    passed_are_alike(p, (struct slice){.ptr = text, .len = len});
}

/* How much of a text is well-formed, character by character. */
static size_t
slowly_valid(struct slice text)
{
    size_t at = 0;
    size_t len = 1;

    while (at < text.len && len > 0) {
        len = json_text_char(
            (struct slice){.ptr = text.ptr + at, .len = text.len - at});
        at += len;
    }
    return at;
}

static void
broken_chinese(struct rng *rng, size_t rounds)
{
    static const uint8_t bytes[] = {0x41, 0x80, 0xbf, 0xc2, 0xe0, 0xe4,
                                    0xed, 0xef, 0xf0, 0xff, 0x9f, 0xa0};

    while (rounds-- > 0) {
        char text[64];
        size_t len = 0;
        while (len < sizeof text - 4) {
            uint32_t c = 0x800 + (uint32_t)rng_below(rng, 0xf000);
            c = c >= 0xd800 && c < 0xe000 ? 0x4e2d : c;
            len += utf8_write(c, text + len);
        }
        for (uint64_t n = rng_below(rng, 3); n > 0; n--) {
            text[rng_below(rng, len)] =
                (char)bytes[rng_below(rng, sizeof bytes)];
        }
        struct slice some = {.ptr = text, .len = len - rng_below(rng, 20)};
        if (utf8_valid(some) != slowly_valid(some)) {
            fail("utf8", some, slowly_valid(some), utf8_valid(some));
        }
    }
}

/* Planes 4 to 13 have no character, 15 and 16 only private ones: of those,
 * one in 64 will do. */
static bool
may_have_a_class(uint32_t c)
{
    unsigned plane = c >> 16;
    return plane < 4 || plane == 14;
}

/* Each character between letters, spaces, digits and itself, and in Chinese. */
static void
every_character(const struct property *p)
{
    for (uint32_t c = 0; c < 0x110000; c++) {
        char one[4];
        char text[64];
        if ((c >= 0xd800 && c < 0xe000) ||
            (!may_have_a_class(c) && c % 64 != 0)) {
            continue;
        }
        size_t n = utf8_write(c, one);
        int len = snprintf(text, sizeof text, "a%.*sB %.*s%.*sc'%.*s1", (int)n,
                           one, (int)n, one, (int)n, one, (int)n, one);
        if (c != 0) {
            compare(p, (struct slice){.ptr = text, .len = (size_t)len});
        }
        if (c != 0 && (c < 0x11000 || c % 64 == 0)) {
            in_chinese(p, one, n);
        }
    }
}

/* A BPE over a and b with every word of up to eight of them. */
static struct tokenizer *
small_bpe(void)
{
    struct buf json;
    char why[TOKENIZER_WHY_MAX];
    struct buf merges;

    buf_init(&json, 1 << 20);
    buf_init(&merges, 1 << 20);
    buf_add_text(&json, "{\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (unsigned len = 1, id = 0; len <= 5; len++) {
        for (unsigned word = 0; word < 1U << len; word++, id++) {
            buf_printf(&json, "%s\"", id > 0 ? "," : "");
            for (unsigned i = 0; i < len; i++) {
                buf_add_text(&json, word >> i & 1 ? "b" : "a");
            }
            buf_printf(&json, "\":%u", id);
            unsigned cut = 1 + word % len;
            if (word % 3 == 1 || cut >= len) {
                continue; /* some cannot be reached */
            }
            buf_add_text(&merges, merges.len > 0 ? ",\"" : "\"");
            for (unsigned i = 0; i < len; i++) {
                buf_add_text(&merges, i == cut ? " " : "");
                buf_add_text(&merges, word >> i & 1 ? "b" : "a");
            }
            buf_add_text(&merges, "\"");
        }
    }
    buf_add_text(&json, "},\"merges\":[");
    buf_add_slice(&json, buf_slice(&merges));
    buf_add_text(&json, "]}}");
    struct tokenizer *t = tokenizer_new(buf_slice(&json), why);
    if (t == NULL) {
        (void)printf("small: %s\n", why);
        exit(1);
    }
    buf_fini(&json);
    buf_fini(&merges);
    return t;
}

/* A BPE without merges, in which the last character of a word is another token
 * than the same character elsewhere. */
static struct tokenizer *
marking_bpe(void)
{
    struct buf json;
    char why[TOKENIZER_WHY_MAX];

    buf_init(&json, 1 << 20);
    buf_add_text(&json, "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\","
                        "\"end_of_word_suffix\":\"$\",\"vocab\":{\"?\":0");
    for (unsigned c = 1; c < 128; c++) {
        if (c != '?' && c != '$') {
            buf_printf(&json, ",\"\\u%04x\":%u,\"\\u%04x$\":%u", c, 2 * c, c,
                       2 * c + 1);
        }
    }
    for (unsigned i = 0; i < WIDE; i++) {
        buf_printf(&json, ",\"\\u%04x\":%u,\"\\u%04x$\":%u", wide[i],
                   256 + 2 * i, wide[i], 257 + 2 * i);
    }
    buf_add_text(&json, "},\"merges\":[]}}");
    struct tokenizer *t = tokenizer_new(buf_slice(&json), why);
    if (t == NULL) {
        (void)printf("marking: %s\n", why);
        exit(1);
    }
    buf_fini(&json);
    return t;
}

/* What a merge of two ids becomes, and its rank, by looking at all of them. */
static const struct bpe_merge *
slow_merge(const struct bpe *bpe, uint32_t left, uint32_t right)
{
    for (uint64_t i = 0; i <= bpe->merges_mask; i++) {
        const struct bpe_merge *merge = &bpe->merges[i];
        if (merge->right == right && merge->left == left) {
            return merge;
        }
    }
    return NULL;
}

static size_t
slow_bpe(const struct tokenizer *t, const char *text, size_t len, uint32_t *ids)
{
    for (size_t i = 0; i < len; i++) {
        ids[i] = text[i] == 'b';
    }
    for (;;) {
        const struct bpe_merge *best = NULL;
        size_t at = 0;
        for (size_t i = 0; i + 1 < len; i++) {
            const struct bpe_merge *merge =
                slow_merge(&t->bpe, ids[i], ids[i + 1]);
            if (merge != NULL && (best == NULL || merge->rank < best->rank)) {
                best = merge;
                at = i;
            }
        }
        if (best == NULL) {
            return len;
        }
        ids[at] = best->id;
        len--;
        memmove(ids + at + 1, ids + at + 2, (len - at - 1) * sizeof ids[0]);
    }
}

static void
words_merge_alike(struct rng *rng, size_t rounds)
{
    struct tokenizer *t = small_bpe();
    struct tokenizer_scratch *s = tokenizer_scratch_new(t);
    struct tokenizer_ids ids = {.max = 1000};
    uint32_t slow[200];
    char text[200];

    for (size_t round = 0; round < rounds; round++) {
        size_t len = 1 + rng_below(rng, round % 2 == 0 ? 40 : 199);
        for (size_t i = 0; i < len; i++) {
            text[i] = rng_below(rng, 3) == 0 ? 'b' : 'a';
        }
        struct slice word = {.ptr = text, .len = len};
        ids.count = 0;
        int outcome = tokenizer_encode(s, word, 0, &ids);
        size_t count = slow_bpe(t, text, len, slow);
        if (outcome != TOKENIZER_OK || ids.count != count ||
            memcmp(ids.ptr, slow, count * sizeof slow[0]) != 0) {
            (void)printf("merges differ: %.*s\n", (int)len, text);
            exit(1);
        }
    }
    tokenizer_ids_fini(&ids);
    tokenizer_scratch_free(s);
    tokenizer_free(t);
}

/* Tokens of a random byte-level BPE: bytes of a few characters, and what merges
 * of two earlier ones make. */
#define LETTERS                                                    \
    "\xe4\xb8\xad\xe4\xba\xba\xe5\xb8\xba\xc3\xa9\xf0\x9f\x98\x80" \
    "ab"
#define MADE    64U
#define MADE_OF 12U /* bytes, at most */

struct made {
    char bytes[MADE_OF];
    size_t len;
};

static void
put_bytes(struct buf *out, const struct made *token)
{
    for (size_t i = 0; i < token->len; i++) {
        char text[4];
        uint32_t c = byte_level_char((uint8_t)token->bytes[i]);
        buf_add_text(out, c == '"' || c == '\\' ? "\\" : "");
        buf_add(out, text, utf8_write(c, text));
    }
}

static bool
is_made(const struct made *tokens, size_t count, const struct made *token)
{
    for (size_t i = 0; i < count; i++) {
        if (tokens[i].len == token->len &&
            memcmp(tokens[i].bytes, token->bytes, token->len) == 0) {
            return true;
        }
    }
    return false;
}

/* Tokens and merges in the making. */
struct making {
    struct made tokens[256 + MADE + 3 * sizeof LETTERS];
    size_t count;
    struct buf merges;
};

static void
add_merge(struct making *m, const struct made part[2])
{
    struct made whole = part[0];

    if (part[0].len + part[1].len > MADE_OF) {
        return;
    }
    memcpy(whole.bytes + whole.len, part[1].bytes, part[1].len);
    whole.len += part[1].len;
    if (!is_made(m->tokens, m->count, &whole)) {
        m->tokens[m->count++] = whole;
    }
    buf_add_text(&m->merges, m->merges.len > 0 ? ",\"" : "\"");
    put_bytes(&m->merges, &part[0]);
    buf_add_text(&m->merges, " ");
    put_bytes(&m->merges, &part[1]);
    buf_add_text(&m->merges, "\"");
}

/* Merges that make whole characters of three bytes, most of them. */
static void
add_characters(struct making *m, struct rng *rng)
{
    for (size_t at = 0; at + 3 < sizeof LETTERS; at++) {
        struct made part[2] = {{.bytes = {LETTERS[at]}, .len = 1},
                               {.bytes = {LETTERS[at + 1]}, .len = 1}};
        if (utf8_len((uint8_t)LETTERS[at]) != 3 || rng_below(rng, 4) == 0 ||
            (LETTERS[at] & 0xC0) == 0x80) {
            continue;
        }
        add_merge(m, part);
        part[0] =
            (struct made){.bytes = {LETTERS[at], LETTERS[at + 1]}, .len = 2};
        part[1] = (struct made){.bytes = {LETTERS[at + 2]}, .len = 1};
        add_merge(m, part);
    }
}

static struct tokenizer *
random_bpe(struct rng *rng)
{
    static struct making m;
    struct buf json;
    char why[TOKENIZER_WHY_MAX];
    size_t characters = rng_below(rng, 2) * rng_below(rng, MADE);

    buf_init(&json, 1 << 20);
    buf_init(&m.merges, 1 << 20);
    m.count = 256;
    for (size_t i = 0; i < 256; i++) {
        m.tokens[i] = (struct made){.bytes = {(char)i}, .len = 1};
    }
    for (size_t i = 0; i < MADE; i++) {
        struct made part[2];
        if (i == characters) {
            add_characters(&m, rng);
        }
        for (size_t side = 0; side < 2; side++) {
            part[side] = (struct made){
                .bytes = {LETTERS[rng_below(rng, sizeof LETTERS - 1)]},
                .len = 1};
            if (m.count > 256 && rng_below(rng, 2) == 0) {
                part[side] = m.tokens[256 + rng_below(rng, m.count - 256)];
            }
        }
        add_merge(&m, part);
    }
    buf_add_text(&json, "{\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                        "\"use_regex\":false,\"add_prefix_space\":false},"
                        "\"model\":{\"type\":\"BPE\",\"vocab\":{");
    for (size_t i = 0; i < m.count; i++) {
        buf_add_text(&json, i > 0 ? ",\"" : "\"");
        put_bytes(&json, &m.tokens[i]);
        buf_printf(&json, "\":%zu", i);
    }
    buf_add_text(&json, "},\"merges\":[");
    buf_add_slice(&json, buf_slice(&m.merges));
    buf_add_text(&json, "]}}");
    struct tokenizer *t = tokenizer_new(buf_slice(&json), why);
    if (t == NULL || !t->bpe.folded || t->bpe.gaps.bridges == NULL) {
        (void)printf("random: %s\n", why);
        exit(1);
    }
    buf_fini(&json);
    buf_fini(&m.merges);
    return t;
}

/* One over characters: some of LETTERS, the metaspace, the bytes of all others, and
 * what merges of two earlier ones make. */
static struct tokenizer *
random_character_bpe(struct rng *rng)
{
    static struct made tokens[MADE + sizeof LETTERS];
    struct buf json;
    struct buf merges;
    char why[TOKENIZER_WHY_MAX];
    size_t count = 0;

    buf_init(&json, 1 << 20);
    buf_init(&merges, 1 << 20);
    for (size_t at = 0, len = 0; at < sizeof LETTERS - 1; at += len) {
        struct made *letter = &tokens[count];
        len = utf8_len((uint8_t)LETTERS[at]);
        *letter = (struct made){.len = len};
        memcpy(letter->bytes, &LETTERS[at], len);
        count += !is_made(tokens, count, letter) && rng_below(rng, 8) != 0;
    }
    for (size_t i = 0; i < MADE && count > 0; i++) {
        struct made part[2] = {tokens[rng_below(rng, count)],
                               tokens[rng_below(rng, count)]};
        struct made whole = part[0];
        if (whole.len + part[1].len > MADE_OF) {
            continue;
        }
        memcpy(whole.bytes + whole.len, part[1].bytes, part[1].len);
        whole.len += part[1].len;
        if (is_made(tokens, count, &whole)) {
            continue;
        }
        tokens[count++] = whole;
        buf_printf(&merges, "%s\"%.*s %.*s\"", merges.len > 0 ? "," : "",
                   (int)part[0].len, part[0].bytes, (int)part[1].len,
                   part[1].bytes);
    }
    buf_add_text(&json, "{\"model\":{\"type\":\"BPE\",\"byte_fallback\":true,"
                        "\"fuse_unk\":true,\"unk_token\":\"?\",\"vocab\":{"
                        "\"?\":0,\"\xe2\x96\x81\":1");
    for (unsigned i = 0; i < 256; i++) {
        buf_printf(&json, ",\"<0x%02X>\":%u", i, 2 + i);
    }
    for (size_t i = 0; i < count; i++) {
        buf_printf(&json, ",\"%.*s\":%zu", (int)tokens[i].len, tokens[i].bytes,
                   258 + i);
    }
    buf_add_text(&json, "},\"merges\":[");
    buf_add_slice(&json, buf_slice(&merges));
    buf_add_text(&json, "]}}");
    struct tokenizer *t = tokenizer_new(buf_slice(&json), why);
    if (t == NULL || t->bpe.folded || t->bpe.gaps.bridges == NULL) {
        (void)printf("random, of characters: %s\n", why);
        exit(1);
    }
    buf_fini(&json);
    buf_fini(&merges);
    return t;
}

/* Whole characters; mostly, or all. */
static size_t
random_word(struct rng *rng, char *text, size_t max, bool all)
{
    size_t len = 0;
    size_t wanted = 1 + rng_below(rng, max - 4);

    while (len < wanted) {
        size_t at = rng_below(rng, sizeof LETTERS - 1);
        size_t n = utf8_len((uint8_t)LETTERS[at]);
        bool part = !all && rng_below(rng, 16) == 0;
        if (!part && (LETTERS[at] & 0xC0) == 0x80) {
            continue;
        }
        part = !all && rng_below(rng, 16) == 0;
        n = at + n <= sizeof LETTERS - 1 && !part ? n : 1;
        memcpy(text + len, &LETTERS[at], n);
        len += n;
    }
    return len;
}

#define GAP_WORDS 400 /* of each tokenizer, which takes as long to make */

/* A word has the same ids whether it is parted at gaps or not. */
static void
gaps_change_nothing(struct rng *rng, size_t rounds,
                    struct tokenizer *(*make)(struct rng *rng))
{
    struct tokenizer_ids parted = {.max = 1000};
    struct tokenizer_ids whole = {.max = 1000};
    size_t found = 0;
    size_t characters = 0;

    for (size_t round = 0; round < rounds; round++) {
        struct tokenizer *t = make(rng);
        for (size_t i = 0; i < BPE_CHARS; i++) {
            characters += t->bpe.chars[i] != UINT32_MAX;
        }
        struct tokenizer_scratch *s = tokenizer_scratch_new(t);
        uint64_t *bridges = t->bpe.gaps.bridges;
        for (size_t i = 0; i < GAP_WORDS; i++) {
            char text[200];
            struct slice word = {
                text, random_word(rng, text, sizeof text, !t->bpe.folded)};
            parted.count = whole.count = 0;
            s->fault = TOKENIZER_OK;
            s->ids = &parted;
            bpe_word(s, word);
            found += bpe_gap(&t->bpe, word, 0) < word.len;
            t->bpe.gaps.bridges = NULL;
            s->ids = &whole;
            bpe_word(s, word);
            t->bpe.gaps.bridges = bridges;
            if (s->fault != TOKENIZER_OK || parted.count != whole.count ||
                memcmp(parted.ptr, whole.ptr,
                       whole.count * sizeof whole.ptr[0]) != 0) {
                fail("gaps", word, parted.count, whole.count);
            }
        }
        tokenizer_scratch_free(s);
        tokenizer_free(t);
    }
    if (found < rounds * GAP_WORDS / 10 || characters < rounds / 4) {
        (void)printf("gaps: %zu words have one, %zu characters, too few\n",
                     found, characters);
        exit(1);
    }
    tokenizer_ids_fini(&parted);
    tokenizer_ids_fini(&whole);
}

int
main(int argc, char *argv[])
{
    struct property p = {.tokenizer = small_bpe(),
                         .matcher = tok_matcher_new(),
                         .marking = marking_bpe()};
    char why[TOKENIZER_WHY_MAX] = "";
    struct tok_load load = {.t = p.tokenizer, .why = why};
    unsigned long texts = argc > 1 ? strtoul(argv[1], NULL, 10) : 1000;
    struct rng rng;

    p.scratch = tokenizer_scratch_new(p.marking);
    if (p.scratch == NULL) {
        return 1;
    }
    rng_init(&rng, argc > 2 ? strtoul(argv[2], NULL, 10) : 1);
    for (size_t i = 0; i < 4; i++) {
        p.regexes[i] = tok_regex_new(
            &load, tok_pattern_named(slice_of(names[i])), PATTERN_ONIGURUMA);
        if (p.regexes[i] == NULL) {
            (void)printf("%s: %s\n", names[i], why);
            return 1;
        }
    }
    for (unsigned i = 0; i < TOK_DEEPSEEK_PARTS; i++) {
        p.deepseek[i] = tok_regex_new(&load, tok_deepseek_pattern(i + 1),
                                      PATTERN_ONIGURUMA);
        if (p.deepseek[i] == NULL) {
            (void)printf("deepseek: %s\n", why);
            return 1;
        }
    }
    for (unsigned long i = 0; i < texts; i++) {
        random_text(&p, &rng);
    }
    every_character(&p);
    words_merge_alike(&rng, texts / 40);
    gaps_change_nothing(&rng, 1 + texts / 80, random_bpe);
    gaps_change_nothing(&rng, 1 + texts / 80, random_character_bpe);
    broken_chinese(&rng, 20 * texts);
    (void)printf("%lu texts, all characters\n", texts);
    tok_matcher_free(p.matcher);
    tokenizer_scratch_free(p.scratch);
    tokenizer_free(p.marking);
    tokenizer_free(p.tokenizer);
    return 0;
}
