"""deploy/demo as a visitor runs it, with the programs of this build: its table,
its exit codes, and that nothing of it stays behind."""
import os
import pathlib
import re
import signal
import subprocess

import harness

DEMO = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "demo"
DEMO_TIMEOUT_S = 240


def session(pid):
    """The processes of a session: {pid: command}."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if not entry.name.isdigit():
                continue
            # pid (comm) state ppid pgrp session
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == pid and fields[0] != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
        except (OSError, IndexError):
            pass  # it has just ended
    return found


class Demo(harness.Case):
    def begin(self, *args, **env):
        """Starts the demo as the leader of a session of its own."""
        demo = subprocess.Popen(
            [DEMO, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True,
            env={**os.environ, "KVASIR_BUILD": str(harness.BUILD),
                 "TMPDIR": str(self.folder), **env})

        def end():
            for pid in session(demo.pid):
                os.kill(pid, signal.SIGKILL)
            demo.wait()
            demo.stdout.close()
            demo.stderr.close()

        self.addCleanup(end)
        return demo

    def assert_nothing_left(self, demo):
        self.assertEqual(session(demo.pid), {})
        self.assertEqual(list(self.folder.iterdir()), [])

    def table_row(self, out, name):
        """(cached tokens in percent, TTFT p50, p99, requests per worker, errors)"""
        found = re.search(rf"(?m)^{name} +([\d.]+) % +(\d+) ms +(\d+) ms +((?:\d+ +){{4}}) *(\d+)$",
                          out)
        self.assertIsNotNone(found, out)
        return (float(found[1]), int(found[2]), int(found[3]),
                [int(n) for n in found[4].split()], int(found[5]))

    def test_it_ends_with_a_table_of_both_policies(self):
        demo = self.begin("--quick")
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual(demo.returncode, 0, out + err)
        plain = self.table_row(out, "round robin")
        ours = self.table_row(out, "kvasir")
        self.assertGreater(ours[0], plain[0])
        planned = 24 * 4
        for row in plain, ours:
            self.assertLess(0, row[0])
            self.assertLessEqual(row[1], row[2])
            self.assertEqual((sum(row[3]), row[4]), (planned, 0))
        self.assertGreater(min(plain[3]), 0)
        self.assertRegex(out, r"(?m)^gain +[\d.]+x +[\d.]+x +[\d.]+x$")
        for line in ("x-kvasir-mode: affinity", "x-kvasir-worker: engine-", "x-kvasir-node: demo",
                     "x-request-id: "):
            self.assertIn(f"\n   {line}", out)
        self.assertIn("stand-ins", out)
        self.assertIn(f"100 %  {planned} of {planned} answered, 0 failed", err)
        self.assertNotIn("\033", out + err)
        self.assert_nothing_left(demo)

    def test_a_signal_ends_all_that_it_had_started(self):
        demo = self.begin("--quick")
        harness.wait_until(
            lambda: sum("kvasir" in command for command in session(demo.pid).values()) >= 6
            and any("kvasir-load" in command for command in session(demo.pid).values()),
            "four engines, a node and the load run")
        demo.send_signal(signal.SIGTERM)
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual(demo.returncode, 130, out + err)
        self.assertIn("demo: interrupted", err)
        self.assert_nothing_left(demo)

    def test_a_failing_step_is_one_line_that_names_its_log(self):
        # Programs that end at once instead of getting ready.
        for program in ("node/kvasir", "chaos/kvasir-engine", "chaos/kvasir-load"):
            path = self.folder / "build" / program
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#!/bin/sh\necho no luck >&2\nexit 3\n")
            path.chmod(0o755)
        demo = self.begin(KVASIR_BUILD=str(self.folder / "build"))
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual(demo.returncode, 1, out + err)
        found = re.fullmatch(r"demo: kvasir-engine ended at once, see (\S+)\n", err)
        self.assertIsNotNone(found, err)
        self.assertEqual(pathlib.Path(found[1]).read_text(), "no luck\n")
        self.assertEqual(session(demo.pid), {})

    def test_a_build_that_is_none_is_named(self):
        demo = self.begin(KVASIR_BUILD=str(self.folder))
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual(demo.returncode, 1, out)
        self.assertEqual(err, f"demo: there is no node/kvasir in {self.folder}\n")

    def test_bad_usage_is_2(self):
        demo = self.begin("--slow")
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual((demo.returncode, out), (2, ""))
        self.assertTrue(err.startswith("demo: unknown argument --slow\nusage: "), err)
        demo = self.begin("--help")
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual((demo.returncode, err), (0, ""))


if __name__ == "__main__":
    harness.main()
