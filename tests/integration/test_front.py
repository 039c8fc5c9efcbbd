"""HTTP/2 by nginx and HAProxy in front, as deploy/nginx.conf and deploy/haproxy.cfg say."""
import json
import pathlib
import shutil
import subprocess
import threading
import unittest

import certs
import harness
from dns import free_port
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, chat, echo

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
H2 = "HTTP2" in subprocess.run(["curl", "--version"], capture_output=True, text=True,
                               check=False).stdout if shutil.which("curl") else False


def needs(program):
    found = shutil.which(program) and certs.FOUND and H2
    return unittest.skipUnless(
        found, f"no {program}, openssl or curl with HTTP/2 (deploy/packages bench)")


class Front(Proxy):
    @classmethod
    def setUpClass(cls):
        if certs.FOUND:
            cls.certs = certs.Certs(cls)

    def front(self, sample, replaced, *command):
        """The sample's program before a node, on a port of its own."""
        self.release = threading.Event()
        self.serve(FakeWorker(self, self.answer))
        self.certs.use("one", self.folder)
        both = (self.folder / "node.pem").read_text() + (self.folder / "node.key").read_text()
        (self.folder / "node.both.pem").write_text(both)
        self.port = free_port()
        text = (DEPLOY / sample).read_text()
        for old, new in {"10.0.0.11:8080": "%s:%d" % tuple(self.address),
                         "/etc/kvasir": str(self.folder), **replaced}.items():
            self.assertIn(old, text)
            text = text.replace(old, new.replace("{PORT}", str(self.port)))
        (self.folder / sample).write_text(text)
        log = open(self.folder / "front.log", "wb")
        self.addCleanup(log.close)
        front = subprocess.Popen([*command, self.folder / sample], stdout=log, stderr=log)
        self.addCleanup(front.wait, harness.IO_TIMEOUT_S)
        self.addCleanup(front.terminate)
        harness.wait_until(lambda: self.curl("/health").returncode == 0, "it is in front")

    def answer(self, peer, request):
        if b'"stream": true' not in request.body:
            echo(peer, request)
            return
        peer.begin_stream()
        peer.chunk(b"data: first\n\n")
        self.release.wait(harness.IO_TIMEOUT_S)
        peer.chunk(b"data: last\n\n")
        peer.end_stream()

    def command(self, path, *options):
        return ["curl", "--silent", "--fail", "--http2", "--no-buffer", "--cacert",
                self.certs.path("ca.pem"), "--max-time", str(harness.IO_TIMEOUT_S), "--resolve",
                f"localhost:{self.port}:127.0.0.1", f"https://localhost:{self.port}{path}",
                *options]

    def curl(self, path, *options):
        return subprocess.run(self.command(path, *options), capture_output=True, check=False)

    def say(self, body):
        return ["-H", "content-type: application/json", "-d", json.dumps(body)]

    def check(self):
        got = self.curl(CHAT, *self.say(chat("through http/2")), "-w", "\n%{http_version}")
        body, _, version = got.stdout.decode().rpartition("\n")
        self.assertEqual(version, "2")
        self.assertIn("through http/2", body)
        big = self.folder / "big.json"
        big.write_text(json.dumps(chat("x" * (3 << 20))))
        got = self.curl(CHAT, "-H", "content-type: application/json", "-d", f"@{big}")
        self.assertEqual(json.loads(json.loads(got.stdout)["echo"]), json.loads(big.read_text()))
        # A stream's first event passes while its last one has not been said.
        with subprocess.Popen(self.command(CHAT, *self.say(chat(stream=True))),
                              stdout=subprocess.PIPE) as stream:
            self.assertEqual(stream.stdout.readline(), b"data: first\n")
            self.release.set()
            self.assertIn(b"data: last\n", stream.stdout.read())

    @needs("nginx")
    def test_nginx_as_its_sample_says(self):
        self.front("nginx.conf", {"listen 443": "listen 127.0.0.1:{PORT}",
                                  "/run/kvasir-nginx.pid": f"{self.folder}/pid",
                                  "access_log off;": "access_log off; " + "".join(
                                      f"{kind}_temp_path {self.folder}/{kind};" for kind in
                                      ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))},
                   "nginx", "-e", "stderr", "-g", "daemon off;", "-c")
        self.check()

    @needs("haproxy")
    def test_haproxy_as_its_sample_says(self):
        self.front("haproxy.cfg", {"bind :443": "bind 127.0.0.1:{PORT}"}, "haproxy", "-f")
        self.check()


if __name__ == "__main__":
    harness.main()
