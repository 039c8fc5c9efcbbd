/* Redis' protocol: commands out, replies in. */
#include "node/redis/resp.h"

#include <string.h>

/* A line without its end, of which *at is set behind. */
static int
read_line(struct slice in, size_t *at, struct slice *line)
{
    const char *from = in.ptr + *at;
    size_t rest = in.len - *at;
    size_t most = rest < RESP_LINE_MAX ? rest : RESP_LINE_MAX;
    const char *end = most != 0 ? memchr(from, '\r', most) : NULL;

    if (end == NULL) {
        return most < RESP_LINE_MAX ? RESP_E_MORE : RESP_E_BAD;
    }
    *line = (struct slice){from, (size_t)(end - from)};
    if (line->len + 2 > rest) {
        return RESP_E_MORE;
    }
    *at += line->len + 2;
    return end[1] == '\n' ? 0 : RESP_E_BAD;
}

static int
read_number(struct slice line, int64_t *number)
{
    bool negative = line.len != 0 && line.ptr[0] == '-';
    int64_t sum = 0;

    if (line.len == (size_t)negative || line.len > 18) {
        return RESP_E_BAD;
    }
    for (size_t i = negative; i < line.len; i++) {
        if (line.ptr[i] < '0' || line.ptr[i] > '9') {
            return RESP_E_BAD;
        }
        sum = sum * 10 + (line.ptr[i] - '0');
    }
    *number = negative ? -sum : sum;
    return 0;
}

/* Bytes of that length, and the end of line behind them. */
static int
read_bytes(struct slice in, size_t *at, size_t len, struct resp_item *item)
{
    if (in.len - *at < len + 2) {
        return RESP_E_MORE;
    }
    item->kind = RESP_BYTES;
    item->bytes = (struct slice){in.ptr + *at, len};
    *at += len + 2;
    return memcmp(in.ptr + *at - 2, "\r\n", 2) == 0 ? 0 : RESP_E_BAD;
}

/* One item; of a list its count alone, as a number. */
static int
read_item(struct slice in, size_t *at, size_t bytes_max, struct resp_item *item)
{
    struct slice line;

    *item = (struct resp_item){.kind = RESP_NOTHING};
    int outcome = read_line(in, at, &line);
    if (outcome != 0) {
        return outcome;
    }
    char kind = line.len != 0 ? line.ptr[0] : '\0';
    line.ptr++;
    line.len -= line.len != 0;
    if (kind == '+' || kind == '-') {
        item->kind = kind == '+' ? RESP_TEXT : RESP_ERROR;
        item->bytes = line;
        return 0;
    }
    if ((kind != ':' && kind != '$' && kind != '*') ||
        read_number(line, &item->number) != 0) {
        return RESP_E_BAD;
    }
    if (kind == ':') {
        item->kind = RESP_NUMBER;
        return 0;
    }
    if (item->number == -1) {
        return 0;
    }
    uint64_t most = kind == '$' ? bytes_max : RESP_ITEMS_MAX;
    if (item->number < 0 || (uint64_t)item->number > most) {
        return RESP_E_BAD;
    }
    if (kind == '*') {
        item->kind = RESP_LIST;
        return 0;
    }
    return read_bytes(in, at, (size_t)item->number, item);
}

int
resp_read(struct slice in, size_t bytes_max, struct resp *resp)
{
    size_t at = 0;

    resp->count = 0;
    int outcome = read_item(in, &at, bytes_max, &resp->item);
    if (outcome == 0 && resp->item.kind == RESP_LIST) {
        resp->count = (uint32_t)resp->item.number;
    }
    for (uint32_t i = 0; outcome == 0 && i < resp->count; i++) {
        outcome = read_item(in, &at, bytes_max, &resp->items[i]);
        if (outcome == 0 && resp->items[i].kind == RESP_LIST) {
            outcome = RESP_E_BAD;
        }
    }
    resp->size = at;
    return outcome;
}

void
resp_add(struct buf *out, const struct slice *words, unsigned count)
{
    CHECK(count != 0);
    buf_add_text(out, "*");
    buf_add_uint(out, count);
    for (unsigned i = 0; i < count; i++) {
        buf_add_text(out, "\r\n$");
        buf_add_uint(out, words[i].len);
        buf_add_text(out, "\r\n");
        buf_add_slice(out, words[i]);
    }
    buf_add_text(out, "\r\n");
}
