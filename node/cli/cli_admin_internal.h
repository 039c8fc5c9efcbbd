/*
 * Sends requests to a node's admin port, for the commands that need it.
 *
 * Role: shell. Owns: nothing after a call. Thread: main; runs a loop of its own
 * until the answer arrives. Limits: CLI_ADMIN_ANSWER_MAX, CLI_ADMIN_TIMEOUT_MS.
 * Errors: printed on stderr.
 */
#ifndef NODE_CLI_ADMIN_INTERNAL_H
#define NODE_CLI_ADMIN_INTERNAL_H

#include <stdbool.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define CLI_ADMIN_ANSWER_MAX ((size_t)32 << 20)
#define CLI_ADMIN_FAULT_MAX  ((size_t)4096)
#define CLI_ADMIN_TIMEOUT_MS 10000
#define CLI_ADMIN_TENANT_MAX 64U

struct cli_admin {
    const char *command; /* "status": starts each line on stderr */
    const char *address; /* HOST:PORT or https://HOST:PORT, from --admin; NULL:
                            from KVASIR_ADMIN, or 127.0.0.1:9080 */
    const char *ca;      /* from --ca; NULL: the system's authorities */
    const char *token_file; /* from --token-file; NULL: from
                               KVASIR_ADMIN_TOKEN_FILE, or no token */
    const char *tenant;     /* sent as x-kvasir-tenant, of visible ASCII and
                               CLI_ADMIN_TENANT_MAX at most; NULL: it is not */
    int (*show)(struct slice json, struct buf *out); /* as json_show(), which
                                                        NULL stands for */
    bool json;                                       /* --json */
    bool help;                                       /* -h */
};

/* The options as --help explains them. */
#define CLI_ADMIN_HELP                                                      \
    "  --admin HOST:PORT  the node's admin port, https://HOST:PORT where "  \
    "it\n"                                                                  \
    "                     speaks TLS; default: KVASIR_ADMIN, else\n"        \
    "                     127.0.0.1:9080\n"                                 \
    "  --ca FILE          authorities that may have signed its "            \
    "certificate;\n"                                                        \
    "                     default: the system's\n"                          \
    "  --token-file FILE  the first token in it opens the port; default:\n" \
    "                     KVASIR_ADMIN_TOKEN_FILE, else no token is sent\n"

/* Reads --admin, --ca, --token-file, --json, --help. False: they were wrong, which it has printed.
 * argv is borrowed for as long as *cli is used. */
bool cli_admin_read(struct cli_admin *cli, const char *command,
                    char *const *argv) MUST_CHECK;

/* The node that is asked: of --admin, KVASIR_ADMIN, or the default. */
const char *cli_admin_address(const struct cli_admin *cli);

/*
 * Sends one request (GET when body is empty, else POST). Returns CMD_FINE and
 * the answer in *text; or the exit code, and the reason as one line without its
 * newline in *fault. Both buffers are the caller's and are cleared first.
 */
int cli_admin_fetch(const struct cli_admin *cli, const char *target,
                    struct slice body, struct buf *text, struct buf *fault)
    MUST_CHECK;

/*
 * Sends one request as cli_admin_fetch() does and prints a JSON answer:
 * unchanged with --json, otherwise with show(). Returns the exit code; any
 * other result is printed as one line.
 */
int cli_admin_print(const struct cli_admin *cli, const char *target,
                    struct slice body) MUST_CHECK;

#endif
