"""What a mesh learns of its engines' speeds: who served nothing knows what others saw, and so
does who starts again."""
import threading

import harness
from test_mesh import MeshCase

ENGINES = 3
SLOW = 5  # times slower is the last
REQUESTS = 40
WORDS = "the quick brown fox jumps over the lazy dog and runs away from it " * 40


class Speeds(MeshCase):
    def setUp(self):
        super().setUp()
        self.engines = [
            self.start("kvasir-engine", "--port", "0", "--prefill-tps", "20000",
                       "--step-ms", "2", "--speed", str(1 / SLOW if i == ENGINES - 1 else 1))
            for i in range(ENGINES)]
        self.flags_of_all = []
        for i, engine in enumerate(self.engines):
            host, port = engine.at("http")
            self.flags_of_all += ["--worker", f"http://{host}:{port},id=engine-{i}"]

    def workers(self, node):
        told = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return {worker["id"]: worker for worker in told}

    def ready(self, node):
        harness.wait_until(
            lambda: sum(w["eligible"] for w in self.workers(node).values()) == ENGINES,
            "workers are up")

    def ask(self, node, i):
        """A new long prompt, whose answer is streamed."""
        body = {"model": "kvasir/stand-in", "prompt": f"{i} {WORDS}", "max_tokens": 4,
                "stream": True}
        answer = harness.request(node.at("serve"), "POST", "/v1/completions", body)
        self.assertEqual(answer.status, 200, answer.text)

    def serve(self, node):
        """Several at a time, so that none of the engines is left out."""
        numbers = iter(range(REQUESTS))
        lock = threading.Lock()

        def one_after_the_other():
            while True:
                with lock:
                    i = next(numbers, None)
                if i is None:
                    return
                self.ask(node, i)

        threads = [threading.Thread(target=one_after_the_other) for _ in range(2 * ENGINES)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def explained(self, node):
        body = {"model": "kvasir/stand-in", "prompt": "Something else. " * 200}
        told = harness.request(node.at("admin"), "POST", "/admin/explain", body).json()
        return {row["worker"]: row["slowness"] for row in told["candidates"]}

    def knows(self, node):
        slow = f"engine-{ENGINES - 1}"

        def it_does():
            slowness = self.explained(node)
            rates = {name: w["prefill_tokens_per_s"] for name, w in self.workers(node).items()}
            return (slowness[slow] >= 1.5 and all(rates.values())
                    and all(slowness[name] < slowness[slow] and rates[name] > rates[slow]
                            for name in slowness if name != slow))
        try:
            harness.wait_until(it_does, "the slow engine is known")
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self.explained(node)}") from None

    def test_who_served_nothing_knows_the_slow_engine(self):
        nodes = self.three(*self.flags_of_all)
        for node in nodes:
            self.ready(node)
            self.assertEqual(set(self.explained(node).values()), {1})
        self.serve(nodes[0])
        for node in nodes:
            self.knows(node)
        for node in nodes[1:]:
            self.assertEqual(sum(w["requests"] for w in self.workers(node).values()), 0)
        again = self.node("d", *self.flags_of_all, join=[nodes[0].ready["mesh"]])
        self.ready(again)
        self.knows(again)
        nodes[0].kill()  # and what it alone knew goes with it
        for node in nodes[1:]:
            harness.wait_until(lambda node=node: set(self.explained(node).values()) == {1},
                               "nobody tells it")


if __name__ == "__main__":
    harness.main()
