/* Templates against what jinja2 makes of them: render_vectors.json was written
 * by jinja2 3.1.6 under Python 3.12, null where it raises. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/template/template.h"

static struct arena arena;
static struct buf out;
static struct template_error error;
static const struct template_clock noon = {
    .year = 2026,
    .month = 11,
    .day = 22,
    .hour = 13,
    .minute = 5,
    .second = 9,
    .microsecond = 123456,
    .weekday = 0,
    .yearday = 325,
};

static void
open_all(void)
{
    arena_init(&arena, (size_t)64 << 20);
    buf_init(&out, (size_t)64 << 20);
}

static void
close_all(void)
{
    arena_fini(&arena);
    buf_fini(&out);
}

TestSuite(node_template, .init = open_all, .fini = close_all);

static struct json_value
tree_of(struct slice text)
{
    struct json_tree_fault fault;
    struct json_value value;

    cr_assert(json_tree_read(text, &arena, &value, &fault), "%s at %zu",
              fault.why, fault.at);
    return value;
}

/* The text, or NULL and the error. */
static const char *
render(struct slice source, const struct json_value *context,
       const struct template_limits *limits)
{
    struct template *compiled = template_compile(source, &error);
    bool fine = false;

    buf_clear(&out);
    if (compiled != NULL) {
        fine = template_render(compiled, context, limits, &noon, &out, &error);
        cr_assert(fine || out.len == 0);
    }
    template_free(compiled);
    buf_add(&out, "", 1);
    return fine ? out.ptr : NULL;
}

static const char *
render_with(const char *source, const char *context)
{
    struct json_value tree = tree_of(slice_of(context));

    return render(slice_of(source), &tree, &TEMPLATE_LIMITS);
}

static void
read_file(const char *path, struct buf *text)
{
    FILE *file = fopen(path, "rb");
    char *room = NULL;

    buf_init(text, (size_t)4 << 20);
    cr_assert_not_null(file, "%s", path);
    while (!feof(file) && (room = buf_reserve(text, 65536)) != NULL) {
        text->len += fread(room, 1, 65536, file);
    }
    (void)fclose(file);
}

Test(node_template, renders_as_jinja2_does)
{
    struct buf text;
    struct json_value vectors;
    const struct json_value *context = NULL;
    const struct json_value *cases = NULL;
    uint32_t wrong = 0;

    read_file(TEMPLATE_VECTORS, &text);
    vectors = tree_of(buf_slice(&text));
    context = json_tree_get(&vectors, SLICE("context"));
    cases = json_tree_get(&vectors, SLICE("cases"));
    cr_assert(context != NULL && cases != NULL && cases->len > 1000);
    for (uint32_t i = 0; i < cases->len; i++) {
        struct slice source = json_tree_slice(&cases->as.items[i].as.items[0]);
        struct json_value wanted = cases->as.items[i].as.items[1];
        const char *got = render(source, context, &TEMPLATE_LIMITS);
        bool same = got == NULL
                        ? wanted.kind == JSON_NULL
                        : wanted.kind == JSON_STRING &&
                              slice_equal(json_tree_slice(&wanted),
                                          (struct slice){got, out.len - 1});
        if (!same) {
            wrong++;
            cr_log_error("%.*s\n  gives %s\n  not   %.*s", (int)source.len,
                         source.ptr, got != NULL ? got : error.text,
                         (int)wanted.len,
                         wanted.kind == JSON_STRING ? wanted.as.text : "");
        }
    }
    buf_fini(&text);
    cr_assert_eq(wrong, 0);
}

Test(node_template, says_the_line_of_a_fault)
{
    cr_assert_null(render_with("a\nb\n{{ x.y }}\n", "{}"));
    cr_assert_eq(error.line, 3);
    cr_assert_str_eq(error.text, "'x' is undefined");
    cr_assert_null(render_with("a\r\n\r\n{% if %}", "{}"));
    cr_assert_eq(error.line, 3);
    cr_assert_null(
        render_with("{% if a %}\n{{ raise_exception('no ' ~ a) }}{% endif %}",
                    "{\"a\":\"way\"}"));
    cr_assert_eq(error.line, 2);
    cr_assert_str_eq(error.text, "no way");
}

Test(node_template, is_bounded_in_steps)
{
    struct template_limits limits = TEMPLATE_LIMITS;
    struct json_value none = tree_of(SLICE("{}"));
    const char *endless = "{% for a in range(100000) %}{% for b in "
                          "range(100000) %}{% endfor %}{% endfor %}";

    limits.steps_max = 100000;
    cr_assert_null(render(slice_of(endless), &none, &limits));
    cr_assert_not_null(strstr(error.text, "steps"));
    /* A generator's kept faults do not hide the bound. */
    cr_assert_null(render(
        SLICE("{% set x = range(100000)|map('string')|list %}{{ x|map('upper')"
              "|first }}{{ x|map('upper')|first }}"),
        &none, &limits));
    cr_assert_not_null(strstr(error.text, "steps"));
}

Test(node_template, is_bounded_in_memory_output_and_depth)
{
    struct template_limits limits = TEMPLATE_LIMITS;
    struct json_value none = tree_of(SLICE("{}"));

    limits.memory_bytes = 1 << 20;
    limits.output_bytes = 1 << 16;
    cr_assert_null(render(SLICE("{% set n = namespace(x='a') %}{% for i in "
                                "range(60) %}{% set n.x = n.x + n.x %}{% "
                                "endfor %}"),
                          &none, &limits));
    cr_assert_not_null(strstr(error.text, "memory"));
    cr_assert_null(render(SLICE("{{ 'a' * 999999999999 }}"), &none, &limits));
    cr_assert_null(render(
        SLICE("{% for i in range(100000) %}{{ 'aaaaaaaa' }}{% endfor %}"),
        &none, &limits));
    cr_assert_not_null(strstr(error.text, "output"));
    cr_assert_null(render(SLICE("{% macro m() %}{{ m() }}{% endmacro %}"
                                "{{ m() }}"),
                          &none, &TEMPLATE_LIMITS));
    cr_assert_not_null(strstr(error.text, "deep"));
    cr_assert_null(render(SLICE("{% set n = namespace(x=[]) %}{% for i in "
                                "range(5000) %}{% set n.x = [n.x] %}{% endfor "
                                "%}{{ n.x }}"),
                          &none, &TEMPLATE_LIMITS));
    cr_assert_not_null(strstr(error.text, "deep"));
}

Test(node_template, refuses_sources_that_are_too_deep_too_large_or_no_text)
{
    struct buf text;

    buf_init(&text, (size_t)4 << 20);
    buf_add_text(&text, "{{ ");
    for (int i = 0; i < 1000; i++) {
        buf_add_text(&text, "(");
    }
    cr_assert_null(template_compile(buf_slice(&text), &error));
    buf_clear(&text);
    for (int i = 0; i < 1000; i++) {
        buf_add_text(&text, "{% if a %}");
    }
    cr_assert_null(template_compile(buf_slice(&text), &error));
    buf_clear(&text);
    while (text.len <= TEMPLATE_SOURCE_MAX) {
        buf_add_text(&text, "aaaaaaaaaaaaaaaa");
    }
    cr_assert_null(template_compile(buf_slice(&text), &error));
    cr_assert_str_eq(error.text, "template too large");
    cr_assert_null(template_compile(SLICE("a\xFF"), &error));
    cr_assert_str_eq(error.text, "not UTF-8");
    buf_fini(&text);
}

Test(node_template, appends_to_what_is_there_and_leaves_it_on_a_fault)
{
    struct json_value none = tree_of(SLICE("{}"));
    struct template *fine = template_compile(SLICE("{{ 1 }}b"), &error);
    struct template *bad = template_compile(SLICE("b{{ 1/0 }}"), &error);

    buf_add_text(&out, "a");
    cr_assert(
        template_render(fine, &none, &TEMPLATE_LIMITS, &noon, &out, &error));
    cr_assert(
        !template_render(bad, &none, &TEMPLATE_LIMITS, &noon, &out, &error));
    cr_assert(slice_equal(buf_slice(&out), SLICE("a1b")));
    template_free(fine);
    template_free(bad);
    template_free(NULL);
}
