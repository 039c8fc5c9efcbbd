"""Workers that EndpointSlices of Kubernetes name, by a stand-in for its API server."""
import shutil
import unittest

import certs
import harness
from fake_worker import FakeWorker
from kube_api import KubeApi
from test_proxy import chat
from test_sources import CHAT, HOSTS, NEVER, Sources, echo

LABELS = {"app": "vllm", "tier": "gpu"}
FROM = "kube:ml:app=vllm+tier=gpu:http"


class Kube(Sources):
    def setUp(self):
        super().setUp()
        self.account = self.folder / "account"
        self.account.mkdir()

    def begin(self, api, *flags, source=FROM):
        return self.run_node("--worker", source, "--kubernetes.api", api.url,
                             "--kubernetes.dir", self.account, *flags)

    def three(self):
        """An API server that names three engines."""
        api = KubeApi(self)
        engines, port = self.three_hosts()
        api.put("a", HOSTS[:2], LABELS, port=port)
        api.put("b", HOSTS[2:], LABELS, port=port)
        return api, engines, port

    def test_each_ready_endpoint_is_a_worker_and_changes_are_seen_at_once(self):
        api, engines, port = self.three()
        api.put("other", ["127.0.0.9"], {"app": "vllm"}, port=port)
        api.put("elsewhere", ["127.0.0.9"], LABELS, space="default", port=port)
        node = self.begin(api, *NEVER)  # what follows is the watch's doing
        self.has_at(node, HOSTS, port)
        self.assertEqual({w["from"] for w in self.workers(node)}, {FROM})
        self.assertEqual(harness.request(node.at("serve"), "POST", CHAT, chat()).status, 200)
        harness.wait_until(lambda: api.watches == [104], "it watches from where the list was")
        self.assertEqual(api.lists, 1)
        api.put("b", [], LABELS, port=port)
        harness.wait_until(lambda: self.states(node)[f"{HOSTS[2]}:{port}"] == "drained",
                           "who is named no more is drained")
        api.put("b", HOSTS[2:], LABELS, port=port)
        self.has_at(node, HOSTS, port)
        api.put("a", HOSTS[:2], LABELS, port=port, ready=False, terminating=True)
        harness.wait_until(lambda: list(self.states(node).values()).count("drained") == 2,
                           "who is not ready is drained")
        self.assertEqual(len(api.watches), 1)

    def test_what_a_reload_says_of_its_workers_counts_though_nothing_changed(self):
        api, engines, port = self.three()
        config = self.folder / "kvasir.yaml"
        config.write_text(f"workers: [{{from: '{FROM}'}}]\n")
        node = self.run_node("-c", config, "--kubernetes.api", api.url,
                             "--kubernetes.dir", self.account, *NEVER)
        self.has_at(node, HOSTS, port)
        harness.wait_until(lambda: len(api.watches) == 1, "it watches")
        config.write_text(f"workers: [{{from: '{FROM}', pool: p}}]\n")
        answer = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(answer.status, 200, answer.text)
        harness.wait_until(lambda: [w["labels"] for w in self.workers(node)] == [{"pool": "p"}] * 3,
                           "it is taken over")

    def test_a_watch_that_ends_goes_on_where_it_was(self):
        api, engines, port = self.three()
        node = self.begin(api, "--workers.resolve", "100ms")
        self.has_at(node, HOSTS, port)
        harness.wait_until(lambda: len(api.watches) == 1, "it watches")
        api.bookmark()
        api.end_watches()
        harness.wait_until(lambda: len(api.watches) == 2, "it goes on")
        self.assertEqual(api.watches, [102, 103])
        self.assertEqual(api.lists, 1)
        looks = self.looks(node, "good")
        harness.wait_until(lambda: self.looks(node, "good") > looks + 5, "looks that ask nothing")
        self.assertEqual((api.lists, len(api.watches)), (1, 2))
        # What changed in between is told.
        api.end_watches()
        api.delete("b")
        harness.wait_until(lambda: f"{HOSTS[2]}:{port}" not in self.states(node), "it is gone")
        self.has_at(node, HOSTS[:2], port)

    def test_a_watch_that_is_too_old_begins_with_a_list(self):
        api, engines, port = self.three()
        node = self.begin(api, "--workers.resolve", "100ms")
        self.has_at(node, HOSTS, port)
        harness.wait_until(lambda: len(api.watches) == 1, "it watches")
        api.put("c", [], {"app": "else"})  # this one hears nothing of it
        api.forget()
        api.put("d", [], {"app": "else"})
        api.end_watches()
        harness.wait_until(lambda: api.lists >= 2 and api.watches[-1] == api.version,
                           "it lists and watches anew")
        self.has_at(node, HOSTS, port)

    def test_without_a_good_answer_nothing_changes(self):
        api, engines, port = self.three()
        (self.account / "token").write_text("wrong\n")
        api.token = "t" * 900
        node = self.begin(api, "--workers.resolve", "100ms")
        harness.wait_until(lambda: self.source(node)["state"] == "failed", "it is refused")
        self.assertIn("does not know the token", self.source(node)["why"])
        (self.account / "token").write_text(api.token)  # as the kubelet does, now and then
        self.has_at(node, HOSTS, port)
        for status, why in ((403, "may not list"), (500, "an error")):
            api.status = status
            api.put("a", HOSTS[:1], LABELS, port=port)
            harness.wait_until(lambda why=why: why in self.source(node)["why"], why)
            self.has_at(node, HOSTS, port)
        api.status = 200
        harness.wait_until(lambda: f"{HOSTS[1]}:{port}" not in self.states(node), "it is heard")
        for name in "a", "b":
            api.put(name, [], LABELS, port=port)
        harness.wait_until(lambda: "no endpoint is ready" in self.source(node)["why"], "none is")
        self.assertEqual(self.source(node)["state"], "absent")
        self.assertEqual(len(self.states(node)), 2)

    def test_addresses_that_nothing_can_be_at_change_nothing(self):
        api, engines, port = self.three()
        node = self.begin(api, *NEVER)
        self.has_at(node, HOSTS, port)
        api.put("a", ["0.0.0.0"], LABELS, port=port)
        api.put("b", ["255.255.255.255", "ff02::1"], LABELS, port=port)
        harness.wait_until(lambda: "can be used" in self.source(node)["why"], "it says so")
        self.assertEqual(self.source(node)["state"], "absent")
        self.assertEqual(len(self.states(node)), 3)

    def test_a_server_that_is_gone_changes_nothing(self):
        api, engines, port = self.three()
        node = self.begin(api, "--workers.resolve", "100ms")
        self.has_at(node, HOSTS, port)
        api.close()
        harness.wait_until(lambda: self.source(node)["state"] == "failed", "it is gone")
        self.has_at(node, HOSTS, port)
        self.assertEqual(node.stop(), 0)

    @unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
    def test_as_in_a_pod(self):
        keys = certs.Certs(self)
        api = KubeApi(self, token="pods-own", tls=keys.of_server("one"))
        engine = FakeWorker(self, echo)
        host, port = engine.address
        api.put("a", [host], {"app": "vllm"}, space="team", port=port)
        (self.account / "token").write_text("pods-own")
        (self.account / "namespace").write_text("team")
        shutil.copy(keys.path("ca.pem"), self.account / "ca.crt")

        def begin():
            return self.start(
                "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                "--kubernetes.dir", self.account, "--worker", f"kube:app=vllm:{port}",
                env={"KUBERNETES_SERVICE_HOST": "localhost",
                     "KUBERNETES_SERVICE_PORT": str(api.address[1])})
        self.has_at(begin(), [host], port)
        # A server that is not by this authority gets no token.
        shutil.copy(keys.path("stranger.pem"), self.account / "ca.crt")
        node, asked = begin(), len(api.requests)
        harness.wait_until(lambda: self.source(node)["state"] == "failed", "it is refused")
        self.assertIn("certificate", self.source(node)["why"])
        self.assertEqual((len(api.requests), self.workers(node)), (asked, []))

    def test_outside_of_a_pod_it_says_what_is_missing(self):
        node = self.run_node("--worker", "kube:app=vllm:80", "--kubernetes.dir", self.account)
        harness.wait_until(lambda: "kubernetes.api is not set" in self.source(node)["why"],
                           "it says so")
        api = KubeApi(self)
        node = self.begin(api, source="kube:app=vllm:80")
        harness.wait_until(lambda: "no namespace" in self.source(node)["why"], "it says so")


if __name__ == "__main__":
    harness.main()
