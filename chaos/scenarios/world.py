"""A mesh on hosts of its own: nodes n1.., engines e1.., clients c1.., a DNS
server, spare hosts, and the wire between all of them."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import types

from . import hosts
from .hosts import patiently, wait_until

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "integration"))
import kube_api  # noqa: E402

SERVE, ADMIN, MESH = 8080, 9080, 7946
NAME = "kvasir.test"  # all nodes, for clients
MESH_NAME = "mesh.kvasir.test"  # the same, for each other
ENGINES_NAME = "engines.kvasir.test"  # those that World.name() says
SERVICE = "_http._tcp.engines.test"  # likewise, of srv:
LABELS = {"app": "engine"}  # likewise, of EndpointSlices
MODEL = "kvasir/stand-in"
ENGINE_FLAGS = ("--speed", 2, "--blocks", 8192)
SETTLE_S = 30
# Clients here go elsewhere at once, and scenarios count by worker.
DEFAULTS = {"KVASIR_TIMEOUTS_LAME_DUCK": "0s", "KVASIR_PLACEMENT_HEADERS": "on"}
PROGRAMS = ("kvasir", "kvasir-engine", "kvasir-load", "kvasir-wire", "kvasir-sim",
            "clock_shim.so", "heap_shim.so")


def program(name):
    build = pathlib.Path(os.environ.get("KVASIR_BUILD", "build")).resolve()
    for folder in ("node", "chaos"):
        if (build / folder / name).is_file():
            return build / folder / name
    raise FileNotFoundError(f"{name} is not in {build}; is it built? (KVASIR_BUILD)")


def has_sanitizer():
    return b"libasan" in program("kvasir").read_bytes()


class Place:
    """A host and the one program of it that matters."""

    def __init__(self, world, name):
        self.world = world
        self.name = name
        self.host = world.net.hosts[name]
        self.program = None
        self.ahead_s = 0  # its monotonic clock, from its start on
        self.clock = None  # see own_clock()
        self.heap = None  # see own_heap()
        self.flags = []   # of its own

    def launch(self, *args, before=()):
        shim = self.clock or self.heap
        self.program = self.host.run(*before, *args, ahead_s=self.ahead_s,
                                     env={**DEFAULTS, **(shim.env if shim else {})})
        return self

    def own_heap(self):
        """From its next start on its heap is counted: hosts.Heap. None: it has a
        sanitizer, and cannot be."""
        if not has_sanitizer():
            self.heap = hosts.Heap(self.world.net.folder / f"{self.name}.heap",
                                   program("heap_shim.so"))
        return self.heap

    def own_clock(self):
        """From its next start on its clocks can be set: hosts.Clock."""
        self.clock = hosts.Clock(self.world.net.folder / f"{self.name}.clock",
                                 program("clock_shim.so"))
        return self.clock

    @property
    def address(self):
        return self.host.address

    @property
    def runs(self):
        return self.program is not None and self.program.runs

    def kill(self):
        self.program.kill()

    def leave(self):
        """SIGTERM, and no more."""
        self.program.signal(signal.SIGTERM)

    def wait(self):
        """Until it is gone; it was told to leave."""
        code = self.program.popen.wait(hosts.STOP_S)
        if code != 0:
            raise AssertionError(f"{self.name} ended with {code}\n{self.program.log()[-2000:]}")

    def stop(self):
        self.leave()
        self.wait()

    def freeze(self):
        self.program.signal(signal.SIGSTOP)

    def thaw(self):
        self.program.signal(signal.SIGCONT)

    def rss_kb(self):
        for line in pathlib.Path(f"/proc/{self.program.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        return 0

    def fds(self):
        return len(os.listdir(f"/proc/{self.program.pid}/fd"))


class Engine(Place):
    part = ""  # of a worker's options, from its next start of a node on

    def start(self):
        return self.launch(program("kvasir-engine"), "--host", self.address, "--port", 8000,
                           "--events", f"tcp://{self.address}:5557",
                           "--replay", f"tcp://{self.address}:5657", "--name", self.name,
                           *ENGINE_FLAGS, *self.flags)

    def as_worker(self):
        island = self.world.islands.get(self.name, "")
        return (f"http://{self.address}:8000,id={self.name},events=tcp://{self.address}:5557,"
                f"replay=tcp://{self.address}:5657" + (f",island={island}" if island else "") + self.part)

    @property
    def id(self):
        """What nodes call it."""
        return self.name if self.world.named is None else f"{self.address}:8000"

    def misbehave(self, **settings):
        self.host.request(self.address, 8000, "POST", "/chaos", settings)

    def blocks(self):
        """The truth: how many blocks are in its cache."""
        return len(set(self.cache()["keys"]))  # one may be there twice

    def cache(self):
        return json.loads(patiently(lambda: self.host.request(
            self.address, 8000, "GET", "/chaos/cache"))[2])


class Node(Place):
    def start(self, *flags, before=(), join=True, name=None, workers=True):
        world = self.world
        where = ["--join", f"dns:{MESH_NAME}:{MESH}", "--mesh.resolver",
                 f"{world.dns_address}:53"] if join else []
        security = world.security(self.name) if world.security else ["--mesh.insecure", "true"]
        found = [word for e in world.engines
                 if workers and world.named is None and e.name not in world.unlisted
                 for word in ("--worker", e.as_worker())]
        if world.named is not None:
            found = world.source_flags()
        island = world.islands.get(self.name)
        found += ["--island.name", island] if island else []
        return self.launch(program("kvasir"), "serve", "--name", name or self.name,
                           "--listen", f"{self.address}:{SERVE}", "--admin", f"127.0.0.1:{ADMIN}",
                           "--mesh", f"{self.address}:{MESH}", "--lanes", 1, *where, *security,
                           *found, *self.flags, *flags, before=before)

    def ask(self, path):
        status, _, body = patiently(lambda: self.host.request("127.0.0.1", ADMIN, "GET", path))
        if status != 200:
            raise AssertionError(f"{self.name}{path} answers {status}: {body[:200]}")
        return body.decode()

    def say(self, method, path, body=None):
        """What an operator says to it: /admin/workers and below."""
        status, _, answer = self.host.request("127.0.0.1", ADMIN, method, "/admin/workers" + path,
                                              body)
        if status != 200:
            raise AssertionError(f"{self.name} answers {status} to {method} {path}: "
                                 f"{answer[:200]}")

    def add(self, engine):
        self.say("POST", "", {"id": engine.name, "url": f"http://{engine.address}:8000",
                              "events": f"tcp://{engine.address}:5557",
                              "replay": f"tcp://{engine.address}:5657"})

    def states(self):
        """{worker: state} as this node sees it."""
        return {w["id"]: w["state"] for w in self.workers()}

    def mesh(self):
        return json.loads(self.ask("/admin/mesh"))

    def members(self):
        """{name: state} as this node sees it."""
        return {m["name"]: m["state"] for m in self.mesh()["members"]}

    def alive(self):
        return sorted(name for name, state in self.members().items() if state == "alive")

    def workers(self):
        return json.loads(self.ask("/admin/workers"))

    def metric(self, name):
        """The sum over all labels; of one series, if labels are given."""
        return sum(float(line.rpartition(" ")[2]) for line in self.ask("/metrics").splitlines()
                   if line.startswith((name + "{", name + " ", name + "}")) or
                   line.rpartition(" ")[0] == name)

    def status(self):
        """What `kvasir status --json` says."""
        with self.host.inside():
            done = patiently(lambda: subprocess.run(
                [program("kvasir"), "status", "--json", "--admin", f"127.0.0.1:{ADMIN}"],
                capture_output=True, text=True, timeout=hosts.IO_S, check=True))
        return json.loads(done.stdout)


class Announcer(threading.Thread):
    """The named engines tell a node of themselves each second, each time another."""

    def __init__(self, world):
        super().__init__(daemon=True)
        self.world, self.ended, self.failed = world, threading.Event(), []
        self.start()

    def run(self):
        turn = 0
        while not self.ended.wait(1):
            turn += 1
            node = self.world.nodes[turn % len(self.world.nodes)]
            for engine in list(self.world.named):
                where = engine.address
                try:
                    node.say("POST", "", {"url": f"http://{where}:8000", "ttl": "3s",
                                          "events": f"tcp://{where}:5557",
                                          "replay": f"tcp://{where}:5657"})
                except (AssertionError, OSError) as fault:
                    self.failed.append(str(fault))

    def end(self):
        self.ended.set()
        self.join(hosts.IO_S)


class World:
    def __init__(self, nodes=3, engines=3, clients=1, spare=(), islands=None, seed=1):
        self.seed = seed
        self.islands = islands or {}
        self.names = {kind: [f"{kind}{i}" for i in range(1, count + 1)]
                      for kind, count in (("n", nodes), ("e", engines), ("c", clients))}
        self.spare_names = list(spare)
        self.net = hosts.Net(["dns", *self.names["n"], *self.names["e"], *self.names["c"],
                              *spare], program("kvasir-wire"), seed)
        self.security = None  # of a node's name: flags of its certificate
        self.loads = []
        self.unlisted = set()  # engines that no node's configuration has
        self.named = None  # engines that a source names, in place of a list of all
        self.source = "dns"  # the source: dns, srv, file, kube, announce
        self.announcer = None
        self.kube = None  # the API server, on the name server's host
        self.long = False
        self.services = []  # what the name server says of SERVICE
        self.minutes = None  # that a run was asked to take
        self.rate = None  # that a run was asked for

    def __enter__(self):
        self.net.__enter__()
        self.wire = self.net.wire
        self.dns_address = self.net.hosts["dns"].address
        self.engines = [Engine(self, name) for name in self.names["e"]]
        self.nodes = [Node(self, name) for name in self.names["n"]]
        self.clients = [self.net.hosts[name] for name in self.names["c"]]
        self.dns = None
        return self

    def __exit__(self, kind, *_):
        if self.announcer is not None:
            self.announcer.end()
        if self.kube is not None:
            self.kube.close()
        if kind is not None and issubclass(kind, Exception) and kind.__name__ != "Skipped":
            self.show_logs()
        self.net.close()

    def show_logs(self):
        for path in sorted(self.net.folder.glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()[-15:]
            print(f"--- {path.name}", *lines, sep="\n", file=sys.stderr)

    def place(self, name):
        return next(p for p in [*self.nodes, *self.engines] if p.name == name)

    def stranger(self, name):
        return Node(self, name)

    def resolve(self, nodes, lies=None):
        """The names stand for these nodes from now on; `lies`: the one that nodes
        look up stands for these addresses."""
        path = self.net.folder / "names"
        told = [node.address for node in nodes] if lies is None else lies
        path.write_text("".join([*(f"{node.address} {NAME}\n" for node in nodes),
                                 *(f"{node.address} {self.islands[node.name]}.{NAME}\n"
                                   for node in nodes if node.name in self.islands),
                                 *(f"{address} {MESH_NAME}\n" for address in told),
                                 *(f"{engine.address} {ENGINES_NAME} {engine.name}.test\n"
                                   for engine in self.named or [])]))
        services = [f"--srv-host={SERVICE},{engine.name}.test,8000"
                    for engine in self.named or [] if self.source == "srv"]
        if self.dns is not None and services != self.services:
            self.dns.kill()  # such records are not read again
            self.dns = None
        self.services = services
        if self.dns is None:
            self.dns = self.net.hosts["dns"].run(
                hosts.find("dnsmasq"), "--keep-in-foreground", "--conf-file=/dev/null",
                "--no-resolv", "--no-hosts", f"--listen-address={self.dns_address}",
                "--bind-interfaces", "--pid-file=", "--local=/test/", "--local-ttl=0",
                "--user=root", "--log-facility=-", f"--addn-hosts={path}", *services,
                ready=False)
        else:
            self.dns.signal(signal.SIGHUP)

    def source_flags(self):
        """What nodes are started with to find the engines that are named."""
        shared = "events=tcp://*:5557,replay=tcp://*:5657"
        return {"dns": ["--worker", f"dns:{ENGINES_NAME}:8000,{shared}"],
                "srv": ["--worker", f"srv:{SERVICE},{shared}"],
                "file": ["--worker", f"file:{self.net.folder / 'engines'}"],
                "kube": ["--worker", f"kube:ml:app=engine:http,{shared}", "--kubernetes.api",
                         self.kube and self.kube.url, "--kubernetes.dir", self.net.folder],
                "announce": []}[self.source] + ["--workers.resolve", "500ms"]

    def tell(self):
        """What is no name says who is named now."""
        if self.source == "file":
            told = self.net.folder / "engines.new"
            told.write_text("".join(
                f"- http://{e.address}:8000,events=tcp://{e.address}:5557,"
                f"replay=tcp://{e.address}:5657\n" for e in self.named))
            told.rename(self.net.folder / "engines")
        elif self.source == "kube":
            self.tell_kube([engine.address for engine in self.named])
        elif self.source == "announce" and self.running():
            self.announcer = self.announcer or Announcer(self)

    def tell_kube(self, addresses):
        """Slices of two, as they are filled: who goes moves others to the one before,
        and for a moment they are in both."""
        if self.kube is None:
            with self.net.hosts["dns"].inside():
                self.kube = kube_api.KubeApi(types.SimpleNamespace(addCleanup=lambda end: None),
                                             host=self.dns_address)
        for i, name in enumerate("ab"):
            self.kube.put(name, addresses[2 * i:2 * i + 2], LABELS)

    def name(self, *engines):
        """Nodes find these engines by the source from now on, and all know them."""
        self.named = list(engines)
        self.tell()
        if not self.running():
            return 0
        self.resolve(self.nodes)
        return self.workers_are({engine.id: "healthy" for engine in engines})

    def start(self):
        """Everything runs, and everybody knows everybody."""
        self.resolve(self.nodes)
        for engine in self.engines:
            engine.start()
        for node in self.nodes:
            node.start()
        self.together()
        if self.source == "announce":
            self.name(*self.named)
        return self

    def running(self):
        return [node for node in self.nodes if node.runs]

    def is_together(self, nodes):
        names = sorted(node.name for node in nodes)
        for node in nodes:
            mesh = node.mesh()
            alive = sorted(m["name"] for m in mesh["members"] if m["state"] == "alive")
            if alive != names or mesh["peers_up"] != len(names) - 1:
                return False
        return True

    def together(self, nodes=None, timeout_s=SETTLE_S):
        """These nodes (those that run) see each other and nobody else: the
        seconds that took."""
        nodes = nodes or self.running()
        return wait_until(lambda: self.is_together(nodes),
                          f"{[n.name for n in nodes]} are together: "
                          f"{[n.alive() for n in nodes]}", timeout_s)[1]

    def workers_are(self, states, nodes=None, timeout_s=SETTLE_S):
        """All these nodes (those that run) see these workers so."""
        nodes = nodes or self.running()
        return wait_until(lambda: all(n.states() == states for n in nodes),
                          f"workers are {states}: {[n.states() for n in nodes]}", timeout_s)[1]

    def nobody_is_dead(self, timeout_s=SETTLE_S):
        """To none of all nodes; who stood still may be for a moment."""
        names = sorted(node.name for node in self.nodes)
        wait_until(lambda: all(node.alive() == names for node in self.nodes),
                   "nobody is declared dead", timeout_s)

    def sees(self, nodes, name, *states, timeout_s=SETTLE_S):
        """All these nodes hold another to be in one of these states."""
        return wait_until(lambda: all(n.members().get(name) in states for n in nodes),
                          f"{name} is {states}", timeout_s)[1]

    def differences(self):
        """What the running nodes do not agree about, or have wrong; in quiet."""
        nodes = self.running()
        found = []
        meshes = {node.name: node.mesh() for node in nodes}
        views = {name: {m["name"]: m["state"] for m in mesh["members"]}
                 for name, mesh in meshes.items()}
        if len({json.dumps(view, sort_keys=True) for view in views.values()}) > 1:
            found.append(f"members: {views}")
        streams = {}
        for name, mesh in meshes.items():
            for s in mesh["streams"]:
                key = (s["epoch_id"], s["position"], s["digest"])
                streams.setdefault((s["worker"], s["rank"]), {})[name] = key
                if not s["digest_known"] or not s["complete"] or s["stale"] or s["contested"]:
                    found.append(f"{name} does not have all of {s['worker']}: {s}")
        for stream, by_node in streams.items():
            if len(set(by_node.values())) > 1 or len(by_node) != len(nodes):
                found.append(f"stream {stream}: {by_node}")
        truth = {e.id: e.blocks() for e in self.engines if e.runs}
        for node in nodes:
            for worker in node.workers():
                if worker["id"] in truth:
                    held = sum(stream["blocks"] for stream in worker["events"])
                    if held != truth[worker["id"]]:
                        found.append(f"{node.name} credits {worker['id']} with {held} blocks, "
                                     f"it has {truth[worker['id']]}")
        return found

    def told(self):
        """What `kvasir status` of each running node says of all of them."""
        said = {}
        for node in self.running():
            status = node.status()
            said[node.name] = {
                "cluster": status["mesh"]["cluster"],
                "members": [(m["name"], m["state"], m["address"]) for m in status["members"]],
                "streams": sorted((s["worker"], s["rank"], s["epoch"], s["seq"], s["blocks"],
                                   s["digest"]) for s in status["streams"]),
                # Whose circuit is half open waits for a request, and in quiet none comes.
                "workers": sorted((w["id"], w["state"].replace("circuit_half_open", "healthy"),
                                   w["blocks"]) for w in status["workers"])}
        return said

    def is_told_alike(self):
        said = list(self.told().values())
        return all(one == said[0] for one in said)

    def settle(self, timeout_s=SETTLE_S):
        """In quiet all nodes come to say the same, and the truth: seconds."""
        self.together(timeout_s=timeout_s)
        try:
            return wait_until(lambda: not self.differences() and self.is_told_alike(),
                              "all nodes say the same", timeout_s)[1]
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self.differences() or self.told()}") from None
