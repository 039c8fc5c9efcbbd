"""Prompts that one engine computes and another one goes on with: either half is lost."""
import random

from . import expect, scenario
from .hosts import wait_until
from .load import Load
from .nodes import measure
from .streams import IMPATIENT, Greedy, all_are_used

LONG = "A long prompt is worth a second engine, and this sentence comes again. " * 60


class Apart(Greedy):
    """Its prompts are new each time, so that nobody holds them, and long enough to be split."""

    def __init__(self, world, number):
        self.number = number
        super().__init__(world, number)
        self.engine = world.place("e6")

    def prepare(self, turn):
        self.body["messages"][0]["content"] = f"Number {self.number}, turn {turn}. {LONG}"
        self.learn()


PARTS = {"e2": "prefill", "e3": "prefill", "e4": "decode", "e5": "decode"}


def halves(world, make):
    """e1 does all of a request; e6 is nobody's, and says how it should be."""
    for engine in world.engines:
        engine.flags = ["--engine", make]
        if part := PARTS.get(engine.name):
            engine.flags += ["--split", "both" if make == "vllm" else part]
            engine.part = f",role={part}" + (",bootstrap_port=8000" if part == "prefill" else "")
    world.unlisted = {"e6"}
    for node in world.nodes:
        node.flags = IMPATIENT


def count(world, failed=None):
    """Requests that were split, or of these those of which that half failed."""
    series = ("kvasir_split_total" if failed is None else
              f'kvasir_split_failed_total{{reason="{failed}"}}')
    return int(sum(node.metric(series) for node in world.nodes))


def lose_halves(world, say, make):
    draw = random.Random(world.seed)
    halves(world, make)
    world.start()
    load = Load(world)
    readers = [Apart(world, number) for number in range(6)]
    for reader in readers:
        reader.start()
    wait_until(lambda: count(world) > len(readers), "prompts are split")
    load.mark("hurt")
    before = count(world)
    e2, e3, e4, e5 = world.engines[1:5]
    for killed in ([e2], [e4], [e2, e3], [e4, e5]):
        for engine in killed:
            engine.kill()
            load.run_for(draw.uniform(0, 0.5))
        load.run_for(1)
        for engine in killed:
            engine.start()
        all_are_used(world)
        load.run_for(draw.uniform(0.5, 1))
    for engine in (e3, e5):
        world.wire.sever([node.name for node in world.nodes], [engine.name])
        load.run_for(4)
        world.wire.heal()
        all_are_used(world)
        engine.misbehave(die_after_tokens=draw.randrange(1, 40), die_count=3)
        load.run_for(1)
    # They lose each other, and no node loses them.
    world.wire.sever(["e2", "e3"], ["e4", "e5"])
    load.run_for(7)
    world.wire.heal()
    all_are_used(world)
    load.mark("healed")
    healed = count(world)
    wait_until(lambda: count(world) > healed + len(readers), "prompts are split again")
    for reader in readers:
        reader.end()
    outcome = load.end()
    failed = [count(world, name) for name in ("prefill", "decode")]
    severed = sum(reader.severed for reader in readers)
    measure(say, outcome, streams=sum(reader.right for reader in readers),
            split=count(world), prefill_failed=failed[0], decode_failed=failed[1],
            resumed=int(sum(n.metric("kvasir_resumed_total") for n in world.nodes)))
    expect(severed == 0, f"{severed} streams were severed")
    expect(all(reader.right > 0 for reader in readers), "one reader read nothing")
    expect(healed > before, "no prompt was split while halves were lost")
    expect(sum(failed) > 0, "no half failed")


HALVES = ("two engines that compute prompts and two that go on with them, beside one that does "
          "all of it: kill -9 of one or both of a kind, the way from all nodes severed, answers "
          "cut, the halves severed from each other")
WHOLE = ("every answer is whole, and word for word what one engine says alone; what a half failed "
         "is counted; prompts are split again in the end")


@scenario(hurt=f"vLLM, {HALVES}", promise=WHOLE, engines=6, seconds=45)
def halves_die_vllm(world, say):
    lose_halves(world, say, "vllm")


@scenario(hurt=f"SGLang, {HALVES}", promise=WHOLE, engines=6, seconds=45)
def halves_die_sglang(world, say):
    lose_halves(world, say, "sglang")
