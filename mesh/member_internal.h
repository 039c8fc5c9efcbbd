/*
 * The inside of the member table, shared only by member*.c.
 *
 * Entries never move; order[] sorts them by name. Entry 0 is this process. All
 * times are the caller's microseconds. One counter gives the numbers of probes,
 * of pings for other members and of questions about names, so an answer finds
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
#define ACCUSERS_MAX  3U /* the first, and two that confirm */
#define HINTS_MAX     MEMBERS_MAX
#define RELAYS_MAX    64U
#define QUESTIONS_MAX 8U
#define SENDS_MAX     512U
#define EVENTS_MAX    512U
#define PINGS         3U  /* within the direct timeout */
#define HINT_PERIODS  10U /* in probe periods, between SYNCs to a silent hint */
#define LEAP          (UINT32_C(1) << 20) /* of incarnations, by hearsay */

/* A probe of a member; number 0: there is none. */
struct member_probe {
    uint64_t start_us;
    uint64_t next_us; /* when the next step is due */
    uint64_t asked;   /* the helpers asked, as a set of entries */
    uint64_t nacked;  /* those of them that are well themselves */
    uint32_t number;
    uint32_t tries; /* pings sent; at PINGS, helpers are asked */
};

struct member_entry {
    struct member_update is; /* age_ms is unused; empty name: the slot is
                                free */
    struct member_id former; /* the process that it replaced; zero: none */
    uint64_t since_us;       /* when it entered this state */
    uint64_t heard_us;
    uint64_t probed_us; /* start of its last probe */
    uint64_t look_us;   /* DEAD: when it is pinged next */
    struct member_probe probe;
    struct member_id accusers[ACCUSERS_MAX]; /* SUSPECT: all different */
    uint32_t accusers_count;
    uint32_t said;     /* the highest incarnation that it told us itself */
    uint32_t tellings; /* how often its news must still be piggybacked */
    bool own_failed;   /* SUSPECT: our own pings have failed since then */
    bool condemned;    /* SUSPECT: a member says that it is dead */
    bool stale;        /* not heard of since we woke: not told to others */
};

struct member_hint {
    char address[MEMBER_ADDRESS_MAX]; /* empty: the slot is free */
    uint64_t given_us;
    uint64_t next_us;
    uint64_t wait_us;
};

/* A ping for another member; number 0: the slot is free. */
struct member_relay {
    char address[MEMBER_ADDRESS_MAX]; /* of the member that asked */
    struct member_id target;
    uint64_t until_us;
    uint32_t number; /* of our own ping */
    uint32_t theirs;
};

/* A name that two processes claim: which of them answers? number 0: the slot is
 * free. */
struct member_question {
    struct member_update challenger;
    struct member_id holder;
    uint64_t start_us;
    uint64_t next_us;
    uint64_t challenger_up_us; /* when it answered: for how long it has been
                                  up */
    uint64_t holder_up_us;
    uint32_t number;
    uint32_t rounds; /* pings sent, in rounds */
    bool challenger_answered;
    bool holder_answered;
};

/* What a message is built from when it is pulled. */
struct member_send {
    enum member_kind kind;
    uint32_t number;
    struct member_id target;
    uint64_t up_ms;         /* for a helper's ACK: the target's; 0: our own */
    struct member_id first; /* whose update comes first; zero: none */
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
    uint64_t due_us;      /* when the next tick is due */
    uint64_t up_since_us; /* when it started, or woke */
    uint64_t next_probe_us;
    uint64_t next_sync_us;
    uint64_t full_again_us; /* when MEMBER_FULL may be reported again */
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
    struct member_message message; /* the message pulled last */
};

/* This process, as it describes itself to others. */
static inline struct member_update *
member_me(struct member_table *t)
{
    return &t->entries[SELF].is;
}

/* The slot is in use. */
static inline bool
entry_used(const struct member_entry *e)
{
    return e->is.name[0] != '\0';
}

/* The member counts: it is alive or suspect. */
static inline bool
entry_counts(const struct member_entry *e)
{
    return entry_used(e) && e->is.state <= MEMBER_SUSPECT;
}

/* The member is dead or left. */
static inline bool
entry_gone(const struct member_entry *e)
{
    return entry_used(e) && e->is.state >= MEMBER_DEAD;
}

/* member_rows.c: entries and their order. They return slots, or NOBODY. */
uint32_t member_find_id(const struct member_table *t, struct member_id id);
uint32_t member_find_name(const struct member_table *t, const char *name);

/* Another id with the same first word, which alone links prove. */
uint32_t member_find_twin(const struct member_table *t, struct member_id id);

/* Who lives there; if nobody does, who did. */
uint32_t member_find_address(const struct member_table *t, const char *address);

/* Finds a free slot, if necessary that of the longest dead member, and sorts it
 * in. */
uint32_t member_insert(struct member_table *t, const struct member_update *u);

/* Empties a slot, which must not be this process's own. */
void member_remove(struct member_table *t, uint32_t slot);

/* A random alive member that is neither this process nor in the set `but`. */
uint32_t member_any_alive(struct member_table *t, uint64_t but);

/* How many other members are alive and not suspected, without `but`. */
uint32_t member_count_well(const struct member_table *t, uint32_t but);

/* member_out.c: what must be sent or reported. */
void member_notify(struct member_table *t, enum member_event event,
                   const struct member_update *about);

/* Queues a message of that kind; the caller may fill in further fields. NULL:
 * the queue is full and the message dropped. */
struct member_send *member_send(struct member_table *t, enum member_kind kind,
                                const char *address);

/* Tells an entry's news from now on: piggybacked, or (loud) to everyone at
 * once. */
void member_tell(struct member_table *t, uint32_t slot, bool loud);

/* Sends the news to all living members now. */
void member_tell_all(struct member_table *t);

/* The next number; never 0. */
uint32_t member_draw_number(struct member_table *t);

/* Sends a ping of that number to a member. */
void member_ping(struct member_table *t, const struct member_update *whom,
                 uint32_t number);

/* member_claim.c: what others say. */

/* Takes what a member says of another one, if it is news. */
void member_claim(struct member_table *t, const struct member_update *u);

/* Takes what a message's sender says of itself. False: ignore the message. */
bool member_claim_direct(struct member_table *t,
                         const struct member_message *m);

/* A living member other than this process is suspected by `by` from now on. */
void member_suspect(struct member_table *t, uint32_t slot, struct member_id by);

/* Our own pings of a suspect failed. */
void member_verdict(struct member_table *t, uint32_t slot);

/* When a suspect will be dead, if our own pings fail until then. */
uint64_t member_suspect_until(const struct member_table *t, uint32_t slot);

/* Declares a suspect dead when it is due and our own pings failed. */
void member_suspect_tick(struct member_table *t, uint32_t slot);

/* The challenger takes over the entry of its name. */
void member_replace(struct member_table *t, uint32_t slot,
                    const struct member_update *by);

/* Raises our own incarnation above the given one. */
void member_refute(struct member_table *t, uint32_t incarnation);

/* member_probe.c: who is there. */

/* A span in milliseconds as microseconds; the worse the local health, the
 * longer. */
uint64_t member_stretched_us(const struct member_table *t, uint32_t ms);

/* Worsens the local health, at most to MEMBER_HEALTH_MAX. */
void member_worsen(struct member_table *t, uint32_t by);

/* Begins a probe of a member out of turn, unless one is in progress. */
void member_probe_now(struct member_table *t, uint32_t slot);

/* Takes the next step of a probe: pings, helpers, the verdict. */
void member_probe_tick(struct member_table *t, uint32_t slot);

/* When a member that is probed now counts as probed: a random time earlier, so
 * that not all members probe in the same order. */
uint64_t member_probed_us(struct member_table *t);
void member_probe_turn(struct member_table *t); /* the next in turn */

/* Pings a dead member when it is due, and finally forgets it. */
void member_dead_tick(struct member_table *t, uint32_t slot);

/* Handles a message of that kind, after member_claim_direct() took its sender.
 * The same holds for each member_got_...() below. */
void member_got_ping(struct member_table *t, const struct member_message *m);

/* As member_got_ping(). */
void member_got_ping_req(struct member_table *t,
                         const struct member_message *m);

/* As member_got_ping(). */
void member_got_ack(struct member_table *t, const struct member_message *m);

/* As member_got_ping(). */
void member_got_nack(struct member_table *t, const struct member_message *m);

/* Asks a random member that is not in the set `but` to ping for us. Returns its
 * slot, or NOBODY. */
uint32_t member_ask_helper(struct member_table *t,
                           const struct member_update *whom, uint32_t number,
                           uint64_t but);

/* Answers overdue pings for other members with a NACK. */
void member_relays_tick(struct member_table *t);

/* member_name.c: two processes under one name. */

/* A second process claims a name that is in use: asks which of the two
 * answers. */
void member_question(struct member_table *t,
                     const struct member_update *challenger);

/* Takes an ACK, which may answer a question about a name. */
void member_question_ack(struct member_table *t,
                         const struct member_message *m);

/* Decides the questions about names that are due. */
void member_question_tick(struct member_table *t);

/* As member_got_ping(). */
void member_got_refuse(struct member_table *t, const struct member_message *m);

/* member_join.c: finding others. */

/* Keeps an address where a member may be; beyond the bound, the oldest is
 * dropped. */
void member_hint_add(struct member_table *t, const char *address);

/* Sends a SYNC to each hint that is due. */
void member_hints_tick(struct member_table *t);

/* A member is known at that address now, so the hint is done. */
void member_hint_drop(struct member_table *t, const char *address);

/* Sends a SYNC to an address. */
void member_sync(struct member_table *t, const char *address);

/* Begins a full exchange with a random member when it is due. */
void member_sync_tick(struct member_table *t);

/* As member_got_ping(). */
void member_got_sync(struct member_table *t, const struct member_message *m);

/* A span that varies at random by up to a tenth. */
uint64_t member_jitter_us(struct member_table *t, uint64_t span_us);

#endif
