"""Streams that go on when their engine ends."""
import random

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


WEATHER = {"loss_permille": 50, "delay_us": 5000, "jitter_us": 5000}
# Who is cut off is missed soon; and a stream may need several in turn, none of them twice.
IMPATIENT = ["--timeouts.stream_idle", "3s", "--timeouts.first_byte", "6s",
             "--retries.after_send", 7]


class Exact(Greedy):
    """A chat or a completion of its own length, with its usage."""

    def __init__(self, world, number):
        super().__init__(world, number)
        words = 20 + 10 * number
        self.body.update(max_tokens=words, stream_options={"include_usage": True})
        if number % 2:
            self.body["prompt"] = self.body.pop("messages")[0]["content"]
        self.learn()
        expect(self.expected.endswith(f" ({words} tokens)"), f"an engine says {self.expected!r}")


def all_are_used(world):
    wait_until(lambda: all(w["eligible"] for n in world.nodes for w in n.workers()),
               "all engines are used again", 60)


def weather(world):
    world.wire.heal()
    world.wire.disturb([n.name for n in world.nodes], [e.name for e in world.engines], **WEATHER)


@scenario(hurt="engines, at moments that a seed draws: kill -9, answers cut behind any token, the "
               "way from all nodes severed for 4 s; meanwhile 5 % of all packets between nodes and "
               "engines are lost, and the others come up to 10 ms late",
          promise="no stream at temperature 0 is severed, and each is, token by token and by its "
                  "usage, what an engine says that nobody disturbs", engines=5, seconds=40)
def streams_go_on_in_loss(world, say):
    draw = random.Random(world.seed)
    for node in world.nodes:
        node.flags = IMPATIENT
    world.start()
    load = Load(world)
    readers = [Exact(world, number) for number in range(READERS)]
    weather(world)
    for reader in readers:
        reader.start()
    load.run_for(2)
    load.mark("hurt")
    # Who restarts more often within a minute is held to be two: so no more kills than that.
    hurts = [("kill", engine) for engine in world.engines]
    for _ in range(5 if world.long else 1):
        hurts += [("cut", engine) for engine in world.engines]
        hurts += [("sever", engine) for engine in draw.sample(world.engines, 2)]
    draw.shuffle(hurts)
    for what, engine in hurts:
        load.run_for(draw.uniform(0, 0.5))
        if what == "cut":
            engine.misbehave(die_after_tokens=draw.randrange(100), die_count=3)
            load.run_for(0.5)
            engine.misbehave(die_count=0)
        elif what == "sever":
            world.wire.sever([node.name for node in world.nodes], [engine.name])
            load.run_for(4)
            weather(world)
        else:
            engine.kill()
            load.run_for(draw.uniform(0, 0.5))
            engine.start()
        all_are_used(world)
    load.mark("healed")
    world.wire.heal()
    for reader in readers:
        reader.end()
    outcome = load.end()
    resumed = sum(node.metric("kvasir_resumed_total") for node in world.nodes)
    torn = sum(node.metric("kvasir_resumed_torn_total") for node in world.nodes)
    measure(say, outcome, streams=sum(reader.right for reader in readers), resumed=int(resumed),
            torn=int(torn))
    severed = sum(reader.severed for reader in readers)
    expect(severed == 0, f"{severed} streams were severed")
    expect(torn == 0, f"{torn} continuations were none")
    expect(resumed > 0, "no stream was resumed")
