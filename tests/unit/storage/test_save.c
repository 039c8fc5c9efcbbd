#include "storage/save.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "index/index.h"
#include "storage/find.h"
#include "storage/lmdb_io.h"
#include "storage/load.h"
#include "storage/sim_disk.h"
#include "tests/unit/storage/dir.h"

#define PARTS 12U

static struct storage_limits
limits_small(void)
{
    struct storage_limits limits = storage_limits_default();

    limits.txn_bytes = 64; /* several transactions for one snapshot */
    return limits;
}

/* Snapshot n: each part says n; increments rewrite the odd ones alone, which
 * the even ones show by the number before. */
static enum storage_outcome
take(struct storage_save *save, uint32_t n)
{
    struct storage_about about = {
        .cluster = "c", .node = "a", .taken_ms = n, .streams = n};
    bool whole = storage_save_whole(save);
    char text[32];

    storage_save_begin(save);
    for (uint32_t i = 0; i < PARTS; i++) {
        if (!whole && i % 2 == 0) {
            continue;
        }
        (void)snprintf(text, sizeof text, "part %u of %u at length", i, n);
        storage_save_part(save, STORAGE_MIRROR, i, slice_of(text));
    }
    (void)snprintf(text, sizeof text, "streams %u", n);
    storage_save_part(save, STORAGE_STREAMS, 0, slice_of(text));
    return storage_save_commit(save, &about);
}

static struct storage_report report; /* of what was found last */

/* What the directory has, 0: nothing; checks that it is one snapshot whole. */
static uint32_t
found(struct storage_io *io)
{
    struct storage_limits limits = limits_small();
    struct storage_find find;
    struct storage_load load;
    struct slice bytes;
    char text[32];

    cr_assert_eq(storage_find(io, "c", &limits, 0, &find), STORAGE_OK);
    cr_assert_eq(find.refusals, 0, "%s", find.refused.reason);
    if (!find.found) {
        return 0;
    }
    cr_assert_eq(storage_load_open(&load, io, find.chosen.file, "c", &report),
                 STORAGE_OK);
    uint32_t n = load.root.streams;
    cr_assert_eq(storage_load_part(&load, STORAGE_STREAMS, 0, &bytes),
                 STORAGE_OK);
    (void)snprintf(text, sizeof text, "streams %u", n);
    cr_assert(slice_equal(bytes, slice_of(text)));
    for (uint32_t i = 0; i < PARTS; i++) {
        cr_assert_eq(storage_load_part(&load, STORAGE_MIRROR, i, &bytes),
                     STORAGE_OK);
        (void)snprintf(text, sizeof text, "part %u of %u at length", i, n);
        cr_assert(i % 2 == 0 || slice_equal(bytes, slice_of(text)));
    }
    storage_load_close(&load);
    return n;
}

static struct storage_save *
save_new(struct storage_io *io, uint64_t generation)
{
    struct storage_limits limits = limits_small();
    struct storage_save *save = storage_save_new(io, &limits, generation);

    cr_assert_not_null(save);
    return save;
}

Test(save, parts_that_did_not_change_stay)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_save *save = save_new(io, 1);
    struct storage_saved saved;

    cr_assert_eq(take(save, 1), STORAGE_OK);
    cr_assert_eq(take(save, 2), STORAGE_OK);
    storage_save_stats(save, &saved);
    cr_assert_eq(saved.parts, PARTS + 1);
    cr_assert_eq(saved.parts_written, PARTS / 2 + 1);
    cr_assert_gt(saved.written, 0);
    cr_assert_lt(saved.written, saved.size);
    storage_save_free(save);
    cr_assert_eq(found(io), 2);
    cr_assert_eq(report.bytes, saved.size);
    storage_io_free(io);
}

/* A failure at every operation of the third snapshot, of each kind, and then a
 * crash or a further snapshot. True when it failed: a snapshot has fewer
 * operations than are tried. */
static bool
fail_at(uint64_t nth, enum storage_outcome outcome, bool crash, uint64_t seed)
{
    struct storage_io *io = sim_disk_new(seed);
    struct storage_save *save = save_new(io, 1);

    cr_assert_eq(take(save, 1), STORAGE_OK);
    cr_assert_eq(take(save, 2), STORAGE_OK);
    sim_disk_fail(io, nth, outcome);
    bool failed = take(save, 3) != STORAGE_OK;
    cr_assert(!failed || storage_save_whole(save));
    if (crash) {
        sim_disk_crash(io, true);
        storage_save_free(save);
        uint32_t n = found(io);
        cr_assert(failed ? n == 2 || n == 3 : n == 3, "%u after %llu", n,
                  (unsigned long long)nth);
    } else {
        sim_disk_fail(io, 0, STORAGE_OK);
        cr_assert_eq(take(save, 4), STORAGE_OK);
        cr_assert_eq(take(save, 5), STORAGE_OK);
        storage_save_free(save);
        cr_assert_eq(found(io), 5);
    }
    storage_io_free(io);
    return failed;
}

Test(save, whatever_operation_fails_a_whole_snapshot_is_there)
{
    uint32_t failures = 0;
    static const enum storage_outcome outcomes[] = {
        STORAGE_E_FULL, STORAGE_E_IO, STORAGE_E_CORRUPT, STORAGE_E_MEMORY};

    for (uint64_t nth = 1; nth < 60; nth++) {
        for (size_t o = 0; o < sizeof outcomes / sizeof *outcomes; o++) {
            for (uint64_t seed = 1; seed < 9; seed++) {
                failures += fail_at(nth, outcomes[o], seed % 2 == 0, seed);
            }
        }
    }
    cr_assert_gt(failures, 0);
}

/* A disk that says full may have committed all the same: what it has then must
 * not be dropped as litter before the next root is there. */
Test(save, a_commit_in_doubt_is_not_undone)
{
    for (uint64_t nth = 1; nth < 40; nth++) {
        for (uint64_t again = 1; again < 40; again++) {
            struct storage_io *io = sim_disk_new(nth * 41 + again);
            struct storage_save *save = save_new(io, 1);
            cr_assert_eq(take(save, 1), STORAGE_OK);
            sim_disk_fail(io, nth, STORAGE_E_FULL);
            (void)take(save, 2);
            sim_disk_fail(io, again, STORAGE_E_FULL);
            (void)take(save, 3);
            sim_disk_crash(io, true);
            storage_save_free(save);
            cr_assert_neq(found(io), 0);
            storage_io_free(io);
        }
    }
}

/* The process dies after every operation: what was begun is not there. */
Test(save, whenever_the_process_dies_a_whole_snapshot_is_there)
{
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct storage_io *io = sim_disk_new(nth);
        struct storage_save *save = save_new(io, 1);
        cr_assert_eq(take(save, 1), STORAGE_OK);
        sim_disk_fail(io, nth, STORAGE_E_IO);
        uint32_t n = 2;
        while (take(save, n) == STORAGE_OK) {
            n++;
        }
        sim_disk_crash(io, true);
        storage_save_free(save);
        uint32_t there = found(io);
        cr_assert(there == n || there == n - 1);
        storage_io_free(io);
    }
}

Test(save, a_full_disk_keeps_the_snapshot_before_and_is_tried_again)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_save *save = save_new(io, 1);

    cr_assert_eq(take(save, 1), STORAGE_OK);
    sim_disk_limit(io, 900);
    for (uint32_t n = 2; n < 8; n++) {
        cr_assert_eq(take(save, n), STORAGE_E_FULL);
        sim_disk_crash(io, false);
        storage_save_free(save);
        cr_assert_eq(found(io), 1);
        save = save_new(io, n);
    }
    sim_disk_limit(io, 0);
    cr_assert_eq(take(save, 9), STORAGE_OK);
    storage_save_free(save);
    cr_assert_eq(found(io), 9);
    storage_io_free(io);
}

Test(save, what_failed_snapshots_left_is_dropped_with_the_next)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_save *save = save_new(io, 1);
    struct storage_saved first;
    struct storage_saved last;

    cr_assert_eq(take(save, 1), STORAGE_OK);
    storage_save_stats(save, &first);
    for (uint32_t n = 2; n < 20; n++) {
        sim_disk_fail(io, 10, STORAGE_E_FULL);
        cr_assert_eq(take(save, n), STORAGE_E_FULL);
    }
    cr_assert_eq(take(save, 1), STORAGE_OK);
    storage_save_stats(save, &last);
    cr_assert_eq(first.file_size, last.file_size);
    storage_save_free(save);
    storage_io_free(io);
}

/* A snapshot of so many parts of 16 KiB. */
static enum storage_outcome
take_large(struct storage_save *save, uint32_t parts)
{
    static char bytes[16 << 10];
    struct storage_about about = {.cluster = "c", .node = "a"};

    storage_save_begin(save);
    for (uint32_t i = 0; i < parts; i++) {
        storage_save_part(save, STORAGE_MIRROR, i,
                          (struct slice){bytes, sizeof bytes});
    }
    return storage_save_commit(save, &about);
}

Test(save, a_file_that_was_full_once_is_not_full_for_ever)
{
    struct dir dir = dir_new();
    struct storage_io *io = NULL;
    struct storage_limits limits = limits_small();

    limits.txn_bytes = 128 << 10;
    cr_assert_eq(storage_lmdb_new(&io, dir.path, STORAGE_WRITE, 4 << 20),
                 STORAGE_OK);
    struct storage_save *save = storage_save_new(io, &limits, 1);
    cr_assert_not_null(save);
    cr_assert_eq(take_large(save, 80), STORAGE_OK);
    for (uint32_t n = 0; n < 3; n++) {
        cr_assert_eq(take_large(save, 240), STORAGE_E_FULL);
    }
    cr_assert_eq(take_large(save, 80), STORAGE_OK);
    storage_save_free(save);
    struct storage_find find;
    cr_assert_eq(storage_find(io, "c", &limits, 0, &find), STORAGE_OK);
    cr_assert(find.found && find.chosen.parts == 80);
    storage_io_free(io);
    dir_free(&dir);
}

/* A disk that fails for a night must not be filled, nor may the good file be
 * lost among those that were given up. */
Test(save, files_that_were_given_up_do_not_stay)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_save *save = save_new(io, 1);
    struct storage_names names;

    cr_assert_eq(take(save, 1), STORAGE_OK);
    for (uint32_t n = 2; n < 100; n++) {
        sim_disk_fail(io, 10, STORAGE_E_IO);
        cr_assert_eq(take(save, n), STORAGE_E_IO);
    }
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_leq(names.count, 2);
    storage_save_free(save);
    cr_assert_eq(found(io), 1);
    storage_io_free(io);
}

Test(save, older_files_go_after_the_first_commit_of_a_life)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_save *save = save_new(io, 1);
    struct storage_names names;

    cr_assert_eq(take(save, 1), STORAGE_OK);
    storage_save_free(save);
    save = save_new(io, 2);
    storage_save_begin(save);
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_eq(names.count, 2);
    storage_save_abort(save);
    cr_assert_eq(take(save, 2), STORAGE_OK);
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_eq(names.count, 1);
    storage_save_free(save);
    cr_assert_eq(found(io), 2);
    storage_io_free(io);
}

/* ---- finding ---- */

static void
rewrite_root(struct storage_io *io, const char *name,
             const struct storage_root *root)
{
    struct storage_txn txn;
    struct buf out;

    buf_init(&out, 1 << 20);
    storage_root_encode(root, &out);
    cr_assert_eq(io->ops->create(io, name), STORAGE_OK);
    storage_txn_begin(&txn, io);
    storage_txn_put(&txn, STORAGE_ROOT_KEY, buf_slice(&out));
    cr_assert_eq(storage_txn_commit(&txn), STORAGE_OK);
    io->ops->close(io);
    buf_fini(&out);
}

static struct storage_find
find_in(struct storage_io *io)
{
    struct storage_limits limits = limits_small();
    struct storage_find find;

    cr_assert_eq(storage_find(io, "c", &limits, 0, &find), STORAGE_OK);
    return find;
}

Test(find, a_newer_format_is_refused_by_its_number_and_kept)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_root root = {.major = STORAGE_MAJOR + 1, .minor = 3};
    struct storage_names names;
    char name[STORAGE_NAME_MAX];

    storage_file_name(5, name);
    rewrite_root(io, name, &root);
    struct storage_find find = find_in(io);
    cr_assert(!find.found);
    cr_assert_eq(find.refused.outcome, STORAGE_E_VERSION);
    cr_assert_str_eq(find.refused.reason,
                     "format version 3.3, this program knows 2.2");
    cr_assert_eq(find.generation, 6);
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_str_eq(names.name[0], "kvasir-0000000000000005.mdb.aside");
    storage_io_free(io);
}

Test(find, another_clusters_snapshot_is_refused_by_name)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_root root = {.major = STORAGE_MAJOR, .cluster = "other"};
    char name[STORAGE_NAME_MAX];

    storage_file_name(5, name);
    rewrite_root(io, name, &root);
    struct storage_find find = find_in(io);
    cr_assert(!find.found);
    cr_assert_str_eq(find.refused.reason,
                     "of cluster \"other\", this one is \"c\"");
    storage_io_free(io);
}

Test(find, a_damaged_file_is_set_aside_and_the_one_before_is_taken)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_save *save = save_new(io, 1);
    struct storage_root root = {.major = STORAGE_MAJOR, .cluster = "c"};
    struct storage_row row = {.key = 77, .size = 3};
    char name[STORAGE_NAME_MAX];

    cr_assert_eq(take(save, 1), STORAGE_OK);
    storage_save_free(save);
    root.rows = &row;
    root.rows_count = 1;
    storage_file_name(9, name);
    rewrite_root(io, name, &root); /* names a part that is not there */
    struct storage_find find = find_in(io);
    cr_assert(find.found);
    cr_assert_eq(find.refusals, 1);
    cr_assert_eq(find.refused.outcome, STORAGE_E_CORRUPT);
    cr_assert_eq(find.chosen.generation, 1);
    cr_assert_eq(find.generation, 10);
    cr_assert_eq(find_in(io).refusals, 0); /* not looked at again */
    storage_io_free(io);
}

Test(find, few_damaged_files_are_kept)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_root root = {.major = STORAGE_MAJOR, .cluster = "other"};
    struct storage_names names;
    char name[STORAGE_NAME_MAX];

    for (uint64_t g = 1; g < 9; g++) {
        storage_file_name(g, name);
        rewrite_root(io, name, &root);
    }
    cr_assert_eq(find_in(io).refusals, 8);
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_eq(names.count, limits_small().aside_max);
    storage_io_free(io);
}

/* Each life leaves a file that is of no use to the next one. */
Test(find, a_generation_does_not_come_again_while_a_file_of_it_is_kept)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_root root = {.major = STORAGE_MAJOR, .cluster = "other"};
    struct storage_names names;
    uint64_t generation;
    char name[STORAGE_NAME_MAX];

    for (uint64_t g = 1; g < 9; g++) {
        cr_assert_eq(find_in(io).generation, g);
        cr_assert_eq(storage_next_generation(io, &generation), STORAGE_OK);
        cr_assert_eq(generation, g);
        storage_file_name(g, name);
        rewrite_root(io, name, &root);
    }
    cr_assert_eq(find_in(io).generation, 9);
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_eq(names.count, 3);
    for (uint32_t i = 0; i < names.count; i++) {
        cr_assert(storage_aside_generation(names.name[i], &generation));
        cr_assert_geq(generation, 6); /* the newest */
    }
    storage_io_free(io);
}

Test(find, a_life_that_ended_before_its_first_snapshot_leaves_nothing)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_save *save = save_new(io, 3);
    struct storage_names names;

    storage_save_begin(save);
    storage_save_abort(save);
    storage_save_free(save);
    struct storage_find find = find_in(io);
    cr_assert(!find.found);
    cr_assert_eq(find.refusals, 0);
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert_eq(names.count, 0);
    storage_io_free(io);
}

/* ---- the root ---- */

Test(root, no_damaged_byte_goes_unnoticed)
{
    struct storage_row rows[2] = {{.key = 1, .size = 2, .digest = 3},
                                  {.key = 4, .size = 5, .digest = 6}};
    struct storage_root root = {.major = STORAGE_MAJOR,
                                .cluster = "c",
                                .node = "n",
                                .rows = rows,
                                .rows_count = 2};
    struct storage_root got;
    struct buf out;

    buf_init(&out, 4096);
    storage_root_encode(&root, &out);
    cr_assert_eq(storage_root_decode(&got, buf_slice(&out)), STORAGE_OK);
    storage_root_fini(&got);
    for (size_t i = 0; i < out.len; i++) {
        struct slice cut = {.ptr = out.ptr, .len = i};
        cr_assert_eq(storage_root_decode(&got, cut), STORAGE_E_CORRUPT);
        out.ptr[i] ^= 4;
        cr_assert_eq(storage_root_decode(&got, buf_slice(&out)),
                     STORAGE_E_CORRUPT);
        out.ptr[i] ^= 4;
    }
    buf_fini(&out);
}

Test(root, a_later_minor_version_with_more_in_it_is_read)
{
    struct storage_root root = {.major = STORAGE_MAJOR,
                                .minor = STORAGE_MINOR + 1,
                                .cluster = "c",
                                .streams = 12};
    struct storage_root got;
    struct buf out;

    buf_init(&out, 4096);
    storage_root_encode(&root, &out);
    out.len -= sizeof(uint64_t);
    buf_add(&out, "more", 4);
    uint64_t digest = key_digest(buf_slice(&out));
    for (unsigned i = 0; i < 8; i++) {
        char byte = (char)(uint8_t)(digest >> (8 * i));
        buf_add(&out, &byte, 1);
    }
    cr_assert_eq(storage_root_decode(&got, buf_slice(&out)), STORAGE_OK);
    cr_assert_eq(got.streams, 12);
    storage_root_fini(&got);
    buf_fini(&out);
}
