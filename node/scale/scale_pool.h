/*
 * Where engines are made: pools, each with an island, a price, and something
 * that makes engines there and ends them.
 *
 * Which one is asked for the next engine, of those that may be asked:
 *
 *   below min  first, whatever the way there
 *   near       to the place that needs it most. A place is an island in which
 *              nodes get requests; its need are these, for each engine that is
 *              within the bound of it. A pool is near where the way from there
 *              is known and within the bound; without a bound all are
 *   cheap      the least price; of equals the shorter way, then the earlier one
 *
 * None is asked beyond its max, nor beyond what the budget has left. One that
 * an engine was asked of and did not come backs off: for the time that an
 * engine has to come, twice as long each time, up to SCALE_BACK_OFF_MS, until
 * one comes. Meanwhile others are asked, near another place too. Where nobody
 * else may be asked it is asked all the same, the first whose time is over
 * first: a single pool never says no.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: SCALE_POOLS_MAX,
 * SCALE_PLACES_MAX. Errors: none.
 */
#ifndef NODE_SCALE_POOL_H
#define NODE_SCALE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"

#define SCALE_POOLS_MAX    16U
#define SCALE_POOL_MAX     32U /* a pool's name and its NUL */
#define SCALE_PLACES_MAX   16U
#define SCALE_BACK_OFF_MS  UINT32_C(3600000)
#define SCALE_WAY_UNKNOWN  UINT32_MAX
#define SCALE_ANY_WAY      UINT32_MAX
#define SCALE_MONEY_NO_END UINT64_MAX

/* What came of the engines that were asked of a pool. All zero at first. */
struct scale_record_of {
    uint32_t missed;    /* in a row */
    uint64_t missed_us; /* when the last one was given up */
};

struct scale_pool {
    uint32_t engines; /* of the group, that are there or come */
    uint32_t min;
    uint32_t max;
    uint32_t price_milli; /* of an engine an hour */
    struct scale_record_of record;
    uint32_t way_us[SCALE_PLACES_MAX]; /* from each place; or unknown */
};

struct scale_place {
    uint64_t requests; /* in any unit that is the same for all */
    uint32_t engines;  /* within the bound of it */
};

/* All that may be bought for a group, now. */
struct scale_market {
    uint32_t pools;
    struct scale_pool pool[SCALE_POOLS_MAX];
    uint32_t places; /* 1 or more */
    struct scale_place place[SCALE_PLACES_MAX];
    uint32_t within_us;    /* the bound; SCALE_ANY_WAY: none */
    uint64_t money_milli;  /* an hour, that may still be spent */
    uint32_t provision_ms; /* see scale.h */
    uint64_t now_us;
};

/* Why a pool may be asked, or not. */
enum scale_may {
    SCALE_MAY_ASK,
    SCALE_MAY_LEAST, /* it has fewer than its min */
    SCALE_MAY_LATE,  /* it backs off: others are asked first */
    SCALE_MAY_FULL,
    SCALE_MAY_DEAR, /* the budget does not allow it */
    SCALE_MAY_FAR,  /* no place with requests is near */
    SCALE_MAYS,     /* how many there are */
};

/* "open", "least", "backs_off", "full", "budget", "far": static text. */
const char *scale_may_name(enum scale_may may);

/* Of the pool in that place. */
enum scale_may scale_market_may(const struct scale_market *market, uint32_t at);

/* Buys one engine: where. False: no pool may be asked. */
bool scale_market_buy(struct scale_market *market, uint32_t *at) MUST_CHECK;

/* How many could be bought, up to `most`. poor: for more there is no money. */
uint32_t scale_market_room(const struct scale_market *market, uint32_t most,
                           bool *poor);

/* How many must be bought now for each pool to have its min. */
uint32_t scale_market_lack(const struct scale_market *market);

/* An engine was asked for there, and did not come in time; came. */
void scale_record_missed(struct scale_record_of *record, uint64_t now_us);
void scale_record_came(struct scale_record_of *record);

/* When it backs off no more; 0: it does not. */
uint64_t scale_record_until_us(const struct scale_record_of *record,
                               uint32_t provision_ms);

#endif
