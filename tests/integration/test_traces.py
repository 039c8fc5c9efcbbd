"""Spans of requests, told to a collector by OTLP: which requests, what they say, and
that nobody waits for it."""
import base64
import json
import re
import sys
import threading
import unittest

import certs
import harness
from fake_worker import Close, FakeWorker
from test_anthropic import packages_of
from test_request_log import CHAT, SECRET, SPAN, TRACE, answer

ALL = ("--traces.ratio", "1")
PROTO = "opentelemetry-proto"

# The fields of trace/v1/trace.proto and common/v1/common.proto that a node writes, as
# the protocol's JSON has them: identifiers in hexadecimal, 64 bits as decimal text.
HEX16, HEX8, DECIMAL = (re.compile(text) for text in
                        (r"[0-9a-f]{32}", r"[0-9a-f]{16}", r"0|[1-9][0-9]*"))


def text(pattern=None):
    def look(value):
        assert isinstance(value, str), value
        assert pattern is None or pattern.fullmatch(value), value
    return look


def number(value):
    assert isinstance(value, int) and not isinstance(value, bool), value


VALUE = {"stringValue": text(), "intValue": text(DECIMAL)}
ATTRIBUTES = [{"key": text(), "value": VALUE}]
SPANS = {"traceId": text(HEX16), "spanId": text(HEX8), "parentSpanId": text(HEX8),
         "name": text(), "kind": number, "startTimeUnixNano": text(DECIMAL),
         "endTimeUnixNano": text(DECIMAL), "attributes": ATTRIBUTES,
         "status": {"code": number, "message": text()}}
REQUEST = {"resourceSpans": [{"resource": {"attributes": ATTRIBUTES},
                              "scopeSpans": [{"scope": {"name": text()}, "spans": [SPANS]}]}]}


def check(value, shape):
    if isinstance(shape, dict):
        assert set(value) <= set(shape), set(value) - set(shape)
        for key, inner in value.items():
            check(inner, shape[key])
    elif isinstance(shape, list):
        for inner in value:
            check(inner, shape[0])
    else:
        shape(value)


def attributes(holder):
    found = {}
    for pair in holder.get("attributes", []):
        (kind, value), = pair["value"].items()
        assert pair["key"] not in found, pair
        found[pair["key"]] = int(value) if kind == "intValue" else value
    return found


class Collector(FakeWorker):
    """Answers with these statuses in turn, then with 200; keeps what it took."""

    def __init__(self, case, *statuses, said=None, **more):
        self.statuses = list(statuses)
        self.said = said if said is not None else {}
        self.taken = []
        self.seen = []
        super().__init__(case, self.take, **more)

    def take(self, peer, request):
        assert request.line == "POST /v1/traces HTTP/1.1", request.line
        assert request.headers["content-type"] == "application/json", request.headers
        check(request.json(), REQUEST)
        status = self.statuses.pop(0) if self.statuses else 200
        self.seen.append((status, request.body))
        if status == 200:
            self.taken.append(request.json())
        peer.json(self.said, status)

    def spans(self):
        return [span for told in self.taken for resource in told["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]


class Traces(harness.Case):
    def run_node(self, collector, *workers, flags=()):
        words = [word for worker in workers for word in ("--worker", worker.url)]
        url = collector if isinstance(collector, str) else collector.url
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--traces.otlp", url, *words, *flags)
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_worker_eligible")
                           == len(workers), "workers are up")
        return node

    def ask(self, node, **headers):
        return harness.request(
            node.at("serve"), "POST", CHAT,
            {"model": "m", "messages": [{"role": "user", "content": SECRET}]},
            {k.replace("_", "-"): v for k, v in headers.items()})

    def count(self, node, what):
        return harness.metric(node.at("admin"), f"kvasir_trace_{what}")

    def told(self, collector, requests):
        """The spans by name, once so many requests were told; there are no more of them."""
        def found():
            return [span for span in collector.spans() if span["name"] == "request"]
        harness.wait_until(lambda: len(found()) >= requests, "spans came")
        self.assertEqual(len(found()), requests)
        by_name = {}
        for span in collector.spans():
            by_name.setdefault(span["name"], []).append(span)
        return by_name

    def test_a_sampled_request_is_told_step_by_step(self):
        seen = []

        def look(peer, request):
            seen.append(request.headers.get("traceparent"))
            answer(peer, request)
        worker = FakeWorker(self, look)
        collector = Collector(self)
        node = self.run_node(collector, worker, flags=("--traces.ratio", "0", "--name", "n1"))
        for sampled in "00", "01":
            got = self.ask(node, traceparent=f"00-{TRACE}-{SPAN}-{sampled}", x_request_id="mine")
            self.assertEqual(got.status, 200)
        self.assertEqual(self.ask(node).status, 200)
        spans = self.told(collector, 1)
        self.assertEqual({name: len(found) for name, found in spans.items()},
                         {"request": 1, "tokenise": 1, "elect": 1, "attempt": 1})
        request, = spans.pop("request")
        self.assertEqual((request["traceId"], request["parentSpanId"], request["kind"]),
                         (TRACE, SPAN, 2))
        self.assertNotIn("status", request)
        # The engine's own spans hang below the request.
        self.assertEqual(seen, [seen[0], f"00-{TRACE}-{request['spanId']}-01", None])
        says = attributes(request)
        for key, value in {
                "http.request.method": "POST", "url.path": CHAT, "http.response.status_code": 200,
                "gen_ai.request.model": "m", "kvasir.request_id": "mine", "kvasir.end": "done",
                "kvasir.worker": worker.id, "kvasir.mode": "balance", "client.address": "127.0.0.1",
                "gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 4,
                "kvasir.cached_tokens": 8, "kvasir.attempts": 1}.items():
            self.assertEqual(says.get(key), value, key)
        at = int(request["startTimeUnixNano"])
        ids = {request["spanId"]}
        for name in "tokenise", "elect", "attempt":
            step, = spans[name]
            self.assertEqual((step["traceId"], step["parentSpanId"], step["kind"]),
                             (TRACE, request["spanId"], 3 if name == "attempt" else 1))
            self.assertLessEqual(at, int(step["startTimeUnixNano"]))
            at = int(step["endTimeUnixNano"])
            ids.add(step["spanId"])
        self.assertEqual(at, int(request["endTimeUnixNano"]))
        self.assertEqual(len(ids), 4)
        self.assertEqual(attributes(spans["attempt"][0]),
                         {"kvasir.worker": worker.id, "http.response.status_code": 200})
        self.assertEqual(attributes(collector.taken[0]["resourceSpans"][0]["resource"])
                         | {"service.version": ""}, {"service.name": "kvasir",
                                                     "service.instance.id": "n1",
                                                     "service.version": ""})
        self.assertNotIn(SECRET.encode(), b"".join(body for _, body in collector.seen))
        harness.wait_until(lambda: self.count(node, "spans_sent_total") == 4, "it is counted")

    def test_a_trace_begins_here_for_the_ratio_alone(self):
        seen = []

        def look(peer, request):
            seen.append(request.headers.get("traceparent"))
            answer(peer, request)
        collector = Collector(self)
        node = self.run_node(collector, FakeWorker(self, look), flags=ALL)
        self.ask(node)
        self.ask(node, traceparent="nonsense")
        self.ask(node, traceparent=f"00-{TRACE}-{SPAN}-00")  # its sender has decided
        requests = self.told(collector, 2)["request"]
        self.assertTrue(all("parentSpanId" not in span for span in requests))
        self.assertEqual({f"00-{span['traceId']}-{span['spanId']}-01" for span in requests},
                         set(seen[:2]))
        self.assertEqual(len({span["traceId"] for span in requests}), 2)
        self.assertEqual((seen[2][:36], seen[2][-3:]), (f"00-{TRACE}-", "-00"))

    def test_each_attempt_is_a_span_and_a_failed_one_says_why(self):
        def leave(_peer, _request):
            raise Close
        bad, good = FakeWorker(self, leave), FakeWorker(self, answer)
        collector = Collector(self)
        node = self.run_node(collector, bad, good,
                             flags=(*ALL, "--policy", "round_robin", "--breaker.failures", "1000"))
        count = 0
        while not bad.requests:  # the bad one is met first once
            self.assertEqual(self.ask(node).status, 200)
            count += 1
        attempts = self.told(collector, count)["attempt"]
        failed, = [span for span in attempts if "status" in span]
        self.assertEqual(failed["status"], {"code": 2, "message": "closed without an answer"})
        self.assertEqual(attributes(failed), {"kvasir.worker": bad.id})
        self.assertEqual([attributes(span) for span in attempts if "status" not in span],
                         [{"kvasir.worker": good.id, "http.response.status_code": 200}] * count)

    def test_a_refused_one_is_an_error(self):
        worker = FakeWorker(self, lambda peer, request: peer.answer(503))
        collector = Collector(self)
        node = self.run_node(collector, worker, flags=ALL)
        self.assertEqual(self.ask(node).status, 502)
        request, = self.told(collector, 1)["request"]
        self.assertEqual(request["status"], {"code": 2, "message": "all_attempts_failed"})
        self.assertEqual(attributes(request)["error.type"], "all_attempts_failed")

    def test_who_waits_for_room_has_a_span_of_it(self):
        go = threading.Event()

        def slow(peer, request):
            go.wait(harness.IO_TIMEOUT_S)
            answer(peer, request)
        collector = Collector(self)
        node = self.run_node(collector, FakeWorker(self, slow),
                             flags=(*ALL, "--workers.max_inflight", "1"))
        both = [threading.Thread(target=self.ask, args=(node,)) for _ in range(2)]
        for one in both:
            one.start()
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_queue_waiting") == 1,
                           "one waits")
        go.set()
        for one in both:
            one.join()
        queue, = self.told(collector, 2)["queue"]
        self.assertLess(int(queue["startTimeUnixNano"]), int(queue["endTimeUnixNano"]))

    def test_what_a_collector_cannot_take_now_is_sent_again(self):
        collector = Collector(self, 503, 429)
        node = self.run_node(collector, FakeWorker(self, answer), flags=ALL)
        self.ask(node)
        self.told(collector, 1)
        self.assertEqual([status for status, _ in collector.seen], [503, 429, 200])
        self.assertEqual(len({body for _, body in collector.seen}), 1)
        harness.wait_until(lambda: self.count(node, "spans_sent_total") == 4, "it is counted")
        self.assertEqual(self.count(node, "failures_total"), 2)
        self.assertEqual(self.count(node, "spans_dropped_total"), 0)
        self.assertIn('why="it took them not" status=503', node.log())

    def test_what_a_collector_refuses_is_dropped_and_counted(self):
        collector = Collector(self, 400, said={"partialSuccess": {"rejectedSpans": "3",
                                                                  "errorMessage": "too old"}})
        node = self.run_node(collector, FakeWorker(self, answer), flags=ALL)
        self.ask(node)
        harness.wait_until(lambda: self.count(node, "spans_dropped_total") == 4, "all of them")
        self.ask(node)
        harness.wait_until(lambda: self.count(node, "spans_dropped_total") == 7, "three more")
        self.assertEqual(self.count(node, "spans_sent_total"), 1)
        self.assertEqual([status for status, _ in collector.seen], [400, 200])

    def test_nobody_waits_for_a_collector_that_is_not_there(self):
        collector = Collector(self)
        collector.close()
        node = self.run_node(collector.url, FakeWorker(self, answer), flags=ALL)
        for _ in range(20):
            self.assertEqual(self.ask(node).status, 200)
        harness.wait_until(lambda: self.count(node, "failures_total") >= 1, "it was tried")
        self.assertEqual(node.stop(), 0)

    def test_without_a_collector_no_trace_begins(self):
        seen = []

        def look(peer, request):
            seen.append(request.headers.get("traceparent"))
            answer(peer, request)
        worker = FakeWorker(self, look)
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", worker.url, *ALL)
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_worker_eligible"), "up")
        self.ask(node)
        self.assertEqual((seen, self.count(node, "spans_sent_total")), ([None], None))

    @unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
    def test_a_collector_may_want_tls(self):
        keys = certs.Certs(self)
        collector = Collector(self, tls=keys.of_server("one"))
        node = self.run_node(f"https://localhost:{collector.address[1]}", FakeWorker(self, answer),
                             flags=(*ALL, "--tls.workers_ca_file", keys.path("ca.pem")))
        self.ask(node)
        self.told(collector, 1)

    def test_the_protocols_own_definition_takes_it(self):
        sys.path.insert(0, str(packages_of(PROTO)))
        self.addCleanup(sys.path.remove, sys.path[0])
        try:
            from google.protobuf import json_format
            from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
        except ImportError as error:
            raise unittest.SkipTest(f"{PROTO} does not load: {error}") from None

        def as_proto(value):
            """The protocol departs from protobuf's JSON in its identifiers alone."""
            if isinstance(value, list):
                return [as_proto(inner) for inner in value]
            if isinstance(value, dict):
                return {key: base64.b64encode(bytes.fromhex(inner)).decode()
                        if key in ("traceId", "spanId", "parentSpanId") else as_proto(inner)
                        for key, inner in value.items()}
            return value

        def leave(_peer, _request):
            raise Close
        collector = Collector(self)
        node = self.run_node(collector, FakeWorker(self, leave), flags=ALL)
        self.ask(node, traceparent=f"00-{TRACE}-{SPAN}-01")
        self.told(collector, 1)
        got = trace_service_pb2.ExportTraceServiceRequest()
        json_format.Parse(json.dumps(as_proto(collector.taken[0])), got)
        spans = got.resource_spans[0].scope_spans[0].spans
        self.assertEqual(spans[0].trace_id.hex(), TRACE)
        self.assertEqual(spans[0].parent_span_id.hex(), SPAN)
        self.assertGreater(spans[0].end_time_unix_nano, spans[0].start_time_unix_nano)
        self.assertEqual(spans[0].kind, spans[0].SPAN_KIND_SERVER)
        self.assertEqual(spans[0].status.code, spans[0].status.STATUS_CODE_ERROR)
        self.assertEqual({span.name for span in spans},
                         {"request", "tokenise", "elect", "attempt"})


if __name__ == "__main__":
    harness.main()
