"""Requests of every size, framing and end, behind each other on many connections:
whatever happens to one, another gets the answer to what it asked.

Each connection plays a script that its seed makes. KVASIR_ANY_SEED is the first
seed, KVASIR_ANY_ROUNDS how many rounds of connections there are.
"""
import hashlib
import json
import os
import random
import socket
import threading
import traceback

import harness
from fake_worker import Close, FakeWorker, Peer
from test_faults import Rig, reset

SEED = int(os.environ.get("KVASIR_ANY_SEED", "1"))
ROUNDS = int(os.environ.get("KVASIR_ANY_ROUNDS", "8"))
CONNECTIONS = 8  # at a time
REQUESTS = 12    # on a connection
BODY_MAX = 640 << 10
SIZES = ((50, 3000), (64_000, 68_000), (100_000, 600_000))
WORDS = ("plain words ", 'quo"tes\\ and\nlines\t', "caf\u00e9 \u4e2d\u6587 ", "\U0001f600\u0001")
FINE = ("length", "chunks", "stream", "until_close", "old", "interim", "extra")


def digest(body):
    return hashlib.sha256(body).hexdigest()


class Asked:
    """One request, what its worker is to do, and whether its client stays."""

    def __init__(self, dice, case, last):
        self.case = case
        self.stream = dice.random() < 0.3
        self.broken = dice.random() < 0.06
        self.large = dice.random() < 0.03
        self.leaves = dice.random() < 0.04
        self.last = last or self.leaves
        self.ends = "fails" if dice.random() < 0.05 else "dies" if dice.random() < 0.05 else \
            "cut" if dice.random() < 0.05 else "stream" if self.stream else dice.choice(FINE)
        self.body = self._body(dice)
        self.bytes = self._head(dice) + self._framed(dice)
        self.answer = dice.randbytes(dice.choice((0, 10, 3000, 200_000))).hex().encode()

    def _body(self, dice):
        low, high = dice.choice(SIZES)
        word = dice.choice(WORDS) + str(self.case)
        size = BODY_MAX + 1 if self.large else dice.randrange(low, high)
        asks = {"model": "m", "messages": [{"role": "user", "content": word}]}
        if self.stream:
            asks |= {"stream": True, "stream_options": {"include_usage": True}}
        if dice.random() < 0.3:  # what comes last decides how the prompt begins
            asks["tools"] = [{"type": "function", "function": {"name": f"f{self.case}"}}]
        whole = json.dumps(asks, ensure_ascii=dice.random() < 0.5).encode()
        more = json.dumps(word)[1:-1].encode()
        whole = whole.replace(b'"content": "', b'"content": "' + more * (size // len(more)), 1)
        if self.broken:
            at = dice.randrange(len(whole))
            whole = whole[:at] + dice.choice((b"\x00", b"}", b"\xff", b'"')) + whole[at:]
        return whole

    def _head(self, dice):
        self.chunked = dice.random() < 0.3
        fields = [f"X-Case: {self.case}", "Content-Type: application/json",
                  "Transfer-Encoding: chunked" if self.chunked else
                  f"Content-Length: {len(self.body)}"]
        if dice.random() < 0.1:
            fields.append("Expect: 100-continue")
        if self.last and not self.leaves:
            fields.append("Connection: close")
        dice.shuffle(fields)
        return "\r\n".join(["POST /v1/chat/completions HTTP/1.1", "Host: h", *fields, "", ""]).encode()

    def _framed(self, dice):
        if not self.chunked:
            return self.body
        framed, at = [], 0
        while at < len(self.body):
            piece = self.body[at:at + dice.choice((1, 100, 4096, 65_536, 100_000))]
            framed += [b"%x\r\n" % len(piece), piece, b"\r\n"]
            at += len(piece)
            if len(framed) > 300:  # the rest at once
                framed += [b"%x\r\n" % len(self.body[at:]), self.body[at:], b"\r\n"] \
                    if at < len(self.body) else []
                break
        return b"".join(framed) + b"0\r\n\r\n"

    def payload(self):
        """What its worker says when it answers well."""
        text = b"%d %s " % (self.case, digest(self.body).encode()) + self.answer
        if self.ends != "stream":
            return text
        events = [text[i:i + 5000] for i in range(0, len(text), 5000)]
        return b"".join(b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % e
                        for e in events) + b"data: [DONE]\n\n"


class AnyRequests(Rig):
    def setUp(self):
        super().setUp()
        self.wrong = []
        self.asked = {}
        self.ended = {"answered": 0, "refused": 0, "failed": 0, "left": 0}
        self.lock = threading.Lock()

    def answer(self, peer, request):
        """The worker's side of one request."""
        asked = self.asked[int(request.headers["x-case"])]
        may_change = asked.broken and asked.stream  # no include_usage any more: it is put in
        if request.body != asked.body and not may_change:
            self.wrong.append(f"case {asked.case}: a worker got {len(request.body)} bytes that are "
                              f"not the {len(asked.body)} of its body")
        dice = random.Random(asked.case)
        payload = asked.payload()
        if asked.ends == "dies":
            raise Close
        if asked.ends == "fails":
            peer.answer(500, payload)
        elif asked.ends in ("length", "interim", "extra"):
            if asked.ends == "interim":
                peer.send("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
            more = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nnobody's"
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(payload) + payload +
                      (more if asked.ends == "extra" else b""))
        elif asked.ends == "old":
            peer.send(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n" % len(payload) + payload)
            raise Close
        elif asked.ends == "until_close":
            peer.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + payload)
            raise Close
        else:
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: "
                      f"{'text/event-stream' if asked.stream else 'text/plain'}\r\n\r\n")
            while payload:
                size = dice.choice((7, 1000, 60_000, 300_000))
                peer.chunk(payload[:size])
                payload = payload[size:]
                if asked.ends == "cut":
                    raise Close
            peer.end_stream()

    def play(self, seed):
        """One connection, from its first byte to its last."""
        dice = random.Random(seed)
        script = [Asked(dice, seed * 1000 + i, i == REQUESTS - 1) for i in range(REQUESTS)]
        with self.lock:
            self.asked |= {asked.case: asked for asked in script}
        try:
            while script:
                with socket.create_connection(self.address, harness.IO_TIMEOUT_S) as sock:
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, dice.random() < 0.5)
                    goes_on = True
                    while script and goes_on:
                        behind = dice.choice((1, 1, 2, 5))
                        group, script = script[:behind], script[behind:]
                        goes_on = self.converse(sock, dice, group)
        except (AssertionError, OSError, EOFError, ValueError):
            self.wrong.append(f"seed {seed}: {traceback.format_exc()}")

    def converse(self, sock, dice, group):
        """Requests sent behind each other, and their answers. False: the connection ended."""
        leaving = next((i for i, asked in enumerate(group) if asked.leaves), None)
        if leaving is not None:
            group = group[:leaving + 1]
        data = b"".join(asked.bytes for asked in group)
        if leaving is not None:
            data = data[:len(data) - dice.randrange(len(group[-1].bytes))]
        writer = threading.Thread(target=self.write, args=(sock, data, dice.random()))
        writer.start()
        peer = Peer(sock)
        try:
            for asked in group:
                if asked.leaves:
                    writer.join()
                    reset(sock) if dice.random() < 0.5 else sock.close()
                    self.count("left")
                    return False
                if not self.read(peer, asked):
                    return False
        finally:
            if leaving is None:
                writer.join()
        self.assertEqual(peer.held, b"", f"bytes behind the answer to case {group[-1].case}")
        return not group[-1].last

    def write(self, sock, data, chance):
        dice = random.Random(chance)
        try:
            while data:
                size = dice.choice((1, 50, 5000, 100_000, 1_000_000))
                sock.sendall(data[:size])
                data = data[size:]
        except OSError:
            pass  # the node has refused the rest, and the reader says so

    def rest(self, peer):
        while (part := peer.sock.recv(65536)) != b"":
            peer.held += part
        body, peer.held = peer.held, b""
        return body

    def count(self, how):
        with self.lock:
            self.ended[how] += 1

    def read(self, peer, asked):
        """The next answer, judged. False: nothing comes behind it."""
        say = f"case {asked.case} ({asked.ends}, {len(asked.body)} bytes): "
        status = 100
        while status == 100:
            line, headers, _ = peer.read_head()
            status = int(line.split(" ", 2)[1])
        closes = headers.get("connection", "") == "close"
        if asked.large or asked.broken and 400 <= status < 500:
            self.assertTrue(asked.broken or status == 413, say)
            self.count("refused")
        elif asked.ends in ("dies", "fails"):
            self.assertGreaterEqual(status, 500, say)
            self.count("failed")
        else:
            self.assertEqual(status, 200, say)
            if asked.ends == "cut":
                self.count("failed")
                try:
                    told = peer.read_body(headers)
                except (EOFError, ConnectionResetError):
                    return False
                self.assertIn(b'"error"', told, say + "it looks whole")
                return False
        framed = {"content-length", "transfer-encoding"} & set(headers)
        body = peer.read_body(headers) if framed else self.rest(peer)
        if status == 200:
            self.assertEqual(body, asked.payload(), say + "somebody else's answer, or not all of it")
            self.count("answered")
        if closes or asked.last:
            self.assertTrue(closes, say + "the connection was to be closed")
            self.assertEqual(peer.sock.recv(1), b"", say)
            return False
        return True

    def test_each_client_gets_the_answer_to_what_it_asked(self):
        workers = [FakeWorker(self, self.answer) for _ in range(3)]
        node = self.serve(*workers, options=["--breaker.failures", "1000", "--limits.body_bytes_max",
                                             str(BODY_MAX)])
        for first in range(SEED, SEED + ROUNDS * CONNECTIONS, CONNECTIONS):
            clients = [threading.Thread(target=self.play, args=(seed,))
                       for seed in range(first, first + CONNECTIONS)]
            for client in clients:
                client.start()
            for client in clients:
                client.join()
            self.assertEqual("\n".join(self.wrong), "")
        self.assertGreater(self.ended["answered"], ROUNDS * CONNECTIONS * REQUESTS // 2, self.ended)
        self.settles(node)
        self.assert_not_spinning(node)
        self.assertEqual(node.stop(), 0)


if __name__ == "__main__":
    harness.main()
