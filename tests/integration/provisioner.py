"""What scale.hook calls: makes stand-in engines by key, and ends them."""
import http.server
import json
import threading

TOKEN = "s3cret"


class Provisioner:
    """Answers where an engine is once it is ready and `free` is set. never: so many keys get
    none. case: a harness.Case that starts the engines."""

    def __init__(self, case, never=0, options=()):
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
                if self.headers.get("authorization") != f"Bearer {TOKEN}":
                    outer.wrong.append("a call without the token")
                status, answer = outer.take(json.loads(body))
                data = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
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
