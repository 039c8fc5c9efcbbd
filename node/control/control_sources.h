/*
 * Workers that are named while the node runs: by DNS names, files, and
 * EndpointSlices of Kubernetes (`from` of the workers in the configuration).
 *
 * Each source is looked at every workers.resolve: a name is looked up on the
 * loop (node/peers/resolve.h), a file is read. A file is also read as soon as
 * the system says that it changed in its folder, a moment after the notice, so
 * that whoever writes it has come to an end; so a file that is replaced, or
 * that a link leads to (as Kubernetes mounts them), is seen, too. What becomes
 * of the workers is in node/fleet/source.h; they go through the roster, so all
 * nodes have them.
 *
 * Slices are listed by the API server. A watch from there on says when to list
 * again, and has the next looks ask nothing. Where it ends in time, it goes on
 * where it was; where it cannot, the next look lists. So all that is ever used
 * is a whole list, and a change that a watch misses is in the next one.
 *
 * An answer is good when the name, and each target of an SRV name, was looked
 * up, and an address was found; when the file has no fault; and when the list
 * has an endpoint that is ready. Others change nothing, and one line in the log
 * says why: a name without addresses, too, for it is rather DNS that is wrong
 * than all engines that are gone, and health checks find these. Where a name has
 * IPv4 and IPv6 addresses, only the former count: one engine is not to be two
 * workers.
 *
 * Role: shell. Owns: its timer, lookups, notices, and what each source listed.
 * Thread: control. Limits: CONFIG_SOURCES_MAX sources, WORKERS_MAX workers of
 * each, the bounds of node/peers/resolve.h for each name; where an answer is
 * cut by them, nobody is missing. Errors: -ENOMEM.
 */
#ifndef NODE_CONTROL_SOURCES_H
#define NODE_CONTROL_SOURCES_H

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/role.h"
#include "node/config/config.h"
#include "node/text/json_out.h"

struct control;
struct control_sources;

/* The sources of the configuration, looked at from the loop. After
 * control_roster_open(). The caller's to control_sources_close(). 0 or
 * -ENOMEM. */
int control_sources_open(struct control *control) MUST_CHECK ON_CONTROL;

/* Nothing is looked at any more; handles close on the loop. NULL inside control
 * is fine. */
void control_sources_close(struct control *control) ON_CONTROL;

/* Another configuration: the workers of a source that it lacks are removed, the
 * other sources are looked at now. */
void control_sources_reload(struct control *control,
                            const struct config *config) ON_CONTROL;

/* An array of the sources, for the status. */
void control_sources_put(const struct control *control, struct json_out *json);

/* Prometheus text. */
void control_sources_put_metrics(const struct control *control,
                                 struct buf *out);

#endif
