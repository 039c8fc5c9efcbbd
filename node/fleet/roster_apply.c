/*
 * Determines the step between the fleet's state and an entry of the roster; and
 * passes operators' changes to the roster.
 */
#include "node/fleet/roster_apply.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/base/log.h"
#include "node/config/config_access.h"
#include "node/fleet/roster_keys_internal.h"
#include "node/fleet/roster_spec_internal.h"

#define AGAIN_US UINT64_C(1000000)

struct roster_apply {
    struct fleet *fleet;
    struct roster *roster;
    const struct config *config;
    bool secrets;
    bool missing; /* a worker was left out, and may be taken in later */
    uint64_t again_us;
    struct roster_keys keys; /* empty with secrets */
};

_Static_assert(ROSTER_ID_MAX == CONFIG_LABEL_MAX, "ids are the same");

/* The decision */

/* Whoever named it, and whether that names it now. */
static bool
same(const struct config_worker *left, const struct config_worker *right)
{
    struct config_worker a = *left;
    struct config_worker b = *right;
    struct buf texts[2];
    bool equal = strcmp(a.id, b.id) == 0;

    a.from[0] = '\0';
    b.from[0] = '\0';
    a.left = false;
    b.left = false;

    buf_init(&texts[0], ROSTER_SPEC_MAX);
    buf_init(&texts[1], ROSTER_SPEC_MAX);
    roster_spec_put(&a, true, &texts[0]);
    roster_spec_put(&b, true, &texts[1]);
    equal = equal && !texts[0].failed && !texts[1].failed &&
            slice_equal(buf_slice(&texts[0]), buf_slice(&texts[1]));
    buf_fini(&texts[0]);
    buf_fini(&texts[1]);
    return equal;
}

enum roster_step
roster_step(const struct config_worker *there, bool there_drains,
            const struct config_worker *wanted, bool wanted_drains)
{
    CHECK(there == NULL || wanted == NULL ||
          strcmp(there->id, wanted->id) == 0);
    if (there == NULL) {
        return wanted == NULL ? ROSTER_KEEP : ROSTER_ADD;
    }
    if (wanted == NULL) {
        return ROSTER_REMOVE;
    }
    if (!same(there, wanted)) {
        return ROSTER_REPLACE;
    }
    if (there_drains == wanted_drains) {
        return ROSTER_KEEP;
    }
    return wanted_drains ? ROSTER_DRAIN : ROSTER_UNDRAIN;
}

/* API keys */

/* What named a worker, where this node's configuration has it, too. */
static const struct config_worker *
source_of(const struct roster_apply *apply, const struct config_worker *worker)
{
    const struct config *config = apply->config;

    for (uint32_t i = 0; worker->from[0] != '\0' && i < config->workers_count;
         i++) {
        if (strcmp(config->workers[i].from, worker->from) == 0) {
            return &config->workers[i];
        }
    }
    return NULL;
}

static const struct config_worker *
configured(const struct roster_apply *apply, const char *id)
{
    for (uint32_t i = 0; i < apply->config->workers_count; i++) {
        if (strcmp(apply->config->workers[i].id, id) == 0) {
            return &apply->config->workers[i];
        }
    }
    return NULL;
}

/* What the configuration says of it; NULL: nothing that suits it. */
static const struct config_worker *
written_of(const struct roster_apply *apply, const struct config_worker *worker)
{
    const struct config_worker *written = source_of(apply, worker);

    if (written == NULL) {
        written = configured(apply, worker->id);
        if (written != NULL &&
            !roster_keys_suit(&written->url, &written->sse, worker)) {
            written = NULL;
        }
    }
    return written;
}

void
roster_apply_complete(const struct roster_apply *apply,
                      struct config_worker *worker)
{
    const struct config_worker *written = written_of(apply, worker);

    if (worker->api_key[0] != '\0' ||
        (worker->from[0] == '\0' && roster_keys_give(&apply->keys, worker))) {
        return;
    }
    if (written != NULL) {
        memcpy(worker->api_key, written->api_key, sizeof worker->api_key);
    }
}

/* Keeps a key that does not travel, unless the configuration says it: that may
 * say another one later. */
static void
keep_key(struct roster_apply *apply, const struct config_worker *worker)
{
    const struct config_worker *written = written_of(apply, worker);

    CHECK(worker->id[0] != '\0');
    if (worker->api_key[0] == '\0' ||
        (written != NULL && strcmp(written->api_key, worker->api_key) == 0)) {
        roster_keys_forget(&apply->keys, worker->id);
    } else if (!apply->secrets && !roster_keys_keep(&apply->keys, worker)) {
        LOG_WARNING(
            "worker_key_not_kept", KV("worker", worker->id),
            KV("keys_max", WORKERS_MAX),
            KV("hint",
               "it may be asked without its api_key: remove workers that "
               "are gone, then add it again"));
    }
}

void
roster_apply_use(struct roster_apply *apply, const struct config *config)
{
    CHECK(config != NULL);
    apply->config = config;
}

/* Steps */

static const char *
refusal(int outcome)
{
    CHECK(outcome != 0);
    switch (outcome) {
    case FLEET_E_FULL:
        return "no slot is free";
    case FLEET_E_DUPLICATE_URL:
        return "another worker has its url";
    case FLEET_E_DUPLICATE_ID:
        return "another worker has its id";
    case FLEET_E_DENIED:
        return "workers.deny denies its address";
    default:
        return "out of memory";
    }
}

/* The slot of the present worker of that url, if the id comes before its own;
 * or WORKER_NONE. */
static uint32_t
later_of_url(const struct roster_apply *apply,
             const struct config_worker *worker)
{
    struct fleet_status status;

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (fleet_status(apply->fleet, slot, &status) &&
            url_equal(&status.config->url, &worker->url)) {
            return strcmp(worker->id, status.config->id) < 0 ? slot
                                                             : WORKER_NONE;
        }
    }
    return WORKER_NONE;
}

/* The slot of the last worker by id where all slots are taken and the id comes
 * before its own; or WORKER_NONE. A slot that is being given back is not
 * taken. */
static uint32_t
last_of_all(const struct roster_apply *apply,
            const struct config_worker *worker)
{
    struct fleet_status status;
    uint32_t last = WORKER_NONE;
    char id[CONFIG_LABEL_MAX];

    memcpy(id, worker->id, sizeof id);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (!fleet_status(apply->fleet, slot, &status)) {
            return WORKER_NONE;
        }
        if (strcmp(id, status.config->id) < 0) {
            memcpy(id, status.config->id, sizeof id);
            last = slot;
        }
    }
    return last;
}

/* A worker that is there gives way to one that comes before it. */
static void
leave_out(struct roster_apply *apply, uint32_t slot, int outcome,
          uint64_t now_us)
{
    struct fleet_status status;

    CHECK(slot < WORKERS_MAX && outcome > 0);
    if (fleet_status(apply->fleet, slot, &status)) {
        LOG_WARNING(
            "roster_worker_left_out", KV("worker", status.worker->id),
            KV("reason", refusal(outcome)),
            KV("hint",
               "no request of this node goes there until that is mended"));
    }
    fleet_remove(apply->fleet, slot, now_us);
    apply->missing = true;
    apply->again_us = now_us + AGAIN_US;
}

/* Of two workers with one url, and of more than there are slots, the first by
 * id are taken, on all nodes. */
static int
add_first(struct roster_apply *apply, const struct config_worker *worker,
          uint64_t now_us, uint32_t *slot)
{
    int outcome = fleet_add(apply->fleet, worker, now_us, slot);
    uint32_t other = WORKER_NONE;

    if (outcome == FLEET_E_DUPLICATE_URL) {
        other = later_of_url(apply, worker);
    } else if (outcome == FLEET_E_FULL) {
        other = last_of_all(apply, worker);
    }
    if (other == WORKER_NONE) {
        return outcome;
    }
    leave_out(apply, other, outcome, now_us);
    return fleet_add(apply->fleet, worker, now_us, slot);
}

/* False: it was left out. */
static bool
add(struct roster_apply *apply, const struct config_worker *worker,
    bool draining, bool quiet, uint64_t now_us)
{
    uint32_t slot;
    char why[CONFIG_DENIED_MAX];
    int outcome = add_first(apply, worker, now_us, &slot);

    if (outcome == 0 && draining) {
        fleet_drain(apply->fleet, slot, now_us);
    }
    if (outcome != 0) {
        apply->missing = true;
        apply->again_us = now_us + AGAIN_US;
    }
    if (outcome != 0 && !quiet) {
        bool denied =
            config_access_denies(fleet_deny(apply->fleet), worker, why);
        LOG_WARNING(
            "roster_worker_left_out", KV("worker", worker->id),
            KV("reason", denied ? why : refusal(outcome)),
            KV("hint",
               "no request of this node goes there until that is mended"));
    }
    return outcome == 0;
}

static void
take(struct roster_apply *apply, enum roster_step step, uint32_t slot,
     uint64_t now_us)
{
    CHECK(step == ROSTER_KEEP || step == ROSTER_ADD || slot < WORKERS_MAX);
    switch (step) {
    case ROSTER_REPLACE:
    case ROSTER_REMOVE:
        fleet_remove(apply->fleet, slot, now_us);
        return;
    case ROSTER_DRAIN:
        fleet_drain(apply->fleet, slot, now_us);
        return;
    case ROSTER_UNDRAIN:
        fleet_undrain(apply->fleet, slot, now_us);
        return;
    case ROSTER_KEEP:
    case ROSTER_ADD:
        return;
    }
}

/* The worker that the entry describes, in *worker. False: it makes no sense
 * here. */
static bool
read_entry(const struct roster_apply *apply, const struct roster_entry *entry,
           bool quiet, struct config_worker *worker)
{
    struct config_errors errors;

    config_errors_init(&errors);
    bool good = roster_spec_get(entry->id, entry->spec, apply->secrets, worker,
                                &errors) == 0;
    if (good && worker->api_key[0] == '\0' &&
        !roster_keys_give(&apply->keys, worker)) {
        roster_apply_complete(apply, worker);
    } else if (!good && !quiet) {
        LOG_WARNING(
            "roster_worker_left_out", KV("worker", entry->id),
            KV("reason",
               slice_trim((struct slice){
                   .ptr = errors.text.ptr,
                   .len = errors.text.len != 0 ? errors.text.len - 1 : 0})),
            KV("hint",
               "no request of this node goes there until that is mended"));
    }
    config_errors_fini(&errors);
    return good;
}

/* Carries out an entry and returns what was done. quiet: no log lines for a
 * worker that stays left out. */
static enum roster_step
follow(struct roster_apply *apply, const struct roster_entry *entry, bool quiet,
       uint64_t now_us)
{
    struct config_worker worker;
    struct fleet_status status = {.draining = false};
    uint32_t slot = fleet_find(apply->fleet, slice_of(entry->id));
    const struct config_worker *there = NULL;

    if (!entry->removed && !read_entry(apply, entry, quiet, &worker)) {
        return ROSTER_KEEP;
    }
    if (slot != WORKER_NONE && fleet_status(apply->fleet, slot, &status)) {
        there = status.config;
    }
    enum roster_step step =
        roster_step(there, status.draining, entry->removed ? NULL : &worker,
                    entry->draining);
    take(apply, step, slot, now_us);
    if (there != NULL && step != ROSTER_REPLACE && step != ROSTER_REMOVE) {
        fleet_named(apply->fleet, slot, &worker);
    }
    if ((step == ROSTER_ADD || step == ROSTER_REPLACE) &&
        !add(apply, &worker, entry->draining, quiet, now_us)) {
        return step == ROSTER_ADD ? ROSTER_KEEP : ROSTER_REMOVE;
    }
    return step;
}

/* Adds to the fleet's own lines: which node said it, if it was another node. */
static void
log_step(const struct roster_entry *entry, enum roster_step step,
         const char *by)
{
    static const char *const names[] = {
        [ROSTER_ADD] = "added",      [ROSTER_REPLACE] = "replaced",
        [ROSTER_DRAIN] = "draining", [ROSTER_UNDRAIN] = "no longer draining",
        [ROSTER_REMOVE] = "removed",
    };

    if (step != ROSTER_KEEP && by != NULL) {
        LOG_INFO("roster_changed", KV("worker", entry->id),
                 KV("what", names[step]), KV("told_by", by));
    }
}

static void
log_configured(const struct roster_apply *apply,
               const struct roster_entry *entry)
{
    const struct config_worker *written = configured(apply, entry->id);
    struct config_worker worker;

    if (written == NULL) {
        return;
    }
    if (entry->removed) {
        LOG_WARNING("configured_worker_removed", KV("worker", entry->id),
                    KV("what", "in this node's configuration, but an operator "
                               "removed it"),
                    KV("hint", "a reload of this configuration puts it back"));
    } else if (read_entry(apply, entry, true, &worker) &&
               !same(written, &worker)) {
        LOG_WARNING(
            "configured_worker_differs", KV("worker", entry->id),
            KV("what", "an operator, or a configuration loaded later, "
                       "gave it another url or other keys"),
            KV("hint", "a reload of this configuration puts its own in force"));
    }
}

void
roster_apply_entry(struct roster_apply *apply, const struct roster_entry *entry,
                   const char *by, uint64_t now_us)
{
    enum roster_step step = follow(apply, entry, false, now_us);

    log_step(entry, step, by);
    log_configured(apply, entry);
    if (entry->removed) {
        roster_keys_forget(&apply->keys, entry->id);
    }
    if (step == ROSTER_REMOVE || step == ROSTER_REPLACE) {
        apply->again_us = now_us; /* its url or slot may serve another now */
    }
}

void
roster_apply_work(struct roster_apply *apply, uint64_t now_us)
{
    struct roster_entry entry;

    if (!apply->missing || now_us < apply->again_us) {
        return;
    }
    apply->missing = false;
    for (uint32_t i = 0; roster_get(apply->roster, i, &entry); i++) {
        if (fleet_find(apply->fleet, slice_of(entry.id)) == WORKER_NONE) {
            (void)follow(apply, &entry, true, now_us);
        }
    }
}

const char *
roster_apply_left_out(const struct roster_apply *apply,
                      const struct roster_entry *entry)
{
    struct config_worker worker;
    struct fleet_status status;
    char why[CONFIG_DENIED_MAX];

    if (entry->removed ||
        fleet_find(apply->fleet, slice_of(entry->id)) != WORKER_NONE) {
        return NULL;
    }
    if (!read_entry(apply, entry, true, &worker)) {
        return "it makes no sense to this node";
    }
    if (config_access_denies(fleet_deny(apply->fleet), &worker, why)) {
        return refusal(FLEET_E_DENIED);
    }
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (fleet_status(apply->fleet, slot, &status) &&
            url_equal(&status.config->url, &worker.url)) {
            return refusal(FLEET_E_DUPLICATE_URL);
        }
    }
    return refusal(FLEET_E_FULL);
}

/* Operations */

static int
say(struct roster_apply *apply, const struct config_worker *worker,
    int (*how)(struct roster *roster, const char *id, struct slice spec,
               uint64_t now_us),
    uint64_t now_us)
{
    struct buf spec;
    int outcome = -ENOMEM;

    CHECK(worker->id[0] != '\0');
    buf_init(&spec, ROSTER_SPEC_MAX);
    roster_spec_put(worker, apply->secrets, &spec);
    if (!spec.failed) {
        outcome = how(apply->roster, worker->id, buf_slice(&spec), now_us);
    }
    buf_fini(&spec);
    return outcome;
}

int
roster_apply_configure(struct roster_apply *apply, uint64_t now_us)
{
    for (uint32_t i = 0; i < apply->config->workers_count; i++) {
        const struct config_worker *worker = &apply->config->workers[i];
        struct roster_entry entry;
        if (worker->from[0] != '\0') {
            continue; /* it names workers later */
        }
        int outcome = say(apply, worker, roster_configure, now_us);
        if (outcome != 0) {
            return outcome;
        }
        /* A snapshot may have known better, and the roster has that already. */
        if (roster_find(apply->roster, worker->id, &entry)) {
            roster_apply_entry(apply, &entry, NULL, now_us);
        }
    }
    return 0;
}

int
roster_apply_put(struct roster_apply *apply, const struct config_worker *worker,
                 bool renews, uint64_t now_us)
{
    int outcome =
        say(apply, worker, renews ? roster_renew : roster_put, now_us);

    if (outcome == 0) {
        keep_key(apply, worker);
    }
    return outcome;
}

/* The beginning and the end */

int
roster_apply_new(struct roster_apply **out, struct fleet *fleet,
                 struct roster *roster, const struct config *config,
                 bool secrets)
{
    struct roster_apply *apply = calloc(1, sizeof *apply);

    CHECK(fleet != NULL && roster != NULL && config != NULL);
    *out = NULL;
    if (apply == NULL) {
        return -ENOMEM;
    }
    apply->fleet = fleet;
    apply->roster = roster;
    apply->config = config;
    apply->secrets = secrets;
    *out = apply;
    return 0;
}

void
roster_apply_free(struct roster_apply *apply)
{
    free(apply);
}
