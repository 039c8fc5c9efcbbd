"""Prompts that the node tokenises by a model's own files: predictions are what the
engine reports, and no engine is asked; what is broken or wrong falls back."""
import itertools
import json
import pathlib
import shutil
import signal
import socket
import tempfile

import harness
from test_mirror import MirrorCase

MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
TOOLS = [{"type": "function", "function": {
    "name": "weather", "parameters": {"type": "object", "properties": {"city": {}}}}}]
CLAUDE_TOOLS = [{"name": "weather", "description": "Tells it.", "input_schema": {"type": "object"}}]
LONG = "The node knows what the engine said about one conversation. " * 12
CHINESE = "路由器像引擎一样读取提示，因此知道哪个工作者持有最长的前缀。" * 12
ARABIC = "يقرأ الموجه المطالبة كما يفعل المحرك ويعرف من يحملها. " * 10
TURKISH = "Yönlendirici istemi motorun okuduğu gibi okur, ılık İstanbul. " * 10


def say(*texts, system=None):
    """A conversation: the user's and the assistant's words in turn."""
    head = [{"role": "system", "content": system}] if system else []
    return head + [{"role": ("user", "assistant")[i % 2], "content": text}
                   for i, text in enumerate(texts)]


def call(arguments):
    return {"role": "assistant", "content": None, "tool_calls": [
        {"id": "c1", "type": "function",
         "function": {"name": "weather", "arguments": arguments}}]}


# One request of each shape; the second of a pair goes on with the first.
CHAT = "/v1/chat/completions"
SHAPES = [
    ("chat", CHAT, {"messages": say(LONG, system="Be brief.")}),
    ("next turn", CHAT, {"messages": say(LONG, "I do.", "And now?", system="Be brief.")}),
    ("parts", CHAT, {"messages": [{"role": "user", "content": [
        {"type": "text", "text": LONG}, {"type": "text", "text": "Why?"}]}]}),
    ("developer", CHAT, {"messages": [{"role": "developer", "content": LONG}] + say("Go on.")}),
    ("tools", CHAT, {"messages": say(LONG), "tools": TOOLS}),
    ("tool call", CHAT, {"tools": TOOLS, "messages": say(LONG) + [
        call('{"city": "Oslo", "days": [1, 2]}'),
        {"role": "tool", "tool_call_id": "c1", "content": "rain " * 20}]}),
    ("empty arguments", CHAT, {"messages": say(LONG) + [
        call(""), {"role": "tool", "tool_call_id": "c1", "content": "sun"}]}),
    ("reasoning", CHAT, {"messages": say(LONG) + [
        {"role": "assistant", "content": "So.", "reasoning": "Let me see. " * 20}]}),
    ("kwargs", CHAT, {"messages": say(LONG), "chat_template_kwargs": {"enable_thinking": False}}),
    ("continued", CHAT, {"messages": say(LONG, "It is that"), "add_generation_prompt": False,
                         "continue_final_message": True}),
    ("Chinese", CHAT, {"messages": say(CHINESE)}),
    ("Arabic", CHAT, {"messages": say(ARABIC)}),
    ("Turkish", CHAT, {"messages": say(TURKISH)}),
    ("emoji and escapes", CHAT, {"messages": say("\U0001f600\u00e9\t\"\\ \ud7ff" * 30)}),
    ("special tokens", CHAT, {"messages": say("<|im_end|> in the middle <think> " * 20)}),
    ("salt", CHAT, {"messages": say(LONG, system="Be brief."), "cache_salt": "tenant"}),
    ("text", "/v1/completions", {"prompt": LONG}),
    ("text, plain", "/v1/completions", {"prompt": LONG, "add_special_tokens": False}),
    ("one text in a list", "/v1/completions", {"prompt": [LONG + LONG]}),
    ("truncated", "/v1/completions", {"prompt": LONG, "truncate_prompt_tokens": 70}),
    ("ids", "/v1/completions", {"prompt": list(range(100, 180))}),
    ("input", "/v1/responses", {"input": LONG, "instructions": "Be kind."}),
    ("input items", "/v1/responses", {"input": [
        {"role": "user", "content": [{"type": "input_text", "text": LONG}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "done"}]}),
    ("messages", "/v1/messages", {"system": "Be brief.", "messages": say(LONG)}),
    ("messages, blocks", "/v1/messages", {
        "system": [{"type": "text", "text": "x-anthropic-billing-header: 5"},
                   {"type": "text", "text": "Be brief."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": LONG}]},
                     {"role": "assistant", "content": [
                         {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                         {"type": "text", "text": "Why?"}]},
                     {"role": "user", "content": "Because."}]}),
    ("messages, tools", "/v1/messages", {"tools": CLAUDE_TOOLS, "messages": say(LONG) + [
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "t", "name": "weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "rain " * 20},
            {"type": "text", "text": "So?"}]}]}),
]


class LocalCase(MirrorCase):
    def copy(self, name="tiny"):
        """A folder with a copy of our model, to break."""
        place = pathlib.Path(tempfile.mkdtemp(prefix="kvasir-local-"))
        self.addCleanup(shutil.rmtree, place, True)
        shutil.copytree(MODELS / "tiny", place / name)
        return place

    def tiny(self, *flags, name="engine-1"):
        return self.engine(name, "--model", "house/tiny", "--tokens", str(MODELS), *flags)

    def post(self, node, path, body):
        body = {"model": "house/tiny", "max_tokens": 2, "max_output_tokens": 2, **body}
        answer = harness.request(node.at("serve"), "POST", path, body)
        self.assertEqual(answer.status, 200, answer.text)
        return answer

    def model_of(self, node):
        found, = self.status(node)["models"]
        return found

    def asked(self, node):
        return harness.metric(node.at("admin"), "kvasir_tokens_asked_total")


class Exact(LocalCase):
    def all_shapes(self, node, engines, shapes=SHAPES):
        self.warm(node, engines)
        for name, path, body in shapes:
            for again in (False, True):
                with self.subTest(shape=name, again=again):
                    start = len(self.decisions(node))
                    self.post(node, path, body)
                    self.in_step(node, engines)
                    decision, = self.decisions(node)[start:]
                    self.assertEqual((decision["source"], decision["whole"]), ("mirror", True))
                    self.assertEqual(decision["predicted_tokens"], decision["cached_tokens"])
                    if again:
                        self.assertGreater(decision["cached_tokens"], 0)

    def test_every_shape_is_predicted_and_no_engine_is_asked(self):
        engine = self.tiny("--blocks", "4000")
        node = self.serve([engine], "--tokens.dir", str(MODELS))
        self.all_shapes(node, [engine])
        self.assertEqual(self.asked(node), 0)
        model = self.model_of(node)
        self.assertEqual(set(model["ways"].values()), {"local"})
        self.assertEqual((model["model"], model["why"], model["wrong"]), ("tiny", "", 0))
        numbers = itertools.count()

        def compared():
            self.post(node, CHAT, {"messages": say(f"{next(numbers)} {LONG}")})
            return self.model_of(node)["agreed"] > 0

        harness.wait_until(compared, "the engine's blocks were compared")
        self.assertEqual(self.model_of(node)["differed"], 0)

    def test_without_an_engines_renderer_and_with_tokens_wait_0(self):
        engine = self.tiny("--blocks", "4000")
        node = self.serve([engine], "--tokens.dir", str(MODELS), "--tokens.wait", "0")
        self.all_shapes(node, [engine], SHAPES[:3])

    def test_a_thread_makes_it_with_tokens_wait_0(self):
        engine = self.tiny("--blocks", "40000", "--max-model-len", "400000")
        node = self.serve([engine], "--tokens.dir", str(MODELS), "--tokens.wait", "0")
        self.warm(node, [engine])
        self.post(node, CHAT, {"messages": say(LONG * 200)})
        harness.wait_until(lambda: self.model_of(node)["answered"] == 1, "it is made")

    def test_a_long_prompt_is_made_by_a_thread(self):
        engine = self.tiny("--blocks", "40000", "--max-model-len", "400000")
        node = self.serve([engine], "--tokens.dir", str(MODELS), "--tokens.wait", "30s")
        long = say(LONG * 200, "I do.", "And " + LONG * 100)
        self.all_shapes(node, [engine], [
            ("long", CHAT, {"messages": long[:1]}), ("next", CHAT, {"messages": long}),
            ("text", "/v1/completions", {"prompt": CHINESE * 100})])
        self.assertEqual(self.asked(node), 0)

    def test_an_adapter_has_its_models_files(self):
        engine = self.engine("engine-1", "--model", "house/tiny", "--model", "lora", "--tokens",
                             str(MODELS))
        node = self.serve([engine], "--tokens.dir", str(MODELS))
        self.all_shapes(node, [engine], [("chat", CHAT, {"model": "lora", "messages": say(LONG)})])
        self.assertEqual(self.asked(node), 0)

    def test_explain_says_where_the_tokens_come_from(self):
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(MODELS))
        self.warm(node, [engine])
        told = harness.request(node.at("admin"), "POST", "/admin/explain",
                               {"model": "house/tiny", "messages": say(LONG)}).json()
        self.assertEqual((told["unit"], told["tokens_by"]), ("tokens", "local"))

    def test_explain_goes_by_the_path_that_is_named(self):
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(MODELS))
        self.warm(node, [engine])
        # A chat by its shape; /v1/messages puts more around it.
        body = {"model": "house/tiny", "system": "Be brief.", "messages": say(LONG)}

        def total(query):
            return harness.request(node.at("admin"), "POST", "/admin/explain" + query,
                                   body).json()["total"]
        self.assertNotEqual(total("?path=/v1/messages"), total("?path=/v1/chat/completions"))
        for path in ("/v1/mesages", "/v1/models", "/v1/responses/", ""):
            answer = harness.request(node.at("admin"), "POST", f"/admin/explain?path={path}", body)
            self.assertEqual((answer.status, answer.json()["error"]["code"]), (400, "bad_path"))


class FallBack(LocalCase):
    def served(self, place, *flags):
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(place), "--tokens.wait", "5s",
                          "--lanes", "1", *flags)
        self.warm(node, [engine])
        return engine, node

    def assert_asked(self, node, engine, body, count):
        before = self.asked(node)
        for _ in range(2):
            self.post(node, CHAT, body)
            self.in_step(node, [engine])
        self.assertEqual(self.asked(node) - before, count)
        last = self.decisions(node)[-1]
        self.assertEqual(last["predicted_tokens"], last["cached_tokens"])
        self.assertGreater(last["cached_tokens"], 0)

    def test_a_tokenizer_that_is_no_json(self):
        place = self.copy()
        (place / "tiny/tokenizer.json").write_text("{\"model\": ")
        engine, node = self.served(place)
        self.assert_asked(node, engine, {"messages": say(LONG)}, 1)
        self.assertIn("tokenizer", self.model_of(node)["why"])

    def test_a_normalizer_that_is_not_known_is_named(self):
        place = self.copy()
        file = place / "tiny/tokenizer.json"
        tokenizer = json.loads(file.read_text())
        tokenizer["normalizer"] = {"type": "Transmogrify"}
        file.write_text(json.dumps(tokenizer))
        engine, node = self.served(place)
        self.assert_asked(node, engine, {"messages": say(LONG)}, 1)
        self.assertIn("Transmogrify", self.model_of(node)["why"])

    def test_a_template_that_is_not_understood_is_named_with_its_line(self):
        place = self.copy()
        (place / "tiny/chat_template.jinja").write_text("{{ bos_token }}\n{% include 'x' %}")
        engine, node = self.served(place)
        self.assert_asked(node, engine, {"messages": say(LONG)}, 1)
        model = self.model_of(node)
        self.assertIn("line 2", model["why"])
        self.assertEqual((model["ways"]["text"], model["ways"]["chat"]), ("local", "engine"))

    def test_bodies_that_wait_for_a_thread_count_as_their_clients(self):
        engine, node = self.served(MODELS, "--limits.body_bytes_max", "1536KiB",
                                   "--limits.client_bytes_max", "3MiB")

        def local_and_busy(size):
            self.post(node, CHAT, {"messages": say(f"{size} {LONG}"), "user": "x" * size})
            self.in_step(node, [engine])
            return [harness.metric(node.at("admin"), name) for name in (
                "kvasir_tokens_local_total", 'kvasir_tokens_local_failed_total{reason="busy"}')]

        self.assertEqual(local_and_busy(100_000), [1, 0])
        self.assertEqual(local_and_busy(1_400_000), [1, 1])  # it is held twice then
        self.assertEqual(local_and_busy(200_000), [2, 1])

    def test_a_template_that_refuses_a_request_leaves_it_to_the_engine(self):
        _, node = self.served(MODELS)
        answer = harness.request(node.at("serve"), "POST", CHAT, {
            "model": "house/tiny", "messages": [{"role": "refuse", "content": LONG}]})
        self.assertEqual(answer.status, 400, answer.text)
        self.assertIn("this role is refused", answer.text)
        self.assertEqual(self.model_of(node)["refused"], 1)

    def test_a_way_is_switched_off_once_when_an_engine_counts_otherwise(self):
        place = self.copy()
        file = place / "tiny/chat_template.jinja"
        file.write_text(file.read_text().replace("<|im_end|>\\n", "<|im_end|>\\n\\n"))
        engine, node = self.served(place, "--log.level", "debug")
        self.post(node, CHAT, {"messages": say(LONG)})
        harness.wait_until(lambda: self.model_of(node)["ways"]["chat"] == "engine", "it is noticed")
        self.assert_asked(node, engine, {"messages": say(LONG + "?")}, 1)
        self.post(node, "/v1/completions", {"prompt": LONG})
        self.in_step(node, [engine])
        ways = self.model_of(node)["ways"]
        self.assertEqual((ways["text"], ways["chat"], ways["chat_tools"]),
                         ("local", "engine", "local"))
        self.assertEqual(node.log().count("tokens_differ"), 1)
        shown, = [line for line in node.log().splitlines() if "tokens_first_difference " in line]
        self.assertIn("model=tiny way=chat at=", shown)
        self.assertNotIn("ours=", shown)  # ids are what the client said
        shown, = [line for line in node.log().splitlines() if "difference_ids" in line]
        self.assertIn(" debug ", shown)
        self.assertIn("ours=", shown)

    def test_what_an_engine_makes_of_an_option_does_not_switch_chats_off(self):
        place = self.copy()
        with (place / "tiny/chat_template.jinja").open("a") as file:
            file.write("{% if odd %}odd{% endif %}")
        engine, node = self.served(place)
        self.post(node, CHAT, {"messages": say(LONG), "chat_template_kwargs": {"odd": True}})
        harness.wait_until(lambda: self.model_of(node)["ways"]["chat_options"] == "engine",
                           "it is noticed")
        self.assert_asked(node, engine, {"messages": say(LONG)}, 0)
        self.assertEqual([way for way, by in self.model_of(node)["ways"].items()
                          if by == "engine"], ["chat_options"])

    def test_a_way_is_switched_off_when_engines_store_other_ids_of_the_same_number(self):
        place = self.copy()
        file = place / "tiny/tokenizer.json"
        tokenizer = json.loads(file.read_text())
        ids = tokenizer["model"]["vocab"]
        ids["q"], ids["j"] = ids["j"], ids["q"]
        file.write_text(json.dumps(tokenizer))
        engine, node = self.served(place)
        numbers = itertools.count()

        def noticed():
            self.post(node, CHAT, {"messages": say(f"{next(numbers)} qjq {LONG}")})
            return self.model_of(node)["ways"]["chat"] == "engine"

        harness.wait_until(noticed, "three prompts were compared")
        self.assertGreaterEqual(self.model_of(node)["differed"], 3)
        self.assertEqual(node.log().count("tokens_differ"), 1)
        shown, = [line for line in node.log().splitlines() if "tokens_first_difference" in line]
        self.assertRegex(shown, "model=tiny way=chat at=[0-9]+")
        self.assertNotIn("ours=", shown)
        self.assert_asked(node, engine, {"messages": say(LONG)}, 1)

    def test_a_folder_that_is_missing_stops_nothing(self):
        engine, node = self.served("/nowhere/at/all")
        self.assert_asked(node, engine, {"messages": say(LONG)}, 1)
        self.assertIn("tokens_dir_unread", node.log())


class Told(LocalCase):
    def test_check_says_where_tokens_will_come_from(self):
        place = self.copy()
        shutil.copytree(place / "tiny", place / "house" / "other")
        (place / "house/other/tokenizer.json").write_text("{}")
        done = self.run_once("kvasir", "check", "--tokens.dir", place)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"model tiny: tokens are made here, by {place}/tiny\n", done.stderr)
        self.assertIn("warning: model house/other: ", done.stderr)
        # What is there and gives nothing is not taken for absent.
        for name in ("tokenizer.json", "chat_template.jinja", "tokenizer_config.json"):
            shutil.copytree(place / "tiny", place / "empty", dirs_exist_ok=True)
            (place / "empty" / name).write_text("")
            done = self.run_once("kvasir", "check", "--tokens.dir", place)
            self.assertIn(f"warning: model empty: {place}/empty: {name}: cannot be read, is empty",
                          done.stderr)
            shutil.rmtree(place / "empty")
        done = self.run_once("kvasir", "check", "--tokens.dir", place / "nothing")
        self.assertIn("warning: tokens.dir: ", done.stderr)

    def test_models_are_found_as_the_hub_keeps_them(self):
        place = self.copy()
        hub = place / "models--house--tiny"
        for name in ("aaa", "bbb"):
            shutil.copytree(place / "tiny", hub / "snapshots" / name)
        (hub / "refs").mkdir()
        (hub / "refs/main").write_text("aaa\n")
        shutil.rmtree(place / "tiny")
        done = self.run_once("kvasir", "check", "--tokens.dir", place)
        self.assertIn(f"model house/tiny: tokens are made here, by {hub}/snapshots/aaa\n",
                      done.stderr)

    def test_metrics_count_by_model(self):
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(MODELS))
        self.warm(node, [engine])
        self.post(node, CHAT, {"messages": say(LONG)})
        page = harness.metrics(node.at("admin"))
        self.assertEqual(page['kvasir_model_tokens_local_total{model="tiny"}'], 1)
        self.assertEqual(page["kvasir_tokens_local_total"], 1)
        self.assertEqual(page["kvasir_model_files_differ"], 0)

    def test_nodes_with_other_files_say_so(self):
        place = self.copy()
        file = place / "tiny/chat_template.jinja"
        file.write_text(file.read_text() + "{# other #}")
        first = self.member(MODELS)
        second = self.member(place, "--mesh.join", first.ready["mesh"])
        for node in (first, second):
            harness.wait_until(lambda node=node: self.status(node)["model_files_differ"] == 1,
                               "they differ")
        self.assertIn("model_files_differ", first.log())
        shutil.copy(MODELS / "tiny/chat_template.jinja", file)
        second.signal(signal.SIGHUP)
        for node in (first, second):
            harness.wait_until(lambda node=node: self.status(node)["model_files_differ"] == 0,
                               "they agree")

    def test_a_way_that_an_engine_switched_off_at_one_node_is_off_at_all(self):
        place = self.copy()
        file = place / "tiny/chat_template.jinja"
        file.write_text(file.read_text().replace("<|im_end|>\\n", "<|im_end|>\\n\\n"))
        engine = self.tiny()
        flags = ("--tokens.dir", str(place), "--mesh.listen", "127.0.0.1:0")
        first = self.serve([engine], *flags, "--name", "n1")
        second = self.serve([engine], *flags, "--name", "n2", "--mesh.join", first.ready["mesh"])
        self.warm(first, [engine])
        self.post(first, CHAT, {"messages": say(LONG)})
        for node in (first, second):
            harness.wait_until(lambda node=node: self.model_of(node)["ways"]["chat"] == "engine",
                               "it is off")
        self.assertEqual(self.model_of(second)["answered"], 0)
        self.assertEqual(self.model_of(second)["ways"]["text"], "local")
        self.assertEqual((first.log().count("tokens_differ"),
                          second.log().count("tokens_differ_at_peer")), (1, 1))

    def member(self, place, *flags):
        return self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--mesh.listen", "127.0.0.1:0", "--name", f"n{len(flags)}",
                          "--tokens.dir", str(place), *flags)


class Embeddings(LocalCase):
    def test_a_text_goes_where_its_tokens_are_cached(self):
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(MODELS), "--tokens.wait", "5s")
        self.warm(node, [engine])
        for _ in range(2):
            usage = self.post(node, "/v1/completions", {"prompt": LONG}).json()["usage"]
            self.in_step(node, [engine])
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        self.assertGreater(cached, 0)
        for body, source in (({"input": LONG}, "mirror"), ({"input": [LONG]}, "mirror"),
                             ({"input": [LONG, "no " + LONG]}, "mirror"),
                             ({"input": LONG, "truncate_prompt_tokens": 70}, "belief")):
            with self.subTest(**body):
                answer = self.post(node, "/v1/embeddings", body)
                placed, = [d for d in self.decisions(node)
                           if d["id"] == answer.headers["x-request-id"]]
                self.assertEqual(placed["source"], source)
                if source == "mirror":
                    self.assertEqual(placed["predicted_tokens"], cached)
        self.assertEqual(self.model_of(node)["ways"]["embeddings"], "local")
        self.assertEqual(self.asked(node), 0)
        for task, source, predicted in (("embed", "mirror", cached), ("classify", "mirror", cached),
                                        ("token_embed", "mirror", 0), (None, "belief", 0)):
            with self.subTest(task=task):
                answer = self.post(node, "/pooling", {"input": LONG, "task": task})
                placed, = [d for d in self.decisions(node)
                           if d["id"] == answer.headers["x-request-id"]]
                self.assertEqual((placed["source"], placed["predicted_tokens"]),
                                 (source, predicted))

    def test_several_texts_go_where_the_first_one_s_tokens_are_cached(self):
        engines = [self.tiny(name="engine-1"), self.tiny(name="engine-2")]
        node = self.serve(engines, "--tokens.dir", str(MODELS), "--tokens.wait", "5s")
        self.warm(node, engines)
        for text in (LONG, "no " + LONG, LONG + LONG):
            start = len(self.decisions(node))
            self.post(node, "/v1/completions", {"prompt": text})
            self.in_step(node, engines)
            self.post(node, "/v1/embeddings", {"input": [text, "two", "three"]})
            first, all_three = self.decisions(node)[start:]
            self.assertEqual((all_three["source"], all_three["worker"]),
                             ("mirror", first["worker"]))
            self.assertGreater(all_three["predicted_tokens"], 0)
        self.assertEqual(self.asked(node), 0)
        self.assertEqual(self.model_of(node)["wrong"], 0)


class Count(LocalCase):
    """/v1/messages/count_tokens, answered here."""
    PATH = "/v1/messages/count_tokens"
    MESSAGES = [(name, body) for name, path, body in SHAPES if path == "/v1/messages"]

    def ask(self, address, body):
        answer = harness.request(address, "POST", self.PATH, {"model": "house/tiny", **body})
        self.assertEqual(answer.status, 200, answer.text)
        return answer.json()

    def counted(self, node):
        return harness.metric(node.at("admin"), "kvasir_counts_local_total")

    def refusing(self, *flags):
        """A node whose one worker cannot be reached."""
        closed = socket.socket()
        self.addCleanup(closed.close)
        closed.bind(("127.0.0.1", 0))
        return self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", f"http://127.0.0.1:{closed.getsockname()[1]}",
                          "--tokens.dir", str(MODELS), *flags)

    def test_it_is_what_the_engine_counts_and_no_engine_is_asked(self):
        engine = self.tiny()
        node = self.refusing("--log.requests", "all")
        shapes = [*self.MESSAGES, ("Chinese", {"messages": say(CHINESE)}),
                  ("long", {"messages": say(LONG * 200, "I do.", CHINESE * 100)})]
        for name, body in shapes:
            with self.subTest(shape=name):
                own = self.ask(engine.at("http"), body)
                self.assertGreater(own["input_tokens"], 20)
                self.assertEqual(self.ask(node.at("serve"), body), own)
        self.assertEqual(self.counted(node), len(shapes))
        self.assertEqual(harness.metric(node.at("admin"), 'kvasir_attempts_failed_total{reason="connect"}'), 0)
        lines = [line for line in node.log().splitlines() if " request " in line]
        self.assertEqual(len(lines), len(shapes))
        for line in lines:
            self.assertIn("end=done", line)
            self.assertIn("status=200", line)

    def test_it_is_what_the_message_then_costs(self):
        node = self.serve([self.tiny()], "--tokens.dir", str(MODELS))
        for name, body in self.MESSAGES:
            with self.subTest(shape=name):
                usage = self.post(node, "/v1/messages", body).json()["usage"]
                self.assertEqual(self.ask(node.at("serve"), body)["input_tokens"],
                                 usage["input_tokens"] + usage.get("cache_read_input_tokens", 0))
        self.assertEqual(self.counted(node), len(self.MESSAGES))

    def test_what_the_files_do_not_do_for_goes_to_an_engine(self):
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(MODELS))
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png",
                                               "data": "iVBORw0KGgo="}}
        body = {"messages": [{"role": "user", "content": [
            {"type": "text", "text": LONG}, picture]}]}
        self.assertEqual(self.ask(node.at("serve"), body), self.ask(engine.at("http"), body))
        other = {"model": "other", "messages": say(LONG)}
        answer = harness.request(node.at("serve"), "POST", self.PATH, other)
        self.assertEqual(answer.status, 404, answer.text)
        bad = harness.request(node.at("serve"), "POST", self.PATH, {"model": "house/tiny"})
        own = harness.request(engine.at("http"), "POST", self.PATH, {"model": "house/tiny"})
        self.assertEqual(bad.status, own.status, bad.text)
        self.assertEqual(self.counted(node), 0)

    def test_a_way_that_is_switched_off_is_counted_by_the_engine(self):
        place = self.copy()
        file = place / "tiny/chat_template.jinja"
        file.write_text(file.read_text().replace("<|im_end|>\\n", "<|im_end|>\\n\\n"))
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(place))
        self.warm(node, [engine])
        body = {"messages": say(LONG)}
        self.assertNotEqual(self.ask(node.at("serve"), body), self.ask(engine.at("http"), body))
        self.post(node, "/v1/messages", body)
        harness.wait_until(lambda: self.model_of(node)["ways"]["messages"] == "engine", "it is off")
        self.assertEqual(self.ask(node.at("serve"), body), self.ask(engine.at("http"), body))
        self.assertEqual(self.counted(node), 1)

    def test_without_room_for_a_thread_an_engine_is_asked(self):
        engine = self.tiny("--max-model-len", "4000000")
        node = self.serve([engine], "--tokens.dir", str(MODELS), "--lanes", "1",
                          "--limits.body_bytes_max", "1536KiB", "--limits.client_bytes_max", "3MiB")
        body = {"messages": say("word " * 280_000)}  # it would be held twice
        self.assertEqual(self.ask(node.at("serve"), body), self.ask(engine.at("http"), body))
        self.assertEqual(self.counted(node), 0)
        self.assertEqual(harness.metric(
            node.at("admin"), 'kvasir_tokens_local_failed_total{reason="busy"}'), 1)

    def test_it_is_a_request_of_its_tenant(self):
        node = self.refusing("--limits.tenant_requests", "2/h")
        for _ in range(2):
            self.ask(node.at("serve"), {"messages": say(LONG)})
        answer = harness.request(node.at("serve"), "POST", self.PATH,
                                 {"model": "house/tiny", "messages": say(LONG)})
        self.assertEqual(answer.status, 429, answer.text)
        self.assertEqual(answer.json()["error"]["type"], "rate_limit_error")

    def test_clients_that_leave_while_a_thread_counts_leave_nothing(self):
        node = self.refusing("--lanes", "1")
        body = json.dumps({"model": "house/tiny", "messages": say(CHINESE * 400)}).encode()
        head = (f"POST {self.PATH} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\n\r\n").encode()
        for _ in range(20):
            with socket.create_connection(node.at("serve")) as client:
                client.sendall(head + body)
        harness.wait_until(lambda: self.status(node)["requests"]["inflight"] == 0, "all is over")
        self.ask(node.at("serve"), {"messages": say(LONG)})


class Reload(LocalCase):
    def test_files_are_read_again_and_kept_where_they_are_the_same(self):
        place = self.copy()
        broken = (place / "tiny/tokenizer.json").read_text()
        (place / "tiny/tokenizer.json").write_text("no")
        engine = self.tiny()
        node = self.serve([engine], "--tokens.dir", str(place), "--tokens.wait", "5s")
        self.warm(node, [engine])
        self.assertNotEqual(self.model_of(node)["why"], "")
        (place / "tiny/tokenizer.json").write_text(broken)
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.model_of(node)["why"] == "", "the files are read")
        self.post(node, CHAT, {"messages": say(LONG)})
        version = self.model_of(node)["version"]
        answer = harness.request(node.at("admin"), "POST", "/admin/reload")
        self.assertEqual(answer.json()["model_files"], [str(place)])
        self.post(node, CHAT, {"messages": say(LONG)})
        harness.wait_until(lambda: self.model_of(node)["answered"] == 2, "it was made here")
        self.assertEqual(self.model_of(node)["version"], version)
        self.assertEqual(self.asked(node), 0)

    def test_models_that_are_named_come_and_go_with_the_configuration(self):
        engine = self.tiny()
        file = self.copy() / "kvasir.yaml"
        file.write_text("{}")
        node = self.serve([engine], "--config", str(file), "--tokens.wait", "5s")
        self.warm(node, [engine])
        self.assertEqual(self.status(node)["models"], [])
        file.write_text("models:\n- name: house/tiny\n  path: %s\n  content: string\n"
                        % (MODELS / "tiny/tokenizer.json"))
        answer = harness.request(node.at("admin"), "POST", "/admin/reload")
        self.assertEqual(answer.json()["applied"], ["models"])
        self.assertEqual(answer.json()["model_files"], [str(MODELS / "tiny/tokenizer.json")])
        harness.wait_until(lambda: self.status(node)["models"], "the files are read")
        self.post(node, CHAT, {"messages": say(LONG)})
        harness.wait_until(lambda: self.model_of(node)["answered"] == 1, "it was made here")
        self.assertEqual(self.asked(node), 0)
        file.write_text("{}")
        node.signal(signal.SIGHUP)
        harness.wait_until(lambda: self.status(node)["models"] == [], "they are gone")


if __name__ == "__main__":
    harness.main()
