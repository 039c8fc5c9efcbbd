/* How a request asks another worker for the rest of its answer. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/route/resume.h"
#include "node/route/resume_internal.h"
#include "node/text/json_pull.h"

/* The body */

/* What a member may say in a request that is continued; null always is. */
enum allowed {
    ALLOWED_NULL,
    ALLOWED_NO,     /* false, 0, "" */
    ALLOWED_ONE,    /* 1 */
    ALLOWED_YES,    /* true */
    ALLOWED_CHOICE, /* "auto", "none" */
    ALLOWED_TEXT,   /* {"type": "text"} */
};

/* Members that ask for what a continuation would not keep: a form that the
 * whole answer has, counts or penalties that begin with the answer, or another
 * way of going on. */
static const struct {
    const char *name;
    enum allowed allowed;
} members[] = {
    {"tool_choice", ALLOWED_CHOICE},
    {"functions", ALLOWED_NULL},
    {"function_call", ALLOWED_NULL},
    {"response_format", ALLOWED_TEXT},
    {"structured_outputs", ALLOWED_NULL},
    {"guided_json", ALLOWED_NULL},
    {"guided_regex", ALLOWED_NULL},
    {"guided_choice", ALLOWED_NULL},
    {"guided_grammar", ALLOWED_NULL},
    {"guided_json_object", ALLOWED_NO},
    {"json_schema", ALLOWED_NULL},
    {"regex", ALLOWED_NULL},
    {"ebnf", ALLOWED_NULL},
    {"grammar", ALLOWED_NULL},
    {"structural_tag", ALLOWED_NULL},
    {"n", ALLOWED_ONE},
    {"best_of", ALLOWED_ONE},
    {"use_beam_search", ALLOWED_NO},
    {"echo", ALLOWED_NO},
    {"suffix", ALLOWED_NO},
    {"logprobs", ALLOWED_NO},
    {"top_logprobs", ALLOWED_NO},
    {"prompt_logprobs", ALLOWED_NULL},
    {"presence_penalty", ALLOWED_NO},
    {"frequency_penalty", ALLOWED_NO},
    {"repetition_penalty", ALLOWED_ONE},
    {"add_generation_prompt", ALLOWED_YES},
    {"continue_final_message", ALLOWED_NO},
    {"truncate_prompt_tokens", ALLOWED_NULL},
    {"prompt_embeds", ALLOWED_NULL},
    {"modalities", ALLOWED_NULL},
    {"audio", ALLOWED_NULL},
    {"logits_processors", ALLOWED_NULL},
    {"custom_logit_processor", ALLOWED_NULL},
    {"kv_transfer_params", ALLOWED_NULL},
    {"session_params", ALLOWED_NULL},
    {"input_ids", ALLOWED_NULL}, /* SGLang's prompt then */
    {"return_token_ids", ALLOWED_NO},
    {"return_tokens_as_token_ids", ALLOWED_NO},
};

/* Numbers of tokens: the most, and the least. */
static const char *const count_names[] = {"max_tokens", "max_completion_tokens",
                                          "min_tokens"};

#define COUNT_NAMES (sizeof(count_names) / sizeof(count_names[0]))
#define COUNT_MIN   2U

struct asking {
    struct slice body;
    struct json_pull pull;
    struct slice refused; /* the member that it cannot be continued for */
    uint32_t open;        /* behind the body's bracket */
    uint32_t text_at;     /* where the text goes */
    uint32_t prompts;     /* members that have it */
    uint32_t maxes;       /* members that say how many tokens at most */
    bool stops;           /* by a string of several characters, ... */
    bool stops_shown; /* ... which the answer has, so nothing is held back */
    struct slice count[COUNT_NAMES];
    bool seen[COUNT_NAMES];
};

/* Reads the value that follows. False: it is not 0 or 1, as asked, by any
 * spelling without an exponent. */
static bool
is_number(struct slice digits, char first)
{
    if (digits.len == 0 || digits.ptr[0] != first) {
        return false;
    }
    for (size_t i = 1; i < digits.len; i++) {
        if (digits.ptr[i] != (i == 1 ? '.' : '0')) {
            return false;
        }
    }
    return true;
}

/* An object of one member, type: text. */
static bool
is_text_type(struct json_pull pull)
{
    bool type =
        json_pull_next(&pull) == PULL_KEY && json_pull_is(&pull, SLICE("type"));
    bool text = json_pull_next(&pull) == PULL_STRING &&
                json_pull_is(&pull, SLICE("text"));

    return type && text && json_pull_next(&pull) == PULL_OBJECT_END;
}

static bool
says(const struct json_pull *pull, enum pull_token token, enum allowed allowed)
{
    if (token == PULL_NULL) {
        return true;
    }
    switch (allowed) {
    case ALLOWED_NULL:
        return false;
    case ALLOWED_NO:
        return token == PULL_FALSE ||
               (token == PULL_STRING && pull->text.len == 0) ||
               (token == PULL_NUMBER && is_number(pull->text, '0'));
    case ALLOWED_ONE:
        return token == PULL_NUMBER && is_number(pull->text, '1');
    case ALLOWED_YES:
        return token == PULL_TRUE;
    case ALLOWED_CHOICE:
        return token == PULL_STRING && (json_pull_is(pull, SLICE("auto")) ||
                                        json_pull_is(pull, SLICE("none")));
    case ALLOWED_TEXT:
        return token == PULL_OBJECT && is_text_type(*pull);
    }
    return false;
}

/* The last of the messages is the client's: none that is to be gone on with.
 * The pull is inside the array. */
static bool
read_messages(struct asking *a)
{
    struct json_pull *pull = &a->pull;
    bool ours = false;
    enum pull_token token;

    while ((token = json_pull_next(pull)) == PULL_OBJECT) {
        ours = false;
        while ((token = json_pull_next(pull)) == PULL_KEY) {
            bool role = json_pull_is(pull, SLICE("role"));
            token = json_pull_next(pull);
            if (role) {
                ours = token == PULL_STRING &&
                       !json_pull_is(pull, SLICE("assistant"));
            }
            if (!json_pull_skip(pull)) {
                return false;
            }
        }
        if (token != PULL_OBJECT_END) {
            return false;
        }
    }
    a->text_at = (uint32_t)pull->at - 1;
    return token == PULL_ARRAY_END && ours;
}

static bool
read_prompt(struct asking *a, enum pull_token token, bool chat)
{
    a->prompts++;
    if (chat) {
        return token == PULL_ARRAY && read_messages(a);
    }
    a->text_at = (uint32_t)a->pull.at - 1;
    return token == PULL_STRING;
}

/* The member's value, a number of tokens. False: it says it twice, or in another
 * way. */
static bool
read_count(struct asking *a, size_t i, enum pull_token token)
{
    bool number = token == PULL_NUMBER;
    bool twice = a->seen[i];

    a->count[i] = number ? a->pull.text : SLICE("");
    a->maxes += number && i != COUNT_MIN;
    a->seen[i] = true;
    return !twice && (number || token == PULL_NULL);
}

/* The strings at which an answer ends: one, or several. */
static bool
read_stops(struct asking *a, enum pull_token token)
{
    struct json_pull inside = a->pull;
    bool several = token == PULL_ARRAY;

    do {
        a->stops = a->stops || (token == PULL_STRING &&
                                resume_char_len(inside.text) < inside.text.len);
    } while (several && (token = json_pull_next(&inside)) == PULL_STRING);
    return json_pull_skip(&a->pull);
}

/* The member whose key was read. False: it cannot be continued. */
static bool
read_member(struct asking *a, bool chat)
{
    struct json_pull key = a->pull;
    struct json_pull *pull = &a->pull;
    enum pull_token token = json_pull_next(pull);

    if (json_pull_is(&key, chat ? SLICE("messages") : SLICE("prompt"))) {
        return read_prompt(a, token, chat);
    }
    if (json_pull_is(&key, SLICE("stop"))) {
        return read_stops(a, token);
    }
    if (json_pull_is(&key, SLICE("include_stop_str_in_output"))) {
        a->stops_shown = token == PULL_TRUE;
        return json_pull_skip(pull);
    }
    for (size_t i = 0; i < COUNT_NAMES; i++) {
        if (json_pull_is(&key, slice_of(count_names[i]))) {
            return read_count(a, i, token);
        }
    }
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        if (json_pull_is(&key, slice_of(members[i].name)) &&
            !says(pull, token, members[i].allowed)) {
            return false;
        }
    }
    return json_pull_skip(pull);
}

/* Where everything is. False: such a request is not continued. */
static bool
may_continue(struct asking *a, struct slice body, bool chat)
{
    enum pull_token token;

    memset(a, 0, sizeof(*a));
    a->body = body;
    json_pull_init(&a->pull, body);
    if (json_pull_next(&a->pull) != PULL_OBJECT) {
        return false;
    }
    a->open = (uint32_t)a->pull.at;
    while ((token = json_pull_next(&a->pull)) == PULL_KEY) {
        struct slice name = a->pull.text;
        if (!read_member(a, chat)) {
            a->refused = name;
            return false;
        }
    }
    a->stops = a->stops && !a->stops_shown;
    if (a->prompts != 1) {
        a->refused = chat ? SLICE("messages") : SLICE("prompt");
    } else if (!chat && a->maxes == 0) {
        /* Without a number a completion has one that its engine knows. */
        a->refused = SLICE("max_tokens");
    }
    return token == PULL_OBJECT_END && a->refused.len == 0;
}

bool
resume_keeps(struct slice body, enum scan_api api, struct slice *member)
{
    struct asking asking;
    bool keeps = may_continue(&asking, body, api != SCAN_API_TEXT);

    *member = asking.refused;
    return keeps;
}

/* The edits */

static int
add_edit(struct body_edit *edits, int count, uint32_t at, struct slice text)
{
    int place = count;

    CHECK((unsigned)count < RESUME_EDITS_MAX);
    for (; place > 0 && edits[place - 1].at > at; place--) {
        edits[place] = edits[place - 1];
    }
    edits[place] = (struct body_edit){.at = at, .text = text};
    return count + 1;
}

/* A number of tokens, as many less; false: it would be none. */
static bool
lessen(struct resume *r, const struct asking *a, size_t i,
       struct body_edit *edits, int *count)
{
    struct slice digits = a->count[i];
    bool min = i == COUNT_MIN;
    uint64_t value = 0;

    for (size_t d = 0; d < digits.len; d++) {
        if (digits.ptr[d] < '0' || digits.ptr[d] > '9' || d > 12) {
            return false;
        }
        value = value * 10 + (uint64_t)(digits.ptr[d] - '0');
    }
    if (digits.len == 0 || (min && value == 0)) {
        return true;
    }
    if (min && (r->uncounted || a->stops)) {
        return false;
    }
    if (value <= r->asked_tokens && !min) {
        return false;
    }
    value -= value < r->asked_tokens ? value : r->asked_tokens;
    int len = snprintf(r->counts[i], sizeof(r->counts[i]), "%" PRIu64, value);
    uint32_t at = (uint32_t)(digits.ptr - a->body.ptr);
    *count =
        add_edit(edits, *count, at, (struct slice){r->counts[i], (size_t)len});
    for (int e = 0; e < *count; e++) {
        edits[e].cut = edits[e].at == at ? (uint32_t)digits.len : edits[e].cut;
    }
    return true;
}

static int
write_edits(struct resume *r, const struct asking *a, struct slice sure,
            struct body_edit *edits)
{
    int count = 0;

    if (r->api == SCAN_API_CHAT) {
        count = add_edit(edits, count, a->open,
                         SLICE("\"add_generation_prompt\":false,"
                               "\"continue_final_message\":true,"));
        count = add_edit(edits, count, a->text_at,
                         SLICE(",{\"role\":\"assistant\",\"content\":\""));
    }
    count = add_edit(edits, count, a->text_at, sure);
    if (r->api == SCAN_API_CHAT) {
        count = add_edit(edits, count, a->text_at, SLICE("\"}"));
    }
    for (size_t i = 0; i < COUNT_NAMES; i++) {
        if (!lessen(r, a, i, edits, &count)) {
            return -1;
        }
    }
    return count;
}

/* The text that is asked for again */

/* Whether the character i bytes before the end is escaped: an odd number of
 * backslashes stands before it. */
static bool
is_escaped(struct slice raw, size_t i)
{
    size_t count = 0;

    while (i + count < raw.len && raw.ptr[raw.len - i - 1 - count] == '\\') {
        count++;
    }
    return count % 2 == 1;
}

/* The four digits at the end of an escape. */
static unsigned
code_of(struct slice raw)
{
    char digits[5] = "";

    memcpy(digits, raw.ptr + raw.len - 4, 4);
    return (unsigned)strtoul(digits, NULL, 16);
}

/* White space as strip() knows it, or the first half of a pair. */
static bool
is_loose(unsigned code)
{
    return code <= 0x20 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x205F) || code == 0x3000 ||
           (code >= 0xD800 && code <= 0xDBFF);
}

bool
resume_ends_loose(struct slice raw)
{
    static const char *const blanks[] = {
        " ",           "\xC2\x85", "\xC2\xA0", "\xE1\x9A\x80", "\xE2\x81\x9F",
        "\xE3\x80\x80"};

    if (raw.len == 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(blanks) / sizeof(blanks[0]); i++) {
        if (slice_ends(raw, slice_of(blanks[i]))) {
            return true;
        }
    }
    /* Not all from U+2000 to U+203F are white space: then a token comes again
     * for nothing. */
    if (raw.len >= 3 && memcmp(raw.ptr + raw.len - 3, "\xE2\x80", 2) == 0) {
        return true;
    }
    if (strchr("nrtfb", raw.ptr[raw.len - 1]) != NULL && is_escaped(raw, 1)) {
        return true;
    }
    return raw.len >= 6 && raw.ptr[raw.len - 5] == 'u' && is_escaped(raw, 5) &&
           is_loose(code_of(raw));
}

/* How many of the last events' text is not said to be there, but asked for
 * again. RESUME_STARTS + 1: more than are known. *sure: where the rest ends. */
static uint32_t
left_out(const struct resume *r, struct resume_start *sure)
{
    uint32_t count = r->exact && r->events != 0 ? 1 : 0;

    for (; count <= RESUME_STARTS && count <= r->events; count++) {
        *sure = count == 0
                    ? (struct resume_start){(uint32_t)r->text_len, r->tokens}
                    : r->starts[(r->events - count) % RESUME_STARTS];
        if (!resume_ends_loose((struct slice){r->room, sure->at})) {
            return count;
        }
    }
    return RESUME_STARTS + 1;
}

int
resume_ask(struct resume *r, struct slice body,
           struct body_edit edits[RESUME_EDITS_MAX])
{
    struct asking asking;
    struct resume_start sure = {.at = 0};
    uint32_t count = left_out(r, &sure);

    if (!r->on || r->finished || r->torn || count > RESUME_STARTS) {
        return -1;
    }
    r->seam_at = sure.at;
    r->seam_end = r->text_len;
    r->asked_tokens = 0;
    if (sure.at == 0) {
        return 0;
    }
    if (!may_continue(&asking, body, r->api == SCAN_API_CHAT)) {
        return -1;
    }
    r->asked_tokens = asking.stops ? r->events - count : sure.tokens;
    return write_edits(r, &asking, (struct slice){r->room, sure.at}, edits);
}
