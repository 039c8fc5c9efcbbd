/* Token counts in an engine's answer. */
#include "node/text/usage.h"

#include "index/base/check.h"

/* Of the objects that have counts. The second letter tells which it is. */
enum watch_name {
    WATCH_USAGE,
    WATCH_TIMINGS,
};

static const struct slice watched[] = {
    [WATCH_USAGE] = {"\"usage\"", 7},
    [WATCH_TIMINGS] = {"\"timings\"", 9},
};

enum watch_state {
    WATCH_SEEK,   /* for a name */
    WATCH_COLON,  /* after the name */
    WATCH_VALUE,  /* after its colon */
    WATCH_OBJECT, /* inside its object */
};

/* Counts in a piece of JSON */

/* The number behind a name: true and *out. One that reaches the end is not taken:
 * no object ends in a digit, so it may go on. */
static bool
number_at(const char *at, const char *end, uint32_t *out)
{
    uint64_t number = 0;

    *out = 0;
    while (at < end && (*at == ':' || *at == ' ')) {
        at++;
    }
    if (at == end || *at < '0' || *at > '9') {
        return false; /* null, say */
    }
    while (at < end && *at >= '0' && *at <= '9') {
        number = number * 10 + (uint64_t)(*at - '0');
        if (number > UINT32_MAX) {
            return false;
        }
        at++;
    }
    *out = at < end ? (uint32_t)number : 0;
    return at < end;
}

/* What an object may count, the shortest name first. */
enum count {
    COUNT_TIMED_CACHED,
    COUNT_TIMED_COMPUTED,
    COUNT_TIMED_MADE,
    COUNT_INPUT,
    COUNT_PROMPT,
    COUNT_OUTPUT,
    COUNT_CACHED,
    COUNT_COMPLETION,
    COUNT_CACHE_WRITE,
    COUNT_CREATED,
    COUNT_CACHE_READ,
    COUNT_CACHE_CREATION,
    COUNTS,
};

struct counts {
    uint32_t of[COUNTS];
    bool known[COUNTS];
};

static enum count
count_named(struct slice name)
{
    static const struct slice names[COUNTS] = {
        [COUNT_TIMED_CACHED] = {"cache_n", 7},
        [COUNT_TIMED_COMPUTED] = {"prompt_n", 8},
        [COUNT_TIMED_MADE] = {"predicted_n", 11},
        [COUNT_INPUT] = {"input_tokens", 12},
        [COUNT_PROMPT] = {"prompt_tokens", 13},
        [COUNT_OUTPUT] = {"output_tokens", 13},
        [COUNT_CACHED] = {"cached_tokens", 13},
        [COUNT_COMPLETION] = {"completion_tokens", 17},
        [COUNT_CACHE_WRITE] = {"cache_write_tokens", 18},
        [COUNT_CREATED] = {"created_cache_tokens", 20},
        [COUNT_CACHE_READ] = {"cache_read_input_tokens", 23},
        [COUNT_CACHE_CREATION] = {"cache_creation_input_tokens", 27},
    };
    unsigned i = name.len < names[COUNT_INPUT].len ? 0 : COUNT_INPUT;

    while (i < COUNTS && names[i].len < name.len) {
        i++;
    }
    for (; i < COUNTS && names[i].len == name.len; i++) {
        if (memcmp(names[i].ptr, name.ptr, name.len) == 0) {
            return (enum count)i;
        }
    }
    return COUNTS;
}

/* The quote that ends a string, whose first byte is at `from`; NULL: it is not
 * there. */
static const char *
string_end(const char *from, const char *end)
{
    const char *at = memchr(from, '"', (size_t)(end - from));

    while (at != NULL) {
        const char *before = at;
        while (before != from && before[-1] == '\\') {
            before--;
        }
        if ((at - before) % 2 == 0) {
            return at;
        }
        at = memchr(at + 1, '"', (size_t)(end - at - 1));
    }
    return NULL;
}

/* All numbers of an object, from its brace on, that have such names; of two of
 * one name the last one counts. Where the object is over; NULL: not in these
 * bytes. */
static const char *
read_counts(struct slice object, struct counts *counts)
{
    const char *end = object.ptr + object.len;
    uint32_t depth = 0;

    memset(counts, 0, sizeof(*counts));
    for (const char *at = object.ptr; at != NULL && at != end;) {
        char c = *at++;
        if (c == '"') {
            const char *from = at;
            at = string_end(from, end);
            if (at == NULL) {
                return NULL;
            }
            enum count i =
                count_named((struct slice){from, (size_t)(at++ - from)});
            if (i != COUNTS) {
                counts->known[i] = number_at(at, end, &counts->of[i]);
            }
        } else if (c == '{') {
            depth++;
        } else if (c == '}' && --depth == 0) {
            return at;
        }
    }
    return NULL;
}

/* llama.cpp's account of the cached and the computed tokens of the prompt,
 * which its streams have without being asked. */
static void
take_timings(const struct counts *c, struct usage *usage)
{
    uint32_t cached = c->of[COUNT_TIMED_CACHED];
    uint32_t computed = c->of[COUNT_TIMED_COMPUTED];

    if (c->known[COUNT_TIMED_CACHED] && c->known[COUNT_TIMED_COMPUTED] &&
        computed <= UINT32_MAX - cached) {
        *usage = (struct usage){.prompt_tokens = cached + computed,
                                .cached_tokens = cached,
                                .completion_tokens = c->of[COUNT_TIMED_MADE],
                                .cached_known = true};
    }
}

/* Anthropic's shape: what was read from the cache and what was written to it
 * stands beside the rest. */
static bool
read_parts(const struct counts *c, struct usage *usage)
{
    bool reads = c->known[COUNT_CACHE_READ];
    bool writes = c->known[COUNT_CACHE_CREATION];
    uint32_t read = c->of[COUNT_CACHE_READ];
    uint32_t written = c->of[COUNT_CACHE_CREATION];
    uint64_t all = (uint64_t)c->of[COUNT_INPUT] + read + written;

    if ((!reads && !writes) || all > UINT32_MAX) {
        return false;
    }
    *usage = (struct usage){.prompt_tokens = (uint32_t)all,
                            .cached_tokens = read,
                            .created_tokens = written,
                            .cached_known = reads};
    return true;
}

/* A stream tells of its answer again and again. */
static void
take_completion(const struct counts *c, struct usage *found)
{
    uint32_t made = c->known[COUNT_COMPLETION] ? c->of[COUNT_COMPLETION]
                                               : c->of[COUNT_OUTPUT];

    if (made > found->completion_tokens) {
        found->completion_tokens = made;
    }
}

/* A stream's later objects may leave out what an earlier one said. */
static void
take_prompt(const struct counts *c, struct usage *found)
{
    bool plain = c->known[COUNT_PROMPT];
    bool named = plain || c->known[COUNT_INPUT];
    struct usage usage = {
        .prompt_tokens = plain ? c->of[COUNT_PROMPT] : c->of[COUNT_INPUT],
        .cached_known = c->known[COUNT_CACHED],
    };

    if (!plain && named && read_parts(c, &usage)) {
        *found = usage;
        return;
    }
    if (usage.cached_known) {
        usage.cached_tokens = c->of[COUNT_CACHED];
        usage.created_tokens = c->of[plain ? COUNT_CREATED : COUNT_CACHE_WRITE];
    }
    if (usage.cached_known || (named && !found->cached_known)) {
        *found = usage;
    }
}

static void
take_usage(const struct counts *c, struct usage *found)
{
    uint32_t made = found->completion_tokens;

    take_prompt(c, found);
    found->completion_tokens = made;
    take_completion(c, found);
}

/* Following an answer */

void
usage_watch_init(struct usage_watch *watch)
{
    memset(watch, 0, sizeof(*watch));
}

static void
drop(struct slice *bytes, size_t count)
{
    CHECK(count <= bytes->len);
    bytes->ptr += count;
    bytes->len -= count;
}

/* Goes on with a name that the piece before ended in. */
static void
go_on(struct usage_watch *watch, struct slice *bytes)
{
    while (watch->matched != 0 && bytes->len != 0) {
        char c = bytes->ptr[0];
        if (watch->matched == 1) {
            watch->name = c == 't' ? WATCH_TIMINGS : WATCH_USAGE;
        }
        if (c == watched[watch->name].ptr[watch->matched]) {
            watch->matched++;
        } else {
            watch->matched = c == '"';
        }
        drop(bytes, 1);
        if (watch->matched == watched[watch->name].len) {
            watch->matched = 0;
            watch->state = WATCH_COLON;
        }
    }
}

/* What of a name the piece ends in; its quote alone may be of any. */
static void
match_end(struct usage_watch *watch, struct slice bytes)
{
    size_t most = watched[WATCH_TIMINGS].len - 1;
    size_t len = bytes.len < most ? bytes.len : most;
    const char *end = bytes.ptr + bytes.len;
    const char *at = memrchr(end - len, '"', len);

    len = at != NULL ? (size_t)(end - at) : 0;
    watch->name = len > 1 && at[1] == 't' ? WATCH_TIMINGS : WATCH_USAGE;
    bool same = len != 0 && len < watched[watch->name].len &&
                memcmp(at, watched[watch->name].ptr, len) == 0;
    watch->matched = same ? (uint8_t)len : 0;
}

/* Bytes that are compared at once, twice in each step. */
typedef int8_t lanes __attribute__((vector_size(16)));

#define STEP (2 * sizeof(lanes))

/* In each lane: whether a name's first two letters stand there. both: timings is
 * looked for, too, whose second letter differs from that of usage in the lowest
 * bit. */
static inline lanes
begins_at(const char *at, bool both)
{
    lanes first;
    lanes second;

    memcpy(&first, at, sizeof(first));
    memcpy(&second, at + 1, sizeof(second));
    if (both) {
        second |= (int8_t)('t' ^ 'u');
    }
    return (first == (int8_t)'"') & (second == (int8_t)'u');
}

/* Whether a name may begin at one of the STEP bytes. */
static inline bool
may_begin(const char *at, bool both)
{
    lanes any = begins_at(at, both) | begins_at(at + sizeof(lanes), both);
    uint64_t halves[2];

    memcpy(halves, &any, sizeof(halves));
    return (halves[0] | halves[1]) != 0;
}

static bool
stands(struct slice bytes, enum watch_name name)
{
    return bytes.len >= watched[name].len &&
           memcmp(bytes.ptr, watched[name].ptr, watched[name].len) == 0;
}

/* The first name that begins within STEP bytes. */
static const char *
find_from(struct slice bytes, size_t at, bool both)
{
    for (size_t i = 0; i < STEP && at < bytes.len; i++, at++) {
        struct slice rest = {bytes.ptr + at, bytes.len - at};
        if (rest.ptr[0] == '"' && (stands(rest, WATCH_USAGE) ||
                                   (both && stands(rest, WATCH_TIMINGS)))) {
            return rest.ptr;
        }
    }
    return NULL;
}

/* memmem(), but that takes two to four instructions for each byte, of every
 * stream. Hardly another string begins with these letters. The last step looks
 * once more at some that the one before had. */
static inline const char *
find(struct slice bytes, bool both)
{
    if (bytes.len <= STEP) {
        return find_from(bytes, 0, both);
    }
    const size_t last = bytes.len - STEP - 1; /* a step reads one byte more */
    for (size_t at = 0; at < last; at += STEP) {
        const char *name =
            may_begin(bytes.ptr + at, both) ? find_from(bytes, at, both) : NULL;
        if (name != NULL) {
            return name;
        }
    }
    return may_begin(bytes.ptr + last, both) ? find_from(bytes, last, both)
                                             : NULL;
}

const char *
usage_find(struct slice bytes)
{
    return find(bytes, false);
}

static void
seek(struct usage_watch *watch, struct slice *bytes)
{
    go_on(watch, bytes);
    if (watch->state != WATCH_SEEK || bytes->len == 0) {
        return;
    }
    const char *at = find(*bytes, true);
    if (at == NULL) {
        match_end(watch, *bytes);
        bytes->len = 0;
        return;
    }
    watch->name = at[1] == 't' ? WATCH_TIMINGS : WATCH_USAGE;
    drop(bytes, (size_t)(at - bytes->ptr) + watched[watch->name].len);
    watch->state = WATCH_COLON;
}

/* What comes between the name and its object; anything else is another
 * "usage", or has no counts. */
static void
expect(struct usage_watch *watch, struct slice *bytes)
{
    char c = bytes->ptr[0];

    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        drop(bytes, 1);
    } else if (watch->state == WATCH_COLON && c == ':') {
        drop(bytes, 1);
        watch->state = WATCH_VALUE;
    } else if (watch->state == WATCH_VALUE && c == '{') {
        watch->state = WATCH_OBJECT;
    } else {
        watch->state = WATCH_SEEK;
    }
}

static void
keep_object(struct usage_watch *watch, struct slice bytes)
{
    size_t room = USAGE_OBJECT_MAX - watch->object_len;
    size_t count = bytes.len < room ? bytes.len : room;

    CHECK(watch->room != NULL);
    memcpy(watch->room + watch->object_len, bytes.ptr, count);
    watch->object_len += (uint32_t)count;
}

/* An object that a piece ends in is kept, and read anew with the next piece. */
static void
collect(struct usage_watch *watch, struct slice *bytes)
{
    size_t kept = watch->object_len;
    struct slice object = *bytes;
    struct counts counts;

    if (kept != 0) {
        keep_object(watch, *bytes);
        object = (struct slice){watch->room, watch->object_len};
    } else if (object.len > USAGE_OBJECT_MAX) {
        object.len = USAGE_OBJECT_MAX;
    }
    const char *end = read_counts(object, &counts);
    if (end == NULL && object.len < USAGE_OBJECT_MAX) {
        if (kept == 0) {
            keep_object(watch, *bytes);
        }
        bytes->len = 0;
        return;
    }
    if (watch->name == WATCH_USAGE) {
        take_usage(&counts, &watch->found);
    } else {
        take_timings(&counts, &watch->timings);
    }
    object.len = end != NULL ? (size_t)(end - object.ptr) : object.len;
    drop(bytes, object.len - kept);
    usage_watch_forget(watch);
}

void
usage_watch_give(struct usage_watch *watch, struct slice bytes)
{
    while (bytes.len != 0) {
        switch ((enum watch_state)watch->state) {
        case WATCH_SEEK:
            seek(watch, &bytes);
            break;
        case WATCH_COLON:
        case WATCH_VALUE:
            expect(watch, &bytes);
            break;
        case WATCH_OBJECT:
            collect(watch, &bytes);
            break;
        }
    }
}

void
usage_watch_forget(struct usage_watch *watch)
{
    watch->object_len = 0;
    watch->state = WATCH_SEEK;
}

void
usage_watch_end(const struct usage_watch *watch, struct usage *usage)
{
    bool timed = !watch->found.cached_known && watch->timings.cached_known;

    *usage = timed ? watch->timings : watch->found;
}
