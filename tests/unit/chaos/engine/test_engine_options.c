#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "chaos/engine/engine_options_internal.h"
#include "tests/unit/chaos/argv_of.h"

static struct engine_options options;
static char fault[256];

static int
parse(const char *words)
{
    return engine_options_parse(&options, argv_of(words), fault, sizeof(fault));
}

Test(chaos_engine_options, defaults_are_those_of_the_manual)
{
    cr_assert_eq(parse(""), 0);
    cr_assert_eq(options.port, 8000);
    cr_assert_eq(options.block_size, 16);
    cr_assert_float_eq(options.step_per_seq_ms, 0.65, 1e-9);
    cr_assert_eq(options.models_count, 1);
    cr_assert_str_eq(options.models[0], "kvasir/stand-in");
    cr_assert_not(options.help);
}

Test(chaos_engine_options, values_come_behind_a_space_or_an_equals_sign)
{
    cr_assert_eq(parse("--port 1 --speed=2.5 --host ::1 --help"), 0);
    cr_assert_eq(options.port, 1);
    cr_assert_float_eq(options.speed, 2.5, 1e-9);
    cr_assert_str_eq(options.host, "::1");
    cr_assert(options.help);
}

Test(chaos_engine_options, events_are_kept_only_for_who_publishes_them)
{
    cr_assert_eq(parse(""), 0);
    cr_assert_not(engine_options_config(&options).events);
    cr_assert_null(options.events);
    cr_assert_eq(options.buffer_steps, 10000);
    cr_assert_eq(options.replay_frames, 4);
    cr_assert_eq(options.event_encoding, 0);
    cr_assert_eq(parse("--events 0"), 0);
    cr_assert(engine_options_config(&options).events);
    cr_assert_eq(parse("--replay tcp://127.0.0.1:5557"), 0);
    cr_assert(engine_options_config(&options).events);
}

Test(chaos_engine_options, a_choice_is_one_of_its_words)
{
    cr_assert_eq(parse("--event-encoding array --event-hashes=bytes"), 0);
    cr_assert_eq(options.event_encoding, 1);
    cr_assert_eq(options.event_hashes, 1);
    cr_assert_neq(parse("--event-encoding arr"), 0);
    cr_assert_str_eq(fault,
                     "--event-encoding: expected map|array, not \"arr\"");
    cr_assert_neq(parse("--event-encoding arrays"), 0);
    cr_assert_neq(parse("--event-encoding="), 0);
    cr_assert_neq(parse("--event-hashes map|array"), 0);
}

Test(chaos_engine_options, what_the_flags_leave_open_is_the_engines)
{
    static const struct {
        const char *words;
        uint64_t block_size;
        uint64_t running_max;
        uint64_t replay_frames;
        enum engine_events_encoding encoding;
        enum engine_cache cache;
    } makes[] = {
        {"--engine vllm", 16, 128, 4, ENGINE_EVENTS_MAP, ENGINE_CACHE_BLOCKS},
        {"--engine sglang --event-encoding array", 16, 128, 4,
         ENGINE_EVENTS_SGLANG_ARRAY, ENGINE_CACHE_RADIX},
        {"--engine sglang --replay-frames 3", 16, 128, 3,
         ENGINE_EVENTS_SGLANG_MAP, ENGINE_CACHE_RADIX},
        {"--engine trtllm", 32, 128, 4, ENGINE_EVENTS_TRTLLM,
         ENGINE_CACHE_TREE},
        {"--engine trtllm --block-size 64", 64, 128, 4, ENGINE_EVENTS_TRTLLM,
         ENGINE_CACHE_TREE},
        {"--engine llamacpp", 16, 4, 0, ENGINE_EVENTS_MAP, ENGINE_CACHE_SLOTS},
        {"--engine llamacpp --max-running 9", 16, 9, 0, ENGINE_EVENTS_MAP,
         ENGINE_CACHE_SLOTS},
    };

    for (size_t i = 0; i < sizeof(makes) / sizeof(makes[0]); i++) {
        cr_assert_eq(parse(makes[i].words), 0, "%s", fault);
        cr_assert_eq(options.block_size, makes[i].block_size);
        cr_assert_eq(options.running_max, makes[i].running_max);
        cr_assert_eq(options.replay_frames, makes[i].replay_frames);
        cr_assert_eq(options.event_encoding, makes[i].encoding);
        cr_assert_eq(engine_options_config(&options).cache, makes[i].cache);
    }
    cr_assert_eq(parse("--engine llamacpp --events 0"), FLAGS_E_BAD);
    cr_assert_str_eq(fault, "--events: this engine publishes no events");
    cr_assert_eq(parse("--engine tgi --replay 0"), FLAGS_E_BAD);
}

Test(chaos_engine_options, models_add_up_and_replace_the_default)
{
    cr_assert_eq(parse("--model a --model=b"), 0);
    cr_assert_eq(options.models_count, 2);
    cr_assert_str_eq(options.models[0], "a");
    cr_assert_str_eq(options.models[1], "b");
}

Test(chaos_engine_options, what_it_does_not_know_it_names)
{
    static const char *const bad[] = {
        "--nope",           "--por 1",     "port",       "--port 65536",
        "--port -1",        "--port 1.5",  "--port x",   "--port 1x",
        "--speed 0",        "--speed nan", "--blocks 0", "--host localhost",
        "--model a\"b",     "--name=",     "--port",     "--speed inf",
        "--step-ms 1e9999", "--help=yes",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(parse(bad[i]), FLAGS_E_BAD, "%s", bad[i]);
        cr_assert_null(strchr(fault, '\n'));
        size_t len = strcspn(bad[i], " =");
        cr_assert_eq(strncmp(strstr(fault, bad[i][0] == '-' ? "--" : "port"),
                             bad[i], len),
                     0, "%s: %s", bad[i], fault);
    }
}

Test(chaos_engine_options, a_request_must_fit_the_pool)
{
    cr_assert_eq(parse("--blocks 100"), 0);
    cr_assert_eq(engine_options_config(&options).request_tokens_max, 1600);
    cr_assert_eq(parse(""), 0);
    cr_assert_eq(engine_options_config(&options).request_tokens_max, 32768);
    cr_assert_eq(parse("--max-model-len 4096"), 0);
    cr_assert_eq(engine_options_config(&options).request_tokens_max, 4096);
    cr_assert_eq(engine_options_config(&options).step_per_seq_us, 650);
}

Test(chaos_engine_options, windows_take_their_share_of_the_length)
{
    cr_assert_eq(parse("--blocks 200 --window 40 --window-groups 2"), 0);
    cr_assert_eq(engine_options_config(&options).request_tokens_max, 1056);
    cr_assert_eq(parse("--blocks 200 --window-groups 2"), 0);
    cr_assert_eq(engine_options_config(&options).request_tokens_max, 3200);
}

Test(chaos_engine_options, the_manual_has_every_flag_and_its_default)
{
    struct buf out;

    buf_init(&out, 65536);
    engine_options_help(&out);
    buf_add(&out, "", 1);
    cr_assert_not(out.failed);
    cr_assert_not_null(strstr(out.ptr, "--prefill-tps N"));
    cr_assert_not_null(strstr(out.ptr, "(0.65)"));
    buf_fini(&out);
}
