"""A real SGLang on the CPU, as engine.py has vLLM, and a follower of its events.

PyPI's kernels are made for CUDA and do not load without its driver. On a CPU,
with torch's own attention, none of them is called: install.py puts a module of
that name there whose functions fail.
"""
import json
import os
import pathlib
import subprocess

import engine as engines
import msgspec
import wire
import zmq

PAGE = 32
SHAPES = [
    "text", "text, stream with usage", "text, salt", "text, short", "text, long",
    "text, Chinese", "text, Arabic", "text, logprobs", "text, echo", "text, long answer",
    "ids", "ids, stream with usage", "ids, whole blocks", "ids, salt",
    "ids, sharing a prefix", "chat", "chat, stream with usage", "chat, salt", "chat, long",
    "chat, Chinese", "chat, Arabic", "chat, spelled differently", "chat, text in parts",
    "chat, tools", "chat, tools not to be used", "chat, results of tools", "chat, reasoning_content", "chat, logprobs",
    "chat, template's arguments", "chat, max_completion_tokens",
    "responses", "messages", "messages, tools",
]


class Engine(engines.Engine):
    # Anthropic's answers leave out cached tokens that are none.
    COUNTERS = ("sglang:prompt_tokens_total", "sglang:cached_tokens_total")

    def command(self):
        events = {"publisher": "zmq", "endpoint": f"tcp://*:{self.events_port}",
                  "replay_endpoint": f"tcp://*:{self.replay_port}"}
        return [self.executable, "-m", "sglang.launch_server",
                "--model-path", str(self.model_dir), "--served-model-name", engines.MODEL,
                "--device", "cpu", "--attention-backend", "torch_native",
                "--sampling-backend", "pytorch", "--grammar-backend", "none",
                "--load-format", "dummy", "--dtype", "float32",
                "--host", "127.0.0.1", "--port", str(self.address[1]),
                "--page-size", str(self.block_tokens),
                "--max-total-tokens", str(self.blocks * self.block_tokens),
                "--max-running-requests", "16", "--mem-fraction-static", "0.1",
                "--disable-overlap-schedule", "--skip-server-warmup",
                "--enable-cache-report", "--enable-metrics",
                "--kv-events-config", json.dumps(events)]

    def spawn(self):
        self.env = {"CUDA_VISIBLE_DEVICES": "", "SGLANG_USE_CPU_ENGINE": "1"}
        super().spawn()

    def reset(self):
        return engines.call(self.address, "POST", "/flush_cache")[0] == 200


class Mirror:
    """Pages by their place. None is there twice, and none without its parent."""

    def __init__(self, page):
        self.page, self.losses, self.gone, self.emptied = page, 0, {}, []
        self.now = 0
        self.child, self.place = {}, {}

    def clear(self):
        self.losses += 1
        self.emptied.append((self.losses, self.now))
        self.child.clear()
        self.place.clear()

    def apply(self, event):
        if event["type"] == "AllBlocksCleared":
            self.clear()
        elif event["type"] == "BlockStored":
            self.store(event)
        else:
            for name in event["block_hashes"]:
                self.losses += 1
                self.gone.setdefault(name, []).append((self.losses, self.now))
                self.child.pop(self.place.pop(name, None), None)

    def store(self, event):
        parent, tokens = event["parent_block_hash"], event["token_ids"]
        for i, name in enumerate(event["block_hashes"]):
            owner = tuple(filter(None, (event.get("lora_name"), event.get("cache_salt"))))
            place = (parent, () if parent is not None else owner,
                     tuple(tokens[i * self.page:(i + 1) * self.page]))
            self.place[name], self.child[place] = place, name
            parent = name

    @property
    def block_tokens(self):
        return self.page

    def walk(self, tokens, extra=(), _=()):
        parent, found = None, []
        for i in range((len(tokens) - 1) // self.page):
            parent = self.child.get((parent, extra if i == 0 else (),
                                     tuple(tokens[i * self.page:(i + 1) * self.page])))
            if parent is None:
                break
            found.append(parent)
        return found


class Follower(wire.Follower):
    """The same socket, other events."""

    def new_mirror(self):
        return Mirror(self.engine.block_tokens)

    def take(self, seq, payload):
        self.live[seq] = payload
        self.expected = seq + 1
        batch = msgspec.msgpack.decode(payload)
        self.mirror.now = batch[0]
        for event in batch[1]:
            self.mirror.apply(event)

    def replay(self, start):
        dealer = self.context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.RCVHWM, 0)
        dealer.connect(f"tcp://127.0.0.1:{self.engine.replay_port + self.rank}")
        dealer.send_multipart([b"", wire.SEQ.pack(start)])
        found = []
        try:
            while dealer.poll(wire.REPLAY_TIMEOUT_MS):
                frames = dealer.recv_multipart()
                seq, payload = frames[-2:]  # releases differ in the topic before
                if seq == wire.END:
                    return found
                found.append((wire.SEQ.unpack(seq)[0], payload))
            raise TimeoutError("a replay did not end")
        finally:
            dealer.close(linger=0)
