/* `kvasir explain`: where the request on stdin would go, and why. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "node/base/file.h"
#include "node/cli/cli_admin_internal.h"
#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"

#define BODY_MAX       ((size_t)64 << 20)
#define PATH_MAX_BYTES 256U
#define TARGET_MAX     (PATH_MAX_BYTES + 32)

static const char help[] =
    "usage: kvasir explain [--admin HOST:PORT] [--ca FILE] [--token-file "
    "FILE]\n"
    "                      [--json] [--path PATH] [--tenant NAME]\n"
    "                      < REQUEST.json\n"
    "\n"
    "Reads an OpenAI request body from stdin and shows where a running node\n"
    "would send it and why: each worker with its overlap, load and verdict;\n"
    "before that the limits that it would meet, and whether it passes them.\n"
    "The request is not forwarded, and nothing is taken of the limits.\n"
    "\n" CLI_ADMIN_HELP
    "  --json             print the answer of /admin/explain unchanged\n"
    "  --path PATH        where the request would be sent, as /v1/messages;\n"
    "                     default: guessed by what the body has\n"
    "  --tenant NAME      whose request it would be, by keys.file; default:\n"
    "                     default\n"
    "  -h, --help         this text\n"
    "\n"
    "examples:\n"
    "  kvasir explain < request.json\n"
    "  kvasir explain --path /v1/messages < request.json\n"
    "  kvasir explain --tenant shop < request.json\n"
    "  echo '{\"model\":\"m\",\"prompt\":\"Once upon a time\"}' | kvasir "
    "explain\n";

struct wish {
    struct cli_admin cli;
    const char *path; /* NULL: guessed */
};

#define AT(member) offsetof(struct wish, member)

static const struct flag table[] = {
    {.name = "admin", .kind = FLAG_ANY, .at = AT(cli.address)},
    {.name = "ca", .kind = FLAG_ANY, .at = AT(cli.ca)},
    {.name = "token-file", .kind = FLAG_ANY, .at = AT(cli.token_file)},
    {.name = "json", .kind = FLAG_SWITCH, .at = AT(cli.json)},
    {.name = "path", .kind = FLAG_ANY, .at = AT(path)},
    {.name = "tenant", .kind = FLAG_ANY, .at = AT(cli.tenant)},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(cli.help), .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

/* Where the node is asked. False: the path is none, which was printed. */
static bool
make_target(const char *path, char target[TARGET_MAX])
{
    size_t len = path != NULL ? strcspn(path, " ?#%") : 0;
    bool plain = path == NULL ||
                 (path[0] == '/' && path[len] == '\0' && len < PATH_MAX_BYTES);

    for (size_t i = 0; i < len && plain; i++) {
        plain = path[i] > ' ' && path[i] < 0x7f;
    }
    if (!plain) {
        (void)fprintf(stderr, "kvasir explain: --path: expected a path, as "
                              "/v1/chat/completions\n");
        return false;
    }
    (void)snprintf(target, TARGET_MAX, "/admin/explain%s%s",
                   path != NULL ? "?path=" : "", path != NULL ? path : "");
    return true;
}

/* False: it is no tenant's name, which was printed. */
static bool
is_tenant(const char *name)
{
    size_t len = name != NULL ? strlen(name) : 0;
    bool plain = name == NULL || (len != 0 && len <= CLI_ADMIN_TENANT_MAX);

    for (size_t i = 0; i < len && plain; i++) {
        plain = name[i] > ' ' && name[i] < 0x7f;
    }
    if (!plain) {
        (void)fprintf(stderr, "kvasir explain: --tenant: expected a name of "
                              "keys.file\n");
    }
    return plain;
}

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
    int error = file_read_all(stdin, body);
    if (body->failed) {
        fault = "the request is larger than 64 MiB";
    } else if (error != 0) {
        fault = "cannot read stdin";
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
    struct wish wish = {.cli.command = "explain"};
    char target[TARGET_MAX];
    struct buf body;
    int code = CMD_USAGE;

    if (!cli_parse("explain", &flags, &wish, argv)) {
        return CMD_USAGE;
    }
    if (wish.cli.help) {
        return cli_print("explain", SLICE(help));
    }
    if (!make_target(wish.path, target) || !is_tenant(wish.cli.tenant)) {
        return CMD_USAGE;
    }
    buf_init(&body, BODY_MAX + 65536);
    if (read_stdin(&body)) {
        code = cli_admin_print(&wish.cli, target, buf_slice(&body));
    }
    buf_fini(&body);
    return code;
}
