/* A plan as a table. */
#include "chaos/plan/plan_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

static const char *const ways[PLAN_WAYS] = {
    [PLAN_BY_CLOSED] = "closed",
    [PLAN_BY_CORRECTED] = "corrected",
    [PLAN_BY_PLAY] = "played",
};

/* With commas. */
static void
put_count(struct buf *out, int width, uint64_t number)
{
    char text[32];
    int len;

    if (number >= 1000000) {
        len =
            snprintf(text, sizeof(text), "%" PRIu64 ",%03" PRIu64 ",%03" PRIu64,
                     number / 1000000, number / 1000 % 1000, number % 1000);
    } else if (number >= 1000) {
        len = snprintf(text, sizeof(text), "%" PRIu64 ",%03" PRIu64,
                       number / 1000, number % 1000);
    } else {
        len = snprintf(text, sizeof(text), "%" PRIu64, number);
    }
    CHECK(len > 0 && (size_t)len < sizeof(text));
    buf_printf(out, "%*s", width, text);
}

/* Engines; "-" when there is no number that does it, or none is known. */
static void
put_engines(struct buf *out, int width, uint32_t engines)
{
    if (engines == 0) {
        buf_printf(out, "%*s", width, "-");
    } else {
        put_count(out, width, engines);
    }
}

static void
put_saving(struct buf *out, int width, uint32_t whole, uint32_t split)
{
    if (whole == 0 || split == 0) {
        buf_printf(out, "%*s", width, "-");
    } else {
        buf_printf(out, "%*.1f", width, plan_saving(whole, split) * 100);
    }
}

static void
put_seen(const struct plan_seen *seen, struct buf *out)
{
    if (seen->nodes > 0) {
        buf_printf(
            out,
            "\nseen by %" PRIu32 " node%s over %.3g hours: %.4g "
            "requests/s on average, %.4g in the busiest hour; %.1f %% of "
            "prompts' tokens were cached",
            seen->nodes, seen->nodes > 1 ? "s" : "", seen->span_s / 3600,
            seen->mean_rate, seen->busiest_rate, seen->cached * 100);
    }
}

static void
put_head(const struct plan *plan, const char *name, struct buf *out)
{
    const struct plan_setup *s = &plan->setup;
    struct plan_part all = plan_mix_part(s->mix, 0, plan_mix_longest(s->mix));
    double prompt = 0;
    double output = 0;

    for (uint32_t i = 0; i < all.count; i++) {
        prompt += all.points[i].prompt * all.points[i].weight;
        output += all.points[i].output * all.points[i].weight;
    }
    buf_printf(out,
               "%s\nprompts of %.0f tokens, answers of %.0f on average; in all "
               "50 %% up to ",
               name, prompt, output);
    put_count(out, 0, plan_part_quantile(&all, 0.5));
    buf_add_text(out, ", 99 % up to ");
    put_count(out, 0, plan_part_quantile(&all, 0.99));
    buf_add_text(out, ", the longest ");
    put_count(out, 0,
              s->seen.nodes > 0 ? s->seen.longest : plan_mix_longest(s->mix));
    put_seen(&s->seen, out);
    buf_printf(out,
               "\n%.10g requests/s; for 99 %%: first token within %" PRIu32
               " ms, %" PRIu32 " ms between tokens\n%s: %s; a cache of ",
               s->rate, s->slo.ttft_ms, s->slo.tpot_ms, s->engine.name,
               s->engine.meaning);
    put_count(out, 0, s->engine.kv_tokens);
    buf_printf(out, " tokens, %" PRIu32 " GPU%s at $%.2f/h\n\n", s->engine.gpus,
               s->engine.gpus > 1 ? "s" : "", s->price);
}

static void
put_pool(const struct plan_pool *pool, const char *name, struct buf *out)
{
    buf_printf(out, "%-6s to ", name);
    put_count(out, 7, pool->demand.max_len);
    buf_printf(out, "  %6.2f %6" PRIu32 " %6" PRIu32 "  %8.3f %8.3f %6.1f  ",
               pool->demand.part.share * 100, pool->slots,
               pool->corrected.batch, pool->closed.rate, pool->corrected.rate,
               pool->corrected.step_s * 1000);
    for (unsigned way = 0; way < PLAN_WAYS; way++) {
        put_engines(out, 10, pool->engines[way]);
    }
    buf_add_text(out, pool->corrected.late ? "  too slow\n" : "\n");
}

static void
put_money(const struct plan *plan, struct buf *out)
{
    const struct plan_fleet *const fleets[2] = {&plan->whole, &plan->split};

    for (unsigned f = 0; f < 2; f++) {
        buf_printf(
            out, "%-61s",
            f == 0 ? "$1,000 a year: one fleet" : "               two pools");
        for (unsigned way = 0; way < PLAN_WAYS; way++) {
            uint32_t engines = fleets[f]->engines[way];
            put_engines(
                out, 10,
                (uint32_t)lround(plan_cost(&plan->setup, engines) / 1000));
        }
        buf_add_text(out, "\n");
    }
    buf_printf(out, "%-61s", "two pools save, %");
    for (unsigned way = 0; way < PLAN_WAYS; way++) {
        put_saving(out, 10, plan->whole.engines[way], plan->split.engines[way]);
    }
    buf_add_text(out, "\n");
}

static void
put_sizes(const struct plan *plan, struct buf *out)
{
    static const char *const names[2] = {"short", "long"};

    buf_add_text(out,
                 "pool               share  slots  batch  req/s an engine  "
                 "  step     engines needed\n"
                 "                       %                  closed correct. "
                 "    ms      closed corrected    played\n");
    put_pool(&plan->whole.pools[0], "all", out);
    for (uint32_t i = 0; i < plan->split.pools_count; i++) {
        const struct plan_pool *pool = &plan->split.pools[i];
        bool is_short = pool->demand.max_len <= plan->setup.threshold;
        put_pool(pool, names[!is_short], out);
    }
    put_money(plan, out);
}

static void
put_time(struct buf *out, double seconds, double scale, int digits)
{
    if (isfinite(seconds)) {
        buf_printf(out, " %9.*f", digits, seconds * scale);
    } else {
        buf_printf(out, " %9s", "never");
    }
}

static void
put_latencies(const struct plan *plan, struct buf *out)
{
    const struct plan_fleet *const fleets[2] = {&plan->whole, &plan->split};

    buf_printf(out, "\n%-36s  TTFT s p50       p99  ms/token p50    p99\n",
               "latency, played");
    for (unsigned f = 0; f < 2; f++) {
        const struct plan_fleet *fleet = fleets[f];
        for (uint32_t h = 0; h < 2 && fleet->engines[fleet->latency_of] > 0;
             h++) {
            const struct plan_latency *l = &fleet->latency[h];
            buf_printf(out, "%-9s %4" PRIu32 " (%s), ",
                       f == 0 ? "one fleet" : "two pools",
                       fleet->engines[fleet->latency_of],
                       ways[fleet->latency_of]);
            put_count(out, fleet->latency_of == PLAN_BY_PLAY ? 10 : 7,
                      (uint64_t)plan->setup.requests *
                          (h == 0 ? 1 : PLAN_LONG_HORIZON));
            put_time(out, l->ttft_p50, 1, 3);
            put_time(out, l->ttft_p99, 1, 3);
            buf_add_text(out, "    ");
            put_time(out, l->tpot_p50, 1000, 1);
            put_time(out, l->tpot_p99, 1000, 1);
            buf_add_text(out, "\n");
        }
    }
}

static void
put_sweep(const struct plan *plan, struct buf *out)
{
    static const char *const lines[3] = {
        "requests up to there, %",
        "two pools save, %: closed form",
        "                   corrected",
    };

    if (plan->sweep_count == 0) {
        return;
    }
    buf_printf(out, "\n%-32s", "threshold, tokens");
    for (uint32_t i = 0; i < plan->sweep_count; i++) {
        put_count(out, 9, plan->sweep[i].threshold);
    }
    for (unsigned line = 0; line < 3; line++) {
        buf_printf(out, "\n%-32s", lines[line]);
        for (uint32_t i = 0; i < plan->sweep_count; i++) {
            const struct plan_step *step = &plan->sweep[i];
            if (line == 0) {
                buf_printf(out, "%9.2f", step->share * 100);
            } else {
                put_saving(out, 9, plan->whole.engines[line - 1],
                           step->engines[line - 1]);
            }
        }
    }
    buf_add_text(out, "\n");
}

static void
put_what_ifs(const struct plan *plan, struct buf *out)
{
    buf_printf(out, "\n%-40s  one fleet  two pools\n",
               "what if; engines by the corrected form");
    for (uint32_t i = 0; i < plan->what_ifs_count; i++) {
        const struct plan_what_if *w = &plan->what_ifs[i];
        buf_printf(out, "%-40s", w->what);
        put_engines(out, 11, w->engines[0]);
        put_engines(out, 11, w->engines[1]);
        buf_add_text(out, "\n");
    }
}

/* What a buyer asks. */
static void
put_answer(const struct plan *plan, struct buf *out)
{
    const struct plan_setup *s = &plan->setup;
    enum plan_way way;
    const struct plan_fleet *fleet = plan_answer(plan, &way);

    if (fleet == NULL) {
        buf_add_text(out,
                     "\nNo number of these engines keeps both promises for 99 "
                     "%: see \"too slow\".\nOther engines (--engine), longer "
                     "times, or prompts that are cached may.\n");
        return;
    }
    buf_printf(out, "\nBuy ");
    put_count(out, 0, fleet->engines[way]);
    buf_printf(out, " engine%s (", fleet->engines[way] > 1 ? "s" : "");
    uint64_t gpus = (uint64_t)fleet->engines[way] * s->engine.gpus;
    put_count(out, 0, gpus);
    buf_add_text(out, gpus > 1 ? " GPUs), $" : " GPU), $");
    put_count(out, 0, (uint64_t)llround(plan_cost(s, fleet->engines[way])));
    buf_printf(out, " a year, as %s: %s.\n",
               fleet == &plan->whole ? "one fleet" : "two pools", ways[way]);
}

void
plan_report_table(const struct plan *plan, const char *name, struct buf *out)
{
    put_head(plan, name, out);
    put_sizes(plan, out);
    put_answer(plan, out);
    if (plan->setup.requests > 0) {
        put_latencies(plan, out);
    }
    put_sweep(plan, out);
    put_what_ifs(plan, out);
    double left =
        1 - plan_mix_part(plan->setup.mix, 0, plan->setup.max_len).share;
    if (left > 1e-9) {
        buf_printf(out,
                   "\n%.2f %% of the requests are longer than %" PRIu32
                   " tokens: no pool takes them\n",
                   left * 100, plan->setup.max_len);
    }
}

void
plan_json_number(struct json_out *json, const char *key, double number)
{
    char text[64];

    if (!isfinite(number)) {
        json_out_key(json, key);
        json_out_null(json);
        return;
    }
    int len = snprintf(text, sizeof(text), "%.6g", number);
    CHECK(len > 0 && (size_t)len < sizeof(text));
    json_out_put_raw(json, key,
                     (struct slice){.ptr = text, .len = (size_t)len});
}

static void
json_engines(struct json_out *json, const uint32_t *engines)
{
    json_out_key(json, "engines");
    json_out_object_begin(json);
    for (unsigned way = 0; way < PLAN_WAYS; way++) {
        json_out_key(json, ways[way]);
        if (engines[way] > 0) {
            json_out_uint(json, engines[way]);
        } else {
            json_out_null(json);
        }
    }
    json_out_object_end(json);
}

static void
json_pool(struct json_out *json, const struct plan_pool *pool)
{
    json_out_object_begin(json);
    json_out_put_uint(json, "max_len", pool->demand.max_len);
    plan_json_number(json, "share", pool->demand.part.share);
    plan_json_number(json, "requests_per_s", pool->demand.rate);
    json_out_put_uint(json, "slots", pool->slots);
    plan_json_number(json, "closed_per_s", pool->closed.rate);
    json_out_put_uint(json, "batch", pool->corrected.batch);
    plan_json_number(json, "corrected_per_s", pool->corrected.rate);
    plan_json_number(json, "step_ms", pool->corrected.step_s * 1000);
    json_out_put_bool(json, "too_slow", pool->corrected.late);
    json_engines(json, pool->engines);
    json_out_object_end(json);
}

static void
json_latency(struct json_out *json, const struct plan_latency *l)
{
    json_out_object_begin(json);
    json_out_put_uint(json, "requests", l->requests);
    plan_json_number(json, "ttft_p50_s", l->ttft_p50);
    plan_json_number(json, "ttft_p99_s", l->ttft_p99);
    plan_json_number(json, "tpot_p50_ms", l->tpot_p50 * 1000);
    plan_json_number(json, "tpot_p99_ms", l->tpot_p99 * 1000);
    json_out_object_end(json);
}

static void
json_fleet(struct json_out *json, const struct plan *plan, const char *key,
           const struct plan_fleet *fleet)
{
    json_out_key(json, key);
    json_out_object_begin(json);
    json_out_key(json, "pools");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < fleet->pools_count; i++) {
        json_pool(json, &fleet->pools[i]);
    }
    json_out_array_end(json);
    json_engines(json, fleet->engines);
    json_out_put_text(json, "latency_of", ways[fleet->latency_of]);
    json_out_key(json, "latency");
    json_out_array_begin(json);
    for (uint32_t h = 0; h < 2 && plan->setup.requests > 0 &&
                         fleet->engines[fleet->latency_of] > 0;
         h++) {
        json_latency(json, &fleet->latency[h]);
    }
    json_out_array_end(json);
    json_out_object_end(json);
}

static void
json_sensitivity(struct json_out *json, const struct plan *plan)
{
    json_out_key(json, "thresholds");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < plan->sweep_count; i++) {
        const struct plan_step *step = &plan->sweep[i];
        const uint32_t engines[PLAN_WAYS] = {step->engines[0], step->engines[1],
                                             0};
        json_out_object_begin(json);
        json_out_put_uint(json, "threshold", step->threshold);
        plan_json_number(json, "share", step->share);
        json_engines(json, engines);
        json_out_object_end(json);
    }
    json_out_array_end(json);
    json_out_key(json, "what_if");
    json_out_array_begin(json);
    for (uint32_t i = 0; i < plan->what_ifs_count; i++) {
        json_out_object_begin(json);
        json_out_put_text(json, "what", plan->what_ifs[i].what);
        json_out_put_uint(json, "one_fleet", plan->what_ifs[i].engines[0]);
        json_out_put_uint(json, "two_pools", plan->what_ifs[i].engines[1]);
        json_out_object_end(json);
    }
    json_out_array_end(json);
}

static void
json_answer(struct json_out *json, const struct plan *plan)
{
    enum plan_way way;
    const struct plan_fleet *fleet = plan_answer(plan, &way);

    json_out_key(json, "buy");
    if (fleet == NULL) {
        json_out_null(json);
        return;
    }
    json_out_object_begin(json);
    json_out_put_uint(json, "engines", fleet->engines[way]);
    json_out_put_uint(json, "gpus",
                      (uint64_t)fleet->engines[way] * plan->setup.engine.gpus);
    plan_json_number(json, "usd_a_year",
                     plan_cost(&plan->setup, fleet->engines[way]));
    json_out_put_text(json, "as",
                      fleet == &plan->whole ? "one_fleet" : "two_pools");
    json_out_put_text(json, "by", ways[way]);
    json_out_object_end(json);
}

static void
json_seen(struct json_out *json, const struct plan_seen *seen)
{
    json_out_key(json, "seen");
    if (seen->nodes == 0) {
        json_out_null(json);
        return;
    }
    json_out_object_begin(json);
    json_out_put_uint(json, "nodes", seen->nodes);
    json_out_put_uint(json, "rows", seen->rows);
    plan_json_number(json, "hours", seen->span_s / 3600);
    plan_json_number(json, "mean_requests_per_s", seen->mean_rate);
    plan_json_number(json, "busiest_requests_per_s", seen->busiest_rate);
    plan_json_number(json, "cached_share", seen->cached);
    json_out_put_uint(json, "longest", seen->longest);
    json_out_object_end(json);
}

void
plan_report_json(const struct plan *plan, const char *name, struct buf *out)
{
    const struct plan_setup *s = &plan->setup;
    struct json_out json;

    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_text(&json, "mix", name);
    json_out_put_text(&json, "engine", s->engine.name);
    json_out_put_uint(&json, "kv_tokens", s->engine.kv_tokens);
    json_out_put_uint(&json, "gpus", s->engine.gpus);
    plan_json_number(&json, "gpu_hour_usd", s->price);
    plan_json_number(&json, "requests_per_s", s->rate);
    json_out_put_uint(&json, "slo_ttft_ms", s->slo.ttft_ms);
    json_out_put_uint(&json, "slo_tpot_ms", s->slo.tpot_ms);
    json_out_put_uint(&json, "threshold", s->threshold);
    json_out_put_uint(&json, "max_len", s->max_len);
    json_out_put_uint(&json, "seed", s->seed);
    json_seen(&json, &s->seen);
    json_answer(&json, plan);
    json_fleet(&json, plan, "one_fleet", &plan->whole);
    json_fleet(&json, plan, "two_pools", &plan->split);
    json_sensitivity(&json, plan);
    json_out_object_end(&json);
    buf_add_text(out, "\n");
}
