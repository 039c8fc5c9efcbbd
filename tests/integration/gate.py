"""A TCP port in front of another one, shut for some processes: what a network
does that lets only some of the nodes through."""
import os
import pathlib
import socket
import threading

import harness

PIECE = 1 << 16


def inodes_of(port, gate_port):
    """Of the socket at that port that is connected to the gate's."""
    found = set()
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            ports = [int(fields[i].rpartition(":")[2], 16) for i in (1, 2)]
            if ports == [port, gate_port]:
                found.add(f"socket:[{fields[9]}]")
    return found


def holds(pid, inodes):
    folder = f"/proc/{pid}/fd"
    for fd in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{fd}") in inodes:
                return True
        except FileNotFoundError:
            continue
    return False


class Gate:
    """`target`: (host, port). address: where it listens."""

    def __init__(self, target):
        self.target = target
        self.lock = threading.Lock()
        self.shut_for = set()
        self.pairs = []  # (inodes of who came, both sockets)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self):
        return f"tcp://{self.address[0]}:{self.address[1]}"

    def shut(self, pid):
        with self.lock:
            self.shut_for.add(pid)
            for inodes, sockets in self.pairs:
                if holds(pid, inodes):
                    self._cut(sockets)

    def open(self, pid):
        with self.lock:
            self.shut_for.discard(pid)

    def close(self):
        self.listener.close()
        with self.lock:
            for _, sockets in self.pairs:
                self._cut(sockets)

    @staticmethod
    def _cut(sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _accept(self):
        while True:
            try:
                client, (_, port) = self.listener.accept()
            except OSError:
                return
            inodes = inodes_of(port, self.address[1])
            with self.lock:
                if any(holds(pid, inodes) for pid in self.shut_for):
                    client.close()
                    continue
                try:
                    server = socket.create_connection(self.target, harness.IO_TIMEOUT_S)
                except OSError:
                    client.close()
                    continue
                self.pairs.append((inodes, (client, server)))
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self._carry, args=(a, b), daemon=True).start()

    def _carry(self, source, sink):
        try:
            while piece := source.recv(PIECE):
                sink.sendall(piece)
        except OSError:
            pass
        self._cut((source, sink))
