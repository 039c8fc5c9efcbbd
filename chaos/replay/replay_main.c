/* kvasir-replay: a load through the simulator, policy by policy. See --help. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chaos/base/whole_file.h"
#include "chaos/replay/replay_bound.h"
#include "chaos/replay/replay_generate.h"
#include "chaos/replay/replay_options.h"
#include "chaos/replay/replay_real.h"
#include "chaos/replay/replay_report.h"
#include "chaos/replay/replay_trace.h"

#define TRACE_BYTES_MAX  ((size_t)2 << 30)
#define RESULT_BYTES_MAX ((size_t)16 << 20)
#define HEADERS_MAX      ((size_t)1 << 20)

enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2
};

static int
complain(const char *what, const char *why, int code)
{
    (void)fprintf(stderr, "kvasir replay: %s: %s\n", what, why);
    return code;
}

static int
read_trace(const char *path, struct replay_load *load)
{
    struct replay_fault fault;
    struct buf bytes;

    buf_init(&bytes, TRACE_BYTES_MAX);
    int error = whole_file_read(path, &bytes);
    if (error < 0) {
        buf_fini(&bytes);
        return complain(path, strerror(-error), EXIT_USAGE);
    }
    int outcome = replay_trace_read(buf_slice(&bytes), load, &fault);
    buf_fini(&bytes);
    if (outcome == REPLAY_TRACE_E_BAD) {
        (void)fprintf(stderr, "kvasir replay: %s:%u: %s\n", path, fault.line,
                      fault.text);
        return EXIT_USAGE;
    }
    return outcome < 0 ? complain(path, strerror(-outcome), EXIT_FAILED)
                       : EXIT_FINE;
}

static int
make_load(const struct replay_options *options, struct replay_load *load)
{
    uint64_t until_us =
        options->until_s > 0 ? (uint64_t)(options->until_s * 1e6) : UINT64_MAX;
    int outcome;

    if (options->trace != NULL) {
        outcome = read_trace(options->trace, load);
        if (outcome != EXIT_FINE) {
            return outcome;
        }
    } else {
        outcome = replay_generate(options->workload, options->seed,
                                  (uint32_t)options->requests, load);
        if (outcome != 0) {
            return complain("workload", "out of memory", EXIT_FAILED);
        }
    }
    outcome = replay_load_limit(load, until_us, (uint32_t)options->requests);
    if (outcome < 0) {
        return complain("load", strerror(-outcome), EXIT_FAILED);
    }
    return load->count > 0
               ? EXIT_FINE
               : complain("load", "there are no requests", EXIT_USAGE);
}

/* All cells of the table; 0 or -ENOMEM. */
static int
play(const struct replay_options *options, const struct replay_load *load,
     struct replay_row *rows)
{
    uint32_t at = 0;

    for (uint32_t l = 0; l < options->loads_count; l++) {
        for (uint32_t p = 0; p < options->policies_count; p++) {
            struct replay_row *row = &rows[at++];
            row->policy = options->policies[p];
            row->load_permille = options->loads_permille[l];
            struct replay_setup setup =
                replay_options_setup(options, row->policy, row->load_permille);
            int error = replay_run(&setup, load, &row->result);
            if (error < 0) {
                return error;
            }
        }
    }
    return 0;
}

/* The result goes to stdout, even where the plot finds no place. */
static int
print(const struct replay_options *options, const struct replay_report *report)
{
    struct buf out;
    int error = 0;

    buf_init(&out, RESULT_BYTES_MAX);
    if (options->svg != NULL) {
        replay_report_svg(report, &out);
        error = whole_file_write(options->svg, &out);
        buf_clear(&out);
    }
    int code = error == 0
                   ? EXIT_FINE
                   : complain(options->svg, strerror(-error), EXIT_FAILED);
    if (options->json) {
        replay_report_json(report, &out);
    } else {
        replay_report_table(report, &out);
    }
    error = whole_file_write("-", &out);
    buf_fini(&out);
    return error == 0 ? code
                      : complain("result", strerror(-error), EXIT_FAILED);
}

/* The lines of a file, each ending in CRLF, as heads have them. */
static int
read_headers(const char *path, struct buf *out)
{
    struct buf bytes;

    buf_init(&bytes, HEADERS_MAX);
    int error = whole_file_read(path, &bytes);
    for (size_t i = 0, from = 0; error == 0 && i <= bytes.len; i++) {
        bool ends = i == bytes.len || bytes.ptr[i] == '\n';
        size_t len = i - from;
        if (!ends) {
            continue;
        }
        len -= len > 0 && bytes.ptr[i - 1] == '\r';
        if (len > 0) {
            buf_add(out, bytes.ptr + from, len);
            buf_add_text(out, "\r\n");
        }
        from = i + 1;
    }
    buf_fini(&bytes);
    return error == 0 ? EXIT_FINE
                      : complain(path, strerror(-error), EXIT_USAGE);
}

/* The row of real nodes: count is filled, and row. */
static int
play_real(const struct replay_options *options, const struct replay_load *load,
          struct replay_count *count, char *model, struct replay_row *row)
{
    struct replay_setup setup = replay_options_setup(
        options, REPLAY_KVASIR, options->loads_permille[0]);
    struct replay_real_setup real = {
        .nodes = options->nodes_at,
        .nodes_count = options->nodes_at_count,
        .model = options->model,
        .open_max = (uint32_t)options->open_max,
    };
    char fault[REPLAY_REAL_FAULT_MAX] = "";
    struct buf headers;

    buf_init(&headers, 2 * HEADERS_MAX);
    int code = options->headers_file != NULL
                   ? read_headers(options->headers_file, &headers)
                   : EXIT_FINE;
    if (code == EXIT_FINE) {
        real.headers = buf_slice(&headers);
        int outcome = replay_real_run(&real, &setup, load, count, model, fault);
        if (outcome == REPLAY_REAL_E_NODE) {
            code = complain("--nodes-at", fault, EXIT_FAILED);
        } else if (outcome == REPLAY_REAL_E_STOPPED) {
            code = complain("real", "stopped by a signal", EXIT_FAILED);
        } else if (outcome < 0) {
            code = complain("real", strerror(-outcome), EXIT_FAILED);
        }
        row->load_permille = options->loads_permille[0];
        row->real = count;
        replay_count_result(count, options->real_engines, &row->result);
    }
    buf_fini(&headers);
    return code;
}

static int
report_all(const struct replay_options *options, const struct replay_load *load,
           struct replay_row *rows, uint32_t count)
{
    struct replay_bounds bounds;
    struct replay_count real = {.load = NULL};
    char model[REPLAY_REAL_MODEL_MAX];
    int code = EXIT_FINE;

    if (replay_bound(
            load, (uint32_t)options->block_tokens,
            options->kv_tokens / options->block_tokens * options->engines,
            &bounds) < 0 ||
        play(options, load, rows) < 0) {
        return complain("replay", "out of memory", EXIT_FAILED);
    }
    if (options->nodes_at_count > 0) {
        struct replay_setup setup =
            replay_options_setup(options, REPLAY_KVASIR, 1000);
        if (replay_count_init(&real, &setup, load) != 0) {
            return complain("replay", "out of memory", EXIT_FAILED);
        }
        code = play_real(options, load, &real, model, &rows[count - 1]);
    }
    struct replay_report report = {
        .load =
            options->trace != NULL ? options->trace : options->workload->name,
        .timing = options->timing->name,
        .nodes = (uint32_t)options->nodes,
        .engines = (uint32_t)options->engines,
        .kv_tokens = (uint32_t)options->kv_tokens,
        .seed = options->seed,
        .requests = load->count,
        .sharing_permille = bounds.sharing_permille,
        .bound_share = bounds.share,
        .scaler = options->wave_s > 0 || options->scaler != REPLAY_SCALE_FIXED
                      ? options->scaler_name
                      : NULL,
        .rows = rows,
        .rows_count = count,
        .nodes_at = options->node_list,
        .model = model,
    };
    if (code == EXIT_FINE || real.stats.sent > 0) {
        int printed = print(options, &report);
        code = code == EXIT_FINE ? printed : code;
    }
    replay_count_fini(&real);
    return code;
}

static int
replay(const struct replay_options *options, const struct replay_load *load)
{
    uint32_t count = options->loads_count * options->policies_count +
                     (options->nodes_at_count > 0);
    struct replay_row *rows = calloc(count, sizeof(*rows));

    if (rows == NULL) {
        return complain("replay", "out of memory", EXIT_FAILED);
    }
    int code = report_all(options, load, rows, count);
    free(rows);
    return code;
}

int
main(int argc, char **argv)
{
    struct replay_options options;
    struct replay_load load;
    struct replay_limits limits = REPLAY_LIMITS_DEFAULT;
    char fault[512];

    (void)argc;
    if (replay_options_parse(&options, argv, fault, sizeof(fault)) != 0) {
        (void)fprintf(stderr, "kvasir replay: %s\n", fault);
        return EXIT_USAGE;
    }
    if (options.help) {
        return flags_print(replay_options_help) ? EXIT_FINE : EXIT_FAILED;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    replay_load_init(&load, &limits);
    int code = make_load(&options, &load);
    if (code == EXIT_FINE) {
        code = replay(&options, &load);
    }
    replay_load_fini(&load);
    return code;
}
