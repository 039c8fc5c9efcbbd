"""A real DNS server for tests: dnsmasq on a free loopback port."""
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import harness

DNSMASQ = shutil.which("dnsmasq") or "/usr/sbin/dnsmasq"
TRIES = 20  # somebody may take the port first
# Below the ports that the kernel gives to whoever connects or asks for any:
# such a port may be taken at one address of loopback and free at another. The
# stand-in engine takes rows of them from 20480 on.
PORTS = range(10240, 20480)
claims = []  # held until this program ends


def claim(port):
    """Whether no test that runs now has got the port from here: the claim is an
    abstract socket, which leaves no file behind."""
    held = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        held.bind(f"\0kvasir-test-port-{port}")
    except OSError:
        held.close()
        return False
    claims.append(held)
    return True


def is_free(host, port):
    """Whether nobody had the port there a moment ago, for UDP or TCP."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as udp, \
            socket.socket(family, socket.SOCK_STREAM) as tcp:
        try:
            udp.bind((host, port))
            tcp.bind((host, port))
        except OSError:
            return False
    return True


def free_port(*hosts):
    """A port that was free at all of these addresses a moment ago, and that no
    other test gets meanwhile."""
    for _ in range(TRIES):
        port = random.choice(PORTS)
        if all(is_free(host, port) for host in hosts or ["127.0.0.1"]) and claim(port):
            return port
    raise RuntimeError(f"none of {TRIES} ports was free")


def free_ports(count):
    """The first of so many ports in a row at 127.0.0.1, like free_port()'s."""
    for _ in range(TRIES):
        first = random.choice(PORTS[:-count])
        if all(is_free("127.0.0.1", port) and claim(port) for port in range(first, first + count)):
            return first
    raise RuntimeError(f"none of {TRIES} rows of {count} ports was free")


def query(name):
    """The question for a name's A records, as bytes of one datagram."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00" + labels + b"\x00\x00\x01\x00\x01"


class Dns:
    """Answers for *.test, from {name: [addresses]}. `address` is IP:PORT. The
    options are dnsmasq's."""

    def __init__(self, case, hosts, *options):
        if not pathlib.Path(DNSMASQ).exists():
            raise unittest.SkipTest("no dnsmasq, see deploy/packages")
        self.hosts_path = pathlib.Path(tempfile.mkstemp(prefix="hosts-", dir=case.folder)[1])
        self.options = options
        self.process = None
        case.addCleanup(self.stop)
        self.write(hosts)
        for _ in range(TRIES):
            self.port = free_port()
            self.process = self.start()
            if self.answers():
                self.address = f"127.0.0.1:{self.port}"
                return
            self.stop()
        raise RuntimeError("dnsmasq does not answer")

    def start(self):
        return subprocess.Popen(
            [DNSMASQ, "--no-daemon", "--conf-file=/dev/null", "--no-resolv", "--no-hosts",
             "--listen-address=127.0.0.1", "--bind-interfaces", "--pid-file=", "--local=/test/",
             "--local-ttl=0", "--user=root", f"--port={self.port}",
             f"--addn-hosts={self.hosts_path}", *self.options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def write(self, hosts):
        self.hosts_path.write_text("127.0.0.1 there.test\n" + "".join(
            f"{address} {name}\n" for name, found in hosts.items() for address in found))

    def answers(self):
        """Whether it is this server that answers on the port, and knows us."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.connect(("127.0.0.1", self.port))
            udp.settimeout(0.1)

            def ask():
                if self.process.poll() is not None:
                    return "ended"
                try:
                    udp.send(query("there.test"))
                    return udp.recv(512)
                except (socket.timeout, ConnectionRefusedError):
                    return None

            return harness.wait_until(ask, "dnsmasq answers or ends") != "ended"

    def set(self, hosts):
        """Other answers from now on."""
        self.write(hosts)
        self.process.send_signal(signal.SIGHUP)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
