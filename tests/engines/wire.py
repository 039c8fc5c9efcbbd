"""Follows an engine's KV events as the documents say, and says where the
engine does not do as they say.

Follower  a thread with a SUB socket: frames, numbering, replay.
Mirror    what the events make of the engine's cache: the plainest model there
          is, a dictionary. It predicts cached tokens.
Facts     every rule looked at, how often it was seen and how often it failed.
"""
import hashlib
import pickle
import struct
import threading

import msgspec
import zmq

END = b"\xff" * 8
SEQ = struct.Struct(">Q")
POLL_MS = 50
REPLAY_TIMEOUT_MS = 5000
STORED_KEYS = {"type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id",
               "medium", "lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind"}
REMOVED_KEYS = {"type", "block_hashes", "medium", "group_idx"}


class Facts:
    def __init__(self):
        self.seen = {}
        self.lock = threading.Lock()

    def note(self, fact, good, what=""):
        with self.lock:
            entry = self.seen.setdefault(fact, [0, 0, ""])
            entry[0] += 1
            if not good:
                entry[1] += 1
                entry[2] = entry[2] or str(what)[:200]

    def broken(self):
        return {fact: e for fact, e in self.seen.items() if e[1]}


class Mirror:
    """The blocks that are resident, by engine hash. A block's place is its
    parent's hash, the extra keys (first block only: adapter, salt) and its
    tokens."""

    def __init__(self, block_tokens, facts):
        self.block_tokens = block_tokens
        self.facts = facts
        self.copies = {}   # hash -> how many physical blocks
        self.place = {}    # hash -> (parent, salt, tokens)
        self.child = {}    # place -> hash
        self.digest = {}   # hash -> the whole 32 bytes, where it is known
        self.stored = self.removed = self.cleared = self.duplicates = 0
        self.orphaned = 0  # removed while a child is resident
        self.children = {}
        self.now = 0       # the engine's clock, of the batch that is applied
        self.losses = 0    # removals and clears that were applied
        self.gone = {}     # hash -> [(losses, now)] of each removal
        self.emptied = []  # ... of each clear
        self.none = self.hash("vllm-none-hash")

    @staticmethod
    def hash(value):
        return hashlib.sha256(pickle.dumps(value, protocol=5)).digest()

    def clear(self):
        self.losses += 1
        self.emptied.append((self.losses, self.now))
        for table in (self.copies, self.place, self.child, self.digest, self.children):
            table.clear()

    def apply(self, event):
        kind = event["type"]
        if kind == "BlockStored":
            self.store(event)
        elif kind == "BlockRemoved":
            for name in event["block_hashes"]:
                self.remove(name)
        elif kind == "AllBlocksCleared":
            self.cleared += 1
            self.clear()

    def store(self, event):
        size, tokens = event["block_size"], event["token_ids"]
        extras = event.get("extra_keys") or [None] * len(event["block_hashes"])
        parent = event["parent_block_hash"]
        self.facts.note("the parent of a stored block is held (11)",
                        parent is None or parent in self.copies, event)
        for i, name in enumerate(event["block_hashes"]):
            media = tuple(tuple(e) for e in extras[i] or () if isinstance(e, list))
            extra = () if parent is not None else tuple(
                e for e in extras[i] or () if not isinstance(e, list))
            place = (parent, extra + media, tuple(tokens[i * size:(i + 1) * size]))
            if not event["lora_name"] and not media:
                self.reproduce(name, place, extras[i])
            if name in self.copies:
                self.duplicates += 1
            self.copies[name] = self.copies.get(name, 0) + 1
            if name not in self.place:
                self.children[parent] = self.children.get(parent, 0) + 1
            self.place[name], self.child[place] = place, name
            self.stored += 1
            parent = name

    def reproduce(self, name, place, extras):
        """The hash from the definition: pickle and SHA-256, default seed, the
        salt tagged."""
        parent, salts, tokens = place
        before = self.none if parent is None else self.digest.get(parent)
        if before is None:
            return
        extra = tuple(("cache_salt", salt) for salt in salts) or None
        digest = self.hash((before, tokens, extra))
        self.facts.note("a hash is pickle, SHA-256, seed vllm-none-hash, tagged salt (2.1, 2.2)",
                        int.from_bytes(digest[-8:], "big") == name, name)
        self.facts.note("the salt is told in block 0 only (25)",
                        (parent is None) or extras is None, extras)
        self.digest[name] = digest

    def remove(self, name):
        self.facts.note("a removed block was held", name in self.copies, name)
        if name not in self.copies:
            return
        self.removed += 1
        self.copies[name] -= 1
        if self.copies[name]:
            return
        del self.copies[name]
        self.lose(name)
        place = self.place.pop(name)
        self.child.pop(place, None)
        self.digest.pop(name, None)
        self.children[place[0]] = self.children.get(place[0], 1) - 1
        if self.children.get(name):
            self.orphaned += 1

    def lose(self, name):
        self.losses += 1
        self.gone.setdefault(name, []).append((self.losses, self.now))

    def walk(self, tokens, extra=(), media=()):
        """The hashes of a prompt's blocks that are resident: it stops at the
        first that is missing, and one token is always computed. media: (name,
        offset, length) of each picture, in order."""
        size, parent, found = self.block_tokens, None, []
        for i in range((len(tokens) - 1) // size):
            seen = tuple((name, at - i * size) for name, at, length in media
                         if at < (i + 1) * size and at + length > i * size)
            place = (parent, (extra if i == 0 else ()) + seen,
                     tuple(tokens[i * size:(i + 1) * size]))
            parent = self.child.get(place)
            if parent is None or parent not in self.copies:
                break
            found.append(parent)
        return found


class Window:
    """What a group of sliding-window layers holds. A hit of n blocks needs the
    last of them here, as many as the window reaches back from the next token."""

    def __init__(self, tokens, mirror):
        self.needed = -(-(tokens - 1) // mirror.block_tokens)
        self.mirror = mirror
        self.copies = {}

    def apply(self, event):
        for name in event["block_hashes"]:
            if event["type"] == "BlockStored":
                self.copies[name] = self.copies.get(name, 0) + 1
            elif self.copies.get(name):
                self.copies[name] -= 1
                self.mirror.lose(name)

    def serves(self, hashes):
        return all(self.copies.get(name) for name in hashes[-self.needed:])


class Prediction:
    """Of one engine for one prompt, when it was sent: the longest prefix that
    every group can serve. full: what the group of full attention holds."""

    def __init__(self, mirror, windows, tokens, extra, media=()):
        self.mirror = mirror
        self.hashes = mirror.walk(tokens, extra, media)
        self.full = len(self.hashes) * mirror.block_tokens
        while self.hashes and not all(w.serves(self.hashes) for w in windows):
            self.hashes.pop()
        self.tokens = len(self.hashes) * mirror.block_tokens
        self.losses = mirror.losses

    def is_overtaken(self, answered):
        """Whether a block of it, or everything, went after this was known and
        before the answer came: the engine had evicted it and not said so yet, or
        did so on the request's way. To be asked when the events are in."""
        went = [loss for name in self.hashes for loss in self.mirror.gone.get(name, [])]
        return any(loss > self.losses and at <= answered
                   for loss, at in went + self.mirror.emptied)


class Follower:
    """Owns the sockets and the mirror; read the mirror under `lock`."""

    def __init__(self, engine, rank, facts):
        self.engine, self.rank = engine, rank
        self.facts = facts
        self.lock = threading.Lock()
        self.mirror = self.new_mirror()
        self.expected = 0
        self.live = {}        # seq -> payload, of this incarnation
        self.payloads = []    # what is worth keeping, [kind, payload]
        self.kinds = set()
        self.windows = {}     # group -> Window
        self.others = set()   # groups that are not full attention
        self.batches = self.restarts = self.gaps = 0
        self.context = zmq.Context()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def new_mirror(self):
        return Mirror(self.engine.block_tokens, self.facts)

    def close(self):
        self.over.set()
        self.thread.join()
        self.context.destroy(linger=0)

    def run(self):
        sub = self.context.socket(zmq.SUB)
        sub.setsockopt(zmq.RCVHWM, 0)
        sub.setsockopt(zmq.RECONNECT_IVL, 50)
        sub.subscribe(b"")
        sub.connect(f"tcp://127.0.0.1:{self.engine.events_port + self.rank}")
        while not self.over.is_set():
            if sub.poll(POLL_MS):
                self.message(sub.recv_multipart())
        sub.close(linger=0)

    def message(self, frames):
        self.facts.note("a message has 3 frames, the second of 8 bytes (1)",
                        len(frames) == 3 and len(frames[1]) == 8, frames)
        seq, payload = SEQ.unpack(frames[1])[0], frames[2]
        with self.lock:
            if self.live.get(seq) == payload:
                return  # a replay was faster
            if seq < self.expected:
                self.restarts += 1
                self.facts.note("a new process numbers from 0 (15)", seq == 0, seq)
                self.forget()
            if seq > self.expected:
                self.gaps += 1
                self.catch_up()
            if seq >= self.expected:
                self.take(seq, payload)

    def forget(self):
        self.mirror.clear()
        self.windows.clear()
        self.live, self.expected = {}, 0

    def catch_up(self):
        """Applies what the replay has from the expected one on."""
        for seq, payload in self.replay(self.expected):
            if seq == self.expected:
                self.take(seq, payload)

    def take(self, seq, payload):
        self.live[seq] = payload
        self.expected = seq + 1
        self.batches += 1
        batch = msgspec.msgpack.decode(payload)
        self.mirror.now = batch[0]
        self.envelope(batch)
        for event in batch[1]:
            if self.is_main(event):
                self.event(event)
                self.mirror.apply(event)
                if event["type"] == "AllBlocksCleared":
                    self.windows.clear()
            else:
                self.window(event)
        self.keep(batch, payload)

    def is_main(self, event):
        """Whether an event is of the group that counts. Removals name the group
        only."""
        kind = event.get("kv_cache_spec_kind")
        if kind not in (None, "full_attention"):
            self.others.add(event["group_idx"])
        return event.get("group_idx") not in self.others

    def window(self, event):
        group = event["group_idx"]
        if group not in self.windows and event["type"] == "BlockStored":
            # Of a state a hit needs the last block.
            tokens = 2 if event["kv_cache_spec_kind"] == "mamba" else event[
                "kv_cache_spec_sliding_window"]
            self.windows[group] = Window(tokens, self.mirror)
        if group in self.windows:
            self.windows[group].apply(event)

    def envelope(self, batch):
        good = isinstance(batch, list) and len(batch) == 3
        self.facts.note("a batch is an array [float, events, rank] (2)",
                        good and isinstance(batch[0], float) and batch[2] == self.rank,
                        batch)

    def event(self, event):
        self.facts.note("an event is a map with a type (3)",
                        isinstance(event, dict) and "type" in event, event)
        if event["type"] == "AllBlocksCleared":
            self.facts.note("a clear has no other key", len(event) == 1, event)
            return
        keys = STORED_KEYS if event["type"] == "BlockStored" else REMOVED_KEYS
        self.facts.note(f"the keys of {event['type']} are those of 1.5",
                        set(event) - {"session_id"} == keys, sorted(event))
        self.facts.note("a hash is an unsigned integer of 64 bits (5)",
                        all(isinstance(h, int) and 0 <= h < 1 << 64
                            for h in event["block_hashes"]), event)
        self.facts.note("medium is GPU", event["medium"] == "GPU", event)
        if event["type"] == "BlockRemoved":
            self.facts.note("a removal names one block (1.5)", len(event["block_hashes"]) == 1,
                            event)
            return
        self.facts.note("block_size is the one asked for (7)",
                        event["block_size"] == self.engine.block_tokens, event)
        self.facts.note("tokens fill the blocks (8)", len(event["token_ids"])
                        == len(event["block_hashes"]) * event["block_size"], event)
        self.facts.note("the group is full_attention (9)",
                        event["kv_cache_spec_kind"] == "full_attention", event)

    def keep(self, batch, payload):
        """One payload of each shape."""
        kinds = [e["type"] for e in batch[1]]
        if any((e.get("extra_keys") or [None])[0] for e in batch[1]):
            kinds.append("salted")
        if any(e.get("parent_block_hash") is not None for e in batch[1]):
            kinds.append("child")
        shape = tuple(sorted((k, min(kinds.count(k), 3)) for k in set(kinds)))
        if shape not in self.kinds:
            self.kinds.add(shape)
            self.payloads.append((shape, payload))

    def replay(self, start):
        """Every (seq, payload) that a replay from start gives."""
        dealer = self.context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.RCVHWM, 0)
        dealer.connect(f"tcp://127.0.0.1:{self.engine.replay_port + self.rank}")
        dealer.send_multipart([b"", SEQ.pack(start)])
        found = []
        try:
            while dealer.poll(REPLAY_TIMEOUT_MS):
                frames = dealer.recv_multipart()
                self.facts.note("a replayed message has 4 frames: \"\", topic, seq, payload (17)",
                                len(frames) == 4 and frames[0] == b"" and len(frames[2]) == 8,
                                frames)
                if frames[2] == END:
                    self.facts.note("the end marker is \"\", \"\", ff*8, \"\" (17)",
                                    frames == [b"", b"", END, b""], frames)
                    return found
                found.append((SEQ.unpack(frames[2])[0], frames[3]))
            raise TimeoutError("a replay did not end")
        finally:
            dealer.close(linger=0)

    def settle(self):
        """Waits until everything that the engine published is applied. The
        engine's publisher answers a replay after what it published before.
        Asked for from the last batch known on: a process that does not have it
        is another one, which else would show with its first batch only."""
        with self.lock:
            start = max(self.expected - 1, 0)
            again = dict(self.replay(start))
            if self.expected and again.get(start) != self.live.get(start):
                self.restarts += 1
                self.forget()
                again = dict(self.replay(0))
            for seq in sorted(again):
                if seq == self.expected:
                    self.take(seq, again[seq])

    def compare_replay(self):
        """The replay against what came live."""
        with self.lock:
            live = dict(self.live)
        again = dict(self.replay(0))
        self.facts.note("a replay from 0 has everything, as it came live (1.3)",
                        all(again.get(seq) == payload for seq, payload in live.items()),
                        f"{len(again)} of {len(live)}")

    def predict(self, tokens, salt, adapter=None, media=()):
        with self.lock:
            return Prediction(self.mirror, self.windows.values(), tokens,
                              tuple(filter(None, (adapter, salt))), media)
