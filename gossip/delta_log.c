/* One stream's latest records, within a bound that all logs share. */
#include "gossip/delta_log_internal.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_FIRST   1024U
#define ENTRIES_FIRST 16U

/* Invariants that hold between any two calls; delta_log_check() also looks at
 * each entry. */
static bool
is_sound(const struct delta_log *log)
{
    return log->low <= log->high && log->tail <= log->bytes_size &&
           log->first + log->count <= log->entries_size;
}

static size_t
memory_of(const struct delta_log *log)
{
    return log->bytes_size + log->entries_size * sizeof(struct delta_log_entry);
}

void
delta_log_fini(struct delta_log *log, struct delta_log_store *store)
{
    struct delta_log **link = &store->first;

    CHECK(store->bytes >= memory_of(log));
    CHECK(is_sound(log));
    while (*link != NULL && *link != log) {
        link = &(*link)->next;
    }
    CHECK(*link == log || memory_of(log) == 0);
    *link = log->next;
    store->bytes -= memory_of(log);
    free(log->bytes);
    free(log->entries);
    *log = (struct delta_log){0};
}

void
delta_log_restart(struct delta_log *log, uint64_t pos)
{
    CHECK(is_sound(log));
    log->low = pos;
    log->high = pos;
    log->first = 0;
    log->count = 0;
    log->tail = 0;
}

uint32_t
delta_log_after(const struct delta_log *log, uint64_t pos)
{
    uint32_t from = 0;
    uint32_t to = log->count;

    CHECK(is_sound(log));
    while (from < to) {
        uint32_t middle = from + (to - from) / 2;
        if (log->entries[log->first + middle].pos > pos) {
            to = middle;
        } else {
            from = middle + 1;
        }
    }
    CHECK(from == 0 || log->entries[log->first + from - 1].pos <= pos);
    CHECK(from == log->count || log->entries[log->first + from].pos > pos);
    return from;
}

static uint32_t
head(const struct delta_log *log)
{
    return log->count == 0 ? log->tail : log->entries[log->first].at;
}

static void
drop_first(struct delta_log *log, struct delta_log_store *store)
{
    CHECK(log->count > 0);
    CHECK(log->entries[log->first].pos > log->low);
    log->low = log->entries[log->first].pos;
    log->first++;
    log->count--;
    store->dropped++;
    CHECK(is_sound(log));
}

/* Moves the entries and their bodies to the front. */
static void
compact(struct delta_log *log)
{
    uint32_t gone = head(log);

    CHECK(gone <= log->tail);
    if (log->count == 0) {
        log->first = 0;
        log->tail = 0;
        return;
    }
    memmove(log->bytes, log->bytes + gone, log->tail - gone);
    memmove(log->entries, log->entries + log->first,
            log->count * sizeof *log->entries);
    log->first = 0;
    log->tail -= gone;
    for (uint32_t i = 0; i < log->count; i++) {
        log->entries[i].at -= gone;
    }
    CHECK(is_sound(log) && head(log) == 0);
}

/* Doubles size until need fits, within max; size unchanged if it cannot. */
static uint32_t
grown(uint32_t size, uint32_t first, uint64_t need, uint32_t max)
{
    uint64_t wanted = size == 0 ? first : size;

    CHECK(first > 0 && size <= max);
    while (wanted < need) {
        wanted *= 2;
    }
    wanted = wanted > max ? max : wanted;
    return wanted >= need ? (uint32_t)wanted : size;
}

/* Drops entries from the oldest on, but none beyond `keep`, until no more than so
 * many are left, of so many bytes; the rest is in front then. */
static void
drop_older(struct delta_log *log, struct delta_log_store *store, uint32_t bytes,
           uint32_t count)
{
    while (log->count > 0 && log->entries[log->first].pos <= log->keep &&
           (log->tail - head(log) > bytes || log->count > count)) {
        drop_first(log, store);
    }
    compact(log);
    CHECK(log->first == 0);
}

/* Half of a size, but not less than the first one. */
static uint32_t
half(uint32_t size, uint32_t first)
{
    return size / 2 > first ? size / 2 : size < first ? size : first;
}

/* Its owner needs no more than half of it. */
static bool
can_halve(const struct delta_log *log)
{
    uint32_t at = delta_log_after(log, log->keep);
    uint32_t from =
        at < log->count ? log->entries[log->first + at].at : log->tail;

    return log->tail - from <= half(log->bytes_size, BYTES_FIRST) &&
           log->count - at <= half(log->entries_size, ENTRIES_FIRST);
}

/* Gives half of the log's memory back. False: there was none to give. */
static bool
halve(struct delta_log *log, struct delta_log_store *store)
{
    uint32_t size = half(log->bytes_size, BYTES_FIRST);
    uint32_t count = half(log->entries_size, ENTRIES_FIRST);
    size_t before = memory_of(log);

    drop_older(log, store, size, count);
    CHECK(log->tail <= size && log->count <= count);
    uint8_t *bytes = size > 0 ? realloc(log->bytes, size) : NULL;
    if (bytes != NULL) {
        log->bytes = bytes;
        log->bytes_size = size;
    }
    struct delta_log_entry *entries =
        count > 0 ? realloc(log->entries, count * sizeof *entries) : NULL;
    if (entries != NULL) {
        log->entries = entries;
        log->entries_size = count;
    }
    store->bytes -= before - memory_of(log);
    return memory_of(log) < before;
}

/* Makes room in the store for a log that has `size` bytes: takes it from those of
 * which a half is more. Then they cannot take it back, which would be for ever. */
static void
take_from_larger(struct delta_log_store *store, size_t size, size_t more)
{
    bool gave = true;

    while (gave && more > store->bytes_max - store->bytes) {
        struct delta_log *largest = NULL;
        size_t most = 2 * size;
        for (struct delta_log *at = store->first; at != NULL; at = at->next) {
            if (memory_of(at) > most && can_halve(at)) {
                largest = at;
                most = memory_of(at);
            }
        }
        gave = largest != NULL && halve(largest, store);
    }
}

/* realloc() of a part of the log, within the store's bound. */
static void *
resize(struct delta_log *log, struct delta_log_store *store, void *memory,
       size_t before, size_t after)
{
    bool listed = memory_of(log) != 0;

    CHECK(store->bytes <= store->bytes_max);
    if (after <= before) {
        return NULL;
    }
    take_from_larger(store, memory_of(log), after - before);
    void *larger = after - before <= store->bytes_max - store->bytes
                       ? realloc(memory, after)
                       : NULL;
    if (larger != NULL) {
        store->bytes += after - before;
    }
    if (larger != NULL && !listed) {
        log->next = store->first;
        store->first = log;
    }
    CHECK(store->bytes <= store->bytes_max);
    return larger;
}

static void
grow_bytes(struct delta_log *log, struct delta_log_store *store, uint32_t len)
{
    CHECK(log->bytes_size - log->tail < len);
    uint32_t size = grown(log->bytes_size, BYTES_FIRST,
                          (uint64_t)log->tail + len, store->log_bytes);
    uint8_t *bytes = resize(log, store, log->bytes, log->bytes_size, size);

    if (bytes != NULL) {
        log->bytes = bytes;
        log->bytes_size = size;
    }
}

static void
grow_entries(struct delta_log *log, struct delta_log_store *store)
{
    CHECK(log->first + log->count == log->entries_size);
    uint32_t size =
        grown(log->entries_size, ENTRIES_FIRST,
              (uint64_t)log->first + log->count + 1, store->log_count);
    struct delta_log_entry *entries =
        resize(log, store, log->entries, log->entries_size * sizeof *entries,
               size * sizeof *entries);

    if (entries != NULL) {
        log->entries = entries;
        log->entries_size = size;
    }
}

static bool
fits(const struct delta_log *log, uint32_t len)
{
    CHECK(is_sound(log));
    return log->bytes_size - log->tail >= len &&
           log->first + log->count < log->entries_size;
}

/* Drops the older half of the entries, and more if len asks for it. */
static void
make_room(struct delta_log *log, struct delta_log_store *store, uint32_t len)
{
    uint32_t bytes_low = log->bytes_size / 2;

    if (len > bytes_low) {
        bytes_low = log->bytes_size > len ? log->bytes_size - len : 0;
    }
    drop_older(log, store, bytes_low, log->entries_size / 2);
}

bool
delta_log_append(struct delta_log *log, struct delta_log_store *store,
                 uint64_t keep, uint64_t pos, const uint8_t *body, uint32_t len)
{
    CHECK(pos > log->high && len > 0);
    CHECK(body != NULL && is_sound(log));
    log->keep = keep;
    if (log->bytes_size - log->tail < len) {
        grow_bytes(log, store, len);
    }
    if (log->first + log->count == log->entries_size) {
        grow_entries(log, store);
    }
    if (!fits(log, len)) {
        make_room(log, store, len);
    }
    if (!fits(log, len)) {
        return false;
    }
    memcpy(log->bytes + log->tail, body, len);
    log->entries[log->first + log->count++] =
        (struct delta_log_entry){.pos = pos, .at = log->tail, .len = len};
    log->tail += len;
    log->high = pos;
    CHECK(log->tail <= log->bytes_size && log->low < log->high);
    return true;
}

bool
delta_log_check(const struct delta_log *log,
                const struct delta_log_store *store, const char **reason)
{
    uint64_t pos = log->low;
    uint32_t at = head(log);

    for (uint32_t i = 0; i < log->count; i++) {
        const struct delta_log_entry *entry = delta_log_entry_at(log, i);
        if (entry->pos <= pos || entry->at != at) {
            *reason = "a log's entries are not in order";
            return false;
        }
        pos = entry->pos;
        at += entry->len;
    }
    if (pos != log->high || at != log->tail || at > log->bytes_size) {
        *reason = "a log does not end where it says";
        return false;
    }
    if (log->bytes_size > store->log_bytes || store->bytes > store->bytes_max) {
        *reason = "a log is over its bound";
        return false;
    }
    return true;
}
