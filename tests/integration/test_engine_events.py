"""The events that kvasir-engine publishes: live, replayed, and gone wrong on
purpose."""
import collections
import random
import struct
import time

import harness

try:
    import kv_events
except ImportError:
    kv_events = None

TOKENS = 16  # of one block


@harness.unittest.skipIf(kv_events is None, "python3-zmq or python3-msgpack is missing")
class EventsCase(harness.Case):
    flags = ()

    def setUp(self):
        super().setUp()
        self.engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay",
                                 "0", "--speed", "200", *self.flags)
        self.http = self.engine.at("http")

    def ask(self, prompt, max_tokens=1, rank=None, **more):
        """One completion, to its end; how many tokens were cached."""
        body = {"prompt": prompt, "max_tokens": max_tokens, **more}
        headers = {} if rank is None else {"x-data-parallel-rank": str(rank)}
        answer = harness.request(self.http, "POST", "/v1/completions", body, headers)
        self.assertEqual(answer.status, 200, answer.text)
        return answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"]

    def chaos(self, **orders):
        answer = harness.request(self.http, "POST", "/chaos", orders)
        self.assertEqual(answer.status, 200, answer.text)

    def live(self, topic=""):
        """A subscriber that surely is one: it has seen a batch, which it
        returns besides."""
        live = kv_events.Live(self.engine.url("events"), topic)
        self.addCleanup(live.close)
        prompt = [9000000]

        def seen():
            prompt[0] += 1
            self.ask(prompt * TOKENS)
            return live.next(0.05)

        first = harness.wait_until(seen, "the first live batch")
        # Whoever asked more than once has more of them under way.
        last = kv_events.cache(self.http)[0] - 1
        while first[1] < last:
            first = live.next()
            self.assertIsNotNone(first)
        return live, first

    def dealer(self):
        replay = kv_events.Replay(self.engine.url("replay"))
        self.addCleanup(replay.close)
        return replay

    def replay(self, start=0):
        batches, end = self.dealer().collect(start)
        self.assertTrue(end)
        return batches

    def stream(self):
        """A long stream that has begun: over in minutes at --speed 1."""
        stream = harness.Stream(self.http, "/v1/completions",
                                {"prompt": "x", "max_tokens": 20000, "stream": True})
        self.addCleanup(stream.close)
        next(stream.events())
        return stream


class Live(EventsCase):
    flags = ("--event-topic", "kv@pod-1@m")

    def test_a_batch_has_topic_number_and_payload(self):
        live, (_, before, _) = self.live()
        start = time.time()
        self.ask(list(range(100, 100 + 3 * TOKENS)))
        topic, seq, payload = live.next()
        self.assertEqual(topic, b"kv@pod-1@m")
        self.assertEqual(seq, before + 1)
        self.assertEqual(payload[0], 0x93)
        self.assertEqual(payload[1], 0xcb)
        self.assertAlmostEqual(struct.unpack(">d", payload[2:10])[0], start, delta=60)
        rank, events = kv_events.events_of(payload)
        self.assertEqual(rank, 0)
        (event,) = events
        self.assertEqual(list(event), [
            "type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id",
            "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"])
        self.assertEqual(len(event["block_hashes"]), 3)
        self.assertEqual(event["token_ids"], list(range(100, 148)))
        self.assertEqual(event["block_size"], TOKENS)
        self.assertIsNone(event["parent_block_hash"])

    def test_a_prompt_that_goes_on_hangs_under_what_is_there(self):
        live, _ = self.live()
        prompt = list(range(500, 500 + 4 * TOKENS))
        self.ask(prompt[:2 * TOKENS])
        first = kv_events.events_of(live.next()[2])[1][0]
        self.ask(prompt)
        second = kv_events.events_of(live.next()[2])[1][0]
        self.assertEqual(second["parent_block_hash"], first["block_hashes"][-1])
        self.assertEqual(second["token_ids"], prompt[2 * TOKENS:])

    def test_generated_blocks_are_announced_too(self):
        live, _ = self.live()
        self.ask(list(range(700, 700 + TOKENS)), max_tokens=2 * TOKENS + 1)
        chain = [kv_events.events_of(live.next()[2])[1][0] for _ in range(3)]
        for before, after in zip(chain, chain[1:]):
            self.assertEqual(after["parent_block_hash"], before["block_hashes"][-1])

    def test_a_subscriber_of_another_topic_hears_nothing(self):
        other = kv_events.Live(self.engine.url("events"), "kv@pod-2")
        self.addCleanup(other.close)
        self.live("kv@pod-1")
        self.assertIsNone(other.next(0.1))

    def test_a_replay_has_the_topic_too_but_its_end_has_none(self):
        self.ask([5] * TOKENS)
        dealer = self.dealer()
        dealer.ask(0)
        self.assertEqual(dealer.frames()[:3], [b"", b"kv@pod-1@m", struct.pack(">Q", 0)])
        self.assertEqual(dealer.frames(), [b"", b"", b"\xff" * 8, b""])

    def test_a_reset_clears_all_and_is_told_with_the_next_step(self):
        live, _ = self.live()
        count = kv_events.cache(self.http)[0]
        answer = harness.request(self.http, "POST", "/reset_prefix_cache")
        self.assertEqual(answer.status, 200)
        self.assertEqual(kv_events.cache(self.http), (count, collections.Counter()))
        self.ask(list(range(2 * TOKENS)))
        self.assertEqual(kv_events.events_of(live.next()[2])[1][0], {"type": "AllBlocksCleared"})
        self.assertEqual(kv_events.replayed(self.replay()), kv_events.cache(self.http)[1])


class Namespaces(EventsCase):
    flags = ("--model", "base", "--model", "adapter")

    def stored(self, **more):
        self.ask(list(range(2 * TOKENS)), **more)
        last = self.replay(kv_events.cache(self.http)[0] - 1)
        return kv_events.events_of(list(last.values())[0])[1][0]

    def test_adapters_and_salts_are_told_as_extra_keys(self):
        plain = self.stored(model="base")
        self.assertEqual((plain["lora_id"], plain["lora_name"]), (None, None))
        self.assertEqual(plain["extra_keys"], [None, None])
        salted = self.stored(model="base", cache_salt="s\u00e4lz")
        self.assertEqual(salted["extra_keys"], [["s\u00e4lz"], None])
        adapted = self.stored(model="adapter")
        self.assertEqual((adapted["lora_id"], adapted["lora_name"]), (1, "adapter"))
        self.assertEqual(adapted["extra_keys"], [["adapter"], ["adapter"]])
        both = self.stored(model="adapter", cache_salt="s")
        self.assertEqual(both["extra_keys"], [["adapter", "s"], ["adapter"]])
        hashes = {tuple(e["block_hashes"]) for e in (plain, salted, adapted, both)}
        self.assertEqual(len(hashes), 4)

    def test_models_tell_whose_adapters_they_are(self):
        models = harness.request(self.http, "GET", "/v1/models").json()["data"]
        self.assertEqual([(m["id"], m["parent"]) for m in models],
                         [("base", None), ("adapter", "base")])


class Replay(EventsCase):
    def test_who_comes_late_gets_all_in_order(self):
        for i in range(5):
            self.ask([i + 1] * (2 * TOKENS))
        next_seq, keys = kv_events.cache(self.http)
        self.assertEqual(next_seq, 5)
        batches = self.replay()
        self.assertEqual(list(batches), [0, 1, 2, 3, 4])
        self.assertEqual(kv_events.replayed(batches), keys)

    def test_a_replay_is_the_same_bytes_as_live(self):
        live, _ = self.live()
        self.ask(list(range(3 * TOKENS)))
        _, seq, payload = live.next()
        self.assertEqual(self.replay(seq), {seq: payload})

    def test_in_sync_is_only_an_end_marker(self):
        self.ask([5] * TOKENS)
        self.assertEqual(self.replay(1), {})
        self.assertEqual(self.replay(77), {})

    def test_frames_are_those_of_todays_vllm(self):
        self.ask([5] * TOKENS)
        dealer = self.dealer()
        dealer.ask(0)
        frames = dealer.frames()
        self.assertEqual(frames[:3], [b"", b"", struct.pack(">Q", 0)])
        self.assertEqual(len(frames), 4)
        self.assertEqual(dealer.frames(), [b"", b"", b"\xff" * 8, b""])

    def test_what_is_no_request_is_ignored(self):
        dealer = self.dealer()
        self.ask([5] * TOKENS)
        for bad in ([b""], [struct.pack(">Q", 0)], [b"x", struct.pack(">Q", 0)],
                    [b"", b"\0" * 7], [b"", b"\0" * 9], [b"", struct.pack(">Q", 0), b""]):
            dealer.socket.send_multipart(bad)
        self.assertEqual(dealer.collect(1), ({}, True))
        self.assertIsNone(dealer.frames(0.05))

    def test_several_may_ask_at_once(self):
        for i in range(3):
            self.ask([i + 1] * TOKENS)
        dealers = [self.dealer() for _ in range(4)]
        for dealer in dealers:
            dealer.ask(0)
            dealer.ask(1)
        for dealer in dealers:
            seqs = [struct.unpack(">Q", dealer.frames()[-2])[0] for _ in range(7)]
            self.assertEqual(seqs, [0, 1, 2, kv_events.END, 1, 2, kv_events.END])


class Long(EventsCase):
    flags = ("--replay-hwm", "0", "--blocks", "1000")

    def test_a_long_replay_is_whole_and_others_wait_for_it(self):
        self.ask([1] * TOKENS, max_tokens=350 * TOKENS + 1)
        first, second = self.dealer(), self.dealer()
        for dealer in (first, second):
            dealer.ask(0)
            dealer.ask(340)
        for dealer in (first, second):
            seqs = [struct.unpack(">Q", dealer.frames()[-2])[0] for _ in range(351 + 1 + 11 + 1)]
            self.assertEqual(seqs, [*range(351), kv_events.END, *range(340, 351),
                                    kv_events.END])

    def test_what_comes_during_a_replay_is_not_part_of_it(self):
        self.ask([1] * TOKENS, max_tokens=350 * TOKENS + 1)
        dealer = self.dealer()
        dealer.ask(0)
        self.assertIsNotNone(dealer.frames())
        self.ask([2] * TOKENS)
        last = None
        while (frames := dealer.frames())[-2] != b"\xff" * 8:
            last = struct.unpack(">Q", frames[-2])[0]
        self.assertEqual(last, 350)

    def test_a_stall_holds_a_replay_up_and_a_restart_ends_it(self):
        self.ask([1] * TOKENS, max_tokens=350 * TOKENS + 1)
        dealer = self.dealer()
        self.chaos(events_stalled=1)
        dealer.ask(0)
        self.assertIsNone(dealer.frames(0.05))
        self.chaos(restart=1, events_stalled=0)
        self.assertEqual(dealer.frames()[-2], b"\xff" * 8)


class OldFrames(EventsCase):
    flags = ("--replay-frames", "3", "--event-encoding", "array", "--event-slots", "6",
             "--buffer-steps", "2")

    def test_frames_and_arrays_are_those_of_old_vllm(self):
        self.ask([5] * TOKENS)
        dealer = self.dealer()
        dealer.ask(0)
        frames = dealer.frames()
        self.assertEqual(frames[:2], [b"", struct.pack(">Q", 0)])
        _, events = kv_events.msgpack.unpackb(frames[2])
        self.assertEqual((events[0][0], len(events[0])), ("BlockStored", 6))
        self.assertEqual(dealer.frames(), [b"", b"\xff" * 8, b""])

    def test_the_buffer_holds_the_last_batches_only(self):
        for i in range(4):
            self.ask([i + 1] * TOKENS)
        self.assertEqual(list(self.replay()), [2, 3])


class Bytes(EventsCase):
    flags = ("--event-hashes", "bytes")

    def test_hashes_are_32_bytes_that_end_in_the_number(self):
        self.ask(list(range(2 * TOKENS)))
        self.ask(list(range(3 * TOKENS)))
        batches = [kv_events.events_of(p)[1][0] for p in self.replay().values()]
        hashes = [h for event in batches for h in event["block_hashes"]]
        self.assertEqual({len(h) for h in hashes}, {32})
        self.assertEqual({int.from_bytes(h[24:], "big") for h in hashes},
                         set(kv_events.cache(self.http)[1]))
        self.assertEqual(batches[1]["parent_block_hash"], batches[0]["block_hashes"][-1])


class Eviction(EventsCase):
    flags = ("--blocks", "48", "--replay-hwm", "0", "--max-model-len", "512")

    def test_children_go_before_their_parents(self):
        self.ask([1] * (20 * TOKENS))
        self.ask([2] * (24 * TOKENS))
        self.ask([3] * (24 * TOKENS))
        stored, gone = [], []
        for payload in self.replay().values():
            for event in kv_events.events_of(payload)[1]:
                if event["type"] == "BlockStored":
                    stored += event["block_hashes"]
                else:
                    self.assertEqual(len(event["block_hashes"]), 1)
                    gone += event["block_hashes"]
        self.assertGreater(len(gone), 10)
        order = [stored.index(key) for key in gone if key in stored[:20]]
        self.assertEqual(order, sorted(order, reverse=True))

    def test_all_batches_lead_to_what_the_engine_holds(self):
        draw = random.Random(7)
        heads = [[draw.randrange(1000) for _ in range(4 * TOKENS)] for _ in range(4)]
        connections = [harness.connect(self.http) for _ in range(4)]
        for _ in range(20):
            for connection in connections:
                prompt = draw.choice(heads) + [draw.randrange(9) for _ in
                                               range(draw.randrange(1, 5 * TOKENS))]
                harness.send(connection, "POST", "/v1/completions",
                             {"prompt": prompt, "max_tokens": draw.randrange(1, 3 * TOKENS)})
            for connection in connections:
                self.assertEqual(connection.getresponse().read()[:1], b"{")
        for connection in connections:
            connection.close()
        next_seq, keys = kv_events.cache(self.http)
        batches = self.replay()
        self.assertEqual(len(batches), next_seq)
        self.assertEqual(kv_events.replayed(batches), keys)
        self.assertGreater(sum(keys.values()), 40)


class Faults(EventsCase):
    def test_dropped_messages_leave_a_gap_that_a_replay_fills(self):
        live, (_, before, _) = self.live()
        self.chaos(event_drop_count=2)
        for i in range(3):
            self.ask([i + 1] * TOKENS)
        self.assertEqual(live.next()[1], before + 3)
        self.assertEqual(list(self.replay(before + 1)), [before + 1, before + 2, before + 3])

    def test_stalled_batches_come_in_order_when_it_goes_on(self):
        live, (_, before, _) = self.live()
        dealer = self.dealer()
        self.chaos(events_stalled=1)
        self.ask([1] * TOKENS)
        self.ask([2] * TOKENS)
        dealer.ask(before + 2)
        self.assertIsNone(live.next(0.1))
        self.assertIsNone(dealer.frames(0.1))
        self.chaos(events_stalled=0)
        self.assertEqual([live.next()[1], live.next()[1]], [before + 1, before + 2])
        self.assertEqual(dealer.frames()[2], struct.pack(">Q", before + 2))

    def test_a_stall_may_end_by_itself(self):
        live, (_, before, _) = self.live()
        self.chaos(events_stall_ms=50)
        self.ask([1] * TOKENS)
        self.assertEqual(live.next()[1], before + 1)
        shown = harness.request(self.http, "GET", "/chaos").json()
        self.assertEqual(shown["events_stalled"], 0)

    def test_a_replay_may_have_holes_once(self):
        for i in range(6):
            self.ask([i + 1] * TOKENS)
        self.chaos(replay_hole_every=3, replay_hole_count=1)
        self.assertEqual(list(self.replay()), [0, 1, 3, 4])
        self.assertEqual(list(self.replay(2)), [2, 3, 4, 5])
        self.chaos(replay_hole_every=3, replay_hole_count=1)
        self.assertEqual(list(self.replay(2)), [2, 3, 4])  # never the first

    def test_a_replay_may_lack_its_end_or_be_silent(self):
        self.ask([1] * TOKENS)
        dealer = self.dealer()

        def seqs(count):
            return [struct.unpack(">Q", dealer.frames()[-2])[0] for _ in range(count)]
        # The answer to a second question shows what the first one's lacked.
        self.chaos(replay_noend_count=1)
        dealer.ask(0)
        dealer.ask(0)
        self.assertEqual(seqs(3), [0, 0, kv_events.END])
        self.chaos(replay_mute_count=1)
        dealer.ask(0)
        dealer.ask(1)
        self.assertEqual(seqs(1), [kv_events.END])
        self.assertEqual(list(self.replay()), [0])

    def test_events_may_be_off(self):
        self.chaos(events=0)
        self.ask([1] * TOKENS)
        self.assertEqual(self.replay(), {})
        self.chaos(events=1)
        self.ask([2] * TOKENS)
        self.assertEqual(list(self.replay()), [0])


class Ranks(EventsCase):
    flags = ("--ranks", "3", "--event-topic", "kv")

    def of_rank(self, key, rank):
        """Rank r has the ports of rank 0 plus r."""
        head, _, port = self.engine.url(key).rpartition(":")
        return f"{head}:{int(port) + rank}"

    def replay_of(self, rank):
        dealer = kv_events.Replay(self.of_rank("replay", rank))
        self.addCleanup(dealer.close)
        batches, end = dealer.collect()
        self.assertTrue(end)
        return batches

    def test_each_has_its_cache_its_numbers_and_its_ports(self):
        prompt = list(range(3 * TOKENS))
        for rank in (2, 1, 2):
            self.ask(prompt, rank=rank)
        self.ask(prompt[:2 * TOKENS] + [7] * TOKENS, rank=2)
        hashes = []
        # The last block of a full hit is computed again: a twin, told too.
        for rank, batches in enumerate([0, 1, 3]):
            got = self.replay_of(rank)
            self.assertEqual(list(got), list(range(batches)))
            for payload in got.values():
                self.assertEqual(kv_events.events_of(payload)[0], rank)
            keys = kv_events.replayed(got)
            self.assertEqual((batches, keys), kv_events.cache(self.http, rank))
            hashes.append(set(keys))
        self.assertEqual([len(keys) for keys in hashes], [0, 3, 4])
        self.assertEqual(sum(kv_events.cache(self.http, 2)[1].values()), 5)
        self.assertEqual(hashes[1] & hashes[2], set())

    def test_live_events_come_from_the_ranks_port(self):
        live = kv_events.Live(self.of_rank("events", 1))
        self.addCleanup(live.close)
        draw = iter(range(1000, 9000))

        def seen():
            self.ask([next(draw)] * TOKENS, rank=0)
            self.ask([next(draw)] * TOKENS, rank=1)
            return live.next(0.05)

        _, _, payload = harness.wait_until(seen, "a live batch of rank 1")
        rank, (event,) = kv_events.events_of(payload)
        self.assertEqual(rank, 1)
        self.assertEqual(event["token_ids"][0] % 2, 1)

    def test_a_rank_that_is_not_there_is_refused_and_no_number_ignored(self):
        for rank, status in (("3", 400), ("99999999999999999999", 400), ("x", 200), ("-1", 200),
                             ("2", 200)):
            answer = harness.request(self.http, "POST", "/v1/completions",
                                     {"prompt": "x", "max_tokens": 1},
                                     {"X-data-parallel-rank": rank})
            self.assertEqual(answer.status, status, rank)

    def test_resets_and_restarts_concern_them_all(self):
        for rank in range(3):
            self.ask([5] * (2 * TOKENS), rank=rank)
        self.assertEqual(harness.request(self.http, "POST", "/reset_prefix_cache").status, 200)
        for rank in range(3):
            self.ask([6] * (2 * TOKENS), rank=rank)
            told = self.replay_of(rank)[1]
            self.assertEqual(kv_events.events_of(told)[1][0], {"type": "AllBlocksCleared"})
        self.chaos(restart=1)
        for rank in range(3):
            self.assertEqual(self.replay_of(rank), {})


class Slow(EventsCase):
    flags = ("--speed", "1")

    def test_a_restart_forgets_all_and_counts_from_0(self):
        prompt = list(range(3 * TOKENS))
        live, _ = self.live()
        self.ask(prompt)
        old = kv_events.events_of(live.next()[2])[1][0]
        stream = self.stream()
        self.chaos(restart=1)
        with self.assertRaises((harness.http.client.IncompleteRead, ConnectionError)):
            for _ in stream.events():
                pass
        self.assertEqual(self.replay(), {})
        self.assertEqual(self.ask(prompt), 0)
        seq = None
        while seq != 0:  # batches of the stream may come first
            _, seq, payload = live.next()
        new = kv_events.events_of(payload)[1][0]
        self.assertEqual(new["token_ids"], old["token_ids"])
        self.assertNotEqual(new["block_hashes"], old["block_hashes"])
        self.assertEqual(self.ask(prompt), 2 * TOKENS)


class SlowRanks(EventsCase):
    flags = ("--speed", "1", "--ranks", "3")

    def test_without_a_rank_the_idlest_is_chosen(self):
        for _ in range(3):
            self.stream()
        running = [harness.metrics(self.http)[
            'vllm:num_requests_running{engine="%d",model_name="kvasir/stand-in"}' % rank]
            for rank in range(3)]
        self.assertEqual(running, [1, 1, 1])


class Sglang(EventsCase):
    flags = ("--engine", "sglang")

    def test_a_replay_has_the_topic(self):
        dealer = self.dealer()
        dealer.ask(0)
        self.assertEqual(dealer.frames()[:3], [b"", b"", struct.pack(">Q", 0)])
        self.assertEqual(dealer.frames(), [b"", b"", b"\xff" * 8, b""])

    def test_a_prompt_is_stored_when_it_was_computed_and_an_answer_when_it_ended(self):
        self.ask(list(range(2 * TOKENS)), max_tokens=2 * TOKENS + 1)
        sizes = [len(event["block_hashes"]) for payload in list(self.replay().values())[1:]
                 for event in kv_events.events_of(payload)[1]]
        self.assertEqual(sizes, [2, 2])

    def test_pages_of_a_leaf_go_together(self):
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                            "--engine", "sglang", "--blocks", "9", "--speed", "200")
        self.engine, self.http = engine, engine.at("http")
        shared = list(range(2 * TOKENS))
        for fork in (1000, 2000, 9000):
            self.ask((shared if fork < 9000 else []) + list(range(fork, fork + 3 * TOKENS)))
        batches = self.replay()
        removed = [event["block_hashes"] for payload in batches.values()
                   for event in kv_events.events_of(payload)[1]
                   if event["type"] == "BlockRemoved"]
        self.assertEqual([len(hashes) for hashes in removed], [3])
        held = collections.Counter(h % 2**64 for h in kv_events.replayed(batches))
        self.assertEqual(held, kv_events.cache(self.http)[1])

    def test_the_cache_is_flushed_by_its_own_path(self):
        self.ask([5] * TOKENS)
        self.assertEqual(harness.request(self.http, "POST", "/reset_prefix_cache").status, 404)
        self.assertEqual(harness.request(self.http, "POST", "/flush_cache").status, 200)
        self.assertEqual(kv_events.replayed(self.replay()), collections.Counter())

    def test_it_tells_where_its_events_are(self):
        found = harness.request(self.http, "GET", "/server_info").json()["kv_events"]
        self.assertEqual(found["endpoint_port_base"],
                         int(self.engine.url("events").rpartition(":")[2]))
        self.assertEqual((found["block_size"], found["dp_size"]), (16, 1))

    def test_it_begins_with_an_empty_cache(self):
        self.ask([5] * TOKENS)
        batches = self.replay()
        self.assertEqual(kv_events.events_of(batches[0])[1], [{"type": "AllBlocksCleared"}])
        (event,) = kv_events.events_of(batches[1])[1]
        self.assertEqual(list(event), ["type", "block_hashes", "parent_block_hash", "token_ids",
                                       "block_size", "lora_id", "medium"])


class Trtllm(EventsCase):
    flags = ("--engine", "trtllm", "--model", "base", "--model", "adapter")

    def test_blocks_have_32_tokens_and_no_namespace(self):
        self.ask(list(range(100)), model="adapter", cache_salt="s")
        (event,) = kv_events.events_of(self.replay()[0])[1]
        self.assertEqual(list(event), ["type", "block_hashes", "parent_block_hash", "token_ids",
                                       "block_size", "lora_id", "medium", "lora_name"])
        self.assertEqual((event["block_size"], len(event["block_hashes"])), (32, 3))
        self.assertEqual((event["lora_id"], event["lora_name"]), (None, None))

    def test_a_replay_has_a_topic(self):
        dealer = self.dealer()
        dealer.ask(0)
        self.assertEqual(dealer.frames(), [b"", b"", b"\xff" * 8, b""])


class Urls(harness.Case):
    def test_they_are_written_as_they_were_meant(self):
        cases = [
            (("--events", "0"), r"tcp://127\.0\.0\.1:\d+"),
            (("--host", "::1", "--events", "0"), r"tcp://\[::1\]:\d+"),
            (("--events", "tcp://*:0"), r"tcp://0\.0\.0\.0:\d+"),
            (("--events", "tcp://127.0.0.1:0", "--ranks", "5"), r"tcp://127\.0\.0\.1:\d+"),
        ]
        for flags, url in cases:
            engine = self.start("kvasir-engine", "--port", "0", *flags)
            self.assertRegex(engine.url("events"), f"^{url}$")

    def test_a_row_of_ports_is_below_those_of_connections(self):
        # Among those, closed connections can leave no two that follow each other.
        with open("/proc/sys/net/ipv4/ip_local_port_range") as range_file:
            connections_begin = int(range_file.read().split()[0])
        if connections_begin < 32768:
            self.skipTest(f"connections take ports from {connections_begin} on")
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                            "--ranks", "3")
        events, replay = (int(engine.url(name).rpartition(":")[2]) for name in ("events", "replay"))
        self.assertEqual(replay, events + 3)
        self.assertLess(replay + 3, connections_begin)

    def test_a_port_in_use_is_said(self):
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0")
        port = engine.url("events").rpartition(":")[2]
        done = self.run_once("kvasir-engine", "--port", "0", "--events", port)
        self.assertEqual(done.returncode, 1)
        self.assertIn("events_not_published", done.stderr)


class Off(harness.Case):
    def test_without_the_flags_there_are_no_urls(self):
        engine = self.start("kvasir-engine", "--port", "0")
        self.assertEqual(list(engine.ready), ["http"])

    def test_an_endpoint_that_cannot_be_is_said(self):
        for bad in ("x", "tcp://127.0.0.1:99999", "tcp://nowhere.invalid:1"):
            done = self.run_once("kvasir-engine", "--port", "0", "--events", bad)
            self.assertEqual(done.returncode, 1, bad)
            self.assertIn("kvasir-engine:", done.stderr)


if __name__ == "__main__":
    harness.main()
