#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>

#include "node/base/pace.h"
#include "node/base/quota.h"

static struct quota quota;

static struct quota_bucket *
of(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = 7};

    if (inet_pton(AF_INET, text, &in.sin_addr) == 1) {
        return quota_of(&quota, (const struct sockaddr *)&in);
    }
    cr_assert_eq(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return quota_of(&quota, (const struct sockaddr *)&in6);
}

Test(node_quota, an_address_is_a_host_and_with_ipv6_its_network)
{
    quota_init(&quota, 42);
    cr_assert_eq(of("10.0.0.1"), of("10.0.0.1"));
    cr_assert_neq(of("10.0.0.1"), of("10.0.0.2"));
    cr_assert_eq(of("::ffff:10.0.0.1"), of("10.0.0.1"));
    cr_assert_eq(of("2001:db8:0:1::1"), of("2001:db8:0:1:ffff::9"));
    cr_assert_neq(of("2001:db8:0:1::1"), of("2001:db8:0:2::1"));
}

Test(node_quota, who_meets_whom_depends_on_the_seed)
{
    struct quota_bucket *before;

    quota_init(&quota, 1);
    before = of("10.0.0.1");
    quota_init(&quota, 2);
    cr_assert_neq(of("10.0.0.1"), before);
}

/* Takes one by one, in turn, until nobody gets any. */
static void
fill(uint64_t *own, unsigned count, uint64_t max, uint64_t cap)
{
    uint64_t all = 0;
    bool grew = true;

    while (grew) {
        grew = false;
        for (unsigned i = 0; i < count; i++) {
            struct quota_ask ask = {.own = own[i],
                                    .more = 1,
                                    .all = all,
                                    .max = max,
                                    .cap = cap,
                                    .floor = 1};
            if (quota_judge(&ask) == QUOTA_GRANTED) {
                own[i]++;
                all++;
                grew = true;
            }
        }
    }
}

Test(node_quota, whoever_takes_all_he_can_leaves_room_for_the_next)
{
    for (unsigned count = 1; count <= 100; count++) {
        uint64_t own[100] = {0};
        uint64_t all = 0;
        fill(own, count, 20000, 0);
        for (unsigned i = 0; i < count; i++) {
            cr_assert_leq(own[i], 20000 / (count + 1) + 1);
            all += own[i];
        }
        cr_assert_geq(20000 - all, 20000 / (count + 1) - count,
                      "%u addresses left %lu", count,
                      (unsigned long)(20000 - all));
    }
}

Test(node_quota, a_fixed_limit_holds_for_each_address_and_the_bound_for_all)
{
    uint64_t own[3] = {0};

    fill(own, 3, 1000, 300);
    cr_assert(own[0] == 300 && own[1] == 300 && own[2] == 300);
    own[0] = own[1] = own[2] = 0;
    fill(own, 3, 100, 300);
    cr_assert_eq(own[0] + own[1] + own[2], 100);
}

Test(node_quota, the_floor_is_granted_whatever_is_free_but_never_what_is_not)
{
    struct quota_ask ask = {
        .own = 0, .more = 60, .all = 30, .max = 100, .floor = 64};

    cr_assert_eq(quota_judge(&ask), QUOTA_GRANTED);
    ask.more = 65;
    cr_assert_eq(quota_judge(&ask), QUOTA_OVER);
    ask.more = 71;
    cr_assert_eq(quota_judge(&ask), QUOTA_FULL);
}

Test(node_pace, a_trickle_falls_behind_and_a_steady_sender_does_not)
{
    const struct pace pace = {
        .start_us = 30000000, .total_us = 600000000, .bytes_per_s = 1024};

    cr_assert(pace_holds(&pace, 30000000, 0));
    cr_assert_not(pace_holds(&pace, 31000000, 1023));
    cr_assert(pace_holds(&pace, 31000000, 1024));
    cr_assert(pace_holds(&pace, 600000000, 64 << 20));
    cr_assert_not(pace_holds(&pace, 600000001, 64 << 20));
    cr_assert(pace_holds(&(struct pace){.start_us = 1}, UINT64_MAX, 0));
}
