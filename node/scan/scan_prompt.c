/*
 * The prompt in its many shapes: messages, text, lists of texts and of ids.
 */
#include "node/scan/scan_walk_internal.h"

/* What comes behind a message's content, in the order of its spans: text, then
 * raw. */
enum behind {
    NAME,
    REASONING_CONTENT,
    REASONING, /* the newer name of the same */
    CALLS,
    CALL,
    SUMMARY, /* of an item of reasoning */
    BEHINDS,
};

/* What one message may hold beside its content, the last of each key. */
struct message {
    struct scan_text role;
    bool known; /* it has a role or content: not an item of another sort */
    unsigned behind_set; /* which of those are present */
    struct scan_text behind[BEHINDS];
};

static void
put_behind(struct message *m, enum behind which, struct scan_text text)
{
    CHECK_SLOW(which < BEHINDS);
    m->behind_set &= ~(1U << which);
    m->behind_set |= (unsigned)text.present << which;
    m->behind[which] = text;
}

/*
 * The spans of `content` come right behind the role's, wherever it stands;
 * when it stands there twice the first one's are taken back.
 */
struct mark {
    uint32_t spans_count;
    bool spans_truncated;
};

static void
take_back(struct walk *w, struct mark mark)
{
    CHECK_SLOW(mark.spans_count <= w->spans_count);
    w->spans_count = mark.spans_count;
    w->spans_truncated = mark.spans_truncated;
}

static void
message_value(struct walk *w, uint32_t key, struct message *m,
              struct mark after_role)
{
    struct scan_name room;
    struct slice name = walk_key(w, key, &room);
    struct token value = walk_token(w);

    if (WALK_IS(name, "content")) {
        take_back(w, after_role);
        m->known = true;
        (void)walk_content(w, value);
    } else if (WALK_IS(name, "role")) {
        m->known = true;
        m->role = walk_text(w, value);
    } else if (WALK_IS(name, "name")) {
        put_behind(m, NAME, walk_text(w, value));
    } else if (WALK_IS(name, "reasoning_content")) {
        put_behind(m, REASONING_CONTENT, walk_text(w, value));
    } else if (WALK_IS(name, "reasoning")) {
        put_behind(m, REASONING, walk_text(w, value));
    } else if (WALK_IS(name, "tool_calls")) {
        put_behind(m, CALLS, walk_raw(w, value));
    } else if (WALK_IS(name, "function_call")) {
        put_behind(m, CALL, walk_raw(w, value));
    } else if (WALK_IS(name, "summary")) {
        put_behind(m, SUMMARY, walk_raw(w, value));
    } else {
        walk_skip(w, value);
    }
}

/* One element of `messages`: see scan.h for the order of its spans. */
static void
message(struct walk *w, uint32_t at)
{
    struct message m;
    uint32_t role = w->spans_count;
    bool placed;

    CHECK_SLOW(w->body[at] == '{');
    walk_push(w, SCAN_ROLE, (struct scan_text){.at = at, .present = true});
    placed = !w->spans_truncated;
    struct mark mark = {.spans_count = w->spans_count,
                        .spans_truncated = w->spans_truncated};
    m.known = false;
    m.role.present = false;
    m.behind_set = 0;
    struct token t = walk_token(w);
    for (; t.kind == '"'; t = walk_token(w)) {
        message_value(w, t.at, &m, mark);
    }
    if (placed && m.role.present) {
        w->spans[role].at = m.role.at;
        w->spans[role].len = m.role.len;
        w->spans[role].escaped = m.role.escaped;
    }
    if (!m.known) {
        walk_push(w, SCAN_TOOLS,
                  (struct scan_text){
                      .at = at, .len = t.at + 1 - at, .present = true});
        return;
    }
    CHECK_SLOW(w->spans_count >= role);
    for (unsigned left = m.behind_set; left != 0; left &= left - 1) {
        unsigned which = (unsigned)__builtin_ctz(left);
        walk_push(w, which < CALLS ? SCAN_TEXT : SCAN_TOOLS, m.behind[which]);
    }
}

/* The elements of an array of messages, of which t is the first. */
static void
messages_from(struct walk *w, struct token t)
{
    for (; walk_open(t); t = walk_token(w)) {
        if (t.kind == '{') {
            message(w, t.at);
        } else {
            walk_skip(w, t);
        }
    }
}

struct prompt
walk_messages(struct walk *w, struct token t)
{
    if (t.kind != '[') {
        walk_skip(w, t);
        return (struct prompt){.shape = SCAN_NO_PROMPT};
    }
    messages_from(w, walk_token(w));
    return (struct prompt){.shape = SCAN_MESSAGES, .prompts = 1};
}

/*
 * Goes past a block that has plain numbers and nothing else, and on to the
 * next. False: the last of them turned out to be something else there.
 */
static bool
pass_block(struct walk *w)
{
    const struct scan_frames *f = &w->blocks.window.frames;
    size_t last = w->at + 63 - (size_t)__builtin_clzll(w->tokens);

    CHECK_SLOW(w->tokens != 0);
    return walk_block(w, INT32_MAX) &&
           ((f->plain >> w->frame & 1) != 0 ||
            scan_scalar(w->body, last, w->blocks.end) == SCAN_PLAIN);
}

/*
 * Goes past the rest of an array of ids and its bracket; the offset after it.
 * 0 when there is anything but plain numbers: then the walk is at the end of
 * that as well.
 */
static uint32_t
ids(struct walk *w)
{
    const struct scan_frames *f = &w->blocks.window.frames;
    struct token t;

    CHECK_SLOW(w->frame <= f->count);
    for (;;) {
        while ((f->plain >> w->frame & 1) != 0 && w->tokens != 0 &&
               (w->tokens & ~f->starts[w->frame]) == 0) {
            if (!pass_block(w)) {
                walk_leave(w);
                return 0;
            }
        }
        t = walk_token(w);
        if (t.kind == ']' || t.kind == 0) {
            return t.at + 1;
        }
        if (t.kind == '"' || t.kind == '{' || t.kind == '[' ||
            scan_scalar(w->body, t.at, w->blocks.end) != SCAN_PLAIN) {
            walk_skip(w, t);
            walk_leave(w);
            return 0;
        }
    }
}

/* The rest of an array, of which t is the first element, all like it. */
static struct prompt
list_from(struct walk *w, struct token t, enum scan_shape shape)
{
    struct prompt none = {.shape = SCAN_NO_PROMPT};
    uint32_t count = 0;
    int32_t kind = t.kind;

    CHECK_SLOW(shape == SCAN_STRINGS || shape == SCAN_ID_LISTS);
    for (; walk_open(t); t = walk_token(w), count++) {
        struct scan_text found = {.present = false};
        if (t.kind == '"' && kind == '"') {
            found = walk_string(w, t.at);
        } else if (t.kind == '[' && kind == '[') {
            uint32_t after = ids(w);
            found = (struct scan_text){
                .at = t.at, .len = after - t.at, .present = after != 0};
        } else {
            walk_skip(w, t);
        }
        if (!found.present) {
            walk_leave(w);
            return none;
        }
        if (count == 0) {
            walk_push(w, kind == '"' ? SCAN_TEXT : SCAN_IDS, found);
        }
    }
    return (struct prompt){.shape = shape, .prompts = count};
}

/* An array at `at` whose first element t is a scalar. */
static struct prompt
id_list(struct walk *w, uint32_t at, struct token t)
{
    struct prompt none = {.shape = SCAN_NO_PROMPT};
    uint32_t after;

    CHECK_SLOW(w->body[at] == '[');
    if (scan_scalar(w->body, t.at, w->blocks.end) != SCAN_PLAIN) {
        walk_leave(w);
        return none;
    }
    after = ids(w);
    if (after == 0) {
        return none;
    }
    walk_push(w, SCAN_IDS,
              (struct scan_text){.at = at, .len = after - at, .present = true});
    return (struct prompt){.shape = SCAN_ID_LIST, .prompts = 1};
}

struct prompt
walk_prompt(struct walk *w, struct token t)
{
    struct prompt none = {.shape = SCAN_NO_PROMPT};

    if (t.kind == '"') {
        walk_push(w, SCAN_TEXT, walk_string(w, t.at));
        return (struct prompt){.shape = SCAN_STRING, .prompts = 1};
    }
    if (t.kind != '[') {
        walk_skip(w, t);
        return none;
    }
    struct token first = walk_token(w);
    switch (first.kind) {
    case '"':
        return list_from(w, first, SCAN_STRINGS);
    case '[':
        return list_from(w, first, SCAN_ID_LISTS);
    case '{':
        messages_from(w, first);
        return (struct prompt){.shape = SCAN_MESSAGES, .prompts = 1};
    case ']':
    case 0:
        return none;
    default:
        return id_list(w, t.at, first);
    }
}
