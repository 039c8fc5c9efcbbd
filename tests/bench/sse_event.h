/*
 * One event of a benchmark stream: what backend.c sends and sse_client.c
 * expects, byte for byte.
 *
 * An event looks like an engine's chunk of one token and has one fixed length.
 * It carries whose stream it belongs to, its place in it, and when it was
 * sent, so that a receiver on the same machine can tell loss, order, mix-up
 * between streams, damage and delay.
 *
 * Role: core. Owns: nothing. Thread: any.
 */
#ifndef TESTS_BENCH_SSE_EVENT_H
#define TESTS_BENCH_SSE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define SSE_EVENT_TEMPLATE                                                   \
    "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\"," \
    "\"created\":1700000000,\"model\":\"bench\",\"choices\":[{\"index\":0,"  \
    "\"delta\":{\"content\":\" SSSSSSSS NNNNNNNN TTTTTTTTTTTTTTTT\"},"       \
    "\"logprobs\":null,\"finish_reason\":null}]}\n\n"

#define SSE_EVENT_BYTES (sizeof(SSE_EVENT_TEMPLATE) - 1)

/* After the last event of a stream whose client asked for its usage, alone or by
 * a proxy. */
#define SSE_USAGE                                                            \
    "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\"," \
    "\"created\":1700000000,\"model\":\"bench\",\"choices\":[],"             \
    "\"usage\":{\"prompt_tokens\":1000,\"completion_tokens\":50,"            \
    "\"total_tokens\":1050}}\n\n"

/* After that, in every stream. */
#define SSE_TAIL "data: [DONE]\n\n"

#define SSE_USAGE_BYTES (sizeof(SSE_USAGE) - 1)
#define SSE_TAIL_BYTES  (sizeof(SSE_TAIL) - 1)

struct sse_event {
    uint32_t stream;   /* as the client numbered it */
    uint32_t seq;      /* 0 for the stream's first event */
    uint64_t stamp_us; /* monotonic clock when it was sent */
};

/* Where the three fields stand: found in the template, so that its text can
 * change freely. */
struct sse_event_places {
    size_t stream;
    size_t seq;
    size_t stamp;
};

static inline struct sse_event_places
sse_event_places(void)
{
    static const char text[] = SSE_EVENT_TEMPLATE;
    size_t stream = (size_t)(strstr(text, "SSSSSSSS") - text);

    return (struct sse_event_places){
        .stream = stream, .seq = stream + 9, .stamp = stream + 18};
}

static inline void
sse_event_put_hex(char *at, unsigned digits, uint64_t value)
{
    while (digits-- > 0) {
        at[digits] = "0123456789abcdef"[value & 15U];
        value >>= 4;
    }
}

static inline uint64_t
sse_event_get_hex(const char *at, unsigned digits)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < digits; i++) {
        unsigned c = (unsigned char)at[i];
        value = (value << 4) | (c <= '9' ? (c - '0') & 15U : (c - 'a' + 10U));
    }
    return value;
}

/* Fills out[SSE_EVENT_BYTES]. */
static inline void
sse_event_write(char *out, const struct sse_event *event)
{
    const struct sse_event_places at = sse_event_places();

    memcpy(out, SSE_EVENT_TEMPLATE, SSE_EVENT_BYTES);
    sse_event_put_hex(out + at.stream, 8, event->stream);
    sse_event_put_hex(out + at.seq, 8, event->seq);
    sse_event_put_hex(out + at.stamp, 16, event->stamp_us);
}

/*
 * True when in[SSE_EVENT_BYTES] is event number `seq` of `stream`, down to the
 * last byte; *stamp_us is then when it was sent.
 */
static inline bool
sse_event_matches(const char *in, uint32_t stream, uint32_t seq,
                  uint64_t *stamp_us)
{
    char expected[SSE_EVENT_BYTES];
    struct sse_event event = {.stream = stream, .seq = seq};

    event.stamp_us = sse_event_get_hex(in + sse_event_places().stamp, 16);
    *stamp_us = event.stamp_us;
    sse_event_write(expected, &event);
    return memcmp(in, expected, SSE_EVENT_BYTES) == 0;
}

#endif
