#include <criterion/criterion.h>

#include "node/scale/scale_pool.h"

#define SECOND UINT64_C(1000000)
#define MS     UINT32_C(1000)

/* Two places, 80 ms apart: pools 0 and 1 are at the first one, 2 at the other. */
static struct scale_market market;

static void
setup(void)
{
    market = (struct scale_market){
        .pools = 3,
        .pool = {{.max = 9, .price_milli = 3000, .way_us = {0, 80 * MS}},
                 {.max = 9, .price_milli = 2000, .way_us = {0, 80 * MS}},
                 {.max = 9, .price_milli = 1000, .way_us = {80 * MS, 0}}},
        .places = 2,
        .place = {{.requests = 90, .engines = 2},
                  {.requests = 10, .engines = 1}},
        .within_us = SCALE_ANY_WAY,
        .money_milli = SCALE_MONEY_NO_END,
        .provision_ms = 60000,
        .now_us = 10000 * SECOND};
}

TestSuite(node_scale_pool, .init = setup);

/* Where the next one is bought; 99: nowhere. */
static uint32_t
bought(void)
{
    uint32_t at = 99;

    return scale_market_buy(&market, &at) ? at : 99;
}

Test(node_scale_pool, the_cheapest_is_asked)
{
    cr_expect_eq(bought(), 2);
    market.pool[0].price_milli = 1000;
    cr_expect_eq(bought(), 0, "of equals the nearer one");
    market.pool[1].price_milli = 1000;
    cr_expect_eq(bought(), 0, "then the earlier one");
    cr_expect_eq(market.pool[0].engines, 2);
}

Test(node_scale_pool, what_is_too_far_from_the_requests_is_not_asked)
{
    market.within_us = 20 * MS;
    cr_expect_eq(scale_market_may(&market, 2), SCALE_MAY_ASK);
    cr_expect_eq(bought(), 1, "45 for each there, and 10 here");
    market.places = 1;
    cr_expect_eq(scale_market_may(&market, 2), SCALE_MAY_FAR);
    market.pool[0].max = market.pool[1].max = 0;
    cr_expect_eq(bought(), 99);
    market.within_us = 80 * MS;
    cr_expect_eq(bought(), 2);
    market.pool[2].way_us[0] = SCALE_WAY_UNKNOWN;
    cr_expect_eq(bought(), 99);
}

Test(node_scale_pool, each_place_gets_its_share)
{
    uint32_t count[3] = {0};

    market.within_us = 20 * MS;
    market.place[0].engines = market.place[1].engines = 0;
    market.pool[1].max = 100;
    for (uint32_t i = 0; i < 20; i++) {
        count[bought()]++;
    }
    cr_expect_eq(count[1] + count[0], 18, "%u", count[1]);
    cr_expect_eq(count[2], 2);
    cr_expect_eq(market.place[0].engines, 18);
}

Test(node_scale_pool, where_a_place_has_no_pool_left_another_one_gets_it)
{
    market.within_us = 20 * MS;
    market.pool[0].max = market.pool[1].max = 0;
    cr_expect_eq(bought(), 2);
}

Test(node_scale_pool, what_did_not_come_is_asked_for_elsewhere)
{
    scale_record_missed(&market.pool[2].record, market.now_us);
    cr_expect_eq(scale_market_may(&market, 2), SCALE_MAY_LATE);
    cr_expect_eq(bought(), 1);
    scale_record_missed(&market.pool[1].record, market.now_us + SECOND);
    cr_expect_eq(bought(), 0);
    market.pool[0].max = 0;
    cr_expect_eq(bought(), 2, "all back off: whose time is over first");
    market.now_us += 59 * SECOND;
    cr_expect_eq(scale_market_may(&market, 2), SCALE_MAY_LATE);
    market.now_us += SECOND;
    cr_expect_eq(scale_market_may(&market, 2), SCALE_MAY_ASK);
    scale_record_missed(&market.pool[2].record, market.now_us);
    market.now_us += 119 * SECOND;
    cr_expect_eq(scale_market_may(&market, 2), SCALE_MAY_LATE, "twice as long");
    market.now_us += SECOND;
    cr_expect_eq(bought(), 2);
    for (uint32_t i = 0; i < 100; i++) {
        scale_record_missed(&market.pool[2].record, market.now_us);
    }
    cr_expect_eq(scale_record_until_us(&market.pool[2].record, 60000),
                 market.now_us + 3600 * SECOND, "an hour at most");
    scale_record_came(&market.pool[2].record);
    cr_expect_eq(bought(), 2);
}

Test(node_scale_pool, a_single_pool_never_says_no)
{
    market.pools = 1;
    scale_record_missed(&market.pool[0].record, market.now_us);
    cr_expect_eq(bought(), 0);
}

Test(node_scale_pool, max_and_money_bound_it)
{
    bool poor = true;

    market.pool[2].max = 2;
    cr_expect_eq(scale_market_room(&market, 99, &poor), 20);
    cr_expect_not(poor);
    cr_expect_eq(scale_market_room(&market, 7, &poor), 7);
    market.money_milli = 7500; /* 1 + 1 + 2 + 2, and 1.5 are left */
    cr_expect_eq(scale_market_room(&market, 99, &poor), 4);
    cr_expect(poor);
    cr_expect_eq(market.pool[2].engines, 0, "nothing was bought");
    for (uint32_t i = 0; i < 4; i++) {
        cr_expect_eq(bought(), i < 2 ? 2 : 1);
    }
    cr_expect_eq(market.money_milli, 1500);
    cr_expect_eq(bought(), 99);
    cr_expect_eq(scale_market_may(&market, 1), SCALE_MAY_DEAR);
    cr_expect_eq(scale_market_may(&market, 2), SCALE_MAY_FULL);
}

Test(node_scale_pool, a_pool_below_its_min_comes_first)
{
    market.within_us = 20 * MS;
    market.places = 1;
    market.pool[0].min = 1; /* dear */
    market.pool[2].min = 2; /* far */
    cr_expect_eq(scale_market_lack(&market), 3);
    cr_expect_eq(bought(), 2);
    cr_expect_eq(bought(), 2);
    cr_expect_eq(bought(), 0);
    cr_expect_eq(scale_market_lack(&market), 0);
    cr_expect_eq(bought(), 1);
    market.pool[2].min = 4;
    market.pool[0].min = 3;
    market.money_milli = 4000;
    cr_expect_eq(scale_market_lack(&market), 2,
                 "two of the cheap one are paid");
    market.money_milli = SCALE_MONEY_NO_END;
    scale_record_missed(&market.pool[2].record, market.now_us);
    cr_expect_eq(scale_market_lack(&market), 2, "what backs off is not asked");
}
