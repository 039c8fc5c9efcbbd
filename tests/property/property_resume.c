/*
 * Streams of three APIs from engines that die at any byte, several times in one
 * answer, against what an engine says that nobody disturbs.
 *
 * A client asks for a chat, or by /v1/messages or /v1/responses for one that is
 * translated. An engine streams words of random bytes, in events that come in
 * pieces; some open with the role, end lines with CRLF, or put several words
 * into one event, which then tells how many there are by then. It dies at a random byte; the next one reads the request that
 * resume_ask() made, finds out by its last message where it is to go on, and
 * goes on there. In the end the client has the same bytes as of one engine: so
 * it does in its own API, where they pass dialect_stream on the way.
 *
 *   property_resume SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/rng.h"
#include "node/dialect/dialect.h"
#include "node/route/resume.h"
#include "node/scan/scan.h"

#define WORDS_MAX 40U
#define WORD_MAX  64U
#define ROOM      ((size_t)64 << 10)
#define TEXT_MAX  ((size_t)1 << 20)
#define DEATHS    4U
#define SPANS_MAX 64U

enum way {
    WAY_CHAT,
    WAY_MESSAGES,
    WAY_RESPONSES,
    WAYS,
};

static struct {
    struct rng rng;
    uint64_t seed;
    enum way way;
    char word[WORDS_MAX][WORD_MAX]; /* raw, of a JSON string */
    uint32_t words;
    uint32_t most;     /* of them in one event; 1: and nobody counts */
    bool untold;       /* the client gets no usage: nobody can tell it */
    struct buf body;   /* the chat that the first engine gets */
    struct buf stream; /* what an engine says */
    struct buf got;    /* what the client has, or its translation gets */
    struct buf asked;
    char room[ROOM];
} w;

static uint64_t answers[WAYS];
static uint64_t resumed;
static uint64_t given_up; /* those that nobody can go on with */

/* Pieces of words; the blanks are where templates cut. */
static const char *const bits[] = {
    "a",
    "the",
    " ",
    " ",
    "\\n",
    "\\\"",
    "\\\\",
    "\\u00e9",
    "\u00e9",
    "\u4e2d",
    "\\ud83d\\ude00",
    ".",
    "\\t",
    " and",
    "\u3000",
    "/",
};

static void
fail(const char *why)
{
    (void)fprintf(stderr, "seed %llu: %s\n", (unsigned long long)w.seed, why);
    exit(1);
}

static bool
chance(uint64_t of)
{
    return rng_below(&w.rng, of) == 0;
}

static void
make_words(void)
{
    w.words = 1 + (uint32_t)rng_below(&w.rng, WORDS_MAX);
    for (uint32_t i = 0; i < w.words; i++) {
        w.word[i][0] = '\0';
        for (uint64_t n = 1 + rng_below(&w.rng, 4); n > 0; n--) {
            size_t len = strlen(w.word[i]);
            (void)snprintf(
                w.word[i] + len, WORD_MAX - len, "%s",
                bits[rng_below(&w.rng, sizeof(bits) / sizeof(bits[0]))]);
        }
    }
}

static void
make_body(void)
{
    char text[512];
    const char *why;
    bool responses = w.way == WAY_RESPONSES;

    (void)snprintf(text, sizeof(text),
                   "{\"model\":\"m\",%s,\"%s\":%u,\"temperature\":0,"
                   "\"stream\":true}",
                   responses ? "\"input\":\"Say it.\""
                             : "\"messages\":[{\"role\":\"user\","
                               "\"content\":\"Say it.\"}]",
                   responses ? "max_output_tokens" : "max_tokens", w.words);
    buf_clear(&w.body);
    if (w.way == WAY_CHAT) {
        buf_add_text(&w.body, text);
    } else if (!dialect_request(
                   w.way == WAY_MESSAGES ? DIALECT_MESSAGES : DIALECT_RESPONSES,
                   slice_of(text), SLICE(""), false, &w.body, &why)) {
        fail(why);
    }
}

static void
add_event(const char *id, const char *rest, bool carriage)
{
    buf_printf(&w.stream,
               "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\","
               "\"created\":7,"
               "\"model\":\"m\",%s}%s",
               id, rest, carriage ? "\r\n\r\n" : "\n\n");
}

/* The words up to that one, from an engine that began with `from`. */
static void
add_words(const char *id, uint32_t from, const uint32_t range[2], bool carriage)
{
    static char bytes[1024];
    struct buf rest = buf_over(bytes, sizeof(bytes));

    buf_add_text(&rest, "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
    for (uint32_t i = range[0]; i < range[1]; i++) {
        buf_add_text(&rest, w.word[i]);
    }
    buf_printf(&rest, "\"},\"finish_reason\":%s}]",
               range[1] == w.words ? "\"length\"" : "null");
    if (w.most > 1) {
        buf_printf(&rest,
                   ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,"
                   "\"completion_tokens\":%u}",
                   9 + from, 9 + range[1], range[1] - from);
    }
    buf_add(&rest, "", 1);
    CHECK(!rest.failed);
    add_event(id, rest.ptr, carriage);
}

static void
add_role(const char *id, bool carriage)
{
    add_event(id,
              "\"choices\":[{\"index\":0,\"delta\":{\"role\":"
              "\"assistant\",\"content\":\"\"},\"finish_reason\":null}]",
              carriage);
}

static void
add_end(const char *id, uint32_t from, bool carriage)
{
    char rest[128];

    (void)snprintf(rest, sizeof(rest),
                   "\"choices\":[],\"usage\":{\"prompt_tokens\":%u,"
                   "\"total_tokens\":%u,\"completion_tokens\":%u}",
                   9 + from, 9 + w.words, w.words - from);
    if (!w.untold) {
        add_event(id, rest, carriage);
    }
    buf_add_text(&w.stream, "data: [DONE]\n\n");
}

/* What an engine says from that word on. The first engine's manner is plain: the
 * client's bytes are compared with it. */
static void
speak(uint32_t engine, uint32_t from)
{
    bool plain = engine == 0;
    bool carriage = !plain && chance(3);
    uint32_t range[2] = {from, from};
    char id[24];

    (void)snprintf(id, sizeof(id), "engine-%u", engine);
    buf_clear(&w.stream);
    if (plain || chance(2)) {
        add_role(id, carriage);
    }
    while (range[0] < w.words) {
        range[1] = range[0] + 1 + (uint32_t)rng_below(&w.rng, w.most);
        range[1] = range[1] < w.words ? range[1] : w.words;
        add_words(id, from, range, carriage);
        range[0] = range[1];
    }
    add_end(id, from, carriage);
    CHECK(!w.stream.failed);
}

/* The word with which an engine goes on that gets this request: by the text of
 * the assistant's message, and as many tokens as are left. */
static uint32_t
word_of(struct slice body)
{
    static struct scan_span spans[SPANS_MAX];
    static char text[ROOM];
    static char said[ROOM];
    struct scan scan = {.spans = spans, .api = SCAN_API_CHAT};
    struct scan_limits limits = {.depth_max = 32, .spans_max = SPANS_MAX};
    size_t at = 0;

    if (scan_body(body.ptr, body.len, &limits, &scan) != 0) {
        fail("an engine was asked by what is no JSON");
    }
    if (!scan.options[SCAN_CONTINUE_FINAL_MESSAGE].present) {
        return 0;
    }
    const struct scan_span *last = &spans[scan.spans_count - 1];
    size_t len = scan_unescape(body.ptr + last->at, last->len, text);
    for (uint32_t i = 0; i < w.words; i++) {
        if (at == len && scan.max_tokens == w.words - i) {
            return i;
        }
        size_t more = scan_unescape(w.word[i], strlen(w.word[i]), said);
        if (more > len - at || memcmp(text + at, said, more) != 0) {
            break;
        }
        at += more;
    }
    fail("an engine cannot know where to go on");
    return 0;
}

static void
give(struct resume *r, size_t to)
{
    size_t at = 0;

    while (at < to) {
        size_t len = 1 + rng_below(&w.rng, chance(2) ? 9 : 700);
        struct slice out;
        len = len < to - at ? len : to - at;
        CHECK(resume_needs(r, len) <= ROOM);
        resume_give(r, (struct slice){w.stream.ptr + at, len});
        while (resume_next(r, &out)) {
            buf_add_slice(&w.got, out);
        }
        if (r->torn || r->failed) {
            fail("the rest was not taken for the rest");
        }
        at += len;
    }
}

static void
edit(const struct body_edit *edits, int count)
{
    size_t from = 0;

    buf_clear(&w.asked);
    for (int i = 0; i < count; i++) {
        buf_add(&w.asked, w.body.ptr + from, edits[i].at - from);
        buf_add_slice(&w.asked, edits[i].text);
        from = (size_t)edits[i].at + edits[i].cut;
    }
    buf_add(&w.asked, w.body.ptr + from, w.body.len - from);
}

/* An answer to its end. False: an engine died where nobody can go on. */
static bool
answer(struct resume *r)
{
    struct body_edit edits[RESUME_EDITS_MAX];
    struct slice missing;
    uint64_t deaths = rng_below(&w.rng, DEATHS + 1);

    for (uint32_t engine = 0;; engine++) {
        bool dies = engine < deaths;
        give(r, dies ? rng_below(&w.rng, w.stream.len) : w.stream.len);
        if (!dies) {
            buf_add_slice(&w.got, resume_rest(r));
            return true;
        }
        if (resume_finish(r, true, &missing)) {
            w.untold = !r->usage_told && w.most == 1;
            buf_add_slice(&w.got, missing);
            return true;
        }
        int count = resume_ask(r, buf_slice(&w.body), edits);
        if (count < 0) {
            return false;
        }
        edit(edits, count);
        speak(r->id_len == 0 ? 0 : engine + 1, word_of(buf_slice(&w.asked)));
        resume_continue(r);
        resumed++;
    }
}

/* The text of a chat's stream, in the client's API. */
static void
translate(struct slice chat, struct buf *out)
{
    struct dialect_stream s;

    buf_clear(out);
    if (w.way == WAY_CHAT) {
        buf_add_slice(out, chat);
        return;
    }
    dialect_stream_init(
        &s, w.way == WAY_MESSAGES ? DIALECT_MESSAGES : DIALECT_RESPONSES,
        SLICE(""), out);
    if (!dialect_stream_give(&s, chat) || !dialect_stream_end(&s)) {
        fail("its translation is an error");
    }
    dialect_stream_fini(&s);
}

/* Without the bytes that may differ where nothing is meant by them. */
static void
normalise(struct buf *text)
{
    size_t to = 0;

    for (size_t i = 0; i < text->len; i++) {
        if (text->ptr[i] != '\r') {
            text->ptr[to++] = text->ptr[i];
        }
    }
    text->len = to;
}

/* Takes the event in w.stream off the front of what the client has. */
static bool
takes(struct slice *got)
{
    bool is = got->len >= w.stream.len &&
              memcmp(got->ptr, w.stream.ptr, w.stream.len) == 0;

    if (is) {
        got->ptr += w.stream.len;
        got->len -= w.stream.len;
    }
    buf_clear(&w.stream);
    return is;
}

/* The same words, ids and counts as of one engine, however they were put into
 * events. */
static bool
is_whole(struct slice got)
{
    uint32_t range[2] = {0, 0};
    bool good;

    buf_clear(&w.stream);
    add_role("engine-0", false);
    good = takes(&got);
    while (good && range[0] < w.words) {
        good = false;
        for (uint32_t more = 1; !good && more <= w.most; more++) {
            range[1] = range[0] + more;
            if (range[1] <= w.words) {
                add_words("engine-0", 0, range, false);
                good = takes(&got);
            }
        }
        range[0] = range[1];
    }
    add_end("engine-0", 0, false);
    return good && takes(&got) && got.len == 0;
}

static void
play(uint64_t seed)
{
    struct resume r;
    struct buf want;
    struct buf have;

    rng_init(&w.rng, seed);
    w.seed = seed;
    w.way = (enum way)rng_below(&w.rng, WAYS);
    w.most = chance(2) ? 1 : 4;
    w.untold = false;
    make_words();
    make_body();
    buf_clear(&w.got);
    buf_init(&want, TEXT_MAX);
    buf_init(&have, TEXT_MAX);
    speak(0, 0);
    translate(buf_slice(&w.stream), &want);
    resume_init(&r);
    resume_begin(&r, SCAN_API_CHAT, chance(2), false);
    r.room = w.room;
    r.size = ROOM;
    if (answer(&r)) {
        if (w.untold) {
            speak(0, 0);
            translate(buf_slice(&w.stream), &want);
        }
        normalise(&w.got);
        translate(buf_slice(&w.got), &have);
        CHECK(!want.failed && !have.failed && !w.got.failed);
        bool good = w.most > 1
                        ? is_whole(buf_slice(&w.got))
                        : slice_equal(buf_slice(&want), buf_slice(&have));
        if (!good) {
            (void)fprintf(stderr, "wanted:\n%.*s\ngot:\n%.*s\n", (int)want.len,
                          want.ptr, (int)have.len, have.ptr);
            fail("the client did not get what one engine says");
        }
        answers[w.way]++;
    } else {
        given_up++;
    }
    r.room = NULL;
    resume_fini(&r);
    buf_fini(&want);
    buf_fini(&have);
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    buf_init(&w.body, TEXT_MAX);
    buf_init(&w.stream, TEXT_MAX);
    buf_init(&w.got, TEXT_MAX);
    buf_init(&w.asked, TEXT_MAX);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        play(seed);
    }
    printf("%llu seeds: %llu chats, %llu messages, %llu responses whole, %llu "
           "times resumed, %llu given up\n",
           (unsigned long long)seeds, (unsigned long long)answers[WAY_CHAT],
           (unsigned long long)answers[WAY_MESSAGES],
           (unsigned long long)answers[WAY_RESPONSES],
           (unsigned long long)resumed, (unsigned long long)given_up);
    if (given_up * 4 > seeds) {
        fail("too many were given up");
    }
    buf_fini(&w.body);
    buf_fini(&w.stream);
    buf_fini(&w.got);
    buf_fini(&w.asked);
    return 0;
}
