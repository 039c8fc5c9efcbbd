#!/usr/bin/env python3
"""Plays policies at fractions of a fleet's capacity and prints a table for each count of nodes.

    chaos/replay/tables.py --replay build/chaos/kvasir-replay --workload rag
    chaos/replay/tables.py --trace TRACE --nodes 1,7 --seeds 5 --policy kvasir,dynamo
    chaos/replay/tables.py --workload rag --objectives
    chaos/replay/tables.py --everything TRACES --nodes 1,3,7 --policy all

--policy all is every one. --objectives plays kvasir with several weights of
recomputation, and slo, instead of policies. --everything plays four workloads and the
traces of that folder, each as the tables of README.md have it. What ends in .zst is
unpacked by zstd.

The capacity is measured first: the requests a second that kvasir gets done when
they come eight times as fast as the load has them, as the mean over the seeds.
A cell has the cached share of prompt tokens, of the share that was promised, the 99th percentile of the time to
the first token, and the share of requests within the SLO: means over the seeds,
the time with half the width of its 95 % confidence interval (Student's t). A cell of
--objectives has what somebody may want most, as means over the seeds: the mean of the median
and of the 99th percentile of the time to the first token, the same of the whole answer's,
output tokens a second, and the share within the SLO.
"""
import argparse
import json
import statistics
import subprocess
import sys

# Two-sided 95 % quantiles for 1, 2, ... degrees of freedom; more: about the last.
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


ALL = ("kvasir,slo,shares,belief,round_robin,least_load,random,power_of_two,rendezvous,"
       "prefix_hash,consistent_hashing,cache_aware,composite,dynamo,all_seeing_greedy,soonest,sticky")
WEIGHTS = (1, 2, 4, 6, 8, 12)
EVERYTHING = (  # workload or trace, requests, tokens of a block
    ("b2b", 800, 64), ("tiered", 700, 128), ("rag", 800, 64), ("chat", 600, 64),
    ("mooncake_conversation_h1.jsonl.zst", 1200, 512), ("azure2023_conv.csv.zst", 1500, 64),
    ("taubench_airline_trials_even.jsonl.zst", 500, 64))


def interval(values):
    """Half the width of the mean's confidence interval; None for one value."""
    if len(values) < 2:
        return None
    t = T_95[min(len(values) - 1, len(T_95)) - 1]
    return t * statistics.stdev(values) / len(values) ** 0.5


def play(args, nodes, seed, loads, policies, weight=None):
    """The rows of one seed: {(policy, load as given): row}."""
    command = [args.replay, "--json", "--requests", str(args.requests), "--nodes",
               str(nodes), "--seed", str(seed), "--policy", policies,
               "--load", ",".join(loads), "--block-tokens", str(args.block_tokens)]
    command += ["--recompute-weight", str(weight)] if weight else []
    command += ["--trace", "-"] if args.trace else ["--workload", args.workload]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, input=args.recorded)
    rows = json.loads(done.stdout)["rows"]
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
        played = [(f"weight {w}", "kvasir", [play(args, nodes, s, loads, "kvasir", w)
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
    parser.add_argument("--objectives", action="store_true")
    parser.add_argument("--everything", metavar="TRACES")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fractions", default="0.5,0.75,1,1.25,1.5")
    args = parser.parse_args()
    if args.everything:
        for name, args.requests, args.block_tokens in EVERYTHING:
            args.workload, args.trace = name, None
            if "." in name:
                args.trace = f"{args.everything}/{name}"
            tables(args)
    else:
        tables(args)
    return 0


def recorded(path):
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dc", path], check=True, stdout=subprocess.PIPE).stdout
    with open(path, "rb") as trace:
        return trace.read()


def tables(args):
    args.recorded = recorded(args.trace) if args.trace else None
    nodes = [int(n) for n in args.nodes.split(",")]
    rate = {load: statistics.mean(play(args, 3, seed, [load], "kvasir")["kvasir", load]
                                  ["requests_per_s"] for seed in range(1, args.seeds + 1))
            for load in ("0.25", "8")}
    full = rate["8"] / (rate["0.25"] * 4)  # as a multiple of the arrival rate
    for n in nodes:
        table(args, n, rate["8"], full)


if __name__ == "__main__":
    sys.exit(main())
