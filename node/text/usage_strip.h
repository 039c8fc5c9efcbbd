/*
 * Takes the usage that a client did not ask for out of a stream of server-sent
 * events, and passes every other byte on. The stream comes in pieces of any
 * size.
 *
 *   usage_strip_give(&strip, piece);
 *   while (usage_strip_next(&strip, &out)) ...
 *   at the stream's end: usage_strip_rest(&strip)
 *
 * The usage event is one data line with an object whose `choices` is empty and
 * whose `usage` is an object. It stays when an event before it had a usage,
 * too: then the engine tells it to everybody, asked or not.
 *
 * An engine that was asked to tell the usage with each event puts it beside
 * `choices` that are not empty. There the member is cut out, with its comma, or
 * gives way to null, as the engine has it where it is not asked. Then nothing
 * shows what it tells everybody, and the usage event does not stay.
 *
 * Lines end in LF, CR or CRLF, as in sse_read.h. An event whose end has not
 * come is held back while it may be the usage event, which has at most
 * USAGE_STRIP_HELD_MAX bytes (and an LF, if it ends in CRLF); no client can use
 * a part of an event. A longer event that does not come in one piece keeps its
 * usage.
 *
 * Role: core. Owns: nothing; the room is the caller's, who has to keep it between
 * two pieces only while an event is held back. Thread: one owner. Limits:
 * USAGE_STRIP_HELD_MAX.
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
#define USAGE_STRIP_ROOM     (USAGE_STRIP_HELD_MAX + 1)

/* What becomes of the usage in an event that says something else, too. */
enum usage_strip_each {
    USAGE_STRIP_LEAVE,
    USAGE_STRIP_CUT,
    USAGE_STRIP_NULL,
};

struct usage_strip {
    bool last; /* the usage event is taken out; and of others
                                   as here; the caller's, at any time */
    enum usage_strip_each each;
    struct slice piece;    /* the rest of the caller's bytes */
    struct slice ready[2]; /* pass before anything of the piece, or it itself */
    bool passing;          /* the event has shown that it is another one */
    bool told;             /* an event had a usage, and passed */
    bool empty;            /* the line has no byte yet */
    bool after_cr;     /* an LF that comes next belongs to the line before */
    bool cut_lf;       /* ... and that is the line that ended a usage event */
    uint32_t held_len; /* of the event's bytes of earlier pieces, in ... */
    uint32_t dropped;  /* events taken out */
    char *held; /* USAGE_STRIP_ROOM bytes: the caller sets it before he gives,
                   and before usage_strip_rest() */
};

/* Before the first byte of a stream, of which the usage event is taken out. */
void usage_strip_init(struct usage_strip *strip);

/* Gives the next bytes; borrowed until usage_strip_next() returns false, which
 * it must have done for the bytes before. */
void usage_strip_give(struct usage_strip *strip, struct slice piece);

/* The next bytes that pass, good until the next call. False: none for now. */
bool usage_strip_next(struct usage_strip *strip, struct slice *out) MUST_CHECK;

/* The stream is over: the beginning of an event that was held back. */
struct slice usage_strip_rest(struct usage_strip *strip);

#endif
