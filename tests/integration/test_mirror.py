"""A node that mirrors engines: what it predicts is what they report, through
evictions, restarts, lost events, ranks and renderers."""
import concurrent.futures
import http.server
import itertools
import json
import pathlib
import queue
import random
import signal
import threading
import time
import unittest

import certs
import harness


class MirrorCase(harness.Case):
    def engine(self, name, *flags):
        return self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                          "--name", name, "--speed", "20", *flags)

    def serve(self, engines, *flags, keys="", live=True):
        workers = []
        for i, engine in enumerate(engines):
            urls = f"{engine.url('http')},id=e{i},events={engine.url('events')}"
            if "replay" in engine.ready:
                urls += f",replay={engine.url('replay')}"
            workers += ["--worker", urls + keys]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--events.probe", "200ms", "--events.replay_timeout", "500ms",
                          *workers, *flags)
        harness.wait_until(lambda: all(w["eligible"] for w in self.workers(node)), "workers up")
        harness.wait_until(lambda: not live or all(s["state"] == "live" for s in self.streams(node)),
                           "streams are live")
        return node

    def workers(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()

    def status(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/status").json()

    def uptime(self, node):
        return self.status(node)["uptime_s"]

    def streams(self, node):
        return [dict(stream, worker=w["id"]) for w in self.workers(node) for stream in w["events"]]

    def decisions(self, node, count=100000):
        # A request is written down right after its last byte has left.
        harness.wait_until(lambda: self.status(node)["requests"]["inflight"] == 0, "all is over")
        found = harness.request(node.at("admin"), "GET", f"/admin/decisions?count={count}").json()
        return found[::-1]

    def complete(self, node, prompt, **more):
        """One completion: (cached tokens, headers)."""
        answer = harness.request(node.at("serve"), "POST", "/v1/completions",
                                 {"model": more.pop("model", self.model(node)), "prompt": prompt,
                                  "max_tokens": more.pop("max_tokens", 2), **more},
                                 headers=more.pop("headers", None))
        self.assertEqual(answer.status, 200, answer.text)
        usage = answer.json()["usage"]
        return (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0), answer.headers

    def chat(self, node, messages, **more):
        answer = harness.request(node.at("serve"), "POST", "/v1/chat/completions",
                                 {"model": self.model(node), "messages": messages,
                                  "max_tokens": 8, **more})
        self.assertEqual(answer.status, 200, answer.text)
        return answer

    def model(self, node):
        models = harness.request(node.at("serve"), "GET", "/v1/models").json()["data"]
        return models[0]["id"]

    def cache(self, engine, rank=0):
        """What the engine's rank holds (keys), and how many batches it has published."""
        return harness.request(engine.at("http"), "GET", "/chaos/cache",
                               headers={"X-Data-Parallel-Rank": str(rank)}).json()

    def in_step(self, node, engines):
        """Waits until the node has applied every batch the engines published."""
        def same():
            for stream in self.streams(node):
                cache = self.cache(engines[int(stream["worker"][1:])], stream["rank"])
                sent = cache["next_seq"]
                if stream["state"] != "live" or sent and stream["seq"] != sent - 1:
                    return False
                # Batch 0 is also the one before the first.
                if sent == 1 and cache["keys"] and not stream["blocks"]:
                    return False
            return True
        harness.wait_until(same, "the mirror is in step")

    def warm(self, node, engines):
        """An engine's block size is known from its first events on; how many
        decisions that took."""
        rng = random.Random(1)
        while not all(s["block_tokens"] for s in self.streams(node)):
            self.complete(node, [rng.randrange(1000, 9000) for _ in range(40)])
            taken = len(self.decisions(node))
            self.assertLess(taken, 500, "some engine never got a request")
        self.in_step(node, engines)
        return len(self.decisions(node))

    def judged(self, decisions):
        """Decisions whose prediction can be held against an answer."""
        return [d for d in decisions if d["source"] == "mirror" and d["whole"]
                and d["cached_known"] and d["status"] == 200]

    def right(self, decisions):
        judged = self.judged(decisions)
        good = [d for d in judged if d["predicted_tokens"] == d["cached_tokens"]]
        wrong = [d for d in judged if d["predicted_tokens"] != d["cached_tokens"]]
        return len(good), len(judged), wrong


def prompts(seed, count, groups=6, length=40):
    """Token-id prompts of a few families with shared beginnings."""
    rng = random.Random(seed)
    roots = [[rng.randrange(1000, 9000) for _ in range(16 * length)] for _ in range(groups)]
    made = []
    for _ in range(count):
        root = rng.choice(roots)
        shared = rng.randrange(1, len(root))
        own = [rng.randrange(1000, 9000) for _ in range(rng.randrange(1, 200))]
        made.append(root[:shared] + own)
    return made


def common(a, b, size=16):
    """The tokens of whole blocks that a hit of prompt a could have of prompt b."""
    same = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
    return min(same, len(a) - 1) // size * size


def conversations(seed, count, talks=8, system=160):
    """Prompts of conversations under one system prompt: each is the one before
    it with a turn more, the same again, or a beginning of it."""
    rng = random.Random(seed)
    shared = [rng.randrange(1000, 9000) for _ in range(system)]
    talk = [shared + [rng.randrange(1000, 9000) for _ in range(150)] for _ in range(talks)]
    made = []
    for _ in range(count):
        own = talk[rng.randrange(talks)]
        what = rng.randrange(4)
        if what > 1:
            own += [rng.randrange(1000, 9000) for _ in range(rng.randrange(1, 120))]
        made.append(own[:rng.randrange(1, len(own))] if what == 0 else list(own))
    return made


class Quiet(MirrorCase):
    def test_every_prediction_is_right_when_the_engine_is_quiet(self):
        engines = [self.engine(f"engine-{i}", "--blocks", "200") for i in range(2)]
        node = self.serve(engines)
        start = self.warm(node, engines)
        for prompt in prompts(1, 60):
            self.complete(node, prompt)
            self.in_step(node, engines)
        good, judged, wrong = self.right(self.decisions(node)[start:])
        self.assertEqual((good, judged), (60, 60), wrong[:3])
        evicted = sum(sum(s["counters"].get("blocks_removed", 0) for s in w["events"])
                      for w in self.workers(node))
        self.assertGreater(evicted, 0, "the caches were never full")

    def limited_by_windows(self, *flags):
        engine = self.engine("engine-1", "--blocks", "600", "--window", "100",
                             "--window-groups", "2", *flags)
        node = self.serve([engine])
        start = self.warm(node, [engine])
        asked = []
        limited = 0
        for prompt in conversations(3, 80):
            cached, _ = self.complete(node, prompt)
            self.in_step(node, [engine])
            limited += cached < max((common(prompt, other) for other in asked), default=0)
            asked.append(prompt)
        decisions = self.decisions(node)[start:]
        good, judged, wrong = self.right(decisions)
        self.assertEqual((good, judged), (80, 80), wrong[:3])
        self.assertGreater(limited, 10, "windows never made a hit shorter")
        stream, = self.streams(node)
        self.assertEqual((stream["window_groups"], stream["window_blocks"]), (2, 7))
        self.assertGreater(stream["counters"].get("blocks_removed", 0), 0)

    def test_sliding_windows_limit_predictions_as_they_limit_hits(self):
        self.limited_by_windows()

    def test_so_do_windows_of_blocks_that_the_next_token_names(self):
        self.limited_by_windows("--lookahead", "1")

    def test_it_is_learned_that_an_engine_computes_the_last_block_again(self):
        engine = self.engine("engine-1", "--blocks", "4000", "--eagle", "on")
        node = self.serve([engine])
        start = self.warm(node, [engine])
        before = 0
        for asked, prompt in enumerate(conversations(5, 60), start=1):
            self.complete(node, prompt)
            self.in_step(node, [engine])
            if not self.streams(node)[0]["recomputes_last_block"]:
                before = asked
        decisions = self.decisions(node)[start:]
        self.assertLess(before, 40)
        for d in decisions[:before]:
            self.assertIn(d["predicted_tokens"] - d["cached_tokens"], (0, 16))
        good, judged, wrong = self.right(decisions[before + 1:])
        self.assertEqual((good, judged), (59 - before, 59 - before), wrong[:3])
        self.assertGreater(sum(d["cached_tokens"] for d in decisions[before + 1:]), 0)

    def test_hashes_that_cover_the_token_behind_a_block_are_followed(self):
        """Prompts part right behind a block: there the engine has a block for each of them."""
        engine = self.engine("engine-1", "--blocks", "60", "--lookahead", "1")
        node = self.serve([engine])
        start = self.warm(node, [engine])
        shared = list(range(1000, 1320))
        for turn in range(60):
            after = 2000 + turn % 7
            self.complete(node, [*shared, *range(after, after + 8 + 24 * (turn % 3))])
            self.in_step(node, [engine])
        decisions = self.decisions(node)[start:]
        good, judged, wrong = self.right(decisions)
        self.assertEqual((good, judged), (60, 60), wrong[:3])
        self.assertIn(304, [d["cached_tokens"] for d in decisions], "one block less was cached")
        stream, = self.streams(node)
        self.assertEqual((stream["lookahead_tokens"], stream["block_tokens"]), (1, 16))
        self.assertFalse(stream["recomputes_last_block"])
        self.assertGreater(stream["counters"].get("blocks_removed", 0), 0)

    def test_a_chat_is_tokenised_by_its_engine(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s")
        start = self.warm(node, [engine])
        messages = [{"role": "system", "content": "You are a helpful assistant. " * 40}]
        for turn in range(4):
            messages.append({"role": "user", "content": f"Question {turn}: why? " * 10})
            answer = self.chat(node, messages).json()
            messages.append({"role": "assistant",
                             "content": answer["choices"][0]["message"]["content"]})
            self.in_step(node, [engine])
        decisions = self.decisions(node)[start:]
        good, judged, wrong = self.right(decisions)
        self.assertGreaterEqual(judged, 1)
        self.assertEqual(good, judged, wrong[:3])
        self.assertTrue(all(d["source"] == "mirror" for d in decisions), decisions)
        self.assertGreater(decisions[-1]["cached_tokens"], 0)

    def ready(self, node):
        return harness.request(node.at("serve"), "GET", "/ready").status

    def test_a_node_is_ready_when_its_engines_have_told_what_they_hold(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        first = self.serve([engine])
        self.warm(first, [engine])
        harness.request(engine.at("http"), "POST", "/chaos", {"events_stalled": 1})
        node = self.serve([engine], "--mesh.ready", "1h", "--events.replay_timeout", "10m",
                          live=False)
        self.assertEqual(self.ready(node), 503)
        self.assertEqual(self.ready(first), 200, "who was ready stays so")
        harness.request(engine.at("http"), "POST", "/chaos", {"events_stalled": 0})
        harness.wait_until(lambda: self.ready(node) == 200, "the replay came")
        self.assertGreater(self.streams(node)[0]["blocks"], 0)

    def test_a_replay_that_does_not_come_keeps_nobody_waiting_for_long(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        harness.request(engine.at("http"), "POST", "/chaos", {"events_stalled": 1})
        node = self.serve([engine], "--mesh.ready", "500ms", live=False)
        harness.wait_until(lambda: self.ready(node) == 200, "its time is over")

    def test_salts_are_kept_apart(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        start = self.warm(node, [engine])
        prompt = list(range(1000, 1400))
        for salt in ("alice", "bob", "alice", None, "bob"):
            more = {} if salt is None else {"cache_salt": salt}
            self.complete(node, prompt, **more)
            self.in_step(node, [engine])
        decisions = self.decisions(node)[start:]
        self.assertEqual([d["predicted_tokens"] for d in decisions], [0, 0, 384, 0, 384])
        self.assertEqual(self.right(decisions)[:2], (5, 5))

    def test_of_a_prompt_whose_own_tokens_are_scored_nothing_is_predicted(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        start = self.warm(node, [engine])
        prompt = list(range(1000, 1400))
        for more in ({}, {"prompt_logprobs": 0}, {"echo": True, "logprobs": 1}, {"echo": True}):
            self.complete(node, prompt, **more)
            self.in_step(node, [engine])
        decisions = self.decisions(node)[start:]
        self.assertEqual([d["predicted_tokens"] for d in decisions], [0, 0, 0, 384])
        self.assertEqual([d["cached_tokens"] for d in decisions], [0, 0, 0, 384])
        self.assertTrue(all(d["source"] == "mirror" for d in decisions), decisions)

    def test_remembered_tokens_that_promised_too_much_are_asked_for_again(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s", "--lanes", "1")
        self.warm(node, [engine])
        count = lambda name: harness.metric(node.at("admin"), f"kvasir_{name}_total")
        messages = [{"role": "user", "content": "Why is the sky blue? " * 40}]
        self.chat(node, messages)
        self.in_step(node, [engine])
        harness.request(engine.at("http"), "POST", "/chaos", {"events_stalled": 1})
        harness.request(engine.at("http"), "POST", "/reset_prefix_cache")
        asked = count("tokens_asked")
        self.chat(node, messages)
        self.assertEqual(count("tokens_asked"), asked, "they were remembered")
        harness.wait_until(lambda: count("tokens_wrong") == 1, "they are forgotten")
        self.chat(node, messages)
        self.assertEqual(count("tokens_asked"), asked + 1)

    def test_an_earlier_turn_is_remembered_by_every_lane(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s", "--lanes", "8")
        self.warm(node, [engine])
        metrics = lambda: harness.request(node.at("admin"), "GET", "/metrics").text
        messages = [{"role": "user", "content": "Why is the sky blue? " * 40}]
        for _ in range(9):  # each by a connection of its own
            self.chat(node, messages)
            messages = [*messages, {"role": "assistant", "content": "It is."},
                        {"role": "user", "content": "Why?"}]
        self.assertIn('kvasir_tokens_known_total{part="some"} 8\n', metrics())

    def test_a_conversation_longer_than_belief_is_looked_up_to_there(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s", "--belief.depth_max", "16")
        start = self.warm(node, [engine])
        messages = [{"role": "user", "content": "Why is the sky blue? " * 100}]
        for _ in range(3):
            self.chat(node, messages)
            self.in_step(node, [engine])
        decisions = self.decisions(node)[start:]
        self.assertEqual([d["predicted_tokens"] for d in decisions], [0, 256, 256])
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_tokens_asked_total"), 1)

    def test_tokens_that_came_while_the_node_stood_still_are_not_late(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "200ms", "--lanes", "1")
        self.warm(node, [engine])
        self.addCleanup(engine.signal, signal.SIGCONT)
        self.addCleanup(node.signal, signal.SIGCONT)
        numbers = itertools.count()

        def count(name):
            return harness.metric(node.at("admin"), f"kvasir_tokens_{name}_total")

        def has_answered():
            """Bytes of the engine lie in a socket of the node."""
            rows = [row.split() for row in pathlib.Path("/proc/net/tcp").read_text().splitlines()]
            return any(row[2].endswith(f":{engine.at('http')[1]:04X}")
                       and not row[4].endswith(":00000000") for row in rows[1:])

        def was_in_time():
            late, asked = count("late"), count("asked")
            engine.freeze()
            client = threading.Thread(target=self.chat, args=(node, [
                {"role": "user", "content": f"{next(numbers)} Why is the sky blue? " * 40}]))
            client.start()
            harness.wait_until(lambda: count("asked") == asked + 1, "an engine is asked")
            node.freeze()
            end = time.monotonic() + 0.3
            engine.signal(signal.SIGCONT)
            harness.wait_until(has_answered, "the engine has answered")
            harness.wait_until(lambda: time.monotonic() > end, "the time is over")
            node.signal(signal.SIGCONT)
            client.join()
            return count("late") == late  # else it was late before the node stood still
        harness.wait_until(was_in_time, "tokens that came meanwhile are used")

    def after_reset(self, node, engine, where):
        """What is predicted of, and cached for, the same prompt before and
        three times after a reset that is asked for there."""
        start = self.warm(node, [engine])
        prompt = list(range(1000, 1400))
        for asked in range(4):
            self.complete(node, prompt)
            self.in_step(node, [engine])
            if asked == 0:
                answer = harness.request(where, "POST", "/reset_prefix_cache")
                self.assertEqual(answer.status, 200, answer.text)
            if asked == 0 and where == node.at("serve"):
                harness.wait_until(lambda: self.streams(node)[0]["trust"] == 0, "it is known")
        taken = [d for d in self.decisions(node)[start:] if d["total"] == 400]
        return [(d["predicted_tokens"], d["cached_tokens"]) for d in taken]

    def test_a_reset_that_an_engine_tells_late_is_known_by_the_first_answer(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        self.assertEqual(self.after_reset(node, engine, engine.at("http")),
                         [(0, 0), (384, 0), (384, 384), (384, 384)])

    def test_a_reset_that_passes_through_a_node_is_known_at_once(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--paths", "/reset_prefix_cache")
        self.assertEqual(self.after_reset(node, engine, node.at("serve")),
                         [(0, 0), (0, 0), (384, 384), (384, 384)])
        self.assertEqual(self.streams(node)[0]["trust"], 1)

    def test_a_node_that_comes_late_knows_what_was_before(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        first = self.serve([engine])
        prompt = list(range(1000, 1400))
        self.complete(first, prompt)
        late = self.serve([engine])
        self.in_step(late, [engine])
        self.complete(late, prompt)
        self.assertEqual(self.decisions(late)[-1]["predicted_tokens"], 384)
        self.assertEqual(self.right(self.decisions(late))[:2], (1, 1))

    def test_status_and_metrics_say_how_right_the_node_was(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        self.warm(node, [engine])
        for prompt in prompts(2, 10):
            self.complete(node, prompt)
            self.in_step(node, [engine])
        # An answer is compared right after its last byte has left.
        harness.wait_until(lambda: self.status(node)["events"][0]["answers"] >= 10, "all counted")
        row = self.status(node)["events"][0]
        self.assertEqual((row["worker"], row["rank"], row["state"]), ("e0", 0, "live"))
        self.assertEqual(row["answers"], row["exact"])
        page = harness.metrics(node.at("admin"))
        labels = '{worker="e0",rank="0"}'
        self.assertEqual(page["kvasir_accuracy_exact_total" + labels], row["exact"])
        self.assertEqual(page["kvasir_mirror_worker_blocks" + labels], row["blocks"])
        self.assertEqual(page["kvasir_events_live" + labels], 1)
        self.assertEqual(page['kvasir_expected_blocks{by="tokens"}'], 0)
        self.assertGreater(page["kvasir_mirror_writer_records_total"], 0)
        shown = self.run_once("kvasir", "status", "--admin", node.ready["admin"]).stdout
        self.assertRegex(shown, r"(?m)^predicted 100.0 % of \d+ exactly;")
        self.assertRegex(shown, r"(?m)^e0 +healthy .* live$")

    def test_explain_tells_the_mirror_from_belief(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        prompt = list(range(1000, 1400))
        self.complete(node, prompt)
        self.in_step(node, [engine])
        said = harness.request(node.at("admin"), "POST", "/admin/explain",
                               {"model": self.model(node), "prompt": prompt}).json()
        self.assertEqual((said["unit"], said["total"], said["overlap"]), ("tokens", 400, 384))
        self.assertEqual(said["candidates"][0]["source"], "mirror")
        chat = {"model": self.model(node), "messages": [{"role": "user", "content": "hi " * 200}]}
        self.chat(node, chat["messages"])
        self.in_step(node, [engine])
        said = harness.request(node.at("admin"), "POST", "/admin/explain", chat).json()
        self.assertEqual(said["unit"], "tokens")
        self.assertGreater(said["overlap"], 0)

    def test_a_broken_engine_is_not_believed_to_hold_what_it_refused(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        self.warm(node, [engine])
        prompt = list(range(1000, 1400))

        def explained():
            return harness.request(node.at("admin"), "POST", "/admin/explain",
                                   {"model": self.model(node), "prompt": prompt}).json()
        for status in (400, 503):
            harness.request(engine.at("http"), "POST", "/chaos",
                            {"fail_status": status, "fail_count": 1})
            harness.request(node.at("serve"), "POST", "/v1/completions",
                            {"model": self.model(node), "prompt": prompt})
            harness.wait_until(lambda: self.decisions(node)[-1]["total"] == 400, "it is over")
            self.assertEqual(explained()["overlap"], 0, status)
            page = harness.metrics(node.at("admin"))
            self.assertEqual(page['kvasir_expected_blocks{by="tokens"}'], 0, status)
        self.complete(node, prompt)
        self.in_step(node, [engine])
        self.assertEqual(explained()["overlap"], 384)


    def picture_talks(self, flags, source):
        """Conversations alike but for their pictures, in turns, at two engines;
        the decisions of each."""
        engines = [self.engine(f"engine-{i}", "--blocks", "4000", *flags) for i in range(2)]
        node = self.serve(engines, "--tokens.wait", "5s")
        start = self.warm(node, engines)
        question = {"type": "text", "text": "What is in this picture, and why is it there? " * 20}
        found = []
        for path in ("/v1/chat/completions", "/v1/responses"):
            urls = [f"data:image/png;base64,{who}{len(path)}AA" for who in "abc"]
            pictures = [{"type": "image_url", "image_url": {"url": url}}
                        for url in [*urls, f"https://images{path}/d.png"]]
            talks = [[{"role": "user", "content": [picture, question]}] for picture in pictures]
            for turn in range(4):
                for messages in talks:
                    prompt = {"messages": messages} if "chat" in path else {"input": messages}
                    answer = harness.request(node.at("serve"), "POST", path, {
                        "model": self.model(node), **prompt})
                    self.assertEqual(answer.status, 200, answer.text)
                    self.in_step(node, engines)
                    messages += [{"role": "assistant", "content": f"I see {turn}. " * 10},
                                 {"role": "user", "content": "And then? " * 20}]
            taken = self.decisions(node)[start:]
            start += len(taken)
            found += [taken[who::4] for who in range(4)]
        for decisions in found:
            self.assertEqual({d["source"] for d in decisions}, {source})
            self.assertEqual(len({d["worker"] for d in decisions}), 1, decisions)
            self.assertLess(decisions[0]["cached_tokens"], 200)
            self.assertTrue(all(d["cached_tokens"] > 200 for d in decisions[1:]), decisions)
        return found

    def test_conversations_with_pictures_stay_at_their_worker(self):
        """By text and the digests of the pictures."""
        self.picture_talks(("--scale-out", "off"), "belief")

    def test_pictures_that_a_renderer_names_are_predicted(self):
        for decisions in self.picture_talks((), "mirror"):
            good, judged, wrong = self.right(decisions)
            self.assertEqual(good, judged, wrong)
            self.assertGreaterEqual(judged, 1)

    def test_every_api_is_predicted_by_its_renderer(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s")
        self.warm(node, [engine])
        say = [{"role": "user", "content": "hello " * 60}]
        turn = [*say, {"role": "assistant", "content": "Well."},
                {"role": "user", "content": "why? " * 20}]
        for path, body in (
                ("/v1/messages", {"system": "Be brief. " * 40, "messages": say}),
                ("/v1/messages", {"system": "Be brief. " * 40, "messages": say}),
                ("/v1/messages", {"system": "Be brief. " * 40, "messages": turn}),
                ("/v1/responses", {"instructions": "Be kind. " * 40, "input": say}),
                ("/v1/responses", {"instructions": "Be kind. " * 40, "input": turn}),
                ("/v1/responses", {"input": "hello " * 60}),
                ("/v1/chat/completions", {"messages": say})):
            answer = harness.request(node.at("serve"), "POST", path, {
                "model": self.model(node), "max_tokens": 1, **body})
            usage = answer.json()["usage"]
            cached = (usage.get("cache_read_input_tokens")
                      if "messages" in path else
                      (usage.get("input_tokens_details") or usage.get("prompt_tokens_details"))
                      ["cached_tokens"])
            placed = next(d for d in self.decisions(node)
                          if d["id"] == answer.headers["x-request-id"])
            self.assertEqual((placed["source"], placed["predicted_tokens"]), ("mirror", cached),
                             f"{path} {usage}")
            self.in_step(node, [engine])
        # The last three are one prompt: an input's text is a message of the user's.
        self.assertGreater(cached, 0)
        self.assertEqual(harness.metric(
            node.at("admin"), 'kvasir_tokens_wrong_total{by="memory"}'), 0)

    def test_what_tokens_do_not_name_is_routed_by_its_text(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s")
        self.warm(node, [engine])
        text = {"type": "text", "text": "what is this? " * 30}
        cat = {"type": "image_url", "image_url": {"url": "http://images/cat.png"}}
        model = self.model(node)
        for path, body, source in (
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": [text]}]},
                 "mirror"),
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": [cat, text]}]},
                 "mirror"),
                ("/v1/completions", {"prompt": ["hello " * 60, "world " * 60]}, "belief"),
                ("/v1/responses", {"input": "hello " * 60, "conversation": "c"}, "belief"),
                ("/v1/embeddings", {"input": "hello " * 60}, "belief"),
                ("/v1/embeddings", {"input": list(range(100))}, "mirror"),
                ("/v1/rerank", {"query": "hello " * 60, "documents": ["a"]}, "belief")):
            with self.subTest(path=path, source=source):
                answer = harness.request(node.at("serve"), "POST", path,
                                         {"model": model, "max_tokens": 4, **body})
                placed = [d for d in self.decisions(node)
                          if d["id"] == answer.headers["x-request-id"]]
                self.assertEqual([d["source"] for d in placed], [source], answer.text)
        asked = harness.request(node.at("admin"), "GET", "/metrics").text
        self.assertIn("kvasir_tokens_asked_total 2\n", asked)
        self.assertIn('kvasir_tokens_known_total{part="all"} 0\n', asked)
        for name in ('tokens_failed_total{reason="refused"}', 'tokens_failed_total{reason="busy"}', "tokens_open",
                     "tokens_evicted_total"):
            self.assertIn(f"kvasir_{name} 0\n", asked)
        counted = harness.metrics(node.at("admin"))
        self.assertEqual(counted["kvasir_tokens_cache_turns"], 2)
        self.assertGreater(counted["kvasir_tokens_cache_bytes"], 0)


    def test_a_policy_that_ignores_overlap_asks_nobody_for_tokens(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "5s", "--policy", "least_load")
        self.warm(node, [engine])
        self.chat(node, [{"role": "user", "content": "hello there " * 60}])
        metrics = harness.request(node.at("admin"), "GET", "/metrics").text
        self.assertIn("kvasir_tokens_asked_total 0\n", metrics)

    def test_tokens_are_asked_for_by_the_policy_of_the_model(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        for usual, own, source in (("least_load", "kvasir", "mirror"),
                                   ("kvasir", "cache_aware", "belief")):
            with self.subTest(usual=usual, own=own):
                node = self.serve([engine], "--tokens.wait", "5s", "--policy", usual,
                                  "--policy.models", f"kvasir/stand-in={own}")
                self.warm(node, [engine])
                body = {"model": "kvasir/stand-in", "prompt": f"{own} policy " * 60}
                self.complete(node, body["prompt"])
                self.in_step(node, [engine])
                said = harness.request(node.at("admin"), "POST", "/admin/explain", body).json()
                _, headers = self.complete(node, body["prompt"])
                self.assertEqual((headers["x-kvasir-source"], headers["x-kvasir-overlap"]),
                                 (source, f"{said['overlap']}/{said['total']}"))
                self.assertGreater(said["overlap"], 0)


class Trouble(MirrorCase):
    def test_a_restarted_engine_is_known_to_be_empty(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        prompt = list(range(1000, 1400))
        self.complete(node, prompt)
        self.in_step(node, [engine])
        epoch = self.streams(node)[0]["epoch"]
        harness.request(engine.at("http"), "POST", "/chaos", {"restart": 1})
        harness.wait_until(lambda: self.streams(node)[0]["epoch"] != epoch
                           and self.streams(node)[0]["blocks"] == 0, "the restart was seen")
        cached, _ = self.complete(node, prompt)
        self.assertEqual(cached, 0)
        self.assertEqual(self.decisions(node)[-1]["predicted_tokens"], 0)

    def test_lost_messages_are_replayed(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        start = self.warm(node, [engine])
        family = prompts(3, 20, groups=1)
        for i, prompt in enumerate(family):
            if i % 3 == 0:
                harness.request(engine.at("http"), "POST", "/chaos", {"event_drop_count": 1})
            self.complete(node, prompt)
            self.in_step(node, [engine])
        good, judged, wrong = self.right(self.decisions(node)[start:])
        self.assertEqual((good, judged), (20, 20), wrong[:3])
        counters = self.streams(node)[0]["counters"]
        self.assertGreater(counters["gaps"] + counters["replays"], 0)

    def test_a_lost_tail_is_found_by_looking(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine])
        self.warm(node, [engine])
        prompt = list(range(1000, 1400))
        harness.request(engine.at("http"), "POST", "/chaos", {"event_drop_count": 50})
        self.complete(node, prompt)
        harness.request(engine.at("http"), "POST", "/chaos", {"event_drop_count": 0})
        self.in_step(node, [engine])
        self.complete(node, prompt)
        self.assertEqual(self.decisions(node)[-1]["predicted_tokens"], 384)

    def test_an_engine_that_sends_nothing_is_reported(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        harness.request(engine.at("http"), "POST", "/chaos", {"events": 0})
        node = self.serve([engine], "--events.silence", "300ms")
        begun = self.uptime(node)

        def asked_little_for_a_while():
            self.complete(node, [1, 2, 3])
            return self.uptime(node) > begun + 3
        harness.wait_until(asked_little_for_a_while, "several looks at the silence")
        self.assertNotIn("events_silent", node.log(), "nothing fills a block")

        def asked_and_heard():
            self.complete(node, list(range(1000, 1100)))
            return "events_silent" in node.log()
        harness.wait_until(asked_and_heard, "the silence is reported")

    def test_an_engine_with_nothing_new_to_tell_is_not_reported(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--events.silence", "300ms")
        prompt = list(range(1000, 1100))
        self.complete(node, prompt)
        self.in_step(node, [engine])
        begun = self.uptime(node)

        def asked_for_a_while():
            self.complete(node, prompt)
            return self.uptime(node) > begun + 4
        harness.wait_until(asked_for_a_while, "several looks at the silence")
        self.assertNotIn("events_silent", node.log())
        harness.request(engine.at("http"), "POST", "/chaos", {"events": 0})
        rng = random.Random(2)

        def asked_and_heard():
            self.complete(node, [rng.randrange(1000, 9000) for _ in range(100)])
            return "events_silent" in node.log()
        harness.wait_until(asked_and_heard, "the silence is reported")

    def test_a_wrong_topic_is_named(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--events.silence", "300ms", keys=",topic=wrong")

        def asked_and_heard():
            self.complete(node, list(range(1000, 1100)))
            return "another topic" in node.log()
        harness.wait_until(asked_and_heard, "the topic is reported")

    def test_text_is_used_where_no_engine_tokenises_in_time(self):
        engine = self.engine("engine-1", "--blocks", "4000")
        node = self.serve([engine], "--tokens.wait", "0")
        messages = [{"role": "user", "content": "hello there " * 60}]
        self.chat(node, messages)
        # Its text is learned when its answer begins, and told by the time it is written down.
        harness.wait_until(lambda: self.decisions(node), "it is written down")
        answer = self.chat(node, messages)
        self.assertEqual(answer.headers["x-kvasir-source"], "belief")
        matched, _, total = answer.headers["x-kvasir-overlap"].partition("/")
        self.assertEqual(matched, total)


class Ranks(MirrorCase):
    def test_a_request_goes_to_the_rank_that_holds_it(self):
        engine = self.engine("engine-1", "--blocks", "4000", "--ranks", "3")
        node = self.serve([engine], keys=",ranks=3")
        for rank in range(3):  # an idle engine would choose the first each time
            harness.request(engine.at("http"), "POST", "/v1/completions",
                            {"model": self.model(node), "prompt": list(range(50))},
                            headers={"X-Data-Parallel-Rank": str(rank)})
        self.warm(node, [engine])
        # Of equals any is chosen: of few families all may come to one rank.
        families = prompts(5, 40, groups=20)
        for prompt in families:
            self.complete(node, prompt)
            self.in_step(node, [engine])
        self.assertGreater(len({d["rank"] for d in self.decisions(node)}), 1)
        again = families[-1]
        cached, _ = self.complete(node, again)
        self.assertGreater(cached, 0)


class Sidecar:
    """A stream of cache events over HTTP, as something beside an engine that
    publishes none could tell them."""

    def __init__(self, tls=None):
        events = self.events = queue.Queue()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                while (event := events.get()) is not None:
                    self.wfile.write(event.encode())
                    self.wfile.flush()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # who does not trust it hangs up
        self.scheme = "http"
        if tls is not None:
            self.scheme = "https"
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True,
                                                 do_handshake_on_connect=False)
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.sent = 0

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server.server_address[1]}/events"

    def tell(self, kind, **data):
        self.events.put(f"id: {self.sent}\nevent: {kind}\ndata: {json.dumps(data)}\n\n")
        self.sent += 1

    def close(self):
        self.events.put(None)
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Sidecars(MirrorCase):
    def test_events_of_a_sidecar_feed_the_same_mirror(self):
        engine = self.start("kvasir-engine", "--port", "0", "--speed", "20")
        sidecar = Sidecar()
        self.addCleanup(sidecar.close)
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", f"{engine.url('http')},id=e0,sse={sidecar.url}")
        prompt = list(range(1000, 1100))
        keys = self.run_once("print_keys", 16, *prompt).stdout.split()

        def explained():
            said = harness.request(node.at("admin"), "POST", "/admin/explain",
                                   {"prompt": prompt}).json()
            row = next((r for r in said["candidates"] if r["worker"] == "e0"), {})
            return row.get("tokens"), row.get("overlap"), row.get("tier")

        for i, key in enumerate(keys):
            sidecar.tell("cache_created", prefix_hash=key, token_count=16 * (i + 1))
        harness.wait_until(lambda: explained() == (96, 96, "device"), "six blocks are known")
        counted = harness.metrics(node.at("admin"))
        self.assertEqual(counted['kvasir_sse_applied_total'], len(keys))
        self.assertEqual(counted['kvasir_sse_connects_total'], 1)
        sidecar.tell("cache_offloaded", prefix_hash=keys[5], token_count=96)
        harness.wait_until(lambda: explained() == (96, 92, "host"), "one is in host memory")
        sidecar.tell("cache_evicted", prefix_hash=keys[2], token_count=48)
        harness.wait_until(lambda: explained()[:2] == (32, 32), "a hole ends the prefix")
        sidecar.tell("cache_purged")
        harness.wait_until(lambda: explained()[:2] == (0, 0), "nothing is held")

    @unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
    def test_a_sidecar_by_https_must_show_who_it_is(self):
        shown = certs.Certs(type(self))
        engines = [self.start("kvasir-engine", "--port", "0", "--speed", "20") for _ in range(2)]
        found = {}
        for cert in ("one", "elsewhere"):
            found[cert] = Sidecar(shown.of_server(cert))
            self.addCleanup(found[cert].close)
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--tls.workers_ca_file", shown.path("ca.pem"),
                          "--worker", f"{engines[0].url('http')},id=e0,sse={found['one'].url}",
                          "--worker",
                          f"{engines[1].url('http')},id=e1,sse={found['elsewhere'].url}")
        keys = self.run_once("print_keys", 16, *range(1000, 1032)).stdout.split()
        found["one"].tell("cache_created", prefix_hash=keys[0], token_count=16)
        harness.wait_until(lambda: harness.metrics(node.at("admin")).get(
            'kvasir_sse_applied_total') == 1, "an event came")
        harness.wait_until(lambda: "its certificate is for another name" in node.log(),
                           "the other one is named")
        told = harness.metrics(node.at("admin"))
        self.assertEqual(told['kvasir_sse_connects_total'], 1)


class Loaded(MirrorCase):
    def test_predictions_hold_under_load_and_faults(self):
        """99 % while evictions, restarts and losses go on; all of them once
        the engines are quiet."""
        engines = [self.engine(f"engine-{i}", "--blocks", "1500") for i in range(3)]
        node = self.serve(engines, "--limits.decisions_max", "5000")
        start = self.warm(node, engines)
        work = prompts(7, 1500, groups=8, length=30)
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            for i, _ in enumerate(pool.map(lambda p: self.complete(node, p), work)):
                if i % 100 == 50:
                    harness.request(engines[i // 100 % 3].at("http"), "POST", "/chaos",
                                    {"event_drop_count": 2})
                if i == 700:
                    harness.request(engines[1].at("http"), "POST", "/chaos", {"restart": 1})
        loaded = self.decisions(node)
        good, judged, wrong = self.right(loaded[start:])
        print(f"\nunder load: {good} of {judged} predictions exact")
        self.assertGreaterEqual(judged, 1450)
        self.in_step(node, engines)
        before = len(loaded)
        for prompt in prompts(8, 20, groups=8, length=30):
            self.complete(node, prompt)
            self.in_step(node, engines)
        good_quiet, judged_quiet, wrong_quiet = self.right(self.decisions(node)[before:])
        print(f"quiet: {good_quiet} of {judged_quiet} predictions exact")
        self.assertEqual(good_quiet, judged_quiet, wrong_quiet[:3])
        self.assertGreaterEqual(good / judged, 0.99, wrong[:5])


if __name__ == "__main__":
    harness.main()
