"""How what a node takes grows: processor time, bytes to other nodes, and memory, by
nodes, workers and events. README.md says how to read it; mesh/README.md has the laws.

    growth.py --build BUILD [--only idle_nodes,idle_workers,events,mesh] [--quick]

Prints a table of points and, under each series, the line that fits them: straight, or
by doublings where these fit better. Nothing fails because it was slow.
"""
import argparse
import collections
import math
import re
import statistics
import subprocess
import sys
import time

import mesh
import rig as rigs

SERIES = {  # name: (what grows, points of (nodes, workers, batches a second))
    "idle_nodes": ("nodes", [(n, 0, 0) for n in (1, 3, 5, 10, 20)]),
    "idle_workers": ("workers", [(3, w, 0) for w in (0, 64, 128, 256, 512, 1000)]),
    "events": ("batches", [(3, 16, b) for b in (0, 500, 1000, 2000)]),
    "mesh": ("nodes", [(n, 16, 1000) for n in (1, 3, 5, 7)]),
}
BLOCKS = 8  # of a batch of mesh_workers.py
Point = collections.namedtuple("Point", "nodes workers batches cpu sent rss blocks per_block")


def metrics(node, *names):
    told = mesh.get(node.admin, "/metrics", 30)[1].decode()
    return [float(re.search(rf"(?m)^{re.escape(name)} (\S+)$", told)[1]) for name in names]


def measure(build, point, seconds):
    """A mesh of its own, measured once it is quiet, or its workers speak."""
    count, workers, batches = point
    with mesh.bench(build) as b:
        flags, speaker = b.idle_workers(workers) if workers else ([], None)
        slots = ["--workers.slots", "1024"] if workers > 256 else []
        nodes = b.nodes(count, ["--log.level", "warning", *slots, *flags])
        if workers:
            b.eligible(nodes, workers)
            mesh.wait_until(lambda: all(s["state"] == "live" for node in nodes
                                        for w in node.json("/admin/workers")
                                        for s in w["events"]), "streams are live", 0.1)
        names = "kvasir_mesh_bytes_sent_total", "kvasir_mirror_blocks", "kvasir_mirror_bytes"
        empty = [metrics(node, *names) for node in nodes]
        if batches:
            speaker.stdin.write(f"{batches}\n")
            speaker.stdin.flush()
        time.sleep(5)  # discovery and readiness are over
        before = [metrics(node, *names) for node in nodes]
        start = time.monotonic()
        cpu = mesh.cpu_percent(nodes, seconds)
        after = [metrics(node, *names) for node in nodes]
        took = time.monotonic() - start
        sent = [(b[0] - a[0]) / took / 1024 for a, b in zip(before, after)]
        blocks = [(b[1] - a[1]) / took for a, b in zip(before, after)]
        held = [((b[2] - a[2]) / (b[1] - a[1])) if b[1] > a[1] else 0.0
                for a, b in zip(empty, after)]
        rss = [node.use.rss_bytes() / 1e6 for node in nodes]
        return Point(count, workers, batches, *map(statistics.fmean, (
            cpu, sent, rss, blocks, held)))


def line(xs, ys):
    """What there is without any, and what one more costs, or twice as many."""
    by = "x"
    if min(xs) > 0 and len(set(ys)) > 1:
        doublings = [math.log2(x) for x in xs]
        if statistics.correlation(doublings, ys) > statistics.correlation(xs, ys):
            xs, by = doublings, "log2 x"
    slope, base = statistics.linear_regression(xs, ys)
    return f"{base:.3g} {'-' if slope < 0 else '+'} {abs(slope):.3g} {by}"


def show(name, points):
    what = SERIES[name][0]
    print(f"\n{name}, of a node, on average\n")
    print("| nodes | workers | batches/s | CPU, % of a core | KiB/s to others | RSS, MB "
          "| blocks/s learned | bytes of the mirror for each |")
    print("|" + "---|" * 8)
    for p in points:
        print(f"| {p.nodes} | {p.workers} | {p.batches} | {p.cpu:.2f} | {p.sent:.1f} "
              f"| {p.rss:.1f} | {p.blocks:.0f} of {p.batches * BLOCKS} | {p.per_block:.0f} |")
    if len(points) > 2:
        xs = [getattr(p, what) for p in points]
        print(f"\nx: {what}. " + "; ".join(
            f"{field}: {line(xs, [getattr(p, field) for p in points])}"
            for field in ("cpu", "sent", "rss")), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default=",".join(SERIES))
    parser.add_argument("--quick", action="store_true", help="two points, and shorter")
    args = parser.parse_args()
    for name in args.only.split(","):
        if name not in SERIES:
            parser.error(f"no series {name}; there are {', '.join(SERIES)}")
        points = []
        for point in SERIES[name][1][:2] if args.quick else SERIES[name][1]:
            try:
                points.append(measure(args.build, point, 3 if args.quick else 10))
                print(f"  {points[-1]}", file=sys.stderr, flush=True)
            except (rigs.Missing, rigs.Failed, OSError, subprocess.SubprocessError) as why:
                print(f"  {name} {point}: not measured: {why}", file=sys.stderr, flush=True)
        show(name, points)


if __name__ == "__main__":
    main()
