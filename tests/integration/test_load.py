"""kvasir-load against stand-in engines, alone and through a node: what it
counts is what happened, on good days and on bad ones."""
import json
import signal
import socket

import harness
from dns import Dns, free_port
from fake_worker import Close, FakeWorker

FAST = ("--speed", "50")


class LoadCase(harness.Case):
    def engine(self, name="engine-1", *flags):
        return self.start("kvasir-engine", "--port", "0", "--name", name, *flags)

    def serve(self, engines, *flags):
        """A node in front of engines, all of them eligible."""
        workers = []
        for i, engine in enumerate(engines):
            workers += ["--worker", f"{engine.url('http')},id=engine-{i + 1}"]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0",
                          "--admin", "127.0.0.1:0", *workers, *flags)
        harness.wait_until(lambda: all(w["eligible"] for w in self.workers(node)),
                           "all workers are up")
        return node

    def workers(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()

    def command(self, url, **options):
        """The arguments of a small load; think_ms=5 becomes --think-ms 5."""
        options = {"users": 4, "conversations": 8, "turns": 3, "think_ms": 5,
                   "groups": 2, "system_bytes": 1000, "user_bytes": 100,
                   "max_tokens": 8, "timeout_ms": 60000, **options}
        words = []
        for name, value in options.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        return ["--url", url, "--json", *words]

    def play(self, url, **options):
        """Plays a load to its end: its result."""
        run = self.run_once("kvasir-load", *self.command(url, **options), timeout_s=240)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("\n100 %", "\n" + run.stderr)
        return self.adds_up(json.loads(run.stdout))

    def adds_up(self, result):
        """Every request is there once, whatever came of it."""
        requests, failures = result["requests"], result["failures"]
        self.assertEqual(requests["sent"], requests["answered"] + requests["failed"])
        self.assertEqual(requests["planned"], requests["sent"] + requests["not_sent"])
        self.assertEqual(requests["failed"], sum(failures.values()))
        self.assertEqual(result["whole_ms"]["count"], requests["answered"])
        return result

    def assert_failed(self, result, **failures):
        """So many of these kinds, and none of any other."""
        self.assertEqual({k: v for k, v in result["failures"].items() if v}, failures)


class Alone(LoadCase):
    def test_what_is_counted_is_what_the_engine_saw(self):
        engine = self.engine("e", *FAST)
        result = self.play(engine.url("http"))
        self.assertEqual(result["requests"]["answered"], 24)
        self.assert_failed(result)
        self.assertEqual(result["workers"], [])
        self.assertEqual(result["tokens"]["completion"], 24 * 8)
        seen = harness.metrics(engine.at("http"))
        total = {name: sum(v for k, v in seen.items() if k.startswith(f"vllm:{name}{{"))
                 for name in ("prompt_tokens_total", "prefix_cache_hits_total",
                              "generation_tokens_total", "request_success_total")}
        self.assertEqual(total, {
            "prompt_tokens_total": result["tokens"]["prompt"],
            "prefix_cache_hits_total": result["tokens"]["cached"],
            "generation_tokens_total": 24 * 8, "request_success_total": 24})
        ttft, whole = result["ttft_ms"], result["whole_ms"]
        self.assertEqual(ttft["count"], 24)
        self.assertGreater(ttft["p50"], 0)
        self.assertLessEqual(ttft["p50"], ttft["p99"])
        self.assertLess(ttft["p50"], whole["p50"])

    def test_a_turn_hits_what_the_turn_before_left(self):
        engine = self.engine("e", *FAST)
        alone = self.play(engine.url("http"), users=1, conversations=1, turns=5,
                          groups=0, user_bytes=800)
        self.assertGreater(alone["tokens"]["cached"], alone["tokens"]["prompt"] // 2)

    def test_the_same_seed_says_the_same(self):
        engine = self.engine("e", *FAST)
        results = [self.play(engine.url("http"), users=users, seed=seed)["tokens"]["prompt"]
                   for users, seed in ((1, 3), (8, 3), (1, 4))]
        self.assertEqual(results[0], results[1])
        self.assertNotEqual(results[0], results[2])

    def test_people_read_a_table(self):
        engine = self.engine("e", *FAST)
        words = [w for w in self.command(engine.url("http")) if w != "--json"]
        run = self.run_once("kvasir-load", *words)
        self.assertEqual(run.returncode, 0)
        self.assertEqual([line.split()[0] for line in run.stdout.splitlines()],
                         ["requests", "tokens", "TTFT", "whole", "workers", "time"])
        self.assertIn("24 sent, 24 answered, 0 failed, 0 not sent", run.stdout)
        self.assertIn("100 %", run.stderr)
        self.assertNotIn("\r", run.stderr)

    def test_bad_usage_is_2(self):
        for words in (["--users", "0"], ["--url", "nowhere"], ["--nope"]):
            run = self.run_once("kvasir-load", *words)
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn(words[0], run.stderr)
        self.assertEqual(self.run_once("kvasir-load", "--help").returncode, 0)


class Slo(LoadCase):
    """How answers keep slo.ttft and slo.itl. A step of the engine takes 8 ms, so no
    first token comes within one."""

    SERIES = ("met", "ttft_missed", "itl_missed")

    def counts(self, node):
        told = harness.metrics(node.at("admin"))

        def count(*outcomes):
            return sum(value for key, value in told.items()
                       if key.startswith('kvasir_slo_streams_total{model="kvasir/stand-in"')
                       and any(f'outcome="{name}"' in key for name in outcomes))
        return [count("met"), count("ttft_missed", "both_missed"),
                count("itl_missed", "both_missed")]

    def play_with(self, ttft, itl):
        node = self.serve([self.engine("e1"), self.engine("e2")],
                          "--slo.ttft", ttft, "--slo.itl", itl)
        answered = self.play(node.url("serve"))["requests"]["answered"]
        self.assertEqual(answered, 24)
        harness.wait_until(lambda: sum(self.counts(node)) >= 24, "all are judged")
        return node

    def test_in_time(self):
        node = self.play_with("10m", "1m")
        self.assertEqual(self.counts(node), [24, 0, 0])
        harness.wait_until(lambda: all(w["slo_tokens"] for w in self.workers(node)),
                           "what each can do is learned")
        self.assertEqual([w["slo_requests"] for w in self.workers(node)], [None, None])
        asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        explained = harness.request(node.at("admin"), "POST", "/admin/explain", asked).json()
        for candidate in explained["candidates"]:
            self.assertGreater(candidate["slo_tokens"], 1000)
            self.assertIsNone(candidate["slo_requests"])

    def test_too_late(self):
        node = self.play_with("1ms", "0s")
        self.assertEqual(self.counts(node), [0, 24, 0])
        late = [d["too_late"] for d in harness.request(node.at("admin"), "GET",
                                                       "/admin/decisions").json()]
        self.assertEqual(len(late), 24)
        self.assertLessEqual(max(late), 1)  # where all are late, none is left out

    def test_without_one(self):
        node = self.serve([self.engine("e1")])
        self.play(node.url("serve"))
        harness.wait_until(lambda: len(harness.request(
            node.at("admin"), "GET", "/admin/decisions").json()) == 24, "all have ended")
        self.assertEqual(self.counts(node), [0, 0, 0])
        self.assertNotIn("slo_tokens", self.workers(node)[0])


class Failing(LoadCase):
    """Each way to fail has its name. 8 conversations of 3 turns are planned."""

    def chaos(self, engine, **orders):
        answer = harness.request(engine.at("http"), "POST", "/chaos", orders)
        self.assertEqual(answer.status, 200, answer.text)

    def test_nobody_there(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))  # bound, not listening: refused
            result = self.play("http://127.0.0.1:%d" % nobody.getsockname()[1])
        self.assert_failed(result, connect=8)
        self.assertEqual(result["requests"]["not_sent"], 16)

    def test_refused(self):
        engine = self.engine("e", *FAST)
        self.chaos(engine, fail_status=500, fail_count=3)
        result = self.play(engine.url("http"))
        self.assert_failed(result, status=3)
        self.assertEqual(result["requests"]["answered"], 24 - 3 - result["requests"]["not_sent"])

    def test_severed_in_the_middle(self):
        engine = self.engine("e", *FAST)
        self.chaos(engine, die_after_tokens=4, die_count=2)
        result = self.play(engine.url("http"))
        self.assert_failed(result, severed=2)
        # A token had come: it counts for the time to the first one.
        self.assertEqual(result["ttft_ms"]["count"], result["requests"]["answered"] + 2)

    def test_not_in_time(self):
        engine = self.engine("e", *FAST)
        self.chaos(engine, hang_count=1)
        result = self.play(engine.url("http"), conversations=1, turns=1, timeout_ms=300)
        self.assert_failed(result, timeout=1)

    def test_streams_that_are_none(self):
        def handler(peer, request):
            turn = sum(m["role"] == "user" for m in request.json()["messages"])
            peer.begin_stream()
            if turn == 1:
                peer.chunk(b'data: {"choices":[{"delta":{"content":"a\\"b"}}]}\n\n')
                peer.chunk(b"data: [DONE]\n\n")
            elif turn == 2:
                # The answer must come back as it was.
                if request.json()["messages"][1] != {"role": "assistant", "content": 'a"b'}:
                    peer.chunk(b"data: wrong\n\n")
            peer.end_stream()
            raise Close

        result = self.play(FakeWorker(self, handler).url, conversations=1, users=1, groups=0)
        self.assert_failed(result, no_done=1)
        self.assertEqual(result["requests"]["answered"], 1)

        def silent(peer, request):
            peer.begin_stream()
            peer.chunk(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n')
            peer.chunk(b"data: [DONE]\n\n")
            peer.end_stream()
            raise Close

        # An answer, but nothing whose time could be taken.
        result = self.play(FakeWorker(self, silent).url, conversations=2, users=2, turns=1)
        self.assertEqual((result["requests"]["answered"], result["ttft_ms"]["count"]), (2, 0))

        def nonsense(peer, request):
            peer.begin_stream()
            peer.chunk(b"data: nonsense\n\n")
            peer.wait_closed()

        result = self.play(FakeWorker(self, nonsense).url, conversations=2, users=2, turns=1)
        self.assert_failed(result, bad=2)

    def test_a_signal_ends_it_and_what_was_under_way_is_counted(self):
        engine = self.engine("e", "--speed", "0.01")
        load = self.spawn("kvasir-load", *self.command(engine.url("http"), think_ms=0))
        harness.wait_until(lambda: harness.metric(engine.at("http"), "vllm:num_requests_running")
                           + harness.metric(engine.at("http"), "vllm:num_requests_waiting") == 4,
                           "every user waits")
        load.killed = True  # it ends with 1, which is right
        load.signal(signal.SIGTERM)
        out = load.popen.stdout.read()
        self.assertEqual(load.wait(), 1)
        result = self.adds_up(json.loads(out))
        self.assert_failed(result, stopped=4)


class Names(LoadCase):
    """A name that stands for several addresses."""

    def engines_at(self, *hosts):
        """Engines on one port of several loopback addresses."""
        port = free_port(*hosts)
        return [self.start("kvasir-engine", "--host", host, "--port", port, *FAST)
                for host in hosts], port

    def test_turns_go_to_all_addresses_of_a_name(self):
        engines, port = self.engines_at("127.0.0.2", "127.0.0.3")
        dns = Dns(self, {"engines.test": ["127.0.0.2", "127.0.0.3"]})
        result = self.play(f"http://engines.test:{port}", resolver=dns.address, conversations=12)
        self.assert_failed(result)
        had = [harness.metric(e.at("http"), "vllm:request_success_total") for e in engines]
        self.assertEqual(sum(had), 36)
        self.assertTrue(all(8 <= n <= 28 for n in had), had)

    def test_an_address_where_nobody_is_costs_a_retry_and_no_request(self):
        hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        port = free_port(*hosts)
        self.start("kvasir-engine", "--host", hosts[0], "--port", port, *FAST)
        dns = Dns(self, {"engines.test": hosts})
        result = self.play(f"http://engines.test:{port}", resolver=dns.address)
        self.assert_failed(result)
        self.assertEqual(result["requests"]["answered"], 24)
        self.assertGreater(result["requests"]["retried"], 0)
        self.assertEqual(sum(s["retried"] for s in result["per_second"]),
                         result["requests"]["retried"])
        self.assertEqual(sum(s["answered"] for s in result["per_second"]), 24)

    def test_no_retry_once_an_answer_has_begun(self):
        engines, port = self.engines_at("127.0.0.2", "127.0.0.3")
        dns = Dns(self, {"engines.test": ["127.0.0.2", "127.0.0.3"]})
        for engine in engines:
            harness.request(engine.at("http"), "POST", "/chaos",
                            {"die_after_tokens": 4, "die_count": 1})
        result = self.play(f"http://engines.test:{port}", resolver=dns.address)
        self.assert_failed(result, severed=2)
        self.assertEqual(result["requests"]["retried"], 0)

    def test_a_name_that_does_not_exist_fails_each_request(self):
        dns = Dns(self, {})
        result = self.play("http://engines.test:80", resolver=dns.address)
        self.assert_failed(result, connect=8)


class ThroughANode(LoadCase):
    def test_node_client_and_engines_count_the_same(self):
        engines = [self.engine(f"e{i}", *FAST) for i in range(3)]
        node = self.serve(engines)
        result = self.play(node.url("serve"), conversations=12)
        self.assert_failed(result)
        self.assertEqual(sum(w["requests"] for w in result["workers"]), 36)
        self.assertLessEqual({w["id"] for w in result["workers"]},
                             {"engine-1", "engine-2", "engine-3"})
        had = {w["id"]: w["requests"] for w in result["workers"]}

        def same():
            """The node counts a request when its last byte is sent: the client
            may have it, and ask, a moment before."""
            status = harness.request(node.at("admin"), "GET", "/admin/status").json()
            return (status["requests"]["forwarded"] == 36
                    and status["placement"]["prompt_tokens"] == result["tokens"]["prompt"]
                    and status["placement"]["cached_tokens"] == result["tokens"]["cached"]
                    and all(w["requests"] == had.get(w["id"], 0) for w in self.workers(node)))

        harness.wait_until(same, f"the node counts the same as the client: {result}")

    def test_affinity_finds_more_in_the_caches_than_round_robin(self):
        ratios = {}
        for policy in ("round_robin", "kvasir"):
            # Each engine holds a third of the system prompts.
            engines = [self.engine(f"e{i}", "--speed", "20", "--blocks", "256")
                       for i in range(4)]
            node = self.serve(engines, "--policy", policy, "--lanes", "1")
            result = self.play(node.url("serve"), users=6, conversations=24, turns=4, groups=12,
                               system_bytes=4000)
            self.assert_failed(result)
            ratios[policy] = result["tokens"]["cached"] / result["tokens"]["prompt"]
            if policy == "round_robin":
                self.assertEqual([w["requests"] for w in result["workers"]], [24] * 4)
            node.stop()
            for engine in engines:
                engine.stop()
        self.assertGreater(ratios["kvasir"], 1.3 * ratios["round_robin"], ratios)

    def test_a_killed_engine_costs_only_the_streams_it_was_answering(self):
        engines = [self.engine(f"e{i}", "--step-ms", "20") for i in range(4)]
        node = self.serve(engines)
        load = self.spawn("kvasir-load", *self.command(
            node.url("serve"), users=24, conversations=24, turns=2, groups=8, think_ms=50,
            max_tokens=200))

        def busy():
            """An engine in the middle of several streams."""
            for engine in engines:
                running = harness.metric(engine.at("http"), "vllm:num_requests_running")
                if running >= 3 and harness.metric(
                        engine.at("http"), "vllm:generation_tokens_total") >= 300:
                    return engine
            return None

        victim = harness.wait_until(busy, "an engine is busy")
        # Frozen, it answers nothing more: every stream that it has begun is
        # counted by the node now, and no other one begins.
        victim.signal(signal.SIGSTOP)
        name = f"engine-{engines.index(victim) + 1}"
        open_streams = next(w["inflight"] for w in self.workers(node) if w["id"] == name)
        victim.kill()
        out = load.popen.stdout.read()
        self.assertEqual(load.wait(), 0)
        result = self.adds_up(json.loads(out))
        severed = result["failures"]["severed"]
        self.assertGreater(severed, 0)
        self.assertLessEqual(severed, open_streams)
        self.assert_failed(result, severed=severed)
        failed = {w["id"]: w["failed"] for w in result["workers"] if w["failed"]}
        self.assertEqual(failed, {name: severed})

        def out_of_the_way():
            after = {w["id"]: w for w in self.workers(node)}
            return (after[name]["streams_severed"] == severed and not after[name]["eligible"]
                    and sum(w["eligible"] for w in after.values()) == 3)

        harness.wait_until(out_of_the_way, "only the dead engine is left out")


if __name__ == "__main__":
    harness.main()
