"""TLS on the serving port, spoken by Python's ssl, curl and openssl s_client."""
import http.client
import json
import shutil
import signal
import socket
import ssl
import subprocess
import unittest

import certs
import harness
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, chat, echo, read_answer, request_bytes


@unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
class Tls(Proxy):
    @classmethod
    def setUpClass(cls):
        cls.certs = certs.Certs(cls)
        cls.made = cls.certs.folder
        cls.openssl = cls.certs.openssl

    def use(self, name):
        self.certs.use(name, self.folder)

    def serve_tls(self, handler=echo, *options):
        self.use("one")
        self.worker = FakeWorker(self, handler)
        return self.serve(self.worker, options=["--tls.cert_file", self.folder / "node.pem",
                                                "--tls.key_file", self.folder / "node.key",
                                                *options])

    def serve_clear(self, *options):
        """The serving port speaks in clear; the admin port may not."""
        self.worker = FakeWorker(self, echo)
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", self.worker.url, *options)
        self.address = node.at("serve")
        harness.wait_until(lambda: harness.request(
            self.address, "GET", "/ready").status == 200, "ready")
        return node

    def context(self, cert=None):
        return self.certs.of_client(cert)

    def secure(self, context=None):
        s = (context or self.context()).wrap_socket(
            self.connect(), server_hostname="localhost", suppress_ragged_eofs=False)
        self.addCleanup(s.close)
        return s

    def ask(self, s, body=None):
        s.sendall(request_bytes(body or chat()))
        return read_answer(s)

    def peer_of(self, s):
        return dict(field[0] for field in s.getpeercert()["subject"])["commonName"]

    def test_requests_and_answers_of_any_size_pass(self):
        self.serve_tls()
        s = self.secure()
        self.assertGreaterEqual(s.version(), "TLSv1.2")
        for size in (1, 16000, 16384, 16385, 70000, 3 << 20):
            body = chat("x" * size)
            status, _, answer, _ = self.ask(s, body)
            self.assertEqual((status, json.loads(json.loads(answer)["echo"])), (200, body), size)
        # The end of the last record does not fit where it is read to at first, and no
        # byte follows that would wake the node.
        raw = request_bytes(chat("y" * 20000))
        s.sendall(raw[:8000])
        s.sendall(raw[8000:])
        self.assertEqual(read_answer(s)[0], 200)
        s.sendall(3 * request_bytes(chat("in a row")))
        got = b""
        while got.count(b"in a row") < 3:
            got += s.recv(65536)
        self.assertEqual(got.count(b"HTTP/1.1 200"), 3)
        connection = http.client.HTTPSConnection(*self.address, context=self.context(),
                                                 timeout=harness.IO_TIMEOUT_S)
        self.addCleanup(connection.close)
        harness.send(connection, "GET", "/health")
        self.assertEqual(harness.Answer(connection.getresponse()).status, 200)

    def test_streams_end_as_they_should(self):
        def stream(peer, request):
            peer.begin_stream()
            for number in range(200):
                peer.chunk(b"data: %d %s\n\n" % (number, b"y" * 1000))
            peer.end_stream()

        self.serve_tls(stream)
        connection = http.client.HTTPSConnection(*self.address, context=self.context(),
                                                 timeout=harness.IO_TIMEOUT_S)
        self.addCleanup(connection.close)
        harness.send(connection, "POST", CHAT, chat(stream=True), {"Connection": "close"})
        answer = harness.Answer(connection.getresponse())
        self.assertEqual((answer.status, answer.body.count(b"data: ")), (200, 200))
        # An orderly end of TLS, and not of its connection alone.
        s = self.secure()
        s.sendall(request_bytes(chat(), "Connection: close\r\n"))
        while s.recv(65536):
            pass

    def test_who_reads_slowly_gets_every_byte(self):
        self.serve_tls()
        s = self.secure()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        body = chat("z" * (6 << 20))
        s.sendall(request_bytes(body))
        got = bytearray()
        while not got.endswith(b"}") or len(got) < 6 << 20:
            part = s.recv(4096)
            self.assertNotEqual(part, b"")
            got += part
        self.assertEqual(json.loads(json.loads(got.partition(b"\r\n\r\n")[2])["echo"]), body)

    def test_only_http_1_1_is_chosen_and_only_over_tls(self):
        node = self.serve_tls()
        context = self.context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        s = self.secure(context)
        self.assertEqual(s.selected_alpn_protocol(), "http/1.1")
        self.assertEqual(self.ask(s)[0], 200)
        gone = self.secure()  # without TLS's own end, which is no failure
        gone.close()
        context.set_alpn_protocols(["h2"])
        with self.assertRaises(OSError):
            self.secure(context)
        clear = self.connect()
        clear.sendall(request_bytes(chat()))
        answer = b""
        try:
            answer = clear.recv(65536)
        except ConnectionResetError:
            pass
        self.assertNotIn(b"HTTP", answer)
        harness.wait_until(
            lambda: harness.metric(node.at("admin"), "kvasir_tls_failed_total") == 2, "counted")
        self.assertEqual(len(self.worker.requests), 1)

    def test_sessions_of_tls_1_3_are_resumed_until_the_files_are_read_again(self):
        node = self.serve_tls()
        context = self.context()
        for version, resumed in (("TLSv1_3", True), ("TLSv1_2", False)):
            context.maximum_version = getattr(ssl.TLSVersion, version)
            first = self.secure(context)
            self.assertEqual(self.ask(first)[0], 200)  # the ticket has come
            session = first.session
            for _ in range(4):  # any lane takes it
                again = context.wrap_socket(self.connect(), server_hostname="localhost",
                                            session=session)
                self.addCleanup(again.close)
                self.assertEqual((again.session_reused, self.ask(again)[0]), (resumed, 200))
        context = self.context()
        first = self.secure(context)
        self.ask(first)
        reloaded = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(reloaded.status, 200, reloaded.text)
        again = context.wrap_socket(self.connect(), server_hostname="localhost",
                                    session=first.session)
        self.addCleanup(again.close)
        self.assertEqual((again.session_reused, self.ask(again)[0]), (False, 200))

    def test_who_does_not_finish_the_handshake_is_let_go(self):
        self.serve_tls(echo, "--timeouts.head", "200ms")
        for start in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"):
            s = self.connect()
            s.sendall(start)
            try:
                self.assertEqual(s.recv(10), b"")
            except ConnectionResetError:
                pass  # it had not read all of it

    def test_who_is_in_the_handshake_when_the_node_leaves_is_answered(self):
        node = self.serve_tls()
        s = self.connect()
        come, go = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = self.context().wrap_bio(come, go, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            tls.do_handshake()
        s.sendall(go.read())
        come.write(s.recv(65536))  # the node's half has begun
        node.signal(signal.SIGTERM)
        harness.wait_until(self.is_closed, "the port is closed")

        def step(what, *args):
            while True:
                try:
                    return what(*args)
                except ssl.SSLWantReadError:
                    s.sendall(go.read())
                    came = s.recv(65536)
                    self.assertNotEqual(came, b"")
                    come.write(came)

        step(tls.do_handshake)
        tls.write(request_bytes(chat()))
        answer = step(tls.read, 65536)
        self.assertIn(b"HTTP/1.1 200", answer)
        self.assertIn(b"Connection: close", answer)
        s.close()
        self.assertEqual(node.wait(), 0)

    def test_who_has_sent_nothing_when_the_node_leaves_is_not_waited_for(self):
        node = self.serve_tls(echo, "--timeouts.head", "300s", "--timeouts.drain", "300s")
        s = self.connect()
        harness.wait_until(lambda: self.connections(node) == 1, "it is there")
        node.signal(signal.SIGTERM)
        self.assertEqual(s.recv(10), b"")
        self.assertEqual(node.wait(), 0)

    def connections(self, node):
        answer = harness.request(node.at("admin"), "GET", "/admin/status")
        return answer.json()["connections"]

    def is_closed(self):
        try:
            socket.create_connection(self.address, timeout=harness.IO_TIMEOUT_S).close()
            return False
        except OSError:
            return True

    def test_clients_show_certificates_where_they_must(self):
        self.serve_tls(echo, "--tls.client_ca_file", f"{self.made}/ca.pem")
        known = self.context("client")
        first = self.secure(known)
        self.assertEqual(self.ask(first)[0], 200)
        again = known.wrap_socket(self.connect(), server_hostname="localhost",
                                  session=first.session)
        self.addCleanup(again.close)
        self.assertEqual((again.session_reused, self.ask(again)[0]), (True, 200))
        for cert in (None, "stranger"):
            with self.assertRaises(OSError, msg=cert):
                s = self.secure(self.context(cert))
                self.ask(s)
                raise OSError  # unless it was answered
        self.assertEqual(len(self.worker.requests), 2)

    def test_certificates_are_read_again_and_connections_go_on(self):
        node = self.serve_tls()
        ends = self.openssl("x509", "-in", "one.pem", "-noout", "-enddate").stdout.decode()
        self.assertEqual(harness.metrics(node.at("admin")).get(
            'kvasir_certificate_expiry_timestamp_seconds{certificate="serving"}'),
                         ssl.cert_time_to_seconds(ends.strip().partition("=")[2]))
        old = self.secure()
        self.assertEqual((self.peer_of(old), self.ask(old)[0]), ("one", 200))
        self.use("two")
        reloaded = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(reloaded.status, 200, reloaded.text)
        self.assertEqual(self.peer_of(self.secure()), "two")
        shutil.copy(f"{self.made}/one.key", self.folder / "node.key")
        reloaded = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(reloaded.status, 400)
        self.assertIn("the key is not the certificate's", reloaded.text)
        self.assertEqual(self.peer_of(self.secure()), "two")
        self.assertEqual(self.ask(old)[0], 200)

    @unittest.skipUnless(shutil.which("curl"), "no curl on this machine")
    def test_curl_and_s_client_are_served(self):
        self.serve_tls()
        url = f"https://localhost:{self.address[1]}"
        got = subprocess.run(
            ["curl", "--silent", "--show-error", "--max-time", str(harness.IO_TIMEOUT_S),
             "--cacert", f"{self.made}/ca.pem", "--resolve",
             f"localhost:{self.address[1]}:127.0.0.1", "--http2", url + CHAT,
             "-H", "content-type: application/json", "-d", json.dumps(chat("from curl"))],
            capture_output=True, check=True)
        self.assertIn(b"from curl", got.stdout)
        for version in ("-tls1_2", "-tls1_3"):
            got = subprocess.run(
                ["openssl", "s_client", "-connect", f"127.0.0.1:{self.address[1]}", "-quiet",
                 "-CAfile", f"{self.made}/ca.pem", "-verify_return_error",
                 "-verify_hostname", "localhost", "-servername", "localhost", version],
                input=request_bytes(chat("by hand"), "Connection: close\r\n"),
                capture_output=True, check=False, timeout=harness.IO_TIMEOUT_S)
            self.assertIn(b"HTTP/1.1 200", got.stdout, got.stderr)
        refused = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{self.address[1]}", "-tls1_1",
             "-cipher", "ALL:@SECLEVEL=0"],
            stdin=subprocess.DEVNULL, capture_output=True, check=False,
            timeout=harness.IO_TIMEOUT_S)
        self.assertNotEqual(refused.returncode, 0)

    def status(self, *args, env=None):
        return self.run_once("kvasir", "status", "--json", *args, env=env)

    def test_admin_ports_speak_tls_and_commands_check_who_answers(self):
        self.certs.use("two", self.folder)
        node = self.serve_clear("--tls.admin", "on", "--tls.admin_cert_file",
                                self.folder / "node.pem", "--tls.admin_key_file",
                                self.folder / "node.key", "--admin.metrics", "127.0.0.1:0")
        admin = f"https://localhost:{node.at('admin')[1]}"
        ca = self.certs.path("ca.pem")
        for args, env in ((["--admin", admin, "--ca", ca], None),
                          (["--ca", ca], {"KVASIR_ADMIN": admin})):
            told = self.status(*args, env=env)
            self.assertEqual(told.returncode, 0, told.stderr)
            self.assertEqual(json.loads(told.stdout)["workers"][0]["state"], "healthy")
        for args, code, why in (
                (["--admin", admin, "--ca", self.certs.path("stranger.pem")], 1,
                 "its certificate is by no authority that is trusted here"),
                (["--admin", admin.replace("https://", "")], 1, "does it speak TLS? --admin https://"),
                (["--admin", admin.replace("https://", ""), "--ca", ca], 2, "--ca: without"),
                (["--admin", admin, "--ca", self.folder / "none"], 2, "cannot be read")):
            told = self.status(*args)
            self.assertEqual((told.returncode, why in told.stderr), (code, True), told.stderr)
        self.certs.use("elsewhere", self.folder)
        for port in ("admin", "metrics"):
            s = self.context().wrap_socket(socket.create_connection(
                node.at(port), harness.IO_TIMEOUT_S), server_hostname="localhost")
            self.addCleanup(s.close)
            self.assertEqual(self.peer_of(s), "two")
            for _ in range(2):
                s.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
                status, _, body, _ = read_answer(s)
                self.assertEqual((status, b"kvasir_" in body), (200, True))
            # What is refused ends as TLS does, too, not as a connection cut off.
            strict = self.context()
            strict.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
            bad = strict.wrap_socket(socket.create_connection(
                node.at(port), harness.IO_TIMEOUT_S), server_hostname="localhost",
                suppress_ragged_eofs=False)
            self.addCleanup(bad.close)
            bad.sendall(b"no request\r\n\r\n")
            self.assertEqual(read_answer(bad)[0], 400)
            self.assertEqual(bad.recv(1), b"")
        self.assertEqual(self.post().status, 200)  # in clear, as before
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: "its certificate is for another name" in self.status(
            "--admin", admin, "--ca", ca).stderr, "the files are read again")
        s.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertEqual(read_answer(s)[0], 200)

    def test_faulty_files_are_named_before_the_node_starts(self):
        self.use("one")
        (self.folder / "node.key").write_text("no key\n")
        for command in (["serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"], ["check"]):
            done = self.run_once("kvasir", *command, "--tls.cert_file", self.folder / "node.pem",
                                 "--tls.key_file", self.folder / "node.key")
            self.assertEqual(done.returncode, 2, command)
            self.assertIn("tls.cert_file, tls.key_file: the key cannot be read", done.stderr)


if __name__ == "__main__":
    harness.main()
