/* The events of a stream, one by one. */
#include "node/route/resume_event_internal.h"

#include <string.h>

#include "node/text/finish.h"
#include "node/text/json_pull.h"

#define DATA SLICE("data:")

#define CODE_MAX 100000U

/* The value of the event's one line of data. False: it has another form. */
static bool
data_of(struct slice event, struct slice *data)
{
    struct slice line = slice_take_line(&event);

    if (!slice_skip_text(&line, DATA)) {
        return false;
    }
    for (size_t i = 0; i < event.len; i++) {
        if (event.ptr[i] != '\r' && event.ptr[i] != '\n') {
            return false;
        }
    }
    *data = slice_trim(line);
    return true;
}

/* Skips the value that begins with the token; whether it says nothing. */
static bool
is_nothing(struct json_pull *pull, enum pull_token token)
{
    struct json_pull inside = *pull;
    bool nothing =
        token == PULL_NULL || (token == PULL_STRING && pull->text.len == 0) ||
        (token == PULL_ARRAY && json_pull_next(&inside) == PULL_ARRAY_END);

    return json_pull_skip(pull) && nothing;
}

/* A text, or null. */
static void
read_text(struct json_pull *pull, struct resume_event *told)
{
    enum pull_token token = json_pull_next(pull);

    if (token == PULL_STRING && told->text.len == 0) {
        told->text = pull->text;
    } else if (!is_nothing(pull, token)) {
        told->alien = true;
    }
}

static void
read_delta(struct json_pull *pull, struct resume_event *told)
{
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_OBJECT) {
        told->alien = true;
        return;
    }
    while ((token = json_pull_next(pull)) == PULL_KEY) {
        if (json_pull_is(pull, SLICE("content"))) {
            read_text(pull, told);
        } else if (json_pull_is(pull, SLICE("role"))) {
            told->role = json_pull_next(pull) == PULL_STRING;
            if (!told->role) {
                told->alien = true;
                return;
            }
        } else if (!is_nothing(pull, json_pull_next(pull))) {
            told->alien = true; /* tool calls, reasoning, a refusal, sound */
        }
    }
    told->alien = told->alien || token != PULL_OBJECT_END;
}

/* An answer that its engine gave up is not made whole here. */
static void
read_reason(struct json_pull *pull, struct resume_event *told)
{
    enum pull_token token = json_pull_next(pull);

    told->alien =
        told->alien || (token == PULL_STRING && finish_gives_up(pull->text));
    told->finished = !is_nothing(pull, token);
}

static void
read_choice_member(struct json_pull *pull, struct resume_event *told)
{
    uint64_t index;

    if (json_pull_is(pull, SLICE("delta"))) {
        read_delta(pull, told);
    } else if (json_pull_is(pull, SLICE("text"))) {
        read_text(pull, told);
    } else if (json_pull_is(pull, SLICE("finish_reason"))) {
        read_reason(pull, told);
    } else if (json_pull_is(pull, SLICE("index"))) {
        if (json_pull_next(pull) != PULL_NUMBER ||
            !json_pull_uint(pull, 0, &index)) {
            told->alien = true; /* a second answer */
        }
    } else if (json_pull_is(pull, SLICE("logprobs")) ||
               json_pull_is(pull, SLICE("token_ids"))) {
        told->alien = !is_nothing(pull, json_pull_next(pull)) || told->alien;
    } else if (!json_pull_skip(pull)) {
        told->alien = true;
    }
}

/* None, or one. */
static void
read_choices(struct json_pull *pull, struct resume_event *told)
{
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_ARRAY) {
        told->alien = true;
        return;
    }
    token = json_pull_next(pull);
    if (token == PULL_OBJECT) {
        told->choice = true;
        while ((token = json_pull_next(pull)) == PULL_KEY) {
            read_choice_member(pull, told);
        }
        token = token == PULL_OBJECT_END ? json_pull_next(pull) : PULL_BAD;
    }
    told->alien = told->alien || token != PULL_ARRAY_END;
}

static struct slice *
count_of(const struct json_pull *pull, struct resume_event *told)
{
    return json_pull_is(pull, SLICE("prompt_tokens")) ? &told->prompt_tokens
           : json_pull_is(pull, SLICE("completion_tokens"))
               ? &told->completion_tokens
           : json_pull_is(pull, SLICE("total_tokens")) ? &told->total_tokens
                                                       : NULL;
}

static void
read_usage(struct json_pull *pull, struct resume_event *told)
{
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_OBJECT) {
        told->alien = token != PULL_NULL || told->alien;
        return;
    }
    told->usage = true;
    while ((token = json_pull_next(pull)) == PULL_KEY) {
        struct slice *count = count_of(pull, told);
        bool number = json_pull_next(pull) == PULL_NUMBER;
        if (count != NULL && number) {
            *count = pull->text;
        }
        if (!json_pull_skip(pull)) {
            break;
        }
    }
    told->alien = told->alien || token != PULL_OBJECT_END;
}

/* An engine that has ended behind a living server says so in the stream. */
static void
read_error(struct json_pull *pull, struct resume_event *told)
{
    enum pull_token token = json_pull_next(pull);
    uint64_t code;

    told->alien = told->alien || token != PULL_NULL;
    if (token != PULL_OBJECT) {
        return;
    }
    while (json_pull_next(pull) == PULL_KEY) {
        bool is_code = json_pull_is(pull, SLICE("code"));
        token = json_pull_next(pull);
        if (is_code && token == PULL_NUMBER &&
            json_pull_uint(pull, CODE_MAX, &code)) {
            told->failed = code >= 500;
        }
        if (!json_pull_skip(pull)) {
            return;
        }
    }
}

static void
read_member(struct json_pull *pull, struct resume_event *told)
{
    struct json_pull value = *pull;
    enum pull_token token = json_pull_next(&value);

    if (json_pull_is(pull, SLICE("id")) && token == PULL_STRING) {
        told->id = value.text;
    } else if (json_pull_is(pull, SLICE("created")) && token == PULL_NUMBER) {
        told->created = value.text;
    } else if (json_pull_is(pull, SLICE("model")) && token == PULL_STRING) {
        told->model = value.text;
    }
    if (json_pull_is(pull, SLICE("choices"))) {
        read_choices(pull, told);
    } else if (json_pull_is(pull, SLICE("usage"))) {
        read_usage(pull, told);
    } else if (json_pull_is(pull, SLICE("error"))) {
        read_error(pull, told);
    } else if (!json_pull_skip(pull)) {
        told->alien = true;
    }
}

void
resume_event_read(struct slice event, struct resume_event *told)
{
    struct json_pull pull;
    enum pull_token token;
    struct slice data;

    memset(told, 0, sizeof(*told));
    if (event.len != 0 &&
        (event.ptr[0] == ':' || event.ptr[0] == '\n' || event.ptr[0] == '\r')) {
        return; /* a comment, or nothing at all */
    }
    if (!data_of(event, &data)) {
        told->alien = true;
        return;
    }
    if (slice_equal(data, SLICE("[DONE]"))) {
        told->done = true;
        return;
    }
    json_pull_init(&pull, data);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        told->alien = true;
        return;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        read_member(&pull, told);
    }
    told->alien = told->alien || token != PULL_OBJECT_END;
}
