"""Two islands of nodes and engines, with a long way between them."""
import json
import time

from . import expect, scenario
from .hosts import wait_until
from .load import Load
from .nodes import cache_is_back, none_failed_once_healed, only_severed_at
from .world import NAME

WEST, EAST = ("n1", "n2", "e1", "e2"), ("n3", "n4", "e3", "e4")
ISLANDS = {**{name: "west" for name in WEST}, **{name: "east" for name in EAST}}
SETTINGS = {"nodes": 4, "engines": 4, "clients": 2, "islands": ISLANDS, "seconds": 30}
WAY_MS = 20  # one way
SLICE_S = 5
GONE_S = 25  # a client waits no longer


class Phase:
    """What crosses from now on."""

    def __init__(self, world):
        self.world, self.began = world, time.monotonic()
        self.known, self.rows = set(self.decisions()), {}
        self.bytes = self.carried()

    def gather(self):
        """A node remembers its last 1,000 decisions: call it before that many are new."""
        self.rows.update((key, row) for key, row in self.decisions().items()
                         if key not in self.known)

    def decisions(self):
        """{id: one of the last 1,000 of a node}"""
        return {row["id"]: {**row, "home": ISLANDS[node.name]} for node in self.world.running()
                for row in json.loads(node.ask("/admin/decisions?count=1000"))}

    def carried(self):
        """Bytes across: between nodes; between nodes and engines."""
        mesh = self.world.wire.bytes(*([n for n in side if n[0] == "n"] for side in (WEST, EAST)))
        return mesh, self.world.wire.bytes(WEST, EAST) - mesh

    def end(self):
        """What it was, by name; requests and KiB are those of a second."""
        seconds = time.monotonic() - self.began
        mesh, engines = (b - a for a, b in zip(self.bytes, self.carried()))
        self.gather()
        rows = list(self.rows.values())
        crossed = [row for row in rows if row["crossed"]]
        west = [row["crossed"] for row in rows if row["home"] == "west"]

        def cached(of):
            known = [row for row in of if row["cached_known"]]
            prompt = sum(row["prompt_tokens"] for row in known)
            return sum(row["cached_tokens"] for row in known) / prompt if prompt else None
        return {"asked": len(rows) / seconds, "crossed": len(crossed) / max(len(rows), 1),
                "west_crossed": sum(west) / max(len(west), 1),
                "found_inside": cached([row for row in rows if not row["crossed"]]),
                "found_across": cached(crossed), "mesh_kb": mesh / 1024 / seconds,
                "engines_kb": engines / 1024 / seconds, "mesh_total_kb": mesh / 1024}


class Loads:
    """A load on each island, which talks to the nodes of its own."""

    def __init__(self, world, users=8):
        self.loads = [Load(world, users=users, client=at, name=f"{island}.{NAME}", seed=world.seed + at)
                      for at, island in enumerate(("west", "east"))]

    def run_for(self, seconds):
        self.loads[0].run_for(seconds)

    def mark(self, name):
        for load in self.loads:
            load.mark(name)

    def end(self):
        return [load.end() for load in self.loads]


def look(world, load=None, seconds=3):
    """A phase of so long."""
    phase = Phase(world)
    if load is not None:
        while seconds > SLICE_S:
            load.run_for(SLICE_S)
            phase.gather()
            seconds -= SLICE_S
        load.run_for(seconds)
    else:
        end = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end, "time passes", seconds + 5)
    return phase.end()


def begin(world, users=8):
    """(what crosses while nobody asks anything, the loads)"""
    world.wire.disturb(WEST, EAST, delay_us=WAY_MS * 1000)
    world.start()
    return look(world), Loads(world, users)


def tell(say, outcomes, *phases, **more):
    for where, outcome in zip(("west", "east"), outcomes):
        say(**{f"{where}_sent": outcome.sent, f"{where}_failed": outcome.failed,
               f"{where}_cached": outcome.phases()})
    say(**{name: [phase[name] for phase in phases] for name in phases[0]}, **more)


@scenario(hurt="all engines of one of two islands, 40 ms apart: kill -9, started again",
          promise="only streams open at them fail, and what was sent to both; all cross then, and "
                  "fewer than half once they are back", **SETTINGS)
def lose_an_island(world, say):
    idle, load = begin(world)
    dead = [world.place(name) for name in ("e1", "e2")]
    load.run_for(3)
    before = look(world, load)
    load.mark("hurt")
    for engine in dead:
        engine.kill()
    wait_until(lambda: all(not w["eligible"] for n in world.nodes for w in n.workers()
                           if w["id"] in ("e1", "e2")), "all nodes know")
    during = look(world, load)
    load.mark("healed")
    for engine in dead:
        engine.start()
    _, back = wait_until(lambda: all(w["eligible"] for n in world.nodes for w in n.workers()),
                         "all engines are used again")
    load.run_for(3)
    after = look(world, load)
    outcomes = load.end()
    tell(say, outcomes, idle, before, during, after, back_s=back)
    for outcome in outcomes:
        only_severed_at(outcome, "e1", "e2", sent_twice=True)
        cache_is_back(outcome)
    expect(during["west_crossed"] == 1, f"not all crossed while nobody was left: {during}")
    expect(after["west_crossed"] < 0.5, f"too many crossed once all were back: {after}")


@scenario(hurt="wire between two islands, 40 ms apart: severed (long: for a minute; or for --minutes), "
               "healed",
          promise="only what was under way across fails; none crosses then; all alike within "
                  "15 s of the healing", **SETTINGS)
def cut_the_ocean(world, say):
    # A long one is about what piles up, not about how much at once.
    idle, load = begin(world, users=2 if world.minutes else 8)
    load.run_for(3)
    before = look(world, load)
    load.mark("hurt")
    world.wire.sever(WEST, EAST)
    west, east = world.nodes[:2], world.nodes[2:]
    noticed = max(world.sees(west, "n3", "dead"), world.sees(east, "n1", "dead"))
    wait_until(lambda: all(w["eligible"] == (ISLANDS[w["id"]] == ISLANDS[n.name])
                           for n in world.nodes for w in n.workers()), "all nodes know")
    cut_s = 60 * world.minutes if world.minutes else 60 if world.long else 3
    if cut_s > GONE_S:  # what was under way across would end amid it
        load.run_for(GONE_S)
    during = look(world, load, cut_s)
    load.mark("healed")
    healing = Phase(world)
    world.wire.heal()
    world.wire.disturb(WEST, EAST, delay_us=WAY_MS * 1000)
    back = world.together()
    wait_until(lambda: all(w["eligible"] for n in world.nodes for w in n.workers()),
               "all engines are used again")
    healed = healing.end()
    load.run_for(3)
    after = look(world, load, 60 if world.minutes else 3)
    outcomes = load.end()
    tell(say, outcomes, idle, before, during, healed, after, noticed_s=noticed, back_s=back)
    for outcome in outcomes:
        expect(outcome.failed <= outcome.users, f"failed: {outcome.failures} {outcome.odd}")
        none_failed_once_healed(outcome)
        cache_is_back(outcome)
    expect(during["crossed"] == 0, f"some crossed a severed wire: {during}")
    expect(back < 15, f"together {back:.1f} s after the healing")
