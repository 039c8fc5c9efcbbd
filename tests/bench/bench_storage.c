/*
 * Snapshots: how long one takes and how large it is, and how long a start takes
 * to be where it was, with BLOCKS blocks held by 64 workers; against the same
 * bytes written into a flat file and synced.
 *
 *   bench_storage [BLOCKS [DIR]]
 */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "index/base/qsbr.h"
#include "index/base/rng.h"
#include "index/index.h"
#include "storage/storage.h"

#define WORKERS   64U
#define RUN       64U
#define TOKENS    16U
#define BYTES_MAX ((size_t)8 << 30)

/* Of this thread: what others on the machine do is not in it. */
static double
cpu_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Of all threads. */
static double
process_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct node {
    struct qsbr qsbr;
    struct mirror *mirror;
    struct ledger *ledger;
    struct storage_stream stream[WORKERS];
};

static double
now_s(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void
node_new(struct node *n)
{
    struct mirror_limits mirror_limits = {.bytes_max = BYTES_MAX};
    struct ledger_limits ledger_limits = {.bytes_max = BYTES_MAX};

    qsbr_init(&n->qsbr);
    CHECK(mirror_new(&n->mirror, &mirror_limits, &n->qsbr) == 0);
    CHECK(ledger_new(&n->ledger, &ledger_limits) == 0);
}

static void
node_free(struct node *n)
{
    mirror_free(n->mirror);
    ledger_free(n->ledger);
}

/* Conversations of 64 blocks, each on `holders` of the workers. */
static void
store_run(struct node *n, uint64_t number, uint32_t holders)
{
    static uint64_t words[RUN + 2];
    uint64_t hashes[RUN];
    uint32_t tokens[RUN * TOKENS];
    struct ledger_run run = {.hashes = hashes,
                             .tokens = tokens,
                             .block_tokens = TOKENS,
                             .root = 7,
                             .count = RUN};
    struct ledger_done done;

    for (uint32_t i = 0; i < RUN * TOKENS; i++) {
        tokens[i] = (uint32_t)(number * 31 + i);
    }
    for (uint32_t i = 0; i < RUN; i++) {
        hashes[i] = rng_mix(number * RUN + i);
    }
    for (uint32_t h = 0; h < holders; h++) {
        struct event_words out = {.words = words, .max = RUN + 2};
        struct storage_stream *s = &n->stream[(number + h) % WORKERS];
        CHECK(ledger_store(n->ledger, s->ledger, &run, &out, &done) == 0);
        CHECK(mirror_apply(n->mirror, s->slot, out.words, out.count, 0) == 0);
    }
}

static void
fill(struct node *n, uint64_t blocks)
{
    for (uint32_t i = 0; i < WORKERS; i++) {
        n->stream[i].name.worker = i + 1;
        CHECK(mirror_open(n->mirror, &n->stream[i].slot) == 0);
        CHECK(ledger_open(n->ledger, &n->stream[i].ledger) == 0);
    }
    /* One run in 16 is a shared prompt that all have, the others have one. */
    uint64_t held = 0;
    for (uint64_t number = 0; held < blocks; number++) {
        uint32_t holders = number % 1024 == 0 ? WORKERS : 1;
        store_run(n, number, holders);
        held += (uint64_t)holders * RUN;
    }
}

static void
give(struct storage_disk *disk, const struct storage_part *part)
{
    while (!storage_disk_room(disk)) {
        (void)poll(NULL, 0, 1);
    }
    storage_disk_part(disk, part);
}

/* The two halves: control's of the mirror, the intake's of the ledger. Here one
 * thread has both, so that it can be told what each costs. */
struct half {
    struct storage_cut *cut;
    double busy;    /* seconds of CPU time */
    double longest; /* of one turn, seconds */
};

struct halves {
    struct half mirror;
    struct half ledger;
};

/* Pulls until it is walked, or done. */
static void
pull(struct half *half, struct storage_disk *disk)
{
    for (;;) {
        struct storage_part part;
        double from = cpu_s();
        enum storage_step step = storage_cut_next(half->cut, &part);
        double took = cpu_s() - from;
        half->busy += took;
        half->longest = took > half->longest ? took : half->longest;
        if (step == STORAGE_STEP_PART) {
            give(disk, &part);
        } else if (step != STORAGE_STEP_MORE) {
            CHECK(step != STORAGE_STEP_FAILED);
            return;
        }
    }
}

static void
end_half(struct half *half, const struct storage_facts *facts,
         struct storage_about *about)
{
    double from = cpu_s();

    storage_cut_end(half->cut, facts, about);
    double took = cpu_s() - from;
    half->busy += took;
    half->longest = took > half->longest ? took : half->longest;
}

static void
cut(struct node *n, struct halves *halves, struct storage_disk *disk,
    bool whole)
{
    struct storage_about about = {.cluster = "bench", .node = "a"};
    struct storage_facts facts = {.streams = n->stream,
                                  .streams_count = WORKERS};

    storage_disk_begin(disk);
    storage_cut_begin(halves->ledger.cut, whole);
    storage_cut_begin(halves->mirror.cut, whole);
    pull(&halves->ledger, disk);
    pull(&halves->mirror, disk);
    end_half(&halves->ledger, NULL, NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        n->stream[i].ledger_blocks =
            ledger_blocks(n->ledger, n->stream[i].ledger);
    }
    pull(&halves->ledger, disk);
    end_half(&halves->mirror, &facts, &about);
    pull(&halves->mirror, disk);
    storage_disk_commit(disk, &about);
}

static struct storage_result
wait_result(struct storage_disk *disk)
{
    struct storage_result result;

    while (!storage_disk_result(disk, &result)) {
        (void)poll(NULL, 0, 1);
    }
    CHECK(result.outcome == STORAGE_OK);
    return result;
}

static double
flat(const char *dir, uint64_t bytes)
{
    char path[4096];
    size_t chunk = (size_t)4 << 20;
    char *block = malloc(chunk);

    CHECK(block != NULL);
    memset(block, 0x5A, chunk);
    (void)snprintf(path, sizeof path, "%s/flat", dir);
    double from = now_s();
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0600);
    CHECK(fd >= 0);
    for (uint64_t left = bytes; left > 0;) {
        size_t n = left < chunk ? (size_t)left : chunk;
        CHECK(write(fd, block, n) == (ssize_t)n);
        left -= n;
    }
    CHECK(fsync(fd) == 0);
    double took = now_s() - from;
    (void)close(fd);
    (void)unlink(path);
    free(block);
    return took;
}

struct bench {
    struct node *node;
    struct halves halves;
    struct storage_disk *disk;
    const char *dir;
    uint64_t blocks;
};

static void
one_snapshot(struct bench *b, const char *what, bool whole)
{
    struct half *mirror = &b->halves.mirror;
    struct half *ledger = &b->halves.ledger;
    double from = now_s();

    *mirror = (struct half){.cut = mirror->cut};
    *ledger = (struct half){.cut = ledger->cut};
    cut(b->node, &b->halves, b->disk, whole);
    struct storage_result result = wait_result(b->disk);
    double took = now_s() - from;
    double beside = flat(b->dir, result.saved.written + 1);

    printf("%-22s %6.3f s (flat file %.3f s, ratio %.2f); control busy %.3f s, "
           "longest turn %.2f ms; intake %.3f s, %.2f ms; %.1f MB, %.1f "
           "bytes/block, file %.0f MB\n",
           what, took, beside, took / beside, mirror->busy,
           mirror->longest * 1e3, ledger->busy, ledger->longest * 1e3,
           (double)result.saved.written / 1e6,
           (double)result.saved.written / (double)b->blocks,
           (double)result.saved.file_size / 1e6);
    storage_cut_done(mirror->cut, true);
    storage_cut_done(ledger->cut, true);
}

/* As a node has it. */
static struct storage_io *
keep(struct storage_io *local, const char *dir, uint64_t bytes_max)
{
    struct storage_io *io = NULL;

    CHECK(storage_keeper_new(&io, local, dir, bytes_max) == STORAGE_OK);
    return io;
}

static void
save_all(const char *dir, uint64_t blocks)
{
    static struct node n;
    struct storage_limits limits = storage_limits_default();
    struct storage_io *io = NULL;

    node_new(&n);
    fill(&n, blocks);
    CHECK(storage_lmdb_new(&io, dir, STORAGE_WRITE, limits.bytes_max) ==
          STORAGE_OK);
    io = keep(io, dir, limits.bytes_max);
    struct storage_source mirror = {.mirror = n.mirror};
    struct storage_source ledger = {.ledger = n.ledger};
    struct bench b = {.node = &n, .dir = dir, .blocks = blocks};
    b.halves.mirror.cut = storage_cut_new(&mirror);
    b.halves.ledger.cut = storage_cut_new(&ledger);
    struct storage_save *save = storage_save_new(io, &limits, 1);
    CHECK(b.halves.mirror.cut != NULL && b.halves.ledger.cut != NULL);
    CHECK(save != NULL);
    CHECK(storage_disk_new(&b.disk, save, limits.queue_bytes, NULL, NULL) == 0);
    one_snapshot(&b, "whole", true);
    for (uint64_t i = 0; i < blocks / 100 / RUN; i++) {
        store_run(&n, blocks + i, 1);
    }
    one_snapshot(&b, "after 1% more", false);
    store_run(&n, blocks * 2, 1);
    one_snapshot(&b, "after 64 blocks more", false);
    one_snapshot(&b, "whole again", true);
    storage_disk_free(b.disk);
    storage_cut_free(b.halves.mirror.cut);
    storage_cut_free(b.halves.ledger.cut);
    storage_io_free(io);
    node_free(&n);
}

static void
restore_all(const char *dir)
{
    static struct node n;
    struct storage_limits limits = storage_limits_default();
    struct storage_io *io = NULL;
    struct storage_find find;
    struct storage_load load;
    struct storage_report report;
    struct storage_stream *streams;
    uint32_t count;

    node_new(&n);
    double from = now_s();
    CHECK(storage_lmdb_new(&io, dir, STORAGE_WRITE, limits.bytes_max) ==
          STORAGE_OK);
    CHECK(storage_find(io, "bench", &limits, STORAGE_VERIFY_S, &find) ==
          STORAGE_OK);
    double verified = now_s();
    io = keep(io, dir, limits.bytes_max);
    double cpu_from = process_s();
    CHECK(find.found);
    CHECK(storage_load_open(&load, io, find.chosen.file, "bench", &report) ==
          STORAGE_OK);
    CHECK(storage_restore_streams(&load, &streams, &count) == STORAGE_OK);
    struct storage_beside rc =
        storage_restore_beside(&load, n.mirror, n.ledger, streams, count);
    CHECK(rc.mirror == STORAGE_OK && rc.ledger == STORAGE_OK);
    double all = now_s();
    printf("restore                %6.3f s: verified in a child %.3f s, ledger "
           "and mirror %.3f s (CPU %.3f)\n",
           all - from, verified - from, all - verified, process_s() - cpu_from);
    free(streams);
    storage_load_close(&load);
    storage_io_free(io);
    node_free(&n);
}

static void
clean(const char *dir)
{
    DIR *list = opendir(dir);
    const struct dirent *entry;

    CHECK(list != NULL);
    while ((entry = readdir(list)) != NULL) {
        (void)unlinkat(dirfd(list), entry->d_name, 0);
    }
    (void)closedir(list);
    (void)rmdir(dir);
}

int
main(int argc, char **argv)
{
    uint64_t only = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t sizes[] = {only == 0 ? 1000000 : only, 10000000};
    char dir[] = "/tmp/kvasir-bench-storage-XXXXXX";

    if (argc > 1 && strcmp(argv[1], STORAGE_KEEPER_COMMAND) == 0) {
        return storage_keeper_main(argv + 2);
    }
    for (uint32_t i = 0; i < (only == 0 ? 2U : 1U); i++) {
        char at[4096];
        (void)snprintf(at, sizeof at, "%s", argc > 2 ? argv[2] : dir);
        CHECK(argc > 2 || mkdtemp(at) != NULL);
        printf("%" PRIu64 " blocks, %u workers\n", sizes[i], WORKERS);
        save_all(at, sizes[i]);
        restore_all(at);
        clean(at);
    }
    return 0;
}
