"""One bad client among good ones: what it sends breaks engines."""
import contextlib
import itertools
import json
import threading

from . import expect, scenario
from .engines import FOREVER
from .hosts import wait_until
from .load import Load
from .nodes import measure, none_failed
from .world import MODEL, SERVE

ATTACKERS = 4
CONVERSATIONS, TURNS = 6, 6


def ask(world, host, node, text):
    """The status of a request that engines may have orders to break at."""
    body = {"model": MODEL, "max_tokens": 8, "messages": [{"role": "user", "content": text}]}
    return world.net.hosts[host].request(node.address, SERVE, "POST", "/v1/chat/completions",
                                         body, **{"x-chaos": "1"})[0]


@contextlib.contextmanager
def attacked(world, host):
    """Meanwhile that client never stops: the statuses it gets."""
    over = threading.Event()
    got = []

    def attack(number):
        for turn, node in enumerate(itertools.cycle(world.nodes)):
            if over.is_set():
                return
            got.append(ask(world, host, node, f"bad {number} {turn}"))
    threads = [threading.Thread(target=attack, args=(i,), daemon=True)
               for i in range(ATTACKERS)]
    for thread in threads:
        thread.start()
    try:
        yield got
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


def left_alone(world):
    """How many engines the node that uses the fewest does not use."""
    return max(sum(not w["eligible"] for w in n.workers()) for n in world.nodes)


@scenario(hurt="all engines break at the prompts of one client, which never stops: at first they "
               "answer 500, then nothing at all",
          promise="no other request fails, none is repeated; at most half of the engines are left "
                  "alone", clients=2)
def client_breaks_engines(world, say):
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    orders = ({"fail_status": 500, "fail_count": FOREVER},
              {"fail_count": 0, "die_after_tokens": 0, "die_count": FOREVER})
    out = []
    for engine in world.engines:
        engine.misbehave(marked=1, **orders[0])
    with attacked(world, "c2") as got:
        for order in orders:
            for engine in world.engines:
                engine.misbehave(**order)
            for _ in range(5):
                load.run_for(0.4)
                out.append(left_alone(world))
    load.mark("healed")
    load.run_for(2)
    _, back = wait_until(lambda: left_alone(world) == 0, "all engines are used again", 60)
    outcome = load.end()
    measure(say, outcome, attacks=len(got), left_alone=max(out), back_s=back)
    none_failed(outcome)
    expect(outcome.retried == 0, f"{outcome.retried} requests had to be repeated")
    expect(200 not in got, "the attack did not break anything")
    expect(len(got) > 100, f"only {len(got)} requests broke")
    expect(max(out) <= len(world.engines) // 2, f"left alone: {out}")



def failures(world):
    return sum(w["failures"] for n in world.nodes for w in n.workers())


def attracted(world):
    """Requests that were refused where their prompt was said to be."""
    return sum(d["status"] == 401 and d["overlap"] > 0 for n in world.nodes
               for d in json.loads(n.ask("/admin/decisions?count=1000")))


@scenario(hurt="one of three engines breaks at one client's prompts, each in its turn: it answers "
               "401, then 500; the turns of a conversation go through one node after the other",
          promise="no other request fails; what an engine did not take attracts no later turn to it",
          clients=2)
def refused_prompts(world, say):
    for node in world.nodes:
        node.flags = ["--breaker.failures", 1000]
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    got, again = [], 0
    for number, status in itertools.product(range(CONVERSATIONS), (401, 500)):
        # One after the other, for load may keep new prompts from one of them; and no two
        # conversations begin alike.
        engine = world.engines[number % len(world.engines)]
        engine.misbehave(marked=1, fail_status=status, fail_count=FOREVER)
        text = f"{number} {status} is the beginning of all turns " * 60
        for turn, node in zip(range(TURNS), itertools.cycle(world.nodes)):
            text += f" and turn {turn}"
            load.run_for(0.05)  # until peers know what became of the last turn
            before = failures(world)
            got.append(ask(world, "c2", node, text))
            again += turn > 0 and failures(world) > before
        engine.misbehave(fail_count=0)
    load.mark("healed")
    load.run_for(2)
    outcome = load.end()
    refused = attracted(world)
    measure(say, outcome, refused=got.count(401), attracted=refused, broken_again=again)
    none_failed(outcome)
    expect(200 in got and set(got) <= {200, 401}, f"answered otherwise: {got}")
    expect(got.count(401) + failures(world) > 0, "nothing went to an engine that breaks")
    expect(refused + again <= len(got) // 8, f"{refused} and {again} of {len(got)} turns followed "
                                              f"those that it did not take")
