/*
 * What inquiry.c and inquiry_local.c share: one question for a request's
 * tokens, to an engine or to a thread of this node.
 *
 * Role: shell, private to node/edge. Thread: the lane's.
 */
#ifndef NODE_INQUIRY_INTERNAL_H
#define NODE_INQUIRY_INTERNAL_H

#include "node/edge/edge_internal.h"
#include "node/local/local_tokens.h"

struct inquiry_ours; /* this node's tokens beside: inquiry_differ.c */
struct inquiry_job;  /* of a thread: inquiry_local.c */

/* One question under way, and what its answer is remembered by. */
struct inquiry {
    struct lane *lane;
    struct exchange *x;              /* NULL: it waits no longer */
    struct token_question *question; /* to an engine */
    struct inquiry_job *job;         /* NULL: it is to an engine */
    struct inquiry_ours *ours;       /* or NULL */
    struct inquiry *next;            /* all of a lane's */
    struct inquiry **prev;
    uint64_t root;
    uint64_t asked_us;
    uint32_t grains[MIRROR_GROUPS_MAX];
    uint32_t grains_count;
    struct conversation conversation;
};

/* A question about the request in the lane's scratch, not yet entered; NULL: no
 * memory. */
struct inquiry *inquiry_new(struct lane *lane, const struct route_world *world,
                            uint64_t root) ON_LANE;

/* The grains that tokens are split by. */
uint32_t inquiry_grains(const struct mirror_view *view,
                        uint32_t grains[MIRROR_GROUPS_MAX]);

/* It is under way. */
void inquiry_enter(struct inquiry *inquiry) ON_LANE;

/* Its answer: remembered, and told to whoever waits. Frees it. */
void inquiry_answer(struct inquiry *inquiry, const struct token_answer *answer)
    ON_LANE;

/* Nobody hears of it any more. Frees it. */
void inquiry_drop(struct inquiry *inquiry) ON_LANE;

/* inquiry_local.c */

/* How a request's tokens are to be had. */
struct inquiry_source {
    struct local_model *model; /* NULL: engines are asked */
    enum engine_kind kind;     /* of the engines that may get it */
    uint64_t name_root;        /* that its conversation is named under */
};

/* Finds it for the request in the lane's scratch, under that root; the lane is
 * online in the qsbr. */
void inquiry_find_source(struct exchange *x, const struct route_world *world,
                         uint64_t root, struct inquiry_source *source) ON_LANE;

enum inquiry_local_outcome {
    INQUIRY_DONE,    /* the cache has them now */
    INQUIRY_WAITS,   /* x->inquiry: a thread makes them */
    INQUIRY_FULL,    /* too many do already */
    INQUIRY_REFUSED, /* not to be had here */
};

/* Makes the tokens of x, whose conversation the scratch has named. */
enum inquiry_local_outcome inquiry_local(struct exchange *x,
                                         const struct route_world *world,
                                         const struct inquiry_source *source,
                                         uint64_t root) ON_LANE;

/* The question about x that inquiry_local() answers. False: the scan has no such
 * prompt. */
bool inquiry_make_question(struct exchange *x,
                           const struct inquiry_source *source,
                           struct local_question *question) ON_LANE;

/* inquiry_differ.c */

/* An engine is asked about x, because the way of the lane's last local answer
 * was switched off: makes the tokens here, too, if their first difference was
 * not shown yet. */
void inquiry_differ_begin(struct exchange *x,
                          const struct inquiry_source *source) ON_LANE;

/* The engine's answer (NULL: there is none): shows the difference. */
void inquiry_differ_end(struct inquiry *inquiry,
                        const struct token_answer *theirs) ON_LANE;

/* Stops a job that has not begun; what runs goes on. */
void inquiry_cancel_job(struct inquiry_job *job) ON_LANE;

#endif
