/*
 * How the answers keep the SLO, and what each worker can do within it, for
 * operators.
 *
 * An answer is judged when it is whole: a stream of 200, from the moment its
 * request was whole, as its client sees it (but for the network).
 *
 * Role: core. Owns: nothing. Thread: control. Limits: CONTROL_SLO_MODELS, the
 * rest are counted together. Errors: none.
 */
#ifndef NODE_CONTROL_SLO_H
#define NODE_CONTROL_SLO_H

#include <stdint.h>

#include "index/base/buf.h"
#include "node/base/histogram.h"
#include "node/config/config.h"
#include "node/text/json_out.h"
#include "node/view/facts.h"
#include "node/view/fleet_view.h"
#include "node/view/speed.h"

#define CONTROL_SLO_MODELS 16U /* with a row of their own; the rest are one */

/* What an answer was to its SLO. */
enum control_slo_outcome {
    CONTROL_SLO_MET,
    CONTROL_SLO_TTFT_MISSED, /* it began after slo.ttft */
    CONTROL_SLO_ITL_MISSED,  /* its tokens were further apart than slo.itl */
    CONTROL_SLO_BOTH_MISSED,
    CONTROL_SLO_OUTCOMES,
};

/* Of one model, or of all without a row. */
struct control_slo_model {
    char name[FACT_MODEL_MAX];
    uint64_t streams[CONTROL_SLO_OUTCOMES];
    struct histogram ttft; /* of all whole streams, whether there is an SLO or
                              not */
    struct histogram itl;  /* the same: the mean of each */
};

/* All zero at first. The first models that streams are of get a row. */
struct control_slo {
    uint32_t count;
    struct control_slo_model model[CONTROL_SLO_MODELS + 1]; /* last: the rest */
};

/* The SLO of each present worker, into an array of WORKERS_MAX by slot: the
 * stricter times of the models that it lists. */
void control_slo_list(const struct config_slo *config,
                      const struct fleet_view *view, struct speed_slo *slo);

/* How a request's first token was judged. */
enum control_slo_kept {
    CONTROL_SLO_NOT_JUDGED, /* no slo.ttft, or no whole stream */
    CONTROL_SLO_IN_TIME,
    CONTROL_SLO_LATE,
};

/* Takes a request's end: if it is a whole stream, its times, and how they are
 * by the SLO of its model, if it has one. Returns how its first token was. */
enum control_slo_kept control_slo_take(struct control_slo *counts,
                                       const struct config_slo *config,
                                       const struct fact_decision *fact);

/* A worker's members of the status, inside its object. */
void control_slo_put_worker(const struct fleet_board *board, uint32_t slot,
                            struct json_out *json);

/* Prometheus text. */
void control_slo_put_metrics(const struct control_slo *counts, struct buf *out);

#endif
