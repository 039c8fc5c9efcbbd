"""deploy/demo as a visitor runs it, with the programs of this build: its tables,
its exit codes, and that nothing of it stays behind."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import harness
from dns import DNSMASQ

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

    def stage(self, out, name):
        """(requests, cached tokens in percent) of one stage."""
        found = re.search(rf"(?m)^ *{name} +(\d+) +([\d.]+) %", out)
        self.assertIsNotNone(found, out)
        return int(found[1]), float(found[2])

    def fates(self, out):
        """Of the requests that were open on the killed node: (all, severed,
        sent again)"""
        found = re.search(r"open on node-2: (\d+)\..*: (\d+); not\n.*: (\d+)\. No other", out)
        self.assertIsNotNone(found, out)
        return tuple(int(n) for n in found.groups())

    @unittest.skipUnless(os.access(DNSMASQ, os.X_OK), "no dnsmasq, see deploy/packages")
    def test_it_ends_with_tables_of_both_policies_and_of_the_kill(self):
        demo = self.begin("--quick")
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual(demo.returncode, 0, out + err)
        plain = self.table_row(out, "round robin")
        ours = self.table_row(out, "kvasir")
        self.assertGreater(ours[0], plain[0])
        planned = 64 * 3
        for row in plain, ours:
            self.assertLess(0, row[0])
            self.assertLessEqual(row[1], row[2])
        self.assertEqual((sum(plain[3]), plain[4]), (planned, 0))
        self.assertGreater(min(plain[3]), 0)
        self.assertRegex(out, r"(?m)^gain +[\d.]+x +[\d.]+x +[\d.]+x$")
        was_open, severed, again = self.fates(out)
        self.assertEqual((severed, was_open), (ours[4], severed + again))
        for name in ("three nodes, just before the kill", "two nodes, node-2 is dead",
                     "three nodes, node-2 is back"):
            requests, cached = self.stage(out, name)
            self.assertGreater(requests, 0, name)
            self.assertGreater(cached, plain[0], name)
        blocks, before, after = re.search(
            r"with ([\d,]+) blocks from its snapshot\. [\s\S]* had ([\d.]+) % cached before "
            r"[^%]*\n([\d.]+) % since it is back", out).groups()
        self.assertGreater(int(blocks.replace(",", "")), 0)
        self.assertGreater(float(after), 0.8 * float(before))
        self.assertRegex(out, r"they predicted exactly: (all|\d+ of \d+ .*)\n\(of \d+ answers\)")
        self.assertIn("stand-ins", out)
        self.assertIn(f"100 %  {planned} of {planned} answered, 0 failed", err)
        self.assertNotIn("\033", out + err)
        self.assert_shows_the_mesh(out)
        self.assert_nothing_left(demo)

    def assert_shows_the_mesh(self, out):
        """What `kvasir status` and one request say on the way."""
        for line in ("x-kvasir-mode: affinity", "x-kvasir-worker: engine-", "x-kvasir-node: node-3",
                     "x-request-id: "):
            self.assertIn(f"\n   {line}", out)
        before, after = re.findall(r"(?m)^ +node-2 +(\w+) ", out)
        self.assertEqual((before, after), ("alive", "dead"))
        readers = re.findall(r"(?m)^ +engine-\d .* (\S+)$", out)
        self.assertEqual(len(readers), 8, out)
        self.assertIn("node-2", "".join(readers[:4]))
        self.assertNotIn("node-2", "".join(readers[4:]))
        knows, known = re.search(r"It knows of ([\d,]+) blocks .* node-1 of ([\d,]+)\.", out).groups()
        self.assertGreater(int(knows.replace(",", "")), 0.8 * int(known.replace(",", "")))

    @unittest.skipUnless(os.access(DNSMASQ, os.X_OK), "no dnsmasq, see deploy/packages")
    def test_a_signal_ends_all_that_it_had_started(self):
        demo = self.begin("--quick")

        def running(what):
            return sum(what in command for command in session(demo.pid).values())
        harness.wait_until(
            lambda: running("kvasir serve") == 3 and running("kvasir-engine") == 4
            and running("dnsmasq") == 1 and running("kvasir-load") == 1,
            "three nodes, four engines, a DNS server and the load run", DEMO_TIMEOUT_S)
        demo.send_signal(signal.SIGTERM)
        out, err = demo.communicate(timeout=DEMO_TIMEOUT_S)
        self.assertEqual(demo.returncode, 130, out + err)
        self.assertIn("demo: interrupted", err)
        self.assert_nothing_left(demo)

    @unittest.skipUnless(os.access(DNSMASQ, os.X_OK), "no dnsmasq, see deploy/packages")
    def test_killed_hard_it_takes_along_what_it_had_started(self):
        demo = self.begin("--quick")
        harness.wait_until(
            lambda: any("kvasir-load" in command for command in session(demo.pid).values()),
            "the load runs", DEMO_TIMEOUT_S)
        demo.kill()
        demo.wait()
        harness.wait_until(lambda: session(demo.pid) == {}, "all has ended")

    def test_a_folder_that_cannot_be_written_is_one_line(self):
        environment = {k: v for k, v in os.environ.items() if k != "KVASIR_BUILD"}
        demo = subprocess.run(
            [sys.executable, "-c", "import pathlib, sys, demo, demo_programs\n"
             "demo_programs.BUILD = pathlib.Path('/proc/kvasir')\n"
             "sys.exit(demo.main())"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=DEMO_TIMEOUT_S, env={**environment, "PYTHONPATH": str(DEMO.parent)})
        self.assertEqual(demo.returncode, 1, demo.stderr)
        self.assertRegex(demo.stderr, r"\Ademo: .*/proc/kvasir.*\n\Z")

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
