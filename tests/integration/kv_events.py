"""The events of an engine's cache as a subscriber sees them: what a router
must do, in its simplest form, with Debian's python3-zmq and python3-msgpack.
"""
import collections
import struct

import msgpack
import zmq

import harness

END = (1 << 64) - 1


def events_of(payload):
    """(rank, [{"type": ..., ...}]) of a payload in maps."""
    _, events, rank = msgpack.unpackb(payload, raw=False, strict_map_key=False)
    return rank, events


def apply(keys, payload):
    """Applies a batch to a collections.Counter of block hashes; checks what
    engines promise of their order."""
    for event in events_of(payload)[1]:
        if event["type"] == "BlockStored":
            parent = event["parent_block_hash"]
            assert parent is None or keys[parent] > 0, "a child before its parent"
            keys.update(event["block_hashes"])
        elif event["type"] == "BlockRemoved":
            keys.subtract(event["block_hashes"])
            assert min(keys.values()) >= 0, "removed more often than stored"
        elif event["type"] == "AllBlocksCleared":
            keys.clear()
        else:
            raise AssertionError(event)
    return keys


class Live:
    """A subscriber."""

    def __init__(self, url, topic=""):
        self.socket = zmq.Context.instance().socket(zmq.SUB)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt_string(zmq.SUBSCRIBE, topic)
        self.socket.connect(url)

    def next(self, timeout_s=harness.IO_TIMEOUT_S):
        """(topic, seq, payload); None when none came in time."""
        if self.socket.poll(int(timeout_s * 1000)) == 0:
            return None
        topic, seq, payload = self.socket.recv_multipart()
        return topic, struct.unpack(">Q", seq)[0], payload

    def close(self):
        self.socket.close()


class Replay:
    """A DEALER at an engine's replay endpoint."""

    def __init__(self, url):
        self.socket = zmq.Context.instance().socket(zmq.DEALER)
        self.socket.setsockopt(zmq.RCVHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.connect(url)

    def ask(self, start=0):
        self.socket.send_multipart([b"", struct.pack(">Q", start)])

    def frames(self, timeout_s=harness.IO_TIMEOUT_S):
        """One message as it is, or None."""
        if self.socket.poll(int(timeout_s * 1000)) == 0:
            return None
        return self.socket.recv_multipart()

    def collect(self, start=0):
        """({seq: payload}, whether an end marker came)."""
        self.ask(start)
        batches = {}
        while (frames := self.frames()) is not None:
            seq = struct.unpack(">Q", frames[-2])[0]
            if seq == END:
                assert frames[-1] == b"", frames
                return batches, True
            batches[seq] = frames[-1]
        return batches, False

    def close(self):
        self.socket.close()


def cache(http, rank=0):
    """(next seq, Counter of block hashes) of the engine itself."""
    answer = harness.request(http, "GET", "/chaos/cache",
                             headers={"X-Data-Parallel-Rank": str(rank)}).json()
    return answer["next_seq"], collections.Counter(answer["keys"])


def replayed(batches):
    """The Counter that all batches from 0 lead to."""
    keys = collections.Counter()
    assert sorted(batches) == list(range(len(batches))), sorted(batches)
    for seq in sorted(batches):
        apply(keys, batches[seq])
    return +keys
