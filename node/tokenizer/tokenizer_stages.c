/* Normalisers and pre-tokenizers from their parts of a tokenizer.json. */

#include "node/tokenizer/tokenizer_internal.h"

#define DEPTH_MAX 8

/* The type of an object, between its quotes. */
static struct slice
type_of(struct slice object)
{
    struct slice type;

    if (!json_member(object, "type", &type) || type.len < 2 ||
        type.ptr[0] != '"') {
        return (struct slice){.ptr = NULL};
    }
    return (struct slice){.ptr = type.ptr + 1, .len = type.len - 2};
}

/* {"String": ..} or {"Regex": ..}: sets *find or *regex. */
static bool
pattern_load(struct tok_load *load, struct slice object, struct slice *find,
             struct tok_regex **regex)
{
    struct slice value;
    struct slice text = {.ptr = NULL};

    if (!json_member(object, "pattern", &value)) {
        return tok_fail(load, "a stage without a pattern");
    }
    if (tok_member_text(load, value, "Regex", &text)) {
        *regex = tok_regex_new(load, text, PATTERN_ONIGURUMA);
        return *regex != NULL;
    }
    if (!tok_member_text(load, value, "String", find) || find->len == 0) {
        return tok_fail(load, "a pattern that is neither text nor regex");
    }
    return true;
}

static bool
sequence_load(struct tok_load *load, struct slice object, const char *name,
              unsigned depth,
              bool (*one)(struct tok_load *load, struct slice object,
                          unsigned depth))
{
    struct json_walk walk;
    struct slice value;

    if (depth == DEPTH_MAX || !json_member(object, name, &value) ||
        !json_walk_open(&walk, value) || walk.object) {
        return tok_fail(load, "a sequence without %s", name);
    }
    while (json_walk_next(&walk, NULL, NULL, &value)) {
        if (!one(load, value, depth + 1)) {
            return false;
        }
    }
    return true;
}

/* Normalisers without a member of their own. */
static bool
norm_plain(struct slice type, enum norm_kind *kind)
{
    static const struct {
        const char *name;
        enum norm_kind kind;
    } plain[] = {
        {"NFC", NORM_NFC},
        {"NFD", NORM_NFD},
        {"NFKC", NORM_NFKC},
        {"NFKD", NORM_NFKD},
        {"Lowercase", NORM_LOWERCASE},
        {"StripAccents", NORM_STRIP_ACCENTS},
        {"Nmt", NORM_NMT},
        {"ByteLevel", NORM_BYTE_LEVEL},
    };

    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++) {
        if (slice_equal(type, slice_of(plain[i].name))) {
            *kind = plain[i].kind;
            return true;
        }
    }
    return false;
}

static bool
norm_members(struct tok_load *load, struct slice object, struct slice type,
             struct norm_stage *stage)
{
    struct slice value = {.ptr = NULL};
    char shown[TOK_SHOWN + 4];

    if (slice_equal(type, SLICE("Prepend"))) {
        stage->kind = NORM_PREPEND;
        return tok_member_text(load, object, "prepend", &stage->text) ||
               tok_fail(load, "normalizer: Prepend without text");
    }
    if (slice_equal(type, SLICE("Replace"))) {
        stage->kind = NORM_REPLACE;
        return pattern_load(load, object, &stage->find, &stage->regex) &&
               (tok_member_text(load, object, "content", &stage->text) ||
                tok_fail(load, "normalizer: Replace without content"));
    }
    if (slice_equal(type, SLICE("Strip"))) {
        stage->kind = NORM_STRIP;
        stage->left = tok_member_bool(load, object, "strip_left", true);
        stage->right = tok_member_bool(load, object, "strip_right", true);
        return !load->failed;
    }
    if (slice_equal(type, SLICE("BertNormalizer"))) {
        stage->kind = NORM_BERT;
        stage->clean = tok_member_bool(load, object, "clean_text", true);
        stage->chinese =
            tok_member_bool(load, object, "handle_chinese_chars", true);
        stage->lowercase = tok_member_bool(load, object, "lowercase", true);
        stage->accents =
            tok_member_bool(load, object, "strip_accents", stage->lowercase);
        return !load->failed;
    }
    if (slice_equal(type, SLICE("Precompiled"))) {
        stage->kind = NORM_CHARSMAP;
        return (tok_member_text(load, object, "precompiled_charsmap", &value) ||
                tok_fail(load, "normalizer: Precompiled without its map")) &&
               norm_charsmap_load(load, value, stage);
    }
    return tok_fail(load, "normalizer: %s is not understood",
                    tok_show(type, shown));
}

static bool
norm_one(struct tok_load *load, struct slice object, unsigned depth)
{
    struct tokenizer *t = load->t;
    struct slice type = type_of(object);
    struct norm_stage stage = {.kind = NORM_NFC};

    if (slice_equal(type, SLICE("Sequence"))) {
        return sequence_load(load, object, "normalizers", depth, norm_one);
    }
    if (t->norms_count == TOK_STAGES_MAX) {
        return tok_fail(load, "normalizer: too many stages");
    }
    if (!norm_plain(type, &stage.kind) &&
        !norm_members(load, object, type, &stage)) {
        return false;
    }
    t->norms[t->norms_count++] = stage;
    return true;
}

bool
norm_load(struct tok_load *load, struct slice normalizer)
{
    return json_is_null(normalizer) || norm_one(load, normalizer, 0);
}

static bool
behavior_load(struct tok_load *load, struct slice object, bool needed,
              enum tok_split *split)
{
    static const char *const names[] = {
        [TOK_SPLIT_REMOVED] = "Removed",
        [TOK_SPLIT_ISOLATED] = "Isolated",
        [TOK_SPLIT_WITH_PREVIOUS] = "MergedWithPrevious",
        [TOK_SPLIT_WITH_NEXT] = "MergedWithNext",
        [TOK_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    struct slice text;

    *split = TOK_SPLIT_ISOLATED;
    if (!tok_member_text(load, object, "behavior", &text)) {
        return !needed || tok_fail(load, "pre_tokenizer: no behavior");
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (slice_equal(text, slice_of(names[i]))) {
            *split = (enum tok_split)i;
            return true;
        }
    }
    return tok_fail(load, "pre_tokenizer: a behavior is not understood");
}

static bool
metaspace_load(struct tok_load *load, struct slice object,
               struct pre_stage *stage)
{
    struct slice text = SLICE("always");

    stage->kind = PRE_METASPACE;
    stage->split = TOK_SPLIT_WITH_NEXT;
    if (!tok_member_text(load, object, "replacement", &stage->text) ||
        stage->text.len == 0 ||
        stage->text.len != utf8_len((uint8_t)stage->text.ptr[0])) {
        return tok_fail(load, "pre_tokenizer: Metaspace without a character");
    }
    struct slice given = {.ptr = NULL};
    if (tok_member_text(load, object, "prepend_scheme", &given)) {
        text = given;
    }
    stage->prepend = slice_equal(text, SLICE("first"))   ? METASPACE_FIRST
                     : slice_equal(text, SLICE("never")) ? METASPACE_NEVER
                                                         : METASPACE_ALWAYS;
    if (stage->prepend == METASPACE_ALWAYS &&
        !slice_equal(text, SLICE("always"))) {
        return tok_fail(load, "pre_tokenizer: prepend_scheme is not "
                              "understood");
    }
    if (!tok_member_bool(load, object, "add_prefix_space", true)) {
        if (given.ptr != NULL && stage->prepend != METASPACE_NEVER) {
            return tok_fail(load, "pre_tokenizer: add_prefix_space does not "
                                  "match prepend_scheme");
        }
        if (given.ptr == NULL) {
            return tok_fail(load, "pre_tokenizer: add_prefix_space without "
                                  "prepend_scheme");
        }
    }
    stage->pieces = tok_member_bool(load, object, "split", true);
    return !load->failed;
}

static bool
pre_members(struct tok_load *load, struct slice object, struct slice type,
            struct pre_stage *stage)
{
    char shown[TOK_SHOWN + 4];

    if (slice_equal(type, SLICE("ByteLevel"))) {
        stage->kind = PRE_BYTE_LEVEL;
        stage->split = TOK_SPLIT_ISOLATED;
        stage->prefix_space =
            tok_member_bool(load, object, "add_prefix_space", true);
        stage->words = tok_member_bool(load, object, "use_regex", true);
        return !load->failed;
    }
    if (slice_equal(type, SLICE("Split"))) {
        stage->invert = tok_member_bool(load, object, "invert", false);
        if (!pattern_load(load, object, &stage->text, &stage->regex) ||
            !behavior_load(load, object, true, &stage->split)) {
            return false;
        }
        stage->kind = stage->regex != NULL ? PRE_SPLIT_REGEX : PRE_SPLIT_TEXT;
        return true;
    }
    if (slice_equal(type, SLICE("Metaspace"))) {
        return metaspace_load(load, object, stage);
    }
    if (slice_equal(type, SLICE("Digits"))) {
        stage->kind = PRE_DIGITS;
        stage->split = tok_member_bool(load, object, "individual_digits", false)
                           ? TOK_SPLIT_ISOLATED
                           : TOK_SPLIT_CONTIGUOUS;
        return !load->failed;
    }
    if (slice_equal(type, SLICE("Punctuation"))) {
        stage->kind = PRE_PUNCTUATION;
        return behavior_load(load, object, false, &stage->split);
    }
    if (slice_equal(type, SLICE("FixedLength"))) {
        stage->kind = PRE_FIXED_LENGTH;
        stage->length = tok_member_uint(load, object, "length", 5);
        return stage->length > 0 ||
               tok_fail(load, "pre_tokenizer: a length of 0");
    }
    return tok_fail(load, "pre_tokenizer: %s is not understood",
                    tok_show(type, shown));
}

static bool
pre_one(struct tok_load *load, struct slice object, unsigned depth)
{
    struct tokenizer *t = load->t;
    struct slice type = type_of(object);
    struct pre_stage stage = {.kind = PRE_WHITESPACE};

    if (slice_equal(type, SLICE("Sequence"))) {
        return sequence_load(load, object, "pretokenizers", depth, pre_one);
    }
    if (t->pres_count == TOK_STAGES_MAX) {
        return tok_fail(load, "pre_tokenizer: too many stages");
    }
    if (slice_equal(type, SLICE("WhitespaceSplit"))) {
        stage.kind = PRE_WHITESPACE_SPLIT;
        stage.split = TOK_SPLIT_REMOVED;
    } else if (slice_equal(type, SLICE("BertPreTokenizer"))) {
        stage.kind = PRE_BERT;
    } else if (!slice_equal(type, SLICE("Whitespace")) &&
               !pre_members(load, object, type, &stage)) {
        return false;
    }
    t->pres[t->pres_count++] = stage;
    return true;
}

bool
pre_load(struct tok_load *load, struct slice pre_tokenizer)
{
    return json_is_null(pre_tokenizer) || pre_one(load, pre_tokenizer, 0);
}
