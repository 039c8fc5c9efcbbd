/*
 * The ledger's half of a snapshot, between its own thread and control.
 */
#include "storage/twin.h"

#include <pthread.h>
#include <stdlib.h>

struct storage_twin {
    struct storage_twin_calls calls;
    pthread_mutex_t mutex;     /* guards the next ones */
    struct storage_disk *disk; /* NULL: no snapshot is wanted */
    uint64_t number;           /* of the last one that was */
    uint64_t committed;        /* ... and of the last one that went well */
    bool whole;
    bool end;
    bool gone;
    enum storage_twin_state state;

    /* The ledger's thread's. */
    struct storage_cut *cut;
    uint64_t run; /* the number that the cut is of; 0: it is at rest */
    bool ended;
};

struct storage_twin *
storage_twin_new(struct ledger *ledger, const struct storage_twin_calls *calls)
{
    struct storage_source source = {.ledger = ledger};
    struct storage_twin *twin = calloc(1, sizeof(*twin));

    CHECK(ledger != NULL);
    if (twin == NULL) {
        return NULL;
    }
    twin->calls = *calls;
    twin->cut = storage_cut_new(&source);
    if (twin->cut == NULL) {
        free(twin);
        return NULL;
    }
    (void)pthread_mutex_init(&twin->mutex, NULL);
    return twin;
}

void
storage_twin_free(struct storage_twin *twin)
{
    if (twin != NULL) {
        storage_cut_free(twin->cut);
        (void)pthread_mutex_destroy(&twin->mutex);
        free(twin);
    }
}

static void
lock(struct storage_twin *twin)
{
    (void)pthread_mutex_lock(&twin->mutex);
}

static void
unlock(struct storage_twin *twin)
{
    (void)pthread_mutex_unlock(&twin->mutex);
}

/* ---- control ---- */

uint64_t
storage_twin_begin(struct storage_twin *twin, struct storage_disk *disk,
                   bool whole)
{
    CHECK(disk != NULL);
    lock(twin);
    CHECK(twin->disk == NULL);
    uint64_t number = ++twin->number;
    twin->disk = disk;
    twin->whole = whole;
    twin->end = false;
    twin->state = twin->gone ? STORAGE_TWIN_GONE : STORAGE_TWIN_WALKS;
    twin->calls.wake_ledger(twin->calls.ledger_context);
    unlock(twin);
    return number;
}

enum storage_twin_state
storage_twin_state(struct storage_twin *twin)
{
    lock(twin);
    enum storage_twin_state state = twin->state;
    unlock(twin);
    return state;
}

void
storage_twin_end(struct storage_twin *twin)
{
    lock(twin);
    CHECK(twin->disk != NULL);
    if (twin->state == STORAGE_TWIN_WALKED) {
        twin->state = STORAGE_TWIN_ENDS;
        twin->end = true;
        twin->calls.wake_ledger(twin->calls.ledger_context);
    }
    unlock(twin);
}

void
storage_twin_settle(struct storage_twin *twin, bool committed)
{
    lock(twin);
    if (twin->disk != NULL) {
        CHECK(!committed || twin->state == STORAGE_TWIN_DONE ||
              twin->state == STORAGE_TWIN_GONE);
        twin->disk = NULL;
        twin->committed = committed ? twin->number : twin->committed;
        twin->calls.wake_ledger(twin->calls.ledger_context);
    }
    unlock(twin);
}

/* ---- the ledger's thread ---- */

/* What control wants, as of now. */
struct wish {
    uint64_t number; /* 0: no snapshot */
    uint64_t committed;
    bool whole;
    bool end;
};

static struct wish
look(struct storage_twin *twin)
{
    lock(twin);
    struct wish wish = {.number = twin->disk != NULL ? twin->number : 0,
                        .committed = twin->committed,
                        .whole = twin->whole,
                        .end = twin->end};
    unlock(twin);
    return wish;
}

/* About the running snapshot; once control has ended it, the answer is not
 * needed. */
static void
tell(struct storage_twin *twin, enum storage_twin_state state)
{
    CHECK(twin->run != 0);
    lock(twin);
    bool heard = twin->disk != NULL && twin->number == twin->run;
    /* A request that came meanwhile stands. */
    if (heard && !(state == STORAGE_TWIN_WALKED && twin->end)) {
        if (twin->state != state) {
            twin->state = state;
            twin->calls.wake_control(twin->calls.control_context);
        }
    }
    unlock(twin);
}

/* False: the snapshot is not wanted any more. */
static bool
hand(struct storage_twin *twin, const struct storage_part *part)
{
    CHECK(twin->run != 0);
    lock(twin);
    bool wanted = twin->disk != NULL && twin->number == twin->run;
    if (wanted) {
        storage_disk_part(twin->disk, part);
    } else {
        free(part->bytes);
    }
    unlock(twin);
    return wanted;
}

static bool
has_room(struct storage_twin *twin)
{
    lock(twin);
    bool room = twin->disk == NULL || storage_disk_room(twin->disk);
    unlock(twin);
    return room;
}

static void
stop_run(struct storage_twin *twin, bool committed)
{
    CHECK(twin->run != 0);
    storage_cut_done(twin->cut, committed);
    twin->run = 0;
}

static enum storage_twin_step
end_cut(struct storage_twin *twin, uint64_t *number)
{
    CHECK(!twin->ended);
    storage_cut_end(twin->cut, NULL, NULL);
    twin->ended = true;
    *number = twin->run;
    return STORAGE_TWIN_ENDED;
}

static enum storage_twin_step
walk(struct storage_twin *twin, size_t bytes)
{
    CHECK(twin->run != 0 && bytes > 0);
    for (size_t handed = 0; handed < bytes;) {
        struct storage_part part;
        if (!has_room(twin)) {
            return STORAGE_TWIN_WAITS;
        }
        switch (storage_cut_next(twin->cut, &part)) {
        case STORAGE_STEP_PART:
            handed += part.len;
            if (!hand(twin, &part)) {
                return STORAGE_TWIN_BUSY;
            }
            break;
        case STORAGE_STEP_MORE:
            handed += STORAGE_PIECE_BYTES;
            break;
        case STORAGE_STEP_WALKED:
            tell(twin, STORAGE_TWIN_WALKED);
            return STORAGE_TWIN_NOTHING;
        case STORAGE_STEP_DONE:
            tell(twin, STORAGE_TWIN_DONE);
            return STORAGE_TWIN_NOTHING;
        case STORAGE_STEP_FAILED:
        default:
            tell(twin, STORAGE_TWIN_FAILED);
            return STORAGE_TWIN_NOTHING;
        }
    }
    return STORAGE_TWIN_BUSY;
}

/* At rest, or over. */
static bool
is_idle(const struct storage_twin *twin)
{
    return twin->run == 0 || !storage_cut_runs(twin->cut);
}

enum storage_twin_step
storage_twin_turn(struct storage_twin *twin, size_t bytes, uint64_t *number)
{
    struct wish wish = look(twin);

    if (twin->run != 0 && twin->run != wish.number) {
        stop_run(twin, wish.committed == twin->run);
    }
    if (twin->run == 0 && wish.number != 0) {
        twin->run = wish.number;
        twin->ended = false;
        storage_cut_begin(twin->cut, wish.whole);
    }
    if (is_idle(twin)) {
        return STORAGE_TWIN_NOTHING;
    }
    if (wish.end && !twin->ended) {
        return end_cut(twin, number);
    }
    return walk(twin, bytes);
}

void
storage_twin_leave(struct storage_twin *twin)
{
    CHECK(!twin->gone);
    lock(twin);
    twin->gone = true;
    if (twin->disk != NULL) {
        twin->state = STORAGE_TWIN_GONE;
        twin->calls.wake_control(twin->calls.control_context);
    }
    unlock(twin);
}
