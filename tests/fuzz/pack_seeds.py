#!/usr/bin/env python3
"""Writes the fuzzers' corpora of what travels and is kept as msgpack.

    tests/fuzz/pack_seeds.py [DIRECTORY]    (default: tests/fuzz/corpus)

Written by another msgpack than the one that reads them. A file is a run of
[length u16, message]; lengths over 0xFFF0 let something else happen, as each
fuzz target says.
"""
import pathlib
import struct
import sys

import msgpack

TICK = 0xFFFF
OPERATION = 0xFFFE  # fuzz_roster
LINK_UP = 0xFFFE  # fuzz_cluster


def maps(*rows):
    return b"".join(msgpack.packb(row) for row in rows)


def run(*steps):
    """Bytes are messages, numbers are lengths that stand for something."""
    return b"".join(struct.pack("<H", s) if isinstance(s, int) else struct.pack("<H", len(s)) + s for s in steps)


# Memberships: node-1 is "me", id 1.
PING, PING_REQ, ACK, NACK, NEWS, SYNC, SYNC_ACK, REFUSE, REJOIN = range(9)
ALIVE, SUSPECT, DEAD, LEFT = range(4)


def member_id(first, second=2):
    return struct.pack("<QQ", first, second)


def record(number, name, address, state=ALIVE, i=0, by=None, second=2):
    row = {"id": member_id(number, second), "i": i, "age": 0, "s": state, "n": name, "a": address}
    if by is not None:
        row["by"] = member_id(by)
    return row


def message(kind, sender, *updates, n=0, target=None, at=None):
    head = {"k": kind, "n": n, "up": 0, "u": len(updates)}
    if target is not None:
        head["t"] = target
    if at is not None:
        head["at"] = at
    return maps(head, sender, *updates)


def me(state=ALIVE, i=0, by=None):
    return record(1, "me", "10.0.0.1:1", state, i, by, second=1)


def a(state=ALIVE):
    return record(5, "a", "10.0.0.2:1", state)


def b(state=ALIVE, by=None):
    return record(6, "b", "10.0.0.3:1", state, 0, by)


MANY = [record(100 + i, f"n{i}", f"10.0.1.{i}:1", i % 4, i) for i in range(64)]
MEMBER = {
    "accused": run(message(NEWS, a(), me(SUSPECT, 0, 5)), message(REJOIN, a(), me(DEAD, 3, 5)), TICK),
    "dead_and_back": run(message(SYNC, a(), b()), message(NEWS, a(), b(DEAD, 5)), *[TICK] * 20,
                         message(PING, b(), n=3), message(PING, b(), n=3), TICK),
    "left": run(message(SYNC, a(), b()), message(NEWS, a(LEFT), b(LEFT)), *[TICK] * 5),
    "many": run(message(SYNC_ACK, a(), *MANY), *[TICK] * 40),
    "my_name": run(message(PING, record(9, "me", "10.0.0.4:1")), *[TICK] * 3,
                   message(REFUSE, a(), record(9, "me", "10.0.0.4:1"), target=member_id(1, 1)), TICK),
    "nack": run(message(SYNC, a(), b()), *[TICK] * 4, message(NACK, a(), n=2, target=member_id(6)),
                message(ACK, b(), n=2, target=member_id(6)), *[TICK] * 4),
    "namesake": run(message(SYNC, a(), b()), message(PING, record(9, "b", "10.0.0.4:1")), *[TICK] * 8),
    "ping": run(message(PING, a(), n=7, target=member_id(1, 1)), *[TICK] * 3),
    "ping_req": run(message(PING_REQ, a(), n=7, target=member_id(6), at="10.0.0.3:1"), *[TICK] * 4),
    "suspect_dies": run(message(SYNC, a(), b()), message(NEWS, a(), b(SUSPECT, 5)), *[TICK] * 30),
    "sync": run(message(SYNC, a(), b(), me(), at="10.0.0.1:1")),
    "later": run(maps({"k": PING, "n": 1, "later": [1, {"x": None}]}, {**a(), "zone": "z"}, {"more": 2.5}), TICK),
}


# Rosters.
def entries(*rows, ask=False):
    return b"\2" + maps({"ask": ask}, *rows)


def spec(worker, version, text, **more):
    return {"id": worker, "v": version, "spec": text, **more}


ROSTER = {
    "bad": run(entries(spec("a", 2, b"s"), {"v": 5, "id": ""}), entries(spec("a" * 64, 2, b"")),
               entries(spec("a", 2**64 - 1, b"y", rm=True)), OPERATION, b"\tzz"),
    "entries": run(entries(spec("a", 2, b"url=http://a:1\n"), spec("b", 3, b"x", dr=True), ask=True), OPERATION, TICK),
    "full": run(entries(*[spec(w, i + 2, b"s") for i, w in enumerate("abcdef")]),
                entries({"id": "c", "v": 9, "rm": True, "age": 0}), entries(spec("z", 1, b"q", age=7)), *[TICK] * 9),
    "removed": run(entries(spec("a", 2, b"x")), entries({"id": "a", "v": 5, "rm": True, "age": 1000}), *[TICK] * 3,
                   entries(spec("a", 2, b"x")), *[TICK] * 6),
    "summary": run(b"\1" + maps({"d": 0}), TICK, OPERATION, b"\1" + maps({"d": 0})),
    "ties": run(entries(spec("w", 2, b"spec"), spec("w", 2, b"sped")), OPERATION, entries(spec("w", 3, b"spec", dr=True))),
}

# Bodies for fuzz_cluster, beside those of cluster_seeds.c.
def member_body(*args, **more):
    return b"\1" + message(*args, **more)


def node(number, second=2, name=None):
    return record(number, name or f"node-{number}", f"10.0.0.{number}:7946", second=second)


CLUSTER = {
    # A session, the first word of an id, is of one member only.
    "two_of_one_session": run(
        member_body(SYNC, node(3), at="10.0.0.0:7946"), TICK,
        member_body(SYNC, node(4), at="10.0.0.0:7946"), LINK_UP,
        member_body(SYNC, node(5), at="10.0.0.0:7946"),
        member_body(PING, node(3), node(0), n=7), TICK,
        member_body(PING, node(4), node(0), n=8), LINK_UP, TICK,
        member_body(PING, node(5, second=3), node(0), n=9),
        member_body(SYNC_ACK, node(5, second=3), node(0)),
        member_body(ACK, node(3), node(5, second=3), node(4), n=10, target=member_id(3)), TICK,
        member_body(ACK, node(4), node(5, second=3, name="node-6"), node(3), n=11, target=member_id(4)), LINK_UP,
        *[TICK] * 30),
}

HELLO = {"channel": 0, "min": 2, "max": 2, "cluster": "kvasir", "name": "node-1", "address": "127.0.0.1:7946",
         "nonce": 5, "echo_ctl": 6, "echo_bulk": 7}
FRAME = {
    "data": b"KVSR\2\0\3\x28" + bytes(32) + b"body",
    "hello": maps(HELLO),
    "hello_later": maps({**HELLO, "max": 3, "secret": b"\1\2"}),
}

STORAGE = {
    "root": b"\0\0KAVSNP01" + struct.pack("<II", 2, 0) + maps({
        "generation": 1, "number": 2, "taken_ms": 3, "blocks": 4, "ledger_blocks": 5, "streams": 6, "cluster": "c",
        "node": "n", "rows": struct.pack("<6Q", 9, 10, 11, 12, 13, 14)}),
}

PACK = {
    "fields": maps({"n": 300, "on": True, "text": "a word", "bin": b"\0\1"}),
    "run": maps({"n": 1}, {"n": 2}, {}),
    "types": maps({"a": None, "b": -1, "c": 1.5, "d": [1, [2, {"e": 3}]], "f": msgpack.ExtType(5, b"12345"), 7: 8}),
    "numbers": maps({str(i): 1 << i for i in range(0, 64, 7)}, {str(i): -(1 << i) for i in range(0, 64, 7)}),
    "elements": maps({"n": [0] * 62}, {"n": [0] * 63}),
    "deep": maps({"n": [[[[1]]]]}),
    "table": b"\x81\xa1n\xdd\xff\xff\xff\xff",
    "long": b"\x81\xa1n\xc6\xff\xff\xff\xff",
}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/fuzz/corpus")
    for name, files in {"member": MEMBER, "roster": ROSTER, "frame": FRAME, "cluster": CLUSTER,
                        "storage_load": STORAGE, "pack": PACK}.items():
        (root / name).mkdir(parents=True, exist_ok=True)
        for file, data in files.items():
            (root / name / file).write_bytes(data)


if __name__ == "__main__":
    main()
