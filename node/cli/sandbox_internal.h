/*
 * What the kernel lets a node do to its machine (sandbox).
 *
 * Role: shell. Owns: nothing. Thread: the only one. Errors: in the log.
 */
#ifndef NODE_SANDBOX_INTERNAL_H
#define NODE_SANDBOX_INTERNAL_H

#include "index/base/check.h"
#include "node/base/confine.h"
#include "node/config/config.h"

/* Before any thread runs, and once data.dir is there. False: the configuration
 * requires what cannot be had, and a line was logged. */
bool sandbox_begin(const struct config *config, struct confined *out)
    MUST_CHECK;

#endif
