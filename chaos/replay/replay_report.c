/* Prints results: as a table, as JSON. */
#include "chaos/replay/replay_report.h"

#include <inttypes.h>

#include "node/node.h"

static const char *const mode_names[] = {
    [REPLAY_MODE_AFFINITY] = "affinity",
    [REPLAY_MODE_BALANCE] = "balance",
    [REPLAY_MODE_IMBALANCED] = "imbalanced",
    [REPLAY_MODE_POLICY] = "policy",
};

uint64_t
replay_output_rate(const struct replay_result *result)
{
    return result->took_us == 0
               ? 0
               : result->output_tokens * UINT64_C(1000000) / result->took_us;
}

uint32_t
replay_cached_share(const struct replay_result *result)
{
    return result->prompt_tokens == 0
               ? 0
               : (uint32_t)(result->cached_tokens * 10000 /
                            result->prompt_tokens);
}

/* Thousandths of requests per second. */
static uint64_t
request_rate_milli(const struct replay_result *result)
{
    return result->took_us == 0
               ? 0
               : result->finished * UINT64_C(1000000000) / result->took_us;
}

/* Milliseconds, with tenths below ten seconds. */
static void
put_time(struct buf *out, uint64_t us)
{
    if (us < 10000000) {
        buf_printf(out, " %8" PRIu64 ".%" PRIu64 "", us / 1000,
                   us % 1000 / 100);
        return;
    }
    buf_printf(out, " %10" PRIu64, us / 1000);
}

/* Per cent, with two digits. */
static void
put_share(struct buf *out, uint64_t part, uint64_t of)
{
    uint64_t share = of == 0 ? 0 : part * 10000 / of;

    CHECK(part <= of || of == 0);
    buf_printf(out, " %3" PRIu64 ".%02" PRIu64, share / 100, share % 100);
}

static const char *
name_of(const struct replay_row *row)
{
    return row->real != NULL ? "real" : replay_policy_name(row->policy);
}

static uint32_t
mode_percent(const struct replay_result *result, enum replay_mode mode)
{
    return result->sent == 0
               ? 0
               : (uint32_t)((result->modes[mode] * 100 + result->sent / 2) /
                            result->sent);
}

static void
put_modes(struct buf *out, const struct replay_row *row)
{
    if (row->result.modes[REPLAY_MODE_POLICY] > 0) {
        buf_add_text(out, "    -   -   -\n");
        return;
    }
    buf_printf(out, "  %3" PRIu32 " %3" PRIu32 " %3" PRIu32 "\n",
               mode_percent(&row->result, REPLAY_MODE_AFFINITY),
               mode_percent(&row->result, REPLAY_MODE_BALANCE),
               mode_percent(&row->result, REPLAY_MODE_IMBALANCED));
}

static void
put_row(struct buf *out, const struct replay_row *row)
{
    const struct replay_result *r = &row->result;
    uint64_t rate = request_rate_milli(r);

    buf_printf(out, "x%" PRIu32 ".%02" PRIu32 " %-17s",
               row->load_permille / 1000, row->load_permille % 1000 / 10,
               name_of(row));
    put_share(out, r->promised_tokens, r->prompt_tokens);
    put_share(out, r->cached_tokens, r->prompt_tokens);
    put_time(out, r->ttft_p50_us);
    put_time(out, r->ttft_p99_us);
    put_time(out, r->itl_p99_us);
    put_time(out, r->whole_p50_us);
    put_time(out, r->whole_p99_us);
    put_share(out, r->within_slo, r->sent);
    buf_printf(out, " %8" PRIu64 " %4" PRIu64 ".%" PRIu64,
               replay_output_rate(r), rate / 1000, rate % 1000 / 100);
    if (row->real != NULL) {
        buf_add_text(out, "       -");
    } else {
        buf_printf(out, " %7" PRIu64, r->busy_us / 1000000);
    }
    buf_printf(out, "  %2" PRIu32 ".%02" PRIu32 " %5" PRIu32,
               r->imbalance_permille / 1000, r->imbalance_permille % 1000 / 10,
               r->peak);
    put_modes(out, row);
}

static void
put_side(struct buf *out, const struct replay_side *side, uint64_t all)
{
    put_share(out, side->finished, all);
    put_share(out, side->cached_tokens, side->prompt_tokens);
    put_time(out, side->ttft_p50_us);
    put_time(out, side->ttft_p99_us);
}

/* Nothing where there is one island. */
static void
put_islands(struct buf *out, const struct replay_report *report)
{
    bool any = false;

    for (uint32_t i = 0; i < report->rows_count; i++) {
        const struct replay_row *row = &report->rows[i];
        const struct replay_result *r = &row->result;
        if (r->inside.finished + r->across.finished == 0) {
            continue;
        }
        if (!any) {
            buf_add_text(out,
                         "\nload  policy            inside: of all cached    "
                         "TTFT ms p50        p99   across: of all cached  p50  "
                         "      p99\n");
        }
        any = true;
        buf_printf(out, "x%" PRIu32 ".%02" PRIu32 " %-17s       ",
                   row->load_permille / 1000, row->load_permille % 1000 / 10,
                   name_of(row));
        put_side(out, &r->inside, r->finished);
        buf_add_text(out, "        ");
        put_side(out, &r->across, r->finished);
        buf_add_text(out, "\n");
    }
}

/* Nothing where engines and load stay as they are. */
static void
put_scaled(struct buf *out, const struct replay_report *report)
{
    if (report->scaler == NULL) {
        return;
    }
    buf_add_text(out,
                 "\nload  policy            engines engine    most changes "
                 "turns  within   TTFT ms\n"
                 "                          by  hours                   "
                 "       SLO %       p99\n");
    for (uint32_t i = 0; i < report->rows_count; i++) {
        const struct replay_row *row = &report->rows[i];
        const struct replay_scaled *s = &row->result.scaled;
        uint64_t hours = s->engine_us / 36000000; /* hundredths */
        buf_printf(out, "x%" PRIu32 ".%02" PRIu32 " %-17s %7s",
                   row->load_permille / 1000, row->load_permille % 1000 / 10,
                   name_of(row), report->scaler);
        buf_printf(out,
                   " %4" PRIu64 ".%02" PRIu64 " %6" PRIu32 " %7" PRIu32
                   " %5" PRIu32 " ",
                   hours / 100, hours % 100, s->most, s->changes, s->turns);
        put_share(out, row->result.within_slo, row->result.sent);
        put_time(out, row->result.ttft_p99_us);
        buf_add_text(out, "\n");
    }
}

static void
put_names(struct buf *out, const char *what, const struct load_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        const struct load_worker *row = &table->row[i];
        buf_printf(out, "  %s %s: %" PRIu64 " requests", what, row->name,
                   row->requests);
        if (row->failed > 0) {
            buf_printf(out, ", %" PRIu64 " failed", row->failed);
        }
        buf_add_text(out, "\n");
    }
}

/* What came of requests at real nodes, where there are such. */
static void
put_real(struct buf *out, const struct replay_report *report,
         const struct replay_count *real)
{
    const struct load_stats *stats = &real->stats;
    uint64_t failed = load_stats_failed(stats);

    buf_printf(out,
               "\nreal: model %s at %s\n  %" PRIu64 " sent, %" PRIu64
               " answered, %" PRIu64 " failed",
               report->model, report->nodes_at, stats->sent,
               stats->ended[LOAD_ANSWERED], failed);
    for (unsigned i = LOAD_ANSWERED + 1; i < LOAD_OUTCOMES; i++) {
        if (stats->ended[i] > 0) {
            buf_printf(out, ", %s %" PRIu64,
                       load_outcome_name((enum load_outcome)i),
                       stats->ended[i]);
        }
    }
    buf_printf(out, ", %" PRIu64 " not sent\n", report->requests - stats->sent);
    put_names(out, "node", &stats->nodes);
    put_names(out, "worker", &stats->workers);
    if (real->told < stats->ended[LOAD_ANSWERED]) {
        buf_printf(out,
                   "  %" PRIu64 " answers told nothing of their placement: "
                   "nodes do with --placement-headers on, or to an operator "
                   "(--headers)\n",
                   stats->ended[LOAD_ANSWERED] - real->told);
    }
}

static void
put_head(struct buf *out, const struct replay_report *report)
{
    buf_printf(out, "%s: %" PRIu64 " requests, %" PRIu32 " nodes", report->load,
               report->requests, report->nodes);
    if (report->rows[0].real == NULL) {
        buf_printf(out, ", %" PRIu32 " engines (%s) of %" PRIu32 " KV tokens",
                   report->engines, report->timing, report->kv_tokens);
    }
    buf_printf(out,
               ", seed %" PRIu64 "\nprompts share %" PRIu32 ".%" PRIu32
               " %% of their blocks with earlier prompts; clairvoyant "
               "eviction over pooled memory would find %" PRIu32 ".%02" PRIu32
               " %% of their tokens\n\n",
               report->seed, report->sharing_permille / 10,
               report->sharing_permille % 10, report->bound_share / 100,
               report->bound_share % 100);
}

void
replay_report_table(const struct replay_report *report, struct buf *out)
{
    uint64_t refused = 0;

    CHECK(report->rows_count > 0);
    put_head(out, report);
    buf_add_text(
        out, "load  policy            promi- cached    TTFT ms              "
             "   ITL ms      E2E ms           within   output   reqs     GPU "
             " imba- most  modes %\n"
             "                         sed %      %       p50        p99     "
             "  p99        p50        p99   SLO % tokens/s    /s  seconds "
             "lance open  aff bal imb\n");
    for (uint32_t i = 0; i < report->rows_count; i++) {
        if (i > 0 && report->rows[i].load_permille !=
                         report->rows[i - 1].load_permille) {
            buf_add_text(out, "\n");
        }
        put_row(out, &report->rows[i]);
        if (report->rows[i].real == NULL) {
            refused = report->rows[i].result.refused;
        }
    }
    put_islands(out, report);
    put_scaled(out, report);
    const struct replay_row *last = &report->rows[report->rows_count - 1];
    if (last->real != NULL) {
        put_real(out, report, last->real);
    }
    if (refused > 0) {
        buf_printf(out,
                   "\n%" PRIu64 " requests were refused: longer than an "
                   "engine's cache, or the next turn of such a one\n",
                   refused);
    }
}

static void
put_json_side(struct json_out *json, const char *name,
              const struct replay_side *side)
{
    json_out_key(json, name);
    json_out_object_begin(json);
    json_out_put_uint(json, "finished", side->finished);
    json_out_put_uint(json, "prompt_tokens", side->prompt_tokens);
    json_out_put_uint(json, "cached_tokens", side->cached_tokens);
    json_out_put_milli(json, "ttft_p50_ms", side->ttft_p50_us);
    json_out_put_milli(json, "ttft_p99_ms", side->ttft_p99_us);
    json_out_object_end(json);
}

static void
put_json_real(struct json_out *json, const struct replay_count *real)
{
    const struct load_stats *stats = &real->stats;

    json_out_put_uint(json, "failed", load_stats_failed(stats));
    json_out_key(json, "failures");
    json_out_object_begin(json);
    for (unsigned i = LOAD_ANSWERED + 1; i < LOAD_OUTCOMES; i++) {
        json_out_put_uint(json, load_outcome_name((enum load_outcome)i),
                          stats->ended[i]);
    }
    json_out_object_end(json);
    json_out_put_uint(json, "not_sent", real->load->count - stats->sent);
    json_out_put_uint(json, "placed", real->told);
    load_table_put(json, "nodes", &stats->nodes);
    load_table_put(json, "workers", &stats->workers);
}

static void
put_json_row(struct json_out *json, const struct replay_row *row)
{
    const struct replay_result *r = &row->result;

    json_out_object_begin(json);
    json_out_put_text(json, "policy", name_of(row));
    json_out_put_milli(json, "load", row->load_permille);
    json_out_put_uint(json, "sent", r->sent);
    json_out_put_uint(json, "finished", r->finished);
    json_out_put_uint(json, "refused", r->refused);
    json_out_put_uint(json, "prompt_tokens", r->prompt_tokens);
    json_out_put_uint(json, "cached_tokens", r->cached_tokens);
    json_out_put_uint(json, "promised_tokens", r->promised_tokens);
    json_out_put_uint(json, "output_tokens", r->output_tokens);
    json_out_put_uint(json, "evicted_blocks", r->evicted_blocks);
    json_out_put_uint(json, "told_blocks", r->told_blocks);
    json_out_put_uint(json, "waited", r->waited);
    json_out_put_uint(json, "split", r->split);
    json_out_put_uint(json, "lost", r->lost);
    json_out_put_milli(json, "ttft_p50_ms", r->ttft_p50_us);
    json_out_put_milli(json, "ttft_p90_ms", r->ttft_p90_us);
    json_out_put_milli(json, "ttft_p99_ms", r->ttft_p99_us);
    json_out_put_milli(json, "whole_p50_ms", r->whole_p50_us);
    json_out_put_milli(json, "whole_p99_ms", r->whole_p99_us);
    json_out_put_milli(json, "itl_p50_ms", r->itl_p50_us);
    json_out_put_milli(json, "itl_p99_ms", r->itl_p99_us);
    for (unsigned i = 0; i < 2; i++) {
        json_out_key(json, i == 0 ? "short" : "long");
        json_out_object_begin(json);
        json_out_put_uint(json, "finished", r->pool[i].finished);
        json_out_put_milli(json, "ttft_p50_ms", r->pool[i].ttft_p50_us);
        json_out_put_milli(json, "ttft_p99_ms", r->pool[i].ttft_p99_us);
        json_out_object_end(json);
    }
    json_out_put_uint(json, "pool_threshold", r->pool_threshold);
    json_out_put_uint(json, "within_slo", r->within_slo);
    json_out_put_milli(json, "busy_ms", r->busy_us);
    json_out_put_milli(json, "took_ms", r->took_us);
    json_out_put_uint(json, "output_tokens_per_s", replay_output_rate(r));
    json_out_put_milli(json, "requests_per_s", request_rate_milli(r));
    json_out_put_milli(json, "imbalance", r->imbalance_permille);
    json_out_put_uint(json, "most_open", r->peak);
    json_out_put_milli(json, "engine_ms", r->scaled.engine_us);
    json_out_put_uint(json, "engines_most", r->scaled.most);
    json_out_put_uint(json, "scale_changes", r->scaled.changes);
    json_out_put_uint(json, "scale_turns", r->scaled.turns);
    if (r->inside.finished + r->across.finished > 0) {
        put_json_side(json, "inside", &r->inside);
        put_json_side(json, "across", &r->across);
    }
    if (row->real != NULL) {
        put_json_real(json, row->real);
    }
    json_out_key(json, "modes");
    json_out_object_begin(json);
    for (unsigned i = 0; i < REPLAY_MODES; i++) {
        json_out_put_uint(json, mode_names[i], r->modes[i]);
    }
    json_out_object_end(json);
    json_out_object_end(json);
}

void
replay_report_json(const struct replay_report *report, struct buf *out)
{
    struct json_out json;

    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_text(&json, "load", report->load);
    json_out_put_text(&json, "timing", report->timing);
    json_out_put_uint(&json, "nodes", report->nodes);
    json_out_put_uint(&json, "engines", report->engines);
    json_out_put_uint(&json, "kv_tokens", report->kv_tokens);
    json_out_put_uint(&json, "seed", report->seed);
    json_out_put_uint(&json, "requests", report->requests);
    json_out_put_milli(&json, "sharing", report->sharing_permille);
    json_out_put_milli(&json, "bound", report->bound_share / 10);
    if (report->nodes_at != NULL) {
        json_out_put_text(&json, "nodes_at", report->nodes_at);
        json_out_put_text(&json, "model", report->model);
    }
    json_out_key(&json, "rows");
    json_out_array_begin(&json);
    for (uint32_t i = 0; i < report->rows_count; i++) {
        put_json_row(&json, &report->rows[i]);
    }
    json_out_array_end(&json);
    json_out_object_end(&json);
    buf_add_text(out, "\n");
}
