/* kvasir-plan: how many engines, of which kind. See --help. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "chaos/base/whole_file.h"
#include "chaos/plan/plan_options.h"
#include "chaos/plan/plan_paper.h"
#include "chaos/plan/plan_read.h"
#include "chaos/plan/plan_report.h"

#define INPUT_BYTES_MAX  ((size_t)2 << 30)
#define RESULT_BYTES_MAX ((size_t)16 << 20)

enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2
};

static int
complain(const char *what, const char *why, int code)
{
    (void)fprintf(stderr, "kvasir plan: %s%s%s\n", what,
                  what[0] != '\0' ? ": " : "", why);
    return code;
}

/* The whole mix of the file that the options name, and what it says of
 * rates. */
static int
fill_mix(const struct plan_options *options, struct slice bytes,
         struct plan_mix *mix, struct plan_seen *seen, char *fault,
         size_t fault_size)
{
    const struct plan_wanted wanted = {options->model, options->tenant};
    struct plan_bucket buckets[PLAN_BUCKETS_MAX];
    struct plan_cdf cdf = {
        .output_mean = options->output_share,
        .output_deviation = options->output_deviation,
    };

    if (options->trace != NULL) {
        return plan_read_trace(bytes, mix, &seen->busiest_rate, fault,
                               fault_size);
    }
    if (options->mix != NULL) {
        return plan_read_mix(bytes, &wanted, mix, seen, fault, fault_size);
    }
    int outcome = plan_read_cdf(bytes, buckets, &cdf, fault, fault_size);
    return outcome == 0 ? plan_mix_add_cdf(mix, &cdf) : outcome;
}

static int
make_mix(const struct plan_options *options, struct plan_mix *mix,
         struct plan_seen *seen)
{
    const char *path = plan_options_file(options);
    char fault[256] = "too many requests";
    struct buf bytes;

    *seen = (struct plan_seen){.nodes = 0};
    buf_init(&bytes, INPUT_BYTES_MAX);
    int outcome = whole_file_read(path, &bytes);
    if (outcome == 0) {
        outcome = fill_mix(options, buf_slice(&bytes), mix, seen, fault,
                           sizeof(fault));
    }
    buf_fini(&bytes);
    if (outcome < 0) {
        return complain(path, strerror(-outcome),
                        outcome == -ENOMEM ? EXIT_FAILED : EXIT_USAGE);
    }
    if (outcome > 0) {
        return complain(path, fault, EXIT_USAGE);
    }
    plan_mix_finish(mix);
    return EXIT_FINE;
}

static int
make_plan(const struct plan_options *options, const struct plan_mix *mix,
          const struct plan_seen *seen, struct buf *out)
{
    const char *name = plan_options_file(options);
    struct plan_setup setup;
    struct plan plan;
    char fault[256];

    if (plan_options_setup(options, mix, seen, &setup, fault, sizeof(fault)) !=
        0) {
        return complain("", fault, EXIT_USAGE);
    }
    if (plan_make(&setup, &plan) != 0) {
        return complain("", "out of memory", EXIT_FAILED);
    }
    int code = EXIT_FINE;
    if (options->svg != NULL) {
        plan_report_svg(&plan, name, out);
        int error = whole_file_write(options->svg, out);
        buf_clear(out);
        code = error == 0
                   ? EXIT_FINE
                   : complain(options->svg, strerror(-error), EXIT_FAILED);
    }
    if (options->json) {
        plan_report_json(&plan, name, out);
    } else {
        plan_report_table(&plan, name, out);
    }
    return code;
}

static int
show_paper(const struct plan_options *options, struct buf *out)
{
    static struct plan_paper paper;

    if (plan_paper_make((uint32_t)options->requests, options->seed, &paper) !=
        0) {
        return complain("", "out of memory", EXIT_FAILED);
    }
    if (options->json) {
        plan_paper_json(&paper, out);
    } else {
        plan_paper_table(&paper, out);
    }
    return EXIT_FINE;
}

int
main(int argc, char **argv)
{
    struct plan_options options;
    struct plan_mix mix;
    struct buf out;
    char fault[512];
    struct plan_seen seen;

    (void)argc;
    if (plan_options_parse(&options, argv, fault, sizeof(fault)) != 0) {
        return complain("", fault, EXIT_USAGE);
    }
    if (options.help) {
        return flags_print(plan_options_help) ? EXIT_FINE : EXIT_FAILED;
    }
    plan_mix_init(&mix);
    buf_init(&out, RESULT_BYTES_MAX);
    int code = options.paper ? show_paper(&options, &out)
                             : make_mix(&options, &mix, &seen);
    if (code == EXIT_FINE && !options.paper) {
        code = make_plan(&options, &mix, &seen, &out);
    }
    if (code != EXIT_USAGE && out.len > 0) {
        int error = whole_file_write("-", &out);
        code = error == 0 ? code
                          : complain("result", strerror(-error), EXIT_FAILED);
    }
    buf_fini(&out);
    plan_mix_fini(&mix);
    return code;
}
