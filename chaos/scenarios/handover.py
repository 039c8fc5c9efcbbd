"""Engines that are older than their replay reaches back, so that nobody can read all of
their events again: what is known of them is handed from node to node, or comes from their
disks. In the end every node's mirror is compared with every engine's cache, key by key.
"""
from . import expect, scenario
from .hosts import wait_until
from .limits import with_snapshots
from .soak import Judge, Publisher
from .world import SERVE, SETTLE_S

PROMISE = "every node's mirror is every engine's cache, key by key"
REACH_S = 20  # of a replay while nodes come and go: whoever is away for longer has lost it


def begin(world, rate, replay, age, then=None):
    """Starts everything, and waits until the engines published so many batches, from when
    all are read. None of what they stored was evicted by then. `then`: the rate afterwards."""
    world.engines = [Publisher(world, engine.name) for engine in world.engines]
    for engine in world.engines:
        engine.rate, engine.replay, engine.room = 0, replay, 3 * age
    world.start()
    wait_until(lambda: all(stream["state"] == "live" for node in world.nodes
                           for worker in node.workers() for stream in worker["events"]),
               "all engines are read", SETTLE_S)
    go_on(world, rate)
    reach(world, age)
    go_on(world, then or replay // REACH_S)


def go_on(world, rate):
    for engine in world.engines:
        engine.set_rate(rate)


def age_of(world):
    return [engine.cache()["next_seq"] for engine in world.engines]


def reach(world, age):
    wait_until(lambda: min(age_of(world)) >= age, f"{age} batches were published", 60)


def end(world, say):
    judge = Judge(world)
    trouble = judge.quiet()
    say(batches=sum(age_of(world)), blocks=sum(engine.blocks() for engine in world.engines),
        compared=judge.compared, wrong=judge.wrong)
    expect(not trouble, "\n".join([trouble, *judge.examples]))


def is_ready(node):
    return node.host.request(node.address, SERVE, "GET", "/ready")[0] == 200


@scenario(hurt="all nodes, one after the other: SIGTERM, started again, the next one once it is "
               "ready; engines are three times older than their replay",
          promise=PROMISE, seconds=30)
def rolling_restart_short_replay(world, say):
    begin(world, rate=150, replay=450, age=1350)
    back = []
    for node in world.nodes:
        node.stop()
        node.start()
        back.append(wait_until(lambda node=node: is_ready(node), f"{node.name} is ready")[1])
    say(back_s=max(back))
    end(world, say)


@scenario(hurt="wire between a node that does not read the engine and the other nodes: severed for "
               "3 s; the engine is twice as old as its replay (long: 12,000 batches old)",
          promise=PROMISE, seconds=30, engines=1)
def cut_short_replay(world, say):
    replay, age = (10000, 12000) if world.long else (2000, 4000)
    begin(world, rate=500, replay=replay, age=age, then=500)
    apart = next(node for node in world.nodes if not node.mesh()["streams"][0]["reads"])
    world.wire.sever([apart.name], [node.name for node in world.nodes if node != apart])
    reach(world, age_of(world)[0] + 3 * 500)
    world.wire.heal()
    end(world, say)


@scenario(hurt="all nodes at once: kill -9; started again with their disks, then one of them once "
               "more; engines are three times older than their replay",
          promise=PROMISE, seconds=30)
def all_killed_short_replay(world, say):
    for node in world.nodes:
        with_snapshots(world, node, world.net.folder / f"data-{node.name}")
    begin(world, rate=150, replay=900, age=2700)
    for node in world.nodes:
        node.kill()
    for node in world.nodes:
        node.start()
    world.together()
    for node in world.nodes:
        wait_until(lambda node=node: is_ready(node), f"{node.name} is ready")
    world.nodes[0].kill()
    world.nodes[0].start()
    wait_until(lambda: is_ready(world.nodes[0]), "the first one is ready")
    end(world, say)
