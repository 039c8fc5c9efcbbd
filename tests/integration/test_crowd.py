"""Clients that take more than their share: others, health checks and the admin
port must not notice."""
import os
import select
import signal
import socket
import threading

import harness
from fake_worker import FakeWorker
from test_messages import MESSAGES, WHOLE, ask, without
from test_proxy import CHAT, Proxy, chat, echo, read_answer, request_bytes

HOSTILE = "127.0.0.2"  # to the node, a client as strange as any other


class Crowd(Proxy):
    def strange(self):
        """A connection from another address than ours."""
        s = socket.create_connection(self.address, timeout=harness.IO_TIMEOUT_S,
                                     source_address=(HOSTILE, 0))
        self.addCleanup(s.close)
        return s

    def metric(self, node, name):
        return harness.metric(node.at("admin"), f"kvasir_{name}")

    def assert_served(self, text="good"):
        for path in ("/health", "/ready"):
            self.assertEqual(harness.request(self.address, "GET", path).status, 200, path)
        self.assertEqual(self.post(chat(text)).status, 200)


class Promises(Crowd):
    def test_a_length_reserves_nothing_before_its_bytes_come(self):
        node = self.serve(FakeWorker(self, echo),
                          options=["--limits.buffered_bytes_max", "4MiB",
                                   "--limits.body_bytes_max", "1MiB"])
        for _ in range(40):
            self.strange().sendall(request_bytes(b" " * 1048576)[:200])
        harness.wait_until(lambda: self.metric(node, "connections") == 40, "all are there")
        self.assert_served()
        self.assertLess(self.metric(node, "buffered_bytes"), 40 * 16384)

    def assert_trickle_ends_in_408(self):
        s = self.connect()
        s.sendall(request_bytes(b" " * 1048576)[:200])
        for _ in range(1000):
            if select.select([s], [], [], 0.05)[0]:
                break
            s.sendall(b" ")
        self.assertEqual(read_answer(s)[0], 408)

    def test_a_trickled_body_ends_in_408(self):
        self.serve(FakeWorker(self, echo), options=["--timeouts.body", "200ms",
                                                    "--limits.body_rate_min", "64KiB"])
        self.assert_trickle_ends_in_408()

    def test_a_body_has_an_end_however_fast_it_comes(self):
        self.serve(FakeWorker(self, echo), options=["--timeouts.body_total", "300ms",
                                                    "--limits.body_rate_min", "0"])
        self.assert_trickle_ends_in_408()


class Shares(Crowd):
    def test_one_address_leaves_connections_to_others(self):
        node = self.serve(FakeWorker(self, echo), options=["--limits.connections_max", "40"])
        held = [self.strange() for _ in range(200)]
        harness.wait_until(lambda: self.metric(node, 'connections_refused_total{reason="share"}') > 50,
                           "it has enough")
        ours = [self.connect() for _ in range(6)]
        for s in ours:
            s.sendall(request_bytes(chat()))
            self.assertEqual(read_answer(s)[0], 200)
        self.assert_served()
        self.assertEqual(self.metric(node, 'connections_refused_total{reason="max"}'), 0)
        for s in held:
            s.close()
        harness.wait_until(lambda: self.metric(node, "connections") == 6, "they are gone")

    def test_an_address_may_have_a_limit_of_its_own(self):
        node = self.serve(FakeWorker(self, echo),
                          options=["--limits.client_connections_max", "3"])
        for _ in range(8):
            self.strange()
        harness.wait_until(lambda: self.metric(node, 'connections_refused_total{reason="share"}') == 5,
                           "five are refused")
        self.assertEqual(self.metric(node, "connections"), 3)
        self.assert_served()

    def test_one_address_leaves_memory_to_others(self):
        node = self.serve(FakeWorker(self, echo),
                          options=["--limits.buffered_bytes_max", "8MiB",
                                   "--limits.body_bytes_max", "512KiB"])
        held, refused = [], 0
        for _ in range(24):
            s = self.strange()
            held.append(s)
            s.sendall(request_bytes(b" " * 524288)[:-1])
        # A refusal is counted before its answer can be read.
        while refused <= 8:
            told = select.select(held, [], [], harness.IO_TIMEOUT_S)[0]
            self.assertTrue(told, f"{refused} refused")
            for s in told:
                self.assertEqual(read_answer(s)[0], 429)
                held.remove(s)
                refused += 1
        self.assertGreater(self.metric(node, 'requests_total{reason="client_bytes"}'), 8)
        self.assertEqual(self.post(b" " * 300000 + b"{}").status, 200)
        self.assert_served()


class Full(Crowd):
    """Clients hold all that limits.buffered_bytes_max lets them: what is small is served, and
    no worker is blamed for what is not."""

    def serve_full(self, handler):
        node = self.serve(FakeWorker(self, handler), options=[
            "--limits.buffered_bytes_max", "1MiB", "--limits.client_bytes_max", "1MiB",
            "--limits.body_bytes_max", "256KiB", "--limits.head_bytes_max", "64KiB",
            "--timeouts.body", "1h", "--breaker.failures", "1", "--breaker.open", "60s"])
        for _ in range(32):  # 16 KiB that came have a buffer of 32 KiB
            self.strange().sendall(request_bytes(b" " * 200_000)[:16384])
        harness.wait_until(lambda: self.metric(node, "buffered_bytes") == 1 << 20, "it is full")
        return node

    def turned(self, node):
        """What came is read: the lane has looked at its sockets."""
        before = self.metric(node, "loop_turns_total")
        harness.wait_until(lambda: self.metric(node, "loop_turns_total") >= before + 2, "turns")

    def test_heads_that_come_in_pieces_pass_or_are_no_fault_of_their_workers(self):
        def in_pieces(peer, request):
            size = int(request.headers["x-size"])
            peer.send("HTTP/1.1 103 Early Hints\r\n\r\n")
            self.turned(node)
            peer.send("HTTP/1.1 200 OK\r\nX-Long: " + "v" * size)
            self.turned(node)
            peer.send("\r\nContent-Length: 2\r\n\r\nok")

        node = self.serve_full(in_pieces)
        for size, status in ((100, 200), (20_000, 502), (100, 200)):
            answer = self.post(headers={"x-size": str(size)})
            self.assertEqual(answer.status, status, answer.text)
            if status == 502:
                self.assertIn("memory here", answer.text)
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        self.assertEqual([(w["failures"], w["eligible"]) for w in workers], [(0, True)])

    def test_who_waits_for_a_large_answer_gets_it(self):
        self.serve_full(lambda peer, request: peer.answer(200, b"x" * (8 << 20)))
        self.assertEqual(len(self.post().body), 8 << 20)

    def test_requests_in_another_form_pass_or_may_come_again(self):
        self.serve_full(without(lambda peer, request: peer.json(WHOLE)))
        for text, status, code in (("hello", 200, None), ("x" * 9000, 503, "overloaded_error")):
            body = ask(messages=[{"role": "user", "content": text}])
            answer = self.post(body, path=MESSAGES)
            self.assertEqual(answer.status, status, answer.text)
            if code is not None:
                self.assertEqual(answer.json()["error"]["type"], code)


class Heads(Crowd):
    def test_what_long_heads_took_is_given_back(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def wait(peer, request):
            go.wait(harness.IO_TIMEOUT_S)
            peer.json({})

        def used():
            values = harness.metrics(node.at("admin"))
            return values['kvasir_process_heap_bytes{state="used"}']  # 0 with a sanitizer

        def crowd(body, extra=""):
            go.clear()
            held = [self.connect() for _ in range(64)]
            for s in held:
                s.sendall(request_bytes(body, extra))
            harness.wait_until(lambda: self.metric(node, "inflight") == 64, "all are in flight")
            go.set()
            for s in held:
                self.assertEqual(read_answer(s)[0], 200)
                s.close()
            harness.wait_until(lambda: self.metric(node, "connections") == 0, "they are gone")
            return used()

        node = self.serve(FakeWorker(self, wait))
        before = crowd(chat("x" * 20_000))  # buffers of that size stay
        self.assertLess(crowd(chat(), f"X-Long: {'v' * 20_000}\r\n") - before, 1 << 20)


class Reserve(Crowd):
    def test_a_full_node_answers_for_its_health_and_for_nothing_else(self):
        node = self.serve(FakeWorker(self, echo),
                          options=["--limits.connections_max", "4",
                                   "--limits.client_connections_max", "4",
                                   "--timeouts.body", "1h"])
        for _ in range(4):
            s = self.strange()
            s.sendall(request_bytes(chat()))
            self.assertEqual(read_answer(s)[0], 200)
        for path in ("/health", "/ready"):
            answer = harness.request(self.address, "GET", path)
            self.assertEqual(answer.status, 200, path)
            self.assertEqual(answer.headers["connection"], "close")
        self.assertEqual(self.post(chat()).status, 503)
        # Only the head is read, whatever is promised.
        s = self.connect()
        s.sendall(request_bytes(b" " * 1048576)[:200])
        self.assertEqual(read_answer(s)[0], 503)
        # Who says nothing does not keep the place, nor who promises more.
        s = self.connect()
        self.assertEqual(s.recv(1), b"")
        s = self.connect()
        s.sendall(b"GET /health HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n")
        self.assertEqual(read_answer(s)[0], 408)
        self.assertEqual(self.metric(node, 'connections_refused_total{reason="max"}'), 0)

    def test_who_is_refused_hears_so_whatever_it_has_sent(self):
        node = self.serve(FakeWorker(self, echo),
                          options=["--limits.client_connections_max", "1"])
        self.strange()
        harness.wait_until(lambda: self.metric(node, "connections") == 1, "it has its place")
        self.addCleanup(node.signal, signal.SIGCONT)
        node.freeze()
        late = [self.strange() for _ in range(3)]
        for s in late:
            s.sendall(request_bytes(chat()))  # it has come before anybody could refuse
        node.signal(signal.SIGCONT)
        for s in late:
            self.assertEqual(read_answer(s)[0], 503)
            self.assertEqual(s.recv(1), b"")  # an end, and no reset
        self.assertEqual(self.metric(node, "connections"), 1)
        self.assert_served()

    def test_clients_do_not_get_the_last_descriptors(self):
        worker = FakeWorker(self, echo)
        # More than any system allows, so that it cannot raise its own limit.
        node = self.start("/bin/sh", "-c", 'ulimit -n 96; exec "$@"', "sh",
                          harness.program("kvasir"), "serve", "--listen", "127.0.0.1:0",
                          "--admin", "127.0.0.1:0", "--lanes", "1",
                          "--limits.connections_max", "1000000",
                          "--limits.client_connections_max", "1000000",
                          "--worker", worker.url)
        self.address = node.at("serve")
        harness.wait_until(lambda: self.eligible(node) == 1, "the worker is up")
        for _ in range(200):
            self.strange()
        harness.wait_until(lambda: self.metric(node, 'connections_refused_total{reason="max"}') > 50,
                           "it has no more places")
        # A new connection to the admin port, and a probe of a new worker.
        other = FakeWorker(self, echo)
        harness.request(node.at("admin"), "POST", "/admin/workers",
                        {"url": other.url, "id": "other"})
        harness.wait_until(lambda: self.eligible(node) == 2, "the new worker is up")
        self.assertEqual(self.metric(node, "accept_failures_total"), 0)

    def short_of_descriptors(self, limit, *options):
        """A node that cannot raise its limit, not even as root."""
        alone = ["setpriv", "--bounding-set=-sys_resource"] if os.getuid() == 0 else []
        return self.start("/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh", *alone,
                          harness.program("kvasir"), "serve", "--listen", "127.0.0.1:0",
                          "--admin", "127.0.0.1:0", "--lanes", "1",
                          "--worker", "http://127.0.0.1:1", *options)

    def test_few_descriptors_are_a_warning_to_those_who_asked_for_more(self):
        asked = "--limits.connections_max"
        for options, warns in (([], False), ([asked, "300"], False), ([asked, "390"], False),
                               ([asked, "1000"], True)):
            log = self.short_of_descriptors(1024, *options).log()
            with self.subTest(options=options):
                self.assertEqual("few_descriptors" in log, warns, log)
                self.assertEqual("fewer_connections" in log,
                                 not warns and options != [asked, "300"], log)


if __name__ == "__main__":
    harness.main()
