/* A worker's source, opened and closed many times before the loop runs. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "node/ingest/ingest_internal.h"

#if defined(__clang__)
/* A test is the control thread. */
#pragma clang diagnostic ignored "-Wthread-safety-analysis"
#endif

static struct ingest *ingest;
static struct node_shared node;
static struct config config;
static uv_loop_t loop;
static struct fleet_worker worker = {
    .identity = 7,
    .generation = 1,
    .ranks = 1,
    .id = "a",
    .sse = {.host = "127.0.0.1", .port = 1, .path = "/kv"},
};

static struct ingest_worker *
setup(void)
{
    ingest = calloc(1, sizeof *ingest);
    cr_assert_not_null(ingest);
    cr_assert_eq(uv_loop_init(&loop), 0);
    node.config = &config;
    ingest->node = &node;
    ingest->loop = &loop;
    rng_init(&ingest->rng, 1);
    ingest->workers[0].worker = &worker;
    ingest->workers[0].present = true;
    ingest->workers[0].generation = worker.generation;
    return &ingest->workers[0];
}

static void
teardown(void)
{
    cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
    cr_assert_eq(uv_loop_close(&loop), 0);
    free(ingest);
}

Test(node_ingest_source, a_sidecar_s_links_may_end_any_number_of_times_a_turn)
{
    struct ingest_worker *w = setup();

    for (uint32_t i = 0; i < 50; i++) {
        ingest_read(ingest, 0, true);
        cr_assert_not_null(w->link);
        ingest_read(ingest, 0, false);
        cr_assert_null(w->link);
    }
    ingest_read(ingest, 0, true);
    ingest_stop_reading(ingest, w);
    cr_assert_null(w->link);
    cr_assert_eq(w->reading, 51);
    teardown();
}
