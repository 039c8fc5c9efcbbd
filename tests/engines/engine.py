"""A real vLLM with a model of nothing, started and stopped as often as asked.

The engine always comes back on the ports it had: that is what a restarted
engine does behind a router.
"""
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading
import time

MODEL = "tiny"
BLOCK = 32  # tokens
START_TIMEOUT_S = 3600
STOP_TIMEOUT_S = 60
IO_TIMEOUT_S = 120
# Below those that a kernel gives to whoever asks for any: nobody else takes one
# while an engine is down.
PORTS = range(20000, 32000)

# One thread each, no network, no reports home; dev mode has the reset.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_SERVER_DEV_MODE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # Compiling takes longer than a run saves by it, and on a busy machine so long
    # that the engine thinks its worker dead.
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS": "3600",
}


def bound(port):
    s = socket.socket()
    try:
        s.bind(("127.0.0.1", port))
    except OSError:
        s.close()
        return None
    return s


def free_ports(ranks):
    """Ports of HTTP, events and replay that nobody listens on now (vLLM cannot
    say which one it took), with as many after the last two as there are
    ranks."""
    held, found = [], []
    while len(found) < 3:
        port = random.SystemRandom().choice(PORTS)
        some = [bound(port + i) for i in range(ranks if found else 1)]
        if all(some):
            found.append(port)
        held += filter(None, some)
    for s in held:
        s.close()
    return found


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
        pause.wait(0.05)


def call(address, method, path, body=None, headers=None, timeout_s=IO_TIMEOUT_S):
    """(status, headers in lower case, body as bytes) of one request."""
    connection = http.client.HTTPConnection(*address, timeout=timeout_s)
    try:
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"content-type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()
    finally:
        connection.close()


class Engine:
    # Counters of tokens: looked up, and found.
    COUNTERS = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")

    def __init__(self, executable, model_dir, log_dir, *, blocks, block_tokens, more=(),
                 env=None, ranks=1):
        self.executable = executable
        self.model_dir = model_dir
        self.log_path = pathlib.Path(log_dir) / "vllm.log"
        self.blocks = blocks
        self.block_tokens = block_tokens
        self.more, self.env, self.ranks = list(more), env or {}, ranks
        port, self.events_port, self.replay_port = free_ports(ranks)
        self.address = ("127.0.0.1", port)
        self.events = f"tcp://127.0.0.1:{self.events_port}"
        self.replay = f"tcp://127.0.0.1:{self.replay_port}"
        self.process = None
        self.starts = 0

    def command(self):
        events = {"enable_kv_cache_events": True, "publisher": "zmq",
                  "endpoint": f"tcp://*:{self.events_port}",
                  "replay_endpoint": f"tcp://*:{self.replay_port}"}
        return [self.executable, "serve", str(self.model_dir),
                "--served-model-name", MODEL, "--load-format", "dummy",
                "--dtype", "float32", "--enforce-eager",
                "--host", "127.0.0.1", "--port", str(self.address[1]),
                "--kv-events-config", json.dumps(events),
                "--enable-prefix-caching", "--enable-prompt-tokens-details",
                "--block-size", str(self.block_tokens),
                "--num-gpu-blocks-override", str(self.blocks),
                "--max-model-len", "2048", "--max-num-seqs", "16", *self.more]

    def spawn(self):
        log = open(self.log_path, "ab")
        with log:
            self.process = subprocess.Popen(
                ["nice", "-n", "10", *self.command()], stdin=subprocess.DEVNULL,
                stdout=log, stderr=log, start_new_session=True, cwd=self.log_path.parent,
                env={**os.environ, **ENVIRONMENT, **self.env})
        self.starts += 1

    def healthy(self):
        if self.process.poll() is not None:
            raise RuntimeError(f"vllm ended with {self.process.returncode}\n{self.log()}")
        try:
            return call(self.address, "GET", "/health", timeout_s=5)[0] == 200
        except OSError:
            return False

    def start(self):
        self.spawn()
        wait_until(self.healthy, "vllm is healthy", START_TIMEOUT_S)
        return self

    def log(self):
        return self.log_path.read_text(errors="replace")[-6000:]

    def end(self, number):
        """The whole group: vLLM is several processes."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, number)
            self.process.wait(STOP_TIMEOUT_S)
        except ProcessLookupError:
            pass
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_TIMEOUT_S)

    def crash(self):
        self.end(signal.SIGKILL)

    def stop(self):
        """In peace; what is left of the group then is killed."""
        self.end(signal.SIGTERM)
        self.end(signal.SIGKILL)

    def reset(self):
        """Empties the cache; False while requests hold blocks."""
        status, _, body = call(self.address, "POST", "/reset_prefix_cache")
        return status == 200 and json.loads(body).get("success", True)

    def version(self):
        return json.loads(call(self.address, "GET", "/version")[2])["version"]
