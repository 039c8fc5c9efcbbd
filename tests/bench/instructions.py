#!/usr/bin/env python3
"""How many instructions a lane spends on a request, or on an event of a stream.

    instructions.py [--build DIR] [--requests N] [--bytes N,...] [--cold] [--same]
                    [--words] [--unread] [--question] [--events N] [--picker] [--beside]
                    [--options "OPTION VALUE ..."]

Runs `kvasir serve` with one lane under callgrind, sends requests one after the
other over one connection, each a chat of so many bytes in which the last
message is new, and prints the instructions of the lane's thread by request:
of a run with N requests, less one without, so that starting counts for
nothing. --cold sends temperature 0, --same one request over and over, --words text
with quotes and ends of lines where there is one letter without end otherwise,
--unread says that the body is no JSON, as `unread` of proxy.py does,
--question a last message in English (with a number, so it is another one than all
before), beside a stand-in engine for the vectors of the model e, and
--options goes to the node. --events has a stream of so many events answered, one
each 5 ms, and counts those of an event: of a run with them, less one without. With
--picker a gateway asks the node for a worker (extproc.listen) and tells it of the
answer; that needs python3-grpcio. System calls count as nothing, too. --beside sends
the same to an nginx and a haproxy, counts system calls as well (by strace), and
prints the ratios; who is not on this machine is left out with a word. Unlike a time
the number hardly depends on the machine; it does on the compiler: use
--buildtype=release.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import sys

import rig as r

WARM = 20  # requests before those that count
INTERVAL_US = 5000  # between a stream's events: each is read by itself
ANSWER = json.dumps({
    "id": "chatcmpl-bench", "object": "chat.completion", "created": 1700000000, "model": "bench",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 140},
                 "logprobs": None, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 1000, "completion_tokens": 150, "total_tokens": 1150,
              "prompt_tokens_details": {"cached_tokens": 512}}}).encode()


def words(size):
    """Of text as people write it: an escape in each 37 bytes."""
    some, text = ("the", "cache", "of", "an", "engine", 'holds "what"', "was", "computed",
                  "before\n", "and", "nothing", "that", "nobody", "asked", "for", "twice"), []
    state = length = 0
    while length < size:
        state = state * 1103515245 + 12345 & 0x7fffffff
        text.append(some[state >> 16 & 15])
        length += 1 + len(text[-1])
    return " ".join(text)


def body_of(args, size, number, events=None):
    more = {"temperature": 0} if args.cold else {}
    streamed = {} if events is None else {"stream": True, "max_tokens": events}
    between = (", ", ": ") if events is None else (",", ":")

    said = f"{0 if args.same else number:08}"
    if args.question:
        said = f"Which road leads to the old mill by the river, and is it number {said} or not?"

    def chat(filler):
        return json.dumps({"model": "bench", **streamed, "messages": [
            {"role": "system", "content": words(filler) if args.words else "a" * filler},
            {"role": "user", "content": said}], **more},
            separators=between).encode()
    return chat(max(0, size - len(chat(0))))


def ask_picker(args, port, size, numbers):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "integration"))
    import ext_proc
    if ext_proc.grpc is None:
        raise r.Missing("no grpc for this Python: apt-get install python3-grpcio, /usr/bin/python3")
    gateway = ext_proc.Gateway(("127.0.0.1", port))
    for number in numbers:
        with gateway.ask(body_of(args, size, number), path="/v1/chat/completions") as call:
            if not call.told().endpoints:
                raise r.Failed("kvasir: told no worker")
            call.answer(200, [ANSWER])
    gateway.close()


def send(args, port, size, numbers, events=None):
    """Head and body leave in one piece, so that the node reads them in one. events:
    of the last one's stream; the others' have none."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        for number in numbers:
            last = number == numbers[-1]
            body = body_of(args, size, number, None if events is None else events if last else 0)
            path, kind = ((b"/v1/rerank", b"text/plain") if args.unread else
                          (b"/v1/chat/completions", b"application/json"))
            s.sendall(b"POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: %s\r\n"
                      b"Content-Length: %d\r\n\r\n" % (path, kind, len(body)) + body)
            answer = http.client.HTTPResponse(s)
            answer.begin()
            said = answer.read()
            if answer.status != 200:
                raise r.Failed(f"answered {answer.status} {said[-200:]}")


def callgrind(rig):
    return [r.tool("valgrind"), "--tool=callgrind", "--separate-threads=yes",
            "--trace-children=yes", f"--callgrind-out-file={rig.directory}/out.%p"]


def strace(rig):
    return [r.tool("strace"), "-ff", "-qq", "-o", rig.directory / "out"]


def instructions(text):
    total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
    return int(total[1]) if total else 0


def system_calls(text):
    return text.count("\n")


def counted(rig, name, sign, count):
    """Of the thread, or process, that served requests, as the sign says."""
    texts = [path.read_text(errors="replace") for path in rig.directory.glob("out.*")]
    found = [count(text) for text in texts if sign in text]
    if not found:
        raise r.Failed(f"no thread of {name} served a request")
    return max(found)


def end(process):
    """All of it: strace does not pass signals on."""
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)


def run(args, size, requests, events=None, traced=False):
    """What the lane spent: instructions, or system calls."""
    kvasir = pathlib.Path(args.build) / "node" / "kvasir"
    with r.Rig() as rig:
        backend = r.start_backend(rig, args.build, 4, INTERVAL_US)
        argv = [*(strace if traced else callgrind)(rig), kvasir, "serve",
                "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        for port in backend.ports:
            argv += ["--worker", f"http://127.0.0.1:{port}"]
        if args.question:
            embedder = r.free_port()
            rig.start([pathlib.Path(args.build) / "chaos" / "kvasir-engine",
                       "--port", str(embedder), "--model", "e"])
            r.wait_until(lambda: r.answers(embedder, "/health"), "the engine for vectors")
            argv += ["--worker", f"http://127.0.0.1:{embedder}"]
        argv += ["--extproc.listen", "127.0.0.1:0"] if args.picker else []
        argv += args.options.split()
        process, ready = rig.start_ready(argv, "kvasir", None,
                                         {"KVASIR_LANES": "1"})
        port, picker = (int(where.rsplit(":", 1)[1]) for where in (
            dict(ready)["serve"], dict(ready).get("extproc", ":0")))
        r.wait_until(lambda: r.answers(port, "/ready"), "kvasir", process)
        if args.picker:
            ask_picker(args, picker, size, range(WARM + requests))
        else:
            send(args, port, size, range(WARM + requests), events)
        end(process)
        return counted(rig, "kvasir", "POST /v1", system_calls) if traced else \
            counted(rig, "kvasir", "request_serve", instructions)


def run_other(args, start, size, requests, events, traced):
    """The same of the process of another proxy."""
    with r.Rig() as rig:
        backend = r.start_backend(rig, args.build, 4, INTERVAL_US)
        server = start(rig, backend, 1, under=(strace if traced else callgrind)(rig))
        send(args, server.port, size, range(WARM + requests), events)
        end(server.process)
        return counted(rig, server.name, "POST /v1", system_calls) if traced else \
            counted(rig, server.name, "", instructions)


def each(args, measure):
    """What one request takes: with them, less without; or one event."""
    if args.events:
        return (measure(1, args.events) - measure(1, 1)) / (args.events - 1)
    return (measure(args.requests, None) - measure(0, None)) / args.requests


def beside(args, size):
    own = [each(args, lambda n, events, t=t: run(args, size, n, events, t))
           for t in (False, True)]
    print(f"{size} bytes: kvasir's lane {own[0]:.0f} instructions, {own[1]:.1f} system calls",
          flush=True)
    for start in (r.start_nginx, r.start_haproxy):
        name = start.__name__.removeprefix("start_")
        try:
            spent = [each(args, lambda n, events, t=t, start=start:
                          run_other(args, start, size, n, events, t)) for t in (False, True)]
        except r.Missing as why:
            print(f"skipped: {why}", flush=True)
            continue
        print(f"{size} bytes: {name} {spent[0]:.0f} instructions, {spent[1]:.1f} system calls; "
              f"kvasir's lane has {own[0] / spent[0]:.2f} and {own[1] / spent[1]:.2f} of them",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("KVASIR_BUILD", "build"))
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--bytes", default="200,20000")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--words", action="store_true")
    parser.add_argument("--unread", action="store_true")
    parser.add_argument("--question", action="store_true")
    parser.add_argument("--events", type=int, default=0)
    parser.add_argument("--picker", action="store_true")
    parser.add_argument("--beside", action="store_true")
    parser.add_argument("--options", default="")
    args = parser.parse_args()
    try:
        for size in map(int, args.bytes.split(",")):
            if args.beside:
                beside(args, size)
                continue
            spent = each(args, lambda n, events, size=size: run(args, size, n, events))
            print(f"{size} bytes: {spent:.0f} instructions {'an event' if args.events else 'a request'}",
                  flush=True)
    except r.Missing as why:
        print(f"skipped: {why}")


if __name__ == "__main__":
    main()
