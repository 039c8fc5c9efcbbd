/* Rules with examples: when a vector is wanted, and whose centre is nearest. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/content/content.h"

#define SPANS 64U

static struct content *content;
static struct content_scratch *scratch;
static struct scan_span spans[SPANS];
static struct content_verdict verdict;

static struct text_vector *
vector_of(const char *numbers)
{
    struct text_vector *vector = NULL;
    char body[256];

    (void)snprintf(body, sizeof body, "{\"data\":[{\"embedding\":[%s]}]}",
                   numbers);
    cr_assert_eq(text_vector_read(slice_of(body), &vector), 0);
    return vector;
}

static void
add_rule(const char *name, struct content_rule rule, const char *one,
         const char *other)
{
    (void)snprintf(rule.name, sizeof rule.name, "%s", name);
    (void)snprintf(rule.model, sizeof rule.model, "m-%s", name);
    cr_assert_eq(content_add_rule(content, &rule), 0);
    cr_assert_eq(content_add_example(content, slice_of(one)), 0);
    cr_assert_eq(content_add_example(content, slice_of(other)), 0);
}

/* Maths at 1,0,0; travels at 0,1,0; and a rule without examples behind them. */
static void
open_rig(void)
{
    struct content_rule last = {.name = "last", .longer = 4, .model = "big"};

    cr_assert_eq(content_new(&content), 0);
    scratch = content_scratch_new();
    cr_assert_not_null(scratch);
    cr_assert_eq(
        content_add_name(content, SLICE("auto"), SLICE("small"), CONTENT_FIRST),
        0);
    add_rule("maths", (struct content_rule){.name = ""}, "two and two",
             "a root");
    add_rule("travels", (struct content_rule){.longer = 3}, "trains", "sights");
    cr_assert_eq(content_add_rule(content, &last), 0);
    char why[CONTENT_WHY_MAX] = "";
    cr_assert_eq(content_finish(content, why), 0);
}

static void
close_rig(void)
{
    content_free(content);
    content_scratch_free(scratch);
}

TestSuite(content_like, .init = open_rig, .fini = close_rig);

static int
set_vectors(const char *const numbers[4])
{
    struct text_vector *vectors[4];

    cr_assert_eq(content_examples(content), 4);
    for (size_t i = 0; i < 4; i++) {
        vectors[i] = vector_of(numbers[i]);
    }
    int outcome = content_set_vectors(content, vectors);
    for (size_t i = 0; i < 4; i++) {
        free(vectors[i]);
    }
    return outcome;
}

static void
know_examples(void)
{
    static const char *const numbers[] = {"1,0,0.1", "1,0,-0.1", "0,1,0.1",
                                          "0,1,-0.1"};

    cr_assert_eq(set_vectors(numbers), 0);
}

/* The rule that a message gets. numbers: its vector's; NULL: there is none. */
static const char *
judged(const char *text, enum content_like like, const char *numbers)
{
    struct scan_limits limits = {.depth_max = 64, .spans_max = SPANS};
    struct scan scan = {.spans = spans};
    char body[4096];
    struct text_vector *vector = numbers != NULL ? vector_of(numbers) : NULL;

    (void)snprintf(body, sizeof body,
                   "{\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}",
                   text);
    cr_assert_eq(scan_body(body, strlen(body), &limits, &scan), 0);
    struct content_asked asked = {
        .body = slice_of(body), .scan = &scan, .like = like, .vector = vector};
    cr_assert(content_judge(content, scratch, SLICE("auto"), &asked, &verdict));
    free(vector);
    return verdict.rule;
}

Test(content_like, the_nearest_of_the_rules_with_examples_fits)
{
    know_examples();
    cr_expect_str_eq(judged("what", CONTENT_LIKE_KNOWN, "3,1,0"), "maths");
    cr_expect_str_eq(verdict.model, "m-maths");
    cr_expect_geq(verdict.seen.permille, 940);
    cr_expect_str_eq(judged("what", CONTENT_LIKE_KNOWN, "1,3,0"), "travels");
    cr_expect_str_eq(verdict.seen.nearest, "travels");
}

Test(content_like, the_nearest_must_fit_in_all_else)
{
    know_examples();
    cr_expect_str_eq(judged("ab", CONTENT_LIKE_KNOWN, "0,1,0"), "",
                     "too short for travels, and no maths either");
    cr_expect_str_eq(verdict.seen.nearest, "travels");
    cr_expect_str_eq(judged("abcd", CONTENT_LIKE_KNOWN, "-1,-1,0"), "last",
                     "near to none");
    cr_expect_str_eq(verdict.seen.nearest, "");
    cr_expect_str_eq(judged("abcd", CONTENT_LIKE_KNOWN, "1,0"), "last",
                     "of another size");
}

Test(content_like, a_vector_is_wanted_once_it_matters)
{
    struct content_rule first = {.name = "first", .longer = 8};
    char why[CONTENT_WHY_MAX] = "";

    cr_assert_eq(
        content_add_name(content, SLICE("b"), SLICE("small"), CONTENT_FIRST),
        0);
    cr_assert_eq(content_add_rule(content, &first), 0);
    cr_assert_eq(content_add_example(content, SLICE("x")), 0);
    cr_assert_eq(content_finish(content, why), 0);
    struct text_vector *vectors[5];
    for (size_t i = 0; i < 5; i++) {
        vectors[i] = vector_of("1,0");
    }
    cr_assert_eq(content_set_vectors(content, vectors), 0);
    for (size_t i = 0; i < 5; i++) {
        free(vectors[i]);
    }
    (void)judged(" what\\u0041 ", CONTENT_LIKE_WANTED, NULL);
    cr_expect_eq(verdict.seen.like, CONTENT_LIKE_WANTED);
    cr_expect(slice_equal(verdict.likened, SLICE("whatA")));
    struct scan_limits limits = {.depth_max = 64, .spans_max = SPANS};
    struct scan scan = {.spans = spans};
    struct slice body =
        SLICE("{\"messages\":[{\"role\":\"user\",\"content\":\"short\"}]}");
    cr_assert_eq(scan_body(body.ptr, body.len, &limits, &scan), 0);
    struct content_asked asked = {
        .body = body, .scan = &scan, .like = CONTENT_LIKE_WANTED};
    cr_assert(content_judge(content, scratch, SLICE("b"), &asked, &verdict));
    cr_expect_eq(verdict.seen.like, CONTENT_LIKE_UNASKED,
                 "its rule does not fit whatever its vector is");
}

Test(content_like, without_a_vector_the_next_rule_fits_and_it_says_why)
{
    static const enum content_like all[] = {
        CONTENT_LIKE_LATE, CONTENT_LIKE_FAILED, CONTENT_LIKE_AWAY,
        CONTENT_LIKE_TENANT};

    cr_expect_str_eq(judged("what", CONTENT_LIKE_WANTED, NULL), "last");
    cr_expect_eq(verdict.seen.like, CONTENT_LIKE_LOADING);
    know_examples();
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        cr_expect_str_eq(judged("what", all[i], NULL), "last");
        cr_expect_eq(verdict.seen.like, all[i]);
        content_count(content, 0, &verdict);
        cr_expect_eq(content_like_count(content, all[i]), 1);
    }
    cr_expect_str_eq(judged("what", CONTENT_LIKE_UNASKED, NULL), "last");
    cr_expect_eq(verdict.seen.like, CONTENT_LIKE_UNASKED);
}

Test(content_like, whole_characters_of_a_long_message_are_likened)
{
    char text[2048] = "x";

    know_examples();
    for (size_t at = 1; at + 2 < sizeof text; at += 2) {
        memcpy(text + at, "\xc3\xa4", 3);
    }
    (void)judged(text, CONTENT_LIKE_WANTED, NULL);
    cr_expect_eq(verdict.likened.len, CONTENT_EXAMPLE_BYTES - 1);
    cr_expect_eq(memcmp(verdict.likened.ptr, text, verdict.likened.len), 0);
}

Test(content_like, what_is_too_much_is_refused)
{
    static char text[CONTENT_EXAMPLE_BYTES + 1];
    static const char *const apart[] = {"1,0", "1,0,0", "1,0", "1,0"};

    memset(text, 'x', sizeof text);
    cr_expect_eq(
        content_add_example(content, (struct slice){text, sizeof text}),
        CONTENT_E_FULL);
    cr_expect_eq(set_vectors(apart), TEXT_VECTOR_E_NONE);
    while (content_examples(content) < CONTENT_EXAMPLES_MAX) {
        cr_assert_eq(
            content_add_example(content, (struct slice){text, sizeof text - 1}),
            0);
    }
    cr_expect_eq(content_add_example(content, SLICE("x")), CONTENT_E_FULL);
}
