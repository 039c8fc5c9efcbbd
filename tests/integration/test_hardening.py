"""What programs for users are hardened by, read off their ELF files."""
import re
import shutil
import subprocess
import unittest

import harness

PROGRAMS = ["kvasir", "kvasir-engine", "kvasir-load", "kvasir-plan", "kvasir-replay",
            "kvasir-wide"]
PROBE = harness.program("hardened")


def readelf(*options):
    return subprocess.run(["readelf", "--wide", *options], capture_output=True, text=True,
                          timeout=60, check=True).stdout


def is_sanitized(path):
    return "__asan_" in readelf("--dyn-syms", path) or "__tsan_" in readelf("--dyn-syms", path)


@unittest.skipUnless(shutil.which("readelf"), "readelf (binutils) is not installed")
class Hardening(unittest.TestCase):
    def check(self, path):
        head, dynamic = readelf("--file-header", path), readelf("--dynamic", path)
        segments, symbols = readelf("--program-headers", path), readelf("--dyn-syms", path)
        self.assertRegex(head, r"Type: +DYN \(Position-Independent Executable", path)
        self.assertRegex(segments, r"GNU_RELRO", path)
        self.assertRegex(dynamic, r"\(FLAGS(_1)?\).*\b(BIND_)?NOW\b", path)
        self.assertRegex(segments, r"GNU_STACK +\S+ \S+ \S+ \S+ \S+ RW ", path)
        self.assertNotRegex(segments, r"LOAD .* RWE ", path)
        self.assertNotRegex(dynamic, r"RPATH|RUNPATH|TEXTREL", path)
        self.assertIn("__stack_chk_fail", symbols, path)
        self.assertTrue(re.search(r"__\w+_chk@", symbols), f"{path}: nothing of FORTIFY")

    def test_the_flags_do_what_they_are_for(self):
        self.check(PROBE)
        good = subprocess.run([PROBE, "1234567"], capture_output=True, text=True, check=False)
        self.assertEqual((good.returncode, good.stdout), (0, "1234567\n"))
        bad = subprocess.run([PROBE, "12345678"], capture_output=True, text=True, check=False)
        self.assertNotEqual(bad.returncode, 0)
        self.assertIn("buffer overflow detected", bad.stderr)

    def test_every_installed_program_has_them(self):
        paths = [harness.program(name) for name in PROGRAMS]
        if is_sanitized(paths[0]):
            self.skipTest("this build has sanitizers, which take the place of the flags")
        for path in paths:
            self.check(path)


if __name__ == "__main__":
    harness.main()
