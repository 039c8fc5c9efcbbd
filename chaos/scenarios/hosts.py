"""Hosts of their own on this machine: network namespaces, a wire between them,
and the programs that run in them. Nothing here knows of Kvasir.

All that is made carries the run's id in its name (kv-ID-HOST), so that
clean_up() finds what a run left behind, whatever became of that run. Programs
die with the one that started them. Nothing but the standard library.
"""
import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

PREFIX = "kv-"
NAMESPACES = pathlib.Path("/run/netns")
OURS = re.compile(rf"{PREFIX}([0-9a-f]+)[0-9a-f]{{3}}-")  # of a process, and when
SUBNET = "10.77.0."
READY_S = 60  # sanitizers and shared machines are slow
IO_S = 20
PATIENCE_S = 120  # for questions that must be answered at last: see patiently()
STOP_S = 40

_libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
CLONE_NEWTIME = 0x00000080
PR_SET_PDEATHSIG = 1


def why_not():
    """Why nothing of this works here, in words; None: it does."""
    if os.geteuid() != 0:
        return "needs root"
    for tool in ("ip", "dnsmasq"):
        if not find(tool):
            return f"needs {tool}, see deploy/packages"
    name = f"{PREFIX}{run_id()}-try"
    made = subprocess.run([find("ip"), "netns", "add", name], capture_output=True, check=False)
    if made.returncode != 0:
        return "no network namespaces here: " + made.stderr.decode().strip()
    try:
        link = ip("-n", name, "link", "add", "name", "p0", "type", "veth", "peer", "name", "p1",
                  check=False)
        return None if link.returncode == 0 else "no veth here: " + link.stderr.strip()
    finally:
        ip("netns", "del", name)


def find(tool):
    return shutil.which(tool, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def ip(*words, check=True):
    done = subprocess.run([find("ip"), *map(str, words)], capture_output=True, text=True,
                          check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"ip {' '.join(map(str, words))}: {done.stderr.strip()}")
    return done


def wait_until(predicate, what, timeout_s=30.0):
    """Asks until the answer is true: (that answer, seconds it took)."""
    start = time.monotonic()
    pause = threading.Event()
    while True:
        got = predicate()
        if got:
            return got, time.monotonic() - start
        if time.monotonic() - start > timeout_s:
            raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")
        pause.wait(0.02)


def patiently(ask, timeout_s=PATIENCE_S):
    """What ask() returns. It is asked again while single answers are too late: on a
    machine that has much else to do that is no fault of who is asked."""
    end = time.monotonic() + timeout_s
    while True:
        try:
            return ask()
        except (TimeoutError, subprocess.TimeoutExpired) as late:
            if time.monotonic() > end:
                raise TimeoutError(f"again and again: {late}") from None


def die_with_parent(number=signal.SIGKILL):
    """This process gets that signal when the one that started it ends."""
    _libc.prctl(PR_SET_PDEATHSIG, number)


def setns(fd, kind=CLONE_NEWNET):
    if _libc.setns(fd, kind) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def shift_clock(seconds):
    """This process's monotonic clock is ahead from now on; it has one thread."""
    if _libc.unshare(CLONE_NEWTIME) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    with open("/proc/self/timens_offsets", "w") as offsets:
        offsets.write(f"monotonic {seconds} 0\nboottime {seconds} 0\n")
    space = os.open("/proc/self/ns/time_for_children", os.O_RDONLY)
    setns(space, CLONE_NEWTIME)
    os.close(space)


class Program:
    """A program that runs in a namespace; it dies with us."""

    def __init__(self, host, args, log_path, ready=True, ahead_s=0, env=None):
        self.name = pathlib.Path(args[0]).name
        self.log_path = log_path
        space = os.open(NAMESPACES / host.space, os.O_RDONLY)

        def enter():
            setns(space)
            die_with_parent()
            os.setpgid(0, 0)  # a ^C is ours to deal with
            if ahead_s:
                shift_clock(ahead_s)

        try:
            with open(log_path, "ab") as log:
                self.popen = subprocess.Popen(
                    list(map(str, args)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=log, preexec_fn=enter, cwd="/", env={**os.environ, **(env or {})})
        finally:
            os.close(space)
        self.out = b""
        if ready:
            self.wait_ready()

    @property
    def pid(self):
        return self.popen.pid

    @property
    def runs(self):
        return self.popen.poll() is None

    def wait_ready(self):
        fd = self.popen.stdout.fileno()
        os.set_blocking(fd, False)

        def line():
            with contextlib.suppress(BlockingIOError):
                self.out += os.read(fd, 4096)
            if not self.runs:
                raise RuntimeError(f"{self.name} ended with {self.popen.returncode} before it was "
                                   f"ready\n{self.log()[-2000:]}")
            return b"\n" in self.out
        wait_until(line, f"{self.name} is ready", READY_S)
        os.set_blocking(fd, True)

    def log(self):
        return pathlib.Path(self.log_path).read_text(errors="replace")

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        """As a crash would: no goodbye."""
        if self.runs:
            self.popen.kill()
        self.popen.wait(STOP_S)

    def close(self):
        self.kill()
        self.popen.stdout.close()


class Host:
    """A namespace with one interface on the wire. `disturb`: see Wire."""

    def __init__(self, net, name, number):
        self.net = net
        self.name = name
        self.space = f"{PREFIX}{net.run_id}-{name}"
        self.address = SUBNET + str(number)
        ip("netns", "add", self.space)
        with self.inside():
            # Nobody speaks IPv6 here: its chatter would only blur the counts.
            pathlib.Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        # One packet is one frame, so that what is lost is a packet.
        ip("-n", self.space, "link", "add", "name", "eth0", "gso_max_segs", "1", "type", "veth",
           "peer", "name", name, "netns", net.wire_space)
        ip("-n", self.space, "addr", "add", f"{self.address}/24", "dev", "eth0")
        ip("-n", self.space, "link", "set", "eth0", "up")
        ip("-n", self.space, "link", "set", "lo", "up")
        ip("-n", net.wire_space, "link", "set", name, "up")

    def move(self, address):
        """It has that address and no other from now on, and tells everybody, as
        hosts do."""
        with self.inside():
            pathlib.Path("/proc/sys/net/ipv4/conf/all/arp_notify").write_text("1")
        ip("-n", self.space, "link", "set", "eth0", "down")
        ip("-n", self.space, "addr", "flush", "dev", "eth0")
        ip("-n", self.space, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", self.space, "link", "set", "eth0", "up")
        self.address = address

    @contextlib.contextmanager
    def inside(self):
        """What this thread opens meanwhile belongs to the namespace."""
        home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        try:
            space = os.open(NAMESPACES / self.space, os.O_RDONLY)
            try:
                setns(space)
            finally:
                os.close(space)
            try:
                yield
            finally:
                setns(home)
        finally:
            os.close(home)

    def run(self, *args, ready=True, log=None, ahead_s=0, env=None):
        path = self.net.folder / f"{log or self.name}.log"
        program = Program(self, args, path, ready, ahead_s, env)
        self.net.programs.append(program)
        return program

    def connect(self, address, port, timeout_s=IO_S):
        """A TCP connection from here."""
        with self.inside():
            s = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        s.settimeout(timeout_s)
        try:
            s.connect((address, port))
        except TimeoutError:
            s.close()
            raise TimeoutError(f"{self.name}: no connection to {address}:{port} within "
                               f"{timeout_s:.0f} s") from None
        except OSError:
            s.close()
            raise
        return s

    def request(self, address, port, method, path, body=None, timeout_s=IO_S, **headers):
        """One HTTP request from here: (status, headers, body)."""
        connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
        connection.sock = self.connect(address, port, timeout_s)
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               {"content-type": "application/json", **headers})
            answer = connection.getresponse()
            headers = {k.lower(): v for k, v in answer.getheaders()}
            return answer.status, headers, answer.read()
        except TimeoutError:
            raise TimeoutError(f"{self.name}: no answer to {method} {address}:{port}{path} within "
                               f"{timeout_s:.0f} s") from None
        finally:
            connection.close()


class Clock:
    """The clocks of a program that is started with this `env`; they change
    while it runs. See chaos/wire/clock_shim.c."""

    def __init__(self, path, library):
        self.path = path
        self.wall_s, self.monotonic_s = 0, 0
        # A sanitizer wants to come first, and need not.
        options = os.environ.get("ASAN_OPTIONS", "")
        self.env = {"LD_PRELOAD": str(library), "KVASIR_CHAOS_CLOCK": str(path),
                    "ASAN_OPTIONS": f"{options}:verify_asan_link_order=0".lstrip(":")}
        self.set()

    def set(self, wall_s=None, monotonic_s=None):
        """Ahead by so many seconds from now on; None: as before."""
        self.wall_s = self.wall_s if wall_s is None else wall_s
        self.monotonic_s = self.monotonic_s if monotonic_s is None else monotonic_s
        with open(self.path, "r+b" if self.path.exists() else "wb") as file:
            file.write(struct.pack("=qq", self.wall_s, self.monotonic_s))


class Heap:
    """How much heap a program that is started with this `env` holds. See
    chaos/wire/heap_shim.c."""

    def __init__(self, path, library):
        self.path = path
        self.path.write_bytes(bytes(16))
        self.env = {"LD_PRELOAD": str(library), "KVASIR_CHAOS_HEAP": str(path)}

    def held_bytes(self):
        taken, given = struct.unpack("=QQ", self.path.read_bytes())
        return taken - given


class Wire:
    """What is between the hosts; see kvasir-wire --help."""

    def __init__(self, net, binary, seed):
        self.net = net
        self.path = net.folder / "wire"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        # By a path: names without one end at the border of a namespace.
        self.socket.bind(str(net.folder / "wire-answers"))
        self.socket.settimeout(PATIENCE_S)  # asked twice, it would answer twice
        ports = [word for name in net.hosts for word in ("--port", name)]
        space = type("", (), {"space": net.wire_space})
        self.program = Program(space, [binary, "--control", self.path, "--seed", seed, *ports],
                               net.folder / "wire.log")
        net.programs.append(self.program)

    def say(self, *lines):
        """The counts, as a dictionary."""
        self.socket.sendto("\n".join(lines).encode(), str(self.path))
        try:
            answer = self.socket.recv(4096).decode()
        except TimeoutError:
            raise TimeoutError(f"the wire does not answer to {lines}") from None
        if not answer.startswith("ok"):
            raise ValueError(f"{answer} in {lines}")
        return {k: int(v) for k, v in (word.split("=") for word in answer.split()[1:])}

    def disturb(self, froms, tos, both=True, **settings):
        """Sets the links between two lists of hosts (names, `*`)."""
        words = " ".join(f"{key}={int(value)}" for key, value in settings.items())
        pairs = [(a, b) for a in froms for b in tos if a != b or a == "*"]
        pairs += [(b, a) for a, b in pairs] if both else []
        self.say(*[f"link {a} {b} {words}" for a, b in pairs])

    def bytes(self, froms, tos):
        """What was carried between these and those so far, both ways."""
        return self.say(*[f"bytes {x} {y}" for a in froms for b in tos
                          for x, y in ((a, b), (b, a))])["bytes"]

    def sever(self, froms, tos, both=True):
        self.disturb(froms, tos, both, severed=1)

    def heal(self):
        self.say("reset")

    def close(self):
        self.socket.close()


class Net:
    """The hosts of one run. Use with `with`: it leaves nothing behind."""

    def __init__(self, names, wire_binary, seed=1):
        self.run_id = run_id()
        self.wire_space = f"{PREFIX}{self.run_id}-wire"
        self.names = names
        self.wire_binary = wire_binary
        self.seed = seed
        self.hosts = {}
        self.programs = []
        self.mounts = []
        self.wire = None
        self.folder = None

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{PREFIX}{self.run_id}-"))
        try:
            ip("netns", "add", self.wire_space)
            for number, name in enumerate(self.names, 1):
                self.hosts[name] = Host(self, name, number)
            self.wire = Wire(self, self.wire_binary, self.seed)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def small_disk(self, name, size_bytes):
        """A file system of that size: its folder."""
        folder = self.folder / name
        folder.mkdir()
        self.mounts.append(folder)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", f"{PREFIX}{self.run_id}",
                        str(folder)], check=True)
        return folder

    def close(self):
        # Who is impatient waits for this: what is left out stays behind.
        ours = {signal.SIGINT, signal.SIGTERM}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, ours)
        try:
            self.remove_all()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def remove_all(self):
        for program in reversed(self.programs):
            with contextlib.suppress(ProcessLookupError):
                program.signal(signal.SIGCONT)
            program.close()
        if self.wire:
            self.wire.close()
        for folder in filter(pathlib.Path.is_mount, self.mounts):
            subprocess.run(["umount", "-l", str(folder)], check=False)
        self.programs, self.mounts, self.wire = [], [], None
        # Hosts that were half made, too.
        for space in NAMESPACES.glob(f"{PREFIX}{self.run_id}-*"):
            ip("netns", "del", space.name, check=False)
        self.hosts = {}
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder = None


def run_id():
    """Of a run of this process."""
    return f"{os.getpid():x}{time.monotonic_ns() // 1000 % 0xfff:03x}"


def goes_on(name):
    """Whether the run that named something so is still going on."""
    pid = int(OURS.match(name)[1], 16)
    try:
        return b"netns" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def left_behind(all_runs=False):
    """(namespaces, folders) of runs that are over; of all of them."""
    temporary = pathlib.Path(tempfile.gettempdir())
    return [sorted(p for p in folder.glob(f"{PREFIX}*")
                   if OURS.match(p.name) and (all_runs or not goes_on(p.name)))
            for folder in (NAMESPACES, temporary)]


def clean_up(say=print, all_runs=False):
    """Ends and removes what runs left behind; how many things."""
    spaces, folders = left_behind(all_runs)
    for space in spaces:
        for pid in ip("netns", "pids", space.name, check=False).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        ip("netns", "del", space.name, check=False)
        say(f"removed {space}")
    for folder in folders:
        for mount in folder.iterdir():
            if mount.is_mount():
                subprocess.run(["umount", "-l", str(mount)], check=False)
        shutil.rmtree(folder, ignore_errors=True)
        say(f"removed {folder}")
    return len(spaces) + len(folders)
