#!/usr/bin/env python3
"""node/http/httpd.h beside the cheapest server we have, on one CPU, in one run.

    httpd.py --build DIR [--rounds N] [--seconds S]

Both answer wrk's 4 KB chats with 1 KB. Prints requests per second and CPU time
per request, and the ratio of httpd to bench_backend (a bare epoll loop that
looks for the end of the head and no further). Exit code 0 unless it broke.
"""
import argparse
import os
import pathlib
import statistics

import rig as r


def start_httpd(rig, build, cpus):
    program = pathlib.Path(build) / "tests" / "bench" / "bench_httpd_chat"
    if not program.exists():
        raise r.Missing(f"{program} is not built")
    process, ready = rig.start_ready([program], "httpd", cpus)
    return r.Server("httpd", process, int(ready[0][1].rsplit(":", 1)[1]))


def measure(rig, server, connections, seconds, seed, cpus):
    before_us = server.cpu_us()
    result = r.wrk(rig, server, connections, seconds, seed, cpus)
    if result["errors"]:
        raise r.Failed(f"{server.name}: {result['errors']} errors")
    return (result["requests"] / result["us"] * 1e6,
            (server.cpu_us() - before_us) / result["requests"])


def table(rig, args, cpus):
    servers = [r.start_backend(rig, args.build, 1, cpus=cpus),
               start_httpd(rig, args.build, cpus)]
    print("connections  server   req/s  CPU us/req   req/s ratio  CPU ratio")
    for connections in (1, 8, 64):
        rows = {s.name: [] for s in servers}
        for seed in range(args.rounds):
            for s in servers:
                rows[s.name].append(measure(rig, s, connections, args.seconds,
                                            seed + 1, cpus))
        for name, row in rows.items():
            ratios = [statistics.median(a[i] / b[i] for a, b in
                                        zip(row, rows["direct"])) for i in (0, 1)]
            print(f"{connections:11}  {name:7}"
                  f"{statistics.median(x[0] for x in row):7.0f}"
                  f"{statistics.median(x[1] for x in row):12.2f}"
                  f"{ratios[0]:14.2f}{ratios[1]:11.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("KVASIR_BUILD", "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2)
    args = parser.parse_args()
    cpus = {max(os.sched_getaffinity(0))}
    try:
        with r.Rig() as rig:
            table(rig, args, cpus)
    except r.Missing as why:
        print(f"skipped: {why}")


if __name__ == "__main__":
    main()
