/*
 * When a snapshot is due, and the turns in which one is taken.
 */
#include "storage/take.h"

#define SECOND_US UINT64_C(1000000)

struct storage_take_config
storage_take_config_default(void)
{
    return (struct storage_take_config){
        .interval_us = 60 * SECOND_US,
        .changed_us = 5 * SECOND_US,
        .changed_permille = 250,
        .retry_us = 10 * SECOND_US,
        .retry_max_us = 600 * SECOND_US,
        .turn_bytes = STORAGE_PIECE_BYTES,
    };
}

void
storage_take_init(struct storage_take *take,
                  const struct storage_take_config *config,
                  struct storage_cut *cut, struct storage_disk *disk,
                  uint64_t now_us)
{
    CHECK(cut != NULL && disk != NULL);
    *take = (struct storage_take){.config = *config,
                                  .cut = cut,
                                  .disk = disk,
                                  .due_us = now_us + config->interval_us,
                                  .changed_due_us = now_us + config->changed_us,
                                  .whole = true};
}

void
storage_take_with(struct storage_take *take, struct storage_twin *twin)
{
    CHECK(!take->walking && !take->waiting);
    CHECK(twin != NULL);
    take->twin = twin;
}

void
storage_take_told(struct storage_take *take, uint64_t number)
{
    take->told = take->told || (take->walking && number == take->number);
}

void
storage_take_ask(struct storage_take *take)
{
    take->asked = true;
}

uint64_t
storage_take_deadline(const struct storage_take *take)
{
    return take->asked ? 0 : take->due_us;
}

static bool
is_due(const struct storage_take *take, uint64_t now_us)
{
    uint32_t parts;

    CHECK(!take->walking && !take->waiting);
    if (take->asked || now_us >= take->due_us) {
        return true;
    }
    if (take->failures > 0 || now_us < take->changed_due_us) {
        return false;
    }
    uint64_t changed = storage_cut_changed(take->cut, &parts);
    return changed * 1000 >= (uint64_t)parts * take->config.changed_permille;
}

static void
begin(struct storage_take *take, uint64_t now_us)
{
    CHECK(!take->walking && !take->waiting);
    take->asked = false;
    take->begun_us = now_us;
    take->cut_outcome = STORAGE_OK;
    take->walking = true;
    take->status.running = true;
    storage_disk_begin(take->disk);
    storage_cut_begin(take->cut, take->whole);
    take->told = false;
    if (take->twin != NULL) {
        take->number = storage_twin_begin(take->twin, take->disk, take->whole);
    }
}

static uint64_t
retry_us(const struct storage_take *take)
{
    uint64_t wait = take->config.retry_us;

    CHECK(take->failures > 0);
    for (uint32_t i = 1; i < take->failures && wait < take->config.retry_max_us;
         i++) {
        wait *= 2;
    }
    return wait < take->config.retry_max_us ? wait : take->config.retry_max_us;
}

/* Takes in the disk's result. */
static void
settle(struct storage_take *take, const struct storage_result *result,
       uint64_t now_us)
{
    enum storage_outcome outcome =
        take->cut_outcome != STORAGE_OK ? take->cut_outcome : result->outcome;
    bool good = outcome == STORAGE_OK;

    CHECK(take->waiting && !take->walking);
    storage_cut_done(take->cut, good);
    if (take->twin != NULL) {
        storage_twin_settle(take->twin, good);
    }
    take->waiting = false;
    take->whole = result->whole;
    take->failures = good ? 0 : take->failures + 1;
    take->due_us = now_us + (good ? take->config.interval_us : retry_us(take));
    take->changed_due_us = now_us + take->config.changed_us;
    take->status.running = false;
    take->status.outcome = outcome;
    take->status.saved = result->saved;
    take->status.taken += good;
    take->status.failed += !good;
    if (good) {
        take->status.last_us = take->begun_us;
        take->status.duration_us = now_us - take->begun_us;
    }
}

static enum storage_take_step
end_cut(struct storage_take *take)
{
    CHECK(take->walking && !take->waiting);
    take->walking = false;
    take->waiting = true;
    return STORAGE_TAKE_WAITS;
}

static enum storage_take_step
fail_cut(struct storage_take *take)
{
    CHECK(take->walking);
    if (take->twin != NULL) {
        storage_twin_settle(take->twin, false);
    }
    storage_cut_cancel(take->cut);
    take->cut_outcome = STORAGE_E_LIMIT;
    storage_disk_abort(take->disk);
    return end_cut(take);
}

/* The mirror is walked: checks whether the ledger is, too, and whether
 * everything it sent is applied. */
static enum storage_take_step
meet_twin(struct storage_take *take)
{
    CHECK(take->twin != NULL);
    switch (storage_twin_state(take->twin)) {
    case STORAGE_TWIN_WALKED:
        storage_twin_end(take->twin);
        break;
    case STORAGE_TWIN_ENDS:
    case STORAGE_TWIN_DONE:
        return take->told ? STORAGE_TAKE_FACTS : STORAGE_TAKE_WAITS;
    case STORAGE_TWIN_GONE:
        return STORAGE_TAKE_FACTS;
    case STORAGE_TWIN_WALKS:
    case STORAGE_TWIN_FAILED:
        break;
    }
    return STORAGE_TAKE_WAITS;
}

/* The mirror's parts are with the disk: are the ledger's? */
static enum storage_take_step
commit(struct storage_take *take)
{
    enum storage_twin_state state =
        take->twin == NULL ? STORAGE_TWIN_GONE : storage_twin_state(take->twin);

    CHECK(take->walking);
    if (state == STORAGE_TWIN_GONE && take->told) {
        return fail_cut(take); /* in the midst of its parts */
    }
    if (state != STORAGE_TWIN_DONE && state != STORAGE_TWIN_GONE) {
        return STORAGE_TAKE_WAITS;
    }
    storage_disk_commit(take->disk, &take->about);
    return end_cut(take);
}

static enum storage_take_step
walk(struct storage_take *take)
{
    size_t handed = 0;

    CHECK(take->walking && !take->waiting);
    if (take->twin != NULL &&
        storage_twin_state(take->twin) == STORAGE_TWIN_FAILED) {
        return fail_cut(take);
    }
    while (handed < take->config.turn_bytes) {
        struct storage_part part;
        if (!storage_disk_room(take->disk)) {
            return STORAGE_TAKE_WAITS;
        }
        switch (storage_cut_next(take->cut, &part)) {
        case STORAGE_STEP_PART:
            handed += part.len;
            storage_disk_part(take->disk, &part);
            break;
        case STORAGE_STEP_MORE:
            handed += STORAGE_PIECE_BYTES;
            break;
        case STORAGE_STEP_WALKED:
            return take->twin == NULL ? STORAGE_TAKE_FACTS : meet_twin(take);
        case STORAGE_STEP_DONE:
            return commit(take);
        case STORAGE_STEP_FAILED:
        default:
            return fail_cut(take);
        }
    }
    return STORAGE_TAKE_BUSY;
}

void
storage_take_stop(struct storage_take *take)
{
    if (take->twin != NULL) {
        storage_twin_settle(take->twin, false);
    }
    if (take->walking) {
        storage_disk_abort(take->disk);
        storage_cut_cancel(take->cut); /* what it watches may go now */
    }
    take->walking = false;
}

enum storage_take_step
storage_take_tick(struct storage_take *take, uint64_t now_us)
{
    struct storage_result result;

    CHECK(!take->walking || !take->waiting);
    if (take->waiting) {
        if (!storage_disk_result(take->disk, &result)) {
            return STORAGE_TAKE_WAITS;
        }
        settle(take, &result, now_us);
    }
    if (!take->walking && is_due(take, now_us)) {
        begin(take, now_us);
    }
    return take->walking ? walk(take) : STORAGE_TAKE_IDLE;
}

void
storage_take_facts(struct storage_take *take, const struct storage_facts *facts,
                   const struct storage_about *about)
{
    CHECK(take->walking);
    CHECK(facts != NULL && about != NULL);
    take->about = *about;
    storage_cut_end(take->cut, facts, &take->about);
}
