#include "node/control/control_islands.h"
#include "tests/unit/node/fleet/fleet_rig.h"

#define NEAR_US UINT64_C(2000)
#define FAR_US  UINT64_C(82000)

static const struct config_island island = {.name = "eu"};
static struct control_islands islands;
static struct speed speed;
static struct speed_slo slo[WORKERS_MAX];

TestSuite(node_control_islands, .init = rig_start, .fini = rig_stop);

/* A worker of that island whose checks take so long. */
static uint32_t
add(unsigned engine, const char *label, uint64_t check_us)
{
    struct config_worker worker = rig_config(engine);
    uint32_t slot = WORKER_NONE;

    rig.engine[engine].check_us = (uint32_t)check_us;
    (void)snprintf(worker.island, sizeof(worker.island), "%s", label);
    cr_assert_eq(fleet_add(rig.fleet, &worker, rig.now_us, &slot), 0);
    rig_pump();
    return slot;
}

static void
look(void)
{
    const struct control_islands_world world = {
        .config = &island, .fleet = rig.fleet, .speed = &speed};

    role_is_control();
    control_islands_look(&islands, &world, rig.board, slo);
}

Test(node_control_islands, the_way_to_a_far_worker_shortens_its_time)
{
    uint32_t own = add(0, "eu", NEAR_US);
    uint32_t far = add(1, "us", FAR_US);

    slo[own] = (struct speed_slo){.ttft_us = 500000, .itl_us = 50000};
    slo[far] = slo[own];
    look();
    cr_expect_eq(slo[own].ttft_us, 500000);
    cr_expect_eq(slo[far].ttft_us, 500000 - (FAR_US - NEAR_US));
    cr_expect_eq(slo[far].itl_us, 50000,
                 "tokens follow each other as anywhere");
}

Test(node_control_islands, a_way_that_is_longer_than_the_time_leaves_the_least)
{
    (void)add(0, "eu", NEAR_US);
    uint32_t far = add(1, "us", FAR_US);

    slo[far].ttft_us = FAR_US - NEAR_US;
    look();
    cr_expect_eq(slo[far].ttft_us, 1, "0 would be no SLO at all");
    slo[far].ttft_us = 0;
    look();
    cr_expect_eq(slo[far].ttft_us, 0, "without an SLO there is none");
}
