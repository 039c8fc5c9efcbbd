#include <criterion/criterion.h>

#include "node/fleet/engine_metrics.h"

static struct engine_metrics metrics;

static void
read_text(const char *text)
{
    engine_metrics_read(slice_of(text), &metrics);
}

static void
expect(struct engine_number number, double value)
{
    cr_assert(number.known);
    cr_assert_float_eq(number.value, value, 1e-9, "%f", number.value);
}

Test(node_engine_metrics, vllm_now)
{
    read_text(
        "# HELP vllm:num_requests_running Number of requests in model "
        "execution batches.\n"
        "# TYPE vllm:num_requests_running gauge\n"
        "vllm:num_requests_running{engine=\"0\",model_name=\"Qwen/Qwen3-8B\"} "
        "12.0\n"
        "vllm:num_requests_running{engine=\"1\",model_name=\"Qwen/Qwen3-8B\"} "
        "3.0\n"
        "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 4.0\n"
        "vllm:num_requests_waiting_by_reason{engine=\"0\",reason=\"capacity\"} "
        "900.0\n"
        "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.5\n"
        "vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"m\"} 0.25\n"
        "vllm:prefix_cache_queries_total{engine=\"0\"} 1.2345e+06\n"
        "vllm:prefix_cache_queries_created{engine=\"0\"} 1.7e+09\n"
        "vllm:prefix_cache_hits_total{engine=\"0\"} 617250.0\n"
        "vllm:num_preemptions_total{engine=\"0\"} 2.0\n"
        "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\","
        "engine=\"0\",num_gpu_blocks=\"1000\"} 1.0\n"
        "vllm:cache_config_info{block_size=\"16\",cache_dtype=\"auto\","
        "engine=\"1\",num_gpu_blocks=\"500\"} 1.0\n"
        "vllm:e2e_request_latency_seconds_bucket{le=\"+Inf\"} 7.0\n");
    cr_assert_eq(metrics.kind, ENGINE_VLLM);
    expect(metrics.running, 15);
    expect(metrics.waiting, 4);
    expect(metrics.kv_usage, 0.375);
    expect(metrics.capacity, 24000);
    expect(metrics.block, 16);
}

Test(node_engine_metrics, vllm_with_old_and_new_names_counts_the_new)
{
    read_text("vllm:gpu_cache_usage_perc 0.9\n"
              "vllm:kv_cache_usage_perc 0.4\n"
              "vllm:gpu_cache_usage_perc 0.9\n");
    expect(metrics.kv_usage, 0.4);
    read_text("vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.9\n"
              "vllm:num_requests_waiting 3\nvllm:num_requests_swapped 2\n");
    expect(metrics.kv_usage, 0.9);
    expect(metrics.waiting, 5);
}

Test(node_engine_metrics, absent_is_not_zero)
{
    read_text("vllm:num_requests_running 0.0\n"
              "vllm:kv_cache_usage_perc NaN\n"
              "vllm:cache_config_info{block_size=\"16\","
              "num_gpu_blocks=\"None\"} 1.0\n");
    expect(metrics.running, 0);
    cr_assert_not(metrics.waiting.known);
    cr_assert_not(metrics.kv_usage.known);
    cr_assert_not(metrics.capacity.known);
    expect(metrics.block, 16);
}

Test(node_engine_metrics, sglang)
{
    read_text("sglang:num_running_reqs{model_name=\"m\",tp_rank=\"0\"} 8\n"
              "sglang:num_queue_reqs{model_name=\"m\",tp_rank=\"0\"} 2\n"
              "sglang:num_grammar_queue_reqs{tp_rank=\"0\"} 1\n"
              "sglang:token_usage{tp_rank=\"0\"} 0.28\n"
              "sglang:full_token_usage{tp_rank=\"0\"} 0.1\n"
              "sglang:max_total_num_tokens{tp_rank=\"0\"} 461376\n"
              "sglang:cache_config_info{page_size=\"16\",num_pages=\"9\"} 1\n"
              "sglang:prompt_tokens_total 100\n");
    cr_assert_eq(metrics.kind, ENGINE_SGLANG);
    expect(metrics.running, 8);
    expect(metrics.waiting, 3);
    expect(metrics.kv_usage, 0.28);
    expect(metrics.capacity, 461376);
    expect(metrics.block, 16);
}

Test(node_engine_metrics, tensorrt_llm)
{
    read_text("trtllm_num_requests_running 3\ntrtllm_num_requests_waiting 1\n"
              "trtllm_kv_cache_utilization 0.75\n"
              "trtllm_kv_cache_tokens_per_block 32\n"
              "trtllm_kv_cache_max_blocks 100\n");
    cr_assert_eq(metrics.kind, ENGINE_TRTLLM);
    expect(metrics.running, 3);
    expect(metrics.waiting, 1);
    expect(metrics.kv_usage, 0.75);
    expect(metrics.capacity, 3200);
}

Test(node_engine_metrics, anything_else_is_nothing)
{
    read_text("[{\"iter\": 1}]");
    cr_assert_eq(metrics.kind, ENGINE_OTHER);
    cr_assert_not(metrics.running.known);
    read_text("python_gc_objects_collected_total 3\nnum_requests_running 4\n"
              "vllm:num_requests_running_total 5\n");
    cr_assert_eq(metrics.kind, ENGINE_VLLM);
    cr_assert_not(metrics.running.known);
    read_text("vllm:num_requests_running -4\n");
    cr_assert_not(metrics.running.known);
}

Test(node_engine_metrics, llama_cpp_and_tgi)
{
    read_text(
        "llamacpp:prompt_tokens_total 100\nllamacpp:requests_processing 3\n"
        "llamacpp:requests_deferred 2\n");
    cr_assert_eq(metrics.kind, ENGINE_LLAMACPP);
    expect(metrics.running, 3);
    expect(metrics.waiting, 2);
    read_text("tgi_batch_current_size 5\ntgi_queue_size 1\n"
              "tgi_request_queue_duration_count 7\n");
    cr_assert_eq(metrics.kind, ENGINE_TGI);
    expect(metrics.running, 5);
    expect(metrics.waiting, 1);
}

Test(node_engine_metrics, slots_tell_what_runs_and_what_there_is_room_for)
{
    engine_slots_read(
        SLICE(
            "[{\"id\":0,\"id_task\":135,\"n_ctx\":65536,\"is_processing\":true,"
            "\"params\":{\"n_ctx\":1,\"is_processing\":true,\"samplers\":"
            "[\"dry\"]},\"next_token\":{\"n_decoded\":0}},"
            "{\"id\":1,\"n_ctx\":65536,\"speculative\":false,"
            "\"is_processing\":false}]"),
        &metrics);
    cr_assert_eq(metrics.kind, ENGINE_LLAMACPP);
    expect(metrics.running, 1);
    expect(metrics.capacity, 131072);
    cr_assert_not(metrics.waiting.known);
}

Test(node_engine_metrics, what_is_no_list_of_slots_says_nothing)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "[{\"iter\":1}]",
        "[{\"n_ctx\":\"many\"}]",
        "[{\"n_ctx\":4096,\"is_processing\":true}",
        "[{\"n_ctx\":4096},7]",
        "[{\"n_ctx\":-1}]",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        engine_slots_read(slice_of(bad[i]), &metrics);
        cr_assert_eq(metrics.kind, ENGINE_OTHER, "%s", bad[i]);
        cr_assert_not(metrics.running.known);
        cr_assert_not(metrics.capacity.known);
    }
}
