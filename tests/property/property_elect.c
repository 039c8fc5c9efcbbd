/*
 * The election against a restatement of its rule in plain loops over plain
 * arrays, on random loads, overlaps, pressure and thresholds: the same mode,
 * the same set of workers among which chance decides, a choice from it that
 * is not the worse of any two, every one of it reachable, and an explanation
 * that agrees.
 *
 *   property_elect SCENES [FIRST_SEED]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/elect/elect.h"

#define DRAWS 24

struct scene {
    struct elect_config config;
    uint32_t load[WORKERS_MAX];
    uint32_t queued[WORKERS_MAX];
    uint32_t slowness[WORKERS_MAX];
    uint32_t aside[WORKERS_MAX];
    uint16_t kv[WORKERS_MAX];
    uint64_t identity[WORKERS_MAX];
    uint32_t slo_tokens[WORKERS_MAX];
    uint32_t slo_requests[WORKERS_MAX];
    struct elect_slo slo;
    struct radix_match match;
    struct elect_input input;
};

/* What the rule says, restated. */
struct verdict {
    bool near[WORKERS_MAX];
    unsigned near_count;
    enum elect_mode mode; /* by shares */
    bool imbalanced;
    double longest;       /* that counts, of all usable; by costs */
    bool in[WORKERS_MAX]; /* usable */
    bool cold; /* of all that might be near, none holds what is worth it */
};

static uint64_t seed;

#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("property_elect: %s (line %d), seed %llu\n", #condition, \
                   __LINE__, (unsigned long long)seed);                     \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

static uint32_t
overlap_of(const struct scene *s, uint32_t worker)
{
    return worker_set_has(&s->match.workers, worker) ? s->match.depth[worker]
                                                     : 0;
}

static void
usable(const struct scene *s, bool *in)
{
    unsigned count = 0;

    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        in[w] = worker_set_has(&s->input.candidates, w) &&
                (s->config.kv_pressure_max_permille == 0 ||
                 s->kv[w] <= s->config.kv_pressure_max_permille);
        count += in[w];
    }
    for (uint32_t w = 0; w < WORKERS_MAX && count == 0; w++) {
        in[w] = worker_set_has(&s->input.candidates, w);
    }
}

/* Keeps of `in` who has at least `blocks` less than the best of them. */
static void
keep_best_overlap(const struct scene *s, bool *in)
{
    uint32_t best = 0;
    uint32_t slack = s->input.total_blocks / 32;

    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        if (in[w] && overlap_of(s, w) > best) {
            best = overlap_of(s, w);
        }
    }
    for (uint32_t w = 0; w < WORKERS_MAX && best > 0; w++) {
        uint32_t have = overlap_of(s, w);
        in[w] = in[w] && have > 0 && have + slack >= best;
    }
}

static void
keep_load(const struct scene *s, bool *in, double most)
{
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        in[w] = in[w] && (double)s->load[w] <= most;
    }
}

/* Raises the level by `each` as long as all unseen requests, of that size, do
 * not fill the workers up to it. */
static double
poured(const struct scene *s, const bool *in, const double *value, double least,
       double each)
{
    double level = least;

    for (uint32_t i = 0; i < s->input.unseen; i++) {
        double room = 0;
        for (uint32_t w = 0; w < WORKERS_MAX; w++) {
            room +=
                in[w] && value[w] < level + each ? level + each - value[w] : 0;
        }
        if (room > s->input.unseen * each) {
            break;
        }
        level += each;
    }
    return level;
}

static double
counted(const struct scene *s, uint32_t worker)
{
    double overlap = overlap_of(s, worker);

    return overlap * 1000 > (double)s->config.cache_threshold_permille *
                                s->input.total_blocks
               ? overlap
               : 0;
}

static double
unread(const struct scene *s, uint32_t worker)
{
    double left = s->input.total_blocks - counted(s, worker);

    return left * s->input.unit_tokens;
}

/* Down to whole thousandths. */
static double
weight_milli(const struct scene *s)
{
    double above = (s->config.recompute_weight - 1.0) * 1000;

    return 1000 +
           (double)(uint64_t)(above * 2000 / (2000.0 + s->input.heat_milli));
}

static double
cost_at(const struct scene *s, uint32_t worker, double weight)
{
    double slow = s->input.slowness != NULL ? s->slowness[worker] : 1000;
    double wait = s->queued[worker] + 256.0 * s->load[worker];
    double own = unread(s, worker) * (weight - 1000 + slow);

    return (double)(uint64_t)((own + wait * slow) * 0.001) +
           (s->input.aside != NULL ? s->aside[worker] : 0);
}

static double
cost_of(const struct scene *s, uint32_t worker)
{
    return cost_at(s, worker, weight_milli(s));
}

/* Keeps of `in` who costs nearly the least; or holds as much as the cheapest,
 * below the level of what is unseen. */
static void
keep_least_cost(const struct scene *s, bool *in)
{
    double cost[WORKERS_MAX];
    bool alike[WORKERS_MAX];
    uint32_t first = WORKER_NONE;

    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        cost[w] = cost_of(s, w);
        if (in[w] && (first == WORKER_NONE || cost[w] < cost[first])) {
            first = w;
        }
    }
    double held = counted(s, first);
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        double enough = held - s->input.total_blocks / 32;
        alike[w] =
            in[w] &&
            (held == 0 || (overlap_of(s, w) > 0 && overlap_of(s, w) >= enough));
    }
    double least = cost[first];
    double level = poured(s, alike, cost, least, 256 + unread(s, first));
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        bool near = cost[w] <= least + (double)((uint32_t)least / 32);
        in[w] = in[w] &&
                (near || (s->input.unseen > 0 && alike[w] && cost[w] <= level));
    }
}

static void
keep_least_load(const struct scene *s, bool *in, double least)
{
    double load[WORKERS_MAX];

    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        load[w] = s->load[w];
    }
    double near = least > 0 ? least + 1 + (double)((uint64_t)least / 8) : 0;
    double level = poured(s, in, load, least, 1);
    keep_load(s, in, level > near ? level : near);
}

static bool
is_timely(const struct scene *s, uint32_t w, double soonest)
{
    double front = s->queued[w] + unread(s, w);

    if (s->input.slo == NULL) {
        uint32_t half = (uint32_t)soonest / 2;
        return cost_at(s, w, 1000) <= soonest + (half > 3072 ? half : 3072);
    }
    return front <= s->slo_tokens[w] && s->load[w] + 1.0 <= s->slo_requests[w];
}

/* Of the workers in `in` those that answer in time, or hardly later than the
 * soonest, if the cheapest of them costs at most twice the least. */
static void
keep_in_time(const struct scene *s, bool *in)
{
    bool timely[WORKERS_MAX];
    double least = 1e18;
    double least_timely = 1e18;
    double soonest = 1e18;

    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        double own = in[w] ? cost_at(s, w, 1000) : 1e18;
        soonest = own < soonest ? own : soonest;
    }
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        timely[w] = in[w] && is_timely(s, w, soonest);
        double cost = in[w] ? cost_of(s, w) : 1e18;
        least = cost < least ? cost : least;
        least_timely = timely[w] && cost < least_timely ? cost : least_timely;
    }
    if (least_timely < 2 * least + 2 &&
        (s->input.slo != NULL || least_timely > least)) {
        memcpy(in, timely, sizeof timely);
    }
}

static void
restate(const struct scene *s, struct verdict *v)
{
    bool weighed = s->config.recompute_weight != 0;
    double least = 1e18;
    double most = 0;
    double best = 0;
    bool *in = v->near;

    memset(v, 0, sizeof *v);
    usable(s, in);
    if (weighed &&
        (s->input.slo != NULL || !worker_set_empty(&s->match.workers))) {
        keep_in_time(s, in);
    }
    memcpy(v->in, in, sizeof v->in);
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        if (in[w]) {
            least = s->load[w] < least ? s->load[w] : least;
            most = s->load[w] > most ? s->load[w] : most;
            best = overlap_of(s, w) > best ? overlap_of(s, w) : best;
            v->longest =
                counted(s, w) > v->longest ? counted(s, w) : v->longest;
        }
    }
    double rel = s->config.balance_rel_permille / 1000.0;
    double abs = s->config.balance_abs;
    v->imbalanced = most - least > abs && most > rel * least + 1e-9 &&
                    !(weighed && s->input.aside != NULL);
    v->mode = ELECT_BALANCE;
    v->cold = v->longest == 0;
    if (v->imbalanced) {
        double spread = (rel - 1) * least > abs ? (rel - 1) * least : abs;
        keep_load(
            s, in,
            least + (double)(uint64_t)((double)(uint64_t)(spread + 1e-9) / 4));
        v->cold = true;
        for (uint32_t w = 0; w < WORKERS_MAX; w++) {
            v->cold = v->cold && (!in[w] || counted(s, w) == 0);
        }
        if (weighed) {
            keep_least_cost(s, in);
        } else {
            keep_best_overlap(s, in);
        }
    } else if (weighed) {
        keep_least_cost(s, in);
    } else if (best > 0 &&
               best * 1000 > (double)s->config.cache_threshold_permille *
                                 s->input.total_blocks) {
        v->mode = ELECT_AFFINITY;
        keep_best_overlap(s, in);
    } else {
        keep_least_load(s, in, least);
    }
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        v->near_count += in[w];
    }
}

/* Of a worker that was chosen. */
static enum elect_mode
mode_of(const struct scene *s, const struct verdict *v, uint32_t worker)
{
    double enough = v->longest - s->input.total_blocks / 32;
    double have = overlap_of(s, worker);

    if (s->config.recompute_weight == 0) {
        return v->mode;
    }
    return !v->imbalanced && v->longest > 0 && have > 0 && have >= enough
               ? ELECT_AFFINITY
               : ELECT_BALANCE;
}

static bool
is_worse(const struct scene *s, uint32_t a, uint32_t b)
{
    if (s->config.recompute_weight != 0 && cost_of(s, a) != cost_of(s, b)) {
        return cost_of(s, a) > cost_of(s, b);
    }
    return s->load[a] > s->load[b] ||
           (s->load[a] == s->load[b] && overlap_of(s, a) < overlap_of(s, b));
}

/* The first by hash of the near-equals within 5/4 of the mean load; with one
 * near-equal, a prompt that is known, or no key, chance decides: WORKER_NONE. */
static uint32_t
hashed_worker(const struct scene *s, const struct verdict *v)
{
    uint32_t best = WORKER_NONE;
    double count = 0;
    double sum = 1;

    if (!v->cold || v->near_count < 2 || s->input.prefix_key == 0) {
        return WORKER_NONE;
    }
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        count += v->in[w];
        sum += v->in[w] ? s->load[w] : 0;
    }
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        uint64_t hash = rng_mix(s->input.prefix_key ^ s->identity[w]);
        bool roomy = s->load[w] + 1.0 < 1.25 * sum / count + 1;
        if (v->near[w] && roomy &&
            (best == WORKER_NONE ||
             hash > rng_mix(s->input.prefix_key ^ s->identity[best]))) {
            best = w;
        }
    }
    return best;
}

/* Nobody whom every other near-equal beats wins two draws. */
static bool
is_the_worst(const struct scene *s, const struct verdict *v, uint32_t worker)
{
    for (uint32_t w = 0; w < WORKERS_MAX; w++) {
        if (w != worker && v->near[w] && !is_worse(s, worker, w)) {
            return false;
        }
    }
    return v->near_count > 1;
}

static void
check_explanation(const struct scene *s, const struct verdict *v,
                  const struct elect_choice *choice)
{
    static struct elect_row rows[WORKERS_MAX];
    struct elect_standing standing = {
        .present = s->input.candidates,
        .healthy = s->input.candidates,
        .serves = s->input.candidates,
    };
    size_t count =
        elect_explain(&s->config, &s->input, &standing, choice, rows);

    REQUIRE(count == worker_set_count(&s->input.candidates));
    REQUIRE(rows[0].worker == choice->worker);
    REQUIRE(strcmp(rows[0].verdict, "chosen") == 0);
    for (size_t i = 1; i < count; i++) {
        bool near = strcmp(rows[i].verdict, "near-equal, not drawn") == 0;
        REQUIRE(near == v->near[rows[i].worker]);
        REQUIRE(i < 2 || rows[i - 1].overlap >= rows[i].overlap);
    }
}

static void
check_scene(const struct scene *s, struct rng *rng)
{
    struct elect_state state = {.last = WORKER_NONE};
    struct elect_choice choice;
    struct verdict v;

    restate(s, &v);
    uint32_t agreed = hashed_worker(s, &v);
    for (unsigned i = 0; i < DRAWS; i++) {
        elect_pick(&s->config, &state, &s->input, rng, &choice);
        REQUIRE(choice.worker < WORKERS_MAX);
        REQUIRE(v.near[choice.worker]);
        REQUIRE(choice.mode == mode_of(s, &v, choice.worker));
        REQUIRE(choice.imbalanced == v.imbalanced);
        REQUIRE(choice.overlap == overlap_of(s, choice.worker));
        REQUIRE(agreed == WORKER_NONE || choice.worker == agreed);
        REQUIRE((choice.hashed == ELECT_HASH_FIRST ||
                 choice.hashed == ELECT_HASH_OVERFLOW) ==
                (agreed != WORKER_NONE));
        REQUIRE(agreed != WORKER_NONE || !is_the_worst(s, &v, choice.worker));
    }
    check_explanation(s, &v, &choice);
}

/* Every candidate is chosen exactly once when each failed one is taken out,
 * whatever the policy. */
static void
check_rank(const struct scene *s, struct rng *rng)
{
    for (unsigned p = ELECT_KVASIR; p < ELECT_POLICIES; p++) {
        struct scene left = *s;
        struct elect_state state = {.last = (uint32_t)rng_below(rng, 300)};
        struct elect_choice choice;
        uint32_t count = worker_set_count(&s->input.candidates);

        left.config.policy = (enum elect_policy)p;
        for (uint32_t i = 0; i < count; i++) {
            elect_pick(&left.config, &state, &left.input, rng, &choice);
            REQUIRE(worker_set_has(&left.input.candidates, choice.worker));
            worker_set_remove(&left.input.candidates, choice.worker);
        }
        elect_pick(&left.config, &state, &left.input, rng, &choice);
        REQUIRE(choice.worker == WORKER_NONE);
    }
}

static uint32_t
below(struct rng *rng, uint32_t bound)
{
    return (uint32_t)rng_below(rng, bound);
}

static void
make_scene(struct scene *s, struct rng *rng)
{
    static const uint32_t queues[] = {1, 1000, 200000, 4000000};
    static const uint32_t loads[] = {1, 3, 20, 100, 1000, 100000};
    static const uint32_t totals[] = {0, 1, 10, 31, 32, 100, 4096};
    uint32_t workers = 1 + below(rng, below(rng, 4) == 0 ? WORKERS_MAX : 12);
    uint32_t load_max = loads[below(rng, 6)];
    uint32_t total = totals[below(rng, 7)];

    memset(s, 0, sizeof *s);
    s->config = ELECT_CONFIG_DEFAULT;
    if (below(rng, 2) == 0) {
        s->config.balance_abs = below(rng, 100);
        s->config.balance_rel_permille = 1000 + below(rng, 2000);
        s->config.cache_threshold_permille = below(rng, 1001);
        s->config.kv_pressure_max_permille = below(rng, 1001);
    }
    if (below(rng, 2) == 0) {
        s->config.recompute_weight = below(rng, 2) == 0 ? 0 : below(rng, 20);
    }
    uint32_t queue_max = queues[below(rng, 4)];
    bool everyone = below(rng, 8) == 0; /* full words have loops of their own */
    for (uint32_t i = 0; i < (everyone ? WORKERS_MAX : workers); i++) {
        uint32_t w = everyone ? i : below(rng, WORKERS_MAX);
        worker_set_add(&s->input.candidates, w);
        s->load[w] = below(rng, load_max);
        s->queued[w] = below(rng, queue_max);
        s->slowness[w] = below(rng, 2) == 0 ? 1000 : 250 + below(rng, 7750);
        s->aside[w] = below(rng, 2) * below(rng, 10000);
        s->kv[w] = (uint16_t)below(rng, 1001);
        s->identity[w] = rng_next(rng);
        s->slo_tokens[w] = below(rng, 2 * queue_max + total * 32 + 1);
        s->slo_requests[w] =
            below(rng, 2) == 0 ? UINT32_MAX : below(rng, 2 * load_max + 1);
    }
    if (everyone && below(rng, 2) == 0) {
        worker_set_remove(&s->input.candidates, below(rng, WORKERS_MAX));
    }
    for (uint32_t w = 0; w < WORKERS_MAX && total > 0; w++) {
        if (below(rng, 3) == 0) { /* others than candidates too */
            worker_set_add(&s->match.workers, w);
            s->match.depth[w] = 1 + below(rng, total);
        }
    }
    s->input.load = s->load;
    s->input.queued = s->queued;
    s->input.slowness = below(rng, 4) == 0 ? s->slowness : NULL;
    s->input.aside = below(rng, 4) == 0 ? s->aside : NULL;
    s->input.kv_usage = s->kv;
    s->slo = (struct elect_slo){.tokens = s->slo_tokens,
                                .requests = s->slo_requests};
    s->input.slo = below(rng, 3) == 0 ? &s->slo : NULL;
    s->input.match = &s->match;
    s->input.total_blocks = total;
    s->input.unit_tokens = below(rng, 2) == 0 ? 1 : 32;
    s->input.heat_milli = below(rng, 3) == 0 ? below(rng, 50000) : 0;
    s->input.prefix_key = below(rng, 2) == 0 ? 0 : rng_next(rng);
    s->input.identity = s->identity;
    s->input.unseen = below(rng, 3) == 0 ? below(rng, 400) : 0;
}

int
main(int argc, char **argv)
{
    uint64_t scenes = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    static struct scene scene;
    struct rng rng;

    for (seed = first; seed < first + scenes; seed++) {
        rng_init(&rng, seed);
        make_scene(&scene, &rng);
        check_scene(&scene, &rng);
        if (seed % 16 == 0) {
            check_rank(&scene, &rng);
        }
    }
    printf("property_elect: %llu scenes\n", (unsigned long long)scenes);
    return 0;
}
