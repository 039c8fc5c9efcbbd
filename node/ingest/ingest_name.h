/*
 * Where a name in a worker's `events` or `replay` leads: of the addresses that a
 * lookup found, one that workers.deny does not deny.
 *
 * An address is kept as long as it works. While it does not, the name is looked
 * up again every so often, and the next of its addresses is tried, so that an
 * engine is found that moved, or that listens at one of several only. A lookup
 * that finds nothing leaves the last address in use, because it may still work;
 * one that finds only denied addresses ends its use.
 *
 * Role: core. Owns: nothing, a plain value; all zero: no name. Thread: one
 * owner. Limits: INGEST_ADDRESSES_MAX. Errors: states.
 */
#ifndef NODE_INGEST_NAME_H
#define NODE_INGEST_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "node/events/intake.h"
#include "node/text/ranges.h"

#define INGEST_ADDRESSES_MAX 16

enum ingest_name_state {
    INGEST_NAME_NONE,       /* there is no name: an address, or nothing */
    INGEST_NAME_NEW,        /* it was not looked up yet */
    INGEST_NAME_FOUND,      /* address is in use */
    INGEST_NAME_UNRESOLVED, /* the last lookup found nothing */
    INGEST_NAME_DENIED,     /* ... nothing that is allowed */
};

/* For logs and status: static, in lower case. */
const char *ingest_name_state_name(enum ingest_name_state state);

struct ingest_name {
    enum ingest_name_state state;
    bool works; /* as was last said */
    uint64_t
        due_us; /* the next lookup, unless it works; UINT64_MAX: one runs */
    char address[INTAKE_ADDRESS_SIZE]; /* where to connect; "": nowhere */
};

/* An address that was left out, and why. */
struct ingest_name_denied {
    char address[INTAKE_ADDRESS_SIZE];
    const struct range *range; /* of the ranges given; NULL: none was */
};

/* To be looked up at once. */
void ingest_name_init(struct ingest_name *name);

/* Whether a lookup is due; it counts as begun. works: the address in use does
 * what it should. */
bool ingest_name_due(struct ingest_name *name, bool works, uint64_t now_us);

/* A lookup's addresses in the resolver's order; none: it failed. again_us:
 * from now until the next one. True: name->address changed. *denied is the
 * first that was left out. */
bool ingest_name_take(struct ingest_name *name, const struct ranges *deny,
                      const struct sockaddr_storage *found, size_t count,
                      uint64_t now_us, uint64_t again_us,
                      struct ingest_name_denied *denied);

#endif
