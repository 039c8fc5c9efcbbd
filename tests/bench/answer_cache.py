#!/usr/bin/env python3
"""How many requests of recorded traces repeat an earlier one exactly, so that a cache of
answers would have had theirs.

    answer_cache.py

The traces are those of ../shared/data. A request is the same where its whole prompt is: of
Mooncake the hashes of all its blocks and its length, of the agents' traces the text. Of a
conversation each turn is a request. Bounds and age do not count, nor whether its sender asked for
temperature 0, which these traces do not say: so this is the most that the cache can bring.
"""
import io
import json
import pathlib
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


def main():
    for name, requests in (("Mooncake, conversation, half an hour", mooncake()),
                           ("tau-bench, airline, 50 tasks twice", tau_bench()),
                           ("mini-SWE agent, half of its sessions", miniswe()),
                           ("agents' spans of OpenTelemetry", otel())):
        seen, count, repeats = set(), 0, 0
        for request in requests:
            count += 1
            repeats += request in seen
            seen.add(request)
        print(f"{name}: {repeats} of {count} requests repeat, {100 * repeats / count:.1f} %")


if __name__ == "__main__":
    main()
