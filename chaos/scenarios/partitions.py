"""The wire between nodes is severed, loses, delays. Engines and clients reach all
nodes throughout: no request may fail for it."""
import time

from . import expect, scenario
from .load import Load
from .nodes import cache_is_back, measure, none_failed


@scenario(hurt="wire between two nodes and the third: severed, healed",
          promise="no request fails; each side goes on; all alike within 15 s of the healing")
def partition_two_from_one(world, say):
    world.start()
    left, right = world.nodes[:2], world.nodes[2:]
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    world.wire.sever([n.name for n in left], [n.name for n in right])
    noticed = max(world.sees(left, right[0].name, "dead"),
                  world.sees(right, left[0].name, "dead"), world.sees(right, left[1].name, "dead"))
    load.run_for(20 if world.long else 2)
    load.mark("healed")
    world.wire.heal()
    back = world.together()
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, noticed_s=noticed, back_s=back)
    none_failed(outcome)
    cache_is_back(outcome)
    expect(back < 15, f"together {back:.1f} s after the healing")


@scenario(hurt="wire from one node to another, one way: severed, healed",
          promise="no request fails; all alike within 15 s of the healing")
def partition_one_way(world, say):
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    world.wire.sever(["n1"], ["n3"], both=False)
    load.run_for(30 if world.long else 6)
    world.nobody_is_dead()  # who can be reached by way of the third node is not
    load.mark("healed")
    world.wire.heal()
    back = world.together()
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, back_s=back)
    none_failed(outcome)
    cache_is_back(outcome)
    expect(back < 15, f"together {back:.1f} s after the healing")


STILL_S = 0.3  # a machine on which an answer takes longer stood still, and so did nodes


class DeadSpells:
    """How long at a time live nodes are held to be dead, and how long it took to ask them."""

    def __init__(self, world):
        self.world = world
        self.since = {}
        self.longest_s = self.slowest_s = 0.0

    def look(self):
        now = time.monotonic()
        self.world.wire.say("counts")
        for node in self.world.nodes:
            for name, state in node.members().items():
                if state != "dead":
                    self.since.pop((node.name, name), None)
                    continue
                spell = now - self.since.setdefault((node.name, name), now)
                self.longest_s = max(self.longest_s, spell, 0.01)
        self.slowest_s = max(self.slowest_s, time.monotonic() - now)


def disturbed(world, say, dead_s, **settings):
    """dead_s: how long at a time a live node may be held to be dead that did not stand still."""
    world.start()
    names = [node.name for node in world.nodes]
    spells = DeadSpells(world)
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    world.wire.disturb(names, names, both=False, **settings)
    for _ in range(300 if world.long else 60):
        load.run_for(0.1)
        spells.look()
    counts = world.wire.say("counts")
    load.mark("healed")
    world.wire.heal()
    back = world.together()
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, back_s=back, lost=counts["lost"], duplicated=counts["duplicated"],
            held_dead_s=spells.longest_s)
    none_failed(outcome)
    cache_is_back(outcome)
    expect(spells.longest_s <= (dead_s or 5 * (spells.slowest_s > STILL_S)),
           f"held to be dead for {spells.longest_s:.1f} s")


@scenario(hurt="wire between all nodes: 20 % of packets lost",
          promise="no request fails; who is held to be dead clears that within 5 s")
def loss_of_a_fifth(world, say):
    disturbed(world, say, 5, loss_permille=200)


@scenario(hurt="wire between all nodes: 80 ms +- 40 ms, 2 % twice, out of order",
          promise="no request fails, nobody is declared dead")
def slow_and_shaky(world, say):
    disturbed(world, say, 0, delay_us=80000, jitter_us=40000, duplicate_permille=20)
