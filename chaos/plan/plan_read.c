/* Lengths from traces and from CDFs. */
#include "chaos/plan/plan_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "chaos/replay/replay_trace.h"
#include "node/node.h"

#define NUMBER_BYTES 40U

static int
complain(const char *why, char *fault, size_t fault_size)
{
    (void)snprintf(fault, fault_size, "%s", why);
    return PLAN_READ_E_BAD;
}

static int
add_requests(const struct replay_load *load, struct plan_mix *mix, double *rate)
{
    uint64_t last_us = 0;

    for (uint32_t i = 0; i < load->count; i++) {
        const struct replay_request *r = &load->requests[i];
        int outcome = plan_mix_add(mix, r->prompt_tokens, r->output_tokens, 1);
        if (outcome != 0) {
            return outcome;
        }
        if (r->after == REPLAY_NONE && r->at_us > last_us) {
            last_us = r->at_us;
        }
    }
    *rate = last_us > 0 ? load->count / ((double)last_us / 1e6) : 0;
    return 0;
}

int
plan_read_trace(struct slice bytes, struct plan_mix *mix, double *rate,
                char *fault, size_t fault_size)
{
    struct replay_limits limits = REPLAY_LIMITS_DEFAULT;
    struct replay_fault where;
    struct replay_load load;

    replay_load_init(&load, &limits);
    int outcome = replay_trace_read(bytes, &load, &where);
    if (outcome == 0 && load.count == 0) {
        outcome = complain("there are no requests", fault, fault_size);
    } else if (outcome == 0) {
        outcome = add_requests(&load, mix, rate);
        CHECK(outcome <= 0); /* a load holds fewer than a mix */
    } else if (outcome == REPLAY_TRACE_E_BAD) {
        (void)snprintf(fault, fault_size, "line %u: %s", where.line,
                       where.text);
        outcome = PLAN_READ_E_BAD;
    }
    replay_load_fini(&load);
    return outcome;
}

/* The number just returned, or NAN. */
static double
number(const struct json_pull *pull)
{
    char text[NUMBER_BYTES];

    if (pull->text.len >= sizeof(text)) {
        return NAN;
    }
    memcpy(text, pull->text.ptr, pull->text.len);
    text[pull->text.len] = '\0';
    return strtod(text, NULL);
}

/* Behind the bracket of a pair: both numbers, and its end. */
static bool
read_pair(struct json_pull *pull, double *tokens, double *share)
{
    if (json_pull_next(pull) != PULL_NUMBER) {
        return false;
    }
    *tokens = number(pull);
    if (json_pull_next(pull) != PULL_NUMBER) {
        return false;
    }
    *share = number(pull);
    return json_pull_next(pull) == PULL_ARRAY_END;
}

static int
add_bucket(double tokens, double share, struct plan_bucket *buckets,
           struct plan_cdf *cdf, char *fault, size_t fault_size)
{
    const struct plan_bucket *last =
        cdf->count > 0 ? &buckets[cdf->count - 1] : NULL;

    if (cdf->count == PLAN_BUCKETS_MAX) {
        return complain("more than 256 pairs", fault, fault_size);
    }
    if (!(tokens >= 1 && tokens <= PLAN_TOKENS_MAX) ||
        !(share >= 0 && share <= 1) || tokens != floor(tokens) ||
        (last != NULL && (tokens <= last->tokens || share < last->share))) {
        (void)snprintf(fault, fault_size,
                       "pair %u: wanted are tokens above those before, at most "
                       "%u, and a share of 0 to 1 that does not fall",
                       cdf->count + 1, PLAN_TOKENS_MAX);
        return PLAN_READ_E_BAD;
    }
    buckets[cdf->count++] =
        (struct plan_bucket){.tokens = (uint32_t)tokens, .share = share};
    return 0;
}

/* Behind the bracket of the list. */
static int
read_pairs(struct json_pull *pull, struct plan_bucket *buckets,
           struct plan_cdf *cdf, char *fault, size_t fault_size)
{
    enum pull_token token;

    while ((token = json_pull_next(pull)) == PULL_ARRAY) {
        double tokens;
        double share;
        if (!read_pair(pull, &tokens, &share)) {
            return complain("not a list of [tokens, share]", fault, fault_size);
        }
        int outcome =
            add_bucket(tokens, share, buckets, cdf, fault, fault_size);
        if (outcome != 0) {
            return outcome;
        }
    }
    if (token != PULL_ARRAY_END) {
        return complain("not a list of [tokens, share]", fault, fault_size);
    }
    return 0;
}

/* The list, alone or as "cdf" of an object; false: there is none. */
static bool
find_list(struct json_pull *pull)
{
    static const struct slice name = {.ptr = "cdf", .len = 3};
    enum pull_token token = json_pull_next(pull);

    if (token == PULL_ARRAY) {
        return true;
    }
    while (token == PULL_OBJECT && json_pull_next(pull) == PULL_KEY) {
        if (json_pull_is(pull, name)) {
            return json_pull_next(pull) == PULL_ARRAY;
        }
        if (!json_pull_skip(pull)) {
            return false;
        }
    }
    return false;
}

int
plan_read_cdf(struct slice bytes, struct plan_bucket *buckets,
              struct plan_cdf *cdf, char *fault, size_t fault_size)
{
    struct json_pull pull;

    cdf->buckets = buckets;
    cdf->count = 0;
    json_pull_init(&pull, bytes);
    if (!find_list(&pull)) {
        return complain("no list of [tokens, share], nor \"cdf\" with one",
                        fault, fault_size);
    }
    int outcome = read_pairs(&pull, buckets, cdf, fault, fault_size);
    if (outcome != 0) {
        return outcome;
    }
    while (json_pull_next(&pull) > PULL_END) {
    }
    if (pull.fault != NULL) {
        return complain(pull.fault, fault, fault_size);
    }
    if (cdf->count == 0 || buckets[cdf->count - 1].share < 1) {
        return complain("the last share is not 1", fault, fault_size);
    }
    return 0;
}
