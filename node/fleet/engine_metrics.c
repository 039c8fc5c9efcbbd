/* Which of an engine's metrics means which number, over engines and
 * releases. */
#include "node/fleet/engine_metrics.h"

#include "node/text/json_pull.h"
#include "node/text/promtext.h"

enum field {
    RUNNING,
    WAITING,
    KV_USAGE,
    CAPACITY,
    BLOCK,
    MAX_BLOCKS, /* times BLOCK is the capacity */
    FIELDS,
};

/* Samples of a lower age replace those of a higher one; of the same age they
 * add up. */
struct known_name {
    struct slice name;
    enum field field;
    unsigned age;
};

#define NAME(literal)                \
    {                                \
        literal, sizeof(literal) - 1 \
    }

/* Source: vLLM 0.5 to 0.33, SGLang 0.4 to 0.5.23, TensorRT-LLM 1.x, llama.cpp
 * and TGI of 2026. */
static const struct known_name known_names[] = {
    {NAME("vllm:num_requests_running"), RUNNING, 0},
    {NAME("vllm:num_requests_waiting"), WAITING, 0},
    {NAME("vllm:num_requests_swapped"), WAITING, 0},
    {NAME("vllm:kv_cache_usage_perc"), KV_USAGE, 0},
    {NAME("vllm:gpu_cache_usage_perc"), KV_USAGE, 1},
    {NAME("sglang:num_running_reqs"), RUNNING, 0},
    {NAME("sglang:num_queue_reqs"), WAITING, 0},
    {NAME("sglang:num_grammar_queue_reqs"), WAITING, 0},
    {NAME("sglang:num_prefill_bootstrap_queue_reqs"), WAITING, 0},
    {NAME("sglang:num_decode_prealloc_queue_reqs"), WAITING, 0},
    {NAME("sglang:token_usage"), KV_USAGE, 0},
    {NAME("sglang:full_token_usage"), KV_USAGE, 1},
    {NAME("sglang:max_total_num_tokens"), CAPACITY, 0},
    {NAME("trtllm_num_requests_running"), RUNNING, 0},
    {NAME("trtllm_num_requests_waiting"), WAITING, 0},
    {NAME("trtllm_kv_cache_utilization"), KV_USAGE, 0},
    {NAME("trtllm_kv_cache_tokens_per_block"), BLOCK, 0},
    {NAME("trtllm_kv_cache_max_blocks"), MAX_BLOCKS, 0},
    {NAME("llamacpp:requests_processing"), RUNNING, 0},
    {NAME("llamacpp:requests_deferred"), WAITING, 0},
    {NAME("tgi_batch_current_size"), RUNNING, 0},
    {NAME("tgi_queue_size"), WAITING, 0},
};

static const struct {
    struct slice prefix;
    enum engine_kind kind;
} kinds[] = {
    {NAME("vllm:"), ENGINE_VLLM},     {NAME("sglang:"), ENGINE_SGLANG},
    {NAME("trtllm_"), ENGINE_TRTLLM}, {NAME("llamacpp:"), ENGINE_LLAMACPP},
    {NAME("tgi_"), ENGINE_TGI},
};

struct sum {
    unsigned age;
    unsigned samples; /* 0: absent */
    double value;
};

static void
add(struct sum *sum, unsigned age, double value)
{
    CHECK(value >= 0);
    if (sum->samples == 0 || age < sum->age) {
        *sum = (struct sum){.age = age};
    }
    if (age == sum->age) {
        sum->samples++;
        sum->value += value;
    }
}

static enum engine_kind
kind_of(struct slice name)
{
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (slice_begins(name, kinds[i].prefix)) {
            return kinds[i].kind;
        }
    }
    return ENGINE_OTHER;
}

/* A label that holds a count, as cache_config_info has them. */
static bool
label_number(const struct promtext_sample *sample, struct slice name,
             double *number)
{
    struct promtext_sample as_value;

    return promtext_label(sample, name, &as_value.value) &&
           promtext_number(&as_value, number) && *number > 0;
}

/* The labels of cache_config_info describe the cache. */
static void
read_config(const struct promtext_sample *sample, struct slice block_label,
            struct slice count_label, struct sum *sums)
{
    double block;
    double count;

    if (!label_number(sample, block_label, &block)) {
        return;
    }
    sums[BLOCK] = (struct sum){.samples = 1, .value = block};
    if (label_number(sample, count_label, &count)) {
        add(&sums[CAPACITY], 1, block * count);
    }
}

static void
read_sample(const struct promtext_sample *sample, struct sum *sums)
{
    double value;

    for (unsigned i = 0; i < sizeof known_names / sizeof *known_names; i++) {
        if (slice_equal(sample->name, known_names[i].name)) {
            if (promtext_number(sample, &value) && value >= 0) {
                add(&sums[known_names[i].field], known_names[i].age, value);
            }
            return;
        }
    }
    if (slice_equal(sample->name, SLICE("vllm:cache_config_info"))) {
        read_config(sample, SLICE("block_size"), SLICE("num_gpu_blocks"), sums);
    } else if (slice_equal(sample->name, SLICE("sglang:cache_config_info"))) {
        read_config(sample, SLICE("page_size"), SLICE("num_pages"), sums);
    }
}

static struct engine_number
total(const struct sum *sum)
{
    return (struct engine_number){.known = sum->samples > 0,
                                  .value = sum->value};
}

static struct engine_number
mean(const struct sum *sum)
{
    struct engine_number number = total(sum);

    number.value /= sum->samples > 0 ? sum->samples : 1;
    return number;
}

void
engine_metrics_read(struct slice text, struct engine_metrics *metrics)
{
    struct sum sums[FIELDS] = {{0}};
    struct promtext walk = promtext_of(text);
    struct promtext_sample sample;

    *metrics = (struct engine_metrics){.kind = ENGINE_OTHER};
    while (promtext_next(&walk, &sample)) {
        enum engine_kind kind = kind_of(sample.name);
        if (kind != ENGINE_OTHER) {
            metrics->kind = kind;
            read_sample(&sample, sums);
        }
    }
    metrics->running = total(&sums[RUNNING]);
    metrics->waiting = total(&sums[WAITING]);
    metrics->kv_usage = mean(&sums[KV_USAGE]);
    metrics->block = mean(&sums[BLOCK]);
    metrics->capacity = total(&sums[CAPACITY]);
    if (!metrics->capacity.known && metrics->block.known &&
        sums[MAX_BLOCKS].samples > 0) {
        metrics->capacity = total(&sums[MAX_BLOCKS]);
        metrics->capacity.value *= metrics->block.value;
    }
}

/* One slot, its opening bracket taken. */
static bool
read_slot(struct json_pull *pull, struct engine_metrics *metrics)
{
    enum pull_token token = json_pull_next(pull);

    for (; token == PULL_KEY; token = json_pull_next(pull)) {
        bool room = json_pull_is(pull, SLICE("n_ctx"));
        bool busy = json_pull_is(pull, SLICE("is_processing"));
        if (!room && !busy) {
            if (!json_pull_skip(pull)) {
                return false;
            }
            continue;
        }
        uint64_t tokens = 0;
        token = json_pull_next(pull);
        if (room && (token != PULL_NUMBER ||
                     !json_pull_uint(pull, UINT32_MAX, &tokens))) {
            return false;
        }
        metrics->capacity.value += (double)tokens;
        metrics->running.value += token == PULL_TRUE;
    }
    return token == PULL_OBJECT_END;
}

void
engine_slots_read(struct slice json, struct engine_metrics *metrics)
{
    struct json_pull pull;
    enum pull_token token;

    *metrics = (struct engine_metrics){.kind = ENGINE_OTHER};
    json_pull_init(&pull, json);
    if (json_pull_next(&pull) != PULL_ARRAY) {
        return;
    }
    while ((token = json_pull_next(&pull)) == PULL_OBJECT &&
           read_slot(&pull, metrics)) {
    }
    if (token == PULL_ARRAY_END && metrics->capacity.value > 0) {
        metrics->kind = ENGINE_LLAMACPP;
        metrics->running.known = true;
        metrics->capacity.known = true;
    } else {
        *metrics = (struct engine_metrics){.kind = ENGINE_OTHER};
    }
}
