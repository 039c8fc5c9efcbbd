"""What a soak is made of (chaos/scenarios): an engine that only publishes answers what
it knows, its replay does not have all of its cache, links are severed at all times, and
questions are asked again while answers are late."""
import http.client
import json
import pathlib
import random
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "chaos"))

from scenarios import hosts, publisher, soak  # noqa: E402


class Patience(unittest.TestCase):
    def late(self, times):
        """A question whose answer is late so many times."""
        left = iter([TimeoutError("late"), subprocess.TimeoutExpired("status", 1)] * times)

        def ask():
            for error in left:
                raise error
            return "answer"
        return ask

    def test_asks_again_while_answers_are_late(self):
        self.assertEqual(hosts.patiently(self.late(3)), "answer")

    def test_gives_up_at_its_own_bound(self):
        with self.assertRaisesRegex(TimeoutError, "again and again: late"):
            hosts.patiently(self.late(3), timeout_s=-1)

    def test_other_errors_are_passed_on(self):
        def refuse():
            raise ConnectionRefusedError("nobody is there")
        with self.assertRaises(ConnectionRefusedError):
            hosts.patiently(refuse)


class Published:
    """A publisher without sockets."""

    def __init__(self):
        self.rate = 7

    def ask(self, do):
        return do()

    def set_rate(self, rate):
        self.rate = rate

    def told(self):
        return {"next_seq": 3, "chains": [], "keys": []}


def apply(stored, number, batch):
    """Keeps {hash: number of the batch that stored it}."""
    for event in batch:
        if event["type"] == "AllBlocksCleared":
            stored.clear()
        for name in event.get("block_hashes", ()):
            if event["type"] == "BlockRemoved":
                del stored[name]
            else:
                stored[name] = number


class Cached(unittest.TestCase):
    REPLAY, BATCHES = 3000, 9000

    def setUp(self):
        self.cache, self.stored, self.kinds = publisher.Cache(5, 2000), {}, set()
        for number in range(self.BATCHES):
            batch = self.cache.step()
            self.kinds |= {event["type"] for event in batch}
            apply(self.stored, number, batch)

    def test_is_what_its_events_say(self):
        self.assertLessEqual({"BlockStored", "BlockRemoved"}, self.kinds)
        self.assertEqual({self.cache.hash_of(topic, block)
                          for topic, blocks in self.cache.topics.items()
                          for block in range(blocks)}, set(self.stored))

    def test_is_older_than_its_replay(self):
        old = sum(at < self.BATCHES - self.REPLAY for at in self.stored.values())
        told = self.cache.unrepeated(self.REPLAY)
        self.assertGreater(told, len(self.stored) // 10)
        self.assertLessEqual(told, old)

    def test_forgets_the_popular_when_all_is_cleared(self):
        apply(self.stored, self.BATCHES, self.cache.clear())
        self.assertEqual((self.stored, self.cache.unrepeated(0), self.cache.grown), ({}, 0, {}))
        for number in range(self.BATCHES):
            apply(self.stored, number, self.cache.step())
        self.assertGreater(self.cache.unrepeated(self.REPLAY), 0)


class Lines(list):
    """A wire that keeps what it is told."""

    def say(self, *lines):
        self.extend(lines)

    def heal(self):
        self.clear()


class Place:
    def __init__(self, name):
        self.name = name


class Severing(unittest.TestCase):
    def setUp(self):
        self.wire = Lines()
        self.nodes, self.engines = [[Place(f"{kind}{i}") for i in range(3)] for kind in "ne"]
        self.severed = soak.Severed(self, random.Random(1))

    def test_goes_on_after_each_quiet_point(self):
        for _ in range(3):
            for second in range(60):
                self.severed.turn(second)
            self.assertTrue([line for line in self.wire if line.endswith("severed=1")])
            self.severed.heal()

    def test_heals_each_link_after_five_seconds(self):
        for tenth in range(6000):
            self.severed.turn(tenth / 10)
        self.assertGreater(self.severed.count, 100)
        self.assertGreater(self.severed.longest, 4)
        self.assertLess(self.severed.longest, 5.2)


class Batches:
    """An engine that published so many."""

    def __init__(self):
        self.rate, self.count = 250, 0

    def published(self):
        return self.count

    def set_rate(self, rate):
        self.asked = rate


class Pacing(unittest.TestCase):
    def test_counts_what_was_published_between_begin_and_end(self):
        engines = [Batches(), Batches()]
        pace = soak.Pace(engines)
        for _ in range(3):
            engines[0].count += 1000
            pace.begin()
            self.assertEqual([engine.asked for engine in engines], [250, 250])
            engines[0].count += 70
            engines[1].count += 30
            pace.end()
            self.assertEqual([engine.asked for engine in engines], [0, 0])
        self.assertEqual(pace.batches, 300)
        self.assertGreater(pace.seconds, 0)


class Answers(unittest.TestCase):
    def setUp(self):
        self.published = Published()
        self.server = publisher.Server(("127.0.0.1", 0), publisher.handler(self.published))
        thread = threading.Thread(target=self.server.serve_forever)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def request(self, method, path, body=None):
        connection = http.client.HTTPConnection(*self.server.server_address, timeout=30)
        self.addCleanup(connection.close)
        connection.request(method, path, body and json.dumps(body))
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def test_what_it_does_not_know_is_404(self):
        for body in ({"model": publisher.MODEL}, {"rate": 9}):
            status, answer = self.request("POST", "/tokenize", body)
            self.assertEqual((status, answer["error"]["message"]), (404, "not found"))
        self.assertEqual(self.published.rate, 7)

    def test_its_rate_is_set(self):
        self.assertEqual(self.request("POST", "/chaos", {"rate": 9}), (200, {}))
        self.assertEqual(self.published.rate, 9)

    def test_its_cache_is_told(self):
        self.assertEqual(self.request("GET", "/chaos/cache"), (200, self.published.told()))


if __name__ == "__main__":
    unittest.main()
