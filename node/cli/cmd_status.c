/* `kvasir status`: the state of a running node. */
#include "node/cli/cli_admin_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"

static const char help[] =
    "usage: kvasir status [--admin HOST:PORT] [--ca FILE] [--token-file FILE]\n"
    "                     [--json]\n"
    "\n"
    "Shows the state of a running node: the mesh as the node sees it "
    "(members,\n"
    "and who reads which event stream), its requests and where they went, the\n"
    "index, and each worker.\n"
    "\n" CLI_ADMIN_HELP
    "  --json             print the answer of /admin/status unchanged\n"
    "  -h, --help         this text\n"
    "\n"
    "examples:\n"
    "  kvasir status\n"
    "  kvasir status --admin 10.0.0.7:9080 --json | jq .workers\n";

int
cmd_status(char *const *argv)
{
    struct cli_admin cli;

    if (!cli_admin_read(&cli, "status", argv)) {
        return CMD_USAGE;
    }
    return cli.help ? cli_print("status", SLICE(help))
                    : cli_admin_print(&cli, "/admin/status", SLICE(""));
}
