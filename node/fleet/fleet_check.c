/* The invariants of a fleet, for tests and simulations. */
#include "node/fleet/fleet.h"
#include "node/fleet/fleet_slot_internal.h"

static const char *
check_present(const struct fleet *fleet, const struct fleet_slot *s,
              uint32_t slot)
{
    if (!worker_set_has(&fleet->present, slot)) {
        return "a present slot is not in the set";
    }
    if (s->generation == 0 || s->now.generation != s->generation ||
        s->now.slot != slot) {
        return "a worker does not know its slot";
    }
    if (s->record == NULL || s->records_alive == 0) {
        return "a present worker has no record";
    }
    if (s->record->alive != &s->records_alive) {
        return "a record counts for another slot";
    }
    if (fleet_find(fleet, slice_of(s->config.id)) != slot) {
        return "two workers of one id";
    }
    if (s->now.address_len == 0 && s->resolve_due_us == UINT64_MAX) {
        return "a worker that will never have an address";
    }
    if (s->models_state != MODELS_KNOWN && s->models.count > 0) {
        return "a list of models that is not known";
    }
    return s->drained && !s->draining ? "drained without draining" : NULL;
}

static const char *
check_absent(const struct fleet *fleet, const struct fleet_slot *s,
             uint32_t slot)
{
    bool leaving = s->state == SLOT_LEAVING;

    if (worker_set_has(&fleet->present, slot) ||
        worker_set_has(&fleet->leaving, slot) != leaving) {
        return "an absent slot is in the wrong set";
    }
    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        if (worker_set_has(&fleet->want_probe[p], slot)) {
            return "a probe of nobody is wanted";
        }
    }
    if (s->models.count > 0) {
        return "an absent worker has models";
    }
    return !leaving && (s->record != NULL || s->records_alive > 0)
               ? "a free slot has records"
               : NULL;
}

static const char *
check_breaker(const struct fleet *fleet, const struct breaker *breaker)
{
    switch (breaker->state) {
    case BREAKER_CLOSED:
        return breaker->failures >= fleet->config.breaker.failures
                   ? "a breaker is closed in spite of its failures"
                   : NULL;
    case BREAKER_OPEN:
        return breaker->open_ms == 0 ? "a breaker is open for no time" : NULL;
    case BREAKER_HALF_OPEN:
        break;
    }
    return breaker->successes >= fleet->config.breaker.successes
               ? "a breaker is half open in spite of its successes"
               : NULL;
}

/* An up-to-date view agrees with the slot. */
static const char *
check_view(const struct fleet *fleet, const struct fleet_slot *s, uint32_t slot)
{
    const struct fleet_view *view = &fleet->published->view;
    bool able = fleet_slot_able(s);
    bool closed = s->breaker.state == BREAKER_CLOSED;
    bool half_open = s->breaker.state == BREAKER_HALF_OPEN;

    if (worker_set_has(&view->eligible, slot) != (able && closed) ||
        worker_set_has(&view->trial, slot) != (able && half_open) ||
        worker_set_has(&view->ejected, slot) != (able && !closed) ||
        worker_set_has(&view->suspect, slot) != fleet_slot_doubted(s)) {
        return "the view is not up to date";
    }
    return view->worker[slot] !=
                   (s->state == SLOT_PRESENT ? &s->record->worker : NULL)
               ? "the view shows another record"
               : NULL;
}

static const char *
check_models(const struct fleet_models *models)
{
    for (size_t i = 1; i < models->count; i++) {
        if (slice_compare(models->model[i - 1].name, models->model[i].name) >=
            0) {
            return "models are not sorted";
        }
    }
    return NULL;
}

bool
fleet_check(const struct fleet *fleet, const char **reason)
{
    *reason = check_models(&fleet->table->models);
    if (fleet_view_get(&fleet->board) != &fleet->published->view) {
        *reason = "another view is published";
    }
    for (uint32_t i = 0; i < WORKERS_MAX && *reason == NULL; i++) {
        const struct fleet_slot *s = &fleet->slot[i];
        *reason = s->state == SLOT_PRESENT ? check_present(fleet, s, i)
                                           : check_absent(fleet, s, i);
        if (*reason == NULL) {
            *reason = check_breaker(fleet, &s->breaker);
        }
        if (*reason == NULL && !fleet->view_changed) {
            *reason = check_view(fleet, s, i);
        }
    }
    return *reason == NULL;
}
