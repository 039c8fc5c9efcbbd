/*
 * Reads one worker's events by the intake, as a node does, for events_ways.py,
 * which has the source:
 *
 *   bench_events_reader EVENTS REPLAY COUNT [KEY VALUE]...
 *
 * Prints `live N` when it has read N batches and is up to date, and at the end, with
 * batch COUNT - 1, the process' CPU time (all threads, the kernel's part
 * too) and the time, both from the start and from that line on, in microseconds.
 * What the thread does that takes records out of the ring (and nothing with them)
 * is not counted.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <uv.h>

#include "node/events/intake.h"

#define FLAGS_MAX 8

struct moment {
    double cpu_us;
    double us;
};

static struct config config;
static struct intake *intake;
static struct intake_worker worker = {
    .generation = 1, .identity = 42, .ranks = 1, .id = "engine"};
static uint64_t wanted;
static uint64_t read_count;
static struct moment start;
static struct moment live;

static double
seconds_us(const struct timeval *at)
{
    return (double)at->tv_sec * 1e6 + (double)at->tv_usec;
}

/* But for this thread. */
static struct moment
now(void)
{
    struct rusage usage;
    struct timespec own;

    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &own) == 0);
    return (struct moment){
        .cpu_us = seconds_us(&usage.ru_utime) + seconds_us(&usage.ru_stime) -
                  (double)own.tv_sec * 1e6 - (double)own.tv_nsec / 1e3,
        .us = (double)uv_hrtime() / 1e3,
    };
}

static void
end(uv_loop_t *loop)
{
    struct moment at = now();

    printf("read %" PRIu64 " cpu_us %.0f us %.0f live_cpu_us %.0f live_us "
           "%.0f\n",
           read_count, at.cpu_us - start.cpu_us, at.us - start.us,
           at.cpu_us - live.cpu_us, at.us - live.us);
    (void)fflush(stdout);
    uv_stop(loop);
}

static void
take(const struct intake_item *item, uv_loop_t *loop)
{
    const struct event_record *record = (const void *)(item + 1);

    if (item->kind == INTAKE_STATE && item->state == KV_STREAM_LIVE &&
        live.us == 0) {
        live = now();
        printf("live %" PRIu64 "\n", read_count);
        (void)fflush(stdout);
    } else if (item->kind == INTAKE_RECORD) {
        read_count++;
        if (record->seq + 1 == wanted) {
            end(loop);
        }
    }
}

static void
on_wake(uv_async_t *wake)
{
    const struct intake_item *item;
    size_t size;

    while ((item = ring_peek(intake_ring(intake), &size)) != NULL) {
        take(item, wake->loop);
        ring_consume(intake_ring(intake));
    }
}

static bool
read_arguments(int argc, char **argv)
{
    struct config_flag flags[FLAGS_MAX];
    struct config_errors errors;
    size_t count = 0;

    if (argc < 4 || argc > 4 + 2 * FLAGS_MAX ||
        url_parse_events(slice_of(argv[1]), &worker.events) != NULL ||
        url_parse_events(slice_of(argv[2]), &worker.replay) != NULL) {
        return false;
    }
    wanted = strtoull(argv[3], NULL, 10);
    for (int i = 4; i + 1 < argc; i += 2) {
        flags[count++] =
            (struct config_flag){.key = argv[i], .value = argv[i + 1]};
    }
    config_init(&config);
    config_errors_init(&errors);
    config_apply_flags(&config, flags, count, &errors);
    config_complete_events(&config);
    bool good = errors.count == 0;
    config_errors_fini(&errors);
    return good;
}

int
main(int argc, char **argv)
{
    uv_loop_t loop;
    uv_async_t wake;

    if (!read_arguments(argc, argv)) {
        (void)fprintf(stderr, "bench_events_reader EVENTS REPLAY COUNT [KEY "
                              "VALUE]...\n");
        return 2;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    CHECK(uv_loop_init(&loop) == 0);
    CHECK(uv_async_init(&loop, &wake, on_wake) == 0);
    CHECK(intake_new(&intake, &config, &wake, 1) == 0);
    CHECK(intake_start(intake) == 0);
    start = now();
    CHECK(intake_add(intake, &worker) == 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    intake_free(intake);
    uv_close((uv_handle_t *)&wake, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    CHECK(uv_loop_close(&loop) == 0);
    config_fini(&config);
    return 0;
}
