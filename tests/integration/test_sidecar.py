"""The reference sidecar: an engine's events by way of HTTP, and the same
predictions as by ZeroMQ."""
import importlib.util
import pathlib
import subprocess
import sys
import unittest

import harness

SIDECAR = pathlib.Path(__file__).resolve().parents[2] / "deploy/sidecar.py"
MODULES = all(importlib.util.find_spec(name) for name in ("zmq", "msgpack", "xxhash"))
if MODULES:
    import kv_events


@unittest.skipUnless(MODULES, "no python3-zmq, python3-msgpack and python3-xxhash")
class Sidecar(harness.Case):
    def setUp(self):
        super().setUp()
        self.engine = self.start("kvasir-engine", "--port", "0", "--blocks", "64", "--events", "0",
                                 "--replay", "0", "--speed", "50")

    def sidecar(self, address="127.0.0.1:0"):
        made = subprocess.Popen([sys.executable, SIDECAR, self.engine.url("events"),
                                 self.engine.url("replay"), address],
                                stdout=subprocess.PIPE, text=True)

        def end():
            made.kill()
            made.wait(harness.STOP_TIMEOUT_S)
            made.stdout.close()
        self.addCleanup(end)
        return made, made.stdout.readline().strip().partition("sse=")[2]

    def node(self, url):
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", f"{self.engine.url('http')},id=e,sse={url}")
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_worker_eligible") == 1,
                           "the worker is up")
        return node

    def complete(self, node, prompt):
        got = harness.request(node.at("serve"), "POST", "/v1/completions",
                              {"model": "kvasir/stand-in", "prompt": prompt, "max_tokens": 1})
        self.assertEqual(got.status, 200, got.text)
        return got

    def in_step(self, node):
        """Until the node knows as many blocks as the engine holds."""
        def same():
            _, held = kv_events.cache(self.engine.at("http"))
            return len(+held) == harness.metric(node.at("admin"), "kvasir_mirror_worker_blocks")
        harness.wait_until(same, "all blocks are known, and no more")

    def predicted(self, node, prompt):
        told = harness.request(node.at("admin"), "POST", "/admin/explain",
                               {"model": "kvasir/stand-in", "prompt": prompt}).json()
        return told["candidates"][0].get("tokens")

    def work(self, node):
        for i in range(12):  # more than it can hold
            last = list(range(1000 * i, 1000 * i + 200))
            self.complete(node, last)
        # A full cache holds as many blocks before its last change as after it.
        harness.wait_until(lambda: self.predicted(node, last) == 192, "the last prompt is known")
        said = harness.decision(node, self.complete(node, last + [1, 2, 3]))
        self.assertEqual((said["predicted_tokens"], said["cached_tokens"]), (192, 192))

    def test_the_mirror_holds_what_the_engine_holds(self):
        _, url = self.sidecar()
        node = self.node(url)
        self.work(node)
        harness.request(self.engine.at("http"), "POST", "/reset_prefix_cache")
        self.complete(node, [1])  # the engine's next step tells of it
        self.in_step(node)

    def test_one_that_begins_late_and_one_that_begins_again_know_all(self):
        first, url = self.sidecar()
        node = self.node(url)
        self.work(node)
        late = self.node(url)
        self.in_step(late)
        first.kill()
        first.wait(harness.STOP_TIMEOUT_S)
        self.complete(node, list(range(50000, 50200)))
        self.sidecar(url.partition("//")[2].partition("/")[0])
        self.in_step(node)
        self.in_step(late)

    def test_it_ends_with_its_engine_whose_next_process_counts_anew(self):
        made, url = self.sidecar()
        self.complete(self.node(url), [1] * 40)
        self.engine.kill()
        self.assertEqual(made.wait(harness.STOP_TIMEOUT_S), 1)


if __name__ == "__main__":
    harness.main()
