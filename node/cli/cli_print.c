/* What all commands share: arguments in, answers out. */
#include "node/cli/cli_print_internal.h"

#include <stdio.h>

#include "node/cli/cmd_internal.h"

bool
cli_parse(const char *command, const struct flags *flags, void *options,
          char *const *argv)
{
    char fault[FLAGS_FAULT_MAX];

    if (flags_parse(flags, options, argv, fault, sizeof fault) != 0) {
        (void)fprintf(stderr, "kvasir %s: %s\n", command, fault);
        return false;
    }
    return true;
}

int
cli_print(const char *command, struct slice text)
{
    bool whole =
        text.len == 0 || fwrite(text.ptr, 1, text.len, stdout) == text.len;

    if (fflush(stdout) != 0 || !whole) {
        (void)fprintf(stderr, "kvasir %s: cannot write to stdout\n", command);
        return CMD_FAILED;
    }
    return CMD_FINE;
}

int
cli_print_buf(const char *command, const struct buf *buf)
{
    if (buf->failed) {
        (void)fprintf(stderr, "kvasir %s: the answer is too large\n", command);
        return CMD_FAILED;
    }
    return cli_print(command, buf_slice(buf));
}
