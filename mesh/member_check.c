/* The invariants of the member table, for tests and simulations. */
#include <string.h>

#include "mesh/member_internal.h"

#define REQUIRE(condition)     \
    do {                       \
        if (!(condition)) {    \
            return #condition; \
        }                      \
    } while (0)

static const char *
check_entry(const struct member_table *t, uint32_t slot)
{
    const struct member_entry *e = &t->entries[slot];
    bool suspect = e->is.state == MEMBER_SUSPECT;

    CHECK(slot < MEMBERS_MAX);
    REQUIRE(!member_id_zero(e->is.id));
    REQUIRE(e->is.state <= MEMBER_LEFT);
    REQUIRE(e->since_us <= t->now_us);
    REQUIRE(member_find_id(t, e->is.id) == slot);
    REQUIRE(member_find_name(t, e->is.name) == slot);
    REQUIRE(suspect == (e->accusers_count > 0));
    REQUIRE(e->accusers_count <= ACCUSERS_MAX);
    REQUIRE(suspect || (!e->own_failed && !e->condemned));
    REQUIRE(!suspect || t->silent || e->probe.number != 0);
    REQUIRE(!entry_gone(e) || e->probe.number == 0);
    REQUIRE(e->probe.tries <= PINGS + 2);
    REQUIRE(slot != SELF || e->probe.number == 0);
    REQUIRE(slot != SELF || e->is.state == MEMBER_ALIVE || t->silent);
    return NULL;
}

static const char *
check_order(const struct member_table *t)
{
    uint32_t used = 0;

    for (uint32_t slot = 0; slot < MEMBERS_MAX; slot++) {
        used += entry_used(&t->entries[slot]);
    }
    REQUIRE(used == t->count && t->count >= 1);
    for (uint32_t at = 0; at < t->count; at++) {
        REQUIRE(t->order[at] < MEMBERS_MAX);
        REQUIRE(entry_used(&t->entries[t->order[at]]));
        REQUIRE(at == 0 || strcmp(t->entries[t->order[at - 1]].is.name,
                                  t->entries[t->order[at]].is.name) < 0);
    }
    return NULL;
}

static const char *
check_rest(const struct member_table *t)
{
    REQUIRE(entry_used(&t->entries[SELF]));
    REQUIRE(t->health <= MEMBER_HEALTH_MAX);
    REQUIRE(t->sends_count <= SENDS_MAX && t->events_count <= EVENTS_MAX);
    REQUIRE(t->up_since_us <= t->now_us);
    REQUIRE(member_count_alive(t) >= 1 || t->silent);
    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        const struct member_question *q = &t->questions[i];
        REQUIRE(q->number == 0 ||
                !member_id_equal(q->challenger.id, q->holder));
    }
    return NULL;
}

bool
member_check(const struct member_table *t, const char **reason)
{
    CHECK(reason != NULL);
    *reason = check_order(t);
    for (uint32_t slot = 0; slot < MEMBERS_MAX && *reason == NULL; slot++) {
        if (entry_used(&t->entries[slot])) {
            *reason = check_entry(t, slot);
        }
    }
    if (*reason == NULL) {
        *reason = check_rest(t);
    }
    return *reason == NULL;
}
