#!/usr/bin/env python3
"""Publishes the cache events of a vLLM or an SGLang to a NATS server, for nodes
that read them there: a reference for publishers of your own.

    nats_events.py EVENTS REPLAY nats://HOST:PORT/SUBJECT STREAM|-

    nats_events.py tcp://127.0.0.1:5557 tcp://127.0.0.1:5657 nats://10.0.0.9:4222/kv.gpu1 KV-gpu1
    kvasir serve --worker http://10.0.0.1:8000,\\
        events=nats://10.0.0.9:4222/kv.gpu1,replay=nats://10.0.0.9:4222/KV-gpu1

A message is one of the engine's batches as it is. Its header Nats-Msg-Id is
LIFE-SEQ: the batch's number, and a name for one run of this program. STREAM is a
JetStream stream of the subject; it is made where there is none, and keeps the last
100,000 batches. With - there is none, and nothing can be replayed.
NATS_LOGIN in the environment is USER:PASSWORD or a token. With tls:// in place of
nats:// it speaks TLS: NATS_CA is the authorities' file (else the system's), NATS_CERT
and NATS_KEY what the server is shown.

Prints `ready`. When the server goes, batches wait for it to come back. Ends when it
misses a batch, or loses the engine or the stream, for whoever runs it to start it
again: that is a new life. Needs python3-zmq, python3-msgpack and python3-xxhash.
"""
import collections
import json
import io
import os
import select
import socket
import ssl
import sys
import threading
import time

from sidecar import batches

KEPT = 100_000  # messages of a stream that is made here
WAITING_MAX = 1000  # batches that the stream has not confirmed


def die(why):
    print(f"nats_events: {why}", file=sys.stderr, flush=True)
    os._exit(1)


class Secured(io.RawIOBase):
    """TLS for one thread that reads and others that write: a session is for one at a time,
    and nobody waits within it."""

    def __init__(self, link, context, host):
        super().__init__()
        while (byte := link.recv(1)) != b"\n":  # INFO is plain, all else is not
            if not byte:
                raise OSError("the server hung up")
        self.link, self.turn = context.wrap_socket(link, server_hostname=host), threading.Lock()
        self.link.setblocking(False)

    def close(self):
        self.link.close()
        super().close()

    def makefile(self, _):
        return io.BufferedReader(self)

    def readable(self):
        return True

    def readinto(self, room):
        while True:
            with self.turn:
                try:
                    return self.link.recv_into(room)
                except ssl.SSLWantReadError:
                    pass
            select.select([self.link], [], [])

    def sendall(self, words):
        left = memoryview(words)
        while left:
            with self.turn:
                try:
                    left = left[self.link.send(left):]
                    continue
                except ssl.SSLWantWriteError:
                    pass
            select.select([], [self.link], [])


def trust():
    try:
        context = ssl.create_default_context(cafile=os.environ.get("NATS_CA"))
        if "NATS_CERT" in os.environ:
            context.load_cert_chain(os.environ["NATS_CERT"], os.environ.get("NATS_KEY"))
        return context
    except OSError as error:
        die(f"NATS_CA, NATS_CERT, NATS_KEY: {error}")


class Publisher:
    """A connection that is made anew when it is lost; what was not confirmed is
    sent again, under the same name, so that the stream keeps it once."""

    def __init__(self, url, stream):
        scheme, _, url = url.partition("://")
        self.trust = trust() if scheme == "tls" else None
        place, _, self.subject = url.partition("/")
        self.host, _, self.port = place.rpartition(":")
        self.stream = stream if stream != "-" else None
        self.life, self.inbox = os.urandom(8).hex(), "_INBOX." + os.urandom(8).hex()
        self.waiting = collections.OrderedDict()  # number: message
        self.turn = threading.Condition()
        self.link = None  # None: there is no connection
        self.links = self.stored = 0  # connections so far; the last number in the stream
        threading.Thread(target=self.run, daemon=True).start()

    def publish(self, number, payload):
        header = f"NATS/1.0\r\nNats-Msg-Id: {self.life}-{number}\r\n\r\n".encode()
        reply = f"{self.inbox}.{number} " if self.stream else ""
        message = (f"HPUB {self.subject} {reply}{len(header)} {len(header) + len(payload)}\r\n"
                   .encode() + header + payload + b"\r\n")
        with self.turn:
            self.turn.wait_for(lambda: self.link and len(self.waiting) < WAITING_MAX)
            if self.stream:
                self.waiting[number] = message
            try:
                self.link.sendall(message)
            except OSError:
                pass  # run() sees it, too

    def run(self):
        said = None
        while True:
            try:
                host = self.host.strip("[]")
                with (socket.create_connection((host, int(self.port)), 5) as plain,
                      self.secured(plain, host) as link):
                    self.speak(link, link.makefile("rb"))
            except (OSError, ValueError) as error:
                if said != str(error):
                    print(f"nats_events: {error}", file=sys.stderr, flush=True)
                said = str(error)
            if self.links and not self.stream:
                die("the server is lost")
            with self.turn:
                self.link = None
            time.sleep(0.2)

    def secured(self, plain, host):
        if self.trust is not None:
            return Secured(plain, self.trust, host)
        plain.settimeout(None)
        return plain

    def speak(self, link, lines):
        user, colon, password = os.environ.get("NATS_LOGIN", "").partition(":")
        login = {"user": user, "pass": password} if colon else {"auth_token": user} if user else {}
        link.sendall(b"CONNECT " + json.dumps(
            {"verbose": False, "pedantic": False, "headers": True, "no_responders": True,
             "lang": "python", "version": "1", "name": "nats_events", **login}).encode() +
            f"\r\nSUB {self.inbox}.* 1\r\n".encode())
        if self.stream:
            made = json.dumps({"name": self.stream, "subjects": [self.subject],
                               "max_msgs": KEPT}).encode()
            link.sendall(f"PUB $JS.API.STREAM.CREATE.{self.stream} {self.inbox}.stream {len(made)}"
                         "\r\n".encode() + made + b"\r\n")
        link.sendall(b"PING\r\n")
        while line := lines.readline():
            word, *rest = line.split() or [b""]
            if word == b"PING":
                with self.turn:  # not within a batch
                    link.sendall(b"PONG\r\n")
            elif word == b"-ERR":
                raise OSError(line.decode(errors="replace").strip())
            elif word == b"PONG" and not self.stream:
                self.begin(link)
            elif word in (b"MSG", b"HMSG"):
                body = lines.read(int(rest[-1]) + 2)
                self.told(link, rest[0].decode(), body[:-2] if word == b"MSG" else b"")
        raise OSError("the server hung up")

    def told(self, link, inbox, body):
        what = inbox.rpartition(".")[2]
        if not body:  # nobody is there: JetStream is not, or not yet
            if what == "stream":
                raise OSError("there is no JetStream")
            die("the stream is gone")
        answer = json.loads(body)
        if what != "stream":
            if "error" in answer:
                die(answer["error"])
            with self.turn:
                self.stored = max(self.stored, answer["seq"])
                self.waiting.pop(int(what), None)
                self.turn.notify_all()
        elif "error" in answer and answer["error"].get("err_code") != 10058:  # another shape
            raise OSError(answer["error"])
        elif answer.get("state", {}).get("last_seq", self.stored) < self.stored:
            die("the stream has lost its end")
        else:
            self.begin(link)

    def begin(self, link):
        if not self.links:
            print("ready", flush=True)
        self.links += 1
        with self.turn:
            link.sendall(b"".join(self.waiting.values()))
            self.link = link
            self.turn.notify_all()


def main():
    events, replay, url, stream = sys.argv[1:]
    publisher, due = Publisher(url, stream), 0
    for number, payload in batches(events, replay):
        if number > due:
            die("a batch is missing")
        if number == due:
            publisher.publish(number, payload)
            due += 1
    die("the engine is lost")


if __name__ == "__main__":
    main()
