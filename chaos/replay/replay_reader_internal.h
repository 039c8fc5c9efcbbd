/*
 * The inside of reading traces: one line at a time, shared by replay_trace.c
 * (numbers) and replay_trace_text.c (texts).
 *
 * Role: core, private to them.
 */
#ifndef CHAOS_REPLAY_READER_INTERNAL_H
#define CHAOS_REPLAY_READER_INTERNAL_H

#include "chaos/replay/replay_trace.h"
#include "node/node.h"

struct replay_reader {
    struct replay_load *load;
    struct replay_fault *fault;
    struct json_pull pull; /* on the line */
    struct slice line;
    char *text; /* as long as the longest line, and a NUL */
    size_t text_size;
    uint64_t dialogues;
};

/* Sets the fault of this line, in static text; REPLAY_TRACE_E_BAD. */
int replay_reader_bad(struct replay_reader *reader, const char *why);

/* The same for an outcome of the load; returns 0 and errors as they are. */
int replay_reader_said(struct replay_reader *reader, int outcome);

/* The token behind a key: the number it has to be. */
int replay_reader_uint(struct replay_reader *reader, uint64_t max,
                       uint64_t *out) MUST_CHECK;

/* What is there of a prompt's text. */
int replay_reader_split(struct replay_reader *reader, struct slice text)
    MUST_CHECK;

/* Adds the requests of one line: a session, whose prompt is a text. 0,
 * REPLAY_TRACE_E_BAD, or what the load said. */
int replay_reader_session(struct replay_reader *reader) MUST_CHECK;
/* The same for a dialogue of several messages. */
int replay_reader_dialogue(struct replay_reader *reader) MUST_CHECK;

#endif
