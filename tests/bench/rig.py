"""Starts what a proxy benchmark needs, loads it, reads its counters, cleans up.

Everything that is started belongs to a Rig: its files are in one temporary
directory, its processes end with it (and with this program, however that ends).
Proxies get ports that were free a moment ago and are started again when
somebody else took them; the rest choose port 0.
"""
import ctypes
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
START_TIMEOUT_S = 15
PORT_TRIES = 5
PR_SET_PDEATHSIG = 1
def files_max(wanted=65536):
    """The hard limit of open files, raised when it is low and we may."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
            hard = wanted
        except (OSError, ValueError):
            pass  # not root: the rows that need more say so
    return hard


FILES_MAX = files_max()


class Missing(Exception):
    """A tool or program that is not on this machine; the row is skipped."""


class Failed(Exception):
    """Something started did not do its part."""


def tool(name):
    path = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if path is None:
        raise Missing(f"no {name} on this machine (deploy/packages bench)")
    return path


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, target="/health", tls=False):
    """The answer's text to a GET; OSError. Nobody's certificate is checked."""
    trusting = ssl._create_unverified_context() if tls else None
    url = f"http{'s' if tls else ''}://127.0.0.1:{port}{target}"
    with urllib.request.urlopen(url, timeout=1, context=trusting) as answer:
        return answer.read().decode()


def answers(port, target="/health", tls=False):
    """True when a GET of the target is a 200."""
    try:
        ask(port, target, tls)
        return True
    except (OSError, urllib.error.URLError):
        return False


def wait_until(condition, what, process=None):
    deadline = time.monotonic() + START_TIMEOUT_S
    while not condition():
        if process is not None and process.poll() is not None:
            raise Failed(f"{what}: ended with {process.returncode}")
        if time.monotonic() > deadline:
            raise Failed(f"{what}: not within {START_TIMEOUT_S} s")
        time.sleep(0.02)


class Rig:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="kvasir-bench-"))
        self.processes = []
        self.libc = ctypes.CDLL(None)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            self.stop(process)
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self, argv, cpus=None, log=None, **options):
        """A child in its own session, on `cpus` if given. What it says goes to
        the file `log` unless stdout is asked for."""
        def before():
            self.libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
            if cpus:
                os.sched_setaffinity(0, cpus)

        with open(self.directory / (log or "log"), "ab") as sink:
            options.setdefault("stdin", subprocess.DEVNULL)
            options.setdefault("stdout", sink)
            options["env"] = {**os.environ, "KVASIR_TIMEOUTS_LAME_DUCK": "0s",
                              **(options.get("env") or {})}
            process = subprocess.Popen(
                [str(a) for a in argv], stderr=sink,
                start_new_session=True, preexec_fn=before, **options)
        self.processes.append(process)
        return process

    def stop(self, process):
        """Ends a child and all that it started."""
        for how, wait_s in ((signal.SIGTERM, 3), (signal.SIGKILL, 3)):
            if process.poll() is not None:
                break
            try:
                os.killpg(process.pid, how)
                process.wait(wait_s)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        if process.stdout:
            process.stdout.close()
        if process in self.processes:
            self.processes.remove(process)

    def said(self, log, lines=5):
        path = self.directory / log
        text = path.read_text(errors="replace") if path.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def start_ready(self, argv, log, cpus=None, environment=None):
        """A child that prints `ready k=v ...`; it, and the k=v as a list."""
        process = self.start(argv, cpus, log, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, **(environment or {})})
        if not select.select([process.stdout], [], [], START_TIMEOUT_S)[0]:
            raise Failed(f"{argv[0]}: not ready within {START_TIMEOUT_S} s")
        line = process.stdout.readline()
        if not line.startswith("ready "):
            raise Failed(f"{argv[0]}: {line.strip()} {self.said(log)}")
        return process, [word.split("=", 1) for word in line.split()[1:]]


def run_in(run, args):
    """run(args, rig); the exit code: 77 where what it needs is not there."""
    try:
        with Rig() as rig:
            run(args, rig)
    except Missing as why:
        print(f"skipped: {why}")
        return 77
    except Failed as why:
        print(f"failed: {why}")
        return 1
    return 0


class Server:
    """A process tree under load: where it listens, what it has used."""

    def __init__(self, name, process, port, content_type="application/json"):
        self.name, self.process, self.port = name, process, port
        self.content_type = content_type  # what its chats are sent as
        self.tls, self.key = False, ""  # how clients come; "": without a key
        self.admin = None  # its admin port, of a node

    def pids(self):
        found, todo = [], [self.process.pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                todo += [int(child) for child in children.read_text().split()]
        return found

    def cpu_us(self):
        """On-CPU time of all its threads so far."""
        total_ns = 0
        for pid in self.pids():
            for stat in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
                total_ns += int(stat.read_text().split()[0])
        return total_ns / 1000

    def rss_bytes(self):
        total = 0
        for pid in self.pids():
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            total += int(re.search(r"VmRSS:\s+(\d+)", status)[1]) * 1024
        return total


class Machine:
    """What some CPUs (all that we may use by default) have been doing since the
    last call."""

    def __init__(self, cpus=None):
        self.tick_us = 1e6 / os.sysconf("SC_CLK_TCK")
        self.names = {f"cpu{n}" for n in cpus or os.sched_getaffinity(0)}
        self.last = self.read()

    def read(self):
        busy = 0
        with open("/proc/stat", encoding="ascii") as stat:
            for line in stat:
                name, *fields = line.split()
                if name in self.names:
                    busy += sum(int(fields[i]) for i in (0, 1, 2, 5, 6, 7))
        return time.monotonic(), busy * self.tick_us

    def others(self, own_us):
        """CPUs that were busy with something else than own_us, on average;
        time that the host took away (steal) counts."""
        now_s, busy_us = self.read()
        then_s, then_us = self.last
        self.last = now_s, busy_us
        wall_us = max((now_s - then_s) * 1e6, 1)
        return max(0.0, (busy_us - then_us - own_us) / wall_us)


def start_backend(rig, build, ports, interval_us=20000, cpus=None):
    program = pathlib.Path(build) / "tests" / "bench" / "bench_backend"
    if not program.exists():
        raise Missing(f"{program} is not built")
    process, ready = rig.start_ready(
        [program, "--ports", ports, "--interval-us", interval_us], "backend", cpus)
    ports = [int(where.rsplit(":", 1)[1]) for _, where in ready]
    server = Server("direct", process, ports[0])
    server.ports = ports
    return server


def start_relay(rig, build, backends, cpus=None):
    """What passes bytes and does nothing else: the floor of any proxy."""
    argv = [pathlib.Path(build) / "tests" / "bench" / "bench_relay"]
    for port in backends.ports:
        argv += ["--to", port]
    process, ready = rig.start_ready(argv, "relay", cpus)
    return Server("relay", process, int(ready[0][1].rsplit(":", 1)[1]))


def start_on_free_port(rig, name, start, tls=False):
    """start(port) -> process, tried again when the port was taken meanwhile."""
    for _ in range(PORT_TRIES):
        port = free_port()
        process = start(port)
        try:
            wait_until(lambda: answers(port, tls=tls), name, process)
            return Server(name, process, port)
        except Failed as why:
            rig.stop(process)
            reason = f"{why}: {rig.said(name)}"
    raise Failed(reason)


class Extra:
    """What an nginx does beside passing on: lines for its places; the files of
    a certificate and its key, with which it speaks TLS."""

    def __init__(self, http="", location="", tls=None):
        self.http, self.location, self.tls = http, location, tls

    def listens(self):
        return " ssl" if self.tls else ""

    def server(self):
        return "" if self.tls is None else \
            f"ssl_certificate {self.tls[0]}; ssl_certificate_key {self.tls[1]};"


def start_nginx(rig, backends, threads, cpus=None, name="nginx", extra=Extra(), under=()):
    """under: the program and options that run it, if any."""
    program = tool("nginx")
    home = rig.directory / f"{name}-{time.monotonic_ns()}"
    (home / "logs").mkdir(parents=True)
    servers = "\n".join(f"server 127.0.0.1:{p};" for p in backends.ports)
    conns = min(FILES_MAX - 100, 30000)
    user = "user root;" if os.getuid() == 0 else ""

    def start(port):
        (home / "nginx.conf").write_text(f"""
daemon off; {user} worker_processes {threads}; pid {home}/pid;
error_log stderr error; worker_rlimit_nofile {FILES_MAX};
events {{ worker_connections {conns}; }}
http {{
  access_log off; client_max_body_size 0; keepalive_requests 1000000000; keepalive_timeout 300s;
  client_body_temp_path {home}/body; proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/f; uwsgi_temp_path {home}/u; scgi_temp_path {home}/s;
  upstream engines {{ {servers} keepalive 256; keepalive_requests 1000000000; }}
  {extra.http}
  server {{
    listen 127.0.0.1:{port}{extra.listens()} reuseport backlog=4096;
    {extra.server()}
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    location = /health {{ proxy_pass http://engines; }}
    location / {{ {extra.location} proxy_pass http://engines; }}
  }}
}}
""")
        return rig.start([*under, program, "-p", home, "-c", home / "nginx.conf"], cpus,
                         name)
    return start_on_free_port(rig, name, start, extra.tls is not None)


def start_haproxy(rig, backends, threads, cpus=None, name="haproxy", under=()):
    program = tool("haproxy")
    path = rig.directory / f"{name}-{time.monotonic_ns()}.cfg"
    servers = "\n".join(f"  server s{i} 127.0.0.1:{p}"
                        for i, p in enumerate(backends.ports))

    def start(port):
        path.write_text(f"""
global
  nbthread {threads}
  maxconn {(FILES_MAX - 200) // 2}
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 300s
  http-reuse always
  option http-no-delay
frontend in
  bind 127.0.0.1:{port} backlog 4096
  default_backend engines
backend engines
  balance roundrobin
{servers}
""")
        return rig.start([*under, program, "-db", "-f", path], cpus, name)
    return start_on_free_port(rig, name, start)


def start_kvasir(rig, program, backends, lanes, cpus=None, options=()):
    """One node in front of every backend, with its default policy."""
    if program is None:
        raise Missing("kvasir is not built")
    argv = [program, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
    for port in backends.ports:
        argv += ["--worker", f"http://127.0.0.1:{port}"]
    tls = "--tls.cert_file" in options
    process, ready = rig.start_ready([*argv, *options], "kvasir", cpus,
                                     {"KVASIR_LANES": str(lanes)})
    port, admin = (int(dict(ready)[which].rsplit(":", 1)[1])
                   for which in ("serve", "admin"))
    wait_until(lambda: answers(port, "/ready", tls), "kvasir", process)
    server = Server("kvasir", process, port)
    server.admin = admin
    return server


def reap(rig, process):
    """Waits for a child to end by itself; the CPU time that it had used."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    rig.stop(process)
    return (usage.ru_utime + usage.ru_stime) * 1e6


def wrk(rig, server, connections, seconds, seed, cpus=None):
    """One run of wrk with chat.lua: requests, us, p50_us, p99_us, errors."""
    process = rig.start(
        [tool("wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "5s",
         "-s", HERE / "chat.lua",
         f"http{'s' if server.tls else ''}://127.0.0.1:{server.port}", "--", seed,
         server.content_type, server.key],
        cpus, "wrk", stdout=subprocess.PIPE, text=True)
    said = process.stdout.read()
    own_us = reap(rig, process)
    line = re.search(r"^bench (.*)$", said, re.M)
    if line is None:
        raise Failed(f"wrk: {said[-300:]} {rig.said('wrk')}")
    result = {k: int(v) for k, v in
              (word.split("=") for word in line[1].split())}
    result["own_us"] = own_us
    return result


def sse(rig, build, proxy, streams, events, timeout_s, cpus=None):
    """One run of sse_client: its JSON, and cpu_us and rss_bytes of the proxy
    over the steady part."""
    program = pathlib.Path(build) / "tests" / "bench" / "bench_sse_client"
    before_bytes = proxy.rss_bytes()
    process = rig.start(
        [program, "--port", proxy.port, "--streams", streams, "--events", events,
         "--opening", 64, "--timeout-s", timeout_s],
        cpus, "sse_client", stdout=subprocess.PIPE, text=True)
    result, marks = None, {}
    for line in process.stdout:
        if line.startswith("{"):
            result = json.loads(line)
        else:
            word, *pairs = line.split()
            marks[word] = dict(p.split("=") for p in pairs)
            marks[word]["cpu_us"] = proxy.cpu_us()
            marks[word]["rss_bytes"] = proxy.rss_bytes()
    own_us = reap(rig, process)
    if result is None:
        raise Failed(f"sse_client: {rig.said('sse_client')}")
    result["own_us"] = own_us
    result["rss_before_bytes"] = before_bytes
    if "closing" in marks:
        result["cpu_us"] = marks["closing"]["cpu_us"] - marks["open"]["cpu_us"]
        result["rss_open_bytes"] = marks["closing"]["rss_bytes"]
    return result
