"""What a snapshot costs the requests beside it, in a node that knows much: one
node, 64 workers that publish their blocks and go on publishing, requests one
after another, and snapshots with pauses of their own length in between. Each
request counts as beside a snapshot or not by when it was sent and answered, so
both kinds are of the same seconds.

    bench_snapshot.py [--blocks N] [--seconds N] [--rate N] [--pause S] [--build BUILD]

--pause 5 is what a busy node does by default: the next one five seconds later.

The p99 of either kind is what users feel; on a machine that others use, the
lane's CPU time and its time of waiting for a CPU, by requests, are the steadier
numbers, and control's longest turn for a snapshot.
"""
import argparse
import contextlib
import json
import multiprocessing
import pathlib
import signal
import socket
import statistics
import struct
import sys
import time

import msgpack
import zmq

import rig as rigs

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402

WORKERS = 64
BLOCK = 16
RUN = 64  # blocks of a prompt, and of a batch
CHANGES = 100  # batches of RUN blocks a second, while requests are timed
ROUNDS = 5


def tokens_of(number):
    """The tokens of prompt number N: all differ from their first block on."""
    return [1000 + number % 60000] + [1000 + number // 60000] + [
        1000 + (number * 31 + i) % 60000 for i in range(RUN * BLOCK - 2)]


class Engines:
    """What 64 engines publish, and repeat when asked."""

    def __init__(self):
        self.context = zmq.Context(io_threads=1)
        self.pub = [self.bind(zmq.PUB) for _ in range(WORKERS)]
        self.seq = [0] * WORKERS

    def bind(self, kind):
        made = self.context.socket(kind)
        made.linger, made.sndhwm = 0, 0
        made.bind("tcp://127.0.0.1:*")
        return made

    def urls(self):
        return [pub.last_endpoint.decode() for pub in self.pub]

    def event(self, number):
        """The payload that says: prompt number N is in a cache."""
        hashes = [(number * RUN + i) * 0x9E3779B97F4A7C15 & (1 << 63) - 1 for i in range(RUN)]
        event = {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": None,
                 "token_ids": tokens_of(number), "block_size": BLOCK, "lora_id": None,
                 "medium": "GPU", "lora_name": None}
        return msgpack.packb([time.time(), [event], 0])

    def publish(self, number, payload):
        at = number % WORKERS
        self.pub[at].send_multipart([b"", struct.pack(">Q", self.seq[at]), payload])
        self.seq[at] += 1


def engines_run(told, orders):
    """The process of the engines: fills, then goes on until it is killed."""
    engines = Engines()
    told.put(engines.urls())
    blocks, seconds = orders.get()
    known = -(-blocks // RUN)
    for number in range(known):
        engines.publish(number, engines.event(number))
        if number % 100 == 0:
            time.sleep(0.01)  # as much as a node takes in
    more = [engines.event(known + i) for i in range(seconds * CHANGES)]
    told.put(known)
    orders.get()
    for number, payload in enumerate(more, known):
        engines.publish(number, payload)
        time.sleep(1 / CHANGES)
    orders.get()


def client_run(address, model, known, seconds, rate, told):
    """Requests one after another: (sent, answered) of each, in seconds."""
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    times, bodies = [], []
    for i in range(256):
        body = json.dumps({"model": model, "max_tokens": 1,
                           "prompt": tokens_of(i * known // 256)}).encode()
        bodies.append(b"POST /v1/completions HTTP/1.1\r\nHost: n\r\nContent-Type: application/json"
                      b"\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    end = time.monotonic() + seconds
    due = time.monotonic()
    while due < end:
        time.sleep(max(0, due - time.monotonic()))
        sent = time.monotonic()
        connection.sendall(bodies[len(times) % len(bodies)])
        read_answer(connection)
        times.append((sent, time.monotonic()))
        due = max(due + 1 / rate, times[-1][1])
    told.put(times)


def read_answer(connection):
    held = b""
    while b"\r\n\r\n" not in held:
        held += connection.recv(65536)
    head, _, rest = held.partition(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(held[:300])
    length = int(head.lower().partition(b"content-length:")[2].split(None, 1)[0])
    while len(rest) < length:
        rest += connection.recv(65536)


class Threads:
    """CPU time and time in wait for a CPU of a process's threads, by name."""

    def __init__(self, pid):
        self.folder = pathlib.Path(f"/proc/{pid}/task")

    def read(self):
        found = {}
        for task in self.folder.iterdir():
            ran, waited, _ = map(int, (task / "schedstat").read_text().split())
            name = (task / "comm").read_text().strip()
            before = found.get(name, (0, 0))
            found[name] = before[0] + ran / 1000, before[1] + waited / 1000
        return found


class Phases:
    """What threads used within snapshots and within pauses."""

    def __init__(self, threads):
        self.threads, self.last = threads, threads.read()
        self.used = {True: {}, False: {}}

    def over(self, beside):
        now = self.threads.read()
        for name, (ran, waited) in now.items():
            was = self.last.get(name, (0, 0))
            sums = self.used[beside].setdefault(name, [0, 0])
            sums[0] += ran - was[0]
            sums[1] += waited - was[1]
        self.last = now


def percentile(sorted_values, permille):
    return sorted_values[min(len(sorted_values) - 1, len(sorted_values) * permille // 1000)]


def split(times, taken, since, until):
    """Latencies in microseconds of requests sent in [since, until): (without,
    beside) snapshots."""
    parted = ([], [])
    at = 0
    for sent, answered in times:
        while at < len(taken) and taken[at][1] < sent:
            at += 1
        beside = at < len(taken) and taken[at][0] <= answered
        if since <= sent < until:
            parted[beside].append((answered - sent) * 1e6)
    return [sorted(part) for part in parted]


def show(times, taken, phases, turns, status):
    begun, ended = times[0][0], times[-1][1]
    ratios = {500: [], 990: []}
    for i in range(ROUNDS):
        part = (ended - begun) / ROUNDS
        without, beside = split(times, taken, begun + i * part, begun + (i + 1) * part)
        for permille, of in ratios.items():
            of.append(percentile(beside, permille) / percentile(without, permille))
    without, beside = split(times, taken, begun, ended)
    lengths = sorted(end - start for start, end in taken)
    print(f"{len(taken)} snapshots of {status['bytes'] / 1e6:.1f} MB, median "
          f"{1000 * lengths[len(lengths) // 2]:.0f} ms; control's longest turn for one: median "
          f"{statistics.median(turns):.0f} us, most {max(turns)} us")
    for name, kind in (("without", without), ("beside", beside),
                       ("all", sorted(without + beside))):
        print(f"requests {name:8} {len(kind):6}: p50 {percentile(kind, 500):5.0f} us, "
              f"p99 {percentile(kind, 990):6.0f} us, p99.9 {percentile(kind, 999):6.0f} us")
    for permille, of in ratios.items():
        print(f"p{permille / 10:.0f} ratio, median of {ROUNDS} rounds: {statistics.median(of):.2f} "
              f"({', '.join(f'{r:.2f}' for r in sorted(of))})")
    for name in sorted(phases.used[True]):
        used = [phases.used[b].get(name, (0, 0)) for b in (False, True)]
        if max(used[0][0], used[1][0]) > 20000:
            print(f"thread {name:14} CPU us per request: {used[0][0] / len(without):5.1f} without, "
                  f"{used[1][0] / len(beside):5.1f} beside; waited for a CPU: "
                  f"{used[0][1] / len(without):5.1f} and {used[1][1] / len(beside):5.1f}")


class Node:
    def __init__(self, process, ready):
        self.pid, self.process = process.pid, process
        self.addresses = {key: (host, int(port)) for key, (host, _, port) in
                          ((key, where.rpartition(":")) for key, where in ready)}

    def get(self, target, method="GET", at="admin"):
        return harness.request(self.addresses[at], method, target).json()

    def wait(self, condition, what):
        harness.wait_until(lambda: condition(self), what)


def measure(node, known, seconds, rate, pause):
    told = multiprocessing.Queue()
    client = multiprocessing.Process(target=client_run, daemon=True, args=(
        node.addresses["serve"], node.get("/v1/models", at="serve")["data"][0]["id"], known, seconds, rate, told))
    phases = Phases(Threads(node.pid))
    taken, turns = [], []
    client.start()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        phases.over(False)
        begun = time.monotonic()
        status = node.get("/admin/snapshot", "POST")
        taken.append((begun, time.monotonic()))
        phases.over(True)
        turns.append(status.get("longest_turn_us", 0))
        time.sleep(pause or max(0.02, taken[-1][1] - begun))
    times = told.get(timeout=10)
    client.join()
    show(times, taken, phases, turns, status)


def restart(node, again):
    """Ends it as an operator would, and starts it again."""
    begun = time.monotonic()
    node.process.terminate()
    code = node.process.wait(60)
    ended = time.monotonic()
    node = again()
    while harness.request(node.addresses["serve"], "GET", "/ready").status != 200:
        time.sleep(0.001)
    ready = time.monotonic()
    start = node.get("/admin/status")["snapshot"]["start"]
    print(f"restart: SIGTERM to its end {1000 * (ended - begun):.0f} ms (exit code {code}), exec to "
          f"/ready {1000 * (ready - ended):.0f} ms with {start['blocks']} blocks: verified in "
          f"{start['verify_ms']} ms, loaded in {start['load_ms']} ms")


def serve(rig, build, backend, events, lanes):
    workers = []
    for i, (port, url) in enumerate(zip(backend.ports, events)):
        workers += ["--worker", f"http://127.0.0.1:{port},id=w{i},events={url}"]
    return Node(*rig.start_ready(
        [build / "node" / "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
         "--lanes", lanes, "--data", rig.directory / "data", "--data.interval", "24h",
         "--data.changed_after", "24h", *workers], "node"))


def listen(node):
    """Until it hears the engines."""
    node.wait(lambda n: all("connects" in stream["counters"] for worker in n.get("/admin/workers")
                            for stream in worker["events"]), "events are listened to")
    time.sleep(0.5)  # for the subscriptions to arrive


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--blocks", type=int, default=1000000)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--pause", type=float, default=0)
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--build", default="build", type=pathlib.Path)
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    told, orders = multiprocessing.Queue(), multiprocessing.Queue()
    engines = multiprocessing.Process(target=engines_run, args=(told, orders), daemon=True)
    engines.start()
    begun = time.monotonic()
    with contextlib.ExitStack() as stack:
        stack.callback(engines.kill)
        rig = stack.enter_context(rigs.Rig())
        backend = rigs.start_backend(rig, asked.build, WORKERS)
        events = told.get()

        def start():
            return serve(rig, asked.build, backend, events, asked.lanes)
        node = start()
        listen(node)
        orders.put((asked.blocks, asked.seconds))
        known = told.get()
        node.wait(lambda n: sum(s["blocks"] for s in n.get("/admin/mesh")["streams"]) >=
                  known * RUN, "all blocks are known")
        print(f"{known * RUN} blocks of {WORKERS} workers, {asked.rate} requests/s, "
              f"{CHANGES * RUN} new blocks/s; filled in {time.monotonic() - begun:.1f} s", flush=True)
        orders.put("go on")
        measure(node, known, asked.seconds, asked.rate, asked.pause)
        restart(node, start)


if __name__ == "__main__":
    main()
