"""Many idle workers in one process, for mesh.py: each has an HTTP port of its
own (/health, /metrics, /v1/models) and binds the event sockets of an engine
that has said nothing: its replay answers that there is nothing to replay.

    mesh_workers.py COUNT

prints `ready` and one URL,events=URL,replay=URL for each, and serves until it
is told to end.
"""
import asyncio
import json
import sys

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


def answer(router):
    """The end marker, to everybody who asked."""
    while router.getsockopt(zmq.EVENTS) & zmq.POLLIN:
        asker = router.recv_multipart()[0]
        router.send_multipart([asker, b"", b"\xff" * 8, b""])


async def serve(count):
    loop = asyncio.get_running_loop()
    context = zmq.Context()
    kept, words = [], []
    for _ in range(count):
        server = await loop.create_server(Http, "127.0.0.1", 0)
        pub, events = bind(context, zmq.PUB)
        router, replay = bind(context, zmq.ROUTER)
        loop.add_reader(router.fd, answer, router)
        port = server.sockets[0].getsockname()[1]
        kept.append((server, pub, router))
        words.append(f"http://127.0.0.1:{port},events={events},replay={replay}")
    print("ready", *words, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
