#!/usr/bin/env python3
"""Whether anything grows under a steady load: three nodes behind a name, 256 workers with
events, people who talk. README.md says how to read it; mesh/README.md has a run.

    endure.py --build BUILD [--minutes 30] [--rate 40]

Prints a row for each quarter, and then what holds the memory of the first node. Nothing
fails because it was slow. Each of the 16 engines is 16 workers, by as many addresses: what
a node keeps and follows for a worker is there 256 times, and one machine can play it.
"""
import argparse
import os
import pathlib
import statistics
import sys
import threading
import time

import growth
import mesh
import rig as rigs

NODES, ENGINES, ADDRESSES = 3, 16, 16
QUARTERS = 4
THINK_S, ANSWER_S = 2.0, 0.1  # the second one about; users follow from both and the rate
LOAD = {"turns": 6, "groups": 64, "system-bytes": 2000, "user-bytes": 300, "max-tokens": 16,
        "think-ms": int(THINK_S * 1000)}
# What fills while a node runs, each up to a bound of its own.
HELD = ("mirror", "ledger", "gossip_names", "gossip_log", "belief", "tokens_cache")


def engines(b):
    """The --worker flags of nodes."""
    flags = []
    for n in range(ENGINES):
        events, replay = rigs.free_port(), rigs.free_port()
        _, ready = b.rig.start_ready(
            [b.program("kvasir-engine"), "--host", "0.0.0.0", "--port", "0", "--name", f"e{n}",
             "--seed", str(n + 1), "--speed", "2", "--events", f"tcp://0.0.0.0:{events}",
             "--replay", f"tcp://0.0.0.0:{replay}"], f"e{n}")
        port = dict(ready)["http"].rsplit(":", 1)[1]
        for address in range(ADDRESSES):
            host = f"127.1.{n}.{address + 1}"
            flags += ["--worker", f"http://{host}:{port},id=w{n * ADDRESSES + address:03},"
                      f"events=tcp://{host}:{events},replay=tcp://{host}:{replay}"]
    return flags


class Watch(threading.Thread):
    """What nodes hold, once a second."""

    def __init__(self, nodes):
        super().__init__(daemon=True)
        self.nodes, self.over = nodes, threading.Event()
        self.rss, self.files = [], []
        self.start()

    def run(self):
        while not self.over.wait(1):
            self.rss.append([node.use.rss_bytes() / 1e6 for node in self.nodes])
            self.files.append([len(os.listdir(f"/proc/{node.process.pid}/fd"))
                               for node in self.nodes])

    def end(self):
        """(MB, descriptors): of the node that has most, by the median of seconds."""
        self.over.set()
        self.join()
        return [max(map(statistics.median, zip(*rows))) for rows in (self.rss, self.files)]


def quarter(b, nodes, url, extra, changes):
    watch = Watch(nodes)
    before, begun = [node.use.cpu_us() for node in nodes], time.monotonic()
    told = b.result(b.load(url, changes, extra))
    took = time.monotonic() - begun
    cpu = [(node.use.cpu_us() - was) / took / 1e4 for node, was in zip(nodes, before)]
    rss, files = watch.end()
    requests, tokens = told["requests"], told["tokens"]
    return (f"{took / 60:.1f}", f"{requests['sent']:,}", f"{requests['sent'] / took:.1f}",
            requests["failed"], requests["retried"],
            f"{tokens['cached'] / tokens['prompt'] * 100:.1f}",
            f"{told['ttft_ms']['p50']:.0f}, {told['ttft_ms']['p99']:.0f}",
            f"{told['whole_ms']['p99']:.0f}", f"{statistics.fmean(cpu):.1f}", f"{rss:.1f}",
            f"{files:.0f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=float, default=40, help="requests a second, about")
    args = parser.parse_args()
    users = max(1, round(args.rate * (THINK_S + ANSWER_S)))
    conversations = max(users, round(args.rate * args.minutes * 60 / QUARTERS / LOAD["turns"]))
    with mesh.bench(args.build) as b:
        flags, hosts = engines(b), [f"127.0.0.{i + 1}" for i in range(NODES)]
        port = rigs.free_port()
        nodes = b.nodes(NODES, ["--log.level", "warning", *flags], hosts, port)
        b.eligible(nodes, ENGINES * ADDRESSES)
        server = mesh.dns_of(b, hosts)
        print("| minutes | requests | /s | failed | sent again | cached, % | TTFT p50, p99, ms "
              "| whole p99, ms | CPU of a node, % of a core | RSS, MB | descriptors |")
        print("|" + "---|" * 11, flush=True)
        held = []
        for at in range(QUARTERS):
            row = quarter(b, nodes, f"http://mesh.test:{port}", ("--resolver", server.address),
                          {**LOAD, "users": users, "conversations": conversations,
                           "seed": at + 1})
            print("| " + " | ".join(map(str, row)) + " |", flush=True)
            held.append(growth.metrics(nodes[0], *(f"kvasir_{name}_bytes" for name in HELD),
                                       'kvasir_process_heap_bytes{state="used"}'))
        print("\nMB at the end of each quarter, of the first node\n\n| "
              + " | ".join((*HELD, "heap in use")) + " |\n" + "|---" * (len(HELD) + 1) + "|")
        for row in held:
            print("| " + " | ".join(f"{size / 1e6:.1f}" for size in row) + " |")
        for node in nodes:
            told = b.rig.said(node.name)
            if told:
                print(f"{node.name}: {told}", file=sys.stderr)


if __name__ == "__main__":
    try:
        main()
    except (rigs.Missing, rigs.Failed) as why:
        sys.exit(f"endure: {why}")
