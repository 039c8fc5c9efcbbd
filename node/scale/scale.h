/*
 * How many engines a group should have. A group is the engines that serve a
 * model in common, or models that go together.
 *
 * Each look turns what is measured into engines that are needed, in
 * thousandths; the greatest of these counts:
 *
 *   requests  in flight and waiting, by what one engine can have in flight (its
 *             limit, or what it keeps slo.itl with), at `target` of that
 *   queue     while more requests wait than there are engines: the present
 *             engines, times what is asked of them by what they run. This is
 *             known without a limit. Fewer may just have come
 *   kv        the present engines, times their caches' share in use by
 *             SCALE_KV_FULL: engines that are full interrupt requests
 *   slo       one more than there are, when more than SCALE_LATE of the first
 *             tokens came after slo.ttft, and at least SCALE_LATE_LEAST did: of
 *             the last `provision`, and since the engines are as many as they
 *             are. A cold prompt or two are late in any fleet
 *   wait      one more, while the request that waits longest in front of them
 *             has waited half as long as it may: until slo.ttft it would be
 *             late, until timeouts.queue refused. Late first tokens and
 *             refusals tell afterwards; and where few requests are long ones,
 *             few wait
 *   shed      one more, when requests were refused for want of room while these
 *             engines were full
 *   trend     what the line through the last SCALE_SAMPLES looks says of
 *             requests, queue and kv for the time in which an engine that is
 *             asked for now would come; twice the present need at most. There
 *             is none before there were so many, and its slope is less by
 *             SCALE_SURE times its standard error: a load that swings about a
 *             number rises steeply now and then, by chance
 *
 * How much is found in caches is no signal. A new engine has an empty cache, so
 * a rule that adds one for a low hit ratio lowers it further.
 *
 * More than there are: that many are wanted, `step` more at most, and then no
 * more until `provision` has passed: those that come are counted before others
 * are asked for. Fewer: one fewer is wanted once the need has been below
 * SCALE_SPARE of what that many can do for the whole of `cool_down`, and as
 * long after any change. Nobody goes while one is ill, or while requests run
 * and neither a limit nor the caches say how much that is. Between the two
 * nothing changes, so a load that swings about one number moves nothing.
 *
 * `min` and `max` bound each group; `room` what may be bought, where that is
 * and what it costs (scale_pool.h). Engines that are above it stay: nothing is
 * taken away while it is needed.
 *
 * Which engine goes: the dearest of those that hold little more in their caches
 * than the one that holds least (SCALE_NEAR of what the fullest one holds); of
 * equals that which holds least, then the one with the fewest requests, then
 * the last by id.
 *
 * Role: core. Owns: nothing. Thread: one owner per group. Limits:
 * SCALE_SAMPLES. Errors: none. Time is an argument, in us, and never goes back.
 */
#ifndef NODE_SCALE_H
#define NODE_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SCALE_SAMPLES    32U
#define SCALE_SURE       3    /* standard errors of a slope */
#define SCALE_KV_FULL    900U /* permille */
#define SCALE_LATE       10U  /* permille of first tokens */
#define SCALE_LATE_LEAST 5U   /* first tokens */
#define SCALE_SPARE      850U /* permille of what fewer engines can do */
#define SCALE_NEED_MAX   UINT32_C(1000000) /* thousandths of an engine */
#define SCALE_NEAR       100U              /* permille */
#define SCALE_ANY_ROOM   UINT32_MAX

struct scale_config {
    uint32_t min; /* engines of a group */
    uint32_t max;
    uint32_t target_permille; /* of what an engine can have in flight; not 0 */
    uint32_t step;            /* engines asked for at one time */
    uint32_t provision_ms; /* from asking for an engine to its first answer */
    uint32_t cool_down_ms; /* before one is taken away */
};

/* What is measured of a group, now. */
struct scale_signals {
    uint32_t engines;   /* that are there, or come; without those that drain */
    uint32_t ready;     /* of these, that take requests */
    uint32_t requests;  /* in flight at them, those in their queues included */
    uint32_t waiting;   /* of these, in their queues */
    uint32_t queued;    /* in front of them, for want of room */
    uint32_t waited_ms; /* the one of these that came first; 0: there is none */
    uint32_t wait_most_ms; /* that one may wait; 0: for ever */
    uint32_t
        capacity; /* requests in flight that one is good for; 0: not known */
    uint32_t kv_permille; /* mean share of the caches in use */
    uint32_t answers;     /* whose first token was judged since the last look */
    uint32_t late;        /* of these, after slo.ttft */
    uint32_t shed;        /* refused since the last look for want of room */
    uint32_t room;        /* engines that may be bought, now */
    bool poor;            /* the budget allows no more than that */
};

/* What decided; names by scale_why_name(). */
enum scale_why {
    SCALE_FITS,    /* as many as there are */
    SCALE_UNKNOWN, /* no engine takes requests, so nothing is measured */
    SCALE_REQUESTS,
    SCALE_QUEUE,
    SCALE_KV,
    SCALE_SLO,
    SCALE_WAIT,
    SCALE_SHED,
    SCALE_TREND_UP,
    SCALE_LEAST,  /* min */
    SCALE_MOST,   /* more are needed than max allows */
    SCALE_BUDGET, /* more are needed than the budget allows */
    SCALE_ROOM,   /* more are needed than the pools have */
    SCALE_COMING, /* more are needed, and those asked for have time yet */
    SCALE_IDLE,   /* one fewer is enough */
    SCALE_COOLS,  /* one fewer is enough, but not for long enough */
    SCALE_WHYS,   /* how many there are */
};

/* "fits", "requests", ...: static text. */
const char *scale_why_name(enum scale_why why);

/* All zero at first. */
struct scale_group {
    struct scale_sample {
        uint64_t at_us;
        uint32_t need_milli;
        uint32_t answers;
        uint32_t late;
    } sample[SCALE_SAMPLES]; /* a ring */
    uint32_t samples;
    uint32_t next;
    uint32_t engines;        /* at the last look */
    uint64_t spare_since_us; /* since when one fewer is enough; 0: it is not */
    uint64_t changed_us;     /* when they were last more or fewer; 0: never */
    uint64_t asked_us;       /* when more were last asked for; 0: never */
    bool kv_seen;            /* engines tell of their caches */
    uint32_t asked;          /* for how many in all, then */
};

struct scale_choice {
    uint32_t need_milli; /* engines, thousandths, now */
    uint32_t soon_milli; /* the same as the trend has it */
    uint32_t desired;    /* engines */
    enum scale_why why;
};

/* Looks at a group: at even intervals. What is to be done about the choice is
 * the caller's; the next look finds out whether it was done. */
void scale_look(struct scale_group *group, const struct scale_config *config,
                const struct scale_signals *signals, uint64_t now_us,
                struct scale_choice *choice);

/* An engine that may go. */
struct scale_engine {
    const char *id;
    uint64_t blocks; /* in its cache */
    uint32_t requests;
    uint32_t price_milli;
};

/* The position of the one that goes; count is not 0. */
size_t scale_victim(const struct scale_engine *engines, size_t count);

#endif
