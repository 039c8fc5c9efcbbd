"""Nodes die, freeze, come back."""
from . import expect, scenario
from .load import Load

SEVERED_ONLY = "only streams open at what is killed fail"


def measure(say, outcome, **more):
    say(sent=outcome.sent, failed=outcome.failed, retried=outcome.retried,
        compared=outcome.read_right, cached=outcome.phases(), **more)


def only_severed_at(outcome, *names, times=None, sent_twice=False):
    """Whatever failed was an open stream there, and no more than one a user each
    time that one was killed. `sent_twice`: a request may have been cut off at one
    and sent again to the next of them; it is answered 502, by no worker."""
    in_vain = outcome.failures.get("status", 0) if sent_twice else 0
    expect(set(outcome.failures) <= ({"severed", "status"} if in_vain else {"severed"}),
           f"failed otherwise: {outcome.failures} {outcome.odd}")
    expect(all("status=502" in line for line in outcome.odd),
           f"failed otherwise: {outcome.odd}")
    expect(outcome.failed <= outcome.users * (times or len(names)),
           f"{outcome.failed} failed, {outcome.users} users")
    # One severed stream may be from a killed engine through a killed node.
    expect(outcome.failed_at(*names) >= outcome.failed - in_vain,
           f"failed elsewhere: {outcome.nodes} {outcome.workers}")


def none_failed(outcome):
    expect(outcome.failed == 0, f"failed: {outcome.failures} {outcome.nodes} {outcome.odd}")
    expect(outcome.answered > 0, "nothing was answered")


def none_failed_once_healed(outcome):
    """A connection begun before has a second to fail (connect-ms)."""
    after = outcome.between("healed", "")[2:-1]
    expect(sum(row["failed"] for row in after) == 0, f"failed after all were back: {after}")


def cache_is_back(outcome, loss=0.1):
    """In the end prompts are found in caches as before."""
    before, *_, after = outcome.phases()
    expect(after is not None and before is not None, "nothing was answered in a phase")
    expect(after >= before - loss, f"cached before: {before:.3f}, after: {after:.3f}")


def lose(world, say, count):
    world.start()
    killed, left = world.nodes[-count:], world.nodes[:-count]
    load = Load(world)
    load.run_for(3)
    load.mark("hurt")
    for node in killed:
        node.kill()
    noticed = max(world.sees(left, node.name, "dead", timeout_s=10) for node in killed)
    load.run_for(2)
    load.mark("healed")
    for node in killed:
        node.start()
    back = world.together(timeout_s=15)
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, noticed_s=noticed, back_s=back)
    only_severed_at(outcome, *(node.name for node in killed))
    cache_is_back(outcome)


@scenario(hurt="one of three nodes: kill -9, started again",
          promise=SEVERED_ONLY + "; dead within 10 s, back within 15 s")
def lose_one_of_three(world, say):
    lose(world, say, 1)


@scenario(hurt="two of five nodes at once: kill -9, started again",
          promise=SEVERED_ONLY + "; dead within 10 s, back within 15 s", nodes=5)
def lose_two_of_five(world, say):
    lose(world, say, 2)


@scenario(hurt="all nodes, one after the other: SIGTERM, started again",
          promise="no request fails")
def rolling_restart(world, say):
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    back = []
    for node in world.nodes:
        node.stop()
        load.run_for(1)
        node.start()
        back.append(world.together())
    load.mark("healed")
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, back_s=max(back))
    none_failed(outcome)
    cache_is_back(outcome)


@scenario(hurt="all nodes at once: kill -9, started again",
          promise="requests fail only while no node runs; what engines hold is known again")
def restart_all_at_once(world, say):
    world.start()
    load = Load(world, **{"retries": 8})
    load.run_for(3)
    load.mark("hurt")
    for node in world.nodes:
        node.kill()
    for node in world.nodes:
        node.start()
    back = world.together()
    load.mark("healed")
    load.run_for(5)
    outcome = load.end()
    measure(say, outcome, back_s=back)
    none_failed_once_healed(outcome)
    cache_is_back(outcome)


@scenario(hurt="one of three nodes: SIGSTOP for 5 s (long: 30 s), SIGCONT",
          promise="its requests wait and are answered; it is back within 10 s")
def freeze_a_node(world, say):
    world.start()
    load = Load(world, **{"timeout-ms": 60000})
    frozen, left = world.nodes[-1], world.nodes[:-1]
    load.run_for(2)
    load.mark("hurt")
    frozen.freeze()
    noticed = world.sees(left, frozen.name, "dead", "suspect")
    load.run_for(30 if world.long else 5)
    load.mark("healed")
    frozen.thaw()
    back = world.together(timeout_s=10)
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, noticed_s=noticed, back_s=back)
    none_failed(outcome)
    cache_is_back(outcome)


@scenario(hurt="the DNS server dies; then a node; both come back",
          promise=SEVERED_ONLY + "; who is known stays known without DNS")
def dns_dies(world, say):
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    world.dns.kill()
    world.dns = None
    load.run_for(3)
    world.nodes[-1].kill()
    world.sees(world.nodes[:-1], world.nodes[-1].name, "dead", timeout_s=10)
    load.run_for(2)
    load.mark("healed")
    world.resolve(world.nodes)
    world.nodes[-1].start()
    back = world.together(timeout_s=15)
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, back_s=back)
    only_severed_at(outcome, world.nodes[-1].name)
    cache_is_back(outcome)


ROUND_KB = 16  # of heap, where a load came further in its words


def heap_kb(node):
    """What it holds, but for the log of what it told peers, which grows up to a
    bound; None: not to be had."""
    if node.heap is None:
        return None
    return int(node.heap.held_bytes() - node.metric("kvasir_gossip_log_bytes")) // 1024


@scenario(hurt="two of three nodes in turn, round after round (long: 30): kill -9, and the wire "
               "between the others severed",
          promise="after each round the survivor holds no more heap and descriptors than before",
          seconds=17)
def rounds_leave_nothing(world, say):
    survivor, others = world.nodes[0], world.nodes[1:]
    survivor.own_heap()
    world.start()
    heap, rss, fds = [], [], []
    for turn in range(30 if world.long else 4):
        load = Load(world)  # of the same words: caches have nothing new to hold
        load.run_for(1)
        other = others[turn % len(others)]
        other.kill()
        world.wire.sever([survivor.name], [n.name for n in others if n is not other])
        load.run_for(1)
        world.wire.heal()
        other.start()
        world.together()
        only_severed_at(load.end(), other.name)
        world.settle()
        heap.append(heap_kb(survivor))
        rss.append(survivor.rss_kb())
        fds.append(survivor.fds())
    say(heap_kb=heap, rss_kb=rss, fds=fds)
    expect(fds[-1] <= fds[1] + 8, f"descriptors: {fds}")
    if survivor.heap is not None:
        expect(heap[-1] <= heap[1] + ROUND_KB * len(heap), f"heap: {heap}")
