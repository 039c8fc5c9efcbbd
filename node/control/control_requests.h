/*
 * The request log (log.requests): a line at the end of a request, of what a
 * lane told (struct fact_request). Never of a prompt or an answer.
 *
 * Role: shell, for it writes the log. Owns: nothing. Thread: control. Limits:
 * those of a line (log.h). Errors: none; a line that nobody reads is lost, and
 * counted as other lines are.
 */
#ifndef NODE_CONTROL_REQUESTS_H
#define NODE_CONTROL_REQUESTS_H

#include "index/base/role.h"
#include "node/control/control.h"
#include "node/view/facts.h"

/* Writes the line. fact is borrowed for the call. */
void control_log_request(const struct control *control,
                         const struct fact_request *fact) ON_CONTROL;

#endif
