/* Adds up the lanes' counters and prints them. */
#include "node/view/metrics.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "node/text/prom_out.h"

#define FIRST_TOKEN "kvasir_time_to_first_token_seconds"

enum metrics_overlap
metrics_overlap_of(uint32_t held, uint32_t total)
{
    if (held == 0) {
        return METRICS_OVERLAP_NONE;
    }
    return (uint64_t)held * 2 < total ? METRICS_OVERLAP_PART
                                      : METRICS_OVERLAP_MOST;
}

void
metrics_merge(struct metrics_lane *total, const struct metrics_lane *lane)
{
#define MERGE(name, help)           counter_bump(&total->name, counter_read(&lane->name));
#define MERGE_OF(value, name, help) MERGE(name, help)
    METRICS_LANE(MERGE, METRICS_NO_MEMBER, MERGE_OF)
    METRICS_LEVELS(MERGE)
#undef MERGE_OF
#undef MERGE
    metrics_ends_merge(&total->ends, &lane->ends);
    histogram_merge(&total->route, &lane->route);
    histogram_merge(&total->tokens, &lane->tokens);
    histogram_merge(&total->tokens_made, &lane->tokens_made);
    histogram_merge(&total->first_byte, &lane->first_byte);
    for (unsigned mode = 0; mode < METRICS_MODES; mode++) {
        for (unsigned i = 0; i < METRICS_OVERLAPS; i++) {
            histogram_merge(&total->first_token[mode][i],
                            &lane->first_token[mode][i]);
        }
    }
    histogram_merge(&total->step, &lane->step);
    histogram_merge(&total->prefill, &lane->prefill);
    histogram_merge(&total->duration, &lane->duration);
}

/* What many nodes never do has no series until it is done. */
static void
print_some(const struct histogram *h, const char *name, const char *help,
           struct buf *out)
{
    if (histogram_count(h) != 0) {
        histogram_print(h, name, help, out);
    } else {
        prom_out_head(out, name, "histogram", help);
    }
}

static void
print_first_token(const struct metrics_lane *total, struct buf *out)
{
    static const char *const overlaps[METRICS_OVERLAPS] = {
        [METRICS_OVERLAP_NONE] = "none",
        [METRICS_OVERLAP_PART] = "part",
        [METRICS_OVERLAP_MOST] = "most",
    };

    prom_out_head(out, FIRST_TOKEN, "histogram",
                  "Request whole to the first bytes of a streamed answer's "
                  "body, by how it was placed and how much of its prompt was "
                  "expected there; none: no series");
    for (unsigned mode = 0; mode < METRICS_MODES; mode++) {
        for (unsigned i = 0; i < METRICS_OVERLAPS; i++) {
            const struct histogram *h = &total->first_token[mode][i];
            char labels[64];
            if (histogram_count(h) == 0) {
                continue;
            }
            (void)snprintf(labels, sizeof(labels), "mode=\"%s\",overlap=\"%s\"",
                           elect_mode_name((enum elect_mode)mode), overlaps[i]);
            histogram_print_series(h, FIRST_TOKEN, labels, out);
        }
    }
}

#define AT(name)                  offsetof(struct metrics_lane, name)
#define ONE(name, help)           PROM_ONE(#name, AT(name), help),
#define FAMILY(name, label, help) PROM_FAMILY(#name, label, help),
#define OF(value, name, meaning)  PROM_OF(value, AT(name), meaning),
static const struct prom_row rows[] = {METRICS_LANE(ONE, FAMILY, OF)};
#undef OF
#undef FAMILY
#undef ONE
#undef AT

void
metrics_print(const struct metrics_lane *total, struct buf *out)
{
    prom_out_rows(out, "kvasir", rows, sizeof rows / sizeof *rows, total);
    metrics_ends_print(&total->ends, out);
#define PRINT(name, help)                                               \
    buf_printf(out,                                                     \
               "# HELP kvasir_" #name " " help "\n# TYPE kvasir_" #name \
               " gauge\nkvasir_" #name " %" PRIu64 "\n",                \
               counter_read(&total->name));
    METRICS_LEVELS(PRINT)
#undef PRINT
    histogram_print(&total->route, "kvasir_route_seconds",
                    "Request whole to worker elected", out);
    print_some(&total->tokens, "kvasir_tokenise_seconds",
               "Asking an engine for tokens to its answer", out);
    print_some(&total->tokens_made, "kvasir_tokenise_local_seconds",
               "Tokenising a prompt by the model's own files", out);
    histogram_print(&total->first_byte, "kvasir_time_to_first_byte_seconds",
                    "Request whole to the answer's first byte", out);
    print_first_token(total, out);
    print_some(&total->step, "kvasir_inter_token_latency_seconds",
               "Between two tokens of a whole stream, its mean: what "
               "slo.itl is held against",
               out);
    print_some(&total->prefill, "kvasir_prefill_seconds",
               "Split request sent to its prefill worker to that one's "
               "answer",
               out);
    histogram_print(&total->duration, "kvasir_request_duration_seconds",
                    "Request whole to the answer's end", out);
}
