"""How many engines there should be: judged by what engines and clients show, told in every place,
logged by one node of a mesh. Nothing is done."""
import harness
from fake_worker import FakeWorker
from test_proxy import Proxy

FAST = ("--health.interval", "200ms", "--health.timeout", "200ms", "--health.metrics_interval",
        "50ms", "--scale.provision", "1s", "--scale.cool_down", "1s")


def show(worker, running, waiting, usage=0.1):
    worker.metrics = (f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
                      f"vllm:kv_cache_usage_perc {usage}\n").encode()


class Scale(Proxy):
    def workers(self, count):
        return [FakeWorker(self, lambda peer, request: peer.json({})) for _ in range(count)]

    def judged(self, node, until, what):
        """The only group, once it is as it should be."""
        def look():
            told = harness.request(node.at("admin"), "GET", "/admin/scale").json()
            return told["groups"][0] if told["groups"] and until(told["groups"][0]) else None
        return harness.wait_until(look, what)

    def test_what_waits_asks_for_engines_and_idleness_gives_one_back(self):
        workers = self.workers(2)
        for worker in workers:
            show(worker, running=4, waiting=4)
        node = self.serve(*workers, options=("--scale.mode", "dry_run", *FAST))
        group = self.judged(node, lambda g: g["desired"] == 4, "twice as much is asked for")
        self.assertEqual((group["model"], group["engines"], group["ready"], group["needed"]),
                         ("m", 2, 2, 4))
        self.assertIn(group["why"], ("queue", "coming"))
        self.assertEqual(group["victim"], "")
        harness.wait_until(lambda: "scale_wants" in node.log(), "it is logged")
        found = harness.metrics(node.at("admin"))
        self.assertEqual(found['kvasir_scale_engines_desired{model="m"}'], 4)
        self.assertEqual(harness.metric(node.at("admin"), "kvasir_scale_acts"), 1)
        page = self.run_once("kvasir", "status", "--admin", node.ready["admin"]).stdout
        self.assertIn("SCALE OF", page)
        for worker in workers:
            show(worker, running=0, waiting=0)
        group = self.judged(node, lambda g: g["desired"] == 1, "one is enough")
        self.assertEqual(group["why"], "idle")
        self.assertIn(group["victim"], [w.id for w in workers])
        status = harness.request(node.at("admin"), "GET", "/admin/status").json()
        self.assertEqual(status["scale"]["mode"], "dry_run")
        # Nothing was done.
        self.assertEqual(self.eligible(node), 2)

    def test_a_budget_is_not_exceeded_and_nothing_is_taken_for_it(self):
        workers = self.workers(2)
        for worker in workers:
            show(worker, running=4, waiting=40)
        node = self.serve(*workers, options=("--scale.mode", "dry_run", "--scale.price", "2.5",
                                             "--scale.budget", "4", *FAST))
        # What runs at an engine and is nobody's counts once two scrapes have seen it.
        group = self.judged(node, lambda g: (g["requests"], g["waiting"]) == (88, 80),
                            "it is measured")
        self.assertEqual((group["desired"], group["why"]), (2, "budget"))

    def test_it_is_off_unless_it_is_asked_for(self):
        node = self.serve(*self.workers(1))
        told = harness.request(node.at("admin"), "GET", "/admin/scale").json()
        self.assertEqual((told["mode"], told["actor"], told["groups"]), ("off", "", []))
        self.assertFalse([n for n in harness.metrics(node.at("admin")) if "scale" in n])

    def test_of_a_mesh_one_acts_and_another_when_it_is_gone(self):
        worker, nodes = self.workers(1)[0], {}
        show(worker, running=1, waiting=9)
        join = ()
        for name in ("a", "b"):
            nodes[name] = self.start(
                "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--mesh",
                "127.0.0.1:0", *join, "--name", name, "--worker", worker.url,
                "--scale.mode", "dry_run", *FAST)
            join = ("--join", nodes[name].ready["mesh"])

        def told():
            return {n: harness.request(p.at("admin"), "GET", "/admin/scale").json()
                    for n, p in nodes.items()}

        seen = harness.wait_until(
            lambda: (lambda t: t if len({v["actor"] for v in t.values()}) == 1
                     and all(v["actor"] and v["groups"] for v in t.values())
                     and sum(v["acts"] for v in t.values()) == 1 else None)(told()),
            "both name the same one")
        first = seen["a"]["actor"]
        self.assertEqual([n for n, v in seen.items() if v["acts"]], [first])
        nodes.pop(first).kill()
        other = next(iter(nodes))
        harness.wait_until(lambda: told()[other]["actor"] == other and told()[other]["acts"],
                           "the other one acts now")
        harness.wait_until(lambda: "scale_wants" in nodes[other].log(), "and says so")


if __name__ == "__main__":
    harness.main()
