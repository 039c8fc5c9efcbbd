/* A tenant that asks for three times its limit, and what it may get. */
#include "chaos/sim/sim_router_internal.h"
#include "chaos/sim/sim_tenants_internal.h"

#define WINDOW_US    (SIM_WINDOW_MS * SIM_MS)
#define TENANT       1U
#define OPEN_US      UINT64_C(800000) /* a request, on average */
#define UNDER_WAY_US UINT64_C(20000)  /* a word */
#define LEAST_OF_10  8U /* tenths of the limit that must be let through */

static void
ask_again(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;

    if (w->time.now_us < t->end_us) {
        sim_add(
            w,
            w->time.now_us + 1 + rng_below(&t->rng, UINT64_C(2) * t->every_us),
            SIM_EV_TENANT, SIM_TENANT_ASKS, 0);
    }
}

void
sim_limits_draw(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;
    static const uint32_t amount[LIMITS_OFS][3] = {
        [LIMITS_REQUESTS] = {40, 80, 200},
        [LIMITS_TOKENS] = {10000, 20000, 100000},
        [LIMITS_CONCURRENT] = {20, 40, 80},
    };
    struct limits_rate rate;

    t->of = (enum limits_of)sim_below(&t->rng, LIMITS_OFS);
    t->limit = amount[t->of][sim_below(&t->rng, 3)];
    rate = (struct limits_rate){
        .amount = t->limit,
        .window_ms = t->of == LIMITS_CONCURRENT ? 0 : SIM_WINDOW_MS};
    CHECK(keys_add_limit(t->keys, TENANT, SLICE(""), t->of, &rate) == 0);
    uint64_t asked = t->of == LIMITS_TOKENS ? 200U * 3 : t->limit * 3U;
    uint64_t all_us = t->of == LIMITS_CONCURRENT ? OPEN_US : WINDOW_US;
    t->every_us = (uint32_t)(all_us / asked);
    t->end_us = w->chaos_end_us;
    t->most_cost = t->of == LIMITS_TOKENS ? t->limit / 100 : 1;
    ask_again(w);
}

/* Sides */

static bool
in_touch(const struct sim_world *w, uint32_t a, uint32_t b)
{
    return sim_runs(w, a) && sim_runs(w, b) && w->pipes[a][b].up &&
           w->pipes[b][a].up && !w->severed[a][b] && !w->severed[b][a];
}

/* Who is down is not apart: what it spent was heard, and it spends no more. */
static void
look_who_is_apart(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;

    for (uint32_t a = 0; a < w->nodes_count; a++) {
        for (uint32_t b = 0; b < w->nodes_count; b++) {
            if (a != b && w->nodes[a].up && w->nodes[b].up &&
                !in_touch(w, a, b)) {
                t->apart_us[a][b] = w->time.now_us;
            }
        }
    }
}

void
sim_limits_alone(struct sim_world *w, uint32_t node)
{
    struct sim_tenants *t = w->tenants;
    uint32_t all = sizeof t->alone_us / sizeof t->alone_us[0];

    for (uint32_t i = 0; i < w->nodes_count; i++) {
        t->apart_us[node][i] = w->time.now_us;
        t->apart_us[i][node] = w->time.now_us;
    }
    t->alone_us[t->alone_next++ % all] = w->time.now_us;
}

static bool
was_lately(const struct sim_world *w, uint64_t at_us)
{
    return at_us != 0 && at_us + WINDOW_US + SIM_TOUCH_US > w->time.now_us;
}

static bool
were_in_touch(const struct sim_world *w, uint32_t a, uint32_t b)
{
    const struct sim_tenants *t = w->tenants;

    return !was_lately(w, t->apart_us[a][b]) &&
           !was_lately(w, t->apart_us[b][a]);
}

/* Whether no two of these nodes have been in touch. */
static bool
are_apart(const uint32_t touch[SIM_NODES_MAX], uint32_t nodes)
{
    bool apart = true;

    for (uint32_t i = 0; i < SIM_NODES_MAX && apart; i++) {
        apart = (nodes >> i & 1) == 0 || (touch[i] & nodes) == 0;
    }
    return apart;
}

/* Sides that may each have had the whole limit in the window that ends now: the
 * most nodes of which no two have been in touch. Words are not passed on, so
 * what two such nodes take does not add up, even if a third hears both. */
static uint32_t
sides(const struct sim_world *w)
{
    const struct sim_tenants *t = w->tenants;
    uint32_t touch[SIM_NODES_MAX] = {0};
    uint32_t most = 0;

    for (uint32_t i = 0; i < w->nodes_count * w->nodes_count; i++) {
        uint32_t a = i / w->nodes_count;
        uint32_t b = i % w->nodes_count;
        touch[a] |= (uint32_t)(a != b && were_in_touch(w, a, b)) << b;
    }
    for (uint32_t nodes = 1; nodes < 1U << w->nodes_count; nodes++) {
        uint32_t count = (uint32_t)__builtin_popcount(nodes);
        most = count > most && are_apart(touch, nodes) ? count : most;
    }
    for (uint32_t i = 0; i < sizeof t->alone_us / sizeof t->alone_us[0]; i++) {
        most += was_lately(w, t->alone_us[i]);
    }
    return most;
}

/* Words that are lost, or late by more than usual, leave each node to itself. */
static bool
is_rough(const struct sim_world *w)
{
    return !w->quiet && (sim_has(w, SIM_SLOW) || sim_has(w, SIM_DATAGRAM) ||
                         sim_has(w, SIM_LOSS) || sim_has(w, SIM_JITTER));
}

/* Judging */

static void
forget_old(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;

    while (t->take_count != 0 &&
           t->take[t->take_first].at_us + WINDOW_US <= w->time.now_us) {
        t->taken -= t->take[t->take_first].cost;
        t->take[t->take_first].at_us = 0;
        t->take_first = (t->take_first + 1) % SIM_TAKES_MAX;
        t->take_count--;
    }
}

static void
judge_most(struct sim_world *w, uint32_t node)
{
    struct sim_tenants *t = w->tenants;
    uint32_t number = sides(w);
    uint64_t most = (uint64_t)number * t->limit;
    uint64_t found = t->of == LIMITS_CONCURRENT ? t->open_cost : t->taken;

    sim_saw(w, SIM_SAW_SIDES, number > 1);
    most = is_rough(w) ? (uint64_t)w->nodes_count * most : most;
    most += most / 10 + UINT64_C(2) * (w->nodes_count - 1) * t->most_cost;
    if (found > most) {
        sim_fail(w, "more is let through than the limit", node, UINT32_MAX);
    }
}

void
sim_limits_judge_least(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;

    forget_old(w);
    uint64_t found = t->of == LIMITS_CONCURRENT ? t->open_cost : t->taken;
    uint64_t spare = UINT64_C(2) * (w->nodes_count - 1) * t->most_cost +
                     (t->of == LIMITS_TOKENS ? 2 * t->most_open : 0);

    sim_trace(w, "let through", (uint32_t)t->of, found);
    if (found + spare < (uint64_t)t->limit * LEAST_OF_10 / 10) {
        sim_fail(w, "less is let through than the limit", 0, UINT32_MAX);
    }
}

/* Asking */

static struct sim_take *
note(struct sim_world *w, uint32_t node, uint64_t cost)
{
    struct sim_tenants *t = w->tenants;
    struct sim_take *take =
        &t->take[(t->take_first + t->take_count++) % SIM_TAKES_MAX];

    CHECK(t->take_count <= SIM_TAKES_MAX);
    *take =
        (struct sim_take){.at_us = w->time.now_us, .cost = cost, .node = node};
    t->taken += cost;
    return take;
}

/* What is open at a node that dies was not spent. */
static void
take_back(struct sim_tenants *t, struct sim_open *o)
{
    if (o->take->at_us == o->at_us && o->take->cost == o->cost) {
        t->taken -= o->cost;
        o->take->cost = 0;
    }
    t->open_cost -= o->cost;
    o->cost = 0;
}

static uint32_t
free_open(const struct sim_tenants *t)
{
    uint32_t at = 0;

    while (at < SIM_OPEN_MAX && t->open[at].cost != 0) {
        at++;
    }
    return at;
}

static void
let_through(struct sim_world *w, uint32_t node, struct limits_gate *gate,
            uint64_t cost)
{
    struct sim_tenants *t = w->tenants;

    struct sim_take *take = note(w, node, cost);
    if (t->of == LIMITS_REQUESTS) {
        limits_gate_settle(gate, cost, cost);
    } else {
        uint32_t at = free_open(t);
        CHECK(at < SIM_OPEN_MAX);
        t->open[at] = (struct sim_open){
            .cost = cost,
            .at_us = w->time.now_us,
            .take = take,
            .node = node,
            .life = w->nodes[node].life,
        };
        t->open_cost += cost;
        t->most_open =
            t->open_cost > t->most_open ? t->open_cost : t->most_open;
        sim_add(w, w->time.now_us + 1 + rng_below(&t->rng, 2 * OPEN_US),
                SIM_EV_TENANT, at, w->nodes[node].life);
    }
    judge_most(w, node);
}

static struct limits_gate *
gate_of(struct sim_world *w, uint32_t node)
{
    const struct sim_desk *desk = w->nodes[node].router->desk;
    struct limits_gates gates;

    CHECK(limits_view_find(publish_get(&desk->shared.limits), TENANT,
                           SLICE("m"), &gates));
    CHECK(gates.at[LIMITS_TENANT][w->tenants->of] != NULL);
    return gates.at[LIMITS_TENANT][w->tenants->of];
}

void
sim_limits_settle(struct sim_world *w, uint32_t at)
{
    struct sim_tenants *t = w->tenants;
    struct sim_open *o = &t->open[at];

    CHECK(at < SIM_OPEN_MAX);
    if (o->cost == 0) {
        return; /* its node is gone */
    }
    CHECK(w->nodes[o->node].life == o->life);
    limits_gate_settle(gate_of(w, o->node), o->cost,
                       t->of == LIMITS_TOKENS ? o->cost : 0);
    t->open_cost -= o->cost;
    o->cost = 0;
}

/* What the node let through after its last word is known to nobody now. */
static void
forget_untold(struct sim_world *w, uint32_t node)
{
    struct sim_tenants *t = w->tenants;
    uint64_t age_us = w->requests->gauge_ms * SIM_MS + UNDER_WAY_US;

    for (uint32_t i = 0; i < t->take_count; i++) {
        struct sim_take *take = &t->take[(t->take_first + i) % SIM_TAKES_MAX];
        if (take->node == node && take->at_us + age_us > w->time.now_us) {
            t->taken -= take->cost;
            take->cost = 0;
        }
    }
}

void
sim_limits_node_gone(struct sim_world *w, uint32_t node)
{
    struct sim_tenants *t = w->tenants;

    forget_untold(w, node);
    for (uint32_t i = 0; i < SIM_OPEN_MAX; i++) {
        if (t->open[i].cost != 0 && t->open[i].node == node) {
            take_back(t, &t->open[i]);
        }
    }
}

static void
move(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;
    uint32_t hot = sim_below(&t->rng, w->nodes_count);
    uint32_t form = sim_below(&t->rng, 3);

    t->moves_us = w->time.now_us + (1000 + sim_below(&t->rng, 8000)) * SIM_MS;
    for (uint32_t i = 0; i < w->nodes_count; i++) {
        t->weight[i] = form == 0   ? 1 + (i == hot) * 100
                       : form == 1 ? 10
                                   : 1 + sim_below(&t->rng, 20);
    }
}

/* A node that takes requests now, by the weights; UINT32_MAX: none. */
static uint32_t
pick(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;
    uint32_t sum = 0;

    for (uint32_t i = 0; i < w->nodes_count; i++) {
        sum += sim_runs(w, i) ? t->weight[i] : 0;
    }
    uint32_t at = sum != 0 ? sim_below(&t->rng, sum) : 0;
    for (uint32_t i = 0; i < w->nodes_count && sum != 0; i++) {
        uint32_t weight = sim_runs(w, i) ? t->weight[i] : 0;
        if (at < weight) {
            return i;
        }
        at -= weight;
    }
    return UINT32_MAX;
}

void
sim_limits_ask(struct sim_world *w)
{
    struct sim_tenants *t = w->tenants;
    uint64_t cost =
        t->of == LIMITS_TOKENS ? 1 + rng_below(&t->rng, t->most_cost) : 1;

    look_who_is_apart(w);
    forget_old(w);
    if (w->time.now_us >= t->moves_us) {
        move(w);
    }
    uint32_t node = pick(w);
    if (node != UINT32_MAX) {
        struct limits_gate *gate = gate_of(w, node);
        bool taken = limits_gate_take(gate, cost);
        sim_saw(w, SIM_SAW_LIMITED, !taken);
        if (taken) {
            let_through(w, node, gate, cost);
        }
    }
    ask_again(w);
}
