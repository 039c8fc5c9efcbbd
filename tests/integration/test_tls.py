"""TLS on the serving port, spoken by Python's ssl, curl and openssl s_client."""
import http.client
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest

import harness
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, chat, echo, read_answer, request_bytes

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]


@unittest.skipUnless(shutil.which("openssl"), "no openssl command on this machine")
class Tls(Proxy):
    @classmethod
    def setUpClass(cls):
        """ca.pem; one.pem, two.pem for localhost; client.pem; stranger.pem of no CA."""
        folder = tempfile.TemporaryDirectory(prefix="kvasir-tls-")
        cls.addClassCleanup(folder.cleanup)
        cls.made = folder.name
        cls.openssl("req", "-x509", *CURVE, "-days", "2", "-subj", "/CN=ca",
                    "-keyout", "ca.key", "-out", "ca.pem")
        cls.openssl("req", "-x509", *CURVE, "-days", "2", "-subj", "/CN=stranger",
                    "-keyout", "stranger.key", "-out", "stranger.pem")
        with open(f"{cls.made}/names", "w", encoding="ascii") as names:
            names.write("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        for name in ("one", "two", "client"):
            cls.openssl("req", *CURVE, "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                        "-out", f"{name}.csr")
            cls.openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                        "-CAcreateserial", "-days", "2", "-extfile", "names",
                        "-out", f"{name}.pem")

    @classmethod
    def openssl(cls, *args):
        return subprocess.run(["openssl", *args], cwd=cls.made, check=True, capture_output=True,
                              timeout=harness.IO_TIMEOUT_S)

    def use(self, name):
        """The node's files are those of this name."""
        for ending in ("pem", "key"):
            shutil.copy(f"{self.made}/{name}.{ending}", self.folder / f"node.{ending}")

    def serve_tls(self, handler=echo, *options):
        self.use("one")
        self.worker = FakeWorker(self, handler)
        return self.serve(self.worker, options=["--tls.cert_file", self.folder / "node.pem",
                                                "--tls.key_file", self.folder / "node.key",
                                                *options])

    def context(self, cert=None):
        context = ssl.create_default_context(cafile=f"{self.made}/ca.pem")
        if cert is not None:
            context.load_cert_chain(f"{self.made}/{cert}.pem", f"{self.made}/{cert}.key")
        return context

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

    def test_who_does_not_finish_the_handshake_is_let_go(self):
        self.serve_tls(echo, "--timeouts.head", "200ms")
        for start in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"):
            s = self.connect()
            s.sendall(start)
            try:
                self.assertEqual(s.recv(10), b"")
            except ConnectionResetError:
                pass  # it had not read all of it

    def test_clients_show_certificates_where_they_must(self):
        self.serve_tls(echo, "--tls.client_ca_file", f"{self.made}/ca.pem")
        self.assertEqual(self.ask(self.secure(self.context("client")))[0], 200)
        for cert in (None, "stranger"):
            with self.assertRaises(OSError, msg=cert):
                s = self.secure(self.context(cert))
                self.ask(s)
                raise OSError  # unless it was answered
        self.assertEqual(len(self.worker.requests), 1)

    def test_certificates_are_read_again_and_connections_go_on(self):
        node = self.serve_tls()
        ends = self.openssl("x509", "-in", "one.pem", "-noout", "-enddate").stdout.decode()
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_tls_not_after_seconds"),
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
