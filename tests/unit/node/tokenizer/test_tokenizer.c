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

Test(tokenizer, what_others_take_or_normalisers_drop_is_the_librarys)
{
    expect_all(SLICE(taken_json), taken_vectors, COUNT(taken_vectors));
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
        {"{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},"
         "\"merges\":[]}}",
         "two tokens have the id 0"},
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

#define LETTERS                                                              \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]," \
    "\"unk_token\":\"b\"}}"

/* `before`, `text` a number of times with its number, `after`. */
static struct buf
repeated(const char *before, const char *text, unsigned times,
         const char *after)
{
    struct buf out;

    buf_init(&out, (size_t)32 << 20);
    buf_add_text(&out, before);
    for (unsigned i = 0; i < times; i++) {
        if (strchr(text, '#') == NULL) {
            buf_add_text(&out, text);
        } else {
            buf_printf(&out, "%s{\"content\":\"<%u>\"}", i > 0 ? "," : "", i);
        }
    }
    buf_add_text(&out, after);
    return out;
}

/* The file is refused, and the word is told. */
static void
refused(struct buf *file, const char *word)
{
    char why[TOKENIZER_WHY_MAX];

    cr_assert_null(tokenizer_new(buf_slice(file), why));
    cr_assert_not_null(strstr(why, word), "%s", why);
    buf_fini(file);
}

Test(tokenizer, a_file_that_would_load_for_hours_or_fill_memory_is_refused)
{
    struct buf file =
        repeated("{\"added_tokens\":[{\"content\":\"a\",\"normalized\":true}],"
                 "\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"",
                 "a", 3000, "\"}," LETTERS);
    refused(&file, "one is too long");
    file = repeated("{\"post_processor\":{\"type\":\"TemplateProcessing\","
                    "\"special_tokens\":{\"x\":{\"ids\":[]}},\"single\":["
                    "{\"Sequence\":{\"id\":\"A\"}}",
                    ",{\"SpecialToken\":{\"id\":\"x\"}}", 100, "]}," LETTERS);
    refused(&file, "too many parts");
}

/* As many as there may be: each is compared with those before it by a table. */
Test(tokenizer, added_tokens_get_ids_of_the_same_text_or_the_next)
{
    struct buf file = repeated("{\"added_tokens\":[", "#", 262141,
                               ",{\"content\":\"<1>\"},{\"content\":\"b\"},"
                               "{\"content\":\"c\"}]," LETTERS);
    struct rig rig = rig_of(buf_slice(&file));

    expect(&rig, SLICE("<0>a<1>b<262140>c"), 0, SLICE("2 0 3 1 262142 262143"));
    rig_fini(&rig);
    buf_fini(&file);
}

/* What a text of 16 KiB costs with a file that was made to cost much. */
static void
expect_outcome(struct slice json, int outcome)
{
    struct rig rig = rig_of(json);
    struct buf text = repeated("", "a", 16384, "");

    cr_assert_eq(tokenizer_encode(rig.scratch, buf_slice(&text), 0, &rig.ids),
                 outcome);
    expect(&rig, SLICE("a"), 0, SLICE("0"));
    buf_fini(&text);
    rig_fini(&rig);
}

Test(tokenizer, what_a_file_makes_of_a_text_is_bounded)
{
    struct buf file =
        repeated("{\"normalizer\":{\"type\":\"Replace\",\"pattern\":{"
                 "\"String\":\"aa\"},\"content\":\"",
                 "a", 64, "\"}," LETTERS);

    expect_outcome(buf_slice(&file), TOKENIZER_E_LONG);
    buf_fini(&file);
}

Test(tokenizer, steps_of_all_matches_in_a_text_are_bounded)
{
    expect_outcome(SLICE("{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{"
                         "\"Regex\":\"(?=(?:a|b)+c)a|a\"},\"behavior\":"
                         "\"Isolated\",\"invert\":false}," LETTERS),
                   TOKENIZER_E_WORK);
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

/* A number cut off at the file's end: 2 and not 257. */
Test(tokenizer, a_tiktoken_file_with_a_rank_twice_is_refused)
{
    char why[TOKENIZER_WHY_MAX];
    struct buf file = ranks();

    file.len -= 3;
    cr_assert_null(tokenizer_new_tiktoken(buf_slice(&file),
                                          SLICE("cl100k_base"), NULL, 0, why));
    cr_assert_not_null(strstr(why, "line 258"), "%s", why);
    buf_fini(&file);
}
