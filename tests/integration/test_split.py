"""Prompts that one worker computes and another one goes on with: by vLLM's parameters, by
SGLang's rooms, and what becomes of a request of which either half fails."""
import http.client
import json
import threading

import harness
from fake_worker import Close, FakeWorker

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
LONG = "A long prompt is worth a second worker, and this sentence comes again. " * 60


class SplitCase(harness.Case):
    def node(self, workers, options=()):
        """workers: the options of each."""
        flags = [part for worker in workers for part in ("--worker", worker)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                          "127.0.0.1:0", "--placement_headers", "on",
                          "--breaker.failures", "100", *flags, *options)
        harness.wait_until(
            lambda: all(w["eligible"] and w["engine"] != "other" for w in self.workers(node)),
            "they are up and known")
        return node

    def workers(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()

    def ask(self, node, prompt=LONG, path=CHAT, headers=None, **more):
        body = {"model": "m", "max_tokens": 6,
                **({"prompt": prompt} if path == TEXT else
                   {"messages": [{"role": "user", "content": prompt}]}), **more}
        return harness.request(node.at("serve"), "POST", path, body, headers)

    def count(self, node, name):
        """`split`, or why it was not, or what failed."""
        reason = name.removeprefix("split_")
        family = ("split" if name == "split" else
                  "split_skipped" if reason in ("short", "form", "alone") else "split_failed")
        label = "" if name == "split" else f'{{reason="{reason}"}}'
        return harness.metric(node.at("admin"), f"kvasir_{family}_total{label}")

    def explain(self, node, prompt=LONG, **more):
        body = {"model": "m", "messages": [{"role": "user", "content": prompt}], **more}
        return harness.request(node.at("admin"), "POST", "/admin/explain", body).json()

    def nothing_is_left(self, node):
        def idle():
            return all(w["inflight"] == 0 and w["queued_tokens"] == 0
                       for w in self.workers(node))
        harness.wait_until(idle, "no lease is left")


class Engines(SplitCase):
    """Stand-in engines of both kinds."""

    def engine(self, make, part, *options, **env):
        return self.start("kvasir-engine", "--port", "0", "--engine", make, "--model", "m",
                          "--speed", "20", "--events", "0", "--replay", "0",
                          *(("--split", part) if part else ()), *options, **env)

    def worker(self, engine, role=None, name=None):
        more = f",role={role}" if role else ""
        if role == "prefill":
            more += f",bootstrap_port={engine.at('http')[1]}"
        return (f"{engine.url('http')},events={engine.url('events')},"
                f"replay={engine.url('replay')},id={name or role}{more}")

    def alone(self, make, **request):
        """What an engine answers that does all of it."""
        engine = self.start("kvasir-engine", "--port", "0", "--engine", make, "--model", "m",
                            "--speed", "20")
        answer = harness.request(engine.at("http"), "POST", CHAT, request)
        engine.stop()
        return answer

    def pair(self, make, *options, more=()):
        parts = ("both", "both") if make == "vllm" else ("prefill", "decode")
        self.prefill = self.engine(make, parts[0])
        self.decode = self.engine(make, parts[1])
        return self.node([self.worker(self.prefill, "prefill"),
                          self.worker(self.decode, "decode"), *more], options)

    def goes_through_both(self, make, by):
        node = self.pair(make)
        whole = self.alone(make, model="m", max_tokens=6,
                           messages=[{"role": "user", "content": LONG}]).json()
        answer = self.ask(node)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.json()["choices"], whole["choices"])
        self.assertEqual(answer.headers["x-kvasir-worker"], "decode")
        self.assertEqual(answer.headers["x-kvasir-prefill-worker"], "prefill")
        self.assertEqual(self.count(node, "split"), 1)
        told = harness.decision(node, answer)
        self.assertEqual((told["worker"], told["prefill"]), ("decode", "prefill"))
        self.assertEqual(told["cached_tokens"], 0, "what was passed on was not cached")
        self.assertEqual(harness.metric(self.prefill.at("http"), self.generated(make)), 1)
        self.assertEqual(harness.metric(self.decode.at("http"), self.generated(make)), 6)

        again = self.explain(node, prompt=LONG + "Something else. " * 300)
        self.assertEqual(again["worker"], "decode")
        self.assertEqual(again["split"]["by"], by)
        self.assertEqual(again["split"]["prefill"]["worker"], "prefill")
        verdicts = {c["worker"]: c["verdict"] for c in again["candidates"]}
        self.assertEqual(verdicts, {"decode": "chosen", "prefill": "other role"})

        stream = harness.Stream(node.at("serve"), CHAT, {
            "model": "m", "stream": True, "max_tokens": 6,
            "messages": [{"role": "user", "content": "More. " + LONG}]})
        chunks = list(stream.chunks())
        self.assertGreater(len(chunks), 5)
        self.assertEqual(self.count(node, "split"), 2)
        for failed in ("prefill", "params_missing", "params_refused", "decode"):
            self.assertEqual(self.count(node, f"split_{failed}"), 0)
        self.nothing_is_left(node)
        return node

    @staticmethod
    def generated(make):
        return f"{make}:generation_tokens_total"

    def test_vllm_gets_parameters(self):
        self.goes_through_both("vllm", "params")

    def test_sglang_meets_in_a_room(self):
        self.goes_through_both("sglang", "room")

    def test_a_short_rest_is_computed_where_the_answer_is_made(self):
        node = self.pair("vllm")
        short = self.ask(node, prompt="Hello.")
        self.assertEqual(short.status, 200)
        self.assertEqual(short.headers["x-kvasir-worker"], "decode")
        self.assertNotIn("x-kvasir-prefill-worker", short.headers)
        self.assertEqual((self.count(node, "split"), self.count(node, "split_short")), (0, 1))
        self.assertEqual(self.explain(node, prompt="Hello.")["split"]["why_not"],
                         "too little is to be computed")
        first = self.ask(node)
        self.assertIn("x-kvasir-prefill-worker", first.headers)

        def held():
            told = self.explain(node)
            return told["split"].get("why_not") and all(
                c["source"] == "mirror" for c in told["candidates"] if c["worker"] == "decode")
        harness.wait_until(held, "the decode worker's events say that it has the prompt")
        again = self.ask(node)
        self.assertNotIn("x-kvasir-prefill-worker", again.headers)
        self.assertEqual(again.headers["x-kvasir-source"], "mirror")
        self.assertEqual(self.count(node, "split_short"), 2)
        told = harness.decision(node, again)
        self.assertGreater(told["cached_tokens"], 500)
        self.assertEqual(told["cached_tokens"], told["predicted_tokens"])

    def test_the_prefill_half_goes_where_the_prefix_is(self):
        engines = [self.engine("vllm", "both") for _ in range(3)]
        node = self.node([self.worker(engines[0], "prefill", "p0"),
                          self.worker(engines[1], "prefill", "p1"),
                          self.worker(engines[2], "decode")])
        first = self.ask(node, prompt=LONG)
        home = first.headers["x-kvasir-prefill-worker"]

        def held():
            # The decode worker holds it, too; so ask for more than that.
            told = self.explain(node, prompt=LONG + "And then more of it. " * 200)["split"]
            return told["prefill"]["worker"] == home and told["prefill"]["overlap"] > 500
        harness.wait_until(held, "its events say that it has the prefix")
        for turn in range(3):
            answer = self.ask(node, prompt=LONG + f"And then {turn}. " * 300)
            self.assertEqual(answer.headers["x-kvasir-prefill-worker"], home)
            told = harness.decision(node, answer)
            self.assertGreater(told["cached_tokens"], 500, "of the prefill worker")

    def test_others_than_chats_go_to_who_can_do_all_of_it(self):
        node = self.pair("vllm")
        answer = harness.request(node.at("serve"), "POST", "/v1/embeddings",
                                 {"model": "m", "input": LONG})
        self.assertEqual(answer.status, 200)
        answer = self.ask(node, kv_transfer_params={"do_remote_decode": True})
        self.assertEqual(answer.status, 200)
        self.assertNotIn("x-kvasir-prefill-worker", answer.headers)
        self.assertEqual(self.count(node, "split"), 0)
        self.assertGreaterEqual(self.count(node, "split_form"), 1)

    def test_sglang_halves_serve_nothing_alone(self):
        node = self.pair("sglang")
        answer = harness.request(node.at("serve"), "POST", "/v1/embeddings",
                                 {"model": "m", "input": LONG})
        self.assertEqual(answer.status, 503)
        short = self.ask(node, prompt="Hello.")
        self.assertEqual(short.status, 200, short.text)
        self.assertIn("x-kvasir-prefill-worker", short.headers)

    def test_a_prefill_worker_that_dies_leaves_it_to_the_other(self):
        node = self.pair("vllm")
        self.prefill.freeze()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask(node)))
        thread.start()
        harness.wait_until(lambda: self.count(node, "split") == 1, "it is sent")
        self.prefill.kill()
        thread.join()
        self.assertEqual(answers[0].status, 200, answers[0].text)
        self.assertEqual(len(answers[0].json()["choices"][0]["message"]["content"].split()), 6)
        self.assertEqual(self.count(node, "split_prefill"), 1)
        self.assertEqual(harness.decision(node, answers[0])["attempts"], 2)
        self.nothing_is_left(node)

    def test_a_room_whose_prefill_worker_dies_is_left(self):
        undivided = self.start("kvasir-engine", "--port", "0", "--engine", "sglang",
                               "--model", "m", "--speed", "20")
        node = self.pair("sglang", more=[f"{undivided.url('http')},id=whole"])
        self.prefill.freeze()
        answers = []
        thread = threading.Thread(target=lambda: answers.append(self.ask(node)))
        thread.start()
        harness.wait_until(lambda: self.count(node, "split") == 1, "it is sent")
        self.prefill.kill()
        thread.join()
        self.assertEqual(answers[0].status, 200, answers[0].text)
        self.assertEqual(answers[0].headers["x-kvasir-worker"], "whole")
        self.nothing_is_left(node)

    def test_a_room_with_another_prefill_worker_is_opened_again(self):
        third = self.engine("sglang", "prefill")
        node = self.pair("sglang", more=[self.worker(third, "prefill", "third")])
        for engine in (self.prefill, third):
            harness.request(engine.at("http"), "POST", "/chaos",
                            {"fail_status": 500, "fail_count": 1})
        answer = self.ask(node)
        self.assertEqual(answer.status, 502, "both were tried")
        self.assertEqual(self.count(node, "split"), 2)
        harness.request(self.prefill.at("http"), "POST", "/chaos",
                        {"fail_status": 500, "fail_count": 0})
        harness.request(third.at("http"), "POST", "/chaos",
                        {"fail_status": 500, "fail_count": 1})
        for turn in range(4):
            answer = self.ask(node, prompt=f"{turn} " + LONG)
            self.assertEqual(answer.status, 200, answer.text)
        self.nothing_is_left(node)

    def test_a_stream_whose_decode_worker_dies_goes_on_at_one_that_does_all_of_it(self):
        node = self.pair("vllm")
        body = {"model": "m", "stream": True, "max_tokens": 12, "temperature": 0,
                "messages": [{"role": "user", "content": LONG}]}
        whole = self.alone("vllm", **{**body, "stream": False}).json()
        harness.request(self.decode.at("http"), "POST", "/chaos",
                        {"die_after_tokens": 5, "die_count": 1})
        stream = harness.Stream(node.at("serve"), CHAT, body)
        self.addCleanup(stream.close)
        text = "".join(choice["delta"].get("content") or ""
                       for chunk in stream.chunks() for choice in chunk["choices"])
        self.assertEqual(text, whole["choices"][0]["message"]["content"])
        self.assertEqual((self.count(node, "split"), harness.metric(node.at("admin"), "kvasir_resumed_total")), (1, 1))
        self.nothing_is_left(node)

    def test_a_decode_worker_that_dies_is_replaced(self):
        for make in ("vllm", "sglang"):
            with self.subTest(make=make):
                parts = ("both", "both") if make == "vllm" else ("prefill", "decode")
                engines = [self.engine(make, parts[0]), self.engine(make, parts[1]),
                           self.engine(make, parts[1])]
                node = self.node([self.worker(engines[0], "prefill"),
                                  self.worker(engines[1], "decode", "d1"),
                                  self.worker(engines[2], "decode", "d2")])
                for engine in engines[1:]:
                    harness.request(engine.at("http"), "POST", "/chaos",
                                    {"die_after_tokens": 0, "die_count": 1})
                answer = self.ask(node)
                # One that ends its engine ends two.
                self.assertEqual(answer.status, 502, answer.text)
                self.assertEqual(self.count(node, "split_decode"),
                                 1 if make == "vllm" else 2)
                harness.request(engines[1].at("http"), "POST", "/chaos",
                                {"die_after_tokens": 0, "die_count": 1})
                for turn in range(3):
                    answer = self.ask(node, prompt=f"{turn} " + LONG)
                    self.assertEqual(answer.status, 200, answer.text)
                self.nothing_is_left(node)

    def test_a_client_that_leaves_frees_both(self):
        for make in ("vllm", "sglang"):
            with self.subTest(make=make):
                node = self.pair(make)
                self.prefill.freeze()
                connection = harness.connect(node.at("serve"))
                harness.send(connection, "POST", CHAT, {
                    "model": "m", "messages": [{"role": "user", "content": LONG}]})
                harness.wait_until(lambda: self.count(node, "split") == 1, "it is sent")
                connection.close()
                self.nothing_is_left(node)
                self.prefill.signal(18)  # SIGCONT
                for engine in (self.prefill, self.decode):
                    harness.wait_until(
                        lambda e=engine: harness.metric(
                            e.at("http"), f"{make}:num_requests_running"
                            if make == "vllm" else "sglang:num_running_reqs") == 0,
                        "the engine does nothing")

    def test_a_slow_transfer_only_takes_its_time(self):
        parts = {"vllm": ("both", "both"), "sglang": ("prefill", "decode")}
        for make, (first, second) in parts.items():
            with self.subTest(make=make):
                prefill = self.engine(make, first)
                decode = self.engine(make, second, "--transfer-tps", "1000")
                node = self.node([self.worker(prefill, "prefill"),
                                  self.worker(decode, "decode")])
                answer = self.ask(node)
                self.assertEqual(answer.status, 200, answer.text)
                told = harness.decision(node, answer)
                tokens = told["prompt_tokens"]
                # At 20 times the speed; on top of computing it.
                self.assertGreaterEqual(told["first_byte_us"], tokens * 1000 / 20)
                self.nothing_is_left(node)


def is_half(request):
    return request.json().get("kv_transfer_params", {}).get("do_remote_decode") is True


class Answers(SplitCase):
    """Workers whose every byte is decided here; both say that they are vLLM."""

    PARAMS = {"do_remote_prefill": True, "do_remote_decode": False,
              "remote_block_ids": [[3, 1, 2]], "remote_engine_id": "e",
              "remote_host": "10.0.0.1", "remote_port": 5600, "more": 1.50}

    def setUp(self):
        super().setUp()
        self.halves, self.asked = [], []
        self.half = lambda peer: peer.json({
            "choices": [], "usage": {"prompt_tokens": 900, "completion_tokens": 1,
                                     "prompt_tokens_details": {"cached_tokens": 64}},
            "kv_transfer_params": self.PARAMS})
        self.answer = lambda peer: peer.json({
            "choices": [{"index": 0}],
            "usage": {"prompt_tokens": 900, "completion_tokens": 2,
                      "prompt_tokens_details": {"cached_tokens": 899}}})

        def prefill(peer, request):
            self.halves.append(request)
            self.half(peer)

        def decode(peer, request):
            self.asked.append(request)
            self.answer(peer)
        self.prefill = FakeWorker(self, prefill)
        self.decode = FakeWorker(self, decode)

    def start_node(self, *options):
        return self.node([f"{self.prefill.url},role=prefill,id=p",
                          f"{self.decode.url},role=decode,id=d"], options)

    def test_each_half_is_asked_what_it_is_to_do(self):
        node = self.start_node()
        answer = self.ask(node, stream=True, stream_options={"include_usage": True},
                          min_tokens=3, max_completion_tokens=9, temperature=0.25,
                          headers={"x-request-id": "mine"})
        self.assertEqual(answer.status, 200)
        half, other = self.halves[0].json(), self.asked[0].json()
        self.assertEqual(half.pop("kv_transfer_params"), {
            "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
            "remote_block_ids": None, "remote_host": None, "remote_port": None})
        self.assertEqual(other.pop("kv_transfer_params"), self.PARAMS)
        self.assertIn(json.dumps(self.PARAMS).encode(), self.asked[0].body,
                      "byte for byte")
        self.assertEqual(other["stream"], True)
        self.assertEqual(half, {**other, "stream": False, "stream_options": None,
                                "max_tokens": 1, "max_completion_tokens": 1,
                                "min_tokens": 0})
        for request in (self.halves[0], self.asked[0]):
            self.assertEqual(request.headers["x-request-id"], "mine")

    def test_what_was_passed_on_does_not_count_as_cached(self):
        node = self.start_node()
        answer = self.ask(node)
        self.assertEqual(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"], 899)
        told = harness.decision(node, answer)
        self.assertEqual((told["prompt_tokens"], told["cached_tokens"]), (900, 64))
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_cached_tokens_total"), 64)

    def test_a_completion_without_a_number_asks_for_one_token(self):
        node = self.start_node()
        self.ask(node, path=TEXT, max_tokens=None)
        body = self.halves[0].json()
        self.assertEqual(body["max_tokens"], 1)
        self.assertEqual(self.halves[0].json()["prompt"], LONG)

    def does_it_alone(self, node, counter):
        answer = self.ask(node)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(len(self.halves), 1)
        self.assertNotIn("kv_transfer_params", self.asked[-1].json())
        self.assertEqual(self.count(node, counter), 1)
        self.nothing_is_left(node)

    def test_no_parameters(self):
        for params in (None, "text", [1], 7):
            with self.subTest(params=params):
                self.halves.clear()
                self.half = lambda peer, p=params: peer.json({"kv_transfer_params": p})
                self.does_it_alone(self.start_node(), "split_params_missing")

    def test_an_answer_that_is_no_json(self):
        self.half = lambda peer: peer.answer(200, b'{"kv_transfer_params": {"a": ')
        self.does_it_alone(self.start_node(), "split_params_missing")

    def test_an_answer_in_chunks(self):
        def chunks(peer):
            text = json.dumps({"x": "y" * 3000, "kv_transfer_params": self.PARAMS}).encode()
            peer.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for at in range(0, len(text), 701):
                peer.chunk(text[at:at + 701])
            peer.end_stream()
        self.half = chunks
        self.ask(self.start_node())
        self.assertEqual(self.asked[0].json()["kv_transfer_params"], self.PARAMS)

    def test_an_answer_that_is_too_large(self):
        self.half = lambda peer: peer.json({"x": "y" * (1 << 20),
                                            "kv_transfer_params": self.PARAMS})
        self.does_it_alone(self.start_node(), "split_prefill")

    def test_statuses_of_the_prefill_worker(self):
        for status in (400, 404, 429, 500, 503):
            with self.subTest(status=status):
                self.halves.clear()
                self.half = lambda peer, s=status: peer.json({"error": {}}, s)
                self.does_it_alone(self.start_node(), "split_prefill")

    def test_a_connection_that_closes(self):
        def close(_):
            raise Close
        self.half = close
        self.does_it_alone(self.start_node(), "split_prefill")

    def test_an_answer_that_breaks_off(self):
        def cut(peer):
            peer.send('HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"kv_transfer')
            raise Close
        self.half = cut
        self.does_it_alone(self.start_node(), "split_prefill")

    def test_one_that_says_nothing_in_time(self):
        self.half = lambda peer: peer.wait_closed()
        self.does_it_alone(self.start_node("--timeouts.first_byte", "300ms"),
                           "split_prefill")

    def test_nobody_listens(self):
        node = self.start_node("--health.interval", "1h")
        self.prefill.close()
        answer = self.ask(node)
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.count(node, "split_prefill"), 1)

    def test_parameters_that_the_decode_worker_refuses(self):
        for status in (400, 422, 500):
            with self.subTest(status=status):
                self.halves.clear()
                self.asked.clear()

                def answer(peer, s=status):
                    passed = "kv_transfer_params" in self.asked[-1].json()
                    peer.json({"error": {}}, s) if passed else peer.json({"choices": []})
                self.answer = answer
                node = self.start_node()
                got = self.ask(node)
                self.assertEqual(got.status, 200)
                self.assertEqual(len(self.asked), 2)
                self.assertEqual(self.count(node, "split_params_refused"), 1)
                self.nothing_is_left(node)

    def test_what_the_decode_worker_refuses_anyway_is_the_clients(self):
        self.answer = lambda peer: peer.json({"error": {"message": "too long"}}, 400)
        node = self.start_node()
        got = self.ask(node)
        self.assertEqual((got.status, got.json()["error"]["message"]), (400, "too long"))

    def test_one_that_ends_its_engine_ends_two(self):
        def close(_):
            raise Close
        self.half = close
        self.answer = close
        node = self.start_node()
        got = self.ask(node)
        self.assertEqual(got.status, 502)
        self.assertEqual((len(self.halves), len(self.asked)), (1, 1))
        self.nothing_is_left(node)

    def test_a_kept_connection_that_has_ended_is_replaced(self):
        def and_close(peer):
            peer.json({"kv_transfer_params": self.PARAMS})
            raise Close
        node = self.start_node()
        self.half = and_close
        for turn in range(3):
            got = self.ask(node, prompt=f"{turn} " + LONG)
            self.assertEqual(got.status, 200)
        self.assertEqual(self.count(node, "split_prefill"), 0)
        self.assertEqual(len(self.halves), 3)

    def test_a_stream_by_chance_whose_decode_worker_dies_is_severed(self):
        def breaks(peer):
            peer.begin_stream()
            peer.chunk(b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"a"}}]}\n\n')
            raise Close
        self.answer = breaks
        node = self.start_node()
        with self.assertRaises((http.client.IncompleteRead, ConnectionError)):
            list(harness.Stream(node.at("serve"), CHAT, {
                "model": "m", "stream": True,
                "messages": [{"role": "user", "content": LONG}]}).events())
        self.nothing_is_left(node)


class Rooms(SplitCase):
    """Workers whose every byte is decided here; both say that they are SGLang."""

    def test_a_kept_connection_that_has_ended_is_replaced_beside_the_other_half(self):
        """The half that answers was sent already, and goes on."""
        halves, asked = [], []
        computed = threading.Semaphore(0)

        def prefill(peer, request):
            halves.append(request)
            if len(halves) == 2:
                harness.wait_until(lambda: len(asked) == 2, "the other half is sent")
                raise Close
            peer.json({"choices": []})
            computed.release()

        def decode(peer, request):
            asked.append(request)
            self.assertTrue(computed.acquire(timeout=harness.IO_TIMEOUT_S))
            peer.json({"choices": [{"index": 0}]})
        workers = [FakeWorker(self, prefill), FakeWorker(self, decode)]
        for worker in workers:
            worker.facts = {"owned_by": "sglang"}
            worker.metrics = b"sglang:num_running_reqs 0\n"
        node = self.node([f"{workers[0].url},role=prefill,id=p",
                          f"{workers[1].url},role=decode,id=d"], ["--lanes", "1"])
        for turn in range(2):
            got = self.ask(node, prompt=f"{turn} " + LONG)
            self.assertEqual(got.status, 200, got.text)
        self.assertEqual((len(halves), len(asked)), (3, 2))
        self.assertEqual(self.count(node, "split_prefill"), 0)
        self.nothing_is_left(node)


class Checks(harness.Case):
    def check(self, *workers):
        flags = [part for worker in workers for part in ("--worker", worker)]
        return self.run_once("kvasir", "check", *flags)

    def test_a_role_that_is_none(self):
        done = self.check("http://a:1,role=prefil")
        self.assertEqual(done.returncode, 2)
        self.assertIn("expected both, prefill or decode, not \"prefil\"", done.stderr)

    def test_half_a_pair(self):
        done = self.check("http://a:1,role=prefill", "http://b:1")
        self.assertEqual(done.returncode, 0)
        self.assertIn("a:1 has the role prefill, and no worker here has the role decode",
                      done.stdout + done.stderr)
        done = self.check("http://a:1,role=prefill", "http://b:1,role=decode")
        self.assertNotIn("has the role", done.stdout + done.stderr)


if __name__ == "__main__":
    harness.main()
