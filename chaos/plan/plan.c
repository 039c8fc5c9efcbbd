/* Fleets, their sizes by each way, and what changes them. */
#include "chaos/plan/plan.h"

#define HOURS_A_YEAR 8760
#define TRIES_MAX    12U

static const double betas[3] = {PLAN_BETA_WHOLE, PLAN_BETA_SHORT,
                                PLAN_BETA_LONG};

static void
add_pool(const struct plan_setup *setup, struct plan_part part,
         uint32_t max_len, double beta, struct plan_fleet *fleet)
{
    if (part.count == 0) {
        return;
    }
    struct plan_pool *pool = &fleet->pools[fleet->pools_count++];
    *pool = (struct plan_pool){
        .demand = {.part = part,
                   .rate = setup->rate * part.share,
                   .max_len = max_len,
                   .slo = setup->slo},
        .slots = plan_engine_slots(&setup->engine, max_len),
    };
    pool->closed = plan_closed(&setup->engine, &pool->demand, beta);
    pool->corrected = plan_corrected(&setup->engine, &pool->demand);
    pool->engines[PLAN_BY_CLOSED] = pool->closed.engines;
    pool->engines[PLAN_BY_CORRECTED] = pool->corrected.engines;
}

static void
add_up(struct plan_fleet *fleet)
{
    for (unsigned way = 0; way < PLAN_WAYS; way++) {
        uint32_t sum = 0;
        bool known = true;
        for (uint32_t i = 0; i < fleet->pools_count; i++) {
            sum += fleet->pools[i].engines[way];
            known = known && fleet->pools[i].engines[way] > 0;
        }
        fleet->engines[way] = known ? sum : 0;
    }
}

void
plan_fleet_size(const struct plan_setup *setup, uint32_t threshold,
                struct plan_fleet *fleet)
{
    *fleet = (struct plan_fleet){.pools_count = 0};
    if (threshold == 0 || threshold >= setup->max_len) {
        add_pool(setup, plan_mix_part(setup->mix, 0, setup->max_len),
                 setup->max_len, betas[0], fleet);
    } else {
        add_pool(setup, plan_mix_part(setup->mix, 0, threshold), threshold,
                 betas[1], fleet);
        add_pool(setup, plan_mix_part(setup->mix, threshold, setup->max_len),
                 setup->max_len, betas[2], fleet);
    }
    add_up(fleet);
}

static int
play_pool(const struct plan_setup *setup, const struct plan_pool *pool,
          enum plan_way way, uint32_t requests, enum plan_route route,
          struct plan_samples *samples)
{
    struct plan_play play = {
        .engine = &setup->engine,
        .part = pool->demand.part,
        .rate = pool->demand.rate,
        .duration_s = requests / setup->rate,
        .engines = pool->engines[way],
        .slots = way == PLAN_BY_CLOSED ? pool->slots : pool->corrected.batch,
        .route = route,
        .seed = setup->seed,
    };

    return plan_play(&play, samples);
}

int
plan_fleet_play(const struct plan_setup *setup, const struct plan_fleet *fleet,
                enum plan_way way, uint32_t requests, enum plan_route route,
                struct plan_latency *latency)
{
    struct plan_samples samples;
    int error = 0;

    plan_samples_init(&samples);
    for (uint32_t i = 0; i < fleet->pools_count && error == 0; i++) {
        error =
            play_pool(setup, &fleet->pools[i], way, requests, route, &samples);
    }
    if (error == 0) {
        *latency = plan_samples_latency(&samples);
    }
    plan_samples_fini(&samples);
    return error;
}

/* Whether so many engines keep the promises: 1, 0, or -ENOMEM. */
static int
keeps(const struct plan_setup *setup, const struct plan_pool *pool,
      uint32_t engines)
{
    struct plan_fleet alone = {.pools = {*pool}, .pools_count = 1};
    struct plan_latency latency;

    alone.pools[0].engines[PLAN_BY_PLAY] = engines;
    int error = plan_fleet_play(setup, &alone, PLAN_BY_PLAY,
                                setup->requests * PLAN_LONG_HORIZON,
                                PLAN_LEAST_LOAD, &latency);
    if (error != 0) {
        return error;
    }
    return latency.ttft_p99 * 1000 <= setup->slo.ttft_ms &&
           latency.tpot_p99 * 1000 <= setup->slo.tpot_ms;
}

/* The least number of engines that keeps the promises, within 2 %, into the
 * pool; 0 when none near the corrected size does. */
static int
search(const struct plan_setup *setup, struct plan_pool *pool)
{
    uint32_t low = 0; /* too few */
    uint32_t high = 0;
    uint32_t try = pool->corrected.engines;

    for (uint32_t i = 0; i < TRIES_MAX && try > 0; i++) {
        int kept = keeps(setup, pool, try);
        if (kept < 0) {
            return kept;
        }
        if (kept > 0) {
            high = try;
        } else {
            low = try;
        }
        if (high > 0 && high - low <= 1 + high / 50) {
            break;
        }
        if (high == 0) {
            try += 1 + try / 5;
        } else if (low == 0) {
            try = high - 1 - high / 10;
        } else {
            try = low + (high - low) / 2;
        }
    }
    pool->engines[PLAN_BY_PLAY] = high;
    return 0;
}

static int
play_fleet(const struct plan_setup *setup, struct plan_fleet *fleet)
{
    int error = 0;

    for (uint32_t i = 0; i < fleet->pools_count && error == 0; i++) {
        if (!fleet->pools[i].corrected.late) {
            error = search(setup, &fleet->pools[i]);
        }
    }
    add_up(fleet);
    fleet->latency_of =
        fleet->engines[PLAN_BY_PLAY] > 0 ? PLAN_BY_PLAY : PLAN_BY_CORRECTED;
    if (fleet->engines[fleet->latency_of] == 0) {
        return error;
    }
    for (uint32_t h = 0; h < 2 && error == 0; h++) {
        error =
            plan_fleet_play(setup, fleet, fleet->latency_of,
                            setup->requests * (h == 0 ? 1 : PLAN_LONG_HORIZON),
                            PLAN_LEAST_LOAD, &fleet->latency[h]);
    }
    return error;
}

static void
sweep(struct plan *plan)
{
    struct plan_fleet fleet;

    for (uint32_t i = 0; i < PLAN_SWEEP_MAX; i++) {
        uint32_t threshold = 1024U << i;
        if (threshold >= plan->setup.max_len) {
            break;
        }
        plan_fleet_size(&plan->setup, threshold, &fleet);
        plan->sweep[plan->sweep_count++] = (struct plan_step){
            .threshold = threshold,
            .share = plan_mix_part(plan->setup.mix, 0, threshold).share,
            .engines = {fleet.engines[PLAN_BY_CLOSED],
                        fleet.engines[PLAN_BY_CORRECTED]},
        };
    }
}

/* Sizes a fleet again with this share of prompts in caches. */
static uint32_t
size_cached(const struct plan_setup *setup, const struct plan_fleet *fleet,
            uint32_t permille)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < fleet->pools_count; i++) {
        struct plan_demand demand = fleet->pools[i].demand;
        demand.cached_permille = permille;
        uint32_t engines = plan_corrected(&setup->engine, &demand).engines;
        if (engines == 0) {
            return 0;
        }
        sum += engines;
    }
    return sum;
}

/* One more row: another rate or promise, or so much of prompts in caches. */
static void
ask(struct plan *plan, const char *what, const struct plan_setup *changed,
    uint32_t cached_permille)
{
    struct plan_what_if *w = &plan->what_ifs[plan->what_ifs_count++];
    struct plan_fleet fleet;

    CHECK(plan->what_ifs_count <= PLAN_WHAT_IFS);
    w->what = what;
    plan_fleet_size(changed, 0, &fleet);
    w->engines[0] = size_cached(changed, &fleet, cached_permille);
    plan_fleet_size(changed, changed->threshold, &fleet);
    w->engines[1] = size_cached(changed, &fleet, cached_permille);
}

static void
ask_what_if(struct plan *plan)
{
    const struct plan_setup *setup = &plan->setup;
    struct plan_setup changed = *setup;

    changed.rate *= 1.5;
    ask(plan, "half as many requests again", &changed, 0);
    changed = *setup;
    changed.slo.ttft_ms = (setup->slo.ttft_ms + 1) / 2;
    ask(plan, "TTFT within half of that", &changed, 0);
    changed = *setup;
    changed.slo.tpot_ms = (setup->slo.tpot_ms + 1) / 2;
    ask(plan, "tokens twice as fast", &changed, 0);
    ask(plan, "half of all prompts' tokens are cached", setup, 500);
    ask(plan, "nine in ten of them are cached", setup, 900);
    if (setup->seen.nodes > 0) {
        ask(plan, "as many are cached as now", setup,
            (uint32_t)(setup->seen.cached * 1000));
    }
}

int
plan_make(const struct plan_setup *setup, struct plan *plan)
{
    int error = 0;

    CHECK(setup->rate > 0 && setup->max_len > 0);
    *plan = (struct plan){.setup = *setup};
    plan_fleet_size(setup, 0, &plan->whole);
    plan_fleet_size(setup, setup->threshold, &plan->split);
    sweep(plan);
    ask_what_if(plan);
    if (setup->requests > 0) {
        error = play_fleet(setup, &plan->whole);
    }
    if (setup->requests > 0 && error == 0) {
        error = play_fleet(setup, &plan->split);
    }
    return error;
}

double
plan_saving(uint32_t whole, uint32_t split)
{
    return whole > 0 && split > 0 ? 1 - (double)split / whole : 0;
}

/* A fleet with a pool that is late keeps no promise, whatever its size. */
static uint32_t
engines_of(const struct plan_fleet *fleet, enum plan_way way)
{
    for (uint32_t i = 0; i < fleet->pools_count; i++) {
        if (fleet->pools[i].corrected.late) {
            return 0;
        }
    }
    return fleet->engines[way];
}

const struct plan_fleet *
plan_answer(const struct plan *plan, enum plan_way *way)
{
    *way = plan->setup.requests > 0 ? PLAN_BY_PLAY : PLAN_BY_CORRECTED;
    uint32_t whole = engines_of(&plan->whole, *way);
    uint32_t split = engines_of(&plan->split, *way);

    if (whole == 0 && split == 0) {
        return NULL;
    }
    return split > 0 && (whole == 0 || split < whole) ? &plan->split
                                                      : &plan->whole;
}

double
plan_cost(const struct plan_setup *setup, uint32_t engines)
{
    return (double)engines * setup->engine.gpus * setup->price * HOURS_A_YEAR;
}
