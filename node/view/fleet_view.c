/* Looking up workers in a view, reading the board, and leases on it. */
#include "node/view/fleet_view.h"

#include <string.h>

#include "index/base/gauge_vector.h"
#include "index/base/mutant.h"

const char *
model_fact_name(enum model_fact fact)
{
    static const char *const names[MODEL_FACTS] = {
        [MODEL_OWNED_BY] = "owned_by",
        [MODEL_ROOT] = "root",
        [MODEL_PARENT] = "parent",
        [MODEL_MAX_MODEL_LEN] = "max_model_len",
    };

    CHECK(fact < MODEL_FACTS);
    return names[fact];
}

const char *
engine_kind_name(enum engine_kind kind)
{
    switch (kind) {
    case ENGINE_VLLM:
        return "vllm";
    case ENGINE_SGLANG:
        return "sglang";
    case ENGINE_TRTLLM:
        return "trtllm";
    case ENGINE_LLAMACPP:
        return "llamacpp";
    case ENGINE_TGI:
        return "tgi";
    case ENGINE_OTHER:
        break;
    }
    return "other";
}

static const struct fleet_model *
find_listed(const struct fleet_models *models, struct slice name)
{
    size_t low = 0;
    size_t high = models->count;

    CHECK_SLOW(high == 0 || models->model != NULL);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = slice_compare(models->model[middle].name, name);
        if (order == 0) {
            return &models->model[middle];
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
}

const struct fleet_model *
fleet_view_model(const struct fleet_view *view, struct slice name)
{
    return find_listed(view->models, name);
}

struct worker_set
fleet_view_find_model(const struct fleet_view *view, struct slice name)
{
    if (name.len == 0) {
        return view->present;
    }
    struct worker_set found = view->any_model;
    const struct fleet_model *listed = find_listed(view->models, name);

    if (listed != NULL) {
        for (unsigned i = 0; i < WORKER_WORDS; i++) {
            found.word[i] |= listed->workers.word[i];
        }
    }
    return found;
}

struct slice
fleet_view_adapter(const struct fleet_view *view, struct slice name)
{
    const struct fleet_model *listed = find_listed(view->models, name);
    uint32_t at =
        listed != NULL && listed->adapter ? listed->own_at : (uint32_t)name.len;

    CHECK(at <= name.len);
    return (struct slice){.ptr = name.ptr + at, .len = name.len - at};
}

/* The least slot of its kin, as far as kins have joined. */
static uint32_t
head_of(const uint16_t *before, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    while (before[slot] != slot) {
        CHECK(before[slot] < slot);
        slot = before[slot];
    }
    return slot;
}

static void
join_kin(uint16_t *before, const struct worker_set *set)
{
    uint32_t first = worker_set_next(set, 0);

    WORKER_SET_EACH (slot, set) {
        uint32_t a = head_of(before, first);
        uint32_t b = head_of(before, slot);
        before[a > b ? a : b] = (uint16_t)(a < b ? a : b);
    }
}

void
fleet_view_kin(const struct fleet_view *view, struct worker_set *kin)
{
    uint16_t before[WORKERS_MAX];

    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        before[slot] = (uint16_t)slot;
        worker_set_clear(&kin[slot]);
    }
    join_kin(before, &view->any_model);
    for (size_t i = 0; i < view->models->count; i++) {
        if (!view->models->model[i].adapter) {
            join_kin(before, &view->models->model[i].workers);
        }
    }
    WORKER_SET_EACH (slot, &view->present) {
        worker_set_add(&kin[head_of(before, slot)], slot);
    }
}

struct worker_set
fleet_view_candidates(const struct fleet_view *view,
                      const struct fleet_board *board)
{
    struct worker_set set = view->eligible;

    WORKER_SET_EACH (slot, &view->trial) {
        if (gauge_read(&board->trial[slot]) == 0) {
            worker_set_add(&set, slot);
        }
    }
    return set;
}

static uint32_t
load_of(const struct fleet_board *board, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    return gauge_read(&board->inflight[slot]) +
           gauge_read(&board->peers[slot]) + gauge_read(&board->foreign[slot]);
}

#define SOME 16 /* neighbours that are read if one of them is in the set */

/* Gauges that are read as their sum: arrays by slot. */
struct summed {
    unsigned count; /* 1 or more */
    const struct gauge *gauges[3];
};

static void
some_sums(const struct summed *summed, uint32_t first, uint32_t *out)
{
    for (uint32_t slot = first; slot < first + SOME; slot += 4) {
        gauge_four sum = gauge_read_four(&summed->gauges[0][slot]);
        for (unsigned i = 1; i < summed->count; i++) {
            sum += gauge_read_four(&summed->gauges[i][slot]);
        }
        memcpy(&out[slot], &sum, sizeof(sum));
    }
}

#if defined(GAUGE_EIGHT)

GAUGE_EIGHT static inline void
some_sums_by_eight(const struct summed *summed, uint32_t first, uint32_t *out)
{
    gauge_eight low = gauge_read_eight(&summed->gauges[0][first]);
    gauge_eight high = gauge_read_eight(&summed->gauges[0][first + 8]);

    for (unsigned i = 1; i < summed->count; i++) {
        low += gauge_read_eight(&summed->gauges[i][first]);
        high += gauge_read_eight(&summed->gauges[i][first + 8]);
    }
    memcpy(&out[first], &low, sizeof(low));
    memcpy(&out[first + 8], &high, sizeof(high));
}

GAUGE_EIGHT static void
sums_by_eight(const struct summed *summed, const struct worker_set *set,
              uint32_t *out)
{
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        uint64_t bits = set->word[i];
        for (uint32_t at = i * 64; bits != 0; bits >>= SOME, at += SOME) {
            if ((uint16_t)bits != 0) {
                some_sums_by_eight(summed, at, out);
            }
        }
    }
}

#endif

static void
read_sums(const struct summed *summed, const struct worker_set *set,
          uint32_t *out)
{
#if defined(GAUGE_EIGHT)
    if (gauge_reads_eight()) {
        sums_by_eight(summed, set, out);
        return;
    }
#endif
    for (uint32_t i = 0; i < WORKER_WORDS; i++) {
        uint64_t bits = set->word[i];
        for (uint32_t at = i * 64; bits != 0; bits >>= SOME, at += SOME) {
            if ((uint16_t)bits != 0) {
                some_sums(summed, at, out);
            }
        }
    }
}

/* A gauge of each worker of the set. */
static void
read_each(const struct gauge *gauges, const struct worker_set *set,
          uint32_t *out)
{
    const struct summed one = {.count = 1, .gauges = {gauges}};

    read_sums(&one, set, out);
}

static void
narrow_some(const uint32_t *restrict wide, uint16_t *restrict narrow)
{
    for (unsigned i = 0; i < SOME; i++) {
        narrow[i] = (uint16_t)wide[i];
    }
}

void
fleet_board_loads(const struct fleet_board *board, const struct worker_set *set,
                  uint32_t *load, uint16_t *kv_usage)
{
    const struct summed loads = {
        .count = 3, .gauges = {board->inflight, board->peers, board->foreign}};

    read_sums(&loads, set, load);
    if (kv_usage != NULL) {
        uint32_t usage[WORKERS_MAX];
        read_each(board->kv_usage_permille, set, usage);
        for (uint32_t at = 0; at < WORKERS_MAX; at += SOME) {
            if ((uint16_t)(set->word[at / 64] >> at % 64) != 0) {
                narrow_some(usage + at, kv_usage + at);
            }
        }
    }
}

static uint32_t
queued_at(const struct fleet_board *board, uint32_t slot)
{
    CHECK_SLOW(slot < WORKERS_MAX);
    return gauge_read(&board->queued_tokens[slot]) +
           gauge_read(&board->peers_queued_tokens[slot]);
}

void
fleet_board_queued(const struct fleet_board *board,
                   const struct worker_set *set, uint32_t *queued)
{
    const struct summed tokens = {
        .count = 2,
        .gauges = {board->queued_tokens, board->peers_queued_tokens}};

    read_sums(&tokens, set, queued);
}

void
fleet_board_success(const struct fleet_board *board,
                    const struct worker_set *set, uint16_t *success)
{
    WORKER_SET_EACH (slot, set) {
        const struct fleet_counters *c = &board->counters[slot];
        uint64_t sent = counter_read(&c->requests);
        uint64_t failed = counter_read(&c->failures);
        /* The two are read one after the other. */
        uint64_t well = failed < sent ? sent - failed : 0;
        success[slot] = (uint16_t)(sent > 0 ? well * 1000 / sent : 1000);
    }
}

void
fleet_board_speed(struct fleet_board *board, const struct fleet_view *view,
                  const struct speed *speed, const struct speed_slo *slo)
{
    struct worker_set kin[WORKERS_MAX];
    uint32_t permille[WORKERS_MAX];
    uint32_t tokens[WORKERS_MAX];
    uint32_t requests[WORKERS_MAX];
    bool uneven = false;
    bool any = false;

    fleet_view_kin(view, kin);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        if (worker_set_empty(&kin[i])) {
            continue;
        }
        uneven = speed_slowness(speed, &kin[i], permille) || uneven;
        speed_in_time(speed, &kin[i], slo, permille, tokens, requests);
    }
    WORKER_SET_EACH (slot, &view->present) {
        gauge_set(&board->slowness_permille[slot], (int32_t)permille[slot]);
        gauge_set(&board->slo_tokens[slot], (int32_t)tokens[slot]);
        gauge_set(&board->slo_requests[slot], (int32_t)requests[slot]);
        any = any || slo[slot].ttft_us != 0 || slo[slot].itl_us != 0;
    }
    gauge_set(&board->uneven, uneven ? 1 : 0);
    gauge_set(&board->slo, any ? 1 : 0);
}

void
fleet_board_turn_set(struct fleet_board *board, const struct worker_set *mine)
{
    for (unsigned i = 0; i < WORKERS_MAX / FLEET_TURN_BITS; i++) {
        uint64_t bits =
            mine->word[i * FLEET_TURN_BITS / 64] >> (i * FLEET_TURN_BITS % 64);
        gauge_set(&board->turn_bits[i],
                  (int32_t)(bits & ((1U << FLEET_TURN_BITS) - 1)));
    }
}

enum fleet_turn
fleet_board_turn(const struct fleet_board *board, struct worker_set *mine)
{
    enum fleet_turn turn = (enum fleet_turn)gauge_read(&board->turn);

    CHECK_SLOW(turn <= FLEET_TURN_ALL);
    if (turn == FLEET_NO_TURN) {
        return turn;
    }
    worker_set_clear(mine);
    for (unsigned i = 0; i < WORKERS_MAX / FLEET_TURN_BITS; i++) {
        mine->word[i * FLEET_TURN_BITS / 64] |=
            (uint64_t)gauge_read(&board->turn_bits[i])
            << (i * FLEET_TURN_BITS % 64);
    }
    return turn;
}

bool
fleet_board_slo(const struct fleet_board *board, const struct worker_set *set,
                uint32_t *tokens, uint32_t *requests)
{
    if (gauge_read(&board->slo) == 0) {
        return false;
    }
    read_each(board->slo_tokens, set, tokens);
    read_each(board->slo_requests, set, requests);
    return true;
}

/* Who is not known yet is as slow as others. */
static void
mark_usual(uint32_t *slowness)
{
    for (unsigned i = 0; i < SOME; i++) {
        slowness[i] += slowness[i] == 0 ? 1000 : 0;
    }
}

bool
fleet_board_slowness(const struct fleet_board *board,
                     const struct worker_set *set, uint32_t *slowness)
{
    if (gauge_read(&board->uneven) == 0) {
        return false;
    }
    read_each(board->slowness_permille, set, slowness);
    for (uint32_t at = 0; at < WORKERS_MAX; at += SOME) {
        if ((uint16_t)(set->word[at / 64] >> at % 64) != 0) {
            mark_usual(slowness + at);
        }
    }
    return true;
}

uint32_t
fleet_board_room(const struct fleet_board *board, uint32_t slot)
{
    uint32_t limit = gauge_read(&board->limit[slot]);
    uint32_t used = load_of(board, slot) + gauge_read(&board->reserved[slot]);

    CHECK(slot < WORKERS_MAX);
    if (limit == 0) {
        return UINT32_MAX;
    }
    return used < limit ? limit - used : 0;
}

struct worker_set
fleet_board_full(const struct fleet_board *board, const struct worker_set *set,
                 const uint32_t *load, struct worker_set *shut)
{
    bool all = gauge_read(&board->limited) == FLEET_SET;
    struct worker_set full;

    worker_set_clear(&full);
    worker_set_clear(shut);
    WORKER_SET_EACH (slot, set) {
        uint32_t limit = gauge_read(&board->limit[slot]);
        bool wanted = gauge_read(&board->wanted[slot]) > 0;
        uint32_t used = load[slot] + gauge_read(&board->reserved[slot]);
        if (limit != 0 && (wanted || used >= limit)) {
            worker_set_add(&full, slot);
        }
        if (limit != 0 && (wanted || (all && used >= limit))) {
            worker_set_add(shut, slot);
        }
    }
    CHECK_SLOW(worker_set_empty(shut) || !worker_set_empty(&full));
    return full;
}

bool
fleet_lease_take(struct fleet_lease *lease, struct fleet_board *board,
                 const struct fleet_view *view, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX && !lease->taken);
    CHECK(view->worker[slot] != NULL);
    bool trial = worker_set_has(&view->trial, slot);

    if (trial && !gauge_claim(&board->trial[slot])) {
        return false;
    }
    fleet_lease_insist(lease, board, view, slot);
    lease->trial = trial;
    return true;
}

void
fleet_lease_insist(struct fleet_lease *lease, struct fleet_board *board,
                   const struct fleet_view *view, uint32_t slot)
{
    CHECK(slot < WORKERS_MAX && !lease->taken);
    gauge_add(&board->inflight[slot], 1);
    *lease = (struct fleet_lease){
        .slot = slot,
        .generation = view->worker[slot]->generation,
        .taken = true,
    };
}

void
fleet_lease_queue(struct fleet_lease *lease, struct fleet_board *board,
                  uint64_t tokens)
{
    CHECK(lease->taken && lease->queued_tokens == 0);
    lease->queued_tokens =
        tokens < FLEET_QUEUED_MAX ? (uint32_t)tokens : FLEET_QUEUED_MAX;
    lease->front_tokens = queued_at(board, lease->slot) + lease->queued_tokens;
    gauge_add(&board->queued_tokens[lease->slot],
              (int32_t)lease->queued_tokens);
}

void
fleet_lease_answered(struct fleet_lease *lease, struct fleet_board *board)
{
    CHECK(lease->taken || !lease->trial);
    if (lease->trial && !MUTANT(TRIAL_STAYS)) {
        gauge_set(&board->trial[lease->slot], 0);
        lease->trial = false;
    }
}

void
fleet_lease_began(struct fleet_lease *lease, struct fleet_board *board)
{
    CHECK(lease->taken || lease->queued_tokens == 0);
    if (lease->queued_tokens != 0) {
        gauge_add(&board->queued_tokens[lease->slot],
                  -(int32_t)lease->queued_tokens);
        lease->queued_tokens = 0;
    }
}

void
fleet_lease_leave(struct fleet_lease *lease, struct fleet_board *board)
{
    if (!lease->taken) {
        return;
    }
    CHECK_SLOW(lease->slot < WORKERS_MAX);
    CHECK_SLOW(gauge_read(&board->inflight[lease->slot]) > 0);
    fleet_lease_answered(lease, board);
    fleet_lease_began(lease, board);
    CHECK_SLOW(lease->queued_tokens == 0);
    gauge_add(&board->inflight[lease->slot], -1);
    lease->taken = false;
}
