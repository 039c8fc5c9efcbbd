#include "scan_oracle.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/slice.h"

/* A span that must be there: of a string, or raw JSON that means this. */
const struct slice oracle_kept[2] = {{.ptr = "user", .len = 4},
                                     {.ptr = "session_id", .len = 10}};

struct want {
    enum scan_span_kind kind;
    json_t *value; /* borrowed; NULL: the empty role */
};

struct oracle {
    const char *body;
    size_t len;
    const struct scan *scan;
    struct want wants[ORACLE_SPANS];
    unsigned count;
    enum scan_shape shape;
    uint32_t prompts;
    json_t *prompt; /* borrowed */
    bool is_input;
    const char *why;
};

static void
want(struct oracle *o, enum scan_span_kind kind, json_t *value)
{
    if (o->count < ORACLE_SPANS) {
        o->wants[o->count++] = (struct want){.kind = kind, .value = value};
    }
}

static void
want_string(struct oracle *o, enum scan_span_kind kind, json_t *value)
{
    if (json_is_string(value)) {
        want(o, kind, value);
    }
}

static void
want_raw(struct oracle *o, json_t *value)
{
    if (json_array_size(value) != 0 || json_object_size(value) != 0) {
        want(o, SCAN_TOOLS, value);
    }
}

static json_t *
media_of(json_t *value, json_t *content)
{
    static const char *const keys[] = {"url", "data", "file_data", "file_id"};
    json_t *uuid = json_object_get(value, "uuid");

    if (json_is_string(uuid) && json_string_length(uuid) != 0) {
        return uuid;
    }
    if (json_is_string(content)) {
        return content;
    }
    for (unsigned i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        json_t *found = json_object_get(content, keys[i]);
        if (json_is_string(found)) {
            return found;
        }
    }
    return NULL;
}

static void
part(struct oracle *o, json_t *value)
{
    static const struct {
        const char *type;
        const char *key;
        bool media;
    } types[] = {
        {"text", "text", false},
        {"input_text", "text", false},
        {"output_text", "text", false},
        {"refusal", "refusal", false},
        {"image_url", "image_url", true},
        {"input_image", "image_url", true},
        {"audio_url", "audio_url", true},
        {"video_url", "video_url", true},
        {"input_audio", "input_audio", true},
        {"file", "file", true},
        {"image", "source", true},
        {"document", "source", true},
    };
    json_t *type = json_object_get(value, "type");
    json_t *found = NULL;
    enum scan_span_kind kind = SCAN_TEXT;

    if (!json_is_string(type)) {
        found = json_object_get(value, "text");
    }
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (json_is_string(type) &&
            slice_equal(slice_of(types[i].type),
                        (struct slice){.ptr = json_string_value(type),
                                       .len = json_string_length(type)})) {
            found = json_object_get(value, types[i].key);
            found = types[i].media ? media_of(value, found) : found;
            kind = types[i].media ? SCAN_MEDIA : SCAN_TEXT;
        }
    }
    if (json_is_string(found)) {
        want(o, kind, found);
    } else {
        want(o, SCAN_TOOLS, value);
    }
}

/* False when it is neither string nor array. */
static bool
content(struct oracle *o, json_t *value)
{
    json_t *item;
    size_t i;

    want_string(o, SCAN_TEXT, value);
    json_array_foreach(value, i, item)
    {
        want_string(o, SCAN_TEXT, item);
        if (json_is_object(item)) {
            part(o, item);
        }
    }
    return json_is_string(value) || json_is_array(value);
}

static void
messages(struct oracle *o, json_t *list)
{
    json_t *m;
    size_t i;

    o->shape = SCAN_MESSAGES;
    json_array_foreach(list, i, m)
    {
        json_t *role = json_object_get(m, "role");
        if (!json_is_object(m)) {
            continue;
        }
        want(o, SCAN_ROLE, json_is_string(role) ? role : NULL);
        if (role == NULL && json_object_get(m, "content") == NULL) {
            want(o, SCAN_TOOLS, m);
            continue;
        }
        (void)content(o, json_object_get(m, "content"));
        want_string(o, SCAN_TEXT, json_object_get(m, "name"));
        want_string(o, SCAN_TEXT, json_object_get(m, "reasoning_content"));
        want_string(o, SCAN_TEXT, json_object_get(m, "reasoning"));
        want_raw(o, json_object_get(m, "tool_calls"));
        want_raw(o, json_object_get(m, "function_call"));
        want_raw(o, json_object_get(m, "summary"));
    }
}

static bool
all_ids(json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (!json_is_integer(item) || json_integer_value(item) < 0) {
            return false;
        }
    }
    return json_is_array(list);
}

static bool
all_strings(json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item)) {
            return false;
        }
    }
    return true;
}

static bool
all_id_lists(json_t *list)
{
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (!all_ids(item)) {
            return false;
        }
    }
    return true;
}

/* False when it is of no known shape. */
static bool
prompt(struct oracle *o, json_t *value)
{
    json_t *first = json_array_get(value, 0);

    if (json_is_string(value)) {
        o->shape = SCAN_STRING;
        want(o, SCAN_TEXT, value);
    } else if (json_is_object(first)) {
        messages(o, value);
    } else if (json_is_string(first) && all_strings(value)) {
        o->shape = SCAN_STRINGS;
        o->prompts = (uint32_t)json_array_size(value);
        want(o, SCAN_TEXT, first);
    } else if (json_is_array(first) && all_id_lists(value)) {
        o->shape = SCAN_ID_LISTS;
        o->prompts = (uint32_t)json_array_size(value);
        want(o, SCAN_IDS, first);
    } else if (first != NULL && all_ids(value)) {
        o->shape = SCAN_ID_LIST;
        want(o, SCAN_IDS, value);
    }
    return o->shape != SCAN_NO_PROMPT;
}

static void
expect(struct oracle *o, json_t *doc)
{
    json_t *list = json_object_get(doc, "messages");

    o->prompts = 1;
    want_raw(o, json_object_get(doc, "tools"));
    want_raw(o, json_object_get(doc, "functions"));
    if (!content(o, json_object_get(doc, "system"))) {
        (void)content(o, json_object_get(doc, "instructions"));
    }
    o->prompt = list;
    if (json_is_array(list)) {
        messages(o, list);
        return;
    }
    o->is_input = true;
    o->prompt = json_object_get(doc, "input");
    if (!prompt(o, o->prompt)) {
        o->is_input = false;
        o->prompt = json_object_get(doc, "prompt");
        (void)prompt(o, o->prompt);
    }
}

static bool
no(struct oracle *o, const char *why)
{
    o->why = why;
    return false;
}

static bool
is_string(struct oracle *o, uint32_t at, uint32_t len, bool escaped,
          json_t *value)
{
    const char *raw = o->body + at;
    char *text = malloc((size_t)len + 1);
    size_t count = text != NULL ? scan_unescape(raw, len, text) : 0;
    bool same = text != NULL && count == json_string_length(value) &&
                memcmp(text, json_string_value(value), count) == 0;

    free(text);
    if (escaped != (memchr(raw, '\\', len) != NULL)) {
        return no(o, "escaped is wrong");
    }
    return same ? true : no(o, "another text");
}

static bool
is_raw(struct oracle *o, uint32_t at, uint32_t len, json_t *value)
{
    const char *raw = o->body + at;
    json_t *found =
        json_loadb(raw, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL);
    bool blank = memchr(" \t\r\n", raw[0], 4) != NULL ||
                 memchr(" \t\r\n", raw[len - 1], 4) != NULL;
    bool same = found != NULL && !blank && json_equal(found, value);

    json_decref(found);
    return same ? true : no(o, "another raw value");
}

static bool
right_spans(struct oracle *o)
{
    const struct scan *scan = o->scan;

    if (scan->spans_truncated ? scan->spans_count > o->count
                              : scan->spans_count != o->count) {
        return no(o, "another count of spans");
    }
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *s = &scan->spans[i];
        const struct want *w = &o->wants[i];
        if (s->kind != w->kind) {
            return no(o, "another kind of span");
        }
        if (w->value == NULL) {
            if (s->len != 0) {
                return no(o, "a role from nowhere");
            }
        } else if (s->kind == SCAN_TOOLS || s->kind == SCAN_IDS) {
            if (!is_raw(o, s->at, s->len, w->value)) {
                return false;
            }
        } else if (!is_string(o, s->at, s->len, s->escaped, w->value)) {
            return false;
        }
    }
    return true;
}

static bool
right_text(struct oracle *o, const struct scan_text *text, json_t *value)
{
    if (text->present != json_is_string(value)) {
        return no(o, "a name is there or not there");
    }
    return !text->present ||
           is_string(o, text->at, text->len, text->escaped, value);
}

/* A real is only held against the scanner where a double is exact. */
static bool
right_number(struct oracle *o, json_t *value, bool has, int64_t number)
{
    double real = json_real_value(value);

    if (json_is_integer(value)) {
        return has && number == json_integer_value(value)
                   ? true
                   : no(o, "another integer");
    }
    if (!json_is_real(value)) {
        return !has ? true : no(o, "a number from nowhere");
    }
    if (fabs(real) > 1e15 || fabs(real - nearbyint(real)) < 1e-6) {
        return !has || fabs(real) > 1e15 || (double)number == nearbyint(real)
                   ? true
                   : no(o, "another real");
    }
    return !has ? true : no(o, "a fraction became an integer");
}

static bool
right_max_tokens(struct oracle *o, json_t *doc)
{
    static const char *const keys[] = {"max_completion_tokens",
                                       "max_output_tokens", "max_tokens"};

    for (unsigned i = 0; i < 3; i++) {
        json_t *value = json_object_get(doc, keys[i]);
        double real = json_real_value(value);
        if (json_is_real(value) && fabs(real) < 1e15 &&
            real != nearbyint(real)) {
            continue; /* a fraction: as if absent */
        }
        if (json_is_number(value)) {
            return right_number(o, value, o->scan->has_max_tokens,
                                o->scan->max_tokens);
        }
    }
    return !o->scan->has_max_tokens ? true : no(o, "max_tokens from nowhere");
}

static bool
right_raws(struct oracle *o, json_t *doc)
{
    const struct scan *scan = o->scan;
    json_t *tools = json_object_get(doc, "tools");
    bool any = json_array_size(tools) != 0 || json_object_size(tools) != 0;
    bool prompt = scan->shape != SCAN_NO_PROMPT;

    if (scan->tools_raw.present != any || scan->prompt_raw.present != prompt ||
        scan->prompt_is_input != (prompt && o->is_input)) {
        return no(o, "a raw value is there or not there");
    }
    return (!any ||
            is_raw(o, scan->tools_raw.at, scan->tools_raw.len, tools)) &&
           (!prompt ||
            is_raw(o, scan->prompt_raw.at, scan->prompt_raw.len, o->prompt));
}

/* Any value, as it stands there. */
static bool
right_options(struct oracle *o, json_t *doc)
{
    for (unsigned i = 0; i < SCAN_OPTIONS; i++) {
        const struct scan_text *text = &o->scan->options[i];
        json_t *value =
            json_object_get(doc, scan_option_name((enum scan_option)i));
        if (text->present != (value != NULL) || text->escaped) {
            return no(o, "an option is there or not there");
        }
        if (value != NULL && !is_raw(o, text->at, text->len, value)) {
            return false;
        }
    }
    return true;
}

static bool
is_unsaid(json_t *value)
{
    return value == NULL || json_is_null(value) || json_is_false(value);
}

/* The body with what it lacks says what it said, and asks for usage; each: for
 * that of each event, too. */
static bool
is_sent(struct oracle *o, json_t *doc, bool each)
{
    const struct scan_usage *u = &o->scan->usage;
    struct slice text = scan_usage_text(u->lack, each);
    size_t len = o->len - u->cut + text.len;
    char *body = malloc(len);

    memcpy(body, o->body, u->at);
    memcpy(body + u->at, text.ptr, text.len);
    memcpy(body + u->at + text.len, o->body + u->at + u->cut,
           o->len - u->at - u->cut);
    json_t *sent = json_loadb(body, len, JSON_ALLOW_NUL, NULL);
    json_t *wanted = json_deep_copy(doc);
    json_t *now = json_object_get(wanted, "stream_options");
    if (!json_is_object(now)) {
        now = json_object();
        json_object_set_new(wanted, "stream_options", now);
    }
    json_object_set_new(now, "include_usage", json_true());
    if (each) {
        json_object_set_new(now, "continuous_usage_stats", json_true());
    }
    bool good = sent != NULL && json_equal(sent, wanted);
    json_decref(sent);
    json_decref(wanted);
    free(body);
    return good || no(o, "the body that asks for usage");
}

static bool
asks_for_usage(struct oracle *o, json_t *doc)
{
    const struct scan_usage *u = &o->scan->usage;
    json_t *options = json_object_get(doc, "stream_options");
    json_t *asked = json_object_get(options, "include_usage");
    json_t *each = json_object_get(options, "continuous_usage_stats");
    bool object = json_is_object(options);
    bool none = options == NULL || json_is_null(options);
    bool able = (none || (object && is_unsaid(each))) &&
                (is_unsaid(asked) || json_is_true(asked));

    if (json_object_size(doc) == 0) {
        return true;
    }
    if (o->scan->usage_of_each != json_is_true(each) ||
        o->scan->include_usage != json_is_true(asked)) {
        return no(o, "whether usage is asked for");
    }
    if (able != (u->lack != SCAN_USAGE_NOTHING) ||
        json_is_true(asked) !=
            (able ? u->lack == SCAN_USAGE_EACH : json_is_true(asked)) ||
        (able && u->each_unsaid != (each == NULL))) {
        return no(o, "whether usage is to be asked for");
    }
    return !able || (is_sent(o, doc, false) &&
                     (!u->each_unsaid || is_sent(o, doc, true)));
}

static bool
is_given(json_t *doc, const char *key)
{
    json_t *value = json_object_get(doc, key);

    return value != NULL && !json_is_null(value);
}

static bool
right_scores(struct oracle *o, json_t *doc)
{
    bool scores = o->scan->shape == SCAN_MESSAGES
                      ? !json_is_null(json_object_get(doc, "top_logprobs"))
                      : is_given(doc, "logprobs");
    bool rescored = is_given(doc, "prompt_logprobs") ||
                    is_given(doc, "prompt_logprob_token_ids") ||
                    (json_is_true(json_object_get(doc, "echo")) && scores);

    if (o->scan->truncated != is_given(doc, "truncate_prompt_tokens")) {
        return no(o, "truncated");
    }
    return o->scan->rescored == rescored || no(o, "rescored");
}

static bool
right(struct oracle *o, json_t *doc)
{
    const struct scan *scan = o->scan;
    json_t *options = json_object_get(doc, "stream_options");
    json_t *n = json_object_get(doc, "n");

    if (scan->stream != json_is_true(json_object_get(doc, "stream")) ||
        scan->include_usage !=
            json_is_true(json_object_get(options, "include_usage"))) {
        return no(o, "stream or include_usage");
    }
    if (json_is_integer(n) &&
        scan->n != (json_integer_value(n) < 1 ? 1
                    : json_integer_value(n) > UINT32_MAX
                        ? UINT32_MAX
                        : (uint32_t)json_integer_value(n))) {
        return no(o, "n");
    }
    if (!json_is_number(n) && scan->n != 1) {
        return no(o, "n from nowhere");
    }
    json_t *priority = json_object_get(doc, "priority");
    if (scan->priority_bad !=
        (priority != NULL && !json_is_null(priority) && !scan->has_priority)) {
        return no(o, "priority_bad");
    }
    return right_text(o, &scan->model, json_object_get(doc, "model")) &&
           right_text(o, &scan->kept[0], json_object_get(doc, "user")) &&
           right_text(o, &scan->salt, json_object_get(doc, "cache_salt")) &&
           right_text(o, &scan->kept[1], json_object_get(doc, "session_id")) &&
           right_number(o, json_object_get(doc, "priority"), scan->has_priority,
                        scan->priority) &&
           right_max_tokens(o, doc) && right_options(o, doc) &&
           asks_for_usage(o, doc) && right_scores(o, doc);
}

/* Whether jansson refuses what RFC 8259 allows. */
static bool
is_its_own(const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);

    return code == json_error_numeric_overflow ||
           code == json_error_null_byte_in_key ||
           code == json_error_stack_overflow ||
           strstr(error->text, "invalid Unicode") != NULL;
}

static bool
has(const char *body, size_t len, const char *what)
{
    return memmem(body, len, what, strlen(what)) != NULL;
}

bool
scan_oracle_agrees(const char *body, size_t len, int outcome,
                   const struct scan *scan, const char **why)
{
    static struct oracle o;
    json_error_t error;
    json_t *doc =
        json_loadb(body, len, JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    bool good;

    o = (struct oracle){.body = body, .len = len, .scan = scan};
    if (outcome == SCAN_E_DEPTH || memchr(body, '\0', len) != NULL) {
        good = outcome != 0;
    } else if (doc == NULL) {
        good = is_its_own(&error) || outcome == SCAN_E_SYNTAX
                   ? true
                   : no(&o, "accepted, but it is not JSON");
    } else if (!json_is_object(doc)) {
        good = outcome == SCAN_E_NOT_OBJECT ? true : no(&o, "no object");
    } else if (outcome != 0) {
        good = no(&o, "refused, but it is a JSON object");
    } else {
        expect(&o, doc);
        good = right(&o, doc);
        /* -0 is an integer like 0 there, and no id here. */
        if (good && !has(body, len, "-0")) {
            good = right_spans(&o) &&
                   (scan->shape == o.shape || no(&o, "another shape")) &&
                   (scan->prompts == o.prompts || no(&o, "prompts")) &&
                   right_raws(&o, doc);
        }
    }
    json_decref(doc);
    *why = o.why;
    return good;
}
