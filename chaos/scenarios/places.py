"""Hosts and directories are not whose they were: addresses change, DNS lies,
data is somebody else's."""
from . import expect, scenario
from .hosts import SUBNET
from .limits import with_snapshots
from .load import Load
from .nodes import (SEVERED_ONLY, cache_is_back, measure, none_failed, none_failed_once_healed,
                    only_severed_at)
from .world import MESH, program


@scenario(hurt="addresses of all nodes, one after the other: SIGTERM, started where nobody was; "
               "DNS follows",
          promise="no request fails", seconds=12)
def addresses_change(world, say):
    world.start()
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    back = []
    for number, node in enumerate(world.nodes):
        node.stop()
        node.host.move(SUBNET + str(100 + number))
        world.resolve(world.nodes)
        node.start()
        back.append(world.together())
        load.run_for(1)
    load.mark("healed")
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, back_s=max(back))
    none_failed(outcome)
    cache_is_back(outcome)


@scenario(hurt="addresses of all nodes at once: kill -9, started with each other's; DNS follows, "
               "snapshots remember the old ones",
          promise="requests fail only while no node runs; each is known by its name where it is",
          seconds=11)
def addresses_rotate(world, say):
    for node in world.nodes:
        with_snapshots(world, node, world.net.small_disk(f"disk-{node.name}", 64 << 20))
    world.start()
    load = Load(world, **{"retries": 8})
    load.run_for(3)
    load.mark("hurt")
    for node in world.nodes:
        node.kill()
    old = [node.address for node in world.nodes]
    for node, address in zip(world.nodes, [*old[1:], old[0]]):
        node.host.move(address)
    world.resolve(world.nodes)
    for node in world.nodes:
        node.start()
    back = world.together()
    load.mark("healed")
    load.run_for(5)
    outcome = load.end()
    known = [{m["name"]: m["address"] for m in node.mesh()["members"]} for node in world.nodes]
    measure(say, outcome, back_s=back, remembered=sum(
        "snapshot_loaded" in node.program.log() for node in world.nodes))
    none_failed_once_healed(outcome)
    right = {node.name: f"{node.address}:{MESH}" for node in world.nodes}
    expect(all(view == right for view in known), f"they are {right}, known as {known}")
    cache_is_back(outcome)


@scenario(hurt="DNS names a node of another cluster, an engine, who speaks HTTP on the mesh's "
               "port, and nobody; then one node's truth among these, and a node is started again",
          promise=SEVERED_ONLY + "; who is known stays known, nobody else is let in",
          spare=["x1", "x2"], seconds=13)
def dns_lies(world, say):
    world.start()
    other, web = world.stranger("x1"), world.net.hosts["x2"]
    other.start("--mesh.cluster", "other", workers=False, join=False)
    web.run(program("kvasir-engine"), "--host", web.address, "--port", MESH)
    lies = [other.address, web.address, world.engines[0].address, world.clients[0].address,
            SUBNET + "250"]
    again = world.nodes[-1]
    load = Load(world)
    load.run_for(2)
    load.mark("hurt")
    world.resolve(world.nodes, lies)
    load.run_for(2)
    again.kill()
    world.sees(world.nodes[:-1], again.name, "dead", timeout_s=10)
    world.resolve(world.nodes, [*lies, world.nodes[0].address])
    again.start()
    back = world.together(timeout_s=15)
    load.run_for(2)
    load.mark("healed")
    world.resolve(world.nodes)
    load.run_for(2)
    outcome = load.end()
    refused = other.metric('kvasir_mesh_refused_total{reason="cluster"}')
    measure(say, outcome, back_s=back, refused=refused)
    only_severed_at(outcome, again.name)
    cache_is_back(outcome)
    expect(refused > 0, "nobody went where DNS sent them")
    expect(set(other.members()) == {"x1"}, f"the stranger sees {other.members()}")
    other.kill()


def starts_at(node, folder):
    """Started with that directory: whether it goes on from what it found."""
    with_snapshots(node.world, node, folder)
    node.start()
    return node.metric("kvasir_snapshot_start_warm") == 1


@scenario(hurt="directories of snapshots: one in use by another node, one of another cluster, one "
               "that another node left",
          promise=SEVERED_ONLY + "; refused with one line; set aside with one line; gone on from",
          spare=["x1"], seconds=14)
def data_of_another(world, say):
    first, second, third = world.nodes
    folders = {node.name: world.net.small_disk(node.name + "-disk", 64 << 20)
               for node in (*world.nodes, world.stranger("x1"))}
    for node in world.nodes:
        with_snapshots(world, node, folders[node.name])
    foreign = world.stranger("x1")
    foreign.start("--mesh.cluster", "other", "--data.dir", folders["x1"], join=False)
    world.start()
    foreign.stop()  # with a last snapshot
    load = Load(world)
    load.run_for(3)
    load.mark("hurt")
    third.kill()
    with_snapshots(world, third, folders[second.name])
    try:
        third.start()
        refused = ""
    except RuntimeError as error:
        refused = str(error)
    expect("data_refused" in refused and "another process has this directory" in refused,
           f"started in a directory that is in use: {refused}")
    foreign_is_warm = starts_at(third, folders["x1"])
    aside = third.program.log().count("snapshot_refused")
    world.together()
    third.kill()
    first.kill()
    left_is_warm = starts_at(third, folders[first.name])
    first_is_warm = starts_at(first, folders[third.name])
    back = world.together(timeout_s=15)
    load.mark("healed")
    load.run_for(3)
    outcome = load.end()
    measure(say, outcome, back_s=back, lines=aside)
    only_severed_at(outcome, first.name, third.name)
    cache_is_back(outcome)
    expect(not foreign_is_warm and aside == 1, f"another cluster's: {foreign_is_warm} {aside}")
    expect(left_is_warm and first_is_warm, f"each other's: {left_is_warm} {first_is_warm}")
