"""Names that stand for models: what their engines get and their clients are told, who shares a
name, and what is tried when a model has no worker that answers."""
import json
import signal

import harness
from fake_worker import Close, FakeWorker

CHAT = "/v1/chat/completions"
TENANTS = """tenants:
  some:
    models: [gpt]
    keys: ["%s"]
"""


class Aliases(harness.Case):
    def setUp(self):
        super().setUp()
        self.workers = {name: self.worker(name) for name in ("a", "b", "c")}

    def worker(self, name):
        worker = FakeWorker(self, lambda peer, request: peer.json(
            {"model": self.asked_for(request), "choices": [],
             "usage": {"prompt_tokens": 3, "completion_tokens": 1}}), models=[name])
        worker.facts = {"max_model_len": 1000 + ord(name), "root": f"/models/{name}"}
        return worker

    @staticmethod
    def asked_for(request):
        if request.headers.get("content-type", "").startswith("multipart/"):
            part = request.body.split(b'name="model"\r\n\r\n')[1]
            return part.split(b"\r\n")[0].decode()
        return request.json()["model"]

    def node(self, aliases, *more):
        self.file = self.folder / "kvasir.yaml"
        self.write(aliases)
        workers = [flag for worker in self.workers.values() for flag in ("--worker", worker.url)]
        node = self.start("kvasir", "serve", "-c", self.file, "--listen", "127.0.0.1:0",
                          "--admin", "127.0.0.1:0", *workers, *more)
        harness.wait_until(lambda: self.eligible(node) == 3, "the workers are up")
        return node

    def write(self, aliases):
        self.file.write_text(json.dumps({"aliases": aliases}))

    def eligible(self, node):
        rows = harness.request(node.at("admin"), "GET", "/admin/workers").json()
        return sum(row["eligible"] and row["models_known"] if "models_known" in row
                   else row["eligible"] for row in rows)

    def ask(self, node, model="gpt", text="hello", headers=None, **more):
        return harness.request(node.at("serve"), "POST", CHAT, {
            "messages": [{"role": "user", "content": text}], "model": model, **more}, headers)

    def served(self, node, **more):
        answer = self.ask(node, **more)
        self.assertEqual(answer.status, 200, answer.text)
        model = answer.json()["model"]
        if "x-kvasir-model" in answer.headers:
            self.assertEqual(answer.headers["x-kvasir-model"], model)
        return model

    def fallbacks(self, node):
        return harness.metric(node.at("admin"), "kvasir_model_fallbacks_total")


class Names(Aliases):
    def test_engines_are_asked_for_their_model_and_clients_told_of_it(self):
        node = self.node(["gpt=a"])
        text = "x" * 40000  # is copied outside of the first buffer
        answer = self.ask(node, text=text, metadata={"model": "gpt"})
        self.assertEqual((answer.json()["model"], answer.headers["x-kvasir-model"]), ("a", "a"))
        request = self.workers["a"].requests[-1]
        self.assertEqual(request.json(), {
            "messages": [{"role": "user", "content": text}], "model": "a",
            "metadata": {"model": "gpt"}})
        plain = self.ask(node, model="b")
        self.assertEqual(plain.json()["model"], "b")
        self.assertNotIn("x-kvasir-model", plain.headers)

    def test_a_prompt_counts_as_known_whichever_name_it_came_under(self):
        node = self.node(["gpt=a"])
        words = " ".join(str(i) for i in range(2000))
        self.served(node, text=words)

        def overlap():
            held, _, total = self.ask(node, model="a", text=words) \
                .headers["x-kvasir-overlap"].partition("/")
            return held == total != "0"
        harness.wait_until(overlap, "the prompt is known under its model's name")

    def test_forms_are_renamed_too(self):
        node = self.node(["whisper=b"])
        body = (b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper\r\n'
                b'--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
                b'whisper\r\n--x--\r\n')
        answer = harness.request(node.at("serve"), "POST", "/v1/audio/transcriptions", body,
                                 {"content-type": "multipart/form-data; boundary=x"})
        self.assertEqual((answer.status, answer.json()["model"]), (200, "b"))
        self.assertEqual(self.workers["b"].requests[-1].body,
                         body.replace(b"\r\n\r\nwhisper", b"\r\n\r\nb", 1))

    def test_the_list_of_models_has_the_names(self):
        node = self.node(["gpt=x+b", "a=a,fallback=b", "none=x"])
        models = {model["id"]: model for model in harness.request(
            node.at("serve"), "GET", "/v1/models").json()["data"]}
        self.assertEqual(sorted(models), ["a", "b", "c", "gpt"])
        self.assertEqual(models["gpt"], {**models["b"], "id": "gpt"})
        one = harness.request(node.at("serve"), "GET", "/v1/models/gpt")
        self.assertEqual(one.json(), models["gpt"])
        self.assertEqual(harness.request(node.at("serve"), "GET", "/v1/models/none").status, 404)

    def test_explain_says_which_models_it_would_be(self):
        node = self.node(["gpt=a,fallback=b"])
        got = harness.request(node.at("admin"), "POST", "/admin/explain",
                              {"model": "gpt", "prompt": "hello"}).json()
        self.assertEqual((got["model"], got["alias"], got["models"]), ("a", "gpt", ["a", "b"]))
        self.assertEqual(got["worker"], self.workers["a"].id)
        got = harness.request(node.at("admin"), "POST", "/admin/explain",
                              {"model": "b", "prompt": "hello"}).json()
        self.assertNotIn("alias", got)

    def test_a_tenants_models_are_those_that_it_asks_for(self):
        made = self.run_once("kvasir", "key")
        key, digest = made.stdout.split()[0], made.stdout.split()[-1]
        keys = self.folder / "keys.yaml"
        keys.write_text(TENANTS % digest)
        node = self.node(["gpt=a", "other=a"], "--keys.file", keys)
        headers = {"authorization": f"Bearer {key}"}
        self.assertEqual(self.served(node, headers=headers), "a")
        for refused in ("a", "other"):
            self.assertEqual(self.ask(node, model=refused, headers=headers).status, 403)
        models = harness.request(node.at("serve"), "GET", "/v1/models", None, headers).json()
        self.assertEqual([model["id"] for model in models["data"]], ["gpt"])


class Weights(Aliases):
    def test_a_conversation_stays_with_its_model(self):
        node = self.node(["gpt=a+b"])
        models = {}
        for i in range(24):
            models[i] = self.served(node, text=f"conversation {i}")
        self.assertEqual(set(models.values()), {"a", "b"})
        for i, model in models.items():
            answer = harness.request(node.at("serve"), "POST", CHAT, {"model": "gpt", "messages": [
                {"role": "user", "content": f"conversation {i}"},
                {"role": "assistant", "content": "fine"}, {"role": "user", "content": "go on"}]})
            self.assertEqual(answer.json()["model"], model)

    def test_weights_change_while_the_node_runs(self):
        node = self.node([{"name": "gpt", "to": {"a": 1000, "b": 1}}])
        self.assertEqual({self.served(node, text=f"t{i}") for i in range(8)}, {"a"})
        self.write([{"name": "gpt", "to": "c"}])
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.served(node) == "c", "the other model is asked for")

    def test_a_session_stays_with_its_model(self):
        node = self.node(["gpt=a+b"], "--affinity.mode", "soft")
        for session in range(8):
            models = {self.served(node, text=f"{session} {i}",
                                  headers={"x-session-id": f"s{session}"}) for i in range(4)}
            self.assertEqual(len(models), 1)


class FallBacks(Aliases):
    def test_a_model_without_workers_is_passed_over(self):
        node = self.node(["gpt=x,fallback=y+c"])
        self.assertEqual(self.served(node), "c")
        self.assertEqual(self.fallbacks(node), 2)

    def test_another_model_answers_when_all_workers_of_one_fail(self):
        node = self.node(["gpt=a,fallback=b"])

        def fail(peer, _):
            peer.answer(503, b"{}")
        self.workers["a"].handler = fail
        self.assertEqual(self.served(node, stream=True, text="x" * 40000), "b")
        request = self.workers["b"].requests[-1]
        self.assertEqual(request.json()["stream_options"], {"include_usage": True})
        self.assertEqual(len(request.json()["messages"][0]["content"]), 40000)
        self.assertEqual(self.fallbacks(node), 1)

        def busy(peer, _):
            peer.answer(429, b"{}", "Retry-After: 7\r\n")
        self.workers["a"].handler = self.workers["b"].handler = busy
        answer = self.ask(node)
        self.assertEqual((answer.status, answer.headers["retry-after"]), (429, "7"))

        def close(_peer, _request):
            raise Close
        self.workers["a"].handler = self.workers["b"].handler = close
        answer = self.ask(node)
        self.assertEqual(answer.status, 502)
        for name in "ab":
            self.assertIn(self.workers[name].id, answer.json()["error"]["message"])

    def test_an_answer_of_the_model_is_passed_on_whatever_it_says(self):
        node = self.node(["gpt=a,fallback=b"])
        self.workers["a"].handler = lambda peer, _: peer.json({"error": "too long"}, 400)
        self.assertEqual(self.ask(node).status, 400)
        self.assertEqual(self.fallbacks(node), 0)

    def test_the_other_one_of_a_shared_name_stands_in(self):
        node = self.node(["gpt=a+b"])
        self.workers["a"].handler = lambda peer, _: peer.answer(503, b"{}")
        self.assertEqual({self.served(node, text=f"t{i}") for i in range(8)}, {"b"})

    def test_a_name_that_no_worker_knows_is_told_by_that_name(self):
        node = self.node(["gpt=x,fallback=y"])
        answer = self.ask(node)
        self.assertEqual(answer.status, 404)
        self.assertIn("'gpt'", answer.json()["error"]["message"])


class Policies(harness.Case):
    def test_a_model_may_have_a_rule_of_its_own(self):
        def answer(peer, request):
            peer.json({"choices": []})
        workers = [FakeWorker(self, answer, models=["m", "bge-1"]) for _ in range(2)]
        file = self.folder / "kvasir.yaml"

        def write(*rules):
            file.write_text(json.dumps({"policy": {"models": list(rules)}}))
        write("bge-*=round_robin")
        flags = [flag for worker in workers for flag in ("--worker", worker.url)]
        node = self.start("kvasir", "serve", "-c", file, "--listen", "127.0.0.1:0",
                          "--admin", "127.0.0.1:0", *flags)
        harness.wait_until(lambda: sum(w["eligible"] for w in harness.request(
            node.at("admin"), "GET", "/admin/workers").json()) == 2, "the workers are up")

        def placed(model):
            """How the same prompt is placed, four times."""
            body = {"model": model, "messages": [{"role": "user", "content": "four " * 200}]}
            got = [harness.request(node.at("serve"), "POST", CHAT, body) for _ in range(4)]
            self.assertEqual([g.status for g in got], [200] * 4)
            return {g.headers["x-kvasir-mode"] for g in got}

        def explained(model):
            return harness.request(node.at("admin"), "POST", "/admin/explain", {
                "model": model, "messages": [{"role": "user", "content": "x"}]}).json()["mode"]
        self.assertEqual(placed("bge-1"), {"policy"})
        self.assertNotIn("policy", placed("m"))
        self.assertEqual((explained("bge-1"), explained("m") == "policy"), ("policy", False))
        write("m=round_robin")
        self.assertEqual(harness.request(node.at("admin"), "POST", "/admin/reload", {}).status, 200)
        harness.wait_until(lambda: placed("m") == {"policy"}, "lanes go by it")
        self.assertNotIn("policy", placed("bge-1"))


if __name__ == "__main__":
    harness.main()
