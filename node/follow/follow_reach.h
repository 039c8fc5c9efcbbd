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
 * answered by follow_reach_opened() and follow_reach_closed() before the next
 * pull. Looks come once a second or so.
 *
 * Role: core. Owns: nothing, a plain value; all zero is the start.
 * Thread: one owner. Limits: none. Errors: none.
 */
#ifndef NODE_FOLLOW_REACH_H
#define NODE_FOLLOW_REACH_H

#include <stdbool.h>
#include <stdint.h>

#define FOLLOW_REACH_SLEPT_US UINT64_C(5000000) /* between two looks */

struct follow_reach_config {
    uint32_t unable_ms; /* without a connection */
    uint32_t able_ms;   /* with one */
};

enum follow_reach_seen {
    FOLLOW_REACH_UNKNOWN, /* it cannot be said */
    FOLLOW_REACH_NOT,
    FOLLOW_REACH_REACHED, /* all of the worker's ranks */
};

enum follow_reach_step {
    FOLLOW_REACH_NOTHING,
    FOLLOW_REACH_OPEN,
    FOLLOW_REACH_CLOSE,
    FOLLOW_REACH_SAY_UNABLE,
    FOLLOW_REACH_SAY_ABLE,
};

struct follow_reach {
    bool wanted; /* this node is to read */
    bool open;   /* there is a source */
    bool takes;  /* ... and what it brings is taken */
    bool unable; /* as was said last */
    bool failed; /* a step was, since the last look */
    enum follow_reach_seen seen;
    uint64_t seen_us; /* ... since then */
    uint64_t looked_us;
};

/* The cluster's word. */
void follow_reach_want(struct follow_reach *reach, bool on);

/* A look at the source; none that is open: NOT. */
void follow_reach_look(struct follow_reach *reach, enum follow_reach_seen seen,
                       uint64_t now_us);

/* What is to be done, if anything. What is to be said counts as said. */
enum follow_reach_step
follow_reach_next(struct follow_reach *reach,
                  const struct follow_reach_config *config, uint64_t now_us);

/* How OPEN and CLOSE went: 0, or anything else where nothing was done. */
void follow_reach_opened(struct follow_reach *reach, int outcome);
void follow_reach_closed(struct follow_reach *reach, int outcome);

#endif
