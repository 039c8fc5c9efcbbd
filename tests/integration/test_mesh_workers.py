"""Workers of a mesh: what an operator says to one node is so on all of them."""
import harness
from dns import free_port
from fake_worker import FakeWorker
from test_mesh import Authority, MeshCase

CHAT = "/v1/chat/completions"


def echo(peer, _request):
    peer.json({"ok": True})


class Workers(MeshCase):
    def admin(self, node, method, path, body=None):
        return harness.request(node.at("admin"), method, "/admin/workers" + path, body)

    def said(self, node, method, path="", body=None):
        answer = self.admin(node, method, path, body)
        self.assertEqual(answer.status, 200, answer.text)

    def states(self, node):
        return {w["id"]: w["state"] for w in self.admin(node, "GET", "").json()}

    def all_see(self, nodes, states):
        for node in nodes:
            harness.wait_until(lambda node=node: self.states(node) == states,
                               f"workers are {states}")

    def asked(self, node):
        """Which worker served a request to the node."""
        answer = harness.request(node.at("serve"), "POST", CHAT, {
            "model": "m", "messages": [{"role": "user", "content": "hello"}]})
        self.assertEqual(answer.status, 200, answer.text)
        return answer.headers["x-kvasir-worker"]

    def key_seen(self, node, worker, seen):
        """The key that the worker gets with a request to the node."""
        seen.clear()
        self.assertEqual(self.asked(node), worker)
        return seen[-1].headers.get("authorization")


class Room(Workers):
    def test_whose_events_have_no_room_is_the_same_everywhere_and_is_told(self):
        # Five of 64 ranks, where 256 have room: the last by id has none. None of them runs.
        http, events, replay = (free_port() for _ in range(3))
        flags = [word for n, name in enumerate("edcba", 2) for word in (
            "--worker", f"http://127.0.0.{n}:{http},id={name},ranks=64,"
                        f"events=tcp://127.0.0.{n}:{events},replay=tcp://127.0.0.{n}:{replay}")]
        first = self.node("a", *flags)
        nodes = [first, self.node("b", join=[first.ready["mesh"]])]
        self.together(nodes)

        def left_out(node):
            status = harness.request(node.at("admin"), "GET", "/admin/status").json()
            return [(row["worker"], row["what"]) for row in status["left_out"]]
        for node in nodes:
            harness.wait_until(lambda node=node: left_out(node) == [("e", "events")],
                               "one is left out")
            self.assertIn("events_left_out worker=e ranks=64 ranks_max=256", node.log())
            host, port = node.at("admin")
            told = self.run_once("kvasir", "status", "--admin", f"{host}:{port}")
            self.assertIn("e: no events, as the fleet has too many ranks\n", told.stdout)
        self.said(nodes[1], "DELETE", "/b")
        for node in nodes:
            harness.wait_until(lambda node=node: left_out(node) == [], "there is room for it")


class Words(Workers):
    def test_a_worker_added_on_one_node_serves_requests_of_all(self):
        nodes = self.three()
        worker = FakeWorker(self, echo)
        self.said(nodes[0], "POST", body={"url": worker.url, "id": "w", "pool": "p"})
        self.all_see(nodes, {"w": "healthy"})
        for node in nodes:
            self.assertEqual(self.asked(node), "w")
            shown = self.admin(node, "GET", "").json()[0]
            self.assertEqual((shown["url"], shown["labels"]), (worker.url, {"pool": "p"}))
            self.assertEqual(self.admin(node, "POST", "", {"url": worker.url}).status, 409)
        self.assertIn("roster_changed worker=w what=added told_by=a", nodes[2].log())

    def test_draining_and_its_end_are_known_to_all(self):
        nodes = self.three()
        workers = [FakeWorker(self, echo) for _ in range(2)]
        for node, worker, name in zip(nodes, workers, "vw"):
            self.said(node, "POST", body={"url": worker.url, "id": name})
        self.all_see(nodes, {"v": "healthy", "w": "healthy"})
        self.said(nodes[2], "POST", "/v/drain")
        self.all_see(nodes, {"v": "drained", "w": "healthy"})
        for node in nodes:
            self.assertEqual([self.asked(node) for _ in range(4)], ["w"] * 4)
        self.said(nodes[0], "DELETE", "/v/drain")
        self.said(nodes[1], "POST", "/w/drain")
        self.all_see(nodes, {"v": "healthy", "w": "drained"})
        for node in nodes:
            self.assertEqual(self.asked(node), "v")

    def test_a_removed_worker_is_gone_everywhere_and_may_come_back(self):
        nodes = self.three()
        worker = FakeWorker(self, echo)
        self.said(nodes[0], "POST", body={"url": worker.url, "id": "w"})
        self.all_see(nodes, {"w": "healthy"})
        self.said(nodes[1], "DELETE", "/w")
        self.all_see(nodes, {})
        self.assertEqual(self.admin(nodes[2], "DELETE", "/w").status, 404)
        self.said(nodes[2], "POST", body={"url": worker.url, "id": "w", "role": "decode"})
        self.all_see(nodes, {"w": "healthy"})
        self.assertEqual(self.admin(nodes[0], "GET", "").json()[0]["labels"], {"role": "decode"})

    def test_a_node_that_comes_later_knows_them(self):
        workers = [FakeWorker(self, echo) for _ in range(2)]
        first = self.node("a", "--worker", workers[0].url + ",id=configured")
        self.said(first, "POST", body={"url": workers[1].url, "id": "said"})
        self.said(first, "POST", "/said/drain")
        late = self.node("b", join=[first.ready["mesh"]])
        self.all_see([first, late], {"configured": "healthy", "said": "drained"})
        self.assertEqual(self.asked(late), "configured")


class Configurations(Workers):
    def test_a_configured_worker_that_was_removed_stays_away_from_a_restarted_node(self):
        worker = FakeWorker(self, echo)
        flags = ["--worker", worker.url + ",id=w"]
        first = self.node("a")
        seed = first.ready["mesh"]
        second = self.node("b", *flags, join=[seed])
        self.all_see([first, second], {"w": "healthy"})
        second.kill()
        self.said(first, "DELETE", "/w")
        again = self.node("b", *flags, join=[seed])
        harness.wait_until(lambda: "configured_worker_removed worker=w" in again.log(), "it is told")
        self.all_see([first, again], {})

    def test_a_node_whose_configuration_differs_says_so(self):
        worker = FakeWorker(self, echo)
        first = self.node("a")
        self.said(first, "POST", body={"url": worker.url, "id": "w", "pool": "new"})
        second = self.node("b", "--worker", worker.url + ",id=w,pool=old", join=[first.ready["mesh"]])
        harness.wait_until(lambda: "configured_worker_differs worker=w" in second.log(), "it is told")
        self.assertEqual(self.admin(second, "GET", "").json()[0]["labels"], {"pool": "new"})

    def test_a_new_configuration_holds_from_the_first_node_restarted_with_it(self):
        worker = FakeWorker(self, echo)

        def flags(pool):
            return ["--worker", f"{worker.url},id=w,pool={pool}"]

        def pools_are(nodes, pool):
            for node in nodes:
                harness.wait_until(
                    lambda node=node: [w["labels"] for w in self.admin(node, "GET", "").json()] ==
                    [{"pool": pool}], f"the pool is {pool}")

        # One of two changes has the greater digest: it would hold in any case.
        for old, new in ("a", "b"), ("b", "a"):
            keeper = self.node("keeper")
            seed = keeper.ready["mesh"]
            nodes = [self.node(name, *flags(old), join=[seed]) for name in ("one", "two")]
            pools_are([keeper, *nodes], old)
            for node in nodes:  # so old that the next is the younger beyond doubt
                harness.wait_until(lambda node=node: self.metric(node, "kvasir_uptime_seconds") > 6,
                                   "it has run for a while")
            for at, name in enumerate(("one", "two")):
                nodes[at].kill()
                nodes[at] = self.node(name, *flags(new), join=[seed])
                pools_are([keeper, *nodes], new)
            for node in [keeper, *nodes]:
                node.kill()

    def test_one_worker_under_two_names_has_the_same_name_on_all_nodes(self):
        worker = FakeWorker(self, echo)
        first = self.node("a", "--worker", worker.url + ",id=beta")
        second = self.node("b", "--worker", worker.url + ",id=alpha", join=[first.ready["mesh"]])
        self.all_see([first, second], {"alpha": "healthy"})
        self.said(second, "DELETE", "/alpha")
        self.all_see([first, second], {"beta": "healthy"})
        self.said(second, "POST", "/beta/drain")
        self.all_see([first, second], {"beta": "drained"})

    def test_a_worker_that_no_node_can_have_can_be_removed(self):
        worker = FakeWorker(self, echo)
        first = self.node("a", "--worker", worker.url + ",id=beta")
        second = self.node("b", "--worker", worker.url + ",id=alpha", join=[first.ready["mesh"]])
        self.all_see([first, second], {"alpha": "healthy"})
        self.said(first, "DELETE", "/beta")
        self.said(first, "DELETE", "/alpha")
        self.all_see([first, second], {})
        harness.wait_until(lambda: self.admin(second, "DELETE", "/beta").status == 404, "it is gone")


class Keys(Workers):
    def key_of_both(self, nodes):
        seen = []

        def note(peer, request):
            seen.append(request)
            peer.json({"ok": True})
        worker = FakeWorker(self, note)
        self.together(nodes)
        self.said(nodes[0], "POST", body={"url": worker.url, "id": "w", "api_key": "s3cret"})
        self.all_see(nodes, {"w": "healthy"})
        return [self.key_seen(node, "w", seen) for node in nodes]

    def test_a_key_travels_over_tls(self):
        authority = Authority(self.folder, "ca")
        first = self.node("a", *authority.flags("a"))
        second = self.node("b", *authority.flags("b"), join=[first.ready["mesh"]])
        self.assertEqual(self.key_of_both([first, second]), ["Bearer s3cret"] * 2)

    def test_a_key_stays_where_it_was_told_without_tls(self):
        first = self.node("a")
        second = self.node("b", join=[first.ready["mesh"]])
        self.assertEqual(self.key_of_both([first, second]), ["Bearer s3cret", None])


if __name__ == "__main__":
    harness.main()
