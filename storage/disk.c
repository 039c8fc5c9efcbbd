/*
 * The disk thread and the bounded queue in front of it.
 */
#include "storage/disk.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "index/base/role.h"

#define NICE 10

enum job_kind {
    JOB_BEGIN,
    JOB_PART,
    JOB_COMMIT,
    JOB_ABORT,
};

struct job {
    struct job *next;
    enum job_kind kind;
    struct storage_part part;
    struct storage_about about;
};

struct storage_disk {
    struct storage_save *save; /* the disk thread's */
    void (*wake)(void *context);
    void *context;
    uint64_t queue_bytes;
    /* For these there is always room: a part without its begin would go into
     * the snapshot before. */
    struct job begin;
    struct job end; /* commit or abort */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all below */
    pthread_cond_t cond;
    struct job *first;
    struct job *last;
    uint64_t waiting; /* bytes */
    bool stop;
    bool still; /* there is no thread */
    bool lost;  /* a part there was no memory for */
    bool done;
    struct storage_result result;
};

/* What is true of the queue while the mutex is held. */
static bool
queue_sound(const struct storage_disk *disk)
{
    return disk->first == NULL ? disk->last == NULL
                               : disk->last != NULL && disk->last->next == NULL;
}

static void
tell(struct storage_disk *disk, enum storage_outcome outcome)
{
    struct storage_result result = {.outcome = outcome,
                                    .whole = storage_save_whole(disk->save)};

    storage_save_stats(disk->save, &result.saved);
    (void)pthread_mutex_lock(&disk->mutex);
    disk->result = result;
    disk->done = true;
    (void)pthread_mutex_unlock(&disk->mutex);
    if (disk->wake != NULL) {
        disk->wake(disk->context);
    }
}

static bool
take_lost(struct storage_disk *disk)
{
    (void)pthread_mutex_lock(&disk->mutex);
    bool lost = disk->lost;
    disk->lost = false;
    (void)pthread_mutex_unlock(&disk->mutex);
    return lost;
}

static void ON_DISK
finish(struct storage_disk *disk, const struct job *job)
{
    bool lost = take_lost(disk);

    CHECK(job->kind == JOB_COMMIT || job->kind == JOB_ABORT);
    if (job->kind == JOB_COMMIT && !lost) {
        tell(disk, storage_save_commit(disk->save, &job->about));
        return;
    }
    storage_save_abort(disk->save);
    tell(disk, lost ? STORAGE_E_MEMORY : STORAGE_OK);
}

static void ON_DISK
work(struct storage_disk *disk, const struct job *job)
{
    CHECK(job->kind <= JOB_ABORT);
    switch (job->kind) {
    case JOB_BEGIN:
        storage_save_begin(disk->save);
        break;
    case JOB_PART:
        storage_save_part(
            disk->save, job->part.kind, job->part.number,
            (struct slice){.ptr = job->part.bytes, .len = job->part.len});
        break;
    case JOB_COMMIT:
    case JOB_ABORT:
    default:
        finish(disk, job);
        break;
    }
}

/* The next job; false at the end of all, and for now where nothing waits. */
static bool
take(struct storage_disk *disk, struct job *out)
{
    (void)pthread_mutex_lock(&disk->mutex);
    while (disk->first == NULL && !disk->stop && !disk->still) {
        (void)pthread_cond_wait(&disk->cond, &disk->mutex);
    }
    struct job *job = disk->first;
    bool taken = job != NULL;
    if (taken) {
        *out = *job;
        disk->first = job->next;
        disk->last = job->next == NULL ? NULL : disk->last;
    }
    CHECK(queue_sound(disk));
    (void)pthread_mutex_unlock(&disk->mutex);
    if (taken && job != &disk->begin && job != &disk->end) {
        free(job);
    }
    return taken;
}

/* True when half of the queue is free again. */
static bool
give_back(struct storage_disk *disk, const struct job *job)
{
    uint64_t half = disk->queue_bytes / 2;

    (void)pthread_mutex_lock(&disk->mutex);
    bool was_full = disk->waiting >= half;
    CHECK(disk->waiting >= job->part.len);
    disk->waiting -= job->part.len;
    bool room = was_full && disk->waiting < half;
    (void)pthread_mutex_unlock(&disk->mutex);
    free(job->part.bytes);
    return room;
}

/* On a busy machine, threads that serve requests go first. The priority is not
 * the lowest: a thread that hardly ever runs would make others wait for what it
 * holds, the queue or the allocator. */
static void
stand_back(void)
{
    struct sched_param none = {0};

    (void)pthread_setname_np(pthread_self(), "disk");
    (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
}

static void *
run(void *context)
{
    struct storage_disk *disk = context;
    struct job job;

    role_is_disk();
    stand_back();
    while (take(disk, &job)) {
        work(disk, &job);
        if (give_back(disk, &job) && disk->wake != NULL) {
            disk->wake(disk->context);
        }
    }
    return NULL;
}

int
storage_disk_new_still(struct storage_disk **out, struct storage_save *save,
                       uint64_t queue_bytes)
{
    struct storage_disk *disk = calloc(1, sizeof(*disk));

    CHECK(out != NULL && save != NULL);
    if (disk == NULL) {
        storage_save_free(save);
        return -ENOMEM;
    }
    *disk = (struct storage_disk){
        .save = save, .queue_bytes = queue_bytes, .still = true};
    (void)pthread_mutex_init(&disk->mutex, NULL);
    (void)pthread_cond_init(&disk->cond, NULL);
    *out = disk;
    return 0;
}

bool
storage_disk_turn(struct storage_disk *disk)
{
    struct job job;

    role_is_disk();
    CHECK(disk->still);
    if (!take(disk, &job)) {
        return false;
    }
    work(disk, &job);
    (void)give_back(disk, &job);
    return true;
}

static void
end(struct storage_disk *disk)
{
    (void)pthread_cond_destroy(&disk->cond);
    (void)pthread_mutex_destroy(&disk->mutex);
    storage_save_free(disk->save);
    free(disk);
}

int
storage_disk_new(struct storage_disk **out, struct storage_save *save,
                 uint64_t queue_bytes, void (*wake)(void *context),
                 void *context)
{
    struct storage_disk *disk = NULL;
    int rc = storage_disk_new_still(&disk, save, queue_bytes);

    if (rc != 0) {
        return rc;
    }
    disk->wake = wake;
    disk->context = context;
    disk->still = false;
    rc = pthread_create(&disk->thread, NULL, run, disk);
    if (rc != 0) {
        end(disk);
        return -rc;
    }
    *out = disk;
    return 0;
}

/* Frees the work that will not be done any more. */
static void
drop_jobs(struct storage_disk *disk)
{
    struct job job;

    CHECK(disk->still);
    while (take(disk, &job)) {
        free(job.part.bytes);
    }
}

void
storage_disk_free(struct storage_disk *disk)
{
    if (disk == NULL) {
        return;
    }
    if (disk->still) {
        drop_jobs(disk);
        end(disk);
        return;
    }
    (void)pthread_mutex_lock(&disk->mutex);
    disk->stop = true;
    (void)pthread_cond_signal(&disk->cond);
    (void)pthread_mutex_unlock(&disk->mutex);
    (void)pthread_join(disk->thread, NULL);
    end(disk);
}

bool
storage_disk_room(struct storage_disk *disk)
{
    (void)pthread_mutex_lock(&disk->mutex);
    bool room = disk->waiting < disk->queue_bytes;
    (void)pthread_mutex_unlock(&disk->mutex);
    return room;
}

/* Where a job waits; NULL if there is no memory for it. */
static struct job *
place_of(struct storage_disk *disk, enum job_kind kind)
{
    switch (kind) {
    case JOB_BEGIN:
        return &disk->begin;
    case JOB_PART:
        return malloc(sizeof(struct job));
    case JOB_COMMIT:
    case JOB_ABORT:
    default:
        return &disk->end;
    }
}

/* A part there is no memory for makes the snapshot fail. */
static void
give(struct storage_disk *disk, const struct job *what)
{
    struct job *job = place_of(disk, what->kind);

    CHECK(what->kind == JOB_PART || what->part.bytes == NULL);
    (void)pthread_mutex_lock(&disk->mutex);
    if (job == NULL) {
        disk->lost = true;
    } else {
        *job = *what;
        job->next = NULL;
        if (disk->last != NULL) {
            disk->last->next = job;
        } else {
            disk->first = job;
        }
        disk->last = job;
        disk->waiting += job->part.len;
        CHECK(queue_sound(disk));
        (void)pthread_cond_signal(&disk->cond);
    }
    (void)pthread_mutex_unlock(&disk->mutex);
    if (job == NULL) {
        free(what->part.bytes);
    }
}

void
storage_disk_begin(struct storage_disk *disk)
{
    give(disk, &(struct job){.kind = JOB_BEGIN});
}

void
storage_disk_part(struct storage_disk *disk, const struct storage_part *part)
{
    CHECK(part->kind > 0 && part->kind < STORAGE_KINDS);
    give(disk, &(struct job){.kind = JOB_PART, .part = *part});
}

void
storage_disk_commit(struct storage_disk *disk,
                    const struct storage_about *about)
{
    CHECK(about->cluster != NULL && about->node != NULL);
    give(disk, &(struct job){.kind = JOB_COMMIT, .about = *about});
}

void
storage_disk_abort(struct storage_disk *disk)
{
    give(disk, &(struct job){.kind = JOB_ABORT});
}

bool
storage_disk_result(struct storage_disk *disk, struct storage_result *result)
{
    CHECK(result != NULL);
    (void)pthread_mutex_lock(&disk->mutex);
    bool done = disk->done;
    *result = disk->result;
    disk->done = false;
    (void)pthread_mutex_unlock(&disk->mutex);
    return done;
}
