"""Tools of /v1/messages and /v1/responses before an engine that knows chats alone: a call, its
result, the answer to it, whole and streamed, by plain HTTP and by the official clients."""
import json
import pathlib
import subprocess
import sys

import harness
from test_anthropic import packages_of
from test_messages import events_of
from test_openai import CLIENT_TIMEOUT_S, OPENAI, modules_of
from test_openai_limits import ANTHROPIC

HERE = pathlib.Path(__file__).resolve().parent
MODEL = "kvasir/stand-in"
SCHEMA = {"type": "object", "properties": {"town": {"type": "string"}}}
ASKED = {"role": "user", "content": "call weather"}


class Tools(harness.Case):
    def setUp(self):
        super().setUp()
        engine = self.start("kvasir-engine", "--port", "0", "--speed", "50", "--engine", "tgi")
        self.node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin",
                               "127.0.0.1:0", "--worker", engine.url("http"))
        harness.wait_until(
            lambda: harness.request(self.node.at("serve"), "GET", "/ready").status == 200,
            "it is ready")

    def ask(self, path, body):
        """The whole answer; the events of the streamed one."""
        got = [harness.request(self.node.at("serve"), "POST", path,
                               {"model": MODEL, **body, "stream": stream})
               for stream in (False, True)]
        self.assertEqual([g.status for g in got], [200, 200], got[0].text)
        return got[0].json(), events_of(got[1].text)

    def messages(self, *messages, **more):
        return self.ask("/v1/messages", {
            "max_tokens": 9, "messages": messages,
            "tools": [{"name": "weather", "input_schema": SCHEMA}], **more})

    def responses(self, *items, **more):
        return self.ask("/v1/responses", {
            "max_output_tokens": 9, "input": items,
            "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA}], **more})

    def test_messages(self):
        whole, events = self.messages(ASKED)
        use, = whole["content"]
        self.assertEqual((whole["stop_reason"], use["type"], use["name"]),
                         ("tool_use", "tool_use", "weather"))
        self.assertEqual(len(use["input"]["town"].split()), 9)
        parts = [e["delta"]["partial_json"] for e in events if e["type"] == "content_block_delta"]
        self.assertEqual(len(parts), 9)
        self.assertEqual(json.loads("".join(parts)), use["input"])
        self.assertEqual(events[-2]["delta"]["stop_reason"], "tool_use")
        whole, events = self.messages(
            ASKED, {"role": "assistant", "content": [use]}, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": use["id"], "content": "rain"}]})
        self.assertEqual("".join(e["delta"]["text"] for e in events
                                 if e["type"] == "content_block_delta"), whole["content"][0]["text"])
        whole, _ = self.messages({"role": "user", "content": "hello"}, tool_choice={"type": "any"})
        self.assertEqual(whole["content"][0]["name"], "weather")
        whole, _ = self.messages({"role": "user", "content": "hello"})
        self.assertEqual(whole["content"][0]["type"], "text")

    def test_responses(self):
        whole, events = self.responses(ASKED)
        call, = whole["output"]
        self.assertEqual((whole["status"], call["type"], call["name"]),
                         ("completed", "function_call", "weather"))
        parts = [e["delta"] for e in events
                 if e["type"] == "response.function_call_arguments.delta"]
        self.assertEqual("".join(parts), call["arguments"])
        self.assertEqual(events[-1]["response"]["output"][0]["arguments"], call["arguments"])
        whole, events = self.responses(ASKED, call, {
            "type": "function_call_output", "call_id": call["call_id"], "output": "rain"})
        self.assertEqual("".join(e["delta"] for e in events
                                 if e["type"] == "response.output_text.delta"),
                         whole["output"][0]["content"][0]["text"])
        whole, _ = self.responses({"role": "user", "content": "hello"},
                                  tool_choice={"type": "function", "name": "weather"})
        self.assertEqual(whole["output"][0]["name"], "weather")

    def play(self, *command):
        got = subprocess.run([*command, self.node.url("serve"), MODEL], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=CLIENT_TIMEOUT_S, check=False)
        self.assertEqual(got.returncode, 0, got.stdout)

    def test_the_official_clients_for_node(self):
        for vendor, package, version in (("anthropic", "@anthropic-ai/sdk", ANTHROPIC),
                                         ("openai", "openai", OPENAI)):
            self.play("node", HERE / "tools_client.mjs", vendor, modules_of(package, version))

    def test_the_official_clients_for_python(self):
        for vendor in ("anthropic", "openai"):
            self.play(sys.executable, HERE / "tools_client.py", vendor, packages_of(vendor))


if __name__ == "__main__":
    harness.main()
