"""Workers that are named while the node runs: by a DNS server, by files, by themselves.
Which of them the node has, and what becomes of those that are named no more."""
import contextlib
import http.client
import json
import socket
import struct
import threading

import harness
from dns import Dns, free_port
from fake_worker import FakeWorker
from test_mesh import MeshCase
from test_proxy import chat

CHAT = "/v1/chat/completions"
NAME = "engines.test"
OFTEN = ("--workers.resolve", "100ms")
NEVER = ("--workers.resolve", "1h")
HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]


def echo(peer, _request):
    peer.json({"ok": True})


class Halves:
    """A DNS server that has one address of each family for any name. four: "one"; "none";
    "fails", then nobody can say."""

    def __init__(self, case):
        self.four = "one"
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        host, port = self.socket.getsockname()
        self.address = f"{host}:{port}"
        thread = threading.Thread(target=self.serve)
        thread.start()
        case.addCleanup(self.socket.close)
        case.addCleanup(thread.join)
        case.addCleanup(self.socket.sendto, b"", (host, port))

    def serve(self):
        while True:
            ask, peer = self.socket.recvfrom(512)
            if not ask:
                return
            end = ask.index(0, 12) + 5
            four = ask[end - 4:end - 2] == b"\0\1"
            data = socket.inet_pton(*((socket.AF_INET, "127.0.0.2") if four else
                                      (socket.AF_INET6, "::1")))
            what = self.four if four else "one"
            found = b"\xc0\x0c" + ask[end - 4:end] + struct.pack(">IH", 0, len(data)) + data
            self.socket.sendto(
                ask[:2] + (b"\x85\x82" if what == "fails" else b"\x85\x80") + b"\0\1" +
                (b"\0\1" if what == "one" else b"\0\0") + bytes(4) + ask[12:end] +
                (found if what == "one" else b""), peer)


class Sources(MeshCase):
    def three_hosts(self, handler=echo):
        """{host: worker} of one port, and the port."""
        port = free_port(*HOSTS)
        return {host: FakeWorker(self, handler, host=host, port=port) for host in HOSTS}, port

    def run_node(self, *flags):
        return self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--lanes", "1", *flags)

    def workers(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()

    def states(self, node):
        return {w["id"]: w["state"] for w in self.workers(node)}

    def has_at(self, node, hosts, port, state="healthy"):
        wanted = {f"{host}:{port}": state for host in hosts}
        harness.wait_until(lambda: self.states(node) == wanted, f"workers are {wanted}")

    def status(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/status").json()

    def source(self, node):
        return self.status(node)["worker_sources"][0]

    def looks(self, node, outcome):
        return sum(value for name, value in harness.metrics(node.at("admin")).items()
                   if name.startswith("kvasir_worker_source_looks_total")
                   and f'outcome="{outcome}"' in name)

    def look_again(self, node, outcome, times=3):
        """Waits for so many looks more that end so."""
        before = self.looks(node, outcome)
        harness.wait_until(lambda: self.looks(node, outcome) >= before + times,
                           f"looks that end {outcome}")

    def ask(self, node):
        return harness.request(node.at("serve"), "POST", CHAT, {
            "model": "m", "messages": [{"role": "user", "content": "hello"}]})


class Names(Sources):
    def named(self, dns, port, *flags):
        return self.run_node("--worker", f"dns:{NAME}:{port}", "--mesh.resolver", dns.address,
                             *(flags or OFTEN))

    def test_each_address_of_a_name_is_a_worker_and_comes_and_goes_with_it(self):
        _, port = self.three_hosts()
        dns = Dns(self, {NAME: HOSTS[:2]})
        node = self.named(dns, port)
        self.has_at(node, HOSTS[:2], port)
        shown = self.workers(node)[0]
        self.assertEqual(shown["from"], f"dns:{NAME}:{port}")
        self.assertEqual(self.source(node)["workers"], 2)
        row = harness.request(node.at("admin"), "POST", "/admin/explain", {
            "model": "m", "messages": [{"role": "user", "content": "hello"}]}).json()
        self.assertEqual({c["from"] for c in row["candidates"]}, {f"dns:{NAME}:{port}"})
        dns.set({NAME: HOSTS[1:]})
        self.has_at(node, HOSTS[1:], port)
        self.assertIn("named any more", node.log())
        self.assertEqual(self.ask(node).status, 200)
        self.assertEqual(node.log().count("worker_added"), 3, node.log())

    def test_what_cannot_be_looked_up_changes_nothing(self):
        _, port = self.three_hosts()
        dns = Dns(self, {NAME: HOSTS})
        node = self.named(dns, port)
        self.has_at(node, HOSTS, port)
        dns.set({})
        self.look_again(node, "absent")
        self.has_at(node, HOSTS, port)
        dns.stop()
        before = self.looks(node, "failed") + self.looks(node, "timeout")
        harness.wait_until(
            lambda: self.looks(node, "failed") + self.looks(node, "timeout") > before, "it fails")
        self.has_at(node, HOSTS, port)
        self.assertNotEqual(self.source(node)["why"], "")
        self.assertEqual(self.source(node)["listed"], 3)
        self.assertEqual(self.ask(node).status, 200)

    def test_one_family_without_an_answer_changes_nothing(self):
        dns = Halves(self)
        node = self.named(dns, 1234)

        def ids():
            return sorted(self.states(node))

        harness.wait_until(lambda: ids() == ["127.0.0.2:1234"], "IPv4 addresses count")
        dns.four = "fails"
        harness.wait_until(lambda: self.looks(node, "failed") >= 3, "the look has failed")
        self.assertEqual(ids(), ["127.0.0.2:1234"])
        self.assertIn("IPv4", self.source(node)["why"])
        dns.four = "none"
        harness.wait_until(lambda: ids() == ["[::1]:1234"], "there are none any more")
        dns.four = "fails"
        self.look_again(node, "good")

    def slow_hosts(self):
        """Three hosts, an event when one has begun an answer, and one that lets it end."""
        begun, may_end = threading.Event(), threading.Event()

        def slow(peer, _request):
            begun.set()
            may_end.wait(harness.IO_TIMEOUT_S)
            peer.json({"ok": True})

        return *self.three_hosts(slow), begun, may_end

    def test_a_worker_that_is_gone_ends_what_it_runs_first(self):
        workers, port, begun, may_end = self.slow_hosts()
        dns = Dns(self, {NAME: HOSTS[:1]})
        node = self.named(dns, port)
        self.has_at(node, HOSTS[:1], port)
        answers = []
        asking = threading.Thread(target=lambda: answers.append(self.ask(node)))
        asking.start()
        begun.wait(harness.IO_TIMEOUT_S)
        dns.set({NAME: HOSTS[1:2]})
        harness.wait_until(lambda: self.states(node).get(workers[HOSTS[0]].id) == "draining",
                           "it drains")
        dns.set({NAME: HOSTS[:2]})
        self.has_at(node, HOSTS[:2], port)
        dns.set({NAME: HOSTS[1:2]})
        harness.wait_until(lambda: self.states(node).get(workers[HOSTS[0]].id) == "draining",
                           "it drains again")
        self.look_again(node, "good")
        self.assertIn(workers[HOSTS[0]].id, self.states(node))
        # An operator's word stays, though it drained already.
        drained = f"/admin/workers/{workers[HOSTS[0]].id}/drain"
        self.assertEqual(harness.request(node.at("admin"), "POST", drained).status, 200)
        dns.set({NAME: HOSTS[:2]})
        self.look_again(node, "good", 5)
        self.assertEqual(self.states(node)[workers[HOSTS[0]].id], "draining")
        dns.set({NAME: HOSTS[1:2]})
        may_end.set()
        asking.join()
        self.assertEqual(answers[0].status, 200)
        self.has_at(node, HOSTS[1:2], port)

    def test_draining_ends_without_the_node_that_began_it(self):
        workers, port, begun, may_end = self.slow_hosts()
        gone = workers[HOSTS[0]].id
        names = {name: Dns(self, {NAME: HOSTS[:1]}) for name in "ab"}
        nodes = []
        for name, dns in names.items():
            nodes.append(self.node(name, "--worker", f"dns:{NAME}:{port}", "--mesh.resolver",
                                   dns.address, *OFTEN,
                                   join=[node.ready["mesh"] for node in nodes]))
        self.together(nodes)
        for node in nodes:
            self.has_at(node, HOSTS[:1], port)
        asking = threading.Thread(target=self.broken, args=(nodes[0],))
        asking.start()
        self.addCleanup(asking.join)
        self.addCleanup(may_end.set)
        begun.wait(harness.IO_TIMEOUT_S)
        names["b"].set({})
        self.look_again(nodes[1], "absent", 1)
        names["a"].set({NAME: HOSTS[1:2]})
        harness.wait_until(lambda: self.states(nodes[1]).get(gone) == "drained", "it drains")
        self.look_again(nodes[1], "absent")
        self.assertEqual(self.states(nodes[1])[gone], "drained", "its list is an old one")
        nodes[0].kill()
        names["b"].set({NAME: HOSTS[:1]})
        harness.wait_until(lambda: self.states(nodes[1]).get(gone) == "healthy", "it is back")

    def broken(self, node):
        """Asks a node that is killed meanwhile."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            self.ask(node)

    def test_an_operators_draining_stays(self):
        workers, port = self.three_hosts()
        dns = Dns(self, {NAME: HOSTS})
        node = self.named(dns, port)
        self.has_at(node, HOSTS, port)
        drained = workers[HOSTS[0]].id
        harness.request(node.at("admin"), "POST", f"/admin/workers/{drained}/drain")
        self.look_again(node, "good")
        self.assertEqual(self.states(node)[drained], "drained")
        # One that is removed is still named: it comes back.
        harness.request(node.at("admin"), "DELETE", f"/admin/workers/{workers[HOSTS[1]].id}")
        harness.wait_until(lambda: self.states(node).get(workers[HOSTS[1]].id) == "healthy",
                           "it is back")

    def test_the_list_has_its_workers_first(self):
        workers, port = self.three_hosts()
        dns = Dns(self, {NAME: HOSTS})
        mine = workers[HOSTS[0]]
        node = self.named(dns, port, *OFTEN, "--worker", f"{mine.url},id=mine")
        harness.wait_until(lambda: len(self.workers(node)) == 3, "all are there")
        shown = {w["id"]: w["from"] for w in self.workers(node)}
        self.assertEqual(shown.pop("mine"), "configuration")
        self.assertEqual(shown, {workers[h].id: f"dns:{NAME}:{port}" for h in HOSTS[1:]})
        self.look_again(node, "good")
        self.assertEqual(len(self.workers(node)), 3)
        self.assertEqual(self.source(node)["refused"], 0)

    def test_each_target_of_a_service_is_a_worker_at_its_own_port(self):
        one, two = FakeWorker(self, echo), FakeWorker(self, echo)
        dns = Dns(self, {"one.test": ["127.0.0.1"], "two.test": ["127.0.0.1"]},
                  f"--srv-host=_http._tcp.{NAME},one.test,{one.address[1]}",
                  f"--srv-host=_http._tcp.{NAME},two.test,{two.address[1]}")
        node = self.run_node("--worker", f"srv:_http._tcp.{NAME},pool=p", "--mesh.resolver",
                             dns.address, *OFTEN)
        harness.wait_until(lambda: self.states(node) == {one.id: "healthy", two.id: "healthy"},
                           "both are there")
        self.assertEqual([w["labels"] for w in self.workers(node)], [{"pool": "p"}] * 2)
        # A target without addresses is no worker; others are not hurt by it.
        dns.set({"one.test": ["127.0.0.1"]})
        harness.wait_until(lambda: self.states(node) == {one.id: "healthy"}, "one is left")

    def test_nodes_of_a_mesh_agree_on_workers_and_double_none(self):
        _, port = self.three_hosts()
        dns = Dns(self, {NAME: HOSTS})
        named = ("--worker", f"dns:{NAME}:{port}", "--mesh.resolver", dns.address, *OFTEN)
        nodes = self.three(*named)
        for node in nodes:
            self.has_at(node, HOSTS, port)
        dns.set({NAME: HOSTS[:2]})
        for node in nodes:
            self.has_at(node, HOSTS[:2], port)
        dns.set({NAME: HOSTS})
        for node in nodes:
            self.has_at(node, HOSTS, port)
            self.look_again(node, "good")
            self.assertEqual(self.ask(node).status, 200)
            # Three at first, and the one that came back.
            self.assertEqual(node.log().count("worker_added"), 4, node.log())


class Files(Sources):
    def write(self, *workers):
        """As one that replaces a file does."""
        fresh = self.folder / "workers.tmp"
        fresh.write_text(json.dumps([{"url": w.url} for w in workers]))
        fresh.rename(self.path)

    def setUp(self):
        super().setUp()
        self.path = self.folder / "workers.yaml"
        self.one, self.two = FakeWorker(self, echo), FakeWorker(self, echo)

    def watching(self, *flags):
        return self.run_node("--worker", f"file:{self.path}", *(flags or NEVER))

    def has(self, node, *workers):
        wanted = {w.id: "healthy" for w in workers}
        harness.wait_until(lambda: self.states(node) == wanted, f"workers are {wanted}")

    def test_a_changed_file_counts_at_once(self):
        self.write(self.one)
        node = self.watching()
        self.has(node, self.one)
        self.write(self.one, self.two)
        self.has(node, self.one, self.two)
        self.assertEqual(self.workers(node)[0]["from"], f"file:{self.path}")
        # In place, and other forms of the same list.
        self.path.write_text(f"workers:\n- {self.two.url},pool=p\n")
        harness.wait_until(lambda: self.states(node).get(self.one.id) != "healthy", "one goes")
        harness.wait_until(lambda: [w["labels"] for w in self.workers(node)
                                    if w["id"] == self.two.id] == [{"pool": "p"}],
                           "what it says of two is other")

    def test_an_operators_draining_outlasts_another_form(self):
        self.write(self.one, self.two)
        node = self.watching()
        self.has(node, self.one, self.two)
        harness.request(node.at("admin"), "POST", f"/admin/workers/{self.two.id}/drain", {})
        self.path.write_text(f"- {self.one.url}\n- {self.two.url},pool=p\n")

        def two():
            return next(w for w in self.workers(node) if w["id"] == self.two.id)

        harness.wait_until(lambda: two()["labels"] == {"pool": "p"}, "what it says of two is other")
        self.assertIn(two()["state"], ("draining", "drained"))

    def test_a_file_with_a_fault_keeps_the_last_list(self):
        self.write(self.one)
        node = self.watching(*OFTEN)
        self.has(node, self.one)
        for text, why in [
                ("", "is empty"), ("[{url: http://a", "expected"), ("nodes: []", "a list of"),
                ("- {url: 'http://a:1', pol: x}", "unknown key"), ("- dns:a.test:1", "no others")]:
            before = self.looks(node, "failed")
            self.path.write_text(text)
            harness.wait_until(lambda: self.looks(node, "failed") > before, "it was read")
            harness.wait_until(lambda: why in self.source(node)["why"], why)
            self.assertEqual(list(self.states(node)), [self.one.id])
        self.path.unlink()
        harness.wait_until(lambda: "cannot be read" in self.source(node)["why"], "it is gone")
        self.assertEqual(list(self.states(node)), [self.one.id])
        self.assertIn("worker_source_not_good", node.log())
        self.path.write_text("[]")
        harness.wait_until(lambda: self.states(node) == {}, "none is named")

    def test_a_file_that_comes_later_is_seen(self):
        node = self.watching()
        harness.wait_until(lambda: self.looks(node, "failed") == 1, "it was looked for")
        self.write(self.two)
        self.has(node, self.two)

    def test_a_link_into_a_folder_that_is_exchanged_is_followed(self):
        """As Kubernetes mounts a ConfigMap."""
        for name, worker in (("..1", self.one), ("..2", self.two)):
            (self.folder / name).mkdir()
            (self.folder / name / "workers.yaml").write_text(f"- {worker.url}\n")
        (self.folder / "..data").symlink_to("..1")
        self.path.symlink_to("..data/workers.yaml")
        node = self.watching()
        self.has(node, self.one)
        (self.folder / "..data_tmp").symlink_to("..2")
        (self.folder / "..data_tmp").rename(self.folder / "..data")
        harness.wait_until(lambda: self.states(node).get(self.two.id) == "healthy", "it is seen")

    def test_an_operator_adds_workers_and_no_sources(self):
        node = self.watching()
        for body in ({"from": "dns:a.test:1"}, {"from": f"file:{self.path}"},
                     {"url": self.one.url, "from": "dns:a.test:1"},
                     {"url": self.one.url, "events": "tcp://*:5557"}):
            answer = harness.request(node.at("admin"), "POST", "/admin/workers", body)
            self.assertEqual(answer.status, 400, answer.text)
        self.assertEqual(self.workers(node), [])

    def test_a_reload_adds_and_removes_sources(self):
        self.write(self.one)
        config = self.folder / "kvasir.yaml"
        config.write_text("workers: []\n")
        node = self.run_node("-c", config, *NEVER)

        def reload():
            answer = harness.request(node.at("admin"), "POST", "/admin/reload")
            self.assertEqual(answer.status, 200, answer.text)

        config.write_text(f"workers:\n- from: file:{self.path}\n- {self.two.url}\n")
        reload()
        self.has(node, self.one, self.two)
        config.write_text(f"workers:\n- {self.two.url}\n")
        reload()
        self.has(node, self.two)
        self.assertEqual(self.status(node)["worker_sources"], [])


class Announced(Sources):
    def announce(self, node, worker, ttl, **more):
        return harness.request(node.at("admin"), "POST", "/admin/workers",
                               {"url": worker.url, "ttl": ttl, **more})

    def froms(self, node):
        return {w["id"]: w["from"] for w in self.workers(node)}

    def all_know(self, nodes, froms):
        for node in nodes:
            harness.wait_until(lambda node=node: self.froms(node) == froms, f"workers are {froms}")

    def test_an_engine_that_falls_silent_is_removed_from_all_nodes(self):
        nodes = self.three()
        one, two = FakeWorker(self, echo), FakeWorker(self, echo)
        answer = self.announce(nodes[0], one, "1h", pool="p")
        self.assertEqual((answer.status, answer.json()), (200, {"id": one.id, "ttl_ms": 3600000}))
        self.all_know(nodes, {one.id: "announced:3600000ms:a"})
        # Renewed at another node, it is the same worker, and that node counts now.
        self.assertEqual(self.announce(nodes[1], one, "1h", pool="p").status, 200)
        self.all_know(nodes, {one.id: "announced:3600000ms:b"})
        self.assertEqual(nodes[2].log().count("worker_added"), 1)
        # Once it says less, and then nothing, it is gone.
        self.assertEqual(self.announce(nodes[2], two, "1h").status, 200)
        self.assertEqual(self.announce(nodes[2], one, "1s", pool="p").status, 200)
        self.all_know(nodes, {two.id: "announced:3600000ms:c"})
        self.assertIn("worker_silent", nodes[2].log())

    def test_the_others_count_for_a_node_that_has_left(self):
        nodes = self.three()
        one = FakeWorker(self, echo)
        self.assertEqual(self.announce(nodes[0], one, "2s").status, 200)
        harness.wait_until(lambda: one.id in self.froms(nodes[2]), "it is told")
        nodes[0].stop()
        self.all_know(nodes[1:], {})

    def test_nobody_is_silent_because_the_node_that_hears_it_is_out_of_reach(self):
        nodes = self.three()
        seed = nodes[1].ready["mesh"]
        one, two, three = (FakeWorker(self, echo) for _ in range(3))
        self.assertEqual(self.announce(nodes[0], one, "4s").status, 200)
        heard = {one.id: "announced:4000ms:a"}
        self.all_know(nodes, heard)
        nodes[0].kill()
        self.sees(nodes[1:], "a", "dead")
        # A longer time passes on both of them.
        self.assertEqual(self.announce(nodes[1], two, "5s").status, 200)
        self.assertEqual(self.announce(nodes[2], three, "5s").status, 200)
        self.all_know(nodes[1:], {**heard, two.id: "announced:5000ms:b",
                                  three.id: "announced:5000ms:c"})
        for node in nodes[1:]:
            harness.wait_until(lambda node=node: "worker_silent" in node.log(), "time is over")
            self.assertIn(one.id, self.froms(node))
        # It is back, and hears nothing.
        back = self.node("a", join=[seed])
        self.all_know([back, *nodes[1:]], {})
        self.assertIn(f"worker_silent worker={one.id}", back.log())

    def test_an_operators_word_outlasts_a_renewal(self):
        node = self.run_node()
        one = FakeWorker(self, echo)
        self.assertEqual(self.announce(node, one, "1h").status, 200)
        harness.wait_until(lambda: self.states(node) == {one.id: "healthy"}, "it is there")
        harness.request(node.at("admin"), "POST", f"/admin/workers/{one.id}/drain")
        self.assertEqual(self.announce(node, one, "2h").status, 400)
        self.assertEqual(self.announce(node, one, "30m").status, 200)
        harness.wait_until(lambda: self.states(node) == {one.id: "drained"}, "it drains on")
        # One that says something else of itself is another worker.
        self.assertEqual(self.announce(node, one, "30m", pool="p").status, 200)
        harness.wait_until(lambda: [w["labels"] for w in self.workers(node)] == [{"pool": "p"}],
                           "it is as it says")

    def test_an_engines_token_may_announce_it_and_nothing_else(self):
        operator, engine = "o" * 32, "e" * 32
        file = self.folder / "tokens"
        file.write_text(f"gpus {engine} join\nanna {operator}\n")
        node = self.run_node("--admin.token_file", file, "--placement_headers", "off")

        def ask(token, method, path, body=None):
            return harness.request(node.at("admin"), method, path, body,
                                   {"authorization": f"Bearer {token}"})

        def there():
            return [w["id"] for w in ask(operator, "GET", "/admin/workers").json()]

        one = FakeWorker(self, echo)
        body = {"url": one.url, "ttl": "1h"}
        self.assertEqual(ask(engine, "POST", "/admin/workers", {"url": one.url}).status, 403)
        self.assertEqual(there(), [])
        answer = ask(engine, "POST", "/admin/workers", body)
        self.assertEqual((answer.status, answer.json()), (200, {"id": one.id, "ttl_ms": 3600000}))
        for method, path in (("GET", "/admin/workers"), ("GET", "/admin/status"),
                             ("GET", "/metrics"), ("POST", "/admin/reload"),
                             ("DELETE", f"/admin/workers/{one.id}"),
                             ("POST", f"/admin/workers/{one.id}/drain")):
            self.assertEqual(ask(engine, method, path).status, 403, path)
        # It is no operator on the serving port, either.
        harness.wait_until(lambda: self.shown(node, operator), "an operator is told")
        self.assertFalse(self.shown(node, engine))
        # It renews itself, and silence removes it.
        self.assertEqual(ask(engine, "POST", "/admin/workers", {**body, "ttl": "1s"}).status, 200)
        harness.wait_until(lambda: not there(), "it is gone")
        # A command takes an operator's token of the file, whichever is the first.
        got = self.run_once("kvasir", "status", "--admin", node.ready["admin"],
                            "--token-file", file)
        self.assertEqual(got.returncode, 0, got.stderr)

    def shown(self, node, token):
        got = harness.request(node.at("serve"), "POST", CHAT, chat(),
                              {"x-kvasir-token": token})
        return "x-kvasir-worker" in got.headers

    def test_what_others_named_is_not_the_engines(self):
        one = FakeWorker(self, echo)
        node = self.run_node("--worker", one.url)
        self.assertEqual(self.announce(node, one, "1m").status, 409)
        self.assertEqual(self.announce(node, one, "1m", id="other").status, 409)
        for ttl in ("", "0", "1", "999ms", "61m", "soon"):
            answer = self.announce(node, FakeWorker(self, echo), ttl)
            self.assertEqual(answer.status, 400, answer.text)
            self.assertIn("from 1s to 1h", answer.text)


if __name__ == "__main__":
    harness.main()
