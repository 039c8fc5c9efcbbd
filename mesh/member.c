/*
 * The door of the membership: received messages, and when the next tick is due.
 */
#include "mesh/member.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mesh/member_internal.h"

static const char *const state_names[] = {
    [MEMBER_ALIVE] = "alive",
    [MEMBER_SUSPECT] = "suspect",
    [MEMBER_DEAD] = "dead",
    [MEMBER_LEFT] = "left",
};

static const char *const event_names[MEMBER_EVENTS] = {
    [MEMBER_JOINED] = "member_joined",
    [MEMBER_SUSPECTED] = "member_suspected",
    [MEMBER_CLEARED] = "member_cleared",
    [MEMBER_DIED] = "member_died",
    [MEMBER_DEPARTED] = "member_departed",
    [MEMBER_REPLACED] = "member_replaced",
    [MEMBER_REFUTED] = "member_refuted",
    [MEMBER_PLACED] = "member_placed",
    [MEMBER_REFUSED] = "member_refused",
    [MEMBER_DUPLICATE] = "member_duplicate",
    [MEMBER_FULL] = "member_full",
};

const char *
member_state_name(enum member_state state)
{
    CHECK(state <= MEMBER_LEFT);
    return state_names[state];
}

const char *
member_event_name(enum member_event event)
{
    CHECK(event < MEMBER_EVENTS);
    return event_names[event];
}

struct member_config
member_config_default(void)
{
    return (struct member_config){
        .probe_ms = 500,
        .probe_timeout_ms = 250,
        .probes = 3,
        .helpers = 3,
        .suspicion_probes = 3,
        .confirmed_probes = 1,
        .sync_ms = 30000,
        .dead_probe_ms = 1000,
        .forget_ms = 600000,
    };
}

int
member_new(struct member_table **out, const struct member_config *config,
           const struct member_self *self, uint64_t now_us, uint64_t seed)
{
    struct member_table *t;
    struct member_update me = {.id = self->id, .state = MEMBER_ALIVE};

    CHECK(!member_id_zero(self->id) && self->name[0] != '\0');
    CHECK(strnlen(self->name, MEMBER_NAME_MAX) < MEMBER_NAME_MAX);
    CHECK(strnlen(self->address, MEMBER_ADDRESS_MAX) < MEMBER_ADDRESS_MAX);
    CHECK(strnlen(self->island, MEMBER_ISLAND_MAX) < MEMBER_ISLAND_MAX);
    CHECK(config->probe_timeout_ms > 0 && config->probes > 0);
    CHECK(config->probe_ms > config->probe_timeout_ms);
    CHECK(config->confirmed_probes > 0 &&
          config->confirmed_probes <= config->suspicion_probes);
    CHECK(config->sync_ms > 0 && config->dead_probe_ms > 0);
    t = calloc(1, sizeof *t);
    if (t == NULL) {
        return -ENOMEM;
    }
    memcpy(me.name, self->name, sizeof me.name);
    memcpy(me.address, self->address, sizeof me.address);
    memcpy(me.island, self->island, sizeof me.island);
    t->config = *config;
    t->now_us = now_us;
    t->up_since_us = now_us;
    rng_init(&t->rng, seed);
    t->number = (uint32_t)rng_next(&t->rng);
    t->next_probe_us = now_us;
    t->next_sync_us = now_us + member_jitter_us(t, config->sync_ms * MS);
    t->due_us = NEVER;
    CHECK(member_insert(t, &me) == SELF);
    *out = t;
    return 0;
}

void
member_free(struct member_table *t)
{
    free(t);
}

static uint64_t
earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static uint64_t
entry_deadline(const struct member_table *t, uint32_t slot)
{
    const struct member_entry *e = &t->entries[slot];
    uint64_t at = NEVER;

    CHECK(slot != SELF && slot < MEMBERS_MAX && entry_used(e));
    if (entry_gone(e)) {
        at = e->since_us + t->config.forget_ms * MS;
        return e->is.state == MEMBER_DEAD ? earlier(at, e->look_us) : at;
    }
    if (e->probe.number != 0) {
        at = e->probe.next_us;
    }
    if (e->is.state == MEMBER_SUSPECT && e->own_failed) {
        at = earlier(at, member_suspect_until(t, slot));
    }
    return at;
}

/* The earliest deadline outside the entries. */
static uint64_t
rest_deadline(const struct member_table *t)
{
    uint64_t at = NEVER;

    CHECK(!t->silent);
    for (uint32_t i = 0; i < HINTS_MAX; i++) {
        if (t->hints[i].address[0] != '\0') {
            at = earlier(at, t->hints[i].next_us);
        }
    }
    for (uint32_t i = 0; i < RELAYS_MAX; i++) {
        if (t->relays[i].number != 0) {
            at = earlier(at, t->relays[i].until_us);
        }
    }
    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        if (t->questions[i].number != 0) {
            at = earlier(at, t->questions[i].next_us);
        }
    }
    return at;
}

static uint64_t
next_deadline(const struct member_table *t)
{
    uint64_t at;

    CHECK(t->count >= 1 && t->count <= MEMBERS_MAX);
    if (t->silent) {
        return NEVER;
    }
    at = rest_deadline(t);
    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        if (entry_used(&t->entries[slot])) {
            at = earlier(at, entry_deadline(t, slot));
        }
    }
    return t->count > 1
               ? earlier(at, earlier(t->next_probe_us, t->next_sync_us))
               : at;
}

uint64_t
member_deadline(const struct member_table *t)
{
    CHECK(t->due_us >= t->now_us);
    return t->due_us;
}

/* Ends each call. What the call made due is due now, not late. */
static void
settle(struct member_table *t)
{
    uint64_t due = next_deadline(t);

    CHECK(t->health <= MEMBER_HEALTH_MAX);
    CHECK(t->sends_count <= SENDS_MAX && t->events_count <= EVENTS_MAX);
    CHECK(t->up_since_us <= t->now_us);
    CHECK(!t->silent || due == NEVER);
    t->due_us = due > t->now_us ? due : t->now_us;
}

/* Time in which this process did not run counts against no member. */
static void
excuse(struct member_table *t, uint64_t late_us)
{
    CHECK(!t->silent && late_us > 0);
    CHECK(late_us < MEMBER_GAP_MS * MS);
    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        struct member_entry *e = &t->entries[slot];
        if (e->probe.number != 0) {
            e->probe.start_us += late_us;
            e->probe.next_us += late_us;
        }
        if (entry_used(e) && e->is.state == MEMBER_SUSPECT) {
            e->since_us = earlier(e->since_us + late_us, t->now_us);
        }
    }
    for (uint32_t i = 0; i < RELAYS_MAX; i++) {
        t->relays[i].until_us += late_us;
    }
    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        t->questions[i].start_us += late_us;
        t->questions[i].next_us += late_us;
    }
    member_worsen(t, 1);
}

static void
wake(struct member_table *t)
{
    CHECK(!t->silent);
    t->stats.woken++;
    t->up_since_us = t->now_us;
    t->sends_count = 0;
    memset(t->relays, 0, sizeof t->relays);
    memset(t->questions, 0, sizeof t->questions);
    member_worsen(t, 1);
    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX; slot++) {
        struct member_entry *e = &t->entries[slot];
        if (!entry_used(e) || e->is.state == MEMBER_LEFT) {
            continue;
        }
        e->probe = (struct member_probe){0};
        e->own_failed = false;
        e->condemned = false;
        e->tellings = 0;
        e->stale = true;
        e->look_us = t->now_us;
        if (e->is.state == MEMBER_SUSPECT) {
            e->since_us = t->now_us;
        }
        if (entry_counts(e)) {
            member_probe_now(t, slot);
        }
        member_sync(t, e->is.address);
    }
    member_refute(t, member_me(t)->incarnation);
}

/* Advances the clock to now, and notices when the caller was away. */
static void
advance(struct member_table *t, uint64_t now_us)
{
    uint64_t late = now_us > t->due_us ? now_us - t->due_us : 0;

    CHECK(now_us != NEVER);
    t->now_us = now_us > t->now_us ? now_us : t->now_us;
    if (t->silent) {
        return;
    }
    if (late >= MEMBER_GAP_MS * MS) {
        wake(t);
    } else if (late > t->config.probe_timeout_ms * MS / 2) {
        excuse(t, late);
    }
}

void
member_hint(struct member_table *t, const char *address, uint64_t now_us)
{
    CHECK(address != NULL);
    advance(t, now_us);
    if (!t->silent) {
        member_hint_add(t, address);
    }
    settle(t);
}

void
member_leave(struct member_table *t, uint64_t now_us)
{
    advance(t, now_us);
    if (t->silent) {
        return;
    }
    member_me(t)->state = MEMBER_LEFT;
    t->entries[SELF].since_us = t->now_us;
    t->sends_count = 0;
    t->silent = true;
    member_tell_all(t);
    settle(t);
    CHECK(t->due_us == NEVER);
}

void
member_link(struct member_table *t, const char *address, bool up,
            uint64_t now_us)
{
    CHECK(address != NULL && address[0] != '\0');
    advance(t, now_us);
    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX && !t->silent; slot++) {
        struct member_entry *e = &t->entries[slot];
        if (!entry_used(e) || strcmp(e->is.address, address) != 0) {
            continue;
        }
        if (entry_counts(e)) {
            member_probe_now(t, slot);
        } else if (up) {
            e->look_us = t->now_us;
            member_dead_tick(t, slot);
        }
    }
    for (uint32_t i = 0; i < HINTS_MAX && up; i++) {
        if (strcmp(t->hints[i].address, address) == 0) {
            t->hints[i].next_us = t->now_us;
        }
    }
    settle(t);
}

static void
tick_entry(struct member_table *t, uint32_t slot)
{
    const struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && slot < MEMBERS_MAX && !t->silent);
    if (entry_gone(e)) {
        member_dead_tick(t, slot);
    } else if (entry_used(e)) {
        member_probe_tick(t, slot);
        member_suspect_tick(t, slot);
    }
}

/* Deadlines that are not of one entry. */
static void
tick_rest(struct member_table *t)
{
    CHECK(!t->silent);
    member_hints_tick(t);
    if (t->now_us >= t->next_probe_us) {
        member_probe_turn(t);
    }
    if (t->now_us >= t->next_sync_us) {
        member_sync_tick(t);
    }
}

void
member_tick(struct member_table *t, uint64_t now_us)
{
    advance(t, now_us);
    if (!t->silent) {
        member_relays_tick(t);
        member_question_tick(t);
    }
    for (uint32_t slot = SELF + 1; slot < MEMBERS_MAX && !t->silent; slot++) {
        tick_entry(t, slot);
    }
    if (!t->silent) {
        tick_rest(t);
    }
    settle(t);
}

static void
dispatch(struct member_table *t, const struct member_message *m)
{
    CHECK(!t->silent);
    switch (m->kind) {
    case MEMBER_PING:
        member_got_ping(t, m);
        break;
    case MEMBER_PING_REQ:
        member_got_ping_req(t, m);
        break;
    case MEMBER_ACK:
        member_got_ack(t, m);
        break;
    case MEMBER_NACK:
        member_got_nack(t, m);
        break;
    case MEMBER_SYNC:
    case MEMBER_SYNC_ACK:
        member_got_sync(t, m);
        break;
    case MEMBER_REFUSE:
        member_got_refuse(t, m);
        break;
    case MEMBER_NEWS:
    case MEMBER_REJOIN: /* its update was enough */
    case MEMBER_KINDS:
        break;
    }
}

void
member_recv(struct member_table *t, const struct member_message *m,
            uint64_t now_us)
{
    CHECK(m->updates_count <= MEMBERS_MAX);
    CHECK(m != &t->message); /* that buffer is for outgoing messages */
    advance(t, now_us);
    t->stats.received++;
    if (!t->silent && member_claim_direct(t, m)) {
        /* The update in a REFUSE is its reason, not news. */
        uint32_t news = m->kind != MEMBER_REFUSE ? m->updates_count : 0;
        for (uint32_t i = 0; i < news; i++) {
            member_claim(t, &m->updates[i]);
        }
        dispatch(t, m);
    }
    settle(t);
}

uint32_t
member_health(const struct member_table *t)
{
    CHECK(t->health <= MEMBER_HEALTH_MAX);
    return t->health;
}

const struct member_stats *
member_stats(const struct member_table *t)
{
    CHECK(t->stats.probes_failed <= t->stats.probes);
    return &t->stats;
}
