"""The serving port, byte by byte: what is passed on and how, what is refused,
what happens when either side misbehaves."""
import http.client
import json
import os
import pathlib
import signal
import socket
import threading
import unittest

import harness
from fake_worker import Close, FakeWorker

TCP_REPAIR = 19  # linux/tcp.h
CHAT = "/v1/chat/completions"
LANES = os.environ.get("KVASIR_TEST_LANES", "1")  # several under TSan


def chat(text="hello", **more):
    return {"model": "m", "messages": [{"role": "user", "content": text}], **more}


def echo(peer, request):
    peer.json({"echo": request.body.decode("utf-8", "replace")})


class Proxy(harness.Case):
    def serve(self, *workers, options=(), env=None, count=None):
        """A node in front of the workers, ready and with all of them up."""
        args = []
        for worker in workers:
            args += ["--worker", worker if isinstance(worker, str) else worker.url]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0",
                          "--admin", "127.0.0.1:0", "--name", "n1", "--lanes", LANES,
                          *args, *options, env=env)
        live = sum(not isinstance(w, str) for w in workers) if count is None else count
        harness.wait_until(lambda: self.eligible(node) >= live, "workers are up")
        self.address = node.at("serve")
        return node

    def eligible(self, node):
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return sum(w["eligible"] for w in workers)

    def post(self, body=None, headers=None, path=CHAT):
        return harness.request(self.address, "POST", path, body or chat(), headers)

    def counts(self, node, code):
        """One request has ended with that code."""
        name = f'kvasir_requests_total{{code="{code}"}}'
        harness.wait_until(lambda: harness.metric(node.at("admin"), name) == 1, name)

    def connect(self):
        s = socket.create_connection(self.address, timeout=harness.IO_TIMEOUT_S)
        self.addCleanup(s.close)
        return s


def request_bytes(body, extra="", path=CHAT):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f"POST {path} HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{extra}\r\n").encode() + body


def read_answer(s):
    """One answer with a Content-Length: (status, headers, body)."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = s.recv(65536)
        if part == b"":
            raise EOFError(data)
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, _, v in (f.partition(":") for f in fields)}
    size = int(headers.get("content-length", "0"))
    while len(body) < size:
        body += s.recv(65536)
    return int(line.split(" ")[1]), headers, body[:size], body[size:]


class Forwarding(Proxy):
    def test_bodies_arrive_byte_for_byte_and_answers_say_where_from(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        body = '{ "messages":[{"content":"\\u00e9 caf\u00e9","role":"user"}] , "model":"m"}'
        answer = self.post(body, {"content-type": "application/json"})
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.json()["echo"], body)
        self.assertEqual(answer.headers["x-kvasir-node"], "n1")
        self.assertEqual(answer.headers["x-kvasir-worker"], worker.id)
        self.assertIn(answer.headers["x-kvasir-mode"], ("affinity", "balance"))
        self.assertRegex(answer.headers["x-kvasir-overlap"], r"^0/\d+$")
        self.assertTrue(answer.headers["x-request-id"])

    def test_headers_that_are_not_for_the_worker_stay_here(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        self.post(headers={"Connection": "x-hop", "X-Hop": "1", "TE": "trailers",
                           "X-Data-Parallel-Rank": "3", "X-Kvasir-Worker": "forged",
                           "X-Override-Bootstrap-Host": "10.9.9.9", "x-override-priority": "0",
                           "Authorization": "Bearer k", "X-Request-Id": "mine-1",
                           "X-Custom": "kept"})
        headers = worker.requests[0].headers
        for gone in ("x-hop", "connection", "te", "x-data-parallel-rank", "x-kvasir-worker",
                     "x-override-bootstrap-host", "x-override-priority"):
            self.assertNotIn(gone, headers)
        self.assertEqual(headers["authorization"], "Bearer k")
        self.assertEqual(headers["x-request-id"], "mine-1")
        self.assertEqual(headers["x-custom"], "kept")
        self.assertEqual(headers["host"], worker.id)

    def test_a_worker_may_have_a_base_path_and_a_key_of_its_own(self):
        keyed, plain = FakeWorker(self, echo), FakeWorker(self, echo)
        keyed.base = "/base"
        self.serve(f"{keyed.url}/base,api_key=secret,id=keyed", plain,
                   options=["--policy", "round_robin"], count=2)
        for _ in range(100):  # each lane goes round by itself
            self.post(headers={"Authorization": "Bearer client"}, path=CHAT + "?x=1")
            if keyed.requests and plain.requests:
                break
        self.assertEqual(keyed.requests[0].target, "/base" + CHAT + "?x=1")
        self.assertEqual(keyed.requests[0].raw_head.lower().count(b"authorization"), 1)
        self.assertEqual(keyed.requests[0].headers["authorization"], "Bearer secret")
        self.assertEqual(plain.requests[0].target, CHAT + "?x=1")
        self.assertEqual(plain.requests[0].headers["authorization"], "Bearer client")

    def test_a_key_that_everybody_may_use_is_told_loudly(self):
        worker = FakeWorker(self, echo)
        for listen, told in (("127.0.0.1:0", False), ("0.0.0.0:0", True)):
            node = self.start("kvasir", "serve", "--listen", listen, "--admin", "127.0.0.1:0",
                              "--worker", worker.url + ",api_key=secret")
            self.assertEqual("api_key_lent_to_everybody" in node.log(), told)
            self.assertNotIn("secret", node.log())
            node.stop()

    def test_connections_are_kept_on_both_sides(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        connection = harness.connect(self.address)
        for i in range(5):
            harness.send(connection, "POST", CHAT, chat(str(i)))
            answer = harness.Answer(connection.getresponse())
            self.assertEqual(answer.status, 200)
        connection.close()
        self.assertEqual(worker.connections, 1)
        self.assertEqual(len(worker.requests), 5)

    def test_pipelined_requests_are_answered_in_order(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        s = self.connect()
        s.sendall(b"".join(request_bytes(chat(f"number {i}")) for i in range(20)))
        rest = b""
        for i in range(20):
            while True:
                head, mark, body = rest.partition(b"\r\n\r\n")
                size = next((int(f.split(b":")[1]) for f in head.lower().split(b"\r\n")
                             if f.startswith(b"content-length")), 0) if mark else 0
                if mark and len(body) >= size:
                    break
                rest += s.recv(65536)
            self.assertIn(f"number {i}\\".encode(), body[:size])
            rest = body[size:]

    def test_a_request_may_come_byte_by_byte(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        s = self.connect()
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in request_bytes(chat("slowly")):
            s.send(bytes([byte]))
        status, _, body, _ = read_answer(s)
        self.assertEqual(status, 200)
        self.assertIn(b"slowly", body)

    def test_chunked_bodies_are_put_together(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        body = json.dumps(chat("in pieces " * 5000)).encode()
        s = self.connect()
        s.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        for at in range(0, len(body), 777):
            piece = body[at:at + 777]
            s.sendall(f"{len(piece):x};ext=1\r\n".encode() + piece + b"\r\n")
        s.sendall(b"0\r\nTrailer: x\r\n\r\n" + request_bytes(chat("next")))
        status, _, _, rest = read_answer(s)
        self.assertEqual(status, 200)
        self.assertEqual(worker.requests[0].body, body)
        self.assertEqual(worker.requests[0].headers["content-length"], str(len(body)))
        self.assertNotIn("transfer-encoding", worker.requests[0].headers)
        while b"next" not in rest:
            rest += s.recv(65536)

    def test_large_bodies_pass(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        text = "x" * (9 << 20)
        answer = self.post(chat(text))
        self.assertEqual(answer.status, 200)
        self.assertEqual(worker.requests[0].json()["messages"][0]["content"], text)

    def refused_and_next(self, refused, extra, status):
        """A large request that is refused, and one behind it on its connection, whose body begins at the same byte."""
        first = request_bytes(refused, extra=extra)
        at = first.index(b"\r\n\r\n")
        small = chat("small")
        fill = at - request_bytes(small).index(b"\r\n\r\n") - len("y: \r\n")
        second = request_bytes(small, extra="y: " + "z" * fill + "\r\n")
        self.assertEqual(second.index(b"\r\n\r\n"), at)
        worker = FakeWorker(self, echo)
        self.serve(worker)
        s = self.connect()
        s.sendall(first + second)
        got = read_answer(s)
        self.assertEqual(got[0], status)
        while b"\r\n\r\n" not in got[3]:
            more = s.recv(65536)
            self.assertNotEqual(more, b"")
            got = got[:3] + (got[3] + more,)
        self.assertTrue(got[3].startswith(b"HTTP/1.1 200 "))
        self.assertEqual([json.loads(r.body)["messages"] for r in worker.requests], [small["messages"]])

    def test_a_large_body_is_read_for_its_own_request_alone(self):
        large = {**chat("x" * 80000), "stream": True, "stream_options": {}}
        with self.subTest("refused by its head"):
            self.refused_and_next(large, "x-request-timeout: bad\r\n", 400)
        with self.subTest("refused by its body"):
            self.refused_and_next({**large, "priority": "bad"}, "filler: filler\r\n", 400)

    def test_who_sends_no_more_is_told_what_is_wrong_with_a_large_body(self):
        self.serve(FakeWorker(self, echo))
        s = self.connect()
        s.sendall(request_bytes(chat("x" * (3 << 20), priority="bad")))
        s.shutdown(socket.SHUT_WR)
        self.assertTrue(s.recv(16).startswith(b"HTTP/1.1 400 "))

    def test_who_leaves_while_his_large_body_is_read_holds_nobody_up(self):
        self.serve(FakeWorker(self, echo))
        leaving = [self.connect() for _ in range(3)]
        for s in leaving:
            s.sendall(request_bytes(chat("x" * (3 << 20))))
        for s in leaving:
            s.close()
        self.assertEqual(self.post(chat("y" * (3 << 20))).status, 200)

    def test_expect_continue_is_answered_before_the_body(self):
        worker = FakeWorker(self, echo)
        self.serve(worker)
        body = json.dumps(chat("asked first")).encode()
        s = self.connect()
        head, _, _ = request_bytes(body, "Expect: 100-continue\r\n").partition(b"\r\n\r\n")
        s.sendall(head + b"\r\n\r\n")
        self.assertEqual(s.recv(1000), b"HTTP/1.1 100 Continue\r\n\r\n")
        s.sendall(body)
        self.assertEqual(read_answer(s)[0], 200)
        self.assertNotIn("expect", worker.requests[0].headers)

    def test_http_1_0_clients_are_served(self):
        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(b"one ")
            peer.chunk(b"two")
            peer.end_stream()
        self.serve(FakeWorker(self, handler))
        body = json.dumps(chat()).encode()
        answer = harness.raw(self.address, f"POST {CHAT} HTTP/1.0\r\nContent-Length: "
                             f"{len(body)}\r\n\r\n".encode() + body)
        head, _, data = answer.partition(b"\r\n\r\n")
        self.assertEqual(data, b"one two")
        self.assertNotIn(b"transfer-encoding", head.lower())

    def test_interim_answers_of_a_worker_are_skipped(self):
        def handler(peer, request):
            peer.send("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
            peer.json({"final": True})
        self.serve(FakeWorker(self, handler))
        self.assertEqual(self.post().json(), {"final": True})

    def test_an_answer_that_ends_with_its_connection(self):
        def handler(peer, request):
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nall of it")
            raise Close
        self.serve(FakeWorker(self, handler))
        answer = self.post()
        self.assertEqual(answer.body, b"all of it")
        self.assertEqual(answer.headers["connection"], "close")

    def refuses_method(self, method, path, allowed):
        answer = harness.request(self.address, method, path + "?key=hidden", {})
        self.assertEqual((answer.status, answer.headers["allow"]), (405, allowed))
        self.assertEqual(answer.json()["error"]["message"],
                         f"{method} {path} is not served; this path takes {allowed}")

    def test_what_is_not_served_is_refused_by_name(self):
        worker = FakeWorker(self, echo)
        node = self.serve(worker)

        def status(extra, start="POST", body=b"{}"):
            request = request_bytes(body, extra + "Connection: close\r\n")
            answer = harness.raw(self.address, request.replace(b"POST", start.encode(), 1))
            return int(answer.split(b" ")[1])
        upgrade = "Connection: upgrade\r\nUpgrade: "
        self.assertEqual(status(upgrade + "websocket\r\n"), 501)
        self.assertEqual(status("Content-Encoding: gzip\r\n", body=b"\x1f\x8b\x08"), 415)
        self.refuses_method("TRACE", CHAT, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
        self.refuses_method("POST", "/health", "GET, HEAD")
        self.assertEqual(status(upgrade + "h2c\r\n"), 200)
        self.assertEqual(status("Content-Encoding: identity\r\n"), 200)
        harness.raw(self.address, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.assertIn("client_speaks_http2", node.log())

    def test_answers_without_a_body_do_not_announce_one(self):
        for status in 204, 304:
            self.serve(FakeWorker(self, lambda peer, request, status=status: peer.send(
                f"HTTP/1.1 {status} X\r\nContent-Length: 7\r\n\r\n")))
            answer = self.post()
            self.assertEqual(answer.status, status)
            self.assertNotIn("content-length", answer.headers)

    def test_strangers_are_not_told_where_prompts_are(self):
        told = ("x-kvasir-worker", "x-kvasir-mode", "x-kvasir-overlap", "x-kvasir-source")

        def sometimes(peer, request):
            peer.json({}, 401 if b"stranger" in request.body else 200)

        def shown(*options, body=None):
            self.serve(FakeWorker(self, sometimes), options=options,
                       env={"KVASIR_PLACEMENT_HEADERS": "off"})
            headers = self.post(body).headers
            self.assertEqual(headers["x-kvasir-node"], "n1")
            self.assertIn("x-request-id", headers)
            return [name for name in told if name in headers]
        self.assertEqual(shown(), [])
        self.assertEqual(shown("--placement-headers", "on"), list(told))
        self.assertEqual(shown("--placement-headers", "on", body=chat("stranger")), [])

    def test_client_errors_are_passed_on_not_retried(self):
        def handler(peer, request):
            peer.json({"error": {"message": "too long"}}, 400)
        one, two = FakeWorker(self, handler), FakeWorker(self, handler)
        self.serve(one, two)
        answer = self.post()
        self.assertEqual(answer.status, 400)
        self.assertEqual(answer.json()["error"]["message"], "too long")
        self.assertEqual(len(one.requests) + len(two.requests), 1)

    def test_the_same_prefix_goes_to_the_same_worker(self):
        workers = [FakeWorker(self, echo) for _ in range(4)]
        self.serve(*workers)
        text = "a long system prompt that everybody shares. " * 100
        first = self.post(chat(text)).headers["x-kvasir-worker"]
        harness.wait_until(lambda: self.post(chat(text)).headers["x-kvasir-mode"] == "affinity",
                           "belief has learned")
        for i in range(10):
            answer = self.post(chat(text + f" and more, {i}"))
            self.assertEqual(answer.headers["x-kvasir-mode"], "affinity")
            matched, total = map(int, answer.headers["x-kvasir-overlap"].split("/"))
            self.assertGreater(matched / total, 0.9)
        self.assertTrue(first)

    def test_models_are_the_union_over_workers(self):
        self.serve(FakeWorker(self, echo, models=["b", "org/a"]), FakeWorker(self, echo, models=["c"]))
        harness.wait_until(lambda: len(self.models()) == 3, "all models are known")
        self.assertEqual(self.models(), ["b", "c", "org/a"])
        one = harness.request(self.address, "GET", "/v1/models/org%2Fa")
        self.assertEqual((one.status, one.json()["id"]), (200, "org/a"))
        missing = harness.request(self.address, "GET", "/v1/models/zzz")
        self.assertEqual((missing.status, missing.json()["error"]["code"]), (404, "model_not_found"))

    def test_models_are_described_as_engines_do(self):
        worker = FakeWorker(self, echo)
        worker.facts = {"root": "/weights/\u00e4", "parent": None, "max_model_len": 32768, "x": [1]}
        self.serve(worker)
        harness.wait_until(lambda: len(self.models()) == 1, "the model is known")
        wanted = {"id": "m", "object": "model", "created": 1, "owned_by": "vllm",
                  "root": "/weights/\u00e4", "parent": None, "max_model_len": 32768}
        answer = harness.request(self.address, "GET", "/v1/models").json()
        self.assertEqual(answer, {"object": "list", "data": [wanted]})

    def models(self):
        return [m["id"] for m in harness.request(self.address, "GET", "/v1/models").json()["data"]]

    def test_a_model_goes_to_those_that_serve_it(self):
        one, two = FakeWorker(self, echo, models=["a"]), FakeWorker(self, echo, models=["b"])
        self.serve(one, two)
        for _ in range(4):
            self.assertEqual(self.post({**chat(), "model": "b"}).headers["x-kvasir-worker"], two.id)
        missing = self.post({**chat(), "model": "c"})
        self.assertEqual((missing.status, missing.json()["error"]["code"]), (404, "model_not_found"))

    def test_a_form_goes_to_those_that_serve_its_model(self):
        one, two = FakeWorker(self, echo, models=["a"]), FakeWorker(self, echo, models=["b"])
        self.serve(one, two)
        form = (b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\nRIFF'
                b'\r\n--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n%s\r\n--x--\r\n')
        for i in range(6):
            model, worker = (b"a", one) if i % 2 else (b"b", two)
            answer = self.post(form % model, path="/v1/audio/transcriptions",
                               headers={"content-type": "multipart/form-data; boundary=x"})
            self.assertEqual(answer.headers["x-kvasir-worker"], worker.id)


class Streaming(Proxy):
    def test_events_pass_as_they_arrive_byte_for_byte(self):
        more = threading.Event()

        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(b"data: {\"n\":1}\n\n")
            more.wait(harness.IO_TIMEOUT_S)
            peer.send(b"5;x=y\r\ndata:\r\n8\r\n [DONE]\n\r\n1\r\n\n\r\n0\r\n\r\n")

        self.serve(FakeWorker(self, handler))
        s = self.connect()
        s.sendall(request_bytes(
            chat(stream=True, stream_options={"include_usage": True})))
        data = b""
        while not data.endswith(b"data: {\"n\":1}\n\n\r\n"):
            data += s.recv(65536)
        more.set()  # the first event was here before the second existed
        while not data.endswith(b"0\r\n\r\n"):
            data += s.recv(65536)
        _, _, body = data.partition(b"\r\n\r\n")
        self.assertEqual(body, b"f\r\ndata: {\"n\":1}\n\n\r\n5;x=y\r\ndata:\r\n8\r\n [DONE]\n\r\n"
                               b"1\r\n\n\r\n0\r\n\r\n".replace(b"f\r\n", b"%x\r\n" % 15, 1))

    def test_the_first_token_is_timed_when_the_body_of_a_stream_begins(self):
        more = threading.Event()

        def handler(peer, request):
            if not request.json().get("stream"):
                return echo(peer, request)
            peer.begin_stream()
            more.wait(harness.IO_TIMEOUT_S)
            peer.chunk(b"data: [DONE]\n\n")
            peer.send(b"0\r\n\r\n")

        node = self.serve(FakeWorker(self, handler), options=["--timeouts.keep_alive", "0"])

        def timed(what):
            return harness.metric(node.at("admin"), f"kvasir_time_to_first_{what}_seconds_count")

        self.post(chat())
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        data = s.recv(65536)
        self.assertIn(b"200", data)
        harness.wait_until(lambda: timed("byte") == 2, "the head is timed")
        self.assertIsNone(timed("token"))
        more.set()
        while not data.endswith(b"0\r\n\r\n"):
            data += s.recv(65536)
        harness.wait_until(lambda: timed("token") == 1, "the first token is timed")

    def test_heap_in_use_is_part_of_what_is_held(self):
        node = self.serve(FakeWorker(self, echo))
        values = harness.metrics(node.at("admin"))
        used, held = (values[f'kvasir_process_heap_bytes{{state="{state}"}}']
                      for state in ("used", "held"))
        binary = pathlib.Path(harness.program("kvasir")).read_bytes()
        counted = b"__asan_init" not in binary and b"__tsan_init" not in binary
        self.assertLessEqual(used, held)  # a sanitizer's allocator says nothing
        self.assertTrue(used > 1 << 20 or not counted, used)

    def test_a_client_that_goes_away_cancels_at_the_worker(self):
        gone = threading.Event()

        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(b"data: 1\n\n")
            peer.wait_closed()
            gone.set()

        node = self.serve(FakeWorker(self, handler))
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        self.assertTrue(s.recv(10))
        s.close()
        self.assertTrue(gone.wait(harness.IO_TIMEOUT_S))
        harness.wait_until(lambda: harness.metric(node.at("admin"), 'kvasir_requests_total{reason="cancelled"}') == 1,
                           "the cancel is counted")

    def test_a_client_that_goes_away_before_the_answer_cancels_too(self):
        gone = threading.Event()
        asked = threading.Event()

        def handler(peer, request):
            asked.set()
            peer.wait_closed()
            gone.set()

        self.serve(FakeWorker(self, handler))
        s = self.connect()
        s.sendall(request_bytes(chat()))
        self.assertTrue(asked.wait(harness.IO_TIMEOUT_S))
        s.close()
        self.assertTrue(gone.wait(harness.IO_TIMEOUT_S))

    def test_a_worker_that_dies_in_the_middle_is_seen_by_its_client_only(self):
        half, die = threading.Event(), threading.Event()

        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(b"data: 1\n\n")
            half.set()
            die.wait(harness.IO_TIMEOUT_S)
            raise Close

        self.serve(FakeWorker(self, handler))
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        self.assertTrue(half.wait(harness.IO_TIMEOUT_S))
        die.set()
        data = b""
        while (part := s.recv(65536)) != b"":
            data += part
        self.assertIn(b"data: 1", data)
        self.assertNotIn(b"0\r\n\r\n", data)

    def test_a_slow_client_holds_the_worker_back(self):
        sent = [0]
        stop = threading.Event()

        def handler(peer, request):
            peer.begin_stream()
            peer.sock.settimeout(2)
            piece = b"x" * 65536
            try:
                while not stop.is_set() and sent[0] < 256 << 20:
                    peer.chunk(piece)
                    sent[0] += len(piece)
            except OSError:
                stop.set()

        node = self.serve(FakeWorker(self, handler))
        before = self.rss(node)
        s = socket.socket()
        self.addCleanup(s.close)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect(self.address)
        s.sendall(request_bytes(chat(stream=True)))
        self.assertTrue(stop.wait(harness.IO_TIMEOUT_S), "the worker was never held back")
        self.assertLess(sent[0], 64 << 20)
        self.assertLess(self.rss(node) - before, 16 << 20)

    def rss(self, node):
        with open(f"/proc/{node.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4096


class Retries(Proxy):
    def dead_port(self):
        s = socket.socket()
        self.addCleanup(s.close)
        s.bind(("127.0.0.1", 0))  # bound, not listening: refused
        return s.getsockname()[1]

    def test_a_failing_worker_costs_an_attempt_not_a_request(self):
        def bad(peer, request):
            kind[0](peer)

        def closes(peer):
            raise Close

        kinds = {
            "closes": closes,
            "503": lambda peer: peer.answer(503, b"busy"),
            "500": lambda peer: peer.json({"error": "bug"}, 500),
            "502": lambda peer: peer.answer(502),
            "504": lambda peer: peer.answer(504),
            "a bad chunk": lambda peer: peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked"
                                                  "\r\n\r\nfive\r\nhello\r\n0\r\n\r\n"),
            "not HTTP": lambda peer: peer.send("SSH-2.0-what\r\n\r\n"),
            "two lengths": lambda peer: peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n"
                                                  "Content-Length: 2\r\n\r\nxx"),
        }
        kind = [None]
        for name, kind[0] in kinds.items():
            with self.subTest(name):
                good = FakeWorker(self, echo)
                self.serve(FakeWorker(self, bad), good,
                           options=["--breaker.failures", "1000", "--policy", "round_robin"])
                for i in range(6):
                    answer = self.post(chat(f"try {i}"))
                    self.assertEqual(answer.status, 200)
                    self.assertEqual(answer.headers["x-kvasir-worker"], good.id)

    def test_when_all_attempts_fail_the_answer_names_them(self):
        def bad(peer, request):
            peer.answer(503)

        workers = [FakeWorker(self, bad) for _ in range(2)]
        self.serve(*workers)
        answer = self.post()
        self.assertEqual(answer.status, 502)
        message = answer.json()["error"]["message"]
        for worker in workers:
            self.assertIn(worker.id, message)
        self.assertIn("503", message)

    def test_a_prompt_that_ends_its_engine_ends_two_and_not_all(self):
        ended = []

        def dies(peer, request):
            if b"good" in request.body:
                return echo(peer, request)
            ended.append(request.body)
            raise Close

        for kept in (0, 4):
            with self.subTest(kept=kept):
                self.serve(*[FakeWorker(self, dies) for _ in range(4)],
                           options=["--policy.attempts_max", "4", "--policy", "round_robin"])
                for _ in range(kept):
                    self.assertEqual(self.post(chat("good")).status, 200)
                ended.clear()
                self.assertEqual(self.post().status, 502)
                self.assertEqual(len(ended), 2)

    def refusing(self, *refusals, options=()):
        """Workers that refuse for now, by (status, seconds)."""
        def worker(status, seconds):
            return FakeWorker(self, lambda peer, request: peer.answer(
                status, b"own words", f"Retry-After: {seconds}\r\n"))
        self.serve(*[worker(*refusal) for refusal in refusals], *options)
        answer = self.post()
        return answer.status, answer.headers["retry-after"], answer.text

    def test_a_refusal_for_now_goes_to_another_worker(self):
        good = FakeWorker(self, echo)
        self.serve(good, *[FakeWorker(self, lambda peer, request: peer.answer(
            429, b"", "Retry-After: 7\r\n")) for _ in range(2)], options=["--policy", "round_robin"])
        for i in range(6):
            self.assertEqual(self.post(chat(f"try {i}")).status, 200)

    def test_when_all_refuse_for_now_the_soonest_is_told(self):
        self.assertEqual(self.refusing((429, 7)), (429, "7", "own words"))
        for refusals in ((429, 7), (503, 30), (503, 90)), ((503, 30), (503, 90), (429, 7)):
            status, seconds, _ = self.refusing(*refusals)
            self.assertEqual((status, seconds), (429, "7"))

    def test_which_answers_are_tried_again_can_be_configured(self):
        asked = []

        def fails(peer, request):
            asked.append(request)
            peer.json({"error": "bug"}, 500)
        workers = [FakeWorker(self, fails) for _ in range(3)]
        for options, times in (([], 2), (["--retries.statuses", "none"], 1),
                               (["--retries.after_send", "2"], 3)):
            with self.subTest(options=options):
                asked.clear()
                self.serve(*workers, options=options)
                answer = self.post()
                self.assertEqual((answer.status, answer.json()), (500, {"error": "bug"}))
                self.assertEqual(len(asked), times)

    def test_a_server_error_of_the_engine_itself_is_passed_on(self):
        self.serve(FakeWorker(self, lambda peer, request: peer.json({"error": "bug"}, 500)))
        answer = self.post()
        self.assertEqual((answer.status, answer.json()), (500, {"error": "bug"}))

    def test_a_kept_connection_is_looked_at_before_it_is_used_again(self):
        gates = []

        def answers_and_closes(peer, request):
            gate = threading.Event()
            gates.append(gate)
            echo(peer, request)
            gate.wait(harness.IO_TIMEOUT_S)
            raise Close

        node = self.serve(FakeWorker(self, answers_and_closes))
        stat = pathlib.Path(f"/proc/{node.pid}/stat")
        s = self.connect()
        s.sendall(request_bytes(chat()))
        self.assertEqual(read_answer(s)[0], 200)
        for _ in range(5):
            node.signal(signal.SIGSTOP)
            harness.wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T",
                               "the node stands still")
            s.sendall(request_bytes(chat()))  # heard of before the worker's end
            for gate in gates:
                gate.set()
            harness.wait_until(lambda: self.half_closed(node), "the worker has closed")
            node.signal(signal.SIGCONT)
            self.assertEqual(read_answer(s)[0], 200)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_upstream_stale_total"), 0)
        for gate in gates:
            gate.set()

    def test_a_request_that_met_a_dead_connection_was_not_sent(self):
        """The worker's end of it is gone without a word, as a host's that crashed."""
        calls = []

        def handler(peer, request):
            calls.append(request)
            if len(calls) == 1:
                echo(peer, request)
                peer.sock.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
            raise Close
        try:
            with socket.socket() as s:
                s.setsockopt(socket.IPPROTO_TCP, TCP_REPAIR, 1)
        except OSError:
            self.skipTest("needs CAP_NET_ADMIN")
        # Each lane has connections of its own.
        node = self.serve(FakeWorker(self, handler), options=["--lanes", "1"])
        self.assertEqual(self.post().status, 200)
        other = FakeWorker(self, echo)
        harness.request(node.at("admin"), "POST", "/admin/workers", {"url": other.url})
        harness.wait_until(lambda: all(w["eligible"] for w in harness.request(
            node.at("admin"), "GET", "/admin/workers").json()), "both are up")
        # To the dead connection, to the same worker, which closes, and to the other;
        # a prompt that is new goes where its bytes say.
        for i in range(30):
            self.assertEqual(self.post(chat(f"question {i}")).status, 200)
        stale = harness.metric(node.at("admin"), "kvasir_upstream_stale_total")
        self.assertEqual(stale, 1)

    def test_a_head_waits_for_its_first_chunk(self):
        """What is wrong at once after a head costs an attempt, not the answer."""
        head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for what, first in (("a bad chunk", "zz\r\n"), ("the end", "")):
            def breaks(peer, request, first=first):
                peer.send(head)
                # No read goes beyond urgent data: it ends with the head, whenever it is done.
                peer.sock.send(b"!", socket.MSG_OOB)
                peer.send(first)
                raise Close
            with self.subTest(what):
                bad = FakeWorker(self, breaks)
                self.serve(bad, FakeWorker(self, echo), options=[
                    "--policy", "round_robin", "--breaker.failures", "1000"])

                def outlived():
                    """Whether a request met the bad worker and was answered all the same."""
                    met = len(bad.requests)
                    try:
                        return self.post().status == 200 and len(bad.requests) > met
                    except (OSError, http.client.HTTPException):
                        return False  # where the machine stood still, a head waited in vain
                harness.wait_until(outlived, "an attempt was given up after its head")

    def test_a_head_of_an_engine_that_thinks_goes_out_alone(self):
        seen = threading.Event()

        def thinks(peer, request):
            peer.begin_stream()
            seen.wait(harness.IO_TIMEOUT_S)
            peer.chunk(b"data: 1\n\n")
            peer.end_stream()
        # Else the client would be told to wait before long.
        self.serve(FakeWorker(self, thinks), options=["--timeouts.keep_alive", "0"])
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += s.recv(1)
        seen.set()
        self.assertIn(b" 200 ", head)
        rest = b""
        while not rest.endswith(b"0\r\n\r\n"):
            rest += s.recv(1000)
        self.assertIn(b"data: 1", rest)

    def half_closed(self, node):
        """Whether some connection of the node's has been closed by its other side (CLOSE_WAIT)."""
        table = pathlib.Path(f"/proc/{node.pid}/net/tcp").read_text()
        inodes = {os.readlink(f"/proc/{node.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{node.pid}/fd")}
        return any(line.split()[3] == "08" and f"socket:[{line.split()[9]}]" in inodes
                   for line in table.splitlines()[1:])

    def test_a_kept_connection_that_died_is_replaced_unseen(self):
        def once(peer, request):
            echo(peer, request)
            raise Close

        worker = FakeWorker(self, once)
        node = self.serve(worker)
        connection = harness.connect(self.address)
        for i in range(5):
            harness.send(connection, "POST", CHAT, chat(str(i)))
            self.assertEqual(harness.Answer(connection.getresponse()).status, 200)
        connection.close()
        self.assertEqual(harness.metric(node.at("admin"), 'kvasir_requests_total{reason="all_attempts_failed"}'), 0)

    def test_never_after_a_byte_was_sent(self):
        def half(peer, request):
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            raise Close

        one, two = FakeWorker(self, half), FakeWorker(self, half)
        self.serve(one, two)
        s = self.connect()
        s.sendall(request_bytes(chat()))
        data = b""
        while (part := s.recv(65536)) != b"":
            data += part
        self.assertTrue(data.endswith(b"half"))
        self.assertEqual(len(one.requests) + len(two.requests), 1)

    def test_a_worker_without_an_answer_in_time_is_left(self):
        release = threading.Event()
        self.addCleanup(release.set)

        def hang(peer, request):
            release.wait(harness.IO_TIMEOUT_S)
            raise Close

        hanging, good = FakeWorker(self, hang), FakeWorker(self, echo)
        self.serve(hanging, good, options=["--timeouts.first_byte", "300ms", "--policy",
                                           "round_robin", "--breaker.failures", "1000"])

        def left():
            """Whether it was asked; the other one may be slow where the machine is."""
            met = len(hanging.requests)
            answer = self.post()
            return (len(hanging.requests) > met and answer.status == 200
                    and answer.headers["x-kvasir-worker"] == good.id)
        harness.wait_until(left, "the other one answered in its stead")

    def test_no_worker_at_all_is_a_clear_503(self):
        self.serve(f"http://127.0.0.1:{self.dead_port()}")
        answer = self.post()
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (503, "no_worker"))
        self.assertEqual(harness.request(self.address, "GET", "/ready").status, 503)
        self.assertEqual(harness.request(self.address, "GET", "/health").status, 200)

    def test_probes_are_no_requests(self):
        node = self.serve(FakeWorker(self, echo))

        def count(name):
            return harness.metric(node.at("admin"), f"kvasir_{name}")

        local = 'requests_total{code="200",reason="local"}'
        before = {name: count(name) for name in ("requests_total", local, "probes_total")}
        for path in "/health", "/ready", "/v1/models":
            self.assertEqual(harness.request(self.address, "GET", path).status, 200)
        self.assertEqual({name: count(name) - was for name, was in before.items()},
                         {"requests_total": 1, local: 1, "probes_total": 2})

    def test_what_is_pipelined_behind_an_error_is_counted_as_what_it_is(self):
        def close(peer, request):
            raise Close

        node = self.serve(FakeWorker(self, close))
        before = harness.metrics(node.at("admin"))
        s = self.connect()
        s.sendall(request_bytes(chat()) +
                  b"GET /v1/models HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
        got = b""
        while part := s.recv(65536):
            got += part
        self.assertEqual(got.count(b"HTTP/1.1 502 "), 1, got)
        self.assertEqual(got.count(b"HTTP/1.1 200 "), 1, got)
        after = harness.metrics(node.at("admin"))
        name = "kvasir_requests_total"
        self.assertEqual({key[len(name):]: value - before.get(key, 0)
                          for key, value in after.items()
                          if key.startswith(name) and value != before.get(key, 0)},
                         {'{code="502",reason="all_attempts_failed"}': 1,
                          '{code="200",reason="local"}': 1})


class Refusals(Proxy):
    def setUp(self):
        super().setUp()
        self.worker = FakeWorker(self, echo)

    def refused(self, payload, status):
        """Answered with that status, closed, and the worker saw nothing."""
        seen = len(self.worker.requests)
        answer = harness.raw(self.address, payload)
        self.assertTrue(answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:200])
        head, _, body = answer.partition(b"\r\n\r\n")
        self.assertIn(b"connection: close", head.lower())
        self.assertIn("message", json.loads(body)["error"])
        self.assertEqual(len(self.worker.requests), seen)

    def test_smuggling(self):
        self.serve(self.worker)
        body = json.dumps(chat()).encode()
        size = len(body)
        line = f"POST {CHAT} HTTP/1.1\r\nHost: h\r\n"
        cases = {
            "length and coding": f"{line}Content-Length: {size}\r\nTransfer-Encoding: chunked\r\n\r\n",
            "two lengths": f"{line}Content-Length: {size}\r\nContent-Length: {size + 1}\r\n\r\n",
            "the same length twice": f"{line}Content-Length: {size}\r\nContent-Length: {size}\r\n\r\n",
            "a list of lengths": f"{line}Content-Length: {size}, {size}\r\n\r\n",
            "a signed length": f"{line}Content-Length: +{size}\r\n\r\n",
            "a folded line": f"{line}Content-Length: {size}\r\nX: a\r\n b\r\n\r\n",
            "a folded coding": f"{line}Transfer-Encoding:\r\n chunked\r\n\r\n",
            "bare line feeds": f"POST {CHAT} HTTP/1.1\nHost: h\nContent-Length: {size}\n\n",
            "a bare carriage return": f"{line}X: a\rb\r\nContent-Length: {size}\r\n\r\n",
            "a NUL": f"{line}X: a\0b\r\nContent-Length: {size}\r\n\r\n",
            "a blank before the colon": f"{line}Content-Length : {size}\r\n\r\n",
            "no host": f"POST {CHAT} HTTP/1.1\r\nContent-Length: {size}\r\n\r\n",
            "two hosts": f"{line}Host: i\r\nContent-Length: {size}\r\n\r\n",
            "an unknown coding": f"{line}Transfer-Encoding: xchunked\r\n\r\n",
        }
        for name, head in cases.items():
            with self.subTest(name):
                status = 501 if name == "an unknown coding" else 400
                answer = harness.raw(self.address, head.encode("latin-1") + body)
                self.assertRegex(answer[:13], rb"^HTTP/1\.1 (400|%d)" % status)
                self.assertEqual(self.worker.requests, [])

    def test_bad_chunks(self):
        self.serve(self.worker)
        head = f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
        for chunk in ("g\r\n", "-1\r\n", "0x5\r\nhello\r\n", "5 \r\nhello\r\n", "5\nhello\r\n",
                      "5\r\nhelloX", "fffffffffffffffff\r\n", "\r\n", "5;a\nb\r\nhello\r\n"):
            with self.subTest(chunk):
                self.refused((head + chunk).encode(), 400)

    def test_what_is_too_large(self):
        self.serve(self.worker, options=["--limits.body_bytes_max", "64KiB",
                                         "--limits.head_bytes_max", "4KiB",
                                         "--limits.target_bytes_max", "1KiB"])
        self.refused(request_bytes(b"{" + b" " * 70000 + b"}"), 413)
        big = f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
        self.refused(big + (b"8000\r\n" + b" " * 0x8000 + b"\r\n") * 3, 413)
        self.refused(request_bytes(b"{}", "X: " + "y" * 5000 + "\r\n"), 431)

    def test_malformed_json_is_named_with_its_place_and_the_connection_stays(self):
        self.serve(self.worker)
        s = self.connect()
        s.sendall(request_bytes(b'{"model": nope}'))
        status, _, body, _ = read_answer(s)
        self.assertEqual(status, 400)
        self.assertIn("byte 11", json.loads(body)["error"]["message"])
        s.sendall(request_bytes(chat("fine")))
        self.assertEqual(read_answer(s)[0], 200)

    def test_unknown_paths(self):
        self.serve(self.worker)
        for path in ("/", "/reset_prefix_cache", "/v1/../metrics", "/admin/status",
                     "/v1/load_lora_adapter", "/v1/new/thing"):
            self.assertEqual(self.post(path=path).status, 404, path)
        self.assertEqual(self.worker.requests, [])

    def test_a_head_that_does_not_come_whole(self):
        self.serve(self.worker, options=["--timeouts.head", "200ms"])
        answer = harness.raw(self.address, b"POST /v1/chat/comple")
        self.assertTrue(answer.startswith(b"HTTP/1.1 408 "), answer)

    def test_a_body_that_does_not_come_whole(self):
        self.serve(self.worker, options=["--timeouts.body", "200ms"])
        answer = harness.raw(self.address, request_bytes(chat())[:-3])
        self.assertTrue(answer.startswith(b"HTTP/1.1 408 "), answer)

    def test_too_many_connections(self):
        self.serve(self.worker, options=["--limits.connections_max", "3",
                                         "--limits.client_connections_max", "3"])
        held = [self.connect() for _ in range(3)]
        for s in held:
            s.sendall(request_bytes(chat()))
            self.assertEqual(read_answer(s)[0], 200)
        self.assertEqual(self.post(chat()).status, 503)
        held[0].close()
        harness.wait_until(lambda: self.post(chat()).status == 200, "a place is free again")

    def test_too_many_requests(self):
        hold = threading.Event()
        self.addCleanup(hold.set)
        asked = threading.Event()

        def handler(peer, request):
            asked.set()
            hold.wait(harness.IO_TIMEOUT_S)
            echo(peer, request)

        self.worker.handler = handler
        self.serve(self.worker, options=["--limits.inflight_max", "1"])
        s = self.connect()
        s.sendall(request_bytes(chat("first")))
        self.assertTrue(asked.wait(harness.IO_TIMEOUT_S))
        answer = self.post(chat("second"))
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (503, "overloaded"))
        hold.set()
        self.assertEqual(read_answer(s)[0], 200)


class Draining(Proxy):
    def test_sigterm_finishes_what_runs_and_takes_nothing_new(self):
        finish, begun = threading.Event(), threading.Event()

        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(b"data: 1\n\n")
            begun.set()
            finish.wait(harness.IO_TIMEOUT_S)
            peer.chunk(b"data: [DONE]\n\n")
            peer.end_stream()

        node = self.serve(FakeWorker(self, handler))
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        self.assertTrue(begun.wait(harness.IO_TIMEOUT_S))
        node.signal(15)

        def refuses():
            try:
                socket.create_connection(self.address, timeout=1).close()
                return False
            except OSError:
                return True

        harness.wait_until(refuses, "the port is closed")
        finish.set()
        data = b""
        while (part := s.recv(65536)) != b"":
            data += part
        self.assertTrue(data.endswith(b"0\r\n\r\n"), data)
        self.assertEqual(node.wait(), 0)

    def test_sigterm_finishes_large_bodies_that_are_being_read(self):
        node = self.serve(FakeWorker(self, echo))
        clients = [self.connect() for _ in range(8)]
        for s in clients:
            s.sendall(request_bytes(chat("\u00e9\n" * (300 << 10))))
        node.signal(15)
        for s in clients:
            self.assertTrue(s.recv(16).startswith(b"HTTP/1.1 200 "))
            while s.recv(65536) != b"":
                pass
        self.assertEqual(node.wait(), 0)

    def test_a_second_signal_severs(self):
        begun = threading.Event()

        def handler(peer, request):
            peer.begin_stream()
            peer.chunk(b"data: 1\n\n")
            begun.set()
            peer.wait_closed()

        node = self.serve(FakeWorker(self, handler))
        s = self.connect()
        s.sendall(request_bytes(chat(stream=True)))
        self.assertTrue(begun.wait(harness.IO_TIMEOUT_S))
        node.signal(15)
        harness.wait_until(lambda: "drain" in node.log(), "it drains")
        node.signal(15)
        node.killed = True  # what it severed shows in its exit code
        self.assertEqual(node.wait(), 1)


if __name__ == "__main__":
    harness.main()
