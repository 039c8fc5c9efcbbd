"""Who does not belong knocks."""
import contextlib
import subprocess

from . import Skipped, expect, scenario
from .hosts import find, wait_until
from .load import Load
from .nodes import measure, none_failed
from .world import MESH

TLS_NAME = "kvasir.mesh"


def knocked(world, say, reason, start):
    """A node that `start` starts is refused, and nothing comes of it."""
    world.start()
    stranger = world.stranger("x1")
    series = f'kvasir_mesh_refused_total{{reason="{reason}"}}'
    load = Load(world)
    load.run_for(1)
    load.mark("hurt")
    start(stranger)
    wait_until(lambda: all(node.metric(series) > 0 for node in world.nodes),
               f"refused with {reason} by all nodes")
    load.run_for(2)
    outcome = load.end()
    measure(say, outcome, refused=sum(node.metric(series) for node in world.nodes))
    none_failed(outcome)
    expect("x1" not in world.nodes[0].members(), "the stranger is a member")
    expect(set(stranger.members()) == {"x1"}, f"the stranger sees {stranger.members()}")
    stranger.kill()


@scenario(hurt="a node of another cluster knocks", promise="refused by all, counted; no effect",
          spare=["x1"])
def stranger_of_another_cluster(world, say):
    knocked(world, say, "cluster", lambda x: x.start("--mesh.cluster", "other", workers=False))


class Authority:
    """Certificates of one CA for any number of nodes."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                     "-nodes", "-keyout", self.file("key"), "-out", self.file("pem"), "-days", 2,
                     "-subj", f"/CN={name}")

    def file(self, end, node=""):
        return self.folder / f"{self.name}{node}.{end}"

    @staticmethod
    def openssl(*words):
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=30)

    def flags(self, node):
        key, ask, cert, names = (self.file(end, node) for end in ("key", "csr", "pem", "ext"))
        names.write_text(f"subjectAltName=DNS:{TLS_NAME}\n")
        self.openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                     "-keyout", key, "-out", ask, "-subj", f"/CN={node}")
        self.openssl("x509", "-req", "-in", ask, "-CA", self.file("pem"), "-CAkey",
                     self.file("key"), "-CAcreateserial", "-out", cert, "-days", 2, "-extfile",
                     names)
        return ["--mesh.tls_ca", self.file("pem"), "--mesh.tls_cert", cert, "--mesh.tls_key", key,
                "--mesh.tls_server_name", TLS_NAME]


@scenario(hurt="a node without a certificate knocks at nodes that have one",
          promise="refused by all, counted; no effect", spare=["x1"])
def stranger_without_certificate(world, say):
    if not find("openssl"):
        raise Skipped("needs openssl")
    world.security = Authority(world.net.folder).flags

    def start(stranger):
        world.security = None
        stranger.start(workers=False)
    knocked(world, say, "transport", start)


@scenario(hurt="nonsense on the mesh's ports, hundreds of connections that say nothing",
          promise="no request fails; descriptors are given back", spare=["x1"])
def stranger_with_nonsense(world, say):
    world.start()
    host = world.net.hosts["x1"]
    before = [node.fds() for node in world.nodes]
    load = Load(world)
    load.run_for(1)
    load.mark("hurt")
    with contextlib.ExitStack() as open_ones:
        for node in world.nodes:
            for i in range(100):
                s = open_ones.enter_context(host.connect(node.address, MESH))
                with contextlib.suppress(OSError):
                    s.sendall(b"" if i % 2 else bytes([i]) * 4096)
        during = [node.fds() for node in world.nodes]
        load.run_for(2)
    load.run_for(1)
    outcome = load.end()
    measure(say, outcome, fds_before=before, fds_during=during)
    none_failed(outcome)
    wait_until(lambda: all(n.fds() <= b + 40 for n, b in zip(world.nodes, before)),
               f"descriptors are given back: {before} {[n.fds() for n in world.nodes]}")
