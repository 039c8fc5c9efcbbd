/*
 * What one event of a streamed chat or completion says.
 *
 * Role: core. Owns: nothing; slices lie in the event. Thread: any. Limits: those
 * of json_pull.h. Errors: an event that is not understood is `alien`.
 */
#ifndef NODE_RESUME_EVENT_INTERNAL_H
#define NODE_RESUME_EVENT_INTERNAL_H

#include <stdbool.h>

#include "index/base/slice.h"

struct resume_event {
    bool alien;    /* it has something that cannot be resumed */
    bool done;     /* [DONE] */
    bool failed;   /* an error of the engine's own, with a code from 500 on */
    bool role;     /* says who speaks */
    bool finished; /* says why the answer ends */
    bool choice;   /* it is about an answer, and not about all of them */
    bool usage;
    struct slice id;            /* raw, between the quotes; empty: none */
    struct slice created;       /* digits */
    struct slice model;         /* as id */
    struct slice text;          /* raw, between the quotes */
    struct slice prompt_tokens; /* digits */
    struct slice completion_tokens;
    struct slice total_tokens;
};

/* event: with the empty line that ends it. */
void resume_event_read(struct slice event, struct resume_event *told);

#endif
