#!/usr/bin/env python3
"""Kvasir beside nginx and haproxy in front of the same engines, in one run.

    proxy.py --build DIR [--kvasir FILE] [--rounds N] [--seconds S] [--only ROWS]

Prints tables of requests per second, latency and CPU time, with the ratio of
kvasir to the better of the two for each. README.md beside this file says how
to read them. What is not on this machine is skipped with a word. Exit code 0
unless something broke: a slow answer is a number, not a failure.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import sys
import time

import rig as r

WORKERS = 4  # engines, all in one backend process
OPPONENTS = ("nginx", "haproxy")
RETRIES_MAX = 2  # of a measurement that others disturbed
STREAM_TRIES = 3
FULL_EVENTS = 150000  # a second and more, of all streams at full speed
# All come from one address, which may have half of the connections by default.
ONE_CLIENT = ("--limits.client_connections_max", "20000")
LISTEN_S = 0.25  # to hear whether the machine is quiet


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("KVASIR_BUILD", "build"),
                        help="meson's build directory")
    parser.add_argument("--kvasir", help="the executable (found in the build)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="per measurement")
    parser.add_argument("--connections", default="1,8,64")
    parser.add_argument("--streams", default="64,256,1024")
    parser.add_argument("--many", type=int, default=10000,
                        help="streams of the last row")
    parser.add_argument("--quiet", type=float, default=0.05, help="CPUs that others "
                        "may use before a measurement is repeated")
    parser.add_argument("--patience", type=float, default=60, help="seconds in all "
                        "that may be spent waiting for others to be quiet")
    parser.add_argument("--only", default="one,two,sse,full,many",
                        help="one: one CPU, two: two threads, sse, full, many")
    parser.add_argument("--aa", action="store_true",
                        help="nginx against a second nginx: the noise")
    parser.add_argument("--json", help="write every single measurement there")
    return parser.parse_args()


def find_kvasir(args):
    for path in (args.kvasir, f"{args.build}/kvasir", f"{args.build}/node/kvasir"):
        if path and pathlib.Path(path).is_file():
            return pathlib.Path(path).resolve()
    return None


class Bench:
    def __init__(self, args, rig):
        self.args, self.rig = args, rig
        self.kvasir = find_kvasir(args)
        self.log = []  # every measurement
        self.missing = set()
        self.patience_s = args.patience

    def subjects(self, backends, threads, cpus):
        """Starts every proxy that there is, the bare engine first."""
        starts = [lambda: r.start_relay(self.rig, self.args.build, backends, cpus),
                  lambda: r.start_nginx(self.rig, backends, threads, cpus),
                  lambda: r.start_haproxy(self.rig, backends, threads, cpus),
                  lambda: r.start_kvasir(self.rig, self.kvasir, backends, threads,
                                         cpus)]
        if self.args.aa:
            starts.append(lambda: r.start_nginx(self.rig, backends, threads, cpus,
                                                "nginx2"))
        found = [backends]
        for start in starts:
            try:
                found.append(start())
            except r.Missing as why:
                if str(why) not in self.missing:
                    print(f"skipped: {why}", flush=True)
                self.missing.add(str(why))
        return found

    def stop(self, servers):
        for server in servers:
            self.rig.stop(server.process)

    def wait_for_quiet(self, cpus):
        machine = r.Machine(cpus)
        while self.patience_s > 0:
            time.sleep(LISTEN_S)
            if machine.others(0) <= self.args.quiet:
                break
            self.patience_s -= LISTEN_S

    def used_us(self, servers):
        by_pid = {server.process.pid: server for server in servers}
        return sum(server.cpu_us() for server in by_pid.values())

    def quietest(self, measure, own, cpus):
        """measure() -> dict, again while other programs used too much of the
        CPUs; own: servers whose use is not others'."""
        best = None
        for _ in range(1 + RETRIES_MAX):
            self.wait_for_quiet(cpus)
            machine = r.Machine(cpus)
            before_us = self.used_us(own)
            result = measure()
            own_us = self.used_us(own) - before_us
            result["others"] = machine.others(own_us + result["own_us"])
            if best is None or result["others"] < best["others"]:
                best = result
            if best["others"] <= self.args.quiet:
                break
        return best

    def note(self, table, **fields):
        self.log.append({"table": table, **fields})

    # Requests.

    def requests(self, table, threads, cpus):
        backends = r.start_backend(self.rig, self.args.build, WORKERS, cpus=cpus)
        servers = self.subjects(backends, threads, cpus)
        # The same node, passing on what it need not read: HTTP without routing.
        servers += [r.Server("unread", s.process, s.port, "text/plain")
                    for s in servers if s.name == "kvasir"]
        connections = [int(c) for c in self.args.connections.split(",")]
        for server in servers:  # connections, caches, branch predictors
            r.wrk(self.rig, server, 8, 1, 1, cpus)
        seed = 1
        for c in connections:
            for turn in range(self.args.rounds):
                seed += 1
                for server in servers[turn % len(servers):] + \
                        servers[:turn % len(servers)]:
                    result = self.one_request_load(server, servers, c, seed, cpus)
                    self.note(table, subject=server.name, load=c, round=turn,
                              **result)
            self.print_requests(table, c, [s.name for s in servers])
        self.print_lost(servers)
        self.stop(servers)

    def print_lost(self, servers):
        """A node that loses what its lanes tell control does less than it should,
        and looks cheaper than it is."""
        for server in servers:
            if server.name == "kvasir":
                lost, taken = (int(re.search(f"^kvasir_{n}_total (\\d+)",
                                             r.ask(server.admin, "/metrics"), re.M)[1])
                               for n in ("facts_lost", "facts"))
                print(f"kvasir lost {lost} facts, and took {taken}", flush=True)

    def one_request_load(self, server, servers, connections, seed, cpus):
        def measure():
            before_us = server.cpu_us()
            result = r.wrk(self.rig, server, connections, self.args.seconds, seed,
                           cpus)
            used_us = server.cpu_us() - before_us
            return {"rate": result["requests"] / result["us"] * 1e6,
                    "p50_us": result["p50_us"], "p99_us": result["p99_us"],
                    "cpu_us": used_us / max(result["requests"], 1),
                    "errors": result["errors"], "own_us": result["own_us"]}
        return self.quietest(measure, servers, cpus)

    def print_requests(self, table, connections, names):
        rows = {n: self.rows(table, n, connections) for n in names}
        for name in names:
            m = {k: statistics.median(x[k] for x in rows[name])
                 for k in ("rate", "p50_us", "p99_us", "cpu_us", "others")}
            errors = sum(x["errors"] for x in rows[name])
            print(f"{connections:6} {name:8} {m['rate']:9.0f} {m['p50_us']:8.0f} "
                  f"{m['p99_us']:8.0f} {m['cpu_us']:10.2f} {m['others']:7.2f}"
                  + (f"  {errors} errors" if errors else ""), flush=True)
        self.print_ratios(rows, connections, (("rate", "req/s", max),
                                              ("p50_us", "p50", min),
                                              ("p99_us", "p99", min),
                                              ("cpu_us", "CPU", min)))

    # Ratios.

    def rows(self, table, name, load):
        return [x for x in self.log if x["table"] == table and
                x["subject"] == name and x["load"] == load]

    def print_ratios(self, rows, load, columns):
        """kvasir, and the relay as the most that could be had here, to the
        better of the opponents, by column: the median over rounds of the ratio
        within a round, and the range of its middle half."""
        others = ["nginx"] if self.args.aa else \
            [n for n in OPPONENTS if n in rows]
        for subject in ("relay", "nginx2" if self.args.aa else "kvasir"):
            if subject not in rows or not others:
                continue
            parts = []
            for key, label, better in columns:
                best = better(others, key=lambda n: statistics.median(
                    x[key] for x in rows[n]))
                ratios = sorted(a[key] / max(b[key], 1e-9)
                                for a, b in zip(rows[subject], rows[best]))
                cut = len(ratios) // 4
                parts.append(f"{label} {statistics.median(ratios):.2f} "
                             f"[{ratios[cut]:.2f}..{ratios[-1 - cut]:.2f}] of {best}")
            print(f"{load:6} {subject} is {', '.join(parts)}", flush=True)

    # Streams.

    def streams(self, table, counts, interval_us=20000):
        """Streams with so long between two events, 0: as fast as they are taken;
        the proxy with one thread on a CPU of its own, engines and client on
        another."""
        cpus = sorted(os.sched_getaffinity(0))
        if len(cpus) < 2:
            print("skipped: streams need two CPUs")
            return
        proxy_cpu, rest = {cpus[-1]}, {cpus[0]}
        backends = r.start_backend(self.rig, self.args.build, WORKERS, interval_us,
                                   cpus=rest)
        servers = self.subjects(backends, 1, proxy_cpu)
        for count in counts:
            if interval_us == 0:
                events = min(100000, FULL_EVENTS * self.args.seconds // count)
            else:
                events = 50 * (self.args.seconds + 1) + count // 8
            for turn in range((self.args.rounds + 1) // 2):
                for server in servers[turn % len(servers):] + \
                        servers[:turn % len(servers)]:
                    result = self.quietest(
                        lambda: self.one_stream_load(server, count, events, rest),
                        servers, None)
                    self.note(table, subject=server.name, load=count, round=turn,
                              **result)
            self.print_streams(table, count, [s.name for s in servers])
        self.stop(servers)

    def one_stream_load(self, server, count, events, cpus):
        """Streams of at least so many events; of more when they were not all
        open at once before the first had ended."""
        for _ in range(STREAM_TRIES):
            result = r.sse(self.rig, self.args.build, server, count, events,
                           30 + events, cpus)
            steady = result["steady_events"]
            if steady != 0:
                break
            events *= 2
        else:
            raise r.Failed(f"{server.name}: {count} streams were never all open: "
                           f"{result['open_peak']}, {result['failed']}")
        return {"cpu_us": result["cpu_us"] / steady,
                "rate": steady / result["steady_us"] * 1e6,
                "delay_p50_us": result["delay_us"]["p50"],
                "delay_p99_us": result["delay_us"]["p99"],
                "gap_p99_us": result["gap_us"]["p99"],
                "lost": count - result["complete"],
                "peak": result["open_peak"], "failed": result["failed"],
                "own_us": result["own_us"],
                "rss_each_bytes": (result["rss_open_bytes"] -
                                   result["rss_before_bytes"]) / count}

    def print_streams(self, table, count, names):
        rows = {n: self.rows(table, n, count) for n in names}
        for name in names:
            m = {k: statistics.median(x[k] for x in rows[name])
                 for k in ("rate", "cpu_us", "delay_p50_us", "delay_p99_us",
                           "gap_p99_us", "others")}
            lost = sum(x["lost"] for x in rows[name])
            failed = {k: v for x in rows[name] for k, v in x["failed"].items() if v}
            print(f"{count:6} {name:8} {m['rate']:9.0f} {m['cpu_us']:8.2f} "
                  f"{m['delay_p50_us']:8.0f} {m['delay_p99_us']:8.0f} "
                  f"{m['gap_p99_us']:8.0f} {lost:5} {m['others']:7.2f}"
                  + (f"  {failed}" if failed else ""), flush=True)
        self.print_ratios(rows, count, (("cpu_us", "CPU", min),
                                        ("delay_p50_us", "delay p50", min),
                                        ("delay_p99_us", "delay p99", min)))

    def many(self, table):
        """As many streams at once as asked for; a proxy needs two files for
        each, so a low limit of files lowers the number."""
        wanted = self.args.many
        count = min(wanted, (r.FILES_MAX - 600) // 2)
        if count < wanted:
            print(f"      {count} streams, not {wanted}: a process may have "
                  f"{r.FILES_MAX} files here")
        threads = min(2, len(os.sched_getaffinity(0)))
        for which in range(3):
            backends = r.start_backend(self.rig, self.args.build, WORKERS,
                                       interval_us=500000)
            # Each proxy fresh and alone: memory is what is measured.
            starts = (lambda: r.start_nginx(self.rig, backends, threads),
                      lambda: r.start_haproxy(self.rig, backends, threads),
                      lambda: r.start_kvasir(self.rig, self.kvasir, backends, threads,
                                             options=ONE_CLIENT))
            try:
                server = starts[which]()
            except r.Missing as why:
                print(f"skipped: {why}")
                self.stop([backends])
                continue
            x = self.one_stream_load(server, count, 30, None)
            self.note(table, subject=server.name, load=count, round=0, **x)
            failed = {k: v for k, v in x["failed"].items() if v}
            print(f"{count:6} {server.name:8} {x['peak']:9} {x['lost']:8} "
                  f"{x['rss_each_bytes'] / 1024:12.1f} {x['cpu_us']:8.2f} "
                  f"{x['delay_p50_us']:8.0f} {x['delay_p99_us']:8.0f}"
                  + (f"  {failed}" if failed else ""), flush=True)
            self.stop([server, backends])


def title(text, columns):
    print(f"\n{text}\n{columns}", flush=True)


REQUEST_COLUMNS = (" conns subject      req/s   p50 us   p99 us CPU us/req  others")
STREAM_COLUMNS = ("streams subject  events/s CPU us/ev dly p50  dly p99  gap p99  "
                  "lost  others")
MANY_COLUMNS = ("streams subject open at once  lost   KiB/stream CPU us/ev dly p50 "
                " dly p99")


def run(args, rig):
    bench = Bench(args, rig)
    only = args.only.split(",")
    cpus = sorted(os.sched_getaffinity(0))
    how = f"{args.rounds} rounds of {args.seconds} s, medians"
    if "one" in only:
        title(f"4 KB chats, everything on one CPU, one thread each; {how}",
              REQUEST_COLUMNS)
        bench.requests("one", 1, {cpus[-1]})
    if "two" in only:
        title(f"4 KB chats, two threads each, on {len(cpus)} CPUs; {how}",
              REQUEST_COLUMNS)
        bench.requests("two", 2, None)
    if "sse" in only:
        title("Streams of one event (220 B) per 20 ms; the proxy alone on one CPU",
              STREAM_COLUMNS)
        bench.streams("sse", [int(n) for n in args.streams.split(",")])
    if "full" in only:
        title("Streams of 220 B events as fast as they are taken; the proxy alone on "
              "one CPU", STREAM_COLUMNS)
        bench.streams("full", [int(n) for n in args.connections.split(",")], 0)
    if "many" in only:
        title("Streams of one event per 500 ms, two threads; memory (RSS) with all "
              "open, less before", MANY_COLUMNS)
        bench.many("many")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(bench.log, indent=1))


def main():
    started = time.monotonic()
    args = arguments()
    code = r.run_in(run, args)
    print(f"\n{time.monotonic() - started:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
