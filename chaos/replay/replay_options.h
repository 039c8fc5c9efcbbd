/*
 * The command line of kvasir-replay, by flags.h.
 *
 * Role: core. Owns: nothing; texts are those of argv. Thread: any.
 * Limits: REPLAY_LOADS_MAX. Errors: one line of text.
 */
#ifndef CHAOS_REPLAY_OPTIONS_H
#define CHAOS_REPLAY_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/replay/replay_generate.h"
#include "chaos/replay/replay_timing.h"
#include "chaos/replay/replay_world.h"
#include "index/base/buf.h"
#include "index/base/check.h"
#include "node/node.h"

#define REPLAY_LOADS_MAX 32U

/* What --policy is by default: all but split. */
#define REPLAY_POLICY_LIST                                                    \
    "kvasir,slo,shares,belief,round_robin,least_load,random,power_of_two,"    \
    "rendezvous,prefix_hash,consistent_hashing,cache_aware,composite,dynamo," \
    "all_seeing_greedy,soonest,sticky"

struct replay_options {
    const char *trace; /* file, "-" for stdin, or NULL */
    const char *workload_name;
    const char *policy_list;
    const char *load_list;
    const char *timing_name;
    const char *speed_list;
    const char *svg; /* file, or NULL */
    const char *island_list;
    const char *scaler_name;
    const char *node_list;    /* NULL: nothing is real */
    const char *model;        /* of real nodes; NULL: their first */
    const char *headers_file; /* for real nodes, or NULL */
    uint64_t open_max;
    uint64_t scale_max; /* 0: four times engines */
    uint64_t provision_s;
    uint64_t cool_down_s;
    uint64_t wave_s; /* 0: none */
    double swing;
    uint64_t away_ms;
    uint64_t link_ms;
    uint64_t nodes;
    uint64_t engines;   /* 0: the workload's */
    uint64_t kv_tokens; /* 0: the workload's */
    uint64_t block_tokens;
    uint64_t requests;
    uint64_t event_us;
    uint64_t gossip_us;
    uint64_t seed;
    uint64_t recompute_weight;
    uint64_t prefill; /* 0: half of the engines */
    uint64_t transfer_tokens_per_s;
    uint64_t split_tokens;
    uint64_t short_engines; /* 0: one pool */
    uint64_t short_len;
    uint64_t pool_threshold; /* 0: short_len */
    bool pool_tune;
    uint64_t expected_ms;
    uint64_t slo_ttft_ms;
    uint64_t slo_itl_ms;
    double until_s; /* 0: no limit */
    bool same_speed;
    bool expect_alone;
    bool sequential;
    bool answers_whole;
    bool json;
    bool help;

    /* Made of these: */
    const struct replay_workload *workload; /* NULL: a trace */
    const struct replay_timing *timing;
    enum replay_policy policies[REPLAY_POLICIES];
    uint32_t policies_count;
    uint32_t loads_permille[REPLAY_LOADS_MAX];
    uint32_t loads_count;
    uint16_t speed_permille[WORKERS_MAX];
    enum replay_scaler scaler;
    struct url nodes_at[REPLAY_NODES_MAX];
    uint32_t nodes_at_count;
    uint32_t
        real_engines; /* --engines, if it was given with --nodes-at; or 0 */
    uint32_t islands;
    uint32_t island_weight[REPLAY_ISLANDS_MAX];
};

/* Fills options from their defaults and the flags. 0, or FLAGS_E_BAD and one
 * line, without newline, in fault. */
int replay_options_parse(struct replay_options *options, char **argv,
                         char *fault, size_t fault_size) MUST_CHECK;

/* The manual. */
void replay_options_help(struct buf *out);

/* The setup of one cell of the table. */
struct replay_setup replay_options_setup(const struct replay_options *options,
                                         enum replay_policy policy,
                                         uint32_t load_permille);

#endif
