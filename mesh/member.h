/*
 * Membership: who is alive, known to every member within seconds, with no
 * leader and few false alarms.
 *
 * SWIM (Das, Gupta, Motivala 2002). Every member pings the others in turn. If a
 * member does not answer in time, `helpers` others are asked to ping it, and if
 * they cannot reach it either, it is suspected. Every ping tells a suspect that
 * it is suspected. It refutes by raising its incarnation, which only the member
 * itself may do; if it does not refute, it is dead. News travel on pings and
 * answers, each item a bounded number of times (3 log2 n), the least told
 * first. Urgent news (suspicion, refutation, death, goodbye) are sent to
 * everyone at once.
 *
 * Lifeguard (Dadgar, Phillips, Currey 2018). A member that misses answers
 * doubts itself first: its local health, 0..7, stretches its own timeouts, and
 * a helper's NACK says that at least the helper is well. A suspicion lasts
 * suspicion_probes periods (times log10 n above ten members). Each other member
 * whose own pings failed as well shortens it, down to confirmed_probes; k =
 * min(2, n - 2) of them are enough, so three members have a second opinion too.
 * With no other member left to ask, the suspicion takes the full time.
 *
 * Departures, and why:
 * - No member is dead on hearsay. A member that is told of a suspicion or a
 *   death pings the accused itself, and believes in the death only when its own
 *   pings failed too. So one side's view of a partition does not infect the
 *   other side when the partition heals, and a member with a bad link accuses
 *   in vain.
 * - `probes` members are pinged per period, each up to three times within the
 *   timeout; 64 members can afford that. Several probes per period make a death
 *   known within two seconds, and repeated pings make a lossy network harmless.
 * - Identity is a random number per process. A restarted node is another
 *   process: it takes its name over when it answers and its predecessor does
 *   not (or when it lives at the predecessor's address). When both answer, the
 *   name is in use twice, and the process that has been up for less time is
 *   told to stop. A pause restarts that time, so a process that slept cannot
 *   come back and claim a name that was given away.
 * - Dead members are pinged for as long as they are kept, and their addresses
 *   are hints after that. So any partition heals, however long it was.
 * - A dead member that still speaks is told that it is considered dead, and
 *   comes back with a higher incarnation. Its messages alone change nothing,
 *   because it may be deaf.
 * - Time in which this process did not run counts against no member. After a
 *   gap of MEMBER_GAP_MS this process is a sleeper: what it knows of other
 *   members is neither trusted nor told, and it refutes what they say of it.
 *
 * Role: core; after each call pull the outputs. Owns: the table. Thread: one
 * owner. Limits: MEMBERS_MAX names, one entry each; MEMBER_UPDATES_MAX; bounded
 * queues that drop sends, which is like loss. Errors: -ENOMEM.
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
#define MEMBER_ISLAND_MAX  64U /* with its NUL */
#define MEMBER_UPDATES_MAX 16U /* piggybacked on one message at most */
#define MEMBER_HEALTH_MAX  7U
#define MEMBER_GAP_MS      2000U /* without a call: we were stopped */

/* Identifies a process: random, drawn at its start; never all zero. */
struct member_id {
    uint64_t word[2];
};

enum member_state {
    MEMBER_ALIVE,
    MEMBER_SUSPECT, /* still counts as a member, but is dead unless it refutes
                       in time */
    MEMBER_DEAD,
    MEMBER_LEFT, /* said goodbye */
};

/* What one member says about another one. The higher incarnation wins; of equal
 * incarnations the later state in the order above. Only the member itself
 * raises its incarnation. */
struct member_update {
    struct member_id id;
    struct member_id by; /* SUSPECT, DEAD: the accuser; else zero */
    uint32_t incarnation;
    uint32_t age_ms; /* for how long the sender has known this */
    uint8_t state;   /* enum member_state */
    char name[MEMBER_NAME_MAX];
    char address[MEMBER_ADDRESS_MAX];
    char island[MEMBER_ISLAND_MAX]; /* "": not told */
};

enum member_kind {
    MEMBER_PING,     /* answer with an ACK of the same number */
    MEMBER_PING_REQ, /* ping target for the sender, and send it an ACK or a
                        NACK */
    MEMBER_ACK,      /* target answered; target is the sender itself, or the
                        member that a helper pinged */
    MEMBER_NACK,     /* from a helper: target did not answer in time. From the
                        pinged process: it is not target, but now lives at that
                        address */
    MEMBER_NEWS,     /* urgent updates; no answer */
    MEMBER_SYNC,     /* all that the sender knows: answer with all you know */
    MEMBER_SYNC_ACK, /* the answer: all that the sender knows */
    MEMBER_REFUSE,   /* target's name is in use by updates[0] */
    MEMBER_REJOIN,   /* target is considered dead, and should refute */
    MEMBER_KINDS,    /* how many there are */
};

struct member_message {
    enum member_kind kind;
    uint32_t number; /* of the ping; chosen by the pinging member */
    uint64_t up_ms;  /* how long the sender (ACK: target) has been up, or
                        awake */
    struct member_update from; /* the sender, as it is now */
    struct member_id target;   /* whom the message is about; zero: whoever lives
                                  at the address */
    char target_address[MEMBER_ADDRESS_MAX]; /* PING_REQ: target's address.
                                                SYNC: the address it was sent
                                                to; SYNC_ACK: the same address,
                                                returned */
    uint32_t updates_count; /* at most MEMBERS_MAX in SYNC and SYNC_ACK, else
                               MEMBER_UPDATES_MAX */
    struct member_update updates[MEMBERS_MAX];
};

/* All values are at least 1, except helpers, which may be 0. */
struct member_config {
    uint32_t probe_ms;         /* a period; a member without an ACK by its end,
                                  direct or indirect, is suspected */
    uint32_t probe_timeout_ms; /* until helpers are asked; < probe_ms */
    uint32_t probes;           /* members probed per period */
    uint32_t helpers;          /* asked per indirect probe */
    uint32_t suspicion_probes; /* periods until a suspect is dead */
    uint32_t confirmed_probes; /* the same with all confirmations; at most
                                  suspicion_probes */
    uint32_t sync_ms;          /* between two full exchanges with a member */
    uint32_t dead_probe_ms;    /* between two pings of a dead member */
    uint32_t forget_ms;        /* how long a dead or gone member's entry is
                                  kept */
};

/* The defaults: 500, 250, 3, 3, 3, 1, 30 s, 1 s, 10 min. */
struct member_config member_config_default(void);

struct member_self {
    struct member_id id;
    char name[MEMBER_NAME_MAX];       /* not empty, printable ASCII */
    char address[MEMBER_ADDRESS_MAX]; /* as others reach it */
    char island[MEMBER_ISLAND_MAX];   /* likewise printable ASCII; "": none */
};

enum member_event {
    MEMBER_JOINED, /* alive, and was unknown or not alive before */
    MEMBER_SUSPECTED,
    MEMBER_CLEARED, /* a suspect refuted */
    MEMBER_DIED,
    MEMBER_DEPARTED,  /* left */
    MEMBER_REPLACED,  /* about: the new process, alive under the name of a
                         process that is gone */
    MEMBER_REFUTED,   /* about: ourselves; we were suspected or considered
                         dead */
    MEMBER_PLACED,    /* about: a member that told no island before, as news by
                         an older version leave it out */
    MEMBER_REFUSED,   /* about: a process that was told to stop, because its
                         name is in use */
    MEMBER_DUPLICATE, /* `about`, a living process, uses our own name: stop, or
                         restart with another name. The table is silent from now
                         on */
    MEMBER_FULL,      /* about: a member that MEMBERS_MAX leaves no room for; at
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
    const struct member_message *message; /* SEND: valid until the next call */
    enum member_event event;              /* EVENT */
    struct member_update about;           /* EVENT */
};

struct member_table;

/* A table whose only member is this process, alive. 0 and *out, or -ENOMEM. The
 * seed determines order and jitter; give each process a different seed. */
int member_new(struct member_table **out, const struct member_config *config,
               const struct member_self *self, uint64_t now_us, uint64_t seed)
    MUST_CHECK;

/* table may be NULL. */
void member_free(struct member_table *table);

/* An address where a member may be, from DNS, the configuration or a snapshot.
 * It is a hint: we send it a SYNC, less and less often, until a member there
 * answers. Our own address and those of known living members are ignored;
 * beyond MEMBERS_MAX hints the oldest is dropped. */
void member_hint(struct member_table *table, const char *address,
                 uint64_t now_us);

/* Takes a received message, which member_codec_read() has checked. */
void member_recv(struct member_table *table,
                 const struct member_message *message, uint64_t now_us);

/* The link to an address came up or broke: the member there is probed now. */
void member_link(struct member_table *table, const char *address, bool up,
                 uint64_t now_us);

/* Says goodbye to every member; afterwards only outputs may be pulled. */
void member_leave(struct member_table *table, uint64_t now_us);

/* Lets time pass up to now. */
void member_tick(struct member_table *table, uint64_t now_us);

/* When member_tick() is due; UINT64_MAX: never (it left, or was refused). */
uint64_t member_deadline(const struct member_table *table);

/* The next output; false when there is none. */
bool member_next_out(struct member_table *table, struct member_out *out)
    MUST_CHECK;

/* The at-th entry, in order of names, self included; false at the end. */
struct member_info {
    struct member_update update;
    bool self;
    uint64_t since_us; /* when it entered this state */
    uint64_t heard_us; /* last direct answer; 0: none yet */
};
bool member_get(const struct member_table *table, uint32_t at,
                struct member_info *info) MUST_CHECK;

/* How many members are alive or suspect, self included. */
uint32_t member_count_alive(const struct member_table *table);

/* Lifeguard's local health, from 0 (good) to MEMBER_HEALTH_MAX. */
uint32_t member_health(const struct member_table *table);

/* Counters since member_new(). */
struct member_stats {
    uint64_t sent;           /* messages pulled */
    uint64_t received;       /* messages handed in */
    uint64_t sends_dropped;  /* because the queue was full */
    uint64_t probes;         /* begun, of living members */
    uint64_t probes_failed;  /* without an answer until their end */
    uint64_t suspicions;     /* MEMBER_SUSPECTED */
    uint64_t refutations;    /* MEMBER_REFUTED */
    uint64_t full;           /* members that found no room */
    uint64_t relays_dropped; /* pings for other members, because there were too
                                many at once */
    uint64_t woken;          /* how often the process was stopped for long */
};

/* The counters since member_new(); valid as long as the table. */
const struct member_stats *member_stats(const struct member_table *table);

/* "alive", "suspect", "dead", "left"; "member_joined", ...: names in log lines.
 * Static text. */
const char *member_state_name(enum member_state state);
const char *member_event_name(enum member_event event);

/* Both ids name the same process. */
static inline bool
member_id_equal(struct member_id a, struct member_id b)
{
    return a.word[0] == b.word[0] && a.word[1] == b.word[1];
}

/* The id names no process: no process draws it. */
static inline bool
member_id_zero(struct member_id id)
{
    return id.word[0] == 0 && id.word[1] == 0;
}

/* Verifies each invariant; false and *reason (static text) when one is
 * broken. */
bool member_check(const struct member_table *table, const char **reason);

#endif
