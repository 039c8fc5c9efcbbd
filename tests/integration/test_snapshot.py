"""A node that comes back knows what it knew: from its snapshot, its engines and
its peers, whatever happened meanwhile."""
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import time
import unittest

import harness
from test_mesh_events import EventsCase
from test_mirror import MirrorCase, prompts

QUICK = ("--data.interval", "300ms", "--data.changed_after", "100ms")


def newest(folder):
    """The newest snapshot file of a data directory."""
    return max(p for p in pathlib.Path(folder).iterdir() if p.suffix == ".mdb")


class SnapshotCase(MirrorCase):
    def node(self, engines, *flags, wait=True):
        workers = []
        for i, engine in enumerate(engines):
            workers += ["--worker", f"{engine.url('http')},id=e{i},"
                        f"events={engine.url('events')},replay={engine.url('replay')}"]
        begun = time.monotonic()
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--events.probe", "200ms", "--events.replay_timeout", "10s",
                          "--data", self.folder / "data", *workers, *flags)
        harness.wait_until(
            lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200, "ready")
        node.ready_s = time.monotonic() - begun
        if wait:
            harness.wait_until(lambda: all(s["state"] == "live" for s in self.streams(node)),
                               "streams are live")
        return node

    def snapshot(self, node):
        return self.status(node)["snapshot"]

    def take(self, node):
        return harness.request(node.at("admin"), "POST", "/admin/snapshot")

    def held(self, node):
        """(worker, blocks, digest) of each stream."""
        def known():
            streams = harness.request(node.at("admin"), "GET", "/admin/mesh").json()["streams"]
            return all(s["digest_known"] for s in streams) and streams
        return [(s["worker"], s["blocks"], s["digest"])
                for s in harness.wait_until(known, "digests")]

    def resets(self, node):
        return node.log().count("events_reset")

    def load(self, node, engines, seed, count):
        for prompt in prompts(seed, count):
            self.complete(node, prompt)
        self.in_step(node, engines)

    def predicts(self, node, engines, seed, count):
        """Every one of these prompts rightly, asked of a node that was asked nothing yet."""
        for prompt in prompts(seed, count):
            self.complete(node, prompt)
            self.in_step(node, engines)
        good, judged, wrong = self.right(self.decisions(node))
        self.assertEqual((good, judged), (count, count), wrong[:3])

    def asked(self, node, engines, seed, count):
        """Of prompts: (cached tokens, blocks that were expected)."""
        found = []
        for prompt in prompts(seed, count):
            cached, headers = self.complete(node, prompt)
            found.append((cached, int(headers["x-kvasir-overlap"].split("/")[0])))
        self.in_step(node, engines)
        return found


class Alone(SnapshotCase):
    def test_a_restarted_node_holds_what_it_held(self):
        engines = [self.engine(f"engine-{i}", "--blocks", "4000") for i in range(2)]
        node = self.node(engines)
        cold_s = node.ready_s
        self.assertEqual(self.snapshot(node)["start"]["state"], "cold")
        self.load(node, engines, 1, 60)
        before = self.asked(node, engines, 1, 20)
        held = self.held(node)
        self.assertEqual(node.stop(), 0)
        node = self.node(engines)
        self.assertEqual(self.held(node), held)
        start = self.snapshot(node)["start"]
        self.assertEqual((start["state"], start["streams"], start["reason"]), ("warm", 2, ""))
        self.assertEqual(start["blocks"], sum(blocks for _, blocks, _ in held))
        self.assertEqual(self.resets(node), 0, "nothing was forgotten")
        for was, now in zip(before, self.asked(node, engines, 1, 20)):
            self.assertGreaterEqual(now, was)
        print(f"exec to ready: {cold_s * 1000:.0f} ms cold, {node.ready_s * 1000:.0f} ms warm",
              flush=True)

    def test_a_killed_node_goes_on_from_its_last_snapshot(self):
        engines = [self.engine("engine-1", "--blocks", "4000")]
        node = self.node(engines, *QUICK)
        self.load(node, engines, 2, 20)
        held = self.held(node)[0][1]
        taken = self.snapshot(node)["taken"]
        harness.wait_until(lambda: self.snapshot(node)["taken"] > taken + 1, "another snapshot")
        node.kill()
        # Said while nobody of ours listens.
        other = self.serve(engines)
        self.load(other, engines, 3, 20)
        more = self.held(other)
        self.assertGreater(more[0][1], held)
        node = self.node(engines)
        self.in_step(node, engines)
        self.assertEqual(self.held(node), more)
        start = self.snapshot(node)["start"]
        self.assertEqual((start["state"], start["blocks"]), ("warm", held))
        self.assertEqual(self.resets(node), 0)

    def test_an_engine_that_restarted_meanwhile_is_known_to_be_empty(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.node([engine])
        self.load(node, [engine], 4, 20)
        self.assertEqual(node.stop(), 0)
        harness.request(engine.at("http"), "POST", "/chaos", {"restart": 1})
        node = self.node([engine])
        self.assertEqual(self.snapshot(node)["start"]["state"], "warm")
        harness.wait_until(lambda: self.resets(node) >= 1, "its old blocks are dropped")
        self.in_step(node, [engine])
        self.assertEqual(self.streams(node)[0]["blocks"], 0)
        self.predicts(node, [engine], 5, 10)

    def test_an_operators_workers_come_back(self):
        engines = [self.engine(f"engine-{i}", "--blocks", "4000") for i in range(2)]
        node = self.node(engines[:1])
        added = {"url": engines[1].url("http"), "id": "e1", "events": engines[1].url("events"),
                 "replay": engines[1].url("replay")}
        answer = harness.request(node.at("admin"), "POST", "/admin/workers", added)
        self.assertEqual(answer.status, 200, answer.text)
        harness.wait_until(lambda: len(self.streams(node)) == 2 and
                           all(s["state"] == "live" for s in self.streams(node)), "both are live")
        self.load(node, engines, 6, 40)
        held = self.held(node)
        self.assertEqual(node.stop(), 0)
        node = self.node(engines[:1])
        self.assertEqual(self.held(node), held)
        self.assertEqual(self.resets(node), 0)
        self.assertEqual(self.snapshot(node)["start"]["streams"], 2)

    def test_belief_comes_back(self):
        # No events: what is known is what was sent there.
        engine = self.start("kvasir-engine", "--port", "0", "--speed", "20", "--name", "plain")
        flags = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--worker",
                 engine.url("http"), "--data", self.folder / "data"]
        node = self.start("kvasir", "serve", *flags)
        harness.wait_until(
            lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200, "ready")
        text = "a word and another one " * 100
        self.complete(node, text)
        self.assertEqual(node.stop(), 0)
        node = self.start("kvasir", "serve", *flags)
        harness.wait_until(
            lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200, "ready")
        self.assertGreater(self.snapshot(node)["start"]["belief_blocks"], 10)
        _, headers = self.complete(node, text)
        overlap, total = map(int, headers["x-kvasir-overlap"].split("/"))
        self.assertGreaterEqual(overlap, total - 1)
        self.assertGreater(total, 10)


class ShortReplay(SnapshotCase):
    """A node alone, of an engine whose replay does not reach back to its first
    batch: what the node knows of names is what it saved."""
    STEPS = 20

    def setUp(self):
        super().setUp()
        self.short = self.engine("engine-1", "--blocks", "4000", "--buffer-steps", self.STEPS)

    def tell(self, seed, count):
        """The engine stores more, whoever listens."""
        for prompt in prompts(seed, count):
            answer = harness.request(self.short.at("http"), "POST", "/v1/completions", {
                "model": self.served, "prompt": prompt, "max_tokens": 2})
            self.assertEqual(answer.status, 200, answer.text)

    def epoch(self, node):
        stream = harness.request(node.at("admin"), "GET", "/admin/mesh").json()["streams"][0]
        return stream["epoch"], stream["epoch_id"]

    def is_what_the_engine_holds(self, node):
        self.in_step(node, [self.short])
        cache = harness.request(self.short.at("http"), "GET", "/chaos/cache").json()
        self.assertEqual(self.held(node)[0][1], len(set(cache["keys"])))

    def filled(self, *flags):
        """A node that has seen far more than the engine will tell again."""
        node = self.node([self.short], *flags)
        self.served = self.model(node)
        self.load(node, [self.short], 11, 60)
        self.assertGreater(self.cache(self.short)["next_seq"], 2 * self.STEPS)
        return node

    def went_on(self, node, epoch):
        start = self.snapshot(node)["start"]
        self.assertEqual((start["state"], start["streams"], start["streams_resumed"]),
                         ("warm", 1, 1), node.log())
        self.assertGreater(start["ledger_blocks"], 0)
        self.is_what_the_engine_holds(node)
        self.assertEqual(self.epoch(node), epoch)
        self.assertEqual(self.resets(node), 0, node.log())
        # Blocks behind those from before can be placed, and are predicted right.
        self.predicts(node, [self.short], 11, 20)
        self.is_what_the_engine_holds(node)

    def test_one_that_was_stopped_goes_on_where_it_was(self):
        node = self.filled()
        epoch = self.epoch(node)
        self.assertEqual(node.stop(), 0)
        self.tell(12, 5)
        node = self.node([self.short])
        self.went_on(node, epoch)
        self.assertEqual(node.stop(), 0)  # and once more, from what was taken up
        self.tell(13, 5)
        self.went_on(self.node([self.short]), epoch)

    def test_one_that_was_killed_goes_on_where_its_snapshot_was(self):
        node = self.filled(*QUICK)
        taken = self.snapshot(node)["taken"]
        harness.wait_until(lambda: self.snapshot(node)["taken"] > taken + 1, "another snapshot")
        epoch = self.epoch(node)
        self.load(node, [self.short], 12, 4)  # which the snapshot may have or not
        node.kill()
        self.tell(13, 4)
        self.went_on(self.node([self.short]), epoch)

    def test_an_engine_that_restarted_meanwhile_is_begun_anew(self):
        node = self.filled()
        epoch = self.epoch(node)
        self.assertEqual(node.stop(), 0)
        harness.request(self.short.at("http"), "POST", "/chaos", {"restart": 1})
        self.tell(12, 5)
        node = self.node([self.short])
        harness.wait_until(lambda: self.resets(node) >= 1, "its old blocks are dropped")
        self.is_what_the_engine_holds(node)
        self.assertNotEqual(self.epoch(node), epoch)

    def test_batches_that_nobody_has_any_more_are_not_made_up(self):
        node = self.filled()
        epoch = self.epoch(node)
        self.assertEqual(node.stop(), 0)
        self.tell(12, 2 * self.STEPS)
        node = self.node([self.short], wait=False)
        harness.wait_until(lambda: self.resets(node) >= 1, "what was known is dropped")
        harness.wait_until(lambda: self.streams(node)[0]["state"] == "partial", "it is partial")
        self.assertNotEqual(self.epoch(node), epoch)
        cache = harness.request(self.short.at("http"), "GET", "/chaos/cache").json()
        self.assertLess(self.held(node)[0][1], len(set(cache["keys"])))
        self.knows_how_little_it_knows(node)

    def knows_how_little_it_knows(self, node):
        """Trust in what is known of an engine follows what its answers find."""
        def row():
            return self.status(node)["events"][0]
        self.assertEqual((row()["state"], row()["trust"], row()["more"]), ("partial", 0.5, 0))
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_events_partial"), 1)
        for prompt in prompts(11, 20):  # of which the engine has more
            self.complete(node, prompt)
        harness.wait_until(lambda: row()["more"] >= 15, "answers were compared")
        self.assertLess(row()["trust"], 0.7)
        known = itertools.cycle(prompts(14, 20))

        def taught():
            self.complete(node, next(known))
            return 0.8 < row()["trust"] < 1
        harness.wait_until(taught, "answers taught trust")
        said = harness.request(node.at("admin"), "POST", "/admin/explain", {
            "model": self.served, "prompt": prompts(14, 1)[0]}).json()
        self.assertTrue(0.5 < said["candidates"][0]["trust"] < 1, said)


class Taking(SnapshotCase):
    def test_one_is_taken_when_asked_for(self):
        engines = [self.engine("engine-1", "--blocks", "4000")]
        node = self.node(engines)
        self.load(node, engines, 7, 20)
        answer = self.take(node)
        self.assertEqual(answer.status, 200, answer.text)
        told = answer.json()
        self.assertEqual((told["taken"], told["outcome"]), (1, "ok"))
        self.assertGreater(told["bytes"], 0)
        info = self.run_once("kvasir", "snapshot", "verify", "--json", self.folder / "data")
        self.assertEqual(info.returncode, 0, info.stderr)
        self.assertEqual(json.loads(info.stdout)["blocks"], self.held(node)[0][1])
        metrics = harness.metrics(node.at("admin"))
        self.assertEqual(metrics["kvasir_snapshot_taken_total"], 1)
        self.assertEqual(metrics["kvasir_snapshot_failing"], 0)
        self.assertIn("snapshot", self.run_once(
            "kvasir", "status", "--admin", "%s:%d" % node.at("admin")).stdout)

    def test_a_node_without_a_directory_has_none(self):
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        self.assertEqual(self.take(node).status, 404)
        self.assertIsNone(self.snapshot(node))

    def test_a_directory_has_one_process(self):
        node = self.start(
            "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--data", self.folder / "data")
        second = self.run_once("kvasir", "serve", "--listen", "127.0.0.1:0",
                               "--admin", "127.0.0.1:0", "--data", self.folder / "data")
        self.assertEqual(second.returncode, 1)
        self.assertEqual(second.stdout, "")
        self.assertEqual(len(second.stderr.splitlines()), 1, second.stderr)
        self.assertIn("another process has this directory", second.stderr)
        self.assertEqual(self.take(node).status, 200)

    def test_a_file_that_is_damaged_is_set_aside(self):
        engines = [self.engine("engine-1", "--blocks", "4000")]
        node = self.node(engines)
        self.load(node, engines, 8, 20)
        held = self.held(node)
        self.assertEqual(node.stop(), 0)
        path = newest(self.folder / "data")
        data = bytearray(path.read_bytes())
        for at in range(4096 * 2, len(data), 512):
            data[at] ^= 0x55
        path.write_bytes(data)
        node = self.node(engines)
        start = self.snapshot(node)["start"]
        self.assertEqual((start["state"], start["files_refused"]), ("cold", 1))
        self.assertEqual(node.log().count("snapshot_refused"), 1)
        self.assertTrue(any(p.name.endswith(".aside") for p in (self.folder / "data").iterdir()))
        self.in_step(node, engines)
        self.assertEqual(self.held(node), held)
        self.assertEqual(self.take(node).status, 200)

    def test_that_of_another_cluster_is_set_aside(self):
        flags = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                 "--data", self.folder / "data")
        self.assertEqual(self.start("kvasir", "serve", *flags).stop(), 0)
        node = self.start("kvasir", "serve", *flags, "--mesh.cluster", "other")
        start = self.snapshot(node)["start"]
        self.assertEqual((start["state"], start["files_refused"]), ("cold", 1))
        self.assertIn("of another cluster", node.log())

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
    def test_a_full_disk_costs_a_snapshot_and_nothing_else(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=True)
        (self.folder / "data").symlink_to(disk / "data")
        (disk / "data").mkdir()
        engines = [self.engine("engine-1", "--blocks", "4000")]
        node = self.node(engines)
        self.load(node, engines, 9, 10)
        filler = disk / "filler"
        with open(filler, "wb", buffering=0) as out:
            try:
                while True:
                    out.write(bytes(4096))
            except OSError:
                pass
        answer = self.take(node)
        self.assertEqual(answer.status, 503)
        self.assertIn("disk full", answer.text)
        self.assertEqual(harness.metrics(node.at("admin"))["kvasir_snapshot_failing"], 1)
        self.assertIn("snapshot_failed", node.log())
        self.load(node, engines, 10, 5)
        filler.unlink()
        self.assertEqual(self.take(node).status, 200)
        self.assertEqual(harness.metrics(node.at("admin"))["kvasir_snapshot_failing"], 0)


    @unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
    def test_a_disk_that_is_full_from_the_start_is_no_reason_not_to_serve(self):
        disk = self.folder / "data"
        disk.mkdir()
        # Without room for one more file.
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,nr_inodes=1", "tmpfs",
                                  str(disk)], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("no file system can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(disk)], check=True)
        engines = [self.engine("engine-1", "--blocks", "4000")]
        node = self.node(engines)
        self.assertIn("data_full", node.log())
        self.load(node, engines, 9, 10)
        self.assertEqual(harness.metrics(node.at("admin"))["kvasir_snapshot_failing"], 1)
        answer = self.take(node)
        self.assertEqual(answer.status, 503)
        self.assertIn("disk full", answer.text)
        subprocess.run(["mount", "-o", "remount,nr_inodes=100", str(disk)], check=True)
        answer = self.take(node)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(harness.metrics(node.at("admin"))["kvasir_snapshot_failing"], 0)
        held = self.held(node)
        self.assertEqual(node.stop(), 0)
        node = self.node(engines)
        self.assertEqual(self.held(node), held)
        self.assertEqual(self.snapshot(node)["start"]["streams_resumed"], 1)

    def test_what_cannot_be_loaded_is_kept_aside(self):
        engines = [self.engine("engine-1", "--blocks", "100000", "--speed", "1000")]
        node = self.node(engines)
        for prompt in prompts(9, 110, groups=110, length=1900):
            self.complete(node, prompt)
        self.in_step(node, engines)
        held = self.held(node)
        self.assertEqual(node.stop(), 0)
        path = newest(self.folder / "data")
        saved = path.read_bytes()
        # It verifies, but there is no room for its ledger, and then not for its blocks.
        node = self.node(engines, "--mirror.ledger_bytes_max", "1MiB", wait=False)
        start = self.snapshot(node)["start"]
        self.assertEqual((start["state"], start["streams"], start["streams_resumed"]),
                         ("warm", 1, 0))
        self.assertIn("snapshot_ledger_not_loaded", node.log())
        self.assertEqual(start["files_refused"], 0)
        node.kill()
        node = self.node(engines, "--mirror.bytes_max", "1MiB", wait=False)
        start = self.snapshot(node)["start"]
        self.assertEqual((start["state"], start["files_refused"]), ("cold", 1), node.log())
        self.assertIn("snapshot_not_loaded", node.log())
        aside = path.with_name(path.name + ".aside")
        self.assertEqual(aside.read_bytes(), saved)
        self.assertEqual(self.take(node).status, 200)
        node.kill()
        aside.rename(newest(self.folder / "data"))  # with room it is as good as ever
        node = self.node(engines)
        self.assertEqual(self.held(node), held)
        self.assertEqual(self.snapshot(node)["start"]["streams_resumed"], 1)


class Mesh(EventsCase):
    def test_a_node_that_comes_back_has_only_the_difference_told(self):
        engines = [self.engine(f"engine-{i}", "--blocks", "4000") for i in range(2)]
        flags = self.workers(engines)
        nodes = self.three(*flags)
        self.ready(nodes, engines)
        for prompt in self.prompts(1, 30):
            self.ask(nodes[0], prompt)
        self.same(nodes, engines)
        back = self.node("d", "--join", nodes[0].ready["mesh"], "--data", self.folder / "data",
                         *flags)
        self.ready([back], engines)
        self.same([*nodes, back], engines)
        self.assertEqual(back.stop(), 0)
        for prompt in self.prompts(2, 10):
            self.ask(nodes[0], prompt)
        self.same(nodes, engines)
        back = self.node("d", "--data", self.folder / "data", *flags)  # and nowhere to look
        self.ready([back], engines)
        streams = self.same([*nodes, back], engines)
        self.assertEqual(len(streams), 2)
        metrics = harness.metrics(back.at("admin"))
        self.assertEqual(metrics["kvasir_gossip_transfers_total"], 0)
        self.assertEqual(back.log().count("events_reset"), 0)
        status = harness.request(back.at("admin"), "GET", "/admin/status").json()
        self.assertEqual(status["snapshot"]["start"]["state"], "warm")
        self.assertEqual(status["snapshot"]["start"]["members"], 3)
        for prompt in self.prompts(1, 10):
            overlap, _ = self.ask(back, prompt)
            self.assertGreaterEqual(overlap, 3)


class AllKilled(EventsCase):
    """All nodes die, and the engine is older than its replay: what is known of its
    names is what they saved."""
    STEPS = 20

    def setUp(self):
        super().setUp()
        self.engines = [self.engine("m", "--blocks", "4000", "--buffer-steps", self.STEPS)]
        self.told = [*self.workers(self.engines), "--data.interval", "300s"]

    def member(self, name, join=()):
        return self.node(name, *self.told, "--data", self.folder / name, join=join)

    def tell(self, seed, count, behind=None):
        """The engine stores more, whoever listens."""
        for before, prompt in zip(behind or [[]] * count, self.prompts(seed, count)):
            prompt = before + prompt
            answer = harness.request(self.engines[0].at("http"), "POST", "/v1/completions", {
                "model": self.served, "prompt": prompt, "max_tokens": 2})
            self.assertEqual(answer.status, 200, answer.text)

    def killed(self):
        """Names of nodes that were killed together, their snapshots taken; who did not
        read the engine comes first. And the stream's epoch."""
        nodes = [self.member("a")]
        nodes += [self.member(name, [nodes[0].ready["mesh"]]) for name in "bc"]
        self.together(nodes)
        self.ready(nodes, self.engines)
        self.served = self.model(nodes[0])
        for prompt in self.prompts(1, 60):
            self.ask(nodes[0], prompt)
        stream, = self.same(nodes, self.engines)
        self.assertGreater(self.published(self.engines[0]), 2 * self.STEPS)
        readers = self.readers(nodes)["e0"]
        for node in nodes:
            harness.wait_until(lambda node=node: self.mesh(node)["streams"][0]["names_known"],
                               "names")
            answer = harness.request(node.at("admin"), "POST", "/admin/snapshot")
            self.assertEqual(answer.status, 200, answer.text)
        for node in nodes:
            node.kill()
        self.tell(2, 5)
        return sorted("abc", key=lambda name: name in readers), stream["epoch_id"]

    def know_it_all(self, nodes, epoch_id, seed):
        """Also blocks behind those from before, which only who has the names can place."""
        self.ready(nodes, self.engines)
        self.tell(seed, 5, behind=self.prompts(1, 5))
        stream, = self.same(nodes, self.engines)
        self.assertEqual(stream["epoch_id"], epoch_id)
        cache = harness.request(self.engines[0].at("http"), "GET", "/chaos/cache").json()
        self.assertEqual(stream["blocks"], len(set(cache["keys"])))
        self.assertGreater(stream["blocks"], 60 * 3)

    def test_the_disk_of_one_that_did_not_read_is_enough(self):
        (name, *others), epoch_id = self.killed()
        nodes = [self.member(name)]
        self.know_it_all(nodes, epoch_id, 3)
        start = harness.request(nodes[0].at("admin"), "GET", "/admin/status").json()[
            "snapshot"]["start"]
        self.assertEqual((start["streams_resumed"], start["streams_named"],
                          start["names_refused"]), (0, 1, 0))
        for other in others:
            shutil.rmtree(self.folder / other)
            nodes.append(self.member(other, [nodes[0].ready["mesh"]]))
        self.together(nodes)
        self.know_it_all(nodes, epoch_id, 4)

    def test_those_that_come_back_can_hand_over_to_each_other(self):
        names, epoch_id = self.killed()
        nodes = [self.member(names[0])]
        nodes += [self.member(name, [nodes[0].ready["mesh"]]) for name in names[1:]]
        self.together(nodes)
        self.know_it_all(nodes, epoch_id, 3)
        for node in nodes[1:]:
            node.kill()
        self.know_it_all(nodes[:1], epoch_id, 4)


if __name__ == "__main__":
    harness.main()
