"""Shapes of requests: what clients send, each with a prompt of its own.

A shape is asked ROUNDS times: as it is, again, then one turn longer, and, after
all other shapes had their turn (so parts of it may be evicted), longer again
and once more as it is. Seeded by its name: a run sends what the last one sent,
as long as the engines answer the same.
"""
import base64
import dataclasses
import json
import math
import random
import struct
import zlib

import engine as engines
import model
import shapes

ROUNDS = 5
LATER = 3                   # rounds from this one on come after the other shapes
TURNS = [0, 0, 1, 2, 2]     # of a conversation, by round
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"
EMBEDDINGS, POOLING = "/v1/embeddings", "/pooling"
POOLED = (EMBEDDINGS, POOLING)  # no answer tells cached tokens
RATE = 16000  # samples a second
HAN = "缓存记住了最近的提示所以相同的开头不必再算一遍路由器知道每个引擎里有什么"
ARABIC = "الذاكرة المؤقتة تحفظ بداية كل طلب فلا يعاد حسابها مرتين والموجه يعرف ما في كل محرك "
TOOLS = [{"type": "function", "function": {
    "name": name, "description": f"Looks up the {name} of a place.",
    "parameters": {"type": "object", "properties": {"place": {"type": "string"}},
                   "required": ["place"]}}} for name in ("weather", "time", "population")]


@dataclasses.dataclass
class Ask:
    path: str
    body: dict
    headers: dict = dataclasses.field(default_factory=dict)
    raw: bytes = None  # as sent, where the spelling matters

    def bytes(self):
        return self.raw or json.dumps(self.body).encode()

    def salt(self):
        return self.body.get("cache_salt")

    def adapter(self):
        return self.body["model"] if self.body["model"] == shapes.ADAPTER else None


class Talk:
    """What one shape remembers from round to round."""

    def __init__(self, name, seed):
        self.name, self.round = name, 0
        self.rng = random.Random(f"{name} {seed}")
        self.pool = " ".join(model.pages()).split()
        self.answers = []
        self.parts = []

    def words(self, index, count):
        """The index-th piece of its own text, the same in each round."""
        while len(self.parts) <= index:
            self.parts.append(self.rng.randrange(len(self.pool) - 2000))
        at = self.parts[index]
        return " ".join(self.pool[at:at + count])

    def turn(self):
        return TURNS[self.round]

    def text(self, count=90):
        return f"{self.name}: {self.words(0, count)} " + " ".join(
            self.words(1 + i, 40) for i in range(self.turn()))

    def ids(self, count=100):
        rng = random.Random(f"{self.name} ids")
        return rng.choices(range(8, model.VOCABULARY), k=count + 45 * self.turn())

    def messages(self, write=None):
        write = write or (lambda index: self.words(index, 50))
        found = [{"role": "system", "content": f"{self.name}. {write(0)}"}]
        for i in range(self.turn() + 1):
            found.append({"role": "user", "content": write(1 + i)})
            if i < self.turn():
                found.append({"role": "assistant", "content": f"Answer {i}: {write(10 + i)}"})
        return found


def ask(path, **body):
    tokens = "max_output_tokens" if path == RESPONSES else "max_tokens"
    return Ask(path, {"model": engines.MODEL, tokens: 2, **body})


def text(t, **more):
    return ask(TEXT, prompt=t.text(), **more)


def ids(t, **more):
    return ask(TEXT, prompt=t.ids(), **more)


def chat(t, **more):
    return ask(CHAT, messages=t.messages(), **more)


def streamed(a, usage=True, **options):
    a.body["stream"] = True
    if usage:
        a.body["stream_options"] = {"include_usage": True, **options}
    return a


def repeated(letters, count):
    return lambda index: (letters[index % 7:] + letters) * count


def with_parts(t):
    a = chat(t)
    for message in a.body["messages"]:
        message["content"] = [{"type": "text", "text": message["content"]}]
    return a


def with_reasoning(t, key):
    a = chat(t)
    for message in a.body["messages"]:
        if message["role"] == "assistant":
            message[key] = t.words(30, 40)
    return a


def with_results(t):
    """A tool was called, and its results came back."""
    messages = t.messages()
    for i in range(t.turn() + 1):
        call = f"call_{i:08d}"
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [
                {"id": call, "type": "function", "function": {
                    "name": "weather", "arguments": json.dumps({"place": f"town {i}"})}}]},
            {"role": "tool", "tool_call_id": call, "content": t.words(20 + i, 30)}]
    return ask(CHAT, messages=messages, tools=TOOLS)


def escaped(t):
    """The same text, spelled in another way each time."""
    a = ask(CHAT, messages=t.messages(repeated(HAN + "\U0001f600", 1)))
    body = dict(reversed(a.body.items())) if t.round % 2 else a.body
    a.raw = json.dumps(body, ensure_ascii=t.round % 2 == 0, indent=t.round or None).encode()
    return a


def salted(a, t):
    a.body["cache_salt"] = f"tenant of {t.name}"
    return a


def continued(t):
    a = chat(t, continue_final_message=True, add_generation_prompt=False)
    a.body["messages"].append({"role": "assistant", "content": "So it goes:"})
    return a


def responses(t, **more):
    if t.turn() == 0:
        return ask(RESPONSES, input=t.text(), **more)
    items = [m for m in t.messages() if m["role"] != "system"]
    return ask(RESPONSES, input=items, instructions=t.words(0, 50), **more)


def claude(t, **more):
    system, *messages = t.messages()
    return ask(MESSAGES, system=system["content"], messages=messages, **more)


CLAUDE_TOOLS = [{"name": f["function"]["name"], "description": f["function"]["description"],
                 "input_schema": f["function"]["parameters"]} for f in TOOLS]

# What is known of a shape: predicted tokens less cached ones are of that sign.
UNREAD = 1, "the engine does not read its cache for logprobs of a prompt"
IN_FULL = 1, "hits that are announced in full look like copies, and one more is not there"
KNOWN = {
    "text, prompt_logprobs": UNREAD,
    "text, echo and logprobs": UNREAD,
    "chat, prompt_logprobs": UNREAD,
    "ids, events in full": IN_FULL,
}

SHAPES = {
    "text": text,
    "text, stream with usage": lambda t: streamed(text(t)),
    "text, stream without usage": lambda t: streamed(text(t), False),
    "text, salt": lambda t: salted(text(t), t),
    "text, short": lambda t: ask(TEXT, prompt=f"{t.name} {t.turn()}"),
    "text, long": lambda t: ask(TEXT, prompt=t.text(1000)),
    "text, Chinese": lambda t: ask(TEXT, prompt=t.name + repeated(HAN, 3 + t.turn())(1)),
    "text, Arabic": lambda t: ask(TEXT, prompt=t.name + repeated(ARABIC, 3 + t.turn())(1)),
    "text, n=2": lambda t: text(t, n=2),
    "text, logprobs": lambda t: text(t, logprobs=2),
    "text, prompt_logprobs": lambda t: text(t, prompt_logprobs=1),
    "text, echo": lambda t: text(t, echo=True),
    "text, echo and logprobs": lambda t: text(t, echo=True, logprobs=1),
    "text, truncate_prompt_tokens": lambda t: text(t, truncate_prompt_tokens=128),
    "text, no special tokens": lambda t: text(t, add_special_tokens=False),
    "text, two prompts": lambda t: ask(TEXT, prompt=[t.text(), "second " + t.text()]),
    "text, long answer": lambda t: text(t, max_tokens=70, ignore_eos=True),
    "text, adapter": lambda t: text(t, model=shapes.ADAPTER),
    "text, adapter and salt": lambda t: salted(text(t, model=shapes.ADAPTER), t),
    "ids": ids,
    "ids, stream with usage": lambda t: streamed(ids(t)),
    "ids, whole blocks": lambda t: ask(TEXT, prompt=t.ids(128)[:128 + 32 * t.turn()]),
    "ids, salt": lambda t: salted(ids(t), t),
    "ids, sharing a prefix": lambda t: ask(
        TEXT, prompt=[9 + i % 900 for i in range(150 - 40 * t.turn())] + t.ids(40)),
    "ids, events in full": lambda t: ids(t, vllm_xargs={"kv_cache_report_mode": "full"}),
    "chat": chat,
    "chat, stream with usage": lambda t: streamed(chat(t)),
    "chat, stream without usage": lambda t: streamed(chat(t), False),
    "chat, usage in every event": lambda t: streamed(chat(t), continuous_usage_stats=True),
    "chat, salt": lambda t: salted(chat(t), t),
    "chat, long": lambda t: ask(CHAT, messages=t.messages(lambda i: t.words(i, 180))),
    "chat, Chinese": lambda t: ask(CHAT, messages=t.messages(repeated(HAN, 2))),
    "chat, Arabic": lambda t: ask(CHAT, messages=t.messages(repeated(ARABIC, 1))),
    "chat, spelled differently": escaped,
    "chat, text in parts": with_parts,
    "chat, tools": lambda t: chat(t, tools=TOOLS),
    "chat, tools not to be used": lambda t: chat(t, tools=TOOLS, tool_choice="none"),
    "chat, results of tools": with_results,
    "chat, reasoning": lambda t: with_reasoning(t, "reasoning"),
    "chat, reasoning_content": lambda t: with_reasoning(t, "reasoning_content"),
    "chat, n=2": lambda t: chat(t, n=2),
    "chat, logprobs": lambda t: chat(t, logprobs=True, top_logprobs=2),
    "chat, prompt_logprobs": lambda t: chat(t, prompt_logprobs=1),
    "chat, token ids returned": lambda t: chat(t, return_token_ids=True),
    "chat, JSON wanted": lambda t: chat(t, response_format={"type": "json_object"}),
    "chat, final message continued": continued,
    "chat, template's arguments": lambda t: chat(t, chat_template_kwargs={"tone": t.name}),
    "chat, session": lambda t: chat(t, session_id=t.name, user=t.name),
    "chat, adapter": lambda t: chat(t, model=shapes.ADAPTER),
    "chat, max_completion_tokens": lambda t: Ask(CHAT, {
        "model": engines.MODEL, "messages": t.messages(), "max_completion_tokens": 2}),
    "responses": responses,
    "responses, stream": lambda t: streamed(responses(t), False),
    "messages": claude,
    "messages, stream": lambda t: streamed(claude(t), False),
    "messages, tools": lambda t: claude(t, tools=CLAUDE_TOOLS),
}


def png(colour):
    """A PNG of one colour, in base 64."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    found = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 24, 16, 8, 2, 0, 0, 0))
    found += chunk(b"IDAT", zlib.compress((b"\0" + colour * 24) * 16)) + chunk(b"IEND", b"")
    return base64.b64encode(found).decode()


def picture(t, index):
    """The same for the same index."""
    return png(random.Random(f"{t.name} {index}").randbytes(3))


def sound(t, index):
    """A second of a tone as WAV, in base 64; the same for the same index."""
    pitch = random.Random(f"{t.name} {index}").uniform(0.05, 0.5)
    data = struct.pack(f"<{RATE}h", *(int(8000 * math.sin(pitch * i)) for i in range(RATE)))
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1,
                       RATE, 2 * RATE, 2, 16, b"data", len(data))
    return base64.b64encode(head + data).decode()


def sound_part(data):
    return {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}


def seen(t, path, count=1, make=picture, part=None):
    """A conversation about pictures: count of them with its first question, and
    one more with the second."""
    parts = {CHAT: lambda d: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{d}"}},
             RESPONSES: lambda d: {"type": "input_image", "image_url": f"data:image/png;base64,{d}"},
             MESSAGES: lambda d: {"type": "image", "source": {
                 "type": "base64", "media_type": "image/png", "data": d}}}[path]
    text = "input_text" if path == RESPONSES else "text"
    found = []
    for i in range(t.turn() + 1):
        shown = [make(t, f"{i} {k}") for k in range(count if i == 0 else i == 1)]
        found.append({"role": "user", "content": [
            {"type": text, "text": t.words(i, 30)}, *map(part or parts, shown),
            {"type": text, "text": t.words(20 + i, 30)}]})
        if i < t.turn():
            found.append({"role": "assistant", "content": f"Answer {i}: {t.words(10 + i, 20)}"})
    return ask(path, **{"input" if path == RESPONSES else "messages": found})


def heard(t, count=1):
    return seen(t, CHAT, count, sound, sound_part)


def by_uuid(t, a=None):
    """The same, each picture with a name of the client's own."""
    a = a or seen(t, CHAT, 2)
    for i, message in enumerate(a.body["messages"]):
        for k, part in enumerate(message["content"] if message["role"] == "user" else []):
            if part["type"] in ("image_url", "input_audio"):
                part["uuid"] = f"{t.name}, {i} {k}"
    return a


PICTURES = {
    "chat, a picture": lambda t: seen(t, CHAT),
    "chat, three pictures": lambda t: seen(t, CHAT, 3),
    "chat, a picture and a salt": lambda t: salted(seen(t, CHAT), t),
    "chat, a picture, stream": lambda t: streamed(seen(t, CHAT)),
    "chat, pictures with a uuid": by_uuid,
    "chat, none for a model that sees": chat,
    "responses, a picture": lambda t: seen(t, RESPONSES),
    "messages, a picture": lambda t: seen(t, MESSAGES),
}

SOUNDS = {
    "chat, a sound": heard,
    "chat, three sounds": lambda t: heard(t, 3),
    "chat, a sound and a salt": lambda t: salted(heard(t), t),
    "chat, a sound, stream": lambda t: streamed(heard(t)),
    "chat, sounds with a uuid": lambda t: by_uuid(t, heard(t, 2)),
    "chat, none for a model that hears": chat,
}


def pooled(path, prompt, **more):
    return Ask(path, {"model": engines.MODEL, "input": prompt, **more})


# Of several texts the second one fills no block: what the engine counts is the
# first one's.
EMBEDDED = {
    "embeddings": lambda t: pooled(EMBEDDINGS, t.text()),
    "embeddings, salt": lambda t: salted(pooled(EMBEDDINGS, t.text()), t),
    "embeddings, ids": lambda t: pooled(EMBEDDINGS, t.ids()),
    "embeddings, several texts": lambda t: pooled(EMBEDDINGS, [t.text(), "short"]),
    "pooling, embed": lambda t: pooled(POOLING, t.text(), task="embed"),
    "pooling, embed, ids": lambda t: pooled(POOLING, t.ids(), task="embed"),
    "pooling, as the model says": lambda t: pooled(POOLING, t.text()),
}
OF_EACH_TOKEN = {
    "pooling, token_embed": lambda t: pooled(POOLING, t.text(), task="token_embed"),
    "pooling, token_embed, ids": lambda t: pooled(POOLING, t.ids(), task="token_embed"),
}


def usage_of(value):
    """(prompt tokens, cached tokens or None) of a usage object, of any of the
    APIs; None without one."""
    usage = value.get("usage") or (value.get("response") or value.get("message") or {}).get("usage")
    if not usage:
        return None
    if value.get("object") == "list":
        return usage["prompt_tokens"], None
    if "prompt_tokens" in usage:
        details = usage.get("prompt_tokens_details") or {}
        return usage["prompt_tokens"], details.get("cached_tokens") or 0
    if "input_tokens_details" in usage:
        return usage["input_tokens"], usage["input_tokens_details"].get("cached_tokens") or 0
    if usage.get("input_tokens") is None:
        return None
    cached, created = (usage.get(f"cache_{what}_input_tokens") for what in ("read", "creation"))
    return usage["input_tokens"] + (cached or 0) + (created or 0), cached


def read(raw, stream):
    """Usage of a whole answer, and whether it came to its end."""
    if not stream:
        return usage_of(json.loads(raw)), True
    usage, ended = None, False
    for line in raw.decode().splitlines():
        if not line.startswith("data: "):
            continue
        if line == "data: [DONE]":
            ended = True
            continue
        event = json.loads(line[6:])
        usage = usage_of(event) or usage
        ended = ended or event.get("type") in ("message_stop", "response.completed",
                                               "response.incomplete")
    return usage, ended
