/*
 * Requests of /v1/messages and /v1/responses for engines that do not know that
 * path: they are sent as chats, and the answers come back as the client's API has
 * them. node/dialect makes the one of the other. Likewise a count of Messages'
 * tokens, as a question to /tokenize.
 *
 * Which engines do not know it shows when one is asked: it answers 404, 405 or
 * 501, and gets the same request as a chat. If it takes that, the fleet's board
 * keeps so for ten minutes, for all lanes, and then it is asked again: it may
 * have been replaced by a newer one. Another worker is asked for the path itself
 * first, whatever this one said.
 */
#include <stdio.h>

#include "node/edge/answer_internal.h"

#define MARK       "\"cache_control\""
#define ROOM_MORE  4096U /* beyond what the body takes */
#define ROOM_TIMES 8U    /* arguments of tools are quoted once more */

static const char no_room[] = "limits.buffered_bytes_max is reached; try again";

/* A path, and what is asked for in its place. */
static const struct {
    const char *path;
    const char *instead;
    const char *line;
    enum fleet_lack lack;
} counterparts[] = {
    [DIALECT_MESSAGES] = {"/v1/messages", "/v1/chat/completions",
                          "/v1/chat/completions HTTP/1.1\r\n",
                          FLEET_LACKS_MESSAGES},
    [DIALECT_RESPONSES] = {"/v1/responses", "/v1/chat/completions",
                           "/v1/chat/completions HTTP/1.1\r\n",
                           FLEET_LACKS_RESPONSES},
    [DIALECT_COUNT] = {"/v1/messages/count_tokens", "/tokenize",
                       "/tokenize HTTP/1.1\r\n", FLEET_LACKS_COUNT},
};

void
translating_init(struct exchange *x)
{
    bool counts = slice_equal(x->client->lane->head.path,
                              SLICE("/v1/messages/count_tokens"));

    x->dialect.possible =
        x->method == HTTP_POST && !x->client->picked &&
        (x->api == SCAN_API_MESSAGES || x->api == SCAN_API_RESPONSES || counts);
    x->dialect.api = counts                        ? DIALECT_COUNT
                     : x->api == SCAN_API_MESSAGES ? DIALECT_MESSAGES
                                                   : DIALECT_RESPONSES;
    x->dialect.line = counterparts[x->dialect.api].line;
    x->counting.asks = x->dialect.possible && counts;
    x->dialect.marks =
        x->client->lane->messages.cache_control != 0 && x->dialect.possible &&
        x->api == SCAN_API_MESSAGES && x->client->lane->route.model.len != 0 &&
        memmem(x->body.ptr, x->body.len, MARK, sizeof(MARK) - 1) == NULL;
}

/* The first bytes of an object that is to be marked. */
struct body_edit
translating_mark(const struct exchange *x)
{
    const char *brace = memchr(x->body.ptr, '{', x->body.len);

    CHECK(brace != NULL); /* it was scanned, and names a model */
    return (struct body_edit){
        .at = (uint32_t)(brace + 1 - x->body.ptr),
        .text = SLICE("\"cache_control\":{\"type\":\"ephemeral\"},"),
    };
}

void
translating_release(struct exchange *x)
{
    struct edge_dialect *d = &x->dialect;

    if (d->body != NULL) {
        lane_memory_give(&x->client->lane->memory,
                         lane_memory_owner(x->client->quota, d->size), d->body,
                         d->size);
        d->body = NULL;
        d->chat.len = 0;
    }
}

void
translating_fini(struct exchange *x)
{
    translating_release(x);
    if (x->dialect.streams) {
        dialect_stream_fini(&x->dialect.saying->stream);
        buf_fini(&x->dialect.saying->said);
        x->dialect.streams = false;
    }
}

/* Whether the attempt's engine is told what keeps its tenant's prompts apart. */
static bool
wants_salt(const struct exchange *x)
{
    return x->salt.possible && route_salts(SCAN_API_CHAT, x->pool->worker.kind);
}

/* Whether it may be asked to tell the usage with each event. */
static bool
wants_each(const struct exchange *x)
{
    return x->resuming.possible && x->client->lane->usage_ask &&
           engine_kind_counts(x->pool->worker.kind);
}

bool
translating_suits(const struct exchange *x)
{
    return !x->dialect.streams || (x->dialect.salted == wants_salt(x) &&
                                   (!x->dialect.each || wants_each(x)));
}

/* The salt of an isolated tenant, as a JSON string. */
static struct slice
salt_of(const struct exchange *x)
{
    const struct edge_salt *salt = &x->salt;
    const char *quote = memchr(salt->text, ':', salt->len);
    struct slice text = {salt->text, salt->len};

    if (!x->dialect.salted) {
        return SLICE("");
    }
    if (salt->cut == 0) { /* "cache_salt":"...", */
        CHECK(quote != NULL);
        text.len -= (size_t)(quote + 1 - text.ptr) + 1;
        text.ptr = quote + 1;
    }
    return text;
}

/* Into so much room. False: it was too little. */
static bool ON_LANE
translate(struct exchange *x, size_t room)
{
    struct edge_dialect *d = &x->dialect;

    d->body = lane_memory_take(&x->client->lane->memory,
                               lane_memory_owner(x->client->quota, room), room,
                               &d->size);
    if (d->body == NULL) {
        d->why = no_room;
        return true;
    }
    struct buf out = buf_over(d->body, d->size);
    if (dialect_request(d->api, x->body, salt_of(x), d->each, &out, &d->why)) {
        d->chat = buf_slice(&out);
        return true;
    }
    translating_release(x);
    return d->why != NULL;
}

bool
translating_prepare(struct exchange *x)
{
    struct edge_dialect *d = &x->dialect;
    size_t size = x->body.len;

    d->why = NULL;
    if (d->chat.len != 0 && (d->streams || (d->salted == wants_salt(x) &&
                                            d->each == wants_each(x)))) {
        return true;
    }
    translating_release(x);
    d->salted = wants_salt(x);
    d->each = wants_each(x);
    for (size_t room = size + size / 2; room <= size * ROOM_TIMES; room *= 2) {
        if (translate(x, room + ROOM_MORE)) {
            return d->chat.len != 0;
        }
    }
    d->why = "it grows too large";
    return false;
}

void
translating_refuse(struct exchange *x)
{
    char text[256];

    if (x->dialect.why == no_room) {
        reply_error(x->client, 503, "overloaded", no_room);
        return;
    }
    (void)snprintf(text, sizeof(text),
                   "the engine has no %s, and the request cannot be served by "
                   "%s: %s",
                   counterparts[x->dialect.api].path,
                   counterparts[x->dialect.api].instead, x->dialect.why);
    reply_error(x->client, 400, "not_translatable", text);
}

/* An answer of one that does not know the path. */
static bool
says_unknown(unsigned status)
{
    return status == 404 || status == 405 || status == 501;
}

static enum fleet_lack
lack_of(const struct exchange *x)
{
    return counterparts[x->dialect.api].lack;
}

void
translating_elect(struct exchange *x)
{
    struct lane *lane = x->client->lane;

    x->dialect.shown = false;
    /* What goes on with a chat's stream is a chat's, whatever its engine has. */
    x->dialect.on = x->dialect.possible && x->pool != NULL &&
                    (x->dialect.streams ||
                     fleet_board_lacks(lane->node->board, lack_of(x),
                                       x->pool->slot, lane_now_us(lane)));
}

/* A response that an engine does not keep (any more) is a 404, too: of what is
 * stored it has the last word. */
bool
translating_unknown(struct exchange *x, unsigned status)
{
    return x->dialect.possible && !x->dialect.on && says_unknown(status) &&
           (x->dialect.api != DIALECT_RESPONSES || translating_prepare(x) ||
            x->dialect.why != dialect_stored);
}

void
translating_answered(struct exchange *x, unsigned status)
{
    struct lane *lane = x->client->lane;

    if (!x->dialect.on || says_unknown(status) || x->dispatch.resumed != 0) {
        return;
    }
    counter_bump(&lane->shared->metrics.translated, 1);
    if (x->dialect.shown) {
        fleet_board_lack(lane->node->board, lack_of(x), x->pool->slot,
                         lane_now_us(lane));
    }
}

bool
translating_begin(struct exchange *x)
{
    struct edge_saying *saying = x->dialect.saying;

    if (saying == NULL) { /* else a head before could not be written */
        saying = exchange_part(x, sizeof(*saying));
    }
    if (saying == NULL) {
        return false;
    }
    x->dialect.saying = saying;
    x->dialect.streams = true;
    buf_init(&saying->said, DIALECT_SAID_MAX);
    dialect_stream_init(&saying->stream, x->dialect.api, x->body,
                        &saying->said);
    return true;
}

/* What was said since the last time. */
static void
put_said(struct exchange *x, struct buf *out)
{
    struct buf *said = &x->dialect.saying->said;

    out->failed = out->failed || said->failed;
    if (said->len != 0) {
        rewriting_put(x, buf_slice(said), out);
        buf_clear(said);
    }
}

/* A comment before an event, of resume.h's. */
static struct slice
comment_of(const struct exchange *x, struct slice piece)
{
    const char *end = x->resuming.framed && x->resuming.resume->times != 0 &&
                              piece.len != 0 && piece.ptr[0] == ':'
                          ? memmem(piece.ptr, piece.len, "\n\n", 2)
                          : NULL;

    return (struct slice){piece.ptr,
                          end != NULL ? (size_t)(end + 2 - piece.ptr) : 0};
}

bool
translating_put(struct exchange *x, struct slice piece, struct buf *out)
{
    struct slice comment = comment_of(x, piece);

    if (comment.len != 0) {
        rewriting_put(x, comment, out);
    }
    bool good = dialect_stream_give(&x->dialect.saying->stream, piece);

    put_said(x, out);
    return good;
}

bool
translating_put_end(struct exchange *x, struct buf *out)
{
    bool good = dialect_stream_end(&x->dialect.saying->stream);

    put_said(x, out);
    return good;
}
