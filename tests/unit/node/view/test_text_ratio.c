#include <criterion/criterion.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/view/text_ratio.h"

static struct text_ratio ratio;

static enum text_kind
kind_of(const char *text)
{
    return text_kind_of((struct slice){.ptr = text, .len = strlen(text)});
}

Test(node_text_ratio, kinds_are_told_by_their_bytes)
{
    cr_expect_eq(kind_of("It was the best of times, it was the worst of times; "
                         "it was the age of wisdom (or so they said)."),
                 TEXT_PROSE);
    cr_expect_eq(kind_of("for (int i = 0; i < n; i++) {\\n    a[i] = f(b[i], "
                         "*p);\\n    count += x & mask;\\n}\\n"),
                 TEXT_CODE);
    cr_expect_eq(
        kind_of("{\\\"name\\\": \\\"anna\\\", \\\"age\\\": 31, "
                "\\\"tags\\\": [\\\"a\\\", \\\"b\\\"], \\\"x\\\": {}}"),
        TEXT_JSON);
    cr_expect_eq(kind_of("今天天气很好，我们去公园散步吧。"), TEXT_CJK);
    cr_expect_eq(kind_of("오늘은 날씨가 좋아서 산책을 갑니다"), TEXT_CJK);
    cr_expect_eq(kind_of("Η γρήγορη αλεπού πηδά πάνω από το σκυλί"),
                 TEXT_SCRIPT);
    cr_expect_eq(kind_of("यह एक छोटा सा वाक्य है"), TEXT_SCRIPT);
    cr_expect_eq(kind_of("\\u4eca\\u5929\\u5929\\u6c14\\u5f88\\u597d"),
                 TEXT_ESCAPED);
    /* Some foreign letters make no other script. */
    cr_expect_eq(kind_of("Der Fluß führt im März noch viel Wasser, größer als "
                         "sonst"),
                 TEXT_PROSE);
}

Test(node_text_ratio, any_bytes_have_a_kind)
{
    char bytes[64];
    struct rng rng;

    rng_init(&rng, 2);
    cr_expect_eq(kind_of(""), TEXT_PROSE);
    for (uint32_t i = 0; i < 20000; i++) {
        size_t len = rng_below(&rng, sizeof(bytes));
        for (size_t b = 0; b < len; b++) {
            uint64_t draw = rng_next(&rng);
            bytes[b] = draw % 4 == 0 ? '\\' : (char)(draw >> 8);
        }
        cr_assert_lt(text_kind_of((struct slice){.ptr = bytes, .len = len}),
                     TEXT_KINDS);
    }
}

/* A quarter of each is the byte. */
Test(node_text_ratio, each_byte_says_the_same_in_short_pieces_and_in_long_ones)
{
    for (int byte = 1; byte < 256; byte++) {
        char bytes[96];

        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (char)(i % 4 == 0 ? byte : 'a');
        }
        cr_expect_eq(
            text_kind_of((struct slice){.ptr = bytes, .len = sizeof(bytes)}),
            text_kind_of((struct slice){.ptr = bytes, .len = 16}), "byte %d",
            byte);
    }
}

Test(node_text_ratio, the_first_sample_counts_in_full)
{
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_CJK), 4000);
    text_ratio_add(&ratio, TEXT_CJK, 20100, 10000);
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_CJK), 2010);
    for (uint32_t i = 0; i < 49; i++) {
        text_ratio_add(&ratio, TEXT_CJK, 20100, 10000);
    }
    /* With the start in it, this would be 2,163. */
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_CJK), 2010);
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_PROSE), 4000);
}

Test(node_text_ratio, what_varies_is_taken_at_its_low_end)
{
    for (uint32_t i = 0; i < 400; i++) {
        text_ratio_add(&ratio, TEXT_CODE, i % 2 == 0 ? 30000 : 40000, 10000);
    }
    uint32_t milli = text_ratio_milli(&ratio, TEXT_CODE);
    cr_expect(milli >= 2950 && milli <= 3050, "%u", milli);
}

Test(node_text_ratio, it_follows_a_change)
{
    text_ratio_add(&ratio, TEXT_PROSE, 44000, 10000);
    for (uint32_t i = 0; i < 200; i++) {
        text_ratio_add(&ratio, TEXT_PROSE, 30000, 10000);
    }
    uint32_t milli = text_ratio_milli(&ratio, TEXT_PROSE);
    cr_expect(milli >= 2980 && milli <= 3010, "%u", milli);
}

Test(node_text_ratio, short_or_uncounted_prompts_teach_nothing)
{
    text_ratio_add(&ratio, TEXT_PROSE, 1023, 10);
    text_ratio_add(&ratio, TEXT_PROSE, 4000, 0);
    struct fact_decision fact = {.kind = FACT_DECISION,
                                 .text_kind = TEXT_PROSE,
                                 .text_bytes = 9000,
                                 .prompt_tokens = 3000,
                                 .resumed = 1};
    text_ratio_take(&ratio, &fact);
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_PROSE), 4000);
    fact.resumed = 0;
    text_ratio_take(&ratio, &fact);
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_PROSE), 3000);
}

Test(node_text_ratio, a_mad_engine_moves_it_within_bounds)
{
    text_ratio_add(&ratio, TEXT_JSON, UINT32_MAX, 1);
    cr_expect_eq(text_ratio_milli(&ratio, TEXT_JSON), 20000);
    for (uint32_t i = 0; i < 500; i++) {
        text_ratio_add(&ratio, TEXT_JSON, 2000, UINT32_MAX);
    }
    uint32_t milli = text_ratio_milli(&ratio, TEXT_JSON);
    cr_expect(milli >= 500 && milli <= 510, "%u", milli);
}

/* Prompts around a threshold of 8,192 tokens, whose bytes vary by some per cent:
 * how many of 1,000 are taken for the wrong side, learned and by four bytes. */
static void
misjudge(enum text_kind kind, double truth, uint32_t *learned, uint32_t *fixed)
{
    struct rng rng;

    rng_init(&rng, 9);
    *learned = 0;
    *fixed = 0;
    for (uint32_t i = 0; i < 1050; i++) {
        uint32_t tokens = 1000 + (uint32_t)rng_below(&rng, 15000);
        double noise = 1 + 0.05 * (2 * rng_unit(&rng) - 1);
        uint32_t bytes = (uint32_t)(tokens * truth * noise);
        double guess = bytes * 1000.0 / text_ratio_milli(&ratio, kind);
        if (i >= 50) {
            *learned += (guess <= 8192) != (tokens <= 8192);
            *fixed += (bytes / 4 <= 8192) != (tokens <= 8192);
        }
        text_ratio_add(&ratio, kind, bytes, tokens);
    }
}

Test(node_text_ratio, learned_estimates_misjudge_few_requests)
{
    static const struct {
        enum text_kind kind;
        double truth;
    } kinds[] = {{TEXT_PROSE, 4.48}, {TEXT_CODE, 3.52}, {TEXT_CJK, 2.01}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        uint32_t learned;
        uint32_t fixed;
        misjudge(kinds[i].kind, kinds[i].truth, &learned, &fixed);
        cr_expect_lt(learned, 30, "%s: %u", text_kind_name(kinds[i].kind),
                     learned);
        cr_expect_lt(learned, fixed / 2, "%s: %u of %u",
                     text_kind_name(kinds[i].kind), learned, fixed);
    }
}
