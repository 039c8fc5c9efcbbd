/* Below the first process of a container. */
#include "node/cli/first_process_internal.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define BY_SIGNAL 128 /* and its number: as shells have it */

static bool
passes_on(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP ||
           number == SIGUSR1 || number == SIGUSR2;
}

/* All signals are blocked. Returns the node's exit code. */
static int
look_after(pid_t node, const sigset_t *all)
{
    for (;;) {
        int number = 0;
        int status;
        pid_t ended = 0;
        if (sigwait(all, &number) == 0 && passes_on(number)) {
            (void)kill(node, number);
        }
        while (number == SIGCHLD &&
               (ended = waitpid(-1, &status, WNOHANG)) > 0) {
            if (ended == node) {
                return WIFEXITED(status) ? WEXITSTATUS(status)
                                         : BY_SIGNAL + WTERMSIG(status);
            }
        }
    }
}

void
first_process_leave(void)
{
    sigset_t all;
    sigset_t before;

    if (getpid() != 1) {
        return;
    }
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t node = fork();
    if (node > 0) {
        _exit(look_after(node, &all));
    }
    /* What a terminal says to both comes once: it is passed on. */
    (void)setpgid(0, 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}
