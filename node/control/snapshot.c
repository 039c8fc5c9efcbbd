/* The life of snapshots: when one is taken, in which turns, who waits for it.
 * */
#include "node/control/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "node/base/log.h"
#include "node/control/snapshot_internal.h"
#include "node/fleet/probe.h"
#include "node/ingest/snapshot_state.h"

#define LOOK_MS           1000U /* to see what changed */
#define TURN_MS           1U    /* between two turns of a cut */
#define FINISH_US         (UINT64_C(30) * 1000000)
#define FINISH_TURN_BYTES ((size_t)4 << 20) /* no other work waits any more */

uint64_t
snapshot_wall_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Of this thread. */
static uint64_t
cpu_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* The directory */

static const char *
reason_of(enum storage_outcome outcome)
{
    return outcome == STORAGE_E_BUSY ? "another process has this directory"
           : outcome == STORAGE_E_MISSING
               ? "the directory to make it in does not exist"
               : storage_outcome_name(outcome);
}

static int
refuse(const struct config *config, enum storage_outcome outcome)
{
    LOG_ERROR("data_refused", KV("dir", config->data.dir),
              KV("reason", reason_of(outcome)),
              KV("hint", outcome == STORAGE_E_MEMORY
                             ? "give the node more memory, or lower limits.*"
                             : "data.dir is for one node alone, on a disk that "
                               "it may write"));
    return outcome == STORAGE_E_BUSY     ? -EBUSY
           : outcome == STORAGE_E_DENIED ? -EACCES
           : outcome == STORAGE_E_MEMORY ? -ENOMEM
                                         : -EIO;
}

/* One line for what cannot be started from. */
static void
say_found(struct snapshot *snapshot)
{
    const struct storage_find *found = &snapshot->found;

    snapshot->loaded.refused = found->refusals;
    if (found->refusals > 0) {
        LOG_WARNING(
            "snapshot_refused", KV("file", found->refused.file),
            KV("outcome", storage_outcome_name(found->refused.outcome)),
            KV("reason", found->refused.reason), KV("files", found->refusals),
            KV("start", found->found ? "from an older one" : "cold"),
            KV("hint", "the file stays, for a look: kvasir snapshot info DIR"));
    }
    if (!found->found) {
        snapshot->loaded.reason =
            found->refusals > 0 ? "none that could be used" : "there was none";
    }
}

/* Files are opened by another process from now on. */
static enum storage_outcome
have_keeper(struct snapshot *snapshot)
{
    const struct config_data *data = &snapshot->config->data;
    struct storage_io *local = snapshot->io;

    snapshot->io = NULL;
    return storage_keeper_new(&snapshot->io, local, data->dir, data->bytes_max);
}

static int
find(struct snapshot *snapshot)
{
    const struct config *config = snapshot->config;
    uint64_t begun_us = probe_now_us();
    enum storage_outcome rc = storage_lmdb_new(
        &snapshot->io, config->data.dir, STORAGE_WRITE, config->data.bytes_max);

    if (rc == STORAGE_E_FULL) { /* tried again, in a while */
        LOG_WARNING("data_full", KV("dir", config->data.dir),
                    KV("hint", "there is no room to take the directory: no "
                               "snapshots until there is"));
        snapshot->loaded.reason = "the disk is full";
        return 0;
    }
    if (rc == STORAGE_OK) {
        rc = storage_find(snapshot->io, config->mesh.cluster, &snapshot->limits,
                          STORAGE_VERIFY_S, &snapshot->found);
    }
    if (rc == STORAGE_OK) {
        rc = have_keeper(snapshot);
    }
    if (rc != STORAGE_OK) {
        return refuse(config, rc);
    }
    say_found(snapshot);
    snapshot->loaded.find_us = probe_now_us() - begun_us;
    return 0;
}

int
snapshot_open(struct snapshot **out, const struct config *config)
{
    *out = NULL;
    if (config->data.dir[0] == '\0') {
        return 0;
    }
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (snapshot == NULL) {
        return refuse(config, STORAGE_E_MEMORY);
    }
    snapshot->config = config;
    snapshot->loaded.reason = "";
    snapshot->limits = storage_limits_default();
    snapshot->limits.bytes_max = config->data.bytes_max;
    snapshot->limits.aside_max = config->data.aside_max;
    int error = find(snapshot);
    if (error < 0) {
        snapshot_free(snapshot);
        return error;
    }
    *out = snapshot;
    return 0;
}

/* Turns */

static void
say_taken(const struct snapshot *snapshot)
{
    const struct storage_take_status *s = &snapshot->take.status;

    LOG_INFO("snapshot_taken", KV("number", s->saved.number),
             KV("bytes", s->saved.size), KV("written", s->saved.written),
             KV("file_bytes", s->saved.file_size),
             KV("duration_us", s->duration_us));
}

static void ON_CONTROL
say_failed(const struct snapshot *snapshot)
{
    const struct storage_take *take = &snapshot->take;
    uint64_t now_us = probe_now_us();

    LOG_WARNING("snapshot_failed", KV("dir", snapshot->config->data.dir),
                KV("outcome", storage_outcome_name(take->status.outcome)),
                KV("retry_ms",
                   take->due_us > now_us ? (take->due_us - now_us) / 1000 : 0),
                KV("hint", "the one before it stays: look at the disk of "
                           "data.dir, and at data.bytes_max"));
}

/* Answers the callers that asked before the finished attempt began. */
static void ON_CONTROL
answer_waiters(struct snapshot *snapshot)
{
    uint64_t over = snapshot->take.status.taken + snapshot->take.status.failed;
    uint32_t left = 0;
    uint32_t count = snapshot->waiters_count;
    struct snapshot_waiter waiters[SNAPSHOT_WAITERS_MAX];

    memcpy(waiters, snapshot->waiters, sizeof waiters);
    for (uint32_t i = 0; i < count; i++) {
        if (waiters[i].attempts > over) {
            snapshot->waiters[left++] = waiters[i];
        }
    }
    snapshot->waiters_count = left;
    for (uint32_t i = 0; i < count; i++) {
        if (waiters[i].attempts <= over) {
            waiters[i].done(waiters[i].context);
        }
    }
}

static void ON_CONTROL
tell(struct snapshot *snapshot)
{
    const struct storage_take_status *s = &snapshot->take.status;

    if (s->taken != snapshot->told_taken) {
        snapshot->told_taken = s->taken;
        say_taken(snapshot);
    } else if (s->failed != snapshot->told_failed) {
        snapshot->told_failed = s->failed;
        say_failed(snapshot);
    } else {
        return;
    }
    snapshot->longest_us = snapshot->turn_us;
    snapshot->turn_us = 0;
    answer_waiters(snapshot);
}

static void on_timer(uv_timer_t *timer);

static void ON_CONTROL
again_in(struct snapshot *snapshot, uint64_t ms)
{
    (void)uv_timer_start(&snapshot->timer, on_timer, ms, 0);
}

static uint64_t
until_due_ms(const struct snapshot *snapshot)
{
    uint64_t now_us = probe_now_us();
    uint64_t due_us = storage_take_deadline(&snapshot->take);
    uint64_t wait_ms = due_us > now_us ? (due_us - now_us) / 1000 + 1 : 0;
    uint64_t changed_us = snapshot->take.changed_due_us;

    if (changed_us > now_us && (changed_us - now_us) / 1000 + 1 < wait_ms) {
        wait_ms = (changed_us - now_us) / 1000 + 1;
    }
    return wait_ms < LOOK_MS ? wait_ms : LOOK_MS;
}

/* The disk */

static struct storage_take_config
take_config(const struct config_data *data)
{
    struct storage_take_config config = storage_take_config_default();

    config.interval_us = (uint64_t)data->interval_ms * 1000;
    config.changed_us = (uint64_t)data->changed_ms * 1000;
    config.changed_permille = data->changed_permille;
    return config;
}

/* On the disk's thread, or the ledger's. */
static void
wake_up(void *context)
{
    struct snapshot *snapshot = context;

    (void)uv_async_send(&snapshot->wake);
}

/* Continues with a requested snapshot, or after a failed one. */
static int ON_CONTROL
open_disk(struct snapshot *snapshot)
{
    struct storage_take_config config = take_config(&snapshot->config->data);
    struct storage_take before = snapshot->take;
    struct storage_save *save = storage_save_new(
        snapshot->io, &snapshot->limits, snapshot->found.generation);

    if (save == NULL) {
        return -ENOMEM;
    }
    int error = storage_disk_new(
        &snapshot->disk, save, snapshot->limits.queue_bytes, wake_up, snapshot);
    if (error < 0) {
        return error;
    }
    storage_take_init(&snapshot->take, &config, snapshot->cut, snapshot->disk,
                      probe_now_us());
    storage_take_with(&snapshot->take, snapshot->twin);
    snapshot->take.asked = before.asked;
    snapshot->take.status = before.status;
    return 0;
}

static void ON_CONTROL
note_no_disk(struct snapshot *snapshot, enum storage_outcome outcome)
{
    struct storage_take *take = &snapshot->take;
    uint64_t retry_us = storage_take_config_default().retry_us;

    take->asked = false;
    take->due_us = probe_now_us() + retry_us;
    take->changed_due_us = take->due_us;
    take->status.failed++;
    take->status.outcome = outcome;
}

/* The directory that could not be opened at the start; its contents belong to
 * an earlier life, from which this process did not continue. */
static bool ON_CONTROL
have_disk(struct snapshot *snapshot)
{
    const struct config_data *data = &snapshot->config->data;
    bool due = snapshot->take.asked || probe_now_us() >= snapshot->take.due_us;

    if (snapshot->disk != NULL || !due) {
        return snapshot->disk != NULL;
    }
    enum storage_outcome rc = storage_lmdb_new(&snapshot->io, data->dir,
                                               STORAGE_WRITE, data->bytes_max);
    if (rc == STORAGE_OK) {
        rc = storage_next_generation(snapshot->io, &snapshot->found.generation);
    }
    if (rc == STORAGE_OK) {
        rc = have_keeper(snapshot);
    }
    if (rc == STORAGE_OK && open_disk(snapshot) < 0) {
        rc = STORAGE_E_MEMORY;
    }
    if (rc != STORAGE_OK) {
        storage_io_free(snapshot->io);
        snapshot->io = NULL;
        note_no_disk(snapshot, rc);
    }
    return rc == STORAGE_OK;
}

/* How long control was busy with it. */
static void ON_CONTROL
note_turn(struct snapshot *snapshot, uint64_t begun_us)
{
    uint64_t took_us = cpu_us() - begun_us;

    snapshot->turn_us =
        took_us > snapshot->turn_us ? took_us : snapshot->turn_us;
}

static void ON_CONTROL
turn(struct snapshot *snapshot)
{
    uint64_t begun_us = cpu_us();
    enum storage_take_step step =
        have_disk(snapshot) ? storage_take_tick(&snapshot->take, probe_now_us())
                            : STORAGE_TAKE_IDLE;
    bool told = step == STORAGE_TAKE_FACTS && snapshot_tell_facts(snapshot);

    note_turn(snapshot, begun_us);
    tell(snapshot);
    switch (step) {
    case STORAGE_TAKE_FACTS:
        again_in(snapshot, told ? TURN_MS : LOOK_MS);
        return;
    case STORAGE_TAKE_BUSY:
        again_in(snapshot, TURN_MS);
        return;
    case STORAGE_TAKE_WAITS:
        again_in(snapshot, LOOK_MS); /* the disk wakes us before */
        return;
    case STORAGE_TAKE_IDLE:
        again_in(snapshot, until_due_ms(snapshot));
        return;
    }
}

static void
on_timer(uv_timer_t *timer)
{
    role_is_control();
    turn(timer->data);
}

static void
on_wake(uv_async_t *wake)
{
    role_is_control();
    turn(wake->data);
}

void
snapshot_told(struct snapshot *snapshot, uint64_t number)
{
    if (snapshot != NULL && snapshot->started) {
        storage_take_told(&snapshot->take, number);
        again_in(snapshot, 0);
    }
}

/* The beginning */

static int ON_CONTROL
open_cuts(struct snapshot *snapshot)
{
    const struct snapshot_parts *parts = &snapshot->parts;
    struct storage_source source = {.mirror = parts->node->mirror,
                                    .radix = parts->node->belief};

    if (parts->meshed) { /* others may want them; alone, the ledger has them */
        source.names = snapshot_names(cluster_gossip(parts->cluster));
    }
    snapshot->cut = storage_cut_new(&source);
    if (snapshot->cut == NULL) {
        return -ENOMEM;
    }
    return intake_twin(ingest_own_intake(parts->ingest), &snapshot->twin,
                       wake_up, snapshot);
}

int
snapshot_start(struct snapshot *snapshot, const struct snapshot_parts *parts)
{
    if (snapshot == NULL) {
        return 0;
    }
    snapshot->parts = *parts;
    CHECK(uv_timer_init(parts->loop, &snapshot->timer) == 0);
    CHECK(uv_async_init(parts->loop, &snapshot->wake, on_wake) == 0);
    snapshot->timer.data = snapshot;
    snapshot->wake.data = snapshot;
    snapshot->started = true;
    snapshot_load(snapshot);
    int error = open_cuts(snapshot);
    if (error == 0 && snapshot->io != NULL) {
        error = open_disk(snapshot);
    }
    if (error < 0) {
        LOG_ERROR(
            "snapshots_failed", KV_FAULT("error", error),
            KV("hint", "the node does not start: without data.dir it would"));
        return error;
    }
    if (snapshot->io == NULL) {
        note_no_disk(snapshot, STORAGE_E_FULL);
    }
    again_in(snapshot, until_due_ms(snapshot));
    return 0;
}

/* Requests */

bool
snapshot_ask(struct snapshot *snapshot, void (*done)(void *context),
             void *context)
{
    const struct storage_take_status *s = &snapshot->take.status;

    if (snapshot->waiters_count == SNAPSHOT_WAITERS_MAX) {
        return false;
    }
    snapshot->waiters[snapshot->waiters_count++] = (struct snapshot_waiter){
        .done = done,
        .context = context,
        .attempts = s->taken + s->failed + (s->running ? 2 : 1)};
    storage_take_ask(&snapshot->take);
    again_in(snapshot, 0);
    return true;
}

void
snapshot_forget(struct snapshot *snapshot, const void *context)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < snapshot->waiters_count; i++) {
        if (snapshot->waiters[i].context != context) {
            snapshot->waiters[left++] = snapshot->waiters[i];
        }
    }
    snapshot->waiters_count = left;
}

void
snapshot_status(const struct snapshot *snapshot, struct snapshot_status *status)
{
    const struct snapshot_loaded *loaded = &snapshot->loaded;
    uint64_t wall_ms = snapshot_wall_ms();

    *status = (struct snapshot_status){.dir = snapshot->config->data.dir,
                                       .take = snapshot->take.status,
                                       .turn_us = snapshot->longest_us,
                                       .loaded = *loaded};
    if (status->take.taken > 0) {
        status->any = true;
        status->age_ms = (probe_now_us() - status->take.last_us) / 1000;
    } else if (snapshot->found.found) {
        status->any = true;
        status->age_ms = wall_ms > loaded->from.taken_ms
                             ? wall_ms - loaded->from.taken_ms
                             : 0;
    }
}

/* The end */

bool
snapshot_finish(struct snapshot *snapshot)
{
    if (snapshot == NULL || !snapshot->started || snapshot->disk == NULL) {
        return true;
    }
    if (snapshot->finish_us == 0) {
        snapshot->finish_us = probe_now_us() + FINISH_US;
        snapshot->take.config.turn_bytes = FINISH_TURN_BYTES;
        storage_take_ask(&snapshot->take);
        again_in(snapshot, 0);
    }
    bool over = !snapshot->take.asked && !snapshot->take.status.running;
    if (!over && probe_now_us() >= snapshot->finish_us) {
        LOG_WARNING("snapshot_late", KV("waited_us", FINISH_US),
                    KV("hint", "nothing is to be done: the next start reads "
                               "what came since from peers and engines"));
        over = true;
    }
    return over;
}

void
snapshot_stop(struct snapshot *snapshot)
{
    if (snapshot == NULL || !snapshot->started) {
        return;
    }
    if (snapshot->disk != NULL) {
        storage_take_stop(&snapshot->take);
    }
    storage_disk_free(snapshot->disk); /* no wake-up follows */
    snapshot->disk = NULL;
    snapshot->started = false;
    uv_close((uv_handle_t *)&snapshot->timer, NULL);
    uv_close((uv_handle_t *)&snapshot->wake, NULL);
}

void
snapshot_free(struct snapshot *snapshot)
{
    if (snapshot != NULL) {
        storage_cut_free(snapshot->cut);
        storage_io_free(snapshot->io);
        free(snapshot);
    }
}
