/* A state machine over bytes, which never sees more than one at a time. */
#include <string.h>

#include "sse_check.h"

_Static_assert(SSE_CHECK_HEAD_BYTES_MAX >= SSE_ITEM_BYTES_MAX,
               "events and the tail share the head's room");

void
sse_check_init(struct sse_check *check, uint32_t stream, uint32_t events_count)
{
    *check = (struct sse_check){.stream = stream, .events_count = events_count};
}

static bool
is_good_head(const char *head)
{
    const char *coding = strcasestr(head, "\r\ntransfer-encoding:");

    return strncmp(head, "HTTP/1.1 200", 12) == 0 && coding != NULL &&
           strcasestr(coding, "chunked") != NULL;
}

static enum sse_outcome
take_head(struct sse_check *check, char byte)
{
    if (check->head_len == SSE_CHECK_HEAD_BYTES_MAX - 1) {
        return SSE_STATUS;
    }
    check->bytes[check->head_len++] = byte;
    if (check->head_len < 4 ||
        memcmp(check->bytes + check->head_len - 4, "\r\n\r\n", 4) != 0) {
        return SSE_MORE;
    }
    check->bytes[check->head_len] = '\0';
    check->place = SSE_IN_SIZE;
    return is_good_head(check->bytes) ? SSE_MORE : SSE_STATUS;
}

static enum sse_outcome
take_size(struct sse_check *check, char byte)
{
    static const char digits[] = "0123456789abcdef";
    const char *digit = byte != '\0' ? strchr(digits, byte | 0x20) : NULL;

    if (digit == NULL) {
        check->place = SSE_IN_SIZE_END;
        return byte == '\r' || byte == ';' ? SSE_MORE : SSE_FRAMING;
    }
    if (check->chunk_left_bytes >= (uint64_t)1 << 28) {
        return SSE_FRAMING;
    }
    check->chunk_left_bytes =
        check->chunk_left_bytes * 16 + (uint64_t)(digit - digits);
    return SSE_MORE;
}

/* The CR LF that check->end_len counts. */
static enum sse_outcome
take_line_end(struct sse_check *check, char byte, enum sse_place then)
{
    if (byte != "\r\n"[check->end_len]) {
        return SSE_FRAMING;
    }
    check->end_len++;
    if (check->end_len == 2) {
        check->end_len = 0;
        check->place = then;
    }
    return SSE_MORE;
}

static enum sse_outcome
take_last(struct sse_check *check, char byte)
{
    bool is_whole = check->seq == check->events_count &&
                    check->item_len == SSE_TAIL_BYTES &&
                    memcmp(check->bytes, SSE_TAIL, SSE_TAIL_BYTES) == 0;

    if (take_line_end(check, byte, SSE_IN_HEAD) != SSE_MORE) {
        return SSE_FRAMING;
    }
    if (check->place == SSE_IN_LAST) {
        return SSE_MORE;
    }
    return is_whole ? SSE_COMPLETE : SSE_DAMAGED;
}

/* One byte that is neither head nor data. */
static enum sse_outcome
take_framing(struct sse_check *check, char byte)
{
    switch (check->place) {
    case SSE_IN_SIZE:
        return take_size(check, byte);
    case SSE_IN_SIZE_END:
        if (byte == '\n') {
            check->place =
                check->chunk_left_bytes > 0 ? SSE_IN_DATA : SSE_IN_LAST;
        }
        return SSE_MORE;
    case SSE_IN_DATA_END:
        return take_line_end(check, byte, SSE_IN_SIZE);
    case SSE_IN_LAST:
        return take_last(check, byte);
    case SSE_IN_HEAD:
    case SSE_IN_DATA:
        break;
    }
    CHECK(check->place > SSE_IN_DATA); /* not one of framing */
    return SSE_FRAMING;
}

/* Data of a chunk, up to the end of an event or of the bytes. */
static enum sse_outcome
take_data(struct sse_check *check, const char *bytes, size_t len,
          size_t *used_len)
{
    bool is_tail = check->seq == check->events_count;
    size_t whole_len = is_tail ? SSE_TAIL_BYTES : SSE_EVENT_BYTES;
    size_t n = whole_len - check->item_len;

    n = n < len ? n : len;
    n = n < check->chunk_left_bytes ? n : (size_t)check->chunk_left_bytes;
    *used_len = n;
    if (n == 0) {
        return SSE_DAMAGED; /* bytes behind the tail */
    }
    memcpy(check->bytes + check->item_len, bytes, n);
    check->item_len += (uint32_t)n;
    check->chunk_left_bytes -= n;
    if (check->chunk_left_bytes == 0) {
        check->place = SSE_IN_DATA_END;
    }
    if (is_tail || check->item_len < whole_len) {
        return SSE_MORE; /* the tail stays, and is compared at the end */
    }
    check->item_len = 0;
    if (!sse_event_matches(check->bytes, check->stream, check->seq,
                           &check->stamp_us)) {
        return SSE_DAMAGED;
    }
    check->seq++;
    return SSE_EVENT;
}

enum sse_outcome
sse_check_take(struct sse_check *check, const char *bytes, size_t len,
               size_t *used_len)
{
    enum sse_outcome outcome = SSE_MORE;
    size_t used = 0;

    while (used < len && outcome == SSE_MORE) {
        size_t n = 1;
        if (check->place == SSE_IN_HEAD) {
            outcome = take_head(check, bytes[used]);
        } else if (check->place == SSE_IN_DATA) {
            outcome = take_data(check, bytes + used, len - used, &n);
        } else {
            outcome = take_framing(check, bytes[used]);
        }
        used += n;
    }
    *used_len = used;
    return outcome;
}
