/* Each allocation of adding, learning models, publishing and reading model
 * lists fails once: an answer comes, nothing leaks, and the next try works. */
#include <criterion/criterion.h>
#include <errno.h>

#include "node/fleet/fleet.h"
#include "tests/unit/failing_alloc.h"
#include "tests/unit/node/fleet/fleet_settings.h"

static struct qsbr qsbr;
static struct fleet *fleet;

static void
answer(const struct fleet_out *out, uint64_t now_us)
{
    struct fleet_probed result = {
        .slot = out->worker->slot,
        .generation = out->worker->generation,
        .probe = out->probe,
        .status = 200,
        .failure = "",
        .body = SLICE("{\"data\":[{\"id\":\"m\",\"owned_by\":\"vllm\"}]}"),
    };

    fleet_probed(fleet, &result, now_us);
}

/* Some turns of what a shell does; a failed view comes again. */
static void
turn(uint64_t *now_us)
{
    struct fleet_out out;
    const char *reason;

    for (int i = 0; i < 40; i++) {
        while (fleet_next_out(fleet, &out)) {
            if (out.kind == FLEET_OUT_VIEW) {
                int error = fleet_publish(fleet);
                cr_assert(error == 0 || error == -ENOMEM);
            } else if (out.kind == FLEET_OUT_PROBE) {
                answer(&out, *now_us);
            }
            cr_assert(fleet_check(fleet, &reason), "%s", reason);
        }
        *now_us += 1000000;
        fleet_tick(fleet, *now_us);
    }
}

static void
live(uint64_t n)
{
    struct config_worker worker = {.url = {.host = "127.0.0.1", .port = 1}};
    uint64_t now_us = 1;
    uint32_t slot = WORKER_NONE;

    qsbr_init(&qsbr);
    struct fleet_config config = fleet_settings();
    int error = fleet_new(&fleet, &config, &qsbr);
    if (error == 0) {
        error = fleet_add(fleet, &worker, now_us, &slot);
    }
    cr_assert(error == 0 || error == -ENOMEM);
    if (error == 0) {
        turn(&now_us);
        const struct fleet_view *view = fleet_view_get(fleet_board(fleet));
        cr_assert(worker_set_has(&view->eligible, slot), "allocation %lu",
                  (unsigned long)n);
        cr_assert_eq(view->models->count, 1);
        cr_assert_eq(view->worker[slot]->kind, ENGINE_VLLM);
    } else {
        cr_assert(fleet == NULL ||
                  fleet_find(fleet, SLICE("127.0.0.1:1")) == WORKER_NONE);
    }
    fleet_free(fleet);
    fleet = NULL;
    qsbr_fini(&qsbr);
}

Test(node_fleet_memory, every_allocation_may_fail_once)
{
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        live(n);
    }
    failing_alloc_stop();
    cr_assert_gt(n, 8);
}
