#!/usr/bin/env python3
"""Every Test() asserts something: itself, or through a helper of the tests
that does, or by the signal or exit code that it expects.

    asserts.py             exit 1 when one does not
    asserts.py --selftest  plants one
"""
import pathlib
import re
import sys

ASSERTION = re.compile(r"\b(?:cr_assert|cr_expect|cr_fail|cr_fatal|CHECK|abort|_exit|exit)\w*\s*\(")
BODY = re.compile(r"^(?:Test|ParameterizedTest)\((?P<test>[^{;]*)\)\s*\{"
                  r"|^(?P<name>\w+)\([^;{}]*\)\s*\{|#define (?P<macro>\w+)\(", re.MULTILINE)
CALL = re.compile(r"\b(\w+)\s*\(")


def bodies(text):
    """(test or None, function or macro or None, its text, its offset)"""
    for found in BODY.finditer(text):
        if found["macro"]:
            end = re.compile(r"(?<!\\)\n|\Z").search(text, found.end()).end()
        else:
            end = text.find("\n}", found.end() - 1)
        yield found["test"], found["name"] or found["macro"], text[found.end():end], found.start()


def silent(files):
    """path:line: name of each test without an assertion; files: path -> text."""
    helpers, tests = {}, []
    for path, text in files.items():
        for test, name, body, offset in bodies(text):
            if test is not None:
                tests.append((path, text.count("\n", 0, offset) + 1, test, body))
            else:
                helpers[name] = helpers.get(name, "") + body
    asserting = {name for name, body in helpers.items() if ASSERTION.search(body)}
    grown = -1
    while grown != len(asserting):
        grown = len(asserting)
        asserting |= {name for name, body in helpers.items()
                      if asserting & set(CALL.findall(body))}
    for path, line, test, body in tests:
        if not (ASSERTION.search(body) or ".signal" in test or ".exit_code" in test
                or asserting & set(CALL.findall(body))):
            yield f"{path}:{line}: {' '.join(test.split())} asserts nothing"


def selftest():
    planted = {"a.c": "static void\nis(int a)\n{\n    cr_assert(a);\n}\n"
                      "Test(a, says)\n{\n    is(1);\n}\nTest(a, is_silent)\n{\n    go(1);\n}\n"}
    found = list(silent(planted))
    ok = len(found) == 1 and "is_silent" in found[0]
    print(f"asserts: {'found' if ok else 'missed'} the planted test")
    return ok


if "--selftest" in sys.argv:
    sys.exit(not selftest())
everything = {p: p.read_text() for p in sorted(pathlib.Path("tests/unit").rglob("*.[ch]"))}
faults = list(silent(everything))
for fault in faults:
    print(fault)
print(f"asserts: {len(faults)} tests assert nothing")
sys.exit(len(faults) > 0)
