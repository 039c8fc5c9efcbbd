"""A node before engines of every make: what it predicts from the events of
SGLang and TensorRT-LLM is what they report, and servers that publish nothing
keep their conversations."""

import harness
import test_mirror
from test_mirror import prompts


class Makes(test_mirror.MirrorCase):
    def exact(self, make, block, *flags):
        """60 prompts through two engines whose caches are too small for them."""
        engines = [self.engine(f"{make}-{i}", "--engine", make, "--blocks", str(3200 // block),
                               *flags) for i in range(2)]
        node = self.serve(engines)
        self.assertEqual({w["engine"] for w in self.workers(node)}, {make})
        start = self.warm(node, engines)
        self.assertEqual({s["block_tokens"] for s in self.streams(node)}, {block})
        for prompt in prompts(1, 60):
            self.complete(node, prompt, max_tokens=40)
            self.in_step(node, engines)
        good, judged, wrong = self.right(self.decisions(node)[start:])
        self.assertEqual((good, judged), (60, 60), wrong[:3])
        evicted = sum(sum(s["counters"].get("blocks_removed", 0) for s in w["events"])
                      for w in self.workers(node))
        self.assertGreater(evicted, 0, "the caches were never full")

    def test_every_prediction_of_sglang_is_right(self):
        self.exact("sglang", 16)

    def test_every_prediction_of_an_older_sglang_is_right(self):
        self.exact("sglang", 32, "--event-encoding", "array", "--block-size", "32",
                   "--replay-frames", "3")

    def test_every_prediction_of_tensorrt_llm_is_right(self):
        self.exact("trtllm", 32)

    def test_sglang_tells_salts_and_adapters(self):
        engine = self.engine("sglang", "--engine", "sglang", "--model", "base", "--model",
                             "adapter", "--blocks", "4000")
        node = self.serve([engine])
        start = self.warm(node, [engine])
        prompt = list(range(500, 700))
        for turn in range(2):
            for more in ({"model": "base"}, {"model": "base", "cache_salt": "s"},
                         {"model": "base:adapter"},
                         {"model": "base", "lora_path": "adapter", "cache_salt": "s"}):
                cached, _ = self.complete(node, prompt, **more)
                self.assertEqual(cached, 192 if turn else 0, more)
                self.in_step(node, [engine])
        cached, _ = self.complete(node, prompt, model="base", lora_path="adapter")
        self.assertEqual(cached, 192, "however the adapter is named")
        for model, blocks in (("base", 0), ("adapter", 192)):
            self.in_step(node, [engine])
            cached, _ = self.complete(node, list(range(900, 1100)), model=model)
            self.assertEqual(cached, blocks, "the base model's, by either name")
        good, judged, wrong = self.right(self.decisions(node)[start:])
        self.assertEqual((good, judged), (11, 11), wrong)

    def test_it_is_said_who_tells_the_tokens_of_chats(self):
        flags = (("vllm",), ("vllm", "--scale-out", "off"), ("sglang",), ("trtllm",))
        engines = [self.engine(f"engine-{i}", "--engine", *these)
                   for i, these in enumerate(flags)]
        node = self.serve(engines)
        wanted = ["exact", "tokenizer", "tokenizer", "none"]
        harness.wait_until(lambda: [w["renderer"] for w in self.workers(node)] == wanted, wanted)
        lines = [line for line in node.log().splitlines() if " renderer " in line]
        self.assertEqual(len(lines), 4, lines)
        self.assertEqual(["--enable-scale-out" in line for w in ("e0", "e1", "e2", "e3")
                          for line in lines if f"worker={w} " in line],
                         [False, True, False, False], lines)
        self.assertEqual(["tokens.dir" in line for w in ("e2", "e3")
                          for line in lines if f"worker={w} " in line], [True, True], lines)

    def test_a_chat_is_tokenised_by_sglang(self):
        engine = self.engine("sglang", "--engine", "sglang", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s")
        start = self.warm(node, [engine])
        messages = [{"role": "system", "content": "You are a helpful assistant. " * 40}]
        for turn in range(4):
            messages.append({"role": "user", "content": f"Question {turn}: why? " * 10})
            self.chat(node, messages)
            self.in_step(node, [engine])
        good, judged, wrong = self.right(self.decisions(node)[start:])
        self.assertGreaterEqual(judged, 1)  # of further turns, the beginning may be known alone
        self.assertEqual(good, judged, wrong)

    def test_a_restart_and_a_flush_of_sglang_are_followed(self):
        engine = self.engine("sglang", "--engine", "sglang", "--blocks", "4000")
        node = self.serve([engine])
        self.warm(node, [engine])
        prompt = list(range(500, 700))
        for end in (("POST", "/flush_cache", None), ("POST", "/chaos", {"restart": 1})):
            start = len(self.decisions(node))
            self.complete(node, prompt)
            self.in_step(node, [engine])
            self.complete(node, prompt)
            answer = harness.request(engine.at("http"), *end)
            self.assertEqual(answer.status, 200, answer.text)
            self.in_step(node, [engine])
            self.complete(node, prompt)
            self.in_step(node, [engine])
            taken = self.decisions(node)[start:]
            self.assertEqual([d["cached_tokens"] for d in taken][1:], [192, 0])
            self.assertEqual([d["predicted_tokens"] for d in taken][1:], [192, 0], taken)


class Plain(harness.Case):
    """Servers that publish no events."""

    def serve(self, make, count=2, *flags):
        self.engines = [self.start("kvasir-engine", "--port", "0", "--engine", make, "--name",
                                   f"{make}-{i}", "--speed", "20", *flags) for i in range(count)]
        workers = []
        for i, engine in enumerate(self.engines):
            workers += ["--worker", f"{engine.url('http')},id=e{i}"]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--health.metrics_interval", "50ms", *workers)
        harness.wait_until(lambda: all(w["eligible"] for w in self.workers(node)), "workers up")
        return node

    def workers(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()

    def decisions(self, node):
        harness.wait_until(lambda: harness.request(node.at("admin"), "GET", "/admin/status").json()
                           ["requests"]["inflight"] == 0, "all is over")
        found = harness.request(node.at("admin"), "GET", "/admin/decisions?count=1000").json()
        # Lanes tell of theirs one lane after the other, and two may be of one moment.
        return sorted(found, key=lambda d: (self.asked.index(d["id"]) if d["id"] in self.asked
                                            else -1, d["time_ms"]))

    def talk(self, node, conversations, turns, **more):
        """So many conversations, in turns, each turn of all of them."""
        self.asked = []
        said = [[{"role": "user", "content": f"{who}: let us begin. " * 60}]
                for who in range(conversations)]
        for _ in range(turns):
            for messages in said:
                answer = harness.request(node.at("serve"), "POST", "/v1/chat/completions",
                                         {"model": "kvasir/stand-in", "messages": messages,
                                          "max_tokens": 8, **more})
                self.assertEqual(answer.status, 200, answer.text)
                self.asked.append(answer.headers["x-request-id"])
                messages += [{"role": "assistant", "content": "I see."},
                             {"role": "user", "content": "And then? " * 10}]

    def test_conversations_stay_at_their_llama_cpp(self):
        node = self.serve("llamacpp")
        harness.wait_until(lambda: {w["engine"] for w in self.workers(node)} == {"llamacpp"},
                           "both are recognised")
        self.talk(node, conversations=4, turns=5)
        decisions = self.decisions(node)
        homes = [{d["worker"] for d in decisions[who::4]} for who in range(4)]
        self.assertEqual([len(home) for home in homes], [1] * 4, homes)
        self.assertTrue(all(d["cached_known"] for d in decisions))
        self.assertTrue(all(d["cached_tokens"] > 300 for d in decisions[4:]), decisions[4:])

    def test_a_stream_of_llama_cpp_tells_its_cached_tokens_unasked(self):
        node = self.serve("llamacpp", 1)
        self.talk(node, conversations=1, turns=2, stream=True)
        first, second = self.decisions(node)
        self.assertEqual([d["cached_known"] for d in (first, second)], [True, True])
        self.assertEqual(first["cached_tokens"], 0)
        self.assertGreater(second["cached_tokens"], 300)

    def test_clients_of_llama_cpp_keep_its_timings(self):
        node = self.serve("llamacpp", 1)
        for path, prompt in (("/v1/completions", {"prompt": "x"}),
                             ("/v1/chat/completions",
                              {"messages": [{"role": "user", "content": "x"}]})):
            answer = harness.request(node.at("serve"), "POST", path,
                                     {"max_tokens": 2, "stream": True, **prompt})
            *_, last, done, rest = answer.text.split("\n\n")
            self.assertEqual((done, rest), ("data: [DONE]", ""))
            self.assertIn('"timings":{"cache_n":0,', last, answer.text)

    def test_the_slots_of_llama_cpp_are_its_capacity_and_its_load(self):
        node = self.serve("llamacpp", 1, "--max-running", "3", "--max-model-len", "4096",
                          "--speed", "1")
        harness.wait_until(lambda: "worker_capacity" in node.log(), "the capacity is known")
        line = next(line for line in node.log().splitlines() if "worker_capacity" in line)
        self.assertIn(str(3 * 4096), line)
        stream = harness.Stream(self.engines[0].at("http"), "/v1/completions",
                                {"prompt": "x", "max_tokens": 4000, "stream": True})
        next(stream.events())
        try:
            harness.wait_until(lambda: self.workers(node)[0]["running"] == 1,
                               "its slot is busy")
        finally:
            stream.close()

    def test_tgi_and_transformers_keep_conversations_without_a_word_about_them(self):
        for make, kind in (("tgi", "tgi"), ("transformers", "other")):
            node = self.serve(make)
            self.talk(node, conversations=2, turns=4)
            decisions = self.decisions(node)
            homes = [{d["worker"] for d in decisions[who::2]} for who in range(2)]
            self.assertEqual([len(home) for home in homes], [1, 1], homes)
            self.assertFalse(any(d["cached_known"] for d in decisions))
            harness.wait_until(lambda: {w["engine"] for w in self.workers(node)} == {kind}, kind)


if __name__ == "__main__":
    harness.main()
