/* Engines that are pods: which job has which. */
#include "node/scale/scale_pods.h"

#include <string.h>

/* Whether the pod of both is a's rather than b's. */
static bool
comes_first(const struct scale_job *a, const struct scale_job *b)
{
    bool ends[2] = {a->record.state == SCALE_ENDS,
                    b->record.state == SCALE_ENDS};
    bool known[2] = {a->record.worker[0] != '\0', b->record.worker[0] != '\0'};

    return ends[0] != ends[1]     ? ends[1]
           : known[0] != known[1] ? known[0]
                                  : strcmp(a->key, b->key) < 0;
}

static bool
is_of(const struct scale_job *job, const char *pool)
{
    return strcmp(job->record.pool, pool) == 0;
}

const struct scale_job *
scale_pods_of(const struct scale_job *jobs, uint32_t count, const char *pool,
              uint32_t number)
{
    const struct scale_job *first = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (is_of(&jobs[i], pool) && jobs[i].record.number == number &&
            (first == NULL || comes_first(&jobs[i], first))) {
            first = &jobs[i];
        }
    }
    return first;
}

/* Its pod was asked for with a good answer. So those below are there, while it
 * is in the list: they go after it. */
static bool
has_come(const struct scale_job *job)
{
    return job->record.worker[0] != '\0';
}

/* Whether each number below a job's has one. */
static bool
is_whole(const struct scale_job *jobs, uint32_t count,
         const struct scale_job *job)
{
    const char *pool = job->record.pool;
    uint32_t below = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = jobs[i].record.number;
        below += number < job->record.number &&
                 scale_pods_of(jobs, count, pool, number) == &jobs[i];
    }
    return below == job->record.number;
}

static bool
is_above(const struct scale_job *other, const struct scale_job *job)
{
    return is_of(other, job->record.pool) &&
           other->record.number > job->record.number;
}

bool
scale_pods_waits(const struct scale_job *jobs, uint32_t count,
                 const struct scale_job *job)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_above(&jobs[i], job)) {
            return true;
        }
    }
    return has_come(job) && !is_whole(jobs, count, job);
}

/* One above it stays. */
static bool
is_held(const struct scale_job *jobs, uint32_t count,
        const struct scale_job *job)
{
    for (uint32_t i = 0; i < count; i++) {
        if (is_above(&jobs[i], job) && has_come(&jobs[i]) &&
            jobs[i].record.state < SCALE_DRAINS) {
            return true;
        }
    }
    return false;
}

enum scale_pod_do
scale_pods_next(const struct scale_job *jobs, uint32_t count,
                const struct scale_job *job, const struct scale_facts *facts,
                bool well)
{
    if (!facts->acts || !facts->kept) {
        return SCALE_POD_KEEP;
    }
    if (scale_pods_of(jobs, count, job->record.pool, job->record.number) !=
        job) {
        return SCALE_POD_FORGET;
    }
    if (job->calling || !is_held(jobs, count, job)) {
        return SCALE_POD_KEEP;
    }
    if (job->record.state == SCALE_WORKS && facts->drains) {
        return SCALE_POD_STAY;
    }
    if (job->record.state != SCALE_ENDS) {
        return SCALE_POD_KEEP;
    }
    return job->record.worker[0] == '\0' ? SCALE_POD_FORGET
           : facts->there && well        ? SCALE_POD_BACK
                                         : SCALE_POD_KEEP;
}

const struct scale_job *
scale_pods_gap(const struct scale_job *jobs, uint32_t count, const char *pool)
{
    const struct scale_job *last = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (is_of(&jobs[i], pool) && has_come(&jobs[i]) &&
            (last == NULL || is_above(&jobs[i], last))) {
            last = &jobs[i];
        }
    }
    return last != NULL && !is_whole(jobs, count, last) ? last : NULL;
}
