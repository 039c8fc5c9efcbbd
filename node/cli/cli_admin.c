/* Asks a node's admin port and prints what it says. */
#include "node/cli/cli_admin_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/http/http_tokens.h"
#include "node/http/httpc.h"
#include "node/text/json_pull.h"
#include "node/text/json_show.h"
#include "node/text/quote.h"
#include "node/text/url.h"

#define LINE_MAX_BYTES (HTTP_TOKEN_MAX + 64) /* of one header */
#define OWN_MAX_BYTES  ((size_t)2 * LINE_MAX_BYTES)

#define AT(member) offsetof(struct cli_admin, member)

static const struct flag table[] = {
    {.name = "admin", .kind = FLAG_ANY, .at = AT(address)},
    {.name = "ca", .kind = FLAG_ANY, .at = AT(ca)},
    {.name = "token-file", .kind = FLAG_ANY, .at = AT(token_file)},
    {.name = "json", .kind = FLAG_SWITCH, .at = AT(json)},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(help), .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

/* The part of an answer that outlives the callback. */
struct answer {
    enum httpc_outcome outcome;
    const char *why;
    int error;
    unsigned status;
    struct buf body;
};

bool
cli_admin_read(struct cli_admin *cli, const char *command, char *const *argv)
{
    *cli = (struct cli_admin){.command = command};
    return cli_parse(command, &flags, cli, argv);
}

const char *
cli_admin_address(const struct cli_admin *cli)
{
    const char *variable = getenv("KVASIR_ADMIN");
    bool from_variable = variable != NULL && variable[0] != '\0';

    return cli->address != NULL ? cli->address
           : from_variable      ? variable
                                : "127.0.0.1:9080";
}

/* The address to ask. False: it is invalid, which was printed. */
static bool
find_node(const struct cli_admin *cli, struct url *url, struct buf *fault)
{
    const char *address = cli_admin_address(cli);
    char quoted[QUOTE_ROOM];

    if (url_parse_web(slice_of(address), url) == NULL && url->tls &&
        url->path[0] == '\0') {
        return true;
    }
    const char *want = url_parse_peer(slice_of(address), url);
    if (want == NULL && cli->ca != NULL) {
        buf_add_text(fault, "--ca: without https://HOST:PORT in --admin, "
                            "nothing would be checked");
        return false;
    }
    if (want == NULL) {
        return true;
    }
    buf_printf(fault, "%s: expected %s or https://HOST:PORT, not %s",
               cli->address != NULL ? "--admin" : "KVASIR_ADMIN", want,
               quote_text(slice_of(address), quoted));
    return false;
}

/* The header that carries the token, "" without one, into line. False: the
 * file has none, and *fault says so. */
static bool
token_line(const struct cli_admin *cli, char line[LINE_MAX_BYTES],
           struct buf *fault)
{
    const char *path = cli->token_file != NULL
                           ? cli->token_file
                           : getenv("KVASIR_ADMIN_TOKEN_FILE");
    struct http_tokens tokens;
    const char *want;
    char reason[128];

    line[0] = '\0';
    if (path == NULL || path[0] == '\0') {
        return true;
    }
    int error = http_tokens_load(path, &tokens, &want);
    if (error == 0) {
        (void)snprintf(line, LINE_MAX_BYTES, "Authorization: Bearer %s\r\n",
                       http_tokens_operator(&tokens)->text);
        return true;
    }
    buf_printf(
        fault, "%s: %s%s", path,
        want != NULL ? "expected " : "cannot be read: ",
        want != NULL ? want : uv_strerror_r(error, reason, sizeof reason));
    return false;
}

/* What the node's certificate must be, NULL in clear. False: the file of
 * authorities is none, and *fault says so. */
static bool
find_tls(const struct cli_admin *cli, const struct url *url,
         struct sock_tls_context **tls, struct buf *fault)
{
    struct sock_tls_files files = {
        .cert = "", .key = "", .ca = cli->ca != NULL ? cli->ca : ""};
    const char *why = "out of memory";

    *tls = NULL;
    if (!url->tls || sock_tls_context_new_client(tls, &files, &why) == 0) {
        return true;
    }
    buf_printf(fault, "%s: %s", files.ca, why);
    return false;
}

static void
on_done(void *context, const struct httpc_answer *answer)
{
    struct answer *kept = context;

    kept->outcome = answer->outcome;
    kept->why = answer->why;
    kept->error = answer->error;
    kept->status = answer->head != NULL ? answer->head->status : 0;
    buf_add_slice(&kept->body, answer->body);
}

/* Adds the header that says whose request it would be, if that was asked. */
static void
add_tenant(const struct cli_admin *cli, char line[OWN_MAX_BYTES])
{
    size_t len = strlen(line);

    if (cli->tenant != NULL) {
        CHECK(strlen(cli->tenant) <= CLI_ADMIN_TENANT_MAX);
        (void)snprintf(line + len, OWN_MAX_BYTES - len,
                       "x-kvasir-tenant: %s\r\n", cli->tenant);
    }
}

/* 0 and an answer, or -errno. own: header lines. */
static int
ask(const struct url *url, const struct sock_tls_context *tls, const char *own,
    const char *target, struct slice body, struct answer *answer)
{
    const char *type =
        body.len != 0 ? "Content-Type: application/json\r\n" : "";
    char lines[3 * LINE_MAX_BYTES];

    (void)snprintf(lines, sizeof lines, "%s%s", type, own);
    struct httpc_request request = {
        .host = url->host,
        .port = url->port,
        .tls = tls,
        .method = body.len != 0 ? "POST" : "GET",
        .target = target,
        .headers = slice_of(lines),
        .body = body,
        .timeout_ms = CLI_ADMIN_TIMEOUT_MS,
        .answer_bytes_max = CLI_ADMIN_ANSWER_MAX,
        .context = answer,
        .done = on_done,
    };
    struct httpc *call;
    uv_loop_t loop;

    int rc = uv_loop_init(&loop);
    if (rc != 0) {
        return rc;
    }
    /* A node that closes while it is written to is an outcome, no end. */
    (void)signal(SIGPIPE, SIG_IGN);
    rc = httpc_start(&call, &loop, &request);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    (void)signal(SIGPIPE, SIG_DFL);
    return rc;
}

/* The message of {"error":{"message":...}} into out, or false. */
static bool
error_message(struct slice body, char *out, size_t room)
{
    struct json_pull pull;
    enum pull_token token;

    json_pull_init(&pull, body);
    while ((token = json_pull_next(&pull)) > PULL_END) {
        if (token == PULL_KEY && pull.depth == 2 &&
            json_pull_is(&pull, SLICE("message"))) {
            return json_pull_next(&pull) == PULL_STRING &&
                   json_pull_copy(&pull, out, room) >= 0;
        }
    }
    return false;
}

static void
tell_failure(const struct url *url, const struct answer *answer,
             struct buf *fault)
{
    char authority[URL_TEXT_MAX];
    char reason[128];

    (void)url_authority(url, authority);
    if (answer->outcome == HTTPC_CONNECT || answer->outcome == HTTPC_RESOLVE) {
        buf_printf(fault,
                   "cannot reach a node at %s: %s (--admin HOST:PORT names its "
                   "admin port; is it open to this machine?)",
                   authority,
                   answer->error != 0
                       ? uv_strerror_r(answer->error, reason, sizeof reason)
                       : httpc_outcome_name(answer->outcome));
        return;
    }
    buf_printf(fault, "no answer from %s: %s%s", authority,
               answer->outcome == HTTPC_TLS
                   ? answer->why
                   : httpc_outcome_name(answer->outcome),
               answer->outcome == HTTPC_CLOSED && !url->tls
                   ? " (does it speak TLS? --admin https://HOST:PORT)"
                   : "");
}

static void
tell_status(const struct url *url, const struct answer *answer,
            struct buf *fault)
{
    char authority[URL_TEXT_MAX];
    char message[512];
    char quoted[QUOTE_ROOM];
    bool found =
        error_message(buf_slice(&answer->body), message, sizeof message);

    buf_printf(
        fault, "%s answered %u%s%s%s", url_authority(url, authority),
        answer->status, found ? ": " : "",
        found ? quote_text(slice_of(message), quoted) : "",
        answer->status == 401 ? " (--token-file FILE has the token)" : "");
}

static int
print_answer(const struct cli_admin *cli, struct slice json)
{
    struct buf out;
    int code = CMD_FAILED;

    if (cli->json) {
        return cli_print(cli->command, json);
    }
    buf_init(&out, 4 * CLI_ADMIN_ANSWER_MAX);
    if ((cli->show != NULL ? cli->show : json_show)(json, &out) == 0) {
        code = cli_print_buf(cli->command, &out);
    } else {
        (void)fprintf(stderr, "kvasir %s: the answer is not a JSON object\n",
                      cli->command);
    }
    buf_fini(&out);
    return code;
}

int
cli_admin_fetch(const struct cli_admin *cli, const char *target,
                struct slice body, struct buf *text, struct buf *fault)
{
    struct answer answer = {.outcome = HTTPC_CLOSED};
    struct sock_tls_context *tls;
    struct url url;
    char own[OWN_MAX_BYTES];

    buf_clear(text);
    buf_clear(fault);
    if (!find_node(cli, &url, fault) || !token_line(cli, own, fault) ||
        !find_tls(cli, &url, &tls, fault)) {
        return CMD_USAGE;
    }
    add_tenant(cli, own);
    answer.body = *text;
    int rc = ask(&url, tls, own, target, body, &answer);
    sock_tls_context_free(tls);
    *text = answer.body;
    if (rc != 0) {
        answer.error = rc;
        answer.outcome = HTTPC_CONNECT;
    }
    if (answer.outcome != HTTPC_OK) {
        tell_failure(&url, &answer, fault);
    } else if (answer.status != 200) {
        tell_status(&url, &answer, fault);
    } else if (text->failed) {
        buf_add_text(fault, "the answer is too large");
    } else {
        return CMD_FINE;
    }
    return CMD_FAILED;
}

int
cli_admin_print(const struct cli_admin *cli, const char *target,
                struct slice body)
{
    struct buf text;
    struct buf fault;

    buf_init(&text, CLI_ADMIN_ANSWER_MAX);
    buf_init(&fault, CLI_ADMIN_FAULT_MAX);
    int code = cli_admin_fetch(cli, target, body, &text, &fault);
    if (code == CMD_FINE) {
        code = print_answer(cli, buf_slice(&text));
    } else {
        (void)fprintf(stderr, "kvasir %s: %.*s\n", cli->command, (int)fault.len,
                      fault.len != 0 ? fault.ptr : "");
    }
    buf_fini(&fault);
    buf_fini(&text);
    return code;
}
