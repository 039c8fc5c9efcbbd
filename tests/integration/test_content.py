"""Models chosen by what a request says: which engine gets it, what is told of it, and rules that
change while a node runs."""
import json
import signal

import harness
from fake_worker import FakeWorker

CHAT = "/v1/chat/completions"
RULES = {"auto": {"model": "small", "rules": [
    {"name": "tools", "has": ["tools"], "model": "agent"},
    {"name": "math", "words": ["prove"], "model": "big",
     "set": {"reasoning_effort": "high", "chat_template_kwargs": '{"enable_thinking": true}'}},
    {"name": "german", "languages": ["de"], "model": "spread"}]}}
TOOL = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


class Content(harness.Case):
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


if __name__ == "__main__":
    harness.main()
