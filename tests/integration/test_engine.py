"""kvasir-engine, the stand-in engine, as clients and tests see it."""
import http.client
import io
import json
import select
import signal
import wave

import harness

MODEL = "kvasir/stand-in"
TEXT = "the cache of the engine holds what it has seen before and this is long "


def chat(text, **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], **more}


class EngineCase(harness.Case):
    flags = ("--speed", "50")

    def setUp(self):
        super().setUp()
        self.engine = self.start("kvasir-engine", "--port", "0", *self.flags)
        self.http = self.engine.at("http")

    def post(self, path, body, **more):
        return harness.request(self.http, "POST", path, body, **more)

    def get(self, path):
        return harness.request(self.http, "GET", path)

    def ask(self, body, path="/v1/chat/completions"):
        """An answer that must be fine."""
        answer = self.post(path, body)
        self.assertEqual(answer.status, 200, answer.text)
        return answer.json()

    def cached(self, answer):
        return answer["usage"]["prompt_tokens_details"]["cached_tokens"]

    def chaos(self, **orders):
        answer = self.post("/chaos", orders)
        self.assertEqual(answer.status, 200, answer.text)

    def running(self):
        return (harness.metric(self.http, "vllm:num_requests_running")
                + harness.metric(self.http, "vllm:num_requests_waiting"))


class Answers(EngineCase):
    def test_chat_has_the_shape_of_openai(self):
        answer = self.ask(chat("hello", max_tokens=7))
        self.assertEqual(answer["object"], "chat.completion")
        self.assertEqual(answer["model"], MODEL)
        choice = answer["choices"][0]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertEqual(len(choice["message"]["content"].split()), 7)
        self.assertEqual(choice["finish_reason"], "length")
        usage = answer["usage"]
        self.assertEqual(usage["completion_tokens"], 7)
        self.assertEqual(usage["total_tokens"], usage["prompt_tokens"] + 7)
        self.assertEqual(self.cached(answer), 0)

    def test_answers_are_16_tokens_long_unless_asked_otherwise(self):
        self.assertEqual(self.ask(chat("hi"))["usage"]["completion_tokens"], 16)
        longer = self.ask(chat("hi", max_tokens=5, max_completion_tokens=9))
        self.assertEqual(longer["usage"]["completion_tokens"], 9)

    def test_a_stream_says_the_same_as_a_whole_answer(self):
        whole = self.ask(chat(TEXT, max_tokens=20))
        stream = harness.Stream(self.http, "/v1/chat/completions",
                                chat(TEXT, max_tokens=20, stream=True,
                                     stream_options={"include_usage": True}))
        self.assertEqual(stream.status, 200)
        self.assertTrue(stream.headers["content-type"].startswith("text/event-stream"))
        *chunks, last = stream.chunks()
        deltas = [c["choices"][0]["delta"] for c in chunks]
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertEqual("".join(d.get("content", "") for d in deltas),
                         whole["choices"][0]["message"]["content"])
        reasons = [c["choices"][0]["finish_reason"] for c in chunks]
        self.assertEqual(reasons, [None] * 20 + ["length"])
        self.assertEqual(last["choices"], [])
        self.assertEqual(last["usage"]["completion_tokens"], 20)
        self.assertEqual({c["id"] for c in chunks}, {last["id"]})

    def test_a_completion_streams_text(self):
        body = {"prompt": TEXT, "max_tokens": 5}
        whole = self.ask(body, "/v1/completions")
        self.assertEqual(whole["object"], "text_completion")
        stream = harness.Stream(self.http, "/v1/completions", {**body, "stream": True})
        texts = [c["choices"][0]["text"] for c in stream.chunks()]
        self.assertEqual(len(texts), 5)
        self.assertEqual("".join(texts), whole["choices"][0]["text"])

    def test_a_prompt_may_be_text_or_ids_alone_or_in_a_list(self):
        ids = self.ask({"prompt": TEXT}, "/tokenize")["tokens"]
        answers = [self.ask({"prompt": p, "max_tokens": 4}, "/v1/completions")
                   for p in (TEXT, [TEXT], ids, [ids])]
        for answer in answers:
            self.assertEqual(answer["choices"][0]["text"], answers[0]["choices"][0]["text"])
            self.assertEqual(answer["usage"]["prompt_tokens"], len(ids))

    def test_one_connection_serves_many_requests(self):
        connection = harness.connect(self.http)
        for _ in range(5):
            harness.send(connection, "POST", "/v1/chat/completions", chat("hi", max_tokens=1))
            response = connection.getresponse()
            self.assertEqual(response.status, 200)
            json.loads(response.read())
        connection.close()

    def test_what_it_cannot_do_is_an_openai_error(self):
        cases = [
            (404, "/nothing", {}),
            (405, "/health", {}),
            (400, "/v1/chat/completions", b"{"),
            (400, "/v1/chat/completions", b"[]"),
            (400, "/v1/chat/completions", {}),
            (400, "/v1/chat/completions", {"prompt": "not for chat"}),
            (400, "/v1/completions", {"messages": []}),
            (400, "/v1/completions", {"prompt": [1, 4294967296]}),
            (400, "/v1/completions", {"prompt": ["a", "b"]}),
            (400, "/v1/chat/completions", chat("hi", n=2)),
            (400, "/v1/chat/completions", chat("hi", max_tokens=0)),
            (400, "/v1/chat/completions", chat("hi", cache_salt="")),
            (404, "/v1/chat/completions", {**chat("hi"), "model": "another"}),
            (400, "/v1/chat/completions", chat("hi", max_tokens=40000)),
            (400, "/v1/completions", {"prompt": [7] * 33000, "max_tokens": 1}),
            (400, "/tokenize", {"tokens": [1]}),
            (400, "/detokenize", {"tokens": ["a"]}),
            (400, "/chaos", {"health": "ill"}),
        ]
        for status, path, body in cases:
            answer = self.post(path, body)
            self.assertEqual(answer.status, status, (path, body if len(str(body)) < 99 else ""))
            error = answer.json()["error"]
            self.assertTrue(error["message"] and error["type"] and error["code"])
        long = self.post("/v1/chat/completions", chat("hi", max_tokens=40000)).json()
        self.assertEqual(long["error"]["code"], "context_length_exceeded")
        self.assertIn("maximum context length is 32768 tokens", long["error"]["message"])


class Cache(EngineCase):
    def test_the_same_prompt_again_hits_all_but_its_last_block(self):
        prompt = list(range(1000, 1640))
        first = self.ask({"prompt": prompt, "max_tokens": 1}, "/v1/completions")
        again = self.ask({"prompt": prompt, "max_tokens": 1}, "/v1/completions")
        self.assertEqual(self.cached(first), 0)
        self.assertEqual(self.cached(again), 624)

    def test_the_next_turn_hits_the_turn_before_and_its_answer(self):
        messages = [{"role": "system", "content": TEXT * 10},
                    {"role": "user", "content": TEXT}]
        first = self.ask({"messages": messages, "max_tokens": 64})
        messages.append(first["choices"][0]["message"])
        messages.append({"role": "user", "content": "and then?"})
        second = self.ask({"messages": messages, "max_tokens": 1})
        computed = first["usage"]["total_tokens"] - 1
        self.assertEqual(self.cached(second), computed // 16 * 16)

    def test_tools_and_images_are_part_of_the_prefix(self):
        tools = [{"type": "function", "function": {"name": "f", "description": TEXT * 5}}]
        def picture(url):
            return {"messages": [{"role": "user", "content": [
                {"type": "text", "text": TEXT * 3},
                {"type": "image_url", "image_url": {"url": url}},
                {"type": "text", "text": TEXT * 3}]}], "tools": tools, "max_tokens": 1}
        first = self.ask(picture("http://a/1.png"))
        same = self.ask(picture("http://a/1.png"))
        other = self.ask(picture("http://a/2.png"))
        self.assertGreater(self.cached(same), self.cached(other))
        self.assertGreater(self.cached(other), 0)
        self.assertEqual(self.cached(first), 0)

    def test_models_and_salts_have_caches_of_their_own(self):
        engine = self.start("kvasir-engine", "--port", "0", "--speed", "50",
                            "--model", "base", "--model", "adapter")
        def cached(**more):
            answer = harness.request(engine.at("http"), "POST", "/v1/chat/completions",
                                     {**chat(TEXT * 10, max_tokens=1), **more})
            return self.cached(answer.json())
        self.assertEqual(cached(model="base"), 0)
        self.assertGreater(cached(model="base"), 0)
        self.assertEqual(cached(model="adapter"), 0)
        self.assertEqual(cached(model="base", cache_salt="tenant"), 0)
        self.assertGreater(cached(model="base", cache_salt="tenant"), 0)
        models = harness.request(engine.at("http"), "GET", "/v1/models").json()["data"]
        self.assertEqual([(m["id"], m["parent"]) for m in models],
                         [("base", None), ("adapter", "base")])

    def test_resetting_forgets_it(self):
        self.ask(chat(TEXT * 10, max_tokens=1))
        self.assertEqual(self.post("/reset_prefix_cache", b"").status, 200)
        self.assertEqual(self.cached(self.ask(chat(TEXT * 10, max_tokens=1))), 0)


class Tokens(EngineCase):
    def test_tokenize_and_detokenize_are_inverse(self):
        text = "Some Text: with {\"json\": [1, 2]}, \u00fcml\u00e4uts, \u732b and\n\ttabs  "
        answer = self.ask({"prompt": text, "return_token_strs": True}, "/tokenize")
        self.assertEqual(answer["count"], len(answer["tokens"]))
        self.assertEqual(answer["count"], len(answer["token_strs"]))
        self.assertEqual(answer["max_model_len"], 32768)
        back = self.ask({"tokens": answer["tokens"]}, "/detokenize")
        self.assertEqual(back["prompt"], text)

    def test_tokenize_render_and_generation_agree_about_a_chat(self):
        body = {"model": MODEL, "tools": [{"type": "function", "function": {"name": "f"}}],
                "messages": [{"role": "system", "content": "be kind"},
                             {"role": "user", "content": [{"type": "text", "text": TEXT}]}]}
        tokens = self.ask(body, "/tokenize")["tokens"]
        rendered = self.ask(body, "/v1/chat/completions/render")
        self.assertEqual(rendered["token_ids"], tokens)
        self.assertEqual(rendered["model"], MODEL)
        answer = self.ask({**body, "max_tokens": 1})
        self.assertEqual(answer["usage"]["prompt_tokens"], len(tokens))
        unspoken = self.ask({**body, "add_generation_prompt": False}, "/tokenize")["tokens"]
        self.assertEqual(unspoken, tokens[:-1])
        completion = self.ask({"prompt": TEXT}, "/v1/completions/render")
        self.assertEqual(completion[0]["token_ids"],
                         self.ask({"prompt": TEXT}, "/tokenize")["tokens"])

    def check_response_events(self, events, text):
        """Clients build the answer from its items, as each is begun and done."""
        self.assertEqual([e["sequence_number"] for e in events], list(range(len(events))))
        self.assertEqual(
            [e["type"].removeprefix("response.") for e in events],
            ["created", "in_progress", "output_item.added", "content_part.added",
             *["output_text.delta"] * 3, "output_text.done", "content_part.done",
             "output_item.done", "completed"])
        self.assertEqual(events[2]["item"]["content"], [])
        self.assertEqual((events[-4]["text"], events[-3]["part"]["text"]), (text, text))
        self.assertEqual(events[-1]["response"]["output"], [events[-2]["item"]])
        self.assertEqual(events[-2]["item"]["content"], [events[-3]["part"]])
        self.assertEqual({e["item_id"] for e in events if "item_id" in e},
                         {events[-2]["item"]["id"]})

    def test_every_api_is_answered_and_rendered_in_its_shape(self):
        say = [{"role": "user", "content": TEXT}]
        for path, body in (("/v1/responses", {"instructions": "be kind", "input": TEXT}),
                           ("/v1/responses", {"input": say}),
                           ("/v1/messages", {"system": "be kind", "messages": say})):
            with self.subTest(path=path, body=body):
                tokens = self.ask(body, path + "/render")["token_ids"]
                asked = {**body, "max_output_tokens" if "input" in body else "max_tokens": 3}
                whole = self.ask(asked, path)
                again = self.ask(asked, path)["usage"]
                cached = len(tokens) // 16 * 16
                if "input" in body:
                    self.assertEqual(whole["usage"]["input_tokens"], len(tokens))
                    self.assertEqual(again["input_tokens_details"]["cached_tokens"], cached)
                    text = whole["output"][0]["content"][0]["text"]
                else:
                    self.assertEqual(again["cache_read_input_tokens"], cached)
                    self.assertEqual(again["input_tokens"], len(tokens) - cached)
                    text = whole["content"][0]["text"]
                events = [json.loads(line[6:])
                          for line in self.post(path, {**asked, "stream": True}).text.splitlines()
                          if line.startswith("data: ")]
                said = [e["delta"] if "input" in body else e["delta"]["text"]
                        for e in events if e["type"].endswith(".delta")
                        or e["type"] == "content_block_delta"]
                self.assertEqual(len(said), 3)
                self.assertEqual("".join(said), text)
                self.assertIn(events[-1]["type"], ("response.completed", "message_stop"))
                if "input" in body:
                    self.check_response_events(events, text)
        self.assertEqual(self.ask({"messages": say}, "/v1/messages/count_tokens"), {
            "input_tokens": len(self.ask({"messages": say}, "/v1/messages/render")["token_ids"])})
        spoken = self.ask({"input": TEXT}, "/v1/responses/render")["token_ids"]
        self.assertEqual(spoken, self.ask({"messages": say}, "/v1/messages/render")["token_ids"])
        self.assertEqual(self.post("/v1/responses", {"input": TEXT,
                                                     "previous_response_id": "r"}).status, 400)

    def test_embeddings_are_the_same_each_time_in_both_formats(self):
        import base64
        import struct
        one = self.ask({"input": TEXT, "model": MODEL}, "/v1/embeddings")
        two = self.ask({"input": [TEXT, "more"], "encoding_format": "base64"}, "/v1/embeddings")
        vector = one["data"][0]["embedding"]
        self.assertAlmostEqual(sum(x * x for x in vector), 1, places=5)
        decoded = struct.unpack("<256f", base64.b64decode(two["data"][0]["embedding"]))
        for a, b in zip(vector, decoded):
            self.assertAlmostEqual(a, b, places=6)
        self.assertEqual([d["index"] for d in two["data"]], [0, 1])

    def test_embeddings_of_texts_alike_are_near(self):
        texts = ["How many clips did Natalia sell in April?",
                 "Please: how many clips did Natalia sell in April?",
                 "The quick brown fox jumps over a lazy dog.",
                 "How many clips did \u004eatalia sell, in April"]
        got = self.ask({"input": texts, "model": MODEL}, "/v1/embeddings")["data"]
        one, polite, other, same = (d["embedding"] for d in got)

        def cosine(a, b):
            return sum(x * y for x, y in zip(a, b))
        self.assertGreater(cosine(one, polite), 0.85)
        self.assertLess(cosine(one, other), 0.3)
        self.assertGreater(cosine(one, same), 0.95)
        ids = self.ask({"model": MODEL, "prompt": texts[0]}, "/tokenize")["tokens"]
        by_ids = self.ask({"input": [ids], "model": MODEL}, "/v1/embeddings")["data"][0]["embedding"]
        self.assertAlmostEqual(cosine(one, by_ids), 1, places=5)


TOOLS = [{"type": "function", "function": {"name": name, "parameters": {
    "type": "object", "properties": {member: {"type": "string"}}}}}
         for name, member in (("weather", "town"), ("weather_map", "a \"b\""))]


class Tools(EngineCase):
    def call_of(self, **more):
        """The name and arguments of what a chat calls; None: it says words."""
        body = chat(more.pop("text", "hello"), max_tokens=6, tools=TOOLS, **more)
        choice = self.ask(body)["choices"][0]
        if "tool_calls" not in choice["message"]:
            self.assertEqual(choice["finish_reason"], "length")
            self.assertEqual(len(choice["message"]["content"].split()), 6)
            return None
        self.assertEqual(choice["finish_reason"], "tool_calls")
        self.assertIsNone(choice["message"]["content"])
        call, = choice["message"]["tool_calls"]
        self.assertEqual(call["type"], "function")
        self.assertTrue(call["id"])
        return call["function"]["name"], json.loads(call["function"]["arguments"])

    def test_a_tool_is_called_when_it_is_asked_for(self):
        named = {"type": "function", "function": {"name": "weather_map"}}
        self.assertIsNone(self.call_of())
        self.assertIsNone(self.call_of(tool_choice="auto"))
        self.assertIsNone(self.call_of(text="call weather", tool_choice="none"))
        self.assertIsNone(self.call_of(text="call weathering, recall"))
        for name, member, more in (
                ("weather", "town", {"text": "please call weather now"}),
                ("weather_map", "a \"b\"", {"text": "please call weather_map"}),
                ("weather", "town", {"tool_choice": "required"}),
                ("weather_map", "a \"b\"", {"text": "call weather_map", "tool_choice": "required"}),
                ("weather_map", "a \"b\"", {"tool_choice": named})):
            called, arguments = self.call_of(**more)
            self.assertEqual((called, list(arguments)), (name, [member]), more)
            self.assertEqual(len(arguments[member].split()), 6)
            self.assertEqual(self.call_of(**more), (called, arguments))
        for body in (chat("a", tool_choice="required"), chat("a", tools=TOOLS, tool_choice={
                "type": "function", "function": {"name": "no"}})):
            self.assertEqual(self.post("/v1/chat/completions", body).status, 400)

    def test_its_result_is_answered_in_words(self):
        body = chat("call weather", tools=TOOLS, max_tokens=6)
        said = self.ask(body)["choices"][0]["message"]
        body["messages"] += [said, {"role": "tool", "content": "rain",
                                    "tool_call_id": said["tool_calls"][0]["id"]}]
        self.assertEqual(len(self.ask(body)["choices"][0]["message"]["content"].split()), 6)

    def test_a_streamed_call_says_the_same(self):
        for text, tokens in (("call weather", 6), ("call weather_map", 1)):
            body = chat(text, tools=TOOLS, max_tokens=tokens)
            whole = self.ask(body)["choices"][0]["message"]["tool_calls"][0]["function"]
            chunks = harness.Stream(self.http, "/v1/chat/completions",
                                    {**body, "stream": True}).chunks()
            choices = [c["choices"][0] for c in chunks]
            self.assertEqual(choices[0]["delta"], {"role": "assistant", "content": ""})
            calls = [c["delta"]["tool_calls"][0] for c in choices[1:]]
            self.assertEqual({c["index"] for c in calls}, {0})
            self.assertEqual((calls[0]["type"], calls[0]["function"]["name"]),
                             ("function", whole["name"]))
            self.assertEqual("".join(c["function"]["arguments"] for c in calls),
                             whole["arguments"])
            self.assertEqual([c["finish_reason"] for c in choices],
                             [None] * (tokens + 1) + ["tool_calls"])


class Tasks(EngineCase):
    DOCUMENTS = ["nothing of it", "the red fox and the dog", {"text": "a \"red\" fox"}]

    def test_documents_are_ranked_by_the_words_of_the_query(self):
        body = {"model": MODEL, "query": "the red fox", "documents": self.DOCUMENTS}
        for path in ("/rerank", "/v1/rerank", "/v2/rerank"):
            answer = self.ask(body, path)
            scores = [r["relevance_score"] for r in answer["results"]]
            self.assertEqual(scores, sorted(scores, reverse=True))
            self.assertEqual([r["index"] for r in answer["results"]], [1, 2, 0])
            self.assertGreater(scores[0], scores[1])
            self.assertEqual(answer["results"][1]["document"], {"text": "a \"red\" fox"})
            self.assertGreater(answer["usage"]["prompt_tokens"], 0)
        best, = self.ask({**body, "top_n": 1}, "/rerank")["results"]
        self.assertEqual(best["index"], 1)

    def test_texts_are_scored_one_by_one(self):
        for path in ("/score", "/v1/score"):
            one = self.ask({"text_1": "the red fox", "text_2": self.DOCUMENTS[:2]}, path)
            two = self.ask({"text_1": ["the red fox", "dog"], "text_2": self.DOCUMENTS[:2]}, path)
            self.assertEqual([d["index"] for d in one["data"]], [0, 1])
            self.assertEqual(one["data"][0]["score"], two["data"][0]["score"])
            self.assertLess(one["data"][0]["score"], one["data"][1]["score"])

    def test_what_cannot_be_compared_is_refused(self):
        for path, body in (("/rerank", {"query": "a"}), ("/rerank", {"documents": ["a"]}),
                           ("/rerank", {"query": "a", "documents": []}),
                           ("/rerank", {"query": "a", "documents": ["b", 5]}),
                           ("/rerank", {"query": "a", "documents": ["b"] * 1025}),
                           ("/score", {"text_1": ["a"], "text_2": ["b", "c"]}),
                           ("/score", {"text_1": ["a", "b"], "text_2": ["c"]})):
            self.assertEqual(self.post(path, body).status, 400, body)
        self.assertEqual(self.post("/rerank", {"model": "no", "query": "a",
                                               "documents": ["b"]}).status, 404)

    def form(self, **fields):
        parts = [f'--b\r\nContent-Disposition: form-data; name="{name}"'
                 + ('; filename="a.wav"' if name == "file" else "") + f"\r\n\r\n{value}\r\n"
                 for name, value in fields.items()]
        return self.post("/v1/audio/transcriptions", ("".join(parts) + "--b--\r\n").encode(),
                         headers={"content-type": "multipart/form-data; boundary=b"})

    def test_a_file_is_heard(self):
        sound = "s" * 70000
        got = self.form(file=sound, model=MODEL).json()
        self.assertEqual(got["usage"], {"type": "duration", "seconds": 3})
        self.assertEqual(len(got["text"].split()), 10)
        self.assertNotEqual(self.form(file=sound + "t").json()["text"], got["text"])
        plain = self.form(file=sound, response_format="text")
        self.assertEqual(plain.headers["content-type"], "text/plain; charset=utf-8")
        self.assertEqual(plain.text, got["text"])
        events = self.form(file=sound, stream="true").text.split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        chunks = [json.loads(e.removeprefix("data: ")) for e in events[:-2]]
        self.assertEqual("".join(c["choices"][0]["delta"]["content"] for c in chunks), got["text"])
        self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "stop")
        self.assertEqual(self.form(model=MODEL).status, 400)
        self.assertEqual(self.form(file=sound, response_format="srt").status, 400)
        self.assertEqual(self.form(file=sound, model="no").status, 404)

    def test_a_text_is_said(self):
        body = {"model": MODEL, "input": "say this", "voice": "alloy"}
        got = self.post("/v1/audio/speech", body)
        self.assertEqual(got.headers["content-type"], "audio/wav")
        with wave.open(io.BytesIO(got.body)) as sound:
            self.assertEqual((sound.getnchannels(), sound.getsampwidth()), (1, 2))
            samples = sound.readframes(sound.getnframes())
        self.assertEqual(self.post("/v1/audio/speech", {**body, "response_format": "pcm"}).body,
                         samples)
        self.assertGreater(len(samples), 0)
        self.assertEqual(self.post("/v1/audio/speech", {**body, "input": ""}).status, 400)
        self.assertEqual(self.post("/v1/audio/speech",
                                   {**body, "response_format": "mp3"}).status, 400)


class Metrics(EngineCase):
    def test_vllm_names_count_what_happened(self):
        prompt = list(range(1000, 1320))
        for _ in range(2):
            self.ask({"prompt": prompt, "max_tokens": 10}, "/v1/completions")
        def value(name):
            return harness.metric(self.http, "vllm:" + name)
        self.assertEqual(value("prompt_tokens_total"), 640)
        self.assertEqual(value("generation_tokens_total"), 20)
        self.assertEqual(value("prefix_cache_queries_total"), 640)
        self.assertEqual(value("prefix_cache_hits_total"), 304)
        self.assertEqual(value("prompt_tokens_cached_total"), 304)
        self.assertEqual(value("time_to_first_token_seconds_count"), 2)
        self.assertEqual(value("inter_token_latency_seconds_count"), 18)
        self.assertEqual(value("request_success_total"), 2)
        self.assertEqual(value("num_requests_running"), 0)
        self.assertEqual(value("num_requests_waiting"), 0)
        self.assertEqual(value("kv_cache_usage_perc"), 0)
        info = next(k for k in harness.metrics(self.http) if k.startswith("vllm:cache_config_info"))
        self.assertIn('block_size="16"', info)
        self.assertIn('num_gpu_blocks="4096"', info)

    def test_others_say_who_it_is(self):
        self.assertEqual(self.get("/health").status, 200)
        self.assertIn("version", self.get("/version").json())
        self.assertEqual(self.get("/v1/models").json()["data"][0]["owned_by"], "vllm")
        self.assertEqual(self.get("/v1/models").headers["x-engine"], "engine")


class Load(EngineCase):
    # Slow enough that requests are seen under way.
    flags = ("--max-running", "2", "--step-ms", "20", "--step-per-seq-ms", "1")

    def test_a_client_that_leaves_takes_its_request_along(self):
        stream = harness.Stream(self.http, "/v1/chat/completions",
                                chat(TEXT, max_tokens=20000, stream=True))
        next(stream.events())
        self.assertEqual(self.running(), 1)
        self.assertGreater(harness.metric(self.http, "vllm:kv_cache_usage_perc"), 0)
        stream.close()
        harness.wait_until(lambda: self.running() == 0, "the request is cancelled")
        self.assertEqual(harness.metric(self.http, "vllm:kv_cache_usage_perc"), 0)

    def test_more_than_a_batch_waits_and_is_served(self):
        batch = [harness.Stream(self.http, "/v1/chat/completions",
                                chat(f"number {i}", max_tokens=20000, stream=True))
                 for i in range(2)]
        for stream in batch:
            next(stream.events())
        third = harness.Stream(self.http, "/v1/chat/completions",
                               chat("number 3", max_tokens=2, stream=True))
        harness.wait_until(lambda: harness.metric(self.http, "vllm:num_requests_waiting") == 1,
                           "the third waits")
        self.assertEqual(harness.metric(self.http, "vllm:num_requests_running"), 2)
        batch[0].close()
        self.assertEqual(list(third.events())[-1], "[DONE]")
        self.assertGreater(harness.metric(self.http, "vllm:request_queue_time_seconds_sum"), 0)
        batch[1].close()

    def test_sigterm_lets_a_stream_end(self):
        stream = harness.Stream(self.http, "/v1/chat/completions",
                                chat(TEXT, max_tokens=10, stream=True))
        events = stream.events()
        next(events)
        self.engine.signal(signal.SIGTERM)
        self.assertEqual(list(events)[-1], "[DONE]")
        self.assertEqual(self.engine.wait(), 0)


class Misbehaviour(EngineCase):
    def hanging(self):
        """A connection whose request is never answered."""
        self.chaos(hang_count=1)
        connection = harness.connect(self.http)
        self.addCleanup(connection.close)
        harness.send(connection, "POST", "/v1/chat/completions", chat("hi"))
        harness.wait_until(lambda: self.get("/chaos").json()["hang_count"] == 0, "it hangs")
        return connection

    def test_health_can_be_refused(self):
        self.chaos(health=503)
        self.assertEqual(self.get("/health").status, 503)
        self.assertEqual(self.ask(chat("hi"))["object"], "chat.completion")
        self.chaos(health=200)
        self.assertEqual(self.get("/health").status, 200)

    def test_the_next_requests_can_fail(self):
        for status in (500, 502, 503, 429):
            self.chaos(fail_status=status, fail_count=2)
            got = [self.post("/v1/chat/completions", chat("hi")).status for _ in range(3)]
            self.assertEqual(got, [status, status, 200])

    def test_a_request_can_hang_until_its_client_leaves(self):
        connection = self.hanging()
        self.assertEqual(select.select([connection.sock], [], [], 0.2)[0], [])
        connection.close()
        self.assertEqual(self.ask(chat("hi"))["object"], "chat.completion")

    def test_a_hanging_request_does_not_keep_it_from_ending(self):
        self.hanging()
        self.assertEqual(self.engine.stop(), 0)

    def test_a_stream_can_be_cut_behind_any_token(self):
        self.chaos(die_after_tokens=3, die_count=1)
        stream = harness.Stream(self.http, "/v1/chat/completions", chat("hi", stream=True))
        seen = []
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            for event in stream.events():
                seen.append(event)
        self.assertEqual(len(seen), 4)  # the role, then three tokens
        stream.close()
        self.assertEqual(self.running(), 0)

    def test_an_answer_can_be_cut_before_its_first_byte(self):
        self.chaos(die_after_tokens=0, die_count=2)
        for body in (chat("hi"), chat("hi", stream=True)):
            with self.assertRaises((http.client.RemoteDisconnected, ConnectionError)):
                self.post("/v1/chat/completions", body)
        self.assertEqual(self.ask(chat("hi"))["object"], "chat.completion")

    def test_it_can_freeze_and_go_on(self):
        self.chaos(stall_ms=2000)
        with self.assertRaises(TimeoutError):
            harness.request(self.http, "GET", "/health", timeout_s=0.05)
        harness.wait_until(lambda: self.get("/health").status == 200, "it thaws")

    def test_it_can_become_slower(self):
        def first_token_s():
            before = harness.metric(self.http, "vllm:time_to_first_token_seconds_sum")
            self.ask(chat("hi", max_tokens=1))
            return harness.metric(self.http, "vllm:time_to_first_token_seconds_sum") - before
        fast = first_token_s()
        self.chaos(speed_percent=10)
        self.assertGreater(first_token_s(), 5 * fast)

    def test_it_can_leave_without_goodbye(self):
        self.engine.killed = True  # its exit code is ordered
        self.chaos(exit=7)
        self.assertEqual(self.engine.wait(), 7)


class Usage(harness.Case):
    def test_bad_flags_are_one_line_and_2(self):
        for flags in (["--nope"], ["stray"], ["--port"], ["--port", "70000"], ["--blocks", "0"],
                      ["--block-size=x"], ["--host", "localhost"], ["--model", ""]):
            run = self.run_once("kvasir-engine", *flags)
            self.assertEqual(run.returncode, 2, flags)
            self.assertEqual(run.stdout, "")
            self.assertEqual(len(run.stderr.splitlines()), 1, run.stderr)

    def test_help_names_every_flag_in_80_columns(self):
        run = self.run_once("kvasir-engine", "--help")
        self.assertEqual(run.returncode, 0)
        for word in ("--port", "--blocks", "--speed", "/chaos", "stall_ms"):
            self.assertIn(word, run.stdout)
        self.assertLessEqual(max(map(len, run.stdout.splitlines())), 80)

    def test_a_port_in_use_is_one_line_and_1(self):
        engine = self.start("kvasir-engine", "--port", "0")
        port = engine.at("http")[1]
        run = self.run_once("kvasir-engine", "--port", port)
        self.assertEqual(run.returncode, 1)
        self.assertIn("address already in use", run.stderr.lower())

    def test_it_prints_one_line_on_stdout(self):
        engine = self.start("kvasir-engine", "--port", "0", "--name", "gpu-1")
        self.assertEqual(list(engine.ready), ["http"])
        self.assertEqual(engine.stop(), 0)
        self.assertEqual(engine.popen.stdout.read(), b"")
        self.assertIn("gpu-1", engine.log())


if __name__ == "__main__":
    harness.main()
