"""Streams that go on when their engine ends."""
from . import expect, scenario
from .hosts import wait_until
from .load import Load, Reader
from .nodes import measure

READERS = 10
LAG = {"event_tokens": 4}


class Greedy(Reader):
    """A reader whose streams are at temperature 0, which none may lose."""

    def __init__(self, world, number):
        super().__init__(world, world.clients[0], what=f"streams, number {number}",
                         temperature=0)


@scenario(hurt="engines that put up to 4 tokens into an event, one after the other, twice each: "
               "kill -9 amid streams at temperature 0, started again",
          promise="no such stream is severed, and each is word for word what an engine says that "
                  "nobody disturbs", seconds=25)
def engines_die_in_streams(world, say):
    world.start()
    load = Load(world)
    readers = [Greedy(world, number) for number in range(READERS)]
    for engine in world.engines:
        engine.misbehave(**LAG)
    for reader in readers:
        reader.start()
    load.run_for(2)
    load.mark("hurt")
    for engine in [*world.engines, *world.engines]:
        engine.kill()
        load.run_for(1)
        engine.start()
        engine.misbehave(**LAG)
        wait_until(lambda: all(w["eligible"] for n in world.nodes for w in n.workers()),
                   "all engines are used again")
        load.run_for(1)
    load.mark("healed")
    load.run_for(1)
    for reader in readers:
        reader.end()
    outcome = load.end()
    resumed = sum(node.metric("kvasir_resumed_total") for node in world.nodes)
    measure(say, outcome, streams=sum(reader.right for reader in readers), resumed=int(resumed))
    severed = sum(reader.severed for reader in readers)
    expect(severed == 0, f"{severed} streams were severed")
    expect(resumed > 0, "no stream was resumed")
