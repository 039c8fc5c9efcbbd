/* What NATS servers say, and clients first. */
#include "node/events/nats_wire_internal.h"

#include "index/base/ascii.h"
#include "node/text/json_out.h"
#include "node/text/json_pull.h"

#define WORDS_MAX  5
#define LENGTH_MAX UINT32_MAX /* beyond what servers allow */

/* Words between blanks and tabs; the count, WORDS_MAX + 1: there are more. */
static size_t
split(struct slice line, struct slice words[WORDS_MAX])
{
    size_t count = 0;

    for (size_t at = 0; at < line.len;) {
        size_t start = at;
        while (at < line.len && line.ptr[at] != ' ' && line.ptr[at] != '\t') {
            at++;
        }
        if (at > start) {
            if (count == WORDS_MAX) {
                return WORDS_MAX + 1;
            }
            words[count++] = (struct slice){line.ptr + start, at - start};
        }
        at++;
    }
    return count;
}

static bool
read_number(struct slice text, uint64_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (!ascii_is_digit(text.ptr[i]) || *number > (UINT64_MAX - 9) / 10) {
            return false;
        }
        *number = *number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    return text.len != 0;
}

/* MSG SUBJECT SID [REPLY] BYTES, or HMSG SUBJECT SID [REPLY] HEADERS BYTES. */
static void
read_message(struct slice bytes, size_t line_len, size_t message_max,
             struct nats_said *said)
{
    struct slice words[WORDS_MAX];
    bool headed = ascii_lower(bytes.ptr[0]) == 'h';
    size_t skip = headed ? 4 : 3;
    size_t fixed = headed ? 4 : 3;
    uint64_t headers = 0;
    uint64_t total = 0;

    size_t count =
        split((struct slice){bytes.ptr + skip, line_len - skip - 2}, words);
    said->op = NATS_BAD;
    if ((count != fixed && count != fixed + 1) ||
        !read_number(words[1], &said->sid) ||
        !read_number(words[count - 1], &total) ||
        (headed && !read_number(words[count - 2], &headers)) ||
        total > LENGTH_MAX || headers > total) {
        return;
    }
    if (count == fixed + 1) {
        said->reply = words[2];
    }
    if (total > message_max) {
        said->used = line_len;
        said->skip = (size_t)total + 2;
        said->op = NATS_MSG;
        return;
    }
    if (bytes.len - line_len < total + 2) {
        said->op = NATS_PART;
        return;
    }
    const char *body = bytes.ptr + line_len;
    if (body[total] != '\r' || body[total + 1] != '\n') {
        return;
    }
    said->headers = (struct slice){body, (size_t)headers};
    said->payload = (struct slice){body + headers, (size_t)(total - headers)};
    said->used = line_len + (size_t)total + 2;
    said->op = NATS_MSG;
}

void
nats_wire_read(struct slice bytes, size_t message_max, struct nats_said *said)
{
    static const struct {
        struct slice word;
        enum nats_op op;
    } ops[] = {
        {{"MSG ", 4}, NATS_MSG},   {{"HMSG ", 5}, NATS_MSG},
        {{"PING", 4}, NATS_PING},  {{"PONG", 4}, NATS_PONG},
        {{"INFO ", 5}, NATS_INFO}, {{"+OK", 3}, NATS_OK},
        {{"-ERR", 4}, NATS_ERR},
    };
    size_t look = bytes.len < NATS_LINE_MAX ? bytes.len : NATS_LINE_MAX;
    const char *end = look != 0 ? memchr(bytes.ptr, '\n', look) : NULL;

    *said = (struct nats_said){.op = NATS_PART};
    if (end == NULL) {
        said->op = bytes.len < NATS_LINE_MAX ? NATS_PART : NATS_BAD;
        return;
    }
    struct slice line = {bytes.ptr, (size_t)(end - bytes.ptr) + 1};
    said->op = NATS_BAD;
    if (line.len < 2 || end[-1] != '\r') {
        return;
    }
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        size_t len = ops[i].word.len;
        if (slice_begins_nocase(line, ops[i].word) && ops[i].op == NATS_MSG) {
            read_message(bytes, line.len, message_max, said);
            return;
        }
        if (slice_begins_nocase(line, ops[i].word)) {
            said->op = ops[i].op;
            said->used = line.len;
            said->text =
                slice_trim((struct slice){line.ptr + len, line.len - len - 2});
            return;
        }
    }
}

/* Headers */

static bool
split_id(struct slice id, struct slice *life, uint64_t *seq)
{
    size_t at = id.len;

    while (at > 0 && id.ptr[at - 1] != '-') {
        at--;
    }
    if (at < 2 || at - 1 >= NATS_LIFE_MAX) {
        return false; /* without a life it could not be told from the next one's */
    }
    *life = (struct slice){id.ptr, at - 1};
    return read_number((struct slice){id.ptr + at, id.len - at}, seq) &&
           *seq < UINT64_MAX - 1;
}

bool
nats_wire_batch(struct slice headers, struct slice *life, uint64_t *seq)
{
    while (headers.len != 0) {
        struct slice value = slice_take_line(&headers);
        struct slice name = slice_take(&value, ':');
        if (slice_equal_nocase(name, SLICE("Nats-Msg-Id"))) {
            return split_id(slice_trim(value), life, seq);
        }
    }
    return false;
}

uint32_t
nats_wire_status(struct slice headers)
{
    struct slice line = slice_take_line(&headers);
    uint64_t number;

    (void)slice_take(&line, ' ');
    return read_number(slice_take(&line, ' '), &number) && number < 1000
               ? (uint32_t)number
               : 0;
}

/* $JS.ACK.STREAM.CONSUMER.TIMES.AT.AT_CONSUMER.TIME.LEFT; with a domain and an
 * account before the stream, where servers have one. */
bool
nats_wire_place(struct slice reply, struct nats_place *place)
{
    struct slice words[11];
    size_t count = 0;

    while (reply.len != 0 && count < 11) {
        words[count++] = slice_take(&reply, '.');
    }
    size_t more = count == 11 ? 2 : 0;
    return (count == 9 || count == 11) && slice_equal(words[0], SLICE("$JS")) &&
           slice_equal(words[1], SLICE("ACK")) &&
           read_number(words[5 + more], &place->at) &&
           read_number(words[8 + more], &place->left);
}

/* Saying */

bool
nats_wire_wants_tls(struct slice info)
{
    struct json_pull pull;

    json_pull_init(&pull, info);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while (json_pull_next(&pull) == PULL_KEY) {
        if (json_pull_is(&pull, SLICE("tls_required"))) {
            return json_pull_next(&pull) == PULL_TRUE;
        }
        if (!json_pull_skip(&pull)) {
            return false;
        }
    }
    return false;
}

struct slice
nats_wire_nonce(struct slice info)
{
    struct json_pull pull;

    json_pull_init(&pull, info);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return SLICE("");
    }
    while (json_pull_next(&pull) == PULL_KEY) {
        if (json_pull_is(&pull, SLICE("nonce"))) {
            return json_pull_next(&pull) == PULL_STRING ? pull.text : SLICE("");
        }
        if (!json_pull_skip(&pull)) {
            break;
        }
    }
    return SLICE("");
}

static void
put_login(struct json_out *json, const struct nats_login *login)
{
    struct slice password = slice_of(login->text);
    struct slice user = slice_take(&password, ':');

    if (login->jwt[0] != '\0') {
        json_out_put_text(json, "jwt", login->jwt);
        json_out_put_text(json, "sig", login->sig);
    } else if (strchr(login->text, ':') != NULL) {
        json_out_put_slice(json, "user", user);
        json_out_put_slice(json, "pass", password);
    } else if (login->text[0] != '\0') {
        json_out_put_text(json, "auth_token", login->text);
    }
}

void
nats_wire_connect(struct buf *out, const struct nats_login *login)
{
    struct json_out json;

    buf_add_text(out, "CONNECT ");
    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_bool(&json, "verbose", false);
    json_out_put_bool(&json, "pedantic", false);
    json_out_put_bool(&json, "headers", true);
    json_out_put_bool(&json, "no_responders", true);
    json_out_put_uint(&json, "protocol", 1);
    json_out_put_text(&json, "lang", "c");
    json_out_put_text(&json, "name", "kvasir");
    json_out_put_text(&json, "version", KVASIR_VERSION);
    put_login(&json, login);
    json_out_object_end(&json);
    buf_add_text(out, "\r\n");
}

void
nats_wire_ask(struct buf *out, struct slice subject, const char *reply,
              struct slice payload)
{
    buf_add_text(out, "PUB ");
    buf_add_slice(out, subject);
    buf_printf(out, " %s %zu\r\n", reply, payload.len);
    buf_add_slice(out, payload);
    buf_add_text(out, "\r\n");
}
