/*
 * One stream and one entry: how many copies the stream holds, and how it
 * becomes a holder or stops being one.
 */
#include "index/ledger_internal.h"

#define RELEASE_MAX 64 /* entries that one frees when it goes; a sweep: more */

uint32_t
ledger_copies(const struct ledger *l, uint32_t ref, uint32_t stream)
{
    CHECK_SLOW(holders_has(l, entry_at(l, ref)->holders, stream));
    if ((entry_at(l, ref)->link & LINK_ODD) == 0) {
        return COPIES_PLAIN;
    }
    uint32_t copies = ledger_rows_get(&l->copies, ref, stream);
    return copies == 0 ? COPIES_PLAIN : copies;
}

bool
ledger_copies_claim(struct ledger *l, uint32_t ref, uint32_t stream)
{
    CHECK(ref != REF_NONE && stream < LEDGER_STREAMS_MAX);
    if ((entry_at(l, ref)->link & LINK_ODD) != 0 &&
        ledger_rows_get(&l->copies, ref, stream) != 0) {
        return true;
    }
    return ledger_rows_claim(l, &l->copies, ref, stream);
}

/* Whether a tier has several copies. */
static bool
several(uint32_t copies)
{
    for (enum tier tier = 0; tier < TIERS; tier++) {
        if (copies_in(copies, tier) > 1) {
            return true;
        }
    }
    return false;
}

void
ledger_copies_set(struct ledger *l, uint32_t ref, uint32_t stream,
                  uint32_t copies)
{
    uint32_t before = ledger_copies(l, ref, stream);
    struct stream *st = &l->stream[stream];

    CHECK(copies != 0);
    CHECK(copies <= NAMES_COPIES_MAX);
    if (copies == before) {
        return;
    }
    ledger_tell(l, WATCH_COPIES, ref, stream, copies);
    st->copies += several(copies);
    st->copies -= several(before);
    if (copies == COPIES_PLAIN) {
        ledger_rows_put(&l->copies, ref, stream, 0);
    } else {
        entry_at(l, ref)->link |= LINK_ODD;
        ledger_rows_put(&l->copies, ref, stream, copies);
    }
}

static void
count_kid(struct ledger *l, const struct entry *kid, uint32_t stream, bool more)
{
    CHECK(kid->link != 0);
    if ((kid->link & LINK_COUNTED) != 0) {
        uint32_t parent = kid->link & REF_MASK;
        uint32_t held = ledger_rows_get(&l->kids, parent, stream);
        CHECK(more || held > 0);
        ledger_rows_put(&l->kids, parent, stream, more ? held + 1 : held - 1);
    }
}

void
ledger_enter(struct ledger *l, uint32_t ref, uint32_t stream)
{
    struct entry *entry = entry_at(l, ref);
    struct stream *st = &l->stream[stream];

    CHECK(ref != REF_NONE && stream < LEDGER_STREAMS_MAX);
    CHECK(entry->link != 0);
    if (st->holes > 0 && entry->kid != REF_NONE) {
        uint32_t healed = ledger_kids_held(l, ref, stream);
        CHECK(st->holes >= healed);
        st->holes -= healed;
    }
    entry->holders = entry->holders == 0
                         ? holders_one(stream)
                         : ledger_holders_add(l, entry->holders, stream);
    count_kid(l, entry, stream, true);
    st->blocks++;
    ledger_tell(l, WATCH_ENTER, ref, stream, 0);
}

static bool
is_hole(const struct ledger *l, const struct entry *entry, uint32_t stream)
{
    uint32_t parent = ledger_parent(l, entry);

    CHECK_SLOW(holders_has(l, entry->holders, stream));
    return parent != REF_NONE &&
           !holders_has(l, entry_at(l, parent)->holders, stream);
}

void
ledger_leave(struct ledger *l, uint32_t ref, uint32_t stream)
{
    struct entry *entry = entry_at(l, ref);
    struct stream *st = &l->stream[stream];

    CHECK(ref != REF_NONE && stream < LEDGER_STREAMS_MAX);
    CHECK(entry->link != 0);
    if (st->holes > 0 && is_hole(l, entry, stream)) {
        st->holes--;
    }
    if (entry->kid != REF_NONE) {
        st->holes += ledger_kids_held(l, ref, stream);
    }
    ledger_copies_set(l, ref, stream, COPIES_PLAIN);
    entry->holders = ledger_holders_remove(l, entry->holders, stream);
    count_kid(l, entry, stream, false);
    ledger_tell(l, WATCH_LEAVE, ref, stream, 0);
    CHECK(st->blocks > 0);
    st->blocks--;
    if (entry->holders == 0 && entry->kid == REF_NONE) {
        ledger_release(l, ref);
    }
}

void
ledger_release(struct ledger *l, uint32_t ref)
{
    CHECK(ref != REF_NONE);
    for (uint32_t i = 0; i < RELEASE_MAX; i++) {
        struct entry *entry = entry_at(l, ref);
        if (entry->holders != 0 || entry->kid != REF_NONE) {
            return;
        }
        uint32_t parent = ledger_kids_remove(l, ref);
        ledger_names_remove(l, ref);
        entry->link = 0;
        ledger_tell(l, WATCH_FREE, ref, 0, 0);
        ledger_pool_give(&l->entries, ref);
        if (parent == REF_NONE) {
            return;
        }
        ref = parent;
    }
    l->litter = true;
}
