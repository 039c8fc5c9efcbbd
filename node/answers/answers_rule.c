/* Which requests, and which answers. */
#include "node/answers/answers_rule.h"

#include "node/text/finish.h"
#include "node/text/json_pull.h"
#include "node/text/sse_read.h"

const char *
answers_pass_name(enum answers_pass pass)
{
    static const char *const names[ANSWERS_PASSES] = {
        [ANSWERS_MAY] = "",           [ANSWERS_PATH] = "path",
        [ANSWERS_ASKED] = "no-store", [ANSWERS_SAMPLED] = "sampled",
        [ANSWERS_STATE] = "state",    [ANSWERS_MEDIA] = "media",
        [ANSWERS_SHAPE] = "shape",
    };

    CHECK(pass < ANSWERS_PASSES);
    return names[pass];
}

/* Requests */

static bool
is_known(enum scan_api api)
{
    return api == SCAN_API_TEXT || api == SCAN_API_CHAT ||
           api == SCAN_API_RESPONSES || api == SCAN_API_MESSAGES ||
           api == SCAN_API_EMBEDDINGS || api == SCAN_API_POOLING;
}

static bool
generates(enum scan_api api)
{
    return api != SCAN_API_EMBEDDINGS && api != SCAN_API_POOLING;
}

enum answers_pass
answers_judge(const struct scan *scan, struct slice body, bool seeded,
              uint64_t seed, struct key_wide *name)
{
    struct answers_form form = {.seeded = false};
    enum answers_pass pass =
        answers_judge_around(scan, body, SLICE(""), seeded, seed, &form);

    *name = form.name;
    return pass;
}

enum answers_pass
answers_judge_around(const struct scan *scan, struct slice body,
                     struct slice hole, bool seeded, uint64_t seed,
                     struct answers_form *form)
{
    bool drawn = generates(scan->api) && !scan->greedy;
    bool responses = scan->api == SCAN_API_RESPONSES;

    if (!is_known(scan->api)) {
        return ANSWERS_PATH;
    }
    if (drawn && !seeded) {
        return ANSWERS_SAMPLED;
    }
    /* Engines run some tools of Responses themselves. */
    if (scan->stateful || (responses && scan->tools_raw.present)) {
        return ANSWERS_STATE;
    }
    if (scan->media) {
        return ANSWERS_MEDIA;
    }
    if (scan->shape == SCAN_NO_PROMPT ||
        !answers_form_read_around(body, hole, seed, form)) {
        return ANSWERS_SHAPE;
    }
    if (drawn && !form->seeded) {
        return ANSWERS_SAMPLED;
    }
    return form->searches || (responses && !form->unstored) ? ANSWERS_STATE
                                                            : ANSWERS_MAY;
}

/* Questions */

const char *
answers_unlike_name(enum answers_unlike unlike)
{
    static const char *const names[ANSWERS_UNLIKES] = {
        [ANSWERS_UNLIKE_MAY] = "",
        [ANSWERS_UNLIKE_PATH] = "path",
        [ANSWERS_UNLIKE_TOOLS] = "tools",
        [ANSWERS_UNLIKE_TURNS] = "turns",
        [ANSWERS_UNLIKE_LONG] = "long",
        [ANSWERS_UNLIKE_LANGUAGE] = "language",
        [ANSWERS_UNLIKE_TENANT] = "tenant",
        [ANSWERS_UNLIKE_RULE] = "rule",
    };

    CHECK(unlike < ANSWERS_UNLIKES);
    return names[unlike];
}

/* Of what comes before the question. */
static bool
is_setting(struct slice role)
{
    return slice_equal(role, SLICE("system")) ||
           slice_equal(role, SLICE("developer"));
}

/* The only text of the only message of the user's, which is the last one. NULL:
 * it is another kind of conversation. */
static const struct scan_span *
find_question(const struct scan *scan, struct slice body)
{
    const struct scan_span *question = NULL;
    bool asked = false;

    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *span = &scan->spans[i];
        struct slice text = {body.ptr + span->at, span->len};
        if (span->kind == SCAN_ROLE) {
            bool user = slice_equal(text, SLICE("user"));
            if (asked || !(user || is_setting(text))) {
                return NULL;
            }
            asked = user;
        } else if (span->kind != SCAN_TEXT || question != NULL) {
            return NULL;
        } else if (asked) {
            question = span;
        }
    }
    return question;
}

enum answers_unlike
answers_judge_question(const struct scan *scan, struct slice body,
                       struct slice *raw)
{
    if (scan->api != SCAN_API_CHAT && scan->api != SCAN_API_MESSAGES) {
        return ANSWERS_UNLIKE_PATH;
    }
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        if (scan->spans[i].kind == SCAN_TOOLS) {
            return ANSWERS_UNLIKE_TOOLS;
        }
    }
    const struct scan_span *question =
        scan->shape == SCAN_MESSAGES && !scan->spans_truncated
            ? find_question(scan, body)
            : NULL;
    if (question == NULL || question->len == 0) {
        return ANSWERS_UNLIKE_TURNS;
    }
    if (question->len > ANSWERS_QUESTION_MAX) {
        return ANSWERS_UNLIKE_LONG;
    }
    *raw = (struct slice){body.ptr + question->at, question->len};
    return ANSWERS_UNLIKE_MAY;
}

/* Of "no-cache, max-age=0" one after another. */
void
answers_control_read(struct slice value, struct answers_control *control)
{
    while (value.len != 0) {
        struct slice one = slice_trim(slice_take(&value, ','));
        control->no_store =
            control->no_store || slice_equal_nocase(one, SLICE("no-store"));
        control->no_cache =
            control->no_cache || slice_equal_nocase(one, SLICE("no-cache"));
    }
}

/* Answers */

/* What was found in a whole answer, or in the events of one so far. */
struct ending {
    bool failed;   /* it tells of an error, or was given up */
    bool finished; /* a generation has ended */
    bool last;     /* the latest event is the last of its stream */
};

static bool
is_one_of(const struct json_pull *pull, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (json_pull_is(pull, slice_of(*names))) {
            return true;
        }
    }
    return false;
}

/* The member that pull stands at; the next token is its value. False: it is no
 * JSON. */
static bool
look_at_member(struct json_pull *pull, struct ending *ending)
{
    static const char *const reasons[] = {"finish_reason", "stop_reason", NULL};
    static const char *const bad[] = {"failed",      "incomplete", "cancelled",
                                      "in_progress", "queued",     NULL};
    bool reason = is_one_of(pull, reasons);
    bool error = pull->depth == 1 && json_pull_is(pull, SLICE("error"));
    bool status = pull->depth == 1 && json_pull_is(pull, SLICE("status"));
    bool object = pull->depth == 1 && json_pull_is(pull, SLICE("object"));

    if (!reason && !error && !status && !object) {
        return true;
    }
    enum pull_token token = json_pull_next(pull);
    if (error) {
        ending->failed = ending->failed || token != PULL_NULL;
    } else if (token == PULL_STRING && reason) {
        ending->finished = true;
        ending->failed = ending->failed || finish_gives_up(pull->text);
    } else if (token == PULL_STRING && status) {
        ending->finished = true;
        ending->failed = ending->failed || is_one_of(pull, bad);
    } else if (token == PULL_STRING) {
        ending->failed = ending->failed || json_pull_is(pull, SLICE("error"));
    }
    return token != PULL_BAD && json_pull_skip(pull);
}

/* False: it is no JSON object. */
static bool
look_at(struct slice document, struct ending *ending)
{
    struct json_pull pull;

    json_pull_init(&pull, document);
    enum pull_token token = json_pull_next(&pull);
    if (token != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) > PULL_END) {
        if (token == PULL_KEY && !look_at_member(&pull, ending)) {
            return false;
        }
    }
    return token == PULL_END;
}

static void
look_at_event(enum scan_api api, const struct sse_event *event,
              struct ending *ending)
{
    bool messages = api == SCAN_API_MESSAGES;
    bool responses = api == SCAN_API_RESPONSES;
    bool done = slice_equal(event->data, SLICE("[DONE]"));

    if (slice_equal(event->type, SLICE("error"))) {
        ending->failed = true;
    } else if (done) {
        ending->last = ending->last || !(messages || responses);
    } else if (responses) {
        /* The objects in its events are in progress by nature. */
        ending->last = slice_equal(event->type, SLICE("response.completed"));
        ending->finished = ending->finished || ending->last;
    } else {
        ending->last =
            messages && slice_equal(event->type, SLICE("message_stop"));
        ending->failed = !look_at(event->data, ending) || ending->failed;
    }
}

static bool
is_whole_stream(enum scan_api api, struct slice body)
{
    struct ending ending = {.failed = false};
    struct sse_read sse;
    struct sse_event event;

    sse_read_init(&sse, ANSWERS_EVENT_MAX);
    sse_read_give(&sse, body);
    while (!ending.failed && sse_read_next(&sse, &event)) {
        look_at_event(api, &event, &ending);
    }
    bool whole =
        sse.fault == NULL && ending.last && ending.finished && !ending.failed;
    sse_read_fini(&sse);
    return whole;
}

bool
answers_is_whole(enum scan_api api, bool stream, struct slice body)
{
    struct ending ending = {.failed = false};

    if (stream) {
        return generates(api) && is_whole_stream(api, body);
    }
    return look_at(body, &ending) && !ending.failed &&
           (ending.finished || !generates(api));
}
