"""Events by way of a real nats-server: what comes out of the intake is what the
engine holds, also after the server died, and less where the stream has less."""
import collections
import os
import pathlib
import subprocess
import sys
import unittest

import certs
import harness
import nats
import nats_keys

try:
    import kv_events
    import test_events
    from fake_publisher import Publisher
except ImportError:
    Publisher = None

BRIDGE = pathlib.Path(__file__).resolve().parents[2] / "deploy/nats_events.py"
needs = unittest.skipIf(nats.PROGRAM is None or Publisher is None,
                        "no nats-server, python3-zmq or python3-msgpack")


class Source(Publisher if Publisher else object):
    """A Publisher without sockets: its batches go to a subject."""

    def __init__(self, server, subject, stream=None, client=None, rank=0, **options):
        self.server, self.subject, self.stream = server, subject, stream
        self.client, self.lives = client or server.client(), 0
        super().__init__(rank=rank, **options)

    def _open(self, patience_s):
        self.seq, self.held, self.lives = 0, {}, self.lives + 1
        self._thread = None
        self.subscriptions = []

    @property
    def events(self):
        return self.server.url(self.subject)

    @property
    def replay(self):
        return self.server.url(self.stream) if self.stream else None

    def publish(self, payload, topic=None):
        seq, self.seq = self.seq, self.seq + 1
        if self.drop_live > 0:
            self.drop_live -= 1
            return
        self.client.publish(self.subject, payload, f"{self.life()}-{seq}", bool(self.stream))

    def life(self):
        return f"{self.subject}{self.lives}"


class Base(test_events.Base if Publisher else harness.Case):
    def server(self, *flags, **options):
        server = nats.Server(self.folder, *flags, **options)
        self.addCleanup(server.kill)
        return server

    @staticmethod
    def log_of(drive):
        return pathlib.Path(drive.log.name).read_text(errors="replace")

    def source(self, server, subject="kv.a", stream="KV", **options):
        source = Source(server, subject, stream, **options)
        self.addCleanup(source.client.close)
        if stream:
            source.client.stream(stream, ["kv.>"])
        return source

    def join(self, source, replay=True, state="live", **options):
        drive = self.watch(self.drive(source, replay, **options))
        if state:
            self.wait(lambda: drive.state() == state, f"a first state, {state}")
        return drive


@needs
class Nats(Base):
    def test_a_stream_tells_the_same_as_the_engines_own_sockets(self):
        server = self.server()
        source, own = self.source(server), self.publisher()
        early = self.join(source)
        for i in range(1, 40):
            payload = own.pack(own.stored([i], i - 1 or None))
            own.publish(payload)
            source.publish(payload)
            own.held[i] = source.held[i] = None
        by_zmq, late = self.watch(self.drive(own)), self.watch(self.drive(source))
        for drive, whose in (by_zmq, own), (late, source), (early, source):
            self.caught_up(drive, whose)
        self.assertEqual(early.keys(), by_zmq.keys())
        self.assertEqual(late.keys(), by_zmq.keys())
        # The process is named by its first batch, however it came.
        names = {drive.of("begin")[-1]["process"] for drive in (by_zmq, late)}
        self.assertEqual(len(names), 1)
        self.assertEqual(late.number("bad_frames"), 0)

    def test_what_was_told_while_the_server_was_gone_comes_of_the_stream(self):
        server = self.server()
        source = self.source(server)
        drive = self.join(source)
        source.store(range(1, 9))
        self.caught_up(drive, source)
        for turn in range(2):
            server.kill()
            self.wait(lambda: drive.state() == "connecting", "it is lost")
            server.start()
            source.client.open()
            source.client.stream("KV", ["kv.>"])
            for i in range(3):
                source.store([100 * turn + 20 + i], parent=8)
            source.remove([100 * turn + 20])
            self.caught_up(drive, source)
        self.same_as_newcomer(drive, source)
        self.assertEqual(len(drive.of("begin")), 1, "the reading went on")
        self.assertEqual(drive.number("disconnects"), 2)

    def test_another_life_is_another_process(self):
        source = self.source(self.server())
        drive = self.join(source)
        for life in range(3):
            source.store(range(100 * life + 1, 100 * life + 5))
            self.caught_up(drive, source)
            source.store([100 * life + 5], parent=100 * life + 4)
            self.caught_up(drive, source)
            self.same_as_newcomer(drive, source)  # which passes over the others
            source.restart()
        self.assertGreaterEqual(len(drive.of("begin")), 3)

    def test_another_life_begins_anew_after_a_long_one(self):
        source = self.source(self.server())
        drive = self.join(source, **{"events.replay_timeout": "60s"})  # no answer would be late
        for i in range(1, 700):  # more than a stream knows by their fingerprints
            source.store([i], parent=i - 1 or None)
        self.caught_up(drive, source)
        source.restart()
        source.store(range(1001, 1004))
        self.caught_up(drive, source)

    def test_a_life_that_is_ahead_of_the_one_before_is_no_gap(self):
        source = self.source(self.server())
        drive = self.join(source)
        source.store(range(1, 4))
        self.caught_up(drive, source)
        source.restart()
        client, source.client = source.client, Quiet()
        source.store([50])  # told to nobody
        source.client = client
        source.store([60])
        self.wait(lambda: drive.state() == "partial" and drive.seqs() == [1], "the new life")
        self.assertEqual(len(drive.keys()), 1)

    def test_a_stream_of_many_subjects(self):
        server = self.server()
        source = self.source(server)
        for i in range(1, 60):
            for other in range(6):
                source.client.put(f"kv.other{other}", b"x")
            source.store([i], parent=i - 1 or None)
        drive = self.join(source)
        self.caught_up(drive, source)
        server.kill()
        server.start()
        source.client.open()
        source.client.stream("KV", ["kv.>"])
        for i in range(60, 70):
            for other in range(40):
                source.client.put(f"kv.other{other}", b"x")
            source.store([i], parent=i - 1)
        self.caught_up(drive, source)
        self.assertEqual(drive.seqs(), list(range(69)))
        self.assertEqual(len(drive.of("begin")), 1)

    def test_more_than_one_fetch(self):
        source = self.source(self.server())
        for i in range(1, 700):
            source.store([i], parent=i - 1 or None)
        drive = self.join(source)
        self.caught_up(drive, source)
        self.assertEqual(drive.seqs(), list(range(699)))

    def test_a_stream_that_forgot_the_beginning_is_partial(self):
        source = Source(self.server(), "kv.a", "KV")
        self.addCleanup(source.client.close)
        source.client.stream("KV", ["kv.a"], max_msgs=3)
        for i in range(1, 9):
            source.store([100 * i])
        drive = self.join(source, state="partial")
        self.wait(lambda: drive.seqs() == [5, 6, 7], "partial from 5 on")

    def test_without_a_stream_a_gap_is_said_and_jumped_over(self):
        server = self.server(jetstream=False)
        source = self.source(server, stream=None)
        drive = self.watch(self.drive(source, replay=False))
        self.wait(lambda: source.store([100]) or drive.seqs(), "it hears")
        first = drive.seqs()[-1]
        source.drop_live = 1
        source.store([200])
        source.store([300])
        self.wait(lambda: drive.seqs()[-1] == source.seq - 1, "the last one")
        self.assertEqual(len(drive.of("gap")), 1)
        self.assertGreaterEqual(first, 0)
        self.assertEqual(drive.state(), "partial")

    def test_no_stream_and_no_jetstream_are_named(self):
        for jetstream, why in (True, "stream not found"), (False, "the server has no JetStream"):
            with self.subTest(why=why):
                server = self.server(jetstream=jetstream)
                source = self.source(server, stream=None)
                source.stream = "NONE"
                drive = self.watch(self.drive(source, **{"events.replay_timeout": "50ms",
                                                         "events.replay_rounds": "1"}))
                self.wait(lambda: why in self.log_of(drive), why)
                source.stream = None
                self.wait(lambda: source.store([source.seq + 1]) or drive.seqs(),
                          "it goes on without")

    def test_messages_that_do_not_say_what_they_are_count_and_change_nothing(self):
        source = self.source(self.server())
        drive = self.join(source)
        source.store(range(1, 4))
        self.caught_up(drive, source)  # a reading of the stream meets them, too
        for name in None, "7", "-7", "life1-x", "life1-", "life1-18446744073709551615", "x" * 70:
            source.client.publish("kv.a", b"\xc0", name)
        source.store([4], parent=3)
        self.caught_up(drive, source)
        self.assertEqual(drive.number("bad_frames"), 7)
        self.assertIn("it has no header Nats-Msg-Id of LIFE-SEQ", self.log_of(drive))
        self.same_as_newcomer(drive, source)

    def test_a_batch_that_is_too_long_counts(self):
        source = self.source(self.server())
        drive = self.join(source, **{"events.payload_bytes_max": "1KiB"})
        source.store(range(1, 2))
        self.caught_up(drive, source)
        source.client.publish("kv.a", b"x" * 2000, f"{source.life()}-{source.seq}")
        source.seq += 1
        source.client.publish("kv.a", b"x" * 200000, f"{source.life()}-{source.seq}")  # not even kept
        source.seq += 1
        source.store([2], parent=1)
        self.wait(lambda: drive.seqs() == [0, 1, 3] and drive.state() == "partial",
                  "the one after them")
        self.assertGreaterEqual(drive.number("bad_frames"), 4)
        self.assertIn("longer than events.payload_bytes_max", self.log_of(drive))

    def test_a_login(self):
        server = self.server("--user", "kv", "--pass", "a:b")
        source = self.source(server, client=server.client(user="kv", **{"pass": "a:b"}))
        source.store(range(1, 4))
        drive = self.join(source, **{"events.nats_login": "kv:a:b"})
        self.caught_up(drive, source)
        other = self.watch(self.drive(source, **{"events.nats_login": "kv:wrong"}))
        self.wait(lambda: "Authorization Violation" in self.log_of(other), "why it is refused")
        self.assertEqual(other.state(), "connecting")
        self.assertNotIn("wrong", self.log_of(other))

    @unittest.skipIf(nats_keys.Ed25519PrivateKey is None, "no python3-cryptography")
    def test_a_file_of_credentials(self):
        trust, other = nats_keys.Trust(), nats_keys.Trust()
        server = self.server("-c", trust.config(self.folder), jetstream=False)
        source = Source(server, "kv.a", client=server.client(creds=trust.user()))
        good = trust.user().write(self.folder / "good.creds")
        drive = self.watch(self.drive(source, **{"events.nats_creds_file": good}))
        self.wait(lambda: drive.state() != "connecting", "it is let in")
        source.store([1])
        self.wait(lambda: drive.seqs() == [0], "the first batch")
        stranger = other.user().write(self.folder / "stranger.creds")
        wrong = trust.user().write(self.folder / "wrong.creds", seed=other.user().key.seed)
        broken = trust.user().write(self.folder / "broken.creds", seed="SU" + "A" * 56)
        for file, why in ((stranger, "Authorization Violation"), (wrong, "Authorization Violation"),
                          (broken, "no good seed"), (self.folder / "none", "cannot be opened")):
            drive = self.watch(self.drive(source, **{"events.nats_creds_file": file}))
            self.wait(lambda: why in self.log_of(drive), why)
            self.assertEqual(drive.state(), "connecting")
        plain = self.server(jetstream=False)
        drive = self.watch(self.drive(Source(plain, "kv.a"), **{"events.nats_creds_file": good}))
        self.wait(lambda: "asks for no signature" in self.log_of(drive), "a server without keys")

    def test_each_rank_has_a_subject(self):
        server = self.server()
        sources = [self.source(server, f"kv.a.{rank}", rank=rank) for rank in range(2)]
        for rank, source in enumerate(sources):
            source.store(range(100 * rank + 1, 100 * rank + 4 + rank))
        drives = Source(server, "kv.a", "KV", client=sources[0].client)
        drive = self.watch(self.drive(drives, count=2))
        for rank, source in enumerate(sources):
            self.caught_up(drive, source, rank=rank)

    def test_a_server_that_is_none_is_tried_again(self):
        with nats.socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            url = f"nats://127.0.0.1:{listener.getsockname()[1]}/kv.a"
            drive = self.watch(self.drive(collections.namedtuple("At", "events replay")(url, None),
                                          replay=False))
            for words in (b"HTTP/1.1 400 Bad Request\r\n", b"INFO {}\r\nMSG a b c d e f\r\n",
                          b'INFO {"tls_required":true}\r\n', b"x" * 70000, b""):
                link, _ = listener.accept()
                with link:
                    link.settimeout(harness.IO_TIMEOUT_S)
                    link.sendall(words)
                    if not words:
                        link.shutdown(nats.socket.SHUT_WR)
                    try:
                        while link.recv(65536):
                            pass  # until it hangs up
                    except ConnectionError:
                        pass
            for why in "not NATS", "wants TLS", "hung up":
                self.assertIn(why, self.log_of(drive))


@needs
@unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
class Tls(Base):
    @classmethod
    def setUpClass(cls):
        cls.certs = certs.Certs(cls)

    def ca(self, name="ca"):
        return {"tls.workers_ca_file": self.certs.path(f"{name}.pem")}

    def refused(self, server, why, **options):
        """The drive gets no further than this."""
        drive = self.watch(self.drive(Place(server.url("kv.a"), server.url("KV")), **options))
        self.wait(lambda: why in self.log_of(drive), why)
        self.assertEqual((drive.state(), drive.items), ("connecting", []))

    def test_live_events_and_a_stream_come_by_tls(self):
        server = self.server("--user", "kv", "--pass", "p", tls=self.certs)
        source = self.source(server, client=server.client(user="kv", **{"pass": "p"}))
        source.store(range(1, 9))
        options = {**self.ca(), "events.nats_login": "kv:p"}
        drive = self.join(source, **options)
        self.caught_up(drive, source)
        for i in range(9, 700):  # more than a record, and than one fetch
            source.store([i], parent=i - 1)
        self.caught_up(drive, source)
        late = self.join(source, **options)
        self.caught_up(late, source)
        self.assertEqual(late.keys(), drive.keys())
        server.kill()
        self.wait(lambda: drive.state() == "connecting", "it is lost")
        server.start()
        source.client.open()
        source.client.stream("KV", ["kv.>"])
        source.store([900], parent=8)
        self.caught_up(drive, source)
        self.assertEqual(len(drive.of("begin")), 1, "the reading went on")
        self.assertEqual(drive.number("bad_frames"), 0)

    def test_a_large_batch_comes_in_many_records(self):
        source = self.source(self.server(tls=self.certs))
        drive = self.join(source, **self.ca())
        source.store(range(1, 20001))
        self.caught_up(drive, source)

    def test_the_server_is_shown_a_certificate(self):
        server = self.server(tls=self.certs, verify=True)
        source = self.source(server)
        source.store(range(1, 4))
        drive = self.join(source, **self.ca(),
                          **{"tls.workers_cert_file": self.certs.path("client.pem"),
                             "tls.workers_key_file": self.certs.path("client.key")})
        self.caught_up(drive, source)
        self.refused(server, "certificate", **self.ca())

    def test_a_server_of_another_name_or_authority_is_none(self):
        server = self.server(tls=self.certs)
        self.refused(server, "its certificate is by no authority that is trusted here",
                     **self.ca("stranger"))
        server.kill()
        other = self.server(tls=self.certs, cert="elsewhere")
        self.refused(other, "its certificate is for another name", **self.ca())

    def test_files_that_cannot_be_read_are_named_and_read_again(self):
        source = self.source(self.server(tls=self.certs))
        source.store(range(1, 4))
        file = self.folder / "ca.pem"
        drive = self.watch(self.drive(source, **{"tls.workers_ca_file": str(file)}))
        self.wait(lambda: "the authorities cannot be read" in self.log_of(drive), "why")
        file.write_bytes(pathlib.Path(self.certs.path("ca.pem")).read_bytes())
        self.caught_up(drive, source)

    def test_a_server_that_wants_tls_is_not_spoken_to_in_plain(self):
        server = self.server(tls=self.certs)
        drive = self.watch(self.drive(
            Place(f"nats://127.0.0.1:{server.port}/kv.a", None), replay=False))
        self.wait(lambda: "tls:// in place of nats://" in self.log_of(drive), "what to do")

    def test_nothing_is_said_before_the_server_has_shown_who_it_is(self):
        with nats.socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            url = f"tls://127.0.0.1:{listener.getsockname()[1]}/kv.a"
            drive = self.watch(self.drive(Place(url, None), replay=False, **self.ca(),
                                          **{"events.nats_login": "sesame"}))
            head = b"NATS/1.0\r\nNats-Msg-Id: x-0\r\n\r\n"
            batch = b"HMSG kv.a 1 %d %d\r\n%s\x92\x01\x90\r\n" % (len(head), len(head) + 3, head)
            for words in (b"INFO {}\r\n", b'INFO {"tls_required":true}\r\n+OK\r\n', b"PING\r\n",
                          b"PONG\r\n" + batch):
                link, _ = listener.accept()
                with link:
                    link.settimeout(harness.IO_TIMEOUT_S)
                    link.sendall(words)
                    heard = b""
                    if words.endswith(b"}\r\n"):
                        heard = link.recv(65536)
                        self.assertEqual(heard[0], 22)  # a handshake's record, whatever INFO says
                        link.sendall(b"-ERR 'Unknown Protocol Operation'\r\n")
                    while more := self.read(link):
                        heard += more
                self.assertNotIn(b"sesame", heard)
                self.assertNotIn(b"CONNECT", heard)
                self.assertNotIn(b"PONG", heard)
            for why in "it speaks no TLS", "it speaks before TLS":
                self.wait(lambda why=why: why in self.log_of(drive), why)
            self.assertEqual((drive.state(), drive.items), ("connecting", []))

    @staticmethod
    def read(link):
        try:
            return link.recv(65536)
        except ConnectionError:
            return b""


class Quiet:
    def publish(self, *_):
        pass


@needs
class Bridge(Base):
    """deploy/nats_events.py: a stand-in engine's events by NATS."""

    def setUp(self):
        super().setUp()
        self.nats = self.server()
        self.engine = self.start("kvasir-engine", "--port", "0", "--blocks", "64", "--events", "0",
                                 "--replay", "0", "--speed", "50")

    def bridge(self, **environment):
        made = subprocess.Popen([sys.executable, BRIDGE, self.engine.url("events"),
                                 self.engine.url("replay"), self.nats.url("kv.e"), "KV-e"],
                                stdout=subprocess.PIPE, text=True,
                                env={**os.environ, **environment})

        def end():
            made.kill()
            made.wait(harness.STOP_TIMEOUT_S)
            made.stdout.close()
        self.addCleanup(end)
        self.assertEqual(made.stdout.readline(), "ready\n")
        return made

    def worker(self):
        return (f"{self.engine.url('http')},id=e,events={self.nats.url('kv.e')},"
                f"replay={self.nats.url('KV-e')}")

    def work(self, first, count=12):
        for i in range(first, first + count):  # more than it can hold
            got = harness.request(self.engine.at("http"), "POST", "/v1/completions",
                                  {"model": "kvasir/stand-in", "max_tokens": 1,
                                   "prompt": list(range(1000 * i, 1000 * i + 200))})
            self.assertEqual(got.status, 200, got.text)

    def same(self, node, **options):
        """The node's mirror, and both ways of reading, key by key."""
        own = self.watch(self.drive(Place(self.engine.url("events"), self.engine.url("replay"))))
        way = self.watch(self.drive(Place(self.nats.url("kv.e"), self.nats.url("KV-e")),
                                    **options))

        def in_step():
            at, held = kv_events.cache(self.engine.at("http"))
            blocks = harness.metric(node.at("admin"), "kvasir_mirror_worker_blocks")
            return (own.seqs()[-1:] == way.seqs()[-1:] == [at - 1] and own.keys() == way.keys() and
                    len(own.keys()) == len(+held) == blocks)
        self.wait(in_step, "the same keys by both ways, and in the node")

    def test_the_mirror_is_exact_after_the_server_was_killed(self):
        bridge = self.bridge()
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", self.worker())
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_worker_eligible") == 1,
                           "the worker is up")
        self.work(0)
        self.same(node)
        self.nats.kill()
        self.work(20)
        self.nats.start()
        self.work(40, 3)
        self.same(node)
        # Another run of the bridge is another life of the same engine.
        bridge.kill()
        bridge.wait(harness.STOP_TIMEOUT_S)
        self.work(60, 3)
        self.bridge()
        self.work(80, 3)
        self.same(node)
        question = {"model": "kvasir/stand-in", "prompt": [*range(82000, 82200), 1],
                    "max_tokens": 1}

        def promised():
            told = harness.request(node.at("admin"), "POST", "/admin/explain", question).json()
            return told["candidates"][0]["tokens"]
        harness.wait_until(lambda: promised() == 192, "the node believes what it reads again")
        got = harness.request(node.at("serve"), "POST", "/v1/completions", question)
        self.assertEqual(got.status, 200)
        said = harness.decision(node, got)
        self.assertEqual((said["predicted_tokens"], said["cached_tokens"]), (192, 192))

    @unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
    def test_all_of_it_by_tls_with_certificates_of_both_sides(self):
        made = certs.Certs(type(self))
        self.nats.kill()
        self.nats = self.server(tls=made, verify=True)
        ca, cert, key = (made.path(name) for name in ("ca.pem", "client.pem", "client.key"))
        self.bridge(NATS_CA=ca, NATS_CERT=cert, NATS_KEY=key)
        keys = {"tls.workers_ca_file": ca, "tls.workers_cert_file": cert,
                "tls.workers_key_file": key}
        flags = [word for key, value in keys.items() for word in (f"--{key}", value)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", self.worker(), *flags)
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_worker_eligible") == 1,
                           "the worker is up")
        self.work(0)
        self.same(node, **keys)
        told = self.run_once("kvasir", "doctor", "--worker", self.worker(), *flags)
        self.assertRegex(told.stdout, "events +it told of [1-9]")
        self.assertRegex(told.stdout, "replay +what was missed can be asked for")
        told = self.run_once("kvasir", "doctor", "--worker", self.worker())
        self.assertRegex(told.stdout, "MISSING +events +no connection")

    def test_the_doctor_finds_events_and_replay(self):
        self.bridge()
        told = self.run_once("kvasir", "doctor", "--worker", self.worker())
        self.assertEqual(told.stderr, "")
        self.assertRegex(told.stdout, "events +it told of [1-9]")
        self.assertRegex(told.stdout, "replay +what was missed can be asked for")
        self.nats.kill()
        told = self.run_once("kvasir", "doctor", "--worker", self.worker())
        self.assertRegex(told.stdout, "MISSING +events +no connection")
        self.assertIn("events.nats_login", told.stdout)


Place = collections.namedtuple("Place", "events replay")

if __name__ == "__main__":
    harness.main()
