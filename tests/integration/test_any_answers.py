"""Requests and answers of every API, changed at random: whatever a client or an
engine says, the node lives, gives back what it took, and serves who comes after.

KVASIR_ANY_SEED is the seed, KVASIR_ANY_REQUESTS how many requests each client makes. Of
a seed clients say the same each time; what engines say depends on what comes first, too.
"""
import http.client
import json
import os
import random
import threading

import harness
from fake_worker import Close, FakeWorker
from test_faults import Rig
from test_proxy import CHAT, chat

SEED = int(os.environ.get("KVASIR_ANY_SEED", "1"))
REQUESTS = int(os.environ.get("KVASIR_ANY_REQUESTS", "600"))
CLIENTS = 4
TINY = os.path.join(os.path.dirname(__file__), "..", "models", "tiny")

WEIRD = (None, True, -1, 0, 2**31, 2**53 + 1, 2**64, 1e308, 0.5, "", "x" * 5000, "\0", "\u4e2d",
         "9" * 400, [], {}, [[]], {"a": {}}, ["a", 1, None])
NUMBERS = ("0", "0.5", "NaN", "+Inf", "-1", "1e308", "1e400", "18446744073709551616", "x", "")
STATUSES = (100, 199, 204, 304, 400, 404, 413, 422, 429, 500, 503, 599, 600)
RETRY_AFTER = ("", "Retry-After: 1\r\n", "Retry-After: -1\r\n", "Retry-After: 9999999999999\r\n")

TOOL = {"name": "f", "description": "d", "parameters": {"type": "object"}}
CALL = {"id": "t", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
PICTURE = "data:image/png;base64,aGk="
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
         "prompt_tokens_details": {"cached_tokens": 64}}

ASKED = {
    CHAT: {
        "model": "m", "n": 1, "max_tokens": 5, "seed": 1, "temperature": 0, "logprobs": True,
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": [{"type": "text", "text": "hello"},
                                         {"type": "image_url", "image_url": {"url": PICTURE}}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "t", "content": "x"}],
        "tools": [{"type": "function", "function": TOOL}],
        "stream_options": {"include_usage": True}},
    "/v1/messages": {
        "model": "m", "max_tokens": 10, "system": [{"type": "text", "text": "Be kind."}],
        "messages": [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": [
                {"type": "text", "text": "hi"},
                {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "x"}]}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024}, "stop_sequences": ["x"]},
    "/v1/responses": {
        "model": "m", "instructions": "Be kind.", "max_output_tokens": 5, "store": True,
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"type": "function_call", "call_id": "t", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "t", "output": "x"}],
        "tools": [{"type": "function", **TOOL}], "previous_response_id": None},
    "/v1/completions": {"model": "m", "prompt": ["hello there", [1, 2, 3]], "echo": True},
    "/v1/embeddings": {"model": "m", "input": ["a", "b"], "dimensions": 8},
    "/v1/messages/count_tokens": {"model": "m", "messages": [{"role": "user", "content": "a"}]},
    "/v1/rerank": {"model": "m", "query": "q", "documents": ["a", "b"]},
    "/tokenize": {"model": "m", "prompt": "x"},
}
MODELS = {"object": "list", "data": [
    {"id": "m", "object": "model", "owned_by": "vllm", "root": "m", "max_model_len": 4096},
    {"id": "n", "object": "model", "owned_by": "sglang", "parent": "m"}]}
TOKENS = {"token_ids": list(range(50)), "tokens": list(range(50)), "count": 50,
          "max_model_len": 4096, "features": None}
ANSWER = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": USAGE,
          "choices": [{"index": 0, "finish_reason": "stop", "text": "hello", "message": {
              "role": "assistant", "content": "hello", "tool_calls": [CALL]}}]}
VECTORS = {"object": "list", "model": "m", "usage": {"prompt_tokens": 3, "total_tokens": 3},
           "data": [{"object": "embedding", "index": 0, "embedding": [0.1] * 8}]}
METRICS = """vllm:num_requests_running{engine="0",model_name="m"} %s
vllm:num_requests_waiting{engine="0",model_name="m"} %s
vllm:kv_cache_usage_perc{engine="0",model_name="m"} %s
vllm:cache_config_info{block_size="16",num_gpu_blocks="%s",enable_prefix_caching="True"} %s
vllm:prefix_cache_queries_total{engine="0",model_name="m"} %s
vllm:prefix_cache_hits_total{engine="0",model_name="m"} %s
sglang:num_running_reqs{model_name="n"} %s
sglang:token_usage{model_name="n"} %s
"""


def places(value, path=()):
    """The way to each part of a JSON value but itself."""
    parts = value.items() if isinstance(value, dict) else \
        enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield path + (key,)
        yield from places(part, path + (key,))


def changed(dice, value, times):
    """A copy with so many parts that are another thing, missing or there twice."""
    value = json.loads(json.dumps(value))
    for _ in range(times):
        ways = list(places(value))
        if not ways:
            break
        *way, last = dice.choice(ways)
        at = value
        for key in way:
            at = at[key]
        how = dice.random()
        if how < 0.7:
            at[last] = json.loads(json.dumps(dice.choice(WEIRD)))
        elif how < 0.9:
            del at[last]
        elif isinstance(at, list):
            at.append(at[last])
        else:
            at["content"] = at[last]
    return value


def text_of(dice, value):
    """As JSON; some of it is none."""
    text = json.dumps(value, ensure_ascii=dice.random() < 0.5).encode("utf-8", "surrogatepass")
    if dice.random() < 0.1:
        at = dice.randrange(len(text))
        text = text[:at] + dice.choice((b"", b"\0", b"\xff", b"}", b'"')) + text[at + 1:]
    return text


def chunk(delta, finish=None, **more):
    return {"id": "c", "object": "chat.completion.chunk", "model": "m",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


class MadWorker(FakeWorker):
    def _own(self, peer, target):
        return False  # nothing is answered by itself


class AnyAnswers(Rig):
    def setUp(self):
        super().setUp()
        self.calm = threading.Event()
        self.lock = threading.Lock()
        self.answered = 0
        self.statuses = {}

    def dice(self):
        with self.lock:
            self.answered += 1
            return random.Random(f"{SEED} {self.answered}")

    def handle(self, peer, request):
        dice = self.dice()
        path = request.target.partition("?")[0]
        if self.calm.is_set():
            if path == "/health":
                peer.answer(200)
            else:
                peer.json(MODELS if path.endswith("/models") else ANSWER)
            return
        chance = dice.random()
        if chance < 0.02:
            raise Close
        if chance < 0.04:
            peer.send(dice.randbytes(dice.choice((1, 100, 5000))))
            raise Close
        if chance < 0.06:
            peer.answer(dice.choice(STATUSES), b"{}", dice.choice(RETRY_AFTER))
        elif path == "/health":
            peer.answer(200 if dice.random() < 0.97 else 503)
        elif path == "/metrics":
            peer.answer(200, (METRICS % tuple(dice.choices(NUMBERS, k=9))).encode())
        elif b'"stream": true' in request.body:
            self.stream(peer, dice)
        else:
            value = MODELS if path.endswith("/models") else VECTORS if "embed" in path else \
                TOKENS if "render" in path or "tokenize" in path else ANSWER
            peer.answer(200, text_of(dice, changed(dice, value, dice.choice((0, 0, 1, 2, 5)))),
                        "Content-Type: application/json\r\n")

    def stream(self, peer, dice):
        events = [chunk({"role": "assistant", "content": ""}), chunk({"reasoning_content": "hm"})]
        for _ in range(dice.choice((0, 3, 30))):
            events.append(chunk({"content": dice.choice(("word ", "\u4e2d", "<tool_call>", "\n"))}))
        events += [chunk({"tool_calls": [{"index": 0, **CALL}]}), chunk({}, "tool_calls"),
                   {**chunk({}), "choices": [], "usage": USAGE}]
        data = b""
        for event in events:
            data += dice.choice((b"data: ", b"data:", b": c\n\ndata: ", b"event: x\r\ndata: "))
            data += text_of(dice, changed(dice, event, dice.choice((0, 0, 0, 1, 2)))) + b"\n\n"
        data += b"data: [DONE]\n\n" if dice.random() < 0.8 else b""
        peer.begin_stream()
        while data:
            size = dice.choice((7, 100, 1000, 100_000))
            peer.chunk(data[:size])
            data = data[size:]
        peer.end_stream()

    def ask(self, number):
        """One client; its connection is another one whenever it ended."""
        dice = random.Random(f"{SEED} client {number}")
        connection = harness.connect(self.address)
        for _ in range(REQUESTS):
            path, asks = dice.choice(list(ASKED.items()))
            asks = changed(dice, asks, dice.choice((0, 0, 1, 1, 2, 5)))
            if dice.random() < 0.5:
                asks["stream"] = True
            try:
                connection.request("POST", path, text_of(dice, asks),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                how = answer.status
                answer.read()
            except (http.client.HTTPException, OSError) as error:
                how = type(error).__name__
                connection.close()
            with self.lock:
                self.statuses[how] = self.statuses.get(how, 0) + 1
        connection.close()

    def test_a_node_outlives_what_clients_and_engines_say(self):
        workers = [MadWorker(self, self.handle) for _ in range(3)]
        self.calm.set()
        node = self.serve(*workers, options=[
            "--models", f"m={TINY}", "--answer_cache.bytes_max", "1MiB",
            "--answer_cache.semantic_model", "m", "--slo.ttft", "1s",
            "--health.metrics_interval", "50ms", "--health.models_interval", "100ms",
            "--breaker.open", "50ms", "--breaker.open_max", "1s", "--log.level", "error"])
        self.calm.clear()
        clients = [threading.Thread(target=self.ask, args=(i,)) for i in range(CLIENTS)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
        self.calm.set()
        self.assertNotIn("TimeoutError", self.statuses, f"seed {SEED}")
        self.assertEqual(sum(self.statuses.values()), CLIENTS * REQUESTS, f"seed {SEED}")
        self.assertGreater(self.statuses.get(200, 0), CLIENTS * REQUESTS // 4, self.statuses)
        harness.wait_until(lambda: self.eligible(node) == 3, "the workers are well again")
        self.assertEqual(self.post(chat("after")).status, 200)
        self.settles(node)
        self.assertEqual(node.stop(), 0)


if __name__ == "__main__":
    harness.main()
