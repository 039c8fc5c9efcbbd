#!/usr/bin/env python3
"""The last lines of tests/run: adds up what meson's logs say.

summary.py SANITIZER_DIR testlog.json...   exit 1 when anything failed, left a
sanitizer report, when a log is missing or empty.

meson's other report, for JUnit, takes a test that ran out of time for a good
one, and so one that dies after its last subtest. A program of subtests that ran
none has failed.
"""
import json
import pathlib
import re
import sys

SUBTEST = re.compile(r"^(not )?ok\b.*$", re.MULTILINE)

reports, logs = pathlib.Path(sys.argv[1]), sys.argv[2:]
passed = 0
failed, skipped = [], []


def speaks_tap(test):
    """Whether it was told to, as Criterion is, and not whether it did."""
    return any(part.startswith("--tap") for part in test.get("command", []))


def add(test):
    """Counts one program: by its subtests where it has them."""
    global passed
    name, result, said = test["name"], test["result"], test.get("stdout", "")
    subtests = list(SUBTEST.finditer(said)) if "TAP version" in said else []
    bad = [line.group(0) for line in subtests if line.group(1)]
    passed += len(subtests) - len(bad)
    if result == "SKIP":
        why = re.search(r"skipped:? *(.*)", said + test.get("stderr", ""))
        skipped.append(f"{name}: {why.group(1)}" if why else name)
    elif result == "OK" and not subtests and speaks_tap(test):
        failed.append(f"{name}: ran no subtest")
    elif result == "OK" and not bad:
        passed += not subtests
    elif result == "EXPECTEDFAIL":  # one with a planted bug, which it found
        passed += 1
    else:
        failed.extend(f"{name}: {line}" for line in bad or [result.lower()])


for log in logs:
    try:
        tests = pathlib.Path(log).read_text(errors="replace").splitlines()
    except OSError as error:
        tests = []
        print(error)
    if not tests:
        failed.append(f"{log} holds no test")
    for line in tests:
        add(json.loads(line))
for report in sorted(reports.iterdir()):
    print(report.read_text(errors="replace")[:4000])
    failed.append(f"a sanitizer report, {report}")
for name in skipped:
    print("skipped:", name)
for name in failed:
    print("failed:", name)
print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
sys.exit(len(failed) > 0)
