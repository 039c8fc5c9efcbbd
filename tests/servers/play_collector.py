"""A real collector of OpenTelemetry takes the spans of a node: what it passes on is what
was done with the requests."""
import json
import unittest

import builds
import certs
import harness
import test_traces
from fake_worker import Close, FakeWorker
from program import Program
from test_request_log import CHAT, SECRET, SPAN, TRACE, answer
from test_traces import ALL, Collector, attributes

PORT = 4318
CONFIG = """
receivers:
  otlp:
    protocols:
      http:
        endpoint: 127.0.0.1:{port}
        {more}
exporters:
  file:
    path: {path}
    append: true
    flush_interval: 100ms
service:
  telemetry:
    metrics: {{level: none}}
  pipelines:
    traces: {{receivers: [otlp], exporters: [file]}}
"""


class RealCollector:
    def __init__(self, case, more="", scheme="http", tls=None):
        config = case.folder / "collector.yaml"
        self.path = case.folder / "spans.jsonl"
        self.url = f"{scheme}://localhost:{PORT}"
        self.tls = tls
        config.write_text(CONFIG.format(port=PORT, path=self.path, more=more))
        self.program = Program(case, "collector", [builds.collector(), "--config", config])

    def is_up(self):
        connection = harness.connect(("127.0.0.1", PORT))
        connection.connect()
        connection.close()
        return True

    def begin(self):
        self.program.begin(self.is_up)

    def end(self):
        self.program.end()

    def spans(self):
        """As a stand-in's spans(): what was passed on, by the protocol's JSON."""
        if not self.path.exists():
            return []
        whole = self.path.read_text().rpartition("\n")[0]
        self.told = [json.loads(line) for line in whole.splitlines()]
        return [span for told in self.told for resource in told["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]


class Spans(harness.Case):
    run_node, ask = test_traces.Traces.run_node, test_traces.Traces.ask
    count, told = test_traces.Traces.count, test_traces.Traces.told

    def collector(self, **more):
        made = RealCollector(self, **more)
        made.begin()
        return made

    def check_counts(self, node, sent, dropped=0):
        harness.wait_until(lambda: self.count(node, "spans_sent_total") == sent, "all are counted")
        self.assertEqual(self.count(node, "spans_dropped_total"), dropped)

    def test_it_passes_on_what_a_node_told(self):
        def leave(_peer, _request):
            raise Close
        bad, good = FakeWorker(self, leave), FakeWorker(self, answer)
        collector = self.collector()
        node = self.run_node(collector, bad, good, flags=(
            "--name", "n1", "--policy", "round_robin", "--breaker.failures", "1000"))
        asked = 0
        while not bad.requests:
            got = self.ask(node, traceparent=f"00-{TRACE}-{SPAN}-01", x_request_id="mine")
            self.assertEqual(got.status, 200)
            asked += 1
        spans = self.told(collector, asked)
        self.assertEqual({name: len(found) for name, found in spans.items()},
                         {"request": asked, "tokenise": asked, "elect": asked + 1,
                          "attempt": asked + 1})
        self.assertEqual({s["traceId"] for found in spans.values() for s in found}, {TRACE})
        requests = {s["spanId"]: s for s in spans.pop("request")}
        self.assertEqual(len(requests), asked)
        for request in requests.values():
            self.assertEqual((request["parentSpanId"], request["kind"]), (SPAN, 2))
            self.assertEqual(request["status"], {})
            says = attributes(request)
            for key, value in {"http.request.method": "POST", "url.path": CHAT,
                               "http.response.status_code": 200, "gen_ai.request.model": "m",
                               "kvasir.request_id": "mine", "kvasir.worker": good.id,
                               "gen_ai.usage.input_tokens": 9}.items():
                self.assertEqual(says.get(key), value, key)
        for found in spans.values():
            for step in found:
                request = requests[step["parentSpanId"]]
                self.assertLessEqual(int(request["startTimeUnixNano"]),
                                     int(step["startTimeUnixNano"]))
                self.assertLessEqual(int(step["endTimeUnixNano"]),
                                     int(request["endTimeUnixNano"]))
        failed, = [s for s in spans["attempt"] if s["status"]]
        self.assertEqual(failed["status"], {"code": 2, "message": "closed without an answer"})
        self.assertEqual(attributes(failed), {"kvasir.worker": bad.id})
        self.assertEqual({s["kind"] for s in spans["attempt"]}, {3})
        resource = attributes(collector.told[0]["resourceSpans"][0]["resource"])
        self.assertEqual((resource["service.name"], resource["service.instance.id"]),
                         ("kvasir", "n1"))
        self.assertNotIn(SECRET, collector.path.read_text())
        self.check_counts(node, 4 * asked + 2)

    def test_many_come_whole_and_once(self):
        collector = self.collector()
        node = self.run_node(collector, FakeWorker(self, answer), flags=ALL)
        for _ in range(300):
            self.assertEqual(self.ask(node).status, 200)
        spans = self.told(collector, 300)
        ids = {s["spanId"] for found in spans.values() for s in found}
        self.assertEqual(len(ids), 1200)
        self.assertEqual(len({s["traceId"] for s in spans["request"]}), 300)
        self.check_counts(node, 1200)

    def test_what_was_told_while_it_was_away_comes_later(self):
        collector = RealCollector(self)
        node = self.run_node(collector, FakeWorker(self, answer), flags=ALL)
        self.ask(node)
        harness.wait_until(lambda: self.count(node, "failures_total") >= 1, "it was tried")
        collector.begin()
        self.told(collector, 1)
        collector.end()
        self.ask(node)
        harness.wait_until(lambda: self.count(node, "failures_total") >= 2, "it is gone")
        collector.begin()
        self.told(collector, 2)
        self.check_counts(node, 8)

    def test_what_it_refuses_is_dropped_and_counted(self):
        collector = self.collector(more="max_request_body_size: 100")
        node = self.run_node(collector, FakeWorker(self, answer), flags=ALL)
        self.ask(node)
        harness.wait_until(lambda: self.count(node, "spans_dropped_total"), "it was refused")
        self.check_counts(node, 0, dropped=4)
        self.assertEqual(collector.spans(), [])

    @unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
    def test_by_tls(self):
        keys = certs.Certs(self)
        collector = self.collector(scheme="https", more=(
            f"tls: {{cert_file: {keys.path('one.pem')}, key_file: {keys.path('one.key')}}}"))
        node = self.run_node(collector, FakeWorker(self, answer),
                             flags=(*ALL, "--tls.workers_ca_file", keys.path("ca.pem")))
        self.ask(node)
        self.told(collector, 1)
        self.check_counts(node, 4)

    def test_the_stand_in_is_told_the_same(self):
        """Field by field, but for what is drawn and the time, and what a proto leaves out."""
        def shape(spans):
            return sorted(json.dumps([
                span["name"], span["kind"], span.get("status") or {}, "parentSpanId" in span,
                sorted(key for key, _ in attributes(span).items())]) for span in spans)
        worker = FakeWorker(self, answer)
        told = []
        for collector in self.collector(), Collector(self):
            node = self.run_node(collector, worker, flags=ALL)
            self.ask(node, x_request_id="mine")
            self.told(collector, 1)
            told.append(shape({**span, "parentSpanId": None} if span.get("parentSpanId") else
                              {k: v for k, v in span.items() if k != "parentSpanId"}
                              for span in collector.spans()))
            node.stop()
        self.assertEqual(*told)
