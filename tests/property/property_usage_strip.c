/*
 * Random streams of server-sent events, in pieces cut at every byte, at random
 * bytes, and byte by byte: what passes the strip is the stream without its
 * usage events, as a reader of the whole stream finds them, and sse_read hears
 * the same events but for these. So it is with the usage of each event, where
 * that is to be cut, or to be null. The counts are found in every stream, however
 * it is cut.
 *
 *   property_usage_strip STREAMS [FIRST_SEED]
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/buf.h"
#include "index/base/rng.h"
#include "node/text/sse_read.h"
#include "node/text/usage.h"
#include "node/text/usage_strip.h"

#define EVENTS_MAX 6

static uint64_t seed;

#define REQUIRE(condition)                                            \
    do {                                                              \
        if (!(condition)) {                                           \
            printf("property_usage_strip: %s (line %d), seed %llu\n", \
                   #condition, __LINE__, (unsigned long long)seed);   \
            exit(1);                                                  \
        }                                                             \
    } while (0)

static const char *const data[] = {
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"total_tokens\":8}}",
    "{\"usage\": {\"input_tokens\":9,\"cached_tokens\":3},\"choices\" : [ ] }",
    "{\"choices\":[],\"usage\":{\"a\":{\"b\":[]}},\"metrics\":{\"x\":1}}",
    "{\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}",
    "{\"choices\":[{\"text\":\"\\\"usage\\\":{}\"}],\"usage\":null}",
    "{\"choices\":[],\"usage\":null}",
    "{\"choices\":[{\"text\":\"usage\"}],\"x\":{\"usage\":{},\"choices\":[]}}",
    "{\"choices\":[],\"usage\":{}} ",
    "{\"choices\":[],\"usage\":{}",
    "[DONE]",
    "",
    "{\"choices\":[{\"text\":\"a\"}],\"x\":{\"n\":1,\"usage\":{}}}",
    "{\"choices\":[{\"n\":1,\"usage\":{}}],\"usage\":null}",
    "{\"choices\":[{\"text\":\"a\"}],\"usage\":{\"n\":{\"m\":[1]}}}",
    "{\"usage\" : {\"n\":1} , \"id\":\"x\"}",
    "{\"id\":\"x\" , \"usage\": {}}",
    "{\"usage\":{}}",
};

#define DATA (sizeof(data) / sizeof(*data))

/* The same, by enum usage_strip_each; NULL: as they are. */
static const char *const sifted[DATA][3] = {
    [DATA - 4] = {NULL, "{\"choices\":[{\"text\":\"a\"}]}",
                  "{\"choices\":[{\"text\":\"a\"}],\"usage\":null}"},
    [DATA - 3] = {NULL, "{ \"id\":\"x\"}", "{\"usage\" : null , \"id\":\"x\"}"},
    [DATA - 2] = {NULL, "{\"id\":\"x\" }", "{\"id\":\"x\" , \"usage\": null}"},
    [DATA - 1] = {NULL, "{}", "{\"usage\":null}"},
};

static enum usage_strip_each each;
static bool last;

static const char *const others[] = {
    ": ping",  "event: x",         "id: 7", "data", "retry: 10",
    "dat: {}", "data: {\"usage\":"};

static void
add_line_end(struct rng *rng, struct buf *out)
{
    static const char *const ends[] = {"\n", "\n", "\n", "\r\n", "\r"};

    buf_add_text(out, ends[rng_below(rng, 5)]);
}

static void
add_event(struct rng *rng, struct buf *out)
{
    uint64_t lines = rng_below(rng, 8) == 0 ? 2 : 1;

    for (uint64_t i = 0; i < lines; i++) {
        bool is_data = rng_below(rng, 6) != 0;
        if (!is_data) {
            buf_add_text(out, others[rng_below(rng, 7)]);
        } else {
            buf_add_text(out, rng_below(rng, 4) == 0 ? "data:" : "data: ");
            buf_add_text(out, data[rng_below(rng, DATA)]);
        }
        if (is_data && each == USAGE_STRIP_LEAVE && rng_below(rng, 12) == 0) {
            uint64_t room = USAGE_STRIP_HELD_MAX - 80 + rng_below(rng, 90);
            for (uint64_t k = 0; k < room; k++) {
                buf_add(out, " ", 1);
            }
        }
        add_line_end(rng, out);
    }
    add_line_end(rng, out);
}

/* The plain reading. */

enum {
    NOTHING,
    ALSO,
    ONLY
};

static int
judge(const char *line, size_t len)
{
    json_t *doc;
    json_t *choices;
    int says = NOTHING;

    if (len < 5 || memcmp(line, "data:", 5) != 0) {
        return NOTHING;
    }
    doc = json_loadb(line + 5, len - 5, 0, NULL);
    choices = json_object_get(doc, "choices");
    if (json_is_object(json_object_get(doc, "usage"))) {
        says = json_is_array(choices) && json_array_size(choices) == 0 ? ONLY
                                                                       : ALSO;
    }
    json_decref(doc);
    return says;
}

/* Bytes of the line at `at`, and of its end. */
static size_t
line_at(const char *text, size_t at, size_t len, size_t *end)
{
    size_t n = 0;

    while (at + n < len && text[at + n] != '\n' && text[at + n] != '\r') {
        n++;
    }
    *end =
        at + n == len ? 0
        : text[at + n] == '\r' && at + n + 1 < len && text[at + n + 1] == '\n'
            ? 2
            : 1;
    return n;
}

/* An event that has usage beside something else. */
static void
add_sifted(struct slice event, size_t first_len, struct buf *out)
{
    const char *json = event.ptr + 5;
    bool known = false;

    json += *json == ' ';
    for (size_t i = 0; i < DATA && !known; i++) {
        size_t len = strlen(data[i]);
        if (sifted[i][each] != NULL &&
            len == first_len - (size_t)(json - event.ptr) &&
            memcmp(json, data[i], len) == 0) {
            buf_add(out, event.ptr, (size_t)(json - event.ptr));
            buf_add_text(out, sifted[i][each]);
            buf_add(out, json + len,
                    (size_t)(event.ptr + event.len - json) - len);
            known = true;
        }
    }
    REQUIRE(known);
}

static void
read_whole(struct slice in, struct buf *out, unsigned *dropped)
{
    size_t begin = 0;
    size_t at = 0;
    unsigned lines = 0;
    size_t first_len = 0;
    bool told = false;

    while (at < in.len) {
        size_t end;
        size_t len = line_at(in.ptr, at, in.len, &end);
        if (end == 0) {
            break;
        }
        at += len + end;
        if (len != 0) {
            first_len = lines++ == 0 ? len : first_len;
            continue;
        }
        /* LF of the last CRLF is not counted. */
        bool fits = at - begin - (end == 2) <= USAGE_STRIP_HELD_MAX;
        int says =
            lines == 1 && fits ? judge(in.ptr + begin, first_len) : NOTHING;
        told = told || (says == ALSO && each == USAGE_STRIP_LEAVE);
        if (says == ONLY && last && !told) {
            (*dropped)++;
        } else if (says == ALSO && each != USAGE_STRIP_LEAVE) {
            add_sifted((struct slice){in.ptr + begin, at - begin}, first_len,
                       out);
        } else {
            buf_add(out, in.ptr + begin, at - begin);
        }
        begin = at;
        lines = 0;
    }
    buf_add(out, in.ptr + begin, in.len - begin);
}

/* The strip. */

static struct usage_strip strip;
static struct usage_watch watch;
static char held[USAGE_STRIP_ROOM];
static char object[USAGE_OBJECT_MAX];

/* What keeps nothing gets another room for the next piece. */
static void
lend(void)
{
    if (strip.held_len == 0) {
        memset(held, '9', sizeof(held));
    }
    if (watch.object_len == 0) {
        memset(object, '9', sizeof(object));
    }
}

static void
give(struct slice piece, struct buf *out)
{
    struct slice part;
    char *copy = malloc(piece.len + 1); /* sanitizers see where it ends */

    memcpy(copy, piece.ptr, piece.len);
    usage_strip_give(&strip, (struct slice){copy, piece.len});
    while (usage_strip_next(&strip, &part)) {
        REQUIRE(part.len != 0);
        buf_add_slice(out, part);
    }
    usage_watch_give(&watch, (struct slice){copy, piece.len});
    free(copy);
    lend();
}

static void
begin(struct buf *out)
{
    usage_strip_init(&strip);
    strip.held = held;
    strip.each = each;
    strip.last = last;
    usage_watch_init(&watch);
    watch.room = object;
    buf_clear(out);
}

static void
end(const struct buf *wanted, struct buf *out, unsigned dropped,
    const struct usage *usage)
{
    struct usage found;

    buf_add_slice(out, usage_strip_rest(&strip));
    REQUIRE(slice_equal(buf_slice(out), buf_slice(wanted)));
    REQUIRE(strip.dropped == dropped);
    usage_watch_end(&watch, &found);
    REQUIRE(found.prompt_tokens == usage->prompt_tokens &&
            found.cached_tokens == usage->cached_tokens &&
            found.cached_known == usage->cached_known);
}

static unsigned
count_events(struct slice in)
{
    struct sse_read sse;
    struct sse_event event;
    unsigned count = 0;

    sse_read_init(&sse, (size_t)1 << 20);
    sse_read_give(&sse, in);
    while (sse_read_next(&sse, &event)) {
        count++;
    }
    sse_read_fini(&sse);
    return count;
}

static void
try_stream(struct rng *rng, struct slice in, struct buf *wanted,
           struct buf *out)
{
    unsigned dropped = 0;
    struct usage usage;

    buf_clear(wanted);
    read_whole(in, wanted, &dropped);
    REQUIRE(count_events(in) == count_events(buf_slice(wanted)) + dropped);
    begin(out);
    give(in, out);
    usage_watch_end(&watch, &usage);
    end(wanted, out, dropped, &usage);
    for (size_t cut = 0; cut <= in.len; cut++) {
        begin(out);
        give((struct slice){in.ptr, cut}, out);
        give((struct slice){in.ptr + cut, in.len - cut}, out);
        end(wanted, out, dropped, &usage);
        cut += in.len > 1000 ? (size_t)rng_below(rng, 40) : 0;
    }
    for (uint64_t step = 1; step < 6; step++) {
        begin(out);
        for (size_t at = 0; at < in.len;) {
            size_t left = in.len - at;
            size_t len =
                step == 1 ? 1 : 1 + (size_t)rng_below(rng, step * step);
            len = len < left ? len : left;
            give((struct slice){in.ptr + at, len}, out);
            at += len;
        }
        end(wanted, out, dropped, &usage);
    }
}

int
main(int argc, char **argv)
{
    uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct buf in;
    struct buf wanted;
    struct buf out;

    buf_init(&in, (size_t)1 << 20);
    buf_init(&wanted, (size_t)1 << 20);
    buf_init(&out, (size_t)1 << 20);
    for (seed = first; seed < first + count; seed++) {
        struct rng rng;
        rng_init(&rng, seed);
        uint64_t events = rng_below(&rng, EVENTS_MAX);
        each = (enum usage_strip_each)rng_below(&rng, 3);
        last = each == USAGE_STRIP_LEAVE || rng_below(&rng, 2) == 0;
        buf_clear(&in);
        if (rng_below(&rng, 20) == 0) {
            buf_add_text(&in, "\xEF\xBB\xBF");
        }
        for (uint64_t i = 0; i < events; i++) {
            add_event(&rng, &in);
        }
        size_t cut = rng_below(&rng, 3) == 0 && in.len != 0
                         ? (size_t)rng_below(&rng, in.len)
                         : in.len;
        try_stream(&rng, (struct slice){in.len != 0 ? in.ptr : "", cut},
                   &wanted, &out);
    }
    buf_fini(&in);
    buf_fini(&wanted);
    buf_fini(&out);
    printf("property_usage_strip: %llu streams\n", (unsigned long long)count);
    return 0;
}
