/* Each allocation of words, pushes and exchanges fails once: the outcome says
 * so or the next summary makes it good, and nothing leaks. */
#include <criterion/criterion.h>
#include <errno.h>

#include "gossip/roster.h"
#include "tests/unit/failing_alloc.h"

static struct roster *nodes[2];
static uint64_t now_us;

static bool
pull(uint32_t at)
{
    struct roster_out out;
    const char *reason = "";
    bool any = false;

    while (roster_next_out(nodes[at], &out)) {
        any = true;
        if (out.kind == ROSTER_SEND) {
            cr_assert_eq(
                roster_recv(nodes[1 - at], at + 1, out.bytes, out.len, now_us),
                0);
        }
    }
    cr_assert(roster_check(nodes[at], &reason), "%s", reason);
    return any;
}

static void
run(uint32_t ms)
{
    for (uint32_t i = 0; i < ms; i += 10, now_us += 10000) {
        roster_tick(nodes[0], now_us);
        roster_tick(nodes[1], now_us);
        while (pull(0) || pull(1)) {
        }
    }
}

/* Said again when there was no memory for it. */
static void
put(uint32_t at, const char *id, const char *spec)
{
    int rc = roster_put(nodes[at], id, slice_of(spec), now_us);

    cr_assert(rc == 0 || rc == -ENOMEM);
    if (rc != 0) {
        cr_assert_eq(roster_put(nodes[at], id, slice_of(spec), now_us), 0);
    }
}

static void
begin(void)
{
    struct roster_config config = roster_config_default();

    now_us = 1000000;
    for (uint32_t i = 0; i < 2; i++) {
        int rc = roster_new(&nodes[i], &config, now_us, i);
        cr_assert(rc == 0 || rc == -ENOMEM);
        if (rc != 0) {
            cr_assert_eq(roster_new(&nodes[i], &config, now_us, i), 0);
        }
    }
}

static void
talk(void)
{
    put(0, "a", "one");
    put(1, "b", "two");
    cr_assert_eq(roster_peer_up(nodes[0], 2, now_us), 0);
    cr_assert_eq(roster_peer_up(nodes[1], 1, now_us), 0);
    run(50);
    put(0, "c", "three");
    put(1, "a", "four");
    while (roster_drain(nodes[0], "b", true, now_us) != 0) {
    }
    while (roster_remove(nodes[1], "c", now_us) != 0) {
    }
    run(4000);
    cr_assert_eq(roster_digest(nodes[0]), roster_digest(nodes[1]));
}

Test(roster_memory, every_allocation_may_fail_once)
{
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        begin();
        talk();
        roster_free(nodes[0]);
        roster_free(nodes[1]);
    }
    failing_alloc_stop();
    cr_assert_gt(n, 15);
}
