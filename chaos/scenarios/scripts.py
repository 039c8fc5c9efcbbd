"""Fault scripts: what the simulator plays, too (chaos/base/fault_script.h says what
may be in them). One reader reads them: kvasir-sim, which hands them on in their
plain form."""
import pathlib
import subprocess
import time

from . import ALL, Scenario
from .load import Load
from .nodes import cache_is_back, measure, none_failed, only_severed_at
from .world import program

LONGEST_S = 60  # of those that are played unasked
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "scripts"


def read(path):
    """({"nodes": 3, "engines": 2}, [(ms, verb, arguments)])."""
    told = subprocess.run([program("kvasir-sim"), "--script", path, "--show-script"],
                          capture_output=True, text=True, check=False)
    if told.returncode != 0:
        raise ValueError(told.stderr.strip())
    lines = [line.split() for line in told.stdout.splitlines()]
    sizes = {line[0]: int(line[1]) for line in lines if line[0] != "at"}
    return sizes, [(number(line[1]), line[2], line[3:]) for line in lines if line[0] == "at"]


def number(word):
    return int(word.rstrip("ms%"))


def unfolded(events):
    """A pause as what it is: two events."""
    out = []
    for at, verb, words in events:
        if verb == "pause":
            out.append((at, "freeze", words[:1]))
            out.append((at + number(words[1]), "thaw", words[:1]))
        else:
            out.append((at, verb, words))
    return sorted(out, key=lambda event: event[0])


class Player:
    def __init__(self, world):
        self.world = world
        self.names = [node.name for node in world.nodes]
        self.killed = []  # by name, one as often as it was
        self.leaving = set()

    def do(self, verb, words):
        getattr(self, verb)(*words)

    def sever(self, one, other):
        self.world.wire.sever([one], [other])

    def mute(self, one, other):
        self.world.wire.sever([one], [other], both=False)

    def miss(self, node, engine):
        self.world.wire.sever([node], [engine])

    def loss(self, part):
        self.world.wire.disturb(self.names, self.names, both=False,
                                loss_permille=10 * number(part))

    def delay(self, long, give_or_take):
        self.world.wire.disturb(self.names, self.names, both=False, delay_us=1000 * number(long),
                                jitter_us=1000 * number(give_or_take))

    def heal(self):
        self.world.wire.heal()

    def kill(self, name):
        self.killed.append(name)
        self.world.place(name).kill()

    def stop(self, name):
        self.leaving.add(name)
        self.world.place(name).leave()

    def start(self, name):
        node = self.world.place(name)
        if name in self.leaving:
            self.leaving.remove(name)
            node.wait()
        node.start()

    def freeze(self, name):
        self.world.place(name).freeze()

    def thaw(self, name):
        self.world.place(name).thaw()

    def restart(self, name):
        self.killed.append(name)
        self.world.place(name).misbehave(restart=1)

    def end(self):
        """As a simulation ends: all is mended."""
        self.heal()
        for node in self.world.nodes:
            if node.runs and node.name not in self.leaving:
                node.thaw()
            else:
                self.start(node.name)


def play(path, world, say):
    """Hurts a mesh as that script says."""
    player = Player(world)
    kept = read(path)[0].get("replay")
    for engine in world.engines if kept else ():
        engine.flags = [*engine.flags, "--buffer-steps", kept]
    world.start()
    load = Load(world)
    load.run_for(1)
    load.mark("hurt")
    began = time.monotonic()
    for at, verb, words in unfolded(read(path)[1]):
        load.run_for(max(0, began + at / 1000 - time.monotonic()))
        player.do(verb, words)
    load.mark("healed")
    back = world.together()
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, back_s=back)
    if player.killed:
        only_severed_at(outcome, *set(player.killed), times=len(player.killed))
    else:
        none_failed(outcome)
    cache_is_back(outcome)


def is_long(path):
    """By its last line, without its reader: there may be no build yet."""
    last = path.read_text().split()[-2]
    return last.endswith("s") and not last.endswith("ms") and float(last[:-1]) > LONGEST_S


def register(path):
    words = [line[1:].strip() for line in path.read_text().splitlines() if line.startswith("#")]

    def script(world, say):
        play(path, world, say)
    script.__name__ = f"script_{path.stem}"
    ALL.append(Scenario(script, " ".join(words).rstrip("."),
                        "only streams open at what is killed fail; all alike when it ends", "", 16,
                        lambda _: {k: n for k, n in read(path)[0].items() if k != "replay"},
                        asked=is_long(path)))


for found in sorted(FOLDER.glob("*.txt")):
    register(found)
