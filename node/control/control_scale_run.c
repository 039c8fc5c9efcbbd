/* Calls about engines to a program: scale.command. It is started, and looked
 * after once a second; nobody waits for it. What it prints goes into files
 * without a name that cannot grow, so it blocks for nobody either, and what it
 * started in turn may keep them open. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/control/control.h"
#include "node/control/control_scale_call.h"

#define WORDS 8U /* of the environment that are added */
#define WORD  (SCALE_MODEL_MAX + 16U)
#define LINE  256U /* of its errors, in the log */

/* A file of SCALE_ANSWER_MAX zeros that does not grow. Below 0: none. */
static int
open_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0 && (ftruncate(fd, (off_t)SCALE_ANSWER_MAX) != 0 ||
                    fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void
close_files(struct scale_run *run)
{
    if (run->out >= 0) {
        (void)close(run->out);
    }
    if (run->err >= 0) {
        (void)close(run->err);
    }
    run->out = -1;
    run->err = -1;
}

/* The text at the file's start, without blanks before it, up to one of `ends`,
 * or what fits. */
static void
read_text(int fd, const char *ends, char *out, size_t room)
{
    ssize_t len = pread(fd, out, room - 1, 0);

    out[len > 0 ? len : 0] = '\0';
    size_t skip = strspn(out, " \t\r\n");
    size_t kept = strcspn(out + skip, ends);
    memmove(out, out + skip, kept);
    out[kept] = '\0';
}

/* Ours, and what the call is about. */
static void ON_CONTROL
say_words(const struct scale_call *call, const struct scale_job *job,
          char words[WORDS][WORD])
{
    const struct control *control = call->control;
    const struct control_scale_act *act = &control->scale.act;

    (void)snprintf(words[0], WORD, "ENGINE_ACTION=%s",
                   call->provision ? "provision" : "terminate");
    (void)snprintf(words[1], WORD, "ENGINE_KEY=%s", job->key);
    (void)snprintf(words[2], WORD, "ENGINE_EPOCH=%" PRIu32,
                   act->seat.lease.own.epoch);
    (void)snprintf(words[3], WORD, "ENGINE_BY=%s", control->node->config->name);
    (void)snprintf(words[4], WORD, "ENGINE_MODEL=%s", job->record.model);
    (void)snprintf(words[5], WORD, "ENGINE_WORKER=%s", job->record.worker);
    (void)snprintf(words[6], WORD, "ENGINE_MISSED=%" PRIu64,
                   act->missed_in_row);
    (void)snprintf(words[7], WORD, "ENGINE_POOL=%s", job->record.pool);
}

/* 0 or an errno. */
static int
set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none;
    sigset_t all;

    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int error = posix_spawnattr_setsigmask(attributes, &none);
    error =
        error != 0 ? error : posix_spawnattr_setsigdefault(attributes, &all);
    error = error != 0 ? error : posix_spawnattr_setpgroup(attributes, 0);
    return error != 0 ? error
                      : posix_spawnattr_setflags(attributes,
                                                 POSIX_SPAWN_SETSIGMASK |
                                                     POSIX_SPAWN_SETSIGDEF |
                                                     POSIX_SPAWN_SETPGROUP);
}

/* 0 or an errno. */
static int
set_actions(posix_spawn_file_actions_t *actions, const struct scale_run *run)
{
    int error = posix_spawn_file_actions_addopen(actions, STDIN_FILENO,
                                                 "/dev/null", O_RDONLY, 0);

    error = error != 0 ? error
                       : posix_spawn_file_actions_adddup2(actions, run->out,
                                                          STDOUT_FILENO);
    return error != 0 ? error
                      : posix_spawn_file_actions_adddup2(actions, run->err,
                                                         STDERR_FILENO);
}

/* 0 or an errno. */
static int
spawn(struct scale_run *run, char *const argv[], char *const environment[])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;

    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        error = set_attributes(&attributes);
        error = error != 0 ? error : set_actions(&actions, run);
        error = error != 0 ? error
                           : posix_spawn(&run->pid, argv[0], &actions,
                                         &attributes, argv, environment);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* The words, and of the node's own environment what has none of their names. */
static void
fill(char **environment, char words[WORDS][WORD])
{
    size_t count = 0;

    for (; count < WORDS; count++) {
        environment[count] = words[count];
    }
    for (char **own = environ; *own != NULL; own++) {
        bool said = false;
        for (uint32_t i = 0; i < WORDS; i++) {
            size_t len = strcspn(words[i], "=") + 1;
            said = said || strncmp(*own, words[i], len) == 0;
        }
        if (!said) {
            environment[count++] = *own;
        }
    }
}

const char *
scale_call_run(struct scale_call *call, const struct scale_job *job)
{
    struct scale_run *run = &call->run;
    char program[CONFIG_FILE_MAX];
    char action[16];
    char key[SCALE_KEY_MAX];
    char *const argv[] = {program, action, key, NULL};
    char words[WORDS][WORD];
    size_t all = 0;

    while (environ[all] != NULL) {
        all++;
    }
    char **environment = calloc(all + WORDS + 1, sizeof(*environment));
    if (environment == NULL) {
        return "out of memory";
    }
    say_words(call, job, words);
    fill(environment, words);
    memcpy(program, call->pool.command, sizeof(program));
    (void)snprintf(action, sizeof(action), "%s",
                   call->provision ? "provision" : "terminate");
    memcpy(key, job->key, sizeof(key));
    run->out = open_file("scale-out");
    run->err = open_file("scale-err");
    run->begun_us = control_now_us();
    int error =
        run->out < 0 || run->err < 0 ? EMFILE : spawn(run, argv, environment);
    free(environment);
    if (error != 0) {
        close_files(run);
        run->pid = 0;
    }
    return error == 0        ? NULL
           : error == ENOENT ? "there is no such program"
           : error == EACCES ? "that program may not be started"
                             : "the program could not be started";
}

/* It ended so; lost: nobody knows how. */
static void ON_CONTROL
end(struct scale_call *call, int status, bool lost)
{
    struct scale_run run = call->run;
    char worker[SCALE_SPEC_MAX];
    char line[LINE];
    bool exited = !lost && WIFEXITED(status);
    struct scale_said said = {.status = exited ? WEXITSTATUS(status) : 0,
                              .worker = worker,
                              .more = line};

    read_text(run.out, " \t\r\n", worker, sizeof(worker));
    read_text(run.err, "\r\n", line, sizeof(line));
    said.why = run.late           ? "its time was over"
               : !exited          ? "it was ended"
               : said.status != 0 ? "it refused"
                                  : NULL;
    close_files(&call->run);
    call->run.pid = 0;
    scale_call_end(call, &said);
}

/* How long it may run. */
static uint64_t ON_CONTROL
time_us(const struct scale_call *call)
{
    uint32_t provision_ms = call->control->node->scale.provision_ms;

    return UINT64_C(1000) *
           (provision_ms < SCALE_RUN_MS ? provision_ms : SCALE_RUN_MS);
}

void
scale_run_look(struct scale_call *call, uint64_t now_us)
{
    struct scale_run *run = &call->run;
    int status = 0;

    if (run->pid == 0) {
        return;
    }
    pid_t ended = waitpid(run->pid, &status, WNOHANG);
    if (ended != 0) {
        end(call, status, ended < 0);
    } else if (!run->late && now_us - run->begun_us >= time_us(call)) {
        run->late = true;
        (void)kill(-run->pid, SIGKILL);
    }
}

/* It is told to end, and looked after until it has. */
void
scale_run_stop(struct scale_call *call)
{
    if (call->run.pid != 0) {
        (void)kill(-call->run.pid, SIGTERM);
    }
}
