"""What a soak is made of (chaos/scenarios): an engine that only publishes answers what
it knows, and questions are asked again while answers are late."""
import http.client
import json
import pathlib
import subprocess
import sys
import threading
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "chaos"))

from scenarios import hosts, publisher  # noqa: E402


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
