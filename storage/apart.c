/*
 * Verifying a file in a child process, with a pipe for its report.
 */
#include "storage/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* Dies of what kills it, silently and without a core. */
static void
prepare(unsigned timeout_s)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT,
                                 SIGFPE,  SIGILL, SIGALRM};
    struct rlimit no_core = {0, 0};
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    CHECK(timeout_s > 0);
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        (void)signal(deadly[i], SIG_DFL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    if (null >= 0) {
        (void)dup2(null, STDERR_FILENO);
    }
    (void)alarm(timeout_s);
}

static bool
write_all(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    CHECK(fd >= 0 && bytes != NULL);
    while (size > 0) {
        ssize_t n = write(fd, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= (size_t)n;
    }
    return true;
}

static bool
read_all(int fd, void *bytes, size_t size)
{
    char *at = bytes;

    CHECK(fd >= 0 && bytes != NULL);
    while (size > 0) {
        ssize_t n = read(fd, at, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return false;
        }
        at += n;
        size -= (size_t)n;
    }
    return true;
}

/* The child died: that says it all. */
static void
explain_death(struct storage_report *report, const char *name, pid_t child)
{
    int status = 0;

    CHECK(child > 0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    *report = (struct storage_report){.outcome = STORAGE_E_CORRUPT};
    (void)snprintf(report->file, sizeof report->file, "%s", name);
    (void)snprintf(report->reason, sizeof report->reason,
                   "the process that read it was killed by signal %d",
                   WIFSIGNALED(status) ? WTERMSIG(status) : 0);
}

static void
cannot(struct storage_report *report, const char *name, const char *what)
{
    *report = (struct storage_report){.outcome = STORAGE_E_IO};
    (void)snprintf(report->file, sizeof report->file, "%s", name);
    (void)snprintf(report->reason, sizeof report->reason, "%s: %m", what);
}

static void
look(struct storage_io *io, const char *name, const char *cluster,
     struct storage_report *report)
{
    struct storage_load load;

    if (storage_load_open(&load, io, name, cluster, report) == STORAGE_OK) {
        storage_load_close(&load);
    }
}

/* Both have the same arguments. */
typedef void reader(struct storage_io *io, const char *name,
                    const char *cluster, struct storage_report *report);

static void
read_apart(reader *read_file, struct storage_io *io, const char *name,
           const char *cluster, unsigned timeout_s,
           struct storage_report *report)
{
    int ends[2];

    CHECK(io != NULL && name != NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        cannot(report, name, "pipe");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        prepare(timeout_s);
        read_file(io, name, cluster, report);
        _exit(write_all(ends[1], report, sizeof(*report)) ? 0 : 1);
    }
    (void)close(ends[1]);
    if (child < 0) {
        cannot(report, name, "fork");
    } else if (!read_all(ends[0], report, sizeof(*report))) {
        explain_death(report, name, child);
    } else {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    (void)close(ends[0]);
}

void
storage_verify_apart(struct storage_io *io, const char *name,
                     const char *cluster, unsigned timeout_s,
                     struct storage_report *report)
{
    read_apart(storage_verify, io, name, cluster, timeout_s, report);
}

void
storage_look_apart(struct storage_io *io, const char *name, const char *cluster,
                   unsigned timeout_s, struct storage_report *report)
{
    read_apart(look, io, name, cluster, timeout_s, report);
}
