"""`kvasir render`: the text of a chat request, as transformers makes it."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import chat_oracle

KVASIR = pathlib.Path(os.environ["KVASIR_BUILD"]) / "node" / "kvasir"
ROUNDS = int(os.environ.get("KVASIR_RENDER_ROUNDS", "12"))
TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
TEMPLATE = ("{{ bos_token }}{% for m in messages %}{{ m.role }}:{{ m.content }}"
            "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}>{% endif %}")
HELLO = {"messages": [{"role": "user", "content": "hé"}]}


def render(body, *args):
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return subprocess.run([KVASIR, "render", *args], input=text,
                          capture_output=True, timeout=60)


class Render(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def put(self, name, text):
        text = text if isinstance(text, str) else json.dumps(text)
        (self.folder / name).write_text(text)
        return self.folder / name

    def text(self, body, *args):
        told = render(body, *args)
        self.assertEqual((told.returncode, told.stderr), (0, b""))
        return told.stdout.decode()

    def test_template_and_special_tokens_come_from_the_files(self):
        self.put("tokenizer_config.json", {
            "bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": False},
            "pad_token": None, "chat_template": TEMPLATE})
        self.assertEqual(self.text(HELLO, "--files", self.folder), "<s>user:hé</s>>")
        self.put("chat_template.jinja", "own {{ bos_token }}")
        self.assertEqual(self.text(HELLO, "--files", self.folder), "own <s>")
        other = self.put("other.jinja", "other {{ bos_token }}{{ eos_token }}\n")
        self.assertEqual(self.text(HELLO, "--template", other), "other ")
        self.assertEqual(self.text(HELLO, "--template", other, "--files", self.folder),
                         "other <s></s>")

    def test_tools_choose_the_template_for_tools(self):
        self.put("tokenizer_config.json", {"chat_template": [
            {"name": "default", "template": "plain"},
            {"name": "tool_use", "template": "{{ tools|length }} tools"}]})
        self.assertEqual(self.text(HELLO, "--files", self.folder), "plain")
        self.assertEqual(self.text({**HELLO, "tools": [{}]}, "--files", self.folder),
                         "1 tools")

    def test_request_fields_reach_the_template(self):
        template = self.put("t.jinja", "{{ add_generation_prompt }} {{ tools }} {{ documents }}"
                            " {{ a }} {{ reasoning_effort }} {{ messages[0].reasoning_content }}")
        body = {"messages": [{"role": "user", "reasoning": "why"}], "reasoning_effort": "low",
                "chat_template_kwargs": {"a": [1, None]}, "add_generation_prompt": False}
        self.assertEqual(self.text(body, "--template", template),
                         "False None None [1, None] low why")
        self.assertEqual(self.text(HELLO, "--template", template), "True None None   ")

    def test_the_last_message_can_be_continued(self):
        template = self.put("t.jinja", TEMPLATE)
        for content, end in [("part", "part"), ("part ", "part "),
                             ([{"type": "text", "text": "par"}], "par")]:
            body = {"messages": [{"role": "user", "content": content}],
                    "continue_final_message": True}
            if isinstance(content, list):
                template = self.put("t.jinja", "{{ messages[0].content[0].text|trim }}!")
                self.assertEqual(self.text(body, "--template", template), end)
            else:
                self.assertEqual(self.text(body, "--template", template), f"user:{end}")
        body["add_generation_prompt"] = True
        self.assertEqual(render(body, "--template", template).returncode, 1)

    def test_a_fault_has_the_template_s_line_and_prints_nothing(self):
        template = self.put("t.jinja", "a\n{% if messages %}\n{{ raise_exception('not so') }}{% endif %}")
        told = render(HELLO, "--template", template)
        self.assertEqual((told.returncode, told.stdout, told.stderr),
                         (1, b"", b"kvasir render: line 3 of the template: not so\n"))
        told = render(HELLO, "--template", self.put("t.jinja", "a\n{% nope %}"))
        self.assertEqual((told.returncode, told.stdout, told.stderr),
                         (1, b"", b"kvasir render: line 2 of the template: unknown tag 'nope'\n"))

    def test_bad_usage_is_told(self):
        template = self.put("t.jinja", TEMPLATE)
        for body, args in [(b"{", ["--template", template]), (b"", ["--template", template]),
                           (HELLO, []), (HELLO, ["--template", self.folder / "none"])]:
            told = render(body, *args)
            self.assertEqual((told.returncode, told.stdout), (2, b""))
            self.assertTrue(told.stderr.startswith(b"kvasir render: "), told.stderr)
        self.assertEqual(render(HELLO, "--files", self.folder).returncode, 1)


class Oracle(unittest.TestCase):
    def test_every_template_renders_as_with_jinja2(self):
        if chat_oracle.jinja2 is None:
            self.skipTest("jinja2 is not installed; KVASIR_JINJA can name a venv that has it")
        shared = next((f / "shared" / "data" / "chat-templates"
                       for f in pathlib.Path(__file__).resolve().parents
                       if (f / "shared" / "data" / "chat-templates").is_dir()), None)
        if shared is None:
            self.skipTest("there is no ../shared/data/chat-templates beside the project")
        environment = chat_oracle.environment()
        texts = errors = 0
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "tokenizer_config.json")
            config.write_text(json.dumps(TOKENS))
            for path in sorted(shared.glob("*.jinja")):
                template = environment.from_string(path.read_text())
                for i in range(ROUNDS):
                    body = chat_oracle.Generator(f"{path.name} {i}").body()
                    before = chat_oracle.render(template, body, TOKENS)
                    told = render(body, "--template", path, "--files", folder)
                    got = told.stdout if told.returncode == 0 else None
                    # The date may have changed meanwhile.
                    if got != before:
                        wanted = chat_oracle.render(template, body, TOKENS)
                        self.assertEqual(got, wanted, f"{path.name}, round {i}: "
                                         f"{json.dumps(body)} {told.stderr.decode()}")
                    self.assertIn(told.returncode, (0, 1))
                    texts += got is not None
                    errors += got is None
        self.assertGreater(texts, errors / 4)


if __name__ == "__main__":
    unittest.main()
