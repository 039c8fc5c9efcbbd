/* A replay from its setup to its result; replay_flow.c is what happens in
 * between. */
#include "chaos/replay/replay_world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/replay/replay_flow_internal.h"
#include "mesh/mesh.h"

#define EVENTS_MAX (1U << 26)
#define READERS    2U /* of one engine's events */

static const char *const policy_names[] = {
    [REPLAY_KVASIR] = "kvasir",
    [REPLAY_SLO] = "slo",
    [REPLAY_SHARES] = "shares",
    [REPLAY_SPLIT] = "split",
    [REPLAY_BELIEF] = "belief",
    [REPLAY_ROUND_ROBIN] = "round_robin",
    [REPLAY_LEAST_LOAD] = "least_load",
    [REPLAY_RANDOM] = "random",
    [REPLAY_POWER_OF_TWO] = "power_of_two",
    [REPLAY_RENDEZVOUS] = "rendezvous",
    [REPLAY_PREFIX_HASH] = "prefix_hash",
    [REPLAY_CONSISTENT_HASHING] = "consistent_hashing",
    [REPLAY_CACHE_AWARE] = "cache_aware",
    [REPLAY_COMPOSITE] = "composite",
    [REPLAY_DYNAMO] = "dynamo",
    [REPLAY_GREEDY] = "all_seeing_greedy",
    [REPLAY_SOONEST] = "soonest",
    [REPLAY_STICKY] = "sticky",
};

const char *
replay_policy_name(enum replay_policy policy)
{
    CHECK(policy < REPLAY_POLICIES);
    return policy_names[policy];
}

bool
replay_policy_find(struct slice name, enum replay_policy *policy)
{
    for (unsigned i = 0; i < REPLAY_POLICIES; i++) {
        if (slice_equal(name, slice_of(policy_names[i]))) {
            *policy = (enum replay_policy)i;
            return true;
        }
    }
    return false;
}

static enum elect_policy
elect_policy_of(enum replay_policy policy)
{
    switch (policy) {
    case REPLAY_ROUND_ROBIN:
        return ELECT_ROUND_ROBIN;
    case REPLAY_LEAST_LOAD:
        return ELECT_LEAST_LOAD;
    case REPLAY_RANDOM:
        return ELECT_RANDOM;
    case REPLAY_POWER_OF_TWO:
        return ELECT_POWER_OF_TWO;
    case REPLAY_RENDEZVOUS:
        return ELECT_RENDEZVOUS;
    case REPLAY_PREFIX_HASH:
        return ELECT_PREFIX_HASH;
    case REPLAY_CONSISTENT_HASHING:
        return ELECT_CONSISTENT_HASHING;
    case REPLAY_CACHE_AWARE:
        return ELECT_CACHE_AWARE;
    case REPLAY_COMPOSITE:
        return ELECT_COMPOSITE;
    case REPLAY_DYNAMO:
        return ELECT_DYNAMO;
    case REPLAY_KVASIR:
    case REPLAY_SLO:
    case REPLAY_SHARES:
    case REPLAY_SPLIT:
    case REPLAY_BELIEF:
    case REPLAY_GREEDY:
    case REPLAY_SOONEST:
    case REPLAY_STICKY:
    case REPLAY_POLICIES:
        break;
    }
    return ELECT_KVASIR;
}

/* The nodes that read an engine's events, as mesh/ decides it. */
static struct worker_set
readers_of(const struct replay_world *world, uint32_t engine)
{
    struct owner_member members[REPLAY_NODES_MAX];
    uint32_t ranked[READERS];
    struct event_stream stream = {.worker = rng_mix(engine)};
    struct worker_set readers;
    char name[32];

    for (uint32_t i = 0; i < world->nodes_count; i++) {
        (void)snprintf(name, sizeof(name), "node-%u", i);
        members[i] = (struct owner_member){.name = owner_name(name)};
    }
    uint32_t count =
        owner_rank(&stream, members, world->nodes_count, ranked, READERS);
    worker_set_clear(&readers);
    for (uint32_t i = 0; i < count; i++) {
        worker_set_add(&readers, ranked[i]);
    }
    CHECK(worker_set_count(&readers) == count && count > 0);
    return readers;
}

static struct engine_config
at_speed(const struct engine_config *config, uint32_t permille)
{
    struct engine_config own = *config;

    if (permille != 0) {
        own.step_us = (uint32_t)(config->step_us * UINT64_C(1000) / permille);
        own.step_per_seq_us =
            (uint32_t)(config->step_per_seq_us * UINT64_C(1000) / permille);
        own.step_per_context_ps =
            (uint32_t)(config->step_per_context_ps * UINT64_C(1000) / permille);
        own.prefill_per_pair_ps =
            (uint32_t)(config->prefill_per_pair_ps * UINT64_C(1000) / permille);
        uint64_t rate =
            config->prefill_tokens_per_s * (uint64_t)permille / 1000;
        own.prefill_tokens_per_s = rate > 0 ? (uint32_t)rate : 1;
    }
    return own;
}

/* All engines have one seed: they name blocks alike. */
static int
open_engines(struct replay_world *world)
{
    struct engine_config config = world->setup.engine;
    uint32_t step_blocks =
        config.batch_tokens_max / config.block_tokens + config.running_max + 1;

    config.requests_max = world->load->count;
    config.request_tokens_max = UINT32_MAX;
    config.events = replay_knows_events(world);
    config.bare = true;
    world->engines = calloc(world->setup.engines, sizeof(*world->engines));
    if (world->engines == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < world->setup.engines; i++) {
        struct replay_engine *e = &world->engines[i];
        struct engine_config own =
            at_speed(&config, world->setup.speed_permille[i]);
        if (i < world->setup.short_engines) {
            own.request_tokens_max = world->setup.short_len;
        }
        int error = engine_init(&e->engine, &own, 0, world->setup.seed);
        e->wake_us = VIRTUAL_TIME_NEVER;
        e->readers = readers_of(world, i);
        e->changed.max = 4 * step_blocks; /* an op and a key, two changes */
        e->changed.words = calloc(e->changed.max, sizeof(*e->changed.words));
        if (error != 0 || e->changed.words == NULL) {
            return -ENOMEM;
        }
    }
    world->root = engine_key_root(&world->engines[0].engine, 0);
    return 0;
}

static int
open_heard(struct replay_world *world)
{
    struct worker_set readers[WORKERS_MAX];

    for (uint32_t i = 0; i < world->setup.engines; i++) {
        readers[i] = world->engines[i].readers;
    }
    return replay_heard_init(&world->heard, readers, world->setup.engines,
                             world->nodes_count);
}

/* What nodes that have seen all of the load would have their threshold at. */
static uint32_t
pool_threshold(const struct replay_world *world)
{
    const struct replay_setup *setup = &world->setup;
    struct pool_engines engines = {
        .shorter = setup->short_engines,
        .longer = setup->engines - setup->short_engines,
        .short_len = setup->short_len};
    struct pool_budgets budgets = {.requests = {0}};
    struct pool_told told = {.threshold = 0};

    for (uint32_t i = 0; i < world->load->count && setup->pool_tune; i++) {
        const struct replay_request *r = &world->load->requests[i];
        pool_budgets_add(&budgets, r->prompt_tokens + r->output_tokens,
                         r->prompt_tokens, r->output_tokens);
    }
    told = pool_tune_judge(&budgets, &engines, &told);
    return told.threshold != 0 ? told.threshold : setup->elect.pool_threshold;
}

static int
open_nodes(struct replay_world *world)
{
    const struct replay_setup *setup = &world->setup;
    uint32_t block = setup->engine.block_tokens;
    struct replay_node_config config = {
        .elect = setup->elect,
        .engines = setup->engines,
        .engine_blocks = setup->engine.blocks_max,
        .block_tokens = block,
        .depth_max = replay_load_longest_prompt(world->load) / block + 16,
        .heard = &world->heard,
        .short_engines = setup->short_engines,
        .short_len = setup->short_len,
        .expected_ms = setup->expected_ms,
        .events = replay_knows_events(world),
        .islands = setup->islands,
        .away_us = setup->away_us,
        .link_ms = setup->link_ms,
    };

    if (setup->policy == REPLAY_SPLIT && setup->engines > 1) {
        config.prefill =
            setup->prefill != 0 ? setup->prefill : setup->engines / 2;
    }
    CHECK(config.prefill < setup->engines);
    config.elect.pool_threshold = pool_threshold(world);
    world->result.pool_threshold =
        setup->short_engines != 0 ? config.elect.pool_threshold : 0;
    config.elect.policy = elect_policy_of(setup->policy);
    if (setup->policy == REPLAY_SLO) {
        config.slo =
            (struct speed_slo){.ttft_us = setup->slo_ttft_ms * UINT64_C(1000),
                               .itl_us = setup->slo_itl_ms * UINT64_C(1000)};
    }
    world->nodes = calloc(world->nodes_count, sizeof(*world->nodes));
    world->rates = calloc(world->nodes_count, sizeof(*world->rates));
    world->told_queued = calloc((size_t)world->nodes_count * setup->engines,
                                sizeof(*world->told_queued));
    world->heard_queued = calloc((size_t)world->nodes_count * setup->engines,
                                 sizeof(*world->heard_queued));
    if (world->nodes == NULL || world->rates == NULL ||
        world->told_queued == NULL || world->heard_queued == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        config.island = setup->islands > 1 ? i % setup->islands : 0;
        config.place = (struct turns_place){i, world->nodes_count};
        config.number = i;
        int error = replay_node_init(&world->nodes[i], &config,
                                     rng_mix(setup->seed + i));
        if (error != 0) {
            world->nodes_count = i;
            return error;
        }
    }
    return 0;
}

static int
open_memory(struct replay_world *world)
{
    size_t count = world->load->count;
    size_t longest = replay_load_longest(world->load) + (size_t)1;

    world->flights = calloc(count, sizeof(*world->flights));
    world->ttft_us = calloc(count, sizeof(*world->ttft_us));
    if (world->setup.islands > 1) {
        world->side_us = calloc(count, sizeof(*world->side_us));
    }
    for (unsigned i = 0; i < 2; i++) {
        world->pool_us[i] = calloc(count, sizeof(*world->pool_us[i]));
    }
    world->whole_us = calloc(count, sizeof(*world->whole_us));
    world->itl_us = calloc(count, sizeof(*world->itl_us));
    world->tokens = calloc(longest, sizeof(*world->tokens));
    world->keys = calloc(longest, sizeof(*world->keys));
    return world->flights == NULL || world->ttft_us == NULL ||
                   (world->setup.islands > 1 && world->side_us == NULL) ||
                   world->pool_us[0] == NULL || world->pool_us[1] == NULL ||
                   world->whole_us == NULL || world->itl_us == NULL ||
                   world->tokens == NULL || world->keys == NULL
               ? -ENOMEM
               : 0;
}

int
replay_world_init(struct replay_world *world, const struct replay_setup *setup,
                  const struct replay_load *load)
{
    CHECK(setup->engines > 0 && setup->engines <= WORKERS_MAX);
    CHECK(setup->nodes > 0 && setup->nodes <= REPLAY_NODES_MAX);
    CHECK(setup->load_permille > 0 && setup->gauge_us > 0);
    CHECK(setup->metrics_us > 0 && load->count > 0);
    CHECK(setup->islands <= 1 ||
          (setup->islands <= setup->nodes && setup->islands <= setup->engines &&
           setup->islands <= REPLAY_ISLANDS_MAX && !setup->sequential &&
           !replay_sees_all(setup->policy) && setup->policy != REPLAY_SPLIT));
    *world = (struct replay_world){
        .setup = *setup,
        .load = load,
        .nodes_count = replay_sees_all(setup->policy) || setup->sequential
                           ? 1
                           : setup->nodes,
        .left = load->count,
        .first_us = UINT64_MAX,
    };
    virtual_time_init(&world->time, EVENTS_MAX, 0);
    rng_init(&world->rng, rng_mix(setup->seed));
    int error = open_memory(world);
    if (error == 0) {
        error = open_engines(world);
    }
    if (error == 0) {
        error = open_heard(world);
    }
    if (error == 0) {
        error = open_nodes(world);
    }
    if (error == 0 && setup->scaler != REPLAY_SCALE_FIXED) {
        replay_scale_begin(world);
    }
    if (error == 0) {
        error = replay_flow_begin(world);
    }
    if (error < 0) {
        replay_world_fini(world);
    }
    return error;
}

void
replay_world_fini(struct replay_world *world)
{
    replay_flow_drop(world);
    for (uint32_t i = 0; i < world->nodes_count && world->nodes != NULL; i++) {
        replay_node_fini(&world->nodes[i]);
    }
    for (uint32_t i = 0; i < world->setup.engines && world->engines != NULL;
         i++) {
        engine_fini(&world->engines[i].engine);
        free(world->engines[i].changed.words);
    }
    replay_heard_fini(&world->heard);
    virtual_time_fini(&world->time);
    free(world->engines);
    free(world->nodes);
    free(world->rates);
    free(world->told_queued);
    free(world->heard_queued);
    free(world->flights);
    free(world->ttft_us);
    free(world->side_us);
    free(world->pool_us[0]);
    free(world->pool_us[1]);
    free(world->whole_us);
    free(world->itl_us);
    free(world->tokens);
    free(world->keys);
    *world = (struct replay_world){.nodes = NULL};
}

static int
compare(const void *a, const void *b)
{
    uint64_t x;
    uint64_t y;

    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return x < y ? -1 : x > y;
}

/* The smallest value that at least this many permille do not exceed. */
static uint64_t
at_permille(const uint64_t *sorted, uint64_t count, uint32_t permille)
{
    uint64_t rank = (count * permille + 999) / 1000;

    CHECK_SLOW(count == 0 || sorted[0] <= sorted[count - 1]);
    CHECK(permille <= 1000);
    return count == 0 ? 0 : sorted[rank > 0 ? rank - 1 : 0];
}

static void
sum_engines(const struct replay_world *world, struct replay_result *result)
{
    uint64_t sum = 0;
    uint64_t most = 0;

    for (uint32_t i = 0; i < world->setup.engines; i++) {
        const struct replay_engine *e = &world->engines[i];
        struct engine_stats stats;
        engine_stats(&e->engine, &stats);
        result->evicted_blocks += stats.evicted_blocks;
        result->busy_us += e->busy_us;
        result->peak = e->peak > result->peak ? e->peak : result->peak;
        most = e->computed > most ? e->computed : most;
        sum += e->computed;
    }
    if (sum > 0) {
        result->imbalance_permille =
            (uint32_t)(most * world->setup.engines * 1000 / sum);
    }
    CHECK(most <= sum);
}

static void
measure_side(struct replay_side *side, uint64_t *ttft_us)
{
    if (side->finished > 0) {
        qsort(ttft_us, side->finished, sizeof(*ttft_us), compare);
    }
    side->ttft_p50_us = at_permille(ttft_us, side->finished, 500);
    side->ttft_p99_us = at_permille(ttft_us, side->finished, 990);
}

void
replay_world_result(struct replay_world *world, struct replay_result *result)
{
    uint64_t count = world->result.finished;

    CHECK(world->left == 0);
    if (world->setup.scaler != REPLAY_SCALE_FIXED) {
        replay_scale_end(world);
    } else {
        world->result.scaled.engine_us = world->setup.engines * world->last_us;
        world->result.scaled.most = world->setup.engines;
    }
    CHECK(count + world->result.refused == world->load->count);
    *result = world->result;
    if (count > 0) {
        qsort(world->ttft_us, count, sizeof(*world->ttft_us), compare);
        qsort(world->whole_us, count, sizeof(*world->whole_us), compare);
        qsort(world->itl_us, world->itl_count, sizeof(*world->itl_us), compare);
        result->took_us = world->last_us - world->first_us;
    }
    result->ttft_p50_us = at_permille(world->ttft_us, count, 500);
    result->ttft_p90_us = at_permille(world->ttft_us, count, 900);
    result->ttft_p99_us = at_permille(world->ttft_us, count, 990);
    for (unsigned i = 0; i < 2; i++) {
        uint64_t part = result->pool[i].finished;
        uint64_t *us = world->pool_us[i];
        qsort(us, part, sizeof(*us), compare);
        result->pool[i].ttft_p50_us = at_permille(us, part, 500);
        result->pool[i].ttft_p99_us = at_permille(us, part, 990);
    }
    result->whole_p50_us = at_permille(world->whole_us, count, 500);
    result->whole_p99_us = at_permille(world->whole_us, count, 990);
    result->itl_p50_us = at_permille(world->itl_us, world->itl_count, 500);
    result->itl_p99_us = at_permille(world->itl_us, world->itl_count, 990);
    if (world->side_us != NULL) {
        measure_side(&result->inside, world->side_us);
        measure_side(&result->across, world->side_us + world->load->count -
                                          result->across.finished);
    }
    sum_engines(world, result);
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        result->lost += world->nodes[i].lost;
    }
}

int
replay_run(const struct replay_setup *setup, const struct replay_load *load,
           struct replay_result *result)
{
    struct replay_world world;
    int outcome = replay_world_init(&world, setup, load);

    if (outcome < 0) {
        return outcome;
    }
    do {
        outcome = replay_world_step(&world);
    } while (outcome > 0);
    if (outcome == 0) {
        replay_world_result(&world, result);
    }
    replay_world_fini(&world);
    return outcome;
}

/* Distinct blocks in an engine's cache: twins count once. */
static uint64_t
distinct_blocks(const struct engine *engine)
{
    uint64_t blocks = 0;

    for (uint32_t i = 0; i < engine->pool.count; i++) {
        const struct engine_block *block = &engine->pool.blocks[i];
        blocks += block->cached && block->leader;
    }
    return blocks;
}

static bool
knows_caches(const struct replay_world *world, const struct replay_node *node)
{
    for (uint32_t i = 0; i < world->setup.engines; i++) {
        const struct engine *engine = &world->engines[i].engine;
        if (mirror_slot_blocks(node->mirror, node->slot[i]) !=
            distinct_blocks(engine)) {
            return false;
        }
    }
    return true;
}

bool
replay_world_check(const struct replay_world *world, const char **reason)
{
    bool over = world->left == 0 && world->time.count == 0;
    bool mirrored = replay_hears_events(world->setup.policy);

    for (uint32_t i = 0; i < world->setup.engines; i++) {
        if (!engine_check(&world->engines[i].engine, reason)) {
            return false;
        }
        if (over && world->engines[i].open != 0) {
            *reason = "a request is left at an engine";
            return false;
        }
    }
    if (!replay_heard_check(&world->heard, reason)) {
        return false;
    }
    for (uint32_t i = 0; i < world->nodes_count; i++) {
        if (!replay_node_check(&world->nodes[i], reason)) {
            return false;
        }
        if (over && mirrored && !knows_caches(world, &world->nodes[i])) {
            *reason = "a node does not know a cache";
            return false;
        }
    }
    return virtual_time_check(&world->time, reason);
}
