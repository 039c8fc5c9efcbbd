"""Nodes of a mesh: real processes, links and DNS. Who finds whom, who is told
what of whom, and who is turned away."""
import pathlib
import re
import socket
import subprocess
import unittest

import harness
from dns import Dns, free_port
from fake_worker import FakeWorker
from test_proxy import CHAT, chat, echo

try:
    import mesh_frames
except ModuleNotFoundError:
    mesh_frames = None


class MeshCase(harness.Case):
    def flags(self, name, *more, mesh="127.0.0.1:0", join=()):
        flags = ["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--lanes", "1",
                 "--name", name, "--mesh", mesh]
        for place in join:
            flags += ["--join", place]
        return [*flags, *more]

    def node(self, name, *more, **where):
        return self.start("kvasir", *self.flags(name, *more, **where))

    def mesh(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/mesh").json()

    def members(self, node):
        """{name: state} as the node sees it."""
        return {m["name"]: m["state"] for m in self.mesh(node)["members"]}

    def metric(self, node, name):
        return harness.metric(node.at("admin"), name) or 0

    def together(self, nodes):
        """Waits until all of them see all others, over links that are up."""
        def all_up(node):
            mesh = self.mesh(node)
            return mesh["alive"] == len(nodes) and mesh["peers_up"] == len(nodes) - 1
        try:
            for node in nodes:
                harness.wait_until(lambda node=node: all_up(node), "everyone is there")
        except TimeoutError as error:
            logs = "".join(f"{self.mesh(node)}\n{node.log()}\n" for node in nodes)
            raise TimeoutError(f"{error}\n{logs}") from None

    def refused(self, node, reason="transport"):
        """How many connections it refused for that."""
        return harness.metrics(node.at("admin"))[f'kvasir_mesh_refused_total{{reason="{reason}"}}']

    def sees(self, nodes, name, state):
        for node in nodes:
            harness.wait_until(lambda node=node: self.members(node).get(name) == state,
                               f"{name} is {state}")

    def three(self, *more):
        """a, b and c, found by the address of the first."""
        first = self.node("a", *more)
        seed = first.ready["mesh"]
        nodes = [first, self.node("b", *more, join=[seed]), self.node("c", *more, join=[seed])]
        self.together(nodes)
        return nodes


@unittest.skipUnless(mesh_frames, "no python3-msgpack, see deploy/packages test")
class Frames(MeshCase):
    def setUp(self):
        super().setUp()
        self.ear = mesh_frames.Ear()
        self.addCleanup(self.ear.close)

    def test_any_msgpack_tool_reads_a_hello_and_a_membership_message(self):
        node = self.node("a", join=[self.ear.address])
        major, _, (hello,) = self.ear.wait_for(lambda read: read[1] == mesh_frames.HELLO)
        self.assertEqual((major, hello["min"], hello["max"]), (2, 2, 2))
        self.assertEqual((hello["name"], hello["address"]), ("a", node.ready["mesh"]))
        _, _, message = self.ear.wait_for(
            lambda read: read[1] == mesh_frames.DATA and read[2][0] == mesh_frames.MEMBERSHIP)
        _, head, sender, *records = message
        self.assertEqual((sender["n"], sender["a"]), ("a", node.ready["mesh"]))
        self.assertEqual(head["u"], len(records))
        self.assertEqual(len(sender["id"]), 16)


class Membership(MeshCase):
    def test_a_node_alone_is_a_mesh_of_one(self):
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--name", "only")
        self.assertNotIn("mesh", node.ready)
        mesh = self.mesh(node)
        self.assertEqual((mesh["address"], mesh["ready"], mesh["alive"]), ("none", "alone", 1))
        self.assertEqual([(m["name"], m["self"]) for m in mesh["members"]], [("only", True)])
        self.assertEqual(mesh["links"], [])

    def test_three_nodes_find_each_other_by_one_seed(self):
        nodes = self.three()
        for node in nodes:
            mesh = self.mesh(node)
            self.assertEqual([m["name"] for m in mesh["members"]], ["a", "b", "c"])
            self.assertEqual(mesh["address"], node.ready["mesh"])
            addresses = [link["address"] for link in mesh["links"]]
            self.assertEqual(addresses, sorted(addresses))
            self.assertEqual(sorted(link["name"] for link in mesh["links"]),
                             sorted({"a", "b", "c"} - {mesh["node"]}))
        for node in nodes[1:]:
            harness.wait_until(lambda node=node: self.mesh(node)["ready"] == "caught up", "ready")

    def test_status_and_metrics_tell_of_all_members(self):
        nodes = self.three()
        host, port = nodes[1].at("admin")
        told = self.run_once("kvasir", "status", "--admin", f"{host}:{port}")
        self.assertEqual(told.returncode, 0, told.stderr)
        for node in nodes:
            self.assertIn(node.ready["mesh"], told.stdout)
        self.assertRegex(told.stdout, r"(?m)^NODE +STATE +LINK +ADDRESS")
        values = harness.metrics(nodes[1].at("admin"))
        self.assertEqual(values['kvasir_mesh_members{state="alive"}'], 3)
        self.assertEqual(values["kvasir_mesh_links_up"], 2)
        self.assertGreater(values["kvasir_mesh_frames_sent_total"], 0)

    def test_one_that_is_killed_is_dead_and_back_under_its_name(self):
        nodes = self.three()
        seed = nodes[0].ready["mesh"]
        nodes[2].kill()
        self.sees(nodes[:2], "c", "dead")
        back = self.node("c", join=[seed])
        self.together([*nodes[:2], back])
        self.assertEqual(self.members(nodes[0]), {"a": "alive", "b": "alive", "c": "alive"})
        address = {m["name"]: m["address"] for m in self.mesh(nodes[0])["members"]}
        self.assertEqual(address["c"], back.ready["mesh"])

    def test_one_that_is_told_to_stop_has_left(self):
        nodes = self.three()

        def suspicions():
            return self.metric(nodes[0], "kvasir_mesh_member_suspicions_total")
        before = suspicions()  # some on a machine that stood still while they met
        self.assertEqual(nodes[2].stop(), 0)
        self.sees(nodes[:2], "c", "left")
        self.assertEqual(suspicions(), before)
        for node in nodes[:2]:
            self.assertIn("member_departed member=c", node.log())

    def test_the_seed_may_die_and_others_join_by_whoever_is_left(self):
        nodes = self.three()
        nodes[0].kill()
        self.sees(nodes[1:], "a", "dead")
        late = self.node("d", join=[nodes[0].ready["mesh"], nodes[1].ready["mesh"]])
        self.together([nodes[1], nodes[2], late])

    def test_a_name_in_use_is_refused_with_one_line(self):
        first, second, _ = self.three()
        double = self.spawn("kvasir", *self.flags("b", join=[first.ready["mesh"]]))
        double.killed = True  # its exit code is looked at here
        self.assertEqual(double.wait(), 1)
        lines = [line for line in double.log().splitlines() if " error " in line]
        self.assertEqual(len(lines), 1, double.log())
        self.assertIn("member_duplicate member=b", lines[0])
        self.assertIn("--name", lines[0])
        self.together([first, second, _])

    def test_the_mesh_is_left_behind_by_nobody_when_all_stop(self):
        for node in self.three():
            self.assertEqual(node.stop(), 0)


class Strangers(MeshCase):
    def test_a_node_of_another_cluster_is_refused_and_counted(self):
        home = self.node("a")
        other = self.node("x", "--mesh.cluster", "other", join=[home.ready["mesh"]])
        harness.wait_until(lambda: self.refused(home, "cluster") > 0, "refused")
        self.assertEqual(self.members(home), {"a": "alive"})
        self.assertEqual(self.members(other), {"x": "alive"})
        line = next(line for line in home.log().splitlines() if "mesh_refused" in line)
        self.assertIn("reason=cluster", line)
        self.assertIn("other", line)

    def test_what_speaks_no_protocol_of_ours_is_refused_and_counted(self):
        home = self.node("a")
        with socket.create_connection(home.at("mesh"), timeout=harness.IO_TIMEOUT_S) as s:
            s.sendall(b"GET / HTTP/1.1\r\n\r\n" * 4)
            harness.wait_until(lambda: self.metric(home, "kvasir_mesh_refused_total") > 0,
                               "refused")
        self.assertEqual(self.members(home), {"a": "alive"})

    def test_without_tls_only_loopback_is_opened(self):
        told = self.run_once("kvasir", *self.flags("a", mesh="0.0.0.0:0"))
        self.assertEqual(told.returncode, 2)
        self.assertIn("mesh.insecure", told.stderr)
        told = self.run_once("kvasir", *self.flags("a", "--mesh.insecure", "true",
                                                   mesh="0.0.0.0:0"))
        self.assertEqual(told.returncode, 2)
        self.assertIn("mesh.advertise", told.stderr)
        node = self.node("a", "--mesh.insecure", "true", "--mesh.advertise", "127.0.0.1:0",
                         mesh="0.0.0.0:0")
        self.assertIn("mesh_without_tls", node.log())


class Authority:
    """A CA of openssl's, and certificates that all have one name."""

    NAME = "kvasir.mesh"

    def __init__(self, folder, name):
        self.folder = pathlib.Path(folder)
        self.name = name
        self.key = self.folder / f"{name}.key"
        self.cert = self.folder / f"{name}.pem"
        self.run("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                 "-nodes", "-keyout", self.key, "-out", self.cert, "-days", "30", "-subj",
                 f"/CN={name}")

    @staticmethod
    def run(*args):
        subprocess.run(["openssl", *map(str, args)], check=True, capture_output=True,
                       timeout=harness.IO_TIMEOUT_S)

    def flags(self, node, trust=None, name=NAME):
        """The flags of a node with a certificate of this authority, which says `name`."""
        key, ask, cert = (self.folder / f"{self.name}-{node}.{end}" for end in
                          ("key", "csr", "pem"))
        names = self.folder / f"{self.name}-{node}.ext"
        names.write_text(f"subjectAltName=DNS:{name}\n")
        self.run("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                 "-keyout", key, "-out", ask, "-subj", f"/CN={node}")
        self.run("x509", "-req", "-in", ask, "-CA", self.cert, "-CAkey", self.key,
                 "-CAcreateserial", "-out", cert, "-days", "30", "-extfile", names)
        return ["--mesh.tls_ca", (trust or self).cert, "--mesh.tls_cert", cert,
                "--mesh.tls_key", key, "--mesh.tls_server_name", self.NAME]


class Tls(MeshCase):
    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder, "ca")

    def test_nodes_with_certificates_form_a_mesh_and_others_do_not(self):
        first = self.node("a", *self.authority.flags("a"))
        seed = first.ready["mesh"]
        nodes = [first, self.node("b", *self.authority.flags("b"), join=[seed])]
        self.together(nodes)
        self.assertTrue(self.mesh(first)["tls"])
        self.assertNotIn("mesh_without_tls", first.log())
        # Each knocks at a door of its own: it goes on knocking.
        plain = self.node("x", join=[seed])
        foreign = Authority(self.folder, "other")
        forged = self.node("y", *foreign.flags("y", trust=self.authority),
                           join=[nodes[1].ready["mesh"]])
        for node in nodes:
            harness.wait_until(lambda node=node: self.refused(node) > 0, "a stranger is refused")
        self.assertEqual(self.members(first), {"a": "alive", "b": "alive"})
        self.assertEqual(self.members(plain), {"x": "alive"})
        self.assertEqual(self.members(forged), {"y": "alive"})
        self.assertIn("mesh_refused reason=transport", first.log())

    def test_healthy_nodes_with_certificates_warn_of_nothing(self):
        first = self.node("a", *self.authority.flags("a"))
        seed = first.ready["mesh"]
        nodes = [first, *(self.node(name, *self.authority.flags(name), join=[seed])
                          for name in ("b", "c"))]
        self.together(nodes)
        self.assertEqual(nodes[2].stop(), 0)
        self.sees(nodes[:2], "c", "left")
        nodes[2] = self.node("c", *self.authority.flags("c"), join=[seed])
        self.together(nodes)
        for node in nodes:
            self.assertEqual([line for line in node.log().splitlines()
                              if re.search(r" (warning|error) (mesh|link|member)_", line)],
                             [])
            self.assertEqual(self.refused(node), 0)

    def test_a_certificate_of_another_name_is_refused_before_it_is_a_member(self):
        first = self.node("a", *self.authority.flags("a"))
        flags = self.authority.flags("b", name="other.mesh")
        other = self.node("b", *flags, join=[first.ready["mesh"]])
        third = self.node("c", *self.authority.flags("c"),
                          join=[first.ready["mesh"], other.ready["mesh"]])
        # Who is dialled by it looks at the name, and so does who dials it.
        for node in (first, third):
            harness.wait_until(lambda node=node: self.refused(node) > 0, "it is refused")
        self.together([first, third])
        self.assertEqual(self.members(first), {"a": "alive", "c": "alive"})
        self.assertEqual(self.members(other), {"b": "alive"})
        self.assertNotRegex(first.log(), r"member_\w+ member=b")

    def test_certificates_that_cannot_be_used_are_told(self):
        bad = self.folder / "bad.pem"
        bad.write_text("no certificate\n")
        flags = self.authority.flags("a")
        told = self.run_once("kvasir", *self.flags("a", "--mesh.tls_ca", bad, *flags[2:]))
        self.assertEqual(told.returncode, 2)
        self.assertIn("mesh.tls_ca, mesh.tls_cert, mesh.tls_key: the CA's file has no certificate",
                      told.stderr)
        told = self.run_once("kvasir", "check", "--mesh.tls_ca", bad)
        self.assertEqual(told.returncode, 2)
        self.assertIn("mesh.tls_key", told.stderr)


    def test_check_warns_of_a_certificate_that_others_will_refuse(self):
        good = self.authority.flags("a")
        self.assertEqual(self.doubts(good), [])
        other = self.authority.flags("b", name="mesh.elsewhere")
        self.assertIn("hostname mismatch", self.doubts(other)[0])
        foreign = Authority(self.folder, "other").flags("c", trust=self.authority)
        self.assertIn("unable to get local issuer certificate", self.doubts(foreign)[0])

    def doubts(self, flags):
        told = self.run_once("kvasir", "check", "--mesh", "127.0.0.1:7946", *flags)
        self.assertEqual(told.returncode, 0)
        return [line for line in told.stderr.splitlines()
                if line.startswith("warning: mesh.tls_cert: other nodes refuse it")]


class Secret(MeshCase):
    def secret(self, name, *lines):
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return ["--mesh.secret_file", path]

    def test_nodes_that_share_a_secret_form_a_mesh_and_others_do_not(self):
        old, new = "the secret of all nodes here", "the next secret of them all"
        first = self.node("a", *self.secret("old", old))
        seed = first.ready["mesh"]
        # The new one is the second line while it is being replaced.
        both = self.node("b", *self.secret("both", old, new), join=[seed])
        self.together([first, both])
        self.assertEqual((self.refused(first), self.refused(both)), (0, 0))
        # Each knocks at a door of its own: it goes on knocking.
        for name, flags, home in (("x", (), first),
                                  ("y", self.secret("wrong", "what others may guess"), both)):
            stranger = self.node(name, *flags, join=[home.ready["mesh"]])
            harness.wait_until(lambda home=home: self.refused(home) > 0, f"{name} is refused")
            self.assertEqual(self.members(stranger), {name: "alive"})
        self.assertEqual(self.members(first), {"a": "alive", "b": "alive"})
        self.assertIn("mesh_refused reason=transport", first.log())
        self.assertNotIn(old, first.log())


class Names(MeshCase):
    def names(self, node):
        return {n["name"]: n["outcome"] for n in self.mesh(node)["discovery"]["names"]}

    def test_three_nodes_find_each_other_behind_one_name(self):
        hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        port = free_port(*hosts)
        resolver = Dns(self, {"mesh.test": hosts}).address
        nodes = [self.node(f"n{i}", "--mesh.resolver", resolver, mesh=f"{host}:{port}",
                           join=[f"dns:mesh.test:{port}"]) for i, host in enumerate(hosts)]
        self.together(nodes)
        self.assertEqual(self.names(nodes[0]), {"mesh.test": "found"})

    def test_nodes_at_ports_of_their_own_find_each_other_behind_a_service(self):
        ports = [free_port() for _ in range(3)]
        resolver = Dns(
            self, {"host.test": ["127.0.0.1"]},
            *(f"--srv-host=_kvasir._tcp.mesh.test,host.test,{port}" for port in ports)).address
        nodes = [self.node(f"n{i}", "--mesh.resolver", resolver, mesh=f"127.0.0.1:{port}",
                           join=["srv:_kvasir._tcp.mesh.test"]) for i, port in enumerate(ports)]
        self.together(nodes)

    def test_a_name_that_comes_later_is_found_then(self):
        hosts = ["127.0.0.1", "127.0.0.2"]
        port = free_port(*hosts)
        dns = Dns(self, {})
        nodes = [self.node(f"n{i}", "--mesh.resolver", dns.address, mesh=f"{host}:{port}",
                           join=[f"dns:mesh.test:{port}"]) for i, host in enumerate(hosts)]
        for node in nodes:
            harness.wait_until(lambda node=node: self.names(node) == {"mesh.test": "absent"},
                               "nobody is there")
            self.assertEqual(self.members(node), {self.mesh(node)["node"]: "alive"})
        dns.set({"mesh.test": hosts})
        self.together(nodes)



class Top(MeshCase):
    def test_top_sums_the_nodes(self):
        hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        port, worker = free_port(*hosts), FakeWorker(self, echo)
        nodes = []
        for i, host in enumerate(hosts):
            flags = self.flags(f"n{i}", "--worker", worker.url, mesh=f"{host}:0",
                               join=[nodes[0].ready["mesh"]] if nodes else [])
            flags[flags.index("--admin") + 1] = f"{host}:{port}"
            nodes.append(self.start("kvasir", *flags, "--admin.insecure", "true"))
        self.together(nodes)
        for i, node in enumerate(nodes):
            harness.wait_until(lambda node=node: self.metric(node, "kvasir_worker_eligible") == 1,
                               "the worker is up")
            for _ in range(i + 1):
                self.assertEqual(harness.request(node.at("serve"), "POST", CHAT, chat()).status, 200)

        def page(*more):
            told = self.run_once("kvasir", "top", "--mesh", "--count", "1", "--interval", "0.1",
                                 "--admin", nodes[0].ready["admin"], *more)
            self.assertEqual((told.returncode, told.stderr), (0, ""))
            return told.stdout

        told = page()
        self.assertIn("node 3 of 3  ready", told)
        self.assertIn("3 alive", told)
        nodes[2].freeze()
        self.sees(nodes[:2], "n2", "dead")
        self.assertIn("node 2 of 2", page())


if __name__ == "__main__":
    harness.main()
