"""Requests that wait until a worker has room: who goes next, and who leaves."""
import threading

import harness
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, chat, read_answer, request_bytes


class Mute(FakeWorker):
    """Answers no check while it does not speak."""

    def __init__(self, case, handler):
        self.speaks = threading.Event()
        self.speaks.set()
        case.addCleanup(self.speaks.set)
        super().__init__(case, handler)

    def _own(self, peer, target):
        self.speaks.wait(harness.IO_TIMEOUT_S)
        return super()._own(peer, target)


class Queue(Proxy):
    def setUp(self):
        super().setUp()
        self.gate = threading.Semaphore(0)
        self.addCleanup(lambda: [self.gate.release() for _ in range(100)])
        self.worker = FakeWorker(self, self.answer)

    def answer(self, peer, request):
        self.gate.acquire()
        peer.json({})

    def serve_one_at_a_time(self, *options):
        self.node = self.serve(self.worker, options=["--workers.max_inflight", "1", *options])

    def waiting(self):
        return sum(v for k, v in harness.metrics(self.node.at("admin")).items()
                   if k.startswith("kvasir_queue_waiting"))

    def ask(self, text, extra="", **more):
        s = self.connect()
        s.sendall(request_bytes(chat(text, **more), extra))
        return s

    def wait(self, text, extra="", **more):
        """One more that waits."""
        before = self.waiting()
        s = self.ask(text, extra, **more)
        harness.wait_until(lambda: self.waiting() == before + 1, f"{text} waits")
        return s

    def begin(self):
        """The worker has one request, and room for no other."""
        s = self.ask("first")
        harness.wait_until(lambda: self.served() == ["first"], "the worker is busy")
        return s

    def served(self, worker=None):
        worker = worker or self.worker
        return [r.json()["messages"][0]["content"] for r in list(worker.requests)]

    def refused(self, s, code):
        status, headers, body, _ = read_answer(s)
        self.assertEqual(status, 503, body)
        self.assertIn(code, body.decode())
        self.assertGreaterEqual(int(headers["retry-after"]), 1)

    def finish(self, *sockets):
        for _ in sockets:
            self.gate.release()
        for s in sockets:
            self.assertEqual(read_answer(s)[0], 200)

    def test_the_better_priority_goes_first_and_the_others_in_order(self):
        self.serve_one_at_a_time()
        asked = [self.begin(), self.wait("usual 1"), self.wait("late", priority=2),
                 self.wait("soon", priority=-1), self.wait("usual 2")]
        explained = harness.request(self.node.at("admin"), "POST", "/admin/explain", chat()).json()
        self.assertEqual(explained["refused"], "waits")
        self.assertEqual(explained["candidates"][0]["limit"], 1)
        self.finish(*asked)
        self.assertEqual(self.served(), ["first", "soon", "usual 1", "usual 2", "late"])
        harness.wait_until(lambda: sum(d["waited_us"] > 0 for d in self.decisions()) == 4,
                           "decisions say who waited")
        self.assertEqual(harness.metric(self.node.at("admin"), "kvasir_requests_queued_total"), 4)
        self.assertEqual(self.waiting(), 0)

    def decisions(self):
        return harness.request(self.node.at("admin"), "GET", "/admin/decisions").json()

    def test_who_hangs_up_leaves_and_who_waits_too_long_is_told_when_to_come(self):
        self.serve_one_at_a_time("--timeouts.queue", "1h")
        first = self.begin()
        gone, stays = self.wait("gone"), self.wait("stays")
        gone.close()
        harness.wait_until(lambda: self.waiting() == 1, "who hung up has left")
        self.refused(self.ask("short", "x-request-timeout: 50ms\r\n"), "queue_timeout")
        self.finish(first, stays)
        self.assertEqual(self.served(), ["first", "stays"])

    def test_a_full_queue_keeps_the_better_class(self):
        self.serve_one_at_a_time("--limits.queue_max", "2")
        first, late, usual = self.begin(), self.wait("late", priority=1), self.wait("usual")
        self.refused(self.ask("later", priority=3), "queue_full")
        soon = self.ask("soon", priority=-2)
        self.refused(late, "queue_full")
        self.finish(first, usual, soon)
        self.assertEqual(self.served(), ["first", "soon", "usual"])

    def test_what_waits_stands_in_the_status(self):
        self.serve_one_at_a_time()
        asked = [self.begin(), self.wait("one"), self.wait("two", priority=2), self.wait("three")]
        status = harness.request(self.node.at("admin"), "GET", "/admin/status").json()
        queue = status["queue"]
        self.assertEqual((queue["waiting"], queue["by_priority"]), (3, {"0": 2, "2": 1}))
        self.assertEqual(status["workers"][0]["limit"], 1)
        harness.wait_until(lambda: harness.request(self.node.at("admin"), "GET", "/admin/status")
                           .json()["queue"]["oldest_ms"] > queue["oldest_ms"], "the oldest ages")
        self.finish(*asked)
        status = harness.request(self.node.at("admin"), "GET", "/admin/status").json()
        self.assertEqual(status["queue"], {"waiting": 0, "oldest_ms": 0, "by_priority": {}})

    def test_a_time_or_a_priority_that_cannot_be_read_is_refused(self):
        self.serve_one_at_a_time()
        for extra, more, code in (("x-request-timeout: soon\r\n", {}, "invalid_timeout"),
                                  ("x-request-timeout:\r\n", {}, "invalid_timeout"),
                                  ("", {"priority": "high"}, "invalid_priority"),
                                  ("", {"priority": 0.5}, "invalid_priority")):
            status, _, body, _ = read_answer(self.ask("bad", extra, **more))
            self.assertEqual(status, 400, (extra, more))
            self.assertIn(code, body.decode())
        self.assertEqual(self.served(), [])
        self.finish(self.ask("good", "x-request-timeout: 30\r\n", priority=None))

    def test_tenants_take_turns(self):
        keys = {}
        lines = ["tenants:"]
        for name, more in (("flood", ""), ("calm", "    weight: 2\n    priority: 0\n")):
            keys[name], line = self.run_once("kvasir", "key").stdout.split()
            lines.append(f"  {name}:\n{more}    keys: [\"{line}\"]")
        file = self.folder / "keys.yaml"
        file.write_text("\n".join(lines) + "\n")
        self.serve_one_at_a_time("--keys.file", file)

        def key(name):
            return f"authorization: Bearer {keys[name]}\r\n"
        asked = [self.ask("first", key("flood"))]
        harness.wait_until(lambda: self.served() == ["first"], "the worker is busy")
        asked += [self.wait(f"flood {i}", key("flood"), max_tokens=1000) for i in range(8)]
        asked += [self.wait(f"calm {i}", key("calm"), max_tokens=1000) for i in range(3)]
        self.finish(*asked)
        order = self.served()[1:]
        self.assertEqual([o for o in order if o[0] == "f"], [f"flood {i}" for i in range(8)])
        self.assertLess(order.index("calm 2"), 7, order)

    def test_a_worker_that_comes_takes_who_waits(self):
        self.serve_one_at_a_time()
        first, second = self.begin(), self.wait("second")
        other = FakeWorker(self, self.answer)
        added = harness.request(self.node.at("admin"), "POST", "/admin/workers",
                                {"url": other.url})
        self.assertLess(added.status, 300, added.text)
        harness.wait_until(lambda: self.served(other) == ["second"], "the new worker has it")
        self.finish(first, second)

    def test_who_waits_falls_back_to_a_worker_that_answers_no_check(self):
        self.worker = Mute(self, self.answer)
        self.serve_one_at_a_time("--health.interval", "100ms", "--health.timeout", "100ms",
                                 "--health.failures", "1")
        first, second = self.begin(), self.wait("second")
        self.worker.speaks.clear()
        harness.wait_until(lambda: self.eligible(self.node) == 0, "it is down")
        self.finish(first, second)

    def test_a_model_that_is_full_holds_up_no_other_one(self):
        gate = threading.Semaphore(0)
        self.addCleanup(gate.release, 2)

        def answer(peer, request):
            gate.acquire()
            peer.json({})
        other = FakeWorker(self, answer, models=["n"])
        self.node = self.serve(self.worker, other, options=["--workers.max_inflight", "1"])
        asked, early = [self.begin()], self.ask("n 1", model="n")
        harness.wait_until(lambda: self.served(other) == ["n 1"], "both are busy")
        asked += [self.wait(f"m {i}") for i in range(20)]
        late = self.wait("n 2", model="n")
        gate.release(2)
        self.assertEqual([read_answer(s)[0] for s in (early, late)], [200, 200])
        self.finish(*asked)

    def test_without_a_time_to_wait_nobody_waits(self):
        self.serve_one_at_a_time("--timeouts.queue", "0s")
        asked = [self.begin(), self.ask("second")]
        harness.wait_until(lambda: self.served() == ["first", "second"], "both are there")
        self.finish(*asked)


if __name__ == "__main__":
    harness.main()
