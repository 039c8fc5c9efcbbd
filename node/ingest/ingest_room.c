/* Which workers' ranks have room in the mirror. */
#include "node/ingest/ingest_room.h"

#include <string.h>

#include "index/base/check.h"

/* The place of the first worker by id behind `after` (NULL: of all), or
 * WORKERS_MAX. */
static uint32_t
next_place(const struct ingest_room_worker *workers, const char *after)
{
    uint32_t next = WORKERS_MAX;

    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        const char *id = workers[i].id;
        if (workers[i].ranks == 0 ||
            (after != NULL && strcmp(id, after) <= 0)) {
            continue;
        }
        if (next == WORKERS_MAX || strcmp(id, workers[next].id) < 0) {
            next = i;
        }
    }
    return next;
}

struct worker_set
ingest_room_share(const struct ingest_room_worker workers[WORKERS_MAX])
{
    struct worker_set all;
    struct worker_set some;
    uint32_t wanted = 0;
    uint32_t taken = 0;

    worker_set_clear(&all);
    worker_set_clear(&some);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        wanted += workers[i].ranks;
        if (workers[i].ranks != 0) {
            worker_set_add(&all, i);
        }
    }
    if (wanted <= WORKERS_MAX) {
        return all; /* as nearly always */
    }
    for (uint32_t at = next_place(workers, NULL);
         at < WORKERS_MAX && taken < WORKERS_MAX;
         at = next_place(workers, workers[at].id)) {
        if (workers[at].ranks <= WORKERS_MAX - taken) {
            taken += workers[at].ranks;
            worker_set_add(&some, at);
        }
    }
    CHECK(taken <= WORKERS_MAX);
    return some;
}
