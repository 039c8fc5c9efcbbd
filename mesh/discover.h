/*
 * Discovery: where other nodes may be, asked of DNS for as long as the node
 * lives, so that nodes find each other whoever starts first, comes later, or
 * comes back after everyone was gone.
 *
 * A join is one place to look, as --join and the configuration write it:
 *
 *   HOST:PORT            an IPv4 address, a bracketed IPv6 address, or a name
 *   dns:NAME:PORT        all A and AAAA records of NAME, each with that port
 *   srv:NAME             all SRV records of NAME: their targets' addresses
 *   dns:_SERVICE._PROTO.NAME
 *                        the same as srv: (RFC 2782 names), no PORT then
 *
 * HOST:PORT with a name is the same as dns:. A name that ends in a dot is
 * absolute, others are subject to the resolver's search list. Priorities and
 * weights of SRV records mean nothing here: every target is wanted.
 *
 * What comes out are hints. Each join is looked at every poll_ms, and every
 * alone_ms while fewer members than expected are alive, and what it names is
 * hinted each time again; whoever takes hints (member.h) ignores those of
 * members it knows. Nothing that fails to come takes anything away: no such
 * name, no records, a timeout, a broken server leave what was known before,
 * and that is hinted again. An address (or an SRV target) that good answers of
 * the last who named it leave out goes on being hinted until missed_max of
 * them in a row did, for servers that tell some of many addresses at a time.
 * Addresses of the configuration stay for good.
 *
 * Our own address is hinted like any other: through address translation
 * nobody knows which one it is. Members are told apart by their boot id.
 *
 * An answer may be wrong, old or hostile: all it can do is to fill the bounds
 * with addresses that nobody answers at. When full, the one left out most
 * often gives way, and one that was named in the last answer never does.
 *
 * The caller pulls outputs after each call until there are none, carries out
 * lookups, and comes back with discover_answered(). A node without joins, or
 * whose joins name nobody, is a mesh of one: nothing here is an error.
 *
 * Role: core. Owns: nothing; no allocation. Thread: one owner.
 * Limits: DISCOVER_*_MAX. Errors: a named outcome; a static text for a join
 * that cannot be read.
 */
#ifndef MESH_DISCOVER_H
#define MESH_DISCOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/rng.h"
#include "index/base/slice.h"

#define DISCOVER_JOINS_MAX     32U  /* joins that are names */
#define DISCOVER_NAMES_MAX     128U /* these, and targets of SRV records */
#define DISCOVER_TARGETS_MAX   64U  /* of one SRV name */
#define DISCOVER_IPS_MAX       128U /* of one name: 64 nodes, both families */
#define DISCOVER_ADDRESSES_MAX 256U /* in all */
#define DISCOVER_NAME_MAX      256U /* bytes of a name, its NUL included */
#define DISCOVER_ADDRESS_MAX   64U  /* numeric HOST:PORT, with its NUL */
#define DISCOVER_NONE          UINT32_MAX

enum discover_kind {
    DISCOVER_ADDRESS = 1, /* nothing to look up */
    DISCOVER_HOST,        /* look up A and AAAA */
    DISCOVER_SERVICE,     /* look up SRV */
};

/* One place to look. */
struct discover_join {
    enum discover_kind kind;
    char name[DISCOVER_NAME_MAX]; /* lower case; ADDRESS: numeric HOST:PORT,
                                     IPv6 in brackets */
    uint16_t port;                /* HOST: 1 or more; else 0 */
};

struct discover_config {
    uint32_t poll_ms;    /* between two looks at a join */
    uint32_t alone_ms;   /* the same while members are missing */
    uint32_t expected;   /* members, ourselves included; below 2 means 2 */
    uint32_t missed_max; /* good answers that may leave out what one named */
};

/* How a lookup ended. */
enum discover_outcome {
    DISCOVER_NOT_YET, /* never answered so far */
    DISCOVER_FOUND,   /* something usable was named */
    DISCOVER_ABSENT,  /* no such name, or no such records */
    DISCOVER_TIMEOUT, /* no answer in time */
    DISCOVER_FAILED,  /* the server said so, or made no sense */
    DISCOVER_OUTCOMES,
};

struct discover_ip {
    uint8_t size; /* 4 or 16 */
    uint8_t bytes[16];
};

/* One SRV record. */
struct discover_target {
    char name[DISCOVER_NAME_MAX];
    uint16_t port;
};

/* What the shell found. The arrays are borrowed for the call. */
struct discover_answer {
    uint64_t ticket; /* of the DISCOVER_OUT_RESOLVE */
    enum discover_outcome outcome;
    const struct discover_ip *ips; /* of a HOST */
    size_t ips_count;
    const struct discover_target *targets; /* of a SERVICE */
    size_t targets_count;
};

enum discover_out_kind {
    DISCOVER_OUT_RESOLVE, /* look name up; one discover_answered() for each */
    DISCOVER_OUT_HINT,    /* somebody may be at address */
    DISCOVER_OUT_NEWS,    /* for the log: name's lookups end in outcome now */
};

/* Texts are good until the next call. */
struct discover_out {
    enum discover_out_kind kind;
    enum discover_kind lookup;     /* RESOLVE, NEWS: HOST or SERVICE */
    enum discover_outcome outcome; /* NEWS */
    uint64_t ticket;               /* RESOLVE: never 0 */
    const char *name;              /* RESOLVE, NEWS */
    const char *address;           /* HINT: numeric HOST:PORT */
};

/* Counters since discover_init(), and levels of now. */
struct discover_stats {
    uint64_t lookups;                    /* asked for */
    uint64_t answers[DISCOVER_OUTCOMES]; /* by how they ended */
    uint64_t lost;      /* lookups that nobody came back from */
    uint64_t strays;    /* answers to no question */
    uint64_t hints;     /* given, each time again */
    uint64_t unusable;  /* addresses and targets nobody can be at */
    uint64_t full;      /* addresses and targets there was no room for */
    uint64_t forgotten; /* those that good answers left out, or gave way */
    uint32_t names;     /* looked up now: joins and targets */
    uint32_t addresses; /* known now */
};

/* The inside. */
struct discover_name {
    struct discover_join what; /* kind 0: not in use */
    uint32_t parent;           /* who named it; DISCOVER_NONE: a join */
    uint32_t missed;           /* good answers of the parent without it */
    uint64_t round;            /* the answer that named it last */
    enum discover_outcome outcome;
    bool wanted;      /* a RESOLVE waits to be pulled */
    bool news;        /* a NEWS does */
    uint64_t ticket;  /* of the lookup that runs; 0: none */
    uint64_t next_us; /* next look; while one runs: when it counts as lost */
};

struct discover_address {
    char text[DISCOVER_ADDRESS_MAX]; /* empty: not in use */
    uint32_t source; /* who named it last; DISCOVER_NONE: the configuration */
    uint32_t missed; /* good answers of the source without it */
    uint64_t round;  /* the answer that named it last */
    bool pending;    /* a HINT waits to be pulled */
};

/* All zero is not a discovery: discover_init() makes one. */
struct discover {
    struct discover_config config;
    struct rng rng;
    uint64_t now_us;   /* of the latest call; time never goes back */
    uint64_t tickets;  /* given so far */
    uint64_t round;    /* good answers so far */
    uint64_t fixed_us; /* next hint of the configuration's addresses */
    uint32_t alive;    /* members, ourselves included */
    uint32_t joins;    /* names[] that are joins */
    uint32_t name_at;  /* where discover_next_out() goes on */
    uint32_t address_at;
    struct discover_stats stats;
    struct discover_name names[DISCOVER_NAMES_MAX];
    struct discover_address addresses[DISCOVER_ADDRESSES_MAX];
};

enum {
    DISCOVER_E_FULL = 1, /* one join too many */
};

/* 5 s, 1 s alone, two members expected, 120 answers. */
struct discover_config discover_config_default(void);

/* Reads one join. NULL, or what was expected (and *join is undefined). */
const char *discover_parse(struct slice text, struct discover_join *join)
    MUST_CHECK;

/* The intervals of config must be 1 or more. seed: of the jitter, which
 * shortens each interval by up to a fifth. */
void discover_init(struct discover *d, const struct discover_config *config,
                   uint64_t now_us, uint64_t seed);

/* A further place to look, at once. Again is harmless. 0 or DISCOVER_E_FULL. */
int discover_add(struct discover *d, const struct discover_join *join,
                 uint64_t now_us) MUST_CHECK;

/* How many members are alive, ourselves included (1 at first). When some are
 * missing, looks that wait are brought forward. */
void discover_members(struct discover *d, uint32_t alive, uint64_t now_us);

/* How a lookup ended. Ignored, and counted, when it was not asked for, or so
 * long ago that it was given up. */
void discover_answered(struct discover *d, const struct discover_answer *answer,
                       uint64_t now_us);

/* Lets time pass up to now. */
void discover_tick(struct discover *d, uint64_t now_us);

/* When discover_tick() has something to do; UINT64_MAX: never. */
uint64_t discover_deadline(const struct discover *d);

/* The next thing to do; false when there is none. */
bool discover_next_out(struct discover *d, struct discover_out *out) MUST_CHECK;

/* The counters since discover_init(), and what is known now. */
void discover_stats(const struct discover *d, struct discover_stats *stats);

/* "found", "absent", "timeout", ...: for logs and metrics. Static text. */
const char *discover_outcome_name(enum discover_outcome outcome);

/* Writes an address as HOST:PORT into out (DISCOVER_ADDRESS_MAX bytes): IPv6 in
 * brackets, IPv4 within IPv6 as IPv4. False when nobody can be reached there:
 * unspecified, multicast, reserved, link-local IPv6 (it would need a zone),
 * port 0, neither 4 nor 16 bytes. */
bool discover_format(const struct discover_ip *ip, uint16_t port, char *out)
    MUST_CHECK;

/* Whether a name can be looked up, and it in lower case in out
 * (DISCOVER_NAME_MAX bytes). */
bool discover_name_read(struct slice text, char *out) MUST_CHECK;

/* Verifies every invariant; false and *reason (static text) when broken. */
bool discover_check(const struct discover *d, const char **reason) MUST_CHECK;

#endif
