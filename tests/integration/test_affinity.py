"""Sessions: requests that name one go to one worker, whichever node they come to, also when nodes
and workers go and come back. The workers have no event streams, and the prompts share nothing, so
nothing but the session tells where they go."""
import pathlib
import threading

import harness
from fake_worker import FakeWorker
from test_mesh import MeshCase

WORKERS = 4


class Affinity(MeshCase):
    mode = "hard"

    def setUp(self):
        super().setUp()
        self.release = threading.Event()
        self.asked = 0
        self.workers = [FakeWorker(self, self.answer) for _ in range(WORKERS)]

    def tearDown(self):
        self.release.set()
        super().tearDown()

    def answer(self, peer, request):
        if "hold" in request.json().get("hint", ""):
            self.release.wait(harness.IO_TIMEOUT_S)
        peer.json({"id": "x", "choices": [{"text": "fine"}]})

    def flags_of_workers(self):
        return [flag for worker in self.workers for flag in ("--worker", worker.url)]

    def nodes(self, *more):
        nodes = self.three(*self.flags_of_workers(), "--affinity.mode", self.mode, *more)
        for node in nodes:
            self.all_up(node, WORKERS)
        return nodes

    def all_up(self, node, count):
        harness.wait_until(lambda: self.eligible(node) == count, f"{count} workers are up")

    def eligible(self, node):
        status = harness.request(node.at("admin"), "GET", "/admin/status").json()
        return sum(worker["eligible"] for worker in status["workers"])

    def body(self, **more):
        """No two prompts are alike."""
        self.asked += 1
        return {"model": "m", "prompt": f"{self.asked} other words. " * 40, **more}

    def ask(self, node, session, **more):
        answer = harness.request(node.at("serve"), "POST", "/v1/completions", self.body(**more),
                                 {"x-session-id": session} if session else {})
        self.assertEqual(answer.status, 200, answer.text)
        return answer.headers["x-kvasir-worker"], answer.headers["x-kvasir-mode"]

    def explain(self, node, session):
        return harness.request(node.at("admin"), "POST", "/admin/explain", self.body(),
                               {"x-session-id": session}).json()

    def knows(self, node, session, worker):
        def home():
            rows = self.explain(node, session)["candidates"]
            return [row["worker"] for row in rows if row["session"]]
        harness.wait_until(lambda: home() == [worker], f"{session} is known to be at {worker}")

    def drain(self, node, worker, method="POST"):
        answer = harness.request(node.at("admin"), method, f"/admin/workers/{worker}/drain", {})
        self.assertEqual(answer.status, 200, answer.text)


class Hard(Affinity):
    def test_sessions_stay_with_their_worker_on_all_nodes(self):
        nodes = self.nodes()
        used = set()
        for i in range(8):
            worker, mode = self.ask(nodes[i % 3], f"s{i}")
            self.assertEqual(mode, "policy")
            used.add(worker)
            for other in nodes:
                self.knows(other, f"s{i}", worker)
                self.assertEqual(self.ask(other, f"s{i}"), (worker, "session"))
        self.assertGreater(len(used), 1)
        told = sum(self.metric(node, 'kvasir_placed_total{mode="session"}') for node in nodes)
        self.assertEqual(told, 24)
        self.assertEqual(sum(self.metric(node, 'kvasir_sessions_total{outcome="new"}') for node in nodes), 8)
        status = harness.request(nodes[0].at("admin"), "GET", "/admin/status").json()
        self.assertGreaterEqual(status["placement"]["session"], 8)
        last = harness.request(nodes[0].at("admin"), "GET", "/admin/decisions").json()[0]
        self.assertEqual((last["mode"], last["reason"]),
                         ("session", "session: the worker that has it"))

    def test_a_session_moves_once_and_what_a_node_knew_survives_it(self):
        nodes = self.nodes()
        first, _ = self.ask(nodes[0], "s")
        for node in nodes:
            self.knows(node, "s", first)
        self.drain(nodes[0], first)
        for node in nodes:
            self.all_up(node, WORKERS - 1)
        second, _ = self.ask(nodes[0], "s")
        self.assertNotEqual(second, first)
        self.assertEqual(self.metric(nodes[0], 'kvasir_sessions_total{outcome="moved"}'), 1)
        for node in nodes[1:]:
            self.knows(node, "s", second)
        self.drain(nodes[1], first, "DELETE")
        for node in nodes:
            self.all_up(node, WORKERS)
        nodes[0].kill()
        for node in nodes[1:]:
            self.assertEqual(self.ask(node, "s"), (second, "session"))

    def test_a_worker_that_dies_gives_its_sessions_away(self):
        nodes = self.nodes()
        first, _ = self.ask(nodes[0], "s")
        self.knows(nodes[1], "s", first)
        dead = next(w for w in self.workers if w.url.endswith(":" + first.rpartition(":")[2]))
        dead.healthy = False
        dead.handler = lambda peer, request: peer.answer(503, b"{}")
        second, mode = self.ask(nodes[1], "s")
        self.assertNotEqual(second, first)
        self.assertNotEqual(mode, "session")
        for node in nodes:
            self.knows(node, "s", second)
            self.assertEqual(self.ask(node, "s"), (second, "session"))

    def test_header_and_body_name_the_session_under_its_model(self):
        node = self.nodes()[0]
        worker, _ = self.ask(node, "", session_id="s", user="u")
        self.knows(node, "s", worker)
        self.assertEqual(self.ask(node, "s"), (worker, "session"))
        self.assertEqual(self.ask(node, "", session_id="s"), (worker, "session"))
        self.assertEqual(self.ask(node, "s", session_id="t"), (worker, "session"))
        worker, mode = self.ask(node, "", user="u")
        self.assertNotEqual(mode, "session")
        self.knows(node, "u", worker)
        self.assertEqual(self.ask(node, "", user="u")[1], "session")
        self.assertNotIn(self.ask(node, "", user="")[1], ("session", "policy"))

    def test_a_reload_switches_it_on_and_off(self):
        path = pathlib.Path(self.folder) / "node.yaml"

        def write(mode):
            path.write_text("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nlanes: 1\n"
                            f"affinity: {{mode: {mode}, headers: x-chat}}\nworkers:\n"
                            + "".join(f"  - url: {w.url}\n" for w in self.workers))

        def modes():
            answers = [harness.request(node.at("serve"), "POST", "/v1/completions", self.body(),
                                       {"x-chat": "s"}) for _ in range(3)]
            return {answer.headers["x-kvasir-mode"] for answer in answers[1:]}
        write("off")
        node = self.start("kvasir", "serve", "-c", str(path))
        self.all_up(node, WORKERS)
        self.assertEqual(modes(), {"balance"})
        write("hard")
        answer = harness.request(node.at("admin"), "POST", "/admin/reload", {}).json()
        self.assertIn("affinity.mode", answer["applied"])
        harness.wait_until(lambda: modes() == {"session"}, "it is on")
        write("off")
        harness.request(node.at("admin"), "POST", "/admin/reload", {})
        harness.wait_until(lambda: modes() == {"balance"}, "it is off")


class Soft(Affinity):
    mode = "soft"

    def test_a_session_yields_to_load_and_comes_back(self):
        node = self.nodes()[0]
        worker, _ = self.ask(node, "s")
        self.knows(node, "s", worker)
        self.assertEqual(self.ask(node, "s"), (worker, "session"))
        held = []

        def hold():
            thread = threading.Thread(target=self.ask, args=(node, "s"), kwargs={"hint": "hold"})
            thread.start()
            held.append(thread)
            harness.wait_until(lambda: self.metric(node, "kvasir_inflight") >= len(held),
                               "it is open")

        def moves():
            return self.metric(node, 'kvasir_sessions_total{outcome="moved"}')
        before = moves()
        harness.wait_until(lambda: hold() or self.ask(node, "s") != (worker, "session"), "it yields")
        self.release.set()
        for thread in held:
            thread.join()
        harness.wait_until(lambda: self.metric(node, "kvasir_inflight") == 0, "they are over")
        self.assertEqual(self.ask(node, "s"), (worker, "session"))
        self.assertEqual(moves(), before)
        self.assertGreaterEqual(self.metric(node, 'kvasir_sessions_total{outcome="yielded"}'), 1)


if __name__ == "__main__":
    harness.main()
