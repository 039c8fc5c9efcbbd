/*
 * Checks one benchmark stream as it arrives: HTTP/1.1 head, chunked framing
 * (RFC 9112 section 7.1, cut anywhere), and the events of sse_event.h, byte
 * for byte, with the tail and the last chunk behind them.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits:
 * SSE_CHECK_HEAD_BYTES_MAX, chunks below 4 GiB. Errors: named outcomes.
 */
#ifndef TESTS_BENCH_SSE_CHECK_H
#define TESTS_BENCH_SSE_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "sse_event.h"

#define SSE_CHECK_HEAD_BYTES_MAX 2048

enum sse_outcome {
    SSE_MORE,     /* all bytes used, nothing wrong so far */
    SSE_EVENT,    /* one event came whole; call again with the rest */
    SSE_COMPLETE, /* the whole stream, and nothing else */
    SSE_STATUS,   /* not a 200, or not chunked */
    SSE_FRAMING,  /* not a chunked body */
    SSE_DAMAGED,  /* not the bytes that the backend sent to this stream */
};

/* Where in the answer the next byte belongs. */
enum sse_place {
    SSE_IN_HEAD,
    SSE_IN_SIZE,
    SSE_IN_SIZE_END, /* extension, CR, LF */
    SSE_IN_DATA,
    SSE_IN_DATA_END, /* CR, LF behind a chunk */
    SSE_IN_LAST,     /* the empty line behind the chunk of size 0 */
};

#define SSE_ITEM_BYTES_MAX \
    (SSE_EVENT_BYTES > SSE_TAIL_BYTES ? SSE_EVENT_BYTES : SSE_TAIL_BYTES)

struct sse_check {
    uint32_t stream;       /* the number that events must carry */
    uint32_t events_count; /* of a complete stream */
    uint32_t seq;          /* events that came whole */
    uint64_t stamp_us;     /* when the last of them was sent */
    enum sse_place place;
    uint32_t head_len;
    uint32_t item_len;
    uint32_t end_len; /* bytes of the line end seen so far */
    uint64_t chunk_left_bytes;
    /* The head while in it, then the event or tail that is coming in. */
    char bytes[SSE_CHECK_HEAD_BYTES_MAX];
};

void sse_check_init(struct sse_check *check, uint32_t stream,
                    uint32_t events_count);

/* Takes up to len bytes; *used_len of them were used. After an outcome other
 * than SSE_MORE and SSE_EVENT the stream is over: do not call again. */
enum sse_outcome sse_check_take(struct sse_check *check, const char *bytes,
                                size_t len, size_t *used_len) MUST_CHECK;

#endif
