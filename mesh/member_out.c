/* What a message carries when it is pulled: the least told news first. */
#include <string.h>

#include "mesh/member_internal.h"

void
member_notify(struct member_table *t, enum member_event event,
              const struct member_update *about)
{
    CHECK(event < MEMBER_EVENTS && about != NULL);
    /* One claim makes at most four events (a member is placed, cleared, suspected
     * and declared dead), one message has MEMBERS_MAX + 1 claims, a tick ends each
     * member and question once, and outputs are pulled after each call. */
    _Static_assert(
        4 * (MEMBERS_MAX + 1) + 2 * (MEMBERS_MAX + QUESTIONS_MAX) < EVENTS_MAX,
        "all events of a call have room");
    CHECK(t->events_count < EVENTS_MAX);
    uint32_t at = (t->events_first + t->events_count) % EVENTS_MAX;

    t->events[at] = (struct member_notice){.event = event, .about = *about};
    t->events_count++;
    t->stats.suspicions += event == MEMBER_SUSPECTED;
    t->stats.refutations += event == MEMBER_REFUTED;
}

struct member_send *
member_send(struct member_table *t, enum member_kind kind, const char *address)
{
    CHECK(kind < MEMBER_KINDS && t->sends_count <= SENDS_MAX);
    if (t->sends_count == SENDS_MAX) {
        t->stats.sends_dropped++;
        return NULL;
    }
    uint32_t at = (t->sends_first + t->sends_count) % SENDS_MAX;
    struct member_send *send = &t->sends[at];

    *send = (struct member_send){.kind = kind};
    memcpy(send->address, address, sizeof send->address);
    t->sends_count++;
    return send;
}

void
member_tell_all(struct member_table *t)
{
    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        if (entry_counts(&t->entries[slot])) {
            (void)member_send(t, MEMBER_NEWS, t->entries[slot].is.address);
        }
    }
}

/* How often an item of news is told: 3 log2 n, rounded up. */
static uint32_t
tellings(uint32_t members)
{
    uint32_t bits = 1;

    CHECK(members >= 1 && members <= MEMBERS_MAX);
    while (members >> bits != 0) {
        bits++;
    }
    return 3 * bits;
}

void
member_tell(struct member_table *t, uint32_t slot, bool loud)
{
    CHECK(slot < MEMBERS_MAX && entry_used(&t->entries[slot]));
    t->entries[slot].tellings = tellings(t->count);
    if (loud) {
        member_tell_all(t);
    }
}

uint32_t
member_draw_number(struct member_table *t)
{
    t->number++;
    t->number += t->number == 0;
    CHECK(t->number != 0);
    return t->number;
}

void
member_ping(struct member_table *t, const struct member_update *whom,
            uint32_t number)
{
    struct member_send *send = member_send(t, MEMBER_PING, whom->address);

    CHECK(number != 0);
    if (send != NULL) {
        send->number = number;
        send->target = whom->id;
    }
}

static uint32_t
age_ms(const struct member_table *t, uint32_t slot)
{
    uint64_t age = (t->now_us - t->entries[slot].since_us) / MS;

    CHECK(slot < MEMBERS_MAX && t->entries[slot].since_us <= t->now_us);
    return age < UINT32_MAX ? (uint32_t)age : UINT32_MAX;
}

static void
add_update(const struct member_table *t, uint32_t slot,
           struct member_message *m)
{
    struct member_update *u = &m->updates[m->updates_count++];

    CHECK(slot < MEMBERS_MAX && entry_used(&t->entries[slot]));
    CHECK(m->updates_count <= MEMBERS_MAX);
    *u = t->entries[slot].is;
    u->age_ms = age_ms(t, slot);
}

static void
add_all(const struct member_table *t, struct member_message *m)
{
    CHECK(m->updates_count == 0);
    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        if (entry_used(&t->entries[slot]) && !t->entries[slot].stale) {
            add_update(t, slot, m);
        }
    }
}

/* Of the entries with news that are not in the set, the least told; ties are
 * broken at random. */
static uint32_t
least_told(struct member_table *t, uint64_t but)
{
    uint32_t best = NOBODY;
    uint64_t ties = 0;

    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        uint32_t left = t->entries[slot].tellings;
        if (left == 0 || (but >> slot & 1) != 0 ||
            (best != NOBODY && left < t->entries[best].tellings)) {
            continue;
        }
        ties =
            best != NOBODY && left == t->entries[best].tellings ? ties + 1 : 1;
        if (rng_below(&t->rng, ties) == 0) {
            best = slot;
        }
    }
    CHECK(best == NOBODY || entry_used(&t->entries[best]));
    return best;
}

/* Whether sending this item counts as telling it. Messages sent to everyone at
 * once may be lost in part, and all messages to a member that never answered
 * may be lost. */
static bool
is_told(const struct member_table *t, const struct member_send *send)
{
    uint32_t slot = member_find_address(t, send->address);

    return send->kind != MEMBER_NEWS && slot != NOBODY &&
           entry_counts(&t->entries[slot]) && t->entries[slot].heard_us != 0;
}

/* Adds the piggybacked news. */
static void
add_news(struct member_table *t, const struct member_send *send,
         struct member_message *m, uint64_t said)
{
    bool told = is_told(t, send);

    CHECK(m->updates_count <= 2);
    while (m->updates_count < MEMBER_UPDATES_MAX) {
        uint32_t slot = least_told(t, said);
        if (slot == NOBODY) {
            return;
        }
        said |= UINT64_C(1) << slot;
        CHECK(t->entries[slot].tellings > 0);
        t->entries[slot].tellings -= told;
        add_update(t, slot, m);
    }
}

/* Members whose update the receiver must see: the one asked for, and the
 * receiver itself when it is considered suspect or dead. */
static uint64_t
add_first(const struct member_table *t, const struct member_send *send,
          struct member_message *m)
{
    uint64_t said = 0;
    uint32_t there = member_find_address(t, send->address);
    uint32_t first =
        member_id_zero(send->first) ? NOBODY : member_find_id(t, send->first);

    CHECK(m->updates_count == 0);
    if (first != NOBODY) {
        add_update(t, first, m);
        said |= UINT64_C(1) << first;
    }
    if (there != NOBODY && there != first && there != SELF &&
        t->entries[there].is.state != MEMBER_ALIVE &&
        !t->entries[there].stale) {
        add_update(t, there, m);
        said |= UINT64_C(1) << there;
    }
    return said;
}

static void
build(struct member_table *t, const struct member_send *send,
      struct member_message *m)
{
    CHECK(send->kind < MEMBER_KINDS);
    CHECK(t->up_since_us <= t->now_us);
    m->kind = send->kind;
    m->number = send->number;
    m->up_ms =
        send->up_ms > 0 ? send->up_ms : (t->now_us - t->up_since_us) / MS;
    m->from = *member_me(t);
    m->from.age_ms = age_ms(t, SELF);
    m->target = send->target;
    memcpy(m->target_address, send->target_address, sizeof m->target_address);
    m->updates_count = 0;
    if (send->kind == MEMBER_REFUSE) {
        (void)add_first(t, send, m);
    } else if (send->kind == MEMBER_SYNC || send->kind == MEMBER_SYNC_ACK) {
        add_all(t, m);
    } else {
        add_news(t, send, m, add_first(t, send, m));
    }
}

static void
pull_event(struct member_table *t, struct member_out *out)
{
    const struct member_notice *notice = &t->events[t->events_first];

    CHECK(t->events_count > 0 && t->events_first < EVENTS_MAX);
    out->kind = MEMBER_OUT_EVENT;
    out->event = notice->event;
    out->about = notice->about;
    t->events_first = (t->events_first + 1) % EVENTS_MAX;
    t->events_count--;
}

bool
member_next_out(struct member_table *t, struct member_out *out)
{
    CHECK(out != NULL && t->sends_first < SENDS_MAX);
    if (t->events_count > 0) {
        pull_event(t, out);
        return true;
    }
    if (t->sends_count == 0) {
        return false;
    }
    const struct member_send *send = &t->sends[t->sends_first];

    build(t, send, &t->message);
    out->kind = MEMBER_OUT_SEND;
    out->message = &t->message;
    memcpy(out->address, send->address, sizeof out->address);
    t->sends_first = (t->sends_first + 1) % SENDS_MAX;
    t->sends_count--;
    t->stats.sent++;
    return true;
}
