"""Forms that go to a worker while they come: when they do, what is held of them,
and what becomes of them when somebody gives up."""
import contextlib
import select
import socket
import subprocess
import sys
import threading
import unittest

import certs
import harness
from fake_worker import FakeWorker
from test_anthropic import packages_of
from test_proxy import Proxy, chat, read_answer, request_bytes

PATH = "/v1/audio/transcriptions"
HELD = 1 << 20
FILE = bytes(range(256)) * 4096  # 1 MiB, with every byte and no boundary


def part(name, value, file=""):
    return (f'--b\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'.encode()
            + value + b"\r\n")


def form(sound, model=b"m", after=False):
    parts = [part("model", model), part("file", sound, '; filename="a.wav"')]
    return b"".join(reversed(parts) if after else parts) + b"--b--\r\n"


def head(body, extra=""):
    return (f"POST {PATH} HTTP/1.1\r\nHost: h\r\nContent-Type: multipart/form-data; boundary=b\r\n"
            f"Content-Length: {len(body)}\r\n{extra}\r\n").encode()


class Slow:
    """A worker's handler that reads of a body only what it is told to."""
    reads_body = True

    def __init__(self, answer=lambda peer, body: peer.json({"length": len(body)})):
        self.answer = answer
        self.go_on = threading.Event()
        self.came = threading.Event()
        self.gone = threading.Event()
        self.first = 4096
        self.bodies = []

    def __call__(self, peer, request):
        size = int(request.headers["content-length"])
        body = peer._exactly(min(self.first, size))
        self.came.set()
        self.go_on.wait(harness.IO_TIMEOUT_S)
        try:
            body += peer._exactly(size - len(body))
        except (EOFError, OSError):
            self.gone.set()
            raise
        self.bodies.append(body)
        self.answer(peer, body)


class Forms(Proxy):
    def serve_slow(self, *options, count=1):
        self.handlers = [Slow() for _ in range(count)]
        self.workers = [FakeWorker(self, handler) for handler in self.handlers]
        self.node = self.serve(*self.workers, options=options)
        return self.handlers[0]

    def metric(self, name):
        return harness.metric(self.node.at("admin"), name)

    def begin(self, body, first):
        """Sends the head and so much of the body."""
        s = self.connect()
        s.sendall(head(body) + body[:first])
        return s

    def at_rest(self):
        harness.wait_until(lambda: self.metric("kvasir_inflight") == 0, "nothing is in flight")
        harness.wait_until(lambda: self.metric("kvasir_buffered_bytes") == 0, "nothing is held")

    def test_the_rest_follows_and_arrives_byte_for_byte(self):
        worker = self.serve_slow()
        body = form(FILE * 3 + b"end")
        s = self.begin(body, 64 << 10)
        self.assertTrue(worker.came.wait(harness.IO_TIMEOUT_S), "it has not gone ahead")
        worker.go_on.set()
        s.sendall(body[64 << 10:])
        status, headers, answer, _ = read_answer(s)
        self.assertEqual((status, answer), (200, b'{"length": %d}' % len(body)))
        self.assertTrue(worker.bodies[0] == body)
        self.assertEqual(self.metric("kvasir_forms_ahead_total"), 1)
        self.assertEqual(self.metric("kvasir_bytes_in_total"), len(body))
        # The connection goes on, with another one, and with what is no form.
        more = request_bytes(chat())
        s.sendall(head(body) + body + more)
        got = b""
        while got.count(b'{"length"') < 2:
            got += s.recv(65536)
        self.assertEqual(got.count(b"HTTP/1.1 200 "), 2)
        self.assertTrue(worker.bodies[1] == body)
        self.assertTrue(more.endswith(worker.bodies[2]))
        self.at_rest()

    def test_a_worker_that_takes_nothing_stops_its_client(self):
        worker = self.serve_slow()
        body = form(FILE * 32)
        sent = 0
        s = self.begin(body, 64 << 10)
        self.assertTrue(worker.came.wait(harness.IO_TIMEOUT_S))
        s.setblocking(False)
        rest = memoryview(body)[64 << 10:]

        def stopped():
            nonlocal sent
            before = sent
            with contextlib.suppress(BlockingIOError):
                while sent < len(rest):
                    sent += s.send(rest[sent:])
            return sent == before
        harness.wait_until(stopped, "the client is stopped")
        self.assertLess(sent, len(rest))
        self.assertLessEqual(self.metric("kvasir_buffered_bytes"), HELD)
        s.settimeout(harness.IO_TIMEOUT_S)
        worker.go_on.set()
        s.sendall(rest[sent:])
        self.assertEqual(read_answer(s)[0], 200)
        self.assertTrue(worker.bodies[0] == body)
        self.at_rest()

    def test_another_worker_gets_it_while_all_of_it_is_held(self):
        def close(peer, request):
            peer._exactly(4096)
            raise EOFError
        close.reads_body = True
        bad = FakeWorker(self, close)
        good = Slow()
        good.go_on.set()
        worker = FakeWorker(self, good)
        self.node = self.serve(bad, worker)
        body = form(FILE[:HELD // 2])
        for _ in range(8):
            s = self.begin(body, 64 << 10)
            harness.wait_until(lambda: good.came.is_set(), "the good one has it")
            s.sendall(body[64 << 10:])
            self.assertEqual(read_answer(s)[0], 200)
            self.assertTrue(good.bodies[-1] == body)
            good.came.clear()
            if bad.requests:
                break
        self.assertTrue(bad.requests)
        self.at_rest()

    def test_nobody_else_gets_what_is_not_held(self):
        worker = self.serve_slow(count=2)
        taken = HELD * 4
        for handler in self.handlers:
            handler.first = taken
        body = form(FILE * 8)
        s = self.begin(body, len(body) - 1)
        harness.wait_until(lambda: any(h.came.is_set() for h in self.handlers), "one has a part")
        for w, handler in zip(self.workers, self.handlers):
            if handler.came.is_set():
                w.close()
            handler.go_on.set()
        status, headers, answer, _ = read_answer(s)
        self.assertEqual(status, 502, answer)
        self.assertEqual(headers["connection"], "close")
        self.assertEqual(sum(len(w.requests) for w in self.workers), 1)
        self.at_rest()

    def test_an_answer_before_the_form_is_whole_is_passed_on(self):
        def refuse(peer, request):
            peer._exactly(4096)
            peer.answer(413, b"too long for me")
            peer.wait_closed()
        refuse.reads_body = True
        self.node = self.serve(FakeWorker(self, refuse))
        body = form(FILE * 8)
        s = self.begin(body, 64 << 10)
        status, headers, answer, _ = read_answer(s)
        self.assertEqual((status, answer), (413, b"too long for me"))
        self.assertEqual(headers["connection"], "close")
        self.at_rest()

    def test_a_head_before_the_form_is_whole_waits_for_nothing(self):
        sent, go_on = threading.Event(), threading.Event()
        self.addCleanup(go_on.set)

        def answer(peer, request):
            peer._exactly(4096)
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            sent.set()
            go_on.wait(harness.IO_TIMEOUT_S)
            peer.send("0\r\n\r\n")
            peer.wait_closed()
        answer.reads_body = True
        self.node = self.serve(FakeWorker(self, answer))
        body = form(FILE * 8)
        s = self.begin(body, 64 << 10)
        self.assertTrue(sent.wait(harness.IO_TIMEOUT_S))
        for at in range(64 << 10, len(body) // 2, 8192):  # more of it comes all the time
            s.sendall(body[at:at + 8192])
            if select.select([s], [], [], 0.01)[0]:
                break
        else:
            self.fail("there is no answer")
        self.assertTrue(s.recv(65536).startswith(b"HTTP/1.1 200 "))

    def test_a_client_that_leaves_ends_it_at_the_worker(self):
        worker = self.serve_slow()
        worker.go_on.set()
        s = self.begin(form(FILE * 2), 256 << 10)
        self.assertTrue(worker.came.wait(harness.IO_TIMEOUT_S))
        s.close()
        self.assertTrue(worker.gone.wait(harness.IO_TIMEOUT_S))
        self.assertEqual(worker.bodies, [])
        self.at_rest()

    def test_a_client_that_sends_no_more_is_told_so(self):
        worker = self.serve_slow("--timeouts.body", "200ms")
        worker.go_on.set()
        s = self.begin(form(FILE * 2), 256 << 10)
        self.assertEqual(read_answer(s)[0], 408)
        self.assertTrue(worker.gone.wait(harness.IO_TIMEOUT_S))
        self.at_rest()

    def test_a_client_is_not_slow_while_its_worker_takes_nothing(self):
        """It is not read then, for longer than its time."""
        worker = self.serve_slow("--timeouts.body", "200ms", "--limits.body_rate_min", "4MiB")
        body = form(FILE * 32)
        s = self.connect()
        sender = threading.Thread(target=s.sendall, args=(head(body) + body,))
        sender.start()
        self.assertTrue(worker.came.wait(harness.IO_TIMEOUT_S))
        harness.wait_until(lambda: self.metric("kvasir_buffered_bytes") == HELD, "it is stopped")
        since = self.metric("kvasir_uptime_seconds")
        harness.wait_until(lambda: self.metric("kvasir_uptime_seconds") > since + 4,
                           "more than its time has passed")
        worker.go_on.set()
        sender.join(harness.IO_TIMEOUT_S)
        self.assertEqual(read_answer(s)[0], 200)
        self.assertTrue(worker.bodies[0] == body)

    def whole_first(self, body, options=(), extra=""):
        """It comes whole before it goes."""
        handler = Slow()
        handler.go_on.set()
        self.node = self.serve(FakeWorker(self, handler, models=["m", "n"]), options=options)
        s = self.connect()
        s.sendall(head(body, extra) + body)
        status, _, answer, _ = read_answer(s)
        self.assertEqual(self.metric("kvasir_forms_ahead_total"), 0)
        self.at_rest()
        return status, answer, handler.bodies

    def test_a_form_that_names_its_model_last_goes_where_that_is(self):
        body = form(FILE * 2, after=True)
        one, two = Slow(), Slow()
        workers = [FakeWorker(self, one, models=["m"]), FakeWorker(self, two, models=["n"])]
        self.node = self.serve(*workers)
        one.go_on.set()
        s = self.connect()
        s.sendall(head(body) + body)
        self.assertEqual(read_answer(s)[0], 200)
        self.assertEqual(([len(b) for b in one.bodies], two.bodies), ([len(body)], []))
        self.assertEqual(self.metric("kvasir_forms_ahead_total"), 0)

    def test_an_alias_is_replaced_in_a_whole_form(self):
        body = form(FILE, b"nick")
        status, answer, bodies = self.whole_first(body, ("--aliases", "nick=n"))
        self.assertEqual(status, 200, answer)
        self.assertTrue(bodies[0] == form(FILE, b"n"))

    def test_who_may_use_some_models_only_sends_a_whole_form(self):
        key, line = self.run_once("kvasir", "key").stdout.split()
        keys = self.folder / "keys.yaml"
        keys.write_text(f'tenants:\n  shop:\n    models: [m]\n    keys: ["{line}"]\n')
        extra = f"Authorization: Bearer {key}\r\n"
        for model, second, wanted in ((b"m", b"", 200), (b"m", part("model", b"n"), 403)):
            body = second + form(FILE, model) if second == b"" else \
                form(FILE, model)[:-len(b"--b--\r\n")] + second + b"--b--\r\n"
            status, answer, bodies = self.whole_first(body, ("--keys.file", keys), extra)
            self.assertEqual(status, wanted, answer)
            self.assertEqual(len(bodies), wanted == 200)

    def test_a_worker_that_cannot_be_reached_costs_an_attempt(self):
        closed = socket.create_server(("127.0.0.1", 0))
        address = "http://%s:%d" % closed.getsockname()
        closed.close()
        worker = Slow()
        worker.go_on.set()
        self.node = self.serve(address, FakeWorker(self, worker),
                               options=["--health.interval", "1h"])
        body = form(FILE)
        for _ in range(3):
            s = self.connect()
            s.sendall(head(body) + body)
            self.assertEqual(read_answer(s)[0], 200)
            self.assertTrue(worker.bodies[-1] == body)

    def test_no_worker_of_the_model(self):
        self.serve_slow()
        body = form(FILE * 4, b"none")
        s = self.begin(body, 64 << 10)
        status, headers, answer, _ = read_answer(s)
        self.assertEqual((status, headers["connection"]), (404, "close"), answer)
        self.at_rest()


class OpenAI(Proxy):
    UPLOAD = """
import io, sys
sys.path.insert(0, sys.argv[1])
import openai
client = openai.OpenAI(base_url=sys.argv[2] + "/v1", api_key="none", max_retries=0)
sound = ("a.wav", io.BytesIO(b"RIFF" * (1 << 19)))
print(client.audio.transcriptions.create(file=sound, model="m").text)
"""

    def test_the_official_client_for_python_names_the_model_first(self):
        packages = packages_of("openai")
        worker = Slow(lambda peer, body: peer.json({"text": "heard"}))
        worker.go_on.set()
        node = self.serve(FakeWorker(self, worker))
        got = subprocess.run([sys.executable, "-c", self.UPLOAD, packages, node.url("serve")],
                             capture_output=True, text=True, timeout=harness.IO_TIMEOUT_S,
                             check=False)
        self.assertEqual((got.returncode, got.stdout), (0, "heard\n"), got.stderr)
        self.assertIn(b"RIFF" * (1 << 19), worker.bodies[0])
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_forms_ahead_total"), 1)


@unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
class Secure(Proxy):
    @classmethod
    def setUpClass(cls):
        cls.certs = certs.Certs(cls)

    def test_a_form_goes_ahead_through_tls(self):
        self.certs.use("one", self.folder)
        worker = Slow()
        self.serve(FakeWorker(self, worker), options=[
            "--tls.cert_file", self.folder / "node.pem", "--tls.key_file", self.folder / "node.key"])
        body = form(FILE * 5)
        s = self.certs.of_client(None).wrap_socket(self.connect(), server_hostname="localhost")
        self.addCleanup(s.close)
        s.sendall(head(body) + body[:64 << 10])
        self.assertTrue(worker.came.wait(harness.IO_TIMEOUT_S))
        sender = threading.Thread(target=s.sendall, args=(body[64 << 10:],))
        sender.start()
        worker.go_on.set()
        sender.join(harness.IO_TIMEOUT_S)
        self.assertEqual(read_answer(s)[0], 200)
        self.assertTrue(worker.bodies[0] == body)


if __name__ == "__main__":
    harness.main()
