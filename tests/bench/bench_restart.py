"""What a restart costs with --data: the part of prompt tokens that came from
engines' caches in the last 1,000 requests before and the first 1,000 after it,
alone and in a mesh of three; and time from exec to /ready."""
import pathlib
import random
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402

REQUESTS = 1000
FAMILIES = 64
BLOCK = 16


class Restart(harness.Case):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(1)
        self.families = [self.words(40 * BLOCK) for _ in range(FAMILIES)]
        self.engines = [self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                                   "--name", "m", "--speed", "1000", "--blocks", "1500")
                        for _ in range(4)]

    def words(self, count):
        return [self.rng.randrange(1000, 9000) for _ in range(count)]

    def node(self, name, *flags):
        workers = []
        for i, engine in enumerate(self.engines):
            workers += ["--worker", f"{engine.url('http')},id=e{i},events={engine.url('events')},"
                        f"replay={engine.url('replay')}"]
        begun = time.monotonic()
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--lanes", "1", "--name", name, "--data", self.folder / name,
                          *workers, *flags)
        harness.wait_until(
            lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200, "ready")
        node.ready_ms = (time.monotonic() - begun) * 1000
        return node

    def ask(self, node, count=REQUESTS):
        """(part of tokens that were cached, seconds of each request)."""
        connection = harness.connect(node.at("serve"))
        harness.send(connection, "GET", "/v1/models")
        model = harness.Answer(connection.getresponse()).json()["data"][0]["id"]
        cached, tokens, took = 0, 0, []
        for _ in range(count):
            family = self.rng.choice(self.families)
            prompt = family[:self.rng.randrange(20, 40) * BLOCK] + self.words(2 * BLOCK)
            begun = time.monotonic()
            harness.send(connection, "POST", "/v1/completions",
                         {"model": model, "prompt": prompt, "max_tokens": 1})
            answer = harness.Answer(connection.getresponse())
            took.append(time.monotonic() - begun)
            self.assertEqual(answer.status, 200, answer.text)
            usage = answer.json()["usage"]
            cached += (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)
            tokens += usage["prompt_tokens"]
        connection.close()
        return cached / tokens, took

    def restart(self, what, node, again):
        self.ask(node)
        before, _ = self.ask(node)
        self.assertEqual(node.stop(), 0)
        node = again()
        after, _ = self.ask(node)
        print(f"{what}: cached {before:.4f} before, {after:.4f} after, ratio {after / before:.4f}; "
              f"exec to ready {node.ready_ms:.0f} ms", flush=True)
        return node

    def test_alone(self):
        self.restart("alone", self.node("a"), lambda: self.node("a"))

    def test_in_a_mesh_of_three(self):
        first = self.node("a", "--mesh", "127.0.0.1:0")
        join = ("--mesh", "127.0.0.1:0", "--join", first.ready["mesh"])
        self.node("b", *join)
        node = self.node("c", *join)
        self.restart("mesh of three", node, lambda: self.node("c", *join))


if __name__ == "__main__":
    unittest.main(verbosity=0)
