#include "node/cli/cli_config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/config/config_schema.h"

enum {
    OPTION_KEY, /* a configuration key; also --worker and the short ones */
    OPTION_FILE,
    OPTION_HELP,
    OPTION_REFERENCE,
};

static const struct cli_option own_options[] = {
    {"config", 'c', true, OPTION_FILE},
    {"help", 'h', false, OPTION_HELP},
    {"worker", '\0', true, OPTION_KEY},
    {"policy", '\0', true, OPTION_KEY},
    {"mesh", '\0', true, OPTION_KEY},
    {"join", '\0', true, OPTION_KEY},
    {"data", '\0', true, OPTION_KEY},
    {"reference", '\0', false, OPTION_REFERENCE}, /* the last: check only */
};

#define OWN_COUNT (sizeof own_options / sizeof own_options[0])

_Static_assert(CONFIG_KEYS_MAX + OWN_COUNT <= CLI_CONFIG_OPTIONS_MAX,
               "room for all options");

static void
list_options(struct cli_config *cli)
{
    size_t own = strcmp(cli->command, "check") == 0 ? OWN_COUNT : OWN_COUNT - 1;

    for (size_t i = 0; i < own; i++) {
        cli->options[cli->options_count++] = own_options[i];
    }
    for (size_t i = 0; i < config_schema_node.count; i++) {
        cli->options[cli->options_count++] =
            (struct cli_option){.name = config_schema_node.keys[i].name,
                                .valued = true,
                                .id = OPTION_KEY};
    }
}

/* NULL, or what is wrong with the option. */
static const char *
take_option(struct cli_config *cli, const struct cli_args *args)
{
    switch (args->option->id) {
    case OPTION_KEY:
        if (cli->flags_count == CLI_CONFIG_FLAGS_MAX) {
            return "is one option too many";
        }
        cli->flags[cli->flags_count++] = (struct config_flag){
            .key = args->option->name, .value = args->value};
        return NULL;
    case OPTION_FILE:
        if (cli->file != NULL) {
            return "appears twice";
        }
        cli->file = args->value;
        return NULL;
    case OPTION_HELP:
        cli->help = true;
        return NULL;
    default:
        cli->reference = true;
        return NULL;
    }
}

bool
cli_config_read(struct cli_config *cli, const char *command, int argc,
                char *const *argv)
{
    struct cli_args args;
    const char *fault = NULL;
    int outcome;

    *cli = (struct cli_config){.command = command};
    list_options(cli);
    cli_args_init(&args, cli->options, cli->options_count, argc, argv);
    while (fault == NULL && (outcome = cli_args_next(&args)) != CLI_ARGS_END) {
        if (outcome == CLI_ARGS_BAD) {
            (void)fprintf(stderr, "kvasir %s: %s\n", command, args.fault);
            return false;
        }
        if (outcome == CLI_ARGS_OPERAND) {
            (void)fprintf(stderr, "kvasir %s: takes no operand: %s\n", command,
                          args.value);
            return false;
        }
        fault = take_option(cli, &args);
    }
    if (fault != NULL) {
        (void)fprintf(stderr, "kvasir %s: --%s %s\n", command,
                      args.option->name, fault);
    }
    return fault == NULL;
}

int
cli_config_load(const struct cli_config *cli, struct config *config)
{
    const struct config_sources sources = {.file = cli->file,
                                           .environment = environ,
                                           .flags = cli->flags,
                                           .flags_count = cli->flags_count};
    struct config_errors errors;

    config_errors_init(&errors);
    int rc = config_load(&sources, config, &errors);
    if (errors.count != 0) {
        (void)fwrite(errors.text.ptr, 1, errors.text.len, stderr);
        (void)fprintf(stderr, "kvasir %s: %u %s in the configuration%s\n",
                      cli->command, errors.count,
                      errors.count == 1 ? "error" : "errors",
                      errors.count > errors.printed ? ", not all shown" : "");
    }
    config_errors_fini(&errors);
    return rc;
}
