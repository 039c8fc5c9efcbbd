"""The chains and events of bench_peers.c through Dynamo's tree, for peers.py: a
child of its own with a Python that has ai-dynamo-runtime.

    peers_dynamo.py CHAINS [QUESTIONS]

Prints the JSON of bench_peers.c. Its events are JSON and have hashes where an
engine's have tokens; processor time is of all threads, the calls are in it.
"""
import json
import os
import statistics
import sys
import time

from dynamo._core import RadixTree  # pylint: disable=import-error

WORKERS, CHAIN, EVENT = 64, 512, 32
MASK = (1 << 64) - 1


def mix(x):
    x = x + 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def name_of(worker, chain, block):
    return mix((worker << 32 | chain) << 16 | block)


def event_of(number, worker, chain, at):
    names = [name_of(worker, chain, at + i) for i in range(EVENT)]
    return json.dumps({"event_id": number, "data": {"stored": {
        "parent_hash": name_of(worker, chain, at - 1) if at else None,
        "blocks": [{"block_hash": name, "tokens_hash": mix(name)} for name in names]}}}).encode()


def resident_bytes():
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def fill(tree, chains):
    """The processor time that it took to apply all events."""
    took, number = 0.0, 0
    for at in range(0, chains * CHAIN, EVENT):
        number += 1
        events = [event_of(number, worker, at // CHAIN, at % CHAIN) for worker in range(WORKERS)]
        start = time.process_time()
        for worker, event in enumerate(events):
            tree.apply_event(worker, event)
        tree.find_matches([1])  # after all of them: a thread of the tree's applies
        took += time.process_time() - start
    return took


def ask(tree, chains, questions, salt, expected):
    """The median in us of look-ups that find `expected` blocks."""
    took = []
    for i in range(questions):
        chain = mix(i) % chains
        hashes = [mix(name_of(i % WORKERS, chain, k)) ^ salt for k in range(CHAIN)]
        start = time.perf_counter()
        found = tree.find_matches(hashes)
        took.append(time.perf_counter() - start)
        if list(found.scores.values()) != expected:
            raise SystemExit(f"{found.scores} are not {expected}")
    return statistics.median(took) * 1e6


def main():
    chains = int(sys.argv[1])
    questions = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    tree = RadixTree()
    tree.find_matches([1])
    before, blocks = resident_bytes(), chains * CHAIN * WORKERS
    took = fill(tree, chains)
    grown = resident_bytes() - before
    print(json.dumps({"blocks": blocks, "bytes": grown / blocks, "blocks_per_s": blocks / took,
                      "match_us": ask(tree, chains, questions, 0, [CHAIN]),
                      "nothing_us": ask(tree, chains, questions, 1, [])}))


if __name__ == "__main__":
    main()
