#!/usr/bin/env python3
"""Every C file is as clang-format would write it."""
import shutil
import subprocess
import sys

SKIP = 77  # meson's exit code for a skipped test

tool = shutil.which("clang-format") or shutil.which("clang-format-14")
if tool is None:
    print("skipped: no clang-format on this machine")
    sys.exit(SKIP)
listed = subprocess.run(["git", "ls-files", "*.c", "*.h"], text=True,
                        capture_output=True)
if listed.returncode != 0:
    print("skipped: not a git checkout")
    sys.exit(SKIP)
bad = 0
for path in listed.stdout.split():
    run = subprocess.run([tool, "--dry-run", "-Werror", path], text=True,
                         capture_output=True)
    if run.returncode != 0:
        print(run.stderr.splitlines()[0] if run.stderr else path)
        bad += 1
print(f"format: {bad} files differ")
sys.exit(bad > 0)
