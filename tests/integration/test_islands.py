"""Islands: requests stay where they are cheap, as long as that is worth it; a tenant's residency
is kept whatever it costs."""
import socket
import threading

import harness
import words
from dns import free_port
from fake_worker import FakeWorker
from test_proxy import Proxy, chat

HERE, THERE = "eu/fra/a", "us/east"
LINK_MS, RATE, REQUEST = 200, 8000, 256


class IslandCase(Proxy):
    def islands(self, *args, answer=None, far=None, link=f"{LINK_MS}ms"):
        """A node at HERE, between a worker of its island and one far away."""
        self.here = FakeWorker(self, answer or (lambda peer, request: peer.json({})))
        self.there = FakeWorker(self, far or (lambda peer, request: peer.json({})))
        node = self.serve(f"{self.here.url},island={HERE},id=here",
                          f"{self.there.url},island={THERE},id=there",
                          options=("--island.name", HERE, "--island.links",
                                   f"eu~us={link}", *args), count=2)
        self.admin = node.at("admin")
        harness.wait_until(lambda: self.rows()["there"].get("link_ms") == LINK_MS,
                           "lanes are told what the way costs")
        return node

    def explain(self, body=None, tenant=None):
        return harness.request(self.admin, "POST", "/admin/explain", body or chat("x"),
                               {"x-kvasir-tenant": tenant} if tenant else None).json()

    def rows(self, *args, **kwargs):
        return {r["worker"]: r for r in self.explain(*args, **kwargs)["candidates"]}

    def went(self, answer):
        self.assertEqual(answer.status, 200, answer.body)
        return answer.headers["x-kvasir-worker"]

    def crossings(self):
        found = harness.metrics(self.admin)
        return [found.get(f'kvasir_island_requests_total{{from="{HERE}",to="{to}"}}', 0)
                for to in (HERE, THERE)]


class Tokens(IslandCase):
    def test_tokens_are_asked_of_an_engine_of_the_island(self):
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                            "--model", "m", "--speed", "50")

        def relay(peer, request):
            got = harness.request(engine.at("http"), request.method, request.target,
                                  request.json())
            peer.json(got.json(), got.status)
        workers = [FakeWorker(self, relay) for _ in range(4)]
        events = f"events={engine.url('events')},replay={engine.url('replay')}"
        node = self.serve(*(f"{worker.url},{events},island={island}" for worker, island in
                            zip(workers, (THERE, HERE, THERE, HERE))),
                          options=("--island.name", HERE, "--island.links", f"eu~us={LINK_MS}ms",
                                   "--tokens.wait", "5s"), count=4)
        self.admin = node.at("admin")
        harness.wait_until(lambda: sum(row.get("link_ms", 0) == LINK_MS for row in
                                       self.rows().values()) == 2, "lanes know who is far")
        for i in range(20):
            self.assertEqual(self.post(chat(f"{i} is a number. " * 40)).status, 200)

        def asked(worker):
            """Beside the one question whether it can."""
            return sum(request.target.endswith(("/render", "/tokenize")) and
                       b"is a number" in request.body for request in worker.requests)
        self.assertGreater(min(asked(workers[1]), asked(workers[3])), 0)
        self.assertEqual(asked(workers[0]) + asked(workers[2]), 0)


class Islands(IslandCase):
    def test_requests_stay_and_explain_says_what_leaving_costs(self):
        self.islands()
        for i in range(8):
            self.assertEqual(self.went(self.post(chat(f"{i} a prompt of its own"))), "here")
        rows = self.rows()
        self.assertEqual((rows["here"]["island"], rows["there"]["island"]), (HERE, THERE))
        self.assertEqual((rows["here"]["aside_tokens"], rows["there"]["aside_tokens"]),
                         (0, LINK_MS * RATE // 1000))
        self.assertEqual(rows["there"]["link_tokens"], LINK_MS * RATE // 1000)
        for row in rows.values():
            self.assertAlmostEqual(row["cost"], sum(
                weight * row[column] for column, weight in row["weights"].items()), delta=1)
        harness.wait_until(lambda: self.crossings() == [8, 0], "all are counted")
        found = harness.metrics(self.admin)
        self.assertEqual(
            found[f'kvasir_island_link_seconds{{from="{HERE}",to="{THERE}"}}'], LINK_MS / 1000)
        last = harness.request(self.admin, "GET", "/admin/decisions").json()[0]
        self.assertEqual((last["island"], last["crossed"]), (HERE, False))

    def test_bytes_across_cost_what_an_engine_does_meanwhile(self):
        self.islands("--scale.price", "2.5", link=f"{LINK_MS}ms@20")
        self.assertEqual(self.went(self.post(chat("x" * 20000))), "here")
        name = f'kvasir_island_bytes_total{{from="{HERE}",to="{HERE}"}}'
        counted = harness.wait_until(lambda: harness.metrics(self.admin).get(name), "it is counted")
        self.assertIn(counted, range(20000, 21000))
        paid_ms = counted / 1e9 * 20 * 3600 * 1000 / 2.5
        row = harness.wait_until(
            lambda: next((r for r in [self.rows()["there"]] if r["link_paid_ms"]), None), "and weighed")
        self.assertAlmostEqual(row["link_paid_ms"], paid_ms, delta=0.01)
        self.assertEqual(row["link_ms"], LINK_MS)
        self.assertAlmostEqual(row["link_tokens"], (LINK_MS + paid_ms) * RATE / 1000, delta=1)
        self.assertEqual(self.rows()["here"]["link_paid_ms"], 0)

    def test_a_worker_of_another_island_has_times_of_its_own(self):
        free = threading.Event()
        self.addCleanup(free.set)
        self.islands("--timeouts.away_first_byte", "300ms",
                     far=lambda peer, request: free.wait())
        drain = harness.request(self.admin, "POST", "/admin/workers/here/drain", {})
        self.assertEqual(drain.status, 200)
        answer = self.post(chat("x"))
        self.assertEqual(answer.status, 502, answer.text)
        self.assertEqual(len(self.there.requests), 1)
        self.assertIn("no answer in time", answer.text)

    def test_one_that_is_cut_off_is_left_after_the_time_to_connect_there(self):
        def close(peer, _request):
            peer.answer(200, b"{}", "Connection: close\r\n")

        self.islands("--timeouts.connect", "10m", "--timeouts.away_connect", "100ms",
                     "--health.interval", "1h", "--health.metrics_interval", "1h", far=close)
        old = chat("an old conversation " * 2000)
        drain = "/admin/workers/here/drain"
        harness.request(self.admin, "POST", drain, {})
        self.assertEqual(self.went(self.post(old)), "there")
        harness.request(self.admin, "DELETE", drain)
        rows = harness.wait_until(
            lambda: next((r for r in [self.rows(old)] if r["here"]["candidate"]), None), "it is back")
        self.assertLess(rows["there"]["cost"], rows["here"]["cost"])
        self.cut(self.there)
        self.assertEqual(self.went(self.post(old)), "here")
        self.assertEqual(len(self.there.requests), 1)
        name = 'kvasir_worker_failures_total{worker="there"}'
        harness.wait_until(lambda: harness.metrics(self.admin).get(name) == 1, "once")

    def cut(self, worker):
        """From now on nobody gets a connection to it, and nobody is refused."""
        worker.close()
        listener = socket.create_server(worker.address, backlog=0)
        self.addCleanup(listener.close)
        for _ in range(2):  # that has room for one, and nobody takes it
            s = socket.socket()
            self.addCleanup(s.close)
            s.setblocking(False)
            s.connect_ex(worker.address)

    def test_a_new_conversation_leaves_before_an_old_one(self):
        let_go = threading.Event()
        self.addCleanup(let_go.set)

        def answer(peer, request):
            if b"hold" in request.body:
                let_go.wait(harness.IO_TIMEOUT_S)
            peer.json({})

        node = self.islands(answer=answer)
        old = chat("an old conversation " * 400)
        self.assertEqual(self.went(self.post(old)), "here")
        harness.wait_until(lambda: self.rows(old)["here"]["overlap"] > 0, "it is known")
        # So many open requests weigh more than the way.
        held = LINK_MS * RATE // 1000 // REQUEST + 1
        threads = [threading.Thread(target=self.post, args=(chat(f"{i} hold"),))
                   for i in range(held)]
        for i, thread in enumerate(threads):
            thread.start()
            harness.wait_until(lambda n=i + 1: self.rows()["here"]["load"] == n, "it is open")
        self.assertEqual(self.went(self.post(chat("a new conversation"))), "there")
        self.assertEqual(self.went(self.post(old)), "here")
        let_go.set()
        for thread in threads:
            thread.join()
        harness.wait_until(lambda: self.crossings() == [held + 2, 1], "one crossed")
        decisions = harness.request(node.at("admin"), "GET", "/admin/decisions").json()
        self.assertEqual([d["island"] for d in decisions if d["crossed"]], [THERE])

    def test_everything_leaves_an_island_without_workers(self):
        self.islands()
        old = chat("an old conversation " * 400)
        self.assertEqual(self.went(self.post(old)), "here")
        self.here.close()
        for _ in range(3):
            self.assertEqual(self.went(self.post(old)), "there")
        # Nothing is farther than the nearest that is left.
        harness.wait_until(lambda: not self.rows()["here"]["candidate"], "it is seen")
        self.assertEqual(self.rows()["there"]["aside_tokens"], 0)

    def test_the_words_of_the_features_page_let_go_what_is_too_much(self):
        here, there, serve, admin = (free_port("127.0.0.1") for _ in range(4))
        started, log = words.begin(self, "kvasir engine --port 8003", serve, (
            ("8003", str(here)), ("8004", str(there)),
            ("--users 4", "--users 16 --conversations 16"),
            ("--island.name", f"--listen 127.0.0.1:{serve} --admin 127.0.0.1:{admin} --island.name")))
        self.assertEqual(started.pop().wait(), 0, log.read_text())

        def counted():
            found = harness.metrics(("127.0.0.1", admin))
            sides = [found.get(f'kvasir_island_requests_total{{from="eu",to="{to}"}}', 0)
                     for to in ("eu", "us")]
            return sides if sum(sides) == 96 else None

        stayed, left = harness.wait_until(counted, "all are counted")
        self.assertGreater(min(stayed, left), 0)
        page = self.run_once("kvasir", "status", "--admin", f"127.0.0.1:{admin}").stdout
        self.assertIn(f"\nisland    {left:.0f} of 96 requests left eu\n", page)
        words.end(self, started, log)

    def test_without_a_name_of_its_own_a_node_has_no_near_and_far(self):
        here = FakeWorker(self, lambda peer, request: peer.json({}))
        node = self.serve(f"{here.url},island={HERE},id=here", count=1)
        self.admin = node.at("admin")
        self.assertNotIn("link_ms", self.rows()["here"])
        self.assertFalse([name for name in harness.metrics(self.admin) if name.startswith("kvasir_island")])


class Residency(IslandCase):
    TENANTS = {"far": "[us]", "near": "[eu/fra, eu/dub]", "nowhere": "[ap]", "any": None}

    def setUp(self):
        super().setUp()
        self.keys, lines = {}, ["tenants:"]
        for name, residency in self.TENANTS.items():
            self.keys[name], line = self.run_once("kvasir", "key").stdout.split()
            lines += [f"  {name}:", f"    keys: ['{line}']"]
            lines += [f"    residency: {residency}"] if residency else []
        file = self.folder / "keys.yaml"
        file.write_text("\n".join(lines) + "\n")
        self.islands("--keys.file", file)

    def ask(self, tenant, body=None, path="/v1/chat/completions"):
        return self.post(body, {"x-api-key": self.keys[tenant]}, path)

    def refusal(self, answer):
        error = answer.json()["error"]
        return answer.status, error["code"], error["message"]

    def test_a_tenants_requests_go_where_it_may_be(self):
        for _ in range(4):
            self.assertEqual(self.went(self.ask("far")), "there")
            self.assertEqual(self.went(self.ask("near")), "here")
            self.assertEqual(self.went(self.ask("any")), "here")
        # What has no prompt is a tenant's data, too.
        self.assertEqual(self.went(self.ask("far", {"query": "q", "documents": ["d"]},
                                            "/v1/rerank")), "there")

    def test_what_no_worker_may_serve_is_refused_by_the_rules_name(self):
        status, code, message = self.refusal(self.ask("nowhere"))
        self.assertEqual((status, code), (403, "residency"))
        self.assertIn("[ap]", message)
        self.assertEqual(harness.metric(self.admin, 'kvasir_requests_total{reason="residency"}'), 1)
        told = self.explain(tenant="nowhere")
        self.assertEqual((told["refused"], told["worker"], told["residency"]),
                         ("residency", None, "ap"))
        told = self.explain(tenant="far")
        self.assertEqual((told["worker"], told["residency"]), ("there", "us"))
        rows = {r["worker"]: r for r in told["candidates"]}
        self.assertEqual(rows["here"]["verdict"], "other residency")
        self.assertNotIn("residency", self.explain(tenant="any"))

    def test_no_failure_moves_a_request_out(self):
        self.there.close()
        harness.wait_until(lambda: self.rows(tenant="far")["there"]["verdict"] in
                           ("unhealthy", "circuit open"), "it is seen to be gone")
        before = len(self.here.requests)
        status, code, message = self.refusal(self.ask("far"))
        self.assertIn((status, code), ((503, "no_worker"), (502, "all_attempts_failed")))
        if code == "no_worker":
            self.assertIn("[us]", message)
        self.assertEqual(len(self.here.requests), before)


if __name__ == "__main__":
    harness.main()
