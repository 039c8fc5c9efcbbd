/* Landlock and seccomp, by their system calls. */
#include "node/base/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index/base/check.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* it writes reports, and looks for leaks by ptrace */
#else
#define SANITIZED 0
#endif

/* Files */

#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (UINT64_C(1) << 14)
#endif
#define TRUNCATE_ABI 3

#define WRITE_FILE ((uint64_t)LANDLOCK_ACCESS_FS_WRITE_FILE)
/* All that changes what is below a folder. */
#define WRITE_BELOW                                                  \
    (WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |                    \
     LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR | \
     LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |     \
     LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |   \
     LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

static long
landlock_abi(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0,
                   LANDLOCK_CREATE_RULESET_VERSION);
}

/* Whether the calls may be made at all: a filter from before, of a service
 * manager or a container, may kill who makes them. So a child tries. */
static bool
may_ask(void)
{
    int status = 0;

    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != SECCOMP_MODE_FILTER) {
        return true;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        (void)landlock_abi();
        (void)syscall(SYS_landlock_add_rule, -1, 0, NULL, 0);
        (void)syscall(SYS_landlock_restrict_self, -1, 0);
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child &&
           WIFEXITED(status);
}

static bool
allow(int rules, const char *path, uint64_t rights)
{
    struct landlock_path_beneath_attr rule = {
        .allowed_access = rights, .parent_fd = open(path, O_PATH | O_CLOEXEC)};

    if (rule.parent_fd < 0) {
        return false;
    }
    bool good = syscall(SYS_landlock_add_rule, rules,
                        LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    (void)close(rule.parent_fd);
    return good;
}

/* The program that loads this one, which the kernel runs first. */
static int
find_loader(struct dl_phdr_info *program, size_t size, void *loader)
{
    (void)size;
    for (unsigned i = 0; i < program->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &program->dlpi_phdr[i];
        if (part->p_type == PT_INTERP) {
            uintptr_t at = (uintptr_t)program->dlpi_addr + part->p_vaddr;
            memcpy(loader, &at, sizeof at);
        }
    }
    return 1; /* libraries come behind it */
}

/* Its folder: an update of the C library puts another file in its place. No more
 * can be run so than by the loader itself, which runs what it is told to. */
static bool
allow_loader(int rules, const char *loader)
{
    char path[PATH_MAX];

    if (realpath(loader, path) == NULL) {
        return false;
    }
    char *slash = strrchr(path, '/');
    CHECK(slash != NULL);
    slash[slash == path] = '\0';
    return allow(rules, path, LANDLOCK_ACCESS_FS_EXECUTE);
}

/* This program is run anew where files are kept (storage/keeper.h). */
static bool
allow_self(int rules)
{
    const char *loader = NULL;

    (void)dl_iterate_phdr(find_loader, (void *)&loader);
    return allow(rules, "/proc/self/exe", LANDLOCK_ACCESS_FS_EXECUTE) &&
           (loader == NULL || allow_loader(rules, loader));
}

/* Where a sanitizer writes its reports: log_path='FOLDER/NAME'. */
static void
allow_reports(int rules, uint64_t rights)
{
    const char *options = SANITIZED ? getenv("ASAN_OPTIONS") : NULL;
    const char *path = options != NULL ? strstr(options, "log_path='") : NULL;
    char folder[4096] = "";

    if (path != NULL) {
        path += strlen("log_path='");
        (void)strncat(folder, path, sizeof folder - 1);
        folder[strcspn(folder, "'")] = '\0';
        char *slash = strrchr(folder, '/');
        if (slash != NULL) {
            *slash = '\0';
            (void)!allow(rules, folder, rights);
        }
    }
}

/* NULL, or why not. */
static const char *
confine_files(const char *folder)
{
    uint64_t rights = WRITE_BELOW;

    if (!may_ask()) {
        return "a filter from outside forbids Landlock";
    }
    long abi = landlock_abi();
    if (abi < 1) {
        return "the kernel has no Landlock";
    }
    if (abi >= TRUNCATE_ABI) {
        rights |= LANDLOCK_ACCESS_FS_TRUNCATE;
    }
    struct landlock_ruleset_attr handled = {
        .handled_access_fs = rights | LANDLOCK_ACCESS_FS_EXECUTE};
    int rules =
        (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
    if (rules < 0) {
        return "Landlock refused its rules";
    }
    allow_reports(rules, rights);
    const char *why = NULL;
    if (folder[0] != '\0' && !allow(rules, folder, rights)) {
        why = "the folder for files is not there";
    } else if (!allow(rules, "/dev/null", WRITE_FILE) || !allow_self(rules) ||
               syscall(SYS_landlock_restrict_self, rules, 0) != 0) {
        why = "Landlock refused its rules";
    }
    (void)close(rules);
    return why;
}

/* Calls */

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define FOREIGN_FROM UINT32_C(0x40000000) /* x32's numbers */
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define FOREIGN_FROM UINT32_C(0x40000000) /* there are none */
#else
#define ARCHITECTURE 0 /* others are left alone */
#define FOREIGN_FROM UINT32_C(0x40000000)
#endif

static const int refused[] = {
#if !SANITIZED
    SYS_ptrace,
#endif
    /* other processes */
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_kcmp,
    /* the kernel */
    SYS_kexec_load,
    SYS_kexec_file_load,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    SYS_syslog,
    SYS_reboot,
    SYS_acct,
    SYS_quotactl,
    SYS_swapon,
    SYS_swapoff,
    /* keys */
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    /* what it sees of the machine */
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
    SYS_mount_setattr,
    SYS_unshare,
    SYS_setns,
    SYS_name_to_handle_at,
    SYS_open_by_handle_at,
    /* the machine's clock and names */
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_clock_adjtime,
    SYS_adjtimex,
    SYS_sethostname,
    SYS_setdomainname,
#if defined(__x86_64__)
    SYS_iopl,
    SYS_ioperm,
    SYS_modify_ldt,
#endif
};

#define NAMESPACES                                                 \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | \
     CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)
#define STEPS_MAX 160U

struct steps {
    struct sock_filter step[STEPS_MAX];
    unsigned short count;
};

static void
add(struct steps *steps, uint16_t code, uint32_t value, uint8_t skip)
{
    CHECK(steps->count < STEPS_MAX);
    steps->step[steps->count++] =
        (struct sock_filter){.code = code, .jf = skip, .k = value};
}

static void
load(struct steps *steps, size_t offset)
{
    add(steps, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0);
}

/* If the test holds for the value that was loaded, the call ends so. */
static void
answer(struct steps *steps, uint16_t test, uint32_t value, uint32_t end)
{
    add(steps, BPF_JMP | test | BPF_K, value, 1);
    add(steps, BPF_RET | BPF_K, end, 0);
}

#define FAILS_WITH(error) (SECCOMP_RET_ERRNO | (uint32_t)(error))

static void
write_steps(struct steps *steps)
{
    steps->count = 0;
    load(steps, offsetof(struct seccomp_data, arch));
    add(steps, BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 0);
    steps->step[steps->count - 1].jt = 1;
    add(steps, BPF_RET | BPF_K, FAILS_WITH(EPERM), 0);
    load(steps, offsetof(struct seccomp_data, nr));
    answer(steps, BPF_JGE, FOREIGN_FROM, FAILS_WITH(EPERM));
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        answer(steps, BPF_JEQ, (uint32_t)refused[i], FAILS_WITH(EPERM));
    }
    /* Its flags are behind a pointer; the C library falls back to clone. */
    answer(steps, BPF_JEQ, SYS_clone3, FAILS_WITH(ENOSYS));
    add(steps, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 3);
    load(steps, offsetof(struct seccomp_data, args[0]));
    answer(steps, BPF_JSET, NAMESPACES, FAILS_WITH(EPERM));
    add(steps, BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0);
}

static bool
has_seccomp(void)
{
    /* Where there are filters, one is looked for at that address. By prctl, as
     * filters of service managers may know no other way. */
    return ARCHITECTURE != 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL, 0, 0) != 0 &&
           errno == EFAULT;
}

/* NULL, or why not. */
static const char *
confine_calls(void)
{
    struct steps steps;

    if (!has_seccomp()) {
        return "the kernel has no seccomp filters";
    }
    write_steps(&steps);
    struct sock_fprog program = {.len = steps.count, .filter = steps.step};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0
               ? NULL
               : "seccomp refused its filter";
}

/* Both */

void
confine_look(struct confined *out)
{
    bool files = may_ask() && landlock_abi() >= 1;
    bool calls = has_seccomp();

    *out = (struct confined){
        .files = files,
        .calls = calls,
        .why = !files   ? "the kernel has no Landlock"
               : !calls ? "the kernel has no seccomp filters"
                        : "",
    };
}

void
confine(const char *folder, struct confined *out)
{
    *out = (struct confined){.why = "no_new_privs was refused"};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return;
    }
    const char *files = confine_files(folder);
    const char *calls = confine_calls();
    *out = (struct confined){
        .files = files == NULL,
        .calls = calls == NULL,
        .why = files != NULL   ? files
               : calls != NULL ? calls
                               : "",
    };
}

const char *
confined_name(const struct confined *confined)
{
    return confined->files && confined->calls ? "files and calls"
           : confined->files                  ? "files"
           : confined->calls                  ? "calls"
                                              : "nothing";
}
