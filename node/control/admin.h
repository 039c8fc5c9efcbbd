/*
 * The admin port: what the node knows and does, as JSON and as metrics.
 *
 * Every answer but /metrics, /admin/live and the page is JSON, every list sorted
 * and stable.
 *
 * Role: shell. Owns: nothing. Thread: control.
 * Limits: answers up to ADMIN_BYTES_MAX. Errors: HTTP statuses.
 */
#ifndef NODE_ADMIN_H
#define NODE_ADMIN_H

#include "index/base/buf.h"
#include "index/base/role.h"
#include "node/control/control.h"
#include "node/text/json_out.h"

#define ADMIN_BYTES_MAX ((size_t)16 << 20)
#define ADMIN_FAULT_MAX 512 /* an error, and its NUL */

/* Opens the ports of admin and admin.metrics; control_stop() closes them. 0; or
 * -errno, and one line in the log says why. */
int admin_open(struct control *control) ON_CONTROL MUST_CHECK;

/* Certificates were read: new connections get them. */
void admin_use_tls(struct control *control) ON_CONTROL;

/* /admin/status */
void admin_put_status(struct control *control, struct json_out *json)
    ON_CONTROL;

/* How requests ended until now goes to the last 15 minutes of /admin/live. To be
 * called each second or so. */
void admin_count_ends(struct control *control, uint64_t now_us) ON_CONTROL;

/* /admin/workers */
void admin_put_workers(struct control *control, struct json_out *json)
    ON_CONTROL;

/* /admin/index */
void admin_put_index(struct control *control, struct json_out *json) ON_CONTROL;

/* /admin/scale */
void admin_put_scale(struct control *control, struct json_out *json) ON_CONTROL;

/* For a worker: its event streams. For the index: the mirror, the ledger, and
 * the expected blocks. Metrics of both. */
void admin_put_streams(struct control *control, struct json_out *json,
                       uint32_t worker) ON_CONTROL;
/* All streams, a short flat row for each. */
void admin_put_stream_rows(struct control *control, struct json_out *json)
    ON_CONTROL;
/* For the index: the mirror, the ledger, and the expected blocks. */
void admin_put_mirror(struct control *control, struct json_out *json)
    ON_CONTROL;
/* Metrics of streams, the mirror and the ledger. */
void admin_put_event_metrics(struct control *control, struct buf *out)
    ON_CONTROL;

/* /admin/decisions/ID: the newest of that id, and its election's columns if they
 * are kept. False: it is not known. */
bool admin_put_decision(struct control *control, struct json_out *json,
                        struct slice id) ON_CONTROL;

/* /admin/decisions: at most `count`, newest first. */
void admin_put_decisions(struct control *control, struct json_out *json,
                         uint32_t count) ON_CONTROL;

/* /admin/mix: how long requests were, and how many came; as kvasir plan reads
 * it. Metrics of the same. */
void admin_put_mix(struct control *control, struct json_out *json) ON_CONTROL;
void admin_put_mix_metrics(const struct control *control, struct buf *out);

/* The value of ?NAME=VALUE, empty without a query. False: the query is another. */
bool admin_query(const struct http_head *head, struct slice name,
                 struct slice *value) MUST_CHECK;

/* /admin/explain: answers, now or later, where the request in the body would
 * go, and why. */
void admin_explain(struct control *control, struct httpd_request *request)
    ON_CONTROL;

/* An httpd handler: a client went away before its answer. */
void admin_gone(void *context, struct httpd_request *request);

/* Answers with what was written; if it exceeded its bound, with an error,
 * because half an answer is useless. */
void admin_answer(struct httpd_request *request, const char *content_type,
                  const struct buf *body);

/* POST /admin/workers: adds the worker that body describes, or renews it. 0, or
 * the status of an error with *fault. id: the worker's, as far as it was read.
 * *ttl_ms: for how long, or 0. */
unsigned admin_add_worker(struct control *control, struct slice body,
                          char id[CONFIG_LABEL_MAX], uint32_t *ttl_ms,
                          char fault[ADMIN_FAULT_MAX]) ON_CONTROL;

/* Metrics of the process, named as everywhere. */
void admin_put_process_metrics(const struct control *control, struct buf *out);

/* /metrics: Prometheus text. */
void admin_put_metrics(struct control *control, struct buf *out) ON_CONTROL;

#endif
