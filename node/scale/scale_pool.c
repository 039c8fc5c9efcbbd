/* Where the next engine is asked for. */
#include "node/scale/scale_pool.h"

const char *
scale_may_name(enum scale_may may)
{
    static const char *const names[SCALE_MAYS] = {
        [SCALE_MAY_ASK] = "open",  [SCALE_MAY_LEAST] = "least",
        [SCALE_MAY_FULL] = "full", [SCALE_MAY_DEAR] = "budget",
        [SCALE_MAY_FAR] = "far",   [SCALE_MAY_LATE] = "backs_off",
    };

    CHECK(may < SCALE_MAYS);
    return names[may];
}

void
scale_record_missed(struct scale_record_of *record, uint64_t now_us)
{
    record->missed += record->missed < UINT32_MAX;
    record->missed_us = now_us;
}

void
scale_record_came(struct scale_record_of *record)
{
    record->missed = 0;
}

uint64_t
scale_record_until_us(const struct scale_record_of *record,
                      uint32_t provision_ms)
{
    uint64_t most_ms =
        provision_ms > SCALE_BACK_OFF_MS ? provision_ms : SCALE_BACK_OFF_MS;
    uint64_t wait_ms = provision_ms;

    if (record->missed == 0) {
        return 0;
    }
    for (uint32_t i = 1; i < record->missed && wait_ms < most_ms; i++) {
        wait_ms *= 2;
    }
    return record->missed_us +
           UINT64_C(1000) * (wait_ms < most_ms ? wait_ms : most_ms);
}

static uint64_t
until_us(const struct scale_market *market, uint32_t at)
{
    uint64_t until =
        scale_record_until_us(&market->pool[at].record, market->provision_ms);

    return until > market->now_us ? until : 0;
}

static bool
is_near(const struct scale_market *market, uint32_t at, uint32_t place)
{
    uint32_t way_us = market->pool[at].way_us[place];

    return market->within_us == SCALE_ANY_WAY ||
           (way_us != SCALE_WAY_UNKNOWN && way_us <= market->within_us);
}

static bool
is_near_any(const struct scale_market *market, uint32_t at)
{
    bool near = false;

    for (uint32_t i = 0; i < market->places && !near; i++) {
        near = is_near(market, at, i);
    }
    return near;
}

enum scale_may
scale_market_may(const struct scale_market *market, uint32_t at)
{
    const struct scale_pool *pool = &market->pool[at];
    bool lacks = pool->engines < pool->min;

    CHECK(at < market->pools && market->pools <= SCALE_POOLS_MAX);
    CHECK(market->places > 0 && market->places <= SCALE_PLACES_MAX);
    return pool->engines >= pool->max                ? SCALE_MAY_FULL
           : pool->price_milli > market->money_milli ? SCALE_MAY_DEAR
           : !lacks && !is_near_any(market, at)      ? SCALE_MAY_FAR
           : until_us(market, at) != 0               ? SCALE_MAY_LATE
           : lacks                                   ? SCALE_MAY_LEAST
                                                     : SCALE_MAY_ASK;
}

/* Whether a comes before b, both of which may be asked. */
static bool
is_better(const struct scale_market *market, uint32_t a, uint32_t b,
          uint32_t place)
{
    const struct scale_pool *x = &market->pool[a];
    const struct scale_pool *y = &market->pool[b];
    uint64_t x_us = until_us(market, a);
    uint64_t y_us = until_us(market, b);

    if (x_us != y_us) {
        return x_us < y_us;
    }
    if (x->price_milli != y->price_milli) {
        return x->price_milli < y->price_milli;
    }
    return x->way_us[place] < y->way_us[place];
}

/* Whether a's requests have fewer engines near them than b's. */
static bool
needs_more(const struct scale_place *a, const struct scale_place *b)
{
    return (a->requests + 1) * (b->engines + UINT64_C(1)) >
           (b->requests + 1) * (a->engines + UINT64_C(1));
}

/* The place that needs one most, of those that were not tried. */
static bool
find_place(const struct scale_market *market, const bool *tried,
           uint32_t *place)
{
    bool found = false;

    for (uint32_t i = 0; i < market->places; i++) {
        if (!tried[i] &&
            (!found || needs_more(&market->place[i], &market->place[*place]))) {
            *place = i;
            found = true;
        }
    }
    return found;
}

/* What is looked for: one that lacks engines; one that may be asked; one that
 * backs off. */
enum pass {
    PASS_LEAST,
    PASS_OPEN,
    PASS_ANY
};

static bool
fits(const struct scale_market *market, uint32_t at, uint32_t place,
     enum pass pass)
{
    enum scale_may may = scale_market_may(market, at);

    switch (pass) {
    case PASS_LEAST:
        return may == SCALE_MAY_LEAST;
    case PASS_OPEN:
        return may == SCALE_MAY_ASK && is_near(market, at, place);
    case PASS_ANY:
        break;
    }
    const struct scale_pool *pool = &market->pool[at];
    return may == SCALE_MAY_LATE &&
           (pool->engines < pool->min || is_near(market, at, place));
}

static bool
find_pool(const struct scale_market *market, uint32_t place, enum pass pass,
          uint32_t *best)
{
    bool found = false;

    for (uint32_t i = 0; i < market->pools; i++) {
        if (fits(market, i, place, pass) &&
            (!found || is_better(market, i, *best, place))) {
            *best = i;
            found = true;
        }
    }
    return found;
}

static void
buy(struct scale_market *market, uint32_t at)
{
    struct scale_pool *pool = &market->pool[at];

    pool->engines++;
    if (market->money_milli != SCALE_MONEY_NO_END) {
        market->money_milli -= pool->price_milli;
    }
    for (uint32_t i = 0; i < market->places; i++) {
        market->place[i].engines += is_near(market, at, i);
    }
}

static bool
buy_in(struct scale_market *market, enum pass pass, uint32_t *at)
{
    bool tried[SCALE_PLACES_MAX] = {false};
    uint32_t place = 0;

    while (find_place(market, tried, &place)) {
        if (find_pool(market, place, pass, at)) {
            buy(market, *at);
            return true;
        }
        tried[place] = true;
    }
    return false;
}

bool
scale_market_buy(struct scale_market *market, uint32_t *at)
{
    return buy_in(market, PASS_LEAST, at) || buy_in(market, PASS_OPEN, at) ||
           buy_in(market, PASS_ANY, at);
}

uint32_t
scale_market_room(const struct scale_market *market, uint32_t most, bool *poor)
{
    struct scale_market copy = *market;
    uint32_t at = 0;
    uint32_t room = 0;

    *poor = false;
    while (room < most && scale_market_buy(&copy, &at)) {
        room++;
    }
    for (uint32_t i = 0; i < copy.pools; i++) {
        *poor = *poor || scale_market_may(&copy, i) == SCALE_MAY_DEAR;
    }
    return room;
}

uint32_t
scale_market_lack(const struct scale_market *market)
{
    struct scale_market copy = *market;
    uint32_t at = 0;
    uint32_t lack = 0;

    while (buy_in(&copy, PASS_LEAST, &at)) {
        lack++;
    }
    return lack;
}
