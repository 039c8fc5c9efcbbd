"""Engines' events in a mesh: read by some nodes, known to all, whoever dies."""
import random
import signal

import harness
from dns import free_port
from gate import Gate
from test_mesh import MeshCase

BLOCK = 16


class EventsCase(MeshCase):
    def engine(self, name, *flags, ports=(0, 0, 0)):
        return self.start("kvasir-engine", "--port", ports[0], "--events", ports[1], "--replay",
                          ports[2], "--name", name, "--speed", "50", *flags)

    def workers(self, engines):
        flags = []
        for i, engine in enumerate(engines):
            flags += ["--worker", f"{engine.url('http')},id=e{i},events={engine.url('events')},"
                                  f"replay={engine.url('replay')}"]
        return [*flags, "--events.probe", "200ms", "--events.replay_timeout", "500ms"]

    def ready(self, nodes, engines):
        for node in nodes:
            harness.wait_until(
                lambda node=node: harness.request(node.at("serve"), "GET", "/ready").status == 200,
                "ready")
            harness.wait_until(lambda node=node: len(self.eligible(node)) == len(engines),
                               "workers are eligible")

    def eligible(self, node):
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return [w["id"] for w in workers if w["eligible"]]

    def ask(self, node, prompt):
        """One completion: (blocks that were expected there, worker)."""
        answer = harness.request(node.at("serve"), "POST", "/v1/completions",
                                 {"model": self.model(node), "prompt": prompt, "max_tokens": 2})
        self.assertEqual(answer.status, 200, answer.text)
        return (int(answer.headers["x-kvasir-overlap"].split("/")[0]),
                answer.headers["x-kvasir-worker"])

    def model(self, node):
        return harness.request(node.at("serve"), "GET", "/v1/models").json()["data"][0]["id"]

    def prompts(self, seed, count, blocks=4):
        rng = random.Random(seed)
        return [[rng.randrange(1000, 9000) for _ in range(blocks * BLOCK)] for _ in range(count)]

    def published(self, engine):
        return harness.request(engine.at("http"), "GET", "/chaos/cache").json()["next_seq"]

    def same(self, nodes, engines):
        """Waits until all nodes have all that engines said, and the same of it;
        the streams as the first node sees them."""
        def what(node):
            streams = self.mesh(node)["streams"]
            return [(s["worker"], s["state"], s["epoch"], s["epoch_id"], s["position"] >> 8,
                     s["digest_known"], s["blocks"], s["digest"]) for s in streams]

        def equal():
            first = what(nodes[0])
            return (len(first) == len(engines) and
                    all(s[1] == "complete" and s[5] and s[4] == max(self.published(engine) - 1, 0)
                        for s, engine in zip(first, engines)) and
                    all(what(node) == first for node in nodes[1:]))
        try:
            harness.wait_until(equal, "all nodes know the same")
        except TimeoutError as error:
            seen = "".join(f"{what(node)}\n{node.log()[-3000:]}\n" for node in nodes)
            raise TimeoutError(f"{error}\n{seen}") from None
        return self.mesh(nodes[0])["streams"]

    def readers(self, nodes):
        """Who reads which worker, once all nodes agree and those do."""
        def found():
            lists = [self.mesh(node)["readers"] for node in nodes]
            first = {r["worker"]: sorted(r["nodes"]) for r in lists[0]}
            if any({r["worker"]: sorted(r["nodes"]) for r in other} != first for other in lists):
                return None
            for node in nodes:
                mesh = self.mesh(node)
                mine = sum(mesh["node"] in names for names in first.values())
                if mesh["reading"] != mine:
                    return None
            return first
        return harness.wait_until(found, "all agree about the readers")


class Events(EventsCase):
    def test_what_an_engine_stores_is_known_to_all_nodes(self):
        engines = [self.engine("m")]
        nodes = self.three(*self.workers(engines))
        self.ready(nodes, engines)
        prompts = self.prompts(1, 12)
        for prompt in prompts:
            self.ask(nodes[0], prompt)
        stream, = self.same(nodes, engines)
        self.assertGreaterEqual(stream["blocks"], 12 * 3)
        self.assertEqual(len(self.readers(nodes)["e0"]), 2)
        for node in nodes:
            overlap, _ = self.ask(node, prompts[3])
            self.assertGreaterEqual(overlap, 3)

    def test_an_engine_is_read_on_its_island_and_known_everywhere(self):
        engines = [self.engine("m"), self.engine("m")]
        flags = self.workers(engines)
        for i, island in enumerate(("west", "east/a")):
            at = 2 * i + 1
            flags[at] += f",island={island}"
        nodes = [self.node("w1", *flags, "--island.name", "west")]
        seed = nodes[0].ready["mesh"]
        nodes += [self.node(name, *flags, "--island.name", island, join=[seed])
                  for name, island in (("w2", "west"), ("e1", "east/a"), ("e2", "east/b"))]
        self.together(nodes)
        self.ready(nodes, engines)
        self.assertEqual(self.readers(nodes), {"e0": ["w1", "w2"], "e1": ["e1", "e2"]})
        for i, prompt in enumerate(self.prompts(1, 12)):
            self.ask(nodes[2 * (i % 2)], prompt)
        self.same(nodes, engines)

    def test_a_worker_that_peers_replaced_is_read_whatever_its_place_is(self):
        engine = self.engine("m")
        flags = self.workers([engine])
        seed = f"127.0.0.1:{free_port()}"
        # The first place becomes free, so the worker goes there from the second one.
        second = self.node("b", "--worker", f"http://127.0.0.1:{free_port()},id=gone", *flags,
                           join=[seed])
        self.ready([second], [engine])
        answer = harness.request(second.at("admin"), "DELETE", "/admin/workers/gone")
        self.assertEqual(answer.status, 200, answer.text)
        first = self.node("a", "--events.probe", "200ms", mesh=seed)
        answer = harness.request(first.at("admin"), "POST", "/admin/workers", {
            "url": engine.url("http"), "id": "e0", "events": engine.url("events"),
            "replay": engine.url("replay"), "pool": "new"})
        self.assertEqual(answer.status, 200, answer.text)
        nodes = [first, second]
        self.together(nodes)
        harness.wait_until(lambda: "what=replaced told_by=a" in second.log(), "it is replaced")
        self.ready(nodes, [engine])
        for prompt in self.prompts(1, 6):
            self.ask(second, prompt)
        self.same(nodes, [engine])
        self.assertEqual(self.readers(nodes), {"e0": ["a", "b"]})

    def test_another_node_reads_what_a_dead_one_read(self):
        engines = [self.engine("m"), self.engine("m")]
        flags = self.workers(engines)
        nodes = self.three(*flags)
        self.ready(nodes, engines)
        for prompt in self.prompts(2, 10):
            self.ask(nodes[0], prompt)
        self.same(nodes, engines)
        names = {node.ready["mesh"]: node for node in nodes}
        victim_name = self.readers(nodes)["e0"][0]
        address = {m["name"]: m["address"] for m in self.mesh(nodes[0])["members"]}
        victim = names[address[victim_name]]
        victim.kill()
        rest = [node for node in nodes if node is not victim]
        self.sees(rest, victim_name, "dead")
        others = sorted({"a", "b", "c"} - {victim_name})
        harness.wait_until(lambda: self.readers(rest) == {"e0": others, "e1": others},
                           "the others read")
        for prompt in self.prompts(3, 10):
            self.ask(rest[0], prompt)
        self.same(rest, engines)
        back = self.node(victim_name, *flags, join=[rest[0].ready["mesh"]])
        self.together([*rest, back])
        self.ready([back], engines)
        for prompt in self.prompts(4, 5):
            self.ask(back, prompt)
        self.same([*rest, back], engines)
        for names in self.readers([*rest, back]).values():
            self.assertEqual(len(names), 2)

    def test_sliding_windows_are_known_to_all_nodes_whoever_reads(self):
        engine = self.engine("m", "--window", "40", "--window-groups", "2")
        flags = self.workers([engine])
        nodes = self.three(*flags)
        self.ready(nodes, [engine])
        prompts = self.prompts(9, 6, blocks=8)
        for prompt in prompts:
            self.ask(nodes[0], prompt + [1])
        stream, = self.same(nodes, [engine])
        self.assertGreater(stream["blocks"], 6 * (8 + 2 * 3) - 1, "windows are among them")
        address = {m["name"]: m["address"] for m in self.mesh(nodes[0])["members"]}
        first, second = self.readers(nodes)["e0"]
        for name in (first, second):
            victim = next(n for n in nodes if n.ready["mesh"] == address[name])
            victim.kill()
            nodes = [n for n in nodes if n is not victim]
            if name == first:
                nodes.append(self.node("late", join=[nodes[0].ready["mesh"]]))
                self.together(nodes)
                self.ready(nodes, [engine])
                self.same(nodes, [engine])
        self.ask(nodes[0], self.prompts(10, 1)[0] + [1])
        self.same(nodes, [engine])
        for node, prompt in zip(nodes, prompts):
            # The end of a prompt is in the windows, its middle is not.
            self.assertEqual(self.ask(node, prompt[:4 * BLOCK] + [2])[0], 0)
            self.assertEqual(self.ask(node, prompt + [3])[0], 8 * BLOCK)
            self.same(nodes, [engine])

    def test_a_node_that_comes_late_knows_what_was_stored_before(self):
        engines = [self.engine("m")]
        nodes = self.three(*self.workers(engines))
        self.ready(nodes, engines)
        prompts = self.prompts(5, 12)
        for prompt in prompts:
            self.ask(nodes[0], prompt)
        self.same(nodes, engines)
        late = self.node("late", join=[nodes[1].ready["mesh"]])  # workers: from the others
        self.together([*nodes, late])
        self.ready([late], engines)
        self.same([*nodes, late], engines)
        overlap, _ = self.ask(late, prompts[7])
        self.assertGreaterEqual(overlap, 3)

    def test_an_engine_that_restarts_is_empty_for_all(self):
        ports = [free_port() for _ in range(3)]
        engine = self.engine("m", ports=ports)
        nodes = self.three(*self.workers([engine]))
        self.ready(nodes, [engine])
        for prompt in self.prompts(6, 8):
            self.ask(nodes[0], prompt)
        before, = self.same(nodes, [engine])
        engine.kill()
        again = self.engine("m", ports=ports)
        self.ready(nodes, [again])
        for prompt in self.prompts(7, 3):
            self.ask(nodes[1], prompt)
        after, = self.same(nodes, [again])
        self.assertNotEqual(after["epoch_id"], before["epoch_id"])
        self.assertLess(after["blocks"], before["blocks"])

    def test_others_read_for_a_node_that_cannot_reach_the_engine(self):
        engine = self.engine("m")
        host, _, port = engine.ready["events"].removeprefix("tcp://").rpartition(":")
        gate = Gate((host, int(port)))
        self.addCleanup(gate.close)
        nodes = self.three(
            "--worker", f"{engine.url('http')},id=e0,events={gate.url()},"
                        f"replay={engine.url('replay')}",
            "--events.probe", "200ms", "--events.replay_timeout", "500ms",
            "--mesh.ingest_give_up", "500ms")
        self.ready(nodes, [engine])
        for prompt in self.prompts(8, 5):
            self.ask(nodes[0], prompt)
        self.same(nodes, [engine])
        before = self.readers(nodes)["e0"]
        address = {m["name"]: m["address"] for m in self.mesh(nodes[0])["members"]}
        shut = next(n for n in nodes if n.ready["mesh"] == address[before[0]])
        gate.shut(shut.pid)
        others = sorted({"a", "b", "c"} - {before[0]})
        harness.wait_until(lambda: self.readers(nodes) == {"e0": others}, "the others read")
        self.assertIn("events_unreachable", shut.log())
        for prompt in self.prompts(9, 5):
            self.ask(shut, prompt)
        self.same(nodes, [engine])
        gate.open(shut.pid)
        harness.wait_until(lambda: self.readers(nodes) == {"e0": before}, "it reads again")
        for prompt in self.prompts(10, 5):
            self.ask(nodes[0], prompt)
        self.same(nodes, [engine])


class Transfers(EventsCase):
    """Logs that do not reach back far: streams are had whole."""

    def small(self):
        return ["--mesh.log_bytes", "4KiB", "--mesh.transfers_max", "1",
                "--mesh.ingest_replicas", "1"]

    def transfers(self, node):
        return self.metric(node, 'kvasir_gossip_transfers_ended_total{result="done"}')

    def test_a_node_that_comes_late_has_streams_whole(self):
        engines = [self.engine("m")]
        flags = self.small()
        nodes = self.three(*self.workers(engines), *flags)
        self.ready(nodes, engines)
        for prompt in self.prompts(11, 60, blocks=16):
            self.ask(nodes[0], prompt)
        self.same(nodes, engines)
        for name in "defghi":  # workers: from the others; until one that does not read
            nodes.append(self.node(name, *flags, join=[nodes[1].ready["mesh"]]))
            self.together(nodes)
            self.ready(nodes[-1:], engines)
            self.same(nodes, engines)
            if name not in self.readers(nodes)["e0"]:
                break
        self.assertGreaterEqual(self.transfers(nodes[-1]), 1)

    def test_a_node_that_slept_past_the_logs_reach_has_streams_whole(self):
        engines = [self.engine("m")]
        nodes = self.three(*self.workers(engines), *self.small())
        self.ready(nodes, engines)
        for prompt in self.prompts(12, 10, blocks=16):
            self.ask(nodes[0], prompt)
        self.same(nodes, engines)
        address = {m["name"]: m["address"] for m in self.mesh(nodes[0])["members"]}
        name = next(iter({"a", "b", "c"} - set(self.readers(nodes)["e0"])))
        sleeper = next(n for n in nodes if n.ready["mesh"] == address[name])
        rest = [n for n in nodes if n is not sleeper]
        before = self.transfers(sleeper)
        sleeper.signal(signal.SIGSTOP)
        self.sees(rest, name, "dead")
        for prompt in self.prompts(13, 60, blocks=16):
            self.ask(rest[0], prompt)
        self.same(rest, engines)
        sleeper.signal(signal.SIGCONT)
        self.together(nodes)
        self.same(nodes, engines)
        self.assertGreater(self.transfers(sleeper), before)


if __name__ == "__main__":
    harness.main()
