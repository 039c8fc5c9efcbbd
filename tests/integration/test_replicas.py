"""Nodes that read no engine know what those know that do: from their deltas,
from their state where the deltas are gone, and through the death of a reader.
And of what no engine has told yet they know what their peers sent there."""
import threading
import unittest

import harness
from dns import free_port


class ReplicasCase(harness.Case):
    def setUp(self):
        super().setUp()
        self.ports = [free_port() for _ in range(3)]
        self.engine = self.begin_engine()
        self.nodes = []
        self.asked = 0

    def begin_engine(self):
        http, events, replay = self.ports
        return self.start("kvasir-engine", "--port", http, "--events", events, "--replay", replay,
                          "--name", "e0", "--speed", "50")

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
        self.engine.kill()
        self.engine = self.begin_engine()
        harness.wait_until(lambda: all(self.stream(n)["blocks"] == 0 for n in self.nodes),
                           "nobody credits what is gone")

        def agree_on_nothing():
            states = [self.mesh(node)["streams"][0] for node in self.nodes]
            return all(s["digest_known"] and s["blocks"] == 0 for s in states)
        harness.wait_until(agree_on_nothing, "the digest is that of nothing")


ENGINES = 4
LONG = list(range(1000, 9000))
BLOCKS = len(LONG) // 16


class OnTheWay(harness.Case):
    """Engines that are busy for long with a prompt, and say nothing of those that wait."""

    def setUp(self):
        super().setUp()
        self.threads = []
        self.engines = [self.start("kvasir-engine", "--port", "0", "--events", "0",
                                   "--replay", "0", "--name", f"e{i}", "--speed", "50",
                                   "--max-batched-tokens", "16384", "--prefill-tps", "800")
                        for i in range(ENGINES)]
        for engine in self.engines:  # from its first blocks on their size is known
            self.complete(engine.at("http"), list(range(100)))
        first = self.join()
        self.nodes = [first, self.join("--join", first.ready["mesh"])]
        self.level(6)
        self.order({"speed_percent": 1})
        for i, engine in enumerate(self.engines):
            self.leave(engine.at("http"), list(range(10000 * (i + 1), 10000 * (i + 1) + 8000)))
        self.level(6 + 500)

    def level(self, blocks):
        for node in self.nodes:
            harness.wait_until(lambda node=node: self.is_level(node, blocks), "all is known")

    def tearDown(self):
        self.order({"speed_percent": 1000000})
        for thread in self.threads:
            thread.join()
        super().tearDown()

    def order(self, order):
        for engine in self.engines:
            answer = harness.request(engine.at("http"), "POST", "/chaos", order)
            self.assertEqual(answer.status, 200, answer.text)

    def join(self, *more):
        workers = []
        for i, e in enumerate(self.engines):
            workers += ["--worker", f"{e.url('http')},id=e{i},events={e.url('events')},"
                                    f"replay={e.url('replay')}"]
        return self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--mesh", "127.0.0.1:0", "--name", f"n{len(more)}",
                          "--mirror.expected", "5m", *workers, *more)

    def is_level(self, node, blocks):
        mesh = harness.request(node.at("admin"), "GET", "/admin/mesh").json()
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return mesh["peers_up"] == 1 and all(
            w["eligible"] and w["events"][0]["state"] == "live" and w["events"][0]["blocks"] == blocks
            for w in workers)

    def complete(self, place, prompt):
        model = harness.request(place, "GET", "/v1/models").json()["data"][0]["id"]
        answer = harness.request(place, "POST", "/v1/completions",
                                 {"model": model, "prompt": prompt, "max_tokens": 2})
        self.assertEqual(answer.status, 200, answer.text)

    def leave(self, place, prompt):
        """Leaves it to the engine, which takes its time."""
        self.threads.append(threading.Thread(target=self.complete, args=(place, prompt)))
        self.threads[-1].start()

    def metric(self, process, name, port="admin"):
        return harness.metric(process.at(port), name) or 0

    def heard(self, node):
        return self.metric(node, 'kvasir_hints_heard_total{what="expected"}')

    def waiting(self):
        return sorted(self.metric(e, "vllm:num_requests_waiting", "http") for e in self.engines)

    def test_what_one_node_sent_the_other_sends_there_too(self):
        first, second = self.nodes
        self.leave(first.at("serve"), LONG)
        harness.wait_until(lambda: self.heard(second) == 1, "the peer was told")
        self.leave(second.at("serve"), LONG + [7] * 160)
        # Of which the new blocks alone are told, and nothing goes back.
        harness.wait_until(lambda: self.heard(first) == 1, "the first was told, too")
        harness.wait_until(lambda: sum(self.waiting()) == 2, "both wait")
        self.assertEqual(self.waiting(), [0, 0, 0, 2])
        for node in self.nodes:
            self.assertEqual(self.metric(node, 'kvasir_hints_told_total{what="expected"}'), 1)
            self.assertEqual(self.metric(node, 'kvasir_expected_blocks{by="tokens"}'), BLOCKS + 10)
        self.order({"speed_percent": 1000000})
        for node in self.nodes:
            harness.wait_until(lambda node=node: self.metric(node, 'kvasir_expected_blocks{by="tokens"}') == 0,
                               "the engine's events have told")
            self.assertEqual(self.metric(node, 'kvasir_expected_dropped_total{reason="given_up"}'), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
