/*
 * How a limit stands, in the lines of a head that clients' libraries read:
 * OpenAI's on every path but /v1/messages, and Anthropic's there.
 *
 *   x-ratelimit-limit-requests: 600
 *   x-ratelimit-remaining-requests: 599
 *   x-ratelimit-reset-requests: 6m0s
 *
 *   anthropic-ratelimit-requests-reset: 2024-05-01T10:00:59Z
 *
 * Every answer of a limited request has them, so they are written without
 * printf, in one piece.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: LIMITS_TEXT_ROOM. Errors: the
 * buffer's.
 */
#ifndef NODE_LIMITS_TEXT_H
#define NODE_LIMITS_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"
#include "node/limits/limits_gate.h"
#include "node/limits/limits_rate.h"

/* The longest three lines, and then some. */
#define LIMITS_TEXT_ROOM 256U

/* Appends the three lines of a limit of requests or tokens. */
void limits_text_openai(struct buf *out, enum limits_of of,
                        const struct limits_standing *standing);

/* The same in Anthropic's names; until: the time of day, of 40 bytes at most,
 * that is standing->reset_ms from now, as their clients read it. */
void limits_text_anthropic(struct buf *out, enum limits_of of,
                           const struct limits_standing *standing,
                           struct slice until);

#endif
