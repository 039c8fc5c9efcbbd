/*
 * The disk thread: a bounded queue in front of a storage_save.
 *
 * Control hands parts over and continues; it collects the result of a snapshot
 * after wake() was called. At most queue_bytes wait, exceeded by one part at
 * most. While there is no room, control reads no further parts; when half of
 * the queue is free again, wake() is called, too.
 *
 * Role: shell. Owns: the thread, the save, the queue. Thread: control; wake()
 * is called by the disk thread, and room and part may be called by another
 * thread as well between a begin and its end (twin.h). Errors: the result's
 * outcome.
 */
#ifndef STORAGE_DISK_H
#define STORAGE_DISK_H

#include "storage/cut.h"

struct storage_disk;

struct storage_result {
    enum storage_outcome outcome;
    struct storage_saved saved; /* of the last committed snapshot */
    bool whole;                 /* the next snapshot needs all parts */
};

/*
 * save: taken over, even when this fails. wake: called by the disk thread when
 * there is a result, or room again; NULL: no call. 0 or -errno.
 */
int storage_disk_new(struct storage_disk **out, struct storage_save *save,
                     uint64_t queue_bytes, void (*wake)(void *context),
                     void *context) MUST_CHECK;

/* The same without a thread, for tests and simulations: storage_disk_turn()
 * does the work, and wake() is never called. */
int storage_disk_new_still(struct storage_disk **out, struct storage_save *save,
                           uint64_t queue_bytes) MUST_CHECK;

/* For a disk without a thread: does the next item of the queue. False: the
 * queue is empty. */
bool storage_disk_turn(struct storage_disk *disk);

/* Finishes the queue, then ends the thread. Without a thread the queue is lost.
 * disk may be NULL. */
void storage_disk_free(struct storage_disk *disk);

/* True while less than queue_bytes wait. When there is no room, the caller
 * hands over nothing more and waits for wake(). */
bool storage_disk_room(struct storage_disk *disk);

/* Begins a snapshot. One at a time: begin, parts, then commit or abort, then
 * the result. */
void storage_disk_begin(struct storage_disk *disk);

/* Hands a part over; its bytes belong to the disk from now on. */
void storage_disk_part(struct storage_disk *disk,
                       const struct storage_part *part);

/* Ends the snapshot with its root. about: its texts live until the result. */
void storage_disk_commit(struct storage_disk *disk,
                         const struct storage_about *about);

/* Gives the snapshot up; the one before it stays. */
void storage_disk_abort(struct storage_disk *disk);

/*
 * The result of a commit or an abort, once. After an abort the outcome is 0 and
 * nothing was saved; STORAGE_E_MEMORY when a part was lost for lack of memory.
 * False: there is no result yet.
 */
bool storage_disk_result(struct storage_disk *disk,
                         struct storage_result *result);

#endif
