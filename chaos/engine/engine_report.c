/* The engine's metrics under the names of its make. */
#include "chaos/engine/engine_report_internal.h"

#include <inttypes.h>
#include <string.h>

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

    CHECK(s >= 0);
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
    enum engine_make make;
    const char *model;
    const struct engine_report_source *sources;
    uint32_t count; /* of them */
};

static void
head(const struct page *page, const char *name, const char *type,
     const char *help)
{
    buf_printf(page->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
               type);
}

/* The plain numbers of a rank. */
enum number {
    NUMBER_RUNNING,
    NUMBER_WAITING,
    NUMBER_USAGE,
    NUMBER_QUERIES,
    NUMBER_HITS,
    NUMBER_PREEMPTIONS,
    NUMBER_PROMPT,
    NUMBER_CACHED,
    NUMBER_GENERATION,
    NUMBER_CAPACITY, /* tokens */
    NUMBER_BLOCKS,
    NUMBER_BLOCK_TOKENS,
    NUMBER_COUNT,
};

static const char *const helps[NUMBER_COUNT] = {
    [NUMBER_RUNNING] = "Sequences in the batch.",
    [NUMBER_WAITING] = "Requests in the queue.",
    [NUMBER_USAGE] = "Part of the blocks that running requests hold, 0 to 1.",
    [NUMBER_QUERIES] = "Prompt tokens looked up.",
    [NUMBER_HITS] = "Prompt tokens found in the cache.",
    [NUMBER_PREEMPTIONS] = "Always 0 here.",
    [NUMBER_PROMPT] = "Prompt tokens processed.",
    [NUMBER_CACHED] = "Of these, taken from the cache.",
    [NUMBER_GENERATION] = "Tokens generated.",
    [NUMBER_CAPACITY] = "Tokens that the cache has room for.",
    [NUMBER_BLOCKS] = "Blocks of the cache.",
    [NUMBER_BLOCK_TOKENS] = "Tokens of a block.",
};

/* A name that ends in _total is a counter's; NULL: the make has none. */
static const char *const names[ENGINE_MAKES][NUMBER_COUNT] = {
    [ENGINE_MAKE_VLLM] =
        {
            [NUMBER_RUNNING] = "vllm:num_requests_running",
            [NUMBER_WAITING] = "vllm:num_requests_waiting",
            [NUMBER_USAGE] = "vllm:kv_cache_usage_perc",
            [NUMBER_QUERIES] = "vllm:prefix_cache_queries_total",
            [NUMBER_HITS] = "vllm:prefix_cache_hits_total",
            [NUMBER_PREEMPTIONS] = "vllm:num_preemptions_total",
            [NUMBER_PROMPT] = "vllm:prompt_tokens_total",
            [NUMBER_CACHED] = "vllm:prompt_tokens_cached_total",
            [NUMBER_GENERATION] = "vllm:generation_tokens_total",
        },
    [ENGINE_MAKE_SGLANG] =
        {
            [NUMBER_RUNNING] = "sglang:num_running_reqs",
            [NUMBER_WAITING] = "sglang:num_queue_reqs",
            [NUMBER_USAGE] = "sglang:token_usage",
            [NUMBER_PROMPT] = "sglang:prompt_tokens_total",
            [NUMBER_CACHED] = "sglang:cached_tokens_total",
            [NUMBER_GENERATION] = "sglang:generation_tokens_total",
            [NUMBER_CAPACITY] = "sglang:max_total_num_tokens",
        },
    [ENGINE_MAKE_TRTLLM] =
        {
            [NUMBER_RUNNING] = "trtllm_num_requests_running",
            [NUMBER_WAITING] = "trtllm_num_requests_waiting",
            [NUMBER_USAGE] = "trtllm_kv_cache_utilization",
            [NUMBER_BLOCKS] = "trtllm_kv_cache_max_blocks",
            [NUMBER_BLOCK_TOKENS] = "trtllm_kv_cache_tokens_per_block",
        },
    [ENGINE_MAKE_TGI] =
        {
            [NUMBER_RUNNING] = "tgi_batch_current_size",
            [NUMBER_WAITING] = "tgi_queue_size",
        },
};

static void
read_numbers(const struct engine_report_source *source,
             double values[NUMBER_COUNT])
{
    const struct engine_config *config = &source->engine->config;
    struct engine_stats stats;

    engine_stats(source->engine, &stats);
    values[NUMBER_RUNNING] = stats.running;
    values[NUMBER_WAITING] = stats.waiting;
    values[NUMBER_USAGE] = (double)stats.held_blocks / config->blocks_max;
    values[NUMBER_QUERIES] = (double)stats.query_tokens;
    values[NUMBER_HITS] = (double)stats.hit_tokens;
    values[NUMBER_PREEMPTIONS] = 0;
    values[NUMBER_PROMPT] = (double)stats.prompt_tokens;
    values[NUMBER_CACHED] = (double)source->report->cached_tokens;
    values[NUMBER_GENERATION] = (double)stats.generation_tokens;
    values[NUMBER_CAPACITY] = (double)config->blocks_max * config->block_tokens;
    values[NUMBER_BLOCKS] = config->blocks_max;
    values[NUMBER_BLOCK_TOKENS] = config->block_tokens;
}

static void
put_numbers(const struct page *page)
{
    double values[NUMBER_COUNT];

    for (size_t n = 0; n < NUMBER_COUNT; n++) {
        const char *name = names[page->make][n];
        if (name == NULL) {
            continue;
        }
        const char *total = strstr(name, "_total");
        bool counts = total != NULL && total[strlen("_total")] == '\0';
        head(page, name, counts ? "counter" : "gauge", helps[n]);
        for (uint32_t i = 0; i < page->count; i++) {
            read_numbers(&page->sources[i], values);
            buf_printf(page->out, "%s{%s=\"%u\",model_name=\"%s\"} %.17g\n",
                       name, page->make == ENGINE_MAKE_VLLM ? "engine" : "rank",
                       i, page->model, values[n]);
        }
    }
}

static void
put_ends(const struct page *page)
{
    head(page, "vllm:request_success_total", "counter", "Requests that ended.");
    for (uint32_t i = 0; i < page->count; i++) {
        const struct engine_report *report = page->sources[i].report;
        buf_printf(page->out,
                   "vllm:request_success_total{engine=\"%u\",finished_reason="
                   "\"length\",model_name=\"%s\"} %" PRIu64 "\n",
                   i, page->model, report->finished);
        buf_printf(page->out,
                   "vllm:request_success_total{engine=\"%u\",finished_reason="
                   "\"abort\",model_name=\"%s\"} %" PRIu64 "\n",
                   i, page->model, report->aborted);
    }
}

static void
put_config(const struct page *page)
{
    head(page, "vllm:cache_config_info", "gauge", "How the cache is made.");
    for (uint32_t i = 0; i < page->count; i++) {
        const struct engine_config *config = &page->sources[i].engine->config;
        buf_printf(page->out,
                   "vllm:cache_config_info{block_size=\"%u\","
                   "enable_prefix_caching=\"True\",engine=\"%u\","
                   "num_gpu_blocks=\"%u\"} 1\n",
                   config->block_tokens, i, config->blocks_max);
    }
}

/* A histogram that each rank has. */
struct curve {
    const char *name;
    const char *help;
    const double *bounds;
    size_t bounds_count;
    size_t at; /* in struct engine_report */
};

static void
put_rank_curve(const struct page *page, const struct curve *curve, uint32_t i)
{
    const char *report = (const char *)page->sources[i].report;
    const struct engine_histogram *h = (const void *)(report + curve->at);
    uint64_t below = 0;

    for (size_t b = 0; b < curve->bounds_count; b++) {
        below += h->counts[b];
        buf_printf(page->out,
                   "%s_bucket{engine=\"%u\",le=\"%.*f\",model_name=\"%s\"} "
                   "%" PRIu64 "\n",
                   curve->name, i, curve->bounds[b] < 0.1 ? 3 : 2,
                   curve->bounds[b], page->model, below);
    }
    buf_printf(page->out,
               "%s_bucket{engine=\"%u\",le=\"+Inf\",model_name=\"%s\"} "
               "%" PRIu64 "\n",
               curve->name, i, page->model, h->count);
    buf_printf(page->out, "%s_sum{engine=\"%u\",model_name=\"%s\"} %.9g\n",
               curve->name, i, page->model, h->sum_s);
    buf_printf(page->out,
               "%s_count{engine=\"%u\",model_name=\"%s\"} %" PRIu64 "\n",
               curve->name, i, page->model, h->count);
}

static void
put_curves(const struct page *page)
{
    static const struct curve curves[] = {
        {"vllm:time_to_first_token_seconds", "From arrival to the first token.",
         first_token_bounds, COUNT_OF(first_token_bounds),
         offsetof(struct engine_report, first_token)},
        {"vllm:inter_token_latency_seconds", "From one token to the next.",
         inter_token_bounds, COUNT_OF(inter_token_bounds),
         offsetof(struct engine_report, inter_token)},
        {"vllm:request_queue_time_seconds", "From arrival to admission.",
         request_bounds, COUNT_OF(request_bounds),
         offsetof(struct engine_report, queue)},
        {"vllm:e2e_request_latency_seconds", "From arrival to the last token.",
         request_bounds, COUNT_OF(request_bounds),
         offsetof(struct engine_report, whole)},
    };

    for (size_t c = 0; c < COUNT_OF(curves); c++) {
        head(page, curves[c].name, "histogram", curves[c].help);
        for (uint32_t i = 0; i < page->count; i++) {
            put_rank_curve(page, &curves[c], i);
        }
    }
}

void
engine_report_write(const struct engine_report_source *sources, uint32_t count,
                    enum engine_make make, const char *model, struct buf *out)
{
    struct page page = {.out = out,
                        .make = make,
                        .model = model,
                        .sources = sources,
                        .count = count};

    CHECK(count >= 1 && make < ENGINE_MAKES);
    put_numbers(&page);
    if (make != ENGINE_MAKE_VLLM) {
        return;
    }
    put_ends(&page);
    put_config(&page);
    put_curves(&page);
}
