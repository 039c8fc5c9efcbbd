/*
 * A streamed answer that goes on at another worker when its own breaks off:
 * what the client has of it, how the rest is asked for, and how the rest is
 * joined to it.
 *
 *   resume_begin(&r, ...)                     a good answer has begun
 *   resume_needs(), resume_give(&r, piece)    bytes of its body
 *   while (resume_next(&r, &out)) ...         whole events, for the client
 *   resume_rest(&r)                           the body's end
 *   resume_ask(&r, body, edits)               it broke off: what the request
 *                                             becomes for the next worker,
 *                                             whose answer is given likewise
 *
 * The client gets whole events, byte for byte, so what it has ends where an
 * event ends. Of each the text is kept, as the raw bytes of its JSON string: so
 * it can be a part of the next request as it is. The next worker is asked to go
 * on with that text: a chat by `continue_final_message`, a completion by a
 * longer prompt, both with as many tokens less.
 *
 * How many that is, engines tell that were asked for the usage of each event
 * (stream_options.continuous_usage_stats): vLLM and SGLang put several tokens
 * into one where their front end falls behind. Of an engine that does not tell,
 * each event with text counts as a token. So they do where the request has stop
 * strings of more than one character: then vLLM counts tokens whose text it
 * still holds back, and an answer must not end too early for that. What was
 * counted too low makes the answer as many tokens longer than was asked for.
 *
 * The seam is checked. Where the same text must come again (temperature 0), the
 * last event's text is left out of the question, and the answer has to begin
 * with it. So is text that ends in white space, which templates cut off. If the
 * answer begins otherwise, `torn` is set: it is no continuation.
 *
 * The events of a continuation get the id and the time of the first answer's,
 * and its usage counts what was generated before as generated: its prompt is
 * the first answer's, as that one told it, or without what was generated. An
 * empty first event, which only says the role, is left out.
 *
 * Not resumed: an answer with anything but text (tool calls, reasoning, a
 * refusal, probabilities), with a second choice, or whose text comes to more
 * than RESUME_BYTES_MAX; and requests that ask for a form or a number of tokens
 * that a continuation would not keep (see may_continue() in resume_ask.c).
 *
 * Role: core. Owns: `joined`; the room is the caller's. Thread: one owner.
 * Limits: RESUME_BYTES_MAX, RESUME_EDITS_MAX. Errors: none;
 * what cannot be understood passes and is not resumed.
 */
#ifndef NODE_RESUME_H
#define NODE_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/route/body_edit.h"
#include "node/scan/scan.h"

#define RESUME_BYTES_MAX ((size_t)256 << 10) /* of text and of one event */
#define RESUME_STARTS    8U /* events whose text may be asked for again */
#define RESUME_EDITS_MAX 7U
#define RESUME_ID_MAX    128U

/* Which streams are resumed. */
enum resume_rule {
    RESUME_OFF,
    RESUME_GREEDY, /* those at temperature 0 */
    RESUME_ALWAYS,
};

/* Where an event's text begins, and how many tokens were before it. */
struct resume_start {
    uint32_t at;
    uint32_t tokens;
};

struct resume {
    bool on;        /* it may be resumed, as far as is known */
    bool joins;     /* the bytes are a continuation's */
    bool exact;     /* the same text must come again */
    bool finished;  /* an event told the reason of the end */
    bool done;      /* [DONE] has passed */
    bool torn;      /* the bytes given are no continuation */
    bool failed;    /* an event said that the engine failed: see joined */
    bool role_told; /* the client knows who speaks */
    bool role_due;  /* the continuation's first event has not come */
    bool usage_told;
    bool uncounted; /* an event with text told no number of tokens */
    bool marks;     /* the end says that the answer was resumed */
    enum scan_api api;
    uint32_t times;

    char *room; /* text_len bytes of text, then held_len of an event */
    size_t size;
    size_t text_len;
    size_t held_len;
    struct slice late; /* text in the held event, which was handed out, ... */
    uint32_t
        late_tokens;    /* ... and how many tokens there are then; 0: untold */
    struct slice piece; /* the rest of the caller's bytes */
    bool line_empty;    /* the event's last line has no byte yet */

    uint32_t events; /* that had text, and ... */
    uint32_t tokens; /* ... how many tokens these are */
    struct resume_start starts[RESUME_STARTS]; /* of the last of them */

    uint64_t prompt_tokens; /* of the first answer; 0: untold */
    uint32_t asked_tokens;  /* of the text that the next worker was given */
    size_t seam_at;         /* the text from here to there has to come again */
    size_t seam_end;
    uint32_t id_len; /* of the first answer's; 0: none */
    uint32_t created_len;
    struct buf joined; /* an event of the continuation */

    char id[RESUME_ID_MAX]; /* raw, between the quotes */
    char created[24];
    char counts[3][24]; /* of the edits */
};

/* Before the first use, and after resume_fini(): nothing is resumed. */
void resume_init(struct resume *r);

/* The first bytes of an answer follow. exact: its request is at temperature
 * 0. marks: a comment before [DONE] says how often it was resumed. Allocates
 * nothing. */
void resume_begin(struct resume *r, enum scan_api api, bool exact, bool marks);

/* Frees what it owns. The caller has taken its room back before. */
void resume_fini(struct resume *r);

/* How many bytes the room must have before a piece of len is given. If that is
 * more than RESUME_BYTES_MAX, or there is no memory, call resume_end(). */
size_t resume_needs(const struct resume *r, size_t len);

/* It will not be resumed (again): what it holds passes with the next bytes, and
 * the room is not written to any more. */
void resume_end(struct resume *r);

/* The next bytes of the body; borrowed until resume_next() returns false, which
 * it must have done for the bytes before. */
void resume_give(struct resume *r, struct slice piece);

/* The next bytes for the client, good until the next call. False: none for
 * now, or `torn` or `failed` is set. */
bool resume_next(struct resume *r, struct slice *out) MUST_CHECK;

/* The body is over: what is left of it. `torn` may be set. */
struct slice resume_rest(struct resume *r);

/* Whether an answer that broke off had said all but how it ends; *missing is
 * what the client still has to get. usage: it wants that, too. */
bool resume_is_all(const struct resume *r, bool usage, struct slice *missing)
    MUST_CHECK;

/*
 * The answer broke off: what its request becomes for the next worker, by rising
 * place, in edits. Returns how many, 0 if nothing was generated yet; -1 if it
 * cannot be resumed. The text of an edit is good until resume_continue().
 */
int resume_ask(struct resume *r, struct slice body,
               struct body_edit edits[RESUME_EDITS_MAX]) MUST_CHECK;

/* The next worker's good answer has begun: its bytes follow. */
void resume_continue(struct resume *r);

#endif
