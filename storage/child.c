/* How child processes of storage begin, talk and end. */
#include "storage/child_internal.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "index/base/check.h"

void
storage_child_prepare(void)
{
    static const int deadly[] = {SIGSEGV, SIGBUS, SIGABRT,
                                 SIGFPE,  SIGILL, SIGALRM};
    struct rlimit no_core = {0, 0};

    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) {
        (void)signal(deadly[i], SIG_DFL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)setrlimit(RLIMIT_CORE, &no_core);
}

int
storage_child_sockets(int ends[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
}

bool
storage_child_send(int fd, const void *bytes, size_t size)
{
    const char *at = bytes;

    CHECK(fd >= 0 && (bytes != NULL || size == 0));
    while (size > 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
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

bool
storage_child_receive(int fd, void *bytes, size_t size)
{
    char *at = bytes;

    CHECK(fd >= 0 && (bytes != NULL || size == 0));
    while (size > 0) {
        ssize_t n = recv(fd, at, size, 0);
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

int
storage_child_reap(pid_t child)
{
    int status = 0;

    CHECK(child > 0);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}
