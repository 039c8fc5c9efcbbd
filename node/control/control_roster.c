/* Workers of the configuration and of operators, by way of the roster. */
#include "node/control/control_roster.h"

#include <errno.h>
#include <string.h>

#include "node/base/log.h"
#include "node/config/config_mesh.h"

static struct roster *
roster_of(const struct control *control)
{
    return cluster_roster(control_cluster(control));
}

void
control_roster_changed(struct control *control,
                       const struct roster_entry *entry)
{
    const char *by =
        entry->from != 0
            ? cluster_peer_name(control_cluster(control), entry->from)
            : NULL;

    if (scale_job_key(entry->id) != NULL) {
        return; /* an engine that was asked for: control_scale_act.h reads it */
    }
    roster_apply_entry(control->workers, entry, by, control_now_us());
    probe_poke(control->probe);
}

void
control_roster_work(struct control *control)
{
    roster_apply_work(control->workers, control_now_us());
    probe_poke(control->probe);
}

static int ON_CONTROL
add_configured(struct control *control)
{
    const struct config *config = control->node->config;

    for (uint32_t i = 0; i < config->workers_count; i++) {
        if (config->workers[i].from[0] != '\0') {
            continue; /* see control_sources.h */
        }
        int outcome = fleet_add(control->fleet, &config->workers[i],
                                control_now_us(), NULL);
        if (outcome != 0) {
            LOG_ERROR("worker_refused", KV("worker", config->workers[i].id),
                      KV("outcome", outcome),
                      KV("hint", "two workers have one id or url, or there are "
                                 "too many: raise workers.slots"));
            return outcome < 0 ? outcome : -EINVAL;
        }
    }
    int outcome = roster_apply_configure(control->workers, control_now_us());
    if (outcome != 0) {
        LOG_ERROR(
            "roster_refused", KV("outcome", outcome),
            KV("hint",
               "the list of workers is full: remove those that are gone"));
    }
    return outcome <= 0 ? outcome : -EINVAL;
}

int
control_roster_open(struct control *control)
{
    const struct config *config = control->node->config;
    int error =
        roster_apply_new(&control->workers, control->fleet, roster_of(control),
                         config, config_mesh_tls(&config->mesh));

    if (error == 0) {
        error = add_configured(control);
    }
    if (error == 0) {
        probe_poke(control->probe);
    }
    return error;
}

void
control_roster_close(struct control *control)
{
    roster_apply_free(control->workers);
    control->workers = NULL;
}

/* Operations */

/* The fleet decides first whether such a worker is possible. */
int
control_roster_put(struct control *control, const struct config_worker *worker)
{
    struct config_worker whole = *worker;
    uint64_t now_us = control_now_us();
    uint32_t slot;

    roster_apply_complete(control->workers, &whole);
    int outcome = fleet_add(control->fleet, &whole, now_us, &slot);
    if (outcome != 0) {
        return outcome;
    }
    outcome = roster_apply_put(control->workers, &whole, false, now_us);
    if (outcome != 0) {
        fleet_remove(control->fleet, slot, now_us);
        LOG_WARNING(
            "roster_refused", KV("worker", whole.id), KV("outcome", outcome),
            KV("hint",
               "the list of workers is full: remove those that are gone"));
        outcome = outcome < 0 ? outcome : FLEET_E_FULL;
    }
    probe_poke(control->probe);
    return outcome;
}

bool
control_roster_drains(const struct control *control, struct slice id)
{
    uint32_t slot = fleet_find(control->fleet, id);
    struct fleet_status status;

    return slot != WORKER_NONE && fleet_status(control->fleet, slot, &status) &&
           status.draining;
}

/* The roster applies it; an operator's draining goes on. */
int
control_roster_renew(struct control *control,
                     const struct config_worker *worker)
{
    struct config_worker whole = *worker;

    roster_apply_complete(control->workers, &whole);
    int outcome =
        roster_apply_put(control->workers, &whole, true, control_now_us());
    return outcome <= 0 ? outcome : FLEET_E_FULL;
}

/* Whether a worker has this id, here or in the roster alone; as a text. */
static bool
is_there(const struct control *control, struct slice id,
         char text[ROSTER_ID_MAX])
{
    struct roster_entry entry;

    if (id.len >= ROSTER_ID_MAX) {
        return false;
    }
    memcpy(text, id.ptr, id.len);
    text[id.len] = '\0';
    return fleet_find(control->fleet, id) != WORKER_NONE ||
           (roster_find(roster_of(control), text, &entry) && !entry.removed);
}

static void
log_unsaid(const char *id, int outcome)
{
    if (outcome != 0) {
        LOG_WARNING(
            "roster_operation_kept_here", KV("worker", id),
            KV("outcome", outcome),
            KV("hint",
               "it is in force on this node alone: repeat it on the others"));
    }
}

/* Says whether it drains because its source left it out. */
static void ON_CONTROL
say_left(struct control *control, uint32_t slot, bool left)
{
    struct fleet_status status;

    if (slot != WORKER_NONE && fleet_status(control->fleet, slot, &status) &&
        status.config->left != left) {
        struct config_worker worker = *status.config;
        worker.left = left;
        (void)!control_roster_renew(control, &worker);
    }
}

/* Here it is done in any case, also when the roster cannot tell others. */
static bool ON_CONTROL
drain(struct control *control, struct slice id, bool draining, bool left)
{
    uint64_t now_us = control_now_us();
    uint32_t slot = fleet_find(control->fleet, id);
    char text[ROSTER_ID_MAX];

    if (!is_there(control, id, text)) {
        return false;
    }
    say_left(control, slot, left);
    log_unsaid(text, roster_drain(roster_of(control), text, draining, now_us));
    if (slot != WORKER_NONE && draining) {
        fleet_drain(control->fleet, slot, now_us);
    } else if (slot != WORKER_NONE) {
        fleet_undrain(control->fleet, slot, now_us);
    }
    probe_poke(control->probe);
    return true;
}

bool
control_roster_drain(struct control *control, struct slice id, bool draining)
{
    return drain(control, id, draining, false);
}

bool
control_roster_leave(struct control *control, struct slice id, bool left)
{
    return drain(control, id, left, left);
}

bool
control_roster_remove(struct control *control, struct slice id)
{
    uint64_t now_us = control_now_us();
    uint32_t slot = fleet_find(control->fleet, id);
    char text[ROSTER_ID_MAX];

    if (!is_there(control, id, text)) {
        return false;
    }
    log_unsaid(text, roster_remove(roster_of(control), text, now_us));
    if (slot != WORKER_NONE) {
        fleet_remove(control->fleet, slot, now_us);
    }
    probe_poke(control->probe);
    return true;
}

bool
control_roster_has(const struct control *control,
                   const struct config_worker *worker)
{
    uint32_t slot = fleet_find(control->fleet, slice_of(worker->id));
    struct config_worker whole = *worker;
    struct fleet_status status;

    roster_apply_complete(control->workers, &whole);
    return slot != WORKER_NONE && fleet_status(control->fleet, slot, &status) &&
           strcmp(status.config->from, whole.from) == 0 &&
           roster_step(status.config, false, &whole, false) == ROSTER_KEEP;
}

const char *
control_roster_from(struct control *control, const char *id)
{
    uint32_t slot = fleet_find(control->fleet, slice_of(id));
    struct fleet_status status;
    struct roster_entry entry;

    if (slot != WORKER_NONE && fleet_status(control->fleet, slot, &status) &&
        status.config->from[0] != '\0') {
        return status.config->from;
    }
    if (scale_seat_find_worker(&control->scale.act.seat, id) != NULL) {
        return "scale rule";
    }
    return roster_find(roster_of(control), id, &entry) &&
                   entry.version >= ROSTER_OPERATION
               ? "operator"
               : "configuration";
}
