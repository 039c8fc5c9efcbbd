"""Engines that are asked for and given back, by stand-in engines and what starts them
(provisioner.py, by HTTP and by a program; kube_api.py): who asks, whose they are when that
node dies, what becomes of those that do not come, and that no request notices."""
import os
import pathlib
import shutil
import signal
import sys
import threading
import types
import unittest

import harness
import words
from dns import free_port
from fake_worker import FakeWorker
from kube_api import KubeApi, StatefulSet
from provisioner import TOKEN, Provisioner

MODEL = "kvasir/stand-in"
ENGINE = ("--max-running", "4")


# scale.command: passes the call on to the provisioner, and says more than there is room for.
PROGRAM = f"""#!{sys.executable}
import json, os, sys, urllib.error, urllib.request
call = {{name: os.environ["ENGINE_" + name.upper()]
        for name in ("action", "key", "epoch", "by", "model", "worker", "missed", "pool")}}
assert sys.argv[1:] == [call["action"], call["key"]]
assert sys.stdin.read() == "" and os.environ["ENGINE_ROOM"] == "kept"
call.update(epoch=int(call["epoch"]), missed=int(call["missed"]))
try:
    answer = urllib.request.urlopen(urllib.request.Request(
        "URL", json.dumps(call).encode(), {{"authorization": "Bearer {TOKEN}"}}))
except urllib.error.HTTPError as error:
    sys.exit(f"status {{error.code}}\\nand more")
worker = json.load(answer).get("worker")
if worker:
    print("", worker, "and more", flush=True)
try:
    print(*[" "] * 200000, flush=True)
except OSError:
    os.write(2, b"no room")
os._exit(0)
"""

# One that never ends, nor does what it started.
STUCK = """#!/bin/sh
sleep 100000 &
echo $$ $! > PIDS
wait
"""

# One that ends before what it started.
LEAVING = """#!/bin/sh
sleep 0.01 &
echo $! >> PIDS
"""


def stat_of(pid):
    """The state of a process, and its parent; None, None: there is none."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None, None
    return stat.rpartition(")")[2].split()[:2]


def runs(pid):
    """Whether a process is there, and no zombie."""
    return stat_of(pid)[0] not in (None, "Z")


def children(pid):
    return [p for p in os.listdir("/proc") if p.isdigit() and stat_of(p)[1] == str(pid)]


class Load:
    """Clients that ask one after the other, each at any node that takes its connection."""

    def __init__(self, case):
        self.case, self.nodes, self.wanted = case, [], 0
        self.workers, self.failed, self.threads = set(), [], []
        self.over = threading.Event()
        case.addCleanup(self.end)

    def want(self, count):
        self.wanted = count
        while len(self.threads) < count:
            self.threads.append(threading.Thread(target=self.ask, args=(len(self.threads),)))
            self.threads[-1].start()

    def ask(self, number):
        pause = threading.Event()
        said = 0
        while not self.over.is_set():
            if number >= self.wanted:
                pause.wait(0.05)
                continue
            said += 1
            body = {"model": MODEL, "max_tokens": 40, "messages": [
                {"role": "user", "content": f"client {number} says {said}"}]}
            for node in list(self.nodes):
                try:
                    answer = harness.request(node.at("serve"), "POST", "/v1/chat/completions", body)
                except OSError:
                    if node in self.nodes:
                        self.failed.append("a connection")
                    continue  # that node was killed
                if answer.status != 200:
                    self.failed.append(answer.text)
                self.workers.add(answer.headers.get("x-kvasir-worker"))
                break

    def end(self):
        self.over.set()
        for thread in self.threads:
            thread.join()


class ScaleAct(harness.Case):
    def program(self, text, name="engines"):
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return str(path)

    def by_hook(self, hook):
        token = self.folder / "token"
        token.write_text(TOKEN + "\n")
        return "--scale.hook", hook.url, "--scale.token_file", str(token)

    def options(self, how, *more):
        return ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--lanes", "1",
                "--placement-headers", "on", "--workers.max_inflight", "4",
                "--health.interval", "200ms", "--health.timeout", "200ms",
                "--health.metrics_interval", "50ms", "--scale.mode", "act",
                "--scale.max", "3", "--scale.cool_down", "1s", *how, *more)

    def told(self, node):
        return harness.request(node.at("admin"), "GET", "/admin/scale").json()

    def states(self, node):
        return sorted(job["state"] for job in self.told(node)["jobs"])

    def test_load_brings_engines_and_takes_them_back_though_who_asked_is_killed(self):
        hook, load = Provisioner(self, options=ENGINE), Load(self)
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        nodes, mesh = {}, []

        def start(name):
            listen = mesh[list("abc").index(name)] if len(mesh) == 3 else "127.0.0.1:0"
            joins = [w for at in mesh if at != listen for w in ("--join", at)]
            nodes[name] = self.start("kvasir", "serve", "--name", name, "--mesh", listen, *joins,
                                     "--worker", first.url("http"), *self.options(
                                         self.by_hook(hook), "--scale.quorum", "2", "--scale.provision", "2m"))
            if len(mesh) < 3:
                mesh.append(nodes[name].ready["mesh"])
            load.nodes.append(nodes[name])

        def acting():
            return [n for n, p in nodes.items() if self.told(p)["acts"]]

        def of_all(states):
            return all(self.states(p) == states for p in nodes.values())

        for name in "abc":
            start(name)
        harness.wait_until(lambda: len(acting()) == 1, "one node acts")
        load.want(12)
        # Engines are asked for; before any is there, who asked is killed.
        keys = harness.wait_until(lambda: hook.keys() if len(hook.keys()) == 2 else None,
                                  "two engines are asked for")
        killed = next(iter(hook.callers(keys[0])))
        load.nodes.remove(nodes[killed])
        nodes.pop(killed).kill()
        harness.wait_until(lambda: len(hook.callers(keys[0])) == 2, "another node goes on")
        self.assertEqual(hook.keys(), keys, "with the same keys")
        hook.free.set()
        harness.wait_until(lambda: of_all(["works", "works"]), "both came")
        harness.wait_until(lambda: len(load.workers) == 3, "and all take requests")
        page = self.run_once("kvasir", "status", "--admin",
                             next(iter(nodes.values())).ready["admin"]).stdout
        self.assertIn("ENGINE ASKED FOR", page)
        self.assertIn(" acts, by scale.hook; engines that did not come: 0", page)
        start(killed)  # none ends before all nodes have seen it drain
        load.want(1)
        harness.wait_until(lambda: not hook.engines, "both are given back")
        harness.wait_until(lambda: of_all([]), "and forgotten")
        load.end()
        self.assertEqual((load.failed, hook.wrong), ([], []))
        self.assertEqual((hook.ended and sorted(hook.ended), hook.most), (keys, 2))
        self.assertEqual(hook.keys("terminate"), keys)
        for node in nodes.values():
            workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
            self.assertEqual([w["url"] for w in workers], [first.url("http")])
        self.assertEqual(sum(harness.metric(p.at("admin"), "kvasir_scale_ended_total")
                             for p in nodes.values()), 2)

    def test_what_never_comes_is_given_back_and_asked_for_again(self):
        hook, load = Provisioner(self, never=1, options=ENGINE), Load(self)
        hook.free.set()
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(self.by_hook(hook), "--scale.max", "2",
                                         "--scale.provision", "15s"))
        load.nodes.append(node)
        load.want(8)
        lost = harness.wait_until(lambda: hook.ended, "the first is given back")[0]
        harness.wait_until(lambda: self.states(node) == ["works"], "another one came")
        self.assertNotIn(lost, hook.engines)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_scale_missed_total"), 1)
        self.assertEqual([c["missed"] for c in hook.calls if c["key"] in hook.engines][0], 1)
        # What has no good answer is called again, later and later.
        hook.deaf = True
        load.want(0)
        harness.wait_until(lambda: any(c["action"] == "terminate" and c["key"] != lost
                                       for c in hook.calls), "it is to go")
        harness.wait_until(
            lambda: harness.metric(node.at("admin"), "kvasir_scale_calls_failed_total") >= 2,
            "calls fail")
        self.assertEqual(self.states(node), ["ends"])
        hook.deaf = False
        harness.wait_until(lambda: self.states(node) == [], "it is gone")
        load.end()
        self.assertEqual((load.failed, hook.engines), ([], {}))

    def test_one_whose_circuit_is_half_open_is_not_lost(self):
        broken, faulty, load = threading.Event(), [], Load(self)

        def answer(peer, _request):
            peer.json({"error": "broken"} if broken.is_set() else {"choices": []},
                      500 if broken.is_set() else 200)

        def spawn(*_args):
            made = FakeWorker(self, answer, models=(MODEL,))
            faulty.append(types.SimpleNamespace(
                ready=True, id=made.id, url=lambda _kind: made.url, kill=made.close))
            return faulty[-1]

        maker = types.SimpleNamespace(spawn=spawn, addCleanup=self.addCleanup)
        hook = Provisioner(maker)
        hook.free.set()
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(self.by_hook(hook), "--scale.min", "3",
                                        "--scale.provision", "5s", "--breaker.failures", "1",
                                        "--breaker.open", "10ms", "--breaker.open_max", "10ms"))

        def state(worker):
            listed = harness.request(node.at("admin"), "GET", "/admin/workers").json()
            return {w["id"]: w["state"] for w in listed}.get(worker.id)

        harness.wait_until(lambda: self.states(node) == ["works", "works"], "both came")
        broken.set()
        load.nodes.append(node)
        load.want(8)
        harness.wait_until(lambda: any(state(w).startswith("circuit") for w in faulty),
                           "one is left alone")
        load.end()
        harness.wait_until(lambda: "circuit_half_open" in map(state, faulty),
                           "it takes requests on trial")
        doubted, gone = sorted(faulty, key=lambda w: state(w) != "circuit_half_open")
        key = next(key for key, made in hook.engines.items() if made is gone)
        gone.kill()
        harness.wait_until(lambda: hook.ended, "one that is gone is given back")
        self.assertEqual(hook.ended, [key], "and the other one is not")
        self.assertEqual(state(doubted), "circuit_half_open")

    def hook_of_fakes(self, answer, model=MODEL):
        """A hook whose engines are FakeWorkers, and the list of those."""
        made = []

        def spawn(*_args):
            worker = FakeWorker(self, answer, models=(model,))
            worker.kill = worker.close
            made.append(types.SimpleNamespace(
                ready=True, fake=worker, url=lambda _kind: worker.url, kill=worker.close))
            return made[-1]

        hook = Provisioner(types.SimpleNamespace(spawn=spawn, addCleanup=self.addCleanup))
        hook.free.set()
        return hook, made

    def test_one_that_goes_is_drained_and_its_requests_are_answered(self):
        load, probes, one = Load(self), [], threading.Lock()
        came, held, free = threading.Event(), threading.Event(), threading.Event()

        def answer(peer, request):
            if request.target == "/own-health":
                return peer.answer(200)
            came.wait()
            if one.acquire(blocking=False):
                held.set()
                free.wait()
            peer.json({"choices": []})

        def answer_first(peer, request):
            if request.target == "/own-health":
                probes.append(request)
                return peer.answer(200)
            came.wait()
            peer.json({"choices": []})

        hook, made = self.hook_of_fakes(answer)
        first = FakeWorker(self, answer_first, models=(MODEL,))
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url,
                          *self.options(self.by_hook(hook), "--scale.max", "2",
                                        "--scale.provision", "10m", "--health.path", "/own-health"))
        self.addCleanup(free.set)
        self.addCleanup(came.set)
        load.nodes.append(node)
        load.want(8)
        harness.wait_until(lambda: self.states(node) == ["works"], "one came")
        came.set()
        harness.wait_until(held.is_set, "it has a request that lasts")
        load.want(0)

        def state():
            listed = harness.request(node.at("admin"), "GET", "/admin/workers").json()
            return {w["id"]: w["state"] for w in listed}.get(made[0].fake.id)

        harness.wait_until(lambda: self.states(node) != ["works"], "it is to go")
        # For longer than it has to be idle.
        seen = len(probes)
        harness.wait_until(lambda: len(probes) > seen + 30, "time passes")
        self.assertEqual((self.states(node), state(), hook.ended), (["drains"], "draining", []))
        free.set()
        harness.wait_until(lambda: hook.ended, "then it ends")
        load.end()
        self.assertEqual(load.failed, [])

    def test_an_engine_is_lost_when_no_node_reaches_it(self):
        blind, probes = set(), {"a": 0, "b": 0}

        def answer(peer, request):
            name = request.target.removeprefix("/health-")
            probes[name] += 1
            peer.answer(503 if name in blind else 200)

        hook, made = self.hook_of_fakes(answer)
        first = FakeWorker(self, lambda peer, _request: peer.answer(200), models=(MODEL,))
        nodes = {}
        for name in "ab":
            joins = [w for p in nodes.values() for w in ("--join", p.ready["mesh"])]
            nodes[name] = self.start(
                "kvasir", "serve", "--name", name, "--mesh", "127.0.0.1:0", *joins, "--worker",
                first.url, *self.options(self.by_hook(hook), "--scale.quorum", "2", "--scale.min",
                                         "2", "--scale.max", "2", "--scale.provision", "5s",
                                         "--health.path", f"/health-{name}"))

        def state(name):
            listed = harness.request(nodes[name].at("admin"), "GET", "/admin/workers").json()
            return {w["id"]: w["state"] for w in listed}.get(made[0].fake.id)

        harness.wait_until(lambda: all(self.states(p) == ["works"] for p in nodes.values()),
                           "one came")
        acts = harness.wait_until(lambda: [n for n, p in nodes.items() if self.told(p)["acts"]],
                                  "one node acts")[0]
        other = "b" if acts == "a" else "a"
        blind.add(acts)
        harness.wait_until(lambda: state(acts) == "unhealthy", "who acts does not reach it")
        # For longer than scale.provision.
        seen = probes[acts]
        harness.wait_until(lambda: probes[acts] > seen + 30, "time passes")
        self.assertEqual((hook.ended, state(other)), ([], "healthy"))
        self.assertEqual(self.states(nodes[acts]), ["works"])
        blind.add(other)
        harness.wait_until(lambda: hook.ended, "nobody reaches it: it is given back")
        blind.clear()
        harness.wait_until(lambda: all(self.states(p) == ["works"] for p in nodes.values()),
                           "another one came")

    def test_one_that_an_operator_drains_is_replaced_and_given_back(self):
        hook = Provisioner(self, options=ENGINE)
        hook.free.set()
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(self.by_hook(hook), "--scale.min", "2",
                                        "--scale.provision", "15s"))
        harness.wait_until(lambda: self.states(node) == ["works"], "one came")
        job = self.told(node)["jobs"][0]
        workers = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        self.assertEqual({w["from"]: w["id"] for w in workers}.get("scale rule"), job["worker"])
        answer = harness.request(node.at("admin"), "POST",
                                 f"/admin/workers/{job['worker']}/drain", {})
        self.assertEqual(answer.status, 200, answer.text)
        harness.wait_until(lambda: hook.ended == [job["key"]], "it is given back")
        harness.wait_until(lambda: self.states(node) == ["works"], "another one came")
        self.assertNotIn(job["key"], hook.engines)
        self.assertIn("scale_lost", node.log())

    def test_one_worker_is_no_two_engines(self):
        first, same = (FakeWorker(self, lambda peer, _request: peer.answer(200), models=(MODEL,))
                       for _ in range(2))
        made = types.SimpleNamespace(ready=True, url=lambda _kind: same.url, kill=lambda: None)
        hook = Provisioner(types.SimpleNamespace(spawn=lambda *_args: made,
                                                 addCleanup=self.addCleanup))
        hook.free.set()
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url,
                          *self.options(self.by_hook(hook), "--scale.min", "3",
                                        "--scale.provision", "10m"))
        harness.wait_until(lambda: "that of another key" in node.log(), "the second one is refused")
        harness.wait_until(lambda: self.states(node) == ["asked", "works"], "the first one works")
        self.assertEqual(len(hook.keys()), 2)

    def test_who_has_just_begun_counts_an_engine_that_does_not_answer_it(self):
        hook = Provisioner(self, options=ENGINE)
        hook.free.set()
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        how = ("--name", "n", "--worker", first.url("http"), "--data", self.folder / "data",
               *self.options(self.by_hook(hook), "--scale.min", "2", "--scale.provision", "10m"))
        node = self.start("kvasir", "serve", *how)
        harness.wait_until(lambda: self.states(node) == ["works"], "one came")
        node.stop()
        engine = hook.engines[hook.keys()[0]]
        os.kill(engine.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, engine.pid, signal.SIGCONT)
        node = self.start("kvasir", "serve", *how)

        told = harness.wait_until(
            lambda: (told := self.told(node))["acts"] and told["groups"] and told, "it acts")
        self.assertEqual([job["state"] for job in told["jobs"]], ["works"])
        self.assertEqual([(g["engines"], g["ready"]) for g in told["groups"]], [(2, 1)])

    def test_engines_of_a_pool_that_is_taken_out_stay_until_it_is_back(self):
        hook, file = Provisioner(self, options=ENGINE), self.folder / "kvasir.yaml"
        token = self.folder / "token"
        token.write_text(TOKEN)
        pool = f"p,hook={hook.url},token_file={token}"
        hook.free.set()
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)

        def write(pools, least):
            file.write_text(f"scale: {{min: {least}, pools: '{pools}'}}\n")

        def reload():
            answer = harness.request(node.at("admin"), "POST", "/admin/reload", {})
            self.assertEqual(answer.status, 200, answer.text)

        def shown():
            group = self.told(node)["groups"]
            return (group[0]["desired"], group[0]["victim"]) if group else None

        write(pool, 2)
        node = self.start("kvasir", "serve", "-c", file, "--name", "n", "--worker",
                          first.url("http"), *self.options((), "--scale.provision", "10m"))
        harness.wait_until(lambda: self.states(node) == ["works"], "one came")
        self.assertEqual(self.told(node)["jobs_without_pool"], 0)
        write("q,hook=http://127.0.0.1:9/engines", 1)
        reload()
        harness.wait_until(lambda: self.told(node)["jobs_without_pool"] == 1, "it is told")
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_scale_jobs_without_pool"), 1)
        self.assertIn("scale_pool_gone", node.log())
        harness.wait_until(lambda: shown() == (1, ""), "none may go though one is enough")
        self.assertEqual((self.states(node), hook.ended), (["works"], []))
        write(pool + ",max=0", 1)
        reload()
        harness.wait_until(lambda: hook.ended, "it can be ended again")
        harness.wait_until(lambda: self.states(node) == [], "and is")
        self.assertEqual([p["may"] for p in self.told(node)["groups"][0]["pools"]], ["full"])
        self.assertEqual(len(hook.keys()), 1)

    def test_a_program_does_what_a_hook_does(self):
        hook, load = Provisioner(self, options=ENGINE), Load(self)
        hook.free.set()
        program = self.program(PROGRAM.replace("URL", hook.url))
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(("--scale.command", program), "--scale.max", "2",
                                        "--scale.provision", "2m"),
                          env={"ENGINE_KEY": "of another time", "ENGINE_ROOM": "kept"},
                          before=(sys.executable, "-c", "import os, signal, sys;"
                                  "signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
                                  "os.execv(sys.argv[1], sys.argv[1:])"))
        load.nodes.append(node)
        hook.deaf = True
        load.want(8)
        harness.wait_until(
            lambda: harness.metric(node.at("admin"), "kvasir_scale_calls_failed_total") >= 2,
            "an exit code is a refusal")
        hook.deaf = False
        harness.wait_until(lambda: self.states(node) == ["works"], "it came")
        told = self.told(node)
        self.assertEqual((told["by"], told["jobs"][0]["number"]), ("scale.command", 0))
        harness.wait_until(lambda: len(load.workers) == 2, "and takes requests")
        shown = harness.request(node.at("admin"), "POST", "/admin/explain", {
            "model": MODEL, "messages": [{"role": "user", "content": "hello"}]}).json()["scale"]
        self.assertEqual((shown["engines"], shown["actor"]), (2, "n"))
        load.want(0)
        harness.wait_until(lambda: self.states(node) == [], "it is given back")
        load.end()
        self.assertEqual((load.failed, hook.engines, hook.wrong), ([], {}, []))
        self.assertEqual(hook.keys(), hook.keys("terminate"))
        self.assertEqual({c["by"] for c in hook.calls}, {"n"})
        self.assertEqual({c["model"] for c in hook.calls}, {MODEL})
        self.assertIn("status 500", node.log())
        self.assertNotIn("and more", node.log())

    def test_a_model_has_a_long_name(self):
        # Engines that were given none list the path of their files.
        model = f"/models/hub/models--org--{'a-long-name-' * 10}/snapshots/{'0' * 40}"
        hook, _made = self.hook_of_fakes(lambda peer, _request: peer.answer(200), model)
        first = FakeWorker(self, lambda peer, _request: peer.answer(200), models=(model,))
        program = self.program(PROGRAM.replace("URL", hook.url))
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url,
                          *self.options(("--scale.command", program), "--scale.min", "2",
                                        "--scale.max", "2"), env={"ENGINE_ROOM": "kept"})
        harness.wait_until(lambda: self.states(node) == ["works"], "one came")
        self.assertEqual({c["model"] for c in hook.calls}, {model})
        shown = harness.request(node.at("admin"), "POST", "/admin/explain", {
            "model": model, "messages": [{"role": "user", "content": "hello"}]}).json()
        self.assertIn("scale", shown)

    def test_what_a_pool_does_not_deliver_is_asked_for_in_the_next(self):
        hooks = {"cheap": Provisioner(self, never=1000), "dear": Provisioner(self, options=ENGINE),
                 "moon": Provisioner(self)}
        load, pools = Load(self), []
        for (name, hook), where in zip(hooks.items(), ("price=1,island=here", "price=3,max=2,island=there",
                                                       "price=0.5,island=moon")):
            hook.free.set()
            program = self.program(PROGRAM.replace("URL", hook.url), name)
            pools.append(f"{name},command={program},{where}")
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(("--scale.pools", " ".join(pools)), "--scale.max", "2",
                                        "--scale.provision", "15s", "--scale.within", "50ms",
                                        "--island.name", "here", "--island.links",
                                        "here~there=20ms here~moon=500ms"),
                          env={"ENGINE_ROOM": "kept"})
        load.nodes.append(node)
        load.want(8)
        harness.wait_until(lambda: self.states(node) == ["works"], "one came")
        self.assertEqual({c["pool"] for c in hooks["cheap"].calls}, {"cheap"})
        self.assertEqual({c["pool"] for c in hooks["dear"].calls}, {"dear"})
        self.assertEqual(hooks["moon"].calls, [], "it is too far")
        told = self.told(node)
        self.assertEqual((told["by"], told["jobs"][0]["pool"]), ("scale.pools", "dear"))
        worker = next(w for w in harness.request(node.at("admin"), "GET", "/admin/workers").json()
                      if w["id"] == told["jobs"][0]["worker"])
        self.assertEqual(worker["labels"], {"island": "there", "pool": "dear"})
        harness.wait_until(lambda: len(load.workers) == 2, "and takes requests")

        def rows_told():
            shown = harness.request(node.at("admin"), "POST", "/admin/explain", {
                "model": MODEL, "messages": [{"role": "user", "content": "hello"}]}).json()
            rows = {row["name"]: row for row in shown["scale"]["pools"]}
            return rows if rows["dear"]["engines"] == 1 else None

        rows = harness.wait_until(rows_told, "a look has seen it")
        self.assertEqual(rows["moon"]["may"], "far")
        self.assertEqual((rows["cheap"]["missed"], rows["cheap"]["way_ms"]), (1, 0))
        self.assertEqual((rows["dear"]["engines"], rows["dear"]["missed"], rows["dear"]["way_ms"]),
                         (1, 0, 20))
        found = harness.metrics(node.at("admin"))
        self.assertEqual(found['kvasir_scale_pool_missed{pool="cheap"}'], 1)
        self.assertEqual(found[f'kvasir_scale_pool_engines{{model="{MODEL}",pool="dear"}}'], 1)
        page = self.run_once("kvasir", "status", "--admin", node.ready["admin"]).stdout
        self.assertIn("\nPOOL", page)
        harness.wait_until(lambda: list(hooks["cheap"].ended), "what did not come is given back")
        load.want(0)
        harness.wait_until(lambda: self.states(node) == [], "and what came, too")
        load.end()
        self.assertEqual((load.failed, hooks["dear"].engines), ([], {}))
        self.assertEqual([h.wrong for h in hooks.values()], [[], [], []])

    def test_a_program_that_hangs_is_killed_and_nobody_waits_for_it(self):
        load, pids = Load(self), self.folder / "pids"
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(("--scale.command",
                                         self.program(STUCK.replace("PIDS", str(pids)))),
                                        "--scale.max", "2", "--scale.provision", "10s"))
        load.nodes.append(node)
        load.want(8)
        found = harness.wait_until(lambda: pids.exists() and pids.read_text().split(), "it runs")
        self.assertEqual(self.states(node), ["asked"])  # nobody waits
        harness.wait_until(lambda: not any(runs(p) for p in found), "it and its child are killed")
        harness.wait_until(
            lambda: harness.metric(node.at("admin"), "kvasir_scale_calls_failed_total") >= 1,
            "which is a failure")
        harness.wait_until(lambda: "its time was over" in node.log(), "and is told")
        # Those that run when the node stops are told to end.
        found = harness.wait_until(lambda: [p for p in pids.read_text().split() if runs(p)][1:],
                                   "another one runs")
        load.end()
        node.stop()
        harness.wait_until(lambda: not any(runs(p) for p in found), "none is left")

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("unshare"), "no root, or no unshare")
    def test_as_first_process_of_a_container_it_keeps_no_zombies_of_programs(self):
        pids = self.folder / "pids"
        engine = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", engine.url("http"),
                          *self.options(("--scale.command",
                                         self.program(LEAVING.replace("PIDS", str(pids)))),
                                        "--scale.min", "3", "--scale.provision", "1m"),
                          before=("unshare", "--pid", "--fork", "--kill-child"))
        first, = children(node.pid)
        harness.wait_until(lambda: pids.exists() and len(pids.read_text().split()) == 2,
                           "both programs left something behind")
        harness.wait_until(lambda: len(children(first)) == 1, "the node alone is left")
        os.kill(int(first), signal.SIGTERM)
        self.assertEqual(node.wait(), 0)

    def stateful_set(self, **more):
        """Pods that are stand-in engines, where each is, and the options of a node for them."""
        hosts = [f"127.0.7.{n}" for n in range(6)]
        port = free_port(*hosts)

        def make(number):
            return self.spawn("kvasir-engine", "--host", hosts[number], "--port", str(port),
                              *ENGINE)

        account = self.folder / "account"
        account.mkdir()
        (account / "token").write_text("let-me\n")
        (account / "namespace").write_text("ml\n")
        api = KubeApi(self, token="let-me")
        pods = StatefulSet(api, "ml", "vllm", make, **more)
        return pods, [f"{host}:{port}" for host in hosts], (
            "--scale.kubernetes", "vllm", "--scale.worker", f"http://127.0.7.{{}}:{port}",
            "--scale.provision", "2m", "--kubernetes.api", api.url,
            "--kubernetes.dir", str(account))

    def test_pods_of_a_stateful_set_come_and_the_last_goes_first(self):
        pods, places, options = self.stateful_set(replicas=1)
        pods.rivals = 1
        load = Load(self)
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(options))
        load.nodes.append(node)
        load.want(12)
        harness.wait_until(lambda: self.states(node) == ["works", "works"], "both came")
        self.assertEqual(pods.history, [2], "the pod that was there already is taken in")
        self.assertEqual(sorted((j["number"], j["worker"]) for j in self.told(node)["jobs"]),
                         [(n, places[n]) for n in (0, 1)])
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_scale_calls_failed_total"), 1,
                         "what somebody else changed meanwhile is read again")
        harness.wait_until(lambda: len(load.workers) == 3, "all take requests")
        # What somebody else made is not ended.
        with pods.lock:
            pods.set(3, more_pods=False)
        load.want(0)
        harness.wait_until(lambda: "who else scales it" in node.log(), "it is told")
        self.assertEqual((pods.history, self.states(node)), ([2], ["ends", "works"]))
        with pods.lock:
            pods.set(2)
        harness.wait_until(lambda: self.states(node) == [], "both are given back")
        load.end()
        self.assertEqual((load.failed, pods.history), ([], [2, 1, 0]))

    def test_a_pod_that_cannot_end_any_more_works_again(self):
        self.cross("before_fewer", [3])

    def test_a_pod_that_comes_again_is_not_left_alone(self):
        self.cross("after_fewer", [1, 3])

    def cross(self, how, history):
        """The call that ends a pod is applied, or answered, once another one is there."""
        pods, _, options = self.stateful_set(replicas=2)
        waits, grown, load = threading.Event(), threading.Event(), Load(self)
        self.addCleanup(grown.set)

        def wait():
            waits.set()
            grown.wait()

        setattr(pods, how, wait)
        first = self.start("kvasir-engine", "--port", "0", *ENGINE)
        node = self.start("kvasir", "serve", "--name", "n", "--worker", first.url("http"),
                          *self.options(options))
        load.nodes.append(node)
        load.want(12)
        harness.wait_until(lambda: self.states(node) == ["works", "works"], "both came")
        load.want(0)
        harness.wait_until(waits.is_set, "the last one is to end")
        load.want(12)
        harness.wait_until(lambda: pods.replicas == 3, "another one is asked for")
        self.assertEqual(pods.history, history)
        grown.set()
        harness.wait_until(lambda: self.states(node) == ["works"] * 3,
                           "the one that was to end works again")
        load.want(0)
        harness.wait_until(lambda: self.states(node) == [] and not pods.replicas,
                           "all are given back")
        load.end()
        self.assertEqual(load.failed, [])
        self.assertNotIn("who else scales it", node.log())

    def test_the_words_of_the_features_page_bring_engines_and_give_them_back(self):
        first, hook, serve, admin = (free_port("127.0.0.1") for _ in range(4))
        started, log = words.begin(self, "kvasir engine --port 8001", serve, (
            ("8001", str(first)), ("7000", str(hook)),
            ("cool_down 30s", f"cool_down 1s --listen 127.0.0.1:{serve} --admin 127.0.0.1:{admin}"),
            ("tests/integration/", str(pathlib.Path(__file__).parent) + "/")))
        at = ("127.0.0.1", admin)

        def jobs():
            try:
                told = harness.request(at, "GET", "/admin/scale").json()
            except OSError:
                return None  # it has not begun
            return [job["state"] for job in told["jobs"]]

        harness.wait_until(lambda: jobs() == ["works", "works"], "two come", 120)
        provisioner = next(p.pid for p in started if "provisioner" in p.args[0])
        self.assertEqual(len(children(provisioner)), 2)
        self.assertEqual(started.pop().wait(), 0, "people are done")
        harness.wait_until(lambda: jobs() == [], "both are given back", 120)
        harness.wait_until(lambda: not children(provisioner), "and have ended")
        words.end(self, started, log)
        self.assertIn("384 answered, 0 failed", log.read_text())

    def test_who_acts_needs_somebody_to_ask_and_in_a_mesh_a_quorum(self):
        hook = ("--scale.hook", "http://h:1")
        kube = ("--scale.kubernetes", "ml/vllm")
        one_of = "act needs one of scale.hook, scale.command, scale.kubernetes and scale.pools"
        for options, fault in (((), one_of), ((*hook, "--scale.command", "/x"), one_of),
                               ((*kube, "--scale.worker", "http://v:1"), "with {} where"),
                               ((*kube, "--scale.worker", "h-{}"), "scale.worker"),
                               (("--scale.kubernetes", "a/b/c", "--scale.worker", "http://v{}"),
                                "expected the name of a StatefulSet"),
                               ((*hook, "--mesh", "127.0.0.1:0"),
                                "act in a mesh needs scale.quorum")):
            told = self.run_once("kvasir", "check", "--scale.mode", "act", *options)
            self.assertNotEqual(told.returncode, 0, options)
            self.assertIn(fault, told.stdout + told.stderr)
        told = self.run_once("kvasir", "check", "--scale.mode", "act", *kube, "--scale.worker",
                             "http://vllm-{}.vllm.ml:8000,events=tcp://vllm-{}.vllm.ml:5557,"
                             "replay=tcp://vllm-{}.vllm.ml:5657")
        self.assertEqual(told.returncode, 0, told.stdout + told.stderr)


if __name__ == "__main__":
    harness.main(at_once=12)  # they wait for looks, and for engines to be idle
