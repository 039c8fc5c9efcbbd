/*
 * Runs of the simulator in processes of their own: a CHECK that fails ends one
 * run, several run at a time, and one that does not end is ended. What failed
 * is made smaller here, too.
 *
 * Role: shell. Owns: its children. Thread: one owner. Limits: SIM_JOBS_MAX.
 * Errors: what went wrong in a child is in its result.
 */
#ifndef CHAOS_SIM_APART_H
#define CHAOS_SIM_APART_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "chaos/sim/sim.h"

#define SIM_JOBS_MAX  64U
#define SIM_RUN_S     120U /* one that takes longer is ended */
#define SIM_CHUNK_MAX 256U

struct sim_child {
    pid_t pid;
    int pipe;
    struct sim_options options; /* of its first seed */
    uint32_t count;             /* seeds, one after another */
    uint32_t done;
};

/* Starts runs of count seeds from options->seed on, which ends with the first
 * that fails. */
void sim_child_start(struct sim_child *child, const struct sim_options *options,
                     uint32_t count);

/* Waits for the next result: true; result->failed is set for a child that
 * died, whose results are over then. False: there are no more; the child is
 * gone. */
bool sim_child_next(struct sim_child *child, struct sim_result *result);

/* One run in a child. */
void sim_run_apart(const struct sim_options *options,
                   struct sim_result *result);

/*
 * Makes what failed smaller as long as it still fails: fewer classes of
 * faults, nodes, engines, faults, and less time. tries: runs at most. result:
 * of the last run that failed.
 */
void sim_shrink(struct sim_options *options, struct sim_result *result,
                uint32_t tries);

#endif
