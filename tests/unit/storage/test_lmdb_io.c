#include "storage/lmdb_io.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/storage/dir.h"

#define MAX (UINT64_C(1) << 30)

static struct storage_io *
open_dir(const char *dir, uint64_t bytes_max)
{
    struct storage_io *io = NULL;

    cr_assert_eq(storage_lmdb_new(&io, dir, STORAGE_WRITE, bytes_max),
                 STORAGE_OK);
    return io;
}

static void
put(struct storage_io *io, uint64_t key, const char *text)
{
    struct storage_txn txn;

    storage_txn_begin(&txn, io);
    storage_txn_put(&txn, key, slice_of(text));
    cr_assert_eq(storage_txn_commit(&txn), STORAGE_OK);
}

Test(lmdb_io, what_was_committed_is_read_back)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct slice bytes;

    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_OK);
    put(io, 7, "seven");
    io->ops->close(io);
    cr_assert_eq(io->ops->open(io, "a.mdb"), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 7, &bytes), STORAGE_OK);
    cr_assert(slice_equal(bytes, SLICE("seven")));
    cr_assert_eq(io->ops->get(io, 8, &bytes), STORAGE_E_MISSING);
    storage_io_free(io);
    dir_free(&dir);
}

Test(lmdb_io, an_aborted_transaction_leaves_nothing)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct storage_txn txn;
    struct slice bytes;

    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_OK);
    put(io, 1, "one");
    storage_txn_begin(&txn, io);
    storage_txn_put(&txn, 2, SLICE("two"));
    storage_txn_drop(&txn, 1);
    storage_txn_abort(&txn);
    io->ops->close(io);
    cr_assert_eq(io->ops->open(io, "a.mdb"), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 1, &bytes), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 2, &bytes), STORAGE_E_MISSING);
    storage_io_free(io);
    dir_free(&dir);
}

Test(lmdb_io, a_second_process_is_refused)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct storage_io *second = NULL;

    cr_assert_eq(storage_lmdb_new(&second, dir.path, STORAGE_WRITE, MAX),
                 STORAGE_E_BUSY);
    storage_io_free(io);
    io = open_dir(dir.path, MAX);
    storage_io_free(io);
    dir_free(&dir);
}

Test(lmdb_io, another_process_may_look_while_one_writes)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct storage_io *other = NULL;
    struct storage_names names;

    cr_assert_eq(io->ops->create(io, "kvasir-000000000000000a.mdb"),
                 STORAGE_OK);
    put(io, 1, "one");
    cr_assert_eq(storage_lmdb_new(&other, dir.path, STORAGE_INSPECT, MAX),
                 STORAGE_OK);
    cr_assert_eq(other->ops->list(other, &names), STORAGE_OK);
    cr_assert_eq(names.count, 1);
    cr_assert_str_eq(names.name[0], "kvasir-000000000000000a.mdb");
    storage_io_free(other);
    storage_io_free(io);
    dir_free(&dir);
}

/* Copies that somebody keeps there: however many, they hide no snapshot. */
Test(lmdb_io, only_snapshots_and_those_set_aside_are_listed)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct storage_names names;
    char path[192];

    for (uint32_t i = 0; i < 2 * STORAGE_FILES_MAX; i++) {
        (void)snprintf(path, sizeof path, "%s/kvasir-000000000000000a.mdb.%u",
                       dir.path, i);
        FILE *file = fopen(path, "w");
        cr_assert_not_null(file);
        (void)fclose(file);
    }
    cr_assert_eq(io->ops->create(io, "kvasir-0000000000000009.mdb"),
                 STORAGE_OK);
    io->ops->close(io);
    cr_assert_eq(io->ops->rename(io, "kvasir-0000000000000009.mdb",
                                 "kvasir-0000000000000009.mdb.aside"),
                 STORAGE_OK);
    cr_assert_eq(io->ops->create(io, "kvasir-000000000000000b.mdb"),
                 STORAGE_OK);
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_eq(names.count, 2);
    storage_io_free(io);
    dir_free(&dir);
}

Test(lmdb_io, the_bound_is_full_and_what_was_there_stays)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, 1 << 20);
    struct storage_txn txn;
    static char big[2 << 20];
    struct slice bytes;

    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_OK);
    put(io, 1, "one");
    storage_txn_begin(&txn, io);
    storage_txn_put(&txn, 2, (struct slice){big, sizeof big});
    storage_txn_put(&txn, 3, SLICE("three")); /* after a failure */
    cr_assert_eq(storage_txn_commit(&txn), STORAGE_E_FULL);
    put(io, 4, "four");
    io->ops->close(io);
    cr_assert_eq(io->ops->open(io, "a.mdb"), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 1, &bytes), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 3, &bytes), STORAGE_E_MISSING);
    cr_assert_eq(io->ops->get(io, 4, &bytes), STORAGE_OK);
    storage_io_free(io);
    dir_free(&dir);
}

Test(lmdb_io, a_file_that_may_not_grow_is_full_too)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct storage_txn txn;
    static char big[4 << 20];
    struct rlimit limit = {1 << 20, RLIM_INFINITY};
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};

    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_OK);
    put(io, 1, "one");
    (void)signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    storage_txn_begin(&txn, io);
    storage_txn_put(&txn, 2, (struct slice){big, sizeof big});
    enum storage_outcome rc = storage_txn_commit(&txn);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    cr_assert(rc == STORAGE_E_FULL || rc == STORAGE_E_IO, "%s",
              storage_outcome_name(rc));
    io->ops->close(io);
    struct slice bytes;
    cr_assert_eq(io->ops->open(io, "a.mdb"), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 1, &bytes), STORAGE_OK);
    storage_io_free(io);
    dir_free(&dir);
}

Test(lmdb_io, there_is_nothing_to_look_into_where_there_is_no_directory)
{
    struct storage_io *io = NULL;

    cr_assert_eq(
        storage_lmdb_new(&io, "/nonexistent/kvasir", STORAGE_INSPECT, MAX),
        STORAGE_E_MISSING);
}

Test(lmdb_io, what_is_no_database_is_corrupt)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    char path[256];

    (void)snprintf(path, sizeof path, "%s/a.mdb", dir.path);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 5000; i++) {
        (void)fputs("no database", file);
    }
    (void)fclose(file);
    cr_assert_eq(io->ops->open(io, "a.mdb"), STORAGE_E_CORRUPT);
    storage_io_free(io);
    dir_free(&dir);
}

/* Nor is it a failing disk, which a start would report. */
Test(lmdb_io, a_file_whose_maker_died_at_once_has_no_snapshot)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    char path[256];

    (void)snprintf(path, sizeof path, "%s/a.mdb", dir.path);
    FILE *file = fopen(path, "w");
    (void)fclose(file);
    cr_assert_eq(io->ops->open(io, "a.mdb"), STORAGE_E_EMPTY);
    storage_io_free(io);
    dir_free(&dir);
}

static void
empty(const char *path)
{
    struct dir dir;

    (void)snprintf(dir.path, sizeof dir.path, "%s", path);
    dir_free(&dir);
}

Test(lmdb_io, a_directory_that_vanished_fails_a_commit_and_is_made_anew)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct storage_txn txn;
    struct slice bytes;

    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_OK);
    put(io, 1, "one");
    empty(dir.path);
    storage_txn_begin(&txn, io);
    storage_txn_put(&txn, 2, SLICE("two"));
    cr_assert_eq(storage_txn_commit(&txn), STORAGE_E_GONE);
    io->ops->close(io);
    cr_assert_eq(io->ops->create(io, "b.mdb"), STORAGE_OK);
    put(io, 3, "three");
    io->ops->close(io);
    cr_assert_eq(io->ops->open(io, "b.mdb"), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 3, &bytes), STORAGE_OK);
    struct storage_io *second = NULL;
    cr_assert_eq(storage_lmdb_new(&second, dir.path, STORAGE_WRITE, MAX),
                 STORAGE_E_BUSY, "it is locked again");
    storage_io_free(io);
    dir_free(&dir);
}

Test(lmdb_io, a_directory_that_became_a_file_is_named)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);

    empty(dir.path);
    int fd = open(dir.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    cr_assert_geq(fd, 0);
    (void)close(fd);
    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_E_NOT_DIR);
    storage_io_free(io);
    io = NULL;
    cr_assert_eq(storage_lmdb_new(&io, dir.path, STORAGE_WRITE, MAX),
                 STORAGE_E_NOT_DIR);
    cr_assert_eq(storage_lmdb_new(&io, dir.path, STORAGE_INSPECT, 0),
                 STORAGE_E_NOT_DIR);
    (void)unlink(dir.path);
}

/* In a process of its own, as every test here is. */
Test(lmdb_io, a_limit_of_file_size_is_a_full_disk)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, MAX);
    struct rlimit limit;
    static char big[200000];
    struct storage_txn txn;

    (void)signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_OK);
    put(io, 1, "one");
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 300000;
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    storage_txn_begin(&txn, io);
    storage_txn_put(&txn, 2, (struct slice){.ptr = big, .len = sizeof big});
    storage_txn_put(&txn, 3, (struct slice){.ptr = big, .len = sizeof big});
    cr_assert_eq(storage_txn_commit(&txn), STORAGE_E_FULL);
    put(io, 4, "four");
    storage_io_free(io);
    dir_free(&dir);
}

/* Sanitizers have many of their own. */
static rlim_t
addresses_used(void)
{
    char text[64] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);

    cr_assert(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    (void)close(fd);
    return (rlim_t)strtoull(text, NULL, 10) * (rlim_t)sysconf(_SC_PAGESIZE);
}

Test(lmdb_io, a_map_that_addresses_are_not_had_for_is_made_smaller)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_dir(dir.path, UINT64_C(1) << 44);
    struct rlimit limit;
    struct slice bytes;

    cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = addresses_used() + ((rlim_t)1 << 42);
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    cr_assert_eq(io->ops->create(io, "a.mdb"), STORAGE_OK);
    put(io, 1, "one");
    io->ops->close(io);
    cr_assert_eq(io->ops->open(io, "a.mdb"), STORAGE_OK);
    cr_assert_eq(io->ops->get(io, 1, &bytes), STORAGE_OK);
    storage_io_free(io);
    dir_free(&dir);
}
