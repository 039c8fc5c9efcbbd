"""/v1/messages in front of engines that do not have it: they get chats, and their answers come
back as messages."""
import json
import socket
import threading

import harness
from fake_worker import Close, FakeWorker
from test_alive import COMMENT, Reader
from test_proxy import Proxy, request_bytes

MESSAGES = "/v1/messages"
CHAT = "/v1/chat/completions"
WHOLE = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
         "choices": [{"index": 0, "finish_reason": "stop", "message": {
             "role": "assistant", "content": "Hello \"you\""}}],
         "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15,
                   "prompt_tokens_details": {"cached_tokens": 8}}}
TOOLS = [{"name": "weather", "description": "of a town",
          "input_schema": {"type": "object", "properties": {"town": {"type": "string"}}}}]


def chunk(delta, finish=None, **more):
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def call(index, arguments, **more):
    return {"tool_calls": [{"index": index, "function": {"arguments": arguments, **more.pop(
        "function", {})}, **more}]}


STREAM = [chunk({"role": "assistant", "content": ""}), chunk({"reasoning_content": "hm"}),
          chunk({"content": "Look"}), chunk({"content": "ing."}),
          chunk(call(0, "", id="call_1", type="function", function={"name": "weather"})),
          chunk(call(0, '{"town": ')), chunk(call(0, '"Oslo"}')), chunk({}, "tool_calls"),
          {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m",
           "choices": [], "usage": WHOLE["usage"]}]


def say(peer, events, end="data: [DONE]\n\n"):
    peer.begin_stream()
    for event in events:
        peer.chunk(f"data: {json.dumps(event)}\n\n".encode())
    if end:
        peer.chunk(end.encode())
    peer.end_stream()


def without(handler, status=404):
    """A worker that has no /v1/messages."""
    def answer(peer, request):
        if request.target != CHAT:
            peer.json({"detail": "Not Found"}, status)
        else:
            handler(peer, request)
    return answer


def chats(peer, request):
    if request.json().get("stream"):
        say(peer, STREAM)
    else:
        peer.json(WHOLE)


def ask(**more):
    return {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "hello"}], **more}


def events_of(text):
    out = []
    for part in text.strip("\n").split("\n\n"):
        name, data = part.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == "event: " + event["type"], part
        out.append(event)
    return out


class Messages(Proxy):
    def send(self, body, **headers):
        return self.post(body, {"anthropic-version": "2023-06-01", **headers}, path=MESSAGES)

    def metric(self, node, name):
        return harness.metric(node.at("admin"), name)

    def targets(self, worker):
        return [r.target for r in worker.requests]

    def test_a_large_answer_may_take_as_long_as_its_parts(self):
        text = "x" * (15 << 20)
        worker = FakeWorker(self, without(lambda peer, _: peer.json(
            {**WHOLE, "choices": [{**WHOLE["choices"][0], "message": {"content": text}}]})))
        node = self.serve(worker, options=["--timeouts.write", "4s"])
        ticks = "kvasir_loop_ticks_total"
        s = socket.socket()
        self.addCleanup(s.close)
        s.settimeout(harness.IO_TIMEOUT_S)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        s.connect(self.address)
        s.sendall(request_bytes({"model": "m", "max_tokens": 9,
                                 "messages": [{"role": "user", "content": "hi"}]},
                                "Connection: close\r\n", MESSAGES))
        data = bytearray(s.recv(1 << 16))
        begun = harness.metric(node.at("admin"), ticks)
        for part in range(1, 11):  # each in an eighth of its time, and all in more than that
            while len(data) < part << 20 and (more := s.recv(1 << 16)):
                data += more
            harness.wait_until(
                lambda n=part: harness.metric(node.at("admin"), ticks) >= begun + 10 * n, "time passes")
        while more := s.recv(1 << 16):
            data += more
        self.assertEqual(json.loads(data.partition(b"\r\n\r\n")[2])["content"][0]["text"], text)

    def test_a_whole_answer(self):
        worker = FakeWorker(self, without(chats))
        node = self.serve(worker, options=["--placement_headers", "on"])
        got = self.send(ask(system="Be kind.", tools=TOOLS, stop_sequences=["END"]),
                        **{"x-request-id": "mine", "accept-encoding": "gzip"})
        self.assertEqual(got.status, 200)
        self.assertEqual(got.headers["content-type"], "application/json")
        self.assertEqual(got.headers["x-request-id"], "mine")
        self.assertEqual(got.headers["x-kvasir-worker"], worker.id)
        self.assertEqual(got.json(), {
            "id": "msg_chatcmpl-1", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": "Hello \"you\""}], "stop_reason": "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 4, "cache_creation_input_tokens": 0,
                                             "cache_read_input_tokens": 8, "output_tokens": 3}})
        self.assertEqual(self.targets(worker), [MESSAGES, CHAT])
        sent = worker.requests[1]
        self.assertEqual(sent.json()["messages"][0], {"role": "system", "content": "Be kind."})
        self.assertEqual(sent.json()["stop"], ["END"])
        self.assertEqual(sent.json()["tools"][0]["function"]["name"], "weather")
        self.assertNotIn("accept-encoding", sent.headers)
        self.assertEqual(sent.headers["anthropic-version"], "2023-06-01")

        # What was found out holds for the next request, streamed or not.
        self.send(ask(stream=True))
        self.assertEqual(self.targets(worker), [MESSAGES, CHAT, CHAT])
        self.assertEqual(self.metric(node, "kvasir_translated_total"), 2)
        harness.wait_until(lambda: self.metric(node, "kvasir_prompt_tokens_total") == 24,
                           "both are counted")
        self.assertEqual(self.metric(node, "kvasir_cached_tokens_total"), 16)
        told = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        self.assertEqual([w["messages_as_chats"] for w in told], [True])
        told = harness.request(node.at("admin"), "POST", "/admin/explain?path=/v1/messages",
                               ask(), {"content-type": "application/json"}).json()
        self.assertEqual([c["as_chat"] for c in told["candidates"]], [True])

    def test_a_stream_with_thoughts_and_tools(self):
        worker = FakeWorker(self, without(chats))
        self.serve(worker)
        got = self.send(ask(stream=True, tools=TOOLS))
        self.assertEqual(got.status, 200)
        self.assertEqual(got.headers["content-type"], "text/event-stream")
        self.assertIs(worker.requests[1].json()["stream_options"]["include_usage"], True)
        events = events_of(got.text)
        self.assertEqual([e["type"] for e in events], [
            "message_start", "ping",
            "content_block_start", "content_block_delta", "content_block_stop",
            "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
            "content_block_start", "content_block_delta", "content_block_delta", "content_block_stop",
            "message_delta", "message_stop"])
        self.assertEqual(events[9]["content_block"], {"type": "tool_use", "id": "call_1",
                                                      "name": "weather", "input": {}})
        self.assertEqual(json.loads("".join(e["delta"]["partial_json"] for e in events[10:12])),
                         {"town": "Oslo"})
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")
        self.assertEqual(events[-2]["usage"]["cache_read_input_tokens"], 8)

    def test_a_stream_passes_as_it_comes(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def slowly(peer, _):
            peer.begin_stream()
            peer.chunk(f"data: {json.dumps(chunk({'content': 'one'}))}\n\n".encode())
            go.wait(harness.IO_TIMEOUT_S)
            peer.chunk(f"data: {json.dumps(chunk({'content': 'two'}, 'stop'))}\n\ndata: [DO".encode())
            peer.chunk(b"NE]\n\n")
            peer.end_stream()
        self.serve(FakeWorker(self, without(slowly)))
        stream = harness.Stream(self.address, MESSAGES, ask(stream=True))
        self.addCleanup(stream.close)
        seen = []
        for event in stream.events():
            seen.append(json.loads(event))
            if len(seen) == 4:
                self.assertEqual(seen[3]["delta"]["text"], "one")
                go.set()
        self.assertEqual(seen[-1], {"type": "message_stop"})

    def test_an_engine_that_has_it_gets_the_bytes(self):
        worker = FakeWorker(self, lambda peer, request: peer.json({"own": request.target}))
        node = self.serve(worker)
        body = json.dumps(ask(), indent=1)
        self.assertEqual(self.send(body, **{"content-type": "application/json"}).json(),
                         {"own": MESSAGES})
        self.assertEqual(worker.requests[0].body.decode(), body)
        self.assertEqual(self.metric(node, "kvasir_translated_total"), 0)

    def test_a_mark_for_caches_is_added_where_that_is_asked(self):
        worker = FakeWorker(self, lambda peer, request: peer.json({"own": request.target}))
        self.serve(worker, options=["--messages.cache_control", "on"])
        self.send(" " + json.dumps(ask()), **{"content-type": "application/json"})
        marked = ask(system=[{"type": "text", "text": "a", "cache_control": {"type": "ephemeral", "ttl": "1h"}}])
        self.send(marked)
        self.post({"model": "m", "messages": []})
        self.assertEqual([r.json() for r in worker.requests],
                         [{"cache_control": {"type": "ephemeral"}, **ask()}, marked,
                          {"model": "m", "messages": []}])
        self.assertEqual(int(worker.requests[0].headers["content-length"]),
                         len(worker.requests[0].body))

    def test_a_model_that_is_not_there_is_no_missing_path(self):
        def nothing(peer, _):
            peer.json({"error": {"message": "no such model", "code": 404}}, 404)
        worker = FakeWorker(self, nothing)
        node = self.serve(worker)
        for _ in range(2):
            got = self.send(ask())
            self.assertEqual(got.status, 404)
            self.assertEqual(got.json(), {"type": "error", "error": {
                "type": "not_found_error", "message": "no such model"}})
        self.assertEqual(self.targets(worker), 2 * [MESSAGES, CHAT], "it is asked again")
        self.assertEqual(self.metric(node, "kvasir_translated_total"), 0)

    def test_errors_are_anthropics(self):
        def refuses(peer, _):
            peer.json({"error": {"message": "too long", "type": "BadRequestError", "code": 400}}, 400)
        self.serve(FakeWorker(self, without(refuses, 405)))
        for stream in (False, True):
            got = self.send(ask(stream=stream))
            self.assertEqual(got.status, 400)
            self.assertEqual(got.json(), {"type": "error", "error": {
                "type": "invalid_request_error", "message": "too long"}})

    def test_errors_of_what_its_head_refuses_are_anthropics(self):
        made = self.run_once("kvasir", "key").stdout.split()
        keys = self.folder / "keys.yaml"
        keys.write_text(f"tenants: {{a: {{keys: ['{made[-1]}']}}}}\n")
        self.serve(FakeWorker(self, chats), options=["--keys.file", keys, "--limits.body_bytes_max",
                                              "256KiB"])
        for path in (MESSAGES, MESSAGES + "/count_tokens"):
            got = self.post(ask(), path=path)
            self.assertEqual((got.status, got.json()["type"], got.json()["error"]["type"]),
                             (401, "error", "authentication_error"))
            got = self.post(ask(content="x" * 300_000), {"x-api-key": made[0]}, path=path)
            self.assertEqual((got.status, got.json()["type"], got.json()["error"]["type"]),
                             (413, "error", "request_too_large"))
        got = self.post(ask(), path="/v1/chat/completions")
        self.assertEqual((got.status, got.json()["error"]["code"]), (401, "invalid_api_key"))

    def test_when_to_come_again_is_told(self):
        def busy(peer, request):
            peer.answer(429, b'{"error": {"message": "busy"}}', "Retry-After: 7\r\n")

        self.serve(FakeWorker(self, without(busy)))
        got = self.send(ask())
        self.assertEqual((got.status, got.headers.get("retry-after")), (429, "7"))

    def test_what_has_no_counterpart_is_refused_by_name(self):
        worker = FakeWorker(self, without(chats))
        self.serve(worker)
        for _ in range(2):  # found out with this request, and known before
            got = self.send(ask(tools=[{"type": "web_search_20250305", "name": "web_search"}]))
            self.assertEqual((got.status, got.json()["error"]["type"]), (400, "invalid_request_error"))
            self.assertIn("input_schema", got.json()["error"]["message"])
            self.send(ask())
        self.assertEqual(self.targets(worker).count(CHAT), 2)

    def test_a_stream_that_breaks_off_ends_with_an_error(self):
        def breaks(peer, _):
            peer.begin_stream()
            peer.chunk(f"data: {json.dumps(STREAM[2])}\n\ndata: {{\"id".encode())
            raise Close

        def gives_up(peer, _):
            peer.begin_stream()
            for event in (STREAM[2], chunk({}, "abort")):
                peer.chunk(f"data: {json.dumps(event)}\n\n".encode())
            raise Close

        def gives_up_and_ends(peer, _):
            say(peer, [STREAM[2], chunk({}, "abort")])

        def ends(peer, _):
            say(peer, STREAM[2:4], end=None)

        def fails(peer, _):
            say(peer, [STREAM[2], {"error": {"message": "EngineCore died", "code": 500}}])
        for handler, message in ((breaks, "ended too early"), (gives_up, "ended too early"),
                                 (gives_up_and_ends, "ended too early"),
                                 (ends, "ended too early"), (fails, "EngineCore died")):
            node = self.serve(FakeWorker(self, without(handler)))
            got = self.send(ask(stream=True))  # it is whole: its last chunk came
            events = events_of(got.text)
            self.assertEqual(events[3]["delta"]["text"], "Look")
            self.assertEqual((events[-1]["type"], events[-1]["error"]["type"]), ("error", "api_error"))
            self.assertIn(message, events[-1]["error"]["message"])
            node.stop()

    def test_an_answer_that_breaks_off_or_is_none_is_a_502(self):
        def breaks(peer, _):
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
            raise Close
        given_up = {**WHOLE, "choices": [{**WHOLE["choices"][0], "finish_reason": "abort"}]}
        for handler in (breaks, lambda peer, _: peer.json({"choices": []}), lambda peer, _: peer.json(given_up),
                        lambda peer, _: peer.answer(200, b"no json")):
            node = self.serve(FakeWorker(self, without(handler)))
            got = self.send(ask())
            self.assertEqual((got.status, got.json()["error"]["type"]), (502, "api_error"))
            self.counts(node, 502)
            node.stop()

    def test_another_worker_is_asked_for_the_path_itself(self):
        def dies(_, __):
            raise Close
        old = FakeWorker(self, without(dies))
        new = FakeWorker(self, lambda peer, request: peer.json({"own": request.target}))
        self.serve(old, new, options=["--policy", "round_robin", "--breaker.failures", "100"])
        for _ in range(2):
            self.assertEqual(self.send(ask()).json(), {"own": MESSAGES})
        self.assertEqual(self.targets(old), [MESSAGES, CHAT])

    def test_a_comment_goes_before_either(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def slowly(peer, request):
            go.wait(harness.IO_TIMEOUT_S)
            chats(peer, request)
        self.serve(FakeWorker(self, without(slowly)), options=["--timeouts.keep_alive", "60ms"])
        reader = Reader(self, ask(stream=True), path=MESSAGES)
        reader.until(COMMENT)
        go.set()
        events = events_of(reader.body().replace(COMMENT, b"").decode())
        self.assertEqual((events[0]["type"], events[-1]), ("message_start", {"type": "message_stop"}))

    def test_an_alias_asks_for_its_model(self):
        worker = FakeWorker(self, without(chats))
        self.serve(worker, options=["--aliases", "claude=m"])
        self.assertEqual(self.send(ask(model="claude")).status, 200)
        self.assertEqual(worker.requests[1].json()["model"], "m")


class Engines(Proxy):
    """Stand-in engines that do not have it, and the words they say."""

    def test_the_same_words_as_by_a_chat(self):
        engine = self.start("kvasir-engine", "--port", "0", "--speed", "50", "--model", "m",
                            "--engine", "tgi")
        self.serve(engine.url("http"), count=1)
        chat = self.post({"model": "m", "max_tokens": 9, "messages": [
            {"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]}).json()
        words = chat["choices"][0]["message"]["content"]
        body = ask(max_tokens=9, system=[{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}])
        got = self.post(body, path=MESSAGES).json()
        self.assertEqual(got["content"], [{"type": "text", "text": words}])
        self.assertEqual(got["stop_reason"], "max_tokens")
        self.assertEqual(got["usage"]["output_tokens"], 9)
        got = events_of(self.post({**body, "stream": True}, path=MESSAGES).text)
        self.assertEqual("".join(e["delta"]["text"] for e in got
                                 if e["type"] == "content_block_delta"), words)
        self.assertEqual(got[-2]["usage"]["output_tokens"], 9)


class Count(Proxy):
    PATH = "/v1/messages/count_tokens"
    ASK = {"model": "m", "system": "Be kind.", "tools": TOOLS, "tool_choice": {"type": "any"},
           "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}]}

    def engine(self, *flags):
        return self.start("kvasir-engine", "--port", "0", "--speed", "50", "--model", "m", *flags)

    def count(self, body=None):
        return self.post(body or self.ASK, path=self.PATH)

    def test_an_engine_that_does_not_know_it_is_asked_by_tokenize(self):
        seen = []

        def tokenize(peer, request):
            seen.append(request)
            if request.target == "/tokenize":
                peer.json({"count": 17, "max_model_len": 100, "tokens": [1]})
            else:
                peer.json({"detail": "Not Found"}, 404)
        node = self.serve(FakeWorker(self, tokenize))
        for _ in range(2):
            got = self.count()
            self.assertEqual((got.status, got.json()), (200, {"input_tokens": 17}))
        self.assertEqual([r.target for r in seen], [self.PATH, "/tokenize", "/tokenize"])
        self.assertEqual(seen[1].json(), {
            "model": "m", "messages": [{"role": "system", "content": "Be kind."},
                                       {"role": "user", "content": "hello"}],
            "tools": [{"type": "function", "function": {
                "name": "weather", "description": "of a town",
                "parameters": TOOLS[0]["input_schema"]}}]})
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_translated_total"), 2)
        told = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        self.assertEqual([(w["counts_by_tokenize"], w["messages_as_chats"]) for w in told],
                         [(True, False)])

    def test_who_knows_it_is_asked_for_it(self):
        def knows(peer, request):
            peer.json({"input_tokens": 3, "own": request.target})
        self.serve(FakeWorker(self, knows))
        self.assertEqual(self.count().json(), {"input_tokens": 3, "own": self.PATH})

    def test_it_is_what_the_engine_itself_would_count(self):
        body = {"model": "m", "messages": [{"role": "user", "content": "how many are these? " * 9}]}
        new = self.engine()
        own = harness.request(new.at("http"), "POST", self.PATH, body).json()
        self.assertGreater(own["input_tokens"], 20)
        for flags in (("--apis", "chats"), ("--engine", "sglang")):
            self.serve(self.engine(*flags).url("http"), count=1)
            self.assertEqual(self.count(body).json(), own, flags)

    def test_what_no_tokenize_counts_is_said_by_name(self):
        for flags in (("--engine", "tgi"), ("--engine", "llamacpp")):
            node = self.serve(self.engine(*flags).url("http"), count=1)
            got = self.count()
            self.assertEqual(got.status, 501, got.text)
            self.counts(node, 501)
            self.assertEqual(got.json()["type"], "error")
            self.assertIn("/v1/messages/count_tokens", got.json()["error"]["message"])
        documents = [{"type": "document", "source": {"type": "url", "url": "http://a/b.pdf"}}]
        got = self.count({"model": "m", "messages": [{"role": "user", "content": documents}]})
        self.assertEqual(got.status, 400, got.text)
        self.assertIn("/tokenize", got.json()["error"]["message"])


if __name__ == "__main__":
    harness.main()
