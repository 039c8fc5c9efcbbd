/*
 * Real snapshot files, damaged and cut off mid-write.
 *
 *   property_storage_files damage ROUNDS [SEED]
 *     A file is flipped, cut, zeroed or overwritten at random, then found and
 *     loaded: nothing but what was written may come out, and this process,
 *     which maps what a child verified, may not die of it.
 *   property_storage_files every STRIDE [SEED]
 *     The same for each STRIDE-th byte of a file, from SEED on: flipped, and the
 *     file cut off there; and for pages of two states of a file mixed at
 *     random, and two files in each other's place.
 *   property_storage_files kill ROUNDS [SEED]
 *     A process that takes snapshot after snapshot is killed at a random
 *     moment: the next start finds one of them whole, and none before the last
 *     that it said was committed.
 *   property_storage_files keeper ROUNDS [SEED]
 *     Snapshots go through a keeper while their file, or the lock file beside
 *     it, is cut off or filled with zeros at random: between snapshots, within
 *     one, while it is opened and while it is loaded. This process may not die
 *     of it, what comes out is what was written, and a snapshot that follows a
 *     failure is whole.
 *   property_storage_files write DIR
 *     Takes two snapshots into a directory, for others to look at.
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "index/base/rng.h"
#include "storage/storage.h"
#include "tests/unit/storage/dir.h"

#define PARTS      40U
#define PART_BYTES 3000U

static struct storage_limits
limits_small(void)
{
    struct storage_limits limits = storage_limits_default();

    limits.txn_bytes = 16384;
    limits.bytes_max = UINT64_C(1) << 30;
    return limits;
}

/* All kinds have some. */
static enum storage_kind
kind_of(uint32_t i)
{
    return (enum storage_kind)(1 + i % (STORAGE_KINDS - 1));
}

/* Part i of snapshot n: sizes of all kinds, so that some lie in pages of their
 * own and some do not. */
static size_t
content(uint64_t n, uint32_t i, char *bytes)
{
    size_t len = 1 + (size_t)(i * 977) % PART_BYTES;
    struct rng rng;

    rng_init(&rng, n * PARTS + i);
    for (size_t b = 0; b < len; b++) {
        bytes[b] = (char)rng_next(&rng);
    }
    return len;
}

static bool
take(struct storage_save *save, uint64_t n)
{
    struct storage_about about = {
        .cluster = "c", .node = "n", .taken_ms = n, .streams = 0};
    char bytes[PART_BYTES];

    storage_save_begin(save);
    for (uint32_t i = 0; i < PARTS; i++) {
        size_t len = content(n, i, bytes);
        storage_save_part(save, kind_of(i), i,
                          (struct slice){.ptr = bytes, .len = len});
    }
    return storage_save_commit(save, &about) == STORAGE_OK;
}

static struct storage_io *
open_io(const char *dir)
{
    struct storage_io *io = NULL;

    CHECK(storage_lmdb_new(&io, dir, STORAGE_WRITE, limits_small().bytes_max) ==
          STORAGE_OK);
    return io;
}

/* The snapshot that is found, 0: none; dies where it is not as written. */
static uint64_t
look(struct storage_io *io, struct storage_find *find)
{
    struct storage_limits limits = limits_small();
    struct storage_load load;
    struct storage_report report;
    char bytes[PART_BYTES];

    CHECK(storage_find(io, "c", &limits, 20, find) == STORAGE_OK);
    if (!find->found) {
        return 0;
    }
    CHECK(storage_load_open(&load, io, find->chosen.file, "c", &report) ==
          STORAGE_OK);
    uint64_t n = load.root.taken_ms;
    for (uint32_t i = 0; i < PARTS; i++) {
        struct slice part;
        size_t len = content(n, i, bytes);
        CHECK(storage_load_part(&load, kind_of(i), i, &part) == STORAGE_OK);
        CHECK(part.len == len && memcmp(part.ptr, bytes, len) == 0);
    }
    for (uint32_t i = 0; i < PARTS; i++) { /* as they are expected */
        const struct storage_row *row = &load.root.rows[i];
        struct slice part;
        size_t len = content(n, storage_key_number(row->key), bytes);
        CHECK(storage_load_row(&load, row, &part) == STORAGE_OK);
        CHECK(part.len == len && memcmp(part.ptr, bytes, len) == 0);
    }
    storage_load_close(&load);
    return n;
}

/* ---- damage ---- */

static void
damage(int fd, struct rng *rng)
{
    struct stat st;
    char bytes[4096] = {0};

    CHECK(fstat(fd, &st) == 0);
    off_t at = (off_t)rng_below(rng, (uint64_t)st.st_size);
    size_t len = 1 + (size_t)rng_below(rng, 64);
    switch (rng_below(rng, 5)) {
    case 0: /* cut off */
        CHECK(ftruncate(fd, at) == 0);
        return;
    case 1: /* a page of zeros */
        at &= ~(off_t)4095;
        len = 4096;
        break;
    case 2: /* one bit */
        CHECK(pread(fd, bytes, 1, at) == 1);
        bytes[0] = (char)(bytes[0] ^ (char)(1 << rng_below(rng, 7)));
        len = 1;
        break;
    case 3: /* the head of a page */
        at &= ~(off_t)4095;
        len = 32;
        /* fall through */
    default:
        for (size_t i = 0; i < len; i++) {
            bytes[i] = (char)rng_next(rng);
        }
        break;
    }
    CHECK(pwrite(fd, bytes, len, at) == (ssize_t)len);
}

/* A page of the file in place of another one: what a disk that mixes up
 * writes would leave. */
static void
misplace(int fd, struct rng *rng)
{
    struct stat st;
    char page[4096];

    CHECK(fstat(fd, &st) == 0);
    off_t pages = st.st_size / 4096;
    off_t from = (off_t)rng_below(rng, (uint64_t)pages) * 4096;
    off_t to = (off_t)rng_below(rng, (uint64_t)pages) * 4096;
    CHECK(pread(fd, page, sizeof page, from) == sizeof page);
    CHECK(pwrite(fd, page, sizeof page, to) == sizeof page);
}

static char *
read_file(const char *path, size_t *len)
{
    struct stat st;
    int fd = open(path, O_RDONLY);

    CHECK(fd >= 0 && fstat(fd, &st) == 0);
    char *bytes = malloc((size_t)st.st_size);
    CHECK(bytes != NULL);
    CHECK(read(fd, bytes, (size_t)st.st_size) == st.st_size);
    (void)close(fd);
    *len = (size_t)st.st_size;
    return bytes;
}

static void
write_file(const char *path, const char *bytes, size_t len)
{
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

    CHECK(fd >= 0 && write(fd, bytes, len) == (ssize_t)len);
    (void)close(fd);
}

static int
run_damage(uint64_t rounds, uint64_t seed)
{
    struct dir dir = dir_new();
    struct storage_io *io = open_io(dir.path);
    struct storage_limits limits = limits_small();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    uint64_t refused = 0;
    uint64_t killed = 0;
    char path[256];
    struct rng rng;
    size_t len;

    CHECK(save != NULL && take(save, 1) && take(save, 2) && take(save, 3));
    storage_save_free(save);
    (void)snprintf(path, sizeof path, "%s/kvasir-0000000000000001.mdb",
                   dir.path);
    char *bytes = read_file(path, &len);
    rng_init(&rng, seed);
    for (uint64_t i = 0; i < rounds; i++) {
        struct storage_find find;
        write_file(path, bytes, len);
        int fd = open(path, O_RDWR);
        CHECK(fd >= 0);
        if (rng_below(&rng, 6) == 0) {
            misplace(fd, &rng);
        } else {
            damage(fd, &rng);
        }
        (void)close(fd);
        uint64_t n = look(io, &find);
        /* LMDB falls back to the commit before where a meta page is bad, and
         * pages of that may be whole still. */
        CHECK(n <= 3);
        refused += n == 0;
        killed += strstr(find.refused.reason, "signal") != NULL;
    }
    printf("%" PRIu64 " damaged files: %" PRIu64 " refused (%" PRIu64
           " killed their reader), the others whole\n",
           rounds, refused, killed);
    free(bytes);
    storage_io_free(io);
    dir_free(&dir);
    return refused > 0 ? 0 : 1;
}

/* ---- everywhere ---- */

#define MIXES 100U

/* A snapshot file in two states, the second one snapshot later. */
struct states {
    struct dir dir;
    struct storage_io *io;
    char path[256];
    char *bytes[2];
    size_t len[2];
    uint64_t tried;
    uint64_t refused;
};

/* What is there now is refused, or a snapshot that was taken. */
static void
look_at(struct states *s)
{
    struct storage_find find;
    uint64_t n = look(s->io, &find);

    CHECK(n <= 3);
    s->tried++;
    s->refused += n == 0;
}

static void
flip_and_cut(struct states *s, uint64_t stride, uint64_t from)
{
    char *bytes = s->bytes[1];

    for (size_t at = from % stride; at < s->len[1]; at += stride) {
        bytes[at] = (char)~bytes[at];
        write_file(s->path, bytes, s->len[1]);
        bytes[at] = (char)~bytes[at];
        look_at(s);
        write_file(s->path, bytes, at);
        look_at(s);
    }
}

/* An older root with newer parts, and the other way round. */
static void
mix(struct states *s, struct rng *rng)
{
    char *bytes = malloc(s->len[1]);

    CHECK(bytes != NULL && s->len[0] <= s->len[1]);
    for (uint32_t i = 0; i < MIXES; i++) {
        uint64_t newer = 1 + rng_below(rng, 15); /* of 16 pages */
        memcpy(bytes, s->bytes[1], s->len[1]);
        for (size_t at = 0; at + 4096 <= s->len[0]; at += 4096) {
            if (rng_below(rng, 16) >= newer) {
                memcpy(bytes + at, s->bytes[0] + at, 4096);
            }
        }
        write_file(s->path, bytes, s->len[1]);
        look_at(s);
    }
    free(bytes);
}

static void
swap(struct states *s)
{
    char other[256];

    (void)snprintf(other, sizeof other, "%s/kvasir-0000000000000002.mdb",
                   s->dir.path);
    for (uint32_t newer = 0; newer < 2; newer++) {
        write_file(s->path, s->bytes[newer], s->len[newer]);
        write_file(other, s->bytes[1 - newer], s->len[1 - newer]);
        look_at(s);
        (void)unlink(other);
    }
}

static int
run_every(uint64_t stride, uint64_t seed)
{
    struct states s = {.dir = dir_new()};
    struct storage_limits limits = limits_small();
    struct rng rng;

    rng_init(&rng, seed);
    s.io = open_io(s.dir.path);
    (void)snprintf(s.path, sizeof s.path, "%s/kvasir-0000000000000001.mdb",
                   s.dir.path);
    struct storage_save *save = storage_save_new(s.io, &limits, 1);
    CHECK(save != NULL && take(save, 1) && take(save, 2));
    s.bytes[0] = read_file(s.path, &s.len[0]);
    CHECK(take(save, 3));
    storage_save_free(save);
    s.bytes[1] = read_file(s.path, &s.len[1]);
    flip_and_cut(&s, stride, seed);
    mix(&s, &rng);
    swap(&s);
    printf("%" PRIu64 " files: %" PRIu64 " refused, the others whole\n",
           s.tried, s.refused);
    free(s.bytes[0]);
    free(s.bytes[1]);
    storage_io_free(s.io);
    dir_free(&s.dir);
    return s.refused > 0 ? 0 : 1;
}

/* ---- kill ---- */

/* Takes snapshots and says so, until it is killed. */
static void
write_for_ever(const char *dir, int say)
{
    struct storage_io *io = open_io(dir);
    struct storage_limits limits = limits_small();
    struct storage_find find;
    uint64_t n = look(io, &find);
    struct storage_save *save = storage_save_new(io, &limits, find.generation);

    CHECK(save != NULL);
    for (;;) {
        if (take(save, ++n)) {
            CHECK(write(say, &n, sizeof n) == sizeof n);
        }
    }
}

/* The last number that the process said, when it is dead. */
static uint64_t
run_and_kill(const char *dir, struct rng *rng)
{
    int ends[2];
    uint64_t last = 0;
    uint64_t n;

    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        write_for_ever(dir, ends[1]);
    }
    (void)close(ends[1]);
    /* After so many snapshots, and then a part of one. */
    for (uint64_t left = rng_below(rng, 6); left > 0; left--) {
        CHECK(read(ends[0], &last, sizeof last) == sizeof last);
    }
    struct pollfd nothing = {.fd = -1};
    (void)poll(&nothing, 1, (int)rng_below(rng, 12));
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, NULL, 0) == child);
    while (read(ends[0], &n, sizeof n) == sizeof n) {
        last = n;
    }
    (void)close(ends[0]);
    return last;
}

static int
run_kill(uint64_t rounds, uint64_t seed)
{
    struct dir dir = dir_new();
    uint64_t had = 0;
    struct rng rng;

    rng_init(&rng, seed);
    for (uint64_t i = 0; i < rounds; i++) {
        struct storage_find find;
        uint64_t said = run_and_kill(dir.path, &rng);
        struct storage_io *io = open_io(dir.path);
        uint64_t n = look(io, &find);
        CHECK(find.refusals == 0);
        CHECK(n >= (said > had ? said : had));
        had = n;
        storage_io_free(io);
    }
    printf("%" PRIu64 " kills, %" PRIu64 " snapshots, each start whole\n",
           rounds, had);
    dir_free(&dir);
    return 0;
}

/* ---- keeper ---- */

struct kept {
    struct dir dir;
    struct rng rng;
    uint64_t n;      /* of the snapshot that was tried last */
    uint64_t hurt;   /* files */
    uint64_t failed; /* snapshots */
    uint64_t broken; /* loads */
};

static struct storage_io *
keep(struct kept *k, enum storage_access access)
{
    struct storage_io *local = NULL;
    struct storage_io *io = NULL;
    uint64_t max = limits_small().bytes_max;

    CHECK(storage_lmdb_new(&local, k->dir.path, access, max) == STORAGE_OK);
    CHECK(storage_keeper_new(&io, local, k->dir.path, max) == STORAGE_OK);
    return io;
}

/* The newest file or its lock is cut off; sometimes it grows again. */
static void
hurt(struct kept *k, const char *name)
{
    bool lock = rng_below(&k->rng, 4) == 0;
    char path[256];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s%s", k->dir.path, name,
                   lock ? "-lock" : "");
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    CHECK(fstat(fd, &st) == 0);
    off_t to = rng_below(&k->rng, 2) == 0
                   ? 0
                   : (off_t)rng_below(&k->rng, (uint64_t)st.st_size + 1);
    CHECK(ftruncate(fd, to) == 0);
    if (rng_below(&k->rng, 4) == 0) {
        CHECK(ftruncate(fd, st.st_size) == 0);
    }
    (void)close(fd);
    k->hurt++;
}

/* Of the file that is written now, before, within or behind its snapshot. */
static bool
take_hurt(struct kept *k, struct storage_save *save, uint64_t generation)
{
    struct storage_about about = {
        .cluster = "c", .node = "n", .taken_ms = ++k->n, .streams = 0};
    uint32_t when = (uint32_t)rng_below(&k->rng, 2 * PARTS);
    char name[STORAGE_NAME_MAX];
    char bytes[PART_BYTES];

    storage_file_name(generation, name);
    storage_save_begin(save);
    for (uint32_t i = 0; i < PARTS; i++) {
        if (i == when) {
            hurt(k, name);
        }
        size_t len = content(k->n, i, bytes);
        storage_save_part(save, kind_of(i), i,
                          (struct slice){.ptr = bytes, .len = len});
    }
    bool taken = storage_save_commit(save, &about) == STORAGE_OK;
    k->failed += !taken;
    return taken;
}

/* Part by part, cut off in between: each one is as written, or not had. In the
 * file's order, in which each is expected, or across it. */
static void
load_hurt(struct kept *k, struct storage_io *io, const char *name)
{
    uint32_t when = (uint32_t)rng_below(&k->rng, PARTS);
    uint32_t step = rng_below(&k->rng, 2) == 0 ? 1 : 7;
    struct storage_report report;
    struct storage_load load;
    char bytes[PART_BYTES];
    bool broken = false;

    if (storage_load_open(&load, io, name, "c", &report) != STORAGE_OK) {
        k->broken++;
        return;
    }
    for (uint32_t i = 0; i < PARTS; i++) {
        const struct storage_row *row = &load.root.rows[i * step % PARTS];
        struct slice part;
        if (i == when) {
            hurt(k, name);
        }
        size_t len =
            content(load.root.taken_ms, storage_key_number(row->key), bytes);
        if (storage_load_row(&load, row, &part) != STORAGE_OK) {
            broken = true;
        } else {
            CHECK(part.len == len && memcmp(part.ptr, bytes, len) == 0);
        }
    }
    k->broken += broken;
    storage_load_close(&load);
}

static void
run_round(struct kept *k, struct storage_io *reader, struct storage_save *save)
{
    struct storage_saved saved;
    struct storage_find find;
    char name[STORAGE_NAME_MAX];
    char path[256];

    storage_save_stats(save, &saved);
    if (take_hurt(k, save, saved.generation)) {
        storage_save_stats(save, &saved);
        storage_file_name(saved.generation, name);
        load_hurt(k, reader, name);
    }
    /* The next failure makes a new file; what was filled with zeros may not
     * show. */
    while (take(save, ++k->n)) {
        storage_save_stats(save, &saved);
        storage_file_name(saved.generation, name);
        (void)snprintf(path, sizeof path, "%s/%s", k->dir.path, name);
        CHECK(truncate(path, 0) == 0);
    }
    CHECK(take(save, ++k->n));
    CHECK(look(reader, &find) == k->n);
}

static int
run_keeper(uint64_t rounds, uint64_t seed)
{
    struct kept k = {.dir = dir_new()};
    struct storage_limits limits = limits_small();
    struct storage_io *io = keep(&k, STORAGE_WRITE);
    struct storage_io *reader = NULL;
    struct storage_save *save = storage_save_new(io, &limits, 1);

    rng_init(&k.rng, seed);
    CHECK(save != NULL && take(save, ++k.n));
    reader = keep(&k, STORAGE_INSPECT);
    for (uint64_t i = 0; i < rounds; i++) {
        run_round(&k, reader, save);
    }
    printf("%" PRIu64 " files hurt: %" PRIu64 " snapshots failed and %" PRIu64
           " loads broke, and no process but keepers died\n",
           k.hurt, k.failed, k.broken);
    storage_save_free(save);
    storage_io_free(reader);
    storage_io_free(io);
    dir_free(&k.dir);
    return k.failed > 0 && k.broken > 0 ? 0 : 1;
}

static int
run_write(const char *dir)
{
    struct storage_io *io = open_io(dir);
    struct storage_limits limits = limits_small();
    struct storage_save *save = storage_save_new(io, &limits, 1);

    CHECK(save != NULL && take(save, 1) && take(save, 2));
    storage_save_free(save);
    storage_io_free(io);
    return 0;
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    uint64_t rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 100;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;

    if (strcmp(what, STORAGE_KEEPER_COMMAND) == 0) {
        return storage_keeper_main(argv + 2);
    }
    if (strcmp(what, "write") == 0 && argc > 2) {
        return run_write(argv[2]);
    }
    if (strcmp(what, "damage") == 0) {
        return run_damage(rounds, seed);
    }
    if (strcmp(what, "every") == 0 && rounds > 0) {
        return run_every(rounds, seed);
    }
    if (strcmp(what, "kill") == 0) {
        return run_kill(rounds, seed);
    }
    if (strcmp(what, "keeper") == 0) {
        return run_keeper(rounds, seed);
    }
    fprintf(stderr, "usage: property_storage_files "
                    "damage|every|kill|keeper N [SEED]\n");
    return 2;
}
