"""kvasir replay --nodes-at: a trace in real time against real nodes. What it
counts is what nodes and engines saw; no time is judged."""
import json
import signal
import subprocess
import threading
import unittest

import harness
from dns import free_port
from fake_worker import Close, FakeWorker
from test_mesh import MeshCase

BLOCK = 16


def trace(requests):
    """Of (ms, prompt tokens, answer tokens, ids of 512 tokens each)."""
    return "".join(json.dumps({"timestamp": at, "input_length": tokens, "output_length": answer,
                               "hash_ids": ids}) + "\n" for at, tokens, answer, ids in requests)


def completion(peer, prompt, text=("a", "b"), cached=0, headers=""):
    """A streamed completion, with usage."""
    peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
              f"Transfer-Encoding: chunked\r\n{headers}\r\n")
    chunks = [{"choices": [{"text": word}]} for word in text]
    chunks.append({"choices": [], "usage": {
        "prompt_tokens": prompt, "completion_tokens": len(text),
        "prompt_tokens_details": {"cached_tokens": cached}}})
    for chunk in chunks:
        peer.chunk(f"data: {json.dumps(chunk)}\n\n".encode())
    peer.chunk(b"data: [DONE]\n\n")
    peer.end_stream()


class RealCase(MeshCase):
    def command(self, nodes, *args):
        return [harness.program("kvasir"), "replay", "--json", "--trace", "-", "--nodes-at",
                ",".join(nodes), *map(str, args)]

    def play(self, nodes, requests, *args, code=0):
        """The last row of a replay, and what it said on stderr."""
        told = subprocess.run(self.command(nodes, *args), input=trace(requests), text=True,
                              capture_output=True, timeout=240, check=False)
        self.assertEqual(told.returncode, code, told.stderr)
        result = json.loads(told.stdout)
        row = result["rows"][-1]
        self.assertEqual(row["policy"], "real")
        self.assertEqual(row["sent"], row["finished"] + row["failed"])
        self.assertEqual(row["failed"], sum(row["failures"].values()))
        self.assertEqual(result["requests"], row["sent"] + row["not_sent"])
        return result, row, told.stderr

    def assert_failed(self, row, **failures):
        self.assertEqual({k: v for k, v in row["failures"].items() if v}, failures)


class Nodes(RealCase):
    def engines(self, count, *flags):
        return [self.start("kvasir-engine", "--port", "0", "--events", "0", "--replay", "0",
                           "--speed", "20", "--name", f"e{i}", *flags) for i in range(count)]

    def nodes(self, engines):
        """Three of one mesh, which read what all engines hold."""
        flags = []
        for i, engine in enumerate(engines):
            flags += ["--worker", f"{engine.url('http')},id=e{i},events={engine.url('events')},"
                                  f"replay={engine.url('replay')}"]
        nodes = self.three(*flags)
        for node in nodes:
            harness.wait_until(lambda node=node: self.ready(node), "workers and streams are there")
        return nodes

    def ready(self, node):
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return all(w["eligible"] and all(s["state"] == "live" for s in w["events"])
                   for w in workers)

    def seen(self, engine, name):
        return sum(v for k, v in harness.metrics(engine.at("http")).items()
                   if k.startswith(f"vllm:{name}{{"))

    def test_what_it_counts_is_what_nodes_and_engines_saw(self):
        engines = self.engines(2)
        nodes = self.nodes(engines)
        requests = [(10 * i, 1024 + 16 * (i % 7) + 5, 3, [i % 4, 10 + i % 12, 100 + i])
                    for i in range(60)]
        names = [node.ready["serve"] for node in nodes]
        result, row, _ = self.play(names, requests, "--engines", 2, "--policy", "kvasir")
        self.assertEqual([r["policy"] for r in result["rows"]], ["kvasir", "real"])
        self.assertEqual((result["nodes"], result["nodes_at"]), (3, ",".join(names)))
        self.assertEqual(result["model"], "kvasir/stand-in")
        self.assertEqual((row["finished"], row["failed"], row["placed"]), (60, 0, 60))
        for name, wanted in (("prompt_tokens_total", row["prompt_tokens"]),
                             ("prefix_cache_hits_total", row["cached_tokens"]),
                             ("generation_tokens_total", row["output_tokens"])):
            self.assertEqual(sum(self.seen(e, name) for e in engines), wanted, name)
        self.assertEqual(row["prompt_tokens"], sum(tokens for _, tokens, _, _ in requests))
        self.assertEqual(row["output_tokens"], 3 * 60)
        simulated = result["rows"][0]
        self.assertEqual(simulated["prompt_tokens"], row["prompt_tokens"])
        self.assertGreater(row["cached_tokens"], 0)
        self.assertEqual({w["id"]: w["requests"] for w in row["workers"]},
                         {f"e{i}": n for i, e in enumerate(engines)
                          if (n := self.seen(e, "request_success_total")) > 0})
        self.assertEqual({n["id"]: n["requests"] for n in row["nodes"]},
                         {name: harness.request(node.at("admin"), "GET", "/admin/status")
                          .json()["requests"]["forwarded"] for name, node in zip(names, nodes)})

    def test_one_after_the_other_finds_what_the_engine_must_hold(self):
        engines = self.engines(1)
        nodes = self.nodes(engines)
        requests = [(0, 512 * len(ids) + more, 9, [*ids, 1000 + i])
                    for i, (ids, more) in enumerate((([1, 2], 16), ([1, 2, 3], 40), ([4], 33),
                                                     ([1, 2, 3], 7), ([4, 5], 100), ([4], 20)))]
        known, cached = set(), 0
        for _, tokens, _, ids in requests:
            for at, one in enumerate(ids[:tokens // 512]):
                if (at, one) not in known:
                    break
                cached += 512
            known |= set(enumerate(ids[:tokens // 512]))
        result, row, _ = self.play([n.ready["serve"] for n in nodes], requests, "--sequential",
                                   "--engines", 1, "--policy", "round_robin")
        self.assertEqual(row["cached_tokens"], cached)
        self.assertEqual(result["rows"][0]["cached_tokens"], cached, "simulated")
        self.assertEqual((row["finished"], row["output_tokens"]), (6, 6))


class Faults(RealCase):
    def test_prompts_are_ids_and_headers_say_what_was_promised(self):
        def answer(peer, request):
            prompt = request.json()["prompt"]
            completion(peer, len(prompt), cached=32, headers="x-kvasir-worker: w1\r\n"
                       f"x-kvasir-mode: affinity\r\nx-kvasir-overlap: 48/{len(prompt)}\r\n")

        node = FakeWorker(self, answer, models=("some/model",))
        keys = self.folder / "headers"
        keys.write_text("Authorization: Bearer abc\nx-kvasir-token: t\n\n")
        requests = [(0, 530, 2, [1, 2]), (1, 540, 2, [1, 3])]
        result, row, _ = self.play([node.id], requests, "--headers", keys)
        bodies = [request.json() for request in node.requests]
        for request in node.requests:
            self.assertEqual((request.target, request.headers["authorization"],
                              request.headers["x-kvasir-token"]),
                             ("/v1/completions", "Bearer abc", "t"))
        self.assertEqual(sorted(len(b["prompt"]) for b in bodies), [530, 540])
        same = [a == b for a, b in zip(bodies[0]["prompt"], bodies[1]["prompt"])]
        self.assertTrue(all(same[:512]))
        self.assertFalse(any(same[512:530]))
        self.assertTrue(all(1000 <= t < 31000 for b in bodies for t in b["prompt"]))
        self.assertEqual([(b["model"], b["max_tokens"], b["stream"]) for b in bodies],
                         2 * [("some/model", 2, True)])
        self.assertEqual((row["prompt_tokens"], row["promised_tokens"], row["cached_tokens"]),
                         (1070, 96, 64))
        self.assertEqual(row["modes"]["affinity"], 2)
        self.assertEqual(row["workers"], [{"id": "w1", "requests": 2, "failed": 0}])
        self.assertEqual([r["policy"] for r in result["rows"]], ["real"])

    def test_a_node_that_dies_is_named_and_its_requests_are_counted(self):
        def die(_peer, _request):
            raise Close

        def refuse(peer, _request):
            peer.json({"error": {"message": "no"}}, 503)

        good = FakeWorker(self, lambda peer, request: completion(peer, 512))
        dying, full = FakeWorker(self, die), FakeWorker(self, refuse)
        nodes = (good, dying, full)
        requests = [(i, 512, 2, [i]) for i in range(30)]
        _, row, said = self.play([n.id for n in nodes], requests)
        had = {n.id: len(n.requests) for n in nodes}
        self.assertTrue(all(had.values()), had)
        self.assertEqual(row["finished"], had[good.id])
        self.assert_failed(row, severed=had[dying.id], status=had[full.id])
        self.assertEqual({n["id"]: (n["requests"], n["failed"]) for n in row["nodes"]},
                         {good.id: (had[good.id], 0), dying.id: 2 * (had[dying.id],),
                          full.id: 2 * (had[full.id],)})
        self.assertIn("request_failed kind=severed", said)
        self.assertIn(f"node={dying.id}", said)
        self.assertEqual(row["placed"], 0)

    def test_turns_after_one_that_failed_are_not_sent(self):
        def die(_peer, _request):
            raise Close

        node = FakeWorker(self, die)
        talk = [{"role": role, "content": "word " * 50}
                for role in ("user", "assistant", "user", "assistant", "user", "assistant")]
        told = subprocess.run(self.command([node.id]), input=json.dumps({"traj": talk}) + "\n",
                              text=True, capture_output=True, timeout=240, check=False)
        self.assertEqual(told.returncode, 0, told.stderr)
        row = json.loads(told.stdout)["rows"][0]
        self.assertEqual((row["sent"], row["failed"], row["not_sent"]), (1, 1, 2))

    def test_no_more_are_open_than_may_be(self):
        lock, open_now, most = threading.Lock(), set(), []

        def answer(peer, request):
            with lock:
                open_now.add(peer)
                most.append(len(open_now))
            peer.begin_stream()
            with lock:  # before the last byte: then the next may come
                open_now.discard(peer)
            peer.chunk(b'data: {"choices": [{"text": "a"}]}\n\ndata: [DONE]\n\n')
            peer.end_stream()

        node = FakeWorker(self, answer)
        _, row, _ = self.play([node.id], [(0, 512, 2, [i]) for i in range(20)], "--open-max", 2)
        self.assertEqual((row["finished"], row["not_sent"]), (20, 0))
        self.assertLessEqual(max(most), 2)
        # Without usage, the load's own numbers count.
        self.assertEqual((row["prompt_tokens"], row["output_tokens"]), (20 * 512, 20))

    def test_a_signal_ends_it_with_what_was_until_then(self):
        asked = threading.Event()

        def hang(peer, _request):
            asked.set()
            peer.wait_closed()

        node = FakeWorker(self, hang)
        run = subprocess.Popen(self.command([node.id]), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(run.kill)
        run.stdin.write(trace([(0, 512, 2, [1]), (3600000, 512, 2, [2])]))
        run.stdin.close()
        run.stdin = None
        self.assertTrue(asked.wait(harness.IO_TIMEOUT_S))
        run.send_signal(signal.SIGTERM)
        out, said = run.communicate(timeout=harness.STOP_TIMEOUT_S)
        self.assertEqual(run.returncode, 1, said)
        self.assertIn("kvasir replay: real: stopped by a signal\n", said)
        row = json.loads(out)["rows"][0]
        self.assert_failed(row, stopped=1)
        self.assertEqual((row["sent"], row["not_sent"]), (1, 1))

    def test_nodes_that_are_not_there_and_bad_usage_are_one_line(self):
        good = FakeWorker(self, lambda peer, request: completion(peer, 512))
        port = free_port()
        for args, code, said in (
                ((f"{good.id},127.0.0.1:{port}",), 1,
                 f"--nodes-at: 127.0.0.1:{port}: connect: connection refused"),
                (("localhost",), 2, "--nodes-at: expected HOST:PORT, not localhost"),
                ((good.id, "--load", "1,2"), 2,
                 "--nodes-at: one --load, and no --svg: what one load leaves in caches the next "
                 "would find"),
                ((good.id, "--headers", "/no/such"), 2, "/no/such: No such file or directory")):
            told = subprocess.run(self.command(args[:1], *args[1:]), text=True,
                                  input=trace([(0, 512, 1, [1])]), capture_output=True,
                                  timeout=240, check=False)
            self.assertEqual((told.returncode, told.stderr, told.stdout),
                             (code, f"kvasir replay: {said}\n", ""))

    def test_people_read_a_table(self):
        node = FakeWorker(self, lambda peer, request: completion(peer, 512))
        words = [w for w in self.command([node.id]) if w != "--json"]
        told = subprocess.run(words, input=trace([(0, 512, 2, [1])]), text=True,
                              capture_output=True, timeout=240, check=True).stdout
        self.assertIn("-: 1 requests, 1 nodes, seed 1\n", told)
        self.assertIn("\nx1.00 real ", told)
        self.assertIn(f"\nreal: model m at {node.id}\n  1 sent, 1 answered, 0 failed, 0 not sent\n"
                      f"  node {node.id}: 1 requests\n  1 answers told nothing", told)


if __name__ == "__main__":
    harness.main()
