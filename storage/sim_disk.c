/*
 * The simulated disk: files in memory that fail, tear and lie by seed.
 */
#include "storage/sim_disk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/rng.h"

struct value {
    uint64_t key;
    char *bytes;
    size_t len;
};

struct values {
    struct value *value;
    uint32_t count;
    uint32_t room;
};

struct file {
    char name[STORAGE_NAME_MAX];
    struct values now;
    struct values before; /* what lied-about commits replaced; bytes NULL: it
                             was not there */
};

struct sim_disk {
    struct storage_io io;
    struct rng rng;
    struct file file[STORAGE_FILES_MAX];
    uint32_t files;
    struct file *open;
    bool reading;
    bool in_txn;
    struct values txn; /* bytes NULL: a drop */
    uint64_t operations;
    uint64_t fail_at;
    enum storage_outcome fail_with;
    uint64_t limit;
    bool lies;
};

static struct sim_disk *
disk_of(struct storage_io *io)
{
    return (struct sim_disk *)(void *)io;
}

/* ---- values ---- */

static char *
copy(const char *bytes, size_t len)
{
    char *to = malloc(len + 1);

    CHECK(to != NULL);
    if (len > 0) {
        memcpy(to, bytes, len);
    }
    return to;
}

static struct value *
find(const struct values *values, uint64_t key)
{
    CHECK_SLOW(values->count <= values->room);
    for (uint32_t i = 0; i < values->count; i++) {
        if (values->value[i].key == key) {
            return &values->value[i];
        }
    }
    return NULL;
}

/* Takes bytes over. */
static void
set(struct values *values, uint64_t key, char *bytes, size_t len)
{
    struct value *value = find(values, key);

    if (value == NULL) {
        if (values->count == values->room) {
            values->room = values->room * 2 + 16;
            values->value =
                realloc(values->value, values->room * sizeof(*values->value));
            CHECK(values->value != NULL);
        }
        value = &values->value[values->count++];
        *value = (struct value){.key = key};
    }
    free(value->bytes);
    value->bytes = bytes;
    value->len = len;
}

static void
unset(struct values *values, struct value *value)
{
    CHECK(value >= values->value && value < values->value + values->count);
    free(value->bytes);
    *value = values->value[--values->count];
}

static void
clear(struct values *values)
{
    for (uint32_t i = 0; i < values->count; i++) {
        free(values->value[i].bytes);
    }
    free(values->value);
    *values = (struct values){0};
}

static uint64_t
bytes_of(const struct values *values)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < values->count; i++) {
        sum += values->value[i].bytes == NULL ? 0 : values->value[i].len;
    }
    return sum;
}

/* ---- faults ---- */

static enum storage_outcome
operate(struct sim_disk *d)
{
    CHECK(d->fail_at == 0 || d->operations <= d->fail_at);
    d->operations++;
    if (d->fail_at != 0 && d->operations == d->fail_at) {
        d->fail_at = 0;
        return d->fail_with;
    }
    return STORAGE_OK;
}

static struct file *
file_at(struct sim_disk *d, const char *name)
{
    for (uint32_t i = 0; i < d->files; i++) {
        if (strcmp(d->file[i].name, name) == 0) {
            return &d->file[i];
        }
    }
    return NULL;
}

/* ---- the port ---- */

static enum storage_outcome
list(struct storage_io *io, struct storage_names *names)
{
    struct sim_disk *d = disk_of(io);

    CHECK(d->files <= STORAGE_FILES_MAX);
    names->count = d->files;
    for (uint32_t i = 0; i < d->files; i++) {
        memcpy(names->name[i], d->file[i].name, STORAGE_NAME_MAX);
    }
    return STORAGE_OK;
}

static enum storage_outcome
remove_file(struct storage_io *io, const char *name)
{
    struct sim_disk *d = disk_of(io);
    struct file *file = file_at(d, name);
    enum storage_outcome rc = operate(d);

    if (rc != STORAGE_OK || file == NULL) {
        return rc != STORAGE_OK ? rc : STORAGE_E_MISSING;
    }
    struct file *last = &d->file[d->files - 1];
    CHECK(d->open != file);
    clear(&file->now);
    clear(&file->before);
    if (d->open == last) {
        d->open = file;
    }
    if (file != last) {
        *file = *last;
    }
    *last = (struct file){0};
    d->files--;
    return STORAGE_OK;
}

static enum storage_outcome
rename_file(struct storage_io *io, const char *from, const char *to)
{
    struct sim_disk *d = disk_of(io);
    enum storage_outcome rc = operate(d);

    if (rc != STORAGE_OK || file_at(d, from) == NULL) {
        return rc != STORAGE_OK ? rc : STORAGE_E_MISSING;
    }
    if (file_at(d, to) != NULL) {
        rc = remove_file(io, to);
        if (rc != STORAGE_OK) {
            return rc;
        }
    }
    struct file *file = file_at(d, from);
    (void)snprintf(file->name, sizeof file->name, "%s", to);
    return STORAGE_OK;
}

static enum storage_outcome
create(struct storage_io *io, const char *name)
{
    struct sim_disk *d = disk_of(io);
    enum storage_outcome rc = operate(d);

    CHECK(d->open == NULL);
    if (rc == STORAGE_OK && file_at(d, name) != NULL) {
        rc = remove_file(io, name);
    }
    if (rc == STORAGE_OK && d->files == STORAGE_FILES_MAX) {
        rc = STORAGE_E_FULL;
    }
    if (rc != STORAGE_OK) {
        return rc;
    }
    d->open = &d->file[d->files++];
    *d->open = (struct file){0};
    (void)snprintf(d->open->name, sizeof d->open->name, "%s", name);
    d->reading = false;
    return STORAGE_OK;
}

static enum storage_outcome
open_file(struct storage_io *io, const char *name)
{
    struct sim_disk *d = disk_of(io);

    CHECK(d->open == NULL);
    d->open = file_at(d, name);
    d->reading = true;
    return d->open == NULL ? STORAGE_E_MISSING : STORAGE_OK;
}

static void
close_file(struct storage_io *io)
{
    struct sim_disk *d = disk_of(io);

    clear(&d->txn);
    d->in_txn = false;
    d->open = NULL;
}

static enum storage_outcome
begin(struct storage_io *io)
{
    struct sim_disk *d = disk_of(io);

    CHECK(d->open != NULL && !d->reading && !d->in_txn);
    enum storage_outcome rc = operate(d);
    d->in_txn = rc == STORAGE_OK;
    return rc;
}

static enum storage_outcome
put(struct storage_io *io, uint64_t key, struct slice bytes)
{
    struct sim_disk *d = disk_of(io);
    enum storage_outcome rc = operate(d);

    CHECK(d->in_txn);
    if (rc == STORAGE_OK) {
        set(&d->txn, key, copy(bytes.ptr, bytes.len), bytes.len);
    }
    return rc;
}

static enum storage_outcome
drop(struct storage_io *io, uint64_t key)
{
    struct sim_disk *d = disk_of(io);
    enum storage_outcome rc = operate(d);

    CHECK(d->in_txn);
    if (rc == STORAGE_OK) {
        if (find(&d->open->now, key) == NULL && find(&d->txn, key) == NULL) {
            return STORAGE_E_MISSING;
        }
        set(&d->txn, key, NULL, 0);
    }
    return rc;
}

/* What a lie may turn back to: the state of the last honest commit. */
static void
remember(struct sim_disk *d, uint64_t key)
{
    const struct value *was = find(&d->open->now, key);

    if (d->lies && find(&d->open->before, key) == NULL) {
        set(&d->open->before, key,
            was == NULL ? NULL : copy(was->bytes, was->len),
            was == NULL ? 0 : was->len);
    }
}

static void
settle(struct sim_disk *d)
{
    struct values *now = &d->open->now;

    CHECK(d->open != NULL && !d->reading);
    if (!d->lies) {
        clear(&d->open->before);
    }
    for (uint32_t i = 0; i < d->txn.count; i++) {
        struct value *change = &d->txn.value[i];
        remember(d, change->key);
        if (change->bytes != NULL) {
            set(now, change->key, change->bytes, change->len);
            change->bytes = NULL;
        } else if (find(now, change->key) != NULL) {
            unset(now, find(now, change->key));
        }
    }
}

static enum storage_outcome
commit(struct storage_io *io)
{
    struct sim_disk *d = disk_of(io);
    uint64_t used = bytes_of(&d->txn);
    enum storage_outcome rc = operate(d);

    CHECK(d->in_txn);
    CHECK(d->open != NULL);
    for (uint32_t i = 0; i < d->files; i++) {
        used += bytes_of(&d->file[i].now);
    }
    if (d->limit != 0 && used > d->limit) {
        rc = STORAGE_E_FULL;
    } else if (rc == STORAGE_OK || (rng_next(&d->rng) & 3) == 0) {
        settle(d);
    }
    clear(&d->txn);
    d->in_txn = false;
    return rc;
}

static void
abort_txn(struct storage_io *io)
{
    struct sim_disk *d = disk_of(io);

    clear(&d->txn);
    d->in_txn = false;
}

static enum storage_outcome
get(struct storage_io *io, uint64_t key, struct slice *bytes)
{
    struct sim_disk *d = disk_of(io);

    CHECK(d->open != NULL);
    const struct value *value = find(&d->txn, key);
    if (value == NULL) {
        value = find(&d->open->now, key);
    }
    if (value == NULL || value->bytes == NULL) {
        *bytes = (struct slice){0};
        return STORAGE_E_MISSING;
    }
    *bytes = (struct slice){.ptr = value->bytes, .len = value->len};
    return STORAGE_OK;
}

static uint64_t
size_of_file(struct storage_io *io)
{
    const struct sim_disk *d = disk_of(io);

    return d->open == NULL ? 0 : bytes_of(&d->open->now);
}

static void
free_io(struct storage_io *io)
{
    struct sim_disk *d = disk_of(io);

    for (uint32_t i = 0; i < d->files; i++) {
        clear(&d->file[i].now);
        clear(&d->file[i].before);
    }
    clear(&d->txn);
    free(d);
}

static const struct storage_io_ops sim_ops = {
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

struct storage_io *
sim_disk_new(uint64_t seed)
{
    struct sim_disk *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        return NULL;
    }
    d->io.ops = &sim_ops;
    rng_init(&d->rng, seed);
    return &d->io;
}

struct storage_io *
sim_disk_copy(const struct storage_io *io, uint64_t seed)
{
    const struct sim_disk *from = (const struct sim_disk *)(const void *)io;
    struct storage_io *to = sim_disk_new(seed);

    for (uint32_t i = 0; i < from->files && to != NULL; i++) {
        const struct file *file = &from->file[i];
        struct file *made = &disk_of(to)->file[disk_of(to)->files++];
        memcpy(made->name, file->name, sizeof made->name);
        for (uint32_t k = 0; k < file->now.count; k++) {
            const struct value *value = &file->now.value[k];
            set(&made->now, value->key, copy(value->bytes, value->len),
                value->len);
        }
    }
    return to;
}

uint64_t
sim_disk_operations(const struct storage_io *io)
{
    return ((const struct sim_disk *)(const void *)io)->operations;
}

void
sim_disk_fail(struct storage_io *io, uint64_t nth, enum storage_outcome outcome)
{
    struct sim_disk *d = disk_of(io);

    CHECK(outcome < STORAGE_OUTCOMES);
    d->fail_at = nth == 0 ? 0 : d->operations + nth;
    d->fail_with = outcome;
}

void
sim_disk_limit(struct storage_io *io, uint64_t bytes)
{
    disk_of(io)->limit = bytes;
}

void
sim_disk_lie(struct storage_io *io, bool lies)
{
    disk_of(io)->lies = lies;
}

static void
tear(struct sim_disk *d, struct value *value)
{
    CHECK(value->bytes != NULL);
    if (value->len == 0) {
        return;
    }
    size_t at = (size_t)rng_below(&d->rng, value->len);
    if ((rng_next(&d->rng) & 1) != 0) {
        value->len = at;
    } else {
        value->bytes[at] =
            (char)(value->bytes[at] ^ (char)(1 << rng_below(&d->rng, 7)));
    }
}

/* One value that was never really written. */
static void
turn_back(struct sim_disk *d, struct file *file, const struct value *was)
{
    struct value *now = find(&file->now, was->key);
    uint64_t fate = rng_below(&d->rng, 4);

    if (fate == 0 && now != NULL) {
        tear(d, now);
    } else if (fate <= 2) {
        if (was->bytes != NULL) {
            set(&file->now, was->key, copy(was->bytes, was->len), was->len);
        } else if (now != NULL) {
            unset(&file->now, now);
        }
    }
}

void
sim_disk_crash(struct storage_io *io, bool power)
{
    struct sim_disk *d = disk_of(io);

    close_file(io);
    d->fail_at = 0;
    for (uint32_t i = 0; i < d->files && power; i++) {
        struct file *file = &d->file[i];
        for (uint32_t k = 0; k < file->before.count; k++) {
            turn_back(d, file, &file->before.value[k]);
        }
        clear(&file->before);
    }
}

bool
sim_disk_damage(struct storage_io *io, const char *name)
{
    struct sim_disk *d = disk_of(io);
    struct file *file = file_at(d, name);

    if (file == NULL || file->now.count == 0) {
        return false;
    }
    tear(d, &file->now.value[rng_below(&d->rng, file->now.count)]);
    return true;
}
