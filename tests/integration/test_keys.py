"""Clients' keys: who is let in, whose request it is, and what it may ask for."""
import harness
from fake_worker import FakeWorker
from test_proxy import CHAT, Proxy, chat, echo, read_answer, request_bytes


class Keys(Proxy):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "keys.yaml"
        self.worker = FakeWorker(self, echo, models=("m", "other"))

    def make(self):
        """A key: (what the client sends, what a file keeps)."""
        done = self.run_once("kvasir", "key")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.split()

    def write(self, **tenants):
        """tenants: NAME=(models or None, line, ...)"""
        lines = ["tenants:"]
        for name, (models, *keys) in tenants.items():
            lines += [f"  {name}:", *([f"    models: {models}"] if models is not None else []),
                      "    keys:", *(f"      - {key}" for key in keys)]
        self.file.write_text("\n".join(lines) + "\n")

    def serve_keyed(self):
        return self.serve(self.worker.url + ",api_key=theirs", count=1,
                          options=["--keys.file", self.file])

    def status(self, key, body=None, **more):
        return self.post(body, {"authorization": f"Bearer {key}"}, **more).status

    def models(self, key):
        got = harness.request(self.address, "GET", "/v1/models",
                              headers={"authorization": f"Bearer {key}"}).json()
        return sorted(m["id"] for m in got["data"])

    def refused(self, answer, status, code):
        self.assertEqual((answer.status, answer.json()["error"]["code"]), (status, code),
                         answer.text)

    def test_a_key_opens_the_port_and_goes_to_no_worker(self):
        (one, one_line), (two, two_line) = self.make(), self.make()
        self.write(research=(None, one_line), shop=(None, two_line))
        node = self.serve_keyed()
        wrong = one[:-1] + ("0" if one[-1] != "0" else "1")
        for headers in ({}, {"authorization": f"Bearer {wrong}"}, {"x-api-key": wrong},
                        {"authorization": f"Basic {one}"}, {"x-api-key": one_line},
                        {"authorization": f"Bearer {wrong}", "x-api-key": one}):
            answer = self.post(headers=headers)
            self.refused(answer, 401, "invalid_api_key")
            self.assertEqual(answer.headers["www-authenticate"], "Bearer")
        self.refused(harness.request(self.address, "GET", "/v1/models"), 401, "invalid_api_key")
        for path in ("/health", "/ready"):
            self.assertEqual(harness.request(self.address, "GET", path).status, 200)
        self.assertEqual(self.worker.requests, [])

        for headers in ({"Authorization": f"bearer {one}"}, {"X-API-Key": two},
                        {"authorization": f"Bearer {two}", "x-api-key": wrong}):
            self.assertEqual(self.post(headers=headers).status, 200)
            seen = self.worker.requests[-1]
            self.assertEqual(seen.headers["authorization"], "Bearer theirs")
            self.assertNotIn("x-api-key", seen.headers)
            self.assertNotIn(b"kvk-", seen.raw_head)
        decided = harness.wait_until(
            lambda: [d for d in harness.request(node.at("admin"), "GET",
                                                "/admin/decisions").json() if d["status"] == 200][2:],
            "three decisions")
        self.assertEqual([d["tenant"] for d in decided], ["research"], "the oldest")
        found = harness.metrics(node.at("admin"))
        self.assertEqual(found['kvasir_tenant_requests_total{tenant="research"}'], 1)
        self.assertEqual(found['kvasir_tenant_requests_total{tenant="shop"}'], 2)
        self.assertEqual(
            found['kvasir_requests_total{code="401",reason="invalid_api_key"}'], 7)
        self.assertNotIn("kvk-", node.log())

    def test_a_stream_that_is_left_is_charged_as_far_as_it_came(self):
        def stream(peer, request):
            peer.begin_stream()
            for _ in range(500):
                peer.chunk(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n')
            peer.wait_closed()

        key, line = self.make()
        self.write(shop=(None, line))
        self.worker.handler = stream
        node = self.serve_keyed()
        s = self.connect()
        s.sendall(request_bytes(chat("four" * 400, stream=True), f"x-api-key: {key}\r\n"))
        got = b""
        while got.count(b"data:") < 500:
            got += s.recv(65536)
        s.close()

        def charged(what):
            return harness.metrics(node.at("admin"))[
                f'kvasir_tenant_{what}_tokens_total{{tenant="shop"}}']
        harness.wait_until(lambda: charged("completion") != 0, "it was left")
        self.assertTrue(480 <= charged("completion") <= 500, charged("completion"))
        self.assertTrue(390 <= charged("prompt") <= 420, charged("prompt"))

    def test_who_has_no_key_is_told_before_its_body_is_read(self):
        self.write(research=(None, self.make()[1]))
        self.serve_keyed()
        s = self.connect()
        s.sendall(request_bytes(b"x" * 1000, "Expect: 100-continue\r\n")[:-1000])
        status, headers, _, _ = read_answer(s)
        self.assertEqual((status, headers["connection"]), (401, "close"))
        answer = harness.raw(self.address, b"HEAD /v1/models HTTP/1.1\r\nHost: h\r\n\r\n")
        self.assertRegex(answer, rb"^HTTP/1.1 401 (.*\r\n)+\r\n$")  # and no body

    def test_a_tenant_with_models_may_use_these_alone(self):
        (some, some_line), (every, every_line) = self.make(), self.make()
        self.write(shop=("['m']", some_line), research=(None, every_line))
        self.serve_keyed()
        self.assertEqual(self.status(some), 200)
        other = {**chat(), "model": "other"}
        self.assertEqual(self.status(every, other), 200)
        unnamed = {"messages": chat()["messages"]}
        for body in (other, unnamed, {**unnamed, "model": ["m"]},
                     '{"model":"m","messages":[],"model":"other"}'):
            headers = {"authorization": f"Bearer {some}", "content-type": "application/json"}
            self.refused(self.post(body, headers), 403, "model_not_allowed")
        # Engines might read another model out of these than a router does.
        def form(*models, name="model"):
            parts = (f'--b\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{model}\r\n'
                     for model in models)
            return "".join(parts) + "--b--\r\n"

        def upload(body, boundary="b", path="/v1/audio/transcriptions"):
            kind = f"multipart/form-data; boundary={boundary}"
            return self.post(body, {"authorization": f"Bearer {some}", "content-type": kind},
                             path=path)
        for answer in (upload(form("other")), upload(form("m", "other")), upload(form("m"), "c"),
                       upload(form("m", name="mo\\del")), upload("x"),
                       self.post('{"model":"other"}', {"authorization": f"Bearer {some}",
                                                       "content-type": "text/plain"})):
            self.refused(answer, 403, "model_not_allowed")
        self.refused(self.post(form("m"), {"authorization": f"Bearer {some}",
                                           "content-type": "application/vnd.any+json"}),
                     400, "invalid_json")
        self.assertEqual(upload(form("m")).status, 200)
        # Of two boundaries an engine may take the second, whose form is a file of the first.
        body = ('--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n'
                '--b\r\ncontent-disposition: form-data; name="f"; filename="f"\r\n\r\n' +
                form("other").replace("--b", "--c") + "\r\n--b--\r\n").encode()
        kind = "Content-Type: multipart/form-data; boundary="
        s = self.connect()
        s.sendall((f"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: h\r\n{kind}b\r\n{kind}c\r\n"
                   f"Authorization: Bearer {some}\r\nContent-Length: {len(body)}\r\n\r\n")
                  .encode() + body)
        self.assertEqual(read_answer(s)[0], 403)
        harness.wait_until(lambda: self.models(every) == ["m", "other"], "models are known")
        self.assertEqual(self.models(some), ["m"])
        for key, models in ((some, ["m"]), (every, ["m", "other"])):
            headers = {"authorization": f"Bearer {key}"}
            got = harness.request(self.address, "GET", "/v1/models/other", headers=headers)
            self.assertEqual(got.status, 200 if "other" in models else 404)
        self.assertEqual(len(self.worker.requests), 3)

    def test_an_adapter_is_reached_only_as_the_list_names_it(self):
        keys = {}
        tenants = {"base": "['m']", "both": "['m', 'n']", "own": "['n']", "whole": "['m:n']",
                   "begins": "['m*']", "every": None}
        for name in tenants:
            keys[name], line = self.make()
            tenants[name] = (tenants[name], line)
        self.write(**tenants)
        self.worker.models = ["m", "n", "other"]
        self.worker.facts = {"owned_by": "sglang"}
        self.worker.adapters = {"n": "m"}
        self.serve_keyed()
        harness.wait_until(lambda: "m:n" in self.models(keys["every"]), "models are known")

        def asked(tenant, model, more=""):
            answer = self.post(f'{{"model":"{model}","messages":[]{more}}}', {
                "authorization": f"Bearer {keys[tenant]}", "content-type": "application/json"})
            if answer.status != 200:
                self.refused(answer, 403, "model_not_allowed")
            return answer.status == 200
        beside = ',"lora_path":"n"'
        others = (',"lora_path":["n"]', ',"lora_path":[null,"n"]', ',"lora_path":{"a":1}',
                  ',"lora_request":{"lora_name":"n","lora_int_id":1}',
                  ',"lora":[{"id":0,"scale":1}]')
        hidden = (',"lor\\u0061_path":"n"', ',"lora_path":null,"lora_path":"\\u006e"')
        for tenant, model, more in (
                *(("base", "m", m) for m in (beside, *others, *hidden)), ("base", "m:n", ""),
                ("both", "m", ',"lora_path":"other"'), *(("both", "m", m) for m in others),
                ("own", "m", beside), ("own", "other:n", ""), ("whole", "m", beside),
                ("whole", "n", "")):
            self.assertFalse(asked(tenant, model, more), (tenant, model, more))
        self.assertEqual(self.worker.requests, [])
        for tenant, model, more in (
                ("base", "m", ""), ("base", "m", ',"lora_path":null'),
                ("base", "m", ',"lora_path":"n","lora_path":""'), ("both", "m", beside),
                *(("both", "m", m) for m in hidden), ("both", "m:n", ""), ("own", "m:n", ""),
                ("own", "n", ""), ("whole", "m:n", ""), ("begins", "m", ',"lora_path":"x"'),
                ("begins", "m:n", ""), *(("every", "m", m) for m in (beside, *others))):
            self.assertTrue(asked(tenant, model, more), (tenant, model, more))
        listed = {name: self.models(key) for name, key in keys.items()}
        self.assertEqual(listed["own"], ["m:n", "n"])
        self.assertEqual(listed["base"], ["m"])

    def test_no_client_comes_before_its_tenants_priority_at_an_engine(self):
        (plain, plain_line), (first, first_line) = self.make(), self.make()
        self.write(plain=(None, plain_line), first=(None, first_line))
        text = self.file.read_text()
        self.file.write_text(text.replace("  first:\n", "  first:\n    priority: -2\n"))
        self.serve_keyed()
        for key, said, told in (
                (plain, "-5", "0 "), (plain, "-1", "0 "), (plain, "-9e18}", "0    }"),
                (plain, "7", "7"), (plain, "0", "0"), (plain, "null", "null"), (first, "-1", "-1"),
                (first, "-2", "-2"), (first, "-3", "-2"), (first, "-4.0", "-2  "),
                (plain, '1,"priority":-3', '1,"priority":0 '),
                (plain, '-3,"prior\\u0069ty":-3', '-3,"prior\\u0069ty":0 ')):
            body = '{"model":"m","messages":[],"priority":%s' % said
            body += "" if body.endswith("}") else "}"
            answer = self.post(body, {"authorization": f"Bearer {key}", "x-vllm-priority": "-9",
                                      "content-type": "application/json"})
            self.assertEqual(answer.status, 200, answer.text)
            seen = self.worker.requests[-1]
            want = '{"model":"m","messages":[],"priority":%s' % told
            self.assertEqual(seen.body.decode(), want + ("" if want.endswith("}") else "}"))
            self.assertNotIn("x-vllm-priority", seen.headers)

    def test_a_tenants_client_splits_no_request(self):
        key, line = self.make()
        self.write(shop=(None, line))
        self.serve_keyed()
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        self.refused(self.post('{"model":"m","messages":[],"bootstrap_host":"h"}',
                               {**headers, "content-type": "application/vnd.x+json"}),
                     403, "member_not_allowed")
        for member in ('"kv_transfer_params":{"do_remote_prefill":true}',
                       '"kv_transf\\u0065r_params":{"a":1}', '"ec_transfer_params":{"a":1}',
                       '"bootstrap_host":"10.9.9.9"', '"bootstrap_port":[1]',
                       '"bootstrap_room":0', '"disagg_prefill_dp_rank":1',
                       '"disaggregated_params":{"a":1}',
                       '"bootstrap_room":1,"bootstrap_room":null'):
            body = '{"model":"m","messages":[],%s}' % member
            self.refused(self.post(body, headers), 403, "member_not_allowed")
        self.assertEqual(self.worker.requests, [])
        body = '{"model":"m","messages":[{"role":"user","bootstrap_room":1}],' \
            '"kv_transfer_params":null}'
        self.assertEqual(self.post(body, headers).status, 200)

    def test_keys_are_read_again_with_the_configuration(self):
        (one, one_line), (two, two_line) = self.make(), self.make()
        self.write(research=(None, one_line))
        node = self.serve_keyed()
        self.assertEqual((self.status(one), self.status(two)), (200, 401))
        self.write(shop=(None, two_line))
        reloaded = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(reloaded.status, 200, reloaded.text)
        self.assertEqual((self.status(one), self.status(two)), (401, 200))
        self.write(shop=(None, one_line + "0"))
        reloaded = harness.request(node.at("admin"), "POST", "/admin/reload", {})
        self.assertEqual(reloaded.status, 400)
        self.assertIn(f"{self.file}:4:9: expected the second line of `kvasir key`", reloaded.text)
        self.assertEqual((self.status(one), self.status(two)), (401, 200))


if __name__ == "__main__":
    harness.main()
