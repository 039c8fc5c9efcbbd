/* The keeper's process: answers questions about one file until its socket is
 * closed. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "storage/child_internal.h"
#include "storage/keeper.h"
#include "storage/keeper_internal.h"
#include "storage/lmdb_io.h"

#define NICE     10
#define FIRST_FD 3U /* the first one that the node may have left open */

struct desk {
    const char *dir;
    uint64_t bytes_max;
    struct storage_io *io; /* NULL: no file is open */
    char *bytes;           /* the question's */
    size_t room;
};

/* Ignores signals that are meant for the node, closes files that the node left
 * open, and ends with the node. */
static void
stand_alone(void)
{
    static const int ignored[] = {SIGTERM, SIGINT,  SIGHUP,
                                  SIGQUIT, SIGPIPE, SIGXFSZ};

    storage_child_prepare();
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        (void)signal(ignored[i], SIG_IGN);
    }
    (void)close_range(FIRST_FD, ~0U, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)prctl(PR_SET_NAME, "kvasir-keeper");
}

/* Lets threads that serve requests run first, as the disk's thread in the node
 * does (disk.c). */
static void
stand_back(void)
{
    struct sched_param none = {0};

    (void)sched_setscheduler(0, SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, 0, NICE);
}

static void
close_file(struct desk *desk)
{
    storage_io_free(desk->io);
    desk->io = NULL;
}

/* Opens the disk anew each time: the directory may have been replaced. */
static enum storage_outcome
open_file(struct desk *desk, const struct keeper_question *question)
{
    char name[STORAGE_NAME_MAX];

    CHECK(question->len > 0 && question->len < sizeof name);
    CHECK(desk->bytes != NULL);
    memcpy(name, desk->bytes, (size_t)question->len);
    name[question->len] = '\0';
    close_file(desk);
    enum storage_outcome rc =
        storage_lmdb_new(&desk->io, desk->dir, STORAGE_KEEP, desk->bytes_max);
    if (rc != STORAGE_OK) {
        return rc;
    }
    if (question->op == KEEPER_CREATE) {
        stand_back();
        rc = desk->io->ops->create(desk->io, name);
    } else {
        rc = desk->io->ops->open(desk->io, name);
    }
    if (rc != STORAGE_OK) {
        close_file(desk);
    }
    return rc;
}

static enum storage_outcome
answer(struct desk *desk, const struct keeper_question *question,
       struct slice *value)
{
    struct slice bytes = {.ptr = desk->bytes, .len = (size_t)question->len};
    struct storage_io *io = desk->io;

    if (question->op == KEEPER_CREATE || question->op == KEEPER_OPEN) {
        return open_file(desk, question);
    }
    CHECK(io != NULL || question->op == KEEPER_CLOSE);
    switch ((enum keeper_op)question->op) {
    case KEEPER_BEGIN:
        return io->ops->begin(io);
    case KEEPER_PUT:
        return io->ops->put(io, question->key, bytes);
    case KEEPER_DROP:
        return io->ops->drop(io, question->key);
    case KEEPER_COMMIT:
        return io->ops->commit(io);
    case KEEPER_ABORT:
        io->ops->abort(io);
        return STORAGE_OK;
    case KEEPER_GET:
        return io->ops->get(io, question->key, value);
    case KEEPER_CLOSE:
    case KEEPER_CREATE:
    case KEEPER_OPEN:
        break;
    }
    close_file(desk);
    return STORAGE_OK;
}

static bool
receive(struct desk *desk, struct keeper_question *question)
{
    if (!storage_child_receive(STDIN_FILENO, question, sizeof *question)) {
        return false;
    }
    if (question->len > desk->room) {
        free(desk->bytes);
        desk->bytes = malloc((size_t)question->len);
        desk->room = desk->bytes != NULL ? (size_t)question->len : 0;
    }
    return desk->room >= question->len &&
           storage_child_receive(STDIN_FILENO, desk->bytes,
                                 (size_t)question->len);
}

int
storage_keeper_main(char *const *argv)
{
    struct keeper_question question;
    struct desk desk = {.dir = argv[0]};
    bool sent = true;

    if (argv[0] == NULL || argv[1] == NULL) {
        return 2;
    }
    desk.bytes_max = strtoull(argv[1], NULL, 10);
    stand_alone();
    while (sent && receive(&desk, &question)) {
        struct slice value = {0};
        struct keeper_answer to = {
            .outcome = (uint32_t)answer(&desk, &question, &value)};
        to.size = desk.io != NULL ? desk.io->ops->size(desk.io) : 0;
        to.len = value.len;
        /* Fails if the value lies beyond the end of a truncated file. */
        sent = storage_child_send(STDIN_FILENO, &to, sizeof to) &&
               storage_child_send(STDIN_FILENO, value.ptr, value.len);
    }
    _exit(0); /* leaves the file as a crash would, which is sound */
}
