#include <criterion/criterion.h>
#include <stdio.h>

#include "node/cli/cli_args.h"

enum {
    FILE_ID = 7,
    HELP_ID,
    BYTES_ID
};

static const struct cli_option options[] = {
    {"config", 'c', true, FILE_ID},
    {"help", 'h', false, HELP_ID},
    {"limits.body_bytes_max", '\0', true, BYTES_ID},
};

static struct cli_args args;

static void
start(const char *const *words)
{
    static char copy[16][64];
    static char *argv[16];
    int argc = 0;

    while (words[argc] != NULL) {
        (void)snprintf(copy[argc], sizeof copy[argc], "%s", words[argc]);
        argv[argc] = copy[argc];
        argc++;
    }
    cli_args_init(&args, options, 3, argc, argv);
}

#define START(...) start((const char *const[]){__VA_ARGS__, NULL})

static void
expect_option(int id, const char *value)
{
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_OPTION, "%s", args.fault);
    cr_assert_eq(args.option->id, id);
    if (value == NULL) {
        cr_assert_null(args.value);
    } else {
        cr_assert_str_eq(args.value, value);
    }
}

static void
expect_fault(const char *fault)
{
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_BAD);
    cr_assert_str_eq(args.fault, fault);
}

Test(node_cli_args, values_come_joined_or_next)
{
    START("--config", "a", "--config=b", "--config=", "-c", "d", "-ce", "-h",
          "--help", "--limits.body_bytes_max", "--x", "-c", "-");
    expect_option(FILE_ID, "a");
    expect_option(FILE_ID, "b");
    expect_option(FILE_ID, "");
    expect_option(FILE_ID, "d");
    expect_option(FILE_ID, "e");
    expect_option(HELP_ID, NULL);
    expect_option(HELP_ID, NULL);
    expect_option(BYTES_ID, "--x");
    expect_option(FILE_ID, "-");
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_END);
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_END);
}

Test(node_cli_args, operands_are_told_apart_and_all_there_is_behind_two_dashes)
{
    START("-", "--", "--config", "--");
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_OPERAND);
    cr_assert_str_eq(args.value, "-");
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_OPERAND);
    cr_assert_str_eq(args.value, "--config");
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_OPERAND);
    cr_assert_str_eq(args.value, "--");
    cr_assert_eq(cli_args_next(&args), CLI_ARGS_END);
}

Test(node_cli_args, faults_name_the_option_and_what_is_near)
{
    START("--confg", "a");
    expect_fault("unknown option --confg, did you mean --config?");
    START("--limits.body_byte_max=1");
    expect_fault("unknown option --limits.body_byte_max, did you mean "
                 "--limits.body_bytes_max?");
    START("--zzz\033[2J");
    expect_fault("unknown option --zzz\\u001b[2J");
    START("-x");
    expect_fault("unknown option -x");
    START("--con", "a");
    expect_fault("unknown option --con");
    START("--config");
    expect_fault("--config needs a value");
    START("--help=yes");
    expect_fault("--help takes no value");
    START("-hx");
    expect_fault("--help takes no value");
}
