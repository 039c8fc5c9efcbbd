/*
 * Whether a stream may go on at another worker (resume.h), as far as its request
 * and the engines show: what lanes decide by, and what operators are told by
 * /admin/explain. What the answer brings (calls of tools, reasoning, more text
 * than is kept) is seen when it comes.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: RESUME_REQUEST_MAX. Errors:
 * none.
 */
#ifndef NODE_RESUME_MAY_H
#define NODE_RESUME_MAY_H

#include <stdbool.h>
#include <stddef.h>

#include "node/route/resume.h"
#include "node/scan/scan.h"
#include "node/view/fleet_view.h"

/* A larger request is not kept, nor read again while a lane waits. */
#define RESUME_REQUEST_MAX ((size_t)1 << 20)

/* Why not. */
enum resume_pass {
    RESUME_MAY,
    RESUME_NO_STREAM,
    RESUME_RULE_OFF,   /* retries.streams: off */
    RESUME_NO_RETRIES, /* retries.after_send: 0 */
    RESUME_SAMPLED,    /* not at temperature 0, and only such streams are */
    RESUME_PATH,       /* its API has no text to go on with */
    RESUME_SEVERAL,    /* answers or prompts */
    RESUME_STATE,      /* what its engine stores, or cuts off the prompt */
    RESUME_LARGE,
    RESUME_MEMBER,   /* it asks for what a continuation would not keep */
    RESUME_OWN_PATH, /* its engine speaks this API itself, and no chat is sent */
    RESUME_ALONE,    /* no other worker can go on */
    RESUME_PASSES,
};

/* By the request alone; retries: it may be sent to another worker. */
enum resume_pass resume_judge(const struct scan *scan, size_t body_len,
                              enum resume_rule rule, bool retries);

/* Whether a worker of that kind can go on with an answer of that API; exact: its
 * text is the same everywhere, so that the seam shows whether it did. */
bool resume_suits(enum engine_kind kind, enum scan_api api, bool exact);

/* "": it may. Static text. */
const char *resume_pass_name(enum resume_pass pass);

#endif
