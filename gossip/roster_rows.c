/*
 * The entries of the roster: their order, merging, room, digest, and the
 * invariants.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gossip/roster_internal.h"
#include "index/base/mutant.h"

static uint64_t
life_us(const struct roster *roster)
{
    return (uint64_t)roster->config.tombstone_ms * 1000;
}

int
roster_entry_check(const struct roster_entry *entry)
{
    CHECK(entry->id != NULL &&
          (entry->spec.ptr != NULL || entry->spec.len == 0));
    size_t id_len = strnlen(entry->id, ROSTER_ID_MAX);

    if (id_len == ROSTER_ID_MAX || entry->spec.len > ROSTER_SPEC_MAX) {
        return ROSTER_E_SIZE;
    }
    if (id_len == 0 || entry->version == 0 ||
        (entry->removed && (entry->draining || entry->spec.len > 0 ||
                            roster_is_configured(entry->version)))) {
        return ROSTER_E_BAD;
    }
    return 0;
}

static uint64_t
digest_of(const struct roster_entry *entry)
{
    uint8_t bytes[ROSTER_ENTRY_BYTES];
    struct codec_out out = {.bytes = bytes, .max = sizeof bytes};

    roster_put_said(&out, entry);
    CHECK(!out.failed);
    return key_digest(
        (struct slice){.ptr = (const char *)bytes, .len = out.len});
}

/* The row's index, or where it would be inserted. */
static uint32_t
place(const struct roster *roster, const char *id, bool *found)
{
    uint32_t low = 0;
    uint32_t high = roster->count;

    *found = false;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int order = strcmp(roster->rows[mid]->id, id);
        if (order == 0) {
            *found = true;
            return mid;
        }
        if (order < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

struct roster_row *
roster_row_find(const struct roster *roster, const char *id)
{
    bool found;
    uint32_t at = place(roster, id, &found);

    return found ? roster->rows[at] : NULL;
}

struct roster_entry
roster_row_entry(const struct roster *roster, const struct roster_row *row)
{
    struct roster_entry entry = {
        .id = row->id,
        .version = row->version,
        .removed = row->removed,
        .draining = row->draining,
        .spec = {.ptr = row->spec, .len = row->spec_len},
        .from = row->from,
    };

    if (roster_is_configured(row->version)) {
        entry.age_ms = roster_age_ms(roster, row->since_us);
    } else if (row->removed) {
        uint64_t left_us = row->expires_us > roster->now_us
                               ? row->expires_us - roster->now_us
                               : 0;
        CHECK(left_us <= life_us(roster));
        entry.age_ms = (uint32_t)((life_us(roster) - left_us) / 1000);
    }
    return entry;
}

/* Adds a row to the digest of all rows or removes it, by XOR. */

static void
count_in(struct roster *roster, const struct roster_row *row)
{
    CHECK(!row->faded && roster->digest_rows < roster->count);
    roster->digest ^= row->digest;
    roster->digest_rows++;
}

static void
count_out(struct roster *roster, const struct roster_row *row)
{
    if (!row->faded) {
        CHECK(roster->digest_rows > 0);
        roster->digest ^= row->digest;
        roster->digest_rows--;
    }
}

static void
drop(struct roster *roster, uint32_t at)
{
    CHECK(at < roster->count);
    struct roster_row *row = roster->rows[at];

    CHECK(row->removed && row->told && row->spec == NULL);
    count_out(roster, row);
    roster->count--;
    memmove(&roster->rows[at], &roster->rows[at + 1],
            (roster->count - at) * sizeof *roster->rows);
    free(row->own);
    free(row);
    CHECK(roster->digest_rows <= roster->count);
}

uint32_t
roster_age_ms(const struct roster *roster, int64_t since_us)
{
    int64_t age_ms = ((int64_t)roster->now_us - since_us) / 1000;

    CHECK(age_ms >= 0);
    return age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
}

static int64_t
since_of(const struct roster *roster, const struct roster_entry *entry)
{
    return (int64_t)roster->now_us - (int64_t)entry->age_ms * 1000;
}

static uint64_t
expiry_of(const struct roster *roster, const struct roster_entry *entry)
{
    CHECK(entry->removed);
    uint64_t age_us = (uint64_t)entry->age_ms * 1000;

    return roster->now_us +
           (age_us < life_us(roster) ? life_us(roster) - age_us : 0);
}

/* True: there is room for one more row. If necessary, the tombstone that would
 * expire first gives way, to a younger tombstone or to a worker. */
static bool
make_room(struct roster *roster, const struct roster_entry *entry)
{
    uint32_t oldest = UINT32_MAX;

    if (roster->count < roster->config.entries_max) {
        return true;
    }
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct roster_row *row = roster->rows[i];
        if (row->removed && row->told &&
            (oldest == UINT32_MAX ||
             row->expires_us < roster->rows[oldest]->expires_us)) {
            oldest = i;
        }
    }
    if (oldest == UINT32_MAX ||
        (entry->removed &&
         expiry_of(roster, entry) <= roster->rows[oldest]->expires_us)) {
        return false;
    }
    CHECK(oldest < roster->count);
    drop(roster, oldest);
    return true;
}

/* Copies the spec to *copy (NULL if it is empty). */
static int
copy_spec(struct slice spec, char **copy)
{
    CHECK(spec.len <= ROSTER_SPEC_MAX && (spec.ptr != NULL || spec.len == 0));
    *copy = NULL;
    if (spec.len > 0) {
        *copy = malloc(spec.len);
        if (*copy == NULL) {
            return -ENOMEM;
        }
        memcpy(*copy, spec.ptr, spec.len);
    }
    return 0;
}

/* Inserts a row of that id, which is not yet in the digest; NULL without
 * memory. */
static struct roster_row *
insert(struct roster *roster, const char *id)
{
    struct roster_row *row = calloc(1, sizeof *row);
    bool found;
    uint32_t at = place(roster, id, &found);

    if (row == NULL) {
        return NULL;
    }
    CHECK(!found && roster->count < roster->config.entries_max);
    CHECK(strnlen(id, ROSTER_ID_MAX) < ROSTER_ID_MAX);
    memcpy(row->id, id, strlen(id) + 1);
    row->faded = true;
    row->told = true;
    memmove(&roster->rows[at + 1], &roster->rows[at],
            (roster->count - at) * sizeof *roster->rows);
    roster->rows[at] = row;
    roster->count++;
    CHECK(at == 0 || strcmp(roster->rows[at - 1]->id, id) < 0);
    CHECK(at + 1 == roster->count || strcmp(id, roster->rows[at + 1]->id) < 0);
    return row;
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t
fades_us(const struct roster *roster, const struct roster_row *row)
{
    return row->expires_us - earlier(row->expires_us, life_us(roster) / 4);
}

/* Both sides know the same removal: the greater age is right, because ages
 * leave out the time of travel. */
static void
grow_older(struct roster *roster, struct roster_row *row, uint64_t expires_us)
{
    CHECK(row->removed);
    row->expires_us = earlier(row->expires_us, expires_us);
    roster->rows_due_us = earlier(roster->rows_due_us, fades_us(roster, row));
}

/* Sets the row to the entry; takes ownership of spec. */
static void
set(struct roster *roster, struct roster_row *row,
    const struct roster_entry *entry, uint64_t digest, char *spec)
{
    CHECK((spec == NULL) == (entry->spec.len == 0));
    count_out(roster, row);
    row->spec_len = entry->spec.len;
    row->version = entry->version;
    row->removed = entry->removed;
    row->draining = entry->draining;
    row->digest = digest;
    row->faded = false;
    row->since_us = since_of(roster, entry);
    count_in(roster, row);
    if (row->removed) {
        row->expires_us = MUTANT(NO_TOMBSTONE) ? roster->now_us : UINT64_MAX;
        grow_older(roster, row, expiry_of(roster, entry));
    }
    free(row->spec);
    row->spec = spec;
    roster->untold += row->told;
    CHECK(roster->untold <= roster->count);
    row->told = false;
}

int
roster_rows_merge(struct roster *roster, const struct roster_entry *entry,
                  uint64_t from)
{
    struct roster_row *row = roster_row_find(roster, entry->id);
    uint64_t digest = digest_of(entry);
    uint64_t known = row != NULL ? row->version : 0;
    char *spec;

    if (entry->version > known && entry->version - known > ROSTER_LEAP) {
        return ROSTER_E_BAD;
    }
    if (row != NULL && entry->version == row->version &&
        digest == row->digest) {
        if (row->removed) {
            grow_older(roster, row, expiry_of(roster, entry));
        } else if (since_of(roster, entry) > row->since_us) {
            row->since_us = since_of(roster, entry); /* the configuration was
                                                        loaded again */
        }
        return ROSTER_IS_SAME;
    }
    if (row != NULL &&
        (entry->version < row->version ||
         (entry->version == row->version && digest < row->digest))) {
        return ROSTER_IS_OLDER;
    }
    if (row == NULL && !make_room(roster, entry)) {
        return ROSTER_E_FULL;
    }
    if (copy_spec(entry->spec, &spec) != 0) {
        return -ENOMEM;
    }
    row = row != NULL ? row : insert(roster, entry->id);
    if (row == NULL) {
        free(spec);
        return -ENOMEM;
    }
    set(roster, row, entry, digest, spec);
    row->from = from;
    return 0;
}

void
roster_rows_tick(struct roster *roster)
{
    if (roster->now_us < roster->rows_due_us) {
        return;
    }
    roster->rows_due_us = UINT64_MAX;
    for (uint32_t i = roster->count; i-- > 0;) {
        struct roster_row *row = roster->rows[i];
        if (!row->removed) {
            continue;
        }
        if (row->expires_us <= roster->now_us && row->told) {
            drop(roster, i);
            continue;
        }
        if (!row->faded && fades_us(roster, row) <= roster->now_us) {
            count_out(roster, row);
            row->faded = true;
        }
        roster->rows_due_us =
            earlier(roster->rows_due_us,
                    row->faded ? row->expires_us : fades_us(roster, row));
    }
}

uint64_t
roster_digest(const struct roster *roster)
{
    return roster->digest ^ rng_mix(roster->digest_rows);
}

/* Invariants */

static bool
check_row(const struct roster *roster, uint32_t at, const char **reason)
{
    const struct roster_row *row = roster->rows[at];
    struct roster_entry entry = roster_row_entry(roster, row);
    const struct {
        bool holds;
        const char *what;
    } rules[] = {
        {at == 0 || strcmp(roster->rows[at - 1]->id, row->id) < 0,
         "ids out of order"},
        {roster_entry_check(&entry) == 0, "an entry that makes no sense"},
        {row->digest == digest_of(&entry), "a digest of something else"},
        {row->removed || !row->faded, "a worker that is there has faded"},
        {(row->owed & ~roster->up) == 0, "owed to nobody"},
        {!row->removed ||
             roster->rows_due_us <=
                 (row->faded ? row->expires_us : fades_us(roster, row)),
         "a tombstone that never ends"},
        {(row->spec == NULL) == (row->spec_len == 0), "a spec of no bytes"},
        {row->own != NULL ? row->bids <= ROSTER_BIDS : row->bids == 0,
         "bids for what is not configured"},
    };

    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].holds) {
            *reason = rules[i].what;
            return false;
        }
    }
    return true;
}

bool
roster_check(const struct roster *roster, const char **reason)
{
    uint64_t digest = 0;
    uint64_t owed = 0;
    uint32_t rows = 0;
    uint32_t untold = 0;

    if (roster->count > roster->config.entries_max) {
        *reason = "too many entries";
        return false;
    }
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct roster_row *row = roster->rows[i];
        if (!check_row(roster, i, reason)) {
            return false;
        }
        digest ^= row->faded ? 0 : row->digest;
        rows += !row->faded;
        untold += !row->told;
        owed |= row->owed;
    }
    for (uint32_t i = 0; i < ROSTER_PEERS_MAX; i++) {
        owed &= roster->peers[i].owed ? ~(UINT64_C(1) << i) : UINT64_MAX;
    }
    if (digest != roster->digest || rows != roster->digest_rows ||
        untold != roster->untold || owed != 0) {
        *reason = "counts or digest are not those of the entries";
        return false;
    }
    return true;
}
