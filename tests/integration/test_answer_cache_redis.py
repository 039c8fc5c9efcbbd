"""Answers that nodes share by a Redis: a real one, with and without password and TLS, that
goes away, comes back, stops answering, and holds what nobody should believe."""
import itertools
import json
import threading
import unittest

import certs
import harness
from dns import free_port
from fake_worker import FakeWorker
from redis_server import FOUND, RedisServer
from test_answer_cache import EVENTS, USAGE, cold
from test_answer_cache_mesh import Answers
from test_proxy import CHAT

SECRET = "secret 0123456789abcdef0123456789abcdef\n"
NAME = "kvasir_answer_cache_shared"
REFUSALS = "full", "read_only", "password", "rights", "other"


@unittest.skipUnless(FOUND, "no redis-server, see deploy/packages test")
class Shared(Answers):
    def file(self, text=SECRET, name="redis"):
        file = self.folder / name
        file.write_text(text)
        return file

    def share(self, redis, *more, file=None, names="ab", wait="10s"):
        """Nodes that share answers by it, whose connections are open. The wait is long where
        it should not end: the machine may be busy."""
        nodes = self.nodes_of("--answer_cache.redis", redis.url,
                              "--answer_cache.redis_file", file or self.file(),
                              "--answer_cache.redis_wait", wait, *more, names=names)
        for node in nodes:
            self.opens(node)
        return nodes

    def opens(self, node):
        harness.wait_until(lambda: self.metric(node, f"{NAME}_connections") == 1, "it is open")

    def result(self, node, name):
        return self.metric(node, f'{NAME}_total{{result="{name}"}}')

    def sent(self, node, count):
        harness.wait_until(lambda: self.metric(node, f"{NAME}_sent_total") == count,
                           f"{count} were sent")


class Nodes(Shared):
    def test_what_one_node_got_the_others_have(self):
        redis = RedisServer(self)
        nodes = self.share(redis, "--log.requests", "all", names="abc")
        said, first = self.ask(nodes[0])
        self.assertEqual(said, "MISS")
        self.sent(nodes[0], 1)
        for node in nodes[1:]:
            for place in "there", "here":
                got = harness.request(node.at("serve"), "POST", CHAT, cold())
                self.assertEqual((got.status, got.headers["x-cache"], got.body),
                                 (200, "HIT", first), place)
                self.assertEqual(got.headers["content-type"], "application/json")
                self.assertLess(int(got.headers["age"]), 3600)
            self.assertEqual(self.result(node, "hit"), 1)  # then it has it itself
        self.assertEqual(self.count, 1)
        harness.wait_until(lambda: "cache=hit cache_why=redis" in nodes[1].log(), "a line")
        status = harness.request(nodes[1].at("admin"), "GET", "/admin/status").json()
        self.assertEqual(status["answer_cache"]["redis"],
                         {"url": redis.url, "connections": 1, "open": 1, "hits": 1, "sent": 0,
                          "refused": dict.fromkeys(REFUSALS, 0)})
        shown = self.run_once("kvasir", "status", "--admin",
                              "%s:%d" % nodes[1].at("admin")).stdout
        self.assertIn("by redis 1, 1 of 1 connections open\n", shown)
        self.assertEqual(self.ask(nodes[1], cold(model="n"))[0], "MISS")
        self.assertEqual(self.ask(nodes[1], cold(max_tokens=3))[0], "MISS")

    def test_what_lies_there_says_nothing_and_has_an_age(self):
        redis = RedisServer(self)
        node = self.share(redis, "--answer_cache.ttl", "1h", names="a")[0]
        _, first = self.ask(node)
        self.sent(node, 1)
        name, = redis.answers()
        value = redis.call("GET", name)
        self.assertEqual(value[:4], b"KvA1")
        self.assertGreater(len(value), len(first))
        self.assertNotIn(b"Hi", value)
        self.assertNotIn(b"json", value)
        left = redis.call("PTTL", name)
        self.assertTrue(3_500_000 < left <= 3_600_000, left)

    def test_streams_come_again_byte_for_byte_on_another_node(self):
        def stream(peer, _):
            peer.begin_stream()
            for one in EVENTS:
                peer.chunk(one)
            peer.end_stream()
        self.worker.handler = stream
        nodes = self.share(RedisServer(self))
        body = cold(stream=True, stream_options={"include_usage": True})
        self.ask(nodes[0], body)
        self.sent(nodes[0], 1)
        got = harness.request(nodes[1].at("serve"), "POST", CHAT, body)
        self.assertEqual((got.headers["x-cache"], got.body), ("HIT", b"".join(EVENTS)))
        self.assertEqual(got.headers["content-type"], "text/event-stream")

    def test_large_answers_go_there_up_to_the_bound(self):
        large = {"choices": [{"finish_reason": "stop", "text": "x" * 400_000}]}
        self.worker.handler = lambda peer, _: peer.json(large)
        nodes = self.share(RedisServer(self))
        self.ask(nodes[0])
        self.sent(nodes[0], 1)
        said, body = self.ask(nodes[1])
        self.assertEqual((said, json.loads(body)), ("HIT", large))

    def test_a_node_of_less_memory_asks_an_engine_and_keeps_its_connection(self):
        large = {"choices": [{"finish_reason": "stop", "text": "x" * 400_000}]}
        self.worker.handler = lambda peer, _: peer.json(large)
        redis = RedisServer(self)
        node, = self.share(redis, names="a")
        small, = self.share(redis, "--answer_cache.bytes_max", "1MiB", names="b")
        self.ask(node)
        self.sent(node, 1)
        said, body = self.ask(small)
        self.assertEqual((said, json.loads(body)), ("MISS", large))
        self.assertEqual([self.result(small, name) for name in ("bad", "failed")], [1, 0])
        self.assertNotIn("redis_away", small.log())

    def test_no_cache_makes_it_anew_for_all(self):
        nodes = self.share(RedisServer(self), names="abc")
        _, first = self.ask(nodes[0])
        self.sent(nodes[0], 1)
        said, second = self.ask(nodes[1], headers={"cache-control": "no-cache"})
        self.assertEqual(said, "MISS")
        self.assertNotEqual(first, second)
        self.sent(nodes[1], 1)
        self.assertEqual(self.ask(nodes[2]), ("HIT", second))


class Cleared(Shared):
    def test_what_is_cleared_is_cleared_in_redis_and_on_all_nodes(self):
        redis = RedisServer(self)
        nodes = self.share(redis, names="abc")
        for model in "mn":
            self.ask(nodes[0], cold(model=model))
        self.sent(nodes[0], 2)
        for node in nodes[1:]:
            for model in "mn":
                self.assertEqual(self.ask(node, cold(model=model))[0], "HIT")
        self.assertEqual(self.clear(nodes[1], {"model": "m"}), {"cleared": 1, "peers_told": 2})
        for node in nodes:
            self.kept(node, 1)
        self.assertEqual([self.ask(nodes[2], cold(model=model))[0] for model in "mn"],
                         ["MISS", "HIT"])
        self.sent(nodes[2], 1)  # what came since is shared again
        self.assertEqual(self.ask(nodes[0], cold(model="m"))[0], "HIT")
        self.assertEqual(self.clear(nodes[0], {"tenant": "nobody"})["cleared"], 0)
        self.clear(nodes[2], {})
        for node in nodes:
            self.kept(node, 0)
        self.assertEqual(self.ask(nodes[0], cold(model="n"))[0], "MISS")

    def test_what_was_cleared_while_it_was_made_is_not_shared(self):
        go = threading.Event()
        self.addCleanup(go.set)

        def late(peer, request):
            go.wait(harness.IO_TIMEOUT_S)
            self.usual(peer, request)
        self.worker.handler = late
        nodes = self.share(RedisServer(self))
        first = threading.Thread(target=self.ask, args=(nodes[0],))
        first.start()
        harness.wait_until(lambda: self.metric(nodes[0], "kvasir_answer_cache_flights") == 1,
                           "it is under way")
        harness.wait_until(lambda: self.result(nodes[0], "miss") == 1, "Redis was asked")
        self.clear(nodes[1], {})
        go.set()
        first.join(harness.IO_TIMEOUT_S)
        self.sent(nodes[0], 1)
        self.assertEqual(self.ask(nodes[1])[0], "MISS")
        self.assertEqual(self.result(nodes[1], "bad"), 0)

    def test_a_redis_that_forgot_the_marks_has_nothing_that_holds(self):
        redis = RedisServer(self)
        nodes = self.share(redis)
        self.ask(nodes[0])
        self.sent(nodes[0], 1)
        redis.call("DEL", "kvasir:1:cleared")
        self.assertEqual(self.ask(nodes[1])[0], "MISS")
        harness.wait_until(lambda: redis.call("EXISTS", "kvasir:1:cleared"), "they begin anew")
        self.ask(nodes[0], cold(max_tokens=7))
        self.sent(nodes[0], 2)
        self.assertEqual(self.ask(nodes[1], cold(max_tokens=7))[0], "HIT")

    def test_it_is_told_when_redis_could_not_be_cleared(self):
        redis = RedisServer(self)
        nodes = self.share(redis)
        self.ask(nodes[0])
        self.kept(nodes[0], 1)
        redis.kill()
        harness.wait_until(lambda: not self.metric(nodes[0], f"{NAME}_connections"), "it is away")
        got = harness.request(nodes[1].at("admin"), "POST", "/admin/answer_cache/clear", {})
        self.assertEqual((got.status, got.json()["error"]["code"]), (503, "not_cleared_in_redis"))
        self.kept(nodes[0], 0)


class Refused(Shared):
    """Answers that a Redis does not take, over a connection that stays open."""

    def refused(self, node):
        counts = {why: self.metric(node, f'{NAME}_refused_total{{reason="{why}"}}')
                  for why in REFUSALS}
        status = harness.request(node.at("admin"), "GET", "/admin/status").json()
        self.assertEqual(status["answer_cache"]["redis"]["refused"], counts)
        return {why: count for why, count in counts.items() if count}

    def refuses(self, node, why, first=1):
        """Two answers; each node goes on with its own memory."""
        for n in first, first + 1:
            self.assertEqual([self.ask(node, cold(max_tokens=n))[0] for _ in range(2)],
                             ["MISS", "HIT"])
        harness.wait_until(lambda: self.refused(node) == {why: 2}, f"they are counted: {why}")
        shown = self.run_once("kvasir", "status", "--admin", "%s:%d" % node.at("admin")).stdout
        self.assertIn(f"1 of 1 connections open; it refused 2 ({why})\n", shown)
        lines = [line for line in node.log().splitlines() if "redis_refused" in line]
        self.assertEqual(len(lines), 1, "the first of a minute")
        self.assertIn(" hint=", lines[0])
        return lines[0]

    def test_one_that_is_full(self):
        redis = RedisServer(self)
        nodes = self.share(redis)
        redis.call("CONFIG", "SET", "maxmemory", "1")
        line = self.refuses(nodes[0], "full")
        self.assertIn('why="it is full" said="OOM ', line)
        self.assertEqual(redis.answers(), [])
        self.assertEqual(self.ask(nodes[1], cold(max_tokens=1))[0], "MISS")
        late, = self.nodes_of("--answer_cache.redis", redis.url, "--answer_cache.redis_file",
                              self.file(), names="c")
        harness.wait_until(lambda: 'redis_away lane=0 why="it is full"' in late.log(),
                           "it does not take the first command either")
        redis.call("CONFIG", "SET", "maxmemory", "0")
        self.opens(late)
        self.ask(nodes[0], cold(max_tokens=9))
        harness.wait_until(redis.answers, "it has room again")
        self.assertEqual(self.refused(nodes[0]), {"full": 2})

    def test_a_replica(self):
        redis = RedisServer(self)
        node, = self.share(redis, names="a")
        redis.call("REPLICAOF", "127.0.0.1", free_port())
        self.assertIn("must lead to the primary", self.refuses(node, "read_only"))

    def test_a_user_who_lost_a_right(self):
        redis = RedisServer(self, user="kvasir", password="p")
        node, = self.share(redis, names="a", file=self.file(SECRET + "user kvasir\npassword p\n"))
        redis.call("ACL", "SETUSER", "kvasir", "-set")
        self.assertIn("the user needs HSETNX", self.refuses(node, "rights"))

    def test_for_any_other_reason(self):
        redis = RedisServer(self)
        node, = self.share(redis, names="a")
        redis.call("CONFIG", "SET", "min-replicas-to-write", "1")
        self.assertIn('said="NOREPLICAS ', self.refuses(node, "other"))


class Explained(Shared):
    def explain(self, node, body):
        told = harness.request(node.at("admin"), "POST", "/admin/explain", body).json()
        return told["answer_cache"]

    def test_explain_says_whether_redis_would_be_asked(self):
        redis = RedisServer(self)
        node, = self.share(redis, names="a")
        said = {"asks": True, "why_not": "", "connections": 1, "open": 1,
                "holds": "unknown: explain does not ask it"}
        self.assertEqual(self.explain(node, cold()),
                         {"may": True, "why_not": "", "redis": said})
        self.assertEqual(self.explain(node, {**cold(), "temperature": 1}),
                         {"may": False, "why_not": "sampled",
                          "redis": {**said, "asks": False, "why_not": "sampled"}})
        redis.kill()
        harness.wait_until(lambda: not self.metric(node, f"{NAME}_connections"), "it is away")
        self.assertEqual(self.explain(node, cold())["redis"],
                         {**said, "asks": False, "why_not": "away", "open": 0})


class Trust(Shared):
    def test_what_is_damaged_or_foreign_is_not_believed(self):
        redis = RedisServer(self)
        nodes = self.share(redis)
        _, first = self.ask(nodes[0])
        self.ask(nodes[0], cold(model="n"))
        self.sent(nodes[0], 2)
        names = redis.answers()
        values = {name: redis.call("GET", name) for name in names}
        other = dict(zip(names, reversed(names)))

        def flipped(at):
            return lambda name: (values[name][:at] + bytes([values[name][at] ^ 1]) +
                                 values[name][at + 1:])
        damaged = [lambda _: b"KvA1", lambda _: b"x" * 5000,
                   lambda _: b"KvA1" + bytes(60), lambda name: values[name][:-1],
                   lambda name: values[name] + b"\0", flipped(8), flipped(20), flipped(40),
                   lambda name: values[other[name]]]
        for count, value in enumerate(damaged, 1):
            for name in names:
                redis.call("SET", name, value(name))
            said, body = self.ask(nodes[1])
            self.assertEqual((said, json.loads(body)["usage"]), ("MISS", USAGE))
            self.assertEqual(self.result(nodes[1], "bad"), count)
            # So that it asks anew; what it made meanwhile does not hold any more either.
            self.sent(nodes[1], count)
            harness.request(nodes[1].at("admin"), "POST", "/admin/answer_cache/clear",
                            {"model": "m"})
        self.assertEqual(self.result(nodes[1], "hit"), 0)
        for name in redis.answers():
            redis.call("DEL", name)
            redis.call("SADD", name, "no text at all")
        self.assertEqual(self.ask(nodes[1])[0], "MISS")

    def test_nodes_of_another_secret_have_nothing_in_common(self):
        redis = RedisServer(self)
        node = self.share(redis, names="a")[0]
        other = self.share(redis, file=self.file(SECRET.upper().replace("SECRET", "secret"), "f"),
                           names="b")[0]
        self.ask(node)
        self.sent(node, 1)
        self.assertEqual(self.ask(other)[0], "MISS")
        self.sent(other, 1)
        self.assertEqual(len(redis.answers()), 2)

    def test_tenants_are_apart(self):
        keys, lines = {}, ["tenants:"]
        for name in "ab":
            keys[name], line = self.run_once("kvasir", "key").stdout.split()
            lines += [f"  {name}:", "    keys:", f"      - {line}"]
        file = self.folder / "keys.yaml"
        file.write_text("\n".join(lines) + "\n")
        nodes = self.share(RedisServer(self), "--keys.file", file)

        def said(node, tenant):
            return self.ask(node, headers={"authorization": f"Bearer {keys[tenant]}"})[0]
        self.assertEqual(said(nodes[0], "a"), "MISS")
        self.sent(nodes[0], 1)
        self.assertEqual([said(nodes[1], "b"), said(nodes[1], "a")], ["MISS", "HIT"])

    def test_the_configuration_says_what_is_missing(self):
        def errors(*options):
            done = self.run_once("kvasir", "check", "--worker", self.worker.url, *options)
            self.assertNotEqual(done.returncode, 0)
            return done.stdout + done.stderr
        on = ("--answer_cache.bytes_max", "64MiB")
        url = ("--answer_cache.redis", "redis://h")
        self.assertIn("expected a file with a line `secret TEXT`", errors(*on, *url))
        self.assertIn("expected answer_cache.bytes_max",
                      errors(*url, "--answer_cache.redis_file", self.file()))
        self.assertIn("expected both or none", errors(*on, "--answer_cache.redis_file", self.file()))
        for bad in ("http://h", "redis://u:p@h", "redis://h:0", "redis://h/x", "redis://",
                    "redis://h/99999"):
            self.assertIn("expected redis://HOST", errors(
                *on, "--answer_cache.redis", bad, "--answer_cache.redis_file", self.file()), bad)
        for bad in ("", "secret short\n", "password p\n", SECRET + SECRET, SECRET + "key x\n",
                    SECRET + "user u\n", "x" * 5000):
            self.assertIn("answer_cache.redis_file", errors(
                *on, *url, "--answer_cache.redis_file", self.file(bad)), bad)


class Access(Shared):
    def test_a_password_and_a_database(self):
        redis = RedisServer(self, password="open sesame")
        redis.database = "/3"
        nodes = self.share(redis, file=self.file(SECRET + "password open sesame\n"))
        self.ask(nodes[0])
        self.sent(nodes[0], 1)
        self.assertEqual(self.ask(nodes[1])[0], "HIT")
        self.assertEqual(redis.answers(), [])  # of database 0
        self.assertEqual(redis.call("SWAPDB", "0", "3"), b"OK")
        self.assertEqual(len(redis.answers()), 1)

    def test_a_user_who_may_do_little(self):
        redis = RedisServer(self, user="kvasir", password="p")
        nodes = self.share(redis, file=self.file(SECRET + "user kvasir\npassword p\n"))
        self.ask(nodes[0])
        self.sent(nodes[0], 1)
        self.assertEqual(self.ask(nodes[1])[0], "HIT")

    def test_who_is_not_let_in_goes_on_alone(self):
        redis = RedisServer(self, password="another")
        node, = self.nodes_of("--answer_cache.redis", redis.url, "--answer_cache.redis_file",
                              self.file(SECRET + "password this\n"), names="a")
        harness.wait_until(lambda: 'why="it wants another password"' in node.log(), "it is said")
        self.assertEqual([self.ask(node)[0] for _ in range(2)], ["MISS", "HIT"])
        self.assertEqual(self.result(node, "away"), 1)

    @unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
    def test_tls_and_a_password(self):
        made = certs.Certs(type(self))
        redis = RedisServer(self, password="p", tls=made)
        trust = ("--tls.workers_ca_file", made.path("ca.pem"))
        nodes = self.share(redis, *trust, file=self.file(SECRET + "password p\n"))
        _, first = self.ask(nodes[0])
        self.sent(nodes[0], 1)
        self.assertEqual(self.ask(nodes[1]), ("HIT", first))
        large = {"choices": [{"finish_reason": "stop", "text": "x" * 300_000}]}
        self.worker.handler = lambda peer, _: peer.json(large)
        self.ask(nodes[0], cold(max_tokens=9))
        self.sent(nodes[0], 2)
        self.assertEqual(json.loads(self.ask(nodes[1], cold(max_tokens=9))[1]), large)
        alone, = self.nodes_of("--answer_cache.redis", redis.url, "--answer_cache.redis_file",
                               self.file(), "--tls.workers_ca_file", made.path("stranger.pem"),
                               names="x")
        harness.wait_until(lambda: "redis_away" in alone.log() and "certificate" in alone.log(),
                           "it is no server of ours")
        self.assertEqual(self.ask(alone)[0], "MISS")


class Away(Shared):
    def test_nodes_go_on_by_themselves_and_share_again_when_it_is_back(self):
        redis = RedisServer(self)
        nodes = self.share(redis)
        self.ask(nodes[0])
        self.sent(nodes[0], 1)
        redis.kill()
        for node in nodes:
            harness.wait_until(lambda node=node: not self.metric(node, f"{NAME}_connections"),
                               "it is away")
        for node in nodes:
            self.assertEqual(self.ask(node, cold(max_tokens=5))[0], "MISS")
            self.assertEqual(self.ask(node, cold(max_tokens=5))[0], "HIT")
            self.assertEqual(self.result(node, "away"), 1)
        self.assertIn("redis_away", nodes[0].log())
        redis.start_again()
        for node in nodes:
            self.opens(node)
        self.assertEqual(self.ask(nodes[0], cold(max_tokens=6))[0], "MISS")
        self.sent(nodes[0], 2)
        self.assertEqual(self.ask(nodes[1], cold(max_tokens=6))[0], "HIT")

    def test_one_that_stops_answering_costs_those_that_wait_and_nobody_else(self):
        redis = RedisServer(self)
        node = self.share(redis, names="a", wait="300ms")[0]
        redis.freeze()
        self.addCleanup(lambda: redis.process and redis.thaw())
        asks = [threading.Thread(target=self.ask, args=(node, cold(max_tokens=n)))
                for n in range(1, 6)]
        for one in asks:
            one.start()
        for one in asks:
            one.join(harness.IO_TIMEOUT_S)
        self.assertEqual(self.count, 5)
        failed, away = self.result(node, "failed"), self.result(node, "away")
        self.assertGreater(failed, 0)
        self.assertEqual(failed + away, 5)
        self.assertIn('why="it does not answer in time"', node.log())
        self.assertEqual(self.metric(node, f"{NAME}_connections"), 0)
        # It takes connections still: they are not open before it has answered.
        for n in range(10, 30):
            self.assertEqual(self.ask(node, cold(max_tokens=n))[0], "MISS")
        self.assertEqual(self.result(node, "failed"), failed)
        self.assertEqual(self.result(node, "away"), away + 20)
        redis.thaw()
        self.opens(node)
        numbers = itertools.count(40)
        harness.wait_until(lambda: self.ask(node, cold(max_tokens=next(numbers))) and
                           self.metric(node, f"{NAME}_sent_total") > 0, "it is shared")

    def test_clients_that_leave_while_redis_is_asked_leave_no_trace(self):
        redis = RedisServer(self)
        node = self.share(redis, names="a", wait="10s")[0]
        redis.freeze()
        self.addCleanup(lambda: redis.process and redis.thaw())
        stream = harness.connect(node.at("serve"))
        body = json.dumps(cold())
        stream.request("POST", CHAT, body, {"content-type": "application/json"})
        harness.wait_until(lambda: self.metric(node, "kvasir_answer_cache_flights") == 1,
                           "it waits")
        stream.close()
        harness.wait_until(lambda: self.metric(node, "kvasir_answer_cache_flights") == 0,
                           "it is gone")
        redis.thaw()
        self.assertEqual(self.ask(node)[0], "MISS")
        self.assertEqual(self.count, 1)

    def test_a_server_that_is_no_redis_is_left_alone(self):
        web = FakeWorker(self, self.usual)
        node, = self.nodes_of("--answer_cache.redis", f"redis://127.0.0.1:{web.address[1]}",
                              "--answer_cache.redis_file", self.file(), names="a")
        harness.wait_until(lambda: "redis_away" in node.log(), "it is said")
        self.assertEqual([self.ask(node)[0] for _ in range(2)], ["MISS", "HIT"])


if __name__ == "__main__":
    harness.main()
