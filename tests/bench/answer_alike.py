#!/usr/bin/env python3
"""How often the cache of answers gives a question the answer to another one that asks the same in
other words, and how often it should not have.

    answer_alike.py --build BUILD [--questions N] [--embeddings URL --model NAME]
                    [--held-back]

A node gets the last N questions of GSM8K (../shared/data), whose answers it keeps, and then of each
the texts that answer_alike_pairs.py makes of it: some that ask the same, others that look the
same and ask something else. Nothing of these is kept, so each is asked of the N alone. Engines are
stand-ins; vectors come of hashed words and pairs of words, or of a server with /v1/embeddings. A row
has the share of texts that get the question's answer from a cosine on: by the cosine alone, and as
the node does it, whose guard holds numbers, names and the like. Strays got another question's.

--held-back has questions as people wrote them instead: of XQuAD's in English each other one is kept,
and the rest is asked. Five of a paragraph are about the same things, and no two are meant to be the
same, so whoever gets an answer got a wrong one, but for those that are shown.
"""
import argparse
import http.server
import io
import json
import math
import pathlib
import random
import re
import subprocess
import sys
import tarfile
import threading
import urllib.request
import zlib

import answer_alike_pairs
import rig

HERE = pathlib.Path(__file__).resolve().parent
TRACE = HERE.parent.parent.parent / "shared" / "data" / "traces" / "gsm8k_train2000.jsonl.zst"
COSINES = (0.8, 0.85, 0.9, 0.95, 0.97)
CHAT = "/v1/chat/completions"


def questions(count):
    text = subprocess.run(["zstd", "-dcq", TRACE], check=True, stdout=subprocess.PIPE).stdout
    return [json.loads(line)["question"] for line in text.splitlines()][-count:]


def held_back():
    """Kept ones, and as many to ask."""
    packed = subprocess.run(["zstd", "-dcq", TRACE.with_name("xquad_dev.tar.zst")], check=True,
                            stdout=subprocess.PIPE).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        text = tar.extractfile(next(m for m in tar.getmembers() if m.name.endswith("xquad.en.json"))).read()
    asked = [q["question"].strip() for article in json.loads(text)["data"]
             for part in article["paragraphs"] for q in part["qas"]]
    return asked[::2], asked[1::2]


def play_held_back(port, kept, asked, vectors):
    got = [(text, *ask(port, text)) for text in asked]
    print(f"{len(asked)} questions held back, {'':9}" + "".join(f"{cosine:>16}" for cosine in COSINES))
    alone = [max(vectors.cosine(text, other) for other in kept) for text in asked]
    node = [cosine or 0 for _, cosine, _ in got]
    print(f"{'a wrong answer (by the cosine alone, by the node)':38}" + "".join(
        f"{sum(x >= c for x in alone):8}{sum(x >= c for x in node):8}" for c in COSINES))
    for text, cosine, whose in sorted(got, key=lambda row: -(row[1] or 0)):
        if cosine and cosine >= COSINES[0]:
            print(f"  {cosine:.3f}  {text}  <-  {whose}")


def by_words(text):
    words = re.findall(r"[a-z0-9]+", text.lower())
    numbers = [0.0] * 512
    for thing in words + [" ".join(pair) for pair in zip(words, words[1:])]:
        numbers[zlib.crc32(thing.encode()) % 512] += 1
    return numbers


class Vectors:
    """Each text's, asked for once."""

    def __init__(self, url, model):
        self.url, self.model, self.known = url, model, {}

    def of(self, text):
        if text not in self.known:
            self.known[text] = self.ask(text) if self.url else by_words(text)
        return self.known[text]

    def ask(self, text):
        body = json.dumps({"model": self.model, "input": text}).encode()
        request = urllib.request.Request(self.url.rstrip("/") + "/v1/embeddings", body,
                                         {"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["data"][0]["embedding"]

    def cosine(self, one, other):
        a, b = self.of(one), self.of(other)
        return sum(x * y for x, y in zip(a, b)) / math.sqrt(
            sum(x * x for x in a) * sum(y * y for y in b))


class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    vectors = None
    keeps = True  # answers end by themselves, so they are kept

    def log_message(self, *_):
        pass

    def say(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.say({"object": "list", "data": [{"id": "m"}, {"id": "e"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path == "/v1/embeddings":
            self.say({"data": [{"embedding": list(map(float, self.vectors.of(body["input"])))}]})
            return
        ending = "stop" if Engine.keeps else None
        self.say({"question": body["messages"][0]["content"],
                  "choices": [{"message": {"content": "1"}, "finish_reason": ending}]})


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        """A node that gave up a question has closed; others would be seen by it."""


def ask(port, text):
    """(the cosine of a hit; None: none, whose answer it was)"""
    body = json.dumps({"model": "m", "temperature": 0,
                       "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{CHAT}", body,
                                     {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        said = answer.headers.get("x-cache-similarity")
        return float(said) if said else None, json.load(answer)["question"]


def start(here, build, engine):
    """The node's port."""
    serve, admin = rig.free_port(), rig.free_port()
    process = here.start([build / "node" / "kvasir", "serve", "--listen", f"127.0.0.1:{serve}",
                          "--admin", f"127.0.0.1:{admin}", "--worker",
                          f"http://127.0.0.1:{engine.server_address[1]}",
                          "--answer_cache.bytes_max", "256MiB", "--answer_cache.semantic_model", "e",
                          "--answer_cache.semantic_threshold", "0.5",
                          "--answer_cache.semantic_wait", "10s"])
    rig.wait_until(lambda: rig.answers(admin, "/ready"), "the node", process)
    return serve, admin


def rows(port, base, vectors):
    for label, makers in (("same", answer_alike_pairs.SAME), ("other", answer_alike_pairs.OTHER)):
        for make in makers:
            pairs = [(text, make(text, random.Random(i))) for i, text in enumerate(base)]
            pairs = [(one, other) for one, other in pairs if other and other != one]
            got = [ask(port, other) for _, other in pairs]
            yield (label, make.__name__, len(pairs),
                   [vectors.cosine(*pair) for pair in pairs],
                   [cosine or 0 for cosine, _ in got],
                   sum(cosine is not None and whose != one for (cosine, whose), (one, _) in zip(got, pairs)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--questions", type=int, default=600)
    parser.add_argument("--embeddings", help="a server with /v1/embeddings")
    parser.add_argument("--model", default="", help="its model")
    parser.add_argument("--held-back", action="store_true")
    args = parser.parse_args()
    vectors = Engine.vectors = Vectors(args.embeddings, args.model)
    base, asked = held_back() if args.held_back else (questions(args.questions), None)
    engine = Server(("127.0.0.1", 0), Engine)
    threading.Thread(target=engine.serve_forever, daemon=True).start()
    with rig.Rig() as here:
        port, admin = start(here, args.build, engine)
        for text in base:
            ask(port, text)
        wanted = f"kvasir_answer_cache_vectors {len(base)}"
        before = re.search(r"kvasir_answer_cache_vectors (\d+)", rig.ask(admin, "/metrics"))
        print(f"{len(base)} questions, {before.group(1)} with a vector"
              f"{'' if wanted in before.string else ' (the others are not told to be English)'}")
        Engine.keeps = False
        if asked:
            play_held_back(port, base, asked, vectors)
            return
        print(f"{'':6}{'':20}{'':6}" + "".join(f"{cosine:>16}" for cosine in COSINES) + "   strays")
        for label, name, count, alone, node, strays in rows(port, base, vectors):
            shares = [f"{sum(x >= c for x in alone) / count:7.1%} {sum(x >= c for x in node) / count:7.1%}"
                      for c in COSINES]
            print(f"{label:6}{name:20}{count:6}" + "".join(f"{s:>16}" for s in shares) + f"{strays:9}",
                  flush=True)


if __name__ == "__main__":
    sys.exit(main())
