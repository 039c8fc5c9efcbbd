/* `kvasir status`: the state of a running node. */
#include "node/cli/cli_admin_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/cli/status_internal.h"
#include "node/text/json_show.h"

_Static_assert(STATUS_ROWS_MAX == 32, "as the help says");

static const char help[] =
    "usage: kvasir status [--admin HOST:PORT] [--ca FILE] [--token-file FILE]\n"
    "                     [--json]\n"
    "\n"
    "Shows the state of a running node: its requests and where they went, "
    "what\n"
    "needs a look, the mesh as the node sees it, which nodes read each "
    "engine's\n"
    "events and how far this one is behind, and each worker: its requests "
    "from\n"
    "here and from all nodes, those that wait in the engine, how full its "
    "cache\n"
    "is, the blocks that it is known to hold, and how its events come in. Of\n"
    "more than 32 workers, those that are alike have one line: their sums, "
    "and\n"
    "the fullest cache; --json and `kvasir top` have each.\n"
    "\n" CLI_ADMIN_HELP
    "  --json             print the answer of /admin/status unchanged\n"
    "  -h, --help         this text\n"
    "\n"
    "examples:\n"
    "  kvasir status\n"
    "  kvasir status --admin 10.0.0.7:9080 --json | jq .workers\n";

/* What is no status is shown all the same. */
static int
show(struct slice json, struct buf *out)
{
    return status_show(json, out) == 0 ? 0 : json_show(json, out);
}

int
cmd_status(char *const *argv)
{
    struct cli_admin cli;

    if (!cli_admin_read(&cli, "status", argv)) {
        return CMD_USAGE;
    }
    cli.show = show;
    return cli.help ? cli_print("status", SLICE(help))
                    : cli_admin_print(&cli, "/admin/status", SLICE(""));
}
