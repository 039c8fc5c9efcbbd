/* What both halves of a request are asked. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "node/route/split.h"
#include "node/text/json_pull.h"

/* What the prefill worker gets in place of a member's value. */
static const struct {
    const char *name;
    struct slice value;
} replaced[] = {
    {"stream", {"false", 5}}, {"stream_options", {"null", 4}},
    {"max_tokens", {"1", 1}}, {"max_completion_tokens", {"1", 1}},
    {"min_tokens", {"0", 1}},
};

#define MAX_TOKENS 2U /* of these */
#define REPLACED   (sizeof(replaced) / sizeof(replaced[0]))

_Static_assert(REPLACED == SPLIT_EDITS_MAX - 1, "and one that is added");

/* A request that has one of these is split by its client. */
static const char *const theirs[] = {
    "kv_transfer_params", "bootstrap_host",         "bootstrap_port",
    "bootstrap_room",     "disagg_prefill_dp_rank",
};

bool
split_suits(const struct scan *scan)
{
    bool apt = (scan->api == SCAN_API_CHAT && scan->shape == SCAN_MESSAGES) ||
               (scan->api == SCAN_API_TEXT &&
                (scan->shape == SCAN_STRING || scan->shape == SCAN_ID_LIST));

    return apt && scan->n == 1 && scan->prompts == 1 && !scan->stateful &&
           !scan->rescored;
}

/* Where the value of a key begins, in a document that is well-formed. */
static const char *
value_of(const struct json_pull *key)
{
    const char *at = key->text.ptr + key->text.len + 1;

    return at + strspn(at, ": \t\r\n");
}

/* The value of replaced[i] gives way. False: there are two of them. */
static bool
replace(struct split_form *form, size_t i, struct slice body,
        struct slice value)
{
    if ((form->seen >> i & 1) != 0) {
        return false; /* which one counts, the engine knows */
    }
    CHECK(form->count < SPLIT_EDITS_MAX - 1);
    form->seen |= 1U << i;
    form->member[form->count++] = (struct body_edit){
        .at = (uint32_t)(value.ptr - body.ptr),
        .cut = (uint32_t)value.len,
        .text = replaced[i].value,
    };
    return true;
}

/* The member whose key was read. */
static bool
read_member(struct json_pull *pull, struct split_form *form)
{
    const struct json_pull key = *pull;

    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++) {
        if (json_pull_is(&key, slice_of(theirs[i]))) {
            return json_pull_next(pull) == PULL_NULL;
        }
    }
    if (json_pull_next(pull) <= PULL_END || !json_pull_skip(pull)) {
        return false;
    }
    for (size_t i = 0; i < REPLACED; i++) {
        if (json_pull_is(&key, slice_of(replaced[i].name))) {
            const char *from = value_of(&key);
            size_t len = (size_t)(pull->bytes.ptr + pull->at - from);
            return replace(form, i, pull->bytes, (struct slice){from, len});
        }
    }
    return true;
}

bool
split_read(struct slice body, struct split_form *form)
{
    struct json_pull pull;
    enum pull_token token;

    *form = (struct split_form){.count = 0};
    json_pull_init(&pull, body);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    form->open = (uint32_t)pull.at;
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        if (!read_member(&pull, form)) {
            return false;
        }
    }
    return token == PULL_OBJECT_END;
}

#define ASKS                                                          \
    "\"kv_transfer_params\":{\"do_remote_decode\":true,"              \
    "\"do_remote_prefill\":false,\"remote_engine_id\":null,"          \
    "\"remote_block_ids\":null,\"remote_host\":null,\"remote_port\":" \
    "null},"

uint32_t
split_prefill_edits(const struct split_form *form,
                    struct body_edit edits[SPLIT_EDITS_MAX])
{
    edits[0] = (struct body_edit){
        .at = form->open,
        .text = (form->seen >> MAX_TOKENS & 1) != 0
                    ? SLICE(ASKS)
                    : SLICE(ASKS "\"max_tokens\":1,"),
    };
    memcpy(edits + 1, form->member, form->count * sizeof(*edits));
    return form->count + 1;
}

bool
split_params(struct slice answer, struct slice *member)
{
    struct slice name = SLICE("kv_transfer_params");
    struct json_pull pull;
    enum pull_token token;
    bool found = false;

    json_pull_init(&pull, answer);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        const struct json_pull key = pull;
        token = json_pull_next(&pull);
        if (token <= PULL_END || !json_pull_skip(&pull)) {
            return false;
        }
        if (json_pull_is(&key, name) && !key.escaped) {
            const char *from = key.text.ptr - 1;
            *member =
                (struct slice){from, (size_t)(answer.ptr + pull.at - from)};
            found = token == PULL_OBJECT;
        }
    }
    return found && token == PULL_OBJECT_END &&
           json_pull_next(&pull) == PULL_END;
}

uint32_t
split_room(const struct fleet_worker *prefill, uint64_t random,
           char text[SPLIT_ROOM_TEXT_MAX])
{
    int len =
        snprintf(text, SPLIT_ROOM_TEXT_MAX,
                 "\"bootstrap_host\":\"%s\",\"bootstrap_port\":%" PRIu32
                 ",\"bootstrap_room\":%" PRIu64 ",",
                 prefill->host, prefill->bootstrap_port, random & INT64_MAX);

    CHECK(len > 0 && (size_t)len < SPLIT_ROOM_TEXT_MAX);
    return (uint32_t)len;
}
