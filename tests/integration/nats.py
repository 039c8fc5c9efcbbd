"""A real nats-server with JetStream, and a client of it on a plain socket.

    server = Server(folder)             # on a free port
    client = server.client()
    client.stream("KV", ["kv.>"])
    client.publish("kv.a", b"...", "life-0")    # stored, when it returns
    server.kill(); server.start()               # the same port and store

With tls=certs.Certs it wants TLS, with verify=True clients' certificates, too.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading

import harness
from dns import free_port

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "deploy"))
try:
    from nats_events import Secured
except ImportError:
    Secured = None  # without python3-zmq nothing here runs

PROGRAM = shutil.which("nats-server", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/bin")


class Server:
    def __init__(self, folder, *flags, jetstream=True, tls=None, verify=False, cert="one"):
        self.port, self.flags, self.log = free_port(), list(flags), folder / "nats.log"
        self.tls, self.verify = tls, verify
        if jetstream:
            self.flags += ["-js", "-sd", str(folder / "jetstream")]
        if tls is not None:
            self.flags += ["--tlsverify" if verify else "--tls",
                           "--tlscert", tls.path(f"{cert}.pem"), "--tlskey",
                           tls.path(f"{cert}.key"), "--tlscacert", tls.path("ca.pem")]
        self.popen = None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(
                [PROGRAM, "-a", "127.0.0.1", "-p", str(self.port), *self.flags],
                stdout=log, stderr=log)
        harness.wait_until(self.answers, "nats-server answers", harness.READY_TIMEOUT_S)

    def answers(self):
        if self.popen.poll() is not None:
            raise AssertionError(self.log.read_text()[-2000:])
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as link:
                return link.recv(4) == b"INFO"
        except OSError:
            return False

    def kill(self):
        self.popen.kill()
        self.popen.wait(harness.STOP_TIMEOUT_S)

    def url(self, name):
        return f"{'tls' if self.tls else 'nats'}://127.0.0.1:{self.port}/{name}"

    def client(self, **login):
        return Client(self.port, self.tls and self.tls.of_client("client" if self.verify else None),
                      **login)


class Client:
    def __init__(self, port, tls=None, creds=None, **login):
        self.port, self.login, self.tls, self.creds = port, login, tls, creds
        self.answers, self.asked, self.link = {}, 0, None
        self.inbox = "_T" + os.urandom(8).hex()
        self.open()

    def open(self):
        """Once more, after the server went."""
        if self.link is not None:
            self.close()
        self.link = socket.create_connection(("127.0.0.1", self.port), harness.IO_TIMEOUT_S)
        if self.tls is not None:
            self.link = Secured(self.link, self.tls, "127.0.0.1")
        else:
            self.link.settimeout(None)
        self.lines, self.news = self.link.makefile("rb"), threading.Condition()
        connect = {"verbose": False, "headers": True, "no_responders": True, **self.login}
        if self.creds is not None:
            connect.update(self.creds.login(json.loads(self.lines.readline()[5:])["nonce"]))
        self.say(b"CONNECT " + json.dumps(connect).encode() + f"\r\nSUB {self.inbox}.* 1\r\n".encode())
        self.thread = threading.Thread(target=self.read, args=(self.lines,), daemon=True)
        self.thread.start()

    def close(self):
        try:
            plain = self.link if self.tls is None else self.link.link
            socket.socket.shutdown(plain, socket.SHUT_RDWR)
        except OSError:
            pass
        self.link.close()
        self.thread.join()
        self.lines.close()

    def say(self, words):
        self.link.sendall(words)

    def read(self, lines):
        try:
            while line := lines.readline():
                word, *rest = line.split()
                if word == b"PING":
                    self.say(b"PONG\r\n")
                elif word in (b"MSG", b"HMSG"):
                    body = lines.read(int(rest[-1]) + 2)[:-2]
                    with self.news:
                        self.answers[rest[0].decode()] = body
                        self.news.notify_all()
        except (OSError, ValueError):
            pass

    def ask(self, subject, payload, headers=b""):
        """The answer's bytes."""
        self.asked += 1
        inbox = f"{self.inbox}.{self.asked}"
        self.put(subject, payload, headers, inbox + " ")
        with self.news:
            if not self.news.wait_for(lambda: inbox in self.answers, harness.IO_TIMEOUT_S):
                raise TimeoutError(subject)
            return self.answers.pop(inbox)

    def put(self, subject, payload, headers=b"", inbox=""):
        length = len(headers) + len(payload)
        sizes = f"{len(headers)} {length}" if headers else f"{length}"
        self.say(f"{'H' if headers else ''}PUB {subject} {inbox}{sizes}\r\n".encode()
                 + headers + payload + b"\r\n")

    def stream(self, name, subjects, **config):
        """JetStream is ready some time after the server is."""
        wanted = json.dumps({"name": name, "subjects": subjects, **config}).encode()

        def made():
            answer = self.ask(f"$JS.API.STREAM.CREATE.{name}", wanted)
            return answer.startswith(b"{") and "error" not in json.loads(answer)
        harness.wait_until(made, "the stream is made")

    def publish(self, subject, payload, name=None, stored=True):
        headers = b"" if name is None else f"NATS/1.0\r\nNats-Msg-Id: {name}\r\n\r\n".encode()
        if not stored:
            self.put(subject, payload, headers)
            return
        answer = json.loads(self.ask(subject, payload, headers))
        if "error" in answer or answer.get("duplicate"):
            raise AssertionError(answer)
