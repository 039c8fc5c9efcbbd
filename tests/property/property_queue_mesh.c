/*
 * Queues of three nodes with common workers, on virtual time: clients flood one
 * node or all of them while few ask at the others; nodes hear late of each
 * other's load and of who waits there; a worker is lost, and later a node, and
 * both come back.
 *
 * Nobody waits much longer than all who waited anywhere when it came would take
 * (so whoever asks at the node with no place of its own is not starved by one
 * that has them all); tenants that flood all nodes get tokens by their weights;
 * places are seldom free while somebody waits; a worker has seldom more than its
 * places, though a place that two nodes see is taken by both; nobody is
 * placed at a worker that is lost, and one that is back is used at once; a
 * request for whom a home frees up in time goes there.
 *
 *   property_queue_mesh SEEDS [FIRST]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/queue/queue.h"

#define NODES       3U
#define WORKERS     4U
#define TENANTS     4U /* 1 and 2 flood, 3 is seldom */
#define WAITS       512U
#define REQUESTS    4096U
#define WORDS       4096U
#define STEP_US     UINT64_C(1000)
#define SECOND_US   UINT64_C(1000000)
#define TELL_US     UINT64_C(55000)
#define SECONDS     160U
#define LOST_S      40U
#define BACK_S      55U
#define DEATH_S     80U
#define RETURN_S    100U
#define SILENCE_US  UINT64_C(700000)
#define FLOOD       24U /* of each tenant, that always wait */
#define TOKEN_US    200U
#define CACHED_RATE 8000U

struct request {
    uint64_t id; /* 0: unused */
    uint32_t node;
    uint32_t tenant;
    uint32_t tokens;
    uint32_t home;   /* WORKERS: none */
    uint32_t worker; /* where it runs; WORKERS: it waits */
    uint64_t ends_us;
    uint64_t came_us;
};

struct node {
    bool lives;
    uint64_t born;
    struct queue *queue;
    uint32_t own[WORKERS];
    uint32_t waiting[TENANTS];
    uint32_t heard[NODES][WORKERS];
    uint64_t heard_us[NODES];
    uint64_t heard_seq[NODES]; /* nothing older is taken */
    uint64_t tell_us;
};

/* A node's numbers at one worker. */
struct word {
    uint64_t at_us;
    uint64_t seq;
    uint64_t born;
    uint32_t from;
    uint32_t to;
    uint32_t own[WORKERS];
};

static struct world {
    uint64_t seed;
    struct rng rng;
    uint64_t now_us;
    uint32_t places;
    bool all_flooded;
    bool lost[WORKERS];
    struct node node[NODES];
    struct request request[REQUESTS];
    uint32_t requests; /* beyond it none was used */
    uint64_t ids;
    struct word word[WORDS];
    uint32_t words;
    uint64_t most_tokens;        /* that waited and ran at one time */
    uint64_t served[TENANTS];    /* tokens */
    uint64_t idle_us;            /* places free while somebody waits */
    uint64_t over_us;            /* places taken twice */
    uint64_t used_us;            /* places there were */
    uint64_t with_home, at_home; /* of those placed by the queue */
    uint64_t back_us;            /* when the lost worker was used again */
} w;

static double worst_wait;
static double worst_share;
static double worst_idle;
static double worst_over;
static double least_home = 1;

static void
fail(const char *what, double found)
{
    printf("property_queue_mesh: %s: %.3f at %.3f s, seed %llu\n", what, found,
           (double)w.now_us / 1e6, (unsigned long long)w.seed);
    exit(1);
}

static uint32_t
below(uint32_t n)
{
    return (uint32_t)rng_below(&w.rng, n);
}

/* Numbers that travel */

static void
send_words(uint32_t from)
{
    const struct node *n = &w.node[from];

    for (uint32_t to = 0; to < NODES; to++) {
        if (to == from || !w.node[to].lives) {
            continue;
        }
        if (w.words == WORDS) {
            fail("too many words", WORDS);
        }
        struct word *word = &w.word[w.words++];
        *word = (struct word){.at_us = w.now_us + 3000 + below(8000),
                              .seq = ++w.ids,
                              .born = n->born,
                              .from = from,
                              .to = to};
        for (uint32_t i = 0; i < WORKERS; i++) {
            word->own[i] = n->own[i];
        }
    }
}

static void
take_words(void)
{
    for (uint32_t i = 0; i < w.words;) {
        struct word word = w.word[i];
        if (word.at_us > w.now_us) {
            i++;
            continue;
        }
        w.word[i] = w.word[--w.words];
        struct node *to = &w.node[word.to];
        if (to->lives && w.node[word.from].born == word.born &&
            word.seq > to->heard_seq[word.from]) {
            memcpy(to->heard[word.from], word.own, sizeof(word.own));
            to->heard_us[word.from] = w.now_us;
            to->heard_seq[word.from] = word.seq;
        }
    }
}

static void
look_at_peers(struct node *n)
{
    for (uint32_t i = 0; i < NODES; i++) {
        if (w.now_us - n->heard_us[i] > SILENCE_US) {
            memset(n->heard[i], 0, sizeof(n->heard[i]));
        }
    }
}

/* Requests */

static uint32_t
room_at(const struct node *n, uint32_t slot)
{
    uint32_t used = n->own[slot];

    for (uint32_t i = 0; i < NODES; i++) {
        used += n->heard[i][slot];
    }
    return !w.lost[slot] && used < w.places ? w.places - used : 0;
}

/* What all that ever waited and ran anywhere at one time take on three workers,
 * one and a half times over; of one that floods with a quarter of the weight,
 * three times. */
static uint64_t
patience_us(uint32_t tenant)
{
    uint64_t all_us = w.most_tokens * (TOKEN_US + SECOND_US / CACHED_RATE);

    return all_us * (tenant == 1 ? 6 : 3) / (2 * 3 * (uint64_t)w.places) +
           SECOND_US;
}

static void
judge_wait(const struct request *r)
{
    double share =
        (double)(w.now_us - r->came_us) / (double)patience_us(r->tenant);

    worst_wait = share > worst_wait ? share : worst_wait;
    if (share > 1) {
        fail(r->tenant == 3 ? "one waits too long beside a flood"
                            : "a flood waits too long",
             (double)(w.now_us - r->came_us) / 1e6);
    }
}

static void
run_at(struct request *r, uint32_t slot)
{
    struct node *n = &w.node[r->node];
    bool misses = r->home != WORKERS && r->home != slot;

    if (w.lost[slot]) {
        fail("placed at a lost worker", slot);
    }
    if (slot == 0 && w.now_us >= BACK_S * SECOND_US && w.back_us == 0) {
        w.back_us = w.now_us;
    }
    judge_wait(r);
    n->own[slot]++;
    r->worker = slot;
    r->ends_us = w.now_us + 20000 + (uint64_t)r->tokens * TOKEN_US +
                 (misses ? r->tokens * SECOND_US / CACHED_RATE : 0);
    w.served[r->tenant] += r->tokens;
    send_words(r->node);
}

static void
let_wait(struct request *r)
{
    static const uint32_t weight[TENANTS] = {1, 1, 3, 1};
    struct queue_request wait = {
        .id = r->id,
        .tenant = r->tenant,
        .weight = weight[r->tenant],
        .class = queue_class(0),
        .tokens = r->tokens,
        .deadline_us = UINT64_MAX,
        .saved_us =
            r->home != WORKERS ? r->tokens * SECOND_US / CACHED_RATE : 0,
    };
    uint64_t gone;

    worker_set_clear(&wait.able);
    worker_set_clear(&wait.homes);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        worker_set_add(&wait.able, slot);
    }
    if (r->home != WORKERS) {
        worker_set_add(&wait.homes, r->home);
    }
    r->worker = WORKERS;
    w.node[r->node].waiting[r->tenant]++;
    if (queue_add(w.node[r->node].queue, &wait, w.now_us, &gone) != 0) {
        fail("no room in the queue", 0);
    }
}

/* As a lane does: where there is room and nobody waits, it goes at once. */
static void
begin(struct request *r)
{
    struct node *n = &w.node[r->node];
    uint32_t best = WORKERS;

    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        if (room_at(n, slot) > 0 && queue_waiting(n->queue) == 0 &&
            (best == WORKERS || room_at(n, slot) > room_at(n, best))) {
            best = slot;
        }
    }
    if (best != WORKERS) {
        run_at(r, best);
    } else {
        let_wait(r);
    }
}

static void
ask(uint32_t node, uint32_t tenant)
{
    uint32_t at = 0;

    while (at < w.requests && w.request[at].id != 0) {
        at++;
    }
    if (at == REQUESTS) {
        fail("too many requests", REQUESTS);
    }
    w.requests = at == w.requests ? at + 1 : w.requests;
    struct request *r = &w.request[at];
    *r = (struct request){
        .id = ++w.ids * REQUESTS + at,
        .node = node,
        .tenant = tenant,
        .tokens = 500 + below(5000),
        .home = below(2) == 0 ? below(WORKERS) : WORKERS,
        .came_us = w.now_us,
    };
    begin(r);
}

static void
ask_all(void)
{
    for (uint32_t i = 0; i < NODES; i++) {
        struct node *n = &w.node[i];
        bool flooded = i == 0 || w.all_flooded;
        for (uint32_t t = 1; n->lives && flooded && t < 3; t++) {
            while (n->waiting[t] < FLOOD) {
                ask(i, t);
            }
        }
        if (n->lives && below(4000) == 0) {
            ask(i, 3);
        }
    }
}

static void
end_one(struct request *r)
{
    struct node *n = &w.node[r->node];
    uint32_t slot = r->worker;

    CHECK(n->own[slot] > 0);
    n->own[slot]--;
    queue_ended(n->queue, slot, w.now_us);
    send_words(r->node);
    if (w.lost[slot]) { /* it failed, and is sent to another one */
        r->came_us = w.now_us;
        begin(r);
    } else {
        r->id = 0;
    }
}

static void
end_requests(void)
{
    for (uint32_t i = 0; i < w.requests; i++) {
        struct request *r = &w.request[i];
        if (r->id != 0 && r->worker != WORKERS &&
            (r->ends_us <= w.now_us || w.lost[r->worker])) {
            end_one(r);
        }
    }
}

static void
place(uint32_t node)
{
    struct node *n = &w.node[node];
    uint32_t room[WORKERS_MAX] = {0};
    struct queue_out out;

    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        room[slot] = room_at(n, slot);
    }
    while (queue_next(n->queue, room, w.now_us, &out)) {
        struct request *r = &w.request[out.id % REQUESTS];
        CHECK(out.event == QUEUE_PLACE && r->id == out.id);
        n->waiting[r->tenant]--;
        w.with_home += r->home != WORKERS;
        w.at_home += out.home;
        run_at(r, out.worker);
    }
}

/* The world */

static void
start(uint32_t node)
{
    struct node *n = &w.node[node];

    memset(n, 0, sizeof(*n));
    n->lives = true;
    n->born = ++w.ids;
    n->tell_us = w.now_us + below(TELL_US);
    if (queue_new(&n->queue, WAITS) != 0) {
        abort();
    }
}

static void
stop(uint32_t node)
{
    for (uint32_t i = 0; i < w.requests; i++) {
        if (w.request[i].node == node) {
            w.request[i].id = 0;
        }
    }
    queue_free(w.node[node].queue);
    memset(&w.node[node], 0, sizeof(w.node[node]));
}

static void
happen(void)
{
    switch (w.now_us / SECOND_US) {
    case LOST_S:
        w.lost[0] = true;
        break;
    case BACK_S:
        w.lost[0] = false;
        break;
    case DEATH_S:
        stop(1);
        break;
    case RETURN_S:
        start(1);
        break;
    default:
        break;
    }
}

/* Places by what the workers really have. */
static void
measure(void)
{
    uint32_t used[WORKERS] = {0};
    uint32_t waiting = 0;
    uint64_t tokens = 0;

    for (uint32_t i = 0; i < w.requests; i++) {
        const struct request *r = &w.request[i];
        tokens += r->id != 0 ? r->tokens : 0;
        if (r->id != 0 && r->worker != WORKERS) {
            used[r->worker]++;
        }
        waiting += r->id != 0 && r->worker == WORKERS;
        if (r->id != 0 && r->worker == WORKERS) {
            judge_wait(r);
        }
    }
    w.most_tokens = tokens > w.most_tokens ? tokens : w.most_tokens;
    for (uint32_t i = 0; waiting != 0 && i < WORKERS; i++) {
        if (w.lost[i]) {
            continue;
        }
        w.used_us += w.places * STEP_US;
        w.idle_us += used[i] < w.places ? (w.places - used[i]) * STEP_US : 0;
        w.over_us += used[i] > w.places ? (used[i] - w.places) * STEP_US : 0;
    }
}

static void
judge(void)
{
    double idle = (double)w.idle_us / (double)w.used_us;
    double over = (double)w.over_us / (double)w.used_us;
    double share = (double)w.served[2] / (double)w.served[1] / 3;
    double home = (double)w.at_home / (double)w.with_home;

    worst_idle = idle > worst_idle ? idle : worst_idle;
    over *= w.places; /* requests of a worker */
    worst_over = over > worst_over ? over : worst_over;
    share = share < 1 ? 1 / share : share;
    worst_share = share > worst_share ? share : worst_share;
    least_home = home < least_home ? home : least_home;
    if (idle > 0.02) {
        fail("places are free while somebody waits", idle);
    }
    if (over > 0.75) {
        fail("places are taken twice", over);
    }
    if (share > 1.1) {
        fail("turns are not by weight", share);
    }
    if (home < (w.places == 8 ? 0.5 : 0.27)) { /* a quarter does by chance */
        fail("few go home", home);
    }
    if (w.back_us == 0 || w.back_us > BACK_S * SECOND_US + 100000) {
        fail("the worker that is back is not used", (double)w.back_us / 1e6);
    }
}

static void
play(uint64_t seed)
{
    static const uint32_t places[] = {1, 2, 8};

    memset(&w, 0, sizeof(w));
    w.seed = seed;
    rng_init(&w.rng, seed);
    w.places = places[seed % 3];
    w.all_flooded = seed / 3 % 2 == 0;
    for (uint32_t i = 0; i < NODES; i++) {
        start(i);
    }
    for (w.now_us = 0; w.now_us < SECONDS * SECOND_US; w.now_us += STEP_US) {
        if (w.now_us % SECOND_US == 0) {
            happen();
        }
        take_words();
        end_requests();
        ask_all();
        for (uint32_t i = 0; i < NODES; i++) {
            struct node *n = &w.node[i];
            if (!n->lives) {
                continue;
            }
            look_at_peers(n);
            place(i);
            if (w.now_us >= n->tell_us) {
                n->tell_us = w.now_us + TELL_US;
                send_words(i);
            }
        }
        measure();
    }
    judge();
    for (uint32_t i = 0; i < NODES; i++) {
        stop(i);
    }
}

int
main(int argc, char **argv)
{
    uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 6;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    for (uint64_t seed = first; seed < first + seeds; seed++) {
        play(seed);
    }
    printf("%llu seeds; waits at most %.2f of what is allowed, turns off by "
           "%.3f, %.3f of places free, %.2f requests too many of a worker, "
           "%.2f or more "
           "go home\n",
           (unsigned long long)seeds, worst_wait, worst_share, worst_idle,
           worst_over, least_home);
    return 0;
}
