"""Tenants with isolation: strict: engines are told a cache salt that is nobody else's, and what a
node knows of one tenant's prompts says nothing of another's."""
import hashlib
import hmac
import json

import harness
from fake_worker import FakeWorker
from test_mirror import MirrorCase
from test_usage import DELTA, DONE, USAGE, asked

SECRET = "5a" * 32


def salt_of(tenant, given=b""):
    key = hmac.new(bytes.fromhex(SECRET), tenant.encode(), hashlib.sha256).digest()
    return hmac.new(key, given, hashlib.sha256).hexdigest()[:32]


class IsolationCase(MirrorCase):
    def setUp(self):
        super().setUp()
        self.keys = {}
        lines = [f"isolation_secret: {SECRET}", "tenants:"]
        for name, isolation in (("a", "strict"), ("b", "strict"), ("c", "shared"),
                                ("d", "shared")):
            self.keys[name], line = self.run_once("kvasir", "key").stdout.split()
            lines += [f"  {name}:", f"    isolation: {isolation}", f"    keys: ['{line}']"]
        self.file = self.folder / "keys.yaml"
        self.file.write_text("\n".join(lines) + "\n")

    def model(self, node):
        models = harness.request(node.at("serve"), "GET", "/v1/models",
                                 headers=self.headers("c")).json()["data"]
        return models[0]["id"]

    def headers(self, tenant):
        return {"x-api-key": self.keys[tenant]}


class Bodies(IsolationCase):
    def setUp(self):
        super().setUp()
        self.bodies = []
        self.types = []
        worker = FakeWorker(self, self.answer)
        self.node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0",
                               "--admin", "127.0.0.1:0", "--keys.file", self.file,
                               "--worker", worker.url)
        harness.wait_until(lambda: self.workers(self.node)[0]["eligible"], "it is up")

    def answer(self, peer, request):
        self.bodies.append(request.body)
        self.types.append(request.headers.get("content-type"))
        if not request.json().get("stream"):
            peer.json({"id": "x", "choices": []})
            return
        peer.begin_stream()
        for piece in [DELTA, *([USAGE] if asked(request) else []), DONE]:
            peer.chunk(piece)
        peer.end_stream()

    def sent(self, tenant, body, path="/v1/completions"):
        answer = harness.request(self.node.at("serve"), "POST", path, body,
                                 {**self.headers(tenant), "content-type": "application/json"})
        self.assertEqual(answer.status, 200, answer.text)
        return self.bodies[-1]

    def test_a_body_gets_its_tenants_salt_and_is_the_same_otherwise(self):
        salt = salt_of("a").encode()
        body = b'{ "prompt" : "x\\u00e4" ,"model":"m"}'
        self.assertEqual(self.sent("a", body), b'{"cache_salt":"' + salt + b'",' + body[1:])
        self.assertEqual(self.sent("c", body), body)
        self.assertNotEqual(self.sent("b", body), self.sent("a", body))
        for given in (b"null", b"7", b'["x"]', b'""'):
            body = b'{"prompt":"x","cache_salt": ' + given + b',"n":1}'
            self.assertEqual(self.sent("a", body), body.replace(given, b'"' + salt + b'"', 1))
        body = b'{"prompt":"x","cache_salt":"mine"}'
        mixed = salt_of("a", b"mine").encode()
        self.assertEqual(self.sent("a", body), body.replace(b"mine", mixed))
        self.assertEqual(self.sent("c", body), body)

    def test_no_client_gets_at_another_tenants_salt(self):
        seen = set()
        for tenant in "ab":
            for given in ("", "x", salt_of("a"), salt_of("b")):
                body = {"prompt": "x", **({"cache_salt": given} if given else {})}
                seen.add(json.loads(self.sent(tenant, body))["cache_salt"])
        self.assertEqual(len(seen), 8)

    def test_what_a_body_is_read_as_here_it_is_read_as_by_the_engine(self):
        body = b'{"prompt":"x","cache_salt":"mine"}'
        form = "multipart/form-data; boundary=b"
        answer = harness.request(self.node.at("serve"), "POST", "/v1/completions", body,
                                 {**self.headers("a"), "content-type": form,
                                  "connection": "content-type"})
        self.assertEqual(answer.status, 200, answer.text)
        self.assertEqual(self.types[-1], form)

    def test_a_stream_that_asks_for_usage_has_the_salt_too(self):
        for more in (b'"cache_salt":"s","stream":true', b'"stream":true,"cache_salt":1',
                     b'"stream":true', b'"stream_options":null,"cache_salt":"s","stream":true',
                     b'"cache_salt":"s","stream_options":{"a":1},"stream":true'):
            body = b'{"prompt":"x",' + more + b"}"
            got = json.loads(self.sent("a", body))
            given = b"s" if b'"s"' in body else b""
            options = {**(json.loads(body).get("stream_options") or {}), "include_usage": True}
            self.assertEqual(got, {**json.loads(body), "stream_options": options,
                                   "cache_salt": salt_of("a", given)})

    def test_bodies_without_a_prompt_get_the_salt_where_a_vllm_reads_them(self):
        body = b'{"model":"m","query":"x","documents":["y"]}'
        harness.wait_until(lambda: "worker_recognised" in self.node.log(), "it is a vLLM")
        for path in ("/v1/rerank", "/score", "/v1/classify", "/pooling", "/v1/decisions"):
            salted = b'{"cache_salt":"' + salt_of("a").encode() + b'",' + body[1:]
            self.assertEqual(self.sent("a", body, path), salted, path)
            self.assertEqual(self.sent("c", body, path), body, path)
            given = body.replace(b'{"model"', b'{"cache_salt":"' + salt_of("b").encode() +
                                 b'","model"')
            self.assertNotIn(salt_of("b").encode(), self.sent("a", given, path))
            self.assertEqual(self.sent("a", b"{ }", path), b"{ }", "there is nothing to go before")

    def test_an_sglang_gets_no_salt_where_it_reads_none(self):
        worker = FakeWorker(self, self.answer)
        worker.metrics = b"sglang:num_running_reqs 0\n"
        worker.facts = {"owned_by": "sglang"}
        self.node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                               "127.0.0.1:0", "--keys.file", self.file, "--worker", worker.url)
        harness.wait_until(lambda: "worker_recognised" in self.node.log(), "it is recognised")
        body = b'{"model":"m","query":"x","documents":["y"]}'
        self.assertEqual(self.sent("a", body, "/v1/rerank"), body)

    def test_an_isolated_tenants_media_have_no_names_that_others_could_say(self):
        def status(tenant, part):
            body = b'{"model":"m","messages":[{"role":"user","content":[%s]}]}' % part
            answer = harness.request(
                self.node.at("serve"), "POST", "/v1/chat/completions", body,
                {**self.headers(tenant), "content-type": "application/json"})
            if answer.status != 200:
                self.assertEqual(answer.json()["error"]["code"], "member_not_allowed")
            return answer.status
        for part in (b'{"type":"image_url","image_url":null,"uuid":"logo"}',
                     b'{"uuid":"x","type":"audio_url","audio_url":{"url":"http://h/a"}}',
                     b'{"type":"image_embeds","image_embeds":null,"\\u0075uid":"x"}'):
            self.assertEqual((status("a", part), status("c", part)), (403, 200), part)
        for part in (b'{"type":"image_url","image_url":{"url":"http://h/i"},"uuid":null}',
                     b'{"type":"tool_use","id":"1","name":"n","input":{},"uuid":"x"}',
                     b'{"type":"text","text":"x","uuid":"x"}'):
            self.assertEqual(status("a", part), 200, part)

    def test_messages_and_embeddings_get_the_salt_too(self):
        salt = b'{"cache_salt":"' + salt_of("a").encode() + b'",'
        for path, body in (
                ("/v1/messages", b'{"model":"m","max_tokens":1,'
                                 b'"messages":[{"role":"user","content":"x"}]}'),
                ("/v1/embeddings", b'{"model":"m","input":"x"}')):
            self.assertEqual(self.sent("a", body, path), salt + body[1:], path)
            self.assertEqual(self.sent("c", body, path), body, path)
            given = body.replace(b'{"model"', b'{"cache_salt":"mine","model"')
            mixed = salt_of("a", b"mine").encode()
            self.assertEqual(self.sent("a", given, path), given.replace(b"mine", mixed), path)

    def test_belief_of_one_tenant_says_nothing_of_another(self):
        body = {"model": "m", "prompt": "The quick brown fox. " * 60}

        def overlap(tenant):
            answer = harness.request(self.node.at("admin"), "POST", "/admin/explain", body,
                                     {"x-kvasir-tenant": tenant}).json()
            return answer["overlap"]
        self.sent("a", body)
        self.sent("c", body)
        for tenant, known in (("a", True), ("b", False), ("c", True), ("d", True)):
            harness.wait_until(lambda t=tenant, k=known: (overlap(t) > 0) == k, tenant)


class Sharing(IsolationCase):
    def reload(self):
        got = harness.request(self.node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(got.status, 200, got.text)

    def test_an_engine_without_salts_is_named_whenever_isolation_begins(self):
        strict = self.file.read_text()
        self.file.write_text(strict.replace("strict", "shared"))
        worker = FakeWorker(self, lambda peer, request: peer.json({}))
        worker.metrics = b"llamacpp:requests_processing 0\n"
        self.node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                               "127.0.0.1:0", "--keys.file", self.file, "--worker", worker.url)
        harness.wait_until(lambda: "worker_recognised" in self.node.log(), "it is recognised")

        def named():
            return self.node.log().count(f"isolation_incomplete worker={worker.id}")
        self.assertEqual(named(), 0)
        self.file.write_text(strict)
        for _ in range(2):
            self.reload()
            harness.wait_until(lambda: named() == 1, "it is named once")
        for text in (strict.replace("strict", "shared"), strict):
            self.file.write_text(text)
            self.reload()
        harness.wait_until(lambda: named() == 2, "it is named again")


class Predictions(IsolationCase):
    def test_what_is_predicted_is_what_engines_report_tenant_by_tenant(self):
        engines = [self.engine("e0")]
        node = self.serve(engines, "--keys.file", self.file)
        prompt = list(range(1000, 1320))
        got = []
        self.complete(node, prompt[::-1], headers=self.headers("c"))
        self.in_step(node, engines)
        for tenant in ("a", "b", "a", "c", "d", "b"):
            cached, _ = self.complete(node, prompt, headers=self.headers(tenant))
            got.append(cached > 0)
            self.in_step(node, engines)
        self.assertEqual(got, [False, False, True, False, True, True])
        good, judged, wrong = self.right(self.decisions(node))
        self.assertEqual((good, judged), (judged, judged), wrong)
        self.assertGreaterEqual(judged, 6)

    def test_a_clients_salt_parts_its_tenants_prompts(self):
        engines = [self.engine("e0")]
        node = self.serve(engines, "--keys.file", self.file)
        prompt = list(range(1000, 1320))
        got = []
        self.complete(node, prompt[::-1], headers=self.headers("c"))
        self.in_step(node, engines)
        for tenant, salt in (("a", "x"), ("b", "x"), ("a", "y"), ("a", "x")):
            cached, _ = self.complete(node, prompt, cache_salt=salt,
                                      headers=self.headers(tenant))
            got.append(cached > 0)
            self.in_step(node, engines)
        self.assertEqual(got, [False, False, False, True])
        good, judged, wrong = self.right(self.decisions(node))
        self.assertEqual((good, judged), (judged, judged), wrong)
        self.assertGreaterEqual(judged, 4)


if __name__ == "__main__":
    harness.main()
