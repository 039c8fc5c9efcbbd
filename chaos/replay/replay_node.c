/* A node of a replay: lookup, election, mirror and belief as serve runs
 * them. */
#include "chaos/replay/replay_node.h"
#include "index/base/role.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EXPECTED_BYTES_MAX ((size_t)64 << 20)
#define BELIEF_BYTES_MAX   ((size_t)512 << 20)
#define DECIDED_BYTES_MAX  ((size_t)64 << 20)
#define WORK_BUDGET        100000U
#define BYTES_PER_TOKEN    4U /* as route.c estimates it */

static int
open_scratch(struct replay_node *node)
{
    struct config *config = calloc(1, sizeof(*config));

    if (config == NULL) {
        return -ENOMEM;
    }
    config->limits.json_depth_max = 1;
    config->limits.spans_max = 1; /* prompts come split */
    /* Of a text with so many tokens. */
    config->belief.block_bytes = node->config.block_tokens * BYTES_PER_TOKEN;
    config->belief.depth_max = node->config.depth_max;
    int error = route_scratch_init(&node->scratch, config);
    free(config);
    return error;
}

static int ON_CONTROL
open_indexes(struct replay_node *node)
{
    struct radix_limits belief = {.bytes_max = BELIEF_BYTES_MAX,
                                  .namespaces_max = 16,
                                  .depth_max = node->config.depth_max};
    uint32_t slots = node->config.engines;
    int error = replay_expect_new(
        &node->expect, EXPECTED_BYTES_MAX, node->config.expected_ms,
        node->config.heard->later ? 2 * slots : slots, &node->qsbr);

    if (error == 0) {
        error = decided_new(&node->decided, DECIDED_BYTES_MAX,
                            node->config.depth_max, &node->qsbr);
    }
    return error == 0 ? radix_new(&node->belief, &belief, &node->qsbr) : error;
}

/* One engine in its slot of everything. */
static int ON_CONTROL
admit(struct replay_node *node, uint32_t engine)
{
    struct fleet_worker *worker = &node->workers[engine];
    char *id = worker->id;

    *worker = (struct fleet_worker){.slot = engine, .generation = 1};
    (void)snprintf(id, sizeof(worker->id), "engine-%u", engine);
    worker->identity = key_digest(slice_of(id));
    worker->ranks = 1;
    worker->kind = ENGINE_VLLM;
    if (node->config.prefill != 0) {
        bool prefills = engine < node->config.prefill;
        worker_set_add(prefills ? &node->view.prefill : &node->view.decode,
                       engine);
    }
    if (node->config.short_engines != 0) {
        bool is_short = engine < node->config.short_engines;
        node->view.tells_len = true;
        node->view.max_len[engine] =
            is_short ? node->config.short_len : UINT32_MAX;
    }
    node->view.worker[engine] = worker;
    node->view.identity[engine] = worker->identity;
    worker_set_add(&node->view.present, engine);
    worker_set_add(&node->view.healthy, engine);
    worker_set_add(&node->view.eligible, engine);
    worker_set_add(&node->view.any_model, engine);
    if (!node->config.events) {
        return radix_worker_add(node->belief, engine,
                                node->config.engine_blocks, RADIX_LRU);
    }
    uint32_t slot =
        replay_heard_slot(node->config.heard, node->config.number, engine);
    node->slot[engine] = (uint16_t)slot;
    int outcome = decided_open(node->decided, slot, node->config.engine_blocks,
                               node->config.block_tokens, RADIX_LRU);
    if (outcome < 0) {
        return outcome;
    }
    CHECK(outcome == 0);
    worker_set_add(&node->mirrors.groups[0].slots, slot);
    worker_set_add(&node->mirrors.workers, engine);
    node->mirrors.owner[slot] = (uint16_t)engine;
    node->mirrors.trust_permille[slot] = 1000;
    node->mirrors.generation[engine] = 1;
    node->mirrors.ranks[engine] = 1;
    return 0;
}

static int ON_CONTROL
open_fleet(struct replay_node *node)
{
    size_t size = (sizeof(*node->board) + 63) / 64 * 64;
    int outcome = 0;

    node->workers = calloc(node->config.engines, sizeof(*node->workers));
    node->kept_keys =
        calloc(node->config.depth_max + (size_t)1, sizeof(*node->kept_keys));
    node->board = aligned_alloc(64, size);
    if (node->workers == NULL || node->board == NULL ||
        node->kept_keys == NULL) {
        return -ENOMEM;
    }
    memset(node->board, 0, size);
    node->view.version = 1;
    node->view.models = &node->models;
    node->mirrors.version = 1;
    node->mirrors.groups_count = node->config.events ? 1 : 0;
    node->mirrors.groups[0].grain = node->config.block_tokens;
    for (uint32_t i = 0; i < node->config.engines && outcome == 0; i++) {
        outcome = admit(node, i);
    }
    CHECK(outcome <= 0);
    CHECK(outcome < 0 ||
          worker_set_count(&node->view.eligible) == node->config.engines);
    return outcome;
}

static void
label(char *to, size_t size, uint32_t island)
{
    (void)snprintf(to, size, "island-%u", island);
}

/* The table of links, and what the nodes make of it. */
static int ON_CONTROL
open_islands(struct replay_node *node)
{
    struct config_island *island = calloc(1, sizeof(*island));
    uint32_t round_us[WORKERS_MAX] = {0};

    node->cost = calloc(WORKERS_MAX, sizeof(*node->cost));
    if (island == NULL || node->cost == NULL) {
        free(island);
        return -ENOMEM;
    }
    CHECK(node->config.islands <= REPLAY_ISLANDS_MAX);
    label(island->name, sizeof(island->name), node->config.island);
    for (uint32_t i = 0; i < node->config.islands; i++) {
        struct config_link *link = &island->links.link[island->links.count];
        if (i != node->config.island) {
            memcpy(link->from, island->name, sizeof(link->from));
            label(link->to, sizeof(link->to), i);
            link->ms = node->config.link_ms;
            island->links.count++;
        }
    }
    for (uint32_t i = 0; i < node->config.engines; i++) {
        bool away = i % node->config.islands != node->config.island;
        label(node->workers[i].island, sizeof(node->workers[i].island),
              i % node->config.islands);
        round_us[i] = away ? node->config.away_us + 1 : 1;
    }
    bool any = island_costs(island, &node->view, round_us, node->cost);
    island_tell(node->board, &node->view, &node->speed.all, node->cost, any);
    free(island);
    return 0;
}

int
replay_node_init(struct replay_node *node,
                 const struct replay_node_config *config, uint64_t seed)
{
    role_is_control();
    CHECK(config->engines > 0 && config->engines <= WORKERS_MAX);
    memset(node, 0, sizeof(*node));
    node->config = *config;
    node->mirror = replay_heard_mirror(config->heard, config->number);
    qsbr_init(&node->qsbr);
    node->reader = qsbr_register(&node->qsbr);
    rng_init(&node->rng, seed);
    int error = open_scratch(node);
    if (error == 0) {
        error = open_indexes(node);
    }
    if (error == 0) {
        error = open_fleet(node);
    }
    if (error == 0 && config->islands > 1) {
        error = open_islands(node);
    }
    if (error != 0) {
        replay_node_fini(node);
        return error;
    }
    node->world = (struct route_world){
        .elect = &node->config.elect,
        .view = &node->view,
        .board = node->board,
        .belief = node->belief,
        .rank_inflight = node->rank_inflight,
        .tokens = {.mirror = node->mirror,
                   .expected = replay_expect_index(node->expect),
                   .view = &node->mirrors,
                   .decided = node->decided,
                   .weights = {.permille = {1000, 1000, 1000, 1000}}},
    };
    return 0;
}

void
replay_node_fini(struct replay_node *node)
{
    route_scratch_fini(&node->scratch);
    replay_expect_free(node->expect);
    decided_free(node->decided);
    radix_free(node->belief);
    qsbr_fini(&node->qsbr);
    free(node->kept_keys);
    free(node->cost);
    free(node->workers);
    free(node->board);
    memset(node, 0, sizeof(*node));
}

/* Policies that ignore what is cached. */
static bool
is_blind(const struct replay_node *node)
{
    return !node->config.events && node->config.elect.policy != ELECT_KVASIR;
}

/* What route_read() and the tokenizer would have left in the scratch. */
static void
read_prompt(struct replay_node *node, const struct replay_prompt *prompt)
{
    struct route_scratch *scratch = &node->scratch;
    struct token_prompt tokens = {
        .tokens = prompt->tokens,
        .whole = true,
        .groups_count = 1,
        .groups = {{.grain = node->config.block_tokens,
                    .count = prompt->blocks,
                    .keys = prompt->keys}},
    };

    CHECK(prompt->blocks <= node->config.depth_max);
    route_read_nothing(scratch);
    scratch->blocks.prefix_key = prompt->family;
    if (node->config.short_engines != 0) { /* its length counts */
        scratch->prompts = true;
        scratch->scan.api = SCAN_API_CHAT;
        scratch->scan.shape = SCAN_MESSAGES;
        scratch->scan.prompts = 1;
        scratch->scan.has_max_tokens = true;
        scratch->scan.max_tokens = prompt->answer;
    }
    if (node->config.events) {
        token_match_set(&scratch->tokens, prompt->root, &tokens);
        return;
    }
    if (is_blind(node)) {
        return;
    }
    scratch->blocks.root = prompt->root;
    scratch->blocks.count = prompt->blocks;
    if (prompt->blocks > 0) {
        memcpy(scratch->blocks.keys, prompt->keys,
               prompt->blocks * sizeof(*prompt->keys));
    }
}

/* How many of the blocks were held or expected there before. */
static uint32_t ON_CONTROL
expect(struct replay_node *node, const struct replay_prompt *prompt,
       const struct route_choice *choice, uint64_t now_us)
{
    uint32_t held = choice->best.held;
    uint32_t slot = choice->best.slot;

    if (!choice->placed) {
        return prompt->blocks;
    }
    struct replay_part whole = {.keys = prompt->keys, .count = prompt->blocks};
    uint32_t unused;
    uint32_t known =
        replay_expect_depth(node->expect, node->mirror, slot, whole, &unused);
    if (held < prompt->blocks) {
        node->lost += !replay_expect_add(node->expect, slot,
                                         replay_part_from(whole, held), now_us);
    }
    CHECK(held <= prompt->blocks && known <= prompt->blocks);
    return known;
}

uint32_t
replay_node_elect(struct replay_node *node, const struct replay_prompt *prompt,
                  bool waited, uint64_t now_us, struct replay_choice *choice)
{
    role_is_control();
    role_is_lane();
    struct route_choice route = {.elect = {.worker = WORKER_NONE}};
    struct split_choice split = {
        .asked = node->config.prefill != 0 ? SPLIT_MAY : SPLIT_NEVER};
    const struct route_choice *computes = &route;
    struct worker_set tried;
    uint32_t known = 0;
    uint32_t known_next = 0;
    struct replay_part whole = {.keys = prompt->keys, .count = prompt->blocks};

    worker_set_clear(&tried);
    read_prompt(node, prompt);
    replay_expect_settle(node->expect, whole);
    qsbr_online(&node->qsbr, node->reader);
    int outcome = split_elect(&node->scratch, &node->world, &tried, &node->rng,
                              &route, &split);
    qsbr_offline(node->reader);
    CHECK(outcome == 0); /* all engines are well */
    uint32_t wait_us = waited ? 0
                              : split_yield(&node->scratch, &node->world,
                                            now_us, &route, &split);
    if (wait_us != 0) {
        return wait_us;
    }
    if (split.flow != SPLIT_NONE) {
        computes = &split.prefill;
        known_next = expect(node, prompt, &route, now_us);
    }
    uint32_t where = computes->elect.worker;
    if (node->config.events) {
        known = expect(node, prompt, computes, now_us);
        uint32_t kept = decided_told(
            prompt->keys, prompt->blocks, node->config.block_tokens,
            node->scratch.tokens.longest, node->kept_keys);
        decided_add(node->decided, node->slot[where], node->kept_keys, kept,
                    now_us);
    } else {
        replay_node_learn(node, prompt->root, whole, where, now_us);
    }
    uint32_t block = node->config.block_tokens;
    uint32_t believed = computes->elect.overlap * block;
    uint32_t usable = shape_usable(block, prompt->tokens);
    *choice = (struct replay_choice){
        .engine = route.elect.worker,
        .mode = computes->elect.mode,
        .imbalanced = computes->elect.imbalanced,
        .promised = node->config.events ? computes->best.worth
                    : believed < usable ? believed
                                        : usable,
        .known = known,
        .load = route.elect.load,
        .lease = route.lease,
        .split = split.flow != SPLIT_NONE,
        .prefill = where,
        .prefill_lease = split.prefill.lease,
        .known_next = known_next,
    };
    CHECK(choice->engine < node->config.engines && choice->lease.taken);
    return 0;
}

void
replay_node_queue(struct replay_node *node, struct fleet_lease *lease,
                  uint32_t tokens)
{
    CHECK(lease->taken && lease->slot < node->config.engines);
    role_is_lane();
    fleet_lease_queue(lease, node->board, tokens);
}

void
replay_node_began(struct replay_node *node, struct fleet_lease *lease)
{
    role_is_lane();
    fleet_lease_began(lease, node->board);
    CHECK(lease->queued_tokens == 0);
}

void
replay_node_timed(struct replay_node *node, const struct fleet_lease *lease,
                  uint64_t us)
{
    CHECK(lease->taken && lease->slot < node->config.engines);
    uint32_t away_us = node->cost != NULL ? node->cost[lease->slot].away_us : 0;
    CHECK(us >= away_us);
    speed_add(&node->speed.own, lease->slot, lease->generation,
              lease->front_tokens, us - away_us);
}

void
replay_node_stepped(struct replay_node *node, const struct fleet_lease *lease,
                    uint32_t load, uint64_t us)
{
    CHECK(lease->taken && lease->slot < node->config.engines);
    speed_add_step(&node->speed.own, lease->slot, lease->generation, load + 1,
                   us);
}

void
replay_node_serve(struct replay_node *node, uint32_t engine, bool on)
{
    CHECK(engine < node->config.engines);
    if (on) {
        worker_set_add(&node->view.eligible, engine);
    } else {
        worker_set_remove(&node->view.eligible, engine);
    }
}

uint32_t
replay_node_capacity(const struct replay_node *node,
                     const struct worker_set *engines)
{
    uint64_t sum = 0;
    uint32_t known = 0;

    if (gauge_read(&node->board->slo) == 0) {
        return 0;
    }
    WORKER_SET_EACH (slot, engines) {
        uint32_t within = gauge_read(&node->board->slo_requests[slot]);
        if (within != 0 && within < SPEED_ANY) {
            sum += within;
            known++;
        }
    }
    return known != 0 ? (uint32_t)(sum / known) : 0;
}

/* As node/peers/hints_speed.c has it, without the way. */
static void
share_speed(struct replay_node *node, const struct replay_node *all,
            uint32_t count)
{
    node->speed.all = node->speed.own;
    for (uint32_t e = 0; e < node->config.engines; e++) {
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t row = 0; &all[i] != node && row < SPEED_TOLD_ROWS;
                 row++) {
                struct speed_row told =
                    speed_told(&all[i].speed.own.worker[e], row);
                speed_join(&node->speed.all.worker[e], row, &told);
            }
        }
    }
}

void
replay_node_speed(struct replay_node *node, const struct replay_node *all,
                  uint32_t count, uint64_t now_us)
{
    struct speed_slo slo[WORKERS_MAX];

    role_is_control();
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slo[i] = node->config.slo;
    }
    if (node->cost != NULL) {
        island_tell(node->board, &node->view, &node->speed.all, node->cost,
                    gauge_read(&node->board->linked) != 0);
    }
    speed_pass(&node->speed.own, now_us);
    share_speed(node, all, count);
    fleet_board_speed(node->board, &node->view, &node->speed.all, slo);
}

void
replay_node_leave(struct replay_node *node, struct fleet_lease *lease)
{
    role_is_lane();
    fleet_lease_leave(lease, node->board);
    CHECK(!lease->taken);
}

void
replay_node_confirm(struct replay_node *node, uint32_t engine,
                    const uint64_t *words, uint32_t count)
{
    role_is_control();
    CHECK(node->config.events);
    replay_expect_confirm(node->expect, node->slot[engine], words, count);
}

void
replay_node_learn(struct replay_node *node, uint64_t root,
                  struct replay_part part, uint32_t engine, uint64_t now_us)
{
    CHECK(engine < node->config.engines &&
          part.depth + part.count <= node->config.depth_max);
    role_is_control();
    if (is_blind(node) || part.count == 0) {
        return;
    }
    if (node->config.events) {
        uint32_t slot = node->slot[engine];
        uint32_t held;
        uint64_t known =
            replay_expect_depth(node->expect, node->mirror, slot, part, &held);
        turns_heard(&node->turns, known != 0);
        if (known != 0) {
            twice_add(&node->twice, engine, known * node->config.block_tokens,
                      now_us);
            replay_node_peers_queued(node, engine, node->peers_said[engine],
                                     now_us);
        }
        if (held < part.count) {
            node->lost += !replay_expect_add(
                node->expect, slot, replay_part_from(part, held), now_us);
        }
        return;
    }
    node->lost += radix_insert(node->belief, root, part.keys, part.count,
                               engine, 0, now_us) != 0;
}

void
replay_node_decide(struct replay_node *node, const uint64_t *keys,
                   uint32_t count, uint32_t engine, uint64_t now_us)
{
    CHECK(engine < node->config.engines && node->config.events);
    role_is_control();
    decided_add(node->decided, node->slot[engine], keys, count, now_us);
}

void
replay_node_peer_opened(struct replay_node *node, uint32_t engine)
{
    gauge_add(&node->board->peers[engine], 1);
}

void
replay_node_peer_closed(struct replay_node *node, uint32_t engine)
{
    CHECK(gauge_read(&node->board->peers[engine]) > 0);
    gauge_add(&node->board->peers[engine], -1);
}

uint32_t
replay_node_queued(const struct replay_node *node, uint32_t engine)
{
    CHECK(engine < node->config.engines);
    return gauge_read(&node->board->queued_tokens[engine]);
}

void
replay_node_peers_queued(struct replay_node *node, uint32_t engine,
                         uint32_t tokens, uint64_t now_us)
{
    uint64_t wait = twice_less(&node->twice, engine, tokens, now_us);

    node->peers_said[engine] = tokens;
    gauge_set(&node->board->peers_queued_tokens[engine], (int32_t)wait);
}

void
replay_node_unseen(struct replay_node *node, uint32_t requests)
{
    gauge_set(&node->board->unseen, (int32_t)requests);
}

void
replay_node_pressure(struct replay_node *node, uint32_t engine,
                     uint32_t permille)
{
    CHECK(permille <= 1000 && engine < node->config.engines);
    gauge_set(&node->board->kv_usage_permille[engine], (int32_t)permille);
}

void
replay_node_work(struct replay_node *node, uint64_t now_us)
{
    role_is_control();
    turns_put(&node->turns, &node->config.place, &node->view, now_us / 1000,
              node->board);
    if (node->config.events) {
        replay_expect_work(node->expect, now_us);
        (void)decided_work(node->decided, WORK_BUDGET, now_us);
    } else {
        (void)radix_work(node->belief, WORK_BUDGET, now_us);
    }
}

bool
replay_node_check(const struct replay_node *node, const char **reason)
{
    return replay_expect_check(node->expect, reason) &&
           radix_check(node->belief, reason) &&
           radix_check(decided_tree(node->decided), reason);
}
