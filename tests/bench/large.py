#!/usr/bin/env python3
"""Prompts of hundreds of kilobytes through a node, an nginx and a haproxy.

    large.py [--build DIR] [--bytes N,...] [--requests N] [--rounds N] [--seconds S]

Prints for each size how long the first byte of the answer comes after the last of
the request's bytes, what processor time a request takes, and how much more memory
each proxy has afterwards; then what such prompts, one after the other over one
connection, do to small requests beside them over another. All one thread each,
rounds in turns, medians. README.md beside this file says how to read it. Who is not
on this machine is left out with a word.
"""
import argparse
import fcntl
import http.client
import os
import pathlib
import socket
import statistics
import struct
import sys
import termios
import threading
import time

import rig as r

LAST_BYTES = 1000  # sent once all others have been taken
WORDS = ("the", "cache", "of", "an", "engine", "holds", "what", "was", "computed", "before\\n",
         "and", "nothing", "that", "nobody", "asked", "for", "twice", "\\\"again\\\"", "so", "far")


def body_of(size, number):
    """The next turn of a long conversation: the last words are new."""
    head = b'{"model":"bench","messages":[{"role":"user","content":"'
    tail = b' %08d"}]}' % number
    words, state = [], 1
    while sum(map(len, words)) < 8192:
        state = state * 1103515245 + 12345 & 0x7fffffff
        words.append(WORDS[(state >> 16) % len(WORDS)] + " ")
    page = "".join(words).encode()
    room = size - len(head) - len(tail)
    text = b"".join(b"%06d " % n + page for n in range(room // len(page) + 1))[:room - 16]
    return head + text + b"x" * 16 + tail


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def unsent(self):
        return struct.unpack("i", fcntl.ioctl(self.socket, termios.TIOCOUTQ, b"\0" * 4))[0]

    def ask(self, body, until_taken=True):
        """Microseconds from the last bytes to the first of the answer."""
        whole = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\nContent-Type: "
                 b"application/json\r\nContent-Length: %d\r\n\r\n" % len(body)) + body
        self.socket.sendall(whole[:-LAST_BYTES])
        while until_taken and self.unsent() != 0:
            time.sleep(0)
        started = time.monotonic()
        self.socket.sendall(whole[-LAST_BYTES:])
        self.socket.recv(1, socket.MSG_PEEK)
        took_us = (time.monotonic() - started) * 1e6
        answer = http.client.HTTPResponse(self.socket)
        answer.begin()
        said = answer.read()
        if answer.status != 200:
            raise r.Failed(f"answered {answer.status} {said[-200:]}")
        return took_us

    def close(self):
        self.socket.close()


def subjects(args, rig, backend):
    kvasir = pathlib.Path(args.build) / "node" / "kvasir"
    passing = r.Extra(location="proxy_request_buffering off;")
    for start in (lambda: r.start_nginx(rig, backend, 1, extra=passing),
                  lambda: r.start_haproxy(rig, backend, 1),
                  lambda: r.start_kvasir(rig, kvasir, backend, 1)):
        try:
            yield start()
        except r.Missing as why:
            print(f"skipped: {why}", flush=True)


def ask_many(server, bodies):
    """Medians of one round: microseconds, and processor time of the proxy."""
    client = Client(server.port)
    client.ask(bodies[0])
    before_us = server.cpu_us()
    took = [client.ask(body) for body in bodies]
    used_us = server.cpu_us() - before_us
    client.close()
    return statistics.median(took), used_us / len(bodies)


def alone(args, servers, size):
    bodies = [body_of(size, n) for n in range(args.requests)]
    before = {s.name: s.rss_bytes() for s in servers}
    rounds = {s.name: [] for s in servers}
    for turn in range(args.rounds):
        for server in servers[turn % len(servers):] + servers[:turn % len(servers)]:
            rounds[server.name].append(ask_many(server, bodies))
    for server in servers:
        took, used = (statistics.median(x) for x in zip(*rounds[server.name]))
        grown = (server.rss_bytes() - before[server.name]) / 1e6
        print(f"{size:8} {server.name:8} {took:10.0f} {used:10.0f} {grown:8.1f}", flush=True)


def beside(args, rig, server, bodies):
    """p50 and p99 of small requests without large ones beside, and with them; how
    many large ones there were."""
    quiet = r.wrk(rig, server, 1, args.seconds, 1)
    stop, asked, failed = threading.Event(), [], []

    def load():
        client = Client(server.port)
        try:
            while not stop.is_set():
                client.ask(bodies[len(asked) % len(bodies)], until_taken=False)
                asked.append(1)
        except (OSError, r.Failed) as why:
            failed.append(why)
        client.close()

    thread = threading.Thread(target=load)
    thread.start()
    loud = r.wrk(rig, server, 1, args.seconds, 2)
    stop.set()
    thread.join()
    if failed:
        raise r.Failed(f"{server.name}: {failed[0]}")
    return quiet["p50_us"], quiet["p99_us"], loud["p50_us"], loud["p99_us"], len(asked)


def run(args, rig):
    sizes = [int(n) for n in args.bytes.split(",")]
    backend = r.start_backend(rig, args.build, 4)
    servers = [backend, *subjects(args, rig, backend)]
    print("   bytes subject  us to first    CPU us  more MB", flush=True)
    for size in sizes:
        alone(args, servers, size)
    print("small ones beside large ones: p50, p99 us without; with; large ones", flush=True)
    for size in sizes:
        bodies = [body_of(size, n) for n in range(args.requests)]
        rounds = {s.name: [] for s in servers}
        for turn in range(args.rounds):
            for server in servers[turn % len(servers):] + servers[:turn % len(servers)]:
                rounds[server.name].append(beside(args, rig, server, bodies))
        for server in servers:
            said = [statistics.median(x) for x in zip(*rounds[server.name])]
            print(f"{size:8} {server.name:8} " + " ".join(f"{x:7.0f}" for x in said), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("KVASIR_BUILD", "build"))
    parser.add_argument("--bytes", default="400000,2000000")
    parser.add_argument("--requests", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    return r.run_in(run, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
