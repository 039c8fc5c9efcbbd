/* A BPE from its part of a tokenizer.json, or from ranks. */
#include <stdio.h>
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define MERGES_MAX ((size_t)1 << 23)

/* The file's text of a merge, "a b" or ["a", "b"], as two tokens in `room`. */
static bool
merge_tokens(struct slice value, char *room, struct slice pair[2])
{
    struct json_walk walk;
    struct slice part;
    size_t n = 0;

    if (value.ptr[0] == '"') {
        size_t len = json_unescape(
            (struct slice){.ptr = value.ptr + 1, .len = value.len - 2}, room);
        char *space = len != SIZE_MAX ? memchr(room, ' ', len) : NULL;
        if (space == NULL) {
            return false;
        }
        pair[0] = (struct slice){.ptr = room, .len = (size_t)(space - room)};
        pair[1] =
            (struct slice){.ptr = space + 1, .len = len - pair[0].len - 1};
        return memchr(pair[1].ptr, ' ', pair[1].len) == NULL;
    }
    if (!json_walk_open(&walk, value) || walk.object) {
        return false;
    }
    while (json_walk_next(&walk, NULL, NULL, &part)) {
        size_t len = n == 2 || part.ptr[0] != '"'
                         ? SIZE_MAX
                         : json_unescape((struct slice){.ptr = part.ptr + 1,
                                                        .len = part.len - 2},
                                         room);
        if (len == SIZE_MAX) {
            return false;
        }
        pair[n++] = (struct slice){.ptr = room, .len = len};
        room += len;
    }
    return n == 2;
}

/* Adds one merge: both tokens and what they make are in the vocabulary. */
static bool
merge_add(struct tok_load *load, struct slice pair[2], uint32_t rank)
{
    struct tokenizer *t = load->t;
    char whole[2 * TOKENIZER_TOKEN_MAX];
    char shown[TOK_SHOWN + 4];
    size_t skip = t->bpe.prefix.len;
    struct bpe_merge merge = {.rank = rank};

    merge.left = vocab_find(&t->vocab, pair[0]);
    merge.right = vocab_find(&t->vocab, pair[1]);
    if (merge.left == TOK_NONE || merge.right == TOK_NONE ||
        skip > pair[1].len) {
        return tok_fail(load, "merges: %s is not in the vocabulary",
                        tok_show(pair[merge.left != TOK_NONE], shown));
    }
    memcpy(whole, pair[0].ptr, pair[0].len);
    memcpy(whole + pair[0].len, pair[1].ptr + skip, pair[1].len - skip);
    struct slice made = {.ptr = whole, .len = pair[0].len + pair[1].len - skip};
    merge.id = vocab_find(&t->vocab, made);
    if (merge.id == TOK_NONE) {
        return tok_fail(load, "merges: %s is not in the vocabulary",
                        tok_show(made, shown));
    }
    bpe_merge_set(&t->bpe, merge);
    return true;
}

static bool
merges_load(struct tok_load *load, struct slice merges)
{
    struct json_walk walk;
    struct slice value;
    struct slice pair[2];
    size_t count = 0;
    char shown[TOK_SHOWN + 4];
    char room[8 * TOKENIZER_TOKEN_MAX];

    if (!json_walk_open(&walk, merges) || walk.object) {
        return tok_fail(load, "merges is no array");
    }
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        count++;
    }
    if (count > MERGES_MAX) {
        return tok_fail(load, "merges: more than %zu", MERGES_MAX);
    }
    if (!bpe_merges_room(load, count) || !json_walk_open(&walk, merges)) {
        return false;
    }
    uint32_t rank = 0;
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        if (value.len >= 10 && memcmp(value.ptr, "\"#version", 9) == 0) {
            continue;
        }
        if (value.len > sizeof room || !merge_tokens(value, room, pair)) {
            return tok_fail(load, "merges: %s is no pair of tokens",
                            tok_show(value, shown));
        }
        if (!merge_add(load, pair, rank++)) {
            return false;
        }
    }
    return true;
}

/* Looks up <0x00> to <0xFF>. */
static void
find_fallback(const struct vocab *vocab, uint32_t fallback[256])
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char text[8];
        (void)snprintf(text, sizeof text, "<0x%02X>", byte);
        fallback[byte] = vocab_find(vocab, slice_of(text));
    }
}

/* The tokens of single ASCII characters. */
static void
find_ascii(const struct vocab *vocab, struct bpe *bpe)
{
    for (unsigned byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        bpe->byte_id[byte] =
            byte < 128 ? vocab_find(vocab, (struct slice){.ptr = &c, .len = 1})
                       : TOK_NONE;
    }
}

bool
bpe_load(struct tok_load *load, const struct tok_model_parts *parts)
{
    struct slice model = parts->rest;
    struct tokenizer *t = load->t;
    struct bpe *bpe = &t->bpe;
    struct slice value;
    struct slice unk;

    t->model = TOK_BPE;
    if (json_member(model, "dropout", &value) && !json_is_null(value) &&
        !slice_equal(value, SLICE("0.0")) && !slice_equal(value, SLICE("0"))) {
        return tok_fail(load, "model: dropout makes ids random");
    }
    (void)tok_member_text(load, model, "continuing_subword_prefix",
                          &bpe->prefix);
    (void)tok_member_text(load, model, "end_of_word_suffix", &bpe->suffix);
    bpe->fuse_unk = tok_member_bool(load, model, "fuse_unk", false);
    bpe->byte_fallback = tok_member_bool(load, model, "byte_fallback", false);
    bpe->whole_word = tok_member_bool(load, model, "ignore_merges", false);
    if (bpe->prefix.len > 64 || bpe->suffix.len > 64) {
        return tok_fail(load, "model: a prefix or suffix of more than 64");
    }
    if (load->failed || parts->vocab.ptr == NULL ||
        !vocab_load(load, parts->vocab)) {
        return tok_fail(load, "model: no vocab");
    }
    bpe->has_unk = tok_member_text(load, model, "unk_token", &unk);
    bpe->unk = bpe->has_unk ? vocab_find(&t->vocab, unk) : TOK_NONE;
    find_fallback(&t->vocab, bpe->fallback);
    find_ascii(&t->vocab, bpe);
    if (parts->merges.ptr == NULL) {
        return tok_fail(load, "model: no merges");
    }
    return !load->failed && merges_load(load, parts->merges);
}

/* The bytes of a byte-level token, in room; false: it is not one. */
static bool
token_bytes(struct slice token, char *room, size_t *len)
{
    *len = 0;
    for (size_t at = 0; at < token.len;
         at += utf8_len((uint8_t)token.ptr[at])) {
        int byte = byte_level_byte(utf8_read(token.ptr + at));
        if (byte < 0) {
            return false;
        }
        room[(*len)++] = (char)byte;
    }
    return token.len > 0;
}

bool
bpe_fold(struct tok_load *load)
{
    struct tokenizer *t = load->t;
    struct vocab *vocab = &t->vocab;
    uint32_t bytes[256];
    char text[4];

    if (t->bpe.prefix.len > 0 || t->bpe.suffix.len > 0) {
        return true;
    }
    for (unsigned byte = 0; byte < 256; byte++) {
        size_t len = utf8_write(byte_level_char((uint8_t)byte), text);
        bytes[byte] =
            vocab_find(vocab, (struct slice){.ptr = text, .len = len});
        if (bytes[byte] == TOK_NONE) {
            return true; /* some byte has no token: stay with characters */
        }
    }
    struct slice *keys = tok_alloc_many(load, vocab->ids_end, sizeof keys[0]);
    size_t total = 0;
    for (uint32_t id = 0; id < vocab->ids_end; id++) {
        total += vocab->tokens[id].len;
    }
    char *room = keys != NULL ? tok_alloc(load, total + 1) : NULL;
    if (room == NULL) {
        return false;
    }
    for (uint32_t id = 0; id < vocab->ids_end; id++) {
        size_t len = 0;
        if (vocab->tokens[id].ptr != NULL &&
            token_bytes(vocab->tokens[id], room, &len)) {
            keys[id] = (struct slice){.ptr = room, .len = len};
            room += len;
        }
    }
    memcpy(t->bpe.byte_id, bytes, sizeof bytes);
    t->bpe.folded = true;
    return bpe_find_gaps(load, keys) && bpe_find_chars(load) &&
           vocab_index(load, vocab, keys);
}

/* Each way to cut the token in two tokens is a merge of its rank. */
static size_t
rank_merges(struct tokenizer *t, uint32_t id, bool set)
{
    struct slice token = t->vocab.tokens[id];
    size_t count = 0;

    for (size_t cut = 1; token.ptr != NULL && cut < token.len; cut++) {
        struct bpe_merge merge = {.rank = id, .id = id};
        merge.left =
            vocab_find(&t->vocab, (struct slice){.ptr = token.ptr, .len = cut});
        if (merge.left == TOK_NONE) {
            continue;
        }
        merge.right = vocab_find(
            &t->vocab,
            (struct slice){.ptr = token.ptr + cut, .len = token.len - cut});
        if (merge.right != TOK_NONE) {
            count++;
            if (set) {
                bpe_merge_set(&t->bpe, merge);
            }
        }
    }
    return count;
}

bool
bpe_from_ranks(struct tok_load *load)
{
    struct tokenizer *t = load->t;
    size_t count = 0;

    t->model = TOK_BPE;
    t->bpe.whole_word = true;
    t->bpe.folded = true;
    t->bpe.unk = TOK_NONE;
    for (unsigned byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        t->bpe.byte_id[byte] =
            vocab_find(&t->vocab, (struct slice){.ptr = &c, .len = 1});
        if (t->bpe.byte_id[byte] == TOK_NONE) {
            return tok_fail(load, "byte %u has no token", byte);
        }
    }
    for (uint32_t id = 0; id < t->vocab.ids_end; id++) {
        count += rank_merges(t, id, false);
    }
    if (count > MERGES_MAX || !bpe_merges_room(load, count)) {
        return tok_fail(load, "too many merges");
    }
    for (uint32_t id = 0; id < t->vocab.ids_end; id++) {
        (void)rank_merges(t, id, true);
    }
    return bpe_find_gaps(load, t->vocab.tokens) && bpe_find_chars(load);
}

#define METASPACE "\xe2\x96\x81"

/* Notes after which bytes a token has a metaspace. */
static void
note_glued(struct bpe *bpe, struct slice token)
{
    for (size_t at = 1; at + 3 <= token.len; at++) {
        if (memcmp(token.ptr + at, METASPACE, 3) == 0) {
            bpe->glued[(uint8_t)token.ptr[at - 1]] = true;
        }
    }
}

static bool
is_byte_token(struct slice token)
{
    return token.len == 6 && memcmp(token.ptr, "<0x", 3) == 0;
}

/* Whether all characters that are no token become their bytes' tokens. */
static bool
is_never_unknown(const struct bpe *bpe)
{
    bool all = bpe->byte_fallback;

    for (unsigned byte = 0; byte < 256; byte++) {
        all = all && bpe->fallback[byte] != TOK_NONE;
    }
    return all;
}

bool
bpe_find_cuts(struct tok_load *load)
{
    struct tokenizer *t = load->t;
    struct bpe *bpe = &t->bpe;

    if (bpe->folded || bpe->whole_word || bpe->prefix.len > 0 ||
        bpe->suffix.len > 0 ||
        vocab_find(&t->vocab, SLICE(METASPACE)) == TOK_NONE) {
        return true;
    }
    for (uint64_t i = 0; i <= bpe->merges_mask; i++) {
        const struct bpe_merge *merge = &bpe->merges[i];
        if (merge->right == TOK_NONE) {
            continue;
        }
        if (is_byte_token(t->vocab.tokens[merge->left]) ||
            is_byte_token(t->vocab.tokens[merge->right]) ||
            merge->left == bpe->unk || merge->right == bpe->unk) {
            return true; /* then the letters of a token tell nothing */
        }
        note_glued(bpe, t->vocab.tokens[merge->id]);
    }
    bpe->glued[0x81] = true; /* the end of the metaspace itself */
    bpe->cuts = true;
    /* Unknown characters at both sides of a gap might become one token. */
    return !is_never_unknown(bpe) ||
           (bpe_find_gaps(load, t->vocab.tokens) && bpe_find_chars(load));
}
