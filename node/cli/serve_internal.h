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
 * Serves until SIGTERM or SIGINT. SIGTERM makes it a lame duck for
 * timeouts.lame_duck: it serves on and tells everybody to go elsewhere. Then it
 * drains, with SIGINT at once: stops accepting, finishes what runs, at most
 * timeouts.drain, and leaves the mesh. Each further signal is the next step; the
 * last one severs what is left. SIGHUP reads the sources (borrowed), from which
 * config came, again (node/control/control_reload.h). Clients that connect
 * before each worker was checked once wait for that, a second at most. Then it
 * prints `ready serve=H:P admin=H:P` to stdout, with mesh=H:P if that port is
 * open. Returns the exit code: 0 after a drain, 1 when it cut requests off,
 * could not start, or had to end because its name is
 * another node's. commit: of the source, or ""; static.
 */
int serve_run(const struct config_sources *sources, const struct config *config,
              const char *commit) MUST_CHECK;

#endif
