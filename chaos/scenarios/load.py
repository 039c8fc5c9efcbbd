"""A load while things happen: kvasir-load in the background, phases marked by
seconds, each request accounted for, and beside it one reader who compares
streams word by word."""
import contextlib
import http.client
import json
import signal
import threading
import time

from .hosts import wait_until
from .world import MODEL, NAME, SERVE, program

READER_WORDS = 40
READER_S = 15


def read_stream(host, address, port, body):
    """The text of a streamed answer as far as it came, of a chat or a completion, and behind it
    how many tokens its usage says, if it was asked for: (text, whether whole)."""
    text, held = [], b""
    connection = http.client.HTTPConnection(address, port)
    with contextlib.closing(connection):
        try:
            connection.sock = host.connect(address, port, READER_S)
            path = "/v1/completions" if "prompt" in body else "/v1/chat/completions"
            connection.request("POST", path, json.dumps(body),
                               {"content-type": "application/json"})
            answer = connection.getresponse()
            while answer.status == 200:
                piece = answer.read1(65536)
                *events, held = (held + piece).split(b"\n\n")
                for event in events:
                    if event.startswith(b":"):  # a comment: that it was resumed, say
                        continue
                    data = event.removeprefix(b"data: ")
                    if data == b"[DONE]":
                        return "".join(text), True
                    said = json.loads(data)
                    text += [choice.get("text") or choice.get("delta", {}).get("content") or ""
                             for choice in said["choices"]]
                    if said.get("usage") and not said["choices"]:
                        text.append(f" ({said['usage']['completion_tokens']} tokens)")
                if piece == b"":
                    break
        except (OSError, http.client.HTTPException):
            pass
    return "".join(text), False


class Reader(threading.Thread):
    """Asks one node after the other the same; engines say the same to it, and
    what comes through nodes must be that, or its beginning when it is severed."""

    def __init__(self, world, host, what="", **options):
        super().__init__(daemon=True)
        self.host = host
        self.nodes = world.nodes
        self.body = {"model": MODEL, "stream": True, "max_tokens": READER_WORDS, **options,
                     "messages": [{"role": "user", "content": f"Tell me of {what or world.seed}."}]}
        self.engine = next(e for e in world.engines if e.runs)
        self.learn()
        self.right, self.severed, self.wrong = 0, 0, []
        self.ended = threading.Event()

    def learn(self):
        """What an engine says that nobody disturbs."""
        self.expected, whole = read_stream(self.host, self.engine.address, 8000, self.body)
        if not whole:
            raise AssertionError(f"{self.engine.name} does not stream")

    def prepare(self, turn):
        """What is asked next: the same."""

    def run(self):
        turn = 0
        while not self.ended.wait(0.05):
            self.prepare(turn)
            node = self.nodes[turn % len(self.nodes)]
            turn += 1
            text, whole = read_stream(self.host, node.address, SERVE, self.body)
            if text != self.expected if whole else not self.expected.startswith(text):
                self.wrong.append(text)
            elif whole:
                self.right += 1
            else:
                self.severed += 1

    def end(self):
        self.ended.set()
        self.join(2 * READER_S)
        if self.wrong:
            raise AssertionError(f"{len(self.wrong)} streams are not what an engine said: "
                                 f"{self.wrong[0]!r} is not {self.expected!r}")


class Load:
    """Talks to all nodes by their name until it is told to end."""

    def __init__(self, world, users=12, client=0, name=NAME, **flags):
        flags = {"think-ms": 80, "turns": 6, "max-tokens": 32, "groups": 4,
                 "system-bytes": 2000, "user-bytes": 200, "timeout-ms": 20000,
                 "connect-ms": 1000, "retries": 4, "seed": world.seed, **flags}
        words = [word for key, value in flags.items() for word in (f"--{key}", value)]
        self.users = users
        self.tokens = flags["max-tokens"]
        self.reader = Reader(world, world.clients[client])
        self.reader.start()
        self.began = time.monotonic()
        self.marks = {}
        self.program = world.clients[client].run(
            program("kvasir-load"), "--json", "--url", f"http://{name}:{SERVE}", "--resolver",
            f"{world.dns_address}:53", "--model", MODEL, "--users", users,
            "--conversations", 100000, *words, ready=False, log=f"load{len(world.loads)}")
        world.loads.append(self)

    def run_for(self, seconds):
        """Lets it go on for so long; nothing of this world stops meanwhile."""
        end = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= end or not self.program.runs, "time passes",
                   seconds + 5)
        if not self.program.runs:
            raise AssertionError(f"the load ended with {self.program.popen.returncode}\n"
                                 f"{self.program.log()[-2000:]}")

    def mark(self, name):
        """From here on it is `name`: hurt, healed."""
        self.marks[name] = time.monotonic() - self.began

    def end(self):
        """What became of all its requests: an Outcome."""
        self.reader.end()
        self.program.signal(signal.SIGTERM)
        out, _ = self.program.popen.communicate(timeout=30)
        text = (self.program.out + out).decode()
        try:
            return Outcome(json.loads(text), self)
        except ValueError:
            raise AssertionError(f"the load said {text!r}\n{self.program.log()[-2000:]}") from None


class Outcome:
    def __init__(self, result, load):
        self.marks = load.marks
        self.users = load.users
        requests = result["requests"]
        self.sent, self.answered = requests["sent"], requests["answered"]
        self.retried = requests["retried"]
        self.failures = {k: v for k, v in result["failures"].items() if v and k != "stopped"}
        self.stopped = result["failures"].get("stopped", 0)
        self.failed = sum(self.failures.values())
        self.odd = [line for line in load.program.log().splitlines()
                    if "request_failed" in line and "severed" not in line][:5]
        self.nodes = {row["id"]: row for row in result["nodes"]}
        self.workers = {row["id"]: row for row in result["workers"]}
        self.seconds = result["per_second"]
        self.read_right = load.reader.right
        if self.sent != self.answered + self.failed + self.stopped:
            raise AssertionError(f"requests are not all accounted for: {requests} "
                                 f"{result['failures']}")
        if result["tokens"]["completion"] != self.answered * load.tokens:
            raise AssertionError(f"{self.answered} answers of {load.tokens} tokens have "
                                 f"{result['tokens']['completion']}")

    def between(self, first, last):
        """The seconds between two marks ("", the start and the end)."""
        begin = int(self.marks[first]) if first else 0
        end = int(self.marks[last]) if last else len(self.seconds)
        return self.seconds[begin:max(end, begin + 1)]

    def cached(self, first="", last=""):
        """Of the prompt tokens answered meanwhile, the cached part; None: none."""
        rows = self.between(first, last)
        prompt = sum(row["prompt"] for row in rows)
        return sum(row["cached"] for row in rows) / prompt if prompt else None

    def answered_between(self, first="", last=""):
        return sum(row["answered"] for row in self.between(first, last))

    def phases(self):
        """Cached parts before, during and after what was done to them."""
        edges = ["", *(m for m in ("hurt", "healed") if m in self.marks), ""]
        return [self.cached(a, b) for a, b in zip(edges, edges[1:])]

    def failed_at(self, *names):
        """Failed requests that went through these nodes or to these workers."""
        return sum(row["failed"] for row in [*self.nodes.values(), *self.workers.values()]
                   if row["id"] in names)
