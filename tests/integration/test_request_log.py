"""The request log: which requests have a line, what it says, and that a trace
goes on to the worker."""
import json

import harness
from fake_worker import Close, FakeWorker

CHAT = "/v1/chat/completions"
SECRET = "a-prompt-that-nobody-may-read"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def answer(peer, _request):
    peer.json({"usage": {"prompt_tokens": 9, "completion_tokens": 4,
                         "prompt_tokens_details": {"cached_tokens": 8}}})


def stream(peer, _request):
    peer.begin_stream()
    peer.chunk(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n')
    peer.chunk(b"data: [DONE]\n\n")
    peer.end_stream()


class RequestLog(harness.Case):
    def run_node(self, worker, *flags):
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--lanes", "1", "--log.format", "json", "--worker", worker.url, *flags)
        harness.wait_until(
            lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200, "it is ready")
        return node

    def ask(self, node, path=CHAT, body=None, **headers):
        body = body or {"model": "m", "messages": [{"role": "user", "content": SECRET}]}
        return harness.request(node.at("serve"), "POST", path, body,
                               {k.replace("_", "-"): v for k, v in headers.items()})

    def lines(self, node, count):
        """So many lines of requests; there are no more."""
        def found():
            said = [json.loads(line) for line in node.log().splitlines() if line.startswith("{")]
            return [line for line in said if line["event"] == "request"]
        harness.wait_until(lambda: len(found()) >= count, f"{count} lines")
        self.assertEqual(len(found()), count)
        return found()

    def end(self, node, count):
        """The same once it has ended, so that no further line comes."""
        self.assertEqual(node.stop(), 0)
        return self.lines(node, count)


class Lines(RequestLog):
    def test_a_line_says_all_of_a_request_but_its_text(self):
        worker = FakeWorker(self, answer)
        node = self.run_node(worker, "--log.requests", "all")
        self.assertEqual(self.ask(node, CHAT + "?key=" + SECRET, x_request_id="mine").status, 200)
        line = self.end(node, 1)[0]
        for key, value in {
                "id": "mine", "client": "127.0.0.1", "method": "POST", "path": CHAT, "model": "m",
                "worker": worker.id, "end": "done", "status": 200, "attempts": 1,
                "prompt_tokens": 9, "cached_tokens": 8, "completion_tokens": 4,
                "source": "belief", "level": "info", "tenant": "default"}.items():
            self.assertEqual(line.get(key), value, line)
        self.assertRegex(line["overlap"], r"^\d+/\d+$")
        self.assertGreaterEqual(line["duration_us"], line["first_byte_us"])
        self.assertGreater(line["first_byte_us"], 0)
        for absent in ("failed", "code", "trace", "first_token_us"):
            self.assertNotIn(absent, line)
        self.assertNotIn(SECRET, node.log())

    def test_a_stream_has_the_time_of_its_first_token(self):
        node = self.run_node(FakeWorker(self, stream), "--log.requests", "all")
        self.assertEqual(self.ask(node, body={"model": "m", "stream": True, "messages": []}).status,
                         200)
        line = self.end(node, 1)[0]
        self.assertGreater(line["first_token_us"], 0)

    def test_failed_attempts_are_named_with_their_reasons(self):
        def closes(_peer, _request):
            raise Close

        def busy(peer, _request):
            peer.json({}, 503)
        bad, other = FakeWorker(self, closes), FakeWorker(self, busy)
        node = self.run_node(bad, "--worker", other.url, "--log.requests", "errors")
        harness.wait_until(lambda: len([w for w in harness.request(
            node.at("admin"), "GET", "/admin/workers").json() if w["eligible"]]) == 2, "both")
        status = self.ask(node).status
        line = self.end(node, 1)[0]
        self.assertEqual((line["status"], line["end"]), (status, "refused"))
        self.assertIn(f"{bad.id} closed without an answer", line["failed"])
        self.assertIn(f"{other.id} answered 503", line["failed"])
        self.assertNotEqual(line["code"], "")

    def test_errors_alone_are_told_also_of_what_never_was_a_request_to_a_worker(self):
        node = self.run_node(FakeWorker(self, answer), "--log.requests", "errors")
        self.assertEqual(self.ask(node).status, 200)
        self.assertEqual(self.ask(node, "/v1/nothing?x").status, 404)
        self.assertEqual(self.ask(node, body={"model": "other", "messages": []}).status, 404)
        self.assertEqual(harness.request(node.at("serve"), "POST", CHAT, b"{").status, 400)
        harness.raw(node.at("serve"), b"NOT HTTP\r\n\r\n")
        lines = self.end(node, 4)
        self.assertEqual([(line["status"], line.get("path"), line["code"]) for line in lines[:3]],
                         [(404, "/v1/nothing", "not_found"), (404, CHAT, "model_not_found"),
                          (400, CHAT, "invalid_json")])
        self.assertEqual(lines[3]["status"], 400)
        self.assertNotIn("path", lines[3])

    def test_what_is_refused_by_its_head_is_told_with_its_path(self):
        keys = self.folder / "keys.yaml"
        key = self.run_once("kvasir", "key").stdout.split()[1]
        keys.write_text(f"tenants:\n  shop:\n    keys: [{key}]\n")
        node = self.run_node(FakeWorker(self, answer), "--log.requests", "errors",
                             "--keys.file", keys, "--limits.body_bytes_max", "1KiB")
        self.assertEqual(self.ask(node).status, 401)
        open_node = self.run_node(FakeWorker(self, answer), "--log.requests", "errors",
                                  "--limits.body_bytes_max", "1KiB")
        self.assertEqual(self.ask(open_node, body={"model": "m" * 2000}).status, 413)
        for each, status in ((node, 401), (open_node, 413)):
            line, = self.end(each, 1)
            self.assertEqual((line["status"], line["method"], line["path"]),
                             (status, "POST", CHAT))

    def test_one_of_many_is_told_and_each_that_fails(self):
        node = self.run_node(FakeWorker(self, answer), "--log.requests", "1/4")
        for _ in range(8):
            self.assertEqual(self.ask(node).status, 200)
        self.assertEqual(self.ask(node, "/v1/nothing").status, 404)
        self.assertEqual([line["status"] for line in self.end(node, 3)], [200, 200, 404])

    def test_a_reload_turns_it_on_and_off(self):
        config = self.folder / "kvasir.yaml"
        config.write_text("log:\n  requests: off\n")
        node = self.run_node(FakeWorker(self, answer), "-c", config)
        self.ask(node, x_request_id="before")
        for setting, name in (("all", "while"), ("off", "after")):
            config.write_text(f"log:\n  requests: {setting}\n")
            applied = harness.request(node.at("admin"), "POST", "/admin/reload").json()["applied"]
            self.assertEqual(applied, ["log.requests"])
            # A lane takes it over on its next turn; one request more makes one.
            harness.request(node.at("serve"), "GET", "/health")
            self.ask(node, x_request_id=name)
        self.assertEqual([line["id"] for line in self.end(node, 1)], ["while"])


class Traces(RequestLog):
    def traced(self, *given):
        """What the worker got for these headers, and the node's lines."""
        seen = []

        def look(peer, request):
            seen.append(request.headers.get("traceparent"))
            answer(peer, request)
        node = self.run_node(FakeWorker(self, look), "--log.requests", "all")
        for value in given:
            self.assertEqual(self.ask(node, traceparent=value).status, 200)
        return seen, self.end(node, len(given))

    def test_a_trace_goes_on_with_a_span_of_the_nodes(self):
        seen, lines = self.traced(f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00",
                                  f"01-{TRACE}-{SPAN}-ff-more")
        spans = set()
        for got, line, flags in zip(seen, lines, ("01", "00", "03")):
            version, trace, span, sampled = got.split("-")
            self.assertEqual((version, trace, sampled), ("00", TRACE, flags))
            self.assertEqual((line["trace"], line["span"]), (TRACE, span))
            spans.add(span)
        self.assertEqual(len(spans - {SPAN}), 3)

    def test_what_is_no_trace_passes_as_it_is(self):
        given = [f"00-{'0' * 32}-{SPAN}-01", f"00-{TRACE.upper()}-{SPAN}-01", "nonsense"]
        seen, lines = self.traced(*given)
        self.assertEqual(seen, given)
        self.assertTrue(all("trace" not in line for line in lines))


if __name__ == "__main__":
    harness.main()
