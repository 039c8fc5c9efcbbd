/*
 * What a plan prints: a table of one screen, JSON, a picture as SVG.
 *
 * Role: core. Owns: nothing. Thread: any. Errors: none; a buffer that is full
 * says so itself.
 */
#ifndef CHAOS_PLAN_REPORT_H
#define CHAOS_PLAN_REPORT_H

#include "chaos/plan/plan.h"
#include "index/base/buf.h"
#include "node/node.h"

/* name: of the trace or CDF. */
void plan_report_table(const struct plan *plan, const char *name,
                       struct buf *out);

/* One object with everything of the plan. */
void plan_report_json(const struct plan *plan, const char *name,
                      struct buf *out);

/* Over the thresholds: requests up to there, engines, what two pools save. */
void plan_report_svg(const struct plan *plan, const char *name,
                     struct buf *out);

/* A number as a value of a JSON document: three digits behind the point; null
 * when it is not finite. */
void plan_json_number(struct json_out *json, const char *key, double number);

#endif
