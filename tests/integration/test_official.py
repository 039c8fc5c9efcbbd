"""The official clients of both vendors, for Node and for Python, streaming and not: every API,
names of models, what is stored, and split prompts. What they see through a node is what they see
of an engine."""
import harness
import official
from official import MODEL, TOKENS, Official, body_of
from test_stored import PATHS, Engine as Keeper

LONG = "A long prompt is worth a second worker, and this sentence comes again. " * 60


class Plain(Official):
    """All that each of them can say, through a node and without one."""

    def says_all(self, client, *options):
        engine = self.engine("--speed", "50", *options)
        alone = self.engine("--speed", "50")
        node = self.node([engine.url("http")])
        self.alike(client, alone.url("http"), node.url("serve"))
        return alone.url("http"), node.url("serve")

    def and_others(self, client, alone, node):
        for words in (("embeddings.create", {"model": MODEL, "input": ["one", "two"],
                                             "encoding_format": "float"}),
                      ("audio.transcriptions.create", {"model": MODEL, "file": "52494646" * 64}),
                      ("audio.speech.create", {"model": MODEL, "input": "say this",
                                               "voice": "alloy", "response_format": "wav"})):
            with self.subTest(call=words[0]):
                expected, got = (client.call(url, words[0], **words[1]) for url in (alone, node))
                for answer in (expected, got):
                    for name in ("id", "created"):
                        answer.get("got", {}).pop(name, None)
                self.assertNotIn("error", expected)
                self.assertEqual(got, expected)

    def test_openai_for_node(self):
        client = official.openai_node(self)
        self.and_others(client, *self.says_all(client))

    def test_openai_for_python(self):
        client = official.openai_python(self)
        self.and_others(client, *self.says_all(client))

    def test_anthropic_for_node(self):
        self.says_all(official.anthropic_node(self))

    def test_anthropic_for_python(self):
        self.says_all(official.anthropic_python(self))

    def test_messages_where_engines_know_chats_alone(self):
        self.says_all(official.anthropic_python(self), "--apis", "chats")


class Split(Official):
    """Prompts that one engine computes and another one goes on with."""

    def goes_through_both(self, client, make):
        def part(role, name):
            return self.engine("--speed", "20", "--engine", make, "--split", role,
                               "--name", name)
        halves = [part("both" if make == "vllm" else role, role) for role in ("prefill", "decode")]
        alone = self.engine("--speed", "20", "--engine", make)
        port = halves[0].at("http")[1]
        node = self.node([f"{halves[0].url('http')},role=prefill,bootstrap_port={port}",
                          f"{halves[1].url('http')},role=decode"])
        for count, api in enumerate(a for a in client.apis if a in ("chat", "completions")):
            for stream in (False, True):
                with self.subTest(make=make, api=api, stream=stream):
                    body = body_of(api, f"{api} {stream} {LONG}")
                    expected = client.ask(alone.url("http"), api, stream, **body)
                    self.assertEqual(expected["tokens"][1], TOKENS)
                    self.assertEqual(client.ask(node.url("serve"), api, stream, **body), expected)
                    self.assertEqual(self.count(node, "split"), 2 * count + stream + 1)

    def test_openai_for_node(self):
        client = official.openai_node(self)
        for make in ("vllm", "sglang"):
            self.goes_through_both(client, make)

    def test_openai_for_python(self):
        client = official.openai_python(self)
        for make in ("vllm", "sglang"):
            self.goes_through_both(client, make)

    def test_a_message_is_served_by_one_that_does_all_of_it(self):
        """What is not split is answered all the same."""
        client = official.anthropic_python(self)
        halves = [self.engine("--speed", "20", "--split", "both") for _ in range(2)]
        alone = self.engine("--speed", "20")
        node = self.node([f"{halves[0].url('http')},role=prefill",
                          f"{halves[1].url('http')},role=decode"])
        self.alike(client, alone.url("http"), node.url("serve"), prompt=LONG)
        self.assertEqual(self.count(node, "split"), 0)


class Models(Official):
    """Names that stand for models, and what becomes of them when a model has no worker left."""

    def stands_for(self, client):
        engines = {name: self.engine("--speed", "50", model=name) for name in ("a", "b")}
        node = self.node([engine.url("http") for engine in engines.values()],
                         "--aliases", "gpt=a,fallback=b half=a+b")
        url = node.url("serve")
        alone = engines["a"].url("http")
        for api in client.apis:
            for stream in (False, True):
                with self.subTest(api=api, stream=stream):
                    expected = client.ask(alone, api, stream, **body_of(api, model="a"))
                    self.assertEqual(expected["model"], "a")
                    self.assertEqual(client.ask(url, api, stream, **body_of(api, model="gpt")),
                                     expected)
        seen = {client.ask(url, client.apis[0], False, **body_of(
            client.apis[0], f"Conversation {number}.", model="half"))["model"]
                for number in range(40)}
        self.assertEqual(seen, {"a", "b"})
        engines["a"].kill()
        for api in client.apis:
            for stream in (False, True):
                got = client.ask(url, api, stream, **body_of(api, model="gpt"))
                self.assertEqual((got["model"], got["tokens"][1]), ("b", TOKENS))
        got = client.ask(url, client.apis[0], True, **body_of(client.apis[0], model="none"))
        self.assertEqual(got, {"error": "NotFoundError", "status": 404})

    def test_openai_for_node(self):
        self.stands_for(official.openai_node(self))

    def test_openai_for_python(self):
        self.stands_for(official.openai_python(self))

    def test_anthropic_for_node(self):
        self.stands_for(official.anthropic_node(self))

    def test_anthropic_for_python(self):
        self.stands_for(official.anthropic_python(self))

    def test_what_an_engine_says_of_its_model_is_passed_on(self):
        engine = self.engine("--max-model-len", "4096")
        node = self.node([engine.url("http")])
        for make in (official.openai_node, official.openai_python):
            client = make(self)
            own = client.call(engine.url("http"), "models.list")["got"]["data"][0]
            told = client.call(node.url("serve"), "models.list")["got"]["data"][0]
            self.assertEqual(own["max_model_len"], 4096)
            for name in ("id", "object", "owned_by", "max_model_len"):
                self.assertEqual(told[name], own[name])
            self.assertTrue(1e9 < told["created"] <= own["created"], told)  # it says: now


class Stored(Official):
    """What a worker keeps is found there by its id."""

    def finds_it(self, client):
        keepers = [Keeper(self) for _ in range(3)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--paths", PATHS,
                          *(word for k in keepers for word in ("--worker", k.worker.url)))
        harness.wait_until(lambda: all(w["eligible"] for w in harness.request(
            node.at("admin"), "GET", "/admin/workers").json()), "the workers are up")
        url = node.url("serve")

        def home(name):
            return [name in keeper.kept for keeper in keepers].index(True)
        for _ in range(4):
            made = client.call(url, "responses.create", model=MODEL, input="x")["got"]["id"]
            at = home(made)
            self.assertEqual(client.call(url, "responses.retrieve", made)["got"]["id"], made)
            then = client.call(url, "responses.create", model=MODEL, input="y",
                               previous_response_id=made)["got"]["id"]
            self.assertEqual(home(then), at)
            file = client.call(url, "files.create", file="41" * 9, purpose="batch")["got"]["id"]
            batch = client.call(url, "batches.create", input_file_id=file,
                                endpoint="/v1/responses", completion_window="24h")["got"]
            self.assertEqual(home(batch["id"]), home(file))
            self.assertEqual(client.call(url, "batches.retrieve", batch["id"])["got"]["id"],
                             batch["id"])

    def test_openai_for_node(self):
        self.finds_it(official.openai_node(self))

    def test_openai_for_python(self):
        self.finds_it(official.openai_python(self))


if __name__ == "__main__":
    harness.main()
