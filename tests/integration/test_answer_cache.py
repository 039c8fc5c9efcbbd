"""Answers that are kept for requests that repeat: which, for whom, how long, and
how often an engine is asked meanwhile."""
import json
import pathlib
import subprocess
import threading

import harness
from fake_worker import FakeWorker
from test_openai import CLIENT_TIMEOUT_S, OPENAI, modules_of
from test_proxy import CHAT, Proxy, chat, read_answer, request_bytes

ON = ("--answer_cache.bytes_max", "64MiB")
SCRIPT = pathlib.Path(__file__).resolve().parent / "answer_cache_client.mjs"
USAGE = {"prompt_tokens": 30, "completion_tokens": 2, "total_tokens": 32}


def cold(**more):
    return {**chat(), "temperature": 0, **more}


def event(data):
    return b"data: " + json.dumps(data).encode() + b"\n\n"


EVENTS = [
    event({"id": "c-1", "choices": [{"index": 0, "delta": {"content": "caf\u00e9"},
                                     "finish_reason": None}]}),
    event({"id": "c-1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}),
    event({"id": "c-1", "choices": [], "usage": USAGE}),
    b"data: [DONE]\n\n",
]


class AnswerCache(Proxy):
    def setUp(self):
        super().setUp()
        self.count = 0
        self.lock = threading.Lock()
        self.handler = self.usual
        self.worker = FakeWorker(self, lambda peer, request: self.handler(peer, request),
                                 models=("m", "n"))

    def number(self):
        with self.lock:
            self.count += 1
            return self.count

    def usual(self, peer, request):
        number = self.number()
        if request.json().get("stream"):
            peer.begin_stream()
            for one in EVENTS:
                peer.chunk(one)
            peer.end_stream()
            return
        peer.json({"id": f"c-{number}", "usage": USAGE,
                   "choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]})

    def serve_on(self, *options, **more):
        self.node = self.serve(self.worker, options=[*ON, *options], **more)

    def ask(self, body=None, headers=None, path=CHAT):
        """(what the node says of its cache, the answer's body)"""
        got = self.post(body if body is not None else cold(), headers, path)
        self.assertEqual(got.status, 200, got.text)
        return got.headers.get("x-cache"), got.body

    def settles(self, **counts):
        """What a request leaves behind is counted a moment after its client has the answer."""
        harness.wait_until(lambda: {name: self.metric(name) for name in counts} == counts,
                           f"the cache counts {counts}")

    def metric(self, name):
        return harness.metric(self.node.at("admin"), f"kvasir_answer_cache_{name}")

    def admin(self, method, path, body=None):
        return harness.request(self.node.at("admin"), method, path, body)

    def test_the_same_request_is_answered_once_by_an_engine(self):
        self.serve_on()
        said, first = self.ask()
        self.assertEqual(said, "MISS")
        for body in (cold(), json.dumps(cold(), indent=3),
                     json.dumps(dict(reversed(cold().items())))):
            got = self.post(body, {"content-type": "application/json"})
            self.assertEqual((got.status, got.headers["x-cache"], got.body), (200, "HIT", first))
            self.assertEqual(got.headers["content-type"], "application/json")
            self.assertLess(int(got.headers["age"]), 3600)
            self.assertIn("x-request-id", got.headers)
        self.assertEqual(json.loads(first)["usage"], USAGE)
        self.assertEqual(self.count, 1)
        self.settles(**{'lookups_total{result="hit"}': 3, 'lookups_total{result="miss"}': 1,
                        "answers": 1})
        self.assertGreater(self.metric("bytes"), len(first))

    def test_what_differs_is_another_request(self):
        self.serve_on()
        others = [cold(), cold(max_tokens=5), cold(stop=["x"]), cold(n=2), cold(stream=True),
                  cold(model="n"), cold(temperature=0.0), cold(user="u"), cold(cache_salt="s"),
                  cold(tools=[{"type": "function", "function": {"name": "f"}}]),
                  cold(response_format={"type": "json_object"})]
        for body in others:
            self.assertEqual(self.ask(body)[0], "MISS", body)
        for body in others:
            self.assertEqual(self.ask(body)[0], "HIT", body)
        for headers in ({"authorization": "Bearer a"}, {"authorization": "Bearer b"},
                        {"openai-organization": "o"}, {"anthropic-beta": "x"},
                        {"x-sglext-return-input-ids": "1"}):
            self.assertEqual(self.ask(headers=headers)[0], "MISS", headers)
            self.assertEqual(self.ask(headers=headers)[0], "HIT", headers)
        self.assertEqual(self.ask(headers={"user-agent": "u", "x-request-id": "r"})[0], "HIT")
        self.assertEqual(self.ask(path=CHAT + "?v=2")[0], "MISS")

    def test_an_engine_that_serves_another_model_by_the_name_is_asked(self):
        self.worker.facts = {"root": "/models/one"}
        self.serve_on("--health.models_interval", "50ms")
        self.assertEqual((self.ask()[0], self.ask()[0]), ("MISS", "HIT"))
        self.worker.facts = {"root": "/models/two"}
        harness.wait_until(lambda: self.ask()[0] == "MISS", "the other model is known")

    def test_what_is_no_function_of_the_request_passes_it_by(self):
        self.serve_on("--log.requests", "all")
        picture = [{"type": "image_url", "image_url": {"url": "http://pictures/1"}}]
        for body, why in ((chat(), "sampled"), ({**chat(), "temperature": 0.5}, "sampled"),
                          ({**chat(), "seed": 4}, "sampled"),
                          (cold(messages=[{"role": "user", "content": picture}]), "media"),
                          ('{"model":"m","temperature":0,"prompt":"a","n":1,"n":2}', "shape"),
                          (cold(web_search_options={}), "state")):
            for _ in range(2):
                self.assertEqual(self.ask(body)[0], "BYPASS", body)
            told = self.admin("POST", "/admin/explain", body).json()["answer_cache"]
            self.assertEqual(told, {"may": False, "why_not": why})
        self.assertEqual(self.admin("POST", "/admin/explain", cold()).json()["answer_cache"],
                         {"may": True, "why_not": ""})
        self.assertEqual(self.ask(path="/tokenize")[0], "BYPASS")
        self.assertEqual([self.metric(f'bypassed_total{{reason="{why}"}}') for why in
                          ("sampled", "media", "shape", "state", "path")], [6, 2, 2, 2, 1])
        self.settles(answers=0, flights=0)
        harness.wait_until(lambda: "cache=bypass cache_why=media" in self.node.log(), "a line")

    def test_a_seed_does_where_the_rule_says_so(self):
        self.serve_on("--answer_cache.seeded", "on")
        self.assertEqual([self.ask({**chat(), "seed": 4})[0] for _ in range(2)], ["MISS", "HIT"])
        self.assertEqual(self.ask({**chat(), "seed": 5})[0], "MISS")
        self.assertEqual(self.ask(chat())[0], "BYPASS")

    def test_embeddings_need_no_temperature(self):
        def embed(peer, _):
            peer.json({"id": self.number(), "data": [{"embedding": [0.5]}]})
        self.handler = embed
        self.serve_on()
        got = [self.ask({"model": "m", "input": ["a", "b"]}, path="/v1/embeddings")
               for _ in range(2)]
        self.assertEqual([said for said, _ in got], ["MISS", "HIT"])
        self.assertEqual(got[0][1], got[1][1])

    def test_a_client_may_want_it_anew_or_not_kept(self):
        self.serve_on()
        _, first = self.ask()
        said, second = self.ask(headers={"cache-control": "no-cache"})
        self.assertEqual(said, "MISS")
        self.assertNotEqual(first, second)
        self.assertEqual(self.ask(), ("HIT", second))
        self.assertEqual(self.ask(headers={"cache-control": "max-age=0, no-store"})[0], "BYPASS")
        self.assertEqual(self.ask(), ("HIT", second))

    def test_a_stream_comes_again_byte_for_byte(self):
        self.serve_on()
        body = cold(stream=True, stream_options={"include_usage": True})
        whole = b"".join(EVENTS)
        for said in ("MISS", "HIT", "HIT"):
            got = self.post(body)
            self.assertEqual((got.headers["x-cache"], got.body), (said, whole))
            self.assertEqual(got.headers["content-type"], "text/event-stream")
        # Who did not ask for usage does not get it, now and then.
        for said in ("MISS", "HIT"):
            got = self.post(cold(stream=True))
            self.assertEqual((got.headers["x-cache"], got.body),
                             (said, whole.replace(EVENTS[2], b"")))
        self.assertEqual(self.count, 2)

    def test_a_stream_that_began_with_a_comment_is_kept_without_it(self):
        go = threading.Event()

        def late(peer, request):
            go.wait(harness.IO_TIMEOUT_S)
            self.usual(peer, request)
        self.handler = late
        self.serve_on("--timeouts.keep_alive", "20ms")
        stream = harness.Stream(self.address, CHAT, cold(stream=True))
        self.addCleanup(stream.close)
        harness.wait_until(
            lambda: harness.metric(self.node.at("admin"), "kvasir_keep_alives_total") > 0,
            "a comment")
        go.set()
        list(stream.events())
        harness.wait_until(lambda: self.metric("answers") == 1, "it is kept")
        got = self.post(cold(stream=True))
        self.assertEqual(got.headers["x-cache"], "HIT")
        self.assertEqual(got.body, b"".join(EVENTS).replace(EVENTS[2], b""))

    def test_an_old_client_gets_it_and_its_answers_are_kept(self):
        self.serve_on()
        body = cold(stream=True)
        old = request_bytes(body).replace(b"HTTP/1.1", b"HTTP/1.0")
        first = harness.raw(self.address, old)
        again = harness.raw(self.address, old)
        self.assertIn(b"X-Cache: MISS", first)
        self.assertIn(b"X-Cache: HIT", again)
        self.assertEqual(first.partition(b"\r\n\r\n")[2], again.partition(b"\r\n\r\n")[2])
        self.assertEqual(self.ask(body)[0], "HIT")

    def used(self):
        rows = self.admin("GET", "/admin/status").json()["limits"]
        return {r["of"]: r["used"] for r in rows}

    def test_of_twenty_at_once_one_goes_to_an_engine(self):
        go = threading.Event()

        def late(peer, request):
            go.wait(harness.IO_TIMEOUT_S)
            self.usual(peer, request)
        for body in (cold(), cold(stream=True)):
            go.clear()
            self.handler = late
            self.serve_on("--limits.tenant_requests", "100/h", "--limits.tenant_tokens", "1000/h")
            before = self.count
            got = []
            threads = [threading.Thread(target=lambda b=body: got.append(self.ask(b)))
                       for _ in range(20)]
            for thread in threads:
                thread.start()
            harness.wait_until(lambda: self.metric("waits_total") == 19, "all wait")
            go.set()
            for thread in threads:
                thread.join(harness.IO_TIMEOUT_S)
            self.assertEqual(len({answer for _, answer in got}), 1)
            self.assertEqual(sorted(said for said, _ in got), ["HIT"] * 19 + ["MISS"])
            self.assertEqual(self.count, before + 1)
            harness.wait_until(lambda: self.used() == {"requests": 20, "tokens": 32},
                               "a hit spends a request, and no tokens")
            self.node.stop()

    def test_if_the_first_fails_the_others_go_on_by_themselves(self):
        go = threading.Event()

        def first_fails(peer, request):
            number = self.number()
            if number == 1:
                go.wait(harness.IO_TIMEOUT_S)
                peer.json({"error": {"message": "no"}}, 400)
                return
            peer.json({"choices": [{"finish_reason": "stop"}], "id": number})
        self.handler = first_fails
        self.serve_on()
        got = []
        threads = [threading.Thread(target=lambda: got.append(self.post(cold()).status))
                   for _ in range(5)]
        for thread in threads:
            thread.start()
        harness.wait_until(lambda: self.metric("waits_total") == 4, "four wait")
        go.set()
        for thread in threads:
            thread.join(harness.IO_TIMEOUT_S)
        self.assertEqual(sorted(got), [200] * 4 + [400])
        self.assertEqual(self.count, 5)
        self.settles(flights=0)

    def test_nobody_waits_longer_than_he_may(self):
        self.waits_no_longer("50ms")

    def test_nobody_waits_longer_than_he_wants(self):
        self.waits_no_longer("1h", {"x-request-timeout": "50ms"})

    def first_is_late(self):
        """The engine holds its first answer until the event that is returned."""
        go = threading.Event()
        self.addCleanup(go.set)

        def late(peer, request):
            number = self.number()
            if number == 1:
                go.wait(harness.IO_TIMEOUT_S)
            peer.json({"choices": [{"finish_reason": "stop"}], "id": number})
        self.handler = late
        return go

    def waits_no_longer(self, wait, headers=None):
        go = self.first_is_late()
        self.serve_on("--answer_cache.wait", wait)
        first = threading.Thread(target=self.ask)
        first.start()
        harness.wait_until(lambda: self.metric("flights") == 1, "the first is under way")
        self.assertEqual(json.loads(self.ask(headers=headers)[1])["id"], 2)
        go.set()
        first.join(harness.IO_TIMEOUT_S)
        self.assertEqual(json.loads(self.ask()[1])["id"], 1)

    def test_who_waits_when_nobody_is_to_any_more_goes_on(self):
        go = self.first_is_late()
        file = self.folder / "kvasir.yaml"
        file.write_text("answer_cache: {bytes_max: 64MiB, wait: 1h}\n")
        self.node = self.serve(self.worker, options=["-c", file])
        first = threading.Thread(target=self.ask)
        first.start()
        harness.wait_until(lambda: self.metric("flights") == 1, "the first is under way")
        second = self.connect()
        second.sendall(request_bytes(cold()))
        harness.wait_until(lambda: self.metric("waits_total") == 1, "the second waits")
        file.write_text("answer_cache: {bytes_max: 64MiB, wait: 0s}\n")
        self.assertEqual(self.admin("POST", "/admin/reload", {}).json()["applied"],
                         ["answer_cache.wait"])
        self.assertEqual(json.loads(read_answer(second)[2])["id"], 2)
        go.set()
        first.join(harness.IO_TIMEOUT_S)

    def test_who_leaves_leaves_no_trace(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def waits(peer, request):
            number = self.number()
            go.wait(harness.IO_TIMEOUT_S)
            peer.json({"choices": [{"finish_reason": "stop"}], "id": number})
        self.handler = waits
        self.serve_on("--limits.tenant_concurrent", "5")
        first, second = self.connect(), self.connect()
        first.sendall(request_bytes(cold()))
        harness.wait_until(lambda: self.metric("flights") == 1, "the first is under way")
        second.sendall(request_bytes(cold()))
        harness.wait_until(lambda: self.metric("waits_total") == 1, "the second waits")
        third = []
        waiter = threading.Thread(target=lambda: third.append(self.ask()))
        waiter.start()
        harness.wait_until(lambda: self.metric("waits_total") == 2, "the third waits")
        second.close()
        harness.wait_until(lambda: harness.metric(self.node.at("admin"),
                                                  'kvasir_requests_total{reason="cancelled"}') == 1, "it is gone")
        first.close()
        harness.wait_until(lambda: self.count == 2, "the third goes on by itself")
        go.set()
        waiter.join(harness.IO_TIMEOUT_S)
        self.assertEqual(third[0][0], "MISS")
        self.settles(answers=0, flights=0)
        harness.wait_until(lambda: self.used() == {"concurrent": 0}, "nothing is held")

    def broken(self, handler, body):
        self.handler = handler
        try:
            self.post(body)
        except (OSError, harness.http.client.HTTPException):
            pass  # it broke off
        self.settles(answers=0, flights=0)

    def test_only_whole_answers_are_kept(self):
        self.serve_on("--retries.streams", "off")

        def stream(*events, end=True):
            def handler(peer, _):
                peer.begin_stream()
                for one in events:
                    peer.chunk(one)
                if end:
                    peer.end_stream()
                else:
                    peer.close()
            return handler
        failed = event({"error": {"message": "out of memory"}})
        for handler in (stream(EVENTS[0], end=False), stream(*EVENTS, end=False),
                        stream(EVENTS[0], EVENTS[1]), stream(EVENTS[0], EVENTS[3]),
                        stream(EVENTS[0], failed, EVENTS[1], EVENTS[3])):
            self.broken(handler, cold(stream=True))

        def short(peer, _):
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                      "Content-Length: 200\r\n\r\n{\"choices\":[")
            peer.close()
        whole = {"choices": [{"finish_reason": "stop"}]}
        for handler in (short, lambda peer, _: peer.json({"choices": []}),
                        lambda peer, _: peer.json({"choices": [{"finish_reason": "abort"}]}),
                        lambda peer, _: peer.json(whole, 201), lambda peer, _: peer.json(whole, 500),
                        lambda peer, _: peer.answer(200, json.dumps(whole).encode(),
                                                    "Content-Encoding: gzip\r\n")):
            self.broken(handler, cold())
        self.handler = lambda peer, _: peer.json(whole)
        self.assertEqual((self.ask()[0], self.ask()[0]), ("MISS", "HIT"))

    def test_an_end_that_the_node_made_up_is_not_kept(self):
        self.serve_on()

        def all_but_the_end(peer, _):
            peer.begin_stream()
            for one in EVENTS[:3]:
                peer.chunk(one)
            peer.close()
        self.handler = all_but_the_end
        got = self.post(cold(stream=True))
        self.assertTrue(got.body.endswith(b"data: [DONE]\n\n"), got.body)
        self.settles(answers=0, flights=0)

    def test_what_is_too_large_is_passed_on_and_not_kept(self):
        large = {"choices": [{"finish_reason": "stop", "text": "x" * 100000}]}
        self.handler = lambda peer, _: peer.json(large)
        self.node = self.serve(self.worker, options=["--answer_cache.bytes_max", "1MiB"])
        for _ in range(2):
            said, body = self.ask()
            self.assertEqual((said, json.loads(body)), ("MISS", large))
        self.settles(unkept_total=2, answers=0)

    def test_an_answer_is_kept_for_its_time(self):
        self.serve_on("--answer_cache.ttl", "1ms")
        self.assertEqual(self.ask()[0], "MISS")
        harness.wait_until(lambda: self.ask()[0] == "MISS", "it is too old")
        self.assertGreaterEqual(self.metric('removed_total{reason="expired"}'), 1)

    def test_what_is_kept_survives_another_configuration(self):
        file = self.folder / "kvasir.yaml"

        def write(ttl, seeded):
            file.write_text("answer_cache:\n  bytes_max: 64MiB\n"
                            f"  ttl: {ttl}\n  seeded: {seeded}\n")
        write("1h", "off")
        self.node = self.serve(self.worker, options=["-c", file])
        self.assertEqual(self.ask()[0], "MISS")
        self.assertEqual(self.ask({**chat(), "seed": 1})[0], "BYPASS")
        write("1ms", "on")
        got = self.admin("POST", "/admin/reload", {}).json()
        self.assertEqual((got["applied"], got["restart"]),
                         (["answer_cache.ttl", "answer_cache.seeded"], []))
        self.assertEqual(self.ask()[0], "HIT")
        harness.wait_until(lambda: self.ask({**chat(), "seed": 1})[0] == "MISS", "seeds do")
        harness.wait_until(lambda: self.ask({**chat(), "seed": 1})[0] == "MISS", "it is too old")
        harness.wait_until(lambda: self.metric("stored_total") == self.count - 1,
                           "all are kept but the one that passed by")

    def test_tenants_are_apart_and_cleared_apart(self):
        lines = ["tenants:"]
        keys = {}
        for name in ("a", "b"):
            keys[name], line = self.run_once("kvasir", "key").stdout.split()
            lines += [f"  {name}:", "    keys:", f"      - {line}"]
        file = self.folder / "keys.yaml"
        file.write_text("\n".join(lines) + "\n")
        self.node = self.serve(self.worker.url + ",api_key=theirs", count=1,
                               options=[*ON, "--keys.file", file])

        def said(name, **more):
            return self.ask(cold(**more), {"authorization": f"Bearer {keys[name]}"})[0]
        self.assertEqual([said(name) for name in "abab"], ["MISS", "MISS", "HIT", "HIT"])
        said("a", model="n")

        def clear(body):
            got = self.admin("POST", "/admin/answer_cache/clear", body)
            self.assertEqual(got.status, 200, got.text)
            return got.json()["cleared"]
        self.settles(answers=3)
        self.assertEqual(clear({"tenant": "a", "model": "n"}), 1)
        self.assertEqual(clear({"tenant": "a"}), 1)
        self.assertEqual([said("b"), said("a")], ["HIT", "MISS"])
        said("b", model="n")
        self.settles(answers=3)
        self.assertEqual(clear({"model": "m"}), 2)
        self.assertEqual(said("b", model="n"), "HIT")
        self.assertEqual(clear({}), 1)
        for bad in ({"tenants": "a"}, {"tenant": 1}, "[]"):
            got = self.admin("POST", "/admin/answer_cache/clear", bad)
            self.assertEqual(got.status, 400, bad)
        shown = self.run_once("kvasir", "status", "--admin",
                              "%s:%d" % self.node.at("admin")).stdout
        self.assertIn("answers   0 kept", shown)

    def test_a_hit_needs_no_worker(self):
        self.serve_on()
        _, first = self.ask()
        self.worker.close()
        self.assertEqual(self.ask(), ("HIT", first))

    def test_an_alias_is_its_model(self):
        self.serve_on("--aliases", "nick=n")
        self.assertEqual(self.ask(cold(model="nick"))[0], "MISS")
        self.assertEqual(self.ask(cold(model="n"))[0], "HIT")
        self.assertEqual(self.ask(cold(model="m"))[0], "MISS")

    def test_messages_of_an_engine_that_knows_chats_are_kept_as_messages(self):
        def chats(peer, request):
            if request.target != CHAT:
                peer.json({"error": "none"}, 404)
                return
            self.usual(peer, request)
        self.handler = chats
        self.serve_on()
        for stream in (False, True):
            body = cold(max_tokens=9, stream=stream)
            got = [self.ask(body, path="/v1/messages") for _ in range(2)]
            self.assertEqual([said for said, _ in got], ["MISS", "HIT"])
            self.assertEqual(got[0][1], got[1][1])
            self.assertIn(b"message_stop" if stream else b"end_turn", got[0][1])

    def test_connections_go_on_after_a_hit(self):
        self.serve_on()
        self.ask()
        s = self.connect()
        s.sendall(request_bytes(cold()) * 3)
        rest = b""
        for _ in range(3):
            status, headers, _, rest = self.read(s, rest)
            self.assertEqual((status, headers["x-cache"]), (200, "HIT"))

    def read(self, s, data):
        class Joined:
            def recv(self, size):
                nonlocal data
                part, data = data, b""
                return part or s.recv(size)
        return read_answer(Joined())

    def test_the_official_client_reads_what_comes_again(self):
        modules = modules_of("openai", OPENAI)
        engine = self.start("kvasir-engine", "--port", "0", "--speed", "20")
        self.node = self.serve(engine.url("http"), count=1, options=ON)
        done = subprocess.run(["node", SCRIPT, modules, self.node.url("serve"),
                               "kvasir/stand-in"], capture_output=True, text=True,
                              timeout=CLIENT_TIMEOUT_S, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "whole MISS HIT\nstreamed MISS HIT\n")

    def test_check_says_who_shares_answers(self):
        def risks(*options):
            done = self.run_once("kvasir", "check", "--worker", self.worker.url, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            return "answer_cache: without keys.file" in done.stdout + done.stderr
        self.assertTrue(risks(*ON))
        self.assertFalse(risks(*ON, "--listen", "127.0.0.1:8080"))
        self.assertFalse(risks())

    def test_without_it_nothing_is_said_of_it(self):
        self.node = self.serve(self.worker)
        self.assertEqual([self.ask()[0] for _ in range(2)], [None, None])
        self.assertNotIn("answer_cache", self.admin("GET", "/admin/status").json())
        self.assertEqual(self.admin("POST", "/admin/answer_cache/clear", {}).status, 404)


if __name__ == "__main__":
    harness.main()
