"""Comments to clients that wait for the first of a stream, and what becomes of answers after
them."""
import json
import threading

import harness
from fake_worker import Close, FakeWorker
from test_proxy import CHAT, Proxy, chat, request_bytes

COMMENT = b": keep-alive\n\n"
DELTA = b'data: {"id":"a","choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
SOON = ["--timeouts.keep_alive", "60ms", "--breaker.failures", "100"]


class Reader:
    """The bytes of one answer, as they come."""

    def __init__(self, case, body, path=CHAT, version="1.1"):
        self.sock = case.connect()
        self.sock.sendall(request_bytes(body, path=path).replace(b"HTTP/1.1", b"HTTP/" + version.encode(), 1))
        self.data = b""

    def until(self, mark, count=1):
        while self.data.count(mark) < count:
            part = self.sock.recv(65536)
            if part == b"":
                raise EOFError(self.data)
            self.data += part
        return self.data

    def body(self):
        """All of it, its chunks taken apart: how it ends is checked, too."""
        self.until(b"\r\n0\r\n\r\n")
        _, _, rest = self.data.partition(b"\r\n\r\n")
        out = b""
        while True:
            size, _, rest = rest.partition(b"\r\n")
            if int(size, 16) == 0:
                return out
            out, end, rest = out + rest[:int(size, 16)], rest[int(size, 16):][:2], rest[int(size, 16) + 2:]
            assert end == b"\r\n", self.data

    def head(self):
        return self.data.partition(b"\r\n\r\n")[0].decode()


class Alive(Proxy):
    def setUp(self):
        super().setUp()
        self.go = threading.Event()
        self.addCleanup(self.go.set)

    def wait(self):
        if not self.go.wait(harness.IO_TIMEOUT_S):
            raise Close

    def stream(self, *parts):
        def answer(peer, _):
            peer.begin_stream()
            for part in parts:
                if part is None:
                    self.wait()
                else:
                    peer.chunk(part)
            peer.end_stream()
        return answer

    def test_an_engine_that_dies_before_its_first_event_is_replaced(self):
        """Its head came at once, as vLLM's, and it thinks: at any temperature another one is asked."""
        asked = threading.Event()

        def dies(peer, _):
            if asked.is_set():
                return self.stream(DELTA, DONE)(peer, _)
            peer.begin_stream()
            asked.set()
            self.wait()
            raise Close
        node = self.serve(FakeWorker(self, dies), FakeWorker(self, dies))
        reader = Reader(self, self.ask())
        self.assertTrue(asked.wait(harness.IO_TIMEOUT_S))
        self.pass_ticks(node)
        self.go.set()
        self.assertEqual(reader.body(), DELTA + DONE)

    def test_who_waits_for_an_engine_that_thinks_is_told_so(self):
        self.serve(FakeWorker(self, self.stream(None, DELTA, DONE)), options=SOON)
        reader = Reader(self, self.ask())
        reader.until(COMMENT, 2)
        self.go.set()
        self.assertEqual(reader.body().replace(COMMENT, b""), DELTA + DONE)

    def test_an_engine_that_thinks_for_too_long_is_given_up(self):
        self.serve(FakeWorker(self, self.stream(None)),
                   options=["--timeouts.first_byte", "60ms", "--retries.after_send", "0"])
        got = harness.request(self.address, "POST", CHAT, self.ask())
        self.assertEqual((got.status, got.json()["error"]["code"]), (502, "all_attempts_failed"))

    def slowly(self, answer):
        def handler(peer, request):
            self.wait()
            answer(peer, request)
        return handler

    def ask(self, **more):
        return chat(stream=True, temperature=0.7, stream_options={"include_usage": True}, **more)

    def pass_ticks(self, node, count=10):
        """The node looks at its time-outs so often."""
        at = harness.metric(node.at("admin"), "kvasir_loop_ticks_total") + count
        harness.wait_until(
            lambda: harness.metric(node.at("admin"), "kvasir_loop_ticks_total") >= at, "time passes")

    def test_a_client_that_waits_for_an_engine_is_told_that_it_lives(self):
        for temperature in (0, 0.7):  # with events looked at, and without
            self.go.clear()
            worker = FakeWorker(self, self.slowly(self.stream(DELTA, DONE)))
            node = self.serve(worker, options=SOON)
            reader = Reader(self, {**self.ask(), "temperature": temperature})
            reader.until(COMMENT, 2)
            self.assertTrue(reader.head().startswith("HTTP/1.1 200 OK\r\n"))
            self.assertIn("\r\nContent-Type: text/event-stream\r\n", reader.head())
            self.assertIn("\r\nx-request-id: kv-", reader.head())
            self.go.set()
            body = reader.body()
            self.assertEqual(body.replace(COMMENT, b""), DELTA + DONE)
            self.assertTrue(body.endswith(COMMENT + DELTA + DONE), body)
            self.assertEqual(harness.metric(node.at("admin"), "kvasir_keep_alives_total"),
                             body.count(COMMENT))
            reader.sock.sendall(request_bytes(self.ask()))  # the connection is as it was
            reader.data = b""
            self.assertTrue(reader.body().endswith(DELTA + DONE))
            node.stop()

    def test_an_engine_may_have_sent_its_head_already(self):
        for temperature in (0, 0.7):
            self.go.clear()
            worker = FakeWorker(self, self.stream(None, DELTA, DONE))
            node = self.serve(worker, options=SOON)
            reader = Reader(self, {**self.ask(), "temperature": temperature})
            reader.until(COMMENT, 2)
            self.go.set()
            self.assertTrue(reader.body().endswith(COMMENT + DELTA + DONE))
            self.assertEqual(reader.data.count(b"HTTP/1.1"), 1)
            node.stop()

    def test_an_engines_close_ends_its_answer_and_not_the_clients_connection(self):
        def closes(peer, _):
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + DELTA + DONE)
            raise Close
        self.serve(FakeWorker(self, self.slowly(closes)), options=SOON)
        reader = Reader(self, self.ask())
        reader.until(COMMENT)
        self.assertNotIn("Connection", reader.head())
        self.go.set()
        self.assertTrue(reader.body().endswith(COMMENT + DELTA + DONE))
        reader.sock.sendall(request_bytes(self.ask()))
        reader.data = b""
        reader.until(DELTA + DONE)

    def test_no_comment_lands_inside_an_event(self):
        worker = FakeWorker(self, self.stream(DELTA[:20], None, DELTA[20:], DONE))
        node = self.serve(worker, options=SOON)
        reader = Reader(self, self.ask())
        reader.until(DELTA[:20])
        self.pass_ticks(node)
        self.go.set()
        self.assertEqual(reader.body(), DELTA + DONE)

    def test_another_worker_may_still_answer(self):
        def dies(_, __):
            self.wait()
            raise Close
        first = FakeWorker(self, dies)
        second = FakeWorker(self, self.stream(DELTA, DONE))
        node = self.serve(first, second, options=[*SOON, "--policy", "round_robin"])
        for _ in range(2):
            self.go.clear()
            reader = Reader(self, self.ask())
            if first.requests:
                reader.until(COMMENT)
            self.go.set()
            self.assertEqual(reader.body().replace(COMMENT, b""), DELTA + DONE)
        self.assertEqual((len(first.requests), len(second.requests)), (1, 2))
        self.assertEqual(harness.metric(node.at("admin"), 'kvasir_requests_total{reason="answer_broke_off"}'), 0)

    def refused(self, handler, path=CHAT, **more):
        self.go.clear()
        worker = FakeWorker(self, handler)
        node = self.serve(worker, options=SOON)
        reader = Reader(self, self.ask(**more), path=path)
        reader.until(COMMENT)
        self.go.set()
        body = reader.body().replace(COMMENT, b"")
        self.assertTrue(reader.head().startswith("HTTP/1.1 200 OK\r\n"))
        node.stop()
        return body

    def test_what_fails_after_a_comment_is_an_event(self):
        def closes(_, __):
            self.wait()
            raise Close
        body = self.refused(closes)
        data, end = body.split(b"\n\n", 1)
        self.assertEqual(end, DONE)
        self.assertEqual(json.loads(data[6:])["error"]["code"], "all_attempts_failed")

    def test_an_engines_error_after_a_comment_is_an_event(self):
        def refuses(peer, _):
            peer.json({"error": {"message": "too \"long\"\n", "type": "BadRequestError",
                                 "code": 400}}, 400)
        body = self.refused(self.slowly(refuses))
        data, end = body.split(b"\n\n", 1)
        self.assertEqual(end, DONE)
        self.assertEqual(json.loads(data[6:]), {"error": {
            "message": "too \"long\"\n", "type": "invalid_request_error", "code": "bad_request"}})

        body = self.refused(self.slowly(refuses), path="/v1/messages", max_tokens=5)
        self.assertTrue(body.startswith(b"event: error\ndata: "), body)
        self.assertEqual(json.loads(body[19:]), {"type": "error", "error": {
            "type": "invalid_request_error", "message": "too \"long\"\n"}})

        body = self.refused(self.slowly(lambda peer, _: peer.answer(418, b"x" * 100000)))
        self.assertIn("the engine answered 418", json.loads(body.split(b"\n\n")[0][6:])["error"]["message"])

    def test_an_answer_that_breaks_off_after_a_comment_is_told(self):
        def breaks(peer, _):
            peer.send("HTTP/1.1 400 X\r\nContent-Length: 100\r\n\r\n{")
            raise Close
        body = self.refused(self.slowly(breaks))
        self.assertEqual(json.loads(body.split(b"\n\n")[0][6:])["error"]["code"], "answer_broke_off")

    def test_who_speaks_http_1_0_is_told_without_chunks(self):
        worker = FakeWorker(self, self.slowly(self.stream(DELTA, DONE)))
        self.serve(worker, options=SOON)
        reader = Reader(self, self.ask(), version="1.0")
        reader.until(COMMENT)
        self.go.set()
        reader.until(DONE)
        self.assertEqual(reader.sock.recv(1), b"")
        self.assertTrue(reader.data.endswith(COMMENT + DELTA + DONE), reader.data)

    def test_who_wants_no_stream_or_no_comments_gets_none(self):
        handler = self.slowly(lambda peer, _: peer.json({"echo": 1}))
        for options, body in ((SOON, chat()),
                              (["--timeouts.keep_alive", "0"], self.ask())):
            self.go.clear()
            worker = FakeWorker(self, handler)
            node = self.serve(worker, options=options)
            reader = Reader(self, body)
            harness.wait_until(lambda w=worker: w.requests, "it is there")
            self.pass_ticks(node)
            self.go.set()
            reader.until(b'{"echo": 1}')
            self.assertNotIn(b"keep-alive\n", reader.data)
            self.assertEqual(harness.metric(node.at("admin"), "kvasir_keep_alives_total"), 0)
            node.stop()


if __name__ == "__main__":
    harness.main()
