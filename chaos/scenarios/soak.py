"""All faults at once, for as long as the user likes. Engines run longer than their
replay reaches back, links are severed all the time, nodes are killed and restarted with
or without their disks, and engines are restarted. From time to time everything is healed
and quiet, and every node's mirror is compared with every engine's cache, key by key.

    chaos/netns run soak --seed 7 --minutes 30 [--rate 1000]

`--rate`: batches a second, over all engines; a machine that has other things to do may be
asked for less. What was reached is told at each quiet point and in the end; less than
RATE_PART of it breaks the promise, as do fewer severed links than CUTS_A_SECOND: a run
that hurts less proves less.

The first node is spared until the last quiet point but one, so that its memory can be
watched. After that the last one is, and the first may be killed like the others.
"""
import http.client
import json
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import threading
import time

from . import Skipped, expect, publisher, scenario
from .hosts import patiently, wait_until
from .limits import with_snapshots
from .world import ADMIN, Engine, has_sanitizer

RATE = 1000         # batches a second, over all engines, unless asked otherwise
RATE_PART = 0.95    # of the batches that were asked for
CUTS_A_SECOND = 0.2  # at least; 0.5 are usual
UP = 0.97           # of the time an engine runs, restarts take the rest
REPLAY_S = 20       # how far a replay reaches back; TCP may double a severed link's time
BLOCKS = 2000       # that an engine has room for
KILL_EVERY_S = 15
RESTART_EVERY_S = 20  # some engine; the same one three times a minute is contested
QUIET_POINTS = 10   # and one more at the end
SAMPLE_EVERY_S = 2
SETTLE_S = 40
NOBODY_S = 10       # a node may name no worker for so long


def python():
    """A Python that has ZeroMQ and msgpack."""
    for path in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([path, "-c", "import zmq, msgpack"], capture_output=True,
                          check=False).returncode == 0:
            return path
    raise Skipped("needs python3-zmq and python3-msgpack")


class Publisher(Engine):
    """An engine played by publisher.py. Each start is a new process with a new seed."""

    def __init__(self, world, name):
        super().__init__(world, name)
        self.starts = 0
        self.earlier = 0  # batches of processes that were killed, at least
        self.rate = max(1, round((world.rate or RATE) / UP / len(world.engines)))
        self.replay = self.rate * REPLAY_S
        self.room = BLOCKS

    def start(self):
        self.starts += 1
        seed = self.world.seed * 1000 + int(self.name[1:]) * 100 + self.starts
        return self.launch(python(), pathlib.Path(publisher.__file__), "--host", self.address,
                           "--seed", seed, "--rate", self.rate, "--replay", self.replay,
                           "--blocks", self.room)

    def kill(self):
        self.earlier = self.published()
        super().kill()

    def published(self):
        """How many batches, from the first start on."""
        return self.earlier + self.cache()["next_seq"]

    def set_rate(self, rate):
        patiently(lambda: self.host.request(self.address, 8000, "POST", "/chaos",
                                            {"rate": rate}))


class Severed:
    """Severs random links, each for a while."""

    def __init__(self, world, rng):
        self.world, self.random = world, rng
        self.until = {}  # (from, to): time
        self.since = {}  # the same links: time
        self.next_at = 0
        self.count = 0
        self.longest = 0  # seconds; a late turn heals late

    def draw(self):
        """Draws directed links that are severed together."""
        nodes = [n.name for n in self.world.nodes]
        engines = [e.name for e in self.world.engines]
        one, other = self.random.sample(nodes, 2)
        engine = self.random.choice(engines)
        pairs = self.random.choice([
            [(one, other)], [(one, n) for n in nodes if n != one], [(one, engine)],
            [(one, e) for e in engines], [(n, engine) for n in nodes],
            [(one, n) for n in nodes + engines if n != one]])
        if self.random.randrange(4) == 0:
            return pairs  # in one direction only
        return pairs + [(b, a) for a, b in pairs]

    def turn(self, now):
        over = [pair for pair, until in self.until.items() if until <= now]
        new = []
        if now >= self.next_at:
            self.next_at = now + self.random.uniform(0.5, 3)
            until = now + self.random.uniform(1, 5)
            # A link that is severed already keeps its time of healing.
            new = [pair for pair in self.draw() if pair not in self.until]
            self.count += bool(new)
            self.until.update(dict.fromkeys(new, until))
            self.since.update(dict.fromkeys(new, now))
        for pair in over:
            del self.until[pair]
            self.longest = max(self.longest, now - self.since.pop(pair))
        lines = [f"link {a} {b} severed=0" for a, b in over]
        lines += [f"link {a} {b} severed=1" for a, b in new]
        if lines:
            self.world.wire.say(*lines)

    def heal(self):
        """All links. The next turn is at the begin of another time."""
        self.until.clear()
        self.since.clear()
        self.next_at = 0
        self.world.wire.heal()


class Kills:
    """Kills nodes or lets them leave, one at a time and never the one that is spared, and
    starts them again with or without their disks. Restarts engines."""

    def __init__(self, world, rng, judge):
        self.world, self.random, self.judge = world, rng, judge
        self.spared = world.nodes[0]
        self.down = []  # (when it starts again, place)
        self.leaving = set()
        self.kill_at, self.restart_at = 0, 0
        self.counts = dict.fromkeys(("killed", "left", "without_disk", "restarted"), 0)

    def delay(self, now):
        self.kill_at = now + self.random.uniform(2, KILL_EVERY_S)
        self.restart_at = now + self.random.uniform(2, RESTART_EVERY_S)

    def kill(self, now):
        node = self.random.choice([n for n in self.world.nodes if n is not self.spared])
        self.judge.count_mismatches([node])
        leaves = self.random.randrange(3) == 0
        self.counts["left" if leaves else "killed"] += 1
        if leaves:
            self.leaving.add(node)
        (node.leave if leaves else node.kill)()
        self.down.append((now + self.random.uniform(0.2, 6), node))

    def restart(self, now):
        engine = self.random.choice(self.world.engines)
        engine.kill()
        self.counts["restarted"] += 1
        self.down.append((now + self.random.uniform(0, 2), engine))

    def start(self, place):
        if place in self.leaving:
            place.wait()
            self.leaving.remove(place)
        if place in self.world.nodes:
            folder = self.world.net.folder / f"data-{place.name}"
            if self.random.randrange(3) == 0:
                shutil.rmtree(folder, ignore_errors=True)
            self.counts["without_disk"] += not folder.exists()
        place.start()

    def back(self, now=None):
        """Starts who is due and has left; None: all, when they have left."""
        due = [place for at, place in self.down
               if now is None or (at <= now and not place.runs)]
        self.down = [(at, place) for at, place in self.down if place not in due]
        for place in due:
            self.start(place)

    def turn(self, now):
        self.back(now)
        down = [place for _, place in self.down]
        for place in [*self.world.nodes, *self.world.engines]:
            expect(place.runs or place in down, f"{place.name} ended by itself")
        if now >= self.kill_at and not set(down) & set(self.world.nodes):
            self.kill_at = now + KILL_EVERY_S
            self.kill(now)
        if now >= self.restart_at and not set(down) & set(self.world.engines):
            self.restart_at = now + RESTART_EVERY_S
            self.restart(now)


class Sizes:
    """Samples the memory and descriptors of a node while it is spared."""

    def __init__(self, node):
        self.node, self.rows, self.next_at = node, [], 0

    def turn(self, now):
        if self.next_at <= now or self.next_at > now + SAMPLE_EVERY_S:
            self.next_at = now + SAMPLE_EVERY_S
            heap = [int(self.node.metric(f'kvasir_process_heap_bytes{{state="{state}"}}')) // 1024
                    for state in ("used", "held")]
            self.rows.append([self.node.rss_kb(), *heap, self.node.fds()])

    def quarters(self, column):
        """The largest value in each quarter of the run."""
        part = max(1, len(self.rows) // 4)
        return [max(row[column] for row in self.rows[at * part:][:part]) for at in range(4)]


class Explainer:
    """Keeps a connection to a node's admin port. Use with `with`."""

    def __init__(self, node):
        self.node, self.connection = node, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self.connection:
            self.connection.close()
            self.connection = None

    def open(self):
        self.connection = http.client.HTTPConnection("127.0.0.1", ADMIN)
        self.connection.sock = self.node.host.connect("127.0.0.1", ADMIN)
        # The client writes head and body separately.
        self.connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def held(self, topic, blocks):
        """{worker: how many of the topic's first `blocks` blocks it holds, as the node's
        mirror says}; leaves out workers that the mirror was not asked about. Asks again
        while the answer names no worker: on a busy machine all workers may fail their
        probes at once, and the node does not look up workers that are down."""
        question = json.dumps({"model": publisher.MODEL, "max_tokens": 1,
                               "prompt": publisher.topic_tokens(topic, 0, blocks)})
        end = time.monotonic() + NOBODY_S
        pause = threading.Event()
        while True:
            answer = patiently(lambda: self.ask(question))
            held = {c["worker"]: c["tokens"] // publisher.BLOCK_TOKENS
                    for c in answer["candidates"] if c["source"] == "mirror"}
            if held or time.monotonic() > end:
                return held
            pause.wait(0.02)

    def ask(self, question):
        if self.connection is None:
            self.open()
        try:
            self.connection.request("POST", "/admin/explain", question,
                                    {"content-type": "application/json"})
            return json.loads(self.connection.getresponse().read())
        except TimeoutError:
            self.close()  # a late answer is none to the next question
            raise


class Judge:
    """Compares every node's mirror with every engine's cache, key by key. It asks for
    each topic with one block more than is cached, which must not be found. It also
    compares the number of blocks, so that the mirror holds nothing else."""

    def __init__(self, world):
        self.world = world
        self.compared, self.wrong, self.examples = 0, 0, []
        self.unrepeated = 0  # keys that no replay had any more, at all points
        self.mismatches = {}  # by process: digests that differed at equal positions

    def check(self, right, why):
        self.compared += 1
        if not right:
            self.wrong += 1
            self.examples += [why] if len(self.examples) < 20 else []

    def judge(self, node, caches):
        with Explainer(node) as explainer:
            for name, cache in caches.items():
                for topic, blocks in cache["chains"]:
                    held = explainer.held(topic, blocks + 1)
                    for worker in caches:
                        has = blocks if worker == name else 0
                        self.check(held.get(worker) == has,
                                   f"{node.name}: {worker} holds {held.get(worker)} blocks of "
                                   f"topic {topic}; it holds {has}")
        for worker in node.workers():
            held = sum(stream["blocks"] for stream in worker["events"])
            has = len(caches[worker["id"]]["keys"])
            self.check(held == has, f"{node.name}: {worker['id']} holds {held} blocks; it "
                       f"holds {has}")

    def count_mismatches(self, nodes):
        """Before they are killed, too: with a process its count ends."""
        for node in nodes:
            self.mismatches[node.program.pid] = int(
                node.metric("kvasir_gossip_digest_mismatches_total"))

    def all_is_read(self):
        """Nodes that agree may all lack what is still on its way from an engine, whose link
        was just severed; and a full cache has as many blocks as before."""
        seqs = {engine.name: engine.cache()["next_seq"] for engine in self.world.engines}
        return all(stream["position"] >> 8 == seqs[stream["worker"]] - 1
                   for node in self.world.running() for stream in node.mesh()["streams"])

    def quiet(self):
        """Compares all nodes when everything is healed and runs. Returns what is wrong, or
        an empty text."""
        for engine in self.world.engines:
            engine.set_rate(0)
        late = ""
        try:
            wait_until(self.all_is_read, "the last batches are read", SETTLE_S)
            self.world.settle(SETTLE_S)
        except TimeoutError as error:
            late = str(error)
        self.count_mismatches(self.world.running())
        before = self.wrong
        caches = {engine.name: engine.cache() for engine in self.world.engines}
        self.unrepeated += sum(cache["unrepeated"] for cache in caches.values())
        for node in self.world.nodes:
            self.judge(node, caches)
        return f"{self.wrong - before} wrong; {late}" if late or self.wrong > before else ""


def flat(quarters, part, slack):
    """Whether the last quarter exceeds the second by no more than part and slack."""
    return quarters[3] <= quarters[1] * (1 + part) + slack


class Pace:
    """When the engines publish, and how much. All of them run when it begins and ends."""

    def __init__(self, engines):
        self.engines, self.batches, self.seconds = engines, 0, 0

    def published(self):
        return sum(engine.published() for engine in self.engines)

    def begin(self):
        self.batches -= self.published()
        self.seconds -= time.monotonic()
        for engine in self.engines:
            engine.set_rate(engine.rate)

    def end(self):
        for engine in self.engines:
            engine.set_rate(0)
        self.seconds += time.monotonic()
        self.batches += self.published()

    def per_second(self):
        return round(self.batches / self.seconds)


def hurt(seconds, severed, kills, *others):
    """For so long; then all is healed and runs. Returns what was too little, or an empty
    text."""
    kills.delay(0)
    pause = threading.Event()
    before = severed.count
    began = time.monotonic()
    while (now := time.monotonic() - began) < seconds:
        for part in (severed, kills, *others):
            part.turn(now)
        pause.wait(0.02)
    severed.heal()
    kills.back()
    cuts = severed.count - before
    return "" if cuts >= seconds * CUTS_A_SECOND else f"severed only {cuts} times"


def begin(world):
    world.engines = [Publisher(world, engine.name) for engine in world.engines]
    for node in world.nodes[1:3]:
        with_snapshots(world, node, world.net.folder / f"data-{node.name}")
    world.resolve(world.nodes)
    for place in [*world.nodes, *world.engines]:
        place.start()
    world.together()


@scenario(hurt="for a minute (long: 30; --minutes): links severed 1 to 5 s all the time, nodes "
               "killed or stopped and restarted every 15 s, with their disks or without, "
               "engines restarted; 1,000 batches a second (--rate), engines older than their "
               "replay",
          promise="at quiet points every node's mirror is every engine's cache, key by key; "
                  "memory and descriptors stay flat",
          seconds=100, asked=True,
          nodes=4, engines=4)
def soak(world, say):
    seconds = 60 * (world.minutes or (30 if world.long else 1))
    rng = random.Random(world.seed)
    begin(world)
    judge, pace = Judge(world), Pace(world.engines)
    severed, kills, sizes = Severed(world, rng), Kills(world, rng, judge), Sizes(world.nodes[0])
    troubles = []
    points = QUIET_POINTS + 1 if seconds >= 600 else 2
    for point in range(1, points + 1):
        last = point == points
        kills.spared = world.nodes[-1 if last else 0]
        pace.begin()
        too_little = hurt(seconds / points, severed, kills, *([] if last else [sizes]))
        pace.end()
        trouble = "; ".join(filter(None, (too_little, judge.quiet())))
        troubles += [f"quiet point {point}: {trouble}"] if trouble else []
        print(f"quiet point {point} of {points}: {judge.compared} compared, {judge.wrong} wrong, "
              f"{pace.per_second()} batches a second, {sizes.rows[-1]}; {trouble or 'well'}",
              file=sys.stderr, flush=True)
    mismatches = sum(judge.mismatches.values())
    rss, used, held, fds = (sizes.quarters(column) for column in range(4))
    say(batches=pace.batches, asked_rate=world.rate or RATE, rate=pace.per_second(),
        severed=severed.count, longest_s=severed.longest, **kills.counts,
        compared=judge.compared, wrong=judge.wrong, unrepeated=judge.unrepeated,
        mismatches=mismatches, rss_kb=rss, heap_kb=used, heap_held_kb=held, fds=fds)
    expect(mismatches == 0, f"states differed at equal positions: {judge.mismatches}")
    expect(not troubles, "\n".join([*troubles, *judge.examples]))
    expect(pace.per_second() >= RATE_PART * (world.rate or RATE),
           f"{pace.per_second()} batches a second: ask for less (--rate)")
    if seconds >= 600:
        expect(judge.unrepeated > 0, "the replays always had all: ask for more batches a second")
        # A sanitizer keeps what was freed, and its heap tells malloc's figures of nobody.
        if not has_sanitizer():
            expect(flat(rss, 0.1, 2048), f"resident memory: {rss} KB")
            expect(flat(used, 0.05, 1024), f"heap in use: {used} KB")
            expect(flat(held, 0.05, 1024), f"heap held: {held} KB")
    expect(flat(fds, 0.1, 16), f"descriptors: {fds}")
