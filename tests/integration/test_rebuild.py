"""What an engine holds and no event tells of any more: all nodes died without disks, and
the engine's replay is short. Answers say what the engine found, and so rebuild it."""
import random

import harness
from test_mesh_events import BLOCK, EventsCase


class Rebuild(EventsCase):
    STEPS = 20  # batches that the engine repeats
    ON_ITS_WAY = ("--mirror.expected", "200ms")
    ANSWERS_MAX = 3  # to a prompt that an answer was heard of, until it is predicted exactly

    def judged(self, node, since):
        """(predicted, cached) of the requests after the first `since` that answers judge."""
        def over():
            status = harness.request(node.at("admin"), "GET", "/admin/status").json()
            return status["requests"]["inflight"] == 0
        harness.wait_until(over, "all is over")
        found = harness.request(node.at("admin"), "GET", "/admin/decisions?count=100000").json()
        return len(found), [
            (d["predicted_tokens"], d["cached_tokens"]) for d in found[::-1][since:]
            if d["source"] == "mirror" and d["whole"] and d["cached_known"]
            and d["status"] == 200]

    def expected(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/index").json()["expected"]

    def settled(self, nodes):
        """Nothing is on its way any more: what is left was proved."""
        for node in nodes:
            def given_up(node=node):
                e = self.expected(node)
                return e["blocks"] <= e["proved"]
            harness.wait_until(given_up, "nothing is on its way")

    def state(self, node):
        row = harness.request(node.at("admin"), "GET", "/admin/workers").json()[0]["events"][0]
        return row["state"]

    def two(self, flags):
        first = self.node("a", *flags)
        nodes = [first, self.node("b", *flags, join=[first.ready["mesh"]])]
        self.together(nodes)
        return nodes

    def forgotten(self, prompts, *more):
        """Two new nodes, of an engine that holds these prompts and does not tell."""
        engine = self.engine("m", "--buffer-steps", self.STEPS, *more)
        flags = [*self.workers([engine]), *self.ON_ITS_WAY]
        nodes = self.two(flags)
        self.ready(nodes, [engine])
        for prompt in prompts:
            self.ask(nodes[0], prompt)
        self.same(nodes, [engine])
        for node in nodes:
            node.kill()
        model = harness.request(engine.at("http"), "GET", "/v1/models").json()["data"][0]["id"]
        for prompt in self.prompts(99, 2 * self.STEPS):
            harness.request(engine.at("http"), "POST", "/v1/completions",
                            {"model": model, "prompt": prompt, "max_tokens": 2})
        nodes = self.two(flags)
        self.ready(nodes, [engine])
        for node in nodes:
            harness.wait_until(lambda node=node: self.knows_the_rest(node, engine), "it is partial")
        return engine, nodes

    def knows_the_rest(self, node, engine):
        """What the replay still has."""
        stream = self.mesh(node)["streams"][0]
        return (self.state(node) == "partial" and stream["blocks"] > 0 and
                stream["position"] >> 8 == self.published(engine) - 1)

    def share(self, node, prompts):
        """Of these prompts: the share that was predicted exactly."""
        before, _ = self.judged(node, 0)
        for prompt in prompts:
            self.ask(node, prompt)
        _, found = self.judged(node, before)
        self.assertEqual(len(found), len(prompts))
        return sum(p == c for p, c in found) / len(found)

    def answers_until_exact(self, node, prompts):
        """How many answers to each of these prompts it took until all were predicted exactly."""
        told = 1
        while self.share(node, prompts) < 1:
            told += 1
            self.assertLessEqual(told, self.ANSWERS_MAX, "answers do not prove all of it")
        return told

    def test_answers_prove_what_no_event_tells(self):
        prompts = self.prompts(1, 60, blocks=8)
        engine, nodes = self.forgotten(prompts, "--blocks", "4000")
        before = self.share(nodes[0], prompts[:30])
        self.settled(nodes)
        after = self.share(nodes[0], prompts[:30])
        peer = self.share(nodes[1], prompts[:30])
        rest = self.share(nodes[1], prompts[30:])
        print(f"predicted exactly: {before:.2f}, after one answer each {after:.2f}, by a peer "
              f"{peer:.2f}; others {rest:.2f}", flush=True)
        self.assertLess(max(before, rest), 0.1)
        self.assertGreater(min(after, peer), 0.9)
        told = [self.answers_until_exact(node, prompts[:30]) for node in nodes]
        print(f"all are predicted exactly after {told[0]} more answers each, by a peer after "
              f"{told[1]}", flush=True)
        self.assertEqual(self.expected(nodes[0])["disproved"], 0)

        def told_by():  # by requests, until these are over for long enough
            said = harness.request(nodes[1].at("admin"), "POST", "/admin/explain", {
                "model": self.model(nodes[1]), "prompt": prompts[0]}).json()["candidates"][0]
            return said["tokens_beyond_events"], said["beyond_by"]
        harness.wait_until(lambda: told_by() == (7 * BLOCK, "answers"), "answers proved it")

    def test_what_was_proved_goes_with_the_cache(self):
        prompts = self.prompts(2, 20, blocks=8)
        engine, nodes = self.forgotten(prompts, "--blocks", "4000")
        self.share(nodes[0], prompts)
        self.settled(nodes)
        self.assertGreater(self.expected(nodes[0])["blocks"], 100)
        answer = harness.request(engine.at("http"), "POST", "/reset_prefix_cache")
        self.assertEqual(answer.status, 200, answer.text)
        self.ask(nodes[0], self.prompts(5, 1)[0])  # with whose batch the engine tells of it
        for node in nodes:
            harness.wait_until(lambda node=node: self.expected(node)["blocks"] == 0,
                               "nothing of it is left")

    def test_what_is_evicted_is_not_promised_for_long(self):
        rng = random.Random(3)
        prompts = self.prompts(3, 40, blocks=8)
        engine, nodes = self.forgotten(prompts, "--blocks", "700")
        self.share(nodes[0], prompts)
        self.settled(nodes)
        proved = self.expected(nodes[0])["blocks"]
        self.assertGreater(proved, 200)
        prompts += self.prompts(4, 80, blocks=8)
        before, _ = self.judged(nodes[0], 0)
        for _ in range(400):
            self.ask(nodes[0], rng.choice(prompts))
        _, found = self.judged(nodes[0], before)
        over = sum(p > c + BLOCK for p, c in found)
        under = sum(c > p + BLOCK for p, c in found)
        print(f"of {len(found)} answers of a cache that is too small, after {proved} blocks were "
              f"proved: {over} found less than was promised, {under} more", flush=True)
        self.assertLess(over, 41, "each of them misleads once at most")
        self.assertGreater(self.expected(nodes[0])["disproved"], 0)


if __name__ == "__main__":
    harness.main()
