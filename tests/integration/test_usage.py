"""The usage of streams: asked of the engine on behalf of clients that did not ask, and
kept from them."""
import json
import threading

import harness
from fake_worker import Close, FakeWorker
from test_proxy import Proxy, chat, request_bytes

DELTA = b'data: {"choices":[{"delta":{"content":"hi"}}]}\n\n'
USAGE = (b'data: {"choices":[],"usage":{"prompt_tokens":640,"completion_tokens":1,'
         b'"total_tokens":641,"prompt_tokens_details":{"cached_tokens":624,'
         b'"created_cache_tokens":16}}}\n\n')
DONE = b"data: [DONE]\n\n"


def asked(request):
    return (request.json().get("stream_options") or {}).get("include_usage") is True


def stream(peer, request, pieces=None):
    peer.begin_stream()
    for piece in pieces or [DELTA, *([USAGE] if asked(request) else []), DONE]:
        peer.chunk(piece)
    peer.end_stream()


class Usage(Proxy):
    def read(self, body, headers=None):
        answer = self.post(body, headers)
        self.assertEqual(answer.status, 200)
        return answer.body

    def cached(self, node):
        return harness.metric(node.at("admin"), "kvasir_cached_tokens_total")

    def expect_cached(self, node, tokens):
        harness.wait_until(lambda: self.cached(node) == tokens, f"{tokens} cached tokens")

    def test_the_engine_is_asked_and_the_client_does_not_see_it(self):
        seen = []

        def handler(peer, request):
            seen.append(request)
            stream(peer, request)

        node = self.serve(FakeWorker(self, handler))
        self.assertEqual(self.read(chat(stream=True), {"Accept-Encoding": "gzip"}), DELTA + DONE)
        self.expect_cached(node, 624)
        self.assertEqual(seen[-1].json(),
                         chat(stream=True, stream_options={"include_usage": True}))
        self.assertNotIn("accept-encoding", seen[-1].headers)
        for options in ({}, {"include_usage": False, "other": 1}, None, {"other": [1]}):
            self.assertEqual(self.read(chat(stream=True, stream_options=options)), DELTA + DONE)
            self.assertEqual(seen[-1].json(), chat(
                stream=True, stream_options={**(options or {}), "include_usage": True}))

    def test_a_large_body_goes_with_its_clients_key(self):
        worker = FakeWorker(self, stream)
        self.serve(worker)
        body = chat("x" * 20_000, stream=True)
        self.assertEqual(self.read(body, {"Authorization": "Bearer a"}), DELTA + DONE)
        request = worker.requests[-1]
        self.assertEqual(request.headers["authorization"], "Bearer a")
        self.assertEqual(request.json(), {**body, "stream_options": {"include_usage": True}})

    def test_who_asks_gets_it(self):
        node = self.serve(FakeWorker(self, stream))
        body = chat(stream=True, stream_options={"include_usage": True})
        self.assertEqual(self.read(body), DELTA + USAGE + DONE)
        self.expect_cached(node, 624)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_created_cache_tokens_total"), 16)

    def test_bodies_that_ask_for_no_stream_or_for_more_arrive_as_they_are(self):
        worker = FakeWorker(self, lambda peer, request: peer.json({}))
        self.serve(worker)
        for body in (chat(), chat(stream=False), chat(stream=1),
                     chat(stream=True, stream_options={"continuous_usage_stats": True}),
                     chat(stream=True, stream_options=[1])):
            raw = json.dumps(body).encode()
            s = self.connect()
            s.sendall(request_bytes(raw))
            s.recv(10)
            self.assertEqual(worker.requests[-1].body, raw)

    def test_it_can_be_switched_off(self):
        worker = FakeWorker(self, stream)
        node = self.serve(worker, options=["--usage.ask", "off"])
        self.assertEqual(self.read(chat(stream=True)), DELTA + DONE)
        self.assertNotIn("stream_options", worker.requests[-1].json())
        self.assertEqual(self.cached(node), 0)

    def test_an_event_may_come_in_pieces_and_its_end_late(self):
        more = threading.Event()

        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(DELTA + USAGE[:40])
            more.wait(harness.IO_TIMEOUT_S)
            for byte in USAGE[40:] + DONE[:4]:
                peer.chunk(bytes([byte]))
            peer.chunk(DONE[4:])
            peer.end_stream()

        node = self.serve(FakeWorker(self, handler))
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        data = b""
        while not data.endswith(DELTA + b"\r\n"):
            data += s.recv(65536)  # what is before it does not wait
        more.set()
        while not data.endswith(b"0\r\n\r\n"):
            data += s.recv(65536)
        self.assertNotIn(b"usage", data)
        self.assertIn(b"[DONE]", data)
        self.expect_cached(node, 624)

    def test_every_way_that_a_body_can_end(self):
        def with_length(peer, request):
            peer.answer(200, DELTA + USAGE + DONE, "Content-Type: text/event-stream\r\n")

        def with_close(peer, request):
            peer.send(b"HTTP/1.1 200 OK\r\nContent-Type: Text/Event-Stream;a=b\r\n\r\n"
                      + DELTA + USAGE + DONE + b"data: cut")
            raise Close

        for handler, rest in ((stream, b""), (with_length, b""), (with_close, b"data: cut")):
            node = self.serve(FakeWorker(self, handler))
            self.assertEqual(self.read(chat(stream=True)), DELTA + DONE + rest)
            old = request_bytes(chat(stream=True)).replace(b"HTTP/1.1", b"HTTP/1.0", 1)
            _, _, body = harness.raw(self.address, old).partition(b"\r\n\r\n")
            self.assertEqual(body, DELTA + DONE + rest)
            self.expect_cached(node, 2 * 624)

    def test_an_answer_that_is_no_stream_passes_as_it_is(self):
        whole = {"choices": [], "usage": {"prompt_tokens": 9}}
        self.serve(FakeWorker(self, lambda peer, request: peer.json(whole)))
        self.assertEqual(self.post(chat(stream=True)).json(), whole)

    def test_an_engine_that_does_not_know_it_gets_the_clients_own_body(self):
        for status in (400, 422):
            def handler(peer, request, status=status):
                if "stream_options" in request.json():
                    peer.json({"error": "unknown field"}, status)
                else:
                    stream(peer, request)

            worker = FakeWorker(self, handler)
            self.serve(worker, options=["--lanes", "1"])
            for _ in range(3):
                self.assertEqual(self.read(chat(stream=True)), DELTA + DONE)
            self.assertEqual(sum(map(asked, worker.requests)), 1)
            self.assertEqual(len(worker.requests), 4)

    def test_a_clients_own_mistake_is_the_clients(self):
        worker = FakeWorker(self, lambda peer, request: peer.json({"error": "bad"}, 400))
        node = self.serve(worker)
        self.assertEqual(self.post(chat(stream=True)).status, 400)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_retries_total"), 0)
        worker.handler = stream
        self.assertEqual(self.read(chat(stream=True)), DELTA + DONE)
        self.assertTrue(asked(worker.requests[-1]), "that engine is asked as before")

    def test_the_next_worker_gets_the_same_body(self):
        lost = []

        def handler(peer, request):
            if not lost:
                lost.append(request.body)
                raise Close
            stream(peer, request)

        workers = [FakeWorker(self, handler) for _ in range(2)]
        self.serve(*workers)
        self.assertEqual(self.read(chat(stream=True)), DELTA + DONE)
        both = [r.body for w in workers for r in w.requests]
        self.assertEqual(len(both), 2)
        self.assertEqual(both[0], both[1])


if __name__ == "__main__":
    harness.main()
