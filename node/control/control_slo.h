/*
 * How the answers keep the SLO, and what each worker can do within it, for
 * operators.
 *
 * An answer is judged when it is whole: a stream of 200, from the moment its
 * request was whole, as its client sees it (but for the network).
 *
 * Role: core. Owns: nothing. Thread: control. Limits: none. Errors: none.
 */
#ifndef NODE_CONTROL_SLO_H
#define NODE_CONTROL_SLO_H

#include <stdint.h>

#include "index/base/buf.h"
#include "node/config/config.h"
#include "node/text/json_out.h"
#include "node/view/facts.h"
#include "node/view/fleet_view.h"
#include "node/view/speed.h"

/* All zero at first. */
struct control_slo {
    uint64_t met;
    uint64_t ttft_missed;
    uint64_t itl_missed; /* of these some missed both */
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

/* Takes a request's end, and judges it by the SLO of its model. Without one
 * nothing is counted. Returns how its first token was. */
enum control_slo_kept control_slo_take(struct control_slo *counts,
                                       const struct config_slo *config,
                                       const struct fact_decision *fact);

/* A worker's members of the status, inside its object. */
void control_slo_put_worker(const struct fleet_board *board, uint32_t slot,
                            struct json_out *json);

/* Prometheus text. */
void control_slo_put_metrics(const struct control_slo *counts,
                             const struct fleet_board *board, struct buf *out);

#endif
