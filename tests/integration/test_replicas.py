"""Nodes that read no engine know what those know that do: from their deltas,
from their state where the deltas are gone, and through the death of a reader."""
import unittest

import harness


class ReplicasCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                                 "--name", "e0", "--speed", "50")
        self.nodes = []
        self.asked = 0

    def join(self):
        e = self.engine
        seeds = ["%s:%d" % tuple(node.at("mesh")) for node in self.nodes[:2]]
        self.nodes.append(self.start(
            "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--mesh", "127.0.0.1:0", "--name", f"n{len(self.nodes)}",
            "--worker", f"{e.url('http')},id=e0,events={e.url('events')},"
                        f"replay={e.url('replay')}",
            *(flag for seed in seeds for flag in ("--join", seed))))
        return self.nodes[-1]

    def mesh(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/mesh").json()

    def stream(self, node):
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return workers[0]["events"][0]

    def readers(self):
        return [node for node in self.nodes if self.mesh(node)["reading"] == 1]

    def ask(self, count):
        model = harness.request(self.nodes[0].at("serve"), "GET", "/v1/models").json()
        for _ in range(count):
            first = self.asked * 1000
            node = self.nodes[self.asked % len(self.nodes)]
            answer = harness.request(node.at("serve"), "POST", "/v1/completions",
                                     {"model": model["data"][0]["id"], "max_tokens": 2,
                                      "prompt": list(range(first, first + 160))})
            self.assertEqual(answer.status, 200, answer.text)
            self.asked += 1

    def is_alike(self):
        """All have every block, and all say the same of them."""
        states = [self.mesh(node)["streams"][0] for node in self.nodes]
        held = [self.stream(node) for node in self.nodes]
        return (len({(s["epoch_id"], s["position"], s["digest"]) for s in states}) == 1 and
                all(s["digest_known"] and s["complete"] and not s["stale"] for s in states) and
                all(h["state"] == "live" and h["used"] for h in held) and
                {h["blocks"] for h in held} == {states[0]["blocks"]} and
                states[0]["blocks"] >= 10 * self.asked)

    def alike(self, what):
        harness.wait_until(self.is_alike, what)

    def settle(self, count):
        for _ in range(count):
            self.join()
        harness.wait_until(lambda: all(self.mesh(n)["peers_up"] == count - 1 for n in self.nodes),
                           "all are linked")
        harness.wait_until(lambda: len(self.readers()) == 2, "two read")


class Replicas(ReplicasCase):
    def test_who_does_not_read_knows_the_same(self):
        self.settle(5)
        self.ask(20)
        self.alike("five nodes alike, two of which read")

    def test_who_comes_late_knows_what_was_before(self):
        self.settle(4)
        self.ask(20)
        self.join()
        self.alike("the new one, too")
        self.ask(5)
        self.alike("still")

    def test_when_a_reader_dies_nothing_is_lost(self):
        self.settle(5)
        self.ask(10)
        self.alike("all alike")
        dead = self.readers()[0]
        self.nodes.remove(dead)
        dead.kill()
        self.ask(10)
        harness.wait_until(lambda: len(self.readers()) == 2, "another one reads")
        self.ask(5)
        self.alike("those that live")

    def test_a_restarted_engine_is_known_to_be_empty_everywhere(self):
        self.settle(5)
        self.ask(10)
        self.alike("all alike")
        ports = [self.engine.url(name).rsplit(":", 1)[1] for name in ("http", "events", "replay")]
        self.engine.kill()
        self.engine = self.start("kvasir-engine", "--port", ports[0], "--events", ports[1],
                                 "--replay", ports[2], "--name", "e0", "--speed", "50")
        harness.wait_until(lambda: all(self.stream(n)["blocks"] == 0 for n in self.nodes),
                           "nobody credits what is gone")

        def agree_on_nothing():
            states = [self.mesh(node)["streams"][0] for node in self.nodes]
            return all(s["digest_known"] and s["blocks"] == 0 for s in states)
        harness.wait_until(agree_on_nothing, "the digest is that of nothing")


if __name__ == "__main__":
    unittest.main(verbosity=2)
