/* Adds up the lanes' counters and prints them. */
#include "node/view/metrics.h"

#include <inttypes.h>

void
metrics_merge(struct metrics_lane *total, const struct metrics_lane *lane)
{
#define MERGE(name, help) counter_bump(&total->name, counter_read(&lane->name));
    METRICS_LANE(MERGE)
    METRICS_LEVELS(MERGE)
#undef MERGE
    histogram_merge(&total->route, &lane->route);
    histogram_merge(&total->tokens, &lane->tokens);
    histogram_merge(&total->tokens_made, &lane->tokens_made);
    histogram_merge(&total->first_byte, &lane->first_byte);
    histogram_merge(&total->first_token, &lane->first_token);
    histogram_merge(&total->prefill, &lane->prefill);
    histogram_merge(&total->duration, &lane->duration);
}

void
metrics_print(const struct metrics_lane *total, struct buf *out)
{
#define PRINT(name, help)                                                     \
    buf_printf(out,                                                           \
               "# HELP kvasir_" #name "_total " help "\n# TYPE kvasir_" #name \
               "_total counter\n"                                             \
               "kvasir_" #name "_total %" PRIu64 "\n",                        \
               counter_read(&total->name));
    METRICS_LANE(PRINT)
#undef PRINT
#define PRINT(name, help)                                               \
    buf_printf(out,                                                     \
               "# HELP kvasir_" #name " " help "\n# TYPE kvasir_" #name \
               " gauge\nkvasir_" #name " %" PRIu64 "\n",                \
               counter_read(&total->name));
    METRICS_LEVELS(PRINT)
#undef PRINT
    histogram_print(&total->route, "kvasir_route_seconds",
                    "Request whole to worker elected", out);
    histogram_print(&total->tokens, "kvasir_tokenise_seconds",
                    "Asking an engine for tokens to its answer", out);
    histogram_print(&total->tokens_made, "kvasir_tokenise_local_seconds",
                    "Tokenising a prompt by the model's own files", out);
    histogram_print(&total->first_byte, "kvasir_time_to_first_byte_seconds",
                    "Request whole to the answer's first byte", out);
    histogram_print(&total->first_token, "kvasir_time_to_first_token_seconds",
                    "Request whole to the first bytes of a streamed answer's "
                    "body",
                    out);
    histogram_print(&total->prefill, "kvasir_prefill_seconds",
                    "Split request sent to its prefill worker to that one's "
                    "answer",
                    out);
    histogram_print(&total->duration, "kvasir_request_duration_seconds",
                    "Request whole to the answer's end", out);
}
