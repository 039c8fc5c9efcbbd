/* The process's log: levels, the rate limit of repeating lines, the write. */
#include "node/base/log.h"

#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "index/base/check.h"
#include "index/base/counter.h"
#include "node/base/log_line_internal.h"

static void
system_clock(struct log_time *now)
{
    struct timespec t;

    CHECK(clock_gettime(CLOCK_REALTIME, &t) == 0);
    now->wall_us = (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
    now->monotonic_us =
        (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* Written by log_init() only, before there are threads. */
static struct log_options settings = {
    .fd = STDERR_FILENO,
    .clock = system_clock,
};

/* These change while lines are written. */
static struct gauge level_now = {LOG_LEVEL_INFO};
static struct gauge format_now = {LOG_FORMAT_LOGFMT};

static struct counter written;
static struct counter dropped;
static struct counter lost;
static struct counter untold; /* lost, and no line has said so yet */

void
log_init(const struct log_options *options)
{
    settings = *options;
    log_set(options->level, options->format);
    if (settings.clock == NULL) {
        settings.clock = system_clock;
    }
}

void
log_set(enum log_level level, enum log_format format)
{
    gauge_set(&level_now, (int32_t)level);
    gauge_set(&format_now, (int32_t)format);
}

bool
log_enabled(enum log_level level)
{
    return (uint32_t)level <= gauge_read(&level_now);
}

/* Whether a write of a page would succeed at once. Otherwise a terminal or pipe
 * whose reader stopped would block the thread. */
static bool
is_writable(int fd)
{
    struct pollfd wait = {.fd = fd, .events = POLLOUT};

    return poll(&wait, 1, 0) == 1 &&
           (wait.revents & (POLLOUT | POLLERR)) == POLLOUT;
}

static bool
write_line(int fd, const char *line, size_t len)
{
    ssize_t n;

    if (!is_writable(fd)) {
        return false;
    }
    do {
        n = write(fd, line, len);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)len;
}

void
log_write(struct log_site *site, enum log_level level,
          const struct log_field *fields, size_t count)
{
    struct log_line line = {.format = (enum log_format)gauge_read(&format_now),
                            .level = level,
                            .fields = fields,
                            .count = count};
    struct log_time now;
    char text[LOG_LINE_MAX];

    settings.clock(&now);
    line.wall_us = now.wall_us;
    if (!gate_pass(&site->gate, now.monotonic_us, LOG_INTERVAL_US,
                   site->burst != 0 ? site->burst : LOG_BURST, &line.dropped)) {
        counter_add(&dropped, 1);
        return;
    }
    line.lost = counter_take(&untold);
    size_t len = log_line_format(&line, text);
    int saved = errno; /* logging never changes the caller's errno */
    if (write_line(settings.fd, text, len)) {
        counter_add(&written, 1);
    } else {
        counter_add(&lost, 1);
        /* The counts of this line must still be reported. */
        counter_add(&untold, 1 + line.lost + line.dropped);
    }
    errno = saved;
}

void
log_stats(struct log_stats *stats)
{
    *stats = (struct log_stats){
        .written = counter_read(&written),
        .dropped = counter_read(&dropped),
        .lost = counter_read(&lost),
    };
}
