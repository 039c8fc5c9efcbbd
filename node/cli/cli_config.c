/* The options of `serve` and `check`. */
#include "node/cli/cli_config_internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/cli/cli_print_internal.h"
#include "node/config/config_schema.h"

#define AT(member) offsetof(struct cli_config, member)

/* Of a configuration key, a worker, and the short names of some keys. */
#define PAIR(called)                                             \
    {                                                            \
        .name = (called), .kind = FLAG_PAIR, .at = AT(flags),    \
        .count_at = AT(flags_count), .max = CLI_CONFIG_FLAGS_MAX \
    }

static const struct flag own[] = {
    {.name = "config", .kind = FLAG_ANY, .at = AT(file), .letter = 'c'},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(help), .letter = 'h'},
    PAIR("worker"),
    PAIR("policy"),
    PAIR("placement-headers"),
    PAIR("mesh"),
    PAIR("join"),
    PAIR("data"),
    /* The last: check only. */
    {.name = "reference", .kind = FLAG_SWITCH, .at = AT(reference)},
    {.name = "schema", .kind = FLAG_SWITCH, .at = AT(schema)},
};

#define OWN_COUNT   (sizeof own / sizeof own[0])
#define SERVE_COUNT (OWN_COUNT - 2)

bool
cli_config_read(struct cli_config *cli, const char *command, char *const *argv)
{
    struct flag table[CONFIG_KEYS_MAX + OWN_COUNT];
    struct flags flags = {.table = table};

    for (size_t i = 0; i < config_schema_node.count; i++) {
        table[flags.count++] =
            (struct flag)PAIR(config_schema_node.keys[i].name);
    }
    CHECK(flags.count <= CONFIG_KEYS_MAX);
    memcpy(table + flags.count, own, sizeof own);
    flags.count += strcmp(command, "check") == 0 ? OWN_COUNT : SERVE_COUNT;
    *cli = (struct cli_config){.command = command};
    if (argv[0] != NULL && argv[0][0] != '-') {
        (void)fprintf(stderr,
                      "kvasir %s: takes no operand: %s; a configuration file "
                      "goes after -c\n",
                      command, argv[0]);
        return false;
    }
    return cli_parse(command, &flags, cli, argv);
}

struct config_sources
cli_config_sources(const struct cli_config *cli)
{
    return (struct config_sources){
        .file = cli->file,
        .environment = environ,
        .flags = cli->flags,
        .flags_count = cli->flags_count,
        .shared = strcmp(cli->command, "serve") != 0};
}

int
cli_config_load(const struct cli_config *cli, struct config *config)
{
    const struct config_sources sources = cli_config_sources(cli);
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
