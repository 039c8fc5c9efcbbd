/*
 * Filling an index from a snapshot, and comparing what came out.
 */
#include "storage/restore.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/mutant.h"
#include "storage/bytes_internal.h"

#define STREAMS_MAX 65536U

struct restore {
    const struct storage_load *load;
    struct mirror *mirror;
    struct ledger *ledger;
    const struct storage_stream *streams;
    uint32_t count;
    struct words room; /* a part that is not aligned in its file */
};

/* ---- records ---- */

enum storage_outcome
storage_restore_part(const struct storage_load *load, enum storage_kind kind,
                     struct slice *bytes)
{
    enum storage_outcome rc = storage_load_part(load, kind, 0, bytes);

    CHECK(kind > 0 && kind < STORAGE_KINDS);
    if (rc == STORAGE_E_MISSING) {
        *bytes = (struct slice){0};
        rc = STORAGE_OK;
    }
    return rc;
}

enum storage_outcome
storage_restore_streams(const struct storage_load *load,
                        struct storage_stream **out, uint32_t *count)
{
    uint32_t max = load->root.streams;
    struct slice bytes;
    enum storage_outcome rc =
        storage_restore_part(load, STORAGE_STREAMS, &bytes);

    CHECK(out != NULL && count != NULL);
    if (rc != STORAGE_OK) {
        return rc;
    }
    if (max > STREAMS_MAX) {
        return STORAGE_E_LIMIT;
    }
    struct storage_stream *streams =
        malloc(((size_t)max + 1) * sizeof(*streams) + bytes.len);
    if (streams == NULL) {
        return STORAGE_E_MEMORY;
    }
    char *copy = (char *)(streams + max + 1);
    if (bytes.len > 0) {
        memcpy(copy, bytes.ptr, bytes.len);
    }
    struct storage_records in =
        storage_records((struct slice){.ptr = copy, .len = bytes.len});
    uint32_t n = 0;
    while (n < max && storage_get_stream(&in, &streams[n])) {
        n++;
    }
    if (in.failed || n != max || in.left != 0) {
        free(streams);
        return STORAGE_E_CORRUPT;
    }
    *out = streams;
    *count = n;
    return STORAGE_OK;
}

/* ---- words ---- */

/* The part's words as this machine reads them: in place where it can. */
static enum storage_outcome
words_of(struct restore *r, struct slice bytes, const uint64_t **words,
         size_t *count)
{
    *count = bytes.len / sizeof(uint64_t);
    if (bytes.len % sizeof(uint64_t) != 0) {
        return STORAGE_E_CORRUPT;
    }
    if (BYTE_ORDER == LITTLE_ENDIAN &&
        (uintptr_t)bytes.ptr % sizeof(uint64_t) == 0) {
        *words = (const uint64_t *)(const void *)bytes.ptr;
        return STORAGE_OK;
    }
    words_clear(&r->room);
    uint64_t *to = words_add(&r->room, *count + 1);
    if (to == NULL) {
        return STORAGE_E_MEMORY;
    }
    for (size_t i = 0; i < *count; i++) {
        memcpy(&to[i], bytes.ptr + i * sizeof(uint64_t), sizeof(uint64_t));
        to[i] = le64toh(to[i]);
    }
    *words = to;
    return STORAGE_OK;
}

/* All parts of a kind in one. */
static enum storage_outcome
read_joined(struct restore *r, enum storage_kind kind, struct words *all)
{
    CHECK(!all->failed);
    for (uint32_t i = 0;; i++) {
        struct slice bytes;
        const uint64_t *words;
        size_t count;
        enum storage_outcome rc = storage_load_part(r->load, kind, i, &bytes);
        if (rc == STORAGE_E_MISSING) {
            return STORAGE_OK;
        }
        if (rc == STORAGE_OK) {
            rc = words_of(r, bytes, &words, &count);
        }
        if (rc != STORAGE_OK) {
            return rc;
        }
        if (count == 0) {
            continue;
        }
        uint64_t *to = words_add(all, count);
        if (to == NULL) {
            return STORAGE_E_MEMORY;
        }
        memcpy(to, words, count * sizeof(*to));
    }
}

/* ---- slots ---- */

/* Those of the streams; a slot that the journal does not open or close was
 * there all the time, so that its parts count. */
static enum storage_outcome
slots_of(const struct restore *r, bool of_ledger, const struct words *journal,
         struct watch_slots *slots)
{
    size_t after[WORKERS_MAX];

    *slots = (struct watch_slots){0};
    if (!watch_journal_check(journal->word, journal->count, after)) {
        return STORAGE_E_CORRUPT;
    }
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t slot = of_ledger ? r->streams[i].ledger : r->streams[i].slot;
        if (slot == STORAGE_NONE) {
            continue;
        }
        if (slot >= WORKERS_MAX) {
            return STORAGE_E_LIMIT;
        }
        if (worker_set_has(&slots->live, slot)) {
            return STORAGE_E_CORRUPT;
        }
        worker_set_add(&slots->live, slot);
        if (after[slot] == 0) {
            worker_set_add(&slots->kept, slot);
        }
    }
    return STORAGE_OK;
}

/* The journal of one kind, for the caller to free, and the slots it leaves. */
static enum storage_outcome
read_journal(struct restore *r, enum storage_kind kind, struct words *journal,
             struct watch_slots *slots)
{
    words_init(journal, SIZE_MAX / 16);
    enum storage_outcome rc = read_joined(r, kind, journal);

    return rc == STORAGE_OK
               ? slots_of(r, kind == STORAGE_LEDGER_JOURNAL, journal, slots)
               : rc;
}

static enum storage_outcome
open_slots(struct mirror *mirror, const struct watch_slots *slots)
{
    WORKER_SET_EACH (slot, &slots->live) {
        if (mirror_open_at(mirror, slot) == 0) {
            continue;
        }
        WORKER_SET_EACH (opened, &slots->live) {
            if (opened < slot) {
                mirror_close(mirror, opened);
            }
        }
        return STORAGE_E_LIMIT;
    }
    return STORAGE_OK;
}

/* ---- both ---- */

/* bad: the index's own outcome for words that are malformed. */
static enum storage_outcome
outcome_of(int rc, int bad)
{
    CHECK(bad > 0);
    if (rc == -ENOMEM) {
        return STORAGE_E_MEMORY;
    }
    return rc == 0     ? STORAGE_OK
           : rc == bad ? STORAGE_E_CORRUPT
                       : STORAGE_E_LIMIT;
}

/* The parts of one kind, each given to the index. */
static enum storage_outcome
load_parts(struct restore *r, enum storage_kind kind,
           const struct watch_slots *slots)
{
    const struct storage_root *root = &r->load->root;
    enum storage_outcome rc = STORAGE_OK;

    CHECK(kind == STORAGE_MIRROR || kind == STORAGE_LEDGER);
    for (uint32_t i = 0; i < root->rows_count && rc == STORAGE_OK; i++) {
        struct slice bytes;
        const uint64_t *words = NULL;
        size_t count = 0;
        if (storage_key_kind(root->rows[i].key) != kind) {
            continue;
        }
        rc = storage_load_row(r->load, &root->rows[i], &bytes);
        if (rc == STORAGE_OK) {
            rc = words_of(r, bytes, &words, &count);
        }
        if (rc == STORAGE_OK && kind == STORAGE_MIRROR) {
            rc = outcome_of(mirror_load(r->mirror, words, count, slots),
                            MIRROR_E_BAD);
        } else if (rc == STORAGE_OK) {
            rc = outcome_of(ledger_load(r->ledger, words, count), LEDGER_E_BAD);
        }
    }
    return rc;
}

static enum storage_outcome
fill_mirror(struct restore *r, const struct words *journal,
            const struct watch_slots *slots)
{
    enum storage_outcome rc = load_parts(r, STORAGE_MIRROR, slots);

    CHECK(r->mirror != NULL);
    if (rc == STORAGE_OK) {
        rc = outcome_of(mirror_load_journal(r->mirror, journal->word,
                                            journal->count, slots),
                        MIRROR_E_BAD);
    }
    for (uint32_t i = 0; i < r->count && rc == STORAGE_OK; i++) {
        const struct storage_stream *stream = &r->streams[i];
        if (stream->slot == STORAGE_NONE) {
            continue;
        }
        rc = outcome_of(
            mirror_apply(r->mirror, stream->slot, NULL, 0, stream->holes),
            MIRROR_E_BAD);
        if (!MUTANT(UNVERIFIED) &&
            (mirror_slot_blocks(r->mirror, stream->slot) != stream->blocks ||
             mirror_slot_digest(r->mirror, stream->slot) != stream->digest)) {
            rc = STORAGE_E_CORRUPT;
        }
    }
    return rc;
}

static enum storage_outcome
restore_mirror(struct restore *r)
{
    struct words journal;
    struct watch_slots slots;

    enum storage_outcome rc =
        read_journal(r, STORAGE_MIRROR_JOURNAL, &journal, &slots);
    if (rc == STORAGE_OK) {
        rc = open_slots(r->mirror, &slots);
    }
    if (rc == STORAGE_OK) {
        rc = fill_mirror(r, &journal, &slots);
        WORKER_SET_EACH (slot, &slots.live) {
            if (rc != STORAGE_OK) {
                mirror_close(r->mirror, slot);
            }
        }
    }
    words_fini(&journal);
    return rc;
}

static enum storage_outcome
fill_ledger(struct restore *r, const struct words *journal,
            const struct watch_slots *slots)
{
    CHECK(r->ledger != NULL);
    ledger_load_begin(r->ledger, slots);
    enum storage_outcome rc = load_parts(r, STORAGE_LEDGER, slots);

    return rc == STORAGE_OK
               ? outcome_of(ledger_load_journal(r->ledger, journal->word,
                                                journal->count),
                            LEDGER_E_BAD)
               : rc;
}

static enum storage_outcome
read_ledger(struct restore *r)
{
    struct words journal;
    struct watch_slots slots;

    enum storage_outcome rc =
        read_journal(r, STORAGE_LEDGER_JOURNAL, &journal, &slots);
    if (rc == STORAGE_OK) {
        rc = fill_ledger(r, &journal, &slots);
    }
    words_fini(&journal);
    return rc;
}

enum storage_outcome
storage_restore_ledger(const struct storage_load *load, struct ledger *ledger,
                       const struct storage_stream *streams, uint32_t count)
{
    struct restore r = {
        .load = load, .ledger = ledger, .streams = streams, .count = count};

    words_init(&r.room, SIZE_MAX / 16);
    enum storage_outcome rc = read_ledger(&r);
    words_fini(&r.room);
    return rc;
}

enum storage_outcome
storage_restore_ledger_end(struct ledger *ledger,
                           const struct storage_stream *streams, uint32_t count)
{
    enum storage_outcome rc = outcome_of(ledger_load_end(ledger), LEDGER_E_BAD);

    CHECK(count == 0 || streams != NULL);
    for (uint32_t i = 0; i < count && rc == STORAGE_OK; i++) {
        const struct storage_stream *stream = &streams[i];
        if (stream->ledger != STORAGE_NONE &&
            ledger_blocks(ledger, stream->ledger) != stream->ledger_blocks) {
            rc = STORAGE_E_CORRUPT;
        }
    }
    return rc;
}

enum storage_outcome
storage_restore_index(const struct storage_load *load, struct mirror *mirror,
                      struct ledger *ledger,
                      const struct storage_stream *streams, uint32_t count)
{
    struct restore r = {
        .load = load, .mirror = mirror, .streams = streams, .count = count};
    enum storage_outcome rc = STORAGE_OK;

    CHECK(mirror != NULL || ledger != NULL);
    CHECK(count == 0 || streams != NULL);
    if (ledger != NULL) {
        rc = storage_restore_ledger(load, ledger, streams, count);
    }
    if (rc == STORAGE_OK && ledger != NULL) {
        rc = storage_restore_ledger_end(ledger, streams, count);
    }
    if (rc == STORAGE_OK && mirror != NULL) {
        words_init(&r.room, SIZE_MAX / 16);
        rc = restore_mirror(&r);
        words_fini(&r.room);
    }
    return rc;
}

/* ---- names ---- */

struct naming {
    const struct storage_stream *streams;
    struct names_copied *tables;
    struct names_room *room;
    uint32_t count;
    uint32_t last; /* entries of one stream come together */
};

/* The table that an entry is about, or NULL: its stream is not wanted. */
static struct names_copied *
copied_of(struct naming *naming, struct event_stream name)
{
    for (uint32_t i = 0; i < naming->count; i++) {
        uint32_t at = (naming->last + i) % naming->count;
        const struct storage_stream *stream = &naming->streams[at];
        if (stream->name.worker == name.worker &&
            stream->name.rank == name.rank) {
            naming->last = at;
            return stream->named ? &naming->tables[at] : NULL;
        }
    }
    return NULL;
}

/* A table without room is lost, and the others are not. */
static enum storage_outcome
take_entries(struct naming *naming, const uint64_t *words, size_t count)
{
    struct names_copy entry;
    size_t at = 0;

    CHECK(naming->tables != NULL || naming->count == 0);
    while (names_copy_get(words, count, &at, &entry)) {
        struct names_copied *copied = copied_of(naming, entry.stream);
        if (copied != NULL &&
            names_copied_take(copied, naming->room, &entry) == NAMES_E_BAD) {
            return STORAGE_E_CORRUPT;
        }
    }
    return at == count ? STORAGE_OK : STORAGE_E_CORRUPT;
}

static enum storage_outcome
take_names(struct restore *r, struct naming *naming, enum storage_kind kind)
{
    enum storage_outcome rc = STORAGE_OK;

    for (uint32_t i = 0; rc == STORAGE_OK; i++) {
        struct slice bytes;
        const uint64_t *words = NULL;
        size_t count = 0;
        rc = storage_load_part(r->load, kind, i, &bytes);
        if (rc == STORAGE_E_MISSING) {
            return STORAGE_OK;
        }
        if (rc == STORAGE_OK) {
            rc = words_of(r, bytes, &words, &count);
        }
        if (rc == STORAGE_OK) {
            rc = take_entries(naming, words, count);
        }
    }
    return rc;
}

enum storage_outcome
storage_restore_names(const struct storage_load *load,
                      const struct storage_stream *streams, uint32_t count,
                      struct names_copied *tables, struct names_room *room,
                      uint32_t *refused)
{
    struct restore r = {.load = load};
    struct naming naming = {
        .streams = streams, .tables = tables, .room = room, .count = count};

    words_init(&r.room, SIZE_MAX / 16);
    enum storage_outcome rc = take_names(&r, &naming, STORAGE_NAMES);
    if (rc == STORAGE_OK) {
        rc = take_names(&r, &naming, STORAGE_NAMES_JOURNAL);
    }
    words_fini(&r.room);
    *refused = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct storage_stream *stream = &streams[i];
        struct names *table = &tables[i].table;
        bool same = tables[i].any && !tables[i].lost &&
                    table->count == stream->names_count &&
                    table->digest == stream->names_digest;
        if (rc != STORAGE_OK || (stream->named && !same)) {
            names_clear(table, room);
            tables[i].any = false;
            *refused += stream->named;
        }
    }
    return rc;
}

/* ---- belief ---- */

/* Maps the slots of that time to the present ones. */
static enum storage_outcome
read_slots(const struct storage_load *load,
           uint32_t (*slot_of)(void *context, uint64_t identity), void *context,
           uint32_t slots[WORKERS_MAX])
{
    struct slice bytes;
    enum storage_outcome rc =
        storage_restore_part(load, STORAGE_BELIEF_WORKERS, &bytes);
    struct bytes_in in = {.at = bytes.ptr, .left = bytes.len};

    CHECK(slot_of != NULL);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        slots[i] = WORKER_NONE;
    }
    for (uint32_t i = 0; rc == STORAGE_OK && in.left > 0; i++) {
        uint64_t identity = get_u64(&in);
        if (in.failed) {
            return STORAGE_E_CORRUPT;
        }
        if (i < WORKERS_MAX && identity != 0) {
            slots[i] = slot_of(context, identity);
        }
    }
    return rc;
}

enum storage_outcome
storage_restore_belief(const struct storage_load *load, struct radix *radix,
                       uint32_t (*slot_of)(void *context, uint64_t identity),
                       void *context, uint64_t now_us)
{
    struct restore r = {.load = load};
    uint32_t slots[WORKERS_MAX];
    struct words all;

    CHECK(radix != NULL);
    words_init(&r.room, SIZE_MAX / 16);
    words_init(&all, SIZE_MAX / 16);
    enum storage_outcome rc = read_slots(load, slot_of, context, slots);
    if (rc == STORAGE_OK) {
        rc = read_joined(&r, STORAGE_BELIEF, &all);
    }
    if (rc == STORAGE_OK) {
        rc = outcome_of(radix_load(radix, all.word, all.count, slots, now_us),
                        RADIX_E_BAD);
    }
    words_fini(&all);
    words_fini(&r.room);
    return rc;
}
