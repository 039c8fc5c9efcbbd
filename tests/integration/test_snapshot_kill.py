"""kill -9 of a node that takes one snapshot after another under load, at random
moments, also while it starts: the next start goes on from the last one that was
committed, all of it and nothing else, and once it is quiet the node knows what
the engines hold and no more.

The model is twofold: the engines' own lists of what they cache, and a node
without snapshots that follows them all the time and is never killed.

    test_snapshot_kill.py [--kills N] [--seed N]
"""
import http.client
import json
import random
import sys
import threading
import time

import harness
from test_snapshot import SnapshotCase, prompts

KILLS, SEED = 12, 1
FAST = ("--data.interval", "10ms", "--data.changed_after", "10ms")
BLOCKS = 6000  # of an engine: a snapshot takes several turns; soon full
LENGTH = 200  # of what prompts share, in blocks
UNDER_LOAD_S = 0.25
STARTING_S = 0.08
SNAPSHOT_S = 0.04  # that one takes, about
EARLY = 4  # each such kill hits a node that is not ready yet


class Load:
    """Prompts through the node that at() names, one after another. A request
    that a kill severed is forgotten."""

    def __init__(self, case, seed, at):
        self.case, self.at, self.seed = case, at, seed
        self.goes, self.ends = threading.Event(), threading.Event()
        self.quiet = threading.Semaphore(0)
        self.sent = 0
        self.fault = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        case.addCleanup(self.end)

    def run(self):
        while not self.ends.is_set():
            self.seed += 1
            for prompt in prompts(self.seed, 20, groups=12, length=LENGTH):
                if not self.goes.is_set():
                    self.quiet.release()
                    self.goes.wait()
                if self.ends.is_set():
                    return
                self.ask(prompt)

    def ask(self, prompt):
        node = self.at()
        try:
            self.case.complete(node, prompt)
            self.sent += 1
        except (OSError, http.client.HTTPException):
            if not node.killed and self.fault is None:
                self.fault = sys.exc_info()[1]
        except AssertionError as fault:
            self.fault = self.fault or fault

    def pause(self):
        """Returns when nothing is under way any more."""
        self.goes.clear()
        self.quiet.acquire()

    def go(self):
        self.goes.set()

    def end(self):
        self.ends.set()
        self.goes.set()
        self.thread.join()


class Killed(SnapshotCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)
        self.engines = [self.start(
            "kvasir-engine", "--port", "0", "--events", "0", "--replay", "0", "--name", "engine",
            "--speed", "1000", "--seed", i + 1, "--blocks", BLOCKS, "--buffer-steps", 1000000,
            "--replay-hwm", 0) for i in range(2)]
        self.model_node = self.serve(self.engines)
        self.fill()
        self.victim = self.model_node  # until there is one
        self.warm = self.early = self.taken = self.amid = 0

    def fill(self):
        """Until the engines have to let blocks go."""
        for seed in range(100):
            for prompt in prompts(seed, 10, groups=10, length=LENGTH):
                self.complete(self.model_node, prompt)
            held = [blocks for _, blocks, _ in self.held(self.model_node)]
            if len(held) == 2 and min(held) > 0.9 * BLOCKS:
                return
        self.fail(f"the engines hold {held}")

    def committed(self):
        """The newest snapshot in the directory, as a start would find it; None: there is none."""
        run = self.run_once("kvasir", "snapshot", "verify", "--json", self.folder / "data")
        if "there is no snapshot" in run.stderr:
            return None
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        return json.loads(run.stdout)

    def kill_early(self):
        """Starts a node and kills it before it is ready, or just after."""
        workers = []
        for i, engine in enumerate(self.engines):
            workers += ["--worker", f"{engine.url('http')},id=e{i},"
                        f"events={engine.url('events')},replay={engine.url('replay')}"]
        node = self.spawn("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--data", self.folder / "data", *workers, *FAST)
        threading.Event().wait(self.rng.uniform(0, STARTING_S))
        node.kill()
        self.early += 1

    def kill_under_load(self):
        """Kills a node at a random moment of its work, after it was held against
        what was committed before; the number of the last snapshot that it said
        it had taken."""
        before = self.committed()
        node = self.victim = self.node(self.engines, *FAST, wait=False)
        self.judge_start(node, before)
        threading.Event().wait(self.rng.uniform(0, UNDER_LOAD_S))
        said = self.snapshot(node)["taken"]
        # One more, not to be finished if it can be helped.
        asked = harness.connect(node.at("admin"))
        harness.send(asked, "POST", "/admin/snapshot")
        threading.Event().wait(self.rng.uniform(0, SNAPSHOT_S))
        node.kill()
        asked.close()
        self.taken += said
        return said

    def judge_start(self, node, committed):
        start = self.snapshot(node)["start"]
        self.assertEqual(start["files_refused"], 0, node.log())
        if committed is None:
            self.assertEqual(start["state"], "cold")
            return
        self.assertEqual((start["state"], start["reason"]), ("warm", ""), node.log())
        self.assertEqual(start["file"], committed["file"])
        self.assertEqual(start["blocks"], committed["blocks"])
        self.assertEqual(start["streams"], committed["streams"])
        self.warm += 1

    def judge_quiet(self, loads, committed):
        """A node started from what the kill left knows what the engines hold,
        and no more."""
        for load in loads:
            load.pause()
        node = self.node(self.engines)
        self.judge_start(node, committed)
        self.in_step(node, self.engines)
        self.in_step(self.model_node, self.engines)
        held = self.held(node)
        self.assertEqual(held, self.held(self.model_node), node.log())
        caches = {f"e{i}": harness.request(engine.at("http"), "GET", "/chaos/cache").json()
                  for i, engine in enumerate(self.engines)}
        self.assertEqual({worker: blocks for worker, blocks, _ in held},
                         {worker: len(set(cache["keys"])) for worker, cache in caches.items()})
        node.kill()
        for load in loads:
            load.go()

    def test_every_start_after_a_kill_is_whole(self):
        begun = time.monotonic()
        loads = [Load(self, SEED * 1000, lambda: self.model_node),
                 Load(self, SEED * 2000, lambda: self.victim)]
        for load in loads:
            load.go()
        for number in range(KILLS):
            before = self.committed()
            if number % EARLY == EARLY - 1:
                self.kill_early()
                said = 0
            else:
                said = self.kill_under_load()
            after = self.committed()
            if said > 0:
                self.assertGreaterEqual(after["number"], said, "what was committed is gone")
                self.amid += after["number"] == said
            if before is not None:
                self.assertIsNotNone(after, "the last one is gone")
                self.assertGreaterEqual((after["generation"], after["number"]),
                                        (before["generation"], before["number"]))
            self.judge_quiet(loads, after)
            self.assertEqual([load.fault for load in loads], [None, None])
        print(f"{KILLS} kills in {time.monotonic() - begun:.1f} s, {self.early} of them while "
              f"starting, {self.amid} in the midst of a snapshot: {self.taken} snapshots, "
              f"{sum(load.sent for load in loads)} requests, {self.warm} warm starts judged, "
              f"none mixed", flush=True)


def option(name, value):
    """The number behind --name on the command line, taken out of it."""
    if name in sys.argv:
        at = sys.argv.index(name)
        value = int(sys.argv[at + 1])
        del sys.argv[at:at + 2]
    return value


if __name__ == "__main__":
    KILLS, SEED = option("--kills", KILLS), option("--seed", SEED)
    harness.main()
