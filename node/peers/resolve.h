/*
 * Carries out discovery's lookups (mesh/discover.h) with c-ares, on the loop.
 *
 * Hosts are looked up in /etc/hosts and from the servers and with the search
 * list of /etc/resolv.conf, in the order of /etc/nsswitch.conf; other sources
 * that this file may name are ignored. Both A and AAAA records are used; where
 * the latter come alone, A records are asked for once more, to know whether
 * there are none or the servers do not say (`half` in the answer). SRV
 * records come from DNS only. A truncated answer is requested again by TCP. If
 * the configuration names a server (`server`), only that server is asked, and
 * names are absolute.
 *
 * Each lookup has a c-ares channel of its own, because a channel reads the
 * system's files only when it is made, cannot cancel one of several lookups,
 * and sends all of them from one port. So a changed /etc/resolv.conf counts
 * from the next lookup on, and a lookup is ended by destroying its channel.
 * Nothing here blocks, except for reading those files.
 *
 * Role: shell. Owns: the lookups, their sockets and timers. Thread: the loop's.
 * Limits: RESOLVE_LOOKUPS_MAX at a time; of an answer the first
 * DISCOVER_IPS_MAX addresses or DISCOVER_TARGETS_MAX targets, the others are
 * left out. Errors: outcomes in the answer.
 */
#ifndef NODE_RESOLVE_H
#define NODE_RESOLVE_H

#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "mesh/mesh.h"
#include "node/text/url.h"

#define RESOLVE_LOOKUPS_MAX DISCOVER_NAMES_MAX

struct resolve;

struct resolve_config {
    uint32_t timeout_ms;      /* of a lookup as a whole; 1 or more */
    const struct url *server; /* an IP address and a port, borrowed for the
                                 call; NULL or port 0: the system's servers */
};

struct resolve_owner {
    void *context;
    /* Called once for each resolve_ask() that returned 0, never from within
     * it. The answer's arrays are borrowed for the call. May call
     * resolve_ask(), not resolve_free(). */
    void (*answered)(void *context, const struct discover_answer *answer);
};

enum {
    RESOLVE_E_FULL = 1, /* RESOLVE_LOOKUPS_MAX are running */
};

/* *out is the caller's, to resolve_free(). 0, or -ENOMEM. */
int resolve_new(struct resolve **out, uv_loop_t *loop,
                const struct resolve_config *config,
                const struct resolve_owner *owner) MUST_CHECK;

/* Begins the lookup of a DISCOVER_OUT_RESOLVE, whose texts are copied. The
 * outcome in the answer is DISCOVER_FOUND with at least one address or target;
 * DISCOVER_ABSENT when the name does not exist or has no such records;
 * DISCOVER_TIMEOUT when timeout_ms have passed or no server answered;
 * DISCOVER_FAILED when the servers refuse, fail or send nonsense. 0,
 * RESOLVE_E_FULL or -ENOMEM; unless 0, no answer follows. */
int resolve_ask(struct resolve *resolve, const struct discover_out *out)
    MUST_CHECK;

/* Cancels all lookups: no callback follows. The loop must run on until their
 * handles are closed, which takes no longer than one turn. NULL is fine. */
void resolve_free(struct resolve *resolve);

#endif
