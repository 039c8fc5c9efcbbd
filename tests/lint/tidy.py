#!/usr/bin/env python3
"""Runs clang-tidy over the product and its tests: tidy.py BUILD [FILE...]

BUILD is a build directory with a compile_commands.json; FILE... are paths to
check instead of all. The checks are .clang-tidy's but for clang's static
analyzer, which takes ten times as long: --deep runs it, too, over the product.
Prints each finding once. Exit code 1 on a finding, 77 without
clang-tidy.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77  # meson's exit code for a skipped test
ROOMS = ("node", "mesh", "index", "gossip", "storage", "chaos", "tests")
FINDING = re.compile(r"^(\S+?):(\d+:\d+): (?:error|warning): (.*)$")
ROOT = pathlib.Path(__file__).resolve().parents[2]

deep = "--deep" in sys.argv
build, *wanted = [a for a in sys.argv[1:] if a != "--deep"]
build = pathlib.Path(build).resolve()
tool = shutil.which("clang-tidy") or shutil.which("clang-tidy-14")
if tool is None:
    print("skipped: no clang-tidy on this machine")
    sys.exit(SKIP)
command = [tool, "--quiet"]
if not deep:
    command += ["--checks=-clang-analyzer-*"]


def sources():
    """How each file to check is compiled, by its path relative to the root. Of a file
    that is built more than once the first is taken: clang-tidy would check them all."""
    database = build / "compile_commands.json"
    if not database.exists():
        sys.exit(f"tidy: {database} is missing")
    every = {}
    for entry in json.loads(database.read_text()):
        file = os.path.relpath((build / entry["file"]).resolve(), ROOT)
        every.setdefault(file, entry)
    unknown = sorted(set(wanted) - set(every))
    if unknown:
        sys.exit(f"tidy: {database} does not know {', '.join(unknown)}: "
                 f"run ninja -C {build} build.ninja, or mind the path")
    rooms = ROOMS[:-1] if deep else ROOMS
    return {f: every[f] for f in sorted(every) if f.partition("/")[0] in rooms
            and (not wanted or f in wanted)}


def check(file):
    """What clang-tidy says of one file: [(place and text, lines after it)]."""
    done = subprocess.run(["nice", *command, file], cwd=ROOT, text=True,
                          errors="replace", capture_output=True)
    findings = []
    for line in done.stdout.splitlines():
        found = FINDING.match(line)
        if found:
            place = os.path.relpath(build / found[1], ROOT)  # as the compiler's
            findings.append((f"{place}:{found[2]}: {found[3]}", []))
        elif findings:
            findings[-1][1].append(line)
    if done.returncode != 0 and not findings:
        findings.append((f"{file}: clang-tidy failed", [done.stderr]))
    return findings


files, seen = sources(), set()
if not files:
    sys.exit("tidy: no file to check")
with (tempfile.TemporaryDirectory() as once,
      concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool):
    pathlib.Path(once, "compile_commands.json").write_text(json.dumps([*files.values()]))
    command += ["-p", once]
    for findings in pool.map(check, files):
        for text, context in findings:
            if text not in seen:
                seen.add(text)
                print("\n".join([text, *context]), flush=True)
print(f"tidy: {len(seen)} findings in {len(files)} files")
sys.exit(len(seen) > 0)
