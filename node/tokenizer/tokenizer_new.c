/* Makes tokenizers of files, in the order in which their parts need each
 * other. */
#include <stdlib.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

uint32_t
byte_level_char(uint8_t byte)
{
    if (byte <= 0x20) {
        return 0x100U + byte;
    }
    if (byte >= 0x7f && byte <= 0xa0) {
        return 0x121U + (byte - 0x7fU);
    }
    return byte == 0xad ? 0x143 : byte;
}

int
byte_level_byte(uint32_t c)
{
    if (c >= 0x100 && c <= 0x120) {
        return (int)(c - 0x100);
    }
    if (c >= 0x121 && c <= 0x142) {
        return (int)(c - 0x121 + 0x7f);
    }
    if (c == 0x143) {
        return 0xad;
    }
    return c < 256 && byte_level_char((uint8_t)c) == c ? (int)c : -1;
}

/* A long word of characters, cut before metaspaces. */
static void
cut_word(struct tokenizer_scratch *s, struct slice word)
{
    const struct bpe *bpe = &s->tokenizer->bpe;
    size_t taken = 0;

    for (size_t at = 1; at < word.len && s->fault == TOKENIZER_OK; at++) {
        const char *found = memchr(word.ptr + at, (char)0xe2, word.len - at);
        if (found == NULL) {
            break;
        }
        at = (size_t)(found - word.ptr);
        if (word.len - at >= 3 && memcmp(found, "\xe2\x96\x81", 3) == 0 &&
            !bpe->glued[(uint8_t)found[-1]]) {
            cache_word(
                s, (struct slice){.ptr = word.ptr + taken, .len = at - taken});
            taken = at;
        }
    }
    if (s->fault == TOKENIZER_OK) {
        cache_word(s, (struct slice){.ptr = word.ptr + taken,
                                     .len = word.len - taken});
    }
}

void
model_word(struct tokenizer_scratch *s, struct slice word)
{
    switch (s->tokenizer->model) {
    case TOK_BPE:
        if (s->tokenizer->bpe.cuts) {
            cut_word(s, word);
        } else {
            cache_word(s, word);
        }
        break;
    case TOK_UNIGRAM:
        unigram_word(s, word);
        break;
    case TOK_WORDPIECE:
    case TOK_WORDLEVEL:
        wordpiece_word(s, word);
        break;
    }
}

static bool
model_load(struct tok_load *load, struct slice model)
{
    struct tok_model_parts parts;
    struct slice type = {.ptr = NULL};
    struct slice value;
    char shown[TOK_SHOWN + 4];

    if (!tok_model_parts(load, model, &parts)) {
        return false;
    }
    if (!json_member(parts.rest, "type", &type)) { /* files of old */
        type = parts.merges.ptr != NULL ? SLICE("\"BPE\"")
               : json_member(parts.rest, "max_input_chars_per_word", &value)
                   ? SLICE("\"WordPiece\"")
               : parts.vocab.ptr != NULL && parts.vocab.ptr[0] == '['
                   ? SLICE("\"Unigram\"")
                   : SLICE("without a type");
    }
    if (slice_equal(type, SLICE("\"BPE\""))) {
        return bpe_load(load, &parts);
    }
    if (slice_equal(type, SLICE("\"Unigram\""))) {
        return unigram_load(load, &parts);
    }
    load->t->model = slice_equal(type, SLICE("\"WordLevel\"")) ? TOK_WORDLEVEL
                                                               : TOK_WORDPIECE;
    if (load->t->model == TOK_WORDLEVEL ||
        slice_equal(type, SLICE("\"WordPiece\""))) {
        return wordpiece_load(load, &parts);
    }
    return tok_fail(load, "model: %s is not understood", tok_show(type, shown));
}

/* Whether byte-level characters are seen by the model alone. */
static bool
byte_level_is_last(const struct tokenizer *t)
{
    size_t stages = 0;

    for (size_t i = 0; i < t->pres_count; i++) {
        stages += t->pres[i].kind == PRE_BYTE_LEVEL;
    }
    return stages == 1 && t->pres[t->pres_count - 1].kind == PRE_BYTE_LEVEL;
}

struct parts {
    struct slice model, added, normalizer, pre, post, decoder, truncation;
};

/* The rest of the file, which json_walk_next() took for its end, is none. */
static bool
parts_check(struct tok_load *load, struct json_pull *pull, struct slice model,
            struct slice version)
{
    enum pull_token token = PULL_OBJECT;

    while (token > PULL_END) {
        token = json_pull_next(pull);
    }
    if (token == PULL_BAD) {
        return tok_fail(load, "no JSON: %s at byte %zu", pull->fault, pull->at);
    }
    if (!slice_equal(version, SLICE("\"1.0\""))) {
        return tok_fail(load, "a version other than 1.0");
    }
    return model.ptr[0] == '{' || tok_fail(load, "no model");
}

static bool
parts_find(struct tok_load *load, struct slice json, struct parts *parts)
{
    struct slice version = SLICE("\"1.0\"");
    const char *const names[] = {
        "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
        "decoder",      "truncation", "model",         "version"};
    struct slice *const places[] = {
        &parts->added,   &parts->normalizer, &parts->pre,   &parts->post,
        &parts->decoder, &parts->truncation, &parts->model, &version};
    struct slice key = SLICE("");
    struct slice value;
    struct json_walk walk;

    for (size_t i = 0; i < 7; i++) {
        *places[i] = SLICE("null");
    }
    bool open = json_walk_open(&walk, json) && walk.object;
    while (open && json_walk_next(&walk, &key, NULL, &value)) {
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            if (slice_equal(key, slice_of(names[i]))) {
                *places[i] = value;
            }
        }
    }
    return parts_check(load, &walk.pull, parts->model, version);
}

/* What files of both kinds need in the end. The classes take longest of what
 * does not depend on the file, so a file that is refused does not wait. */
static bool
finish(struct tok_load *load)
{
    load->t->classes = tok_classes_new(load);
    return load->t->classes != NULL && added_finish(load) &&
           decode_finish(load);
}

static bool
load_json(struct tok_load *load, struct slice json)
{
    struct tokenizer *t = load->t;
    struct parts parts;

    if (!parts_find(load, json, &parts) || !model_load(load, parts.model) ||
        (!json_is_null(parts.added) && !added_load(load, parts.added)) ||
        !norm_load(load, parts.normalizer) || !pre_load(load, parts.pre)) {
        return false;
    }
    if (t->model == TOK_BPE &&
        ((byte_level_is_last(t) && !bpe_fold(load)) || !bpe_find_cuts(load))) {
        return false;
    }
    return post_load(load, parts.post, parts.truncation) &&
           decode_load(load, parts.decoder) && finish(load);
}

static struct tokenizer *
begin(struct tok_load *load, struct slice file, char *why)
{
    struct tokenizer *t = calloc(1, sizeof *t);

    *load = (struct tok_load){.t = t, .why = why};
    why[0] = '\0';
    if (t == NULL) {
        (void)tok_fail(load, "out of memory");
    } else if (file.len > TOKENIZER_FILE_MAX) {
        (void)tok_fail(load, "a file of more than %zu bytes",
                       TOKENIZER_FILE_MAX);
    } else {
        t->post.truncate = SIZE_MAX;
    }
    return t;
}

struct tokenizer *
tokenizer_new(struct slice json, char *why)
{
    struct tok_load load;
    struct tokenizer *t = begin(&load, json, why);

    if (load.failed || !load_json(&load, json)) {
        (void)tok_fail(&load, "not understood");
        tokenizer_free(t);
        return NULL;
    }
    return t;
}

/* One line of a .tiktoken file. */
static bool
rank_line(struct tok_load *load, struct slice line, struct slice *token,
          uint64_t *rank)
{
    struct slice base64 = slice_take(&line, ' ');
    char *bytes = tok_alloc(load, base64.len + 1);
    size_t len = bytes != NULL ? tok_base64(base64, bytes) : SIZE_MAX;

    *token = (struct slice){.ptr = bytes, .len = len};
    return len > 0 && len <= TOKENIZER_TOKEN_MAX &&
           tok_uint(line, TOKENIZER_VOCAB_MAX - 1, rank);
}

static bool
ranks_load(struct tok_load *load, struct slice ranks)
{
    struct slice *tokens =
        tok_alloc_many(load, TOKENIZER_VOCAB_MAX, sizeof tokens[0]);
    uint32_t ids_end = 0;
    size_t lines = 0;

    while (tokens != NULL && ranks.len > 0) {
        struct slice line = slice_take_line(&ranks);
        struct slice token;
        uint64_t rank = 0;
        lines++;
        if (line.len == 0) {
            continue;
        }
        if (!rank_line(load, line, &token, &rank)) {
            return tok_fail(load, "line %zu is no token and rank", lines);
        }
        if (tokens[rank].ptr != NULL) { /* a number that was cut off, say */
            return tok_fail(load, "line %zu: an earlier line has its rank",
                            lines);
        }
        tokens[rank] = token;
        ids_end = rank >= ids_end ? (uint32_t)rank + 1 : ids_end;
    }
    return tokens != NULL && vocab_make(load, tokens, ids_end) &&
           bpe_from_ranks(load);
}

static bool
load_tiktoken(struct tok_load *load, struct slice ranks, struct slice pattern,
              const struct tokenizer_special *specials, size_t count)
{
    struct tokenizer *t = load->t;
    struct slice named = tok_pattern_named(pattern);

    if (named.ptr == NULL) {
        named = pattern;
    }
    t->pres[0] =
        (struct pre_stage){.kind = PRE_SPLIT_REGEX,
                           .split = TOK_SPLIT_REMOVED,
                           .invert = true, /* only matches are words */
                           .regex = tok_regex_new(load, named, PATTERN_FANCY)};
    t->pres_count = 1;
    t->added.tokens =
        tok_alloc_many(load, count + 1, sizeof t->added.tokens[0]);
    if (load->failed || !ranks_load(load, ranks)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        struct slice text = tok_copy(load, specials[i].text);
        if (text.len > TOKENIZER_TOKEN_MAX ||
            specials[i].id >= TOKENIZER_VOCAB_MAX) {
            return tok_fail(load, "a special token is too long or too large");
        }
        t->added.tokens[t->added.count++] =
            (struct added_token){.text = text,
                                 .matched = text,
                                 .id = specials[i].id,
                                 .special = true};
    }
    t->decodes[0] = (struct decode_stage){.kind = DECODE_RAW};
    t->decodes_count = 1;
    return !load->failed && finish(load);
}

struct tokenizer *
tokenizer_new_tiktoken(struct slice ranks, struct slice pattern,
                       const struct tokenizer_special *specials,
                       size_t specials_count, char *why)
{
    struct tok_load load;
    struct tokenizer *t = begin(&load, ranks, why);

    if (load.failed ||
        !load_tiktoken(&load, ranks, pattern, specials, specials_count)) {
        (void)tok_fail(&load, "not understood");
        tokenizer_free(t);
        return NULL;
    }
    return t;
}

void
tokenizer_free(struct tokenizer *tokenizer)
{
    if (tokenizer != NULL) {
        tok_regexes_free(tokenizer->regexes);
        tok_memory_free(&tokenizer->memory);
        free(tokenizer);
    }
}

size_t
tokenizer_bytes(const struct tokenizer *tokenizer)
{
    return tokenizer->memory.bytes + sizeof *tokenizer;
}
