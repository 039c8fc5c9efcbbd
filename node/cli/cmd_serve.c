/* `kvasir serve`: runs a node. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index/base/buf.h"
#include "node/base/log.h"
#include "node/cli/cli_config_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/cli/first_process_internal.h"
#include "node/cli/serve_internal.h"
#include "node/config/config_scale.h"

#define OUT_MAX ((size_t)1 << 20)

static const char help[] =
    "usage: kvasir serve [-c FILE] [--worker URL[,KEY=VALUE]...]... [OPTIONS]\n"
    "\n"
    "Runs a node in front of LLM engines, alone or in a mesh with other "
    "nodes.\n"
    "It prints `ready serve=H:P admin=H:P` (and mesh=H:P) to stdout when its\n"
    "ports are open, and logs to stderr. SIGTERM drains the node: for\n"
    "timeouts.lame_duck it serves on while /ready answers 503, then it stops\n"
    "accepting, finishes open requests, leaves the mesh and exits with 0, or "
    "1\n"
    "if it had to cut requests off. Each further signal is the next step.\n"
    "SIGHUP reads the configuration again; POST /admin/reload does, too, and\n"
    "answers what was applied and what needs a restart.\n"
    "\n"
    "  -c, --config FILE  the configuration file (YAML); - is stdin\n"
    "  --worker URL[,events=URL][,replay=URL][,KEY=VALUE]...\n"
    "                     an engine by the URL of its OpenAI API; events and "
    "replay\n"
    "                     are its ZeroMQ sockets of KV events. Further keys: "
    "ranks\n"
    "                     (data parallel; their ports follow), topic, sse (a\n"
    "                     sidecar's events instead), id, island, pool, role,\n"
    "                     api_key, blocks_max. Repeat it for each engine\n"
    "  --policy NAME      short for --policy.name\n"
    "  --placement-headers on\n"
    "                     answers say which worker had how much of the prompt\n"
    "  --mesh IP:PORT     short for --mesh.listen: where other nodes connect\n"
    "  --join HOST:PORT, --join dns:NAME:PORT, --join srv:NAME\n"
    "                     short for --mesh.join: where to look for other "
    "nodes;\n"
    "                     once for each place\n"
    "  --data DIR         short for --data.dir: where the node keeps "
    "snapshots, "
    "from\n"
    "                     which it continues after a restart\n"
    "  -h, --help         this text\n"
    "\n"
    "Options override KVASIR_* variables (KVASIR_LIMITS_BODY_BYTES_MAX is\n"
    "limits.body_bytes_max, KVASIR_WORKERS are the engines), variables "
    "override\n"
    "the file, the file overrides the defaults. Workers from one source "
    "replace\n"
    "those from another. `kvasir check --reference` describes each key.\n"
    "\n"
    "examples:\n"
    "  kvasir serve --worker http://gpu-1:8000 --worker http://gpu-2:8000\n"
    "  kvasir serve \\\n"
    "    --worker http://gpu:8000,events=tcp://gpu:5557,replay=tcp://gpu:5657\n"
    "  kvasir serve --mesh 127.0.0.1:7946 --join 127.0.0.1:7947 \\\n"
    "    --worker http://gpu-1:8000\n"
    "  kvasir serve -c /etc/kvasir.yaml --listen 0.0.0.0:80 --log.level debug\n"
    "\n"
    "keys and their defaults:\n";

static int
print_help(void)
{
    struct buf out;

    buf_init(&out, OUT_MAX);
    buf_add_text(&out, help);
    config_print_flags(&out);
    int code = cli_print_buf("serve", &out);
    buf_fini(&out);
    return code;
}

/* By another program, which reads the configuration once more. */
static int
serve_wide(const struct cli_config *cli, char *const *argv)
{
    struct stat about = {.st_mode = S_IFREG};

    if (cli->file != NULL) {
        bool is_stdin = strcmp(cli->file, "-") == 0;
        int rc = is_stdin ? fstat(0, &about) : stat(cli->file, &about);
        if (rc != 0 || !S_ISREG(about.st_mode) ||
            (is_stdin && lseek(0, 0, SEEK_SET) != 0)) {
            (void)fputs("kvasir serve: workers.slots over 256 wants a "
                        "configuration that can be read twice: a file\n",
                        stderr);
            return CMD_USAGE;
        }
    }
    return cmd_serve_wide(argv);
}

static int
serve(const struct cli_config *cli, char *const *argv)
{
    const struct config_sources sources = cli_config_sources(cli);
    struct config config;
    int code = CMD_USAGE;

    int rc = cli_config_load(cli, &config);
    if (rc == 0 && config.workers_slots > WORKERS_MAX) {
        code = serve_wide(cli, argv);
    } else if (rc == 0) {
        if (config_scale_runs(&config.scale)) {
            first_process_leave();
        }
        log_init(&(struct log_options){
            .level = (enum log_level)config.log.level,
            .format = (enum log_format)config.log.format,
            .fd = 2,
        });
        code = serve_run(&sources, &config, cmd_commit);
    }
    config_fini(&config);
    return code;
}

int
cmd_serve(char *const *argv)
{
    struct cli_config cli;

    if (!cli_config_read(&cli, "serve", argv)) {
        return CMD_USAGE;
    }
    return cli.help ? print_help() : serve(&cli, argv);
}
