/* `kvasir explain`: where the request on stdin would go, and why. */
#include <stdio.h>
#include <unistd.h>

#include "node/cli/cli_admin_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"

#define BODY_MAX ((size_t)64 << 20)

static const char help[] =
    "usage: kvasir explain [--admin HOST:PORT] [--token-file FILE] [--json]\n"
    "                      < REQUEST.json\n"
    "\n"
    "Reads an OpenAI request body from stdin and shows where a running node\n"
    "would send it and why: each worker with its overlap, load and verdict.\n"
    "The request is not forwarded.\n"
    "\n" CLI_ADMIN_HELP
    "  --json             print the answer of /admin/explain unchanged\n"
    "  -h, --help         this text\n"
    "\n"
    "examples:\n"
    "  kvasir explain < request.json\n"
    "  echo '{\"model\":\"m\",\"prompt\":\"Once upon a time\"}' | kvasir "
    "explain\n";

/* Reads all of stdin. False: it was empty, too large or unreadable, which was
 * printed. */
static bool
read_stdin(struct buf *body)
{
    const char *fault = NULL;

    if (isatty(STDIN_FILENO) == 1) {
        (void)fprintf(stderr, "kvasir explain: type the request's JSON, then "
                              "Ctrl-D (--help tells more)\n");
    }
    while (!feof(stdin) && !ferror(stdin)) {
        char *room = buf_reserve(body, 65536);
        if (room == NULL) {
            break;
        }
        body->len += fread(room, 1, 65536, stdin);
    }
    if (ferror(stdin)) {
        fault = "cannot read stdin";
    } else if (body->failed) {
        fault = "the request is larger than 64 MiB";
    } else if (body->len == 0) {
        fault = "expected a request body on stdin";
    }
    if (fault != NULL) {
        (void)fprintf(stderr, "kvasir explain: %s\n", fault);
    }
    return fault == NULL;
}

int
cmd_explain(char *const *argv)
{
    struct cli_admin cli;
    struct buf body;
    int code = CMD_USAGE;

    if (!cli_admin_read(&cli, "explain", argv)) {
        return CMD_USAGE;
    }
    if (cli.help) {
        return cli_print("explain", SLICE(help));
    }
    buf_init(&body, BODY_MAX + 65536);
    if (read_stdin(&body)) {
        code = cli_admin_print(&cli, "/admin/explain", buf_slice(&body));
    }
    buf_fini(&body);
    return code;
}
