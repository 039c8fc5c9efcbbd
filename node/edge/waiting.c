/*
 * Requests that wait for a worker with room: asks control for a place, and
 * finds them again when it answers. Control decides (control_queue.h); here
 * they stand in a table by the ids that control knows them by.
 */
#include <errno.h>
#include <stdlib.h>

#include "node/edge/edge_internal.h"
#include "node/view/facts.h"

#define NO_PLACE UINT32_MAX
#define AT_BITS  24U /* of an id: where it stands in the table */
#define SEQ_BITS 32U
#define DAY_MS   UINT64_C(86400000)

int
waiting_lane_init(struct lane *lane)
{
    uint32_t max = lane->node->config->limits.queue_max + SHARED_WAITS_SPARE;

    CHECK(max < 1U << AT_BITS);
    lane->waits_max = max;
    lane->waits = calloc(max, sizeof(*lane->waits));
    lane->waits_free = NO_PLACE;
    return lane->waits != NULL ? 0 : -ENOMEM;
}

void
waiting_lane_fini(struct lane *lane)
{
    CHECK(lane->waits_count == 0);
    free(lane->waits);
}

/* Digits into thousandths; false: there is none. */
static bool
read_milli(struct slice *text, uint64_t *milli)
{
    uint64_t unit = 1000;
    size_t at = 0;
    bool dot = false;

    *milli = 0;
    for (; at < text->len && (text->ptr[at] == '.' ? !dot
                                                   : text->ptr[at] >= '0' &&
                                                         text->ptr[at] <= '9');
         at++) {
        uint64_t digit = (uint64_t)(unsigned char)text->ptr[at] - '0';
        if (text->ptr[at] == '.') {
            dot = true;
        } else if (dot) {
            unit /= 10;
            *milli += digit * unit;
        } else if (*milli < DAY_MS * 1000) {
            *milli = *milli * 10 + digit * 1000;
        }
    }
    bool some = at > dot;
    slice_skip(text, at);
    return some;
}

bool
waiting_read_ms(struct slice text, uint64_t *ms)
{
    uint64_t milli;

    if (!read_milli(&text, &milli)) {
        return false;
    }
    if (slice_equal_nocase(text, SLICE("ms"))) {
        milli /= 1000;
    } else if (text.len != 0 && !slice_equal_nocase(text, SLICE("s"))) {
        return false;
    }
    *ms = milli < DAY_MS ? milli : DAY_MS;
    return true;
}

bool
waiting_is_over(const struct exchange *x, uint64_t now_us)
{
    uint64_t begun_us = x->dispatch.begun_us;

    return now_us > begun_us && now_us - begun_us >= x->wait.patience_us;
}

/* A place in the table, and the id that names it; 0: there is none. */
static uint64_t
take_place(struct lane *lane, struct exchange *x)
{
    uint32_t at = lane->waits_free;

    if (at != NO_PLACE) {
        lane->waits_free = lane->waits[at].next_free;
    } else if (lane->waits_used < lane->waits_max) {
        at = lane->waits_used++;
    } else {
        return 0;
    }
    CHECK(lane->waits[at].x == NULL);
    lane->waits[at].x = x;
    lane->waits_count++;
    lane->waits_seq += lane->waits_seq == UINT32_MAX ? 2 : 1; /* never 0 */
    return (uint64_t)lane->number << (AT_BITS + SEQ_BITS) |
           (uint64_t)lane->waits_seq << AT_BITS | at;
}

/* Who has that id now; NULL: it has gone. */
static struct exchange *
find(const struct lane *lane, uint64_t id)
{
    uint32_t at = (uint32_t)(id & ((1U << AT_BITS) - 1));

    CHECK(WAIT_LANE(id) == lane->number && at < lane->waits_used);
    struct exchange *x = lane->waits[at].x;
    return x != NULL && x->wait.id == id ? x : NULL;
}

static void
set_deadline(struct exchange *x)
{
    const struct dispatch *d = &x->dispatch;
    uint64_t most_us = x->client->lane->timeouts.queue_ms * UINT64_C(1000);
    uint64_t own_us = x->wait.patience_us < UINT64_MAX - d->begun_us
                          ? d->begun_us + x->wait.patience_us
                          : UINT64_MAX;

    CHECK(d->queued_us != 0);
    if (x->wait.deadline_us == 0) {
        x->wait.deadline_us =
            own_us < d->queued_us + most_us ? own_us : d->queued_us + most_us;
    }
}

/* What is to be computed for it: its prompt, and an answer as long as it asks
 * for, up to a bound, or a usual one. */
static uint64_t
tokens_of(const struct route_scratch *route, bool routed)
{
    const struct scan *scan = &route->scan;
    uint64_t answer = ELECT_REQUEST_TOKENS;

    if (routed && scan->has_max_tokens && scan->max_tokens >= 0) {
        answer = scan->max_tokens < WAITING_ANSWER_MAX
                     ? (uint64_t)scan->max_tokens
                     : WAITING_ANSWER_MAX;
    }
    return route->wait.tokens + answer;
}

void
waiting_begin(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    const struct route_scratch *route = &lane->route;
    struct fact_wait *fact = ring_reserve(&lane->shared->facts, sizeof(*fact));

    CHECK(x->wait.id == 0 && x->dispatch.state == DISPATCH_QUEUED);
    set_deadline(x);
    x->wait.id = fact != NULL ? take_place(lane, x) : 0;
    if (x->wait.id == 0) {
        counter_bump(&lane->shared->metrics.facts_lost, fact == NULL);
        dispatch_unplaced(&x->dispatch, DISPATCH_QUEUE_FULL, 1,
                          lane_clock_us());
        return;
    }
    *fact = (struct fact_wait){
        .kind = FACT_WAIT,
        .tenant = x->dispatch.tenant,
        .id = x->wait.id,
        .deadline_us = x->wait.deadline_us,
        .priority = x->dispatch.routed && route->scan.has_priority
                        ? route->scan.priority
                        : 0,
        .tokens = tokens_of(route, x->dispatch.routed),
        .held_tokens = route->wait.held_tokens,
        .able = route->wait.able,
        .homes = route->wait.homes,
    };
    ring_commit(&lane->shared->facts);
    lane->dispatch.told = true;
    lane_time(lane, &x->deadline, LANE_TIMEOUT_QUEUE);
}

/* A fact that is lost lets control find out by the deadline, or when nobody
 * takes the place. */
void
waiting_end(struct exchange *x)
{
    struct lane *lane = x->client->lane;
    uint32_t at = (uint32_t)(x->wait.id & ((1U << AT_BITS) - 1));

    if (x->wait.id == 0) {
        return;
    }
    CHECK(find(lane, x->wait.id) == x);
    struct fact_wait_end *fact =
        ring_reserve(&lane->shared->facts, sizeof(*fact));
    if (fact != NULL) {
        *fact = (struct fact_wait_end){.kind = FACT_WAIT_END, .id = x->wait.id};
        ring_commit(&lane->shared->facts);
        lane->dispatch.told = true;
    } else {
        counter_bump(&lane->shared->metrics.facts_lost, 1);
    }
    lane->waits[at] = (struct waiting_place){.next_free = lane->waits_free};
    lane->waits_free = at;
    lane->waits_count--;
    x->wait.id = 0;
    x->wait.placed = false;
}

static void ON_LANE
told(struct exchange *x, const struct wait_told *what)
{
    bool late = what->event == WAIT_PLACE && lane_clock_us() >= what->until_us;

    CHECK(x->dispatch.state == DISPATCH_QUEUED);
    switch (late ? WAIT_AGAIN : (enum wait_event)what->event) {
    case WAIT_PLACE:
        x->wait.placed = true;
        x->wait.place = what->slot;
        exchange_placed(x);
        break;
    case WAIT_AGAIN:
        waiting_end(x);
        exchange_placed(x);
        break;
    case WAIT_LATE:
        exchange_unplaced(x, DISPATCH_QUEUE_LATE, what->retry_after_s);
        break;
    case WAIT_FULL:
        exchange_unplaced(x, DISPATCH_QUEUE_FULL, what->retry_after_s);
        break;
    }
}

void
waiting_take(struct lane *lane)
{
    struct ring *ring = &lane->shared->waits;
    const struct wait_told *record;
    size_t size;

    while ((record = ring_peek(ring, &size)) != NULL) {
        struct wait_told what = *record;
        CHECK(size == sizeof(what));
        ring_consume(ring);
        struct exchange *x = find(lane, what.id);
        if (x != NULL) {
            told(x, &what);
        }
    }
}
