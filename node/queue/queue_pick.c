/* Which of those that wait goes next: classes, turns, and places that are
 * passed up for a home. */
#include "node/queue/queue_internal.h"

#include "index/base/mutant.h"

/* A flow's next one that takes a place now. */
struct offer {
    uint32_t at; /* QUEUE_NONE: none does */
    uint32_t tenant;
    uint64_t rounds; /* quanta that its flow lacks for it */
};

/* When a place at one of its homes is expected; UINT64_MAX: nobody knows. Each
 * that passes up places for that worker takes one before. */
static uint64_t
home_free_us(const struct queue *q, const struct queue_wait *w, uint64_t now_us)
{
    uint64_t soonest_us = UINT64_MAX;

    WORKER_SET_EACH (slot, &w->request.homes) {
        const struct queue_worker *worker = &q->worker[slot];
        uint64_t before = worker->claims - (w->passed_us != 0);
        uint64_t due_us = worker->ended_us + worker->gap_us * (before + 1);
        if (worker->gap_us != 0 && due_us < soonest_us) {
            soonest_us = due_us;
        }
    }
    CHECK_SLOW(soonest_us > 0);
    return soonest_us == UINT64_MAX || soonest_us > now_us ? soonest_us
                                                           : now_us;
}

/* Whether it would rather wait for a home than take a place now. */
static bool
passes(struct queue *q, struct queue_wait *w, uint64_t now_us)
{
    uint64_t since_us = w->passed_us != 0 ? w->passed_us : now_us;
    uint64_t until_us = since_us + w->request.saved_us;

    if (w->request.saved_us == 0 || now_us >= until_us ||
        home_free_us(q, w, now_us) > until_us) {
        return false;
    }
    if (w->passed_us == 0) {
        w->passed_us = now_us > 0 ? now_us : 1;
        WORKER_SET_EACH (slot, &w->request.homes) {
            q->worker[slot].claims++;
        }
    }
    CHECK_SLOW(until_us > now_us);
    q->look_us = until_us < q->look_us ? until_us : q->look_us;
    return true;
}

/* Whether one of them is for it. */
static bool
has_one(const struct queue_wait *w, const struct worker_set *roomy)
{
    struct worker_set able = worker_set_and(&w->request.able, roomy);

    CHECK_SLOW(w->request.id != 0);
    return !worker_set_empty(&able);
}

/* Whether it takes a place at one of those that are. */
static bool
takes(struct queue *q, struct queue_wait *w, const struct worker_set *roomy,
      uint64_t now_us)
{
    struct worker_set home = worker_set_and(&w->request.homes, roomy);

    CHECK_SLOW(has_one(w, roomy));
    return !worker_set_empty(&home) || !passes(q, w, now_us);
}

/* Tokens that a flow gets in its turn. */
static uint64_t
turn_of(const struct queue_flow *flow)
{
    CHECK_SLOW(flow->weight > 0);
    return MUTANT(NO_WEIGHTS) ? QUEUE_QUANTUM
                              : (uint64_t)QUEUE_QUANTUM * flow->weight;
}

static struct offer
offer_of(struct queue *q, const struct queue_flow *flow, uint32_t tenant,
         const struct worker_set *roomy, uint64_t now_us)
{
    struct offer offer = {.at = QUEUE_NONE, .tenant = tenant};
    uint32_t passed = 0;

    for (uint32_t at = flow->first; at != QUEUE_NONE && passed < QUEUE_LOOK;
         at = q->wait[at].next) {
        if (!has_one(&q->wait[at], roomy)) {
            continue; /* it has no claim on what others can use */
        }
        if (takes(q, &q->wait[at], roomy, now_us)) {
            uint64_t tokens = q->wait[at].request.tokens;
            uint64_t lacks =
                tokens > flow->deficit ? tokens - flow->deficit : 0;
            uint64_t turn = turn_of(flow);
            offer.at = at;
            offer.rounds = (lacks + turn - 1) / turn;
            break;
        }
        passed++;
    }
    CHECK_SLOW(flow->weight > 0);
    return offer;
}

/* The flow that can send first, in the order of turns. */
static struct offer
first_offer(struct queue *q, const struct queue_tier *tier,
            const struct worker_set *roomy, uint64_t now_us)
{
    struct offer best = {.at = QUEUE_NONE};
    uint32_t tenant = tier->turn;

    CHECK(tenant != QUEUE_NONE);
    do {
        const struct queue_flow *flow = &tier->flow[tenant];
        struct offer offer = offer_of(q, flow, tenant, roomy, now_us);
        if (offer.at != QUEUE_NONE &&
            (best.at == QUEUE_NONE || offer.rounds < best.rounds)) {
            best = offer;
        }
        tenant = flow->next;
    } while (tenant != tier->turn);
    return best;
}

/*
 * So many rounds pass until the offer's flow can send it: all flows get their
 * quanta. One that cannot use its turn now, because no worker with room is for
 * it, gets no more than its first request costs.
 */
static void
give_turns(struct queue *q, struct queue_tier *tier, const struct offer *offer)
{
    uint32_t tenant = tier->turn;

    CHECK(offer->at != QUEUE_NONE);
    do {
        struct queue_flow *flow = &tier->flow[tenant];
        uint64_t turn = turn_of(flow);
        uint64_t most = q->wait[flow->first].request.tokens + turn;
        uint64_t with = flow->deficit + offer->rounds * turn;
        if (tenant == offer->tenant || with < most) {
            flow->deficit = with;
        } else if (flow->deficit < most) {
            flow->deficit = most;
        }
        tenant = flow->next;
    } while (tenant != tier->turn);
}

/* Its turn goes on while it can send its next one. */
static void
take_turn(struct queue *q, struct queue_tier *tier, const struct offer *offer)
{
    struct queue_flow *flow = &tier->flow[offer->tenant];
    uint32_t tokens = q->wait[offer->at].request.tokens;

    CHECK(flow->deficit >= tokens);
    flow->deficit -= tokens;
    uint32_t next =
        flow->first != offer->at ? flow->first : q->wait[offer->at].next;
    bool goes_on =
        next != QUEUE_NONE && flow->deficit >= q->wait[next].request.tokens;
    tier->turn = goes_on ? offer->tenant : flow->next;
}

/* Later classes get their part of what a class before them gets. */
static void
give_credit(struct queue *q, uint32_t class, uint32_t tokens)
{
    struct queue_tier *own = &q->tier[class];
    uint64_t paid = (uint64_t)tokens * QUEUE_SHARE;

    CHECK(class < QUEUE_CLASSES);
    own->credit = own->credit > paid ? own->credit - paid : 0;
    for (uint32_t i = class + 1; i < QUEUE_CLASSES; i++) {
        struct queue_tier *tier = &q->tier[i];
        uint64_t most = (uint64_t)QUEUE_TOKENS_MAX * QUEUE_SHARE;
        if (tier->turn != QUEUE_NONE && tier->credit < most &&
            !MUTANT(LATER_STARVES)) {
            tier->credit += tokens;
        }
    }
}

/* The first class that has one to send; but a later one whose part covers what
 * it would send goes before, and of those the last. */
static struct offer
choose(struct queue *q, const struct worker_set *roomy, uint64_t now_us,
       uint32_t *class)
{
    struct offer best = {.at = QUEUE_NONE};

    for (uint32_t i = 0; i < QUEUE_CLASSES; i++) {
        const struct queue_tier *tier = &q->tier[i];
        if (tier->turn == QUEUE_NONE ||
            (best.at != QUEUE_NONE && tier->credit == 0)) {
            continue;
        }
        struct offer offer = first_offer(q, tier, roomy, now_us);
        if (offer.at == QUEUE_NONE) {
            continue;
        }
        uint64_t costs =
            (uint64_t)q->wait[offer.at].request.tokens * QUEUE_SHARE;
        if (best.at == QUEUE_NONE || tier->credit >= costs) {
            best = offer;
            *class = i;
        }
    }
    CHECK_SLOW(best.at == QUEUE_NONE || *class < QUEUE_CLASSES);
    return best;
}

/* A home if there is one; otherwise where most places are free. */
static uint32_t
place_for(const struct queue_wait *w, const struct worker_set *roomy,
          const uint32_t *room)
{
    struct worker_set able = worker_set_and(&w->request.able, roomy);
    struct worker_set home = worker_set_and(&w->request.homes, roomy);
    uint32_t best = WORKER_NONE;

    able = worker_set_empty(&home) ? able : home;
    WORKER_SET_EACH (slot, &able) {
        if (best == WORKER_NONE || room[slot] > room[best]) {
            best = slot;
        }
    }
    CHECK(best != WORKER_NONE);
    return best;
}

uint32_t
queue_pick(struct queue *q, const struct worker_set *roomy,
           const uint32_t *room, uint64_t now_us, uint32_t *worker)
{
    uint32_t class = 0;
    struct offer offer = choose(q, roomy, now_us, &class);

    CHECK(!worker_set_empty(roomy));
    if (offer.at == QUEUE_NONE) {
        return QUEUE_NONE;
    }
    give_turns(q, &q->tier[class], &offer);
    take_turn(q, &q->tier[class], &offer);
    give_credit(q, class, q->wait[offer.at].request.tokens);
    *worker = place_for(&q->wait[offer.at], roomy, room);
    return offer.at;
}
