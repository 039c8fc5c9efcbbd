/*
 * Reads command-line options: --name VALUE, --name=VALUE, -n VALUE, -nVALUE,
 * flags without a value, operands, and "--" before nothing but operands.
 *
 *   cli_args_init(&args, options, count, argc, argv);
 *   while ((outcome = cli_args_next(&args)) == CLI_ARGS_OPTION) ...
 *
 * Options are told apart by their `id`, so several tables may be joined.
 * Names are matched whole: an abbreviation would break with the next release.
 *
 * Role: core. Owns: nothing; values point into argv. Thread: one owner.
 * Limits: CLI_FAULT_MAX. Errors: a sentence in `fault`.
 */
#ifndef NODE_CLI_ARGS_H
#define NODE_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "index/base/check.h"

#define CLI_FAULT_MAX 256

struct cli_option {
    const char *name; /* without the dashes */
    char letter;      /* or '\0': none */
    bool valued;      /* takes a value */
    int id;           /* the caller's */
};

struct cli_args {
    const struct cli_option *options;
    size_t options_count;
    char *const *argv;
    int argc;
    int at;             /* of the next argument */
    bool operands_only; /* "--" was seen */

    const struct cli_option *option; /* with CLI_ARGS_OPTION */
    const char *value;               /* its value (NULL: a flag), or operand */
    char fault[CLI_FAULT_MAX];       /* with CLI_ARGS_BAD */
};

enum {
    CLI_ARGS_END = 0,
    CLI_ARGS_OPTION,
    CLI_ARGS_OPERAND,
    CLI_ARGS_BAD, /* the caller prints fault and leaves with 2 */
};

/* argv[0] is the first argument, not the program's name. All borrowed. */
void cli_args_init(struct cli_args *args, const struct cli_option *options,
                   size_t options_count, int argc, char *const *argv);

/* The next option or operand: one of the above. */
int cli_args_next(struct cli_args *args) MUST_CHECK;

#endif
