"""What a node has is used up: descriptors, buffers, disk, the right time."""
import contextlib
import json
import resource
import socket
import subprocess

from . import Skipped, expect, scenario
from .hosts import find, wait_until
from .load import Load
from .nodes import SEVERED_ONLY, cache_is_back, measure, none_failed, only_severed_at
from .world import MODEL, SERVE, program

DAY_S = 86400


@scenario(hurt="one node: 96 descriptors at most, 150 idle clients; they leave",
          promise="it does not end; what it cannot serve it refuses at once; it serves again",
          clients=2)
def descriptors_run_out(world, say):
    world.start()
    node = world.nodes[0]
    node.stop()
    node.start(before=(find("prlimit"), "--nofile=96:96"))
    world.together()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    with contextlib.ExitStack() as open_ones:
        for _ in range(150):
            with contextlib.suppress(OSError):
                open_ones.enter_context(world.clients[1].connect(node.address, SERVE, 2))
        load.run_for(3)
        expect(node.runs, "the node ended")
    load.mark("healed")
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome)
    expect(set(outcome.failures) <= {"status"} and outcome.failed_at(node.name) == outcome.failed,
           f"failed otherwise: {outcome.failures} {outcome.nodes}")
    after = outcome.between("healed", "")[1:]
    expect(sum(row["failed"] for row in after[:-1]) == 0, f"failed after they left: {after}")
    expect(outcome.nodes[node.name]["requests"] > outcome.failed, "it served nothing")


def ask_and_read_nothing(host, address):
    """A streamed request whose answer stays where it is."""
    with host.inside():
        s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    s.settimeout(10)
    s.connect((address, SERVE))
    body = json.dumps({"model": MODEL, "stream": True, "max_tokens": 4000,
                       "messages": [{"role": "user", "content": "go on and on"}]}).encode()
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
              b"content-length: %d\r\n\r\n%s" % (len(body), body))
    return s


@scenario(hurt="60 clients that ask for long streams and read nothing; they leave",
          promise="no other request fails; a node holds little for each; nothing stays behind",
          clients=2)
def clients_read_slowly(world, say):
    world.start()
    load = Load(world)
    load.run_for(2)
    before = [(n.rss_kb(), n.fds()) for n in world.nodes]
    load.mark("hurt")
    with contextlib.ExitStack() as open_ones:
        for i in range(60):
            node = world.nodes[i % len(world.nodes)]
            open_ones.enter_context(ask_and_read_nothing(world.clients[1], node.address))
        load.run_for(4)
        during = [(n.rss_kb(), n.fds()) for n in world.nodes]
    load.mark("healed")
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, grown_kb=[d[0] - b[0] for d, b in zip(during, before)])
    none_failed(outcome)
    for (rss, _), (rss_during, _) in zip(before, during):
        expect(rss_during < rss + 65536, f"memory (KB) and descriptors: {before} {during}")
    wait_until(lambda: all(n.fds() <= b[1] + 16 for n, b in zip(world.nodes, before)),
               f"descriptors are given back: {before} {[n.fds() for n in world.nodes]}")


@scenario(hurt="one node: its monotonic clock is a day ahead; then restarted with a right one",
          promise="no request fails; nobody is declared dead")
def wrong_clock(world, say):
    world.resolve(world.nodes)
    for engine in world.engines:
        engine.start()
    wrong = world.nodes[1]
    for node in world.nodes:
        node.ahead_s = DAY_S if node is wrong else 0
        node.start()
    world.together()
    load = Load(world)
    load.run_for(4)
    world.nobody_is_dead()
    load.mark("hurt")
    wrong.stop()
    wrong.ahead_s = 0
    wrong.start()
    world.together()
    load.mark("healed")
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome)
    none_failed(outcome)
    cache_is_back(outcome)


def with_snapshots(world, node, folder):
    """The node keeps snapshots there from its next start on."""
    told = subprocess.run([program("kvasir"), "check", "--reference"], capture_output=True,
                          text=True, check=False).stdout
    if "data.dir" not in told:
        raise Skipped("serve takes no snapshots yet")
    node.flags = ["--data.dir", folder, "--data.interval", "500ms"]


@scenario(hurt="one node: the disk of its snapshots is full; there is room again",
          promise="no request fails; it says so in its metrics, and takes snapshots again")
def disk_is_full(world, say):
    node = world.nodes[0]
    folder = world.net.small_disk("disk", 64 << 20)
    with_snapshots(world, node, folder)
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    with contextlib.suppress(OSError), open(folder / "other", "wb", 0) as other:
        while True:
            other.write(bytes(1 << 16))
    wait_until(lambda: node.metric("kvasir_snapshot_failing") == 1, "it says that it fails")
    load.run_for(2)
    load.mark("healed")
    (folder / "other").unlink()
    _, again = wait_until(lambda: node.metric("kvasir_snapshot_failing") == 0, "it works again")
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, failed_snapshots=node.metric("kvasir_snapshot_failed_total"),
            again_s=again)
    none_failed(outcome)


@scenario(hurt="one node: kill -9, started from a snapshot older than an engine's restart",
          promise=SEVERED_ONLY + "; what is old is not believed")
def old_snapshot(world, say):
    node, engine = world.nodes[-1], world.engines[0]
    with_snapshots(world, node, world.net.small_disk("disk", 64 << 20))
    world.start()
    load = Load(world)
    load.run_for(3)
    wait_until(lambda: node.metric("kvasir_snapshot_taken_total") > 0, "a snapshot is taken")
    load.mark("hurt")
    node.kill()
    engine.misbehave(restart=1)
    load.run_for(4)
    load.mark("healed")
    node.start()
    back = world.together(timeout_s=15)
    warm = node.metric("kvasir_snapshot_start_warm")
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, back_s=back, blocks_loaded=node.metric("kvasir_snapshot_start_blocks"))
    only_severed_at(outcome, node.name, engine.name)
    cache_is_back(outcome)
    expect(warm == 1, "it started without its snapshot")


CROWD = 1051  # of old, as many as it took to lock everybody out with 75 KB


@scenario(hurt="every node: 1,051 connections of one client, each promises 64 MiB and sends "
               "67 bytes; they stay",
          promise="no other request fails, none is repeated; /health, /ready and admin answer; "
                  "nothing is held for promises", clients=3)
def clients_promise_much(world, say):
    world.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    head = b"POST /v1/completions HTTP/1.1\r\nhost:x\r\ncontent-length:67108864\r\n\r\n{"
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    held = []
    with contextlib.ExitStack() as open_ones:
        open_ones.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for node in world.nodes:
            for _ in range(CROWD):
                s = open_ones.enter_context(world.clients[1].connect(node.address, SERVE, 5))
                s.sendall(head)
        for _ in range(3):
            for node in world.nodes:
                for path in ("/health", "/ready"):
                    status, _, _ = world.clients[2].request(node.address, SERVE, "GET", path)
                    expect(status == 200, f"{path} of {node.name} answers {status}")
                held.append(node.metric("kvasir_buffered_bytes"))
            load.run_for(1)
        inside = [node.metric("kvasir_connections") for node in world.nodes]
    load.mark("healed")
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, crowd=min(inside), held_kb=int(max(held) / 1024))
    none_failed(outcome)
    expect(outcome.retried == 0, f"{outcome.retried} requests had to be repeated")
    expect(min(inside) >= CROWD, f"not all of them were there: {inside}")
    expect(max(held) < 16 << 20, f"held for them: {held}")
