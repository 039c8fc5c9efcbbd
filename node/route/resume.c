/* A stream that may be resumed: what passes, what is kept, and the seam. */
#include "node/route/resume.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "index/base/mutant.h"
#include "node/route/resume_event_internal.h"
#include "node/route/resume_internal.h"

#define CHAR_RAW_MAX 12U /* \ud83d\ude00 */

void
resume_init(struct resume *r)
{
    memset(r, 0, offsetof(struct resume, id));
    r->line_empty = true;
    buf_init(&r->joined, 2 * RESUME_BYTES_MAX);
}

void
resume_begin(struct resume *r, enum scan_api api, bool exact, bool marks)
{
    CHECK(!r->on && r->times == 0 && r->room == NULL);
    r->on = true;
    r->api = api;
    r->exact = exact;
    r->marks = marks;
}

void
resume_fini(struct resume *r)
{
    CHECK(r->room == NULL);
    buf_fini(&r->joined);
}

size_t
resume_needs(const struct resume *r, size_t len)
{
    return r->on || r->joins ? r->text_len + r->held_len + len : 0;
}

void
resume_end(struct resume *r)
{
    r->torn = r->torn || (r->joins && r->seam_at < r->seam_end);
    r->on = false;
    r->joins = false;
}

void
resume_give(struct resume *r, struct slice piece)
{
    CHECK(r->piece.len == 0);
    r->piece = piece;
}

/* Text */

/* tokens: with this text; 0: untold. */
static void
keep_text(struct resume *r, struct slice text, uint32_t tokens)
{
    if (!r->on || text.len == 0) {
        return;
    }
    CHECK(r->room != NULL && r->text_len + text.len <= r->size);
    if (MUTANT(BY_EVENTS)) {
        tokens = 0;
    }
    r->starts[r->events++ % RESUME_STARTS] =
        (struct resume_start){(uint32_t)r->text_len, r->tokens};
    r->uncounted = r->uncounted || tokens == 0;
    r->tokens = tokens > r->tokens ? tokens : r->tokens + (tokens == 0);
    memmove(r->room + r->text_len, text.ptr, text.len);
    r->text_len += text.len;
}

/* The held event was handed out, and is no longer needed. */
static void
keep_late(struct resume *r)
{
    keep_text(r, r->late, r->late_tokens);
    r->late.len = 0;
}

size_t
resume_char_len(struct slice raw)
{
    unsigned char c = (unsigned char)raw.ptr[0];
    size_t len = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;

    if (c == '\\') {
        len = raw.len > 1 && raw.ptr[1] == 'u' ? 6 : 2;
        if (raw.len >= CHAR_RAW_MAX && len == 6 && raw.ptr[6] == '\\' &&
            raw.ptr[7] == 'u' && (raw.ptr[2] | 0x20) == 'd' &&
            raw.ptr[3] >= '8' && (raw.ptr[3] | 0x20) != 'c' &&
            (raw.ptr[3] | 0x20) < 'd') {
            len = CHAR_RAW_MAX;
        }
    }
    return len < raw.len ? len : raw.len;
}

/* Takes what has to come again off the front of the text: how many of its raw
 * bytes, or more than there are if it begins otherwise. */
static size_t
match_seam(struct resume *r, struct slice text)
{
    struct slice rest = text;
    char one[CHAR_RAW_MAX];
    char other[CHAR_RAW_MAX];

    while (r->seam_at < r->seam_end && rest.len != 0) {
        const char *seam = r->room + r->seam_at;
        size_t raw = resume_char_len(rest);
        size_t due =
            resume_char_len((struct slice){seam, r->seam_end - r->seam_at});
        size_t len = scan_unescape(rest.ptr, raw, one);
        if (len != scan_unescape(seam, due, other) ||
            memcmp(one, other, len) != 0) {
            return text.len + 1;
        }
        r->seam_at += due;
        slice_skip(&rest, raw);
    }
    return text.len - rest.len;
}

/* Joining */

struct splice {
    struct slice cut;
    struct slice text;
};

#define SPLICES_MAX 6U

static unsigned
add_splice(struct splice *list, unsigned count, struct slice cut,
           struct slice text)
{
    unsigned at = count;

    if (cut.ptr == NULL) {
        return count;
    }
    for (; at > 0 && list[at - 1].cut.ptr > cut.ptr; at--) {
        list[at] = list[at - 1];
    }
    list[at] = (struct splice){cut, text};
    return count + 1;
}

static uint64_t
number_of(struct slice digits)
{
    uint64_t value = 0;

    for (size_t i = 0; i < digits.len && i < 12; i++) {
        value = value * 10 + (uint64_t)(digits.ptr[i] - '0') % 10;
    }
    return value;
}

/* Of all answers so far, with what this event tells of its own; 0: nothing. */
static uint32_t
tokens_of(const struct resume *r, const struct resume_event *told)
{
    uint64_t all = r->asked_tokens + number_of(told->completion_tokens);

    return told->completion_tokens.len == 0 ? 0
           : all < UINT32_MAX               ? (uint32_t)all
                                            : UINT32_MAX;
}

/* The event, with its id, its time, its counts and its text as they should be;
 * so many raw bytes of the text have been said before. */
static struct slice
splice_event(struct resume *r, struct slice event,
             const struct resume_event *told, size_t said)
{
    struct splice list[SPLICES_MAX];
    unsigned count = 0;
    uint64_t all = tokens_of(r, told);
    char numbers[3][24];
    int lens[3] = {
        snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu64, r->prompt_tokens),
        snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu64, all),
        snprintf(numbers[2], sizeof(numbers[2]), "%" PRIu64,
                 r->prompt_tokens + all),
    };
    const char *from = event.ptr;

    if (r->id_len != 0) {
        count =
            add_splice(list, count, told->id, (struct slice){r->id, r->id_len});
    }
    if (r->created_len != 0) {
        count = add_splice(list, count, told->created,
                           (struct slice){r->created, r->created_len});
    }
    count = add_splice(list, count, told->prompt_tokens,
                       (struct slice){numbers[0], (size_t)lens[0]});
    count = add_splice(list, count, told->completion_tokens,
                       (struct slice){numbers[1], (size_t)lens[1]});
    if (r->prompt_tokens != 0) {
        count = add_splice(list, count, told->total_tokens,
                           (struct slice){numbers[2], (size_t)lens[2]});
    }
    if (said != 0) {
        count = add_splice(list, count, (struct slice){told->text.ptr, said},
                           SLICE(""));
    }
    for (unsigned i = 0; i < count; i++) {
        buf_add(&r->joined, from, (size_t)(list[i].cut.ptr - from));
        buf_add_slice(&r->joined, list[i].text);
        from = list[i].cut.ptr + list[i].cut.len;
    }
    buf_add(&r->joined, from, (size_t)(event.ptr + event.len - from));
    return (struct slice){r->joined.ptr, r->joined.len};
}

static void
put_mark(struct resume *r)
{
    if (r->marks && r->times != 0) {
        buf_printf(&r->joined, ": x-kvasir-resumed: %u\n\n", r->times);
    }
}

/* An event of a continuation: what the client gets for it. */
static struct slice
join(struct resume *r, struct slice event, struct resume_event *told)
{
    struct slice nothing = SLICE("");
    bool first = r->role_due;
    bool had_text = told->text.len != 0;
    size_t said = match_seam(r, told->text);
    bool ends = told->finished || told->done || told->alien;

    if (said > told->text.len || (ends && r->seam_at < r->seam_end)) {
        r->torn = true;
        return nothing;
    }
    if (MUTANT(SAID_TWICE)) {
        said = 0;
    }
    r->role_due = r->role_due && !had_text && !told->role;
    buf_clear(&r->joined);
    if (told->done) {
        put_mark(r);
    }
    struct slice out = splice_event(r, event, told, said);
    slice_skip(&told->text, said);
    if (r->joined.failed) {
        r->torn = true;
        return nothing;
    }
    bool usage = told->usage && !told->choice;
    bool empty = told->text.len == 0 && !ends && !usage;
    bool again = had_text || (first && told->role && r->role_told);
    return empty && again ? nothing : out;
}

/* Events */

/* Bytes of the piece up to the end of its first event; 0: it ends later. */
static size_t
event_end(struct resume *r)
{
    struct slice all = r->piece;
    size_t at = 0;

    while (at < all.len) {
        const char *lf = memchr(all.ptr + at, '\n', all.len - at);
        size_t end = lf != NULL ? (size_t)(lf - all.ptr) : all.len;
        if (end > at && !(end - at == 1 && all.ptr[at] == '\r')) {
            r->line_empty = false;
        }
        if (lf == NULL) {
            return 0;
        }
        bool blank = r->line_empty;
        r->line_empty = true;
        at = end + 1;
        if (blank) {
            return at;
        }
    }
    return 0;
}

static void
hold(struct resume *r, struct slice part)
{
    CHECK(r->text_len + r->held_len + part.len <= r->size);
    memcpy(r->room + r->text_len + r->held_len, part.ptr, part.len);
    r->held_len += part.len;
}

static void
note_names(struct resume *r, const struct resume_event *told)
{
    if (r->id_len == 0 && told->id.len <= sizeof(r->id) && told->id.len != 0) {
        memcpy(r->id, told->id.ptr, told->id.len);
        r->id_len = (uint32_t)told->id.len;
    }
    if (r->created_len == 0 && told->created.len <= sizeof(r->created) &&
        told->created.len != 0) {
        memcpy(r->created, told->created.ptr, told->created.len);
        r->created_len = (uint32_t)told->created.len;
    }
    if (r->model_len == 0 && told->model.len <= sizeof(r->model) &&
        told->model.len != 0) {
        memcpy(r->model, told->model.ptr, told->model.len);
        r->model_len = (uint32_t)told->model.len;
    }
}

/* The usage of the answer is an event of its own, whatever was told before. */
static void
note_usage(struct resume *r, const struct resume_event *told)
{
    uint64_t prompt = number_of(told->prompt_tokens);

    if (r->prompt_tokens == 0) {
        r->prompt_tokens =
            prompt > r->asked_tokens ? prompt - r->asked_tokens : prompt;
    }
    r->usage_told = r->usage_told || (told->usage && !told->choice);
}

/* What the client gets for an event; held: it lies in the room. */
static struct slice
see_event(struct resume *r, struct slice event, bool held)
{
    struct resume_event told;
    struct slice out = event;

    resume_event_read(event, &told);
    if (told.failed && r->on) {
        r->failed = true;
        buf_clear(&r->joined);
        buf_add_slice(&r->joined, event);
        return SLICE("");
    }
    r->on = r->on && !told.alien;
    note_names(r, &told);
    note_usage(r, &told);
    if (r->joins) {
        out = join(r, event, &told);
        held = false; /* it is a copy now */
    }
    r->role_told = r->role_told || told.role;
    if (told.finished) {
        r->finished = true;
        r->end_tokens = tokens_of(r, &told);
    }
    r->done = r->done || told.done;
    if (held) {
        r->late = told.text;
        r->late_tokens = tokens_of(r, &told);
    } else {
        keep_text(r, told.text, tokens_of(r, &told));
    }
    return out;
}

/* The next event of the piece. False: it is not whole yet. */
static bool
step(struct resume *r, struct slice *out)
{
    size_t end = event_end(r);
    struct slice part =
        slice_take_len(&r->piece, end != 0 ? end : r->piece.len);

    if (end == 0 || r->held_len != 0) {
        hold(r, part);
    }
    if (end == 0) {
        return false;
    }
    if (r->held_len == 0) {
        *out = see_event(r, part, false);
        return true;
    }
    struct slice event = {r->room + r->text_len, r->held_len};
    r->held_len = 0;
    *out = see_event(r, event, true);
    return true;
}

/* Nothing is looked at any more. */
static bool
pass(struct resume *r, struct slice *out)
{
    struct slice held = {r->room != NULL ? r->room + r->text_len : "",
                         r->held_len};

    *out = held.len != 0 ? held : slice_take_len(&r->piece, r->piece.len);
    r->held_len = 0;
    return out->len != 0;
}

bool
resume_next(struct resume *r, struct slice *out)
{
    keep_late(r);
    out->len = 0;
    while (out->len == 0 && !r->torn && !r->failed) {
        if (!r->on && !r->joins) {
            return pass(r, out);
        }
        if (r->piece.len == 0 || !step(r, out)) {
            return false;
        }
    }
    if (r->torn || r->failed) {
        r->piece.len = 0;
        return false;
    }
    CHECK(r->held_len == 0 && r->text_len <= r->size);
    return true;
}

struct slice
resume_rest(struct resume *r)
{
    struct slice rest = {r->room != NULL ? r->room + r->text_len : "",
                         r->held_len};

    CHECK(r->piece.len == 0);
    keep_late(r);
    r->torn = r->torn || (r->joins && r->seam_at < r->seam_end);
    r->held_len = 0;
    return rest;
}

/* The usage event that the engine did not come to, if all that it says is known:
 * as a vLLM has it, which is what other engines are like. */
static void
put_usage(struct resume *r)
{
    struct buf *out = &r->joined;
    bool chat = r->api == SCAN_API_CHAT;

    if (r->prompt_tokens == 0 || r->end_tokens == 0 || r->id_len == 0 ||
        r->created_len == 0 || r->model_len == 0) {
        return;
    }
    buf_add_text(out, "data: {\"id\":\"");
    buf_add(out, r->id, r->id_len);
    buf_printf(out, "\",\"object\":\"%s\",\"created\":",
               chat ? "chat.completion.chunk" : "text_completion");
    buf_add(out, r->created, r->created_len);
    buf_add_text(out, ",\"model\":\"");
    buf_add(out, r->model, r->model_len);
    buf_printf(
        out,
        "\",\"choices\":[],\"usage\":{\"prompt_tokens\":%" PRIu64
        ",\"total_tokens\":%" PRIu64 ",\"completion_tokens\":%" PRIu32 "}}\n\n",
        r->prompt_tokens, r->prompt_tokens + r->end_tokens, r->end_tokens);
}

bool
resume_finish(struct resume *r, bool usage, struct slice *missing)
{
    *missing = SLICE("");
    if (!r->done && (!r->on || !r->finished || r->torn)) {
        return false;
    }
    r->held_len = 0;
    if (r->done) {
        return true;
    }
    buf_clear(&r->joined);
    if (usage && !r->usage_told) {
        put_usage(r);
    }
    put_mark(r);
    buf_add_text(&r->joined, "data: [DONE]\n\n");
    if (r->joined.failed) {
        return false;
    }
    *missing = buf_slice(&r->joined);
    return true;
}

void
resume_continue(struct resume *r)
{
    r->joins = true;
    r->role_due = true;
    r->failed = false;
    r->held_len = 0;
    r->line_empty = true;
    r->times++;
    CHECK(r->on && r->piece.len == 0);
}
