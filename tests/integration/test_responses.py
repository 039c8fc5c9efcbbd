"""/v1/responses in front of engines that do not have it: they get chats."""
import json

import harness
from fake_worker import Close, FakeWorker
from test_messages import CHAT, STREAM, WHOLE, chunk, chats, events_of, say, without
from test_proxy import Proxy

RESPONSES = "/v1/responses"
TOOLS = [{"type": "function", "name": "weather", "parameters": {"type": "object"}}]


def ask(**more):
    return {"model": "m", "input": "hello", **more}


class Responses(Proxy):
    def send(self, body):
        return self.post(body, path=RESPONSES)

    def targets(self, worker):
        return [r.target for r in worker.requests]

    def test_a_whole_answer(self):
        worker = FakeWorker(self, without(chats))
        node = self.serve(worker)
        got = self.send(ask(instructions="Be kind.", max_output_tokens=9)).json()
        self.assertEqual((got["object"], got["status"], got["store"]), ("response", "completed", False))
        self.assertEqual(got["output"][0]["content"][0]["text"], "Hello \"you\"")
        self.assertEqual(got["usage"]["input_tokens_details"], {"cached_tokens": 8})
        self.assertEqual(got["usage"]["total_tokens"], 15)
        sent = worker.requests[1].json()
        self.assertEqual(sent["messages"], [{"role": "system", "content": "Be kind."},
                                            {"role": "user", "content": "hello"}])
        self.assertEqual(sent["max_tokens"], 9)
        self.send(ask())
        self.assertEqual(self.targets(worker), [RESPONSES, CHAT, CHAT])
        told = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        self.assertEqual([(w["messages_as_chats"], w["responses_as_chats"]) for w in told],
                         [(False, True)], "each path is found out for itself")
        told = harness.request(node.at("admin"), "POST", "/admin/explain?path=/v1/responses",
                               ask(), {"content-type": "application/json"}).json()
        self.assertEqual([c["as_chat"] for c in told["candidates"]], [True])

    def test_a_stream_with_thoughts_and_tools(self):
        self.serve(FakeWorker(self, without(chats)))
        events = events_of(self.send(ask(stream=True, tools=TOOLS)).text)
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual((events[0]["type"], events[-1]["type"]),
                         ("response.created", "response.completed"))
        self.assertEqual("".join(e["delta"] for e in events
                                 if e["type"] == "response.output_text.delta"), "Looking.")
        self.assertEqual([i["type"] for i in events[-1]["response"]["output"]],
                         ["reasoning", "message", "function_call"])
        self.assertEqual(events[-1]["response"]["output"],
                         [e["item"] for e in events if e["type"] == "response.output_item.done"])
        call = events[-1]["response"]["output"][2]
        self.assertEqual((call["call_id"], json.loads(call["arguments"])), ("call_1", {"town": "Oslo"}))
        self.assertEqual(events[-1]["response"]["usage"]["output_tokens"], 3)

    def test_a_long_answer_passes_whole(self):
        """All of it is said again in the last events, and much may come at once."""
        word = "word " * 20
        parts = [chunk({"content": word}) for _ in range(3000)]

        def at_once(peer, _):
            peer.begin_stream()
            text = "".join(f"data: {json.dumps(part)}\n\n" for part in [*parts, chunk({}, "stop")])
            peer.chunk(text.encode() + b"data: [DONE]\n\n")
            peer.end_stream()
        self.serve(FakeWorker(self, without(at_once)))
        events = events_of(self.send(ask(stream=True)).text)
        self.assertEqual(events[-1]["type"], "response.completed")
        self.assertEqual(events[-1]["response"]["output"][0]["content"][0]["text"], word * 3000)
        got = harness.request(self.address, "POST", "/v1/messages", {
            "model": "m", "max_tokens": 5, "stream": True,
            "messages": [{"role": "user", "content": "hello"}]})
        events = events_of(got.text)
        self.assertEqual("".join(e["delta"]["text"] for e in events
                                 if e["type"] == "content_block_delta"), word * 3000)

    def test_what_is_stored_is_refused_by_name(self):
        worker = FakeWorker(self, without(chats))
        self.serve(worker)
        self.assertEqual(self.send(ask()).status, 200)  # it is known now
        for body, word in ((ask(previous_response_id="resp_1"), "stored"),
                           (ask(store=True), "store"), (ask(background=True), "store"),
                           (ask(input=[{"type": "computer_call"}]), "no message")):
            got = self.send(body)
            self.assertEqual((got.status, got.json()["error"]["code"]), (400, "not_translatable"))
            self.assertIn(word, got.json()["error"]["message"])
        self.assertEqual(self.targets(worker), [RESPONSES, CHAT])

    def test_what_cannot_be_a_chat_is_told_from_the_first(self):
        worker = FakeWorker(self, without(chats))
        self.serve(worker)
        got = self.send(ask(input=[{"type": "computer_call"}]))
        self.assertEqual((got.status, got.json()["error"]["code"]), (400, "not_translatable"))
        self.assertIn("no message", got.json()["error"]["message"])

    def test_an_engine_that_keeps_responses_has_the_last_word(self):
        def gone(peer, _):
            peer.json({"error": {"message": "no such response", "code": 404}}, 404)
        worker = FakeWorker(self, gone)
        self.serve(worker)
        got = self.send(ask(previous_response_id="resp_1"))
        self.assertEqual((got.status, got.json()["error"]["message"]), (404, "no such response"))
        self.assertEqual(self.targets(worker), [RESPONSES])

    def test_errors_pass_as_they_are(self):
        error = {"error": {"message": "too long", "type": "x", "code": "context_length_exceeded"}}
        self.serve(FakeWorker(self, without(lambda peer, _: peer.json(error, 400))))
        got = self.send(ask())
        self.assertEqual((got.status, got.json()), (400, error))

    def test_a_stream_that_breaks_off_ends_with_an_error(self):
        def breaks(peer, _):
            peer.begin_stream()
            peer.chunk(f"data: {json.dumps(STREAM[2])}\n\n".encode())
            raise Close
        self.serve(FakeWorker(self, without(breaks)))
        events = events_of(self.send(ask(stream=True)).text)
        self.assertEqual(events[-1]["type"], "error")
        self.assertIn("ended too early", events[-1]["error"]["message"])

    def test_one_that_was_cut_off_is_incomplete(self):
        def short(peer, request):
            if request.json().get("stream"):
                say(peer, [chunk({"content": "Hel"}, "length")])
            else:
                peer.json({**WHOLE, "choices": [{**WHOLE["choices"][0], "finish_reason": "length"}]})
        self.serve(FakeWorker(self, without(short)))
        whole = self.send(ask()).json()
        last = events_of(self.send(ask(stream=True)).text)[-1]
        self.assertEqual(last["type"], "response.incomplete")
        for got in (whole, last["response"]):
            self.assertEqual((got["status"], got["incomplete_details"]),
                             ("incomplete", {"reason": "max_output_tokens"}))


class Engines(Proxy):
    def test_the_same_words_as_by_a_chat(self):
        engine = self.start("kvasir-engine", "--port", "0", "--speed", "50", "--model", "m",
                            "--engine", "tgi")
        self.serve(engine.url("http"), count=1)
        chat = self.post({"model": "m", "max_tokens": 9,
                          "messages": [{"role": "user", "content": "hello"}]}).json()
        words = chat["choices"][0]["message"]["content"]
        got = self.post(ask(max_output_tokens=9), path=RESPONSES).json()
        self.assertEqual(got["output"][0]["content"][0]["text"], words)
        self.assertEqual(got["status"], "incomplete")
        events = events_of(self.post(ask(max_output_tokens=9, stream=True), path=RESPONSES).text)
        self.assertEqual(events[-1]["response"]["output"][0]["content"][0]["text"], words)


if __name__ == "__main__":
    harness.main()
