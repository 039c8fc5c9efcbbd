#include <criterion/criterion.h>
#include <stdio.h>

#include "index/index.h"
#include "node/elect/elect.h"
#include "tests/unit/node/config/config_rig.h"

TestSuite(node_config, .init = setup, .fini = teardown);

Test(node_config, defaults_are_those_of_the_design)
{
    cr_assert_str_eq(config.name, "");
    cr_assert_str_eq(config.listen.host, "0.0.0.0");
    cr_assert_eq(config.listen.port, 8080);
    cr_assert_str_eq(config.admin.host, "127.0.0.1");
    cr_assert_eq(config.admin.port, 9080);
    cr_assert_eq(config.lanes, 0);
    cr_assert_eq(config.policy.name, ELECT_KVASIR);
    cr_assert_eq(config.policy.cache_threshold_permille, 50);
    cr_assert_eq(config.policy.balance_abs, 64);
    cr_assert_eq(config.policy.balance_rel_permille, 1500);
    cr_assert_eq(config.policy.kv_pressure_max_permille, 1000);
    cr_assert_eq(config.belief.block_bytes, 128);
    cr_assert_eq(config.belief.bytes_max, 512U << 20);
    cr_assert_eq(config.belief.eviction, RADIX_LRU);
    cr_assert_eq(config.limits.body_bytes_max, 64U << 20);
    cr_assert_eq(config.limits.buffered_bytes_max, 1U << 30);
    cr_assert_eq(config.timeouts.first_byte_ms, 300000);
    cr_assert_eq(config.health.interval_ms, 2000);
    cr_assert_str_eq(config.health.path, "/health");
    cr_assert_eq(config.breaker.open_max_ms, 60000);
    cr_assert_eq(config.log.level, LOG_LEVEL_INFO);
    cr_assert_eq(config.workers_count, 0);
}

Test(node_config, what_is_printed_reads_back_the_same)
{
    struct buf printed;
    struct buf again;
    struct config second;

    buf_init(&printed, 65536);
    buf_init(&again, 65536);
    config_print(&config, &printed);
    config_init(&second);
    config_apply_yaml(&second, "printed", buf_slice(&printed), &errors);
    config_print(&second, &again);
    cr_assert_eq(errors.count, 0, "%s", told());
    cr_assert(slice_equal(buf_slice(&printed), buf_slice(&again)));
    config_fini(&second);
    buf_fini(&printed);
    buf_fini(&again);
}

Test(node_config, a_file_sets_what_it_names_and_nothing_else)
{
    config_apply_yaml(&config, "f",
                      SLICE("name: node-1\n"
                            "listen: '[::1]:0'\n"
                            "policy: {name: round_robin, balance_rel: 2.25}\n"
                            "limits:\n"
                            "  body_bytes_max: 8MiB\n"
                            "  head_bytes_max: 4096\n"
                            "timeouts:\n"
                            "  head: 250ms\n"
                            "  drain: 0\n"
                            "health:\n"
                            "workers:\n"
                            "  - url: http://gpu-1:8000/v\n"
                            "    events: tcp://gpu-1:5557\n"
                            "    blocks_max: 5000\n"
                            "    api_key: s3cret\n"
                            "  - http://gpu-2:8000,island=eu,id=second\n"),
                      &errors);
    cr_assert_eq(errors.count, 0, "%s", told());
    cr_assert_str_eq(config.name, "node-1");
    cr_assert_str_eq(config.listen.host, "::1");
    cr_assert_eq(config.listen.port, 0);
    cr_assert_eq(config.policy.name, ELECT_ROUND_ROBIN);
    cr_assert_eq(config.policy.balance_rel_permille, 2250);
    cr_assert_eq(config.policy.balance_abs, 64);
    cr_assert_eq(config.limits.body_bytes_max, 8U << 20);
    cr_assert_eq(config.limits.head_bytes_max, 4096);
    cr_assert_eq(config.timeouts.head_ms, 250);
    cr_assert_eq(config.timeouts.drain_ms, 0);
    cr_assert_eq(config.workers_count, 2);
    cr_assert_str_eq(config.workers[0].id, "gpu-1:8000");
    cr_assert_str_eq(config.workers[0].url.path, "/v");
    cr_assert_eq(config.workers[0].events.port, 5557);
    cr_assert_str_eq(config.workers[0].replay.host, "");
    cr_assert_eq(config.workers[0].blocks_max, 5000);
    cr_assert_str_eq(config.workers[0].api_key, "s3cret");
    cr_assert_str_eq(config.workers[1].id, "second");
    cr_assert_str_eq(config.workers[1].island, "eu");
}

Test(node_config, an_empty_file_is_the_defaults)
{
    config_apply_yaml(&config, "f", SLICE(""), &errors);
    config_apply_yaml(&config, "f", SLICE("# nothing\n---\n"), &errors);
    cr_assert_eq(errors.count, 0, "%s", told());
}

Test(node_config, later_sources_win)
{
    static char log_level[] = "KVASIR_LOG_LEVEL=warning";
    static char head[] = "KVASIR_TIMEOUTS_HEAD=2s";
    static char empty[] = "KVASIR_TIMEOUTS_BODY=";
    static char workers[] = "KVASIR_WORKERS= http://c:1\thttp://d:1,pool=x ";
    char *const environment[] = {log_level, head, empty, workers, NULL};
    const struct config_flag flags[] = {{"timeouts.head", "3s"},
                                        {"policy", "random"},
                                        {"worker", "http://e:1"},
                                        {"worker", "http://f:1"}};

    config_apply_yaml(&config, "f",
                      SLICE("log: {level: debug, format: json}\n"
                            "timeouts: {head: 1s, body: 5s}\n"
                            "workers: ['http://a:1', 'http://b:1']\n"),
                      &errors);
    cr_assert_eq(config.workers_count, 2);
    config_apply_environment(&config, environment, &errors);
    cr_assert_eq(errors.count, 0, "%s", told());
    cr_assert_eq(config.log.level, LOG_LEVEL_WARNING);
    cr_assert_eq(config.log.format, LOG_FORMAT_JSON);
    cr_assert_eq(config.timeouts.head_ms, 2000);
    cr_assert_eq(config.timeouts.body_ms, 5000);
    cr_assert_eq(config.workers_count, 2);
    cr_assert_str_eq(config.workers[1].id, "d:1");
    cr_assert_str_eq(config.workers[1].pool, "x");
    config_apply_flags(&config, flags, 4, &errors);
    cr_assert_eq(errors.count, 0, "%s", told());
    cr_assert_eq(config.timeouts.head_ms, 3000);
    cr_assert_eq(config.policy.name, ELECT_RANDOM);
    cr_assert_eq(config.workers_count, 2);
    cr_assert_str_eq(config.workers[0].id, "e:1");
    cr_assert_str_eq(config.workers[1].id, "f:1");
}

Test(node_config, the_environment_is_strict_only_under_our_sections)
{
    static char kubernetes[] = "KVASIR_SERVICE_HOST=10.0.0.1";
    static char port[] = "KVASIR_PORT=tcp://10.0.0.1:80";
    static char typo[] = "KVASIR_TIMEOUTS_HAED=1s";
    static char bad[] = "KVASIR_LANES=many";
    static char odd[] = "NOT_AN_ASSIGNMENT";
    char *const environment[] = {kubernetes, port, typo, bad, odd, NULL};

    config_apply_environment(&config, environment, &errors);
    cr_assert_str_eq(told(),
                     "KVASIR_TIMEOUTS_HAED: no key has this name\n"
                     "KVASIR_LANES: lanes: expected a number from 0 to 64, "
                     "not \"many\"\n");
}

Test(node_config, a_variable_that_is_called_as_a_flag_is_told_its_name)
{
    static char policy[] = "KVASIR_POLICY=random";
    static char join[] = "KVASIR_JOIN=10.0.0.1:7946";
    static char worker[] = "KVASIR_WORKER=http://a:1";
    static char headers[] = "KVASIR_PLACEMENT_HEADERS=on"; /* a key */
    char *const environment[] = {policy, join, worker, headers, NULL};

    config_apply_environment(&config, environment, &errors);
    cr_assert_str_eq(
        told(),
        "KVASIR_POLICY: no key has this name, did you mean "
        "KVASIR_POLICY_NAME?\n"
        "KVASIR_JOIN: no key has this name, did you mean KVASIR_MESH_JOIN?\n"
        "KVASIR_WORKER: no key has this name, did you mean "
        "KVASIR_WORKERS?\n");
}

Test(node_config, a_v1_at_the_end_of_a_workers_url_is_left_out)
{
    struct config_worker worker;

    cr_assert_eq(config_parse_worker(SLICE("http://gpu:8000/v1/"), "--worker",
                                     &worker, &errors),
                 0);
    cr_assert_str_eq(worker.url.path, "");
    cr_assert_eq(config_parse_worker(SLICE("http://gpu:8000//v1/v1"),
                                     "--worker", &worker, &errors),
                 0);
    cr_assert_str_eq(worker.url.path, "");
    cr_assert_eq(config_parse_worker(SLICE("http://gpu:8000/base/v1"),
                                     "--worker", &worker, &errors),
                 0);
    cr_assert_str_eq(worker.url.path, "/base");
    cr_assert_eq(config_parse_worker(SLICE("http://gpu:8000/av1"), "--worker",
                                     &worker, &errors),
                 0);
    cr_assert_str_eq(worker.url.path, "/av1");
}

Test(node_config, replay_without_events_is_a_fault)
{
    struct config_worker worker;

    cr_assert_eq(config_parse_worker(SLICE("http://gpu:1,replay=tcp://gpu:2"),
                                     "--worker", &worker, &errors),
                 CONFIG_E_INVALID);
    cr_assert_str_eq(told(),
                     "--worker: replay repeats events: a worker with replay "
                     "needs events, tcp://HOST:PORT\n");
}

Test(node_config, the_elections_defaults_are_the_configurations)
{
    struct elect_config elect = ELECT_CONFIG_DEFAULT;

    cr_assert_eq(config.policy.name, elect.policy);
    cr_assert_eq(config.policy.cache_threshold_permille,
                 elect.cache_threshold_permille);
    cr_assert_eq(config.policy.balance_abs, elect.balance_abs);
    cr_assert_eq(config.policy.balance_rel_permille,
                 elect.balance_rel_permille);
    cr_assert_eq(config.policy.kv_pressure_max_permille,
                 elect.kv_pressure_max_permille);
    cr_assert_eq(config.policy.recompute_weight, elect.recompute_weight);
    cr_assert_eq(config.policy.temperature_permille,
                 elect.temperature_permille);
}

Test(node_config, a_worker_flag_is_a_url_and_labels)
{
    struct config_worker worker;

    cr_assert_eq(config_parse_worker(
                     SLICE("http://gpu:8000,events=tcp://gpu:5557,"
                           "replay=tcp://gpu:5558,id=w,island=eu,pool=long,"
                           "role=decode,api_key=a=b,blocks_max=77"),
                     "--worker", &worker, &errors),
                 0, "%s", told());
    cr_assert_eq(worker.url.port, 8000);
    cr_assert_eq(worker.events.port, 5557);
    cr_assert_eq(worker.replay.port, 5558);
    cr_assert_str_eq(worker.id, "w");
    cr_assert_str_eq(worker.island, "eu");
    cr_assert_str_eq(worker.pool, "long");
    cr_assert_eq(worker.role, CONFIG_ROLE_DECODE);
    cr_assert_eq(worker.bootstrap_port, CONFIG_BOOTSTRAP_PORT);
    cr_assert_str_eq(worker.api_key, "a=b");
    cr_assert_eq(worker.blocks_max, 77);
}

struct bad_worker {
    const char *text;
    const char *error;
};

static const struct bad_worker bad_workers[] = {
    {"", "--worker: url: expected http://HOST:PORT or https://HOST:PORT, not "
         "\"\"\n"},
    {"gpu:8000",
     "--worker: url: expected http://HOST:PORT or https://HOST:PORT, not "
     "\"gpu:8000\"\n"},
    {"http://gpu,evnts=tcp://gpu:1",
     "--worker: unknown key \"evnts\", did you mean events?\n"},
    {"http://gpu,island", "--worker: expected KEY=VALUE, not \"island\"\n"},
    {"http://gpu,", ""},
    {"http://gpu,,", "--worker: expected KEY=VALUE, not \"\"\n"},
    {"http://gpu,pool=a,pool=b", "--worker: pool appears twice\n"},
    {"http://gpu,url=http://b", "--worker: url appears twice\n"},
    {"http://gpu,events=tcp://gpu",
     "--worker: events: expected tcp://HOST:PORT, nats://HOST:PORT/NAME or "
     "tls://HOST:PORT/NAME, not \"tcp://gpu\"\n"},
    {"http://gpu:8000,events=http://gpu:8000/kv_cache_events",
     "--worker: events: /kv_cache_events tells each event once, to whoever "
     "asks "
     "first, so nodes would take them from each other; the engine's ZeroMQ "
     "stream, events=tcp://HOST:PORT, tells all\n"},
    {"http://gpu,events=nats://n/kv.a,replay=nats://n/KV", ""},
    {"http://gpu,events=tls://n/kv.a,replay=tls://n/KV", ""},
    {"http://gpu,events=nats://n/kv.a,replay=tcp://gpu:5657",
     "--worker: events and replay are both tcp://, both nats:// or both "
     "tls://\n"},
    {"http://gpu,events=tcp://gpu:5557,replay=nats://n/KV",
     "--worker: events and replay are both tcp://, both nats:// or both "
     "tls://\n"},
    {"http://gpu,events=tls://n/kv.a,replay=nats://n/KV",
     "--worker: events and replay are both tcp://, both nats:// or both "
     "tls://\n"},
    {"http://gpu,events=nats://n/kv.a,topic=t",
     "--worker: topic is of ZeroMQ: events by NATS have a subject\n"},
    {"dns:engines:8000,events=nats://n/kv.a",
     "--worker: beside from, events and replay are tcp://*:PORT: the host is "
     "each worker's\n"},
    {"http://gpu:8000,sse=http://gpu:8000/kv_cache_events",
     "--worker: sse: /kv_cache_events tells each event once, to whoever asks "
     "first, so nodes would take them from each other; the engine's ZeroMQ "
     "stream, events=tcp://HOST:PORT, tells all\n"},
    {"http://gpu,pool=a b",
     "--worker: pool: expected at most 63 letters, digits and ._:@-[], not "
     "\"a b\"\n"},
    {"http://gpu,id=", "--worker: id: expected at most 63 letters, digits and "
                       "._:@-[], not \"\"\n"},
    {"http://gpu,api_key=se cret",
     "--worker: api_key: expected at most 255 printable characters without "
     "spaces, not this\n"},
    {"http://gpu,from=dns:gpu:80",
     "--worker: a worker has a url or a from, not both\n"},
    {"http://gpu,events=tcp://*:5557",
     "--worker: tcp://*:PORT is for workers with a from: this one has a host, "
     "tcp://HOST:PORT\n"},
    {"dns:engines:8000,events=tcp://*:5557,replay=tcp://*:5657,pool=p", ""},
    {"srv:_http._tcp.engines.test,ranks=4", ""},
    {"dns:engines:8000,events=tcp://gpu:5557",
     "--worker: beside from, events and replay are tcp://*:PORT: the host is "
     "each worker's\n"},
    {"dns:engines:8000,events=tcp://*:0",
     "--worker: events: expected tcp://HOST:PORT, not \"tcp://*:0\"\n"},
    {"dns:engines:8000,sse=http://gpu:9/x",
     "--worker: sse: each worker has its own, so it cannot stand beside "
     "from\n"},
    {"dns:10.0.0.1:8000",
     "--worker: from: expected dns:NAME:PORT, srv:NAME, file:/PATH or "
     "kube:[NAMESPACE:]LABEL=VALUE:PORT, a name and no address, not "
     "\"dns:10.0.0.1:8000\"\n"},
    {"dns:engines",
     "--worker: from: expected dns:NAME:PORT, srv:NAME, file:/PATH or "
     "kube:[NAMESPACE:]LABEL=VALUE:PORT, a name and no address, not "
     "\"dns:engines\"\n"},
    {"file:workers.yaml",
     "--worker: from: expected dns:NAME:PORT, srv:NAME, file:/PATH or "
     "kube:[NAMESPACE:]LABEL=VALUE:PORT, a name and no address, not "
     "\"file:workers.yaml\"\n"},
    {"kube:app=vllm:8000,events=tcp://*:5557,replay=tcp://*:5657", ""},
    {"kube:ml:kubernetes.io/service-name=vllm+tier=1:http,role=decode", ""},
    {"kube:app:8000",
     "--worker: from: expected dns:NAME:PORT, srv:NAME, file:/PATH or "
     "kube:[NAMESPACE:]LABEL=VALUE:PORT, a name and no address, not "
     "\"kube:app:8000\"\n"},
    {"file:/etc/workers.yaml,pool=p",
     "--worker: pool: the file says it, of each worker\n"},
    {"http://gpu,blocks_max=-1",
     "--worker: blocks_max: expected a number from 0 to 1000000000, not "
     "\"-1\"\n"},
};

Test(node_config, bad_worker_flags_are_told_exactly)
{
    for (size_t i = 0; i < sizeof bad_workers / sizeof bad_workers[0]; i++) {
        struct config_worker worker;
        buf_clear(&errors.text);
        int rc = config_parse_worker(slice_of(bad_workers[i].text), "--worker",
                                     &worker, &errors);
        cr_assert_str_eq(told(), bad_workers[i].error);
        cr_assert_eq(rc != 0, bad_workers[i].error[0] != '\0');
    }
}

static bool
reads_kube(const char *from, struct config_kube *kube)
{
    struct config_worker worker = {.ranks = 1};

    (void)snprintf(worker.from, sizeof worker.from, "%s", from);
    cr_assert_eq(config_from(&worker, NULL, NULL) == CONFIG_FROM_KUBE,
                 config_from_kube(&worker, kube));
    return config_from_kube(&worker, kube);
}

Test(node_config, slices_are_named_by_labels_and_a_port)
{
    static const char *const bad[] = {"kube:",           "kube:a=b",
                                      "kube:a=b:",       "kube:a=b:0",
                                      "kube:a=b:65536",  "kube:a=b:80x",
                                      "kube:a:80",       "kube:=b:80",
                                      "kube:a=:80",      "kube:a=b+:80",
                                      "kube:a=b+c:80",   "kube:a=b=c:80",
                                      "kube:a=b&x=y:80", "kube:n:a=b:80:1",
                                      "kube:n/s:a=b:80", "kube::a=b:80"};
    struct config_kube kube;

    cr_assert(reads_kube("kube:app.io/name=x_1+tier=gpu:65535", &kube));
    cr_assert_str_eq(kube.space, "");
    cr_assert_str_eq(kube.labels, "app.io/name=x_1,tier=gpu");
    cr_assert_str_eq(kube.port, "65535");
    cr_assert(reads_kube("kube:ml:a=b:http-api", &kube));
    cr_assert_str_eq(kube.space, "ml");
    cr_assert_str_eq(kube.port, "http-api");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_not(reads_kube(bad[i], &kube), "%s", bad[i]);
    }
}

Test(node_config, what_names_workers_is_printed_so_that_it_is_read_again)
{
    struct config_worker worker = {.ranks = 1};
    struct discover_join join;
    const char *path;
    struct buf out;

    config_apply_yaml(&config, "f",
                      SLICE("workers:\n"
                            "- {from: 'dns:Engines.test:8000', role: decode, "
                            "events: 'tcp://*:5557', ranks: 4}\n"
                            "- file:/etc/kvasir/workers.yaml\n"),
                      &errors);
    cr_assert_str_eq(told(), "");
    cr_assert_eq(config_from(&config.workers[0], &join, NULL), CONFIG_FROM_DNS);
    cr_assert_str_eq(join.name, "engines.test");
    cr_assert_eq(join.port, 8000);
    cr_assert_eq(config_from(&config.workers[1], NULL, &path),
                 CONFIG_FROM_FILE);
    cr_assert_str_eq(path, "/etc/kvasir/workers.yaml");
    cr_assert_eq(config_from(&worker, &join, &path), CONFIG_FROM_NONE);
    buf_init(&out, 65536);
    config_print(&config, &out);
    buf_add(&out, "", 1);
    cr_assert_not_null(strstr(out.ptr, "  - events: \"tcp://*:5557\"\n"));
    cr_assert_not_null(
        strstr(out.ptr, "  - id: \"file:_etc_kvasir_workers.yaml\"\n"), "%s",
        out.ptr);
    config_apply_yaml(&config, "f", slice_of(out.ptr), &errors);
    cr_assert_str_eq(told(), "");
    cr_assert_eq(config.workers_count, 2);
    buf_fini(&out);
}

Test(node_config, long_names_of_workers_have_ids_of_their_own)
{
    char text[2][160];
    struct config_worker worker[2];

    for (size_t i = 0; i < 2; i++) {
        (void)snprintf(text[i], sizeof text[i],
                       "srv:_http._tcp.a-name-that-is-longer-than-any-id-may-"
                       "be.namespace-%zu.svc.cluster.local",
                       i);
        cr_assert_eq(
            config_parse_worker(slice_of(text[i]), "-", &worker[i], &errors),
            0);
        cr_assert_eq(strlen(worker[i].id), CONFIG_LABEL_MAX - 1);
    }
    cr_assert_str_neq(worker[0].id, worker[1].id);
}

Test(node_config, a_name_of_workers_stands_once)
{
    config_apply_yaml(&config, "f",
                      SLICE("workers:\n- dns:a:1,id=x\n- dns:a:1,id=y\n"),
                      &errors);
    cr_assert_str_eq(told(), "f:3:3: dns:a:1 appears twice\n");
}

Test(node_config, a_long_host_name_needs_an_id)
{
    char text[128] = "http://";
    struct config_worker worker;

    memset(text + 7, 'a', CONFIG_LABEL_MAX);
    cr_assert_eq(config_parse_worker(slice_of(text), "-", &worker, &errors),
                 CONFIG_E_INVALID);
    memcpy(text + 7 + CONFIG_LABEL_MAX, ",id=x", 6);
    cr_assert_eq(config_parse_worker(slice_of(text), "-", &worker, &errors), 0);
}

Test(node_config, repeated_and_too_many_workers_are_refused)
{
    struct buf yaml;
    char last[160];

    config_apply_yaml(&config, "f",
                      SLICE("workers:\n- http://a:1,id=x\n- http://b:1,id=x\n"
                            "- http://a:1,id=y\n- http://a:1/v,id=z\n"),
                      &errors);
    cr_assert_str_eq(told(), "f:3:3: two workers have the id x\n"
                             "f:4:3: two workers have the url http://a:1\n");
    buf_init(&yaml, 65536);
    buf_clear(&errors.text);
    buf_add_text(&yaml, "workers:\n");
    for (unsigned i = 0; i <= CONFIG_WORKERS_MAX; i++) {
        buf_printf(&yaml, "- http://gpu-%u:8000\n", i);
    }
    config_apply_yaml(&config, "f", buf_slice(&yaml), &errors);
    cr_assert_eq(config.workers_count, CONFIG_WORKERS_MAX);
    (void)snprintf(last, sizeof last, "f:%u:3: more than %u workers\n",
                   CONFIG_WORKERS_MAX + 2, CONFIG_WORKERS_MAX);
    cr_assert_str_eq(told(), last);
    buf_fini(&yaml);
}

Test(node_config, there_are_slots_for_all_workers)
{
    struct config_flag flags[4] = {{"worker", "http://a:1"},
                                   {"worker", "http://b:1"},
                                   {"scale.max", "1"},
                                   {"workers.slots", "2"}};

    config_apply_flags(&config, flags, 4, &errors);
    config_check(&config, &errors);
    cr_assert_str_eq(told(), "");
    flags[3].value = "1";
    config_apply_flags(&config, flags + 3, 1, &errors);
    config_check(&config, &errors);
    cr_assert_str_eq(told(), "workers.slots: 1 are too few for 2 workers\n");
    buf_clear(&errors.text);
    flags[2].value = "3";
    flags[3].value = "2";
    config_apply_flags(&config, flags + 2, 2, &errors);
    config_check(&config, &errors);
    cr_assert_str_eq(told(), "scale.max: 3 is over workers.slots, 2\n");
}

Test(node_config, bounds_across_keys_are_checked)
{
    const struct config_flag flags[] = {
        {"limits.target_bytes_max", "16KiB"}, {"limits.head_bytes_max", "8KiB"},
        {"health.timeout", "2500ms"},         {"breaker.open", "2m"},
        {"listen", "127.0.0.1:9080"},         {"limits.body_bytes_max", "2GiB"},
    };

    config_apply_flags(&config, flags, 6, &errors);
    config_check(&config, &errors);
    cr_assert_str_eq(
        told(),
        "limits.buffered_bytes_max: has no room for one body of "
        "limits.body_bytes_max: expected 6291456KiB or more, or a smaller "
        "body\n"
        "limits.target_bytes_max: 16KiB is over limits.head_bytes_max, 8KiB\n"
        "health.timeout: 2500ms is over health.interval, 2s\n"
        "breaker.open: 2m is over breaker.open_max, 1m\n"
        "admin: the same address as listen\n");
}

Test(node_config, a_body_must_fit_the_buffers_that_it_grows_through)
{
    const struct config_flag flags[] = {
        {"limits.body_bytes_max", "1MiB"},
        {"limits.buffered_bytes_max", "3MiB"},
        {"limits.client_bytes_max", "3MiB"},
        {"limits.client_bytes_max", "3071KiB"},
    };

    config_apply_flags(&config, flags, 3, &errors);
    config_check(&config, &errors);
    cr_assert_str_eq(told(), "");
    config_apply_flags(&config, flags, 4, &errors);
    config_check(&config, &errors);
    cr_assert_str_eq(told(), "limits.client_bytes_max: has no room for one "
                             "body of limits.body_bytes_max: expected 3072KiB "
                             "or more, or a smaller body\n");
}

Test(node_config, common_spellings_are_taken)
{
    const struct config_flag flags[] = {
        {"limits.body_bytes_max", "8MB"},
        {"limits.buffered_bytes_max", "2GB"},
        {"limits.head_bytes_max", "20kB"},
        {"listen", ":8081"},
        {"log.level", "warn"},
        {"placement_headers", "true"},
        {"usage.ask", "false"},
        {"retries.streams", "false"},
        {"admin.insecure", "on"},
        {"log.requests", "false"},
    };

    config.log.requests = 1;
    config_apply_flags(&config, flags, sizeof flags / sizeof *flags, &errors);
    cr_assert_str_eq(told(), "");
    cr_assert(config.placement_headers && config.admin_access.insecure);
    cr_assert_eq(config.usage.ask, 0);
    cr_assert_eq(config.retries.streams, 0);
    cr_assert_eq(config.log.requests, 0);
    cr_assert_eq(config.limits.body_bytes_max, 8000000);
    cr_assert_eq(config.limits.buffered_bytes_max, 2000000000);
    cr_assert_eq(config.limits.head_bytes_max, 20000);
    cr_assert_str_eq(config.listen.host, "0.0.0.0");
    cr_assert_eq(config.listen.port, 8081);
    cr_assert_eq(config.log.level, LOG_LEVEL_WARNING);
    config_apply_flags(&config,
                       &(struct config_flag){"limits.body_bytes_max", "8Mb"}, 1,
                       &errors);
    cr_assert_neq(errors.count, 0);
}

Test(node_config, loading_fills_in_what_the_machine_knows)
{
    const struct config_sources sources = {.file = NULL};

    config_fini(&config);
    cr_assert_eq(config_load(&sources, &config, &errors), 0);
    cr_assert_geq(config.lanes, 1);
    cr_assert_leq(config.lanes, CONFIG_LANES_MAX);
    cr_assert_neq(config.name[0], '\0');
}

Test(node_config, a_faulty_configuration_is_not_used_in_part)
{
    const struct config_flag flags[] = {
        {"log.level", "debug"}, {"worker", "http://a"}, {"lanes", "65"}};
    const struct config_sources sources = {
        .file = "/nonexistent/kvasir.yaml", .flags = flags, .flags_count = 3};

    config_fini(&config);
    cr_assert_eq(config_load(&sources, &config, &errors), CONFIG_E_INVALID);
    cr_assert_eq(config.log.level, LOG_LEVEL_INFO);
    cr_assert_eq(config.workers_count, 0);
    cr_assert_str_eq(told(),
                     "/nonexistent/kvasir.yaml: cannot be read: no such file "
                     "or directory\n"
                     "--lanes: expected a number from 0 to 64, not "
                     "\"65\"\n");
}

Test(node_config, secrets_are_not_printed)
{
    const struct config_flag flag = {"worker", "http://a:1,api_key=hush"};
    struct buf out;

    config_apply_flags(&config, &flag, 1, &errors);
    buf_init(&out, 65536);
    config_print(&config, &out);
    cr_assert_null(memmem(out.ptr, out.len, "hush", 4));
    cr_assert_not_null(
        memmem(out.ptr, out.len, "workers:\n  - url: \"http://a:1\"\n", 31));
    buf_fini(&out);
}
