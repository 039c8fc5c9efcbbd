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

/* How many blocks of a FACT_LEARN need not be expected. */
static uint32_t ON_CONTROL
known_of(const struct fact_sink *sink, const struct fact_learn *fact)
{
    CHECK(fact->held <= fact->count);
    if (sink->expected == NULL) {
        return fact->count;
    }
    return fact->held + expectations_depth(sink->expected, NULL, fact->slot,
                                           fact->keys + fact->held,
                                           fact->count - fact->held);
}

static void ON_CONTROL
expect_text(struct fact_sink *sink, struct unproven_prefix *prefix,
            uint64_t now_us)
{
    const struct fact_learn *fact = &prefix->fact;
    uint32_t known = known_of(sink, fact);

    if (fact_sink_worker(sink, fact->slot, fact->generation) != NULL &&
        known < fact->count && expectations_admit(sink->expected, fact->slot)) {
        prefix->known = known;
        hints_expect_text(sink->hints, fact, known, now_us);
        expectations_add(sink->expected, fact->slot, fact->keys + known,
                         fact->count - known, now_us);
    }
}

void
fact_sink_expect(struct fact_sink *sink, uint64_t now_us)
{
    struct unproven_prefix *prefix;

    while ((prefix = unproven_fresh(sink->unproven)) != NULL) {
        expect_text(sink, prefix, now_us);
    }
}

/* A request was sent, or that was its session. Nothing is expected that could
 * not be taken back. */
static void ON_CONTROL
take_sent(struct fact_sink *sink, const struct fact_learn *fact,
          uint64_t now_us)
{
    CHECK(fact->slot < WORKERS_MAX && fact->count <= FACT_KEYS_MAX);
    CHECK(fact->priority <= UINT8_MAX);
    if (fact_sink_worker(sink, fact->slot, fact->generation) == NULL) {
        return;
    }
    if (fact->kind == FACT_LEARN) {
        hints_sent(sink->hints, fact, now_us);
    }
    if (fact->count != 0) {
        unproven_add_fresh(sink->unproven, fact);
    }
    if (!sink->gathers) {
        fact_sink_expect(sink, now_us);
    }
}

/* Whether the rank holds blocks that no event will tell of, so that answers are
 * to prove them. */
static bool
is_provable(const struct fact_sink *sink, const struct fact_learn *fact)
{
    return ingest_slots_owns(sink->slots, fact) &&
           ingest_streams_lacks(sink->streams,
                                mirror_view_get(sink->slots->view), fact->slot);
}

/* Tell peers first: afterwards these blocks count as expected, and so as
 * told. Nothing is expected that could not be taken back. */
static void ON_CONTROL
take_expect(struct fact_sink *sink, const struct fact_learn *fact,
            uint64_t now_us)
{
    uint32_t known = ingest_slots_known(sink->slots, fact);

    CHECK(fact->slot < WORKERS_MAX && fact->owner < WORKERS_MAX);
    if (known == fact->count && !is_provable(sink, fact)) {
        return;
    }
    if (unproven_add(sink->unproven, fact, known) && known < fact->count) {
        hints_expect(sink->hints, fact, now_us);
        ingest_slots_expect(sink->slots, fact, now_us);
    }
}

/* A request that comes to nothing stays in its place until newer ones push it
 * out: the order is a guess at what is evicted, not at what is held. */
static void ON_CONTROL
take_decided(struct fact_sink *sink, const struct fact_learn *fact,
             uint64_t now_us)
{
    CHECK(fact->slot < WORKERS_MAX && fact->owner < WORKERS_MAX);
    hints_decided(sink->hints, fact, now_us);
    ingest_slots_decided(sink->slots, fact, now_us);
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

/* A prompt's text was sent: belief has it now, or nobody does. */
static int ON_CONTROL
settle_text(struct fact_sink *sink, const struct unproven_prefix *prefix,
            bool learned, uint64_t now_us)
{
    const struct fact_learn *fact = &prefix->fact;
    uint32_t left = fact->count - prefix->known;
    int error = learned ? learn(sink, fact, now_us) : 0;

    if (left == 0 || !expectations_is_open(sink->expected, fact->slot) ||
        fact_sink_worker(sink, fact->slot, fact->generation) == NULL) {
        return error;
    }
    if (learned) {
        expectations_learned(sink->expected, fact->slot,
                             fact->keys + prefix->known, left);
    } else {
        hints_take_back_text(sink->hints, fact, prefix->known, now_us);
        expectations_take_back(sink->expected, fact->slot,
                               fact->keys + prefix->known, left);
    }
    return error;
}

/* Expected blocks of an answered request are left to the engine's events, or to
 * what the end of the answer says. */
static int ON_CONTROL
take_settled(struct fact_sink *sink, const struct fact_settled *fact,
             uint64_t now_us)
{
    struct unproven_prefix *prefix;
    struct unproven_prefix *kept = NULL;
    int error = 0;

    while ((prefix = unproven_take(sink->unproven, fact->ticket)) != NULL) {
        if (fact_is_belief(prefix->fact.kind)) {
            error = settle_text(sink, prefix, fact->learned, now_us);
        } else if (!fact->learned) {
            hints_take_back(sink->hints, &prefix->fact, prefix->known, now_us);
            ingest_slots_take_back(sink->slots, &prefix->fact, prefix->known);
        } else if (!fact->broke_off && kept == NULL &&
                   prefix->fact.kind == FACT_EXPECT &&
                   is_provable(sink, &prefix->fact)) {
            kept = prefix;
            continue;
        }
        unproven_free(prefix);
    }
    if (kept != NULL) {
        unproven_put_back(sink->unproven, kept);
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

/* The answer says how much of its prompt was in the cache. More than was
 * predicted proves these blocks; less shows that some had been evicted, and not
 * which. A difference of a block is none (accuracy.h). */
static void ON_CONTROL
prove(struct fact_sink *sink, struct fact_learn *expected,
      const struct fact_decision *fact, uint64_t now_us)
{
    uint32_t blocks = fact->cached_tokens / fact->block_tokens;
    uint32_t held = blocks > expected->from ? blocks - expected->from : 0;
    uint32_t known = held < expected->count ? held : expected->count;

    if (fact->cached_tokens >= fact->predicted_tokens + fact->block_tokens) {
        expected->count = known;
        if (known > 0) {
            hints_prove(sink->hints, expected, now_us);
            ingest_slots_prove(sink->slots, expected, now_us);
        }
    } else if (fact->predicted_tokens >
               fact->cached_tokens + fact->block_tokens) {
        hints_disprove(sink->hints, expected, known, now_us);
        ingest_slots_disprove(sink->slots, expected, known);
    }
}

static void ON_CONTROL
take_proof(struct fact_sink *sink, const struct fact_decision *fact,
           uint64_t now_us)
{
    struct unproven_prefix *prefix;
    bool tells = fact->exact && fact->whole && fact->judges &&
                 fact->block_tokens != 0 && fact->prompt_tokens == fact->total;

    while (fact->ticket != 0 &&
           (prefix = unproven_take(sink->unproven, fact->ticket)) != NULL) {
        if (tells && prefix->fact.kind == FACT_EXPECT &&
            is_provable(sink, &prefix->fact)) {
            prove(sink, &prefix->fact, fact, now_us);
        }
        unproven_free(prefix);
    }
}

static void ON_CONTROL
take_decision(struct fact_sink *sink, const struct fact_decision *fact,
              uint64_t now_us)
{
    if (fact_sink_worker(sink, fact->slot, fact->generation) != NULL) {
        hints_ended(sink->hints, fact->slot, fact->generation, now_us);
        ingest_stream_answer(sink->streams, fact, now_us);
        speed_take(sink->speed, fact,
                   gauge_read(&sink->board->away_us[fact->slot]));
        if (sink->text != NULL && fact->kind == FACT_DECISION) {
            text_models_take(sink->text, fact);
        }
        if (fact->cleared) {
            ingest_stream_cleared(sink->streams, fact);
        }
    }
    take_proof(sink, fact, now_us);
}

int
fact_sink_take(struct fact_sink *sink, const void *record, uint64_t now_us)
{
    CHECK(record != NULL);
    CHECK(sink->fleet != NULL && sink->board != NULL && sink->hints != NULL);
    switch ((enum fact_kind) * (const uint32_t *)record) {
    case FACT_LEARN:
    case FACT_SESSION:
        take_sent(sink, record, now_us);
        return 0;
    case FACT_EXPECT:
        take_expect(sink, record, now_us);
        return 0;
    case FACT_DECIDED:
        take_decided(sink, record, now_us);
        return 0;
    case FACT_SETTLED:
        return take_settled(sink, record, now_us);
    case FACT_OUTCOME:
        take_outcome(sink, record, now_us);
        return 0;
    case FACT_DECISION:
    case FACT_PREFILLED:
        take_decision(sink, record, now_us);
        return 0;
    case FACT_WAIT:
    case FACT_WAIT_END:
        return 0; /* control_queue.h */
    case FACT_REQUEST:
    case FACT_COLUMNS:
        return 0; /* control_requests.h */
    }
    CHECK(false); /* lanes write no other kind */
    return 0;
}
