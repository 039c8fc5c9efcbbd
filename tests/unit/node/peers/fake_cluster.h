/*
 * A cluster that does what a test says and writes down what it was told:
 * linked in place of the real one where a test is about its shell.
 */
#ifndef TESTS_UNIT_NODE_FAKE_CLUSTER_H
#define TESTS_UNIT_NODE_FAKE_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "mesh/mesh.h"

#define FAKE_OUTS_MAX  512
#define FAKE_CALLS_MAX 512

enum fake_call_kind {
    FAKE_NEW,
    FAKE_TICK,
    FAKE_ADD,
    FAKE_REMOVE,
    FAKE_UNABLE,
    FAKE_ANSWERED,
    FAKE_LEAVE,
};

struct fake_call {
    enum fake_call_kind kind;
    uint64_t subject; /* the worker, or the ticket */
    uint64_t number;
    bool early; /* outputs were not all pulled */
};

struct cluster {
    struct cluster_config config;
    struct member_self self;
    uint64_t deadline_us;
    int add_outcome;         /* of cluster_worker_add() */
    uint32_t *deadline_asks; /* counted there, if anywhere */
    struct cluster_out outs[FAKE_OUTS_MAX];
    uint32_t outs_first;
    uint32_t outs_count; /* ever added */
    struct fake_call calls[FAKE_CALLS_MAX];
    uint32_t calls_count;
};

/* The one that the next cluster_new() gives out, empty. */
struct cluster *fake_cluster(void);

void fake_cluster_push(struct cluster *cluster, const struct cluster_out *out);

/* Calls of a kind so far. */
uint32_t fake_cluster_calls(const struct cluster *cluster,
                            enum fake_call_kind kind);

#endif
