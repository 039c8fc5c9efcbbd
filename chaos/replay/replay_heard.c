/* Mirrors of a replay: slot e is engine e as its readers know it, slot
 * engines + e as the others do. */
#include "chaos/replay/replay_heard.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIRROR_BYTES_MAX ((size_t)1 << 30)
#define WORK_BUDGET      100000U

static bool
is_later(const struct replay_heard *heard, uint32_t node, uint32_t engine)
{
    CHECK(node < heard->nodes && engine < heard->engines);
    return !worker_set_has(&heard->readers[engine], node);
}

static int ON_CONTROL
open_mirror(struct replay_heard *heard, struct mirror **mirror)
{
    struct mirror_limits limits = {.bytes_max = MIRROR_BYTES_MAX};
    uint32_t slots = heard->later ? 2 * heard->engines : heard->engines;
    uint32_t slot;
    int outcome = mirror_new(mirror, &limits, &heard->qsbr);

    CHECK(slots <= WORKERS_MAX);
    for (uint32_t i = 0; i < slots && outcome == 0; i++) {
        outcome = mirror_open(*mirror, &slot);
        CHECK(outcome == 0 && slot == i);
    }
    return outcome;
}

int
replay_heard_init(struct replay_heard *heard, const struct worker_set *readers,
                  uint32_t engines, uint32_t nodes)
{
    role_is_control();
    bool later = false;
    int error = 0;

    CHECK(engines > 0 && engines <= WORKERS_MAX && nodes > 0);
    *heard = (struct replay_heard){.engines = engines, .nodes = nodes};
    qsbr_init(&heard->qsbr);
    for (uint32_t i = 0; i < engines; i++) {
        later = later || worker_set_count(&readers[i]) < nodes;
    }
    heard->later = later && 2 * engines <= WORKERS_MAX;
    heard->mirrors_count = later && !heard->later ? nodes : 1;
    heard->readers = calloc(engines, sizeof(*heard->readers));
    heard->mirrors = calloc(heard->mirrors_count, sizeof(*heard->mirrors));
    if (heard->readers == NULL || heard->mirrors == NULL) {
        error = -ENOMEM;
    } else {
        memcpy(heard->readers, readers, engines * sizeof(*readers));
    }
    for (uint32_t i = 0; i < heard->mirrors_count && error == 0; i++) {
        error = open_mirror(heard, &heard->mirrors[i]);
    }
    if (error != 0) {
        replay_heard_fini(heard);
    }
    return error;
}

void
replay_heard_fini(struct replay_heard *heard)
{
    for (uint32_t i = 0; i < heard->mirrors_count && heard->mirrors != NULL;
         i++) {
        mirror_free(heard->mirrors[i]);
    }
    if (heard->engines > 0) {
        qsbr_fini(&heard->qsbr);
    }
    free(heard->mirrors);
    free(heard->readers);
    *heard = (struct replay_heard){.mirrors = NULL};
}

const struct mirror *
replay_heard_mirror(const struct replay_heard *heard, uint32_t node)
{
    CHECK(node < heard->nodes);
    return heard->mirrors[heard->mirrors_count > 1 ? node : 0];
}

uint32_t
replay_heard_slot(const struct replay_heard *heard, uint32_t node,
                  uint32_t engine)
{
    return heard->later && is_later(heard, node, engine)
               ? heard->engines + engine
               : engine;
}

bool
replay_heard_apply(struct replay_heard *heard, uint32_t engine,
                   const uint64_t *words, uint32_t count, bool readers)
{
    uint32_t slot = heard->later && !readers ? heard->engines + engine : engine;
    bool whole = true;

    role_is_control();
    CHECK(engine < heard->engines && count > 0);
    for (uint32_t i = 0; i < heard->mirrors_count; i++) {
        if (heard->mirrors_count == 1 ||
            is_later(heard, i, engine) == !readers) {
            whole = mirror_apply(heard->mirrors[i], slot, words, count,
                                 EVENT_HOLES_UNKNOWN) == 0 &&
                    whole;
        }
    }
    return whole;
}

void
replay_heard_work(struct replay_heard *heard)
{
    role_is_control();
    for (uint32_t i = 0; i < heard->mirrors_count; i++) {
        (void)mirror_work(heard->mirrors[i], WORK_BUDGET);
    }
}

bool
replay_heard_check(const struct replay_heard *heard, const char **reason)
{
    bool sound = true;

    for (uint32_t i = 0; i < heard->mirrors_count && sound; i++) {
        sound = mirror_check(heard->mirrors[i], reason);
    }
    return sound;
}
