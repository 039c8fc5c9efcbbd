/* `kvasir check`: the faults of a configuration, or its resulting values. */
#include <stdio.h>
#include <uv.h>

#include "index/base/buf.h"
#include "node/cli/cli_config_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/local/local_load.h"

#define OUT_MAX ((size_t)4 << 20)

static const char help[] =
    "usage: kvasir check [-c FILE] [OPTIONS]\n"
    "       kvasir check --reference\n"
    "       kvasir check --schema\n"
    "\n"
    "Checks whether `kvasir serve` would accept the same file, environment "
    "and\n"
    "options. Prints each error with file:line:column and what was expected\n"
    "(exit code 2). If there is none, prints the resulting configuration as\n"
    "YAML (exit code 0), and warns on stderr of what is allowed and probably\n"
    "not meant. Of each model whose files are given it says where its tokens\n"
    "will come from. A file that the nodes of a mesh share needs no address\n"
    "of a node: that each of them wants --mesh is a warning here.\n"
    "\n"
    "  -c, --config FILE  the configuration file; - is stdin\n"
    "  --reference        every key: type, bounds, default, variable, meaning\n"
    "  --schema           a JSON schema of the configuration file, for "
    "editors\n"
    "  -h, --help         this text\n"
    "  and all options of `kvasir serve`\n"
    "\n"
    "examples:\n"
    "  kvasir check -c /etc/kvasir.yaml\n"
    "  kvasir check -c node.yaml --limits.body_bytes_max 8MiB\n"
    "  kvasir check --reference | less\n";

/* On stderr, a line for each, while the exit code stays 0. */
static void
warn(const struct config *config)
{
    struct buf risks;
    struct slice rest;

    buf_init(&risks, OUT_MAX);
    config_risks(config, &risks);
    rest = buf_slice(&risks);
    while (rest.len != 0) {
        struct slice line = slice_take(&rest, '\n');
        (void)fprintf(stderr, "warning: %.*s\n", (int)line.len, line.ptr);
    }
    buf_fini(&risks);
}

/* Where each model's tokens will come from. Nodes start all the same. */
static void
warn_of_models(const struct config *config)
{
    struct local_table *table = NULL;
    char reason[128];

    if (config->tokens.dir[0] == '\0' && config->tokens.models.count == 0) {
        return;
    }
    int error = local_load(&config->tokens, NULL, &table);
    error = error == 0 ? table->dir_error : error;
    if (error < 0) {
        (void)fprintf(stderr,
                      "warning: tokens.dir: %s: %s; engines are asked for "
                      "tokens\n",
                      config->tokens.dir,
                      uv_strerror_r(error, reason, sizeof reason));
    }
    for (uint32_t i = 0; table != NULL && i < table->count; i++) {
        const struct local_model *model = table->model[i];
        const char *why = local_model_why(model);
        if (why[0] == '\0') {
            (void)fprintf(stderr, "model %s: tokens are made here, by %s\n",
                          local_model_name(model), local_model_place(model));
        } else {
            (void)fprintf(stderr,
                          "warning: model %s: %s: %s; engines are asked for "
                          "%s\n",
                          local_model_name(model), local_model_place(model),
                          why,
                          local_model_can(model, LOCAL_TEXT) ? "tokens of chats"
                                                             : "tokens");
        }
    }
    local_table_free(table, NULL);
}

static int
check(const struct cli_config *cli, struct buf *out)
{
    struct config config;
    int code = CMD_USAGE;

    if (cli_config_load(cli, &config) == 0) {
        warn(&config);
        warn_of_models(&config);
        config_print(&config, out);
        code = cli_print_buf("check", out);
    }
    config_fini(&config);
    return code;
}

int
cmd_check(char *const *argv)
{
    struct cli_config cli;
    struct buf out;
    int code = CMD_USAGE;

    buf_init(&out, OUT_MAX);
    if (!cli_config_read(&cli, "check", argv)) {
        code = CMD_USAGE;
    } else if (cli.help) {
        code = cli_print("check", SLICE(help));
    } else if (cli.reference) {
        config_print_reference(&out);
        code = cli_print_buf("check", &out);
    } else if (cli.schema) {
        config_print_schema(&out);
        code = cli_print_buf("check", &out);
    } else {
        code = check(&cli, &out);
    }
    buf_fini(&out);
    return code;
}
