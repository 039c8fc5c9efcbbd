#!/usr/bin/env python3
"""node/tokenizer beside `tokenizers`, `tiktoken`, `fastokens` and `bpe-openai`.

    tokenizer.py --build BUILD [MODEL...]   each MODEL a folder with tokenizer.json

One core, one process each, the same texts: different prompts of 2, 32 and 400 KB
of ../shared/data, prose, code, Chinese and mixed, and 10,000 short ones. A round
encodes all prompts of one kind and size. Prints MB/s of the first round (texts
never seen, caches of words empty) and of the best of 12 (words known; a library
that keeps whole texts or their starts meets another text in between), and the
ratio to the fastest of the others in each; then the memory of the model. What is
no Python is measured TURNS times, in turns, and the best of them counts.

Runs with a Python that has the packages `tokenizers` and `tiktoken`; what is
missing is left out. fastokens and bpe-openai are crates, run by
tokenizer_rivals/ when there is a cargo; bpe-openai has vocabularies of its own
and is compared for the model gpt4o only (o200k).
"""
import argparse
import json
import os
import pathlib
import shutil
import struct
import subprocess
import time

os.environ.update(RAYON_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
HERE = pathlib.Path(__file__).resolve().parent
TRACES = HERE.parent.parent.parent / "shared" / "data" / "traces"
SIZES = [2 << 10, 32 << 10, 400 << 10]
ROUND_BYTES = 1 << 20
ROUNDS = 12
TURNS = 4
IN_PYTHON = {"tokenizers", "tiktoken"}


def data(name, member=None):
    command = ["zstd", "-dcq", TRACES / name] if member is None else ["tar", "--zstd", "-xOf", TRACES / name, "--wildcards", member]
    return subprocess.run(command, check=True, capture_output=True).stdout.decode("utf-8", "replace")


def texts():
    meetings = [json.loads(line) for line in data("qmsum_val.jsonl.zst").splitlines()]
    turns = [turn["content"] for m in meetings for turn in m["meeting_transcripts"]]
    code = "".join(p.read_text() for p in sorted(HERE.parent.parent.glob("node/*/*.c")))
    paragraphs = [p for a in json.loads(data("xquad_dev.tar.zst", "*xquad.zh.json"))["data"] for p in a["paragraphs"]]
    chinese = "\n".join(p["context"] + "\n" + "\n".join(q["question"] for q in p["qas"]) for p in paragraphs)
    prose = "\n".join(turns)
    mixed = "".join(a + b + c for a, b, c in zip(*[[t[i:i + 500] for i in range(0, len(chinese), 500)] for t in (prose, code, chinese)]))
    return {"prose": prose, "code": code, "chinese": chinese, "mixed": mixed}, turns[:10_000]


def prompts():
    """(kind, size in words, prompts): prompts of one size, ROUND_BYTES of them at most."""
    kinds, turns = texts()
    for kind, whole in kinds.items():
        raw = whole.encode()[:ROUND_BYTES]
        for size in SIZES:
            parts = [raw[at:at + size].decode("utf-8", "ignore") for at in range(0, max(1, len(raw) - size + 1), size)]
            yield kind, f"{min(size, len(raw)) >> 10:4} KB", parts
    yield "turns", f"{len(turns):5} of", turns


def measured(encode, parts):
    first, best = None, 1e9
    for _ in range(ROUNDS):
        start = time.process_time()
        for part in parts:
            encode(part)
        took = time.process_time() - start
        first = took if first is None else first
        best = min(best, took)
    return first, best


def framed(parts):
    return b"".join(struct.pack("<I", len(p)) + p for p in (part.encode() for part in parts))


def run(command, parts):
    done = subprocess.run([*command, str(ROUNDS)], input=framed(parts), capture_output=True, check=True)
    return [float(word) for word in done.stdout.split()]


def crates():
    """The driver of the crates, built where there is a cargo; else None."""
    cargo = shutil.which("cargo")
    if cargo is None:
        print("fastokens, bpe-openai: left out, no cargo")
        return None
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", pathlib.Path.home() / ".cache" / "kvasir-rivals"))
    done = subprocess.run([cargo, "build", "--release", "--quiet", "--manifest-path", HERE / "tokenizer_rivals" / "Cargo.toml", "--target-dir", target])
    return target / "release" / "tokenizer_rivals" if done.returncode == 0 else None


def rivals(path, driver):
    """Names and functions from prompts to seconds."""
    out = {}
    if driver is not None:
        fastokens = [driver, "fastokens", path]
        if subprocess.run([*fastokens, "1"], input=framed(["a"]), capture_output=True).returncode == 0:
            out["fastokens"] = lambda parts: run(fastokens, parts)
        else:
            print("fastokens: left out, it does not read this file")
        if path.parent.name == "gpt4o":
            out["bpe-openai"] = lambda parts: run([driver, "bpe-openai", "o200k"], parts)
    try:
        import tokenizers
        library = tokenizers.Tokenizer.from_file(str(path))
        out["tokenizers"] = lambda parts: measured(lambda t: library.encode_batch_fast([t], add_special_tokens=False), parts)
    except ImportError:
        print("tokenizers: left out, no package")
    try:
        import tiktoken
        encoding = tiktoken.Encoding("x", **tiktoken_spec(json.loads(path.read_text())))
        out["tiktoken"] = lambda parts: measured(encoding.encode_ordinary, parts)
    except (ImportError, KeyError, TypeError) as error:
        print("tiktoken: left out,", error)
    return out


def tiktoken_spec(spec):
    vocabulary = spec["model"]["vocab"]
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in keep]
    byte_of = {chr(b) if b in keep else chr(256 + rest.index(b)): b for b in range(256)}
    return {"pat_str": spec["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"], "special_tokens": {},
            "mergeable_ranks": {bytes(byte_of[c] for c in token): id for token, id in vocabulary.items() if all(c in byte_of for c in token)}}


def ours(build, path, parts):
    return run([build / "tests" / "integration" / "tokenize_many", path, ""], parts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    driver = crates()
    for model in options.models:
        path = model / "tokenizer.json"
        others = rivals(path.resolve(), driver)
        for kind, size, parts in prompts():
            total = sum(len(p.encode()) for p in parts) / 1e6
            *_, held = ours(options.build, path, parts)
            seconds = {}
            for turn in range(TURNS):
                for name, call in {"kvasir": lambda parts: ours(options.build, path, parts), **others}.items():
                    if turn == 0 or name not in IN_PYTHON:
                        seconds.setdefault(name, []).append(call(parts)[:2])
            rates = {name: [total / min(took) for took in zip(*all_turns)] for name, all_turns in seconds.items()}
            line = "  ".join(f"{name} {first:5.1f} {best:6.1f}" for name, (first, best) in rates.items())
            ratios = [rates["kvasir"][i] / max((r[i] for n, r in rates.items() if n != "kvasir"), default=1) for i in (0, 1)]
            print(f"{model.name:10} {kind:8} {size} x {len(parts):5}  {line}  = {ratios[0]:.1f}, {ratios[1]:.1f} x the fastest", flush=True)
        print(f"{model.name:10} holds {held / 1e6:.1f} MB; beside it each thread's cache of words, up to 6 MiB", flush=True)


main()
