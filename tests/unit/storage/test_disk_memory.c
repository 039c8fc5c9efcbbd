/* The queue in front of a disk, with one allocation after the other failing. */
#include "storage/disk.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "storage/find.h"
#include "storage/sim_disk.h"
#include "tests/unit/failing_alloc.h"

#define PARTS      3
#define PART_BYTES 40

static struct storage_disk *
open_still(struct storage_io *io)
{
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_disk *disk = NULL;

    cr_assert_not_null(save);
    cr_assert_eq(storage_disk_new_still(&disk, save, 1000), 0);
    return disk;
}

/* Gives a whole snapshot whose parts consist of this byte, with the allocation
 * after `fails` more ones failing; < 0: none. True: it was reached. */
static bool
give(struct storage_disk *disk, char byte, int64_t fails,
     enum storage_outcome *outcome)
{
    struct storage_about about = {
        .cluster = "c", .node = "n", .taken_ms = (uint64_t)byte};
    struct storage_part part[PARTS];
    struct storage_result result;

    for (uint32_t i = 0; i < PARTS; i++) {
        part[i] = (struct storage_part){
            .kind = STORAGE_MIRROR, .number = i, .len = PART_BYTES};
        part[i].bytes = malloc(PART_BYTES);
        cr_assert_not_null(part[i].bytes);
        memset(part[i].bytes, byte, PART_BYTES);
    }
    if (fails >= 0) {
        (void)failing_alloc_after((uint64_t)fails);
    }
    storage_disk_begin(disk);
    for (uint32_t i = 0; i < PARTS; i++) {
        storage_disk_part(disk, &part[i]);
    }
    storage_disk_commit(disk, &about);
    bool reached = fails >= 0 && failing_alloc_after(1);
    failing_alloc_stop();
    while (storage_disk_turn(disk)) {
    }
    cr_assert(storage_disk_result(disk, &result));
    *outcome = result.outcome;
    return reached;
}

/* When the snapshot that a start would load was taken; 0: there is none. */
static uint64_t
newest(const struct storage_io *io)
{
    struct storage_limits limits = storage_limits_default();
    struct storage_io *copy = sim_disk_copy(io, 1);
    struct storage_find find;

    cr_assert_not_null(copy);
    cr_assert_eq(storage_find(copy, "c", &limits, 0, &find), STORAGE_OK);
    storage_io_free(copy);
    return find.found ? find.chosen.taken_ms : 0;
}

/* The nth allocation of a snapshot fails, of a disk's first one or of a later
 * one. False: it has no nth one. */
static bool
run(bool is_first, int64_t n)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_disk *disk = open_still(io);
    enum storage_outcome outcome;

    if (!is_first) {
        cr_assert_not(give(disk, 1, -1, &outcome));
        cr_assert_eq(outcome, STORAGE_OK);
    }
    bool failed = give(disk, 2, n, &outcome);
    cr_assert_eq(outcome, failed ? STORAGE_E_MEMORY : STORAGE_OK);
    cr_assert_eq(newest(io), failed ? !is_first : 2);
    cr_assert_not(give(disk, 3, -1, &outcome));
    cr_assert_eq(outcome, STORAGE_OK);
    cr_assert_eq(newest(io), 3);
    storage_disk_free(disk);
    storage_io_free(io);
    return failed;
}

Test(disk_memory, a_snapshot_that_is_short_of_memory_leaves_the_one_before)
{
    int64_t n = 0;

    for (; run(true, n); n++) {
        cr_assert(run(false, n));
    }
    cr_assert_not(run(false, n));
    cr_assert_geq(n, PARTS);
}
