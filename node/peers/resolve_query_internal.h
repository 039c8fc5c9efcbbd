/*
 * One lookup, carried out by whoever may block.
 *
 * Role: shell. Owns: nothing. Thread: any, one at a time. Limits and errors:
 * see resolve.h.
 */
#ifndef NODE_RESOLVE_QUERY_INTERNAL_H
#define NODE_RESOLVE_QUERY_INTERNAL_H

#include <netdb.h>

#include "node/peers/resolve.h"
#include "node/peers/resolve_read_internal.h"

struct resolve_query {
    enum discover_kind kind;
    char name[DISCOVER_NAME_MAX];
    struct sockaddr_in server; /* port 0: those of the system */
    int try_s;                 /* of two, for each server */
    enum discover_outcome outcome;
    struct resolve_found found;
    uint8_t message[65536]; /* the answer of a server */
};

void resolve_query_init(struct resolve_query *query, enum discover_kind kind,
                        const char *name, const struct resolve_config *config);

/* Asks by libresolv; blocks for two tries of each server. */
void resolve_query_run(struct resolve_query *query);

/* Takes what getaddrinfo() came to; list may be NULL. */
void resolve_query_take(struct resolve_query *query, int status,
                        const struct addrinfo *list);

#endif
