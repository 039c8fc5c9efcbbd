/* The usage, taken out of a stream. */
#include "node/text/usage_strip.h"

#include <string.h>

#include "index/base/ascii.h"
#include "node/text/json_pull.h"
#include "node/text/usage.h"

#define DATA    "data:"
#define USAGE   "\"usage\""
#define CHOICES "\"choices\":[{"

/* What an event says of the usage. */
enum telling {
    TELLS_NOTHING,
    TELLS_ALSO, /* beside something else */
    TELLS_ONLY, /* it is the usage event */
};

struct found {
    enum telling telling;
    struct slice member; /* of the event: with one comma, if there is any */
    struct slice value;
};

void
usage_strip_init(struct usage_strip *strip)
{
    memset(strip, 0, sizeof(*strip));
    strip->last = true;
    strip->empty = true;
}

static bool
is_ready(const struct usage_strip *strip)
{
    return strip->ready[0].len != 0 || strip->ready[1].len != 0;
}

/* Whether the piece is whole events that say nothing of the usage, as nearly
 * all are: then their lines need not be looked at. Wherever these end, a blank
 * one is the last. */
static bool
is_plain(const struct usage_strip *strip, struct slice piece)
{
    bool between = strip->held_len == 0 && !strip->passing && !strip->after_cr;

    return between && piece.len > 1 && piece.ptr[piece.len - 1] == '\n' &&
           piece.ptr[piece.len - 2] == '\n' && usage_find(piece) == NULL;
}

void
usage_strip_give(struct usage_strip *strip, struct slice piece)
{
    CHECK(strip->piece.len == 0 && !is_ready(strip));
    if (is_plain(strip, piece)) {
        strip->ready[0] = piece;
    } else {
        strip->piece = piece;
    }
}

/* Lines */

/* Bytes before the first CR or LF; all of them when there is none. */
static size_t
line_len(struct slice bytes)
{
    const char *lf = memchr(bytes.ptr, '\n', bytes.len);
    size_t len = lf != NULL ? (size_t)(lf - bytes.ptr) : bytes.len;
    const char *cr = memchr(bytes.ptr, '\r', len);

    return cr != NULL ? (size_t)(cr - bytes.ptr) : len;
}

/* Bytes of the piece up to the end of the event that it is in; 0: it ends
 * later. */
static size_t
event_end(struct usage_strip *strip)
{
    struct slice all = strip->piece;
    size_t at = 0;

    while (at < all.len) {
        size_t len = 0;
        bool blank;

        if (strip->after_cr && all.ptr[at] == '\n') {
            strip->after_cr = false;
            at++;
            continue;
        }
        len = line_len((struct slice){all.ptr + at, all.len - at});
        blank = strip->empty && len == 0;
        strip->after_cr = false;
        strip->empty = strip->empty && len == 0;
        at += len;
        if (at == all.len) {
            return 0;
        }
        strip->after_cr = all.ptr[at] == '\r';
        strip->empty = true;
        at++;
        if (blank && strip->after_cr && at < all.len && all.ptr[at] == '\n') {
            strip->after_cr = false;
            at++;
        }
        if (blank) {
            return at;
        }
    }
    return 0;
}

/* The event */

/* The one line of data that the event consists of; empty: it has another
 * form. */
static struct slice
data_of(struct slice event)
{
    size_t len = line_len(event);
    struct slice line = {event.ptr, len};
    struct slice none = {"", 0};

    if (!slice_skip_text(&line, SLICE(DATA))) {
        return none;
    }
    for (size_t i = len; i < event.len; i++) {
        if (event.ptr[i] != '\r' && event.ptr[i] != '\n') {
            return none;
        }
    }
    return line;
}

/* At the value of "choices". */
static bool
is_empty_array(struct json_pull *pull)
{
    enum pull_token begin = json_pull_next(pull);
    enum pull_token next = json_pull_next(pull);

    return begin == PULL_ARRAY && next == PULL_ARRAY_END;
}

/* The member of that name and value, which lies in the object. */
static struct slice
member_of(struct slice object, const char *name, struct slice value)
{
    const char *from = name - 1; /* its quote */
    const char *to = value.ptr + value.len;
    const char *end = object.ptr + object.len;
    const char *before = from;
    const char *behind = to;

    while (before > object.ptr && ascii_is_blank(before[-1])) {
        before--;
    }
    while (behind < end && ascii_is_blank(*behind)) {
        behind++;
    }
    if (before > object.ptr && before[-1] == ',') {
        from = before - 1;
    } else if (behind < end && *behind == ',') {
        to = behind + 1;
    }
    return (struct slice){from, (size_t)(to - from)};
}

/* As engines write it: {..."choices":[{...,"usage":{...}}, with that name there.
 * That nothing but a bracket follows shows whose member it is, so the rest need
 * not be read. False: it is another form. */
static bool
read_plain(struct slice data, const char *name, struct found *found)
{
    const char *end = data.ptr + data.len - 1;
    const char *from = name + sizeof(USAGE);
    struct json_pull pull;

    if (name[-1] != ',' || from >= end || from[-1] != ':' || *end != '}' ||
        memmem(data.ptr, (size_t)(name - data.ptr), CHOICES,
               sizeof(CHOICES) - 1) == NULL) {
        return false;
    }
    found->value = (struct slice){from, (size_t)(end - from)};
    found->member = (struct slice){name - 1, (size_t)(end - name) + 1};
    json_pull_init(&pull, found->value);
    bool plain = json_pull_next(&pull) == PULL_OBJECT &&
                 json_pull_skip(&pull) && json_pull_next(&pull) == PULL_END;
    found->telling = plain ? TELLS_ALSO : TELLS_NOTHING;
    return plain;
}

static void
read_event(struct slice event, struct found *found)
{
    struct slice data = data_of(event);
    const char *first = usage_find(data);
    struct json_pull pull;
    enum pull_token token;
    bool empty = false;

    *found = (struct found){.telling = TELLS_NOTHING};
    if (first == NULL || read_plain(data, first, found)) {
        return;
    }
    *found = (struct found){.telling = TELLS_NOTHING};
    json_pull_init(&pull, data);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        const char *name = pull.text.ptr;
        struct json_pull value = pull;
        bool usage = json_pull_is(&pull, SLICE("usage"));
        if (!usage && json_pull_is(&pull, SLICE("choices"))) {
            empty = is_empty_array(&value);
        }
        if (!json_pull_skip(&pull)) {
            return;
        }
        if (usage && json_pull_next(&value) == PULL_OBJECT) {
            size_t at = value.at - 1;
            found->value = (struct slice){data.ptr + at, pull.at - at};
            found->member = member_of(data, name, found->value);
        } else if (usage) {
            found->value.len = 0;
        }
    }
    if (found->value.len != 0 && token == PULL_OBJECT_END &&
        json_pull_next(&pull) == PULL_END) {
        found->telling = empty ? TELLS_ONLY : TELLS_ALSO;
    }
}

/* The event without the usage that it tells also. */
static struct slice
cut(struct usage_strip *strip, struct slice event, const struct found *found)
{
    bool null = strip->each == USAGE_STRIP_NULL;
    struct slice out = null ? found->value : found->member;
    struct slice in = null ? SLICE("null") : SLICE("");
    size_t before = (size_t)(out.ptr - event.ptr);
    struct slice rest = {out.ptr + out.len, event.len - before - out.len};

    CHECK(strip->held != NULL);
    if (event.len + in.len > USAGE_STRIP_ROOM) {
        strip->ready[0] = in;
        strip->ready[1] = rest;
        return (struct slice){event.ptr, before};
    }
    memmove(strip->held, event.ptr, before);
    memmove(strip->held + before + in.len, rest.ptr, rest.len);
    memcpy(strip->held + before, in.ptr, in.len);
    return (struct slice){strip->held, before + in.len + rest.len};
}

/* What passes of a whole event. */
static struct slice
sift(struct usage_strip *strip, struct slice event)
{
    struct found found;

    read_event(event, &found);
    if (found.telling == TELLS_ALSO && strip->each != USAGE_STRIP_LEAVE) {
        return cut(strip, event, &found);
    }
    strip->told = strip->told || found.telling == TELLS_ALSO;
    if (found.telling == TELLS_ONLY && strip->last && !strip->told) {
        strip->dropped++;
        strip->cut_lf = strip->after_cr;
        return (struct slice){"", 0};
    }
    return event;
}

/* Whether an event that begins so may be the usage event. */
static bool
may_be(struct slice begin)
{
    size_t len = begin.len < sizeof(DATA) - 1 ? begin.len : sizeof(DATA) - 1;

    return memcmp(begin.ptr, DATA, len) == 0;
}

/* The stream */

/* The held bytes; they are held no longer. */
static struct slice
let_go(struct usage_strip *strip)
{
    struct slice held = {strip->held, strip->held_len};

    strip->held_len = 0;
    return held;
}

/* A part of an event that is another one. */
static struct slice
pass(struct usage_strip *strip, struct slice part)
{
    if (strip->held_len == 0) {
        return part;
    }
    strip->ready[0] = part;
    return let_go(strip);
}

/* Without the LF of a CRLF at its end, which may come later. */
static size_t
len_of(struct slice part, bool whole)
{
    bool lf = whole && part.len > 1 && part.ptr[part.len - 1] == '\n' &&
              part.ptr[part.len - 2] == '\r';

    return part.len - lf;
}

/* What is left of the piece, or one event of it; empty when none of that
 * passes now. */
static struct slice
step(struct usage_strip *strip)
{
    struct slice nothing = {"", 0};
    size_t end = event_end(strip);
    bool whole = end != 0;
    struct slice part =
        slice_take_len(&strip->piece, whole ? end : strip->piece.len);
    struct slice event = part;
    bool alone = whole && strip->held_len == 0 && !strip->passing;

    if (alone && strip->each != USAGE_STRIP_LEAVE) {
        return sift(strip, event);
    }
    if (strip->passing ||
        strip->held_len + len_of(part, whole) > USAGE_STRIP_HELD_MAX) {
        strip->passing = !whole;
        return pass(strip, part);
    }
    if (strip->held_len != 0 || !whole) {
        CHECK(strip->held != NULL);
        memcpy(strip->held + strip->held_len, part.ptr, part.len);
        strip->held_len += (uint32_t)part.len;
        event = (struct slice){strip->held, strip->held_len};
    }
    if (!whole && may_be(event)) {
        return nothing;
    }
    strip->held_len = 0;
    strip->passing = !whole;
    return whole ? sift(strip, event) : event;
}

/* The LF of a CRLF that the piece before ended in. */
static bool
take_lf(struct usage_strip *strip, struct slice *lf)
{
    bool between = !strip->passing && strip->held_len == 0 && strip->empty;

    if (!between || !strip->after_cr || strip->piece.ptr[0] != '\n') {
        return false;
    }
    strip->after_cr = false;
    *lf = slice_take_len(&strip->piece, 1);
    return true;
}

bool
usage_strip_next(struct usage_strip *strip, struct slice *out)
{
    for (*out = (struct slice){"", 0}; out->len == 0 && is_ready(strip);) {
        *out = strip->ready[0];
        strip->ready[0] = strip->ready[1];
        strip->ready[1].len = 0;
    }
    while (out->len == 0 && strip->piece.len != 0) {
        if (take_lf(strip, out)) {
            out->len = strip->cut_lf ? 0 : 1;
            strip->cut_lf = false;
        } else {
            strip->cut_lf = false;
            *out = step(strip);
        }
    }
    CHECK(strip->held_len <= USAGE_STRIP_ROOM);
    return out->len != 0;
}

struct slice
usage_strip_rest(struct usage_strip *strip)
{
    CHECK(strip->piece.len == 0 && !is_ready(strip));
    return let_go(strip);
}
