/* Runs seeds in processes of their own, so that a failed CHECK ends one
 * seed. */
#include "chaos/sim/sim_apart.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index/base/check.h"

static void
write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n <= 0) {
            _exit(3);
        }
        at += n;
        size -= (size_t)n;
    }
}

static bool
read_all(int fd, void *bytes, size_t size)
{
    char *at = bytes;

    while (size > 0) {
        ssize_t n = read(fd, at, size);
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* Of the processor: how long a run stands still is the machine's matter. */
static void
limit_time(const struct sim_options *options)
{
    time_t hours = 1 + options->chaos_ms / SIM_HOUR_MS;
    const struct itimerval most = {.it_value.tv_sec = SIM_RUN_S * hours};

    (void)setitimer(ITIMER_PROF, &most, NULL);
}

static _Noreturn void
be_child(int fd, const struct sim_options *options, uint32_t count)
{
    struct sim_result result = {.failed = false};
    struct sim_options now = *options;

    for (uint32_t i = 0; i < count && !result.failed; i++) {
        now.seed = options->seed + i;
        limit_time(&now);
        sim_run(&now, &result);
        if (now.trace != NULL) {
            (void)fflush(now.trace);
        }
        write_all(fd, &result, sizeof result);
    }
    _exit(0);
}

void
sim_child_start(struct sim_child *child, const struct sim_options *options,
                uint32_t count)
{
    int ends[2];

    CHECK(pipe(ends) == 0);
    (void)fflush(NULL);
    *child = (struct sim_child){.options = *options, .count = count};
    child->pid = fork();
    CHECK(child->pid >= 0);
    if (child->pid == 0) {
        (void)close(ends[0]);
        be_child(ends[1], options, count);
    }
    (void)close(ends[1]);
    child->pipe = ends[0];
}

static void
bury(struct sim_child *child, struct sim_result *result)
{
    int status = 0;

    (void)close(child->pipe);
    CHECK(waitpid(child->pid, &status, 0) == child->pid);
    if (status == 0) {
        return;
    }
    memset(result, 0, sizeof *result);
    result->failed = true;
    (void)snprintf(result->what, sizeof result->what, "%s",
                   !WIFSIGNALED(status) ? "the run ended itself (sanitizer?)"
                   : WTERMSIG(status) == SIGPROF ? "the run does not end"
                                                 : "a CHECK failed, or worse");
}

bool
sim_child_next(struct sim_child *child, struct sim_result *result)
{
    if (child->pid == 0) {
        return false;
    }
    if (read_all(child->pipe, result, sizeof *result)) {
        child->done++;
        return true;
    }
    result->failed = false;
    bury(child, result);
    child->pid = 0;
    return result->failed;
}

void
sim_run_apart(const struct sim_options *options, struct sim_result *result)
{
    struct sim_child child;
    struct sim_result next;

    sim_child_start(&child, options, 1);
    memset(result, 0, sizeof *result);
    while (sim_child_next(&child, &next)) {
        *result = next;
    }
}

/* Shrinking */

struct shrink {
    struct sim_options best;
    struct sim_result result;
    uint32_t tries;
};

/* True: the smaller run still fails, and replaces the present one. */
static bool
try(struct shrink *s, const struct sim_options *options)
{
    struct sim_result result;

    if (s->tries == 0) {
        return false;
    }
    s->tries--;
    sim_run_apart(options, &result);
    if (result.failed) {
        s->best = *options;
        s->result = result;
    }
    return result.failed;
}

static void
drop_faults(struct shrink *s)
{
    for (uint32_t i = 0; i < SIM_FAULT_KINDS; i++) {
        struct sim_options less = s->best;
        less.faults &= ~(UINT64_C(1) << i);
        if (less.faults != s->best.faults) {
            (void)try(s, &less);
        }
    }
}

static void
drop_hosts(struct shrink *s, const struct sim_result *first)
{
    for (uint32_t n = 1; n < first->nodes; n++) {
        struct sim_options less = s->best;
        less.nodes = n;
        if (try(s, &less)) {
            break;
        }
    }
    for (uint32_t n = 1; n < first->engines; n++) {
        struct sim_options less = s->best;
        less.engines = n;
        if (try(s, &less)) {
            break;
        }
    }
}

/* Halves the part that is removed for as long as removing it is too much. */
static void
shrink_time(struct shrink *s, uint32_t chaos_ms)
{
    uint32_t now = s->best.chaos_ms != 0 ? s->best.chaos_ms : chaos_ms;

    for (uint32_t step = now / 2; step > 50; step /= 2) {
        struct sim_options less = s->best;
        less.chaos_ms = now - step;
        if (less.chaos_ms > 0 && try(s, &less)) {
            now = less.chaos_ms;
        }
    }
}

static void
shrink_faults(struct shrink *s)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < SIM_FAULT_KINDS; i++) {
        sum += s->result.faults[i];
    }
    uint32_t now =
        sum < s->best.faults_max ? (uint32_t)sum : s->best.faults_max;
    for (uint32_t step = (now + 1) / 2; step > 0; step /= 2) {
        struct sim_options less = s->best;
        less.faults_max = now > step ? now - step : 0;
        if (less.faults_max < now && try(s, &less)) {
            now = less.faults_max;
        }
    }
}

void
sim_shrink(struct sim_options *options, struct sim_result *result,
           uint32_t tries)
{
    struct shrink s = {.best = *options, .result = *result, .tries = tries};
    struct sim_result first;

    s.best.trace = NULL;
    sim_run_apart(&s.best, &first);
    if (first.failed) {
        drop_faults(&s);
        drop_hosts(&s, &first);
        shrink_time(&s, first.chaos_ms != 0 ? first.chaos_ms : 12000);
        shrink_faults(&s);
        drop_faults(&s);
    }
    *options = s.best;
    *result = s.result;
}
