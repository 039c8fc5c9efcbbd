#!/usr/bin/env python3
"""What reading the same events costs a node by ZeroMQ, by NATS, and by NATS with TLS.

    /usr/bin/python3 tests/bench/events_ways.py --build BUILD [--batches N] [--rounds N]

One reader (events_reader.c: the intake as it is in a node) and one source at a time: a
ZeroMQ publisher with its replay socket, or a real nats-server with a JetStream stream in
memory. `live`: the reader is up to date, then all batches are sent at once. `replay`: all
are there before the reader begins. A batch is one BlockStored of 8 blocks of 16 tokens.
Rounds take turns; the middle of them is printed, and ratios to ZeroMQ within a round.
Wants nats-server, python3-zmq, python3-msgpack and openssl.
"""
import argparse
import pathlib
import random
import statistics
import struct
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
import certs  # noqa: E402 - needs the path
import harness  # noqa: E402
import nats  # noqa: E402

try:
    import msgpack
    import zmq
except ImportError as missing:
    sys.exit(f"events_ways: {missing}")

BLOCKS, TOKENS = 8, 16
END = struct.pack(">Q", 2**64 - 1)


def batches(count):
    rng = random.Random(1)
    for _ in range(count):
        event = {"type": "BlockStored", "block_hashes": [rng.getrandbits(64) for _ in range(BLOCKS)],
                 "parent_block_hash": None, "block_size": TOKENS, "lora_id": None,
                 "token_ids": [256 + rng.randrange(65000) for _ in range(BLOCKS * TOKENS)]}
        yield msgpack.packb([rng.random(), [event], 0])


class Zmq:
    """As an engine: a socket that publishes, and one that repeats."""

    def __init__(self, payloads):
        self.payloads, self.held = payloads, 0
        self.context = zmq.Context()
        self.pub, self.router = self.context.socket(zmq.XPUB), self.context.socket(zmq.ROUTER)
        for sock in self.pub, self.router:
            sock.set_hwm(0)
            sock.linger = 0
            sock.bind("tcp://127.0.0.1:*")
        self.urls = [sock.last_endpoint.decode() for sock in (self.pub, self.router)]
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.repeat)
        self.thread.start()

    def repeat(self):
        while not self.ends.is_set():
            if self.router.poll(50):
                who, _, start = self.router.recv_multipart()
                for seq in range(struct.unpack(">Q", start)[0], self.held):
                    self.router.send_multipart([who, b"", struct.pack(">Q", seq),
                                                self.payloads[seq]])
                self.router.send_multipart([who, b"", END, b""])

    def keep(self):
        self.held = len(self.payloads)

    def send(self):
        for seq, payload in enumerate(self.payloads):
            self.pub.send_multipart([b"", struct.pack(">Q", seq), payload])
        self.keep()

    def close(self):
        self.ends.set()
        self.thread.join()
        self.context.destroy(linger=0)


class Nats:
    def __init__(self, payloads, tls=None):
        self.folder = tempfile.TemporaryDirectory(prefix="kvasir-ways-")
        self.server = nats.Server(pathlib.Path(self.folder.name), tls=tls)
        self.client = self.server.client()
        self.client.stream("KV", ["kv.a"], storage="memory")
        self.count, self.words = len(payloads), b"".join(map(self.message, range(len(payloads)),
                                                             payloads))
        self.urls = [self.server.url("kv.a"), self.server.url("KV")]

    @staticmethod
    def message(seq, payload):
        head = b"NATS/1.0\r\nNats-Msg-Id: life-%d\r\n\r\n" % seq
        return b"HPUB kv.a %d %d\r\n%s%s\r\n" % (len(head), len(head) + len(payload), head, payload)

    def keep(self):
        self.send()
        harness.wait_until(lambda: b'"messages":%d,' % self.count in
                           self.client.ask("$JS.API.STREAM.INFO.KV", b""), "all are kept")

    def send(self):
        self.client.say(self.words)

    def close(self):
        self.client.close()
        self.server.kill()
        self.folder.cleanup()


def measure(program, source, count, live, options):
    """CPU in microseconds and time in seconds for each batch read."""
    if not live:
        source.keep()
    reader = subprocess.Popen([program, *source.urls, str(count), *options],
                              stdout=subprocess.PIPE, text=True)
    with reader:
        words = reader.stdout.readline().split()
        if live and words != ["live", "0"]:
            raise RuntimeError(words)
        if live:
            source.send()
        if words[0] == "live":
            words = reader.stdout.readline().split()
    told = dict(zip(words[::2], map(float, words[1::2])))
    if told["read"] != count:
        raise RuntimeError(f"{told['read']} batches of {count}")
    first = "live_" if live else ""
    return told[f"{first}cpu_us"] / count, told[f"{first}us"] / 1e6 / count


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--batches", type=int, default=20000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    if nats.PROGRAM is None or not certs.FOUND:
        sys.exit("events_ways: no nats-server, or no openssl")
    program = pathlib.Path(args.build) / "tests/bench/bench_events_reader"
    payloads = list(batches(args.batches))

    class Case(harness.Case):
        def runTest(self):
            made = certs.Certs(type(self))
            ways = {"ZeroMQ": (Zmq, []), "NATS": (Nats, []),
                    "NATS, TLS": (lambda payloads: Nats(payloads, made),
                                  ["tls.workers_ca_file", made.path("ca.pem")])}
            rows = {(name, live): [] for live in (True, False) for name in ways}
            for _ in range(args.rounds):
                for name, live in rows:
                    source = ways[name][0](payloads)
                    try:
                        rows[name, live].append(measure(program, source, len(payloads), live,
                                                        ways[name][1]))
                    finally:
                        source.close()
            show(rows, len(payloads[0]))

    return 0 if harness.unittest.TextTestRunner(verbosity=0).run(Case()).wasSuccessful() else 1


def show(rows, size):
    print(f"batches of {BLOCKS} blocks, {size} bytes")
    print("| read | by | CPU us/batch | CPU beside ZeroMQ | blocks/s |\n|---|---|---|---|---|")
    for (name, live), told in rows.items():
        ratios = [one[0] / other[0] for one, other in zip(told, rows["ZeroMQ", live])]
        low, middle, high = (f"{f(ratios):.2f}" for f in (min, statistics.median, max))
        print(f"| {'live' if live else 'replay'} | {name} "
              f"| {statistics.median(one[0] for one in told):.1f} | {middle} [{low}..{high}] "
              f"| {BLOCKS / statistics.median(one[1] for one in told):,.0f} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
