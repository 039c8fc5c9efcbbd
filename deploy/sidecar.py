#!/usr/bin/env python3
"""Tells the cache events of a vLLM or an SGLang as server-sent events: a
reference for sources of your own. The README says what such a source tells.

    sidecar.py EVENTS REPLAY HOST:PORT

    sidecar.py tcp://127.0.0.1:5557 tcp://127.0.0.1:5558 0.0.0.0:9000
    kvasir serve --worker http://10.0.0.1:8000,sse=http://10.0.0.1:9000/events

Prints `ready sse=URL`. Ends when it misses a batch or loses the engine, for whoever
runs it to start it again: what it told is void then. Blocks of adapters and pictures are not told.
Needs python3-zmq, python3-msgpack and python3-xxhash.
"""
import http.server
import json
import os
import struct
import sys
import threading

import msgpack
import xxhash
import zmq

FIELDS = ("type", "block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id",
          "medium", "lora_name", "extra_keys")  # of an event that comes as a list
TIERS = {None: "device", "GPU": "device", "CPU": "host", "DISK": "disk"}
END = (1 << 64) - 1
TOLD_MAX = 1_000_000  # events that are kept for nodes that come later


def chained(seed, data):
    return xxhash.xxh3_64_intdigest(data, seed)


def root():
    """Of prefixes without adapter and salt: kvasir's index/key.h."""
    space = b"\xff tokens"
    return chained(chained(chained(xxhash.xxh3_64_intdigest(struct.pack("<3Q", len(space), 0, 0)),
                                   space), b""), b"")


class Told:
    """The events so far. Ids count up within one life, which ends when there are
    too many: the next one begins with what is held then."""

    def __init__(self):
        self.news = threading.Condition()
        self.begin()

    def begin(self):
        self.life, self.events = os.urandom(4).hex(), []

    def add(self, kind, data):
        text = f"id: {self.life}-{len(self.events)}\nevent: {kind}\ndata: {json.dumps(data)}\n\n"
        with self.news:
            self.events.append(text.encode())
            self.news.notify_all()


class Cache:
    """What the engine holds: a key and its tokens for each of its names, and
    where the block is, as (rank, tier)."""

    def __init__(self, told):
        self.told, self.blocks, self.root = told, {}, root()

    def take(self, event, rank):
        if isinstance(event, list):
            event = dict(zip(FIELDS if event[0] == "BlockStored" else
                             ("type", "block_hashes", "medium"), event))
        tier = TIERS.get(event.get("medium"))
        if event["type"] == "AllBlocksCleared":
            self.told.add("cache_purged", {"rank": rank})
            self.blocks = {name: block for name, block in self.blocks.items()
                           if self.without(block[2], rank)}
        elif event["type"] == "BlockRemoved" and tier:
            for name in event["block_hashes"]:
                self.removed(name, (rank, tier))
        elif event["type"] == "BlockStored" and tier and not event.get("lora_name") \
                and not any(event.get("extra_keys") or ()):
            self.stored(event, (rank, tier))
        if len(self.told.events) > TOLD_MAX:
            self.told.begin()
            for block in self.blocks.values():
                for place in block[2]:
                    self.tell("cache_created", block, place)

    @staticmethod
    def without(places, rank):
        places -= {place for place in places if place[0] == rank}
        return places

    def tell(self, kind, block, place):
        key, tokens, _, size = block
        self.told.add(kind, {"prefix_hash": f"{key:016x}", "token_count": tokens,
                             "block_tokens": size, "rank": place[0], "tier": place[1]})

    def removed(self, name, place):
        block = self.blocks.get(name)
        if block is not None and place in block[2]:
            self.tell("cache_evicted", block, place)
            block[2].discard(place)
            if not block[2]:
                del self.blocks[name]

    def stored(self, event, place):
        size, parent = event["block_size"], event["parent_block_hash"]
        for i, name in enumerate(event["block_hashes"]):
            if parent is not None and parent not in self.blocks:
                return  # below an adapter's or a picture's block
            key, tokens = self.blocks[parent][:2] if parent is not None else (self.root, 0)
            ids = struct.pack(f"<{size}I", *event["token_ids"][i * size:(i + 1) * size])
            block = self.blocks.setdefault(name, (chained(key, ids), tokens + size, set(), size))
            block[2].add(place)
            self.tell("cache_created", block, place)
            parent = name


def batches(events, replay):
    """Every batch from 0 on: (number, payload). Those of the replay first; the
    live ones wait meanwhile. Ends with the connection: behind the next one may be
    another process, which counts from 0 again."""
    context = zmq.Context()
    live, asked = context.socket(zmq.SUB), context.socket(zmq.DEALER)
    for socket, url in (live, events), (asked, replay):
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(url)
    live.setsockopt(zmq.SUBSCRIBE, b"")
    asked.send_multipart([b"", struct.pack(">Q", 0)])
    poller, lost = zmq.Poller(), live.get_monitor_socket(zmq.EVENT_DISCONNECTED)
    poller.register(lost, zmq.POLLIN)
    for socket in asked, live:
        poller.register(socket, zmq.POLLIN)
        while True:
            ready = dict(poller.poll())
            if lost in ready:
                return
            *_, number, payload = socket.recv_multipart()
            number = struct.unpack(">Q", number)[0]
            if socket is asked and number == END:
                poller.unregister(asked)
                break
            yield number, payload


def follow(told, events, replay):
    cache, due = Cache(told), 0
    for number, payload in batches(events, replay):
        if number < due:
            continue  # live, and in the replay, too
        if number > due:
            os._exit(1)
        due += 1
        _, found, rank = (msgpack.unpackb(payload, strict_map_key=False) + [0])[:3]
        for event in found:
            cache.take(event, rank or 0)
    os._exit(1)


class Handler(http.server.BaseHTTPRequestHandler):
    told = None  # set by main()

    def do_GET(self):
        told = self.told
        life, _, last = self.headers.get("Last-Event-ID", "").rpartition("-")
        at = int(last) + 1 if life == told.life and last.isdigit() else 0
        life = told.life
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        try:
            while life == told.life:
                with told.news:
                    waited = told.news.wait_for(lambda: at < len(told.events), timeout=15)
                    more = told.events[at:at + 1000]
                self.wfile.write(b"".join(more) if waited else b": still here\n\n")
                at += len(more)
        except OSError:
            pass  # the node has gone

    def log_message(self, *_):
        pass


def main():
    events, replay, address = sys.argv[1:]
    host, _, port = address.rpartition(":")
    Handler.told = Told()
    server = http.server.ThreadingHTTPServer((host, int(port)), Handler)
    server.daemon_threads = True
    threading.Thread(target=follow, args=(Handler.told, events, replay), daemon=True).start()
    print(f"ready sse=http://{host}:{server.server_address[1]}/events", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
