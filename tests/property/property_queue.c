/*
 * The queue of waiting requests on virtual time, against a plain list of who
 * waits: workers with few places serve tenants of several weights and classes.
 *
 * Each scene of random requests: whoever waits is told one thing, once; nobody
 * is placed where it may not go, where there is no room, or after its time; no
 * place stays free that one would take, and one that holds out for a home does
 * so no longer than that saves; who gives way is the last of the fullest.
 *
 * Nobody waits behind others of its tenant who wait for another model.
 *
 * Each contest, where all tenants always wait: of a class each gets tokens by
 * its weight, and no class less than its part.
 *
 *   property_queue SCENES [FIRST_SEED]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"
#include "node/queue/queue.h"

#define WAITS   48U
#define WORKERS 6U
#define TENANTS 5U
#define STEPS   400U

static uint64_t seed;

#define REQUIRE(condition)                                                  \
    do {                                                                    \
        if (!(condition)) {                                                 \
            printf("property_queue: %s (line %d), seed %llu\n", #condition, \
                   __LINE__, (unsigned long long)seed);                     \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

struct waiter {
    struct queue_request request;
    uint64_t came;     /* order */
    uint64_t could_us; /* when it first saw a place elsewhere; 0: never */
};

struct world {
    struct rng rng;
    struct queue *queue;
    struct waiter waiter[WAITS];
    uint32_t count;
    uint32_t room[WORKERS_MAX];
    uint32_t used[WORKERS];
    uint32_t places;
    uint64_t now_us;
    uint64_t ids;
    uint32_t weight[TENANTS];
    uint64_t told; /* placed, expired or pushed out */
    uint64_t left;
};

static void
check(const struct world *w)
{
    const char *reason;

    if (!queue_check(w->queue, &reason)) {
        printf("property_queue: %s, seed %llu\n", reason,
               (unsigned long long)seed);
        exit(1);
    }
    REQUIRE(queue_waiting(w->queue) == w->count);
}

static uint32_t
find(const struct world *w, uint64_t id)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->waiter[i].request.id == id) {
            return i;
        }
    }
    printf("property_queue: told of one that does not wait, seed %llu\n",
           (unsigned long long)seed);
    exit(1);
}

static void
forget(struct world *w, uint32_t at)
{
    w->waiter[at] = w->waiter[--w->count];
}

static struct worker_set
some_workers(struct rng *rng, uint32_t one_in)
{
    struct worker_set set;

    worker_set_clear(&set);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        if (rng_below(rng, one_in) == 0) {
            worker_set_add(&set, slot);
        }
    }
    return set;
}

static uint64_t
bulk_of(const struct world *w, uint32_t class, uint32_t tenant)
{
    uint64_t tokens = 0;

    for (uint32_t i = 0; i < w->count; i++) {
        const struct queue_request *r = &w->waiter[i].request;
        tokens += r->class == class && r->tenant == tenant ? r->tokens : 0;
    }
    return tokens / w->weight[tenant];
}

/* gone is the last one that came of a fullest tenant of the last class. The
 * list still has it, and not yet the new one. */
static void
check_gone(const struct world *w, uint64_t gone,
           const struct queue_request *new)
{
    const struct waiter *victim = &w->waiter[find(w, gone)];
    uint32_t class = victim->request.class;
    uint32_t tenant = victim->request.tenant;

    REQUIRE(class >= new->class);
    for (uint32_t i = 0; i < w->count; i++) {
        const struct waiter *other = &w->waiter[i];
        REQUIRE(other->request.class <= class);
        REQUIRE(other->request.class != class ||
                other->request.tenant != tenant || other->came <= victim->came);
        REQUIRE(other->request.class != class ||
                bulk_of(w, class, other->request.tenant) <=
                    bulk_of(w, class, tenant));
    }
}

static void
add_one(struct world *w)
{
    struct queue_request r = {
        .id = ++w->ids,
        .tenant = (uint32_t)rng_below(&w->rng, TENANTS),
        .class = queue_class((int64_t)rng_below(&w->rng, 12) - 6),
        .tokens = 1 + (uint32_t)rng_below(&w->rng, 9000),
        .deadline_us = w->now_us + 1000 + rng_below(&w->rng, 3000000),
        .able = some_workers(&w->rng, 2),
        .saved_us = rng_below(&w->rng, 2) == 0 ? rng_below(&w->rng, 400000) : 0,
    };
    uint64_t gone = 0;

    r.weight = w->weight[r.tenant];
    r.homes = some_workers(&w->rng, 4);
    int outcome = queue_add(w->queue, &r, w->now_us, &gone);
    r.homes = worker_set_and(&r.homes, &r.able);
    if (outcome == QUEUE_E_FULL) {
        REQUIRE(w->count == WAITS);
        for (uint32_t i = 0; i < w->count; i++) {
            REQUIRE(w->waiter[i].request.class <= r.class);
        }
        w->told++;
        return;
    }
    if (outcome == QUEUE_E_PUSHED) {
        REQUIRE(w->count == WAITS);
        check_gone(w, gone, &r);
        forget(w, find(w, gone));
        w->told++;
    } else {
        REQUIRE(outcome == 0 && w->count < WAITS);
    }
    w->waiter[w->count++] = (struct waiter){.request = r, .came = r.id};
    REQUIRE(queue_add(w->queue, &r, w->now_us, &gone) == QUEUE_E_TWICE);
}

static bool
has_room(const struct world *w, const struct worker_set *set)
{
    WORKER_SET_EACH (slot, set) {
        if (w->room[slot] > 0) {
            return true;
        }
    }
    return false;
}

/* Nobody that would take a place is left. */
static void
check_rest(struct world *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        struct waiter *one = &w->waiter[i];
        REQUIRE(one->request.deadline_us > w->now_us);
        if (!has_room(w, &one->request.able)) {
            continue;
        }
        REQUIRE(!has_room(w, &one->request.homes));
        one->could_us = one->could_us != 0 ? one->could_us : w->now_us;
        REQUIRE(w->now_us < one->could_us + one->request.saved_us);
        REQUIRE(queue_deadline(w->queue) <=
                one->could_us + one->request.saved_us);
    }
}

static void
pull(struct world *w)
{
    struct queue_out out;

    while (queue_next(w->queue, w->room, w->now_us, &out)) {
        uint32_t at = find(w, out.id);
        const struct queue_request *r = &w->waiter[at].request;
        if (out.event == QUEUE_EXPIRED) {
            REQUIRE(r->deadline_us <= w->now_us);
        } else {
            REQUIRE(r->deadline_us > w->now_us);
            REQUIRE(out.worker < WORKERS && w->used[out.worker] < w->places);
            REQUIRE(worker_set_has(&r->able, out.worker));
            REQUIRE(out.home == worker_set_has(&r->homes, out.worker));
            w->used[out.worker]++;
            REQUIRE(w->room[out.worker] == w->places - w->used[out.worker]);
        }
        w->told++;
        forget(w, at);
        check(w);
    }
    check_rest(w);
}

static void
pass_time(struct world *w)
{
    uint64_t due_us = queue_deadline(w->queue);
    uint64_t step_us = rng_below(&w->rng, 60000);

    if (due_us != UINT64_MAX && rng_below(&w->rng, 4) == 0) {
        w->now_us = due_us > w->now_us ? due_us : w->now_us;
        return;
    }
    w->now_us += step_us;
}

static void
end_one(struct world *w)
{
    uint32_t slot = (uint32_t)rng_below(&w->rng, WORKERS);

    if (w->used[slot] > 0) {
        w->used[slot]--;
        w->room[slot]++;
        queue_ended(w->queue, slot, w->now_us);
    }
}

static void
scene(void)
{
    struct world w = {.now_us = 1000000};

    rng_init(&w.rng, seed);
    REQUIRE(queue_new(&w.queue, WAITS) == 0);
    w.places = 1 + (uint32_t)rng_below(&w.rng, 3);
    for (uint32_t slot = 0; slot < WORKERS; slot++) {
        w.room[slot] = w.places;
    }
    for (uint32_t t = 0; t < TENANTS; t++) {
        w.weight[t] = 1 + (uint32_t)rng_below(&w.rng, 4);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        uint64_t what = rng_below(&w.rng, 8);
        if (what < 4) {
            add_one(&w);
        } else if (what < 6) {
            end_one(&w);
        } else if (what == 6 && w.count > 0) {
            uint32_t at = (uint32_t)rng_below(&w.rng, w.count);
            uint64_t id = w.waiter[at].request.id;
            REQUIRE(queue_leave(w.queue, id) && !queue_leave(w.queue, id));
            forget(&w, at);
            w.left++;
        } else {
            pass_time(&w);
        }
        check(&w);
        pull(&w);
    }
    REQUIRE(w.ids == w.told + w.left + w.count);
    queue_free(w.queue);
}

/* Two models of one tenant: many wait for the one, which has no room, before one
 * comes for the other. */
static void
models(void)
{
    struct queue_request r = {
        .weight = 1, .tokens = 1, .deadline_us = UINT64_MAX};
    uint32_t room[WORKERS_MAX] = {0, 1};
    struct queue *queue;
    struct queue_out out;
    uint64_t gone;

    REQUIRE(queue_new(&queue, WAITS) == 0);
    worker_set_add(&r.able, 0);
    while (++r.id < WAITS) {
        REQUIRE(queue_add(queue, &r, 0, &gone) == 0);
    }
    worker_set_clear(&r.able);
    worker_set_add(&r.able, 1);
    REQUIRE(queue_add(queue, &r, 0, &gone) == 0);
    REQUIRE(queue_next(queue, room, 0, &out));
    REQUIRE(out.id == r.id && out.worker == 1 && room[1] == 0);
    REQUIRE(!queue_next(queue, room, 0, &out));
    queue_free(queue);
}

/* Everybody always waits */

#define CONTEST_STEPS 4000U
#define CONTEST_WAITS 512U
#define TOKENS_MOST   6000U

struct contest {
    struct rng rng;
    struct queue *queue;
    uint32_t classes;
    uint32_t weight[TENANTS];
    uint64_t served[QUEUE_CLASSES][TENANTS]; /* tokens */
    uint64_t ids;
    uint32_t tokens[CONTEST_WAITS * 64]; /* by id */
    uint32_t whose[CONTEST_WAITS * 64];
};

static void
refill(struct contest *c, uint32_t class, uint32_t tenant, uint64_t now_us)
{
    struct queue_request r = {
        .id = ++c->ids,
        .tenant = tenant,
        .weight = c->weight[tenant],
        .class = class,
        .deadline_us = UINT64_MAX,
        /* One tenant's are small, another's large: turns are by tokens. */
        .tokens = tenant == 0 ? 1 + (uint32_t)rng_below(&c->rng, 200)
                              : 1 + (uint32_t)rng_below(&c->rng, TOKENS_MOST),
    };
    uint64_t gone;

    worker_set_clear(&r.able);
    worker_set_add(&r.able, 0);
    REQUIRE(r.id < CONTEST_WAITS * 64);
    c->tokens[r.id] = r.tokens;
    c->whose[r.id] = class * TENANTS + tenant;
    REQUIRE(queue_add(c->queue, &r, now_us, &gone) == 0);
}

static void
judge(const struct contest *c)
{
    uint64_t by_class[QUEUE_CLASSES] = {0};
    uint64_t before = 0;

    for (uint32_t class = 0; class < c->classes; class ++) {
        double least = 1e18;
        double most = 0;
        for (uint32_t t = 0; t < TENANTS; t++) {
            double share = (double)c->served[class][t] / c->weight[t];
            least = share < least ? share : least;
            most = share > most ? share : most;
            by_class[class] += c->served[class][t];
        }
        REQUIRE(most - least <= 2.0 * (TOKENS_MOST + QUEUE_QUANTUM));
        /* A later class has its part of all that went before, but for the
         * request that it saves for, and one that goes before that. */
        REQUIRE(class == 0 ||
                (by_class[class] + 2 * TOKENS_MOST) * QUEUE_SHARE >= before);
        REQUIRE(class == 0 || by_class[class] <= by_class[0]);
        before += by_class[class];
    }
}

static void
contest(void)
{
    static struct contest c;
    uint32_t room[WORKERS_MAX] = {0};
    uint64_t now_us = 0;

    memset(&c, 0, sizeof(c));
    rng_init(&c.rng, seed);
    REQUIRE(queue_new(&c.queue, CONTEST_WAITS) == 0);
    c.classes = 1 + (uint32_t)rng_below(&c.rng, 3);
    for (uint32_t t = 0; t < TENANTS; t++) {
        c.weight[t] = 1 + (uint32_t)rng_below(&c.rng, 5);
    }
    for (uint32_t i = 0; i < c.classes * TENANTS * 3; i++) {
        refill(&c, i / 3 / TENANTS, i / 3 % TENANTS, now_us);
    }
    for (uint32_t i = 0; i < CONTEST_STEPS; i++) {
        struct queue_out out;
        now_us += 1000;
        room[0] = 1;
        REQUIRE(queue_next(c.queue, room, now_us, &out));
        REQUIRE(out.event == QUEUE_PLACE && room[0] == 0);
        uint32_t class = c.whose[out.id] / TENANTS;
        uint32_t tenant = c.whose[out.id] % TENANTS;
        c.served[class][tenant] += c.tokens[out.id];
        refill(&c, class, tenant, now_us);
        if (i % 64 == 0) {
            judge(&c);
        }
    }
    judge(&c);
    queue_free(c.queue);
}

int
main(int argc, char **argv)
{
    unsigned long scenes = argc > 1 ? strtoul(argv[1], NULL, 10) : 100;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;

    models();
    for (seed = first; seed < first + scenes; seed++) {
        scene();
        if (seed % 4 == 0) {
            contest();
        }
    }
    printf("property_queue: %lu scenes\n", scenes);
    return 0;
}
