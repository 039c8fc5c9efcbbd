/*
 * The inside of the member table, shared by member*.c alone.
 *
 * Entries never move; order[] sorts them by name. Entry 0 is ourselves. All
 * times are the caller's microseconds. Ping numbers are drawn from one counter
 * for probes, pings for others and questions of names, so that an answer finds
 * the one thing that waits for it.
 *
 * Role: core.
 */
#ifndef MESH_MEMBER_INTERNAL_H
#define MESH_MEMBER_INTERNAL_H

#include "index/base/rng.h"
#include "mesh/member.h"

#define MS            UINT64_C(1000)
#define NEVER         UINT64_MAX
#define SELF          0U
#define NOBODY        MEMBERS_MAX
#define ACCUSERS_MAX  3U /* the first, and two who confirm */
#define HINTS_MAX     MEMBERS_MAX
#define RELAYS_MAX    64U
#define QUESTIONS_MAX 8U
#define SENDS_MAX     512U
#define EVENTS_MAX    512U
#define PINGS         3U  /* within the direct timeout */
#define HINT_PERIODS  10U /* of probes, between SYNCs to a silent hint */

/* A probe of a member; number 0: none. */
struct member_probe {
    uint64_t start_us;
    uint64_t next_us; /* of the next step */
    uint64_t asked;   /* helpers, as a set of entries */
    uint64_t nacked;  /* of these, who said that it is well itself */
    uint32_t number;
    uint32_t tries; /* pings sent; PINGS: helpers are next */
};

struct member_entry {
    struct member_update is; /* age_ms unused; empty name: free */
    struct member_id former; /* whom it replaced; zero: nobody */
    uint64_t since_us;       /* in this state */
    uint64_t heard_us;
    uint64_t probed_us; /* start of the last probe of its turn */
    uint64_t look_us;   /* DEAD: of the next ping */
    struct member_probe probe;
    struct member_id accusers[ACCUSERS_MAX]; /* SUSPECT: distinct */
    uint32_t accusers_count;
    uint32_t tellings; /* how often its news ride along yet */
    bool own_failed;   /* SUSPECT: our own pings since then did */
    bool condemned;    /* SUSPECT: someone says it is dead */
    bool stale;        /* not heard of again since we woke: not told */
};

struct member_hint {
    char address[MEMBER_ADDRESS_MAX]; /* empty: free */
    uint64_t given_us;
    uint64_t next_us;
    uint64_t wait_us;
};

/* A ping for someone else; number 0: free. */
struct member_relay {
    char address[MEMBER_ADDRESS_MAX]; /* of who asked */
    struct member_id target;
    uint64_t until_us;
    uint32_t number; /* ours */
    uint32_t theirs;
};

/* Two processes under one name: who answers? number 0: free. */
struct member_question {
    struct member_update challenger;
    struct member_id holder;
    uint64_t start_us;
    uint64_t next_us;
    uint64_t challenger_up_us; /* when it answered: for how long it is up */
    uint64_t holder_up_us;
    uint32_t number;
    uint32_t rounds; /* of pings sent */
    bool challenger_answered;
    bool holder_answered;
};

/* What a message is made from when it is pulled. */
struct member_send {
    enum member_kind kind;
    uint32_t number;
    struct member_id target;
    uint64_t up_ms;         /* of the target, for a helper's ACK; 0: ours */
    struct member_id first; /* whose update comes first; zero: nobody's */
    char address[MEMBER_ADDRESS_MAX];
    char target_address[MEMBER_ADDRESS_MAX];
};

struct member_notice {
    enum member_event event;
    struct member_update about;
};

struct member_table {
    struct member_config config;
    struct rng rng;
    struct member_stats stats;
    uint64_t now_us;
    uint64_t due_us;      /* of the next tick */
    uint64_t up_since_us; /* born, or woke */
    uint64_t next_probe_us;
    uint64_t next_sync_us;
    uint64_t full_again_us; /* MEMBER_FULL may be said again */
    uint32_t health;
    uint32_t number; /* of the last ping */
    uint32_t count;  /* entries in use */
    bool silent;     /* left, or refused */
    uint8_t order[MEMBERS_MAX];
    struct member_entry entries[MEMBERS_MAX];
    struct member_hint hints[HINTS_MAX];
    struct member_relay relays[RELAYS_MAX];
    struct member_question questions[QUESTIONS_MAX];
    struct member_send sends[SENDS_MAX];
    uint32_t sends_first;
    uint32_t sends_count;
    struct member_notice events[EVENTS_MAX];
    uint32_t events_first;
    uint32_t events_count;
    struct member_message message; /* the one pulled last */
};

/* Ourselves, as we tell others. */
static inline struct member_update *
member_me(struct member_table *t)
{
    return &t->entries[SELF].is;
}

/* The slot holds a member. */
static inline bool
entry_used(const struct member_entry *e)
{
    return e->is.name[0] != '\0';
}

/* Counted in: alive or suspect. */
static inline bool
entry_counts(const struct member_entry *e)
{
    return entry_used(e) && e->is.state <= MEMBER_SUSPECT;
}

/* It is dead, or left. */
static inline bool
entry_gone(const struct member_entry *e)
{
    return entry_used(e) && e->is.state >= MEMBER_DEAD;
}

/* member_rows.c: entries and their order. Slots, or NOBODY. */
uint32_t member_find_id(const struct member_table *t, struct member_id id);
uint32_t member_find_name(const struct member_table *t, const char *name);
uint32_t member_find_address(const struct member_table *t, const char *address);

/* A free slot, taken from the longest dead if need be; sorted in. */
uint32_t member_insert(struct member_table *t, const struct member_update *u);

/* Empties a slot that is not our own. */
void member_remove(struct member_table *t, uint32_t slot);

/* A random alive member but ourselves and not in the set `but`. */
uint32_t member_any_alive(struct member_table *t, uint64_t but);

/* Others that are alive and not suspected, without `but`. */
uint32_t member_count_well(const struct member_table *t, uint32_t but);

/* member_out.c: what is to be said. */
void member_notify(struct member_table *t, enum member_event event,
                   const struct member_update *about);

/* A message of that kind; fields beside may be filled in afterwards. NULL:
 * dropped, the queue is full. */
struct member_send *member_send(struct member_table *t, enum member_kind kind,
                                const char *address);

/* An entry's news ride on messages from now on; loud: to everyone at once. */
void member_tell(struct member_table *t, uint32_t slot, bool loud);

/* Sends the news to all living members now. */
void member_tell_all(struct member_table *t);

/* Never 0. */
uint32_t member_draw_number(struct member_table *t);

/* Sends a ping of that number to a member. */
void member_ping(struct member_table *t, const struct member_update *whom,
                 uint32_t number);

/* member_claim.c: what others say. */

/* Takes what somebody says of a member, if it is news. */
void member_claim(struct member_table *t, const struct member_update *u);

/* A message's sender, about itself. False: ignore the message. */
bool member_claim_direct(struct member_table *t,
                         const struct member_message *m);

/* A living member, not ourselves, is suspected by `by` from now on. */
void member_suspect(struct member_table *t, uint32_t slot, struct member_id by);

/* Our own pings of a suspect failed. */
void member_verdict(struct member_table *t, uint32_t slot);

/* When a suspect is dead, if our own pings fail until then. */
uint64_t member_suspect_until(const struct member_table *t, uint32_t slot);

/* Declares a suspect dead when its time is up and our own pings failed. */
void member_suspect_tick(struct member_table *t, uint32_t slot);

/* The challenger takes over the entry of its name. */
void member_replace(struct member_table *t, uint32_t slot,
                    const struct member_update *by);

/* Raises our incarnation above what is said of us. */
void member_refute(struct member_table *t, uint32_t incarnation);

/* member_probe.c: who is there. */

/* A span in milliseconds as microseconds, longer the worse our own health
 * is. */
uint64_t member_stretched_us(const struct member_table *t, uint32_t ms);

/* Worsens the local health, to MEMBER_HEALTH_MAX at most. */
void member_worsen(struct member_table *t, uint32_t by);

/* Begins a probe of a member out of turn, unless one runs. */
void member_probe_now(struct member_table *t, uint32_t slot);

/* The next step of a probe that is due: pings, helpers, the verdict. */
void member_probe_tick(struct member_table *t, uint32_t slot);

/* When a member that is probed now counts as probed: a little earlier, at
 * random, so that members do not all probe in the same order. */
uint64_t member_probed_us(struct member_table *t);
void member_probe_turn(struct member_table *t); /* the next in turn */

/* Pings a dead member now and then, and forgets it in the end. */
void member_dead_tick(struct member_table *t, uint32_t slot);

/* A message of that kind came, whose sender was taken by member_claim_direct().
 * The same for each member_got_...() below. */
void member_got_ping(struct member_table *t, const struct member_message *m);

/* As member_got_ping(). */
void member_got_ping_req(struct member_table *t,
                         const struct member_message *m);

/* As member_got_ping(). */
void member_got_ack(struct member_table *t, const struct member_message *m);

/* As member_got_ping(). */
void member_got_nack(struct member_table *t, const struct member_message *m);

/* Asks a random one, not in the set `but`, to ping for us: who, or NOBODY. */
uint32_t member_ask_helper(struct member_table *t,
                           const struct member_update *whom, uint32_t number,
                           uint64_t but);

/* Ends pings for others that were not answered, with a NACK. */
void member_relays_tick(struct member_table *t);

/* member_name.c: two processes under one name. */

/* A second process claims a name that is in use: asks both who answers. */
void member_question(struct member_table *t,
                     const struct member_update *challenger);

/* An ACK may answer a question of names. */
void member_question_ack(struct member_table *t,
                         const struct member_message *m);

/* Decides the questions of names whose time is up. */
void member_question_tick(struct member_table *t);

/* As member_got_ping(). */
void member_got_refuse(struct member_table *t, const struct member_message *m);

/* member_join.c: finding others. */

/* Keeps an address where somebody may be; of too many the oldest goes. */
void member_hint_add(struct member_table *t, const char *address);

/* Sends a SYNC to each hint that is due. */
void member_hints_tick(struct member_table *t);

/* Somebody is known there now: the hint is done. */
void member_hint_drop(struct member_table *t, const char *address);

/* Sends a SYNC to an address. */
void member_sync(struct member_table *t, const char *address);

/* A full exchange with a random member, when it is time. */
void member_sync_tick(struct member_table *t);

/* As member_got_ping(). */
void member_got_sync(struct member_table *t, const struct member_message *m);

/* A span that varies by a tenth up or down. */
uint64_t member_jitter_us(struct member_table *t, uint64_t span_us);

#endif
