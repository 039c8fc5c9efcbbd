#!/usr/bin/env python3
"""How many instructions a lane spends on a request.

    instructions.py [--build DIR] [--requests N] [--bytes N,...] [--cold] [--same]
                    [--options "OPTION VALUE ..."]

Runs `kvasir serve` with one lane under callgrind, sends requests one after the
other over one connection, each a chat of so many bytes in which the last
message is new, and prints the instructions of the lane's thread by request:
of a run with N requests, less one without, so that starting counts for
nothing. --cold sends temperature 0, --same one request over and over, and
--options goes to the node. System calls count as nothing, too. Unlike a time the number hardly
depends on the machine; it does on the compiler: use --buildtype=release.
"""
import argparse
import http.client
import json
import os
import pathlib
import re
import socket

import rig as r

WARM = 20  # requests before those that count


def body_of(args, size, number):
    more = {"temperature": 0} if args.cold else {}

    def chat(filler):
        return json.dumps({"model": "bench", "messages": [
            {"role": "system", "content": "a" * filler},
            {"role": "user", "content": f"{0 if args.same else number:08}"}], **more}).encode()
    return chat(max(0, size - len(chat(0))))


def send(args, port, size, numbers):
    """Head and body leave in one piece, so that the node reads them in one."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        for number in numbers:
            body = body_of(args, size, number)
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: bench\r\n"
                      b"Content-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(body) + body)
            answer = http.client.HTTPResponse(s)
            answer.begin()
            said = answer.read()
            if answer.status != 200:
                raise r.Failed(f"kvasir: answered {answer.status} {said[-200:]}")


def lane_instructions(rig, outs):
    """Of the thread that served requests."""
    found = []
    for path in rig.directory.glob(outs + "*"):
        text = path.read_text(errors="replace")
        total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
        if total and "request_serve" in text:
            found.append(int(total[1]))
    if not found:
        raise r.Failed("callgrind: no thread served a request")
    return max(found)


def run(args, size, requests):
    kvasir = pathlib.Path(args.build) / "node" / "kvasir"
    with r.Rig() as rig:
        backend = r.start_backend(rig, args.build, 4)
        argv = [r.tool("valgrind"), "--tool=callgrind", "--separate-threads=yes",
                f"--callgrind-out-file={rig.directory}/out", kvasir, "serve",
                "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        for port in backend.ports:
            argv += ["--worker", f"http://127.0.0.1:{port}"]
        argv += args.options.split()
        process, ready = rig.start_ready(argv, "kvasir", None,
                                         {"KVASIR_LANES": "1"})
        port = int(dict(ready)["serve"].rsplit(":", 1)[1])
        r.wait_until(lambda: r.answers(port, "/ready"), "kvasir", process)
        send(args, port, size, range(WARM + requests))
        process.terminate()
        process.wait(60)
        return lane_instructions(rig, "out")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.environ.get("KVASIR_BUILD", "build"))
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--bytes", default="200,20000")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--same", action="store_true")
    parser.add_argument("--options", default="")
    args = parser.parse_args()
    try:
        for size in map(int, args.bytes.split(",")):
            spent = run(args, size, args.requests) - run(args, size, 0)
            print(f"{size} bytes: {spent / args.requests:.0f} instructions a request",
                  flush=True)
    except r.Missing as why:
        print(f"skipped: {why}")


if __name__ == "__main__":
    main()
