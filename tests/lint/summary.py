#!/usr/bin/env python3
"""The last lines of tests/run: adds up what meson's logs say.

summary.py SANITIZER_DIR testlog.json...   exit 1 when anything failed, left a
sanitizer report, when a log is missing or empty.
summary.py --selftest                      whether it counts what it should

meson's other report, for JUnit, takes a test that ran out of time for a good
one, and so one that dies after its last subtest. A program of subtests that ran
none has failed. What a program skips inside itself counts as skipped, and a
skipped subtest does not count as passed.
"""
import json
import pathlib
import re
import sys
import tempfile

SUBTEST = re.compile(r"^(not )?ok\b.*$", re.MULTILINE)
SKIPPED_SUBTEST = re.compile(r"^ok\b[ -]*(.*?) *# *SKIP *(.*)$")
# Python's unittest, chaos/netns, and programs that say so.
SKIPPED_INSIDE = re.compile(r"^(?:.* \.\.\. skipped ['\"](.*)['\"]|skipped:? +(.*)|"
                            r"(\S.*: skipped, .*))$", re.MULTILINE)
UNITTEST = re.compile(r"^Ran (\d+) tests? in ", re.MULTILINE)


def speaks_tap(test):
    """Whether it was told to, as Criterion is, and not whether it did."""
    return any(part.startswith("--tap") for part in test.get("command", []))


class Sum:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add_subtests(self, name, lines):
        """Counts a program's subtests and returns those that failed."""
        bad = [line for line in lines if line.startswith("not ")]
        for line in lines:
            skipped = SKIPPED_SUBTEST.match(line)
            if skipped:
                self.skipped.append(f"{name}, {skipped.group(1)}: {skipped.group(2)}")
            else:
                self.passed += line not in bad
        return bad

    def add(self, test):
        """Counts one program: by its subtests where it has them."""
        name, result = test["name"], test["result"]
        said, also = test.get("stdout", ""), test.get("stderr", "")
        lines = ([found.group(0) for found in SUBTEST.finditer(said)]
                 if "TAP version" in said else [])
        bad = self.add_subtests(name, lines)
        ran = UNITTEST.search(also) or UNITTEST.search(said)
        if result == "SKIP":
            why = re.search(r"skipped:? *(.*)", said + also)
            self.skipped.append(f"{name}: {why.group(1)}" if why else name)
            return
        if not lines:
            self.skipped.extend(f"{name}: {next(filter(None, found.groups()))}"
                                for found in SKIPPED_INSIDE.finditer(said + "\n" + also))
        if result == "OK" and not lines and speaks_tap(test):
            self.failed.append(f"{name}: ran no subtest")
        elif result == "OK" and ran and ran.group(1) == "0":
            self.failed.append(f"{name}: ran no test")
        elif result == "OK" and not bad:
            self.passed += not lines
        elif result == "EXPECTEDFAIL":  # one with a planted bug, which it found
            self.passed += 1
        else:
            self.failed.extend(f"{name}: {line}" for line in bad or [result.lower()])

    def add_log(self, path):
        try:
            tests = pathlib.Path(path).read_text(errors="replace").splitlines()
        except OSError as error:
            tests = []
            print(error)
        if not tests:
            self.failed.append(f"{path} holds no test")
        for line in tests:
            self.add(json.loads(line))

    def tell(self):
        for name in self.skipped:
            print("skipped:", name)
        for name in self.failed:
            print("failed:", name)
        print(f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped")


def selftest():
    tap = ["x", "--tap"]
    cases = [  # a test of meson's log; passed, failed, skipped
        ({"result": "OK"}, (1, 0, 0)),
        ({"result": "TIMEOUT"}, (0, 1, 0)),
        ({"result": "EXPECTEDFAIL"}, (1, 0, 0)),
        ({"result": "SKIP", "stdout": "skipped: no root"}, (0, 0, 1)),
        ({"result": "OK", "command": tap}, (0, 1, 0)),
        ({"result": "OK", "command": tap, "stdout": "TAP version 13\n1..0\n"}, (0, 1, 0)),
        ({"result": "OK", "command": tap, "stdout":
          "TAP version 13\nok - a::c  (0.00s)\nok - a::b  # SKIP no IPv6\n"}, (1, 0, 1)),
        ({"result": "FAIL", "command": tap, "stdout":
          "TAP version 13\nok - a::c\nnot ok - a::b\n"}, (1, 1, 0)),
        ({"result": "OK", "stderr": "test_a (m.T.test_a) ... ok\n"
          "test_b (m.T.test_b) ... skipped 'no dnsmasq'\nRan 2 tests in 1s\n"}, (1, 0, 1)),
        ({"result": "OK", "stderr": "Ran 0 tests in 0.000s\n"}, (0, 1, 0)),
        ({"result": "OK", "stdout": "kept    a (1.0 s): 7\nskipped b (0.1 s): \n"}, (1, 0, 1)),
        ({"result": "OK", "stdout": "x.zst: skipped, no such trace\n"}, (1, 0, 1)),
    ]
    for test, expected in cases:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as log:
            json.dump({"name": "t", **test}, log)
            log.flush()
            total = Sum()
            total.add_log(log.name)
        found = (total.passed, len(total.failed), len(total.skipped))
        if found != expected:
            sys.exit(f"{test}: {found} instead of {expected}")


def main():
    if sys.argv[1:] == ["--selftest"]:
        selftest()
        return
    total = Sum()
    for log in sys.argv[2:]:
        total.add_log(log)
    for report in sorted(pathlib.Path(sys.argv[1]).iterdir()):
        print(report.read_text(errors="replace")[:4000])
        total.failed.append(f"a sanitizer report, {report}")
    total.tell()
    sys.exit(len(total.failed) > 0)


if __name__ == "__main__":
    main()
