#include <criterion/criterion.h>

#include "gossip/delta_log_internal.h"

static struct delta_log_store store;
static struct delta_log deltas;
static const uint8_t body[600];

static void
setup(void)
{
    store = (struct delta_log_store){
        .bytes_max = 1U << 20, .log_bytes = 4096, .log_count = 64};
    deltas = (struct delta_log){0};
}

static void
teardown(void)
{
    const char *reason = "";

    cr_assert(delta_log_check(&deltas, &store, &reason), "%s", reason);
    delta_log_fini(&deltas, &store);
    cr_assert_eq(store.bytes, 0);
}

TestSuite(gossip_delta_log, .init = setup, .fini = teardown);

static bool
add(uint64_t pos, uint64_t keep, uint32_t len)
{
    return delta_log_append(&deltas, &store, keep, pos, body, len);
}

Test(gossip_delta_log, finds_what_is_after_a_position)
{
    for (uint64_t pos = 10; pos <= 50; pos += 10) {
        cr_assert(add(pos, 0, 5));
    }
    cr_assert_eq(delta_log_after(&deltas, 0), 0);
    cr_assert_eq(delta_log_after(&deltas, 9), 0);
    cr_assert_eq(delta_log_after(&deltas, 10), 1);
    cr_assert_eq(delta_log_after(&deltas, 49), 4);
    cr_assert_eq(delta_log_after(&deltas, 50), 5);
    cr_assert(delta_log_covers(&deltas, 0) && delta_log_covers(&deltas, 50));
    cr_assert_not(delta_log_covers(&deltas, 51));
}

Test(gossip_delta_log, the_oldest_give_way_when_it_is_full)
{
    for (uint64_t pos = 1; pos <= 1000; pos++) {
        cr_assert(add(pos, pos - 1, 100));
    }
    cr_assert_eq(deltas.high, 1000);
    cr_assert_geq(deltas.count, 16);
    cr_assert_leq(deltas.bytes_size, 4096);
    cr_assert_eq(store.dropped, 1000 - deltas.count);
    cr_assert_eq(delta_log_entry_at(&deltas, 0)->pos, deltas.low + 1);
}

Test(gossip_delta_log, what_is_still_needed_does_not_give_way)
{
    uint64_t pos = 1;

    while (add(pos, 0, 100)) {
        pos++;
    }
    cr_assert_eq(deltas.low, 0);
    cr_assert_eq(deltas.high, pos - 1);
    cr_assert(add(pos, 1000, 100));
    cr_assert_gt(deltas.low, 0);
}

Test(gossip_delta_log, a_record_longer_than_all_is_refused)
{
    uint8_t big[5000] = {0};

    cr_assert_not(delta_log_append(&deltas, &store, 0, 1, big, sizeof big));
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

/* Two logs, of which the first one took all there was. */
static struct delta_log late;

static bool
add_late(uint64_t pos)
{
    return delta_log_append(&late, &store, pos - 1, pos, body, 100);
}

Test(gossip_delta_log, one_that_comes_late_takes_from_a_larger_one)
{
    const char *reason = "";

    store.bytes_max = 4096 + 64 * sizeof(struct delta_log_entry);
    for (uint64_t pos = 1; pos <= 1000; pos++) {
        cr_assert(add(pos, pos - 1, 100));
    }
    cr_assert_eq(store.bytes, store.bytes_max);
    for (uint64_t pos = 1; pos <= 1000; pos++) {
        cr_assert(add_late(pos));
        cr_assert_leq(store.bytes, store.bytes_max);
    }
    cr_assert_geq(late.count, 8);
    cr_assert_geq(deltas.count, 8);
    cr_assert_eq(deltas.high, 1000);
    cr_assert(delta_log_check(&deltas, &store, &reason), "%s", reason);
    cr_assert(delta_log_check(&late, &store, &reason), "%s", reason);
    uint32_t size = deltas.bytes_size;
    for (uint64_t pos = 1001; pos <= 2000; pos++) {
        cr_assert(add(pos, pos - 1, 100));
        cr_assert(add_late(pos));
    }
    cr_assert_eq(deltas.bytes_size, size); /* they do not take turns */
    delta_log_fini(&late, &store);
}

/* There is room for two whole logs and a half of one. Bodies and entries grow one
 * after the other, so a half that has one of them alone is not a whole one yet. */
Test(gossip_delta_log, three_of_two_sizes_do_not_take_turns)
{
    struct delta_log logs[3] = {{.low = 0}};
    uint32_t sizes[3] = {0};

    store.bytes_max = 5 * (4096 + 64 * sizeof(struct delta_log_entry)) / 2;
    for (uint64_t pos = 1; pos <= 2000; pos++) {
        for (unsigned i = 0; i < 3; i++) {
            cr_assert(
                delta_log_append(&logs[i], &store, pos - 1, pos, body, 100));
            cr_assert(pos <= 1000 || logs[i].bytes_size == sizes[i], "%zu: %u",
                      (size_t)pos, i);
            sizes[i] = logs[i].bytes_size;
        }
    }
    cr_assert_eq(sizes[0] + sizes[1] + sizes[2], 4096 + 4096 + 2048);
    for (unsigned i = 0; i < 3; i++) {
        delta_log_fini(&logs[i], &store);
    }
}

Test(gossip_delta_log, what_is_still_needed_is_not_taken)
{
    store.bytes_max = 4096 + 64 * sizeof(struct delta_log_entry);
    for (uint64_t pos = 1; add(pos, 0, 100); pos++) {
    }
    cr_assert_eq(store.bytes, store.bytes_max);
    cr_assert_not(add_late(1));
    cr_assert_eq(deltas.low, 0);
    delta_log_fini(&late, &store);
}

Test(gossip_delta_log, a_restart_keeps_nothing)
{
    cr_assert(add(5, 0, 10));
    delta_log_restart(&deltas, 77);
    cr_assert_eq(deltas.low, 77);
    cr_assert_eq(deltas.high, 77);
    cr_assert_eq(deltas.count, 0);
    cr_assert(add(78, 0, 10));
}
