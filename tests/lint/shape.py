#!/usr/bin/env python3
"""House limits a machine can see: file length, words left behind, sleeps in
tests, fixtures that no test runs with, atomics outside the index, suffixes of
numbers in lower case, two files with one name, and what stands at the top level."""
import collections
import pathlib
import re
import sys

FILE_LINES_MAX = 800
TOP = {"node", "mesh", "index", "gossip", "storage", "tests", "chaos", "deploy",
       "meson.build", "README.md", "LICENSE"}
LEFT_BEHIND = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
SLEEP = re.compile(r"\b(u|nano)?sleep\s*\(")
ATOMIC = re.compile(r"<stdatomic\.h>|__atomic_|_Atomic\b")
STRING = re.compile(r'"(\\.|[^"\\])*"')
SUFFIX = re.compile(r"\b(0[xX][0-9a-fA-F]+|[0-9]+)(u|l|u?ll?|ll?u)\b|\b[0-9]+\.[0-9]*f\b")
ROOMS = ["node", "mesh", "index", "gossip", "storage", "chaos", "tests"]

faults = []
for entry in pathlib.Path(".").iterdir():
    if not entry.name.startswith((".", "build")) and entry.name not in TOP:
        faults.append(f"{entry}: does not belong at the top level")
named = collections.defaultdict(list)
for room in ROOMS:
    for path in sorted(pathlib.Path(room).rglob("*.[ch]")):
        named[path.name].append(path.as_posix())
        lines = path.read_text(errors="replace").splitlines()
        if len(lines) > FILE_LINES_MAX:
            faults.append(f"{path}: {len(lines)} lines, {FILE_LINES_MAX} at most")
        for n, line in enumerate(lines, 1):
            if LEFT_BEHIND.search(line):
                faults.append(f"{path}:{n}: left behind: {line.strip()}")
            if room == "tests" and SLEEP.search(line):
                faults.append(f"{path}:{n}: a test must not sleep")
            if room not in ("index", "tests") and ATOMIC.search(line):
                faults.append(f"{path}:{n}: atomics live in index/ only")
            if SUFFIX.search(STRING.sub("", line)):
                faults.append(f"{path}:{n}: a number's suffix is in capitals: {line.strip()}")
faults += [f"one name for {' and '.join(paths)}"
           for paths in named.values() if len(paths) > 1]
for path in sorted(pathlib.Path("tests/unit").rglob("test_*.c")):
    text = path.read_text()
    for suite in re.findall(r"^TestSuite\((\w+)", text, re.MULTILINE):
        if not re.search(rf"^Test\({suite},", text, re.MULTILINE):
            faults.append(f"{path}: no test runs with the fixture of {suite}")
for fault in faults:
    print(fault)
print(f"shape: {len(faults)} faults")
sys.exit(len(faults) > 0)
