/* The queue in front of a disk, without its thread; disks that are copied. */
#include "storage/disk.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#include "storage/find.h"
#include "storage/sim_disk.h"

static struct storage_disk *
open_still(struct storage_io *io)
{
    struct storage_limits limits = storage_limits_default();
    struct storage_save *save = storage_save_new(io, &limits, 1);
    struct storage_disk *disk = NULL;

    cr_assert_not_null(save);
    cr_assert_eq(storage_disk_new_still(&disk, save, 100), 0);
    return disk;
}

static void
give_snapshot(struct storage_disk *disk)
{
    struct storage_about about = {.cluster = "c", .node = "n", .taken_ms = 7};
    struct storage_part part = {.kind = STORAGE_MIRROR, .len = 200};

    part.bytes = calloc(1, part.len);
    cr_assert_not_null(part.bytes);
    storage_disk_begin(disk);
    storage_disk_part(disk, &part);
    storage_disk_commit(disk, &about);
}

static bool
has_snapshot(struct storage_io *io)
{
    struct storage_limits limits = storage_limits_default();
    struct storage_find find;

    cr_assert_eq(storage_find(io, "c", &limits, 0, &find), STORAGE_OK);
    return find.found && find.chosen.taken_ms == 7;
}

Test(disk, without_a_thread_it_works_in_turns_alone)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_disk *disk = open_still(io);
    struct storage_result result;

    give_snapshot(disk);
    cr_assert_eq(sim_disk_operations(io), 0);
    cr_assert_not(storage_disk_result(disk, &result));
    cr_assert_not(storage_disk_room(disk));
    while (storage_disk_turn(disk)) {
    }
    cr_assert(storage_disk_room(disk));
    cr_assert(storage_disk_result(disk, &result));
    cr_assert_eq(result.outcome, STORAGE_OK);
    storage_disk_free(disk);
    cr_assert(has_snapshot(io));
    storage_io_free(io);
}

Test(disk, without_a_thread_what_is_queued_at_the_end_is_lost)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_disk *disk = open_still(io);

    give_snapshot(disk);
    cr_assert(storage_disk_turn(disk));
    cr_assert(storage_disk_turn(disk));
    storage_disk_free(disk);
    cr_assert_not(has_snapshot(io));
    storage_io_free(io);
}

Test(disk, a_copy_stays_as_it_is)
{
    struct storage_io *io = sim_disk_new(1);
    struct storage_io *before = sim_disk_copy(io, 2);
    struct storage_disk *disk = open_still(io);

    give_snapshot(disk);
    while (storage_disk_turn(disk)) {
    }
    storage_disk_free(disk);
    struct storage_io *after = sim_disk_copy(io, 3);
    struct storage_names names;
    cr_assert_eq(io->ops->list(io, &names), STORAGE_OK);
    cr_assert(sim_disk_damage(io, names.name[0]));
    cr_assert_not(has_snapshot(before));
    cr_assert_not(has_snapshot(io));
    cr_assert(has_snapshot(after));
    storage_io_free(io);
    storage_io_free(before);
    storage_io_free(after);
}
