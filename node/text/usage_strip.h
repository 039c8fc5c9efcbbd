/*
 * Takes the usage event out of a stream of server-sent events whose client did
 * not ask for it, and passes every other byte on. The stream comes in pieces of
 * any size.
 *
 *   usage_strip_give(&strip, piece);
 *   while (usage_strip_next(&strip, &out)) ...
 *   at the stream's end: usage_strip_rest(&strip)
 *
 * The usage event is one data line with an object whose `choices` is empty and
 * whose `usage` is an object. It stays when an event before it had a usage,
 * too: then the engine tells it to everybody, asked or not.
 *
 * Lines end in LF, CR or CRLF, as in sse_read.h. An event whose end has not
 * come is held back while it may be the usage event, which has at most
 * USAGE_STRIP_HELD_MAX bytes (and an LF, if it ends in CRLF); no client can use
 * a part of an event.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: USAGE_STRIP_HELD_MAX.
 * Errors: none; what cannot be understood passes.
 */
#ifndef NODE_USAGE_STRIP_H
#define NODE_USAGE_STRIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define USAGE_STRIP_HELD_MAX 2048U

struct usage_strip {
    struct slice piece; /* the rest of the caller's bytes */
    struct slice ready; /* passes before anything of the piece */
    bool passing;       /* the event has shown that it is another one */
    bool told;          /* an event had a usage, and passed */
    bool empty;         /* the line has no byte yet */
    bool after_cr;      /* an LF that comes next belongs to the line before */
    bool cut_lf;        /* ... and that is the line that ended a usage event */
    uint32_t held_len;
    uint32_t dropped; /* events taken out */
    char held[USAGE_STRIP_HELD_MAX +
              1]; /* the event's bytes of earlier pieces */
};

/* Before the first byte of a stream. */
void usage_strip_init(struct usage_strip *strip);

/* Gives the next bytes; borrowed until usage_strip_next() returns false, which
 * it must have done for the bytes before. */
void usage_strip_give(struct usage_strip *strip, struct slice piece);

/* The next bytes that pass, good until the next call. False: none for now. */
bool usage_strip_next(struct usage_strip *strip, struct slice *out) MUST_CHECK;

/* The stream is over: the beginning of an event that was held back. */
struct slice usage_strip_rest(struct usage_strip *strip);

#endif
