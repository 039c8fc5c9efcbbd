/* Who is alive: pings, helpers, local health, and pings of the dead. */
#include <string.h>

#include "mesh/member_internal.h"

uint64_t
member_stretched_us(const struct member_table *t, uint32_t ms)
{
    CHECK(t->health <= MEMBER_HEALTH_MAX);
    return ms * MS * (t->health + 1);
}

uint64_t
member_jitter_us(struct member_table *t, uint64_t span_us)
{
    CHECK(span_us > 0 && span_us < NEVER / 2);
    return span_us - span_us / 10 + rng_below(&t->rng, span_us / 5 + 1);
}

void
member_worsen(struct member_table *t, uint32_t by)
{
    CHECK(t->health <= MEMBER_HEALTH_MAX && by <= MEMBER_HEALTH_MAX);
    t->health += by;
    if (t->health > MEMBER_HEALTH_MAX) {
        t->health = MEMBER_HEALTH_MAX;
    }
}

/* Begins a round of pings, the first of them after wait_us. */
static void
begin(struct member_table *t, struct member_entry *e, uint64_t wait_us)
{
    CHECK(entry_counts(e));
    e->probe = (struct member_probe){
        .start_us = t->now_us + wait_us,
        .next_us = t->now_us + wait_us,
        .number = member_draw_number(t),
    };
}

void
member_probe_now(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && entry_counts(e));
    if (e->probe.number == 0) {
        t->stats.probes++;
        begin(t, e, 0);
        member_probe_tick(t, slot);
    }
    CHECK(e->probe.number != 0);
}

uint32_t
member_ask_helper(struct member_table *t, const struct member_update *whom,
                  uint32_t number, uint64_t but)
{
    uint32_t helper = member_any_alive(t, but);
    struct member_send *send;

    CHECK(number != 0);
    if (helper == NOBODY) {
        return NOBODY;
    }
    send = member_send(t, MEMBER_PING_REQ, t->entries[helper].is.address);
    if (send == NULL) {
        return NOBODY;
    }
    send->number = number;
    send->target = whom->id;
    send->first = whom->id;
    memcpy(send->target_address, whom->address, sizeof send->target_address);
    return helper;
}

static void
ask_helpers(struct member_table *t, struct member_entry *e, uint32_t slot)
{
    uint64_t but = UINT64_C(1) << slot;

    CHECK(e == &t->entries[slot] && e->probe.number != 0);
    for (uint32_t i = 0; i < t->config.helpers; i++) {
        uint32_t helper = member_ask_helper(t, &e->is, e->probe.number, but);
        if (helper == NOBODY) {
            return;
        }
        but |= UINT64_C(1) << helper;
        e->probe.asked |= UINT64_C(1) << helper;
    }
}

/* No answer came. If helpers say that they are well, this process is not at
 * fault. */
static void
probe_failed(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];
    bool excused =
        e->probe.asked != 0 && (e->probe.asked & ~e->probe.nacked) == 0;

    CHECK(slot != SELF && e->is.state == MEMBER_ALIVE);
    t->stats.probes_failed++;
    CHECK(t->stats.probes_failed <= t->stats.probes);
    member_worsen(t, excused ? 0 : 1);
    member_suspect(t, slot, member_me(t)->id);
}

/* The round's pings are used up and the direct timeout is over. */
static void
round_over(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(e->probe.number != 0 && e->probe.tries == PINGS);
    if (e->is.state == MEMBER_SUSPECT) {
        member_verdict(t, slot);
        if (e->is.state == MEMBER_SUSPECT) {
            begin(t, e, 0);
        }
        return;
    }
    uint64_t whole = member_stretched_us(t, t->config.probe_ms);
    uint64_t direct = member_stretched_us(t, t->config.probe_timeout_ms);

    CHECK(direct < whole);
    ask_helpers(t, e, slot);
    member_ping(t, &e->is, e->probe.number);
    e->probe.tries++;
    e->probe.next_us = e->probe.start_us + direct + (whole - direct) / 2;
}

void
member_probe_tick(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];
    uint64_t direct = member_stretched_us(t, t->config.probe_timeout_ms);

    CHECK(slot != SELF && e->probe.tries <= PINGS + 2);
    CHECK(e->probe.number == 0 || entry_counts(e));
    if (e->probe.number == 0 || t->now_us < e->probe.next_us) {
        return;
    }
    if (e->probe.tries < PINGS) {
        member_ping(t, &e->is, e->probe.number);
        e->probe.tries++;
        e->probe.next_us = e->probe.start_us + e->probe.tries * direct / PINGS;
    } else if (e->probe.tries == PINGS) {
        round_over(t, slot);
    } else if (e->probe.tries == PINGS + 1) {
        member_ping(t, &e->is, e->probe.number);
        e->probe.tries++;
        e->probe.next_us =
            e->probe.start_us + member_stretched_us(t, t->config.probe_ms);
    } else {
        probe_failed(t, slot);
    }
}

/* When a member that is probed now counts as probed: a random time earlier.
 * Otherwise members that met in the same order would go on probing in that
 * order, all of them the same member at a time. */
uint64_t
member_probed_us(struct member_table *t)
{
    uint64_t round_us =
        (uint64_t)t->count * t->config.probe_ms * MS / t->config.probes;
    uint64_t early_us = rng_below(&t->rng, round_us / 2 + 1);

    CHECK(t->config.probes > 0);
    return early_us < t->now_us ? t->now_us - early_us : 0;
}

/* The member that was left alone for longest is next: none waits for more than
 * one and a half rounds of n - 1 turns. */
void
member_probe_turn(struct member_table *t)
{
    uint32_t longest = NOBODY;
    uint32_t others = 0;

    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        const struct member_entry *e = &t->entries[slot];
        if (!entry_counts(e)) {
            continue;
        }
        others++;
        if (longest == NOBODY || e->probed_us < t->entries[longest].probed_us) {
            longest = slot;
        }
    }
    CHECK(others < t->count && (longest == NOBODY) == (others == 0));
    uint32_t probes = others < t->config.probes ? others : t->config.probes;
    uint64_t span = member_stretched_us(t, t->config.probe_ms);

    t->next_probe_us =
        t->now_us + member_jitter_us(t, span / (probes > 0 ? probes : 1));
    if (longest != NOBODY) {
        t->entries[longest].probed_us = member_probed_us(t);
        member_probe_now(t, longest);
    }
}

void
member_dead_tick(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && entry_gone(e));
    if (t->now_us >= e->since_us + t->config.forget_ms * MS) {
        struct member_update is = e->is;
        member_remove(t, slot);
        if (is.state == MEMBER_DEAD) {
            member_hint_add(t, is.address);
        }
    } else if (e->is.state == MEMBER_DEAD && t->now_us >= e->look_us) {
        member_ping(t, &e->is, member_draw_number(t));
        e->look_us =
            t->now_us + member_jitter_us(t, t->config.dead_probe_ms * MS);
    }
}

void
member_got_ping(struct member_table *t, const struct member_message *m)
{
    const struct member_update *me = member_me(t);
    bool mine = member_id_zero(m->target) || member_id_equal(m->target, me->id);
    struct member_send *send =
        member_send(t, mine ? MEMBER_ACK : MEMBER_NACK, m->from.address);

    CHECK(!t->silent);
    if (send != NULL) {
        send->number = m->number;
        send->target = mine ? me->id : m->target;
    }
}

void
member_got_ping_req(struct member_table *t, const struct member_message *m)
{
    struct member_update whom = {.id = m->target};

    CHECK(!t->silent);
    for (uint32_t i = 0; i < RELAYS_MAX; i++) {
        struct member_relay *relay = &t->relays[i];
        if (relay->number != 0) {
            continue;
        }
        *relay = (struct member_relay){
            .target = m->target,
            .theirs = m->number,
            .until_us = t->now_us + t->config.probe_timeout_ms * MS * 4 / 5,
        };
        memcpy(relay->address, m->from.address, sizeof relay->address);
        memcpy(whom.address, m->target_address, sizeof whom.address);
        relay->number = member_draw_number(t);
        member_ping(t, &whom, relay->number);
        return;
    }
    t->stats.relays_dropped++;
}

static void
answer_relay(struct member_table *t, struct member_relay *relay,
             enum member_kind kind, uint64_t up_ms)
{
    struct member_send *send = member_send(t, kind, relay->address);

    CHECK(relay->number != 0);
    CHECK(kind == MEMBER_ACK || kind == MEMBER_NACK);
    if (send != NULL) {
        send->number = relay->theirs;
        send->target = relay->target;
        send->first = relay->target;
        send->up_ms = up_ms;
    }
    relay->number = 0;
}

void
member_relays_tick(struct member_table *t)
{
    CHECK(!t->silent);
    for (uint32_t i = 0; i < RELAYS_MAX; i++) {
        if (t->relays[i].number != 0 && t->now_us >= t->relays[i].until_us) {
            answer_relay(t, &t->relays[i], MEMBER_NACK, 0);
        }
    }
}

static void
ack_probe(struct member_table *t, uint32_t slot, bool direct)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && entry_counts(e) && e->probe.number != 0);
    if (direct) {
        e->heard_us = t->now_us;
    }
    t->health -= t->health > 0;
    e->stale = false;
    e->probe = (struct member_probe){0};
    if (e->is.state == MEMBER_SUSPECT) {
        /* It answers but has not refuted yet: tell it again. */
        e->own_failed = false;
        begin(t, e, member_stretched_us(t, t->config.probe_timeout_ms) / PINGS);
    }
}

void
member_got_ack(struct member_table *t, const struct member_message *m)
{
    uint32_t slot = member_find_id(t, m->target);

    CHECK(!t->silent);
    for (uint32_t i = 0; i < RELAYS_MAX; i++) {
        struct member_relay *relay = &t->relays[i];
        if (relay->number != 0 && relay->number == m->number &&
            member_id_equal(relay->target, m->from.id)) {
            answer_relay(t, relay, MEMBER_ACK, m->up_ms);
        }
    }
    member_question_ack(t, m);
    if (slot != NOBODY && slot != SELF && m->number != 0 &&
        t->entries[slot].probe.number == m->number) {
        ack_probe(t, slot, member_id_equal(m->target, m->from.id));
    }
}

void
member_got_nack(struct member_table *t, const struct member_message *m)
{
    uint32_t slot = member_find_id(t, m->target);
    uint32_t from = member_find_id(t, m->from.id);

    CHECK(!t->silent);
    if (slot == NOBODY || slot == SELF || m->number == 0 ||
        t->entries[slot].probe.number != m->number) {
        return;
    }
    struct member_entry *e = &t->entries[slot];

    if (strcmp(m->from.address, e->is.address) != 0) {
        e->probe.nacked |= from != NOBODY ? UINT64_C(1) << from : 0;
    } else if (e->is.state == MEMBER_ALIVE) {
        /* Another process lives at the member's address. */
        member_suspect(t, slot, member_me(t)->id);
    } else {
        member_verdict(t, slot);
    }
}
