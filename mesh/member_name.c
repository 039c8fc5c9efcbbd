/*
 * A name has one living process. When another process turns up under a name
 * that is taken, both are pinged for one period, directly and through other
 * members. A process that does not answer has lost. If both answer, the one
 * that has been up for less time has lost.
 */
#include <string.h>

#include "mesh/member_internal.h"

static struct member_question *
find(struct member_table *t, const struct member_update *challenger)
{
    struct member_question *unused = NULL;

    for (uint32_t i = 0; i < QUESTIONS_MAX; i++) {
        struct member_question *q = &t->questions[i];
        if (q->number == 0) {
            unused = unused != NULL ? unused : q;
        } else if (member_id_equal(q->challenger.id, challenger->id)) {
            return NULL; /* it is being asked already */
        }
    }
    return unused;
}

/* One round: a ping, and from the second round on another one through a helper,
 * because this node may be the only one that does not reach it. */
static void
ask_one(struct member_table *t, const struct member_question *q,
        const struct member_update *whom)
{
    uint32_t slot = member_find_id(t, whom->id);

    CHECK(q->number != 0);
    member_ping(t, whom, q->number);
    if (q->rounds > 0 && t->config.helpers > 0) {
        (void)member_ask_helper(t, whom, q->number,
                                slot != NOBODY ? UINT64_C(1) << slot : 0);
    }
}

static void
ask(struct member_table *t, struct member_question *q)
{
    uint32_t slot = member_find_id(t, q->holder);

    CHECK(q->number != 0);
    if (!q->challenger_answered) {
        ask_one(t, q, &q->challenger);
    }
    if (slot != NOBODY && slot != SELF && !q->holder_answered) {
        ask_one(t, q, &t->entries[slot].is);
    }
    q->rounds++;
    q->next_us =
        t->now_us + member_stretched_us(t, t->config.probe_timeout_ms) / PINGS;
}

void
member_question(struct member_table *t, const struct member_update *challenger)
{
    uint32_t slot = member_find_name(t, challenger->name);
    struct member_question *q = find(t, challenger);

    CHECK(slot != NOBODY && !t->silent);
    /* Without a free slot it is asked when it next turns up. The process that
     * is said to live at our own address was our predecessor. */
    if (q == NULL || strcmp(challenger->address, member_me(t)->address) == 0) {
        return;
    }
    *q = (struct member_question){
        .challenger = *challenger,
        .holder = t->entries[slot].is.id,
        .start_us = t->now_us,
        .number = member_draw_number(t),
    };
    if (slot == SELF) {
        q->holder_answered = true;
        q->holder_up_us = t->now_us - t->up_since_us;
    }
    ask(t, q);
}

/* Tells a process that its name is in use. */
static void
refuse(struct member_table *t, const struct member_update *whom,
       struct member_id holder)
{
    struct member_send *send = member_send(t, MEMBER_REFUSE, whom->address);

    CHECK(!member_id_equal(whom->id, holder));
    if (send != NULL) {
        send->target = whom->id;
        send->first = holder;
    }
    member_notify(t, MEMBER_REFUSED, whom);
}

static void
be_duplicate(struct member_table *t, const struct member_update *holder)
{
    CHECK(!t->silent && !member_id_equal(holder->id, member_me(t)->id));
    t->silent = true;
    t->sends_count = 0;
    member_notify(t, MEMBER_DUPLICATE, holder);
}

static bool
challenger_wins(const struct member_question *q)
{
    CHECK(q->challenger_answered);
    if (!q->holder_answered) {
        return true;
    }
    if (q->challenger_up_us != q->holder_up_us) {
        return q->challenger_up_us > q->holder_up_us;
    }
    return q->challenger.id.word[0] < q->holder.word[0];
}

/* Both had their time: decides. */
static void
decide(struct member_table *t, struct member_question *q)
{
    struct member_question was = *q;
    uint32_t slot = member_find_name(t, was.challenger.name);

    CHECK(was.number != 0 && !t->silent);
    q->number = 0;
    if (!was.challenger_answered || slot == NOBODY ||
        !member_id_equal(t->entries[slot].is.id, was.holder) ||
        member_find_id(t, was.challenger.id) != NOBODY) {
        return; /* meanwhile the name or the challenger changed */
    }
    struct member_update holder = t->entries[slot].is;

    if (!challenger_wins(&was)) {
        refuse(t, &was.challenger, was.holder);
    } else if (slot == SELF) {
        be_duplicate(t, &was.challenger);
    } else {
        member_replace(t, slot, &was.challenger);
        if (was.holder_answered) {
            refuse(t, &holder, was.challenger.id);
        }
    }
}

static bool
is_clear(const struct member_table *t, const struct member_question *q)
{
    uint32_t slot = member_find_id(t, q->holder);

    CHECK(q->number != 0);
    if (!q->challenger_answered) {
        return slot == NOBODY;
    }
    return q->holder_answered || slot == NOBODY ||
           entry_gone(&t->entries[slot]) ||
           strcmp(t->entries[slot].is.address, q->challenger.address) == 0;
}

void
member_question_ack(struct member_table *t, const struct member_message *m)
{
    for (uint32_t i = 0; i < QUESTIONS_MAX && !t->silent; i++) {
        struct member_question *q = &t->questions[i];
        if (q->number == 0 || q->number != m->number) {
            continue;
        }
        if (member_id_equal(m->target, q->challenger.id)) {
            q->challenger_answered = true;
            q->challenger_up_us = m->up_ms * MS;
        } else if (member_id_equal(m->target, q->holder)) {
            q->holder_answered = true;
            q->holder_up_us = m->up_ms * MS;
        }
        if (is_clear(t, q)) {
            decide(t, q);
        }
    }
}

void
member_question_tick(struct member_table *t)
{
    for (uint32_t i = 0; i < QUESTIONS_MAX && !t->silent; i++) {
        struct member_question *q = &t->questions[i];
        uint64_t window = member_stretched_us(t, t->config.probe_ms);

        if (q->number == 0) {
            continue;
        }
        if (t->now_us >= q->start_us + window || is_clear(t, q)) {
            decide(t, q);
        } else if (t->now_us >= q->next_us) {
            ask(t, q);
        }
    }
}

void
member_got_refuse(struct member_table *t, const struct member_message *m)
{
    const struct member_update *me = member_me(t);

    CHECK(!t->silent);
    if (m->updates_count > 0 && member_id_equal(m->target, me->id) &&
        !member_id_equal(m->updates[0].id, me->id) &&
        strcmp(m->updates[0].name, me->name) == 0) {
        be_duplicate(t, &m->updates[0]);
    }
}
