/* The command line of kvasir replay. */
#include "chaos/replay/replay_options.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(member) offsetof(struct replay_options, member)

#define TRACE_ENGINES   8U
#define TRACE_KV_TOKENS 307328U

#define SHARES_THRESHOLD 300U /* permille: what goes with weight 0 */

/* clang-format off */
static const struct flag table[] = {
    {"trace", FLAG_TEXT, AT(trace), 0, 0, "FILE", NULL,
     "requests of a real service, a file; - is stdin"},
    {"workload", FLAG_TEXT, AT(workload_name), 0, 0, "NAME", NULL,
     "generated requests, one of those listed below;\n"
     "b2b unless --trace is given"},
    {"policy", FLAG_TEXT, AT(policy_list), 0, 0, "LIST", REPLAY_POLICY_LIST,
     "policies to compare, separated by commas; with\n"
     "--nodes-at none unless this is given"},
    {"nodes-at", FLAG_TEXT, AT(node_list), 0, 0, "LIST", NULL,
     "play in real time against real nodes, HOST:PORT of\n"
     "each, separated by commas; instead of --nodes"},
    {"model", FLAG_TEXT, AT(model), 0, 0, "NAME", NULL,
     "what to ask real nodes for; default: the first model\n"
     "that they have"},
    {"headers", FLAG_ANY, AT(headers_file), 0, 0, "FILE", NULL,
     "further lines of each real request's head, such as\n"
     "a key, or an operator's x-kvasir-token"},
    {"open-max", FLAG_COUNT, AT(open_max), 1, 65536, "N", "1024",
     "real requests at one time; further ones wait here,\n"
     "and their times go on"},
    {"sequential", FLAG_SWITCH, AT(sequential), 0, 0, NULL, NULL,
     "no time: one request after the other, at one node,\n"
     "each answered by one token"},
    {"speeds", FLAG_TEXT, AT(speed_list), 0, 0, "LIST", "1",
     "how fast engines are, as multiples of the timing:\n"
     "the first, the second, ...; over and over"},
    {"same-speed", FLAG_SWITCH, AT(same_speed), 0, 0, NULL, NULL,
     "nodes take all engines for equally fast, and learn\n"
     "nothing of their speeds"},
    {"scale", FLAG_TEXT, AT(scaler_name), 0, 0, "RULE", "fixed",
     "who says how many engines there are: fixed, the rule\n"
     "of scale.mode, or a plain one on the queue"},
    {"scale-max", FLAG_COUNT, AT(scale_max), 0, WORKERS_MAX, "N", "0",
     "engines at most; 0: four times as many as --engines,\n"
     "with which it begins"},
    {"provision-s", FLAG_COUNT, AT(provision_s), 1, 86400, "S", "120",
     "how long an engine takes to come"},
    {"cool-down-s", FLAG_COUNT, AT(cool_down_s), 1, 86400, "S", "300",
     "how long one fewer must be enough"},
    {"wave-s", FLAG_COUNT, AT(wave_s), 0, 864000, "S", "0",
     "arrivals swing about their rate, once in S seconds;\n"
     "0: they do not"},
    {"swing", FLAG_REAL, AT(swing), 0, 1, "PART", "0.6",
     "by so much of it"},
    {"islands", FLAG_TEXT, AT(island_list), 0, 0, "LIST", "1",
     "how many conversations come to each island, such as\n"
     "3,1; engines and nodes are on them in turn"},
    {"away-ms", FLAG_COUNT, AT(away_ms), 0, 60000, "MS", "80",
     "time to another island and back"},
    {"link-ms", FLAG_COUNT, AT(link_ms), 0, 600000, "MS", "80",
     "what nodes count that as (island.links)"},
    {"slo-ttft-ms", FLAG_COUNT, AT(slo_ttft_ms), 1, 3600000, "MS", "500",
     "time to the first token that counts as good"},
    {"slo-itl-ms", FLAG_COUNT, AT(slo_itl_ms), 1, 3600000, "MS", "50",
     "mean time between tokens that counts as good"},
    {"load", FLAG_TEXT, AT(load_list), 0, 0, "LIST", "1",
     "multiples of the arrival rate, such as 1,1.5,2"},
    {"nodes", FLAG_COUNT, AT(nodes), 1, REPLAY_NODES_MAX, "N", "3",
     "routers; each request comes to one at random"},
    {"engines", FLAG_COUNT, AT(engines), 0, WORKERS_MAX, "N", "0",
     "engines; 0: as many as the workload is meant for,\n"
     "8 for a trace"},
    {"prefill", FLAG_COUNT, AT(prefill), 0, WORKERS_MAX - 1, "N", "0",
     "split: so many engines compute prompts, the others\n"
     "go on with them; 0: half"},
    {"transfer-tps", FLAG_COUNT, AT(transfer_tokens_per_s), 1, 4e9, "N",
     ELECT_TEXT(REPLAY_TRANSFER_TPS),
     "split: prompt tokens passed on per second"},
    {"split-tokens", FLAG_COUNT, AT(split_tokens), 0, 1000000000, "N",
     ELECT_TEXT(ELECT_SPLIT_TOKENS), "policy.split_tokens"},
    {"short", FLAG_COUNT, AT(short_engines), 0, WORKERS_MAX - 1, "N", "0",
     "two pools: so many engines, the first ones, take no\n"
     "more than --short-len tokens of prompt and answer;\n"
     "0: one pool"},
    {"short-len", FLAG_COUNT, AT(short_len), 1, 1000000000, "N",
     ELECT_TEXT(ELECT_POOL_THRESHOLD),
     "longest of those that --json tells of as short, and\n"
     "that --short takes"},
    {"pool-threshold", FLAG_COUNT, AT(pool_threshold), 0, POOL_TOKENS_MAX, "N",
     "0", "policy.pool_threshold; 0: as --short-len"},
    {"pool-tune", FLAG_SWITCH, AT(pool_tune), 0, 0, NULL, NULL,
     "the threshold is what policy.pool_tune finds for all\n"
     "requests of the load, as if none were cached"},
    {"kv-tokens", FLAG_COUNT, AT(kv_tokens), 0, 1e9, "N", "0",
     "tokens in one engine's cache; 0: the workload's,\n"
     "307,328 for a trace"},
    {"block-tokens", FLAG_COUNT, AT(block_tokens), 1, 4096, "N", "16",
     "tokens of one cache block"},
    {"timing", FLAG_TEXT, AT(timing_name), 0, 0, "NAME", "h100-70b-tp4",
     "how fast an engine is; one of those listed below"},
    {"requests", FLAG_COUNT, AT(requests), 1, 200000, "N", "2000",
     "how many to generate, or to read from the trace"},
    {"until", FLAG_REAL, AT(until_s), 0, 1e9, "S", "0",
     "only what arrives in the first S seconds; 0: all"},
    {"seed", FLAG_COUNT, AT(seed), 0, 9e15, "N", "1",
     "of the workload and of every draw"},
    {"event-us", FLAG_COUNT, AT(event_us), 0, 1e9, "US", "200",
     "delay of an event from an engine to its readers"},
    {"gossip-us", FLAG_COUNT, AT(gossip_us), 0, 1e9, "US", "5000",
     "delay of a message between nodes"},
    {"expect-alone", FLAG_SWITCH, AT(expect_alone), 0, 0, NULL, NULL,
     "nodes do not tell peers what they sent where;\n"
     "peers learn it from the engines' events alone"},
    {"expected-ms", FLAG_COUNT, AT(expected_ms), 0, 3600000, "MS",
     ELECT_TEXT(CONFIG_EXPECTED_S) "000",
     "how long blocks are expected at an engine before\n"
     "its events confirm them (mirror.expected)"},
    {"recompute-weight", FLAG_COUNT, AT(recompute_weight), 0, 100, "N",
     ELECT_TEXT(ELECT_RECOMPUTE_WEIGHT),
     "policy.recompute_weight of kvasir, belief and\n"
     "all_seeing_greedy"},
    {"answers-whole", FLAG_SWITCH, AT(answers_whole), 0, 0, NULL, NULL,
     "clients do not stream: a node learns only with the\n"
     "last token that a prompt was computed"},
    {"json", FLAG_SWITCH, AT(json), 0, 0, NULL, NULL,
     "the result as one JSON object"},
    {"svg", FLAG_TEXT, AT(svg), 0, 0, "FILE", NULL,
     "write a plot of the loads there, too"},
    {"help", FLAG_SWITCH, AT(help), 0, 0, NULL, NULL, "this text"},
};
/* clang-format on */

static const struct flags flags = {table, sizeof(table) / sizeof(table[0])};

/* The next word of a list; false: none is left. */
static bool
next_word(const char **list, struct slice *word)
{
    if (*list == NULL) {
        return false;
    }
    const char *comma = strchr(*list, ',');
    word->ptr = *list;
    word->len = comma != NULL ? (size_t)(comma - *list) : strlen(*list);
    *list = comma != NULL ? comma + 1 : NULL;
    return true;
}

static int
read_policies(struct replay_options *o, char *fault, size_t size)
{
    const char *list = o->policy_list;
    struct slice word;

    while (next_word(&list, &word)) {
        enum replay_policy policy;
        if (!replay_policy_find(word, &policy)) {
            (void)snprintf(fault, size,
                           "--policy: unknown policy %.*s; see --help",
                           (int)word.len, word.ptr);
            return FLAGS_E_BAD;
        }
        for (uint32_t i = 0; i < o->policies_count; i++) {
            if (o->policies[i] == policy) {
                (void)snprintf(fault, size, "--policy: %.*s appears twice",
                               (int)word.len, word.ptr);
                return FLAGS_E_BAD;
            }
        }
        o->policies[o->policies_count++] = policy;
    }
    return 0;
}

static int
read_loads(struct replay_options *o, char *fault, size_t size)
{
    const char *list = o->load_list;
    struct slice word;

    while (next_word(&list, &word)) {
        char *end;
        double load = strtod(word.ptr, &end);
        if (word.len == 0 || end != word.ptr + word.len ||
            !(load >= 0.001 && load <= 1000)) {
            (void)snprintf(
                fault, size,
                "--load: %.*s is not a number between 0.001 and 1000",
                (int)word.len, word.ptr);
            return FLAGS_E_BAD;
        }
        if (o->loads_count == REPLAY_LOADS_MAX) {
            (void)snprintf(fault, size, "--load: %u at most", REPLAY_LOADS_MAX);
            return FLAGS_E_BAD;
        }
        o->loads_permille[o->loads_count++] = (uint32_t)lround(load * 1000);
    }
    return 0;
}

static int
read_speeds(struct replay_options *o, char *fault, size_t size)
{
    const char *list = o->speed_list;
    struct slice word;
    uint32_t count = 0;

    while (next_word(&list, &word)) {
        char *end;
        double speed = strtod(word.ptr, &end);
        if (word.len == 0 || end != word.ptr + word.len ||
            !(speed >= 0.01 && speed <= 60) || count == WORKERS_MAX) {
            (void)snprintf(fault, size,
                           "--speeds: %.*s is not a number between 0.01 and "
                           "60, or too many",
                           (int)word.len, word.ptr);
            return FLAGS_E_BAD;
        }
        o->speed_permille[count++] = (uint16_t)lround(speed * 1000);
    }
    for (uint32_t i = count; i < WORKERS_MAX; i++) {
        o->speed_permille[i] = o->speed_permille[i - count];
    }
    return 0;
}

static int
read_islands(struct replay_options *o, char *fault, size_t size)
{
    const char *list = o->island_list;
    struct slice word;

    while (next_word(&list, &word)) {
        char *end;
        unsigned long weight = strtoul(word.ptr, &end, 10);
        if (word.len == 0 || end != word.ptr + word.len || weight == 0 ||
            weight > 1000 || o->islands == REPLAY_ISLANDS_MAX) {
            (void)snprintf(fault, size,
                           "--islands: %.*s is not a number between 1 and "
                           "1000, or more than %u",
                           (int)word.len, word.ptr, REPLAY_ISLANDS_MAX);
            return FLAGS_E_BAD;
        }
        o->island_weight[o->islands++] = (uint32_t)weight;
    }
    return 0;
}

/* Engines and nodes that are not as a fleet's are. */
static bool
is_apart(const struct replay_options *o)
{
    bool apart = o->sequential;

    for (uint32_t i = 0; i < o->policies_count; i++) {
        enum replay_policy policy = o->policies[i];
        apart = apart || policy == REPLAY_SPLIT || policy == REPLAY_GREEDY ||
                policy == REPLAY_SOONEST || policy == REPLAY_STICKY;
    }
    return apart;
}

/* Once all else is known. */
static int
check_islands(const struct replay_options *o, char *fault, size_t size)
{
    if (o->islands <= 1) {
        return 0;
    }
    if (is_apart(o)) {
        (void)snprintf(fault, size,
                       "--islands: not with --sequential, nor with split, "
                       "all_seeing_greedy, soonest and sticky; see --policy");
        return FLAGS_E_BAD;
    }
    if (o->islands > o->nodes || o->islands > o->engines) {
        (void)snprintf(fault, size,
                       "--islands: each needs a node and an engine");
        return FLAGS_E_BAD;
    }
    return 0;
}

static int
check_scale(struct replay_options *o, char *fault, size_t size)
{
    if (!replay_scaler_find(slice_of(o->scaler_name), &o->scaler)) {
        (void)snprintf(fault, size, "--scale: unknown rule %s; see --help",
                       o->scaler_name);
        return FLAGS_E_BAD;
    }
    if (o->scaler != REPLAY_SCALE_FIXED && (is_apart(o) || o->islands > 1)) {
        (void)snprintf(fault, size,
                       "--scale: not with --sequential, --islands, nor with "
                       "split, all_seeing_greedy, soonest and sticky; see "
                       "--policy");
        return FLAGS_E_BAD;
    }
    return 0;
}

static int
find_names(struct replay_options *o, char *fault, size_t size)
{
    const char *name = o->workload_name;

    if (o->trace != NULL && name != NULL) {
        (void)snprintf(fault, size, "give --trace or --workload, not both");
        return FLAGS_E_BAD;
    }
    if (o->trace == NULL) {
        o->workload = replay_workload_find(name != NULL ? name : "b2b");
        if (o->workload == NULL) {
            (void)snprintf(fault, size,
                           "--workload: unknown workload %s; see --help", name);
            return FLAGS_E_BAD;
        }
    }
    o->timing = replay_timing_find(o->timing_name);
    if (o->timing == NULL) {
        (void)snprintf(fault, size, "--timing: unknown timing %s; see --help",
                       o->timing_name);
        return FLAGS_E_BAD;
    }
    return 0;
}

/* Real nodes take the place of --nodes, and have policies of their own. */
static int
read_nodes(struct replay_options *o, char *fault, size_t size)
{
    const char *list = o->node_list;
    struct slice word;

    while (next_word(&list, &word)) {
        if (o->nodes_at_count == REPLAY_NODES_MAX) {
            (void)snprintf(fault, size, "--nodes-at: %u at most",
                           REPLAY_NODES_MAX);
            return FLAGS_E_BAD;
        }
        const char *wanted =
            url_parse_peer(word, &o->nodes_at[o->nodes_at_count++]);
        if (wanted != NULL) {
            (void)snprintf(fault, size, "--nodes-at: expected %s, not %.*s",
                           wanted, (int)word.len, word.ptr);
            return FLAGS_E_BAD;
        }
    }
    if (o->nodes_at_count == 0) {
        return 0;
    }
    if (o->loads_count > 1 || o->svg != NULL) {
        (void)snprintf(fault, size,
                       "--nodes-at: one --load, and no --svg: what one load "
                       "leaves in caches the next would find");
        return FLAGS_E_BAD;
    }
    o->nodes = o->nodes_at_count;
    o->real_engines = (uint32_t)o->engines;
    if (strcmp(o->policy_list, REPLAY_POLICY_LIST) == 0) {
        o->policies_count = 0;
    }
    return 0;
}

static void
fill_cluster(struct replay_options *o)
{
    const struct replay_workload *w = o->workload;

    if (o->engines == 0) {
        o->engines = w != NULL ? w->engines : TRACE_ENGINES;
    }
    if (o->kv_tokens == 0) {
        o->kv_tokens = w != NULL ? w->kv_tokens : TRACE_KV_TOKENS;
    }
}

/* Two pools are for policies that count tokens. */
static int
check_pools(const struct replay_options *o, char *fault, size_t size)
{
    if (o->short_engines == 0) {
        return 0;
    }
    if (o->short_engines >= o->engines) {
        (void)snprintf(fault, size,
                       "--short: no engine is left for long requests "
                       "(--engines)");
        return FLAGS_E_BAD;
    }
    for (uint32_t i = 0; i < o->policies_count; i++) {
        enum replay_policy policy = o->policies[i];
        if (policy != REPLAY_KVASIR && policy != REPLAY_SLO &&
            policy != REPLAY_SHARES) {
            (void)snprintf(fault, size,
                           "--short: %s does not count tokens; --policy may "
                           "have kvasir, slo and shares",
                           replay_policy_name(policy));
            return FLAGS_E_BAD;
        }
    }
    return 0;
}

int
replay_options_parse(struct replay_options *options, char **argv, char *fault,
                     size_t fault_size)
{
    *options = (struct replay_options){.help = false};
    int r = flags_parse(&flags, options, argv + 1, fault, fault_size);
    if (r != 0 || options->help) {
        return r;
    }
    r = find_names(options, fault, fault_size);
    if (r == 0) {
        r = read_policies(options, fault, fault_size);
    }
    if (r == 0) {
        r = read_loads(options, fault, fault_size);
    }
    if (r == 0) {
        r = read_speeds(options, fault, fault_size);
    }
    if (r == 0) {
        r = read_islands(options, fault, fault_size);
    }
    if (r == 0) {
        r = read_nodes(options, fault, fault_size);
    }
    fill_cluster(options);
    if (r == 0) {
        r = check_islands(options, fault, fault_size);
    }
    if (r == 0) {
        r = check_scale(options, fault, fault_size);
    }
    if (r == 0 && options->kv_tokens < options->block_tokens) {
        (void)snprintf(fault, fault_size,
                       "--kv-tokens: less than one block (--block-tokens)");
        return FLAGS_E_BAD;
    }
    if (r == 0 && options->prefill >= options->engines) {
        (void)snprintf(fault, fault_size,
                       "--prefill: no engine is left to go on (--engines)");
        return FLAGS_E_BAD;
    }
    return r == 0 ? check_pools(options, fault, fault_size) : r;
}

static const char manual_head[] =
    "kvasir replay: a load through routers and engines, policy by policy.\n"
    "\n"
    "Simulates nodes that run the real election over the real indexes, and\n"
    "engines with real block caches, batching and measured times, on virtual\n"
    "time. Two runs with one seed print the same, to the byte.\n"
    "\n"
    "usage: kvasir replay [--FLAG VALUE]...\n"
    "       zstd -dc TRACE.zst | kvasir replay --trace -\n"
    "       kvasir replay --nodes-at HOST:PORT,HOST:PORT [--policy kvasir]\n"
    "\n";

static const char manual_tail[] =
    "\n"
    "traces: told apart by their first line; one request or conversation a "
    "line\n"
    "  {\"timestamp\": ms, \"input_length\": N, \"output_length\": N, "
    "\"hash_ids\": [..]}\n"
    "            an id for each 512 tokens of the prompt (Mooncake)\n"
    "  TIMESTAMP,ContextTokens,GeneratedTokens   prompts share nothing "
    "(Azure)\n"
    "  {\"timestamp\": us, \"input\": prompt, \"output\": text}   (LMCache)\n"
    "  {\"traj\": [{\"role\": .., \"content\": ..}, ..]}   a conversation "
    "(tau-bench)\n"
    "\n"
    "policies: those of `kvasir serve --policy`, and\n"
    "  slo       kvasir with slo.ttft and slo.itl as --slo-ttft-ms and "
    "-itl-ms\n"
    "  shares    kvasir with policy.recompute_weight 0, cache_threshold 0.3\n"
    "  split     kvasir with prefill and decode apart: see --prefill\n"
    "  belief    the rule of kvasir without engines' events: what was sent "
    "where\n"
    "  all_seeing_greedy  the rule of kvasir by a router that sees every cache "
    "and\n"
    "            every queue as it is, at once\n"
    "  soonest   the same sight, and goes where the first token comes soonest\n"
    "  sticky    the same sight, and goes where the longest prefix is\n"
    "\n"
    "result\n"
    "  promised  tokens of prompts that elections expected in a cache\n"
    "  cached    those that engines found there\n"
    "  TTFT      time to first token, from arrival; routing itself takes none\n"
    "  ITL       a request's mean time between tokens; E2E: arrival to the "
    "last "
    "one\n"
    "  SLO       requests within --slo-ttft-ms and --slo-itl-ms\n"
    "  GPU       seconds that engines spent in steps\n"
    "  output    tokens generated per second, from the first arrival to the "
    "last\n"
    "            token; reqs likewise\n"
    "  imbalance tokens computed by the busiest engine, to the mean: 1.00 is "
    "even\n"
    "  most open requests at one engine at one time\n"
    "  modes     affinity: where the longest prefix is; balance: no prefix "
    "worth\n"
    "            it, or it would wait too long there; imbalanced: balance,\n"
    "            because loads were too far apart\n"
    "\n"
    "With --scale or --wave-s a table has what engines were paid for, from the "
    "moment\n"
    "in which they were asked for, the most at one time, changes, and how "
    "many of\n"
    "these took back the one before.\n"
    "\n"
    "With --nodes-at a row `real` has what these nodes made of the same "
    "requests, in\n"
    "real time; with one seed each goes to the same node as in the "
    "simulation.\n"
    "Prompts are sent as token ids to /v1/completions, answers streamed, "
    "as long as\n"
    "the load has them (ignore_eos). promised: x-kvasir-overlap, which "
    "nodes send\n"
    "with --placement-headers on, or to an operator; cached: what usage "
    "says; TTFT\n"
    "and E2E: from the moment a request was due; imbalance: over "
    "--engines, or those\n"
    "that answered. What an engine says is not the load's answer, so next "
    "turns find\n"
    "none of it in a cache. A request that fails is counted, and its next "
    "turns are\n"
    "not sent: connect, timeout (10 min), status (not 2xx), severed "
    "(closed too\n"
    "early), no_done (no [DONE]), bad (no such stream), stopped (by SIGINT "
    "or\n"
    "SIGTERM). With --policy rows of simulated nodes stand before it: give "
    "these the\n"
    "--engines, --kv-tokens, --block-tokens and --timing of the real ones.\n"
    "--sequential sends one request after the other.\n"
    "\n"
    "With --islands a second table has the requests that stayed on their "
    "island\n"
    "(inside) and those that left it (across). --link-ms 0: nodes do not know "
    "of\n"
    "islands; --link-ms 600000: a wall, as long as the island stands.\n"
    "\n"
    "--json prints one object: load, timing, nodes, engines, kv_tokens, seed,\n"
    "requests, sharing (of all blocks of prompts, 0..1) and rows, one for "
    "each\n"
    "load and policy: policy, load, counts of requests (sent, finished, "
    "refused,\n"
    "modes) and tokens (prompt_, cached_, promised_, output_tokens), "
    "evicted_blocks,\n"
    "told_blocks (in decisions told to peers), split (requests of which two "
    "engines\n"
    "did a half each), waited (requests that let peers decide before them),\n"
    "lost (records an index had no room for), ttft_p50_ms,\n"
    "_p90_, _p99_, whole_p50_ms, _p99_ (arrival to last token),\n"
    "itl_p50_ms, _p99_, short and long (of --short-len: finished,\n"
    "ttft_p50_ms, _p99_), pool_threshold, within_slo (requests), busy_ms (of\n"
    "all engines), took_ms, output_tokens_per_s, requests_per_s, imbalance,\n"
    "most_open; with --islands inside and across; engine_ms, engines_most,\n"
    "scale_changes, scale_turns; with --nodes-at nodes_at and model. The row "
    "`real`\n"
    "has 0 where only a simulation knows, and failed, failures (by kind), "
    "not_sent,\n"
    "placed (answers that told what was held), nodes and workers (id, "
    "requests,\n"
    "failed).\n"
    "\n"
    "Exit codes: 0 fine, whatever failed at real nodes; 1 failed while "
    "running, a\n"
    "real node did not answer at the start, or stopped by a signal; 2 bad "
    "usage or\n"
    "trace.\n";

void
replay_options_help(struct buf *out)
{
    const struct replay_workload *w;
    const struct replay_timing *t;

    buf_add_text(out, manual_head);
    flags_help(&flags, out);
    buf_add_text(out,
                 "\nworkloads (engines and KV tokens they are meant for)\n");
    for (uint32_t i = 0; (w = replay_workload_at(i)) != NULL; i++) {
        buf_printf(out, "  %-9s %s;\n            %g/s at x1 (%u x %u)\n",
                   w->name, w->purpose, w->rate_milli / 1000.0, w->engines,
                   w->kv_tokens);
    }
    buf_add_text(out, "\ntimings\n");
    for (uint32_t i = 0; (t = replay_timing_at(i)) != NULL; i++) {
        buf_printf(out, "  %-13s %s\n", t->name, t->meaning);
    }
    buf_add_text(out, manual_tail);
}

/* Places for engines that come, beside those that are there. */
static void
set_scale(struct replay_setup *setup, const struct replay_options *options)
{
    uint32_t most = options->scale_max != 0 ? (uint32_t)options->scale_max
                                            : 4 * setup->engines;
    uint64_t places = (uint64_t)REPLAY_SCALE_PLACES * setup->engines;

    setup->scaler = options->scaler;
    setup->begin = setup->engines;
    setup->rule = (struct scale_config){
        .min = 1,
        .max = most < WORKERS_MAX ? most : WORKERS_MAX,
        .target_permille = 800,
        .step = 2,
        .provision_ms = (uint32_t)options->provision_s * 1000,
        .cool_down_ms = (uint32_t)options->cool_down_s * 1000,
    };
    if (options->scaler != REPLAY_SCALE_FIXED) {
        setup->engines = places < WORKERS_MAX ? (uint32_t)places : WORKERS_MAX;
    }
}

struct replay_setup
replay_options_setup(const struct replay_options *options,
                     enum replay_policy policy, uint32_t load_permille)
{
    struct elect_config elect = ELECT_CONFIG_DEFAULT;

    elect.recompute_weight = (uint32_t)options->recompute_weight;
    elect.split_tokens = (uint32_t)options->split_tokens;
    elect.pool_threshold =
        (uint32_t)(options->pool_threshold != 0 ? options->pool_threshold
                                                : options->short_len);
    if (policy == REPLAY_SHARES) {
        elect.recompute_weight = 0;
        elect.cache_threshold_permille = SHARES_THRESHOLD;
    }
    struct replay_setup setup = {
        .policy = policy,
        .nodes = (uint32_t)options->nodes,
        .engines = (uint32_t)options->engines,
        .load_permille = load_permille,
        .seed = options->seed,
        .event_us = (uint32_t)options->event_us,
        .gossip_us = (uint32_t)options->gossip_us,
        .gauge_us = REPLAY_GAUGE_US,
        .metrics_us = REPLAY_METRICS_US,
        .expected_ms = (uint32_t)options->expected_ms,
        .prefill = (uint32_t)options->prefill,
        .short_engines = (uint32_t)options->short_engines,
        .short_len = (uint32_t)options->short_len,
        .pool_tune = options->pool_tune,
        .transfer_tokens_per_s = (uint32_t)options->transfer_tokens_per_s,
        .sequential = options->sequential,
        .slo_ttft_ms = (uint32_t)options->slo_ttft_ms,
        .slo_itl_ms = (uint32_t)options->slo_itl_ms,
        .same_speed = options->same_speed,
        .expect_alone = options->expect_alone,
        .answers_whole = options->answers_whole,
        .islands = options->islands,
        .away_us = (uint32_t)options->away_ms * 1000,
        .link_ms = (uint32_t)options->link_ms,
        .elect = elect,
        .engine =
            replay_timing_engine(options->timing, (uint32_t)options->kv_tokens,
                                 (uint32_t)options->block_tokens),
    };
    memcpy(setup.speed_permille, options->speed_permille,
           sizeof(setup.speed_permille));
    if (options->wave_s > 0) {
        setup.wave_us = options->wave_s * UINT64_C(1000000);
        setup.swing_permille = (uint32_t)lround(options->swing * 1000);
    }
    set_scale(&setup, options);
    memcpy(setup.island_weight, options->island_weight,
           sizeof(setup.island_weight));
    return setup;
}
