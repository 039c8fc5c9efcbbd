"""Many idle workers in one process, for mesh.py and growth.py: each has an HTTP
port of its own (/health, /metrics, /v1/models) and binds the event sockets of an
engine that has said nothing.

    mesh_workers.py COUNT

prints `ready` and one URL,events=URL,replay=URL for each, and serves until it
is told to end. A number on a line of its input: from now on so many batches a
second are published, in turns, each of 8 blocks of 16 tokens that are new.
"""
import asyncio
import collections
import itertools
import json
import random
import struct
import sys

import msgpack
import zmq

MODELS = json.dumps({"object": "list", "data": [
    {"id": "m", "object": "model", "owned_by": "vllm"}]}).encode()
METRICS = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="m"} 0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="m"} 0
# TYPE vllm:kv_cache_usage_perc gauge
vllm:kv_cache_usage_perc{model_name="m"} 0.0
# TYPE vllm:num_preemptions_total counter
vllm:num_preemptions_total{model_name="m"} 0
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{model_name="m"} 0
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{model_name="m"} 0
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",num_gpu_blocks="4096"} 1
"""
BODIES = {b"/health": b"", b"/metrics": METRICS, b"/v1/models": MODELS}


class Http(asyncio.Protocol):
    """Requests without bodies, on connections that are kept."""

    def connection_made(self, transport):
        self.transport, self.held = transport, b""

    def data_received(self, data):
        self.held += data
        while b"\r\n\r\n" in self.held:
            head, _, self.held = self.held.partition(b"\r\n\r\n")
            body = BODIES.get(head.split(b" ", 2)[1])
            close = b"connection: close" in head.lower()
            self.transport.write(
                b"HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s" % (
                    b"200 OK" if body is not None else b"404 Not Found", len(body or b""),
                    b"Connection: close\r\n" if close else b"", body or b""))
            if close:
                self.transport.close()


def bind(context, kind):
    made = context.socket(kind)
    made.linger = 0
    made.bind("tcp://127.0.0.1:*")
    return made, made.last_endpoint.decode()


class Rank:
    """Publishes, and repeats the last of it."""
    KEPT = 4000

    def __init__(self, context):
        self.pub, self.events = bind(context, zmq.PUB)
        self.router, self.replay = bind(context, zmq.ROUTER)
        self.next, self.kept = 0, collections.deque(maxlen=self.KEPT)

    def say(self, payload):
        said = [b"", struct.pack(">Q", self.next), payload]
        self.next += 1
        self.kept.append(said)
        self.pub.send_multipart(said)

    def answer(self):
        """What is wanted and the end marker, to everybody who asked."""
        while self.router.getsockopt(zmq.EVENTS) & zmq.POLLIN:
            asker, _, start = self.router.recv_multipart()
            for said in self.kept:
                if said[1] >= start:  # both are of 8 bytes
                    self.router.send_multipart([asker, *said])
            self.router.send_multipart([asker, b"", b"\xff" * 8, b""])


class Speech:
    """What the workers publish, at the pace of the last number that was read."""
    TICK_S = 0.01

    def __init__(self, ranks):
        self.ranks, self.rate, self.owed = itertools.cycle(ranks), 0, 0.0
        self.rng, self.hashes = random.Random(1), itertools.count(1)

    def listen(self):
        line = sys.stdin.readline()
        if line:
            self.rate = int(line)
        else:
            asyncio.get_running_loop().remove_reader(sys.stdin)

    def say(self):
        # In maps, as vLLM's tagged structs are.
        stored = {"type": "BlockStored", "block_hashes": list(itertools.islice(self.hashes, 8)),
                  "parent_block_hash": None, "block_size": 16, "lora_id": None,
                  "token_ids": [self.rng.randrange(100, 30000) for _ in range(128)]}
        next(self.ranks).say(msgpack.packb([0.0, [stored], None]))

    async def go_on(self):
        loop = asyncio.get_running_loop()
        before = loop.time()
        while True:
            await asyncio.sleep(self.TICK_S)
            now = loop.time()
            self.owed += self.rate * (now - before)
            before = now
            while self.owed >= 1:
                self.owed -= 1
                self.say()


async def serve(count):
    loop = asyncio.get_running_loop()
    context = zmq.Context()
    context.set(zmq.MAX_SOCKETS, 8192)
    servers, ranks, words = [], [], []
    for _ in range(count):
        server = await loop.create_server(Http, "127.0.0.1", 0)
        rank = Rank(context)
        loop.add_reader(rank.router.fd, rank.answer)
        port = server.sockets[0].getsockname()[1]
        servers.append(server)
        ranks.append(rank)
        words.append(f"http://127.0.0.1:{port},events={rank.events},replay={rank.replay}")
    speech = Speech(ranks)
    loop.add_reader(sys.stdin, speech.listen)
    print("ready", *words, flush=True)
    await speech.go_on()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
