"""curl, through a node in front of two engines."""
import json
import os
import subprocess
import threading

import harness
from fake_worker import FakeWorker

MODEL = "kvasir/stand-in"
CHAT = "/v1/chat/completions"


def chat(text="hello", **more):
    return {"model": MODEL, "messages": [{"role": "user", "content": text}],
            "max_tokens": 8, **more}


class Clients(harness.Case):
    """A node and two engines for one client."""

    def setUp(self):
        super().setUp()
        self.engines = [self.start("kvasir-engine", "--port", "0", *self.engine_flags)
                        for _ in range(2)]
        workers = [arg for engine in self.engines for arg in ("--worker", engine.url("http"))]
        self.node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0",
                               "--admin", "127.0.0.1:0", "--name", "n1", *workers)
        harness.wait_until(self.both_eligible, "both workers are up")
        self.url = self.node.url("serve")

    engine_flags = ("--speed", "20")

    def both_eligible(self):
        workers = harness.request(self.node.at("admin"), "GET", "/admin/workers").json()
        return sum(worker["eligible"] for worker in workers) == 2


class Curl(Clients):
    def curl(self, *args, stdin=b""):
        got = subprocess.run(["curl", "--silent", "--show-error", "--max-time",
                              str(harness.IO_TIMEOUT_S), *args], input=stdin,
                             capture_output=True, timeout=2 * harness.IO_TIMEOUT_S, check=False)
        self.assertEqual(got.returncode, 0, got.stderr.decode())
        return got

    def post(self, body, *args, path=CHAT):
        """The answer's head and body."""
        text = body if isinstance(body, str) else json.dumps(body)
        got = self.curl("--include", "--data-binary", "@-", "-H", "content-type: application/json",
                        *args, self.url + path, stdin=text.encode())
        *heads, body = got.stdout.split(b"\r\n\r\n", 1 + got.stdout.count(b"HTTP/1.1 100 "))
        return heads[-1].decode(), body

    def test_a_question_is_answered(self):
        head, body = self.post(chat())
        self.assertTrue(head.startswith("HTTP/1.1 200 "), head)
        self.assertEqual(json.loads(body)["usage"]["completion_tokens"], 8)
        for name in ("node", "worker", "mode", "overlap"):
            self.assertIn(f"\r\nx-kvasir-{name}: ", head.lower())

    def test_plain_d_as_people_type_it_is_answered(self):
        got = self.curl(self.url + CHAT, "-d", json.dumps(chat()))
        self.assertEqual(json.loads(got.stdout)["usage"]["completion_tokens"], 8)

    def test_a_stream_arrives_whole(self):
        head, body = self.post(chat(stream=True), "-N")
        self.assertIn("text/event-stream", head)
        events = body.decode().split("\n\n")
        self.assertEqual(events[-2:], ["data: [DONE]", ""])
        self.assertTrue(all(event.startswith("data: {") for event in events[:-2]))
        self.assertEqual(len(events), 8 + 3)  # tokens; finish, [DONE], nothing

    def test_a_stream_arrives_as_it_is_made(self):
        seen = threading.Event()
        self.addCleanup(seen.set)

        def handler(peer, _):
            peer.begin_stream()
            peer.chunk(b"data: first\n\n")
            seen.wait(harness.IO_TIMEOUT_S)
            peer.chunk(b"data: [DONE]\n\n")
            peer.end_stream()

        worker = FakeWorker(self, handler, models=["slow"])
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", worker.url)
        harness.wait_until(lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200,
                           "the worker is up")
        with subprocess.Popen(["curl", "-sSN", "--max-time", str(harness.IO_TIMEOUT_S), "-d", "@-",
                               node.url("serve") + CHAT], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as curl:
            curl.stdin.write(json.dumps({**chat(stream=True), "model": "slow"}).encode())
            curl.stdin.close()
            self.assertEqual(curl.stdout.readline(), b"data: first\n")
            seen.set()
            self.assertEqual(curl.stdout.read(), b"\ndata: [DONE]\n\n")
        self.assertEqual(curl.returncode, 0)

    def test_an_http_1_0_client_is_answered_and_closed(self):
        head, body = self.post(chat(), "--http1.0")
        self.assertIn(" 200 ", head.split("\r\n")[0])
        self.assertNotIn("transfer-encoding", head.lower())
        self.assertEqual(json.loads(body)["usage"]["completion_tokens"], 8)

    def test_an_http_1_0_client_gets_a_stream_that_ends_with_the_connection(self):
        head, body = self.post(chat(stream=True), "--http1.0", "-N")
        self.assertNotIn("transfer-encoding", head.lower())
        self.assertTrue(body.endswith(b"data: [DONE]\n\n"), body[-100:])

    def test_a_large_body_waits_for_100_continue(self):
        # Over curl's own 1 MiB threshold; ids, for they are counted exactly.
        prompt = [1234567] * 150000
        got = self.curl("-v", "--data-binary", "@-", "-H", "content-type: application/json",
                        "-H", "Expect: 100-continue", "--expect100-timeout", "50",
                        self.url + "/v1/completions",
                        stdin=json.dumps({"model": MODEL, "prompt": prompt}).encode())
        trace = got.stderr.decode()
        self.assertIn("> Expect: 100-continue", trace)
        self.assertIn("< HTTP/1.1 100 ", trace)
        # Too long for the engine, which says so: the whole body went through.
        self.assertIn("< HTTP/1.1 400 ", trace)
        self.assertEqual(json.loads(got.stdout)["error"]["code"], "context_length_exceeded")

    def test_two_urls_of_one_call_share_a_connection(self):
        got = self.curl("-w", "%{num_connects} %{http_code}\n", "-o", os.devnull,
                        "-o", os.devnull, self.url + "/v1/models", self.url + "/health")
        self.assertEqual(got.stdout.decode().splitlines(), ["1 200", "0 200"])

    def test_an_unknown_path_and_a_bad_body_say_so_in_json(self):
        for status, code, path, body in (
                (404, None, "/v1/nothing/here", chat()),
                (404, "model_not_found", CHAT, {**chat(), "model": "no"}),
                (400, None, CHAT, '{"model": nope'),
                (400, None, CHAT, "[]")):
            head, answer = self.post(body, path=path)
            self.assertTrue(head.startswith(f"HTTP/1.1 {status} "), head)
            error = json.loads(answer)["error"]
            self.assertTrue(error["message"] and error["type"] and error["code"], error)
            if code is not None:
                self.assertEqual(error["code"], code)


class Tasks(Clients):
    """What no vendor's client asks for."""

    def test_texts_are_ranked_scored_and_pooled_as_by_the_engine(self):
        rank = {"query": "a cache", "documents": ["a cache of blocks", "the weather"]}
        score = {"text_1": "a cache", "text_2": ["a cache of blocks", "the weather"]}
        for path, body in (("/rerank", rank), ("/v1/rerank", rank), ("/v2/rerank", rank),
                           ("/score", score), ("/v1/score", score),
                           ("/pooling", {"input": "a cache", "task": "embed"})):
            with self.subTest(path=path):
                got = []
                for address in (self.engines[0].at("http"), self.node.at("serve")):
                    answer = harness.request(address, "POST", path, {"model": MODEL, **body})
                    self.assertEqual(answer.status, 200, answer.text)
                    got.append({name: value for name, value in answer.json().items()
                                if name not in ("id", "created")})
                self.assertEqual(got[0], got[1])


if __name__ == "__main__":
    harness.main()
