"""Workers with https: who they are is checked, and what is wrong is told."""
import concurrent.futures
import http.client
import json
import shutil
import signal
import socket
import threading
import unittest

import certs
import harness
from fake_worker import Close, FakeWorker
from test_proxy import Proxy, chat, echo


@unittest.skipUnless(certs.FOUND, "no openssl command on this machine")
class TlsWorkers(Proxy):
    @classmethod
    def setUpClass(cls):
        cls.certs = certs.Certs(cls)

    def worker(self, cert="one", handler=echo, wants=False):
        return FakeWorker(self, handler, tls=self.certs.of_server(cert, wants))

    def trust(self, *more):
        """Options: the CA's file is one that a test may change."""
        shutil.copy(self.certs.path("ca.pem"), self.folder / "ca.pem")
        return ["--tls.workers_ca_file", self.folder / "ca.pem", "--health.interval", "1s",
                *more]

    def only(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/workers").json()[0]

    def reload(self, node):
        return harness.request(node.at("admin"), "POST", "/admin/reload", {})

    def test_requests_probes_and_questions_go_by_tls(self):
        rendered = threading.Event()
        chosen = set()

        def answer(peer, request):
            chosen.add(peer.sock.selected_alpn_protocol())
            if request.target.endswith("/render"):
                rendered.set()
            echo(peer, request)

        worker = self.worker(handler=answer)
        told = []
        worker.tls.sni_callback = lambda sock, name, context: told.append(name)
        node = self.serve(f"https://localhost:{worker.address[1]},id=w,"
                          "events=tcp://127.0.0.1:1", count=1,
                          options=self.trust())
        for size in (1, 16384, 3 << 20):
            body = chat("x" * size)
            answer = self.post(body)
            self.assertEqual((answer.status, json.loads(answer.json()["echo"])), (200, body))
        self.assertTrue(rendered.wait(harness.IO_TIMEOUT_S))
        self.assertEqual((set(told), chosen), ({"localhost"}, {"http/1.1"}))
        self.assertTrue(self.only(node)["url"].startswith("https://localhost:"))
        # Connections are kept: requests in a row need no second one.
        self.assertLess(worker.connections, 4)

    def test_streams_pass_and_a_cut_one_is_cut(self):
        cut = threading.Event()

        def stream(peer, request):
            peer.begin_stream()
            for number in range(200):
                peer.chunk(b"data: %d %s\n\n" % (number, b"y" * 1000))
            if cut.is_set():
                peer.sock.close()
            else:
                peer.end_stream()

        self.serve(self.worker(handler=stream), options=self.trust())
        self.assertEqual(self.post(chat(stream=True)).text.count("data: "), 200)
        cut.set()
        with self.assertRaises((http.client.HTTPException, OSError)):
            self.post(chat(stream=True))

    def test_who_refuses_a_body_and_closes_is_heard(self):
        head, frozen, closed = threading.Event(), threading.Event(), threading.Event()

        def refuse(peer, _):
            head.set()
            frozen.wait(harness.IO_TIMEOUT_S)
            peer.answer(413, b"too large")
            peer.close()  # on bytes that were not read: a reset follows
            closed.set()
            raise Close
        refuse.reads_body = True
        node = self.serve(self.worker(handler=refuse), options=self.trust())
        with concurrent.futures.ThreadPoolExecutor() as threads:
            answer = threads.submit(self.post, b"x" * (24 << 20), path="/v1/audio/speech",
                                    headers={"Content-Type": "application/octet-stream"})
            self.assertTrue(head.wait(harness.IO_TIMEOUT_S))
            node.freeze()
            frozen.set()
            self.assertTrue(closed.wait(harness.IO_TIMEOUT_S))
            node.signal(signal.SIGCONT)
            self.assertEqual((answer.result().status, answer.result().text), (413, "too large"))

    def test_a_wrong_certificate_is_named_and_gets_no_request(self):
        for cert, why in (("elsewhere", "its certificate is for another name"),
                          ("stranger", "its certificate is by no authority that is trusted here")):
            worker = self.worker(cert)
            node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                              "127.0.0.1:0", "--worker", worker.url, *self.trust())
            harness.wait_until(lambda: self.only(node).get("reason") == why, why)
            harness.wait_until(lambda: why in node.log(), "the log says so")
            self.address = node.at("serve")
            self.assertEqual(self.post().status, 503)
            self.assertEqual(worker.requests, [])
            node.stop()

    def test_who_answers_in_clear_is_named(self):
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def refuse():
            while True:
                try:
                    s, _ = listener.accept()
                    s.recv(65536)
                    s.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
                    s.close()
                except OSError:
                    return

        threading.Thread(target=refuse, daemon=True).start()
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", f"https://127.0.0.1:{listener.getsockname()[1]}",
                          *self.trust())
        harness.wait_until(lambda: self.only(node).get("reason") == "it speaks no TLS", "told")

    def test_the_systems_authorities_are_asked_where_no_file_is_named(self):
        worker = self.worker()
        trusted = self.folder / "trusted"
        trusted.mkdir()
        shutil.copy(self.certs.path("ca.pem"), trusted / "ca.pem")
        self.certs.openssl("rehash", str(trusted))
        self.serve(worker, env={"SSL_CERT_DIR": str(trusted)})
        self.assertEqual(self.post().status, 200)

    def test_sessions_are_resumed_until_the_files_are_read_again(self):
        resumed = []

        def answer(peer, request):
            if request.method == "POST":
                resumed.append(peer.sock.session_reused)
            peer.answer(200, b"{}", "Connection: close\r\n")

        node = self.serve(self.worker(handler=answer), options=self.trust())
        for _ in range(3):
            self.assertEqual(self.post(chat("x" * 9)).status, 200)
        self.assertEqual(resumed, [False, True, True])
        self.assertEqual(harness.metrics(node.at("admin"))["kvasir_upstream_resumed_total"], 2)
        self.assertEqual(self.reload(node).status, 200)
        harness.wait_until(lambda: self.post().status == 200 and not resumed[-1],
                           "what other files vouched for is not resumed")
        self.assertEqual((self.post().status, resumed[-1]), (200, True))

    def test_workers_may_want_a_certificate(self):
        worker = self.worker(wants=True)
        self.certs.use("client", self.folder)
        node = self.serve(worker, count=0, options=self.trust())
        why = "it wants a certificate of this node"
        harness.wait_until(lambda: self.only(node).get("reason") == why, why)
        node.stop()
        node = self.serve(worker, options=self.trust(
            "--tls.workers_cert_file", self.folder / "node.pem",
            "--tls.workers_key_file", self.folder / "node.key"))
        self.assertEqual(self.post().status, 200)
        self.assertEqual([name for name in harness.metrics(node.at("admin"))
                          if name.startswith("kvasir_certificate_expiry_timestamp_seconds")],
                         ['kvasir_certificate_expiry_timestamp_seconds{certificate="workers"}'])

    def test_authorities_are_read_again_and_connections_go_on(self):
        go = threading.Event()

        def wait(peer, request):
            if b"slow" in request.body:
                go.wait(harness.IO_TIMEOUT_S)
            echo(peer, request)

        worker = self.worker(handler=wait)
        node = self.serve(worker, options=self.trust())
        running = []
        asker = threading.Thread(target=lambda: running.append(self.post(chat("slow")).status))
        asker.start()
        harness.wait_until(lambda: any(b"slow" in r.body for r in worker.requests), "it runs")
        shutil.copy(self.certs.path("stranger.pem"), self.folder / "ca.pem")
        self.assertEqual(self.reload(node).status, 200)
        why = "its certificate is by no authority that is trusted here"
        harness.wait_until(lambda: self.only(node).get("reason") == why, why)
        go.set()
        asker.join(harness.IO_TIMEOUT_S)
        self.assertEqual(running, [200])
        (self.folder / "ca.pem").write_text("nothing\n")
        refused = self.reload(node)
        self.assertEqual(refused.status, 400)
        self.assertIn("the authorities cannot be read", refused.text)
        shutil.copy(self.certs.path("ca.pem"), self.folder / "ca.pem")
        self.assertEqual(self.reload(node).status, 200)
        harness.wait_until(lambda: self.eligible(node) == 1, "it is trusted again")
        self.assertEqual(self.post().status, 200)


if __name__ == "__main__":
    harness.main()
