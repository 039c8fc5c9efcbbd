"""What the demo starts and asks: it builds the programs, runs them until they
are told to end, finds ports, and reads what they say over HTTP.
"""
import ctypes
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build-demo"
MODEL = "kvasir/tiny"
MODELS = ROOT / "tests" / "models"  # a small model's own files: MODEL's
PROGRAMS = ("node/kvasir", "chaos/kvasir-engine", "chaos/kvasir-load")
DNSMASQ = shutil.which("dnsmasq") or "/usr/sbin/dnsmasq"

READY_TIMEOUT_S = 30
STOP_TIMEOUT_S = 10
DNS_ANSWER_S = 0.2
DNS_TRIES = 50

# Below those that Linux gives to outgoing connections, so that none of these
# can be in the way.
PORT_FIRST, PORT_LAST = 10240, 32767


class Failure(Exception):
    """A step failed; the text says which, and where its log is."""


def say(text=""):
    # The load's progress bar may be on this line of the terminal.
    clear = "\r\033[K" if sys.stdout.isatty() else ""
    print(clear + text, flush=True)


def step(text):
    say()
    say(f"== {text}")


# Building


def follow(command, log_path, what):
    """Runs a command into a log. Shows ninja's counter where that can move."""
    moves = sys.stdout.isatty()
    with open(log_path, "a", encoding="utf-8", errors="replace") as log:
        log.write(f"$ {' '.join(command)}\n")
        log.flush()
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace",
                              preexec_fn=die_together) as run:
            try:
                for line in run.stdout:
                    log.write(line)
                    count = re.match(r"\[\d+/\d+\]", line)
                    if moves and count:
                        print(f"\r\033[K   {count[0]}", end="", flush=True)
            except BaseException:
                run.terminate()
                run.wait()
                raise
        if moves:
            print("\r\033[K", end="", flush=True)
    if run.returncode != 0:
        raise Failure(f"{what} failed, see {log_path}")


def build():
    """The folder with the programs: one that is there, or a fresh build."""
    given = os.environ.get("KVASIR_BUILD")
    if given:
        folder = pathlib.Path(given).resolve()
        step(f"using the build in {folder}")
    else:
        folder = BUILD
        step(f"building into {folder.name}/")
        folder.mkdir(exist_ok=True)
        log_path = folder / "demo-build.log"
        log_path.unlink(missing_ok=True)
        if not (folder / "build.ninja").exists():
            follow(["meson", "setup", str(folder), str(ROOT), "--buildtype=release"],
                   log_path, "configuring")
        follow(["ninja", "-C", str(folder), *PROGRAMS], log_path, "building")
        say("   built")
    for program in PROGRAMS:
        if not (folder / program).is_file():
            raise Failure(f"there is no {program} in {folder}")
    return folder


# Processes


LIBC = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def die_together():
    """In a child: a demo that is killed hard takes it along."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class Program:
    """One that runs until it is told to end. `ready` is its ready line."""

    def __init__(self, command, log_path):
        self.name = pathlib.Path(command[0]).name
        self.log_path = log_path
        self.killed = False
        # A configuration that lies around must not change the demo.
        clean = {k: v for k, v in os.environ.items() if not k.startswith("KVASIR_")}
        clean["KVASIR_TIMEOUTS_LAME_DUCK"] = "0s"  # no load balancer looks at /ready
        clean["KVASIR_PLACEMENT_HEADERS"] = "on"  # which worker answered is what it shows
        with open(log_path, "ab") as log:
            self.popen = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=clean,
                                          stdout=subprocess.PIPE, stderr=log,
                                          preexec_fn=die_together)

    def wait_ready(self):
        line = b""
        end = time.monotonic() + READY_TIMEOUT_S
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.popen.stdout], [], [], left)[0]:
                raise Failure(f"{self.name} did not get ready, see {self.log_path}")
            byte = os.read(self.popen.stdout.fileno(), 1)
            if byte == b"":
                raise Failure(f"{self.name} ended at once, see {self.log_path}")
            line += byte
        self.ready = dict(word.split("=", 1) for word in line.decode().split()[1:])
        return self

    def check(self):
        if self.popen.poll() is not None and not self.killed:
            raise Failure(f"{self.name} ended unasked with {self.popen.returncode}, "
                          f"see {self.log_path}")

    def kill(self):
        """As a crash would: kill -9, no goodbye."""
        self.killed = True
        self.popen.kill()
        self.popen.wait()

    def stop(self):
        """Ends it, by all means."""
        if self.popen.poll() is None:
            self.popen.terminate()
            try:
                self.popen.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        self.popen.stdout.close()


def start(stack, command, log_path):
    """Starts a program; it ends with the stack."""
    program = Program([str(word) for word in command], log_path)
    stack.callback(program.stop)
    return program


def run_once(command):
    """What a program prints, that ends by itself."""
    words = [str(word) for word in command]
    run = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         timeout=READY_TIMEOUT_S, check=False)
    if run.returncode != 0:
        raise Failure(f"{' '.join(words)} ended with {run.returncode}: {run.stderr.strip()}")
    return run.stdout


def wait_until(asked, what, log_path, timeout_s=READY_TIMEOUT_S, every_s=0.05):
    """Asks again and again until the answer is true; returns that answer."""
    end = time.monotonic() + timeout_s
    while True:
        got = asked()
        if got:
            return got
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {timeout_s} s, see {log_path}")
        time.sleep(every_s)


# HTTP


def ask(address, method, path, body=None):
    """One small request: (status, headers, text)."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=READY_TIMEOUT_S)
    try:
        headers = {"content-type": "application/json"} if body is not None else {}
        connection.request(method, path, body=json.dumps(body) if body is not None else None,
                           headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.getheaders(), answer.read().decode()
    finally:
        connection.close()


def get_json(address, path):
    return json.loads(ask(address, "GET", path)[2])


def metrics(address, *names):
    """The values of some metrics without labels, in this order."""
    values = dict(line.rsplit(" ", 1) for line in ask(address, "GET", "/metrics")[2].splitlines()
                  if line and not line.startswith("#"))
    return [float(values.get(name, 0)) for name in names]


# Ports and DNS


def is_free(host, port, kind):
    with socket.socket(socket.AF_INET, kind) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(hosts, count):
    """Ports that are free at all of these hosts, for TCP and UDP."""
    found = []
    room = PORT_LAST - PORT_FIRST + 1
    for i in range(room):
        port = PORT_FIRST + (os.getpid() * 17 + i) % room
        if all(is_free(host, port, kind) for host in hosts
               for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)):
            found.append(port)
        if len(found) == count:
            return found
    raise Failure(f"there are no {count} free ports on {', '.join(hosts)}")


def resolves(address, name):
    """How many addresses a DNS server knows of a name; 0 without an answer."""
    host, _, port = address.rpartition(":")
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = struct.pack(">6H", 1, 0x100, 1, 0, 0, 0) + labels + struct.pack(">BHH", 0, 1, 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(DNS_ANSWER_S)
        try:
            udp.connect((host, int(port)))
            udp.send(question)
            return struct.unpack(">H", udp.recv(512)[6:8])[0]
        except (OSError, struct.error):
            return 0


def start_dns(stack, name, hosts, logs):
    """A DNS server on loopback that gives a name these addresses: IP:PORT."""
    if not os.access(DNSMASQ, os.X_OK):
        raise Failure("there is no dnsmasq; on Debian: apt-get install dnsmasq-base")
    port, = free_ports(["127.0.0.1"], 1)
    listed = logs / "hosts"
    listed.write_text("".join(f"{host} {name}\n" for host in hosts))
    listed.chmod(0o644)  # dnsmasq gives up root
    domain = name.rpartition(".")[2]
    server = start(stack, [DNSMASQ, "--no-daemon", "--conf-file=/dev/null", "--no-resolv",
                           "--no-hosts", "--listen-address=127.0.0.1", "--bind-interfaces",
                           "--pid-file=", f"--local=/{domain}/", f"--port={port}",
                           f"--addn-hosts={listed}", "--user=root"], logs / "dnsmasq.log")
    for _ in range(DNS_TRIES):
        if server.popen.poll() is not None:
            raise Failure(f"dnsmasq ended at once, see {server.log_path}")
        if resolves(f"127.0.0.1:{port}", name) == len(hosts):
            return f"127.0.0.1:{port}"
        time.sleep(0.05)
    raise Failure(f"dnsmasq does not answer, see {server.log_path}")
