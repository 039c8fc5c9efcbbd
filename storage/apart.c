/*
 * Verifying a file in a child process, with a socket for its report.
 */
#include "storage/apart.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "storage/child_internal.h"

static void
prepare(unsigned timeout_s)
{
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

    CHECK(timeout_s > 0);
    storage_child_prepare();
    if (null >= 0) {
        (void)dup2(null, STDERR_FILENO);
    }
    (void)alarm(timeout_s);
}

/* The child died, which is the answer, unless the file had no part in it: a disk
 * is slow, and memory is what others take, too. */
static void
explain_death(struct storage_report *report, const char *name, int signal)
{
    bool innocent = signal == SIGALRM || signal == SIGKILL;

    *report = (struct storage_report){.outcome = innocent ? STORAGE_E_IO
                                                          : STORAGE_E_CORRUPT};
    (void)snprintf(report->file, sizeof report->file, "%s", name);
    (void)snprintf(report->reason, sizeof report->reason,
                   signal == SIGALRM
                       ? "reading it took too long"
                       : "the process that read it was killed by signal %d",
                   signal);
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
    if (storage_child_sockets(ends) != 0) {
        cannot(report, name, "socket pair");
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        prepare(timeout_s);
        read_file(io, name, cluster, report);
        _exit(storage_child_send(ends[1], report, sizeof(*report)) ? 0 : 1);
    }
    (void)close(ends[1]);
    if (child < 0) {
        cannot(report, name, "fork");
    } else {
        bool told = storage_child_receive(ends[0], report, sizeof(*report));
        int signal = storage_child_reap(child);
        if (!told) {
            explain_death(report, name, signal);
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
