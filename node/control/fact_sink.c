/* Passes lanes' facts to the parts that learn from them. */
#include "node/control/fact_sink.h"
#include "index/base/role.h"

const struct fleet_worker *
fact_sink_worker(const struct fact_sink *sink, uint32_t slot,
                 uint32_t generation)
{
    const struct fleet_view *view = fleet_view_get(sink->board);
    const struct fleet_worker *worker =
        slot < WORKERS_MAX ? view->worker[slot] : NULL;

    return worker != NULL && worker->generation == generation ? worker : NULL;
}

/* A request was sent. */
static void
take_sent(struct fact_sink *sink, const struct fact_learn *fact,
          uint64_t now_us)
{
    CHECK(fact->slot < WORKERS_MAX && fact->count <= FACT_KEYS_MAX);
    CHECK(fact->priority <= UINT8_MAX);
    if (fact_sink_worker(sink, fact->slot, fact->generation) == NULL) {
        return;
    }
    hints_sent(sink->hints, fact, now_us);
    bool kept = fact->count != 0 && unproven_add(sink->unproven, fact, 0);
    (void)kept; /* what is not kept is not learned, and counted there */
}

/* Tell peers first: afterwards these blocks count as expected, and so as
 * told. Nothing is expected that could not be taken back. */
static void ON_CONTROL
take_expect(struct fact_sink *sink, const struct fact_learn *fact,
            uint64_t now_us)
{
    uint32_t known = ingest_slots_known(sink->slots, fact);

    CHECK(fact->slot < WORKERS_MAX && fact->owner < WORKERS_MAX);
    if (known < fact->count && unproven_add(sink->unproven, fact, known)) {
        hints_expect(sink->hints, fact, now_us);
        ingest_slots_expect(sink->slots, fact, now_us);
    }
}

/* The worker answered: it holds this prefix. */
static int ON_CONTROL
learn(struct fact_sink *sink, const struct fact_learn *fact, uint64_t now_us)
{
    if (fact_sink_worker(sink, fact->slot, fact->generation) == NULL) {
        return 0;
    }
    hints_learn(sink->hints, fact, now_us);
    /* Belief is a hint: what it refuses is simply missing. */
    int outcome =
        radix_insert(sink->belief, fact->root, fact->keys, fact->count,
                     fact->slot, (uint8_t)fact->priority, now_us);
    return outcome < 0 ? outcome : 0;
}

/* Expected blocks of an answered request are left to the engine's events. */
static int ON_CONTROL
take_settled(struct fact_sink *sink, const struct fact_settled *fact,
             uint64_t now_us)
{
    struct unproven_prefix *prefix;
    int error = 0;

    while ((prefix = unproven_take(sink->unproven, fact->ticket)) != NULL) {
        if (prefix->fact.kind == FACT_LEARN && fact->learned) {
            error = learn(sink, &prefix->fact, now_us);
        } else if (prefix->fact.kind == FACT_EXPECT && !fact->learned) {
            hints_take_back(sink->hints, &prefix->fact, prefix->known, now_us);
            ingest_slots_take_back(sink->slots, &prefix->fact, prefix->known);
        }
        unproven_free(prefix);
    }
    return error;
}

static void ON_CONTROL
take_outcome(struct fact_sink *sink, const struct fact_outcome *fact,
             uint64_t now_us)
{
    static const enum fleet_result results[] = {
        [FACT_ANSWERED] = FLEET_ANSWERED,
        [FACT_CONNECT] = FLEET_CONNECT_FAILED,
        [FACT_TIMEOUT] = FLEET_TIMED_OUT,
        [FACT_CLOSED] = FLEET_SEVERED,
        [FACT_STATUS] = FLEET_ANSWERED_5XX,
    };

    CHECK(fact->result < sizeof results / sizeof results[0]);
    fleet_report(sink->fleet, fact->slot, fact->generation,
                 results[fact->result], now_us);
}

static void ON_CONTROL
take_decision(struct fact_sink *sink, const struct fact_decision *fact,
              uint64_t now_us)
{
    if (fact_sink_worker(sink, fact->slot, fact->generation) != NULL) {
        hints_ended(sink->hints, fact->slot, fact->generation, now_us);
        ingest_stream_answer(sink->streams, fact, now_us);
    }
}

int
fact_sink_take(struct fact_sink *sink, const void *record, uint64_t now_us)
{
    CHECK(record != NULL);
    CHECK(sink->fleet != NULL && sink->board != NULL && sink->hints != NULL);
    switch ((enum fact_kind) * (const uint32_t *)record) {
    case FACT_LEARN:
        take_sent(sink, record, now_us);
        return 0;
    case FACT_EXPECT:
        take_expect(sink, record, now_us);
        return 0;
    case FACT_SETTLED:
        return take_settled(sink, record, now_us);
    case FACT_OUTCOME:
        take_outcome(sink, record, now_us);
        return 0;
    case FACT_DECISION:
        take_decision(sink, record, now_us);
        return 0;
    }
    CHECK(false); /* lanes write no other kind */
    return 0;
}
