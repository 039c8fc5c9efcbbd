"""A real Envoy before engines, by deploy/envoy.yaml with other addresses: it asks nodes where
each request goes (extproc.listen), and sends it there itself."""
import json
import signal
import subprocess

import yaml

import builds
import harness
from fake_worker import FakeWorker
from program import Program
from test_extproc import DEPLOY, ExtprocCase

SAMPLE = DEPLOY / "envoy.yaml"
HERE = ("127.0.0.1", 8081)  # as in the sample
SEEN = 20  # requests that prove that all is well again


def endpoints(addresses):
    return [{"lb_endpoints": [{"endpoint": {"address": {"socket_address": {
        "address": host, "port_value": port}}}} for host, port in addresses]}]


def answer(peer, request):
    peer.json({"model": request.json()["model"], "choices": [],
               "usage": {"prompt_tokens": 9, "completion_tokens": 1}})


class EnvoyCase(ExtprocCase):
    def envoy(self, nodes, engines):
        """The sample, before these nodes and addresses of engines. (JSON is YAML.)"""
        config = yaml.safe_load(SAMPLE.read_text())
        picker, pool = config["static_resources"]["clusters"]
        picker["load_assignment"]["endpoints"] = endpoints(n.at("extproc") for n in nodes)
        pool["load_assignment"]["endpoints"] = endpoints(engines)
        path = self.folder / "envoy.json"
        path.write_text(json.dumps(config))
        made = Program(self, "envoy", [builds.envoy(), "-c", path, "--concurrency", "1",
                                       "--disable-hot-restart"])

        def is_up():
            connection = harness.connect(HERE)
            connection.connect()
            connection.close()
            return True
        made.begin(is_up)

    def ask(self, model, prompt="Hello", **more):
        body = json.loads(self.body(model, prompt, **more))
        return harness.request(HERE, "POST", "/v1/completions", body)

    def quiet(self, node):
        harness.wait_until(lambda: self.inflight(node) == 0, "all are over")


class Sample(EnvoyCase):
    def said(self, text):
        path = self.folder / "asked.yaml"
        path.write_text(text)
        return subprocess.run([builds.envoy(), "--mode", "validate", "-c", path, "-l", "error"],
                              capture_output=True, text=True, check=False, timeout=60)

    def test_it_is_taken_as_it_is(self):
        text = SAMPLE.read_text()
        self.assertEqual(self.said(text).returncode, 0)
        for right, wrong in (("FULL_DUPLEX_STREAMED", "STREAMED_TWICE"),
                             ("failure_mode_allow", "failure_mode"),
                             ("override_host.v3.OverrideHost", "override_host.v3.Other")):
            self.assertIn(right, text)
            self.assertNotEqual(self.said(text.replace(right, wrong)).returncode, 0, wrong)


class Placing(EnvoyCase):
    def test_a_prefix_goes_where_its_engine_holds_it(self):
        """The prompts were sent to the engines past Envoy and node."""
        engines = self.engines(3)
        node = self.mirrored(engines)
        self.envoy([node], [e.at("http") for e in engines])
        model = self.model(node)
        prompts = [f"story {i} " * 200 for i in range(3)]
        for engine, prompt in zip(engines, prompts):
            harness.request(engine.at("http"), "POST", "/v1/completions",
                            json.loads(self.body(model, prompt)))
        harness.wait_until(lambda: all(s["blocks"] > 0 for w in self.workers(node)
                                       for s in w["events"]), "events have come")
        cached = []
        for prompt in prompts:
            got = self.ask(model, prompt + "and then")
            self.assertEqual(got.status, 200, got.text)
            cached.append(got.json()["usage"]["prompt_tokens_details"]["cached_tokens"])
        self.assertGreater(min(cached), 100)
        self.quiet(node)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_cached_tokens_total"),
                         sum(cached), "it read the answers' usage")
        self.assertEqual(self.metric(node, "picked"), len(prompts))

    def test_streams_pass(self):
        engines = self.engines(1)
        node = self.mirrored(engines)
        self.envoy([node], [e.at("http") for e in engines])
        with_usage = {"stream": True, "stream_options": {"include_usage": True}}
        stream = harness.Stream(HERE, "/v1/completions", json.loads(
            self.body(self.model(node), "tale " * 20000, **with_usage, max_tokens=50)))
        events = list(stream.events())
        self.assertEqual(events[-1], "[DONE]")
        self.assertGreater(len(events), 50)
        self.quiet(node)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_completion_tokens_total"), 50)

    def test_what_the_node_changes_or_answers_itself(self):
        worker = FakeWorker(self, answer)
        node = self.serve([worker.url], "--aliases", "chat=m", "--tokens.wait", "0s")
        self.envoy([node], [worker.address])
        for size in (10, 400_000):  # larger than every window on the way
            got = self.ask("chat", "a b " * size)
            self.assertEqual(got.status, 200, got.text)
            asked = worker.requests[-1].json()
            self.assertEqual((asked["model"], asked["prompt"]), ("m", "a b " * size))
        listed = harness.request(HERE, "GET", "/v1/models")
        self.assertEqual(sorted(m["id"] for m in listed.json()["data"]), ["chat", "m"])
        got = self.ask("other")
        self.assertEqual((got.status, got.json()["error"]["code"]), (404, "model_not_found"))
        self.assertEqual(len(worker.requests), 2)
        self.quiet(node)

    def test_who_refuses_connections_gives_way(self):
        workers = [FakeWorker(self, answer) for _ in range(2)]
        node = self.serve([w.url for w in workers], "--health.interval", "1h")
        self.envoy([node], [w.address for w in workers])
        prompt = "text " * 500  # and so at one of them, again and again
        self.assertEqual(self.ask("m", prompt).status, 200)
        home, other = sorted(workers, key=lambda w: -len(w.requests))
        self.quiet(node)
        home.close()
        for _ in range(3):
            self.assertEqual(self.ask("m", prompt).status, 200)
        self.assertEqual((len(home.requests), len(other.requests)), (1, 3))
        self.quiet(node)

    def test_a_client_that_leaves_is_gone_from_node_and_worker(self):
        def begin(peer, _request):
            peer.begin_stream()
            peer.chunk(b"data: {}\n\n")
            peer.wait_closed()
        worker = FakeWorker(self, begin)
        node = self.serve([worker.url])
        self.envoy([node], [worker.address])
        stream = harness.Stream(HERE, "/v1/completions", json.loads(
            self.body("m", stream=True)))
        next(stream.events())
        self.assertEqual(self.inflight(node), 1)
        stream.close()
        self.quiet(node)


class Ending(EnvoyCase):
    def test_a_node_that_stops_costs_no_request(self):
        """Envoy learns of it by gRPC's health checks, within timeouts.lame_duck."""
        worker = FakeWorker(self, answer)
        nodes = [self.serve([worker.url], "--timeouts.lame_duck", "5s") for _ in range(2)]
        self.envoy(nodes, [worker.address])
        harness.wait_until(lambda: [self.ask("m").status for _ in range(2)] and all(
            self.metric(n, "picked") > 0 for n in nodes), "both are asked")
        nodes[0].signal(signal.SIGTERM)
        while nodes[0].popen.poll() is None:
            self.assertEqual(self.ask("m").status, 200)
        self.assertEqual(nodes[0].wait(), 0)
        self.assertEqual({self.ask("m").status for _ in range(SEEN)}, {200})

    def test_a_node_that_is_killed_is_left_out(self):
        worker = FakeWorker(self, answer)
        nodes = [self.serve([worker.url]) for _ in range(2)]
        self.envoy(nodes, [worker.address])
        nodes[0].kill()

        def is_well():
            return all(self.ask("m").status == 200 for _ in range(SEEN))
        harness.wait_until(is_well, "all requests are placed by the other one")
