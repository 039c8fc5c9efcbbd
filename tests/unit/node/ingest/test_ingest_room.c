#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/ingest/ingest_room.h"

static struct ingest_room_worker workers[WORKERS_MAX];
static char ids[WORKERS_MAX][8];

static void
setup(void)
{
    memset(workers, 0, sizeof workers);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "w%03u", i);
        workers[i].id = ids[i];
    }
}

TestSuite(node_ingest_room, .init = setup);

static void
expect(const char *wanted)
{
    struct worker_set share = ingest_room_share(workers);
    char got[256] = "";
    size_t len = 0;

    WORKER_SET_EACH (i, &share) {
        len +=
            (size_t)snprintf(got + len, sizeof got - len, "%s ", workers[i].id);
        cr_assert_lt(len, sizeof got);
    }
    cr_assert_str_eq(got, wanted);
}

Test(node_ingest_room, all_are_followed_where_there_is_room)
{
    workers[3].ranks = 64;
    workers[9].ranks = WORKERS_MAX - 64;
    expect("w003 w009 ");
}

Test(node_ingest_room, beyond_the_room_the_first_by_id_are_followed)
{
    for (uint32_t i = 0; i < 5; i++) {
        workers[10 + i].ranks = 60; /* 240 and 60 more */
    }
    expect("w010 w011 w012 w013 ");
    workers[14].id = "a";
    expect("w010 w011 w012 a ");
}

Test(node_ingest_room, one_that_does_not_fit_lets_a_smaller_one_pass)
{
    for (uint32_t i = 0; i < 5; i++) {
        workers[10 + i].ranks = 60;
    }
    workers[20].ranks = 17;
    workers[21].ranks = 16;
    workers[22].ranks = 1;
    expect("w010 w011 w012 w013 w021 ");
}

/* Whatever slots they have. */
Test(node_ingest_room, places_do_not_matter)
{
    struct rng rng;

    for (uint32_t i = 0; i < 40; i++) {
        workers[i].ranks = 1 + i % 13;
    }
    struct worker_set share = ingest_room_share(workers);
    rng_init(&rng, 1);
    for (uint32_t turn = 0; turn < 20; turn++) {
        struct ingest_room_worker before[WORKERS_MAX];
        memcpy(before, workers, sizeof before);
        uint32_t by = (uint32_t)rng_below(&rng, WORKERS_MAX);
        for (uint32_t i = 0; i < WORKERS_MAX; i++) {
            workers[(i + by) % WORKERS_MAX] = before[i];
        }
        struct worker_set other = ingest_room_share(workers);
        uint32_t same = 0;
        WORKER_SET_EACH (i, &other) {
            uint32_t number = (uint32_t)atoi(workers[i].id + 1);
            cr_assert(worker_set_has(&share, number));
            same++;
        }
        cr_assert_eq(same, worker_set_count(&share));
    }
}
