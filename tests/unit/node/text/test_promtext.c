#include <criterion/criterion.h>

#include "node/text/prom_out.h"
#include "node/text/promtext.h"

static struct promtext_sample sample;

/* The only sample of a text; false when there is none. */
static bool
parse(const char *text)
{
    struct promtext walk = promtext_of(slice_of(text));
    struct promtext_sample more;

    if (!promtext_next(&walk, &sample)) {
        return false;
    }
    cr_assert_not(promtext_next(&walk, &more));
    return true;
}

static double
number(const char *text)
{
    double value = -1;

    cr_assert(parse(text), "%s", text);
    cr_assert(promtext_number(&sample, &value), "%s", text);
    return value;
}

Test(node_promtext, samples_in_all_their_shapes)
{
    cr_assert_eq(number("up 1"), 1);
    cr_assert_eq(number("node:HTTP_2xx_total 1"), 1);
    cr_assert(slice_equal(sample.name, SLICE("node:HTTP_2xx_total")));
    cr_assert_eq(number("up\t1\n"), 1);
    cr_assert_eq(number("  up  1.5  \r\n"), 1.5);
    cr_assert_eq(number("up{} 2"), 2);
    cr_assert_eq(number("up{a=\"b\"} 3"), 3);
    cr_assert_eq(number("up {a=\"b\",} 4"), 4);
    cr_assert_eq(number("up{ a = \"b\" , c=\"d\" } 5"), 5);
    cr_assert_eq(number("up{a=\"b\"}6"), 6);
    cr_assert_eq(number("up 7 1395066363000"), 7);
    cr_assert_eq(number("up_bucket{le=\"+Inf\"} 8 # {trace=\"x\"} 0.5"), 8);
    cr_assert_eq(number("# HELP up x\n# TYPE up gauge\n\nup -1.25e-2\n"),
                 -0.0125);
    cr_assert_eq(number("vllm:num_requests_running{engine=\"0\"} 9.0"), 9);
}

Test(node_promtext, lines_that_are_no_samples_are_counted_and_passed_over)
{
    struct promtext walk =
        promtext_of(SLICE("{a=\"b\"} 1\nup\nup \nup{a=\"b\" 1\nup{a=\"b} 1\n"
                          "up{a=b} 1\nup{=\"b\"} 1\nup-x 1\nup{\nup{a\nup{a=\n"
                          "up{a=\"\\\n\x80 1\ngood 1"));

    cr_assert(promtext_next(&walk, &sample));
    cr_assert(slice_equal(sample.name, SLICE("good")));
    cr_assert_eq(walk.bad_lines, 13);
    cr_assert_not(promtext_next(&walk, &sample));
}

Test(node_promtext, braces_commas_and_quotes_inside_labels)
{
    struct slice value;

    cr_assert(parse("m{a=\"x}y,z=\\\"q\\\" \\\\\",b=\"2\",aa=\"3\"} 1"));
    cr_assert(promtext_label(&sample, SLICE("a"), &value));
    cr_assert(slice_equal(value, SLICE("x}y,z=\\\"q\\\" \\\\")));
    cr_assert(promtext_label(&sample, SLICE("b"), &value));
    cr_assert(slice_equal(value, SLICE("2")));
    cr_assert(promtext_label(&sample, SLICE("aa"), &value));
    cr_assert_not(promtext_label(&sample, SLICE("z"), &value));
    cr_assert(parse("m 1"));
    cr_assert_not(promtext_label(&sample, SLICE("a"), &value));
}

Test(node_promtext, what_says_nothing_is_no_number)
{
    static const char *const none[] = {
        "m NaN",
        "m +Inf",
        "m -Inf",
        "m nan",
        "m 0x10",
        "m 1e999",
        "m abc",
        "m 1-2",
        "m +",
        "m e",
        "m infinity",
        "m 11111111111111111111111111111111111111111111111111111111111111111",
    };
    double value;

    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        cr_assert(parse(none[i]), "%s", none[i]);
        cr_assert_not(promtext_number(&sample, &value), "%s", none[i]);
    }
}

Test(node_promtext, an_empty_text_has_no_samples)
{
    cr_assert_not(parse(""));
    cr_assert_not(parse("\n\n# only comments"));
    struct promtext walk = promtext_of((struct slice){NULL, 0});
    cr_assert_not(promtext_next(&walk, &sample));
}

Test(node_promtext, labels_of_any_bytes_are_utf_8_that_can_be_read_back)
{
    static const char *const texts[][2] = {
        {"a \"b\" \\ c\nd", "a \\\"b\\\" \\\\ c\\nd"},
        {"caf\xC3\xA9 \xE6\xA8\xA1 \xF0\x9F\x98\x80",
         "caf\xC3\xA9 \xE6\xA8\xA1 \xF0\x9F\x98\x80"},
        {"cut \xE6\xA8", "cut ??"},
        {"\xFF\xC3\"", "??\\\""},
    };
    char room[64];

    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct buf out = buf_over(room, sizeof room - 1);
        prom_out_label(&out, texts[i][0]);
        cr_assert_not(out.failed);
        room[out.len] = '\0';
        cr_assert_str_eq(room, texts[i][1]);
    }
}
