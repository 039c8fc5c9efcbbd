/*
 * Membership: who is alive, known to everyone within seconds, with no leader
 * and few false alarms.
 *
 * SWIM (Das, Gupta, Motivala 2002). Every member pings the others in turn.
 * One that does not answer in time is asked for through `helpers` others, and
 * is suspected when they cannot reach it either. A suspect is told so with
 * every ping and refutes by raising its incarnation, which only it may do; if
 * it does not, it is dead. News ride on pings and answers, each a bounded
 * number of times (3 log2 n), the least told first; what cannot wait
 * (suspicion, refutation, death, goodbye) goes to everyone at once.
 *
 * Lifeguard (Dadgar, Phillips, Currey 2018). A member that misses answers
 * doubts itself first: its local health, 0..7, stretches its own timeouts; a
 * helper says with a NACK that it, at least, is well. A suspicion lasts
 * suspicion_probes periods (times log10 n above ten members) and each other
 * member whose own pings failed as well shortens it, down to
 * confirmed_probes; k = min(2, n - 2) of those are enough, so that three
 * members have a second opinion too. With nobody left to ask it takes the
 * full time.
 *
 * Departures, and why:
 * - Nobody is dead on hearsay. Who is told that a member is suspected or dead
 *   pings it, and believes in a death only when its own pings failed too. So
 *   one side's view of a partition does not infect the other side when it
 *   heals, and a member with a bad link accuses in vain.
 * - `probes` members are pinged per period, each up to three times within the
 *   timeout: 64 members can afford it, and the first makes death known within
 *   two seconds, the second makes a lossy network harmless.
 * - Identity is a random number per process. A restart is another process:
 *   it takes its name over when it answers and its predecessor does not (or
 *   when it lives at the predecessor's address). When both answer, the name
 *   is in use twice, and the one that has been up for less time is told to
 *   stop. A pause starts that time afresh: a sleeper does not come back to
 *   claim what was given away.
 * - Dead members are pinged for as long as they are kept, and their addresses
 *   are hints after that. So any partition heals, however long it was.
 * - A dead member that still speaks is told so and comes back with a higher
 *   incarnation; its words alone change nothing, for it may be deaf.
 * - Time in which this process did not run counts against nobody. After a gap
 *   of MEMBER_GAP_MS it is a sleeper (member_woke).
 *
 * Role: core; after each call pull the outputs. Owns: the table. Thread: one
 * owner. Limits: MEMBERS_MAX names, one entry each; MEMBER_UPDATES_MAX;
 * bounded queues that drop sends, which is like loss. Errors: -ENOMEM.
 */
#ifndef MESH_MEMBER_H
#define MESH_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

#define MEMBERS_MAX        64U
#define MEMBER_NAME_MAX    64U /* with its NUL */
#define MEMBER_ADDRESS_MAX 64U /* numeric HOST:PORT, with its NUL */
#define MEMBER_UPDATES_MAX 16U /* piggybacked on one message */
#define MEMBER_HEALTH_MAX  7U
#define MEMBER_GAP_MS      2000U /* of silence of the caller: it was stopped */

/* One process: random, drawn at its start; never all zero. */
struct member_id {
    uint64_t word[2];
};

enum member_state {
    MEMBER_ALIVE,
    MEMBER_SUSPECT, /* still counted in, unless it does not refute in time */
    MEMBER_DEAD,
    MEMBER_LEFT, /* said goodbye */
};

/* What is said about a member. A higher incarnation wins; of equal ones the
 * later state in the order above. Only the member itself raises it. */
struct member_update {
    struct member_id id;
    struct member_id by; /* SUSPECT, DEAD: who says so; else zero */
    uint32_t incarnation;
    uint32_t age_ms; /* how long the teller has known it to be so */
    uint8_t state;   /* enum member_state */
    char name[MEMBER_NAME_MAX];
    char address[MEMBER_ADDRESS_MAX];
};

enum member_kind {
    MEMBER_PING,     /* answer with an ACK of the same number */
    MEMBER_PING_REQ, /* ping target for me; ACK or NACK me */
    MEMBER_ACK,      /* target answered (the sender, or whom a helper asked) */
    MEMBER_NACK,     /* a helper: target did not answer in time. From who was
                        pinged: I am not target, I only live there now */
    MEMBER_NEWS,     /* updates that could not wait; no answer */
    MEMBER_SYNC,     /* all I know: answer with all you know */
    MEMBER_SYNC_ACK, /* all I know */
    MEMBER_REFUSE,   /* target's name is in use: by updates[0] */
    MEMBER_REJOIN,   /* you are thought dead: refute */
    MEMBER_KINDS,    /* how many there are */
};

struct member_message {
    enum member_kind kind;
    uint32_t number; /* of the ping; chosen by its sender */
    uint64_t up_ms;  /* how long the sender (ACK: target) is up, or awake */
    struct member_update from; /* the sender, as it is now */
    struct member_id target;   /* whom it is about; zero: whoever is there */
    char target_address[MEMBER_ADDRESS_MAX]; /* PING_REQ: where target is.
                    SYNC: where it was sent to; SYNC_ACK: the same, back */
    uint32_t updates_count; /* SYNC, SYNC_ACK: up to MEMBERS_MAX, else
                               MEMBER_UPDATES_MAX */
    struct member_update updates[MEMBERS_MAX];
};

/* All at least 1 but helpers, which may be 0. */
struct member_config {
    uint32_t probe_ms;         /* a period; without an ACK by its end, direct
                                  or indirect, the probed one is suspected */
    uint32_t probe_timeout_ms; /* then helpers are asked; < probe_ms */
    uint32_t probes;           /* members probed per period */
    uint32_t helpers;          /* indirect probes */
    uint32_t suspicion_probes; /* periods until a suspect is dead */
    uint32_t confirmed_probes; /* the same, with all confirmations; at most
                                  suspicion_probes */
    uint32_t sync_ms;          /* between two full exchanges with someone */
    uint32_t dead_probe_ms;    /* between two looks at someone dead */
    uint32_t forget_ms;        /* a dead or gone member's entry is kept */
};

/* The values that the notes argue for: 500, 250, 3, 3, 3, 1, 30 s, 1 s, 10
 * min. */
struct member_config member_config_default(void);

struct member_self {
    struct member_id id;
    char name[MEMBER_NAME_MAX];       /* not empty, printable ASCII */
    char address[MEMBER_ADDRESS_MAX]; /* as others reach it */
};

enum member_event {
    MEMBER_JOINED, /* alive, and was not known or not alive before */
    MEMBER_SUSPECTED,
    MEMBER_CLEARED, /* a suspect refuted */
    MEMBER_DIED,
    MEMBER_DEPARTED,  /* left */
    MEMBER_REPLACED,  /* about: the new process under its name, which is
                         alive; whoever had the name is gone */
    MEMBER_REFUTED,   /* about: ourselves; we were suspected or thought dead */
    MEMBER_REFUSED,   /* about: who was told to stop, for its name is in use */
    MEMBER_DUPLICATE, /* our own name is in use by `about`, a living process:
                         stop, or start anew with another name. The table is
                         silent from now on */
    MEMBER_FULL,      /* about: who could not be taken in, MEMBERS_MAX; at
                         most one such event per period */
    MEMBER_EVENTS,    /* how many there are */
};

enum member_out_kind {
    MEMBER_OUT_SEND,  /* message to `address` */
    MEMBER_OUT_EVENT, /* event about `about` */
};

struct member_out {
    enum member_out_kind kind;
    char address[MEMBER_ADDRESS_MAX];     /* SEND */
    const struct member_message *message; /* SEND: good until the next call */
    enum member_event event;              /* EVENT */
    struct member_update about;           /* EVENT */
};

struct member_table;

/* 0 and *out, alive and alone, or -ENOMEM. The seed decides about order and
 * jitter; give each process another. */
int member_new(struct member_table **out, const struct member_config *config,
               const struct member_self *self, uint64_t now_us, uint64_t seed)
    MUST_CHECK;

/* NULL is fine. */
void member_free(struct member_table *table);

/* An address where a member may be: from DNS, configuration, a snapshot. A
 * hint: it is sent a SYNC, less and less often, until someone there answers.
 * Our own and those of known living members are ignored; of more than
 * MEMBERS_MAX the oldest is dropped. */
void member_hint(struct member_table *table, const char *address,
                 uint64_t now_us);

/* A message came, checked by member_codec_read(). */
void member_recv(struct member_table *table,
                 const struct member_message *message, uint64_t now_us);

/* The link to an address came up or broke: whoever is there is probed now. */
void member_link(struct member_table *table, const char *address, bool up,
                 uint64_t now_us);

/* The process was stopped for a while (a gap of its loop): nothing it thinks
 * of others is to be trusted or told, and it refutes what they think of it.
 * Called from inside too, when time jumped by MEMBER_GAP_MS. */
void member_woke(struct member_table *table, uint64_t now_us);

/* Says goodbye to everyone; then only outputs are pulled. */
void member_leave(struct member_table *table, uint64_t now_us);

/* Lets time pass up to now. */
void member_tick(struct member_table *table, uint64_t now_us);

/* When member_tick() has something to do; UINT64_MAX: never (it left, or was
 * refused). */
uint64_t member_deadline(const struct member_table *table);

/* The next thing to do; false when there is none. */
bool member_next_out(struct member_table *table, struct member_out *out)
    MUST_CHECK;

/* One entry, in order of names; false at the end. Self is among them. */
struct member_info {
    struct member_update update;
    bool self;
    uint64_t since_us;      /* in this state */
    uint64_t heard_us;      /* last direct answer; 0: none yet */
    uint32_t confirmations; /* of a suspicion: further members who say so */
};
bool member_get(const struct member_table *table, uint32_t at,
                struct member_info *info) MUST_CHECK;

/* Alive and suspect ones, self included. */
uint32_t member_count_alive(const struct member_table *table);

/* Lifeguard's local health, 0 (good) .. MEMBER_HEALTH_MAX. */
uint32_t member_health(const struct member_table *table);

/* Counted since member_new(). */
struct member_stats {
    uint64_t sent;           /* messages pulled */
    uint64_t received;       /* and handed in */
    uint64_t sends_dropped;  /* the queue was full */
    uint64_t probes;         /* begun, of living members */
    uint64_t probes_failed;  /* nobody answered until their end */
    uint64_t suspicions;     /* MEMBER_SUSPECTED */
    uint64_t refutations;    /* MEMBER_REFUTED */
    uint64_t full;           /* members not taken in */
    uint64_t relays_dropped; /* too many pings for others at once */
    uint64_t woken;          /* times it was stopped for long */
};

/* The counters since member_new(); good as long as the table. */
const struct member_stats *member_stats(const struct member_table *table);

/* "alive", "suspect", "dead", "left"; "member_joined", ...: names of log
 * lines. Static text. */
const char *member_state_name(enum member_state state);
const char *member_event_name(enum member_event event);

/* The same process. */
static inline bool
member_id_equal(struct member_id a, struct member_id b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* No process: nobody draws this id. */
static inline bool
member_id_zero(struct member_id id)
{
    return id.word[0] == 0 && id.word[1] == 0;
}

/* Verifies each invariant; false and *reason (static text) when one is
 * broken. */
bool member_check(const struct member_table *table, const char **reason);

#endif
