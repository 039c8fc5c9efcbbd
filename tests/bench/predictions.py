#!/usr/bin/env python3
"""Where predictions of cached tokens are wrong, and why: three nodes with the model's files,
stand-in engines with events, people who talk. The README of the repository has a run,
node/view/accuracy.h the reasons.

    predictions.py --build BUILD [--engines 32] [--seconds 35]

Prints a row for each situation.
"""
import argparse
import pathlib
import signal
import sys
import time

import mesh
import rig as rigs

HERE = pathlib.Path(__file__).resolve().parent
MODEL, MODELS = "kvasir/tiny", HERE.parent / "models"
LOAD = {"model": MODEL, "conversations": 100000, "groups": 16, "system-bytes": 4000,
        "user-bytes": 400, "max-tokens": 64, "think-ms": 1500}
USERS, BLOCKS, FEW_BLOCKS = 72, 4096, 512
# What it is called, the engines' blocks, the seeds of one load at each node (none: one load at
# the name of all), whether a node is killed halfway.
SITUATIONS = (
    ("one name", BLOCKS, (), False),
    ("one name, a node is killed", BLOCKS, (), True),
    ("at each node its own people", BLOCKS, (1, 2, 3), False),
    ("the same, prompts fill half of a cache", FEW_BLOCKS, (1, 2, 3), False),
    ("all say the same at each node at once", BLOCKS, (1, 1, 1), False),
)


def judged(decision):
    return (decision["status"] == 200 and decision["cached_known"] and decision["whole"]
            and decision["source"] == "mirror")


def elected_ms(decision):
    return decision["time_ms"] + decision["route_us"] / 1000


def apart_ms(decision, others):
    """To the nearest election of as long a prompt for the same worker at another node."""
    return min((abs(elected_ms(decision) - elected_ms(o)) for o in others
                if o["node"] != decision["node"] and o["worker"] == decision["worker"]
                and o["prompt_tokens"] == decision["prompt_tokens"]), default=float("inf"))


def row_of(name, decisions):
    told = [d for d in decisions if judged(d)]
    apart = [d["cached_tokens"] - d["predicted_tokens"] for d in told]
    more = [d for d, tokens in zip(told, apart) if tokens > 16]
    less = sum(tokens < -16 for tokens in apart)
    twins = [ms for ms in (apart_ms(d, decisions) for d in more) if ms < 1000]
    return (name, len(told), len(told) - len(more) - less, len(more), len(twins),
            f"{max(twins):.1f}" if twins else "", less)


def play(build, engines, seconds, situation):
    name, blocks, seeds, kills = situation
    with mesh.bench(build) as b:
        flags = b.engines(engines, "--model", MODEL, "--tokens", str(MODELS),
                          "--blocks", str(blocks))
        hosts, port = [f"127.0.0.{i + 1}" for i in range(3)], rigs.free_port()
        nodes = b.nodes(3, ["--log.level", "warning", "--tokens.dir", str(MODELS),
                            "--limits.decisions_max", "100000", *flags], hosts, port)
        b.eligible(nodes, engines)
        if seeds:
            loads = [b.load(f"http://{node.serve}",
                            {**LOAD, "users": USERS // len(nodes), "seed": seed})
                     for node, seed in zip(nodes, seeds)]
        else:
            server = mesh.dns_of(b, hosts)
            loads = [b.load(f"http://mesh.test:{port}", {**LOAD, "users": USERS},
                            ("--resolver", server.address))]
        time.sleep(seconds / 2)
        if kills:
            nodes.pop().process.kill()
        time.sleep(seconds / 2)
        for load in loads:
            load.send_signal(signal.SIGTERM)
            b.result(load)
        decisions = [{**d, "node": node.name} for node in nodes
                     for d in node.json("/admin/decisions?count=100000")]
        return row_of(name, decisions)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--engines", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=35)
    args = parser.parse_args()
    print("| | judged | within a block | more was cached | of these, as long a prompt elected "
          "for the worker by another node | at most so many ms apart | less was cached |")
    print("|" + "---|" * 7, flush=True)
    for situation in SITUATIONS:
        row = play(args.build, args.engines, args.seconds, situation)
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except (rigs.Missing, rigs.Failed) as why:
        sys.exit(f"predictions: {why}")
