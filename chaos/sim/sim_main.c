/*
 * kvasir-sim: runs seeds of the simulator, several at a time, and prints what
 * they went through. The first that fails is made smaller and printed as the
 * command that runs it again. Exit code 1 then; 2 for bad usage.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "chaos/base/fault_script.h"
#include "chaos/sim/sim_apart.h"
#include "index/base/mutant.h"

#define TRIES 250U

#ifdef KVASIR_MUTANTS
enum mutant mutant_on = MUTANT_NONE;
#endif

struct run {
    struct sim_options options;
    uint64_t seeds;
    uint32_t jobs;
    bool twice;
    bool no_shrink;
    bool sometimes; /* all of them must have been */
    bool hashes;
    bool quiet;
    bool keep_going;
    const char *mutant;
    const char *script_path;
    struct fault_script script;
    bool show_script;
    /* So far. */
    uint64_t done;
    uint64_t failed;
    struct sim_result sum;
    uint32_t *agreed_ms;
};

static const char usage[] =
    "usage: kvasir-sim [OPTION]...\n"
    "  --seeds N       how many (default 100)\n"
    "  --seed S        the first one (default 1)\n"
    "  --jobs N        at a time (default 2)\n"
    "  --only A,B      these classes of faults; 'none': none\n"
    "  --without A,B   not these\n"
    "  --nodes N, --engines N, --chaos-ms N, --faults-max N\n"
    "  --mutant NAME   with a planted bug (needs a build with them)\n"
    "  --script FILE   what breaks, and when (chaos/base/fault_script.h); "
    "nothing "
    "else does\n"
    "  --show-script   print it in its plain form, and play nothing\n"
    "  --trace         print each event (one seed)\n"
    "  --twice         run each seed twice: the same trace\n"
    "  --hashes        print each seed's hash\n"
    "  --sometimes     fail unless all that should be reached was\n"
    "  --keep-going    print failing seeds as they are, and go on\n"
    "  --no-shrink     print a failing seed as it is\n";

static _Noreturn void
bad_usage(const char *what)
{
    (void)fprintf(stderr, "kvasir-sim: %s\n%s", what, usage);
    exit(2);
}

static uint64_t
read_faults(const char *text)
{
    char copy[512];
    uint64_t faults = 0;

    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *at = strtok(copy, ","); at != NULL; at = strtok(NULL, ",")) {
        uint32_t i = 0;
        while (i < SIM_FAULT_KINDS &&
               strcmp(sim_fault_name((enum sim_fault)i), at) != 0) {
            i++;
        }
        if (i == SIM_FAULT_KINDS && strcmp(at, "none") != 0) {
            bad_usage("no such class of faults");
        }
        faults |= i < SIM_FAULT_KINDS ? UINT64_C(1) << i : 0;
    }
    return faults;
}

static bool
read_switch(struct run *run, const char *name)
{
    bool *switches[] = {&run->twice,     &run->hashes, &run->sometimes,
                        &run->no_shrink, &run->quiet,  &run->show_script,
                        &run->keep_going};
    static const char *const names[] = {
        "--twice", "--hashes",      "--sometimes", "--no-shrink",
        "--quiet", "--show-script", "--keep-going"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(name, names[i]) == 0) {
            *switches[i] = true;
            return true;
        }
    }
    if (strcmp(name, "--trace") == 0) {
        run->options.trace = stdout;
        return true;
    }
    return false;
}

static uint64_t
read_number(const char *text)
{
    char *end;
    uint64_t number = strtoull(text, &end, 10);

    if (*text == '\0' || *end != '\0') {
        bad_usage("not a number");
    }
    return number;
}

static void
read_script(struct run *run, const char *path)
{
    static char text[FAULT_TEXT_MAX + 1];
    struct fault_error error;
    FILE *file = fopen(path, "r");

    if (file == NULL) {
        bad_usage("there is no such script");
    }
    struct slice all = {text, fread(text, 1, sizeof text, file)};
    (void)fclose(file);
    if (!fault_script_read(&run->script, all, &error)) {
        (void)fprintf(stderr, "%s:%u:%u: %s\n", path, error.line, error.column,
                      error.what);
        exit(2);
    }
    run->script_path = path;
    sim_options_script(&run->options, &run->script);
}

static void
show_script(const struct run *run)
{
    struct buf out;

    buf_init(&out, 4 * FAULT_TEXT_MAX);
    fault_script_put(&run->script, &out);
    CHECK(!out.failed);
    (void)fwrite(out.ptr, 1, out.len, stdout);
    buf_fini(&out);
}

static void
read_option(struct run *run, const char *name, const char *value)
{
    struct sim_options *o = &run->options;

    if (strcmp(name, "--seeds") == 0) {
        run->seeds = read_number(value);
    } else if (strcmp(name, "--seed") == 0) {
        o->seed = read_number(value);
    } else if (strcmp(name, "--jobs") == 0) {
        run->jobs = (uint32_t)read_number(value);
    } else if (strcmp(name, "--nodes") == 0) {
        o->nodes = (uint32_t)read_number(value);
    } else if (strcmp(name, "--engines") == 0) {
        o->engines = (uint32_t)read_number(value);
    } else if (strcmp(name, "--chaos-ms") == 0) {
        o->chaos_ms = (uint32_t)read_number(value);
    } else if (strcmp(name, "--faults-max") == 0) {
        o->faults_max = (uint32_t)read_number(value);
    } else if (strcmp(name, "--only") == 0) {
        o->faults = read_faults(value);
    } else if (strcmp(name, "--without") == 0) {
        o->faults &= ~read_faults(value);
    } else if (strcmp(name, "--script") == 0) {
        read_script(run, value);
    } else if (strcmp(name, "--mutant") == 0) {
        run->mutant = value;
    } else {
        bad_usage("no such option");
    }
}

static void
read_args(struct run *run, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            (void)fputs(usage, stdout);
            exit(0);
        }
        if (read_switch(run, argv[i])) {
            continue;
        }
        if (i + 1 == argc) {
            bad_usage("a value is missing");
        }
        read_option(run, argv[i], argv[i + 1]);
        i++;
    }
    if (run->jobs == 0 || run->jobs > SIM_JOBS_MAX ||
        run->options.nodes > SIM_NODES_MAX ||
        run->options.engines > SIM_ENGINES_MAX || run->seeds == 0) {
        bad_usage("out of range");
    }
}

/* Printing */

static void
print_faults(const char *option, uint64_t faults)
{
    const char *comma = "";

    (void)printf(" %s ", option);
    for (uint32_t i = 0; i < SIM_FAULT_KINDS; i++) {
        if ((faults >> i & 1) != 0) {
            (void)printf("%s%s", comma, sim_fault_name((enum sim_fault)i));
            comma = ",";
        }
    }
    (void)printf("%s", faults == 0 ? "none" : "");
}

static void
print_command(const struct run *run, const struct sim_options *o)
{
    (void)printf("  chaos/run --seeds 1 --seed %" PRIu64, o->seed);
    if (run->mutant != NULL) {
        (void)printf(" --mutant %s", run->mutant);
    }
    if (run->script_path != NULL) {
        (void)printf(" --script %s --no-shrink\n", run->script_path);
        return;
    }
    if (o->faults != SIM_FAULTS_ALL) {
        print_faults("--only", o->faults);
    }
    if (o->nodes != 0) {
        (void)printf(" --nodes %u", o->nodes);
    }
    if (o->engines != 0) {
        (void)printf(" --engines %u", o->engines);
    }
    if (o->chaos_ms != 0) {
        (void)printf(" --chaos-ms %u", o->chaos_ms);
    }
    if (o->faults_max != UINT32_MAX) {
        (void)printf(" --faults-max %u", o->faults_max);
    }
    (void)printf(" --no-shrink\n");
}

static _Noreturn void
report_failure(const struct run *run, struct sim_options options,
               struct sim_result result)
{
    (void)printf("seed %" PRIu64 " failed: %s\n", options.seed, result.what);
    print_command(run, &options);
    (void)fflush(stdout);
    if (!run->no_shrink && run->script_path == NULL) {
        sim_shrink(&options, &result, TRIES);
        (void)printf("made smaller: %s\n", result.what);
        print_command(run, &options);
    }
    (void)fflush(stdout);
    exit(1);
}

static int
compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void
print_summary(const struct run *run, double seconds)
{
    qsort(run->agreed_ms, run->done, sizeof *run->agreed_ms, compare);
    (void)printf("%" PRIu64 " seeds in %.1f s (%.1f a second), %" PRIu64
                 " events, %.1f h of virtual time\n",
                 run->done, seconds, (double)run->done / seconds,
                 run->sum.events, (double)run->sum.virtual_ms / 3.6e6);
    (void)printf(
        "healed to agreed: p50 %u p90 %u p99 %u max %u ms\n",
        run->agreed_ms[run->done / 2], run->agreed_ms[run->done * 9 / 10],
        run->agreed_ms[run->done * 99 / 100], run->agreed_ms[run->done - 1]);
    (void)printf("a node at rest: at most %" PRIu64
                 " KiB of logs and indexes\n",
                 run->sum.bytes_max / 1024);
    (void)printf("faults:\n");
    for (uint32_t i = 0; i < SIM_FAULT_KINDS; i++) {
        (void)printf("  %10" PRIu64 "  %-10s %s\n", run->sum.faults[i],
                     sim_fault_name((enum sim_fault)i),
                     sim_fault_help((enum sim_fault)i));
    }
    (void)printf("sometimes:\n");
    for (uint32_t i = 0; i < SIM_SOMETIMES_KINDS; i++) {
        (void)printf("  %10" PRIu64 "  %s\n", run->sum.saw[i],
                     sim_sometimes_name((enum sim_sometimes)i));
    }
}

static int
check_sometimes(const struct run *run)
{
    int missed = 0;

    for (uint32_t i = 0; i < SIM_SOMETIMES_KINDS && run->sometimes; i++) {
        if (run->sum.saw[i] == 0) {
            (void)printf("never reached: %s\n",
                         sim_sometimes_name((enum sim_sometimes)i));
            missed = 1;
        }
    }
    return missed;
}

/* Running */

/* Other jobs run the seeds after the failed one. */
static void
go_on(struct run *run, struct sim_child *child, struct sim_options options,
      const struct sim_result *result)
{
    struct sim_result none;
    uint32_t done = (uint32_t)(options.seed - child->options.seed) + 1;
    uint32_t left = child->count - done;

    (void)printf("seed %" PRIu64 " failed: %s\n", options.seed, result->what);
    (void)fflush(stdout);
    run->failed++;
    run->agreed_ms[run->done++] = 0;
    while (sim_child_next(child, &none)) {
    }
    if (left > 0) {
        options.seed++;
        sim_child_start(child, &options, left);
    }
}

static void
take(struct run *run, struct sim_child *child, const struct sim_result *result)
{
    struct sim_options options = child->options;

    options.seed += child->done - (child->pid != 0 ? 1U : 0U);
    if (result->failed && run->keep_going) {
        go_on(run, child, options, result);
        return;
    }
    if (result->failed) {
        report_failure(run, options, *result);
    }
    if (run->hashes) {
        (void)printf("%" PRIu64 " %016" PRIx64 "\n", options.seed,
                     result->hash);
    }
    if (run->twice) {
        struct sim_result again;
        sim_run_apart(&options, &again);
        if (again.hash != result->hash) {
            (void)printf("seed %" PRIu64 ": two runs, two traces\n",
                         options.seed);
            exit(1);
        }
    }
    run->agreed_ms[run->done++] = (uint32_t)result->agreed_ms;
    run->sum.events += result->events;
    run->sum.bytes_max = result->bytes_max > run->sum.bytes_max
                             ? result->bytes_max
                             : run->sum.bytes_max;
    run->sum.virtual_ms += result->virtual_ms;
    for (uint32_t i = 0; i < SIM_FAULT_KINDS; i++) {
        run->sum.faults[i] += result->faults[i];
    }
    for (uint32_t i = 0; i < SIM_SOMETIMES_KINDS; i++) {
        run->sum.saw[i] += result->saw[i];
    }
}

static double
now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void
tell_progress(const struct run *run, double *told_s, double started_s)
{
    double now = now_s();

    if (now - *told_s > 10 && !run->quiet) {
        *told_s = now;
        (void)fprintf(stderr, "%" PRIu64 " of %" PRIu64 " seeds, %.0f s\n",
                      run->done, run->seeds, now - started_s);
    }
}

/* The jobs take turns; each gets a chunk of seeds of its own. */
static void
run_all(struct run *run)
{
    struct sim_child jobs[SIM_JOBS_MAX] = {{.pid = 0}};
    struct sim_result result;
    uint64_t given = 0;
    double started_s = now_s();
    double told_s = started_s;

    while (run->done < run->seeds) {
        for (uint32_t i = 0; i < run->jobs; i++) {
            if (jobs[i].pid == 0 && given < run->seeds) {
                struct sim_options options = run->options;
                uint64_t left = run->seeds - given;
                uint64_t share = left / run->jobs / 4 + 1;
                uint32_t count =
                    (uint32_t)(share < SIM_CHUNK_MAX ? share : SIM_CHUNK_MAX);
                options.seed += given;
                given += count;
                sim_child_start(&jobs[i], &options, count);
            }
        }
        for (uint32_t i = 0; i < run->jobs; i++) {
            if (sim_child_next(&jobs[i], &result)) {
                take(run, &jobs[i], &result);
            }
        }
        tell_progress(run, &told_s, started_s);
    }
    for (uint32_t i = 0; i < run->jobs; i++) {
        (void)sim_child_next(&jobs[i], &result);
    }
    print_summary(run, now_s() - started_s);
}

/* Switches a planted bug on. False: there is none of this name here. */
static bool
plant(const char *name)
{
#ifdef KVASIR_MUTANTS
    static const char *const names[] = {"none",
#define MUTANT_NAME(NAME, name, help) #name,
                                        MUTANTS(MUTANT_NAME)
#undef MUTANT_NAME
    };

    for (uint32_t i = 0; i < MUTANT_KINDS; i++) {
        if (strcmp(names[i], name) == 0) {
            mutant_on = (enum mutant)i;
            return true;
        }
    }
#else
    (void)name;
#endif
    return false;
}

int
main(int argc, char **argv)
{
    struct run run = {
        .options = sim_options_default(1), .seeds = 100, .jobs = 2};

    read_args(&run, argc, argv);
    if (run.mutant != NULL && !plant(run.mutant)) {
        bad_usage("no such mutant in this build");
    }
    if (run.show_script) {
        if (run.script_path == NULL) {
            bad_usage("--show-script needs --script");
        }
        show_script(&run);
        return 0;
    }
    run.agreed_ms = calloc(run.seeds, sizeof *run.agreed_ms);
    if (run.agreed_ms == NULL) {
        return 1;
    }
    run_all(&run);
    free(run.agreed_ms);
    if (run.failed > 0) {
        (void)printf("failed: %" PRIu64 " seeds\n", run.failed);
        return 1;
    }
    return check_sometimes(&run);
}
