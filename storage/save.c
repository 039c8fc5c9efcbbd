/*
 * Writing a snapshot: transactions, versions of parts, failures.
 */
#include "storage/save.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/index.h"

#define NAME_PREFIX "kvasir-"
#define NAME_SUFFIX ".mdb"
#define NAME_DIGITS 16
#define GONE        UINT32_MAX /* as next: the part will not be there */

/* A part as the last snapshot has it, and as the next one will. */
struct part {
    uint32_t version; /* 0: it is not in the last one */
    uint32_t next;    /* 0: as it is */
    uint64_t size, digest;
    uint64_t next_size, next_digest;
};

struct kind {
    struct part *parts;
    uint32_t count;
    uint32_t room;
};

struct storage_save {
    struct storage_io *io;
    struct storage_limits limits;
    uint64_t generation; /* of the file that is open, or of the next one */
    bool open;
    bool whole;
    bool first; /* no snapshot was committed to this file yet */
    bool doubt; /* whether the last root was committed is not known */
    uint32_t version;
    enum storage_outcome failed;
    struct storage_txn txn;
    struct kind kind[STORAGE_KINDS];
    struct words litter; /* keys that no root names */
    struct storage_saved saved;
    uint64_t written;
    uint32_t parts_written;
};

struct storage_limits
storage_limits_default(void)
{
    return (struct storage_limits){.bytes_max = UINT64_C(64) << 30,
                                   .txn_bytes = UINT64_C(4) << 20,
                                   .queue_bytes = UINT64_C(64) << 20,
                                   .aside_max = 3};
}

struct storage_save *
storage_save_new(struct storage_io *io, const struct storage_limits *limits,
                 uint64_t generation)
{
    struct storage_save *save = calloc(1, sizeof(*save));

    CHECK(io != NULL && generation > 0);
    if (save != NULL) {
        save->io = io;
        save->limits = *limits;
        save->generation = generation;
        save->whole = true;
        save->first = true;
        words_init(&save->litter, (size_t)STORAGE_ROWS_MAX * 2);
    }
    return save;
}

static void
forget_parts(struct storage_save *save)
{
    for (uint32_t i = 0; i < STORAGE_KINDS; i++) {
        free(save->kind[i].parts);
        save->kind[i] = (struct kind){0};
    }
    words_clear(&save->litter);
}

void
storage_save_free(struct storage_save *save)
{
    if (save == NULL) {
        return;
    }
    storage_txn_abort(&save->txn);
    save->io->ops->close(save->io);
    forget_parts(save);
    words_fini(&save->litter);
    free(save);
}

bool
storage_save_whole(const struct storage_save *save)
{
    return save->whole;
}

/* ---- names ---- */

void
storage_file_name(uint64_t generation, char name[STORAGE_NAME_MAX])
{
    (void)snprintf(name, STORAGE_NAME_MAX, NAME_PREFIX "%016llx" NAME_SUFFIX,
                   (unsigned long long)generation);
}

static bool
generation_in(const char *name, const char *suffix, uint64_t *generation)
{
    size_t prefix = strlen(NAME_PREFIX);
    uint64_t number = 0;

    if (strlen(name) != prefix + NAME_DIGITS + strlen(suffix) ||
        strncmp(name, NAME_PREFIX, prefix) != 0 ||
        strcmp(name + prefix + NAME_DIGITS, suffix) != 0) {
        return false;
    }
    for (size_t i = prefix; i < prefix + NAME_DIGITS; i++) {
        const char *digits = "0123456789abcdef";
        const char *digit = strchr(digits, name[i]);
        if (digit == NULL) {
            return false;
        }
        number = number << 4 | (uint64_t)(digit - digits);
    }
    *generation = number;
    return true;
}

bool
storage_file_generation(const char *name, uint64_t *generation)
{
    return generation_in(name, NAME_SUFFIX, generation);
}

bool
storage_aside_generation(const char *name, uint64_t *generation)
{
    return generation_in(name, NAME_SUFFIX STORAGE_ASIDE, generation);
}

/* ---- parts ---- */

static void
fail(struct storage_save *save, enum storage_outcome outcome)
{
    CHECK(outcome < STORAGE_OUTCOMES);
    if (save->failed == STORAGE_OK) {
        save->failed = outcome;
    }
}

static struct part *
part_at(struct storage_save *save, enum storage_kind kind, uint32_t number)
{
    struct kind *k = &save->kind[kind];

    CHECK(kind < STORAGE_KINDS && number < STORAGE_ROWS_MAX);
    if (number >= k->room) {
        uint32_t room = number < 64 ? 64 : number + number / 2;
        struct part *more = realloc(k->parts, room * sizeof(*more));
        if (more == NULL) {
            fail(save, STORAGE_E_MEMORY);
            return NULL;
        }
        memset(more + k->room, 0, (room - k->room) * sizeof(*more));
        k->parts = more;
        k->room = room;
    }
    if (number >= k->count) {
        k->count = number + 1;
    }
    return &k->parts[number];
}

static void
open_file(struct storage_save *save)
{
    char name[STORAGE_NAME_MAX];

    CHECK(!save->open);
    storage_file_name(save->generation, name);
    enum storage_outcome rc = save->io->ops->create(save->io, name);
    save->open = rc == STORAGE_OK;
    fail(save, rc);
}

/* All parts of a kind that are not given again are gone. */
static void
renew(struct storage_save *save, enum storage_kind kind)
{
    CHECK(kind < STORAGE_KINDS);
    for (uint32_t i = 0; i < save->kind[kind].count; i++) {
        save->kind[kind].parts[i].next = GONE;
    }
}

void
storage_save_begin(struct storage_save *save)
{
    CHECK(!save->txn.open);
    CHECK(save->version < STORAGE_VERSION_MAX);
    save->failed = STORAGE_OK;
    save->written = 0;
    save->parts_written = 0;
    save->txn = (struct storage_txn){.io = save->io};
    if (!save->open) {
        open_file(save);
    }
    if (save->version == STORAGE_VERSION_MAX - 1) {
        fail(save, STORAGE_E_LIMIT);
    } else {
        save->version++;
    }
    for (enum storage_kind k = STORAGE_MIRROR; k < STORAGE_KINDS; k++) {
        if (save->whole || (k != STORAGE_MIRROR && k != STORAGE_LEDGER)) {
            renew(save, k);
        }
    }
}

/* The disk said that a root was not committed. If it was all the same, the
 * parts that are litter by our account are what stands in the file. */
static bool
root_as_known(struct storage_save *save)
{
    struct storage_root root;
    struct slice bytes;
    uint64_t number = 0;
    enum storage_outcome rc =
        save->io->ops->get(save->io, STORAGE_ROOT_KEY, &bytes);

    CHECK(save->open && save->doubt);
    if (rc == STORAGE_OK && storage_root_decode(&root, bytes) == STORAGE_OK) {
        number = root.number;
        storage_root_fini(&root);
    }
    return number == save->saved.number;
}

static void
drop_litter(struct storage_save *save)
{
    for (size_t i = 0; i < save->litter.count; i++) {
        storage_txn_drop(&save->txn, save->litter.word[i]);
    }
    fail(save, save->txn.failed);
}

static void
begin_some(struct storage_save *save)
{
    if (save->failed == STORAGE_OK) {
        storage_txn_begin(&save->txn, save->io);
        fail(save, save->txn.failed);
    }
}

static void
commit_some(struct storage_save *save)
{
    enum storage_outcome rc = storage_txn_commit(&save->txn);

    CHECK(!save->txn.open);
    fail(save, rc);
    if (rc == STORAGE_OK && !save->doubt) {
        words_clear(&save->litter);
    }
}

/*
 * Makes the room of litter free for what comes next. LMDB uses again what a
 * commit freed from the second one after it on: so that a file that was full
 * once does not stay so, litter goes before any part comes, the last of it by a
 * commit of its own.
 */
static void
clean(struct storage_save *save)
{
    CHECK(save->txn.open && save->litter.count > 0);
    uint64_t last = save->litter.word[save->litter.count - 1];

    drop_litter(save);
    storage_txn_put(&save->txn, last, (struct slice){0});
    fail(save, storage_txn_commit(&save->txn));
    begin_some(save);
    storage_txn_drop(&save->txn, last);
    commit_some(save);
    begin_some(save);
}

/* In a transaction; one is begun where none is open. */
static bool
writing(struct storage_save *save)
{
    if (save->failed == STORAGE_OK && !save->txn.open) {
        begin_some(save);
        if (save->doubt && save->failed == STORAGE_OK) {
            save->doubt = !root_as_known(save);
        }
        if (save->failed == STORAGE_OK && !save->doubt &&
            save->litter.count > 0) {
            clean(save);
        }
    }
    return save->failed == STORAGE_OK;
}

void
storage_save_part(struct storage_save *save, enum storage_kind kind,
                  uint32_t number, struct slice bytes)
{
    CHECK(kind > 0 && kind < STORAGE_KINDS && number < STORAGE_ROWS_MAX);
    struct part *part =
        save->failed == STORAGE_OK ? part_at(save, kind, number) : NULL;

    if (part == NULL || !writing(save)) {
        return;
    }
    CHECK(part->next != save->version);
    storage_txn_put(&save->txn, storage_key(kind, number, save->version),
                    bytes);
    part->next = save->version;
    part->next_size = bytes.len;
    part->next_digest = key_digest(bytes);
    save->written += bytes.len;
    save->parts_written++;
    fail(save, save->txn.failed);
    if (save->txn.bytes >= save->limits.txn_bytes) {
        commit_some(save);
    }
}

/* ---- the end ---- */

static bool
part_stays(const struct part *part)
{
    return part->next == 0 ? part->version != 0 : part->next != GONE;
}

static enum storage_outcome
fill_rows(struct storage_save *save, struct storage_root *root)
{
    uint64_t count = 0;

    CHECK(root->rows == NULL);
    for (uint32_t k = 1; k < STORAGE_KINDS; k++) {
        for (uint32_t i = 0; i < save->kind[k].count; i++) {
            count += part_stays(&save->kind[k].parts[i]);
        }
    }
    if (count > STORAGE_ROWS_MAX) {
        return STORAGE_E_LIMIT;
    }
    root->rows = calloc((size_t)count + 1, sizeof(*root->rows));
    if (root->rows == NULL) {
        return STORAGE_E_MEMORY;
    }
    for (enum storage_kind k = STORAGE_MIRROR; k < STORAGE_KINDS; k++) {
        for (uint32_t i = 0; i < save->kind[k].count; i++) {
            const struct part *part = &save->kind[k].parts[i];
            if (!part_stays(part)) {
                continue;
            }
            bool fresh = part->next != 0;
            root->rows[root->rows_count++] = (struct storage_row){
                .key = storage_key(k, i, fresh ? part->next : part->version),
                .size = fresh ? part->next_size : part->size,
                .digest = fresh ? part->next_digest : part->digest,
            };
        }
    }
    return STORAGE_OK;
}

static void
write_root(struct storage_save *save, const struct storage_about *about)
{
    struct storage_root root = {.major = STORAGE_MAJOR,
                                .minor = STORAGE_MINOR,
                                .generation = save->generation,
                                .number = save->version,
                                .taken_ms = about->taken_ms,
                                .blocks = about->blocks,
                                .ledger_blocks = about->ledger_blocks,
                                .streams = about->streams};
    struct buf out;

    CHECK(about->cluster != NULL && about->node != NULL);
    (void)snprintf(root.cluster, sizeof root.cluster, "%s", about->cluster);
    (void)snprintf(root.node, sizeof root.node, "%s", about->node);
    buf_init(&out, SIZE_MAX / 2);
    fail(save, fill_rows(save, &root));
    if (save->failed == STORAGE_OK) {
        storage_root_encode(&root, &out);
        if (out.failed) {
            fail(save, STORAGE_E_MEMORY);
        } else {
            storage_txn_put(&save->txn, STORAGE_ROOT_KEY, buf_slice(&out));
        }
    }
    buf_fini(&out);
    storage_root_fini(&root);
}

/* Parts that the new root does not name. */
static void
drop_replaced(struct storage_save *save)
{
    for (enum storage_kind k = STORAGE_MIRROR; k < STORAGE_KINDS; k++) {
        for (uint32_t i = 0; i < save->kind[k].count; i++) {
            const struct part *part = &save->kind[k].parts[i];
            if (part->next != 0 && part->version != 0) {
                storage_txn_drop(&save->txn, storage_key(k, i, part->version));
            }
        }
    }
}

static void
settle(struct storage_save *save)
{
    CHECK(save->failed == STORAGE_OK && !save->txn.open);
    save->saved.parts = 0;
    save->saved.size = 0;
    for (uint32_t k = 1; k < STORAGE_KINDS; k++) {
        for (uint32_t i = 0; i < save->kind[k].count; i++) {
            struct part *part = &save->kind[k].parts[i];
            if (part->next == GONE) {
                *part = (struct part){0};
            } else if (part->next != 0) {
                *part = (struct part){.version = part->next,
                                      .size = part->next_size,
                                      .digest = part->next_digest};
            }
            save->saved.parts += part->version != 0;
            save->saved.size += part->size;
        }
    }
    save->saved.generation = save->generation;
    save->saved.number = save->version;
    save->saved.written = save->written;
    save->saved.parts_written = save->parts_written;
    save->saved.file_size = save->io->ops->size(save->io);
}

/* Removes files of earlier lives. One that cannot be removed does no harm. */
static void
remove_older(struct storage_save *save)
{
    struct storage_names *names = malloc(sizeof(*names));
    uint64_t generation;

    CHECK(!save->first);
    if (names != NULL && save->io->ops->list(save->io, names) == STORAGE_OK) {
        for (uint32_t i = 0; i < names->count; i++) {
            if (storage_file_generation(names->name[i], &generation) &&
                generation < save->generation) {
                (void)save->io->ops->remove(save->io, names->name[i]);
            }
        }
    }
    free(names);
}

/* The next snapshot drops what was written of a failed one. */
static void
undo(struct storage_save *save)
{
    CHECK(!save->txn.open);
    for (enum storage_kind k = STORAGE_MIRROR; k < STORAGE_KINDS; k++) {
        for (uint32_t i = 0; i < save->kind[k].count; i++) {
            struct part *part = &save->kind[k].parts[i];
            if (part->next != 0 && part->next != GONE) {
                words_push(&save->litter, storage_key(k, i, part->next));
            }
            part->next = 0;
        }
    }
}

/* A file that is given up before its first snapshot. It would stay until one
 * succeeds, and a disk that fails for long would have one for each attempt. */
static void
remove_own(struct storage_save *save)
{
    char name[STORAGE_NAME_MAX];

    CHECK(!save->open);
    storage_file_name(save->generation, name);
    (void)save->io->ops->remove(save->io, name);
}

static void
give_up(struct storage_save *save)
{
    storage_txn_abort(&save->txn);
    save->whole = true;
    undo(save);
    if (save->failed == STORAGE_OK || save->failed == STORAGE_E_FULL ||
        !save->open) {
        return;
    }
    save->io->ops->close(save->io);
    save->open = false;
    if (save->first) { /* else it has the snapshot before */
        remove_own(save);
    }
    forget_parts(save);
    save->generation++;
    save->version = 0;
    save->first = true;
    save->doubt = false;
    save->saved.number = 0;
}

enum storage_outcome
storage_save_commit(struct storage_save *save,
                    const struct storage_about *about)
{
    CHECK(save->version > 0);
    if (writing(save)) {
        write_root(save, about);
        drop_replaced(save);
        if (save->doubt) {
            drop_litter(save);
        }
        fail(save, save->txn.failed);
    }
    if (save->failed == STORAGE_OK) {
        save->doubt = false;
        commit_some(save);
        save->doubt = save->failed != STORAGE_OK;
    }
    if (save->failed != STORAGE_OK) {
        give_up(save);
        return save->failed;
    }
    settle(save);
    save->whole = false;
    if (save->first) {
        save->first = false;
        remove_older(save);
    }
    return STORAGE_OK;
}

void
storage_save_abort(struct storage_save *save)
{
    give_up(save);
    save->failed = STORAGE_OK;
}

void
storage_save_stats(struct storage_save *save, struct storage_saved *out)
{
    CHECK(out != NULL);
    *out = save->saved;
}
