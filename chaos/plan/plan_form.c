/* The closed and the corrected form. */
#include "chaos/plan/plan_form.h"

#include <math.h>

#define TAIL 0.99 /* of requests keep a promise */

/* Means over a part's requests. */
struct moments {
    double prompt;  /* tokens that are computed */
    double steps;   /* that a request is in, with a chunk of its own in each */
    double steps_2; /* their squares */
    double held;    /* tokens in the cache, mean over a request's steps */
    double context; /* tokens behind it when it decodes, likewise */
    double pairs;   /* of prompt tokens and tokens before them */
    double prompt_tail; /* TAIL of prompts are no longer */
};

static double
computed(const struct plan_point *point, uint32_t cached_permille)
{
    return fmax(1, ceil(point->prompt * (1000.0 - cached_permille) / 1000));
}

static double
chunks(double tokens, uint32_t chunk)
{
    return ceil(tokens / chunk);
}

struct plan_size
plan_closed(const struct plan_engine *engine, const struct plan_demand *demand,
            double beta)
{
    const struct plan_part *part = &demand->part;
    uint32_t slots = plan_engine_slots(engine, demand->max_len);
    struct plan_size size = {.batch = slots};
    double steps = 0;

    if (slots == 0 || part->count == 0) {
        return size;
    }
    for (uint32_t i = 0; i < part->count; i++) {
        const struct plan_point *p = &part->points[i];
        double prompt = computed(p, demand->cached_permille);
        steps += (chunks(prompt, engine->chunk) + p->output) * p->weight;
    }
    steps /= part->share;
    size.step_s =
        (engine->step_us + (double)engine->step_per_seq_us * slots) / 1e6;
    size.rate = slots / (steps * size.step_s);
    double engines = ceil(demand->rate / size.rate * beta);
    size.engines = engines <= PLAN_ENGINES_MAX ? (uint32_t)engines : 0;
    return size;
}

/* TAIL of the part's prompts are no longer; a histogram by powers of 1.02 is
 * exact enough and needs no second order of the points. */
static double
prompt_tail(const struct plan_demand *demand)
{
    enum {
        BINS = 1024
    };
    double bins[BINS] = {0};
    double above = 0;

    for (uint32_t i = 0; i < demand->part.count; i++) {
        const struct plan_point *p = &demand->part.points[i];
        double at = log(computed(p, demand->cached_permille)) / log(1.02);
        bins[(uint32_t)fmin(ceil(at), BINS - 1)] += p->weight;
    }
    for (uint32_t bin = BINS - 1; bin > 0; bin--) {
        above += bins[bin];
        if (above > (1 - TAIL) * demand->part.share) {
            return pow(1.02, bin);
        }
    }
    return 1;
}

static struct moments
take_moments(const struct plan_engine *engine, const struct plan_demand *demand)
{
    struct moments m = {.prompt_tail = prompt_tail(demand)};
    const struct plan_part *part = &demand->part;

    for (uint32_t i = 0; i < part->count; i++) {
        const struct plan_point *p = &part->points[i];
        double weight = p->weight / part->share;
        double prompt = computed(p, demand->cached_permille);
        double steps = chunks(prompt, engine->chunk) + p->output - 1;
        m.prompt += weight * prompt;
        m.steps += weight * steps;
        m.steps_2 += weight * steps * steps;
        m.held += weight * steps * plan_point_total(p);
        m.context += weight * (p->output - 1) * (p->prompt + p->output / 2.0);
        m.pairs += weight * prompt * (p->prompt - prompt / 2.0);
    }
    m.held /= m.steps;
    m.context /= m.steps;
    return m;
}

/* A step of `batch` sequences, of which `requests` end in each. */
static double
step_s(const struct plan_engine *engine, const struct moments *m, double batch,
       double requests)
{
    return (engine->step_us + engine->step_per_seq_us * batch) / 1e6 +
           requests * m->prompt / engine->prefill_tokens_per_s +
           (engine->step_per_context_ps * batch * m->context +
            engine->prefill_per_pair_ps * requests * m->pairs) /
               1e12;
}

/* Requests that end in a step of so many sequences: as many as their steps
 * allow, and as the step's budget computes prompts of. */
static double
ended_in_step(const struct plan_engine *engine, const struct moments *m,
              double batch)
{
    double budget = fmax(1, engine->batch_tokens - batch);

    return fmin(batch / m->steps, budget / m->prompt);
}

/* The batch that gets most done and keeps the time between tokens. */
static void
choose_batch(const struct plan_engine *engine, const struct moments *m,
             const struct plan_demand *demand, struct plan_size *size)
{
    double fit = fmin(engine->seqs_max, (double)engine->kv_tokens / m->held);

    for (uint32_t n = 1; n <= fmax(1, fit); n++) {
        double ended = ended_in_step(engine, m, n);
        double step = step_s(engine, m, n, ended);
        bool kept = step * 1000 <= demand->slo.tpot_ms;
        if (n == 1) {
            size->late = !kept;
        }
        if (n == 1 || (kept && ended / step > size->rate)) {
            size->batch = n;
            size->step_s = step;
            size->rate = ended / step;
        }
    }
}

double
plan_erlang_c(uint64_t servers, double busy)
{
    double blocked = 1; /* Erlang B, by its recurrence */

    if (busy >= (double)servers) {
        return 1;
    }
    for (uint64_t i = 1; i <= servers; i++) {
        blocked = busy * blocked / ((double)i + busy * blocked);
    }
    double load = busy / (double)servers;
    return blocked / (1 - load * (1 - blocked));
}

/* The wait that TAIL of the arrivals do not exceed. */
static double
wait_s(const struct plan_demand *demand, const struct moments *m,
       const struct plan_size *size, uint32_t engines)
{
    uint64_t servers = (uint64_t)engines * size->batch;
    double capacity = engines * size->rate;
    double busy = demand->rate / size->rate * size->batch;
    double share = plan_erlang_c(servers, busy);
    double spread = m->steps_2 / (m->steps * m->steps); /* 1 + cv^2 */

    if (capacity <= demand->rate) {
        return INFINITY;
    }
    if (share <= 1 - TAIL) {
        return 0;
    }
    return log(share / (1 - TAIL)) * spread / 2 / (capacity - demand->rate);
}

struct plan_size
plan_corrected(const struct plan_engine *engine,
               const struct plan_demand *demand)
{
    struct plan_size size = {.engines = 0};

    if (demand->part.count == 0 ||
        plan_engine_slots(engine, demand->max_len) == 0) {
        return size;
    }
    struct moments m = take_moments(engine, demand);
    choose_batch(engine, &m, demand, &size);
    double prefill = fmax(chunks(m.prompt_tail, engine->chunk) * size.step_s,
                          m.prompt_tail / engine->prefill_tokens_per_s);
    double left = demand->slo.ttft_ms / 1e3 - prefill;
    if (left < 0) {
        size.late = true;
        left = 0;
    }
    double least = ceil(demand->rate / size.rate);
    for (uint32_t k = (uint32_t)fmin(fmax(1, least), PLAN_ENGINES_MAX + 1.0);
         k <= PLAN_ENGINES_MAX; k++) {
        if (wait_s(demand, &m, &size, k) <= left) {
            size.engines = k;
            break;
        }
    }
    return size;
}
