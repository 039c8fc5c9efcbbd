/*
 * How `kvasir doctor` tries a worker: over HTTP, and by following its events.
 *
 * Role: shell. Owns: nothing; intakes and buffers are the command's. Thread:
 * main. Limits: DOCTOR_ANSWER_MAX, and times for each question. Errors: what is
 * found.
 */
#ifndef NODE_DOCTOR_TRY_INTERNAL_H
#define NODE_DOCTOR_TRY_INTERNAL_H

#include <uv.h>

#include "index/base/rng.h"
#include "node/base/sock_tls.h"
#include "node/cli/doctor_internal.h"
#include "node/events/intake.h"
#include "node/local/local_table.h"

#define DOCTOR_ANSWER_MAX ((size_t)8 << 20)

struct doctor {
    const struct config *config;
    const struct local_table *models;   /* NULL: none */
    const struct sock_tls_context *tls; /* NULL: no worker wants it */
    uv_loop_t loop;
    uv_async_t wake; /* of the intake */
    struct rng rng;
    struct buf body; /* of the last answer */
    struct buf text; /* of a question */
    struct buf page;
};

/* Whether it answers at all. */
bool doctor_ask_health(struct doctor *d, struct doctor_found *found);

/* Its models and metrics. Whether there is a model to ask for more. */
bool doctor_ask_about(struct doctor *d, struct doctor_found *found);

/* The tokens of a prompt, and two answers to a prompt that nobody sent before.
 */
void doctor_ask_prompts(struct doctor *d, struct doctor_found *found);

/* Begins to read its events, once connected; the caller's to intake_free(). NULL: there is
 * nothing to read, or nowhere to connect. */
struct intake *doctor_follow(struct doctor *d, struct doctor_found *found);

/* Looks until all is told that will be told, for some seconds at most. */
void doctor_watch(struct doctor *d, struct intake *intake,
                  struct doctor_found *found);

#endif
