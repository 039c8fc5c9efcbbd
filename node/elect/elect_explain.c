/*
 * Says of each worker why it was chosen or not.
 */
#include <stdlib.h>

#include "node/elect/elect.h"
#include "node/elect/elect_cost_internal.h"
#include "node/elect/elect_plan_internal.h"

/* Why a present worker is no candidate. */
static const char *
lacking(const struct elect_standing *standing, uint32_t slot)
{
    CHECK_SLOW(worker_set_has(&standing->present, slot));
    if (!worker_set_has(&standing->healthy, slot)) {
        return "unhealthy";
    }
    if (worker_set_has(&standing->draining, slot)) {
        return "draining";
    }
    if (worker_set_has(&standing->open, slot)) {
        return "circuit open";
    }
    if (worker_set_has(&standing->foreign, slot)) {
        return "other residency";
    }
    if (!worker_set_has(&standing->serves, slot)) {
        return "wrong model";
    }
    if (worker_set_has(&standing->apart, slot)) {
        return "other role";
    }
    if (worker_set_has(&standing->too_short, slot)) {
        return "too short";
    }
    if (worker_set_has(&standing->spared, slot)) {
        return "session elsewhere";
    }
    return "not available now";
}

static const char *
not_taken(enum elect_policy policy)
{
    switch (policy) {
    case ELECT_ROUND_ROBIN:
        return "not its turn";
    case ELECT_RENDEZVOUS:
    case ELECT_PREFIX_HASH:
        return "lower hash";
    case ELECT_CONSISTENT_HASHING:
        return "later on the ring";
    case ELECT_KVASIR:
    case ELECT_CACHE_AWARE:
    case ELECT_COMPOSITE:
    case ELECT_DYNAMO:
    case ELECT_LEAST_LOAD:
    case ELECT_RANDOM:
    case ELECT_POWER_OF_TWO:
    case ELECT_POLICIES:
        break;
    }
    return "not drawn";
}

/* Why a candidate was out before costs or overlaps were compared. */
static const char *
candidate_filter(const struct elect_plan *plan, const struct elect_row *row)
{
    CHECK_SLOW(row->candidate);
    if (!worker_set_has(&plan->roomy, row->worker)) {
        return "kv pressure";
    }
    if (!worker_set_has(&plan->usable, row->worker)) {
        return "too late";
    }
    return row->load > plan->load_max ? "more load" : NULL;
}

static const char *
candidate_verdict(const struct elect_config *config,
                  const struct elect_plan *plan,
                  const struct elect_choice *choice,
                  const struct elect_row *row)
{
    if (row->worker == choice->worker) {
        return "chosen";
    }
    if (row->filter != NULL) {
        return row->filter;
    }
    if (plan->weighed) {
        return worker_set_has(&plan->near, row->worker)
                   ? "near-equal, not drawn"
               : worker_set_has(&plan->equal, row->worker)
                   ? "near-equal, another node's turn"
                   : "higher cost";
    }
    if (row->overlap < plan->overlap_min) {
        return "less overlap";
    }
    return config->policy == ELECT_KVASIR ? "near-equal, not drawn"
                                          : not_taken(config->policy);
}

/* Why the row's cost is what it is. */
static void
fill_columns(const struct elect_config *config, const struct elect_input *input,
             const struct elect_plan *plan, struct elect_row *row)
{
    uint32_t slow =
        input->slowness != NULL ? input->slowness[row->worker] : 1000;
    uint64_t tokens = (uint64_t)input->total_blocks * input->unit_tokens;

    CHECK_SLOW(row->candidate);
    row->slowness = slow;
    if (config->policy == ELECT_KVASIR) {
        row->aside = input->aside != NULL ? input->aside[row->worker] : 0;
        uint32_t above = elect_cost_weight(config, input->heat_milli) - 1000;
        row->unread = plan->unread[row->worker];
        row->weights = (struct elect_weights){
            .unread = above + slow,
            .queued = slow,
            .load = (uint64_t)slow * ELECT_REQUEST_TOKENS};
    } else if (config->policy == ELECT_DYNAMO) {
        uint64_t held = (uint64_t)row->overlap * input->unit_tokens;
        row->unread = held < tokens ? (uint32_t)(tokens - held) : 0;
        row->weights = (struct elect_weights){
            .unread = 1000, .queued = 1000, .load = tokens * 1000};
    }
}

static int
compare_rows(const void *left, const void *right)
{
    const struct elect_row *a = left;
    const struct elect_row *b = right;

    CHECK_SLOW(a->worker < WORKERS_MAX && b->worker < WORKERS_MAX);
    if (a->candidate != b->candidate) {
        return a->candidate ? -1 : 1;
    }
    if (a->overlap != b->overlap) {
        return a->overlap > b->overlap ? -1 : 1;
    }
    if (a->load != b->load) {
        return a->load < b->load ? -1 : 1;
    }
    return a->worker < b->worker ? -1 : 1;
}

size_t
elect_explain(const struct elect_config *config,
              const struct elect_input *input,
              const struct elect_standing *standing,
              const struct elect_choice *choice, struct elect_row *rows)
{
    struct elect_plan plan;
    size_t count = 0;
    size_t sorted = 0; /* the chosen one stays in front */
    const struct worker_set *weighed =
        config->policy == ELECT_KVASIR ? &input->candidates : &plan.usable;

    CHECK(input->load != NULL && rows != NULL);
    elect_plan_make(config, input, &plan);
    WORKER_SET_EACH (slot, &standing->present) {
        struct elect_row row = {
            .worker = slot,
            .overlap = elect_overlap(input, slot),
            .load = input->load[slot],
            .kv_usage = input->kv_usage != NULL ? input->kv_usage[slot] : 0,
            .candidate = worker_set_has(&input->candidates, slot),
        };
        if (plan.weighed && worker_set_has(weighed, slot)) {
            row.cost = plan.cost[slot];
            fill_columns(config, input, &plan, &row);
        }
        row.filter = row.candidate ? candidate_filter(&plan, &row)
                                   : lacking(standing, slot);
        row.verdict = row.candidate
                          ? candidate_verdict(config, &plan, choice, &row)
                          : row.filter;
        rows[count] = row;
        if (slot == choice->worker) {
            rows[count] = rows[0];
            rows[0] = row;
            sorted = 1;
        }
        count++;
    }
    qsort(rows + sorted, count - sorted, sizeof *rows, compare_rows);
    return count;
}
