/*
 * Unigram: of all ways to cut a word into tokens the one with the largest sum
 * of scores, found from the left (Viterbi). A character that no token begins
 * with costs more than the rarest token; such characters in a row become one
 * unknown token, or the tokens of their bytes.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/tokenizer/tokenizer_internal.h"

#define UNKNOWN_PENALTY 10.0

/* A node and its children, which stand in a row in the order of their bytes. */
struct trie_node {
    uint32_t first; /* child */
    uint32_t id;    /* of the token that ends here, TOK_NONE: none */
    uint16_t count; /* children */
    uint8_t byte;
};

/* The best path to a place in the word. */
struct unigram_step {
    double score;
    uint32_t start; /* of its last token; TOK_NONE: no path yet */
    uint32_t id;
    uint32_t end; /* of the token that begins here, on the best path of all */
    uint32_t next_id;
};

/* 10^exponent, 308 at most, rounded to the nearest. */
static double
power_of_ten(int exponent)
{
    static const double small[] = {
        1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
        1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    char text[16];

    if (exponent < (int)(sizeof small / sizeof small[0])) {
        return small[exponent];
    }
    (void)snprintf(text, sizeof text, "1e%d", exponent);
    return strtod(text, NULL);
}

/* An exponent behind "e", or 0; far ones are as good as 9999. */
static int
exponent_read(const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int exponent = 0;

    for (at += at < end && (*at == '-' || *at == '+'); at < end; at++) {
        exponent = exponent > 999 ? 9999 : exponent * 10 + (*at - '0');
    }
    return negative ? -exponent : exponent;
}

/*
 * A number of JSON as the library reads it (serde_json without
 * float_roundtrip): up to 64 bits of digits, the others dropped, and one
 * multiplication or division by a power of ten. That is not always the nearest
 * double, and where two ways to cut a word cost the same, the last bit decides.
 */
static bool
score_read(struct slice text, double *score)
{
    const char *end = text.ptr + text.len;
    const char *at = text.ptr + (text.len > 0 && text.ptr[0] == '-');
    uint64_t digits = 0;
    int exponent = 0;
    bool point = false;
    bool full = false;

    if (at == end || *at < '0' || *at > '9') {
        return false;
    }
    for (; at < end && *at != 'e' && *at != 'E'; at++) {
        unsigned digit = (unsigned)(*at - '0');
        if (*at == '.') {
            point = true;
            continue;
        }
        full = full || digits > (UINT64_MAX - digit) / 10;
        digits = full ? digits : digits * 10 + digit;
        exponent += (full ? 1 : 0) - (point ? 1 : 0);
    }
    if (at < end) {
        exponent += exponent_read(at + 1, end);
    }
    double value = (double)digits;
    for (; exponent < -308 && value > 0; exponent += 308) {
        value /= 1e308;
    }
    if (exponent >= 0) {
        value *= exponent <= 308 ? power_of_ten(exponent) : INFINITY;
    } else if (value > 0) {
        value /= power_of_ten(-exponent);
    }
    *score = text.ptr[0] == '-' ? -value : value;
    return isfinite(value);
}

static bool
entry_load(struct tok_load *load, struct slice value, struct slice *token,
           double *score)
{
    struct json_walk walk;
    struct slice part;
    char shown[TOK_SHOWN + 4];

    if (!json_walk_open(&walk, value) || walk.object ||
        !json_walk_next(&walk, NULL, NULL, &part) ||
        !tok_text(load, part, token) || token->len > TOKENIZER_TOKEN_MAX ||
        !json_walk_next(&walk, NULL, NULL, &part)) {
        return tok_fail(load, "vocab: %s is no token and score",
                        tok_show(value, shown));
    }
    return score_read(part, score) ||
           tok_fail(load, "vocab: %s is no score", tok_show(part, shown));
}

static bool
entries_load(struct tok_load *load, struct slice vocab)
{
    struct tokenizer *t = load->t;
    struct json_walk walk;
    struct slice value;
    uint32_t count = 0;
    double least = 0;

    if (!json_walk_open(&walk, vocab) || walk.object) {
        return tok_fail(load, "model: vocab is no array");
    }
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        count++;
        if (count > TOKENIZER_VOCAB_MAX) {
            return tok_fail(load, "vocab: too many tokens");
        }
    }
    struct slice *tokens = tok_alloc_many(load, count + 1, sizeof tokens[0]);
    t->unigram.scores = tok_alloc_many(load, count + 1, sizeof(double));
    if (tokens == NULL || t->unigram.scores == NULL ||
        !json_walk_open(&walk, vocab)) {
        return false;
    }
    for (uint32_t i = 0; json_walk_next(&walk, NULL, NULL, &value); i++) {
        double *score = &t->unigram.scores[i];
        if (!entry_load(load, value, &tokens[i], score)) {
            return false;
        }
        least = i == 0 || *score < least ? *score : least;
    }
    t->unigram.unk_score = least - UNKNOWN_PENALTY;
    return vocab_make(load, tokens, count);
}

static int
by_token(const void *a, const void *b)
{
    const struct slice *const *left = a;
    const struct slice *const *right = b;
    int order = slice_compare(**left, **right);

    return order != 0 ? order : (*left > *right) - (*left < *right);
}

/* Tokens of a node while the trie is built: sorted[low, high), which agree in
 * their first `depth` bytes. */
struct trie_range {
    uint32_t low, high, depth;
};

/* Gives a node its token and its children; how many nodes there are then. */
static uint32_t
trie_grow(const struct slice *tokens, const struct slice *const *sorted,
          struct trie_node *nodes, struct trie_range *ranges, uint32_t at,
          uint32_t count)
{
    struct trie_range range = ranges[at];
    struct trie_node *node = &nodes[at];

    while (range.low < range.high && sorted[range.low]->len == range.depth) {
        node->id = (uint32_t)(sorted[range.low++] - tokens);
    }
    node->first = count;
    while (range.low < range.high) {
        uint8_t byte = (uint8_t)sorted[range.low]->ptr[range.depth];
        uint32_t high = range.low;
        while (high < range.high &&
               (uint8_t)sorted[high]->ptr[range.depth] == byte) {
            high++;
        }
        nodes[count] = (struct trie_node){.id = TOK_NONE, .byte = byte};
        ranges[count++] = (struct trie_range){range.low, high, range.depth + 1};
        node->count++;
        range.low = high;
    }
    return count;
}

static bool
trie_make(struct tok_load *load)
{
    struct tokenizer *t = load->t;
    struct slice *tokens = t->vocab.tokens;
    size_t most = 1;
    uint32_t filled = 0;

    for (uint32_t id = 0; id < t->vocab.ids_end; id++) {
        most += tokens[id].len;
    }
    const struct slice **sorted =
        malloc((t->vocab.ids_end + 1) * sizeof sorted[0]);
    struct trie_range *ranges = malloc(most * sizeof ranges[0]);
    t->unigram.trie = tok_alloc_many(load, most, sizeof t->unigram.trie[0]);
    bool good = sorted != NULL && ranges != NULL && t->unigram.trie != NULL;
    for (uint32_t id = 0; good && id < t->vocab.ids_end; id++) {
        if (tokens[id].len > 0) {
            sorted[filled++] = &tokens[id];
        }
    }
    if (good) {
        qsort(sorted, filled, sizeof sorted[0], by_token);
        t->unigram.trie[0] = (struct trie_node){.id = TOK_NONE};
        ranges[0] = (struct trie_range){0, filled, 0};
        uint32_t count = 1;
        for (uint32_t at = 0; at < count; at++) {
            count =
                trie_grow(tokens, sorted, t->unigram.trie, ranges, at, count);
        }
    }
    free(sorted);
    free(ranges);
    return good || tok_fail(load, "out of memory");
}

bool
unigram_load(struct tok_load *load, const struct tok_model_parts *parts)
{
    struct tokenizer *t = load->t;
    struct slice model = parts->rest;
    uint64_t unk = 0;

    t->model = TOK_UNIGRAM;
    t->unigram.byte_fallback =
        tok_member_bool(load, model, "byte_fallback", false);
    if (parts->vocab.ptr == NULL || !entries_load(load, parts->vocab)) {
        return tok_fail(load, "model: no vocab");
    }
    unk = tok_member_uint(load, model, "unk_id", TOK_NONE);
    if (unk != TOK_NONE && unk >= t->vocab.ids_end) {
        return tok_fail(load, "model: unk_id is not in the vocabulary");
    }
    t->unigram.unk = (uint32_t)unk;
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        (void)snprintf(text, sizeof text, "<0x%02X>", byte);
        t->unigram.fallback[byte] = vocab_find(&t->vocab, slice_of(text));
    }
    return !load->failed && trie_make(load);
}

static const struct trie_node *
child_of(const struct trie_node *trie, const struct trie_node *node,
         uint8_t byte)
{
    const struct trie_node *low = trie + node->first;
    size_t count = node->count;

    while (count > 0) {
        size_t half = count / 2;
        if (low[half].byte < byte) {
            low += half + 1;
            count -= half + 1;
        } else if (low[half].byte == byte) {
            return &low[half];
        } else {
            count = half;
        }
    }
    return NULL;
}

static void
offer(struct unigram_step *step, double score, size_t start, uint32_t id)
{
    if (step->start == TOK_NONE || score > step->score) {
        step->score = score;
        step->start = (uint32_t)start;
        step->id = id;
    }
}

/* All tokens that begin at `at`. */
static void
step_from(const struct unigram *model, struct unigram_step *steps,
          struct slice word, size_t at)
{
    const struct trie_node *node = model->trie;
    size_t character = utf8_len((uint8_t)word.ptr[at]);
    double before = steps[at].score;
    bool single = false;

    for (size_t i = at; i < word.len; i++) {
        node = child_of(model->trie, node, (uint8_t)word.ptr[i]);
        if (node == NULL) {
            break;
        }
        if (node->id != TOK_NONE) {
            offer(&steps[i + 1], model->scores[node->id] + before, at,
                  node->id);
            single = single || i + 1 - at == character;
        }
    }
    if (!single) {
        offer(&steps[at + character], model->unk_score + before, at,
              model->unk);
    }
}

/* Characters without a token. */
static void
emit_unknown(struct tokenizer_scratch *s, struct slice text)
{
    const struct tokenizer *t = s->tokenizer;
    uint32_t id = vocab_find(&t->vocab, text);
    bool bytes = t->unigram.byte_fallback;

    if (id != TOK_NONE) {
        tok_emit(s, id);
        return;
    }
    for (size_t i = 0; i < text.len && bytes; i++) {
        bytes = t->unigram.fallback[(uint8_t)text.ptr[i]] != TOK_NONE;
    }
    if (!bytes) {
        tok_emit(s, t->unigram.unk);
        return;
    }
    for (size_t i = 0; i < text.len; i++) {
        tok_emit(s, t->unigram.fallback[(uint8_t)text.ptr[i]]);
    }
}

static void
emit_path(struct tokenizer_scratch *s, const struct unigram_step *steps,
          struct slice word)
{
    uint32_t unk = s->tokenizer->unigram.unk;

    for (size_t at = 0; at < word.len;) {
        uint32_t id = steps[at].next_id;
        size_t end = steps[at].end;
        if (id != unk) {
            tok_emit(s, id);
            at = end;
            continue;
        }
        while (end < word.len && steps[end].next_id == unk) {
            end = steps[end].end;
        }
        if (unk == TOK_NONE) {
            tok_fault(s, TOKENIZER_E_UNKNOWN);
            return;
        }
        emit_unknown(s, (struct slice){.ptr = word.ptr + at, .len = end - at});
        at = end;
    }
}

void
unigram_word(struct tokenizer_scratch *s, struct slice word)
{
    const struct unigram *model = &s->tokenizer->unigram;
    size_t bytes = (word.len + 1) * sizeof(struct unigram_step);

    buf_clear(&s->best);
    struct unigram_step *steps = (void *)buf_reserve(&s->best, bytes);
    if (steps == NULL) {
        tok_fault(s, TOKENIZER_E_MEMORY);
        return;
    }
    for (size_t i = 0; i <= word.len; i++) {
        steps[i] = (struct unigram_step){.start = TOK_NONE};
    }
    for (size_t at = 0; at < word.len; at += utf8_len((uint8_t)word.ptr[at])) {
        step_from(model, steps, word, at);
    }
    for (size_t end = word.len; end > 0;) {
        size_t start = steps[end].start;
        steps[start].end = (uint32_t)end;
        steps[start].next_id = steps[end].id;
        end = start;
    }
    emit_path(s, steps, word);
}
