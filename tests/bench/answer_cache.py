#!/usr/bin/env python3
"""How many requests of recorded traces repeat an earlier one exactly, so that a cache of
answers would have had theirs.

    answer_cache.py

The traces are those of ../shared/data. A request is the same where its whole prompt is: of
Mooncake the hashes of all its blocks and its length, of the agents' traces the text. Of a
conversation each turn is a request. Bounds and age do not count, nor whether its sender asked for
temperature 0, which these traces do not say: so this is the most that the cache can bring.

With several nodes each request goes to one of them at random (--seed): what each keeps by itself
has an answer only where the same node had it; what they share has it on all. The last rows are
what caches of answers are for: a run of evaluations that comes again, once and four times.
"""
import argparse
import io
import json
import pathlib
import random
import subprocess
import tarfile

HERE = pathlib.Path(__file__).resolve().parent
TRACES = HERE.parent.parent.parent / "shared" / "data" / "traces"


def unpacked(name):
    return subprocess.run(["zstd", "-dcq", TRACES / name], check=True, stdout=subprocess.PIPE).stdout


def lines(name):
    return [json.loads(line) for line in unpacked(name).splitlines()]


def members(name):
    with tarfile.open(fileobj=io.BytesIO(unpacked(name))) as tar:
        for member in tar.getmembers():
            if member.isfile():
                yield tar.extractfile(member).read()


def mooncake():
    for row in lines("mooncake_conversation_h1.jsonl.zst"):
        yield row["input_length"], tuple(row["hash_ids"])


def tau_bench():
    """What was said before each turn of the assistant's, by trial."""
    for row in lines("taubench_airline_trials_even.jsonl.zst"):
        said = []
        for message in row["traj"]:
            if message["role"] == "assistant":
                yield json.dumps(said, sort_keys=True)
            said.append(message)


def miniswe():
    rows = [json.loads(line) for text in members("lmcache_miniswe_a.tar.zst")
            for line in text.splitlines()]
    for row in sorted(rows, key=lambda row: row["timestamp"]):
        yield row["input"]


def otel():
    for text in members("otel_agent_traces.tar.zst"):
        for span in json.loads(text)["spans"]:
            asked = span["attributes"].get("gen_ai.input.messages")
            if asked is not None:
                yield span["attributes"].get("gen_ai.request.model"), asked


def again(rows, times):
    """One run after the other of the same questions."""
    return (row["question"] for _ in range(times) for row in rows)


def repeats_of(requests, nodes, rng):
    seen, count, repeats = set(), 0, 0
    for request in requests:
        at = rng.randrange(nodes)
        count += 1
        repeats += (at, request) in seen
        seen.add((at, request))
    return count, repeats


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    gsm8k = lines("gsm8k_train2000.jsonl.zst")
    for name, requests in (("Mooncake, conversation, half an hour", mooncake()),
                           ("tau-bench, airline, 50 tasks twice", tau_bench()),
                           ("mini-SWE agent, half of its sessions", miniswe()),
                           ("agents' spans of OpenTelemetry", otel()),
                           ("GSM8K, 2,000 questions twice", again(gsm8k, 2)),
                           ("GSM8K, 2,000 questions five times", again(gsm8k, 5))):
        requests = list(requests)
        for nodes in (1, 3, 8):
            count, repeats = repeats_of(requests, nodes, random.Random(args.seed))
            what = "one node, or all that share" if nodes == 1 else f"{nodes} nodes, each its own"
            print(f"{name}, {what}: {repeats} of {count} requests repeat, "
                  f"{100 * repeats / count:.1f} %")


if __name__ == "__main__":
    main()
