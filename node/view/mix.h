/*
 * The mix: how long the requests of each model and tenant were in the last days,
 * and how many came in each hour of the last week. It says what a fleet must do
 * (kvasir plan).
 *
 * A row is a model and a tenant. It has a histogram over prompt and answer
 * together, both on a scale of logarithms, two classes to each doubling. A class
 * keeps the sum of what fell into it, so that its mean, and the tokens of a row,
 * are exact. All fades, half of it in MIX_HALF_MS, once each hour; so does the
 * time that it speaks of, and counts by time are a rate.
 *
 * Beside that a row has what its requests needed, by budget (pool_tune.h).
 *
 * Every answer of success counts as a request; one whose engine told no tokens,
 * and one that went on at another worker, which was told more than the client's
 * prompt, has no length. Pairs beyond MIX_ROWS_MAX count in one row for all
 * others. Once an hour, when no row is left, the least goes into that one, too, so
 * that who asks more finds a place; rows of less than half a request go, always.
 *
 * Times are those of the wall clock, because a mix outlives processes. Time that
 * goes back stands still here, or by more than a day begins anew with empty hours;
 * a leap forward makes all fade.
 *
 * Role: core. Owns: its rows, 1.7 MB at most. Thread: one owner. Limits:
 * MIX_ROWS_MAX, MIX_TOKENS_MAX; what is longer than 2^23 tokens (answers: 2^19)
 * is of the last class. Errors: mix_load() says when bytes are no mix.
 */
#ifndef NODE_MIX_H
#define NODE_MIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"
#include "node/view/facts.h"
#include "node/view/pool_tune.h"

#define MIX_ROWS_MAX   32U
#define MIX_PROMPTS    48U
#define MIX_ANSWERS    40U
#define MIX_CELLS      ((size_t)MIX_PROMPTS * MIX_ANSWERS)
#define MIX_HOURS      168U /* a week */
#define MIX_TENANT_MAX 64U
#define MIX_TOKENS_MAX (UINT32_C(1) << 24) /* a prompt, or an answer */
#define MIX_HOUR_MS    UINT64_C(3600000)
#define MIX_HALF_MS    (48 * MIX_HOUR_MS)

/* What fell into a class, or a row. All of it fades. */
struct mix_sum {
    double requests;
    double prompt; /* their tokens */
    double answer;
};

struct mix_row {
    bool used;
    char model[FACT_MODEL_MAX];  /* "" and "": the others */
    char tenant[MIX_TENANT_MAX]; /* the name */
    double requests;             /* with a length or without */
    double cached;               /* tokens of prompts, as engines told */
    double judged; /* tokens of prompts whose cached ones were told */
    uint32_t hour[MIX_HOURS]; /* requests, by number of the hour since 1970 */
    uint32_t longest[MIX_HOURS]; /* prompt and answer, likewise */
    struct mix_sum cell[MIX_CELLS];
    struct pool_budgets budgets; /* of those with a length */
};

struct mix {
    uint64_t begun_ms; /* of the hour that is not faded yet */
    uint64_t now_ms;
    double faded_s;  /* time before that, as it fades */
    uint64_t beyond; /* requests that had to go to the others' row */
    struct mix_row row[MIX_ROWS_MAX + 1]; /* the last one: the others */
};

/* An empty mix, from now on; NULL: no memory. */
struct mix *mix_new(uint64_t now_ms);
/* NULL is fine. */
void mix_free(struct mix *mix);

/* Time passes. */
void mix_pass(struct mix *mix, uint64_t now_ms);

/* A request is over (a FACT_DECISION). tenant: its name, shortened to fit. */
void mix_take(struct mix *mix, const struct fact_decision *fact,
              const char *tenant);

/* The time that counts speak of, in seconds, as it fades. */
double mix_span_s(const struct mix *mix);

/* All lengths of a row together. */
struct mix_sum mix_sum(const struct mix_row *row);

/* The row's requests in the hour that was so many before the present one (0),
 * below MIX_HOURS. */
uint32_t mix_hour(const struct mix *mix, const struct mix_row *row,
                  uint32_t before);

/* The longest request of the row's last week. */
uint32_t mix_longest(const struct mix_row *row);

/* What all tenants of a model needed, by budget. Models without a row of their own
 * have none. */
struct pool_budgets mix_budgets(const struct mix *mix, struct slice model);

/* Appends the mix, for mix_load(). */
void mix_save(const struct mix *mix, struct buf *out);

/* Fills an empty mix with one that was saved, up to now_ms; what passed between
 * is no time that it speaks of. False: these are no such bytes, and the mix is
 * empty. */
bool mix_load(struct mix *mix, struct slice bytes, uint64_t now_ms) MUST_CHECK;

#endif
