/* A table of counts that fade. */
#include "node/view/heat.h"

#include "index/base/rng.h"

#define REQUEST   1000U      /* thousandths */
#define COUNT_MAX 100000000U /* a hundred thousand requests */

static const struct heat_place *
place_of(const struct heat *heat, uint64_t key)
{
    return &heat->place[rng_mix(key) % HEAT_PLACES];
}

/* e to the minus x, of x up to ln 2: the first terms of its series. In 65,536ths,
 * and so is the result. */
static uint64_t
left_after(uint64_t x)
{
    uint64_t square = x * x >> 16;

    return 65536 - x + square / 2 - (square * x >> 16) / 6;
}

static uint32_t
faded(uint64_t stamped, uint64_t now_ms)
{
    uint32_t age_ms = (uint32_t)now_ms - (uint32_t)(stamped >> 32);
    uint32_t halvings = age_ms / HEAT_HALF_MS;
    uint64_t count = (uint32_t)stamped;

    if (halvings >= 32) {
        return 0;
    }
    uint64_t x = UINT64_C(65536) * (age_ms % HEAT_HALF_MS) / HEAT_FADE_MS;
    return (uint32_t)((count >> halvings) * left_after(x) >> 16);
}

static void
count_one(struct heat *heat, uint64_t key, uint64_t now_ms)
{
    struct heat_place *place = &heat->place[rng_mix(key) % HEAT_PLACES];
    uint32_t count = faded(counter_read(&place->count), now_ms);

    if (counter_read(&place->key) != key) {
        if (count >= REQUEST) {
            counter_bump(&heat->lost, 1);
            return;
        }
        count = 0;
        counter_set(&place->count, 0);
        counter_set(&place->key, key);
    }
    count = count < COUNT_MAX ? count + REQUEST : count;
    counter_set(&place->count, now_ms << 32 | count);
}

void
heat_pass(struct heat *heat, uint64_t now_us)
{
    counter_set(&heat->now_ms, now_us / 1000);
}

void
heat_add(struct heat *heat, const uint64_t *keys, uint32_t count,
         uint64_t now_us)
{
    heat_pass(heat, now_us);
    for (uint32_t i = 0; i < count; i++) {
        count_one(heat, keys[i], now_us / 1000);
    }
}

uint32_t
heat_of(const struct heat *heat, uint64_t key)
{
    const struct heat_place *place = place_of(heat, key);

    return counter_read(&place->key) == key
               ? faded(counter_read(&place->count), counter_read(&heat->now_ms))
               : 0;
}
