"""The official clients of Anthropic for /v1/messages and of OpenAI for /v1/responses, through a
node in front of an engine that knows chats alone: {messages,responses}_client.{mjs,py} are what
they do."""
import fcntl
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

import harness
from fake_worker import Close, FakeWorker
from test_messages import call, chunk, say, without
from test_openai import CLIENT_TIMEOUT_S, INSTALL_TIMEOUT_S, OPENAI, modules_of
from test_openai_limits import ANTHROPIC

HERE = pathlib.Path(__file__).resolve().parent
PYPI = {"anthropic": "2.14.0", "openai": "3.57.0", "opentelemetry-proto": "1.45.2"}
USAGE = {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15,
         "prompt_tokens_details": {"cached_tokens": 8}}


def packages_of(package):
    """The directory that holds a Python client, installed once into the build; raises SkipTest
    where that cannot be."""
    version = PYPI[package]
    folder = harness.BUILD / f"pypi-{package}-{version}"
    with open(harness.BUILD / f"{folder.name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (folder / "complete").exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input",
                   "--disable-pip-version-check", "--target", folder, f"{package}=={version}"]
        try:
            got = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                 timeout=INSTALL_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired:
            raise unittest.SkipTest("PyPI does not answer in time") from None
        if got.returncode != 0:
            why = (got.stderr.strip() or f"code {got.returncode}").splitlines()
            raise unittest.SkipTest(f"pip cannot install {package}: {why[-1]}")
        (folder / "complete").touch()
    return folder


def said(body):
    """What the user said last, and what a picture or a tool brought."""
    last = body["messages"][-1]
    if last["role"] == "tool":
        return f"It says {last['content']}."
    if isinstance(last["content"], list):
        return "I see " + last["content"][0]["image_url"]["url"]
    return "Good day."


def answer(peer, request):
    body = request.json()
    last = body["messages"][-1]
    if last["content"] == "too long":
        peer.json({"error": {"message": "longer than the model can read",
                             "type": "BadRequestError", "code": 400}}, 400)
    elif last["content"] == "die":
        peer.begin_stream()
        peer.chunk(f"data: {json.dumps(chunk({'content': 'Good '}))}\n\n".encode())
        raise Close
    elif body.get("tools") and last["role"] != "tool":
        (stream_tool if body.get("stream") else whole_tool)(peer, '{"town": "Oslo"}')
    elif body.get("stream"):
        say(peer, [chunk({"role": "assistant", "content": ""}), chunk({"content": "Good "}),
                   chunk({"content": "day."}), chunk({}, "stop"),
                   {**chunk({}), "choices": [], "usage": USAGE}])
    else:
        whole(peer, {"content": said(body)}, "stop")


def whole(peer, message, finish):
    peer.json({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE,
               "choices": [{"index": 0, "finish_reason": finish,
                            "message": {"role": "assistant", **message}}]})


def whole_tool(peer, arguments):
    whole(peer, {"content": None, "tool_calls": [
        {"id": "call_1", "type": "function",
         "function": {"name": "weather", "arguments": arguments}}]}, "tool_calls")


def stream_tool(peer, arguments):
    say(peer, [chunk({"role": "assistant", "content": "", "reasoning_content": "hm"}),
               chunk(call(0, "", id="call_1", type="function", function={"name": "weather"})),
               chunk(call(0, arguments[:5])), chunk(call(0, arguments[5:])),
               chunk({}, "tool_calls"), {**chunk({}), "choices": [], "usage": USAGE}])


def serve(peer, request):
    """Chats and counts, and nothing else."""
    if request.target == "/tokenize":
        peer.json({"count": 12})
    else:
        without(answer)(peer, request)


class Vendor(harness.Case):
    def play(self, *command, steps):
        worker = FakeWorker(self, serve)
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          "--worker", worker.url)
        harness.wait_until(
            lambda: harness.request(node.at("serve"), "GET", "/ready").status == 200, "it is ready")
        got = subprocess.run([*command, node.url("serve"), "m"], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             timeout=CLIENT_TIMEOUT_S, check=False)
        sys.stderr.write(got.stdout)
        self.assertEqual(got.returncode, 0, got.stdout)
        self.assertTrue(got.stdout.endswith(f"done {steps}\n"))


class Anthropic(Vendor):
    def test_the_official_client_for_node_works(self):
        self.play("node", HERE / "messages_client.mjs", modules_of("@anthropic-ai/sdk", ANTHROPIC),
                  steps=8)

    def test_the_official_client_for_python_works(self):
        self.play(sys.executable, HERE / "messages_client.py", packages_of("anthropic"), steps=6)


class OpenAI(Vendor):
    def test_the_official_client_for_node_works(self):
        self.play("node", HERE / "responses_client.mjs", modules_of("openai", OPENAI), steps=4)

    def test_the_official_client_for_python_works(self):
        self.play(sys.executable, HERE / "responses_client.py", packages_of("openai"), steps=4)


if __name__ == "__main__":
    harness.main()
