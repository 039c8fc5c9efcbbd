/*
 * Whether this node reads a worker's events, and what it says when it cannot.
 *
 * The cluster says who is to read (wanted). A node that is and has had no
 * connection to them for unable_ms says that it is unable: the others then read
 * in its place. The cluster never tries again by itself, so a node that is
 * unable keeps its source open, whose sockets go on trying at the pace that
 * they have anyway, and takes nothing of what it brings. Once the connection
 * has stood for able_ms (or at once, where the node is to read all the same,
 * because nobody can), it says that it is able.
 *
 * Steps that fail (the queue to the intake is full, out of memory) are tried
 * again at the next look. A source that took nothing for a while is not taken
 * from: it is closed and another one opened, which reads from the start.
 *
 * A node that slept knows nothing of what was reached meanwhile: its clocks
 * start anew.
 *
 * Grammar: after each call pull steps until there are none; OPEN and CLOSE are
 * answered by ingest_reach_opened() and ingest_reach_closed() before the next
 * pull. Looks come once a second or so.
 *
 * Role: core. Owns: nothing, a plain value; all zero is the start.
 * Thread: one owner. Limits: none. Errors: none.
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
    bool wanted; /* this node is to read */
    bool open;   /* there is a source */
    bool takes;  /* ... and what it brings is taken */
    bool unable; /* as was said last */
    bool failed; /* a step was, since the last look */
    enum ingest_reach_seen seen;
    uint64_t seen_us; /* ... since then */
    uint64_t looked_us;
};

/* The cluster says who is to read. */
void ingest_reach_want(struct ingest_reach *reach, bool on);

/* A look at the source; none that is open: NOT. */
void ingest_reach_look(struct ingest_reach *reach, enum ingest_reach_seen seen,
                       uint64_t now_us);

/* What is to be done, if anything. What is to be said counts as said. */
enum ingest_reach_step
ingest_reach_next(struct ingest_reach *reach,
                  const struct ingest_reach_config *config, uint64_t now_us);

/* How OPEN and CLOSE went: 0, or anything else where nothing was done. */
void ingest_reach_opened(struct ingest_reach *reach, int outcome);
/* How CLOSE went; the same. */
void ingest_reach_closed(struct ingest_reach *reach, int outcome);

#endif
