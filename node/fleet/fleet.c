/*
 * The table of workers: a slot from the moment a worker is added until another
 * one may have it, and the passage of time.
 */
#include "node/fleet/fleet.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/index.h"
#include "node/config/config_access.h"
#include "node/fleet/fleet_slot_internal.h"

struct fleet_board *
fleet_board(struct fleet *fleet)
{
    return &fleet->board;
}

int
fleet_new(struct fleet **out, const struct fleet_config *config,
          struct qsbr *qsbr)
{
    struct fleet *fleet = aligned_alloc(_Alignof(struct fleet), sizeof *fleet);

    CHECK(config != NULL && qsbr != NULL);
    *out = NULL;
    if (fleet == NULL) {
        return -ENOMEM;
    }
    memset(fleet, 0, sizeof *fleet);
    fleet->config = *config;
    fleet->qsbr = qsbr;
    fleet->table_changed = true;
    rng_init(&fleet->rng, config->seed);
    int error = fleet_publish(fleet);
    if (error != 0) {
        free(fleet);
        return error;
    }
    *out = fleet;
    return 0;
}

void
fleet_free(struct fleet *fleet)
{
    if (fleet == NULL) {
        return;
    }
    (void)qsbr_reclaim(fleet->qsbr);
    while (fleet->outdated != NULL) {
        struct fleet_record *record = fleet->outdated;
        fleet->outdated = record->next_outdated;
        free(record);
    }
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        free(fleet->slot[i].record);
        engine_models_fini(&fleet->slot[i].models);
    }
    fleet_table_free(fleet->table);
    free(fleet->published);
    free(fleet);
}

void
fleet_configure(struct fleet *fleet, const struct config_health *health,
                const struct config_breaker *breaker)
{
    fleet->config.health = *health;
    fleet->config.breaker = *breaker;
}

static int
find_duplicate(const struct fleet *fleet, const struct config_worker *worker)
{
    WORKER_SET_EACH (slot, &fleet->present) {
        const struct config_worker *there = &fleet->slot[slot].config;
        if (strcmp(there->id, worker->id) == 0) {
            return FLEET_E_DUPLICATE_ID;
        }
        if (url_equal(&there->url, &worker->url)) {
            return FLEET_E_DUPLICATE_URL;
        }
    }
    return 0;
}

static uint32_t
free_slot(const struct fleet *fleet)
{
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (fleet->slot[i].state == SLOT_FREE) {
            return i;
        }
    }
    return WORKER_NONE;
}

/* What lanes must know of a worker, except for its address. */
static void
describe(struct fleet_worker *worker, const struct config_worker *config)
{
    char authority[URL_TEXT_MAX];

    (void)snprintf(worker->host_header, sizeof worker->host_header, "%s",
                   url_authority(&config->url, authority));
    (void)snprintf(
        worker->url, sizeof worker->url, "%s%.*s%s", url_scheme(&config->url),
        (int)sizeof authority - URL_PATH_MAX - 9, authority, config->url.path);
    worker->tls = config->url.tls;
    memcpy(worker->host, config->url.host, sizeof worker->host);
    memcpy(worker->id, config->id, sizeof worker->id);
    memcpy(worker->base_path, config->url.path, sizeof worker->base_path);
    memcpy(worker->api_key, config->api_key, sizeof worker->api_key);
    memcpy(worker->island, config->island, sizeof worker->island);
    memcpy(worker->pool, config->pool, sizeof worker->pool);
    worker->role = (enum config_role)config->role;
    worker->bootstrap_port = config->bootstrap_port;
    worker->events = config->events;
    worker->replay = config->replay;
    worker->blocks_max = config->blocks_max;
    worker->sse = config->sse;
    worker->ranks = config->ranks != 0 ? config->ranks : 1;
    memcpy(worker->topic, config->topic, sizeof worker->topic);
    worker->identity = key_digest(slice_of(config->id));
}

static void
reset_board(struct fleet *fleet, uint32_t slot)
{
    struct fleet_board *board = &fleet->board;
    struct fleet_counters *counters = &board->counters[slot];

    CHECK(slot < WORKERS_MAX);
    for (unsigned what = 0; what < FLEET_LACKS; what++) {
        gauge_set(&board->lacks[what][slot], 0);
    }
    gauge_set(&board->peers[slot], 0);
    gauge_set(&board->peers_open[slot], 0);
    gauge_set(&board->foreign[slot], 0);
    gauge_set(&board->kv_usage_permille[slot], 0);
    gauge_set(&board->waiting[slot], 0);
    gauge_set(&board->running[slot], 0);
    gauge_set(&board->link_us[slot], 0);
    gauge_set(&board->away_us[slot], 0);
    gauge_set(&board->paid_us[slot], 0);
    gauge_set(&board->link_tokens[slot], 0);
    gauge_set(&board->crosses[slot], 0);
    counter_set(&counters->requests, 0);
    counter_set(&counters->failures, 0);
    counter_set(&counters->retries, 0);
    counter_set(&counters->streams_severed, 0);
}

/* A free slot becomes that of a new worker. */
static void
occupy(struct fleet *fleet, uint32_t slot, const struct config_worker *config,
       struct fleet_record *record)
{
    struct fleet_slot *s = &fleet->slot[slot];
    uint32_t generation = s->generation + 1;

    CHECK(slot < WORKERS_MAX && record != NULL);
    CHECK(s->state == SLOT_FREE && s->records_alive == 0);
    CHECK(s->events == 0 && s->models.count == 0);
    CHECK(!worker_set_has(&fleet->present, slot) &&
          !worker_set_has(&fleet->leaving, slot));
    CHECK(config->id[0] != '\0');
    *s = (struct fleet_slot){
        .state = SLOT_PRESENT,
        .generation = generation,
        .records_alive = 1,
        .config = *config,
        .record = record,
        .record_outdated = true,
        .reason = "",
        .since_us = fleet->now_us,
        .resolve_due_us = UINT64_MAX,
    };
    s->now.slot = slot;
    s->now.generation = generation;
    describe(&s->now, config);
    if (url_sockaddr(&config->url, &s->now.address) == 0) {
        s->now.address_len = fleet_address_len(&s->now.address);
    } else {
        s->resolve_due_us = fleet->now_us;
    }
    record->alive = &s->records_alive;
    record->worker = s->now;
    s->record_outdated = false;
    worker_set_add(&fleet->present, slot);
    reset_board(fleet, slot);
}

const struct ranges *
fleet_deny(const struct fleet *fleet)
{
    return &fleet->config.deny;
}

int
fleet_add(struct fleet *fleet, const struct config_worker *worker,
          uint64_t now_us, uint32_t *slot)
{
    struct config_worker named = *worker;
    char authority[URL_TEXT_MAX];
    char why[CONFIG_DENIED_MAX];

    fleet->now_us = now_us;
    if (named.id[0] == '\0') {
        (void)snprintf(named.id, sizeof named.id, "%.*s",
                       (int)sizeof named.id - 1,
                       url_authority(&named.url, authority));
    }
    if (config_access_denies(&fleet->config.deny, &named, why)) {
        return FLEET_E_DENIED;
    }
    int duplicate = find_duplicate(fleet, &named);
    if (duplicate != 0) {
        return duplicate;
    }
    uint32_t found = free_slot(fleet);
    if (found == WORKER_NONE) {
        return FLEET_E_FULL;
    }
    struct fleet_record *record = calloc(1, sizeof *record);
    if (record == NULL) {
        return -ENOMEM;
    }
    occupy(fleet, found, &named, record);
    fleet_probes_start(fleet, found);
    fleet->table_changed = true;
    fleet_note(fleet, found, FLEET_ADDED);
    fleet_view_changes(fleet);
    if (slot != NULL) {
        *slot = found;
    }
    return 0;
}

void
fleet_remove(struct fleet *fleet, uint32_t slot, uint64_t now_us)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(slot < WORKERS_MAX && s->state == SLOT_PRESENT);
    fleet->now_us = now_us;
    s->state = SLOT_LEAVING;
    s->healthy = false;
    CHECK(worker_set_has(&fleet->present, slot));
    worker_set_remove(&fleet->present, slot);
    worker_set_add(&fleet->leaving, slot);
    for (unsigned p = 0; p < FLEET_PROBES; p++) {
        worker_set_remove(&fleet->want_probe[p], slot);
    }
    worker_set_remove(&fleet->want_resolve, slot);
    engine_models_fini(&s->models);
    fleet->table_changed = true;
    fleet_note(fleet, slot, FLEET_REMOVED);
    fleet_view_changes(fleet);
}

void
fleet_drain(struct fleet *fleet, uint32_t slot, uint64_t now_us)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(slot < WORKERS_MAX && s->state == SLOT_PRESENT);
    fleet->now_us = now_us;
    CHECK(!s->drained || s->draining);
    if (!s->draining) {
        s->draining = true;
        s->drain_version = fleet->published->view.version + 1;
        fleet_note(fleet, slot, FLEET_DRAINING);
        fleet_view_changes(fleet);
    }
}

void
fleet_named(struct fleet *fleet, uint32_t slot,
            const struct config_worker *named)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(slot < WORKERS_MAX && s->state == SLOT_PRESENT);
    memcpy(s->config.from, named->from, sizeof s->config.from);
    s->config.left = named->left;
}

void
fleet_undrain(struct fleet *fleet, uint32_t slot, uint64_t now_us)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(slot < WORKERS_MAX && s->state == SLOT_PRESENT);
    fleet->now_us = now_us;
    CHECK(!s->drained || s->draining);
    if (s->draining) {
        s->draining = false;
        s->drained = false;
        fleet_note(fleet, slot, FLEET_UNDRAINED);
        fleet_view_changes(fleet);
    }
}

uint32_t
fleet_find(const struct fleet *fleet, struct slice id)
{
    WORKER_SET_EACH (slot, &fleet->present) {
        if (slice_equal(slice_of(fleet->slot[slot].config.id), id)) {
            return slot;
        }
    }
    return WORKER_NONE;
}

struct worker_set
fleet_unswept(const struct fleet *fleet)
{
    struct worker_set set = fleet->leaving;

    WORKER_SET_EACH (slot, &fleet->leaving) {
        if (fleet->slot[slot].swept) {
            worker_set_remove(&set, slot);
        }
    }
    return set;
}

struct worker_set
fleet_unchecked(const struct fleet *fleet)
{
    struct worker_set set = fleet->present;

    WORKER_SET_EACH (slot, &fleet->present) {
        const struct fleet_slot *s = &fleet->slot[slot];
        if (fleet_slot_able(s) || s->draining || s->bad_row != 0) {
            worker_set_remove(&set, slot);
        }
    }
    return set;
}

void
fleet_swept(struct fleet *fleet, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX);
    CHECK(fleet->slot[slot].state == SLOT_LEAVING);
    fleet->slot[slot].swept = true;
}

/* No request of ours runs there, and no lane can send more: all views that
 * offered it are gone. */
static bool
is_drained(const struct fleet *fleet, uint32_t slot)
{
    const struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_PRESENT && s->draining);
    CHECK(fleet->freed_version < fleet->published->view.version);
    return fleet->published->view.version >= s->drain_version &&
           fleet->freed_version + 1 >= s->drain_version &&
           gauge_read(&fleet->board.inflight[slot]) == 0;
}

static void
tick_drain(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_PRESENT);
    if (s->draining && !s->drained && is_drained(fleet, slot)) {
        s->drained = true;
        fleet_note(fleet, slot, FLEET_DRAINED);
    }
}

/* Frees a removed worker's slot when no reference to it is left. */
static void
tick_leaving(struct fleet *fleet, uint32_t slot)
{
    struct fleet_slot *s = &fleet->slot[slot];

    CHECK(s->state == SLOT_LEAVING);
    CHECK(!worker_set_has(&fleet->present, slot));
    if (s->swept && s->records_alive == 0 && s->events == 0 &&
        gauge_read(&fleet->board.inflight[slot]) == 0) {
        CHECK(s->record == NULL);
        s->state = SLOT_FREE;
        worker_set_remove(&fleet->leaving, slot);
    }
}

void
fleet_tick(struct fleet *fleet, uint64_t now_us)
{
    CHECK(now_us >= fleet->now_us);
    fleet->now_us = now_us;
    fleet->stirred = false;
    fleet->view_told = false; /* a view that could not be built: again */
    (void)qsbr_reclaim(fleet->qsbr);
    fleet_outlier_note(fleet);
    WORKER_SET_EACH (slot, &fleet->present) {
        struct fleet_slot *s = &fleet->slot[slot];
        if (breaker_tick(&s->breaker, now_us)) {
            fleet_note(fleet, slot, FLEET_CIRCUIT_HALF_OPEN);
            fleet_view_changes(fleet);
        }
        fleet_probes_due(fleet, slot);
        tick_drain(fleet, slot);
    }
    WORKER_SET_EACH (slot, &fleet->leaving) {
        tick_leaving(fleet, slot);
    }
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t
fleet_deadline(const struct fleet *fleet)
{
    bool waits = !worker_set_empty(&fleet->leaving) || fleet->view_changed;
    uint64_t deadline = UINT64_MAX;

    WORKER_SET_EACH (slot, &fleet->present) {
        const struct fleet_slot *s = &fleet->slot[slot];
        deadline = earlier(deadline, breaker_deadline(&s->breaker));
        deadline = earlier(deadline, fleet_probes_deadline(fleet, slot));
        waits = waits || (s->draining && !s->drained);
    }
    return waits ? earlier(deadline, fleet->now_us + FLEET_POLL_US) : deadline;
}

bool
fleet_is_stirred(const struct fleet *fleet)
{
    return fleet->stirred;
}

void
fleet_report(struct fleet *fleet, uint32_t slot, uint32_t generation,
             enum fleet_result result, uint64_t now_us)
{
    struct fleet_slot *s = fleet_slot_of(fleet, slot, generation);

    CHECK(result <= FLEET_ANSWERED_5XX);
    fleet->now_us = now_us;
    if (s == NULL) {
        return;
    }
    bool watched = breaker_watches(&s->breaker);
    bool success = result == FLEET_ANSWERED;
    uint32_t enough = success ? fleet->config.breaker.failures
                              : fleet_outlier_enough(fleet, slot);
    if (breaker_report(&s->breaker, &fleet->config.breaker, enough, success,
                       now_us)) {
        fleet->stirred = true;
        fleet_note(fleet, slot,
                   success ? FLEET_CIRCUIT_CLOSED : FLEET_CIRCUIT_OPEN);
        fleet_view_changes(fleet);
    }
    if (breaker_watches(&s->breaker) != watched) {
        fleet->stirred = true;
        fleet_view_changes(fleet);
    }
    if (result == FLEET_CONNECT_FAILED || result == FLEET_ANSWERED_5XX) {
        fleet->stirred = true;
        fleet_probe_soon(fleet, slot);
    }
}
