/*
 * Carries out discovery's lookups (mesh/discover.h) without ever blocking its
 * loop.
 *
 * A and AAAA records of a host come from getaddrinfo(), so that /etc/hosts,
 * the search list and whatever else the system is set up to ask counts; SRV
 * records from libresolv, which reads /etc/resolv.conf afresh each time, asks
 * again by TCP when an answer was cut, and knows the search list too. Both
 * block, and run on libuv's threads, RESOLVE_RUNNING_MAX of them at most, since
 * workers' names are looked up there too; the others wait in order. A name that
 * hangs keeps one thread at most.
 *
 * With a server of our own (`server`), everything is asked of that one alone by
 * libresolv, and names are taken as absolute.
 *
 * A lookup that is not done within timeout_ms after it was asked for, its wait
 * included, is answered with DISCOVER_TIMEOUT, and what comes later is dropped.
 * A call that runs cannot be interrupted: after resolve_free() the loop has to
 * run on until the last one ended: with libresolv after two tries of each server
 * for each record type, 2 s each where timeout_ms is 10,000 and 1 s where it is
 * short; with getaddrinfo() as /etc/resolv.conf says (usually 10 s).
 *
 * Role: shell. Owns: its timer and the lookups. Thread: the loop's.
 * Limits: RESOLVE_WAITING_MAX lookups, struct resolve_found for each answer.
 * Errors: outcomes in the answer. A server that refuses, or fails, may read as
 * a timeout: libresolv goes on to the next one, and there is none.
 */
#ifndef NODE_RESOLVE_H
#define NODE_RESOLVE_H

#include <netinet/in.h>
#include <stdint.h>
#include <uv.h>

#include "index/base/check.h"
#include "mesh/mesh.h"

#define RESOLVE_RUNNING_MAX 2U
#define RESOLVE_WAITING_MAX DISCOVER_NAMES_MAX

struct resolve;

struct resolve_config {
    uint32_t timeout_ms;       /* 1 or more; 10,000 is a good one */
    struct sockaddr_in server; /* port 0: those of the system */
};

struct resolve_owner {
    void *context;
    /* Once for each resolve_ask() that returned 0, never from within it; to be
     * handed to discover_answered(). May ask for more. */
    void (*answered)(void *context, const struct discover_answer *answer);
};

enum {
    RESOLVE_E_FULL = 1, /* too many wait; nothing was begun */
};

/* Since resolve_new(), and levels of now. */
struct resolve_stats {
    uint64_t asked;
    uint64_t timeouts;
    uint64_t late; /* ended after they were answered with a timeout */
    uint32_t running;
    uint32_t waiting;
};

/* 0, or -ENOMEM. */
int resolve_new(struct resolve **out, uv_loop_t *loop,
                const struct resolve_config *config,
                const struct resolve_owner *owner) MUST_CHECK;

/* Begins what a DISCOVER_OUT_RESOLVE asks for; its texts are copied. 0 or
 * RESOLVE_E_FULL. */
int resolve_ask(struct resolve *resolve, const struct discover_out *out)
    MUST_CHECK;

void resolve_stats(const struct resolve *resolve, struct resolve_stats *stats);

/* No callback follows. The loop must run on until its handles are closed. Not
 * from within `answered`. NULL is fine. */
void resolve_free(struct resolve *resolve);

#endif
