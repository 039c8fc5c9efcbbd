#include "node/scan.h"

#include <string.h>

#include "node/scan_fault.h"
#include "node/scan_walk.h"

/*
 * What the prompt is made of, in the order in which it is rendered. Of the
 * two names of the system prompt, and of the three of the prompt proper, the
 * first that is present is meant.
 */
enum section_id {
    TOOLS,
    FUNCTIONS,
    SYSTEM,
    INSTRUCTIONS,
    MESSAGES,
    INPUT,
    PROMPT,
    SECTIONS,
};

/* The last value at one of these keys, and its spans. */
struct section {
    bool present; /* of a type that we know */
    uint32_t at;  /* the value's first byte */
    uint32_t end; /* the byte after its last */
    uint32_t first;
    uint32_t count;
    struct prompt prompt;
};

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
    struct section sections[SECTIONS];
    struct integer maxes[MAXES];
    struct integer priority;
    struct integer n;
};

#define IS(name, literal) slice_equal(name, SLICE(literal))

/* Walks one section's value; its spans go behind those that are there. */
static void
walk_section(struct walk *w, enum section_id id, struct token t,
             struct section *s)
{
    struct scan_text raw;

    *s = (struct section){.at = t.at, .first = w->spans_count};
    switch (id) {
    case TOOLS:
    case FUNCTIONS:
        raw = walk_raw(w, t);
        walk_push(w, SCAN_TOOLS, raw);
        s->present = raw.present;
        break;
    case SYSTEM:
    case INSTRUCTIONS:
        s->present = walk_content(w, t);
        break;
    case MESSAGES:
        s->prompt = walk_messages(w, t);
        s->present = s->prompt.shape != SCAN_NO_PROMPT;
        break;
    case INPUT:
    case PROMPT:
        s->prompt = walk_prompt(w, t);
        s->present = s->prompt.shape != SCAN_NO_PROMPT;
        break;
    case SECTIONS:
        break;
    }
    s->end = w->taken + 1;
    s->count = w->spans_count - s->first;
    if (!s->present) {
        w->spans_count = s->first;
    }
}

/* A section's key came: what an earlier one said is void. */
static void
section(struct top *top, enum section_id id, struct token t)
{
    struct section *s = &top->sections[id];
    struct walk *w = &top->walk;

    if (s->present && s->first + s->count == w->spans_count) {
        w->spans_count = s->first;
    }
    walk_section(w, id, t, s);
}

static struct integer
integer(struct walk *w, struct token t)
{
    struct integer found = {.present = false};
    const struct scan_blocks *b = &w->blocks;

    if (t.kind == 0) {
        return found;
    }
    found.present = scan_integer(b->body, t.at, b->end, &found.value);
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

static bool
include_usage(struct walk *w, struct token t)
{
    struct scan_name room;
    bool found = false;

    if (t.kind != '{') {
        walk_skip(w, t);
        return false;
    }
    for (t = walk_token(w); t.kind == '"'; t = walk_token(w)) {
        struct slice name = walk_name(w, walk_string(w, t.at), &room);
        struct token value = walk_token(w);
        bool is = is_true(w, value);
        found = IS(name, "include_usage") ? is : found;
    }
    return found;
}

/* Keys that say how to answer. False: it is none of them. */
static bool
option(struct top *top, struct slice name, struct token t)
{
    struct walk *w = &top->walk;
    struct scan *scan = top->scan;

    if (IS(name, "model")) {
        scan->model = walk_text(w, t);
    } else if (IS(name, "stream")) {
        scan->stream = is_true(w, t);
    } else if (IS(name, "stream_options")) {
        scan->include_usage = include_usage(w, t);
    } else if (IS(name, "user")) {
        scan->user = walk_text(w, t);
    } else if (IS(name, "cache_salt")) {
        scan->salt = walk_text(w, t);
    } else if (IS(name, "session_id")) {
        scan->session = walk_text(w, t);
    } else if (IS(name, "max_completion_tokens")) {
        top->maxes[MAX_COMPLETION_TOKENS] = integer(w, t);
    } else if (IS(name, "max_output_tokens")) {
        top->maxes[MAX_OUTPUT_TOKENS] = integer(w, t);
    } else if (IS(name, "max_tokens")) {
        top->maxes[MAX_TOKENS] = integer(w, t);
    } else if (IS(name, "priority")) {
        top->priority = integer(w, t);
    } else if (IS(name, "n")) {
        top->n = integer(w, t);
    } else {
        return false;
    }
    return true;
}

static void
member(struct top *top, struct slice name, struct token t)
{
    static const struct {
        const char *name;
        size_t len;
    } names[SECTIONS] = {
        [TOOLS] = {"tools", 5},       [FUNCTIONS] = {"functions", 9},
        [SYSTEM] = {"system", 6},     [INSTRUCTIONS] = {"instructions", 12},
        [MESSAGES] = {"messages", 8}, [INPUT] = {"input", 5},
        [PROMPT] = {"prompt", 6},
    };

    for (unsigned id = 0; id < SECTIONS; id++) {
        if (name.len == names[id].len &&
            memcmp(name.ptr, names[id].name, name.len) == 0) {
            section(top, (enum section_id)id, t);
            return;
        }
    }
    if (!option(top, name, t)) {
        walk_skip(&top->walk, t);
    }
}

/* Whether nothing but white space follows the object's end. */
static bool
ends_here(const struct walk *w)
{
    const struct scan_blocks *b = &w->blocks;
    size_t at = (size_t)w->taken + 1;

    while (at < b->end && (b->body[at] == ' ' || b->body[at] == '\t' ||
                           b->body[at] == '\n' || b->body[at] == '\r')) {
        at++;
    }
    return at == b->end;
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
    for (t = walk_token(w); t.kind == '"'; t = walk_token(w)) {
        struct slice name = walk_name(w, walk_string(w, t.at), &room);
        struct token value = walk_token(w);
        member(top, name, value);
    }
    return t.kind == '}' && ends_here(w);
}

/* The sections that are meant, in order; how many. */
static unsigned
meant(struct top *top, struct section *list[SECTIONS])
{
    struct section *s = top->sections;
    unsigned count = 0;

    for (unsigned id = TOOLS; id <= FUNCTIONS; id++) {
        if (s[id].present) {
            list[count++] = &s[id];
        }
    }
    for (unsigned id = SYSTEM; id <= INSTRUCTIONS; id++) {
        if (s[id].present) {
            list[count++] = &s[id];
            break;
        }
    }
    for (unsigned id = MESSAGES; id <= PROMPT; id++) {
        if (s[id].present) {
            list[count++] = &s[id];
            top->scan->shape = s[id].prompt.shape;
            top->scan->prompts = s[id].prompt.prompts;
            break;
        }
    }
    return count;
}

static void
reverse(struct scan_span *spans, uint32_t from, uint32_t to)
{
    while (from + 1 < to) {
        struct scan_span span = spans[from];
        spans[from++] = spans[--to];
        spans[to] = span;
    }
}

/*
 * Brings the spans of each section to its place: what stood between moves
 * behind it. In most bodies they are there already.
 */
static void
arrange(struct walk *w, struct section *const *list, unsigned count)
{
    uint32_t place = 0;

    for (unsigned i = 0; i < count; i++) {
        uint32_t first = list[i]->first, end = first + list[i]->count;
        if (first != place) {
            reverse(w->spans, place, first);
            reverse(w->spans, first, end);
            reverse(w->spans, place, end);
            for (unsigned k = i + 1; k < count; k++) {
                list[k]->first += list[k]->first < first ? list[i]->count : 0;
            }
        }
        place += list[i]->count;
    }
    w->spans_count = place;
}

/*
 * The spans did not all fit, so they are gathered again, this time in order:
 * those that are kept must be the first.
 */
static void
gather(struct top *top, struct section *const *list, unsigned count)
{
    struct walk *w = &top->walk;

    w->spans_count = 0;
    w->spans_cut = false;
    for (unsigned i = 0; i < count && !w->spans_cut; i++) {
        struct section s = *list[i];
        enum section_id id = (enum section_id)(list[i] - top->sections);
        uint32_t depth_max = (uint32_t)w->blocks.depth_max;
        scan_blocks_init(&w->blocks, w->blocks.body, s.at, s.end, depth_max);
        walk_section(w, id, walk_token(w), &s);
    }
}

/* From what was found to what was asked. */
static void
conclude(struct top *top)
{
    struct scan *scan = top->scan;
    struct section *list[SECTIONS];
    unsigned count = meant(top, list);

    if (top->walk.spans_cut) {
        gather(top, list, count);
    } else {
        arrange(&top->walk, list, count);
    }
    scan->spans_count = top->walk.spans_count;
    scan->spans_cut = top->walk.spans_cut;
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
}

/* Says what is wrong; nothing else that was found is worth anything. */
static int
refuse(struct slice body, const struct scan_limits *limits, struct scan *scan)
{
    struct scan_fault fault;
    int outcome =
        scan_fault_find(body.ptr, body.len, limits->depth_max, &fault);

    *scan = (struct scan){.spans = scan->spans, .n = 1, .prompts = 1};
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
    *scan = (struct scan){.spans = scan->spans, .n = 1, .prompts = 1};
    memset(top.sections, 0, sizeof(top.sections));
    memset(top.maxes, 0, sizeof(top.maxes));
    top.priority.present = false;
    top.priority.value = 0;
    top.n.present = false;
    top.scan = scan;
    top.walk.kernel = kernel;
    top.walk.taken = 0;
    top.walk.spans = scan->spans;
    top.walk.spans_max = limits->spans_max;
    top.walk.spans_count = 0;
    top.walk.spans_cut = false;
    scan_blocks_init(&top.walk.blocks, body.ptr, 0, body.len,
                     limits->depth_max);
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
    return scan_body_with(scan_kernel_best(),
                          (struct slice){.ptr = body, .len = len}, limits,
                          scan);
}
