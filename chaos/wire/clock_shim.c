/*
 * A library to preload into programs under test. It shifts their clocks by as
 * much as a file says, and the file may change while they run. Time namespaces
 * shift the monotonic clock alone, and only at the start.
 *
 * KVASIR_CHAOS_CLOCK names a file of two signed native 64-bit numbers: by how
 * many seconds the wall clock and the monotonic clock are ahead. Without it the
 * clocks are right. A wait of a given length keeps its length; a wait until a
 * given moment ends when it would have ended as of its beginning.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct shift {
    int64_t wall_s;
    int64_t monotonic_s;
};

static const struct shift none;
static const volatile struct shift *shift = &none; /* another one writes it */

__attribute__((constructor)) static void
open_shift(void)
{
    const char *path = getenv("KVASIR_CHAOS_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        void *at = mmap(NULL, sizeof *shift, PROT_READ, MAP_SHARED, fd, 0);
        shift = at != MAP_FAILED ? at : &none;
        (void)close(fd);
    }
}

static int64_t
shift_of(clockid_t clock)
{
    switch (clock) {
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
        return shift->wall_s;
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
        return shift->monotonic_s;
    default:
        return 0;
    }
}

int
clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    int rc = (int)syscall(SYS_clock_gettime, clock_id, tp);

    if (rc == 0) {
        tp->tv_sec += shift_of(clock_id);
    }
    return rc;
}

int
gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec fine;
    int rc = clock_gettime(CLOCK_REALTIME, &fine);

    (void)tz;
    tv->tv_sec = fine.tv_sec;
    tv->tv_usec = fine.tv_nsec / 1000;
    return rc;
}

time_t
time(time_t *timer)
{
    struct timespec now = {.tv_sec = -1};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (timer != NULL) {
        *timer = now.tv_sec;
    }
    return now.tv_sec;
}

static int64_t
distance_s(clockid_t clock, const struct timespec *until)
{
    struct timespec now;

    (void)clock_gettime(clock, &now);
    return now.tv_sec < until->tv_sec ? until->tv_sec - now.tv_sec
                                      : now.tv_sec - until->tv_sec;
}

/* The clock that a condition waits by is hidden: assumes the one that is
 * closer. */
int
pthread_cond_timedwait(pthread_cond_t *restrict cond,
                       pthread_mutex_t *restrict mutex,
                       const struct timespec *restrict abstime)
{
    clockid_t clock = distance_s(CLOCK_MONOTONIC, abstime) <
                              distance_s(CLOCK_REALTIME, abstime)
                          ? CLOCK_MONOTONIC
                          : CLOCK_REALTIME;
    struct timespec truly = *abstime;

    truly.tv_sec -= shift_of(clock);
    return pthread_cond_clockwait(cond, mutex, clock, &truly);
}
