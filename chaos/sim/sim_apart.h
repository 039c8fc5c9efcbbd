/*
 * Runs of the simulator in child processes. A CHECK that fails ends one run
 * only, several runs go on at a time, and a run that does not end is killed.
 * This file also shrinks runs that failed.
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
#define SIM_RUN_S     120U /* of an hour begun; one that takes more is killed */
#define SIM_CHUNK_MAX 256U

struct sim_child {
    pid_t pid;
    int pipe;
    struct sim_options options; /* with its first seed */
    uint32_t count;             /* seeds, one after another */
    uint32_t done;
};

/* Starts a child that runs count seeds from options->seed on, up to the first
 * one that fails. */
void sim_child_start(struct sim_child *child, const struct sim_options *options,
                     uint32_t count);

/* Waits for the next result. True: *result has it; if the child died, it is the
 * last one and has `failed` set. False: there are no more, and the child is
 * gone. */
bool sim_child_next(struct sim_child *child, struct sim_result *result);

/* Does one run in a child. */
void sim_run_apart(const struct sim_options *options,
                   struct sim_result *result);

/*
 * Shrinks a run that failed: tries fewer classes of faults, fewer nodes,
 * engines and faults, and less time, and keeps what still fails. tries: the
 * most runs. result: that of the last run that failed.
 */
void sim_shrink(struct sim_options *options, struct sim_result *result,
                uint32_t tries);

#endif
