"""A node as the endpoint picker of a gateway (extproc.listen): the gateway is a
real gRPC client that says what Envoy says (ext_proc.py), the workers are real
engines with events, and the test sends requests where it is told to."""
import json
import pathlib
import signal
import socket
import tempfile
import unittest

try:
    import yaml
except ImportError:
    yaml = None

import certs
import ext_proc
import harness
from ext_proc import BUFFERED, DUPLEX, ENDPOINT, NONE, STREAMED, M
from fake_worker import FakeWorker

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"


class ExtprocCase(harness.Case):
    def setUp(self):
        super().setUp()
        if ext_proc.grpc is None:
            self.skipTest("no grpc here: apt-get install python3-grpcio")

    def serve(self, workers, *flags, **more):
        named = [flag for worker in workers for flag in ("--worker", worker)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--extproc.listen", "127.0.0.1:0", *named, *flags, **more)
        harness.wait_until(lambda: all(w["eligible"] for w in self.workers(node)), "workers up")
        return node

    def engines(self, count):
        return [self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                           "--name", f"e{i}", "--speed", "20") for i in range(count)]

    def mirrored(self, engines, *flags):
        node = self.serve([f"{e.url('http')},id=e{i},events={e.url('events')},"
                           f"replay={e.url('replay')}" for i, e in enumerate(engines)], *flags)
        harness.wait_until(
            lambda: all(s["state"] == "live" for w in self.workers(node) for s in w["events"]),
            "streams are live")
        return node

    def idle(self):
        """A worker that is well and never asked."""
        def unasked(peer, request):
            raise AssertionError(request.line)
        return FakeWorker(self, unasked)

    def gateway(self, node, *args, **more):
        gateway = ext_proc.Gateway(node.at("extproc"), *args, **more)
        self.addCleanup(gateway.close)
        return gateway

    def workers(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()

    def inflight(self, node):
        return harness.metric(node.at("admin"), "kvasir_inflight")

    def metric(self, node, name):
        return harness.metric(node.at("admin"), f"kvasir_extproc_{name}_total")

    def model(self, node):
        return harness.request(node.at("serve"), "GET", "/v1/models").json()["data"][0]["id"]

    def body(self, model, prompt="Hello", **more):
        return json.dumps({"model": model, "prompt": prompt, "max_tokens": 2, **more}).encode()

    def at(self, process):
        return "%s:%d" % process.at("http")

    def forward(self, told, body):
        """The request to the worker that was told first."""
        host, _, port = told.endpoints[0].rpartition(":")
        sent = body if told.body is None else told.body
        answer = harness.request((host, int(port)), "POST", "/v1/completions", json.loads(sent))
        self.assertEqual(answer.status, 200, answer.text)
        return answer

    def complete(self, gateway, body, **more):
        """Asks, sends, tells of the answer: (endpoint, cached tokens)."""
        with gateway.ask(body, **more) as call:
            told = call.told()
            answer = self.forward(told, body)
            half = len(answer.body) // 2
            call.answer(200, [answer.body[:half], answer.body[half:]])
        usage = answer.json()["usage"]
        return told.endpoints[0], (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


class Picking(ExtprocCase):
    def test_a_prefix_goes_where_its_engine_says_it_is(self):
        """What the node knows comes from the engines' own events alone: the prompts
        were sent to them past every node."""
        engines = self.engines(3)
        node = self.mirrored(engines)
        gateway = self.gateway(node)
        model = self.model(node)
        held = {}
        for i, engine in enumerate(engines):
            prompt = f"story {i} " * 200
            harness.request(engine.at("http"), "POST", "/v1/completions",
                            json.loads(self.body(model, prompt)))
            held[prompt] = self.at(engine)
        harness.wait_until(lambda: all(s["blocks"] > 0 for w in self.workers(node) for s in w["events"]),
                           "events have come")
        for mode in (DUPLEX, BUFFERED):
            for prompt, place in held.items():
                body = self.body(model, prompt + "and then")
                with self.subTest(mode=mode, place=place):
                    with gateway.ask(body, mode=mode) as call:
                        told = call.told()
                        self.assertEqual(told.endpoints[0], place)
                        self.assertEqual(len(set(told.endpoints)), 3)
                        self.assertEqual(told.metadata, {"envoy.lb": {
                            ENDPOINT: ",".join(told.endpoints)}})
                        call.answer(200, [b"{}"])
        self.assertEqual(self.inflight(node), 0)


    def test_what_it_sends_is_learned_and_what_engines_count_is_counted(self):
        """Two engines without events: where the first turn went is where the next one
        goes. Each stream's usage is read as it passes the gateway."""
        engines = self.engines(2)
        node = self.serve([e.url("http") for e in engines])
        gateway = self.gateway(node)
        model = self.model(node)
        cached = []
        for i in range(4):
            body = self.body(model, f"tale {i} " * 300)
            first, _ = self.complete(gateway, body)
            again, tokens = self.complete(gateway, body, mode=BUFFERED, response_mode=STREAMED)
            self.assertEqual(first, again)
            self.assertGreater(tokens, 0)
            cached.append(tokens)
        harness.wait_until(lambda: self.inflight(node) == 0, "all are over")
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_cached_tokens_total"),
                         sum(cached))
        self.assertEqual(self.metric(node, "picked"), 8)
        self.assertEqual(harness.metric(node.at("admin"),
                                        'kvasir_requests_total{reason="answered",code="200"}'), 8)

    def test_only_what_the_gateway_allows_is_told(self):
        workers = [self.idle() for _ in range(4)]
        node = self.serve([w.url for w in workers])
        gateway = self.gateway(node)

        def subset(names):
            values = M["ListValue"](values=[M["Value"](string_value=n) for n in names])
            return M["Metadata"](filter_metadata={"envoy.lb.subset_hint": M["Struct"](fields={
                ENDPOINT + "-subset": M["Value"](list_value=values)})})

        some = [workers[1].id, workers[3].id]
        for _ in range(4):
            with gateway.ask(self.body("m"), metadata=subset(some)) as call:
                self.assertEqual(sorted(call.told().endpoints), sorted(some))
        for names in ([], ["127.0.0.1:1"]):
            with gateway.ask(self.body("m"), metadata=subset(names)) as call:
                told = call.told()
                self.assertEqual((told.status, told.endpoints), (503, []))

    def test_a_gateway_may_want_no_list(self):
        node = self.serve([self.idle().url for _ in range(3)], "--extproc.fallbacks", "0")
        with self.gateway(node).ask(self.body("m")) as call:
            told = call.told()
            self.assertEqual(len(told.endpoints), 1)
            self.assertEqual(told.metadata, {"envoy.lb": {ENDPOINT: told.endpoints[0]}})
            call.answer(200, [b"{}"])

    def test_an_answer_from_elsewhere_is_not_this_workers(self):
        workers = [self.idle(), self.idle()]
        node = self.serve([w.url for w in workers])
        gateway = self.gateway(node)
        with gateway.ask(self.body("m", "text " * 500)) as call:
            told = call.told()
            call.answer_head(200, served=told.endpoints[1])
            harness.wait_until(lambda: self.inflight(node) == 0, "it is not counted there")
            call.answer_piece(b"{}", True)
        self.assertEqual(self.metric(node, "elsewhere"), 1)
        with gateway.ask(self.body("m", "text " * 500)) as call:
            call.answer(200, [b"{}"], served=call.told().endpoints[0])
        self.assertEqual(self.metric(node, "elsewhere"), 1)

    def test_a_body_goes_back_as_it_came_or_as_the_node_changes_it(self):
        worker = self.idle()
        node = self.serve([worker.url], "--aliases", "chat=m", "--tokens.wait", "0s")
        gateway = self.gateway(node)
        for mode in (DUPLEX, BUFFERED):
            # Larger than every window and buffer on the way.
            for name, size in (("m", 10), ("m", 3_000_000), ("chat", 10), ("chat", 3_000_000)):
                body = self.body(name, "a b " * (size // 4))
                with self.subTest(mode=mode, name=name, size=size), \
                        gateway.ask(body, mode=mode, pieces=1 if size == 10 else 97) as call:
                    told = call.told()
                    self.assertEqual(told.endpoints, [worker.id])
                    wanted = body.replace(b'"chat"', b'"m"')
                    changed = name == "chat" or mode == DUPLEX
                    self.assertEqual(told.body, wanted if changed else None)
                    self.assertEqual(told.headers.get("content-length"),
                                     str(len(wanted)) if changed else None)
                    call.answer(200, [b"{}"])
        self.assertEqual(worker.requests, [])  # the gateway's are the only ones

    def test_trailers_end_a_body_too(self):
        node = self.serve([self.idle().url])
        body = self.body("m")
        with self.gateway(node).call() as call:
            call.head({":method": "POST", ":path": "/v1/completions", ":authority": "g"})
            call.body(body, False)
            call.send("request_trailers", M["HttpTrailers"](
                trailers=ext_proc.header_map({"digest": "x"})))
            self.assertTrue(call.receive("request_headers").dynamic_metadata.fields)
            piece = call.receive("request_body").request_body.response.body_mutation
            self.assertEqual((piece.streamed_response.body, piece.streamed_response.end_of_stream),
                             (body, False))
            call.receive("request_trailers")
            call.answer(200, [b"{}"])

    def test_requests_without_a_body(self):
        worker = self.idle()
        node = self.serve([worker.url], "--paths", "/tokenizer_info")
        gateway = self.gateway(node)

        def get(path):
            call = gateway.call(NONE, NONE)
            call.head({":method": "GET", ":path": path, ":authority": "g"}, ends=True)
            return call

        with get("/tokenizer_info") as call:
            self.assertEqual(call.told(has_body=False).endpoints, [worker.id])
            call.answer_head(200)  # nothing is told of its body: the end is its end
        with get("/v1/models") as call:
            told = call.told(has_body=False)
            self.assertEqual(told.status, 200)
            self.assertEqual(json.loads(told.body)["data"][0]["id"], "m")
        harness.wait_until(lambda: self.inflight(node) == 0, "all are over")
        self.assertEqual(harness.metric(node.at("admin"),
                                        'kvasir_requests_total{reason="answered",code="200"}'), 1)


class Refusing(ExtprocCase):
    def refused(self, call, status, code):
        with call:
            told = call.told()
            self.assertEqual(told.status, status, told.body)
            self.assertEqual(told.headers["content-type"], "application/json")
            error = json.loads(told.body)["error"]
            self.assertEqual(error["code"], code, error)
            return told

    def test_what_cannot_be_served_is_answered_by_the_node(self):
        worker = self.idle()
        node = self.serve([worker.url], "--limits.body_bytes_max", "1MiB")
        gateway = self.gateway(node)
        for mode in (DUPLEX, BUFFERED):
            with self.subTest(mode=mode):
                self.refused(gateway.ask(b'{"model"', mode=mode), 400, "invalid_json")
                self.refused(gateway.ask(self.body("other"), mode=mode), 404, "model_not_found")
                self.refused(gateway.ask(self.body("m"), path="/admin", mode=mode), 404,
                             "not_found")
                self.refused(gateway.ask(self.body("m", "a" * (1 << 20)), mode=mode), 413,
                             "body_too_large")
                self.refused(gateway.ask(self.body("m"), mode=mode,
                                         headers={"x-a": "b\r\ncontent-length: 0"}), 400,
                             "bad_request")
        self.refused(gateway.ask(self.body("m"), mode=STREAMED), 500, "extproc_mode")
        self.assertEqual(self.metric(node, "answered"), 11)
        worker.close()
        harness.wait_until(lambda: not any(w["eligible"] for w in self.workers(node)), "it is lost")
        self.refused(gateway.ask(self.body("m")), 503, "no_worker")
        self.assertEqual(self.inflight(node), 0)

    def test_who_may_ask_for_what_is_as_at_the_serving_port(self):
        folder = tempfile.TemporaryDirectory(prefix="kvasir-extproc-")
        self.addCleanup(folder.cleanup)
        key, line = self.run_once("kvasir", "key").stdout.split()
        path = pathlib.Path(folder.name) / "keys.yaml"
        path.write_text(f"tenants:\n  shop:\n    keys: ['{line}']\n"
                        "    limits: {requests: 2/h}\n")
        node = self.serve([self.idle().url], "--keys.file", str(path))
        gateway = self.gateway(node)
        for bad in ({}, {"authorization": "Bearer no"}):
            self.refused(gateway.ask(self.body("m"), headers=bad), 401, "invalid_api_key")
        for good, mode in (({"authorization": f"Bearer {key}"}, DUPLEX),
                           ({"x-api-key": key}, BUFFERED)):
            body = self.body("m", priority=-3)
            with gateway.ask(body, mode=mode,
                             headers={**good, "x-override-any": "1",
                                      "x-override-priority": "1"}) as call:
                told = call.told()
                self.assertEqual(len(told.endpoints), 1)
                self.assertEqual(told.removed, [
                    "authorization", "x-api-key", "x-vllm-priority", "x-kvasir-token",
                    "x-override-any", "x-override-priority", "x-data-parallel-rank"])
                self.assertEqual(json.loads(told.body)["priority"], 0)
                call.answer(200, [b"{}"])
        told = self.refused(gateway.ask(self.body("m"), headers={"x-api-key": key}), 429,
                            "rate_limit_exceeded")
        self.assertGreater(int(told.headers["retry-after"]), 0)

    def test_more_than_may_be_open_are_refused(self):
        node = self.serve([self.idle().url], "--limits.inflight_max", "2", "--lanes", "1")
        gateway = self.gateway(node)
        held = [gateway.ask(self.body("m")) for _ in range(2)]
        for call in held:
            call.told()
        over = gateway.ask(self.body("m"))
        with self.assertRaises(ext_proc.grpc.RpcError):
            over.told()
        self.assertEqual(over.stream.code(), ext_proc.grpc.StatusCode.UNAVAILABLE)
        for call in held:
            call.answer(200, [b"{}"])
            call.end()
        harness.wait_until(lambda: self.inflight(node) == 0, "they are over")
        with gateway.ask(self.body("m")) as call:
            self.assertEqual(len(call.told().endpoints), 1)
            call.answer(200, [b"{}"])

    def test_a_piece_of_an_answer_over_the_bound_ends_its_stream(self):
        node = self.serve([self.idle().url], "--limits.body_bytes_max", "1MiB")
        call = self.gateway(node).ask(self.body("m"))
        self.assertEqual(len(call.told().endpoints), 1)
        call.answer_head(200)
        with self.assertRaises(ext_proc.grpc.RpcError):
            call.answer_piece(b"a" * (2 << 20), True)
        self.assertEqual(call.stream.code(), ext_proc.grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertEqual((self.metric(node, "faults"), self.metric(node, "answered")), (1, 0))
        harness.wait_until(lambda: self.inflight(node) == 0, "it has left")

    def test_a_workers_own_key_goes_to_it(self):
        node = self.serve([self.idle().url + ",api_key=sesame"])
        with self.gateway(node).ask(self.body("m"), headers={"authorization": "Bearer x"}) as call:
            self.assertEqual(call.told().headers["authorization"], "Bearer sesame")
            call.answer(200, [b"{}"])

    def test_what_is_no_gateway_is_let_go(self):
        node = self.serve([self.idle().url])
        self.assertNotIn(b"200", harness.raw(node.at("extproc"),
                                             b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"))
        gateway = self.gateway(node)
        other = gateway.channel.unary_unary("/envoy.service.ext_proc.v3.ExternalProcessor/Other")
        with self.assertRaises(ext_proc.grpc.RpcError) as caught:
            other(b"", timeout=harness.IO_TIMEOUT_S)
        self.assertEqual(caught.exception.code(), ext_proc.grpc.StatusCode.UNIMPLEMENTED)
        raw = gateway.channel.stream_stream(ext_proc.PROCESS)
        for nonsense in (b"\xff", b"\x12\x7f", b""):
            call = raw(iter([nonsense]), timeout=harness.IO_TIMEOUT_S)
            with self.assertRaises(ext_proc.grpc.RpcError):
                next(call)
            self.assertEqual(call.code(), ext_proc.grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.metric(node, "faults"), 4)
        with gateway.ask(self.body("m")) as call:
            call.answer(200, [b"{}"] if call.told().endpoints else [])


class Living(ExtprocCase):
    def test_many_streams_share_a_connection(self):
        workers = [self.idle() for _ in range(4)]
        node = self.serve([w.url for w in workers], "--lanes", "2")
        gateway = self.gateway(node)
        calls = [gateway.ask(self.body("m", f"{i} " * 3000), pieces=3) for i in range(150)]
        told = [call.told() for call in calls]
        self.assertEqual(self.inflight(node), 150)  # while answers are to come
        self.assertEqual({t.endpoints[0] for t in told}, {w.id for w in workers})
        for call in calls[::2]:
            call.answer(200, [b"{}"])
            call.end()
        harness.wait_until(lambda: self.inflight(node) == 75, "half of them are over")
        for call in calls[1::2]:
            call.answer(500, [b"{}"])
            call.end()
        harness.wait_until(lambda: self.inflight(node) == 0, "all are over")
        self.assertEqual(self.metric(node, "connections"), 1)

    def test_a_piece_waits_for_those_before_it(self):
        """The gateway takes all that the node has to say, and has more of an answer
        under way than its window: it must be told that it may go on."""
        node = self.serve([self.idle().url])
        gateway = self.gateway(node, options=[("grpc.http2.lookahead_bytes", 64 << 20),
                                              ("grpc.http2.bdp_probe", 0),
                                              ("grpc.max_receive_message_length", -1)])
        pieces = [b"a" * (2 << 20)] * 6
        with gateway.ask(self.body("m")) as call:
            call.told()
            call.answer_head(200)
            for i, piece in enumerate(pieces):
                call.send("response_body",
                          M["HttpBody"](body=piece, end_of_stream=i == len(pieces) - 1))
            for piece in pieces:
                back = call.receive("response_body").response_body.response.body_mutation
                self.assertTrue(back.streamed_response.body == piece)
        harness.wait_until(lambda: self.inflight(node) == 0, "it is over")

    def test_a_gateway_or_client_that_vanishes_leaves_nothing(self):
        # What is left must not keep the node from ending, if this fails.
        node = self.serve([self.idle().url], "--timeouts.drain", "1s")
        gateway = self.gateway(node)
        at = []
        for stage in range(4):
            call = gateway.call()
            call.head({":method": "POST", ":path": "/v1/completions", ":authority": "g"})
            if stage == 0:
                call.body(b'{"model":', False)
            else:
                call.body(self.body("m"), True)
                call.told()
            if stage == 2:
                call.answer_head(200)
            if stage == 3:
                call.answer_head(200)
                call.answer_piece(b"{", False)
            at.append(call)
        harness.wait_until(lambda: self.inflight(node) == 3, "they are under way")
        at[1].end()             # in order: its client has gone
        at[2].stream.cancel()
        harness.wait_until(lambda: self.inflight(node) == 1, "two have left")
        gateway.close()         # with all that is open
        harness.wait_until(lambda: self.inflight(node) == 0, "all have left")
        harness.wait_until(lambda: harness.metric(node.at("admin"),
                                                  "kvasir_connections") == 0, "all")

    def test_a_stop_waits_for_what_gateways_have_begun(self):
        node = self.serve([self.idle().url])
        gateway = self.gateway(node)
        with gateway.ask(self.body("m")) as call:
            call.told()
            node.signal(signal.SIGTERM)
            harness.wait_until(lambda: "drain" in node.log(), "it drains")
            harness.wait_until(lambda: self.refuses(node), "it takes nothing new")
            self.assertIsNone(node.popen.poll())
            call.answer(200, [b"{}"])
        self.assertEqual(node.wait(), 0, node.log())

    def test_a_stop_does_not_wait_for_who_says_nothing(self):
        node = self.serve([self.idle().url], "--timeouts.write", "1h", "--timeouts.drain", "1h")
        with socket.create_connection(node.at("extproc")):
            harness.wait_until(lambda: self.metric(node, "connections") == 1, "it is there")
            self.assertEqual(node.stop(), 0, node.log())

    def test_a_gateway_whose_machine_is_gone_is_noticed(self):
        """By the kernel: its timer of the connection (/proc/net/tcp) is that one."""
        node = self.serve([self.idle().url])
        with socket.create_connection(node.at("extproc")) as silent:
            ends = tuple(f"0100007F:{port:04X}" for port in (
                node.at("extproc")[1], silent.getsockname()[1]))

            def timer():
                for line in pathlib.Path("/proc/net/tcp").read_text().splitlines():
                    words = line.split()
                    if tuple(words[1:3]) == ends:
                        return words[5].partition(":")[0]
                return None
            harness.wait_until(lambda: timer() == "02", "it is asked whether it lives", 30)

    def refuses(self, node):
        try:
            socket.create_connection(node.at("extproc"), timeout=5).close()
        except (ConnectionRefusedError, ConnectionResetError):
            return True
        return False

    def test_health_is_told_as_grpc_asks_for_it(self):
        worker = self.idle()
        node = self.serve([worker.url])
        gateway = self.gateway(node)
        self.assertEqual([gateway.health(s) for s in ("", "readiness", "liveness")], [1, 1, 1])
        worker.close()
        harness.wait_until(lambda: not any(w["eligible"] for w in self.workers(node)), "it is lost")
        self.assertEqual([gateway.health(s) for s in ("", "liveness")], [2, 1])

    @unittest.skipUnless(certs.FOUND, "no openssl command")
    def test_it_speaks_tls_where_the_serving_port_does(self):
        made = certs.Certs(type(self))
        node = self.serve([self.idle().url], "--tls.cert_file", made.path("one.pem"),
                          "--tls.key_file", made.path("one.key"))
        ca = pathlib.Path(made.path("ca.pem")).read_bytes()
        gateway = self.gateway(node, ext_proc.grpc.ssl_channel_credentials(ca))
        with gateway.ask(self.body("m", "a " * 100000), pieces=9) as call:
            self.assertEqual(len(call.told().endpoints), 1)
            call.answer(200, [b"{}" * 100000])
        harness.wait_until(lambda: "start_port key=extproc.listen" in node.log(), "it is said")


@unittest.skipUnless(yaml, "python3-yaml is not installed")
class Samples(unittest.TestCase):
    """Without an Envoy: that the files say what a node wants. tests/servers has a real one."""

    def test_envoy_sends_what_a_node_reads(self):
        sample = yaml.safe_load((DEPLOY / "envoy.yaml").read_text())["static_resources"]
        clusters = {c["name"]: c for c in sample["clusters"]}
        manager, = (f["typed_config"] for l in sample["listeners"] for chain in l["filter_chains"]
                    for f in chain["filters"])
        picks, router = manager["http_filters"]
        self.assertEqual(router["name"], "envoy.filters.http.router")
        asked = picks["typed_config"]
        self.assertIn(asked["grpc_service"]["envoy_grpc"]["cluster_name"], clusters)
        modes = asked["processing_mode"]
        self.assertEqual({modes["request_body_mode"], modes["response_body_mode"]},
                         {"FULL_DUPLEX_STREAMED"})
        self.assertEqual({v for k, v in modes.items() if not k.endswith("body_mode")}, {"SEND"})
        route, = manager["route_config"]["virtual_hosts"][0]["routes"]
        policy, = clusters[route["route"]["cluster"]]["load_balancing_policy"]["policies"]
        override = policy["typed_extension_config"]["typed_config"]
        self.assertEqual(override["override_host_sources"], [{"header": ENDPOINT}])

    def test_the_pools_picker_is_the_service_of_the_nodes(self):
        made = {m["kind"]: m for m in yaml.safe_load_all(
            (DEPLOY / "kubernetes/gateway/pool.yaml").read_text())}
        picker = made["InferencePool"]["spec"]["endpointPickerRef"]
        service = made["Service"]
        self.assertEqual(picker["name"], service["metadata"]["name"])
        self.assertEqual(picker["port"]["number"], service["spec"]["ports"][0]["port"])
        backend, = made["HTTPRoute"]["spec"]["rules"][0]["backendRefs"]
        self.assertEqual((backend["kind"], backend["name"]),
                         ("InferencePool", made["InferencePool"]["metadata"]["name"]))


if __name__ == "__main__":
    harness.main()
