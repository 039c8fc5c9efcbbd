"""The benchmarks' own programs are right: what they count can be trusted."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import unittest

PROGRAMS = pathlib.Path(os.environ.get("KVASIR_BUILD", "build")) / "tests" / "bench"
EVENTS = 20


class Relay:
    """Passes bytes between one client and the backend, pieces of `cut` bytes at
    a time, the answer changed by `damage`."""

    def __init__(self, to_port, cut=65536, damage=lambda data: data):
        self.to_port, self.cut, self.damage = to_port, cut, damage
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        client, _ = self.listener.accept()
        backend = socket.create_connection(("127.0.0.1", self.to_port))
        with client, backend:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            backend.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            request = client.recv(65536)
            for at in range(0, len(request), self.cut):
                backend.sendall(request[at:at + self.cut])
            answer = b""
            while not answer.endswith(b"\r\n0\r\n\r\n"):
                answer += backend.recv(65536)
            answer = self.damage(answer)
            for at in range(0, len(answer), self.cut):
                client.sendall(answer[at:at + self.cut])
            client.shutdown(socket.SHUT_WR)
            client.recv(1)

    def close(self):
        self.listener.close()


class Tools(unittest.TestCase):
    def setUp(self):
        self.backend = subprocess.Popen(
            [PROGRAMS / "bench_backend", "--ports", "2", "--interval-us", "0"],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.end)
        where = self.backend.stdout.readline().split()
        self.ports = [int(w.rsplit(":", 1)[1]) for w in where[1:]]

    def end(self):
        self.backend.terminate()
        self.served = self.backend.stdout.read()
        self.backend.stdout.close()
        self.assertEqual(self.backend.wait(), 0)

    def client(self, port, streams=1, events=EVENTS):
        run = subprocess.run(
            [PROGRAMS / "bench_sse_client", "--port", str(port), "--streams",
             str(streams), "--events", str(events), "--timeout-s", "20"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            check=False)
        return json.loads(run.stdout.splitlines()[-1])

    def through(self, **how):
        relay = Relay(self.ports[0], **how)
        self.addCleanup(relay.close)
        return self.client(relay.port)

    def talk(self, *pieces):
        """Sends the pieces on one connection, then reads until its last answer,
        which must be that of /version."""
        with socket.create_connection(("127.0.0.1", self.ports[0])) as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                s.sendall(piece)
            said = b""
            while not said.endswith(b'{"version":"0.11.0"}'):
                data = s.recv(65536)
                self.assertTrue(data, said[-200:])
                said += data
            return said

    def test_every_stream_is_complete(self):
        result = self.client(self.ports[1], streams=200, events=200)
        self.assertEqual(result["complete"], 200)
        self.assertEqual(result["events"], 200 * 200)

    def test_a_stream_cut_into_single_bytes_is_complete(self):
        self.assertEqual(self.through(cut=1)["complete"], 1)

    def test_a_lost_event_is_seen(self):
        def lose(answer):
            pieces = answer.split(b"data: ")
            del pieces[5]  # with the size of the next, which is the same
            return b"data: ".join(pieces)
        self.assertEqual(self.through(damage=lose)["failed"]["damaged"], 1)

    def test_one_changed_byte_is_seen(self):
        def change(answer):
            return answer.replace(b"chatcmpl-bench", b"chatcmpl-Bench", 1)
        self.assertEqual(self.through(damage=change)["failed"]["damaged"], 1)

    def test_anothers_stream_is_seen(self):
        def swap(answer):
            return answer.replace(b" 00000000 00000003 ", b" 00000001 00000003 ")
        self.assertEqual(self.through(damage=swap)["failed"]["damaged"], 1)

    def test_a_missing_end_is_seen(self):
        self.assertEqual(self.through(damage=lambda a: a[:-5])["failed"]["severed"], 1)

    def test_a_wrong_chunk_size_is_seen(self):
        def shrink(answer):
            size = answer.split(b"\r\n\r\n")[1].split(b"\r\n")[0]
            less = b"%x" % (int(size, 16) - 1)
            return answer.replace(b"\r\n%s\r\n" % size, b"\r\n%s\r\n" % less, 1)
        self.assertEqual(self.through(damage=shrink)["failed"]["framing"], 1)

    def test_an_error_answer_is_seen(self):
        def fail(answer):
            return answer.replace(b"200 OK", b"502 Oh", 1)
        self.assertEqual(self.through(damage=fail)["failed"]["status"], 1)

    def test_backend_answers_a_request_cut_anywhere(self):
        request = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n"
                   b"content-length: 10\r\n\r\n" + b"x" * 10 +
                   b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n")
        for at in range(1, len(request), 7):
            said = self.talk(request[:at], request[at:])
            self.assertEqual(said.count(b"HTTP/1.1 200"), 2)

    def test_backend_answers_bodies_of_every_size(self):
        for size in (0, 1, 511, 512, 513, 16384, 49151, 49152, 5000000):
            said = self.talk(b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % size,
                             b"G" * size, b"GET /version HTTP/1.1\r\n\r\n")
            self.assertEqual(said.count(b"HTTP/1.1 200"), 2, size)

    def test_backend_answers_pipelined_requests_and_streams_in_order(self):
        body = b'{"stream":true,"max_tokens":3,"user":"s00000abc"}'
        one = b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        said = self.talk(one * 5 + b"GET /version HTTP/1.1\r\n\r\n")
        self.assertEqual(said.count(b"[DONE]"), 5)
        self.assertEqual(said.count(b" 00000abc 00000002 "), 5)


if __name__ == "__main__":
    if not (PROGRAMS / "bench_backend").exists():
        print("skipped: bench_backend is not built")
        sys.exit(77)
    unittest.main()
