"""Real servers that publish no events behind three nodes: llama.cpp's and
`transformers serve`. Nothing is promised in tokens. What is looked at: whether a
node reads their accounts of cached tokens right, whether conversations stay where
they are, and what the servers then had of what the node believed they hold.
"""
import contextlib
import dataclasses
import http.client
import itertools
import json
import pathlib

import asks
import engine as engines
import kvasir
import model

TABLE = "{:<32}{:>6}{:>8}{:>7}{:>9}{:>7}{:>7}  {}"
HEAD = TABLE.format("shape", "asked", "at home", "told", "as said", "hoped", "found", "cached")
SHAPES = ["text", "text, stream with usage", "text, stream without usage", "text, Chinese", "chat",
          "chat, stream with usage", "chat, stream without usage",
          "chat, stream, the likeliest", "chat, long", "chat, Arabic",
          "chat, text in parts", "chat, max_completion_tokens", "responses", "responses, stream",
          "messages", "messages, stream"]
PARTS = ("llamacpp", "transformers")


def responses(talk, **more):
    """llama.cpp takes no item of a conversation that does not say what it is."""
    system, *messages = talk.messages()
    return asks.ask(asks.RESPONSES, instructions=system["content"], input=[
        {"type": "message", "role": m["role"], "content": [
            {"type": "output_text" if m["role"] == "assistant" else "input_text",
             "text": m["content"]}]} for m in messages], **more)


# As a stream unless told otherwise, says transformers.
OWN = {"responses": lambda t: responses(t, stream=False),
       "responses, stream": lambda t: asks.streamed(responses(t), False),
       "chat, stream, the likeliest": lambda t: asks.streamed(asks.chat(t, temperature=0), False)}


class Llama(engines.Engine):
    """Slots; with room in host memory for what they lose, as by default."""
    KIND = "llamacpp"
    SAYS_DONE = True  # at the end of a stream
    NAME = engines.MODEL

    def command(self):
        return [self.executable, str(pathlib.Path(__file__).with_name("llama_server.py")),
                str(self.model_dir), str(self.address[1]), engines.MODEL]


class Transformers(engines.Engine):
    """Keeps the last conversation's cache at most, and tells nothing of it."""
    KIND = "other"
    SAYS_DONE = False

    @property
    def NAME(self):  # it loads what a request names
        return str(self.model_dir)

    def command(self):
        return [self.executable, "-c", "from transformers.cli.transformers import main; main()",
                "serve", str(self.model_dir), "--device", "cpu", "--dtype", "float32",
                "--host", "127.0.0.1", "--port", str(self.address[1])]


@dataclasses.dataclass
class Row:
    shape: str
    name: str
    worker: str
    node: str
    home: bool          # where the conversation's turns before it were
    told: bool          # the answer tells cached tokens
    cached: int
    prompt: int
    read: bool          # the node has the same numbers
    hoped: int          # blocks of text that the node believed to be there
    total: int


def account(value):
    """(prompt, cached or None) of an answer or an event, in any API; None: none."""
    usage = value.get("usage") or (value.get("response") or value.get("message") or {}).get("usage")
    timings = value.get("timings")
    if timings:
        return timings["cache_n"] + timings["prompt_n"], timings["cache_n"]
    if not usage:
        return None
    details = usage.get("prompt_tokens_details") or usage.get("input_tokens_details") or {}
    cached = details.get("cached_tokens", usage.get("cache_read_input_tokens"))
    prompt = usage.get("prompt_tokens", usage.get("input_tokens"))
    if prompt is None:
        return None
    return prompt + (cached or 0 if "cache_read_input_tokens" in usage else 0), cached


def read(raw, stream):
    """((prompt, cached) as account() has it, whether the answer came to its end)"""
    if not stream:
        return account(json.loads(raw)), True
    found, ended = None, False
    for line in raw.decode().splitlines():
        if line.startswith("data: ") and line != "data: [DONE]":
            event = json.loads(line[6:])
            told = account(event)
            found = told if told and (found is None or told[1] is not None) else found
            ended = ended or event.get("type") in ("message_stop", "response.completed",
                                                   "response.incomplete")
        ended = ended or line == "data: [DONE]"
    return found, ended


class Session:
    def __init__(self, args, executable, folder, make):
        self.args, self.rows, self.failed, self.lost = args, [], [], 0
        folder.mkdir()
        self.folder = folder
        self.model_dir = model.write_weighted(folder / engines.MODEL)
        self.engines, self.mesh = [], None
        for i in range(args.engines):
            logs = folder / f"engine-{i}"
            logs.mkdir()
            e = make(executable, self.model_dir, logs, blocks=0, block_tokens=0)
            e.events = None
            self.engines.append(e)
        self.homes, self.ids, self.turn = {}, itertools.count(1), itertools.count()

    def start(self):
        for e in self.engines:
            e.start()
        self.mesh = kvasir.Mesh(self.args.build, self.engines, self.folder,
                                ["--health.metrics_interval", "200ms", *self.args.kvasir])
        for node in self.mesh.nodes:
            engines.wait_until(lambda node=node: all(
                w["engine"] == e.KIND for w, e in zip(node.get("/admin/workers"), self.engines)),
                "the node knows of what make they are")

    def close(self):
        with contextlib.ExitStack() as stack:
            for e in self.engines:
                stack.callback(e.stop)
            if self.mesh:
                stack.callback(self.mesh.close)

    def one(self, shape, ask):
        node = self.mesh.nodes[next(self.turn) % 3]
        name = f"quiet-{next(self.ids)}"
        ask.body["model"] = self.engines[0].NAME
        connection = http.client.HTTPConnection(*node.address, timeout=engines.IO_TIMEOUT_S)
        try:
            connection.request("POST", ask.path, ask.bytes(), {
                "content-type": "application/json", "x-request-id": name})
            answer = connection.getresponse()
            raw = answer.read()
            if answer.status != 200:
                raise ValueError(f"{answer.status} {raw[:300]!r}")
            told, ended = read(raw, ask.body.get("stream"))
            if self.engines[0].SAYS_DONE and not ended:
                raise ValueError(f"cut off: {raw[-200:]!r}")
            # llama.cpp leaves message_start out when the first token is half a character.
            if told is None and (ask.path != asks.MESSAGES or b"message_start" in raw):
                raise ValueError(f"no word of its tokens: {raw[-300:]!r}")
            self.judge(shape, name, node, answer.headers, told)
            self.tell_all(ask, self.rows[-1])
        except (OSError, http.client.HTTPException, ValueError) as fault:
            self.failed.append((shape, str(fault)))
        finally:
            connection.close()

    def tell_all(self, ask, row):
        """Waits until each node has heard where that prompt is, and that it is done."""
        def heard(node):
            status, _, raw = engines.call(node.admin, "POST", f"/admin/explain?path={ask.path}",
                                          ask.body)
            return status == 200 and any(
                w["worker"] == row.worker and w["overlap"] >= row.total and w["load"] == 0
                for w in json.loads(raw)["candidates"])
        for node in self.mesh.nodes:
            engines.wait_until(lambda node=node: heard(node), "the nodes have heard of a prompt")

    def judge(self, shape, name, node, headers, told):
        record = node.record(name)
        # Where an API wants a number, a node that was told none says 0.
        prompt, cached = told or (0, 0)
        same = (record["prompt_tokens"], record["cached_tokens"]) == (prompt, cached or 0)
        worker = headers["x-kvasir-worker"]
        home = self.homes.setdefault(shape, worker)
        if not same:
            self.failed.append((shape, f"the answer tells {told}, the node has " + str(
                {k: record[k] for k in ("prompt_tokens", "cached_tokens", "cached_known")})))
        row = Row(shape, name, worker, headers["x-kvasir-node"], worker == home,
                  record["cached_known"], record["cached_tokens"], record["prompt_tokens"], same,
                  record["overlap"], record["total"])
        self.rows.append(row)
        if self.args.json:
            with open(self.args.json, "a", encoding="utf-8") as out:
                out.write(json.dumps(dataclasses.asdict(row)) + "\n")

    def play(self, say):
        """Three turns of each shape, and two more when all others had theirs."""
        talks = {name: asks.Talk(name, self.args.seed) for name in SHAPES}
        shapes = asks.SHAPES | OWN
        for rounds in (range(asks.LATER), range(asks.LATER, asks.ROUNDS)):
            for name, talk in talks.items():
                for talk.round in rounds:
                    self.one(name, shapes[name](talk))
        for name in talks:
            self.line(say, name, [r for r in self.rows if r.shape == name])
        self.line(say, "all", self.rows)

    def line(self, say, name, rows):
        hoped = [r for r in rows if r.hoped and r.told]
        told = [r for r in rows if r.told]
        prompts = sum(r.prompt for r in told)
        say(TABLE.format(
            name, len(rows), sum(r.home for r in rows), len(told), sum(r.read for r in rows),
            len(hoped), sum(r.cached > 0 for r in hoped),
            f"{sum(r.cached for r in told) / prompts:.0%}" if prompts else "-").rstrip())
