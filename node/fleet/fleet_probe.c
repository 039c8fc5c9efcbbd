/* Probes: when they are due, what their answers mean, and where they go. */
#include <string.h>

#include "node/fleet/fleet.h"
#include "node/fleet/fleet_log_internal.h"
#include "node/fleet/fleet_slot_internal.h"

#define JITTER_DIVISOR 10  /* an interval is up to a tenth shorter */
#define GRAIN_DIVISOR  40  /* and ends on a multiple of a 40th of it */
#define SOON_DIVISOR   10  /* a probe brought forward waits a tenth of one */
#define ROUNDS         16U /* health probes in a window of the shortest one */

static uint32_t
interval_ms(const struct fleet *fleet, enum fleet_probe probe)
{
    switch (probe) {
    case FLEET_PROBE_MODELS:
        return fleet->config.health.models_interval_ms;
    case FLEET_PROBE_METRICS:
        return fleet->config.health.metrics_interval_ms;
    case FLEET_PROBE_HEALTH:
    case FLEET_PROBES:
        break;
    }
    return fleet->config.health.interval_ms;
}

/* Those that are due at about the same time are due at the same time: a node
 * with a hundred workers wakes up once for several. */
static uint64_t
after_interval(struct fleet *fleet, uint32_t ms)
{
    uint64_t us = (uint64_t)ms * 1000;
    uint64_t grain_us = us / GRAIN_DIVISOR;
    CHECK(ms != 0);
    uint64_t due_us =
        fleet->now_us + us - rng_below(&fleet->rng, us / JITTER_DIVISOR + 1);

    return grain_us != 0 ? due_us - due_us % grain_us : due_us;
}

void
fleet_probes_start(struct fleet *fleet, uint32_t slot)
{
    CHECK(fleet->slot[slot].state == SLOT_PRESENT);
    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        fleet->slot[slot].probe[p].due_us = fleet->now_us;
    }
    fleet_probes_due(fleet, slot);
}

/* A worker without requests is scraped half as often, because the result
 * matters little. */
static uint64_t
due_us(const struct fleet *fleet, uint32_t slot, enum fleet_probe probe)
{
    CHECK(slot < WORKERS_MAX && probe < FLEET_PROBES);
    const struct fleet_slot *s = &fleet->slot[slot];
    bool rests =
        probe == FLEET_PROBE_METRICS && fleet_metrics_is_idle(fleet, slot);
    uint64_t more_ms = rests ? fleet->config.health.metrics_interval_ms : 0;

    return s->probe[probe].due_us + more_ms * 1000;
}

/* A probe is on its way, or about to be. */
static bool
is_busy(const struct fleet *fleet, uint32_t slot)
{
    bool busy = false;

    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        busy = busy || fleet->slot[slot].probe[p].flying ||
               worker_set_has(&fleet->want_probe[p], slot);
    }
    return busy;
}

/* One at a time, health first: an engine that is busy with its metrics answers
 * the health check late. */
void
fleet_probes_due(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(slot < WORKERS_MAX && s->state == SLOT_PRESENT);
    if (!s->resolving && s->resolve_due_us <= fleet->now_us) {
        worker_set_add(&fleet->want_resolve, slot);
    }
    if (s->now.address_len == 0 || is_busy(fleet, slot)) {
        return; /* nowhere to go yet, or not now */
    }
    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        if (due_us(fleet, slot, (enum fleet_probe)p) <= fleet->now_us) {
            worker_set_add(&fleet->want_probe[p], slot);
            return;
        }
    }
}

uint64_t
fleet_probes_deadline(const struct fleet *fleet, uint32_t slot)
{
    const struct fleet_slot *s = &fleet->slot[slot];
    uint64_t deadline = s->resolving ? UINT64_MAX : s->resolve_due_us;

    CHECK(s->state == SLOT_PRESENT);
    if (s->now.address_len == 0 || is_busy(fleet, slot)) {
        return deadline;
    }
    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        uint64_t at_us = due_us(fleet, slot, (enum fleet_probe)p);
        deadline = at_us < deadline ? at_us : deadline;
    }
    return deadline;
}

void
fleet_probe_soon(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];
    struct probe_state *probe = &s->probe[FLEET_PROBE_HEALTH];
    uint64_t soon =
        s->health_sent_us +
        (uint64_t)fleet->config.health.interval_ms * 1000 / SOON_DIVISOR;

    CHECK(s->state == SLOT_PRESENT);
    if (!probe->flying && probe->due_us > soon) {
        probe->due_us = soon > fleet->now_us ? soon : fleet->now_us;
        fleet_probes_due(fleet, slot);
    }
}

/* SGLang answers GET /health when it has generated a token for it: never within
 * a second, and at the cost of its requests. */
static bool
generates(const struct fleet *fleet, const struct fleet_slot *s)
{
    return s->now.kind == ENGINE_SGLANG &&
           strcmp(fleet->config.health.path, "/health") == 0;
}

void
fleet_probe_sent(struct fleet *fleet, uint32_t slot, enum fleet_probe probe)
{
    struct fleet_slot *s = &fleet->slot[slot];
    struct probe_state *state = &s->probe[probe];

    CHECK(!state->flying && probe < FLEET_PROBES);
    CHECK(s->state == SLOT_PRESENT);
    state->flying = true;
    state->due_us = after_interval(fleet, interval_ms(fleet, probe));
    if (probe == FLEET_PROBE_HEALTH) {
        state->alternative |= generates(fleet, s);
        s->health_sent_us = fleet->now_us;
        s->health_sent++;
    } else if (probe == FLEET_PROBE_METRICS) {
        s->inflight_before = fleet_metrics_ours(fleet, slot);
    }
}

static void
health_good(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_PRESENT);
    s->bad_row = 0;
    s->unanswered = 0;
    s->good_row++;
    if (s->healthy || s->good_row < fleet->config.health.successes) {
        return;
    }
    s->healthy = true;
    s->reason = "";
    s->since_us = fleet->now_us;
    fleet_note(fleet, slot, FLEET_UP);
    if (breaker_reset(&s->breaker)) {
        fleet_note(fleet, slot, FLEET_CIRCUIT_CLOSED);
    }
    /* It may serve other models after its absence. */
    s->probe[FLEET_PROBE_MODELS].due_us = fleet->now_us;
    s->probe[FLEET_PROBE_METRICS].due_us = fleet->now_us;
    fleet_probes_due(fleet, slot);
    fleet_view_changes(fleet);
}

/* Whether the last check got no answer in time, and nothing worse: engines that
 * compute long prompts miss one now and then. */
static bool
is_silence(const struct fleet_probed *result)
{
    return result->status == 0 && strcmp(result->failure, "timeout") == 0;
}

/* Bytes of an answer came from there after the last check was sent. */
static bool
is_heard(const struct fleet *fleet, uint32_t slot)
{
    uint32_t at = gauge_read(&fleet->board.heard[slot]);

    return at > fleet_heard_at(fleet->slot[slot].health_sent_us);
}

static void
health_bad(struct fleet *fleet, uint32_t slot, const char *reason)
{
    struct fleet_slot *s = &fleet->slot[slot];
    bool first = s->bad_row == 0 && s->good_row == 0;

    CHECK(s->state == SLOT_PRESENT && reason != NULL);
    s->good_row = 0;
    s->bad_row++;
    s->probes_failed++;
    s->reason = reason;
    bool enough = !s->silent || s->bad_row >= fleet->config.health.failures;
    if (s->healthy && !enough) { /* ask again at once */
        s->probe[FLEET_PROBE_HEALTH].due_us = fleet->now_us;
        fleet_probes_due(fleet, slot);
        return;
    }
    if (!s->healthy && !first) {
        return;
    }
    s->healthy = false;
    s->since_us = fleet->now_us;
    fleet_metrics_forget(fleet, slot);
    fleet_note(fleet, slot, FLEET_DOWN);
    fleet_view_changes(fleet);
}

/* The server is there but does not know the path. */
static bool
is_unknown_path(unsigned status)
{
    return status == 404 || status == 405 || status == 501;
}

/* There was no answer: the next answer may come from a server at another
 * address. True when another address must be tried before this counts. */
static bool
no_answer(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_PRESENT);
    s->probe[FLEET_PROBE_HEALTH].alternative = false;
    s->unanswered++;
    if (s->resolve_due_us != UINT64_MAX) {
        s->resolve_due_us = fleet->now_us;
        fleet_probes_due(fleet, slot);
    }
    return !s->healthy && s->unanswered < s->addresses_count;
}

/* Views say in which way a worker is not well. */
static void
note_silence(struct fleet *fleet, uint32_t slot,
             const struct fleet_probed *result)
{
    struct fleet_slot *s = &fleet->slot[slot];
    bool silent = is_silence(result);

    if (s->silent != silent) {
        s->silent = silent;
        if (!s->healthy) {
            fleet_view_changes(fleet);
        }
    }
}

/* The shortest is the one that met nothing on its way and at the engine; a
 * window later it is looked for anew, because ways change. */
static void
note_round(struct fleet_rounds *rounds, uint64_t us)
{
    uint32_t round_us = us < 1 ? 1 : us > INT32_MAX ? INT32_MAX : (uint32_t)us;

    if (rounds->count == ROUNDS) {
        *rounds = (struct fleet_rounds){.before_us = rounds->least_us};
    }
    rounds->count++;
    if (rounds->least_us == 0 || round_us < rounds->least_us) {
        rounds->least_us = round_us;
    }
}

void
fleet_rounds(const struct fleet *fleet, uint32_t *round_us)
{
    WORKER_SET_EACH (slot, &fleet->present) {
        const struct fleet_rounds *rounds = &fleet->slot[slot].rounds;
        bool before =
            rounds->before_us != 0 &&
            (rounds->least_us == 0 || rounds->before_us < rounds->least_us);
        round_us[slot] = before ? rounds->before_us : rounds->least_us;
    }
}

static void
take_health(struct fleet *fleet, uint32_t slot,
            const struct fleet_probed *result)
{
    struct probe_state *probe = &fleet->slot[slot].probe[FLEET_PROBE_HEALTH];
    bool guarded = result->status == 401 || result->status == 403;

    CHECK(result->probe == FLEET_PROBE_HEALTH && !probe->flying);
    CHECK(result->status != 0 || result->failure != NULL);
    if (fleet->slot[slot].healthy && is_silence(result) &&
        is_heard(fleet, slot)) {
        fleet->slot[slot].bad_row = 0; /* it is busy, and well */
        return;
    }
    note_silence(fleet, slot, result);
    fleet->slot[slot].bad_status = 0;
    if (fleet_is_2xx(result->status) || (probe->alternative && guarded)) {
        note_round(&fleet->slot[slot].rounds,
                   fleet->now_us - fleet->slot[slot].health_sent_us);
        health_good(fleet, slot);
        return;
    }
    if (is_unknown_path(result->status)) {
        probe->alternative = !probe->alternative;
        if (probe->alternative) { /* no verdict yet: ask again at once */
            probe->due_us = fleet->now_us;
            fleet_probes_due(fleet, slot);
            return;
        }
    }
    if (result->status == 0) {
        if (!no_answer(fleet, slot)) {
            health_bad(fleet, slot, result->failure);
        }
        return;
    }
    fleet->slot[slot].unanswered = 0;
    fleet->slot[slot].bad_status = result->status;
    health_bad(fleet, slot, "health status");
}

void
fleet_recognise(struct fleet *fleet, uint32_t slot, enum engine_kind kind)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_PRESENT);
    if (kind != ENGINE_OTHER && kind != s->now.kind) {
        s->now.kind = kind;
        s->record_outdated = true;
        fleet_note(fleet, slot, FLEET_RECOGNISED);
        fleet_view_changes(fleet);
    }
}

/* No list came. A known list stays; an engine that does answer has none. */
static void
no_models(struct fleet *fleet, struct fleet_slot *s, unsigned status)
{
    if (s->models_state == MODELS_UNASKED && (status != 0 || s->healthy)) {
        s->models_state = MODELS_UNKNOWN;
        fleet_view_changes(fleet);
    }
}

static void
take_models(struct fleet *fleet, uint32_t slot,
            const struct fleet_probed *result)
{
    struct fleet_slot *s = &fleet->slot[slot];
    struct engine_models models;

    CHECK(s->state == SLOT_PRESENT && result->probe == FLEET_PROBE_MODELS);
    if (!fleet_is_2xx(result->status) ||
        engine_models_read(result->body, &models) != 0) {
        no_models(fleet, s, result->status);
        return;
    }
    fleet_recognise(fleet, slot, models.kind);
    if (s->models_state == MODELS_KNOWN &&
        engine_models_equal(&s->models, &models)) {
        engine_models_fini(&models);
        return;
    }
    engine_models_fini(&s->models);
    s->models = models;
    s->models_state = MODELS_KNOWN;
    fleet->table_changed = true;
    fleet_note(fleet, slot, FLEET_MODELS_CHANGED);
    fleet_view_changes(fleet);
}

static void
take_result(struct fleet *fleet, const struct fleet_probed *result)
{
    switch (result->probe) {
    case FLEET_PROBE_HEALTH:
        take_health(fleet, result->slot, result);
        return;
    case FLEET_PROBE_MODELS:
        take_models(fleet, result->slot, result);
        return;
    case FLEET_PROBE_METRICS:
        fleet_metrics_take(fleet, result->slot, result);
        return;
    case FLEET_PROBES:
        break;
    }
    CHECK(false);
}

void
fleet_probed(struct fleet *fleet, const struct fleet_probed *result,
             uint64_t now_us)
{
    struct fleet_slot *s =
        fleet_slot_of(fleet, result->slot, result->generation);

    CHECK(result->probe < FLEET_PROBES);
    fleet->now_us = now_us;
    if (s == NULL || !s->probe[result->probe].flying) {
        return;
    }
    s->probe[result->probe].flying = false;
    take_result(fleet, result);
    fleet_probes_due(fleet, result->slot); /* the next one may be waiting */
}

/* Whether two addresses of the resolver are the same. */
static bool
same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    return a->ss_family == b->ss_family &&
           memcmp(a, b, fleet_address_len(a)) == 0;
}

static void
move_to(struct fleet *fleet, uint32_t slot,
        const struct sockaddr_storage *address)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_PRESENT && s->resolve_due_us != UINT64_MAX);
    if (s->now.address_len != 0) {
        fleet_note(fleet, slot, FLEET_ADDRESS_CHANGED);
    }
    s->now.address = *address;
    s->now.address_len = fleet_address_len(address);
    s->record_outdated = true;
    if (!s->healthy && s->unanswered < s->addresses_count) {
        s->probe[FLEET_PROBE_HEALTH].due_us = fleet->now_us;
    }
    fleet_probes_due(fleet, slot);
    fleet_view_changes(fleet);
}

/* Which of the addresses to go to next; count is not 0. */
static size_t
choose_address(const struct fleet_slot *s,
               const struct sockaddr_storage *addresses, size_t count)
{
    CHECK(count != 0);
    for (size_t i = 0; i < count && s->now.address_len != 0; i++) {
        if (same_address(&s->now.address, &addresses[i])) {
            return s->unanswered == 0 ? i : (i + 1) % count;
        }
    }
    return 0;
}

/* Copies the addresses that a worker may have, and logs the others. */
static size_t
leave_denied(const struct fleet *fleet, const struct fleet_slot *s,
             const struct sockaddr_storage *addresses, size_t count,
             struct sockaddr_storage *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < count; i++) {
        const struct sockaddr *address = (const struct sockaddr *)&addresses[i];
        const struct range *range = ranges_find(&fleet->config.deny, address);
        if (range == NULL) {
            out[kept++] = addresses[i];
        } else {
            fleet_log_denied(s->config.id, address, range);
        }
    }
    return kept;
}

void
fleet_resolved(struct fleet *fleet, uint32_t slot, uint32_t generation,
               const struct sockaddr_storage *found, size_t count,
               uint64_t now_us)
{
    struct fleet_slot *s = fleet_slot_of(fleet, slot, generation);
    struct sockaddr_storage addresses[FLEET_ADDRESSES_MAX];

    CHECK(count == 0 || found != NULL);
    CHECK(count <= FLEET_ADDRESSES_MAX);
    fleet->now_us = now_us;
    if (s == NULL || !s->resolving) {
        return;
    }
    CHECK(s->resolve_due_us != UINT64_MAX); /* its host is a name */
    s->resolving = false;
    size_t all = count;
    count = leave_denied(fleet, s, found, all, addresses);
    s->addresses_count = count;
    if (count == 0) {
        s->resolve_due_us =
            after_interval(fleet, fleet->config.health.interval_ms);
        if (s->now.address_len == 0) { /* otherwise the last address may still
                                          work */
            health_bad(fleet, slot,
                       all != 0 ? "address denied by workers.deny"
                                : "name not resolved");
        }
        return;
    }
    s->resolve_due_us =
        after_interval(fleet, fleet->config.resolve_interval_ms);
    size_t chosen = choose_address(s, addresses, count);
    CHECK(chosen < count);
    if (s->now.address_len == 0 ||
        !same_address(&s->now.address, &addresses[chosen])) {
        move_to(fleet, slot, &addresses[chosen]);
    }
}
