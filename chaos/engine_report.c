#include "chaos/engine_report.h"

#include <inttypes.h>

static const double first_token_bounds[] = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
    1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0,
};

static const double inter_token_bounds[] = {
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2,  0.3,  0.4,
    0.5,  0.75,  1.0,  2.5,   5.0, 7.5,  10.0, 20.0, 40.0,
};

static const double request_bounds[] = {
    0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,   20.0,
    30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0,
};

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

static void
observe(struct engine_histogram *h, const double *bounds, size_t count,
        double s)
{
    size_t i = 0;

    while (i < count && s > bounds[i]) {
        i++;
    }
    h->counts[i]++;
    h->count++;
    h->sum_s += s;
}

void
engine_report_first_token(struct engine_report *report, double s)
{
    observe(&report->first_token, first_token_bounds,
            COUNT_OF(first_token_bounds), s);
}

void
engine_report_inter_token(struct engine_report *report, double s)
{
    observe(&report->inter_token, inter_token_bounds,
            COUNT_OF(inter_token_bounds), s);
}

void
engine_report_queue(struct engine_report *report, double s)
{
    observe(&report->queue, request_bounds, COUNT_OF(request_bounds), s);
}

void
engine_report_whole(struct engine_report *report, double s)
{
    observe(&report->whole, request_bounds, COUNT_OF(request_bounds), s);
}

struct page {
    struct buf *out;
    const char *model;
};

static void
head(const struct page *page, const char *name, const char *type,
     const char *help)
{
    buf_printf(page->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
               type);
}

static void
number(const struct page *page, const char *name, const char *type,
       double value, const char *help)
{
    head(page, name, type, help);
    buf_printf(page->out, "%s{engine=\"0\",model_name=\"%s\"} %.17g\n", name,
               page->model, value);
}

static void
histogram(const struct page *page, const char *name,
          const struct engine_histogram *h, const double *bounds, size_t count,
          const char *help)
{
    uint64_t below = 0;

    head(page, name, "histogram", help);
    for (size_t i = 0; i < count; i++) {
        below += h->counts[i];
        buf_printf(page->out,
                   "%s_bucket{engine=\"0\",le=\"%.*f\",model_name=\"%s\"} "
                   "%" PRIu64 "\n",
                   name, bounds[i] < 0.1 ? 3 : 2, bounds[i], page->model,
                   below);
    }
    buf_printf(page->out,
               "%s_bucket{engine=\"0\",le=\"+Inf\",model_name=\"%s\"} "
               "%" PRIu64 "\n",
               name, page->model, h->count);
    buf_printf(page->out, "%s_sum{engine=\"0\",model_name=\"%s\"} %.9g\n", name,
               page->model, h->sum_s);
    buf_printf(page->out,
               "%s_count{engine=\"0\",model_name=\"%s\"} %" PRIu64 "\n", name,
               page->model, h->count);
}

static void
levels(const struct page *page, const struct engine_stats *stats,
       const struct engine_config *config)
{
    number(page, "vllm:num_requests_running", "gauge", stats->running,
           "Sequences in the batch.");
    number(page, "vllm:num_requests_waiting", "gauge", stats->waiting,
           "Requests in the queue.");
    number(page, "vllm:kv_cache_usage_perc", "gauge",
           (double)stats->held_blocks / config->blocks_max,
           "Part of the blocks that running requests hold, 0 to 1.");
}

static void
totals(const struct page *page, const struct engine_stats *stats,
       const struct engine_report *report)
{
    number(page, "vllm:prefix_cache_queries_total", "counter",
           (double)stats->query_tokens, "Prompt tokens looked up.");
    number(page, "vllm:prefix_cache_hits_total", "counter",
           (double)stats->hit_tokens, "Prompt tokens found in the cache.");
    number(page, "vllm:num_preemptions_total", "counter", 0, "Always 0 here.");
    number(page, "vllm:prompt_tokens_total", "counter",
           (double)stats->prompt_tokens, "Prompt tokens processed.");
    number(page, "vllm:prompt_tokens_cached_total", "counter",
           (double)report->cached_tokens, "Of these, taken from the cache.");
    number(page, "vllm:generation_tokens_total", "counter",
           (double)stats->generation_tokens, "Tokens generated.");
    head(page, "vllm:request_success_total", "counter", "Requests that ended.");
    buf_printf(page->out,
               "vllm:request_success_total{engine=\"0\",finished_reason="
               "\"length\",model_name=\"%s\"} %" PRIu64 "\n",
               page->model, report->finished);
    buf_printf(page->out,
               "vllm:request_success_total{engine=\"0\",finished_reason="
               "\"abort\",model_name=\"%s\"} %" PRIu64 "\n",
               page->model, report->aborted);
}

void
engine_report_write(const struct engine_report *report,
                    const struct engine *engine, const char *model,
                    struct buf *out)
{
    struct page page = {.out = out, .model = model};
    struct engine_stats stats;

    engine_stats(engine, &stats);
    levels(&page, &stats, &engine->config);
    totals(&page, &stats, report);
    head(&page, "vllm:cache_config_info", "gauge", "How the cache is made.");
    buf_printf(out,
               "vllm:cache_config_info{block_size=\"%u\","
               "enable_prefix_caching=\"True\",engine=\"0\","
               "num_gpu_blocks=\"%u\"} 1\n",
               engine->config.block_tokens, engine->config.blocks_max);
    histogram(&page, "vllm:time_to_first_token_seconds", &report->first_token,
              first_token_bounds, COUNT_OF(first_token_bounds),
              "From arrival to the first token.");
    histogram(&page, "vllm:inter_token_latency_seconds", &report->inter_token,
              inter_token_bounds, COUNT_OF(inter_token_bounds),
              "From one token to the next.");
    histogram(&page, "vllm:request_queue_time_seconds", &report->queue,
              request_bounds, COUNT_OF(request_bounds),
              "From arrival to admission.");
    histogram(&page, "vllm:e2e_request_latency_seconds", &report->whole,
              request_bounds, COUNT_OF(request_bounds),
              "From arrival to the last token.");
}
