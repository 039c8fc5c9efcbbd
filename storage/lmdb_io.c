/*
 * LMDB behind the port, and the lock on its directory.
 */
#include "storage/lmdb_io.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "storage/save.h"

#define LOCK_NAME  "kvasir.lock"
#define SUFFIXES   "-lock" /* LMDB's own lock file */
#define LOCK_BYTES 16384   /* more than it wants for its 126 readers */

#define MAP_BYTES_MIN (UINT64_C(64) << 20)
#define ROOM_LEFT     (UINT64_C(256) << 10) /* of what is full, at most */

struct lmdb {
    struct storage_io io;
    char *dir;
    int dir_fd;
    int lock_fd;
    bool shared; /* others may have the file open */
    uint64_t bytes_max;
    char name[STORAGE_NAME_MAX]; /* of the file that is being written */
    uint64_t written; /* its size after the last commit; it never shrinks */
    MDB_env *env;
    MDB_txn *txn;
    MDB_dbi dbi;
};

static struct lmdb *
lmdb_of(struct storage_io *io)
{
    return (struct lmdb *)(void *)io;
}

/* The one translator of LMDB's codes and of errno. */
static enum storage_outcome
outcome_of(int code)
{
    switch (code) {
    case 0:
        return STORAGE_OK;
    case MDB_NOTFOUND:
    case ENOENT:
        return STORAGE_E_MISSING;
    case ENOTDIR:
        return STORAGE_E_NOT_DIR;
    case MDB_MAP_FULL:
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
        return STORAGE_E_FULL;
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
    case MDB_BAD_VALSIZE:
        return STORAGE_E_CORRUPT;
    case EACCES:
    case EPERM:
        return STORAGE_E_DENIED;
    case EROFS:
        return STORAGE_E_READONLY;
    case EAGAIN:
        return STORAGE_E_BUSY;
    case ENOMEM:
        return STORAGE_E_MEMORY;
    default:
        return STORAGE_E_IO;
    }
}

static bool
path_of(const struct lmdb *l, const char *name, char *path, size_t size)
{
    int n = snprintf(path, size, "%s/%s", l->dir, name);

    CHECK(l->dir != NULL);
    return n > 0 && (size_t)n < size;
}

/* ---- the directory ---- */

static enum storage_outcome
take_lock(struct lmdb *l)
{
    CHECK(l->dir_fd >= 0 && l->lock_fd < 0);
    l->lock_fd = openat(l->dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_CLOEXEC,
                        (mode_t)0600);
    if (l->lock_fd < 0) {
        return outcome_of(errno);
    }
    if (flock(l->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        return outcome_of(errno);
    }
    return STORAGE_OK;
}

static enum storage_outcome
open_dir(struct lmdb *l, enum storage_access access)
{
    CHECK(l->dir_fd < 0);
    if (access == STORAGE_WRITE && mkdir(l->dir, (mode_t)0700) != 0 &&
        errno != EEXIST) {
        return outcome_of(errno);
    }
    l->dir_fd = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (l->dir_fd < 0) {
        return outcome_of(errno);
    }
    return access == STORAGE_WRITE ? take_lock(l) : STORAGE_OK;
}

static void
close_dir(const struct lmdb *l)
{
    if (l->lock_fd >= 0) {
        (void)close(l->lock_fd); /* and the lock is gone */
    }
    if (l->dir_fd >= 0) {
        (void)close(l->dir_fd);
    }
}

static enum storage_outcome
list(struct storage_io *io, struct storage_names *names)
{
    struct lmdb *l = lmdb_of(io);
    CHECK(names != NULL);
    DIR *dir = opendir(l->dir);

    names->count = 0;
    if (dir == NULL) {
        return outcome_of(errno);
    }
    const struct dirent *entry;
    while (names->count < STORAGE_FILES_MAX && (entry = readdir(dir)) != NULL) {
        uint64_t generation;
        if (storage_file_generation(entry->d_name, &generation) ||
            storage_aside_generation(entry->d_name, &generation)) {
            memcpy(names->name[names->count++], entry->d_name,
                   strlen(entry->d_name) + 1);
        }
    }
    (void)closedir(dir);
    return STORAGE_OK;
}

static void
remove_lock(struct lmdb *l, const char *name)
{
    char lock[STORAGE_NAME_MAX + sizeof SUFFIXES];

    (void)snprintf(lock, sizeof lock, "%s%s", name, SUFFIXES);
    (void)unlinkat(l->dir_fd, lock, 0);
}

static enum storage_outcome
rename_file(struct storage_io *io, const char *from, const char *to)
{
    struct lmdb *l = lmdb_of(io);

    CHECK(strcmp(from, to) != 0);
    if (renameat(l->dir_fd, from, l->dir_fd, to) != 0) {
        return outcome_of(errno);
    }
    remove_lock(l, from);
    return fsync(l->dir_fd) == 0 ? STORAGE_OK : outcome_of(errno);
}

static enum storage_outcome
remove_file(struct storage_io *io, const char *name)
{
    struct lmdb *l = lmdb_of(io);

    remove_lock(l, name);
    return unlinkat(l->dir_fd, name, 0) == 0 ? STORAGE_OK : outcome_of(errno);
}

/* ---- a file ---- */

static void
close_file(struct storage_io *io)
{
    struct lmdb *l = lmdb_of(io);

    if (l->txn != NULL) {
        mdb_txn_abort(l->txn);
        l->txn = NULL;
    }
    if (l->env != NULL) {
        mdb_env_close(l->env);
        l->env = NULL;
    }
}

static int
env_open(struct lmdb *l, const char *path, unsigned flags, uint64_t map_bytes)
{
    int rc = mdb_env_create(&l->env);

    CHECK(rc != 0 || l->env != NULL);
    if (rc == 0 && map_bytes > 0) {
        rc = mdb_env_set_mapsize(l->env, map_bytes);
    }
    if (rc == 0) {
        rc = mdb_env_open(l->env, path, MDB_NOSUBDIR | flags, 0600);
    }
    return rc;
}

/* LMDB writes its lock file by memory: on a disk without room for it that would
 * be the end of the process. 0 or errno. */
static int
make_lock(struct lmdb *l, const char *name)
{
    char lock[STORAGE_NAME_MAX + sizeof SUFFIXES];

    CHECK(l->dir_fd >= 0);
    (void)snprintf(lock, sizeof lock, "%s%s", name, SUFFIXES);
    int fd = openat(l->dir_fd, lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    int rc = posix_fallocate(fd, 0, LOCK_BYTES);
    (void)close(fd);
    if (rc != 0) {
        (void)unlinkat(l->dir_fd, lock, 0);
    }
    return rc;
}

/* Reserves the largest map for which there are addresses; a file remembers its
 * size from the beginning. */
static int
env_create(struct lmdb *l, const char *path)
{
    uint64_t map_bytes = l->bytes_max;
    int rc = env_open(l, path, MDB_NOTLS, map_bytes);

    CHECK(l->bytes_max > 0);
    while (rc == ENOMEM && map_bytes / 2 >= MAP_BYTES_MIN) {
        close_file(&l->io);
        (void)unlink(path);
        map_bytes = map_bytes / 2 & ~UINT64_C(0xFFFF);
        rc = env_open(l, path, MDB_NOTLS, map_bytes);
    }
    return rc;
}

static bool
is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

enum storage_outcome
storage_lmdb_renew(struct storage_io *io)
{
    struct lmdb *l = lmdb_of(io);
    struct lmdb now = {.dir = l->dir, .dir_fd = -1, .lock_fd = -1};
    struct stat there;
    struct stat ours;

    if (stat(l->dir, &there) == 0 && fstat(l->dir_fd, &ours) == 0 &&
        is_same(&there, &ours)) {
        return STORAGE_OK;
    }
    enum storage_outcome rc = open_dir(&now, STORAGE_WRITE);
    struct lmdb *old = rc == STORAGE_OK ? l : &now;
    close_dir(old);
    if (rc == STORAGE_OK) {
        l->dir_fd = now.dir_fd;
        l->lock_fd = now.lock_fd;
    }
    return rc;
}

static uint64_t
size_of_file(struct storage_io *io)
{
    struct lmdb *l = lmdb_of(io);
    struct stat st;
    int fd;

    if (l->env == NULL || mdb_env_get_fd(l->env, &fd) != 0 ||
        fstat(fd, &st) != 0) {
        return 0;
    }
    return (uint64_t)st.st_size;
}

static enum storage_outcome
create(struct storage_io *io, const char *name)
{
    struct lmdb *l = lmdb_of(io);
    char path[4096];

    CHECK(l->env == NULL);
    enum storage_outcome there =
        l->lock_fd >= 0 ? storage_lmdb_renew(io) : STORAGE_OK;
    if (there != STORAGE_OK) {
        return there;
    }
    if (!path_of(l, name, path, sizeof path)) {
        return STORAGE_E_DENIED;
    }
    (void)remove_file(io, name);
    (void)snprintf(l->name, sizeof l->name, "%s", name);
    int rc = make_lock(l, name);
    if (rc == 0) {
        rc = env_create(l, path);
    }
    if (rc == 0) {
        rc = mdb_txn_begin(l->env, NULL, 0, &l->txn);
    }
    if (rc == 0) {
        rc = mdb_dbi_open(l->txn, NULL, 0, &l->dbi);
    }
    if (rc == 0) {
        rc = mdb_txn_commit(l->txn);
        l->txn = NULL;
    }
    if (rc == 0 && fsync(l->dir_fd) != 0) {
        rc = errno;
    }
    l->written = size_of_file(io);
    if (rc != 0) {
        close_file(io);
    }
    return outcome_of(rc);
}

/* A file that ends before its last page would kill the process that reads that
 * page. */
static int
check_length(struct lmdb *l)
{
    CHECK(l->env != NULL);
    MDB_envinfo info;
    MDB_stat stat_of;
    struct stat st;
    int fd;
    int rc = mdb_env_info(l->env, &info);

    if (rc == 0) {
        rc = mdb_env_stat(l->env, &stat_of);
    }
    if (rc == 0) {
        rc = mdb_env_get_fd(l->env, &fd);
    }
    if (rc == 0 && fstat(fd, &st) != 0) {
        rc = errno;
    }
    if (rc == 0 && ((uint64_t)info.me_last_pgno + 1) * stat_of.ms_psize >
                       (uint64_t)st.st_size) {
        rc = MDB_CORRUPTED;
    }
    return rc;
}

static enum storage_outcome
open_file(struct storage_io *io, const char *name)
{
    struct lmdb *l = lmdb_of(io);
    char path[4096];
    struct stat st;

    CHECK(l->env == NULL);
    if (!path_of(l, name, path, sizeof path)) {
        return STORAGE_E_MISSING;
    }
    if (stat(path, &st) != 0) {
        return outcome_of(errno);
    }
    if (st.st_size == 0) { /* made, and its maker died */
        return STORAGE_E_EMPTY;
    }
    unsigned flags = MDB_RDONLY | MDB_NOTLS;
    int rc = env_open(l, path, flags | (l->shared ? 0 : MDB_NOLOCK), 0);
    if (rc != 0 && l->shared) { /* no permission for its lock file */
        close_file(io);
        rc = env_open(l, path, flags | MDB_NOLOCK, 0);
    }
    if (rc == 0) {
        rc = check_length(l);
    }
    if (rc == 0) {
        rc = mdb_txn_begin(l->env, NULL, MDB_RDONLY, &l->txn);
    }
    if (rc == 0) {
        rc = mdb_dbi_open(l->txn, NULL, 0, &l->dbi);
    }
    if (rc != 0) {
        close_file(io);
    }
    return outcome_of(rc);
}

/* ---- transactions ---- */

/* Whether somebody did that to the file that is being written. */
static bool
was_cut_off(struct lmdb *l)
{
    return size_of_file(&l->io) < l->written;
}

static enum storage_outcome
begin(struct storage_io *io)
{
    struct lmdb *l = lmdb_of(io);
    int dead;

    CHECK(l->env != NULL && l->txn == NULL);
    if (was_cut_off(l)) {
        return STORAGE_E_CORRUPT;
    }
    /* Readers that were killed would keep every page from being reused. */
    (void)mdb_reader_check(l->env, &dead);
    return outcome_of(mdb_txn_begin(l->env, NULL, 0, &l->txn));
}

/* Big endian, so that keys lie in the order of their numbers. */
static MDB_val
key_bytes(uint64_t key, uint8_t bytes[8])
{
    for (unsigned i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(key >> (56 - 8 * i));
    }
    return (MDB_val){.mv_size = 8, .mv_data = bytes};
}

static enum storage_outcome
put(struct storage_io *io, uint64_t key, struct slice bytes)
{
    struct lmdb *l = lmdb_of(io);
    uint8_t room[8];
    CHECK(l->txn != NULL);
    MDB_val name = key_bytes(key, room);
    MDB_val value = {.mv_size = bytes.len};
    int rc = mdb_put(l->txn, l->dbi, &name, &value, MDB_RESERVE);

    if (rc == 0 && bytes.len > 0) {
        memcpy(value.mv_data, bytes.ptr, bytes.len);
    }
    return outcome_of(rc);
}

static enum storage_outcome
drop(struct storage_io *io, uint64_t key)
{
    struct lmdb *l = lmdb_of(io);
    uint8_t room[8];
    CHECK(l->txn != NULL);
    MDB_val name = key_bytes(key, room);

    return outcome_of(mdb_del(l->txn, l->dbi, &name, NULL));
}

/* Whether the file that is being written is no longer where it was made. */
static bool
is_gone(const struct lmdb *l)
{
    struct stat there;
    struct stat ours;
    char path[4096];
    int fd;

    CHECK(l->env != NULL);
    if (!path_of(l, l->name, path, sizeof path) ||
        mdb_env_get_fd(l->env, &fd) != 0 || fstat(fd, &ours) != 0) {
        return false;
    }
    if (stat(path, &there) != 0) {
        return errno == ENOENT || errno == ENOTDIR;
    }
    return !is_same(&there, &ours);
}

/* Of a file system or, for one file, of the process. */
static bool
is_full(const struct lmdb *l)
{
    struct statvfs fs;
    struct stat st;
    struct rlimit limit;
    int fd;

    CHECK(l->env != NULL);
    if (mdb_env_get_fd(l->env, &fd) != 0 || fstatvfs(fd, &fs) != 0 ||
        fstat(fd, &st) != 0 || getrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return false;
    }
    return (uint64_t)fs.f_bavail * fs.f_frsize < ROOM_LEFT ||
           (uint64_t)st.st_size + ROOM_LEFT > limit.rlim_cur;
}

static enum storage_outcome
commit(struct storage_io *io)
{
    struct lmdb *l = lmdb_of(io);
    bool was_cut = was_cut_off(l); /* it may grow again */
    int rc = mdb_txn_commit(l->txn);

    CHECK(l->txn != NULL);
    l->txn = NULL;
    if (rc == 0 && is_gone(l)) {
        return STORAGE_E_GONE;
    }
    if (rc == 0 && (was_cut || was_cut_off(l))) {
        return STORAGE_E_CORRUPT;
    }
    l->written = size_of_file(io);
    return outcome_of(rc == EIO && is_full(l) ? ENOSPC : rc);
}

static void
abort_txn(struct storage_io *io)
{
    struct lmdb *l = lmdb_of(io);

    CHECK(l->txn != NULL);
    mdb_txn_abort(l->txn);
    l->txn = NULL;
}

static enum storage_outcome
get(struct storage_io *io, uint64_t key, struct slice *bytes)
{
    struct lmdb *l = lmdb_of(io);
    uint8_t room[8];
    CHECK(l->txn != NULL);
    MDB_val name = key_bytes(key, room);
    MDB_val value;
    int rc = mdb_get(l->txn, l->dbi, &name, &value);

    *bytes = rc == 0
                 ? (struct slice){.ptr = value.mv_data, .len = value.mv_size}
                 : (struct slice){0};
    return outcome_of(rc);
}

static void
free_io(struct storage_io *io)
{
    struct lmdb *l = lmdb_of(io);

    close_file(io);
    close_dir(l);
    free(l->dir);
    free(l);
}

static const struct storage_io_ops lmdb_ops = {
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
    .size = size_of_file,
    .free = free_io,
};

enum storage_outcome
storage_lmdb_new(struct storage_io **out, const char *dir,
                 enum storage_access access, uint64_t bytes_max)
{
    struct lmdb *l = calloc(1, sizeof(*l));

    CHECK(out != NULL && dir != NULL);
    if (l == NULL) {
        return STORAGE_E_MEMORY;
    }
    *l = (struct lmdb){.io = {.ops = &lmdb_ops},
                       .dir = strdup(dir),
                       .dir_fd = -1,
                       .lock_fd = -1,
                       .shared = access == STORAGE_INSPECT,
                       .bytes_max = bytes_max & ~UINT64_C(0xFFFF)};
    enum storage_outcome rc =
        l->dir == NULL ? STORAGE_E_MEMORY : open_dir(l, access);
    if (rc != STORAGE_OK) {
        free_io(&l->io);
        return rc;
    }
    *out = &l->io;
    return STORAGE_OK;
}
