#!/usr/bin/env python3
"""Plays policies at fractions of a fleet's capacity and prints a table for each count of nodes.

    chaos/replay/tables.py --replay build/chaos/kvasir-replay --workload rag
    chaos/replay/tables.py --trace TRACE --nodes 1,7 --seeds 5 --policy kvasir,dynamo
    chaos/replay/tables.py --workload rag --objectives
    chaos/replay/tables.py --everything TRACES --nodes 1,3,7 --policy all
    chaos/replay/tables.py --everything TRACES --beside-one --seeds 16
    chaos/replay/tables.py --fleets
    chaos/replay/tables.py --islands

--policy all is every one. --objectives plays kvasir with several weights of
recomputation, and slo, instead of policies. --beside-one plays kvasir with one node and
with several. --everything plays four workloads and the
traces of that folder, each as the tables of README.md have it. --fleets has its tables of
engines that come and go, --islands that of leaving an island. What ends in .zst is unpacked by
zstd, and in .tar.zst by tar, too.

The capacity is measured first: the requests a second that kvasir gets done when
they come --flood times (8) as fast as the load has them, as the mean over the seeds.
A cell has the cached share of prompt tokens, of the share that was promised, the 99th percentile of the time to
the first token, and the share of requests within the SLO: means over the seeds,
the time with half the width of its 95 % confidence interval (Student's t). A cell of
--objectives has what somebody may want most, as means over the seeds: the mean of the median
and of the 99th percentile of the time to the first token, the same of the whole answer's,
output tokens a second, and the share within the SLO. A cell of --beside-one is the
time of several nodes as a multiple of that of one with the same seed: the mean of its logarithms
over the seeds, and the 95 % confidence interval. In its rows, peers hear of a decision after so long.
"""
import argparse
import json
import math
import statistics
import subprocess
import sys

# Two-sided 95 % quantiles for 1, 2, ... degrees of freedom; more: about the last.
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


ALL = ("kvasir,slo,shares,belief,round_robin,least_load,random,power_of_two,rendezvous,"
       "prefix_hash,consistent_hashing,cache_aware,composite,dynamo,all_seeing_greedy,soonest,sticky")
WEIGHTS = (1, 2, 4, 6, 8, 12)
NEWS_US = (5000, 2000, 0)  # until peers hear of a decision
EVERYTHING = (  # workload or trace, requests, tokens of a block, speed that fills the fleet
    ("b2b", 800, 64, 8), ("tiered", 700, 128, 8), ("rag", 800, 64, 8), ("chat", 600, 64, 8),
    ("mooncake_conversation_h1.jsonl.zst", 1200, 512, 8), ("azure2023_conv.csv.zst", 1500, 64, 128),
    ("taubench_airline_trials_even.jsonl.zst", 500, 64, 8), ("lmcache_miniswe_a.tar.zst", 206, 64, 128))
WAVES = (  # requests, seconds of a wave, its swing, fixed fleets
    (43200, 7200, 0.8, (6, 7, 8, 10)), (21600, 1800, 0.6, (5, 6, 7, 8)))
APART = (  # workload, requests, load, conversations of each island, ms that leaving one counts
    ("b2b", 800, 0.6, "1,1", (0, 80, 400, 600000)), ("b2b", 800, 1.23, "1,1", (0, 80, 400, 600000)),
    ("b2b", 800, 1.23, "3,1", (0, 80, 400, 600000)), ("chat", 600, 4, "1,1", (0, 80, 400, 600000)))


def interval(values):
    """Half the width of the mean's confidence interval; None for one value."""
    if len(values) < 2:
        return None
    t = T_95[min(len(values) - 1, len(T_95)) - 1]
    return t * statistics.stdev(values) / len(values) ** 0.5


def rows_of(args, recorded, *options):
    done = subprocess.run([args.replay, "--json", *map(str, options)], check=True,
                          stdout=subprocess.PIPE, input=recorded)
    return json.loads(done.stdout)["rows"]


def play(args, nodes, seed, loads, policies, *options):
    """The rows of one seed: {(policy, load as given): row}."""
    load = ["--trace", "-"] if args.trace else ["--workload", args.workload]
    rows = rows_of(args, args.recorded, "--requests", args.requests, "--nodes", nodes, "--seed", seed,
                   "--policy", policies, "--load", ",".join(loads), "--block-tokens", args.block_tokens,
                   *options, *load)
    names = policies.split(",")
    return {(row["policy"], loads[i // len(names)]): row for i, row in enumerate(rows)}


def show(values, form):
    wide = interval(values)
    return form % statistics.mean(values) + ("" if wide is None else " ±" + form % wide)


def cell(rows):
    cached = statistics.mean(100 * r["cached_tokens"] / max(r["prompt_tokens"], 1) for r in rows)
    slo = statistics.mean(100 * r["within_slo"] / max(r["sent"], 1) for r in rows)
    times = [r["ttft_p99_ms"] / 1000 for r in rows]
    form = "%.0f" if statistics.mean(times) >= 10 else "%.2f"
    promised = statistics.mean(100 * r["promised_tokens"] / max(r["prompt_tokens"], 1) for r in rows)
    of = f" of {promised:.1f}" if promised > 0 else ""
    return f"{cached:.1f}{of} / {show(times, form)} / {slo:.0f}"


def goals(rows):
    def mean(name, scale):
        return statistics.mean(r[name] for r in rows) / scale

    slo = statistics.mean(100 * r["within_slo"] / max(r["sent"], 1) for r in rows)
    return (f"{mean('ttft_p50_ms', 1):.0f}, {mean('ttft_p99_ms', 1):.0f} / "
            f"{mean('whole_p50_ms', 1000):.1f}, {mean('whole_p99_ms', 1000):.1f} / "
            f"{mean('output_tokens_per_s', 1):.0f} / {slo:.0f}")


def table(args, nodes, rate, full):
    seeds = range(1, args.seeds + 1)
    fractions = args.fractions.split(",")
    loads = ["%.3f" % (float(f) * full) for f in fractions]
    what = ("TTFT p50, p99, ms / whole answer p50, p99, s / tokens/s / SLO %"
            if args.objectives else "cached % of promised % / TTFT p99, s / SLO %")
    print(f"{(args.trace or args.workload).split('/')[-1]}: {args.requests} requests, blocks of {args.block_tokens} "
          f"tokens, {nodes} nodes, seeds 1 to {args.seeds}; capacity {rate:.1f} requests/s "
          f"(x{full:.2f}); {what}\n")
    print("| of capacity | " + " | ".join(fractions) + " |")
    print("|---" * (len(fractions) + 1) + "|")
    if args.objectives:
        played = [(f"weight {w}", "kvasir", [play(args, nodes, s, loads, "kvasir",
                                                   "--recompute-weight", w)
                                              for s in seeds]) for w in WEIGHTS]
        played.append(("slo", "slo", [play(args, nodes, s, loads, "slo") for s in seeds]))
    else:
        policies = ALL if args.policy == "all" else args.policy
        all_rows = [play(args, nodes, s, loads, policies) for s in seeds]
        played = [(p, p, all_rows) for p in policies.split(",")]
    form = goals if args.objectives else cell
    for name, policy, rows in played:
        cells = [form([r[policy, load] for r in rows]) for load in loads]
        print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    print(flush=True)


def ratio(several, one):
    logs = [math.log(a / b) for a, b in zip(several, one)]
    middle, wide = statistics.mean(logs), interval(logs) or 0
    return "%.2f (%.2f - %.2f)" % tuple(math.exp(middle + by) for by in (0, -wide, wide))


def beside_one(args, nodes, full):
    fractions = args.fractions.split(",")
    loads = ["%.3f" % (float(f) * full) for f in fractions]

    def times(count, news_us):
        rows = [play(args, count, seed, loads, "kvasir", "--gossip-us", news_us)
                for seed in range(1, args.seeds + 1)]
        return lambda name, load: [r["kvasir", load][name] for r in rows]

    print(f"| {(args.trace or args.workload).split('/')[-1]}, {nodes} nodes | " + " | ".join(fractions) + " |")
    print("|---" * (len(fractions) + 1) + "|")
    one = times(1, NEWS_US[0])
    for news_us in NEWS_US:
        several = times(nodes, news_us)
        for name in ("ttft_p50_ms", "ttft_p99_ms"):
            cells = [ratio(several(name, load), one(name, load)) for load in loads]
            print(f"| {name[5:8]}, {news_us / 1000:.0f} ms | " +
                  " | ".join(cells) + " |", flush=True)
    print(flush=True)


def mean(rows, value, form):
    return form % statistics.mean(value(r) for r in rows)


def slo(row):
    return 100 * row["within_slo"] / row["sent"]


def cached(row):
    return 100 * row["cached_tokens"] / max(row["prompt_tokens"], 1)


def fleets(args):
    seeds = range(1, args.seeds + 1)
    for requests, wave_s, swing, fixed in WAVES:
        print(f"| {requests} requests, waves of {wave_s} s, swing {swing} | engine hours | most | changes (taken "
              "back) | SLO % | TTFT p99, s | cached % |\n|---|---|---|---|---|---|---|")
        ways = [(f"fixed, {n}", "fixed", n) for n in fixed]
        for name, scale, engines in [*ways, ("the rule, from 6", "rule", 6),
                                     ("a plain rule on queues, from 6", "queue", 6)]:
            rows = [rows_of(args, None, "--workload", "b2b", "--requests", requests, "--load", 0.6,
                            "--wave-s", wave_s, "--swing", swing, "--policy", "kvasir",
                            "--block-tokens", 64, "--scale", scale, "--engines", engines, "--seed", s,
                            *(("--scale-max", 12) if scale != "fixed" else ()))[0] for s in seeds]
            changes = (mean(rows, lambda r: r["scale_changes"], "%.0f ") +
                       mean(rows, lambda r: r["scale_turns"], "(%.0f)") if scale != "fixed" else "")
            print(f"| {name} | {mean(rows, lambda r: r['engine_ms'] / 3600000, '%.2f')} | "
                  f"{max(r['engines_most'] for r in rows)} | {changes} | "
                  f"{show([slo(r) for r in rows], '%.2f')} | "
                  f"{show([r['ttft_p99_ms'] / 1000 for r in rows], '%.2f')} | "
                  f"{mean(rows, cached, '%.1f')} |", flush=True)
        print()


def islands(args):
    print("| | crossed % | cached %: all / inside / across | TTFT p99 ms: all / inside / across | p50 ms "
          "| SLO % |\n|---|---|---|---|---|---|")
    for workload, requests, load, parts, links in APART:
        for link in [None, *links]:
            apart = ["--islands", parts, "--away-ms", 80, "--link-ms", link] if link is not None else []
            rows = [rows_of(args, None, "--workload", workload, "--requests", requests, "--load", load,
                            "--nodes", 4, "--policy", "kvasir", "--seed", s, *apart)[0]
                    for s in range(1, args.seeds + 1)]
            sides = [[r["inside"] for r in rows], [r["across"] for r in rows]] if apart else []
            sides = [side for side in sides if all(s["finished"] for s in side)]
            crossed = (mean(rows, lambda r: 100 * r["across"]["finished"] / r["finished"], "%.0f")
                       if apart else "")
            print(f"| {workload} x{load} {parts}, {'no islands' if link is None else link} | {crossed} | "
                  f"{' / '.join(mean(x, cached, '%.1f') for x in [rows, *sides])} | "
                  f"{' / '.join(mean(x, lambda r: r['ttft_p99_ms'], '%.0f') for x in [rows, *sides])} | "
                  f"{mean(rows, lambda r: r['ttft_p50_ms'], '%.0f')} | {mean(rows, slo, '%.0f')} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replay", default="build/chaos/kvasir-replay")
    load = parser.add_mutually_exclusive_group()
    load.add_argument("--workload", default="b2b")
    load.add_argument("--trace")
    parser.add_argument("--policy", default="kvasir,round_robin")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--block-tokens", type=int, default=16)
    parser.add_argument("--nodes", default="3")
    parser.add_argument("--flood", type=int, default=8)
    parser.add_argument("--objectives", action="store_true")
    parser.add_argument("--beside-one", action="store_true")
    parser.add_argument("--everything", metavar="TRACES")
    parser.add_argument("--fleets", action="store_true")
    parser.add_argument("--islands", action="store_true")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fractions", default="0.5,0.75,1,1.25,1.5")
    args = parser.parse_args()
    if args.everything:
        for name, args.requests, args.block_tokens, args.flood in EVERYTHING:
            args.workload, args.trace = name, None
            if "." in name:
                args.trace = f"{args.everything}/{name}"
            tables(args)
    elif args.fleets:
        fleets(args)
    elif args.islands:
        islands(args)
    else:
        tables(args)
    return 0


def recorded(path):
    if path.endswith(".zst"):
        unpack = ["tar", "--zstd", "-xOf"] if path.endswith(".tar.zst") else ["zstd", "-dc"]
        return subprocess.run([*unpack, path], check=True, stdout=subprocess.PIPE).stdout
    with open(path, "rb") as trace:
        return trace.read()


def tables(args):
    args.recorded = recorded(args.trace) if args.trace else None
    nodes = [int(n) for n in args.nodes.split(",")]
    rate = {load: statistics.mean(play(args, 3, seed, [load], "kvasir")["kvasir", load]
                                  ["requests_per_s"] for seed in range(1, args.seeds + 1))
            for load in ("0.25", str(args.flood))}
    top = rate[str(args.flood)]
    full = top / (rate["0.25"] * 4)  # as a multiple of the arrival rate
    for n in nodes:
        if args.beside_one:
            beside_one(args, n, full)
        else:
            table(args, n, top, full)


if __name__ == "__main__":
    sys.exit(main())
