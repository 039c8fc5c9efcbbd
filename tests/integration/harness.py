"""What every integration test stands on: start real programs, wait for their
ready line, talk HTTP to them, and leave nothing behind.

    import harness

    class Engine(harness.Case):
        def test_answers(self):
            engine = self.start("kvasir-engine", "--port", "0")
            answer = harness.request(engine.at("http"), "GET", "/health")
            self.assertEqual(answer.status, 200)

    if __name__ == "__main__":
        harness.main()

Every wait has a bound. Ports are chosen by the kernel. A program that dies
unasked, or does not end in peace when told to, fails the test; the end of its
log is printed then. Nothing but the standard library.
"""
import concurrent.futures
import http.client
import io
import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

SKIP = 77  # meson's exit code for a skipped test
# Sanitizers and shared machines are slow; a wait that fails has hung.
READY_TIMEOUT_S = 60
STOP_TIMEOUT_S = 120
IO_TIMEOUT_S = 120
# Nobody is to go elsewhere, and tests look at where answers come from.
DEFAULTS = {"KVASIR_TIMEOUTS_LAME_DUCK": "0s", "KVASIR_PLACEMENT_HEADERS": "on"}

BUILD = pathlib.Path(os.environ.get("KVASIR_BUILD", "build")).resolve()


def program(name):
    """The path of a program of this build."""
    for folder in ("node", "chaos", "tests/integration", "."):
        path = BUILD / folder / name
        if path.is_file():
            return str(path)
    raise FileNotFoundError(f"{name} is not in {BUILD}; is it built?")


def wait_until(predicate, what, timeout_s=IO_TIMEOUT_S):
    """Asks again and again until the answer is true; returns that answer."""
    end = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        got = predicate()
        if got:
            return got
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s} s: {what}")
        pause.wait(0.01)


def decision(node, answer):
    """What the node wrote down of the request that got this answer, which it does after the
    answer's last byte."""
    def find():
        said = request(node.at("admin"), "GET", "/admin/decisions").json()
        return [d for d in said if d["id"] == answer.headers["x-request-id"]]
    return wait_until(find, "the decision is written down")[0]


class Process:
    """A program that runs. `ready` is its ready line as a dictionary. `before`
    is a command that becomes it (exec)."""

    def __init__(self, name, *args, log_dir, env=None, before=()):
        self.name = name
        handle, path = tempfile.mkstemp(prefix=name + "-", suffix=".log", dir=log_dir)
        self.log_path = pathlib.Path(path)
        self.ready = {}
        self.killed = False
        with os.fdopen(handle, "wb") as log:
            self.popen = subprocess.Popen(
                [*before, program(name), *map(str, args)], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=log,
                env={**DEFAULTS, **os.environ, **(env or {})})

    @property
    def pid(self):
        return self.popen.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_ready(self, timeout_s=READY_TIMEOUT_S):
        """Reads the one line `ready KEY=VALUE ...`."""
        end = time.monotonic() + timeout_s
        fd = self.popen.stdout.fileno()
        line = b""
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([fd], [], [], left)[0]:
                raise TimeoutError(f"{self.name} is not ready after {timeout_s} s\n{self.log()}")
            byte = os.read(fd, 1)
            if byte == b"":
                self.popen.wait(STOP_TIMEOUT_S)
                raise RuntimeError(f"{self.name} ended with {self.popen.returncode} before it "
                                   f"was ready\n{self.log()}")
            line += byte
        words = line.decode().split()
        if not words or words[0] != "ready":
            raise RuntimeError(f"{self.name} printed {line!r} instead of its ready line")
        self.ready = dict(word.split("=", 1) for word in words[1:])
        return self

    def at(self, key):
        """(host, port) of an address in the ready line."""
        host, _, port = self.ready[key].rpartition(":")
        return host.strip("[]"), int(port)

    def url(self, key):
        """Where that is: tcp:// of an engine's `events` and `replay`."""
        address = self.ready[key]
        return address if "://" in address else "http://" + address

    def signal(self, number):
        self.popen.send_signal(number)

    def freeze(self):
        """It stands still from now on, until signal.SIGCONT."""
        self.signal(signal.SIGSTOP)
        stat = pathlib.Path(f"/proc/{self.pid}/stat")
        wait_until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T",
                   f"{self.name} stands still")

    def kill(self):
        """As a crash would: no goodbye."""
        self.killed = True
        self.popen.kill()
        self.popen.wait(STOP_TIMEOUT_S)

    def wait(self, timeout_s=STOP_TIMEOUT_S):
        """Its exit code."""
        return self.popen.wait(timeout_s)

    def stop(self, timeout_s=STOP_TIMEOUT_S):
        """SIGTERM, and its exit code."""
        if self.popen.poll() is None:
            self.popen.terminate()
        return self.wait(timeout_s)

    def clean_up(self):
        """Ends it by all means; complains when it was not 0 of itself."""
        try:
            code = self.popen.poll()
            if code is None:
                # One that a test froze must hear that it shall end.
                self.popen.send_signal(signal.SIGCONT)
                code = self.stop()
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end on SIGTERM\n{self.log()}") from None
        finally:
            self.popen.stdout.close()
        if code != 0 and not self.killed:
            raise AssertionError(f"{self.name} ended with {code}\n{self.log()[-4000:]}")


class Case(unittest.TestCase):
    """A test whose programs and files are gone when it is over."""

    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="kvasir-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def spawn(self, name, *args, env=None, before=()):
        """Starts a program without waiting for anything."""
        process = Process(name, *args, log_dir=self.folder, env=env, before=before)
        self.addCleanup(process.clean_up)
        return process

    def start(self, name, *args, env=None, before=()):
        """Starts a program and waits for its ready line."""
        return self.spawn(name, *args, env=env, before=before).wait_ready()

    def run_once(self, name, *args, stdin="", timeout_s=IO_TIMEOUT_S, env=None):
        """Runs a program to its end: a subprocess.CompletedProcess, text."""
        return subprocess.run([program(name), *map(str, args)], input=stdin, text=True,
                              capture_output=True, timeout=timeout_s,
                              env={**os.environ, **(env or {})}, check=False)


class Answer:
    """status, headers (names in lower case), body (bytes)."""

    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.body = response.read()

    @property
    def text(self):
        return self.body.decode()

    def json(self):
        return json.loads(self.body)


def connect(address, timeout_s=IO_TIMEOUT_S):
    """A keep-alive connection: http.client.HTTPConnection."""
    return http.client.HTTPConnection(*address, timeout=timeout_s)


def send(connection, method, path, body=None, headers=None):
    """Sends a request; anything but bytes, text or None goes as JSON, and so does
    all that goes to an admin port."""
    headers = dict(headers or {})
    if body is not None and path.startswith("/admin/"):
        headers.setdefault("content-type", "application/json")
    if body is not None and not isinstance(body, (bytes, str)):
        body = json.dumps(body)
        headers.setdefault("content-type", "application/json")
    if isinstance(body, str):
        body = body.encode()
    connection.request(method, path, body=body, headers=headers)


def request(address, method, path, body=None, headers=None, timeout_s=IO_TIMEOUT_S):
    """One request on a connection of its own: an Answer."""
    connection = connect(address, timeout_s)
    try:
        send(connection, method, path, body, headers)
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Stream:
    """An answer of server-sent events, read one by one. Close it, or read it
    to its end."""

    def __init__(self, address, path, body, headers=None, timeout_s=IO_TIMEOUT_S):
        self.connection = connect(address, timeout_s)
        send(self.connection, "POST", path, body, headers)
        self.response = self.connection.getresponse()
        self.status = self.response.status
        self.headers = {k.lower(): v for k, v in self.response.getheaders()}

    def events(self):
        """The text after each `data: `, `[DONE]` included. An answer that is
        severed raises http.client.IncompleteRead or ConnectionError."""
        data, held = [], b""
        while True:
            # read1() gives what has arrived, and tells an end from a severed connection.
            piece = self.response.read1(65536)
            if piece == b"":
                self.close()
                return
            *lines, held = (held + piece).split(b"\n")
            for line in lines:
                line = line.rstrip(b"\r")
                if line.startswith(b"data:"):
                    data.append(line[5:].strip().decode())
                elif line == b"" and data:
                    yield "\n".join(data)
                    data = []

    def chunks(self):
        """The events as JSON, without the closing `[DONE]`, which must come."""
        last = None
        for event in self.events():
            last = event
            if event != "[DONE]":
                yield json.loads(event)
        if last != "[DONE]":
            raise AssertionError(f"the stream ended with {last!r} instead of [DONE]")

    def close(self):
        self.connection.close()


def raw(address, payload, timeout_s=IO_TIMEOUT_S):
    """Sends bytes as they are; everything that comes back until the close."""
    with socket.create_connection(address, timeout=timeout_s) as s:
        s.sendall(payload)
        parts = []
        while True:
            part = s.recv(65536)
            if part == b"":
                return b"".join(parts)
            parts.append(part)


def metrics(address, path="/metrics"):
    """A Prometheus page: {'name{labels}': value}, as written."""
    values = {}
    for line in request(address, "GET", path).text.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            values[name] = float(value)
    return values


def metric(address, name, path="/metrics"):
    """The sum of a metric over all of its labels, or over those that have the
    ones of the name, as in 'a_total{reason="x"}'; None when there is none."""
    name, _, labels = name.partition("{")
    wanted = [label for label in labels.rstrip("}").split(",") if label]
    found = [value for key, value in metrics(address, path).items()
             if key.partition("{")[0] == name and all(label in key for label in wanted)]
    return sum(found) if found else None


class _SideBySide:
    """Runs tests at one time, so many; what each says comes when it is over."""

    def __init__(self, at_once):
        self.at_once, self.lock = at_once, threading.Lock()

    def run(self, suite):
        whole = unittest.TestResult()

        def run_one(test):
            said = io.StringIO()
            result = unittest.TextTestRunner(said, verbosity=2).run(test)
            with self.lock:
                sys.stderr.write(said.getvalue())
                whole.testsRun += result.testsRun
                for name in ("failures", "errors", "skipped", "unexpectedSuccesses"):
                    getattr(whole, name).extend(getattr(result, name))

        with concurrent.futures.ThreadPoolExecutor(self.at_once) as pool:
            for _ in pool.map(run_one, _each(suite)):
                pass
        return whole


def _each(suite):
    for test in suite:
        yield from _each(test) if isinstance(test, unittest.TestSuite) else (test,)


def main(at_once=1):
    """Runs the module's tests, one after the other, or those that wait most of
    the time so many at once; exit 77 when all of them were skipped."""
    runner = _SideBySide(at_once) if at_once > 1 else None
    result = unittest.main(exit=False, verbosity=2, testRunner=runner).result
    if result.testsRun > 0 and len(result.skipped) == result.testsRun:
        sys.exit(SKIP)
    sys.exit(not result.wasSuccessful())
