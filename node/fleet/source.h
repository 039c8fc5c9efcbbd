/*
 * A source of workers: a DNS name, or a file, whose list of workers changes
 * while the node runs. This is the decision what becomes of each of them.
 *
 * The owner looks at the source again and again. A good answer is a list
 * (source_listed()). Then it goes through the workers of the list and through
 * those that the fleet has from this source, says how things stand
 * (struct source_there), and does what source_step() says. After an answer
 * that is none, nothing changes: the last list stays.
 *
 * A listed worker is put into the roster, unless it is there. One that is
 * there stays as it is until the list itself says something else of it: two
 * nodes whose configurations differ would replace it in turns otherwise. So the
 * first list after a start, and a changed one, decide.
 *
 * A worker that missed_max lists in a row leave out is drained, and removed
 * once no request runs there; if it is listed again before, its draining ends.
 * An operator's draining stays. All nodes of a mesh do this with one roster,
 * each by the lists that it got itself. It says which draining is a source's
 * (`left` of struct config_worker). A node ends that whose own lists left the
 * worker out and have it again, that is alone, or whose lists have had it for
 * SOURCE_PATIENCE looks: the one that began it may be gone, or may merely have
 * heard of it sooner. Where lists differ for long, a node
 * that never heard of a worker does not judge it, nor does one whose draining
 * another one ended: only one that has had it listed since, one that is alone,
 * and one for which it has not been well for SOURCE_UNWELL_US (whoever had it
 * listed may be gone).
 *
 * Role: core. Owns: the marks. Thread: one owner. Limits: WORKERS_MAX marks.
 * Errors: -ENOMEM.
 */
#ifndef NODE_SOURCE_H
#define NODE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/worker_set.h"
#include "node/config/config.h"

#define SOURCE_UNWELL_US UINT64_C(60000000)
#define SOURCE_PATIENCE  6U /* good looks */

/* What is known of one worker; see the rules above. */
struct source_mark {
    char id[CONFIG_LABEL_MAX];
    uint32_t missed; /* lists in a row without it */
    bool listed;     /* the last one has it */
    bool seen;       /* one had it */
    bool fresh;      /* it is new, or the list says something else of it */
    bool drained;    /* the last step was SOURCE_DRAIN */
    uint32_t waited; /* looks in a row that it is listed while it is left */
};

struct source {
    uint32_t missed_max;
    uint32_t marks_count;
    struct source_mark *marks; /* WORKERS_MAX, owned */
};

/* How a worker stands in the fleet. All false: it is not there. */
struct source_there {
    bool present;
    bool ours; /* this source named it */
    bool same; /* it is as the list says */
    bool left; /* a source had it drain */
    bool draining;
    bool drained; /* no request of this node runs there */
    bool unwell;  /* not healthy for SOURCE_UNWELL_US */
    bool alone;   /* no other node is alive */
};

enum source_step {
    SOURCE_KEEP,
    SOURCE_PUT,     /* it is not there */
    SOURCE_REPLACE, /* it is, in another form */
    SOURCE_RENEW,   /* the same, and an operator drains it: that goes on */
    SOURCE_DRAIN,
    SOURCE_UNDRAIN,
    SOURCE_REMOVE,
};

/* Without any list yet. missed_max: 1 or more. 0 or -ENOMEM. */
int source_init(struct source *source, uint32_t missed_max) MUST_CHECK;

/* Also of one that is all zero. */
void source_fini(struct source *source);

/*
 * A good answer came: that the workers in `before` were listed and now those in
 * `now` are. Both are borrowed for the call; counts are WORKERS_MAX at most.
 * whole: nobody was left out of it for want of room.
 */
void source_listed(struct source *source, const struct config_worker *before,
                   uint32_t before_count, const struct config_worker *now,
                   uint32_t now_count, bool whole);

/* What becomes of a worker. What it returns counts as done. */
enum source_step source_step(struct source *source, const char *id,
                             const struct source_there *there) MUST_CHECK;

/* Forgets those that are neither listed nor there: keep says of an id whether
 * it is there. */
void source_sweep(struct source *source,
                  bool (*keep)(const void *context, const char *id),
                  const void *context);

/*
 * The worker of that source at an address. host: numeric, IPv6 without
 * brackets. False: its id has no room.
 */
bool source_worker(const struct config_worker *source, const char *host,
                   uint16_t port, struct config_worker *worker) MUST_CHECK;

#endif
