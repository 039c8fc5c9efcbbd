/* Who waits: the table, who gives way when it is full, and whose time is
 * over. */
#include "node/queue/queue.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/mutant.h"
#include "index/base/rng.h"
#include "node/queue/queue_internal.h"

#define GAP_PART   8U /* of a new gap in the mean */
#define PACE_US    UINT64_C(1000000)
#define PACE_PART  4U /* of a new second in the mean */
#define SECOND_US  UINT64_C(1000000)
#define CHAINS_MIN 16U

/* Ids */

static uint32_t *
chain_of(const struct queue *q, uint64_t id)
{
    CHECK_SLOW(id != 0);
    return &q->chains[rng_mix(id) & q->hash_mask];
}

static uint32_t
find(const struct queue *q, uint64_t id)
{
    uint32_t at = *chain_of(q, id);

    while (at != QUEUE_NONE && q->wait[at].request.id != id) {
        at = q->wait[at].chain;
    }
    return at;
}

static void
unchain(struct queue *q, uint32_t at)
{
    uint32_t *link = chain_of(q, q->wait[at].request.id);

    while (*link != at) {
        CHECK(*link != QUEUE_NONE);
        link = &q->wait[*link].chain;
    }
    *link = q->wait[at].chain;
}

/* Deadlines: a binary heap */

static bool
is_sooner(const struct queue *q, uint32_t a, uint32_t b)
{
    return q->wait[a].request.deadline_us < q->wait[b].request.deadline_us;
}

static void
heap_put(struct queue *q, uint32_t place, uint32_t at)
{
    CHECK_SLOW(place < q->waits_max);
    q->heap[place] = at;
    q->wait[at].heap_at = place;
}

static void
heap_rise(struct queue *q, uint32_t place, uint32_t at)
{
    while (place > 0 && is_sooner(q, at, q->heap[(place - 1) / 2])) {
        heap_put(q, place, q->heap[(place - 1) / 2]);
        place = (place - 1) / 2;
    }
    heap_put(q, place, at);
}

/* count: how many are in the heap. */
static void
heap_sink(struct queue *q, uint32_t count, uint32_t place, uint32_t at)
{
    for (uint32_t below = 2 * place + 1; below < count; below = 2 * place + 1) {
        if (below + 1 < count &&
            is_sooner(q, q->heap[below + 1], q->heap[below])) {
            below++;
        }
        if (!is_sooner(q, q->heap[below], at)) {
            break;
        }
        heap_put(q, place, q->heap[below]);
        place = below;
    }
    heap_put(q, place, at);
}

static void
heap_remove(struct queue *q, uint32_t at)
{
    uint32_t place = q->wait[at].heap_at;
    uint32_t last = q->heap[q->count - 1];

    CHECK(q->heap[place] == at);
    if (last == at) {
        return;
    }
    heap_rise(q, place, last);
    if (q->wait[last].heap_at == place) {
        heap_sink(q, q->count - 1, place, last);
    }
}

/* Flows */

static struct queue_flow *
flow_of(struct queue *q, const struct queue_request *r)
{
    CHECK_SLOW(r->class < QUEUE_CLASSES && r->tenant < QUEUE_TENANTS);
    return &q->tier[r->class].flow[r->tenant];
}

/* A tenant that has nothing waiting keeps nothing of its turn. */
static void
flow_open(struct queue_tier *tier, uint32_t tenant)
{
    struct queue_flow *flow = &tier->flow[tenant];

    flow->deficit = 0;
    if (tier->turn == QUEUE_NONE) {
        tier->turn = flow->next = flow->prev = tenant;
        return;
    }
    /* The last in turn. */
    flow->next = tier->turn;
    flow->prev = tier->flow[tier->turn].prev;
    tier->flow[flow->prev].next = tenant;
    tier->flow[tier->turn].prev = tenant;
}

static void
flow_close(struct queue_tier *tier, uint32_t tenant)
{
    struct queue_flow *flow = &tier->flow[tenant];

    CHECK(flow->first == QUEUE_NONE && flow->tokens == 0);
    tier->flow[flow->prev].next = flow->next;
    tier->flow[flow->next].prev = flow->prev;
    if (tier->turn == tenant) {
        tier->turn = flow->next != tenant ? flow->next : QUEUE_NONE;
    }
    if (tier->turn == QUEUE_NONE) {
        tier->credit = 0;
    }
}

static void
flow_append(struct queue *q, uint32_t at)
{
    const struct queue_request *r = &q->wait[at].request;
    struct queue_flow *flow = flow_of(q, r);

    if (flow->first == QUEUE_NONE) {
        flow_open(&q->tier[r->class], r->tenant);
        flow->first = at;
    } else {
        q->wait[flow->last].next = at;
    }
    q->wait[at].prev = flow->last;
    q->wait[at].next = QUEUE_NONE;
    flow->last = at;
    flow->weight = r->weight;
    flow->tokens += r->tokens;
}

static void
flow_remove(struct queue *q, uint32_t at)
{
    const struct queue_wait *w = &q->wait[at];
    struct queue_flow *flow = flow_of(q, &w->request);

    *(w->prev != QUEUE_NONE ? &q->wait[w->prev].next : &flow->first) = w->next;
    *(w->next != QUEUE_NONE ? &q->wait[w->next].prev : &flow->last) = w->prev;
    CHECK(flow->tokens >= w->request.tokens);
    flow->tokens -= w->request.tokens;
    if (flow->first == QUEUE_NONE) {
        flow_close(&q->tier[w->request.class], w->request.tenant);
    }
}

/* Waits */

static void
count_wanted(struct queue *q, const struct queue_wait *w, uint32_t by)
{
    WORKER_SET_EACH (slot, &w->request.able) {
        q->worker[slot].wanted += by;
    }
    q->counts.waiting[w->request.class] += by;
}

static void
insert(struct queue *q, const struct queue_request *request, uint64_t now_us)
{
    uint32_t at = q->free;
    struct queue_wait *w = &q->wait[at];
    uint32_t *chain = chain_of(q, request->id);

    CHECK(at != QUEUE_NONE && q->count < q->waits_max);
    q->free = w->next;
    *w = (struct queue_wait){
        .request = *request, .since_us = now_us, .chain = *chain};
    *chain = at;
    flow_append(q, at);
    heap_rise(q, q->count++, at);
    q->counts.tokens[request->class] += request->tokens;
    count_wanted(q, w, 1);
}

void
queue_remove(struct queue *q, uint32_t at)
{
    struct queue_wait *w = &q->wait[at];

    CHECK(q->count > 0);
    if (w->passed_us != 0) {
        WORKER_SET_EACH (slot, &w->request.homes) {
            q->worker[slot].claims--;
        }
    }
    count_wanted(q, w, UINT32_MAX);
    q->counts.tokens[w->request.class] -= w->request.tokens;
    heap_remove(q, at);
    q->count--;
    flow_remove(q, at);
    unchain(q, at);
    w->request.id = 0;
    w->next = q->free;
    q->free = at;
}

/* Tokens that wait, for a weight of one. */
static uint64_t
bulk(uint64_t tokens, uint32_t weight)
{
    CHECK(weight > 0);
    return tokens / weight;
}

/* Who gives way: the last one of the fullest flow of the last class. Where that
 * would be the new one itself: QUEUE_NONE. */
static uint32_t
victim(const struct queue *q, const struct queue_request *r)
{
    uint32_t class = QUEUE_CLASSES - 1;

    while (class > r->class && q->tier[class].turn == QUEUE_NONE) {
        class --;
    }
    const struct queue_tier *tier = &q->tier[class];
    bool own = class == r->class;
    uint64_t most =
        own ? bulk(tier->flow[r->tenant].tokens + r->tokens, r->weight) : 0;
    uint32_t found = QUEUE_NONE;
    uint32_t tenant = tier->turn;
    if (tenant == QUEUE_NONE) {
        return QUEUE_NONE;
    }
    do {
        const struct queue_flow *flow = &tier->flow[tenant];
        uint64_t there = bulk(flow->tokens, flow->weight);
        if ((!own || tenant != r->tenant) &&
            (there > most || (!own && found == QUEUE_NONE))) {
            most = there;
            found = flow->last;
        }
        tenant = flow->next;
    } while (tenant != tier->turn);
    return found;
}

int
queue_add(struct queue *q, const struct queue_request *request, uint64_t now_us,
          uint64_t *gone)
{
    CHECK(request->id != 0 && request->tenant < QUEUE_TENANTS);
    CHECK(request->class < QUEUE_CLASSES);
    CHECK(request->weight > 0 && request->weight <= QUEUE_WEIGHT_MAX);
    struct queue_request r = *request;

    if (find(q, r.id) != QUEUE_NONE) {
        return QUEUE_E_TWICE;
    }
    r.tokens = r.tokens > QUEUE_TOKENS_MAX ? QUEUE_TOKENS_MAX
               : r.tokens == 0             ? 1
                                           : r.tokens;
    r.homes = worker_set_and(&r.homes, &r.able);
    if (q->count < q->waits_max) {
        insert(q, &r, now_us);
        return 0;
    }
    uint32_t last = victim(q, &r);
    uint32_t class = last != QUEUE_NONE ? q->wait[last].request.class : r.class;
    q->counts.gave_way[class]++;
    if (last == QUEUE_NONE) {
        return QUEUE_E_FULL;
    }
    *gone = q->wait[last].request.id;
    queue_remove(q, last);
    insert(q, &r, now_us);
    return QUEUE_E_PUSHED;
}

bool
queue_leave(struct queue *q, uint64_t id)
{
    uint32_t at = find(q, id);

    if (at == QUEUE_NONE) {
        return false;
    }
    CHECK_SLOW(q->wait[at].request.id == id);
    q->counts.left[q->wait[at].request.class]++;
    queue_remove(q, at);
    return true;
}

/* Paces */

void
queue_ended(struct queue *q, uint32_t worker, uint64_t now_us)
{
    CHECK(worker < WORKERS_MAX);
    struct queue_worker *there = &q->worker[worker];
    uint64_t before_us = there->ended_us;

    there->ended_us = now_us > 0 ? now_us : 1;
    if (before_us == 0 || now_us < before_us) {
        return;
    }
    uint64_t gap_us = now_us - before_us;
    there->gap_us = there->gap_us == 0
                        ? gap_us
                        : (there->gap_us * (GAP_PART - 1) + gap_us) / GAP_PART;
}

static void
note_pace(struct queue *q, uint32_t tokens, uint64_t now_us)
{
    uint64_t past_us = now_us > q->pace_us ? now_us - q->pace_us : 0;

    CHECK_SLOW(tokens <= QUEUE_TOKENS_MAX);
    q->pace_tokens += tokens;
    if (past_us < PACE_US) {
        return;
    }
    uint64_t now_per_s = q->pace_tokens * SECOND_US / past_us;
    q->tokens_per_s =
        q->tokens_per_s == 0
            ? now_per_s
            : (q->tokens_per_s * (PACE_PART - 1) + now_per_s) / PACE_PART;
    q->pace_tokens = 0;
    q->pace_us = now_us;
}

uint32_t
queue_retry_after_s(const struct queue *q, uint32_t class)
{
    uint64_t before = 0;

    CHECK(class < QUEUE_CLASSES);
    for (uint32_t i = 0; i <= class; i++) {
        before += q->counts.tokens[i];
    }
    uint64_t s = q->tokens_per_s != 0 ? before / q->tokens_per_s : 0;
    return s < 1 ? 1 : s < QUEUE_RETRY_MAX_S ? (uint32_t)s : QUEUE_RETRY_MAX_S;
}

/* What happens next */

static void
put_out(struct queue *q, uint32_t at, enum queue_event event, uint32_t worker,
        uint64_t now_us, struct queue_out *out)
{
    const struct queue_wait *w = &q->wait[at];

    CHECK(at != QUEUE_NONE && w->request.id != 0);
    *out = (struct queue_out){
        .event = event,
        .id = w->request.id,
        .worker = worker,
        .class = w->request.class,
        .home =
            worker != WORKER_NONE && worker_set_has(&w->request.homes, worker),
    };
    if (event == QUEUE_EXPIRED) {
        q->counts.expired[w->request.class]++;
    } else {
        q->counts.placed[w->request.class]++;
        q->counts.homes += out->home;
        q->counts.passed += w->passed_us != 0;
        note_pace(q, w->request.tokens, now_us);
    }
    queue_remove(q, at);
}

bool
queue_next(struct queue *q, uint32_t *room, uint64_t now_us,
           struct queue_out *out)
{
    struct worker_set roomy;
    uint32_t worker = WORKER_NONE;

    CHECK(room != NULL && out != NULL);
    if (q->count == 0) {
        return false;
    }
    if (q->wait[q->heap[0]].request.deadline_us <= now_us &&
        !MUTANT(NO_DEADLINE)) {
        put_out(q, q->heap[0], QUEUE_EXPIRED, WORKER_NONE, now_us, out);
        return true;
    }
    worker_set_clear(&roomy);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (room[slot] > 0 && q->worker[slot].wanted > 0) {
            worker_set_add(&roomy, slot);
        }
    }
    q->look_us = UINT64_MAX;
    if (worker_set_empty(&roomy)) {
        return false;
    }
    uint32_t at = queue_pick(q, &roomy, room, now_us, &worker);
    if (at == QUEUE_NONE) {
        return false;
    }
    room[worker]--;
    put_out(q, at, QUEUE_PLACE, worker, now_us, out);
    return true;
}

uint64_t
queue_deadline(const struct queue *q)
{
    if (q->count == 0) {
        return UINT64_MAX;
    }
    uint64_t first_us = q->wait[q->heap[0]].request.deadline_us;
    CHECK_SLOW(q->heap[0] < q->waits_max);
    return first_us < q->look_us ? first_us : q->look_us;
}

uint32_t
queue_wanted(const struct queue *q, uint32_t worker)
{
    CHECK(worker < WORKERS_MAX);
    return q->worker[worker].wanted;
}

uint64_t
queue_first(const struct queue *q)
{
    CHECK_SLOW(q->count <= q->waits_max);
    return q->count != 0 ? q->wait[q->heap[0]].request.id : 0;
}

uint32_t
queue_waiting(const struct queue *q)
{
    return q->count;
}

uint64_t
queue_oldest_us(const struct queue *q, const struct worker_set *of,
                uint64_t now_us)
{
    uint64_t first_us = now_us;

    for (uint32_t i = 0; i < q->count; i++) {
        const struct queue_wait *wait = &q->wait[q->heap[i]];
        struct worker_set both = of != NULL
                                     ? worker_set_and(&wait->request.able, of)
                                     : wait->request.able;
        if (of == NULL || !worker_set_empty(&both)) {
            first_us = wait->since_us < first_us ? wait->since_us : first_us;
        }
    }
    CHECK_SLOW(first_us <= now_us);
    return now_us - first_us;
}

const struct queue_counts *
queue_counts(const struct queue *q)
{
    return &q->counts;
}

/* The beginning and the end */

static void
clear_flows(struct queue *q)
{
    for (uint32_t class = 0; class < QUEUE_CLASSES; class ++) {
        q->tier[class].turn = QUEUE_NONE;
        for (uint32_t tenant = 0; tenant < QUEUE_TENANTS; tenant++) {
            q->tier[class].flow[tenant].first = QUEUE_NONE;
            q->tier[class].flow[tenant].last = QUEUE_NONE;
        }
    }
}

int
queue_new(struct queue **out, uint32_t waits_max)
{
    struct queue *q = calloc(1, sizeof(*q));
    uint32_t chains = CHAINS_MIN;

    CHECK(waits_max > 0 && waits_max < QUEUE_NONE / 2);
    while (chains < waits_max) {
        chains *= 2;
    }
    *out = q;
    if (q == NULL) {
        return -ENOMEM;
    }
    q->wait = calloc(waits_max, sizeof(*q->wait));
    q->heap = calloc(waits_max, sizeof(*q->heap));
    q->chains = calloc(chains, sizeof(*q->chains));
    if (q->wait == NULL || q->heap == NULL || q->chains == NULL) {
        queue_free(q);
        *out = NULL;
        return -ENOMEM;
    }
    q->waits_max = waits_max;
    q->hash_mask = chains - 1;
    q->look_us = UINT64_MAX;
    memset(q->chains, 0xff, chains * sizeof(*q->chains)); /* QUEUE_NONE */
    for (uint32_t i = 0; i < waits_max; i++) {
        q->wait[i].next = i + 1 < waits_max ? i + 1 : QUEUE_NONE;
    }
    clear_flows(q);
    return 0;
}

void
queue_free(struct queue *q)
{
    if (q != NULL) {
        free(q->wait);
        free(q->heap);
        free(q->chains);
        free(q);
    }
}
