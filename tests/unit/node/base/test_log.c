#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "node/base/log.h"

static struct log_time now;
static int ends[2];

static void
fake_clock(struct log_time *out)
{
    *out = now;
}

static void
open_log(enum log_level level)
{
    cr_assert_eq(pipe2(ends, O_NONBLOCK), 0);
    now = (struct log_time){.wall_us = 0, .monotonic_us = 1000000000};
    log_init(&(struct log_options){.level = level,
                                   .format = LOG_FORMAT_LOGFMT,
                                   .fd = ends[1],
                                   .clock = fake_clock});
}

/* All that is in the pipe; its lines are counted. */
static unsigned
drain(char *text, size_t size)
{
    unsigned lines = 0;
    size_t len = 0;

    for (;;) {
        ssize_t n = read(ends[0], text + len, size - 1 - len);
        if (n <= 0) {
            break;
        }
        len += (size_t)n;
    }
    text[len] = '\0';
    for (size_t i = 0; i < len; i++) {
        lines += text[i] == '\n' ? 1 : 0;
    }
    return lines;
}

static void
say(int n)
{
    LOG_INFO("said", KV("n", n));
}

Test(node_log, levels_above_the_chosen_one_are_silent)
{
    char text[4096];

    open_log(LOG_LEVEL_WARNING);
    LOG_INFO("quiet");
    LOG_WARNING("heard");
    LOG_ERROR("heard_too", KV_FAULT("error", -EPIPE));
    cr_assert_eq(drain(text, sizeof text), 2);
    cr_assert_str_eq(text,
                     "1970-01-01T00:00:00.000Z warning heard\n"
                     "1970-01-01T00:00:00.000Z error heard_too error=EPIPE\n");
}

Test(node_log, repeating_lines_are_dropped_and_told)
{
    char text[8192];
    struct log_stats stats;

    open_log(LOG_LEVEL_INFO);
    for (int i = 0; i < LOG_BURST + 30; i++) {
        say(i);
    }
    cr_assert_eq(drain(text, sizeof text), LOG_BURST);
    cr_assert_null(strstr(text, "dropped"));
    now.monotonic_us += LOG_INTERVAL_US;
    say(99);
    say(100);
    cr_assert_eq(drain(text, sizeof text), 1);
    cr_assert_str_eq(text,
                     "1970-01-01T00:00:00.000Z info said n=99 dropped=30\n");
    log_stats(&stats);
    cr_assert_eq(stats.written, LOG_BURST + 1);
    cr_assert_eq(stats.dropped, 31);
    cr_assert_eq(stats.lost, 0);
}

Test(node_log, one_noisy_site_does_not_silence_another)
{
    char text[8192];

    open_log(LOG_LEVEL_INFO);
    for (int i = 0; i < 100; i++) {
        say(i);
    }
    (void)drain(text, sizeof text);
    LOG_INFO("other");
    cr_assert_eq(drain(text, sizeof text), 1);
}

Test(node_log, a_reader_who_stops_costs_lines_and_is_told)
{
    char text[8192];
    char filler[4096] = {0};
    struct log_stats stats;

    open_log(LOG_LEVEL_INFO);
    while (write(ends[1], filler, sizeof filler) > 0) {
    }
    /* A blocking descriptor from here on: waiting would hang the test. */
    cr_assert_eq(fcntl(ends[1], F_SETFL, 0), 0);
    errno = ENOENT;
    say(1);
    say(2);
    cr_assert_eq(errno, ENOENT);
    log_stats(&stats);
    cr_assert_eq(stats.lost, 2);
    while (read(ends[0], filler, sizeof filler) > 0) {
    }
    say(3);
    cr_assert_eq(drain(text, sizeof text), 1);
    cr_assert_str_eq(text, "1970-01-01T00:00:00.000Z info said n=3 lost=2\n");
}

Test(node_log, a_reader_who_is_gone_does_not_kill_the_process)
{
    struct log_stats stats;

    open_log(LOG_LEVEL_INFO);
    cr_assert_eq(close(ends[0]), 0);
    say(1);
    log_stats(&stats);
    cr_assert_eq(stats.lost, 1);
}
