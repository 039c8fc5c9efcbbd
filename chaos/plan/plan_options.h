/*
 * The command line of kvasir-plan, by flags.h.
 *
 * Role: core. Owns: nothing; texts are those of argv. Thread: any.
 * Errors: one line of text.
 */
#ifndef CHAOS_PLAN_OPTIONS_H
#define CHAOS_PLAN_OPTIONS_H

#include <stddef.h>

#include "chaos/plan/plan.h"
#include "index/base/buf.h"

struct plan_options {
    const char *trace; /* file, "-" for stdin, or NULL */
    const char *cdf;
    const char *mix;
    const char *model; /* of the mix; NULL: all */
    const char *tenant;
    const char *engine_name;
    const char *svg;
    double output_share;
    double output_deviation;
    double rate; /* 0: the trace's own */
    double price;
    uint64_t kv_tokens; /* 0: of the engine's memory */
    uint64_t seqs_max;  /* 0: the engine's */
    uint64_t threshold;
    uint64_t max_len; /* 0: the longest request's power of two */
    uint64_t requests;
    uint64_t slo_ttft_ms;
    uint64_t slo_tpot_ms;
    uint64_t seed;
    bool paper;
    bool json;
    bool help;

    struct plan_engine engine; /* made of these */
};

/* Fills options from their defaults and the flags. 0, or FLAGS_E_BAD and one
 * line, without newline, in fault. */
int plan_options_parse(struct plan_options *options, char **argv, char *fault,
                       size_t fault_size) MUST_CHECK;

/* The manual. */
void plan_options_help(struct buf *out);

/* The file that is named, or NULL. */
const char *plan_options_file(const struct plan_options *options);

/* The setup of a finished mix, whose file told that much of rates. 0, or
 * FLAGS_E_BAD and a line: no request fits into the engine. */
int plan_options_setup(const struct plan_options *options,
                       const struct plan_mix *mix, const struct plan_seen *seen,
                       struct plan_setup *setup, char *fault, size_t fault_size)
    MUST_CHECK;

#endif
