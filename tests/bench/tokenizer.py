#!/usr/bin/env python3
"""node/tokenizer beside the libraries `tokenizers`, `tiktoken` and `fastokens`.

    tokenizer.py --build BUILD [MODEL...]   each MODEL a folder with tokenizer.json

One core, one process each, the same texts: prompts of 2, 32 and 400 KB of
../shared/data, prose, code, Chinese and mixed. Prints MB/s (the best of several
rounds, so caches are warm) and the ratio to the fastest of the others. Runs with
a Python that has the packages; what is missing is left out.
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
HERE = pathlib.Path(__file__).resolve().parent
TRACES = HERE.parent.parent.parent / "shared" / "data" / "traces"
SIZES = [2 << 10, 32 << 10, 400 << 10]


def data(name, member=None):
    command = ["zstd", "-dcq", TRACES / name] if member is None else ["tar", "--zstd", "-xOf", TRACES / name, "--wildcards", member]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "replace")


def texts():
    meetings = [json.loads(line) for line in data("qmsum_val.jsonl.zst").splitlines()]
    prose = "\n".join(turn["content"] for m in meetings for turn in m["meeting_transcripts"])
    code = "".join(p.read_text() for p in sorted(HERE.parent.parent.glob("node/*/*.c")))
    chinese = "\n".join(p["context"] for a in json.loads(data("xquad_dev.tar.zst", "*xquad.zh.json"))["data"] for p in a["paragraphs"])
    mixed = "".join(a + b + c for a, b, c in zip(*[[t[i:i + 500] for i in range(0, 150_000, 500)] for t in (prose, code, chinese)]))
    return {"prose": prose, "code": code, "chinese": chinese, "mixed": mixed}


def best(call, rounds):
    least = 1e9
    for _ in range(rounds):
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
    return least


def rivals(path):
    out = {}
    try:
        import tokenizers
        library = tokenizers.Tokenizer.from_file(str(path))
        out["tokenizers"] = lambda t: library.encode_batch_fast([t], add_special_tokens=False)
    except ImportError:
        pass
    try:
        import fastokens
        fast = getattr(fastokens, "Tokenizer", None) and fastokens.Tokenizer.from_file(str(path))
        if fast:
            out["fastokens"] = lambda t: fast.encode(t)
    except Exception as error:
        print("fastokens:", error)
    try:
        import tiktoken
        spec = json.loads(path.read_text())
        vocabulary = spec["model"]["vocab"]
        keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
        rest = [b for b in range(256) if b not in keep]
        byte_of = {chr(b) if b in keep else chr(256 + rest.index(b)): b for b in range(256)}
        pattern = spec["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
        ranks = {bytes(byte_of[c] for c in token): id for token, id in vocabulary.items() if all(c in byte_of for c in token)}
        encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
        out["tiktoken"] = lambda t: encoding.encode_ordinary(t)
    except (ImportError, KeyError, TypeError):
        pass
    return out


def ours(build, path, text, rounds):
    framed = struct.pack("<I", len(text)) + text
    done = subprocess.run([build / "tests" / "integration" / "tokenize_many", path, "", str(rounds)], input=framed, capture_output=True, check=True)
    return float(done.stdout.split()[0]), int(done.stdout.split()[2])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    for model in options.models:
        path = model / "tokenizer.json"
        others = rivals(path)
        for kind, whole in texts().items():
            for size in SIZES:
                raw = whole.encode()[:size]
                text = raw.decode("utf-8", "ignore")
                rounds = max(3, min(60, (4 << 20) // max(1, len(raw))))
                seconds, memory = ours(options.build, path, text.encode(), rounds)
                rate = {n: len(raw) / best(lambda c=c: c(text), rounds) / 1e6 for n, c in others.items()}
                mine = len(raw) / seconds / 1e6
                print(f"{model.name:10} {kind:8} {len(raw) >> 10:4} KB  kvasir {mine:7.1f} MB/s  " + "  ".join(f"{n} {r:6.1f}" for n, r in rate.items())
                      + f"  = {mine / max(rate.values(), default=1):.1f} x the fastest  ({memory >> 20} MiB)", flush=True)


main()
