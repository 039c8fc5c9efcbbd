/*
 * The inside of the mirror writer: its streams. The essay is at the head of
 * mirror_writer.h.
 */
#ifndef NODE_MIRROR_WRITER_INTERNAL_H
#define NODE_MIRROR_WRITER_INTERNAL_H

#include "index/base/check.h"
#include "node/ingest/mirror_writer.h"

struct mirror_writer_stream {
    struct mirror_writer_id id;
    enum kv_stream_state state;
    bool has_epoch; /* one began: records are taken */
    bool in_step;   /* LIVE or PARTIAL was seen in this epoch: a replay from
                       here on fills a gap */
    bool used;      /* something was applied to the slot */
    bool lost;      /* records were left out in this epoch */
    bool deaf;      /* it takes no more records until it is read again */
    bool contested;
    bool left_out;
    bool cleared; /* by order, of which its records do not tell yet */
    uint64_t epoch;
    uint64_t seq;
    uint32_t holes;
    uint32_t block_tokens; /* 0: not known yet */
    uint32_t shape;        /* index/shape.h, with as many tokens */
    uint32_t slot;         /* of the mirror, or WORKER_NONE */
    uint32_t rereads;      /* requests in a row because something was lost */
    uint64_t reread_due_us;
    bool sized; /* the shape is of this epoch, not just a guess by the last
                   one or by another rank */
    struct accuracy accuracy;
};

struct mirror_writer_worker {
    uint32_t generation;
    uint32_t ranks; /* 0: the slot is free */
    struct mirror_writer_stream *stream;
};

struct mirror_writer {
    struct mirror_writer_limits limits;
    struct mirror *mirror;
    struct qsbr *qsbr;
    struct publish *publish;
    struct mirror_view *view;  /* the published one */
    struct worker_set shown;   /* slots that it has */
    struct worker_set closing; /* those of them to be closed after the next
                                  view */
    bool changed;              /* the view may be outdated */
    uint64_t now_us;           /* of the last call, 0: none yet */
    uint32_t grains_count;
    uint32_t grains[MIRROR_GROUPS_MAX]; /* of the view's groups */
    uint32_t streams_count;
    struct mirror_writer_stream **streams; /* by worker and rank */
    struct mirror_writer_stats stats;      /* counters alone */
    struct mirror_writer_worker worker[WORKERS_MAX];
};

/* How far a stream is trusted, in thousandths. */
uint32_t mirror_writer_stream_trust(const struct mirror_writer *writer,
                                    const struct mirror_writer_stream *stream);

/* Whether lanes may see the stream, apart from grains. */
bool mirror_writer_stream_fit(const struct mirror_writer_stream *stream);

/* Whether lanes see the stream. */
static inline bool
mirror_writer_stream_in_view(const struct mirror_writer_stream *stream)
{
    return mirror_writer_stream_fit(stream) && !stream->left_out;
}

/* Takes a slot for a stream that has an epoch and none; false: none is free. */
bool mirror_writer_stream_open(struct mirror_writer *writer,
                               struct mirror_writer_stream *stream);

/* Gives its slot back, if it has one: now, or once it is out of the view. */
void mirror_writer_stream_close(struct mirror_writer *writer,
                                struct mirror_writer_stream *stream);

/* An empty view, version 1; NULL: no memory. */
struct mirror_view *mirror_writer_view_new(void);

/* Retires the published view. */
void mirror_writer_view_retire(struct mirror_writer *writer);

/* Publishes the present state if it differs from the published one. False: no
 * memory, nothing changed. */
bool mirror_writer_view_renew(struct mirror_writer *writer) MUST_CHECK;

#endif
