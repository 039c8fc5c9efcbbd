"""What deploy/demo runs once the packages are there: builds, starts engines
and a node, plays the same load under both policies, prints one table.

Python for what a shell is bad at: several processes at once, each of which
must be gone afterwards however this ends.
"""
import contextlib
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-demo"
PROGRAMS = ("node/kvasir", "chaos/kvasir-engine", "chaos/kvasir-load")

ENGINES = 4
BLOCK_TOKENS = 16
PREFILL_TOKENS_PER_S = 8000
SATURATED = 0.8  # of what engines can compute; decoding needs some of it too
READY_TIMEOUT_S = 30
STOP_TIMEOUT_S = 10

# System prompts that fill more than one engine's cache and less than four, and
# users who leave the engines time to breathe: see load_line().
FULL = {"blocks": 2048, "users": 40, "conversations": 80, "turns": 6, "groups": 16,
        "system-bytes": 12000, "user-bytes": 400, "max-tokens": 48, "think-ms": 3000}
QUICK = {"blocks": 1024, "users": 24, "conversations": 24, "turns": 4, "groups": 8,
         "system-bytes": 12000, "user-bytes": 400, "max-tokens": 32, "think-ms": 1200}


class Failure(Exception):
    """A step failed; the text says which, and where its log is."""


def say(text=""):
    print(text, flush=True)


def step(text):
    say(f"\n== {text}")


# Building


def follow(command, log_path, what):
    """Runs a command into a log. Shows ninja's counter where that can move."""
    moves = sys.stdout.isatty()
    with open(log_path, "a", encoding="utf-8", errors="replace") as log:
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as run:
            try:
                for line in run.stdout:
                    log.write(line)
                    count = re.match(r"\[\d+/\d+\]", line)
                    if moves and count:
                        print(f"\r\033[K   {count[0]}", end="", flush=True)
            except BaseException:
                run.terminate()
                run.wait()
                raise
        if moves:
            print("\r\033[K", end="", flush=True)
    if run.returncode != 0:
        raise Failure(f"{what} failed, see {log_path}")


def build():
    """The folder with the programs: one that is there, or a fresh build."""
    given = os.environ.get("KVASIR_BUILD")
    if given:
        folder = pathlib.Path(given).resolve()
        step(f"using the build in {folder}")
    else:
        folder = BUILD
        step(f"building into {folder.name}/")
        folder.mkdir(exist_ok=True)
        log_path = folder / "demo-build.log"
        log_path.unlink(missing_ok=True)
        if not (folder / "build.ninja").exists():
            follow(["meson", "setup", str(folder), str(ROOT), "--buildtype=release"],
                   log_path, "configuring")
        follow(["ninja", "-C", str(folder), *PROGRAMS], log_path, "building")
        say("   built")
    for program in PROGRAMS:
        if not (folder / program).is_file():
            raise Failure(f"there is no {program} in {folder}")
    return folder


# Processes


class Program:
    """One that runs until it is told to end. `ready` is its ready line."""

    def __init__(self, command, log_path):
        self.name = pathlib.Path(command[0]).name
        self.log_path = log_path
        # A configuration that lies around must not change the demo.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("KVASIR_")}
        with open(log_path, "ab") as log:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=clean,
                                          stdout=subprocess.PIPE, stderr=log)

    def wait_ready(self):
        line = b""
        end = time.monotonic() + READY_TIMEOUT_S
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.popen.stdout], [], [], left)[0]:
                raise Failure(f"{self.name} did not get ready, see {self.log_path}")
            byte = os.read(self.popen.stdout.fileno(), 1)
            if byte == b"":
                raise Failure(f"{self.name} ended at once, see {self.log_path}")
            line += byte
        self.ready = dict(word.split("=", 1) for word in line.decode().split()[1:])
        return self

    def check(self):
        if self.popen.poll() is not None:
            raise Failure(f"{self.name} ended unasked with {self.popen.returncode}, "
                          f"see {self.log_path}")

    def stop(self):
        """Ends it, by all means."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self.popen.stdout.close()


def start(stack, command, log_path):
    """Starts a program; it ends with the stack."""
    program = Program([str(word) for word in command], log_path)
    stack.callback(program.stop)
    return program


def ask(address, method, path, body=None):
    """One small request: (status, headers, text)."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=READY_TIMEOUT_S)
    try:
        headers = {"content-type": "application/json"} if body is not None else {}
        connection.request(method, path, body=json.dumps(body) if body is not None else None,
                           headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read().decode()
    finally:
        connection.close()


# One phase: engines with empty caches, a node, the load


def start_engines(stack, folder, load, logs):
    engines = [start(stack, [folder / "chaos/kvasir-engine", "--port", 0,
                             "--name", f"engine-{i}", "--blocks", load["blocks"],
                             "--block-size", BLOCK_TOKENS,
                             "--events", 0, "--replay", 0,
                             "--prefill-tps", PREFILL_TOKENS_PER_S,
                             "--step-ms", 8, "--step-per-seq-ms", 0.65],
                     logs / f"engine-{i}.log") for i in range(1, ENGINES + 1)]
    for engine in engines:
        engine.wait_ready()
    return engines


def start_node(stack, folder, engines, policy, logs):
    words = [folder / "node/kvasir", "serve", "--listen", "127.0.0.1:0",
             "--admin", "127.0.0.1:0", "--name", "demo"]
    for i, engine in enumerate(engines, 1):
        words += ["--worker", f"http://{engine.ready['http']},id=engine-{i},"
                              f"events={engine.ready['events']},replay={engine.ready['replay']}"]
    if policy is not None:
        words += ["--policy", policy]
    node = start(stack, words, logs / "kvasir.log").wait_ready()
    end = time.monotonic() + READY_TIMEOUT_S
    while True:
        workers = json.loads(ask(node.ready["admin"], "GET", "/admin/workers")[2])
        if sum(w["eligible"] for w in workers) == ENGINES:
            return node
        if time.monotonic() > end:
            raise Failure(f"the node does not see all engines, see {node.log_path}")
        time.sleep(0.05)


def play(stack, folder, node, load):
    """Plays the load to its end; its progress goes to stderr."""
    words = [folder / "chaos/kvasir-load", "--url", f"http://{node.ready['serve']}",
             "--seed", 1, "--json"]
    for name, value in load.items():
        if name != "blocks":
            words += [f"--{name}", value]
    run = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, text=True)
    stack.callback(run.stdout.close)
    stack.callback(run.wait)
    stack.callback(run.kill)
    out = run.stdout.read()
    if run.wait() != 0:
        raise Failure(f"kvasir-load ended with {run.returncode}")
    return json.loads(out)


def queue_ms(engines):
    """How long requests waited in the engines' queues, on average."""
    total = {"sum": 0.0, "count": 0.0}
    for engine in engines:
        for line in ask(engine.ready["http"], "GET", "/metrics")[2].splitlines():
            found = re.match(r"vllm:request_queue_time_seconds_(sum|count)\S* (\S+)", line)
            if found:
                total[found[1]] += float(found[2])
    return 1000 * total["sum"] / max(1, total["count"])


def accuracy(node):
    """How often the node knew exactly what an engine had cached: (right,
    judged)."""
    workers = json.loads(ask(node.ready["admin"], "GET", "/admin/workers")[2])
    each = [stream["accuracy"] for w in workers for stream in w["events"]]
    return sum(a["exact"] for a in each), sum(a["answers"] for a in each)


def phase(folder, load, policy, logs, then=None):
    """The result of the load under one policy; `then` sees the warm node."""
    with contextlib.ExitStack() as stack:
        logs.mkdir()
        engines = start_engines(stack, folder, load, logs)
        node = start_node(stack, folder, engines, policy, logs)
        result = play(stack, folder, node, load)
        for program in [*engines, node]:
            program.check()
        result["queue_ms"] = queue_ms(engines)
        result["accuracy"] = accuracy(node)
        if then is not None:
            then(node)
        return result


# What is shown


def show_request(node):
    """Two turns of one conversation; the headers of the second."""
    ask_for = {"model": "kvasir/stand-in", "max_tokens": 12, "messages": [
        {"role": "system", "content": "You answer questions about the harbour of Bergen. " * 20},
        {"role": "user", "content": "When does the ferry leave?"}]}
    path = "/v1/chat/completions"
    first = json.loads(ask(node.ready["serve"], "POST", path, ask_for)[2])
    ask_for["messages"] += [first["choices"][0]["message"],
                            {"role": "user", "content": "And on Sundays?"}]
    status, headers, text = ask(node.ready["serve"], "POST", path, ask_for)
    usage = json.loads(text)["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    step("one request: the second turn of a conversation")
    say(f"   $ curl -i http://{node.ready['serve']}{path} -d @second-turn.json")
    say(f"   HTTP/1.1 {status} {http.client.responses[status]}")
    for name, value in headers:
        if name.lower().startswith("x-"):
            say(f"   {name}: {value}")
    say(f"   ... \"prompt_tokens\": {usage['prompt_tokens']}, \"cached_tokens\": {cached} ...")


def row(name, result):
    tokens, ttft = result["tokens"], result["ttft_ms"]
    ratio = tokens["cached"] / max(1, tokens["prompt"])
    requests = " ".join(f"{w['requests']:4}" for w in result["workers"])
    return (f"{name:<12} {100 * ratio:11.1f} % {ttft['p50']:7.0f} ms {ttft['p99']:7.0f} ms"
            f"   {requests:<20} {result['requests']['failed']:6}")


def gain(before, after):
    return f"{before / after:.1f}x" if after > 0 else "-"


def show_table(plain, ours):
    ratios = [r["tokens"]["cached"] / max(1, r["tokens"]["prompt"]) for r in (plain, ours)]
    times = [gain(plain["ttft_ms"][p], ours["ttft_ms"][p]) for p in ("p50", "p99")]
    say(f"{'':<12} {'cached tokens':>13} {'TTFT p50':>10} {'TTFT p99':>10}"
        f"   {'requests per worker':<20} {'errors':>6}")
    say(row("round robin", plain))
    say(row("kvasir", ours))
    say(f"{'gain':<12} {gain(ratios[1], ratios[0]):>13} {times[0]:>10} {times[1]:>10}")


def accuracy_line(ours):
    right, judged = ours["accuracy"]
    return (f"The node follows the engines' own cache events. Of {judged} requests whose tokens it "
            f"knew in\nfull it said for {right} ({100 * right / max(1, judged):.1f} %) exactly how "
            f"many of them the engine would find cached.")


def load_line(plain):
    """What the load is against what the engines can do, from round robin's
    own numbers: it must not win by letting the other drown."""
    computed = plain["tokens"]["prompt"] - plain["tokens"]["cached"]
    share = computed / (ENGINES * PREFILL_TOKENS_PER_S * plain["seconds"])
    verdict = ("busy, not past saturation" if share < SATURATED else
               "close to saturation, which flatters the gain in TTFT")
    return (f"The load: {plain['requests']['sent']} requests, {plain['requests_per_s']:.1f} per "
            f"second. Under round robin the prompts take {100 * share:.0f} % of\n"
            f"what the engines can compute, and a request waits {plain['queue_ms']:.0f} ms in a "
            f"queue on average:\nthe baseline is {verdict}.")


def introduce(load):
    room = load["blocks"] * BLOCK_TOKENS
    step("what will be played")
    say(f"   {load['conversations']} conversations of {load['turns']} turns, {load['users']} at a "
        f"time; {load['groups']} system prompts of {load['system-bytes']:,} bytes\n"
        f"   (about {load['system-bytes'] // 4:,} tokens) are shared among them. Each engine "
        f"caches {room:,} tokens:\n"
        f"   one alone cannot hold it all, the four together can.\n"
        f"   Both runs: the same seed, the same words, fresh engines with empty caches.")


def demo(load):
    folder = build()
    introduce(load)
    logs = pathlib.Path(tempfile.mkdtemp(prefix="kvasir-demo-"))
    try:
        step("round robin: kvasir serve --policy round_robin")
        plain = phase(folder, load, "round_robin", logs / "round_robin")
        step("kvasir: kvasir serve, as it comes")
        ours = phase(folder, load, None, logs / "kvasir", show_request)
    except Failure:
        raise
    except KeyboardInterrupt:
        shutil.rmtree(logs)
        raise
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}, see {logs}") from error
    step("result")
    show_table(plain, ours)
    say()
    say("cached tokens: part of all prompt tokens that an engine found in its cache.\n"
        "TTFT: time to first token, from sending a request. gain: how many times better.")
    say(load_line(plain))
    say(accuracy_line(ours))
    say("The engines are stand-ins: no GPU and made-up words, but a real block cache, queue and\n"
        "batches, and a timing model after measurements (8,000 prompt tokens/s, 8 ms a step\n"
        "and 0.65 ms per sequence in it). On real engines times and cache sizes are others.")
    failed = plain["requests"]["failed"] + ours["requests"]["failed"]
    if failed:
        raise Failure(f"{failed} requests failed, see {logs}")
    shutil.rmtree(logs)


def interrupted(number, _frame):
    raise KeyboardInterrupt(number)


def main():
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    try:
        demo(QUICK if "--quick" in sys.argv[1:] else FULL)
    except Failure as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything it had started was ended", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
