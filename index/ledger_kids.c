/*
 * Which block comes before which. The links of an entry's kids form a list; the
 * last link leads to the parent. Most blocks have one kid, so they find parent
 * and kid in one step. With more than KIDS_LIST_MAX kids every link leads to
 * the parent, and rows say how many of the kids each stream holds.
 */
#include "index/ledger_internal.h"

uint32_t
ledger_parent(const struct ledger *l, const struct entry *entry)
{
    CHECK(entry->link != 0);
    while ((entry->link & LINK_UP) == 0) {
        entry = entry_at(l, entry->link & REF_MASK);
    }
    return entry->link & REF_MASK;
}

/* The next kid in the list, or REF_NONE after the last. */
static uint32_t
next_kid(const struct entry *kid)
{
    CHECK_SLOW((kid->link & LINK_COUNTED) == 0);
    return (kid->link & LINK_UP) != 0 ? REF_NONE : kid->link & REF_MASK;
}

static uint32_t
list_len(const struct ledger *l, const struct entry *parent)
{
    uint32_t len = 0;

    CHECK((parent->kid & KID_COUNTED) == 0);
    for (uint32_t ref = parent->kid; ref != REF_NONE; len++) {
        ref = next_kid(entry_at(l, ref));
    }
    return len;
}

static bool
claim_counts(struct ledger *l, uint32_t parent)
{
    uint32_t ref = entry_at(l, parent)->kid;

    CHECK((ref & KID_COUNTED) == 0);
    while (ref != REF_NONE) {
        const struct entry *kid = entry_at(l, ref);
        struct worker_set set = ledger_holders_set(l, kid->holders);
        WORKER_SET_EACH (stream, &set) {
            if (!ledger_rows_claim(l, &l->kids, parent, stream)) {
                return false;
            }
        }
        ref = next_kid(kid);
    }
    return true;
}

bool
ledger_kids_claim(struct ledger *l, uint32_t ref, uint32_t stream)
{
    const struct entry *parent = entry_at(l, ref);

    CHECK(ref != REF_NONE);
    if ((parent->kid & KID_COUNTED) == 0) {
        if (list_len(l, parent) < KIDS_LIST_MAX) {
            return true;
        }
        if (!claim_counts(l, ref)) {
            return false;
        }
    } else if (ledger_rows_get(&l->kids, ref, stream) == ROW_VALUE_MAX) {
        l->refusal = LEDGER_E_FULL;
        return false;
    }
    return ledger_rows_claim(l, &l->kids, ref, stream);
}

/* Replaces the list of an entry's kids by counts. */
static void
count_kids(struct ledger *l, uint32_t parent)
{
    uint32_t count = 0;

    CHECK((entry_at(l, parent)->kid & KID_COUNTED) == 0);
    for (uint32_t ref = entry_at(l, parent)->kid; ref != REF_NONE; count++) {
        struct entry *kid = entry_at(l, ref);
        struct worker_set set = ledger_holders_set(l, kid->holders);
        WORKER_SET_EACH (stream, &set) {
            uint32_t held = ledger_rows_get(&l->kids, parent, stream);
            ledger_rows_put(&l->kids, parent, stream, held + 1);
        }
        ref = next_kid(kid);
        kid->link = LINK_UP | LINK_COUNTED | (kid->link & LINK_ODD) | parent;
    }
    entry_at(l, parent)->kid = KID_COUNTED | count;
}

void
ledger_kids_add(struct ledger *l, uint32_t parent, uint32_t ref)
{
    struct entry *entry = entry_at(l, ref);

    CHECK(ref != REF_NONE && ref != parent);
    entry->link = LINK_UP | parent;
    if (parent == REF_NONE) {
        return;
    }
    struct entry *above = entry_at(l, parent);
    if (LIKELY(above->kid == REF_NONE)) {
        above->kid = ref;
        return;
    }
    if ((above->kid & KID_COUNTED) == 0 &&
        list_len(l, above) == KIDS_LIST_MAX) {
        count_kids(l, parent);
    }
    if ((above->kid & KID_COUNTED) != 0) {
        entry->link |= LINK_COUNTED;
        above->kid++;
        return;
    }
    entry->link = above->kid;
    above->kid = ref;
}

uint32_t
ledger_kids_remove(struct ledger *l, uint32_t ref)
{
    const struct entry *entry = entry_at(l, ref);
    uint32_t parent = ledger_parent(l, entry);

    CHECK(entry->holders == 0 && entry->kid == REF_NONE);
    if (parent == REF_NONE) {
        return REF_NONE;
    }
    struct entry *above = entry_at(l, parent);
    if ((above->kid & KID_COUNTED) != 0) {
        above->kid--;
        above->kid = above->kid == KID_COUNTED ? REF_NONE : above->kid;
        return parent;
    }
    if (above->kid == ref) {
        above->kid = next_kid(entry);
        return parent;
    }
    struct entry *before = entry_at(l, above->kid);
    while (next_kid(before) != ref) {
        CHECK(next_kid(before) != REF_NONE);
        before = entry_at(l, next_kid(before));
    }
    before->link = (before->link & LINK_ODD) | (entry->link & ~LINK_ODD);
    return parent;
}

uint32_t
ledger_kids_held(const struct ledger *l, uint32_t ref, uint32_t stream)
{
    uint32_t kid = entry_at(l, ref)->kid;
    uint32_t held = 0;

    if ((kid & KID_COUNTED) != 0) {
        return ledger_rows_get(&l->kids, ref, stream);
    }
    while (kid != REF_NONE) {
        const struct entry *entry = entry_at(l, kid);
        held += holders_has(l, entry->holders, stream);
        kid = next_kid(entry);
    }
    return held;
}
