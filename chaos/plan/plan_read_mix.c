/* Lengths and rates from what nodes have seen. */
#include "chaos/plan/plan_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/node.h"

#define NUMBER_BYTES 40U
#define NUMBER_MOST  1e15
#define HOUR_S       3600.0

/* What is read, and what came of it so far. */
struct reading {
    const struct plan_wanted *wanted;
    struct plan_mix *mix;
    struct plan_seen *seen;
    uint64_t hour;  /* of the node: the present one, since 1970 */
    double span_s;  /* of the node */
    double cached;  /* prompts' tokens a second, of all nodes */
    double prompts; /* the same: all */
    uint64_t hour_of[PLAN_SEEN_HOURS];
    double in_hour[PLAN_SEEN_HOURS]; /* requests */
    const char *why;                 /* NULL: all is well */
    int error;                       /* -ENOMEM */
};

/* One row's own numbers. */
struct row {
    char model[PLAN_NAME_MAX];
    char tenant[PLAN_NAME_MAX];
    double requests;
    double counted; /* shares */
    double cached;
    double longest;
};

static bool
fail(struct reading *r, const char *why)
{
    r->why = r->why != NULL ? r->why : why;
    return false;
}

/* The value just returned as a number from 0 on. */
static bool
get_number(struct reading *r, const struct json_pull *pull,
           enum pull_token token, double *number)
{
    char text[NUMBER_BYTES];

    if (token != PULL_NUMBER || pull->text.len >= sizeof(text)) {
        return fail(r, "a number is wanted");
    }
    memcpy(text, pull->text.ptr, pull->text.len);
    text[pull->text.len] = '\0';
    *number = strtod(text, NULL);
    return *number >= 0 && *number <= NUMBER_MOST
               ? true
               : fail(r, "a number is below 0, or too large");
}

static bool
next_number(struct reading *r, struct json_pull *pull, double *number)
{
    enum pull_token token = json_pull_next(pull);

    return get_number(r, pull, token, number);
}

/* A name, or null for the others; no shorter name is as long. */
static bool
next_name(struct reading *r, struct json_pull *pull, char name[PLAN_NAME_MAX])
{
    enum pull_token token = json_pull_next(pull);

    name[0] = '\0';
    return token == PULL_NULL ||
                   (token == PULL_STRING &&
                    json_pull_copy(pull, name, PLAN_NAME_MAX) >= 0)
               ? true
               : fail(r, "a name is wanted, of 63 bytes at most");
}

/* The next member of the object that is open: true at its key. */
static bool
next_key(struct reading *r, struct json_pull *pull)
{
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_KEY && token != PULL_OBJECT_END) {
        return fail(r, pull->fault != NULL ? pull->fault : "not an object");
    }
    return token == PULL_KEY;
}

static bool
skip(struct reading *r, struct json_pull *pull)
{
    return json_pull_skip(pull) || fail(r, pull->fault);
}

/* The members before its lists, wherever they stand; a copy of the reader. */
static struct row
read_names(struct reading *r, struct json_pull pull)
{
    struct row row = {.requests = 0};

    while (r->why == NULL && next_key(r, &pull)) {
        if (json_pull_is(&pull, SLICE("model"))) {
            (void)next_name(r, &pull, row.model);
        } else if (json_pull_is(&pull, SLICE("tenant"))) {
            (void)next_name(r, &pull, row.tenant);
        } else if (json_pull_is(&pull, SLICE("requests"))) {
            (void)next_number(r, &pull, &row.requests);
        } else if (json_pull_is(&pull, SLICE("counted_share"))) {
            (void)next_number(r, &pull, &row.counted);
        } else if (json_pull_is(&pull, SLICE("cached_share"))) {
            (void)next_number(r, &pull, &row.cached);
        } else if (json_pull_is(&pull, SLICE("longest"))) {
            (void)next_number(r, &pull, &row.longest);
        } else {
            (void)skip(r, &pull);
        }
    }
    return row;
}

/* The present hour, the first of them, is not over. */
static void
read_hours(struct reading *r, struct json_pull *pull)
{
    enum pull_token token = json_pull_next(pull);
    double requests;

    if (token != PULL_ARRAY) {
        (void)fail(r, "hours is a list");
        return;
    }
    for (uint64_t i = 0;
         r->why == NULL && (token = json_pull_next(pull)) != PULL_ARRAY_END;
         i++) {
        if (!get_number(r, pull, token, &requests) || i == 0 || i > r->hour) {
            continue;
        }
        uint64_t hour = r->hour - i;
        uint32_t at = (uint32_t)(hour % PLAN_SEEN_HOURS);
        if (hour > r->hour_of[at]) {
            r->hour_of[at] = hour;
            r->in_hour[at] = 0;
        }
        r->in_hour[at] += hour == r->hour_of[at] ? requests : 0;
    }
}

static uint32_t
tokens_of(double mean)
{
    return mean >= 1 ? (uint32_t)lround(mean) : 1;
}

/* A class of [prompt, answer, requests]: its rate is the point's weight. */
static bool
read_class(struct reading *r, struct json_pull *pull, const struct row *row)
{
    double prompt;
    double answer;
    double requests;

    if (!next_number(r, pull, &prompt) || !next_number(r, pull, &answer) ||
        !next_number(r, pull, &requests) ||
        json_pull_next(pull) != PULL_ARRAY_END || prompt > PLAN_TOKENS_MAX ||
        answer > PLAN_TOKENS_MAX) {
        return fail(r, "lengths is a list of [prompt, answer, requests]");
    }
    double rate = requests / r->span_s / (row->counted > 0 ? row->counted : 1);
    int outcome = rate > 0 ? plan_mix_add(r->mix, tokens_of(prompt),
                                          tokens_of(answer), rate)
                           : 0;
    if (outcome != 0) {
        r->error = outcome < 0 ? outcome : 0;
        return fail(r, "too many classes of length");
    }
    r->prompts += rate * prompt;
    r->cached += rate * prompt * fmin(row->cached, 1);
    return true;
}

static void
read_lengths(struct reading *r, struct json_pull *pull, const struct row *row)
{
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_ARRAY) {
        (void)fail(r, "lengths is a list");
        return;
    }
    while (r->why == NULL && (token = json_pull_next(pull)) == PULL_ARRAY) {
        (void)read_class(r, pull, row);
    }
    if (token != PULL_ARRAY_END) {
        (void)fail(r, "lengths is a list of [prompt, answer, requests]");
    }
}

static bool
is_wanted(const struct reading *r, const struct row *row)
{
    const struct plan_wanted *w = r->wanted;

    return (w->model == NULL || strcmp(w->model, row->model) == 0) &&
           (w->tenant == NULL || strcmp(w->tenant, row->tenant) == 0);
}

/* Behind its bracket. */
static void
read_row(struct reading *r, struct json_pull *pull)
{
    struct row row = read_names(r, *pull);
    bool wanted = is_wanted(r, &row);

    r->seen->rows += wanted;
    if (wanted) {
        r->seen->mean_rate += row.requests / r->span_s;
        r->seen->longest = row.longest > r->seen->longest
                               ? (uint32_t)fmin(row.longest, PLAN_TOKENS_MAX)
                               : r->seen->longest;
    }
    while (r->why == NULL && next_key(r, pull)) {
        if (wanted && json_pull_is(pull, SLICE("hours"))) {
            read_hours(r, pull);
        } else if (wanted && json_pull_is(pull, SLICE("lengths"))) {
            read_lengths(r, pull, &row);
        } else {
            (void)skip(r, pull);
        }
    }
}

static void
read_rows(struct reading *r, struct json_pull *pull)
{
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_ARRAY) {
        (void)fail(r, "rows is a list");
        return;
    }
    while (r->why == NULL && (token = json_pull_next(pull)) == PULL_OBJECT) {
        read_row(r, pull);
    }
    if (token != PULL_ARRAY_END) {
        (void)fail(r, pull->fault != NULL ? pull->fault : "a row is an object");
    }
}

/* The node's own numbers, wherever they stand; a copy of the reader. */
static void
read_head(struct reading *r, struct json_pull pull)
{
    double hour = 0;

    r->span_s = 0;
    while (r->why == NULL && next_key(r, &pull)) {
        if (json_pull_is(&pull, SLICE("hour"))) {
            (void)next_number(r, &pull, &hour);
        } else if (json_pull_is(&pull, SLICE("span_s"))) {
            (void)next_number(r, &pull, &r->span_s);
        } else {
            (void)skip(r, &pull);
        }
    }
    r->hour = (uint64_t)hour;
    if (r->why == NULL && !(r->span_s > 0)) {
        (void)fail(r, "no mix of a node (/admin/mix), or one of no time");
    }
}

/* One node's answer, with nothing but the next one behind it. */
static void
read_node(struct reading *r, struct json_pull *pull)
{
    if (json_pull_next(pull) != PULL_OBJECT) {
        (void)fail(r, pull->fault != NULL ? pull->fault
                                          : "no mix of a node (/admin/mix)");
        return;
    }
    read_head(r, *pull);
    while (r->why == NULL && next_key(r, pull)) {
        if (json_pull_is(pull, SLICE("rows"))) {
            read_rows(r, pull);
        } else {
            (void)skip(r, pull);
        }
    }
    r->seen->nodes++;
    r->seen->span_s = r->span_s > r->seen->span_s ? r->span_s : r->seen->span_s;
}

static bool
is_blank(struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (strchr(" \t\r\n", bytes.ptr[i]) == NULL || bytes.ptr[i] == '\0') {
            return false;
        }
    }
    return true;
}

static void
finish(struct reading *r)
{
    double busiest = 0;

    for (uint32_t i = 0; i < PLAN_SEEN_HOURS; i++) {
        busiest = fmax(busiest, r->in_hour[i] / HOUR_S);
    }
    r->seen->busiest_rate = fmax(busiest, r->seen->mean_rate);
    r->seen->cached = r->prompts > 0 ? r->cached / r->prompts : 0;
    if (r->seen->rows == 0) {
        (void)fail(r, "there are no requests of that model and tenant");
    } else if (r->mix->count == 0) {
        (void)fail(r, "no engine told how long these requests were");
    }
}

int
plan_read_mix(struct slice bytes, const struct plan_wanted *wanted,
              struct plan_mix *mix, struct plan_seen *seen, char *fault,
              size_t fault_size)
{
    struct reading r = {.wanted = wanted, .mix = mix, .seen = seen};
    struct slice left = bytes;

    *seen = (struct plan_seen){.nodes = 0};
    do {
        struct json_pull pull;
        json_pull_init(&pull, left);
        read_node(&r, &pull);
        left = (struct slice){.ptr = left.ptr + pull.at,
                              .len = left.len - pull.at};
    } while (r.why == NULL && !is_blank(left));
    if (r.why == NULL) {
        finish(&r);
    }
    if (r.error != 0) {
        return r.error;
    }
    if (r.why != NULL) {
        (void)snprintf(fault, fault_size, "%s", r.why);
        return PLAN_READ_E_BAD;
    }
    return 0;
}
