/*
 * The vectors of content rules' examples: asked one by one of workers that list
 * content.embeddings_model, whenever the file of rules was read. Until all are there
 * no rule with examples fits. Who does not answer is asked again after
 * CONTROL_LIKENESS_AGAIN_US.
 *
 * Role: shell. Owns: vectors, and the call that asks. Thread: control. Limits:
 * CONTENT_EXAMPLES_MAX. Errors: lines in the log.
 */
#ifndef NODE_CONTROL_LIKENESS_H
#define NODE_CONTROL_LIKENESS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/role.h"
#include "node/content/content.h"
#include "node/fleet/embedding.h"

#define CONTROL_LIKENESS_TIMEOUT_MS 5000U
#define CONTROL_LIKENESS_AGAIN_US   UINT64_C(1000000)

struct control;

/* All zero: there are no rules. */
struct control_likeness {
    struct control *control;
    struct content *content; /* whose examples are asked for; NULL: none are */
    struct text_vector *vector[CONTENT_EXAMPLES_MAX];
    uint32_t count;           /* of these */
    struct httpc *call;       /* NULL: none is open */
    struct httpc_conn *waits; /* its connection, between calls */
    uint64_t due_us;          /* of the next call */
    bool told;                /* the log has said that it does not come about */
};

/* These rules are published now, in place of those before. NULL: nothing. */
void control_likeness_begin(struct control *control, struct content *content)
    ON_CONTROL;

/* Asks for the next vector when that is due. */
void control_likeness_look(struct control *control, uint64_t now_us) ON_CONTROL;

/* Asks no more. */
void control_likeness_stop(struct control *control) ON_CONTROL;

#endif
