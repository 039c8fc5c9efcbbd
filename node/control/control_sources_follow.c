/* What sources listed, into the roster; and how they are, for operators. */
#include <inttypes.h>
#include <string.h>

#include "node/base/log.h"
#include "node/control/control_roster.h"
#include "node/control/control_sources_internal.h"
#include "node/text/prom_out.h"

const char *
source_outcome_name(enum source_outcome outcome)
{
    static const char *const names[SOURCE_OUTCOMES] = {
        [SOURCE_NOT_YET] = "not_yet", [SOURCE_GOOD] = "good",
        [SOURCE_ABSENT] = "absent",   [SOURCE_TIMEOUT] = "timeout",
        [SOURCE_FAILED] = "failed",
    };

    CHECK(outcome < SOURCE_OUTCOMES);
    return names[outcome];
}

static bool
is_of(const struct control_source *source, const struct fleet_status *status)
{
    return strcmp(status->config->from, source->like.from) == 0;
}

/* listed: what the list says of it, or NULL. */
static struct source_there ON_CONTROL
look(const struct control_source *source, const char *id,
     const struct config_worker *listed)
{
    const struct control *control = source->control;
    const struct member_table *members =
        cluster_members(control_cluster(control));
    uint32_t slot = fleet_find(control->fleet, slice_of(id));
    uint64_t now_us = control_now_us();
    struct fleet_status status;

    if (slot == WORKER_NONE || !fleet_status(control->fleet, slot, &status)) {
        return (struct source_there){.present = false};
    }
    return (struct source_there){
        .present = true,
        .ours = is_of(source, &status),
        .same = listed != NULL && control_roster_has(control, listed),
        .left = status.config->left && source->outcome == SOURCE_GOOD,
        .draining = status.draining,
        .drained = status.drained,
        .unwell =
            !status.healthy && now_us >= status.since_us + SOURCE_UNWELL_US,
        .alone = member_count_alive(members) <= 1,
    };
}

/* False: there is no place for it. */
static bool ON_CONTROL
put(struct control *control, const struct config_worker *worker)
{
    int outcome = control_roster_put(control, worker);

    /* Another source, or the list itself, has it already. */
    return outcome == 0 || outcome == FLEET_E_DUPLICATE_URL ||
           outcome == FLEET_E_DUPLICATE_ID;
}

/* False: there is no place for it. */
static bool ON_CONTROL
replace(struct control *control, const struct config_worker *worker,
        bool draining)
{
    struct slice id = slice_of(worker->id);

    (void)!control_roster_remove(control, id);
    bool placed = put(control, worker);
    if (draining) {
        (void)!control_roster_drain(control, id, true);
    }
    return placed;
}

/* False: there is no place for a worker. */
static bool ON_CONTROL
take(struct control_source *source, const char *id,
     const struct config_worker *listed)
{
    struct control *control = source->control;
    struct source_there there = look(source, id, listed);
    enum source_step step = source_step(&source->core, id, &there);
    struct slice name = slice_of(id);

    switch (step) {
    case SOURCE_KEEP:
        return true;
    case SOURCE_PUT:
        CHECK(listed != NULL);
        return put(control, listed);
    case SOURCE_REPLACE:
    case SOURCE_RENEW:
        CHECK(listed != NULL);
        return replace(control, listed, step == SOURCE_RENEW);
    case SOURCE_DRAIN:
    case SOURCE_UNDRAIN:
        LOG_INFO("worker_from_source", KV("worker", id),
                 KV("from", source->like.from),
                 KV("what", step == SOURCE_DRAIN
                                ? "not named any more: draining"
                                : "named again: no longer draining"));
        (void)!control_roster_leave(control, name, step == SOURCE_DRAIN);
        return true;
    case SOURCE_REMOVE:
        (void)!control_roster_remove(control, name);
        return true;
    }
    return true;
}

static bool
is_listed(const struct control_source *source, const char *id)
{
    for (uint32_t i = 0; i < source->list_count; i++) {
        if (strcmp(source->list[i].id, id) == 0) {
            return true;
        }
    }
    return false;
}

/* The slots of workers that it named once, and does not list. */
static struct worker_set
unlisted(const struct control_source *source)
{
    struct fleet_status status;
    struct worker_set slots;

    worker_set_clear(&slots);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (fleet_status(source->control->fleet, slot, &status) &&
            is_of(source, &status) && !is_listed(source, status.config->id)) {
            worker_set_add(&slots, slot);
        }
    }
    return slots;
}

static bool
is_there(const void *context, const char *id)
{
    const struct control_source *source = context;
    uint32_t slot = fleet_find(source->control->fleet, slice_of(id));
    struct fleet_status status;

    return slot != WORKER_NONE &&
           fleet_status(source->control->fleet, slot, &status) &&
           is_of(source, &status);
}

void
source_follow(struct control_source *source)
{
    struct worker_set gone = unlisted(source);
    struct fleet_status status;
    uint32_t refused = 0;

    for (uint32_t i = 0; i < source->list_count; i++) {
        refused += !take(source, source->list[i].id, &source->list[i]);
    }
    WORKER_SET_EACH (slot, &gone) {
        char id[CONFIG_LABEL_MAX];
        if (fleet_status(source->control->fleet, slot, &status)) {
            memcpy(id, status.config->id, sizeof id);
            (void)take(source, id, NULL);
        }
    }
    source_sweep(&source->core, is_there, source);
    if (refused > source->refused) {
        LOG_WARNING("worker_source_workers_refused",
                    KV("from", source->like.from), KV("workers", refused),
                    KV("hint", "there is no room for another worker, or "
                               "workers.deny denies its address"));
    }
    source->refused = refused;
}

void
source_remove_all(struct control_source *source)
{
    source->list_count = 0;
    struct worker_set gone = unlisted(source);
    struct fleet_status status;

    WORKER_SET_EACH (slot, &gone) {
        char id[CONFIG_LABEL_MAX];
        if (fleet_status(source->control->fleet, slot, &status)) {
            memcpy(id, status.config->id, sizeof id);
            (void)!control_roster_remove(source->control, slice_of(id));
        }
    }
}

/* For operators */

static uint32_t
count_present(const struct control_source *source)
{
    struct fleet_status status;
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        count += fleet_status(source->control->fleet, slot, &status) &&
                 is_of(source, &status);
    }
    return count;
}

void
control_sources_put(const struct control *control, struct json_out *json)
{
    const struct control_sources *sources = control->sources;
    uint64_t now_us = control_now_us();

    json_out_array_begin(json);
    for (uint32_t i = 0; sources != NULL && i < sources->count; i++) {
        const struct control_source *source = sources->source[i];
        json_out_object_begin(json);
        json_out_put_text(json, "from", source->like.from);
        json_out_put_text(json, "state", source_outcome_name(source->outcome));
        json_out_put_text(json, "why", source->why);
        json_out_put_uint(json, "listed", source->list_count);
        json_out_put_uint(json, "workers", count_present(source));
        json_out_put_uint(json, "refused", source->refused);
        json_out_put_bool(json, "any", source->good_us != 0);
        json_out_put_uint(
            json, "age_ms",
            source->good_us != 0 ? (now_us - source->good_us) / 1000 : 0);
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

static void
put_series(struct buf *out, const char *name, const char *from)
{
    buf_printf(out, "%s{from=\"", name);
    prom_out_label(out, from);
    buf_add_text(out, "\"");
}

void
control_sources_put_metrics(const struct control *control, struct buf *out)
{
    static const char workers[] = "kvasir_worker_source_workers";
    static const char looks[] = "kvasir_worker_source_looks_total";
    const struct control_sources *sources = control->sources;
    uint32_t count = sources != NULL ? sources->count : 0;

    prom_out_head(out, workers, "gauge",
                  "Workers that a source of the configuration named");
    for (uint32_t i = 0; i < count; i++) {
        put_series(out, workers, sources->source[i]->like.from);
        buf_printf(out, "} %" PRIu32 "\n", count_present(sources->source[i]));
    }
    prom_out_head(out, looks, "counter",
                  "Looks at a source, by how they ended");
    for (uint32_t i = 0; i < count; i++) {
        const struct control_source *source = sources->source[i];
        for (unsigned k = SOURCE_GOOD; k < SOURCE_OUTCOMES; k++) {
            put_series(out, looks, source->like.from);
            buf_printf(out, ",outcome=\"%s\"} %" PRIu64 "\n",
                       source_outcome_name((enum source_outcome)k),
                       source->looks[k]);
        }
    }
}
