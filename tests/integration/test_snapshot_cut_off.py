"""Somebody cuts the snapshot file off, or the lock file beside it, while a node
has it open: that costs a snapshot, never the process, and no knowledge."""
import os
import random
import threading

import harness
from test_mirror import prompts
from test_snapshot import SnapshotCase, newest

CUTS, STARTS, SEED = 12, 12, 1
FAST = ("--data.interval", "10ms", "--data.changed_after", "10ms")
STARTING_S = 0.05


class CutOff(SnapshotCase):
    def setUp(self):
        super().setUp()
        self.rng = random.Random(SEED)

    def cut(self, lock):
        """What is newest in the directory, to nothing or to any size."""
        try:
            path = newest(self.folder / "data")
            if lock:
                path = path.with_name(path.name + "-lock")
            size = path.stat().st_size
            os.truncate(path, self.rng.choice((0, self.rng.randrange(size + 1))))
        except (FileNotFoundError, ValueError):
            pass  # there is none yet

    def lives(self, node):
        self.assertIsNone(node.popen.poll(), node.log())
        cached, headers = self.complete(node, self.known)
        self.assertEqual(headers["x-kvasir-source"], "mirror")
        self.assertGreater(cached, 0)

    def test_while_a_node_writes(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.node([engine], *FAST)
        self.load(node, [engine], 1, 20)
        self.known = prompts(1, 1)[0]
        # Something to write about all the time; what is known stays in use,
        # or the engine lets it go.
        quiet = threading.Event()
        self.addCleanup(quiet.set)
        def talk():
            seed = 2
            while not quiet.is_set():
                for prompt in [*prompts(seed, 5), self.known]:
                    self.complete(node, prompt)
                seed += 1
        talker = threading.Thread(target=talk)
        talker.start()
        for number in range(CUTS):
            taken = self.snapshot(node)["taken"]
            asked = threading.Thread(target=self.take, args=(node,))
            asked.start()
            threading.Event().wait(self.rng.uniform(0, 0.03))
            self.cut(lock=number % 2 == 1)
            asked.join()
            self.lives(node)
            # The one after it stands in a fresh file if it has to.
            harness.wait_until(lambda: self.take(node).status == 200
                               and self.snapshot(node)["taken"] > taken, "a snapshot")
        quiet.set()
        talker.join()
        self.in_step(node, [engine])
        failed = harness.metric(node.at("admin"), "kvasir_snapshot_failed_total")
        self.assertGreater(failed, 0)
        self.assertIn("snapshot_failed", node.log())
        held = self.held(node)
        self.assertEqual(node.stop(), 0)
        run = self.run_once("kvasir", "snapshot", "verify", self.folder / "data")
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        node = self.node([engine])
        self.assertEqual(self.snapshot(node)["start"]["state"], "warm")
        self.assertEqual(self.held(node), held)
        print(f"{CUTS} cuts, {failed:.0f} snapshots failed", flush=True)

    def test_while_a_node_starts(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.node([engine])
        self.load(node, [engine], 1, 60)
        self.known = prompts(1, 1)[0]
        self.assertEqual(node.stop(), 0)
        warm = 0
        for number in range(STARTS):
            moment = self.rng.uniform(0, STARTING_S)
            timer = threading.Timer(moment, self.cut, kwargs={"lock": number % 2 == 1})
            timer.start()
            node = self.node([engine])
            timer.join()
            self.lives(node)
            warm += self.snapshot(node)["start"]["state"] == "warm"
            self.assertEqual(node.stop(), 0, node.log())
        print(f"{STARTS} starts, {warm} of them warm", flush=True)


if __name__ == "__main__":
    harness.main()
