/* The command line of kvasir plan. */
#include "chaos/plan/plan_options.h"

#include <inttypes.h>
#include <stdio.h>

#include "node/node.h"

#define AT(member)   offsetof(struct plan_options, member)
#define RATE_DEFAULT 1000
#define LEN_LEAST    1024U

/* clang-format off */
static const struct flag table[] = {
    {"trace", FLAG_TEXT, AT(trace), 0, 0, "FILE", NULL,
     "requests of a real service, as kvasir replay reads\n"
     "them; - is stdin"},
    {"cdf", FLAG_TEXT, AT(cdf), 0, 0, "FILE", NULL,
     "total lengths: JSON, [[tokens, share], ...], both\n"
     "rising, the last share 1; - is stdin"},
    {"mix", FLAG_TEXT, AT(mix), 0, 0, "FILE", NULL,
     "what nodes saw in the last days: one GET /admin/mix\n"
     "after another; - is stdin"},
    {"model", FLAG_TEXT, AT(model), 0, 0, "NAME", NULL,
     "of a mix: this model's requests; all by default"},
    {"tenant", FLAG_TEXT, AT(tenant), 0, 0, "NAME", NULL,
     "of a mix: this tenant's; all by default"},
    {"output-share", FLAG_REAL, AT(output_share), 0.02, 0.95, "X", "0.1",
     "of a CDF: the answer's mean share of the total"},
    {"output-deviation", FLAG_REAL, AT(output_deviation), 0, 1, "X", "0.05",
     "and its standard deviation"},
    {"rate", FLAG_REAL, AT(rate), 0, 1e6, "N", "0",
     "requests per second; 0: the trace's own, those of a\n"
     "mix's busiest hour, 1,000 of a CDF"},
    {"engine", FLAG_TEXT, AT(engine_name), 0, 0, "NAME", "h100-70b-tp4",
     "one of those listed below"},
    {"kv-tokens", FLAG_COUNT, AT(kv_tokens), 0, 1e9, "N", "0",
     "tokens in an engine's cache, as its log says; 0:\n"
     "what the GPUs' memory leaves beside the weights"},
    {"max-seqs", FLAG_COUNT, AT(seqs_max), 0, 4096, "N", "0",
     "requests an engine runs at once; 0: its default"},
    {"max-model-len", FLAG_COUNT, AT(max_len), 0, PLAN_TOKENS_MAX, "N", "0",
     "longest total that the fleet must take; 0: the power\n"
     "of two that takes all of these requests"},
    {"threshold", FLAG_COUNT, AT(threshold), 1, PLAN_TOKENS_MAX, "N", "8192",
     "longest total that goes to the short pool"},
    {"slo-ttft-ms", FLAG_COUNT, AT(slo_ttft_ms), 1, 3600000, "MS", "2000",
     "promised: first token"},
    {"slo-tpot-ms", FLAG_COUNT, AT(slo_tpot_ms), 1, 3600000, "MS", "80",
     "promised: a request's mean time between tokens"},
    {"price", FLAG_REAL, AT(price), 0, 10000, "USD", "2.21",
     "of one GPU for one hour"},
    {"requests", FLAG_COUNT, AT(requests), 0, 200000, "N", "10000",
     "of the short horizon; the long one has six times as\n"
     "many; 0: formulas alone, nothing is played"},
    {"seed", FLAG_COUNT, AT(seed), 0, 9e15, "N", "42", "of every draw"},
    {"paper", FLAG_SWITCH, AT(paper), 0, 0, NULL, NULL,
     "print the tables of arXiv 2604.09613 beside ours,\n"
     "from mixes that this program has in it"},
    {"json", FLAG_SWITCH, AT(json), 0, 0, NULL, NULL,
     "the result as one JSON object"},
    {"svg", FLAG_TEXT, AT(svg), 0, 0, "FILE", NULL,
     "write a plot over the threshold there, too"},
    {"help", FLAG_SWITCH, AT(help), 0, 0, NULL, NULL, "this text", .letter = 'h'},
};
/* clang-format on */

static const struct flags flags = {table, sizeof(table) / sizeof(table[0])};

static int
choose_engine(struct plan_options *o, char *fault, size_t fault_size)
{
    if (!plan_engine_find(o->engine_name, &o->engine)) {
        (void)snprintf(fault, fault_size,
                       "--engine: unknown engine %s; see --help",
                       o->engine_name);
        return FLAGS_E_BAD;
    }
    if (o->kv_tokens > 0) {
        o->engine.kv_tokens = o->kv_tokens;
    }
    if (o->seqs_max > 0) {
        o->engine.seqs_max = (uint32_t)o->seqs_max;
    }
    return 0;
}

int
plan_options_parse(struct plan_options *options, char **argv, char *fault,
                   size_t fault_size)
{
    *options = (struct plan_options){.help = false};
    int outcome = flags_parse(&flags, options, argv + 1, fault, fault_size);

    if (outcome != 0 || options->help) {
        return outcome;
    }
    int sources = (options->trace != NULL) + (options->cdf != NULL) +
                  (options->mix != NULL) + options->paper;
    if (sources != 1) {
        (void)snprintf(fault, fault_size,
                       "one of --trace, --cdf, --mix and --paper is needed; "
                       "see --help");
        return FLAGS_E_BAD;
    }
    if (options->mix == NULL &&
        (options->model != NULL || options->tenant != NULL)) {
        (void)snprintf(fault, fault_size,
                       "--model and --tenant choose from a --mix alone");
        return FLAGS_E_BAD;
    }
    return choose_engine(options, fault, fault_size);
}

static const char manual_head[] =
    "usage: kvasir plan --trace FILE | --cdf FILE | --mix FILE | --paper\n"
    "                   [OPTION]...\n"
    "\n"
    "Says how many engines a service needs, of which kind, and what they "
    "cost:\n"
    "as one fleet, and as two pools of which one takes short requests alone.\n"
    "\n"
    "examples:\n"
    "  zstd -dc azure2023_conv.csv.zst | kvasir plan --trace - --rate 100\n"
    "  kvasir plan --cdf lengths.json --rate 500 --engine h100-7b\n"
    "  curl -s http://127.0.0.1:9080/admin/mix | kvasir plan --mix -\n"
    "  for n in a b c; do curl -s http://$n:9080/admin/mix; done |\n"
    "    kvasir plan --mix - --model qwen3-8b --engine h100-7b\n"
    "  kvasir plan --paper\n"
    "\n";

static const char manual_tail[] =
    "\n"
    "result\n"
    "  slots     requests of the longest length that fit into an engine's "
    "cache\n"
    "  batch     requests that run in a full engine by the corrected form: "
    "what\n"
    "            they really need, and none that would break --slo-tpot-ms\n"
    "  closed    engines by the closed form of arXiv 2604.09613: slots / "
    "E[S],\n"
    "            and 8, 5 or 2 % beside the mean\n"
    "  corrected by one that has prefill, attention, one budget of tokens in "
    "a\n"
    "            step, and queueing\n"
    "  played    the least number that keeps both promises for 99 % in a\n"
    "            simulation of the engines, the least loaded first\n"
    "  too slow  no number of these engines keeps the promises\n"
    "  -         none, or not played\n"
    "\n"
    "--json prints one object: the setup; one_fleet and two_pools, each with\n"
    "pools, engines (closed, corrected, played) and latency of both horizons;\n"
    "thresholds; what_if; seen, of a mix; buy. With --paper: rows of table,\n"
    "what, paper, reconstructed, measured.\n"
    "\n"
    "Exit codes: 0 fine, 1 failed while running, 2 bad usage or input.\n";

void
plan_options_help(struct buf *out)
{
    const char *meaning;
    const char *name;

    buf_add_text(out, manual_head);
    flags_help(&flags, out);
    buf_add_text(out, "\nengines\n");
    for (uint32_t i = 0; (name = plan_engine_name(i, &meaning)) != NULL; i++) {
        struct plan_engine engine;
        bool found = plan_engine_find(name, &engine);
        CHECK(found);
        buf_printf(out, "  %-13s %s; %" PRIu64 " tokens\n", name, meaning,
                   engine.kv_tokens);
    }
    buf_add_text(out, manual_tail);
}

/* The power of two that takes the longest request. */
static uint32_t
round_up(uint32_t tokens)
{
    uint32_t len = LEN_LEAST;

    while (len < tokens) {
        len *= 2;
    }
    return len;
}

const char *
plan_options_file(const struct plan_options *options)
{
    return options->trace != NULL ? options->trace
           : options->cdf != NULL ? options->cdf
                                  : options->mix;
}

int
plan_options_setup(const struct plan_options *options,
                   const struct plan_mix *mix, const struct plan_seen *seen,
                   struct plan_setup *setup, char *fault, size_t fault_size)
{
    uint32_t longest = plan_mix_longest(mix);

    longest = seen->longest > longest ? seen->longest : longest;
    *setup = (struct plan_setup){
        .mix = mix,
        .engine = options->engine,
        .slo = {.ttft_ms = (uint32_t)options->slo_ttft_ms,
                .tpot_ms = (uint32_t)options->slo_tpot_ms},
        .rate = options->rate > 0        ? options->rate
                : seen->busiest_rate > 0 ? seen->busiest_rate
                                         : RATE_DEFAULT,
        .threshold = (uint32_t)options->threshold,
        .max_len = options->max_len > 0 ? (uint32_t)options->max_len
                                        : round_up(longest),
        .requests = (uint32_t)options->requests,
        .price = options->price,
        .seed = options->seed,
        .seen = *seen,
    };
    if (plan_mix_part(mix, 0, setup->max_len).count == 0) {
        (void)snprintf(fault, fault_size,
                       "--max-model-len: every request is longer");
        return FLAGS_E_BAD;
    }
    if (plan_engine_slots(&setup->engine, setup->max_len) == 0) {
        (void)snprintf(fault, fault_size,
                       "%s: a request of %u tokens needs more than the %llu of "
                       "an engine's cache; give --max-model-len or --kv-tokens",
                       setup->engine.name, setup->max_len,
                       (unsigned long long)setup->engine.kv_tokens);
        return FLAGS_E_BAD;
    }
    return 0;
}
