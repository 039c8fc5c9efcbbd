/* What `kvasir doctor` says of a worker. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "node/cli/doctor_internal.h"

static struct config_worker worker;
static struct doctor_found found;
static char page[4096];

/* An engine that lacks nothing. */
static void
make_whole(void)
{
    struct config_errors errors;

    config_errors_init(&errors);
    cr_assert_eq(
        config_parse_worker(SLICE("http://gpu:8000,events=tcp://gpu:5557,"
                                  "replay=tcp://gpu:5657"),
                            "test", &worker, &errors),
        0);
    config_errors_fini(&errors);
    found = (struct doctor_found){
        .worker = &worker,
        .health_path = "/health",
        .health = {.asked = true, .status = 200},
        .models = {.asked = true, .status = 200},
        .metrics = {.asked = true, .status = 200},
        .generation = {.asked = true, .status = 200},
        .renderer = {.asked = true, .status = 200},
        .kind = ENGINE_VLLM,
        .models_count = 1,
        .model = "m",
        .load = {.running.known = true,
                 .waiting.known = true,
                 .kv_usage.known = true},
        .usage = {.prompt_tokens = 70,
                  .cached_tokens = 64,
                  .cached_known = true},
        .events = {.replied = true,
                   .state = KV_STREAM_LIVE,
                   .messages = 1,
                   .blocks = 4,
                   .block_tokens = 16},
    };
}

static uint32_t
said(void)
{
    struct buf out;

    buf_init(&out, sizeof page - 1);
    uint32_t missing = doctor_say(&found, &out);
    cr_assert(!out.failed);
    (void)snprintf(page, sizeof page, "%.*s", (int)out.len, out.ptr);
    buf_fini(&out);
    return missing;
}

static void
expect_missing(const char *line, const char *hint)
{
    cr_expect_eq(said(), 1, "%s", page);
    cr_expect(strstr(page, line) != NULL, "%s is not in\n%s", line, page);
    cr_expect(strstr(page, hint) != NULL, "%s is not in\n%s", hint, page);
}

TestSuite(doctor, .init = make_whole);

Test(doctor, nothing_is_missing)
{
    cr_assert_eq(said(), 0, "%s", page);
    cr_assert(strncmp(page, "http://gpu:8000  vllm\n", 22) == 0, "%s", page);
    cr_assert(strstr(page, "64 of 70 tokens") != NULL, "%s", page);
    cr_assert(strstr(page, "4 blocks of 16 tokens") != NULL, "%s", page);
    cr_assert(strstr(page, "MISSING") == NULL, "%s", page);
}

Test(doctor, each_gap_comes_with_the_way_to_close_it)
{
    found.usage.cached_known = false;
    expect_missing("MISSING  usage", "--enable-prompt-tokens-details");
    found.kind = ENGINE_SGLANG;
    expect_missing("MISSING  usage", "--enable-cache-report");

    make_whole();
    found.renderer.status = 403;
    expect_missing("nobody tells", "--enable-scale-out");
    found.tokenizer = (struct doctor_answer){.asked = true, .status = 200};
    expect_missing("/tokenize, which is not exact", "tokens.dir");

    make_whole();
    found.load = (struct engine_metrics){.running.known = false};
    found.kind = ENGINE_SGLANG;
    expect_missing("MISSING  metrics", "--enable-metrics");

    make_whole();
    found.generation.status = 401;
    expect_missing("the answer is 401", "api_key=KEY");

    make_whole();
    found.events.unruled = true;
    expect_missing("MISSING  events", "placed by text");

    make_whole();
    found.events.replied = false;
    expect_missing("MISSING  replay   no answer", "replay_endpoint");
    worker.replay.host[0] = '\0';
    expect_missing("lost for good", "replay=tcp://");
}

Test(doctor, silent_events_are_told_from_wrong_ones)
{
    found.events.blocks = 0;
    found.events.messages = 0;
    expect_missing("none came", "enable_kv_cache_events");
    found.events.state = KV_STREAM_CONNECTING;
    expect_missing("no connection", "publisher");
    found.events.state = KV_STREAM_LIVE;
    found.events.messages = 3;
    found.events.dropped = 2;
    expect_missing("3 messages, 2 events in them said nothing",
                   "kvasir_events");
    (void)snprintf(found.events.denied, sizeof found.events.denied,
                   "gpu: the name has no address");
    expect_missing("gpu: the name has no address", "MISSING  events");
}

Test(doctor, engines_without_events_lack_none)
{
    worker.events.host[0] = '\0';
    worker.replay.host[0] = '\0';
    expect_missing("its cache is guessed", "--kv-events-config");
    found.kind = ENGINE_LLAMACPP;
    found.usage.cached_known = false;
    found.renderer.status = 404;
    cr_assert_eq(said(), 0, "%s", page);
}

Test(doctor, files_make_the_renderer_unnecessary)
{
    found.renderer = (struct doctor_answer){.asked = false};
    found.files = "/models/m";
    cr_assert_eq(said(), 0, "%s", page);
    cr_assert(strstr(page, "made here, by /models/m") != NULL, "%s", page);
}

Test(doctor, who_does_not_answer_is_asked_no_more)
{
    found = (struct doctor_found){
        .worker = &worker,
        .health_path = "/health",
        .health = {.asked = true, .failure = "connection refused"}};
    expect_missing("no answer (connection refused)", "is the engine up");
    cr_assert(strstr(page, "models") == NULL, "%s", page);
}

Test(doctor, health_may_be_told_by_the_models)
{
    found.health.status = 404;
    cr_assert_eq(said(), 0, "%s", page);
    found.models.status = 404;
    found.models_count = 0;
    cr_assert_eq(said(), 2, "%s", page);
}
