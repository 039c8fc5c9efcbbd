/* The node's side of the keeper: a disk that asks the keeper's process. */
#include "storage/keeper.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storage/child_internal.h"
#include "storage/keeper_internal.h"
#include "storage/lmdb_io.h"

struct keeper {
    struct storage_io io;
    struct storage_io *local;
    char *dir;
    uint64_t bytes_max;
    pid_t process; /* 0: there is none */
    int fd;
    uint64_t size;     /* of the file, as the last answer says */
    char *value;       /* of the last GET */
    bool asked;        /* a GET ahead, whose answer nobody has received yet */
    uint64_t expected; /* ... its key */
};

static struct keeper *
keeper_of(struct storage_io *io)
{
    return (struct keeper *)(void *)io;
}

/* The process */

static void
bury(struct keeper *keeper)
{
    if (keeper->process == 0) {
        return;
    }
    CHECK(keeper->fd >= 0);
    (void)close(keeper->fd);
    (void)kill(keeper->process, SIGKILL);
    (void)storage_child_reap(keeper->process);
    keeper->process = 0;
    keeper->fd = -1;
    keeper->size = 0;
    keeper->asked = false;
}

static int
execute(const struct keeper *keeper, int fd, pid_t *process)
{
    char program[] = "/proc/self/exe";
    char command[] = STORAGE_KEEPER_COMMAND;
    char bytes[24];
    char *argv[] = {program, command, keeper->dir, bytes, NULL};
    posix_spawn_file_actions_t actions;

    (void)snprintf(bytes, sizeof bytes, "%llu",
                   (unsigned long long)keeper->bytes_max);
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0) {
        return error;
    }
    error = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    if (error == 0) {
        error = posix_spawn(process, program, &actions, NULL, argv, environ);
    }
    (void)posix_spawn_file_actions_destroy(&actions);
    return error;
}

static enum storage_outcome
hire(struct keeper *keeper)
{
    int ends[2];
    pid_t process = 0;

    if (keeper->process != 0) {
        return STORAGE_OK;
    }
    if (storage_child_sockets(ends) != 0) {
        return STORAGE_E_KEEPER;
    }
    int error = execute(keeper, ends[1], &process);
    (void)close(ends[1]);
    if (error != 0) {
        (void)close(ends[0]);
        return error == ENOMEM ? STORAGE_E_MEMORY : STORAGE_E_KEEPER;
    }
    keeper->process = process;
    keeper->fd = ends[0];
    return STORAGE_OK;
}

/* Questions */

/* Receives the answer's bytes. False: no memory, or the keeper is gone. */
static bool
receive_value(struct keeper *keeper, uint64_t len)
{
    free(keeper->value);
    keeper->value = len < SIZE_MAX ? malloc((size_t)len + 1) : NULL;
    return keeper->value != NULL &&
           storage_child_receive(keeper->fd, keeper->value, (size_t)len);
}

static bool
send_question(struct keeper *keeper, enum keeper_op op, uint64_t key,
              struct slice bytes)
{
    struct keeper_question question = {
        .op = (uint32_t)op, .key = key, .len = bytes.len};

    return storage_child_send(keeper->fd, &question, sizeof question) &&
           storage_child_send(keeper->fd, bytes.ptr, bytes.len);
}

static bool
receive_answer(struct keeper *keeper, struct keeper_answer *answer)
{
    return storage_child_receive(keeper->fd, answer, sizeof *answer) &&
           answer->outcome < STORAGE_OUTCOMES &&
           (answer->len == 0 || receive_value(keeper, answer->len));
}

static enum storage_outcome
ask(struct keeper *keeper, enum keeper_op op, uint64_t key, struct slice bytes,
    struct slice *value)
{
    struct keeper_answer answer;

    if (keeper->process == 0) {
        return STORAGE_E_KEEPER;
    }
    bool asked = keeper->asked && op == KEEPER_GET && key == keeper->expected;
    bool stray = keeper->asked && !asked;
    keeper->asked = false;
    if ((stray && !receive_answer(keeper, &answer)) ||
        (!asked && !send_question(keeper, op, key, bytes)) ||
        !receive_answer(keeper, &answer)) {
        bury(keeper);
        return STORAGE_E_KEEPER;
    }
    keeper->size = answer.size;
    if (value != NULL) {
        *value = (struct slice){.ptr = answer.len > 0 ? keeper->value : NULL,
                                .len = answer.len};
    }
    return (enum storage_outcome)answer.outcome;
}

static enum storage_outcome
ask_plain(struct storage_io *io, enum keeper_op op)
{
    return ask(keeper_of(io), op, 0, (struct slice){0}, NULL);
}

/* Asks for a file by its name. Starts a keeper if there is none. */
static enum storage_outcome
ask_for(struct keeper *keeper, enum keeper_op op, const char *name)
{
    enum storage_outcome rc = hire(keeper);

    CHECK(strlen(name) < STORAGE_NAME_MAX);
    return rc == STORAGE_OK ? ask(keeper, op, 0, slice_of(name), NULL) : rc;
}

/* The port */

static enum storage_outcome
list(struct storage_io *io, struct storage_names *names)
{
    struct storage_io *local = keeper_of(io)->local;

    return local->ops->list(local, names);
}

static enum storage_outcome
rename_file(struct storage_io *io, const char *from, const char *to)
{
    struct storage_io *local = keeper_of(io)->local;

    return local->ops->rename(local, from, to);
}

static enum storage_outcome
remove_file(struct storage_io *io, const char *name)
{
    struct storage_io *local = keeper_of(io)->local;

    return local->ops->remove(local, name);
}

static enum storage_outcome
create(struct storage_io *io, const char *name)
{
    struct keeper *keeper = keeper_of(io);
    enum storage_outcome rc = storage_lmdb_renew(keeper->local);

    return rc == STORAGE_OK ? ask_for(keeper, KEEPER_CREATE, name) : rc;
}

static enum storage_outcome
open_file(struct storage_io *io, const char *name)
{
    struct keeper *keeper = keeper_of(io);
    enum storage_outcome rc = ask_for(keeper, KEEPER_OPEN, name);

    if (rc != STORAGE_OK) {
        bury(keeper); /* it must not be asked for a part */
    }
    return rc;
}

/* A keeper that died has no file open, so it is not asked. */
static void
close_file(struct storage_io *io)
{
    struct keeper *keeper = keeper_of(io);

    if (keeper->process != 0) {
        (void)ask_plain(io, KEEPER_CLOSE);
    }
    free(keeper->value);
    keeper->value = NULL;
}

static enum storage_outcome
begin(struct storage_io *io)
{
    return ask_plain(io, KEEPER_BEGIN);
}

static enum storage_outcome
put(struct storage_io *io, uint64_t key, struct slice bytes)
{
    return ask(keeper_of(io), KEEPER_PUT, key, bytes, NULL);
}

static enum storage_outcome
drop(struct storage_io *io, uint64_t key)
{
    return ask(keeper_of(io), KEEPER_DROP, key, (struct slice){0}, NULL);
}

static enum storage_outcome
commit(struct storage_io *io)
{
    return ask_plain(io, KEEPER_COMMIT);
}

static void
abort_txn(struct storage_io *io)
{
    (void)ask_plain(io, KEEPER_ABORT);
}

static enum storage_outcome
get(struct storage_io *io, uint64_t key, struct slice *bytes)
{
    *bytes = (struct slice){0};
    return ask(keeper_of(io), KEEPER_GET, key, (struct slice){0}, bytes);
}

/* Asks already, so that the keeper reads while the node does something else
 * with the value it has. */
static void
expect(struct storage_io *io, uint64_t key)
{
    struct keeper *keeper = keeper_of(io);

    if (keeper->process != 0 && !keeper->asked) {
        keeper->expected = key;
        keeper->asked =
            send_question(keeper, KEEPER_GET, key, (struct slice){0});
    }
}

static uint64_t
size_of_file(struct storage_io *io)
{
    return keeper_of(io)->size;
}

static void
free_io(struct storage_io *io)
{
    struct keeper *keeper = keeper_of(io);

    close_file(io);
    bury(keeper);
    storage_io_free(keeper->local);
    free(keeper->dir);
    free(keeper);
}

static const struct storage_io_ops keeper_ops = {
    .list = list,
    .rename = rename_file,
    .remove = remove_file,
    .create = create,
    .open = open_file,
    .close = close_file,
    .begin = begin,
    .put = put,
    .drop = drop,
    .commit = commit,
    .abort = abort_txn,
    .get = get,
    .expect = expect,
    .size = size_of_file,
    .free = free_io,
};

enum storage_outcome
storage_keeper_new(struct storage_io **out, struct storage_io *local,
                   const char *dir, uint64_t bytes_max)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));
    char *copy = strdup(dir);

    CHECK(out != NULL && local != NULL);
    if (keeper == NULL || copy == NULL) {
        storage_io_free(local);
        free(keeper);
        free(copy);
        return STORAGE_E_MEMORY;
    }
    *keeper = (struct keeper){.io = {.ops = &keeper_ops},
                              .local = local,
                              .dir = copy,
                              .bytes_max = bytes_max,
                              .fd = -1};
    *out = &keeper->io;
    return STORAGE_OK;
}
