"""Models chosen by what a request says: which engine gets it, what is told of it, and rules that
change while a node runs."""
import json
import signal
import socket
import threading
import types

import harness
from fake_worker import FakeWorker

CHAT = "/v1/chat/completions"
RULES = {"auto": {"model": "small", "rules": [
    {"name": "tools", "has": ["tools"], "model": "agent"},
    {"name": "math", "words": ["prove"], "model": "big",
     "set": {"reasoning_effort": "high", "chat_template_kwargs": '{"enable_thinking": true}'}},
    {"name": "german", "languages": ["de"], "model": "spread"}]}}
TOOL = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Rig(harness.Case):
    def setUp(self):
        super().setUp()
        self.workers = {name: self.worker(name) for name in ("small", "agent", "big", "b")}
        self.rules = self.folder / "content.yaml"
        self.rules.write_text(json.dumps(RULES))

    def worker(self, name):
        return FakeWorker(self, lambda peer, request: peer.json(
            {"model": json.loads(request.body)["model"] if request.body.startswith(b"{") else name,
             "choices": []}), models=[name])

    def node(self, *more):
        workers = [flag for worker in self.workers.values() for flag in ("--worker", worker.url)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--content.file", self.rules, "--aliases", "spread=b,fallback=small",
                          *workers, *more)
        harness.wait_until(lambda: all(row["eligible"] for row in harness.request(
            node.at("admin"), "GET", "/admin/workers").json()), "the workers are up")
        return node

    def ask(self, node, text, **more):
        return harness.request(node.at("serve"), "POST", CHAT, {
            "messages": [{"role": "user", "content": text}], "model": "auto", **more})

    def served(self, node, text, **more):
        answer = self.ask(node, text, **more)
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(answer.headers["x-kvasir-model"], answer.json()["model"])
        return answer.json()["model"]

    def counted(self, node):
        return {key.partition('rule="')[2].strip('"}'): value
                for key, value in harness.metrics(node.at("admin")).items()
                if key.startswith("kvasir_content_requests_total")}


class Content(Rig):
    def test_the_first_rule_that_fits_chooses_the_engine(self):
        node = self.node()
        self.assertEqual(self.served(node, "hello"), "small")
        self.assertEqual(self.served(node, "hello, prove it", tools=TOOL), "agent")
        self.assertEqual(self.served(node, "Wie ist das Wetter?"), "b")
        self.assertEqual(self.served(node, "Prove it."), "big")
        self.assertEqual(self.ask(node, "Prove it.", model="small").json()["model"], "small")
        self.assertEqual(self.counted(node), {"tools": 1, "math": 1, "german": 1, "none": 1})

    def test_a_conversation_stays_where_its_first_message_sent_it(self):
        node = self.node()
        turns = [{"role": "user", "content": "Please prove it."},
                 {"role": "assistant", "content": "It is so."},
                 {"role": "user", "content": "Thanks."}]
        self.assertEqual(self.served(node, "", messages=turns[:1]), "big")
        self.assertEqual(self.served(node, "", messages=turns), "big")

    def test_members_are_set_and_the_clients_own_are_left(self):
        node = self.node()
        self.served(node, "prove it", metadata={"a": "b"})
        self.assertEqual(self.workers["big"].requests[-1].json(), {
            "messages": [{"role": "user", "content": "prove it"}], "model": "big",
            "metadata": {"a": "b"}, "reasoning_effort": "high",
            "chat_template_kwargs": {"enable_thinking": True}})
        self.served(node, "prove it", reasoning_effort="low")
        self.assertEqual(self.workers["big"].requests[-1].json()["reasoning_effort"], "low")

    def test_a_form_gets_the_model_where_no_rule_fits(self):
        node = self.node()
        for size in (1, 100000):  # one that others of its size go on while they come
            body = (b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nauto\r\n'
                    b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
                    + b"prove" * size + b"\r\n--x--\r\n")
            answer = harness.request(node.at("serve"), "POST", "/v1/audio/transcriptions", body,
                                     {"content-type": "multipart/form-data; boundary=x"})
            self.assertEqual(answer.status, 200, answer.text)
            self.assertEqual(self.workers["small"].requests[-1].body,
                             body.replace(b"auto", b"small", 1))

    def test_the_list_of_models_has_the_name(self):
        node = self.node()
        models = {m["id"]: m for m in harness.request(node.at("serve"), "GET",
                                                      "/v1/models").json()["data"]}
        self.assertEqual(sorted(models), ["agent", "auto", "b", "big", "small", "spread"])
        self.assertEqual(models["auto"], {**models["small"], "id": "auto"})
        one = harness.request(node.at("serve"), "GET", "/v1/models/auto")
        self.assertEqual(one.json(), models["auto"])

    def test_explain_says_which_rule_and_why(self):
        node = self.node()
        body = {"model": "auto", "messages": [{"role": "user", "content": "Wie ist das Wetter?"}]}
        got = harness.request(node.at("admin"), "POST", "/admin/explain", body).json()
        self.assertEqual((got["model"], got["alias"], got["models"]),
                         ("b", "spread", ["b", "small"]))
        self.assertEqual({k: got["content"][k] for k in ("name", "rule", "model", "language",
                                                         "has")},
                         {"name": "auto", "rule": "german", "model": "spread", "language": "de",
                          "has": []})
        self.assertEqual(got["worker"], self.workers["b"].id)
        self.assertEqual(self.counted(node)["german"], 0)

    def test_rules_are_read_again_with_the_configuration(self):
        node = self.node()
        self.assertEqual(self.served(node, "hello"), "small")
        changed = json.loads(json.dumps(RULES))
        changed["auto"]["model"] = "agent"
        self.rules.write_text(json.dumps(changed))
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.served(node, "hello") == "agent", "the rules are new")
        self.rules.write_text("auto: 7")
        answer = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(answer.status, 400, answer.text)
        self.assertIn("content.yaml:1:7", answer.text)
        self.assertEqual(self.served(node, "hello"), "agent")

    def test_route_test_judges_requests_without_a_node(self):
        labelled = [
            {"model": "auto", "prompt": "prove it", "expected": "math"},
            {"prompt": "Wie ist das Wetter?", "expected": "spread"},
            {"model": "other", "prompt": "hello", "expected": "none"},
            {"model": "auto", "prompt": "hello"}]
        run = self.run_once("kvasir", "route-test", "--rules", self.rules,
                            stdin="\n".join(map(json.dumps, labelled)))
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("3 of 3 as expected (100.0 %)", run.stdout)
        labelled.append({"prompt": "hello", "expected": "math"})
        run = self.run_once("kvasir", "route-test", "--rules", self.rules,
                            stdin="\n".join(map(json.dumps, labelled)))
        self.assertEqual(run.returncode, 1)
        self.assertIn("line 5: none (small), expected math", run.stdout)
        run = self.run_once("kvasir", "route-test", "--rules", self.rules, stdin="{]")
        self.assertEqual(run.returncode, 2)
        self.assertIn("line 1, byte 1", run.stderr)


LIKE = {"auto": {"model": "small", "rules": [
    {"name": "tools", "has": ["tools"], "model": "agent"},
    {"name": "sums", "like": ["How many apples are left over?", "How much is it in total?"],
     "model": "big"},
    {"name": "trips", "like": ["Which sights are there in Rome?", "When does the train to Rome leave?"],
     "model": "b"}]}}
SUM = "How many pears are left over in total?"
TRIP = "Which trains are there to Rome?"


class Like(Rig):
    """Rules with examples, with vectors of the stand-in engine, or of one that is late."""
    NEAR = ("--content.embeddings_model", "e", "--content.embeddings_wait", "10s")

    def setUp(self):
        super().setUp()
        self.rules.write_text(json.dumps(LIKE))

    def engine(self):
        engine = self.start("kvasir-engine", "--port", "0", "--model", "e")
        self.workers["e"] = types.SimpleNamespace(url=engine.url("http"))
        return engine

    def likened(self, node):
        return {key.partition('result="')[2].strip('"}'): int(value)
                for key, value in harness.metrics(node.at("admin")).items()
                if key.startswith("kvasir_content_likened_total") and value}

    def explain(self, node, text, headers=None):
        return harness.request(node.at("admin"), "POST", "/admin/explain", {
            "model": "auto", "messages": [{"role": "user", "content": text}]}, headers or {}).json()["content"]

    def ready(self, node):
        harness.wait_until(lambda: "content_likened" in node.log(), "examples have vectors")
        return node

    def test_the_nearest_examples_choose_the_engine(self):
        self.engine()
        node = self.ready(self.node(*self.NEAR))
        self.assertEqual(self.served(node, SUM), "big")
        self.assertEqual(self.served(node, TRIP), "b")
        self.assertEqual(self.served(node, TRIP, tools=TOOL), "agent")
        self.assertEqual(self.likened(node), {"known": 2})
        self.assertEqual(self.counted(node), {"tools": 1, "sums": 1, "trips": 1, "none": 0})
        got = self.explain(node, TRIP)
        self.assertEqual((got["rule"], got["like"], got["nearest"]), ("trips", "known", "trips"))
        self.assertGreater(got["cosine"], 0.3)
        client = harness.connect(node.at("serve"))
        for text, model in ((SUM, "big"), (TRIP, "b")) * 3:  # one after the other, in chunks
            body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": text}]})
            client.request("POST", CHAT, iter([body[:20].encode(), body[20:].encode()]),
                           {"content-type": "application/json"}, encode_chunked=True)
            self.assertEqual(json.load(client.getresponse())["model"], model)
        client.close()

    def test_rules_that_are_read_again_get_their_vectors(self):
        self.engine()
        node = self.ready(self.node(*self.NEAR))
        changed = json.loads(json.dumps(LIKE))
        changed["auto"]["rules"][2]["model"] = "agent"
        self.rules.write_text(json.dumps(changed))
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.served(node, TRIP) == "agent", "the rules are new")

    def test_a_late_or_failed_vector_costs_the_rule(self):
        go = threading.Event()
        self.addCleanup(go.set)
        said = {"wait": False, "status": 200}

        def embed(peer, request):
            if said["wait"]:
                go.wait(harness.IO_TIMEOUT_S)
            peer.json({"data": [{"embedding": [1, 2]}]}, said["status"])
        self.workers["e"] = FakeWorker(self, embed, models=["e"])
        node = self.ready(self.node(*self.NEAR[:2], "--content.embeddings_wait", "20ms", "--lanes", "1"))
        said["status"] = 500
        self.assertEqual(self.served(node, TRIP), "small")
        said.update(wait=True, status=200)
        self.assertEqual(self.explain(node, TRIP)["like"], "late")
        while "away" not in self.likened(node):  # after four in a row nobody is asked
            self.assertEqual(self.served(node, TRIP), "small")
            self.assertLess(sum(self.likened(node).values()), 20)
        got = self.likened(node)
        self.assertEqual(got["failed"], 1)
        self.assertGreaterEqual(got["late"], 3)

    def test_who_leaves_while_he_waits_is_told_of_as_he_came(self):
        asked, go, waits = threading.Event(), threading.Event(), threading.Event()
        self.addCleanup(go.set)

        def embed(peer, _):
            if waits.is_set():
                asked.set()
                go.wait(harness.IO_TIMEOUT_S)
            peer.json({"data": [{"embedding": [1, 2]}]})
        self.workers["e"] = FakeWorker(self, embed, models=["e"])
        node = self.ready(self.node(*self.NEAR, "--log.requests", "errors", "--lanes", "1"))
        waits.set()
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": TRIP}]})
        leaver = socket.create_connection(node.at("serve"), harness.IO_TIMEOUT_S)
        leaver.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n\r\n{body}"
                       .encode())
        self.assertTrue(asked.wait(harness.IO_TIMEOUT_S))
        harness.request(node.at("serve"), "GET", "/v1/models", b"x" * (4 << 20))
        leaver.close()
        harness.wait_until(lambda: "end=cancelled" in node.log(), "it is told of")
        line = next(line for line in node.log().splitlines() if "end=cancelled" in line)
        self.assertIn(f"path={CHAT} ", line)

    def test_until_the_examples_have_vectors_no_rule_with_some_fits(self):
        node = self.node(*self.NEAR)
        self.assertEqual(self.served(node, TRIP), "small")
        self.assertEqual(self.likened(node), {"loading": 1})
        self.assertEqual(self.explain(node, TRIP)["like"], "loading")
        harness.wait_until(lambda: "content_unlikened" in node.log(), "the log says so")

    def test_the_words_of_some_tenants_are_not_shown(self):
        self.engine()
        lines = ["isolation_secret: " + "0123456789abcdef" * 4, "tenants:"]
        keys = {}
        for name, more in (("any", None), ("strict", "isolation: strict")):
            keys[name], line = self.run_once("kvasir", "key").stdout.split()
            lines += [f"  {name}:"] + ([f"    {more}"] if more else []) + [f"    keys: ['{line}']"]
        file = self.folder / "keys.yaml"
        file.write_text("\n".join(lines) + "\n")
        node = self.ready(self.node(*self.NEAR, "--keys.file", file))
        for name, model in (("any", "b"), ("strict", "small")):
            answer = harness.request(node.at("serve"), "POST", CHAT, {
                "messages": [{"role": "user", "content": TRIP}], "model": "auto"},
                {"authorization": f"Bearer {keys[name]}"})
            self.assertEqual(answer.json()["model"], model, name)
        self.assertEqual(self.explain(node, TRIP, {"x-kvasir-tenant": "strict"})["like"], "tenant")
        self.assertEqual(self.likened(node), {"known": 1, "tenant": 1})

    def test_who_leaves_while_he_waits_is_forgotten(self):
        go = threading.Event()
        self.addCleanup(go.set)
        waits = []

        def embed(peer, request):
            if request.json()["input"] == TRIP:
                waits.append(1)
                go.wait(harness.IO_TIMEOUT_S)
            peer.json({"data": [{"embedding": [1, 2]}]})
        self.workers["e"] = FakeWorker(self, embed, models=["e"])
        node = self.ready(self.node(*self.NEAR))
        body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": TRIP}]})
        with socket.create_connection(node.at("serve")) as client:
            client.sendall(f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
            harness.wait_until(lambda: waits, "it waits for its vector")
        harness.wait_until(lambda: harness.metric(node.at("admin"), "kvasir_inflight") == 0, "it is gone")
        self.assertEqual(sum(len(self.workers[name].requests) for name in ("small", "big", "b")), 0)

    def test_route_test_likens_with_an_engine(self):
        engine = self.engine()
        labelled = [{"prompt": SUM, "expected": "sums"}, {"prompt": TRIP, "expected": "trips"}]
        lines = "\n".join(map(json.dumps, labelled))
        near = ("--embeddings", engine.url("http"), "--model", "e")
        run = self.run_once("kvasir", "route-test", "--rules", self.rules, *near, stdin=lines)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("2 likened to examples, 0 without a vector", run.stdout)
        run = self.run_once("kvasir", "route-test", "--rules", self.rules, stdin=lines)
        self.assertIn("0 of 2 as expected", run.stdout)
        run = self.run_once("kvasir", "route-test", "--rules", self.rules, *near[:3], "nobody", stdin=lines)
        self.assertIn("tells no vectors of the examples", run.stderr)

    def test_examples_without_a_model_for_them_are_refused(self):
        run = self.run_once("kvasir", "check", "--content.file", self.rules)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("rules with like want content.embeddings_model", run.stdout + run.stderr)


if __name__ == "__main__":
    harness.main()
