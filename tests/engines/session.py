"""Real engines behind three nodes: plays the requests, compares what was
predicted with what the engines report, and says why where that is known.

Three numbers are held against each other for each answer: what the node
predicted (x-kvasir-overlap), what the engine's own events promise by the plain
rules of wire.py, and the cached tokens that the engine reports (by its counter
of hits where the answer has no usage).
"""
import collections
import contextlib
import dataclasses
import http.client
import itertools
import json
import re
import sys
import time

import asks
import broken_streams
import clients
import conversations
import engine as engines
import install
import kvasir
import model
import quiet
import sglang
import shapes
import wire

COUNTER_TIMEOUT_S = 10
AT_ONCE = 6  # requests, when an engine has died
PATIENCE = "5s"  # for tokens: these cores are slow, and new prompts many
TABLE = "{:<32}{:>6}{:>8}{:>7}{:>6}{:>7}{:>8}{:>8}  {}"
ENGINE_FLAGS = ["--enable-scale-out", "--enable-auto-tool-choice", "--tool-call-parser",
                "hermes", "--max-model-len", "4096"]
UNLEARNED = "eight answers had not told the node yet that the last block is computed again"
NEXT_STEP = "the engine tells of its reset with its next step"


def choices_of(body):
    """How many prompts the engine computes for it."""
    prompt = body.get("prompt")
    several = isinstance(prompt, list) and isinstance(prompt[0], str)
    return body.get("n", 1) * (len(prompt) if several else 1)


@dataclasses.dataclass
class Row:
    shape: str
    name: str
    worker: str = ""
    node: str = ""
    source: str = ""
    prompt: int = 0
    rendered: int = None    # tokens, by the engine's own renderer
    predicted: int = None   # by the node
    promised: int = None    # by the engine's events, as wire.py reads them
    full: int = None        # the same by full attention alone
    cached: int = None
    counted: bool = False   # by the engine's counter, the answer did not tell
    whole: bool = True      # the node knew all tokens of the prompt
    overtaken: bool = False
    after_reset: bool = False
    eagle: bool = False     # the engine computes the last block found again
    asked: int = 0          # questions about tokens to engines, by the nodes

    def is_judged(self):
        return self.source == "mirror" and self.cached is not None

    def off(self):
        return self.predicted - self.cached

    def why(self):
        """Of a prediction that was off."""
        sign, cause = asks.KNOWN.get(self.shape, (0, ""))
        if self.off() * sign > 0 and self.promised == self.predicted:
            return cause
        if self.promised is None:
            return "unknown: no renderer told the tokens"
        if self.promised == self.cached:
            if not self.whole:
                return "the node knew the tokens of an earlier turn only"
            return f"the node differs from the engine's events ({self.promised} promised)"
        if self.rendered != self.prompt:
            return "rendered differently"
        if self.after_reset:
            return NEXT_STEP
        if self.eagle and self.off() == engines.BLOCK:
            return UNLEARNED
        if self.overtaken:
            return "evicted while the request was on its way"
        return f"the engine differs from its own events ({self.promised} promised)"


def find_sample(text, name):
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if re.match(re.escape(name) + r"[{ ]", line))


class Session:
    """Some engines of one model behind three nodes."""

    def __init__(self, args, executable, folder, *, config=None, more=(), count=2, ranks=1,
                 write=model.write, make=engines.Engine, follower=wire.Follower, eagle=False):
        self.args, self.folder, self.follower = args, folder, follower
        self.eagle = eagle
        folder.mkdir()
        self.facts = wire.Facts()
        # As tokens.dir wants them: a folder of models, each by its name.
        self.models = folder / "models"
        self.models.mkdir()
        self.model_dir = write(self.models / engines.MODEL, config)
        self.engines = []
        for i in range(count):
            logs = folder / f"engine-{i}"
            logs.mkdir()
            self.engines.append(make(
                executable, self.model_dir, logs, blocks=args.blocks, block_tokens=engines.BLOCK,
                ranks=ranks, more=[*ENGINE_FLAGS, *more]))
        self.followers, self.mesh = {}, None
        self.rows, self.failed, self.lost = [], [], 0
        self.reset_since = set()
        self.ids = itertools.count(1)
        self.turn = itertools.count()

    def start(self):
        # One after the other: two at once take more than twice as long.
        for e in self.engines:
            began = time.monotonic()
            e.start()
            say(f"  an engine is up after {time.monotonic() - began:.0f} s")
        for i, e in enumerate(self.engines):
            for rank in range(e.ranks):
                self.followers[f"e{i}", rank] = self.follower(e, rank, self.facts)
        local = ["--tokens.dir", str(self.models)] if self.args.local else []
        self.mesh = kvasir.Mesh(self.args.build, self.engines, self.folder,
                                ["--tokens.wait", PATIENCE, *local, *self.args.kvasir])

    def close(self):
        # All of them, whatever one of them does.
        with contextlib.ExitStack() as stack:
            for e in self.engines:
                stack.callback(e.stop)
            for f in self.followers.values():
                stack.callback(f.close)
            if self.mesh:
                stack.callback(self.mesh.close)

    def settle(self):
        for f in self.followers.values():
            f.settle()
        self.mesh.settle({where: f.expected for where, f in self.followers.items()})

    # ------------------------------------------------------------- one request

    def tokens_of(self, ask):
        """As the engine renders the request, of several prompts the first, and its
        pictures; None where it does not say."""
        pooled = ask.path in asks.POOLED
        prompt = ask.body.get("input" if pooled else "prompt")
        if isinstance(prompt, list) and isinstance(prompt[0], int):
            return prompt, ()
        if pooled:  # no renderer has them
            text = prompt if isinstance(prompt, str) else prompt[0]
            raw = engines.call(self.engines[0].address, "POST", "/tokenize", {"prompt": text})[2]
            return json.loads(raw)["tokens"], ()
        body = {k: v for k, v in ask.body.items() if k not in ("stream", "stream_options")}
        status, _, raw = engines.call(self.engines[0].address, "POST", ask.path + "/render", body)
        got = json.loads(raw) if status == 200 else None
        if isinstance(got, list) and got:
            got = got[0]
        if not isinstance(got, dict):
            return None, ()
        features = got.get("features") or {"mm_hashes": {}}
        return got.get("token_ids"), sorted(
            ((name, place["offset"], place["length"])
             for kind, names in features["mm_hashes"].items()
             for name, place in zip(names, features["mm_placeholders"][kind], strict=True)),
            key=lambda item: item[1])

    def counters(self):
        """{worker: (queried, hit tokens)}"""
        found = {}
        for i, e in enumerate(self.engines):
            text = engines.call(e.address, "GET", "/metrics")[2].decode()
            found[f"e{i}"] = tuple(find_sample(text, name) for name in e.COUNTERS)
        return found

    def hits_since(self, before, worker):
        queried, hit = before[worker]

        def moved():
            now = self.counters()[worker]
            return now if now[0] > queried else None
        return int(engines.wait_until(moved, "the engine counted", COUNTER_TIMEOUT_S)[1] - hit)

    def next_node(self):
        living = self.mesh.living()
        return living[next(self.turn) % len(living)]

    def one(self, shape, ask, node=None):
        """Asks when everything is quiet; the row, or None when it failed."""
        self.settle()
        node = node or self.next_node()
        name = f"real-{next(self.ids)}"
        promises = self.promises(ask)
        before, asked = self.counters(), self.mesh.asked()
        connection = http.client.HTTPConnection(*node.address, timeout=engines.IO_TIMEOUT_S)
        try:
            connection.request("POST", ask.path, ask.bytes(), {
                "content-type": "application/json", "x-request-id": name, **ask.headers})
            answer = connection.getresponse()
            raw = answer.read()
            if answer.status != 200:
                raise ValueError(f"{answer.status} {raw[:200]!r}")
            usage, ended = asks.read(raw, ask.body.get("stream"))
            if not ended:
                raise ValueError(f"cut off: {raw[-200:]!r}")
            row = self.judge(shape, name, node, answer.headers, usage, promises, before,
                             choices_of(ask.body))
            return self.keep(row, asked)
        except (OSError, http.client.HTTPException, ValueError) as fault:
            self.failed.append((shape, str(fault)))
            return None
        finally:
            connection.close()

    def promises(self, ask):
        """(tokens or None, {(worker, rank): what its events promise})."""
        tokens, media = self.tokens_of(ask)
        return tokens and len(tokens), {
            where: f.predict(tokens, ask.salt(), ask.adapter(), media)
            for where, f in self.followers.items()} if tokens else {}

    def judge(self, shape, name, node, headers, usage, promises, before, choices=1):
        answered = time.time()
        if "x-kvasir-source" not in headers:
            raise ValueError("an answer does not say where it was placed")
        row = Row(shape, name, headers["x-kvasir-worker"], headers["x-kvasir-node"],
                  headers["x-kvasir-source"], eagle=self.eagle)
        record = node.record(name)
        row.whole = record["whole"]
        if row.source == "mirror":
            row.predicted = int(headers["x-kvasir-overlap"].split("/")[0])
        row.prompt, row.cached = usage or (0, None)
        if shape in asks.OF_EACH_TOKEN:  # the engine looks nothing up, nor counts it
            row.cached = int(self.counters()[row.worker][1] - before[row.worker][1])
        if row.cached is None or choices > 1:
            # Of several choices (or two prompts) the answer reports the last one
            # alone, which hits the blocks of the first; the counter has all of
            # them, and those between are as the last.
            later = (row.cached or 0) * (choices - 1)
            row.cached, row.counted = self.hits_since(before, row.worker) - later, True
        row.rendered, promised = promises
        seen = promised.get((row.worker, record["rank"] if row.source == "mirror" else 0))
        if seen:
            row.promised, row.full = seen.tokens, seen.full
            self.followers[row.worker, record["rank"]].settle()
            row.overtaken = seen.is_overtaken(answered)
        row.prompt = row.prompt or row.rendered or 0
        row.after_reset = row.worker in self.reset_since
        self.reset_since.discard(row.worker)
        self.rows.append(row)
        return row

    def keep(self, row, asked):
        """At once: whoever ends a run early has what there is."""
        row.asked = self.mesh.asked() - asked
        if self.args.json:
            with open(self.args.json, "a", encoding="utf-8") as out:
                out.write(json.dumps(dataclasses.asdict(row)) + "\n")
        return row

    # ----------------------------------------------------------------- stages

    def play(self, names=None):
        """All shapes: three rounds each, and the others in a second turn."""
        known = asks.SHAPES | asks.PICTURES | asks.SOUNDS | asks.EMBEDDED | asks.OF_EACH_TOKEN
        talks = {name: asks.Talk(name, self.args.seed) for name in names or asks.SHAPES}
        for rounds in (range(asks.LATER), range(asks.LATER, asks.ROUNDS)):
            for name, talk in talks.items():
                for talk.round in rounds:
                    self.one(name, known[name](talk))
        self.report(list(talks))

    def converse(self, stage, count):
        """The mixed load of conversations.py, one at a time; the same at each
        stage, so that engines that stayed up hold what is asked."""
        script = conversations.Script(self.args.seed, conversations.Tokens(self.model_dir), 32)
        for _ in range(count):
            made = script.next()
            self.one(stage, asks.Ask(made.path, made.body))
            script.done(made, "It is as it is.")
        self.report([stage])

    def reset(self, count):
        for i, e in enumerate(self.engines):
            engines.wait_until(e.reset, "the cache is reset")
            self.reset_since.add(f"e{i}")
        self.converse("after a reset of the cache", count)

    def restart(self, count):
        e = self.engines[0]
        e.stop()
        e.start()
        self.mesh.back(0)
        self.converse("after an engine's restart", count)

    def kill_engines(self, count):
        """kill -9 of each while answers are streamed; nothing fails afterwards."""
        kills = broken_streams.Kills(self, say)
        for index, e in enumerate(self.engines):
            kills.kill(index)
            # Sent at once, while nodes may still believe in it.
            for i in range(AT_ONCE):
                self.unjudged(f"while an engine is dead {i}")
            e.start()
            self.mesh.back(index)
        self.converse("after an engine's kill -9", count)

    def unjudged(self, text):
        body = {"model": engines.MODEL, "prompt": text, "max_tokens": 1}
        status, _, raw = engines.call(self.next_node().address, "POST", asks.TEXT, body)
        if status != 200:
            self.failed.append(("while an engine is dead", f"{status} {raw[:200]!r}"))

    def kill_nodes(self, count):
        """One after the other: kill -9, requests by the others, its return."""
        script = conversations.Script(self.args.seed, conversations.Tokens(self.model_dir), 32)

        def some(stage, node=None):
            for _ in range(count):
                made = script.next()
                self.one(stage, asks.Ask(made.path, made.body), node)
                script.done(made, "It is as it is.")
        for i in range(3):
            self.mesh.kill(i)
            some("while a node is dead")
            self.mesh.restart(i)
            some("by a node that came back", self.mesh.nodes[i])
        self.report(["while a node is dead", "by a node that came back"])

    def official(self):
        """Both official clients, as their manuals show them."""
        for stage, run in clients.CALLS.items():
            for _ in range(3):
                self.by_client(stage, run)
        self.report(list(clients.CALLS))

    def by_client(self, stage, run):
        self.settle()
        node = self.next_node()
        name = f"real-{next(self.ids)}"
        before, asked = self.counters(), self.mesh.asked()
        promises = []

        def look(path, body):
            promises.append(self.promises(asks.Ask(path, body)))
        try:
            headers, usage = run(clients.Call("http://{}:{}".format(*node.address), name, look))
            row = self.judge(stage, name, node, headers, usage, promises[0], before)
            self.keep(row, asked)
        except Exception as fault:  # whatever the client's makers thought of
            self.failed.append((stage, repr(fault)[:300]))

    # ----------------------------------------------------------------- report

    def report(self, stages):
        for stage in stages:
            print_line(stage, [r for r in self.rows if r.shape == stage])


def say(text):
    print(text, flush=True)


def print_line(name, rows):
    judged = [r for r in rows if r.is_judged()]
    off = [r for r in judged if r.off()]
    reasons = collections.Counter(
        f"{'over' if r.off() > 0 else 'under'}: {r.why()}" for r in off)
    say(TABLE.format(
        name, len(rows), len(judged), len(judged) - len(off), sum(r.off() > 0 for r in off),
        sum(r.off() < 0 for r in off), len(rows) - len(judged), sum(r.asked for r in rows),
        "; ".join(f"{count} {why}" for why, count in reasons.most_common())).rstrip())


HEAD = TABLE.format("shape", "asked", "judged", "exact", "over", "under", "belief", "queries",
                    "why")

# part: what is asked of which engines
PARTS = {
    "shapes": "shapes of requests, engines of one group of full attention",
    "faults": "resets, restarts, kills of nodes, the same engines",
    "clients": "the official clients, the same engines",
    "streams": "streams whose engine is killed, engines with weights",
    "hybrid": "engines of a hybrid model: sliding windows of 64 tokens beside full attention",
    "states": "engines of a hybrid model: short convolutions beside full attention",
    "drafts": "one engine that drafts by n-grams, then one with EAGLE",
    "ranks": "one engine of two data-parallel ranks",
    "pictures": "engines of a model that sees: 64 tokens a picture",
    "sounds": "an engine of a model that hears: 25 tokens a sound",
    "pooling": "engines of models that pool: a prompt's last token, or each",
    "sglang": "SGLang, pages of 32 tokens",
    "llamacpp": "llama.cpp's server, 4 slots: no events, by belief",
    "transformers": "transformers serve: no events, no word of its cache",
}


def plain(args, executable, folder, parts):
    adapter_home = folder / "adapter"
    adapter_home.mkdir()
    state = Session(args, executable, folder / "plain", count=args.engines,
                    more=shapes.adapter(adapter_home))
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        if "shapes" in parts:
            state.play()
        if "clients" in parts:
            state.official()
        if "faults" in parts:
            state.converse("conversations", args.few)
            state.reset(args.few)
            state.kill_nodes(args.few // 2)
            state.restart(args.few)
    return state


def of_streams(args, executable, folder, _):
    state = Session(args, executable, folder / "streams", count=args.engines,
                    write=model.write_weighted, more=["--load-format", "safetensors"])
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.kill_engines(args.few)
    return state


def hybrid(args, executable, folder, _):
    state = Session(args, executable, folder / "hybrid", count=args.engines,
                    config=shapes.HYBRID, more=shapes.HYBRID_FLAGS)
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.play([name for name in asks.SHAPES if "adapter" not in name])
        state.converse("hybrid, conversations", args.few)
    return state


STATES = ["text", "text, salt", "text, long", "ids", "ids, whole blocks", "ids, sharing a prefix",
          "chat", "chat, stream with usage", "chat, tools"]


def states(args, executable, folder, _):
    state = Session(args, executable, folder / "states", count=args.engines,
                    config=shapes.STATES)
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.play(STATES)
        state.converse("states, conversations", args.few)
        state.reset(args.few)
    return state


def ranks(args, executable, folder, _):
    state = Session(args, executable, folder / "ranks", more=shapes.rank_flags(2), count=1,
                    ranks=2)
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.converse("two ranks", 2 * args.few)
    return state


DRAFTED = [name for name in asks.SHAPES if name.split(",")[0] in ("text", "ids", "chat")
           and "adapter" not in name]


def drafts(args, executable, folder, _):
    """Both engines' rows."""
    found = None
    for method, more in (("ngram", {"prompt_lookup_max": 3}),
                         ("eagle", {"model": str(model.write_draft(folder / "draft"))})):
        flags = ["--speculative-config",
                 json.dumps({"method": method, "num_speculative_tokens": 2, **more})]
        state = Session(args, executable, folder / method, count=1, more=flags,
                        eagle=method == "eagle")
        with contextlib.ExitStack() as stack:
            stack.callback(state.close)
            state.start()
            say(f"  drafts by {method}")
            state.play(DRAFTED)
            state.converse(f"drafts by {method}, conversations", args.few)
        if found:
            state.rows += found.rows
            state.failed += found.failed
        found = state
    return found


def pictures(args, executable, folder, _):
    state = Session(args, executable, folder / "pictures", count=args.engines,
                    write=model.write_seeing)
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.play(list(asks.PICTURES))
    return state


def sounds(args, executable, folder, _):
    # What reads sounds is not among what vLLM wants.
    def make(*where, **more):
        return engines.Engine(*where, env={"PYTHONPATH": str(install.soundfile())}, **more)
    state = Session(args, executable, folder / "sounds", count=1, write=model.write_hearing,
                    make=make)
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.play(list(asks.SOUNDS))
    return state


def pooling(args, executable, folder, _):
    """Two models, as a model has one task; the rows of both."""
    found = None
    for task, names in (("embed", asks.EMBEDDED), ("token_embed", asks.OF_EACH_TOKEN)):
        state = Session(args, executable, folder / task, count=1, more=[
            "--runner", "pooling", "--convert", "embed",
            "--pooler-config", json.dumps({"task": task})])
        with contextlib.ExitStack() as stack:
            stack.callback(state.close)
            state.start()
            state.play(list(names))
        if found:
            state.rows += found.rows
            state.failed += found.failed
        found = state
    return found


def of_sglang(args, _, folder, __):
    state = Session(args, str(install.sglang()), folder / "sglang", count=args.engines,
                    make=sglang.Engine, follower=sglang.Follower)
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.play(sglang.SHAPES)
        state.converse("conversations", args.few)
        state.reset(args.few)
        state.restart(args.few)
    return state


def silent(make, executable):
    """What plays servers that publish nothing."""
    def play(args, _, folder, parts):
        state = quiet.Session(args, str(executable()), folder / parts[0], make)
        with contextlib.ExitStack() as stack:
            stack.callback(state.close)
            state.start()
            state.play(say)
        return state
    return play


RUNS = [(("shapes", "faults", "clients"), plain), (("streams",), of_streams),
        (("hybrid",), hybrid), (("states",), states),
        (("drafts",), drafts), (("ranks",), ranks), (("pictures",), pictures),
        (("sounds",), sounds), (("pooling",), pooling), (("sglang",), of_sglang),
        (("llamacpp",), silent(quiet.Llama, install.llama)),
        (("transformers",), silent(quiet.Transformers, install.transformers))]


def run(args, executable, folder):
    """Every part asked for; the exit code."""
    rows, failed, lost = [], [], 0
    if args.json:
        open(args.json, "w", encoding="utf-8").close()
    for parts, function in RUNS:
        wanted = [p for p in parts if p in args.parts]
        if not wanted:
            continue
        say("")
        for part in wanted:
            say(f"{part}: {PARTS[part]}")
        say(quiet.HEAD if wanted[0] in quiet.PARTS else HEAD)
        state = function(args, executable, folder, wanted)
        failed += state.failed
        if wanted[0] in quiet.PARTS:  # nothing was promised, nothing is judged
            continue
        print_line("all", state.rows)
        rows += state.rows
        lost += state.lost
    say("")
    for shape, fault in failed:
        say(f"failed: {shape}: {fault}")
    unknown = [r for r in rows if r.is_judged() and r.off() and "differs" in r.why()]
    say(f"{len(rows)} answers, {sum(r.is_judged() for r in rows)} judged, "
        f"{sum(r.is_judged() and not r.off() for r in rows)} exact; {lost} streams cut off with "
        f"their engine; {len(failed)} failed, {len(unknown)} off for a cause not known; "
        f"{sum(r.asked for r in rows)} times an engine was asked for tokens")
    sys.stdout.flush()
    return 1 if failed or unknown else 0
