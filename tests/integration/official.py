"""The official clients of OpenAI and Anthropic, as programs that a test tells what to ask:

    client = official.openai_python(self)      # skips the test where it cannot be had
    client.ask(url, "chat", True, model="m", messages=[...], max_tokens=9)
        {"text": ..., "finish": ..., "model": ..., "tokens": [of the prompt, of the answer]}
    client.call(url, "models.list")            # what the client's method returns

official_client.{py,mjs} are the programs."""
import contextlib
import json
import pathlib
import subprocess
import sys
import threading

import harness
from test_anthropic import packages_of
from test_openai import CLIENT_TIMEOUT_S, OPENAI, modules_of
from test_openai_limits import ANTHROPIC

MODEL = "m"
TOKENS = 40
HERE = pathlib.Path(__file__).resolve().parent
APIS = {"openai": ("chat", "completions", "responses"), "anthropic": ("messages",)}


class Client:
    """One that waits for questions."""

    def __init__(self, case, vendor, *command):
        self.case = case
        self.apis = APIS[vendor]
        self.popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, bufsize=1)
        case.addCleanup(self.end)

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.popen.stdin.close()
        guard = threading.Timer(CLIENT_TIMEOUT_S, self.popen.kill)
        guard.start()
        code = self.popen.wait()
        guard.cancel()
        self.popen.stdout.close()
        self.case.assertEqual(code, 0, "the client failed")

    def tell(self, **words):
        self.popen.stdin.write(json.dumps(words) + "\n")

    def hear(self):
        guard = threading.Timer(CLIENT_TIMEOUT_S, self.popen.kill)
        guard.start()
        line = self.popen.stdout.readline()
        guard.cancel()
        self.case.assertNotEqual(line, "", "the client ended, or said nothing in time")
        return json.loads(line)

    def begin(self, url, api, stream, pause=0, **body):
        """Behind so many events it says {"at": pause}, and waits for go_on()."""
        self.tell(url=url, api=api, stream=stream, pause=pause, body=body)

    def go_on(self):
        self.tell()

    def ask(self, url, api, stream, **body):
        self.begin(url, api, stream, **body)
        return self.hear()

    def call(self, url, method, *args, **body):
        self.tell(url=url, call=method, args=args, **({"body": body} if body else {}))
        return self.hear()


def openai_node(case):
    return Client(case, "openai", "node", HERE / "official_client.mjs", "openai",
                  modules_of("openai", OPENAI))


def openai_python(case):
    return Client(case, "openai", sys.executable, HERE / "official_client.py", "openai",
                  packages_of("openai"))


def anthropic_node(case):
    return Client(case, "anthropic", "node", HERE / "official_client.mjs", "anthropic",
                  modules_of("@anthropic-ai/sdk", ANTHROPIC))


def anthropic_python(case):
    return Client(case, "anthropic", sys.executable, HERE / "official_client.py", "anthropic",
                  packages_of("anthropic"))


def body_of(api, prompt="Tell me of caches.", model=MODEL):
    user = [{"role": "user", "content": prompt}]
    return {"model": model, "temperature": 0, **{
        "chat": {"messages": user, "max_tokens": TOKENS},
        "completions": {"prompt": prompt, "max_tokens": TOKENS},
        "responses": {"input": prompt, "max_output_tokens": TOKENS},
        "messages": {"messages": user, "max_tokens": TOKENS}}[api]}


class Official(harness.Case):
    def engine(self, *options, model=MODEL):
        return self.start("kvasir-engine", "--port", "0", "--model", model, *options)

    def node(self, workers, *options):
        flags = [word for worker in workers for word in ("--worker", worker)]
        node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
                          *flags, *options)

        def known():
            told = harness.request(node.at("admin"), "GET", "/admin/workers").json()
            return all(w["eligible"] and w["engine"] != "other" for w in told)
        harness.wait_until(known, "the workers are up and known")
        return node

    def count(self, node, name):
        return harness.metric(node.at("admin"), f"kvasir_{name}_total")

    def alike(self, client, one, other, **body):
        """Each API says the same at both places, streamed and not."""
        for api in client.apis:
            for stream in (False, True):
                with self.subTest(api=api, stream=stream):
                    expected = client.ask(one, api, stream, **body_of(api, **body))
                    self.assertEqual(expected["tokens"][1], TOKENS, expected)
                    got = client.ask(other, api, stream, **body_of(api, **body))
                    self.assertEqual(got, expected)
