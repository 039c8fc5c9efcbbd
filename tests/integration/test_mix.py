"""How long requests were: a node keeps it by model and tenant, over a restart,
and kvasir plan sizes a fleet by what the nodes answer."""
import json
import subprocess
import unittest

import harness
from fake_worker import FakeWorker
from test_mesh import MeshCase
from test_proxy import CHAT, Proxy, chat


def plan(stdin, *args):
    return subprocess.run([harness.program("kvasir"), "plan", "--mix", "-", "--requests", "0",
                           *map(str, args)], input=stdin, capture_output=True, timeout=120)


class Mix(Proxy):
    def setUp(self):
        super().setUp()

        def answer(peer, request):
            body = request.json()
            prompt = int(body["messages"][0]["content"])
            usage = {"prompt_tokens": prompt, "completion_tokens": body["max_tokens"],
                     "total_tokens": prompt + body["max_tokens"],
                     "prompt_tokens_details": {"cached_tokens": prompt // 2}}
            peer.json({"usage": usage} if prompt else {})

        self.worker = FakeWorker(self, answer, models=("m", "other"))

    def node(self, *args):
        return self.serve(self.worker, options=args)

    def ask(self, prompt, answer, model="m"):
        told = self.post(chat(str(prompt), model=model, max_tokens=answer))
        self.assertEqual(told.status, 200, told.body)

    def mix(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/mix")

    def row(self, node, requests, model="m"):
        """That model's row once it has so many."""
        return harness.wait_until(lambda: [
            r for r in self.mix(node).json()["rows"]
            if r["model"] == model and r["requests"] > requests - 0.5], "they are counted")[0]

    def test_lengths_are_kept_and_planned_with(self):
        node = self.node()
        self.assertEqual(self.mix(node).json()["rows"], [])
        for prompt, answer in (1000, 100), (1000, 100), (9000, 20), (0, 1):
            self.ask(prompt, answer)
        self.ask(50, 5, model="other")
        self.row(node, 1, "other")
        row = self.row(node, 4)
        self.assertEqual((row["tenant"], row["requests"], row["longest"]), ("default", 4, 9020))
        self.assertEqual(row["lengths"], [[1000, 100, 2], [9000, 20, 1]])
        self.assertEqual((row["counted_share"], row["cached_share"]), (0.75, 0.5))
        self.assertEqual(sum(row["hours"]), 4)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_mix_other_total"), 0)

        answer = self.mix(node).body
        made = json.loads(plan(answer, "--model", "m", "--json").stdout)
        self.assertEqual((made["seen"]["nodes"], made["seen"]["cached_share"]), (1, 0.5))
        self.assertAlmostEqual(made["two_pools"]["pools"][0]["share"], 2 / 3, places=5)
        self.assertEqual(made["max_len"], 16384)
        twice = json.loads(plan(answer + answer, "--model", "m", "--json").stdout)
        self.assertAlmostEqual(twice["requests_per_s"] / made["requests_per_s"], 2, places=4)
        self.assertEqual(twice["seen"]["nodes"], 2)
        told = plan(answer, "--model", "none")
        self.assertEqual(told.returncode, 2)
        self.assertIn(b"no requests of that model", told.stderr)
        page = plan(answer).stdout.decode()
        self.assertIn("seen by 1 node over ", page)
        self.assertIn("as many are cached as now", page)
        self.assertLessEqual(max(map(len, page.splitlines()[3:])), 100)

    def test_a_restart_goes_on_with_them(self):
        folder = self.folder / "data"
        node = self.node("--data", folder)
        for _ in range(3):
            self.ask(700, 30)
        before = self.row(node, 3)
        self.assertEqual(
            harness.request(node.at("admin"), "POST", "/admin/snapshot").status, 200)
        node.kill()
        node.wait()
        node = self.node("--data", folder)
        self.assertEqual(self.mix(node).json()["rows"][0]["lengths"], before["lengths"])
        start = harness.request(node.at("admin"), "GET", "/admin/status").json()
        self.assertTrue(start["snapshot"]["start"]["mix"])
        self.ask(700, 30)
        self.assertAlmostEqual(self.row(node, 4)["lengths"][0][2], 4, delta=0.1)


class Shared(MeshCase):
    """Bytes of a token: learned at one node, known to all, and after a restart."""

    TEXT = "the quick brown fox jumps over a dog " * 102

    def answer(self, peer, request):
        text = request.json()["messages"][0]["content"]
        tokens = len(text) // {"m": 3, "other": 2}[request.json()["model"]]
        peer.json({"usage": {"prompt_tokens": tokens, "completion_tokens": 1,
                             "total_tokens": tokens + 1}})

    def ratio(self, node, model):
        told = harness.request(node.at("admin"), "POST", "/admin/explain",
                               chat(self.TEXT, model=model, max_tokens=5)).json()
        return told["length"]["bytes_per_token"]

    def ask(self, node, model):
        told = harness.request(node.at("serve"), "POST", CHAT, chat(self.TEXT, model=model))
        self.assertEqual(told.status, 200, told.body)

    def test_bytes_of_a_token_are_known_to_a_node_that_never_asked(self):
        worker = FakeWorker(self, self.answer, models=("m", "other"))
        worker.facts = {"max_model_len": 32768}
        folder = self.folder / "data"
        first = self.node("a", "--worker", worker.url, "--data", folder)
        harness.wait_until(lambda: self.ratio(first, "m") == 4, "the worker is up")
        self.ask(first, "m")
        self.ask(first, "other")
        harness.wait_until(lambda: (self.ratio(first, "m"), self.ratio(first, "other")) == (3, 2),
                           "each model has its own")
        second = self.node("b", "--worker", worker.url, join=[first.ready["mesh"]])
        self.together([first, second])
        harness.wait_until(lambda: (self.ratio(second, "m"), self.ratio(second, "other")) == (3, 2),
                           "a peer knows them")
        self.assertEqual(
            harness.request(first.at("admin"), "POST", "/admin/snapshot").status, 200)
        for node in first, second:
            node.kill()
            node.wait()
        third = self.node("c", "--worker", worker.url, "--data", folder)
        harness.wait_until(lambda: (self.ratio(third, "m"), self.ratio(third, "other")) == (3, 2),
                           "they come back from the snapshot")


if __name__ == "__main__":
    harness.main()
