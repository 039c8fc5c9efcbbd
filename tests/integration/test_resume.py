"""Streams whose engine dies go on at another one: the client gets every token once, and sees
nothing of it."""
import http.client
import json
import re
import threading

import harness
from fake_worker import Close, FakeWorker
from test_usage import DELTA, DONE

TOKENS = 12
CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
MESSAGES = "/v1/messages"
RESPONSES = "/v1/responses"


class ResumeCase(harness.Case):
    def node(self, *urls, options=()):
        workers = [part for url in urls for part in ("--worker", url)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                          "127.0.0.1:0", "--placement_headers", "on", "--affinity.mode", "hard",
                          "--breaker.failures", "100", *workers, *options)
        harness.wait_until(lambda: all(w["eligible"] for w in self.workers(node)), "they are up")
        return node

    def workers(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()

    def stream(self, node, path=CHAT, **more):
        """Of one session, so at the worker of the one before."""
        prompt = ({"prompt": "Tell me more about it"} if path == TEXT else
                  {"messages": [{"role": "user", "content": "Tell me of caches."}]})
        body = {"model": "m", "stream": True, "temperature": 0, "max_tokens": TOKENS,
                **prompt, **more}
        stream = harness.Stream(node.at("serve"), path, body, {"x-session-id": "one"})
        self.addCleanup(stream.close)
        self.assertEqual(stream.status, 200)
        return stream

    def count(self, node, name):
        return harness.metric(node.at("admin"), name)


def plain(events):
    """As they are, but for what each answer has of its own."""
    out = []
    for event in events:
        if event != "[DONE]":
            event = json.loads(event)
            for name in ("id", "created", "system_fingerprint"):
                event.pop(name, None)
            (event.get("usage") or {}).pop("prompt_tokens_details", None)
        out.append(event)
    return out


class Engines(ResumeCase):
    def setUp(self):
        super().setUp()
        self.engines = [self.start("kvasir-engine", "--port", "0", "--speed", "20",
                                   "--model", "m") for _ in range(2)]
        self.running = self.node(*(engine.url("http") for engine in self.engines))
        harness.wait_until(
            lambda: all(w["engine"] == "vllm" for w in self.workers(self.running)), "they are known")

    def dies_everywhere(self, path, **more):
        node = self.running
        for at in range(1, TOKENS):
            with self.subTest(at=at):
                whole = self.stream(node, path, **more)
                expected = plain(whole.events())
                first = next(e for e in self.engines
                             if whole.headers["x-kvasir-worker"].endswith(f":{e.at('http')[1]}"))
                before = self.count(node, "kvasir_resumed_total")
                harness.request(first.at("http"), "POST", "/chaos",
                                {"die_after_tokens": at, "die_count": 1})
                stream = self.stream(node, path, **more)
                self.assertEqual(stream.headers["x-kvasir-worker"],
                                 whole.headers["x-kvasir-worker"])
                events = list(stream.events())
                self.assertEqual(plain(events), expected)
                self.assertEqual(self.count(node, "kvasir_resumed_total"), before + 1)
                names = {json.loads(e)["id"] for e in events if e != "[DONE]"}
                self.assertEqual(len(names), 1, "one answer has one id")
        self.assertEqual(self.count(node, 'kvasir_requests_total{reason="answer_broke_off"}'), 0)

        def decided():
            return harness.request(node.at("admin"), "GET", "/admin/decisions").json()
        harness.wait_until(lambda: sum(d["resumed"] for d in decided()) == TOKENS - 1,
                           "all of it is told")

    def ends_here(self, path, **more):
        """Its engine dies behind the last token, or behind the usage that follows."""
        node = self.running
        for at in (TOKENS, TOKENS + 1):
            with self.subTest(at=at, **more):
                whole = self.stream(node, path, **more)
                expected = plain(whole.events())
                first = next(e for e in self.engines
                             if whole.headers["x-kvasir-worker"].endswith(f":{e.at('http')[1]}"))
                before = self.count(node, "kvasir_finished_here_total")
                harness.request(first.at("http"), "POST", "/chaos",
                                {"die_after_tokens": at, "die_count": 1})
                self.assertEqual(plain(self.stream(node, path, **more).events()), expected)
                self.assertEqual(self.count(node, "kvasir_finished_here_total"), before + 1)
        self.assertEqual(self.count(node, "kvasir_resumed_total"), 0)
        self.assertEqual(self.count(node, 'kvasir_requests_total{reason="answer_broke_off"}'), 0)

    def test_an_answer_that_lacks_its_usage_or_its_end_gets_them(self):
        usage = {"stream_options": {"include_usage": True}}
        each = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
        for path in (CHAT, TEXT):
            for more in ({}, usage, each):
                self.ends_here(path, **more)

    def test_tokens_are_counted_of_an_answer_that_is_ended_here(self):
        before = self.count(self.running, "kvasir_completion_tokens_total")
        for engine in self.engines:
            harness.request(engine.at("http"), "POST", "/chaos",
                            {"die_after_tokens": TOKENS, "die_count": 1})
        self.assertEqual(list(self.stream(self.running).events())[-1], "[DONE]")
        harness.wait_until(lambda: self.count(self.running, "kvasir_completion_tokens_total") ==
                           before + TOKENS, "they are counted")

    def test_an_engine_that_stands_still_behind_its_last_word_is_not_waited_for(self):
        def say(peer, request):
            if request.target != CHAT:
                return peer.answer(404)
            peer.begin_stream()
            peer.chunk(delta("One", finish_reason="stop"))
            harness.wait_until(lambda: over.is_set(), "the client has all")
            raise Close
        over = threading.Event()
        node = self.node(FakeWorker(self, say).url, options=["--timeouts.stream_idle", "1s"])
        self.addCleanup(over.set)
        self.assertEqual(len(list(self.stream(node).events())), 2)
        over.set()
        self.assertEqual(self.count(node, "kvasir_finished_here_total"), 1)
        self.assertEqual(self.count(node, 'kvasir_requests_total{reason="answer_broke_off"}'), 0)

    def test_a_chat_has_every_token_once(self):
        self.dies_everywhere(CHAT)

    def test_a_chat_with_usage(self):
        self.dies_everywhere(CHAT, stream_options={"include_usage": True})

    def test_a_completion_has_every_token_once(self):
        self.dies_everywhere(TEXT)

    def test_where_it_is_switched_off_it_is_severed(self):
        other = self.node(*(engine.url("http") for engine in self.engines),
                          options=["--retries.streams", "off"])
        for engine in self.engines:
            harness.request(engine.at("http"), "POST", "/chaos",
                            {"die_after_tokens": 3, "die_count": 1})
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            list(self.stream(other).events())
        self.assertEqual(self.count(other, 'kvasir_requests_total{reason="answer_broke_off"}'), 1)

    def test_one_by_chance_is_severed(self):
        for engine in self.engines:
            harness.request(engine.at("http"), "POST", "/chaos",
                            {"die_after_tokens": 3, "die_count": 1})
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            list(self.stream(self.running, temperature=0.7).events())
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), 0)

    def test_who_is_told_of_placements_is_told_of_it(self):
        stream = self.stream(self.running)
        list(stream.events())
        first = next(e for e in self.engines
                     if stream.headers["x-kvasir-worker"].endswith(f":{e.at('http')[1]}"))
        harness.request(first.at("http"), "POST", "/chaos",
                        {"die_after_tokens": 3, "die_count": 1})
        body = json.dumps({"model": "m", "stream": True, "temperature": 0, "max_tokens": TOKENS,
                           "messages": [{"role": "user", "content": "Tell me of caches."}]})
        answer = harness.request(self.running.at("serve"), "POST", CHAT, body,
                                 {"x-session-id": "one", "content-type": "application/json"})
        self.assertIn(": x-kvasir-resumed: 1\n\ndata: [DONE]\n\n", answer.text)


class Foretold(ResumeCase):
    """What `kvasir explain` says of a stream is what becomes of it, and the request log says why
    one was severed."""
    FORM = {"response_format": {"type": "json_object"}}
    WAYS = [
        (CHAT, {}, "", ""),
        (CHAT, {"temperature": 0.7}, "sampled", ""),
        (CHAT, {"stream": False}, "no_stream", ""),
        (CHAT, FORM, "member", "response_format"),
        (CHAT, {"logprobs": True}, "member", "logprobs"),
        (CHAT, {"messages": [{"role": "assistant", "content": "So"}]}, "member", "messages"),
        (TEXT, {}, "", ""),
        (TEXT, {"echo": True}, "member", "echo"),
        (TEXT, {"max_tokens": None}, "member", "max_tokens"),
    ]

    def started(self, *flags, engine=()):
        self.engines = [self.start("kvasir-engine", "--port", "0", "--speed", "20", "--model", "m",
                                   *engine) for _ in range(2)]
        node = self.node(*(engine.url("http") for engine in self.engines),
                         options=["--log.requests", "all", "--log.format", "json", *flags])
        harness.wait_until(
            lambda: all(w["engine"] == "vllm" for w in self.workers(node)), "they are known")
        return node

    def body(self, path, more):
        prompt = ({"prompt": "Tell me more about it"} if path == TEXT else
                  {"input": "Tell me of caches."} if path == RESPONSES else
                  {"messages": [{"role": "user", "content": "Tell me of caches."}]})
        most = {"max_output_tokens" if path == RESPONSES else "max_tokens": TOKENS}
        return {"model": "m", "stream": True, "temperature": 0, **most, **prompt, **more}

    def explained(self, node, path, more):
        got = harness.request(node.at("admin"), "POST", f"/admin/explain?path={path}",
                              self.body(path, more)).json()["resume"]
        self.assertEqual(got["may"], got["why_not"] == "")
        return got

    def said(self, node, path, more):
        """Of one session, so at the worker of the one before."""
        stream = harness.Stream(node.at("serve"), path, self.body(path, more),
                                {"x-session-id": "one"})
        self.addCleanup(stream.close)
        return stream

    def is_severed(self, node, path, more):
        whole = self.said(node, path, more)
        list(whole.events())
        first = next(e for e in self.engines
                     if whole.headers["x-kvasir-worker"].endswith(f":{e.at('http')[1]}"))
        before = self.count(node, "kvasir_resumed_total")
        harness.request(first.at("http"), "POST", "/chaos",
                        {"die_after_tokens": 3, "die_count": 1})
        try:
            list(self.said(node, path, more).events())
        except (http.client.IncompleteRead, ConnectionError):
            self.assertEqual(self.count(node, "kvasir_resumed_total"), before)
            return True
        self.assertEqual(self.count(node, "kvasir_resumed_total"), before + 1)
        return False

    def reasons(self, node, count):
        def found():
            said = [json.loads(line) for line in node.log().splitlines() if line.startswith("{")]
            return [line.get("not_resumed") for line in said
                    if line["event"] == "request" and line["end"] == "severed"]
        harness.wait_until(lambda: len(found()) >= count, "all are told of")
        return found()

    def test_explain_says_what_becomes_of_a_stream(self):
        node = self.started()
        severed = []
        for path, more, why, member in self.WAYS:
            with self.subTest(path=path, **more):
                got = self.explained(node, path, more)
                self.assertEqual((got["why_not"], got["member"], got["others"]), (why, member, 1))
                if why != "no_stream":
                    self.assertEqual(self.is_severed(node, path, more), why != "")
                    severed += [why] if why else []
        self.assertEqual(self.reasons(node, len(severed)), severed)

    def test_what_the_configuration_rules_out(self):
        for flags, why in ((("--retries.streams", "off"), "off"),
                           (("--retries.after_send", "0"), "no_retries")):
            with self.subTest(why=why):
                node = self.started(*flags)
                self.assertEqual(self.explained(node, CHAT, {})["why_not"], why)
                self.assertTrue(self.is_severed(node, CHAT, {}))
                self.assertEqual(self.reasons(node, 1), [why])
        node = self.started("--retries.streams", "always")
        self.assertTrue(self.explained(node, CHAT, {"temperature": 0.7})["may"])
        self.assertFalse(self.is_severed(node, CHAT, {"temperature": 0.7}))

    def is_known(self, node, path, why):
        """Each answer may tell of one engine whether it has the path."""
        def said():
            harness.request(node.at("serve"), "POST", path, self.body(path, {"stream": False}))
            return self.explained(node, path, {})["why_not"] == why
        harness.wait_until(said, f"{path}: {why or 'goes on'}")

    def test_other_apis_go_on_where_they_are_chats(self):
        for flags, why in (((), "own_path"), (("--apis", "chats"), "")):
            node = self.started(engine=flags)
            for path in (MESSAGES, RESPONSES):
                with self.subTest(path=path, why=why):
                    self.is_known(node, path, why)

    def test_nobody_else_is_nobody_to_go_on(self):
        self.started()
        alone = self.node(self.engines[0].url("http"))
        got = self.explained(alone, CHAT, {})
        self.assertEqual((got["why_not"], got["others"]), ("alone", 0))


def told(events):
    """What a stream comes to, however its text was put into events: the text, why it ended, its
    usage, and how many usages there were beside text."""
    text, reasons, usage, beside = "", [], None, 0
    for event in events:
        if event == "[DONE]":
            continue
        event = json.loads(event)
        for choice in event["choices"]:
            text += (choice.get("delta") or {"content": choice.get("text")}).get("content") or ""
            reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
            beside += event.get("usage") is not None
        if not event["choices"]:
            usage = {name: event["usage"][name] for name in
                     ("prompt_tokens", "completion_tokens", "total_tokens")}
    return text, reasons, usage, beside


class Lagging(ResumeCase):
    """Engines that put several tokens into one event, as real ones do when their front end falls
    behind."""
    OPTIONS = ()
    IN_TURN = ("--policy", "round_robin", "--affinity.mode", "off")
    MOST = 5

    def setUp(self):
        super().setUp()
        self.engines = [self.start("kvasir-engine", "--port", "0", "--speed", "20",
                                   "--model", "m", *self.OPTIONS) for _ in range(2)]
        self.running = self.node(*(engine.url("http") for engine in self.engines),
                                 options=self.IN_TURN)
        harness.wait_until(
            lambda: all(w["engine"] != "other" for w in self.workers(self.running)),
            "they are known")
        for engine in self.engines:
            self.order(engine, event_tokens=self.MOST)

    def order(self, engine, **orders):
        harness.request(engine.at("http"), "POST", "/chaos", orders)

    def first(self, stream):
        return next(e for e in self.engines
                    if stream.headers["x-kvasir-worker"].endswith(f":{e.at('http')[1]}"))

    def killed(self, at, path, **more):
        """The events of a stream whose engine dies behind so many tokens."""
        engine = self.engines[at % 2]
        self.order(engine, die_after_tokens=at, die_count=1)
        for _ in range(20):
            stream = self.stream(self.running, path, **more)
            events = list(stream.events())
            if self.first(stream) == engine:
                return events
        return self.fail("no request went to that engine")

    def dies_everywhere(self, path, tokens=24, **more):
        more["max_tokens"] = tokens
        several = 0
        places = range(self.MOST, tokens, 2)  # before that it may have said nothing
        for at in places:
            with self.subTest(at=at):
                expected = list(self.stream(self.running, path, **more).events())
                got = self.killed(at, path, **more)
                self.assertEqual(told(got), told(expected))
                several += len(expected) < tokens
        self.assertGreater(several, 0, "no event had several tokens")
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), len(places))
        self.assertEqual(self.count(self.running, 'kvasir_requests_total{reason="answer_broke_off"}'), 0)

    def test_a_chat_has_every_token_once(self):
        self.dies_everywhere(CHAT)

    def test_a_completion_has_every_token_once(self):
        self.dies_everywhere(TEXT)

    def test_an_answer_that_is_ended_here_has_its_usage(self):
        usage = {"stream_options": {"include_usage": True}}
        for path in (CHAT, TEXT):
            for at in (TOKENS, TOKENS + 1):
                with self.subTest(path=path, at=at):
                    expected = told(self.stream(self.running, path, **usage).events())
                    got = list(self.killed(at, path, **usage))
                    self.assertEqual((told(got), got[-1]), (expected, "[DONE]"))
        self.assertEqual(self.count(self.running, "kvasir_finished_here_total"), 4)

    def test_so_it_has_when_it_was_gone_on_with(self):
        usage = {"stream_options": {"include_usage": True}}
        expected = told(self.stream(self.running, **usage).events())
        # Whoever is first, the other one is asked for all but what came before the last token,
        # and dies behind the end of that.
        for engine, at in zip(self.engines, (7, TOKENS + 1 - 7)):
            self.order(engine, event_tokens=1, die_after_tokens=at, die_count=1)
        got = list(self.stream(self.running, **usage).events())
        self.assertEqual((told(got), got[-1]), (expected, "[DONE]"))
        self.assertEqual((self.count(self.running, "kvasir_resumed_total"),
                          self.count(self.running, "kvasir_finished_here_total")), (1, 1))

    def test_usage_is_exact(self):
        self.dies_everywhere(CHAT, stream_options={"include_usage": True})
        got = told(self.stream(self.running, stream_options={"include_usage": True}).events())
        self.assertEqual((got[2]["completion_tokens"], got[3]), (TOKENS, 0))

    def test_who_asks_for_the_usage_of_each_event_has_it(self):
        each = {"include_usage": True, "continuous_usage_stats": True}
        self.order(self.engines[0], event_tokens=1)
        self.order(self.engines[1], event_tokens=1)
        expected = [e["usage"] for e in self.stream(self.running, stream_options=each).chunks()]
        got = [json.loads(e)["usage"] for e in self.killed(5, CHAT, stream_options=each)
               if e != "[DONE]"]
        for usage in [*expected, *got]:
            usage.pop("prompt_tokens_details", None)
        self.assertEqual(got, expected)

    def bytes_of(self, address, path, **more):
        prompt = ({"prompt": "Tell me more about it"} if path == TEXT else
                  {"messages": [{"role": "user", "content": "Tell me of caches."}]})
        body = {"model": "m", "stream": True, "temperature": 0, "max_tokens": TOKENS, **prompt,
                **more}
        got = harness.request(address, "POST", path, body)
        self.assertEqual(got.status, 200)
        return re.sub(r'"(id|created|cached_tokens|system_fingerprint)":("[^"]*"|\d+)', r'"\1":',
                      got.text)

    def test_who_asks_for_none_gets_the_bytes_that_the_engine_would_have_said(self):
        for engine in self.engines:
            self.order(engine, event_tokens=1)
        for path in (CHAT, TEXT):
            for options in ({}, {"stream_options": {"include_usage": True}},
                            {"stream_options": {"include_usage": False}},
                            {"stream_options": {"continuous_usage_stats": False}},
                            {"stream_options": {}}, {"stream_options": None}):
                with self.subTest(path=path, options=options):
                    self.assertEqual(
                        self.bytes_of(self.running.at("serve"), path, **options),
                        self.bytes_of(self.engines[0].at("http"), path, **options))


class LaggingSglang(Lagging):
    OPTIONS = ("--engine", "sglang")

    def test_who_asks_for_the_usage_of_each_event_has_it(self):
        """All but the first, which says the role."""
        each = {"include_usage": True, "continuous_usage_stats": True}
        events = list(self.stream(self.running, stream_options=each).chunks())
        self.assertEqual([bool(e.get("usage")) for e in events],
                         [False, *[True] * (len(events) - 1)])


class LaggingUntold(Lagging):
    """Where nobody tells how many tokens there were, an answer may be longer, and has no gap."""

    def setUp(self):
        super().setUp()
        self.running = self.node(*(engine.url("http") for engine in self.engines),
                                 options=[*self.IN_TURN, "--usage.ask", "off"])
        harness.wait_until(
            lambda: all(w["engine"] != "other" for w in self.workers(self.running)),
            "they are known")

    def dies_everywhere(self, path, tokens=24, **more):
        more["max_tokens"] = tokens
        text = told(self.stream(self.running, path, **more).events())[0]
        got = told(self.killed(20, path, **more))[0]
        self.assertEqual(got[:len(text)], text)
        self.assertGreater(len(got), len(text))

    def test_an_answer_that_is_ended_here_has_its_usage(self):
        """None at all, unless the engine had come to it."""
        usage = {"stream_options": {"include_usage": True}}
        expected = told(self.stream(self.running, **usage).events())
        for at, known in ((TOKENS, None), (TOKENS + 1, expected[2])):
            got = list(self.killed(at, CHAT, **usage))
            self.assertEqual((told(got), got[-1]), ((*expected[:2], known, 0), "[DONE]"))

    test_so_it_has_when_it_was_gone_on_with = None
    test_usage_is_exact = None
    test_who_asks_for_the_usage_of_each_event_has_it = None


def own(text):
    """The events of /v1/messages or /v1/responses, but for ids and times, and for how much of
    the prompt was cached."""
    out = []
    for part in text.strip("\n").split("\n\n"):
        if part.startswith(":"):
            out.append(part)
            continue
        event = json.loads(part.split("\n")[1].removeprefix("data: "))
        for thing in (event, event.get("response", {}), event.get("message", {})):
            for name in ("id", "item_id", "created_at"):
                thing.pop(name, None)
            usage = thing.get("usage") or {}
            if "cache_read_input_tokens" in usage:
                usage["input_tokens"] += usage.pop("cache_read_input_tokens")
            usage.pop("input_tokens_details", None)
        for item in [event.get("item", {}), *(event.get("response", {}).get("output", []))]:
            item.pop("id", None)
        out.append(event)
    return out


class Translated(ResumeCase):
    """Streams of other APIs, by chats of engines that have no other."""

    def setUp(self):
        super().setUp()
        self.engines = [self.start("kvasir-engine", "--port", "0", "--speed", "20", "--model", "m",
                                   "--apis", "chats") for _ in range(2)]
        self.running = self.node(*(engine.url("http") for engine in self.engines))
        self.known(self.running)

    def known(self, node):
        harness.wait_until(
            lambda: all(w["engine"] == "vllm" for w in self.workers(node)), "they are known")

    def ask(self, path, **more):
        prompt = ({"input": "Tell me of caches.", "max_output_tokens": TOKENS}
                  if path == RESPONSES else
                  {"messages": [{"role": "user", "content": "Tell me of caches."}],
                   "max_tokens": TOKENS})
        got = harness.request(self.running.at("serve"), "POST", path,
                              {"model": "m", "stream": True, "temperature": 0, **prompt, **more},
                              {"x-session-id": "one"})
        self.assertEqual(got.status, 200, got.text)
        return got

    def first(self, answer):
        return next(e for e in self.engines
                    if answer.headers["x-kvasir-worker"].endswith(f":{e.at('http')[1]}"))

    def die(self, engine, at):
        harness.request(engine.at("http"), "POST", "/chaos",
                        {"die_after_tokens": at, "die_count": 1})

    def dies_everywhere(self, path):
        node = self.running
        for at in range(1, TOKENS):
            with self.subTest(at=at):
                whole = self.ask(path)
                expected = own(whole.text)
                before = (self.count(node, "kvasir_resumed_total"),
                          self.count(node, "kvasir_translated_total"))
                self.die(self.first(whole), at)
                got = self.ask(path)
                self.assertEqual(self.first(got), self.first(whole))
                said = own(got.text)
                self.assertEqual([e for e in said if isinstance(e, dict)], expected)
                self.assertEqual([e for e in said if not isinstance(e, dict)],
                                 [": x-kvasir-resumed: 1"])
                self.assertEqual((self.count(node, "kvasir_resumed_total"),
                                  self.count(node, "kvasir_translated_total")),
                                 (before[0] + 1, before[1] + 1))
        self.assertEqual(self.count(node, 'kvasir_requests_total{reason="answer_broke_off"}'), 0)

    def test_an_answer_that_lacks_its_end_gets_it(self):
        for path in (MESSAGES, RESPONSES):
            for at in (TOKENS, TOKENS + 1):
                for more in ({}, {"temperature": 0.7, "seed": 1}):
                    with self.subTest(path=path, at=at, **more):
                        whole = self.ask(path, **more)
                        before = self.count(self.running, "kvasir_finished_here_total")
                        self.die(self.first(whole), at)
                        got, want = own(self.ask(path, **more).text), own(whole.text)
                        if more:  # its engine was not asked for the usage of each event
                            del got[-2:], want[-2:]
                        self.assertEqual(got, want)
                        self.assertEqual(self.count(self.running, "kvasir_finished_here_total"),
                                         before + 1)
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), 0)

    def test_a_message_has_every_token_once(self):
        self.dies_everywhere(MESSAGES)

    def test_a_response_has_every_token_once(self):
        self.dies_everywhere(RESPONSES)

    def test_an_engine_that_has_the_path_goes_on_with_the_chat(self):
        old = self.engines[0]
        new = self.start("kvasir-engine", "--port", "0", "--speed", "20", "--model", "m")
        self.running = self.node(old.url("http"), new.url("http"),
                                 options=["--policy", "round_robin", "--affinity.mode", "off"])
        self.known(self.running)
        self.die(old, 5)
        self.engines = [old, new]
        texts = set()
        for _ in range(2):
            got = self.ask(MESSAGES)
            texts.add("".join(e["delta"].get("text", "") for e in own(got.text)
                              if isinstance(e, dict) and e["type"] == "content_block_delta"))
        self.assertEqual(len(texts), 1, texts)
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), 1)

    def test_where_nobody_goes_on_the_client_is_told_in_its_api(self):
        self.ask(MESSAGES)  # now it is known that this is a chat
        for engine in self.engines:
            self.die(engine, 4)
        got = own(self.ask(MESSAGES).text)
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), 1)
        self.assertEqual(got[-1]["type"], "error")
        self.assertIn("ended too early", got[-1]["error"]["message"])

    def test_events_of_several_tokens_are_counted(self):
        for path, name in ((MESSAGES, "output_tokens"), (RESPONSES, "output_tokens")):
            with self.subTest(path=path):
                first = self.first(self.ask(path))
                for engine in self.engines:
                    harness.request(engine.at("http"), "POST", "/chaos", {"event_tokens": 4})
                self.die(first, 9)
                got = own(self.ask(path).text)
                ends = [e.get("usage") or e.get("response", {}).get("usage") for e in got
                        if isinstance(e, dict)]
                self.assertEqual([u for u in ends if u][-1][name], TOKENS)
                for engine in self.engines:
                    harness.request(engine.at("http"), "POST", "/chaos", {"event_tokens": 1})
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), 2)

    def test_by_chance_it_is_not_gone_on_with(self):
        self.die(self.first(self.ask(MESSAGES)), 4)
        got = own(self.ask(MESSAGES, temperature=0.7).text)
        self.assertEqual(got[-1]["type"], "error")
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), 0)


def delta(text, **more):
    return ("data: " + json.dumps({"id": "x", "choices": [
        {"index": 0, "delta": {"content": text}, "finish_reason": None, **more}]}) +
            "\n\n").encode()


class Answers(ResumeCase):
    """Workers whose every byte is decided here; they are asked in turn."""

    def setUp(self):
        super().setUp()
        self.asked = []
        self.answers = []
        self.workers_here = [FakeWorker(self, self.answer) for _ in range(3)]
        self.running = self.node(*(worker.url for worker in self.workers_here))

    def answer(self, peer, request):
        self.asked.append(request.json())
        self.answers[len(self.asked) - 1](peer)

    def breaks_off_after(self, *texts):
        def say(peer):
            peer.begin_stream()
            for text in texts:
                peer.chunk(delta(text))
            raise Close
        return say

    def says(self, *pieces):
        def say(peer):
            peer.begin_stream()
            for piece in pieces:
                peer.chunk(piece)
            peer.end_stream()
        return say

    def texts(self, **more):
        events = self.stream(self.running, **more).chunks()
        return [c["delta"]["content"] for e in events for c in e["choices"]]

    def severed(self, **more):
        got = []
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            for event in self.stream(self.running, **more).events():
                got.append(json.loads(event)["choices"][0]["delta"]["content"])
        return got

    def test_the_rest_is_asked_for_with_the_text_so_far(self):
        self.answers = [self.breaks_off_after("One", " two", " three"),
                        self.says(delta(" three"), delta(" four"), DONE)]
        self.assertEqual(self.texts(), ["One", " two", " three", " four"])
        first, then = self.asked
        self.assertEqual(then.pop("continue_final_message"), True)
        self.assertEqual(then.pop("add_generation_prompt"), False)
        self.assertEqual(then["messages"].pop(), {"role": "assistant", "content": "One two"})
        self.assertEqual(then.pop("max_tokens"), first.pop("max_tokens") - 2)
        self.assertEqual(then, first)

    def test_another_answer_is_not_joined(self):
        self.answers = [self.breaks_off_after("One", " two"),
                        self.says(delta("Uno"), delta(" dos"), DONE)]
        self.assertEqual(self.severed(), ["One", " two"])
        self.assertEqual(self.count(self.running, "kvasir_resumed_torn_total"), 1)

    def test_a_worker_that_refuses_the_rest_gives_way_to_the_next(self):
        self.answers = [self.breaks_off_after("One", " two"), lambda peer: peer.answer(503),
                        self.says(delta(" two"), delta(" three"), DONE)]
        self.running_again("--retries.after_send", "2")
        self.assertEqual(self.texts(), ["One", " two", " three"])

    def running_again(self, *options):
        self.running = self.node(*(worker.url for worker in self.workers_here), options=options)

    def test_without_another_worker_it_is_severed(self):
        self.answers = [self.breaks_off_after("One", " two"), lambda peer: peer.answer(503),
                        lambda peer: peer.answer(400), lambda peer: peer.answer(400)]
        self.running_again("--retries.after_send", "3")
        self.assertEqual(self.severed(), ["One", " two"])

    def test_an_engine_that_says_it_failed_is_gone_on_from(self):
        fault = b'data: {"error":{"message":"EngineCore died","code":500}}\n\n'
        self.answers = [self.says(delta("One"), delta(" two"), fault, DONE),
                        self.says(delta(" two"), delta(" three"), DONE)]
        self.assertEqual(self.texts(), ["One", " two", " three"])

    def test_and_where_nobody_goes_on_the_client_is_told_of_it(self):
        fault = b'data: {"error":{"message":"EngineCore died","code":500}}\n\n'
        self.answers = [self.says(delta("One"), delta(" two"), fault, DONE)]
        events = self.stream(self.running, response_format={"type": "json_object"}).events()
        got = []
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            for event in events:
                got.append(json.loads(event))
        self.assertEqual(got[-1]["error"]["code"], 500)

    def test_an_answer_that_only_lacks_its_end_is_ended(self):
        def say(peer):
            peer.begin_stream()
            peer.chunk(delta("One"))
            peer.chunk(delta(" two", finish_reason="stop"))
            raise Close
        self.answers = [say]
        self.assertEqual(self.texts(), ["One", " two"])
        self.assertEqual(self.count(self.running, "kvasir_resumed_total"), 0)

    def test_calls_of_tools_are_not_resumed(self):
        def say(peer):
            peer.begin_stream()
            peer.chunk(b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"",'
                       b'"tool_calls":[{"index":0}]}}]}\n\n')
            raise Close
        self.answers = [say]
        self.assertEqual(self.severed(), [""])
        self.assertEqual(len(self.asked), 1)

    def test_nothing_is_said_twice_if_nothing_was_said(self):
        role = (b'data: {"id":"x","choices":[{"index":0,"delta":{"role":"assistant",'
                b'"content":""}}]}\n\n')

        def say(peer):
            peer.begin_stream()
            peer.chunk(role)
            raise Close
        self.answers = [say, self.says(role, delta("One"), DONE)]
        self.assertEqual(self.texts(), ["", "One"])
        self.assertEqual(self.asked[0], self.asked[1])


if __name__ == "__main__":
    harness.main()
