"""Engines of two lengths: what is too long for an engine never gets there, short
requests keep to the short ones, and what nobody takes is refused with the
numbers."""
import json

import harness
from fake_worker import FakeWorker
from test_mesh import MeshCase
from test_proxy import Proxy, chat

SHORT, LONG = 1024, 32768


def text(tokens):
    """About as many, by the estimate of four bytes each."""
    return "abc " * tokens


class Pools(Proxy):
    def engine(self, length, *args):
        return self.start("kvasir-engine", "--port", 0, "--model", "m",
                          "--max-model-len", length, *args)

    def pools(self, *args):
        self.short, self.long = self.engine(SHORT), self.engine(LONG)
        urls = [e.url("http") for e in (self.short, self.long)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                          "127.0.0.1:0", *[w for u in urls for w in ("--worker", u)], *args)
        self.at = node.at("serve")
        admin = node.at("admin")
        harness.wait_until(
            lambda: len([r for r in self.explain(admin, chat("x", model="m"))["candidates"]
                         if r["max_model_len"]]) == 2, "both tell their length")
        return admin

    def explain(self, admin, body):
        return harness.request(admin, "POST", "/admin/explain", body).json()

    def ask(self, tokens, answer=10, **more):
        return harness.request(self.at, "POST", "/v1/chat/completions",
                               chat(text(tokens), model="m", max_tokens=answer, **more))

    def went(self, answer):
        self.assertEqual(answer.status, 200, answer.body)
        return answer.headers["x-kvasir-worker"]

    def test_each_goes_where_it_suits(self):
        admin = self.pools("--policy.pool_threshold", 512)
        for _ in range(6):
            self.assertEqual(self.went(self.ask(300)), self.short.ready["http"])
            self.assertEqual(self.went(self.ask(600)), self.long.ready["http"])
            self.assertEqual(self.went(self.ask(4000)), self.long.ready["http"])
        count = {name: harness.metric(admin, f'kvasir_pool_requests_total{{pool="{name}"}}')
                 for name in ("short", "long")}
        count["spilled"] = harness.metric(admin, "kvasir_pool_spilled_total")
        # The last kind has no choice: it fits into one pool alone.
        self.assertEqual(count, {"short": 6, "long": 6, "spilled": 0})

    def test_explain_says_why(self):
        admin = self.pools()
        told = self.explain(admin, chat(text(300), model="m", max_tokens=10))
        self.assertEqual((told["length"]["pool"], told["length"]["longest"]), ("short", LONG))
        self.assertEqual(told["length"]["answer_tokens"], 10)
        self.assertFalse(told["length"]["counted"])
        rows = {r["worker"]: r for r in told["candidates"]}
        self.assertEqual(rows[self.short.ready["http"]]["aside_tokens"], 0)
        self.assertEqual(rows[self.long.ready["http"]]["aside_tokens"], 16 * 256)
        for row in rows.values():
            self.assertAlmostEqual(row["cost"], sum(
                weight * row[column] for column, weight in row["weights"].items()), delta=1)
        told = self.explain(admin, chat(text(4000), model="m", max_tokens=10))
        rows = {r["worker"]: r for r in told["candidates"]}
        self.assertEqual(rows[self.short.ready["http"]]["verdict"], "too short")
        self.assertEqual(told["worker"], self.long.ready["http"])

    def test_what_nobody_takes_is_refused_with_the_numbers(self):
        admin = self.pools()
        answer = self.ask(100, LONG + 1)
        error = answer.json()["error"]
        self.assertEqual((answer.status, error["code"], error["type"]),
                         (400, "context_length_exceeded", "invalid_request_error"))
        for number in (LONG, LONG + 1):
            self.assertIn(str(number), error["message"])
        self.assertEqual(harness.metric(admin, 'kvasir_requests_total{reason="context_length_exceeded"}'), 1)
        told = self.explain(admin, chat("x", model="m", max_tokens=LONG + 1))
        self.assertEqual((told["refused"], told["worker"]), ("context_length_exceeded", None))
        self.assertEqual(told["admission"], "refused")
        # The estimate alone refuses nothing: the engine counts.
        answer = self.ask(2 * LONG)
        self.assertEqual(answer.status, 400)
        self.assertIn("in the messages", answer.json()["error"]["message"])
        self.assertEqual(harness.metric(admin, 'kvasir_requests_total{reason="context_length_exceeded"}'), 1)

    def test_a_worker_that_tells_no_length_takes_all(self):
        worker = FakeWorker(self, lambda peer, request: peer.json({}))
        self.serve(worker)
        answer = self.post(chat("x", max_tokens=10**9))
        self.assertEqual(answer.status, 200)

    def test_bytes_of_a_token_are_learned_from_usage(self):
        said = []

        def handler(peer, request):
            said.append(len(request.json()["messages"][0]["content"]) // 3)
            peer.json({"usage": {"prompt_tokens": said[-1], "completion_tokens": 1,
                                 "total_tokens": said[-1] + 1}})

        worker = FakeWorker(self, handler)
        worker.facts = {"max_model_len": LONG}
        node = self.serve(worker)
        admin = node.at("admin")
        body = chat("the quick brown fox jumps over a dog " * 102, max_tokens=5)

        def guessed():
            return self.explain(admin, body)["length"]

        self.assertEqual((guessed()["text"], guessed()["bytes_per_token"]), ("prose", 4))
        first = guessed()["prompt_tokens"]
        self.assertEqual(self.post(body).status, 200)
        harness.wait_until(lambda: guessed()["bytes_per_token"] == 3, "it has learned")
        self.assertGreater(guessed()["prompt_tokens"], first * 5 // 4)
        kinds = harness.metrics(admin)
        self.assertEqual(kinds['kvasir_text_bytes_per_token{model="m",kind="prose"}'], 3)
        self.assertEqual(kinds['kvasir_text_bytes_per_token{model="",kind="prose"}'], 3)
        self.assertEqual(kinds['kvasir_text_bytes_per_token{model="",kind="cjk"}'], 4)
        self.assertNotIn('kvasir_text_bytes_per_token{model="m",kind="cjk"}', kinds)

    def test_nobody_is_refused_for_a_worker_that_is_down(self):
        admin = self.pools("--health.interval", "1s", "--health.failures", 1)
        self.long.kill()
        harness.wait_until(lambda: [
            r for r in self.explain(admin, chat("x", model="m"))["candidates"]
            if r["verdict"] in ("unhealthy", "circuit open")], "it is seen to be down")
        answer = self.ask(100, 4000)
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (503, "no_worker"))
        self.assertEqual(self.went(self.ask(100)), self.short.ready["http"])


class Tuned(MeshCase):
    """The threshold follows what came, and is the same on all nodes."""

    def answer(self, peer, request):
        body = request.json()
        prompt = len(body["messages"][0]["content"]) // 4
        peer.json({"usage": {"prompt_tokens": prompt, "completion_tokens": body["max_tokens"],
                             "total_tokens": prompt + body["max_tokens"]}})

    def worker(self, length):
        worker = FakeWorker(self, self.answer, models=("m",))
        worker.facts = {"max_model_len": length}
        return worker

    def length(self, node):
        told = harness.request(node.at("admin"), "POST", "/admin/explain",
                               chat(text(100), model="m", max_tokens=10)).json()
        return told["length"]

    def threshold(self, node):
        return harness.metrics(node.at("admin")).get(
            'kvasir_pool_threshold_tokens{model="m"}')

    def ask(self, node, tokens, times):
        for _ in range(times):
            told = harness.request(node.at("serve"), "POST", "/v1/chat/completions",
                                   chat(text(tokens), model="m", max_tokens=10))
            self.assertEqual(told.status, 200, told.body)

    def configure(self, name, tune):
        config = self.folder / f"{name}.yaml"
        config.write_text(json.dumps({"policy": {"pool_tune": tune}}))
        return config

    def turn_off(self, name, node):
        self.configure(name, "off")
        answer = harness.request(node.at("admin"), "POST", "/admin/reload")
        self.assertEqual(answer.status, 200, answer.body)
        harness.wait_until(lambda: self.threshold(node) is None, "it counts no more")
        self.assertEqual(self.length(node)["threshold"], 8192)

    def test_nodes_tune_it_alike_and_stop_when_they_are_told(self):
        workers = [w for length in (4096, LONG) for w in ("--worker", self.worker(length).url)]
        first = self.node("a", "-c", self.configure("a", "on"), *workers)
        second = self.node("b", "-c", self.configure("b", "on"), *workers,
                           join=[first.ready["mesh"]])
        self.together([first, second])
        harness.wait_until(lambda: self.length(first)["pool"] == "short", "lengths are known")
        self.assertEqual(self.length(first)["threshold"], 8192)
        self.assertFalse(self.length(first)["tuned"])
        # The long prompts are twice the work of the short ones: half of all is
        # the long engine's.
        self.ask(first, 300, 150)
        self.ask(first, 2000, 49)
        self.assertIsNone(self.threshold(first))
        self.ask(first, 2000, 11)
        harness.wait_until(lambda: self.threshold(first), "it is found")
        found = self.threshold(first)
        self.assertTrue(300 < found < 2000, found)
        harness.wait_until(lambda: self.threshold(second) == found, "a peer has the same")
        for node in first, second:
            self.assertEqual((self.length(node)["threshold"], self.length(node)["tuned"]),
                             (found, True))
        row = harness.request(first.at("admin"), "GET", "/admin/mix").json()["rows"][0]
        self.assertEqual(sum(count for _, count, _ in row["budgets"]), 210)
        self.turn_off("b", second)
        self.assertEqual(self.threshold(first), found)
        self.turn_off("a", first)


if __name__ == "__main__":
    harness.main()
