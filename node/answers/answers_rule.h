/*
 * Which requests may be answered from the cache, and which answers may be kept.
 *
 * An answer is kept where it is a function of the request: a generation with
 * temperature 0, where the node's rule has it one with a seed, and what has no
 * sampling at all (embeddings). Not so what an engine goes on with or looks up
 * elsewhere (stored answers, web search), and pictures, whose URL may show
 * another one tomorrow.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: those of answers_form.h, and of
 * an event ANSWERS_EVENT_MAX. Errors: none.
 */
#ifndef NODE_ANSWERS_RULE_H
#define NODE_ANSWERS_RULE_H

#include <stdbool.h>

#include "index/base/slice.h"
#include "node/answers/answers_form.h"
#include "node/scan/scan.h"

#define ANSWERS_EVENT_MAX ((size_t)1 << 20) /* bytes of one event of a stream */

/* Why a request passes the cache by. */
enum answers_pass {
    ANSWERS_MAY,     /* it does not */
    ANSWERS_PATH,    /* its path has no such answers */
    ANSWERS_ASKED,   /* its client says so: Cache-Control: no-store */
    ANSWERS_SAMPLED, /* its answer is drawn anew each time */
    ANSWERS_STATE,   /* its answer depends on what is kept or found elsewhere */
    ANSWERS_MEDIA,   /* it has pictures, sounds or files */
    ANSWERS_SHAPE,   /* it has no prompt, or no name: answers_form.h */
    ANSWERS_PASSES,
};

/* "path", "no-store", ...; "" for ANSWERS_MAY. Static text. */
const char *answers_pass_name(enum answers_pass pass);

/*
 * Judges a request that scan_body() has read. seeded: requests with a seed may
 * be answered from the cache, too. With ANSWERS_MAY *name is what its body says.
 */
enum answers_pass answers_judge(const struct scan *scan, struct slice body,
                                bool seeded, uint64_t seed,
                                struct key_wide *name);

/* Why a request gets no answer to a question like its own. */
enum answers_unlike {
    ANSWERS_UNLIKE_MAY,   /* it may */
    ANSWERS_UNLIKE_PATH,  /* no chat */
    ANSWERS_UNLIKE_TOOLS, /* its model may call some */
    ANSWERS_UNLIKE_TURNS, /* it goes on with a conversation, or its question is
                             not one text */
    ANSWERS_UNLIKE_LONG,  /* over ANSWERS_QUESTION_MAX */
    /* For callers: */
    ANSWERS_UNLIKE_LANGUAGE, /* not English, as far as can be told */
    ANSWERS_UNLIKE_TENANT,   /* whose words only some may see */
    ANSWERS_UNLIKE_RULE,     /* of content.file: off */
    ANSWERS_UNLIKES,
};

/* "tools", "turns", ...; "" for ANSWERS_UNLIKE_MAY. Static text. */
const char *answers_unlike_name(enum answers_unlike unlike);

/* Bytes of a question, in the body. One instruction before a long text hardly
 * moves its vector, and embedders leave out what is behind some hundred tokens. */
#define ANSWERS_QUESTION_MAX ((size_t)1 << 10)

/* Judges a request that answers_judge() lets in. With ANSWERS_UNLIKE_MAY *raw is
 * its question in the body, between its quotes. */
enum answers_unlike answers_judge_question(const struct scan *scan,
                                           struct slice body,
                                           struct slice *raw);

/* As answers_judge(), around a hole: answers_form_read_around(). */
enum answers_pass answers_judge_around(const struct scan *scan,
                                       struct slice body, struct slice hole,
                                       bool seeded, uint64_t seed,
                                       struct answers_form *form);

/* Whether the body of an answer of 200 to a request of that API is whole: a
 * generation that ended by itself or by its limit, and no error in it. */
bool answers_is_whole(enum scan_api api, bool stream, struct slice body);

/* What the value of a Cache-Control line says; of several lines, one after
 * another. */
struct answers_control {
    bool no_store;
    bool no_cache;
};

/* Adds what one line says. */
void answers_control_read(struct slice value, struct answers_control *control);

#endif
