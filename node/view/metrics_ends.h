/*
 * How requests ended: by the code that their client was told, and the reason.
 *
 * The reason is the `code` of the error that the node answered with, or one of
 * the first few below. A request is counted once, when it ends.
 *
 * Role: core. Owns: nothing, a plain value. Thread: metrics_end() by the lane;
 * reading by any. Limits: the codes and reasons below, others are `other`.
 * Errors: none.
 */
#ifndef NODE_METRICS_ENDS_H
#define NODE_METRICS_ENDS_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/counter.h"

/* X(NAME, reason, code, meaning): the code that it has as a rule. */
#define METRICS_REASONS(X)                                                     \
    X(OTHER, "other", 500, "none of these")                                    \
    X(ANSWERED, "answered", 200, "a worker's answer, whatever its code")       \
    X(LOCAL, "local", 200, "models, counts of tokens, browsers' preflights")   \
    X(CACHED, "cached", 200, "from the answer cache")                          \
    X(CANCELLED, "cancelled", 499,                                             \
      "the client went away; code 499: before an answer began")                \
    X(BROKE_OFF, "answer_broke_off", 200,                                      \
      "its worker's answer ended too "                                         \
      "early")                                                                 \
    X(ALL_FAILED, "all_attempts_failed", 502, "no attempt was answered")       \
    X(ALL_BUSY, "all_workers_busy", 503, "workers refused it for now")         \
    X(NO_WORKER, "no_worker", 503, "no worker is eligible")                    \
    X(NO_MODEL, "model_not_found", 404, "no worker serves its model")          \
    X(TOO_LONG, "context_length_exceeded", 400, "no worker takes so much")     \
    X(RESIDENCY, "residency", 403, "no worker is where its tenant's may be")   \
    X(QUEUE_FULL, "queue_full", 503, "too many wait for a worker with room")   \
    X(QUEUE_LATE, "queue_timeout", 503, "no worker had room in time")          \
    X(OVERLOADED, "overloaded", 503, "a bound of this node is reached")        \
    X(CLIENT_BYTES, "client_bytes", 429, "over its address's share of memory") \
    X(RATE_LIMIT, "rate_limit_exceeded", 429,                                  \
      "over a limit of its tenant "                                            \
      "or model")                                                              \
    X(KEY, "invalid_api_key", 401, "no known key")                             \
    X(NOT_ALLOWED, "model_not_allowed", 403, "a model not of its tenant")      \
    X(MEMBER, "member_not_allowed", 403, "a member that is for routers")       \
    X(ORIGIN, "origin_not_allowed", 403, "a browser's page that may not")      \
    X(REQUEST, "bad_request", 400, "not HTTP/1.1 as it must be")               \
    X(JSON, "invalid_json", 400, "a body that is not JSON")                    \
    X(TIMEOUT, "invalid_timeout", 400, "x-request-timeout cannot be read")     \
    X(PRIORITY, "invalid_priority", 400, "priority cannot be read")            \
    X(TRANSLATION, "not_translatable", 400, "no engine's API can say it")      \
    X(NOT_FOUND, "not_found", 404, "no such path")                             \
    X(METHOD, "method_not_allowed", 405, "not with this method")               \
    X(SLOW, "request_timeout", 408, "the request came too slowly")             \
    X(TOO_LARGE, "body_too_large", 413, "over limits.body_bytes_max")          \
    X(ENCODING, "unsupported_encoding", 415, "a body with an encoding")        \
    X(UPGRADE, "upgrade_not_served", 501, "it asks for another protocol")      \
    X(MODELS, "too_many_models", 503, "the list of models is over 1 MiB")

enum metrics_reason {
#define METRICS_REASON_ENUM(NAME, reason, code, meaning) METRICS_##NAME,
    METRICS_REASONS(METRICS_REASON_ENUM)
#undef METRICS_REASON_ENUM
    METRICS_REASONS_COUNT,
};

/* Codes that are told apart. */
/* clang-format off */
#define METRICS_CODES(X)                                                    \
    X(200) X(201) X(202) X(204) X(206) X(301) X(302) X(303) X(304) X(307)   \
    X(308) X(400) X(401) X(402) X(403) X(404) X(405) X(406) X(408) X(409)   \
    X(410) X(411) X(413) X(414) X(415) X(416) X(422) X(424) X(425) X(428)   \
    X(429) X(431) X(499) X(500) X(501) X(502) X(503) X(504) X(505) X(507)   \
    X(529)
/* clang-format on */

enum metrics_code {
    METRICS_CODE_OTHER,
#define METRICS_CODE_ENUM(code) METRICS_CODE_##code,
    METRICS_CODES(METRICS_CODE_ENUM)
#undef METRICS_CODE_ENUM
    METRICS_CODES_COUNT,
};

/* All zero at first. */
struct metrics_ends {
    struct counter count[METRICS_REASONS_COUNT][METRICS_CODES_COUNT];
};

/* The reason of that name; METRICS_OTHER where there is none. */
enum metrics_reason metrics_reason_of(const char *name);

/* Counts one request. */
void metrics_end(struct metrics_ends *ends, enum metrics_reason reason,
                 unsigned code);

/* How many ended so, with whatever code. */
uint64_t metrics_ended(const struct metrics_ends *ends,
                       enum metrics_reason reason);

/* Adds one lane's to a total that nobody shares. */
void metrics_ends_merge(struct metrics_ends *total,
                        const struct metrics_ends *lane);

/* kvasir_requests_total: each reason with its usual code, so that a first one
 * is a rise; and what else there was. */
void metrics_ends_print(const struct metrics_ends *total, struct buf *out);

#endif
