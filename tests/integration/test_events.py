"""The intake against publishers that behave as engines do, and worse: what
comes out is what the engine holds, or says that it is less."""
import json
import random
import struct
import subprocess
import threading
import time
import unittest

import harness

try:
    import kv_events
    from fake_publisher import Publisher, ranks
except ImportError as missing:
    Publisher, why_not = None, str(missing)

QUICK = {"events.probe": "100ms", "events.replay_timeout": "300ms"}


class Drive:
    """intake_drive: its items as they come."""

    def __init__(self, log, events, replay="-", count=1, topic="", **options):
        flags = [word for pair in {**QUICK, **options}.items() for word in pair]
        self.items, self.numbers = [], []
        self.log = open(log, "w+b")
        self.popen = subprocess.Popen(
            [harness.program("intake_drive"), events, replay or "-", str(count), topic, *flags],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log)
        self._ready, self._told = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        if not self._ready.wait(harness.READY_TIMEOUT_S):
            raise TimeoutError("intake_drive is not ready")

    def _read(self):
        numbers = []
        for line in self.popen.stdout:
            if line == b"ready\n":
                self._ready.set()
                continue
            item = json.loads(line)
            if item["kind"] == "numbers":
                numbers.append(item)
            elif item["kind"] == "done":
                self.numbers, numbers = numbers, []
                self._told.set()
            else:
                self.items.append(item)

    def tell(self, command):
        self.popen.stdin.write(command.encode() + b"\n")
        self.popen.stdin.flush()

    def number(self, name, rank=0):
        self._told.clear()
        self.tell("numbers")
        if not self._told.wait(harness.IO_TIMEOUT_S):
            raise TimeoutError("no numbers")
        return self.numbers[rank][name]

    def of(self, kind, rank=0):
        return [i for i in list(self.items) if i["kind"] == kind and i["rank"] == rank]

    def reasons(self, rank=0):
        return [i["reason"] for i in self.of("begin", rank)]

    def state(self, rank=0):
        states = self.of("state", rank)
        return states[-1]["state"] if states else "connecting"

    def keys(self, rank=0):
        """What is held, by tier: as whoever applies the items has it."""
        held = set()
        for item in list(self.items):
            if item["rank"] != rank:
                continue
            if item["kind"] == "begin":
                held = set()
            for what, tier, keys in item.get("ops", []):
                places = {(tier, key) for key in keys}
                if what == "store":
                    held |= places
                elif what == "remove":
                    held -= places
                else:
                    held = set()
        return held

    def seqs(self, rank=0):
        """Of the records since the last beginning."""
        seqs = []
        for item in list(self.items):
            if item["rank"] == rank and item["kind"] == "begin":
                seqs = []
            if item["rank"] == rank and item["kind"] == "record":
                seqs.append(item["seq"])
        return seqs

    def stop(self):
        self.popen.stdin.close()
        code = self.popen.wait(harness.STOP_TIMEOUT_S)
        self._thread.join()
        self.popen.stdout.close()
        self.log.seek(0)
        text = self.log.read().decode(errors="replace")
        self.log.close()
        if code != 0:
            raise AssertionError(f"intake_drive ended with {code}\n{text[-4000:]}")


@unittest.skipIf(Publisher is None, "python3-zmq or python3-msgpack is missing")
class Base(harness.Case):
    def publisher(self, **options):
        publisher = Publisher(**options)
        self.addCleanup(publisher.close)
        return publisher

    def drive(self, publisher, replay=True, **options):
        self.drives = getattr(self, "drives", 0) + 1
        drive = Drive(self.folder / f"drive-{self.drives}.log", publisher.events,
                      publisher.replay if replay else "-", **options)
        self.addCleanup(drive.stop)
        return drive

    def wait(self, predicate, what):
        try:
            return harness.wait_until(predicate, what)
        except TimeoutError as late:
            drives = [i for i in getattr(self, "watched", [])]
            tail = "\n".join(str(i)[:300] for d in drives for i in d.items[-20:])
            raise AssertionError(f"{late}\n{tail}") from None

    def watch(self, drive):
        self.watched = getattr(self, "watched", []) + [drive]
        return drive

    def follow(self, publisher, replay=True, **options):
        """A drive that is connected and heard by the publisher."""
        before = len(publisher.subscriptions)
        drive = self.watch(self.drive(publisher, replay, **options))
        self.wait(lambda: len(publisher.subscriptions) > before, "a subscription")
        self.wait(lambda: drive.state() in ("live", "partial"), "a first state")
        return drive

    def caught_up(self, drive, publisher, state="live", rank=0):
        """All that the publisher holds is here, under as many keys."""
        self.wait(lambda: (drive.state(rank) == state and
                           (publisher.seq == 0 or
                            drive.seqs(rank)[-1:] == [publisher.seq - 1]) and
                           len(drive.keys(rank)) == len(publisher.held)),
                  f"{state} at {publisher.seq - 1} with {len(publisher.held)} blocks")

    def same_as_newcomer(self, drive, publisher):
        newcomer = self.watch(self.drive(publisher))
        self.caught_up(newcomer, publisher)
        self.assertEqual(drive.keys(), newcomer.keys())


@unittest.skipIf(Publisher is None, "python3-zmq or python3-msgpack is missing")
class Events(Base):
    # Both encodings, both framings

    def test_live_events_of_both_encodings(self):
        for encoding in ("map", "array"):
            with self.subTest(encoding=encoding):
                publisher = self.publisher(encoding=encoding)
                drive = self.follow(publisher)
                publisher.store(range(1, 5))
                publisher.store(range(5, 9), parent=4)
                publisher.remove([8])
                self.caught_up(drive, publisher)
                self.assertEqual(drive.seqs(), [0, 1, 2])
                record = drive.of("record")[0]
                self.assertEqual(record["block_tokens"], 16)
                self.assertEqual(record["worker"], 42)
                self.assertEqual(drive.number("batches"), 3)
                self.same_as_newcomer(drive, publisher)

    def test_late_join_with_both_framings(self):
        for framing in (3, 4):
            with self.subTest(framing=framing):
                publisher = self.publisher(framing=framing)
                publisher.store(range(1, 9))
                publisher.store(range(9, 17), parent=8)
                drive = self.follow(publisher)
                self.caught_up(drive, publisher)
                self.assertEqual(publisher.requests[0], 0)
                publisher.store([17], parent=16)
                self.caught_up(drive, publisher)
                self.assertEqual(drive.number("bad_frames"), 0)

    # Loss

    def settled(self, **options):
        publisher = self.publisher(**options)
        drive = self.follow(publisher)
        publisher.store(range(1, 5))
        self.caught_up(drive, publisher)
        return publisher, drive

    def test_gap_is_replayed(self):
        publisher, drive = self.settled()
        publisher.drop_live = 2
        publisher.store([5], parent=4)
        publisher.store([6], parent=5)
        publisher.store([7], parent=6)
        self.caught_up(drive, publisher)
        self.assertEqual(drive.seqs(), [0, 1, 2, 3])
        self.assertEqual(len(drive.of("begin")), 1)

    def test_lost_tail_is_found_by_probing(self):
        publisher, drive = self.settled()
        publisher.drop_live = 1
        publisher.store([5], parent=4)
        self.caught_up(drive, publisher)

    def probed(self, publisher, times):
        """By which connections, after so many more probes."""
        before = len(publisher.askers)
        self.wait(lambda: len(publisher.askers) >= before + times, "probes")
        return publisher.askers[before:]

    def test_an_idle_engine_is_probed_by_one_connection(self):
        publisher, drive = self.settled()

        def kept():
            # Where the machine stands still, an answer may be late and cost the connection.
            return len(set(self.probed(publisher, 5)[:5])) == 1
        self.wait(kept, "five questions of one connection")
        # A silent round is the end of it.
        last = publisher.askers[-1]
        publisher.replay_end = 1
        self.wait(lambda: publisher.askers[-1] != last, "another connection")
        self.wait(kept, "five questions of that one")
        self.assertEqual(len(drive.of("begin")), 1)

    def test_an_answer_that_nobody_asked_for_is_none_to_the_next_question(self):
        publisher, drive = self.settled()
        publisher.replay_ends = 2
        askers = self.probed(publisher, 5)
        self.assertEqual(len(set(askers)), len(askers))
        self.assertEqual(len(drive.of("begin")), 1, "an end marker alone is a restart")

    def test_a_probe_finds_an_idle_restart_behind_a_kept_connection(self):
        publisher, drive = self.settled()
        self.probed(publisher, 3)
        publisher.restart()
        self.wait(lambda: len(drive.of("begin")) == 2 and drive.state() == "live",
                  "the empty process is known")
        publisher.store(range(20, 23))
        self.caught_up(drive, publisher)

    def test_replay_with_holes_is_asked_again(self):
        publisher = self.publisher()
        for i in range(1, 40):
            publisher.store([i], parent=i - 1 or None)
        publisher.replay_drop = {3, 4, 9, 20}
        drive = self.follow(publisher)
        self.caught_up(drive, publisher)
        self.assertEqual(drive.seqs(), list(range(39)))
        self.assertIn(2, publisher.requests)
        self.same_as_newcomer(drive, publisher)

    def test_permanent_hole_leaves_a_partial_stream(self):
        publisher = self.publisher()
        for i in range(1, 6):
            publisher.store([100 * i])
        publisher.replay_holes = {2}
        drive = self.follow(publisher)
        self.wait(lambda: drive.state() == "partial" and drive.seqs() == [0, 1, 3, 4],
                  "partial without seq 2")
        self.assertGreaterEqual(drive.number("replay_incomplete"), 1)

    def test_lost_end_marker_is_waited_out(self):
        publisher = self.publisher()
        publisher.store(range(1, 9))
        publisher.replay_end = 1
        drive = self.follow(publisher)
        self.caught_up(drive, publisher)
        self.assertGreaterEqual(len(publisher.requests), 2)

    def test_replay_that_forgot_the_beginning_is_partial(self):
        publisher = self.publisher()
        publisher.buffer_max = 3
        for i in range(1, 9):
            publisher.store([100 * i])
        drive = self.follow(publisher)
        self.wait(lambda: drive.state() == "partial" and drive.seqs() == [5, 6, 7],
                  "partial from 5 on")

    def test_nobody_answers_at_the_replay_endpoint(self):
        publisher = self.publisher()
        publisher.store([1])
        publisher.replay_answers = False
        drive = self.watch(self.drive(publisher, **{"events.replay_timeout": "50ms"}))
        self.wait(lambda: publisher.subscriptions, "a subscription")
        publisher.store([200])
        self.wait(lambda: drive.state() == "partial" and drive.seqs() == [1],
                  "partial from 1 on")
        publisher.replay_answers = True
        self.caught_up(drive, publisher)

    def test_without_a_replay_a_gap_is_said_and_jumped_over(self):
        publisher = self.publisher()
        drive = self.follow(publisher, replay=False)
        publisher.store([100])
        self.wait(lambda: drive.state() == "live", "live from 0 on")
        publisher.drop_live = 1
        publisher.store([200])
        publisher.store([300])
        self.wait(lambda: drive.seqs() == [0, 2] and drive.state() == "partial", "a jump")
        self.assertEqual(len(drive.of("gap")), 1)
        self.assertEqual(drive.number("gaps"), 1)

    # Restarts and connections

    def test_restarted_engine_is_read_anew(self):
        publisher, drive = self.settled()
        publisher.restart()
        publisher.store(range(50, 53))
        self.caught_up(drive, publisher)
        processes = [i["process"] for i in drive.of("begin")]
        self.assertEqual(len(set(processes)), len(processes))
        self.assertTrue(drive.of("begin")[-1]["whole"])
        self.assertGreaterEqual(drive.number("disconnects"), 1)
        self.assertEqual(drive.number("restarts"), 1)

    def test_idle_restart_forgets_everything(self):
        publisher, drive = self.settled()
        publisher.restart()
        self.wait(lambda: drive.state() == "live" and not drive.keys() and
                  len(drive.of("begin")) == 2, "an empty cache")
        self.assertEqual(drive.reasons()[-1], "restarted")

    def test_restarted_engine_that_got_as_far_is_not_taken_for_the_old_one(self):
        publisher, drive = self.settled()
        publisher.store([5], parent=4)
        self.caught_up(drive, publisher)
        publisher.restart()
        for i in range(2):
            publisher.store([1000 + i])
        self.caught_up(drive, publisher)
        self.assertEqual(drive.reasons()[-1], "restarted")
        self.same_as_newcomer(drive, publisher)

    def test_numbers_that_start_again_on_the_same_connection_are_a_restart(self):
        publisher, drive = self.settled()
        publisher.seq, publisher.buffer, publisher.held = 0, [], {}
        publisher.store([70])
        self.caught_up(drive, publisher)
        self.assertEqual(drive.number("disconnects"), 0)
        self.assertEqual(drive.number("restarts"), 1)

    def test_engine_that_comes_after_the_router(self):
        publisher = self.publisher()
        publisher.store([1])
        publisher.close()
        drive = self.watch(self.drive(publisher))
        publisher.restart()
        publisher.store(range(1, 4))
        self.caught_up(drive, publisher)

    def test_stopped_thread_proves_everything_again(self):
        publisher, drive = self.settled()
        drive.popen.send_signal(19)  # SIGSTOP
        end = time.monotonic() + 2.5
        self.wait(lambda: time.monotonic() > end, "the sleep to be long enough")
        publisher.store([5], parent=4)
        drive.popen.send_signal(18)  # SIGCONT
        self.caught_up(drive, publisher)
        self.wait(lambda: drive.number("connects") >= 2, "another connection")

    # Frames

    def test_prefix_of_a_topic_is_another_topic(self):
        publisher = self.publisher(topic=b"kv@pod-1")
        drive = self.follow(publisher, topic="kv@pod-1")
        self.assertIn(b"kv@pod-1", publisher.subscriptions)
        publisher.send(b"kv@pod-10@m", struct.pack(">Q", 0), publisher.pack(publisher.stored([9])))
        publisher.store([1])
        self.caught_up(drive, publisher)
        self.assertEqual(drive.number("other_topic"), 1)

    def test_wrong_frames_are_counted_and_cost_nothing(self):
        publisher, drive = self.settled()
        publisher.send(b"kv-events", b"two frames")
        publisher.send(b"alone")
        publisher.send(b"kv-events", b"\0\0\0\1", publisher.pack())
        publisher.store([5], parent=4)
        self.caught_up(drive, publisher)
        self.assertEqual(drive.number("bad_frames"), 3)
        self.assertEqual(len(drive.of("begin")), 1)

    def test_further_frames_are_ignored(self):
        publisher, drive = self.settled()
        payload = publisher.pack(publisher.stored([5], 4))
        publisher.buffer.append((1, payload))
        publisher.held[5] = None
        publisher.seq = 2
        publisher.send(b"kv-events", struct.pack(">Q", 1), payload, b"more", b"and more")
        self.caught_up(drive, publisher)
        self.assertEqual(drive.number("bad_frames"), 0)

    def test_payload_over_the_bound_is_a_hole(self):
        publisher = self.publisher()
        drive = self.follow(publisher, **{"events.payload_bytes_max": "1KiB"})
        publisher.store([1])
        publisher.publish(b"\xc4\xff" + bytes(2000))
        self.wait(lambda: drive.state() == "partial", "partial, although nothing follows")
        publisher.store([300])
        self.wait(lambda: drive.state() == "partial" and drive.seqs() == [0, 1, 2] and
                  len(drive.keys()) == 2, "what came after it")
        self.assertGreaterEqual(drive.number("bad_frames"), 1)
        self.assertEqual((drive.number("gaps"), drive.number("rereads")), (0, 0))

    def test_payload_that_is_no_batch_is_passed_over_and_the_rest_goes_on(self):
        publisher, drive = self.settled()
        publisher.publish(b"no msgpack at all")
        publisher.store([5], parent=4)
        self.wait(lambda: drive.seqs()[-1:] == [2] and len(drive.keys()) == 5 and
                  drive.state() == "partial", "what came after it")
        self.assertEqual(drive.number("rereads"), 0)
        self.assertGreaterEqual(drive.number("drop_malformed"), 1)

    # Ranks and addresses

    def test_each_rank_has_a_stream_of_its_own(self):
        made = ranks(3)
        for publisher in made:
            self.addCleanup(publisher.close)
        for rank, publisher in enumerate(made):
            publisher.store(range(1, 3 + rank))
        drive = self.watch(self.drive(made[0], count=3))
        for rank, publisher in enumerate(made):
            self.caught_up(drive, publisher, rank=rank)
        made[1].store([77])
        self.caught_up(drive, made[1], rank=1)
        self.assertEqual(drive.number("rank_mismatch", 1), 0)

    def test_ipv6(self):
        try:
            publisher = self.publisher(host="::1")
        except OSError:
            self.skipTest("no IPv6 on this machine")
        publisher.store([1])
        drive = self.follow(publisher)
        self.caught_up(drive, publisher)
        publisher.store([2], parent=1)
        self.caught_up(drive, publisher)

    # What the batches say

    def test_clear_is_an_op_of_its_batch(self):
        publisher, drive = self.settled()
        publisher.held = {9: None}
        publisher.batch(publisher.stored([5], 4), publisher.cleared(), publisher.stored([9]))
        self.caught_up(drive, publisher)
        self.assertEqual(drive.of("record")[-1]["ops"][0][0], "clear")
        self.assertEqual(len(drive.of("begin")), 1)
        publisher.store([10], parent=9)
        self.caught_up(drive, publisher)
        self.assertEqual(drive.number("batches"), 3)

    def test_batch_that_never_fits_is_read_again_once(self):
        publisher, drive = self.settled()
        publisher.batch(publisher.stored([6], 5555))  # no such parent, ever
        self.wait(lambda: drive.state() == "partial", "a partial stream")
        publisher.store([5], parent=4)
        self.wait(lambda: len(drive.keys()) == 5 and drive.seqs() == [0, 1, 2],
                  "what has a parent")
        publisher.batch(publisher.stored([8], 7777))
        self.wait(lambda: drive.seqs()[-1:] == [3], "one more of the kind")
        self.assertEqual(drive.number("rereads"), 1)
        self.assertEqual(drive.state(), "partial")

    def test_partial_stream_does_not_wonder_about_unknown_parents(self):
        publisher = self.publisher()
        publisher.store(range(1, 5))
        drive = self.follow(publisher, replay=False)
        publisher.store([5], parent=4)
        publisher.store([6], parent=5)
        publisher.store([70])
        self.wait(lambda: len(drive.keys()) == 1 and drive.seqs() == [1, 2, 3], "what is known")
        self.assertEqual(drive.number("rereads"), 0)
        self.assertEqual(drive.state(), "partial")

    def test_order_to_read_again_leads_to_the_same(self):
        publisher, drive = self.settled()
        before = drive.keys()
        drive.tell("reread 0")
        self.wait(lambda: len(drive.of("begin")) == 2, "a beginning")
        self.caught_up(drive, publisher)
        self.assertEqual(drive.keys(), before)
        self.assertEqual([i["ask"] for i in drive.of("begin")], [0, 1])
        self.assertEqual(len({i["process"] for i in drive.of("begin")}), 1)

    # Control

    def test_removed_worker_is_left_alone_until_it_is_added_again(self):
        publisher, drive = self.settled()
        drive.tell("remove")
        publisher.store([5], parent=4)
        drive.tell("add")
        # The store may have come before the removal.
        self.wait(lambda: drive.of("record")[-1]["generation"] == 2, "its second life")
        self.caught_up(drive, publisher)

    def test_full_ring_loses_nothing(self):
        publisher = self.publisher()
        drive = self.follow(publisher)
        drive.tell("pause")
        drive.number("batches")  # it has heard that
        width = 100000
        tokens = [0] * width
        for i in range(48):  # 48 * 100000 keys and names of 8 bytes: more than 32 MiB
            hashes = range(1 + i * width, 1 + (i + 1) * width)
            publisher.batch({"type": "BlockStored", "block_hashes": list(hashes),
                             "parent_block_hash": i * width or None, "token_ids": tokens,
                             "block_size": 1, "lora_id": None, "medium": "GPU",
                             "lora_name": None})
        self.wait(lambda: drive.number("batches") >= 10, "a full ring")
        drive.tell("resume")
        self.wait(lambda: drive.seqs()[-1:] == [47], "the last batch")
        self.assertEqual(drive.seqs(), list(range(48)))
        self.assertEqual(len(drive.keys()), 48 * width)
        self.assertEqual(drive.number("blocks_stored"), 48 * width)

    def test_batch_too_long_for_one_record_comes_in_several(self):
        publisher = self.publisher()
        drive = self.follow(publisher)
        width, events = 100000, 11  # a record has room for 524,238 words, and as many of names
        publisher.batch(*({"type": "BlockStored", "token_ids": [0] * width, "block_size": 1,
                           "block_hashes": list(range(i * width + 1, (i + 1) * width + 1)),
                           "parent_block_hash": i * width or None, "lora_id": None,
                           "medium": "GPU", "lora_name": None} for i in range(events)))
        publisher.store([5], parent=4)  # dropped: another block size
        self.wait(lambda: drive.seqs()[-1:] == [1], "the next batch")
        seqs = drive.seqs()
        self.assertGreater(len(seqs), 2)
        self.assertEqual(seqs, [0] * (len(seqs) - 1) + [1])
        self.assertEqual(len(drive.keys()), width * events)
        records = drive.of("record")
        self.assertEqual([r["holes"] for r in records],
                         [2 ** 32 - 1] * (len(records) - 2) + [0, 0])
        keys = [key for r in records[:-1] for op in r["ops"] for key in op[2]]
        self.assertEqual(len(set(keys)), len(keys))

    def test_ends_while_the_ring_is_full(self):
        publisher = self.publisher()
        drive = self.follow(publisher)
        drive.tell("pause")
        drive.number("batches")
        tokens = [0] * 100000
        for i in range(48):
            publisher.batch({"type": "BlockStored", "token_ids": tokens, "block_size": 1,
                             "block_hashes": list(range(i * 100000 + 1, (i + 1) * 100000 + 1)),
                             "parent_block_hash": None, "lora_id": None, "medium": "GPU",
                             "lora_name": None})
        self.wait(lambda: drive.number("batches") >= 10, "a full ring")


@unittest.skipIf(Publisher is None, "python3-zmq or python3-msgpack is missing")
class Engine(Base):
    """The same against the stand-in engine, whose cache evicts."""

    def test_cache_is_known_exactly_after_faults_of_all_kinds(self):
        engine = self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                            "--blocks", "64", "--speed", "1000")
        http, rng = engine.at("http"), random.Random(1)
        drive = self.watch(Drive(self.folder / "drive.log", engine.ready["events"],
                                 engine.ready["replay"]))
        self.addCleanup(drive.stop)
        faults = [{"event_drop_count": 3}, {"replay_hole_every": 2, "replay_hole_count": 1},
                  {"replay_noend_count": 1}, {"replay_mute_count": 1}, {"restart": 1},
                  {"event_drop_count": 1}]
        for orders in faults:
            answer = harness.request(http, "POST", "/chaos", orders)
            self.assertEqual(answer.status, 200, answer.text)
            for _ in range(12):
                prompt = [rng.randrange(6)] * 16 + [rng.randrange(40)] * 16 * rng.randrange(1, 4)
                body = {"prompt": prompt, "max_tokens": 1}
                self.assertEqual(harness.request(http, "POST", "/v1/completions", body).status, 200)

            def the_same():
                next_seq, keys = kv_events.cache(http)
                return (drive.state() == "live" and len(drive.keys()) == len(+keys) and
                        drive.number("next_seq") == next_seq)
            self.wait(the_same, f"the engine's cache after {orders}")
        self.assertGreaterEqual(drive.number("restarts"), 1)
        self.assertGreater(drive.number("blocks_removed"), 0)


if __name__ == "__main__":
    harness.main()
