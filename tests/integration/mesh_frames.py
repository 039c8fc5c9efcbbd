"""A stranger's ear: takes what a node sends to an address, as NNG's PULL would,
and reads the frames with nothing but msgpack."""
import io
import socket
import struct
import threading

import msgpack

import harness

PULL = b"\0SP\0\0\x51\0\0"
HEAD = struct.Struct("<4sBBBBQQIIQ")
HELLO, DATA = 1, 3
MEMBERSHIP = 1


class Ear:
    """Listens on a free port; frames() waits for so many."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.heard = []
        self.changed = threading.Condition()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._listen, args=[connection], daemon=True).start()

    def _listen(self, connection):
        with connection, connection.makefile("rb") as stream:
            connection.sendall(PULL)
            stream.read(len(PULL))
            while len(size := stream.read(8)) == 8:
                frame = stream.read(struct.unpack(">Q", size)[0])
                with self.changed:
                    self.heard.append(frame)
                    self.changed.notify_all()

    def wait_for(self, wanted, timeout_s=harness.IO_TIMEOUT_S):
        """The first frame for which wanted(type, maps) is true."""
        def found():
            return next((read for read in map(read_frame, self.heard) if wanted(read)), None)
        with self.changed:
            self.changed.wait_for(lambda: found() is not None, timeout_s)
            return found()

    def close(self):
        self.listener.close()


def read_frame(frame):
    """(major version, type, the objects of its body)."""
    magic, major, _, kind, head, *_ = HEAD.unpack_from(frame)
    assert magic == b"KVSR", frame[:40]
    return major, kind, list(msgpack.Unpacker(io.BytesIO(frame[head:])))
