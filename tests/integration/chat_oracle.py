"""Chat templates as transformers renders them, with the real jinja2, and
generated conversations to hold `kvasir render` to.

jinja2 is looked for beside this interpreter, else in the virtual environment
that KVASIR_JINJA names (python3 -m venv DIR; DIR/bin/pip install jinja2).
"""
import datetime
import glob
import json
import os
import random
import sys

for _folder in glob.glob(os.path.join(os.environ.get("KVASIR_JINJA", ""),
                                      "lib/python3*/site-packages")):
    sys.path.append(_folder)
try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    jinja2 = None

REASONING = ("reasoning_content", "thinking", "reasoning")
WORDS = ["hello", "Wörld", "日本語", "😀 ok", " spaced ", "line\nbreak", "",
         "a\"b'c", "<b>&</b>", "Reasoning effort: high", "<think>x</think>y",
         "tab\t", "\\n", "{{ x }}", "é́", "ß", "x" * 50, "</think>",
         "<think>deep</think>\n\nanswer", "/no_think", "None", "[TOOL]"]


def environment():
    """As _cached_compile_jinja_template() of transformers 5.23."""
    class Generation(jinja2.ext.Extension):
        tags = {"generation"}

        def parse(self, parser):
            line = next(parser.stream).lineno
            body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
            call = self.call_method("_support")
            return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

        @jinja2.pass_eval_context
        def _support(self, _context, caller):
            return caller()

    class Namespace(jinja2.utils.Namespace):
        def __setitem__(self, name, value):
            if name.startswith("_"):
                raise jinja2.exceptions.SecurityError(name)
            jinja2.utils.Namespace.__setitem__(self, name, value)

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent,
                          separators=separators, sort_keys=sort_keys)

    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals.update(raise_exception=raise_exception, dict=dict, namespace=Namespace,
                        strftime_now=lambda f: datetime.datetime.now().strftime(f))
    return made


def aliased(message):
    reasoning = next((message[key] for key in REASONING
                      if message.get(key) is not None), None)
    if reasoning is None:
        return message
    return {"thinking": reasoning, **message, "reasoning_content": reasoning}


def render(template, body, tokens):
    """The text as bytes; None: an error."""
    prompt = body.get("add_generation_prompt", True)
    fields = {**tokens, **body.get("chat_template_kwargs", {}),
              "messages": [aliased(m) for m in body["messages"]],
              "tools": body.get("tools"), "documents": body.get("documents"),
              "add_generation_prompt": prompt}
    try:
        return template.render(**fields).encode()
    except Exception:  # whatever Python raises, it is an error
        return None


class Generator:
    """Requests from a seed: tools, parts, empty and odd ones."""

    def __init__(self, seed):
        self.r = random.Random(seed)

    def often(self, chance):
        return self.r.random() < chance

    def text(self):
        return " ".join(self.r.choice(WORDS) for _ in range(self.r.randint(0, 4)))

    def scalar(self):
        return self.r.choice([None, True, False, 0, 1, -5, 3.5, 1e20, 1e-7, 0.1,
                              2**70, 12345678901, self.text(), ""])

    def value(self, depth=0):
        kind = self.r.random()
        if depth > 3 or kind < 0.6:
            return self.scalar()
        if kind < 0.8:
            return [self.value(depth + 1) for _ in range(self.r.randint(0, 3))]
        return {self.r.choice(["a", "b", "Z", "name", "type", "é", "items"]):
                self.value(depth + 1) for _ in range(self.r.randint(0, 4))}

    def schema(self, depth=0):
        kind = self.r.choice(["string", "integer", "number", "boolean", "array", "object"])
        made = {"type": [kind, "null"] if self.often(0.1) else kind}
        if self.often(0.7):
            made["description"] = self.text()
        if self.often(0.2):
            made["enum"] = [self.text(), "b"]
        if self.often(0.15):
            made["nullable"] = True
        if kind == "array" and self.often(0.8):
            made["items"] = self.schema(depth + 1) if depth < 3 else {"type": "string"}
        if kind == "object" and depth < 3:
            names = self.r.sample(["x", "Y", "city", "unit"], self.r.randint(0, 3))
            made["properties"] = {n: self.schema(depth + 1) for n in names}
            if self.often(0.5):
                made["required"] = names[:2]
        return made

    def tool(self):
        made = {"name": self.r.choice(["get_weather", "ns.search", "python"])}
        if self.often(0.9):
            made["description"] = self.text()
        if self.often(0.9):
            names = self.r.sample(["location", "unit", "q"], self.r.randint(0, 3))
            made["parameters"] = {"type": "object",
                                  "properties": {n: self.schema() for n in names}}
            if self.often(0.6):
                made["parameters"]["required"] = names[:1]
        return made if self.often(0.08) else {"type": "function", "function": made}

    def part(self):
        if self.often(0.75):
            return {"type": "text", "text": self.text()}
        return self.r.choice([{"type": "image"}, {"type": "video"},
                              {"type": "image_url", "image_url": {"url": "http://x"}}])

    def content(self):
        kind = self.r.random()
        if kind < 0.7:
            return self.text()
        if kind < 0.87:
            return [self.part() for _ in range(self.r.randint(0, 3))]
        return None if kind < 0.95 else self.scalar()

    def call(self):
        names = self.r.sample(["location", "unit", "q"], self.r.randint(0, 3))
        given = {n: self.value(1) for n in names} if self.often(0.9) else self.value(2)
        made = {"type": "function", "id": self.r.choice(["call_1", "abcdefghi"]),
                "function": {"name": self.r.choice(["get_weather", "f"]),
                             "arguments": json.dumps(given) if self.often(0.3) else given}}
        if self.often(0.1):
            del made["id"]
        return made["function"] if self.often(0.05) else made

    def message(self, role):
        made = {"role": role}
        if self.often(0.96):
            made["content"] = self.content()
        if role == "assistant":
            if self.often(0.4):
                made["tool_calls"] = [self.call() for _ in range(self.r.randint(0, 2))]
            if self.often(0.3):
                made[self.r.choice(REASONING)] = self.text()
        if role == "tool":
            if self.often(0.8):
                made["tool_call_id"] = self.r.choice(["call_1", "abcdefghi"])
            if self.often(0.5):
                made["name"] = "get_weather"
        return made

    def roles(self):
        made = ["system"] if self.often(0.5) else []
        for i in range(self.r.choice([0, 1, 1, 2, 3, 4, 6, 9])):
            made.append(("user", "assistant")[i % 2])
            if i % 2 and self.often(0.4):
                made += ["tool"] * self.r.randint(1, 2)
        odd = ["developer", "user", "odd", "system", "tool", "ipython"]
        return [self.r.choice(odd) if self.often(0.05) else role for role in made]

    def body(self):
        made = {"messages": [self.message(role) for role in self.roles()]}
        if self.often(0.7):
            made["add_generation_prompt"] = self.often(0.5)
        if self.often(0.5):
            made["tools"] = [self.tool() for _ in range(self.r.randint(0, 3))]
        if self.often(0.15):
            made["documents"] = [{"title": self.text(), "text": self.text()}]
        made["chat_template_kwargs"] = {
            name: value for name, value in [
                ("enable_thinking", self.often(0.5)), ("thinking", self.often(0.5)),
                ("reasoning_effort", "high"), ("date_string", "26 Jul 2024"),
                ("builtin_tools", ["python"]), ("tools_in_user_message", False),
                ("response_format", {"type": "json_schema", "schema": {"b": 1, "a": [1]}}),
            ] if self.often(0.2)}
        return made
