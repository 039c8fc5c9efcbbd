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

/* As the client is to have it, but for the usage, or in its own API. False: it is
 * no chat's stream. */
static bool
put_events(struct exchange *x, struct slice events, struct buf *out)
{
    struct slice part;

    usage_watch_give(&x->watch, events);
    if (x->dialect.streams) {
        return translating_put(x, events, out);
    }
    if (!x->strips) {
        rewriting_put(x, events, out);
        return true;
    }
    usage_strip_give(&x->strip, events);
    while (usage_strip_next(&x->strip, &part)) {
        rewriting_put(x, part, out);
    }
    return true;
}

/* False: the engine failed, or does not go on where the answer ended. */
static bool ON_LANE
put_piece(struct exchange *x, struct slice piece, struct buf *out)
{
    struct slice events;
    bool good = true;

    if (!x->resuming.framed) {
        return put_events(x, piece, out);
    }
    resuming_give(x, piece);
    while (resume_next(&x->resume, &events)) {
        good = put_events(x, events, out) && good;
    }
    return good && !x->resume.torn && !x->resume.failed;
}

bool
rewriting_end(struct exchange *x, struct buf *out)
{
    struct slice rest =
        x->resuming.framed ? resume_rest(&x->resume) : SLICE("");

    if (x->resume.torn || (rest.len != 0 && !put_events(x, rest, out)) ||
        (x->dialect.streams && !translating_put_end(x, out))) {
        return false;
    }
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
                 resume_finish(&x->resume, x->resuming.usage, &missing);
    bool told = x->dialect.streams && x->says.finished && !x->says.given_up;
    return (known || told) &&
           (missing.len == 0 || put_events(x, missing, out)) &&
           rewriting_end(x, out);
}

void
rewriting_fail(struct exchange *x, struct buf *out)
{
    struct slice event = {x->resume.joined.ptr, x->resume.joined.len};

    if (x->dialect.streams) {
        translating_put(x, event, out);
    } else {
        rewriting_put(x, event, out);
    }
}
