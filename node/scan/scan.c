/*
 * The members of the body's object, and what was asked in the end.
 */
#include "node/scan/scan.h"

#include <string.h>

#include "node/scan/scan_fault_internal.h"
#include "node/scan/scan_section_internal.h"
#include "node/scan/scan_walk_internal.h"

/* The names of the output's limit, the first that is present is meant. */
enum {
    MAX_COMPLETION_TOKENS,
    MAX_OUTPUT_TOKENS,
    MAX_TOKENS,
    MAXES
};

struct integer {
    bool present;
    int64_t value;
};

struct top {
    struct walk walk;
    struct scan *scan;
    const struct scan_limits *limits;
    struct sections sections;
    struct integer maxes[MAXES];
    struct integer priority;
    struct integer n;
    struct {
        bool prompt;   /* the prompt's are asked for by name, ... */
        bool ids;      /* ... or those of certain tokens */
        bool echo;     /* the prompt is part of the answer, ... */
        bool of_text;  /* ... with probabilities, of completions, ... */
        bool not_chat; /* ... or without, of chats */
    } scores;
};

#define NAME(literal)                                \
    {                                                \
        .ptr = (literal), .len = sizeof(literal) - 1 \
    }

static const struct slice option_names[SCAN_OPTIONS] = {
    [SCAN_CHAT_TEMPLATE] = NAME("chat_template"),
    [SCAN_CHAT_TEMPLATE_KWARGS] = NAME("chat_template_kwargs"),
    [SCAN_REASONING_EFFORT] = NAME("reasoning_effort"),
    [SCAN_TOOL_CHOICE] = NAME("tool_choice"),
    [SCAN_DOCUMENTS] = NAME("documents"),
    [SCAN_ADD_GENERATION_PROMPT] = NAME("add_generation_prompt"),
    [SCAN_CONTINUE_FINAL_MESSAGE] = NAME("continue_final_message"),
    [SCAN_ADD_SPECIAL_TOKENS] = NAME("add_special_tokens"),
    [SCAN_MM_PROCESSOR_KWARGS] = NAME("mm_processor_kwargs"),
    [SCAN_MEDIA_IO_KWARGS] = NAME("media_io_kwargs"),
    [SCAN_TRUNCATE_PROMPT_TOKENS] = NAME("truncate_prompt_tokens"),
    [SCAN_REASONING] = NAME("reasoning"),
    [SCAN_THINKING] = NAME("thinking"),
    [SCAN_OUTPUT_CONFIG] = NAME("output_config"),
    [SCAN_PREVIOUS_RESPONSE_ID] = NAME("previous_response_id"),
    [SCAN_CONVERSATION] = NAME("conversation"),
    [SCAN_INPUT_FILE_ID] = NAME("input_file_id"),
    [SCAN_TASK] = NAME("task"),
};

const char *
scan_option_name(enum scan_option option)
{
    CHECK(option < SCAN_OPTIONS);
    return option_names[option].ptr;
}

static struct integer
integer(struct walk *w, struct token t)
{
    struct integer found = {.present = false};
    if (t.kind == 0) {
        return found;
    }
    found.present = scan_integer(w->body, t.at, w->blocks.end, &found.value);
    walk_skip(w, t);
    return found;
}

/* Only the literal itself is true: a walk has checked that t is a literal. */
static bool
is_true(struct walk *w, struct token t)
{
    walk_skip(w, t);
    return t.kind == 't';
}

struct slice
scan_usage_text(enum scan_usage_lack lack, bool each)
{
    switch (lack) {
    case SCAN_USAGE_MEMBER:
        return each ? SLICE("\"stream_options\":{\"include_usage\":true,"
                            "\"continuous_usage_stats\":true},")
                    : SLICE("\"stream_options\":{\"include_usage\":true},");
    case SCAN_USAGE_OPTIONS:
        return each ? SLICE("{\"include_usage\":true,"
                            "\"continuous_usage_stats\":true}")
                    : SLICE("{\"include_usage\":true}");
    case SCAN_USAGE_KEY:
        return each ? SLICE("\"include_usage\":true,"
                            "\"continuous_usage_stats\":true,")
                    : SLICE("\"include_usage\":true,");
    case SCAN_USAGE_TRUE:
        return each ? SLICE("true,\"continuous_usage_stats\":true")
                    : SLICE("true");
    case SCAN_USAGE_EACH:
        return each ? SLICE("\"continuous_usage_stats\":true,") : SLICE("");
    case SCAN_USAGE_NOTHING:
        break;
    }
    return SLICE("");
}

/* false, or null: the engine takes it for false. */
static bool
is_no(struct token t)
{
    return t.kind == 'f' || t.kind == 'n';
}

/* What include_usage, which has that value, lacks; its object opens there. */
static struct scan_usage
usage_value(struct token t, uint32_t open)
{
    struct scan_usage usage = {.lack = SCAN_USAGE_NOTHING};

    if (is_no(t)) {
        usage.lack = SCAN_USAGE_TRUE;
        usage.at = t.at;
        usage.cut = t.kind == 'f' ? 5 : 4;
    } else if (t.kind == 't') {
        usage.lack = SCAN_USAGE_EACH;
        usage.at = open + 1;
    }
    return usage;
}

/* The members of an object of stream_options. */
static void
usage_members(struct top *top, struct token t)
{
    struct walk *w = &top->walk;
    struct scan *scan = top->scan;
    struct scan_name room;
    bool each = false;
    bool each_unsaid = true;
    uint32_t open = t.at;

    scan->usage = (struct scan_usage){.lack = SCAN_USAGE_OPTIONS, .at = open};
    for (t = walk_token(w); t.kind == '"'; t = walk_token(w)) {
        struct slice name = walk_key(w, t.at, &room);
        bool about_usage = WALK_IS(name, "include_usage");
        bool about_each = WALK_IS(name, "continuous_usage_stats");
        struct token value = walk_token(w);
        bool is = is_true(w, value);
        if (scan->usage.lack == SCAN_USAGE_OPTIONS) {
            scan->usage =
                (struct scan_usage){.lack = SCAN_USAGE_KEY, .at = open + 1};
        }
        if (about_usage) {
            scan->include_usage = is;
            scan->usage = usage_value(value, open);
        } else if (about_each) {
            scan->usage_of_each = is;
            each = !is_no(value);
            each_unsaid = false;
        }
    }
    if (scan->usage.lack == SCAN_USAGE_OPTIONS) {
        scan->usage.cut = t.at + 1 - open;
    }
    scan->usage.each_unsaid = each_unsaid;
    if (each) {
        scan->usage = (struct scan_usage){.lack = SCAN_USAGE_NOTHING};
    }
}

static void
stream_options(struct top *top, struct token t)
{
    struct scan *scan = top->scan;

    scan->include_usage = false;
    scan->usage_of_each = false;
    if (t.kind == '{') {
        usage_members(top, t);
        return;
    }
    scan->usage = (struct scan_usage){.lack = SCAN_USAGE_NOTHING};
    if (t.kind == 'n') {
        scan->usage = (struct scan_usage){SCAN_USAGE_OPTIONS, true, t.at, 4};
    }
    walk_skip(&top->walk, t);
}

/* Keys about probabilities. False: it is none of them. In a chat that echoes,
 * top_logprobs is 0 unless it is null. */
static bool
score_option(struct top *top, struct slice name, struct token t)
{
    bool given = t.kind != 'n';

    if (WALK_IS(name, "prompt_logprobs")) {
        top->scores.prompt = given;
    } else if (WALK_IS(name, "prompt_logprob_token_ids")) {
        top->scores.ids = given;
    } else if (WALK_IS(name, "echo")) {
        top->scores.echo = t.kind == 't';
    } else if (WALK_IS(name, "logprobs")) {
        top->scores.of_text = given;
    } else if (WALK_IS(name, "top_logprobs")) {
        top->scores.not_chat = !given;
    } else {
        return false;
    }
    walk_skip(&top->walk, t);
    return true;
}

static void
salt(struct top *top, struct token t)
{
    struct walk *w = &top->walk;
    struct scan *scan = top->scan;

    if (t.kind == '"') {
        scan->salt = walk_string(w, t.at);
        scan->salt_cut = scan->salt.len + 2;
    } else {
        scan->salt = (struct scan_text){.present = false};
        scan->salt_cut = walk_value(w, t).len;
        scan->apart |= t.kind == '[';
    }
    scan->salt_at = t.at;
}

/* Members that say more of the prompt, or of whose cache it may use, than tokens
 * of its text and events of blocks do. */
static bool
sets_apart(struct slice name)
{
    return WALK_IS(name, "extra_key") || WALK_IS(name, "lora_request") ||
           WALK_IS(name, "lora") || WALK_IS(name, "input_ids") ||
           WALK_IS(name, "session_params");
}

/* vLLM's, SGLang's and TensorRT-LLM's. */
static bool
halves(struct slice name)
{
    return WALK_IS(name, "kv_transfer_params") ||
           WALK_IS(name, "ec_transfer_params") ||
           WALK_IS(name, "bootstrap_host") || WALK_IS(name, "bootstrap_port") ||
           WALK_IS(name, "bootstrap_room") ||
           WALK_IS(name, "disagg_prefill_dp_rank") ||
           WALK_IS(name, "disaggregated_params");
}

/* Keys that say how to answer. False: it is none of them. */
static bool
option(struct top *top, struct slice name, struct token t)
{
    struct walk *w = &top->walk;
    struct scan *scan = top->scan;

    if (WALK_IS(name, "model")) {
        scan->model = walk_text(w, t);
    } else if (WALK_IS(name, "stream")) {
        scan->stream = is_true(w, t);
    } else if (WALK_IS(name, "stream_options")) {
        stream_options(top, t);
    } else if (WALK_IS(name, "cache_salt")) {
        salt(top, t);
    } else if (WALK_IS(name, "lora_path")) {
        scan->lora = walk_text(w, t);
        scan->apart |= t.kind == '[';
        scan->adapters |= t.kind != '"' && t.kind != 'n';
    } else if (sets_apart(name)) {
        bool given = walk_value(w, t).len > 2 && t.kind != 'n';
        scan->apart |= given;
        scan->stateful |= given && WALK_IS(name, "session_params");
        scan->adapters |= given && memcmp(name.ptr, "lora", 4) == 0;
    } else if (WALK_IS(name, "max_completion_tokens")) {
        top->maxes[MAX_COMPLETION_TOKENS] = integer(w, t);
    } else if (WALK_IS(name, "max_output_tokens")) {
        top->maxes[MAX_OUTPUT_TOKENS] = integer(w, t);
    } else if (WALK_IS(name, "max_tokens")) {
        top->maxes[MAX_TOKENS] = integer(w, t);
    } else if (WALK_IS(name, "priority")) {
        top->priority = integer(w, t);
        scan->priority_at = t.at;
        scan->priority_bad = !top->priority.present && t.kind != 'n';
    } else if (WALK_IS(name, "n")) {
        top->n = integer(w, t);
    } else if (WALK_IS(name, "temperature")) {
        struct integer heat = integer(w, t);
        scan->greedy = heat.present && heat.value == 0;
    } else {
        return false;
    }
    return true;
}

/* The option of that name; SCAN_OPTIONS: none. The length tells names apart,
 * or else the first letter. */
static enum scan_option
option_named(struct slice name)
{
    enum scan_option option;

    switch (name.len) {
    case 4:
        option = SCAN_TASK;
        break;
    case 8:
        option = SCAN_THINKING;
        break;
    case 9:
        option = name.ptr[0] == 'd' ? SCAN_DOCUMENTS : SCAN_REASONING;
        break;
    case 11:
        option = SCAN_TOOL_CHOICE;
        break;
    case 12:
        option = SCAN_CONVERSATION;
        break;
    case 13:
        option = name.ptr[0] == 'c'   ? SCAN_CHAT_TEMPLATE
                 : name.ptr[0] == 'i' ? SCAN_INPUT_FILE_ID
                                      : SCAN_OUTPUT_CONFIG;
        break;
    case 15:
        option = SCAN_MEDIA_IO_KWARGS;
        break;
    case 16:
        option = SCAN_REASONING_EFFORT;
        break;
    case 18:
        option = SCAN_ADD_SPECIAL_TOKENS;
        break;
    case 19:
        option = SCAN_MM_PROCESSOR_KWARGS;
        break;
    case 20:
        option = name.ptr[0] == 'c' ? SCAN_CHAT_TEMPLATE_KWARGS
                                    : SCAN_PREVIOUS_RESPONSE_ID;
        break;
    case 21:
        option = SCAN_ADD_GENERATION_PROMPT;
        break;
    case 22:
        option = name.ptr[0] == 'c' ? SCAN_CONTINUE_FINAL_MESSAGE
                                    : SCAN_TRUNCATE_PROMPT_TOKENS;
        break;
    default:
        return SCAN_OPTIONS;
    }
    return slice_equal(name, option_names[option]) ? option : SCAN_OPTIONS;
}

/* A member that nothing here reads. */
static void
other(struct top *top, struct slice name, struct token t)
{
    const struct scan_limits *limits = top->limits;

    top->scan->halved |= halves(name) && t.kind != 'n';
    for (uint32_t i = 0; i < limits->kept_count; i++) {
        if (slice_equal(name, limits->kept[i])) {
            top->scan->kept[i] = walk_text(&top->walk, t);
            return;
        }
    }
    walk_skip(&top->walk, t);
}

static void
member(struct top *top, struct slice name, struct token t)
{
    enum section_id section = section_named(name);

    CHECK_SLOW(t.at < top->walk.blocks.end || t.kind == 0);
    if (section != SECTIONS) {
        sections_walk(&top->sections, &top->walk, section, t);
    } else if (!option(top, name, t) && !score_option(top, name, t)) {
        enum scan_option id = option_named(name);
        if (id == SCAN_TRUNCATE_PROMPT_TOKENS) {
            top->scan->truncated = t.kind != 'n';
        }
        if (id != SCAN_OPTIONS) {
            top->scan->options[id] = walk_value(&top->walk, t);
        } else {
            other(top, name, t);
        }
    }
}

/* Whether nothing but white space follows the object's end. */
static bool
ends_here(const struct walk *w)
{
    size_t at = (size_t)w->taken + 1;
    size_t end = w->blocks.end;

    CHECK_SLOW(w->taken < w->blocks.end);
    while (at < end && (w->body[at] == ' ' || w->body[at] == '\t' ||
                        w->body[at] == '\n' || w->body[at] == '\r')) {
        at++;
    }
    return at == end;
}

/* False: a fault, somewhere. */
static bool
walk_top(struct top *top)
{
    struct walk *w = &top->walk;
    struct scan_name room;
    struct token t = walk_token(w);

    if (t.kind != '{') {
        return false;
    }
    top->scan->usage =
        (struct scan_usage){SCAN_USAGE_MEMBER, true, t.at + 1, 0};
    top->scan->salt_at = t.at + 1;
    for (t = walk_token(w); t.kind == '"'; t = walk_token(w)) {
        struct slice name = walk_key(w, t.at, &room);
        struct token value = walk_token(w);
        member(top, name, value);
    }
    return t.kind == '}' && ends_here(w);
}

static bool
has_value(const char *body, const struct scan_text *raw)
{
    return raw->present && body[raw->at] != 'n';
}

static enum scan_api
guess(const struct scan *scan)
{
    if (scan->prompt_is_input) {
        return SCAN_API_RESPONSES;
    }
    return scan->shape == SCAN_MESSAGES ? SCAN_API_CHAT : SCAN_API_TEXT;
}

/*
 * What is pooled: of the whole prompt, as embeddings are, or of each token, for
 * which no cache is read (vLLM 0.32: vllm/pooling_params.py). Where the body does
 * not say, the model does, and nobody here knows.
 */
static void
find_task(struct scan *scan, const char *body)
{
    static const struct {
        const char *task;
        bool each;
    } tasks[] = {{"\"embed\"", false},
                 {"\"classify\"", false},
                 {"\"token_embed\"", true},
                 {"\"token_classify\"", true}};
    const struct scan_text *raw = &scan->options[SCAN_TASK];
    struct slice said = {body + raw->at, raw->present ? raw->len : 0};

    scan->api = SCAN_API_OTHER;
    for (size_t i = 0; i < sizeof(tasks) / sizeof(tasks[0]); i++) {
        if (slice_equal(said, slice_of(tasks[i].task))) {
            scan->api = SCAN_API_EMBEDDINGS;
            scan->rescored = tasks[i].each;
        }
    }
}

/* From what was found to what was asked. */
static void
conclude(struct top *top)
{
    struct scan *scan = top->scan;
    struct sections_found found = sections_finish(&top->sections, &top->walk);
    const char *body = top->walk.body;

    scan->shape = found.prompt.shape;
    scan->prompts = found.prompt.prompts;
    scan->prompt_raw = found.raw;
    scan->prompt_is_input = found.is_input;
    scan->stateful =
        scan->stateful ||
        has_value(body, &scan->options[SCAN_PREVIOUS_RESPONSE_ID]) ||
        has_value(body, &scan->options[SCAN_CONVERSATION]);
    if (scan->api == SCAN_API_GUESSED) {
        scan->api = guess(scan);
    }
    scan->tools_raw = found.tools;
    scan->spans_count = top->walk.spans_count;
    scan->spans_truncated = top->walk.spans_truncated;
    scan->media = top->walk.media;
    scan->media_named = top->walk.media_named;
    scan->rescored = top->scores.prompt || top->scores.ids ||
                     (top->scores.echo &&
                      (scan->shape == SCAN_MESSAGES ? !top->scores.not_chat
                                                    : top->scores.of_text));
    if (scan->api == SCAN_API_POOLING) {
        find_task(scan, body);
    }
    for (unsigned i = 0; i < MAXES && !scan->has_max_tokens; i++) {
        scan->has_max_tokens = top->maxes[i].present;
        scan->max_tokens = top->maxes[i].value;
    }
    scan->has_priority = top->priority.present;
    scan->priority = top->priority.value;
    if (top->n.present && top->n.value >= 1) {
        scan->n =
            top->n.value < UINT32_MAX ? (uint32_t)top->n.value : UINT32_MAX;
    }
    CHECK_SLOW(scan->spans_count <= top->walk.spans_max);
}

/* Says what is wrong; all other results are then invalid. */
static int
refuse(struct slice body, const struct scan_limits *limits, struct scan *scan)
{
    struct scan_fault fault;
    int outcome =
        scan_fault_find(body.ptr, body.len, limits->depth_max, &fault);

    *scan = (struct scan){
        .spans = scan->spans, .api = scan->api, .n = 1, .prompts = 1};
    if (outcome == 0) {
        /* The two judges disagree: tests say that this does not happen. */
        fault = (struct scan_fault){.what = SCAN_DISPUTED};
        outcome = SCAN_E_SYNTAX;
    }
    scan->fault = fault.what;
    scan->fault_at = fault.at;
    return outcome;
}

int
scan_body_with(const struct scan_kernel *kernel, struct slice body,
               const struct scan_limits *limits, struct scan *scan)
{
    struct top top;

    CHECK(body.len <= UINT32_MAX && limits->depth_max <= SCAN_DEPTH_MAX);
    CHECK(limits->spans_max == 0 || scan->spans != NULL);
    CHECK(limits->kept_count <= SCAN_KEPT_MAX);
    struct scan_span *spans = scan->spans;
    enum scan_api api = scan->api;
    scan_wipe(scan, sizeof(*scan));
    scan->spans = spans;
    scan->api = api;
    scan->n = 1;
    scan->prompts = 1;
    sections_init(&top.sections);
    memset(top.maxes, 0, sizeof(top.maxes));
    memset(&top.scores, 0, sizeof(top.scores));
    top.priority.present = false;
    top.priority.value = 0;
    top.n.present = false;
    top.scan = scan;
    top.limits = limits;
    top.walk.kernel = kernel;
    top.walk.spans = scan->spans;
    top.walk.spans_max = limits->spans_max;
    top.walk.spans_count = 0;
    top.walk.spans_truncated = false;
    top.walk.media = false;
    top.walk.media_named = false;
    walk_init(&top.walk, body, 0, limits->depth_max);
    if (!walk_top(&top)) {
        return refuse(body, limits, scan);
    }
    conclude(&top);
    return 0;
}

int
scan_body(const char *body, size_t len, const struct scan_limits *limits,
          struct scan *scan)
{
    CHECK(body != NULL || len == 0);
    return scan_body_with(scan_kernel_best(),
                          (struct slice){.ptr = body, .len = len}, limits,
                          scan);
}
