/* The entries of the member table and their order. */
#include <string.h>

#include "mesh/member_internal.h"

uint32_t
member_find_id(const struct member_table *t, struct member_id id)
{
    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        if (entry_used(e) && member_id_equal(e->is.id, id)) {
            return slot;
        }
    }
    return NOBODY;
}

uint32_t
member_find_twin(const struct member_table *t, struct member_id id)
{
    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        if (entry_used(e) && e->is.id.word[0] == id.word[0] &&
            e->is.id.word[1] != id.word[1]) {
            return slot;
        }
    }
    return NOBODY;
}

uint32_t
member_find_name(const struct member_table *t, const char *name)
{
    CHECK(name != NULL);
    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        if (entry_used(e) && strcmp(e->is.name, name) == 0) {
            return slot;
        }
    }
    return NOBODY;
}

uint32_t
member_find_address(const struct member_table *t, const char *address)
{
    uint32_t found = NOBODY;

    CHECK(address != NULL);
    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        if (!entry_used(e) || strcmp(e->is.address, address) != 0) {
            continue;
        }
        if (entry_counts(e)) {
            return slot;
        }
        found = found == NOBODY ? slot : found;
    }
    return found;
}

/* Of the dead and departed members, the one that went first. */
static uint32_t
longest_gone(const struct member_table *t)
{
    uint32_t oldest = NOBODY;

    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        if (entry_gone(e) &&
            (oldest == NOBODY || e->since_us < t->entries[oldest].since_us)) {
            oldest = slot;
        }
    }
    CHECK(oldest != SELF);
    return oldest;
}

static uint32_t
free_slot(struct member_table *t)
{
    CHECK(t->count <= MEMBERS_MAX);
    if (t->count == MEMBERS_MAX) {
        uint32_t oldest = longest_gone(t);
        if (oldest != NOBODY) {
            member_remove(t, oldest);
        }
        return oldest;
    }
    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        if (!entry_used(&t->entries[slot])) {
            return slot;
        }
    }
    return NOBODY;
}

uint32_t
member_insert(struct member_table *t, const struct member_update *u)
{
    uint32_t slot = free_slot(t);
    uint32_t at = 0;

    CHECK(u->name[0] != '\0');
    if (slot == NOBODY) {
        return NOBODY;
    }
    while (at < t->count &&
           strcmp(t->entries[t->order[at]].is.name, u->name) < 0) {
        at++;
    }
    CHECK(!entry_used(&t->entries[slot]) && t->count < MEMBERS_MAX);
    CHECK(at == t->count ||
          strcmp(t->entries[t->order[at]].is.name, u->name) != 0);
    memmove(&t->order[at + 1], &t->order[at], t->count - at);
    t->order[at] = (uint8_t)slot;
    t->count++;
    t->entries[slot] = (struct member_entry){
        .is = *u, .since_us = t->now_us, .look_us = t->now_us};
    return slot;
}

void
member_remove(struct member_table *t, uint32_t slot)
{
    uint32_t at = 0;

    CHECK(slot != SELF && slot < MEMBERS_MAX);
    CHECK(entry_used(&t->entries[slot]));
    while (t->order[at] != slot) {
        at++;
        CHECK(at < t->count);
    }
    t->count--;
    memmove(&t->order[at], &t->order[at + 1], t->count - at);
    t->entries[slot] = (struct member_entry){0};
    CHECK(t->count >= 1); /* this process itself */
}

uint32_t
member_any_alive(struct member_table *t, uint64_t but)
{
    uint32_t found = NOBODY;
    uint64_t seen = 0;

    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        if (!entry_used(e) || e->is.state != MEMBER_ALIVE ||
            (but >> slot & 1) != 0) {
            continue;
        }
        seen++;
        if (rng_below(&t->rng, seen) == 0) {
            found = slot;
        }
    }
    CHECK(found != SELF);
    return found;
}

uint32_t
member_count_well(const struct member_table *t, uint32_t but)
{
    uint32_t count = 0;

    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        count += slot != but && entry_used(e) && e->is.state == MEMBER_ALIVE;
    }
    CHECK(count < t->count);
    return count;
}

bool
member_get(const struct member_table *t, uint32_t at, struct member_info *info)
{
    if (at >= t->count) {
        return false;
    }
    const struct member_entry *e = &t->entries[t->order[at]];

    CHECK(entry_used(e) && e->accusers_count <= ACCUSERS_MAX);
    *info = (struct member_info){
        .update = e->is,
        .self = t->order[at] == SELF,
        .since_us = e->since_us,
        .heard_us = e->heard_us,
    };
    return true;
}

uint32_t
member_count_alive(const struct member_table *t)
{
    uint32_t count = 0;

    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        count += entry_counts(&t->entries[slot]);
    }
    CHECK(count <= t->count);
    return count;
}
