/*
 * Discovery: where other nodes may be. It asks DNS for as long as the node
 * lives, so nodes find each other whichever starts first, comes later, or comes
 * back after all were gone.
 *
 * A join is one place to look, as --join and the configuration write it:
 *
 *   HOST:PORT            an IPv4 address, a bracketed IPv6 address, or a name
 *   dns:NAME:PORT        all A and AAAA records of NAME, each with that port
 *   srv:NAME             all SRV records of NAME: their targets' addresses
 *   dns:_SERVICE._PROTO.NAME
 *                        the same as srv: (RFC 2782 names), without a PORT
 *
 * HOST:PORT with a name is the same as dns:. A name that ends in a dot is
 * absolute; other names use the resolver's search list. Priorities and weights
 * of SRV records are ignored: every target is wanted.
 *
 * The outputs are hints. Each join is looked up every poll_ms, and every
 * alone_ms while fewer members than expected are alive. Each time all addresses
 * found are hinted again; the membership (member.h) ignores hints of members
 * that it knows. A failed lookup removes nothing: after a missing name, no
 * records, a timeout or a broken server, the known addresses are kept and
 * hinted again. If good answers leave out an address (or an SRV target) that
 * they named before, it is hinted until missed_max answers in a row have left
 * it out, because some servers tell only some of many addresses at a time.
 * Addresses from the configuration stay for good.
 *
 * Our own address is hinted like any other: behind address translation a node
 * cannot know which one it is. Members are told apart by their boot id.
 *
 * An answer may be wrong, old or hostile. The worst it can do is to fill the
 * bounds with addresses where no node answers. When a bound is reached, the
 * address that was left out most often gives way; an address that the last
 * answer named never does.
 *
 * The caller pulls outputs after each call until there are none, makes the
 * lookups, and answers with discover_answered(). A node without joins, or whose
 * joins name no other node, is a mesh of one; that is no error.
 *
 * Role: core. Owns: nothing; no allocation. Thread: one owner. Limits:
 * DISCOVER_*_MAX. Errors: a named outcome; a static text for a join that cannot
 * be read.
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
#define DISCOVER_NAMES_MAX     128U /* the joins, and targets of SRV records */
#define DISCOVER_TARGETS_MAX   64U  /* per SRV name */
#define DISCOVER_IPS_MAX       128U /* per name: 64 nodes, both families */
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
    uint32_t poll_ms;    /* between two lookups of a join */
    uint32_t alone_ms;   /* the same while members are missing */
    uint32_t expected;   /* members, this node included; below 2 means 2 */
    uint32_t missed_max; /* good answers in a row that may leave out a known
                            address */
};

/* The result of a lookup. */
enum discover_outcome {
    DISCOVER_NOT_YET, /* not answered so far */
    DISCOVER_FOUND,   /* the answer named something usable */
    DISCOVER_ABSENT,  /* no such name, or no such records */
    DISCOVER_TIMEOUT, /* no answer in time */
    DISCOVER_FAILED,  /* the server reported an error or made no sense */
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

/* What the shell found; the arrays are borrowed for the call. */
struct discover_answer {
    uint64_t ticket; /* of the DISCOVER_OUT_RESOLVE */
    enum discover_outcome outcome;
    const struct discover_ip *ips; /* of a HOST */
    size_t ips_count;
    bool half; /* no server said whether it has IPv4 addresses, too */
    const struct discover_target *targets; /* of a SERVICE */
    size_t targets_count;
};

enum discover_out_kind {
    DISCOVER_OUT_RESOLVE, /* look up name, then call discover_answered() once */
    DISCOVER_OUT_HINT,    /* a node may be at address */
    DISCOVER_OUT_NEWS,    /* for the log: name's lookups now end in outcome */
};

/* Texts are valid until the next call. */
struct discover_out {
    enum discover_out_kind kind;
    enum discover_kind lookup;     /* RESOLVE, NEWS: HOST or SERVICE */
    enum discover_outcome outcome; /* NEWS */
    uint64_t ticket;               /* RESOLVE: never 0 */
    const char *name;              /* RESOLVE, NEWS */
    const char *address;           /* HINT: numeric HOST:PORT */
};

/* Counters since discover_init(), and present sizes. */
struct discover_stats {
    uint64_t lookups;                    /* lookups requested */
    uint64_t answers[DISCOVER_OUTCOMES]; /* by outcome */
    uint64_t lost;                       /* lookups that were never answered */
    uint64_t strays;                     /* answers without a question */
    uint64_t hints;                      /* given; repetitions count */
    uint64_t unusable;  /* addresses and targets where no node can be */
    uint64_t full;      /* addresses and targets without room */
    uint64_t forgotten; /* addresses and targets that were dropped */
    uint32_t names;     /* looked up at present: joins and targets */
    uint32_t addresses; /* known at present */
};

/* The inside. */
struct discover_name {
    struct discover_join what; /* kind 0: not in use */
    uint32_t parent;           /* whose answer named it; DISCOVER_NONE: a
                                  join */
    uint32_t missed;           /* good answers of the parent without it, in a
                                  row */
    uint64_t round;            /* the last answer that named it */
    enum discover_outcome outcome;
    bool wanted;      /* a RESOLVE waits to be pulled */
    bool news;        /* a NEWS waits to be pulled */
    uint64_t ticket;  /* of the lookup in progress; 0: none */
    uint64_t next_us; /* next lookup; during one: when it counts as lost */
};

struct discover_address {
    char text[DISCOVER_ADDRESS_MAX]; /* empty: not in use */
    uint32_t source; /* whose answer named it last; DISCOVER_NONE: the
                        configuration */
    uint32_t missed; /* good answers of the source without it, in a row */
    uint64_t round;  /* the last answer that named it */
    bool pending;    /* a HINT waits to be pulled */
};

/* An all-zero struct is not valid: discover_init() makes one. */
struct discover {
    struct discover_config config;
    struct rng rng;
    uint64_t now_us;   /* of the latest call; time never goes back */
    uint64_t tickets;  /* given so far */
    uint64_t round;    /* good answers so far */
    uint64_t fixed_us; /* when the configuration's addresses are hinted next */
    uint32_t alive;    /* members, this node included */
    uint32_t joins;    /* names[] that are joins */
    uint32_t name_at;  /* where discover_next_out() continues */
    uint32_t address_at;
    struct discover_stats stats;
    struct discover_name names[DISCOVER_NAMES_MAX];
    struct discover_address addresses[DISCOVER_ADDRESSES_MAX];
};

enum {
    DISCOVER_E_FULL = 1, /* one join too many */
};

/* Defaults: 5 s, 1 s alone, two members expected, 120 answers. */
struct discover_config discover_config_default(void);

/* Reads one join. NULL, or what was expected; *join is then undefined. */
const char *discover_parse(struct slice text, struct discover_join *join)
    MUST_CHECK;

/* The intervals of config must be at least 1. seed: of the jitter, which
 * shortens each interval by up to a fifth. */
void discover_init(struct discover *d, const struct discover_config *config,
                   uint64_t now_us, uint64_t seed);

/* Adds a place to look, and looks at once. Adding it again is harmless. 0 or
 * DISCOVER_E_FULL. */
int discover_add(struct discover *d, const struct discover_join *join,
                 uint64_t now_us) MUST_CHECK;

/* How many members are alive, this node included (1 at first). When some are
 * missing, waiting lookups are brought forward. */
void discover_members(struct discover *d, uint32_t alive, uint64_t now_us);

/* The result of a lookup. A result that was never asked for, or that was given
 * up, is counted and ignored. */
void discover_answered(struct discover *d, const struct discover_answer *answer,
                       uint64_t now_us);

/* Lets time pass up to now. */
void discover_tick(struct discover *d, uint64_t now_us);

/* When discover_tick() is due; UINT64_MAX: never. */
uint64_t discover_deadline(const struct discover *d);

/* The next output; false when there is none. */
bool discover_next_out(struct discover *d, struct discover_out *out) MUST_CHECK;

/* The counters since discover_init(), and the present sizes. */
void discover_stats(const struct discover *d, struct discover_stats *stats);

/* "found", "absent", "timeout", ...: for logs and metrics. Static text. */
const char *discover_outcome_name(enum discover_outcome outcome);

/* Writes an address as HOST:PORT into out (DISCOVER_ADDRESS_MAX bytes): IPv6 in
 * brackets, IPv4 within IPv6 as IPv4. False when no node can be reached there:
 * unspecified, multicast, broadcast, link-local IPv6 (it would need a zone),
 * port 0, a size other than 4 and 16 bytes. */
bool discover_format(const struct discover_ip *ip, uint16_t port, char *out)
    MUST_CHECK;

/* True if the name can be looked up; out (DISCOVER_NAME_MAX bytes) then holds
 * it in lower case. */
bool discover_name_read(struct slice text, char *out) MUST_CHECK;

/* Verifies each invariant; false and *reason (static text) when one is
 * broken. */
bool discover_check(const struct discover *d, const char **reason) MUST_CHECK;

#endif
