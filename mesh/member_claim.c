/* What others say of members: incarnations, suspicion and death. */
#include <string.h>

#include "index/base/mutant.h"
#include "mesh/member_internal.h"

/* log10 n in thousandths, for more than ten members, rounded up slightly. */
static uint64_t
log10_permille(uint32_t n)
{
    static const struct {
        uint32_t n;
        uint32_t permille;
    } steps[] = {{10, 1000}, {16, 1204}, {20, 1301}, {25, 1398},
                 {32, 1505}, {40, 1602}, {50, 1699}};

    CHECK(n <= MEMBERS_MAX);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        if (n <= steps[i].n) {
            return steps[i].permille;
        }
    }
    return 1806;
}

uint64_t
member_suspect_until(const struct member_table *t, uint32_t slot)
{
    const struct member_entry *e = &t->entries[slot];
    uint64_t scale = log10_permille(member_count_alive(t)) * t->config.probe_ms;
    uint64_t most = scale * t->config.suspicion_probes;
    uint64_t least = scale * t->config.confirmed_probes;
    uint32_t others = member_count_well(t, slot);
    uint32_t wanted = others < ACCUSERS_MAX - 1 ? others : ACCUSERS_MAX - 1;
    uint32_t heard = e->accusers_count > 0 ? e->accusers_count - 1 : 0;

    CHECK(slot != SELF && e->is.state == MEMBER_SUSPECT);
    CHECK(least <= most);
    /* Thousandths of milliseconds are microseconds. Lifeguard's curve: the
     * share of log(heard + 1) in log(wanted + 1); log 2 / log 3 = 0.63. */
    if (heard == 0 || wanted == 0) {
        return e->since_us + most;
    }
    if (heard >= wanted) {
        return e->since_us + least;
    }
    return e->since_us + most - (most - least) * 631 / 1000;
}

/* Adds an accuser; false if it is known already, or beyond the bound. */
static bool
add_accuser(struct member_entry *e, struct member_id by)
{
    CHECK(e->is.state == MEMBER_SUSPECT);
    CHECK(e->accusers_count <= ACCUSERS_MAX);
    for (uint32_t i = 0; i < e->accusers_count; i++) {
        if (member_id_equal(e->accusers[i], by)) {
            return false;
        }
    }
    if (e->accusers_count == ACCUSERS_MAX) {
        return false;
    }
    e->accusers[e->accusers_count++] = by;
    return true;
}

static void
enter(struct member_table *t, uint32_t slot, enum member_state state)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && slot < MEMBERS_MAX && entry_used(e));
    CHECK(state <= MEMBER_LEFT);
    e->is.state = (uint8_t)state;
    e->is.by = (struct member_id){0};
    e->since_us = t->now_us;
    e->accusers_count = 0;
    e->own_failed = false;
    e->condemned = false;
    e->stale = false;
    e->look_us = t->now_us;
    if (state >= MEMBER_DEAD) {
        e->probe = (struct member_probe){0};
    }
}

void
member_suspect(struct member_table *t, uint32_t slot, struct member_id by)
{
    struct member_entry *e = &t->entries[slot];
    bool own = member_id_equal(by, member_me(t)->id);

    CHECK(slot != SELF && e->is.state == MEMBER_ALIVE);
    enter(t, slot, MEMBER_SUSPECT);
    e->is.by = by;
    e->own_failed = own;
    (void)add_accuser(e, by);
    member_notify(t, MEMBER_SUSPECTED, &e->is);
    member_tell(t, slot, own);
    e->probe = (struct member_probe){0};
    member_probe_now(t, slot);
}

static void
die(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];
    bool first = !e->condemned;

    CHECK(e->is.state == MEMBER_SUSPECT && e->own_failed);
    enter(t, slot, MEMBER_DEAD);
    e->is.by = member_me(t)->id;
    member_notify(t, MEMBER_DIED, &e->is);
    member_tell(t, slot, first);
}

void
member_suspect_tick(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && entry_used(e));
    if (e->is.state == MEMBER_SUSPECT && e->own_failed &&
        (e->condemned || t->now_us >= member_suspect_until(t, slot))) {
        die(t, slot);
    }
}

void
member_verdict(struct member_table *t, uint32_t slot)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && e->is.state == MEMBER_SUSPECT);
    CHECK(e->accusers_count > 0);
    if (!e->own_failed) {
        e->own_failed = true;
        e->is.by = member_me(t)->id;
        member_tell(t, slot, add_accuser(e, e->is.by));
    }
    member_suspect_tick(t, slot);
}

static void
live(struct member_table *t, uint32_t slot, uint32_t incarnation)
{
    struct member_entry *e = &t->entries[slot];
    enum member_state was = (enum member_state)e->is.state;

    CHECK(slot != SELF && incarnation > e->is.incarnation);
    e->is.incarnation = incarnation;
    if (was == MEMBER_ALIVE) {
        member_tell(t, slot, false);
        return;
    }
    enter(t, slot, MEMBER_ALIVE);
    member_notify(t, was == MEMBER_SUSPECT ? MEMBER_CLEARED : MEMBER_JOINED,
                  &e->is);
    member_tell(t, slot, false);
    e->probe = (struct member_probe){0};
    if (was != MEMBER_SUSPECT) {
        member_probe_now(t, slot);
    }
}

static void
left(struct member_table *t, uint32_t slot)
{
    bool counted = entry_counts(&t->entries[slot]);

    CHECK(t->entries[slot].is.state != MEMBER_LEFT);
    enter(t, slot, MEMBER_LEFT);
    if (counted) {
        member_notify(t, MEMBER_DEPARTED, &t->entries[slot].is);
    }
    member_tell(t, slot, false);
}

/* A member says that another one is suspect or dead, in this incarnation. */
static void
accuse(struct member_table *t, uint32_t slot, const struct member_update *u)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && u->incarnation == e->is.incarnation);
    if (e->is.state > MEMBER_SUSPECT) {
        return;
    }
    if (e->is.state == MEMBER_ALIVE) {
        member_suspect(t, slot, u->by);
    } else if (add_accuser(e, u->by)) {
        member_tell(t, slot, false);
    }
    e->condemned = e->condemned || u->state == MEMBER_DEAD;
    member_suspect_tick(t, slot);
}

void
member_refute(struct member_table *t, uint32_t incarnation)
{
    CHECK(!t->silent && incarnation >= member_me(t)->incarnation);
    if (incarnation == UINT32_MAX) {
        return; /* no member gets there by raising it by one */
    }
    member_me(t)->incarnation = incarnation + 1;
    t->entries[SELF].said = incarnation + 1;
    t->entries[SELF].since_us = t->now_us;
    member_notify(t, MEMBER_REFUTED, member_me(t));
    member_tell_all(t);
}

static void
claim_self(struct member_table *t, const struct member_update *u)
{
    const struct member_update *me = member_me(t);

    CHECK(me->state == MEMBER_ALIVE);
    if (u->incarnation > me->incarnation ||
        (u->incarnation == me->incarnation && u->state != MEMBER_ALIVE)) {
        member_worsen(t, 1);
        if (!MUTANT(NO_REFUTE)) {
            member_refute(t, u->incarnation);
        }
    }
}

/* A process stays where it is: what was told once holds. */
static void
place(struct member_table *t, uint32_t slot, const struct member_update *u)
{
    struct member_entry *e = &t->entries[slot];

    CHECK(slot != SELF && entry_used(e));
    if (e->is.island[0] == '\0' && u->island[0] != '\0') {
        memcpy(e->is.island, u->island, sizeof e->is.island);
        member_notify(t, MEMBER_PLACED, &e->is);
    }
}

static void
claim_known(struct member_table *t, uint32_t slot,
            const struct member_update *u)
{
    struct member_entry *e = &t->entries[slot];

    place(t, slot, u);
    if (u->incarnation < e->is.incarnation) {
        return;
    }
    e->stale = false;
    if (u->incarnation > e->is.incarnation) {
        /* It was alive when it said this, whatever others say of it now. */
        if (u->state <= MEMBER_SUSPECT || entry_counts(e)) {
            live(t, slot, u->incarnation);
        }
        e->is.incarnation = u->incarnation;
    }
    switch ((enum member_state)u->state) {
    case MEMBER_ALIVE:
        break;
    case MEMBER_SUSPECT:
    case MEMBER_DEAD:
        accuse(t, slot, u);
        break;
    case MEMBER_LEFT:
        if (e->is.state != MEMBER_LEFT) {
            left(t, slot);
        }
        break;
    }
    CHECK(e->is.incarnation >= u->incarnation);
}

void
member_replace(struct member_table *t, uint32_t slot,
               const struct member_update *by)
{
    struct member_entry *e = &t->entries[slot];
    enum member_event event = entry_counts(e) ? MEMBER_REPLACED : MEMBER_JOINED;

    CHECK(slot != SELF && strcmp(e->is.name, by->name) == 0);
    CHECK(!member_id_equal(e->is.id, by->id));
    e->former = e->is.id;
    e->is = *by;
    e->heard_us = 0;
    e->said = 0;
    e->probe = (struct member_probe){0};
    enter(t, slot, MEMBER_ALIVE);
    member_notify(t, event, &e->is);
    member_tell(t, slot, false);
    member_probe_now(t, slot);
}

static void
full(struct member_table *t, const struct member_update *u)
{
    CHECK(t->count == MEMBERS_MAX);
    t->stats.full++;
    if (t->now_us >= t->full_again_us) {
        t->full_again_us = t->now_us + t->config.probe_ms * MS;
        member_notify(t, MEMBER_FULL, u);
    }
}

/* A process whose name is free. A suspect is taken in when it refutes, or
 * never. */
static void
claim_new(struct member_table *t, const struct member_update *u)
{
    bool gone = u->state >= MEMBER_DEAD;

    CHECK(member_find_name(t, u->name) == NOBODY);
    if (u->state == MEMBER_SUSPECT) {
        return;
    }
    if (gone && (t->count == MEMBERS_MAX || u->age_ms >= t->config.forget_ms)) {
        return;
    }
    uint32_t slot = member_insert(t, u);
    if (slot == NOBODY) {
        full(t, u);
        return;
    }
    struct member_entry *e = &t->entries[slot];
    if (gone) {
        /* Forget it when the others forget it, or it would circulate for
         * ever. */
        uint64_t age_us = u->age_ms * MS;
        e->since_us = age_us < t->now_us ? t->now_us - age_us : 0;
        return;
    }
    enter(t, slot, MEMBER_ALIVE);
    e->probed_us = member_probed_us(t);
    member_notify(t, MEMBER_JOINED, &e->is);
    member_tell(t, slot, false);
    member_probe_now(t, slot);
}

/* A process that is not known yet. */
static void
claim_unknown(struct member_table *t, const struct member_update *u)
{
    uint32_t slot = member_find_name(t, u->name);

    if (slot == NOBODY) {
        claim_new(t, u);
        return;
    }
    bool former = member_id_equal(t->entries[slot].former, u->id);

    if (u->state >= MEMBER_DEAD) {
        return;
    }
    /* Late messages by or about a process that was replaced are no news. */
    if (former || entry_counts(&t->entries[slot])) {
        member_question(t, u);
    } else {
        member_replace(t, slot, u);
    }
}

/* Only the member raises its incarnation, and by one: hearsay that is far above
 * what it said itself is a lie, which it could not refute at the end of the
 * range. */
static bool
is_in_reach(const struct member_table *t, uint32_t slot, uint32_t incarnation)
{
    uint32_t said = slot == NOBODY ? 0 : t->entries[slot].said;

    CHECK(slot <= NOBODY);
    return incarnation <= said || incarnation - said <= LEAP;
}

void
member_claim(struct member_table *t, const struct member_update *u)
{
    CHECK(!t->silent);
    uint32_t slot = member_find_id(t, u->id);

    if (!is_in_reach(t, slot, u->incarnation)) {
        return;
    }
    if (slot == SELF) {
        claim_self(t, u);
        return;
    }
    if (slot != NOBODY) {
        claim_known(t, slot, u);
    } else if (member_find_twin(t, u->id) == NOBODY) {
        claim_unknown(t, u);
    }
}

static void
note_said(struct member_table *t, const struct member_update *from)
{
    uint32_t slot = member_find_id(t, from->id);

    if (slot != NOBODY && from->incarnation > t->entries[slot].said) {
        t->entries[slot].said = from->incarnation;
    }
}

bool
member_claim_direct(struct member_table *t, const struct member_message *m)
{
    const struct member_update *from = &m->from;

    CHECK(!t->silent);
    if (member_id_equal(from->id, member_me(t)->id)) {
        /* The hint led to this process itself. */
        member_hint_drop(t, m->target_address);
        return false;
    }
    uint32_t slot = member_find_id(t, from->id);
    uint32_t twin = member_find_twin(t, from->id);

    if (twin != NOBODY && twin != SELF) {
        member_remove(t, twin); /* that was hearsay */
    }
    if (slot == NOBODY) {
        claim_unknown(t, from);
        note_said(t, from);
        return true;
    }
    struct member_entry *e = &t->entries[slot];
    bool was_dead = e->is.state == MEMBER_DEAD;

    claim_known(t, slot, from);
    note_said(t, from);
    if (was_dead && entry_counts(e)) {
        member_sync(t, e->is.address);
    } else if (e->is.state == MEMBER_DEAD) {
        struct member_send *send = member_send(t, MEMBER_REJOIN, e->is.address);
        if (send != NULL) {
            send->target = e->is.id;
            send->first = e->is.id;
        }
    }
    return true;
}
