/* What must be true of those that wait. */
#include "node/queue/queue_internal.h"

/* Walks a flow: 0, or why it is not as it should be. */
static const char *
check_flow(const struct queue *q, uint32_t class, uint32_t tenant,
           uint32_t *count)
{
    const struct queue_flow *flow = &q->tier[class].flow[tenant];
    uint32_t prev = QUEUE_NONE;
    uint64_t tokens = 0;

    for (uint32_t at = flow->first; at != QUEUE_NONE; at = q->wait[at].next) {
        const struct queue_wait *w = &q->wait[at];
        if (w->prev != prev || w->request.class != class ||
            w->request.tenant != tenant) {
            return "a request stands in another's flow";
        }
        if (w->heap_at >= q->count || q->heap[w->heap_at] != at) {
            return "a request has no place in the heap";
        }
        if (w->heap_at > 0 &&
            w->request.deadline_us <
                q->wait[q->heap[(w->heap_at - 1) / 2]].request.deadline_us) {
            return "the heap is out of order";
        }
        tokens += w->request.tokens;
        prev = at;
        (*count)++;
    }
    CHECK(*count <= q->waits_max);
    return prev != flow->last       ? "a flow's end is not its last"
           : tokens != flow->tokens ? "a flow's tokens are not its requests'"
                                    : NULL;
}

/* How many flows take turns. */
static uint32_t
count_turns(const struct queue_tier *tier)
{
    uint32_t count = 0;
    uint32_t tenant = tier->turn;

    if (tenant == QUEUE_NONE) {
        return 0;
    }
    do {
        CHECK(count < QUEUE_TENANTS);
        count++;
        tenant = tier->flow[tenant].next;
    } while (tenant != tier->turn);
    return count;
}

static const char *
check_workers(const struct queue *q)
{
    uint32_t wanted[WORKERS_MAX] = {0};
    uint32_t claims[WORKERS_MAX] = {0};

    for (uint32_t i = 0; i < q->count; i++) {
        const struct queue_wait *w = &q->wait[q->heap[i]];
        WORKER_SET_EACH (slot, &w->request.able) {
            wanted[slot]++;
        }
        if (w->passed_us != 0) {
            WORKER_SET_EACH (slot, &w->request.homes) {
                claims[slot]++;
            }
        }
    }
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        if (wanted[slot] != q->worker[slot].wanted ||
            claims[slot] != q->worker[slot].claims) {
            return "a worker is wanted by others than those that wait";
        }
    }
    return NULL;
}

bool
queue_check(const struct queue *q, const char **reason)
{
    uint32_t count = 0;

    CHECK(q->count <= q->waits_max);
    *reason = check_workers(q);
    for (uint32_t class = 0; class < QUEUE_CLASSES && *reason == NULL;
         class ++) {
        uint32_t flows = 0;
        uint32_t before = count;
        for (uint32_t t = 0; t < QUEUE_TENANTS && *reason == NULL; t++) {
            *reason = check_flow(q, class, t, &count);
            flows += q->tier[class].flow[t].first != QUEUE_NONE;
        }
        if (*reason == NULL && flows != count_turns(&q->tier[class])) {
            *reason = "a flow takes turns and has nothing waiting, or reverse";
        } else if (*reason == NULL &&
                   count - before != q->counts.waiting[class]) {
            *reason = "a class counts others than those that wait";
        }
    }
    if (*reason == NULL && count != q->count) {
        *reason = "a request waits in no flow";
    }
    return *reason == NULL;
}
