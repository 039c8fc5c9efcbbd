/* Looks up what workers hold of a request, and elects one. */
#include "node/route/route.h"

#include <errno.h>
#include <stdlib.h>

#include "index/base/check.h"
#include "node/route/route_columns.h"
#include "node/route/route_needs.h"

#define RANK_THRESHOLD 300U /* permille of the prompt, for a rank to be named */

int
route_scratch_init(struct route_scratch *scratch, const struct config *config)
{
    *scratch = (struct route_scratch){
        .limits = {.depth_max = config->limits.json_depth_max,
                   .spans_max = config->limits.spans_max},
        .columns = {.kept = config->limits.decision_columns_bytes != 0},
        .blocks = {.block_bytes = config->belief.block_bytes,
                   .blocks_max = config->belief.depth_max},
    };
    scratch->scan.spans =
        calloc(config->limits.spans_max, sizeof(*scratch->scan.spans));
    scratch->blocks.keys =
        calloc(config->belief.depth_max, sizeof(*scratch->blocks.keys));
    int error = token_match_init(&scratch->tokens, config->belief.depth_max);
    if (scratch->scan.spans == NULL || scratch->blocks.keys == NULL) {
        error = -ENOMEM;
    }
    if (error < 0) {
        route_scratch_fini(scratch);
    }
    return error;
}

void
route_scratch_fini(struct route_scratch *scratch)
{
    token_match_fini(&scratch->tokens);
    free(scratch->scan.spans);
    free(scratch->blocks.keys);
    scratch->scan.spans = NULL;
    scratch->blocks.keys = NULL;
}

enum scan_api
route_api(const struct http_head *head)
{
    static const struct {
        const char *path;
        enum scan_api api;
    } apis[] = {
        {"/v1/chat/completions", SCAN_API_CHAT},
        {"/v1/completions", SCAN_API_TEXT},
        {"/v1/responses", SCAN_API_RESPONSES},
        {"/v1/messages", SCAN_API_MESSAGES},
        {"/v1/embeddings", SCAN_API_EMBEDDINGS},
        {"/classify", SCAN_API_EMBEDDINGS}, /* the same body, and prompt */
        {"/pooling", SCAN_API_POOLING},
    };

    for (size_t i = 0; i < sizeof(apis) / sizeof(apis[0]); i++) {
        if (slice_equal(head->path, slice_of(apis[i].path))) {
            return apis[i].api;
        }
    }
    return SCAN_API_OTHER;
}

/* Those of them that may get a request now. */
static struct worker_set
able_of(const struct route_world *world, const struct worker_set *serves)
{
    struct worker_set may = fleet_view_candidates(world->view, world->board);

    return worker_set_and(&may, serves);
}

bool
route_wants_tokens(const struct route_scratch *scratch,
                   const struct route_world *world)
{
    if (!scratch->by_tokens || worker_set_empty(&world->tokens.view->workers)) {
        return false;
    }
    struct worker_set foreign;
    struct worker_set serves = route_servers(scratch, world, &foreign);
    struct worker_set able = able_of(world, &serves);
    struct worker_set mirrored =
        worker_set_and(&able, &world->tokens.view->workers);

    return !worker_set_empty(&mirrored);
}

bool
route_makes_tokens(const struct route_world *world)
{
    return world->elect->policy == ELECT_KVASIR;
}

static uint32_t
depth_of(const struct radix_match *match, uint32_t slot)
{
    return worker_set_has(&match->workers, slot) ? match->depth[slot] : 0;
}

/* A prefix of belief. */
struct prefix {
    uint64_t root;
    const uint64_t *keys;
    uint32_t count;
};

/* Continues where belief ends with what is expected: all workers of one depth
 * at a time, because there are few depths. */
static void
add_expected(const struct mirror *expected, struct worker_set left,
             const struct prefix *prefix, struct radix_match *match,
             struct mirror_match *more)
{
    for (uint32_t first = worker_set_next(&left, 0); first != WORKER_NONE;
         first = worker_set_next(&left, first)) {
        struct worker_set alike;
        uint32_t from = depth_of(match, first);
        worker_set_clear(&alike);
        WORKER_SET_EACH (slot, &left) {
            if (depth_of(match, slot) == from) {
                worker_set_add(&alike, slot);
            }
        }
        left = worker_set_minus(&left, &alike);
        mirror_match(expected, &alike, prefix->keys + from,
                     prefix->count - from, more);
        WORKER_SET_EACH (slot, &more->slots) {
            uint32_t depth = from + more->depth[slot];
            worker_set_add(&match->workers, slot);
            match->depth[slot] = depth;
            match->best = depth > match->best ? depth : match->best;
        }
    }
}

/* What these workers hold of a prefix, or are expected to. */
static void
match_belief(struct route_scratch *scratch, const struct route_world *world,
             const struct worker_set *asked, const struct prefix *prefix,
             struct radix_match *match)
{
    radix_match(world->belief, prefix->root, prefix->keys, prefix->count,
                match);
    if (world->expected != NULL && expectations_any(world->expected)) {
        add_expected(expectations_index(world->expected), *asked, prefix, match,
                     &scratch->tokens.expected);
    }
}

/* Workers without a mirror: their part of the text, as a part of the tokens. */
static void
estimate_others(struct route_scratch *scratch, const struct worker_set *asked)
{
    struct radix_match *match = &scratch->match;
    struct worker_set others =
        worker_set_minus(asked, &scratch->tokens.workers);
    uint64_t blocks = scratch->blocks.count != 0 ? scratch->blocks.count : 1;

    WORKER_SET_EACH (slot, &others) {
        if (worker_set_has(&match->workers, slot)) {
            uint64_t tokens =
                (uint64_t)match->depth[slot] * scratch->total / blocks;
            match->depth[slot] = (uint32_t)tokens;
        }
    }
}

static void
take_tokens(struct route_scratch *scratch)
{
    struct radix_match *match = &scratch->match;
    const struct token_match *tokens = &scratch->tokens;

    WORKER_SET_EACH (slot, &tokens->workers) {
        match->depth[slot] = tokens->best[slot].worth;
        if (match->depth[slot] != 0) {
            worker_set_add(&match->workers, slot);
        } else {
            worker_set_remove(&match->workers, slot);
        }
    }
}

/* Those of the asked where prompts wait; none if that is not asked for. */
static struct worker_set
waiting_workers(const struct worker_set *asked, const struct elect_input *input)
{
    struct worker_set waiting;

    worker_set_clear(&waiting);
    WORKER_SET_EACH (slot, asked) {
        if (input->queued != NULL && input->queued[slot] > 0) {
            worker_set_add(&waiting, slot);
        }
    }
    return waiting;
}

/* How hot the longest prefix is that a worker holds, for each that holds it. */
static uint32_t
heat_at(struct token_match *match, const struct token_match_world *world)
{
    const struct token_match_rank *best = NULL;
    uint32_t holders = 0;

    match->longest = 0;
    WORKER_SET_EACH (slot, &match->workers) {
        const struct token_match_rank *rank = &match->best[slot];
        best = best == NULL || rank->tokens > best->tokens ? rank : best;
    }
    match->longest_tokens = best != NULL ? best->tokens : 0;
    if (best == NULL || world->decided == NULL) {
        return 0;
    }
    const struct token_blocks *blocks = token_match_blocks(match, best->grain);
    uint32_t stride = decided_stride(shape_tokens(best->grain));
    uint32_t kept = best->tokens / shape_tokens(best->grain) / stride;
    if (kept == 0 || kept * stride > blocks->count) {
        return 0;
    }
    WORKER_SET_EACH (slot, &match->workers) {
        holders += match->best[slot].tokens >=
                   kept * stride * shape_tokens(best->grain);
    }
    CHECK_SLOW(holders > 0);
    match->longest = blocks->keys[kept * stride - 1];
    return decided_heat(world->decided, match->longest) / holders;
}

static bool
is_vllms_own(enum scan_api api)
{
    return api == SCAN_API_MESSAGES || api == SCAN_API_EMBEDDINGS ||
           api == SCAN_API_POOLING;
}

bool
route_salts(enum scan_api api, enum engine_kind kind)
{
    if (api == SCAN_API_OTHER) {
        return kind == ENGINE_VLLM;
    }
    return engine_kind_salts(kind) &&
           !(is_vllms_own(api) && kind == ENGINE_TRTLLM);
}

/* Those of the asked whose events tell blocks under the request's salt. */
static struct worker_set
salted_workers(const struct route_scratch *scratch,
               const struct route_world *world, const struct worker_set *asked)
{
    struct worker_set salted = *asked;

    if (scratch->salt[0] == '\0') {
        return salted;
    }
    WORKER_SET_EACH (slot, asked) {
        enum engine_kind kind = world->view->worker[slot]->kind;
        bool ignores = is_vllms_own(scratch->scan.api) && kind == ENGINE_SGLANG;
        if (!engine_kind_salts(kind) || kind == ENGINE_TRTLLM || ignores) {
            worker_set_remove(&salted, slot);
        }
    }
    return salted;
}

void
route_look_up(struct route_scratch *scratch, const struct route_world *world,
              const struct worker_set *asked, struct elect_input *input)
{
    const struct blocks *blocks = &scratch->blocks;
    const struct prefix prefix = {
        .root = blocks->root,
        .keys = blocks->keys,
        .count = scratch->tokens.cold ? 0 : blocks->count,
    };
    struct radix_match *match = &scratch->match;

    CHECK_SLOW(blocks->count <= blocks->blocks_max);
    worker_set_clear(&scratch->tokens.workers);
    scratch->total = blocks->count;
    if (blocks->count == 0 && !scratch->tokens.known) {
        session_credit(&scratch->session, match, input);
        return;
    }
    match_belief(scratch, world, asked, &prefix, match);
    if (scratch->tokens.known) {
        scratch->total = scratch->tokens.prompt.tokens;
        scratch->tokens.waiting = waiting_workers(asked, input);
        struct worker_set salted = salted_workers(scratch, world, asked);
        token_match_find(&scratch->tokens, &world->tokens, &salted);
        estimate_others(scratch, asked);
        take_tokens(scratch);
        input->heat_milli = heat_at(&scratch->tokens, &world->tokens);
        input->unit_tokens = 1;
    }
    input->match = match;
    input->total_blocks = scratch->total;
    session_credit(&scratch->session, match, input);
}

/* The worker of the request's session, among those that may be chosen. */
static void
find_session(struct route_scratch *scratch, const struct route_world *world,
             const struct worker_set *able)
{
    struct session_place *place = &scratch->session;
    struct radix_match *match = &scratch->rank_match; /* used later */
    const struct prefix prefix = {
        .root = SESSION_ROOT, .keys = place->keys, .count = SESSION_MOVES_MAX};

    session_begin(place, world->affinity, world->session);
    if (place->mode != SESSION_OFF) {
        match_belief(scratch, world, able, &prefix, match);
        session_find(place, match, able, world->view->identity);
    }
}

/* Whether some candidate has room; those that must get nothing are left out
 * then. A request that was given a place goes there, if it is a candidate
 * still. */
static bool
has_room(const struct route_scratch *scratch, const struct route_world *world,
         struct elect_input *input, struct worker_set *full)
{
    struct worker_set shut;

    if (world->placed && worker_set_has(&input->candidates, world->place)) {
        worker_set_clear(&input->candidates);
        worker_set_add(&input->candidates, world->place);
        return true;
    }
    *full = fleet_board_full(world->board, &input->candidates, scratch->load,
                             &shut);
    struct worker_set roomy = worker_set_minus(&input->candidates, full);
    if (worker_set_empty(&roomy)) {
        return world->placed; /* its place is gone: it waits no second time */
    }
    input->candidates = worker_set_minus(&input->candidates, &shut);
    return true;
}

/* What a worker holds that holds most of the request is worth waiting for. */
static void
note_wait(struct route_scratch *scratch, const struct elect_input *input)
{
    struct route_wait *wait = &scratch->wait;
    uint64_t units = 0;

    *wait = (struct route_wait){
        .able = input->candidates,
        .tokens = (uint64_t)input->total_blocks * input->unit_tokens,
    };
    if (input->match == NULL) {
        return;
    }
    WORKER_SET_EACH (slot, &input->candidates) {
        uint64_t held = depth_of(input->match, slot);
        if (held > units) {
            units = held;
            worker_set_clear(&wait->homes);
        }
        if (held == units && held > 0) {
            worker_set_add(&wait->homes, slot);
        }
    }
    CHECK_SLOW(units > 0 || worker_set_empty(&wait->homes));
    wait->held_tokens = units * input->unit_tokens;
}

static bool
counts_tokens(const struct elect_config *config)
{
    return config->recompute_weight != 0 || config->policy == ELECT_DYNAMO;
}

/* What was learned of the candidates, as far as the rule asks. */
static void
read_learned(struct route_scratch *scratch, const struct route_world *world,
             struct elect_input *input)
{
    const struct worker_set *candidates = &input->candidates;
    const struct fleet_board *board = world->board;

    if (world->elect->policy == ELECT_COMPOSITE) {
        fleet_board_success(board, candidates, scratch->success);
        input->success = scratch->success;
    }
    if (!counts_tokens(world->elect)) {
        return;
    }
    fleet_board_queued(board, candidates, scratch->queued);
    if (fleet_board_slowness(board, candidates, scratch->slowness)) {
        input->slowness = scratch->slowness;
    }
    enum fleet_turn turn = world->elect->policy == ELECT_KVASIR
                               ? fleet_board_turn(board, &scratch->turn)
                               : FLEET_NO_TURN;
    input->turn = turn != FLEET_NO_TURN ? &scratch->turn : NULL;
    input->turn_new = turn == FLEET_TURN_ALL;
    if (world->elect->policy == ELECT_KVASIR &&
        fleet_board_slo(board, candidates, scratch->slo_tokens,
                        scratch->slo_requests)) {
        scratch->slo = (struct elect_slo){.tokens = scratch->slo_tokens,
                                          .requests = scratch->slo_requests};
        input->slo = &scratch->slo;
    }
}

int
route_input(struct route_scratch *scratch, const struct route_world *world,
            const struct worker_set *tried, struct elect_input *input)
{
    const struct fleet_view *view = world->view;
    struct worker_set full;
    struct worker_set serves = route_servers(scratch, world, &scratch->foreign);
    struct worker_set able = able_of(world, &serves);

    struct worker_set left = worker_set_minus(&able, tried);
    left = route_for_part(world, &left);
    if (worker_set_empty(&left)) {
        left = worker_set_or(&view->suspect, &view->ejected);
        left = worker_set_and(&left, &serves);
        left = worker_set_minus(&left, tried);
        left = route_for_part(world, &left);
    }

    *input = (struct elect_input){
        .candidates = left,
        .load = scratch->load,
        .unseen = gauge_read(&world->board->unseen),
        .queued = counts_tokens(world->elect) ? scratch->queued : NULL,
        .kv_usage = elect_asks_usage(world->elect) ? scratch->kv_usage : NULL,
        .total_blocks = scratch->blocks.count,
        .unit_tokens = scratch->blocks.block_bytes / ROUTE_BYTES_PER_TOKEN,
        .prefix_key = scratch->blocks.prefix_key,
        .identity = view->identity,
    };
    fleet_board_loads(world->board, &input->candidates, scratch->load,
                      input->kv_usage != NULL ? scratch->kv_usage : NULL);
    read_learned(scratch, world, input);
    scratch->session.mode = SESSION_OFF;
    scratch->pools.need = route_length(scratch, world);
    route_threshold(scratch, world);
    scratch->pools.wants = POOLS_NONE;
    worker_set_clear(&scratch->pools.too_short);
    if (worker_set_empty(&serves) && !worker_set_empty(&view->present)) {
        return worker_set_empty(&scratch->foreign) ? ROUTE_E_NO_MODEL
                                                   : ROUTE_E_RESIDENCY;
    }
    int outcome = pools_apply(&scratch->pools, world->elect, view, &serves,
                              &input->candidates);
    if (outcome != 0) {
        return outcome;
    }
    input->aside = route_aside(scratch, world, &input->candidates);
    if (worker_set_empty(&input->candidates)) {
        return ROUTE_E_NO_WORKER;
    }
    find_session(scratch, world, &input->candidates);
    if (!session_bind(&scratch->session, &input->candidates)) {
        return ROUTE_E_NO_WORKER;
    }
    worker_set_clear(&full);
    bool waits = gauge_read(&world->board->limited) != FLEET_UNLIMITED &&
                 !has_room(scratch, world, input, &full);
    route_look_up(scratch, world, &input->candidates, input);
    if (waits) {
        note_wait(scratch, input);
        return ROUTE_E_FULL;
    }
    session_apply(&scratch->session, &full, input);
    return 0;
}

/* The worker's ranks that were looked up, by slot of the mirror: what each
 * holds, and how many requests it was sent that are open. */
static void
list_ranks(struct route_scratch *scratch, const struct route_world *world,
           uint32_t worker, struct elect_input *input)
{
    const struct mirror_view *view = world->tokens.view;
    struct radix_match *match = &scratch->rank_match;

    CHECK_SLOW(worker < WORKERS_MAX);
    worker_set_clear(&match->workers);
    worker_set_clear(&input->candidates);
    WORKER_SET_EACH (slot, &scratch->tokens.slots) {
        if (view->owner[slot] != worker) {
            continue;
        }
        worker_set_add(&input->candidates, slot);
        scratch->rank_load[slot] = gauge_read(&world->rank_inflight[slot]);
        if (world->rank_peers != NULL) {
            scratch->rank_load[slot] += gauge_read(&world->rank_peers[slot]);
        }
        match->depth[slot] = scratch->tokens.rank[slot].worth;
        if (match->depth[slot] != 0) {
            worker_set_add(&match->workers, slot);
        }
    }
}

/*
 * A worker with several ranks is told which rank to use, by the rule that
 * elects workers: the rank with the blocks, unless that is little or others
 * have far less to do. So the expectations there are known. But while some rank
 * has not sent events yet, and none holds much, the worker chooses for itself;
 * otherwise the view would never learn of that rank.
 */
static void
choose_rank(struct route_scratch *scratch, const struct route_world *world,
            struct rng *rng, struct route_choice *choice)
{
    uint32_t worker = choice->elect.worker;
    uint32_t ranks = world->tokens.view->ranks[worker];
    struct elect_config config = *world->elect;
    struct elect_choice rank;
    struct elect_input input = {
        .load = scratch->rank_load,
        .match = &scratch->rank_match,
        .total_blocks = scratch->total,
    };

    CHECK_SLOW(choice->lease.taken && choice->lease.slot == worker);
    choice->exact = worker_set_has(&scratch->tokens.workers, worker);
    choice->placed = choice->exact;
    choice->ranked = choice->exact && ranks > 1;
    if (!choice->exact) {
        return;
    }
    choice->best = scratch->tokens.best[worker];
    choice->elect.most = scratch->tokens.longest_tokens;
    if (!choice->ranked) {
        return;
    }
    config.policy = ELECT_KVASIR;
    config.balance_abs /= ranks; /* a worker's share for each */
    config.recompute_weight = 0; /* what waits at which is not known */
    config.cache_threshold_permille = RANK_THRESHOLD;
    list_ranks(scratch, world, worker, &input);
    CHECK_SLOW(!worker_set_empty(&input.candidates));
    elect_pick(&config, &scratch->elect, &input, rng, &rank);
    CHECK_SLOW(worker_set_has(&input.candidates, rank.worker));
    choice->ranked = rank.mode == ELECT_AFFINITY ||
                     worker_set_count(&input.candidates) == ranks;
    choice->placed = choice->ranked;
    if (choice->ranked) {
        choice->best = scratch->tokens.rank[rank.worker];
        choice->elect.overlap = rank.overlap;
    }
}

struct session_choice
route_pick(struct route_scratch *scratch, const struct route_world *world,
           const struct elect_input *input, struct rng *rng,
           struct elect_choice *choice)
{
    struct elect_config config =
        session_rule_of(&scratch->session, world->elect);

    elect_pick(&config, &scratch->elect, input, rng, choice);
    return session_settle(&scratch->session, input, choice);
}

static void
note_pool(const struct route_scratch *scratch, struct route_choice *choice)
{
    choice->pool = scratch->pools.wants;
    choice->spilled = pools_spilled(&scratch->pools, choice->elect.worker);
}

/* No worker is left but those on trial for other requests: the least bad of
 * them. */
static int ON_LANE
insist(struct route_scratch *scratch, const struct route_world *world,
       struct elect_input *input, struct rng *rng, struct route_choice *choice)
{
    if (worker_set_empty(&input->candidates)) {
        return ROUTE_E_NO_WORKER;
    }
    choice->session = route_pick(scratch, world, input, rng, &choice->elect);
    if (choice->elect.worker == WORKER_NONE) {
        return ROUTE_E_NO_WORKER;
    }
    fleet_lease_insist(&choice->lease, world->board, world->view,
                       choice->elect.worker);
    route_columns_note(scratch, world, input, &choice->elect);
    choice->alone = true;
    note_pool(scratch, choice);
    choose_rank(scratch, world, rng, choice);
    return 0;
}

int
route_elect(struct route_scratch *scratch, const struct route_world *world,
            const struct worker_set *tried, struct rng *rng,
            struct route_choice *choice)
{
    struct elect_input input;
    struct worker_set on_trial;
    int outcome = route_input(scratch, world, tried, &input);

    if (outcome != 0) {
        return outcome;
    }
    worker_set_clear(&on_trial);
    for (;;) {
        choice->session =
            route_pick(scratch, world, &input, rng, &choice->elect);
        if (choice->elect.worker == WORKER_NONE) {
            input.candidates = on_trial;
            return insist(scratch, world, &input, rng, choice);
        }
        if (fleet_lease_take(&choice->lease, world->board, world->view,
                             choice->elect.worker)) {
            route_columns_note(scratch, world, &input, &choice->elect);
            worker_set_remove(&input.candidates, choice->elect.worker);
            choice->alone = worker_set_empty(&input.candidates) &&
                            !session_spares(&scratch->session);
            note_pool(scratch, choice);
            choose_rank(scratch, world, rng, choice);
            return 0;
        }
        worker_set_add(&on_trial, choice->elect.worker);
        worker_set_remove(&input.candidates, choice->elect.worker);
    }
}

uint64_t
route_unread_tokens(const struct route_scratch *scratch,
                    const struct route_choice *choice)
{
    uint64_t held = choice->elect.overlap;
    uint64_t unread = scratch->total > held ? scratch->total - held : 0;

    return scratch->tokens.known
               ? unread
               : unread * scratch->blocks.block_bytes / ROUTE_BYTES_PER_TOKEN;
}
