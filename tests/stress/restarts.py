#!/usr/bin/env python3
"""Restarts nodes of a mesh again and again while its links flap, and counts
what must not happen: a node does not end on SIGTERM, or ends only because a bound
ends it (hang), a node dies by itself (panic), a node stays without a link to another
(unlinked).

    restarts.py [--restarts N] [--seed N] [--nodes N] [--plain | --secret] [--calm]

Nodes are restarted in random order, some by SIGTERM and some by SIGKILL. After
every ten restarts the flapping stops until all links are up. In the end it says how
many seconds that took, and how many SIGTERMs took. --calm leaves out the flapping and
SIGKILL, waits after each restart, from the start of the process until all links are up,
and counts what takes a second or more (slow): on a machine that has time. Exit code 1:
something was counted. The program runs in a network namespace of its own, which needs
root; without root it exits with 77, as where others than root cannot reach the program.
"""
import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import harness  # noqa: E402

STOP_S = 60     # a node without requests that takes longer to end hangs
# What a node says whose end some bound had to bring about. Its exit code is that of
# other ends, as nothing is lost.
LATE = ("closing takes too long", "snapshot_late")
LINKED_S = 60   # without faults, all links must be up within this time
SLOW_S = 1      # a rejoin takes less
ROUND = 10      # restarts between two checks of all links
NAME = "mesh.restarts"


def ip(*args):
    subprocess.run(["ip", *args], check=True, stderr=subprocess.DEVNULL)


def user(host):
    """Each node runs as its own user, so that the kernel's rules know who dials."""
    return 60000 + int(host.rpartition(".")[2])


# The process has one user. Flapping holds this while it needs to be root, and
# start() while it is a node's user.
USER_LOCK = threading.Lock()


def lose(what, a, b):
    """Adds or deletes a rule by which all that node a sends to node b is lost."""
    with USER_LOCK:
        ip("rule", what, "pref", "5", "uidrange", f"{user(a)}-{user(a)}", "to", b, "blackhole")


def certificates(folder):
    """Makes a CA and one certificate for all nodes; returns the nodes' flags."""
    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, stderr=subprocess.DEVNULL)

    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-days", "2", "-subj", "/CN=ca", "-keyout", "ca.key",
            "-out", "ca.pem")
    openssl("req", *curve, "-subj", "/CN=node", "-keyout", "node.key", "-out", "node.csr")
    (folder / "node.ext").write_text(f"subjectAltName=DNS:{NAME}\n")
    openssl("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "2", "-extfile", "node.ext", "-out", "node.pem")
    return ["--mesh.tls_ca", folder / "ca.pem", "--mesh.tls_cert", folder / "node.pem",
            "--mesh.tls_key", folder / "node.key", "--mesh.tls_server_name", NAME]


def security(options, folder):
    if options.plain:
        return ["--mesh.insecure", "true"]
    if options.secret:
        (folder / "secret").write_text("a secret of the restarts' own mesh\n")
        return ["--mesh.secret_file", folder / "secret"]
    return certificates(folder)


class Flapping(threading.Thread):
    """Severs one or both directions between two nodes, and heals them, repeatedly."""

    def __init__(self, hosts, seed):
        super().__init__(daemon=True)
        self.hosts, self.rng = hosts, random.Random(seed)
        self.over = threading.Event()
        self.count = 0

    def run(self):
        while not self.over.wait(self.rng.uniform(0.02, 0.4)):
            one, other = self.rng.sample(self.hosts, 2)
            ways = [(one, other), (other, one)][:self.rng.randint(1, 2)]
            for a, b in ways:
                lose("add", a, b)
            self.over.wait(self.rng.choice([0.05, 0.3, 1.5]))
            for a, b in ways:
                lose("del", a, b)
            self.count += 1

    def end(self):
        self.over.set()
        self.join()


class Mesh:
    def __init__(self, options, folder):
        self.rng = random.Random(options.seed)
        self.folder = folder
        self.hosts = [f"127.0.0.{n + 2}" for n in range(options.nodes)]
        self.flags = security(options, folder)
        folder.chmod(0o777)
        for file in folder.iterdir():
            file.chmod(0o644)
        self.nodes = [self.start(n) for n in range(options.nodes)]
        self.ends = []  # how many seconds SIGTERMs took
        self.started_at = 0  # the last node, s
        self.counts = {"restarts": 0, "severed": 0, "hangs": 0, "panics": 0, "unlinked": 0,
                       "slow": 0}

    def start(self, n):
        joins = [w for host in self.hosts if host != self.hosts[n]
                 for w in ("--join", f"{host}:7946")]
        data = self.folder / f"data-{n}"
        data.mkdir(exist_ok=True)
        os.chown(data, user(self.hosts[n]), -1)
        # The real user, too: LeakSanitizer cannot trace a process with two of them.
        with USER_LOCK:
            os.setresuid(user(self.hosts[n]), user(self.hosts[n]), 0)
            try:
                node = self.spawn(n, joins, data)
            finally:
                os.setresuid(0, 0, 0)
        return node.wait_ready()

    def spawn(self, n, joins, data):
        return harness.Process(
            "kvasir", "serve", "--name", f"n{n}", "--listen", "127.0.0.1:0", "--admin",
            "127.0.0.1:0", "--mesh", f"{self.hosts[n]}:7946", *joins, "--data.dir", data,
            *self.flags, log_dir=self.folder)

    def count(self, what, node, note):
        self.counts[what] += 1
        print(f"{what}: {node.name} {node.pid}: {note}\n{node.log()[-1500:]}", flush=True)

    def terminate(self, node):
        begin = time.monotonic()
        node.popen.terminate()
        try:
            code = node.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.count("hangs", node, "SIGTERM")
            node.kill()
            return
        self.ends.append(time.monotonic() - begin)
        if code != 0:
            self.count("panics", node, f"SIGTERM, ended with {code}")
        for late in LATE:
            if late in node.log():
                self.count("hangs", node, f"SIGTERM, {late}")

    def restart(self, n, term):
        node = self.nodes[n]
        if node.popen.poll() is not None:
            self.count("panics", node, f"ended with {node.popen.returncode}")
        elif not term:
            node.kill()
        else:
            self.terminate(node)
        node.popen.stdout.close()
        node.log_path.unlink()
        self.started_at = time.monotonic()
        self.nodes[n] = self.start(n)
        self.counts["restarts"] += 1

    def apart(self):
        """The pairs of nodes (by number) of which the first has no link to the second."""
        names = {f"n{n}" for n in range(len(self.nodes))}
        pairs = set()
        for n, node in enumerate(self.nodes):
            if node.popen.poll() is not None:
                continue
            try:
                mesh = harness.request(node.at("admin"), "GET", "/admin/mesh").json()
            except OSError:
                continue
            up = {m["name"] for m in mesh["members"] if m["link"] == "up" and
                  m["state"] == "alive"}
            pairs |= {(n, int(name[1:])) for name in names - up - {f"n{n}"}}
        return pairs

    def wait_linked(self):
        """Waits until all links are up, and returns how many seconds that took; None:
        they were not up within LINKED_S."""
        begin = time.monotonic()
        try:
            harness.wait_until(lambda: not self.apart(), "all links are up", LINKED_S)
        except TimeoutError:
            return None
        return time.monotonic() - begin

    def look(self):
        took = self.wait_linked()
        for n, node in enumerate(self.nodes):
            if node.popen.poll() is not None:
                self.count("panics", node, f"ended with {node.popen.returncode}")
                self.nodes[n] = self.start(n)
        if took is None:
            pairs = sorted(self.apart())
            for n in {n for n, _ in pairs}:
                self.count("unlinked", self.nodes[n], f"{pairs}")
        return took

    def part(self):
        """Severs two nodes from each other while a third one reaches both: both must
        count a missing link, begin it anew and say so, and count none after they are
        healed."""
        def metric(n, name):
            return harness.metric(self.nodes[n].at("admin"), f"kvasir_mesh_links_{name}")

        def missing(n):
            return metric(n, "missing")

        one, other = self.hosts[:2]
        for a, b in (one, other), (other, one):
            lose("add", a, b)
        harness.wait_until(lambda: missing(0) == 1 and missing(1) == 1, "a link is missing")
        for n in (0, 1):
            harness.wait_until(lambda n=n: metric(n, "retried_total") > 0, "it is begun anew")
            line = f"link_missing member=n{1 - n} "
            harness.wait_until(lambda n=n, line=line: line in self.nodes[n].log(), line)
        for a, b in (one, other), (other, one):
            lose("del", a, b)
        self.look()
        harness.wait_until(lambda: missing(0) == 0 and missing(1) == 0, "none is missing")

    def end(self):
        for node in self.nodes:
            if node.popen.poll() is None:
                node.kill()
            node.popen.stdout.close()


def quantiles(took):
    took = sorted(t for t in took if t is not None)
    if not took:
        return "none"
    at = [took[min(len(took) - 1, int(len(took) * q))] for q in (0.5, 0.9, 0.99)]
    return f"p50={at[0]:.2f} p90={at[1]:.2f} p99={at[2]:.2f} max={took[-1]:.2f}"


def run(options, folder):
    mesh = Mesh(options, folder)
    took = []
    try:
        mesh.look()
        while mesh.counts["restarts"] < options.restarts:
            if options.calm:
                mesh.restart(mesh.rng.randrange(options.nodes), True)
                if mesh.look() is not None:
                    took.append(time.monotonic() - mesh.started_at)
                continue
            flapping = Flapping(mesh.hosts, mesh.rng.random())
            flapping.start()
            for _ in range(ROUND):
                mesh.restart(mesh.rng.randrange(options.nodes), mesh.rng.random() < 0.5)
                flapping.over.wait(mesh.rng.choice([0, 0.1, 0.5]))
            flapping.end()
            mesh.counts["severed"] += flapping.count
            took.append(mesh.look())
        mesh.part()
    finally:
        mesh.end()
    if options.calm:
        mesh.counts["slow"] = sum(t >= SLOW_S for t in took)
    print(" ".join(f"{k}={v}" for k, v in mesh.counts.items()), "linked_s", quantiles(took),
          "ended_s", quantiles(mesh.ends))
    return sum(mesh.counts[k] for k in ("hangs", "panics", "unlinked", "slow"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--restarts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--plain", action="store_true", help="no TLS")
    parser.add_argument("--secret", action="store_true", help="a shared secret, no TLS")
    parser.add_argument("--calm", action="store_true", help="no faults but SIGTERM")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("restarts: needs root")
        return harness.SKIP
    program = pathlib.Path(harness.program("kvasir")).resolve()
    if not all(folder.stat().st_mode & 1 for folder in program.parents):
        print("restarts: nodes are other users here, who cannot reach their program")
        return harness.SKIP
    if "KVASIR_RESTARTS" not in os.environ:
        os.environ["KVASIR_RESTARTS"] = "1"
        os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])
    ip("link", "set", "lo", "up")
    ip("rule", "add", "pref", "10", "lookup", "local")
    ip("rule", "del", "pref", "0")
    with tempfile.TemporaryDirectory(prefix="kvasir-restarts-") as folder:
        return 1 if run(options, pathlib.Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
