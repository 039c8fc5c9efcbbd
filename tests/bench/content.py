#!/usr/bin/env python3
"""How many requests of labelled sets the rules of content.yaml send where their labels say,
and what a verdict costs.

    content.py --build BUILD [--embeddings URL --model NAME]

The sets are those of ../shared/data: questions of GSM8K (math), MT-bench (code, math, or
neither), BFCL and tau-bench (with tools: agent), meetings of QMSum (long), and questions and
paragraphs of XQuAD (languages). The rules were written by hand before the sets were looked at, and
so were the examples of the name by-example. Their vectors, and those of the questions, come of
the stand-in engine, which knows nothing of what words mean, or of a server with /v1/embeddings.
"""
import argparse
import io
import json
import pathlib
import subprocess
import sys
import tarfile

import rig

HERE = pathlib.Path(__file__).resolve().parent
TRACES = HERE.parent.parent.parent / "shared" / "data" / "traces"
RULES = HERE / "content.yaml"
TOOL = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


def unpacked(name):
    return subprocess.run(["zstd", "-dcq", TRACES / name], check=True, stdout=subprocess.PIPE).stdout


def lines(name):
    return [json.loads(line) for line in unpacked(name).splitlines()]


def members(name):
    with tarfile.open(fileobj=io.BytesIO(unpacked(name))) as tar:
        for member in tar.getmembers():
            if member.isfile():
                yield member.name, tar.extractfile(member).read()


def asked(text, expected, model="auto", **more):
    return {"model": model, "messages": [{"role": "user", "content": text}],
            "expected": expected, **more}


def gsm8k(model="auto"):
    return [asked(row["question"], "math", model) for row in lines("gsm8k_train2000.jsonl.zst")]


def mt_bench(model="auto"):
    rows = dict(members("mtbench.tar.zst"))["mt-bench/question.jsonl"].splitlines()
    for row in map(json.loads, rows):
        label = {"coding": "coder", "math": "math"}.get(row["category"], "small")
        yield f"MT-bench, {label}", asked(row["turns"][0], label, model)


def bfcl():
    for name, text in members("bfcl_dev.tar.zst"):
        if "multi_turn_base" in name:
            for row in map(json.loads, text.splitlines()):
                yield asked(row["question"][0][0]["content"], "agent", tools=TOOL)


def tau_bench():
    for row in lines("taubench_airline_trials_even.jsonl.zst"):
        talk = [m for m in row["traj"] if m.get("content") and m["role"] in ("system", "user")]
        yield {"model": "auto", "messages": talk[:2], "tools": TOOL, "expected": "agent"}


def qmsum():
    for row in lines("qmsum_val.jsonl.zst"):
        text = "\n".join(f"{t['speaker']}: {t['content']}" for t in row["meeting_transcripts"])
        yield asked(text + "\n" + row["general_query_list"][0]["query"], "long")


def xquad(paragraphs):
    for name, text in members("xquad_dev.tar.zst"):
        language = name.split(".")[1]
        if not name.endswith(".json"):
            continue
        for article in json.loads(text)["data"]:
            for part in article["paragraphs"]:
                texts = [part["context"]] if paragraphs else [q["question"] for q in part["qas"]]
                for one in texts:
                    yield language, asked(one, language, "by-language")


def sets():
    yield "GSM8K", gsm8k()
    yield "BFCL, with tools", list(bfcl())
    yield "tau-bench, with tools", list(tau_bench())
    yield "QMSum", list(qmsum())
    yield "GSM8K, by examples", gsm8k("by-example")
    for what, pairs in (("", mt_bench()), ("by examples, ", mt_bench("by-example")),
                        ("XQuAD questions, ", xquad(False)),
                        ("XQuAD paragraphs, ", xquad(True))):
        grouped = {}
        for key, request in pairs:
            grouped.setdefault(what + key, []).append(request)
        yield from grouped.items()


def played(kvasir, requests, embeddings):
    """What route-test says of them, by line."""
    text = "\n".join(json.dumps(r, ensure_ascii=False) for r in requests)
    run = subprocess.run([kvasir, "route-test", "--rules", RULES, *embeddings], input=text.encode(),
                         stdout=subprocess.PIPE, check=False)
    if run.returncode > 1:
        sys.exit("route-test failed")
    return run.stdout.decode().splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--show", action="store_true", help="what route-test prints of each set")
    parser.add_argument("--embeddings", help="a server with /v1/embeddings")
    parser.add_argument("--model", default="e", help="its model")
    args = parser.parse_args()
    if not TRACES.is_dir():
        sys.exit(f"skipped: no {TRACES}")
    with rig.Rig() as here:
        url = args.embeddings
        if url is None:
            port = rig.free_port()
            engine = here.start([args.build / "chaos" / "kvasir-engine", "--port", str(port),
                                 "--model", args.model])
            rig.wait_until(lambda: rig.answers(port, "/health"), "the engine", engine)
            url = f"http://127.0.0.1:{port}"
        play(args, ["--embeddings", url, "--model", args.model])


def play(args, embeddings):
    print(f"{'set':28} {'requests':>8}  as expected                time")
    for name, requests in sets():
        told = played(args.build / "node" / "kvasir", requests, embeddings)
        share = next(line for line in told if "as expected (" in line)
        time = next(line for line in told if " us each" in line)
        print(f"{name:28} {len(requests):8}  {share:26} {', '.join(time.split(', ')[1:])}")
        if args.show:
            print("\n".join(told))


if __name__ == "__main__":
    main()
