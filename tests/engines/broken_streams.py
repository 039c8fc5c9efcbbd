"""Streams that go on at the other engine when their own is killed with kill -9,
held against the same requests undisturbed.

A stream goes on by its text, so only such tokens are allowed (`allowed_token_ids`)
whose text says which they are: a space and letters, alone in their encoding.
Then equal texts are equal tokens, and each event tells how many it brought. The
weights are random but real (`model.write_weights`): each token depends on all
before, and one that is lost or said twice changes all that follow.

The undisturbed answer is asked of each engine alone, beforehand. Where the two
differ the model has a near tie, and the stream is not compared.
"""
import dataclasses
import http.client
import json
import threading

import asks
import conversations
import engine as engines

GREEDY, SAMPLED = 12, 2
TOKENS = 160
STEP = 8  # events of one stream, then the next one is asked for
RESUMED = b": x-kvasir-resumed: "


class Words:
    """The tokens that a text tells, and which a text is made of."""

    def __init__(self, model_dir):
        self.tokens = conversations.Tokens(model_dir)
        known = self.tokens.tokenizer.get_vocab()
        self.ids = sorted(
            number for name, number in known.items()
            if len(name) > 2 and name[0] == "\u0120" and name[1:].isascii() and
            name[1:].isalpha() and self.tokens.text(" " + name[1:]) == [number])

    def of(self, text):
        return self.tokens.text(text)


def made(words, index, sampled=False):
    """Chats and completions by turns, each with its own prompt and length."""
    more = {"temperature": 1, "seed": index} if sampled else {"temperature": 0}
    talk = asks.Talk(f"stream {index}", 1)
    talk.round = 0
    make = asks.chat if index % 2 else asks.text
    return asks.streamed(make(talk, max_tokens=TOKENS + index, allowed_token_ids=words.ids, **more))


@dataclasses.dataclass
class Answer:
    """What a client has of a stream."""
    texts: list = dataclasses.field(default_factory=list)   # of each event that has one
    reasons: list = dataclasses.field(default_factory=list)
    usage: dict = None
    ids: set = dataclasses.field(default_factory=set)
    roles: int = 0
    resumed: int = 0
    ended: bool = False
    fault: str = ""

    def take(self, line):
        if line.startswith(RESUMED):
            self.resumed = int(line[len(RESUMED):])
        if not line.startswith(b"data: "):
            return
        if line.startswith(b"data: [DONE]"):
            self.ended = True
            return
        event = json.loads(line[6:])
        if "error" in event:
            self.fault = str(event["error"])
        self.ids.add(event.get("id"))
        for choice in event.get("choices", []):
            said = choice.get("delta") or {"content": choice.get("text")}
            self.roles += said.get("role") is not None
            if said.get("content"):
                self.texts.append(said["content"])
            if choice.get("finish_reason"):
                self.reasons.append(choice["finish_reason"])
        if event.get("usage"):
            self.usage = {name: event["usage"][name] for name in
                          ("prompt_tokens", "completion_tokens", "total_tokens")}

    def text(self):
        return "".join(self.texts)


class Stream(threading.Thread):
    """One answer, read until it ends or is cut off."""

    def __init__(self, address, ask):
        super().__init__(daemon=True)
        self.address, self.ask = address, ask
        self.begun = threading.Event()  # STEP events of it are there, or its end
        self.worker, self.answer = "", Answer()
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(*self.address, timeout=engines.IO_TIMEOUT_S)
        try:
            connection.request("POST", self.ask.path, self.ask.bytes(),
                               {"content-type": "application/json"})
            answer = connection.getresponse()
            self.worker = answer.headers.get("x-kvasir-worker", "")
            if answer.status != 200:
                raise ValueError(f"{answer.status} {answer.read()[:200]!r}")
            for line in answer:
                self.answer.take(line)
                if len(self.answer.texts) >= STEP:
                    self.begun.set()
        except (OSError, http.client.HTTPException, ValueError) as fault:
            self.answer.fault = self.answer.fault or str(fault)
        finally:
            self.begun.set()
            connection.close()


def undisturbed(address, ask):
    stream = Stream(address, ask)
    stream.join()
    if not stream.answer.ended:
        raise RuntimeError(f"an undisturbed stream was cut off: {stream.answer.fault}")
    return stream.answer


def surplus(words, got, wanted):
    """Tokens behind an answer that is the same up to there."""
    mine, other = words.of(got.text()), words.of(wanted.text())
    return len(mine) - len(other) if got.ended and mine[:len(other)] == other else 0


def differences(words, got, wanted):
    """Of two answers, the first one's engine was killed; in words."""
    found = [got.fault] if got.fault else []
    if not got.ended:
        return [*found, f"cut off behind {len(got.texts)} events"]
    more = surplus(words, got, wanted)
    if more:
        found.append(f"the same, and {more} tokens more")
    elif got.text() != wanted.text():
        mine, other = words.of(got.text()), words.of(wanted.text())
        same = next((i for i, pair in enumerate(zip(mine, other, strict=False))
                     if pair[0] != pair[1]), min(len(mine), len(other)))
        found.append(f"token {same} differs, of {len(mine)} and {len(other)}")
    for name, one, two in (("finish_reason", got.reasons, wanted.reasons),
                           ("usage", got.usage, wanted.usage),
                           ("roles", got.roles, wanted.roles)):
        if one != two:
            found.append(f"{name} {one}, undisturbed {two}")
    if len(got.ids) != 1:
        found.append(f"{len(got.ids)} ids")
    if got.resumed != 1:
        found.append(f"resumed {got.resumed} times")
    return found


class Kills:
    """Each engine of a session is killed once under the same streams."""

    def __init__(self, session, say):
        self.session, self.say = session, say
        self.words = Words(session.model_dir)
        self.asked = [made(self.words, i) for i in range(GREEDY)]
        self.sampled = [made(self.words, GREEDY + i, True) for i in range(SAMPLED)]
        self.wanted = []
        for ask in self.asked:
            both = [undisturbed(e.address, ask) for e in session.engines]
            equal = all(a.text() == both[0].text() for a in both)
            self.wanted.append(both[0] if equal else None)
        say(f"  {GREEDY} streams undisturbed, {TOKENS} tokens and more of {len(self.words.ids)}: "
            f"{sum(a is not None for a in self.wanted)} are the same at both engines")

    def fail(self, what):
        self.say(f"    {what}")  # at once: an engine's start may take long
        self.session.failed.append(("streams while an engine dies", what))

    def counted(self):
        """(resumed, ... of these torn), by all nodes."""
        import harness
        return tuple(sum(int(harness.metric(node.admin, f"kvasir_{name}_total") or 0)
                         for node in self.session.mesh.nodes)
                     for name in ("resumed", "resumed_torn"))

    def kill(self, index):
        self.session.settle()
        before, streams = self.counted(), []
        for ask in [*self.sampled, *self.asked]:
            streams.append(Stream(self.session.next_node().address, ask))
            streams[-1].begun.wait(engines.IO_TIMEOUT_S)
        at = [(len(s.answer.texts), s.answer.ended) for s in streams]
        self.session.engines[index].crash()
        for s in streams:  # however slow: what is not read on ends by itself
            s.join()
        # One may still have ended in time.
        hit = [s.worker == f"e{index}" and not ended and
               (s.answer.resumed > 0 or not s.answer.ended)
               for s, (_, ended) in zip(streams, at, strict=True)]
        self.judge_sampled(streams[:SAMPLED], hit)
        self.judge(index, streams[SAMPLED:], at[SAMPLED:], hit[SAMPLED:], before)

    def judge_sampled(self, streams, hit):
        """These cannot be repeated, so they end with their engine, and no other."""
        for s, own in zip(streams, hit, strict=False):
            self.session.lost += not s.answer.ended
            if s.answer.resumed or s.answer.ended == own:
                self.fail(f"sampled, {s.worker}: {'went on' if own else s.answer.fault}")

    def judge(self, index, streams, at, hit, before):
        equal, longer, unsure, merged, places = 0, 0, 0, 0, []
        for i, s in enumerate(streams):
            wanted = self.wanted[i]
            if not hit[i]:
                if not s.answer.ended:
                    self.fail(f"of {s.worker}, which lives: {s.answer.fault}")
                continue
            places.append(at[i][0])
            merged += bool(self.merged(s))
            if wanted is None and s.answer.ended:
                unsure += 1
                continue
            found = differences(self.words, s.answer, wanted or Answer())
            equal += not found
            longer += surplus(self.words, s.answer, wanted or Answer()) > 0
            if found:
                self.fail(f"{s.ask.path}, behind {at[i][0]} of its events"
                          f"{self.merged(s)}: {'; '.join(found)}")
        resumed, torn = (a - b for a, b in zip(self.counted(), before, strict=True))
        told = sum(s.answer.resumed for s in streams)
        if resumed != told:
            self.fail(f"{resumed} resumed are counted, {told} clients were told")
        if not places:
            self.fail(f"no stream was at e{index}")
        self.say(f"  kill -9 of e{index} under {len(streams)} streams at temperature 0: "
                 f"{len(places)} were its own, behind {', '.join(map(str, sorted(places)))} "
                 f"events, {merged} with several tokens in one; {equal} are as undisturbed, "
                 f"{longer} the same and longer, {unsure} not compared; {resumed} resumed, "
                 f"{torn} torn")

    def merged(self, stream):
        """Events of several tokens: an engine puts together what was not sent yet."""
        count = sum(len(self.words.of(text)) != 1 for text in stream.answer.texts)
        return f" ({count} of several tokens)" if count else ""
