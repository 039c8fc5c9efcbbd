/* `kvasir doctor`: tries each worker of a configuration, one after the other. */
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
#include <uv.h>

#include "node/base/confine.h"
#include "node/base/log.h"
#include "node/cli/cli_config_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/cli/doctor_try_internal.h"
#include "node/local/local_load.h"

#define OUT_MAX ((size_t)1 << 20)

static const char help[] =
    "usage: kvasir doctor [-c FILE] [--worker URL[,KEY=VALUE]...]... "
    "[OPTIONS]\n"
    "\n"
    "Tries each worker of a configuration as a node would, and says what is\n"
    "missing and how the engine, or the node, is told to do it: health, "
    "models,\n"
    "metrics, tokens of a prompt, cached tokens in answers, KV events and "
    "their\n"
    "replay. Each worker gets one prompt of its own, twice, for one token of\n"
    "answer. Needs no running node, and changes none.\n"
    "Exit codes: 0 nothing is missing, 1 something is, 2 bad configuration.\n"
    "\n"
    "  -c, --config FILE  the configuration file; - is stdin\n"
    "  -h, --help         this text\n"
    "  and all options of `kvasir serve`\n"
    "\n"
    "examples:\n"
    "  kvasir doctor -c /etc/kvasir/kvasir.yaml\n"
    "  kvasir doctor --worker \\\n"
    "    http://gpu:8000,events=tcp://gpu:5557,replay=tcp://gpu:5657\n";

static void
on_wake(uv_async_t *wake)
{
    (void)wake; /* the loop turns, and so its owner looks */
}

static uint32_t
try_worker(struct doctor *d, const struct config_worker *worker)
{
    struct doctor_found found = {.worker = worker,
                                 .health_path = d->config->health.path};

    if (doctor_ask_health(d, &found) && doctor_ask_about(d, &found)) {
        struct intake *intake = doctor_follow(d, &found);
        doctor_ask_prompts(d, &found);
        if (intake != NULL) {
            doctor_watch(d, intake, &found);
        }
        intake_free(intake);
    }
    return doctor_say(&found, &d->page);
}

/* What a node could be held to here. */
static int
say_machine(struct doctor *d)
{
    struct confined has;

    confine_look(&has);
    buf_clear(&d->page);
    buf_printf(&d->page,
               "this machine\n  %-8s sandbox  the kernel can bound %s%s%s\n",
               has.files && has.calls ? "ok" : "-", confined_name(&has),
               has.why[0] != '\0' ? ": " : "", has.why);
    return cli_print_buf("doctor", &d->page);
}

static int
try_all(struct doctor *d)
{
    uint32_t missing = 0;
    int code = CMD_FINE;

    if (d->config->workers_count == 0) {
        (void)fprintf(stderr,
                      "kvasir doctor: no worker is configured: --worker "
                      "URL, or workers in a file (-c FILE)\n");
        return CMD_USAGE;
    }
    code = say_machine(d);
    for (uint32_t i = 0; i < d->config->workers_count && code == CMD_FINE;
         i++) {
        const struct config_worker *worker = &d->config->workers[i];
        buf_clear(&d->page);
        if (worker->from[0] != '\0') {
            buf_printf(&d->page,
                       "%s\n  not tried: its workers are known while a node "
                       "runs (kvasir status)\n",
                       worker->from);
        } else {
            missing += try_worker(d, worker);
        }
        code = cli_print_buf("doctor", &d->page);
    }
    return missing != 0 && code == CMD_FINE ? CMD_FAILED : code;
}

/* False: the files are of no use, which was printed. */
static bool
find_tls(const struct config *config, struct sock_tls_context **tls)
{
    struct sock_tls_files files = {.cert = config->tls.workers_cert_file,
                                   .key = config->tls.workers_key_file,
                                   .ca = config->tls.workers_ca_file};
    const char *why = "out of memory";
    bool wanted = false;

    *tls = NULL;
    for (uint32_t i = 0; i < config->workers_count; i++) {
        wanted = wanted || config->workers[i].url.tls;
    }
    if (!wanted || sock_tls_context_new_client(tls, &files, &why) == 0) {
        return true;
    }
    (void)fprintf(stderr, "kvasir doctor: tls.workers_*_file: %s\n", why);
    return false;
}

static int
doctor(const struct config *config)
{
    struct doctor d = {.config = config};
    struct local_table *models = NULL;
    struct sock_tls_context *tls;
    int code = CMD_USAGE;

    if (!find_tls(config, &tls)) {
        return code;
    }
    if (uv_loop_init(&d.loop) != 0) {
        sock_tls_context_free(tls);
        return CMD_FAILED;
    }
    CHECK(uv_async_init(&d.loop, &d.wake, on_wake) == 0);
    uv_unref((uv_handle_t *)&d.wake);
    (void)signal(SIGPIPE, SIG_IGN);
    d.models = local_load(&config->tokens, NULL, &models) == 0 ? models : NULL;
    d.tls = tls;
    rng_init(&d.rng, uv_hrtime());
    buf_init(&d.body, DOCTOR_ANSWER_MAX);
    buf_init(&d.text, OUT_MAX);
    buf_init(&d.page, OUT_MAX);
    code = try_all(&d);
    buf_fini(&d.page);
    buf_fini(&d.text);
    buf_fini(&d.body);
    local_table_free(models, NULL);
    uv_close((uv_handle_t *)&d.wake, NULL);
    (void)uv_run(&d.loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&d.loop) == 0);
    sock_tls_context_free(tls);
    return code;
}

int
cmd_doctor(char *const *argv)
{
    struct cli_config cli;
    struct config config;
    int code = CMD_USAGE;

    if (!cli_config_read(&cli, "doctor", argv)) {
        return code;
    }
    if (cli.help) {
        return cli_print("doctor", SLICE(help));
    }
    if (cli_config_load(&cli, &config) == 0) {
        log_init(&(struct log_options){.level = LOG_LEVEL_ERROR,
                                       .fd = STDERR_FILENO});
        code = doctor(&config);
    }
    config_fini(&config);
    return code;
}
