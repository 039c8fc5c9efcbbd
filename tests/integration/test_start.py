"""What clients see of a node that has just begun."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import harness
from fake_worker import FakeWorker
from test_proxy import LANES, Proxy, echo

SETTLE_S = 1  # a node waits for the first checks of its workers (node/cli/serve.c)


class Unchecked(FakeWorker):
    """Answers no health check before the test says so."""

    def __init__(self, case):
        self.asked, self.free = threading.Event(), threading.Event()
        case.addCleanup(self.free.set)
        super().__init__(case, echo)

    def _own(self, peer, target):
        if target == "/health":
            self.asked.set()
            self.free.wait(harness.IO_TIMEOUT_S)
        return super()._own(peer, target)


class Start(Proxy):
    def arguments(self, *workers):
        options = [option for worker in workers for option in ("--worker", worker.url)]
        return ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--name", "n1",
                "--lanes", LANES, *options]

    def test_who_comes_right_after_the_ready_line_is_served(self):
        workers = [FakeWorker(self, echo) for _ in range(4)]
        for _ in range(5):
            begun = time.monotonic()
            node = self.start("kvasir", *self.arguments(*workers))
            self.address = node.at("serve")
            # Where the machine stands still, checks may outlast its wait for them.
            if time.monotonic() - begun < SETTLE_S:
                self.assertEqual(self.post().status, 200)
                self.assertEqual(self.eligible(node), 4)
            self.assertEqual(node.stop(), 0)

    def test_a_healthy_start_warns_of_nothing(self):
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0")
        node = self.start(
            "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
            "--data", self.folder / "data", "--worker",
            f"{engine.url('http')},events={engine.url('events')},replay={engine.url('replay')}")
        harness.wait_until(lambda: "state=live" in node.log(), "its events are read")
        harness.wait_until(lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200,
                           "it is ready")
        self.assertEqual(node.stop(), 0)
        # A machine that stands still is told of, and no fault of the start.
        told = [line for line in node.log().splitlines()
                if line.split()[1] in ("warning", "error") and "events_thread_slept" not in line]
        self.assertEqual(told, [])

    def test_workers_that_do_not_answer_do_not_keep_it_from_serving(self):
        silent, good = Unchecked(self), FakeWorker(self, echo)
        node = self.start("kvasir", *self.arguments(silent, good))
        self.address = node.at("serve")
        self.assertFalse(silent.free.is_set())
        self.assertEqual(self.post().status, 200)

    def test_workers_that_are_not_there_do_not_keep_it_from_serving(self):
        gone = FakeWorker(self, echo)
        gone.close()
        node = self.start("kvasir", *self.arguments(gone))
        self.address = node.at("serve")
        self.assertEqual(self.post().status, 503)

    def test_the_page_of_tasks_names_what_there_is(self):
        page = (pathlib.Path(__file__).resolve().parents[2] / "deploy/README.md").read_text()
        reference = self.run_once("kvasir", "check", "--reference").stdout
        keys = set(re.findall(r"(?m)^([a-z_]+(?:\.[a-z_]+)?)$", reference))
        sections = {key.partition(".")[0] for key in keys if "." in key}
        named = {key for key in re.findall(r"`([a-z_]+\.[a-z_]+)", page)
                 if key.partition(".")[0] in sections and not key.endswith((".yaml", ".conf"))}
        self.assertGreater(len(named), 10)
        self.assertEqual(named - keys, set())
        node = self.start("kvasir", *self.arguments(), "--limits.tenant_requests", "600/min")
        shown = harness.request(node.at("admin"), "GET", "/metrics").text
        there = set(re.findall(r"(?m)^# TYPE (\S+)", shown))
        metrics = set(re.findall(r"kvasir_[a-z_0-9]+", page))
        self.assertGreater(len(metrics), 10)
        self.assertEqual({name for name in metrics
                          if not any(each.startswith(name) for each in there)}, set())

    def test_the_log_sums_up_what_it_is(self):
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0")
        silent = FakeWorker(self, echo)
        node = self.start(
            "kvasir", *self.arguments(silent), "--data", self.folder / "data",
            "--mesh", "127.0.0.1:0", "--admin.metrics", "127.0.0.1:0", "--worker",
            f"{engine.url('http')},events={engine.url('events')},replay={engine.url('replay')}")
        harness.wait_until(lambda: " start_snapshot " in node.log(), "it is all said")
        said = [line.split(" info ", 1)[1] for line in node.log().splitlines()
                if " info start_" in line]
        here = 'protection="clear text, %sthis machine alone"'
        self.assertEqual(said[:4], [
            f"start_port key=listen address={node.ready['serve']} " + here % "no keys, ",
            f"start_port key=admin address={node.ready['admin']} " + here % "no tokens, ",
            f"start_port key=admin.metrics address={node.ready['metrics']} "
            'protection="clear text, reads alone"',
            f"start_port key=mesh.listen address={node.ready['mesh']} " + here % ""])
        rest = "\n".join(said[4:])
        self.assertRegex(rest, r"^start_workers mirrored=1 by_belief=1 not_eligible=\d models=\d")
        host = "%s:%d" % silent.address
        self.assertIn(f'start_by_belief workers={host} why="no events= is given', rest)
        self.assertIn('start_tokens made_here=0 models="" others="asked of engines', rest)
        self.assertIn("start_mesh state=open cluster=kvasir places_to_join=0 nodes_alive=1", rest)
        self.assertIn("start_snapshot state=cold why=", rest)
        self.assertEqual(node.stop(), 0)

    def test_who_has_a_port_that_it_wants_is_told(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = f"127.0.0.1:{taken.getsockname()[1]}"
        name = pathlib.Path("/proc/self/comm").read_text().strip()
        mesh = ["--mesh.insecure", "true", "--mesh"]
        for event, options in (("listen_failed", ["--listen", port]),
                               ("admin_listen_failed", ["--admin", port]),
                               ("admin_listen_failed", ["--admin.metrics", port]),
                               ("mesh_listen_failed", [*mesh, port])):
            defaults = [word for key in ("--listen", "--admin") if key not in options
                        for word in (key, "127.0.0.1:0")]
            told = self.run_once("kvasir", "serve", *defaults, *options)
            self.assertEqual((told.returncode, told.stdout), (1, ""))
            self.assertRegex(told.stderr, f' error {event} .*holder="{name}, pid {os.getpid()}" '
                                          'hint="stop the holder')

    def test_without_descriptors_it_says_what_it_wants(self):
        for files in "8", "16":  # for its loops, for its port
            told = subprocess.run(
                ["sh", "-c", 'ulimit -n "$1" && exec "$0" serve --listen 127.0.0.1:0 '
                 "--admin 127.0.0.1:0", harness.program("kvasir"), files],
                stdin=subprocess.DEVNULL, capture_output=True, text=True,
                timeout=harness.IO_TIMEOUT_S, check=False)
            self.assertEqual(told.returncode, 1, told.stderr)
            self.assertRegex(told.stderr, 'error=EMFILE .*hint="no descriptors are left')

    def test_a_signal_ends_it_before_it_serves(self):
        silent = Unchecked(self)
        node = self.spawn("kvasir", *self.arguments(silent), "--timeouts.lame_duck", "0")
        self.assertTrue(silent.asked.wait(harness.IO_TIMEOUT_S))
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 0)


if __name__ == "__main__":
    harness.main()
