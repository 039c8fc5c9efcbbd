/* `kvasir snapshot`: looks into the snapshots of a data directory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "node/cli/cli_print_internal.h"
#include "node/cli/cmd_internal.h"
#include "node/text/json_out.h"
#include "storage/storage.h"

#define OUT_MAX ((size_t)64 << 10)

static const char help[] =
    "usage: kvasir snapshot verify [--cluster NAME] [--json] DIR\n"
    "       kvasir snapshot info [--json] DIR\n"
    "\n"
    "Inspects the newest snapshot in a node's data directory (its --data), "
    "also\n"
    "while the node runs. Changes nothing.\n"
    "\n"
    "  verify          read all of it and compare each part with its digest; "
    "exit\n"
    "                  code 1 if a node would refuse to start from it. A "
    "damaged\n"
    "                  file can crash only the child process that reads it\n"
    "  info            read only the summary in its header\n"
    "  --cluster NAME  refuse a snapshot of another cluster\n"
    "  --json          print JSON\n"
    "  -h, --help      this text\n"
    "\n"
    "examples:\n"
    "  kvasir snapshot info /var/lib/kvasir\n"
    "  kvasir snapshot verify --json /var/lib/kvasir | jq .outcome\n";

enum {
    WHAT, /* verify or info */
    DIR,
    OPERANDS_MAX,
};

struct request {
    const char *operands[OPERANDS_MAX]; /* NULL: not told */
    uint32_t operands_count;
    const char *cluster;
    bool json;
    bool help;
};

#define AT(member) offsetof(struct request, member)

static const struct flag table[] = {
    {.name = "DIR",
     .kind = FLAG_OPERAND,
     .at = AT(operands),
     .max = OPERANDS_MAX,
     .count_at = AT(operands_count)},
    {.name = "cluster", .kind = FLAG_ANY, .at = AT(cluster)},
    {.name = "json", .kind = FLAG_SWITCH, .at = AT(json)},
    {.name = "help", .kind = FLAG_SWITCH, .at = AT(help), .letter = 'h'},
};

static const struct flags flags = {table, sizeof table / sizeof table[0]};

static int
refuse(const char *why, const char *about)
{
    (void)fprintf(stderr, "kvasir snapshot: %s%s\n", why, about);
    return CMD_USAGE;
}

/* ---- the answer ---- */

static void
put_json(struct buf *out, const struct storage_report *r)
{
    struct json_out json;

    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_text(&json, "outcome", storage_outcome_name(r->outcome));
    json_out_put_text(&json, "reason", r->reason);
    json_out_put_text(&json, "file", r->file);
    json_out_put_text(&json, "cluster", r->cluster);
    json_out_put_text(&json, "node", r->node);
    json_out_put_uint(&json, "format_major", r->major);
    json_out_put_uint(&json, "format_minor", r->minor);
    json_out_put_uint(&json, "generation", r->generation);
    json_out_put_uint(&json, "number", r->number);
    json_out_put_uint(&json, "taken_ms", r->taken_ms);
    json_out_put_uint(&json, "streams", r->streams);
    json_out_put_uint(&json, "blocks", r->blocks);
    json_out_put_uint(&json, "engine_names", r->ledger_blocks);
    json_out_put_uint(&json, "parts", r->parts);
    json_out_put_uint(&json, "bytes", r->bytes);
    json_out_put_uint(&json, "file_bytes", r->file_bytes);
    json_out_object_end(&json);
    buf_add_text(out, "\n");
}

static void
put_time(struct buf *out, uint64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;
    char text[32] = "";

    if (gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    buf_printf(out, "taken         %s\n", text);
}

static void
put_table(struct buf *out, const struct storage_report *r, bool verified)
{
    buf_printf(out, "file          %s\n", r->file);
    if (r->outcome != STORAGE_OK) {
        buf_printf(out, "refused       %s\n", r->reason);
        return;
    }
    buf_printf(out, "verified      %s\n", verified ? "yes" : "no, only read");
    buf_printf(out, "cluster       %s\n", r->cluster);
    buf_printf(out, "node          %s\n", r->node);
    put_time(out, r->taken_ms);
    buf_printf(out, "format        %u.%u\n", r->major, r->minor);
    buf_printf(out, "snapshot      %" PRIu64 " of life %" PRIu64 "\n",
               r->number, r->generation);
    buf_printf(out, "streams       %u\n", r->streams);
    buf_printf(out, "blocks        %" PRIu64 "\n", r->blocks);
    buf_printf(out, "engine names  %" PRIu64 "\n", r->ledger_blocks);
    buf_printf(out, "bytes         %" PRIu64 " in %u parts\n", r->bytes,
               r->parts);
    buf_printf(out, "file bytes    %" PRIu64 "\n", r->file_bytes);
}

static int
answer(const struct request *request, const struct storage_report *report)
{
    bool verify = strcmp(request->operands[WHAT], "verify") == 0;
    struct buf out;

    buf_init(&out, OUT_MAX);
    if (request->json) {
        put_json(&out, report);
    } else {
        put_table(&out, report, verify);
    }
    int code = cli_print_buf("snapshot", &out);
    buf_fini(&out);
    return code == CMD_FINE && report->outcome != STORAGE_OK ? CMD_FAILED
                                                             : code;
}

static void
look_at(const struct request *request, struct storage_io *io, const char *name,
        struct storage_report *report)
{
    if (strcmp(request->operands[WHAT], "verify") == 0) {
        storage_verify_apart(io, name, request->cluster, STORAGE_VERIFY_S,
                             report);
    } else {
        storage_look_apart(io, name, request->cluster, STORAGE_VERIFY_S,
                           report);
    }
}

/* The newest file that has a snapshot: a life that just began, or was short,
 * leaves one without. Or what to look at it came to. */
static void
look(const struct request *request, struct storage_report *report)
{
    char name[STORAGE_NAME_MAX] = "";
    uint64_t below = UINT64_MAX;
    struct storage_io *io = NULL;
    enum storage_outcome rc =
        storage_lmdb_new(&io, request->operands[DIR], STORAGE_INSPECT, 0);

    *report = (struct storage_report){.outcome = STORAGE_E_EMPTY};
    while (rc == STORAGE_OK && report->outcome == STORAGE_E_EMPTY) {
        rc = storage_newest(io, &below, name);
        if (rc == STORAGE_OK) {
            look_at(request, io, name, report);
        }
    }
    if (rc != STORAGE_OK) {
        *report = (struct storage_report){.outcome = rc};
        (void)snprintf(report->reason, sizeof report->reason, "%s",
                       rc != STORAGE_E_MISSING ? storage_outcome_name(rc)
                       : access(request->operands[DIR], F_OK) == 0
                           ? "there is no snapshot"
                           : "there is no snapshot, nor the directory");
    }
    storage_io_free(io);
}

int
cmd_snapshot(char *const *argv)
{
    struct request request = {.operands = {NULL}};
    struct storage_report report;

    if (!cli_parse("snapshot", &flags, &request, argv)) {
        return CMD_USAGE;
    }
    if (request.help) {
        return cli_print("snapshot", SLICE(help));
    }
    if (request.operands[WHAT] == NULL) {
        return refuse("expected verify or info, and a directory", "");
    }
    if (strcmp(request.operands[WHAT], "verify") != 0 &&
        strcmp(request.operands[WHAT], "info") != 0) {
        return refuse("expected verify or info, not ", request.operands[WHAT]);
    }
    if (request.operands[DIR] == NULL) {
        return refuse("expected a directory", "");
    }
    look(&request, &report);
    if (report.file[0] == '\0' && report.outcome != STORAGE_OK) {
        (void)fprintf(stderr, "kvasir snapshot: %s: %s\n",
                      request.operands[DIR], report.reason);
        return CMD_FAILED;
    }
    return answer(&request, &report);
}
