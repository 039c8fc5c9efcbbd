"""Answers that nodes of a mesh keep: what is cleared on one is cleared on all."""
import threading

import harness
from fake_worker import FakeWorker
from test_answer_cache import USAGE, cold
from test_mesh import MeshCase
from test_proxy import CHAT


class Answers(MeshCase):
    def setUp(self):
        super().setUp()
        self.count = 0
        self.lock = threading.Lock()
        self.worker = FakeWorker(self, self.usual, models=("m", "n"))

    def usual(self, peer, _request):
        with self.lock:
            self.count += 1
            number = self.count
        peer.json({"id": f"c-{number}", "usage": USAGE,
                   "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    def nodes_of(self, *options, names="abc"):
        options = ["--worker", self.worker.url, "--answer_cache.bytes_max", "64MiB", *options]
        nodes = [self.node(names[0], *options)]
        seed = nodes[0].ready["mesh"]
        nodes += [self.node(name, *options, join=[seed]) for name in names[1:]]
        self.together(nodes)
        for node in nodes:
            harness.wait_until(lambda node=node: self.eligible(node), "its worker is up")
        return nodes

    def eligible(self, node):
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return all(worker["eligible"] for worker in workers) and workers

    def ask(self, node, body=None, headers=None):
        """(what the node says of its cache, the answer's body)"""
        got = harness.request(node.at("serve"), "POST", CHAT, body or cold(), headers)
        self.assertEqual(got.status, 200, got.text)
        return got.headers.get("x-cache"), got.body

    def kept(self, node, count):
        harness.wait_until(lambda: self.metric(node, "kvasir_answer_cache_answers") == count,
                           f"{count} answers are kept")

    def clear(self, node, body):
        got = harness.request(node.at("admin"), "POST", "/admin/answer_cache/clear", body)
        self.assertEqual(got.status, 200, got.text)
        return got.json()


class Cleared(Answers):
    def test_what_is_cleared_on_one_node_is_cleared_on_all(self):
        nodes = self.nodes_of()
        for node in nodes:
            for model in "mn":
                self.assertEqual(self.ask(node, cold(model=model))[0], "MISS")
            self.kept(node, 2)
        self.assertEqual(self.clear(nodes[1], {"model": "m"}), {"cleared": 1, "peers_told": 2})
        for node in nodes:
            self.kept(node, 1)
            self.assertEqual(self.ask(node, cold(model="n"))[0], "HIT")
            self.assertEqual(self.ask(node, cold(model="m"))[0], "MISS")
            self.kept(node, 2)
        self.assertIn("answers_cleared by=b answers=1", nodes[2].log())
        self.assertEqual(self.clear(nodes[0], {"tenant": "nobody"}),
                         {"cleared": 0, "peers_told": 2})
        self.clear(nodes[2], {})
        for node in nodes:
            self.kept(node, 0)

    def test_a_node_alone_has_nobody_to_tell(self):
        node = self.nodes_of(names="a")[0]
        self.ask(node)
        self.kept(node, 1)
        self.assertEqual(self.clear(node, {}), {"cleared": 1, "peers_told": 0})


if __name__ == "__main__":
    harness.main()
