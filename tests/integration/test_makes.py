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
        self.exact("sglang", 32, "--event-encoding", "array", "--block-size", "32")

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
                         {"model": "adapter"}, {"model": "adapter", "cache_salt": "s"}):
                cached, _ = self.complete(node, prompt, **more)
                self.assertEqual(cached, 192 if turn else 0, more)
                self.in_step(node, [engine])
        good, judged, wrong = self.right(self.decisions(node)[start:])
        self.assertEqual((good, judged), (8, 8), wrong)

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


if __name__ == "__main__":
    harness.main()
