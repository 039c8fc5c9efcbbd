#!/usr/bin/env python3
"""What the code owes its readers. Every C file opens with a comment that says
what it is for; every function of a public header has a comment above it, or
stands right below others that share one; no two files have one name; every
warning and error in the log has a hint, which says what follows or what to do.
Counts CHECKs, too.

    contracts.py             exit 1 on a fault
    contracts.py --selftest  plants each fault
"""
import collections
import pathlib
import re
import sys
import tempfile

ROOMS = ["node", "mesh", "index", "gossip", "storage", "chaos", "tests"]
PRIVATE = "_internal.h"
NAMES_SHARED = {"README.md", "meson.build", "__init__.py", ".clang-tidy", "run"}
# A function's name and parameters, in a declaration without comments.
FUNCTION = re.compile(r"\b([a-z_]\w*)\s*\((?!\()[^;{]*\)[\w\s(),]*[;{]")
NO_FUNCTION = re.compile(r"typedef\b|_Static_assert\b|extern\b(?!.*\()|struct \w+ \{|enum\b.*\{|union \w+ \{")
CHECK = re.compile(r"\bCHECK(?:_SLOW)?\(")
LOUD = re.compile(r"\bLOG_(?:WARNING|ERROR)\((?!\.)")
COMPUTED = re.compile(r"^ +log_write\((?!.*(?:LOG_LEVEL_INFO|\\$))", re.MULTILINE)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def declarations(text):
    """(line, declaration, has a comment) at file level, as clang-format lays
    them out. Below one comment all are covered up to a blank line."""
    covered, chunk, first = False, "", 0
    lines = iter(enumerate(text.splitlines(), 1))
    for n, line in lines:
        if not chunk and line.startswith("/*"):
            while "*/" not in line:
                n, line = next(lines)
            covered = True
        elif not chunk and line.startswith("#"):
            while line.endswith("\\"):
                n, line = next(lines)
        elif not chunk and not line.strip():
            covered = False
        else:
            first = first if chunk else n
            chunk += line + "\n"
            bare = COMMENT.sub("", chunk).rstrip()
            if bare.count("{") == bare.count("}") and bare.endswith((";", "}")):
                yield first, bare, covered or "/*" in chunk
                chunk = ""


def functions(text):
    """(line, name, declaration, has a comment) of prototypes and bodies."""
    for line, declaration, covered in declarations(text):
        found = FUNCTION.search(declaration)
        if found and not NO_FUNCTION.match(declaration):
            yield line, found[1], declaration, covered


def opens(text):
    """Whether a comment comes before anything but includes and definitions."""
    return re.match(r"(?:\s*#(?:\\\n|[^\n])*\n|\s)*/\*", text) is not None


def without_hint(text):
    """Lines of log calls whose reader is left alone."""
    text = COMMENT.sub(lambda comment: "\n" * comment[0].count("\n"), text)
    for call in LOUD.finditer(text):
        if text[text.rfind("\n", 0, call.start()) + 1:].startswith("#define"):
            continue
        at, depth = call.end(), 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        if 'KV("hint"' not in text[call.start():at]:
            yield text.count("\n", 0, call.start()) + 1
    for call in COMPUTED.finditer(text):  # its fields are put together before it
        if 'KV("hint"' not in text[:call.start()]:
            yield text.count("\n", 0, call.start()) + 1


def faults(root):
    names = collections.defaultdict(list)
    for room in ROOMS:
        for path in sorted(p for p in (root / room).rglob("*") if p.is_file()):
            where = path.relative_to(root)
            if path.name not in NAMES_SHARED and "corpus" not in where.parts:
                names[path.name].append(where)
            if path.suffix not in (".c", ".h"):
                continue
            text = path.read_text(errors="replace")
            if not opens(text) and not re.match(r"test_|fuzz_|bench_", path.name):
                yield f"{where}:1: does not open with what it is for"
            if room == "node":
                for line in without_hint(text):
                    yield f"{where}:{line}: a warning without a hint"
            if path.suffix == ".h" and room != "tests" and not path.name.endswith(PRIVATE):
                for line, name, _, covered in functions(text):
                    if not covered:
                        yield f"{where}:{line}: {name}() has no contract"
    for same in names.values():
        if len(same) > 1:
            yield f"{same[0]}: named as {', '.join(map(str, same[1:]))}"


def checks(root):
    """CHECKs per function of each room: text, most in need first."""
    for room in ROOMS[:-1]:
        bodies = [d for p in (root / room).rglob("*.c")
                  for _, _, d, _ in functions(p.read_text(errors="replace")) if d.endswith("}")]
        with_one = sum(CHECK.search(d) is not None for d in bodies)
        count = sum(len(CHECK.findall(d)) for d in bodies)
        yield (f"checks: {room}: {count} in {len(bodies)} functions,"
               f" {count / max(1, len(bodies)):.2f} each; {with_one} functions have one")


def selftest():
    """Each kind of fault, planted, and what must not be taken for one."""
    good = "/* For a test. */\n\n/* Adds. */\nint add(int a,\n        int b);\nint sub(int a);\n"
    planted = {
        "no contract": {"node/a.h": good + "\nint bare(void);\n"},
        "what it is for": {"node/a.c": '#include "node/a.h"\n'},
        "without a hint": {"node/a.c": '/* x */\nvoid\nf(void)\n{\n    LOG_ERROR("bad", KV("n", 1));\n}\n'},
        "a warning without a hint": {
            "node/a.c": "/* x */\nvoid\nf(void)\n{\n    log_write(&s, level, f, 1);\n}\n"},
        "named as": {"node/a.h": good, "mesh/a.h": good},
    }
    fine = {"node/a.h": good + "\nstruct s {\n    int (*f)(int); /* of */\n\n    int n;\n};\n",
            "node/c.c": '/* x */\n#define LOG_ERROR(...) x\nvoid\nf(void)\n{\n'
                        '    LOG_WARNING("a", KV("hint", "mend it"));\n}\n',
            "node/b_internal.h": good + "\nint bare(void);\n", "README.md": "x"}
    missed = []
    for wanted, files in [*planted.items(), (None, fine)]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                file = pathlib.Path(folder, name)
                file.parent.mkdir(exist_ok=True)
                file.write_text(text)
            found = list(faults(pathlib.Path(folder)))
        if len(found) != (wanted is not None) or wanted and wanted not in found[0]:
            missed.append(f"{wanted}: {found}")
    for line in missed:
        print(line)
    print(f"contracts: {len(missed)} planted faults missed")
    return len(missed)


def main():
    if "--selftest" in sys.argv:
        sys.exit(selftest() > 0)
    found = list(faults(pathlib.Path(".")))
    for line in [*found, *checks(pathlib.Path("."))]:
        print(line)
    print(f"contracts: {len(found)} faults")
    sys.exit(len(found) > 0)


main()
