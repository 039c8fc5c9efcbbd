"""Answers given to requests that ask the same in other words: which, for whom, and what becomes
of a request whose question's vector does not come."""
import json
import re
import threading
import zlib

import harness
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, request_bytes

QUESTION = "How many clips did Natalia sell to her 48 friends in April, and were they paid?"
POLITE = "Please tell me: how many clips did Natalia sell to her 48 friends in April, and were they paid?"
COUNTS = ("hit", "guarded", "miss", "late", "failed", "away")


def vector(text):
    """By its words, without numbers: as an embedding, it hardly tells 48 from 49."""
    words = re.findall(r"[a-z]+", text.lower())
    numbers = [0.0] * 64
    for word in words:
        numbers[zlib.crc32(word.encode()) % 64] += 1
    return numbers


def asks(text, **more):
    return {"model": "m", "temperature": 0, "messages": [{"role": "user", "content": text}], **more}


class Semantic(Proxy):
    def setUp(self):
        super().setUp()
        self.count = 0
        self.engine_options = ""
        self.lock = threading.Lock()
        self.embed = lambda peer, text: peer.json(
            {"object": "list", "data": [{"index": 0, "embedding": vector(text)}]})
        self.engine = FakeWorker(self, self.answer, models=("m", "n"))
        self.embedder = FakeWorker(self, self.embeds, models=("e",))

    def answer(self, peer, request):
        with self.lock:
            self.count += 1
            number = self.count
        if request.json().get("stream"):
            peer.begin_stream()
            for data in ({"id": f"c-{number}", "choices": [
                    {"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]},):
                peer.chunk(b"data: " + json.dumps(data).encode() + b"\n\n")
            peer.chunk(b"data: [DONE]\n\n")
            peer.end_stream()
            return
        peer.json({"id": f"c-{number}",
                   "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    def embeds(self, peer, request):
        self.assertEqual(request.target, "/v1/embeddings")
        self.assertEqual(request.json()["model"], "e")
        self.embed(peer, request.json()["input"])

    def serve_on(self, *options):
        self.node = self.serve(self.engine.url + self.engine_options, self.embedder, count=2, options=[
            "--answer_cache.bytes_max", "64MiB", "--answer_cache.semantic_model", "e",
            "--answer_cache.semantic_threshold", "0.8", "--answer_cache.semantic_wait", "10s",
            *options])

    def ask(self, body, headers=None, path=CHAT):
        got = self.post(body, headers, path)
        self.assertEqual(got.status, 200, got.text)
        return got

    def said(self, body, headers=None):
        return self.ask(body, headers).headers["x-cache"]

    def explain(self, body, headers=None):
        told = harness.request(self.node.at("admin"), "POST", "/admin/explain", body, headers or {})
        return told.json()["answer_cache"]["semantic"]

    def metric(self, name):
        return harness.metric(self.node.at("admin"), f"kvasir_answer_cache_{name}")

    def counts(self):
        return tuple(int(self.metric(f'semantic_total{{result="{name}"}}')) for name in COUNTS)

    def keeps(self, vectors):
        """An answer is kept a moment after its client has it."""
        harness.wait_until(lambda: self.metric("vectors") == vectors, f"{vectors} vectors")

    def test_other_words_get_the_answer_and_other_facts_do_not(self):
        self.serve_on("--log.requests", "all")
        first = self.ask(asks(QUESTION))
        self.assertEqual(first.headers["x-cache"], "MISS")
        self.keeps(1)
        got = self.ask(asks(POLITE))
        self.assertEqual((got.headers["x-cache"], got.body), ("SEMANTIC", first.body))
        self.assertGreaterEqual(float(got.headers["x-cache-similarity"]), 0.8)
        self.assertLess(float(got.headers["x-cache-similarity"]), 1)
        self.assertLess(int(got.headers["age"]), 3600)
        # It is kept under its own name, and asks for no vector again.
        asked = len(self.embedder.requests)
        again = self.ask(asks(POLITE))
        self.assertEqual((again.headers["x-cache"], again.body), ("SEMANTIC", first.body))
        self.assertEqual(len(self.embedder.requests), asked)
        self.assertEqual(self.said(asks(QUESTION)), "HIT")
        for other in (QUESTION.replace("48", "49"), QUESTION.replace("Natalia", "Tom"),
                      QUESTION.replace("were they", "were they not")):
            self.assertEqual(self.said(asks(other)), "MISS", other)
        self.assertEqual(self.said(asks("Who was the first king of the Franks, and when did he die?")),
                         "MISS")
        self.assertEqual(self.count, 5)
        self.assertEqual(self.counts(), (1, 3, 2, 0, 0, 0))
        self.keeps(5)
        harness.wait_until(lambda: "cache=hit cache_why=semantic" in self.node.log(), "a line")
        told = harness.request(self.node.at("admin"), "GET", "/admin/status").json()["answer_cache"]
        self.assertEqual({key: told["semantic"][key] for key in ("model", "hits", "guarded", "misses")},
                         {"model": "e", "hits": 1, "guarded": 3, "misses": 2})

    def test_who_leaves_before_its_vector_came_has_spent_no_request(self):
        asked = threading.Event()

        def never(peer, text):
            asked.set()
            peer.wait_closed()
        self.embed = never
        self.serve_on("--limits.tenant_requests", "1/h")

        def uses(count):
            harness.wait_until(lambda: harness.request(
                self.node.at("admin"), "GET", "/admin/status").json()["limits"][0]["used"] == count,
                f"{count} are used")
        s = self.connect()
        s.sendall(request_bytes(asks(QUESTION)))
        self.assertTrue(asked.wait(harness.IO_TIMEOUT_S))
        uses(1)
        s.close()
        uses(0)

    def test_what_differs_beside_the_words_is_another_request(self):
        self.serve_on()
        self.said(asks(QUESTION))
        self.keeps(1)
        system = {"role": "system", "content": "Be brief."}
        user = {"role": "user", "content": POLITE}
        for body in (asks(POLITE, max_tokens=5), asks(POLITE, model="n"), asks(POLITE, stream=True),
                     asks(POLITE, user="u"), asks(POLITE, messages=[system, user])):
            self.assertEqual(self.said(body), "MISS", body)
        for headers in ({"authorization": "Bearer a"}, {"openai-organization": "o"}):
            self.assertEqual(self.said(asks(POLITE), headers), "MISS", headers)
        self.assertEqual(self.said(asks(POLITE)), "SEMANTIC")

    def test_streams_come_as_streams(self):
        self.serve_on()
        first = self.ask(asks(QUESTION, stream=True))
        self.keeps(1)
        got = self.ask(asks(POLITE, stream=True))
        self.assertEqual((got.headers["x-cache"], got.headers["content-type"], got.body),
                         ("SEMANTIC", "text/event-stream", first.body))

    def test_tools_turns_and_other_languages_are_not_for_it(self):
        self.serve_on()
        tool = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hi"},
                 {"role": "user", "content": QUESTION}]
        for body, why in ((asks(QUESTION, tools=tool), "tools"), (asks("", messages=turns), "turns"),
                          (asks("Wie viele Klammern hat sie verkauft und wann war das?"), "language"),
                          (asks("How is it? " * 1000), "long")):
            self.assertEqual(self.explain(body), {"may": False, "why_not": why})
            self.assertEqual(self.said(body), "MISS")
        self.assertEqual(self.explain(asks(QUESTION)), {"may": True, "why_not": ""})
        self.assertEqual((self.counts(), len(self.embedder.requests)), ((0,) * 6, 0))

    def test_the_words_of_some_tenants_are_not_for_it(self):
        lines = ["isolation_secret: " + "0123456789abcdef" * 4, "tenants:"]
        keys = {}
        for name, more in (("any", None), ("strict", "isolation: strict"), ("bound", "residency: [eu]")):
            keys[name], line = self.run_once("kvasir", "key").stdout.split()
            lines += [f"  {name}:"] + ([f"    {more}"] if more else []) + [f"    keys: ['{line}']"]
        file = self.folder / "keys.yaml"
        file.write_text("\n".join(lines) + "\n")
        self.engine_options = ",island=eu"
        self.serve_on("--keys.file", file)
        for name, why in (("strict", "tenant"), ("bound", "tenant"), ("any", "")):
            self.assertEqual(self.explain(asks(QUESTION), {"x-kvasir-tenant": name}),
                             {"may": not why, "why_not": why})
            self.assertEqual(self.said(asks(QUESTION), {"authorization": f"Bearer {keys[name]}"}),
                             "MISS")
            self.assertEqual(len(self.embedder.requests), int(not why), name)

    def test_no_request_waits_for_its_vector_for_long(self):
        go = threading.Event()
        self.addCleanup(go.set)
        self.embed = lambda peer, text: go.wait(harness.IO_TIMEOUT_S)
        self.serve_on("--answer_cache.semantic_wait", "20ms", "--lanes", "1")
        for number in range(6):
            self.assertEqual(self.said(asks(f"{QUESTION} Is {number} the answer?")), "MISS")
        late, failed, away = self.counts()[3:]
        self.assertEqual(late + failed + away, 6)
        self.assertGreaterEqual(late, 4)
        self.assertEqual((failed, self.metric("vectors")), (0, 0))
        self.assertEqual(self.said(asks(f"{QUESTION} Is 0 the answer?")), "HIT")

    def test_an_engine_that_tells_no_vector_costs_a_hit(self):
        self.embed = lambda peer, text: peer.json({"error": {"message": "no"}}, 500)
        self.serve_on()
        self.assertEqual(self.said(asks(QUESTION)), "MISS")
        self.embed = lambda peer, text: peer.json({"data": [{"embedding": "AACAPw=="}]})
        self.assertEqual(self.said(asks(POLITE)), "MISS")
        self.assertEqual(self.counts(), (0, 0, 0, 0, 2, 0))

    def test_without_a_worker_for_it_requests_go_on(self):
        self.serve_on("--answer_cache.semantic_model", "nobody")
        self.assertEqual([self.said(asks(text)) for text in (QUESTION, POLITE, QUESTION)],
                         ["MISS", "MISS", "HIT"])
        self.assertEqual(self.counts(), (0, 0, 0, 0, 0, 2))

    def test_who_leaves_while_he_waits_leaves_no_trace(self):
        go = threading.Event()
        self.addCleanup(go.set)
        self.embed = lambda peer, text: go.wait(harness.IO_TIMEOUT_S)
        self.serve_on()
        leaves = self.connect()
        leaves.sendall(request_bytes(asks(QUESTION)))
        harness.wait_until(lambda: len(self.embedder.requests) == 1, "it waits for its vector")
        leaves.close()
        harness.wait_until(lambda: self.metric("flights") == 0, "it is gone")
        self.assertEqual((self.count, self.counts()), (0, (0,) * 6))

    def test_clients_and_operators_may_have_it_anew(self):
        self.serve_on()
        first = self.ask(asks(QUESTION)).body
        self.keeps(1)
        got = self.ask(asks(POLITE), {"cache-control": "no-cache"})
        self.assertEqual(got.headers["x-cache"], "MISS")
        self.assertNotEqual(got.body, first)
        self.keeps(2)
        cleared = harness.request(self.node.at("admin"), "POST", "/admin/answer_cache/clear",
                                  {"model": "m"})
        self.assertEqual(cleared.status, 200, cleared.text)
        self.assertEqual(self.metric("vectors"), 0)
        self.assertEqual(self.said(asks(POLITE)), "MISS")

    def test_a_rule_of_content_has_its_own_threshold(self):
        rules = self.folder / "content.yaml"
        rules.write_text(json.dumps({"auto": {"model": "m", "rules": [
            {"name": "never", "words": ["never-mind"], "semantic_threshold": "off"},
            {"name": "strict", "words": ["clips"], "semantic_threshold": 0.999}]}}))
        self.serve_on("--content.file", rules)
        self.said(asks(QUESTION, model="auto"))
        self.keeps(1)
        self.assertEqual(self.said(asks(POLITE, model="auto")), "MISS")
        self.keeps(2)
        told = harness.request(self.node.at("admin"), "POST", "/admin/explain",
                               asks(POLITE, model="auto")).json()
        self.assertEqual(told["content"]["semantic_threshold"], 0.999)
        asked = len(self.embedder.requests)
        never = asks("never-mind how many it is", model="auto")
        self.assertEqual(self.said(never), "MISS")
        self.assertEqual(len(self.embedder.requests), asked)
        self.assertEqual(self.explain(never), {"may": False, "why_not": "rule"})
        self.assertEqual(self.said(asks(QUESTION.replace("How many", "How many, then,"))), "SEMANTIC")


class StandIn(Proxy):
    def test_the_words_of_the_documents_show_a_hit(self):
        """Those of deploy/features.md, with the stand-in engine's vectors."""
        engine = self.start("kvasir-engine", "--port", "0", "--model", "m", "--model", "e")
        self.node = self.serve(engine.url("http"), options=[
            "--answer_cache.bytes_max", "64MiB", "--answer_cache.semantic_model", "e",
            "--answer_cache.semantic_threshold", "0.75", "--answer_cache.semantic_wait", "10s"])
        question = "How many clips did Natalia sell in April?"
        first = self.post(asks(question))
        harness.wait_until(lambda: harness.metric(self.node.at("admin"), "kvasir_answer_cache_vectors") == 1,
                           "a vector")
        polite = self.post(asks("Please tell me: h" + question[1:]))
        self.assertEqual((polite.headers["x-cache"], polite.body), ("SEMANTIC", first.body))
        for other in (question.replace("April", "May"), "Where do the Franks live, and since when?"):
            self.assertEqual(self.post(asks(other)).headers["x-cache"], "MISS", other)


if __name__ == "__main__":
    harness.main()
