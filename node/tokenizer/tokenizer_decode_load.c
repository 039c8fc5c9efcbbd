/* The decoder's part of a tokenizer.json, and the tokens by id. */
#include <string.h>

#include "node/tokenizer/tokenizer_internal.h"

#define DEPTH_MAX 8

static bool
replace_load(struct tok_load *load, struct slice object,
             struct decode_stage *stage)
{
    struct slice pattern;
    struct slice text;

    stage->kind = DECODE_REPLACE;
    if (!json_member(object, "pattern", &pattern) ||
        !tok_member_text(load, object, "content", &stage->text)) {
        return tok_fail(load, "decoder: Replace without a pattern");
    }
    if (tok_member_text(load, pattern, "Regex", &text)) {
        stage->regex = tok_regex_new(load, text, PATTERN_ONIGURUMA);
        return stage->regex != NULL;
    }
    return (tok_member_text(load, pattern, "String", &stage->find) &&
            stage->find.len > 0) ||
           tok_fail(load, "decoder: Replace without a pattern");
}

static bool
one_load(struct tok_load *load, struct slice object, struct slice type,
         struct decode_stage *stage)
{
    char shown[TOK_SHOWN + 4];
    struct slice text = {.ptr = NULL};

    if (slice_equal(type, SLICE("ByteLevel"))) {
        stage->kind = DECODE_BYTE_LEVEL;
        return true;
    }
    if (slice_equal(type, SLICE("ByteFallback"))) {
        stage->kind = DECODE_BYTE_FALLBACK;
        return true;
    }
    if (slice_equal(type, SLICE("Fuse"))) {
        stage->kind = DECODE_FUSE;
        return true;
    }
    if (slice_equal(type, SLICE("Replace"))) {
        return replace_load(load, object, stage);
    }
    if (slice_equal(type, SLICE("Strip"))) {
        stage->kind = DECODE_STRIP;
        stage->start = tok_member_uint(load, object, "start", 0);
        stage->stop = tok_member_uint(load, object, "stop", 0);
        return (tok_member_text(load, object, "content", &stage->text) &&
                stage->text.len > 0) ||
               tok_fail(load, "decoder: Strip without content");
    }
    if (slice_equal(type, SLICE("Metaspace"))) {
        stage->kind = DECODE_METASPACE;
        (void)tok_member_text(load, object, "prepend_scheme", &text);
        stage->keep_first =
            slice_equal(text, SLICE("never")) ||
            !tok_member_bool(load, object, "add_prefix_space", true);
        return tok_member_text(load, object, "replacement", &stage->text) ||
               tok_fail(load, "decoder: Metaspace without a character");
    }
    if (slice_equal(type, SLICE("WordPiece"))) {
        stage->kind = DECODE_WORDPIECE;
        stage->cleanup = tok_member_bool(load, object, "cleanup", true);
        return tok_member_text(load, object, "prefix", &stage->find) ||
               tok_fail(load, "decoder: WordPiece without a prefix");
    }
    if (slice_equal(type, SLICE("BPEDecoder"))) {
        stage->kind = DECODE_BPE;
        return (tok_member_text(load, object, "suffix", &stage->find) &&
                stage->find.len > 0) ||
               tok_fail(load, "decoder: BPEDecoder without a suffix");
    }
    return tok_fail(load, "decoder: %s is not understood",
                    tok_show(type, shown));
}

static bool
stages_load(struct tok_load *load, struct slice object, unsigned depth)
{
    struct tokenizer *t = load->t;
    struct slice type = {.ptr = NULL};
    struct slice value;
    struct json_walk walk;
    struct decode_stage stage = {.kind = DECODE_FUSE};

    if (!tok_member_text(load, object, "type", &type)) {
        return tok_fail(load, "decoder: no type");
    }
    if (slice_equal(type, SLICE("Sequence"))) {
        if (depth == DEPTH_MAX || !json_member(object, "decoders", &value) ||
            !json_walk_open(&walk, value) || walk.object) {
            return tok_fail(load, "decoder: a sequence without decoders");
        }
        while (json_walk_next(&walk, NULL, NULL, &value)) {
            if (!stages_load(load, value, depth + 1)) {
                return false;
            }
        }
        return true;
    }
    if (t->decodes_count == TOK_STAGES_MAX) {
        return tok_fail(load, "decoder: too many stages");
    }
    if (!one_load(load, object, type, &stage)) {
        return false;
    }
    t->decodes[t->decodes_count++] = stage;
    return !load->failed;
}

bool
decode_load(struct tok_load *load, struct slice decoder)
{
    load->t->decode_joins = json_is_null(decoder);
    return load->t->decode_joins || stages_load(load, decoder, 0);
}

bool
decode_finish(struct tok_load *load)
{
    struct tokenizer *t = load->t;

    t->ids_end = t->vocab.ids_end;
    for (uint32_t i = 0; i < t->added.count; i++) {
        uint32_t id = t->added.tokens[i].id;
        t->ids_end = id >= t->ids_end ? id + 1 : t->ids_end;
    }
    t->shown = tok_alloc_many(load, t->ids_end + 1, sizeof t->shown[0]);
    t->special = tok_alloc_many(load, t->ids_end + 1, sizeof t->special[0]);
    if (t->shown == NULL || t->special == NULL) {
        return false;
    }
    if (t->vocab.ids_end > 0) {
        memcpy(t->shown, t->vocab.tokens,
               t->vocab.ids_end * sizeof t->shown[0]);
    }
    for (uint32_t i = 0; i < t->added.count; i++) {
        const struct added_token *token = &t->added.tokens[i];
        t->shown[token->id] = token->matched;
        t->special[token->id] =
            token->special && slice_equal(token->matched, token->text);
    }
    return true;
}
