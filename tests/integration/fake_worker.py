"""A worker whose every byte a test decides: a raw HTTP/1.1 server that answers
health checks by itself and hands everything else to the test.

    worker = FakeWorker(self, lambda peer, request: peer.json({"ok": True}))

The handler runs on the connection's thread. It may send anything with
peer.send(), wait for events of the test, read on, or close.
"""
import json
import socket
import threading

import harness


class Request:
    """One request as it arrived: start line, headers (lower case), body."""

    def __init__(self, line, headers, raw_head, body):
        self.line = line
        self.method, self.target, self.version = line.split(" ")
        self.headers = headers
        self.raw_head = raw_head
        self.body = body

    def json(self):
        return json.loads(self.body)


class Peer:
    """The worker's side of one connection."""

    def __init__(self, sock):
        self.sock = sock
        self.held = b""

    def _until(self, mark):
        while mark not in self.held:
            part = self.sock.recv(65536)
            if part == b"":
                raise EOFError
            self.held += part
        found, _, self.held = self.held.partition(mark)
        return found + mark

    def _exactly(self, size):
        while len(self.held) < size:
            part = self.sock.recv(65536)
            if part == b"":
                raise EOFError
            self.held += part
        found, self.held = self.held[:size], self.held[size:]
        return found

    def read_body(self, headers):
        if headers.get("transfer-encoding") != "chunked":
            return self._exactly(int(headers.get("content-length", "0")))
        body = b""
        while size := int(self._until(b"\r\n"), 16):
            body += self._exactly(size)
            self._until(b"\r\n")
        self._until(b"\r\n")
        return body

    def read_head(self):
        raw = self._until(b"\r\n\r\n")
        line, *fields = raw.decode("latin-1").rstrip("\r\n").split("\r\n")
        headers = {}
        for field in fields:
            name, _, value = field.partition(":")
            headers[name.lower()] = value.strip()
        return line, headers, raw

    def read_request(self):
        line, headers, raw = self.read_head()
        return Request(line, headers, raw, self.read_body(headers))

    def send(self, data):
        self.sock.sendall(data if isinstance(data, bytes) else data.encode("latin-1"))

    def answer(self, status, body=b"", headers=""):
        self.send(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
                  .encode() + body)

    def json(self, value, status=200):
        self.answer(status, json.dumps(value).encode(), "Content-Type: application/json\r\n")

    def begin_stream(self):
        self.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n")

    def chunk(self, data):
        self.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def end_stream(self):
        self.send("0\r\n\r\n")

    def wait_closed(self):
        """Returns when the other side has closed or reset."""
        try:
            while self.sock.recv(65536) != b"":
                pass
        except OSError:
            pass

    def close(self):
        self.sock.close()


class Close(Exception):
    """Raised by a handler: close the connection now."""


class FakeWorker:
    def __init__(self, case, handler, models=("m",), host="127.0.0.1", tls=None, port=0):
        self.tls = tls  # the server's ssl.SSLContext
        self.handler = handler
        self.models = list(models)
        self.healthy = True
        self.facts = {}  # of each model
        self.adapters = {}  # of which model, by name
        self.metrics = b"vllm:num_requests_running 0\n"
        self.base = ""
        self.requests = []
        self.connections = 0
        self.lock = threading.Lock()
        self.peers = set()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.create_server((host, port), family=family, backlog=128)
        self.address = self.listener.getsockname()[:2]
        threading.Thread(target=self._accept, daemon=True).start()
        case.addCleanup(self.close)

    @property
    def url(self):
        return f"http{'s' if self.tls else ''}://{self.address[0]}:{self.address[1]}"

    @property
    def id(self):
        return f"{self.address[0]}:{self.address[1]}"

    def close(self):
        """Refuses new connections and cuts those that are open."""
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        with self.lock:
            peers, self.peers = self.peers, set()
        for peer in peers:
            try:
                peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.settimeout(harness.IO_TIMEOUT_S)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._welcome, args=(sock,), daemon=True).start()

    def _welcome(self, sock):
        try:
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
        except OSError:
            sock.close()
            return
        self._serve(Peer(sock))

    def _serve(self, peer):
        with self.lock:
            self.peers.add(peer)
        try:
            counted = False
            while True:
                line, headers, raw = peer.read_head()
                if line.startswith("GET ") and self._own(peer, line.split(" ")[1]):
                    continue
                if not counted:
                    counted = True
                    with self.lock:
                        self.connections += 1
                request = Request(line, headers, raw, None)
                if not getattr(self.handler, "reads_body", False):
                    request.body = peer.read_body(headers)
                with self.lock:
                    self.requests.append(request)
                self.handler(peer, request)
        except (EOFError, OSError, Close):
            pass
        finally:
            with self.lock:
                self.peers.discard(peer)
            peer.close()

    def _own(self, peer, target):
        target = target.removeprefix(self.base)
        if target == "/health":
            peer.answer(200 if self.healthy else 503)
        elif target == "/v1/models":
            peer.json({"object": "list", "data": [
                {"id": name, "object": "model", "created": 1, "owned_by": "vllm", **self.facts,
                 **({"parent": self.adapters[name]} if name in self.adapters else {})}
                for name in self.models]})
        elif target == "/metrics":
            peer.answer(200, self.metrics)
        else:
            return False
        return True
