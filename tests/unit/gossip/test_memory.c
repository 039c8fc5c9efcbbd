/* Each allocation of a push, a gap, a transfer, gauges and decisions fails
 * once: it is made good, and nothing leaks. */
#include <criterion/criterion.h>

#include "lab.h"
#include "tests/unit/failing_alloc.h"

static struct lab lab;

static void
tell(uint32_t at)
{
    static const uint64_t keys[] = {1, 2, 3};
    struct gossip_gauge gauge = {.inflight = 1};

    cr_assert(gossip_gauge_set(lab.nodes[at].g, 5, &gauge, lab.now_us));
    gossip_belief_add(
        lab.nodes[at].g,
        &(struct gossip_belief){.worker = 5, .count = 3, .keys = keys},
        lab.now_us);
}

static void
follow(void)
{
    gossip_role(lab.nodes[0].g, lab_stream, 0, 0, lab.now_us);
    lab_begin_reading(&lab, 0, 77, true);
    lab_read_many(&lab, 0, 0, 0, 9000); /* spills */
    lab_run(&lab, 5);
    lab.severed[1] = true;
    for (uint32_t i = 1; i < 60; i++) {
        lab_read(&lab, 0, i, i % 3 == 0 ? EVENT_REMOVE : EVENT_STORE, i);
    }
    lab_run(&lab, 5);
    lab.severed[1] = false;
    tell(0);
    tell(1);
    lab_run(&lab, 300);
    lab_begin_reading(&lab, 0, 77, true);
    for (uint32_t i = 0; i < 80; i++) {
        lab_read(&lab, 0, i, EVENT_STORE, i);
    }
    lab_run(&lab, 1500);
    cr_assert(lab_same(&lab, 0, 1));
    cr_assert_eq(lab_held(&lab, 1), 80);
    cr_assert(lab.nodes[1].complete && !lab.nodes[1].stale);
    cr_assert_eq(gossip_gauge_others(lab.nodes[0].g, 5).inflight, 1);
    cr_assert_eq(gossip_gauge_others(lab.nodes[1].g, 5).inflight, 1);
}

Test(gossip_memory, every_allocation_may_fail_once)
{
    struct gossip_config config = gossip_config_default();
    uint64_t n = 0;

    config.log_records = 32;
    config.log_bytes = 40000;
    for (; failing_alloc_after(n); n++) {
        lab_begin(&lab, &config, 2);
        follow();
        lab_end(&lab);
    }
    failing_alloc_stop();
    cr_assert_gt(n, 50);
}
