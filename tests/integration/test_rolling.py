"""Three nodes are replaced one by one behind a balancer of connections that hears late of
each stop: no request fails."""
import http.client
import itertools
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import unittest

import harness
from dns import free_port
from fake_worker import FakeWorker
from test_proxy import CHAT, chat, echo

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "haproxy-layer4.cfg"
CLIENTS = 4
SEEN = 20  # requests that prove that a node is still, or again, in use


class Balancer:
    """Takes connections and passes them on to the nodes that it believes in, in turns;
    never tries a second one."""

    def __init__(self, case, addresses):
        self.believed = list(addresses)
        self.turn = itertools.count()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.address = self.listener.getsockname()
        case.addCleanup(self.listener.close)
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            believed = list(self.believed)
            address = believed[next(self.turn) % len(believed)]
            threading.Thread(target=self._pass, args=(client, address), daemon=True).start()

    def _pass(self, client, address):
        with client:
            try:
                node = socket.create_connection(address, timeout=harness.IO_TIMEOUT_S)
            except OSError:
                return  # the client sees its connection closed
            with node:
                back = threading.Thread(target=self._copy, args=(node, client), daemon=True)
                back.start()
                self._copy(client, node)
                back.join()

    @staticmethod
    def _copy(source, target):
        try:
            while piece := source.recv(65536):
                target.sendall(piece)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Clients:
    """Ask without end: the first half over one connection as long as the node keeps it,
    the others with a connection for each request."""

    def __init__(self, case, address):
        self.address = address
        self.lock = threading.Lock()
        self.answered = {}  # by node
        self.failed = []
        self.over = threading.Event()
        threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        case.addCleanup(lambda: [thread.join() for thread in threads])
        case.addCleanup(self.over.set)

    def _ask(self, number):
        connection = None
        for turn in itertools.count():
            if self.over.is_set():
                return
            connection = connection or http.client.HTTPConnection(
                *self.address, timeout=harness.IO_TIMEOUT_S)
            body = json.dumps(chat(f"client {number} asks {turn}"))
            try:
                connection.request("POST", CHAT, body, {"content-type": "application/json"})
                response = connection.getresponse()
                answer = response.read()
                good = response.status == 200 and json.loads(answer)["echo"] == body
                what = f"{response.status} {answer[:200]}"
                name = response.headers["x-kvasir-node"]
            except (OSError, ValueError, http.client.HTTPException) as error:
                good, what, name = False, repr(error), None
            with self.lock:
                if good:
                    self.answered[name] = self.answered.get(name, 0) + 1
                else:
                    self.failed.append(f"client {number}, request {turn}: {what}")
            if not good or number >= CLIENTS // 2 or response.will_close:
                connection.close()
                connection = None

    def wait_for_more(self, name):
        """Some requests more are answered by that node."""
        with self.lock:
            before = self.answered.get(name, 0)
        harness.wait_until(lambda: self.answered.get(name, 0) >= before + SEEN or self.failed,
                           f"{name} answers")


class Rolling(harness.Case):
    def setUp(self):
        super().setUp()
        self.workers = [FakeWorker(self, echo) for _ in range(2)]
        self.names = ["a", "b", "c"]
        self.ports = dict(zip(self.names, (free_port() for _ in self.names)))
        self.seed = None
        self.nodes = {}
        for name in self.names:
            self.nodes[name] = self.node(name)
            self.seed = self.seed or self.nodes[name].ready["mesh"]
        for name in self.names:
            self.wait_ready(name)

    def address(self, name):
        return ("127.0.0.1", self.ports[name])

    def node(self, name):
        join = ["--join", self.seed] if self.seed else []
        workers = [word for worker in self.workers for word in ("--worker", worker.url)]
        node = self.start("kvasir", "serve", "--listen", f"127.0.0.1:{self.ports[name]}",
                          "--admin", "127.0.0.1:0", "--mesh", "127.0.0.1:0", "--lanes", "1",
                          "--name", name, "--timeouts.lame_duck", self.lame_duck, *join, *workers)
        self.addCleanup(self.end, node)
        return node

    @staticmethod
    def end(node):
        """Without timeouts.lame_duck."""
        if node.popen.poll() is None:
            node.signal(signal.SIGINT)
            node.wait()

    def wait_ready(self, name):
        harness.wait_until(lambda: harness.request(self.address(name), "GET", "/ready").status
                           == 200, f"{name} is ready")

    def replace(self, name):
        """Its process has ended in peace; another one takes its place."""
        self.assertEqual(self.nodes[name].wait(), 0, self.nodes[name].log())
        alive = next(other for other in self.names if other != name)
        self.seed = self.nodes[alive].ready["mesh"]
        self.nodes[name] = self.node(name)
        self.wait_ready(name)


class HeardLate(Rolling):
    """The balancer hears of a stop when the node has served on for many requests: as late
    as timeouts.lame_duck allows. Time is no part of it."""
    lame_duck = "1h"

    def test_no_request_fails(self):
        balancer = Balancer(self, [self.address(name) for name in self.names])
        clients = Clients(self, balancer.address)
        for name in self.names:
            clients.wait_for_more(name)
            self.nodes[name].signal(signal.SIGTERM)
            harness.wait_until(lambda name=name: harness.request(
                self.address(name), "GET", "/ready").status == 503, "it says that it stops")
            clients.wait_for_more(name)  # nobody has heard of it yet
            balancer.believed.remove(self.address(name))
            clients.wait_for_more(next(other for other in self.names if other != name))
            self.nodes[name].signal(signal.SIGTERM)  # as when timeouts.lame_duck is over
            self.replace(name)
            balancer.believed.append(self.address(name))
            clients.wait_for_more(name)
        self.assertEqual(clients.failed, [])


@unittest.skipUnless(shutil.which("haproxy"), "haproxy is not installed (deploy/packages bench)")
class BehindHaproxy(Rolling):
    """As deploy/haproxy-layer4.cfg says: it hears of a stop within two seconds, and the node
    serves on for longer, here with room for machines that stand still."""
    lame_duck = "15s"

    def front(self):
        port = free_port()
        text = SAMPLE.read_text().replace("bind :8080", f"bind 127.0.0.1:{port}")
        for number, name in enumerate(self.names, 1):
            old = f"10.0.0.1{number}:8080"
            self.assertIn(old, text)
            text = text.replace(old, "127.0.0.1:%d" % self.ports[name])
        file = self.folder / "haproxy.cfg"
        file.write_text(text)
        log = open(self.folder / "haproxy.log", "wb")
        self.addCleanup(log.close)
        front = subprocess.Popen(["haproxy", "-f", file], stdout=log, stderr=log)
        self.addCleanup(front.wait, harness.IO_TIMEOUT_S)
        self.addCleanup(front.terminate)
        address = ("127.0.0.1", port)

        def serves():
            self.assertIsNone(front.poll(), (self.folder / "haproxy.log").read_text())
            try:
                return harness.request(address, "GET", "/ready").status == 200
            except OSError:
                return False
        harness.wait_until(serves, "it is in front")
        return address

    def test_no_request_fails(self):
        clients = Clients(self, self.front())
        for name in self.names:
            clients.wait_for_more(name)
            self.nodes[name].signal(signal.SIGTERM)
            self.replace(name)
            clients.wait_for_more(name)
        self.assertEqual(clients.failed, [])


if __name__ == "__main__":
    harness.main()
