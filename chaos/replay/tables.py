#!/usr/bin/env python3
"""Plays policies at fractions of a fleet's capacity and prints one table.

    chaos/replay/tables.py --replay build/chaos/kvasir-replay --workload rag
    chaos/replay/tables.py --trace TRACE --nodes 7 --seeds 5 --policy kvasir,dynamo

The capacity is measured first: the requests a second that kvasir gets done when
they come eight times as fast as the load has them, as the mean over the seeds.
A cell has the cached share of prompt tokens, the 99th percentile of the time to
the first token, and the share of requests within the SLO: means over the seeds,
the time with half the width of its 95 % confidence interval (Student's t).
"""
import argparse
import json
import statistics
import subprocess
import sys

# Two-sided 95 % quantiles for 1, 2, ... degrees of freedom; more: about the last.
T_95 = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)


def interval(values):
    """Half the width of the mean's confidence interval; None for one value."""
    if len(values) < 2:
        return None
    t = T_95[min(len(values) - 1, len(T_95)) - 1]
    return t * statistics.stdev(values) / len(values) ** 0.5


def play(args, seed, loads, policies):
    """The rows of one seed: {(policy, load as given): row}."""
    command = [args.replay, "--json", "--requests", str(args.requests), "--nodes",
               str(args.nodes), "--seed", str(seed), "--policy", policies,
               "--load", ",".join(loads)]
    command += ["--trace", args.trace] if args.trace else ["--workload", args.workload]
    rows = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rows"]
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
    return f"{cached:.1f} / {show(times, form)} / {slo:.0f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--replay", default="build/chaos/kvasir-replay")
    load = parser.add_mutually_exclusive_group()
    load.add_argument("--workload", default="b2b")
    load.add_argument("--trace")
    parser.add_argument("--policy", default="kvasir,round_robin")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--fractions", default="0.5,0.75,1,1.25,1.5")
    args = parser.parse_args()
    seeds = range(1, args.seeds + 1)
    rate = {load: statistics.mean(play(args, seed, [load], "kvasir")["kvasir", load]
                                  ["requests_per_s"] for seed in seeds)
            for load in ("0.25", "8")}
    full = rate["8"] / (rate["0.25"] * 4)  # as a multiple of the arrival rate
    fractions = args.fractions.split(",")
    loads = ["%.3f" % (float(f) * full) for f in fractions]
    played = [play(args, seed, loads, args.policy) for seed in seeds]
    print(f"{args.trace or args.workload}: {args.requests} requests, {args.nodes} nodes, seeds "
          f"1 to {args.seeds}; capacity {rate['8']:.1f} requests/s (x{full:.2f}); cached % / "
          "TTFT p99, s / SLO %\n")
    print("| of capacity | " + " | ".join(fractions) + " |")
    print("|---" * (len(fractions) + 1) + "|")
    for policy in args.policy.split(","):
        cells = [cell([rows[policy, load] for rows in played]) for load in loads]
        print(f"| {policy} | " + " | ".join(cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
