"""An engine that computes nothing and publishes cache events, for runs that need
many of them: its cache is known at every moment, and its replay is short. It is a
program of its own (see soak.py):

    publisher.py --host ADDRESS --seed N --rate BATCHES --replay BATCHES --blocks BLOCKS

    GET  /health, /v1/models, /metrics    as engines answer
    GET  /chaos/cache    {"next_seq": N, "keys": [...], "chains": [[TOPIC, BLOCKS], ...],
                         "unrepeated": how many of the keys no batch of the replay names}
    POST /chaos          {"rate": N}: batches a second from now on; answers when
                         none is under way any more
    Anything else that is posted is answered 404.

Prompts grow, are forgotten tail first, the longest unused ones first, and never
come back: each topic is a new one. Some stay in use after the last word about them, as
system prompts do: no event tells of that, and the replay soon has nothing of them.
topic_tokens() says what is in topics. A process begins at batch 0, and has its own names
for blocks. Needs python3-zmq and python3-msgpack.
"""
import argparse
import collections
import http.server
import json
import queue
import random
import struct
import threading
import time

MODEL = "kvasir/published"
BLOCK_TOKENS = 16
TOPIC_BLOCKS_MAX = 24
TALKED_OF = 64      # topics that grow at a time
TOPICS = 1 << 20    # of one process
POPULAR = 32        # topics that stay in use
POPULAR_ONE_IN = 40  # topics takes the place of one of these
CLEARS_EVERY = 20000
EVENTS_PORT, REPLAY_PORT, HTTP_PORT = 5557, 5657, 8000
END = b"\xff" * 8
LATE_S = 1


def topic_tokens(topic, first, blocks):
    """Tokens of these blocks of a topic: no two blocks of all topics have the
    same."""
    tokens = []
    for block in range(first, first + blocks):
        tokens += [topic, block, *range(BLOCK_TOKENS - 2)]
    return tokens


class Cache:
    """What is cached, and the batches that say so. One thread at a time."""

    def __init__(self, seed, blocks_max):
        self.random = random.Random(seed)
        self.blocks_max = blocks_max
        self.name = self.random.getrandbits(40) << 20
        self.topics = collections.OrderedDict()  # topic: blocks; oldest use first
        self.first_topic = seed % (1 << 10) * TOPICS  # of no other process of a world
        self.next_topic = self.first_topic
        self.talked_of = []
        self.popular = []
        self.steps = 0
        self.grown = {}  # topic: the step that stored its last block
        self.blocks = 0

    def hash_of(self, topic, block):
        return self.name + (topic - self.first_topic) * TOPIC_BLOCKS_MAX + block + 1

    def forget(self, topic, blocks):
        """The last blocks of a topic: an event."""
        had = self.topics[topic]
        left = had - blocks
        self.blocks -= blocks
        if left == 0:
            del self.topics[topic], self.grown[topic]
        else:
            self.topics[topic] = left
        return {"type": "BlockRemoved", "medium": "GPU",
                "block_hashes": [self.hash_of(topic, b) for b in reversed(range(left, had))]}

    def grow(self, topic, blocks):
        had = self.topics.get(topic, 0)
        self.topics[topic] = had + blocks
        self.grown[topic] = self.steps
        self.blocks += blocks
        return {"type": "BlockStored", "medium": "GPU", "lora_id": None, "lora_name": None,
                "block_size": BLOCK_TOKENS, "token_ids": topic_tokens(topic, had, blocks),
                "block_hashes": [self.hash_of(topic, b) for b in range(had, had + blocks)],
                "parent_block_hash": self.hash_of(topic, had - 1) if had else None}

    def clear(self):
        self.topics.clear()
        self.grown.clear()
        self.blocks = 0
        return [{"type": "AllBlocksCleared"}]

    def topic(self):
        if len(self.talked_of) < TALKED_OF:
            self.talked_of.append(self.next_topic)
            self.next_topic += 1
        return self.random.choice(self.talked_of)

    def leave(self, topic):
        """Enough was said of it."""
        self.talked_of.remove(topic)
        if len(self.popular) < POPULAR:
            self.popular.append(topic)
        elif self.random.randrange(POPULAR_ONE_IN) == 0:
            self.popular[self.random.randrange(POPULAR)] = topic

    def use(self):
        """One of the popular topics, again."""
        if self.popular:
            topic = self.random.choice(self.popular)
            if topic in self.topics:
                self.topics.move_to_end(topic)
            else:
                self.popular.remove(topic)  # all was cleared

    def unrepeated(self, batches):
        """How many blocks the last so many batches say nothing of, at least: those of topics
        that none of them stored a block of."""
        return sum(n for t, n in self.topics.items() if self.grown[t] < self.steps - batches)

    def step(self):
        """Events of the next batch."""
        self.use()
        events = self.next_events()
        self.steps += 1
        return events

    def next_events(self):
        if self.random.randrange(CLEARS_EVERY) == 0:
            return self.clear()
        topic, more = self.topic(), self.random.randint(1, 3)
        while self.topics.get(topic, 0) + more > TOPIC_BLOCKS_MAX:
            self.leave(topic)
            topic = self.topic()
        if topic in self.topics:
            self.topics.move_to_end(topic)  # its parent stays
        events = []
        while self.blocks + more > self.blocks_max:
            oldest = next(iter(self.topics))
            events.append(self.forget(oldest, min(self.topics[oldest], 3)))
        return [*events, self.grow(topic, more)]


class Publisher:
    """The sockets and the cache: the thread that runs run() owns them. Others ask it:
    a lock that it holds most of the time would keep them waiting on a busy machine."""

    def __init__(self, options):
        import zmq  # pylint: disable=import-outside-toplevel
        import msgpack  # pylint: disable=import-outside-toplevel
        self.zmq, self.pack = zmq, msgpack.packb
        self.cache = Cache(options.seed, options.blocks)
        self.asked = queue.Queue()  # (what to do, where the answer goes)
        self.rate = options.rate
        self.seq = 0
        self.buffer = collections.deque(maxlen=options.replay)
        context = zmq.Context()
        self.pub = self.bind(context, zmq.PUB, options.host, EVENTS_PORT)
        self.router = self.bind(context, zmq.ROUTER, options.host, REPLAY_PORT)

    def bind(self, context, kind, host, port):
        bound = context.socket(kind)
        bound.setsockopt(self.zmq.LINGER, 0)
        bound.setsockopt(self.zmq.SNDHWM, 0)
        bound.bind(f"tcp://{host}:{port}")
        return bound

    def publish(self):
        number = struct.pack(">Q", self.seq)
        payload = self.pack([time.time(), self.cache.step(), 0])
        self.seq += 1
        self.buffer.append((number, payload))
        self.pub.send_multipart([b"", number, payload])

    def repeat(self):
        frames = self.router.recv_multipart()
        if len(frames) != 3 or len(frames[2]) != 8:
            return
        for number, payload in self.buffer:
            if number >= frames[2]:
                self.router.send_multipart([frames[0], b"", b"", number, payload])
        self.router.send_multipart([frames[0], b"", b"", END, b""])

    def answer(self):
        while not self.asked.empty():
            do, answers = self.asked.get()
            answers.put(do())

    def run(self):
        poller = self.zmq.Poller()
        poller.register(self.router, self.zmq.POLLIN)
        due = time.monotonic()
        while True:
            if poller.poll(max(0, min(20, int((due - time.monotonic()) * 1000)))):
                self.repeat()
            self.answer()
            now = time.monotonic()
            if self.rate == 0:
                due = now
            # What is much too late is left out: it must not fill all of the time.
            due = max(due, now - LATE_S)
            while self.rate and due <= now:
                self.publish()
                due += 1 / self.rate

    def ask(self, do):
        """What do() returns; the owner does it."""
        answers = queue.SimpleQueue()
        self.asked.put((do, answers))
        return answers.get()

    def set_rate(self, rate):
        self.rate = rate

    def told(self):
        chains = list(self.cache.topics.items())
        return {"next_seq": self.seq, "chains": chains,
                "unrepeated": self.cache.unrepeated(len(self.buffer)),
                "keys": [f"{self.cache.hash_of(t, b):x}" for t, n in chains for b in range(n)]}


def handler(publisher):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, body, kind="application/json", status=200):
            data = (body if isinstance(body, str) else json.dumps(body)).encode()
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            if self.path == "/v1/models":
                self.answer({"object": "list", "data": [{"id": MODEL, "object": "model"}]})
            elif self.path == "/metrics":
                self.answer("vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n",
                            "text/plain")
            else:
                self.answer(publisher.ask(publisher.told) if self.path == "/chaos/cache" else {})

        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.path == "/chaos":
                rate = json.loads(body)["rate"]
                publisher.ask(lambda: publisher.set_rate(rate))
                self.answer({})
            else:  # nodes ask engines for tokens, which there are none of
                self.answer({"error": {"message": "not found"}}, status=404)

        def log_message(self, *_):
            pass
    return Handler


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--replay", type=int, required=True)
    parser.add_argument("--blocks", type=int, required=True)
    options = parser.parse_args()
    publisher = Publisher(options)
    server = Server((options.host, HTTP_PORT), handler(publisher))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"ready http={options.host}:{HTTP_PORT}", flush=True)
    publisher.run()


if __name__ == "__main__":
    main()
