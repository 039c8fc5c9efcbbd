/* Tokenizers as files have them, against ids that the library gave. */
#include <criterion/criterion.h>

#include "node/tokenizer/tokenizer.h"
#include "tests/unit/node/tokenizer/tokenizer_vectors.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

struct rig {
    struct tokenizer *tokenizer;
    struct tokenizer_scratch *scratch;
    struct tokenizer_ids ids;
};

static struct rig
rig_of(struct slice json)
{
    char why[TOKENIZER_WHY_MAX];
    struct rig rig = {.ids = {.max = 100000}};

    rig.tokenizer = tokenizer_new(json, why);
    cr_assert_not_null(rig.tokenizer, "%s", why);
    rig.scratch = tokenizer_scratch_new(rig.tokenizer);
    cr_assert_not_null(rig.scratch);
    return rig;
}

static void
rig_fini(struct rig *rig)
{
    tokenizer_ids_fini(&rig->ids);
    tokenizer_scratch_free(rig->scratch);
    tokenizer_free(rig->tokenizer);
}

/* The ids in decimal, with a space between. */
static struct buf
shown(const struct tokenizer_ids *ids)
{
    struct buf out;

    buf_init(&out, 1 << 20);
    for (size_t i = 0; i < ids->count; i++) {
        buf_printf(&out, "%s%u", i > 0 ? " " : "", ids->ptr[i]);
    }
    return out;
}

static void
expect(struct rig *rig, struct slice text, unsigned flags, struct slice ids)
{
    rig->ids.count = 0;
    cr_assert_eq(tokenizer_encode(rig->scratch, text, flags, &rig->ids),
                 TOKENIZER_OK);
    struct buf out = shown(&rig->ids);
    cr_assert(slice_equal(buf_slice(&out), ids), "%.*s: %.*s and not %.*s",
              (int)text.len, text.ptr, (int)out.len, out.ptr, (int)ids.len,
              ids.ptr);
    buf_fini(&out);
}

/* Every text twice: the second time its words come from the cache. */
static void
expect_all(struct slice json, const struct vector *vectors, size_t count)
{
    struct rig rig = rig_of(json);
    struct buf out;

    buf_init(&out, 1 << 20);
    for (size_t i = 0; i < 2 * count; i++) {
        const struct vector *vector = &vectors[i % count];
        expect(&rig, vector->text, 0, vector->bare);
        expect(&rig, vector->text, TOKENIZER_SPECIAL, vector->ids);
        buf_clear(&out);
        cr_assert(tokenizer_decode(rig.tokenizer, rig.ids.ptr, rig.ids.count,
                                   true, &out));
        cr_assert(slice_equal(buf_slice(&out), vector->decoded), "decoded %.*s",
                  (int)out.len, out.ptr);
    }
    buf_fini(&out);
    rig_fini(&rig);
}

Test(tokenizer, byte_level_pieces_are_the_librarys)
{
    expect_all(SLICE(byte_level_json), byte_level_vectors,
               COUNT(byte_level_vectors));
}

Test(tokenizer, byte_fallback_pieces_are_the_librarys)
{
    expect_all(SLICE(byte_fallback_json), byte_fallback_vectors,
               COUNT(byte_fallback_vectors));
}

Test(tokenizer, unigram_pieces_are_the_librarys)
{
    expect_all(SLICE(unigram_json), unigram_vectors, COUNT(unigram_vectors));
}

Test(tokenizer, scores_and_starts_are_read_as_the_library_does)
{
    expect_all(SLICE(unigram_ties_json), unigram_ties_vectors,
               COUNT(unigram_ties_vectors));
}

Test(tokenizer, wordpieces_are_the_librarys)
{
    expect_all(SLICE(wordpiece_json), wordpiece_vectors,
               COUNT(wordpiece_vectors));
}

Test(tokenizer, broken_utf8_is_replaced_before_anything_else)
{
    struct rig rig = rig_of(SLICE(byte_level_json));

    /* One U+FFFD (ids of its bytes) for each longest start of a character. */
    expect(&rig, SLICE("\xff"), 0, SLICE("239 191 189"));
    expect(&rig, SLICE("a\xe2\x82"), 0, SLICE("97 239 191 189"));
    expect(&rig, SLICE("\xed\xa0\x80"), 0,
           SLICE("239 191 189 239 191 189 239 191 189"));
    rig_fini(&rig);
}

Test(tokenizer, a_text_cut_after_a_special_token_keeps_its_ids)
{
    struct rig rig = rig_of(SLICE(byte_level_json));
    struct slice text = SLICE("hello<|end|> hello<|end|>x one<l>");

    cr_assert_eq(tokenizer_cut(rig.tokenizer, text, 5), 0);
    cr_assert_eq(tokenizer_cut(rig.tokenizer, text, 12), 12);
    cr_assert_eq(tokenizer_cut(rig.tokenizer, text, 18), 12);
    cr_assert_eq(tokenizer_cut(rig.tokenizer, text, 25), 12,
                 "a longer token begins where the limit cuts one off");
    rig_fini(&rig);
}

Test(tokenizer, more_ids_than_the_caller_takes_are_an_outcome)
{
    struct rig rig = rig_of(SLICE(byte_level_json));

    rig.ids.max = 3;
    cr_assert_eq(tokenizer_encode(rig.scratch, SLICE("zyxw"), 0, &rig.ids),
                 TOKENIZER_E_ROOM);
    rig_fini(&rig);
}

/* Files that are not understood, and a word of what is told. */
Test(tokenizer, what_is_not_understood_is_named)
{
    static const char *const cases[][2] = {
        {"", "no JSON"},
        {"[1]", "no model"},
        {"{\"model\":{\"type\":\"RNN\"}}", "RNN"},
        {"{\"model\":{\"type\":\"BPE\",\"dropout\":0.1}}", "dropout"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a "
         "b\"]}}",
         "merges"},
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":99999999}}}", "vocab"},
        {"{\"normalizer\":{\"type\":\"Rot13\"},\"model\":{\"type\":\"BPE\","
         "\"vocab\":{\"a\":0},\"merges\":[]}}",
         "Rot13"},
        {"{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
         "\"(?<n>a)\"},\"behavior\":\"Isolated\",\"invert\":false},\"model\":{"
         "\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}",
         "(?<n>a)"},
        {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\"]]}}", "score"},
        {"{\"decoder\":{\"type\":\"CTC\"},\"model\":{\"type\":\"BPE\","
         "\"vocab\":{\"a\":0},\"merges\":[]}}",
         "CTC"},
    };
    char why[TOKENIZER_WHY_MAX];

    for (size_t i = 0; i < COUNT(cases); i++) {
        cr_assert_null(tokenizer_new(slice_of(cases[i][0]), why));
        cr_assert_not_null(strstr(why, cases[i][1]), "%s", why);
    }
}

/* All bytes and two merges, as tiktoken writes them. */
static struct buf
ranks(void)
{
    static const char sextets[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct buf out;

    buf_init(&out, 1 << 16);
    for (unsigned byte = 0; byte < 256; byte++) {
        buf_printf(&out, "%c%c== %u\n", sextets[byte >> 2],
                   sextets[(byte & 3) << 4], byte);
    }
    buf_add_text(&out, "YWI= 256\nYWJj 257\n"); /* ab, abc */
    return out;
}

Test(tokenizer, a_tiktoken_file_merges_by_rank)
{
    char why[TOKENIZER_WHY_MAX];
    struct buf file = ranks();
    struct tokenizer_special end = {.text = SLICE("<|end|>"), .id = 300};
    struct rig rig = {.ids = {.max = 1000}};

    rig.tokenizer = tokenizer_new_tiktoken(buf_slice(&file),
                                           SLICE("cl100k_base"), &end, 1, why);
    cr_assert_not_null(rig.tokenizer, "%s", why);
    rig.scratch = tokenizer_scratch_new(rig.tokenizer);
    expect(&rig, SLICE("abcab<|end|> a"), 0, SLICE("257 256 300 32 97"));
    rig_fini(&rig);
    buf_fini(&file);
}
