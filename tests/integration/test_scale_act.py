"""Engines that are asked for and given back, by stand-in engines and what starts them
(provisioner.py): who asks, whose they are when that node dies, what becomes of those that
do not come, and that no request notices."""
import threading

import harness
from provisioner import TOKEN, Provisioner

MODEL = "kvasir/stand-in"
ENGINE = ("--max-running", "4")


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
    def options(self, hook, *more):
        token = self.folder / "token"
        token.write_text(TOKEN + "\n")
        return ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--lanes", "1",
                "--placement-headers", "on", "--workers.max_inflight", "4",
                "--health.interval", "200ms", "--health.timeout", "200ms",
                "--health.metrics_interval", "50ms", "--scale.mode", "act",
                "--scale.hook", hook.url, "--scale.token_file", str(token),
                "--scale.max", "3", "--scale.cool_down", "1s", *more)

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
                                         hook, "--scale.quorum", "2", "--scale.provision", "2m"))
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
        start(killed)  # none ends before all nodes have seen it drain
        load.want(1)
        harness.wait_until(lambda: not hook.engines, "both are given back", 90)
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
                          *self.options(hook, "--scale.max", "2", "--scale.provision", "3s"))
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

    def test_who_acts_needs_a_hook_and_in_a_mesh_a_quorum(self):
        for options, fault in (((), "act needs scale.hook"),
                               (("--scale.hook", "http://h:1", "--mesh", "127.0.0.1:0"),
                                "act in a mesh needs scale.quorum")):
            told = self.run_once("kvasir", "check", "--scale.mode", "act", *options)
            self.assertNotEqual(told.returncode, 0)
            self.assertIn(fault, told.stdout + told.stderr)


if __name__ == "__main__":
    harness.main()
