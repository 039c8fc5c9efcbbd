/*
 * Entries by name. The table grows and shrinks by one bucket at a time:
 * bucket b of a table with more than b buckets holds the names whose mixed
 * bits under twice the mask, or if there is no such bucket yet under the mask,
 * are b. A bucket that comes into use takes its part of the chain below it.
 */
#include "index/ledger_table.h"

int
ledger_names_init(struct ledger *l)
{
    struct names *names = &l->names;
    size_t segments = l->bytes_max / SEGMENT_BYTES + 1;
    size_t most = ((size_t)REF_MASK + 1) >> HEADS_SHIFT;

    names->segments_max = (uint32_t)(segments < most ? segments : most);
    names->segment = ledger_take(l, names->segments_max * sizeof(void *));
    if (names->segment == NULL) {
        return l->refusal;
    }
    names->segment[0] = ledger_take(l, SEGMENT_BYTES);
    if (names->segment[0] == NULL) {
        return l->refusal;
    }
    names->segments = 1;
    names->buckets = 1;
    return 0;
}

void
ledger_names_fini(struct ledger *l)
{
    struct names *names = &l->names;

    for (uint32_t i = 0; i < names->segments; i++) {
        ledger_give(l, names->segment[i], SEGMENT_BYTES);
    }
    ledger_give(l, names->segment, names->segments_max * sizeof(void *));
}

uint32_t
ledger_held(const struct ledger *l, uint32_t stream, uint64_t name)
{
    uint32_t ref = *name_head(&l->names, name);

    while (ref != REF_NONE) {
        const struct entry *entry = entry_at(l, ref);
        if (entry->name == name && holders_has(l, entry->holders, stream)) {
            return ref;
        }
        ref = entry->next;
    }
    return REF_NONE;
}

static uint32_t *
bucket(const struct names *names, uint32_t at)
{
    return &names->segment[at >> HEADS_SHIFT][at & ((1U << HEADS_SHIFT) - 1)];
}

/* One bucket more, if there is memory for it: without, chains grow longer. */
static void
grow(struct ledger *l)
{
    struct names *names = &l->names;
    uint32_t fresh = names->buckets;

    if (fresh >> HEADS_SHIFT == names->segments) {
        if (names->segments == names->segments_max) {
            return;
        }
        uint32_t *segment = ledger_take(l, SEGMENT_BYTES);
        if (segment == NULL) {
            return;
        }
        names->segment[names->segments++] = segment;
    }
    if (fresh == names->mask * 2 + 2) {
        names->mask = names->mask * 2 + 1;
    }
    names->buckets++;
    uint32_t *from = bucket(names, fresh & names->mask);
    uint32_t *to = bucket(names, fresh);
    *to = REF_NONE;
    while (*from != REF_NONE) {
        struct entry *entry = entry_at(l, *from);
        if (((uint32_t)rng_mix(entry->name) & (names->mask * 2 + 1)) == fresh) {
            *to = *from;
            *from = entry->next;
            to = &entry->next;
            *to = REF_NONE;
        } else {
            from = &entry->next;
        }
    }
}

void
ledger_names_insert(struct ledger *l, uint32_t ref)
{
    struct entry *entry = entry_at(l, ref);
    uint32_t *head = name_head(&l->names, entry->name);

    entry->next = *head;
    *head = ref;
    if (l->entries.used > l->names.buckets) {
        grow(l);
    }
}

void
ledger_names_remove(struct ledger *l, uint32_t ref)
{
    uint32_t *at = name_head(&l->names, entry_at(l, ref)->name);

    while (*at != ref) {
        CHECK(*at != REF_NONE);
        at = &entry_at(l, *at)->next;
    }
    *at = entry_at(l, ref)->next;
}

bool
ledger_names_tidy(struct ledger *l)
{
    struct names *names = &l->names;

    if (names->buckets == 1 || l->entries.used >= names->buckets / 4) {
        return false;
    }
    uint32_t last = names->buckets - 1;
    uint32_t *at = bucket(names, last & names->mask);
    if (last == names->mask) { /* the last of its level */
        names->mask /= 2;
        at = bucket(names, last & names->mask);
    }
    while (*at != REF_NONE) {
        at = &entry_at(l, *at)->next;
    }
    *at = *bucket(names, last);
    *bucket(names, last) = REF_NONE;
    names->buckets--;
    if (last >> HEADS_SHIFT < names->segments - 1) {
        names->segments--;
        ledger_give(l, names->segment[names->segments], SEGMENT_BYTES);
        names->segment[names->segments] = NULL;
    }
    return true;
}
