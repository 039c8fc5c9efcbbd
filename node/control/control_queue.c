/* Who waits, on all lanes. */
#include "node/control/control_queue.h"

#include <inttypes.h>
#include <stdio.h>

#include "index/base/mutant.h"
#include "node/text/prom_out.h"

#define GIVEN_US    UINT64_C(1000000)
#define TAKE_US     (GIVEN_US / 2) /* a lane that comes later asks again */
#define RATE_USUAL  8000U /* prompt tokens a second, of a worker not known */
#define SECOND_US   UINT64_C(1000000)
#define WEIGHT_NONE 1U

int
control_queue_init(struct control_queue *cq, struct node_shared *node,
                   const struct speed *speed)
{
    cq->node = node;
    cq->speed = speed;
    return queue_new(&cq->queue, node->config->limits.queue_max);
}

void
control_queue_fini(struct control_queue *cq)
{
    queue_free(cq->queue);
    cq->queue = NULL;
}

/* What lanes are told */

/* A full ring means that a lane does not run; its own time-out ends the wait
 * there. */
static void ON_CONTROL
tell(struct control_queue *cq, const struct wait_told *what)
{
    uint32_t number = WAIT_LANE(what->id);

    CHECK(number < cq->node->lanes_count);
    struct lane_shared *lane = &cq->node->lanes[number];
    struct wait_told *told = ring_reserve(&lane->waits, sizeof(*told));
    if (told == NULL) {
        return;
    }
    *told = *what;
    ring_commit(&lane->waits);
    if (lane->wakes != NULL) {
        (void)uv_async_send(lane->wakes);
    }
}

/* Places that were given */

static void ON_CONTROL
take_back(struct control_queue *cq, uint32_t i)
{
    CHECK(i < cq->given_count);
    if (!MUTANT(PLACE_TWICE)) {
        gauge_add(&cq->node->board->reserved[cq->given[i].slot], -1);
    }
    cq->given[i] = cq->given[--cq->given_count];
}

static void ON_CONTROL
take_back_of(struct control_queue *cq, uint64_t id)
{
    for (uint32_t i = 0; i < cq->given_count; i++) {
        if (cq->given[i].id == id) {
            take_back(cq, i);
            return;
        }
    }
}

static void ON_CONTROL
take_back_late(struct control_queue *cq, uint64_t now_us)
{
    for (uint32_t i = cq->given_count; i > 0; i--) {
        if (cq->given[i - 1].until_us <= now_us) {
            take_back(cq, i - 1);
        }
    }
}

/* Facts */

/* A client cannot go before its tenant's class; without keys all are
 * trusted. */
static uint32_t
class_of(const struct control_queue *cq, const struct fact_wait *fact)
{
    const struct keys *keys = publish_get(&cq->node->keys);
    int64_t own = keys != NULL ? keys_priority(keys, fact->tenant) : 0;
    bool asks = keys == NULL || fact->priority > own;

    return queue_class(asks ? fact->priority : own);
}

/* How long a home would take to compute again what it holds. */
static uint64_t
saved_us(const struct control_queue *cq, const struct fact_wait *fact)
{
    uint32_t home = worker_set_next(&fact->homes, 0);
    uint32_t rate = home != WORKER_NONE ? speed_rate(cq->speed, home) : 0;

    return fact->held_tokens * SECOND_US / (rate != 0 ? rate : RATE_USUAL);
}

static void ON_CONTROL
refuse(struct control_queue *cq, uint64_t id, enum wait_event why,
       uint32_t class)
{
    struct wait_told what = {
        .id = id,
        .event = why,
        .retry_after_s = queue_retry_after_s(cq->queue, class)};

    tell(cq, &what);
}

/* Workers that lanes fall back to where nobody else is left; one on trial is
 * somebody. */
static struct worker_set
last_resorts(const struct fleet_view *view)
{
    struct worker_set set = worker_set_or(&view->suspect, &view->ejected);

    return worker_set_minus(&set, &view->trial);
}

/* Whether there are some of either kind that were not of it before. */
static bool
look_at_view(struct control_queue *cq)
{
    const struct fleet_view *view = fleet_view_get(cq->node->board);
    struct worker_set last = last_resorts(view);
    struct worker_set more = worker_set_minus(&view->eligible, &cq->eligible);
    struct worker_set less = worker_set_minus(&last, &cq->last);

    cq->eligible = view->eligible;
    cq->last = last;
    return !worker_set_empty(&more) || !worker_set_empty(&less);
}

static void ON_CONTROL
take_wait(struct control_queue *cq, const struct fact_wait *fact,
          uint64_t now_us)
{
    const struct keys *keys = publish_get(&cq->node->keys);
    uint64_t most = QUEUE_TOKENS_MAX;
    uint64_t gone = 0;
    struct queue_request request = {
        .id = fact->id,
        .tenant = fact->tenant,
        .weight = keys != NULL ? keys_weight(keys, fact->tenant) : WEIGHT_NONE,
        .class = class_of(cq, fact),
        .tokens = (uint32_t)(fact->tokens < most ? fact->tokens : most),
        .deadline_us = fact->deadline_us,
        .able = fact->able,
        .homes = fact->homes,
        .saved_us = saved_us(cq, fact),
    };

    if (queue_waiting(cq->queue) == 0) {
        (void)look_at_view(cq); /* it was elected by what is true now */
    }
    int outcome = queue_add(cq->queue, &request, now_us, &gone);
    CHECK(outcome != QUEUE_E_TWICE); /* a lane's ids are all different */
    if (outcome == QUEUE_E_FULL) {
        refuse(cq, fact->id, WAIT_FULL, request.class);
    } else if (outcome == QUEUE_E_PUSHED) {
        refuse(cq, gone, WAIT_FULL, QUEUE_CLASSES - 1);
    }
}

void
control_queue_take(struct control_queue *cq, const void *record,
                   uint64_t now_us)
{
    const struct fact_wait_end *end = record;
    const struct fact_decision *decision = record;

    switch ((enum fact_kind)end->kind) {
    case FACT_WAIT:
        take_wait(cq, record, now_us);
        break;
    case FACT_WAIT_END:
        take_back_of(cq, end->id);
        if (!MUTANT(KEEPS_PLACE)) {
            (void)queue_leave(cq->queue, end->id);
        }
        break;
    case FACT_DECISION:
    case FACT_PREFILLED:
        if (decision->slot < WORKERS_MAX) {
            queue_ended(cq->queue, decision->slot, now_us);
        }
        break;
    case FACT_LEARN:
    case FACT_SESSION:
    case FACT_EXPECT:
    case FACT_DECIDED:
    case FACT_SETTLED:
    case FACT_OUTCOME:
    case FACT_REQUEST:
    case FACT_COLUMNS:
        break;
    }
}

/* Places */

static void
list_room(const struct control_queue *cq, uint32_t room[WORKERS_MAX])
{
    const struct fleet_board *board = cq->node->board;
    const struct fleet_view *view = fleet_view_get(board);
    struct worker_set may = fleet_view_candidates(view, board);
    struct worker_set last = last_resorts(view);

    may = worker_set_or(&may, &last);
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        room[slot] =
            worker_set_has(&may, slot) ? fleet_board_room(board, slot) : 0;
    }
}

/* Workers came that may be for those who wait, or are for them only if nobody
 * else is: only an election knows. They keep their deadlines. */
static void ON_CONTROL
start_over(struct control_queue *cq)
{
    uint64_t id;

    while ((id = queue_first(cq->queue)) != 0) {
        bool left = queue_leave(cq->queue, id);
        CHECK(left);
        tell(cq, &(struct wait_told){.id = id, .event = WAIT_AGAIN});
    }
}

/* Lanes let nobody else have a place that one who waits could take. */
static void
publish_wanted(struct control_queue *cq)
{
    struct fleet_board *board = cq->node->board;

    cq->known = queue_waiting(cq->queue) > 0;
    for (uint32_t slot = 0; slot < WORKERS_MAX; slot++) {
        uint32_t wanted = queue_wanted(cq->queue, slot);
        if (gauge_read(&board->wanted[slot]) != wanted) {
            gauge_set(&board->wanted[slot], (int32_t)wanted);
        }
    }
}

static void ON_CONTROL
give(struct control_queue *cq, const struct queue_out *out, uint64_t now_us)
{
    CHECK(cq->given_count < CONTROL_QUEUE_GIVEN_MAX);
    if (!MUTANT(PLACE_TWICE)) {
        gauge_add(&cq->node->board->reserved[out->worker], 1);
    }
    cq->given[cq->given_count++] = (struct control_queue_given){
        .id = out->id, .until_us = now_us + GIVEN_US, .slot = out->worker};
    tell(cq, &(struct wait_told){.id = out->id,
                                 .until_us = now_us + TAKE_US,
                                 .event = WAIT_PLACE,
                                 .slot = out->worker});
}

uint64_t
control_queue_look(struct control_queue *cq, uint64_t now_us)
{
    uint32_t room[WORKERS_MAX];
    struct queue_out out;

    take_back_late(cq, now_us);
    if (queue_waiting(cq->queue) == 0 && !cq->known) {
        return cq->given_count != 0 ? now_us + GIVEN_US : UINT64_MAX;
    }
    if (look_at_view(cq)) {
        start_over(cq);
    }
    list_room(cq, room);
    while (cq->given_count < CONTROL_QUEUE_GIVEN_MAX &&
           queue_next(cq->queue, room, now_us, &out)) {
        if (out.event == QUEUE_PLACE) {
            give(cq, &out, now_us);
        } else {
            refuse(cq, out.id, WAIT_LATE, out.class);
        }
    }
    publish_wanted(cq);
    uint64_t again_us = queue_deadline(cq->queue);
    uint64_t most_us = now_us + GIVEN_US;
    return again_us < most_us ? again_us : most_us;
}

/* What operators see */

void
control_queue_put(const struct control_queue *cq, uint64_t now_us,
                  struct json_out *json)
{
    const struct queue_counts *c = queue_counts(cq->queue);

    json_out_object_begin(json);
    json_out_put_uint(json, "waiting", queue_waiting(cq->queue));
    json_out_put_uint(json, "oldest_ms",
                      queue_oldest_us(cq->queue, NULL, now_us) / 1000);
    json_out_key(json, "by_priority");
    json_out_object_begin(json);
    for (uint32_t i = 0; i < QUEUE_CLASSES; i++) {
        char priority[8];
        (void)snprintf(priority, sizeof(priority), "%d", (int)i + QUEUE_FIRST);
        if (c->waiting[i] != 0) {
            json_out_put_uint(json, priority, c->waiting[i]);
        }
    }
    json_out_object_end(json);
    json_out_object_end(json);
}

static void
put_gauge(const char *name, const char *help,
          const uint64_t by_class[QUEUE_CLASSES], struct buf *out)
{
    prom_out_head(out, name, "gauge", help);
    for (uint32_t i = 0; i < QUEUE_CLASSES; i++) {
        buf_printf(out, "%s{priority=\"%d\"} %" PRIu64 "\n", name,
                   (int)i + QUEUE_FIRST, by_class[i]);
    }
}

static void
put_ended(const struct queue_counts *c, struct buf *out)
{
    static const char name[] = "kvasir_queue_ended_total";
    const struct {
        const char *outcome;
        const uint64_t *by_class;
    } all[] = {{"placed", c->placed},
               {"expired", c->expired},
               {"refused", c->gave_way},
               {"left", c->left}};

    prom_out_head(out, name, "counter",
                  "Requests that waited: placed, expired (too late, 503), "
                  "refused (a full queue did not keep them, 503), left (their "
                  "client did)");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (uint32_t at = 0; at < QUEUE_CLASSES; at++) {
            buf_printf(out, "%s{priority=\"%d\",outcome=\"%s\"} %" PRIu64 "\n",
                       name, (int)at + QUEUE_FIRST, all[i].outcome,
                       all[i].by_class[at]);
        }
    }
}

void
control_queue_put_metrics(const struct control_queue *cq, struct buf *out)
{
    const struct queue_counts *c = queue_counts(cq->queue);
    uint64_t waiting[QUEUE_CLASSES];

    for (uint32_t i = 0; i < QUEUE_CLASSES; i++) {
        waiting[i] = c->waiting[i];
    }
    put_gauge("kvasir_queue_waiting",
              "Requests that wait for a worker with room", waiting, out);
    put_gauge("kvasir_queue_tokens", "Tokens of these", c->tokens, out);
    put_ended(c, out);
    prom_out_single(out, "kvasir_queue_homes_total", "counter",
                    "Waiting requests that went where their prefix is",
                    c->homes);
    prom_out_single(out, "kvasir_queue_passed_total", "counter",
                    "Waiting requests that passed up a place before",
                    c->passed);
}
