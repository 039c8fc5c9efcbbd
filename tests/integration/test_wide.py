"""Over 256 workers: `kvasir serve` becomes kvasir-wide, and everything else is as it was."""
import pathlib

import harness
from dns import free_port
from fake_worker import FakeWorker
from test_mesh_workers import Workers, echo
from test_snapshot import SnapshotCase


class WideCase(Workers):
    def urls(self, count):
        """One server, by addresses of 127.0.1.0 and on."""
        worker = FakeWorker(self, echo, host="0.0.0.0")
        return [f"http://127.0.{1 + n // 250}.{1 + n % 250}:{worker.address[1]}"
                for n in range(count)]

    def config(self, urls, slots, followed=()):
        """A file. Those that are followed have 64 ranks each, and none of them runs."""
        events, replay = free_port(), free_port()
        self.file = self.folder / "kvasir.yaml"
        self.file.write_text(
            f"workers.slots: {slots}\npolicy: {{name: round_robin}}\nworkers:\n" + "".join(
                f"  - {url},id=w{n:03}" + (
                    f",ranks=64,events=tcp://127.1.0.{n}:{events},replay=tcp://127.1.0.{n}:{replay}"
                    if n in followed else "") + "\n" for n, url in enumerate(urls)))
        return self.file

    def program(self, node):
        return pathlib.Path(f"/proc/{node.pid}/exe").readlink().name

    def left_out(self, node):
        rows = harness.request(node.at("admin"), "GET", "/admin/status").json()["left_out"]
        return [(row["worker"], row["what"]) for row in rows]

    def all_well(self, node, count):
        harness.wait_until(lambda: list(self.states(node).values()) == ["healthy"] * count,
                           "all are well")

    def reaches(self, node, count):
        """All of its workers, in turn."""
        self.assertEqual(len({self.asked(node) for _ in range(count)}), count)


class Wide(WideCase):
    def test_over_256_workers_and_ranks_are_a_question_of_the_configuration(self):
        config = self.config(self.urls(300), 300, range(1, 6))
        first = self.node("a", "-c", config, "--placement-headers", "on")
        self.assertEqual(self.program(first), "kvasir-wide")
        nodes = [first, self.node("b", "-c", config, join=[first.ready["mesh"]])]
        self.together(nodes)
        for node in nodes:
            self.all_well(node, 300)
            told = self.admin(node, "GET", "").json()
            self.assertEqual([len(w["events"]) for w in told[:6]], [0] + [64] * 5)
        self.reaches(first, 300)
        self.said(first, "DELETE", "/w299")
        for node in nodes:
            harness.wait_until(lambda node=node: len(self.states(node)) == 299, "it is gone")
        config.write_text(config.read_text().replace("300", "299", 1))
        refused = self.run_once("kvasir", "check", "-c", config)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("workers.slots: 299 are too few for 300 workers", refused.stderr)

    def test_what_people_look_at_shows_all_of_them(self):
        config = self.config(self.urls(300), 300)
        checked = self.run_once("kvasir", "check", "-c", config)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        node = self.node("a", "-c", config, "--placement-headers", "on")
        self.all_well(node, 300)
        self.reaches(node, 300)
        at = "{}:{}".format(*node.at("admin"))
        told = self.run_once("kvasir", "status", "--admin", at)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("300", told.stdout)
        told = self.run_once("kvasir", "top", "--admin", at, "--interval", "0.1", "--count", "2")
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("w299", told.stdout)
        told = harness.metrics(node.at("admin"))
        self.assertEqual(told['kvasir_worker_eligible{worker="w299"}'], 1)
        told = self.run_once("kvasir", "doctor", "-c", config)
        self.assertIn("w299", told.stdout)

    def test_a_configuration_for_so_many_is_a_file(self):
        told = self.run_once("kvasir", "serve", "-c", "/dev/stdin", stdin="workers.slots: 257\n")
        self.assertEqual(told.returncode, 2, told.stderr)
        self.assertIn("that can be read twice: a file", told.stderr)

    def test_a_reload_changes_no_width_and_says_so(self):
        urls = self.urls(300)
        node = self.node("a", "-c", self.config(urls[:2], 256))
        self.assertEqual(self.program(node), "kvasir")
        self.config(urls[:3], 300)
        told = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(told.status, 200, told.text)
        self.assertEqual(told.json()["restart"], ["workers.slots"])
        self.assertEqual(told.json()["workers"]["added"], ["w002"])
        self.config(urls, 300)
        told = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(told.status, 200, told.text)
        self.assertEqual(told.json()["restart"], ["workers.slots"])
        self.assertEqual(told.json()["workers"]["refused"], [f"w{n}" for n in range(256, 300)])
        self.all_well(node, 256)


class Mixed(WideCase):
    def test_a_narrow_node_leaves_out_what_it_has_no_room_for(self):
        config = self.config(self.urls(300), 300, range(1, 6))
        wide = self.node("a", "-c", config, "--placement-headers", "on")
        narrow = self.node("b", "--policy.name", "round_robin", "--placement-headers", "on",
                           join=[wide.ready["mesh"]])
        self.together([wide, narrow])
        self.assertEqual(self.program(narrow), "kvasir")
        self.all_well(wide, 300)
        self.all_well(narrow, 256)
        self.reaches(narrow, 256)
        self.assertEqual(self.left_out(wide), [])
        out = self.left_out(narrow)
        self.assertEqual([what for _, what in out].count("worker"), 44)
        self.assertEqual([worker for worker, what in out if what == "events"], ["w005"])
        self.said(narrow, "DELETE", "/w001")
        harness.wait_until(lambda: len(self.left_out(narrow)) == 43, "there is room for one more")
        self.all_well(narrow, 256)
        self.all_well(wide, 299)


class Kept(SnapshotCase):
    def test_each_reads_what_the_other_left(self):
        engines = [self.engine(f"engine-{i}", "--blocks", "4000") for i in range(2)]
        node = self.node(engines)
        self.load(node, engines, 1, 20)
        held = self.held(node)
        self.assertEqual(node.stop(), 0)
        for slots in "1024", "256":
            node = self.node(engines, "--workers.slots", slots)
            self.assertEqual(self.held(node), held)
            self.assertEqual(self.snapshot(node)["start"]["state"], "warm")
            self.assertEqual(self.resets(node), 0)
            self.assertEqual(node.stop(), 0)


if __name__ == "__main__":
    harness.main()
