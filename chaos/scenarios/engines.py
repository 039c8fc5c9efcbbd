"""Engines die and come back with nothing."""
import threading

from . import expect, scenario
from .hosts import IO_S, SUBNET, wait_until
from .load import Load
from .nodes import cache_is_back, measure, none_failed, only_severed_at

FOREVER = 2**32 - 1


@scenario(hurt="one of three engines: kill -9 amid streams, started again",
          promise="only streams open at it fail; it comes back as empty as it is")
def lose_an_engine(world, say):
    world.start()
    engine = world.place("e1")
    load = Load(world)
    load.run_for(3)
    load.mark("hurt")
    engine.kill()
    load.run_for(3)
    load.mark("healed")
    engine.start()
    _, back = wait_until(lambda: all(w["eligible"] for n in world.nodes for w in n.workers()),
                         "all engines are used again")
    load.run_for(4)
    outcome = load.end()
    measure(say, outcome, back_s=back)
    only_severed_at(outcome, engine.name)
    cache_is_back(outcome)


@scenario(hurt="one of three engines forgets all, at the same address, at once",
          promise="only streams open at it fail; nobody credits it with what it forgot")
def engine_restarts_empty(world, say):
    world.start()
    load = Load(world)
    load.run_for(3)
    load.mark("hurt")
    engine = world.engines[0]
    engine.misbehave(restart=1)
    load.mark("healed")
    load.run_for(4)
    outcome = load.end()
    measure(say, outcome)
    only_severed_at(outcome, engine.name)
    wait_until(lambda: all(w["events"][0]["blocks"] == engine.blocks() for n in world.nodes
                           for w in n.workers() if w["id"] == engine.name),
               "all nodes know what it holds now")
    expect(engine.runs, "the engine ended")


@scenario(hurt="one of three engines answers every request with 500, at once, and looks well",
          promise="no request fails; it attracts none, and is used again when it is well")
def engine_answers_500(world, say):
    world.start()
    load = Load(world)
    load.run_for(3)
    load.mark("hurt")
    engine = world.engines[0]

    def tried():
        return sum(w["failures"] for n in world.nodes for w in n.workers()
                   if w["id"] == engine.name)
    engine.misbehave(fail_status=500, fail_count=FOREVER)
    wait_until(lambda: all("circuit" in w["state"] for n in world.nodes for w in n.workers()
                           if w["id"] == engine.name), "all nodes leave it alone")
    load.run_for(3)
    failures = tried()
    engine.misbehave(fail_count=0)
    load.mark("healed")
    _, back = wait_until(lambda: all(w["eligible"] for n in world.nodes for w in n.workers()),
                         "all engines are used again", 60)
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, tried=failures, back_s=back)
    none_failed(outcome)
    # Failures that open circuits (breaker.failures, and those on their way), and trials.
    expect(failures < 20 * len(world.nodes), f"{failures} requests went there")


@scenario(hurt="one of three engines: kill -9 amid streams, while a fifth of all packets between "
               "nodes and engines is lost",
          promise="only streams open at it fail, and what was cut off there and lost again; it "
                  "comes back as empty as it is")
def engine_dies_in_loss(world, say):
    world.start()
    names = [place.name for place in (*world.nodes, *world.engines)]
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    world.wire.disturb(names, names, both=False, loss_permille=200)
    load.run_for(2)
    engine = world.engines[0]
    engine.kill()
    load.run_for(3)
    lost = world.wire.say("counts")["lost"]
    load.mark("healed")
    world.wire.heal()
    engine.start()
    _, back = wait_until(lambda: all(w["eligible"] for n in world.nodes for w in n.workers()),
                         "all engines are used again")
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, back_s=back, lost=lost)
    only_severed_at(outcome, engine.name, sent_twice=True)
    cache_is_back(outcome)


@scenario(hurt="engines are found by a name: one more, one less, one at another address, then a "
               "name server that is dead, and one engine that is killed and left out at once",
          promise="only streams open at the killed one fail; all nodes know exactly those that "
                  "the name stands for", engines=4, seconds=20)
def engines_are_named(world, say):
    first, second, third, fourth = world.engines
    world.name(first, second)
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    came = world.name(first, second, third)
    load.run_for(1)
    gone = world.name(second, third)
    first.stop()
    world.name(second, third, fourth)
    load.run_for(1)
    world.name(third, fourth)
    second.stop()
    second.host.move(SUBNET + "100")
    second.start()
    world.name(second, third, fourth)
    load.run_for(1)
    world.dns.kill()
    load.run_for(3)
    world.workers_are({engine.id: "healthy" for engine in (second, third, fourth)})
    world.dns = None
    third.kill()
    killed = third.id
    left = world.name(second, fourth)
    load.mark("healed")
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, came_s=came, gone_s=gone, killed_gone_s=left)
    only_severed_at(outcome, killed)
    # e1 to e4, and e2 at its other address: nobody came twice.
    added = [node.program.log().count("worker_added") for node in world.nodes]
    expect(added == [5] * len(added), f"workers were added {added} times")


def come_and_go(world, say, source):
    """Under load: one more, one less that serves on, one at another address, one
    back. No request may fail, nobody is forgotten meanwhile or twice there."""
    first, second, third, fourth = world.engines
    world.source = source
    world.name(first, second, third)
    world.start()
    world.workers_are({engine.id: "healthy" for engine in world.named})
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    lasting = Lasting(world, third)
    came = world.name(first, second, third, fourth)
    load.run_for(1)
    gone = world.name(second, third, fourth)
    first.stop()
    world.name(third, fourth)
    second.stop()
    second.host.move(SUBNET + "100")
    second.start()
    moved = world.name(second, third, fourth)
    first.start()
    back = world.name(first, second, third, fourth)
    load.mark("healed")
    load.run_for(2)
    lasting.end()
    outcome = load.end()
    measure(say, outcome, came_s=came, gone_s=gone, moved_s=moved, back_s=back,
            looks=lasting.looks)
    none_failed(outcome)
    expect(lasting.looks > 0, "nobody looked at the nodes meanwhile")
    expect(not lasting.wrong, f"{lasting.wrong[:3]}")
    for node in world.nodes:
        urls = [worker["url"] for worker in node.workers()]
        expect(len(urls) == len(set(urls)) == 4, f"{node.name} has {urls}")


class Lasting(threading.Thread):
    """Looks at all nodes' workers: one of them lasts, and none is there twice."""

    def __init__(self, world, engine):
        super().__init__(daemon=True)
        self.world, self.id = world, engine.id
        self.looks, self.wrong, self.ended = 0, [], threading.Event()
        self.start()

    def run(self):
        while not self.ended.wait(0.1):
            for node in self.world.nodes:
                urls = [worker["url"] for worker in node.workers()]
                self.looks += 1
                if len(set(urls)) != len(urls) or f"http://{self.id}" not in urls:
                    self.wrong.append(f"{node.name} has {urls}")

    def end(self):
        self.ended.set()
        self.join(IO_S)


COMING = {"engines": 4, "seconds": 20}
PROMISE = ("no request fails; no worker is forgotten or there twice, and in the end all nodes know "
           "those that are named")
HURT = "one more, one less, one at another address, one back"


@scenario(hurt=f"engines found by a DNS name, under load: {HURT}", promise=PROMISE, **COMING)
def engines_come_and_go_by_dns(world, say):
    come_and_go(world, say, "dns")


@scenario(hurt=f"engines found by SRV records, likewise: {HURT}", promise=PROMISE, **COMING)
def engines_come_and_go_by_srv(world, say):
    come_and_go(world, say, "srv")


@scenario(hurt=f"engines found in a watched file, likewise: {HURT}", promise=PROMISE, **COMING)
def engines_come_and_go_by_file(world, say):
    come_and_go(world, say, "file")


@scenario(hurt=f"engines found in EndpointSlices of Kubernetes, likewise: {HURT}", promise=PROMISE,
          **COMING)
def engines_come_and_go_by_kube(world, say):
    come_and_go(world, say, "kube")


@scenario(hurt="engines are found in EndpointSlices: the API server ends all watches, answers 500 "
               "for 3 s, and has forgotten what was before; one engine leaves and one comes meanwhile",
          promise="no request fails; who was known stays known meanwhile, and then all nodes know "
                  "those that are named", engines=4, seconds=15)
def kube_api_forgets(world, say):
    first, second, third, fourth = world.engines
    world.source = "kube"
    world.name(first, second, third)
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    lasting = Lasting(world, third)
    world.kube.status = 500
    world.kube.end_watches()
    world.named = [second, third, fourth]
    world.tell()
    world.kube.forget()
    load.run_for(3)
    meanwhile = [sorted(node.states()) for node in world.nodes]
    lists = world.kube.lists
    world.kube.status = 200
    load.mark("healed")
    told = world.workers_are({engine.id: "healthy" for engine in world.named})
    load.run_for(2)
    lasting.end()
    outcome = load.end()
    measure(say, outcome, told_s=told, looks=lasting.looks)
    none_failed(outcome)
    known = sorted(engine.id for engine in (first, second, third))
    expect(meanwhile == [known] * len(world.nodes), f"meanwhile: {meanwhile}")
    expect(world.kube.lists >= lists + len(world.nodes), "not all nodes began with a list")
    expect(not lasting.wrong, f"{lasting.wrong[:3]}")


@scenario(hurt=f"engines that announce themselves to one node after the other, likewise: {HURT}",
          promise=PROMISE, **COMING)
def engines_come_and_go_by_announcing(world, say):
    come_and_go(world, say, "announce")
