/* What a confined process still may. Each test confines a child of its own; its
 * exit code is the line of the first expectation that did not hold. */
#include "node/base/confine.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/kvasir-confine-XXXXXX";
static char inside[64];
static char outside[64];
static struct confined has;
static int failed_line;

#define EXPECT(holds)                       \
    do {                                    \
        if (!(holds) && failed_line == 0) { \
            failed_line = __LINE__;         \
        }                                   \
    } while (0)

static void
name(char out[64], const char *end)
{
    (void)snprintf(out, 64, "%s/%s", folder, end);
}

static void
begin(void)
{
    cr_assert_not_null(mkdtemp(folder));
    name(inside, "data");
    name(outside, "other");
    cr_assert_eq(mkdir(inside, 0700), 0);
    int fd = open(outside, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_eq(write(fd, "text", 4), 4);
    cr_assert_eq(close(fd), 0);
    confine_look(&has);
}

static void
end(void)
{
    char command[96];

    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}

TestSuite(node_confine, .init = begin, .fini = end);

/* Runs it in a child that is confined. */
static void
in_child(const char *where, void (*look)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct confined told;
        confine(where, &told);
        EXPECT(told.files == has.files && told.calls == has.calls);
        look();
        _exit(failed_line < 256 ? failed_line : 255);
    }
    cr_assert_gt(child, 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status));
    cr_assert_eq(WEXITSTATUS(status), 0, "line %d", WEXITSTATUS(status));
}

static int
open_at(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    int error = errno;

    if (fd >= 0) {
        (void)close(fd);
        return 0;
    }
    return error;
}

static int
in_folder(const char *end_of_name, int flags)
{
    char path[128];

    (void)snprintf(path, sizeof path, "%s/%s", inside, end_of_name);
    return open_at(path, flags);
}

static void
look_at_files(void)
{
    char from[128];
    char fresh[64];

    (void)snprintf(from, sizeof from, "%s/b", inside);
    name(fresh, "fresh");
    EXPECT(in_folder("a", O_CREAT | O_RDWR) == 0);
    EXPECT(in_folder("b", O_CREAT | O_WRONLY | O_TRUNC) == 0);
    EXPECT(open_at(outside, O_RDONLY) == 0);
    EXPECT(open_at(outside, O_WRONLY) == EACCES);
    EXPECT(open_at(outside, O_WRONLY | O_TRUNC) == EACCES);
    EXPECT(open_at(fresh, O_CREAT | O_WRONLY) == EACCES);
    EXPECT(rename(from, fresh) != 0 && (errno == EACCES || errno == EXDEV));
    EXPECT(unlink(outside) != 0 && errno == EACCES);
    EXPECT(mkdir(fresh, 0700) != 0 && errno == EACCES);
    EXPECT(symlink("a", fresh) != 0 && errno == EACCES);
    EXPECT(unlink(from) == 0);
    EXPECT(open_at("/dev/null", O_WRONLY) == 0);
}

Test(node_confine, files_are_written_below_the_folder_alone)
{
    if (!has.files) {
        cr_skip_test("%s", has.why);
    }
    in_child(inside, look_at_files);
}

static void
look_at_nowhere(void)
{
    EXPECT(in_folder("a", O_CREAT | O_RDWR) == EACCES);
    EXPECT(open_at(outside, O_RDONLY) == 0);
}

Test(node_confine, without_a_folder_nothing_is_written)
{
    if (!has.files) {
        cr_skip_test("%s", has.why);
    }
    in_child("", look_at_nowhere);
}

static void *
look_in_thread(void *nothing)
{
    look_at_nowhere();
    return nothing;
}

static void
look_from_thread(void)
{
    pthread_t thread;

    EXPECT(pthread_create(&thread, NULL, look_in_thread, NULL) == 0);
    EXPECT(pthread_join(thread, NULL) == 0);
}

Test(node_confine, threads_that_come_later_have_the_same_bounds)
{
    if (!has.files) {
        cr_skip_test("%s", has.why);
    }
    in_child("", look_from_thread);
}

static int
spawn(char *program)
{
    char *argv[] = {program, NULL};
    char *none[] = {NULL};
    pid_t child;

    int error = posix_spawn(&child, program, NULL, NULL, argv, none);
    if (error == 0) {
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
    }
    return error;
}

static void
look_at_programs(void)
{
    static char shell[] = "/bin/sh";
    static char self[] = "/proc/self/exe";

    EXPECT(spawn(shell) == EACCES);
    EXPECT(spawn(self) == 0);
}

Test(node_confine, no_program_is_run_but_this_one)
{
    if (!has.files) {
        cr_skip_test("%s", has.why);
    }
    in_child(inside, look_at_programs);
}

/* Each would do without bounds, or fail otherwise. */
static void
look_at_calls(void)
{
    long clone_flags = CLONE_NEWUSER | SIGCHLD;

    EXPECT(syscall(SYS_unshare, CLONE_NEWUSER) == -1 && errno == EPERM);
    EXPECT(syscall(SYS_clone, clone_flags, 0, 0, 0, 0) == -1 && errno == EPERM);
    EXPECT(syscall(SYS_clone3, NULL, 0) == -1 && errno == ENOSYS);
    EXPECT(syscall(SYS_keyctl, 0, -3, 0, 0, 0) == -1 && errno == EPERM);
    EXPECT(syscall(SYS_bpf, -1, NULL, 0) == -1 && errno == EPERM);
    EXPECT(syscall(SYS_io_uring_setup, 1, NULL) == -1 && errno == EPERM);
    EXPECT(syscall(SYS_process_vm_readv, getpid(), NULL, 0, NULL, 0, 0) == -1 &&
           errno == EPERM);
    EXPECT(syscall(SYS_mount, "none", inside, "tmpfs", 0, NULL) == -1 &&
           errno == EPERM);
}

Test(node_confine, calls_that_no_router_needs_fail)
{
    if (!has.calls) {
        cr_skip_test("%s", has.why);
    }
    in_child(inside, look_at_calls);
}

Test(node_confine, a_folder_that_is_not_there_leaves_files_as_they_were)
{
    struct confined told;
    char absent[64];
    int status = 0;

    name(absent, "absent");
    pid_t child = fork();
    if (child == 0) {
        confine(absent, &told);
        _exit(told.files || open_at(outside, O_WRONLY) != 0 ||
              strcmp(told.why, "") == 0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* As a service manager's may: it kills whoever asks for Landlock. */
static void
forbid_landlock(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_create_ruleset, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = steps};

    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

Test(node_confine, a_filter_that_kills_who_asks_kills_no_node)
{
    int status = 0;

    if (!has.calls) {
        cr_skip_test("%s", has.why);
    }
    pid_t child = fork();
    if (child == 0) {
        struct confined told;
        forbid_landlock();
        confine(inside, &told);
        _exit(told.files || !told.calls ||
              strcmp(told.why, "a filter from outside forbids Landlock") != 0);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status), "signal %d", WTERMSIG(status));
    cr_assert_eq(WEXITSTATUS(status), 0);
}

Test(node_confine, what_is_in_force_has_a_name)
{
    cr_assert_str_eq(
        confined_name(&(struct confined){.files = true, .calls = true}),
        "files and calls");
    cr_assert_str_eq(confined_name(&(struct confined){.files = true}), "files");
    cr_assert_str_eq(confined_name(&(struct confined){.calls = true}), "calls");
    cr_assert_str_eq(confined_name(&(struct confined){.why = ""}), "nothing");
}
