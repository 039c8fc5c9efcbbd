#!/usr/bin/env python3
"""The last line of tests/run: adds up what meson's reports say.

summary.py SANITIZER_DIR REPORT.xml...   exit 1 when anything failed, left a
sanitizer report, or when nothing ran at all.
"""
import pathlib
import sys
import xml.etree.ElementTree as ET

reports, logs = pathlib.Path(sys.argv[1]), sys.argv[2:]
passed = failed = skipped = 0
for log in logs:
    for case in ET.parse(log).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
            print(f"failed: {case.get('classname')} {case.get('name')}")
        elif case.find("skipped") is not None:
            skipped += 1
            print(f"skipped: {case.get('classname')} {case.get('name')}")
        else:
            passed += 1
for report in sorted(reports.iterdir()):
    failed += 1
    print(f"failed: a sanitizer report\n{report.read_text(errors='replace')[:4000]}")
print(f"{passed} passed, {failed} failed, {skipped} skipped")
sys.exit(failed > 0 or passed == 0)
