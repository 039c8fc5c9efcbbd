#include <criterion/criterion.h>
#include <netinet/in.h>

#include "chaos/load/load_targets.h"

static struct load_targets targets;

static void
set(unsigned first, unsigned count)
{
    struct discover_ip ips[8] = {{0}};

    for (unsigned i = 0; i < count; i++) {
        ips[i] = (struct discover_ip){
            .size = 4, .bytes = {127, 0, 0, (uint8_t)(first + i)}};
    }
    load_targets_set(&targets, ips, count, 80);
}

static unsigned
last_byte(const struct load_target *target)
{
    const struct sockaddr_in *v4 = (const void *)&target->address;

    cr_assert_eq(v4->sin_family, AF_INET);
    cr_assert_eq(ntohs(v4->sin_port), 80);
    return ntohl(v4->sin_addr.s_addr) & 0xff;
}

static const struct load_target *
pick(uint64_t request, uint64_t now_us)
{
    return load_targets_pick(&targets, request, NULL, 0, now_us);
}

Test(chaos_load_targets, nowhere_to_go_is_said)
{
    set(1, 0);
    cr_assert_null(pick(1, 0));
}

Test(chaos_load_targets, tries_of_a_request_visit_each_address_once)
{
    set(1, 3);
    for (uint64_t request = 0; request < 100; request++) {
        uint64_t tried[4];
        unsigned seen = 0;
        for (uint32_t i = 0; i < 3; i++) {
            const struct load_target *target =
                load_targets_pick(&targets, request, tried, i, i);
            tried[i] = target->key;
            seen |= 1U << last_byte(target);
            load_targets_failed(&targets, target->key, i);
        }
        cr_assert_eq(seen, 1U << 1 | 1U << 2 | 1U << 3);
        cr_assert_eq(load_targets_pick(&targets, request, tried, 3, 3)->key,
                     tried[0]);
    }
}

Test(chaos_load_targets, requests_spread_over_all_addresses)
{
    unsigned count[4] = {0};

    set(1, 3);
    for (uint64_t request = 0; request < 3000; request++) {
        count[last_byte(pick(request, 0))]++;
    }
    for (unsigned i = 1; i <= 3; i++) {
        cr_assert_gt(count[i], 900);
    }
}

Test(chaos_load_targets, one_that_failed_is_avoided_for_a_while)
{
    set(1, 2);
    unsigned was = last_byte(pick(7, 100));

    load_targets_failed(&targets, pick(7, 100)->key, 100);
    cr_assert_neq(last_byte(pick(7, 101)), was);
    set(1, 2); /* looked up again: no reason to trust it */
    cr_assert_neq(last_byte(pick(7, 101)), was);
    cr_assert_eq(last_byte(pick(7, 100 + LOAD_TARGETS_AVOID_US)), was);
    set(1, 1);
    load_targets_failed(&targets, pick(7, 100)->key, 100);
    cr_assert_eq(last_byte(pick(7, 101)), 1, "there is no other");
}

Test(chaos_load_targets, an_address_named_twice_is_one)
{
    struct discover_ip ips[2] = {{.size = 16, .bytes = {[15] = 1}},
                                 {.size = 16, .bytes = {[15] = 1}}};

    load_targets_set(&targets, ips, 2, 80);
    cr_assert_eq(targets.count, 1);
    cr_assert_eq(targets.target[0].address.ss_family, AF_INET6);
    set(4, 2);
    cr_assert_eq(targets.count, 2);
}
