/* Arrivals, engines and their answers on one clock. */
#include "chaos/plan/plan_play.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "chaos/base/virtual_time.h"

#define SIZE_MIN     1024U
#define WARM_SHARE   0.2 /* of the duration */
#define ARRIVAL      UINT32_MAX
#define BLOCKS_LEAST 1U
#define EVENTS_MAX   (UINT32_C(1) << 26)

struct player {
    const struct plan_play *play;
    struct plan_samples *samples;
    struct virtual_time time;
    struct rng rng;
    struct engine *engines;
    uint32_t *load;   /* requests in flight at each */
    uint64_t *wake;   /* the event that is awaited for each */
    uint32_t *prompt; /* token ids: all prompts are made of these */
    uint32_t next;    /* round robin */
    uint64_t number;  /* of requests so far */
    uint64_t end_us;
};

void
plan_samples_init(struct plan_samples *samples)
{
    *samples = (struct plan_samples){.ttft = NULL};
}

void
plan_samples_fini(struct plan_samples *samples)
{
    free(samples->ttft);
    free(samples->tpot);
    plan_samples_init(samples);
}

static int
add_sample(struct plan_samples *samples, double ttft, double tpot)
{
    if (samples->ttft_count == samples->size) {
        uint32_t size = samples->size == 0 ? SIZE_MIN : samples->size * 2;
        double *grown = realloc(samples->ttft, size * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        samples->ttft = grown;
        grown = realloc(samples->tpot, size * sizeof(*grown));
        if (grown == NULL) {
            return -ENOMEM;
        }
        samples->tpot = grown;
        samples->size = size;
    }
    samples->ttft[samples->ttft_count++] = ttft;
    if (tpot > 0) {
        samples->tpot[samples->tpot_count++] = tpot;
    }
    return 0;
}

static struct engine_config
engine_config_of(const struct plan_play *play)
{
    const struct plan_engine *e = play->engine;
    uint32_t block = PLAN_BLOCK_TOKENS;

    while (e->kv_tokens / block * play->engines > PLAN_PLAYED_BLOCKS_MAX) {
        block *= 2;
    }
    uint64_t blocks = e->kv_tokens / block;
    return (struct engine_config){
        .cache = ENGINE_CACHE_BLOCKS,
        .blocks_max = (uint32_t)(blocks > 0 ? blocks : BLOCKS_LEAST),
        .block_tokens = block,
        .running_max = play->slots,
        .batch_tokens_max = e->batch_tokens,
        .requests_max = PLAN_WAITING_MAX,
        .request_tokens_max = UINT32_MAX,
        .prefill_tokens_per_s = e->prefill_tokens_per_s,
        .step_us = e->step_us,
        .step_per_seq_us = e->step_per_seq_us,
        .step_per_context_ps = e->step_per_context_ps,
        .prefill_per_pair_ps = e->prefill_per_pair_ps,
    };
}

static int
schedule(struct player *p, uint64_t at_us, uint32_t who)
{
    struct virtual_event event = {.time_us = at_us, .who = who};

    return virtual_time_add(&p->time, &event);
}

/* The next arrival, unless it would be after the end. */
static int
schedule_arrival(struct player *p)
{
    double gap_us = -log(1 - rng_unit(&p->rng)) / p->play->rate * 1e6;
    double at_us = (double)p->time.now_us + gap_us;

    return at_us < (double)p->end_us ? schedule(p, (uint64_t)at_us, ARRIVAL)
                                     : 0;
}

static int
schedule_engine(struct player *p, uint32_t engine)
{
    uint64_t due_us = engine_deadline(&p->engines[engine]);

    if (due_us == UINT64_MAX || due_us == p->wake[engine]) {
        return 0;
    }
    p->wake[engine] = due_us > p->time.now_us ? due_us : p->time.now_us;
    return schedule(p, p->wake[engine], engine);
}

static bool
is_counted(const struct player *p, uint64_t submitted_us)
{
    return (double)submitted_us >= WARM_SHARE * (double)p->end_us;
}

static uint32_t
choose(struct player *p)
{
    uint32_t count = p->play->engines;
    uint32_t best = p->next++ % count;

    if (p->play->route == PLAN_LEAST_LOAD) {
        for (uint32_t i = 0; i < count; i++) {
            best = p->load[i] < p->load[best] ? i : best;
        }
    }
    return best;
}

static int
arrive(struct player *p)
{
    const struct plan_point *point = plan_part_draw(&p->play->part, &p->rng);
    uint32_t engine = choose(p);
    struct engine_request request = {
        .root = rng_mix(++p->number), /* no other's prefix */
        .user = engine,
        .prompt = p->prompt,
        .prompt_len = point->prompt,
        .output_len = point->output,
        .cold = true,
    };
    uint64_t ticket;
    int outcome =
        engine_submit(&p->engines[engine], &request, p->time.now_us, &ticket);

    if (outcome < 0) {
        return outcome;
    }
    if (outcome != 0) {
        p->samples->lost += is_counted(p, p->time.now_us);
    } else {
        p->load[engine]++;
        int error = schedule_engine(p, engine);
        if (error != 0) {
            return error;
        }
    }
    return schedule_arrival(p);
}

static int
note(struct player *p, const struct engine_out *out)
{
    const struct engine_usage *usage = &out->usage;
    double gaps = usage->completion_tokens - 1;

    if (!is_counted(p, usage->submitted_us)) {
        return 0;
    }
    double ttft = (double)(usage->first_us - usage->submitted_us) / 1e6;
    double rest = (double)(out->at_us - usage->first_us) / 1e6;
    return add_sample(p->samples, ttft, gaps > 0 ? rest / gaps : 0);
}

static int
end(struct player *p, uint32_t engine, const struct engine_out *out)
{
    CHECK(p->load[engine] > 0);
    p->load[engine]--;
    return note(p, out);
}

static int
wake(struct player *p, uint32_t engine, uint64_t at_us)
{
    struct engine *e = &p->engines[engine];
    struct engine_out out;

    if (p->wake[engine] != at_us) {
        return 0; /* it was woken sooner */
    }
    p->wake[engine] = UINT64_MAX;
    int error = 0;
    do {
        engine_tick(e, at_us);
        while (error == 0 && engine_next_out(e, &out)) {
            error = out.kind == ENGINE_OUT_END ? end(p, engine, &out) : 0;
        }
    } while (error == 0 && engine_deadline(e) <= at_us);
    return error == 0 ? schedule_engine(p, engine) : error;
}

static uint32_t
longest_prompt(const struct plan_part *part)
{
    uint32_t longest = 1;

    for (uint32_t i = 0; i < part->count; i++) {
        longest =
            part->points[i].prompt > longest ? part->points[i].prompt : longest;
    }
    return longest;
}

static int
begin(struct player *p)
{
    const struct plan_play *play = p->play;
    struct engine_config config = engine_config_of(play);

    p->engines = calloc(play->engines, sizeof(*p->engines));
    p->load = calloc(play->engines, sizeof(*p->load));
    p->wake = calloc(play->engines, sizeof(*p->wake));
    p->prompt = calloc(longest_prompt(&play->part), sizeof(*p->prompt));
    if (p->engines == NULL || p->load == NULL || p->wake == NULL ||
        p->prompt == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < play->engines; i++) {
        p->wake[i] = UINT64_MAX;
        int error = engine_init(&p->engines[i], &config, 0, play->seed + i);
        if (error != 0) {
            return error;
        }
    }
    return schedule_arrival(p);
}

static void
player_fini(struct player *p)
{
    for (uint32_t i = 0; p->engines != NULL && i < p->play->engines; i++) {
        engine_fini(&p->engines[i]);
    }
    free(p->engines);
    free(p->load);
    free(p->wake);
    free(p->prompt);
    virtual_time_fini(&p->time);
}

int
plan_play(const struct plan_play *play, struct plan_samples *samples)
{
    struct player p = {
        .play = play,
        .samples = samples,
        .end_us = (uint64_t)(play->duration_s * 1e6),
    };
    struct virtual_event event;

    CHECK(play->engines > 0 && play->slots > 0 && play->part.count > 0);
    virtual_time_init(&p.time, EVENTS_MAX, 0);
    rng_init(&p.rng, play->seed);
    int error = begin(&p);
    while (error == 0 &&
           virtual_time_next(&p.time, VIRTUAL_TIME_NEVER, &event)) {
        error = event.who == ARRIVAL ? arrive(&p)
                                     : wake(&p, event.who, event.time_us);
    }
    player_fini(&p);
    return error;
}

static int
by_value(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;

    return left < right ? -1 : left > right;
}

/* Of `count` values and of `lost` ones that are above all. */
static double
quantile(const double *sorted, uint32_t count, uint32_t lost, double share)
{
    uint64_t all = (uint64_t)count + lost;
    uint64_t at = (uint64_t)ceil((double)all * share);

    if (all == 0) {
        return 0;
    }
    at = at > 0 ? at - 1 : 0;
    return at < count ? sorted[at] : INFINITY;
}

struct plan_latency
plan_samples_latency(struct plan_samples *s)
{
    if (s->size > 0) {
        qsort(s->ttft, s->ttft_count, sizeof(*s->ttft), by_value);
        qsort(s->tpot, s->tpot_count, sizeof(*s->tpot), by_value);
    }
    return (struct plan_latency){
        .ttft_p50 = quantile(s->ttft, s->ttft_count, s->lost, 0.5),
        .ttft_p99 = quantile(s->ttft, s->ttft_count, s->lost, 0.99),
        .tpot_p50 = quantile(s->tpot, s->tpot_count, 0, 0.5),
        .tpot_p99 = quantile(s->tpot, s->tpot_count, 0, 0.99),
        .requests = s->ttft_count + s->lost,
    };
}
