/*
 * What `kvasir status` shows: /admin/status as a page of 80 columns, with what
 * needs a look above the tables.
 *
 *   node-1 0.2.0 (2895cd801f2a): ready, up 2 h 14 min
 *
 *   mesh       kvasir: 3 of 3 nodes alive, 2 links up, in clear
 *   workers    4, of which 3 take requests
 *   ...
 *   look at
 *     10.0.0.4:8000 takes no requests: unhealthy (connect)
 *
 * What an older node does not tell is left out. Longer names than fit are cut
 * at the front in tables, and are whole in the lines to look at. Of more workers
 * or streams than STATUS_ROWS_MAX those that are well have rows together: a page
 * of 640 rows would hide what the lines to look at name.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: STATUS_LOOKS_MAX lines to
 * look at, the rest are counted; STATUS_ROWS_MAX rows of workers, of streams. Errors: a named outcome; text from a node
 * comes out as printable ASCII.
 */
#ifndef NODE_STATUS_INTERNAL_H
#define NODE_STATUS_INTERNAL_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/text/json_tree.h"

#define STATUS_LOOKS_MAX 16U
#define STATUS_ROWS_MAX  32U

enum {
    STATUS_E_BAD = 1, /* no status of a node */
};

/* Appends the page to out. 0 (look at out->failed, too), or STATUS_E_BAD and
 * out is unchanged. */
int status_show(struct slice json, struct buf *out) MUST_CHECK;

/* Reading: what is missing, or of another kind, is 0, false or "". */

double status_number(const struct json_value *object, const char *key);
bool status_flag(const struct json_value *object, const char *key);
struct slice status_text(const struct json_value *object, const char *key);

/* The items of a list, and how many. */
const struct json_value *status_list(const struct json_value *object,
                                     const char *key, uint32_t *count);

/* Text of the node's, as printable ASCII. */
void status_put(struct buf *out, struct slice text);

/* An age, a number of bytes: "2 h 14 min", "12.0 MiB". */
void status_put_age(struct buf *out, double seconds);
void status_put_bytes(struct buf *out, double bytes);

/* A cell of a table and a blank; a name that is too long loses its front. */
void status_put_cell(struct buf *out, struct slice text, size_t width);

/* The workers, and how the nodes of a mesh come by each engine's events. Of more
 * than STATUS_ROWS_MAX those that are well come first, in a row for all workers
 * whose state and events are the same, for all streams with the same readers. */
void status_put_workers(struct buf *out, const struct json_value *root);
void status_put_streams(struct buf *out, const struct json_value *root);

/* The lines to look at, with their heading; nothing if all is well. */
void status_put_looks(struct buf *out, const struct json_value *root);

#endif
