"""What deploy/demo runs once the packages are there: builds, plays the same
load through one node by round robin and through three nodes Kvasir's way, kills
one of these in the middle and starts it again, and prints what came of it.

Python for what a shell is bad at: several processes at once, each of which
must be gone afterwards however this ends.
"""
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import demo_programs as programs
from demo_mesh import HOSTS, NAME, VICTIM, Mesh, sees_engines, worker_words
from demo_programs import Failure, ask, say, start, step

ENGINES = 4
BLOCK_TOKENS = 16
PREFILL_TOKENS_PER_S = 8000
TOKENS_OF_A_BYTE = 0.6  # of the small model's tokenizer
SATURATED = 0.8  # of what engines can compute; decoding needs some of it too

# When, as part of the requests of the load.
SETTLED_AT = 0.2  # most system prompts are in some cache
KILL_AT = 0.42
RESTART_AT = 0.64
FEW = 50  # requests of a stage that one cold prompt still moves

# System prompts that fill more than one engine's cache and less than four, and
# users who leave the engines time to breathe: see load_line().
FULL = {"blocks": 2048, "users": 40, "conversations": 80, "turns": 6, "groups": 16,
        "system-bytes": 5000, "user-bytes": 170, "max-tokens": 48, "think-ms": 3000}
QUICK = {"blocks": 1024, "users": 16, "conversations": 64, "turns": 3, "groups": 8,
         "system-bytes": 5000, "user-bytes": 170, "max-tokens": 32, "think-ms": 700}


# The load


class Load:
    """A load that is being played; its progress goes to stderr."""

    def __init__(self, stack, folder, load, url, *more):
        words = [folder / "chaos/kvasir-load", "--url", url, "--seed", 1, "--json",
                 "--model", programs.MODEL, *more]
        for name, value in load.items():
            if name != "blocks":
                words += [f"--{name}", value]
        self.began = time.monotonic()
        self.run = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, text=True,
                                    preexec_fn=programs.die_together)
        stack.callback(self.run.stdout.close)
        stack.callback(self.run.wait)
        stack.callback(self.run.kill)

    def seconds(self):
        """How long it has been playing."""
        return time.monotonic() - self.began

    def check(self, what):
        if self.run.poll() is not None:
            raise Failure(f"the load ended before {what}")

    def result(self):
        """What came of it, at its end."""
        out = self.run.stdout.read()
        if self.run.wait() != 0:
            raise Failure(f"kvasir-load ended with {self.run.returncode}")
        return json.loads(out)


def start_engines(stack, folder, load, logs):
    engines = [start(stack, [folder / "chaos/kvasir-engine", "--port", 0,
                             "--model", programs.MODEL, "--tokens", programs.MODELS,
                             "--name", f"engine-{i}", "--blocks", load["blocks"],
                             "--block-size", BLOCK_TOKENS,
                             "--events", 0, "--replay", 0,
                             "--prefill-tps", PREFILL_TOKENS_PER_S,
                             "--step-ms", 8, "--step-per-seq-ms", 0.65],
                     logs / f"engine-{i}.log") for i in range(1, ENGINES + 1)]
    for engine in engines:
        engine.wait_ready()
    return engines


def queue_ms(engines):
    """How long requests waited in the engines' queues, on average."""
    total = {"sum": 0.0, "count": 0.0}
    for engine in engines:
        for line in ask(engine.ready["http"], "GET", "/metrics")[2].splitlines():
            found = re.match(r"vllm:request_queue_time_seconds_(sum|count)\S* (\S+)", line)
            if found:
                total[found[1]] += float(found[2])
    return 1000 * total["sum"] / max(1, total["count"])


# The first run: round robin


def play_round_robin(folder, load, logs):
    """The load through one node that knows nothing of caches."""
    step("round robin: one node, kvasir serve --policy round_robin")
    logs.mkdir()
    with contextlib.ExitStack() as stack:
        engines = start_engines(stack, folder, load, logs)
        node = start(stack, [folder / "node/kvasir", "serve", "--listen", "127.0.0.1:0",
                             "--admin", "127.0.0.1:0", "--name", "alone",
                             "--policy", "round_robin", *worker_words(engines)],
                     logs / "kvasir.log").wait_ready()
        programs.wait_until(lambda: sees_engines(node, ENGINES), "the node sees all engines",
                            node.log_path)
        result = Load(stack, folder, load, f"http://{node.ready['serve']}").result()
        for program in [*engines, node]:
            program.check()
        result["queue_ms"] = queue_ms(engines)
        return result


# The second run: three nodes, one of which is killed and comes back


def show_mesh(mesh):
    say(f"   {NAME} has the addresses {', '.join(HOSTS[:-1])} and {HOSTS[-1]}, told by a DNS\n"
        f"   server that the demo runs. Nodes find each other by that name, clients find the\n"
        f"   nodes. All three are started alike; {mesh.name(0)} is:")
    data = " --data DIR" if mesh.snapshots else ""
    say(f"   $ kvasir serve --name {mesh.name(0)} --listen {HOSTS[0]}:{mesh.serve} \\\n"
        f"       --mesh {HOSTS[0]}:{mesh.port} --join dns:{NAME}:{mesh.port}{data} \\\n"
        "       --tokens.dir tests/models --worker ...")


def show_status(mesh, i):
    """The lines of `kvasir status` that tell of the mesh."""
    say(f"   $ kvasir status --admin {mesh.admin(i)}")
    for line in mesh.status(i):
        say(f"   {line}")


def wait_for(mesh, run, what, count):
    """Until the nodes that live were sent that many requests."""
    living = [i for i, node in enumerate(mesh.nodes) if not node.killed]

    def there():
        run.check(what)
        return sum(mesh.requests(i)[0] for i in living) >= count
    programs.wait_until(there, what, mesh.nodes[0].log_path, timeout_s=120)


def kill_one(mesh, run, planned):
    """Kills node-2 in the middle: (second of the load, requests open on it,
    requests it had been sent, and of the last of these the ratio())."""
    victim = mesh.name(VICTIM)
    wait_for(mesh, run, f"{victim} was killed", SETTLED_AT * planned)
    settled = mesh.tokens(VICTIM)
    wait_for(mesh, run, f"{victim} was killed", KILL_AT * planned)
    step("in the middle of it: what node-1 tells of the mesh")
    show_status(mesh, 0)
    step(f"kill -9 of {victim}")
    sent = mesh.requests(VICTIM)[0]
    before = mesh.ratio(VICTIM, settled)
    was_open = mesh.kill(VICTIM)
    at = run.seconds()
    mesh.wait_dead(VICTIM)
    say(f"   After {run.seconds() - at:.1f} s the others are sure that it is dead, and have "
        f"shared the reading of\n"
        f"   engines' events anew. Nobody told the DNS server: clients that come upon the dead\n"
        f"   address go on to the next one.")
    show_status(mesh, 0)
    return at, was_open, sent, before


def restart_one(mesh, run, planned, gone):
    """Starts node-2 again: the second of the load when it was ready, and how
    many seconds that took."""
    victim = mesh.name(VICTIM)
    wait_for(mesh, run, f"{victim} was started again", RESTART_AT * planned - gone)
    step(f"{victim} is started again, with the same command")
    began = run.seconds()
    mesh.restart(VICTIM)
    at = run.seconds()
    knows, known = mesh.blocks(VICTIM), mesh.blocks(0)
    say(f"   Ready after {at - began:.1f} s. It knows of {knows:,} blocks in the engines' caches, "
        f"{mesh.name(0)} of {known:,}.\n"
        f"   {source_line(mesh.start_of(VICTIM))}\n"
        f"   Clients try its address again within 5 s.")
    return at, at - began


def source_line(began):
    """Where a node that came back has its knowledge from."""
    if began is None:
        return "All of it was told by the others."
    if began["state"] != "warm":
        return f"All of it was told by the others: no snapshot could be used ({began['reason']})."
    return (f"Its last snapshot on disk, {began['age_ms'] / 1000:.1f} s old, had "
            f"{began['blocks']:,}; the others told what changed since.")


def play_mesh(folder, load, logs):
    """The load through three nodes behind one name."""
    step(f"kvasir: three nodes behind one name, {NAME}")
    logs.mkdir()
    planned = load["conversations"] * load["turns"]
    with contextlib.ExitStack() as stack:
        engines = start_engines(stack, folder, load, logs)
        mesh = Mesh(stack, folder, engines, logs)
        show_mesh(mesh)
        run = Load(stack, folder, load, f"http://{NAME}:{mesh.serve}", "--resolver", mesh.dns)
        killed_s, was_open, gone, before = kill_one(mesh, run, planned)
        back_s, took_s = restart_one(mesh, run, planned, gone)
        result = run.result()
        for program in [*engines, *mesh.nodes]:
            program.check()
        result["accuracy"] = mesh.accuracy()
        result["was_open"] = was_open
        result["stages"] = stages(result["per_second"], int(killed_s), int(back_s))
        result["returned"] = mesh.ratio(VICTIM)
        result["before"] = before
        result["ready_s"] = took_s
        result["start"] = mesh.start_of(VICTIM)
        show_request(mesh)
        return result


def stages(seconds, killed, back):
    """Before the kill as long as without node-2, without it, and since it is
    back: [(requests, ratio, mean TTFT)]. The seconds in which it was killed
    and was back are left out: they belong to two."""
    out = []
    for part in (seconds[max(0, 2 * killed - back + 1):killed], seconds[killed + 1:back],
                 seconds[back + 1:]):
        answered = sum(s["answered"] for s in part)
        ratio = sum(s["cached"] for s in part) / max(1, sum(s["prompt"] for s in part))
        ttft = sum(s["ttft_ms"] * s["answered"] for s in part) / max(1, answered)
        out.append((answered, ratio, ttft))
    return out


# What is shown


def show_request(mesh):
    """Two turns of one conversation through two nodes; the headers of the
    second."""
    ask_for = {"model": programs.MODEL, "max_tokens": 12, "messages": [
        {"role": "system", "content": "You answer questions about the harbour of Bergen. " * 20},
        {"role": "user", "content": "When does the ferry leave?"}]}
    path = "/v1/chat/completions"
    one, other = (mesh.nodes[i].ready["serve"] for i in (0, len(HOSTS) - 1))
    first = json.loads(ask(one, "POST", path, ask_for)[2])
    ask_for["messages"] += [first["choices"][0]["message"],
                            {"role": "user", "content": "And on Sundays?"}]
    time.sleep(0.2)  # nobody types faster
    status, headers, text = ask(other, "POST", path, ask_for)
    usage = json.loads(text)["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    step("one request: the second turn of a conversation")
    say(f"   {mesh.name(0)} had the first turn. {mesh.name(len(HOSTS) - 1)} gets the second one, "
        "and knows where the first is cached:")
    say(f"   $ curl -i http://{other}{path} -d @second-turn.json")
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
        f"   {'requests per engine':<20} {'failed':>6}")
    say(row("round robin", plain))
    say(row("kvasir", ours))
    say(f"{'gain':<12} {gain(ratios[1], ratios[0]):>13} {times[0]:>10} {times[1]:>10}")


def percent(requests, ratio):
    """Of tokens; nothing of no requests."""
    return f"{100 * ratio:12.1f} %" if requests else ""


def show_stages(ours):
    say(f"{'kvasir, in the course of it':<34} {'requests':>8} {'cached tokens':>14} "
        f"{'mean TTFT':>10}")
    names = ("three nodes, just before the kill", "two nodes, node-2 is dead",
             "three nodes, node-2 is back")
    for name, (requests, ratio, ttft) in zip(names, ours["stages"]):
        say(f"{name:<34} {requests:8} {percent(requests, ratio)} {ttft:7.0f} ms"
            if requests else f"{name:<34} {requests:8}")
    requests, ratio = ours["returned"]
    say(f"{'  through node-2 since it is back':<34} {requests:8} {percent(requests, ratio)}")
    if min(answered for answered, _, _ in ours["stages"]) < FEW:
        say("So few requests tell little: one system prompt that an engine meets for the first\n"
            "time moves a stage by several percent. Without --quick they are more.")


def kill_line(ours):
    failed = ours["requests"]["failed"]
    was_open = max(failed, ours["was_open"])
    saved = was_open - failed
    return (f"The kill: requests open on node-2: {was_open}. Of these, severed in the middle of an "
            f"answer: {failed}; not\nanswered yet, and sent again through another node: {saved}. "
            f"No other request failed.")


def restart_line(ours):
    """Whether its hit ratio held."""
    (requests, before), (since, after) = ours["before"], ours["returned"]
    began = ours["start"]
    blocks = f"{began['blocks']:,} blocks" if began and began["state"] == "warm" else "nothing"
    return (f"The restart: node-2 was ready after {ours['ready_s']:.1f} s, with {blocks} from its "
            f"snapshot. Of the prompt\ntokens sent through it engines had "
            f"{100 * before:.1f} % cached before it was killed ({requests} requests) and\n"
            + (f"{100 * after:.1f} % since it is back ({since} requests)." if since else
               "no request came since it is back: by then the load was over."))


def accuracy_line(ours):
    right, judged = ours["accuracy"]
    exactly = ("all" if right == judged else
               f"{right} of {judged} ({100 * right / max(1, judged):.1f} %)")
    return (f"The nodes follow the engines' own cache events, and make each prompt's tokens from the\n"
            f"model's own files. How much of it the engine would find cached, they predicted "
            f"exactly: {exactly}\n(of {judged} answers).")


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
        f"   (about {int(load['system-bytes'] * TOKENS_OF_A_BYTE):,} tokens) are shared among "
        f"them. Each engine "
        f"caches {room:,} tokens:\n"
        f"   one alone cannot hold it all, the four together can.\n"
        f"   Both runs: the same seed, the same words, fresh engines with empty caches.")


def show_result(plain, ours):
    step("result")
    show_table(plain, ours)
    say()
    say("cached tokens: part of all prompt tokens that an engine found in its cache.\n"
        "TTFT: time to first token, from sending a request. gain: how many times better.")
    say()
    show_stages(ours)
    say()
    say(kill_line(ours))
    say(restart_line(ours))
    say(load_line(plain))
    say(accuracy_line(ours))
    say("The engines are stand-ins: no GPU and made-up words, but a real block cache, queue and\n"
        "batches, and a timing model after measurements (8,000 prompt tokens/s, 8 ms a step\n"
        "and 0.65 ms per sequence in it). On real engines times and cache sizes are others.")


def check_result(plain, ours, logs):
    """Only what was open on the killed node may fail."""
    allowed = sum(n["failed"] for n in ours["nodes"] if n["id"] == f"node-{VICTIM + 1}")
    failed = plain["requests"]["failed"] + ours["requests"]["failed"] - allowed
    if failed:
        raise Failure(f"{failed} requests failed that no killed node had open, see {logs}")


def demo(load):
    folder = programs.build()
    introduce(load)
    logs = pathlib.Path(tempfile.mkdtemp(prefix="kvasir-demo-"))
    logs.chmod(0o755)  # dnsmasq gives up root and reads its names here
    try:
        plain = play_round_robin(folder, load, logs / "round_robin")
        ours = play_mesh(folder, load, logs / "kvasir")
    except Failure:
        raise
    except KeyboardInterrupt:
        shutil.rmtree(logs)
        raise
    except Exception as error:
        raise Failure(f"{type(error).__name__}: {error}, see {logs}") from error
    check_result(plain, ours, logs)
    show_result(plain, ours)
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
    except OSError as error:  # a disk that is full or read-only
        print(f"demo: {error}; it writes its build and its logs there (KVASIR_BUILD takes a "
              "build that is made, TMPDIR another folder for logs)", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything it had started was ended", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
