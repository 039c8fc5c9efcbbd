/* From a request's body to token ids. */
#include "node/local/local_tokens.h"

#include <stdio.h>
#include <string.h>

#include "index/base/arena.h"
#include "index/base/buf.h"
#include "node/local/local_chat_internal.h"
#include "node/local/local_internal.h"

#define CUT_FIRST ((size_t)64) /* bytes before the end; then four times more */

/* The string of a prompt, or the first one in a list: its text is the only one
 * that was scanned within the prompt. */
static bool
find_prompt(struct local_question *q, const struct scan *scan)
{
    const struct scan_text *raw = &scan->prompt_raw;

    if (scan->shape != SCAN_STRING && scan->shape != SCAN_STRINGS) {
        return false;
    }
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        const struct scan_span *span = &scan->spans[i];
        if (span->kind == SCAN_TEXT && span->at > raw->at &&
            span->at - raw->at < raw->len) {
            q->prompt = (struct slice){q->body.ptr + span->at, span->len};
            return true;
        }
    }
    return false;
}

/* A positive number; -1 means as much as the model takes, which is not too
 * little for a prompt that it answers. False: something else. */
static bool
read_truncation(struct local_question *q, struct slice raw)
{
    uint64_t value = 0;

    if (slice_equal(raw, SLICE("-1")) || slice_equal(raw, SLICE("null"))) {
        return true;
    }
    for (size_t i = 0; i < raw.len; i++) {
        if (raw.ptr[i] < '0' || raw.ptr[i] > '9' || value > UINT32_MAX / 16) {
            return false;
        }
        value = value * 10 + (uint64_t)(raw.ptr[i] - '0');
    }
    q->keep_last = (uint32_t)value;
    return value != 0;
}

/* Whose prompt is one text, and no conversation. */
static bool
is_text(enum scan_api api)
{
    return api == SCAN_API_TEXT || api == SCAN_API_EMBEDDINGS;
}

/* False positives cost a prediction alone. */
static bool
has_key(const struct local_question *q, struct slice key)
{
    return memmem(q->body.ptr, q->body.len, key.ptr, key.len) != NULL;
}

/* Texts that are cut or filled up where the model's tokenizer, or the request,
 * says at which end. */
static bool
is_fitted(const struct local_question *q, const struct scan *scan)
{
    return q->api == SCAN_API_EMBEDDINGS
               ? scan->truncated || has_key(q, SLICE("\"padding\""))
               : scan->truncated && has_key(q, SLICE("\"truncation_side\""));
}

/* Whether it says how it is to be rendered; a choice among tools is not. */
static bool
has_options(const struct scan *scan)
{
    for (uint32_t i = 0; i < SCAN_OPTIONS; i++) {
        if (i != SCAN_TOOL_CHOICE && scan->options[i].present) {
            return true;
        }
    }
    return false;
}

bool
local_question_read(struct local_question *q, const struct scan *scan)
{
    const struct scan_text *special = &scan->options[SCAN_ADD_SPECIAL_TOKENS];
    const struct scan_text *cut = &scan->options[SCAN_TRUNCATE_PROMPT_TOKENS];
    bool chat = !is_text(scan->api);
    struct slice said = {q->body.ptr + special->at,
                         special->present ? special->len : 0};

    q->api = scan->api;
    q->plain = chat ? !slice_equal(said, SLICE("true"))
                    : slice_equal(said, SLICE("false"));
    q->keep_last = 0;
    q->several = scan->prompts > 1;
    q->options = has_options(scan);
    if (scan->media || scan->spans_truncated || scan->api == SCAN_API_OTHER ||
        scan->api == SCAN_API_GUESSED || is_fitted(q, scan)) {
        return false;
    }
    if (cut->present &&
        !read_truncation(q, (struct slice){q->body.ptr + cut->at, cut->len})) {
        return false;
    }
    return chat ? scan->shape == SCAN_MESSAGES ||
                      (q->api == SCAN_API_RESPONSES &&
                       scan->shape == SCAN_STRING)
                : find_prompt(q, scan);
}

/* What one answer is made with. */
struct work {
    const struct local_question *q;
    const struct local_patience *patience;
    struct local_answer *answer;
    struct arena arena;
    struct buf text;
    int outcome;
};

static void
refuse(struct work *w, const char *why)
{
    w->outcome = LOCAL_E_REFUSED;
    (void)snprintf(w->answer->why, sizeof w->answer->why, "%s", why);
}

/* The text */

static void
unescape(struct work *w)
{
    struct slice raw = w->q->prompt;
    char *room = buf_reserve(&w->text, raw.len);

    if (room == NULL) {
        refuse(w, "the prompt is too long");
    } else if (raw.len != 0) {
        w->text.len = scan_unescape(raw.ptr, raw.len, room);
    }
}

static enum local_way
way_of(enum scan_api api, bool tools, bool options)
{
    switch (api) {
    case SCAN_API_RESPONSES:
        return options ? LOCAL_RESPONSES_OPTIONS : LOCAL_RESPONSES;
    case SCAN_API_MESSAGES:
        return options ? LOCAL_MESSAGES_OPTIONS
               : tools ? LOCAL_MESSAGES_TOOLS
                       : LOCAL_MESSAGES;
    case SCAN_API_CHAT:
        return options ? LOCAL_CHAT_OPTIONS
               : tools ? LOCAL_CHAT_TOOLS
                       : LOCAL_CHAT;
    case SCAN_API_EMBEDDINGS:
        return options ? LOCAL_EMBEDDINGS_OPTIONS : LOCAL_EMBEDDINGS;
    case SCAN_API_TEXT:
    case SCAN_API_POOLING: /* no scanned body is */
    case SCAN_API_OTHER:
    case SCAN_API_GUESSED:
    case SCAN_APIS:
        break;
    }
    return options ? LOCAL_TEXT_OPTIONS : LOCAL_TEXT;
}

static bool
is_among(struct slice text, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (slice_equal(text, slice_of(names[i]))) {
            return true;
        }
    }
    return false;
}

/* Whether some message has a role or a member that few have. */
static bool
has_rare_message(const struct json_value *request)
{
    static const char *const roles[] = {"user", "assistant", "system", "tool"};
    static const char *const members[] = {"role", "content", "tool_calls",
                                          "tool_call_id"};
    const struct json_value *messages = local_given(request, "messages");
    bool is = false;

    if (messages == NULL || messages->kind != JSON_ARRAY) {
        return false;
    }
    for (uint32_t i = 0; i < messages->len; i++) {
        const struct json_value *message = &messages->as.items[i];
        if (message->kind != JSON_OBJECT ||
            !is_among(local_text(message, "role", &is), roles,
                      sizeof roles / sizeof roles[0])) {
            return true;
        }
        for (uint32_t k = 0; k < message->len; k++) {
            if (!is_among(json_tree_slice(&message->as.members[k].key), members,
                          sizeof members / sizeof members[0])) {
                return true;
            }
        }
    }
    return false;
}

/* The request as its template gets it. False: the outcome says why not. */
static bool
rewrite(struct work *w, struct json_value *out)
{
    const struct local_question *q = w->q;
    struct local_build b = {.arena = &w->arena};
    struct json_tree_fault fault;
    struct json_value request;
    bool tools = false;

    if (!json_tree_read(q->body, &w->arena, &request, &fault)) {
        refuse(w, fault.why);
        return false;
    }
    if (local_given(local_given(&request, "kv_transfer_params"),
                    "prompt_token_ids") != NULL) {
        refuse(w, "the request brings its ids");
        return false;
    }
    bool options = q->options || has_rare_message(&request);
    if (q->api == SCAN_API_RESPONSES) {
        local_from_responses(&b, q->kind, &request, &request);
    } else if (q->api == SCAN_API_MESSAGES) {
        local_from_messages(&b, q->kind, &request, &request);
    }
    if (b.why == NULL) {
        bool offered = local_given(&request, "tools") != NULL;
        local_chat_rewrite(&b, local_rules_of(q->kind),
                           &q->model->wish[offered], &request, out, &tools);
    }
    if (b.why != NULL) {
        refuse(w, b.why);
    }
    w->answer->way = way_of(q->api, tools, options);
    (void)buf_reserve(&w->text, q->body.len); /* about as long */
    return b.why == NULL;
}

static void
render(struct work *w)
{
    struct template_limits limits = TEMPLATE_LIMITS;
    struct template_error error;
    struct json_value request;
    bool hurried = w->patience->render_steps < limits.steps_max;

    if (w->q->model->chat == NULL) {
        refuse(w, w->q->model->why);
        return;
    }
    if (!rewrite(w, &request)) {
        return;
    }
    if (hurried) {
        limits.steps_max = w->patience->render_steps;
    }
    if (template_chat_render(w->q->model->chat, &request, &limits, &w->q->clock,
                             &w->text, &error)) {
        return;
    }
    if (hurried) {
        w->outcome = LOCAL_E_LATER; /* it may be the steps */
        return;
    }
    refuse(w, "");
    (void)snprintf(w->answer->why, sizeof w->answer->why,
                   "line %u of the template: %s", (unsigned)error.line,
                   error.text);
}

/* The ids */

static bool
encode(struct work *w, struct tokenizer_scratch *scratch, struct slice text,
       unsigned flags)
{
    int outcome = tokenizer_encode(scratch, text, flags, &w->answer->ids);

    if (outcome != TOKENIZER_OK) {
        refuse(w, tokenizer_outcome_text(outcome));
    }
    return outcome == TOKENIZER_OK;
}

/*
 * The cuts of text[from, end): places near the end, each several times further
 * from it than the next, because a later turn may differ from this one near its
 * end: the opening of an answer, or thoughts that a template leaves out later.
 * They are written from the last to the first; returns how many.
 */
static uint32_t
choose_cuts(const struct work *w, size_t from, size_t places[LOCAL_CUTS_MAX])
{
    struct slice tail = {w->text.ptr + from, w->text.len - from};
    uint32_t count = 0;
    size_t limit = tail.len;

    for (size_t back = CUT_FIRST; limit != 0 && count < LOCAL_CUTS_MAX / 2;
         back *= 4) {
        size_t at = tokenizer_cut(w->q->model->tokenizer, tail, limit);
        if (at == 0) {
            break;
        }
        places[count++] = from + at;
        limit = tail.len > back ? tail.len - back : 0;
        limit = limit < at ? limit : at - 1;
    }
    return count;
}

/* Makes room for `more` cuts: those in the middle of the known ones go. */
static void
thin(struct local_found *known, uint32_t more)
{
    while (known->count + more > LOCAL_CUTS_MAX) {
        uint32_t at = known->count / 2;
        memmove(&known->cuts[at], &known->cuts[at + 1],
                (known->count - at - 1) * sizeof known->cuts[0]);
        known->count--;
    }
}

/* Encodes what follows the known beginning, piece by piece, and notes how many
 * ids each cut has before it. */
static void
encode_rest(struct work *w, struct tokenizer_scratch *scratch,
            struct local_found *known)
{
    size_t at = known->count != 0 ? known->cuts[known->count - 1].bytes : 0;
    size_t places[LOCAL_CUTS_MAX];
    uint32_t count = choose_cuts(w, at, places);

    thin(known, count);
    for (uint32_t i = count; w->outcome == 0 && i-- > 0;) {
        struct slice piece = {w->text.ptr + at, places[i] - at};
        if (!encode(w, scratch, piece, at != 0 ? TOKENIZER_CONTINUES : 0)) {
            return;
        }
        at = places[i];
        known->cuts[known->count++] =
            (struct local_cut){.bytes = at, .ids = w->answer->ids.count};
    }
    struct slice last = {w->text.ptr + at, w->text.len - at};
    if (last.len != 0) {
        (void)encode(w, scratch, last, at != 0 ? TOKENIZER_CONTINUES : 0);
    }
}

/* A chat's ids, from those of an earlier turn where there is one. */
static void
encode_turn(struct work *w, struct tokenizer_scratch *scratch,
            struct local_turns *turns)
{
    const struct local_question *q = w->q;
    struct slice text = buf_slice(&w->text);
    struct local_found known = {.count = 0};

    if (turns != NULL && q->names_count != 0) {
        local_turns_find(turns, local_model_version(q->model), q->names,
                         q->names_count, text, &w->answer->ids, &known);
    }
    size_t from = known.count != 0 ? known.cuts[known.count - 1].bytes : 0;
    if (text.len - from > w->patience->encode_bytes) {
        w->outcome = LOCAL_E_LATER;
        return;
    }
    encode_rest(w, scratch, &known);
    if (w->outcome == 0 && turns != NULL && q->names_count != 0) {
        local_turns_add(turns, local_model_version(q->model),
                        q->names[q->names_count - 1], text, w->answer->ids.ptr,
                        known.cuts, known.count);
    }
}

/* Engines cut a prompt's beginning off, and put special tokens around the
 * rest: those before it are kept. */
static void
keep_last(struct work *w, struct tokenizer_scratch *scratch)
{
    struct tokenizer_ids *ids = &w->answer->ids;
    struct tokenizer_ids around = {.max = 64};
    size_t head = 0;
    size_t keep = w->q->keep_last;

    if (keep == 0 || ids->count <= keep) {
        return;
    }
    if (!w->q->plain && tokenizer_encode(scratch, SLICE(""), TOKENIZER_SPECIAL,
                                         &around) == TOKENIZER_OK) {
        while (head < around.count && head < keep &&
               ids->ptr[head] == around.ptr[head]) {
            head++;
        }
    }
    tokenizer_ids_fini(&around);
    memmove(ids->ptr + head, ids->ptr + ids->count - (keep - head),
            (keep - head) * sizeof ids->ptr[0]);
    ids->count = keep;
}

static void
tokenise(struct work *w, struct local_turns *turns)
{
    struct local_scratch *place = local_scratch_take(w->q->model, w->q->place);

    if (place == NULL) {
        w->outcome = LOCAL_E_LATER;
        return;
    }
    if (!is_text(w->q->api) && w->q->plain) {
        encode_turn(w, place->scratch, turns);
    } else if (w->text.len > w->patience->encode_bytes) {
        w->outcome = LOCAL_E_LATER;
    } else {
        (void)encode(w, place->scratch, buf_slice(&w->text),
                     w->q->plain ? 0 : TOKENIZER_SPECIAL);
    }
    if (w->outcome == 0) {
        keep_last(w, place->scratch);
    }
    local_scratch_give(place);
}

int
local_tokens(const struct local_question *question,
             const struct local_patience *patience, struct local_turns *turns,
             struct local_answer *answer)
{
    struct template_limits limits = TEMPLATE_LIMITS;
    struct work w = {.q = question, .patience = patience, .answer = answer};

    answer->ids.count = 0;
    answer->way = way_of(question->api, false, question->options);
    answer->why[0] = '\0';
    if (question->model->tokenizer == NULL) {
        refuse(&w, question->model->why);
        return w.outcome;
    }
    if (question->body.len > patience->body_bytes) {
        return LOCAL_E_LATER;
    }
    arena_init(&w.arena, limits.memory_bytes);
    buf_init(&w.text, limits.output_bytes);
    if (is_text(question->api)) {
        unescape(&w);
    } else {
        render(&w);
    }
    if (w.outcome == 0 && !question->distrusted &&
        !local_model_can(question->model, answer->way)) {
        refuse(&w, "switched off: an engine has other tokens");
    }
    if (w.outcome == 0) {
        tokenise(&w, turns);
    }
    buf_fini(&w.text);
    arena_fini(&w.arena);
    return w.outcome;
}
