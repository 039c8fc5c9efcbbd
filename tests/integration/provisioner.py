#!/usr/bin/env python3
"""What scale.hook calls: makes stand-in engines by key, and ends them. As a program:

    provisioner.py HOST:PORT [--token-file FILE] kvasir engine [OPTION]...

starts that command with --port 0 for each key, and ends it when it is told to, or ends itself."""
import http.server
import json
import pathlib
import signal
import subprocess
import sys
import threading

TOKEN = "s3cret"


class Provisioner:
    """Answers where an engine is once it is ready and `free` is set. never: so many keys get
    none. case: a harness.Case that starts the engines. token: what calls must show; "": nothing."""

    def __init__(self, case, never=0, options=(), at=("127.0.0.1", 0), token=TOKEN):
        self.case, self.never, self.options = case, never, options
        self.lock = threading.Lock()
        self.free = threading.Event()
        self.engines, self.ended, self.calls, self.wrong = {}, [], [], []
        self.most = self.epoch = 0
        self.deaf = False  # fails all calls
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                if token and self.headers.get("authorization") != f"Bearer {token}":
                    outer.wrong.append("a call without the token")
                    status, answer = 401, {}
                else:
                    status, answer = outer.take(json.loads(body))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(at, Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        case.addCleanup(self.server.server_close)
        case.addCleanup(self.server.shutdown)
        self.url = f"http://127.0.0.1:{self.server.server_port}/engines"

    def take(self, call):
        with self.lock:
            self.calls.append(call)
            if self.deaf:
                return 500, {}
            if call["epoch"] < self.epoch:
                return 409, {}
            self.epoch = call["epoch"]
            key = call["key"]
            if call["action"] == "terminate":
                engine = self.engines.pop(key, None)
                if engine is not None:
                    engine.kill()
                if key not in self.ended:
                    self.ended.append(key)
                return 200, {}
            if key in self.ended:
                return 200, {}
            if key not in self.engines:
                if self.never > 0:
                    self.never -= 1
                    self.engines[key] = _Nothing()
                else:
                    self.engines[key] = self.case.spawn("kvasir-engine", "--port", "0",
                                                        *self.options)
                self.most = max(self.most, len(self.engines))
            engine = self.engines[key]
            if not self.free.is_set() or isinstance(engine, _Nothing):
                return 202, {}
            if not engine.ready:
                engine.wait_ready()
            return 200, {"worker": engine.url("http")}

    def keys(self, action="provision"):
        with self.lock:
            return sorted({c["key"] for c in self.calls if c["action"] == action})

    def callers(self, key):
        with self.lock:
            return {c["by"] for c in self.calls if c["key"] == key}


class _Nothing:
    def kill(self):
        pass


class _Engine:
    """One of the program's."""

    def __init__(self, words):
        self.ready = {}
        self.popen = subprocess.Popen([*words, "--port", "0"], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE, text=True, start_new_session=True)

    def wait_ready(self):
        self.ready = dict(word.split("=", 1) for word in self.popen.stdout.readline().split()[1:])

    def url(self, _kind):
        """Where it is, as --worker has it."""
        more = (f",{key}={self.ready[key]}" for key in ("events", "replay") if self.ready.get(key))
        return "http://" + self.ready["http"] + "".join(more)

    def kill(self):
        self.popen.terminate()
        self.popen.wait()


class _Program:
    """Stands for the harness.Case of a test."""

    def __init__(self, words):
        self.words, self.cleanups = words, []

    def spawn(self, *_args):
        return _Engine(self.words)

    def addCleanup(self, call):
        self.cleanups.append(call)


def main(words):
    if len(words) < 2 or ":" not in words[0]:
        sys.exit(__doc__)
    host, _, port = words.pop(0).rpartition(":")
    token = ""
    if words[0] == "--token-file":
        token = pathlib.Path(words[1]).read_text().split()[0]
        del words[:2]
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    program = _Program(words)
    provisioner = Provisioner(program, at=(host, int(port)), token=token)
    provisioner.free.set()
    print("ready hook=" + provisioner.url, flush=True)
    while not over.wait(1):
        pass
    for call in reversed(program.cleanups):
        call()
    for engine in provisioner.engines.values():
        engine.kill()


if __name__ == "__main__":
    main(sys.argv[1:])
