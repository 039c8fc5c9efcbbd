/*
 * A limit in a mesh of 3 or 7 nodes, on virtual time: clients ask for more than
 * the limit, at one node, at some or at all of them, evenly or in bursts, and
 * move every now and then; nodes tell each other what they spent, late and with
 * words lost; their clocks differ in offset and speed; one node dies at once,
 * and comes back with an empty memory; later the mesh is cut in two for a while.
 *
 * What is let through in any minute is at most a tenth more than the limit (or
 * one request for each other node, where that is more), also with a node lost
 * and when it comes back; and while enough is asked for, no minute has less than
 * nine tenths of it (with 7 nodes 85 %). Tokens are let through when they are
 * spent; those that are open count beside them. In some worlds nobody asks for
 * more than a minute, and then everybody at once. In a partition each side has
 * its own limit.
 *
 *   property_limits SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/limits/limits_meter.h"

#define NODES_MAX   7U
#define STEP_US     UINT64_C(1000)
#define TICK_US     UINT64_C(10000)
#define TELL_US     UINT64_C(55000)
#define SECOND_US   UINT64_C(1000000)
#define WORDS_MAX   4096U
#define OPEN_MAX    65536U
#define WAITERS_MAX 65536U
#define LANE_US     UINT64_C(50000) /* between two looks at those who wait */
#define WAIT_US     UINT64_C(3000000)
#define SECONDS     330U
#define DEATH_S     100U
#define RETURN_S    140U
#define REST_S      150U
#define RUSH_S      215U
#define RUSHED_S    217U
#define SILENCE_MS  700U /* from a node's death until its peers notice it */
#define CUT_S       240U
#define HEAL_S      265U

enum kind {
    REQUESTS_MINUTE,
    REQUESTS_SECOND,
    TOKENS_MINUTE,
    AT_ONCE,
    KINDS,
};

struct node {
    bool lives;
    uint64_t id;
    uint64_t offset_us;
    uint64_t speed; /* of its clock, in millionths */
    uint64_t due_us;
    uint64_t tell_us;
    struct limits_gate gate;
    struct limits_meter meter;
    uint64_t heard[NODES_MAX]; /* the ids of the peers that are linked */
    uint64_t linked_us[NODES_MAX];
    bool told[NODES_MAX]; /* a word of it was heard since */
};

struct word {
    uint64_t at_us;
    uint64_t id;
    uint32_t from;
    uint32_t to;
    struct limits_told told;
};

struct open {
    uint64_t ends_us;
    uint64_t id; /* of the node */
    uint32_t node;
    uint64_t cost;
};

struct waiter {
    uint64_t since_us;
    uint64_t id; /* of the node */
    uint32_t node;
    uint64_t cost;
};

struct world {
    uint64_t seed;
    struct rng rng;
    enum kind kind;
    uint32_t nodes;
    uint32_t limit;
    uint32_t window_ms;
    uint64_t per_minute;
    uint64_t now_us;
    uint64_t ids;
    struct node node[NODES_MAX];
    uint32_t weight[NODES_MAX];
    uint64_t moves_us;
    bool bursts;
    uint64_t burst_us; /* the last time */
    bool cut;
    struct word words[WORDS_MAX];
    uint32_t words_count;
    struct open open[OPEN_MAX];
    uint32_t open_count;
    uint64_t open_cost;
    bool rests;
    uint64_t refused_us;               /* the last time; or one had to wait */
    struct waiter waiter[WAITERS_MAX]; /* as they came */
    uint32_t waiter_count;
    uint64_t passed[SECONDS]; /* in each second */
    uint64_t owed;            /* thousandths of a request that is due */
};

static struct world w;
/* Of 3 nodes, and of 7. */
static int64_t worst_over_permille[2];
static int64_t worst_under_permille[2];
static int64_t worst_cut_permille;

static uint32_t
below(uint32_t n)
{
    return (uint32_t)(rng_next(&w.rng) % n);
}

static uint64_t
clock_of(const struct node *n)
{
    return n->offset_us + w.now_us * n->speed / 1000000;
}

static bool
is_apart(uint32_t a, uint32_t b)
{
    return w.cut && (a == 0) != (b == 0);
}

static void
start(uint32_t at)
{
    struct node *n = &w.node[at];

    memset(n, 0, sizeof(*n));
    n->lives = true;
    n->id = ++w.ids;
    n->offset_us = rng_next(&w.rng) % (1000 * SECOND_US);
    n->speed = 999000 + below(2001);
    limits_meter_init(&n->meter, w.limit, w.window_ms, clock_of(n),
                      rng_next(&w.rng));
    n->tell_us = w.now_us + below(TELL_US);
}

/* Requests */

static uint64_t
cost_of(void)
{
    return w.kind == TOKENS_MINUTE ? 1 + below(w.limit / 100) : 1;
}

static void
let_through(uint32_t at, uint64_t cost)
{
    struct node *n = &w.node[at];

    if (w.kind == REQUESTS_MINUTE || w.kind == REQUESTS_SECOND) {
        limits_gate_settle(&n->gate, cost, cost);
    } else {
        if (w.open_count == OPEN_MAX) {
            abort();
        }
        w.open[w.open_count++] = (struct open){
            .ends_us = w.now_us + 50000 + below(1500000),
            .id = n->id,
            .node = at,
            .cost = cost,
        };
        w.open_cost += cost;
    }
    w.passed[w.now_us / SECOND_US] += w.kind != TOKENS_MINUTE ? cost : 0;
}

static void
end_requests(void)
{
    for (uint32_t i = 0; i < w.open_count;) {
        struct open *o = &w.open[i];
        struct node *n = &w.node[o->node];
        bool dead = !n->lives || n->id != o->id;
        if (!dead && w.now_us < o->ends_us) {
            i++;
            continue;
        }
        if (!dead) {
            uint64_t spent = w.kind == TOKENS_MINUTE ? o->cost : 0;
            limits_gate_settle(&n->gate, o->cost, spent);
            w.passed[w.now_us / SECOND_US] += spent;
        }
        w.open_cost -= o->cost;
        *o = w.open[--w.open_count];
    }
}

/* As a lane does (node/edge/limit.c); since_us: it waits since then, or 0. */
static void
take(uint32_t at, uint64_t cost, uint64_t since_us)
{
    struct limits_gate *gate = &w.node[at].gate;
    enum limits_take outcome = limits_gate_ask(gate, cost, since_us != 0);

    if (outcome == LIMITS_TAKEN) {
        let_through(at, cost);
        return;
    }
    w.refused_us = w.now_us;
    since_us = since_us != 0 ? since_us : w.now_us;
    if (outcome == LIMITS_OVER || w.now_us >= since_us + WAIT_US) {
        return;
    }
    if (w.waiter_count == WAITERS_MAX) {
        abort();
    }
    limits_gate_wait(gate, cost);
    w.waiter[w.waiter_count++] = (struct waiter){
        .since_us = since_us, .id = w.node[at].id, .node = at, .cost = cost};
}

static void
look_at_waiters(void)
{
    uint32_t count = w.waiter_count;
    uint32_t kept = 0;

    for (uint32_t i = 0; i < count; i++) {
        struct waiter one = w.waiter[i];
        struct node *n = &w.node[one.node];
        if (!n->lives || n->id != one.id) {
            continue;
        }
        if (w.now_us < one.since_us + WAIT_US &&
            limits_gate_look(&n->gate, one.cost, true) == LIMITS_WAITS) {
            w.waiter[kept++] = one;
            continue;
        }
        limits_gate_leave(&n->gate, one.cost);
        take(one.node, one.cost, one.since_us);
    }
    for (uint32_t i = count; i < w.waiter_count; i++) {
        w.waiter[kept++] = w.waiter[i];
    }
    w.waiter_count = kept;
}

static void
ask(void)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < w.nodes; i++) {
        sum += w.node[i].lives ? w.weight[i] : 0;
    }
    uint32_t pick = sum != 0 ? below(sum) : 0;
    for (uint32_t i = 0; i < w.nodes && sum != 0; i++) {
        uint32_t weight = w.node[i].lives ? w.weight[i] : 0;
        if (pick < weight) {
            uint64_t cost = cost_of();
            take(i, cost, 0);
            return;
        }
        pick -= weight;
    }
}

static bool
is_between(uint64_t from_s, uint64_t to_s)
{
    return w.now_us >= from_s * SECOND_US && w.now_us < to_s * SECOND_US;
}

/* Three times the limit, or eight times that in an eighth of the time. */
static void
ask_all(void)
{
    uint64_t rate = w.per_minute * 3;

    if (w.rests && is_between(REST_S, RUSH_S)) {
        return;
    }
    if (w.kind == TOKENS_MINUTE) {
        rate = 200 * 3; /* requests of half a hundredth of the limit */
    }
    if (w.bursts) {
        w.burst_us = w.now_us;
        rate = w.now_us / 250000 % 8 == 0 ? rate * 8 : 0;
    }
    if (w.rests && is_between(RUSH_S, RUSHED_S)) {
        rate *= 60;
    }
    w.owed += rate * 1000 * STEP_US / (60 * SECOND_US) + below(3);
    while (w.owed >= 1000) {
        ask();
        w.owed -= 1000;
    }
}

/* Whoever has no living node goes to another one. */
static void
move_clients(void)
{
    uint32_t form = below(4);

    if (w.now_us < w.moves_us) {
        return;
    }
    w.moves_us = w.now_us + (5 + below(40)) * SECOND_US;
    uint32_t hot = below(w.nodes);
    for (uint32_t i = 0; i < w.nodes; i++) {
        w.weight[i] = form == 0   ? 1 + (i == hot) * 100
                      : form == 1 ? 10
                      : form == 2 ? below(20)
                                  : 1 + (i == hot) * 9;
    }
    w.weight[hot] += w.weight[hot] == 0;
    w.bursts = below(4) == 0 && w.kind == REQUESTS_MINUTE;
}

/* Words */

static void
send_words(uint32_t from)
{
    struct limits_told told = limits_meter_tell(&w.node[from].meter);

    for (uint32_t to = 0; to < w.nodes; to++) {
        if (to == from || !w.node[to].lives || below(50) == 0) {
            continue;
        }
        if (w.words_count == WORDS_MAX) {
            abort();
        }
        w.words[w.words_count++] = (struct word){
            .at_us = w.now_us + 500 + below(below(20) == 0 ? 60000 : 8000),
            .id = w.node[from].id,
            .from = from,
            .to = to,
            .told = told,
        };
    }
}

/* The mesh hands out no word of a peer that is not linked, nor one that is
 * older than the last (gossip/gauges.c). */
static void
take_word(const struct word *word)
{
    struct node *to = &w.node[word->to];

    if (to->lives && to->heard[word->from] == word->id &&
        !is_apart(word->from, word->to)) {
        const struct limits_peer *last = &to->meter.peer[word->from];
        if (last->id != word->id || word->told.spent >= last->spent) {
            limits_meter_hear(&to->meter, word->from, word->id, &word->told);
        }
        to->told[word->from] = true;
    }
}

static void
take_words(void)
{
    for (uint32_t i = 0; i < w.words_count;) {
        if (w.words[i].at_us > w.now_us) {
            i++;
            continue;
        }
        struct word word = w.words[i];
        w.words[i] = w.words[--w.words_count];
        take_word(&word);
    }
}

/* Links follow what lives, after a while. */
static void
look_at_links(uint32_t at)
{
    struct node *n = &w.node[at];

    for (uint32_t i = 0; i < w.nodes; i++) {
        const struct node *peer = &w.node[i];
        uint64_t id = peer->lives && i != at && !is_apart(at, i) ? peer->id : 0;
        if (id == n->heard[i]) {
            n->linked_us[i] = w.now_us;
        } else if (w.now_us >= n->linked_us[i] + SILENCE_MS * 1000) {
            n->heard[i] = id;
            n->told[i] = false;
            limits_meter_lost(&n->meter, i);
        }
    }
}

static void
tick(uint32_t at)
{
    struct node *n = &w.node[at];
    struct limits_peers peers = {.settled = w.now_us > 2 * SECOND_US};
    const char *reason;

    look_at_links(at);
    for (uint32_t i = 0; i < w.nodes; i++) {
        peers.count += n->heard[i] != 0;
        peers.settled = peers.settled && (n->heard[i] == 0 || n->told[i]);
    }
    /* A node that has just come has found nobody yet. */
    peers.settled = peers.settled && (peers.count != 0 || w.cut);
    limits_meter_tick(&n->meter, &n->gate, &peers, clock_of(n));
    if (!limits_meter_check(&n->meter, &reason)) {
        (void)fprintf(stderr, "seed %llu: %s\n", (unsigned long long)w.seed,
                      reason);
        exit(1);
    }
    n->due_us = w.now_us + TICK_US + below(3000);
    if (w.now_us >= n->tell_us) {
        n->tell_us = w.now_us + TELL_US;
        send_words(at);
    }
}

/* The judge */

static void
fail(const char *what, uint64_t second, uint64_t found)
{
    (void)fprintf(stderr,
                  "seed %llu: kind %d, %u nodes, limit %u: %s: %llu in the "
                  "minute before second %llu\n",
                  (unsigned long long)w.seed, (int)w.kind, w.nodes, w.limit,
                  what, (unsigned long long)found, (unsigned long long)second);
    exit(1);
}

static void
note(int64_t *worst, int64_t found)
{
    *worst = found > *worst ? found : *worst;
}

static void
judge_minute(uint64_t end_s)
{
    uint64_t sum = 0;
    uint64_t limit = w.per_minute;
    uint64_t more = limit / 10 > w.nodes - 1 ? limit / 10 : w.nodes - 1;
    bool cut = end_s > CUT_S && end_s < HEAL_S + 60;

    for (uint64_t s = end_s >= 60 ? end_s - 60 : 0; s < end_s; s++) {
        sum += w.passed[s];
    }
    sum += w.kind == TOKENS_MINUTE ? w.open_cost : 0;
    int64_t permille = (int64_t)(sum * 1000 / limit) - 1000;
    if (cut) {
        note(&worst_cut_permille, permille);
        if (sum > 2 * limit + more) {
            fail("too much for two sides", end_s, sum);
        }
        return;
    }
    note(&worst_over_permille[w.nodes > 3],
         limit >= 10 * (w.nodes - 1) ? permille : 0);
    if (sum > limit + more) {
        fail("too much", end_s, sum);
    }
    /* A minute that neither the beginning nor a burst is in: between two bursts
     * nobody asks. */
    bool steady = w.burst_us == 0 || w.now_us > w.burst_us + 60 * SECOND_US;
    steady = steady && !(w.rests && end_s > REST_S && end_s < RUSHED_S + 60);
    bool asked = w.now_us < w.refused_us + SECOND_US;
    if (end_s >= 65 && end_s <= CUT_S && steady && asked) {
        note(&worst_under_permille[w.nodes > 3], -permille);
        uint64_t less = more + (w.nodes > 3 ? 1 + limit / 20 : 0);
        if (sum + less < limit) {
            fail("too little", end_s, sum);
        }
    }
}

/* What is open at once is not spent: its own bound. */
static void
judge_open(void)
{
    uint64_t each = 2 * (uint64_t)(w.nodes - 1);
    uint64_t more = w.limit / 10 > each ? w.limit / 10 : each;

    if (w.kind == AT_ONCE && !w.cut && w.now_us < CUT_S * SECOND_US &&
        w.open_cost > w.limit + more) {
        fail("too much open", w.now_us / SECOND_US, w.open_cost);
    }
}

/* The world */

static void
choose(uint64_t seed)
{
    static const uint32_t minute[] = {30, 60, 200, 600, 3000};
    static const uint32_t second[] = {8, 20, 80, 400};

    memset(&w, 0, sizeof(w));
    w.seed = seed;
    rng_init(&w.rng, seed);
    w.kind = (enum kind)(seed % KINDS);
    w.nodes = seed / KINDS % 2 == 0 ? 3 : 7;
    w.window_ms = 60000;
    w.rests = below(3) == 0 && w.kind != AT_ONCE;
    if (w.kind == REQUESTS_MINUTE) {
        w.limit = minute[below(5)];
        w.per_minute = w.limit;
    } else if (w.kind == REQUESTS_SECOND) {
        w.limit = second[below(4)];
        w.window_ms = 4000;
        w.per_minute = (uint64_t)w.limit * 15;
    } else if (w.kind == TOKENS_MINUTE) {
        w.limit = 100000;
        w.per_minute = w.limit;
    } else {
        w.limit = 10 + below(90);
        w.window_ms = 0;
        w.per_minute = (uint64_t)w.limit * 75; /* of 0.8 s each */
    }
    for (uint32_t i = 0; i < w.nodes; i++) {
        start(i);
    }
}

static void
happen(void)
{
    uint64_t second = w.now_us / SECOND_US;

    if (second == DEATH_S) {
        w.node[1].lives = false;
    } else if (second == RETURN_S) {
        start(1);
    }
    w.cut = second >= CUT_S && second < HEAL_S;
}

static void
play(uint64_t seed)
{
    choose(seed);
    for (w.now_us = 0; w.now_us < SECONDS * SECOND_US; w.now_us += STEP_US) {
        if (w.now_us % SECOND_US == 0) {
            happen();
            if (w.now_us != 0 && w.kind != AT_ONCE) {
                judge_minute(w.now_us / SECOND_US);
            }
        }
        take_words();
        end_requests();
        for (uint32_t i = 0; i < w.nodes; i++) {
            if (w.node[i].lives && w.now_us >= w.node[i].due_us) {
                tick(i);
            }
        }
        move_clients();
        if (w.now_us % LANE_US == 0) {
            look_at_waiters();
        }
        ask_all();
        judge_open();
    }
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 20;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        play(seed);
    }
    printf("%llu seeds; in a minute at most %lld permille too much and %lld "
           "too little of 3 nodes, %lld and %lld of 7; with two sides %lld too "
           "much\n",
           (unsigned long long)seeds, (long long)worst_over_permille[0],
           (long long)worst_under_permille[0],
           (long long)worst_over_permille[1],
           (long long)worst_under_permille[1], (long long)worst_cut_permille);
    return 0;
}
