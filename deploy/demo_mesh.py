"""Three nodes behind one DNS name: how they are started, watched, killed and
started again while a load goes through the name.
"""
import demo_programs as programs

NAME = "kvasir.test"
HOSTS = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
VICTIM = 1  # the node that is killed: node-2
SNAPSHOT_EVERY = "2s"  # a minute is the default, and longer than all of this


def worker_words(engines):
    words = []
    for i, engine in enumerate(engines, 1):
        words += ["--worker", f"http://{engine.ready['http']},id=engine-{i},"
                              f"events={engine.ready['events']},replay={engine.ready['replay']}"]
    return words


def sees_engines(node, count):
    workers = programs.get_json(node.ready["admin"], "/admin/workers")
    return sum(w["eligible"] for w in workers) == count


class Mesh:
    """The nodes; a killed one stays in `nodes` until it is started again."""

    def __init__(self, stack, folder, engines, logs):
        self.stack, self.folder, self.engines, self.logs = stack, folder, engines, logs
        told = programs.run_once([folder / "node/kvasir", "check", "--reference"])
        self.snapshots = "data.dir" in told
        self.serve, self.port = programs.free_ports(HOSTS, 2)
        self.dns = programs.start_dns(stack, NAME, HOSTS, logs)
        self.nodes = [self.start(i) for i in range(len(HOSTS))]
        for node in self.nodes:
            node.wait_ready()
        for i in range(len(HOSTS)):
            self.wait_whole(i)

    def name(self, i):
        return f"node-{i + 1}"

    def start(self, i):
        """The node with this number, the first time or again."""
        words = [self.folder / "node/kvasir", "serve", "--name", self.name(i),
                 "--listen", f"{HOSTS[i]}:{self.serve}", "--admin", f"{HOSTS[i]}:0",
                 "--mesh", f"{HOSTS[i]}:{self.port}", "--join", f"dns:{NAME}:{self.port}",
                 "--mesh.resolver", self.dns, "--tokens.dir", programs.MODELS,
                 *worker_words(self.engines)]
        if self.snapshots:
            words += ["--data", self.logs / f"{self.name(i)}.data",
                      "--data.interval", SNAPSHOT_EVERY]
        return programs.start(self.stack, words, self.logs / f"{self.name(i)}.log")

    def admin(self, i):
        return self.nodes[i].ready["admin"]

    def mesh(self, i):
        return programs.get_json(self.admin(i), "/admin/mesh")

    def wait_whole(self, i):
        """Until it sees all nodes and engines, and has what the others know."""
        def whole():
            mesh = self.mesh(i)
            return (mesh["alive"] == mesh["peers_up"] + 1 == len(HOSTS)
                    and mesh["ready"] != "catching up"
                    and sees_engines(self.nodes[i], len(self.engines)))
        programs.wait_until(whole, f"{self.name(i)} sees all nodes and engines",
                            self.nodes[i].log_path)

    def others(self, i):
        return [other for other in range(len(HOSTS)) if other != i]

    def requests(self, i):
        """Requests it was sent since it started, and those that are open."""
        return [int(n) for n in programs.metrics(self.admin(i), "kvasir_requests_read_total",
                                                 "kvasir_inflight")]

    def status(self, i):
        """What `kvasir status` says there of the mesh, by lines."""
        told = programs.run_once([self.folder / "node/kvasir", "status", "--admin", self.admin(i)])
        tables = told.split("\n\n")
        return [line for table in tables if table.startswith(("NODE ", "EVENTS OF "))
                for line in table.splitlines()]

    def tokens(self, i):
        """(requests, their prompt tokens, and those of them that engines had
        cached), since it started."""
        return programs.metrics(self.admin(i), "kvasir_requests_read_total",
                                "kvasir_prompt_tokens_total", "kvasir_cached_tokens_total")

    def ratio(self, i, since=(0, 0, 0)):
        """(requests, part of their prompt tokens that engines had cached),
        since tokens() was that."""
        requests, prompt, cached = (now - then for now, then in zip(self.tokens(i), since))
        return int(requests), cached / max(1, prompt)

    def blocks(self, i):
        """How many blocks of the engines' caches it knows of."""
        return sum(s["blocks"] for s in self.mesh(i)["streams"])

    def kill(self, i):
        """kill -9 while it serves; how many requests it had open, a moment
        before."""
        count = programs.wait_until(lambda: self.requests(i)[1],
                                    f"{self.name(i)} has a request open",
                                    self.nodes[i].log_path, every_s=0.01)
        self.nodes[i].kill()
        return count

    def wait_dead(self, i):
        """Until all others say so."""
        for other in self.others(i):
            programs.wait_until(lambda other=other: self.state(other, i) == "dead",
                                f"{self.name(other)} says that {self.name(i)} is dead",
                                self.nodes[other].log_path)

    def state(self, i, other):
        """The state of another node as node i sees it."""
        return {m["name"]: m["state"] for m in self.mesh(i)["members"]}.get(self.name(other))

    def restart(self, i):
        """Until it sees everyone and is ready."""
        self.nodes[i] = self.start(i).wait_ready()
        self.wait_whole(i)

    def start_of(self, i):
        """What it says of its start from a snapshot; None: there are none."""
        if not self.snapshots:
            return None
        return programs.get_json(self.admin(i), "/admin/status")["snapshot"]["start"]

    def accuracy(self):
        """How often the nodes knew exactly what an engine had cached:
        (right, judged)."""
        each = [stream["accuracy"] for node in self.nodes
                for w in programs.get_json(node.ready["admin"], "/admin/workers")
                for stream in w["events"]]
        return sum(a["exact"] for a in each), sum(a["answers"] for a in each)
