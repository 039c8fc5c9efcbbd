"""Publishes KV events as engines do, over ZeroMQ, and misbehaves on command.

    publisher = Publisher()
    publisher.store(range(4))           # one batch: four blocks of a new prefix
    publisher.events, publisher.replay  # tcp://127.0.0.1:PORT

One Publisher is one rank of one engine: a PUB socket, and a ROUTER that
repeats what it has published. Both live on a thread of their own. restart()
is a new process at the same ports. Attributes that misbehave:

    drop_live       live messages that are still to be lost
    replay_holes    seqs that no replay has
    replay_drop     seqs that the next replay loses, once
    replay_end      False: no end marker; N: none for the next N replies
    replay_answers  False: requests are not answered
    replay_ends     end markers behind a reply
    framing         3 or 4 frames of a reply
    encoding        "map" or "array"
    topic           bytes of the first frame
"""
import queue
import socket
import struct
import threading
import time

import msgpack
import zmq

from dns import free_port, free_ports

BLOCK_TOKENS = 16
END = b"\xff" * 8
PATIENCE_S = 30


class Publisher:
    def __init__(self, host="127.0.0.1", ports=(0, 0), framing=4, encoding="map",
                 topic=b"kv-events", rank=0):
        self.host, self.framing, self.encoding = host, framing, encoding
        self.topic, self.rank = topic, rank
        self.ports = ports
        self.buffer_max = 10000
        self.requests = []  # start seqs of the replays asked for
        self.askers = []  # ... and by which connection
        self.misbehave()
        self._calls = queue.Queue()
        self._open(patience_s=0)

    def misbehave(self):
        """Well, in fact: nothing is wrong any more."""
        self.drop_live = 0
        self.replay_holes = set()
        self.replay_drop = set()
        self.replay_end = True
        self.replay_answers = True
        self.replay_ends = 1

    # The process

    def _open(self, patience_s):
        self.seq, self.buffer, self.held = 0, [], {}
        self.subscriptions = []  # topics, as they were asked for
        self.context = zmq.Context()
        # A PUB socket that tells who subscribed.
        self.pub = self._bind(zmq.XPUB, self.ports[0], patience_s)
        self.pub.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.router = self._bind(zmq.ROUTER, self.ports[1], patience_s)
        self.ports = tuple(self._port(s) for s in (self.pub, self.router))
        self._wake_in, self._wake_out = socket.socketpair()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _bind(self, kind, port, patience_s):
        bound = self.context.socket(kind)
        bound.setsockopt(zmq.LINGER, 0)
        bound.setsockopt(zmq.SNDHWM, 0)
        bound.setsockopt(zmq.IPV6, 1)
        end = time.monotonic() + (patience_s if port else PATIENCE_S)
        while True:
            try:
                # Of any, one that nobody is given between this process and the next.
                bound.bind(self._url(port or free_port(self.host)))
                return bound
            except zmq.ZMQError:
                # The port of the process before is free in a moment.
                if time.monotonic() >= end:
                    bound.close()
                    raise
                threading.Event().wait(0.01)

    @staticmethod
    def _port(bound):
        return int(bound.getsockopt(zmq.LAST_ENDPOINT).rstrip(b"\0").rpartition(b":")[2])

    def _url(self, port):
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tcp://{host}:{port}"

    @property
    def events(self):
        return self._url(self.ports[0])

    @property
    def replay(self):
        return self._url(self.ports[1])

    def close(self):
        if self._thread is not None:
            self._call(None)
            self._thread.join()
            self._thread = None

    def restart(self):
        """Another process at the same ports, with nothing in its cache."""
        self.close()
        self._open(PATIENCE_S)

    # The thread that owns the sockets

    def _call(self, what):
        done = threading.Event()
        self._calls.put((what, done))
        self._wake_in.send(b"x")
        done.wait(60)

    def _run(self):
        poller = zmq.Poller()
        poller.register(self.router, zmq.POLLIN)
        poller.register(self.pub, zmq.POLLIN)
        poller.register(self._wake_out, zmq.POLLIN)
        running = True
        while running:
            ready = dict(poller.poll())
            if self.router in ready:
                self._serve(self.router.recv_multipart())
            if self.pub in ready:
                message = self.pub.recv()
                if message[:1] == b"\1":
                    self.subscriptions.append(message[1:])
            if self._wake_out.fileno() in ready:
                self._wake_out.recv(1)
                what, done = self._calls.get()
                if what is None:
                    running = False
                    self.pub.close()
                    self.router.close()
                    self.context.term()
                    self._wake_in.close()
                    self._wake_out.close()
                else:
                    what()
                done.set()

    def _reply(self, identity, topic, seq, payload):
        frames = [identity, b""] + ([topic] if self.framing == 4 else []) + [seq, payload]
        self.router.send_multipart(frames)

    def _serve(self, frames):
        if len(frames) != 3 or frames[1] != b"" or len(frames[2]) != 8:
            return
        start = struct.unpack(">Q", frames[2])[0]
        self.askers.append(frames[0])
        self.requests.append(start)
        if not self.replay_answers:
            return
        dropped, self.replay_drop = self.replay_drop, set()
        for seq, payload in list(self.buffer):
            if seq >= start and seq not in self.replay_holes and seq not in dropped:
                self._reply(frames[0], self.topic, struct.pack(">Q", seq), payload)
        if self.replay_end is True:
            for _ in range(self.replay_ends):
                self._reply(frames[0], b"", END, b"")
        elif self.replay_end is not False:
            self.replay_end = self.replay_end - 1 or True

    # What it publishes

    def send(self, *frames):
        """A message as it is."""
        self._call(lambda: self.pub.send_multipart(list(frames)))

    def publish(self, payload, topic=None):
        """The next batch, whatever is in it."""
        seq, self.seq = self.seq, self.seq + 1
        self.buffer = (self.buffer + [(seq, payload)])[-self.buffer_max:]
        if self.drop_live > 0:
            self.drop_live -= 1
            return
        self.send(topic or self.topic, struct.pack(">Q", seq), payload)

    def batch(self, *events):
        """Publishes these events as one batch."""
        self.publish(self.pack(*events))

    def pack(self, *events):
        return msgpack.packb([time.time(), list(events), self.rank])

    def stored(self, hashes, parent=None, tokens=None):
        hashes = list(hashes)
        if tokens is None:
            tokens = [h % 50000 + i for h in hashes for i in range(BLOCK_TOKENS)]
        if self.encoding == "array":
            return ["BlockStored", hashes, parent, tokens, BLOCK_TOKENS, None, "GPU"]
        return {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": parent,
                "token_ids": tokens, "block_size": BLOCK_TOKENS, "lora_id": None,
                "medium": "GPU", "lora_name": None}

    def removed(self, hashes):
        if self.encoding == "array":
            return ["BlockRemoved", list(hashes), "GPU"]
        return {"type": "BlockRemoved", "block_hashes": list(hashes), "medium": "GPU"}

    def cleared(self):
        return ["AllBlocksCleared"] if self.encoding == "array" else {"type": "AllBlocksCleared"}

    def store(self, hashes, parent=None):
        hashes = list(hashes)
        self.held.update(dict.fromkeys(hashes))
        self.batch(self.stored(hashes, parent))

    def remove(self, hashes):
        for h in hashes:
            del self.held[h]
        self.batch(self.removed(hashes))

    def clear(self):
        self.held = {}
        self.batch(self.cleared())


def ranks(count, **options):
    """Publishers whose ports follow each other."""
    first = free_ports(2 * count)
    return [Publisher(ports=(first + rank, first + count + rank), rank=rank, **options)
            for rank in range(count)]
