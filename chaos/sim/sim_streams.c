/* Streams: what engines say, and what the client must have in the end. */
#include "chaos/sim/sim_streams_internal.h"

#include <stdlib.h>

#include "chaos/sim/sim_flight_internal.h"
#include "chaos/sim/sim_router_internal.h"
#include "index/base/role.h"

#define TOKENS_MAX \
    45U /* of prompt and output, which every engine has room for */
#define WORD_ROOM 16U
#define MERGED    3U /* words in one event at most */
#define SPANS_MAX 8U

_Static_assert(TOKENS_MAX <= SIM_PROMPT_TOKENS + SIM_STREAM_WORDS,
               "a prompt and what was said");

static struct sim_speech *
stream_of(struct sim_world *w, const struct sim_flight *f)
{
    CHECK(f->streams && w->streams != NULL);
    return &w->streams->stream[sim_flight_slot(w, f)];
}

void
sim_streams_begin(struct sim_world *w)
{
    if (w->requests == NULL || !sim_has(w, SIM_STREAM)) {
        return;
    }
    w->streams = calloc(1, sizeof *w->streams);
    CHECK(w->streams != NULL);
    rng_init(&w->streams->rng, rng_mix(w->options.seed ^ 0x737472));
    for (uint32_t i = 0; i < SIM_FLIGHTS_MAX; i++) {
        resume_init(&w->streams->stream[i].resume);
    }
}

static void
forget(struct sim_speech *s)
{
    s->resume.room = NULL;
    resume_fini(&s->resume);
}

void
sim_streams_end(struct sim_world *w)
{
    for (uint32_t i = 0; w->streams != NULL && i < SIM_FLIGHTS_MAX; i++) {
        forget(&w->streams->stream[i]);
    }
    free(w->streams);
    w->streams = NULL;
}

void
sim_stream_draw(struct sim_world *w, struct sim_flight *f)
{
    uint32_t most = TOKENS_MAX - f->prompt.len;

    if (w->streams == NULL || sim_below(&w->streams->rng, 4) == 0) {
        return;
    }
    most = most < SIM_STREAM_WORDS ? most : SIM_STREAM_WORDS;
    f->streams = true;
    f->prompt.output_len = 1 + sim_below(&w->streams->rng, most);
}

void
sim_stream_open(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);

    forget(s);
    resume_init(&s->resume);
    s->begun = false;
    s->untold = false;
    s->from = 0;
    s->got_len = 0;
}

/* What an engine says */

static uint64_t
hash_of(const struct sim_flight *f, uint32_t i)
{
    return rng_mix(rng_mix(f->number) + i);
}

/* Some end in a blank, which templates cut off. */
static void
put_word(const struct sim_flight *f, uint32_t i, char word[WORD_ROOM])
{
    uint64_t hash = hash_of(f, i);

    (void)snprintf(word, WORD_ROOM, "%s%u%s", hash % 3 == 0 ? " \\u00e9" : "w",
                   (unsigned)(hash >> 8) % 100, hash % 5 == 0 ? " " : "");
}

static void
add_event(struct buf *out, const char *id, const char *rest)
{
    buf_printf(out,
               "data: {\"id\":\"%s\",\"object\":\"chat.completion.chunk\","
               "\"created\":7,"
               "\"model\":\"m\",%s}\n\n",
               id, rest);
}

static bool
wants_usage(const struct sim_flight *f)
{
    return f->number % 2 != 0;
}

/* Engines that are asked to, tell with each event how many words there are by
 * then; those put several of them into one. All engines of a flight's are of one
 * kind. */
static bool
counts(const struct sim_flight *f)
{
    return f->number % 3 != 0;
}

/* Usage of an engine that begins with that word and has said all before that
 * one. */
static void
add_usage(struct buf *rest, const struct sim_flight *f, uint32_t from,
          uint32_t to)
{
    buf_printf(rest,
               ",\"usage\":{\"prompt_tokens\":%u,\"total_tokens\":%u,"
               "\"completion_tokens\":%u}",
               f->prompt.len + from, f->prompt.len + to, to - from);
}

static void
add_role(struct buf *out, const char *id, const struct sim_flight *f,
         uint32_t from)
{
    char bytes[256];
    struct buf rest = buf_over(bytes, sizeof bytes);

    buf_add_text(&rest,
                 "\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\","
                 "\"content\":\"\"},\"finish_reason\":null}]");
    if (counts(f)) {
        add_usage(&rest, f, from, from);
    }
    buf_add(&rest, "", 1);
    add_event(out, id, rest.ptr);
}

/* The words [i, to) in one event. */
static void
add_words(struct buf *out, const char *id, const struct sim_flight *f,
          uint32_t from, const uint32_t range[2])
{
    bool last = range[1] == f->prompt.output_len;
    char word[WORD_ROOM];
    char bytes[256];
    struct buf rest = buf_over(bytes, sizeof bytes);

    buf_add_text(&rest, "\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
    for (uint32_t i = range[0]; i < range[1]; i++) {
        put_word(f, i, word);
        buf_add_text(&rest, word);
    }
    buf_printf(&rest, "\"},\"finish_reason\":%s}]",
               last ? "\"length\"" : "null");
    if (counts(f)) {
        add_usage(&rest, f, from, range[1]);
    }
    buf_add(&rest, "", 1);
    CHECK(!rest.failed);
    add_event(out, id, rest.ptr);
}

static void
add_end(struct buf *out, const char *id, const struct sim_flight *f,
        uint32_t from, bool told)
{
    char bytes[256];
    struct buf rest = buf_over(bytes, sizeof bytes);

    if (told && wants_usage(f)) {
        buf_add_text(&rest, "\"choices\":[]");
        add_usage(&rest, f, from, f->prompt.output_len);
        buf_add(&rest, "", 1);
        add_event(out, id, rest.ptr);
    }
    buf_add_text(out, "data: [DONE]\n\n");
}

/* The engine's next event: words that have not gone out, or what ends it. */
static void
add_next(struct buf *out, const struct sim_speech *s,
         const struct sim_flight *f)
{
    const uint32_t range[2] = {s->sent, s->next + 1};

    if (s->next < f->prompt.output_len) {
        add_words(out, s->id, f, s->from, range);
    } else {
        add_end(out, s->id, f, s->from, true);
    }
    CHECK(!out->failed);
}

/* Whether the next word waits for the one behind it, as this engine has it. */
static bool
lags(const struct sim_speech *s, const struct sim_flight *f)
{
    return counts(f) && s->next + 1 < f->prompt.output_len &&
           s->next + 1 - s->sent < MERGED &&
           rng_mix(hash_of(f, s->next) + f->engine + s->from) % 3 == 0;
}

void
sim_stream_request(struct sim_world *w, struct sim_flight *f,
                   struct engine_request *request, uint32_t *tokens,
                   uint32_t *output)
{
    struct sim_speech *s = stream_of(w, f);
    uint32_t words = f->prompt.output_len;

    CHECK(s->from < words && words <= SIM_STREAM_WORDS);
    for (uint32_t i = 0; i < words; i++) {
        uint32_t *to =
            i < s->from ? &tokens[f->prompt.len + i] : &output[i - s->from];
        *to = (uint32_t)hash_of(f, i);
    }
    request->prompt_len = f->prompt.len + s->from;
    request->output = output;
    request->output_len = words - s->from;
    s->next = s->from;
    s->sent = s->from;
    s->breaks = sim_below(&w->streams->rng, words - s->from);
    (void)snprintf(s->id, sizeof s->id, "e%u-%u", f->engine, f->process);
}

/* At the node */

static void
pass(struct sim_speech *s, struct slice bytes)
{
    CHECK(s->got_len + bytes.len <= sizeof s->got);
    memcpy(s->got + s->got_len, bytes.ptr, bytes.len);
    s->got_len += bytes.len;
}

static void
give(struct sim_world *w, const struct sim_flight *f, struct slice bytes)
{
    struct sim_speech *s = stream_of(w, f);
    struct slice out;

    CHECK(resume_needs(&s->resume, bytes.len) <= sizeof s->room);
    resume_give(&s->resume, bytes);
    while (resume_next(&s->resume, &out)) {
        pass(s, out);
    }
    if (s->resume.torn || s->resume.failed) {
        sim_fail(w, "the rest of a stream is not taken for its rest", f->node,
                 f->engine);
    }
}

static void
give_next(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);
    char bytes[512];
    struct buf event = buf_over(bytes, sizeof bytes);

    if (lags(s, f)) {
        s->next++;
        return;
    }
    add_next(&event, s, f);
    s->next++;
    s->sent = s->next;
    give(w, f, buf_slice(&event));
}

void
sim_stream_head(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);
    char bytes[256];
    struct buf role = buf_over(bytes, sizeof bytes);

    if (s->begun) {
        resume_continue(&s->resume);
    } else {
        resume_begin(&s->resume, SCAN_API_CHAT, true, false);
        s->resume.room = s->room;
        s->resume.size = sizeof s->room;
        s->begun = true;
    }
    if (s->resume.id_len == 0) {
        memcpy(s->told_id, s->id, sizeof s->told_id);
    }
    add_role(&role, s->id, f, s->from);
    give(w, f, buf_slice(&role));
    give_next(w, f);
}

void
sim_stream_token(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);

    if (s->next < f->prompt.output_len) { /* else its end has overtaken it */
        give_next(w, f);
    }
}

void
sim_stream_rest(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);

    while (s->next <= f->prompt.output_len) {
        give_next(w, f);
    }
    pass(s, resume_rest(&s->resume));
}

void
sim_stream_tear(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);
    char bytes[512];
    struct buf event = buf_over(bytes, sizeof bytes);

    if (s->next <= f->prompt.output_len) {
        add_next(&event, s, f);
        event.len = sim_below(&w->streams->rng, event.len);
        give(w, f, buf_slice(&event));
    }
}

bool
sim_stream_is_all(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);
    struct slice missing;
    bool is = resume_finish(&s->resume, wants_usage(f), &missing);

    if (is) {
        s->untold = !s->resume.usage_told && !counts(f);
        pass(s, missing);
    }
    return is;
}

/* Going on */

static void
edit(struct slice body, const struct body_edit *edits, int count,
     struct buf *out)
{
    size_t from = 0;

    for (int i = 0; i < count; i++) {
        buf_add(out, body.ptr + from, edits[i].at - from);
        buf_add_slice(out, edits[i].text);
        from = (size_t)edits[i].at + edits[i].cut;
    }
    buf_add(out, body.ptr + from, body.len - from);
    CHECK(!out->failed);
}

/* The word with which an engine goes on that gets this request: by the text of
 * the assistant's message, and as many tokens as are left. UINT32_MAX: it cannot
 * know. */
static uint32_t
word_of(const struct sim_flight *f, struct slice body)
{
    struct scan_span spans[SPANS_MAX];
    struct scan scan = {.spans = spans, .api = SCAN_API_CHAT};
    const struct scan_limits limits = {.depth_max = 16, .spans_max = SPANS_MAX};
    uint32_t words = f->prompt.output_len;
    char text[SIM_STREAM_BYTES];
    char raw[WORD_ROOM];
    char word[WORD_ROOM];
    size_t at = 0;

    if (scan_body(body.ptr, body.len, &limits, &scan) != 0) {
        return UINT32_MAX;
    }
    if (!scan.options[SCAN_CONTINUE_FINAL_MESSAGE].present) {
        return scan.max_tokens == words ? 0 : UINT32_MAX;
    }
    const struct scan_span *last = &spans[scan.spans_count - 1];
    size_t len = scan_unescape(body.ptr + last->at, last->len, text);
    for (uint32_t i = 0; i < words; i++) {
        if (at == len) {
            return scan.max_tokens == words - i ? i : UINT32_MAX;
        }
        put_word(f, i, raw);
        size_t more = scan_unescape(raw, strlen(raw), word);
        if (more > len - at || memcmp(text + at, word, more) != 0) {
            break;
        }
        at += more;
    }
    return UINT32_MAX;
}

bool
sim_stream_asks(struct sim_world *w, struct sim_flight *f)
{
    struct sim_speech *s = stream_of(w, f);
    struct body_edit edits[RESUME_EDITS_MAX];
    char bytes[2][SIM_STREAM_BYTES];
    struct buf body = buf_over(bytes[0], sizeof bytes[0]);
    struct buf asked = buf_over(bytes[1], sizeof bytes[1]);

    role_is_lane();
    if (!dispatch_may_resume(&f->dispatch)) {
        return false;
    }
    buf_printf(&body,
               "{\"model\":\"m\",\"messages\":[{\"role\":\"user\","
               "\"content\":\"Say it.\"}],\"max_tokens\":%u,"
               "\"temperature\":0,\"stream\":true}",
               f->prompt.output_len);
    int count = resume_ask(&s->resume, buf_slice(&body), edits);
    if (count < 0) {
        sim_fail(w, "nobody can go on with a stream", f->node, f->engine);
        return false;
    }
    edit(buf_slice(&body), edits, count, &asked);
    s->from = word_of(f, buf_slice(&asked));
    if (s->from == UINT32_MAX) {
        sim_fail(w, "an engine cannot know where a stream goes on", f->node,
                 f->engine);
        s->from = 0;
    }
    sim_saw(w, SIM_SAW_WENT_ON, 1);
    return true;
}

/* What must hold */

/* Takes the next event off the front, if it has the words of that range, which
 * then is empty behind them. */
static bool
takes(const struct sim_flight *f, const char *id, struct slice *got,
      uint32_t range[2])
{
    char bytes[512];
    struct buf event = buf_over(bytes, sizeof bytes);

    add_words(&event, id, f, 0, range);
    CHECK(!event.failed);
    if (!slice_skip_text(got, buf_slice(&event))) {
        return false;
    }
    range[0] = range[1];
    return true;
}

/* Words may be put into events in any way. */
void
sim_stream_judge(struct sim_world *w, struct sim_flight *f)
{
    const struct sim_speech *s = stream_of(w, f);
    uint32_t most = counts(f) ? MERGED : 1;
    uint32_t range[2] = {0, 0};
    char bytes[512];
    struct buf want = buf_over(bytes, sizeof bytes);
    struct slice got = {s->got, s->got_len};
    bool good;

    add_role(&want, s->told_id, f, 0);
    good = slice_skip_text(&got, buf_slice(&want));
    while (good && range[0] < f->prompt.output_len) {
        good = false;
        for (uint32_t more = 1; !good && more <= most; more++) {
            range[1] = range[0] + more;
            good = range[1] <= f->prompt.output_len &&
                   takes(f, s->told_id, &got, range);
        }
    }
    buf_clear(&want);
    add_end(&want, s->told_id, f, 0, !s->untold);
    CHECK(!want.failed);
    if (!good || !slice_equal(buf_slice(&want), got)) {
        sim_fail(w, "a stream is not what an undisturbed engine says", f->node,
                 f->engine);
    }
}

void
sim_stream_severed(struct sim_world *w, struct sim_flight *f)
{
    const struct sim_router *r = w->nodes[f->node].router;
    const struct dispatch *d = &f->dispatch;
    struct worker_set left =
        fleet_view_candidates(fleet_view_get(r->board), r->board);
    bool waits = w->tenants != NULL; /* it may have waited in vain */

    if (stream_of(w, f)->resume.finished) {
        sim_fail(w, "a stream that had said all is severed", f->node,
                 f->engine);
    }
    left = worker_set_minus(&left, &d->tried);
    worker_set_remove(&left, f->engine);
    if (!waits && d->sends < 2 &&
        d->attempts_count + 1 < r->dispatch.attempts_max &&
        !worker_set_empty(&left)) {
        sim_fail(w, "a stream is severed although a worker could go on",
                 f->node, f->engine);
    }
}
