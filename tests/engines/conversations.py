"""The mixed load: conversations under shared system prompts, tenants with a
salt, prompts of text and of token ids, streamed and not. Seeded: the same seed
sends the same prompts, as long as the engine answers the same.

Each answer becomes a Row: what the model of the events predicted when the
request was sent, and what the engine reported.
"""
import dataclasses
import http.client
import json
import pathlib
import queue
import random
import threading
import time

import engine as engines
import model

SYSTEMS = 3
TALKS = 12
SALTS = [None, None, "tenant-a", "tenant-b"]
TURNS_MAX = 5
PROMPT_MAX = 1800  # tokens; the engine takes 2048 with the answer
ANSWER_MAX = 48


class Tokens:
    """The engine's own tokenizer, and the template by hand."""

    def __init__(self, model_dir):
        from tokenizers import Tokenizer
        self.tokenizer = Tokenizer.from_file(str(pathlib.Path(model_dir) / "tokenizer.json"))

    def text(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def chat(self, messages):
        turns = "".join(f"<|{m['role']}|>\n{m['content']}<|end|>\n" for m in messages)
        return self.text(turns + "<|assistant|>\n")


@dataclasses.dataclass
class Ask:
    path: str
    body: dict
    tokens: list
    salt: str = None
    talk: object = None


@dataclasses.dataclass
class Row:
    id: str
    worker: str
    prompt: int
    cached: int
    predicted: int = None    # by the model of the events, at the time of sending
    overtaken: bool = False  # blocks of that prediction went before the answer came
    kvasir: dict = None      # its record of the decision, when it stood between
    stage: str = ""

    def rank(self):
        """Of the worker, None when not known."""
        if self.kvasir is None:
            return 0
        return self.kvasir["rank"] if self.kvasir["source"] == "mirror" else None

    def judge(self, stage, ranks):
        """Settles what was predicted for the rank that answered. To be asked
        when the events are in."""
        self.stage = stage
        rank = self.rank() if ranks > 1 else 0
        if rank is not None:
            seen = self.seen[self.worker, rank]
            self.predicted = seen.tokens
            self.overtaken = seen.is_overtaken(self.answered)


class Talk:
    """One conversation, as its client keeps it."""

    def __init__(self, rng, words, system, salt):
        self.rng, self.words, self.salt = rng, words, salt
        self.messages = [{"role": "system", "content": system}]
        self.turns = rng.randint(2, TURNS_MAX)

    def ask(self):
        self.turns -= 1
        self.messages.append({"role": "user", "content": self.words(self.rng.randint(10, 120))})
        return list(self.messages)

    def answered(self, text):
        self.messages.append({"role": "assistant", "content": text})


class Script:
    """What is asked next. One thread at a time."""

    def __init__(self, seed, tokens, block_tokens):
        self.rng = random.Random(seed)
        self.tokens, self.block_tokens = tokens, block_tokens
        self.pool = " ".join(model.pages()).split()
        self.systems = [self.words(150 + 100 * i) for i in range(SYSTEMS)]
        self.talks, self.busy = [], set()
        self.repeats = [self.rng.choices(range(8, model.VOCABULARY), k=n) for n in (33, 320, 900)]
        self.lock = threading.Lock()

    def words(self, count):
        at = self.rng.randrange(len(self.pool) - count)
        return " ".join(self.pool[at:at + count])

    def next(self):
        with self.lock:
            kind = self.rng.random()
            if kind < 0.65:
                ask = self.chat()
            elif kind < 0.8:
                ask = self.text()
            else:
                ask = self.ids()
            ask.body["max_tokens"] = self.rng.choice([1, 8, ANSWER_MAX])
            ask.body["model"] = engines.MODEL
            if ask.salt:
                ask.body["cache_salt"] = ask.salt
            if self.rng.random() < 0.5:
                ask.body.update(stream=True, stream_options={"include_usage": True})
            return ask

    def chat(self):
        free = [t for t in self.talks if t not in self.busy]
        if len(self.talks) < TALKS or not free:
            talk = Talk(self.rng, self.words, self.rng.choice(self.systems),
                        self.rng.choice(SALTS))
            self.talks.append(talk)
        else:
            talk = self.rng.choice(free)
        messages = talk.ask()
        tokens = self.tokens.chat(messages)
        if talk.turns <= 0 or len(tokens) > PROMPT_MAX:
            self.talks.remove(talk)
        if len(tokens) > PROMPT_MAX:
            return self.ids()
        self.busy.add(talk)
        return Ask("/v1/chat/completions", {"messages": messages}, tokens, talk.salt, talk)

    def text(self):
        text = self.systems[0] if self.rng.random() < 0.5 else self.words(60)
        text += " " + self.words(20)
        return Ask("/v1/completions", {"prompt": text}, self.tokens.text(text),
                   self.rng.choice(SALTS))

    def ids(self):
        ids = self.rng.choice(self.repeats)
        ids = ids[:self.rng.randint(1, len(ids))] if self.rng.random() < 0.5 else ids
        if self.rng.random() < 0.4 and len(ids) >= self.block_tokens:
            # Whole blocks: when all are hit, the last is computed again.
            ids = ids[:len(ids) // self.block_tokens * self.block_tokens]
        else:
            ids = ids + self.rng.choices(range(8, model.VOCABULARY), k=self.rng.randint(0, 40))
        return Ask("/v1/completions", {"prompt": ids}, ids, self.rng.choice(SALTS))

    def done(self, ask, text):
        with self.lock:
            if ask.talk is not None:
                ask.talk.answered(text)
                self.busy.discard(ask.talk)


def parse(raw, stream):
    """(usage, text) of an answer."""
    if not stream:
        whole = json.loads(raw)
        choice = whole["choices"][0]
        text = choice["message"]["content"] if "message" in choice else choice["text"]
        return whole["usage"], text
    usage, text = None, ""
    for line in raw.decode().splitlines():
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        chunk = json.loads(line[6:])
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            text += choice.get("text") or choice.get("delta", {}).get("content") or ""
    return usage, text


class Client:
    """Sends to one address; predictions come from a function."""

    def __init__(self, address, script, predict, ids):
        self.address, self.script, self.predict = address, script, predict
        self.ids = ids
        self.rows, self.failed = [], []
        self.lock = threading.Lock()

    def one(self):
        ask = self.script.next()
        name = f"engines-{next(self.ids)}"
        predicted = self.predict(ask.tokens, ask.salt)
        connection = http.client.HTTPConnection(*self.address, timeout=engines.IO_TIMEOUT_S)
        text = ""
        try:
            connection.request("POST", ask.path, json.dumps(ask.body),
                               {"content-type": "application/json", "x-request-id": name})
            answer = connection.getresponse()
            raw = answer.read()
            if answer.status != 200:
                raise ValueError(f"{answer.status} {raw[:300]!r}")
            usage, text = parse(raw, ask.body.get("stream"))
            self.note(ask, name, predicted, answer.getheader("x-kvasir-worker") or "", usage)
        except (OSError, http.client.HTTPException, ValueError) as fault:
            with self.lock:
                self.failed.append((name, str(fault)))
        finally:
            connection.close()
            self.script.done(ask, text or "")

    def note(self, ask, name, predicted, worker, usage):
        if usage["prompt_tokens"] != len(ask.tokens):
            raise ValueError(f"{usage['prompt_tokens']} tokens of {len(ask.tokens)}")
        details = usage.get("prompt_tokens_details") or {}
        row = Row(name, worker, usage["prompt_tokens"], details.get("cached_tokens") or 0)
        row.seen, row.answered = predicted, time.time()
        with self.lock:
            self.rows.append(row)

    def several(self, count, at_once):
        """count requests, at_once of them at a time."""
        left = queue.Queue()
        for _ in range(count):
            left.put(None)

        def work():
            while True:
                try:
                    left.get_nowait()
                except queue.Empty:
                    return
                self.one()

        threads = [threading.Thread(target=work) for _ in range(at_once)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
