/*
 * Whether this node reads a worker's events, and what it announces when it
 * cannot.
 *
 * The cluster says who should read (wanted). If this node should and has had no
 * connection to the events for unable_ms, it announces that it is unable, and
 * other nodes read in its place. The cluster never tries again by itself. So a
 * node that is unable keeps its source open, whose sockets go on trying at
 * their usual pace, and discards what the source delivers. Once the connection
 * has stood for able_ms, the node announces that it is able; at once if it
 * should read all the same, because no node can. Steps that fail (the queue to
 * the intake is full, out of memory) are tried again at the next look. A source
 * that was not taken from for a while is not resumed: it is closed and another
 * one opened, which reads from the start. A node that slept does not know what
 * was reachable meanwhile, so its clocks start again.
 *
 * Grammar: after each call pull steps until there are none; OPEN and CLOSE are
 * answered by ingest_reach_opened() and ingest_reach_closed() before the next
 * pull. Looks come about once a second.
 *
 * Role: core. Owns: nothing, a plain value; all zero is the start. Thread: one
 * owner. Limits: none. Errors: none.
 */
#ifndef NODE_INGEST_REACH_H
#define NODE_INGEST_REACH_H

#include <stdbool.h>
#include <stdint.h>

#define INGEST_REACH_SLEPT_US UINT64_C(5000000) /* between two looks */

struct ingest_reach_config {
    uint32_t unable_ms; /* without a connection */
    uint32_t able_ms;   /* with one */
};

enum ingest_reach_seen {
    INGEST_REACH_UNKNOWN, /* it cannot be said */
    INGEST_REACH_NOT,
    INGEST_REACH_REACHED, /* all of the worker's ranks */
};

enum ingest_reach_step {
    INGEST_REACH_NOTHING,
    INGEST_REACH_OPEN,
    INGEST_REACH_CLOSE,
    INGEST_REACH_SAY_UNABLE,
    INGEST_REACH_SAY_ABLE,
};

struct ingest_reach {
    bool wanted; /* this node should read */
    bool open;   /* there is a source */
    bool takes;  /* items from the source are taken */
    bool unable; /* as was said last */
    bool failed; /* a step was, since the last look */
    enum ingest_reach_seen seen;
    uint64_t seen_us; /* ... since then */
    uint64_t looked_us;
};

/* The cluster says whether this node should read. */
void ingest_reach_want(struct ingest_reach *reach, bool on);

/* A look at the source; none that is open: NOT. */
void ingest_reach_look(struct ingest_reach *reach, enum ingest_reach_seen seen,
                       uint64_t now_us);

/* The next step, if any. An announcement counts as made. */
enum ingest_reach_step
ingest_reach_next(struct ingest_reach *reach,
                  const struct ingest_reach_config *config, uint64_t now_us);

/* The result of OPEN: 0, or anything else if nothing was done. */
void ingest_reach_opened(struct ingest_reach *reach, int outcome);
/* The result of CLOSE; likewise. */
void ingest_reach_closed(struct ingest_reach *reach, int outcome);

#endif
