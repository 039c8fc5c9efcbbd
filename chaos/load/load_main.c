/* kvasir-load: the load client as a program. See --help. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "chaos/base/whole_file.h"
#include "chaos/load/load_run_internal.h"
#include "node/node.h"

#define RESULT_BYTES_MAX ((size_t)1 << 20)
#define DESCRIPTORS      (UINT64_C(1) << 20) /* one for each user */

enum {
    EXIT_FINE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2
};

static bool
print_result(struct load_run *run)
{
    struct load_report report = load_run_report(run);
    struct buf out;

    buf_init(&out, RESULT_BYTES_MAX);
    if (run->options->json) {
        load_report_json(&report, &out);
    } else {
        load_report_table(&report, &out);
    }
    int error = whole_file_write("-", &out);
    buf_fini(&out);
    return error == 0;
}

static int
play(const struct load_options *options)
{
    struct load_run *run = malloc(sizeof(*run));
    uv_loop_t loop;
    int result = EXIT_FAILED;

    if (run == NULL || uv_loop_init(&loop) != 0) {
        free(run);
        return EXIT_FAILED;
    }
    int r = load_run_init(run, &loop, options);
    if (r != 0) {
        (void)fprintf(stderr, "kvasir-load: %s\n", uv_strerror(r));
        goto close_loop;
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    if (print_result(run) && !run->stopped) {
        result = EXIT_FINE;
    }
    load_run_fini(run);
close_loop:
    CHECK(uv_loop_close(&loop) == 0);
    free(run);
    return result;
}

int
main(int argc, char **argv)
{
    struct load_options options;
    char fault[512];

    (void)argc;
    if (load_options_parse(&options, argv, fault, sizeof(fault)) != 0) {
        (void)fprintf(stderr, "kvasir-load: %s\n", fault);
        return EXIT_USAGE;
    }
    if (options.help) {
        return flags_print(load_options_help) ? EXIT_FINE : EXIT_FAILED;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sock_raise_limit(DESCRIPTORS);
    return play(&options);
}
