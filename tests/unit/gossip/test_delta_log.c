#include <criterion/criterion.h>
#include <string.h>

#include "gossip/delta_log_internal.h"

static struct delta_log_store store;
static struct delta_log log_;
static const uint8_t body[600];

static void
setup(void)
{
    store = (struct delta_log_store){
        .bytes_max = 1U << 20, .log_bytes = 4096, .log_count = 64};
    log_ = (struct delta_log){0};
}

static void
teardown(void)
{
    const char *reason = "";

    cr_assert(delta_log_check(&log_, &store, &reason), "%s", reason);
    delta_log_fini(&log_, &store);
    cr_assert_eq(store.bytes, 0);
}

TestSuite(gossip_delta_log, .init = setup, .fini = teardown);

static bool
add(uint64_t pos, uint64_t keep, uint32_t len)
{
    return delta_log_append(&log_, &store, keep, pos, body, len);
}

Test(gossip_delta_log, finds_what_is_after_a_position)
{
    for (uint64_t pos = 10; pos <= 50; pos += 10) {
        cr_assert(add(pos, 0, 5));
    }
    cr_assert_eq(delta_log_after(&log_, 0), 0);
    cr_assert_eq(delta_log_after(&log_, 9), 0);
    cr_assert_eq(delta_log_after(&log_, 10), 1);
    cr_assert_eq(delta_log_after(&log_, 49), 4);
    cr_assert_eq(delta_log_after(&log_, 50), 5);
    cr_assert(delta_log_covers(&log_, 0) && delta_log_covers(&log_, 50));
    cr_assert_not(delta_log_covers(&log_, 51));
}

Test(gossip_delta_log, the_oldest_give_way_when_it_is_full)
{
    for (uint64_t pos = 1; pos <= 1000; pos++) {
        cr_assert(add(pos, pos - 1, 100));
    }
    cr_assert_eq(log_.high, 1000);
    cr_assert_geq(log_.count, 16);
    cr_assert_leq(log_.bytes_size, 4096);
    cr_assert_eq(store.dropped, 1000 - log_.count);
    cr_assert_eq(delta_log_entry_at(&log_, 0)->pos, log_.low + 1);
}

Test(gossip_delta_log, what_is_still_needed_does_not_give_way)
{
    uint64_t pos = 1;

    while (add(pos, 0, 100)) {
        pos++;
    }
    cr_assert_eq(log_.low, 0);
    cr_assert_eq(log_.high, pos - 1);
    cr_assert(add(pos, 1000, 100));
    cr_assert_gt(log_.low, 0);
}

Test(gossip_delta_log, a_record_longer_than_all_is_refused)
{
    uint8_t big[5000] = {0};

    cr_assert_not(delta_log_append(&log_, &store, 0, 1, big, sizeof big));
    cr_assert(add(1, 0, 600));
}

Test(gossip_delta_log, all_logs_share_one_bound)
{
    struct delta_log other = {0};

    store.bytes_max = 4000;
    for (uint64_t pos = 1; pos <= 100; pos++) {
        (void)!add(pos, pos, 100);
        (void)!delta_log_append(&other, &store, pos, pos, body, 100);
        cr_assert_leq(store.bytes, 4000);
    }
    delta_log_fini(&other, &store);
}

Test(gossip_delta_log, a_restart_keeps_nothing)
{
    cr_assert(add(5, 0, 10));
    delta_log_restart(&log_, 77);
    cr_assert_eq(log_.low, 77);
    cr_assert_eq(log_.high, 77);
    cr_assert_eq(log_.count, 0);
    cr_assert(add(78, 0, 10));
}
