"""A real Redis for tests, on a free port of its own, and a client of a few lines."""
import os
import shutil
import signal
import socket
import subprocess

import harness
from dns import free_port

TRIES = 5  # another process may get a port that was free

FOUND = shutil.which("redis-server") or shutil.which("valkey-server")


class RedisServer:
    """password, user: that it wants; tls: certs.Certs, then it speaks nothing else."""

    def __init__(self, case, password=None, user=None, tls=None):
        self.case = case
        self.password, self.user, self.tls = password, user, tls
        self.process = None
        self.port = None
        self.database = ""
        case.addCleanup(self.kill)
        if not any(self.start() for _ in range(TRIES)):
            raise RuntimeError(f"redis-server {' '.join(self.options())} ends at once")

    def options(self):
        yield from ("--save", "", "--appendonly", "no", "--bind", "127.0.0.1",
                    "--dir", str(self.case.folder))
        if self.tls is None:
            yield from ("--port", str(self.port))
        else:
            yield from ("--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no",
                        "--tls-cert-file", self.tls.path("one.pem"),
                        "--tls-key-file", self.tls.path("one.key"),
                        "--tls-ca-cert-file", self.tls.path("ca.pem"))
        if self.user is not None:
            yield from ("--user", "default", "off", "--user", self.user, "on",
                        f">{self.password}", "~kvasir:*", "+@all")
        elif self.password is not None:
            yield from ("--requirepass", self.password)

    def start(self):
        """Whether it came up: another process may have got the port. Again on the same one."""
        self.port = self.port or free_port()
        self.process = subprocess.Popen([FOUND, *self.options()], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while self.process.poll() is None:
            try:
                self.call("PING")
                return True
            except OSError:
                continue
        self.port = None
        return False

    def start_again(self):
        port = self.port
        if not self.start():
            raise RuntimeError(f"another process took port {port}")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self):
        """Until thawed it takes connections and answers nothing."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def thaw(self):
        os.kill(self.process.pid, signal.SIGCONT)

    @property
    def url(self):
        return f"redis{'s' if self.tls else ''}://localhost:{self.port}{self.database}"

    def call(self, *words):
        """What it says to one command: bytes, None, a number, or a list of them."""
        with socket.create_connection(("127.0.0.1", self.port), harness.IO_TIMEOUT_S) as s:
            if self.tls is not None:
                s = self.tls.of_client().wrap_socket(s, server_hostname="localhost")
            with s.makefile("rwb") as file:
                if self.password is not None:
                    self.say(file, "AUTH", *([self.user] if self.user else []), self.password)
                return self.say(file, *words)

    def say(self, file, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        file.write(b"*%d\r\n" % len(words))
        for word in words:
            file.write(b"$%d\r\n%s\r\n" % (len(word), word))
        file.flush()
        return self.read(file)

    def read(self, file):
        line = file.readline()
        if not line:
            raise ConnectionError("it hung up")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            raise ConnectionError(rest.decode())
        if kind == b"$":
            return None if rest == b"-1" else file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.read(file) for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def answers(self):
        """The names of what lies there but for the marks of clearings."""
        return sorted(name for name in self.call("KEYS", "kvasir:*") if b"cleared" not in name)
