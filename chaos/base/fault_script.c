/* Reads fault scripts word by word, and prints them again. */
#include "chaos/base/fault_script.h"

#include <inttypes.h>
#include <string.h>

#define DIGITS_MAX 7U
#define NOBODY     UINT32_MAX

static const struct {
    const char *word;
    const char *shape;
} verbs[] = {
#define FAULT_VERB_ROW(VERB, word, shape) {#word, shape},
    FAULT_VERBS(FAULT_VERB_ROW)
#undef FAULT_VERB_ROW
};

struct reader {
    struct fault_script *script;
    struct fault_error *error;
    const char *line_start;
    struct slice rest; /* of the line */
    struct slice word; /* the last one taken */
    bool failed;
    bool down[FAULT_NODES_MAX];
    uint32_t until_ms[FAULT_NODES_MAX]; /* stands still until then */
};

static void
fail(struct reader *r, const char *what)
{
    if (!r->failed) {
        r->failed = true;
        r->error->what = what;
        r->error->column = (uint32_t)(r->word.ptr - r->line_start) + 1;
    }
}

static bool
is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* False: the line is over; the empty word is where it ends. */
static bool
next_word(struct reader *r)
{
    while (r->rest.len > 0 && is_space(*r->rest.ptr)) {
        r->rest.ptr++;
        r->rest.len--;
    }
    r->word = (struct slice){r->rest.ptr, 0};
    while (r->rest.len > 0 && !is_space(*r->rest.ptr)) {
        r->rest.ptr++;
        r->rest.len--;
        r->word.len++;
    }
    return r->word.len > 0;
}

/* Takes digits off the front; how many. */
static size_t
take_digits(struct slice *text, uint32_t *number)
{
    size_t count = 0;

    *number = 0;
    while (count < text->len && count < DIGITS_MAX && text->ptr[count] >= '0' &&
           text->ptr[count] <= '9') {
        *number = *number * 10 + (uint32_t)(text->ptr[count] - '0');
        count++;
    }
    slice_skip(text, count);
    return count;
}

/* The digits after a point, at most three, in thousandths. */
static bool
take_fraction(struct slice *text, uint32_t *thousandths)
{
    static const uint32_t scale[] = {0, 100, 10, 1};

    *thousandths = 0;
    if (text->len == 0 || *text->ptr != '.') {
        return true;
    }
    text->ptr++;
    text->len--;
    size_t digits = take_digits(text, thousandths);
    if (digits < 1 || digits > 3) {
        return false;
    }
    *thousandths *= scale[digits];
    return true;
}

static void
read_time(struct reader *r, uint32_t *ms)
{
    struct slice text = r->word;
    uint32_t thousandths = 0;
    uint32_t number = 0;

    *ms = 0;
    if (take_digits(&text, &number) == 0 ||
        !take_fraction(&text, &thousandths)) {
        fail(r, "not a time, such as 1.5s or 80ms");
    } else if (slice_equal(text, SLICE("s")) && number <= FAULT_MS_MAX / 1000) {
        *ms = number * 1000 + thousandths;
    } else if (slice_equal(text, SLICE("ms")) && thousandths == 0) {
        *ms = number;
    } else {
        fail(r, "not a time, such as 1.5s or 80ms");
    }
    if (*ms > FAULT_MS_MAX) {
        fail(r, "longer than a day");
    }
}

static void
read_percent(struct reader *r, uint32_t *percent)
{
    struct slice text = r->word;

    if (take_digits(&text, percent) == 0 || !slice_equal(text, SLICE("%")) ||
        *percent > 100) {
        fail(r, "not a percentage, such as 20%");
    }
}

/* n1, e3: counted from 0 then. */
static void
read_name(struct reader *r, char kind, uint32_t count, uint32_t *number)
{
    struct slice text = r->word;
    bool is_name = text.len >= 2 && text.len <= 3 && *text.ptr == kind &&
                   text.ptr[1] != '0';
    uint32_t named = 0;

    for (size_t i = 1; is_name && i < text.len; i++) {
        is_name = text.ptr[i] >= '0' && text.ptr[i] <= '9';
        named = named * 10 + (uint32_t)(text.ptr[i] - '0');
    }
    *number = 0;
    if (is_name && named <= count) {
        *number = named - 1;
    } else {
        fail(r, kind == 'n' ? "no such node" : "no such engine");
    }
}

static void
read_argument(struct reader *r, char kind, uint32_t *argument)
{
    if (!next_word(r)) {
        fail(r, "a word is missing");
        return;
    }
    switch (kind) {
    case 'n':
        read_name(r, 'n', r->script->nodes, argument);
        break;
    case 'e':
        read_name(r, 'e', r->script->engines, argument);
        break;
    case 't':
        read_time(r, argument);
        break;
    case 'p':
        read_percent(r, argument);
        break;
    default:
        CHECK(false);
    }
}

/* What cannot be, as things are by then. */
static void
judge(struct reader *r, const struct fault_event *event)
{
    bool is_node = event->verb == FAULT_KILL || event->verb == FAULT_STOP ||
                   event->verb == FAULT_START || event->verb == FAULT_PAUSE;
    uint32_t node = event->argument[0];

    if ((event->verb == FAULT_SEVER || event->verb == FAULT_MUTE) &&
        node == event->argument[1]) {
        fail(r, "the same node twice");
    } else if (event->verb == FAULT_DELAY && node < event->argument[1]) {
        fail(r, "the variation exceeds the delay");
    } else if (is_node && r->down[node] != (event->verb == FAULT_START)) {
        fail(r,
             r->down[node] ? "the node does not run" : "the node runs already");
    } else if (is_node && event->at_ms < r->until_ms[node]) {
        fail(r, "the node is paused then");
    } else if (is_node) {
        r->down[node] = event->verb == FAULT_KILL || event->verb == FAULT_STOP;
        r->until_ms[node] =
            event->at_ms +
            (event->verb == FAULT_PAUSE ? event->argument[1] : 0);
    }
}

static enum fault_verb
read_verb(struct reader *r)
{
    uint32_t verb = 0;

    if (!next_word(r)) {
        fail(r, "a word is missing");
        return FAULT_END;
    }
    while (verb < FAULT_VERB_KINDS &&
           !slice_equal(r->word, slice_of(verbs[verb].word))) {
        verb++;
    }
    if (verb == FAULT_VERB_KINDS) {
        fail(r, "unknown action");
        return FAULT_END;
    }
    return (enum fault_verb)verb;
}

static uint32_t
last_ms(const struct fault_script *script)
{
    return script->events_count == 0
               ? 0
               : script->events[script->events_count - 1].at_ms;
}

static bool
has_ended(const struct fault_script *script)
{
    return script->events_count > 0 &&
           script->events[script->events_count - 1].verb == FAULT_END;
}

static void
read_event(struct reader *r)
{
    struct fault_script *script = r->script;
    struct fault_event event = {.at_ms = 0};

    if (script->engines == 0) {
        fail(r, "nodes and engines come first");
    } else if (has_ended(script)) {
        fail(r, "the script has ended");
    } else if (script->events_count == FAULT_EVENTS_MAX) {
        fail(r, "too many lines");
    }
    if (r->failed || !next_word(r)) {
        fail(r, "a word is missing");
        return;
    }
    read_time(r, &event.at_ms);
    if (event.at_ms < last_ms(script)) {
        fail(r, "the time is before the line above");
    }
    event.verb = r->failed ? FAULT_END : read_verb(r);
    struct slice verb = r->word;
    const char *shape = verbs[event.verb].shape;
    for (size_t i = 0; shape[i] != '\0' && !r->failed; i++) {
        read_argument(r, shape[i], &event.argument[i]);
    }
    if (r->failed) {
        return;
    }
    struct slice last = r->word;
    r->word = verb;
    judge(r, &event);
    if (!r->failed) {
        r->word = last;
        script->events[script->events_count++] = event;
    }
}

static void
read_count(struct reader *r, uint32_t *count, uint32_t max)
{
    struct slice text;

    if (*count != 0 || r->script->events_count != 0) {
        fail(r, "given before");
        return;
    }
    (void)next_word(r);
    text = r->word;
    if (take_digits(&text, count) == 0 || text.len > 0 || *count == 0 ||
        *count > max) {
        fail(r, "not a number in range");
    }
}

static void
read_line(struct reader *r)
{
    if (!next_word(r)) {
        return;
    }
    if (slice_equal(r->word, SLICE("nodes"))) {
        read_count(r, &r->script->nodes, FAULT_NODES_MAX);
    } else if (slice_equal(r->word, SLICE("engines"))) {
        if (r->script->nodes == 0) {
            fail(r, "nodes come first");
        }
        read_count(r, &r->script->engines, FAULT_ENGINES_MAX);
    } else if (slice_equal(r->word, SLICE("replay"))) {
        if (r->script->engines == 0) {
            fail(r, "nodes and engines come first");
        }
        read_count(r, &r->script->replay, FAULT_REPLAY_MAX);
    } else if (slice_equal(r->word, SLICE("at"))) {
        read_event(r);
    } else {
        fail(r, "a line begins with nodes, engines, replay or at");
    }
    if (!r->failed && next_word(r)) {
        fail(r, "one word too many");
    }
}

bool
fault_script_read(struct fault_script *script, struct slice text,
                  struct fault_error *error)
{
    struct reader r = {.script = script, .error = error};

    memset(script, 0, sizeof *script);
    *error = (struct fault_error){.line = 1, .column = 1};
    if (text.len > FAULT_TEXT_MAX) {
        error->what = "more than 16 KiB";
        return false;
    }
    while (text.len > 0) {
        struct slice line = slice_take(&text, '\n');
        r.rest = slice_take(&line, '#'); /* what follows is a comment */
        r.line_start = r.rest.ptr;
        read_line(&r);
        if (r.failed) {
            return false;
        }
        error->line++;
    }
    if (!has_ended(script)) {
        error->what = "the script does not end";
    }
    return has_ended(script);
}

static void
put_argument(char kind, uint32_t argument, struct buf *out)
{
    switch (kind) {
    case 'n':
    case 'e':
        buf_printf(out, " %c%" PRIu32, kind, argument + 1);
        break;
    case 't':
        buf_printf(out, " %" PRIu32 "ms", argument);
        break;
    case 'p':
        buf_printf(out, " %" PRIu32 "%%", argument);
        break;
    default:
        CHECK(false);
    }
}

void
fault_script_put(const struct fault_script *script, struct buf *out)
{
    CHECK(has_ended(script));
    buf_printf(out, "nodes %" PRIu32 "\nengines %" PRIu32 "\n", script->nodes,
               script->engines);
    if (script->replay != 0) {
        buf_printf(out, "replay %" PRIu32 "\n", script->replay);
    }
    for (uint32_t i = 0; i < script->events_count; i++) {
        const struct fault_event *event = &script->events[i];
        const char *shape = verbs[event->verb].shape;
        buf_printf(out, "at %" PRIu32 "ms %s", event->at_ms,
                   verbs[event->verb].word);
        for (size_t k = 0; shape[k] != '\0'; k++) {
            put_argument(shape[k], event->argument[k], out);
        }
        buf_add_text(out, "\n");
    }
}
