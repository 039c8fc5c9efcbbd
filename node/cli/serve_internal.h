/*
 * `kvasir serve`: a node from its configuration to its exit code.
 *
 * Role: shell. Owns: everything while it runs. Thread: main, which becomes the
 * control thread. Limits: the configuration's. Errors: one line in the log.
 */
#ifndef NODE_SERVE_INTERNAL_H
#define NODE_SERVE_INTERNAL_H

#include "index/base/check.h"
#include "node/config/config.h"

/*
 * Serves until SIGTERM or SIGINT, then drains: stops accepting, finishes what
 * runs, at most timeouts.drain, and leaves the mesh. A second signal severs
 * what is left. Prints `ready serve=H:P admin=H:P` to stdout once both ports are
 * open, with mesh=H:P if that one is. Returns the exit code: 0 after a drain, 1
 * when it could not start, or had to end because its name is another node's.
 */
int serve_run(const struct config *config) MUST_CHECK;

#endif
