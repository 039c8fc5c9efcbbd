/* Vectors, and what holds of all of them: dialect_vectors.json. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/dialect/dialect.h"

#define ROOM ((size_t)1 << 20)

static json_t *vectors;

static void
load(void)
{
    json_error_t fault;

    vectors = json_load_file(DIALECT_VECTORS, 0, &fault);
    cr_assert_not_null(vectors, "%s: %s", DIALECT_VECTORS, fault.text);
}

static void
drop(void)
{
    json_decref(vectors);
}

TestSuite(node_dialect, .init = load, .fini = drop);

static const char *
text_of(const json_t *vector, const char *key)
{
    const char *text = json_string_value(json_object_get(vector, key));

    return text != NULL ? text : "";
}

static enum dialect
api_of(const json_t *vector)
{
    const char *api = text_of(vector, "api");

    return strcmp(api, "responses") == 0 ? DIALECT_RESPONSES
           : strcmp(api, "count") == 0   ? DIALECT_COUNT
                                         : DIALECT_MESSAGES;
}

static void
compare(const json_t *vector, struct slice got)
{
    json_error_t fault;
    json_t *read = json_loadb(got.ptr, got.len, JSON_REJECT_DUPLICATES, &fault);
    const json_t *wanted = json_object_get(vector, "out");

    cr_assert_not_null(read, "%s: %s in %.*s", text_of(vector, "name"),
                       fault.text, (int)got.len, got.ptr);
    cr_expect(json_equal(read, wanted), "%s: %.*s", text_of(vector, "name"),
              (int)got.len, got.ptr);
    json_decref(read);
}

/* The request that it answers, as far as that matters. */
static char *
asked_of(const json_t *vector)
{
    const json_t *asked = json_object_get(vector, "asked");

    return asked != NULL ? json_dumps(asked, 0) : strdup("");
}

Test(node_dialect, a_request_becomes_a_chat)
{
    size_t i;
    json_t *vector;
    struct buf out;

    buf_init(&out, ROOM);
    cr_assert_gt(json_array_size(json_object_get(vectors, "requests")), 20);
    json_array_foreach(json_object_get(vectors, "requests"), i, vector)
    {
        char *body = json_dumps(json_object_get(vector, "in"), 0);
        const char *why;
        buf_clear(&out);
        bool good = dialect_request(
            api_of(vector), slice_of(body), slice_of(text_of(vector, "salt")),
            json_is_true(json_object_get(vector, "each")), &out, &why);
        if (json_object_get(vector, "why") != NULL) {
            cr_expect_not(good, "%s", text_of(vector, "name"));
            cr_expect_str_eq(why, text_of(vector, "why"));
        } else {
            cr_assert(good, "%s: %s", text_of(vector, "name"), why);
            compare(vector, buf_slice(&out));
        }
        free(body);
    }
    buf_fini(&out);
}

Test(node_dialect, a_chat_becomes_an_answer)
{
    size_t i;
    json_t *vector;
    struct buf out;

    buf_init(&out, ROOM);
    cr_assert_gt(json_array_size(json_object_get(vectors, "answers")), 5);
    json_array_foreach(json_object_get(vectors, "answers"), i, vector)
    {
        char *body = json_dumps(json_object_get(vector, "in"), 0);
        char *asked = asked_of(vector);
        buf_clear(&out);
        bool good = dialect_answer(api_of(vector), slice_of(asked),
                                   slice_of(body), &out);
        free(asked);
        cr_assert_eq(good, json_object_get(vector, "out") != NULL, "%s",
                     text_of(vector, "name"));
        if (good) {
            compare(vector, buf_slice(&out));
        }
        free(body);
    }
    buf_fini(&out);
}

Test(node_dialect, an_error_becomes_one_of_anthropics)
{
    size_t i;
    json_t *vector;
    struct buf out;

    buf_init(&out, ROOM);
    json_array_foreach(json_object_get(vectors, "errors"), i, vector)
    {
        char *body = json_dumps(json_object_get(vector, "in"), 0);
        buf_clear(&out);
        dialect_error(
            api_of(vector),
            (unsigned)json_integer_value(json_object_get(vector, "status")),
            slice_of(body), &out);
        compare(vector, buf_slice(&out));
        free(body);
    }
    buf_fini(&out);
}

/* Streams */

/* The chat's events as an engine sends them. */
static void
write_stream(const json_t *events, struct buf *out)
{
    size_t i;
    json_t *event;

    buf_clear(out);
    buf_add_text(out, ": a comment\n\n");
    json_array_foreach(events, i, event)
    {
        char *text = json_is_string(event) ? strdup(json_string_value(event))
                                           : json_dumps(event, JSON_COMPACT);
        buf_printf(out, "data: %s\n\n", text);
        free(text);
    }
}

/* Our own events as a list; each names its type twice. */
static json_t *
read_events(struct slice bytes)
{
    json_t *list = json_array();

    while (bytes.len != 0) {
        struct slice name = slice_take_line(&bytes);
        struct slice data = slice_take_line(&bytes);
        struct slice blank = slice_take_line(&bytes);
        cr_assert(name.len > 7 && memcmp(name.ptr, "event: ", 7) == 0);
        cr_assert(data.len > 6 && memcmp(data.ptr, "data: ", 6) == 0);
        cr_assert_eq(blank.len, 0);
        json_t *event = json_loadb(data.ptr + 6, data.len - 6,
                                   JSON_REJECT_DUPLICATES, NULL);
        cr_assert_not_null(event, "%.*s", (int)data.len, data.ptr);
        cr_assert(slice_equal((struct slice){name.ptr + 7, name.len - 7},
                              slice_of(text_of(event, "type"))));
        json_array_append_new(list, event);
    }
    return list;
}

/* In pieces of that size. */
static void
play(const json_t *vector, struct slice in, size_t piece)
{
    struct dialect_stream s;
    struct buf out;
    bool good = true;
    char *asked = asked_of(vector);

    buf_init(&out, ROOM);
    dialect_stream_init(&s, api_of(vector), slice_of(asked), &out);
    free(asked);
    for (size_t at = 0; at < in.len && good; at += piece) {
        size_t len = in.len - at < piece ? in.len - at : piece;
        good = dialect_stream_give(&s, (struct slice){in.ptr + at, len});
    }
    good = dialect_stream_end(&s) && good;
    cr_expect_eq(good, json_object_get(vector, "fails") == NULL, "%s",
                 text_of(vector, "name"));
    json_t *got = read_events(buf_slice(&out));
    cr_expect(json_equal(got, json_object_get(vector, "out")), "%s by %zu: %s",
              text_of(vector, "name"), piece, json_dumps(got, 0));
    json_decref(got);
    dialect_stream_fini(&s);
    buf_fini(&out);
}

Test(node_dialect, a_stream_becomes_one_of_messages)
{
    size_t i;
    json_t *vector;
    struct buf in;

    buf_init(&in, ROOM);
    cr_assert_gt(json_array_size(json_object_get(vectors, "streams")), 6);
    json_array_foreach(json_object_get(vectors, "streams"), i, vector)
    {
        write_stream(json_object_get(vector, "in"), &in);
        play(vector, buf_slice(&in), in.len);
        play(vector, buf_slice(&in), 1);
        play(vector, buf_slice(&in), 7);
    }
    buf_fini(&in);
}

Test(node_dialect, nothing_is_taken_after_the_end)
{
    struct dialect_stream s;
    struct buf out;

    buf_init(&out, ROOM);
    dialect_stream_init(&s, DIALECT_MESSAGES, SLICE(""), &out);
    cr_assert_not(dialect_stream_give(&s, SLICE("data: [DONE]\n\n")));
    size_t len = out.len;
    cr_assert_not(dialect_stream_give(&s, SLICE("data: {}\n\n")));
    cr_assert_not(dialect_stream_end(&s));
    cr_assert_eq(out.len, len);
    dialect_stream_fini(&s);
    buf_fini(&out);
}

/* A request with one namespace, whose name is as long as all of them may be. */
static void
ask_of_names(struct buf *out)
{
    char *name;

    buf_init(out, DIALECT_EVENT_MAX + 256);
    buf_add_text(out, "{\"tools\":[{\"type\":\"namespace\",\"name\":\"");
    name = buf_reserve(out, DIALECT_EVENT_MAX);
    cr_assert_not_null(name);
    memset(name, 'n', DIALECT_EVENT_MAX);
    out->len += DIALECT_EVENT_MAX;
    buf_add_text(out, "\",\"tools\":[]}]}");
    cr_assert_not(out->failed);
}

#define CALLS                                                          \
    "\"tool_calls\":[{\"index\":0,\"id\":\"c\",\"type\":\"function\"," \
    "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}]"

Test(node_dialect, names_of_namespaces_without_room_end_the_answer)
{
    struct slice whole = SLICE("{\"id\":\"a\",\"model\":\"m\",\"choices\":[{"
                               "\"index\":0,\"finish_reason\":\"stop\","
                               "\"message\":{" CALLS "}}]}");
    struct slice events =
        SLICE("data: {\"id\":\"a\",\"model\":\"m\","
              "\"choices\":[{\"index\":0,\"delta\":{" CALLS "}}]}\n\n");
    struct dialect_stream s;
    struct buf asked;
    struct buf out;

    buf_init(&out, ROOM);
    ask_of_names(&asked);
    cr_expect_not(
        dialect_answer(DIALECT_RESPONSES, buf_slice(&asked), whole, &out));
    buf_clear(&out);
    dialect_stream_init(&s, DIALECT_RESPONSES, buf_slice(&asked), &out);
    cr_expect_not(dialect_stream_give(&s, events));
    cr_expect_not(dialect_stream_end(&s));
    dialect_stream_fini(&s);
    buf_fini(&out);
    buf_fini(&asked);
}

/* The next item begins in the event whose text had no room any more. */
Test(node_dialect, a_text_that_is_too_long_is_told_with_a_call_behind_it)
{
    const size_t size = DIALECT_KEPT_MAX / 5 + 1;
    char *text = calloc(1, size + 1);
    struct dialect_stream s;
    struct buf in;
    struct buf out;

    cr_assert_not_null(text);
    memset(text, 'a', size);
    buf_init(&in, DIALECT_EVENT_MAX);
    buf_init(&out, DIALECT_SAID_MAX);
    dialect_stream_init(&s, DIALECT_RESPONSES, SLICE(""), &out);
    for (int i = 0; i < 5; i++) {
        buf_clear(&in);
        buf_printf(
            &in,
            "data: {\"id\":\"c\",\"model\":\"m\",\"choices\":[{\"delta\":"
            "{\"content\":\"%s\",\"tool_calls\":[%s]}}]}\n\n",
            text,
            i < 4 ? ""
                  : "{\"index\":0,\"id\":\"t\",\"function\":{\"name\":"
                    "\"get\",\"arguments\":\"{}\"}}");
        cr_assert_eq(dialect_stream_give(&s, buf_slice(&in)), i < 4);
        cr_assert(!in.failed && !out.failed);
    }
    cr_assert(s.failed);
    dialect_stream_fini(&s);
    buf_fini(&in);
    buf_fini(&out);
    free(text);
}

Test(node_dialect, a_full_buffer_is_told)
{
    char room[32];
    struct buf out = buf_over(room, sizeof room);
    const char *why = "unset";

    cr_assert_not(dialect_request(
        DIALECT_MESSAGES,
        SLICE("{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":"
              "\"a\"}]}"),
        SLICE(""), false, &out, &why));
    cr_assert(out.failed);
    cr_assert_null(why);
}

Test(node_dialect, what_is_nested_too_deeply_is_refused)
{
    struct buf in;
    struct buf out;
    const char *why = NULL;

    buf_init(&in, ROOM);
    buf_init(&out, ROOM);
    buf_add_text(&in, "{\"model\":\"m\",\"messages\":");
    for (int i = 0; i < 1000; i++) {
        buf_add_text(&in, "[");
    }
    cr_assert_not(dialect_request(DIALECT_MESSAGES, buf_slice(&in), SLICE(""),
                                  false, &out, &why));
    cr_assert_str_eq(why, "it is no JSON object, or nested too deeply");
    buf_fini(&in);
    buf_fini(&out);
}
