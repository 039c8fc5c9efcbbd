"""The official clients of OpenAI and Anthropic for Node, and a node that limits
them: limits_client.mjs is what they do."""
import pathlib
import subprocess
import threading

import harness
from fake_worker import FakeWorker
from test_openai import CLIENT_TIMEOUT_S, OPENAI, modules_of

ANTHROPIC = "1.12.0"
MODEL = "m"
SCRIPT = pathlib.Path(__file__).resolve().parent / "limits_client.mjs"
CHAT = {"id": "c", "object": "chat.completion", "created": 1, "model": MODEL,
        "choices": [{"index": 0, "finish_reason": "stop",
                     "message": {"role": "assistant", "content": "x"}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": MODEL,
           "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn",
           "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}


class Limited(harness.Case):
    def setUp(self):
        self.modules = [modules_of("openai", OPENAI), modules_of("@anthropic-ai/sdk", ANTHROPIC)]
        super().setUp()
        self.open = threading.Event()
        self.open.set()
        self.addCleanup(self.open.set)
        self.worker = FakeWorker(self, self.answer)

    def answer(self, peer, request):
        self.open.wait(harness.IO_TIMEOUT_S)
        peer.json(MESSAGE if request.target == "/v1/messages" else CHAT)

    def limited(self, *options):
        self.node = self.start("kvasir", "serve", "--listen", "127.0.0.1:0",
                               "--admin", "127.0.0.1:0", "--worker", self.worker.url, *options)
        harness.wait_until(
            lambda: harness.request(self.node.at("serve"), "GET", "/ready").status == 200,
            "it is ready")

    def refused(self):
        return harness.metric(self.node.at("admin"), "kvasir_limit_refused_total")

    def clients(self, step):
        return subprocess.Popen(
            ["node", SCRIPT, *self.modules, self.node.url("serve"), MODEL, step],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def done(self, client, count):
        lines = client.communicate(timeout=CLIENT_TIMEOUT_S)[0]
        self.assertEqual(client.returncode, 0, lines)
        self.assertEqual(len([x for x in lines.splitlines() if x.startswith("ok ")]), count, lines)

    def test_clients_are_told_how_they_stand_and_know_a_refusal(self):
        self.limited("--limits.tenant_requests", "3/h")
        with self.clients("told") as client:
            self.done(client, 4)

    def test_clients_that_are_refused_come_again(self):
        """Of two at once the second is refused, until the first has ended."""
        self.limited("--limits.tenant_concurrent", "1")
        for step in ("openai_retries", "anthropic_retries"):
            self.open.clear()
            before = self.refused()
            with self.clients(step) as client:
                harness.wait_until(lambda b=before: self.refused() > b, "one is refused",
                                   timeout_s=CLIENT_TIMEOUT_S)
                self.open.set()
                self.done(client, 1)


if __name__ == "__main__":
    harness.main()
