"""kvasir in front of the engines, and what it says of its own decisions."""
import json
import os
import pathlib

import engine as engines

RECORDS = 5000
SETTLE_TIMEOUT_S = 60


class Node:
    def __init__(self, build, all_engines, folder, more=(), listen="127.0.0.1:0",
                 admin="127.0.0.1:0"):
        # The harness starts programs of the build that this variable names.
        os.environ["KVASIR_BUILD"] = str(pathlib.Path(build).resolve())
        import harness

        self.workers = [f"e{i}" for i in range(len(all_engines))]
        flags = []
        for name, e in zip(self.workers, all_engines, strict=True):
            follow = f",events={e.events},replay={e.replay},ranks={e.ranks}" if e.events else ""
            flags += ["--worker", f"http://127.0.0.1:{e.address[1]},id={name}{follow}"]
        self.process = harness.Process(
            "kvasir", "serve", "--listen", listen, "--admin", admin,
            "--placement-headers", "on", "--limits.decisions_max", RECORDS, *flags, *more,
            log_dir=folder)
        self.process.wait_ready()
        self.address = self.process.at("serve")
        self.admin = self.process.at("admin")
        for i in range(len(all_engines)):
            self.back(i)

    def record(self, name):
        """Its own record of the decision about that request."""
        return engines.wait_until(
            lambda: next((d for d in self.get("/admin/decisions?count=50") if d["id"] == name),
                         None), f"a record of {name}", SETTLE_TIMEOUT_S)

    def get(self, path):
        status, _, raw = engines.call(self.admin, "GET", path)
        if status != 200:
            raise RuntimeError(f"{path}: {status} {raw[:200]!r}")
        return json.loads(raw)

    def worker(self, index):
        return next(w for w in self.get("/admin/workers") if w["id"] == self.workers[index])

    def back(self, index):
        """Waits until that worker may get requests (again)."""
        engines.wait_until(lambda: self.worker(index)["eligible"],
                           f"{self.workers[index]} is eligible", SETTLE_TIMEOUT_S)

    def follows(self):
        return "events" in self.worker(0)

    def settle(self, expected):
        """Waits until kvasir applied what our own followers did: `expected` is
        the number of the next batch, by (worker, rank)."""
        if self.follows():
            for (name, rank), count in expected.items():
                engines.wait_until(lambda n=name, r=rank, c=count: self.applied(n, r, c),
                                   f"{name}, rank {rank}, is followed up to {count}",
                                   SETTLE_TIMEOUT_S)

    def applied(self, name, rank, count):
        index = self.workers.index(name)
        stream = next((s for s in self.worker(index)["events"] if s["rank"] == rank), None)
        return count == 0 or (stream is not None and stream["state"] == "live"
                              and stream["seq"] >= count - 1)

    def attach(self, rows):
        """Gives each row kvasir's own record of the decision."""
        wanted = {row.id: row for row in rows}

        def found():
            records = {d["id"]: d for d in self.get(f"/admin/decisions?count={RECORDS}")}
            for name, row in wanted.items():
                row.kvasir = records.get(name)
            return all(row.kvasir for row in wanted.values())
        engines.wait_until(found, "kvasir recorded every decision", SETTLE_TIMEOUT_S)

    def say(self):
        """What it thinks of its own predictions, of whole prompts only."""
        for worker in self.get("/admin/workers"):
            for s in worker.get("events", []):
                a = s["accuracy"]
                print(f"  kvasir on {worker['id']}, rank {s['rank']}: {s['state']}, "
                      f"{s['blocks']} blocks, {a['exact']} of {a['answers']} answers exact, "
                      f"{a['over']} too high, {a['under']} too low")

    def close(self):
        self.process.clean_up()


class Mesh:
    """Three nodes that know each other. One that was killed comes back on the
    addresses that it had."""

    def __init__(self, build, all_engines, folder, more=()):
        self.build, self.engines, self.folder = build, all_engines, folder
        self.more = ["--lanes", "1", *more]
        self.seed, self.nodes, self.alive = None, [], set()
        for i in range(3):
            self.nodes.append(self.start(i, "127.0.0.1:0"))
            self.seed = self.seed or self.nodes[0].process.ready["mesh"]
        self.together()

    def start(self, index, mesh, **where):
        join = ["--join", self.seed] if self.seed else []
        node = Node(self.build, self.engines, self.folder,
                    [*self.more, "--name", f"n{index}", "--mesh", mesh, *join], **where)
        self.alive.add(index)
        return node

    def living(self):
        return [self.nodes[i] for i in sorted(self.alive)]

    def together(self):
        def all_up(node):
            mesh = node.get("/admin/mesh")
            return (mesh["alive"] == len(self.alive) and
                    mesh["peers_up"] == len(self.alive) - 1 and mesh["ready"] != "catching up")
        for node in self.living():
            engines.wait_until(lambda node=node: all_up(node), "the nodes are together",
                               SETTLE_TIMEOUT_S)

    def kill(self, index):
        self.nodes[index].process.kill()
        self.alive.discard(index)

    def restart(self, index):
        ready = self.nodes[index].process.ready
        self.nodes[index].process.clean_up()
        self.seed = self.living()[0].process.ready["mesh"]
        self.nodes[index] = self.start(index, ready["mesh"], listen=ready["serve"],
                                       admin=ready["admin"])
        self.together()

    def back(self, engine):
        for node in self.living():
            node.back(engine)

    def asked(self):
        """How often the living nodes asked engines for tokens."""
        return sum(node.get("/admin/status")["placement"]["tokens_asked"] for node in self.living())

    def settle(self, expected):
        """Waits until every node has what our own followers have, read by itself
        or told by another; `expected` as Node.settle() has it."""
        def has(node):
            seen = {(s["worker"], s["rank"]): s for s in node.get("/admin/mesh")["streams"]}
            for where, count in expected.items():
                s = seen.get(where)
                if count and not (s and s["state"] == "complete" and s["lag"] == 0 and
                                  s["position"] >> 8 == count - 1):
                    return False
            return True
        for node in self.living():
            engines.wait_until(lambda node=node: has(node),
                               f"{node.process.ready['mesh']} has {expected}",
                               SETTLE_TIMEOUT_S)

    def close(self):
        for node in self.nodes:
            node.process.clean_up()
