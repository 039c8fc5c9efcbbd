/*
 * A body that does not pass as it came: events that lose their usage, that are
 * of another API, or that may be gone on with; and the end of those that broke
 * off. It goes out in chunks of our own.
 */
#include "node/edge/answer_internal.h"

bool
rewriting_is_on(const struct exchange *x)
{
    return x->strips || x->resuming.framed || x->alive.told ||
           x->dialect.streams;
}

bool
rewriting_rechunks(const struct exchange *x)
{
    return rewriting_is_on(x) && !x->minor_0;
}

bool
rewriting_is_framed(const struct exchange *x)
{
    return rewriting_is_on(x) ? !x->minor_0
                              : x->body_kind != HTTP_BODY_CLOSE && !x->unchunk;
}

/* For each event of a stream: printf() takes more instructions for it than all
 * else here. */
void
rewriting_put_size(struct buf *out, size_t size)
{
    char line[2 * sizeof(size) + 2];
    size_t at = sizeof(line);

    line[--at] = '\n';
    line[--at] = '\r';
    do {
        line[--at] = "0123456789abcdef"[size % 16];
        size /= 16;
    } while (size != 0);
    buf_add(out, line + at, sizeof(line) - at);
}

void
rewriting_put(const struct exchange *x, struct slice data, struct buf *out)
{
    bool framed = rewriting_rechunks(x);

    if (framed) {
        rewriting_put_size(out, data.len);
    }
    buf_add_slice(out, data);
    if (framed) {
        buf_add(out, "\r\n", 2);
    }
}

void
rewriting_put_end(const struct exchange *x, struct buf *out)
{
    if (rewriting_rechunks(x)) {
        buf_add_text(out, "0\r\n\r\n");
    }
}

/* The rooms of the watch and the strip are the lane's, but for what they keep. */
static void ON_LANE
lend_rooms(struct exchange *x)
{
    struct edge_rooms *rooms =
        x->rooms != NULL ? x->rooms : &x->client->lane->rooms;

    x->watch.room = rooms->object;
    x->strip.held = rooms->held;
}

void
rewriting_fini(struct exchange *x)
{
    if (x->rooms != NULL) {
        lane_memory_give(&x->client->lane->memory, NULL, (char *)x->rooms,
                         x->rooms_size);
        x->rooms = NULL;
    }
}

/* They were given some. Without memory for what they keep of it, that is
 * forgotten. False: it was the client's. */
static bool ON_LANE
settle_rooms(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    bool keeps = x->watch.object_len != 0 || x->strip.held_len != 0;

    if (keeps == (x->rooms != NULL)) {
        return true;
    }
    if (!keeps) {
        rewriting_fini(x);
        return true;
    }
    /* Charged to nobody: an exchange has one. */
    x->rooms = (struct edge_rooms *)(void *)lane_memory_take(
        &lane->memory, NULL, sizeof(*x->rooms), &x->rooms_size);
    if (x->rooms == NULL) {
        bool lost = x->strip.held_len != 0;
        usage_watch_forget(&x->watch);
        x->strip.held_len = 0;
        return !lost;
    }
    *x->rooms = lane->rooms;
    return true;
}

void
rewriting_watch(struct exchange *x, struct slice bytes)
{
    lend_rooms(x);
    usage_watch_give(&x->watch, bytes);
    (void)settle_rooms(x); /* nothing is stripped */
}

/* As the client is to have it, but for the usage, or in its own API. False: it is
 * no chat's stream, or there is no memory. */
static bool ON_LANE
put_events(struct exchange *x, struct slice events, struct buf *out)
{
    struct slice part;
    bool good = true;

    lend_rooms(x);
    usage_watch_give(&x->watch, events);
    if (x->dialect.streams) {
        good = translating_put(x, events, out);
    } else if (!x->strips) {
        rewriting_put(x, events, out);
    } else {
        usage_strip_give(&x->strip, events);
        while (usage_strip_next(&x->strip, &part)) {
            rewriting_put(x, part, out);
        }
    }
    return settle_rooms(x) && good;
}

/* False: the engine failed, or does not go on where the answer ended. */
static bool ON_LANE
put_piece(struct exchange *x, struct slice piece, struct buf *out)
{
    struct resume *r = x->resuming.resume;
    struct slice events;
    bool good = true;

    if (!x->resuming.framed) {
        return put_events(x, piece, out);
    }
    resuming_give(x, piece);
    while (resume_next(r, &events)) {
        good = put_events(x, events, out) && good;
    }
    return good && !r->torn && !r->failed;
}

bool
rewriting_end(struct exchange *x, struct buf *out)
{
    struct slice rest =
        x->resuming.framed ? resume_rest(x->resuming.resume) : SLICE("");

    if (resuming_is_torn(x) || (rest.len != 0 && !put_events(x, rest, out)) ||
        (x->dialect.streams && !translating_put_end(x, out))) {
        return false;
    }
    lend_rooms(x);
    rest = x->strips ? usage_strip_rest(&x->strip) : SLICE("");
    if (rest.len != 0) {
        rewriting_put(x, rest, out);
    }
    rewriting_put_end(x, out);
    return true;
}

int
rewriting_take(struct exchange *x, const char *bytes, size_t len, size_t *taken,
               struct buf *out)
{
    struct slice in = {.ptr = bytes, .len = len};
    struct slice data;
    bool good = true;
    int outcome;
    int body;

    if (x->body_kind == HTTP_BODY_CHUNKED) {
        while (good && (outcome = http_chunk_next(&x->chunk, &in, &data)) ==
                           HTTP_CHUNK_E_DATA) {
            good = put_piece(x, data, out);
        }
        body = good ? response_of_chunks(outcome) : RESPONSE_BAD;
        *taken = len - in.len;
    } else {
        body = response_take(x, bytes, len, taken);
        good = put_piece(x, (struct slice){bytes, *taken}, out);
    }
    if (good && body == RESPONSE_END) {
        good = rewriting_end(x, out);
    }
    return out->failed || !good ? RESPONSE_BAD : body;
}

bool
rewriting_finish(struct exchange *x, struct buf *out)
{
    struct slice missing = SLICE("");

    if (x->client->out != NULL) {
        return false;
    }
    bool known = x->resuming.framed &&
                 resume_finish(x->resuming.resume, x->resuming.usage, &missing);
    bool told = x->dialect.streams && x->dialect.saying->stream.finished &&
                !x->dialect.saying->stream.given_up;
    return (known || told) &&
           (missing.len == 0 || put_events(x, missing, out)) &&
           rewriting_end(x, out);
}

void
rewriting_fail(struct exchange *x, struct buf *out)
{
    struct slice event = buf_slice(&x->resuming.resume->joined);

    if (x->dialect.streams) {
        translating_put(x, event, out);
    } else {
        rewriting_put(x, event, out);
    }
}
