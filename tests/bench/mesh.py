"""The mesh, measured: real nodes, engines and loads on free loopback ports, all
gone at the end. README.md says what each part asks and how to read it.

    mesh.py --build BUILD [--only visible,idle,death,freeze,same,kill] [--quick]

Prints one table. Nothing fails because it was slow.
"""
import argparse
import contextlib
import http.client
import json
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import threading
import time

import rig as rigs

HERE = pathlib.Path(__file__).resolve().parent
WORKERS_PYTHON = "/usr/bin/python3"  # the one that has Debian's pyzmq
PARTS = ("visible", "idle", "death", "freeze", "same", "kill")
WAIT_S = 60
ENGINES = 4
LOAD = {"users": 24, "conversations": 300, "turns": 6, "groups": 12, "system-bytes": 2000,
        "user-bytes": 300, "max-tokens": 16, "think-ms": 60, "seed": 7}


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, value, goal="", beside=""):
        self.rows.append((what, value, goal, beside))
        print(f"  {what}: {value}  {beside}", file=sys.stderr, flush=True)

    def print(self):
        rows = [("what", "measured", "goal", "beside, in the same run"), *self.rows]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        rows.insert(1, tuple("-" * width for width in widths))
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths))
            print("| " + " | ".join(cells) + " |")


def get(address, target, timeout_s=5):
    """(status, body) of a GET; OSError when nobody answers in time."""
    connection = http.client.HTTPConnection(address, timeout=timeout_s)
    try:
        connection.request("GET", target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


def wait_until(condition, what, pause_s=0.01):
    end = time.monotonic() + WAIT_S
    while True:
        got = condition()
        if got:
            return got
        if time.monotonic() > end:
            raise rigs.Failed(f"{what}: not within {WAIT_S} s")
        time.sleep(pause_s)


class Node:
    def __init__(self, name, process, ready):
        self.name, self.process = name, process
        self.serve, self.admin, self.mesh = ready["serve"], ready["admin"], ready["mesh"]
        self.use = rigs.Server(name, process, 0)  # CPU time

    def json(self, target):
        return json.loads(get(self.admin, target)[1])

    def members(self):
        return {m["name"]: m["state"] for m in self.json("/admin/mesh")["members"]}


class Bench:
    """Programs of one part, in a rig of its own."""

    def __init__(self, build, stack):
        self.build = pathlib.Path(build)
        self.rig = stack.enter_context(rigs.Rig())
        self.stack = stack

    def program(self, name):
        for folder in ("node", "chaos", "tests/bench"):
            path = self.build / folder / name
            if path.exists():
                return path
        raise rigs.Missing(f"{name} is not built")

    def node(self, name, flags, join=None, host="127.0.0.1", port=0):
        argv = [self.program("kvasir"), "serve", "--listen", f"{host}:{port}", "--admin",
                "127.0.0.1:0", "--name", name, "--mesh", "127.0.0.1:0", *flags]
        if join is not None:
            argv += ["--join", join]
        process, ready = self.rig.start_ready(argv, name)
        return Node(name, process, dict(ready))

    def nodes(self, count, flags, hosts=None, port=0, joined=True):
        made = []
        for i in range(count):
            made.append(self.node(f"n{i}", flags, made[0].mesh if made and joined else None,
                                  hosts[i] if hosts else "127.0.0.1", port))
        if joined:
            wait_until(lambda: all(self.sees_all(node, count) for node in made), "a mesh")
        return made

    def sees_all(self, node, count):
        mesh = node.json("/admin/mesh")
        return mesh["alive"] == count and mesh["peers_up"] == count - 1

    def engines(self, count, *flags, events=True):
        """Stand-in engines, with events and replay if so: the --worker flags of nodes."""
        made = []
        for i in range(count):
            _, ready = self.rig.start_ready(
                [self.program("kvasir-engine"), "--port", "0", "--events", "0", "--replay", "0",
                 "--name", f"e{i}", "--seed", str(i + 1), *flags], f"e{i}")
            ready = dict(ready)
            told = f",events={ready['events']},replay={ready['replay']}" if events else ""
            made += ["--worker", f"http://{ready['http']},id=e{i}{told}"]
        return made

    def idle_workers(self, count):
        """The --worker flags of nodes, and the process that is all of them."""
        process = self.rig.start([WORKERS_PYTHON, HERE / "mesh_workers.py", str(count)], None,
                                 "workers", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 text=True)
        ready = process.stdout.readline().split()
        if len(ready) != count + 1:
            raise rigs.Missing(f"mesh_workers.py: {self.rig.said('workers', 1)}")
        flags = []
        for i, worker in enumerate(ready[1:]):
            flags += ["--worker", worker.replace(",", f",id=w{i:03},", 1)]
        return flags, process

    def eligible(self, nodes, count):
        def all_are():
            return all(sum(w["eligible"] for w in node.json("/admin/workers")) == count
                       for node in nodes)
        wait_until(all_are, "workers are eligible", 0.05)

    def load(self, url, changes, extra=()):
        """kvasir-load, started; its JSON is for result()."""
        argv = [self.program("kvasir-load"), "--url", url, "--json", *extra]
        for key, value in {**LOAD, **changes}.items():
            argv += ["--" + key, str(value)]
        return self.rig.start(argv, None, "load", stdout=subprocess.PIPE, text=True)

    def result(self, process):
        said = process.stdout.read()
        rigs.reap(self.rig, process)
        if not said:
            raise rigs.Failed("kvasir-load: " + self.rig.said("load"))
        return json.loads(said)


@contextlib.contextmanager
def bench(build):
    with contextlib.ExitStack() as stack:
        yield Bench(build, stack)


# An event at one node, visible at all

def visible(build, table, quick):
    program = pathlib.Path(build) / "tests" / "bench" / "bench_mesh"
    if not program.exists():
        raise rigs.Missing("bench_mesh is not built")
    sizes = ("1", "3") if quick else ("1", "3", "5", "7", "20@190")
    said = subprocess.run([program, *sizes], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=True, timeout=600).stdout
    alone = None
    for line in said.splitlines():
        row = {key: float(value) for key, _, value in (w.partition("=") for w in line.split())}
        alone = alone or row
        table.add(f"event to visible at all, {row['nodes']:.0f} nodes, "
                  f"{row['rate']:.0f} batches/s",
                  f"p50 {row['all_p50_us'] / 1000:.1f} ms, p99 {row['all_p99_us'] / 1000:.1f} ms",
                  "p99 20 ms" if row["nodes"] > 1 else "",
                  f"readers p99 {row['readers_p99_us'] / 1000:.1f} ms; control CPU per batch: "
                  f"reader {row['readers_cpu_us']:.0f} us"
                  + (f", other {row['others_cpu_us']:.0f} us" if "others_cpu_us" in row else ""))
        if row["nodes"] == 3:
            table.add("bytes on the wire for a block, to one peer",
                      f"{row['link_bytes']:.1f}, of these {row['push_bytes']:.1f} gossip's push", "",
                      f"engine's event {row['raw_bytes']:.1f}: "
                      f"{row['raw_bytes'] / row['link_bytes']:.1f} times as many")


# CPU of an idle mesh

def cpu_percent(nodes, seconds):
    before = [node.use.cpu_us() for node in nodes]
    start = time.monotonic()
    time.sleep(seconds)
    after = [node.use.cpu_us() for node in nodes]
    wall_us = (time.monotonic() - start) * 1e6
    return [(b - a) / wall_us * 100 for a, b in zip(before, after)]


def idle_of(build, count, workers, seconds):
    with bench(build) as b:
        flags = b.idle_workers(workers)[0] if workers else []
        nodes = b.nodes(count, flags)
        if workers:
            b.eligible(nodes, workers)
        time.sleep(5)  # discovery and readiness are over
        return max(cpu_percent(nodes, seconds))


def idle(build, table, quick):
    seconds = 8 if quick else 20
    alone = idle_of(build, 1, 0, seconds)
    empty = idle_of(build, 3, 0, seconds)
    one = idle_of(build, 1, 100, seconds)
    mesh = idle_of(build, 3, 100, seconds)
    table.add("idle node of 3, 100 workers (the busiest)", f"{mesh:.2f} % of a core", "1 %",
              f"alone with 100 workers {one:.2f} %, of 3 without {empty:.2f} %, "
              f"alone without {alone:.2f} %")


# Death

def death(build, table, quick):
    took = []
    with bench(build) as b:
        nodes = b.nodes(3, [])
        for i in range(3 if quick else 6):
            victim = nodes[i % 3]
            rest = [node for node in nodes if node is not victim]
            start = time.monotonic()
            victim.process.kill()
            victim.process.wait()
            wait_until(lambda rest=rest, victim=victim: all(
                node.members()[victim.name] in ("dead", "left") for node in rest), "excluded")
            took.append(time.monotonic() - start)
            b.rig.stop(victim.process)
            nodes[i % 3] = b.node(victim.name, [], rest[0].mesh)
            wait_until(lambda: all(b.sees_all(node, 3) for node in nodes), "a mesh again")
    table.add("kill -9 of one of 3 to dead at the others",
              f"median {statistics.median(took):.2f} s, max {max(took):.2f} s", "2 s",
              f"{len(took)} times")


# A node that does not run for 10 s

class Chatter(threading.Thread):
    """Prompts at random to one node, so that engines have something to say."""

    def __init__(self, node, seed):
        super().__init__(daemon=True)
        self.node, self.rng, self.over = node, random.Random(seed), threading.Event()
        self.sent = 0

    def run(self):
        while not self.over.wait(0.02):
            prompt = [self.rng.randrange(1000, 9000) for _ in range(128)]
            body = json.dumps({"model": "kvasir/stand-in", "prompt": prompt, "max_tokens": 2})
            connection = http.client.HTTPConnection(self.node.serve, timeout=5)
            with contextlib.suppress(OSError, http.client.HTTPException):
                connection.request("POST", "/v1/completions", body,
                                   {"content-type": "application/json"})
                connection.getresponse().read()
                self.sent += 1
            connection.close()

    def end(self):
        self.over.set()
        self.join()


def streams_of(node):
    return [(s["worker"], s["rank"], s["epoch"], s["position"], s["blocks"], s["digest"])
            for s in node.json("/admin/mesh")["streams"]]


def equal(nodes):
    first = streams_of(nodes[0])
    return len(first) > 0 and all(s[2] != 0 for s in first) and all(
        streams_of(node) == first for node in nodes[1:])


def freeze_once(build, seconds, seed):
    """(s from SIGCONT until all are members again, the same until digests are equal,
    prompts sent meanwhile, what the others took it for)"""
    with bench(build) as b:
        nodes = b.nodes(3, b.engines(2, "--speed", "50"))
        b.eligible(nodes, 2)
        chatter = Chatter(nodes[0], seed)
        chatter.start()
        wait_until(lambda: chatter.sent > 50, "some requests")
        frozen = nodes[2]
        frozen.process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        chatter.end()  # what the others learned meanwhile stays as it is
        seen = [node.members()[frozen.name] for node in nodes[:2]]
        start = time.monotonic()
        frozen.process.send_signal(signal.SIGCONT)
        wait_until(lambda: equal(nodes), "equal digests")
        digests = time.monotonic() - start
        wait_until(lambda: all(b.sees_all(node, 3) for node in nodes), "a mesh again")
        return time.monotonic() - start, digests, chatter.sent, seen


def freeze(build, table, quick):
    runs = [freeze_once(build, 5 if quick else 10, seed) for seed in range(1 if quick else 3)]
    table.add("a node of 3 stopped for 10 s, from its first breath to equal digests at all",
              f"max {max(run[1] for run in runs):.2f} s", "3 s",
              f"{len(runs)} times; all links and members max {max(run[0] for run in runs):.2f} s; "
              f"{min(run[2] for run in runs)} prompts or more in between; the others took it for "
              + ", ".join(sorted({state for run in runs for state in run[3]})))


# The same load through 1, 3 and 7 nodes

class DnsCase:
    """What dns.py expects of a test."""

    def __init__(self, bench_):
        self.folder = bench_.rig.directory
        self.addCleanup = bench_.stack.callback


def dns_of(bench_, addresses):
    sys.path.insert(0, str(HERE.parent / "integration"))
    import dns  # pylint: disable=import-outside-toplevel
    if not pathlib.Path(dns.DNSMASQ).exists():
        raise rigs.Missing("no dnsmasq (deploy/packages)")
    return dns.Dns(DnsCase(bench_), {"mesh.test": addresses})


def behind_a_name(b, count, joined=True, events=True, speed=20):
    """Nodes that share a port on addresses of their own: (nodes, url, flags)"""
    flags = b.engines(ENGINES, "--speed", str(speed), "--blocks", "2500", events=events)
    hosts = [f"127.0.0.{i + 1}" for i in range(count)]
    port = rigs.free_port()
    nodes = b.nodes(count, flags, hosts, port, joined)
    b.eligible(nodes, ENGINES)
    server = dns_of(b, hosts)
    return nodes, f"http://mesh.test:{port}", ("--resolver", server.address)


def ratio_of(build, count, changes, joined=True, events=True):
    """(cached part of the prompts' tokens, requests)"""
    with bench(build) as b:
        _, url, extra = behind_a_name(b, count, joined, events)
        result = b.result(b.load(url, changes, extra))
        requests = result["requests"]
        if requests["answered"] != requests["planned"]:
            raise rigs.Failed(f"{count} nodes: {requests} {result['failures']}")
        return result["tokens"]["cached"] / result["tokens"]["prompt"], requests["sent"]


def same(build, table, quick):
    changes = {"conversations": 120} if quick else {}
    sizes = (3,) if quick else (3, 7)
    for events, how in ((True, "engines with events"), (False, "without")):
        one, sent = ratio_of(build, 1, changes, events=events)

        def row(what, many, goal, one=one, sent=sent):
            table.add(what, f"{many * 100:.2f} %, {(many / one - 1) * 100:+.2f} %", goal,
                      f"one node {one * 100:.2f} %; {sent} requests")
        for count in sizes:
            row(f"cached tokens, {count} nodes, {how}",
                ratio_of(build, count, changes, events=events)[0], "within 1 %")
        row(f"the same, 3 nodes without a mesh, {how}",
            ratio_of(build, 3, changes, joined=False, events=events)[0], "")


# One of three dies under load

def ratio(seconds):
    prompt = sum(s["prompt"] for s in seconds)
    return sum(s["cached"] for s in seconds) / prompt if prompt else 0.0


def around(seconds, at, requests):
    """Whole seconds with so many answers: before that one, and from it on."""
    def take(order):
        taken, count = [], 0
        for second in order:
            if count >= requests:
                break
            taken.append(second)
            count += second["answered"]
        return taken
    return take(reversed(seconds[:at])), take(seconds[at:])


def load_run(build, changes, kill_after_s):
    """(result, second of the death, requests that were open at the dead node)"""
    with bench(build) as b:
        nodes, url, extra = behind_a_name(b, 3, speed=5)
        load = b.load(url, changes, extra)
        start, opened = time.monotonic(), None
        if kill_after_s is not None:
            time.sleep(kill_after_s)
            opened = nodes[1].json("/admin/status")
            nodes[1].process.kill()
        died = int(time.monotonic() - start)
        return b.result(load), died, opened


def kill(build, table, quick):
    changes = {"conversations": 300 if quick else 900, "users": 48, "think-ms": 100,
               "max-tokens": 32}
    whole, _, _ = load_run(build, changes, None)
    at_s = int(whole["seconds"] * 0.45)
    cut, died, opened = load_run(build, changes, at_s)
    requests = 300 if quick else 1000
    before, after = around(cut["per_second"], died, requests)
    same_before, same_after = around(whole["per_second"], died, requests)
    open_there = sum(w["inflight"] for w in opened["workers"])
    table.add(f"cached tokens, the {requests} requests after one of 3 was killed",
              f"{ratio(after) * 100:.2f} %, {(ratio(after) / ratio(before) - 1) * 100:+.2f} %",
              "within 2 %", f"before {ratio(before) * 100:.2f} %; where nobody died "
              f"{ratio(same_before) * 100:.2f} % and {ratio(same_after) * 100:.2f} %")
    failures = {k: v for k, v in cut["failures"].items() if v}
    table.add("requests that failed", str(cut["requests"]["failed"]), "only those open there",
              f"{open_there} were open at the dead node a moment before; of all: {failures}; "
              f"sent again: {cut['requests']['retried']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="smaller and shorter; for tests")
    args = parser.parse_args()
    table = Table()
    for part in args.only.split(","):
        if part not in PARTS:
            parser.error(f"no part {part}; there are {', '.join(PARTS)}")
        try:
            globals()[part](args.build, table, args.quick)
        except (rigs.Missing, rigs.Failed, OSError, subprocess.SubprocessError) as why:
            table.add(part, "not measured", "", str(why))
    table.print()


if __name__ == "__main__":
    main()
