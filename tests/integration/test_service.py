"""The unit file of the package, as systemd's own tools read it."""
import pathlib
import re
import shutil
import subprocess
import unittest

import harness

UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "kvasir.service"
EXPOSURE_MAX = 25  # tenths; 10.0 is a service without any protection


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed")
class Service(harness.Case):
    def setUp(self):
        super().setUp()
        # Its program and user come with the package.
        text = UNIT.read_text()
        for old, new in {"/usr/bin/kvasir ": "/bin/true ", "=kvasir\nGroup=kvasir\n":
                         "=daemon\nGroup=daemon\n"}.items():
            self.assertIn(old, text)
            text = text.replace(old, new)
        self.unit = self.folder / "kvasir.service"
        self.unit.write_text(text)

    def analyze(self, *words):
        return subprocess.run(["systemd-analyze", *words, self.unit], capture_output=True,
                              text=True, timeout=60, check=False)

    def test_systemd_reads_all_of_it(self):
        told = self.analyze("verify", "--man=no")
        self.assertEqual((told.returncode, told.stderr), (0, ""))

    def test_it_may_bound_itself(self):
        """A call that the filter does not have would kill the node."""
        allowed = " ".join(re.findall(r"(?m)^SystemCallFilter=(.*)$", self.unit.read_text()))
        source = (UNIT.parents[1] / "node" / "base" / "confine.c").read_text()
        needed = set(re.findall(r"SYS_(landlock_\w+)", source))
        self.assertGreater(len(needed), 2)
        self.assertLessEqual(needed, set(allowed.split()))

    def test_what_it_may_do_is_bounded(self):
        told = self.analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}",
                            "--no-pager")
        if "unrecognized option" in told.stderr:
            self.skipTest("this systemd-analyze judges running services alone")
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)


if __name__ == "__main__":
    harness.main()
