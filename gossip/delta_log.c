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

void
delta_log_fini(struct delta_log *log, struct delta_log_store *store)
{
    size_t size =
        log->bytes_size + log->entries_size * sizeof(struct delta_log_entry);

    CHECK(store->bytes >= size);
    CHECK(is_sound(log));
    store->bytes -= size;
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

/* realloc() within the store's bound. */
static void *
resize(struct delta_log_store *store, void *memory, size_t before, size_t after)
{
    CHECK(store->bytes <= store->bytes_max);
    if (after <= before || after - before > store->bytes_max - store->bytes) {
        return NULL;
    }
    void *larger = realloc(memory, after);
    if (larger != NULL) {
        store->bytes += after - before;
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
    uint8_t *bytes = resize(store, log->bytes, log->bytes_size, size);

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
        resize(store, log->entries, log->entries_size * sizeof *entries,
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
make_room(struct delta_log *log, struct delta_log_store *store, uint64_t keep,
          uint32_t len)
{
    uint32_t bytes_low = log->bytes_size / 2;
    uint32_t count_low = log->entries_size / 2;

    if (len > bytes_low) {
        bytes_low = log->bytes_size > len ? log->bytes_size - len : 0;
    }
    while (log->count > 0 && log->entries[log->first].pos <= keep &&
           (log->tail - head(log) > bytes_low || log->count > count_low)) {
        drop_first(log, store);
    }
    compact(log);
    CHECK(log->first == 0);
}

bool
delta_log_append(struct delta_log *log, struct delta_log_store *store,
                 uint64_t keep, uint64_t pos, const uint8_t *body, uint32_t len)
{
    CHECK(pos > log->high && len > 0);
    CHECK(body != NULL && is_sound(log));
    if (log->bytes_size - log->tail < len) {
        grow_bytes(log, store, len);
    }
    if (log->first + log->count == log->entries_size) {
        grow_entries(log, store);
    }
    if (!fits(log, len)) {
        make_room(log, store, keep, len);
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
