"""How many engines there should be: judged by what engines and clients show, told in every place,
logged by one node of a mesh. Nothing is done."""
import socket
import threading

import harness
from fake_worker import FakeWorker
from test_proxy import Proxy, chat, request_bytes

FAST = ("--health.interval", "200ms", "--health.timeout", "200ms", "--health.metrics_interval",
        "50ms", "--scale.provision", "1s", "--scale.cool_down", "1s")


def show(worker, running, waiting, usage=0.1):
    worker.metrics = (f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
                      f"vllm:kv_cache_usage_perc {usage}\n").encode()


class Scale(Proxy):
    def workers(self, count):
        return [FakeWorker(self, lambda peer, request: peer.json({})) for _ in range(count)]

    def judged(self, node, until, what):
        """The group of m, once it is as it should be."""
        def look():
            told = harness.request(node.at("admin"), "GET", "/admin/scale").json()
            found = [g for g in told["groups"] if g["model"] == "m" and until(g)]
            return found[0] if found else None
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

    def test_one_that_waits_long_asks_for_an_engine_though_others_are_idle(self):
        free = threading.Event()
        self.addCleanup(free.set)

        def answer(peer, _request):
            free.wait()
            peer.json({"choices": []})

        both = [FakeWorker(self, answer, models=models) for models in (("m",), ("m", "n"))]
        node = self.serve(*both, options=(
            "--scale.mode", "dry_run", "--workers.max_inflight", "4", "--timeouts.queue", "24s",
            *FAST))
        for _ in range(5):
            s = self.connect()
            s.sendall(request_bytes({**chat("long"), "model": "n"}))
        group = self.judged(node, lambda g: g["waited_ms"] > 0, "it waits")
        self.assertEqual(group["desired"], 2)
        group = self.judged(node, lambda g: g["desired"] == 3, "another one is asked for")
        self.assertIn(group["why"], ("wait", "coming"))
        self.assertGreaterEqual(group["waited_ms"], 12000)

    def test_engines_are_bought_where_nodes_get_requests(self):
        worker, nodes, join = self.workers(1)[0], [], ()
        show(worker, running=4, waiting=9)
        for island in ("here", "there"):
            nodes.append(self.start(
                "kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--mesh",
                "127.0.0.1:0", *join, "--name", island, "--island.name", island, "--worker",
                worker.url, "--scale.mode", "dry_run", "--scale.within", "20ms",
                "--island.links", "here~there=90ms", "--scale.pools",
                "near,command=/a,island=here,price=1 far,command=/a,island=there,price=2", *FAST))
            join = ("--join", nodes[0].ready["mesh"])

        def bought(asked):
            for _ in range(5):
                harness.request(asked.at("serve"), "POST", "/v1/chat/completions", {
                    "model": "m", "messages": [{"role": "user", "content": "hello"}]})
            groups = [harness.request(node.at("admin"), "GET", "/admin/scale").json()["groups"]
                      for node in nodes]
            return [group[0]["next_pool"] if group else "" for group in groups]

        harness.wait_until(lambda: bought(nodes[1]) == ["far", "far"], "the dear one is there")
        harness.wait_until(lambda: bought(nodes[0]) == ["near", "near"], "now it is here", 60)
        harness.wait_until(lambda: any("pool=near" in node.log() or '"pool":"near"' in node.log()
                                       or "pool=far" in node.log() or '"pool":"far"' in node.log()
                                       for node in nodes), "it is logged")

    def test_an_island_whose_engines_do_not_answer_is_no_near_one(self):
        worker, gone = self.workers(1)[0], socket.socket()
        self.addCleanup(gone.close)
        gone.bind(("127.0.0.1", 0))  # nobody listens
        show(worker, running=4, waiting=9)
        far = f"http://127.0.0.1:{gone.getsockname()[1]},island=there"
        node = self.serve(worker, far, options=(
            "--scale.mode", "dry_run", "--island.name", "here", "--scale.within", "20ms",
            "--scale.pools",
            "near,command=/a,island=here,price=2 far,command=/a,island=there,price=1", *FAST))
        group = self.judged(node, lambda g: g["requests"] > 0, "it is measured")
        self.assertEqual([(p["name"], p["may"]) for p in group["pools"]],
                         [("near", "open"), ("far", "far")])
        self.assertEqual(group["next_pool"], "near")
        told = harness.request(node.at("admin"), "GET", "/admin/scale").json()
        self.assertEqual([g["model"] for g in told["groups"]], ["m"])

    def test_a_pool_has_its_min_and_is_not_spared_for_others(self):
        workers = self.workers(2)
        for worker in workers:
            show(worker, running=0, waiting=0)
        node = self.serve(*(f"{w.url},pool=a" for w in workers), count=2, options=(
            "--scale.mode", "dry_run", "--scale.pools",
            "a,command=/a,price=2,min=1 b,command=/a,price=1,min=2", *FAST))
        group = self.judged(node, lambda g: g["why"] == "least", "b has too few")
        self.assertEqual((group["desired"], group["next_pool"]), (4, "b"))
        self.assertEqual([(p["name"], p["engines"], p["may"]) for p in group["pools"]],
                         [("a", 2, "open"), ("b", 0, "least")])

    def test_a_pool_for_each_island_bounds_what_each_has(self):
        workers = self.workers(3)
        for worker in workers:
            show(worker, running=4, waiting=40)
        bounds = ("--scale.mode", "dry_run", "--island.name", "eu", "--scale.within", "20ms",
                  "--island.links", "eu~us=90ms", "--scale.pools",
                  "eu,command=/a,island=eu,min=1,max=2 us,command=/a,island=us,min=1,max=1", *FAST)

        def told(*pools):
            node = self.serve(*(f"{w.url},pool={pool},island={pool}" for w, pool in zip(workers, pools)),
                              count=len(pools), options=bounds)
            group = self.judged(node, lambda g: g["waiting"] == 40 * len(pools), "it is measured")
            return (group["desired"], group["why"], group["next_pool"],
                    [(p["name"], p["engines"], p["may"]) for p in group["pools"]])

        self.assertEqual(told("eu"), (2, "least", "us", [("eu", 1, "open"), ("us", 0, "least")]))
        self.assertEqual(told("eu", "us", "eu"), (3, "pools", "", [("eu", 2, "full"), ("us", 1, "full")]))

    def test_engines_of_a_pool_that_is_given_up_go_first(self):
        workers = self.workers(2)
        for worker in workers:
            show(worker, running=0, waiting=0)
        node = self.serve(f"{workers[0].url},pool=old", f"{workers[1].url},pool=dear", count=2, options=(
            "--scale.mode", "dry_run", "--scale.pools",
            "old,command=/a,price=1,max=0 dear,command=/a,price=9", *FAST))
        group = self.judged(node, lambda g: g["desired"] == 1, "one is enough")
        self.assertEqual(group["victim"], workers[0].id)

    def test_the_last_engine_that_is_drained_leaves_too_few(self):
        worker = self.workers(1)[0]
        node = self.serve(worker, options=("--scale.mode", "dry_run", *FAST))
        self.judged(node, lambda g: g["engines"] == 1, "it is judged")
        answer = harness.request(node.at("admin"), "POST", f"/admin/workers/{worker.id}/drain", {})
        self.assertEqual(answer.status, 200, answer.text)
        group = self.judged(node, lambda g: g["engines"] == 0, "it counts no more")
        self.assertEqual((group["desired"], group["why"], group["victim"]), (1, "least", ""))
        harness.request(node.at("admin"), "DELETE", f"/admin/workers/{worker.id}")
        harness.wait_until(lambda: not harness.request(
            node.at("admin"), "GET", "/admin/scale").json()["groups"], "it is not wanted any more")

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
