/* Chunked bodies: the state machine that follows or decodes them. */
#include "node/http/http_chunk.h"

#include <stdbool.h>

#include "index/base/check.h"
#include "node/http/http_text_internal.h"

#define SIZE_DIGITS_MAX 16

enum state {
    STATE_SIZE,      /* hex digits */
    STATE_EXTENSION, /* its name */
    STATE_EXTENSION_VALUE,
    STATE_EXTENSION_QUOTED,
    STATE_EXTENSION_END, /* after the closing quote */
    STATE_SIZE_LF,
    STATE_DATA,
    STATE_DATA_CR,
    STATE_DATA_LF,
    STATE_TRAILER, /* at the start of a trailer line */
    STATE_NAME,
    STATE_VALUE,
    STATE_VALUE_LF,
    STATE_END_LF,
    STATE_DONE,
    STATE_BAD,
};

/*
 * Fields that say where a message goes and where it ends. A recipient that
 * merges trailers into the headers would take them for its framing, so they are
 * refused.
 */
static const char *const forbidden[] = {"content-length", "transfer-encoding",
                                        "host", "connection",
                                        "proxy-connection"};

#define FORBIDDEN_COUNT (sizeof(forbidden) / sizeof(forbidden[0]))
#define FORBIDDEN_ALL   ((1U << FORBIDDEN_COUNT) - 1)

static int
bad(struct http_chunk *chunk, const char *fault)
{
    chunk->state = STATE_BAD;
    chunk->fault = fault;
    return HTTP_CHUNK_E_BAD;
}

static int
enter(struct http_chunk *chunk, enum state state)
{
    chunk->state = (uint8_t)state;
    return HTTP_CHUNK_E_MORE;
}

static unsigned
hex_value(char c)
{
    return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a') + 10;
}

/* What may follow a size, and each part of an extension. */
static int
end_part(struct http_chunk *chunk, char c, const char *fault)
{
    if (c == '\r') {
        return enter(chunk, STATE_SIZE_LF);
    }
    if (c == ';') {
        chunk->digits = 0;
        return enter(chunk, STATE_EXTENSION);
    }
    return bad(chunk, fault);
}

static int
step_size(struct http_chunk *chunk, char c)
{
    if (http_text_is(c, HTTP_TEXT_HEX)) {
        if (chunk->digits == SIZE_DIGITS_MAX) {
            return bad(chunk, "chunk size too long");
        }
        chunk->left = chunk->left << 4 | hex_value(c);
        chunk->digits++;
        return HTTP_CHUNK_E_MORE;
    }
    if (chunk->digits == 0) {
        return bad(chunk, "chunk without a size");
    }
    return end_part(chunk, c, "not a chunk size");
}

static int
step_extension(struct http_chunk *chunk, char c)
{
    if (http_text_is(c, HTTP_TEXT_TOKEN)) {
        chunk->digits = 1;
        return HTTP_CHUNK_E_MORE;
    }
    if (chunk->digits == 0) {
        return bad(chunk, "chunk extension without a name");
    }
    if (c == '=') {
        chunk->digits = 0;
        return enter(chunk, STATE_EXTENSION_VALUE);
    }
    return end_part(chunk, c, "name of a chunk extension is not a token");
}

static int
step_extension_value(struct http_chunk *chunk, char c)
{
    if (http_text_is(c, HTTP_TEXT_TOKEN)) {
        chunk->digits = 1;
        return HTTP_CHUNK_E_MORE;
    }
    if (chunk->digits == 0) {
        return c == '"' ? enter(chunk, STATE_EXTENSION_QUOTED)
                        : bad(chunk, "chunk extension without a value");
    }
    return end_part(chunk, c, "value of a chunk extension is not a token");
}

static int
step_extension_quoted(struct http_chunk *chunk, char c)
{
    if (c == '"') {
        return enter(chunk, STATE_EXTENSION_END);
    }
    /* Parsers disagree on a backslash here, and no client needs it. */
    return c != '\\' && http_text_is(c, HTTP_TEXT_FIELD)
               ? HTTP_CHUNK_E_MORE
               : bad(chunk, "control byte or backslash in quotes");
}

static int
step_size_lf(struct http_chunk *chunk, char c)
{
    if (c != '\n') {
        return bad(chunk, "chunk size line does not end in CRLF");
    }
    CHECK(chunk->digits <= SIZE_DIGITS_MAX);
    chunk->digits = 0;
    chunk->spent = 0;
    return enter(chunk, chunk->left != 0 ? STATE_DATA : STATE_TRAILER);
}

/*
 * Drops from suspects each forbidden name that this byte is not part of. The
 * NUL at its end is no token byte, so none is read beyond.
 */
static void
suspect(struct http_chunk *chunk, char c)
{
    for (unsigned i = 0; i < FORBIDDEN_COUNT; i++) {
        if ((chunk->suspects & (1U << i)) != 0 &&
            (c | 0x20) != forbidden[i][chunk->digits]) {
            chunk->suspects &= (uint8_t) ~(1U << i);
        }
    }
    chunk->digits++;
}

static bool
is_forbidden(const struct http_chunk *chunk)
{
    for (unsigned i = 0; i < FORBIDDEN_COUNT; i++) {
        if ((chunk->suspects & (1U << i)) != 0 &&
            strlen(forbidden[i]) == chunk->digits) {
            return true;
        }
    }
    return false;
}

static int
step_name(struct http_chunk *chunk, char c)
{
    if (c == ':') {
        return is_forbidden(chunk) ? bad(chunk, "framing field in a trailer")
                                   : enter(chunk, STATE_VALUE);
    }
    if (!http_text_is(c, HTTP_TEXT_TOKEN)) {
        return bad(chunk, "trailer name is not a token");
    }
    if (chunk->suspects != 0) {
        suspect(chunk, c);
    }
    return HTTP_CHUNK_E_MORE;
}

static int
step_trailer(struct http_chunk *chunk, char c)
{
    if (c == '\r') {
        return enter(chunk, STATE_END_LF);
    }
    if (!http_text_is(c, HTTP_TEXT_TOKEN)) {
        return bad(chunk, "not a trailer");
    }
    chunk->suspects = FORBIDDEN_ALL;
    chunk->digits = 0;
    chunk->state = STATE_NAME;
    return step_name(chunk, c);
}

static int
step_value(struct http_chunk *chunk, char c)
{
    if (c == '\r') {
        return enter(chunk, STATE_VALUE_LF);
    }
    return http_text_is(c, HTTP_TEXT_FIELD)
               ? HTTP_CHUNK_E_MORE
               : bad(chunk, "control byte in a trailer");
}

static int
expect(struct http_chunk *chunk, char c, char wanted, enum state next)
{
    return c == wanted ? enter(chunk, next)
                       : bad(chunk, "a line does not end in CRLF");
}

static int
step_end(struct http_chunk *chunk, char c)
{
    if (c != '\n') {
        return bad(chunk, "a line does not end in CRLF");
    }
    chunk->state = STATE_DONE;
    return 0;
}

/* Counts bytes that are neither size nor data. The line of a size is one
 * extension, the lines after the last chunk are one trailer. */
static bool
is_over(struct http_chunk *chunk)
{
    if (chunk->state >= STATE_TRAILER) {
        return ++chunk->spent > HTTP_CHUNK_TRAILER_MAX;
    }
    if (chunk->state >= STATE_EXTENSION && chunk->state < STATE_SIZE_LF) {
        return ++chunk->spent > HTTP_CHUNK_EXTENSION_MAX + 1;
    }
    return false;
}

/* One byte that is not data. 0 when it was the last of the body. */
static int
step(struct http_chunk *chunk, char c)
{
    if (is_over(chunk)) {
        return bad(chunk, "chunk extension or trailers too long");
    }
    switch ((enum state)chunk->state) {
    case STATE_SIZE:
        return step_size(chunk, c);
    case STATE_EXTENSION:
        return step_extension(chunk, c);
    case STATE_EXTENSION_VALUE:
        return step_extension_value(chunk, c);
    case STATE_EXTENSION_QUOTED:
        return step_extension_quoted(chunk, c);
    case STATE_EXTENSION_END:
        return end_part(chunk, c, "bytes after a quoted value");
    case STATE_SIZE_LF:
        return step_size_lf(chunk, c);
    case STATE_DATA_CR:
        return expect(chunk, c, '\r', STATE_DATA_LF);
    case STATE_DATA_LF:
        return expect(chunk, c, '\n', STATE_SIZE);
    case STATE_TRAILER:
        return step_trailer(chunk, c);
    case STATE_NAME:
        return step_name(chunk, c);
    case STATE_VALUE:
        return step_value(chunk, c);
    case STATE_VALUE_LF:
        return expect(chunk, c, '\n', STATE_TRAILER);
    case STATE_END_LF:
        return step_end(chunk, c);
    case STATE_DATA:
    case STATE_DONE:
    case STATE_BAD:
        break;
    }
    return bad(chunk, "state that takes no single bytes");
}

static void
advance(struct slice *in, size_t size)
{
    CHECK(size <= in->len);
    in->ptr += size;
    in->len -= size;
}

/* What stands between two chunks' data and ends here, as it nearly always is:
 * CRLF, digits, CRLF. Takes nothing that has another form, for step() to look
 * at, byte by byte. */
static void
take_plain(struct http_chunk *chunk, struct slice *in)
{
    struct slice rest = *in;
    uint64_t left = 0;
    size_t digits = 0;

    if (chunk->state == STATE_DATA_CR) {
        if (rest.len < 2 || rest.ptr[0] != '\r' || rest.ptr[1] != '\n') {
            return;
        }
        advance(&rest, 2);
        chunk->state = STATE_SIZE;
        *in = rest;
    }
    if (chunk->state != STATE_SIZE || chunk->digits != 0) {
        return;
    }
    while (digits < rest.len && digits < SIZE_DIGITS_MAX &&
           http_text_is(rest.ptr[digits], HTTP_TEXT_HEX)) {
        left = left << 4 | hex_value(rest.ptr[digits]);
        digits++;
    }
    advance(&rest, digits);
    if (left == 0 || rest.len < 2 || rest.ptr[0] != '\r' ||
        rest.ptr[1] != '\n') {
        return; /* the last chunk's line is read byte by byte, too */
    }
    advance(&rest, 2);
    chunk->left = left;
    chunk->spent = 0;
    chunk->state = STATE_DATA;
    *in = rest;
}

int
http_chunk_next(struct http_chunk *chunk, struct slice *in, struct slice *data)
{
    CHECK(chunk->state <= STATE_BAD);
    *data = (struct slice){0};
    if (chunk->state == STATE_BAD) {
        return HTTP_CHUNK_E_BAD;
    }
    while (chunk->state != STATE_DONE) {
        int outcome;

        take_plain(chunk, in);
        if (in->len == 0) {
            return HTTP_CHUNK_E_MORE;
        }
        if (chunk->state == STATE_DATA) {
            CHECK(chunk->left != 0);
            data->ptr = in->ptr;
            data->len = in->len < chunk->left ? in->len : (size_t)chunk->left;
            advance(in, data->len);
            chunk->left -= data->len;
            if (chunk->left == 0) {
                chunk->state = STATE_DATA_CR;
            }
            return HTTP_CHUNK_E_DATA;
        }
        outcome = step(chunk, *in->ptr);
        if (outcome == HTTP_CHUNK_E_BAD) {
            return outcome;
        }
        advance(in, 1);
    }
    return 0;
}

int
http_chunk_walk(struct http_chunk *chunk, const char *bytes, size_t len,
                size_t *taken)
{
    struct slice in = {.ptr = bytes, .len = len};
    struct slice data;
    int outcome;

    do {
        outcome = http_chunk_next(chunk, &in, &data);
    } while (outcome == HTTP_CHUNK_E_DATA);
    CHECK(in.len <= len);
    *taken = len - in.len;
    return outcome;
}
