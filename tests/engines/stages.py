"""What is done to the engines, stage by stage, and what came of it."""
import contextlib
import dataclasses
import itertools
import json
import pathlib
import sys
import threading

import conversations
import engine as engines
import model
import shapes
import wire

COPIES = 12
FLOOD = 1900  # tokens of a prompt that pushes others out
AFTER_RESET = "quiet after a reset"
TABLE = "{:<26}{:>8}{:>9}{:>8}{:>9}{:>7}{:>10}{:>7}{:>12}"


def ask(engine, tokens, more=None):
    """Cached tokens of one prompt of ids, straight from the engine."""
    body = {"model": engines.MODEL, "prompt": tokens, "max_tokens": 1, **(more or {})}
    status, _, raw = engines.call(engine.address, "POST", "/v1/completions", body)
    if status != 200:
        raise RuntimeError(f"{status} {raw[:300]!r}")
    return json.loads(raw)["usage"]["prompt_tokens_details"]["cached_tokens"]


class Run:
    def __init__(self, args, folder, executable):
        self.args, self.folder = args, folder
        self.facts = wire.Facts()
        self.model_dir = folder / "model"
        model.write(self.model_dir, shapes.HYBRID if args.hybrid else model.CONFIG)
        more = [*args.vllm, *(shapes.HYBRID_FLAGS if args.hybrid else []),
                *(shapes.rank_flags(args.ranks) if args.ranks > 1 else [])]
        self.engines = []
        for i in range(args.engines):
            logs = folder / f"engine-{i}"
            logs.mkdir()
            self.engines.append(engines.Engine(
                executable, self.model_dir, logs, blocks=args.blocks,
                block_tokens=args.block_tokens, ranks=args.ranks, more=more))
        self.followers, self.node, self.rows = [], None, []
        self.script = conversations.Script(
            args.seed, conversations.Tokens(self.model_dir), args.block_tokens)
        self.failed = 0
        self.ids = itertools.count(1)

    def start(self):
        for e in self.engines:
            e.spawn()
        for e in self.engines:
            engines.wait_until(e.healthy, "vllm is healthy", engines.START_TIMEOUT_S)
        self.followers = [wire.Follower(e, rank, self.facts)
                          for e in self.engines for rank in range(self.args.ranks)]
        if self.args.build:
            import kvasir
            self.node = kvasir.Node(self.args.build, self.engines, self.folder,
                                    self.args.kvasir)

    def close(self):
        if self.node:
            self.node.close()
        for f in self.followers:
            f.close()
        for e in self.engines:
            e.stop()

    def settle(self):
        for f in self.followers:
            f.settle()
        if self.node:
            self.node.settle({name: f.expected for name, f in self.by_name()})

    def by_name(self):
        """((worker, rank), follower) of each."""
        names = self.node.workers if self.node else [""]
        return [((names[self.engines.index(f.engine)], f.rank), f) for f in self.followers]

    def predict(self, tokens, salt):
        return {name: f.predict(tokens, salt) for name, f in self.by_name()}

    def client(self):
        address = self.node.address if self.node else self.engines[0].address
        return conversations.Client(address, self.script, self.predict, self.ids)

    # ---------------------------------------------------------------- stages

    def by_hand(self):
        """What single requests show."""
        e, f, note = self.engines[0], self.followers[0], self.facts.note
        size = e.block_tokens
        prompt = list(range(10, 10 + 3 * size + 4))
        first = ask(e, prompt)
        f.settle()
        batches = f.batches
        again = ask(e, prompt)
        f.settle()
        note("a repeated prompt hits its whole blocks", (first, again) == (0, 3 * size),
             (first, again))
        note("a hit is not announced again (26)", f.batches == batches, f.batches)
        whole = ask(e, prompt[:3 * size])
        f.settle()
        note("a prompt of whole blocks hits all but the last (13)", whole == 2 * size, whole)
        note("that last one, computed again, is announced as a copy (10)",
             (f.mirror.stored, f.mirror.duplicates) == (4, 1), f.mirror.stored)
        ask(e, prompt, {"max_tokens": 2 * size, "ignore_eos": True})
        f.settle()
        note("blocks filled by an answer are announced, with the prompt's as parent (2.7)",
             f.mirror.stored == 6, f.mirror.stored)
        salted = [ask(e, prompt, {"cache_salt": "tenant-a"}) for _ in range(2)]
        note("a salt hits its own blocks only (25)", salted == [0, 3 * size], salted)
        f.settle()
        f.compare_replay()
        self.by_copies(prompt[:3 * size])
        self.by_reset(prompt)

    def by_copies(self, whole):
        """Copies of a block must all be evicted before it is gone."""
        e, f, note = self.engines[0], self.followers[0], self.facts.note
        before = f.mirror.duplicates
        for _ in range(COPIES):
            ask(e, whole)
        f.settle()
        made = f.mirror.duplicates - before
        note("every hit of a whole prompt makes one more copy (10)", made == COPIES, made)
        for i in range(self.args.blocks * e.block_tokens // FLOOD + 2):
            ask(e, [8 + (i * 7 + j) % 1000 for j in range(FLOOD)])
            f.settle()
        seen = f.predict(whole, None).tokens
        cached = ask(e, whole)
        f.settle()
        note("copies are removed one by one, and then the block is gone (10)",
             (seen, cached) == (0, 0), (seen, cached))

    def by_reset(self, prompt):
        e, f, note = self.engines[0], self.followers[0], self.facts.note
        if not e.reset():
            return
        f.settle()
        with f.lock:
            note("a reset alone publishes nothing: the clear comes with the next batch",
                 f.mirror.cleared == 0, f.mirror.cleared)
        cached = ask(e, prompt)
        f.settle()
        with f.lock:
            note("a reset empties the cache, and is told (14)",
                 cached == 0 and f.mirror.cleared == 1, (cached, f.mirror.cleared))

    def quiet(self, stage, count=None):
        """One request after the other, each when the events are in."""
        client = self.client()
        for _ in range(count or self.args.quiet):
            self.settle()
            client.one()
        self.settle()
        self.take(stage, client)

    def load(self, stage, count=None, meanwhile=None):
        client = self.client()
        helper = threading.Thread(target=meanwhile) if meanwhile else None
        if helper:
            helper.start()
        client.several(count or self.args.load, self.args.at_once)
        if helper:
            helper.join()
        self.settle()
        self.take(stage, client, may_fail=helper is not None)

    def take(self, stage, client, may_fail=False):
        if self.node:
            self.node.attach(client.rows)
        for row in client.rows:
            row.judge(stage, self.args.ranks)
        self.rows += client.rows
        print_stage(stage, client.rows)
        if client.failed:
            print(f"  {len(client.failed)} failed, the first: {client.failed[0]}", flush=True)
            self.failed += 0 if may_fail else len(client.failed)

    def reset(self):
        for e in self.engines:
            engines.wait_until(e.reset, "the cache is reset")

    def restart(self, index=0):
        self.engines[index].crash()
        self.engines[index].start()
        if self.node:
            self.node.back(index)

    def all(self):
        if not self.args.hybrid and self.args.ranks == 1:
            self.by_hand()
        print(TABLE.format("stage", "answers", "prompt", "cached", "equal", "over", "(evicted)",
                           "under", "tokens off"))
        self.quiet("quiet")
        self.load("load")
        self.quiet("quiet after load", self.args.quiet // 2)
        self.reset()
        self.quiet(AFTER_RESET, self.args.quiet // 2)
        self.restart()
        self.quiet("quiet after a restart", self.args.quiet // 2)
        if len(self.engines) > 1:
            self.load("load with a restart", meanwhile=self.restart)
            self.quiet("quiet after that", self.args.quiet // 2)
        for f in self.followers:
            f.settle()
            f.compare_replay()


KNEW = [
    ("tokens", lambda k: k["source"] == "mirror" and k["whole"]),
    ("an earlier turn's", lambda k: k["source"] == "mirror" and not k["whole"]),
    ("text", lambda k: k["source"] != "mirror"),
]


def print_stage(stage, rows):
    """A line for the model of the events; and for kvasir, by what it knew: the
    tokens, those of an earlier turn, or text only."""
    print_line(stage, [r for r in rows if r.predicted is not None], lambda r: r.predicted)
    for name, knew in KNEW:
        some = [r for r in rows if r.kvasir and knew(r.kvasir)]
        if some:
            print_line("  kvasir, " + name, some, lambda r: r.kvasir["predicted_tokens"])


def print_line(name, rows, predicted):
    prompt, cached = sum(r.prompt for r in rows), sum(r.cached for r in rows)
    off = [predicted(r) - r.cached for r in rows]
    evicted = sum(o > 0 and r.overtaken for o, r in zip(off, rows, strict=True))
    print(TABLE.format(
        name, len(rows), prompt, f"{100 * cached / max(prompt, 1):.0f}%",
        f"{100 * off.count(0) / max(len(off), 1):.1f}%", sum(o > 0 for o in off),
        evicted, sum(o < 0 for o in off), sum(map(abs, off))), flush=True)


def print_facts(facts):
    print("\nfacts")
    for fact, (seen, bad, what) in sorted(facts.seen.items()):
        print(f"  {'NOT' if bad else 'ok '} {fact}: {seen - bad} of {seen}" +
              (f"; first: {what}" if bad else ""))


def print_followers(followers):
    for f in followers:
        m = f.mirror
        print(f"  {f.batches} batches, {m.stored} stored, {m.removed} removed, "
              f"{m.duplicates} copies, {m.orphaned} removed before a child, {m.cleared} clears, "
              f"{f.restarts} restarts, {f.gaps} gaps")


def save(run):
    if run.args.captures:
        folder = pathlib.Path(run.args.captures)
        folder.mkdir(parents=True, exist_ok=True)
        for f in run.followers:
            for shape, payload in f.payloads:
                name = "-".join(f"{kind}{count}" for kind, count in shape)
                (folder / f"vllm-{run.version}-{name}").write_bytes(payload)
    if run.args.json:
        rows = [dataclasses.asdict(r) for r in run.rows]
        pathlib.Path(run.args.json).write_text("\n".join(json.dumps(r) for r in rows) + "\n")


def run_shapes(args, executable, folder):
    """Other options of the engine; the exit code."""
    facts = wire.Facts()
    shapes.run(args, executable, folder, facts)
    print_facts(facts)
    return 1 if facts.broken() else 0


def run(args, executable, folder):
    """Everything; the exit code."""
    if args.shapes:
        return run_shapes(args, executable, folder)
    state = Run(args, folder, executable)
    with contextlib.ExitStack() as stack:
        stack.callback(state.close)
        state.start()
        state.version = state.engines[0].version()
        print(f"vllm {state.version}, {args.engines} engine(s) of {args.blocks} blocks of "
              f"{args.block_tokens} tokens", flush=True)
        state.all()
        print_facts(state.facts)
        print_followers(state.followers)
        if state.node:
            state.node.say()
        save(state)
    broken = state.facts.broken()
    wrong = [] if args.hybrid else unforeseen(state.rows)
    print(f"\n{len(broken)} facts did not hold, {state.failed} requests failed, "
          f"{len(wrong)} quiet predictions of the events' model were off")
    sys.stdout.flush()
    return 1 if broken or state.failed or wrong else 0


def unforeseen(rows):
    """Quiet predictions that were off. The first of an engine after a reset may
    be: it tells of it with the next batch."""
    told, wrong = set(), []
    for row in rows:
        who = row.worker, row.rank()
        is_first = row.stage == AFTER_RESET and who not in told
        if row.stage == AFTER_RESET:
            told.add(who)
        if row.predicted is None or is_first:
            continue
        if row.stage.startswith("quiet") and row.predicted != row.cached:
            wrong.append(row)
    return wrong
