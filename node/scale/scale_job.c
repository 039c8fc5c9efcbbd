/* One engine that was asked for: what comes next. */
#include "node/scale/scale_job.h"

#include <inttypes.h>
#include <string.h>

#include "index/base/mutant.h"

static const char *const state_names[SCALE_STATES] = {
    [SCALE_ASKED] = "asked",   [SCALE_COMES] = "comes", [SCALE_WORKS] = "works",
    [SCALE_DRAINS] = "drains", [SCALE_ENDS] = "ends",
};

const char *
scale_state_name(enum scale_state state)
{
    CHECK(state < SCALE_STATES);
    return state_names[state];
}

static bool
is_late(const struct scale_job *job, uint32_t after_ms, uint64_t now_us)
{
    return now_us - job->since_us >= after_ms * UINT64_C(1000);
}

/* A call is due, and what it is about is kept. */
static bool
may_call(const struct scale_job *job, const struct scale_facts *facts,
         uint64_t now_us)
{
    return !job->calling && now_us >= job->due_us &&
           (facts->kept || MUTANT(NOT_KEPT));
}

/* No node sends a request there any more. A worker that is not on this node's
 * list may be on another one's. */
static bool
is_left_alone(const struct scale_facts *facts)
{
    return (!facts->there || facts->drains) &&
           (facts->all_know || MUTANT(NOT_SEEN));
}

/* All nodes know that it drains, and nothing was in flight since, for a
 * while. */
static bool
is_empty(struct scale_job *job, const struct scale_facts *facts,
         uint64_t now_us)
{
    if (!facts->idle || !is_left_alone(facts)) {
        job->idle_us = 0;
    } else if (job->idle_us == 0) {
        job->idle_us = now_us;
    }
    return job->idle_us != 0 && now_us - job->idle_us >= SCALE_IDLE_US;
}

static enum scale_do
drain_on(struct scale_job *job, const struct scale_facts *facts,
         const struct scale_times *times, uint64_t now_us)
{
    if (!facts->drains) { /* somebody took that back */
        return SCALE_DO_WORK;
    }
    bool empty = is_empty(job, facts, now_us);
    bool late = is_late(job, times->drain_ms, now_us) && is_left_alone(facts);

    return empty || late ? SCALE_DO_END : SCALE_DO_NOTHING;
}

/* One that was lost has not drained: it drains now, for as long. */
static enum scale_do
end_on(struct scale_job *job, const struct scale_facts *facts,
       const struct scale_times *times, uint64_t now_us)
{
    if (facts->there && !facts->drains) {
        return SCALE_DO_DRAIN;
    }
    bool done = is_empty(job, facts, now_us) || !job->worked ||
                is_late(job, times->drain_ms, now_us);

    return done && may_call(job, facts, now_us) && is_left_alone(facts)
               ? SCALE_DO_TERMINATE
               : SCALE_DO_NOTHING;
}

static bool
takes_requests(const struct scale_facts *facts)
{
    return facts->ready || (facts->reached && !MUTANT(SEES_ALONE));
}

/* An engine that worked, and does not: it takes nothing of any node, though
 * others do, or an operator drains it, and nothing is in flight there, for as
 * long as a new one may take to come. A node that reaches none may be what is
 * ill. */
static bool
is_lost(struct scale_job *job, const struct scale_facts *facts,
        const struct scale_times *times, uint64_t now_us)
{
    bool off = facts->drains || (!takes_requests(facts) && facts->reaches);
    bool dead = off && facts->idle;

    if (!dead) {
        job->idle_us = 0;
    } else if (job->idle_us == 0) {
        job->idle_us = now_us;
    }
    return dead &&
           now_us - job->idle_us >= times->provision_ms * UINT64_C(1000);
}

enum scale_do
scale_job_next(struct scale_job *job, const struct scale_facts *facts,
               const struct scale_times *times, uint64_t now_us)
{
    enum scale_state state = job->record.state;
    bool late = is_late(job, times->provision_ms, now_us);

    CHECK(now_us >= job->since_us && state < SCALE_STATES);
    if (!facts->acts) {
        job->goes = false;
        job->idle_us = 0;
        return SCALE_DO_NOTHING;
    }
    if (state == SCALE_ASKED) {
        return late                           ? SCALE_DO_END
               : may_call(job, facts, now_us) ? SCALE_DO_PROVISION
                                              : SCALE_DO_NOTHING;
    }
    if (state == SCALE_ENDS) {
        return end_on(job, facts, times, now_us);
    }
    if (!facts->there) {
        return SCALE_DO_END;
    }
    if (state == SCALE_DRAINS) {
        return drain_on(job, facts, times, now_us);
    }
    if (state == SCALE_COMES) {
        return takes_requests(facts) ? SCALE_DO_WORK
               : late                ? SCALE_DO_DRAIN
                                     : SCALE_DO_NOTHING;
    }
    if (is_lost(job, facts, times, now_us)) {
        return SCALE_DO_END;
    }
    return job->goes ? SCALE_DO_DRAIN : SCALE_DO_NOTHING;
}

void
scale_job_called(struct scale_job *job)
{
    CHECK(!job->calling);
    job->calling = true;
}

void
scale_job_answered(struct scale_job *job, bool well, uint64_t now_us)
{
    uint64_t wait_us = SCALE_AGAIN_US << (job->fails < 6 ? job->fails : 6);

    CHECK(job->calling);
    job->calling = false;
    job->fails = well ? 0 : job->fails + 1;
    wait_us = well ? SCALE_AGAIN_US : wait_us;
    job->due_us =
        now_us +
        (wait_us < SCALE_AGAIN_MOST_US ? wait_us : SCALE_AGAIN_MOST_US);
}

void
scale_job_heard(struct scale_job *job, const struct scale_record *record,
                uint64_t now_us)
{
    struct scale_record known = job->record;
    bool older = record->epoch < known.epoch;
    bool other = !older && record->state != known.state;

    job->record = older ? known : *record;
    job->undone = older;
    const char *worker = older ? record->worker : known.worker;
    if (job->record.worker[0] == '\0' && worker[0] != '\0') {
        memcpy(job->record.worker, worker, sizeof job->record.worker);
        job->undone = true;
    }
    const char *pool = older ? record->pool : known.pool;
    if (job->record.pool[0] == '\0' && pool[0] != '\0') {
        memcpy(job->record.pool, pool, sizeof job->record.pool);
        job->undone = true;
    }
    if (other || job->since_us == 0) {
        job->since_us = now_us;
        job->due_us = now_us;
        job->idle_us = 0;
        job->fails = 0;
        job->goes = false;
        job->worked = other && known.state == SCALE_WORKS;
    }
}

/* Records */

void
scale_record_put(const struct scale_record *record, struct buf *out)
{
    out->failed = out->failed || strchr(record->model, '\n') != NULL;
    buf_printf(out,
               "state=%s\nepoch=%" PRIu32 "\nnumber=%" PRIu32 "\nmodel=%s\n",
               scale_state_name(record->state), record->epoch, record->number,
               record->model);
    if (record->worker[0] != '\0') {
        buf_printf(out, "worker=%s\n", record->worker);
    }
    if (record->pool[0] != '\0') {
        buf_printf(out, "pool=%s\n", record->pool);
    }
}

static bool
set_text(char *out, size_t room, struct slice text)
{
    if (text.len >= room || memchr(text.ptr, '\0', text.len) != NULL) {
        return false;
    }
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
    return true;
}

static bool
set_state(struct scale_record *record, struct slice text)
{
    for (uint32_t i = 0; i < SCALE_STATES; i++) {
        if (slice_equal(text, slice_of(state_names[i]))) {
            record->state = (enum scale_state)i;
            return true;
        }
    }
    return false;
}

static bool
set_uint(uint32_t *out, struct slice text)
{
    uint64_t number = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || number > UINT32_MAX) {
            return false;
        }
        number = number * 10 + (uint64_t)(text.ptr[i] - '0');
    }
    *out = (uint32_t)number;
    return text.len != 0 && number <= UINT32_MAX;
}

bool
scale_record_get(struct slice bytes, struct scale_record *record)
{
    bool good = true;
    bool stated = false;

    *record = (struct scale_record){.state = SCALE_ASKED};
    while (bytes.len != 0 && good) {
        struct slice value = slice_take(&bytes, '\n');
        struct slice key = slice_take(&value, '=');
        if (slice_equal(key, SLICE("state"))) {
            good = set_state(record, value);
            stated = true;
        } else if (slice_equal(key, SLICE("epoch"))) {
            good = set_uint(&record->epoch, value);
        } else if (slice_equal(key, SLICE("number"))) {
            good = set_uint(&record->number, value);
        } else if (slice_equal(key, SLICE("model"))) {
            good = set_text(record->model, sizeof record->model, value);
        } else if (slice_equal(key, SLICE("worker"))) {
            good = set_text(record->worker, sizeof record->worker, value);
        } else if (slice_equal(key, SLICE("pool"))) {
            good = set_text(record->pool, sizeof record->pool, value);
        }
    }
    return good && stated;
}

const char *
scale_job_key(const char *id)
{
    size_t len = sizeof SCALE_JOB_PREFIX - 1;

    return strncmp(id, SCALE_JOB_PREFIX, len) == 0 &&
                   strlen(id + len) < SCALE_KEY_MAX
               ? id + len
               : NULL;
}
