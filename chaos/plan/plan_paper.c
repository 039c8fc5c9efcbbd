/* What the paper prints, and what comes of the same formulas here. */
#include "chaos/plan/plan_paper.h"

#include <math.h>

#define RATE         1000.0
#define MAX_LEN      65536U
#define THRESHOLD    8192U
#define PRICE        2.21
#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof(array)[0]))

/* clang-format off */
static const struct plan_bucket azure_made[] = {
    {256, .25}, {512, .45}, {1024, .70}, {2048, .80}, {4096, .88},
    {8192, .916}, {16384, .95}, {32768, .99}, {65536, 1}};
static const struct plan_bucket lmsys_made[] = {
    {256, .75}, {512, .87}, {1024, .965}, {2048, .998}, {4096, .998},
    {8192, .9993}, {16384, 1}};
static const struct plan_bucket azure_counted[] = {
    {64, .00837}, {128, .02817}, {256, .06759}, {512, .28863},
    {768, .36427}, {1024, .40447}, {1536, .65687}, {2048, .77985},
    {3072, .86865}, {4096, .89821}, {6144, .9758}, {8192, .99996},
    {16384, 1}};
static const struct plan_bucket lmsys_counted[] = {
    {64, .13144}, {128, .23595}, {256, .38248}, {512, .63833},
    {768, .75798}, {1024, .83066}, {1536, .90886}, {2048, .94828},
    {3072, .97287}, {4096, .98374}, {6144, .99289}, {8192, .99653},
    {12288, .99863}, {16384, .99926}, {24576, .99966}, {32768, .99979},
    {49152, .99984}, {65536, 1}};
/* clang-format on */

enum {
    AZURE,
    LMSYS,
    SETS
};
enum {
    MADE,
    COUNTED,
    SOURCES
};

static const struct plan_cdf cdfs[SETS][SOURCES] = {
    {{azure_made, COUNT(azure_made), 0.10, 0.05},
     {azure_counted, COUNT(azure_counted), 0.10, 0.05}},
    {{lmsys_made, COUNT(lmsys_made), 0.75, 0.10},
     {lmsys_counted, COUNT(lmsys_counted), 0.75, 0.10}},
};

/* One set from one source. */
struct source {
    struct plan_mix mix;
    struct plan_setup setup;
    struct plan_fleet whole;
    struct plan_fleet split;
};

static void
add_row(struct plan_paper *paper, struct plan_paper_row row)
{
    CHECK(paper->count < PLAN_PAPER_ROWS_MAX);
    paper->rows[paper->count++] = row;
}

static int
source_init(struct source *s, const struct plan_cdf *cdf, uint64_t seed)
{
    plan_mix_init(&s->mix);
    int outcome = plan_mix_add_cdf(&s->mix, cdf);

    CHECK(outcome <= 0); /* these are not too many points */
    if (outcome != 0) {
        return outcome;
    }
    plan_mix_finish(&s->mix);
    s->setup = (struct plan_setup){
        .mix = &s->mix,
        .slo = {.ttft_ms = 2000, .tpot_ms = 80},
        .rate = RATE,
        .threshold = THRESHOLD,
        .max_len = MAX_LEN,
        .price = PRICE,
        .seed = seed,
    };
    bool found = plan_engine_find("a100-flat", &s->setup.engine);
    CHECK(found);
    plan_fleet_size(&s->setup, 0, &s->whole);
    plan_fleet_size(&s->setup, THRESHOLD, &s->split);
    return 0;
}

/* What a row is about, of one source's plan. */
enum fact {
    RATE_WHOLE,
    RATE_SHORT,
    RATE_LONG,
    ENGINES_WHOLE,
    ENGINES_SHORT,
    ENGINES_LONG,
    ENGINES_SPLIT,
    SAVING,
    MONEY,
    PAGED_WHOLE,
    PAGED_SPLIT,
    PAGED_SAVING,
};

static double
look_up(const struct source *s, enum fact fact)
{
    const struct plan_pool *const pools = s->split.pools;
    bool has_long = s->split.pools_count > 1;
    uint32_t whole = s->whole.engines[PLAN_BY_CLOSED];
    uint32_t split = s->split.engines[PLAN_BY_CLOSED];
    uint32_t paged_whole = s->whole.engines[PLAN_BY_CORRECTED];
    uint32_t paged_split = s->split.engines[PLAN_BY_CORRECTED];

    switch (fact) {
    case RATE_WHOLE:
        return s->whole.pools[0].closed.rate;
    case RATE_SHORT:
        return pools[0].closed.rate;
    case RATE_LONG:
        return has_long ? pools[1].closed.rate : NAN;
    case ENGINES_WHOLE:
        return whole;
    case ENGINES_SHORT:
        return pools[0].closed.engines;
    case ENGINES_LONG:
        return has_long ? pools[1].closed.engines : 0;
    case ENGINES_SPLIT:
        return split;
    case SAVING:
        return plan_saving(whole, split) * 100;
    case MONEY:
        return (plan_cost(&s->setup, whole) - plan_cost(&s->setup, split)) /
               1e6;
    case PAGED_WHOLE:
        return paged_whole;
    case PAGED_SPLIT:
        return paged_split;
    case PAGED_SAVING:
        break;
    }
    return plan_saving(paged_whole, paged_split) * 100;
}

static const struct {
    const char *table;
    const char *what;
    uint32_t set;
    enum fact fact;
    const char *paper;
    int digits;
} sized[] = {
    {"Table 1", "Azure, requests/s of an engine: one fleet", AZURE, RATE_WHOLE,
     "3.0", 2},
    {"Table 1", "  short pool", AZURE, RATE_SHORT, "13.5", 2},
    {"Table 1", "  long pool", AZURE, RATE_LONG, "0.4", 2},
    {"Table 1", "LMSYS: one fleet", LMSYS, RATE_WHOLE, "4.1", 2},
    {"Table 1", "  short pool", LMSYS, RATE_SHORT, "6.8", 2},
    {"Table 1", "  long pool", LMSYS, RATE_LONG, NULL, 2},
    {"Table 2", "Azure, engines: one fleet", AZURE, ENGINES_WHOLE, "361", 0},
    {"Table 2", "  short pool", AZURE, ENGINES_SHORT, "72", 0},
    {"Table 2", "  long pool", AZURE, ENGINES_LONG, "229", 0},
    {"Table 2", "  both", AZURE, ENGINES_SPLIT, "301", 0},
    {"Table 2", "  saving, %", AZURE, SAVING, "16.6", 1},
    {"Table 2", "  million $ a year", AZURE, MONEY, "1.2", 2},
    {"Table 2", "LMSYS, engines: one fleet", LMSYS, ENGINES_WHOLE, "265", 0},
    {"Table 2", "  short pool", LMSYS, ENGINES_SHORT, "155", 0},
    {"Table 2", "  long pool", LMSYS, ENGINES_LONG, "8", 0},
    {"Table 2", "  both", LMSYS, ENGINES_SPLIT, "163", 0},
    {"Table 2", "  saving, %", LMSYS, SAVING, "38.5", 1},
    {"Table 2", "  million $ a year", LMSYS, MONEY, "2.0", 2},
    {"corrected", "Azure, caches in pages: one fleet", AZURE, PAGED_WHOLE, NULL,
     0},
    {"corrected", "  both pools", AZURE, PAGED_SPLIT, NULL, 0},
    {"corrected", "  saving, %", AZURE, PAGED_SAVING, NULL, 1},
    {"corrected", "LMSYS, caches in pages: one fleet", LMSYS, PAGED_WHOLE, NULL,
     0},
    {"corrected", "  both pools", LMSYS, PAGED_SPLIT, NULL, 0},
    {"corrected", "  saving, %", LMSYS, PAGED_SAVING, NULL, 1},
};

static void
add_sizes(struct plan_paper *paper, const struct source sources[SETS][SOURCES])
{
    for (uint32_t i = 0; i < COUNT(sized); i++) {
        add_row(paper, (struct plan_paper_row){
                           .table = sized[i].table,
                           .what = sized[i].what,
                           .paper = sized[i].paper,
                           .reconstructed = look_up(
                               &sources[sized[i].set][MADE], sized[i].fact),
                           .measured = look_up(&sources[sized[i].set][COUNTED],
                                               sized[i].fact),
                           .digits = sized[i].digits,
                       });
    }
}

/* Four rows of one fleet, played; those without a name are left out. */
struct played {
    const char *what[4];
    const char *paper[4];
    uint32_t set;
    bool split;
    bool is_long;
    enum plan_route route;
};

static const struct played plays[] = {
    {{"Azure, one fleet, in turns, 10 s: TTFT p50, s", "  p99",
      "  ms/token p50", "  p99"},
     {"0.02", "0.91", "12", "13"},
     AZURE,
     false,
     false,
     PLAN_ROUND_ROBIN},
    {{"  two pools: TTFT p50, s", "  p99", "  ms/token p50", "  p99"},
     {"0.09", "1.60", "25", "29"},
     AZURE,
     true,
     false,
     PLAN_ROUND_ROBIN},
    {{"60 s: one fleet: TTFT p50, s", "  p99", "  ms/token p50", "  p99"},
     {NULL, NULL, NULL, NULL},
     AZURE,
     false,
     true,
     PLAN_ROUND_ROBIN},
    {{"  two pools: TTFT p50, s", "  p99", "  ms/token p50", "  p99"},
     {NULL, NULL, NULL, NULL},
     AZURE,
     true,
     true,
     PLAN_ROUND_ROBIN},
    {{"60 s, least load: one fleet: TTFT p50, s", "  p99", "  ms/token p50",
      "  p99"},
     {NULL, NULL, NULL, NULL},
     AZURE,
     false,
     true,
     PLAN_LEAST_LOAD},
    {{"  two pools: TTFT p50, s", "  p99", "  ms/token p50", "  p99"},
     {NULL, NULL, NULL, NULL},
     AZURE,
     true,
     true,
     PLAN_LEAST_LOAD},
    {{NULL, NULL, NULL, "LMSYS, one fleet, in turns, 10 s: ms/token p99"},
     {NULL, NULL, NULL, "14"},
     LMSYS,
     false,
     false,
     PLAN_ROUND_ROBIN},
    {{NULL, NULL, NULL, "  two pools"},
     {NULL, NULL, NULL, "22"},
     LMSYS,
     true,
     false,
     PLAN_ROUND_ROBIN},
};

static int
add_play(struct plan_paper *paper, const struct source sources[SOURCES],
         const struct played *play)
{
    double values[SOURCES][4];
    static const int digits[4] = {3, 2, 1, 1};

    for (uint32_t s = 0; s < SOURCES; s++) {
        const struct plan_fleet *fleet =
            play->split ? &sources[s].split : &sources[s].whole;
        uint32_t requests =
            paper->requests * (play->is_long ? PLAN_LONG_HORIZON : 1);
        struct plan_latency l;
        int error = plan_fleet_play(&sources[s].setup, fleet, PLAN_BY_CLOSED,
                                    requests, play->route, &l);
        if (error != 0) {
            return error;
        }
        values[s][0] = l.ttft_p50;
        values[s][1] = l.ttft_p99;
        values[s][2] = l.tpot_p50 * 1000;
        values[s][3] = l.tpot_p99 * 1000;
    }
    for (uint32_t i = 0; i < 4; i++) {
        if (play->what[i] == NULL) {
            continue;
        }
        add_row(paper, (struct plan_paper_row){.table = "Table 3",
                                               .what = play->what[i],
                                               .paper = play->paper[i],
                                               .reconstructed = values[MADE][i],
                                               .measured = values[COUNTED][i],
                                               .digits = digits[i]});
    }
    return 0;
}

/* What is known of bytes per token. */
struct learned {
    double mean;
    double apart; /* mean distance of samples from it */
};

/* After n samples that are all `truth`: the paper's recurrence, or the same
 * without what its start still weighs. */
static struct learned
learn(double truth, uint32_t n, bool unbiased)
{
    const double keep = 0.95;
    struct learned l = {.mean = 4.0};

    for (uint32_t i = 0; i < n && !unbiased; i++) {
        l.apart = keep * l.apart + (1 - keep) * fabs(truth - l.mean);
        l.mean = keep * l.mean + (1 - keep) * truth;
    }
    return unbiased ? (struct learned){.mean = truth} : l;
}

/* Share of requests, in %, that the estimate of a prompt by its bytes puts on the
 * other side of the threshold; an answer is as long as it was allowed to be. */
static double
misrouted(const struct source *s, double truth, struct learned l)
{
    double share = 0;

    for (uint32_t i = 0; i < s->mix.count; i++) {
        const struct plan_point *p = &s->mix.points[i];
        double prompt = ceil(p->prompt * truth / (l.mean - l.apart));
        bool is_short = plan_point_total(p) <= THRESHOLD;
        share += is_short != (prompt + p->output <= THRESHOLD) ? p->weight : 0;
    }
    return share * 100;
}

/* Bytes of a token as the paper has them, and of Qwen3's tokenizer: XQuAD in
 * English and Chinese, the code of agents. */
static const struct {
    const char *estimated;
    const char *missed;
    const char *paper[2];
    double truth[SOURCES];
} kinds[] = {
    {"bytes a token after 50: English (4.48; 4.67)",
     "mis-routed then, %: English",
     {"4.41", "0.3"},
     {4.48, 4.67}},
    {"  code (3.52; 3.86)", "  code", {"3.47", "0.2"}, {3.52, 3.86}},
    {"  CJK (2.01; 3.98)", "  CJK", {"2.08", "0.8"}, {2.01, 3.98}},
    {"  mixed (3.81; -)", "  mixed", {"3.74", "0.4"}, {3.81, NAN}},
};

enum way {
    PAPERS,   /* its recurrence */
    UNBIASED, /* without what its start still weighs */
    CONSTANT, /* four bytes a token */
};

static void
add_misrouted(struct plan_paper *paper, const struct source azure[SOURCES],
              const char *table, enum way way)
{
    double sum = 0;

    for (uint32_t i = 0; i < COUNT(kinds); i++) {
        double values[SOURCES];
        for (uint32_t s = 0; s < SOURCES; s++) {
            double truth = kinds[i].truth[s];
            struct learned l =
                learn(truth, way == CONSTANT ? 0 : 50, way == UNBIASED);
            values[s] = isnan(truth) ? NAN : misrouted(&azure[s], truth, l);
        }
        sum += values[MADE];
        add_row(paper, (struct plan_paper_row){
                           .table = table,
                           .what = kinds[i].missed,
                           .paper = way == PAPERS ? kinds[i].paper[1] : NULL,
                           .reconstructed = values[MADE],
                           .measured = values[COUNTED],
                           .digits = 2});
    }
    if (way == CONSTANT) {
        add_row(paper,
                (struct plan_paper_row){.table = table,
                                        .what = "  as many of each",
                                        .paper = "4.1",
                                        .reconstructed = sum / COUNT(kinds),
                                        .measured = NAN,
                                        .digits = 2});
    }
}

static void
add_estimates(struct plan_paper *paper, const struct source azure[SOURCES])
{
    static const char *const tables[] = {"Table 4", "unbiased"};

    for (enum way way = PAPERS; way < CONSTANT; way++) {
        for (uint32_t i = 0; i < COUNT(kinds); i++) {
            const double *truth = kinds[i].truth;
            bool unbiased = way == UNBIASED;
            add_row(paper,
                    (struct plan_paper_row){
                        .table = tables[way],
                        .what = kinds[i].estimated,
                        .paper = unbiased ? NULL : kinds[i].paper[0],
                        .reconstructed = learn(truth[MADE], 50, unbiased).mean,
                        .measured = learn(truth[COUNTED], 50, unbiased).mean,
                        .digits = 3});
        }
        add_misrouted(paper, azure, tables[way], way);
    }
    add_misrouted(paper, azure, "always 4", CONSTANT);
}

static void
add_money(struct plan_paper *paper)
{
    const struct plan_shape qwen3_235b = {94, 4, 128, 2, 0, 0, 8};
    struct plan_shape split = qwen3_235b;
    double kib = (double)plan_kv_bytes(&qwen3_235b) / 8 / 1024;
    double million = 8 * 3.67 * 8760 / 1e6;

    split.gpus = 1; /* no head is kept twice */
    double split_kib = (double)plan_kv_bytes(&split) / 8 / 1024;
    double slots = floor(133.4e9 / (split_kib * 1024) / 8192);
    const struct plan_paper_row rows[] = {
        {"Table 5", "Qwen3-235B, MI300X TP8: KiB a token of a GPU", "23.5",
         split_kib, NAN, 1},
        {"Table 5", "  with its 4 heads kept by all 8 GPUs", NULL, kib, NAN, 1},
        {"Table 5", "  slots of 8,192 tokens", "676", slots, NAN, 0},
        {"Table 5", "  with its 4 heads kept by all 8 GPUs", NULL,
         floor(133.4e9 / (kib * 1024) / 8192), NAN, 0},
        {"Table 5", "  197 nodes, million $ a year", "50.6", 197 * million, NAN,
         1},
        {"Table 5", "  137 nodes", "35.2", 137 * million, NAN, 1},
        {"Table 5", "  saving, %", "30.5", (1 - 137.0 / 197) * 100, NAN, 1},
    };

    for (uint32_t i = 0; i < COUNT(rows); i++) {
        add_row(paper, rows[i]);
    }
}

static double
saving_at(const struct source *s, uint32_t threshold)
{
    struct plan_fleet fleet;

    plan_fleet_size(&s->setup, threshold, &fleet);
    return plan_saving(s->whole.engines[PLAN_BY_CLOSED],
                       fleet.engines[PLAN_BY_CLOSED]) *
           100;
}

static void
add_figure(struct plan_paper *paper, const struct source sources[SETS][SOURCES])
{
    static const char *const printed[SETS][PLAN_SWEEP_MAX] = {
        {NULL, NULL, NULL, "16.6", ">19", "~20"},
        {NULL, NULL, NULL, "38.5", "less", "less"},
    };
    static const char *const what[SETS][PLAN_SWEEP_MAX] = {
        {"Azure, saving in %: threshold 1,024", "  2,048", "  4,096", "  8,192",
         "  16,384", "  32,768"},
        {"LMSYS: threshold 1,024", "  2,048", "  4,096", "  8,192", "  16,384",
         "  32,768"},
    };

    for (uint32_t set = 0; set < SETS; set++) {
        for (uint32_t i = 0; i < PLAN_SWEEP_MAX; i++) {
            add_row(
                paper,
                (struct plan_paper_row){
                    .table = "Figure 6",
                    .what = what[set][i],
                    .paper = printed[set][i],
                    .reconstructed = saving_at(&sources[set][MADE], 1024U << i),
                    .measured = saving_at(&sources[set][COUNTED], 1024U << i),
                    .digits = 1});
        }
    }
}

int
plan_paper_make(uint32_t requests, uint64_t seed, struct plan_paper *paper)
{
    struct source sources[SETS][SOURCES];
    int error = 0;

    *paper = (struct plan_paper){.requests = requests};
    for (uint32_t i = 0; i < SETS * SOURCES; i++) {
        plan_mix_init(&sources[i / SOURCES][i % SOURCES].mix);
    }
    for (uint32_t i = 0; i < SETS * SOURCES && error == 0; i++) {
        error = source_init(&sources[i / SOURCES][i % SOURCES],
                            &cdfs[i / SOURCES][i % SOURCES], seed);
    }
    if (error == 0) {
        add_sizes(paper, sources);
    }
    for (uint32_t i = 0; i < COUNT(plays) && requests > 0 && error == 0; i++) {
        error = add_play(paper, sources[plays[i].set], &plays[i]);
    }
    if (error == 0) {
        add_estimates(paper, sources[AZURE]);
        add_money(paper);
        add_figure(paper, sources);
    }
    for (uint32_t i = 0; i < SETS * SOURCES; i++) {
        plan_mix_fini(&sources[i / SOURCES][i % SOURCES].mix);
    }
    return error;
}

static void
put_value(struct buf *out, double value, int digits)
{
    if (isnan(value)) {
        buf_printf(out, " %13s", "-");
    } else if (isinf(value)) {
        buf_printf(out, " %13s", "never");
    } else {
        buf_printf(out, " %13.*f", digits, value);
    }
}

void
plan_paper_table(const struct plan_paper *paper, struct buf *out)
{
    buf_add_text(
        out,
        "arXiv 2604.09613 beside the same formulas: with distributions that "
        "were made to\ngive its tables 1 and 2 (reconstructed), and with "
        "lengths of real services\n(measured: Azure 2023, LMSYS-Chat-1M; in "
        "table "
        "4 bytes of Qwen3's tokens).\n1,000 requests/s, threshold 8,192.\n\n");
    buf_printf(out, "%-10s %-46s %6s %13s %13s\n", "", "", "paper",
               "reconstructed", "measured");
    for (uint32_t i = 0; i < paper->count; i++) {
        const struct plan_paper_row *row = &paper->rows[i];
        if (i > 0 && row->table != paper->rows[i - 1].table) {
            buf_add_text(out, "\n");
        }
        buf_printf(out, "%-10s %-46s %6s", row->table, row->what,
                   row->paper != NULL ? row->paper : "-");
        put_value(out, row->reconstructed, row->digits);
        put_value(out, row->measured, row->digits);
        buf_add_text(out, "\n");
    }
}

void
plan_paper_json(const struct plan_paper *paper, struct buf *out)
{
    struct json_out json;

    json_out_init(&json, out);
    json_out_object_begin(&json);
    json_out_put_uint(&json, "requests", paper->requests);
    json_out_key(&json, "rows");
    json_out_array_begin(&json);
    for (uint32_t i = 0; i < paper->count; i++) {
        const struct plan_paper_row *row = &paper->rows[i];
        json_out_object_begin(&json);
        json_out_put_text(&json, "table", row->table);
        json_out_put_text(&json, "what", row->what);
        json_out_key(&json, "paper");
        if (row->paper != NULL) {
            json_out_text(&json, row->paper);
        } else {
            json_out_null(&json);
        }
        plan_json_number(&json, "reconstructed", row->reconstructed);
        plan_json_number(&json, "measured", row->measured);
        json_out_object_end(&json);
    }
    json_out_array_end(&json);
    json_out_object_end(&json);
    buf_add_text(out, "\n");
}
