"""Limits of tenants: what is let through, what a client is told, and what nodes
of a mesh let through together. Windows are hours, so that no test has to be
fast."""
import json
import re
import socket
import threading

import harness
from fake_worker import FakeWorker
from test_mesh import MeshCase
from test_proxy import Proxy, chat, read_answer, request_bytes

USAGE = {"prompt_tokens": 30, "completion_tokens": 12, "total_tokens": 42}


def answer(peer, request):
    peer.json({"usage": USAGE})


def event(text="x"):
    return f'data: {{"choices":[{{"delta":{{"content":"{text}"}}}}]}}\n\n'.encode()


class Limits(Proxy):
    def setUp(self):
        super().setUp()
        self.handler = answer
        self.worker = FakeWorker(self, lambda peer, request: self.handler(peer, request))
        self.keys = self.folder / "keys.yaml"

    def serve_limited(self, *options):
        self.node = self.serve(self.worker, options=options)

    def limits(self):
        status = harness.request(self.node.at("admin"), "GET", "/admin/status").json()
        return {(r["tenant"], r["model"], r["of"]): r for r in status["limits"]}

    def used(self, of, tenant="default", model=""):
        return self.limits()[tenant, model, of]["used"]

    def uses(self, of, count, **which):
        harness.wait_until(lambda: self.used(of, **which) == count, f"{count} {of} are used")

    def refused(self, got, words):
        self.assertEqual(got.status, 429, got.text)
        error = got.json()["error"]
        self.assertEqual((error["code"], error["type"]),
                         ("rate_limit_exceeded", "rate_limit_error"))
        self.assertIn(words, error["message"])

    def reload(self):
        got = harness.request(self.node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(got.status, 200, got.text)

    def test_so_many_requests_and_no_more_and_clients_are_told(self):
        self.serve_limited("--limits.tenant_requests", "3/h")
        for left in (2, 1, 0):
            got = self.post()
            self.assertEqual(got.status, 200, got.text)
            self.assertEqual(got.headers["x-ratelimit-limit-requests"], "3")
            self.assertEqual(got.headers["x-ratelimit-remaining-requests"], str(left))
            self.assertRegex(got.headers["x-ratelimit-reset-requests"], r"^(\d+ms|\d+s|\d+m\d+s)$")
        self.uses("requests", 3)
        got = self.post()
        self.refused(got, "rate limit of requests reached: limit 3, used 3, requested 1; try again")
        seconds = int(got.headers["retry-after"])
        self.assertTrue(3000 < seconds <= 3700, seconds)
        minutes, rest = re.match(r"^(\d+)m(\d+)s$",
                                 got.headers["x-ratelimit-reset-requests"]).groups()
        self.assertTrue(3000 < int(minutes) * 60 + int(rest) <= 3700)
        self.assertEqual(len(self.worker.requests), 3)
        found = harness.metrics(self.node.at("admin"))
        labels = '{tenant="default",model="",of="requests"}'
        self.assertEqual([found[name + labels] for name in (
            "kvasir_limit", "kvasir_limit_used", "kvasir_limit_refused_total")], [3, 3, 1])
        decided = harness.wait_until(lambda: [
            d for d in harness.request(self.node.at("admin"), "GET", "/admin/decisions").json()
            if d["status"] == 429], "the decision")
        self.assertEqual(decided[0]["reason"], "over its tenant's limit of requests")
        shown = self.run_once("kvasir", "status", "--admin", "%s:%d" % self.node.at("admin"))
        self.assertRegex(shown.stdout, r"(?m)^TENANT +MODEL +LIMIT OF.*\ndefault .* requests ")

    def test_explain_says_what_limits_a_request_meets_and_takes_nothing(self):
        line = self.run_once("kvasir", "key").stdout.split()[1]
        self.write_keys(shop=(line, "{requests: 2/h, tokens: 1000/h, "
                              "models: {'m*': {concurrent: 3}}}"))
        self.serve_limited("--keys.file", self.keys)

        def explain(tenant, **more):
            return harness.request(self.node.at("admin"), "POST", "/admin/explain",
                                   {**chat("four" * 10, max_tokens=100), **more},
                                   {"x-kvasir-tenant": tenant}).json()
        for _ in range(3):
            got = explain("shop")
            rows = [(r["of"], r["model"], r["limit"], r["needs"], r["left"], r["left_here"],
                     r["verdict"]) for r in got["limits"]]
            tokens = got["limits"][1]["needs"]
            self.assertTrue(100 < tokens < 130, tokens)
            self.assertEqual(rows, [("requests", "", 2, 1, 2, 2, "passes"),
                                    ("tokens", "", 1000, tokens, 1000, 1000, "passes"),
                                    ("concurrent", "m*", 3, 1, 3, 3, "passes")])
            self.assertEqual((got["tenant"], got["admission"]), ("shop", "passes"))
        got = explain("shop", max_tokens=990)
        self.assertEqual((got["admission"], [r["verdict"] for r in got["limits"]]),
                         ("limited", ["passes", "can never fit", "passes"]))
        self.assertEqual(explain("nobody")["tenant"], "default")

    def test_explain_says_when_a_limit_is_used_up(self):
        self.serve_limited("--limits.tenant_requests", "1/h")
        self.assertEqual(self.post().status, 200)
        self.uses("requests", 1)
        shown = self.run_once("kvasir", "explain", "--admin", "%s:%d" % self.node.at("admin"),
                              stdin=json.dumps(chat()))
        self.assertRegex(shown.stdout, r"admission\s*:?\s*limited")
        self.assertIn("over the limit", shown.stdout)

    def test_tokens_are_reserved_before_and_charged_after(self):
        self.serve_limited("--limits.tenant_tokens", "1000/h")
        got = self.post(chat("four" * 10, max_tokens=900))
        self.assertEqual(got.status, 200)
        self.assertEqual(got.headers["x-ratelimit-limit-tokens"], "1000")
        self.assertLessEqual(int(got.headers["x-ratelimit-remaining-tokens"]), 100)
        self.uses("tokens", 42)
        got = self.post(chat(max_completion_tokens=959))
        self.refused(got, "rate limit of tokens reached: limit 1000, used 42, requested 9")
        self.refused(self.post(chat(max_tokens=300, n=4)), "it can never fit")
        self.assertNotIn("retry-after", self.post(chat(max_tokens=1001)).headers)
        self.assertEqual(self.post(chat(max_tokens=900)).status, 200)
        self.uses("tokens", 84)

    def test_a_stream_that_is_left_is_charged_as_far_as_it_came(self):
        left = threading.Event()

        def stream(peer, request):
            peer.begin_stream()
            for _ in range(500):
                peer.chunk(event())
            peer.wait_closed()
            left.set()
        self.handler = stream
        self.serve_limited("--limits.tenant_tokens", "100000/h",
                           "--limits.tenant_concurrent", "1")
        s = self.connect()
        s.sendall(request_bytes(chat("four" * 400, stream=True, max_tokens=5000)))
        got = b""
        while got.count(b"data:") < 500:
            got += s.recv(65536)
        harness.wait_until(lambda: self.used("tokens") > 5000, "the rest is reserved")
        s.close()
        self.assertTrue(left.wait(harness.IO_TIMEOUT_S))
        harness.wait_until(lambda: self.used("concurrent") == 0, "it has ended")
        used = self.used("tokens")
        self.assertTrue(880 <= used <= 910, used)

    def test_what_fails_costs_no_tokens(self):
        self.serve_limited("--limits.tenant_tokens", "1000/h",
                           "--limits.tenant_requests", "10/h")
        self.handler = lambda peer, request: peer.json({"error": "x"}, status=400)
        self.assertEqual(self.post(chat("four" * 100)).status, 400)
        self.handler = lambda peer, request: peer.json({"error": "x"}, status=500)
        self.assertEqual(self.post(chat("four" * 100)).status, 500)
        self.uses("requests", 2)
        self.uses("tokens", 0)

    def test_so_many_at_one_time(self):
        gate = threading.Semaphore(0)

        def wait(peer, request):
            gate.acquire()
            peer.json({})
        self.handler = wait
        self.serve_limited("--limits.tenant_concurrent", "2")
        first, second = self.connect(), self.connect()
        for s in (first, second):
            s.sendall(request_bytes(chat()))
        harness.wait_until(lambda: len(self.worker.requests) == 2, "both are there")
        got = self.post()
        self.refused(got, "rate limit of concurrent reached: limit 2, used 2")
        self.assertEqual(got.headers["retry-after"], "1")
        for s in (first, second):
            gate.release()
        for s in (first, second):
            self.assertEqual(read_answer(s)[0], 200)
        gate.release()
        harness.wait_until(lambda: self.post().status == 200, "there is room again")

    def test_clients_of_anthropic_are_told_in_their_words(self):
        self.serve_limited("--limits.tenant_requests", "1/h", "--limits.tenant_tokens", "9000/h")
        body = {**chat(), "max_tokens": 10}
        got = self.post(body, path="/v1/messages")
        self.assertEqual(got.status, 200)
        for of, limit in (("requests", "1"), ("tokens", "9000")):
            self.assertEqual(got.headers[f"anthropic-ratelimit-{of}-limit"], limit)
            self.assertIn(f"anthropic-ratelimit-{of}-remaining", got.headers)
            self.assertRegex(got.headers[f"anthropic-ratelimit-{of}-reset"],
                             r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertNotIn("x-ratelimit-limit-requests", got.headers)
        self.uses("requests", 1)
        got = self.post(body, path="/v1/messages")
        self.assertEqual(got.status, 429)
        self.assertIn("retry-after", got.headers)
        error = got.json()
        self.assertEqual((error["type"], error["error"]["type"]), ("error", "rate_limit_error"))

    def write_keys(self, **tenants):
        """NAME=(the line of its key, the text of its limits)"""
        self.keys.write_text("tenants:\n" + "".join(
            f"  {name}:\n    keys: [\"{line}\"]\n" + (f"    limits: {text}\n" if text else "")
            for name, (line, text) in tenants.items()))

    def test_tenants_and_models_have_limits_of_their_own(self):
        (shop, shop_line), (lab, lab_line) = (
            self.run_once("kvasir", "key").stdout.split() for _ in range(2))
        self.worker.models = ["m", "other"]
        self.write_keys(shop=(shop_line, "{requests: 4/h, models: {'oth*': {requests: 1/h}}}"),
                        lab=(lab_line, ""))
        self.serve_limited("--keys.file", self.keys, "--limits.tenant_requests", "2/h")

        def ask(key, model="m"):
            return self.post({**chat(), "model": model}, {"authorization": f"Bearer {key}"})
        self.assertEqual([ask(lab).status for _ in range(3)], [200, 200, 429])
        self.assertEqual(ask(shop, "other").status, 200)
        got = ask(shop, "other")
        self.refused(got, "for this model: limit 1")
        self.assertEqual(got.headers["x-ratelimit-remaining-requests"], "0")
        self.assertEqual([ask(shop).status for _ in range(4)], [200, 200, 200, 429])

        # More, and what was spent stays spent; none, and its rows are gone.
        self.write_keys(shop=(shop_line, "{requests: 5/h}"), lab=(lab_line, "{requests: none}"))
        self.reload()
        self.assertEqual(set(self.limits()), {("shop", "", "requests")})
        self.assertEqual([ask(shop).status for _ in range(2)], [200, 429])
        self.assertEqual([ask(lab).status for _ in range(3)], [200] * 3)
        self.write_keys(shop=(shop_line, "{requests: 5/h}"), lab=(lab_line, "{requests: few}"))
        got = harness.request(self.node.at("admin"), "POST", "/admin/reload", {})
        self.assertIn(f"{self.keys}:7:24: requests: expected a whole number", got.text)

    def test_a_model_has_limits_of_all_tenants_together(self):
        (shop, shop_line), (lab, lab_line) = (
            self.run_once("kvasir", "key").stdout.split() for _ in range(2))
        self.worker.models = ["m", "other"]
        self.write_keys(shop=(shop_line, "{requests: 3/h}"), lab=(lab_line, ""))
        limit = "oth*=requests:2/h,tokens:5000/h"
        self.serve_limited("--keys.file", self.keys, "--limits.models", limit)

        def ask(key, model="other", kind="application/json"):
            return self.post({**chat(max_tokens=10), "model": model},
                             {"authorization": f"Bearer {key}", "content-type": kind})
        self.assertEqual([ask(shop).status, ask(lab).status], [200, 200])
        for key in (shop, lab):
            got = ask(key)
            self.refused(got, "for this model and all its clients: limit 2, used 2")
            self.assertEqual(got.headers["x-ratelimit-remaining-requests"], "0")
            self.assertEqual(ask(key, kind="text/plain").status, 429, "llama.cpp reads it, too")
        self.assertEqual([ask(lab, "m").status for _ in range(4)], [200] * 4)
        # What the model's limit refused took nothing of the tenant's.
        self.assertEqual([ask(shop, "m").status for _ in range(3)], [200, 200, 429])
        self.uses("requests", 2, tenant="", model="oth*")
        self.uses("tokens", 2 * 42, tenant="", model="oth*")
        labels = '{tenant="",model="oth*",of="requests"}'
        found = harness.metrics(self.node.at("admin"))
        self.assertEqual([found[name + labels] for name in (
            "kvasir_limit", "kvasir_limit_used", "kvasir_limit_refused_total")], [2, 2, 4])
        explained = harness.request(self.node.at("admin"), "POST", "/admin/explain",
                                    {**chat(), "model": "other"}, {"x-kvasir-tenant": "lab"}).json()
        self.assertEqual([(r["of"], r["model"], r["of_all_tenants"], r["verdict"])
                          for r in explained["limits"]],
                         [("requests", "oth*", True, "over the limit"),
                          ("tokens", "oth*", True, "passes")])
        shown = self.run_once("kvasir", "status", "--admin", "%s:%d" % self.node.at("admin"))
        self.assertRegex(shown.stdout, r"(?m)^\(all\) +oth\* +requests +2 +2 +4$")
        decided = harness.wait_until(lambda: {
            d["reason"] for d in harness.request(self.node.at("admin"), "GET",
                                                 "/admin/decisions").json()
            if d["status"] == 429}, "the decisions")
        self.assertLessEqual({"over its model's limit of requests"}, decided)


class Mesh(MeshCase):
    LIMIT = 120
    OPTIONS = ("--limits.tenant_requests", "{}")

    def setUp(self):
        super().setUp()
        self.worker = FakeWorker(self, answer)
        self.serve_three(f"{self.LIMIT}/h")

    def options(self, limit):
        return [option.format(limit) for option in self.OPTIONS]

    def serve_three(self, limit):
        self.nodes = self.three("--worker", self.worker.url, *self.options(limit))
        for node in self.nodes:
            harness.wait_until(lambda node=node: self.status(node)["ready"], "it is ready")

    def status(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/status").json()

    def used(self, node):
        return self.status(node)["limits"][0]["used"]

    def know(self, nodes, passed):
        for node in nodes:
            harness.wait_until(lambda node=node: self.used(node) == passed, "all know of all")

    def ask(self, node):
        return harness.request(node.at("serve"), "POST", "/v1/chat/completions", chat()).status

    def ask_until(self, nodes, enough):
        """Asks these nodes in turn until that many were let through, or no more
        are: all nodes know that the limit is reached."""
        passed = 0
        while passed < enough:
            got = [self.ask(node) for node in nodes]
            passed += got.count(200)
            if 200 not in got and all(self.used(n) >= self.LIMIT for n in nodes):
                break
        return passed

    def test_one_limit_wherever_clients_connect_and_with_a_node_lost(self):
        one, two, three = self.nodes
        passed = self.ask_until([one], 30) + self.ask_until([two, three], 30)
        self.know(self.nodes, passed)
        two.kill()
        passed += self.ask_until([three], 15)
        self.sees([one, three], "b", "dead")
        passed += self.ask_until([one, three], 10 * self.LIMIT)
        self.assertTrue(self.LIMIT <= passed <= self.LIMIT * 11 // 10, passed)

    def test_who_comes_late_knows_what_was_spent(self):
        one, two, three = self.nodes
        passed = self.ask_until([one, two, three], 100)
        self.know([one, three], passed)
        two.kill()
        self.sees([one, three], "b", "dead")
        back = self.node("b", "--worker", self.worker.url, *self.options(f"{self.LIMIT}/h"),
                         join=[one.ready["mesh"]])
        self.know([back], passed)
        passed += self.ask_until([back], 10 * self.LIMIT)
        self.assertTrue(self.LIMIT <= passed <= self.LIMIT * 11 // 10, passed)


class OfAModel(Mesh):
    """The same of a model's limit."""
    OPTIONS = ("--limits.models", "m=requests:{}")

    test_who_comes_late_knows_what_was_spent = None


class Burst(Mesh):
    """A limit so small that each of three nodes at rest has one request of it at hand."""
    LIMIT = 5

    def hold(self, sockets, count):
        for _ in range(count):
            s = socket.create_connection(self.nodes[0].at("serve"), harness.IO_TIMEOUT_S)
            self.addCleanup(s.close)
            sockets.append(s)
        # At once: a share that comes before the next request lets that pass without a wait.
        for s in sockets[-count:]:
            s.sendall(request_bytes(chat()))

    def test_a_burst_that_fits_waits_for_its_share_and_passes(self):
        sockets = []
        self.hold(sockets, self.LIMIT)
        self.assertEqual([read_answer(s)[0] for s in sockets], [200] * self.LIMIT)
        self.know(self.nodes, self.LIMIT)
        rule = self.status(self.nodes[0])["limits"][0]
        self.assertEqual((rule["refused_here"], rule["waited_here"] > 0), (0, True))
        labels = '{tenant="default",model="",of="requests"}'
        found = harness.metrics(self.nodes[0].at("admin"))
        self.assertEqual(found["kvasir_limit_waited_total" + labels], rule["waited_here"])
        self.assertEqual(self.ask(self.nodes[0]), 429)

    def test_who_hangs_up_while_it_waits_keeps_nothing_from_others(self):
        sockets = []
        self.hold(sockets, self.LIMIT - 1)
        for s in sockets:
            s.close()
        harness.wait_until(lambda: harness.metrics(self.nodes[0].at("admin"))["kvasir_inflight"]
                           == 0, "nothing is open")
        for _ in range(self.LIMIT):
            self.ask(self.nodes[0])
        self.know(self.nodes, self.LIMIT)

    test_one_limit_wherever_clients_connect_and_with_a_node_lost = None
    test_who_comes_late_knows_what_was_spent = None


class Followers(MeshCase):
    """Requests that wait for the answer to another one like them, and then for tokens."""
    COUNT = 8

    def setUp(self):
        super().setUp()
        worker = FakeWorker(self, self.fail_first)
        options = ("--worker", worker.url, "--answer_cache.bytes_max", "1MiB",
                   "--limits.tenant_requests", "10000/h", "--limits.tenant_tokens", "100000/h")
        self.one = self.node("a", *options)
        self.together([self.one, self.node("b", *options, join=[self.one.ready["mesh"]])])
        harness.wait_until(lambda: self.status()["ready"], "it is ready")
        self.sent = self.followed = 0

    def fail_first(self, peer, request):
        if self.failing.is_set():
            answer(peer, request)
        else:
            self.arrived.set()
            self.failing.wait(harness.IO_TIMEOUT_S)
            peer.json({"error": "x"}, status=500)

    def status(self):
        return harness.request(self.one.at("admin"), "GET", "/admin/status").json()

    def limits(self):
        return {row["of"]: row for row in self.status()["limits"]}

    def ask(self):
        """One and its followers, which want most of the limit at once. True: some waited."""
        self.arrived, self.failing = threading.Event(), threading.Event()
        sockets = []
        for _ in range(1 + self.COUNT):
            sockets.append(socket.create_connection(self.one.at("serve"), harness.IO_TIMEOUT_S))
            self.addCleanup(sockets[-1].close)
            sockets[-1].sendall(request_bytes(chat(temperature=0, max_tokens=9990)))
        self.followed += self.COUNT
        harness.wait_until(lambda: self.metric(self.one, "kvasir_answer_cache_waits_total")
                           == self.followed, "they wait for the first")
        self.assertTrue(self.arrived.wait(harness.IO_TIMEOUT_S))
        self.failing.set()
        self.assertEqual(sorted(read_answer(s)[0] for s in sockets), [200] * self.COUNT + [500])
        self.sent += 1 + self.COUNT
        return self.limits()["tokens"]["waited_here"] > 0

    def test_who_waits_for_an_answer_and_then_for_tokens_is_one_request(self):
        # A node that was alone a moment ago has more than its share at hand.
        harness.wait_until(self.ask, "some had to wait for tokens")
        harness.wait_until(lambda: self.limits()["tokens"]["used"] == 42 * self.followed,
                           "all ended")
        self.assertEqual(self.limits()["requests"]["used"], self.sent)


if __name__ == "__main__":
    harness.main()
