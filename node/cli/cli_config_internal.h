/*
 * The options that `serve` and `check` share: -c FILE, --worker, and one for
 * each configuration key.
 *
 * Role: shell (it reads the file, the environment, the machine). Owns: the
 * options and flags. Thread: main. Limits: CLI_CONFIG_FLAGS_MAX.
 * Errors: told on stderr.
 */
#ifndef NODE_CLI_CONFIG_INTERNAL_H
#define NODE_CLI_CONFIG_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>

#include "index/base/check.h"
#include "node/config/config.h"

#define CLI_CONFIG_FLAGS_MAX 1024

struct cli_config {
    const char *command; /* "serve": starts each line on stderr */
    const char *file;    /* -c, or NULL */
    bool help;           /* -h */
    bool reference;      /* --reference (check only) */
    bool schema;         /* --schema (check only) */
    struct config_flag flags[CLI_CONFIG_FLAGS_MAX];
    uint32_t flags_count;
};

/* Reads the arguments. False: they were wrong, which it has printed. The
 * arguments are borrowed for as long as *cli is used. */
bool cli_config_read(struct cli_config *cli, const char *command,
                     char *const *argv) MUST_CHECK;

/* Where the configuration comes from that the arguments name, and the process's
 * environment; borrowed from *cli. */
struct config_sources cli_config_sources(const struct cli_config *cli);

/* Loads the configuration that the arguments name, with the process's
 * environment. Outcomes as of config_load(); faults are printed, and their
 * count at the end. */
int cli_config_load(const struct cli_config *cli, struct config *config)
    MUST_CHECK;

#endif
