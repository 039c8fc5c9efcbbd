/*
 * The tables of arXiv 2604.09613 ("token-budget pools") beside ours.
 *
 * The paper prints its results, and not the distributions that led to them. So
 * there are two columns of ours:
 *
 * - reconstructed: by distributions that were made to give its tables 1 and 2.
 *   They are one of many that do, and not the paper's.
 * - measured: by total lengths of real services: Azure's LLM inference trace
 *   of 2023, code and conversation (CC BY 4.0), and LMSYS-Chat-1M, both as
 *   counted by vLLM's semantic router (fleet-sim, Apache-2.0).
 *
 * All by the paper's engine (a100-flat), rates, output shares and betas.
 *
 * Role: core. Owns: nothing. Thread: one owner. Limits: PLAN_PAPER_ROWS_MAX.
 * Errors: -ENOMEM.
 */
#ifndef CHAOS_PLAN_PAPER_H
#define CHAOS_PLAN_PAPER_H

#include "chaos/plan/plan_report.h"

#define PLAN_PAPER_ROWS_MAX 128U

struct plan_paper_row {
    const char *table; /* "Table 2" */
    const char *what;
    const char *paper;    /* as printed; NULL: it says nothing of it */
    double reconstructed; /* NAN: there is none */
    double measured;
    int digits; /* to print behind the point */
};

struct plan_paper {
    struct plan_paper_row rows[PLAN_PAPER_ROWS_MAX];
    uint32_t count;
    uint32_t requests; /* that were played; 0: nothing was */
};

/* Fills the rows. requests: of the short horizon; 0: table 3 is left out. */
int plan_paper_make(uint32_t requests, uint64_t seed, struct plan_paper *paper)
    MUST_CHECK;

/* All rows, for people; as one object. */
void plan_paper_table(const struct plan_paper *paper, struct buf *out);
void plan_paper_json(const struct plan_paper *paper, struct buf *out);

#endif
