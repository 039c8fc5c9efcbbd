/* Several threads log into one pipe: every line comes out whole, and what was
 * written, dropped and lost adds up to what was said. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "index/base/counter.h"
#include "node/base/log.h"

#define THREADS 4
#define LINES   20000
#define START   "1970-01-01T00:00:00.000Z info said n="

static struct counter ticks;
static int ends[2];

/* Fast enough that one line in eight passes the limit. */
static void
fake_clock(struct log_time *now)
{
    counter_add(&ticks, 1);
    now->wall_us = 0;
    now->monotonic_us = counter_read(&ticks) * (LOG_INTERVAL_US / 8);
}

static void *
talk(void *unused)
{
    char text[1200];

    (void)unused;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < LINES; i++) {
        LOG_INFO("said", KV("n", i),
                 KV("text", ((struct slice){text, i % sizeof text})),
                 KV("end", "end"));
    }
    return NULL;
}

/* Closes the pipe behind the last line. */
static void *
run_talkers(void *unused)
{
    pthread_t threads[THREADS];
    unsigned started = 0;

    (void)unused;
    while (started < THREADS &&
           pthread_create(&threads[started], NULL, talk, NULL) == 0) {
        started++;
    }
    for (unsigned i = 0; i < started; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    (void)close(ends[1]);
    return NULL;
}

/* How many lines came; UINT64_MAX when one of them was torn. */
static uint64_t
count_lines(FILE *in)
{
    char line[LOG_LINE_MAX + 1];
    uint64_t lines = 0;

    while (fgets(line, sizeof line, in) != NULL) {
        if (strncmp(line, START, sizeof START - 1) != 0 ||
            strchr(line, '\n') == NULL || strstr(line, " end=end") == NULL) {
            printf("log: a torn line: %s\n", line);
            return UINT64_MAX;
        }
        lines++;
    }
    return lines;
}

int
main(void)
{
    struct log_stats stats;
    pthread_t talkers;

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return EXIT_FAILURE;
    }
    FILE *in = fdopen(ends[0], "r");
    log_init(&(struct log_options){
        .level = LOG_LEVEL_INFO, .fd = ends[1], .clock = fake_clock});
    if (in == NULL || pthread_create(&talkers, NULL, run_talkers, NULL) != 0) {
        return EXIT_FAILURE;
    }
    uint64_t lines = count_lines(in);
    (void)pthread_join(talkers, NULL);
    log_stats(&stats);
    (void)fclose(in);
    printf("log: %llu written, %llu dropped, %llu lost\n",
           (unsigned long long)stats.written, (unsigned long long)stats.dropped,
           (unsigned long long)stats.lost);
    return lines == stats.written && stats.written > THREADS &&
                   stats.written + stats.dropped + stats.lost ==
                       (uint64_t)THREADS * LINES
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
}
