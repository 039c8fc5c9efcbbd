/*
 * Verifies every invariant of the ledger by walking all of its entries.
 */
#include <string.h>

#include "index/ledger_internal.h"

/* Sums over all entries. */
struct sums {
    uint64_t blocks[LEDGER_STREAMS_MAX];
    uint64_t copies[LEDGER_STREAMS_MAX];
    uint64_t holes[LEDGER_STREAMS_MAX];
    uint64_t entries;
    uint64_t sets;
    uint64_t copies_rows;
    uint64_t counted;      /* kids whose parents count them */
    uint64_t counts;       /* the sum of the parents' counts */
    uint64_t counted_held; /* pairs of such a kid and a stream that holds it */
};

static const char *
check_kids(const struct ledger *l, uint32_t ref, struct sums *sums)
{
    uint32_t kid = entry_at(l, ref)->kid;
    uint32_t len = 0;

    if ((kid & KID_COUNTED) != 0) {
        sums->counts += kid & REF_MASK;
        return (kid & REF_MASK) == 0 ? "a count of kids is 0" : NULL;
    }
    while (kid != REF_NONE) {
        const struct entry *entry = entry_at(l, kid);
        if (++len > KIDS_LIST_MAX || entry->link == 0 ||
            (entry->link & LINK_COUNTED) != 0) {
            return "a list of kids is broken";
        }
        if (ledger_parent(l, entry) != ref) {
            return "a kid has another parent";
        }
        kid = (entry->link & LINK_UP) != 0 ? REF_NONE : entry->link & REF_MASK;
    }
    return NULL;
}

/* Verifies that the entry is where its parent and its name say. */
static const char *
check_place(const struct ledger *l, uint32_t ref)
{
    const struct entry *entry = entry_at(l, ref);
    uint32_t parent = ledger_parent(l, entry);
    struct name_walk walk = name_walk(&l->names, entry->name);
    uint32_t at;
    struct worker_set mine = ledger_holders_set(l, entry->holders);

    if (parent != REF_NONE) {
        const struct entry *above = entry_at(l, parent);
        if (above->link == 0 || above->kid == REF_NONE) {
            return "a parent does not know its kid";
        }
        if (((above->kid & KID_COUNTED) != 0) !=
            ((entry->link & LINK_COUNTED) != 0)) {
            return "a kid is counted by a parent with a list";
        }
    }
    bool there = false;
    while ((at = name_next(&walk)) != REF_NONE) {
        const struct entry *other = entry_at(l, at);
        there = there || at == ref;
        struct worker_set theirs = ledger_holders_set(l, other->holders);
        struct worker_set both = worker_set_and(&mine, &theirs);
        if (at != ref && other->name == entry->name &&
            !worker_set_empty(&both)) {
            return "a stream holds two entries of one name";
        }
    }
    return there ? NULL : "an entry is not under its name";
}

static const char *
check_pair(const struct ledger *l, uint32_t ref, uint32_t stream,
           struct sums *sums)
{
    const struct entry *entry = entry_at(l, ref);
    uint32_t parent = ledger_parent(l, entry);
    uint32_t row = ledger_rows_get(&l->copies, ref, stream);
    uint32_t copies = row == 0 ? COPIES_PLAIN : row;
    bool several = false;

    if (l->stream[stream].state == STREAM_FREE) {
        return "a free stream holds a block";
    }
    if (row == COPIES_PLAIN || row > NAMES_COPIES_MAX ||
        (row != 0 && (entry->link & LINK_ODD) == 0)) {
        return "a row of copies is wrong";
    }
    for (enum tier tier = 0; tier < TIERS; tier++) {
        several = several || copies_in(copies, tier) > 1;
    }
    sums->copies_rows += row != 0;
    sums->blocks[stream]++;
    sums->copies[stream] += several;
    sums->counted_held += (entry->link & LINK_COUNTED) != 0;
    sums->holes[stream] +=
        parent != REF_NONE &&
        !holders_has(l, entry_at(l, parent)->holders, stream);
    return NULL;
}

static const char *
check_entry(const struct ledger *l, uint32_t ref, struct sums *sums)
{
    const struct entry *entry = entry_at(l, ref);
    struct worker_set set = ledger_holders_set(l, entry->holders);
    const char *reason = check_kids(l, ref, sums);

    sums->entries++;
    sums->sets += (entry->holders & 3) == 0 && entry->holders != 0;
    sums->counted += (entry->link & LINK_COUNTED) != 0;
    if (reason == NULL) {
        reason = check_place(l, ref);
    }
    if (reason == NULL && entry->holders == 0 && entry->kid == REF_NONE &&
        !l->litter && l->cursor == 0) {
        reason = "an entry is kept that nobody needs";
    }
    WORKER_SET_EACH (stream, &set) {
        if (reason == NULL) {
            reason = check_pair(l, ref, stream, sums);
        }
    }
    return reason;
}

static const char *
check_sums(const struct ledger *l, const struct sums *sums)
{
    uint64_t rows = 0;
    uint64_t counts_held = 0;

    for (uint32_t s = 0; s < LEDGER_STREAMS_MAX; s++) {
        const struct stream *st = &l->stream[s];
        if (st->state != STREAM_FREE &&
            (st->blocks != sums->blocks[s] || st->copies != sums->copies[s] ||
             st->holes != sums->holes[s])) {
            return "a stream's counts are wrong";
        }
    }
    for (uint32_t i = 0; i < ROW_SHARDS; i++) {
        rows += l->copies.shard[i].count;
        for (uint32_t at = 0; at < l->kids.shard[i].size; at++) {
            counts_held += l->kids.shard[i].row[at] & ROW_VALUE_MAX;
        }
    }
    if (rows != sums->copies_rows) {
        return "a row of copies has no stream and entry";
    }
    if (sums->counts != sums->counted || counts_held != sums->counted_held) {
        return "kids are counted wrong";
    }
    if (l->entries.used != sums->entries || l->sets.used != sums->sets) {
        return "entries, sets or rows are miscounted";
    }
    return NULL;
}

/* Verifies one line: its names belong to the shard, and *moved is how many
 * lines they lie beyond their own. */
static const char *
check_line(const struct ledger *l, uint32_t shard, uint32_t at, uint64_t *moved)
{
    uint32_t lines = l->names.shard[shard].lines;
    const struct name_line *line = &l->names.shard[shard].line[at];

    for (uint32_t i = 0; i < NAME_SLOTS; i++) {
        uint32_t ref = line->slot[i] & REF_MASK;
        if (ref == REF_NONE) {
            continue;
        }
        uint64_t hash = rng_mix(entry_at(l, ref)->name);
        uint32_t part =
            line->slot[i] >> REF_BITS << NAME_TAG_BITS | line->tag[i];
        if (entry_at(l, ref)->link == 0 || name_shard(hash) != shard ||
            name_part(hash) != part) {
            return "a name is in a wrong table";
        }
        *moved += (at + lines - name_home(part, lines)) % lines;
    }
    return NULL;
}

/* Verifies the names' tables: check_place() finds each entry, so no line says
 * too little of those further on; here none says too much. */
static const char *
check_names(const struct ledger *l)
{
    uint64_t found = 0;
    const char *reason = NULL;

    for (uint32_t s = 0; s < NAME_SHARDS && reason == NULL; s++) {
        const struct name_shard *shard = &l->names.shard[s];
        uint64_t moved = 0;
        uint64_t past = 0;
        uint32_t used = 0;
        for (uint32_t at = 0; at < shard->lines && reason == NULL; at++) {
            const struct name_line *line = &shard->line[at];
            reason = check_line(l, s, at, &moved);
            past += line->past;
            for (uint32_t i = 0; i < NAME_SLOTS; i++) {
                used += line->slot[i] != REF_NONE;
            }
        }
        if (reason == NULL && (used != shard->used || past != moved)) {
            reason = "a table of names is miscounted";
        }
        found += used;
    }
    return reason != NULL || found == l->entries.used ? reason
                                                      : "a name is missing";
}

static const char *
check_all(const struct ledger *l)
{
    struct sums sums;

    if (l->bytes > l->bytes_max || l->entries.claimed != 0 ||
        l->sets.claimed != 0) {
        return "the bound or a claim is broken";
    }
    if (!ledger_rows_check(&l->copies) || !ledger_rows_check(&l->kids)) {
        return "rows are out of order";
    }
    memset(&sums, 0, sizeof(sums));
    const char *reason = check_names(l);
    for (uint32_t ref = 1; ref < l->entries.fresh && reason == NULL; ref++) {
        if (entry_at(l, ref)->link != 0) {
            reason = check_entry(l, ref, &sums);
        }
    }
    return reason == NULL ? check_sums(l, &sums) : reason;
}

bool
ledger_check(const struct ledger *ledger, const char **reason)
{
    *reason = check_all(ledger);
    return *reason == NULL;
}
