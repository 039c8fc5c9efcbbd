#!/usr/bin/env python3
"""Kvasir beside other routers for LLM engines: their indexes, and what users gain.

    peers.py --build BUILD [--only PART,...] [--venv DIR] [--rounds N]

index: the same chains of blocks through Dynamo's radix tree (PyPI
ai-dynamo-runtime) and through ours. gain: the same seeded conversations with the
same stand-in engines behind nginx; one SMG (PyPI smg), three, and three with their
mesh; vLLM's router (PyPI vllm-router), which reads events or not; one node and three.
many: the same with 64 engines that are fast, and users who do not pause, so that
requests and events come as fast as the machine gives. paced: that with pauses, so that
each router gets as many requests as the next, and each way a node has to come by
tokens. README.md beside this file says how to read it. Packages that are not in DIR are
installed there with pip; what cannot be had is skipped with a word. Nothing fails
because it was slow.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import types
import venv

import mesh
import rig as r

PARTS = ("index", "gain", "many", "paced")
DYNAMO, SMG = ("ai-dynamo-runtime==1.6.1", "--no-deps"), ("smg==1.13.0",)
VLLM = ("vllm-router==0.1.17",)
CHAINS = 61  # of 512 blocks, in each of 64 streams: 2 M blocks
ENGINE = ("--speed", "1", "--blocks", "2500")
LOAD = {"users": 48, "conversations": 240, "system-bytes": 4000, "user-bytes": 600,
        "max-tokens": 32, "think-ms": 500}
GAIN = (mesh.ENGINES, ENGINE, LOAD)
MANY = (64, ("--speed", "20", "--blocks", "2500"),
        {**LOAD, "users": 128, "conversations": 768, "groups": 64, "think-ms": 1})
MODEL, FILES = "house/tiny", pathlib.Path(__file__).resolve().parent.parent / "models"
PACED = (64, (*MANY[1], "--model", MODEL, "--tokens", FILES),
         {**MANY[2], "model": MODEL, "think-ms": 200})


def package(args, wanted):
    """The folder of programs of a venv with this package, of which pip is told so."""
    home = args.venv / wanted[0].split("=")[0]
    if not (home / "installed").exists():
        print(f"  installing {wanted[0]} in {home}", file=sys.stderr, flush=True)
        try:
            venv.create(home, with_pip=True, clear=True)
            subprocess.run([home / "bin" / "pip", "install", "-q", *wanted], check=True,
                           capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as why:
            said = str(getattr(why, "stderr", "") or why).strip().splitlines()
            raise r.Missing(f"{wanted[0]} cannot be had: {said[-1]}") from why
        (home / "installed").touch()
    return home / "bin"


# The index

def said_by(argv):
    done = subprocess.run([str(a) for a in argv], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise r.Failed(f"{argv[0]}: {done.stderr[-300:]}")
    return json.loads(done.stdout)


def index(args):
    program = args.build / "tests" / "bench" / "bench_peers"
    if not program.exists():
        raise r.Missing(f"{program} is not built")
    python = package(args, DYNAMO) / "python"
    child = pathlib.Path(__file__).resolve().parent / "peers_dynamo.py"
    rounds = [(said_by([program, CHAINS]), said_by([python, child, CHAINS]))
              for _ in range(args.rounds)]
    print(f"{rounds[0][0]['blocks'] / 1e6:.1f} M blocks of 64 streams, {args.rounds} rounds, medians"
          "\n\n| | bytes a block | blocks/s | match of 512 blocks, us | of 512 that nobody has |\n"
          "|---|---|---|---|---|")
    for i, name in enumerate(("kvasir", "Dynamo")):
        said = {k: statistics.median(x[i][k] for x in rounds) for k in rounds[0][i]}
        print(f"| {name} | {said['bytes']:.1f} | {said['blocks_per_s']:,.0f} "
              f"| {said['match_us']:.2f} | {said['nothing_us']:.2f} |")
    ratios = [[a["bytes"] / b["bytes"], a["blocks_per_s"] / b["blocks_per_s"]]
              for a, b in rounds]
    # The call's own time can hide the rest of it: then there is no ratio.
    nets = [a["match_us"] / (b["match_us"] - b["nothing_us"]) for a, b in rounds
            if b["match_us"] > b["nothing_us"]]
    of_net = f"{statistics.median(nets):.2f}" if len(nets) == len(rounds) else "not to be told"
    print("| kvasir to Dynamo | " + " | ".join(f"{statistics.median(x):.2f}"
                                                for x in zip(*ratios))
          + f" | {of_net} (its call taken off) | |\n", flush=True)


# What users gain

class Front:
    """What a load is given to: a URL, flags for the load, processes."""

    def __init__(self, servers, url, extra=()):
        self.servers, self.url, self.extra = servers, url, extra

    def cpu_us(self):
        return sum(server.cpu_us() for server in self.servers)


def nginx(_, b, workers):
    ports = [int(flag.split(",")[0].rsplit(":", 1)[1]) for flag in workers[1::2]]
    server = r.start_nginx(b.rig, types.SimpleNamespace(ports=ports), 1)
    return Front([server], f"http://127.0.0.1:{server.port}")


def named(b, hosts, port, servers):
    dns = mesh.dns_of(b, hosts)
    return Front(servers, f"http://mesh.test:{port}", ("--resolver", dns.address))


def smg(args, b, workers, count, joined):
    program = package(args, SMG) / "smg"
    urls = [flag.split(",")[0] for flag in workers[1::2]]
    hosts = [f"127.0.0.{i + 1}" for i in range(count)]
    port, mesh_port, servers = r.free_port(), r.free_port(), []
    for host in hosts:
        argv = [program, "launch", "--host", host, "--port", port, "--log-level", "warn",
                "--prometheus-port", r.free_port(), "--worker-urls", *urls]
        if joined:
            argv += ["--enable-mesh", "--mesh-server-name", host, "--mesh-host", host,
                     "--mesh-advertise-host", host, "--mesh-port", mesh_port]
            argv += ["--mesh-peer-urls", f"{hosts[0]}:{mesh_port}"] if host != hosts[0] else []
        servers.append(r.Server("smg", b.rig.start(argv, log="smg"), port))
    for host, server in zip(hosts, servers):
        r.wait_until(lambda host=host: knows(f"{host}:{port}", len(urls)), "smg", server.process)
    return named(b, hosts, port, servers)


def knows(address, workers):
    try:
        return json.loads(mesh.get(address, "/workers")[1]).get("total") == workers
    except (OSError, ValueError):
        return False


def vllm(args, b, workers, events):
    """By its default, or by the engines' events."""
    port = r.free_port()
    argv = [package(args, VLLM) / "vllm-router", "--port", port, "--log-level", "warning",
            "--prometheus-port", r.free_port(), "--worker-startup-check-interval", "1"]
    argv += ["--policy", "kv_aware", "--kv-event-model", "kvasir/stand-in"] if events else []
    urls = []
    for url, *pairs in (flag.split(",") for flag in workers[1::2]):
        told = dict(pair.split("=", 1) for pair in pairs)
        urls.append(url)
        if events:
            argv += ["--kv-event-source", f"{url}={told['events']}",
                     "--kv-event-replay-source", f"{url}={told['replay']}"]
    server = r.Server("vllm", b.rig.start([*argv, "--worker-urls", *urls], log="vllm"), port)
    r.wait_until(lambda: r.answers(port), "vllm-router", server.process)
    return Front([server], f"http://127.0.0.1:{port}")


def kvasir(_, b, workers, count, *flags):
    hosts = [f"127.0.0.{i + 1}" for i in range(count)]
    port = r.free_port()
    nodes = b.nodes(count, [*workers, *flags], hosts, port)
    b.eligible(nodes, len(workers) // 2)
    return named(b, hosts, port, [node.use for node in nodes])


SUBJECTS = {
    "nginx, round robin": nginx,
    "SMG": lambda *a: smg(*a, 1, False),
    "3 SMG": lambda *a: smg(*a, 3, False),
    "3 SMG, their mesh": lambda *a: smg(*a, 3, True),
    "vLLM's router": lambda *a: vllm(*a, False),
    "vLLM's router, events": lambda *a: vllm(*a, True),
    "kvasir": lambda *a: kvasir(*a, 1),
    "3 kvasir": lambda *a: kvasir(*a, 3),
}
WAYS = {
    "SMG": SUBJECTS["SMG"],
    "kvasir, engines are asked": lambda *a: kvasir(*a, 1),
    "kvasir, tokens.dir": lambda *a: kvasir(*a, 1, "--tokens.dir", FILES),
    "kvasir, by text": lambda *a: kvasir(*a, 1, "--tokens.wait", "0"),
}


def play(args, start, seed, engines, flags, load):
    with mesh.bench(args.build) as b:
        front = start(args, b, b.engines(engines, *flags))
        before_us = front.cpu_us()
        said = b.result(b.load(front.url, {**load, "seed": seed}, front.extra))
        used_us = front.cpu_us() - before_us
    requests = said["requests"]
    if requests["answered"] != requests["planned"]:
        raise r.Failed(f"{requests} {said['failures']}")
    return {"cached": said["tokens"]["cached"] / said["tokens"]["prompt"] * 100,
            "p50": said["ttft_ms"]["p50"], "p90": said["ttft_ms"]["p90"],
            "p99": said["ttft_ms"]["p99"], "cpu_us": used_us / requests["answered"],
            "rate": said["requests_per_s"]}


def gain(args):
    users_gain(args, SUBJECTS, *GAIN)


def many(args):
    users_gain(args, SUBJECTS, *MANY)


def paced(args):
    users_gain(args, WAYS, *PACED)


def users_gain(args, subjects, engines, flags, load):
    rounds = {name: [] for name in subjects}
    for turn in range(args.rounds):
        for name, start in subjects.items():
            if name not in rounds:
                continue
            try:
                rounds[name].append(play(args, start, turn + 1, engines, flags, load))
                print(f"  {turn} {name} {rounds[name][-1]}", file=sys.stderr, flush=True)
            except r.Missing as why:
                print(f"skipped: {name}: {why}", flush=True)
                del rounds[name]
    print(f"{engines} engines, {args.rounds} rounds, medians\n\n| | cached tokens | TTFT p50 "
          "| p90 | p99 ms | routers' CPU us a request | requests/s |\n"
          "|---|---|---|---|---|---|---|")
    for name, all_said in rounds.items():
        said = {k: statistics.median(x[k] for x in all_said) for k in all_said[0]}
        print(f"| {name} | {said['cached']:.1f} % | {said['p50']:.0f} | {said['p90']:.0f} "
              f"| {said['p99']:.0f} | {said['cpu_us']:.0f} | {said['rate']:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--venv", type=pathlib.Path, help="where packages are (BUILD/peers)")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    args.venv = args.venv or args.build / "peers"
    for part in args.only.split(","):
        if part not in PARTS:
            parser.error(f"no part {part}; there are {', '.join(PARTS)}")
        try:
            globals()[part](args)
        except r.Missing as why:
            print(f"skipped: {part}: {why}", flush=True)
        except r.Failed as why:
            print(f"failed: {part}: {why}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
